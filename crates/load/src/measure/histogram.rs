//! Times at three significant digits, from a nanosecond to about a quarter of an hour.

use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest recorded time, in nanoseconds; longer times count as this one.
pub const TIME_NS_MAX: u64 = 1_000_000_000_000;
const DIGITS: u8 = 3;

/// Counts of times in nanoseconds, at three significant digits. A histogram reserves about 260 KiB, but only the pages
/// in use are resident.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(Hdr<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Returns an empty histogram.
    pub fn new() -> Self {
        Self(Hdr::new_with_bounds(1, TIME_NS_MAX, DIGITS).expect("the bounds and digits are in range"))
    }

    /// Records one time in nanoseconds. Times above [`TIME_NS_MAX`] count as [`TIME_NS_MAX`].
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Records `count` times of `ns` nanoseconds each.
    pub fn record_n(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns, count);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// Removes all counts.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns the time in nanoseconds that a share `quantile` (from 0 to 1) of all times do not exceed. The result is
    /// the highest value of its class; 0 if the histogram is empty.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// Returns the share of times that are at most `ns`, from 0 to 1; 1 if the histogram is empty.
    pub fn share_within(&self, ns: u64) -> f64 {
        if self.0.is_empty() { 1.0 } else { self.0.quantile_below(ns.min(TIME_NS_MAX)) }
    }

    /// Returns the longest time in nanoseconds, as the highest value of its class; 0 if the histogram is empty.
    pub fn max_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }

    /// Returns the shortest time in nanoseconds, as the lowest value of its class; 0 if the histogram is empty.
    pub fn min_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.min() }
    }

    /// Returns the mean in nanoseconds, to the precision of the classes; 0 if the histogram is empty.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// Returns each non-empty class in ascending order: its highest value in nanoseconds and its count.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// Returns the underlying histogram, for the writer of HDR logs.
    pub const fn as_hdr(&self) -> &Hdr<u64> {
        &self.0
    }
}

/// The serialised form: only the non-empty classes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Pairs of the highest value of a class in nanoseconds and its count, ascending.
    classes_ns: Vec<(u64, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written { classes_ns: self.classes().collect() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let mut histogram = Self::new();
        for (ns, count) in written.classes_ns {
            histogram.record_n(ns, count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn time_above_histogram_range_is_still_recorded() {
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        histogram.record(0);
        assert_eq!(histogram.count(), 2);
        assert!(histogram.max_ns() >= TIME_NS_MAX);
        assert_eq!(histogram.min_ns(), 0);
    }

    #[test]
    fn an_empty_histogram_answers_every_question() {
        let histogram = Histogram::new();
        assert_eq!((histogram.count(), histogram.max_ns(), histogram.min_ns()), (0, 0, 0));
        assert_eq!(histogram.quantile_ns(0.999), 0);
        assert!((histogram.share_within(5) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn histogram_retains_three_digits_over_whole_range() {
        for ns in [1, 999, 1_001, 123_456, 7_654_321, 98_765_432_100, 700_000_000_000] {
            let mut histogram = Histogram::new();
            histogram.record(ns);
            let read = histogram.quantile_ns(0.5);
            assert!(read >= ns && read as f64 <= ns as f64 * 1.001 + 1.0, "{ns} is read as {read}");
        }
    }

    #[test]
    fn serialized_histogram_round_trips() {
        let (mut histogram, mut prng) = (Histogram::new(), Prng::new(5));
        for _ in 0..5_000 {
            histogram.record(prng.next_u64() >> (20 + prng.below(40)));
        }
        let text = serde_json::to_string(&histogram).unwrap();
        let read: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(read.classes().collect::<Vec<_>>(), histogram.classes().collect::<Vec<_>>());
        for quantile in [0.0, 0.5, 0.99, 0.999, 1.0] {
            assert_eq!(read.quantile_ns(quantile), histogram.quantile_ns(quantile));
        }
        assert_eq!((read.count(), read.max_ns()), (histogram.count(), histogram.max_ns()));
    }

    #[test]
    fn merged_histogram_equals_histogram_of_all_values() {
        let (mut one, mut left, mut right) = (Histogram::new(), Histogram::new(), Histogram::new());
        for ns in 0..10_000 {
            one.record(ns * ns);
            if ns % 3 == 0 { left.record(ns * ns) } else { right.record(ns * ns) }
        }
        left.merge(&right);
        assert_eq!(left, one);
    }
}
