//! A cache of second-degree sets, each with the state of the graph that it was computed from.
//!
//! Every change of an edge may change thousands of second degrees, so an exact cache would never hit under writes. The
//! caller states how many changes of the edge type a set may have missed; with 0 the cache is exact.

use std::collections::HashMap;
use std::sync::Arc;

use crate::query::second::SecondDegree;
use crate::schema::TypeId;
use crate::view::View;

/// A cache for one worker. The least recently used set leaves it when its bytes exceed the maximum.
#[derive(Debug)]
pub struct SecondDegreeCache {
    bytes_max: usize,
    bytes: usize,
    clock: u64,
    sets: HashMap<(u64, u32, u8), CachedSet>,
    hits: u64,
    misses: u64,
}

#[derive(Debug)]
struct CachedSet {
    set: Arc<SecondDegree>,
    used: u64,
}

fn bytes_of(set: &SecondDegree) -> usize {
    set.numbers.len() * 4 + 128
}

impl SecondDegreeCache {
    /// Creates a cache of at most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: 0, clock: 0, sets: HashMap::new(), hits: 0, misses: 0 }
    }

    /// Returns a node's set if it missed at most `changes_max` changes of the type.
    pub fn find(&mut self, view: &View<'_>, node: u64, ty: TypeId, changes_max: u64) -> Option<Arc<SecondDegree>> {
        self.clock += 1;
        let key = view.node(node).ok().flatten().map(|number| (view.graph.identity(), number, ty.0));
        let cached = key.and_then(|key| self.sets.get_mut(&key));
        let is_fresh = |set: &SecondDegree| view.changes(ty).saturating_sub(set.changes) <= changes_max;
        let found = cached.filter(|cached| is_fresh(&cached.set)).map(|cached| {
            cached.used = self.clock;
            Arc::clone(&cached.set)
        });
        *(if found.is_some() { &mut self.hits } else { &mut self.misses }) += 1;
        found
    }

    /// Stores a set, unless it is partial or longer than the cache.
    pub fn insert(&mut self, view: &View<'_>, set: SecondDegree) -> Arc<SecondDegree> {
        let (set, key) = (Arc::new(set), (view.graph.identity(), 0, 0));
        let bytes = bytes_of(&set);
        if set.is_partial || set.node == u32::MAX || bytes > self.bytes_max {
            return set;
        }
        let key = (key.0, set.node, set.ty);
        self.remove(key);
        while self.bytes + bytes > self.bytes_max {
            let oldest = self.sets.iter().min_by_key(|(_, cached)| cached.used).map(|(key, _)| *key);
            let Some(oldest) = oldest else { break };
            self.remove(oldest);
        }
        self.clock += 1;
        self.bytes += bytes;
        self.sets.insert(key, CachedSet { set: Arc::clone(&set), used: self.clock });
        set
    }

    fn remove(&mut self, key: (u64, u32, u8)) {
        if let Some(old) = self.sets.remove(&key) {
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
