//! Scrubs a store in a memory file. The scrub compares the items of each segment with their checksums and, after a
//! crash, with the segment's counts. It removes items that are torn or damaged, and pieces and parts without a head.
//!
//! ```text
//!   each sealed segment, in order, a few items a slice:
//!     walk    items with a wrong checksum are removed; items without a slot are marked dead; live items are
//!             counted; heads mark their pieces and parts
//!     lost?   if the end of a damaged item is unknown: the next item with the right checksum is searched, and dead
//!             items are written over the part before it, which loses its slots
//!     same?   the counts equal those of the header: next segment (compared after a crash or damage)
//!     else    wait until all current guards have ended, walk again; if the difference is the same: correct the header
//!   after a crash, each segment once more:
//!     walk    unreferenced pieces and parts are removed (crate::values::orphans)
//! ```
//!
//! A crash can interrupt each thread once between the change of a slot and the change of the counts. So the counts of
//! all segments together, and the reported number of items, are wrong by at most the number of threads. A rebuild of
//! the index counts the items again, so the counts need no correction then.
//!
//! Bounds: one pass runs when the store is opened and then one every [`EVERY_MS`] milliseconds. A pass runs only in
//! slices with nothing else to do, for at most one slice's time at once.

use std::sync::atomic::Ordering::Acquire;

use base::clock::UnixMillis;

use super::Background;
use super::drain::{Step, counts_may_be_off, end_lost};
use crate::core::lookup::{find, find_locked, item_in, key_at};
use crate::core::store::Store;
use crate::heap::checksums::{ITEM_STEP, WalkedItem};
use crate::heap::segments::SegmentId;
use crate::items::unpublished::{Orphan, kill, orphan_at, unname};
use crate::layout::header::{SegmentHeader, SegmentState};
use crate::layout::item::{DEAD, ItemKind, Layout};
use crate::layout::slot::Slot;
use crate::values::deferred_free::remove_hidden;
use crate::values::part_walk::PartWalk;
use crate::values::parts::{is_orphan, mark_parts};

/// The number of items that are checked between two checks whether the slice is over.
const ITEMS_PER_LOOK: usize = 32;
/// The time from the end of one pass to the start of the next, in milliseconds.
const EVERY_MS: u64 = 24 * 3600 * 1000;
/// The maximum number of walks over a damaged segment in one pass, in case its items change during each walk.
const WALKS_MAX: usize = 100;

/// The position of a scrub.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    pass: Pass,
    /// The number of the segment that is being walked.
    id: u32,
    walk: ScrubWalk,
    /// A difference that a walk found: the counts of the walk, the counts of the header, and the epoch from which a
    /// second walk can confirm the difference.
    suspect: Option<(LiveCounts, LiveCounts, u64)>,
    /// The bytes of this segment that belonged to items of unknown length, and the number of its walks since.
    covered: (usize, usize),
    lost: LostItems,
}

/// The items that a scrub's pass found damaged, and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostItems {
    /// The number of items. A large value counts each of its damaged pieces.
    pub items: u64,
    /// The total size of the items, in bytes.
    pub bytes: u64,
    /// The number of places in which neither an item nor its length could be read.
    pub gaps: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pass {
    #[default]
    Items,
    Orphans,
    /// The scrub pauses until this instant.
    Rest(UnixMillis),
}

#[derive(Debug, Default)]
struct ScrubWalk {
    at: usize,
    /// The position among the parts of the current head, if some of them are already marked.
    marked: Option<PartWalk>,
    found: LiveCounts,
    /// The last offset at which no item with the right checksum was found behind damage, and the epoch from which the
    /// damage may be written over.
    search: Option<(usize, u64)>,
    /// The counts in the segment's header when the walk began.
    counts: LiveCounts,
    sequence: u64,
}

/// The number of live items, of the hidden ones among them, and their size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LiveCounts {
    items: u32,
    hidden: u32,
    bytes: u32,
}

