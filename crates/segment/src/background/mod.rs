//! The background: everything that makes room, in slices.
//!
//! One thread owns it. It collects what the lanes sealed, chooses one job, and runs it until it is done or the slice
//! is over; the job's cursor stays for the next slice.
//!
//! ```text
//!            +-- free segments short? ------> drain for eviction: the small queue's oldest, or the main queue's
//!   slice ---+-- index nearly full? --------> grow it, a group at a time
//!            +-- a segment past, flushed, ---> drain it
//!            |   or dead enough?
//!            +-- segments too many, -------> withhold some, or give some back
//!            |   or too few?
//!            +-- else ----------------------> populate memory ahead of use
//! ```
//!
//! S3-FIFO by segments (Yang et al., SOSP '23): new items enter the small queue, a tenth of the segments or the share
//! that [`shadow`] finds to miss less. What was read at least [`PROMOTE_FREQ`] times when its segment leaves (more
//! often if it is far longer than the mean) moves to the main queue, the rest leaves a ghost, as does what was read
//! and has expired. The main queue gives an item another round for each read that it counts, or one for all of them
//! while the small queue is large. An item whose ghost is found begins as if it had been read.
//!
//! Bounds: both queues and the limbo list hold each segment at most once, plus entries of segments that left their
//! queue early, which are swept when they outnumber the segments.

mod compaction;
mod drain;
mod grow;
mod observe;
mod queues;
mod resize;
pub(crate) mod shadow;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use base::clock::UnixMillis;

use crate::ahead::Populator;
use crate::counters::Counters;
use crate::header::{Queue, State};
use crate::index::growth::SplitScratch;
use crate::open::{OpenTable, Whose};
use crate::segments::SegmentId;
use crate::store::Store;
use compaction::Deadness;
use drain::{Drain, Why};
use grow::Growing;
pub use observe::{Evicted, EvictionObserver};
use queues::Queues;
use resize::Shrinking;
use shadow::Shadows;

/// Reads that carry an item from the small queue to the main one. A segment holds items for so long that one read says
/// as much as the two of the published policy.
pub(crate) const PROMOTE_FREQ: u64 = 1;
/// Headers that one slice looks at for segments that are past, flushed or half dead.
const SCAN_HEADERS: usize = 256;

/// What a slice was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceKind {
    /// Nothing was to be done.
    Idle,
    /// Evicting a segment.
    Evict,
    /// Removing a segment whose items have all ended, or were flushed.
    Expire,
    /// Copying the live items out of a segment that is mostly dead.
    Compact,
    /// Growing the index.
    Grow,
    /// Withholding segments or giving them back, for a memory of another size or for the index.
    Resize,
    /// Getting memory ahead of use, or giving back what is left over.
    Populate,
}

/// How a slice went.
#[derive(Clone, Copy, Debug)]
pub struct SliceReport {
    /// What it was spent on.
    pub kind: SliceKind,
    /// More work is waiting: run the next slice soon.
    pub more: bool,
}

/// The background's side of a store.
#[derive(Debug)]
pub struct Background {
    store: Arc<Store>,
    open: OpenTable,
    queues: Queues,
    /// Drained segments and the epoch in which their last slot was cleared.
    limbo: Vec<(SegmentId, u64)>,
    /// How many of those pins alone held up when they were looked at last. Whoever waits for memory must not wait for
    /// the reader who has them pinned, who may wait for him.
    held_up: usize,
    drain: Option<Drain>,
    growing: Option<Growing>,
    shrinking: Option<Shrinking>,
    scratch: SplitScratch,
    /// Where the scan of the headers goes on.
    scan: usize,
    deadness: Deadness,
    /// Headers scanned since something was last found.
    scanned: usize,
    /// The memory that is in force, in bytes.
    memory_bytes: u64,
    /// A [`Populator`] gets memory.
    populates_elsewhere: bool,
    observer: Option<Box<dyn EvictionObserver>>,
    shadows: Shadows,
    /// The small queue's share of the segments, where the shadows are not to choose it.
    held_percent: Option<u8>,
}

