//! Drains a segment: every item is moved or removed, until no index slot names an item in the segment.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use base::clock::UnixMillis;

use super::observe::Evicted;
use super::scrub::end_damaged;
use super::{Background, SliceKind};
use crate::core::lookup::{EndReason, FoundItem, access, find, find_locked, item_in, key_at};
use crate::core::snap::Snap;
use crate::core::store::Store;
use crate::heap::checksums::{ITEM_STEP, WalkedItem};
use crate::heap::segments::SegmentId;
use crate::items::unpublished::{Plan, kill, note_ended, publish, unname, unpublished};
use crate::items::write::rewrite::{Rewrite, copy_plan};
use crate::layout::header::{EvictionQueue, SegmentHeader, SegmentState};
use crate::layout::item::{DEAD, Layout};
use crate::layout::key::{Key, Namespace};
use crate::layout::slot::{FREQ_MAX, Slot};
use crate::tier::tiered::{Demoted, demote};
use crate::values::deferred_free::free_orphan;
use crate::values::parts::{Judged, is_orphan, judged};

/// The reason why a segment is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The segment is evicted from this queue to make room.
    Evict(EvictionQueue),
    /// All items of the segment have expired or were removed.
    Expire,
    /// The segment's namespace was flushed.
    Flush,
    /// The segment is mostly dead, and its live items are copied.
    Compact,
}

impl Why {
    pub(super) fn kind(self) -> SliceKind {
        match self {
            Self::Evict(_) => SliceKind::Evict,
            Self::Expire | Self::Flush => SliceKind::Expire,
            Self::Compact => SliceKind::Compact,
        }
    }

    /// Returns true if the values that are evicted leave ghosts. Values of the main queue leave none, because they were
    /// not read for a long time.
    pub(super) fn leaves_ghosts(self) -> bool {
        self == Self::Evict(EvictionQueue::Small)
    }

    /// Returns the reason's index in the gauge of drained segments.
    pub(super) fn number(self) -> usize {
        match self {
            Self::Evict(_) => 0,
            Self::Expire => 1,
            Self::Flush => 2,
            Self::Compact => 3,
        }
    }
}

/// A walk through a segment, from item to item.
#[derive(Debug)]
pub(super) struct Drain {
    id: SegmentId,
    pub(super) why: Why,
    pub(super) at: usize,
    end: usize,
    /// Mean size in bytes of the values of the segment's namespace when the walk began.
    mean_bytes: usize,
    /// True if the walk stopped at an item that has to be copied and for whose copy no segment is free.
    pub(super) lacks_room: bool,
    /// True while the walk searches for the next item behind a damaged part.
    searches: bool,
    /// True if the walk met damage, so that some items of the counts do not exist.
    is_damaged: bool,
}

/// The number of mean value sizes for which a value needs one read to be promoted: a value of n times that length needs
/// n reads, rounded up, and at least as many as the policy's candidate requires. The value is not 1, because then items
/// slightly below and slightly above the mean size would need different numbers of reads.
const MEANS_A_READ: usize = 2;

/// Returns the number of reads after which a value of `bytes` bytes is promoted from the small queue to the main queue,
/// if values have `mean_bytes` bytes on average and short values need `least` reads. All pieces of a value count, so
/// all need the same number of reads.
///
/// A miss costs the same for items of every length. So the same memory avoids more misses if it holds many short items
/// instead of a few long ones. An item whose slot counts [`FREQ_MAX`] reads is always promoted, whatever its length.
fn promote_freq(bytes: usize, mean_bytes: usize, least: u64) -> u64 {
    (bytes.div_ceil(MEANS_A_READ * mean_bytes.max(1)) as u64).clamp(least, FREQ_MAX)
}

/// The result of handling one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Done,
    /// The item's lock could not be taken, or the item changed. The item is handled again in the next slice.
    Busy,
    /// The item must not be removed, and there was no room for its copy. The item is handled again when there is room.
    Full,
}

