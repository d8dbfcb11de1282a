//! Time as a worker sees it: the CPU's counter for latencies, the wall clock for expiry.
//!
//! A worker reads the wall clock once a turn and the counter once an operation. In a simulation both follow one
//! number that the test moves.

use base::clock::UnixMillis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A reading of the CPU's counter; only differences mean something, and [`Clock::ns_between`] gives them a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

/// Where a worker's time comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's.
    Machine(quanta::Clock),
    /// Nanoseconds since 1970 that a test moves.
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clocks. The first call of a process calibrates the counter, for up to 200 ms.
    pub fn machine() -> Self {
        Self::Machine(quanta::Clock::new())
    }

    /// The counter now.
    #[inline]
    pub fn ticks(&self) -> Ticks {
        match self {
            Self::Machine(clock) => Ticks(clock.raw()),
            Self::Simulated(ns) => Ticks(ns.load(Relaxed)),
        }
    }

    /// Nanoseconds from `earlier` to `later`; 0 if they are the other way round.
    #[inline]
    pub fn ns_between(&self, earlier: Ticks, later: Ticks) -> u64 {
        match self {
            Self::Machine(clock) => clock.delta_as_nanos(earlier.0, later.0),
            Self::Simulated(_) => later.0.saturating_sub(earlier.0),
        }
    }

    /// About how many ticks `ns` nanoseconds are, within a millionth. Saturates.
    pub fn ticks_in(&self, ns: u64) -> u64 {
        const SPAN: u64 = 1 << 32;
        let span_ns = self.ns_between(Ticks(0), Ticks(SPAN)).max(1);
        u64::try_from(u128::from(ns) * u128::from(SPAN) / u128::from(span_ns)).unwrap_or(u64::MAX)
    }

    /// The wall clock now.
    pub fn unix(&self) -> UnixMillis {
        match self {
            Self::Machine(_) => UnixMillis::now(),
            Self::Simulated(ns) => UnixMillis(ns.load(Relaxed) / 1_000_000),
        }
    }
}
