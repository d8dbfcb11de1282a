//! The limits of the work in one event-loop iteration, before the worker polls again, and in one visit to a session.
//!
//! ```text
//!   poll ──> visit, visit, visit ...  ──> visits to long requests, at least one ──> poll
//!              └ operations, for at most one time slice
//! ```
//!
//! Two measures limit an iteration and a visit. The first measure that is used up ends it:
//!
//! - Counted work, in operations. An operation takes about 1 us on a current core. A command that does more work counts
//!   as several operations. Counts are the same on every machine, so tests with a simulated clock reach the same
//!   limits.
//! - Time by the CPU's counter. This measure limits operations that take longer than their count suggests, because
//!   values are long or memory is not in the CPU's cache.
//!
//! Invariants: between two polls, a worker spends at most [`ITERATION_NS_MAX`] on new visits, one slice on a long
//! request, and the time by which the last visit exceeds its slice. Together they take at most 500 us. When a slice is
//! used up, the command stores its position and continues in a later visit. The length of a visit therefore does not
//! depend on numbers that a client chose.

use crate::visit::clock::{Clock, Ticks};
use crate::visit::progress::OPS_A_BATCH;

/// The time after which an iteration begins no further visit, in ns.
pub const ITERATION_NS_MAX: u64 = 250_000;
/// The number of counted operations after which an iteration begins no further visit.
pub const ITERATION_OPS_MAX: usize = 1024;
/// The time after which a visit begins no further operation, in ns.
pub const SLICE_NS_MAX: u64 = 100_000;
/// The maximum number of operations of a long request in its first visit. It is small, so that many new long requests
/// at once delay other requests only briefly.
pub const FIRST_OPS_MAX: usize = 8;

/// The limits of one worker's iterations and visits, and their current use.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    iteration_ticks: u64,
    slice_ticks: u64,
    iteration_end: Ticks,
    slice_end: Ticks,
    ops: usize,
    share: usize,
}

impl Pace {
    /// Creates the limits for a worker with this clock.
    pub fn new(clock: &Clock) -> Self {
        let (iteration_ticks, slice_ticks) = (clock.ticks_in(ITERATION_NS_MAX), clock.ticks_in(SLICE_NS_MAX));
        Self {
            iteration_ticks,
            slice_ticks,
            iteration_end: Ticks::default(),
            slice_end: Ticks::default(),
            ops: 0,
            share: OPS_A_BATCH,
        }
    }

    /// Begins an iteration: resets its time and its counted work.
    pub fn begin_iteration(&mut self, now: Ticks) {
        self.iteration_end = Ticks(now.0.saturating_add(self.iteration_ticks));
        self.ops = 0;
    }

    /// Begins a visit. `is_long` is true if the session's request has already taken at least one visit.
    #[inline(always)]
    pub fn begin_visit(&mut self, now: Ticks, is_long: bool) {
        self.slice_end = Ticks(now.0.saturating_add(self.slice_ticks));
        self.share = if is_long { OPS_A_BATCH } else { FIRST_OPS_MAX };
    }

    /// Returns the maximum number of operations of a long request in the current visit.
    pub(crate) fn share(&self) -> usize {
        self.share
    }

    /// Counts `ops` operations of work against the iteration.
    #[inline(always)]
    pub(crate) fn charge(&mut self, ops: usize) {
        self.ops += ops;
    }

    /// Returns true if the current visit has used up its time slice at `now`.
    #[inline(always)]
    pub(crate) fn is_slice_over(&self, now: Ticks) -> bool {
        now >= self.slice_end
    }

    /// Returns true if the iteration must poll before it visits another session.
    #[inline(always)]
    pub fn is_over(&self, now: Ticks) -> bool {
        self.ops >= ITERATION_OPS_MAX || now >= self.iteration_end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn work_that_is_counted_and_time_that_passes_each_end_an_iteration() {
        let mut pace = Pace::new(&Clock::Simulated(Arc::new(AtomicU64::new(0))));
        pace.begin_iteration(Ticks(1_000));
        assert!(!pace.is_over(Ticks(1_000)) && pace.is_over(Ticks(1_000 + ITERATION_NS_MAX)));
        pace.charge(ITERATION_OPS_MAX);
        assert!(pace.is_over(Ticks(1_000)), "without a clock that moves");
        pace.begin_iteration(Ticks(2_000));
        assert!(!pace.is_over(Ticks(2_000)), "a new iteration has all of it");
        pace.begin_visit(Ticks(2_000), true);
        assert!(!pace.is_slice_over(Ticks(2_000)) && pace.is_slice_over(Ticks(2_000 + SLICE_NS_MAX)));
    }
}