/// Returns true if the segment is from an earlier process. Its counts may then be wrong, because a crash may have
/// interrupted changes. Nevertheless every item of the segment is dead at the end of the walk, because other threads
/// remove an item completely under its lock.
fn lived_on(store: &Store, header: &SegmentHeader) -> bool {
    header.sequence() < store.reopened_at
}

/// Returns true if the segment's counts may be wrong because of a crash. A rebuild of the index counts the items of
/// earlier processes again, so the counts are then right.
pub(super) fn counts_may_be_off(store: &Store, header: &SegmentHeader) -> bool {
    lived_on(store, header) && store.rebuild.is_none()
}

/// Counts as lost the items and bytes that remain in the counts of a drained segment. Threads have counted every item
/// that they removed, so the remainder comes from changes that a crash interrupted.
pub(super) fn count_lost(store: &Store, header: &SegmentHeader) {
    if counts_may_be_off(store, header) {
        let bytes = (store.segments.segment_bytes() as u64).saturating_sub(header.dead_bytes().into());
        let (items, keys) = (u64::from(header.live_items()), u64::from(header.live_keys()));
        Background::counters(store).note_lost(header.namespace(), items, items.saturating_sub(keys), bytes);
    }
}

/// Counts the items that remain in the counts of a segment as dead, because damage made them unreadable.
fn lose_rest(store: &Store, header: &SegmentHeader) {
    let bytes = (store.segments.segment_bytes() as u32).saturating_sub(header.dead_bytes());
    let (items, hidden) = (header.live_items(), header.live_items().saturating_sub(header.live_keys()));
    let counters = Background::counters(store);
    counters.note_lost(header.namespace(), items.into(), hidden.into(), bytes.into());
    header.correct(items, hidden, bytes);
}

/// Returns true if an expired item must stay because it supersedes (hides) older versions of its key. While the index
/// is rebuilt, an older version may still be found and would become visible. So a compaction moves an expired item
/// instead of removing it. Flushed items need no such care, because the flush also ended the older versions.
fn hides_older(store: &Store, why: Why) -> bool {
    why == Why::Compact && store.is_rebuilding()
}

/// Returns true if the item must not be removed as ended: it has neither expired nor been flushed, or it has expired
/// but hides older versions.
fn stands(store: &Store, seen: &FoundItem<'_>, why: Why, now: UnixMillis) -> bool {
    match seen.ended(store, now) {
        None => true,
        Some(EndReason::Expired) => hides_older(store, why),
        Some(EndReason::Flushed) => false,
    }
}

/// The number of items that are handled between two checks whether the slice is over.
const ITEMS_PER_LOOK: usize = 32;

impl Drain {
    pub(super) fn of(id: SegmentId, header: &SegmentHeader, why: Why, mean_bytes: usize) -> Self {
        let end = header.written.load(Acquire) as usize;
        Self { id, why, at: 0, end, mean_bytes, lacks_room: false, searches: false, is_damaged: false }
    }

    /// Returns the item at the walk's position. Returns `None` if the segment is damaged there. Only a segment of an
    /// earlier process is checked: its file may have changed in between.
    fn item(&self, store: &Store, header: &SegmentHeader) -> Option<WalkedItem> {
        let (segments, seed) = (&store.segments, store.sum_seed);
        match (lived_on(store, header), self.searches) {
            (true, true) => segments.sound_item(seed, self.id, self.at),
            (true, false) => segments.walked(seed, self.id, self.at),
            (false, _) => {
                let layout = item_in(store, header, segments.start(self.id) + self.at)?;
                Some(WalkedItem { layout, is_damaged: false })
            }
        }
    }
}

