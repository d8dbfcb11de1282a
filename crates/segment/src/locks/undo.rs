//! Groups of changes that survive a crash together or not at all. The memory file retains the state of each key before
//! its change until the last change of the group is complete.
//!
//! ```text
//!   a lock set acts:  lock a key ──> record: slot, words that change in place ──> change ──> ... ──> group is closed
//!   crash at ...      ····· nothing to undo ·····|··· the next opening restores every slot ···|··· nothing to undo ···
//!
//!   chunk  (4096 bytes)  group | first chunk | records | undone before     if `group` is 0 in a group's first chunk,
//!                                                                          the group is closed and not undone
//!                        record: hash | slot | namespace, hidden | number | CAS field | expiry, META
//! ```
//!
//! Invariants:
//! - A record is complete and valid before the first change of its key. A group has one record for each key.
//! - While a group is open, the items that its records name are retained. Their segments are pinned, and pieces and
//!   parts that have lost their head are removed only when the group is closed. So the previous items need not be
//!   copied. Objects and parts that are newer than all records are removed at once, because no record names them. A
//!   group that changes a value many times therefore retains only the parts that the value had before.
//! - If a group was open when a checkpoint began, some of its items may be in segments of the checkpoint. The group
//!   reports its keys to the checkpoint before it is closed
//!   ([`crate::durable::checkpoint::Checkpoints::note_spanning`]).
//! - A single write to the first chunk closes a group, however many chunks it has. Group numbers are never reused, so
//!   old records in a chunk are never mistaken for records of a later group.
//! - A store that is not in a file has no undo records. It removes pieces and parts without a head immediately.
//! - If the index is rebuilt while the store serves, the rebuild may find the changes of a group that was open at the
//!   crash late. The group's chunks are held until the rebuild is complete, with a sequence number: changes in segments
//!   with a smaller number are undone.
//!
//! Bounds: the log of [`crate::locks::undo_log`] for all groups together, and pins of at most one in [`PINNED_PART`]
//! segments. A group without a chunk waits for a free chunk before its first change. If no chunk is free for a later
//! change, or if the group pins too much memory, the group is closed and later changes belong to a new group ([`cut`]).

use std::sync::atomic::{Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::core::facets::{LockChecks, LockHolds};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked, item_of_hash, live};
use crate::core::op::OpError;
use crate::core::snap::Snap;
use crate::core::store::Store;
use crate::heap::segments::SegmentId;
use crate::index::{Hash, Locked};
use crate::items::unpublished::{publish, unpublished};
use crate::items::write::rewrite::{Rewrite, copy_plan};
use crate::layout::item::{CAS_FIELD, EXPIRY, META, NUM};
use crate::layout::key::Key;
use crate::locks::undo_log::{Group, Record, UndoLog};
use crate::values::free_queue::DeferredFree;

/// The divisor that gives the maximum number of segments that all open groups together may pin: the number of all
/// segments divided by it.
const PINNED_PART: usize = 8;
/// The divisor of that maximum from which on previous items are copied into the handle's open segment. A group then
/// pins memory in proportion to its items, not a segment for each key.
const PINNED_APART: usize = 2;
/// The capacity, in keys, that the sets of a group retain after the group ends.
const RETAINED_BYTES: usize = 1024;

/// Returns a record of a key's state before a change.
fn record_of(store: &Store, key: &Key<'_>, there: Option<&FoundItem<'_>>) -> Record {
    let mut record = Record { hash: key.hash.0, namespace: key.namespace, piece: key.piece, ..Record::default() };
    if let Some(FoundItem { slot, address, layout, .. }) = there {
        let heap = &store.segments.heap;
        record.slot = slot.0;
        record.number = if layout.has(NUM) { layout.number(heap, *address).load(Acquire) } else { 0 };
        record.cas = if layout.has(CAS_FIELD) { layout.cas_field(heap, *address).load(Acquire) } else { 0 };
        record.expiry = if layout.has(EXPIRY) { layout.expiry(heap, *address).load(Acquire) } else { 0 };
        record.meta = if layout.has(META) { layout.meta(heap, *address).load(Acquire) } else { 0 };
    }
    record
}

/// Closes a group. Its changes are then no longer undone after a crash.
pub(crate) fn close_group(store: &Store, group: &mut Group) {
    let Some(log) = store.undo.as_ref().filter(|_| group.is_open()) else { return };
    if group.behind != store.checkpoints.before() {
        // Reports the keys before the group is closed. So a thread that finds the group closed also finds its keys in
        // the checkpoint's list.
        store.checkpoints.note_spanning(log.keys(group));
    }
    log.word(group.chunks[0], 0).store(0, Release);
    for id in group.pinned.drain() {
        let before = store.segments.header(SegmentId(id)).pins.fetch_sub(1, AcqRel);
        assert!(before > 0, "a pin is released once");
        log.pinned.fetch_sub(1, Relaxed);
    }
    if !group.deferred.is_empty() {
        group.deferred.drain(..).for_each(|deferred| store.deferred.push_reserved(deferred));
        store.call_background();
    }
    log.free().append(&mut group.chunks);
    group.keys.clear();
    group.keys.shrink_to(RETAINED_BYTES);
    group.pinned.shrink_to(RETAINED_BYTES);
    group.deferred.shrink_to(RETAINED_BYTES);
    (group.number, group.records, group.apart, group.copied, group.unrecorded_from) = (0, 0, None, 0, 0);
}

