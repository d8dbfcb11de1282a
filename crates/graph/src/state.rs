//! The state of a store and of a graph. Readers share it with the writer and take no lock.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, OnceLock};

use crate::bulk::batch::BulkState;
use crate::epoch::Epochs;
use crate::error::GraphError;
use crate::ids::{IdHash, IdPages, Ids};
use crate::leaf::LeafEntries;
use crate::limits::{GRAPHS_MAX, TYPES_MAX};
use crate::memory::AtomicU32;
use crate::paged::{IndexMemory, Paged};
use crate::pool::Pool;
use crate::schema::EdgeType;
use crate::sync::{AtomicU64, Mutex, RwLock};
use crate::tombstones::TombstoneClock;

/// The parts that all graphs of a store share.
#[derive(Debug)]
pub(crate) struct StoreState {
    pub(crate) pool: Pool,
    pub(crate) epochs: Epochs,
    pub(crate) tombstones: TombstoneClock,
    /// The hash of the identifiers of all graphs.
    pub(crate) id_hash: IdHash,
    /// The memory of the indexes of all graphs.
    pub(crate) index: Arc<IndexMemory>,
    /// The graphs by their numbers. A dropped one stays until its segments are free, so that no other graph gets its
    /// number before. Written only when a graph is created, and when its number is free again.
    pub(crate) graphs: RwLock<GraphSlots>,
    /// An empty graph, in place of one that was dropped while its reader or its writer had found it before.
    pub(crate) nothing: GraphState,
    /// Held while a graph is created or dropped, and while a commit begins. Acquired before the lock of a writer.
    pub(crate) creation: Mutex<()>,
    /// The number of graphs that were dropped.
    pub(crate) graphs_dropped: AtomicU64,
}

/// The number of heads of a page. A list may be the only one of its page, so a page is not much larger than the records
/// of a list.
const HEADS_PAGE: usize = 64;

/// The heads of the lists of one type, by the numbers of their nodes.
type Heads = Paged<AtomicU64, HEADS_PAGE>;

/// The graphs of a store by their numbers.
pub(crate) type GraphSlots = [Option<Arc<GraphState>>; GRAPHS_MAX];

impl StoreState {
    pub(crate) fn new(pool: Pool, epochs: Epochs, id_hash: IdHash, index_bytes_max: usize) -> Self {
        let index = IndexMemory::new(index_bytes_max);
        Self {
            pool,
            epochs,
            tombstones: TombstoneClock::new(),
            id_hash,
            graphs: RwLock::new([const { None }; GRAPHS_MAX]),
            nothing: GraphState::nothing(id_hash, &index),
            index,
            creation: Mutex::new(()),
            graphs_dropped: AtomicU64::new(0),
        }
    }

    /// Returns the graphs by their numbers, dropped ones included.
    pub(crate) fn slots(&self) -> GraphSlots {
        self.graphs.read().expect("no holder of the lock panics").clone()
    }

    /// Returns the graphs that are not dropped.
    pub(crate) fn existing(&self) -> impl Iterator<Item = Arc<GraphState>> + use<> {
        self.slots().into_iter().flatten().filter(|graph| !graph.is_dropped())
    }

    /// Frees the numbers of dropped graphs whose segments are all free, and the memory of their indexes. Returns the
    /// number of those that still have segments.
    pub(crate) fn free_dropped(&self) -> usize {
        let dropped = || self.slots().into_iter().flatten().filter(|graph| graph.is_dropped());
        if dropped().next().is_none() {
            return 0;
        }
        self.pool.reclaim_now(&self.epochs);
        let freed = dropped().filter(|graph| !self.pool.has_segment_of(graph.number));
        for graph in freed {
            let slot = &mut self.graphs.write().expect("no holder of the lock panics")[usize::from(graph.number)];
            // The index itself is freed with the last reference to it, after the lock is released.
            let _ = slot.take_if(|other| Arc::ptr_eq(other, &graph));
        }
        dropped().count()
    }
}

/// A list's head: the position of its leaf, recent changes or leaves, and its number of live edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) position: u32,
    pub(crate) live: u32,
}

impl Head {
    #[inline]
    fn of(word: u64) -> Self {
        Self { position: (word >> 32) as u32, live: word as u32 }
    }
}

