//! The thread for the store's background work: in slices, it evicts, expires, compacts, and grows the index. Also the
//! thread that obtains memory from the kernel before the store needs it, and the threads that rebuild the index.

use crate::shared::Shared;
use command::config::BACKGROUND_HZ;
use command::push::topics::TopicWalk;
use command::push::watch::Evictions;
use command::visit::clock::Clock;
use segment::{Background, LostItems, Populator, RebuildStep, Rebuilder, SliceKind};
use std::sync::Arc;
use std::time::Duration;

/// The pause of the background thread after its work blocked a client's flush.
const FLUSH_ROOM: Duration = Duration::from_millis(3);
/// The longest sleep of the background thread, if no work waits and no worker wakes it.
const SLEEP_MAX: Duration = Duration::from_millis(1000 / BACKGROUND_HZ);

/// The sleep of the populating thread when it has obtained enough memory ahead of use.
const POPULATE_SLEEP: Duration = Duration::from_millis(10);

/// The sleep of a thread that rebuilds the index and must wait for other threads.
const REBUILD_WAIT: Duration = Duration::from_millis(1);

/// The maximum number of steps of [`TopicSignals`] in one slice.
const SIGNAL_STEPS: usize = 64;

/// The target duration of a slice, in ns. A slice that has reached it ends before its next item.
const SLICE_NS: u64 = 200_000;

/// Returns the CPU time of the calling thread, in ns.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs slices until all workers have ended. `shared` must be able to unpark the calling thread.
pub(crate) fn run(shared: &Arc<Shared>, mut background: Background, clock: &Clock) {
    let mut evictions = Evictions::new(shared, clock);
    let mut signalling = TopicSignals { seen: shared.namespaces.changes(), walk: None };
    background.observe(Box::new(evictions.clone()));
    // Do not use `is_rebuilding` here: other threads may complete the rebuild before the first slice.
    let mut rebuilds = shared.store.reopened().is_some_and(|reopened| reopened.rebuilds_index);
    let mut finds = false;
    while !shared.threads.stop.workers_ended() {
        let (begun, cpu_begun) = (clock.ticks(), cpu_ns());
        shared.detect_clock_step();
        let mut over = || clock.ns_between(begun, clock.ticks()) >= SLICE_NS;
        let report = background.slice(shared.scripts.earliest_present(clock.unix()), &mut over);
        shared.background.add(report.kind, clock.ns_between(begun, clock.ticks()), cpu_ns() - cpu_begun);
        if let Some(lost) = background.take_lost() {
            log_lost(&lost);
        }
        evictions.publish(shared);
        shared.topics.expire(clock.unix());
        signalling.advance(shared);
        if rebuilds && !shared.store.is_rebuilding() {
            rebuilds = false;
            log_index_rebuilt(shared, clock);
            finds = shared.store.is_finding();
        }
        if finds && !shared.store.is_finding() {
            finds = false;
            log_flash_found(shared, clock);
        }
        if shared.delayed_flush.take_refused() {
            // A worker retries the flush every millisecond, and must not find a slice running each time.
            std::thread::sleep(FLUSH_ROOM);
        } else if report.more {
            // Let a worker on the same CPU run first.
            std::thread::yield_now();
        } else {
            std::thread::park_timeout(SLEEP_MAX);
        }
    }
}

/// Signals of changed namespaces to the subscribers of topics.
struct TopicSignals {
    /// The number of changes of namespaces that were signalled, or are being signalled.
    seen: u64,
    walk: Option<TopicWalk>,
}

impl TopicSignals {
    /// Continues to signal, for a bounded time.
    fn advance(&mut self, shared: &Shared) {
        let changes = shared.namespaces.changes();
        if std::mem::replace(&mut self.seen, changes) != changes {
            self.walk = Some(TopicWalk::default());
        }
        let Some(walk) = &mut self.walk else { return };
        let note = |worker: usize, connection| {
            if shared.workers[worker].push_queue.note(connection) {
                shared.host.wake_worker(worker);
            }
        };
        if (0..SIGNAL_STEPS).any(|_| shared.topics.signal_some(walk, note)) {
            self.walk = None;
        }
    }
}

/// Logs the items of a memory file that are lost, because their bytes were damaged.
fn log_lost(lost: &LostItems) {
    let LostItems { items, bytes, gaps } = lost;
    tracing::warn!(
        "the memory file was damaged: {items} items with {bytes} bytes are lost, {gaps} places had no readable item; \
         check the disk or memory of the host"
    );
}

/// Logs that the index was rebuilt, with the numbers of found and lost items.
fn log_index_rebuilt(shared: &Shared, clock: &Clock) {
    let progress = shared.store.rebuild_progress().unwrap_or_default();
    let ms = clock.unix().ms_since(shared.started);
    let (items, torn, dropped) = (progress.items, progress.torn, progress.segments_dropped);
    tracing::info!(
        "the index was rebuilt {ms} ms after the start: {items} items were found; {torn} torn items are lost, \
         {dropped} segments were dropped to free memory"
    );
}

/// Logs that the items on flash were found again, with the numbers of found items and lost regions.
fn log_flash_found(shared: &Shared, clock: &Clock) {
    let progress = shared.store.rebuild_progress().unwrap_or_default();
    let ms = clock.unix().ms_since(shared.started);
    let counts = shared.threads.flash.as_ref().map(|flash| flash.counts()).unwrap_or_default();
    let (items, unread, failed) = (progress.on_flash, counts.regions_dropped, counts.footers_failed);
    tracing::info!(
        "the items on flash were found {ms} ms after the start: {items} items; {unread} regions were dropped to free \
         space, {failed} chunks were damaged"
    );
}

/// Obtains memory from the kernel until all workers have ended, one step at a time. A step takes as long as the kernel
/// needs. Only a growth of the index waits for a step; so each step wakes the background thread, which grows the index.
/// The thread yields to a worker on the same CPU, which would otherwise wait for the end of the scheduler's slice, 4
/// ms.
pub(crate) fn populate(shared: &Arc<Shared>, mut populator: Populator, clock: &Clock) {
    io::affinity::give_way();
    let mut warned = false;
    while !shared.threads.stop.workers_ended() {
        let (begun, cpu_begun) = (clock.ticks(), cpu_ns());
        if populator.step() {
            shared.background.add(SliceKind::Populate, clock.ns_between(begun, clock.ticks()), cpu_ns() - cpu_begun);
            shared.host.wake_background();
            std::thread::yield_now();
        } else {
            if shared.store.takes_short_of_space() && !std::mem::replace(&mut warned, true) {
                tracing::warn!(
                    "the memory file's file system has no space left: less memory is used than --memory \
                     allows; free space there"
                );
            }
            command::keyspace::metadata::PersistedMetadata::shorten(&shared.store);
            std::thread::park_timeout(POPULATE_SLEEP);
        }
    }
}

/// Helps to rebuild the index, until it is complete or all workers have ended.
pub(crate) fn rebuild(shared: &Arc<Shared>, mut rebuilder: Rebuilder, clock: &Clock) {
    while !shared.threads.stop.workers_ended() {
        let begun = clock.ticks();
        match rebuilder.step(clock.unix(), &mut || clock.ns_between(begun, clock.ticks()) >= SLICE_NS) {
            RebuildStep::More => std::thread::yield_now(),
            RebuildStep::Waits => std::thread::sleep(REBUILD_WAIT),
            RebuildStep::Whole => break,
        }
    }
}
