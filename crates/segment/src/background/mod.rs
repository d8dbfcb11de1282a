//! The background thread's work, in slices: everything that frees memory.
//!
//! One thread runs the slices. Each slice first collects the segments that the handles have sealed. Then it removes
//! some of the pieces and parts whose head was removed ([`crate::values::deferred_free`]). Finally it chooses one job
//! and runs it until the job or the slice ends. An unfinished job continues at the same position in the next slice.
//! While such pieces and parts are left, nothing is evicted, because they take the memory that is missing. If an
//! observer wants expired items, each slice also removes some of those ([`active`]).
//!
//! ```text
//!            +-- free segments short? ------> drain for eviction: the small queue's oldest, or the main queue's
//!   slice ---+-- index nearly full? --------> grow the index, a group at a time
//!            +-- a segment expired, flushed -> drain the segment
//!            |   or dead enough?
//!            +-- segments too many, -------> decommit some, or recommit some
//!            |   or too few?
//!            +-- index being rebuilt? ------> rebuild it; of the jobs above, only compaction and growth run meanwhile
//!            +-- in a file? ----------------> check each slot of the persisted index, then compare each segment's
//!            |                                items with their checksums and counts
//!            +-- else ----------------------> populate memory ahead of use
//! ```
//!
//! The eviction policy is S3-FIFO (Yang et al., SOSP '23), applied to segments. New items enter the small queue. The
//! small queue has a tenth of the segments, or the share for which [`shadow`] finds fewer misses. When a segment leaves
//! the small queue, an item that was read once, or twice if that gives fewer misses (more often if it is far longer
//! than the mean), moves to the main queue. The other items are evicted and leave ghosts. An item that was read and
//! has expired also leaves a ghost. In the main queue, an item gets another round for each counted read, or one more
//! round for all its reads. If a new item's key has a ghost, the item begins as if it had been read.
//!
//! While memory is filled for the first time, the oldest segments enter the main queue, whether their items were read
//! or not. Otherwise a loop over more keys than fit would never have a hit.
//!
//! Each namespace has its own queues. The store evicts from a namespace with a quota only when segments of that quota
//! are short. The namespaces without a quota are evicted from as a group, the oldest segment first
//! ([`crate::heap::namespaces`]). If segments are short in several namespaces, one segment of each is evicted in turn.
//!
//! Bounds: the queues and the quarantine list hold each segment at most once, plus stale entries of segments that left
//! their queue early. Stale entries are removed when there are more of them than segments.

mod active;
mod compaction;
mod drain;
mod grow;
mod observe;
pub(crate) mod populator;
mod queues;
mod rebuild;
mod reclaim;
mod resize;
mod scrub;
mod search;
pub(crate) mod shadow;
pub(crate) mod stats;
mod values;
mod verify;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use active::ActiveExpiry;
use base::clock::UnixMillis;
use compaction::Deadness;
use drain::{Drain, Why};
use grow::Growing;

use crate::background::populator::Populator;
use crate::core::capacity::{Whose, follow_quota, free_of, is_full, is_short, pool, shared_free};
use crate::core::counters::Counters;
use crate::core::open::OpenTable;
use crate::core::store::{Store, background_counters, space_totals, totals};
use crate::durable::rebuild::Hand;
use crate::heap::segments::SegmentId;
use crate::index::growth::SplitScratch;
use crate::index::{GROUP_SLOTS, Hash};
use crate::layout::header::{EvictionQueue, SegmentState};
use crate::layout::key::Namespace;
use crate::layout::slot::Slot;
use crate::values::free_queue::{DeferredFree, Freed};
pub use observe::{Evicted, EvictionObserver};
use queues::Queues;
use resize::Shrinking;
pub use scrub::LostItems;
use scrub::Scrub;
use search::Search;
use shadow::{GhostAge, SMALL_IN_A_ROW_MAX, Shadows};
use verify::Verification;

