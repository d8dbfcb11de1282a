//! Memory for the segments: as many as the memory that is wanted and the index leave, got ahead of their use.
//!
//! ```text
//!   too many:  cut those never taken ──> withhold free ones as the eviction makes them, giving their memory back
//!   too few:   free withheld ones, with memory ──> let fresh ones be taken
//!   neither:   populate the fresh ones that come next
//! ```
//!
//! Any free segment may be withheld, so which items go is the eviction policy's choice alone, and none is moved. A
//! smaller memory has a smaller index too: how many groups it will need is foreseen from the items that a segment holds
//! now, the segments are brought down to what that leaves, and then the index shrinks, by half at most at a time.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use super::Background;
use crate::config::groups_for;
use crate::index::{GROUP_BYTES, GROUP_SLOTS};
use crate::store::Store;

/// Memory is populated this far ahead of the segments in use, in bytes.
const POPULATE_AHEAD_BYTES: usize = 64 << 20;
/// And this much of it in one slice.
pub(super) const POPULATE_SLICE_BYTES: usize = 2 << 20;

/// A smaller index is to have this part of its slots taken, in percent.
const LOAD_AIM_PERCENT: usize = 80;
/// And no more than this when it begins to shrink.
const LOAD_MOST_PERCENT: usize = 85;

/// A shrink of the index.
#[derive(Clone, Debug)]
pub(super) struct Shrinking {
    /// Groups that there are to be in the end.
    aim: usize,
    /// Groups that a step has emptied or is emptying: their memory is given back after it, from the last one down.
    release: Option<Range<usize>>,
}

impl Background {
    /// Puts in force what a resize asked for.
    pub(super) fn follow_resize(&mut self, store: &Store) {
        let wanted = store.memory.wanted_bytes();
        if wanted == self.memory_bytes {
            return;
        }
        let smaller = wanted < std::mem::replace(&mut self.memory_bytes, wanted);
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
        let aim = if smaller { self.foresee_groups(store) } else { usize::MAX };
        // A step that is under way is finished, whatever is wanted now.
        let release = self.shrinking.take().and_then(|shrinking| shrinking.release);
        if release.is_some() || aim < store.index.groups().max(store.index.groups_next()) {
            self.shrinking = Some(Shrinking { aim, release });
        }
    }

    /// How many groups the index will need when only so many segments are left as the memory in force has room for.
    fn foresee_groups(&self, store: &Store) -> usize {
        let used = (store.segments.count() - store.segments.free_count()).max(1) as u64;
        let items = store.totals().items();
        // Each segment takes its bytes and the slots of its items.
        let slots_bytes = items * 8 * 100 / LOAD_AIM_PERCENT as u64 / used;
        let each = store.geometry.bytes_of(1, 0) - store.geometry.bytes_of(0, 0) + slots_bytes;
        let segments = self.memory_bytes.saturating_sub(store.geometry.bytes_of(0, 0)) / each;
        ((segments * slots_bytes).div_ceil(GROUP_BYTES as u64) as usize).max(groups_for(self.memory_bytes))
    }

    /// One step of making the index smaller; false if it is not to be, or waits for the segments.
    fn run_shrink(&mut self, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
        let Some(Shrinking { aim, release }) = self.shrinking.clone() else { return false };
        if store.index.is_shrinking() {
            if self.merge(store, over) {
                store.background.shrinks.fetch_add(1, Relaxed);
            }
            return true;
        }
        if let Some(Range { start, end }) = release {
            let from = start.max(end.saturating_sub(POPULATE_SLICE_BYTES / GROUP_BYTES));
            let _ = store.index.map().release(from * GROUP_BYTES, (end - from) * GROUP_BYTES);
            self.shrinking = Some(Shrinking { aim, release: (from > start).then_some(start..from) });
            return true;
        }
        if self.growing.is_some() || self.segments_over(store) > 0 {
            return false;
        }
        let (items, groups) = (store.totals().items() as usize, store.index.groups());
        let aim = aim.max((items * 100 / LOAD_MOST_PERCENT).div_ceil(GROUP_SLOTS));
        let to = aim.max(groups.div_ceil(2));
        self.shrinking = (to < groups).then_some(Shrinking { aim, release: Some(to..groups) });
        if to < groups {
            store.index.begin_shrink(to);
        }
        true
    }

    /// Merges groups until the slice is over or a lock is not had; true when the shrink is complete.
    fn merge(&mut self, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
        loop {
            let done = store.index.merge_next(&mut self.scratch, |slot| Self::group_hash(store, slot));
            self.evict_dropped(store);
            if done != Some(false) || over() {
                return done == Some(true);
            }
        }
    }

    /// How many segments there are to be.
    fn segments_wanted(&self, store: &Store) -> usize {
        let groups = match (&self.growing, &self.shrinking) {
            (Some(growing), _) => growing.to,
            // Until the index is so small, the memory is not in force yet.
            (None, Some(shrinking)) => shrinking.aim.min(store.index.groups()),
            (None, None) => store.index.groups_next(),
        };
        store.geometry.segments_for(self.memory_bytes, groups).min(store.geometry.segments_max)
    }

    /// How many segments there are too many.
    pub(super) fn segments_over(&self, store: &Store) -> usize {
        store.segments.count().saturating_sub(self.segments_wanted(store))
    }

    /// One step towards the number of segments that is wanted; false if it is there, or waits for free ones.
    pub(super) fn run_resize(&mut self, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
        if self.run_shrink(store, over) {
            return true;
        }
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
