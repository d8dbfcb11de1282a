//! The state of a command on graphs that takes several visits.

use crate::keyspace::graphs::{LoadPermit, ScratchPermit};
use crate::memory::budget::Grant;
use graph::{
    BulkBatch, Cursor, DistanceQuery, EdgeReader, Graph, PageQuery, PathQuery, SecondDegreeQuery, SetQuery, TypeId,
};

/// The form of the answer of a set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum SetForm {
    Page,
    Mutual,
    MutualCount,
}

/// The form of the answer of a second degree.
#[derive(Clone, Copy, Debug)]
pub(in crate::resp) enum SecondForm {
    Count,
    Page(Cursor, usize),
}

/// A query of single edges: the part of the reply that is complete, and the number of destinations in it.
#[derive(Debug)]
pub(in crate::resp) struct EdgesQuery {
    pub(in crate::resp) node: u64,
    pub(in crate::resp) edge_type: TypeId,
    pub(in crate::resp) targets: Vec<u64>,
    pub(in crate::resp) done: usize,
    pub(in crate::resp) reply: Vec<u8>,
}

/// A query between two steps.
#[derive(Debug)]
pub(in crate::resp) enum GraphQuery {
    Page(PageQuery, Option<TypeId>),
    Set(SetQuery, SetForm),
    Distance(DistanceQuery, ScratchPermit),
    Path(PathQuery, ScratchPermit),
    Second(SecondDegreeQuery, SecondForm, ScratchPermit),
    Suggest(SecondDegreeQuery, ScratchPermit),
    Edges(EdgesQuery),
    /// The complete reply.
    Ready(Vec<u8>),
}

/// The state of a command on graphs between two visits.
pub(in crate::resp) struct GraphWork {
    pub(in crate::resp) graph: Graph,
    /// The unfinished query; `None` between two parts of a compound query, and for changes.
    pub(in crate::resp) query: Option<Box<GraphQuery>>,
    /// The replies of a compound query that are complete, and their number.
    pub(in crate::resp) replies: (Vec<u8>, usize),
    /// The share of client memory.
    pub(in crate::resp) grant: Option<Grant>,
}

impl GraphWork {
    /// Returns the state of a request that has no query in progress and no reply.
    pub(in crate::resp) fn of(graph: Graph) -> Self {
        Self { graph, query: None, replies: (Vec::new(), 0), grant: None }
    }
}

/// The state of a bulk load between two visits.
pub(in crate::resp) struct LoadWork {
    pub(in crate::resp) graph: Graph,
    pub(in crate::resp) edge_type: TypeId,
    /// The time of edges whose lines have none, in milliseconds since the epoch.
    pub(in crate::resp) time_ms: u64,
    pub(in crate::resp) reader: EdgeReader,
    /// The number of bytes of the text that are read.
    pub(in crate::resp) at: usize,
    /// True if the last line is read.
    pub(in crate::resp) is_read: bool,
    /// The batch that is being filled; `None` while the graph's writer has it.
    pub(in crate::resp) batch: Option<BulkBatch>,
    /// The maximum number of edges of a batch.
    pub(in crate::resp) batch_edges: usize,
    /// True if the writer's batch is of an earlier load.
    pub(in crate::resp) is_left: bool,
    pub(in crate::resp) permit: LoadPermit,
    /// The number of the commit that the reply waits for.
    pub(in crate::resp) commit: Option<u64>,
    /// The attributes of the line that is read.
    pub(in crate::resp) attributes: Vec<u8>,
    pub(in crate::resp) edges: u64,
    pub(in crate::resp) changed: u64,
    pub(in crate::resp) refused: u64,
    /// The first refusals.
    pub(in crate::resp) refusals: Vec<String>,
}