/// Runs one slice of a scrub. Returns false if no scrub is due.
pub(super) fn run_scrub(
    background: &mut Background,
    store: &Store,
    now: UnixMillis,
    over: &mut dyn FnMut() -> bool,
) -> bool {
    let Some(mut scrub) = background.scrub.take() else { return false };
    let worked = scrub_on(background, store, &mut scrub, now, over);
    background.scrub = Some(scrub);
    worked
}

fn scrub_on(
    background: &mut Background,
    store: &Store,
    scrub: &mut Scrub,
    now: UnixMillis,
    over: &mut dyn FnMut() -> bool,
) -> bool {
    match scrub.pass {
        Pass::Rest(until) if now < until => return false,
        Pass::Rest(_) => *scrub = Scrub::default(),
        Pass::Items | Pass::Orphans => {}
    }
    if let Some((.., epoch)) = scrub.suspect {
        store.epochs.try_advance();
        if store.epochs.now() < epoch {
            return true;
        }
    }
    let mut looked = 0;
    while (scrub.id as usize) < store.segments.high_water() {
        let ended = if scrub.pass == Pass::Items { scrub.step(store) } else { scrub.sweep(store) };
        if ended && scrub.suspect.is_none() {
            (scrub.id, scrub.walk, scrub.covered) = (scrub.id + 1, ScrubWalk::default(), (0, 0));
        }
        looked += 1;
        let waits = scrub.suspect.is_some() && scrub.walk.at == 0;
        if waits || (looked % ITEMS_PER_LOOK == 0 && over()) {
            return true;
        }
    }
    next_pass(background, store, scrub, now);
    true
}

/// Begins the next pass after all segments were walked.
fn next_pass(background: &mut Background, store: &Store, scrub: &mut Scrub, now: UnixMillis) {
    let pass = match (scrub.pass, &store.named) {
        (Pass::Items, Some(named)) if !named.is_marked_whole() => {
            named.end_marking();
            // The next pass must also walk items that were moved to segments that are still open, so those segments are
            // sealed.
            background.open.seal_all(store);
            background.queues.collect_sealed(store);
            Pass::Orphans
        }
        _ => Pass::Rest(now.plus_ms(EVERY_MS)),
    };
    if scrub.lost != LostItems::default() {
        background.lost = Some(scrub.lost);
    }
    *scrub = Scrub { pass, ..Scrub::default() };
}

fn counts_of(store: &Store, id: SegmentId) -> LiveCounts {
    let header = store.segments.header(id);
    let (items, bytes) = (header.live_items(), store.segments.segment_bytes() as u32 - header.dead_bytes());
    LiveCounts { items, hidden: items.saturating_sub(header.live_keys()), bytes }
}

/// The part of a segment at the position of a walk.
enum Walked<'s> {
    Item(&'s SegmentHeader, usize, WalkedItem),
    /// The segment is damaged here.
    Damage,
    /// No item is left to check.
    End,
}

