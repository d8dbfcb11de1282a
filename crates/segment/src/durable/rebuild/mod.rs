//! The rebuild of the index from the segments, while the store serves: for a store whose index is not in its file.
//!
//! ```text
//!   segments, newest first         [ walked | walked | taken | taken | waiting . . dropped . . waiting ]
//!                                    each thread walks one segment ->   if memory is short: the emptiest segments
//!   round 1     items, pieces and parts
//!   round 2     heads of values in pieces and parts, after everything that the heads name was found
//!   whole       eviction, expiry, compaction and scrubbing work normally from here on
//!   flash       items of the second tier, if it has to find them ([`flash`])
//! ```
//!
//! Invariants:
//! - An item that is not found yet is a miss. No replaced or removed item reappears: of two versions of a key, the
//!   version with the higher (segment sequence, offset) stays, and the other is marked dead at once. Items that this
//!   process stores have higher sequences than all items of earlier processes.
//! - A live older version reappears if the rebuild finds it after the newer version was removed. So during the rebuild
//!   no item is evicted, or removed by expiry or a flush. A delete replaces the item by an expired one
//!   ([`crate::items::write`]).
//! - If memory is short, the live items of mostly dead segments are copied to other segments, unless later versions of
//!   them may still have to be found ([`Rebuild::may_copy`]). If no segment can be copied, segments that were not
//!   walked are discarded as a whole, at most one per several segments that are walked. The previous process's counts
//!   of live bytes determine the order: the segment with the fewest bytes first, and the older of two equal segments.
//!   If an earlier rebuild was interrupted, there are no counts.
//! - A head is entered after everything that it may name, so no reader sees a value whose parts are not found yet.
//! - If the previous process ended before its index was complete, its items may supersede older versions that were not
//!   found at that time and are still live. So the segments that were written since that rebuild began are walked
//!   before any request is served ([`crate::durable::rebuild::latest::find_latest`]).
//! - The DEAD marks in the file are authoritative. Every code path that removes an item's slot marks the item first. A
//!   new item is marked live before it has a slot ([`crate::items::unpublished`]).
//! - A rebuild that is interrupted at any instant can start again, with the same result.
//!
//! Bounds: 24 bytes per segment; [`BATCH`] items per thread; [`REBUILDERS_MAX`] threads besides the background.

pub(crate) mod flash;
pub(crate) mod latest;
pub(crate) mod state;

pub(crate) use flash::ITEMS_PER_LOOK;
pub use state::RebuildProgress;
use state::{HAS_HEADS, LaterHead, ROUND_FLASH, ROUND_HEADS, ROUND_ITEMS, RebuildEntry, WAITING, WHOLE};
pub(crate) use state::{Rebuild, Undone};

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use base::clock::UnixMillis;

use crate::core::counters::Counters;
use crate::core::handle::Tokens;
use crate::core::lookup::find_locked;
use crate::core::lookup::hash_at;
use crate::core::lookup::item_in;
use crate::core::lookup::key_at;
use crate::core::store::Store;
use crate::durable::rebuild::flash::find_on_flash;
use crate::heap::checksums::{ITEM_STEP, WalkedItem};
use crate::heap::segments::SegmentId;
use crate::index::{Hash, Locked};
use crate::items::unpublished::Orphan;
use crate::items::unpublished::dies_first;
use crate::items::unpublished::kill;
use crate::items::unpublished::leave_displaced;
use crate::items::unpublished::mark_dead;
use crate::items::unpublished::orphan_at;
use crate::layout::header::SegmentHeader;
use crate::layout::item::{CAS_FIELD, CAS_TAKEN, DEAD, EXPIRY, ItemKind, Layout, META};
use crate::layout::slot::Slot;
use crate::tier::flash_slots::tier;
use crate::values::deferred_free::free_deferred;
use crate::values::free_queue::DeferredFree;

/// The number of items in a batch. The index buckets of a whole batch are prefetched before its first item is entered.
const BATCH: usize = 32;
/// Number of bytes ahead of its position that a walk prefetches. The processor's prefetching ends at the end of a page.
const AHEAD_BYTES: usize = 1024;
/// The maximum number of threads that help the background.
pub(crate) const REBUILDERS_MAX: usize = 64;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebuildStep {
    /// More work can be done now.
    More,
    /// The rebuild has to wait for a lock, or for the index to grow.
    Waits,
    /// The index is complete.
    Whole,
}

/// A walk through a segment.
#[derive(Debug)]
struct Walk {
    entry: usize,
    round: u32,
    id: SegmentId,
    at: usize,
    /// The start of a damaged part, while the walk searches for the next item behind it.
    gap_from: Option<usize>,
    has_heads: bool,
}

