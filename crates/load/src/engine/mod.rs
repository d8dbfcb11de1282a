//! Threads, connections, bytes out and in: carries a [`Traffic`]'s requests at the instants of a schedule.
//!
//! ```text
//!   run()            looks names up, starts the threads, sets one start for all, joins what they measured
//!     core           one thread's state machine, on a clock and connections that are handed to it
//!       sockets      epoll and a precise wait
//!     watch          the generator's own CPU, lateness, steal
//!   Control          live rate, stop, live figures; shared with the observers of the run
//! ```
//!
//! Invariants: a thread owns its connections and its traffic; nothing is shared on the way of a request but the live
//! rate and the stop flag, which are read. No async runtime.

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

/// Which stream of a run a traffic is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadStream {
    /// The load.
    Bulk,
    /// The latency sampler.
    Sampler,
}

/// The thread that a traffic is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficThread {
    /// Which stream.
    pub stream: LoadStream,
    /// Number of the thread within the stream.
    pub thread: usize,
    /// Threads of the stream.
    pub threads: usize,
    /// Connections of this thread.
    pub connections: usize,
}

/// The way in which requests were let out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoopKind {
    /// By a schedule.
    Open,
    /// By answers.
    Closed,
    /// Without waiting for answers.
    Blind,
}

/// The way in which a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// After the time asked for.
    Complete,
    /// All requests asked for were answered before.
    Exhausted,
    /// It was stopped: the figures cover what was.
    Stopped,
    /// No connection was up at the end: the figures cover what was.
    Deserted,
    /// One of several hosts was lost: the figures cover what is known.
    HostLost,
}

/// The share of one of several hosts in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostRun {
    /// Its name: where its agent listens.
    pub name: String,
    /// Length of its measured part in nanoseconds.
    pub measured_ns: u64,
    /// Its counts.
    pub totals: Totals,
    /// Its answers a second that came within the measured part.
    pub achieved_per_s: f64,
    /// Its response times.
    pub response: Histogram,
    /// Its own lateness.
    pub lateness: Histogram,
    /// The use of its threads and its machine over time.
    pub used: Vec<UseSlice>,
    /// Why it was the limit; empty: it was not.
    pub limits: Vec<Limit>,
    /// The offset of its clock from ours before the run.
    pub clock: HostClock,
    /// Why it was lost before the end, if it was; its figures are those that it had reported until then.
    pub lost: Option<String>,
}

/// The offsets of a host's clocks from ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostClock {
    /// The shortest way there and back, in nanoseconds.
    pub round_trip_ns: u64,
    /// By how much the agreed start may be off on that host, in nanoseconds.
    pub uncertainty_ns: u64,
    /// Its wall clock less ours, in milliseconds.
    pub wall_offset_ms: i64,
}

/// The measurements of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The way in which requests were let out.
    pub kind: LoopKind,
    /// The way in which it ended.
    pub ending: Ending,
    /// Earliest instant at which the first request could be due, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The load.
    pub bulk: Snapshot,
    /// The latency sampler, where there was one.
    pub sampler: Option<Snapshot>,
    /// The resources that the generator itself used.
    pub watched: GeneratorUse,
    /// Why the generator was the limit; empty: it was not.
    pub limits: Vec<Limit>,
    /// Of a run of several hosts: each of them. What is above is then all of them together.
    #[serde(skip)]
    pub hosts: Vec<HostRun>,
}

/// A host's part in a run of several.
pub struct Together<'a> {
    /// Asked when the connections are up: the instant at which the run starts. `None`: it does not.
    pub start: &'a mut dyn FnMut() -> Option<Instant>,
    /// Every slice of the load's timeline when it is whole, all threads together. Slices that it has no room for are
    /// left out.
    pub slices: SyncSender<RawSlice>,
}

/// Why there was no run.
#[derive(Debug)]
pub enum Error {
    /// The configuration is impossible; every error with its remedy.
    Config(Vec<String>),
    /// A target's name is not known.
    Name {
        /// The target.
        target: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// No connection could be made.
    Connect {
        /// The results of the first attempts, one text a kind of failure, with its remedy.
        faults: Vec<String>,
        /// A server was there each time, and refused what a connection says first.
        refused: bool,
    },
    /// One of several hosts cannot take part.
    Host {
        /// Its name.
        name: String,
        /// The event, and the remedy.
        what: String,
    },
    /// A thread could not begin or go on.
    System {
        /// The action that failed.
        doing: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(faults) => f.write_str(&faults.join("\n")),
            Self::Name { target, error } => write!(f, "{target}: {error}; check the name, or write an address"),
            Self::Connect { faults, refused: true } => {
                write!(f, "no connection was accepted: {}", faults.join("; "))
            }
            Self::Connect { faults, refused: false } => {
                write!(f, "no connection could be made: {}", faults.join("; "))
            }
            Self::Host { name, what } => write!(f, "agent {name}: {what}"),
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// Runs `config` to its end and returns what it measured. `make_traffic` is called once in each thread. In an open
/// loop the rate is the one that `control` asks for.
///
/// # Errors
/// When the configuration cannot be run, a name is unknown, no connection can be made, or the system refuses a
/// thread what it needs. Everything that goes wrong later is part of the figures.
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

/// Returns what [`run`] does, as one of several hosts.
///
/// # Errors
/// As [`run`]; and when there is no start.
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