/// The number of headers that one slice checks for segments that are expired, flushed or half dead.
const SCAN_HEADERS: usize = 256;

/// The kind of work that a slice was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceKind {
    /// The slice found nothing to do.
    Idle,
    /// Evicting a segment.
    Evict,
    /// Removing the items of a segment that has expired or was flushed.
    Expire,
    /// Copying the live items out of a segment that is mostly dead.
    Compact,
    /// Growing the index.
    Grow,
    /// Decommitting segments or committing them again, for another memory size or for the index.
    Resize,
    /// Obtaining memory from the kernel ahead of use, or returning surplus memory.
    Populate,
    /// Verifying the index slots of a reopened file, or comparing the items of its segments with their checksums and,
    /// after a crash, with the segments' counts.
    Scrub,
    /// Rebuilding the index from the segments.
    Rebuild,
}

/// The result of a slice.
#[derive(Clone, Copy, Debug)]
pub struct SliceReport {
    /// The kind of work that the slice was spent on.
    pub kind: SliceKind,
    /// True if more work is waiting, so that the caller should run the next slice soon.
    pub more: bool,
}

/// The state of a store's background work.
#[derive(Debug)]
pub struct Background {
    store: Arc<Store>,
    open: OpenTable,
    queues: Queues,
    /// The drained segments, each with the epoch in which its last slot was cleared.
    quarantine: Vec<(SegmentId, u64)>,
    /// The number of quarantined segments that will be free soon, by namespace. Pinned segments do not count: a thread
    /// that waits for memory must not wait for the owner of a pin, who may be waiting for that thread.
    soon_free: [usize; Namespace::MAX],
    /// The number of segments that were compacted in a row while free segments were short.
    copied_in_a_row: usize,
    /// The namespace that was evicted from last. The default namespace stands for all namespaces without a quota.
    evicted_last: u8,
    drain: Option<Drain>,
    /// The deferred free in progress: the rest of a value that lost its head.
    pub(crate) freeing: Option<DeferredFree>,
    /// The state of the background's own part in the rebuild of the index.
    rebuilding: Hand,
    /// During a rebuild: the number of segments that had been walked when a segment was last discarded unwalked.
    /// `None`: the next one may be discarded at once.
    given_up_at: Option<usize>,
    /// During a rebuild: the number of headers checked since the last segment that could be compacted was found.
    scanned_in_vain: usize,
    growing: Option<Growing>,
    shrinking: Option<Shrinking>,
    scrub: Option<Scrub>,
    /// The items that the last pass of the scrub lost, until they are reported.
    lost: Option<LostItems>,
    verification: Verification,
    scratch: SplitScratch,
    /// The number of the segment at which the scan of the headers continues.
    scan: usize,
    deadness: Deadness,
    /// The number of headers scanned since the scan last found a segment to drain.
    scanned: usize,
    search: Search,
    /// The memory size that the background works towards, in bytes.
    memory_bytes: u64,
    /// True if a [`Populator`] obtains memory from the kernel ahead of use, so that slices do not.
    populates_elsewhere: bool,
    observer: Option<Box<dyn EvictionObserver>>,
    expiry: ActiveExpiry,
    shadows: Shadows,
    /// The fixed share of the small queue, in percent of the segments. `None`: the shadows choose it.
    held_percent: Option<u8>,
    ghost_age: GhostAge,
    /// For each namespace, true until it is first evicted from: see [`Background::fill_main`]. The default namespace
    /// stands for all namespaces without a quota.
    filling: [bool; Namespace::MAX],
    /// For each namespace, the number of segments evicted from its small queue since one of its main queue was evicted.
    small_in_a_row: [u8; Namespace::MAX],
}

