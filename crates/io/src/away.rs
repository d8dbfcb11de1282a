//! Measures how often, and for how long, a thread that never waits is off its CPU.
//!
//! ```text
//!   thread:   reads the clock, reads the clock, reads the clock            reads the clock, ...
//!   readings: |.|.|.|.|.|.|.|.|.|.|.|.|.|.|.|.|.|-------- a gap --------|.|.|.|.|.|.|.|.
//! ```
//! In a gap, the CPU ran other code: the kernel's timer, an interrupt or another thread. Or the hypervisor had given
//! the CPU to another virtual machine. A task that is due at an instant within a gap is late by the rest of the gap.

use std::io;
use std::time::{Duration, Instant};

/// Minimum length of a gap in nanoseconds. Shorter intervals are the normal time between two readings.
const GAP_NS_MIN: u64 = 1_000;
/// Maximum number of recorded gaps. Watching ends when it is reached.
const GAPS_MAX: usize = 1 << 16;

/// The gaps of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Away {
    /// Lengths of the gaps in nanoseconds, the longest first.
    gaps_ns: Vec<u64>,
    total_ns: u64,
}

impl Away {
    /// Records the gaps of a CPU for `time`, with a new thread that is pinned to it and never sleeps.
    ///
    /// # Errors
    /// If the thread cannot be created, or cannot run on that CPU.
    pub fn watch(cpu: usize, time: Duration) -> io::Result<Self> {
        let watcher = std::thread::Builder::new().spawn(move || {
            crate::affinity::pin_this_thread(cpu)?;
            Ok(Self::watch_here(time))
        })?;
        watcher.join().unwrap_or_else(|_| Err(io::Error::other("the thread that measured the CPU panicked")))
    }

    fn watch_here(time: Duration) -> Self {
        let mut gaps_ns = Vec::with_capacity(GAPS_MAX);
        let begun = Instant::now();
        let mut last = begun;
        while last.duration_since(begun) < time && gaps_ns.len() < GAPS_MAX {
            let now = Instant::now();
            let gap = now.duration_since(last).as_nanos() as u64;
            if gap >= GAP_NS_MIN {
                gaps_ns.push(gap);
            }
            last = now;
        }
        Self::of(gaps_ns, last.duration_since(begun).as_nanos() as u64)
    }

    fn of(mut gaps_ns: Vec<u64>, total_ns: u64) -> Self {
        gaps_ns.sort_unstable_by(|a, b| b.cmp(a));
        Self { gaps_ns, total_ns }
    }

