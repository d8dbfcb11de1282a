//! The segments: their headers, the free list, and the list of those sealed since the background last looked.
//!
//! Both lists are stacks linked through the headers, so they need no memory and no lock. The head word carries a
//! count that changes with every push and pop, so that a pop never mistakes a segment that went and came back for one
//! that stayed (ABA).
//!
//! Bounds: a segment is in at most one list, so both together are no longer than the segments are many.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use base::clock::UnixMillis;

use crate::config::Geometry;
use crate::header::{SegmentHeader, State};
use crate::raw::{Array, Heap, Word32, Word64};

/// A segment's number: its place in the heap and in the array of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentId(pub(crate) u32);

/// A stack of segments: `count 32 | id + 1 32`, 0 for none.
#[derive(Debug, Default)]
struct Stack(Word64);

impl Stack {
    fn push(&self, headers: &Array<SegmentHeader>, id: SegmentId) {
        let link = &headers.at(id.0 as usize).link;
        let mut head = self.0.load(Relaxed);
        loop {
            link.store(head as u32, Relaxed);
            let next = ((head >> 32).wrapping_add(1) << 32) | u64::from(id.0 + 1);
            match self.0.compare_exchange(head, next, Release) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    fn pop(&self, headers: &Array<SegmentHeader>) -> Option<SegmentId> {
        let mut head = self.0.load(Acquire);
        loop {
            let id = (head as u32).checked_sub(1)?;
            let under = headers.at(id as usize).link.load(Relaxed);
            let next = ((head >> 32).wrapping_add(1) << 32) | u64::from(under);
            match self.0.compare_exchange(head, next, AcqRel) {
                Ok(_) => return Some(SegmentId(id)),
                Err(_) => head = self.0.load(Acquire),
            }
        }
    }
}

/// All segments of a store.
#[derive(Debug)]
pub(crate) struct Segments {
    pub(crate) heap: Heap,
    headers: Array<SegmentHeader>,
    free: Stack,
    free_count: Word32,
    sealed: Stack,
    /// One past the highest segment that was ever taken.
    high_water: Word32,
    /// The next segment sequence. Sequences are never reused; 0 is not one.
    sequence: Word64,
    count: usize,
    shift: u32,
    reserve: u32,
}

/// Who asks for a free segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    /// A data thread: leaves the reserve alone.
    Lane,
    /// The background, which frees more than it takes.
    Background,
}

impl Segments {
    pub(crate) fn reserve(geometry: &Geometry, huge_pages: bool) -> std::io::Result<Self> {
        let segments = Self {
            heap: Heap::reserve(geometry.segments * geometry.segment_bytes, huge_pages)?,
            headers: Array::reserve(geometry.segments, false)?,
            free: Stack::default(),
            free_count: Word32::new(0),
            sealed: Stack::default(),
            high_water: Word32::new(0),
            sequence: Word64::new(1),
            count: geometry.segments,
            shift: geometry.segment_shift,
            reserve: geometry.free_reserve as u32,
        };
        // The lowest comes off first, so that memory is first touched from the bottom up.
        for id in (0..geometry.segments as u32).rev() {
            segments.push_free(SegmentId(id));
        }
        Ok(segments)
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn segment_bytes(&self) -> usize {
        1 << self.shift
    }

    #[inline(always)]
    pub(crate) fn header(&self, id: SegmentId) -> &SegmentHeader {
        self.headers.at(id.0 as usize)
    }

    /// The segment that an address lies in.
    #[inline(always)]
    pub(crate) fn of(&self, address: usize) -> SegmentId {
        SegmentId((address >> self.shift) as u32)
    }

    /// The header of the segment that an address lies in.
    #[inline(always)]
    pub(crate) fn header_of(&self, address: usize) -> &SegmentHeader {
        self.headers.at(address >> self.shift)
    }

    #[inline(always)]
    pub(crate) fn prefetch_header(&self, address: usize) {
        self.headers.prefetch(address >> self.shift);
    }

    /// The address of a segment's first byte.
    #[inline(always)]
    pub(crate) fn start(&self, id: SegmentId) -> usize {
        (id.0 as usize) << self.shift
    }

    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, AcqRel)
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free_count.load(Relaxed) as usize
    }

    pub(crate) fn take_free(&self, taker: Taker) -> Option<SegmentId> {
        let keep = if taker == Taker::Lane { self.reserve } else { 0 };
        if self.free_count.load(Relaxed) <= keep {
            return None;
        }
        let id = self.free.pop(&self.headers)?;
        self.free_count.fetch_sub(1, Relaxed);
        self.high_water.fetch_max(id.0 + 1, Relaxed);
        Some(id)
    }

    /// One past the highest segment that was ever taken: those from there on were never touched.
    pub(crate) fn high_water(&self) -> usize {
        self.high_water.load(Relaxed) as usize
    }

    /// Puts a segment in state Free on the free list.
    pub(crate) fn push_free(&self, id: SegmentId) {
        debug_assert!(self.header(id).state() == State::Free);
        self.free.push(&self.headers, id);
        self.free_count.fetch_add(1, Relaxed);
    }

    /// Ends a segment's open time: from here on the background owns its fate.
    pub(crate) fn seal(&self, id: SegmentId) {
        let header = self.header(id);
        header.go(State::Sealed);
        self.sealed.push(&self.headers, id);
    }

    /// The segments sealed since the last call, the latest first.
    pub(crate) fn pop_sealed(&self) -> Option<SegmentId> {
        self.sealed.pop(&self.headers)
    }

    /// When an item at `address` with that expiry word ends.
    #[inline(always)]
    pub(crate) fn expire_at(&self, address: usize, relative: u32) -> UnixMillis {
        let header = self.header_of(address);
        crate::ttl::absolute(header.class(), header.created(), relative)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn lanes_leave_the_reserve_and_the_background_takes_the_last_one() {
        let config = crate::StoreConfig {
            memory_bytes: 200 << 10,
            segment_bytes: Some(4096),
            item_bytes_max: 400,
            lanes_max: 1,
            hash_seed: 0,
            huge_pages: false,
        };
        let geometry = Geometry::of(&config).expect("geometry");
        let segments = Segments::reserve(&geometry, false).expect("reserve");
        let mut taken = Vec::new();
        while let Some(id) = segments.take_free(Taker::Lane) {
            taken.push(id);
        }
        assert_eq!(taken.len(), geometry.segments - geometry.free_reserve);
        assert_eq!(taken[0], SegmentId(0));
        while let Some(id) = segments.take_free(Taker::Background) {
            taken.push(id);
        }
        assert_eq!((taken.len(), segments.free_count()), (geometry.segments, 0));
        segments.push_free(taken[3]);
        assert_eq!(segments.take_free(Taker::Background), Some(taken[3]));
    }
}
