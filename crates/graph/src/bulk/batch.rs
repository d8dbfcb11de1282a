//! A batch of edges of one type, and the state of its load.

use crate::bulk::sort::RefSort;
use crate::change::{EdgeAction, EdgeValue};
use crate::error::GraphError;
use crate::ids::check_node;
use crate::leaf::LeafEntry;
use crate::limits::{ATTRIBUTE_BYTES_MAX, BULK_EDGES_MAX, BULK_REFUSED_MAX, TIME_MS_MAX};
use crate::record::EDGE_WORDS;
use crate::schema::TypeId;

/// Edges of one type to be added. A batch of n edges needs at most 80 n bytes of memory and the attributes.
#[derive(Debug)]
pub struct BulkBatch {
    pub(crate) ty: u8,
    edges_max: usize,
    /// Source and destination of each edge.
    pub(crate) ends: Vec<(u64, u64)>,
    pub(crate) times: Vec<u64>,
    /// The end of each edge's attributes, up to the last edge that has some.
    text_ends: Vec<u32>,
    text: Vec<u8>,
    /// True if all edges have the time of the first one.
    pub(crate) has_one_time: bool,
    /// The memory of the load, which the next one uses again.
    pub(crate) sort: RefSort,
    pub(crate) log: Vec<u32>,
}

impl BulkBatch {
    /// Creates an empty batch of at most `edges_max` edges, but no more than [`crate::limits::BULK_EDGES_MAX`].
    #[must_use]
    pub fn new(edge_type: TypeId, edges_max: usize) -> Self {
        let edges_max = edges_max.clamp(1, BULK_EDGES_MAX);
        let mut sort = RefSort::default();
        sort.reserve(edges_max * 2);
        Self {
            ty: edge_type.0,
            edges_max,
            ends: Vec::with_capacity(edges_max),
            times: Vec::with_capacity(edges_max),
            text_ends: Vec::new(),
            text: Vec::new(),
            has_one_time: true,
            sort,
            log: Vec::with_capacity(edges_max),
        }
    }

    /// Adds an edge to the batch.
    ///
    /// # Errors
    /// If an identifier is reserved, both ends are one node, the time is out of range, the attributes are too long or
    /// the batch is full.
    pub fn push(&mut self, source: u64, destination: u64, time_ms: u64, attributes: &[u8]) -> Result<(), GraphError> {
        check_node(source)?;
        check_node(destination)?;
        if source == destination {
            return Err(GraphError::SelfEdge(source));
        }
        if time_ms > TIME_MS_MAX {
            return Err(GraphError::TimeOutOfRange(time_ms));
        }
        if attributes.len() > ATTRIBUTE_BYTES_MAX {
            return Err(GraphError::AttributesTooLong(attributes.len()));
        }
        if self.is_full() {
            return Err(GraphError::BatchFull);
        }
        if !attributes.is_empty() {
            self.text_ends.resize(self.ends.len(), self.text.len() as u32);
            self.text.extend(attributes);
            self.text_ends.push(self.text.len() as u32);
        }
        self.ends.push((source, destination));
        self.times.push(time_ms);
        self.has_one_time &= time_ms == self.times[0];
        Ok(())
    }

    /// Returns true if the batch must be loaded before it can take another edge.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.ends.len() >= self.edges_max
    }

    /// Returns the number of edges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if the batch has no edges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Removes all edges, and retains their memory.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.times.clear();
        self.text_ends.clear();
        self.text.clear();
        self.has_one_time = true;
        self.sort.clear();
        self.log.clear();
    }

    /// Exchanges the memory of the load with that of another batch. Both are not loaded yet, or cleared. Batches that
    /// are loaded one after another need most of their memory only once so.
    pub fn swap_memory(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.sort, &mut other.sort);
        std::mem::swap(&mut self.log, &mut other.log);
    }

    /// Returns the number of bytes of all attributes.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Returns the attributes of an edge.
    #[inline]
    pub(crate) fn attributes(&self, edge: usize) -> &[u8] {
        let Some(end) = self.text_ends.get(edge) else { return &[] };
        let start = if edge == 0 { 0 } else { self.text_ends[edge - 1] };
        &self.text[start as usize..*end as usize]
    }

    /// Returns the value that an edge has if no other change was made.
    pub(crate) fn value(&self, edge: usize) -> EdgeValue {
        // Edges are asked for in the order of lists, so each read of their times would be a cache miss.
        let time = self.times[if self.has_one_time { 0 } else { edge }];
        EdgeValue::of(EdgeAction::Add(self.attributes(edge)), time)
    }
}

