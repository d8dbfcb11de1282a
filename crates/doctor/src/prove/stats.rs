//! Confidence intervals from few rounds, by the bootstrap method.
//!
//! A draw takes n of the n rounds with replacement, and computes their mean. This is repeated many times. The interval
//! is between two quantiles of these means. With few rounds the usual quantiles give too narrow an interval, because
//! the draws underestimate the true spread. So the quantiles are chosen such that the interval of a mean of normally
//! distributed values is as wide as that of Student's t-test (the expanded percentile interval of Hesterberg, "What
//! Teachers Should Know About the Bootstrap", 2015, section 5.3).

use base::prng::Prng;
use serde::{Deserialize, Serialize};

/// Number of bootstrap draws, each of which gives one mean.
const DRAWS: usize = 10_000;
/// Minimum number of rounds. With fewer rounds, all may be on one side of the true value by chance.
pub const ROUNDS_MIN: usize = 5;
/// The share of the means outside each end of a 95 % interval, for [`ROUNDS_MIN`] values and more. For n values it is
/// the upper tail of the normal distribution at sqrt(n / (n - 1)) times the 97.5 % point of Student's t distribution
/// with n - 1 degrees of freedom.
const TAILS: [f64; 16] = [
    0.000_954, 0.002_432, 0.004_109, 0.005_738, 0.007_225, 0.008_551, 0.009_722, 0.010_757, 0.011_671, 0.012_483,
    0.013_207, 0.013_856, 0.014_439, 0.014_966, 0.015_445, 0.015_881,
];

/// A mean, with the interval that contains the true mean 19 times out of 20.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    fn map(self, to: fn(f64) -> f64) -> Self {
        Self { mean: to(self.mean), low: to(self.low), high: to(self.high) }
    }
}

/// Returns the mean of `values` with its interval; `None` if there are fewer than [`ROUNDS_MIN`] values, or if a value
/// is not finite. The same seed gives the same interval.
pub fn mean(values: &[f64], seed: u64) -> Option<Interval> {
    let count = values.len();
    if count < ROUNDS_MIN || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let of = |sum: f64| sum / count as f64;
    let mut prng = Prng::new(seed);
    let mut draw = || values[prng.below(count as u64) as usize];
    let mut means: Vec<f64> = (0..DRAWS).map(|_| of((0..count).map(|_| draw()).sum())).collect();
    means.sort_by(f64::total_cmp);
    let tail = TAILS[(count - ROUNDS_MIN).min(TAILS.len() - 1)];
    let outside = (tail * DRAWS as f64) as usize;
    Some(Interval { mean: of(values.iter().sum()), low: means[outside], high: means[DRAWS - 1 - outside] })
}

/// Returns the geometric mean of the rounds' ratios of `b` to `a`. Returns `None` as [`mean`] does, and if a value is
/// not above 0.
pub fn ratio(a: &[f64], b: &[f64], seed: u64) -> Option<Interval> {
    let logs: Vec<f64> = a.iter().zip(b).map(|(a, b)| (b / a).ln()).collect();
    Some(mean(&logs, seed)?.map(f64::exp))
}

/// Returns the mean of the rounds' differences `b - a`.
pub fn difference(a: &[f64], b: &[f64], seed: u64) -> Option<Interval> {
    mean(&a.iter().zip(b).map(|(a, b)| b - a).collect::<Vec<_>>(), seed)
}

/// Returns the median; `None` if there are no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    (count > 0).then(|| (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an approximately normal value: the sum of twelve uniform values, less 6.
    fn normal(prng: &mut Prng) -> f64 {
        (0..12).map(|_| prng.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn equal_sides_are_judged_different_in_about_5_percent_of_runs() {
        for rounds in [5, 7, 12] {
            let mut prng = Prng::new(rounds as u64);
            let wrong = (0..400).filter(|seed| {
                let mut side = || (0..rounds).map(|_| (0.3 * normal(&mut prng)).exp()).collect::<Vec<_>>();
                let found = ratio(&side(), &side(), *seed).unwrap();
                found.low > 1.0 || found.high < 1.0
            });
            let wrong = wrong.count();
            // With a probability of 1/16 all of five rounds are on one side of the true mean, and then no bootstrap
            // interval contains it.
            assert!((5..=40).contains(&wrong), "{rounds} rounds: {wrong} of 400");
        }
    }

    #[test]
    fn real_difference_is_detected_and_estimated_despite_noise() {
        let mut prng = Prng::new(1);
        let seen = (0..200).filter(|seed| {
            let a: Vec<f64> = (0..7).map(|_| (0.1 * normal(&mut prng)).exp()).collect();
            let b: Vec<f64> = (0..7).map(|_| 0.7 * (0.1 * normal(&mut prng)).exp()).collect();
            let found = ratio(&a, &b, *seed).unwrap();
            found.high < 1.0 && (found.mean - 0.7).abs() < 0.2
        });
        assert!(seen.count() > 190);
    }

    #[test]
    fn interval_is_reproducible_by_seed_and_absent_for_too_few_rounds() {
        let values = [1.0, 2.0, 4.0, 3.0, 9.0];
        assert_eq!(mean(&values, 3), mean(&values, 3));
        assert_eq!(mean(&values[..4], 3), None);
        assert_eq!(ratio(&[0.0; 5], &[1.0; 5], 1), None);
        assert_eq!(difference(&[1.0; 5], &[3.0; 5], 1), Some(Interval { mean: 2.0, low: 2.0, high: 2.0 }));
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[])), (Some(2.0), None));
    }
}