/// Continues the walk until the end of the segment or of the slice. Returns the walk if the segment is not completely
/// drained.
pub(super) fn run_drain(
    background: &mut Background,
    store: &Store,
    mut drain: Drain,
    now: UnixMillis,
    over: &mut dyn FnMut() -> bool,
) -> Option<Drain> {
    let (start, header) = (store.segments.start(drain.id), store.segments.header(drain.id));
    let mut items = 0;
    drain.lacks_room = false;
    while drain.at < drain.end {
        let item = drain.item(store, header);
        debug_assert!(item.is_some() || lived_on(store, header), "an item that does not fit");
        drain.searches = item.is_none();
        drain.is_damaged |= item.is_none();
        if let Some(WalkedItem { layout, is_damaged }) = item.filter(|item| !item.layout.has(DEAD)) {
            let address = start + drain.at;
            let step = match is_damaged {
                true => end_damaged(store, address),
                false => drain_item(background, store, &drain, address, &layout, now),
            };
            drain.lacks_room = step == Step::Full;
            if step != Step::Done {
                return Some(drain);
            }
        }
        drain.at += item.map_or(ITEM_STEP, |item| item.layout.size);
        items += 1;
        if items % ITEMS_PER_LOOK == 0 && over() {
            return Some(drain);
        }
    }
    if drain.is_damaged && !counts_may_be_off(store, header) {
        lose_rest(store, header);
    }
    if header.live_items() != 0 && !counts_may_be_off(store, header) {
        // A thread has cleared an item's slot but has not counted the removal yet. The thread counts the removal before
        // its guard ends, so the next slice checks again.
        return Some(drain);
    }
    header.go(SegmentState::Quarantine);
    background.quarantine.push((drain.id, store.epochs.now()));
    None
}

fn drain_item(
    background: &mut Background,
    store: &Store,
    drain: &Drain,
    address: usize,
    layout: &Layout,
    now: UnixMillis,
) -> Step {
    let header = store.segments.header(drain.id);
    let key = key_at(store, header.namespace(), address, layout);
    let Some(seen) = find(store, &key).filter(|seen| seen.address == address) else {
        // The item was replaced after its header was read. The replacing thread marks it dead, unless its process was
        // killed before.
        return if lived_on(store, header) { end_lost(store, &key, address) } else { Step::Done };
    };
    let Judged { freq, bytes } = judged(store, &key, &seen);
    let candidate = background.shadows.candidate();
    let target = match drain.why {
        _ if !stands(store, &seen, drain.why, now) => None,
        _ if key.piece && is_orphan(store, &key) => None,
        Why::Expire | Why::Flush => None,
        Why::Evict(EvictionQueue::Small) if freq >= promote_freq(bytes, drain.mean_bytes, candidate.promote_freq) => {
            Some((EvictionQueue::Main, Some(0)))
        }
        Why::Evict(EvictionQueue::Main) if freq > 0 => {
            Some((EvictionQueue::Main, Some(candidate.freq_of_next_round(freq))))
        }
        Why::Evict(_) => None,
        Why::Compact => Some((header.queue(), None)),
    };
    match target {
        Some((queue, freq)) => relocate(background, store, &key, &seen, (drain.why, queue, freq), now),
        None if matches!(drain.why, Why::Evict(_)) && store.tier.is_some() && seen.ended(store, now).is_none() => {
            demote_or_remove(background, store, &key, &seen, drain.why, now)
        }
        None => remove(background, store, &key, address, drain.why, now),
    }
}

/// Marks an item dead that no index slot names. Returns `Busy` if the key's lock could not be taken or a slot names the
/// item after all.
pub(super) fn end_lost(store: &Store, key: &Key<'_>, address: usize) -> Step {
    let Some(_locked) = store.index.lock(key.hash) else { return Step::Busy };
    if find(store, key).is_some_and(|seen| seen.address == address) {
        return Step::Busy;
    }
    let layout = Layout::read(&store.segments.heap, address);
    if !layout.has(DEAD) {
        // If the item was a head, its object is not freed, because another copy of the head may name the same object.
        let _ = kill(store, Background::counters(store), address, &layout);
    }
    Step::Done
}

