//! A log-linear histogram of durations in ns, with one writer and any number of readers.
//!
//! ```text
//!   value      0 .. 63          64 .. 127        128 .. 255       ...     2^36 .. 2^37-1
//!   width      1                2                4                        2^31
//!   buckets    64               32               32                       32            1056 in total
//! ```
//! From 64 on, each power of two is divided into 32 buckets. The width of a bucket is therefore at most 1/32 of its
//! lower end. The middle of a bucket differs by at most 1.6 % from every value that the bucket counts. Values of 2^37
//! ns (137 s) or more count as 2^37 - 1.

use super::counters::Counter;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The binary logarithm of the number of buckets for each power of two.
const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
/// The maximum number of bits of a value.
const VALUE_BITS: u32 = 37;
/// The greatest value in ns. Larger values count as this one.
pub const MAX_NS: u64 = (1 << VALUE_BITS) - 1;
/// The number of buckets of a histogram.
pub(crate) const BUCKETS: usize = 2 * SUB + (VALUE_BITS - SUB_BITS - 1) as usize * SUB;

const _: () = assert!(BUCKETS == 1056 && MAX_NS > 100_000_000_000);

/// Returns the bucket that counts `ns`. One formula serves all values: for values below 64, low bits are set before the
/// highest bit is located, so that `shift` is 0.
#[inline]
const fn bucket_of(ns: u64) -> usize {
    let ns = if ns > MAX_NS { MAX_NS } else { ns };
    let top = 63 - (ns | (2 * SUB as u64 - 1)).leading_zeros();
    let shift = top - SUB_BITS;
    (shift as usize) * SUB + (ns >> shift) as usize
}

/// Returns the smallest value of `bucket`, in ns.
const fn lowest(bucket: usize) -> u64 {
    if bucket < 2 * SUB {
        return bucket as u64;
    }
    let shift = bucket / SUB - 1;
    ((bucket % SUB + SUB) as u64) << shift
}

/// Returns the greatest value of `bucket`, in ns.
const fn highest(bucket: usize) -> u64 {
    lowest(bucket + 1) - 1
}

/// A histogram, which only one thread writes.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum_ns: AtomicU64::new(0), max_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts the value `ns` `count` times. Only the thread that owns the histogram may call this function. If another
    /// thread calls it, counts may be lost.
    #[inline]
    pub fn record(&self, ns: u64, count: u32) {
        let bucket = &self.buckets[bucket_of(ns)];
        let count = u64::from(count);
        bucket.store(bucket.load(Relaxed) + count, Relaxed);
        self.sum_ns.store(self.sum_ns.load(Relaxed).wrapping_add(ns.wrapping_mul(count)), Relaxed);
        if ns > self.max_ns.load(Relaxed) {
            self.max_ns.store(ns, Relaxed);
        }
    }
}

impl Histogram {
    /// Returns true if no value was counted. It suffices to check the maximum and the first bucket, because every value
    /// except 0 raises the maximum.
    fn is_empty(&self) -> bool {
        self.max_ns.load(Relaxed) == 0 && self.buckets[0].load(Relaxed) == 0
    }
}

/// The number of buckets of a [`Histogram`] that one bucket of a [`CoarseHistogram`] covers. A coarse bucket is at most
/// an eighth of its lower end wide.
const FINE: usize = 4;

/// A histogram with a quarter of the buckets of a [`Histogram`], for durations of which there are many kinds. Only one
/// thread writes it.
#[derive(Debug)]
pub struct CoarseHistogram {
    buckets: [Counter; BUCKETS / FINE],
    sum_ns: Counter,
    max_ns: Counter,
}

impl Default for CoarseHistogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Counter::default()),
            sum_ns: Counter::default(),
            max_ns: Counter::default(),
        }
    }
}

impl CoarseHistogram {
    /// Counts the value `ns`. Only the thread that owns the histogram may call this function.
    #[inline]
    pub fn record(&self, ns: u64) {
        self.buckets[bucket_of(ns) / FINE].add(1);
        self.sum_ns.add(ns);
        if ns > self.max_ns.value() {
            self.max_ns.set(ns);
        }
    }
}