impl Background {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let count = store.segments.count();
        Self {
            open: OpenTable::new(Whose::Background),
            queues: Queues::new(count, store.geometry.segments_max),
            quarantine: Vec::with_capacity(count),
            soon_free: [0; Namespace::MAX],
            copied_in_a_row: 0,
            evicted_last: 0,
            drain: None,
            freeing: None,
            rebuilding: Hand::default(),
            given_up_at: Some(0),
            scanned_in_vain: 0,
            growing: store.index.is_growing().then(|| Growing { to: store.index.groups_next(), begun: true }),
            shrinking: store.index.is_shrinking().then(|| Shrinking::to(store.index.groups_next())),
            lost: None,
            scrub: store.reopened().filter(|reopened| reopened.found).map(|_| Scrub::default()),
            verification: Verification::default(),
            scratch: SplitScratch::new(),
            scan: 0,
            deadness: Deadness::new(),
            scanned: 0,
            search: Search::default(),
            memory_bytes: store.memory.wanted_bytes(),
            populates_elsewhere: false,
            observer: None,
            expiry: ActiveExpiry::default(),
            shadows: Shadows::new(store.tier.is_some()),
            held_percent: None,
            ghost_age: GhostAge::default(),
            filling: [true; Namespace::MAX],
            small_in_a_row: [0; Namespace::MAX],
            store,
        }
    }

    /// Fixes the small queue's share at `percent` of the segments. The shadows then no longer choose the share.
    pub fn hold_small_percent(&mut self, percent: u8) {
        self.held_percent = Some(percent);
    }

    /// Estimates the number of values that the store will hold when its memory is full. Returns `None` while less than
    /// a part of [`ESTIMATED_FROM_PART`] of the segments are in use.
    fn items_when_full(store: &Store) -> Option<u64> {
        let (count, free) = (store.segments.count() as u64, store.segments.free_count() as u64);
        let used = count.saturating_sub(free).max(1);
        (used * ESTIMATED_FROM_PART >= count).then(|| totals(store).values() * count / used)
    }

    /// Runs the shadows over the sampled requests, and follows their choice of the age up to which ghosts count.
    fn choose_policy(&mut self, store: &Store) {
        let items = Self::items_when_full(store);
        let unused = ((store.index.groups() * GROUP_SLOTS) as u64).saturating_sub(totals(store).items());
        self.shadows.run(&store.samples, items, unused);
        self.ghost_age.follow(&store.index.ghosts, items, self.shadows.candidate());
    }

    /// Returns the ghost of a value that is evicted from the small queue.
    fn evicted_ghost(&mut self, store: &Store, hash: Hash) -> Slot {
        self.ghost_age.evicted(&store.index.ghosts);
        store.index.ghosts.ghost(hash)
    }

    fn small_percent(&self) -> u8 {
        self.held_percent.unwrap_or(self.shadows.candidate().small)
    }

    /// Reports every eviction to `observer` from now on.
    pub fn observe(&mut self, observer: Box<dyn EvictionObserver>) {
        self.observer = Some(observer);
    }

    /// Returns the items that the scrub lost to damage, once after each pass over the whole memory file.
    pub fn take_lost(&mut self) -> Option<LostItems> {
        self.lost.take()
    }

    /// Returns a [`Populator`] that obtains memory from the kernel ahead of use. The caller runs it on a thread of its
    /// own, because a step lasts as long as the kernel takes.
    pub fn leave_populating(&mut self) -> Populator {
        self.populates_elsewhere = true;
        Populator::new(Arc::clone(&self.store))
    }

    pub(crate) fn counters(store: &Store) -> &Counters {
        background_counters(store)
    }

    /// Does one slice of work. The slice calls `over` every few items and ends when `over` returns true.
    pub fn slice(&mut self, now: UnixMillis, over: &mut dyn FnMut() -> bool) -> SliceReport {
        let store = Arc::clone(&self.store);
        // Segments are added before any eviction. Otherwise they would never be added while items are stored faster
        // than they can be evicted. This runs without the gate, so that no thread waits for a slow kernel.
        let enlarged = !store.is_rebuilding() && store.ahead.add_fresh_unrefused(&store.segments);
        // A flush holds the gate only for two additions. A poisoned gate can be used, because it protects no state that
        // could be half changed.
        let gate = store.slice_gate.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        store.background.slices.fetch_add(1, Relaxed);
        store.background_called.store(false, Relaxed);
        store.persistent.clock_ms.store(now.0, Relaxed);
        resize::follow_resize(self, &store);
        resize::request_memory(self, &store);
        self.queues.collect_sealed(&store);
        // This must follow the collection of sealed segments: nothing outside the checkpoint may be stored in a segment
        // that belongs to it.
        self.open.seal_partial(&store, now);
        self.reclaim(&store);
        observe::report_ended(&store, self.observer.as_deref_mut());
        let freed = self.free_some(&store);
        let observer = self.observer.as_deref_mut().map(|observer| observer as &mut dyn EvictionObserver);
        let reclaims = reclaim::reclaim_flash(&store, now, observer);
        let digs = (freed != Freed::Nothing) | reclaims | Self::find_flash(&store);
        let rebuilds = store.is_rebuilding();
        if !rebuilds {
            self.choose_policy(&store);
        }
        follow_wishes(&store);
        let expires = !rebuilds && self.expire_some(&store, now, over);
        let evicts = freed != Freed::SomeOfMore;
        if self.drain.is_none() && !rebuilds {
            self.choose(&store, now, evicts);
        }
        let kind = if rebuilds {
            self.run_rebuild(&store, now, over)
        } else if let Some(drain) = self.drain.take_if(|drain| evicts || !matches!(drain.why, Why::Evict(_))) {
            let (kind, at) = (drain.why.kind(), drain.at);
            self.drain = drain::run_drain(self, &store, drain, now, over);
            if self.drain.as_ref().is_some_and(|drain| drain.at == at) && store.segments.free_count() == 0 {
                self.search.is_stuck();
            }
            kind
        } else if grow::run_growth(self, &store, over) {
            SliceKind::Grow
        } else if verify::run_verification(self, &store, over) || scrub::run_scrub(self, &store, now, over) {
            SliceKind::Scrub
        } else {
            // Releases the gate, so that no thread waits while the kernel slowly takes or gives memory.
            drop(gate);
            if resize::run_resize(self, &store, over) {
                SliceKind::Resize
            } else if !self.populates_elsewhere && store.ahead.step(&store.segments, &store.index) {
                SliceKind::Populate
            } else {
                self.open.seal_ended(&store, now);
                SliceKind::Idle
            }
        };
        self.reclaim(&store);
        search::follow_shortages(self, &store, digs);
        self.publish_gauges(&store);
        let more = digs
            || enlarged
            || expires
            || kind != SliceKind::Idle
            || self.short(&store).is_some()
            || self.scanned < store.segments.high_water();
        SliceReport { kind, more }
    }

    /// Removes some expired items if an observer wants them, or if memory is short. Returns true if the next slice
    /// should remove more.
    fn expire_some(&mut self, store: &Store, now: UnixMillis, over: &mut dyn FnMut() -> bool) -> bool {
        let is_wanted = self.observer.as_deref().is_some_and(EvictionObserver::wants_expired);
        if !is_wanted && !has_kept_shortage(store) && self.short(store).is_none() {
            return false;
        }
        let mut expiry = std::mem::take(&mut self.expiry);
        let has_more = expiry.step(store, now, over, &mut |key, address| {
            drain::remove(self, store, key, address, Why::Expire, now);
        });
        self.expiry = expiry;
        has_more
    }

    /// Returns true if too few of the free segments that no quota reserves are left: fewer than the low mark plus those
    /// that are to be decommitted.
    fn free_wanted(&self, store: &Store) -> bool {
        // A growth of the index is urgent, so segments are freed for it a few at a time. A resize is not urgent and
        // each pause has a cost, so more segments are freed at a time.
        let ahead = if self.growing.is_some() { FREE_AHEAD_OF_GROWTH } else { FREE_AHEAD_OF_RESIZE };
        let over = resize::segments_over(self, store).min(ahead);
        let soon: usize = shared(store).map(|namespace| self.soon_free[usize::from(namespace)]).sum();
        shared_free(store) + soon < store.free_low() + over
    }

    /// Returns the namespace to evict from: its free segments are short and its items may be evicted. The default
    /// namespace stands for all namespaces without a quota. If there are several, the namespace whose turn is next is
    /// returned.
    fn short(&self, store: &Store) -> Option<u8> {
        let wants = |namespace: &u8| {
            let wants = match *namespace == Namespace::DEFAULT.0 {
                true => self.free_wanted(store),
                false => is_short(store, *namespace, self.soon_free[usize::from(*namespace)]),
            };
            wants && !store.keeps(Namespace(*namespace)) && self.has_queued(store, *namespace)
        };
        let after = |namespace: &u8| (*namespace + Namespace::MAX as u8 - 1 - self.evicted_last) % Namespace::MAX as u8;
        [Namespace::DEFAULT.0].into_iter().chain(store.spaces.with_quota()).filter(wants).min_by_key(after)
    }

    /// Returns true if a queue of the namespace, or of those that share memory with it, holds a segment.
    fn has_queued(&self, store: &Store, namespace: u8) -> bool {
        let of = |queue| self.queues.count(of_pool(store, namespace), queue);
        of(EvictionQueue::Small) + of(EvictionQueue::Main) > 0
    }

    /// While memory is filled, moves the oldest segments of the small queue to the main queue, so that the small queue
    /// has its share when eviction begins.
    ///
    /// Otherwise the main queue would be empty then. If all keys are requested in turn and do not all fit (a loop),
    /// each item would be evicted before its next read, and no item would ever enter the main queue. Items in the main
    /// queue stay until read items replace them, so a part of the loop is always hit.
    fn fill_main(&mut self, store: &Store) {
        for namespace in [Namespace::DEFAULT.0].into_iter().chain(store.spaces.with_quota()) {
            let all = store.spaces.limit(namespace).unwrap_or(store.segments.count());
            if free_of(store, namespace) * FILLING_FREE_PART > all {
                self.filling[usize::from(namespace)] = true;
            }
            if !self.filling[usize::from(namespace)] {
                continue;
            }
            let small_max = all * usize::from(self.small_percent()) / 100;
            let pool = || of_pool(store, namespace);
            let over = self.queues.count(pool(), EvictionQueue::Small).saturating_sub(small_max);
            for _ in 0..over.min(FILLED_A_SLICE) {
                self.queues.move_to_main(store, pool());
            }
        }
    }

    /// Selects the next segment to drain, if any, and begins to drain it. Evicts nothing if `evicts` is false.
    fn choose(&mut self, store: &Store, now: UnixMillis, evicts: bool) {
        self.fill_main(store);
        let short = self.short(store);
        if let Some((id, why)) = self.scan_headers(store, now) {
            self.copied_in_a_row = if why == Why::Compact && short.is_some() { self.copied_in_a_row + 1 } else { 0 };
            self.begin_drain(store, id, why);
        } else if let Some(namespace) = short.filter(|_| evicts) {
            self.copied_in_a_row = 0;
            self.evicted_last = namespace;
            self.filling[usize::from(namespace)] = false;
            let pool = || of_pool(store, namespace);
            let (small, main) =
                (self.queues.count(pool(), EvictionQueue::Small), self.queues.count(pool(), EvictionQueue::Main));
            let small_full = small * 100 > (small + main) * usize::from(self.small_percent());
            let in_a_row = &mut self.small_in_a_row[usize::from(namespace)];
            let queue = match main == 0 || small_full && *in_a_row < SMALL_IN_A_ROW_MAX {
                true => EvictionQueue::Small,
                false => EvictionQueue::Main,
            };
            *in_a_row = if queue == EvictionQueue::Small { in_a_row.saturating_add(1) } else { 0 };
            let first = self.queues.pop(store, pool(), queue).map(|id| (id, queue));
            let second = || self.queues.pop(store, pool(), other(queue)).map(|id| (id, other(queue)));
            if let Some((id, queue)) = first.or_else(second) {
                self.begin_drain(store, id, Why::Evict(queue));
            }
        }
    }

    /// Checks up to [`SCAN_HEADERS`] headers. Takes the first segment that is expired, flushed or mostly dead out of
    /// its queue, and returns it with the reason to drain it.
    fn scan_headers(&mut self, store: &Store, now: UnixMillis) -> Option<(SegmentId, Why)> {
        let (count, free) = (store.segments.count(), store.segments.free_count());
        let taken = store.segments.high_water();
        let mut last: Option<(u8, bool, bool)> = None;
        for _ in 0..SCAN_HEADERS.min(taken) {
            let id = SegmentId(self.scan as u32);
            self.scan = (self.scan + 1) % taken;
            self.search.pass();
            self.scanned = (self.scanned + 1).min(taken);
            if self.scan == 0 {
                self.deadness.end_round((count * store.segments.segment_bytes()) as u64);
            }
            let header = store.segments.header(id);
            if header.state() != SegmentState::Sealed {
                continue;
            }
            let namespace = header.namespace();
            // Neighbouring segments mostly belong to one namespace.
            let (_, short, tight) = match last {
                Some(same) if same.0 == namespace => same,
                _ => {
                    let all = store.spaces.limit(namespace).unwrap_or(count);
                    let tight = store.keeps(Namespace(namespace)) && is_tight(store, namespace);
                    (namespace, free_of(store, namespace) * 2 < all, tight)
                }
            };
            last = Some((namespace, short, tight));
            let why = if header.sequence() < store.flushed_before(namespace) {
                Some(Why::Flush)
            } else if header.is_past(now) || header.live_items() == 0 {
                Some(Why::Expire)
            } else if self.deadness.pass(header.dead_bytes(), store.segments.segment_bytes(), short, tight)
                && free > 0
                && self.copied_in_a_row < COPIED_IN_A_ROW_MAX
                && (tight || self.open.has_place(store, header))
            {
                Some(Why::Compact)
            } else {
                None
            };
            // A segment that was sealed after the last collection is in no queue yet. It can be drained once a later
            // slice has collected it.
            if let Some(why) = why
                && self.queues.leave(store, id)
            {
                self.scanned = 0;
                if why != Why::Compact {
                    self.search.found(store, pool(store, namespace));
                }
                return Some((id, why));
            }
        }
        None
    }

    fn begin_drain(&mut self, store: &Store, id: SegmentId, why: Why) {
        let header = store.segments.header(id);
        header.go(SegmentState::Draining);
        store.background.drained[why.number()].fetch_add(1, Relaxed);
        self.drain = Some(Drain::of(id, header, why, space_totals(store, header.namespace()).value_bytes_mean()));
    }

    /// Advances the epoch and frees the segments that no thread can read any more.
    fn reclaim(&mut self, store: &Store) {
        self.soon_free = [0; Namespace::MAX];
        if self.quarantine.is_empty() {
            return;
        }
        store.epochs.try_advance();
        let epoch = store.epochs.now();
        let (soon_free, search) = (&mut self.soon_free, &mut self.search);
        self.quarantine.retain(|(id, unlinked)| {
            let header = store.segments.header(*id);
            let pinned = header.pins.load(std::sync::atomic::Ordering::Acquire) != 0;
            let readable = unlinked + 2 > epoch || pinned;
            let namespace = header.namespace();
            soon_free[usize::from(namespace)] += usize::from(readable && !pinned);
            if !readable {
                drain::count_lost(store, header);
                header.free();
                store.spaces.gives_back(namespace);
                store.segments.push_free(*id);
                search.freed(namespace);
                Self::counters(store).segments_freed.add(1);
            }
            readable
        });
    }

    fn publish_gauges(&mut self, store: &Store) {
        let gauges = &store.background;
        gauges.oldest_created.store(self.queues.oldest(store).map_or(0, |created| created.0), Relaxed);
        gauges.small_percent.store(self.small_percent().into(), Relaxed);
        let all = || 0..Namespace::MAX as u8;
        gauges.small_segments.store(self.queues.count(all(), EvictionQueue::Small) as u64, Relaxed);
        gauges.main_segments.store(self.queues.count(all(), EvictionQueue::Main) as u64, Relaxed);
        gauges.quarantine_segments.store(self.quarantine.len() as u64, Relaxed);
        gauges.decommitted_segments.store(store.segments.decommitted_count() as u64, Relaxed);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.open.seal_all(&self.store);
    }
}