/// Copies the item to a segment of a queue. If the item changes meanwhile, the copy is tried again later. If there is
/// no room, the item waits or is evicted.
fn relocate(
    background: &mut Background,
    store: &Store,
    key: &Key<'_>,
    seen: &FoundItem<'_>,
    (why, queue, freq): (Why, EvictionQueue, Option<u64>),
    now: UnixMillis,
) -> Step {
    let snap = Snap::of(store, seen);
    let plan = Plan { queue, ..copy_plan(store, seen, &snap, Rewrite::SAME) };
    let Ok(unpublished) = unpublished(store, &mut background.open, key, &plan, now) else {
        // If the item must not be evicted, the walk waits until there is room.
        let keeps = hides_older(store, why) || store.keeps(Namespace(key.namespace));
        return if keeps { Step::Full } else { remove(background, store, key, seen.address, Why::Evict(queue), now) };
    };
    let counters = Background::counters(store);
    let Some(locked) = store.index.lock(key.hash) else {
        background.open.give_back(store, unpublished.reserved);
        return Step::Busy;
    };
    let old = find_locked(store, &locked, key);
    // Expiry and flush are checked again under the lock: no copy may outlive a flush.
    match old.filter(|there| stands(store, there, why, now) && Snap::of(store, there).same(&snap)) {
        Some(there) => {
            let orphan = publish(store, &locked, counters, key, unpublished, Some(&there), freq);
            let orphan = orphan.expect("an item that has a slot needs no room for another");
            debug_assert!(orphan.is_none() || plan.object() == orphan.and_then(|o| o.object(store)));
            counters.relocated.add(1);
            Step::Done
        }
        None => {
            drop(locked);
            background.open.give_back(store, unpublished.reserved);
            // The item changed, ended or was removed. If it is still in its place, the walk handles it again.
            let gone = old.is_none_or(|there| there.address != seen.address);
            if gone { Step::Done } else { Step::Busy }
        }
    }
}

/// Writes the item to the second tier, or removes it if the tier refuses it.
fn demote_or_remove(
    background: &mut Background,
    store: &Store,
    key: &Key<'_>,
    seen: &FoundItem<'_>,
    why: Why,
    now: UnixMillis,
) -> Step {
    match demote(store, Background::counters(store), key, seen, now) {
        Demoted::Gone => Step::Done,
        Demoted::Busy => Step::Busy,
        Demoted::Refused => remove(background, store, key, seen.address, why, now),
    }
}

/// Clears the item's slot. Leaves a ghost if the item is evicted from the small queue, or if it was read and has
/// expired. The ghost shows, if the key is stored again, that the new item is worth retaining.
pub(super) fn remove(
    background: &mut Background,
    store: &Store,
    key: &Key<'_>,
    address: usize,
    why: Why,
    now: UnixMillis,
) -> Step {
    if matches!(why, Why::Evict(_)) && key.piece && background.evict_head(store, key, why, now).is_none() {
        return Step::Busy;
    }
    let Some(locked) = store.index.lock(key.hash) else { return Step::Busy };
    let Some(there) = find_locked(store, &locked, key).filter(|there| there.address == address) else {
        return Step::Done;
    };
    let counters = Background::counters(store);
    let ended = there.ended(store, now);
    let ghost = match ended {
        // A piece or a part leaves no ghost, because its hidden key is never used again.
        None => why.leaves_ghosts() && !key.piece,
        Some(EndReason::Expired) => access(store, there.slot, address, there.meta(store)).0,
        Some(EndReason::Flushed) => false,
    };
    let to = match ghost {
        true if ended.is_none() => background.evicted_ghost(store, key.hash),
        true => store.index.ghosts.ghost(key.hash),
        false => Slot::EMPTY,
    };
    unname(store, &locked, &there, to);
    match ended {
        Some(why) => {
            note_ended(store, counters, Some(&there), now);
            report_expired(background, store, key, &there, why);
        }
        None => note_evicted(background, store, key, &there, now),
    }
    let orphan = kill(store, counters, address, &there.layout);
    drop(locked);
    if let Some(orphan) = orphan {
        free_orphan(store, counters, orphan);
    }
    Step::Done
}

