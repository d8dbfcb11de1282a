//! Slots that name items on flash. The index holds the tags and places of these items, but not their keys.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use super::growth::Growth;
use super::{Hash, Index, Locked, other_bucket};
use crate::layout::raw::Word64;
use crate::layout::slot::Slot;
use crate::tier::FlashAddress;

impl Index {
    /// Returns the words of the two index buckets of a group that may hold the hash's slot.
    fn words_for(&self, group: usize, hash: Hash) -> impl Iterator<Item = &Word64> {
        let both = [hash.bucket(), other_bucket(hash.bucket(), hash.tag())];
        both.into_iter().flat_map(move |bucket| &self.bucket(group, bucket).slots)
    }

    /// Visits every slot with the hash's tag that names an item, in memory or on flash, until `visit` returns `Some`.
    /// Each word is visited once. So an item that moves from one tier to the other meanwhile is found in one of the
    /// two.
    pub(crate) fn find_tiered<'i, T>(
        &'i self,
        hash: Hash,
        mut visit: impl FnMut(&'i Word64, Slot) -> Option<T>,
    ) -> Option<T> {
        loop {
            let growth = self.growth.load(Acquire);
            let place = self.place(Growth(growth), hash);
            let moves = self.moves(place);
            for group in [Some(place.group), place.then].into_iter().flatten() {
                for word in self.words_for(group, hash) {
                    let slot = Slot(word.load(Acquire));
                    if slot.tag() == hash.tag()
                        && slot.is_taken()
                        && let Some(found) = visit(word, slot)
                    {
                        return Some(found);
                    }
                }
            }
            fence(Acquire);
            if self.moves(place) == moves && self.growth.load(Relaxed) == growth {
                return None;
            }
        }
    }
}

impl<'i> Locked<'i> {
    /// Returns the slots of items on flash with the key's tag. One of these items may be the key's.
    pub(crate) fn on_flash(&self) -> impl Iterator<Item = (&'i Word64, Slot)> + use<'i> {
        let tag = self.hash.tag();
        let words = self.index.words_for(self.group, self.hash).map(|word| (word, Slot(word.load(Acquire))));
        words.filter(move |(_, slot)| slot.is_flash() && slot.tag() == tag)
    }

    /// Returns the slot with the key's tag that names the item at `at`.
    pub(crate) fn find_flash(&self, at: FlashAddress) -> Option<(&'i Word64, Slot)> {
        self.on_flash().find(|(_, slot)| slot.flash_address() == at)
    }

    /// Clears a slot after a replacement was stored in another word. A reader that visited the other word before the
    /// store, and this word after the clearing, searches again.
    pub(crate) fn clear_behind(&self, word: &Word64) {
        self.guard.stripe.moves.fetch_add(1, AcqRel);
        word.store(Slot::EMPTY.0, Release);
    }
}
