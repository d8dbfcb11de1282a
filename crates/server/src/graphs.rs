//! The threads of the graph store. One commits it to its disk. The other compacts graphs: it copies live records out of
//! the emptiest segments, so that they can be reused. It also completes bulk loads whose clients have left, sweeps over
//! lists with tombstones, and frees the indexes of dropped graphs.
//!
//! ```text
//!   few segments free, or a command asks ──> slices of 64 KiB, each under the graph's writer ──> nothing left: idle
//!   a quarter of the age of tombstones   ──> a sweep over all lists, in slices
//!   compaction frees no room             ──> a shorter age of tombstones: see `TombstoneAge`
//! ```
//!
//! Invariants: the thread holds a graph's writer for one slice, at most some 100 us, and never waits for it. It copies
//! at most [`SLICE_WORDS`] in [`PAUSE`], about 300 MB/s.

use crate::shared::Shared;
use base::clock::UnixMillis;
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
/// The least age of tombstones in a full store, in seconds: a client that repeats a change does so earlier.
const FULL_AGE_S: u32 = 10;
/// The number by which the age of tombstones is divided each time that compaction frees no room.
const AGE_DIVISOR: u32 = 8;
/// The passes of compaction that drop all tombstones of the least age: one marks them, another one drops them.
const RIPE_PASSES: u32 = 2;

/// Compacts until all workers have ended.
pub(crate) fn run(shared: &Shared) {
    let graphs = &shared.graphs;
    let Some(store) = graphs.store() else { return };
    let now = shared.now();
    let wall_ms = now.0.saturating_add_signed(shared.wall_ahead_ms());
    let mut sweeps = Sweeps::new(TombstoneTime::begin(store, now, wall_ms));
    let mut age = TombstoneAge::new(shared.config.graph_tombstone_age_s);
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
        sweeps.advance(shared, store, age.current_s);
        for graph in store.graphs() {
            complete_left_batch(shared, graphs, &graph);
        }
        let wishes = graphs.wishes();
        let is_asked = wishes != served;
        let stats = store.stats();
        let segments_left = stats.segments_free + stats.segments_retired;
        let is_full = segments_left < stats.segments_before_addition;
        let is_short = is_full || segments_left * 4 < stats.segments;
        if stats.segments_free * 4 < stats.segments && stats.segments_retired > 0 {
            // In a store on a disk, retired segments wait for a commit.
            graphs.commits.ask();
        }
        if !is_full && segments_left * 16 >= stats.segments {
            age.reset();
        }
        let is_ripe = age.is_ripe();
        if found_nothing_at.is_some_and(|at| at.elapsed() < AGAIN) && !is_asked && !is_ripe {
            continue;
        }
        let live_max = match (is_asked || is_ripe, is_short) {
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
        if (is_asked || is_ripe) && !has_gained {
            if is_short && age.shorten(changed) {
                sweeps.next = Instant::now();
            } else {
                graphs.set_exhausted(true);
                exhausted_at = changed;
            }
        }
        found_nothing_at = (!has_gained).then(Instant::now);
    }
}

/// The age at which tombstones are dropped.
///
/// A full store must be able to remove edges, but each removal leaves a tombstone that is as long as the edge. So the
/// age is divided whenever compaction frees no room, down to [`FULL_AGE_S`], and is the configured one again when
/// additions find room and a sixteenth of the segments is free. Younger tombstones are dropped by passes of compaction
/// as soon as they are old enough, without a request for them, and twice at most: without another change, a third pass
/// finds no more.
struct TombstoneAge {
    configured_s: u32,
    current_s: u32,
    /// The next pass at the least age, and the number of passes that are left.
    ripe_at: Option<Instant>,
    passes_left: u32,
    /// The number of changes before the last passes.
    changed: Option<u64>,
}

impl TombstoneAge {
    fn new(configured_s: u32) -> Self {
        Self { configured_s, current_s: configured_s, ripe_at: None, passes_left: 0, changed: None }
    }

    fn reset(&mut self) {
        *self = Self::new(self.configured_s);
    }

