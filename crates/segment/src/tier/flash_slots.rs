//! Slots that name items on the second tier: their changes, and the reports of them to the tier.

use crate::core::counters::Counters;
use crate::core::store::{Store, space_totals};
use crate::index::{Hash, Locked};
use crate::layout::slot::Slot;
use crate::tier::{FlashAddress, Tier};

pub(crate) fn tier(store: &Store) -> &dyn Tier {
    store.tier.as_deref().expect("a slot on flash is there only with a second tier")
}

/// Records that an item on flash has lost its slot. It is of that namespace, as far as is known: the namespace of
/// an item that is stored over is unknown. `lived`: it was not flushed before, if that is known.
pub(crate) fn release(store: &Store, counters: &Counters, slot: Slot, namespace: u8, lived: Option<bool>) {
    // Without a tier, damage to a memory file has made the slot.
    let Some(tier) = store.tier.as_deref() else { return };
    counters.note_flash_removed(namespace);
    store.flash_keys.gone(slot.flash_address(), namespace, lived);
    tier.release(slot.flash_address());
}

/// Counts items of an earlier process on flash for that namespace: their own namespace is unknown.
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

/// Reports that an item that lived in memory or elsewhere, and is dead there, goes on at this place on flash.
pub(crate) fn lives_on_flash(store: &Store, at: FlashAddress) {
    if store.finds {
        tier(store).name(at);
    }
}

/// Clears the slot of an item on flash that is unusable. Returns false if there is none, or if the lock cannot be taken
/// and the slot stays for now.
pub(crate) fn clear_flash(store: &Store, counters: &Counters, namespace: u8, hash: Hash, at: FlashAddress) -> bool {
    let Some(locked) = store.index.lock(hash) else { return false };
    let Some((word, slot)) = locked.find_flash(at) else { return false };
    dies_on_flash(store, slot);
    locked.replace(word, slot, Slot::EMPTY, false);
    release(store, counters, slot, namespace, None);
    true
}

/// Publishes a new item over the slots on flash that may belong to the key, of which there is at least one.
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