/// The maximum number of segments that are compacted in a row. Compaction frees only a part of each segment. If memory
/// is still short after this many, one segment is evicted before compaction continues.
const COPIED_IN_A_ROW_MAX: usize = 16;
/// The divisor of the number of segments that gives the number of used ones from which on the number of values that
/// fit is estimated. The shadows then see nearly all requests that fill the memory.
const ESTIMATED_FROM_PART: u64 = 32;
/// The maximum number of segments that one slice moves to the main queue, about 50 us of work. A store that was opened
/// from a file may have a million segments in the small queue.
const FILLED_A_SLICE: usize = 256;
/// A namespace is being filled again if more than one in this many of its segments is free, for example after a flush.
const FILLING_FREE_PART: usize = 2;
/// The number of segments that are freed at a time while the index waits for free segments to grow.
const FREE_AHEAD_OF_GROWTH: usize = 4;
/// The number of segments that are freed at a time for a resize to less memory.
const FREE_AHEAD_OF_RESIZE: usize = 64;

/// Returns true if even segments with few dead bytes are compacted in a namespace whose items are never evicted: a
/// thread waits for memory, or the next one will have to and it is not known that compaction gains nothing.
fn is_tight(store: &Store, namespace: u8) -> bool {
    let pool = pool(store, namespace);
    store.shortages.is_asked(pool) || !store.has_room(Namespace(namespace), 0) && !is_full(store, pool)
}

