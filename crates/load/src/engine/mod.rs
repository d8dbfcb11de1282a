//! The engine: threads and connections that send the requests of a [`Traffic`] at the instants of a schedule.
//!
//! ```text
//!   run()            resolves names, starts the threads at one instant, joins their measurements
//!     core           one thread's state machine, on a given clock and given connections
//!       sockets      epoll and a precise wait
//!     watch          the generator's own CPU, lateness, steal
//!   Control          live rate, stop, live figures; shared with the observers of the run
//! ```
//!
//! Invariants: a thread owns its connections and its traffic. Threads share only the live rate and the stop flag while
//! they send, and only read them. There is no async runtime.

mod config;
mod connection;
mod control;
pub(crate) mod core;
pub(crate) mod join;
pub mod net;
mod sockets;
mod watch;

pub use config::{
    CONNECTIONS_MAX, Config, DEPTH_MAX, HostShare, Load, Reconnect, SLICES_MAX, Sampler, THREADS_MAX, Wait,
};
pub use control::{Control, Live, RECENT_MAX, RunPhase};
pub use watch::{
    BUSY_SHARE_MAX, GeneratorUse, Limit, PREEMPTED_SHARE_MAX, STEAL_SHARE_MAX, ThreadUse, UseSlice, limits,
};

use crate::measure::{Histogram, RawSlice, Snapshot, Totals};
use crate::traffic::Traffic;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

/// The stream of a run that a traffic belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadStream {
    /// The bulk load.
    Bulk,
    /// The latency sampler.
    Sampler,
}

/// The thread that a traffic is created for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficThread {
    /// The stream of the thread.
    pub stream: LoadStream,
    /// Number of the thread within the stream.
    pub thread: usize,
    /// Number of threads of the stream.
    pub threads: usize,
    /// Number of connections of this thread.
    pub connections: usize,
}

/// The rule by which requests were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoopKind {
    /// By a schedule.
    Open,
    /// By replies.
    Closed,
    /// Without waiting for replies.
    Blind,
}

/// The way in which a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The requested time was over.
    Complete,
    /// All requests were answered before the requested time was over.
    Exhausted,
    /// The user stopped the run; the figures cover the shortened run.
    Stopped,
    /// No connection was up at the end; the figures cover what was measured before.
    Deserted,
    /// One of several hosts was lost; the figures cover what is known.
    HostLost,
}

/// The share of one host in a run on several hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostRun {
    /// The host's name: the address of its agent.
    pub name: String,
    /// Length of the host's measured part in nanoseconds.
    pub measured_ns: u64,
    /// The host's counts.
    pub totals: Totals,
    /// Replies per second that arrived within the host's measured part.
    pub achieved_per_s: f64,
    /// The host's response times.
    pub response: Histogram,
    /// The lateness of the host's generator.
    pub lateness: Histogram,
    /// Use of the host's threads and machine over time.
    pub used: Vec<UseSlice>,
    /// Reasons why the host's generator was the bottleneck; empty if it was not.
    pub limits: Vec<Limit>,
    /// The offset of the host's clock from this host's clock before the run.
    pub clock: HostClock,
    /// The reason why the host was lost before the end, if it was. Its figures are then those that it had reported
    /// before.
    pub lost: Option<String>,
}

/// The offsets of another host's clocks from this host's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostClock {
    /// The shortest round trip, in nanoseconds.
    pub round_trip_ns: u64,
    /// Largest possible error of the agreed start on that host, in nanoseconds.
    pub uncertainty_ns: u64,
    /// The other host's wall clock minus this host's, in milliseconds.
    pub wall_offset_ms: i64,
}

/// The measurements of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The rule by which requests were sent.
    pub kind: LoopKind,
    /// The way in which the run ended.
    pub ending: Ending,
    /// Earliest instant at which the first request could be due, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Measurements of the bulk load.
    pub bulk: Snapshot,
    /// Measurements of the latency sampler, if there was one.
    pub sampler: Option<Snapshot>,
    /// The resources that the generator itself used.
    pub watched: GeneratorUse,
    /// Reasons why the generator was the bottleneck; empty if it was not.
    pub limits: Vec<Limit>,
    /// For a run on several hosts, each host's share. The other fields then cover all hosts together.
    #[serde(skip)]
    pub hosts: Vec<HostRun>,
}

/// The connection of one host's run to the coordinator.
pub struct Together<'a> {
    /// Called when the connections are up. Returns the instant at which the run starts; `None` cancels the run.
    pub start: &'a mut dyn FnMut() -> Option<Instant>,
    /// Receives every complete slice of the load's timeline, all threads together. Slices are dropped while the channel
    /// is full.
    pub slices: SyncSender<RawSlice>,
}

/// The reason why a run did not take place.
#[derive(Debug)]
pub enum Error {
    /// The configuration is invalid; all faults, each with its remedy.
    Config(Vec<String>),
    /// A target's name cannot be resolved.
    Name {
        /// The target.
        target: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// No connection could be opened.
    Connect {
        /// The faults of the first attempts, one text per kind, with its remedy.
        faults: Vec<String>,
        /// True if a server replied each time, but refused the greeting.
        refused: bool,
    },
    /// One of several hosts cannot take part.
    Host {
        /// The host's name.
        name: String,
        /// The event and the remedy.
        what: String,
    },
    /// A thread could not start or continue.
    System {
        /// The failed action.
        doing: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(faults) => f.write_str(&faults.join("\n")),
            Self::Name { target, error } => write!(f, "{target}: {error}; check the name, or write an IP address"),
            Self::Connect { faults, refused: true } => {
                write!(f, "the server refused every connection: {}", faults.join("; "))
            }
            Self::Connect { faults, refused: false } => {
                write!(f, "cannot open a connection: {}", faults.join("; "))
            }
            Self::Host { name, what } => write!(f, "agent {name}: {what}"),
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// Runs `config` to its end and returns the measurements. `make_traffic` is called once in each thread. In an open loop
/// `control` sets the rate.
///
/// # Errors
/// If the configuration is invalid, a name cannot be resolved, no connection can be opened, or the system refuses a
/// resource to a thread. Later failures are part of the figures.
pub fn run<T: Traffic>(
    config: &Config,
    make_traffic: impl Fn(TrafficThread) -> T + Sync,
    control: &Control,
) -> Result<Run, Error> {
    let faults = config.faults();
    if !faults.is_empty() {
        return Err(Error::Config(faults));
    }
    join::run(config, &make_traffic, control, None)
}

/// Runs `config` as [`run`] does, as one of several hosts.
///
/// # Errors
/// As for [`run`]; also if the coordinator cancels the start.
pub fn run_together<T: Traffic>(
    config: &Config,
    make_traffic: impl Fn(TrafficThread) -> T + Sync,
    control: &Control,
    together: Together<'_>,
) -> Result<Run, Error> {
    let faults = config.faults();
    if !faults.is_empty() {
        return Err(Error::Config(faults));
    }
    join::run(config, &make_traffic, control, Some(together))
}

#[cfg(test)]
mod tests;
