//! Growth of the index in place, a group at a time, while other threads read and write the index.
//!
//! The number of groups grows from G to G' (at most twice G). A key of old group `i` belongs to new group `group hash *
//! G' >> 32`, which is never below `i`. So the groups are split in descending order, beginning with the last. A new
//! group that has the number of an old group thus receives keys only after that old group was split.
//!
//! ```text
//!                      cursor
//!   old  [ 0 | 1 | 2 | 3 ]  4 | 5  |            old groups >= cursor: split; a reader searches the new group only
//!                      |     \     \            old group cursor - 1: being split; searches the old, then the new one
//!   new  [ . | . | . | . | 4 | 5 | 6 | 7 ]      old groups below: not split; searches the old group only
//! ```
//!
//! One 64-bit word holds the state of a change of size: `changing 1 | shrinking 1 | old groups 30 | cursor 32`. If no
//! change is in progress, the cursor equals the number of groups. A reader that finds nothing compares the word with
//! its value at the beginning of the search, and searches again if the word has changed. Shrinking is the reverse: see
//! [`super::shrink`].
//!
//! A split holds the stripe locks of the old group and of the new groups, so no writer changes these groups meanwhile.
//! The locks are taken in order of their numbers. Keys are hashed before the split, without a lock.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::room::Spot;
use super::{BUCKET_SLOTS, GROUP_SLOTS, Hash, Index, STRIPES, SlotPlace, StripeGuard};
use crate::layout::raw::Word64;
use crate::layout::slot::Slot;

/// The growth word: the state of a change of the index's size, as the module's doc describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Growth(pub(crate) u64);

impl Growth {
    pub(crate) fn still(groups: usize) -> Self {
        Self((groups as u64) << 32 | groups as u64)
    }

    fn growing(groups: usize, cursor: usize) -> Self {
        Self(1 << 63 | Self::still(groups).0 >> 32 << 32 | cursor as u64)
    }

    pub(super) fn shrinking(groups: usize, cursor: usize) -> Self {
        Self(3 << 62 | Self::still(groups).0 >> 32 << 32 | cursor as u64)
    }

    #[inline(always)]
    pub(super) fn is_changing(self) -> bool {
        self.0 >> 63 == 1
    }

    pub(super) fn is_shrinking(self) -> bool {
        self.0 >> 62 == 3
    }

    #[inline(always)]
    pub(super) fn groups(self) -> usize {
        (self.0 >> 32) as usize & (GROUPS_MAX - 1)
    }

    #[inline(always)]
    pub(super) fn cursor(self) -> usize {
        self.0 as u32 as usize
    }
}

/// The maximum number of groups: the growth word has 30 bits for the number.
pub(super) const GROUPS_MAX: usize = 1 << 30;

#[inline(always)]
pub(super) fn group_of(group_hash: u32, groups: usize) -> usize {
    ((u64::from(group_hash) * groups as u64) >> 32) as usize
}

/// Returns a group hash and its group, if the group is in the range `within`.
pub(super) fn place_of(hash: Option<u32>, groups: usize, within: RangeInclusive<usize>) -> Option<(u32, usize)> {
    hash.map(|hash| (hash, group_of(hash, groups))).filter(|(_, group)| within.contains(group))
}

impl Default for Slot {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Access to the keys of items, for a change of the index's size.
pub(crate) trait Keys {
    /// Returns the group hash of the key of the item that a slot names, or `None` if the slot names no item because the
    /// file was damaged.
    fn group_hash(&self, slot: Slot) -> Option<u32>;
    /// Prefetches the bytes that [`Keys::group_hash`] will read.
    fn prefetch(&self, slot: Slot);
    /// Records that an item is about to lose its slot to another item, because both index buckets are full.
    fn loses_slot(&self, slot: Slot);
}

/// For tests: a function that returns the group hash of each slot's item.
#[cfg(test)]
impl<F: Fn(Slot) -> u32> Keys for F {
    fn group_hash(&self, slot: Slot) -> Option<u32> {
        Some(self(slot))
    }

    fn prefetch(&self, _: Slot) {}

    fn loses_slot(&self, _: Slot) {}
}

/// The number of slots between the prefetch of an item and the hashing of its key: about the number of cache misses
/// that a processor handles at once.
const HASH_AHEAD: usize = 16;

/// Buffers for the key hashes of the groups that are split or merged. They are filled before the locks are taken.
#[derive(Debug)]
pub(crate) struct SplitScratch {
    pub(super) hashed: Box<[(Slot, Option<u32>)]>,
    /// Slots of items that lost their slots to other items in the last split or merge. The caller counts them as
    /// evicted.
    pub(crate) dropped: Vec<Slot>,
}

impl SplitScratch {
    pub(crate) fn new() -> Self {
        Self {
            hashed: vec![(Slot::EMPTY, None); CHANGED_GROUPS_MAX * GROUP_SLOTS].into_boxed_slice(),
            dropped: Vec::with_capacity(CHANGED_GROUPS_MAX * GROUP_SLOTS),
        }
    }
}

/// The maximum number of groups over which the keys of one group are spread. The number of groups at most doubles or
/// halves in one change.
pub(super) const CHANGED_GROUPS_MAX: usize = 3;

impl Index {
    #[inline(always)]
    pub(super) fn place(&self, growth: Growth, hash: Hash) -> SlotPlace {
        let group = group_of(hash.group_hash(), growth.groups());
        if growth.is_changing() { self.place_in_change(growth, hash, group) } else { SlotPlace { group, then: None } }
    }