/// Returns true if too little is free in a namespace whose items are never evicted.
fn has_kept_shortage(store: &Store) -> bool {
    let pools = std::iter::once(Namespace::DEFAULT.0).chain(store.spaces.with_quota());
    pools.filter(|pool| store.keeps(Namespace(*pool))).any(|pool| !store.has_room(Namespace(pool), 0))
}

/// Follows changed quotas, and ends the wishes for room that are fulfilled.
fn follow_wishes(store: &Store) {
    if shared_free(store) >= store.free_low() {
        store.room_wanted.store(0, Relaxed);
    }
    for namespace in store.spaces.with_quota() {
        follow_quota(store, namespace);
        if !is_short(store, namespace, 0) {
            store.spaces.stop_wanting(namespace);
        }
    }
}

/// Returns the namespaces without a quota, which share memory.
fn shared(store: &Store) -> impl Iterator<Item = u8> + use<> {
    let quotas = store.spaces.with_quota().fold(0u32, |bits, namespace| bits | 1 << namespace);
    (0..Namespace::MAX as u8).filter(move |namespace| quotas & 1 << namespace == 0)
}

/// Returns the namespaces that are evicted from together with `namespace`, including itself. A namespace with a quota
/// is evicted from alone.
fn of_pool(store: &Store, namespace: u8) -> impl Iterator<Item = u8> + use<> {
    let alone = store.spaces.has_quota(namespace);
    let (own, shared) = (alone.then_some(namespace), (!alone).then(|| shared(store)));
    own.into_iter().chain(shared.into_iter().flatten())
}

fn other(queue: EvictionQueue) -> EvictionQueue {
    match queue {
        EvictionQueue::Small => EvictionQueue::Main,
        EvictionQueue::Main => EvictionQueue::Small,
    }
}
