//! A histogram with the figures that people read, as plain data.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hdr;

/// The greatest time that histograms tell apart, in ns: a thousand seconds.
pub const TIME_MAX_NS: u64 = 1_000_000_000_000;

/// Times of many requests, in ns: the usual figures, and all of them as a histogram with 3 significant digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// Number of values.
    pub count: u64,
    /// The least.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// Half of them take at most this.
    pub p50_ns: u64,
    /// 90 % of them take at most this.
    pub p90_ns: u64,
    /// 99 % of them take at most this.
    pub p99_ns: u64,
    /// 99.9 % of them take at most this.
    pub p999_ns: u64,
    /// 99.99 % of them take at most this.
    pub p9999_ns: u64,
    /// The greatest.
    pub max_ns: u64,
    /// The whole histogram, as HDR histograms are written in logs: V2, deflated, in base 64. Empty if there is none.
    pub histogram: String,
}

/// An empty histogram for times in ns.
pub fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_MAX_NS, 3).expect("the bounds are in order")
}

impl Latencies {
    /// Those in `histogram`, which counts ns.
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

    /// All of them again; `None` if there are none or the text is damaged.
    pub fn histogram(&self) -> Option<Histogram<u64>> {
        if self.histogram.is_empty() { None } else { hdr::decode(&self.histogram) }
    }

    /// The figures and their names, from the least.
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

    /// Several together.
    pub fn together<'a>(several: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = empty();
        for histogram in several.into_iter().filter_map(Self::histogram) {
            sum.add(&histogram).expect("all have the same bounds, or grow");
        }
        Self::of(&sum)
    }
}
