//! Enters the items of a second tier in the index after all items in memory. This is necessary if the index was in the
//! memory of the previous process.
//!
//! ```text
//!   the tier ──hash, address──> under the key's lock: dead?  in memory?  no room? ──> no slot; marked dead
//!                                                 none of these ──────────────────> the item gets a slot
//! ```
//!
//! - A key has one live copy, in memory or on flash, at whatever instant the previous process ended ([`crate::tier`]).
//!   Nevertheless memory is searched for the key, because a device may return an item that was marked dead.
//! - A thread that changes a key reports it to the tier under the key's lock. So either the changing thread sees the
//!   slot that was entered here, or the entering thread sees that the item is dead.
//! - Eviction, expiry and compaction continue meanwhile.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::{ROUND_FLASH, RebuildStep, WHOLE};
use crate::core::counters::Counters;
use crate::core::lookup::{hash_at, item_of};
use crate::core::store::Store;
use crate::index::Hash;
use crate::layout::item::ItemKind;
use crate::layout::slot::Slot;
use crate::tier::flash_slots::{dies_on_flash, flash_found, tier};
use crate::tier::{FlashAddress, TierFind, WalkProgress};

/// The number of items between two checks of the time.
pub(crate) const ITEMS_PER_LOOK: usize = 32;

/// Enters the items on flash that are available now, until `over` returns true.
pub(crate) fn find_on_flash(store: &Store, counters: &Counters, over: &mut dyn FnMut() -> bool) -> RebuildStep {
    let Some(rebuild) = store.rebuild.as_ref().filter(|rebuild| rebuild.round.load(Acquire) == ROUND_FLASH) else {
        return if store.is_finding() { RebuildStep::Waits } else { RebuildStep::Whole };
    };
    let (mut items, mut entered) = (0, 0);
    let found = tier(store).find(&mut |hash, at| {
        items += 1;
        if items % ITEMS_PER_LOOK == 0 && over() {
            return WalkProgress::Later;
        }
        let shown = enter_on_flash(store, counters, Hash(hash), at);
        entered += u64::from(shown == WalkProgress::Entered);
        shown
    });
    rebuild.on_flash.fetch_add(entered, Relaxed);
    match found {
        TierFind::More => RebuildStep::More,
        TierFind::Waits => RebuildStep::Waits,
        TierFind::Whole => {
            let _ = rebuild.round.compare_exchange(ROUND_FLASH, WHOLE, AcqRel);
            store.call_background();
            RebuildStep::Whole
        }
    }
}

/// Gives an item on flash a slot, or marks it dead permanently: a later change of its key would not find an item
/// without a slot.
fn enter_on_flash(store: &Store, counters: &Counters, hash: Hash, at: FlashAddress) -> WalkProgress {
    let Some(locked) = store.index.lock(hash) else { return WalkProgress::Later };
    let slot = Slot::flash(hash.tag(), 0, at);
    if tier(store).is_gone(hash.0, at, hash.tag())
        || locked.find(|slot| is_of_hash(store, slot, hash)).is_some()
        // A slot already names this block with this tag. Two such items would be indistinguishable.
        || locked.find_flash(at).is_some()
    {
        dies_on_flash(store, slot);
        return WalkProgress::Gone;
    }
    let room = locked.room();
    if room.holds.is_taken() {
        // The item in the slot is in use or was found earlier, so it is preferred.
        dies_on_flash(store, slot);
        counters.flash_evicted.add(1);
        return WalkProgress::Gone;
    }
    locked.replace(room.word, room.holds, slot, false);
    locked.note_birth();
    flash_found(store, counters, crate::Namespace::DEFAULT.0, 1);
    WalkProgress::Entered
}

/// Returns `Some` if a slot names an item in memory whose key has this hash.
fn is_of_hash(store: &Store, slot: Slot, hash: Hash) -> Option<()> {
    let (namespace, address, layout) = item_of(store, slot)?;
    (!layout.is(ItemKind::Piece) && hash_at(store, namespace, address, &layout) == hash).then_some(())
}
