//! The open segments of one thread, which receive its new items.
//!
//! There is one open segment for each (namespace, TTL class, queue) that the thread writes to, up to a maximum for all
//! and a maximum for each namespace with a quota. When a maximum is reached, neighbouring classes share a segment. A
//! segment is sealed when the next item does not fit, when the segment has been open for an eighth of its class's TTL,
//! or when its namespace was flushed after it was opened.
//!
//! Only the thread that owns the table writes to the end of its open segments. Therefore a reserved range
//! ([`Reserved`]) belongs to one writer.

use std::sync::atomic::Ordering::{Relaxed, Release};

use base::clock::UnixMillis;

use crate::core::capacity::{Whose, open_max_of, take_segment};
use crate::core::lookup::{check_mark, is_unverified};
use crate::core::op::OpError;
use crate::core::store::Store;
use crate::heap::config::OPEN_MAX;
use crate::heap::segments::SegmentId;
use crate::layout::header::{EvictionQueue, SegmentHeader, kind_of};
use crate::layout::item::{FILLER, FILLER_BYTES};
use crate::layout::key::Namespace;
use crate::layout::raw::Reserved;
use crate::layout::ttl;

/// A segment that is being filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    id: SegmentId,
    namespace: u8,
    class: u8,
    queue: EvictionQueue,
    sequence: u64,
    /// Bytes of the segment that are reserved so far.
    written: usize,
    opened: UnixMillis,
    /// The number of the latest reservation in this segment; the table numbers its reservations in order.
    used: u64,
}

/// The open segments of one thread.
#[derive(Debug)]
pub(crate) struct OpenTable {
    whose: Whose,
    /// See [`crate::Guard::spare_segments`].
    spares: bool,
    open: Vec<Open>,
    reservations: u64,
    /// The number of segments that this table has taken, by namespace.
    taken: [u64; Namespace::MAX],
    /// The latest checkpoint, as a segment sequence, whose segments this table has sealed: see
    /// [`OpenTable::seal_partial`].
    sealed_before: u64,
}

/// A request for space for one item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) namespace: u8,
    pub(crate) class: u8,
    pub(crate) queue: EvictionQueue,
    /// The item's size in bytes, a multiple of 4.
    pub(crate) size: usize,
    pub(crate) align8: bool,
}

impl OpenTable {
    pub(crate) fn new(whose: Whose) -> Self {
        let open = Vec::with_capacity(OPEN_MAX);
        Self { whose, spares: false, open, reservations: 0, taken: [0; Namespace::MAX], sealed_before: 0 }
    }

    /// See [`crate::Guard::spare_segments`].
    pub(crate) fn spare_segments(&mut self, spares: bool) {
        self.spares = spares;
    }

    /// Reserves space for one item. The space lies beyond the segment's published write offset until
    /// [`SegmentHeader::reach`] moves the offset. Returns `Parked` if no segment is free.
    #[inline]
    pub(crate) fn reserve(&mut self, store: &Store, want: Want, now: UnixMillis) -> Result<Reserved, OpError> {
        debug_assert!(want.size.is_multiple_of(4) && want.size <= store.segments.segment_bytes() - FILLER_BYTES);
        self.reservations += 1;
        let mut at = match self.find(want) {
            Some(at) => at,
            None => self.open_or_share(store, want, now)?,
        };
        let open = self.open[at];
        let fill = usize::from(want.align8 && !open.written.is_multiple_of(8)) * FILLER_BYTES;
        let full = open.written + fill + want.size > store.segments.segment_bytes();
        let old = now.ms_since(open.opened) > ttl::open_ms_max(open.class);
        if full || old || open.sequence < store.flushed_before(open.namespace) {
            self.seal(store, at);
            at = self.open_new(store, Want { class: open.class, ..want }, now)?;
        }
        let open = &mut self.open[at];
        let start = store.segments.start(open.id);
        if want.align8 && !open.written.is_multiple_of(8) {
            store.segments.heap.word32(start + open.written).store(FILLER, Relaxed);
            store.segments.header(open.id).note_waste(FILLER_BYTES);
            open.written += FILLER_BYTES;
        }
        let reserved = Reserved::new(start + open.written, want.size);
        open.written += want.size;
        open.used = self.reservations;
        Ok(reserved)
    }

    /// Returns the number of segments that this table has taken for a namespace.
    pub(crate) fn taken(&self, namespace: u8) -> u64 {
        self.taken[usize::from(namespace)]
    }

    /// Returns true if the reservation is the latest in its segment and that segment is still open in this table.
    pub(crate) fn is_latest(&self, store: &Store, reserved: &Reserved) -> bool {
        let id = store.segments.of(reserved.offset());
        let end = reserved.offset() - store.segments.start(id) + reserved.len();
        self.open.iter().any(|open| open.id == id && open.written == end)
    }

    /// Cancels the latest reservation of a segment, if no item was published in it.
    pub(crate) fn give_back(&mut self, store: &Store, reserved: Reserved) {
        let id = store.segments.of(reserved.offset());
        let open = self.open.iter_mut().find(|o| o.id == id).expect("a reservation lies in an open segment");
        let at = reserved.offset() - store.segments.start(id);
        assert!(at + reserved.len() == open.written, "only the latest reservation can be handed back");
        open.written = at;
        store.segments.header(id).written.store(at as u32, Release);
    }

