//! The clocks of a worker: the CPU's counter for latencies, and the store's clock for expiry.
//!
//! ```text
//!   store's clock   ms since 1970; follows the monotonic clock, never runs backwards, even across restarts with a file
//!   wall clock      store's clock + lead; a step of the wall clock changes only the lead
//! ```
//!
//! - A time to live is a span of the store's clock. If the wall clock is stepped, while the server runs or before a
//!   start, times to live become neither longer nor shorter.
//! - An instant in a client's request or reply is an instant of the wall clock; [`Moment`] converts it. If a client
//!   gives an expiry as an instant, it is converted with the lead at that time. A later step of the wall clock does not
//!   change when the item expires.
//! - A worker reads the CPU's counter once in each iteration and once for each operation. The worker computes the time
//!   of the store's clock from the counter ([`CachedClock`]). In a simulation, both clocks are one number that the test
//!   advances.

use base::clock::UnixMillis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// A reading of the CPU's counter. Only differences are meaningful, and [`Clock::ns_between`] converts them to ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

/// The number of ticks whose length in ns is measured for the conversion. It is a power of two, and large enough for a
/// precision of ten digits.
const SPAN_TICKS: u64 = 1 << 32;
const NS_A_MS: u64 = 1_000_000;

/// The source of a worker's time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's clocks.
    Machine {
        /// The CPU's counter.
        counter: quanta::Clock,
        /// The length of [`SPAN_TICKS`] ticks in ns. One multiplication with it converts ticks to ns.
        span_ns: u64,
        /// The origin of the store's clock.
        origin: Origin,
    },
    /// The time of the store's clock in ns since 1970, which the test advances.
    Simulated(Arc<AtomicU64>),
}

/// The origin of the store's clock: a monotonic instant and the clock's time at that instant.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    began: Instant,
    at: UnixMillis,
}

impl Origin {
    /// Creates the origin of a clock that showed `at` at the instant `began`.
    pub fn new(began: Instant, at: UnixMillis) -> Self {
        Self { began, at }
    }

    /// Returns the current time of the store's clock.
    pub fn now(&self) -> UnixMillis {
        UnixMillis(self.now_ns() / NS_A_MS)
    }

    /// Returns the current time of the store's clock, in ns since 1970.
    fn now_ns(&self) -> u64 {
        (self.at.0.saturating_mul(NS_A_MS)).saturating_add(self.began.elapsed().as_nanos() as u64)
    }
}

/// An instant of the store's clock, with the wall clock's lead at that instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// The instant by the store's clock.
    pub now: UnixMillis,
    /// The lead of the wall clock over the store's clock, in ms.
    pub wall_lead_ms: i64,
}

impl Moment {
    /// Converts an instant of the wall clock to the store's clock.
    pub fn to_store(self, at: UnixMillis) -> UnixMillis {
        UnixMillis(at.0.saturating_add_signed(self.wall_lead_ms.saturating_neg()))
    }

    /// Converts an instant of the store's clock to the wall clock.
    pub fn to_wall(self, at: UnixMillis) -> UnixMillis {
        UnixMillis(at.0.saturating_add_signed(self.wall_lead_ms))
    }
}

/// The minimum difference that counts as a step of the wall clock, in ms. Slewing, the delay between two readings and
/// leap seconds cause smaller differences.
const STEP_MS: u64 = 2000;

