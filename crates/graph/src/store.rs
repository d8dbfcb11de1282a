//! The store: graphs over one pool of segments, their writers and readers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::append::{INDEX_BYTES_A_CHANGE, Writer, segments_before_addition};
use crate::change::EdgeChange;
use crate::declare::drop_graph;
use crate::epoch::Epochs;
use crate::error::GraphError;
use crate::ids::IdHash;
use crate::limits::{SEGMENT_BYTES, SEGMENTS_FOR_REMOVALS, SEGMENTS_RESERVED};
use crate::memory::Backing;
use crate::pool::{Pool, SEGMENT_HEADER_WORDS};
use crate::schema::{EdgeTypeConfig, TypeId, check_name};
use crate::state::{GraphState, StoreState, WriterState};
use crate::sync::MutexGuard;
use crate::view::View;
use crate::write::check_change;

/// The configuration of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphStoreConfig {
    /// The size of a segment, in bytes.
    pub segment_bytes: usize,
    /// The maximum number of readers that exist at once.
    pub readers_max: usize,
    /// True if the memory is a file that commits protect, or may protect. Then no segment is reused before the first
    /// commit, because after a power loss the file may have the old contents of all other pages.
    pub needs_commits: bool,
    /// The secret of the map of identifiers. Draw it at random for each process if clients choose identifiers:
    /// otherwise they can choose ones that share a page of the map, which makes it slow. No file depends on it.
    pub hash_seed: u64,
    /// The bytes of the index outside the pool from which on additions are refused. An opened store may have more.
    pub index_bytes_max: usize,
}

impl Default for GraphStoreConfig {
    fn default() -> Self {
        Self {
            segment_bytes: SEGMENT_BYTES,
            readers_max: 64,
            needs_commits: false,
            hash_seed: 0,
            index_bytes_max: usize::MAX,
        }
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
    /// The number of free segments below which an addition that opens a segment is refused.
    pub segments_before_addition: usize,
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
    /// The number of graphs.
    pub graphs: usize,
    /// The number of dropped graphs whose segments or index are not free yet.
    pub graphs_dropping: usize,
    /// The number of graphs that were dropped since the store was opened.
    pub graphs_dropped: u64,
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
        let (epochs, id_hash) = (Epochs::new(config.readers_max), IdHash::new(config.hash_seed));
        Ok(Self { state: Arc::new(StoreState::new(pool, epochs, id_hash, config.index_bytes_max)) })
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
        self.state.index.check(INDEX_BYTES_A_CHANGE)?;
        let pool = &self.state.pool;
        let free = || {
            let slots = self.state.slots();
            let is_free = |number: &usize| slots[*number].is_none() && !pool.has_segment_of(*number as u8);
            (0..slots.len()).find(is_free)
        };
        let number = free().or_else(|| {
            self.state.free_dropped();
            free()
        });
        let number = number.ok_or(GraphError::TooManyGraphs)?;
        // New graphs leave a quarter of the segments to those that exist.
        let free_min = (self.state.pool.segments() / 4).max(SEGMENTS_RESERVED + SEGMENTS_FOR_REMOVALS + 3);
        if self.state.pool.reclaim_now(&self.state.epochs) < free_min {
            return Err(GraphError::NoRoomForGraph);
        }
        // The name opens a segment, so the next graph gets another number of its creation.
        let graph = self.new_graph(number, name, pool.sequence() as u32 + 1);
        // Other writers may have taken the free segments meanwhile. Without its name the graph is not placed.
        graph.writer().write_name()?;
        self.place_graph(&graph);
        Ok(graph)
    }

    /// Creates a graph's index, for a number that no graph has.
    pub(crate) fn new_graph(&self, number: usize, name: &str, creation: u32) -> Graph {
        let state = Arc::new(GraphState::new(number as u8, name, creation, self.state.id_hash, &self.state.index));
        Graph { store: Arc::clone(&self.state), state }
    }

    /// Makes a graph one of the store.
    pub(crate) fn place_graph(&self, graph: &Graph) {
        let mut graphs = self.state.graphs.write().expect("no holder of the lock panics");
        graphs[graph.number()] = Some(Arc::clone(&graph.state));
    }

    /// Drops a graph with all its types, nodes and edges. Waits until no other writer of the graph exists. Queries in
    /// progress find an empty graph ([`View::is_dropped`]), and changes are refused. Another graph may have the name at
    /// once. The segments become free when no reader can be in them; [`GraphStore::free_dropped`] frees the rest.
    ///
    /// # Errors
    /// If the graph is dropped already, or no segment has room for the record of the drop.
    pub fn drop_graph(&self, graph: &Graph) -> Result<(), GraphError> {
        let _creation = self.state.creation.lock().expect("no holder of the lock panics");
        drop_graph(&mut graph.writer())
    }

    /// Drops a graph as [`GraphStore::drop_graph`] does. Returns false if another thread has the graph's writer, or
    /// creates a graph, or begins a commit.
    ///
    /// # Errors
    /// As [`GraphStore::drop_graph`].
    pub fn try_drop_graph(&self, graph: &Graph) -> Result<bool, GraphError> {
        let Ok(_creation) = self.state.creation.try_lock() else { return Ok(false) };
        let Some(mut writer) = graph.try_writer() else { return Ok(false) };
        drop_graph(&mut writer).map(|()| true)
    }

