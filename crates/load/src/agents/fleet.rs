//! The coordinator, which combines several agents into one run.

use std::collections::HashMap;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use base::clock::UnixMillis;

use super::clock::{ClockRound, Estimate, HostClock};
use super::greet::{self, About, Sender};
use super::join::{Gathered, Reported, empty, joined};
use super::split::split;
use super::wire::{AgentRequests, Prepare, ToAgent, ToCoordinator};
use crate::engine::{Config, Control, Ending, Error, RECENT_MAX, Run, RunPhase, SLICES_MAX, join::add_totals};
use crate::measure::{RawSlice, Timeline, Totals};
use crate::result::Machine;
use crate::workload::Workload;
use crate::workload::file::Password;

/// Highest number of agents in one run.
pub const AGENTS_MAX: usize = 64;
/// Time limit for a connection to an agent.
const CONNECT: Duration = Duration::from_secs(5);
/// Interval between two `Alive` messages, and between two checks of the run's progress.
const ALIVE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);
/// Time limit for agents to make their connections, in addition to the time limit of each connection.
const READY: Duration = Duration::from_secs(60);
/// Time limit for an agent to report its clock.
const CLOCK: Duration = Duration::from_secs(5);
/// Number of clock questions to each agent before a run.
const ROUNDS: u64 = 8;
/// Shortest time between the sending of the start message and the start. If the allowed error of the start is
/// larger, it replaces this time, because the hosts may be distant or busy.
const START_AHEAD_NS: u64 = 100_000_000;
/// Time limit for an agent's result after the end of a run.
const RESULT: Duration = Duration::from_secs(60);
/// Highest number of agents' messages that wait to be processed.
const EVENTS_MAX: usize = 1024;

/// Limits that a coordinator sets for its agents.
#[derive(Clone, Copy, Debug)]
pub struct FleetLimits {
    /// Largest allowed error of the agreed start on an agent.
    pub uncertainty_max: Duration,
    /// An agent that sends nothing for this long counts as lost.
    pub silence_max: Duration,
}

impl Default for FleetLimits {
    fn default() -> Self {
        Self { uncertainty_max: Duration::from_millis(20), silence_max: Duration::from_secs(10) }
    }
}

/// Several agents that carry out one run together. Dropping the fleet releases them.
#[derive(Debug)]
pub struct Fleet {
    agents: Vec<Remote>,
    events: Receiver<AgentEvent>,
    clock: HostClock,
    run: u64,
    settings: FleetLimits,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The coordinator's view of one agent.
#[derive(Debug)]
struct Remote {
    name: String,
    sender: Arc<Sender>,
    about: About,
    /// Time of the agent's last message, by this host's clock, in nanoseconds.
    heard_ns: Arc<AtomicU64>,
    lost: Option<String>,
}

/// A message of an agent, or the end of its connection.
#[derive(Debug)]
struct AgentEvent {
    agent: usize,
    at_ns: u64,
    what: Result<ToCoordinator, String>,
}

impl Fleet {
    /// Connects to the agents at `addresses`. Threads are numbered in the order of the addresses.
    ///
    /// # Errors
    /// One line, with a remedy, for each agent that cannot be used.
    pub fn connect(addresses: &[String], token: Option<&[u8]>, settings: FleetLimits) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        if addresses.is_empty() || addresses.len() > AGENTS_MAX {
            return Err(vec![format!("{} agents are listed; pass 1 to {AGENTS_MAX}", addresses.len())]);
        }
        for (at, address) in addresses.iter().enumerate() {
            if addresses[..at].contains(address) {
                faults.push(format!("agent {address}: the address is listed twice; pass each address once"));
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let (clock, stop) = (HostClock::default(), Arc::new(AtomicBool::new(false)));
        let (events_out, events) = sync_channel(EVENTS_MAX);
        let (mut agents, mut threads) = (Vec::new(), Vec::new());
        for address in addresses {
            let greeted = reach(address).and_then(|stream| greet::agent(stream, token));
            let ((sender, receiver), about) = match greeted {
                Ok(greeted) => greeted,
                Err(why) => {
                    faults.push(format!("agent {address}: {why}"));
                    continue;
                }
            };
            let heard_ns = Arc::new(AtomicU64::new(clock.now_ns()));
            let sender = Arc::new(sender);
            let reader = AgentReader { agent: agents.len(), receiver, clock, heard_ns: heard_ns.clone() };
            let (out, stopped, alive) = (events_out.clone(), stop.clone(), sender.clone());
            let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
                std::thread::Builder::new().name(name.to_owned()).spawn(body)
            };
            let quiet = stop.clone();
            let spawned = spawn("agent-in", Box::new(move || reader.read(&out, &stopped)))
                .and_then(|thread| Ok([thread, spawn("agent-alive", Box::new(move || stay(&alive, &quiet)))?]));
            match spawned {
                Ok(both) => threads.extend(both),
                Err(error) => faults.push(format!("agent {address}: cannot start a thread for it ({error})")),
            }
            agents.push(Remote { name: address.clone(), sender, about, heard_ns, lost: None });
        }
        let fleet = Self { agents, events, clock, run: 0, settings, stop, threads };
        if faults.is_empty() { Ok(fleet) } else { Err(faults) }
    }

