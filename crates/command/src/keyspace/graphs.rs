//! The graph store of a server, and the state that its commands need besides it.
//!
//! ```text
//!   worker 0 ── reader, scratch, cache ──┐                       ┌── thread "graph": compacts, in slices
//!   worker n ── reader, scratch, cache ──┼──> GraphStore (pool) ─┤
//!   changes ──── the graph's writer ─────┘                       └── retires and reuses segments
//! ```
//!
//! Invariants:
//! - A worker never waits for a graph's writer: if another thread has it, the request parks.
//! - A change that finds no free segment parks while compaction may still free one, and is refused after that.
//! - One bulk load of a graph is in progress at a time. A batch whose client has left is loaded completely by thread
//!   `graph` or by the next load, because a half of it may show some edges in one direction only.
//! - A worker lends at most [`SCRATCHES_MAX`] scratch memories at once: its own, and further ones as far as client
//!   memory permits. Further queries of that kind park, so none is refused because a graph is large.

use super::graph_commits::{GraphCommits, GraphSync};
use crate::memory::budget::{Budget, Grant, MemoryUse};
use crate::metrics::counters::Counter;
use graph::limits::GRAPHS_MAX;
use graph::{GraphReader, GraphStore, Scratch, SecondDegreeCache};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of queries of one worker that hold scratch memory between two visits.
const SCRATCHES_MAX: usize = 4;

/// The graph store of a server.
#[derive(Debug, Default)]
pub struct Graphs {
    /// The store; `None` if it has no memory.
    store: Option<GraphStore>,
    /// The memory of the store, in bytes.
    memory_bytes: u64,
    /// True if the memory is a file that a later process can open.
    is_durable: bool,
    /// The maximum length of each worker's cache of second degrees, in bytes.
    cache_bytes: usize,
    /// The number of times that commands asked for compaction.
    wishes: AtomicU64,
    /// True if a command asked that the open segments are compacted too.
    wants_seal: AtomicBool,
    /// True if compaction found nothing to do, and nothing has changed since.
    is_exhausted: AtomicBool,
    /// The commits of the store to a disk.
    pub commits: GraphCommits,
    /// The state of each graph's bulk loads.
    loads: Arc<LoadSlots>,
    /// The counters of compaction.
    pub compaction: CompactionCounters,
}

/// The states of the bulk loads, by the numbers of the graphs.
#[derive(Debug)]
struct LoadSlots([LoadSlot; GRAPHS_MAX]);

impl Default for LoadSlots {
    fn default() -> Self {
        Self(std::array::from_fn(|_| LoadSlot::default()))
    }
}

/// The bulk loads of one graph: none, one in progress, or a batch whose client has left.
#[derive(Debug, Default)]
struct LoadSlot {
    state: AtomicU8,
    /// The client memory of the batch that was left.
    left: Mutex<Option<Grant>>,
}

/// The values of [`LoadSlot::state`].
const LOAD_NONE: u8 = 0;
const LOAD_IN_PROGRESS: u8 = 1;
const LOAD_LEFT: u8 = 2;

/// The right to load edges into a graph in bulk. It ends when this value is dropped.
#[derive(Debug)]
pub struct LoadPermit {
    slots: Arc<LoadSlots>,
    number: usize,
    /// True while the graph's writer has a batch that is not loaded completely.
    pub has_batch: bool,
    /// The client memory of the batch.
    pub(crate) grant: Option<Grant>,
}

impl Drop for LoadPermit {
    fn drop(&mut self) {
        let slot = &self.slots.0[self.number];
        let grant = self.grant.take().filter(|_| self.has_batch);
        *slot.left.lock().unwrap_or_else(PoisonError::into_inner) = grant;
        slot.state.store(if self.has_batch { LOAD_LEFT } else { LOAD_NONE }, std::sync::atomic::Ordering::Release);
    }
}

/// Counters of the thread that compacts graphs, which only that thread writes.
#[derive(Debug, Default)]
pub struct CompactionCounters {
    /// Slices of compaction.
    pub slices: Counter,
    /// Segments that were emptied.
    pub segments: Counter,
}

/// Counters of one worker's graph commands, which only that worker writes.
#[derive(Debug, Default)]
pub struct GraphCounters {
    /// Queries, in the order of [`GraphQueryKind::ALL`].
    pub queries: [Counter; GraphQueryKind::ALL.len()],
    /// Edges that queries touched.
    pub edges: Counter,
    /// Answers that a budget cut short.
    pub partial: Counter,
    /// Second degrees that were found in the cache.
    pub cache_hits: Counter,
    /// Second degrees that were not in the cache.
    pub cache_misses: Counter,
    /// Edges that changes have changed.
    pub changed: Counter,
    /// Changes that were refused because all segments were in use.
    pub refused: Counter,
}

