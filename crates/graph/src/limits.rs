//! The limits of the graph store.

/// The maximum length of a graph's or an edge type's name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The maximum number of graphs in one store.
pub const GRAPHS_MAX: usize = 64;
/// The maximum number of edge types of one graph.
pub const TYPES_MAX: usize = 64;
/// The maximum length of an edge's attributes, in bytes.
pub const ATTRIBUTE_BYTES_MAX: usize = 255;
/// The maximum number of attribute names in the schema of an edge type.
pub const SCHEMA_NAMES_MAX: usize = 32;
/// The maximum length of a node's object, in bytes, with its type name.
pub const OBJECT_BYTES_MAX: usize = 16 << 10;
/// The maximum number of lists in one set operation.
pub const SETS_MAX: usize = 16;
/// The maximum distance that a query searches.
pub const DISTANCE_MAX: u8 = 3;
/// The latest time of an edge, in milliseconds since the epoch: the largest six-byte number.
pub const TIME_MS_MAX: u64 = (1 << 48) - 1;
/// The number of edges that a query may touch if the caller states no budget.
pub const BUDGET_EDGES_DEFAULT: u64 = 100_000;

/// The maximum length of a line of a file of edges, in bytes.
pub const LINE_BYTES_MAX: usize = 4096;
/// The maximum number of edges of a bulk batch.
pub const BULK_EDGES_MAX: usize = 1 << 24;
/// The maximum number of refused edges that a bulk batch reports in full.
pub const BULK_REFUSED_MAX: usize = 16;

/// The default size of a segment, in bytes.
pub const SEGMENT_BYTES: usize = 10 << 20;
/// The minimum size of a segment, in bytes. The longest record fits into a fifth of it. Below 512 KiB compaction may
/// need more segments than are reserved for it.
pub const SEGMENT_BYTES_MIN: usize = 256 << 10;

/// The maximum number of entries in one leaf. A longer list has several leaves.
pub(crate) const LEAF_ENTRIES_MAX: usize = 4096;
/// The maximum length of a leaf, in words. Only attributes make a leaf so long that this limit splits it.
pub(crate) const LEAF_WORDS_MAX: usize = 12 << 10;
/// The maximum number of changes that a list collects before they are merged into its leaf.
pub(crate) const RECENT_MAX: usize = 64;
/// The number of changes that even the shortest list collects before they are merged.
pub(crate) const RECENT_MIN: usize = 16;
/// The maximum number of leaves of a list. They hold 2,048 entries or more, unless attributes fill them.
pub(crate) const LEAVES_MAX: usize = 6000;
/// Segments that only compaction may take, so that it can always free others.
pub(crate) const SEGMENTS_RESERVED: usize = 2;
/// Segments that only removals and compaction may take.
pub(crate) const SEGMENTS_FOR_REMOVALS: usize = 1;

const _: () = assert!(LEAF_WORDS_MAX * 4 * 5 <= SEGMENT_BYTES_MIN);
const _: () = assert!(LEAVES_MAX * 8 * 5 <= SEGMENT_BYTES_MIN);
const _: () = assert!(OBJECT_BYTES_MAX * 5 <= SEGMENT_BYTES_MIN);
const _: () = assert!(BULK_EDGES_MAX * 2 <= 1 << 31 && BULK_EDGES_MAX * ATTRIBUTE_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(TYPES_MAX <= 256 && LEAF_ENTRIES_MAX < 1 << 13);