    /// Returns the address, build and machine of each agent.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, &str, &Machine)> {
        self.agents.iter().map(|agent| (agent.name.as_str(), agent.about.program.as_str(), &agent.about.machine))
    }

    /// Runs `config` on all agents, as [`crate::engine::run`] does on this host. The threads of all agents send the
    /// requests of `workload`.
    ///
    /// # Errors
    /// If the shares are invalid, or if an agent is lost or cannot run before the start. Later failures are part of the
    /// returned run.
    pub fn run(
        &mut self,
        config: &Config,
        control: &Control,
        workload: &Workload,
        kind: AgentRequests,
    ) -> Result<Run, Error> {
        self.run += 1;
        let outcome = self.prepare(config, control, workload, kind).and_then(|()| self.started(config, control));
        if outcome.is_err() {
            self.broadcast(&ToAgent::Stop { run: self.run });
        }
        outcome
    }

    fn prepare(
        &mut self,
        config: &Config,
        control: &Control,
        workload: &Workload,
        kind: AgentRequests,
    ) -> Result<(), Error> {
        if let Some(lost) = self.agents.iter().find(|agent| agent.lost.is_some()) {
            return Err(lost.error("the connection was lost"));
        }
        let shares = split(config, self.agents.len()).map_err(Error::Config)?;
        let mut workload = workload.clone();
        workload.threads = (config.threads * self.agents.len()) as u32;
        workload.connections = config.connections as u32;
        let text = workload.to_toml(Password::Written);
        for (agent, config) in self.agents.iter().zip(shares) {
            let prepare = Prepare {
                run: self.run,
                config,
                kind,
                workload: text.clone(),
                rate_per_s: control.rate_per_s(),
                now_unix_ms: UnixMillis::now().0,
            };
            agent.sender.send(&ToAgent::Prepare(Box::new(prepare))).map_err(|why| agent.error(&why))?;
        }
        let patience = READY + Duration::from_nanos(config.connect_timeout_ns);
        let (mut ready, deadline_ns) = (vec![false; self.agents.len()], self.clock.now_ns() + nanos(patience));
        while !ready.iter().all(|ready| *ready) && !control.is_stopped() {
            self.silent()?;
            let Some(event) = self.next(LOOK) else {
                if self.clock.now_ns() > deadline_ns {
                    let late = ready.iter().position(|ready| !ready).unwrap_or(0);
                    return Err(
                        self.agents[late].error("the agent was not ready within a minute; see the agent's output")
                    );
                }
                continue;
            };
            match event.what {
                Ok(ToCoordinator::Ready { run }) if run == self.run => ready[event.agent] = true,
                Ok(ToCoordinator::Failed { run, why }) if run == self.run => {
                    return Err(self.agents[event.agent].error(&why));
                }
                Ok(_) => {}
                Err(why) => return Err(self.lose(event.agent, why)),
            }
        }
        Ok(())
    }

