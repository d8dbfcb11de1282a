//! A cache of second-degree sets, each with the state of the graph that it was computed from.
//!
//! Every change of an edge may change thousands of second degrees, so an exact cache would never hit under writes. The
//! caller states how many changes of the edge type a set may have missed; with 0 the cache is exact.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::query::second::SecondDegree;
use crate::schema::TypeId;
use crate::view::View;

/// The graph, the node and the type of a set.
type SetKey = (u64, u32, u8);

/// The bytes that a set takes besides its numbers: its entries of both maps with their spare room, and its own fields.
const SET_BYTES: usize = 256;

/// A cache for one worker. The least recently used set leaves it when its bytes exceed the maximum.
#[derive(Debug)]
pub struct SecondDegreeCache {
    bytes_max: usize,
    bytes: usize,
    clock: u64,
    sets: HashMap<SetKey, CachedSet>,
    /// The sets in the order of their last use, so that an eviction does not search all of them.
    order: BTreeMap<u64, SetKey>,
    hits: u64,
    misses: u64,
}

#[derive(Debug)]
struct CachedSet {
    set: Arc<SecondDegree>,
    used: u64,
}

fn bytes_of(set: &SecondDegree) -> usize {
    set.numbers.capacity() * 4 + SET_BYTES
}

impl SecondDegreeCache {
    /// Creates a cache of at most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, clock: 0, sets: HashMap::new(), order: BTreeMap::new(), hits: 0, misses: 0 }
    }

    /// Returns a node's set if it missed at most `changes_max` changes of the type.
    pub fn find(&mut self, view: &View<'_>, node: u64, ty: TypeId, changes_max: u64) -> Option<Arc<SecondDegree>> {
        self.clock += 1;
        let key = view.node(node).ok().flatten().map(|number| (view.graph.identity(), number, ty.0));
        let is_fresh = |set: &SecondDegree| view.changes(ty).saturating_sub(set.changes) <= changes_max;
        let cached = key.and_then(|key| self.sets.get_mut(&key).map(|cached| (key, cached)));
        let found = cached.filter(|(_, cached)| is_fresh(&cached.set)).map(|(key, cached)| {
            self.order.remove(&cached.used);
            self.order.insert(self.clock, key);
            cached.used = self.clock;
            Arc::clone(&cached.set)
        });
        *(if found.is_some() { &mut self.hits } else { &mut self.misses }) += 1;
        found
    }

    /// Stores a set, unless it is partial or longer than the cache.
    pub fn insert(&mut self, view: &View<'_>, mut set: SecondDegree) -> Arc<SecondDegree> {
        set.numbers.shrink_to_fit();
        let (set, key) = (Arc::new(set), (view.graph.identity(), 0, 0));
        let bytes = bytes_of(&set);
        if set.is_partial || set.node == u32::MAX || bytes > self.bytes_max {
            return set;
        }
        let key = (key.0, set.node, set.ty);
        self.remove(key);
        while self.bytes + bytes > self.bytes_max {
            let Some(oldest) = self.order.values().next().copied() else { break };
            self.remove(oldest);
        }
        self.clock += 1;
        self.bytes += bytes;
        self.order.insert(self.clock, key);
        self.sets.insert(key, CachedSet { set: Arc::clone(&set), used: self.clock });
        set
    }

    fn remove(&mut self, key: SetKey) {
        if let Some(old) = self.sets.remove(&key) {
            self.order.remove(&old.used);
            self.bytes -= bytes_of(&old.set);
        }
    }

    /// Returns the number of hits and of misses.
    #[must_use]
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Returns the bytes of the sets.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{Graph, GraphStore, GraphStoreConfig, anonymous};

    fn graph() -> (GraphStore, Graph) {
        let store = GraphStore::new(anonymous(96 << 20), &GraphStoreConfig::default()).expect("enough");
        let graph = store.create_graph("g").expect("room");
        graph.writer().declare_type("t", &crate::EdgeTypeConfig::default()).expect("valid");
        (store, graph)
    }

    fn set(node: u32) -> SecondDegree {
        let mut set = SecondDegree::default();
        set.node = node;
        set
    }

    #[test]
    fn least_recently_used_set_leaves_a_full_cache() {
        let (store, graph) = graph();
        let mut writer = graph.writer();
        let nodes: Vec<u64> = (1..=5).collect();
        nodes.iter().for_each(|node| assert!(writer.node_number(*node).is_ok()));
        drop(writer);
        let mut reader = store.reader().expect("free");
        let guard = reader.enter();
        let (view, ty) = (guard.view(&graph), graph.edge_type("t").expect("declared"));
        let mut cache = SecondDegreeCache::new(3 * SET_BYTES);
        (0..3).for_each(|node| drop(cache.insert(&view, set(node))));
        assert!(cache.find(&view, 1, ty, 0).is_some(), "the oldest set is used again");
        drop(cache.insert(&view, set(1)));
        drop(cache.insert(&view, set(3)));
        let mut found = |node: u64| cache.find(&view, node, ty, 0).is_some();
        assert_eq!(nodes.iter().map(|node| found(*node)).collect::<Vec<_>>(), [true, true, false, true, false]);
        assert_eq!((cache.bytes(), cache.order.len(), cache.sets.len()), (3 * SET_BYTES, 3, 3));
    }

    /// With a search of all sets for each eviction, these would take minutes.
    #[test]
    fn each_of_many_evictions_from_a_large_cache_removes_the_oldest_set() {
        const SETS: u32 = 1 << 16;
        let (store, graph) = graph();
        let mut reader = store.reader().expect("free");
        let guard = reader.enter();
        let view = guard.view(&graph);
        let mut cache = SecondDegreeCache::new(SETS as usize * SET_BYTES);
        (0..4 * SETS).for_each(|node| drop(cache.insert(&view, set(node))));
        let mut nodes: Vec<u32> = cache.sets.keys().map(|(_, node, _)| *node).collect();
        nodes.sort_unstable();
        assert!(nodes.into_iter().eq(3 * SETS..4 * SETS));
        assert_eq!((cache.order.len(), cache.bytes()), (SETS as usize, SETS as usize * SET_BYTES));
    }
}
