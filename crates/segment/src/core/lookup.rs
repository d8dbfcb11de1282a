//! Finds items by key, and reads the fields of an item that was found.

use std::sync::atomic::Ordering::{Acquire, SeqCst};
use std::sync::atomic::fence;

use base::clock::UnixMillis;

use crate::core::op::{Expire, Item, Value};
use crate::core::snap::Snap;
use crate::core::store::{Store, is_sound, large_ref};
use crate::heap::segments::SegmentId;
use crate::index::{Hash, SlotHit};
use crate::layout::header::{EvictionQueue, SegmentHeader};
use crate::layout::item::{CAS_FIELD, EXPIRY, ItemKind, Layout, META, META_FETCHED, META_STALE, NUM, meta_secs};
use crate::layout::key::{Key, Namespace};
use crate::layout::parts_head::PartsHead;
use crate::layout::raw::Word64;
use crate::layout::slot::Slot;

/// An item that was found: its slot, its address and its layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundItem<'s> {
    pub(crate) word: &'s Word64,
    pub(crate) slot: Slot,
    pub(crate) address: usize,
    pub(crate) layout: Layout,
}

/// The reason why an item that still has its slot must not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The item has expired.
    Expired,
    /// The item's namespace was flushed after the item was stored.
    Flushed,
}

impl<'s> FoundItem<'s> {
    #[inline(always)]
    pub(crate) fn of(found: SlotHit<'s, (usize, Layout)>) -> Self {
        let (address, layout) = found.what;
        Self { word: found.word, slot: found.slot, address, layout }
    }
}

/// Returns the header of the segment that a slot names. The flag is true if the segment's items are in the key's
/// namespace and need no verification.
#[inline(always)]
pub(crate) fn named_in<'s>(store: &'s Store, key: &Key<'_>, slot: Slot) -> Option<(&'s SegmentHeader, bool)> {
    let header = store.segments.named(slot)?;
    Some((header, header.namespace_if_verified() == key.namespace))
}

/// Returns the address and layout of the slot's item if its key is `key`.
#[inline(always)]
fn matches(store: &Store, key: &Key<'_>, slot: Slot) -> Option<(usize, Layout)> {
    let address = slot.address();
    let (header, is_verified) = named_in(store, key, slot)?;
    if !is_verified {
        return matches_unverified(store, key, slot, header);
    }
    let layout = Layout::read(&store.segments.heap, address);
    let same = layout.key_len == key.bytes.len()
        && layout.is(ItemKind::Piece) == key.piece
        && layout.key(&store.segments.heap, address) == key.bytes;
    same.then_some((address, layout))
}

/// Returns the item that `slot` names, if the item is in memory and has this key.
pub(crate) fn seen_at<'s>(store: &Store, key: &Key<'_>, word: &'s Word64, slot: Slot) -> Option<FoundItem<'s>> {
    let (address, layout) = matches(store, key, slot)?;
    Some(FoundItem { word, slot, address, layout })
}

/// Finds the key's item without a lock, even if the item has expired or was flushed.
#[inline(always)]
pub(crate) fn find<'s>(store: &'s Store, key: &Key<'_>) -> Option<FoundItem<'s>> {
    store.index.find(key.hash, |slot| matches(store, key, slot)).map(FoundItem::of)
}

/// Finds the key's item under the key's lock, even if the item has expired or was flushed.
#[inline(always)]
pub(crate) fn find_locked<'s>(
    store: &'s Store,
    locked: &crate::index::Locked<'s>,
    key: &Key<'_>,
) -> Option<FoundItem<'s>> {
    locked.find(|slot| matches(store, key, slot)).map(FoundItem::of)
}

/// Returns the item, unless it has expired or was flushed.
#[inline(always)]
pub(crate) fn live<'s>(store: &Store, seen: Option<FoundItem<'s>>, now: UnixMillis) -> Option<FoundItem<'s>> {
    seen.filter(|s| s.ended(store, now).is_none())
}

