//! The segments: their headers, the free list, the list of segments that were sealed since the background last
//! collected them, and the list of decommitted segments.
//!
//! ```text
//!   0              fresh.next            fresh.end                       segments_max
//!   | taken before | free, never taken   | address space for a larger limit |
//! ```
//!
//! The lists are stacks linked through the headers, so they need no memory and no lock ([`free`]). Segments that were
//! never taken are in no list. They are a range of numbers, and their headers were never written.
//!
//! When the process ends, a memory file retains only the headers, the end of the range and the next sequence. The next
//! process rebuilds the lists from them ([`Segments::relist`]).
//!
//! Bounds: a segment is in at most one list, so all lists together are no longer than the number of segments.

mod free;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use base::clock::UnixMillis;

use crate::heap::config::Geometry;
use crate::layout::header::{SegmentHeader, SegmentState};
use crate::layout::persistent::PersistentPage;
use crate::layout::raw::{Array, Heap, Word32};
use crate::layout::slot::Slot;

use free::{FreeSegments, Fresh, Links, Stack};

/// A segment's number, which is its position in the heap and in the array of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentId(pub(crate) u32);

/// All segments of a store.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) heap: Heap,
    headers: Array<SegmentHeader>,
    free: FreeSegments,
    sealed: Stack,
    decommitted: Stack,
    decommitted_count: Word32,
    kept: PersistentPage,
    shift: u32,
}

impl Links for Array<SegmentHeader> {
    fn link(&self, id: u32) -> &Word32 {
        &self.at(id as usize).link
    }
}

impl Segments {
    /// Creates `count` segments in private memory, and reserves address space for the maximum number of segments.
    #[cfg(test)]
    pub(crate) fn reserve(geometry: &Geometry, count: usize, huge_pages: bool) -> std::io::Result<Self> {
        assert!(count <= geometry.segments_max && geometry.segments_max < u32::MAX as usize);
        let kept = PersistentPage::private()?.begun(crate::index::Index::growth_of(1), 1, count);
        let heap = Heap::reserve(geometry.segments_max * geometry.segment_bytes, huge_pages)?;
        Ok(Self::on(geometry, heap, Array::reserve(geometry.segments_max, false)?, kept))
    }

    /// Creates the segments from the given heap and headers. No segment counts as taken yet. `kept` holds the number of
    /// segments.
    pub(crate) fn on(geometry: &Geometry, heap: Heap, headers: Array<SegmentHeader>, kept: PersistentPage) -> Self {
        let end = kept.end.load(Relaxed) as u32;
        assert!(end as usize <= headers.len() && headers.len() < u32::MAX as usize);
        Self {
            heap,
            headers,
            // The lowest segment is taken first, so that memory is touched from the bottom up.
            free: FreeSegments::new(Fresh { next: 0, end }),
            sealed: Stack::default(),
            decommitted: Stack::default(),
            decommitted_count: Word32::new(0),
            kept,
            shift: geometry.segment_shift,
        }
    }

    /// Rebuilds the lists from the states in the headers. Every state must be Free, Sealed or Decommitted, and no other
    /// thread may use the segments yet. Segments after the last one that was taken count as never taken.
    pub(crate) fn relist(&self) {
        let end = self.fresh().end;
        let used = |id: &u32| !self.header(SegmentId(*id)).is_pristine();
        let next = (0..self.headers.len() as u32).rev().find(used).map_or(0, |last| last + 1);
        self.free.begin(Fresh { next, end: end.max(next) });
        self.kept.end.store(end.max(next).into(), Relaxed);
        let mut sealed = Vec::new();
        for id in (0..next).rev().map(SegmentId) {
            match self.header(id).state() {
                SegmentState::Free => self.push_free(id),
                SegmentState::Sealed => sealed.push(id),
                SegmentState::Decommitted => self.push_decommitted(id),
                state => unreachable!("{state:?} was made Sealed or Free"),
            }
        }
        // Pushes the oldest segment first, so that the list is in the order of sealing.
        sealed.sort_unstable_by_key(|id| self.header(*id).sequence());
        sealed.into_iter().for_each(|id| self.sealed.push(&self.headers, id.0));
    }