impl Scrub {
    /// Returns the part of the segment at the position of the walk.
    fn next<'s>(&mut self, store: &'s Store) -> Walked<'s> {
        let id = SegmentId(self.id);
        let header = store.segments.header(id);
        if self.walk.at == 0 && self.walk.search.is_none() {
            self.walk = ScrubWalk {
                counts: counts_of(store, id),
                sequence: header.sequence(),
                marked: self.walk.marked.take(),
                ..ScrubWalk::default()
            };
        }
        // If the segment is drained meanwhile, the drain corrects its counts.
        let is_same = header.state() == SegmentState::Sealed && header.sequence() == self.walk.sequence;
        if !is_same || self.walk.at >= header.written.load(Acquire) as usize {
            return Walked::End;
        }
        if self.walk.search.is_some() {
            return Walked::Damage;
        }
        match store.segments.walked(store.sum_seed, id, self.walk.at) {
            Some(item) => Walked::Item(header, store.segments.start(id) + self.walk.at, item),
            None if store.segments.heap.has_sums() => Walked::Damage,
            None => Walked::End,
        }
    }

    /// Checks one item. Returns true if no item of the segment is left to check.
    fn step(&mut self, store: &Store) -> bool {
        let (header, address, item) = match self.next(store) {
            Walked::Item(header, address, item) => (header, address, item),
            Walked::Damage => return self.search(store),
            Walked::End => {
                self.suspect = None;
                return true;
            }
        };
        let layout = item.layout;
        if !layout.has(DEAD) {
            if item.is_damaged {
                if end_damaged(store, address) == Step::Busy {
                    return false;
                }
                self.lost.items += 1;
                self.lost.bytes += layout.size as u64;
            }
            let may_be_off = counts_may_be_off(store, header);
            let done = !may_be_off || ends_lost(store, address, &layout) == Step::Done;
            let lives = !Layout::read(&store.segments.heap, address).has(DEAD);
            if lives && done {
                self.walk.found.items += 1;
                self.walk.found.hidden += u32::from(layout.is(ItemKind::Piece));
                self.walk.found.bytes += layout.size as u32;
                if !self.mark_named(store, address, &layout) {
                    return false;
                }
            }
        }
        self.go_on(store, self.walk.at + layout.size)
    }

    /// Moves the walk to an offset. Compares the counts if that is the end of the segment. Returns true if no item is
    /// left to check.
    fn go_on(&mut self, store: &Store, at: usize) -> bool {
        let header = store.segments.header(SegmentId(self.id));
        (self.walk.at, self.walk.marked, self.walk.search) = (at, None, None);
        if at < header.written.load(Acquire) as usize {
            return false;
        }
        if counts_may_be_off(store, header) || self.covered.0 > 0 {
            self.compare(store, SegmentId(self.id));
        }
        self.walk = ScrubWalk::default();
        true
    }

    /// Examines one more place behind damage. If an item with the right checksum begins there, or the segment ends,
    /// dead items are written over the damage and the walk continues. Returns true if no item of the segment is left
    /// to check.
    fn search(&mut self, store: &Store) -> bool {
        let id = SegmentId(self.id);
        let written = store.segments.header(id).written.load(Acquire) as usize;
        let at = self.walk.search.map_or(self.walk.at, |(last, _)| last + ITEM_STEP);
        let is_sound = self.walk.search.is_some() && store.segments.sound_item(store.sum_seed, id, at).is_some();
        if at < written && !is_sound && unname_damaged(store, id, at) == Step::Busy {
            return false;
        }
        let Some((_, epoch)) = self.walk.search else {
            // A thread may still write an item that it reserved before the segment was sealed.
            self.walk.search = Some((at, store.epochs.now() + 2));
            return false;
        };
        if at < written && !is_sound {
            self.walk.search = Some((at, epoch));
            return false;
        }
        store.epochs.try_advance();
        if store.epochs.now() < epoch {
            return false;
        }
        let end = at.min(written);
        store.segments.cover(id, self.walk.at..end);
        self.covered.0 += end - self.walk.at;
        self.lost.gaps += 1;
        self.go_on(store, end)
    }

    /// Marks the pieces or parts that a head from an earlier process names, a few at a time. Returns false if more
    /// parts of this head are to be marked.
    fn mark_named(&mut self, store: &Store, address: usize, layout: &Layout) -> bool {
        let header = store.segments.header_of(address);
        let Some(named) = store.named.as_ref().filter(|_| header.sequence() < store.reopened_at) else { return true };
        match orphan_at(store, address, layout) {
            None => true,
            Some(Orphan::Pieces { large, .. }) => {
                named.mark(large.object);
                true
            }
            Some(Orphan::Parts { namespace, address, bytes }) => {
                let is_done = mark_parts(store, named, namespace, (address, bytes), &mut self.walk.marked);
                // The head is counted only once, when all its parts are marked.
                if !is_done {
                    self.walk.found.items -= 1;
                    self.walk.found.hidden -= u32::from(layout.is(ItemKind::Piece));
                    self.walk.found.bytes -= layout.size as u32;
                }
                is_done
            }
        }
    }

    /// Checks one item, and removes it if it is a piece or a part that no head names. Returns true if no item of the
    /// segment is left to check.
    fn sweep(&mut self, store: &Store) -> bool {
        let Walked::Item(header, address, WalkedItem { layout, .. }) = self.next(store) else { return true };
        if !layout.has(DEAD) && layout.is(ItemKind::Piece) {
            let key = key_at(store, header.namespace(), address, &layout);
            if is_orphan(store, &key) {
                let counters = Background::counters(store);
                if remove_hidden(store, counters, &key).is_none() {
                    return false;
                }
                counters.orphans.add(1);
            }
        }
        self.walk.at += layout.size;
        self.walk.at >= header.written.load(Acquire) as usize
    }

    /// Compares the counts of a finished walk with the counts in the segment's header. Corrects the header if two walks
    /// found the same difference.
    fn compare(&mut self, store: &Store, id: SegmentId) {
        let ScrubWalk { found, counts: before, .. } = self.walk;
        let (now, has_gap) = (counts_of(store, id), self.covered.0 > 0);
        let suspect = Some((found, now, store.epochs.now() + 2));
        self.covered.1 += 1;
        if found == now {
            self.suspect = None;
        } else if now != before {
            // The counts changed during the walk. After a crash they are left as they are: they are wrong by a few
            // items at most. After damage the walk is repeated.
            self.suspect = suspect.filter(|_| has_gap && self.covered.1 < WALKS_MAX);
        } else if self.suspect.is_some_and(|(was, said, _)| (was, said) == (found, now)) {
            let header = store.segments.header(id);
            let (items, hidden) = (now.items.wrapping_sub(found.items), now.hidden.wrapping_sub(found.hidden));
            header.correct(items, hidden, now.bytes.wrapping_sub(found.bytes));
            let more = |now: u32, found: u32| u64::from(now).wrapping_sub(found.into());
            let (items, bytes) = (more(now.items, found.items), more(now.bytes, found.bytes));
            let counters = Background::counters(store);
            counters.note_lost(header.namespace(), items, more(now.hidden, found.hidden), bytes);
            if has_gap && found.items < now.items {
                counters.damaged.add(items);
                self.lost.items += items;
                self.lost.bytes += u64::from(now.bytes.saturating_sub(found.bytes));
            }
            self.suspect = None;
        } else {
            self.suspect = suspect;
        }
    }
}

