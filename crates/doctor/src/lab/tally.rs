//! A tally of times: an HDR histogram with three digits, and its form for the transfer between processes.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest recorded time, in ns: ten minutes. Longer times count as this time.
const NS_MAX: u64 = 600_000_000_000;
/// Number of points of a curve per nine: from 90 % to 99 %, from 99 % to 99.9 %, and so on.
const POINTS_A_NINE: u32 = 12;
/// Maximum number of nines of a curve: 6 means 99.9999 %.
const NINES_MAX: f64 = 6.0;

/// A histogram of times in ns.
#[derive(Clone, Debug)]
pub struct TimeTally(Histogram<u64>);

impl Default for TimeTally {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, NS_MAX, 3).expect("the bounds are sound"))
    }
}

/// The serialised form of a tally: values in ns with their counts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Pairs(Vec<(u64, u64)>);

impl TimeTally {
    /// Records a time of `ns` nanoseconds.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Adds all times of another tally.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the bounds are the same");
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the time in ns that the share `share` of all times does not exceed; 0 if there are no times.
    pub fn at(&self, share: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(share) }
    }

    /// Returns the points of a percentile curve: shares, and times in ns.
    pub fn curve(&self) -> Vec<(f64, f64)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let nines = (self.0.len() as f64).log10().min(NINES_MAX);
        let steps = 0..=(nines * f64::from(POINTS_A_NINE)) as u32;
        let share = |step: u32| 1.0 - 10f64.powf(-f64::from(step) / f64::from(POINTS_A_NINE));
        steps.map(share).map(|share| (share, self.at(share) as f64)).collect()
    }

    /// Returns the serialised form, for another process.
    pub fn pairs(&self) -> Pairs {
        Pairs(
            self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_since_last_iteration())).collect(),
        )
    }
}

impl From<Pairs> for TimeTally {
    fn from(pairs: Pairs) -> Self {
        let mut tally = Self::default();
        for (ns, count) in pairs.0 {
            tally.0.saturating_record_n(ns.max(1), count);
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_the_same_in_another_process() {
        let mut tally = TimeTally::default();
        for n in 1..=10_000u64 {
            tally.record(n * 977);
        }
        tally.record(u64::MAX);
        let json = serde_json::to_string(&tally.pairs()).unwrap();
        let other = TimeTally::from(serde_json::from_str::<Pairs>(&json).unwrap());
        assert_eq!((tally.count(), tally.curve()), (other.count(), other.curve()));
        assert!(other.at(0.5).abs_diff(5000 * 977) < 5000 * 2, "{}", other.at(0.5));
    }

    #[test]
    fn empty_tally_has_no_curve() {
        assert_eq!((TimeTally::default().at(0.99), TimeTally::default().curve().len()), (0, 0));
    }
}
