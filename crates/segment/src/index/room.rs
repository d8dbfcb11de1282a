//! Finding a slot for a new key: an empty one, a ghost's, one freed by displacement, or the coldest item's.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use super::{GROUP_BUCKETS, Locked, other_bucket};
use crate::raw::Word64;
use crate::slot::Slot;

/// Where a new key may go.
#[derive(Debug)]
pub(crate) struct Room<'i> {
    /// The slot to store to.
    pub(crate) word: &'i Word64,
    /// What it holds now: empty, a ghost, or the item that has to go.
    pub(crate) holds: Slot,
    /// The key was here not long ago and was evicted: its ghost was found (and is the slot).
    pub(crate) ghost: bool,
    /// Another item was displaced to make room.
    pub(crate) displaced: bool,
}

impl<'i> Locked<'i> {
    /// Room for a key that [`Locked::find`] did not find. An item in `holds` has to be counted as evicted by the
    /// caller once it has stored the new slot.
    pub(crate) fn room(&self) -> Room<'i> {
        let mut empty = None;
        let mut ghost = None;
        let mut counts = [0; 2];
        for (which, bucket) in self.candidates().into_iter().enumerate() {
            for word in &self.index.bucket(self.group, bucket).slots {
                let slot = Slot(word.load(Acquire));
                if slot == Slot::EMPTY {
                    counts[which] += 1;
                    if empty.is_none() || counts[1] > counts[0] {
                        empty = Some((word, slot));
                    }
                } else if slot.is_ghost() {
                    if slot.tag() == self.hash.tag() && slot.ghost_group_hash() == self.hash.group_hash() {
                        return Room { word, holds: slot, ghost: true, displaced: false };
                    }
                    ghost = Some((word, slot));
                }
            }
        }
        if let Some((word, holds)) = empty.or(ghost) {
            return Room { word, holds, ghost: false, displaced: false };
        }
        self.displace().unwrap_or_else(|| self.coldest())
    }

    fn candidates(&self) -> [usize; 2] {
        let first = self.hash.bucket();
        [first, other_bucket(first, self.hash.tag())]
    }

    /// Moves one of the sixteen items to its other index bucket: copy first, count the move, clear second.
    fn displace(&self) -> Option<Room<'i>> {
        for bucket in self.candidates() {
            for word in &self.index.bucket(self.group, bucket).slots {
                let slot = Slot(word.load(Acquire));
                debug_assert!(slot.is_item(), "both index buckets are full of items");
                let target = other_bucket(bucket, slot.tag()) % GROUP_BUCKETS;
                let free = self.index.bucket(self.group, target).slots.iter().find(|to| {
                    let held = Slot(to.load(Acquire));
                    !held.is_item()
                });
                let Some(to) = free else { continue };
                to.store(slot.0, Release);
                self.guard.stripe.moves.fetch_add(1, AcqRel);
                word.store(Slot::EMPTY.0, Release);
                return Some(Room { word, holds: Slot::EMPTY, ghost: false, displaced: true });
            }
        }
        None
    }

    fn coldest(&self) -> Room<'i> {
        let [a, b] = self.candidates().map(|bucket| &self.index.bucket(self.group, bucket).slots);
        let (word, holds) = a
            .iter()
            .chain(b)
            .map(|word| (word, Slot(word.load(Acquire))))
            .min_by_key(|(_, slot)| slot.freq())
            .expect("an index bucket has slots");
        Room { word, holds, ghost: false, displaced: false }
    }
}