/// One graph.
#[derive(Debug)]
pub(crate) struct GraphState {
    pub(crate) number: u8,
    pub(crate) name: String,
    /// Differs among all graphs that ever had a number, unless an older file has the graph: cursors and caches tell
    /// them apart by it.
    pub(crate) creation: u32,
    is_dropped: AtomicBool,
    pub(crate) ids: Ids,
    types: [OnceLock<EdgeType>; TYPES_MAX],
    heads: [OnceLock<Heads>; TYPES_MAX],
    index: Arc<IndexMemory>,
    /// The number of accepted changes of each type, by which caches know the age of their contents.
    changes: [AtomicU64; TYPES_MAX],
    /// One bit for each archived node.
    archived: Paged<AtomicU32>,
    archived_nodes: AtomicU64,
    /// The number of times that a node was archived or restored.
    mark_changes: AtomicU64,
    /// The position of each node's object.
    pub(crate) objects: Paged<AtomicU32>,
    pub(crate) writer: Mutex<WriterState>,
}

/// A node-wide mark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeMark {
    pub(crate) time: u64,
    pub(crate) is_archived: bool,
    pub(crate) position: u32,
}

/// The record of a bulk batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchMark {
    /// The sequence number at its begin: lower than those of its edge records.
    pub(crate) lsn: u64,
    /// True if the lists have all its edges.
    pub(crate) is_complete: bool,
    pub(crate) position: u32,
}

/// An open segment that records are appended to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSegment {
    pub(crate) segment: u32,
    pub(crate) used: usize,
}

/// The writer's part of a graph, behind its lock.
#[derive(Debug, Default)]
pub(crate) struct WriterState {
    /// Open segments: one for short-lived records, one for leaves and other long-lived ones.
    pub(crate) open: [Option<OpenSegment>; 2],
    pub(crate) id_pages: IdPages,
    /// The sequence number of the next record that has one.
    pub(crate) lsn: u64,
    /// The number of words that were appended.
    pub(crate) appended: u64,
    pub(crate) marks: HashMap<u32, NodeMark>,
    pub(crate) name_position: u32,
    pub(crate) type_positions: Vec<u32>,
    /// The position of the record of each complete block of nodes.
    pub(crate) node_blocks: Vec<u32>,
    /// The positions of records of nodes after the last complete block.
    pub(crate) node_singles: Vec<u32>,
    pub(crate) compaction: Option<Compaction>,
    /// The record of the last bulk batch.
    pub(crate) batch: Option<BatchMark>,
    /// The bulk batch that is being loaded.
    pub(crate) bulk: Option<Box<BulkState>>,
    pub(crate) record: Vec<u32>,
    pub(crate) entries: LeafEntries,
}

/// The segment that compaction empties.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compaction {
    pub(crate) segment: u32,
    /// The sequence of the segment when it was chosen. Another one means that it became free and was reused.
    pub(crate) sequence: u64,
    pub(crate) word: usize,
    pub(crate) used: usize,
}

impl GraphState {
    pub(crate) fn new(number: u8, name: &str, creation: u32, id_hash: IdHash, index: &Arc<IndexMemory>) -> Self {
        let mut writer = WriterState::default();
        Self {
            number,
            name: name.to_owned(),
            creation,
            is_dropped: AtomicBool::new(false),
            ids: Ids::new(id_hash, index, &mut writer.id_pages),
            types: [const { OnceLock::new() }; TYPES_MAX],
            heads: [const { OnceLock::new() }; TYPES_MAX],
            index: Arc::clone(index),
            changes: std::array::from_fn(|_| AtomicU64::new(0)),
            archived: Paged::new(index),
            archived_nodes: AtomicU64::new(0),
            mark_changes: AtomicU64::new(0),
            objects: Paged::new(index),
            writer: Mutex::new(writer),
        }
    }

    /// Returns the state of [`StoreState::nothing`].
    fn nothing(id_hash: IdHash, index: &Arc<IndexMemory>) -> Self {
        let nothing = Self::new(u8::MAX, "", 0, id_hash, index);
        nothing.set_dropped();
        nothing
    }

