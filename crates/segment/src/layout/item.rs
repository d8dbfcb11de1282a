//! An item's bytes: one header word, optional fields, key, value.
//!
//! ```text
//!  31      24 23        10  9     8      7      6      5      4     3     2    1 0
//! +----------+------------+------+-----+-----+------+------+-----+-----+------+------+
//! | key len  | value len  | DEAD | CAS | CAS |CLIENT|EXPIRY| NUM | EXT | META | type |   header, Word32
//! |    8     |    14      |      |TAKEN|FIELD|FLAGS |      |     | LEN |      |  2   |
//! +----------+------------+------+-----+-----+------+------+-----+-----+------+------+
//! [EXT_LEN: value len 4, key len 2, zero 2] [META 4] [client flags 4] [expiry 4] [CAS 8] key [pad] value [pad]
//! [in a memory file: sum 4]
//! ```
//!
//! - Items begin at multiples of 4. An item with NUM or CAS_FIELD begins at a multiple of 8. Its CAS field and its
//!   number are at the next multiples of 8, so that both are atomic words of one width.
//! - The checksum covers the frozen fields: see [`Layout::frozen`] and [`crate::heap::checksums`].
//! - DEAD, CAS_TAKEN, expiry, META, the CAS field and the number change in place. All other fields are frozen at
//!   publication.
//! - META: `last access, s 26 | stale 1 | won 1 | fetched 1 | kind 3 (always 0)`, from the high bit down.

use std::sync::atomic::Ordering;

use crate::layout::raw::{Heap, Reserved};

pub(crate) const DEAD: u32 = 1 << 9;
pub(crate) const CAS_TAKEN: u32 = 1 << 8;
pub(crate) const CAS_FIELD: u32 = 1 << 7;
pub(crate) const CLIENT_FLAGS: u32 = 1 << 6;
pub(crate) const EXPIRY: u32 = 1 << 5;
pub(crate) const NUM: u32 = 1 << 4;
const EXT_LEN: u32 = 1 << 3;
pub(crate) const META: u32 = 1 << 2;
const KIND_MASK: u32 = 3;

const KEY_SHIFT: u32 = 24;
const VALUE_SHIFT: u32 = 10;
const VALUE_MAX_SHORT: usize = (1 << 14) - 1;
const KEY_MAX_SHORT: usize = (1 << 8) - 1;
/// The maximum length of a key, in bytes: the maximum of the extended length field.
pub(crate) const KEY_BYTES_MAX: usize = u16::MAX as usize;

pub(crate) const META_STALE: u32 = 1 << 5;
pub(crate) const META_WON: u32 = 1 << 4;
pub(crate) const META_FETCHED: u32 = 1 << 3;
const META_SECS_SHIFT: u32 = 6;

/// The role of an item in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// An item with a key and a value.
    Plain = 0,
    /// The head of a large value. The head's value names the object to which the pieces belong.
    Head = 1,
    /// A piece of a large value, under a hidden key.
    Piece = 2,
    /// An item with a key and a value whose first byte is a type. Type and value are opaque to the store.
    Typed = 3,
}

/// The positions of an item's fields, in bytes from the item's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) header: u32,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
    meta: u32,
    flags: u32,
    expiry: u32,
    cas: u32,
    key: u32,
    value: u32,
    /// The size of the whole item with its padding, in bytes; a multiple of 4.
    pub(crate) size: usize,
}

/// Returns true if the item begins at a multiple of 8.
#[inline(always)]
pub(crate) fn needs_align8(header: u32) -> bool {
    header & (NUM | CAS_FIELD) != 0
}

/// The header bits that are set in an item that is not plain, or that has fields besides header, key and value.
const SHAPE: u32 = KIND_MASK | META | EXT_LEN | NUM | EXPIRY | CLIENT_FLAGS | CAS_FIELD;

/// Returns key and value of the item at `address` if it has no other fields, as most items. This costs less than
/// reading a [`Layout`].
#[inline(always)]
pub(crate) fn bare(heap: &Heap, address: usize) -> Option<(&[u8], &[u8])> {
    let header = heap.word32(address).load(Ordering::Acquire);
    if header & SHAPE != 0 {
        return None;
    }
    let (key_len, value_len) = ((header >> KEY_SHIFT) as usize, (header >> VALUE_SHIFT) as usize & VALUE_MAX_SHORT);
    Some(heap.bytes(address + 4, key_len + value_len).split_at(key_len))
}

