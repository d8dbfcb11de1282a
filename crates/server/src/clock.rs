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

/// A number of ticks that is a power of two, and long enough to know its length in ns to ten digits.
const SPAN_TICKS: u64 = 1 << 32;

/// Where a worker's time comes from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's.
    Machine {
        /// The counter.
        counter: quanta::Clock,
        /// Nanoseconds in [`SPAN_TICKS`] ticks of it: one multiplication makes ns of a difference.
        span_ns: u64,
        /// The wall clock is not told to be before this.
        floor: UnixMillis,
    },
    /// Nanoseconds since 1970 that a test moves.
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clocks. The first call of a process calibrates the counter, for up to 200 ms.
    pub fn machine() -> Self {
        let counter = quanta::Clock::new();
        let span_ns = counter.delta_as_nanos(0, SPAN_TICKS).max(1);
        Self::Machine { counter, span_ns, floor: UnixMillis(0) }
    }

    /// The same, whose wall clock stands still at `floor` until the machine's has come up to it.
    pub fn not_before(self, floor: UnixMillis) -> Self {
        match self {
            Self::Machine { counter, span_ns, .. } => Self::Machine { counter, span_ns, floor },
            simulated @ Self::Simulated(_) => simulated,
        }
    }

    /// The counter now.
    #[inline]
    pub fn ticks(&self) -> Ticks {
        match self {
            Self::Machine { counter, .. } => Ticks(counter.raw()),
            Self::Simulated(ns) => Ticks(ns.load(Relaxed)),
        }
    }

    /// Nanoseconds from `earlier` to `later`; 0 if they are the other way round.
    #[inline]
    pub fn ns_between(&self, earlier: Ticks, later: Ticks) -> u64 {
        let ticks = later.0.saturating_sub(earlier.0);
        match self {
            Self::Machine { span_ns, .. } => (u128::from(ticks) * u128::from(*span_ns) / u128::from(SPAN_TICKS)) as u64,
            Self::Simulated(_) => ticks,
        }
    }

    /// About how many ticks `ns` nanoseconds are, within a millionth. Saturates.
    pub fn ticks_in(&self, ns: u64) -> u64 {
        match self {
            Self::Machine { span_ns, .. } => {
                let ticks = u128::from(ns) * u128::from(SPAN_TICKS) / u128::from(*span_ns);
                u64::try_from(ticks).unwrap_or(u64::MAX)
            }
            Self::Simulated(_) => ns,
        }
    }

    /// The wall clock now.
    pub fn unix(&self) -> UnixMillis {
        match self {
            Self::Machine { floor, .. } => UnixMillis::now().max(*floor),
            Self::Simulated(ns) => UnixMillis(ns.load(Relaxed) / 1_000_000),
        }
    }
}