    /// Returns true if the graph was dropped. A reader that has entered an epoch before it got false may read all
    /// records of the graph in that epoch.
    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Acquire)
    }

    pub(crate) fn set_dropped(&self) {
        self.is_dropped.store(true, Release);
    }

    /// Returns the identity by which cursors and caches distinguish graphs.
    pub(crate) fn identity(&self) -> u64 {
        u64::from(self.creation) << 8 | u64::from(self.number)
    }

    /// Returns the error of a type that the graph does not have.
    #[cold]
    pub(crate) fn no_type(&self) -> GraphError {
        if self.is_dropped() { GraphError::GraphDropped } else { GraphError::UnknownType }
    }

    pub(crate) fn edge_type(&self, ty: u8) -> Option<&EdgeType> {
        self.types.get(usize::from(ty))?.get()
    }

    /// Returns the declared types with their numbers, which are consecutive.
    pub(crate) fn types(&self) -> impl Iterator<Item = (u8, &EdgeType)> {
        (0..).map_while(|ty| self.edge_type(ty).map(|found| (ty, found)))
    }

    pub(crate) fn add_type(&self, ty: u8, edge_type: EdgeType) {
        self.heads[usize::from(ty)].get_or_init(|| Paged::new(&self.index));
        self.types[usize::from(ty)].set(edge_type).expect("a type number is given once");
    }

    /// Returns the head of a list. The position of a list without edges is 0.
    #[inline]
    pub(crate) fn head(&self, node: u32, ty: u8) -> Head {
        let heads = self.heads[usize::from(ty)].get();
        heads.and_then(|heads| heads.find(node)).map_or(Head::default(), |word| Head::of(word.load(Acquire)))
    }

    pub(crate) fn publish(&self, node: u32, ty: u8, head: Head) {
        let heads = self.heads[usize::from(ty)].get_or_init(|| Paged::new(&self.index));
        heads.create(node).store(u64::from(head.position) << 32 | u64::from(head.live), Release);
    }

    /// Returns the number of the page of a list's head, if it does not exist, and its bytes.
    pub(crate) fn missing_head_page(&self, node: u32, ty: u8) -> Option<(u32, usize)> {
        let page = node / HEADS_PAGE as u32;
        let exists = self.heads[usize::from(ty)].get().is_some_and(|heads| heads.page(page as usize).is_some());
        (!exists).then_some((page, HEADS_PAGE * size_of::<AtomicU64>()))
    }

    /// Returns the number of changes of edges of a type.
    pub(crate) fn changes(&self, ty: u8) -> u64 {
        self.changes[usize::from(ty)].load(Acquire)
    }

    /// Returns the number of changes that queries of a type may notice: those of edges and of archived nodes.
    pub(crate) fn visible_changes(&self, ty: u8) -> u64 {
        self.changes(ty) + self.mark_changes.load(Acquire)
    }

    /// Counts changes of a type. Only the graph's writer calls this function, so it needs no atomic addition.
    pub(crate) fn count_changes(&self, ty: u8, changes: u64) {
        let count = &self.changes[usize::from(ty)];
        count.store(count.load(Relaxed) + changes, Release);
    }

    /// Returns true if some node is archived, so that queries must check nodes.
    #[inline]
    pub(crate) fn has_archived(&self) -> bool {
        self.archived_nodes.load(Acquire) > 0
    }

    #[inline]
    pub(crate) fn is_archived(&self, node: u32) -> bool {
        self.archived.find(node / 32).is_some_and(|word| word.load(Relaxed) >> (node % 32) & 1 == 1)
    }

    /// Sets or clears a node's archive mark.
    pub(crate) fn set_archived(&self, node: u32, is_archived: bool) {
        let (word, bit) = (self.archived.create(node / 32), 1 << (node % 32));
        match (is_archived, word.load(Relaxed) & bit != 0) {
            (true, false) => {
                self.archived_nodes.fetch_add(1, Release);
                word.fetch_or(bit, Release);
            }
            (false, true) => {
                word.fetch_and(!bit, Release);
                self.archived_nodes.fetch_sub(1, Release);
            }
            _ => return,
        }
        // It counts after the mark has changed: a query that reads the new number sees the new mark.
        self.mark_changes.fetch_add(1, Release);
    }

    /// Returns the bytes of the index: the map of nodes, heads, marks and positions of objects.
    pub(crate) fn index_bytes(&self) -> usize {
        let heads: usize = self.heads.iter().filter_map(OnceLock::get).map(Heads::bytes).sum();
        self.ids.bytes() + heads + self.archived.bytes() + self.objects.bytes()
    }
}
