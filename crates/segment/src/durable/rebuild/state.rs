//! The state of a rebuild that all its threads share: see [`crate::durable::rebuild`].

use std::collections::HashMap;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use crate::heap::segments::{SegmentId, Segments};
use crate::index::Hash;
use crate::layout::header::SegmentHeader;
use crate::layout::raw::Word32;

pub(super) const ROUND_ITEMS: u32 = 0;
pub(super) const ROUND_HEADS: u32 = 1;
/// The round in which items on flash are found, after all items in memory were found.
pub(super) const ROUND_FLASH: u32 = 2;
pub(super) const WHOLE: u32 = 3;

// The states of a segment.
pub(super) const WAITING: u32 = 0;
pub(super) const TAKEN: u32 = 1;
/// The segment was walked and contains heads, so it waits for the second round.
pub(super) const HAS_HEADS: u32 = 2;
pub(super) const DONE: u32 = 3;

/// A segment that the rebuild has to walk.
#[derive(Debug)]
pub(super) struct RebuildEntry {
    pub(super) id: SegmentId,
    /// The segment's sequence when the file was opened.
    pub(super) sequence: u64,
    pub(super) state: Word32,
}

/// The result of undoing a change of a key, stored under the key's hash. Of the key's items in segments with sequences
/// below `before`, only the item at `address` is live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Undone {
    pub(crate) namespace: u8,
    pub(crate) piece: bool,
    pub(crate) address: Option<usize>,
    pub(crate) before: u64,
}

/// A head that is the latest version of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaterHead {
    pub(super) namespace: u8,
    /// The head's segment sequence and address.
    pub(super) version: (u64, usize),
    pub(super) object: Option<u64>,
}

/// The state of a rebuild that all its threads share.
#[derive(Debug)]
pub(crate) struct Rebuild {
    pub(super) round: Word32,
    pub(super) entries: Box<[RebuildEntry]>,
    /// The entries in the order in which their segments are discarded if memory is short.
    pub(super) cheapest: Box<[u32]>,
    /// The position in `cheapest` of the first entry that may be waiting.
    pub(super) cheapest_from: AtomicUsize,
    /// The number of the first entry that may not have been walked yet.
    pub(super) walked: AtomicUsize,
    /// The number of the entry at which the next search for an unwalked segment begins.
    pub(super) from: AtomicUsize,
    /// The number of entries of the present round that are not done.
    pub(super) left: AtomicUsize,
    /// The sequence of the first segment that was written during an earlier rebuild. An expired item there may
    /// supersede an older version that is still marked live. `u64::MAX`: there is no such segment.
    pub(super) since: u64,
    /// The heads in those segments, by the hash of their keys. Older versions are not entered even before the heads
    /// are.
    pub(super) later: HashMap<u64, Vec<LaterHead>>,
    pub(super) undone: HashMap<u64, Vec<Undone>>,
    /// True if the machine lost power: an item's number may then be newer than its CAS token.
    pub(super) lost: bool,
    pub(super) helpers: AtomicUsize,
    pub(super) found: AtomicU64,
    pub(super) torn: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) on_flash: AtomicU64,
}

/// The progress of the rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RebuildProgress {
    /// True if all items are found.
    pub whole: bool,
    /// The number of segments that held items when the file was opened.
    pub segments: u64,
    /// The number of segments that are not walked yet in the present round.
    pub segments_left: u64,
    /// The number of segments that were discarded unwalked to free memory.
    pub segments_dropped: u64,
    /// The number of items that were found in memory.
    pub items: u64,
    /// The number of torn items, which were removed.
    pub torn: u64,
    /// The number of items that were found on flash.
    pub on_flash: u64,
}

