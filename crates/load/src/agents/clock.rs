//! The offset of another host's clock, by Cristian's algorithm. This host asks the other for its time. The reported
//! time is between the sending of the question and the receipt of the reply, so the round trip bounds the error. The
//! estimate uses the shortest of several round trips.
//!
//! ```text
//!   here    sent ------------------- back        offset      = there - (sent + back) / 2
//!   there            there                       uncertainty = (back - sent) / 2
//! ```

use std::time::{Duration, Instant};

/// A monotonic clock in nanoseconds. Its origin has no meaning outside its host.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    start: Instant,
    ahead_ns: u64,
}

impl Default for HostClock {
    fn default() -> Self {
        Self::ahead(0)
    }
}

impl HostClock {
    /// Creates a clock that now reads `ahead_ns`.
    pub fn ahead(ahead_ns: u64) -> Self {
        Self { start: Instant::now(), ahead_ns }
    }

    /// Returns the current reading in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.ahead_ns + self.start.elapsed().as_nanos() as u64
    }

    /// Returns the instant at which the clock reads `ns`. Returns `None` if that is before the clock's origin or cannot
    /// be represented.
    pub fn instant_at(&self, ns: u64) -> Option<Instant> {
        self.start.checked_add(Duration::from_nanos(ns.checked_sub(self.ahead_ns)?))
    }
}

/// One question to another host's clock, with its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRound {
    /// Time at which the question was sent, by this host's clock, in nanoseconds.
    pub sent_ns: u64,
    /// Time that the other clock showed, in nanoseconds.
    pub there_ns: u64,
    /// Time at which the reply was received, by this host's clock, in nanoseconds.
    pub back_ns: u64,
}

/// An estimate of another host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Nanoseconds by which the other clock is ahead of this host's clock.
    pub offset_ns: i64,
    /// Largest possible error of the offset, in nanoseconds.
    pub uncertainty_ns: u64,
    /// The shortest round trip, in nanoseconds.
    pub round_trip_ns: u64,
}

impl Estimate {
    /// Returns the estimate from the round with the shortest round trip; `None` if there are no rounds.
    pub fn of(rounds: &[ClockRound]) -> Option<Self> {
        let trip = |round: &ClockRound| round.back_ns.saturating_sub(round.sent_ns);
        let best = rounds.iter().min_by_key(|round| trip(round))?;
        let middle_ns = best.sent_ns + trip(best) / 2;
        Some(Self {
            offset_ns: best.there_ns.wrapping_sub(middle_ns) as i64,
            uncertainty_ns: trip(best).div_ceil(2),
            round_trip_ns: trip(best),
        })
    }

    /// Returns the reading of the other clock when this host's clock reads `here_ns`.
    pub fn there_ns(&self, here_ns: u64) -> u64 {
        here_ns.wrapping_add(self.offset_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn clock_offset_is_within_uncertainty_for_any_network_delay() {
        let mut random = Prng::new(11);
        for _ in 0..2_000 {
            let offset = random.below(1 << 50) as i64 - (1 << 49);
            let mut rounds = Vec::new();
            for at in 0..1 + random.below(8) {
                let sent_ns = (1 << 50) + at * 1_000_000_000;
                let (there, back) = (random.below(50_000_000), random.below(50_000_000));
                let there_ns = (sent_ns + there).wrapping_add(offset as u64);
                rounds.push(ClockRound { sent_ns, there_ns, back_ns: sent_ns + there + back });
            }
            let estimate = Estimate::of(&rounds).unwrap();
            let error = (estimate.offset_ns - offset).unsigned_abs();
            assert!(error <= estimate.uncertainty_ns, "{estimate:?} {offset} {rounds:?}");
            let shortest = rounds.iter().map(|round| round.back_ns - round.sent_ns).min().unwrap();
            assert_eq!(estimate.round_trip_ns, shortest);
            let here_ns = 1 << 51;
            let there_ns = estimate.there_ns(here_ns);
            assert!(there_ns.abs_diff(here_ns.wrapping_add(offset as u64)) <= estimate.uncertainty_ns);
        }
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn clock_time_converts_to_matching_instant() {
        let clock = HostClock::ahead(1 << 40);
        let later_ns = clock.now_ns() + 5_000_000_000;
        let ahead = clock.instant_at(later_ns).unwrap().saturating_duration_since(Instant::now());
        assert!(ahead <= Duration::from_secs(5) && ahead > Duration::from_millis(100), "{ahead:?}");
        assert_eq!((clock.instant_at(0), clock.instant_at((1 << 40) - 1)), (None, None));
    }
}
