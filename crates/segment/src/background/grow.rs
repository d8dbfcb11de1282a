//! Grows the index.
//!
//! The index takes its memory from the segments. Before the index grows, as many segments are decommitted as the new
//! groups need memory (see [`super::resize`]). So segments and index together stay within the memory limit.

use std::sync::atomic::Ordering::Relaxed;

use super::Background;
use super::resize::segments_over;
use crate::core::lookup::{hash_at, item_of};
use crate::core::store::{Store, index_is_loaded, totals};
use crate::index::GROUP_SLOTS;
use crate::index::growth::Keys;
use crate::items::unpublished::{evict_slot, slot_dies_first};
use crate::layout::slot::Slot;
use crate::values::deferred_free::free_orphan;

/// The target share of used slots after a growth, in percent, if the final number of items can be estimated.
const LOAD_AIM_PERCENT: usize = 85;
/// A growth of the index that is being prepared or is in progress.
#[derive(Debug)]
pub(super) struct Growing {
    pub(super) to: usize,
    pub(super) begun: bool,
}

/// Runs one step of a growth. Returns false if the index need not grow, or if the growth has to wait until segments are
/// decommitted or memory is obtained.
pub(super) fn run_growth(background: &mut Background, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
    if background.growing.is_none() {
        background.growing = plan_growth(background, store);
    }
    let Some(mut growing) = background.growing.take() else { return false };
    if !growing.begun {
        if segments_over(background, store) > 0 || !store.ahead.has_groups(growing.to) {
            background.growing = Some(growing);
            return false;
        }
        store.index.begin_growth(growing.to);
        growing.begun = true;
    }
    if split(background, store, over) {
        store.background.growths.fetch_add(1, Relaxed);
    } else {
        background.growing = Some(growing);
    }
    true
}

/// Splits groups until the slice is over. Returns true when the growth is complete.
fn split(background: &mut Background, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
    loop {
        let done = store.index.split_next(&mut background.scratch, store);
        evict_dropped(background, store);
        match done {
            Some(true) => return true,
            None => return false,
            Some(false) if over() => return false,
            Some(false) => {}
        }
    }
}

/// Evicts the items whose slots did not fit when an index group was split or merged.
pub(super) fn evict_dropped(background: &mut Background, store: &Store) {
    for slot in background.scratch.dropped.drain(..) {
        if let Some(orphan) = evict_slot(store, Background::counters(store), slot) {
            free_orphan(store, Background::counters(store), orphan);
        }
    }
}

/// Returns a growth if the index is nearly full. The index grows by an eighth. While memory is still filling, it grows
/// to the size for the estimated final number of items, at most to twice its size.
fn plan_growth(background: &Background, store: &Store) -> Option<Growing> {
    let totals = totals(store);
    let (groups, groups_max) = (store.index.groups(), store.memory.groups_max());
    let crowded = store.index_crowded.load(Relaxed) && groups < groups_max;
    if background.shrinking.is_some() || !(crowded || index_is_loaded(store, &totals)) {
        return None;
    }
    let items = totals.items() as usize;
    let used = store.segments.count() - store.segments.free_count() - background.quarantine.len();
    let foreseen = items * store.segments.count() / used.max(1) * 100 / LOAD_AIM_PERCENT / GROUP_SLOTS;
    let eighth = (groups + groups / 8).max(groups + 1);
    let to = foreseen.clamp(eighth, (groups * 2).max(eighth)).min(groups_max);
    store.index_crowded.store(false, Relaxed);
    Some(Growing { to, begun: false })
}

/// Only the background frees segments, so the item that a slot names is still in its place.
impl Keys for Store {
    fn group_hash(&self, slot: Slot) -> Option<u32> {
        let (namespace, address, layout) = item_of(self, slot)?;
        Some(hash_at(self, namespace, address, &layout).group_hash())
    }

    fn prefetch(&self, slot: Slot) {
        self.segments.prefetch_header(slot.address());
        self.segments.heap.prefetch(slot.address());
    }

    fn loses_slot(&self, slot: Slot) {
        slot_dies_first(self, slot);
    }
}
