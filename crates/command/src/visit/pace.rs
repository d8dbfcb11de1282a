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
//! A query of a graph takes whole slices while its session is the only one with requests. Otherwise it takes short
//! slices, because each request of another session may wait for the end of one:
//!
//! ```text
//!   visit to A ── visit to B for a new request, within 10 ms ──> short slices for 10 ms
//! ```
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

/// The time of a slice of a graph query while other sessions have requests, and the share of the counted operations of
/// a visit. A poll and a visit cost 2 to 3 us.
const SHORT_SLICE_NS: u64 = 25_000;
const SHORT_SLICE_SHARE: usize = 4;
/// The time for which a request makes the slices of other sessions short, in ns.
const COMPANY_NS: u64 = 10_000_000;

/// The limits of one worker's iterations and visits, and their current use.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    iteration_ticks: u64,
    slice_ticks: u64,
    iteration_end: Ticks,
    slice_end: Ticks,
    ops: usize,
    share: usize,
    short_slice_ticks: u64,
    company_ticks: u64,
    /// The session that was visited last, and the begin of that visit.
    last_session: u32,
    last_visit: Ticks,
    /// The time until which other sessions are expected to have requests.
    company_end: Ticks,
    short_slice_end: Ticks,
    has_company: bool,
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
            short_slice_ticks: clock.ticks_in(SHORT_SLICE_NS),
            company_ticks: clock.ticks_in(COMPANY_NS),
            last_session: u32::MAX,
            last_visit: Ticks::default(),
            company_end: Ticks::default(),
            short_slice_end: Ticks::default(),
            has_company: false,
        }
    }

    /// Begins an iteration: resets its time and its counted work.
    pub fn begin_iteration(&mut self, now: Ticks) {
        self.iteration_end = Ticks(now.0.saturating_add(self.iteration_ticks));
        self.ops = 0;
    }

    /// Begins a visit to the session with an index. `is_long` is true if the session's request has already taken at
    /// least one visit.
    #[inline(always)]
    pub fn begin_visit(&mut self, now: Ticks, session: u32, is_long: bool) {
        self.slice_end = Ticks(now.0.saturating_add(self.slice_ticks));
        self.share = if is_long { OPS_A_BATCH } else { FIRST_OPS_MAX };
        if session != self.last_session {
            // Long requests of several sessions that only wait for each other need no short slices.
            if !is_long && now.0.saturating_sub(self.last_visit.0) < self.company_ticks {
                self.company_end = Ticks(now.0.saturating_add(self.company_ticks));
            }
            self.last_session = session;
        }
        self.last_visit = now;
        self.has_company = now < self.company_end;
        self.short_slice_end = Ticks(now.0.saturating_add(self.short_slice_ticks));
    }

    /// Returns true if other sessions have had requests recently, so that a query must take short slices.
    pub(crate) fn has_company(&self) -> bool {
        self.has_company
    }

    /// Returns true if a query that has done `ops` operations in this visit must end its slice at `now`.
    pub(crate) fn is_query_slice_over(&self, ops: usize, now: Ticks) -> bool {
        let is_short_over = ops >= self.share / SHORT_SLICE_SHARE || now >= self.short_slice_end;
        ops >= self.share || self.is_slice_over(now) || self.has_company && is_short_over
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
        pace.begin_visit(Ticks(2_000), 1, true);
        assert!(!pace.is_slice_over(Ticks(2_000)) && pace.is_slice_over(Ticks(2_000 + SLICE_NS_MAX)));
    }

    #[test]
    fn query_takes_short_slices_only_while_another_session_has_requests() {
        let mut pace = Pace::new(&Clock::Simulated(Arc::new(AtomicU64::new(0))));
        let (query, other) = (1, 2);
        let ms = |ms: u64| Ticks(100_000_000 + ms * 1_000_000);
        let mut is_short = |now: Ticks, session: u32, is_long: bool| {
            pace.begin_visit(now, session, is_long);
            let later = Ticks(now.0 + SHORT_SLICE_NS);
            let share = if is_long { OPS_A_BATCH } else { FIRST_OPS_MAX };
            let short_share = share / SHORT_SLICE_SHARE;
            assert!(!pace.is_query_slice_over(short_share - 1, Ticks(later.0 - 1)));
            assert_eq!(pace.is_query_slice_over(0, later), pace.has_company());
            assert_eq!(pace.is_query_slice_over(short_share, now), pace.has_company());
            assert!(pace.is_query_slice_over(share, now));
            pace.has_company()
        };
        assert!(!is_short(ms(0), query, true), "the first session is alone");
        assert!((1..50).all(|at| !is_short(ms(at), query, at % 3 > 0)), "a session is no company for itself");
        assert!((50..60).all(|at| !is_short(ms(at), at as u32 % 2, true)), "long requests wait only for each other");
        is_short(ms(60), query, true);
        assert!(is_short(ms(61), other, false) && is_short(ms(62), query, true) && is_short(ms(70), query, true));
        assert!(!is_short(ms(71), query, true), "the request was 10 ms ago");
        is_short(ms(90), other, false);
        assert!(!is_short(ms(91), query, true), "the request came 19 ms after the query's last visit");
        is_short(ms(92), other, true);
        assert!(is_short(ms(93), query, false), "two sessions with new requests");
    }
}