/// Reports an item that has expired to an observer that wants it.
fn report_expired(background: &mut Background, store: &Store, key: &Key<'_>, seen: &FoundItem<'_>, why: EndReason) {
    if why == EndReason::Expired
        && !key.piece
        && let Some(observer) = background.observer.as_deref_mut().filter(|observer| observer.wants_expired())
    {
        observer.expired(&Evicted { namespace: Namespace(key.namespace), item: &seen.item(store) });
    }
}

/// Counts an item that was evicted, and reports it to the observer.
pub(super) fn note_evicted(
    background: &mut Background,
    store: &Store,
    key: &Key<'_>,
    seen: &FoundItem<'_>,
    now: UnixMillis,
) {
    let (fetched, last_access) = access(store, seen.slot, seen.address, seen.meta(store));
    Background::counters(store).note_evicted(key.namespace, &seen.layout, fetched);
    store.background.evicted_idle_ms.store(now.ms_since(last_access), Relaxed);
    if !key.piece
        && let Some(observer) = background.observer.as_deref_mut().filter(|observer| observer.wanted())
    {
        let item = seen.item(store);
        observer.evicted(&Evicted { namespace: Namespace(key.namespace), item: &item });
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn reads_needed_for_promotion_grow_with_length_up_to_slot_counter() {
        let reads = |bytes| promote_freq(bytes, 300, 1);
        assert_eq!([1, 300, 600, 601, 1200, 1201, 1 << 20].map(reads), [1, 1, 1, 2, 2, 3, 3]);
        assert_eq!([1, 1200, 1201].map(|bytes| promote_freq(bytes, 300, 2)), [2, 2, 3]);
    }
}

#[cfg(all(test, not(shuttle)))]
impl Background {
    fn begin(&mut self, id: SegmentId, why: Why) {
        let store = std::sync::Arc::clone(&self.store);
        self.queues.collect_sealed(&store);
        assert!(self.queues.leave(&store, id), "it is in a queue");
        self.begin_drain(&store, id, why);
    }

    /// Begins the compaction of a sealed segment. The following slices continue it.
    pub(crate) fn begin_compaction(&mut self, id: SegmentId) {
        assert!(self.drain.is_none(), "another one is under way");
        self.begin(id, Why::Compact);
    }

    /// Returns true if the current drain lacks free memory for the items that it copies out.
    pub(crate) fn lacks_room(&self) -> bool {
        self.drain.as_ref().is_some_and(|drain| drain.lacks_room)
    }

    /// Drains one sealed segment from its first item to its last, as a compaction or as an eviction.
    pub(crate) fn drain_whole(&mut self, id: SegmentId, compact: bool, now: UnixMillis) {
        let store = std::sync::Arc::clone(&self.store);
        self.begin(id, if compact { Why::Compact } else { Why::Evict(EvictionQueue::Small) });
        let drain = self.drain.take().expect("it was begun");
        assert!(run_drain(self, &store, drain, now, &mut || false).is_none(), "nobody holds it up");
    }
}

#[cfg(all(test, shuttle))]
impl Background {
    /// Drains one sealed segment from its first item to its last, as a compaction or as an eviction, as soon as no
    /// thread writes to the segment.
    pub(crate) fn drain_for_model(&mut self, id: SegmentId, compact: bool, now: UnixMillis) {
        let store = std::sync::Arc::clone(&self.store);
        let why = if compact { Why::Compact } else { Why::Evict(EvictionQueue::Small) };
        let mut drain = None;
        loop {
            // If the walk waits for another thread, this lets that thread run.
            shuttle::thread::yield_now();
            let _gate = store.slice_gate.lock().expect("gate");
            self.queues.collect_sealed(&store);
            if drain.is_none() {
                if !self.queues.leave(&store, id) {
                    continue;
                }
                self.begin_drain(&store, id, why);
                drain = self.drain.take();
            }
            match drain.take().and_then(|d| run_drain(self, &store, d, now, &mut || false)) {
                Some(unfinished) => drain = Some(unfinished),
                None => return,
            }
        }
    }
}
