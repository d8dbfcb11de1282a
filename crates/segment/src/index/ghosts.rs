//! The clock by which ghosts age, the age up to which they count, and their effect.
//!
//! The clock advances with the number of values that are evicted, not with time: [`TICKS_A_MEMORY`] ticks pass while as
//! many values are evicted from small queues as the memory holds. A ghost records the tick at which it was left.
//!
//! Ghosts stay in the index until their slots are needed. An index with many unused slots, for example one of large
//! values, would remember keys that were evicted long ago. In a loop over several times as many keys as fit, every key
//! would then return while its ghost counts, and would replace an item of the main queue.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::index::Hash;
use crate::layout::slot::{GHOST_STAMPS, Slot};

/// The number of ticks in which as many values are evicted as the memory holds. The clock repeats after
/// [`GHOST_STAMPS`] ticks: a ghost that is 32 memories old counts as a new one.
pub(crate) const TICKS_A_MEMORY: u32 = 16;

/// The clock, the number of ticks for which a ghost counts, and the reads that a ghost stands for.
#[derive(Debug)]
pub(crate) struct GhostClock {
    now: AtomicU32,
    ticks_max: AtomicU32,
    freq: AtomicU64,
}

impl GhostClock {
    pub(crate) fn new() -> Self {
        Self { now: AtomicU32::new(0), ticks_max: AtomicU32::new(GHOST_STAMPS / 2), freq: AtomicU64::new(1) }
    }

    /// Returns a ghost of a key that is being evicted or has expired.
    pub(crate) fn ghost(&self, hash: Hash) -> Slot {
        Slot::ghost(hash.tag(), hash.group_hash(), self.now.load(Relaxed))
    }

    /// Advances the clock by a tick. Only the background does so.
    pub(crate) fn tick(&self) {
        self.now.store((self.now.load(Relaxed) + 1) % GHOST_STAMPS, Relaxed);
    }

    /// Sets the age in ticks from which on ghosts do not count.
    pub(crate) fn limit(&self, ticks_max: u32) {
        self.ticks_max.store(ticks_max, Relaxed);
    }

    /// Sets the number of reads with which an item begins if its key has a ghost that counts.
    pub(crate) fn begin_with(&self, freq: u64) {
        self.freq.store(freq, Relaxed);
    }

    /// Returns the number of reads with which an item begins if its key has a ghost that counts. The item moves to the
    /// main queue when its segment leaves the small queue, unless the item is far longer than the mean.
    pub(crate) fn freq(&self) -> u64 {
        self.freq.load(Relaxed)
    }

    /// Returns true if the ghost is young enough to count.
    pub(crate) fn counts(&self, ghost: Slot) -> bool {
        let age = (self.now.load(Relaxed) + GHOST_STAMPS - ghost.ghost_stamp()) % GHOST_STAMPS;
        age < self.ticks_max.load(Relaxed)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_ghost_counts_until_it_is_too_old() {
        let clock = GhostClock::new();
        clock.limit(3);
        for _ in 0..2 * GHOST_STAMPS {
            let ghost = clock.ghost(Hash(7));
            let mut ages = 0;
            while clock.counts(ghost) {
                clock.tick();
                ages += 1;
            }
            assert_eq!(ages, 3);
        }
        clock.limit(0);
        assert!(!clock.counts(clock.ghost(Hash(7))), "no ghost counts");
    }
}