impl Background {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let count = store.segments.count();
        Self {
            open: OpenTable::new(Whose::Background),
            queues: Queues::new(count, store.geometry.segments_max),
            limbo: Vec::with_capacity(count),
            held_up: 0,
            drain: None,
            growing: None,
            shrinking: None,
            scratch: SplitScratch::new(),
            scan: 0,
            deadness: Deadness::new(),
            scanned: 0,
            memory_bytes: store.memory.wanted_bytes(),
            populates_elsewhere: false,
            observer: None,
            shadows: Shadows::new(),
            held_percent: None,
            store,
        }
    }

    /// Keeps the small queue at so many percent of the segments, instead of the share that misses least.
    pub fn hold_small_percent(&mut self, percent: u8) {
        self.held_percent = Some(percent);
    }

    /// How many items the store holds when its memory is full; `None` while that cannot be told from what it holds now.
    fn items_when_full(store: &Store) -> Option<u64> {
        let (count, free) = (store.segments.count() as u64, store.segments.free_count() as u64);
        let used = count.saturating_sub(free).max(1);
        (used * 8 >= count).then(|| store.totals().items() * count / used)
    }

    fn small_percent(&self) -> u8 {
        self.held_percent.unwrap_or(self.shadows.percent())
    }

    /// Tells `observer` of every eviction from now on.
    pub fn observe(&mut self, observer: Box<dyn EvictionObserver>) {
        self.observer = Some(observer);
    }

    /// Leaves it to a thread of its own to get memory from the kernel ahead of use, which takes as long as it takes.
    pub fn leave_populating(&mut self) -> Populator {
        self.populates_elsewhere = true;
        Populator::new(Arc::clone(&self.store))
    }

    pub(crate) fn counters(store: &Store) -> &Counters {
        store.counters.last().expect("the background has a block of its own")
    }

    /// Does one slice of work. `over` says when the slice has used its time; it is asked every few items.
    pub fn slice(&mut self, now: UnixMillis, over: &mut dyn FnMut() -> bool) -> SliceReport {
        let store = Arc::clone(&self.store);
        // A flush holds the gate for two additions at most; a poisoned gate guards nothing that could be half done.
        let gate = store.slice_gate.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        store.background.slices.fetch_add(1, Relaxed);
        store.background_called.store(false, Relaxed);
        self.follow_resize(&store);
        self.tell_ahead(&store);
        self.queues.collect_sealed(&store);
        self.reclaim(&store);
        self.shadows.run(&store.samples, Self::items_when_full(&store));
        if store.segments.free_count() >= store.free_low() {
            store.room_wanted.store(0, Relaxed);
        }
        if self.drain.is_none() {
            self.choose(&store, now);
        }
        let kind = if let Some(drain) = self.drain.take() {
            let kind = drain.why.kind();
            self.drain = self.run_drain(&store, drain, now, over);
            kind
        } else if self.run_growth(&store, over) {
            SliceKind::Grow
        } else {
            // The kernel may take its time to take or give memory: nobody has to wait for that.
            drop(gate);
            if self.run_resize(&store, over) {
                SliceKind::Resize
            } else if !self.populates_elsewhere && store.ahead.step(&store) {
                SliceKind::Populate
            } else {
                self.open.seal_ended(&store, now);
                SliceKind::Idle
            }
        };
        self.reclaim(&store);
        self.publish_gauges(&store);
        let evicts = self.free_wanted(&store) && !store.keeps_all();
        let more = kind != SliceKind::Idle || evicts || self.scanned < store.segments.high_water();
        SliceReport { kind, more }
    }

    /// Free segments are short: less than the low mark, or less than are to be withheld.
    fn free_wanted(&self, store: &Store) -> bool {
        // A growth is in a hurry and takes what it gets; a smaller memory is not, and pays for each pause.
        let ahead = if self.growing.is_some() { FREE_AHEAD_OF_GROWTH } else { FREE_AHEAD_OF_RESIZE };
        let over = self.segments_over(store).min(ahead);
        let soon_free = self.limbo.len() - self.held_up;
        store.segments.free_count() + soon_free < store.free_low() + over
    }

    /// Picks the next segment to drain, if any.
    fn choose(&mut self, store: &Store, now: UnixMillis) {
        if let Some((id, why)) = self.scan_headers(store, now) {
            self.begin_drain(store, id, why);
        } else if self.free_wanted(store) && !store.keeps_all() {
            let small_full =
                self.queues.small * 100 > (self.queues.small + self.queues.main) * usize::from(self.small_percent());
            let queue = if small_full || self.queues.main == 0 { Queue::Small } else { Queue::Main };
            if let Some(id) = self.queues.pop(store, queue).or_else(|| self.queues.pop(store, other(queue))) {
                self.begin_drain(store, id, Why::Evict(store.segments.header(id).queue()));
            }
        }
    }

    /// Looks at a few headers for a segment that is past, flushed or mostly dead.
    fn scan_headers(&mut self, store: &Store, now: UnixMillis) -> Option<(SegmentId, Why)> {
        let (count, free) = (store.segments.count(), store.segments.free_count());
        let (taken, short) = (store.segments.high_water(), free * 2 < count);
        let tight = store.keeps_all() && !store.has_room(0);
        for _ in 0..SCAN_HEADERS.min(taken) {
            let id = SegmentId(self.scan as u32);
            self.scan = (self.scan + 1) % taken;
            self.scanned = (self.scanned + 1).min(taken);
            if self.scan == 0 {
                self.deadness.end_round((count * store.segments.segment_bytes()) as u64);
            }
            let header = store.segments.header(id);
            if header.state() != State::Sealed {
                continue;
            }
            let why = if header.sequence() < store.flushed_before(header.namespace()) {
                Some(Why::Flush)
            } else if header.is_past(now) || header.live_items() == 0 {
                Some(Why::Expire)
            } else if self.deadness.pass(header.dead_bytes(), store.segments.segment_bytes(), short, tight) && free > 0
            {
                Some(Why::Compact)
            } else {
                None
            };
            // A segment that was sealed since the queues were collected is not in one yet; the next slice has it.
            if let Some(why) = why
                && self.queues.leave(store, id)
            {
                self.scanned = 0;
                return Some((id, why));
            }
        }
        None
    }

    fn begin_drain(&mut self, store: &Store, id: SegmentId, why: Why) {
        let header = store.segments.header(id);
        header.go(State::Draining);
        store.background.drained[why.number()].fetch_add(1, Relaxed);
        self.drain = Some(Drain::of(id, header, why, store.totals().item_bytes_mean()));
    }

    /// Steps the epoch and frees what nobody can read any more.
    fn reclaim(&mut self, store: &Store) {
        self.held_up = 0;
        if self.limbo.is_empty() {
            return;
        }
        store.epochs.try_advance();
        let epoch = store.epochs.now();
        let held_up = &mut self.held_up;
        self.limbo.retain(|(id, unlinked)| {
            let header = store.segments.header(*id);
            let pinned = header.pins.load(std::sync::atomic::Ordering::Acquire) != 0;
            let readable = unlinked + 2 > epoch || pinned;
            *held_up += usize::from(pinned);
            if !readable {
                header.free();
                store.segments.push_free(*id);
                Self::counters(store).segments_freed.add(1);
            }
            readable
        });
    }

    fn publish_gauges(&mut self, store: &Store) {
        let gauges = &store.background;
        gauges.oldest_created.store(self.queues.oldest(store).map_or(0, |created| created.0), Relaxed);
        gauges.small_percent.store(self.small_percent().into(), Relaxed);
        gauges.small_segments.store(self.queues.small as u64, Relaxed);
        gauges.main_segments.store(self.queues.main as u64, Relaxed);
        gauges.limbo_segments.store(self.limbo.len() as u64, Relaxed);
        gauges.withheld_segments.store(store.segments.withheld_count() as u64, Relaxed);
    }
}

/// Segments that a growth of the index waits for are made free so many at a time.
const FREE_AHEAD_OF_GROWTH: usize = 4;
/// And those that a smaller memory gives back.
const FREE_AHEAD_OF_RESIZE: usize = 64;

fn other(queue: Queue) -> Queue {
    match queue {
        Queue::Small => Queue::Main,
        Queue::Main => Queue::Small,
    }
}
