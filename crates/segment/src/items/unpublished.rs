//! New items. An operation first writes the item's bytes, without a lock. It then stores the slot under the stripe
//! lock.
//!
//! ```text
//!   write     reserve space, write the header with DEAD, advance the segment's write offset, write fields, key, value
//!   lock      lock the stripe of the key's group (or give the space back and park)
//!   decide    check that the key's present item is still the one for which the new item was written
//!   publish   clear DEAD of the new item, store the slot, set DEAD of the old item
//!   unlock    unlock the stripe, and only then reply
//! ```
//! If the next start rebuilds the index from the items without DEAD ([`crate::durable::rebuild`]), the old item's DEAD
//! is set before the slot is stored. So a client that has seen the new item does not see the old item after a crash.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use base::clock::UnixMillis;

use crate::core::capacity::are_apart;
use crate::core::counters::Counters;
use crate::core::ended_keys::KeyEnd;
use crate::core::lookup::{EndReason, FoundItem, access, item_of};
use crate::core::op::{Expire, LargeRef, OpError, Put};
use crate::core::open::{OpenTable, Want};
use crate::core::store::{LARGE_REF_BYTES, Store, index_is_loaded, large_ref, totals, write_sum};
use crate::index::Locked;
use crate::layout::header::{EvictionQueue, SegmentHeader};
use crate::layout::item::{
    CAS_FIELD, CAS_TAKEN, CLIENT_FLAGS, DEAD, EXPIRY, FILLER_BYTES, ItemKind, Layout, META, NUM, needs_align8,
};
use crate::layout::key::{Key, Namespace};
use crate::layout::parts_head::{PartsHead, object_of};
use crate::layout::raw::Reserved;
use crate::layout::slot::Slot;
use crate::layout::ttl;
use crate::tier::flash_slots::{dies_on_flash, publish_over_flash, release};

/// A value to be written: two byte strings to be joined, a number, or room for bytes that arrive later.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'v> {
    Bytes(&'v [u8], &'v [u8]),
    Number(u64),
    /// Room for `bytes` bytes that are still to be written, and for `tail` bytes behind them that are not stored.
    Room {
        bytes: usize,
        tail: usize,
    },
}

/// All of a new item except its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'v> {
    pub(crate) kind: ItemKind,
    pub(crate) content: Content<'v>,
    pub(crate) client_flags: u32,
    pub(crate) expire: Expire,
    /// The item's CAS token, or `None` if the item's address is its token.
    pub(crate) token: Option<u64>,
    /// True if a client knows the token, which must therefore change with every change of the value.
    pub(crate) taken: bool,
    pub(crate) meta: Option<u32>,
    pub(crate) queue: EvictionQueue,
}

/// A new item that no slot names yet.
#[derive(Debug)]
pub(crate) struct Unpublished {
    pub(crate) layout: Layout,
    pub(crate) reserved: Reserved,
}

/// A value that has lost its head. Its pieces or parts have to be removed after the stripe lock is released.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Orphan {
    /// A large value.
    Pieces { namespace: u8, large: LargeRef },
    /// A value in parts. Its head is still readable at `address` until the guard or the slice ends.
    Parts { namespace: u8, address: usize, bytes: usize },
}

impl Unpublished {
    pub(crate) fn address(&self) -> usize {
        self.reserved.offset()
    }
}

impl<'v> Plan<'v> {
    /// Returns the plan of a new item without flags or expiry, with a token that no client knows.
    pub(crate) fn bare(kind: ItemKind, content: Content<'v>) -> Self {
        let (expire, queue) = (Expire::Never, EvictionQueue::Small);
        Self { kind, content, client_flags: 0, expire, token: None, taken: false, meta: None, queue }
    }

    /// Returns the plan of the new item that a put requests, regardless of an existing item.
    pub(crate) fn of(put: &Put<'_>, kind: ItemKind, content: Content<'v>) -> Self {
        let Put { client_flags, expire, token, want_token: taken, .. } = *put;
        Self { kind, content, client_flags, expire, token, taken, meta: None, queue: EvictionQueue::Small }
    }

    /// Returns the number of the object whose head this item is, or `None` if the item is no head.
    pub(crate) fn object(&self) -> Option<u64> {
        match (self.kind, self.content) {
            (ItemKind::Head, Content::Bytes(value, _)) => Some(large_ref(value).object),
            (ItemKind::Typed, Content::Bytes(a, b)) => object_of(a, b),
            _ => None,
        }
    }

    /// Returns the number of bytes to reserve behind the item for a tail: the bytes of one filler, or 0 if the item's
    /// padding holds the tail.
    fn slack(&self, layout: &Layout) -> usize {
        let Content::Room { bytes, tail } = self.content else { return 0 };
        debug_assert!(tail <= FILLER_BYTES);
        let padding = layout.size - layout.value_address(0) - bytes;
        if padding < tail { FILLER_BYTES } else { 0 }
    }

