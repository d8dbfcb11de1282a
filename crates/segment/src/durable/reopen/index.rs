//! The index: groups whose lock was held, and the group that was being split or merged.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::Reopened;
use crate::core::store::{Store, background_counters};
use crate::index::growth::SplitScratch;
use crate::layout::header::TOKEN_OFFSET_BITS;
use crate::layout::item::{CAS_FIELD, DEAD};
use crate::layout::key::Namespace;
use crate::layout::slot::Slot;

impl Store {
    /// Clears second copies in the groups of each stripe that is held, and lets go of it.
    pub(super) fn repair_stripes(&self, report: &mut Reopened) {
        let (mut token, mut left) = (0, 0);
        let counters = background_counters(self);
        for stripe in self.index.held_stripes() {
            report.stripes_held += 1;
            for group in self.index.groups_of_stripe(stripe) {
                report.slots_doubled += self.index.clear_doubles(group);
                // What is stored over items on flash has its slot first and lives then.
                let is_new = |slot| self.tier.is_some() && self.item_of(slot).is_some_and(|(.., item)| item.has(DEAD));
                self.index.clear_stored_over(group, is_new, |slot| {
                    self.release(counters, slot, Namespace::DEFAULT.0, Some(true));
                    report.slots_doubled += 1;
                });
                for (word, slot) in self.index.group_words(group).filter(|(_, slot)| slot.is_item()) {
                    let Some((_, address, layout)) = self.item_of(slot) else {
                        // No crash leaves that: the file was damaged.
                        word.store(Slot::EMPTY.0, Release);
                        report.slots_dropped += 1;
                        continue;
                    };
                    if self.marks_first && layout.has(DEAD) {
                        // It was to lose its slot, and has it still.
                        let _ = self.segments.heap.word32(address).fetch_and(!DEAD, Release);
                    }
                    if !layout.has(CAS_FIELD) || self.kept.exact_tokens.load(Acquire) == 1 {
                        continue;
                    }
                    if left == 0 {
                        (token, left) = (self.segments.next_sequence() << TOKEN_OFFSET_BITS, 1u64 << TOKEN_OFFSET_BITS);
                    }
                    // By a build that stores no token before: its number may have been stored and not its token.
                    layout.cas_field(&self.segments.heap, address).store(token, Release);
                    (token, left) = (token + 1, left - 1);
                }
            }
            self.index.let_go(stripe);
        }
    }

    /// Takes over what the second tier has retained. If a part of that is gone, so are the slots that name it. That
    /// takes a walk over the whole index, for a device that was exchanged.
    pub(super) fn take_tier(&self, report: &mut Reopened) {
        let Some(tier) = self.tier.as_deref() else { return };
        let counters = background_counters(self);
        let found = tier.found();
        // Whose they are is on flash alone: they count by what each has in memory.
        let in_memory = self.totals().items().max(1);
        let mut left = found.items;
        for namespace in 1..Namespace::MAX as u8 {
            let items = self.space_totals(namespace).items();
            let part = (u128::from(found.items) * u128::from(items) / u128::from(in_memory)) as u64;
            self.flash_found(counters, namespace, part.min(left));
            left -= part.min(left);
        }
        self.flash_found(counters, Namespace::DEFAULT.0, left);
        report.flash_items = found.items;
        if !found.lost {
            return;
        }
        for (word, slot) in (0..self.index.groups()).flat_map(|group| self.index.group_words(group)) {
            if slot.is_flash() && !tier.may_name(slot.flash_address()) {
                word.store(Slot::EMPTY.0, Release);
                report.flash_lost += 1;
            }
        }
    }

    /// Completes the group at the cursor. What it had to drop for room is counted like the rest: by the headers.
    pub(super) fn repair_growth(&self, report: &mut Reopened) {
        report.index_changing = self.index.is_growing() || self.index.is_shrinking();
        if !report.index_changing {
            return;
        }
        report.slots_doubled += self.index.clear_moved(self);
        let mut scratch = SplitScratch::new();
        let done = match self.index.is_growing() {
            true => self.index.split_next(&mut scratch, self),
            false => self.index.merge_next(&mut scratch, self),
        };
        assert!(done.is_some(), "nobody else has a lock");
        // An item that had to make room has no slot any more: the walk or the drain of its segment finds that.
    }
}
