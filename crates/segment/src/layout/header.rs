//! A segment's header: 128 bytes in a separate array. Readers check fields of one cache line, which rarely changes.
//! Writers update counters in the other line.
//!
//! ```text
//!  cold line (set when the segment is opened, read by every get)     hot line (changed as items are added or die)
//! +---------+------------+----------+---------+-------+-------+     +--------------+------------+------------+------+
//! | state   | generation | sequence | created | class | link  |     | write offset | dead bytes | dead items | pins |
//! |         | 24 bits    | u64      | ms      | queue |       |     | items        | arrivals   | hidden x 2 |      |
//! +---------+------------+----------+---------+-------+-------+     +--------------+------------+------------+------+
//! ```
//!
//! States:
//!
//! ```text
//!             open                 seal                  walk                 all slots cleared
//!   Free ------------->  Open  ------------>  Sealed  ---------->  Draining  ------------------>  Quarantine
//!   ^  ^                                                                                           |
//!   |  +--- two epochs later, no pins: generation + 1 ---------------------------------------------+
//!   |
//!   +---> Decommitted (memory used by the index, or released) ---> Free
//! ```
//!
//! There are deliberately no other transitions. A sealed segment never becomes Open, because it is never written again.
//! A draining segment never becomes Sealed, because a walk always ends in Quarantine. Only Quarantine and Decommitted
//! lead to Free.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use base::clock::UnixMillis;

use crate::layout::raw::{Word32, Word64};
use crate::layout::slot::slot_generation;

/// The number of bits of a CAS token that hold the item's offset in its segment: 1 MiB in units of 4 bytes.
pub(crate) const TOKEN_OFFSET_BITS: u32 = 18;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum SegmentState {
    /// The segment is empty and on the free list.
    Free = 0,
    /// One handle appends items to the segment.
    Open = 1,
    /// The segment is full or old, and is in an eviction queue.
    Sealed = 2,
    /// The background walks over the segment's items and clears their slots.
    Draining = 3,
    /// No slot names an item of the segment, but readers of two epochs and pins may still use its bytes.
    Quarantine = 4,
    /// The segment's memory was returned to the kernel. The segment is not on the free list.
    Decommitted = 5,
}

/// All states, in the order of their numbers.
pub(crate) const STATES: [SegmentState; 6] = [
    SegmentState::Free,
    SegmentState::Open,
    SegmentState::Sealed,
    SegmentState::Draining,
    SegmentState::Quarantine,
    SegmentState::Decommitted,
];

/// Returns true if the module's diagram of states has a transition between these states.
pub(crate) fn can(from: SegmentState, to: SegmentState) -> bool {
    use SegmentState::{Decommitted, Draining, Free, Open, Quarantine, Sealed};
    matches!(
        (from, to),
        (Free, Open | Decommitted)
            | (Open, Sealed)
            | (Sealed, Draining)
            | (Draining, Quarantine)
            | (Quarantine, Free)
            | (Decommitted, Free)
    )
}

/// The eviction queue to which a segment belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EvictionQueue {
    /// The queue of new items: first in, first out. Items that were read again move to the main queue.
    Small = 0,
    /// The queue of items that were read again.
    Main = 1,
}

/// The header of one segment.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct SegmentHeader {
    state: Word32,
    generation: Word32,
    sequence: Word64,
    created_ms: Word64,
    /// The segment's kind: `class | namespace << 8 | unverified << 15 | queue << 16 | fine expiries << 17`.
    kind: Word32,
    /// The next segment of the free list or the sealed list, as id + 1; 0 ends a list.
    pub(crate) link: Word32,
    /// The latest expiry of the segment's items, in ms since 1970; `u64::MAX` if an item never expires.
    latest_ms: Word64,
    cold_pad: [Word64; 3],
    /// The write offset: the number of bytes reserved, from the segment's start.
    pub(crate) written: Word32,
    /// The number of items published in the segment since it was opened. Only the thread that has the segment open
    /// writes this word.
    pub(crate) items: Word32,
    /// The number of published items that are dead.
    dead_items: Word32,
    /// The number of bytes of dead items and fillers.
    dead_bytes: Word32,
    /// The number of pins: uses of the segment's bytes that outlast the epoch in which they began.
    pub(crate) pins: Word32,
    /// The number of in-place receives into the segment. The segment is not drained until they have ended. Only the
    /// thread that has the segment open increments this word.
    pub(crate) arrivals: Word32,
    /// The number of hidden items, which are pieces and parts, among the published items. Only the segment's owner
    /// writes this word.
    pub(crate) hidden: Word32,
    /// The number of hidden items that are dead.
    dead_hidden: Word32,
    hot_pad: [Word32; 8],
}

