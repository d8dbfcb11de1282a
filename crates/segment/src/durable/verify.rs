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

use crate::core::store::Store;
use crate::heap::segments::SegmentId;
use crate::layout::header::{SegmentHeader, State};
use crate::layout::item::{Kind, Layout};
use crate::layout::key::Key;
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

impl Store {
    /// Marks every segment that holds items, after an opening that has taken the index from the file.
    pub(crate) fn begin_verification(&self) {
        self.unverified.store(true, SeqCst);
        for id in (0..self.segments.high_water() as u32).map(SegmentId) {
            let header = self.segments.header(id);
            if header.state() == State::Sealed {
                header.set_unverified(true);
            }
        }
    }

    /// Clears all marks: every slot was looked at, or no thread works on the store any more.
    pub(crate) fn end_verification(&self) {
        if !self.unverified.swap(false, SeqCst) {
            return;
        }
        // A thread that opens a segment now sees that this is over, or its mark is seen here.
        fence(SeqCst);
        for id in (0..self.segments.high_water() as u32).map(SegmentId) {
            self.segments.header(id).set_unverified(false);
        }
    }

    /// Clears the mark of a segment that was opened with it, and is still empty, if the pass has come to its end
    /// meanwhile.
    #[cold]
    pub(crate) fn check_mark(&self, id: SegmentId) {
        fence(SeqCst);
        if !self.unverified.load(SeqCst) {
            self.segments.header(id).set_unverified(false);
        }
    }

    /// Returns true if slots of the index may name what is not there, or what is not what was written.
    #[inline]
    pub(crate) fn is_unverified(&self) -> bool {
        self.unverified.load(SeqCst)
    }

    /// As [`Store::matches`], in a segment that may be marked: the item is there, its key is this one and its sum is
    /// right.
    #[cold]
    #[inline(never)]
    pub(crate) fn matches_unverified(
        &self,
        key: &Key<'_>,
        slot: Slot,
        header: &SegmentHeader,
    ) -> Option<(usize, Layout)> {
        if !header.is_unverified() || header.namespace() != key.namespace {
            return None;
        }
        let address = slot.address();
        let layout = self.item_in(header, address)?;
        let same = layout.key_len == key.bytes.len()
            && layout.is(Kind::Piece) == key.piece
            && layout.key(&self.segments.heap, address) == key.bytes;
        (same && self.is_sound(address, &layout)).then_some((address, layout))
    }

    /// Returns true if an item that lies in a segment may be used: the segment is not marked, or the item's sum is
    /// right.
    #[inline]
    pub(crate) fn is_trusted(&self, header: &SegmentHeader, address: usize, layout: &Layout) -> bool {
        !header.is_unverified() || self.is_sound(address, layout)
    }

    /// Looks at slot number `at` of a group, and clears it if it names nothing. Only while the index keeps its size.
    pub(crate) fn verify_slot(&self, group: usize, at: usize) -> Verified {
        let word = self.index.slot_word(group, at);
        let slot = Slot(word.load(Acquire));
        let is_whole = if slot.is_flash() {
            self.tier.as_deref().is_some_and(|tier| tier.may_name(slot.flash_address()))
        } else {
            !slot.is_item() || self.names_whole(slot, group)
        };
        if is_whole {
            return Verified::Whole;
        }
        match self.index.clear_if_same(group, word, slot) {
            Some(()) => Verified::Cleared,
            None => Verified::Busy,
        }
    }

    /// Returns true if a slot of a group names an item of that group, which is what was written.
    fn names_whole(&self, slot: Slot, group: usize) -> bool {
        self.item_of(slot).is_some_and(|(namespace, address, layout)| {
            self.index.group_for(self.hash_at(namespace, address, &layout)) == group
        })
    }
}
