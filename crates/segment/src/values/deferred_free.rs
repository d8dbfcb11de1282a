//! Removal of the pieces or parts of values that have lost their head, a few at a time if there are many.
//!
//! ```text
//!   a head ends ──> a deferred free ──removes the first 32 at once──> complete        most values
//!                      └──the rest──> the queue ──> the background removes a few in each slice
//! ```
//!
//! - A thread that ends a head removes a bounded number of pieces or parts, whatever the value's length. If the queue
//!   is full, the thread removes all of them.
//! - A deferred free names objects and parts by numbers that are never reused, so it cannot remove a later item by
//!   mistake. Some of the pieces or parts may already have been removed.
//! - The queue does not outlive the process. In a memory file, the pieces and parts that it listed remain until they
//!   are evicted, or removed as orphans after a crash ([`crate::values::orphans`]).
//!
//! Bounds: see [`crate::values::free_queue::QUEUE_BYTES_MAX`].

use crate::core::counters::Counters;
use crate::core::facets::Commits;
use crate::core::lookup::find_locked;
use crate::core::store::Store;
use crate::items::unpublished::{Orphan, kill, unname};
use crate::layout::hidden_key::ANCHOR;
use crate::layout::key::Key;
use crate::layout::parts_head::PartsHead;
use crate::layout::slot::Slot;
use crate::values::free_queue::{DeferredFree, Remaining};
use crate::values::large::{piece_count, remove_piece};
use crate::values::part_walk::PartWalk;
use crate::values::parts::{page_bytes, remove_part};

/// The number of pieces and parts that are removed at once.
const AT_ONCE: usize = 32;
/// Number of tries to pass a lock that is held, if the queue is full.
const LOCK_TRIES: usize = 1000;

impl DeferredFree {
    pub(crate) fn of(store: &Store, orphan: Orphan) -> Self {
        match orphan {
            Orphan::Pieces { namespace, large } => {
                let left = Remaining::Pieces { next: 0, end: piece_count(store, large.bytes) };
                Self { namespace, object: large.object, left }
            }
            Orphan::Parts { namespace, address, bytes } => {
                let head = PartsHead::of(store.segments.heap.bytes(address, bytes)).expect("it was looked at");
                Self::of_object(namespace, head.object, PartWalk::of_head(&head))
            }
        }
    }

    /// Removes the next pieces or parts, at most `most`, and subtracts their number from `most`. Returns true if all
    /// are removed. Returns false if some remain or a lock could not be taken.
    pub(crate) fn free_some(&mut self, store: &Store, counters: &Counters, most: &mut usize) -> bool {
        let (namespace, object) = (self.namespace, self.object);
        while *most > 0 {
            match &mut self.left {
                Remaining::Pieces { next, end } if next == end => {
                    return remove_part(store, counters, namespace, object, ANCHOR).is_some();
                }
                Remaining::Pieces { next, .. } => {
                    if remove_piece(store, counters, namespace, object, *next).is_none() {
                        return false;
                    }
                    *next += 1;
                    *most -= 1;
                }
                Remaining::Parts { walk, ends } => {
                    let read = |page| page_bytes(store, namespace, object, page);
                    let Some(part) = walk.part(read) else {
                        return !*ends || remove_part(store, counters, namespace, object, ANCHOR).is_some();
                    };
                    if remove_part(store, counters, namespace, object, part).is_none() {
                        return false;
                    }
                    walk.advance(read);
                    *most -= 1;
                }
            }
        }
        false
    }
}

/// Removes the pieces or parts of a value that has lost its head.
pub(crate) fn free_orphan(store: &Store, counters: &Counters, orphan: Orphan) {
    free_deferred(store, counters, DeferredFree::of(store, orphan));
}

/// Removes the pieces or parts of a deferred free: the first of them at once, the rest in the background.
pub(crate) fn free_deferred(store: &Store, counters: &Counters, mut deferred: DeferredFree) {
    if deferred.free_some(store, counters, &mut { AT_ONCE }) {
        return;
    }
    if let Err(mut deferred) = store.deferred.push(deferred) {
        // Pieces or parts whose lock cannot be taken stay until they are evicted. No head names them.
        (0..LOCK_TRIES).find(|_| deferred.free_some(store, counters, &mut { usize::MAX }));
    }
    store.call_background();
}

/// Removes a piece or a part, if it exists. Returns `None` if its lock could not be taken.
pub(crate) fn remove_hidden(store: &Store, counters: &Counters, key: &Key<'_>) -> Option<()> {
    let locked = store.index.lock(key.hash)?;
    if let Some(seen) = find_locked(store, &locked, key) {
        unname(store, &locked, &seen, Slot::EMPTY);
        kill(store, counters, seen.address, &seen.layout);
    }
    Some(())
}

impl Orphan {
    /// Returns the number of the object to which the pieces or parts belong.
    pub(crate) fn object(&self, store: &Store) -> Option<u64> {
        match self {
            Self::Pieces { large, .. } => Some(large.object),
            Self::Parts { address, bytes, .. } => {
                PartsHead::of(store.segments.heap.bytes(*address, *bytes)).map(|head| head.object)
            }
        }
    }
}

impl Commits<'_, '_> {
    /// Removes the pieces or parts of a value that has lost its head, except if they belong to `kept`, an object that
    /// still has a head. If there are many, the background removes the rest later.
    pub(crate) fn free_orphan(self, orphan: Option<Orphan>, kept: Option<u64>) {
        if let Some(orphan) = orphan.filter(|o| kept.is_none() || o.object(self.guard.store) != kept) {
            let deferred = DeferredFree::of(self.guard.store, orphan);
            self.guard.commits().free_deferred(deferred);
        }
    }

    /// Removes the pieces or parts of a deferred free, or stores it until the open group of changes ends.
    pub(crate) fn free_deferred(self, deferred: DeferredFree) {
        if let Some(deferred) = self.guard.locks_mut().store_deferred(deferred) {
            free_deferred(self.guard.store, self.guard.counters(), deferred);
        }
    }
}