/// The flag of a segment whose items are verified by each lookup: see [`crate::durable::verify`].
const UNVERIFIED: u32 = 1 << 15;
/// The bit of the queue: 0 small, 1 main.
const QUEUE_SHIFT: u32 = 16;
/// The flag of a segment whose expiries have the unit of its class in this build. Without the flag, expiries of more
/// than 24 days are in seconds: see [`crate::layout::ttl::unit_ms`].
const FINE_EXPIRIES: u32 = 1 << 17;
/// The bits of the namespace, beside the flag [`UNVERIFIED`].
const NAMESPACE_MASK: u8 = 0x7f;

/// Encodes the kind of a segment in one word: the TTL class, namespace and queue of its items, and whether lookups
/// verify the items from the start. The items' expiries have the unit of their class in this build.
pub(crate) fn kind_of(class: u8, namespace: u8, queue: EvictionQueue, is_unverified: bool) -> u32 {
    let mark = if is_unverified { UNVERIFIED } else { 0 };
    u32::from(class) | u32::from(namespace) << 8 | (queue as u32) << QUEUE_SHIFT | FINE_EXPIRIES | mark
}

const _: () = assert!(crate::Namespace::MAX <= NAMESPACE_MASK as usize);
const _: () = assert!(size_of::<SegmentHeader>() == 128 && std::mem::offset_of!(SegmentHeader, written) == 64);

impl SegmentHeader {
    pub(crate) fn state(&self) -> SegmentState {
        STATES[self.state.load(Acquire) as usize]
    }

    /// Changes the state. Panics if the module's diagram does not have the transition.
    pub(crate) fn go(&self, to: SegmentState) {
        let from = self.state();
        assert!(can(from, to), "a segment cannot go from {from:?} to {to:?}");
        self.state.store(to as u32, Release);
    }

    /// Changes the state from Free to Open, with a sequence number that was never used before. `kind` is a result of
    /// [`kind_of`].
    pub(crate) fn open(&self, sequence: u64, created: UnixMillis, kind: u32) {
        assert!(self.written.load(Relaxed) == 0 && self.pins.load(Relaxed) == 0, "a free segment is empty");
        self.sequence.store(sequence, Relaxed);
        self.created_ms.store(created.0, Relaxed);
        self.kind.store(kind, Relaxed);
        self.latest_ms.store(0, Relaxed);
        self.go(SegmentState::Open);
    }

    /// Returns true if the segment was never used.
    pub(crate) fn is_pristine(&self) -> bool {
        self.state() == SegmentState::Free && self.generation.load(Relaxed) == 0
    }

    /// Returns the counters, all of which are 0 in a segment without items.
    fn counts(&self) -> [&Word32; 6] {
        [&self.written, &self.items, &self.dead_items, &self.dead_bytes, &self.hidden, &self.dead_hidden]
    }

    /// Returns true if the state, the namespace and the TTL class are valid.
    pub(crate) fn has_state(&self) -> bool {
        (self.state.load(Acquire) as usize) < STATES.len()
            && usize::from(self.namespace()) < crate::Namespace::MAX
            && self.class() <= crate::layout::ttl::CLASS_NEVER
    }

    /// Returns true if this is the segment that a checkpoint recorded with this sequence number. A number of 0 means
    /// that the checkpoint recorded no segment.
    pub(crate) fn is_sealed_as(&self, sequence: u64) -> bool {
        sequence != 0
            && self.sequence() == sequence
            && self.has_state()
            && matches!(self.state(), SegmentState::Sealed | SegmentState::Draining)
    }