#[inline(always)]
const fn align(offset: u32, to: u32) -> u32 {
    (offset + to - 1) & !(to - 1)
}

impl Layout {
    /// Returns the layout of a new item. `bits` are the item's flag bits, without DEAD and EXT_LEN.
    pub(crate) fn plan(kind: ItemKind, bits: u32, key_len: usize, value_len: usize) -> Self {
        debug_assert!(bits & !(CAS_TAKEN | CAS_FIELD | CLIENT_FLAGS | EXPIRY | NUM | META) == 0);
        debug_assert!(key_len <= KEY_BYTES_MAX && value_len <= u32::MAX as usize);
        debug_assert!(bits & NUM == 0 || value_len == 8);
        let mut header = kind as u32 | bits;
        if key_len > KEY_MAX_SHORT || value_len > VALUE_MAX_SHORT {
            header |= EXT_LEN;
        } else {
            header |= (key_len as u32) << KEY_SHIFT | (value_len as u32) << VALUE_SHIFT;
        }
        Self::of(header, key_len, value_len)
    }

    /// Returns the layout of a new item that may have [`FILLER_BYTES`] bytes of slack behind it. The item's length
    /// field can represent the length with the slack.
    pub(crate) fn plan_with_slack(kind: ItemKind, bits: u32, key_len: usize, value_len: usize) -> Self {
        let plan = Self::plan(kind, bits, key_len, value_len);
        if plan.has(EXT_LEN) || value_len + FILLER_BYTES <= VALUE_MAX_SHORT {
            return plan;
        }
        Self::of(kind as u32 | bits | EXT_LEN, key_len, value_len)
    }

    /// Returns the layout of the item while the slack behind it counts as part of the item, which makes the item longer
    /// by `slack` bytes.
    #[inline(always)]
    pub(crate) fn with_slack(&self, slack: usize) -> Self {
        if slack == 0 { *self } else { self.longer(slack) }
    }

    #[cold]
    fn longer(&self, slack: usize) -> Self {
        debug_assert!(slack == FILLER_BYTES && !self.has(NUM));
        let more = if self.has(EXT_LEN) { 0 } else { (slack as u32) << VALUE_SHIFT };
        Self::of(self.header + more, self.key_len, self.value_len + slack)
    }

    #[inline(always)]
    fn of(header: u32, key_len: usize, value_len: usize) -> Self {
        let mut at = 4;
        if header & EXT_LEN != 0 {
            at += 8;
        }
        let meta = at;
        at += u32::from(header & META != 0) * 4;
        let flags = at;
        at += u32::from(header & CLIENT_FLAGS != 0) * 4;
        let expiry = at;
        at += u32::from(header & EXPIRY != 0) * 4;
        let cas = align(at, 8);
        if header & CAS_FIELD != 0 {
            at = cas + 8;
        }
        let key = at;
        at += key_len as u32;
        let value = if header & NUM != 0 { align(at, 8) } else { at };
        let size = (value as usize + value_len).next_multiple_of(4);
        // [`Layout::in_heap`] adds room for a checksum.
        Self { header, key_len, value_len, meta, flags, expiry, cas, key, value, size }
    }

    /// Returns the item's layout in `heap`. Adds room for a checksum behind the item if the heap's items have
    /// checksums.
    #[inline(always)]
    pub(crate) fn in_heap(self, heap: &Heap) -> Self {
        if heap.has_sums() { self.with_sum() } else { self }
    }

    fn with_sum(self) -> Self {
        let is_filler = self.header | DEAD == FILLER && self.size == FILLER_BYTES;
        Self { size: self.size + if is_filler { 0 } else { SUM_BYTES }, ..self }
    }

    /// Returns the address of the checksum of the item at `address`.
    pub(crate) fn sum_address(&self, address: usize) -> usize {
        address + self.size - SUM_BYTES
    }

