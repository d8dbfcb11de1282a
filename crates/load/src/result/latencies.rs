//! A histogram with its usual figures, as plain data.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hdr;

/// The largest recorded time, in nanoseconds: a thousand seconds.
pub const TIME_MAX_NS: u64 = 1_000_000_000_000;

/// Times of many requests in nanoseconds: the usual percentiles, and a histogram with 3 significant digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Number of times.
    pub count: u64,
    /// The shortest time in nanoseconds.
    pub min_ns: u64,
    /// The mean time in nanoseconds.
    pub mean_ns: f64,
    /// 50 % of the times are at most this, in nanoseconds.
    pub p50_ns: u64,
    /// 90 % of the times are at most this, in nanoseconds.
    pub p90_ns: u64,
    /// 99 % of the times are at most this, in nanoseconds.
    pub p99_ns: u64,
    /// 99.9 % of the times are at most this, in nanoseconds.
    pub p999_ns: u64,
    /// 99.99 % of the times are at most this, in nanoseconds.
    pub p9999_ns: u64,
    /// The longest time in nanoseconds.
    pub max_ns: u64,
    /// The whole histogram in the text form of HDR logs: V2, deflated, in base 64. Empty without a histogram.
    pub histogram: String,
}

/// Returns an empty histogram for times in nanoseconds.
pub fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_MAX_NS, 3).expect("the bounds are in order")
}

impl Latencies {
    /// Returns the figures of `histogram`, which counts nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |share| histogram.value_at_quantile(share).min(histogram.max());
        Self {
            count: histogram.len(),
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            p9999_ns: at(0.9999),
            max_ns: histogram.max(),
            histogram: hdr::encode(histogram),
        }
    }

    /// Parses the whole histogram; `None` if there is none, or if its text is damaged.
    pub fn histogram(&self) -> Option<Histogram<u64>> {
        if self.histogram.is_empty() { None } else { hdr::decode(&self.histogram) }
    }

    /// Returns the figures with their names, in ascending order.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("p50", self.p50_ns),
            ("p90", self.p90_ns),
            ("p99", self.p99_ns),
            ("p999", self.p999_ns),
            ("p9999", self.p9999_ns),
            ("max", self.max_ns),
            ("mean", self.mean_ns as u64),
        ]
    }

    /// Combines several distributions.
    pub fn together<'a>(several: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = empty();
        for histogram in several.into_iter().filter_map(Self::histogram) {
            sum.add(&histogram).expect("all histograms have the same bounds or resize");
        }
        Self::of(&sum)
    }
}
