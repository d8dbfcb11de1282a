//! Names none of which may occur twice.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};

/// The number of bytes of one hash in a set of hashes, with its overhead.
pub(in crate::resp) const HASH_BYTES: usize = 10;

/// The number of parts of a set of hashes. Each grows by itself, so that no step has to move all hashes.
const HASH_PARTS: usize = 64;

/// The hashes of names none of which may occur twice.
#[derive(Default)]
pub(in crate::resp) struct NameHashes {
    parts: Vec<HashSet<u64>>,
    hasher: RandomState,
    count: usize,
}

impl NameHashes {
    /// Adds a name. Returns false if it was added before.
    pub(in crate::resp) fn add(&mut self, name: impl Hash) -> bool {
        self.parts.resize_with(HASH_PARTS, HashSet::new);
        let hash = self.hasher.hash_one(name);
        let is_new = self.parts[hash as usize % HASH_PARTS].insert(hash);
        self.count += usize::from(is_new);
        is_new
    }

    /// Returns the number of bytes of memory that the hashes occupy, about.
    pub(in crate::resp) fn held_bytes(&self) -> usize {
        2 * HASH_BYTES * self.count
    }
}