    /// Combines the results of two watches.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.gaps_ns.extend(other.gaps_ns);
        Self::of(self.gaps_ns, self.total_ns + other.total_ns)
    }

    /// Returns the greatest length, in nanoseconds, for which gaps of that length or more take up `share` of the time;
    /// 0 if there are too few gaps.
    pub fn gap_ns_of(&self, share: f64) -> u64 {
        let enough = self.total_ns as f64 * share;
        let mut sum = 0.0;
        for gap in &self.gaps_ns {
            sum += *gap as f64;
            if sum >= enough {
                return *gap;
            }
        }
        0
    }

    /// Returns the lateness, in nanoseconds, of a thread on this CPU that waits for an instant by reading the clock. At
    /// the fraction `quantile` of all instants, the thread is at most that late.
    ///
    /// The lateness of an instant exceeds `late` if the instant falls into a gap further than `late` from its end. For
    /// a gap `g` this part is `g - late`. The result is the `late` for which these parts add up to `1 - quantile` of
    /// the time.
    pub fn lateness_ns(&self, quantile: f64) -> u64 {
        let allowed = self.total_ns as f64 * (1.0 - quantile);
        let mut sum = 0.0;
        for (count, gap) in self.gaps_ns.iter().enumerate() {
            // If `late` is this gap's length, the `count` longer gaps exceed it.
            if count > 0 && count as f64 * (*gap as f64) + allowed <= sum {
                return ((sum - allowed) / count as f64).round() as u64;
            }
            sum += *gap as f64;
        }
        let count = self.gaps_ns.len() as f64;
        if sum > allowed { ((sum - allowed) / count).round() as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_the_remaining_length_of_a_gap() {
        // The gap takes a tenth of the time. One instant in a hundred falls into the first tenth of the gap and waits
        // for the rest of it.
        let one = Away::of(vec![100], 1_000);
        assert_eq!(one.lateness_ns(0.99), 90);
        assert_eq!(one.lateness_ns(0.95), 50);
        assert_eq!(one.lateness_ns(0.90), 0);
        assert_eq!(one.lateness_ns(0.50), 0);
        assert_eq!(one.gap_ns_of(0.1), 100);
        assert_eq!(one.gap_ns_of(0.2), 0);
        // Ten short gaps of 10 and a long gap of 60, in a time of 1,000. Only the first 10 of the long gap are later
        // than 50: 1 % of the instants.
        let several = Away::of([vec![10; 10], vec![60]].concat(), 1_000);
        assert_eq!(several.lateness_ns(0.99), 50);
        assert_eq!(several.lateness_ns(0.95), 10);
        // With a lateness of 7, 53 of the long gap and 3 of each of the ten short gaps remain: 83 of 1,000.
        assert_eq!(several.lateness_ns(1.0 - 0.083), 7);
        assert_eq!(Away::default().lateness_ns(0.99), 0);
    }

    #[test]
    fn lateness_matches_a_count_over_all_instants() {
        let mut prng = base::prng::Prng::new(7);
        let gaps: Vec<u64> = (0..40).map(|_| 1 + prng.below(500)).collect();
        let total: u64 = gaps.iter().sum::<u64>() * 3;
        let mut late: Vec<u64> = gaps.iter().flat_map(|gap| 1..=*gap).collect();
        late.resize(total as usize, 0);
        late.sort_unstable();
        let away = Away::of(gaps, total);
        for quantile in [0.5, 0.7, 0.8, 0.9, 0.99, 0.999] {
            let asked = late[(total as f64 * quantile) as usize];
            assert!(
                away.lateness_ns(quantile).abs_diff(asked) <= 1,
                "{quantile}: {asked}, {}",
                away.lateness_ns(quantile)
            );
        }
    }

    #[test]
    fn gaps_are_weighted_by_their_duration() {
        const SECOND_NS: u64 = 1_000_000_000;
        // Nine gaps of 100 us are 0.9 ms of a second: fewer than one instant in a thousand. A tenth gap reaches that
        // share.
        let mut gaps = vec![100_000; 9];
        gaps.extend([2_000; 20]);
        assert_eq!(Away::of(gaps.clone(), SECOND_NS).gap_ns_of(0.001), 0);
        gaps.push(100_000);
        assert_eq!(Away::of(gaps, SECOND_NS).gap_ns_of(0.001), 100_000);
        assert_eq!(Away::of(vec![2_000; 600], SECOND_NS).gap_ns_of(0.001), 2_000);
        assert_eq!(Away::default().gap_ns_of(0.001), 0);
    }

    #[test]
    fn watch_measures_a_usable_cpu_and_rejects_a_missing_cpu() {
        let cpu = crate::affinity::usable_cpus().unwrap()[0];
        let seen = Away::watch(cpu, Duration::from_millis(5)).unwrap();
        assert!(seen.total_ns >= 5_000_000 && seen.gaps_ns.iter().sum::<u64>() <= seen.total_ns);
        assert!(Away::watch(usize::MAX, Duration::from_millis(5)).is_err());
    }

    #[test]
    fn two_watches_are_one() {
        let both = Away::of(vec![10], 100).and(Away::of(vec![90], 900));
        assert_eq!(both, Away::of(vec![90, 10], 1_000));
    }
}