impl Rebuild {
    /// Creates the state for the segments `ids`, in any order, each with its number of live bytes, if known.
    pub(crate) fn new(
        segments: &Segments,
        lost: bool,
        mut ids: Vec<(SegmentId, u32)>,
        since: u64,
        undone: HashMap<u64, Vec<Undone>>,
    ) -> Self {
        ids.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(segments.header(*id).sequence()));
        let mut cheapest: Box<[u32]> = (0..ids.len() as u32).collect();
        cheapest.sort_unstable_by_key(|at| (ids[*at as usize].1, std::cmp::Reverse(*at)));
        let entry = |(id, _)| {
            let sequence = segments.header(id).sequence();
            RebuildEntry { id, sequence, state: Word32::new(WAITING) }
        };
        let entries: Box<[RebuildEntry]> = ids.into_iter().map(entry).collect();
        Self {
            cheapest,
            cheapest_from: AtomicUsize::new(0),
            walked: AtomicUsize::new(0),
            round: Word32::new(ROUND_ITEMS),
            from: AtomicUsize::new(0),
            left: AtomicUsize::new(entries.len()),
            entries,
            since,
            later: HashMap::new(),
            undone,
            lost,
            helpers: AtomicUsize::new(0),
            found: AtomicU64::new(0),
            torn: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            on_flash: AtomicU64::new(0),
        }
    }

    /// Records the heads that supersede older versions: see [`Self::later`].
    pub(crate) fn note_later(&mut self, later: HashMap<u64, Vec<LaterHead>>) {
        self.later = later;
    }

    /// Returns true if no segment has to be walked.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns true if all items in memory are found.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        self.round.load(Acquire) >= ROUND_FLASH
    }

    /// Returns true if all items of earlier processes are found, in memory and on flash.
    #[inline(always)]
    pub(crate) fn has_found_all(&self) -> bool {
        self.round.load(Acquire) == WHOLE
    }

    /// Returns the number of segments that are finished in this round: walked or discarded.
    pub(crate) fn walked(&self) -> usize {
        self.entries.len().saturating_sub(self.left.load(Relaxed))
    }

    pub(super) fn progress(&self) -> RebuildProgress {
        let round = self.round.load(Acquire);
        RebuildProgress {
            whole: round == WHOLE,
            segments: self.entries.len() as u64,
            segments_left: if round >= ROUND_FLASH { 0 } else { self.left.load(Relaxed) as u64 },
            segments_dropped: self.dropped.load(Relaxed),
            items: self.found.load(Relaxed),
            torn: self.torn.load(Relaxed),
            on_flash: self.on_flash.load(Relaxed),
        }
    }

    /// Reserves a segment of the present round for the calling thread. Returns the number of its entry, and the round.
    pub(super) fn take_segment(&self) -> Option<(usize, u32)> {
        let round = self.round.load(Acquire);
        let wants = match round {
            ROUND_ITEMS => WAITING,
            ROUND_HEADS => HAS_HEADS,
            _ => return None,
        };
        let from = self.from.load(Relaxed);
        for at in (from..self.entries.len()).chain(0..from) {
            let state = &self.entries[at].state;
            if state.load(Relaxed) == wants && state.compare_exchange(wants, TAKEN, Acquire).is_ok() {
                self.from.store(at + 1, Relaxed);
                return Some((at, round));
            }
        }
        None
    }

    /// Ends the work on a segment of a round. Returns true if all segments of all rounds are walked. The caller then
    /// calls [`Rebuild::become_whole`].
    pub(super) fn end(&self, at: usize, round: u32, has_heads: bool) -> bool {
        let state = if round == ROUND_ITEMS && has_heads { HAS_HEADS } else { DONE };
        self.entries[at].state.store(state, Release);
        self.left.fetch_sub(1, AcqRel) == 1 && self.next_round(round)
    }

    /// Begins the next round. Returns true if no round is left.
    fn next_round(&self, round: u32) -> bool {
        let with_heads = self.entries.iter().filter(|entry| entry.state.load(Relaxed) == HAS_HEADS).count();
        if round == ROUND_ITEMS && with_heads > 0 {
            self.left.store(with_heads, Relaxed);
            self.from.store(0, Relaxed);
            self.round.store(ROUND_HEADS, Release);
            return false;
        }
        true
    }

    /// Records that all items in memory are found. `finds`: a second tier still has to find its items.
    pub(super) fn end_rounds(&self, finds: bool) {
        self.round.store(if finds { ROUND_FLASH } else { WHOLE }, Release);
    }

    /// Returns true if items of a sealed segment may be copied to another segment: this process stored them, or the
    /// segment and all newer segments were walked. Then the rebuild cannot find later versions of these items. Returns
    /// false if heads of the segment wait for the second round, or if an expired item in it may supersede an older
    /// version.
    pub(crate) fn may_copy(&self, header: &SegmentHeader, reopened_at: u64) -> bool {
        let sequence = header.sequence();
        if sequence >= reopened_at {
            return true;
        }
        let is_walked = |entry: &RebuildEntry| matches!(entry.state.load(Acquire), DONE | HAS_HEADS);
        let mut walked = self.walked.load(Relaxed);
        walked += self.entries[walked..].iter().take_while(|entry| is_walked(entry)).count();
        self.walked.store(walked, Relaxed);
        let at = self.entries.partition_point(|entry| entry.sequence > sequence);
        let is_done = |entry: &RebuildEntry| entry.sequence == sequence && entry.state.load(Acquire) == DONE;
        sequence < self.since && at < walked && self.entries.get(at).is_some_and(is_done)
    }

    /// Removes from the walk the segment with the fewest live bytes among those that no thread has walked and that
    /// `may` accepts. The second value is true if no segments are left to walk.
    pub(super) fn take_cheapest(
        &self,
        segments: &Segments,
        may: impl Fn(&SegmentHeader) -> bool,
    ) -> Option<(SegmentId, bool)> {
        if self.round.load(Acquire) != ROUND_ITEMS {
            return None;
        }
        let waits = |entry: &&RebuildEntry| entry.state.load(Relaxed) == WAITING && may(segments.header(entry.id));
        let taken = |entry: &&RebuildEntry| entry.state.compare_exchange(WAITING, DONE, AcqRel).is_ok();
        let in_order = |from: usize| self.cheapest[from..].iter().map(|at| &self.entries[*at as usize]);
        let mut from = self.cheapest_from.load(Relaxed);
        from += in_order(from).take_while(|entry| entry.state.load(Relaxed) != WAITING).count();
        self.cheapest_from.store(from, Relaxed);
        let id = in_order(from).filter(waits).find(taken)?.id;
        self.dropped.fetch_add(1, Relaxed);
        Some((id, self.left.fetch_sub(1, AcqRel) == 1 && self.next_round(ROUND_ITEMS)))
    }

    /// Returns a head that is a later version of the item's key than the item at `address`, if there is one.
    pub(super) fn later_than(
        &self,
        hash: Hash,
        address: usize,
        piece: bool,
        header: &SegmentHeader,
    ) -> Option<LaterHead> {
        let hides = |later: &&LaterHead| {
            !piece && later.namespace == header.namespace() && later.version > (header.sequence(), address)
        };
        self.later.get(&hash.0).and_then(|all| all.iter().find(hides)).copied()
    }

    /// Returns true if the item belongs to a change that was undone, so that the item must not be found again.
    pub(super) fn is_undone(&self, hash: Hash, address: usize, piece: bool, header: &SegmentHeader) -> bool {
        let of = |undone: &&Undone| undone.namespace == header.namespace() && undone.piece == piece;
        let ends = |undone: &Undone| header.sequence() < undone.before && undone.address != Some(address);
        self.undone.get(&hash.0).is_some_and(|all| all.iter().filter(of).any(ends))
    }
}