    /// Agrees on the start and follows the run to its end.
    fn started(&mut self, config: &Config, control: &Control) -> Result<Run, Error> {
        if control.is_stopped() {
            self.broadcast(&ToAgent::Stop { run: self.run });
            return Ok(empty(config, UnixMillis::now().0));
        }
        let clocks = (0..self.agents.len()).map(|agent| self.query_clock(agent)).collect::<Result<Vec<_>, Error>>()?;
        let longest_ns = clocks.iter().map(|(clock, _)| clock.round_trip_ns).max().unwrap_or(0);
        let ahead_ns = START_AHEAD_NS.max(nanos(self.settings.uncertainty_max)) + longest_ns;
        let start_ns = self.clock.now_ns() + ahead_ns;
        let started_unix_ms = UnixMillis::now().0 + ahead_ns / 1_000_000;
        for (agent, (clock, _)) in self.agents.iter().zip(&clocks) {
            let start = ToAgent::Start { run: self.run, at_ns: clock.there_ns(start_ns) };
            agent.sender.send(&start).map_err(|why| agent.error(&why))?;
        }
        let gathered = self.agents.iter().zip(clocks).map(|(agent, (clock, wall_offset_ms))| Gathered {
            name: agent.name.clone(),
            clock,
            wall_offset_ms,
            over: None,
            reported: Reported::default(),
            lost: None,
        });
        let following = Following {
            config,
            control,
            start_ns,
            gathered: gathered.collect(),
            timeline: timeline(config, self.agents.len()),
            totals: Totals::default(),
            seen: 0,
            rate_per_s: control.rate_per_s(),
            is_stopped: false,
        };
        following.follow(self, started_unix_ms)
    }

    /// Returns the offset of an agent's clock from this host's clock, and the agent's wall clock in milliseconds.
    fn query_clock(&mut self, agent: usize) -> Result<(Estimate, i64), Error> {
        let mut sent: HashMap<u64, u64> = HashMap::new();
        let (mut rounds, mut walls) = (Vec::new(), Vec::new());
        while (rounds.len() as u64) < ROUNDS {
            let (number, sent_ns) = (self.run << 16 | rounds.len() as u64, self.clock.now_ns());
            sent.insert(number, sent_ns);
            let remote = &self.agents[agent];
            remote.sender.send(&ToAgent::Clock { number }).map_err(|why| remote.error(&why))?;
            loop {
                let waited_ns = self.clock.now_ns() - sent_ns;
                if waited_ns > nanos(CLOCK) {
                    return Err(self.agents[agent].error("the agent does not report its clock"));
                }
                let Some(event) = self.next(LOOK) else { continue };
                match event.what {
                    Ok(ToCoordinator::Clock { number: reported, at_ns, unix_ms })
                        if event.agent == agent && reported == number =>
                    {
                        rounds.push(ClockRound { sent_ns, there_ns: at_ns, back_ns: event.at_ns });
                        walls.push(unix_ms as i64 - UnixMillis::now().0 as i64);
                        break;
                    }
                    Ok(ToCoordinator::Failed { run, why }) if run == self.run => {
                        return Err(self.agents[event.agent].error(&why));
                    }
                    Ok(_) => {}
                    Err(why) => return Err(self.lose(event.agent, why)),
                }
            }
        }
        let estimate = Estimate::of(&rounds).expect("there were rounds");
        let most = self.settings.uncertainty_max;
        if estimate.uncertainty_ns > nanos(most) {
            let (off, trip) = (estimate.uncertainty_ns as f64 / 1e6, estimate.round_trip_ns as f64 / 1e6);
            return Err(self.agents[agent].error(&format!(
                "its start could be {off:.1} ms off, because the shortest round trip took {trip:.1} ms; {} ms are \
                 allowed; use hosts that are closer, or allow more with --clock-error-max",
                most.as_millis()
            )));
        }
        // Each reading is too low by at most the reply's travel time, so the highest reading is the best.
        Ok((estimate, walls.into_iter().max().unwrap_or(0)))
    }

    fn next(&self, patience: Duration) -> Option<AgentEvent> {
        self.events.recv_timeout(patience).ok()
    }

    /// Marks an agent as lost and returns the error.
    fn lose(&mut self, agent: usize, why: String) -> Error {
        let remote = &mut self.agents[agent];
        remote.sender.close();
        let error = remote.error(&why);
        remote.lost.get_or_insert(why);
        error
    }

