//! Resizes the store: the number of segments follows from the requested memory, less the memory of the index.
//!
//! ```text
//!   too many segments:  give up those never allocated ──> decommit free segments, as eviction frees them
//!   too few segments:   allow new segments; recommit decommitted segments one by one
//! ```
//!
//! Any free segment may be decommitted. So the eviction policy alone chooses the items to evict, and no item is moved.
//! A smaller memory also gets a smaller index. The number of groups that the smaller index needs is estimated from the
//! number of items that a segment holds now. First the number of segments is reduced to what fits beside the smaller
//! index. Then the index shrinks, at most by half at a time.

use std::sync::atomic::Ordering::Relaxed;

use super::Background;
use super::grow::evict_dropped;
use crate::core::store::{Store, totals};
use crate::heap::config::groups_for;
use crate::index::{GROUP_BYTES, GROUP_SLOTS};

/// The target share of used slots in an index that has shrunk, in percent.
const LOAD_AIM_PERCENT: usize = 80;
/// The maximum share of used slots that the index may have after a shrink, in percent. A shrink to fewer groups does
/// not begin.
const LOAD_MOST_PERCENT: usize = 85;

/// A planned or running shrink of the index, with the final number of groups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shrinking {
    aim: usize,
}

impl Shrinking {
    /// Returns the rest of a shrink to `groups` groups that was in progress when the store was closed.
    pub(super) fn to(groups: usize) -> Self {
        Self { aim: groups }
    }
}

/// Begins a resize if the requested memory has changed.
pub(super) fn follow_resize(background: &mut Background, store: &Store) {
    let wanted = store.memory.wanted_bytes();
    // The number of items is unknown while a rebuild finds them.
    if wanted == background.memory_bytes || store.is_rebuilding() {
        return;
    }
    let smaller = wanted < std::mem::replace(&mut background.memory_bytes, wanted);
    store.memory.take(store.geometry.limits(wanted));
    // Threads that still wait for room request it again, within the new limits.
    store.room_wanted.store(0, Relaxed);
    let most = store.geometry.segments_for(wanted, 0).min(store.geometry.segments_max);
    background.queues.make_room(most);
    background.quarantine.reserve(most.saturating_sub(background.quarantine.len()));
    background.growing.take_if(|growing| !growing.begun);
    let aim = if smaller && store.tier.is_none() { foresee_groups(background, store) } else { usize::MAX };
    // A shrink step that is in progress is always finished, even if the new request is for more memory.
    let shrinks = store.index.is_shrinking() || aim < store.index.groups().max(store.index.groups_next());
    background.shrinking = shrinks.then_some(Shrinking { aim });
}

/// Returns the number of groups that the index will need after the number of segments was reduced to fit into the new
/// memory limit.
fn foresee_groups(background: &Background, store: &Store) -> usize {
    let used = (store.segments.count() - store.segments.free_count()).max(1) as u64;
    let items = totals(store).items();
    // Each segment needs memory for itself and for the index slots of its items.
    let slots_bytes = items * 8 * 100 / LOAD_AIM_PERCENT as u64 / used;
    let each = store.geometry.bytes_of(1, 0) - store.geometry.bytes_of(0, 0) + slots_bytes;
    let segments = background.memory_bytes.saturating_sub(store.geometry.bytes_of(0, 0)) / each;
    ((segments * slots_bytes).div_ceil(GROUP_BYTES as u64) as usize).max(groups_for(background.memory_bytes))
}

/// Runs one step of a shrink of the index. Returns false if no shrink is wanted, or if the shrink has to wait until the
/// number of segments is reduced.
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
        // The target size of the index is used, although the index has not shrunk yet. Until then, the store holds more
        // than the requested memory.
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

/// Runs one step towards the target number of segments. Returns false if the target is reached, or if no segment is
/// free to be decommitted.
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

/// Takes segments out of use: segments that were never allocated, or else one free segment, whose memory is returned to
/// the kernel. Returns false if no such segment is available.
fn decommit(background: &mut Background, store: &Store) -> bool {
    let segments = &store.segments;
    if segments.cut_fresh(segments_over(background, store)) > 0 {
        return true;
    }
    // A growth of a full index is urgent and may use all free segments except the reserve. A resize leaves the data
    // threads the free segments that they need.
    let keep = if background.growing.is_some() { store.memory.free_reserve() } else { store.memory.free_low() };
    let Some(id) = segments.take_free(keep + store.spaces.reserved()) else { return false };
    segments.decommit(id);
    true
}

/// Sets how much memory to obtain from the kernel for segments and index. The memory for a planned growth of the index
/// is included once enough segments are decommitted.
pub(super) fn request_memory(background: &Background, store: &Store) {
    let has_room = segments_over(background, store) == 0;
    let planned = background.growing.as_ref().filter(|_| has_room).map_or(0, |growing| growing.to);
    let groups = store.index.groups().max(store.index.groups_next()).max(planned);
    store.ahead.want(groups, segments_wanted(background, store));
}