impl FoundItem<'_> {
    /// Returns the reason why the item must not be read, or `None` if it may be read.
    #[inline(always)]
    pub(crate) fn ended(&self, store: &Store, now: UnixMillis) -> Option<EndReason> {
        if self.layout.has(EXPIRY) {
            let relative = self.layout.expiry(&store.segments.heap, self.address).load(Acquire);
            if store.segments.expire_at(self.address, relative) <= now {
                return Some(EndReason::Expired);
            }
        }
        let header = store.segments.header_of(self.address);
        (header.sequence() < store.flushed_before(header.namespace())).then_some(EndReason::Flushed)
    }

    /// Returns the expiry of the item.
    #[inline(always)]
    pub(crate) fn expire(&self, store: &Store) -> Expire {
        if self.layout.has(EXPIRY) {
            let relative = self.layout.expiry(&store.segments.heap, self.address).load(Acquire);
            Expire::At(store.segments.expire_at(self.address, relative))
        } else {
            Expire::Never
        }
    }

    /// Returns the item's CAS token. Callers must read the token before the value: [`crate::items::write`] explains
    /// in-place changes.
    #[inline(always)]
    pub(crate) fn token(&self, store: &Store) -> u64 {
        if self.layout.has(CAS_FIELD) {
            self.layout.cas_field(&store.segments.heap, self.address).load(Acquire)
        } else {
            store.place_token(self.address)
        }
    }

    /// Returns the item's META word (lease bits, last access, read flag), if the item has one.
    #[inline(always)]
    pub(crate) fn meta(&self, store: &Store) -> Option<u32> {
        self.layout.has(META).then(|| self.layout.meta(&store.segments.heap, self.address).load(Acquire))
    }

    /// Returns the item's value.
    #[inline(always)]
    pub(crate) fn value<'s>(&self, store: &'s Store) -> Value<'s> {
        let (heap, layout, address) = (&store.segments.heap, &self.layout, self.address);
        if layout.has(NUM) {
            Value::Integer(layout.number(heap, address).load(Acquire))
        } else if layout.is(ItemKind::Plain) {
            Value::Bytes(layout.value(heap, address))
        } else if layout.is(ItemKind::Head) {
            Value::Large(large_ref(layout.value(heap, address)))
        } else {
            typed(layout.value(heap, address))
        }
    }

    /// Returns the item as a caller sees it.
    #[inline(always)]
    pub(crate) fn item<'s>(&self, store: &'s Store) -> Item<'s> {
        // Read the token first and the value second. An in-place change writes the value first, so a returned token is
        // never newer than the value returned with it.
        let token = self.token(store);
        let value = self.value(store);
        let meta = self.meta(store);
        self.item_from(store, token, value, self.expire(store), meta, meta)
    }

    /// Returns the item as it is in the snapshot `snap`. The caller has proved that all words of `snap` belong to one
    /// instant. Fields that change in place are taken from the snapshot alone, because the words in the heap may be
    /// those of a later change.
    #[inline(always)]
    pub(crate) fn item_as<'s>(&self, store: &'s Store, snap: &Snap) -> Item<'s> {
        let value = if self.layout.has(NUM) { Value::Integer(snap.number()) } else { self.value(store) };
        self.item_from(store, snap.token(), value, snap.expire(store, self), self.meta(store), Some(snap.lease()))
    }

    /// Assembles an [`Item`]. `access_word` is the META word that gives the last access and the read flag. `lease` is
    /// the META word that gives the lease bits.
    #[inline(always)]
    fn item_from<'s>(
        &self,
        store: &'s Store,
        token: u64,
        value: Value<'s>,
        expire: Expire,
        access_word: Option<u32>,
        lease: Option<u32>,
    ) -> Item<'s> {
        let (heap, layout, address) = (&store.segments.heap, &self.layout, self.address);
        let (fetched, last_access) = access(store, self.slot, address, access_word);
        Item {
            key: layout.key(heap, address),
            value,
            client_flags: layout.client_flags(heap, address),
            expire,
            token,
            fetched,
            last_access,
            stale: lease.is_some_and(|lease| lease & META_STALE != 0),
            stored_bytes: layout.size as u64,
            ttl_class: store.segments.header_of(address).class(),
        }
    }

    /// Returns the object number if the item is the head of a large value or of a value in parts.
    pub(crate) fn object_at(&self, store: &Store) -> Option<u64> {
        object_in(store, self.address, &self.layout)
    }
}

/// Returns the object number if the item at an address is the head of a large value or of a value in parts.
pub(crate) fn object_in(store: &Store, address: usize, layout: &Layout) -> Option<u64> {
    let value = || layout.value(&store.segments.heap, address);
    match layout.kind() {
        ItemKind::Head => Some(large_ref(value()).object),
        ItemKind::Typed => PartsHead::of(value()).map(|head| head.object),
        ItemKind::Plain | ItemKind::Piece => None,
    }
}

