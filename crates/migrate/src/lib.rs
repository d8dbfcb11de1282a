//! The copy tool: copies the keys of a server or of an RDB file to another server, with values, flags and expiries.
//!
//! ```text
//!              source                                                target
//!   memcached  list of keys, mg   \      batch of at most 512    /   ms (add)    memcached
//!   redis      SCAN, GET, HGETALL  >---  keys and 4 MiB      ---<
//!   file       entries            /      pace   journal          \   SET NX      redis
//! ```
//!
//! It never changes the source, and never depends on the server or the load generator. [`rdb`] reads the files of Redis
//! and can be used alone.
//!
//! Invariants:
//! - Keys that the target has are left as they are, unless the user allows overwriting: live traffic may have written
//!   them.
//! - Every key that the source lists is counted once, as copied or by the reason why it was not.
//! - Memory is bounded by a batch and the largest value, whatever source and target do.
//! - The journal is never ahead of the target, so that a resumed copy leaves nothing out.
//! - Lost connections are reopened a bounded number of times; then the copy ends, and its message says how to resume.
//!
//! # Example
//! ```
//! use gannet_migrate::rdb::{Content, Reader};
//!
//! # fn main() -> Result<(), gannet_migrate::rdb::Damage> {
//! let file = b"REDIS0004\xfe\x00\x00\x03key\x05value\xff";
//! let mut reader = Reader::new(&file[..])?;
//! let entry = reader.next(|_db, _key| true)?.expect("the file has one key");
//! assert_eq!((entry.key, entry.content), (b"key".to_vec(), Content::Bytes(b"value".to_vec())));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

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
mod reconnect;
mod redis;
mod run;
mod source;
mod target;
mod verify;

use std::fmt;
use std::path::PathBuf;

pub use choice::Choice;
pub use counts::KeyCounts;
pub use outcome::{CopyOutcome, CopyProgress};
pub use pace::CopyPace;
pub use reconnect::{ConnectSettings, RetryPolicy};
pub use run::run;
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
pub struct CopyJob {
    /// From where.
    pub from: place::CopyEndpoint,
    /// To where.
    pub to: place::ServerAddress,
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
    pub connect: ConnectSettings,
    /// Rules for reconnecting after a lost connection.
    pub retries: RetryPolicy,
}

/// Reason why a copy cannot go on. Each is a sentence that names the place and the remedy.
#[derive(Debug, PartialEq, Eq)]
pub enum MigrateError {
    /// Something refuses: a server, a file, a journal of another copy.
    Refused(String),
    /// A server is gone and stayed so.
    Lost(String),
    /// A file makes no sense from some byte on.
    Damaged(String),
    /// The user has ended it.
    Stopped,
}

impl fmt::Display for MigrateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(what) | Self::Lost(what) | Self::Damaged(what) => f.write_str(what),
            Self::Stopped => f.write_str("the copy was stopped"),
        }
    }
}

impl std::error::Error for MigrateError {}

/// Receiver of a copy's progress.
pub trait View {
    /// The middle of it, several times a second.
    fn progress(&mut self, progress: &CopyProgress<'_>);
    /// Receives a note for the user.
    fn note(&mut self, text: &str);
}