    /// Returns the key and value as bytes, and the other fields that never change after publication as a number. Omits
    /// the value if it can change in place.
    pub(crate) fn frozen<'h>(&self, heap: &'h Heap, address: usize) -> (&'h [u8], u64) {
        let value_len = if self.has(NUM) { 0 } else { self.value_len };
        let bytes = heap.bytes(address + self.key as usize, self.key_len + value_len);
        let header = self.header & !(DEAD | CAS_TAKEN);
        let rest = u64::from(header) << 32 | u64::from(self.client_flags(heap, address));
        (bytes, rest ^ (self.key_len as u64) << 8)
    }

    /// Reads the layout of the item at `address`.
    #[inline(always)]
    pub(crate) fn read(heap: &Heap, address: usize) -> Self {
        let header = heap.word32(address).load(Ordering::Acquire);
        let (key_len, value_len) = if header & EXT_LEN == 0 {
            ((header >> KEY_SHIFT) as usize, (header >> VALUE_SHIFT) as usize & VALUE_MAX_SHORT)
        } else {
            let value_len = heap.word32(address + 4).load(Ordering::Relaxed) as usize;
            (heap.word32(address + 8).load(Ordering::Relaxed) as usize & KEY_BYTES_MAX, value_len)
        };
        Self::of(header, key_len, value_len).in_heap(heap)
    }

    /// Reads the layout at an address that may not hold an item. Returns `None` if the `left` bytes from `address` on
    /// do not contain a whole item.
    pub(crate) fn read_within(heap: &Heap, address: usize, left: usize) -> Option<Self> {
        if left < FILLER_BYTES {
            return None;
        }
        let header = heap.word32(address).load(Ordering::Acquire);
        let lengths = if header & EXT_LEN == 0 { 0 } else { 8 };
        if left < FILLER_BYTES + lengths || (needs_align8(header) && !address.is_multiple_of(8)) {
            return None;
        }
        let layout = Self::read(heap, address);
        (layout.size <= left && (!layout.has(NUM) || layout.value_len == 8)).then_some(layout)
    }

    pub(crate) fn kind(&self) -> ItemKind {
        match self.header & KIND_MASK {
            0 => ItemKind::Plain,
            1 => ItemKind::Head,
            2 => ItemKind::Piece,
            _ => ItemKind::Typed,
        }
    }

    #[inline(always)]
    pub(crate) fn is(&self, kind: ItemKind) -> bool {
        self.header & KIND_MASK == kind as u32
    }

    /// Returns true if the item may name pieces or parts: the item is a head or a typed value.
    #[inline(always)]
    pub(crate) fn may_be_head(&self) -> bool {
        self.header & KIND_MASK & 1 != 0
    }

    #[inline(always)]
    pub(crate) fn has(&self, bit: u32) -> bool {
        self.header & bit != 0
    }

    /// Returns true if two or more of the item's words change in place, so that loads of them may belong to different
    /// instants.
    #[inline(always)]
    pub(crate) fn has_several_words(&self) -> bool {
        (self.header & (NUM | EXPIRY | CAS_FIELD | META)).count_ones() > 1
    }

    /// Returns the layout of the same item with CAS_TAKEN set.
    pub(crate) fn taken(self) -> Self {
        Self { header: self.header | CAS_TAKEN, ..self }
    }

    #[inline(always)]
    pub(crate) fn key<'h>(&self, heap: &'h Heap, address: usize) -> &'h [u8] {
        heap.bytes(address + self.key as usize, self.key_len)
    }

    /// Returns the value's bytes. Not allowed for NUM items, whose value is a shared word.
    #[inline(always)]
    pub(crate) fn value<'h>(&self, heap: &'h Heap, address: usize) -> &'h [u8] {
        debug_assert!(!self.has(NUM));
        heap.bytes(address + self.value as usize, self.value_len)
    }

    /// Returns the address of the value's bytes in the heap.
    pub(crate) fn value_address(&self, address: usize) -> usize {
        address + self.value as usize
    }

    /// Returns the number of a NUM item.
    #[inline(always)]
    pub(crate) fn number<'h>(&self, heap: &'h Heap, address: usize) -> &'h crate::layout::raw::Word64 {
        debug_assert!(self.has(NUM));
        heap.word64(address + self.value as usize)
    }

    #[inline(always)]
    pub(crate) fn cas_field<'h>(&self, heap: &'h Heap, address: usize) -> &'h crate::layout::raw::Word64 {
        debug_assert!(self.has(CAS_FIELD));
        heap.word64(address + self.cas as usize)
    }

    #[inline(always)]
    pub(crate) fn expiry<'h>(&self, heap: &'h Heap, address: usize) -> &'h crate::layout::raw::Word32 {
        debug_assert!(self.has(EXPIRY));
        heap.word32(address + self.expiry as usize)
    }

    #[inline(always)]
    pub(crate) fn meta<'h>(&self, heap: &'h Heap, address: usize) -> &'h crate::layout::raw::Word32 {
        debug_assert!(self.has(META));
        heap.word32(address + self.meta as usize)
    }

    #[inline(always)]
    pub(crate) fn client_flags(&self, heap: &Heap, address: usize) -> u32 {
        if self.has(CLIENT_FLAGS) { heap.word32(address + self.flags as usize).load(Ordering::Relaxed) } else { 0 }
    }

    /// Writes header (with DEAD set), lengths and client flags of a new item.
    pub(crate) fn write_front(&self, heap: &Heap, reserved: &Reserved, client_flags: u32) {
        debug_assert!(reserved.len() >= self.size);
        let address = reserved.offset();
        heap.word32(address).store(self.header | DEAD, Ordering::Relaxed);
        if self.has(EXT_LEN) {
            heap.word32(address + 4).store(self.value_len as u32, Ordering::Relaxed);
            heap.word32(address + 8).store(self.key_len as u32, Ordering::Relaxed);
        }
        if self.has(CLIENT_FLAGS) {
            heap.word32(address + self.flags as usize).store(client_flags, Ordering::Relaxed);
        }
    }

    /// Writes lengths and header (with DEAD set) over those of [`Layout::with_slack`].
    pub(crate) fn write_lengths(&self, heap: &Heap, address: usize) {
        if self.has(EXT_LEN) {
            heap.word32(address + 4).store(self.value_len as u32, Ordering::Release);
        } else {
            heap.word32(address).store(self.header | DEAD, Ordering::Release);
        }
    }

    /// Writes the key of a new item.
    pub(crate) fn write_key(&self, heap: &Heap, reserved: &mut Reserved, key: &[u8]) {
        debug_assert!(key.len() == self.key_len);
        reserved.write(heap, self.key as usize, key);
    }

    /// Writes a part of the value of a new item, `at` bytes from the value's start.
    pub(crate) fn write_value(&self, heap: &Heap, reserved: &mut Reserved, at: usize, value: &[u8]) {
        debug_assert!(at + value.len() <= self.value_len);
        reserved.write(heap, self.value as usize + at, value);
    }
}