    /// Returns the groups to search for a key of old group `group` during a change of size.
    #[cold]
    fn place_in_change(&self, growth: Growth, hash: Hash, group: usize) -> SlotPlace {
        let (next, cursor) = (group_of(hash.group_hash(), self.groups_next.load(Relaxed) as usize), growth.cursor());
        // Growth splits old groups in descending order. A shrink merges into new groups in ascending order.
        let (moved, moving) = if growth.is_shrinking() {
            (next < cursor, next == cursor)
        } else {
            (group >= cursor, group + 1 == cursor)
        };
        let both = moving && next != group;
        SlotPlace { group: if moved { next } else { group }, then: both.then_some(next) }
    }

    /// Returns the group that a writer has to lock. A key of a group that is not split yet belongs to the old group.
    #[inline(always)]
    pub(super) fn write_group(&self, hash: Hash) -> usize {
        self.place(Growth(self.growth.load(Acquire)), hash).group
    }

    /// Returns the number of groups that hold items (the old number while growing).
    pub(crate) fn groups(&self) -> usize {
        Growth(self.growth.load(Acquire)).groups()
    }

    /// Returns the number of groups, or the number after the growth in progress, if there is one.
    pub(crate) fn groups_next(&self) -> usize {
        self.groups_next.load(Acquire) as usize
    }

    pub(crate) fn is_growing(&self) -> bool {
        let growth = Growth(self.growth.load(Acquire));
        growth.is_changing() && !growth.is_shrinking()
    }

    /// Sets the growth word, first in the persistent header and then in the process's copy. So a thread that sees the
    /// new word can rely on it being in the header.
    pub(super) fn set_growth(&self, growth: Growth) {
        self.kept.growth.store(growth.0, Release);
        self.growth.store(growth.0, Release);
    }

    pub(super) fn set_groups_next(&self, groups: usize) {
        self.kept.groups_next.store(groups as u64, Release);
        self.groups_next.store(groups as u32, Release);
    }

    /// Begins a growth to `to` groups. Only the background calls the function, and only while the index keeps its size.
    pub(crate) fn begin_growth(&self, to: usize) {
        let growth = Growth(self.growth.load(Acquire));
        let groups = growth.groups();
        assert!(!growth.is_changing() && to > groups && to <= groups * 2, "growth from {groups} to {to}");
        self.set_groups_next(to);
        self.set_growth(Growth::growing(groups, groups));
    }

    /// Stores each slot of a group in `hashed`, with the group hash of its item's key. Items are rarely in the CPU
    /// cache, so each is prefetched [`HASH_AHEAD`] slots before its key is hashed.
    pub(super) fn hash_group(&self, group: usize, hashed: &mut [(Slot, Option<u32>)], keys: &impl Keys) {
        for (at, (_, slot)) in self.group_words(group).enumerate() {
            hashed[at].0 = slot;
            if slot.is_item() {
                keys.prefetch(slot);
            }
            if let Some(before) = at.checked_sub(HASH_AHEAD) {
                Self::hash_one(&mut hashed[before], keys);
            }
        }
        hashed[GROUP_SLOTS - HASH_AHEAD..].iter_mut().for_each(|hashed| Self::hash_one(hashed, keys));
    }

    fn hash_one(hashed: &mut (Slot, Option<u32>), keys: &impl Keys) {
        hashed.1 = if hashed.0.is_item() { keys.group_hash(hashed.0) } else { None };
    }

    /// Splits the next group. Returns true when the growth is complete, and `None` if a lock could not be taken:
    /// nothing was changed, and the caller tries again.
    pub(crate) fn split_next(&self, scratch: &mut SplitScratch, keys: &impl Keys) -> Option<bool> {
        let growth = Growth(self.growth.load(Acquire));
        debug_assert!(growth.is_changing() && !growth.is_shrinking());
        let (old, to) = (growth.cursor() - 1, self.groups_next());
        self.hash_group(old, &mut scratch.hashed[..GROUP_SLOTS], keys);
        let _guards = self.lock_split(old, growth.groups(), to)?;
        scratch.dropped.clear();
        for i in 0..GROUP_SLOTS {
            let word = self.slot_word(old, i);
            let slot = Slot(word.load(Acquire));
            if slot == Slot::EMPTY {
                continue;
            }
            let group_hash = match scratch.hashed[i] {
                _ if slot.is_ghost() => Some(slot.ghost_group_hash()),
                (hashed, group_hash) if hashed.same_item(slot) => group_hash,
                _ => keys.group_hash(slot),
            };
            // A slot is damaged if it names no item, or an item that does not belong to this group.
            let (first, last) = (old, ((old + 1) * to - 1) / growth.groups());
            let Some((group_hash, group)) = place_of(group_hash, to, first..=last) else {
                word.store(Slot::EMPTY.0, Release);
                continue;
            };
            if group != old {
                let (stripe, bucket, tag) = (self.stripe(group), i / BUCKET_SLOTS, slot.tag());
                let spot = Spot { index: self, stripe, group, bucket, tag, group_hash };
                scratch.dropped.extend(self.move_slot(word, slot, spot, keys));
            }
        }
        let done = old == 0;
        let next = if done { Growth::still(to) } else { Growth::growing(growth.groups(), old) };
        self.set_growth(next);
        Some(done)
    }