    /// Returns the first agent that has sent nothing for too long.
    fn first_silent(&self) -> Option<(usize, String)> {
        let now_ns = self.clock.now_ns();
        let most = self.settings.silence_max;
        let silent = self.agents.iter().position(|agent| {
            let heard_ns = agent.heard_ns.load(Ordering::Relaxed);
            agent.lost.is_none() && now_ns.saturating_sub(heard_ns) > nanos(most)
        });
        silent.map(|agent| (agent, format!("the agent has sent nothing for {} s", most.as_secs_f64())))
    }

    fn silent(&mut self) -> Result<(), Error> {
        match self.first_silent() {
            Some((agent, why)) => Err(self.lose(agent, why)),
            None => Ok(()),
        }
    }

    /// Sends `message` to all connected agents. A reader thread notices an agent whose connection has failed.
    fn broadcast(&self, message: &ToAgent) {
        for agent in self.agents.iter().filter(|agent| agent.lost.is_none()) {
            let _ = agent.sender.send(message);
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for agent in &self.agents {
            agent.sender.close();
        }
        // Releases reader threads that wait for room in the queue of events.
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            while self.events.try_recv().is_ok() {}
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Remote {
    fn error(&self, what: &str) -> Error {
        Error::Host { name: self.name.clone(), what: what.to_owned() }
    }
}

fn nanos(span: Duration) -> u64 {
    span.as_nanos() as u64
}

/// Connects to the agent at `address`.
fn reach(address: &str) -> Result<TcpStream, String> {
    let wrong = |error: std::io::Error| {
        format!("cannot connect ({error}); start an agent there: gannet load agent --listen HOST:PORT --token FILE")
    };
    link::connect_tcp(address, CONNECT).map_err(wrong)
}

/// Sends `Alive` messages until `stop` is set.
fn stay(sender: &Sender, stop: &AtomicBool) {
    let mut waited = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        waited += LOOK;
        if waited >= ALIVE {
            waited = Duration::ZERO;
            if sender.send(&ToAgent::Alive).is_err() {
                sender.close();
                return;
            }
        }
    }
}

/// Receives the messages of one agent.
struct AgentReader {
    agent: usize,
    receiver: greet::Receiver,
    clock: HostClock,
    heard_ns: Arc<AtomicU64>,
}

impl AgentReader {
    fn read(mut self, out: &SyncSender<AgentEvent>, stop: &AtomicBool) {
        loop {
            let mut wait = || {
                if stop.load(Ordering::Relaxed) { Err("the coordinator released the agent".to_owned()) } else { Ok(()) }
            };
            let what = self.receiver.read(&mut wait);
            let at_ns = self.clock.now_ns();
            self.heard_ns.store(at_ns, Ordering::Relaxed);
            if matches!(what, Ok(ToCoordinator::Alive)) {
                continue;
            }
            let is_last = what.is_err();
            let event = AgentEvent { agent: self.agent, at_ns, what };
            if out.send(event).is_err() || is_last {
                return;
            }
        }
    }
}

fn timeline(config: &Config, agents: usize) -> Timeline {
    let end_ns = config.warm_up_ns.saturating_add(config.duration_ns);
    Timeline::new(agents, config.slice_ns, config.warm_up_ns, end_ns)
}

/// A run in progress.
struct Following<'a> {
    config: &'a Config,
    control: &'a Control,
    start_ns: u64,
    gathered: Vec<Gathered>,
    timeline: Timeline,
    totals: Totals,
    seen: usize,
    rate_per_s: f64,
    /// True after the coordinator has asked the agents to stop.
    is_stopped: bool,
}

impl Following<'_> {
    fn follow(mut self, fleet: &mut Fleet, started_unix_ms: u64) -> Result<Run, Error> {
        let length_ns = self.config.warm_up_ns.saturating_add(self.config.duration_ns);
        let last_ns = self.start_ns.saturating_add(length_ns).saturating_add(self.config.drain_ns);
        let last_ns = last_ns.saturating_add(self.config.timeout_ns).saturating_add(nanos(RESULT));
        while self.gathered.iter().any(|one| one.over.is_none() && one.lost.is_none()) {
            self.show_phase(fleet.clock.now_ns());
            self.pass_on(fleet);
            if let Some(event) = fleet.next(LOOK) {
                self.take(fleet, event);
            }
            while let Some((agent, why)) = fleet.first_silent() {
                self.lose(fleet, agent, why);
            }
            if fleet.clock.now_ns() > last_ns {
                for agent in 0..self.gathered.len() {
                    self.lose(
                        fleet,
                        agent,
                        "the agent sent no result within a minute after the end of the run".to_owned(),
                    );
                }
            }
        }
        self.control.show(|live| live.phase = RunPhase::Over);
        let timeline = self.timeline.finish();
        Ok(joined(self.config, self.gathered, timeline, started_unix_ms, self.control.is_stopped()))
    }

