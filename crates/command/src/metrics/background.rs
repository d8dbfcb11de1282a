//! Counters of the store's background work, for each kind of slice. A slice is a short piece of background work.

use crate::metrics::counters::Counter;
use segment::SliceKind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The CPU time above which a slice is counted as long, in ns.
const LONG_NS: u64 = 1_000_000;

/// The number of buckets of a histogram of slice durations. The limits of the buckets are powers of two, in us.
const SLICE_BUCKETS: usize = 24;

/// The kinds of slices that are counted, with their names in metrics. A slice that found no work to do is not counted.
const KINDS: [(SliceKind, &str); 8] = [
    (SliceKind::Evict, "evict"),
    (SliceKind::Expire, "expire"),
    (SliceKind::Compact, "compact"),
    (SliceKind::Grow, "grow"),
    (SliceKind::Resize, "resize"),
    (SliceKind::Populate, "populate"),
    (SliceKind::Scrub, "scrub"),
    (SliceKind::Rebuild, "rebuild"),
];

/// The durations of the slices of one kind. For each kind, only one thread writes the counters: the background thread,
/// or the thread that populates memory. Wall-clock time includes the time in which other threads used the CPU. CPU time
/// is the thread's own.
#[derive(Debug, Default)]
pub struct SliceTimes {
    /// The total wall-clock time of all slices, in ns.
    pub busy_ns: Counter,
    /// The total CPU time of all slices, in ns.
    pub cpu_ns: Counter,
    /// The longest wall-clock time of a slice, in ns.
    pub longest_ns: AtomicU64,
    /// The longest CPU time of a slice, in ns.
    pub longest_cpu_ns: AtomicU64,
    /// The number of slices whose CPU time exceeded [`LONG_NS`].
    pub long: Counter,
    /// A histogram of wall-clock times. Element `i` counts slices of 2^(i-1) to 2^i us; the last one counts all longer
    /// slices.
    pub by_us_log2: [Counter; SLICE_BUCKETS],
}

impl SliceTimes {
    fn add(&self, ns: u64, cpu_ns: u64) {
        self.busy_ns.add(ns);
        self.cpu_ns.add(cpu_ns);
        self.longest_ns.fetch_max(ns, Relaxed);
        self.longest_cpu_ns.fetch_max(cpu_ns, Relaxed);
        self.long.add(u64::from(cpu_ns > LONG_NS));
        let us = ns / 1000;
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.by_us_log2[bucket.min(SLICE_BUCKETS - 1)].add(1);
    }
}

/// Counters of all background work.
#[derive(Debug, Default)]
pub struct BackgroundCounters {
    times: [SliceTimes; KINDS.len()],
}

impl BackgroundCounters {
    /// Returns the name and the durations of each kind of slice.
    pub fn by_kind(&self) -> impl Iterator<Item = (&'static str, &SliceTimes)> {
        KINDS.iter().map(|(_, name)| *name).zip(&self.times)
    }

    /// Returns the total CPU time of the slices of the kind `name`, in ms.
    pub fn cpu_ms(&self, name: &str) -> u64 {
        let of_kind = self.by_kind().filter(|(kind, _)| *kind == name);
        of_kind.map(|(_, times)| times.cpu_ns.value() / 1_000_000).sum()
    }

    /// Records a slice of `kind` with its wall-clock time `ns` and its CPU time `cpu_ns`.
    pub fn add(&self, kind: SliceKind, ns: u64, cpu_ns: u64) {
        if let Some(at) = KINDS.iter().position(|(counted, _)| *counted == kind) {
            self.times[at].add(ns, cpu_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_populate_does_not_count_as_a_long_slice_of_another_kind() {
        let counters = BackgroundCounters::default();
        counters.add(SliceKind::Populate, 9_000_000, 8_000_000);
        counters.add(SliceKind::Evict, 999, 900);
        counters.add(SliceKind::Evict, 200_000, 100);
        counters.add(SliceKind::Idle, u64::MAX, u64::MAX);
        let of = |kind| counters.by_kind().find(|(name, _)| *name == kind).expect("a kind").1;
        let count = |times: &SliceTimes| times.by_us_log2.iter().map(Counter::value).sum::<u64>();
        assert_eq!((of("evict").longest_ns.load(Relaxed), of("evict").busy_ns.value()), (200_000, 200_999));
        assert_eq!((of("evict").by_us_log2[0].value(), of("evict").by_us_log2[8].value()), (1, 1));
        assert_eq!(of("populate").longest_ns.load(Relaxed), 9_000_000);
        assert_eq!((counters.cpu_ms("populate"), counters.cpu_ms("evict")), (8, 0));
        assert_eq!(
            of("evict").longest_cpu_ns.load(Relaxed),
            900,
            "who waits for the CPU longest does not use it longest"
        );
        assert_eq!(counters.by_kind().map(|(_, times)| count(times)).sum::<u64>(), 3, "idle slices are not counted");
    }
}