/// Returns a META word for an item accessed at `secs` (counted from the store's start).
pub(crate) fn meta_word(secs: u32, bits: u32) -> u32 {
    debug_assert!(bits & !(META_STALE | META_WON | META_FETCHED) == 0);
    (secs << META_SECS_SHIFT) | bits
}

/// Returns the last access of a META word, in seconds from the store's start (modulo 2^26).
pub(crate) fn meta_secs(meta: u32) -> u32 {
    meta >> META_SECS_SHIFT
}

/// A dead item of 4 bytes, which fills the gap before an item that has to begin at a multiple of 8. No other item has
/// this header, because every real head has a value.
pub(crate) const FILLER: u32 = DEAD | ItemKind::Head as u32;
/// The size of [`FILLER`] in bytes.
pub(crate) const FILLER_BYTES: usize = 4;
/// The size of an item's checksum, in bytes.
pub(crate) const SUM_BYTES: usize = 4;

/// Returns the header of a dead item that takes at most `bytes` bytes in a heap with checksums, and its size. `bytes`
/// is a multiple of 4 and not 0.
pub(crate) fn dead_span(bytes: usize) -> (u32, usize) {
    const EMPTY_BYTES: usize = 4 + SUM_BYTES;
    if bytes < EMPTY_BYTES {
        return (FILLER, FILLER_BYTES);
    }
    let value_len = (bytes - EMPTY_BYTES).min(VALUE_MAX_SHORT & !3);
    (DEAD | (value_len as u32) << VALUE_SHIFT, EMPTY_BYTES + value_len)
}

