//! The store: graphs over one pool of segments, their writers and readers.

use std::sync::{Arc, OnceLock};

use crate::append::Writer;
use crate::change::EdgeChange;
use crate::epoch::Epochs;
use crate::error::GraphError;
use crate::limits::{GRAPHS_MAX, SEGMENT_BYTES, SEGMENTS_FOR_REMOVALS, SEGMENTS_RESERVED};
use crate::memory::Backing;
use crate::pool::{Pool, SEGMENT_HEADER_WORDS};
use crate::schema::{EdgeTypeConfig, TypeId, check_name};
use crate::state::{GraphState, StoreState, WriterState};
use crate::sync::{Mutex, MutexGuard};
use crate::tombstones::TombstoneClock;
use crate::view::View;
use crate::write::check_change;

/// The configuration of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphStoreConfig {
    /// The size of a segment, in bytes.
    pub segment_bytes: usize,
    /// The maximum number of readers that exist at once.
    pub readers_max: usize,
}

impl Default for GraphStoreConfig {
    fn default() -> Self {
        Self { segment_bytes: SEGMENT_BYTES, readers_max: 64 }
    }
}

/// A store of graphs. Clones are the same store.
#[derive(Clone, Debug)]
pub struct GraphStore {
    pub(crate) state: Arc<StoreState>,
}

/// Figures of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphStoreStats {
    /// The number of segments in the pool.
    pub segments: usize,
    /// The number of segments that are free.
    pub segments_free: usize,
    /// The number of segments that wait until no reader can be in them.
    pub segments_retired: usize,
    /// The number of times that a segment became free again.
    pub segments_recycled: u64,
    /// The number of times that a change opened a segment, and not compaction.
    pub segments_opened: u64,
    /// The size of a segment, in bytes.
    pub segment_bytes: usize,
    /// The bytes of all records, live or not, in segments that have live records.
    pub record_bytes: usize,
    /// The bytes of live records.
    pub live_bytes: usize,
    /// The bytes of the index outside the pool.
    pub index_bytes: usize,
}

/// A segment in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentStats {
    /// The number of the segment in the pool.
    pub number: u32,
    /// The name of its graph.
    pub graph: String,
    /// The bytes of its records.
    pub used_bytes: usize,
    /// The bytes of its live records.
    pub live_bytes: usize,
}

impl GraphStore {
    /// Creates an empty store. Earlier contents of the memory are ignored: see [`GraphStore::open`].
    ///
    /// # Errors
    /// If the segment size is not allowed or the memory has too few segments.
    pub fn new(memory: impl Backing, config: &GraphStoreConfig) -> Result<Self, GraphError> {
        let pool = Pool::new(Box::new(memory), config.segment_bytes)?;
        let graphs = [const { OnceLock::new() }; GRAPHS_MAX];
        let (epochs, tombstones) = (Epochs::new(config.readers_max), TombstoneClock::new());
        let state = StoreState { pool, epochs, tombstones, graphs, creation: Mutex::new(()) };
        Ok(Self { state: Arc::new(state) })
    }

    /// Returns the graph with a name, and creates it if necessary.
    ///
    /// # Errors
    /// If the name is not valid, the store has its maximum of graphs or no segment is free.
    pub fn create_graph(&self, name: &str) -> Result<Graph, GraphError> {
        check_name(name)?;
        let _creation = self.state.creation.lock().expect("no holder of the lock panics");
        if let Some(graph) = self.graph(name) {
            return Ok(graph);
        }
        let number = self.state.graphs.iter().position(|graph| graph.get().is_none());
        let number = number.ok_or(GraphError::TooManyGraphs)?;
        // New graphs leave a quarter of the segments to those that exist.
        let free_min = (self.state.pool.segments() / 4).max(SEGMENTS_RESERVED + SEGMENTS_FOR_REMOVALS + 3);
        if self.state.pool.reclaim_now(&self.state.epochs) < free_min {
            return Err(GraphError::NoRoomForGraph);
        }
        let graph = self.place_graph(number, name);
        graph.writer().write_name()?;
        Ok(graph)
    }

