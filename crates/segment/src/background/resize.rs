//! Memory for the segments: as many as the memory that is wanted and the index leave, got ahead of their use.
//!
//! ```text
//!   too many:  cut those never taken ──> withhold free ones as the eviction makes them, giving their memory back
//!   too few:   free withheld ones, with memory ──> let fresh ones be taken
//!   neither:   populate the fresh ones that come next
//! ```
//!
//! Any free segment may be withheld, so which items go is the eviction policy's choice alone, and none is moved.

use std::sync::atomic::Ordering::Relaxed;

use super::Background;
use crate::index::GROUP_BYTES;
use crate::store::Store;

/// Memory is populated this far ahead of the segments in use, in bytes.
const POPULATE_AHEAD_BYTES: usize = 64 << 20;
/// And this much of it in one slice.
pub(super) const POPULATE_SLICE_BYTES: usize = 2 << 20;

impl Background {
    /// Puts in force what a resize asked for.
    pub(super) fn follow_resize(&mut self, store: &Store) {
        let wanted = store.memory.wanted_bytes();
        if wanted == self.memory_bytes {
            return;
        }
        self.memory_bytes = wanted;
        store.memory.take(store.geometry.limits(wanted));
        // Who still waits for room asks again, and for what there can be now.
        store.room_wanted.store(0, Relaxed);
        let most = store.geometry.segments_for(wanted, 0).min(store.geometry.segments_max);
        self.queues.make_room(most);
        self.limbo.reserve(most.saturating_sub(self.limbo.len()));
        if let Some(growing) = self.growing.take_if(|growing| !growing.begun) {
            let (from, bytes) = (store.index.groups() * GROUP_BYTES, growing.populated * GROUP_BYTES);
            let _ = store.index.map().release(from, bytes);
        }
    }

    /// How many segments there are to be.
    fn segments_wanted(&self, store: &Store) -> usize {
        let groups = self.growing.as_ref().map_or(store.index.groups_next(), |growing| growing.to);
        store.geometry.segments_for(self.memory_bytes, groups).min(store.geometry.segments_max)
    }

    /// How many segments there are too many.
    pub(super) fn segments_over(&self, store: &Store) -> usize {
        store.segments.count().saturating_sub(self.segments_wanted(store))
    }

    /// One step towards the number of segments that is wanted; false if it is there, or waits for free ones.
    pub(super) fn run_resize(&mut self, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
        let mut worked = false;
        while self.segments_over(store) > 0 && self.withhold(store) {
            worked = true;
            if over() {
                return true;
            }
        }
        let wanted = self.segments_wanted(store);
        while store.segments.count() < wanted {
            worked = true;
            self.restore(store, wanted);
            if over() {
                return true;
            }
        }
        worked
    }

    /// Takes segments out of use: those never taken, or else one that is free, whose memory is given back.
    fn withhold(&mut self, store: &Store) -> bool {
        let (segments, each) = (&store.segments, store.segments.segment_bytes());
        if segments.cut_fresh(self.segments_over(store)) > 0 {
            let end = segments.end();
            if self.populated > end {
                let _ = segments.heap.map().release(end * each, (self.populated - end) * each);
                self.populated = end;
            }
            return true;
        }
        // An index that is full cannot wait; a smaller memory leaves the lanes what they need.
        let keep = if self.growing.is_some() { store.memory.free_reserve() } else { store.memory.free_low() };
        let Some(id) = segments.take_free(keep) else { return false };
        segments.withhold(id);
        // Refused only for locked memory, which then stays counted twice within the stated constant.
        let _ = segments.heap.map().release(segments.start(id), each);
        true
    }

    /// Gives segments back to use, up to `wanted`.
    fn restore(&mut self, store: &Store, wanted: usize) {
        let segments = &store.segments;
        if let Some(id) = segments.take_withheld() {
            let _ = segments.heap.map().populate(segments.start(id), segments.segment_bytes());
            segments.push_free(id);
        } else {
            segments.add_fresh(wanted - segments.count());
        }
    }

    /// Gets memory for the segments that will be opened next; false if enough is there.
    pub(super) fn populate_ahead(&mut self, store: &Store) -> bool {
        let each = store.segments.segment_bytes();
        let target = (store.segments.high_water() + (POPULATE_AHEAD_BYTES / each).max(1)).min(store.segments.end());
        if self.populated >= target {
            return false;
        }
        let step = (POPULATE_SLICE_BYTES / each).max(1).min(target - self.populated);
        let start = self.populated * each;
        let _ = store.segments.heap.map().populate(start, step * each);
        self.populated += step;
        true
    }
}