impl Walk {
    /// Returns the item at the walk's position. Returns `None` if the segment is damaged there. Only the first round
    /// compares checksums: it leaves no damaged item alive.
    fn item(&self, store: &Store, header: &SegmentHeader) -> Option<WalkedItem> {
        let (segments, seed) = (&store.segments, store.sum_seed);
        match (self.round, self.gap_from) {
            (_, Some(_)) => segments.sound_item(seed, self.id, self.at),
            (ROUND_ITEMS, None) => segments.walked(seed, self.id, self.at),
            (_, None) => {
                let layout = item_in(store, header, segments.start(self.id) + self.at)?;
                Some(WalkedItem { layout, is_damaged: false })
            }
        }
    }

    /// Writes dead items over a damaged part that ends at the walk's position.
    fn end_gap(&mut self, store: &Store) {
        if let Some(from) = self.gap_from.take() {
            store.segments.cover(self.id, from..self.at);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    address: usize,
    layout: Layout,
    hash: Hash,
}

/// The totals of the entered items of a batch, to be counted together.
#[derive(Clone, Copy, Debug, Default)]
struct Entered {
    items: u32,
    hidden: u32,
    bytes: u32,
}

/// The state of one thread's work on the rebuild.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    walk: Option<Walk>,
    batch: Vec<Candidate>,
    /// The position in `batch` of the next item to enter in the store's index. The items before it are done.
    next: usize,
    /// True if no other thread works on the index. An item for which the index has no room then gets no slot, and does
    /// not wait for the index to grow.
    never_waits: bool,
    tokens: Tokens,
}

impl Hand {
    /// Continues the walk until `over` returns true or no more work can be done at present.
    pub(crate) fn step(
        &mut self,
        store: &Store,
        counters: &Counters,
        now: UnixMillis,
        over: &mut dyn FnMut() -> bool,
    ) -> RebuildStep {
        let Some(rebuild) = &store.rebuild else { return RebuildStep::Whole };
        loop {
            if self.walk.is_none() {
                let Some((entry, round)) = rebuild.take_segment() else {
                    return if rebuild.is_whole() { RebuildStep::Whole } else { RebuildStep::Waits };
                };
                self.walk =
                    Some(Walk { entry, round, id: rebuild.entries[entry].id, at: 0, gap_from: None, has_heads: false });
            }
            if self.next == self.batch.len() && !self.fill(store, rebuild, counters, now) {
                let walk = self.walk.take().expect("it was begun");
                if rebuild.end(walk.entry, walk.round, walk.has_heads) {
                    rebuild.become_whole(store);
                }
            } else if !self.enter_batch(store, rebuild, counters) {
                return RebuildStep::Waits;
            }
            if over() {
                return RebuildStep::More;
            }
        }
    }

    /// Fills the batch with the next items. Returns false at the end of the segment.
    fn fill(&mut self, store: &Store, rebuild: &Rebuild, counters: &Counters, now: UnixMillis) -> bool {
        let walk = self.walk.as_mut().expect("a batch is of a walk");
        let (header, start) = (store.segments.header(walk.id), store.segments.start(walk.id));
        let end = header.written.load(Acquire) as usize;
        self.batch.clear();
        self.next = 0;
        while self.batch.len() < BATCH && walk.at < end {
            let address = start + walk.at;
            store.segments.heap.prefetch(address + AHEAD_BYTES);
            let Some(WalkedItem { layout, is_damaged }) = walk.item(store, header) else {
                // The start of the next item is unknown, so the walk searches for one with the right checksum.
                rebuild.torn.fetch_add(u64::from(walk.gap_from.is_none()), Relaxed);
                walk.gap_from.get_or_insert(walk.at);
                walk.at += ITEM_STEP;
                continue;
            };
            walk.end_gap(store);
            walk.at += layout.size;
            if layout.has(DEAD) {
                continue;
            }
            if is_damaged {
                rebuild.torn.fetch_add(1, Relaxed);
                mark_dead(store, address);
                continue;
            }
            let is_head = orphan_at(store, address, &layout).is_some();
            if is_head != (walk.round == ROUND_HEADS) {
                walk.has_heads |= is_head;
                continue;
            }
            let hash = hash_at(store, header.namespace(), address, &layout);
            let may_hide = is_head || header.sequence() >= rebuild.since;
            let ended = !may_hide && has_ended(store, address, &layout, now);
            if ended || rebuild.is_undone(hash, address, layout.is(ItemKind::Piece), header) {
                mark_dead(store, address);
                continue;
            }
            if let Some(later) = rebuild.later_than(hash, address, layout.is(ItemKind::Piece), header) {
                mark_dead(store, address);
                free_unless(store, counters, orphan_at(store, address, &layout), later.object);
                continue;
            }
            if rebuild.lost {
                renew_token(store, &mut self.tokens, address, &layout);
            }
            store.index.prefetch_change(hash);
            self.batch.push(Candidate { address, layout, hash });
        }
        if walk.at >= end {
            walk.end_gap(store);
        }
        !self.batch.is_empty()
    }

