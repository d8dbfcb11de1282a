//! Reads of items. A read takes no lock, and writes only the item's access frequency and time of last access, or the
//! mark in the slot of an item that has ended.
//!
//! Keys that are read together are read in three stages, so that the waits for memory overlap:
//!
//! ```text
//!   Items::prefetch       prefetches the index bucket
//!   Items::prefetch_item  finds the first slot with the key's tag, prefetches the segment header and the item
//!   Items::read           compares keys, beginning with that slot, and returns the value
//! ```
//!
//! A lookahead is a read that began before its request is executed. The read loads the slot again. If the slot does not
//! hold the key's item, the read looks up the key again.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use base::clock::UnixMillis;

use crate::core::facets::Items;
use crate::core::handle::Guard;
use crate::core::lookup::{EndReason, FoundItem, find, named_in};
use crate::core::op::{Item, Value};
use crate::core::store::Store;
use crate::heap::samples::RequestKind;
use crate::index::bump;
use crate::layout::item::{CAS_TAKEN, META, META_FETCHED, META_STALE, META_WON, bare, meta_secs, meta_word};
use crate::layout::key::{Key, KeyHash};
use crate::layout::raw::Word64;
use crate::layout::slot::Slot;

/// The most likely place of a key's item, found by [`Items::prefetch_item`]. The default value names no place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prefetched<'l>(Option<&'l Word64>);

/// The result of a plain read.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'t> {
    /// The value.
    pub value: Value<'t>,
    /// Flags that the client stored with the value.
    pub client_flags: u32,
    /// True if the item is stale, or if a client holds the right to refill the item: see [`crate::ItemsMut::fetch`].
    pub is_leased: bool,
}

impl FoundItem<'_> {
    /// Returns the value of an item, without the fields that only some callers need.
    #[inline(always)]
    fn hit<'s>(&self, store: &'s Store) -> Hit<'s> {
        let client_flags = self.layout.client_flags(&store.segments.heap, self.address);
        let is_leased = self.meta(store).is_some_and(|meta| meta & (META_STALE | META_WON) != 0);
        Hit { value: self.value(store), client_flags, is_leased }
    }

    /// Counts an access in the slot, and in META if the item has one.
    #[inline(always)]
    pub(crate) fn note_access(&self, store: &Store, now: UnixMillis) {
        bump(self.word, self.slot);
        if self.layout.has(META) {
            self.note_access_meta(store, now);
        }
    }

    /// Marks the item's CAS token as known to a client. The caller holds the stripe lock of the item's key.
    pub(crate) fn mark_taken(&self, store: &Store) -> Self {
        store.segments.heap.word32(self.address).fetch_or(CAS_TAKEN, AcqRel);
        Self { layout: self.layout.taken(), ..*self }
    }

    fn note_access_meta(&self, store: &Store, now: UnixMillis) {
        let word = self.layout.meta(&store.segments.heap, self.address);
        let meta = word.load(Relaxed);
        let secs = store.meta_now(now);
        if meta & META_FETCHED == 0 || meta_secs(meta) != secs {
            let next = meta_word(secs, meta & (META_STALE | META_WON) | META_FETCHED);
            // If the exchange fails, another reader recorded an access at the same time, or the item's lease changed.
            let _ = word.compare_exchange(meta, next, Relaxed);
        }
    }
}

/// Returns the value of the item in the slot `word`, if the item is live, has this key and has no fields besides its
/// value. Nearly every lookahead leads to such an item. The function does the work of [`crate::core::lookup::find`],
/// [`FoundItem::ended`] and [`FoundItem::note_access`] for it.
#[inline(always)]
fn bare_at<'s>(store: &'s Store, key: &Key<'_>, word: &Word64) -> Option<&'s [u8]> {
    let slot = Slot(word.load(Acquire));
    if slot.tag() != key.hash.tag() || !slot.is_item() || key.piece {
        return None;
    }
    let (header, is_verified) = named_in(store, key, slot)?;
    if !is_verified {
        return None;
    }
    let (bytes, value) = bare(&store.segments.heap, slot.address())?;
    if bytes != key.bytes || header.sequence() < store.flushed_before(key.namespace) {
        return None;
    }
    bump(word, slot);
    Some(value)
}

