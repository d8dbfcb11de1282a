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
//! - No tombstone is dropped while a bulk batch is loaded, because its edges enter the two lists at different times.
//! - A tombstone may be dropped in one direction and remain in the other. Both mean that there is no edge.

use crate::leaf::{EdgeState, LeafEntries};
use crate::sync::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The clock of tombstones, which the caller sets: the engine reads none.
#[derive(Debug)]
pub(crate) struct TombstoneClock(AtomicU64);

impl TombstoneClock {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub(crate) fn set(&self, now_s: u32, age_s: u32) {
        self.0.store(u64::from(now_s) << 32 | u64::from(age_s), Relaxed);
    }

    /// Returns the time and the age in seconds, or `None` if tombstones are retained for ever.
    pub(crate) fn get(&self) -> Option<(u32, u32)> {
        let word = self.0.load(Relaxed);
        (word != 0).then_some(((word >> 32) as u32, word as u32))
    }
}

/// Returns true if tombstones that were marked at this time may be dropped. A time that is further ahead than the age
/// is that of a clock that was wrong: waiting for it could take years.
pub(crate) fn is_over(marked_at: u32, (now_s, age_s): (u32, u32)) -> bool {
    match now_s.checked_sub(marked_at) {
        Some(passed) => passed >= age_s,
        None => marked_at - now_s > age_s,
    }
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