    /// Creates a graph's index under a number.
    pub(crate) fn place_graph(&self, number: usize, name: &str) -> Graph {
        self.state.graphs[number].get_or_init(|| Box::new(GraphState::new(number as u8, name)));
        Graph { store: Arc::clone(&self.state), number }
    }

    /// Returns the graph with a name.
    #[must_use]
    pub fn graph(&self, name: &str) -> Option<Graph> {
        let has_name = |graph: &OnceLock<Box<GraphState>>| graph.get().is_some_and(|graph| graph.name == name);
        let number = self.state.graphs.iter().position(has_name)?;
        Some(Graph { store: Arc::clone(&self.state), number })
    }

    /// Returns all graphs.
    pub fn graphs(&self) -> impl Iterator<Item = Graph> {
        let numbers = 0..self.state.graphs.len();
        let graph =
            |number: usize| self.state.graphs[number].get().map(|_| Graph { store: Arc::clone(&self.state), number });
        numbers.filter_map(graph)
    }

    /// Creates a reader, for one thread.
    ///
    /// # Errors
    /// If all readers of the configuration exist.
    pub fn reader(&self) -> Result<GraphReader, GraphError> {
        let slot = self.state.epochs.register().ok_or(GraphError::TooManyReaders)?;
        Ok(GraphReader { store: Arc::clone(&self.state), slot })
    }

    /// Sets the clock, in seconds since the epoch, and the age at which tombstones of removed edges may be dropped.
    /// Without this call they are retained for ever. An addition that arrives later than its edge's removal by more
    /// than this age may take effect although it is older.
    pub fn set_tombstone_age(&self, now_s: u32, age_s: u32) {
        self.state.tombstones.set(now_s, age_s);
    }

    /// Returns the segments that have live records.
    pub fn segments(&self) -> impl Iterator<Item = SegmentStats> {
        let pool = &self.state.pool;
        (0..pool.segments() as u32).filter_map(|number| {
            let live_bytes = pool.live_words(number) as usize * 4;
            let info = (live_bytes > 0).then(|| pool.info(number))??;
            let graph = self.state.graphs.get(usize::from(info.graph))?.get()?.name.clone();
            Some(SegmentStats { number, graph, used_bytes: info.used * 4, live_bytes })
        })
    }

    /// Returns the words of all records in segments that have live ones.
    fn record_words(&self) -> usize {
        let pool = &self.state.pool;
        let used = (0..pool.segments() as u32).filter(|segment| pool.live_words(*segment) > 0);
        used.filter_map(|segment| Some(pool.info(segment)?.used - SEGMENT_HEADER_WORDS)).sum()
    }

    /// Returns figures of the store.
    #[must_use]
    pub fn stats(&self) -> GraphStoreStats {
        let pool = &self.state.pool;
        let (segments_free, segments_retired, segments_recycled, segments_opened) = pool.counts();
        let live: usize = (0..pool.segments() as u32).map(|segment| pool.live_words(segment) as usize).sum();
        let index = self.state.graphs.iter().filter_map(OnceLock::get).map(|graph| graph.index_bytes());
        GraphStoreStats {
            segments: pool.segments(),
            segments_free,
            segments_retired,
            segments_recycled,
            segments_opened,
            segment_bytes: pool.segment_words() * 4,
            // A writer may append between the two sums.
            record_bytes: self.record_words().max(live) * 4,
            live_bytes: live * 4,
            index_bytes: index.sum(),
        }
    }
}

/// A graph of a store.
#[derive(Clone, Debug)]
pub struct Graph {
    store: Arc<StoreState>,
    number: usize,
}

impl Graph {
    pub(crate) fn state(&self) -> &GraphState {
        self.store.graphs[self.number].get().expect("a graph is never removed")
    }