    /// Checks that the header is one that a process can leave in the file when it ends.
    pub(crate) fn check(&self, segment_bytes: usize, sequence_next: u64) -> Result<(), &'static str> {
        let (written, kind) = (self.written.load(Relaxed) as usize, self.kind.load(Relaxed));
        let faults = [
            (!self.has_state() || kind > FINE_EXPIRIES * 2 - 1, "invalid state, namespace or TTL class"),
            (written > segment_bytes || !written.is_multiple_of(4), "invalid write offset"),
            (self.generation.load(Relaxed) > 0x00ff_ffff, "generation out of range"),
            (self.created_ms.load(Relaxed) >> 48 != 0, "creation time out of range"),
            (self.sequence() >= sequence_next, "sequence number not assigned yet"),
        ];
        if let Some((_, what)) = faults.iter().find(|(is_so, _)| *is_so) {
            return Err(what);
        }
        let holds = matches!(self.state(), SegmentState::Open | SegmentState::Sealed | SegmentState::Draining);
        if holds && self.sequence() == 0 {
            return Err("items without a sequence number");
        }
        if matches!(self.state(), SegmentState::Free | SegmentState::Decommitted) && written > 0 {
            return Err("free, but with a write offset");
        }
        // Only the counters are invalid, not the items. The counters are computed again from the items.
        if holds && (self.live_items() as usize * 4 > segment_bytes || self.dead_bytes() as usize > segment_bytes) {
            self.walk_again();
        }
        Ok(())
    }

    /// Returns true if an earlier process was writing to the segment, or receiving into it, when that process ended.
    pub(crate) fn was_written_to(&self) -> bool {
        self.state() == SegmentState::Open || (self.state() == SegmentState::Sealed && self.arrivals.load(Relaxed) > 0)
    }

    /// Requests another walk over the segment's items, because slots were changed while no process used the file.
    pub(crate) fn walk_again(&self) {
        self.arrivals.store(1, Relaxed);
        if matches!(self.state(), SegmentState::Draining | SegmentState::Quarantine) {
            self.state.store(SegmentState::Sealed as u32, Release);
        }
    }

    /// Resets the state that an earlier process left: clears the counts of pins and in-place receives, and lets an
    /// interrupted walk start again.
    pub(crate) fn reopen(&self) {
        self.pins.store(0, Relaxed);
        self.arrivals.store(0, Relaxed);
        self.set_unverified(false);
        match self.state() {
            SegmentState::Draining => self.state.store(SegmentState::Sealed as u32, Release),
            SegmentState::Quarantine => self.free(),
            SegmentState::Free => {
                for word in self.counts() {
                    word.store(0, Relaxed);
                }
            }
            SegmentState::Open | SegmentState::Sealed | SegmentState::Decommitted => {}
        }
    }

    /// Discards the segment's contents in any state, and makes the segment free with another generation.
    pub(crate) fn empty(&self) {
        for word in self.counts().into_iter().chain([&self.pins, &self.arrivals, &self.kind, &self.link]) {
            word.store(0, Relaxed);
        }
        for word in [&self.sequence, &self.created_ms, &self.latest_ms] {
            word.store(0, Relaxed);
        }
        self.generation.store((self.generation.load(Relaxed) + 1) & 0x00ff_ffff, Relaxed);
        self.state.store(SegmentState::Free as u32, Release);
    }

    /// Seals a segment whose writer no longer exists. The segment has `live_items` live items, of which `hidden` are
    /// hidden, and `dead_bytes` bytes that belong to no live item.
    pub(crate) fn reopen_sealed(&self, live_items: u32, hidden: u32, dead_bytes: u32) {
        self.items.store(live_items, Relaxed);
        self.dead_items.store(0, Relaxed);
        self.hidden.store(hidden, Relaxed);
        self.dead_hidden.store(0, Relaxed);
        self.dead_bytes.store(dead_bytes, Relaxed);
        self.state.store(SegmentState::Sealed as u32, Release);
    }

    /// Seals a segment whose items a rebuild has still to find. No item counts as live yet;
    /// [`SegmentHeader::note_found`] adds each live item.
    pub(crate) fn reopen_unknown(&self, segment_bytes: usize) {
        self.reopen_sealed(0, 0, segment_bytes as u32);
    }

    /// Records that `items` live items with `bytes` bytes together were found in the segment. `hidden` of them are
    /// hidden.
    pub(crate) fn note_found(&self, items: u32, hidden: u32, bytes: u32) {
        self.items.fetch_add(items, Release);
        self.hidden.fetch_add(hidden, Release);
        self.dead_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Changes the state from Quarantine to Free, and sets the next generation.
    pub(crate) fn free(&self) {
        assert!(self.pins.load(Acquire) == 0, "a pinned segment is not reused");
        assert!(self.arrivals.load(Acquire) == 0, "a segment that is written to is not reused");
        for word in self.counts() {
            word.store(0, Relaxed);
        }
        self.generation.store((self.generation.load(Relaxed) + 1) & 0x00ff_ffff, Relaxed);
        self.go(SegmentState::Free);
    }

    #[inline(always)]
    pub(crate) fn slot_generation(&self) -> u16 {
        slot_generation(self.generation.load(Relaxed))
    }

    /// Returns the sequence number. Every opening of any segment has a different number.
    #[inline(always)]
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn created(&self) -> UnixMillis {
        UnixMillis(self.created_ms.load(Relaxed))
    }

    #[inline(always)]
    pub(crate) fn class(&self) -> u8 {
        self.kind.load(Relaxed) as u8
    }

    /// Returns the unit of the items' expiries, in milliseconds.
    #[inline(always)]
    pub(crate) fn unit_ms(&self) -> u64 {
        let kind = self.kind.load(Relaxed);
        crate::layout::ttl::unit_ms(kind as u8, kind & FINE_EXPIRIES != 0)
    }

    #[inline(always)]
    pub(crate) fn namespace(&self) -> u8 {
        (self.kind.load(Relaxed) >> 8) as u8 & NAMESPACE_MASK
    }

    /// Returns the namespace, or a number that belongs to no namespace if the segment is marked as unverified.
    #[inline(always)]
    pub(crate) fn namespace_if_verified(&self) -> u8 {
        (self.kind.load(Relaxed) >> 8) as u8
    }

    /// Returns true if lookups verify the segment's items.
    #[inline]
    pub(crate) fn is_unverified(&self) -> bool {
        self.kind.load(Relaxed) & UNVERIFIED != 0
    }

    /// Marks the segment as unverified, or clears that mark.
    pub(crate) fn set_unverified(&self, is_unverified: bool) {
        if is_unverified {
            let _ = self.kind.fetch_or(UNVERIFIED, Release);
        } else if self.is_unverified() {
            let _ = self.kind.fetch_and(!UNVERIFIED, Release);
        }
    }

    pub(crate) fn queue(&self) -> EvictionQueue {
        if self.kind.load(Relaxed) >> QUEUE_SHIFT & 1 == 0 { EvictionQueue::Small } else { EvictionQueue::Main }
    }

    /// Sets the write offset, in bytes from the segment's start. Up to this offset, items follow each other without
    /// gaps.
    #[inline(always)]
    pub(crate) fn reach(&self, written: usize) {
        self.written.store(written as u32, Release);
    }

    /// Records that the segment has a live item that expires at `at_ms` (`u64::MAX`: never).
    pub(crate) fn note_expiry(&self, at_ms: u64) {
        if self.latest_ms.load(Relaxed) < at_ms {
            self.latest_ms.fetch_max(at_ms, Relaxed);
        }
    }

    /// Returns true if every item of the segment has expired.
    pub(crate) fn is_past(&self, now: UnixMillis) -> bool {
        self.latest_ms.load(Relaxed) <= now.0
    }

    /// Records that an item of `bytes` bytes died. Callers call this once for each item, under the item's stripe lock.
    pub(crate) fn note_dead(&self, bytes: usize) {
        self.dead_bytes.fetch_add(bytes as u32, Relaxed);
        self.dead_items.fetch_add(1, Relaxed);
    }

    /// Counts bytes that never belonged to an item: a filler, or a reservation that was not used.
    pub(crate) fn note_waste(&self, bytes: usize) {
        self.dead_bytes.fetch_add(bytes as u32, Relaxed);
    }

    /// Adds to the counts of dead items, of the hidden ones among them, and of dead bytes (modulo 2^32).
    pub(crate) fn correct(&self, dead_items: u32, dead_hidden: u32, dead_bytes: u32) {
        self.dead_items.fetch_add(dead_items, Relaxed);
        self.dead_hidden.fetch_add(dead_hidden, Relaxed);
        self.dead_bytes.fetch_add(dead_bytes, Relaxed);
    }

    pub(crate) fn dead_bytes(&self) -> u32 {
        self.dead_bytes.load(Relaxed)
    }

    /// Records that a hidden item died, in addition to [`SegmentHeader::note_dead`].
    pub(crate) fn note_dead_hidden(&self) {
        self.dead_hidden.fetch_add(1, Relaxed);
    }

    /// Returns the number of live items under clients' keys.
    pub(crate) fn live_keys(&self) -> u32 {
        let hidden = self.hidden.load(Acquire).saturating_sub(self.dead_hidden.load(Acquire));
        self.live_items().saturating_sub(hidden)
    }

    pub(crate) fn live_items(&self) -> u32 {
        // Loads the dead items first, because an item is counted as published before it can be counted as dead.
        let dead = self.dead_items.load(Acquire);
        self.items.load(Acquire).saturating_sub(dead)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn segment_state_transitions_match_diagram() {
        // The transitions of the module's diagram, as (from, to).
        let edges = [(0, 1), (0, 5), (1, 2), (2, 3), (3, 4), (4, 0), (5, 0)];
        for from in STATES {
            for to in STATES {
                assert_eq!(can(from, to), edges.contains(&(from as u32, to as u32)), "{from:?} -> {to:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "cannot go from Free to Sealed")]
    fn an_edge_that_is_not_drawn_is_refused() {
        SegmentHeader::default().go(SegmentState::Sealed);
    }

    #[test]
    fn a_segment_of_an_older_build_counts_long_expiries_in_seconds() {
        let header = SegmentHeader::default();
        for (class, units) in [(18, [1, 1]), (19, [10, 1000]), (22, [10, 1000]), (23, [1000, 1000])] {
            for queue in [EvictionQueue::Small, EvictionQueue::Main] {
                header.kind.store(kind_of(class, 5, queue, false), Relaxed);
                assert_eq!((header.queue(), header.class(), header.namespace()), (queue, class, 5));
                assert!(header.check(4096, 1).is_ok());
                let own = header.unit_ms();
                header.kind.store(kind_of(class, 5, queue, false) & !FINE_EXPIRIES, Relaxed);
                assert_eq!(([own, header.unit_ms()], header.queue()), (units, queue), "class {class}");
                assert!(header.check(4096, 1).is_ok());
            }
        }
        header.kind.store(FINE_EXPIRIES << 1, Relaxed);
        assert!(header.check(4096, 1).is_err(), "a bit without a meaning");
    }

    #[test]
    fn a_new_life_has_another_generation_and_no_counts() {
        let header = SegmentHeader::default();
        let before = header.slot_generation();
        header.open(9, UnixMillis(5), kind_of(3, 2, EvictionQueue::Main, false));
        header.written.store(100, Relaxed);
        assert_eq!((header.class(), header.namespace(), header.queue()), (3, 2, EvictionQueue::Main));
        for state in [SegmentState::Sealed, SegmentState::Draining, SegmentState::Quarantine] {
            header.go(state);
        }
        header.free();
        assert_ne!(header.slot_generation(), before);
        assert_eq!(header.written.load(Relaxed), 0);
    }
}
