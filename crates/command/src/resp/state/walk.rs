//! A walk over keys, over the records of a set, or over one long value, that takes several visits.

use crate::memory::budget;
use crate::memory::budget::Budget;
use crate::memory::budget::Grant;
use crate::resp::error::Fault;
use crate::visit::out::HeadPlace;
use record::Entry;
use segment::Stride;
use std::collections::HashSet;
use std::sync::Arc;
/// A walk that is not at its end.
#[derive(Default)]
pub(in crate::resp) struct Walk {
    pub(in crate::resp) cursor: u64,
    /// The items on flash that its step waits for.
    pub(in crate::resp) stride: Stride,
    /// Start of the reply, if the reply is collected.
    pub(in crate::resp) head: Option<HeadPlace>,
    /// The value that is read, if the walk is over one.
    pub(in crate::resp) reading: Reading,
    /// Parts of it that are still wanted, and that are left to be looked at.
    pub(in crate::resp) wanted: u64,
    pub(in crate::resp) left: u64,
    /// Hashes of the keys that the step at hand has found: a key that moves meanwhile is met twice in one step.
    pub(in crate::resp) met: HashSet<u64>,
    /// Results that are not replied yet.
    pub(in crate::resp) found: Vec<u8>,
    /// Keys in that, or in all that is answered.
    pub(in crate::resp) keys: u64,
    /// Keys looked at.
    pub(in crate::resp) looked: usize,
    /// Steps that were made, of those that are counted.
    pub(in crate::resp) steps: usize,
    /// Start of the walk, if it goes round, and whether it has reached the end of all keys.
    pub(in crate::resp) start: u64,
    pub(in crate::resp) round: bool,
    /// The cursor to return, if the step is at its end.
    pub(in crate::resp) ended: Option<u64>,
    /// Records that are found and not answered.
    pub(in crate::resp) records: Found,
    /// Progress of a query of an index.
    pub(in crate::resp) query: Going,
    /// Its share of client memory.
    pub(in crate::resp) grant: Option<Grant>,
}

impl Walk {
    /// One that begins there.
    pub(in crate::resp) fn from(cursor: u64) -> Box<Self> {
        Box::new(Self { cursor, start: cursor, ..Self::default() })
    }

    /// Returns what it remembers, in bytes. A set of hashes is copied as it grows.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        let met = self.met.capacity() * HASH_BYTES * 3 / 2;
        met + self.found.capacity() + self.records.held_bytes() + self.query.held_bytes()
    }

    /// Reserves what it remembers; false if client memory is used up. A short walk counts for nothing.
    pub(in crate::resp) fn reserve(&mut self, budget: &Arc<Budget>) -> bool {
        let bytes = self.held_bytes();
        if bytes <= FREE_BYTES && self.grant.is_none() {
            return true;
        }
        self.grant.get_or_insert_with(|| Grant::none(budget, budget::Kind::Walks)).resize(bytes as u64)
    }
}

/// Bytes of one hash in a set of them, and what that has beside it.
pub(in crate::resp) const HASH_BYTES: usize = 10;

/// Bytes that a walk may remember without counting.
pub(in crate::resp) const FREE_BYTES: usize = 4 << 10;

/// The results of a walk: encoded records, each with its place in the walk's order.
#[derive(Default)]
pub(in crate::resp) struct Found {
    pub(in crate::resp) bytes: Vec<u8>,
    /// Place, and where it ends in the bytes.
    pub(in crate::resp) records: Vec<(u64, std::ops::Range<usize>)>,
    /// Keys looked at.
    pub(in crate::resp) looked: usize,
    /// Records of the set looked at.
    pub(in crate::resp) of_set: usize,
    pub(in crate::resp) fault: Option<Fault>,
    /// The key of a large record of which a part was not found.
    pub(in crate::resp) broken: Option<Vec<u8>>,
    /// Records of the steps before the one at hand.
    pub(in crate::resp) before: usize,
}

impl Found {
    /// Returns what it keeps, in bytes.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.records.capacity() * size_of::<(u32, std::ops::Range<usize>)>()
    }
}

/// The progress of a call.
#[derive(Default)]
pub(in crate::resp) struct Going {
    /// Entries to be looked at, and how many of them were.
    pub(in crate::resp) entries: Vec<Entry>,
    pub(in crate::resp) at: usize,
    /// Number of entries without a record.
    pub(in crate::resp) swept: usize,
    pub(in crate::resp) fills: usize,
    /// The last one that was looked at.
    pub(in crate::resp) last: Option<Entry>,
    /// The hashes of the keys in the reply, and its bytes.
    pub(in crate::resp) replied: HashSet<u64>,
    pub(in crate::resp) bytes: Vec<u8>,
    pub(in crate::resp) is_whole: bool,
}

impl Going {
    /// Returns what it keeps, in bytes.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + 2 * self.replied.capacity() * size_of::<u64>()
            + self.bytes.capacity()
    }
}

/// A read of one value that takes several visits.
#[derive(Debug, Default)]
pub(in crate::resp) struct Reading {
    /// The value's identity when it was first seen.
    pub(in crate::resp) identity: Option<(u64, u32, u64)>,
    pub(in crate::resp) restarts: u32,
}

impl Reading {
    /// Lets what is read change between visits.
    pub(in crate::resp) fn goes_on_with_any(&mut self) {
        self.identity = Some(NOTHING);
    }

    /// Nothing was read yet.
    pub(in crate::resp) fn is_new(&self) -> bool {
        self.identity.is_none()
    }

    /// Returns whether there was a value.
    pub(in crate::resp) fn was_there(&self) -> bool {
        self.identity.is_some_and(|identity| identity != NOTHING)
    }
}

/// The identity of a missing value.
pub(in crate::resp) const NOTHING: (u64, u32, u64) = (0, 0, 0);
