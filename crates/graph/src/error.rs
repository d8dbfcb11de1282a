//! The errors of the graph store.

use std::fmt;

use crate::limits;

/// The reason why the store refused a call. A refused call changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// No graph has this name.
    UnknownGraph,
    /// The graph was dropped after the caller had found it.
    GraphDropped,
    /// The graph has no edge type with this name or number.
    UnknownType,
    /// The type was declared before with other properties, which the text names.
    TypeDiffers(&'static str),
    /// The type that the declaration names as its inverse has edges or another inverse.
    NoInverse,
    /// The declaration has another schema than the type of which it is the inverse.
    InverseSchema,
    /// A name is empty, longer than [`limits::NAME_BYTES_MAX`] or has control characters.
    BadName,
    /// The schema has too many names, or one name twice.
    BadSchema,
    /// The store has [`limits::GRAPHS_MAX`] graphs.
    TooManyGraphs,
    /// Less than a quarter of the segments is free.
    NoRoomForGraph,
    /// The graph has [`limits::TYPES_MAX`] edge types.
    TooManyTypes,
    /// The graph has as many nodes as its numbers allow.
    TooManyNodes,
    /// Node identifiers 0 and 2^64 - 1 are reserved.
    ReservedNode(u64),
    /// An edge from a node to itself.
    SelfEdge(u64),
    /// Attributes longer than [`limits::ATTRIBUTE_BYTES_MAX`].
    AttributesTooLong(usize),
    /// The edge type declares no attributes.
    NoSchema,
    /// An object longer than [`limits::OBJECT_BYTES_MAX`].
    ObjectTooLong(usize),
    /// A time after [`limits::TIME_MS_MAX`].
    TimeOutOfRange(u64),
    /// The source or the destination has as many edges of this type as the type's cap allows.
    CapReached {
        /// The node that has too many edges.
        node: u64,
        /// The cap of the edge type.
        cap: u32,
    },
    /// The list of this node has no room for another leaf.
    ListFull(u64),
    /// The cursor is not one, or belongs to another query.
    BadCursor,
    /// A set operation has no lists, or more than [`limits::SETS_MAX`].
    BadSetCount(usize),
    /// A distance of 0 or above [`limits::DISTANCE_MAX`].
    BadDistance(u8),
    /// The query pages in time order, but the type is sorted by identifier.
    NotSortedByTime,
    /// All segments are in use.
    NoSpace,
    /// The index of nodes and lists has its maximum of bytes, which the value is.
    IndexFull(usize),
    /// The bulk batch has its maximum of edges.
    BatchFull,
    /// Another bulk batch of the graph is being loaded.
    BulkInProgress,
    /// All readers that the store was created for exist.
    TooManyReaders,
    /// The memory has fewer segments than the store needs.
    TooLittleMemory {
        /// The number of segments that the memory holds.
        segments: usize,
        /// The minimum.
        segments_min: usize,
    },
    /// A segment size that is too small, too large or no multiple of 8 bytes.
    BadSegmentSize(usize),
    /// The memory holds a store of another segment size, in bytes.
    OtherSegmentSize(usize),
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownGraph => f.write_str("cannot find the graph: no edge type of it is declared; use G.TYPE"),
            Self::GraphDropped => {
                f.write_str("cannot find the graph: it was dropped during the request; declare its types with G.TYPE")
            }
            Self::UnknownType => f.write_str("cannot find the edge type: it is not declared; use G.TYPE"),
            Self::TypeDiffers(what) => {
                write!(f, "cannot declare the edge type: it exists with another {what}; use another name")
            }
            Self::NoInverse => f.write_str(
                "cannot declare the inverse: the other type has edges or an inverse already; declare both types before \
                 the first edge",
            ),
            Self::InverseSchema => f.write_str(
                "cannot declare the inverse with another schema than the other type's; omit SCHEMA to use that",
            ),
            Self::BadName => {
                let most = limits::NAME_BYTES_MAX;
                write!(f, "cannot use the name: it must have 1 to {most} bytes, and no control characters")
            }
            Self::BadSchema => {
                let most = limits::SCHEMA_NAMES_MAX;
                write!(f, "cannot use the schema: each name must occur once, and at most {most} are allowed")
            }
            Self::TooManyGraphs => write!(f, "cannot create the graph: {} graphs exist", limits::GRAPHS_MAX),
            Self::NoRoomForGraph => f.write_str(
                "cannot create the graph: less than a quarter of the segments is free; add its edges to another graph \
                 as types of their own, or enlarge the pool",
            ),
            Self::TooManyTypes => write!(f, "cannot declare the edge type: {} types exist", limits::TYPES_MAX),
            Self::TooManyNodes => f.write_str("cannot add the node: the graph has its maximum of nodes"),
            Self::ReservedNode(id) => write!(f, "cannot use node {id}: identifiers 0 and 2^64 - 1 are reserved"),
            Self::SelfEdge(id) => write!(f, "cannot connect node {id} with itself; use two different nodes"),
            Self::AttributesTooLong(bytes) => {
                write!(f, "cannot store {bytes} bytes of attributes: at most {} fit", limits::ATTRIBUTE_BYTES_MAX)
            }
            Self::NoSchema => f.write_str("cannot store attributes: the edge type has no schema; declare it with one"),
            Self::ObjectTooLong(bytes) => {
                write!(f, "cannot store an object of {bytes} bytes: at most {} fit", limits::OBJECT_BYTES_MAX)
            }
            Self::TimeOutOfRange(ms) => {
                write!(f, "cannot use time {ms}: the latest is {} ms since the epoch", limits::TIME_MS_MAX)
            }
            Self::CapReached { node, cap } => {
                write!(f, "cannot add the edge: node {node} has {cap} edges, the cap of the type; remove one first")
            }
            Self::ListFull(node) => write!(f, "cannot add the edge: the list of node {node} is full; set a cap"),
            Self::BadCursor => f.write_str("cannot use the cursor: it is of another query; begin with cursor 0"),
            Self::BadSetCount(lists) => {
                write!(f, "cannot combine {lists} lists: 1 to {} are allowed", limits::SETS_MAX)
            }
            Self::BadDistance(max) => {
                write!(f, "cannot search to distance {max}: 1 to {} are allowed", limits::DISTANCE_MAX)
            }
            Self::NotSortedByTime => {
                f.write_str("cannot page by time: the edge type is sorted by identifier; declare it with SORT TIME")
            }
            Self::NoSpace => f.write_str("cannot store: all segments are in use; compact, or enlarge the pool"),
            Self::IndexFull(bytes) => write!(
                f,
                "cannot store: the index of nodes and lists has its maximum of {bytes} bytes; drop a graph, or enlarge \
                 the pool"
            ),
            Self::BatchFull => f.write_str("cannot add the edge to the batch: it is full; load it first"),
            Self::BulkInProgress => {
                f.write_str("cannot begin to load the batch: another one is being loaded; wait until it is complete")
            }
            Self::TooManyReaders => f.write_str("cannot create a reader: all exist; raise `readers_max`"),
            Self::TooLittleMemory { segments, segments_min } => {
                write!(f, "cannot create the store: the memory has {segments} segments; give it {segments_min} or more")
            }
            Self::BadSegmentSize(bytes) => write!(
                f,
                "cannot use segments of {bytes} bytes: use a multiple of 8 from {} to {}",
                limits::SEGMENT_BYTES_MIN,
                limits::SEGMENT_BYTES
            ),
            Self::OtherSegmentSize(bytes) => {
                write!(f, "cannot open the store: its segments have {bytes} bytes; pass the same size")
            }
        }
    }
}

impl std::error::Error for GraphError {}
