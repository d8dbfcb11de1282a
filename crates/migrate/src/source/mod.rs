//! Where items come from, batch by batch.
//!
//! ```text
//!   memcached   a list of all keys in a file, then reads      place: an offset of the list
//!   redis       SCAN, page by page                            place: the cursor of a page
//!   file        entries in their order                        place: a byte of the file
//! ```

mod file;
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

/// A place in a source, from which another process can go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Position {
    /// In the list of a memcached server's keys, which has so many.
    Keys {
        /// Bytes from its start.
        offset: u64,
        /// Keys in the whole list.
        keys: u64,
        /// Its bytes.
        bytes: u64,
    },
    /// In the walk over a Redis server's keys.
    Cursor {
        /// Cursor from which `SCAN` goes on.
        cursor: u64,
        /// The walk is over.
        is_over: bool,
        /// The run of the server to which the cursor means something.
        run_id: String,
    },
    /// In a file.
    File {
        /// Position in the file.
        mark: Mark,
        /// The file's length and checksum, by which it is known again.
        bytes: u64,
        /// See `bytes`.
        sum: Option<u64>,
    },
}

/// Options of a read from a source.
pub(super) struct BatchRequest<'a> {
    /// Keys that are copied.
    pub choice: &'a Choice,
    /// The part of them that is looked at.
    pub sample: Sample,
    /// Keys in a batch, at most.
    pub keys_max: usize,
    /// Bytes in a batch, one larger item aside.
    pub bytes_max: u64,
    /// Target that gets the items.
    pub target: &'a CopyTarget,
    /// They are compared with what the target has, not stored.
    pub to_compare: bool,
}

impl BatchRequest<'_> {
    /// Returns whether `key` is looked at. Keys that are not are counted.
    fn takes(&self, key: &[u8], counts: &mut KeyCounts) -> bool {
        if !self.sample.takes(key) {
            return false;
        }
        counts.seen += 1;
        if !self.choice.takes(key) {
            counts.not_chosen += 1;
            return false;
        }
        if let Some(why) = self.target.unfit(key) {
            counts.skip(why);
            return false;
        }
        true
    }
}

/// Source of items.
pub(super) enum ItemSource {
    Memcached(memcached::Keys),
    Redis(redis::KeyWalk),
    File(file::Entries),
}

impl ItemSource {
    /// Opens what `job` copies from, at the place where an earlier process was if there is one. `first` is for whether
    /// there is anybody, `context` for what comes then.
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

    /// The next items, and what became of the keys that gave none. An empty batch is not the end: `None` is.
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

    /// Goes back to the beginning.
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

    /// The share of it that is behind, 0 to 1, given that `seen` keys are; `None` if it is not known.
    pub fn share(&self, seen: u64) -> Option<f64> {
        match self {
            Self::Memcached(keys) => Some(keys.share()),
            Self::Redis(walk) => walk.share(seen),
            Self::File(entries) => Some(entries.share()),
        }
    }

    /// Keys in all, if that is known.
    pub fn keys(&self) -> Option<u64> {
        match self {
            Self::Memcached(keys) => Some(keys.keys()),
            Self::Redis(walk) => walk.keys(),
            Self::File(_) => None,
        }
    }

    /// Returns whether the source reports expiries to the second only.
    pub const fn counts_seconds(&self) -> bool {
        matches!(self, Self::Memcached(_))
    }
}

/// Sorts out what was read.
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
