//! Changes of slots that name items on the second tier, and the reports of these changes to the tier.

use crate::core::counters::Counters;
use crate::core::store::{Store, space_totals};
use crate::index::{Hash, Locked};
use crate::layout::slot::Slot;
use crate::tier::{FlashAddress, Tier};

pub(crate) fn tier(store: &Store) -> &dyn Tier {
    store.tier.as_deref().expect("flash slots exist only with a second tier")
}

/// Records that an item on flash has lost its slot. `namespace` is the item's namespace, or the caller's best guess if
/// the item was replaced without a read. `lived` is true if the item was not flushed before, or `None` if that is
/// unknown.
pub(crate) fn release(store: &Store, counters: &Counters, slot: Slot, namespace: u8, lived: Option<bool>) {
    // If there is no tier, the slot results from damage to the memory file.
    let Some(tier) = store.tier.as_deref() else { return };
    counters.note_flash_removed(namespace);
    store.flash_keys.gone(slot.flash_address(), namespace, lived);
    tier.release(slot.flash_address());
}

/// Counts `items` items of an earlier process on flash for `namespace`. Their real namespaces are unknown.
pub(crate) fn flash_found(store: &Store, counters: &Counters, namespace: u8, items: u64) {
    counters.note_flash_taken(namespace, items);
    store.flash_keys.found(namespace, items);
}

/// Records that a namespace's items on flash were flushed. The caller holds the slice gate.
pub(crate) fn note_flash_flushed(store: &Store, namespace: u8) {
    if store.tier.is_some() {
        store.flash_keys.flush(namespace, space_totals(store, namespace).flash_counted());
    }
}

/// Reports that an item on flash is about to lose its slot.
#[inline(always)]
pub(crate) fn dies_on_flash(store: &Store, slot: Slot) {
    if store.finds {
        tier(store).kill(slot.flash_address(), slot.tag());
    }
}

/// Reports that an item has moved to this address on flash, and that its previous copy is dead.
pub(crate) fn lives_on_flash(store: &Store, at: FlashAddress) {
    if store.finds {
        tier(store).name(at);
    }
}

/// Clears the slot of an unusable item on flash. Returns false if no slot names the item, or if the lock cannot be
/// taken; in the latter case the slot remains until a later attempt.
pub(crate) fn clear_flash(store: &Store, counters: &Counters, namespace: u8, hash: Hash, at: FlashAddress) -> bool {
    let Some(locked) = store.index.lock(hash) else { return false };
    let Some((word, slot)) = locked.find_flash(at) else { return false };
    dies_on_flash(store, slot);
    locked.replace(word, slot, Slot::EMPTY, false);
    release(store, counters, slot, namespace, None);
    true
}

/// Publishes a new item in place of all flash slots that may belong to the key. At least one such slot must exist.
pub(crate) fn publish_over_flash(store: &Store, locked: &Locked<'_>, counters: &Counters, namespace: u8, slot: Slot) {
    let mut first = true;
    for (word, old) in locked.on_flash() {
        if std::mem::take(&mut first) {
            locked.replace(word, old, slot, false);
        } else {
            locked.clear_behind(word);
        }
        release(store, counters, old, namespace, None);
    }
}
