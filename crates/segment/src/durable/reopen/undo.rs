//! Changes of several keys that were cut: each key is as it was before the first of them.

use std::sync::atomic::Ordering::Release;

use super::Reopened;
use crate::core::store::Store;
use crate::heap::segments::SegmentId;
use crate::index::Hash;
use crate::layout::header::State;
use crate::layout::item::{CAS_FIELD, EXPIRY, Layout, META, NUM};
use crate::layout::key::Namespace;
use crate::layout::slot::Slot;
use crate::locks::undo_log::{Record, slot_of};

impl Store {
    /// Puts the slots back that open groups have changed. The segments that this concerns are walked later, by which
    /// the items there live or are dead, and are counted, as their slots say.
    pub(super) fn undo_open(&self, report: &mut Reopened) {
        if let Some(log) = &self.undo {
            report.groups_undone = log.each_open(&mut |record, _| self.undo_one(record));
        }
    }

    /// Clears the records of what was undone: all else is whole.
    pub(super) fn forget_undone(&self) {
        if let Some(log) = &self.undo {
            log.close_all();
        }
    }

    fn undo_one(&self, record: &Record) {
        if usize::from(record.namespace) >= Namespace::MAX {
            return;
        }
        let hash = Hash(record.hash);
        let locked = self.index.lock(hash).expect("nobody else has a lock");
        let there = locked.find(|slot| self.item_of_hash(slot, record.namespace, record.piece, hash));
        let before = slot_of(record);
        if before.is_some_and(|slot| !self.is_kept(slot)) {
            // No crash leaves that: the file was damaged, and what is there is as good as anything.
            return;
        }
        match (before, &there) {
            (Some(before), Some(there)) if there.slot.same_item(before) => {}
            (before, Some(there)) => {
                self.walk_again(there.slot.address());
                locked.replace(there.word, there.slot, before.unwrap_or(Slot::EMPTY), false);
            }
            (Some(before), None) => {
                let room = locked.room();
                // An item that had to make room has no slot any more: the scrub finds that.
                locked.replace(room.word, room.holds, before, false);
            }
            (None, None) => {}
        }
        if let Some(before) = before {
            self.walk_again(before.address());
            self.write_back(before.address(), record);
        }
    }

    /// Writes back the words of an item that change in place.
    pub(super) fn write_back(&self, address: usize, record: &Record) {
        let heap = &self.segments.heap;
        let layout = Layout::read(heap, address);
        if layout.has(NUM) {
            layout.number(heap, address).store(record.number, Release);
        }
        if layout.has(CAS_FIELD) {
            layout.cas_field(heap, address).store(record.cas, Release);
        }
        if layout.has(EXPIRY) {
            layout.expiry(heap, address).store(record.expiry, Release);
        }
        if layout.has(META) {
            layout.meta(heap, address).store(record.meta, Release);
        }
    }

    /// Returns true if the bytes that a slot of a record names are what they were: its segment was pinned.
    pub(super) fn is_kept(&self, slot: Slot) -> bool {
        let Some(header) = self.segments.named(slot) else { return false };
        header.has_state()
            && matches!(header.state(), State::Open | State::Sealed | State::Draining | State::Quarantine)
            && self.item_in(header, slot.address()).is_some()
    }

    pub(super) fn walk_again(&self, address: usize) {
        self.segments.header(SegmentId((address / self.segments.segment_bytes()) as u32)).walk_again();
    }
}
