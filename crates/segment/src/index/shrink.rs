//! Shrinking of the index in place, a group at a time, while other threads read and write the index: the reverse of
//! growth.
//!
//! The number of groups shrinks from G to G' (at least half of G). A key of old group `i` belongs to new group `group
//! hash * G' >> 32`, which is never above `i`. So the groups are merged in ascending order, beginning with the first.
//! When a new group is filled, the keys of the old group with the same number that belong to lower groups were already
//! merged into them.
//!
//! ```text
//!                     cursor
//!   old  . | . | . | .  | 4 | 5 | 6 | 7 ]      keys of new groups > cursor: a reader searches the old group only
//!                    \___ | _/                 keys of new group cursor: searches the old group, then the new
//!   new  [ 0 | 1 | 2 | 3 ]                     keys of new groups < cursor: searches the new group only
//! ```
//!
//! A merge holds the stripe locks of the new group and of the old groups from which its keys come, so no writer changes
//! these groups meanwhile. When the shrink is complete, the groups from G' on are empty and are never read, and their
//! memory can be released.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::growth::{CHANGED_GROUPS_MAX, Growth, Keys, SplitGuards, SplitScratch, place_of};
use super::room::Spot;
use super::{BUCKET_SLOTS, GROUP_SLOTS, Index};
use crate::layout::slot::Slot;

impl Index {
    /// Returns true if the index is shrinking.
    pub(crate) fn is_shrinking(&self) -> bool {
        Growth(self.growth.load(Acquire)).is_shrinking()
    }

    /// Begins to shrink to `to` groups. Only the background calls the function, and only while the index keeps its
    /// size.
    pub(crate) fn begin_shrink(&self, to: usize) {
        let growth = Growth(self.growth.load(Acquire));
        let groups = growth.groups();
        assert!(!growth.is_changing() && to >= 1 && to < groups && to * 2 >= groups, "a shrink from {groups} to {to}");
        self.set_groups_next(to);
        self.set_growth(Growth::shrinking(groups, 0));
    }

