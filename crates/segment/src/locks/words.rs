//! The lock words that all keys share, and the announcement of locks in flight: see [`crate::locks::key_locks`].

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::index::Hash;
use crate::layout::raw::{Word32, Word64};

/// The number of lock words, which all keys share.
pub(super) const WORDS: usize = 4096;
/// The maximum number of key lock sets in flight, over all handles. A further key lock set parks.
pub const KEY_LOCKS_MAX: u64 = 1024;

/// Returns the number of a key's lock word. The hash bits used are not those of the group, the index bucket or the tag.
#[inline(always)]
pub(super) fn word_of(hash: Hash) -> usize {
    (hash.0 >> 20) as usize % WORDS
}

/// The store's state of key lock sets.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct LockTable {
    /// The number of announced key lock sets. The field has separate cache lines, because every guard loads it.
    pub(super) in_flight: Word64,
    pub(super) rest: Box<LockRemainder>,
}

#[derive(Debug)]
pub(super) struct LockRemainder {
    /// The number that was last assigned to a key lock set.
    pub(super) numbers: Word32,
    /// The number of key lock sets that act and wait for a further word: at most one.
    pub(super) extending: Word32,
    /// For each word, the number of the key lock set that holds it, or 0.
    pub(super) words: Box<[Word32]>,
}

impl LockTable {
    pub(crate) fn new() -> Self {
        let words = (0..WORDS).map(|_| Word32::new(0)).collect();
        Self {
            in_flight: Word64::new(0),
            rest: Box::new(LockRemainder { numbers: Word32::new(0), extending: Word32::new(0), words }),
        }
    }

    /// Returns true if any key lock sets are in flight. Every guard checks this first.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.in_flight.load(SeqCst) != 0
    }

    pub(super) fn announce(&self) -> bool {
        let mut count = self.in_flight.load(Relaxed);
        while count < KEY_LOCKS_MAX {
            match self.in_flight.compare_exchange(count, count + 1, SeqCst) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// Returns a number that no key lock set in flight has. The numbers repeat after 2^32 sets, which is far more than
    /// [`KEY_LOCKS_MAX`].
    pub(super) fn number(&self) -> u32 {
        loop {
            let number = self.rest.numbers.fetch_add(1, Relaxed).wrapping_add(1);
            if number != 0 {
                return number;
            }
        }
    }
}
