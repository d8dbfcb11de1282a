//! Repairs of the index after a process was killed during a change, for [`crate::durable::reopen`]. No other thread
//! uses the index.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::growth::{Growth, Keys, group_of};
use super::{BUCKET_SLOTS, GROUP_SLOTS, Hash, Index, STRIPES, other_bucket};
use crate::layout::raw::Word64;
use crate::layout::slot::Slot;

/// Returns the stripes whose lock a killed process held.
pub(crate) fn held_stripes(index: &Index) -> impl Iterator<Item = usize> {
    (0..STRIPES).filter(|stripe| !index.stripes.at(*stripe).lock.load(Relaxed).is_multiple_of(2))
}

/// Releases the lock of a stripe, which a killed process held.
pub(crate) fn release(index: &Index, stripe: usize) {
    let lock = &index.stripes.at(stripe).lock;
    lock.store(lock.load(Relaxed).wrapping_add(1), Release);
}

/// Returns the groups that a stripe locks, including the future groups while the index changes its size.
pub(crate) fn groups_of_stripe(index: &Index, stripe: usize) -> impl Iterator<Item = usize> + use<> {
    (stripe..index.groups().max(index.groups_next())).step_by(STRIPES)
}

/// Returns the number of displacements of slots in a group and in all groups that share its stripe.
pub(crate) fn moves_of(index: &Index, group: usize) -> u32 {
    index.stripe(group).moves.load(Acquire)
}

/// Returns the group of a key while the index does not change its size.
pub(crate) fn group_for(index: &Index, hash: Hash) -> usize {
    group_of(hash.group_hash(), index.groups())
}

/// Clears a slot of a group, unless the slot now names another item. Returns `None` if the lock could not be taken.
pub(crate) fn clear_if_same(index: &Index, group: usize, word: &Word64, slot: Slot) -> Option<()> {
    let _guard = index.try_lock_group(group)?;
    let mut seen = Slot(word.load(Acquire));
    while seen.same_item(slot) {
        match word.compare_exchange(seen.0, Slot::EMPTY.0, Release) {
            Ok(_) => break,
            // Another thread has changed the slot, perhaps only its access frequency: compare again.
            Err(now) => seen = Slot(now),
        }
    }
    Some(())
}

/// Returns the words of both index buckets that may hold the slot. `bucket` is the number of either.
fn words_of(index: &Index, group: usize, bucket: usize, slot: Slot) -> impl Iterator<Item = &Word64> {
    let both = [bucket, other_bucket(bucket, slot.tag())];
    both.into_iter().flat_map(move |bucket| &index.bucket(group, bucket).slots)
}

/// Clears duplicate slots of a group and returns how many were cleared. While a slot moves from one index bucket to the
/// other, both buckets hold a copy of it.
pub(crate) fn clear_doubles(index: &Index, group: usize) -> u64 {
    doubles(index, group, |word| word.store(Slot::EMPTY.0, Release))
}

/// Counts the slots of a group that have a duplicate.
pub(crate) fn count_doubles(index: &Index, group: usize) -> u64 {
    // Each of two duplicates is reported once, so the number is halved.
    doubles(index, group, |_| {}) / 2
}

/// Completes stores of items that were interrupted when the process ended. Such an item's slot has replaced one flash
/// slot with the same tag, but other flash slots with this tag may remain. Clears them and calls `each` for each of
/// them. `is_new` returns true for the slot of an interrupted store. Beside any other item in memory, flash slots with
/// the same tag belong to other keys.
pub(crate) fn clear_stored_over(
    index: &Index,
    group: usize,
    is_new: impl Fn(Slot) -> bool,
    mut each: impl FnMut(Slot),
) {
    for i in 0..GROUP_SLOTS {
        let slot = Slot(index.slot_word(group, i).load(Acquire));
        if !slot.is_item() || !is_new(slot) {
            continue;
        }
        for word in words_of(index, group, i / BUCKET_SLOTS, slot) {
            let other = Slot(word.load(Acquire));
            if other.is_flash() && other.tag() == slot.tag() {
                word.store(Slot::EMPTY.0, Release);
                each(other);
            }
        }
    }
}

fn doubles(index: &Index, group: usize, mut each: impl FnMut(&Word64)) -> u64 {
    let mut found = 0;
    for i in 0..GROUP_SLOTS {
        let word = index.slot_word(group, i);
        let slot = Slot(word.load(Acquire));
        if !slot.is_taken() {
            continue;
        }
        let is_other = |other: &&Word64| !std::ptr::eq(*other, word) && Slot(other.load(Acquire)).same_item(slot);
        for other in words_of(index, group, i / BUCKET_SLOTS, slot).filter(is_other) {
            each(other);
            found += 1;
        }
    }
    found
}

/// Clears the old copies of slots that were already moved, in the group at the cursor of a change of size. Returns the
/// number of cleared slots.
pub(crate) fn clear_moved(index: &Index, keys: &impl Keys) -> u64 {
    let growth = Growth(index.growth.load(Acquire));
    let (groups, to, mut cleared) = (growth.groups(), index.groups_next(), 0);
    let olds = match growth.is_shrinking() {
        true => growth.cursor() * groups / to..=((growth.cursor() + 1) * groups - 1) / to,
        false => growth.cursor() - 1..=growth.cursor() - 1,
    };
    for old in olds {
        for (i, (word, slot)) in index.group_words(old).enumerate() {
            if !slot.is_item() {
                continue;
            }
            let Some(group) = keys.group_hash(slot).map(|hash| group_of(hash, to)) else { continue };
            let moves = group != old && (!growth.is_shrinking() || group == growth.cursor());
            let same = |there: &Word64| Slot(there.load(Acquire)).same_item(slot);
            if moves && words_of(index, group, i / BUCKET_SLOTS, slot).any(same) {
                word.store(Slot::EMPTY.0, Release);
                cleared += 1;
            }
        }
    }
    cleared
}