    /// Returns the graph's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state().name
    }

    /// Returns the graph's number in its store, below [`crate::limits::GRAPHS_MAX`]. It never changes.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the graph's writer. Waits until no other writer of the graph exists.
    #[must_use]
    pub fn writer(&self) -> Writer<'_> {
        self.writer_with(self.state().writer.lock().expect("no holder of the lock panics"))
    }

    /// Returns the graph's writer, or `None` if another writer of the graph exists.
    #[must_use]
    pub fn try_writer(&self) -> Option<Writer<'_>> {
        self.state().writer.try_lock().ok().map(|state| self.writer_with(state))
    }

    /// Returns the writer that holds the lock of `state`.
    fn writer_with<'g>(&'g self, state: MutexGuard<'g, WriterState>) -> Writer<'g> {
        Writer {
            store: &self.store,
            graph: self.state(),
            state,
            may_take_reserve: false,
            is_restoring: false,
            has_reservation: false,
        }
    }

    /// Checks a change, apart from caps and room. Takes no lock.
    ///
    /// # Errors
    /// As [`Writer::check`].
    pub fn check(&self, change: &EdgeChange<'_>) -> Result<(), GraphError> {
        check_change(self.state(), change)
    }

    /// Returns the names of a type's attributes.
    ///
    /// # Errors
    /// If the type is not declared.
    pub fn schema(&self, ty: TypeId) -> Result<&[String], GraphError> {
        self.state().edge_type(ty.0).map(|found| &found.schema[..]).ok_or(GraphError::UnknownType)
    }

    /// Returns the declaration of a type.
    ///
    /// # Errors
    /// If the type is not declared.
    pub fn type_config(&self, ty: TypeId) -> Result<EdgeTypeConfig, GraphError> {
        let state = self.state();
        let found = state.edge_type(ty.0).ok_or(GraphError::UnknownType)?;
        let other = found.reverse().and_then(|reverse| state.edge_type(reverse));
        Ok(found.config(ty.0, other.map(|other| other.name.clone())))
    }

    /// Returns the names of the edge types, in the order of their declaration.
    #[must_use]
    pub fn edge_types(&self) -> Vec<String> {
        self.state().types().map(|(_, found)| found.name.clone()).collect()
    }

    /// Returns the edge type with a name.
    ///
    /// # Errors
    /// If the type is not declared.
    pub fn edge_type(&self, name: &str) -> Result<TypeId, GraphError> {
        let mut types = self.state().types();
        types.find(|(_, found)| found.name == name).map(|(ty, _)| TypeId(ty)).ok_or(GraphError::UnknownType)
    }
}

/// A thread's access to the graphs of a store. It takes no lock.
#[derive(Debug)]
pub struct GraphReader {
    store: Arc<StoreState>,
    slot: usize,
}

impl GraphReader {
    /// Enters an epoch. Until the guard ends, no segment that it reads is reused, so end it after each batch or slice.
    pub fn enter(&mut self) -> GraphGuard<'_> {
        self.store.epochs.enter(self.slot);
        GraphGuard { store: &self.store, slot: self.slot }
    }
}

impl Drop for GraphReader {
    fn drop(&mut self) {
        self.store.epochs.release(self.slot);
    }
}

/// A reader within one epoch.
#[derive(Debug)]
pub struct GraphGuard<'r> {
    store: &'r StoreState,
    slot: usize,
}

impl GraphGuard<'_> {
    /// Returns a view of a graph.
    ///
    /// # Panics
    /// If the graph belongs to another store.
    #[must_use]
    pub fn view<'a>(&'a self, graph: &'a Graph) -> View<'a> {
        assert!(std::ptr::eq(&raw const *graph.store, self.store), "the graph of another store");
        View::new(graph.state(), self.store.pool.words())
    }
}

impl Drop for GraphGuard<'_> {
    fn drop(&mut self) {
        self.store.epochs.leave(self.slot);
    }
}
