//! Shortage of room where nothing may be evicted: decides whether a caller that finds no room waits for it or is
//! refused.
//!
//! What is replaced or deleted is dead space until the background has copied out the live items around it. A caller
//! that writes faster than that finds no free segment while most of the memory holds nothing, and has to wait. A caller
//! that finds none because everything is alive has to be refused at once. The background's scan makes the difference:
//!
//! ```text
//!   a round: each header passed once,     something was found, or is in limbo,     not known   ── the caller waits
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
//! Kept for each namespace with a quota and, under the default one, for all others together.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::core::op::OpError;
use crate::layout::key::Namespace;
use crate::store::Store;

/// The state of the pools.
#[derive(Debug, Default)]
pub(crate) struct Shortages {
    /// The bytes alive and free when the last round began, if that found nothing; or one of the two below.
    known: [AtomicU64; Namespace::MAX],
    /// Pools for which a caller that found no room waits for a round: a bit for each.
    asked: AtomicU32,
}

const _: () = assert!(Namespace::MAX <= 32, "a bit for each");

/// Not known.
const UNKNOWN: u64 = 0;
/// Nor is it when the round is over that is under way.
const FLUSHED: u64 = u64::MAX;

impl Shortages {
    /// Records the result of a background round for a pool. It found nothing while so many bytes were alive or free, or
    /// it found something (`None`).
    pub(crate) fn told(&self, pool: u8, barren: Option<u64>) {
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

impl Store {
    /// Checks that there is room for `bytes` more, where nothing is evicted.
    ///
    /// # Errors
    /// [`OpError::Parked`]: there may be some soon; [`OpError::OutOfMemory`]: all of it is alive.
    #[inline(always)]
    pub fn check_room(&self, namespace: Namespace, bytes: u64) -> Result<(), OpError> {
        if self.keeps(namespace) && !self.has_room(namespace, bytes) {
            return Err(self.no_segment(namespace.0));
        }
        Ok(())
    }

    /// Returns the answer for a thread that finds no free segment: to wait for one, or that none will come.
    #[cold]
    #[inline(never)]
    pub(crate) fn no_segment(&self, namespace: u8) -> OpError {
        if self.spaces.keeps(namespace) {
            let pool = self.pool(namespace);
            if self.is_full(pool) {
                return OpError::OutOfMemory;
            }
            self.shortages.asked.fetch_or(1 << pool, Relaxed);
        }
        self.call_background();
        OpError::Parked
    }

    /// Returns true if the background found nothing to win for the pool, and hardly anything has died since.
    fn is_full(&self, pool: u8) -> bool {
        let barren = self.shortages.known[usize::from(pool)].load(Relaxed);
        ![UNKNOWN, FLUSHED].contains(&barren)
            && self.alive_or_free(pool) + self.segments.segment_bytes() as u64 > barren
    }

    /// Returns the namespace under which is kept what is known of this one's.
    pub(crate) fn pool(&self, namespace: u8) -> u8 {
        if self.spaces.has_quota(namespace) { namespace } else { Namespace::DEFAULT.0 }
    }

    /// Returns the bytes of a pool that are alive, or free to be taken: as something dies this goes down.
    pub(crate) fn alive_or_free(&self, pool: u8) -> u64 {
        let alive = match self.spaces.any_quota() {
            true => {
                let pooled = (0..Namespace::MAX as u8).filter(|namespace| self.pool(*namespace) == pool);
                pooled.map(|namespace| self.space_totals(namespace).item_bytes()).sum()
            }
            false => self.totals().item_bytes(),
        };
        alive + (self.free_of(pool) * self.segments.segment_bytes()) as u64
    }
}