/// An edge that a cap refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedEdge {
    /// The source.
    pub source: u64,
    /// The destination.
    pub destination: u64,
    /// The reason.
    pub error: GraphError,
}

/// A report of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BulkReport {
    /// The number of edges of the batch.
    pub edges: u64,
    /// The number of edges whose state or attributes changed. An edge that the batch has twice counts once.
    pub edges_changed: u64,
    /// The number of edges that were refused, because a list was at its cap or full.
    pub edges_refused: u64,
    /// The first refused edges, at most [`crate::limits::BULK_REFUSED_MAX`].
    pub refused: Vec<RefusedEdge>,
    /// The number of nodes that were added.
    pub nodes_added: u64,
}

impl BulkReport {
    pub(crate) fn refuse(&mut self, source: u64, destination: u64, error: GraphError) {
        self.edges_refused += 1;
        if self.refused.len() < BULK_REFUSED_MAX {
            self.refused.push(RefusedEdge { source, destination, error });
        }
    }
}

/// The step of a load: see [`crate::bulk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BulkPhase {
    #[default]
    Number,
    Sort,
    Check,
    Log,
    Lists,
    Deferred,
    Release,
    Done,
}

/// The mark of an edge that might exceed a cap, in place of the position of its record.
pub(crate) const DEFERRED: u32 = u32::MAX;

/// The load of a batch.
#[derive(Debug)]
pub(crate) struct BulkState {
    pub(crate) batch: BulkBatch,
    pub(crate) phase: BulkPhase,
    /// The index of the next edge, or in phases that read lists, of the next entry.
    pub(crate) at: usize,
    /// The index of the first entry whose list was not prefetched.
    pub(crate) prefetched: usize,
    /// The end of the entries of a list that are deferred.
    pub(crate) deferred_end: usize,
    pub(crate) has_deferred: bool,
    /// More words than the lists grow by.
    pub(crate) growth: u64,
    /// The bytes that the heads of the lists add to the index, and the type and number of their last page.
    pub(crate) index_growth: usize,
    pub(crate) head_page: Option<(u8, u32)>,
    /// The words that are reserved in the pool.
    pub(crate) reserved: u64,
    /// For each segment with edge records of the batch: a position in it, and the words to release at the end.
    pub(crate) log_segments: Vec<(u32, u32)>,
    /// The number of nodes before the load.
    pub(crate) nodes_before: u32,
    pub(crate) report: BulkReport,
    pub(crate) ids: Vec<u32>,
    pub(crate) old_ids: Vec<u32>,
    pub(crate) merged: Vec<LeafEntry>,
    pub(crate) leaves: Vec<(u32, u32)>,
}

impl BulkState {
    pub(crate) fn new(batch: BulkBatch, nodes_before: u32) -> Self {
        let report = BulkReport { edges: batch.len() as u64, ..BulkReport::default() };
        Self {
            batch,
            phase: BulkPhase::Number,
            at: 0,
            prefetched: 0,
            deferred_end: 0,
            has_deferred: false,
            growth: 0,
            index_growth: 0,
            head_page: None,
            reserved: 0,
            log_segments: Vec::new(),
            nodes_before,
            report,
            ids: Vec::new(),
            old_ids: Vec::new(),
            merged: Vec::new(),
            leaves: Vec::new(),
        }
    }

    /// Returns the number of words of an edge's record.
    pub(crate) fn record_words(&self, edge: usize) -> usize {
        let attributes = self.batch.attributes(edge).len();
        let text = if attributes == 0 { 0 } else { attributes + crate::change::TEXT_TIME_BYTES };
        (EDGE_WORDS + text.div_ceil(4)).next_multiple_of(2)
    }
}
