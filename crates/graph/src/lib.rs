//! The graph store. Nodes and typed edges in sorted adjacency lists, with reads that take no lock.
//!
//! ```text
//!   GraphStore   a pool of segments in memory that the caller provides, and the graphs in it
//!   Graph        nodes with 64-bit identifiers, up to 64 edge types
//!   Writer       changes one graph; one at a time
//!   GraphReader  one thread's access; GraphGuard: within one epoch, View: of one graph
//!   *Query       work of unknown size, in slices
//!
//!   identifier ──ids──> node number ──head[node, type]──> recent changes ──> leaf (sorted run)
//!                                                      └> leaves ──> ..      (a list of more than 4,096 edges)
//! ```
//!
//! The modules, in ascending order of layers (`xtask/src/tidy/floors.rs` defines the exact order):
//!
//! ```text
//!   limits, error, sync     names that all use
//!   memory, paged, epoch    words, growing arrays, epochs
//!   record, leaf, schema    the bytes of records
//!   ids, pool, change       node numbers, segments, values of edges
//!   tombstones              their marks and their age
//!   state, list             a graph's index, and reads of its lists
//!   append, write, declare  the writer
//!   compact, sweep, bulk    reuse of segments; age of tombstones; edges from files, in batches
//!   view, query             reads; checks of whole stores
//!   store, commit, recover  assembly, commits to a disk, restart
//! ```
//!
//! The engine does no I/O, reads no clock, starts no thread and knows no protocol. It contains no unsafe code: all
//! memory that threads share consists of atomic words.
//!
//! Invariants:
//! - An edge's value follows from the set of its changes, in whatever order and how often they arrive.
//! - A reader within a guard never sees a segment reused, and never waits.
//! - A change is in the lists of both directions, or in none, after a restart from the memory of any moment.
//! - Every query ends a slice after a bounded number of edges.
//!
//! # Example
//! ```
//! use gannet_graph::*;
//!
//! let store = GraphStore::new(anonymous(96 << 20), &GraphStoreConfig::default())?;
//! let graph = store.create_graph("people")?;
//! let mut writer = graph.writer();
//! let direction = Direction::Undirected;
//! let knows = writer.declare_type("knows", &EdgeTypeConfig { direction, ..Default::default() })?;
//! for (source, destination) in [(1, 2), (2, 3), (3, 4)] {
//!     let action = EdgeAction::Add(b"");
//!     writer.apply(&EdgeChange { source, edge_type: knows, destination, time_ms: 1, action })?;
//! }
//! drop(writer);
//!
//! let mut reader = store.reader()?;
//! let guard = reader.enter();
//! let view = guard.view(&graph);
//! assert_eq!(view.count(2, knows)?, 2);
//! let mut query = DistanceQuery::begin(&view, Scratch::new(), 1, knows, &[2, 3, 4], 3, 1000)?;
//! while query.step(&view, 4096) == QueryStep::More {}
//! assert_eq!(query.finish().0.distances, [Some(1), Some(2), Some(3)]);
//! # Ok::<(), GraphError>(())
//! ```
#![forbid(unsafe_code)]

mod append;
mod bulk;
mod change;
mod commit;
mod compact;
mod declare;
mod epoch;
mod error;
mod ids;
mod leaf;
pub mod limits;
mod list;
mod memory;
mod paged;
mod pool;
mod query;
mod record;
mod recover;
mod schema;
mod state;
mod store;
mod sweep;
mod sync;
mod tombstones;
mod view;
mod write;

pub use append::Writer;
pub use bulk::batch::{BulkBatch, BulkReport, RefusedEdge};
pub use bulk::parse::{EdgeFormat, EdgeLine, EdgeLineCause, EdgeLineError, EdgeReader};
pub use bulk::write::{BulkStep, BulkWriter};
pub use change::{EdgeAction, EdgeChange};
pub use commit::{GraphCommit, Watermark};
pub use compact::CompactionStep;
pub use error::GraphError;
pub use leaf::EdgeState;
pub use memory::{AtomicU32, Backing, anonymous, image};
pub use query::cursor::Cursor;
pub use query::distance::{DistanceQuery, Distances};
pub use query::inspect::{
    FAULTS_MAX, ListCheck, ListFault, ListedEdge, MemoryCheck, MemoryFault, MemoryFaultKind, check_memory,
};
pub use query::page::{ListPage, PageEdge, PageOptions, PageQuery};
pub use query::path::{PathQuery, Paths};
pub use query::second::{SecondDegree, SecondDegreeQuery, Suggestion};
pub use query::second_cache::SecondDegreeCache;
pub use query::sets::{SetOperation, SetPage, SetQuery};
pub use query::walk::{QueryStep, Scratch};
pub use recover::RestartReport;
pub use schema::{Direction, EdgeTypeConfig, ListOrder, TypeId};
pub use store::{Graph, GraphGuard, GraphReader, GraphStore, GraphStoreConfig, GraphStoreStats, SegmentStats};
pub use sweep::SweepPosition;
pub use view::{EdgeView, NeighbourList, Neighbours, NodeObject, View};
