//! Plays a scenario of the client libraries: calls, subscriptions, and the results that they must have.
//!
//! ```text
//!   file ──> steps ──> calls: request ──> client: queue, retries ──> connection ──> server
//!                      calls: result  <── client                <── connection <──   ^
//!            steps ──> subscription ────────────────────────────────^                 │
//!            steps ──> server: pause, resume, kill, stop, start ──────────────────────┤
//!            steps ──> relay before the server: forward, hold, swallow ───────────────┘
//!            expect == result, or the play ends with the step's number
//! ```
//!
//! `conformance/clients/scenarios/README.md` describes the files. The generator has no near cache: a scenario with one
//! is refused before its first step. A server that the generator did not start is neither paused nor ended.

mod calls;
mod client;
mod connection;
mod relay;
mod server;
mod subscription;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use toml::{Table, Value};

use client::{CallClient, CallReply, CallRequest, ClientOptions};
use relay::Relay;
use server::Server;
use subscription::{Metadata, Subscription, TopicEvent, TopicRequest};

/// The pause before a call with `within_ms` is repeated, and between two checks of the metrics.
const REPEAT_PAUSE: Duration = Duration::from_millis(10);

/// Time limit for the metrics to become those that a step expects.
const METRICS_WAIT_MAX: Duration = Duration::from_secs(2);

/// Time limit for an event of a subscription, and for the start of a call.
const EVENT_WAIT_MAX: Duration = Duration::from_secs(10);

/// The number of connections of a server that a scenario does not limit.
const CONNECTIONS_MAX_DEFAULT: i64 = 2000;

/// The keys of a step, the first of which says what it does, and those that it may have besides.
const STEPS: [(&str, &[&str]); 12] = [
    ("finish", &["expect", "at_least_ms", "at_most_ms"]),
    ("start", &["call", "arguments", "cache", "deadline_ms"]),
    ("call", &["arguments", "cache", "deadline_ms", "within_ms", "at_least_ms", "at_most_ms", "client", "expect"]),
    ("subscribe", &["arguments", "cache"]),
    ("receive", &["expect", "at_least_ms", "at_most_ms"]),
    ("cancel", &[]),
    ("wait_ms", &[]),
    ("server", &[]),
    ("network", &[]),
    ("metrics", &[]),
    ("faults", &[]),
    ("hold_connections", &[]),
];

/// The server that a scenario is played on.
#[derive(Clone, Debug)]
pub enum ScenarioServer {
    /// A running server, at the address of its gRPC port.
    Running(SocketAddr),
    /// A server of the scenario's own, which this program starts with its command `serve`.
    Own(PathBuf),
}

