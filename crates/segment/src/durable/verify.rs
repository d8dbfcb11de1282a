//! Verification of the items and the index that an earlier process left in a memory file. Damaged bytes are never
//! served, and no damaged slot is followed.
//!
//! ```text
//!   opening      each segment with items is marked unverified in its header
//!   lookup       an item in a marked segment is found only if it lies in the segment and its checksum is right
//!   background   the pass: each slot of the index that does not name such an item is cleared
//!   its end      all marks are cleared: lookups cost the same as in a store without a file
//! ```
//!
//! Invariants:
//! - Until every slot is checked, every segment that holds items is marked, including segments that are opened
//!   meanwhile: a damaged slot may name any of them.
//! - The mark is the high bit of the namespace in the header. A lookup compares the namespace in any case, so a hit in
//!   an unmarked segment does no work for verification.
//! - A mark is valid for this process only. An opening clears it and sets it again. Closing the store clears it.
//! - The pass starts again when the index changes its size, and repeats a group in which slots were displaced
//!   meanwhile. So no slot stays unchecked.
//! - An index that is not in the file is rebuilt from items with the right checksum ([`crate::durable::rebuild`]), so
//!   no segment is marked.
//!
//! Fields that change in place have no checksum ([`crate::heap::checksums`]): damage to only a number or an expiry is
//! not detected.

use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::fence;

use crate::core::lookup::{hash_at, item_of};
use crate::core::store::Store;
use crate::heap::segments::SegmentId;
use crate::index::repair;
use crate::layout::header::SegmentState;
use crate::layout::slot::Slot;

/// The result of verifying a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verified {
    /// The slot is empty or names an intact item. It was not changed.
    Whole,
    /// The slot named no intact item, and was cleared.
    Cleared,
    /// The slot names no intact item, but its lock could not be taken. It must be verified again.
    Busy,
}

/// Marks every segment that holds items, after an opening that uses the index in the file.
pub(crate) fn begin_verification(store: &Store) {
    store.unverified.store(true, SeqCst);
    for id in (0..store.segments.high_water() as u32).map(SegmentId) {
        let header = store.segments.header(id);
        if header.state() == SegmentState::Sealed {
            header.set_unverified(true);
        }
    }
}

/// Clears all marks, after every slot was checked or no thread works on the store any more.
pub(crate) fn end_verification(store: &Store) {
    if !store.unverified.swap(false, SeqCst) {
        return;
    }
    // A thread that opens a segment at the same time either sees that the pass has ended, or has marked the segment
    // before this loop reads it.
    fence(SeqCst);
    for id in (0..store.segments.high_water() as u32).map(SegmentId) {
        store.segments.header(id).set_unverified(false);
    }
}

/// Verifies slot number `at` of a group, and clears the slot if it names no intact item. Called only while the index
/// keeps its size.
pub(crate) fn verify_slot(store: &Store, group: usize, at: usize) -> Verified {
    let word = store.index.slot_word(group, at);
    let slot = Slot(word.load(Acquire));
    let is_whole = if slot.is_flash() {
        store.tier.as_deref().is_some_and(|tier| tier.may_name(slot.flash_address()))
    } else {
        !slot.is_item() || names_whole(store, slot, group)
    };
    if is_whole {
        return Verified::Whole;
    }
    match repair::clear_if_same(&store.index, group, word, slot) {
        Some(()) => Verified::Cleared,
        None => Verified::Busy,
    }
}

/// Returns true if a slot of a group names an undamaged item of that group.
fn names_whole(store: &Store, slot: Slot, group: usize) -> bool {
    item_of(store, slot).is_some_and(|(namespace, address, layout)| {
        repair::group_for(&store.index, hash_at(store, namespace, address, &layout)) == group
    })
}
