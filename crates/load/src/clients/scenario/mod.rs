//! Plays a scenario of the client libraries against a running server: calls, and the results that they must have.
//!
//! ```text
//!   file ──> steps: call, wait_ms, faults ──> calls: request ──> client ──> server
//!                                             calls: result  <── client <──
//!                   expect == result, or the play ends with the step's number
//! ```
//!
//! `conformance/clients/scenarios/README.md` describes the files. The generator has no queue of requests, no retries
//! and no near cache, and it does not start the server: a scenario that has such steps is refused before its first
//! call.

mod calls;
mod client;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use toml::{Table, Value};

use client::{CallClient, CallRequest};

/// The deadline of a call of a scenario that names none.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(15);

/// The pause before a call with `within_ms` is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(10);

/// The keys of a step with `call`.
const CALL_KEYS: [&str; 9] =
    ["call", "arguments", "cache", "deadline_ms", "within_ms", "at_least_ms", "at_most_ms", "client", "expect"];

/// A scenario that the generator can play.
#[derive(Debug)]
pub struct Scenario {
    /// The name of the scenario.
    pub name: String,
    deadline: Duration,
    steps: Vec<Table>,
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// If the text is not a scenario, or has steps that only client libraries can play. The text names the step.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Table = toml::from_str(text).map_err(|error| error.to_string())?;
        let name = file.get("name").and_then(Value::as_str).ok_or("the scenario has no `name`")?.to_owned();
        let mut deadline = DEADLINE_DEFAULT;
        for (key, value) in file.get("client").and_then(Value::as_table).into_iter().flatten() {
            match (key.as_str(), value.as_integer()) {
                ("deadline_ms", Some(ms)) => deadline = millis(ms)?,
                ("retry_count", Some(0)) => {}
                _ => return Err(of_libraries(&format!("`client.{key}`"))),
            }
        }
        if file.contains_key("server") {
            return Err(of_libraries("`server`"));
        }
        let steps = file.get("steps").and_then(Value::as_array).ok_or("the scenario has no `steps`")?;
        let mut all = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let of_step = |cause: String| format!("step {}: {cause}", at + 1);
            let step = step.as_table().ok_or_else(|| of_step("is no table".to_owned()))?;
            check(step).map_err(of_step)?;
            all.push(step.clone());
        }
        Ok(Self { name, deadline, steps: all })
    }

    /// Plays the scenario against a server. Returns the number of steps.
    ///
    /// # Errors
    /// If the connection fails, or a result differs from the expected one. The text names the step.
    pub fn play(&self, address: SocketAddr) -> Result<usize, String> {
        let mut play = Play {
            own: CallClient::connect(address)?,
            other: CallClient::connect(address)?,
            deadline: self.deadline,
            metadata: Vec::new(),
        };
        for (at, step) in self.steps.iter().enumerate() {
            play.step(at, step).map_err(|cause| format!("step {}: {cause}", at + 1))?;
        }
        Ok(self.steps.len())
    }
}

fn of_libraries(what: &str) -> String {
    format!("{what} needs a client library; play this scenario with one of `clients/`")
}

fn millis(ms: i64) -> Result<Duration, String> {
    u64::try_from(ms).map(Duration::from_millis).map_err(|_| format!("a time of {ms} ms is negative"))
}

/// Returns the time of a key in a step, if the step has it.
fn millis_of(step: &Table, key: &str) -> Result<Option<Duration>, String> {
    let Some(value) = step.get(key) else { return Ok(None) };
    millis(value.as_integer().ok_or_else(|| format!("`{key}` is no integer"))?).map(Some)
}

/// Checks that the generator can play a step.
fn check(step: &Table) -> Result<(), String> {
    if step.contains_key("call") && !step.contains_key("start") {
        if let Some(key) = step.keys().find(|key| !CALL_KEYS.contains(&key.as_str())) {
            return Err(format!("the key `{key}` is unknown"));
        }
        if step.get("client").is_some_and(|client| client.as_str() != Some("other")) {
            return Err("`client` is not \"other\"".to_owned());
        }
        step.get("expect").and_then(Value::as_table).ok_or("the call has no `expect`")?;
        return parts(step).and_then(|(call, arguments)| calls::request(call, &arguments)).map(drop);
    }
    match step.keys().next().map(String::as_str) {
        Some("wait_ms" | "faults") if step.len() == 1 => Ok(()),
        Some(key) => Err(of_libraries(&format!("`{key}`"))),
        None => Err("it has no key".to_owned()),
    }
}

