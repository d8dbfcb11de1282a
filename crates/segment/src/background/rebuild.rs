//! What the background does while the index is made anew ([`crate::rebuild`]): its part in that, and room for what is
//! stored meanwhile.

use base::clock::UnixMillis;

use super::{Background, SliceKind, of_pool};
use crate::header::{SegmentHeader, State};
use crate::rebuild::RebuildStep;
use crate::store::Store;

/// Items on flash that one slice finds, beside what else it does: some 30 us.
const FOUND_A_SLICE: usize = 256;

impl Background {
    /// Finds some items on flash again; true if there are more at hand.
    pub(super) fn find_flash(store: &Store) -> bool {
        if !store.finds || !store.is_finding() {
            return false;
        }
        let mut looks = FOUND_A_SLICE / crate::rebuild::ITEMS_PER_LOOK;
        let step = store.find_on_flash(Self::counters(store), &mut || {
            looks = looks.saturating_sub(1);
            looks == 0
        });
        step == RebuildStep::More
    }

    /// One slice of it; whoever waits for the index to grow comes first.
    pub(super) fn run_rebuild(&mut self, store: &Store, now: UnixMillis, over: &mut dyn FnMut() -> bool) -> SliceKind {
        if let Some(namespace) = self.short(store) {
            self.give_up_oldest(store, namespace);
        }
        if self.run_growth(store, over) {
            return SliceKind::Grow;
        }
        if self.growing.is_some() && self.run_resize(store, over) {
            return SliceKind::Resize;
        }
        if self.growing.is_some() && !self.populates_elsewhere && store.ahead.step(store) {
            return SliceKind::Populate;
        }
        if self.rebuilding.step(store, Self::counters(store), now, over) == RebuildStep::Waits {
            self.open.seal_ended(store, now);
        }
        SliceKind::Rebuild
    }

    /// Frees the oldest segment of those that nobody has looked at: no slot names anything in it.
    fn give_up_oldest(&mut self, store: &Store, namespace: u8) {
        let pool = of_pool(store, namespace).fold(0u32, |bits, namespace| bits | 1 << namespace);
        let may = |header: &SegmentHeader| pool & 1 << header.namespace() != 0;
        let given = store.rebuild.as_ref().and_then(|rebuild| rebuild.give_up_oldest(store, may));
        let Some(id) = given else { return };
        let header = store.segments.header(id);
        let queued = self.queues.leave(store, id);
        debug_assert!(queued, "a segment of an earlier process is queued from the first slice on");
        header.go(State::Draining);
        header.go(State::Limbo);
        self.evicted_last = namespace;
        self.limbo.push((id, store.epochs.now()));
    }
}
