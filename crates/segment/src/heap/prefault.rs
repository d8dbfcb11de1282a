//! Obtains memory from the kernel before it is needed, and returns surplus memory. A separate thread does this, so that
//! no other thread waits for the kernel.
//!
//! ```text
//!   background ──sets the wanted amount──> Ahead <──obtains or returns memory, one step at a time── Populator
//! ```
//!
//! The kernel may take milliseconds to clear a huge page, or to obtain one from the hypervisor. If the separate thread
//! ([`crate::Populator`]) does not run, the background runs the steps itself.
//!
//! Bounds: a step obtains or returns at most [`STEP_BYTES`] bytes, which is one huge page. Segments are populated at
//! most [`AHEAD_BYTES`] bytes ahead of their use.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use crate::heap::segments::Segments;
use crate::index::{GROUP_BYTES, Index};
use crate::layout::raw::{Mutex, Word64};

/// The distance to which memory is populated ahead of the segments in use, in bytes.
const AHEAD_BYTES: usize = 64 << 20;
/// The memory that is populated in one step, in bytes.
const STEP_BYTES: usize = 2 << 20;

/// The amounts of memory that are wanted and obtained, in bytes from the start of each map. Shared by the background
/// and a [`crate::Populator`].
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    state: Mutex<PrefaultState>,
    /// Copies of `heap_done`, and of `index_done` beyond `index_wanted`, for [`Ahead::surplus_bytes`].
    heap_done: Word64,
    index_surplus: Word64,
}

#[derive(Debug, Default)]
struct PrefaultState {
    heap_done: usize,
    index_done: usize,
    index_wanted: usize,
    /// The target number of segments. Decommitted segments are committed again until this number is reached.
    segments_wanted: usize,
    /// True if the file system refused space since the last call of [`Ahead::takes_short_of_space`].
    short_of_space: bool,
    /// The target number of segments for which the file system refused space, or 0 if it refused none.
    refused_segments: usize,
}

/// Returns the end of an upward step from `at` towards `to`, in bytes. The step ends at the next huge page boundary, so
/// that it touches only one huge page.
fn step_up(at: usize, to: usize) -> usize {
    ((at / STEP_BYTES + 1) * STEP_BYTES).min(to)
}

/// Returns the end of a downward step from `at` towards `to`, in bytes.
fn step_down(at: usize, to: usize) -> usize {
    ((at - 1) / STEP_BYTES * STEP_BYTES).max(to)
}

impl Ahead {
    /// Sets the number of groups that the index needs memory for, and the target number of segments. Surplus memory of
    /// the index will be returned to the kernel. While a step is in progress, nothing is set, and the caller tries
    /// again later.
    pub(crate) fn want(&self, groups: usize, segments: usize) {
        if let Ok(mut state) = self.state.try_lock() {
            (state.index_wanted, state.segments_wanted) = (groups * GROUP_BYTES, segments);
            self.show(&state);
        }
    }

    /// Returns true if the index has memory for `groups` groups, and no step is returning that memory.
    pub(crate) fn has_groups(&self, groups: usize) -> bool {
        let bytes = groups * GROUP_BYTES;
        self.state.try_lock().is_ok_and(|state| state.index_done >= bytes && state.index_wanted >= bytes)
    }

