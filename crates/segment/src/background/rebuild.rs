//! The background's work while the index is rebuilt ([`crate::durable::rebuild`]). It takes part in the rebuild, and
//! frees memory for items that are stored meanwhile.

use base::clock::UnixMillis;

use super::drain::{Why, run_drain};
use super::grow::run_growth;
use super::resize::run_resize;
use super::{Background, SCAN_HEADERS, SliceKind, of_pool};
use crate::core::store::Store;
use crate::durable::rebuild::flash::find_on_flash;
use crate::durable::rebuild::{Rebuild, RebuildStep};
use crate::heap::segments::SegmentId;
use crate::layout::header::{SegmentHeader, SegmentState};
use crate::layout::ttl::CLASS_NEVER;

/// The number of items on flash that one slice finds in addition to its other work. This takes about 30 us.
const FOUND_A_SLICE: usize = 256;
/// The number of segments that must be walked between two segments that are discarded unwalked. This takes about 3 ms
/// on one thread.
const WALKED_A_GIVEN: usize = 8;

impl Background {
    /// Adds some of the items on flash to the index again. Returns true if more of them can be added now.
    pub(super) fn find_flash(store: &Store) -> bool {
        if !store.finds || !store.is_finding() {
            return false;
        }
        let mut looks = FOUND_A_SLICE / crate::durable::rebuild::ITEMS_PER_LOOK;
        let step = find_on_flash(store, Self::counters(store), &mut || {
            looks = looks.saturating_sub(1);
            looks == 0
        });
        step == RebuildStep::More
    }

    /// Runs one slice of the rebuild. Freeing memory and growing the index come before the rebuild itself, because
    /// threads may be waiting for them.
    pub(super) fn run_rebuild(&mut self, store: &Store, now: UnixMillis, over: &mut dyn FnMut() -> bool) -> SliceKind {
        let lacks_room = self.drain.as_ref().is_some_and(|drain| drain.lacks_room);
        let short = self.short(store).filter(|_| self.drain.is_none() || lacks_room);
        if let Some(namespace) = short {
            match if lacks_room { None } else { self.mostly_dead(store) } {
                Some(id) => self.begin_drain(store, id, Why::Compact),
                None if lacks_room || self.is_time_to_give_up(store) => self.give_up_cheapest(store, namespace),
                None => {}
            }
        }
        if let Some(drain) = self.drain.take() {
            self.drain = run_drain(self, store, drain, now, over);
            // If there is no room for the copies, the rebuild continues. It finds segments that can be discarded or
            // evicted.
            if !self.drain.as_ref().is_some_and(|drain| drain.lacks_room) {
                return SliceKind::Compact;
            }
        }
        if run_growth(self, store, over) {
            return SliceKind::Grow;
        }
        if self.growing.is_some() && run_resize(self, store, over) {
            return SliceKind::Resize;
        }
        if self.growing.is_some() && !self.populates_elsewhere && store.ahead.step(&store.segments, &store.index) {
            return SliceKind::Populate;
        }
        if self.rebuilding.step(store, Self::counters(store), now, over) == RebuildStep::Waits {
            self.open.seal_ended(store, now);
            // The rebuild itself may be waiting for memory, so the next segment may be discarded at once.
            self.given_up_at = None;
        }
        SliceKind::Rebuild
    }

    /// Returns true if a segment may be discarded unwalked now. That is so if the scan found no mostly dead segment,
    /// and enough segments were walked since the last discard for the walks to find dead items. Threads that need
    /// memory wait meanwhile.
    fn is_time_to_give_up(&mut self, store: &Store) -> bool {
        let walked = store.rebuild.as_ref().map_or(0, Rebuild::walked);
        let is_none_dead = self.scanned_in_vain >= store.segments.high_water();
        let is_time = is_none_dead && self.given_up_at.is_none_or(|at| walked >= at + WALKED_A_GIVEN);
        if is_time {
            (self.given_up_at, self.scanned_in_vain) = (Some(walked), 0);
        }
        is_time
    }

    /// Returns a segment that is at least half dead and may be compacted. Only segments without expired or flushed
    /// items qualify: such an item may supersede an older version of its key that is not found yet, so it must stay.
    fn mostly_dead(&mut self, store: &Store) -> Option<SegmentId> {
        let rebuild = store.rebuild.as_ref()?;
        if store.segments.free_count() == 0 {
            // Compaction is impossible without a free segment to copy items into.
            self.scanned_in_vain = store.segments.high_water();
            return None;
        }
        let (taken, half) = (store.segments.high_water(), store.segments.segment_bytes() as u32 / 2);
        for _ in 0..SCAN_HEADERS.min(taken) {
            let id = SegmentId(self.scan as u32);
            self.scan = (self.scan + 1) % taken;
            self.scanned_in_vain += 1;
            let header = store.segments.header(id);
            let is_dead = header.state() == SegmentState::Sealed && header.dead_bytes() >= half;
            if is_dead
                && header.class() == CLASS_NEVER
                && header.sequence() >= store.flushed_before(header.namespace())
                && rebuild.may_copy(header, store.reopened_at)
                && self.queues.leave(store, id)
            {
                self.scanned_in_vain = 0;
                return Some(id);
            }
        }
        None
    }

    /// Discards the segment with the fewest bytes among those that the rebuild has not walked yet. No index slot names
    /// an item of such a segment.
    fn give_up_cheapest(&mut self, store: &Store, namespace: u8) {
        let pool = of_pool(store, namespace).fold(0u32, |bits, namespace| bits | 1 << namespace);
        let may = |header: &SegmentHeader| pool & 1 << header.namespace() != 0;
        let given = store.rebuild.as_ref().and_then(|rebuild| rebuild.give_up_cheapest(store, may));
        let Some(id) = given else { return };
        let header = store.segments.header(id);
        let queued = self.queues.leave(store, id);
        debug_assert!(queued, "a segment of an earlier process is queued from the first slice on");
        header.go(SegmentState::Draining);
        header.go(SegmentState::Quarantine);
        self.evicted_last = namespace;
        self.quarantine.push((id, store.epochs.now()));
    }
}