    /// Frees the indexes of dropped graphs whose segments are all free, which takes some ms for millions of nodes.
    /// Returns the number of dropped graphs that still have segments. Call it from a background thread.
    pub fn free_dropped(&self) -> usize {
        self.state.free_dropped()
    }

    /// Returns the graph with a name.
    #[must_use]
    pub fn graph(&self, name: &str) -> Option<Graph> {
        let graphs = self.state.graphs.read().expect("no holder of the lock panics");
        let state = graphs.iter().flatten().find(|graph| graph.name == name && !graph.is_dropped())?;
        Some(Graph { store: Arc::clone(&self.state), state: Arc::clone(state) })
    }

    /// Returns all graphs.
    pub fn graphs(&self) -> impl Iterator<Item = Graph> {
        self.state.existing().map(|state| Graph { store: Arc::clone(&self.state), state })
    }

    /// Creates a reader, for one thread.
    ///
    /// # Errors
    /// If all readers of the configuration exist.
    pub fn reader(&self) -> Result<GraphReader, GraphError> {
        let slot = self.state.epochs.register().ok_or(GraphError::TooManyReaders)?;
        Ok(GraphReader { store: Arc::clone(&self.state), slot })
    }

    /// Advances the clock of tombstones, in seconds, and sets the age at which tombstones of removed edges may be
    /// dropped. Without this call they are retained for ever. An addition that arrives later than its edge's removal by
    /// more than this age may take effect although it is older.
    ///
    /// The clock has any origin, and must not step. It continues at [`GraphStore::tombstone_clock_s`] when a store is
    /// opened again. The store ignores a time before the clock's last one.
    pub fn set_tombstone_age(&self, now_s: u32, age_s: u32) {
        self.state.tombstones.set(now_s, age_s);
    }

    /// Returns the time of the clock of tombstones, in seconds: the one that was set last, or in a store that was
    /// opened again, that of the newest mark in its memory. Returns 0 if there is none.
    #[must_use]
    pub fn tombstone_clock_s(&self) -> u32 {
        self.state.tombstones.now_s()
    }

    /// Returns the segments that have live records.
    pub fn segments(&self) -> impl Iterator<Item = SegmentStats> {
        let (pool, graphs) = (&self.state.pool, self.state.slots());
        (0..pool.segments() as u32).filter_map(move |number| {
            let live_bytes = pool.live_words(number) as usize * 4;
            let info = (live_bytes > 0).then(|| pool.info(number))??;
            let graph = graphs.get(usize::from(info.graph))?.as_ref()?.name.clone();
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
        let slots = self.state.slots();
        let (dropped, existing): (Vec<_>, Vec<_>) = slots.iter().flatten().partition(|graph| graph.is_dropped());
        let index = slots.iter().flatten().map(|graph| graph.index_bytes());
        GraphStoreStats {
            segments: pool.segments(),
            segments_free,
            segments_before_addition: segments_before_addition(pool),
            segments_retired,
            segments_recycled,
            segments_opened,
            segment_bytes: pool.segment_words() * 4,
            // A writer may append between the two sums.
            record_bytes: self.record_words().max(live) * 4,
            live_bytes: live * 4,
            index_bytes: index.sum(),
            graphs: existing.len(),
            graphs_dropping: dropped.len(),
            graphs_dropped: self.state.graphs_dropped.load(Relaxed),
        }
    }
}

/// A graph of a store.
#[derive(Clone, Debug)]
pub struct Graph {
    store: Arc<StoreState>,
    state: Arc<GraphState>,
}

impl Graph {
    pub(crate) fn state(&self) -> &GraphState {
        &self.state
    }

    /// Returns the graph's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state().name
    }

    /// Returns the graph's number in its store, below [`crate::limits::GRAPHS_MAX`]. It never changes. After the
    /// graph is dropped, another one may get it.
    #[must_use]
    pub fn number(&self) -> usize {
        usize::from(self.state.number)
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
            graph: if self.state.is_dropped() { &self.store.nothing } else { &self.state },
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
        self.state().edge_type(ty.0).map(|found| &found.schema[..]).ok_or_else(|| self.state.no_type())
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
    /// Returns a view of a graph: an empty one if the graph was dropped.
    ///
    /// # Panics
    /// If the graph belongs to another store.
    #[must_use]
    pub fn view<'a>(&'a self, graph: &'a Graph) -> View<'a> {
        assert!(std::ptr::eq(&raw const *graph.store, self.store), "the graph of another store");
        // The epoch was entered before, so the records of a graph that is dropped later stay.
        let state = if graph.state.is_dropped() { &self.store.nothing } else { graph.state() };
        View::new(state, self.store.pool.words())
    }
}

impl Drop for GraphGuard<'_> {
    fn drop(&mut self) {
        self.store.epochs.leave(self.slot);
    }
}