    fn fresh(&self) -> Fresh {
        self.free.fresh()
    }

    /// Returns the number of segments, not including decommitted segments.
    pub(crate) fn count(&self) -> usize {
        (self.fresh().end - self.decommitted_count.load(Relaxed)) as usize
    }

    /// Returns one more than the highest segment number that may be taken now.
    pub(crate) fn end(&self) -> usize {
        self.fresh().end as usize
    }

    /// Returns the number of segments that were never taken.
    pub(crate) fn fresh_count(&self) -> usize {
        let fresh = self.fresh();
        (fresh.end - fresh.next) as usize
    }

    pub(crate) fn segment_bytes(&self) -> usize {
        1 << self.shift
    }

    #[inline(always)]
    pub(crate) fn header(&self, id: SegmentId) -> &SegmentHeader {
        self.headers.at(id.0 as usize)
    }

    /// Returns the segment in which an address lies.
    #[inline(always)]
    pub(crate) fn of(&self, address: usize) -> SegmentId {
        SegmentId((address >> self.shift) as u32)
    }

    /// Returns the header of the segment in which an address lies.
    #[inline(always)]
    pub(crate) fn header_of(&self, address: usize) -> &SegmentHeader {
        self.headers.at(address >> self.shift)
    }

    /// Returns the header of the segment in which an address lies, or `None` if no item can be at that address.
    pub(crate) fn header_at(&self, address: usize) -> Option<&SegmentHeader> {
        self.headers.get(address >> self.shift).filter(|_| address.is_multiple_of(4))
    }

    /// Returns the header of the segment that a slot names, if the slot's generation is the segment's. Returns `None`
    /// if the segment was reused since, or if the slot is damaged.
    #[inline(always)]
    pub(crate) fn named(&self, slot: Slot) -> Option<&SegmentHeader> {
        let header = self.headers.get(slot.address() >> self.shift)?;
        (header.slot_generation() == slot.generation()).then_some(header)
    }

    #[inline(always)]
    pub(crate) fn prefetch_header(&self, address: usize) {
        self.headers.prefetch(address >> self.shift);
    }

    /// Returns the address of a segment's first byte.
    #[inline(always)]
    pub(crate) fn start(&self, id: SegmentId) -> usize {
        (id.0 as usize) << self.shift
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.kept.sequence.fetch_add(1, AcqRel)
    }

    /// Returns the sequence that will be taken next.
    pub(crate) fn sequence(&self) -> u64 {
        self.kept.sequence.load(Acquire)
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free.count()
    }

    /// Takes a free segment, if more than `keep` segments are free.
    pub(crate) fn take_free(&self, keep: usize) -> Option<SegmentId> {
        self.free.take(&self.headers, keep).map(SegmentId)
    }

    /// Returns one more than the highest segment number that was ever taken. Segments from this number on were never
    /// used.
    pub(crate) fn high_water(&self) -> usize {
        self.fresh().next as usize
    }

    /// Takes at most `count` segments out of use that were never taken. Returns the number of removed segments. Only
    /// the background calls this function and the following ones.
    pub(crate) fn cut_fresh(&self, count: usize) -> usize {
        let (cut, end) = self.free.cut_fresh(count);
        self.kept.end.store(end.into(), Release);
        cut as usize
    }

    /// Adds `count` segments that were never taken to the free segments. The caller has obtained their memory.
    pub(crate) fn add_fresh(&self, count: usize) {
        self.kept.end.fetch_add(count as u64, Release);
        self.free.add_fresh(count);
    }

    /// Decommits a segment that the caller took from the free list: changes its state, and then returns its memory to
    /// the kernel. Because of this order, no segment in use is without memory.
    pub(crate) fn decommit(&self, id: SegmentId) {
        self.header(id).go(SegmentState::Decommitted);
        // The kernel refuses this only for locked memory. The memory then stays in use beyond the limit.
        let _ = self.heap.map().release(self.start(id), self.segment_bytes());
        self.push_decommitted(id);
    }

