//! The background's work on values that consist of several items: eviction of parts, and deferred frees.

use base::clock::UnixMillis;

use super::Background;
use super::drain::{Why, note_evicted};
use crate::core::lookup::FoundItem;
use crate::core::store::Store;
use crate::items::unpublished::{kill, unname};
use crate::layout::hidden_key::{ANCHOR, hidden_numbers};
use crate::layout::key::Key;
use crate::layout::parts_head::PartsHead;
use crate::layout::slot::Slot;
use crate::values::deferred_free::free_orphan;
use crate::values::free_queue::Freed;
use crate::values::parts::{each_part, is_head, owner_of};

/// Maximum number of pieces or parts that one slice removes.
const A_SLICE: usize = 256;
/// The cost of a deferred free beside that of its pieces or parts, in pieces or parts.
const DEFERRED_COST: usize = 4;

/// The number of a value's parts that are examined to find whether its head names a part. The lock of the head's key is
/// held meanwhile.
const EXAMINED_MAX: usize = 2048;

/// Returns false if the head does not name the part. A value with more parts than are examined is taken to name it:
/// parts that no head names are rare, since they are removed when they become unused.
fn may_name(store: &Store, namespace: u8, head: PartsHead<'_>, part: u64) -> bool {
    let mut examined = 0;
    !each_part(store, namespace, head, &mut |there| {
        examined += 1;
        there != part && examined < EXAMINED_MAX
    })
}

impl Background {
    /// Removes the head of a value before a piece or a part of the value is evicted, so that the whole value is
    /// evicted. `key` is the hidden key. Returns `None` if the piece or part must not be evicted yet: the head's lock
    /// could not be taken, the head is being renamed, or a deferred free still needs the value's pages.
    pub(super) fn evict_head(&mut self, store: &Store, key: &Key<'_>, why: Why, now: UnixMillis) -> Option<()> {
        let Some((object, part)) = hidden_numbers(key) else { return Some(()) };
        let namespace = key.namespace;
        let Some(owner) = owner_of(store, namespace, object) else { return Some(()) };
        let locked = store.index.lock(owner)?;
        let Some(found) = locked.find(|slot| is_head(store, slot, namespace, object, owner)) else {
            // If the value was renamed after the anchor was read, its head is now under another key.
            let same = owner_of(store, namespace, object).is_none_or(|now| now.0 == owner.0);
            return (same && !self.will_free(store, object)).then_some(());
        };
        let (address, layout) = found.what;
        let seen = FoundItem { word: found.word, slot: found.slot, address, layout };
        // If the head does not name this part, the part alone is evicted.
        if let Some(part) = part.filter(|part| *part != ANCHOR)
            && let Some(head) = PartsHead::of(layout.value(&store.segments.heap, address))
            && !may_name(store, namespace, head, part)
        {
            return Some(());
        }
        let bytes = layout.key(&store.segments.heap, address);
        let head_key = Key { bytes, hash: owner, namespace, piece: false };
        let to = if why.leaves_ghosts() { self.evicted_ghost(store, owner) } else { Slot::EMPTY };
        unname(store, &locked, &seen, to);
        note_evicted(self, store, &head_key, &seen, now);
        let counters = Self::counters(store);
        let orphan = kill(store, counters, address, &layout);
        drop(locked);
        if let Some(orphan) = orphan {
            free_orphan(store, counters, orphan);
        }
        Some(())
    }

    /// Returns true if a deferred free still has to remove pieces or parts of the object.
    pub(super) fn will_free(&self, store: &Store, object: u64) -> bool {
        self.freeing.as_ref().is_some_and(|deferred| deferred.ends() == Some(object)) || store.deferred.ends(object)
    }

    /// Removes some of the pieces and parts in deferred frees.
    pub(super) fn free_some(&mut self, store: &Store) -> Freed {
        let (mut left, mut freed) = (A_SLICE, Freed::Nothing);
        while let Some(mut deferred) = self.freeing.take().or_else(|| store.deferred.pop()) {
            freed = Freed::AllOrBusy;
            let is_complete = deferred.free_some(store, Self::counters(store), &mut left);
            if !is_complete {
                self.freeing = Some(deferred);
            }
            left = left.saturating_sub(DEFERRED_COST);
            if left == 0 {
                return Freed::SomeOfMore;
            }
            if !is_complete {
                break;
            }
        }
        freed
    }
}
