//! Lookup of items by the hashes of their keys, in memory and on flash. Secondary indexes use this module, because they
//! store only hashes.
//!
//! ```text
//!   hash ──> the item is in memory ─────────────────────────────> the item is visited
//!        └─> a flash slot has its tag ──read, caller parks──> its key has the hash ──> the item is visited
//!                                     │                  └──> it is another key's item ──> the next slot with the tag
//!                                     └──> meanwhile, reads of the hashes in `ahead` begin
//! ```
//!
//! - When an item is visited, it is the key's current item: it is in memory, or a slot still names it on flash. The
//!   visit does not bring the item back to memory, and does not count as an access.
//! - Reads for the hashes in `ahead` count as reads of walks ([`crate::tier::staging`]). The entry of a read is free
//!   again after its hash was visited.

use crate::core::facets::Walks;
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, item_of_hash, live, seen_at};
use crate::core::op::{Item, OpError};
use crate::core::store::Store;
use crate::index::Hash;
use crate::layout::key::{Key, Namespace};
use crate::layout::raw::Word64;
use crate::layout::slot::Slot;
use crate::tier::staging::Staging;
use crate::tier::tiered::Located;
use crate::tier::{Found, Parts, TierRead};

/// The key or the hash by which an item is looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sought<'k> {
    Key(&'k Key<'k>),
    /// The hash of the key in a namespace, for a walk that knows only the hash.
    Hash(Namespace, Hash),
}

impl Sought<'_> {
    pub(crate) fn hash(self) -> Hash {
        match self {
            Self::Key(key) => key.hash,
            Self::Hash(_, hash) => hash,
        }
    }

    pub(crate) fn namespace(self) -> u8 {
        match self {
            Self::Key(key) => key.namespace,
            Self::Hash(namespace, _) => namespace.0,
        }
    }

    /// Returns the item in memory that a slot names, if the item is the one that is sought.
    pub(crate) fn seen_at<'s>(self, store: &Store, word: &'s Word64, slot: Slot) -> Option<FoundItem<'s>> {
        match self {
            Self::Key(key) => seen_at(store, key, word, slot),
            Self::Hash(namespace, hash) => {
                let (address, layout) = item_of_hash(store, slot, namespace.0, false, hash)?;
                Some(FoundItem { word, slot, address, layout })
            }
        }
    }

    /// Returns true if an item that was read from flash is the one that is sought.
    pub(crate) fn is(self, read: &TierRead, parts: &Parts) -> bool {
        let same = |key: &Key<'_>| read.buffer[parts.key.clone()] == *key.bytes;
        parts.namespace == self.namespace() && if let Self::Key(key) = self { same(key) } else { true }
    }
}

impl<'g> Walks<'g, '_> {
    /// Returns the item in memory whose key has this hash ([`Key::hash`]), without counting an access.
    pub fn by_hash(self, namespace: Namespace, hash: u64) -> Option<Item<'g>> {
        let (store, hash) = (self.guard.store, Hash(hash));
        let found = store.index.find(hash, |slot| item_of_hash(store, slot, namespace.0, false, hash))?;
        let (address, layout) = found.what;
        let seen =
            live(store, Some(FoundItem { word: found.word, slot: found.slot, address, layout }), self.guard.now)?;
        Some(seen.item(store))
    }

    /// Returns true if the key with this hash, which is not in memory, may be on flash.
    pub fn hash_may_be_on_flash(self, hash: u64) -> bool {
        self.guard.tiered
            && self.guard.store.index.find_tiered(Hash(hash), |_, slot| slot.is_flash().then_some(())).is_some()
    }

    /// Visits the live item whose key has this hash, in memory or on flash. Returns false if there is no such item. If
    /// the item has to be read from flash, also begins reads for the hashes in `ahead` while entries are free. A caller
    /// that then visits these hashes in that order waits for about one read instead of many.
    ///
    /// # Errors
    /// [`OpError::Parked`] while the item is being read. The caller calls again in a later iteration.
    pub fn visit_hash(
        self,
        namespace: Namespace,
        hash: u64,
        ahead: impl Iterator<Item = u64>,
        visit: &mut dyn FnMut(&Item<'_>),
    ) -> Result<bool, OpError> {
        loop {
            if let Some(item) = self.by_hash(namespace, hash) {
                visit(&item);
                walked_past(self.guard, hash);
                return Ok(true);
            }
            if !self.guard.tiered {
                return Ok(false);
            }
            match self.guard.tier().locate(Sought::Hash(namespace, Hash(hash)), false) {
                // The item moved back to memory since the lookup in memory.
                Located::Memory { lives: true } => {}
                Located::Memory { lives: false } | Located::Nowhere => {
                    walked_past(self.guard, hash);
                    return Ok(false);
                }
                Located::Coming => return Err(read_ahead(self.guard, namespace, hash, ahead)),
                Located::Here(at, slot) => {
                    let reads = &self.guard.own.reads;
                    let read = reads.with(|reads| reads.lift_of(hash, at));
                    let Found::Item(parts) = &read.found else { unreachable!("it is an item") };
                    visit(&self.item_of(slot, &read, parts));
                    reads.with(|reads| reads.put_down(read));
                    walked_past(self.guard, hash);
                    return Ok(true);
                }
            }
        }
    }
}

fn walked_past(guard: &Guard<'_>, hash: u64) {
    if guard.tiered {
        guard.own.reads.with(|reads| reads.walked_past(hash));
    }
}

#[cold]
fn read_ahead(guard: &Guard<'_>, namespace: Namespace, hash: u64, ahead: impl Iterator<Item = u64>) -> OpError {
    let reads = &guard.own.reads;
    // Reads ahead begin only after the read of `hash` itself, so that they do not use the entry that it needs.
    if reads.with(|reads| reads.is_pending(hash)) {
        for hash in ahead {
            if !reads.with(|reads| reads.has_room_for_walks()) {
                break;
            }
            if guard.walks().by_hash(namespace, hash).is_none() {
                let _ = guard.tier().locate(Sought::Hash(namespace, Hash(hash)), false);
            }
        }
        reads.with(|reads: &mut Staging| reads.waits_for(hash));
    }
    guard.parked()
}