    /// Returns the layout of the item.
    pub(crate) fn layout(&self, key_len: usize) -> Layout {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        let bits = bit(self.client_flags != 0, CLIENT_FLAGS)
            | bit(self.expire != Expire::Never, EXPIRY)
            | bit(self.token.is_some(), CAS_FIELD)
            | bit(self.taken || self.token.is_some(), CAS_TAKEN)
            | bit(self.meta.is_some(), META)
            | bit(matches!(self.content, Content::Number(_)), NUM);
        let value_len = match self.content {
            Content::Bytes(a, b) => a.len() + b.len(),
            Content::Number(_) => 8,
            Content::Room { bytes, .. } => bytes,
        };
        match self.content {
            Content::Room { tail, .. } if tail > 0 => Layout::plan_with_slack(self.kind, bits, key_len, value_len),
            _ => Layout::plan(self.kind, bits, key_len, value_len),
        }
    }
}

/// Reserves space for a new item and writes the item into it, marked DEAD. Room for a value stays unwritten.
pub(crate) fn unpublished(
    store: &Store,
    open: &mut OpenTable,
    key: &Key<'_>,
    plan: &Plan<'_>,
    now: UnixMillis,
) -> Result<Unpublished, OpError> {
    let layout = plan.layout(key.bytes.len()).in_heap(&store.segments.heap);
    if let Some(named) = store.named.as_ref().filter(|_| layout.may_be_head()) {
        named.note_unpublished(plan.object());
    }
    let want = Want {
        namespace: key.namespace,
        class: ttl::class_of(plan.expire, now),
        queue: plan.queue,
        size: layout.size + plan.slack(&layout),
        align8: needs_align8(layout.header),
    };
    let mut reserved = open.reserve(store, want, now)?;
    let (heap, address) = (&store.segments.heap, reserved.offset());
    let segment = store.segments.header_of(address);
    layout.with_slack(reserved.len() - layout.size).write_front(heap, &reserved, plan.client_flags);
    // After the header is written, so that a walk can read the segment up to its write offset even if the process is
    // killed now.
    segment.reach((address & (store.segments.segment_bytes() - 1)) + reserved.len());
    if let Expire::At(at) = plan.expire {
        let relative = ttl::relative(segment.unit_ms(), segment.created(), at);
        layout.expiry(heap, address).store(relative, Relaxed);
        segment.note_expiry(ttl::absolute(segment.unit_ms(), segment.created(), relative).0);
    } else {
        segment.note_expiry(u64::MAX);
    }
    if let Some(token) = plan.token {
        layout.cas_field(heap, address).store(token, Relaxed);
    }
    if let Some(meta) = plan.meta {
        layout.meta(heap, address).store(meta, Relaxed);
    }
    layout.write_key(heap, &mut reserved, key.bytes);
    match plan.content {
        Content::Bytes(a, b) => {
            layout.write_value(heap, &mut reserved, 0, a);
            layout.write_value(heap, &mut reserved, a.len(), b);
        }
        Content::Number(number) => layout.number(heap, address).store(number, Relaxed),
        Content::Room { .. } => return Ok(Unpublished { layout, reserved }),
    }
    write_sum(store, address, &layout);
    Ok(Unpublished { layout, reserved })
}