/// Returns the call of a step, and its arguments.
fn parts(step: &Table) -> Result<(&str, Table), String> {
    let call = step.get("call").and_then(Value::as_str).ok_or("`call` is no text")?;
    Ok((call, step.get("arguments").and_then(Value::as_table).cloned().unwrap_or_default()))
}

/// The state of a scenario that is played.
struct Play {
    own: CallClient,
    other: CallClient,
    deadline: Duration,
    /// The metadata of the last step with `faults`.
    metadata: Vec<(String, String)>,
}

impl Play {
    fn step(&mut self, at: usize, step: &Table) -> Result<(), String> {
        if let Some(wait) = millis_of(step, "wait_ms")? {
            std::thread::sleep(wait);
            return Ok(());
        }
        if let Some(faults) = step.get("faults").and_then(Value::as_table) {
            self.metadata = faults.iter().map(|(name, value)| (name.clone(), plain_text(value))).collect();
            if !faults.is_empty() {
                // The server counts faults by this name.
                self.metadata.push(("request-id".to_owned(), format!("step {at} of {}", std::process::id())));
            }
            return Ok(());
        }
        let begun = Instant::now();
        let until = begun + millis_of(step, "within_ms")?.unwrap_or(Duration::ZERO);
        loop {
            let differs = self.compare(step, begun);
            match differs {
                Err(_) if Instant::now() < until => std::thread::sleep(REPEAT_PAUSE),
                result => return result,
            }
        }
    }

    /// Executes the call of a step that began at the instant `begun`, and compares its result.
    fn compare(&mut self, step: &Table, begun: Instant) -> Result<(), String> {
        let (call, arguments) = parts(step)?;
        let (path, message) = calls::request(call, &arguments)?;
        let is_other = step.contains_key("client");
        let request = CallRequest {
            path: &path,
            cache: step.get("cache").and_then(Value::as_str).unwrap_or("default"),
            metadata: if is_other { &[] } else { &self.metadata[..] },
            message: &message,
            deadline: millis_of(step, "deadline_ms")?.unwrap_or(self.deadline),
        };
        let reply = if is_other { self.other.call(&request)? } else { self.own.call(&request)? };
        let (took, result) = (begun.elapsed(), calls::result(call, &reply)?);
        let is_error = result.contains_key("code");
        if is_error && reply.text.is_empty() {
            return Err(format!("the error of {call} has no text"));
        }
        let expected = step.get("expect").and_then(Value::as_table).cloned().unwrap_or_default();
        for (field, value) in &expected {
            let is_met = match field.as_str() {
                "remaining_ms_min" => result.get("remaining_ms").and_then(Value::as_integer) >= value.as_integer(),
                "remaining_ms_max" => {
                    let remaining_ms = result.get("remaining_ms").and_then(Value::as_integer);
                    remaining_ms.is_some() && remaining_ms <= value.as_integer()
                }
                _ => result.get(field) == Some(value),
            };
            if !is_met {
                return Err(format!("{call}: `{field}` must be {value}; the result is {result:?} {}", reply.text));
            }
        }
        let (least, most) = (millis_of(step, "at_least_ms")?, millis_of(step, "at_most_ms")?);
        if least.is_some_and(|least| took < least) || most.is_some_and(|most| took > most) {
            return Err(format!("{call} took {} ms, which is not within its bounds", took.as_millis()));
        }
        Ok(())
    }
}

/// Returns a value of metadata as text.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenario_with_steps_of_libraries_is_refused_with_its_step() {
        for (steps, fault) in [
            ("[[steps]]\nwait_ms = 1\n[[steps]]\nmetrics = { queued = 1 }\n", "step 2: `metrics` needs a client"),
            ("[[steps]]\nserver = \"kill\"\n", "step 1: `server` needs a client library"),
            ("[client]\nretry_count = 2\n[[steps]]\nwait_ms = 1\n", "`client.retry_count` needs a client library"),
            ("[[steps]]\ncall = \"get\"\narguments = { key = \"k\" }\n", "step 1: the call has no `expect`"),
            (
                "[[steps]]\ncall = \"get\"\narguments = { key = \"k\", keys = 1 }\nexpect = { type = \"miss\" }\n",
                "step 1: the argument keys is unknown",
            ),
            (
                "[[steps]]\ncall = \"lease_get\"\narguments = { key = \"k\" }\nexpect = { type = \"won\" }\n",
                "step 1: the call lease_get is not one that the generator makes",
            ),
        ] {
            let error = Scenario::parse(&format!("name = \"s\"\n{steps}")).expect_err(steps);
            assert!(error.starts_with(fault), "{error}");
        }
    }
}