    /// Merges the keys of the next new group. Returns true when the shrink is complete, and `None` if a lock could not
    /// be taken: nothing was changed, and the caller tries again.
    pub(crate) fn merge_next(&self, scratch: &mut SplitScratch, keys: &impl Keys) -> Option<bool> {
        let growth = Growth(self.growth.load(Acquire));
        debug_assert!(growth.is_shrinking());
        let (new, groups, to) = (growth.cursor(), growth.groups(), self.groups_next());
        let (first, last) = (new * groups / to, ((new + 1) * groups - 1) / to);
        assert!(last - first < CHANGED_GROUPS_MAX, "a shrink at most halves the groups");
        let sources = || (first..=last).filter(|old| *old != new);
        for (old, hashed) in sources().zip(scratch.hashed.chunks_mut(GROUP_SLOTS)) {
            self.hash_group(old, hashed, keys);
        }
        let _guards: SplitGuards<'_> = self.lock_groups([new, first, (first + 1).min(last), last])?;
        scratch.dropped.clear();
        for (old, hashed) in sources().zip(scratch.hashed.chunks(GROUP_SLOTS)) {
            for (i, (before, group_hash)) in hashed.iter().enumerate() {
                let word = self.slot_word(old, i);
                let slot = Slot(word.load(Acquire));
                if slot == Slot::EMPTY {
                    continue;
                }
                let group_hash = match slot.is_ghost() {
                    true => Some(slot.ghost_group_hash()),
                    false if before.same_item(slot) => *group_hash,
                    false => keys.group_hash(slot),
                };
                // A merge never moves a key to a higher group, nor below the cursor: a slot whose key would move there
                // is damaged.
                let Some((group_hash, group)) = place_of(group_hash, to, new..=old) else {
                    word.store(Slot::EMPTY.0, Release);
                    continue;
                };
                if group == new {
                    let (stripe, bucket, tag) = (self.stripe(new), i / BUCKET_SLOTS, slot.tag());
                    let spot = Spot { index: self, stripe, group, bucket, tag, group_hash };
                    scratch.dropped.extend(self.move_slot(word, slot, spot, keys));
                }
            }
        }
        let done = new + 1 == to;
        let next = if done { Growth::still(to) } else { Growth::shrinking(groups, new + 1) };
        self.set_growth(next);
        Some(done)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::index::Hash;
    use crate::index::growth::group_of;

    #[test]
    fn shrink_moves_keys_to_lower_groups_from_locked_groups_only() {
        for (groups, to) in [(2, 1), (4, 3), (9, 8), (10, 9), (72, 64), (1125, 1000), (14, 7), (15, 8)] {
            for step in 0..20_000u64 {
                let hash = (step * 0xffff_ffff / 19_999) as u32;
                let (old, new) = (group_of(hash, groups), group_of(hash, to));
                assert!(new <= old);
                let (first, last) = (new * groups / to, ((new + 1) * groups - 1) / to);
                assert!(old >= first && old <= last && last - first < CHANGED_GROUPS_MAX, "{groups}->{to} {hash}");
            }
        }
    }

    #[test]
    fn every_key_is_found_at_every_step_of_index_shrink() {
        let index = Index::reserve(18, 18, false).expect("reserve");
        let hashes: Vec<Hash> = (0..2400u64).map(|i| Hash(base::prng::split_mix(i))).collect();
        for (i, hash) in hashes.iter().enumerate() {
            let room = index.lock(*hash).expect("nobody else locks").room();
            room.word.store(Slot::item(hash.tag(), 0, 1, i * 4).0, Release);
        }
        let found = |index: &Index| {
            hashes
                .iter()
                .enumerate()
                .all(|(i, h)| index.find(*h, |slot| (slot.address() == i * 4).then_some(())).is_some())
        };
        let mut scratch = SplitScratch::new();
        for to in [17, 10, 7, 6] {
            index.begin_shrink(to);
            loop {
                assert!(found(&index) && index.is_shrinking() && !index.is_growing());
                let merged = index.merge_next(&mut scratch, &|slot: Slot| hashes[slot.address() / 4].group_hash());
                assert!(scratch.dropped.is_empty(), "78 % of six groups are taken");
                if merged.expect("nobody else locks") {
                    break;
                }
            }
            assert!(found(&index) && index.groups() == to && !index.is_shrinking());
        }
        let count = |groups: std::ops::Range<usize>| {
            groups.flat_map(|g| index.group_words(g)).filter(|(_, slot)| *slot != Slot::EMPTY).count()
        };
        assert_eq!((count(0..6), count(6..18)), (hashes.len(), 0));
    }

    /// A test implementation of `Keys` that records the items that lose their slots, with the index in which they are
    /// found at that instant.
    struct ShrinkReports<'i> {
        hashes: &'i [Hash],
        index: &'i Index,
        report: RefCell<Vec<Slot>>,
    }

    impl Keys for ShrinkReports<'_> {
        fn group_hash(&self, slot: Slot) -> Option<u32> {
            Some(self.hashes[slot.address() / 4].group_hash())
        }

        fn prefetch(&self, _: Slot) {}

        fn loses_slot(&self, slot: Slot) {
            let mut all = (0..4).flat_map(|group| self.index.group_words(group));
            assert!(all.any(|(_, there)| there == slot), "the move is reported before the slot is reused");
            self.report.borrow_mut().push(slot);
        }
    }

    #[test]
    fn excessive_shrink_reports_dropped_items_before_removing_them() {
        let index = Index::reserve(4, 4, false).expect("reserve");
        let hashes: Vec<Hash> = (0..1700u64).map(|i| Hash(base::prng::split_mix(i))).collect();
        for (i, hash) in hashes.iter().enumerate() {
            let room = index.lock(*hash).expect("nobody else locks").room();
            room.word.store(Slot::item(hash.tag(), 0, 1, i * 4).0, Release);
        }
        let count = || (0..4).flat_map(|g| index.group_words(g)).filter(|(_, slot)| slot.is_item()).count();
        let before = count();
        let (mut scratch, mut dropped) = (SplitScratch::new(), 0);
        index.begin_shrink(2);
        let keys = ShrinkReports { hashes: &hashes, index: &index, report: RefCell::default() };
        let mut done = false;
        while !done {
            done = index.merge_next(&mut scratch, &keys).expect("no locks");
            assert_eq!(keys.report.take(), scratch.dropped);
            dropped += scratch.dropped.len();
        }
        assert!(dropped > 600 && count() == before - dropped, "{before} before, {dropped} dropped, {} left", count());
    }
}
