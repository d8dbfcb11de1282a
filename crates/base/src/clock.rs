//! The two clocks, as two types that cannot be mixed.
//!
//! [`UnixMillis`] is the wall clock that expiry uses: items outlive the process, so their times must mean the same
//! after a restart. [`MonoNanos`] is the monotonic clock that latencies use: it never jumps, and means nothing
//! outside this process.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z. Coarse: a worker reads the clock once per event-loop iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// Reads the wall clock. A clock before 1970 reads as 0.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(since.as_millis() as u64)
    }

    /// Converts whole seconds since 1970, the form of absolute times in the memcached protocol. Saturates.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Returns whole seconds since 1970, rounded down.
    pub const fn secs(self) -> u64 {
        self.0 / 1000
    }

    /// Returns this instant plus `ms` milliseconds. Saturates.
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Returns the milliseconds from `earlier` to this instant; 0 if `earlier` is later.
    pub const fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Nanoseconds since an arbitrary start inside this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoNanos(pub u64);

impl MonoNanos {
    /// Returns the nanoseconds from `earlier` to this instant; 0 if `earlier` is later.
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A clock that returns [`MonoNanos`] since its own creation.
#[derive(Clone, Copy, Debug)]
pub struct MonoClock {
    start: Instant,
}

impl MonoClock {
    /// Creates a clock that reads 0 now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Returns the nanoseconds since [`MonoClock::start`].
    pub fn now(&self) -> MonoNanos {
        MonoNanos(self.start.elapsed().as_nanos() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_difference_saturates_at_zero() {
        assert_eq!(UnixMillis(5).ms_since(UnixMillis(9)), 0);
        assert_eq!(MonoNanos(5).ns_since(MonoNanos(9)), 0);
        assert_eq!(UnixMillis::from_secs(u64::MAX).0, u64::MAX);
    }
}
