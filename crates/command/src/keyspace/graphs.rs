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
//! - A worker lends at most [`SCRATCHES_MAX`] scratch memories at once. Further queries of that kind park.

use super::graph_commits::{GraphCommits, GraphSync};
use crate::metrics::counters::Counter;
use graph::{GraphReader, GraphStore, Scratch, SecondDegreeCache};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

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
    /// The counters of compaction.
    pub compaction: CompactionCounters,
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

/// The scratch memories of a worker.
#[derive(Debug, Default)]
pub(crate) struct Scratches {
    free: Vec<Scratch>,
    lent: Arc<()>,
}

/// The right to use a scratch memory. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct ScratchPermit(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Scratches {
    /// Lends a scratch memory, unless [`SCRATCHES_MAX`] are lent.
    pub(crate) fn lend(&mut self) -> Option<(Scratch, ScratchPermit)> {
        let lent = Arc::strong_count(&self.lent) - 1;
        (lent < SCRATCHES_MAX).then(|| (self.free.pop().unwrap_or_default(), ScratchPermit(Arc::clone(&self.lent))))
    }

    /// Takes a scratch memory back.
    pub(crate) fn give_back(&mut self, scratch: Scratch, permit: ScratchPermit) {
        drop(permit);
        if self.free.len() < SCRATCHES_MAX {
            self.free.push(scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratches_of_dropped_queries_are_lent_again() {
        let mut scratches = Scratches::default();
        let mut lent: Vec<_> = (0..SCRATCHES_MAX).map(|_| scratches.lend().expect("one is free")).collect();
        assert!(scratches.lend().is_none());
        lent.pop();
        let (scratch, permit) = scratches.lend().expect("the dropped one is free");
        assert!(scratches.lend().is_none());
        scratches.give_back(scratch, permit);
        assert!(scratches.lend().is_some());
    }

    #[test]
    fn kind_number_is_its_index() {
        assert!(GraphQueryKind::ALL.into_iter().enumerate().all(|(place, kind)| kind as usize == place));
    }
}
