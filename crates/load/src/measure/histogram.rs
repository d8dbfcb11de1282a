//! Times at three significant digits, from a nanosecond to about a quarter of an hour.

use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest time of a bucket, in nanoseconds; longer ones are counted as this.
pub const TIME_NS_MAX: u64 = 1_000_000_000_000;
const DIGITS: u8 = 3;

/// Counts of times in nanoseconds, at three significant digits. Memory is about 260 KiB, of which only the pages
/// are used that times fall into.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(Hdr<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Self {
        Self(Hdr::new_with_bounds(1, TIME_NS_MAX, DIGITS).expect("the bounds and digits are in range"))
    }

    /// Files one time in nanoseconds. 0 is filed as it is, and what is longer than [`TIME_NS_MAX`] as that.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Files `count` times of `ns` nanoseconds each.
    pub fn record_n(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns, count);
    }

    /// Adds what `other` holds.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time in nanoseconds that a share `quantile` (from 0 to 1) of all times do not exceed, as the highest value
    /// of its class; 0 when nothing was filed.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// The share of times that are at most `ns`, from 0 to 1; 1 when nothing was filed.
    pub fn share_within(&self, ns: u64) -> f64 {
        if self.0.is_empty() { 1.0 } else { self.0.quantile_below(ns.min(TIME_NS_MAX)) }
    }

    /// The longest time in nanoseconds, as the highest value of its class; 0 when nothing was filed.
    pub fn max_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }

    /// The shortest time in nanoseconds, as the lowest value of its class; 0 when nothing was filed.
    pub fn min_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.min() }
    }

    /// The mean in nanoseconds, to the width of the classes; 0 when nothing was filed.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// Each class that holds something: the highest value in it, in nanoseconds, and its count. Ascending.
    pub fn classes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// The histogram underneath, for what writes HDR logs.
    pub const fn as_hdr(&self) -> &Hdr<u64> {
        &self.0
    }
}

/// The written form: only the classes that hold something.
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
    fn a_time_that_is_too_long_to_tell_is_filed_all_the_same() {
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
    fn three_digits_are_kept_over_the_whole_range() {
        for ns in [1, 999, 1_001, 123_456, 7_654_321, 98_765_432_100, 700_000_000_000] {
            let mut histogram = Histogram::new();
            histogram.record(ns);
            let read = histogram.quantile_ns(0.5);
            assert!(read >= ns && read as f64 <= ns as f64 * 1.001 + 1.0, "{ns} is read as {read}");
        }
    }

    #[test]
    fn what_is_written_reads_back_to_the_same_counts() {
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
    fn merging_equals_filing_into_one() {
        let (mut one, mut left, mut right) = (Histogram::new(), Histogram::new(), Histogram::new());
        for ns in 0..10_000 {
            one.record(ns * ns);
            if ns % 3 == 0 { left.record(ns * ns) } else { right.record(ns * ns) }
        }
        left.merge(&right);
        assert_eq!(left, one);
    }
}
