//! The index: groups whose lock was held, and the group that was being split or merged.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::Reopened;
use crate::core::lookup::item_of;
use crate::core::store::{Store, background_counters, space_totals, totals};
use crate::index::growth::SplitScratch;
use crate::index::repair;
use crate::layout::header::TOKEN_OFFSET_BITS;
use crate::layout::item::{CAS_FIELD, DEAD};
use crate::layout::key::Namespace;
use crate::layout::slot::Slot;
use crate::tier::flash_slots::{flash_found, release};

/// Clears second copies of slots in the groups of each held stripe, and releases the stripe.
pub(crate) fn repair_stripes(store: &Store, report: &mut Reopened) {
    let (mut token, mut left) = (0, 0);
    let counters = background_counters(store);
    for stripe in repair::held_stripes(&store.index) {
        report.stripes_held += 1;
        for group in repair::groups_of_stripe(&store.index, stripe) {
            report.slots_doubled += repair::clear_doubles(&store.index, group);
            // An item that replaces items on flash gets its slot before it is marked live.
            let is_new = |slot| store.tier.is_some() && item_of(store, slot).is_some_and(|(.., item)| item.has(DEAD));
            repair::clear_stored_over(&store.index, group, is_new, |slot| {
                release(store, counters, slot, Namespace::DEFAULT.0, Some(true));
                report.slots_doubled += 1;
            });
            for (word, slot) in store.index.group_words(group).filter(|(_, slot)| slot.is_item()) {
                let Some((_, address, layout)) = item_of(store, slot) else {
                    // A crash cannot cause this: the file was damaged.
                    word.store(Slot::EMPTY.0, Release);
                    report.slots_dropped += 1;
                    continue;
                };
                if store.marks_first && layout.has(DEAD) {
                    // The process ended between marking the item dead and removing its slot. The removal is undone.
                    let _ = store.segments.heap.word32(address).fetch_and(!DEAD, Release);
                }
                if !layout.has(CAS_FIELD) || store.persistent.exact_tokens.load(Acquire) == 1 {
                    continue;
                }
                if left == 0 {
                    (token, left) = (store.segments.next_sequence() << TOKEN_OFFSET_BITS, 1u64 << TOKEN_OFFSET_BITS);
                }
                // An older build does not store the token before the number, so the number may be newer than its token.
                layout.cas_field(&store.segments.heap, address).store(token, Release);
                (token, left) = (token + 1, left - 1);
            }
        }
        repair::release(&store.index, stripe);
    }
}

/// Counts the items that the second tier has retained. If some of them are lost, because a device was exchanged, walks
/// the whole index and clears the slots that name lost items.
pub(crate) fn take_tier(store: &Store, report: &mut Reopened) {
    let Some(tier) = store.tier.as_deref() else { return };
    let counters = background_counters(store);
    let found = tier.found();
    // The namespaces of these items are recorded only on flash. Each namespace is assigned a number of them in
    // proportion to its items in memory.
    let in_memory = totals(store).items().max(1);
    let mut left = found.items;
    for namespace in 1..Namespace::MAX as u8 {
        let items = space_totals(store, namespace).items();
        let part = (u128::from(found.items) * u128::from(items) / u128::from(in_memory)) as u64;
        flash_found(store, counters, namespace, part.min(left));
        left -= part.min(left);
    }
    flash_found(store, counters, Namespace::DEFAULT.0, left);
    report.flash_items = found.items;
    if !found.lost {
        return;
    }
    for (word, slot) in (0..store.index.groups()).flat_map(|group| store.index.group_words(group)) {
        if slot.is_flash() && !tier.may_name(slot.flash_address()) {
            word.store(Slot::EMPTY.0, Release);
            report.flash_lost += 1;
        }
    }
}

/// Completes the split or merge of the group at the cursor. If an item loses its slot for lack of room, the counts
/// in the segment headers still include it.
pub(crate) fn repair_growth(store: &Store, report: &mut Reopened) {
    report.index_changing = store.index.is_growing() || store.index.is_shrinking();
    if !report.index_changing {
        return;
    }
    report.slots_doubled += repair::clear_moved(&store.index, store);
    let mut scratch = SplitScratch::new();
    let done = match store.index.is_growing() {
        true => store.index.split_next(&mut scratch, store),
        false => store.index.merge_next(&mut scratch, store),
    };
    assert!(done.is_some(), "no other thread has a lock");
    // If an item lost its slot here, the later walk or drain of its segment detects that.
}
