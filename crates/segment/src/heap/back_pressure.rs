//! Shortage of room where nothing may be evicted: decides whether a caller that finds no room waits for it or is
//! refused.
//!
//! A replaced or deleted item is dead space until the background has copied out the live items around it. A caller that
//! writes faster than that finds no free segment while most of the memory holds nothing, and has to wait. A caller that
//! finds none because everything is alive has to be refused at once. The background's scan distinguishes the two:
//!
//! ```text
//!   a round: each header passed once,     something was found, or in quarantine, not known ── the caller waits
//!            from where the last ended    or a value's pieces are being removed
//!                                         nothing was                              barren, with what was alive and
//!                                                                                  free when the round began:
//!                                           less than a segment has died since     full        ── it is refused
//!                                           more has                               not known   ── the caller waits
//! ```
//!
//! A caller that waits asks for a round and calls the background. The round ends after as many slices as it takes to
//! pass all headers, which bounds the wait of a caller that is refused in the end. As long as any caller asks, even
//! segments that are hardly dead are worth copying out. A walk that finds no room for its copies counts as headers
//! passed: otherwise it and the waiting caller could wait for each other.
//!
//! The state is held for each namespace with a quota and, under the default namespace, for all others together.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::key::Namespace;

/// The state of the pools.
#[derive(Debug, Default)]
pub(crate) struct Shortages {
    /// The bytes that were alive or free when the last round began, if it found nothing, or one of the two constants
    /// below.
    pub(crate) known: [AtomicU64; Namespace::MAX],
    /// Pools for which a caller that found no room waits for a round: a bit for each.
    pub(crate) asked: AtomicU32,
}

const _: () = assert!(Namespace::MAX <= 32, "a bit for each");

/// It is unknown whether there is memory to free.
pub(crate) const UNKNOWN: u64 = 0;
/// It is unknown, and the round in progress cannot decide it either, because of a flush.
pub(crate) const FLUSHED: u64 = u64::MAX;

impl Shortages {
    /// Records the result of a background round for a pool. It found nothing while `barren` bytes were alive or free,
    /// or it found something (`None`).
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

    /// Returns true if a caller waits for a round.
    pub(crate) fn is_asked(&self, pool: u8) -> bool {
        self.asked.load(Relaxed) & 1 << pool != 0
    }

    /// Records that a flush has ended items that count as alive until they are found. The caller holds the slice gate.
    pub(crate) fn flushed(&self, pool: u8) {
        self.known[usize::from(pool)].store(FLUSHED, Relaxed);
    }
}
