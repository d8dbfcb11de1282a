//! The threads of the graph store. One commits it to its disk. The other compacts graphs: it copies live records out of
//! the emptiest segments, so that they can be reused. It also completes bulk loads whose clients have left, sweeps over
//! lists with tombstones, and frees the indexes of dropped graphs.
//!
//! ```text
//!   few segments free, or a command asks ──> slices of 64 KiB, each under the graph's writer ──> nothing left: idle
//!   a quarter of the age of tombstones   ──> a sweep over all lists, in slices
//! ```
//!
//! Invariants: the thread holds a graph's writer for one slice, at most some 100 us, and never waits for it. It copies
//! at most [`SLICE_WORDS`] in [`PAUSE`], about 300 MB/s.

use crate::shared::Shared;
use base::units::TimeSpan;
use command::keyspace::graph_commits::{GraphCommits, GraphSync};
use command::keyspace::graphs::Graphs;
use graph::{BulkStep, BulkWriter, CompactionStep, Graph, GraphError, GraphStore, SweepPosition};
use std::time::{Duration, Instant};

/// The sleep between two checks for work.
const LOOK: Duration = Duration::from_millis(10);
/// The sleep between two looks at requests for commits.
const LOOK_COMMIT: Duration = Duration::from_millis(50);
/// The sleep between two checks while there is no graph.
const IDLE: Duration = Duration::from_millis(100);
/// The lists, or the merged edges divided by 16, that a slice of a sweep visits.
const SWEEP_STEPS: usize = 512;
/// The slices of a sweep between two looks at other work.
const SWEEP_SLICES: usize = 16;
/// The minimum and the maximum of the time between two sweeps.
const SWEEP_PERIOD_MIN: Duration = Duration::from_secs(1);
const SWEEP_PERIOD_MAX: Duration = Duration::from_secs(600);
/// The words of a slice.
const SLICE_WORDS: usize = 16 << 10;
/// The edges of a slice of a bulk load.
const SLICE_EDGES: u32 = 512;
/// The pause between two slices.
const PAUSE: Duration = Duration::from_micros(200);
/// The pause after which compaction that found nothing tries again, while segments are short.
const AGAIN: Duration = Duration::from_secs(1);
/// The maximum share of live words of a segment that is compacted, in percent: when a change finds no room (merges of
/// lists free words even then), when a command asks, when less than a quarter of the segments is free, and otherwise.
const LIVE_FULL: u32 = 100;
const LIVE_ASKED: u32 = 95;
const LIVE_SHORT: u32 = 75;
const LIVE_ALWAYS: u32 = 25;

/// Compacts until all workers have ended.
pub(crate) fn run(shared: &Shared) {
    let graphs = &shared.graphs;
    let Some(store) = graphs.store() else { return };
    let mut sweeps = Sweeps::new(shared.config.graph_tombstone_age_s);
    let (mut served, mut exhausted_at, mut found_nothing_at) = (0, 0, None::<Instant>);
    while !shared.threads.stop.workers_ended() {
        let dropping = store.free_dropped();
        if dropping > 0 {
            // In a store on a disk, their segments wait for a commit.
            graphs.commits.ask();
            graphs.forget_batches_of_dropped();
        }
        let is_empty = store.graphs().next().is_none();
        std::thread::park_timeout(if is_empty && dropping == 0 { IDLE } else { LOOK });
        if is_empty {
            continue;
        }
        sweeps.advance(shared, store);
        for graph in store.graphs() {
            complete_left_batch(shared, graphs, &graph);
        }
        let wishes = graphs.wishes();
        let is_asked = wishes != served;
        let stats = store.stats();
        let is_short = (stats.segments_free + stats.segments_retired) * 4 < stats.segments;
        if stats.segments_free * 4 < stats.segments && stats.segments_retired > 0 {
            // In a store on a disk, retired segments wait for a commit.
            graphs.commits.ask();
        }
        if found_nothing_at.is_some_and(|at| at.elapsed() < AGAIN) && !is_asked {
            continue;
        }
        let live_max = match (is_asked, is_short) {
            (true, true) => LIVE_FULL,
            (true, false) => LIVE_ASKED,
            (false, true) => LIVE_SHORT,
            (false, false) => LIVE_ALWAYS,
        };
        served = wishes;
        // A full store has no segments to open in place of the sealed ones.
        let seals = graphs.take_seal_wish() && !is_short;
        let has_gained = compact(shared, graphs, store, live_max, seals);
        // Only removals make room in a full store, and each of them counts as a change.
        let changed = shared.workers.iter().map(|worker| worker.graph.changed.value()).sum();
        if has_gained || changed != exhausted_at {
            graphs.set_exhausted(false);
        }
        if is_asked && !has_gained {
            graphs.set_exhausted(true);
            exhausted_at = changed;
        }
        found_nothing_at = (!has_gained).then(Instant::now);
    }
}

/// The sweeps over the lists of all graphs, which mark and drop tombstones.
struct Sweeps {
    age_s: u32,
    next: Instant,
    /// The sweep in progress: the number of graphs that are done, and the position in the next one.
    at: Option<(usize, SweepPosition)>,
}

