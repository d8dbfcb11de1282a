//! Copies the keys of one server to another, with values, flags and expiries: how users move over.
//!
//! ```text
//!              source                                                target
//!   memcached  list of keys, mg   \      batch of at most 512    /   ms (add)    memcached
//!   redis      SCAN, GET, HGETALL  >---  keys and 4 MiB      ---<
//!   file       entries            /      pace   journal          \   SET NX      redis
//! ```
//!
//! Invariants:
//! - What the target has is left as it is, unless the user says otherwise: live traffic may have written it.
//! - Every key that the source names is counted once, as copied or as what else became of it.
//! - Memory is bounded by a batch and the largest value, whatever source and target do.
//! - The journal is never ahead of the target, so that a process that goes on leaves nothing out.
//! - Lost connections are made again so many times; then the copy ends, and says how it is gone on with.

mod choice;
mod counts;
mod item;
mod journal;
mod keys;
mod memcached;
mod outcome;
mod pace;
pub mod place;
pub mod rdb;
mod redis;
mod run;
mod side;
mod source;
mod target;
mod verify;

use std::fmt;
use std::path::PathBuf;

pub use choice::Choice;
pub use counts::Counts;
pub use outcome::{Outcome, Progress};
pub use pace::Pace;
pub use run::run;
pub use side::{Patience, Reach};
pub use verify::Verified;

/// Keys in a batch.
pub const BATCH_KEYS_MAX: usize = 512;
/// Bytes in a batch, one larger value aside.
pub const BATCH_BYTES_MAX: u64 = 4 << 20;

/// Extent of the comparison at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// No comparison.
    None,
    /// About ten thousand keys, or all if there are fewer.
    Some,
    /// So many of a million keys.
    PerMillion(u32),
}

/// Description of a copy.
#[derive(Clone, Debug)]
pub struct Job {
    /// From where.
    pub from: place::Place,
    /// To where.
    pub to: place::Server,
    /// Which keys.
    pub choice: Choice,
    /// Keys that the target has are replaced.
    pub overwrite: bool,
    /// Ends after so many copied keys.
    pub limit: Option<u64>,
    /// Keys a second, at most.
    pub keys_per_s: Option<u64>,
    /// Bytes a second, at most.
    pub bytes_per_s: Option<u64>,
    /// The journal's file.
    pub journal: Option<PathBuf>,
    /// Extent of the comparison at the end.
    pub verify: Verify,
    /// The database of a file that is copied.
    pub file_db: u32,
    /// A file whose checksum is wrong is copied as far as it can be read.
    pub accept_damaged: bool,
    /// Connection settings for the servers.
    pub reach: Reach,
    /// Rules for reconnecting after a lost connection.
    pub patience: Patience,
}

/// Reason why a copy cannot go on. Each is a sentence that names the place and the remedy.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// Something refuses: a server, a file, a journal of another copy.
    Refused(String),
    /// A server is gone and stayed so.
    Lost(String),
    /// A file makes no sense from some byte on.
    Damaged(String),
    /// The user has ended it.
    Stopped,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(what) | Self::Lost(what) | Self::Damaged(what) => f.write_str(what),
            Self::Stopped => f.write_str("it was told to end"),
        }
    }
}

impl std::error::Error for Fault {}

/// Receiver of a copy's progress.
pub trait View {
    /// The middle of it, several times a second.
    fn progress(&mut self, progress: &Progress<'_>);
    /// Receives a note for the user.
    fn note(&mut self, text: &str);
}
