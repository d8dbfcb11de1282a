//! Resizing: the number of segments follows the requested memory, less the index.
//!
//! ```text
//!   too many:  cut those never taken ──> decommit free ones as the eviction makes them, giving their memory back
//!   too few:   let fresh ones be taken; those that are decommitted come back one by one, with memory
//! ```
//!
//! Any free segment may be decommitted. So the eviction policy alone chooses the items to evict, and no item is moved.
//! A smaller memory has a smaller index too. The number of groups that it will need is estimated from the items that a
//! segment holds now. The segments are reduced to what that index leaves, and then the index shrinks, by half at most
//! at a time.

use std::sync::atomic::Ordering::Relaxed;

use super::Background;
use super::grow::evict_dropped;
use crate::core::store::{Store, totals};
use crate::heap::config::groups_for;
use crate::index::{GROUP_BYTES, GROUP_SLOTS};

/// The target load of a smaller index, in percent.
const LOAD_AIM_PERCENT: usize = 80;
/// The maximum load of the smaller index at which it begins to shrink, in percent.
const LOAD_MOST_PERCENT: usize = 85;

/// A shrink of the index, with the number of groups that it leads to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shrinking {
    aim: usize,
}

impl Shrinking {
    /// Returns a shrink that was in progress when the store was closed, to be finished.
    pub(super) fn to(groups: usize) -> Self {
        Self { aim: groups }
    }
}

/// Applies a requested resize.
pub(super) fn follow_resize(background: &mut Background, store: &Store) {
    let wanted = store.memory.wanted_bytes();
    // The number of items is unknown while a rebuild finds them.
    if wanted == background.memory_bytes || store.is_rebuilding() {
        return;
    }
    let smaller = wanted < std::mem::replace(&mut background.memory_bytes, wanted);
    store.memory.take(store.geometry.limits(wanted));
    // A thread that still waits for room requests it again, within the new limits.
    store.room_wanted.store(0, Relaxed);
    let most = store.geometry.segments_for(wanted, 0).min(store.geometry.segments_max);
    background.queues.make_room(most);
    background.quarantine.reserve(most.saturating_sub(background.quarantine.len()));
    background.growing.take_if(|growing| !growing.begun);
    let aim = if smaller && store.tier.is_none() { foresee_groups(background, store) } else { usize::MAX };
    // A step in progress is finished, whatever size is requested now.
    let shrinks = store.index.is_shrinking() || aim < store.index.groups().max(store.index.groups_next());
    background.shrinking = shrinks.then_some(Shrinking { aim });
}

/// Returns the number of groups that the index will need once only as many segments are left as the memory in force
/// has room for.
fn foresee_groups(background: &Background, store: &Store) -> usize {
    let used = (store.segments.count() - store.segments.free_count()).max(1) as u64;
    let items = totals(store).items();
    // Each segment takes its bytes and the slots of its items.
    let slots_bytes = items * 8 * 100 / LOAD_AIM_PERCENT as u64 / used;
    let each = store.geometry.bytes_of(1, 0) - store.geometry.bytes_of(0, 0) + slots_bytes;
    let segments = background.memory_bytes.saturating_sub(store.geometry.bytes_of(0, 0)) / each;
    ((segments * slots_bytes).div_ceil(GROUP_BYTES as u64) as usize).max(groups_for(background.memory_bytes))
}

/// Runs one step of a shrink of the index. Returns false if no shrink is wanted, or if it waits for the segments.
fn run_shrink(background: &mut Background, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
    let Some(Shrinking { aim }) = background.shrinking else { return false };
    if store.index.is_shrinking() {
        if merge(background, store, over) {
            store.background.shrinks.fetch_add(1, Relaxed);
        }
        return true;
    }
    if background.growing.is_some() || segments_over(background, store) > 0 {
        return false;
    }
    let (items, groups) = (totals(store).items() as usize, store.index.groups());
    let aim = aim.max((items * 100 / LOAD_MOST_PERCENT).div_ceil(GROUP_SLOTS));
    let to = aim.max(groups.div_ceil(2));
    background.shrinking = (to < groups).then_some(Shrinking { aim });
    if to < groups {
        store.index.begin_shrink(to);
    }
    true
}

/// Merges groups until the slice is over or a lock fails. Returns true when the shrink is complete.
fn merge(background: &mut Background, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
    loop {
        let done = store.index.merge_next(&mut background.scratch, store);
        evict_dropped(background, store);
        if done != Some(false) || over() {
            return done == Some(true);
        }
    }
}

/// Returns the target number of segments.
fn segments_wanted(background: &Background, store: &Store) -> usize {
    let groups = match (&background.growing, &background.shrinking) {
        // Until the index has shrunk, the store holds more than the requested memory.
        (_, Some(shrinking)) => shrinking.aim.min(store.index.groups()),
        (Some(growing), None) => growing.to,
        (None, None) => store.index.groups_next(),
    };
    store.geometry.segments_for(background.memory_bytes, groups).min(store.geometry.segments_max)
}

/// Returns the number of segments beyond the target.
pub(super) fn segments_over(background: &Background, store: &Store) -> usize {
    store.segments.count().saturating_sub(segments_wanted(background, store))
}

/// Runs one step towards the target number of segments. Returns false if it is reached, or if the step waits for
/// free segments.
pub(super) fn run_resize(background: &mut Background, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
    if run_shrink(background, store, over) {
        return true;
    }
    let mut worked = false;
    while segments_over(background, store) > 0 && decommit(background, store) {
        worked = true;
        if over() {
            return true;
        }
    }
    worked | store.ahead.add_fresh(&store.segments)
}

/// Takes segments out of use: those never taken, or else a free one, whose memory is returned to the kernel.
fn decommit(background: &mut Background, store: &Store) -> bool {
    let segments = &store.segments;
    if segments.cut_fresh(segments_over(background, store)) > 0 {
        return true;
    }
    // A growth of a full index cannot wait. A resize leaves the handles the free segments that they need.
    let keep = if background.growing.is_some() { store.memory.free_reserve() } else { store.memory.free_low() };
    let Some(id) = segments.take_free(keep + store.spaces.reserved()) else { return false };
    segments.decommit(id);
    true
}

/// Reports how much memory is wanted: for the present index, or for the index after a change whose room is
/// available.
pub(super) fn request_memory(background: &Background, store: &Store) {
    let has_room = segments_over(background, store) == 0;
    let planned = background.growing.as_ref().filter(|_| has_room).map_or(0, |growing| growing.to);
    let groups = store.index.groups().max(store.index.groups_next()).max(planned);
    store.ahead.want(groups, segments_wanted(background, store));
}