/// Marks an item dead if no index slot names it.
fn ends_lost(store: &Store, address: usize, layout: &Layout) -> Step {
    let namespace = store.segments.header_of(address).namespace();
    let key = key_at(store, namespace, address, layout);
    match find(store, &key).is_some_and(|seen| seen.address == address) {
        true => Step::Done,
        false => end_lost(store, &key, address),
    }
}

/// Clears the slot that names a place in a damaged part of a segment, if there is one. The item is not counted as dead,
/// because its length is unknown.
fn unname_damaged(store: &Store, id: SegmentId, at: usize) -> Step {
    let (header, address) = (store.segments.header(id), store.segments.start(id) + at);
    let Some(layout) = item_in(store, header, address) else { return Step::Done };
    let key = key_at(store, header.namespace(), address, &layout);
    if find(store, &key).is_none_or(|seen| seen.address != address) {
        return Step::Done;
    }
    let Some(locked) = store.index.lock(key.hash) else { return Step::Busy };
    if let Some(there) = find_locked(store, &locked, &key).filter(|there| there.address == address) {
        unname(store, &locked, &there, Slot::EMPTY);
    }
    Step::Done
}

/// Removes an item whose bytes are damaged. If it was a head, its pieces or parts stay, because the damaged head does
/// not name them reliably.
pub(super) fn end_damaged(store: &Store, address: usize) -> Step {
    let layout = Layout::read(&store.segments.heap, address);
    let key = key_at(store, store.segments.header_of(address).namespace(), address, &layout);
    let Some(locked) = store.index.lock(key.hash) else { return Step::Busy };
    let layout = Layout::read(&store.segments.heap, address);
    if !layout.has(DEAD) {
        // If the item's key is damaged, this lookup does not find the slot that names the item.
        if let Some(there) = find_locked(store, &locked, &key).filter(|there| there.address == address) {
            unname(store, &locked, &there, Slot::EMPTY);
        }
        let counters = Background::counters(store);
        let _ = kill(store, counters, address, &layout);
        counters.damaged.add(1);
    }
    Step::Done
}
