//! The choice of a slot for a new key: the key's own ghost's, an empty slot, another ghost's, a slot freed by
//! displacement, or the coldest item's.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use super::{Index, Locked, Stripe, other_bucket};
use crate::layout::raw::Word64;
use crate::layout::slot::Slot;

/// The place for a new key's slot.
#[derive(Debug)]
pub(crate) struct Room<'i> {
    /// The slot to store to.
    pub(crate) word: &'i Word64,
    /// Its present content: empty, a ghost, or the item that is replaced, which may be on flash.
    pub(crate) holds: Slot,
    /// True if the key's ghost was found and is not too old. `word` is then the ghost's slot.
    pub(crate) ghost: bool,
    /// True if another item was displaced to make room.
    pub(crate) displaced: bool,
}

/// The two index buckets that may hold a slot. The caller holds the lock of the group's stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'i> {
    pub(super) index: &'i Index,
    pub(super) stripe: &'i Stripe,
    pub(super) group: usize,
    /// The number of one of the two index buckets.
    pub(super) bucket: usize,
    pub(super) tag: u16,
    pub(super) group_hash: u32,
}

/// The contents of an index bucket: bit masks with one bit for each slot.
#[derive(Clone, Copy, Debug, Default)]
struct RoomSearch {
    empty: u8,
    ghosts: u8,
    /// Mask of slots with the key's own ghost.
    own: u8,
}

impl<'i> Locked<'i> {
    /// Returns room for a key that [`Locked::find`] did not find. If the result's `holds` names an item, the caller has
    /// to count that item as evicted after it has stored the new slot.
    pub(crate) fn room(&self) -> Room<'i> {
        self.spot().room()
    }

    fn spot(&self) -> Spot<'i> {
        Spot {
            index: self.index,
            stripe: self.guard.stripe,
            group: self.group,
            bucket: self.hash.bucket(),
            tag: self.hash.tag(),
            group_hash: self.hash.group_hash(),
        }
    }

    /// Displaces every item of the key's two index buckets, for models.
    #[cfg(all(test, shuttle))]
    pub(crate) fn displace_for_model(&self) {
        let spot = self.spot();
        let full = |bucket: usize| {
            let slots = &spot.index.bucket(spot.group, bucket).slots;
            slots.iter().find(|word| Slot(word.load(Acquire)).is_item()).map(|word| (bucket, word))
        };
        if let Some((bucket, word)) = spot.candidates().into_iter().find_map(full) {
            assert!(spot.make_way(word, bucket, 1), "the other index bucket is empty");
        }
    }
}

impl<'i> Spot<'i> {
    /// Returns the first available of these: the slot of the key's own ghost, an empty slot, another ghost's slot, a
    /// slot freed by displacement, the coldest item's slot.
    pub(super) fn room(&self) -> Room<'i> {
        let looks = self.candidates().map(|bucket| self.look(bucket));
        // Prefers the bucket with more empty slots, so that both fill evenly.
        let emptier = usize::from(looks[1].empty.count_ones() > looks[0].empty.count_ones());
        let of = |which: usize, slots: u8, ghost: bool| {
            let word = &self.index.bucket(self.group, self.candidates()[which]).slots[slots.trailing_zeros() as usize];
            Room { word, holds: Slot(word.load(Acquire)), ghost, displaced: false }
        };
        let first = |looks: [u8; 2]| looks.iter().position(|slots| *slots != 0).map(|which| (which, looks[which]));
        if let Some((which, slots)) = first(looks.map(|look| look.own)) {
            let room = of(which, slots, true);
            return Room { ghost: self.index.ghosts.counts(room.holds), ..room };
        }
        if looks[emptier].empty != 0 {
            return of(emptier, looks[emptier].empty, false);
        }
        if let Some((which, slots)) = first(looks.map(|look| look.ghosts)) {
            return of(which, slots, false);
        }
        self.displace().unwrap_or_else(|| self.coldest())
    }

    /// Returns the contents of an index bucket's slots. The code has no branch for a slot, because a processor could
    /// not predict such branches.
    #[inline(always)]
    fn look(&self, bucket: usize) -> RoomSearch {
        let own = Slot::ghost(self.tag, self.group_hash, 0);
        let mut look = RoomSearch::default();
        for (number, word) in self.index.bucket(self.group, bucket).slots.iter().enumerate() {
            let slot = Slot(word.load(Acquire));
            look.empty |= u8::from(slot == Slot::EMPTY) << number;
            look.ghosts |= u8::from(slot.is_ghost()) << number;
            look.own |= u8::from(slot.same_ghost(own)) << number;
        }
        look
    }

    #[inline(always)]
    fn candidates(&self) -> [usize; 2] {
        [self.bucket, other_bucket(self.bucket, self.tag)]
    }

    /// Frees a slot in one of the two index buckets by moving its item to the item's other index bucket. If that bucket
    /// is full, first moves an item of that bucket to a third bucket.
    fn displace(&self) -> Option<Room<'i>> {
        for moves in 1..=2 {
            for bucket in self.candidates() {
                for word in &self.index.bucket(self.group, bucket).slots {
                    if self.make_way(word, bucket, moves) {
                        return Some(Room { word, holds: Slot::EMPTY, ghost: false, displaced: true });
                    }
                }
            }
        }
        None
    }

    /// Moves the item in `word` out of `bucket` with exactly `moves` moves, if possible. Two moves first make room in
    /// the item's other bucket.
    fn make_way(&self, word: &Word64, bucket: usize, moves: usize) -> bool {
        let slot = Slot(word.load(Acquire));
        debug_assert!(slot.is_taken(), "only full index buckets are displaced from");
        let target = other_bucket(bucket, slot.tag());
        let there = &self.index.bucket(self.group, target).slots;
        let to = if moves == 1 {
            there.iter().find(|to| !Slot(to.load(Acquire)).is_taken())
        } else {
            // A move back into the item's own index bucket would free no slot.
            there.iter().find(|to| {
                let on = other_bucket(target, Slot(to.load(Acquire)).tag());
                on != bucket && self.make_way(to, target, 1)
            })
        };
        let Some(to) = to else { return false };
        // Copies the slot, counts the move, then clears the old slot. A reader that found neither copy sees the changed
        // count and searches again.
        to.store(slot.0, Release);
        self.stripe.moves.fetch_add(1, AcqRel);
        word.store(Slot::EMPTY.0, Release);
        true
    }

    fn coldest(&self) -> Room<'i> {
        let [a, b] = self.candidates().map(|bucket| &self.index.bucket(self.group, bucket).slots);
        let (word, holds) = a
            .iter()
            .chain(b)
            .map(|word| (word, Slot(word.load(Acquire))))
            .min_by_key(|(_, slot)| (slot.freq(), !slot.is_flash()))
            .expect("an index bucket has slots");
        Room { word, holds, ghost: false, displaced: false }
    }
}