/// Makes the unpublished item the key's item. `old` is the result of [`crate::core::lookup::find_locked`] under the
/// same lock.
///
/// Returns the orphan, if a value in pieces or parts lost its head. The caller removes the pieces or parts after it has
/// released the lock. If a new slot would displace an item from a full index bucket and must not ([`is_to_wait`]),
/// changes nothing and returns the unpublished item as the error.
pub(crate) fn publish(
    store: &Store,
    locked: &Locked<'_>,
    counters: &Counters,
    key: &Key<'_>,
    unpublished: Unpublished,
    old: Option<&FoundItem<'_>>,
    freq: Option<u64>,
) -> Result<Option<Orphan>, Unpublished> {
    if old.is_none() && store.tier.is_some() && !key.piece && locked.on_flash().next().is_some() {
        let slot = count_unpublished(store, counters, key, &unpublished).with_freq(freq.unwrap_or(0));
        if store.finds {
            locked.on_flash().for_each(|(_, old)| dies_on_flash(store, old));
            undead(store, &unpublished);
        }
        publish_over_flash(store, locked, counters, key.namespace, slot);
        locked.note_birth();
        undead(store, &unpublished);
        return Ok(None);
    }
    let room = if old.is_none() { Some(locked.room()) } else { None };
    if room.as_ref().is_some_and(|room| room.holds.is_item() && is_to_wait(store, key.namespace, room.holds)) {
        return Err(unpublished);
    }
    let slot = count_unpublished(store, counters, key, &unpublished);
    Ok(match (old, room) {
        (Some(old), _) => {
            undead(store, &unpublished);
            dies_first(store, old.address);
            locked.replace(old.word, old.slot, slot.with_freq(freq.unwrap_or(0)), freq.is_none());
            kill(store, counters, old.address, &old.layout)
        }
        (None, None) => unreachable!("room was looked for"),
        (None, Some(room)) => {
            if room.displaced {
                store.call_background();
            }
            counters.ghost_hits.add(u64::from(room.ghost));
            counters.displaced.add(u64::from(room.displaced));
            let first = if room.ghost { store.index.ghosts.freq() } else { 0 };
            if room.holds.is_flash() {
                dies_on_flash(store, room.holds);
                release(store, counters, room.holds, key.namespace, None);
            }
            if room.holds.is_item() {
                slot_dies_first(store, room.holds);
            }
            undead(store, &unpublished);
            locked.replace(room.word, room.holds, slot.with_freq(freq.unwrap_or(first)), false);
            locked.note_birth();
            room.holds.is_item().then(|| evict_slot(store, counters, room.holds)).flatten()
        }
    })
}

/// Counts an unpublished item as an item. Returns the slot that names it.
#[inline(always)]
pub(crate) fn count_unpublished(store: &Store, counters: &Counters, key: &Key<'_>, unpublished: &Unpublished) -> Slot {
    let address = unpublished.address();
    let header = store.segments.header_of(address);
    header.items.store(header.items.load(Relaxed) + 1, Release);
    if key.piece {
        note_hidden(header, counters, key.namespace, unpublished.layout.size);
    } else {
        counters.note_added(key.namespace, unpublished.layout.size);
    }
    Slot::item(key.hash.tag(), 0, header.slot_generation(), address)
}

/// Returns true if a new item must wait for room and must not replace the item that the slot `holds` names in an
/// overfull index bucket.
#[cold]
fn is_to_wait(store: &Store, namespace: u8, holds: Slot) -> bool {
    let of = store.segments.named(holds).map(SegmentHeader::namespace);
    if of.is_some_and(|of| are_apart(store, namespace, of)) {
        store.index_crowded.store(true, Relaxed);
        store.call_background();
        return true;
    }
    // During a rebuild, the replaced item may hide an older item of its key that the rebuild has not found yet.
    store.keeps(Namespace(namespace)) || store.is_rebuilding() || index_can_grow(store)
}

/// Returns true if the index has no slot for a new item and will not have one soon.
#[cold]
pub(crate) fn no_place(store: &Store, namespace: u8) -> bool {
    let crowded = store.index_crowded.load(Relaxed);
    let grows = index_can_grow(store) || crowded && store.index.groups() < store.memory.groups_max();
    (crowded || store.keeps(Namespace(namespace))) && !grows
}

/// Returns true if the index is over its load or growing already, so that an overfull index bucket will have room
/// soon.
pub(crate) fn index_can_grow(store: &Store) -> bool {
    store.call_background();
    store.index.is_growing() || index_is_loaded(store, &totals(store))
}

pub(crate) fn undead(store: &Store, unpublished: &Unpublished) {
    // A plain store suffices, because every thread that changes a header holds the stripe lock.
    store.segments.heap.word32(unpublished.address()).store(unpublished.layout.header & !DEAD, Release);
}

/// Counts the item at `address` as dead. The item's slot is already cleared or names another item. The caller holds the
/// stripe lock.
pub(crate) fn kill(store: &Store, counters: &Counters, address: usize, layout: &Layout) -> Option<Orphan> {
    let before = store.segments.heap.word32(address).fetch_or(DEAD, AcqRel);
    debug_assert!(before & DEAD == 0 || store.marks_first, "an item dies once");
    let header = store.segments.header_of(address);
    let namespace = header.namespace();
    header.note_dead(layout.size);
    if layout.is(ItemKind::Piece) {
        header.note_dead_hidden();
        counters.note_hidden_removed(namespace, layout.size);
    } else {
        counters.note_removed(namespace, layout.size);
        if layout.is(ItemKind::Plain) {
            return None;
        }
    }
    orphan_at(store, address, layout)
}

