//! The thread of the store's background work: eviction, expiry, compaction, growth, in slices. And the thread that
//! obtains memory from the kernel ahead of its use.

use crate::clock::Clock;
use crate::counters::Counter;
use crate::shared::Shared;
use crate::watch::Evictions;
use segment::{Background, Populator, RebuildStep, Rebuilder, SliceKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The pause of the background thread after it blocked a flush.
const FLUSH_ROOM: Duration = Duration::from_millis(3);
/// Longest sleep when no work is waiting and no worker wakes it.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// The sleep of the populating thread when it has populated more than is used meanwhile.
const POPULATE_SLEEP: Duration = Duration::from_millis(10);

/// Sleep of a thread that rebuilds the index and has to wait for others.
const REBUILD_WAIT: Duration = Duration::from_millis(1);

/// Time of one slice, after which it ends at its next item.
const SLICE_NS: u64 = 200_000;

/// A slice of more CPU time than this is a long one.
const LONG_NS: u64 = 1_000_000;

/// The number of buckets of slice lengths: powers of two microseconds.
const SLICE_BUCKETS: usize = 24;

/// The kinds of slices that are counted, and their names. Slices without work are not counted.
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

/// The times of the slices of one kind. One thread alone writes them: the background thread, or the populating one.
/// Wall-clock time includes the time in which other threads had the CPU. A slice's cost is the thread's own CPU time.
#[derive(Debug, Default)]
pub struct SliceTimes {
    /// The total, in ns.
    pub busy_ns: Counter,
    /// The longest, in ns.
    pub longest_ns: AtomicU64,
    /// The longest in CPU time, in ns.
    pub longest_cpu_ns: AtomicU64,
    /// The number of slices of more than [`LONG_NS`] of CPU time.
    pub long: Counter,
    /// Element `i` counts the slices of less than 2^i us that are in no earlier one; the last, all longer ones.
    pub by_us_log2: [Counter; SLICE_BUCKETS],
}

impl SliceTimes {
    fn add(&self, ns: u64, cpu_ns: u64) {
        self.busy_ns.add(ns);
        self.longest_ns.fetch_max(ns, Relaxed);
        self.longest_cpu_ns.fetch_max(cpu_ns, Relaxed);
        self.long.add(u64::from(cpu_ns > LONG_NS));
        let us = ns / 1000;
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.by_us_log2[bucket.min(SLICE_BUCKETS - 1)].add(1);
    }
}

/// Counters of the background thread.
#[derive(Debug, Default)]
pub struct BackgroundCounters {
    times: [SliceTimes; KINDS.len()],
}

impl BackgroundCounters {
    /// Returns the times of each kind of slice, with its name.
    pub fn by_kind(&self) -> impl Iterator<Item = (&'static str, &SliceTimes)> {
        KINDS.iter().map(|(_, name)| *name).zip(&self.times)
    }

    /// Records a slice of `kind` that took `ns`, and `cpu_ns` of CPU time.
    fn add(&self, kind: SliceKind, ns: u64, cpu_ns: u64) {
        if let Some(at) = KINDS.iter().position(|(counted, _)| *counted == kind) {
            self.times[at].add(ns, cpu_ns);
        }
    }
}

/// Returns the CPU time of the calling thread, in ns.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs slices until the workers are gone. `shared` must be able to unpark the calling thread.
pub(crate) fn run(shared: &Arc<Shared>, mut background: Background, clock: &Clock) {
    let mut evictions = Evictions::new(&shared.watch, clock);
    background.observe(Box::new(evictions.clone()));
    // Other threads may have rebuilt the index before the first slice.
    let mut rebuilds = shared.store.reopened().is_some_and(|reopened| reopened.index_anew);
    let mut finds = false;
    while !shared.stop.workers_gone() {
        let (begun, cpu_begun) = (clock.ticks(), cpu_ns());
        shared.follow_wall();
        let mut over = || clock.ns_between(begun, clock.ticks()) >= SLICE_NS;
        let report = background.slice(clock.unix(), &mut over);
        shared.background.add(report.kind, clock.ns_between(begun, clock.ticks()), cpu_ns() - cpu_begun);
        evictions.publish(shared);
        if rebuilds && !shared.store.is_rebuilding() {
            rebuilds = false;
            tell_whole(shared, clock);
            finds = shared.store.is_finding();
        }
        if finds && !shared.store.is_finding() {
            finds = false;
            tell_found(shared, clock);
        }
        if shared.delayed_flush.take_refused() {
            // A worker retries in a millisecond, and must not meet the next slice each time.
            std::thread::sleep(FLUSH_ROOM);
        } else if report.more {
            // A worker may share this CPU and goes first.
            std::thread::yield_now();
        } else {
            std::thread::park_timeout(SLEEP_MAX);
        }
    }
}

/// Logs that the index is rebuilt, and what was not found.
fn tell_whole(shared: &Shared, clock: &Clock) {
    let progress = shared.store.rebuild_progress().unwrap_or_default();
    let ms = clock.unix().ms_since(shared.started);
    let (items, torn, dropped) = (progress.items, progress.torn, progress.segments_dropped);
    tracing::info!(
        "the index is whole {ms} ms after the start: {items} items were found; {torn} were torn and are gone, \
         {dropped} segments were given up for memory"
    );
}

/// Logs that the items on flash are found again, and what was not found.
fn tell_found(shared: &Shared, clock: &Clock) {
    let progress = shared.store.rebuild_progress().unwrap_or_default();
    let ms = clock.unix().ms_since(shared.started);
    let counts = shared.flash.as_ref().map(|flash| flash.counts()).unwrap_or_default();
    let (items, unread, failed) = (progress.on_flash, counts.regions_dropped, counts.footers_failed);
    tracing::info!(
        "flash is found {ms} ms after the start: {items} items; {unread} regions were given up for room, \
         {failed} chunks were not what was written"
    );
}

/// Obtains memory until the workers are gone, a step at a time. A step takes as long as the kernel does. Only a growth
/// of the index waits for it, and is notified. A worker on the same CPU goes first: otherwise it would wait for the
/// scheduler's slice to end, 4 ms.
pub(crate) fn populate(shared: &Arc<Shared>, mut populator: Populator, clock: &Clock) {
    io::affinity::give_way();
    let mut told = false;
    while !shared.stop.workers_gone() {
        let (begun, cpu_begun) = (clock.ticks(), cpu_ns());
        if populator.step() {
            shared.background.add(SliceKind::Populate, clock.ns_between(begun, clock.ticks()), cpu_ns() - cpu_begun);
            shared.wake_background();
            std::thread::yield_now();
        } else {
            if shared.store.takes_short_of_space() && !std::mem::replace(&mut told, true) {
                tracing::warn!(
                    "the memory file's file system has no space left: less memory is used than --memory \
                     says; make room there"
                );
            }
            crate::kept::Kept::shorten(&shared.store);
            std::thread::park_timeout(POPULATE_SLEEP);
        }
    }
}

/// Helps to rebuild the index, until it is complete or the workers are gone.
pub(crate) fn rebuild(shared: &Arc<Shared>, mut rebuilder: Rebuilder, clock: &Clock) {
    while !shared.stop.workers_gone() {
        let begun = clock.ticks();
        match rebuilder.step(clock.unix(), &mut || clock.ns_between(begun, clock.ticks()) >= SLICE_NS) {
            RebuildStep::More => std::thread::yield_now(),
            RebuildStep::Waits => std::thread::sleep(REBUILD_WAIT),
            RebuildStep::Whole => break,
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
        assert_eq!(
            of("evict").longest_cpu_ns.load(Relaxed),
            900,
            "who waits for the CPU longest does not use it longest"
        );
        assert_eq!(counters.by_kind().map(|(_, times)| count(times)).sum::<u64>(), 3, "idle slices are not counted");
    }
}