/// Returns two values: true if the item was ever read, and the time of its last access. If the item has no META word,
/// the creation time of its segment is returned as the last access.
#[inline(always)]
pub(crate) fn access(store: &Store, slot: Slot, address: usize, meta: Option<u32>) -> (bool, UnixMillis) {
    match meta {
        Some(meta) => {
            let secs = u64::from(meta_secs(meta));
            (meta & META_FETCHED != 0, store.started.plus_ms(secs * 1000))
        }
        None => {
            let header = store.segments.header_of(address);
            (slot.freq() > 0 || header.queue() == EvictionQueue::Main, header.created())
        }
    }
}

/// Returns true if slots of the index may name items that do not exist, or that are damaged.
#[inline]
pub(crate) fn is_unverified(store: &Store) -> bool {
    store.unverified.load(SeqCst)
}

/// Clears the unverified mark of a new, still empty segment, if the verification pass has ended since the segment was
/// marked.
#[cold]
pub(crate) fn check_mark(store: &Store, id: SegmentId) {
    fence(SeqCst);
    if !store.unverified.load(SeqCst) {
        store.segments.header(id).set_unverified(false);
    }
}

/// Does the same as [`matches()`] for a segment that may be marked as unverified. It also checks that the item lies
/// within the segment and that its checksum is right.
#[cold]
#[inline(never)]
pub(crate) fn matches_unverified(
    store: &Store,
    key: &Key<'_>,
    slot: Slot,
    header: &SegmentHeader,
) -> Option<(usize, Layout)> {
    if !header.is_unverified() || header.namespace() != key.namespace {
        return None;
    }
    let address = slot.address();
    let layout = item_in(store, header, address)?;
    let same = layout.key_len == key.bytes.len()
        && layout.is(ItemKind::Piece) == key.piece
        && layout.key(&store.segments.heap, address) == key.bytes;
    (same && is_sound(store, address, &layout)).then_some((address, layout))
}

/// Returns true if an item may be used: its segment is not marked as unverified, or the item's checksum is right.
#[inline]
pub(crate) fn is_trusted(store: &Store, header: &SegmentHeader, address: usize, layout: &Layout) -> bool {
    !header.is_unverified() || is_sound(store, address, layout)
}

/// Returns the layout of the item at an address, or `None` if no item at that address fits into the written part of the
/// segment.
pub(crate) fn item_in(store: &Store, header: &SegmentHeader, address: usize) -> Option<Layout> {
    let written = header.written.load(Acquire) as usize;
    let left = written.saturating_sub(address & (store.segments.segment_bytes() - 1));
    Layout::read_within(&store.segments.heap, address, left)
}

/// Returns the namespace, address and layout of the item that a slot names. Returns `None` if the slot names no item.
/// In a damaged memory file a slot can have any value.
pub(crate) fn item_of(store: &Store, slot: Slot) -> Option<(u8, usize, Layout)> {
    let (header, address) = (store.segments.named(slot)?, slot.address());
    let (namespace, layout) = (header.namespace(), item_in(store, header, address)?);
    let is_its = hash_at(store, namespace, address, &layout).tag() == slot.tag();
    (is_its && is_trusted(store, header, address, &layout)).then_some((namespace, address, layout))
}

/// Returns the hash of the key of an existing item.
pub(crate) fn hash_at(store: &Store, namespace: u8, address: usize, layout: &Layout) -> Hash {
    key_at(store, namespace, address, layout).hash
}

/// Returns the key of an existing item.
pub(crate) fn key_at<'s>(store: &'s Store, namespace: u8, address: usize, layout: &Layout) -> Key<'s> {
    let bytes = layout.key(&store.segments.heap, address);
    match layout.kind() {
        ItemKind::Piece => store.hasher.piece(namespace, bytes),
        _ => store.hasher.key(Namespace(namespace), bytes),
    }
}

/// Returns the item that a slot names, if its key has this namespace and this hash. `piece`: true if the key has to be
/// a hidden one.
pub(crate) fn item_of_hash(
    store: &Store,
    slot: Slot,
    namespace: u8,
    piece: bool,
    hash: Hash,
) -> Option<(usize, Layout)> {
    let address = slot.address();
    let header = store.segments.named(slot).filter(|header| header.namespace() == namespace)?;
    let layout = item_in(store, header, address)?;
    let is_its = layout.is(ItemKind::Piece) == piece && hash_at(store, namespace, address, &layout) == hash;
    (is_its && is_trusted(store, header, address, &layout)).then_some((address, layout))
}

/// Splits the stored bytes of a typed value into the type byte and the value's bytes.
fn typed(bytes: &[u8]) -> Value<'_> {
    bytes.split_first().map_or(Value::Bytes(bytes), |(kind, bytes)| Value::Typed { kind: *kind, bytes })
}