/// Returns the value in pieces or parts whose head is the item at an address, or `None` if the item is no head.
pub(crate) fn orphan_at(store: &Store, address: usize, layout: &Layout) -> Option<Orphan> {
    let (heap, namespace) = (&store.segments.heap, store.segments.header_of(address).namespace());
    match layout.kind() {
        ItemKind::Head if layout.value_len == LARGE_REF_BYTES && !layout.has(NUM) => {
            Some(Orphan::Pieces { namespace, large: large_ref(layout.value(heap, address)) })
        }
        ItemKind::Typed if !layout.has(NUM) => {
            let value = layout.value(heap, address);
            PartsHead::of(value)?;
            Some(Orphan::Parts { namespace, address: layout.value_address(address), bytes: value.len() })
        }
        ItemKind::Plain | ItemKind::Piece | ItemKind::Head | ItemKind::Typed => None,
    }
}

/// Marks an item as dead before it loses its slot to another key.
#[cold]
pub(crate) fn slot_dies_first(store: &Store, slot: Slot) {
    if let Some((_, address, _)) = item_of(store, slot) {
        dies_first(store, address);
    }
}

/// Counts an item that lost its slot to another key as evicted.
pub(crate) fn evict_slot(store: &Store, counters: &Counters, slot: Slot) -> Option<Orphan> {
    let (namespace, address, layout) = item_of(store, slot)?;
    let meta = layout.has(META).then(|| layout.meta(&store.segments.heap, address).load(Relaxed));
    let (fetched, _) = access(store, slot, address, meta);
    counters.note_evicted(namespace, &layout, fetched);
    counters.evicted_by_index.add(1);
    leave_displaced(store, namespace, address, &layout);
    kill(store, counters, address, &layout)
}

/// Leaves the key of an item that another key's item displaces to be reported, unless the item was flushed: clients may
/// have a copy of its value.
#[cold]
pub(crate) fn leave_displaced(store: &Store, namespace: u8, address: usize, layout: &Layout) {
    let (header, heap) = (store.segments.header_of(address), &store.segments.heap);
    if layout.is(ItemKind::Piece) || header.sequence() < store.flushed_before(namespace) {
        return;
    }
    // The time of the latest slice: displacement knows no other.
    let now = UnixMillis(store.persistent.clock_ms.load(Relaxed));
    let expires_at = || store.segments.expire_at(address, layout.expiry(heap, address).load(Relaxed));
    let is_past = layout.has(EXPIRY) && expires_at() <= now;
    let end = if is_past { KeyEnd::Expired } else { KeyEnd::Evicted };
    store.ended_keys.add(namespace, layout.key(heap, address), end);
    store.call_background();
}

/// Counts a value that has ended because a part of it was lost, and leaves its key to be reported.
pub(crate) fn note_broken(store: &Store, counters: &Counters, key: &Key<'_>, seen: &FoundItem<'_>) {
    counters.large_broken.add(1);
    let (fetched, _) = access(store, seen.slot, seen.address, seen.meta(store));
    counters.note_evicted(key.namespace, &seen.layout, fetched);
    store.ended_keys.add(key.namespace, key.bytes, KeyEnd::Evicted);
    store.call_background();
}

/// Counts an item that is being replaced or removed as expired or flushed, if the item had already ended. Returns true
/// if the item had ended.
pub(crate) fn note_ended(store: &Store, counters: &Counters, seen: Option<&FoundItem<'_>>, now: UnixMillis) -> bool {
    let Some(seen) = seen else { return false };
    let ended = seen.ended(store, now);
    match ended {
        // The pieces and parts of a value count with their head.
        Some(_) if seen.layout.is(ItemKind::Piece) => {}
        Some(EndReason::Expired) => {
            let (fetched, _) = access(store, seen.slot, seen.address, seen.meta(store));
            counters.note_expired(store.segments.header_of(seen.address).namespace(), fetched);
        }
        Some(EndReason::Flushed) => counters.note_flushed(store.segments.header_of(seen.address).namespace()),
        None => {}
    }
    ended.is_some()
}

/// Records that the published item is a piece or a part.
#[cold]
#[inline(never)]
fn note_hidden(header: &SegmentHeader, counters: &Counters, namespace: u8, bytes: usize) {
    header.hidden.store(header.hidden.load(Relaxed) + 1, Release);
    counters.note_hidden_added(namespace, bytes);
}

pub(crate) fn mark_dead(store: &Store, address: usize) {
    let _ = store.segments.heap.word32(address).fetch_or(DEAD, AcqRel);
}

/// Marks an item as dead before it loses its slot, if the next start rebuilds the index from the items without DEAD.
#[inline(always)]
pub(crate) fn dies_first(store: &Store, address: usize) {
    if store.marks_first {
        mark_dead(store, address);
    }
}

/// Replaces an item's slot by `to`. The caller holds the stripe lock.
#[inline(always)]
pub(crate) fn unname(store: &Store, locked: &Locked<'_>, seen: &FoundItem<'_>, to: Slot) {
    dies_first(store, seen.address);
    locked.replace(seen.word, seen.slot, to, false);
}