/// The kinds of queries of graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphQueryKind {
    /// `G.GET`.
    Edge,
    /// `G.COUNT`.
    Count,
    /// `G.RANGE`.
    Page,
    /// `G.MUTUAL`.
    Mutual,
    /// `G.INTER`, `G.UNION` and `G.DIFF`.
    Sets,
    /// `G.DIST`.
    Distance,
    /// `G.PATH`.
    Path,
    /// `G.DEG2`.
    SecondDegree,
    /// `G.SUGGEST`.
    Suggest,
    /// `G.NODE GET`.
    Node,
}

impl GraphQueryKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Edge,
        Self::Count,
        Self::Page,
        Self::Mutual,
        Self::Sets,
        Self::Distance,
        Self::Path,
        Self::SecondDegree,
        Self::Suggest,
        Self::Node,
    ];

    /// Returns the name of the kind in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::Count => "count",
            Self::Page => "page",
            Self::Mutual => "mutual",
            Self::Sets => "sets",
            Self::Distance => "distance",
            Self::Path => "path",
            Self::SecondDegree => "second_degree",
            Self::Suggest => "suggest",
            Self::Node => "node",
        }
    }
}

impl Graphs {
    /// Creates the state around a store of `memory_bytes` bytes. The workers' caches of second degrees take at most a
    /// sixteenth of that together.
    pub fn new(store: GraphStore, memory_bytes: u64, (is_durable, sync): (bool, GraphSync), workers: usize) -> Self {
        let cache_bytes = (memory_bytes / 16 / workers.max(1) as u64) as usize;
        let commits = GraphCommits::new(sync);
        Self { store: Some(store), memory_bytes, is_durable, cache_bytes, commits, ..Self::default() }
    }

    /// Returns the store, if it has memory.
    pub fn store(&self) -> Option<&GraphStore> {
        self.store.as_ref()
    }

    /// Returns the memory of the store, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Begins a bulk load of the graph with this number. Returns `None` while another one is in progress. If an earlier
    /// load left a batch, the caller must load the rest of it first.
    pub(crate) fn begin_load(&self, number: usize) -> Option<LoadPermit> {
        self.permit(number, LOAD_NONE).or_else(|| self.permit(number, LOAD_LEFT))
    }

    /// Returns the permit of a batch that its client has left, which the caller loads completely. Returns `None` if the
    /// graph with this number has no such batch.
    pub fn take_left_batch(&self, number: usize) -> Option<LoadPermit> {
        self.permit(number, LOAD_LEFT)
    }

    /// Forgets the batches that clients left in graphs that are dropped, with their client memory.
    pub fn forget_batches_of_dropped(&self) {
        let Some(store) = self.store() else { return };
        for number in 0..GRAPHS_MAX {
            if let Some(mut permit) = self.take_left_batch(number) {
                permit.has_batch = store.graphs().any(|graph| graph.number() == number);
            }
        }
    }

    fn permit(&self, number: usize, state: u8) -> Option<LoadPermit> {
        let slot = &self.loads.0[number];
        slot.state.compare_exchange(state, LOAD_IN_PROGRESS, AcqRel, Acquire).ok()?;
        let grant = slot.left.lock().unwrap_or_else(PoisonError::into_inner).take();
        let has_batch = state == LOAD_LEFT;
        Some(LoadPermit { slots: Arc::clone(&self.loads), number, has_batch, grant })
    }

    /// Returns true if a later process can open the memory.
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Asks for compaction of all segments, also of those that are being filled.
    pub fn ask_for_compaction(&self) {
        self.wants_seal.store(true, Relaxed);
        self.is_exhausted.store(false, Relaxed);
        self.wishes.fetch_add(1, Relaxed);
    }

    /// Returns the number of times that commands asked for compaction.
    pub fn wishes(&self) -> u64 {
        self.wishes.load(Relaxed)
    }

    /// Returns true once after a command asked for compaction of the open segments.
    pub fn take_seal_wish(&self) -> bool {
        self.wants_seal.swap(false, Relaxed)
    }

    /// Records whether compaction found nothing to do.
    pub fn set_exhausted(&self, is_exhausted: bool) {
        self.is_exhausted.store(is_exhausted, Relaxed);
    }

    /// Returns true if a change that found no free segment may find one later. Asks for compaction if so.
    pub(crate) fn may_get_room(&self) -> bool {
        let may = !self.is_exhausted.load(Relaxed);
        if may {
            self.wishes.fetch_add(1, Relaxed);
        }
        may
    }
}

/// A worker's access to the graphs.
#[derive(Debug)]
pub(crate) struct WorkerGraphs {
    pub(crate) reader: GraphReader,
    pub(crate) scratches: Scratches,
    pub(crate) cache: SecondDegreeCache,
}

impl WorkerGraphs {
    /// Creates the access of a worker. Returns `None` if the server has no graph store, or more workers than readers.
    pub(crate) fn open(graphs: &Graphs) -> Option<Box<Self>> {
        let reader = graphs.store()?.reader().ok()?;
        let cache = SecondDegreeCache::new(graphs.cache_bytes);
        Some(Box::new(Self { reader, scratches: Scratches::default(), cache }))
    }
}