impl<'g, 'l> Items<'g, 'l> {
    #[inline(always)]
    pub(crate) fn find_live(self, key: &Key<'_>) -> Option<FoundItem<'l>> {
        let store = self.guard.store;
        let seen = find(store, key)?;
        match seen.ended(store, self.guard.now) {
            None => Some(seen),
            Some(ended) => {
                note_ended_read(self.guard, &seen, ended);
                None
            }
        }
    }

    /// Returns the key's item. Counts as an access.
    #[inline]
    pub fn get(self, key: &Key<'_>) -> Option<Item<'g>> {
        self.guard.sample(key, RequestKind::Read);
        let Some(seen) = self.find_live(key) else { return missing(self.guard, key) };
        seen.note_access(self.guard.store, self.guard.now);
        Some(seen.item(self.guard.store))
    }

    /// Finds the likely place of the key's item and prefetches the item's cache lines. The caller has called
    /// [`Items::prefetch`] for the key before.
    #[inline]
    pub fn prefetch_item(self, key: KeyHash) -> Prefetched<'l> {
        let (store, mut word) = (self.guard.store, None);
        store.index.first_match(key.hash, |at, slot| {
            store.segments.prefetch_header(slot.address());
            store.segments.heap.prefetch(slot.address());
            word = Some(at);
        });
        Prefetched(word)
    }

    /// Returns the key's value. The lookup begins at the place in `ahead`. Counts as an access.
    #[inline(always)]
    pub fn read(self, key: &Key<'_>, ahead: Prefetched<'_>) -> Option<Hit<'g>> {
        self.guard.sample(key, RequestKind::Read);
        let store = self.guard.store;
        if let Some(value) = ahead.0.and_then(|word| bare_at(store, key, word)) {
            return Some(Hit { value: Value::Bytes(value), client_flags: 0, is_leased: false });
        }
        let seen = self.find_live(key)?;
        seen.note_access(store, self.guard.now);
        Some(seen.hit(store))
    }

    /// Returns the key's item, without counting an access.
    pub fn peek(self, key: &Key<'_>) -> Option<Item<'g>> {
        let Some(seen) = self.find_live(key) else { return missing(self.guard, key) };
        Some(seen.item(self.guard.store))
    }

    /// Returns the number of reads that the index has counted for the key's item, at most 7. Does not count an access.
    pub fn reads(self, key: &Key<'_>) -> Option<u64> {
        self.find_live(key).map(|seen| seen.slot.freq())
    }

    /// Prefetches a key that is about to be changed: the key's two index buckets and stripe lock, and the other words
    /// that a change writes.
    #[inline]
    pub fn prefetch_change(self, key: &Key<'_>) {
        self.guard.store.index.prefetch_change(key.hash);
    }

    /// Prefetches the key's first index bucket. Callers call this function for a batch of keys, then
    /// [`Items::prefetch_item`] for each, then [`Items::read`].
    #[inline]
    pub fn prefetch(self, key: &Key<'_>) {
        self.guard.store.index.prefetch(key.hash);
    }
}

/// Counts the first read of an item that has ended. As in memcached, which removes such an item at once, later reads
/// count only as misses.
#[cold]
fn note_ended_read(guard: &Guard<'_>, seen: &FoundItem<'_>, ended: EndReason) {
    let marks = |slot: Slot| seen.word.compare_exchange(seen.slot.0, slot.0, Relaxed).is_ok();
    // If the exchange fails, another thread has counted the item or has changed the slot.
    if !seen.slot.with_end_read().is_some_and(marks) {
        return;
    }
    match ended {
        EndReason::Expired => guard.counters().read_expired.add(1),
        EndReason::Flushed => guard.counters().read_flushed.add(1),
    }
}

/// Records a miss in memory for a key whose item may be on flash.
#[cold]
#[inline(never)]
fn missing<'g>(guard: &'g Guard<'_>, key: &Key<'_>) -> Option<Item<'g>> {
    if guard.tiered {
        guard.tier().note_missing(key);
    }
    None
}
