//! The copy tool: copies the keys of a server or of an RDB file to another server, with values, flags and expiries.
//!
//! ```text
//!              source                                                target
//!   memcached  list of keys, mg   \      batch of at most 512    /   ms (add)    memcached
//!   redis      SCAN, GET, HGETALL  >---  keys and 4 MiB      ---<
//!   file       entries            /      pace   journal          \   SET NX      redis
//! ```
//!
//! The tool never changes the source, and does not depend on the server or the load generator. [`rdb`] reads the files
//! of Redis and can be used alone.
//!
//! Invariants:
//! - Existing keys at the target stay unchanged unless the user allows overwriting, because live traffic may have
//!   written them.
//! - Every key that the source lists is counted once: as copied, or by the reason why it was not.
//! - Memory is bounded by one batch plus the largest value, regardless of the behaviour of source and target.
//! - The journal is never ahead of the target, so a resumed copy misses no keys.
//! - Lost connections are reopened a limited number of times. After that the copy ends, and its message says how to
//!   resume.
//!
//! # Example
//! ```
//! use gannet_migrate::rdb::{Content, RdbReader};
//!
//! # fn main() -> Result<(), gannet_migrate::rdb::Damage> {
//! let file = b"REDIS0004\xfe\x00\x00\x03key\x05value\xff";
//! let mut reader = RdbReader::new(&file[..])?;
//! let entry = reader.next(|_db, _key| true)?.expect("the file has one key");
//! assert_eq!((entry.key, entry.content), (b"key".to_vec(), Content::Bytes(b"value".to_vec())));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod choice;
mod counts;
mod import;
mod item;
mod journal;
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
pub use import::{ImportCounts, ImportJob, ImportOutcome, ImportPart, ImportProgress, ImportView, import};
pub use outcome::{CopyOutcome, CopyProgress};
pub use pace::CopyPace;
pub use reconnect::{ConnectSettings, RetryPolicy};
pub use redis::{
    EdgePart, EdgeText, GraphLoadCounts, GraphLoadJob, GraphLoadProgress, GraphLoadServer, GraphLoadTarget,
    GraphLoadView, LoadUser, PartReply, REFUSALS_SHOWN_MAX, load_graph,
};
pub use run::run;
pub use verify::Verified;

/// Highest number of keys in a batch.
pub const BATCH_KEYS_MAX: usize = 512;
/// Largest size of a batch in bytes; a single larger value is allowed.
pub const BATCH_BYTES_MAX: u64 = 4 << 20;

/// Extent of the comparison at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// No comparison.
    None,
    /// About ten thousand keys, or all if there are fewer.
    Some,
    /// A random sample of this many keys per million.
    PerMillion(u32),
}

/// The parameters of a copy.
#[derive(Clone, Debug)]
pub struct CopyJob {
    /// The source.
    pub from: place::CopyEndpoint,
    /// The target.
    pub to: place::ServerAddress,
    /// The selection of keys.
    pub choice: Choice,
    /// True to replace existing keys at the target.
    pub overwrite: bool,
    /// Number of copied keys after which the copy ends.
    pub limit: Option<u64>,
    /// Highest number of keys per second.
    pub keys_per_s: Option<u64>,
    /// Highest number of bytes per second.
    pub bytes_per_s: Option<u64>,
    /// The file of the journal.
    pub journal: Option<PathBuf>,
    /// Extent of the comparison at the end.
    pub verify: Verify,
    /// Number of the database to copy from a file.
    pub file_db: u32,
    /// True to copy the readable part of a file whose checksum is wrong.
    pub accept_damaged: bool,
    /// Connection settings for the servers.
    pub connect: ConnectSettings,
    /// Rules for reconnecting after a lost connection.
    pub retries: RetryPolicy,
}

/// The reason why a copy cannot continue: a sentence with the server or file, the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrateError {
    /// A server, a file or an existing journal prevents the copy.
    Refused(String),
    /// The connection to a server was lost and could not be reopened.
    Lost(String),
    /// A file cannot be parsed beyond a certain byte.
    Damaged(String),
    /// The user has stopped the copy.
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
    /// Reports the progress of the copy, several times a second.
    fn progress(&mut self, progress: &CopyProgress<'_>);
    /// Receives a note for the user.
    fn note(&mut self, text: &str);
}