    /// Sends the agents a new rate or a stop request.
    fn pass_on(&mut self, fleet: &Fleet) {
        let rate_per_s = self.control.rate_per_s();
        if rate_per_s.to_bits() != self.rate_per_s.to_bits() {
            self.rate_per_s = rate_per_s;
            fleet.broadcast(&ToAgent::Rate { run: fleet.run, per_s: rate_per_s });
        }
        if self.control.is_stopped() && !self.is_stopped {
            self.is_stopped = true;
            fleet.broadcast(&ToAgent::Stop { run: fleet.run });
        }
    }

    fn take(&mut self, fleet: &mut Fleet, event: AgentEvent) {
        let agent = event.agent;
        match event.what {
            Ok(ToCoordinator::Slice { run, slice }) if run == fleet.run => self.slice(fleet, agent, *slice),
            Ok(ToCoordinator::Over { run, measured, achieved_per_s }) if run == fleet.run => {
                if measured.ending == Ending::Stopped && !self.is_stopped {
                    self.lose_for_now(fleet, agent, "the run was stopped on the agent's host".to_owned());
                }
                self.gathered[agent].over = Some((*measured, achieved_per_s));
            }
            Ok(ToCoordinator::Failed { run, why }) if run == fleet.run => self.lose_for_now(fleet, agent, why),
            Ok(_) => {}
            Err(why) => self.lose(fleet, agent, why),
        }
    }

    /// Marks an agent as lost and ends the run; the other agents stop soon.
    fn lose(&mut self, fleet: &mut Fleet, agent: usize, why: String) {
        fleet.lose(agent, why.clone());
        self.lose_for_now(fleet, agent, why);
    }

    /// Marks an agent as lost for this run.
    fn lose_for_now(&mut self, fleet: &Fleet, agent: usize, why: String) {
        let one = &mut self.gathered[agent];
        if one.over.is_none() && one.lost.is_none() {
            let after_s = fleet.clock.now_ns().saturating_sub(self.start_ns) as f64 / 1e9;
            one.lost = Some(format!("{why}, {after_s:.1} s after the start"));
            self.is_stopped = true;
            fleet.broadcast(&ToAgent::Stop { run: fleet.run });
        }
    }

    fn slice(&mut self, fleet: &mut Fleet, agent: usize, raw: RawSlice) {
        if raw.number >= SLICES_MAX {
            return self.lose(
                fleet,
                agent,
                "the agent reports a timeline slice that is not part of the run".to_owned(),
            );
        }
        self.gathered[agent].reported.add(&raw, self.config);
        add_totals(&mut self.totals, &raw);
        self.timeline.add(raw);
        let slices = self.timeline.slices();
        if slices.len() == self.seen {
            return;
        }
        self.seen = slices.len();
        let elapsed_ns = fleet.clock.now_ns().saturating_sub(self.start_ns);
        let recent = &slices[slices.len().saturating_sub(RECENT_MAX)..];
        self.control.show(|live| {
            live.elapsed_ns = elapsed_ns;
            live.totals = self.totals;
            live.response.clone_from(self.timeline.response());
            live.recent = recent.to_vec();
            live.verbs.clear();
            live.verbs.extend_from_slice(self.timeline.verbs());
        });
    }

    fn show_phase(&self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        let end_ns = self.config.warm_up_ns.saturating_add(self.config.duration_ns);
        let phase = match elapsed_ns {
            0 => RunPhase::Connecting,
            now if now < self.config.warm_up_ns => RunPhase::WarmUp,
            now if now < end_ns && !self.control.is_stopped() => RunPhase::Measuring,
            _ => RunPhase::Draining,
        };
        self.control.show(|live| {
            live.phase = phase;
            live.elapsed_ns = elapsed_ns;
        });
    }
}