/// Counts that were read from histograms, or the difference of two such readings. Memory is allocated only if a value
/// was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketCounts {
    /// The count of each bucket. Empty if no value was counted.
    buckets: Box<[u64]>,
    /// The number of counted values.
    pub count: u64,
    /// The sum of all values, in ns.
    pub sum_ns: u64,
    /// The greatest value, in ns; 0 if there is none. In a difference, it is the upper end of the highest bucket.
    pub max_ns: u64,
}

impl BucketCounts {
    /// Adds the current counts of `histogram`. The histogram's writer may count further values at the same time, so a
    /// value may be included in the sum but not in the count.
    pub fn add(&mut self, histogram: &Histogram) {
        if histogram.is_empty() {
            return;
        }
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS].into_boxed_slice();
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&histogram.buckets) {
            let count = theirs.load(Relaxed);
            *mine += count;
            self.count += count;
        }
        self.sum_ns = self.sum_ns.wrapping_add(histogram.sum_ns.load(Relaxed));
        self.max_ns = self.max_ns.max(histogram.max_ns.load(Relaxed));
    }

    /// Adds the current counts of a coarse histogram. A value counts in the middle of its coarse bucket.
    pub fn add_coarse(&mut self, histogram: &CoarseHistogram) {
        if histogram.max_ns.value() == 0 && histogram.buckets[0].value() == 0 {
            return;
        }
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS].into_boxed_slice();
        }
        for (place, theirs) in histogram.buckets.iter().enumerate() {
            let count = theirs.value();
            self.buckets[place * FINE + FINE / 2] += count;
            self.count += count;
        }
        self.sum_ns = self.sum_ns.wrapping_add(histogram.sum_ns.value());
        self.max_ns = self.max_ns.max(histogram.max_ns.value());
    }

    /// Adds the counts of `other`.
    pub fn join(&mut self, other: &Self) {
        if self.buckets.is_empty() {
            self.buckets = other.buckets.clone();
        } else {
            self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        }
        self.count += other.count;
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the counts since `earlier`, which is an earlier reading of the same histograms.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets: Box<[u64]> = self.buckets.iter().zip(before).map(|(now, then)| now.saturating_sub(then)).collect();
        let count = buckets.iter().sum();
        let top = buckets.iter().rposition(|count| *count > 0);
        Self {
            max_ns: top.map_or(0, |bucket| highest(bucket).min(self.max_ns)),
            count,
            sum_ns: self.sum_ns.wrapping_sub(earlier.sum_ns),
            buckets,
        }
    }

    /// Returns the quantile `share` (0 to 1) of all values, in ns: the value that this share of them does not exceed.
    /// The result is the middle of a bucket, but at most the maximum. Returns 0 if there is no value.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let rank = ((share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return u64::midpoint(lowest(bucket), highest(bucket)).min(self.max_ns);
            }
        }
        self.max_ns
    }

    /// Returns the number of values in the buckets that end at or below `ns`.
    pub fn at_most(&self, ns: u64) -> u64 {
        let end = if ns >= MAX_NS { BUCKETS } else { bucket_of(ns + 1) }.min(self.buckets.len());
        self.buckets[..end].iter().sum()
    }

    /// Returns each non-empty bucket: its greatest value in ns, and its count.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| (highest(bucket), *count))
    }

    /// Returns the arithmetic mean, in ns; 0 if there is no value.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn buckets_cover_every_value_once_and_in_order() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(lowest(bucket)), bucket);
            assert_eq!(bucket_of(highest(bucket)), bucket);
            let (low, width) = (lowest(bucket), highest(bucket) - lowest(bucket) + 1);
            assert!(width == 1 || width * 32 <= low, "bucket {bucket} from {low} is {width} wide");
        }
        assert_eq!(highest(BUCKETS - 1), MAX_NS);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_filled_buckets_hold_every_value_under_an_end_that_it_does_not_exceed() {
        let histogram = Histogram::default();
        for (ns, count) in [(0, 2), (63, 1), (1_000, 3), (u64::MAX, 1)] {
            histogram.record(ns, count);
        }
        let mut counts = BucketCounts::default();
        counts.add(&histogram);
        assert_eq!(counts.filled().collect::<Vec<_>>(), [(0, 2), (63, 1), (1_007, 3), (MAX_NS, 1)]);
        assert_eq!(BucketCounts::default().filled().count(), 0);
    }

    #[test]
    fn quantiles_of_random_data_agree_with_another_histogram() {
        let mut worst = 0.0f64;
        for seed in 1..=20 {
            let mut prng = Prng::new(seed);
            let ours = Histogram::default();
            let mut oracle = hdrhistogram::Histogram::<u64>::new_with_bounds(1, MAX_NS, 4).unwrap();
            let mut max_ns = 0;
            for _ in 0..20_000 {
                let ns = 1 + (prng.next_u64() >> (28 + prng.below(36)));
                max_ns = max_ns.max(ns);
                ours.record(ns, 1);
                oracle.record(ns.min(MAX_NS)).unwrap();
            }
            let mut counts = BucketCounts::default();
            counts.add(&ours);
            assert_eq!((counts.count, counts.max_ns), (20_000, max_ns), "seed {seed}");
            for share in [0.01, 0.5, 0.9, 0.99, 0.999, 0.9999] {
                let (got, want) = (counts.quantile_ns(share) as f64, oracle.value_at_quantile(share) as f64);
                let error = (got - want).abs() / want;
                worst = worst.max(error);
                assert!(error <= 0.02 || (got - want).abs() <= 1.0, "seed {seed}, {share}: {got} and not {want}");
            }
        }
        assert!(worst > 0.0, "the two were never different: the test compares nothing");
    }

    #[test]
    fn a_coarse_histogram_counts_every_value_near_its_place() {
        let (coarse, fine) = (CoarseHistogram::default(), Histogram::default());
        let mut prng = Prng::new(3);
        for _ in 0..10_000 {
            let ns = prng.next_u64() >> (28 + prng.below(36));
            coarse.record(ns);
            fine.record(ns, 1);
        }
        let (mut of_coarse, mut of_fine) = (BucketCounts::default(), BucketCounts::default());
        of_coarse.add_coarse(&coarse);
        of_fine.add(&fine);
        let sums = |counts: &BucketCounts| (counts.count, counts.sum_ns, counts.max_ns);
        assert_eq!(sums(&of_coarse), sums(&of_fine));
        for share in [0.3, 0.5, 0.9, 0.99] {
            let (got, want) = (of_coarse.quantile_ns(share) as f64, of_fine.quantile_ns(share) as f64);
            assert!((got - want).abs() <= want / 8.0 + 4.0, "{share}: {got} and not {want}");
        }
        // Powers of two are limits of coarse buckets.
        for ns in (6..36).map(|log2| (1u64 << log2) - 1) {
            assert_eq!(of_coarse.at_most(ns), of_fine.at_most(ns), "{ns}");
        }
    }

    #[test]
    fn histogram_difference_covers_only_the_interval_and_bounds_its_maximum() {
        let histogram = Histogram::default();
        let read = || {
            let mut counts = BucketCounts::default();
            counts.add(&histogram);
            counts
        };
        histogram.record(5_000_000, 1);
        let before = read();
        histogram.record(1_000, 1);
        histogram.record(3_000, 3);
        let between = read().since(&before);
        assert_eq!((between.count, between.sum_ns, between.mean_ns()), (4, 10_000, 2_500));
        assert!((3_000..3_100).contains(&between.max_ns), "{}", between.max_ns);
        assert_eq!(read().since(&read()).max_ns, 0);
        assert_eq!((BucketCounts::default().quantile_ns(0.5), BucketCounts::default().at_most(5)), (0, 0));
        assert_eq!(between.since(&BucketCounts::default()).count, 4, "a reading before the first value");
        let zeros = Histogram::default();
        zeros.record(0, 1);
        let mut counts = BucketCounts::default();
        counts.add(&zeros);
        assert_eq!((counts.count, counts.at_most(0)), (1, 1), "a value of 0 counts");
        assert_eq!((between.at_most(999), between.at_most(2_000), between.at_most(u64::MAX)), (0, 1, 4));
    }
}