/// The maximum size of a scratch memory that a worker retains beside its own, in bytes.
const RETAINED_BYTES_MAX: u64 = 1 << 20;
/// The memory of a scratch memory for each node of the graph, and for each edge that a query may touch, in bytes.
const SCRATCH_NODE_BYTES: u64 = 4;
const SCRATCH_EDGE_BYTES: u64 = 8;

/// The scratch memories of a worker. The first one belongs to the worker; others count as client memory while they are
/// lent.
#[derive(Debug, Default)]
pub(crate) struct Scratches {
    free: Vec<Scratch>,
    lent: Arc<()>,
}

/// The right to use a scratch memory. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct ScratchPermit {
    #[expect(dead_code, reason = "it is counted")]
    lent: Arc<()>,
    /// The size that the memory may have, in bytes.
    bytes: u64,
    /// The share of client memory; `None` for the worker's own.
    #[expect(dead_code, reason = "it is held")]
    grant: Option<Grant>,
}

impl Scratches {
    /// Lends a scratch memory for a query of at most `edges` edges of a graph with `nodes` nodes, unless
    /// [`SCRATCHES_MAX`] are lent, or one is and client memory has no spare room for another one.
    pub(crate) fn lend(
        &mut self,
        (nodes, edges): (u32, u64),
        budget: &Arc<Budget>,
    ) -> Option<(Scratch, ScratchPermit)> {
        let lent = Arc::strong_count(&self.lent) - 1;
        let bytes = u64::from(nodes) * SCRATCH_NODE_BYTES + edges * SCRATCH_EDGE_BYTES;
        let grant = match lent {
            0 => None,
            1..SCRATCHES_MAX if budget.has_spare(bytes) => Some(budget.grant(MemoryUse::Walks, bytes)?),
            _ => return None,
        };
        let permit = ScratchPermit { lent: Arc::clone(&self.lent), bytes, grant };
        Some((self.free.pop().unwrap_or_default(), permit))
    }

    /// Takes a scratch memory back.
    pub(crate) fn give_back(&mut self, scratch: Scratch, permit: ScratchPermit) {
        let is_small = permit.bytes <= RETAINED_BYTES_MAX;
        drop(permit);
        if self.free.is_empty() || is_small && self.free.len() < SCRATCHES_MAX {
            self.free.push(scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget of 16 MiB.
    fn budget() -> Arc<Budget> {
        Budget::new(0, Some(16 << 20))
    }

    #[test]
    fn scratches_of_dropped_queries_are_lent_again() {
        let (mut scratches, budget) = (Scratches::default(), budget());
        let mut lent: Vec<_> =
            (0..SCRATCHES_MAX).map(|_| scratches.lend((9, 100), &budget).expect("one is free")).collect();
        assert!(scratches.lend((9, 100), &budget).is_none());
        lent.pop();
        let (scratch, permit) = scratches.lend((9, 100), &budget).expect("the dropped one is free");
        assert!(scratches.lend((9, 100), &budget).is_none());
        scratches.give_back(scratch, permit);
        assert!(scratches.lend((9, 100), &budget).is_some());
    }

    #[test]
    fn large_graph_has_one_scratch_a_worker_whatever_client_memory_is() {
        let (mut scratches, budget) = (Scratches::default(), budget());
        let nodes = 10_000_000;
        for _ in 0..3 {
            let (own, permit) = scratches.lend((nodes, 100), &budget).expect("the worker's own needs no client memory");
            assert!(scratches.lend((nodes, 100), &budget).is_none(), "40 MB exceed client memory");
            assert_eq!(budget.used(), 0);
            let (small, other) = scratches.lend((1_000, 100), &budget).expect("there is room for a small one");
            assert!(budget.used() > 0);
            scratches.give_back(small, other);
            scratches.give_back(own, permit);
            assert_eq!(budget.used(), 0);
        }
    }

    #[test]
    fn batch_of_a_load_whose_client_left_is_taken_once() {
        let graphs = Graphs::default();
        let mut permit = graphs.begin_load(3).expect("no load is in progress");
        assert!(graphs.begin_load(3).is_none() && graphs.take_left_batch(3).is_none());
        assert!(graphs.begin_load(4).is_some(), "other graphs are independent");
        permit.has_batch = true;
        drop(permit);
        let mut left = graphs.take_left_batch(3).expect("the batch was left");
        assert!(left.has_batch && graphs.take_left_batch(3).is_none() && graphs.begin_load(3).is_none());
        left.has_batch = false;
        drop(left);
        assert!(graphs.take_left_batch(3).is_none());
        assert!(!graphs.begin_load(3).expect("the load has ended").has_batch);
    }

    #[test]
    fn kind_number_is_its_index() {
        assert!(GraphQueryKind::ALL.into_iter().enumerate().all(|(place, kind)| kind as usize == place));
    }
}
