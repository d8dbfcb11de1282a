//! The heap: all segments, end to end, in one map. An address is a byte offset from the heap's start.

use std::io;

use arena::Map;

use super::{Word32, Word64};

/// The segments' memory.
#[derive(Debug)]
pub(crate) struct Heap {
    map: Map,
    /// True if every item has a checksum behind it.
    sums: bool,
}

/// Prefetches a cache line. The call is only a hint, so any address is allowed.
#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: 1. a prefetch never faults, whatever the address; 2. SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches the cache line in which a value begins.
#[inline(always)]
pub(crate) fn prefetch_line_of<T>(value: &T) {
    prefetch(std::ptr::from_ref(value).cast());
}

impl Heap {
    pub(crate) fn reserve(bytes: usize, huge_pages: bool) -> io::Result<Self> {
        Ok(Self { map: Map::reserve(bytes, huge_pages)?, sums: false })
    }

    /// Returns the heap in an existing map, whose bytes are zero or the contents of an earlier store.
    pub(crate) fn of_map(map: Map) -> Self {
        Self { map, sums: false }
    }

    /// Returns the heap, set up for items with checksums behind them.
    pub(crate) fn with_sums(self) -> Self {
        Self { sums: true, ..self }
    }

    #[inline(always)]
    pub(crate) fn has_sums(&self) -> bool {
        self.sums
    }

    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    #[inline(always)]
    fn address(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset <= self.map.bytes() && bytes <= self.map.bytes() - offset, "{offset}+{bytes} outside the heap");
        // SAFETY: 1. offset + bytes is inside the map (asserted above).
        unsafe { self.map.start().as_ptr().add(offset) }
    }

    /// Returns the address of a word that is aligned to its size. Maps consist of whole pages, so an aligned word never
    /// crosses the end of a map.
    #[inline(always)]
    fn word_address(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset <= self.map.bytes() - bytes, "{offset}+{bytes} outside the heap");
        assert!(offset.is_multiple_of(bytes), "word at {offset} is not aligned");
        // SAFETY: 1. offset + bytes is inside the map (asserted above).
        unsafe { self.map.start().as_ptr().add(offset) }
    }

    /// Returns the shared word at `offset`, which must be a multiple of 4.
    #[inline(always)]
    pub(crate) fn word32(&self, offset: usize) -> &Word32 {
        let address = self.word_address(offset, 4);
        // SAFETY: 1. inside the map and aligned (asserted); 2. every bit pattern is valid; 3. words are touched as
        // atomics of this width alone while they are shared (module rules 1 and 2); 4. the lifetime is the map's.
        unsafe { &*address.cast::<Word32>() }
    }

    /// Returns the shared word at `offset`, which must be a multiple of 8.
    #[inline(always)]
    pub(crate) fn word64(&self, offset: usize) -> &Word64 {
        let address = self.word_address(offset, 8);
        // SAFETY: as for `word32`, with 8 bytes.
        unsafe { &*address.cast::<Word64>() }
    }

    /// Returns frozen bytes. They are a published key or value, or the written part of the caller's reservation. The
    /// caller reached the key or value through an index slot inside an epoch, or holds a pin on it.
    #[inline(always)]
    pub(crate) fn bytes(&self, offset: usize, bytes: usize) -> &[u8] {
        let address = self.address(offset, bytes);
        // SAFETY: 1. inside the map (asserted); 2. u8 has no invalid values and the map is initialised (zero); 3. the
        // bytes are frozen and stay so while the epoch or the pin lasts (module rules 2 to 4).
        unsafe { std::slice::from_raw_parts(address, bytes) }
    }

    /// Returns the offset of bytes that lie in the heap.
    #[inline]
    pub(crate) fn offset_of(&self, bytes: &[u8]) -> usize {
        let offset = (bytes.as_ptr() as usize).wrapping_sub(self.map.start().as_ptr() as usize);
        assert!(offset <= self.map.bytes() && bytes.len() <= self.map.bytes() - offset, "bytes outside the heap");
        offset
    }

    /// Prefetches four cache lines from `offset` on: the whole of most items, and the beginning of a longer item. The
    /// call is only a hint and reads no data.
    #[inline(always)]
    pub(crate) fn prefetch(&self, offset: usize) {
        let address = self.map.start().as_ptr().wrapping_add(offset);
        for line in 0..4 {
            prefetch(address.wrapping_add(64 * line));
        }
    }
}

/// The right to write one range of an open segment. No other thread can find the range yet. Only two callers create
/// reservations: the open-segment table of a handle, for a range behind all its earlier ranges, and the metadata log,
/// for a range behind its valid records. The type is not `Clone`, so ownership guarantees rule 2 of the module.
#[derive(Debug)]
pub(crate) struct Reserved {
    offset: usize,
    bytes: usize,
}

impl Reserved {
    /// Creates a reservation. The caller is the thread that has open the segment of `offset .. offset + bytes`. Since
    /// the segment was opened, that range was not reserved, or its reservation was cancelled.
    pub(crate) fn new(offset: usize, bytes: usize) -> Self {
        debug_assert!(offset.is_multiple_of(4) && bytes.is_multiple_of(4));
        Self { offset, bytes }
    }

    /// Creates a reservation in the metadata log. The caller holds the lock of the log's writers, and the log's length
    /// does not include these bytes yet.
    pub(crate) fn of_notes(offset: usize, bytes: usize) -> Self {
        Self { offset, bytes }
    }

    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Returns `bytes` bytes of the range for writing in place, from offset `at` of the range on. None of them may
    /// belong to a shared word.
    pub(crate) fn bytes_mut<'r>(&'r mut self, heap: &'r Heap, at: usize, bytes: usize) -> &'r mut [u8] {
        assert!(at <= self.bytes && bytes <= self.bytes - at, "{at}+{bytes} outside the item");
        let address = heap.address(self.offset + at, bytes);
        // SAFETY: 1. inside the map and inside this reservation (asserted); 2. u8 has no invalid values and the map is
        // initialised (zero, or bytes from before the segment was reused); 3. no other thread reads or writes it (this
        // type's contract), and no second slice of it exists at the same time, because the slice borrows the
        // reservation; 4. the map outlives it.
        unsafe { std::slice::from_raw_parts_mut(address, bytes) }
    }

    /// Copies `from` to offset `at` of the range, in bytes.
    #[inline(always)]
    pub(crate) fn write(&mut self, heap: &Heap, at: usize, from: &[u8]) {
        assert!(at <= self.bytes && from.len() <= self.bytes - at, "{at}+{} outside the item", from.len());
        super::words::crash_point();
        let address = heap.address(self.offset + at, from.len());
        // SAFETY: 1. the target is inside the map and inside this reservation (asserted); 2. no other thread reads or
        // writes it (this type's contract); 3. `from` is a live slice; it cannot overlap the target, because it lies
        // outside the heap, in published bytes or in another reservation, and reservations do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), address, from.len()) };
    }
}
