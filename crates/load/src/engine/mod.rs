//! Threads, connections, bytes out and in: carries a [`Traffic`]'s requests at the instants of a schedule.
//!
//! ```text
//!   run()            looks names up, starts the threads, sets one start for all, joins what they measured
//!     core           one thread's state machine, on a clock and connections that are handed to it
//!       sockets      epoll and a precise wait         
//!     watch          the generator's own CPU, lateness, steal
//!   Control          live rate, stop, live figures; shared with whoever watches the run
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
mod target;
mod watch;

pub use config::{CONNECTIONS_MAX, Config, DEPTH_MAX, Load, Reconnect, SLICES_MAX, Sampler, THREADS_MAX, Wait};
pub use control::{Control, Live, Phase, RECENT_MAX};
pub use target::{Target, TargetError};
pub use watch::{BUSY_SHARE_MAX, Limit, PREEMPTED_SHARE_MAX, STEAL_SHARE_MAX, ThreadUse, UseSlice, Watched, limits};

use crate::measure::Snapshot;
use crate::traffic::Traffic;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which stream of a run a traffic is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// The load.
    Bulk,
    /// The latency sampler.
    Sampler,
}

/// The thread that a traffic is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which stream.
    pub stream: Stream,
    /// Number of the thread within the stream.
    pub thread: usize,
    /// Threads of the stream.
    pub threads: usize,
    /// Connections of this thread.
    pub connections: usize,
}

/// How requests were let out.
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

/// How a run ended.
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
}

/// What a run measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// How requests were let out.
    pub kind: LoopKind,
    /// How it ended.
    pub ending: Ending,
    /// When the first request could be due, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The load.
    pub bulk: Snapshot,
    /// The latency sampler, where there was one.
    pub sampler: Option<Snapshot>,
    /// What the generator itself used.
    pub watched: Watched,
    /// Why the generator was the limit; empty: it was not.
    pub limits: Vec<Limit>,
}

/// Why there was no run.
#[derive(Debug)]
pub enum Error {
    /// What was asked for can not be done; every fault with its remedy.
    Config(Vec<String>),
    /// A target's name is not known.
    Name {
        /// The target.
        target: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// No connection could be made.
    Connect {
        /// What the first attempts came to, one text a kind of failure.
        faults: Vec<String>,
        /// A server was there each time, and refused what a connection says first.
        refused: bool,
    },
    /// A thread could not begin or go on.
    System {
        /// What it was about to do.
        doing: &'static str,
        /// What the system said.
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
                write!(f, "no connection could be made: {}; is the server running there?", faults.join("; "))
            }
            Self::System { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for Error {}

/// Runs `config` to its end and returns what it measured. `make_traffic` is called once in each thread. In an open
/// loop the rate is the one that `control` asks for.
///
/// # Errors
/// When the configuration can not be run, a name is unknown, no connection can be made, or the system refuses a
/// thread what it needs. Everything that goes wrong later is part of the figures.
pub fn run<T: Traffic>(
    config: &Config,
    make_traffic: impl Fn(Place) -> T + Sync,
    control: &Control,
) -> Result<Run, Error> {
    let faults = config.faults();
    if !faults.is_empty() {
        return Err(Error::Config(faults));
    }
    join::run(config, &make_traffic, control)
}

#[cfg(test)]
mod tests;