    fn push_decommitted(&self, id: SegmentId) {
        self.decommitted.push(&self.headers, id.0);
        self.decommitted_count.fetch_add(1, Relaxed);
    }

    /// Obtains memory for a decommitted segment and puts the segment on the free list. Returns false if no segment is
    /// decommitted, or if its memory cannot be obtained.
    pub(crate) fn give_back_decommitted(&self) -> bool {
        let Some(id) = self.decommitted.pop(&self.headers).map(SegmentId) else { return false };
        let map = self.heap.map();
        if map.allocate(self.start(id), self.segment_bytes()).is_err() {
            self.decommitted.push(&self.headers, id.0);
            return false;
        }
        // If the kernel cannot populate the memory, the first write to each page causes a page fault instead.
        let _ = map.populate(self.start(id), self.segment_bytes());
        self.decommitted_count.fetch_sub(1, Relaxed);
        self.header(id).go(SegmentState::Free);
        self.push_free(id);
        true
    }

    pub(crate) fn decommitted_count(&self) -> usize {
        self.decommitted_count.load(Relaxed) as usize
    }

    /// Puts a segment in state Free on the free list.
    pub(crate) fn push_free(&self, id: SegmentId) {
        debug_assert!(self.header(id).state() == SegmentState::Free);
        self.free.give(&self.headers, id.0);
    }

    /// Seals a segment. From then on the background decides when the segment is drained.
    pub(crate) fn seal(&self, id: SegmentId) {
        let header = self.header(id);
        header.go(SegmentState::Sealed);
        self.sealed.push(&self.headers, id.0);
    }

    /// Removes and returns the most recently sealed segment of those that the background has not collected yet.
    pub(crate) fn pop_sealed(&self) -> Option<SegmentId> {
        self.sealed.pop(&self.headers).map(SegmentId)
    }

    /// Returns the instant at which an item at `address` with this expiry word expires.
    #[inline(always)]
    pub(crate) fn expire_at(&self, address: usize, relative: u32) -> UnixMillis {
        let header = self.header_of(address);
        crate::layout::ttl::absolute(header.unit_ms(), header.created(), relative)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn segments(count: usize, most: usize) -> Segments {
        let config = crate::StoreConfig {
            memory_bytes: 200 << 10,
            memory_bytes_max: 800 << 10,
            segment_bytes: Some(4096),
            item_bytes_max: 400,
            handles_max: 1,
            hash_seed: 0,
            huge_pages: false,
        };
        let geometry = Geometry { segments_max: most, ..Geometry::of(&config).expect("geometry") };
        Segments::reserve(&geometry, count, false).expect("reserve")
    }

    #[test]
    fn reserved_segments_are_not_taken_and_lowest_id_is_taken_first() {
        let segments = segments(40, 40);
        let mut taken = Vec::new();
        while let Some(id) = segments.take_free(3) {
            taken.push(id);
        }
        assert_eq!((taken.len(), taken[0]), (37, SegmentId(0)));
        while let Some(id) = segments.take_free(0) {
            taken.push(id);
        }
        assert_eq!((taken.len(), segments.free_count()), (40, 0));
        segments.push_free(taken[3]);
        assert_eq!(segments.take_free(0), Some(taken[3]));
    }

    #[test]
    fn cut_or_decommitted_segment_is_unavailable_until_returned() {
        let segments = segments(10, 20);
        let taken: Vec<_> = (0..4).map(|_| segments.take_free(0).expect("free")).collect();
        assert_eq!((segments.cut_fresh(2), segments.count(), segments.free_count()), (2, 8, 4));
        assert_eq!((segments.cut_fresh(9), segments.count(), segments.free_count()), (4, 4, 0));
        segments.decommit(taken[1]);
        assert_eq!((segments.count(), segments.decommitted_count(), segments.take_free(0)), (3, 1, None));
        segments.add_fresh(16);
        assert_eq!((segments.end(), segments.count()), (20, 19));
        assert!(segments.give_back_decommitted() && !segments.give_back_decommitted());
        assert_eq!(segments.take_free(0), Some(taken[1]));
        assert_eq!((segments.take_free(0), segments.count()), (Some(SegmentId(4)), 20));
    }
}