/// A scenario that the generator can play.
#[derive(Debug)]
pub struct Scenario {
    /// The name of the scenario.
    pub name: String,
    options: ClientOptions,
    connections_max: i64,
    needs_own_server: bool,
    steps: Vec<Table>,
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// If the text is not a scenario, or has parts that only client libraries can play. The text names the step.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Table = toml::from_str(text).map_err(|error| error.to_string())?;
        let name = file.get("name").and_then(Value::as_str).ok_or("the scenario has no `name`")?.to_owned();
        let options = options(file.get("client").and_then(Value::as_table))?;
        let mut connections_max = CONNECTIONS_MAX_DEFAULT;
        for (key, value) in file.get("server").and_then(Value::as_table).into_iter().flatten() {
            match (key.as_str(), value.as_integer()) {
                ("connections_max", Some(count)) => connections_max = count,
                _ => return Err(format!("`server.{key}` is unknown, or not an integer")),
            }
        }
        let mut needs_own_server = file.contains_key("server");
        let mut all = Vec::new();
        let steps = file.get("steps").and_then(Value::as_array).ok_or("the scenario has no `steps`")?;
        for (at, step) in steps.iter().enumerate() {
            let of_step = |cause: String| format!("step {}: {cause}", at + 1);
            let step = step.as_table().ok_or_else(|| of_step("is no table".to_owned()))?;
            check(step).map_err(of_step)?;
            needs_own_server |= step.contains_key("server");
            all.push(step.clone());
        }
        Ok(Self { name, options, connections_max, needs_own_server, steps: all })
    }

    /// Checks that the scenario can be played on a server.
    ///
    /// # Errors
    /// If the scenario pauses, ends or limits its server, and is given a running one.
    pub fn check_server(&self, server: &ScenarioServer) -> Result<(), String> {
        match server {
            ScenarioServer::Running(_) if self.needs_own_server => {
                let text = "the scenario pauses, ends or limits its server; leave --target out, so that it has its own";
                Err(text.to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Plays the scenario. Returns the number of steps.
    ///
    /// # Errors
    /// If the server does not start, or a result differs from the expected one. The text names the step.
    pub fn play(&self, server: &ScenarioServer) -> Result<usize, String> {
        self.check_server(server)?;
        let (address, own_server) = match server {
            ScenarioServer::Running(address) => (*address, None),
            ScenarioServer::Own(program) => {
                let started = Server::start(program, self.connections_max)?;
                (started.address, Some(started))
            }
        };
        let has_relay = self.steps.iter().any(|step| step.contains_key("network"));
        let relay = if has_relay { Some(Relay::start(address)?) } else { None };
        let mut play = Play {
            address,
            own: CallClient::new(relay.as_ref().map_or(address, |relay| relay.address), self.options),
            other: CallClient::new(address, ClientOptions::LAPTOP_V1),
            lease_tokens: [0; 2],
            metadata: Metadata::default(),
            started: HashMap::new(),
            subscriptions: HashMap::new(),
            held: Vec::new(),
            server: own_server,
            relay,
        };
        for (at, step) in self.steps.iter().enumerate() {
            play.step(at, step).map_err(|cause| format!("step {}: {cause}", at + 1))?;
        }
        Ok(self.steps.len())
    }
}

/// Returns the options of a client with the changes of a scenario.
fn options(changes: Option<&Table>) -> Result<ClientOptions, String> {
    let mut options = ClientOptions::LAPTOP_V1;
    for (key, value) in changes.into_iter().flatten() {
        let fault = || format!("`client.{key}` is {value}, which the generator does not know");
        if key == "preset" {
            value.as_str().filter(|name| *name == "Laptop.v1").ok_or_else(fault)?;
            continue;
        }
        if key == "near_cache" {
            let text = "the scenario is about the near cache, which only client libraries have; play it with one of \
                        `clients/`";
            return Err(text.to_owned());
        }
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok()).ok_or_else(fault)?;
        match key.as_str() {
            "deadline_ms" => options.deadline = Duration::from_millis(number),
            "requests_in_flight_max" => options.requests_in_flight_max = number as usize,
            "requests_queued_max" => options.requests_queued_max = number as usize,
            "retry_count" => options.retry_count = number,
            _ => return Err(fault()),
        }
    }
    Ok(options)
}

/// Returns the time of a key in a step, if the step has it.
fn millis_of(step: &Table, key: &str) -> Result<Option<Duration>, String> {
    let Some(value) = step.get(key) else { return Ok(None) };
    let ms = value.as_integer().ok_or_else(|| format!("`{key}` is no integer"))?;
    u64::try_from(ms).map(|ms| Some(Duration::from_millis(ms))).map_err(|_| format!("`{key}` is negative: {ms}"))
}

/// Returns the key that says what a step does.
fn action(step: &Table) -> Result<(&'static str, &'static [&'static str]), String> {
    let found = STEPS.into_iter().find(|(key, _)| step.contains_key(*key));
    found.ok_or_else(|| format!("none of the keys {:?} says what it does", step.keys().collect::<Vec<_>>()))
}

/// Checks a step.
fn check(step: &Table) -> Result<(), String> {
    let (what, more) = action(step)?;
    if let Some(key) = step.keys().find(|key| **key != what && !more.contains(&key.as_str())) {
        return Err(format!("the key `{key}` is unknown"));
    }
    if step.get("client").is_some_and(|client| client.as_str() != Some("other")) {
        return Err("`client` is not \"other\"".to_owned());
    }
    if matches!(what, "call" | "finish" | "receive") {
        step.get("expect").and_then(Value::as_table).ok_or_else(|| format!("the {what} has no `expect`"))?;
    }
    if matches!(what, "call" | "start") {
        let (call, arguments) = parts(step)?;
        calls::request(call, &arguments, 0).map(drop)?;
    }
    Ok(())
}

/// Returns the call of a step, and its arguments.
fn parts(step: &Table) -> Result<(&str, Table), String> {
    let call = text_of(step, "call")?;
    Ok((call, step.get("arguments").and_then(Value::as_table).cloned().unwrap_or_default()))
}

fn text_of<'t>(step: &'t Table, key: &str) -> Result<&'t str, String> {
    step.get(key).and_then(Value::as_str).ok_or_else(|| format!("`{key}` is no text"))
}

fn cache_of(step: &Table) -> String {
    step.get("cache").and_then(Value::as_str).unwrap_or("default").to_owned()
}

/// A call that a step has begun, and that another one finishes.
struct StartedCall {
    call: String,
    begun: Instant,
    cancelled: Arc<AtomicBool>,
    /// The reply, and the instant at which it arrived.
    reply: Receiver<(CallReply, Instant)>,
}

/// The state of a scenario that is played.
struct Play {
    address: SocketAddr,
    own: Arc<CallClient>,
    other: Arc<CallClient>,
    /// The tokens of the leases that the clients won last: the own one's, and the other one's.
    lease_tokens: [u64; 2],
    /// The metadata of the last step with `faults`.
    metadata: Metadata,
    started: HashMap<String, StartedCall>,
    subscriptions: HashMap<String, Subscription>,
    /// Connections that send nothing.
    held: Vec<TcpStream>,
    server: Option<Server>,
    /// The network path of the own client, if a step changes it.
    relay: Option<Relay>,
}

impl Play {
    fn step(&mut self, at: usize, step: &Table) -> Result<(), String> {
        match action(step)?.0 {
            "wait_ms" => std::thread::sleep(millis_of(step, "wait_ms")?.unwrap_or_default()),
            "server" => {
                let text = "the server is not the generator's own; leave --target out";
                return self.server.as_mut().ok_or(text)?.step(text_of(step, "server")?);
            }
            "network" => {
                let relay = self.relay.as_ref().ok_or("the client is connected to the server without a relay")?;
                return relay.step(text_of(step, "network")?);
            }
            "faults" => self.set_faults(at, step)?,
            "metrics" => return self.await_metrics(step),
            "hold_connections" => return self.hold_connections(step),
            "start" => return self.start(step),
            "finish" => return self.finish(step),
            "cancel" => {
                let name = text_of(step, "cancel")?;
                if self.subscriptions.remove(name).is_none() {
                    let started = self.started.get(name);
                    let started = started.ok_or_else(|| format!("no call and no subscription has the name {name}"))?;
                    started.cancelled.store(true, Ordering::Relaxed);
                }
            }
            "subscribe" => return self.subscribe(step),
            "receive" => return self.receive(step),
            _ => {
                let begun = Instant::now();
                let until = begun + millis_of(step, "within_ms")?.unwrap_or(Duration::ZERO);
                loop {
                    match self.call(step, begun) {
                        Err(_) if Instant::now() < until => std::thread::sleep(REPEAT_PAUSE),
                        result => return result,
                    }
                }
            }
        }
        Ok(())
    }

    fn set_faults(&mut self, at: usize, step: &Table) -> Result<(), String> {
        let faults = step.get("faults").and_then(Value::as_table).ok_or("`faults` is no table")?;
        let mut metadata: Vec<(String, String)> =
            faults.iter().map(|(name, value)| (name.clone(), plain_text(value))).collect();
        if !faults.is_empty() {
            // The server counts faults by this name.
            metadata.push(("request-id".to_owned(), format!("step {at} of {}", std::process::id())));
        }
        *self.metadata.lock().unwrap_or_else(PoisonError::into_inner) = metadata;
        Ok(())
    }

    fn metadata(&self) -> Vec<(String, String)> {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn await_metrics(&self, step: &Table) -> Result<(), String> {
        let expected = step.get("metrics").and_then(Value::as_table).ok_or("`metrics` is no table")?;
        let until = Instant::now() + METRICS_WAIT_MAX;
        loop {
            let metrics = self.own.metrics();
            let mut differs = None;
            for (name, value) in expected {
                let found = match name.as_str() {
                    "in_flight" => metrics.in_flight as u64,
                    "queued" => metrics.queued as u64,
                    "retries" => metrics.retries,
                    "resumes" => metrics.resumes,
                    _ => return Err(format!("the metric {name} is unknown to the generator")),
                };
                if value.as_integer().and_then(|value| u64::try_from(value).ok()) != Some(found) {
                    differs = Some(format!("the metric {name} must be {value}, and is {found}"));
                }
            }
            match differs {
                None => return Ok(()),
                Some(cause) if Instant::now() >= until => return Err(cause),
                Some(_) => std::thread::sleep(REPEAT_PAUSE),
            }
        }
    }

    fn hold_connections(&mut self, step: &Table) -> Result<(), String> {
        let count = step.get("hold_connections").and_then(Value::as_integer);
        let count = count.and_then(|count| usize::try_from(count).ok()).ok_or("`hold_connections` is no number")?;
        self.held.truncate(count);
        while self.held.len() < count {
            let held = TcpStream::connect(self.address);
            self.held.push(held.map_err(|error| format!("cannot connect to {}: {error}", self.address))?);
        }
        Ok(())
    }

    /// Returns the request of a step, and the place of its client in `lease_tokens`.
    fn request(&self, step: &Table) -> Result<(CallRequest, usize), String> {
        let (call, arguments) = parts(step)?;
        let of_client = usize::from(step.contains_key("client"));
        let (path, message) = calls::request(call, &arguments, self.lease_tokens[of_client])?;
        let request = CallRequest {
            path,
            cache: cache_of(step),
            metadata: if of_client == 0 { self.metadata() } else { Vec::new() },
            message,
            deadline: millis_of(step, "deadline_ms")?,
            is_repeatable: calls::is_repeatable(call),
        };
        Ok((request, of_client))
    }

    fn start(&mut self, step: &Table) -> Result<(), String> {
        let (name, (request, _)) = (text_of(step, "start")?.to_owned(), self.request(step)?);
        let (sender, reply) = channel();
        let (client, cancelled) = (Arc::clone(&self.own), Arc::new(AtomicBool::new(false)));
        let (begun, begun_before) = (Instant::now(), client.metrics().begun);
        let is_cancelled = Arc::clone(&cancelled);
        std::thread::spawn(move || {
            let reply = client.call(&request, &is_cancelled);
            // Fails only if the play has ended.
            drop(sender.send((reply, Instant::now())));
        });
        while self.own.metrics().begun == begun_before {
            if begun.elapsed() > EVENT_WAIT_MAX {
                return Err(format!("the call {name} is neither in flight nor queued"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.started.insert(name, StartedCall { call: parts(step)?.0.to_owned(), begun, cancelled, reply });
        Ok(())
    }

    fn finish(&mut self, step: &Table) -> Result<(), String> {
        let name = text_of(step, "finish")?;
        let started = self.started.remove(name).ok_or_else(|| format!("no call has the name {name}"))?;
        // Every call has a deadline.
        let (reply, ended) = started.reply.recv().map_err(|_| format!("the call {name} has failed"))?;
        let result = result_of(&started.call, &reply)?;
        compare(&started.call, &result, &reply.text, step)?;
        bounds(&started.call, ended.duration_since(started.begun), step)
    }

    /// Executes the call of a step that began at the instant `begun`, and compares its result.
    fn call(&mut self, step: &Table, begun: Instant) -> Result<(), String> {
        let (call, _) = parts(step)?;
        let (request, of_client) = self.request(step)?;
        let client = if of_client == 0 { &self.own } else { &self.other };
        let reply = client.call(&request, &AtomicBool::new(false));
        let (took, result) = (begun.elapsed(), result_of(call, &reply)?);
        if result.get("type").and_then(Value::as_str) == Some("won") {
            let token = result.get("token").and_then(Value::as_integer).unwrap_or_default();
            self.lease_tokens[of_client] = token.cast_unsigned();
        }
        compare(call, &result, &reply.text, step)?;
        bounds(call, took, step)
    }

    fn subscribe(&mut self, step: &Table) -> Result<(), String> {
        let name = text_of(step, "subscribe")?.to_owned();
        let topic = step.get("arguments").and_then(|arguments| arguments.get("topic")).and_then(Value::as_str);
        let topic = topic.ok_or("the argument topic is no text")?.to_owned();
        let request = TopicRequest { cache: cache_of(step), topic, metadata: Arc::clone(&self.metadata) };
        let mut subscription = Subscription::begin(Arc::clone(&self.own), request);
        // `receive` compares an end.
        let first = subscription.next(EVENT_WAIT_MAX);
        first.map_err(|_| format!("the subscription {name} has neither begun nor ended"))?;
        self.subscriptions.insert(name, subscription);
        Ok(())
    }

    fn receive(&mut self, step: &Table) -> Result<(), String> {
        let name = text_of(step, "receive")?;
        let subscription =
            self.subscriptions.get_mut(name).ok_or_else(|| format!("no subscription is named {name}"))?;
        let begun = Instant::now();
        let (result, text) = loop {
            let left = EVENT_WAIT_MAX.saturating_sub(begun.elapsed());
            let integer = |value: u64| Value::from(value.cast_signed());
            match subscription.next(left) {
                Ok(TopicEvent::Heartbeat) => {}
                Ok(TopicEvent::Item { value, sequence }) => {
                    let fields = [("value", Value::from(value)), ("sequence", integer(sequence))];
                    break (calls::typed("item", fields), String::new());
                }
                Ok(TopicEvent::Discontinuity { last_sequence, new_sequence }) => {
                    let fields = [("last_sequence", integer(last_sequence)), ("new_sequence", integer(new_sequence))];
                    break (calls::typed("discontinuity", fields), String::new());
                }
                Ok(TopicEvent::End((status, text))) => {
                    break (calls::typed("error", [("code", Value::from(calls::code_of(status)))]), text);
                }
                Err(RecvTimeoutError::Timeout) => return Err(format!("{name} received nothing in time")),
                Err(RecvTimeoutError::Disconnected) => return Err(format!("the subscription {name} has ended")),
            }
        };
        compare(name, &result, &text, step)?;
        bounds(name, begun.elapsed(), step)
    }
}

/// Returns the result of a call.
fn result_of(call: &str, reply: &CallReply) -> Result<Table, String> {
    let result = calls::result(call, reply)?;
    if result.contains_key("code") && reply.text.is_empty() {
        return Err(format!("the error of {call} has no text"));
    }
    Ok(result)
}

/// Compares a result with the fields that a step expects.
fn compare(what: &str, result: &Table, text: &str, step: &Table) -> Result<(), String> {
    for (field, value) in step.get("expect").and_then(Value::as_table).into_iter().flatten() {
        let remaining_ms = result.get("remaining_ms").and_then(Value::as_integer);
        let is_met = match field.as_str() {
            "remaining_ms_min" => remaining_ms >= value.as_integer(),
            "remaining_ms_max" => remaining_ms.is_some() && remaining_ms <= value.as_integer(),
            _ => result.get(field) == Some(value),
        };
        if !is_met {
            return Err(format!("{what}: `{field}` must be {value}; the result is {result:?} {text}"));
        }
    }
    Ok(())
}

/// Compares the time that a result took with the bounds of a step.
fn bounds(what: &str, took: Duration, step: &Table) -> Result<(), String> {
    let (least, most) = (millis_of(step, "at_least_ms")?, millis_of(step, "at_most_ms")?);
    if least.is_some_and(|least| took < least) || most.is_some_and(|most| took > most) {
        return Err(format!("{what} took {} ms, which is not within its bounds", took.as_millis()));
    }
    Ok(())
}

/// Returns a value of metadata as text.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_that_cannot_be_played_is_refused_with_its_step() {
        for (steps, fault) in [
            ("[[steps]]\nwait_ms = 1\n[[steps]]\nunknown = 1\n", "step 2: none of the keys [\"unknown\"]"),
            ("[[steps]]\nserver = \"kill\"\nwait_ms = 1\n", "step 1: the key `server` is unknown"),
            (
                "[client]\nnear_cache = { entries_max = 1, bytes_max = 1 }\n[[steps]]\nwait_ms = 1\n",
                "the scenario is about the near cache, which only client libraries have",
            ),
            ("[client]\nother = 1\n[[steps]]\nwait_ms = 1\n", "`client.other` is 1"),
            ("[[steps]]\ncall = \"get\"\narguments = { key = \"k\" }\n", "step 1: the call has no `expect`"),
            (
                "[[steps]]\ncall = \"get\"\narguments = { key = \"k\", keys = 1 }\nexpect = { type = \"miss\" }\n",
                "step 1: the argument keys is unknown",
            ),
            (
                "[[steps]]\ncall = \"lease_end\"\narguments = { key = \"k\" }\nexpect = { type = \"won\" }\n",
                "step 1: the call lease_end is unknown",
            ),
        ] {
            let error = Scenario::parse(&format!("name = \"s\"\n{steps}")).expect_err(steps);
            assert!(error.starts_with(fault), "{error}");
        }
    }

    #[test]
    fn scenario_that_ends_its_server_leaves_a_running_one_alone() {
        let scenario = Scenario::parse("name = \"s\"\n[[steps]]\nserver = \"kill\"\n").expect("a scenario");
        let running = ScenarioServer::Running(SocketAddr::from(([127, 0, 0, 1], 1)));
        let error = scenario.play(&running).expect_err("the server is not the scenario's own");
        assert!(error.contains("leave --target out"), "{error}");
    }
}
