//! Back-pressure in namespaces that evict nothing: decides whether a thread that finds no room for an item has to wait
//! or is refused.
//!
//! A replaced or deleted item remains dead space until the background has copied the live items of its segment
//! elsewhere. A thread that writes faster than the background copies may find no free segment, although most of the
//! memory is dead. Such a thread has to wait. If no segment is free because live items fill the memory, the thread has
//! to be refused at once. The background's scan distinguishes the two cases:
//!
//! ```text
//!   a search: the scan passes each header twice, beginning where the last search ended
//!
//!   a net gain: the background has freed more segments than its own       unknown  ── the thread waits
//!   copies have taken
//!   no gain; the live and free bytes at its start are recorded:
//!      less than a segment has died since                                 full     ── the thread is refused
//!      more has died since                                                unknown  ── the thread waits
//! ```
//!
//! A waiting thread requests a search and calls the background. A search without a gain ends when the scan has passed
//! all headers, which limits the wait of a thread that is refused in the end. Segments in quarantine and deferred frees
//! prolong it, for a bounded number of slices. While any thread waits, even segments with few dead bytes are compacted.
//! Once the pool is full, they are not. If a drain finds no room for its copies, the scan counts headers as passed.
//! Otherwise the drain and the waiting thread could wait for each other.
//!
//! There is one state for each pool. A pool is a namespace with a quota, or all namespaces without a quota together,
//! which are recorded under the default namespace.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::key::Namespace;

/// The back-pressure state of all pools.
#[derive(Debug, Default)]
pub(crate) struct Shortages {
    /// For each pool: the bytes in live items and free segments when the last search began, if that search gained no
    /// memory. Otherwise [`UNKNOWN`] or [`FLUSHED`].
    pub(crate) known: [AtomicU64; Namespace::MAX],
    /// A bit for each pool for which a thread without room waits for a search.
    pub(crate) asked: AtomicU32,
}

const _: () = assert!(Namespace::MAX <= 32, "one bit for each namespace");

/// The value of a pool for which it is unknown whether memory can be freed.
pub(crate) const UNKNOWN: u64 = 0;
/// The value of a pool for which it is unknown whether memory can be freed, and for which the search in progress cannot
/// find out, because a flush took place during the search.
pub(crate) const FLUSHED: u64 = u64::MAX;

impl Shortages {
    /// Records the result of a search for a pool. `barren` is `None` if the search gained memory. Otherwise it is the
    /// number of bytes in live items and free segments when the search began.
    pub(crate) fn report(&self, pool: u8, barren: Option<u64>) {
        let known = &self.known[usize::from(pool)];
        let before = known.load(Relaxed);
        let after = barren.filter(|_| before != FLUSHED).unwrap_or(UNKNOWN);
        if before != after {
            known.store(after, Relaxed);
        }
        if barren.is_some() {
            self.asked.fetch_and(!(1 << pool), Relaxed);
        }
    }

    /// Returns true if a thread waits for a search of the pool.
    pub(crate) fn is_asked(&self, pool: u8) -> bool {
        self.asked.load(Relaxed) & 1 << pool != 0
    }

    /// Records that a flush has ended items of the pool. Such items count as live until the scan finds them. The caller
    /// holds the slice gate.
    pub(crate) fn flushed(&self, pool: u8) {
        self.known[usize::from(pool)].store(FLUSHED, Relaxed);
    }
}
