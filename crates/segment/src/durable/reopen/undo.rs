//! Undoes interrupted atomic changes of several keys: each key gets the state that it had before the change.

use std::sync::atomic::Ordering::Release;

use super::Reopened;
use crate::core::lookup::{item_in, item_of_hash};
use crate::core::store::Store;
use crate::heap::segments::SegmentId;
use crate::index::Hash;
use crate::layout::header::SegmentState;
use crate::layout::item::{CAS_FIELD, EXPIRY, Layout, META, NUM};
use crate::layout::key::Namespace;
use crate::layout::slot::Slot;
use crate::locks::undo_log::{Record, slot_of};

/// Restores the slots that open groups have changed. The affected segments are walked later. That walk marks their
/// items as live or dead by their slots, and counts them.
pub(crate) fn undo_open(store: &Store, report: &mut Reopened) {
    if let Some(log) = &store.undo {
        report.groups_undone = log.each_open(&mut |record, _| undo_one(store, record));
    }
}

/// Clears the records of undone changes. Called after the segments are repaired.
pub(crate) fn forget_undone(store: &Store) {
    if let Some(log) = &store.undo {
        log.close_all();
    }
}

fn undo_one(store: &Store, record: &Record) {
    if usize::from(record.namespace) >= Namespace::MAX {
        return;
    }
    let hash = Hash(record.hash);
    let locked = store.index.lock(hash).expect("no other thread has a lock");
    let there = locked.find(|slot| item_of_hash(store, slot, record.namespace, record.piece, hash));
    let before = slot_of(record);
    if before.is_some_and(|slot| !is_persistent(store, slot)) {
        // A crash cannot cause this: the file was damaged, and any item may stay.
        return;
    }
    match (before, &there) {
        (Some(before), Some(there)) if there.slot.same_item(before) => {}
        (before, Some(there)) => {
            walk_again(store, there.slot.address());
            locked.replace(there.word, there.slot, before.unwrap_or(Slot::EMPTY), false);
        }
        (Some(before), None) => {
            let room = locked.room();
            // If another item loses its slot here, the background's scrub detects that.
            locked.replace(room.word, room.holds, before, false);
        }
        (None, None) => {}
    }
    if let Some(before) = before {
        walk_again(store, before.address());
        write_back(store, before.address(), record);
    }
}

/// Restores the fields of an item that change in place: number, token, expiry and access data.
pub(crate) fn write_back(store: &Store, address: usize, record: &Record) {
    let heap = &store.segments.heap;
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

/// Returns true if the item that a record's slot names is still in its place. The change had pinned the item's segment,
/// so this is true unless the file was damaged.
pub(crate) fn is_persistent(store: &Store, slot: Slot) -> bool {
    let Some(header) = store.segments.named(slot) else { return false };
    header.has_state()
        && matches!(
            header.state(),
            SegmentState::Open | SegmentState::Sealed | SegmentState::Draining | SegmentState::Quarantine
        )
        && item_in(store, header, slot.address()).is_some()
}

pub(crate) fn walk_again(store: &Store, address: usize) {
    store.segments.header(SegmentId((address / store.segments.segment_bytes()) as u32)).walk_again();
}