/// Returns the new lead of the wall clock over the store's clock, in ms, if the wall clock was stepped. `ahead_ms` is
/// the previous lead.
pub(crate) fn stepped(store: UnixMillis, wall: UnixMillis, ahead_ms: i64) -> Option<i64> {
    let ahead = i128::from(wall.0) - i128::from(store.0);
    let is_step = ahead.abs_diff(ahead_ms.into()) >= STEP_MS.into();
    is_step.then(|| ahead.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

impl Clock {
    /// Creates a clock that reads the machine's clocks. The first call in a process calibrates the counter for up to
    /// 200 ms.
    pub fn machine() -> Self {
        let counter = quanta::Clock::new();
        let span_ns = counter.delta_as_nanos(0, SPAN_TICKS).max(1);
        Self::Machine { counter, span_ns, origin: Origin::new(Instant::now(), UnixMillis::now()) }
    }

    /// Returns this clock with a store's clock that runs from `origin`.
    #[must_use]
    pub fn from(self, origin: Origin) -> Self {
        match self {
            Self::Machine { counter, span_ns, .. } => Self::Machine { counter, span_ns, origin },
            simulated @ Self::Simulated(_) => simulated,
        }
    }

    /// Reads the CPU's counter.
    #[inline]
    pub fn ticks(&self) -> Ticks {
        match self {
            Self::Machine { counter, .. } => Ticks(counter.raw()),
            Self::Simulated(ns) => Ticks(ns.load(Relaxed)),
        }
    }

    /// Returns the nanoseconds from `earlier` to `later`, or 0 if `later` is before `earlier`.
    #[inline]
    pub fn ns_between(&self, earlier: Ticks, later: Ticks) -> u64 {
        let ticks = later.0.saturating_sub(earlier.0);
        match self {
            Self::Machine { span_ns, .. } => (u128::from(ticks) * u128::from(*span_ns) / u128::from(SPAN_TICKS)) as u64,
            Self::Simulated(_) => ticks,
        }
    }

    /// Converts nanoseconds to ticks, with an error of at most a millionth. Saturates.
    pub fn ticks_in(&self, ns: u64) -> u64 {
        match self {
            Self::Machine { span_ns, .. } => {
                let ticks = u128::from(ns) * u128::from(SPAN_TICKS) / u128::from(*span_ns);
                u64::try_from(ticks).unwrap_or(u64::MAX)
            }
            Self::Simulated(_) => ns,
        }
    }

    /// Returns the current time of the store's clock.
    pub fn unix(&self) -> UnixMillis {
        UnixMillis(self.unix_ns() / NS_A_MS)
    }

    /// Returns the current time of the store's clock, in microseconds since 1970.
    pub fn unix_us(&self) -> u64 {
        self.unix_ns() / 1000
    }

    /// Returns the current time of the store's clock, in ns since 1970.
    fn unix_ns(&self) -> u64 {
        match self {
            Self::Machine { origin, .. } => origin.now_ns(),
            Self::Simulated(ns) => ns.load(Relaxed),
        }
    }
}

/// The interval at which a thread reads the store's clock itself, in ns. During this interval, the error of the counter
/// is far less than 1 ms.
const FOLLOWED_NS: u64 = 10_000_000;

/// The store's clock for a thread that often reads the counter. The time is computed from the counter, and corrected by
/// the store's clock every [`FOLLOWED_NS`]. It never runs backwards.
#[derive(Debug)]
pub struct CachedClock {
    /// The time of the last correction, in ns since the thread began. `unix_ns` is the store's time at that instant.
    set_ns: u64,
    unix_ns: u64,
    latest: UnixMillis,
}

impl CachedClock {
    /// Creates the clock at the beginning of a thread.
    pub fn new(clock: &Clock) -> Self {
        let unix_ns = clock.unix_ns();
        Self { set_ns: 0, unix_ns, latest: UnixMillis(unix_ns / NS_A_MS) }
    }

    /// Returns the store's time now, which is `ns` after the thread began.
    #[inline]
    pub fn at(&mut self, clock: &Clock, ns: u64) -> UnixMillis {
        if ns.saturating_sub(self.set_ns) >= FOLLOWED_NS {
            (self.set_ns, self.unix_ns) = (ns, clock.unix_ns());
        }
        self.latest = self.latest.max(UnixMillis((self.unix_ns + ns.saturating_sub(self.set_ns)) / NS_A_MS));
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_step_of_the_wall_clock_moves_instants_of_clients_and_no_time_to_live() {
        let store = UnixMillis(1_700_000_000_000);
        let moment = |ahead_ms| Moment { now: store, wall_lead_ms: ahead_ms };
        assert_eq!(stepped(store, store.plus_ms(1), 0), None);
        let ahead = stepped(store, store.plus_ms(3_600_000), 0).expect("a step");
        assert_eq!((ahead, stepped(store, store.plus_ms(3_600_500), ahead)), (3_600_000, None));
        assert_eq!(stepped(store.plus_ms(10), store, ahead), Some(-10), "it was stepped back");
        let named = store.plus_ms(3_610_000);
        assert_eq!(moment(ahead).to_store(named), store.plus_ms(10_000), "ten seconds from now by both clocks");
        assert_eq!(moment(ahead).to_wall(moment(ahead).to_store(named)), named);
        assert_eq!(moment(i64::MAX).to_store(UnixMillis(5)), UnixMillis(0));
        assert_eq!(moment(i64::MIN).to_store(UnixMillis(u64::MAX)), UnixMillis(u64::MAX));
    }

    #[test]
    fn a_thread_that_follows_the_stores_clock_is_right_and_never_runs_back() {
        let ns = Arc::new(AtomicU64::new(1_700_000_000_000_999_999));
        let clock = Clock::Simulated(Arc::clone(&ns));
        let (begun, mut follower) = (ns.load(Relaxed), CachedClock::new(&clock));
        let mut at = |step: u64| {
            let now = ns.fetch_add(step, Relaxed) + step;
            (follower.at(&clock, now - begun), UnixMillis(now / NS_A_MS))
        };
        for step in [0, 1, 999_999, 1_000_000, FOLLOWED_NS - 1, 1, FOLLOWED_NS, 3_600_000_000_000] {
            let (read, right) = at(step);
            assert_eq!(read, right, "{step} ns later");
        }
        // The counter runs 0.1 % too fast, and the clock corrects that.
        let (begun, mut follower, mut before) = (ns.load(Relaxed), CachedClock::new(&clock), UnixMillis(0));
        for _ in 0..10_000 {
            let now = ns.fetch_add(100_000, Relaxed) + 100_000;
            let read = follower.at(&clock, (now - begun) / 1000 * 1001);
            assert!(read >= before && read.ms_since(UnixMillis(now / NS_A_MS)) <= 1 && read.0 >= now / NS_A_MS);
            before = read;
        }
    }

    #[test]
    fn store_clock_advances_from_its_origin_independently_of_the_wall_clock() {
        let ahead = UnixMillis::now().plus_ms(50 * 60 * 1000);
        let clock = Clock::machine().from(Origin::new(Instant::now(), ahead));
        let first = clock.unix();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(first >= ahead && clock.unix().ms_since(first) >= 20);
    }
}