impl Sweeps {
    fn new(age_s: u32) -> Self {
        Self { age_s, next: Instant::now(), at: None }
    }

    /// Sets the store's clock, and runs some slices of a sweep if it is time.
    fn advance(&mut self, shared: &Shared, store: &GraphStore) {
        let now_s = (shared.now().0.saturating_add_signed(shared.wall_ahead_ms()) / 1000) as u32;
        store.set_tombstone_age(now_s, self.age_s);
        if self.at.is_none() && Instant::now() >= self.next {
            self.at = Some((0, SweepPosition::default()));
            let period = Duration::from_secs(u64::from(self.age_s) / 4);
            self.next = Instant::now() + period.clamp(SWEEP_PERIOD_MIN, SWEEP_PERIOD_MAX);
        }
        for _ in 0..SWEEP_SLICES {
            let Some((done, position)) = self.at else { return };
            let Some(graph) = store.graphs().nth(done) else {
                self.at = None;
                return;
            };
            if let Some(mut writer) = graph.try_writer() {
                // A list that found no room is swept the next time, after compaction.
                let next = writer.sweep(position, SWEEP_STEPS).unwrap_or(None);
                self.at = Some(next.map_or((done + 1, SweepPosition::default()), |next| (done, next)));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Loads the rest of a batch whose client has left, as far as there is room.
fn complete_left_batch(shared: &Shared, graphs: &Graphs, graph: &Graph) {
    let Some(mut permit) = graphs.take_left_batch(graph.number()) else { return };
    while !shared.threads.stop.workers_ended() {
        let Some(mut writer) = graph.try_writer() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        let mut bulk = BulkWriter::new(&mut writer);
        match bulk.step(SLICE_EDGES) {
            Ok(BulkStep::More) => {}
            Ok(BulkStep::Done) => {
                permit.has_batch = false;
                drop(bulk.finish());
                return;
            }
            Err(error) => {
                // Compaction may make room before the next attempt.
                permit.has_batch = bulk.cancel().is_none();
                if error == GraphError::NoSpace {
                    graphs.ask_for_compaction();
                }
                return;
            }
        }
        drop(writer);
        std::thread::sleep(PAUSE);
    }
}

/// Compacts segments of all graphs until none of them is as empty as `live_max` percent, but no more segments than
/// there are. Returns true if more segments are free than before, or if changes have used up such segments since.
fn compact(shared: &Shared, graphs: &Graphs, store: &GraphStore, live_max: u32, seals: bool) -> bool {
    let free = || store.stats().segments_free + store.stats().segments_retired;
    let (before, opened_before, mut left) = (free(), store.stats().segments_opened, store.stats().segments);
    for graph in store.graphs() {
        let mut is_sealed = !seals;
        while left > 0 && !shared.threads.stop.workers_ended() {
            let Some(mut writer) = graph.try_writer() else {
                std::thread::sleep(PAUSE);
                continue;
            };
            if !std::mem::replace(&mut is_sealed, true) {
                writer.seal();
            }
            let step = writer.compact(live_max, SLICE_WORDS);
            drop(writer);
            graphs.compaction.slices.add(1);
            match step {
                Ok(CompactionStep::More) => {}
                Ok(CompactionStep::Emptied) => {
                    left -= 1;
                    graphs.compaction.segments.add(1);
                }
                Ok(CompactionStep::Nothing) | Err(_) => break,
            }
            std::thread::sleep(PAUSE);
        }
    }
    free() > before || store.stats().segments_opened > opened_before
}

/// Commits the store to its disk until all workers have ended, and once more then. This is the body of a thread of its
/// own, because the disk may take long.
pub(crate) fn commit(shared: &Shared) {
    let graphs = &shared.graphs;
    let commits = &graphs.commits;
    let log = shared.graph_commit_log.lock().expect("no holder of the lock panics").take();
    let (Some(mut log), Some(store)) = (log, graphs.store()) else { return };
    commits.set_thread(std::thread::current());
    let mut last = Instant::now();
    loop {
        let ends = shared.threads.stop.workers_ended();
        let is_due = match commits.sync() {
            GraphSync::Every(interval) => last.elapsed() >= Duration::from_nanos(interval.0),
            GraphSync::Never | GraphSync::Always => false,
        };
        if ends || is_due || commits.is_asked() {
            last = Instant::now();
            commits.begin();
            if let Err(error) = log.commit(store) {
                commits.fail();
                log.record_failure();
                tracing::error!(
                    "the disk refused a commit of the graphs in {}: {error}; no change of graphs is accepted until a \
                     restart; check the disk and its free space",
                    log.path().display()
                );
                return;
            }
            commits.end();
        }
        if ends {
            return;
        }
        if !commits.is_asked() {
            std::thread::park_timeout(commit_pause(commits, last));
        }
    }
}

/// Returns the time until the next look.
fn commit_pause(commits: &GraphCommits, last: Instant) -> Duration {
    match commits.sync() {
        GraphSync::Every(TimeSpan(ns)) => Duration::from_nanos(ns).saturating_sub(last.elapsed()).min(LOOK_COMMIT),
        GraphSync::Never | GraphSync::Always => LOOK_COMMIT,
    }
}
