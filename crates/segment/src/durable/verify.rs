//! Verification of what an earlier process left in a memory file together with its index: wrong bytes are never served,
//! and no slot is followed that damage made.
//!
//! ```text
//!   opening      every segment with items is marked unverified in its header
//!   lookup       in a marked segment: an item is found only if it lies in the segment and its sum is right
//!   background   the pass: each slot of the index names such an item, or is cleared
//!   its end      all marks are cleared: lookups cost what they cost without a file
//! ```
//!
//! Invariants:
//! - While a slot was not looked at, every segment that holds items is marked, those that are opened meanwhile too: a
//!   slot that damage made may name any of them.
//! - The mark is the high bit of the namespace in the header. A lookup compares the namespace in any case, so a hit in
//!   an unmarked segment does no work for verification.
//! - A mark is of this process alone. An opening clears it and sets it again; a store that is closed clears it.
//! - The pass starts again when the index changes its size. It looks again at a group in which slots were displaced
//!   meanwhile. So no slot escapes it.
//! - An index that is not in the file is rebuilt from items whose sums are right ([`crate::durable::rebuild`]): nothing
//!   is marked then.
//!
//! What changes in place has no sum ([`crate::heap::checksums`]): damage to a number or an end alone is not seen.

use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::fence;

use crate::core::lookup::{hash_at, item_of};
use crate::core::store::Store;
use crate::heap::segments::SegmentId;
use crate::layout::header::State;
use crate::layout::slot::Slot;

/// The result of the pass at a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verified {
    /// The slot may stay.
    Whole,
    /// It named nothing, and is cleared.
    Cleared,
    /// It names nothing, and its lock was not obtained.
    Busy,
}

/// Marks every segment that holds items, after an opening that has taken the index from the file.
pub(crate) fn begin_verification(store: &Store) {
    store.unverified.store(true, SeqCst);
    for id in (0..store.segments.high_water() as u32).map(SegmentId) {
        let header = store.segments.header(id);
        if header.state() == State::Sealed {
            header.set_unverified(true);
        }
    }
}

/// Clears all marks: every slot was looked at, or no thread works on the store any more.
pub(crate) fn end_verification(store: &Store) {
    if !store.unverified.swap(false, SeqCst) {
        return;
    }
    // A thread that opens a segment now sees that this is over, or its mark is seen here.
    fence(SeqCst);
    for id in (0..store.segments.high_water() as u32).map(SegmentId) {
        store.segments.header(id).set_unverified(false);
    }
}

/// Looks at slot number `at` of a group, and clears it if it names nothing. Only while the index keeps its size.
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
    match store.index.clear_if_same(group, word, slot) {
        Some(()) => Verified::Cleared,
        None => Verified::Busy,
    }
}

/// Returns true if a slot of a group names an item of that group, which is what was written.
fn names_whole(store: &Store, slot: Slot, group: usize) -> bool {
    item_of(store, slot).is_some_and(|(namespace, address, layout)| {
        store.index.group_for(hash_at(store, namespace, address, &layout)) == group
    })
}
