//! The state of a command on graphs that takes several visits.

use crate::keyspace::graphs::ScratchPermit;
use crate::memory::budget::Grant;
use graph::{Cursor, DistanceQuery, Graph, PageQuery, PathQuery, SecondDegreeQuery, SetQuery, TypeId};

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
    /// The unfinished query; `None` between two parts of a compound query.
    pub(in crate::resp) query: Option<Box<GraphQuery>>,
    /// The replies of a compound query that are complete, and their number.
    pub(in crate::resp) replies: (Vec<u8>, usize),
    /// The share of client memory.
    pub(in crate::resp) grant: Option<Grant>,
}