    /// Copies the slot to one of its two index buckets in the new group, then clears the slot in the old group. Returns
    /// the slot that was overwritten in the new group, if it named an item.
    pub(super) fn move_slot(&self, word: &Word64, slot: Slot, spot: Spot<'_>, keys: &impl Keys) -> Option<Slot> {
        let room = spot.room();
        let keep = slot.is_item() || room.holds == Slot::EMPTY;
        if keep && room.holds.is_item() {
            keys.loses_slot(room.holds);
        }
        let mut seen = slot;
        loop {
            if keep {
                room.word.store(seen.0, Release);
            }
            match word.compare_exchange(seen.0, Slot::EMPTY.0, Release) {
                Ok(_) => break,
                Err(bumped) => seen = Slot(bumped),
            }
        }
        (keep && room.holds.is_item()).then_some(room.holds)
    }

    /// Locks the stripes of an old group and of every new group to which its keys can move.
    fn lock_split(&self, old: usize, groups: usize, to: usize) -> Option<SplitGuards<'_>> {
        let first = old * to / groups;
        let last = ((old + 1) * to - 1) / groups;
        assert!(last - first < CHANGED_GROUPS_MAX, "a growth at most doubles the groups");
        self.lock_groups([old, first, (first + 1).min(last), last])
    }

    /// Locks the stripes of these groups, each once, in the order of their numbers. Returns `None` if a lock cannot be
    /// taken.
    pub(super) fn lock_groups(&self, groups: [usize; CHANGED_GROUPS_MAX + 1]) -> Option<SplitGuards<'_>> {
        let mut stripes = groups.map(|group| group % STRIPES);
        stripes.sort_unstable();
        let mut guards = [const { None }; CHANGED_GROUPS_MAX + 1];
        for (i, stripe) in stripes.into_iter().enumerate() {
            if i > 0 && stripes[i - 1] == stripe {
                continue;
            }
            guards[i] = Some(self.try_lock_group(stripe)?);
        }
        Some(guards)
    }
}

/// The locks of all groups that a split or a merge changes.
pub(super) type SplitGuards<'i> = [Option<StripeGuard<'i>>; CHANGED_GROUPS_MAX + 1];

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_moves_to_a_lower_group_and_never_past_the_locked_ones() {
        for (groups, to) in [(1, 2), (3, 4), (8, 9), (9, 10), (64, 72), (1000, 1125), (7, 14)] {
            for step in 0..20_000u64 {
                let hash = (step * 0xffff_ffff / 19_999) as u32;
                let (old, new) = (group_of(hash, groups), group_of(hash, to));
                assert!(new >= old);
                assert!(new >= old * to / groups && new <= ((old + 1) * to - 1) / groups, "{groups}->{to} {hash}");
            }
        }
    }

    #[test]
    fn every_key_is_found_at_every_step_of_index_growth() {
        let index = Index::reserve(8, 18, false).expect("reserve");
        let hashes: Vec<Hash> = (0..2000u64).map(|i| Hash(base::prng::split_mix(i))).collect();
        for (i, hash) in hashes.iter().enumerate() {
            let locked = index.lock(*hash).expect("nobody else locks");
            let room = locked.room();
            assert!(!room.holds.is_item(), "eight groups hold two thousand keys");
            room.word.store(Slot::item(hash.tag(), 0, 1, i * 4).0, Release);
        }
        let found = |index: &Index| {
            hashes
                .iter()
                .enumerate()
                .all(|(i, h)| index.find(*h, |slot| (slot.address() == i * 4).then_some(())).is_some())
        };
        let mut scratch = SplitScratch::new();
        for to in [9, 11, 18] {
            index.begin_growth(to);
            loop {
                assert!(found(&index));
                let split = index.split_next(&mut scratch, &|slot: Slot| hashes[slot.address() / 4].group_hash());
                assert!(scratch.dropped.is_empty());
                if split.expect("nobody else locks") {
                    break;
                }
            }
            assert!(found(&index) && index.groups() == to && !index.is_growing());
        }
        let left = (0..18).flat_map(|g| index.group_words(g)).filter(|(_, s)| s.is_item()).count();
        assert_eq!(left, hashes.len(), "no slot was left behind or doubled");
    }
}
