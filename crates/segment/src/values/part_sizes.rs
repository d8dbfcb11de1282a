//! The memory of a value in parts, added up in steps.

use crate::core::facets::PartReads;
use crate::core::lookup::find;
use crate::core::op::Item;
use crate::layout::hidden_key::{ANCHOR, fragment_name, name};
use crate::layout::key::Key;
use crate::layout::parts_head::PartsHead;
use crate::values::part_walk::PartWalk;
use crate::values::parts::{fragment_bytes, page_bytes};

/// A sum of the bytes that the parts of one value take in the store, headers and padding included. If the value changes
/// between two steps, parts that moved may be missing or counted twice.
#[derive(Debug)]
pub struct PartSizes {
    object: u64,
    walk: PartWalk,
    bytes: u64,
}

impl PartSizes {
    /// Returns the number of the value's object: see [`PartReads::object_of`].
    #[must_use]
    pub fn object(&self) -> u64 {
        self.object
    }

    /// Returns the sum so far, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the memory of the walk over the parts, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.walk.bytes()
    }
}

impl PartReads<'_, '_> {
    /// Returns a sum of the sizes of an item's parts, before the first one. Returns `None` if the item has no parts.
    pub fn sizes_of(self, item: &Item<'_>) -> Option<PartSizes> {
        let crate::Value::Typed { kind, bytes } = item.value else { return None };
        let value = [&[kind][..], bytes].concat();
        let head = PartsHead::of(&value)?;
        Some(PartSizes { object: head.object, walk: PartWalk::of_head(&head), bytes: 0 })
    }

    /// Adds the sizes of at most `parts_max` further parts of `key`'s value, each in a time that does not depend on the
    /// number of parts. Returns true when all are added.
    pub fn add_sizes(self, key: &Key<'_>, sizes: &mut PartSizes, parts_max: usize) -> bool {
        let (store, object) = (self.guard.store, sizes.object);
        let read = |page| page_bytes(store, key.namespace, object, page);
        for _ in 0..parts_max {
            let part = sizes.walk.part(read);
            // The anchor is no part of the tree.
            sizes.bytes += self.stored_bytes(key, object, part.unwrap_or(ANCHOR));
            if part.is_none() {
                return true;
            }
            sizes.walk.advance(read);
        }
        false
    }

    /// Returns the bytes that a part takes with all its fragments.
    fn stored_bytes(self, key: &Key<'_>, object: u64, part: u64) -> u64 {
        let store = self.guard.store;
        let size_of = |name: &[u8]| find(store, &store.hasher.piece(key.namespace, name)).map(|seen| seen.layout.size);
        let first = size_of(&name(part, object));
        let is_long = first.is_some_and(|size| size >= fragment_bytes(store));
        let behind = (1..).map_while(|number| size_of(&fragment_name(part, object, number)).filter(|_| is_long));
        first.into_iter().chain(behind).sum::<usize>() as u64
    }
}