    /// Returns true if tombstones of the least age may be dropped by now.
    fn is_ripe(&self) -> bool {
        self.ripe_at.is_some_and(|at| Instant::now() >= at)
    }

    /// Shortens the age after `changed` changes, because a pass of compaction freed no room. Returns false if it is the
    /// least age already: then only time or another change helps.
    fn shorten(&mut self, changed: u64) -> bool {
        let least = self.configured_s.min(FULL_AGE_S);
        if self.current_s > least {
            self.current_s = (self.current_s / AGE_DIVISOR).max(least);
            return true;
        }
        if self.changed.replace(changed) != Some(changed) {
            self.passes_left = RIPE_PASSES;
            self.ripe_at = None;
        }
        if self.is_ripe() {
            self.ripe_at = None;
        }
        if self.ripe_at.is_none() && self.passes_left > 0 {
            self.passes_left -= 1;
            self.ripe_at = Some(Instant::now() + Duration::from_secs(u64::from(least) + 1));
        }
        false
    }
}

/// The clock of tombstones. It counts the time that the server runs, so that no step of the wall clock moves it.
struct TombstoneTime {
    begun: UnixMillis,
    /// The clock's time when it began, in seconds.
    origin_s: u32,
}

impl TombstoneTime {
    /// Begins the clock at the newest mark in the store, or if there is none, at the wall clock's time `wall_ms`.
    fn begin(store: &GraphStore, now: UnixMillis, wall_ms: u64) -> Self {
        let marked_s = store.tombstone_clock_s();
        let wall_s = u32::try_from(wall_ms / 1000).unwrap_or(u32::MAX / 2);
        Self { begun: now, origin_s: if marked_s > 0 { marked_s } else { wall_s.max(1) } }
    }

    fn now_s(&self, now: UnixMillis) -> u32 {
        let passed_s = u32::try_from(now.ms_since(self.begun) / 1000).unwrap_or(u32::MAX);
        self.origin_s.saturating_add(passed_s)
    }
}

/// The sweeps over the lists of all graphs, which mark and drop tombstones.
struct Sweeps {
    next: Instant,
    clock: TombstoneTime,
    /// The sweep in progress: the number of graphs that are done, and the position in the next one.
    at: Option<(usize, SweepPosition)>,
}

impl Sweeps {
    fn new(clock: TombstoneTime) -> Self {
        Self { next: Instant::now(), clock, at: None }
    }

    /// Advances the store's clock, sets the age of tombstones, and runs some slices of a sweep if it is time.
    fn advance(&mut self, shared: &Shared, store: &GraphStore, age_s: u32) {
        store.set_tombstone_age(self.clock.now_s(shared.now()), age_s);
        if self.at.is_none() && Instant::now() >= self.next {
            self.at = Some((0, SweepPosition::default()));
            let period = Duration::from_secs(u64::from(age_s) / 4);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_store_shortens_the_age_of_tombstones_step_by_step_and_then_waits_for_changes() {
        let mut age = TombstoneAge::new(3600);
        let steps: Vec<u32> = std::iter::from_fn(|| age.shorten(7).then_some(age.current_s)).collect();
        assert_eq!(steps, [450, 56, FULL_AGE_S]);
        // The last step asked for a pass when the youngest tombstones are due, and another one follows it.
        for passes_left in [1, 0] {
            assert_eq!((age.passes_left, age.ripe_at.is_some(), age.is_ripe()), (passes_left, true, false));
            age.ripe_at = Some(Instant::now());
            assert!(age.is_ripe() && !age.shorten(7));
        }
        assert_eq!(age.ripe_at, None, "a third pass without a change");
        assert!(!age.shorten(8) && age.ripe_at.is_some(), "no pass after another change");
        age.reset();
        assert_eq!((age.current_s, age.ripe_at), (3600, None));
    }

    #[test]
    fn full_store_never_lengthens_the_age_of_tombstones() {
        for configured_s in [0, 5, FULL_AGE_S] {
            let mut age = TombstoneAge::new(configured_s);
            assert!(!age.shorten(1) && age.current_s == configured_s);
        }
    }
}
