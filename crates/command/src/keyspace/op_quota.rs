//! A quota of operations per second, of a namespace or of a user.
//!
//! ```text
//!                now                 now + burst
//!   ──────────────┼───────────────────────┼────> time
//!                      ^ used up to here; each operation moves this instant forward by 1 s / (operations per second)
//!                        an operation that would move it beyond `now + burst` is refused
//! ```
//! All workers share a quota. An operation costs one atomic update, and only if there is a quota.

use base::clock::UnixMillis;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The length of a burst, in ns. The operations that a quota allows for this length of time may be executed all at
/// once.
const BURST_NS: u64 = 100_000_000;

/// A quota of operations per second, and its use.
#[derive(Debug, Default)]
pub(crate) struct OpQuota {
    /// The mean interval between two operations, in ns. 0: unlimited.
    interval_ns: AtomicU64,
    /// The instant up to which executed operations have used the quota, in ns since the Unix epoch. Each operation
    /// moves the instant forward by `interval_ns`. The instant may be ahead of the current time by at most the length
    /// of a burst.
    used_up_to_ns: AtomicU64,
    refused: AtomicU64,
    /// The number of refused operations that were reported.
    reported: AtomicU64,
}

impl OpQuota {
    /// Sets the number of operations per second; 0 is no limit.
    pub(crate) fn set(&self, ops_max: u64) {
        self.interval_ns.store(1_000_000_000u64.checked_div(ops_max).unwrap_or(0), Relaxed);
    }

    /// Takes one operation from the quota, and returns true. If the quota is used up, counts a refused operation and
    /// returns false.
    pub(crate) fn take(&self, now: UnixMillis) -> bool {
        let (interval_ns, now_ns) = (self.interval_ns.load(Relaxed), now.0 * 1_000_000);
        let taken = self.used_up_to_ns.fetch_update(Relaxed, Relaxed, |used_up_to_ns| {
            let next = used_up_to_ns.max(now_ns) + interval_ns;
            (next <= now_ns + BURST_NS.max(interval_ns)).then_some(next)
        });
        if taken.is_err() {
            self.refused.fetch_add(1, Relaxed);
        }
        taken.is_ok()
    }

    /// Uses up the quota until `until`, so that all operations are refused before.
    pub(crate) fn use_up(&self, until: UnixMillis) {
        self.used_up_to_ns.fetch_max(until.0 * 1_000_000, Relaxed);
    }

    /// Returns the number of refused operations.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Returns the number of operations that were refused since the last call.
    pub(crate) fn take_unreported(&self) -> u64 {
        let refused = self.refused();
        refused - self.reported.swap(refused, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_allows_a_tenth_of_a_second_at_once_and_counts_what_it_refuses() {
        let quota = OpQuota::default();
        let taken = |ms: u64| (0..50).filter(|_| quota.take(UnixMillis(1_000_000 + ms))).count();
        assert_eq!(taken(0), 50, "0 is no limit");
        quota.set(100);
        assert_eq!([taken(0), taken(0), taken(10), taken(1000), taken(2000)], [10, 0, 1, 10, 10]);
        assert_eq!(quota.refused(), 250 - 31);
        quota.use_up(UnixMillis(1_005_000));
        assert_eq!([taken(3000), taken(5000)], [0, 10]);
        quota.set(1);
        assert_eq!([taken(10_000), taken(10_500), taken(11_000)], [1, 0, 1], "a burst is one operation at least");
    }
}
