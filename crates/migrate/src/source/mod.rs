//! The sources of items, which are read batch by batch.
//!
//! ```text
//!   memcached   a list of all keys in a file, then reads      position: an offset of the list
//!   redis       SCAN, page by page                            position: the cursor of a page
//!   file        entries in their order                        position: a byte of the file
//! ```

mod file;
mod keys;
mod memcached;
mod redis;

use serde::{Deserialize, Serialize};

use super::choice::{Choice, Sample};
use super::counts::KeyCounts;
use super::item::{Item, Lookup};
use super::place::{CopyEndpoint, Protocol};
use super::rdb::Mark;
use super::reconnect::Context;
use super::target::CopyTarget;
use super::{CopyJob, MigrateError};

/// A position in a source, from which another process can resume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Position {
    /// A position in the list of a memcached server's keys.
    Keys {
        /// Offset from the start of the list, in bytes.
        offset: u64,
        /// Number of keys in the whole list.
        keys: u64,
        /// Bytes of the whole list.
        bytes: u64,
    },
    /// A position in the walk over a Redis server's keys.
    Cursor {
        /// Cursor for the next `SCAN`.
        cursor: u64,
        /// True if the walk is complete.
        is_over: bool,
        /// Identifier of the server's run in which the cursor is valid.
        run_id: String,
    },
    /// A position in an RDB file.
    File {
        /// Position in the file.
        mark: Mark,
        /// Length of the file, which identifies the file together with `sum`.
        bytes: u64,
        /// Checksum of the file, if it has one.
        sum: Option<u64>,
    },
}

/// The options of a read from a source.
pub(super) struct BatchRequest<'a> {
    /// The selection of keys.
    pub choice: &'a Choice,
    /// The random sample of keys to read, before `choice` is applied.
    pub sample: Sample,
    /// Highest number of keys in a batch.
    pub keys_max: usize,
    /// Largest size of a batch in bytes; a single larger item is allowed.
    pub bytes_max: u64,
    /// The target of the items.
    pub target: &'a CopyTarget,
    /// True if the items are compared with the target's, not stored.
    pub to_compare: bool,
}

impl BatchRequest<'_> {
    /// Returns whether `key` is read. Counts the keys that are not read, unless the sample omits them.
    fn takes(&self, key: &[u8], counts: &mut KeyCounts) -> bool {
        if !self.sample.takes(key) {
            return false;
        }
        counts.seen += 1;
        if !self.choice.takes(key) {
            counts.not_chosen += 1;
            return false;
        }
        if let Some(why) = self.target.why_unstorable(key) {
            counts.skip(why);
            return false;
        }
        true
    }
}

/// A source of items.
pub(super) enum ItemSource {
    Memcached(memcached::Keys),
    Redis(redis::KeyWalk),
    File(file::Entries),
}

impl ItemSource {
    /// Opens the source of `job`, at the position of an earlier process if there is one. `first` is the context of the
    /// first connection, `context` that of all later requests.
    pub fn open(
        job: &CopyJob,
        position: Option<&Position>,
        first: &Context<'_>,
        context: &Context<'_>,
    ) -> Result<Self, MigrateError> {
        match &job.from {
            CopyEndpoint::File(path) => file::Entries::open(path, job, position, context).map(Self::File),
            CopyEndpoint::Server(server) => match server.protocol {
                Protocol::Memcached => {
                    memcached::Keys::open(server, job, position, (first, context)).map(Self::Memcached)
                }
                Protocol::Redis => redis::KeyWalk::open(server, job, position, first).map(Self::Redis),
            },
        }
    }

    /// Returns the next items, and counts the keys that yield no item. `None` is the end of the source; an empty batch
    /// is not.
    pub fn next(
        &mut self,
        ask: &BatchRequest<'_>,
        counts: &mut KeyCounts,
        context: &Context<'_>,
    ) -> Result<Option<Vec<Item>>, MigrateError> {
        match self {
            Self::Memcached(keys) => keys.next(ask, counts, context),
            Self::Redis(walk) => walk.next(ask, counts, context),
            Self::File(entries) => entries.next(ask, counts),
        }
    }

    /// Returns the current position; `None` in the middle of a part from which a copy cannot resume.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Memcached(keys) => Some(keys.position()),
            Self::Redis(walk) => walk.position(),
            Self::File(entries) => Some(entries.position()),
        }
    }

    /// Returns a sentence about a restart of the source's server after which the source must be rewound, once.
    pub fn take_restart(&mut self) -> Option<String> {
        match self {
            // The list of keys stays valid.
            Self::Memcached(_) | Self::File(_) => None,
            Self::Redis(walk) => walk.take_restart(),
        }
    }

    /// Returns to the beginning.
    pub fn rewind(&mut self) -> Result<(), MigrateError> {
        match self {
            Self::Memcached(keys) => keys.rewind(),
            Self::Redis(walk) => {
                walk.rewind();
                Ok(())
            }
            Self::File(entries) => entries.rewind(),
        }
    }

    /// Returns the completed share, 0 to 1, when `seen` keys have been processed; `None` if it is unknown.
    pub fn share(&self, seen: u64) -> Option<f64> {
        match self {
            Self::Memcached(keys) => Some(keys.share()),
            Self::Redis(walk) => walk.share(seen),
            Self::File(entries) => Some(entries.share()),
        }
    }

    /// Returns the total number of keys, if known.
    pub fn keys(&self) -> Option<u64> {
        match self {
            Self::Memcached(keys) => Some(keys.keys()),
            Self::Redis(walk) => walk.keys(),
            Self::File(_) => None,
        }
    }

    /// Returns whether the source reports the expiries of hash fields.
    pub const fn has_field_times(&self) -> bool {
        match self {
            Self::Memcached(_) => false,
            Self::Redis(walk) => walk.has_field_times(),
            Self::File(_) => true,
        }
    }

    /// Returns whether the source reports expiries to the second only.
    pub const fn counts_seconds(&self) -> bool {
        matches!(self, Self::Memcached(_))
    }
}

/// Returns the items of `found`, and counts the other lookups in `counts`.
fn sort_out(found: Vec<Lookup>, counts: &mut KeyCounts) -> Vec<Item> {
    let mut items = Vec::with_capacity(found.len());
    for found in found {
        match found {
            Lookup::Item(item) => items.push(item),
            Lookup::Gone => counts.gone += 1,
            Lookup::Unfit(why) => counts.skip(why),
        }
    }
    items
}
