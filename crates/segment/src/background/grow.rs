//! Growing the index, and getting memory ahead of its use.
//!
//! The index takes its memory from the segments: before it grows, as many segments are withheld and their memory is
//! given back as the new groups will use. So segments and index together stay within the promised bytes.

use std::sync::atomic::Ordering::Relaxed;

use super::Background;
use crate::header::State;
use crate::index::{GROUP_BYTES, GROUP_SLOTS};
use crate::segments::Taker;
use crate::slot::Slot;
use crate::store::Store;

/// Where a growth that foresees the final number of items aims, in percent.
const LOAD_AIM_PERCENT: usize = 85;
/// Memory is populated this far ahead of the segments in use, in bytes.
const POPULATE_AHEAD_BYTES: usize = 64 << 20;
/// And this much of it in one slice.
const POPULATE_SLICE_BYTES: usize = 2 << 20;

/// A growth that is being prepared or is under way.
#[derive(Debug)]
pub(super) struct Growing {
    to: usize,
    /// Segments that have to be withheld in all before it may begin.
    pub(super) withhold: usize,
    /// New groups whose memory was populated.
    populated: usize,
    begun: bool,
}

impl Background {
    /// One step of growth; false if the index needs none or has to wait for segments.
    pub(super) fn run_growth(&mut self, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
        if self.growing.is_none() {
            self.growing = self.plan_growth(store);
        }
        let Some(mut growing) = self.growing.take() else { return false };
        let groups = store.index.groups();
        while self.withheld < growing.withhold {
            if !self.withhold(store) {
                self.growing = Some(growing);
                return false;
            }
            if over() {
                self.growing = Some(growing);
                return true;
            }
        }
        if groups + growing.populated < growing.to {
            let step = (POPULATE_SLICE_BYTES / GROUP_BYTES).min(growing.to - groups - growing.populated);
            // Where the kernel cannot populate, the first write faults instead.
            let _ = store.index.map().populate((groups + growing.populated) * GROUP_BYTES, step * GROUP_BYTES);
            growing.populated += step;
            self.growing = Some(growing);
            return true;
        }
        if !growing.begun {
            store.index.begin_growth(growing.to);
            growing.begun = true;
        }
        if self.split(store, over) {
            store.background.growths.fetch_add(1, Relaxed);
        } else {
            self.growing = Some(growing);
        }
        true
    }

    /// Splits groups until the slice is over; true when the growth is complete.
    fn split(&mut self, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
        loop {
            let done = store.index.split_next(&mut self.scratch, |slot| Self::group_hash(store, slot));
            for slot in self.scratch.dropped.drain(..) {
                if let Some(orphan) = store.evict_slot(Self::counters(store), slot) {
                    store.remove_pieces(Self::counters(store), orphan);
                }
            }
            match done {
                Some(true) => return true,
                None => return false,
                Some(false) if over() => return false,
                Some(false) => {}
            }
        }
    }

    /// The group hash of the key that a slot names. Only the background recycles segments, so the item is there.
    fn group_hash(store: &Store, slot: Slot) -> u32 {
        let layout = crate::item::Layout::read(&store.segments.heap, slot.address());
        let bytes = layout.key(&store.segments.heap, slot.address());
        let namespace = store.segments.header_of(slot.address()).namespace();
        let key = if layout.kind() == Some(crate::item::Kind::Piece) {
            store.hasher.piece(namespace, bytes)
        } else {
            store.hasher.key(crate::key::Namespace(namespace), bytes)
        };
        key.hash.group_hash()
    }

    /// How far to grow, if the index is nearly full: by an eighth, or further while the memory is still filling and
    /// the final number of items can be foreseen.
    fn plan_growth(&self, store: &Store) -> Option<Growing> {
        let totals = store.totals();
        if !store.index_is_loaded(&totals) {
            return None;
        }
        let (items, groups) = (totals.items() as usize, store.index.groups());
        let used = store.segments.count() - store.segments.free_count() - self.limbo.len();
        let foreseen = items * store.segments.count() / used.max(1) * 100 / LOAD_AIM_PERCENT / GROUP_SLOTS;
        let eighth = (groups + groups / 8).max(groups + 1);
        let to = foreseen.clamp(eighth, (groups * 2).max(eighth)).min(store.geometry.groups_max);
        let extra = (to - store.geometry.groups_start) * GROUP_BYTES;
        let withhold = extra.div_ceil(store.segments.segment_bytes());
        Some(Growing { to, withhold, populated: 0, begun: false })
    }

    /// Takes one free segment out of use and gives its memory back.
    fn withhold(&mut self, store: &Store) -> bool {
        if store.segments.free_count() <= store.geometry.free_reserve {
            return false;
        }
        let Some(id) = store.segments.take_free(Taker::Background) else { return false };
        store.segments.header(id).go(State::Withheld);
        // Refused only for locked memory, which then stays counted twice within the stated constant.
        let _ = store.segments.heap.map().release(store.segments.start(id), store.segments.segment_bytes());
        self.withheld += 1;
        true
    }

    /// Gets memory for the segments that will be opened next; false if enough is there.
    pub(super) fn populate_ahead(&mut self, store: &Store) -> bool {
        let each = store.segments.segment_bytes();
        let target = (store.segments.high_water() + (POPULATE_AHEAD_BYTES / each).max(1)).min(store.segments.count());
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