const _: () = assert!(KEY_BYTES_MAX == 0xffff && VALUE_MAX_SHORT == 0x3fff);

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_small_item_costs_four_bytes_and_its_padding() {
        assert_eq!(Layout::plan(ItemKind::Plain, 0, 16, 64).size, 84);
        assert_eq!(Layout::plan(ItemKind::Plain, EXPIRY, 16, 64).size, 88);
        assert_eq!(Layout::plan(ItemKind::Plain, 0, 24, 200).size, 228);
        assert_eq!(Layout::plan(ItemKind::Plain, 0, 3, 2).size, 12);
    }

    #[test]
    fn the_filler_is_a_dead_item_of_its_own_size() {
        let heap = Heap::reserve(4096, false).expect("reserve");
        heap.word32(0).store(FILLER, Ordering::Relaxed);
        let layout = Layout::read(&heap, 0);
        assert_eq!((layout.size, layout.has(DEAD)), (FILLER_BYTES, true));
    }

    #[test]
    fn dead_items_over_a_damaged_part_take_exactly_its_bytes() {
        let heap = Heap::reserve(1 << 20, false).expect("reserve");
        for bytes in [4, 8, 12, 16, 4096, 16_384, 16_388, 16_392, 16_396, 100_000] {
            let (mut at, mut spans) = (0, 0);
            while at < bytes {
                let (header, size) = dead_span(bytes - at);
                heap.word32(at).store(header, Ordering::Relaxed);
                let layout = Layout::read(&heap, at).with_sum();
                assert_eq!((layout.size, layout.has(DEAD)), (size, true), "{bytes} at {at}");
                (at, spans) = (at + size, spans + 1);
            }
            assert!(at == bytes && spans <= 1 + bytes / 16_384 + 1);
        }
    }

    #[test]
    fn planned_item_layout_matches_parsed_item_for_every_shape() {
        let heap = Heap::reserve(1 << 20, false).expect("reserve");
        let mut shapes = 0;
        for kind in [ItemKind::Plain, ItemKind::Head, ItemKind::Piece, ItemKind::Typed] {
            for bits in 0..64u32 {
                let set = [CAS_TAKEN, CAS_FIELD, CLIENT_FLAGS, EXPIRY, NUM, META];
                let bits = (0..6).filter(|b| bits >> b & 1 == 1).fold(0, |all, b| all | set[b]);
                for (key_len, value_len) in [(1, 0), (250, 100), (255, 16383), (256, 5), (10, 16384), (3, 100_000)] {
                    let value_len = if bits & NUM != 0 { 8 } else { value_len };
                    let plan = Layout::plan(kind, bits, key_len, value_len);
                    let reserved = Reserved::new(64, plan.size);
                    plan.write_front(&heap, &reserved, 77);
                    let read = Layout::read(&heap, 64);
                    assert_eq!(read, Layout { header: plan.header | DEAD, ..plan });
                    assert_eq!(read.kind(), kind);
                    assert_eq!(read.client_flags(&heap, 64), if bits & CLIENT_FLAGS != 0 { 77 } else { 0 });
                    let bare = bare(&heap, 64);
                    assert_eq!(bare.is_some(), kind == ItemKind::Plain && read.key == 4 && bits & !CAS_TAKEN == 0);
                    if let Some((key, value)) = bare {
                        assert_eq!((key.len(), value.len()), (key_len, value_len));
                        let [key_at, value_at] = [key, value].map(|bytes| bytes.as_ptr());
                        assert_eq!(key_at, read.key(&heap, 64).as_ptr());
                        assert_eq!(value_at, read.value(&heap, 64).as_ptr());
                    }
                    assert!(read.cas.is_multiple_of(8) && (bits & NUM == 0 || read.value.is_multiple_of(8)));
                    shapes += 1;
                }
            }
        }
        assert_eq!(shapes, 4 * 64 * 6);
    }
}