    /// Enters the rest of the batch in the index. Returns false if the thread has to wait for a lock or for the index
    /// to grow.
    fn enter_batch(&mut self, store: &Store, rebuild: &Rebuild, counters: &Counters) -> bool {
        let id = self.walk.as_ref().expect("a batch is of a walk").id;
        let mut entered = Entered::default();
        while let Some(candidate) = self.batch.get(self.next) {
            match enter_found(store, counters, candidate, !self.never_waits) {
                Some(true) => {
                    entered.items += 1;
                    entered.hidden += u32::from(candidate.layout.is(ItemKind::Piece));
                    entered.bytes += candidate.layout.size as u32;
                }
                Some(false) => {}
                None => break,
            }
            self.next += 1;
        }
        if entered.items > 0 {
            let Entered { items, hidden, bytes } = entered;
            let header = store.segments.header(id);
            header.note_found(items, hidden, bytes);
            counters.note_found(header.namespace(), items.into(), hidden.into(), bytes.into());
            rebuild.found.fetch_add((items - hidden).into(), Relaxed);
        }
        self.next == self.batch.len()
    }

    /// Releases the segment that is being walked, so that another thread walks it from its start.
    fn leave(&mut self, rebuild: &Rebuild) {
        if let Some(walk) = self.walk.take() {
            let state = if walk.round == ROUND_ITEMS { WAITING } else { HAS_HEADS };
            rebuild.entries[walk.entry].state.store(state, Release);
        }
    }
}

/// Renews the CAS token of an item that changes in place. After a power loss its value may be newer or older than its
/// token and its CAS_TAKEN bit.
fn renew_token(store: &Store, tokens: &mut Tokens, address: usize, layout: &Layout) {
    let heap = &store.segments.heap;
    if layout.has(CAS_FIELD) {
        layout.cas_field(heap, address).store(tokens.fresh(store), Release);
    } else if layout.has(META) {
        let _ = heap.word32(address).fetch_or(CAS_TAKEN, AcqRel);
    }
}

impl Rebuild {
    /// Ends the rebuild of items in memory, all of which are found.
    pub(crate) fn become_whole(&self, store: &Store) {
        if let Some(log) = &store.undo {
            log.close_held();
        }
        store.persistent.rebuilding.store(0, Release);
        self.end_rounds(store.finds && !tier(store).is_found());
        store.call_background();
    }

