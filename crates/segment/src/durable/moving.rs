//! Moves items from memory to flash or back, in a store whose index is not in the memory file. If the process is killed
//! at any instant, no item is lost and no key has two copies afterwards.
//!
//! ```text
//!   begin   the addresses of both copies are recorded in the file (the note)
//!           the new copy is marked live
//!           the old copy is marked dead
//!   end     the note is cleared, and the slot names the new copy
//! ```
//!
//! Invariants:
//! - Both copies hold the same version of the item, so either may be served.
//! - An opening that finds a note marks the copy on flash dead if the copy in memory is live, before any item is found.
//!   So when the item is changed later, no second copy exists that could reappear.
//! - After a power loss, neither the items on flash nor the notes are trusted.

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::core::lookup::{hash_at, item_in};
use crate::core::store::{Store, is_sound};
use crate::layout::header::SegmentState;
use crate::layout::item::DEAD;
use crate::layout::persistent::{MOVING, Moving};
use crate::layout::slot::Slot;

/// The position of the background's note in the array of notes.
pub(crate) const BY_BACKGROUND: usize = MOVING - 1;

/// Returns the note of the thread `mover` (a handle or the background). Returns `None` if the second tier needs the
/// index to find its items, or if the thread has no note.
fn moving_of(store: &Store, mover: usize) -> Option<&Moving> {
    let is_handle = mover < store.geometry.handles_max.min(BY_BACKGROUND);
    (store.finds && (is_handle || mover == BY_BACKGROUND)).then(|| &store.persistent.moving[mover])
}

/// Records the places of both copies of an item that is about to move. Returns false if the move cannot be noted. The
/// old copy must then be marked dead before the new copy becomes live. The caller holds the item's lock until
/// [`end_move`].
pub(crate) fn begin_move(store: &Store, mover: usize, address: usize, on_flash: Slot) -> bool {
    let Some(moving) = moving_of(store, mover) else { return false };
    moving.flash.store(on_flash.0, Release);
    moving.memory.store(address as u64 + 1, Release);
    true
}

/// Clears the note. The caller has made sure that only one copy is live.
pub(crate) fn end_move(store: &Store, mover: usize) {
    if let Some(moving) = moving_of(store, mover) {
        moving.memory.store(0, Release);
    }
}

/// Completes the moves that were in progress when the previous process ended. Called before any item is entered in the
/// index.
pub(crate) fn end_moves_of_before(store: &Store) {
    let lost = store.held.as_ref().is_some_and(|held| held.lost.is_some());
    for moving in &store.persistent.moving {
        let (memory, on_flash) = (moving.memory.load(Acquire), Slot(moving.flash.load(Acquire)));
        if let Some(tier) = store.tier.as_deref().filter(|_| store.finds && !lost && memory != 0)
            && on_flash.is_flash()
            && lives_in_memory(store, memory as usize - 1, on_flash.tag())
        {
            tier.kill(on_flash.flash_address(), on_flash.tag());
        }
        moving.memory.store(0, Release);
    }
}

/// Returns true if an undamaged live item with this tag is at an address.
fn lives_in_memory(store: &Store, address: usize, tag: u16) -> bool {
    let Some(header) = store.segments.header_at(address).filter(|header| header.state() == SegmentState::Sealed) else {
        return false;
    };
    item_in(store, header, address).is_some_and(|layout| {
        let is_it = !layout.has(DEAD) && is_sound(store, address, &layout);
        is_it && hash_at(store, header.namespace(), address, &layout).tag() == tag
    })
}