    /// Adds segments that were never taken to the free segments, until the target number is reached. Decommitted
    /// segments count towards the target. Returns false if none was added: none is needed, or a step is in progress,
    /// which might be returning their memory.
    pub(crate) fn add_fresh(&self, segments: &Segments) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        let missing = state.segments_wanted.saturating_sub(segments.count() + segments.decommitted_count());
        let each = segments.segment_bytes();
        if missing == 0 {
            return false;
        }
        if segments.heap.map().allocate(segments.end() * each, missing * each).is_err() {
            (state.short_of_space, state.refused_segments) = (true, state.segments_wanted);
            return false;
        }
        segments.add_fresh(missing);
        state.refused_segments = 0;
        true
    }

    /// Adds segments like [`Ahead::add_fresh`], but not if the file system refused space for the same target before. A
    /// background with other work calls this function.
    pub(crate) fn add_fresh_unrefused(&self, segments: &Segments) -> bool {
        let refused = self.state.try_lock().is_ok_and(|state| state.refused_segments == state.segments_wanted);
        !refused && self.add_fresh(segments)
    }

    /// Returns the memory of segments and groups that were taken out of use, and that is not returned to the kernel
    /// yet, in bytes. Never waits for a step.
    pub(crate) fn surplus_bytes(&self, segments: &Segments) -> u64 {
        let end = (segments.end() * segments.segment_bytes()) as u64;
        self.heap_done.load(Relaxed).saturating_sub(end) + self.index_surplus.load(Relaxed)
    }

    /// See [`crate::background::populator::takes_short_of_space`].
    pub(crate) fn takes_short_of_space(&self) -> bool {
        self.state.try_lock().is_ok_and(|mut state| std::mem::take(&mut state.short_of_space))
    }

    /// Prepares the memory of a store in a file: allocates file space for the part in use, and frees the space after
    /// that part.
    pub(crate) fn begin_in_file(&self, segments: &Segments, index: &Index, has_index: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (map, heap) = (index.map(), segments.heap.map());
        // Until the background sets a target, the present number of segments is the target.
        state.index_wanted = index.groups().max(index.groups_next()) * GROUP_BYTES;
        state.segments_wanted = segments.count();
        // An index outside the file has no memory yet.
        state.index_done = if has_index { state.index_wanted } else { 0 };
        state.heap_done = segments.end() * segments.segment_bytes();
        let _ = map.release(state.index_wanted, map.bytes() - state.index_wanted);
        let _ = heap.release(state.heap_done, heap.bytes() - state.heap_done);
        self.show(&state);
    }

    /// Runs one step. Returns false if there is nothing to do.
    pub(crate) fn step(&self, segments: &Segments, index: &Index) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let worked = state.step_index(index) || state.step_segments(segments) || state.step_heap(segments);
        self.show(&state);
        worked
    }

    fn show(&self, state: &PrefaultState) {
        self.heap_done.store(state.heap_done as u64, Relaxed);
        self.index_surplus.store(state.index_done.saturating_sub(state.index_wanted) as u64, Relaxed);
    }
}

impl PrefaultState {
    fn step_index(&mut self, index: &Index) -> bool {
        let (map, wanted) = (index.map(), self.index_wanted);
        if self.index_done < wanted {
            let to = step_up(self.index_done, wanted);
            if map.allocate(self.index_done, to - self.index_done).is_err() {
                self.short_of_space = true;
                return false;
            }
            // If the kernel cannot populate the memory, the first write to each page causes a page fault instead.
            let _ = map.populate(self.index_done, to - self.index_done);
            self.index_done = to;
        } else if self.index_done > wanted {
            let to = step_down(self.index_done, wanted);
            let _ = map.release(to, self.index_done - to);
            self.index_done = to;
        } else {
            return false;
        }
        true
    }

    /// Commits a decommitted segment again.
    fn step_segments(&self, segments: &Segments) -> bool {
        if segments.count() >= self.segments_wanted {
            return false;
        }
        segments.give_back_decommitted()
    }

    /// Populates the segments that will be opened next, and returns the memory of segments that were taken out of use.
    fn step_heap(&mut self, segments: &Segments) -> bool {
        let each = segments.segment_bytes();
        let (next, end) = (segments.high_water() * each, segments.end() * each);
        let wanted = (next + AHEAD_BYTES.max(each)).min(end);
        if self.heap_done < wanted {
            let to = step_up(self.heap_done, wanted);
            let _ = segments.heap.map().populate(self.heap_done, to - self.heap_done);
            self.heap_done = to;
        } else if self.heap_done > end {
            let to = step_down(self.heap_done, end);
            let _ = segments.heap.map().release(to, self.heap_done - to);
            self.heap_done = to;
        } else {
            return false;
        }
        true
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn prefault_step_ends_at_huge_page_boundary_in_both_directions() {
        let page = STEP_BYTES;
        assert_eq!((step_up(0, 9 * page), step_up(5, 9 * page), step_up(page, page + 7)), (page, page, page + 7));
        assert_eq!(
            (step_down(9 * page, 0), step_down(page + 1, 0), step_down(page + 7, page + 3)),
            (8 * page, page, page + 3)
        );
    }
}