    /// Discards a segment that was not walked: see [`Rebuild::take_cheapest`].
    pub(crate) fn give_up_cheapest(&self, store: &Store, may: impl Fn(&SegmentHeader) -> bool) -> Option<SegmentId> {
        let (id, is_last) = self.take_cheapest(&store.segments, may)?;
        if is_last {
            self.become_whole(store);
        }
        Some(id)
    }
}

/// Returns the progress of the rebuild, or `None` if the index is in the file or the store has no file.
pub(crate) fn rebuild_progress(store: &Store) -> Option<RebuildProgress> {
    store.rebuild.as_ref().map(Rebuild::progress)
}

/// Returns a helper for the rebuild, to be run on a separate thread. Returns `None` if the index need not be rebuilt,
/// or if enough threads help already.
pub(crate) fn rebuilder(store: &Arc<Store>) -> Option<Rebuilder> {
    let rebuild = store.rebuild.as_ref().filter(|_| store.is_finding())?;
    let number = rebuild.helpers.fetch_add(1, Relaxed);
    let (store, counters) = (Arc::clone(store), store.geometry.handles_max + number);
    (number < REBUILDERS_MAX).then(|| Rebuilder { store, counters, hand: Hand::default() })
}

/// Returns true if the item at an address has expired.
fn has_ended(store: &Store, address: usize, layout: &Layout, now: UnixMillis) -> bool {
    let relative = || layout.expiry(&store.segments.heap, address).load(Acquire);
    layout.has(EXPIRY) && store.segments.expire_at(address, relative()) <= now
}

/// Returns the key by which versions of an item are ordered: the sequence of its segment, and its address.
pub(crate) fn version_at(store: &Store, address: usize) -> (u64, usize) {
    (store.segments.header_of(address).sequence(), address)
}

/// Gives a slot to an item that was found, if the item is the latest version of its key so far. Returns true if the
/// item got a slot, and `None` if it has to wait for a lock or for the index to grow.
fn enter_found(store: &Store, counters: &Counters, candidate: &Candidate, may_wait: bool) -> Option<bool> {
    let Candidate { address, layout, hash } = candidate;
    let header = store.segments.header_of(*address);
    let key = key_at(store, header.namespace(), *address, layout);
    let locked = store.index.lock(*hash)?;
    let slot = Slot::item(hash.tag(), 0, header.slot_generation(), *address);
    let Some(there) = find_locked(store, &locked, &key) else {
        return enter_new(store, &locked, counters, candidate, slot, may_wait);
    };
    if there.address == *address {
        return Some(false);
    }
    let wins = version_at(store, *address) > version_at(store, there.address);
    let orphan = if wins {
        dies_first(store, there.address);
        locked.replace(there.word, there.slot, slot, true);
        kill(store, counters, there.address, &there.layout)
    } else {
        mark_dead(store, *address);
        orphan_at(store, *address, layout)
    };
    drop(locked);
    let stays = if wins { object_of(store, *address, layout) } else { there.object_at(store) };
    free_unless(store, counters, orphan, stays);
    Some(wins)
}

/// Gives a slot to an item whose key has none. If there is no place, the item waits for the index to grow. If the index
/// cannot grow, the item is dropped: removing another key's item instead could let an older version of that key
/// reappear.
fn enter_new(
    store: &Store,
    locked: &Locked<'_>,
    counters: &Counters,
    candidate: &Candidate,
    slot: Slot,
    may_wait: bool,
) -> Option<bool> {
    let Candidate { address, layout, .. } = candidate;
    let room = locked.room();
    if !room.holds.is_item() {
        locked.replace(room.word, room.holds, slot, false);
        locked.note_birth();
        return Some(true);
    }
    if may_wait && index_will_grow(store) {
        return None;
    }
    mark_dead(store, *address);
    counters.evicted.add(1);
    counters.evicted_by_index.add(1);
    leave_displaced(store, store.segments.header_of(*address).namespace(), *address, layout);
    Some(false)
}

/// Requests growth of the index if it can grow. Returns true if there is memory for that now, or if there will be.
fn index_will_grow(store: &Store) -> bool {
    let keep = store.memory.free_reserve() + store.spaces.reserved();
    let may_go = |entry: &RebuildEntry| {
        let namespace = store.segments.header(entry.id).namespace();
        entry.state.load(Relaxed) == WAITING && !store.spaces.keeps(namespace)
    };
    let spare = || store.rebuild.as_ref().is_some_and(|rebuild| rebuild.entries.iter().any(may_go));
    let grows = store.index.groups() < store.memory.groups_max()
        && (store.index.is_growing() || store.segments.free_count() > keep || spare());
    if grows {
        store.index_crowded.store(true, Relaxed);
        store.call_background();
    }
    grows
}

pub(crate) fn object_of(store: &Store, address: usize, layout: &Layout) -> Option<u64> {
    orphan_at(store, address, layout).and_then(|orphan| orphan.object(store))
}

/// Begins to free the pieces or parts of an older version, unless the version that stays names them too.
pub(crate) fn free_unless(store: &Store, counters: &Counters, orphan: Option<Orphan>, stays: Option<u64>) {
    if let Some(orphan) = orphan.filter(|orphan| stays.is_none() || orphan.object(store) != stays) {
        free_deferred(store, counters, DeferredFree::of(store, orphan));
    }
}

/// A helper of the background in the rebuild of the index. It may be dropped at any time.
#[derive(Debug)]
pub struct Rebuilder {
    store: Arc<Store>,
    /// The number of the helper's block of counters.
    counters: usize,
    hand: Hand,
}

impl Rebuilder {
    /// Continues the walk until `over` returns true. `over` is called every few items.
    pub fn step(&mut self, now: UnixMillis, over: &mut dyn FnMut() -> bool) -> RebuildStep {
        let counters = &self.store.counters[self.counters];
        match self.hand.step(&self.store, counters, now, over) {
            RebuildStep::Whole => find_on_flash(&self.store, counters, over),
            other => other,
        }
    }
}

impl Drop for Rebuilder {
    fn drop(&mut self) {
        if let Some(rebuild) = &self.store.rebuild {
            self.hand.leave(rebuild);
        }
    }
}