/// Returns the number of groups of changes that were closed early because there was no space to record the previous
/// states.
pub(crate) fn groups_cut(store: &Store) -> u64 {
    store.undo.as_ref().map_or(0, |log| log.cut.load(Relaxed))
}

impl LockChecks<'_, '_> {
    /// Records the state of the locked key, before the holder of the key lock set changes it.
    ///
    /// # Errors
    /// [`OpError::Parked`]: there is no room for the record now; retry after other groups have ended.
    pub(crate) fn note_before(self, key: &Key<'_>, locked: &Locked<'_>) -> Result<(), OpError> {
        let Some(log) = &self.guard.store.undo else { return Ok(()) };
        let mut group = self.guard.own.group.borrow_mut();
        let there = find_locked(self.guard.store, locked, key);
        // New pieces and parts need no record, because only new heads name them.
        if group.keys.contains(&key.hash.0) || (key.piece && there.is_none()) {
            return Ok(());
        }
        let segment = there.as_ref().map(|seen| self.guard.store.segments.of(seen.address));
        let pins = segment.is_some_and(|id| !group.pinned.contains(&id.0));
        let (pinned, pinned_max) = (log.pinned.load(Relaxed), (self.guard.store.segments.count() / PINNED_PART).max(1));
        if group.is_open() && pins && pinned >= pinned_max / PINNED_APART && group.copied != key.hash.0 {
            group.apart = Some((key.hash.0, key.namespace, key.piece));
            return Err(self.guard.parked());
        }
        if group.is_open() && pins && pinned >= pinned_max {
            cut(self.guard, log, &mut group);
        }
        let behind = self.guard.own.open.sealed_before();
        if !group.make_room(log, behind) {
            if !group.is_open() {
                return Err(self.guard.parked());
            }
            cut(self.guard, log, &mut group);
            if !group.make_room(log, behind) {
                return Err(self.guard.parked());
            }
        }
        if let Some(id) = segment.filter(|id| group.pinned.insert(id.0)) {
            // Pins the segment in the epoch in which the slot was read, so the segment cannot be free yet.
            self.guard.store.segments.header(id).pins.fetch_add(1, AcqRel);
            log.pinned.fetch_add(1, Relaxed);
        }
        group.keys.insert(key.hash.0);
        let (chunk, at) = (*group.chunks.last().expect("there is room"), group.records);
        log.write(chunk, at, &record_of(self.guard.store, key, there.as_ref()));
        group.records += 1;
        group.unrecorded_from = self.guard.store.persistent.objects.load(Relaxed);
        Ok(())
    }
}

impl LockHolds<'_, '_> {
    /// Retains the pieces or parts of a value without a head until the guard's group is closed. Returns `deferred` if
    /// the caller has to remove them now.
    pub(crate) fn store_deferred(self, deferred: DeferredFree) -> Option<DeferredFree> {
        let Some(log) = &self.guard.store.undo else { return Some(deferred) };
        let group = self.guard.own.group.get_mut();
        if !group.is_open() || deferred.ends().is_some_and(|object| !group.retains(object)) {
            return Some(deferred);
        }
        if self.guard.store.deferred.reserve(&deferred) {
            group.deferred.push(deferred);
            return None;
        }
        log.cut.fetch_add(1, Relaxed);
        close_group(self.guard.store, group);
        Some(deferred)
    }

    /// Copies the item that is marked to be copied into the handle's open segment, if there is such an item.
    pub(crate) fn bring_together(self) {
        let group = self.guard.own.group.get_mut();
        let Some((hash, namespace, piece)) = group.apart.take() else { return };
        group.copied = hash;
        let (store, hash) = (self.guard.store, Hash(hash));
        let found = store.index.find(hash, |slot| item_of_hash(store, slot, namespace, piece, hash));
        let Some(seen) = live(store, found.map(FoundItem::of), self.guard.now) else { return };
        let (snap, bytes) = (Snap::of(store, &seen), seen.layout.key(&store.segments.heap, seen.address));
        let key = Key { bytes, hash, namespace, piece };
        let plan = copy_plan(store, &seen, &snap, Rewrite::SAME);
        let Ok(unpublished) = unpublished(store, &mut self.guard.own.open, &key, &plan, self.guard.now) else { return };
        let locked = store.index.lock(hash);
        let there = locked.as_ref().and_then(|locked| find_locked(store, locked, &key));
        let same = live(store, there, self.guard.now).filter(|there| Snap::of(store, there).same(&snap));
        if let (Some(locked), Some(there)) = (&locked, same) {
            let moved = publish(store, locked, self.guard.counters(), &key, unpublished, Some(&there), None);
            // The copy is the head of the same object.
            assert!(moved.is_ok(), "an item that has a slot needs no room for another");
            self.guard.counters().relocated.add(1);
        } else {
            drop(locked);
            self.guard.own.open.give_back(store, unpublished.reserved);
        }
    }
}

/// Closes the group early, because there is no space to record more previous states. Its changes up to now are not
/// undone after a crash.
#[cold]
fn cut(guard: &Guard<'_>, log: &UndoLog, group: &mut Group) {
    log.cut.fetch_add(1, Relaxed);
    close_group(guard.store, group);
}