    /// Seals every open segment. Called when the thread that owns the table ends.
    pub(crate) fn seal_all(&mut self, store: &Store) {
        while !self.open.is_empty() {
            self.seal(store, self.open.len() - 1);
        }
    }

    /// Seals segments whose namespace was flushed after they were opened, segments that were open for too long, and
    /// segments that a checkpoint has to include. If too many segments are open, also seals the least recently used
    /// ones.
    pub(crate) fn seal_ended(&mut self, store: &Store, now: UnixMillis) {
        while self.open.len() > store.memory.open_max()
            && let Some(idle) = self.idle_of(None)
        {
            self.seal(store, idle);
        }
        let (checkpoint, mut at) = (store.checkpoints.before(), 0);
        while let Some(open) = self.open.get(at) {
            let old = now.ms_since(open.opened) > ttl::open_ms_max(open.class) || open.sequence < checkpoint;
            if old || open.sequence < store.flushed_before(open.namespace) {
                self.seal(store, at);
            } else {
                at += 1;
            }
        }
        self.sealed_before = checkpoint;
    }

    /// Seals the segments that belong to a checkpoint, if one began since the last call. After the call, this thread
    /// stores items only in segments that the checkpoint does not include.
    #[inline]
    pub(crate) fn seal_partial(&mut self, store: &Store, now: UnixMillis) {
        if self.sealed_before != store.checkpoints.before() {
            self.seal_ended(store, now);
        }
    }

    /// Returns the sequence limit of the latest checkpoint that this table has sealed for. The checkpoint includes only
    /// segments with lower sequences, and this table stores no more items in them.
    pub(crate) fn sealed_before(&self) -> u64 {
        self.sealed_before
    }

    fn find(&self, want: Want) -> Option<usize> {
        self.open.iter().position(|o| o.class == want.class && o.namespace == want.namespace && o.queue == want.queue)
    }

    /// Returns true if the items of the segment with this header can be copied to open segments without sealing an open
    /// segment early.
    pub(crate) fn has_place(&self, store: &Store, header: &SegmentHeader) -> bool {
        let of_queue = |o: &&Open| o.namespace == header.namespace() && o.queue == header.queue();
        let own = self.open.iter().filter(|open| open.namespace == header.namespace()).count();
        let room = self.open.len() < store.memory.open_max() && own < open_max_of(store, header.namespace());
        room || self.open.iter().filter(of_queue).any(|open| ttl::same_unit(open.class, header.class()))
    }

    /// Returns the position in `open` of the least recently used segment, of one namespace or of all.
    fn idle_of(&self, namespace: Option<u8>) -> Option<usize> {
        let of = |at: &usize| namespace.is_none_or(|namespace| self.open[*at].namespace == namespace);
        (0..self.open.len()).filter(of).min_by_key(|at| self.open[*at].used)
    }

    #[cold]
    #[inline(never)]
    fn open_or_share(&mut self, store: &Store, want: Want, now: UnixMillis) -> Result<usize, OpError> {
        let own = self.open.iter().filter(|open| open.namespace == want.namespace).count();
        let crowded = own >= open_max_of(store, want.namespace);
        if self.open.len() < store.memory.open_max() && !crowded {
            return self.open_new(store, want, now);
        }
        let neighbour =
            |o: &&Open| o.namespace == want.namespace && o.queue == want.queue && ttl::same_unit(o.class, want.class);
        match self.open.iter().filter(neighbour).min_by_key(|o| o.class.abs_diff(want.class)) {
            Some(near) => {
                let class = near.class;
                self.find(Want { class, ..want }).ok_or(OpError::Parked)
            }
            None => {
                let idle = self.idle_of(crowded.then_some(want.namespace)).ok_or(OpError::OutOfMemory)?;
                self.seal(store, idle);
                self.open_new(store, want, now)
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn open_new(&mut self, store: &Store, want: Want, now: UnixMillis) -> Result<usize, OpError> {
        let id = take_segment(store, self.whose, want.namespace, self.spares)?;
        self.taken[usize::from(want.namespace)] += 1;
        let sequence = store.segments.next_sequence();
        let created = ttl::creation(ttl::unit_ms(want.class, true), now);
        let is_unverified = is_unverified(store);
        let kind = kind_of(want.class, want.namespace, want.queue, is_unverified);
        store.segments.header(id).open(sequence, created, kind);
        if is_unverified {
            check_mark(store, id);
        }
        self.open.push(Open {
            id,
            namespace: want.namespace,
            class: want.class,
            queue: want.queue,
            sequence,
            written: 0,
            opened: now,
            used: self.reservations,
        });
        Ok(self.open.len() - 1)
    }

    fn seal(&mut self, store: &Store, at: usize) {
        let open = self.open.swap_remove(at);
        let left = store.segments.segment_bytes() - open.written;
        store.segments.header(open.id).note_waste(left);
        store.segments.seal(open.id);
    }
}
