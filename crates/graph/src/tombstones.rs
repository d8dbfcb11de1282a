//! The age of tombstones: removed edges whose times are retained, so that older additions that arrive later have no
//! effect.
//!
//! ```text
//!   Removed ──merge──> marked, the leaf has the time ──merge, once the age has passed──> dropped
//! ```
//!
//! A leaf has one time for all its marks. So a tombstone is dropped between one and two ages after its first merge.
//! Lists that no change reaches are merged by [`Writer::sweep`](crate::Writer::sweep).
//!
//! Invariants:
//! - The age counts from the arrival of the removal and not from its time, which the client chooses.
//! - The clock that measures the age never steps. A restart continues it at the last mark in the memory: time while no
//!   store is open does not count.
//! - No tombstone is dropped while a bulk batch is loaded, because its edges enter the two lists at different times.
//! - A tombstone may be dropped in one direction and remain in the other. Both mean that there is no edge.

use crate::leaf::{EdgeState, LeafEntries};
use crate::sync::{AtomicU32, AtomicU64};
use std::sync::atomic::Ordering::Relaxed;

/// The clock of tombstones, which the caller advances: the engine reads none.
#[derive(Debug)]
pub(crate) struct TombstoneClock {
    /// The time and the age in seconds, or 0: tombstones are retained for ever.
    time_and_age: AtomicU64,
    /// The time of the newest mark that a restart found, in seconds, or 0.
    found_s: AtomicU32,
}

impl TombstoneClock {
    pub(crate) fn new() -> Self {
        Self { time_and_age: AtomicU64::new(0), found_s: AtomicU32::new(0) }
    }

    /// Advances the clock, and sets the age. A time before the clock's leaves the clock where it is.
    pub(crate) fn set(&self, now_s: u32, age_s: u32) {
        let now_s = now_s.max(self.now_s());
        self.time_and_age.store(u64::from(now_s) << 32 | u64::from(age_s), Relaxed);
    }

    /// Returns the time and the age in seconds, or `None` if tombstones are retained for ever.
    pub(crate) fn get(&self) -> Option<(u32, u32)> {
        let word = self.time_and_age.load(Relaxed);
        (word != 0).then_some(((word >> 32) as u32, word as u32))
    }

    /// Returns the clock's time in seconds, or 0 if it was never set and a restart found no mark.
    pub(crate) fn now_s(&self) -> u32 {
        self.get().map_or(0, |(now_s, _)| now_s).max(self.found_s.load(Relaxed))
    }

    /// Advances the clock to a mark that a restart found.
    pub(crate) fn find(&self, marked_at: u32) {
        self.found_s.fetch_max(marked_at, Relaxed);
    }
}

/// Returns true if tombstones that were marked at this time may be dropped.
pub(crate) fn is_over(marked_at: u32, (now_s, age_s): (u32, u32)) -> bool {
    now_s.saturating_sub(marked_at) >= age_s
}

impl LeafEntries {
    /// Drops the tombstones whose age has passed, and marks the others.
    pub(crate) fn age(&mut self, clock: (u32, u32)) {
        if self.marked_at.is_some_and(|at| !is_over(at, clock)) {
            return;
        }
        self.list.retain(|entry| !entry.is_marked);
        let mut has_marks = false;
        for entry in self.list.iter_mut().filter(|entry| entry.state == EdgeState::Removed) {
            entry.is_marked = true;
            has_marks = true;
        }
        self.marked_at = has_marks.then_some(clock.0);
    }
}
