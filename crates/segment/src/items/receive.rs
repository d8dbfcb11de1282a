//! In-place receives of values. Space for the item is reserved first, bytes are stored as they arrive, and the slot is
//! stored after the last byte has arrived.
//!
//! ```text
//!   begin     reserve space, write header with DEAD, fields, key       segment: arrivals + 1
//!             (until then, the item's length includes the space reserved for a tail)
//!   receive   value bytes, then a short tail that is not stored        over one or more iterations
//!   commit    under the stripe lock: clear DEAD, store the slot        segment: arrivals - 1
//!   abort     give the space back if no later item was reserved        segment: arrivals - 1
//!             behind it; otherwise count it as dead bytes
//! ```
//! - No other thread can find the item before it is committed, so only the receiving thread accesses its bytes.
//! - `arrivals` counts the in-place receives of a segment. While it is not 0, the segment may be sealed, but the
//!   background neither drains nor frees it. So a committed item never lies in a drained segment. An in-place receive
//!   never begins in a sealed segment.
//! - A flush during an in-place receive takes effect before the commit and does not end the new item. The commit then
//!   copies the value into a segment that was opened after the flush.
//! - Callers limit the number and the duration of in-place receives, because the background waits for each of them
//!   without a timeout.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::core::facets::Receiver;
use crate::core::handle::Guard;
use crate::core::lookup::find_locked;
use crate::core::op::{OpError, Put, PutMode, PutOutcome};
use crate::core::store::{Store, write_sum};
use crate::heap::samples::RequestKind;
use crate::items::unpublished::{Content, Plan, Unpublished, no_place, note_ended, publish, unpublished};
use crate::layout::header::SegmentHeader;
use crate::layout::item::{FILLER, FILLER_BYTES, ItemKind};
use crate::layout::key::Key;
use crate::values::writer::LargeWriter;

/// The maximum length of a tail, in bytes. A tail is received after the value but not stored, such as a line end.
pub const TAIL_BYTES_MAX: usize = FILLER_BYTES;

/// An item whose value is being received. The receive ends with [`Receiver::commit`], [`Receiver::commit_piece`] or
/// [`Receiver::abort`].
#[derive(Debug)]
#[must_use = "a segment is not drained before its arrivals are done"]
pub struct InPlaceReceive {
    /// The unpublished item, or `None` after the item was committed or the receive was aborted.
    unpublished: Option<Unpublished>,
    /// The length of the value and its tail together, in bytes.
    bytes: usize,
    received: usize,
}

impl InPlaceReceive {
    /// Returns the number of bytes that are still to be received, including the tail.
    pub fn left(&self) -> usize {
        self.bytes - self.received
    }

    /// Returns the number of bytes that were received.
    pub fn received(&self) -> usize {
        self.received
    }

    /// Records that the first `bytes` of [`room_of`] were received.
    pub fn receive(&mut self, bytes: usize) {
        assert!(bytes <= self.left(), "more was received than there was room for");
        self.received += bytes;
    }

    fn unpublished(&self) -> &Unpublished {
        self.unpublished.as_ref().expect("it is neither committed nor abandoned")
    }
}

impl Drop for InPlaceReceive {
    fn drop(&mut self) {
        debug_assert!(
            self.unpublished.is_none() || std::thread::panicking(),
            "an arrival was neither committed nor abandoned"
        );
    }
}

/// Returns the part of the item's space into which the remaining bytes are to be received.
pub(crate) fn room_of<'a>(store: &'a Store, arriving: &'a mut InPlaceReceive) -> &'a mut [u8] {
    let (at, left) = (arriving.received, arriving.left());
    let unpublished = arriving.unpublished.as_mut().expect("it is neither committed nor abandoned");
    let value = unpublished.layout.value_address(0);
    unpublished.reserved.bytes_mut(&store.segments.heap, value + at, left)
}

/// Returns the bytes received so far.
pub(crate) fn received_of<'a>(store: &'a Store, arriving: &'a InPlaceReceive) -> &'a [u8] {
    let unpublished = arriving.unpublished();
    store.segments.heap.bytes(unpublished.layout.value_address(unpublished.address()), arriving.received)
}

fn end_receive(header: &SegmentHeader) {
    let before = header.arrivals.fetch_sub(1, Release);
    assert!(before > 0, "an arrival ends once");
}

/// Turns the tail's space behind the item into a filler, and then reduces the item's length by that space. So a walk
/// over the segment finds the next item at every instant. No other thread can find the item yet. The function may be
/// called again for the same item.
fn fill_slack(store: &Store, unpublished: &Unpublished) {
    if unpublished.reserved.len() > unpublished.layout.size {
        let heap = &store.segments.heap;
        heap.word32(unpublished.address() + unpublished.layout.size).store(FILLER, Release);
        unpublished.layout.write_lengths(heap, unpublished.address());
    }
}

/// Counts the tail's space as dead bytes of the segment.
fn note_slack(header: &SegmentHeader, slack: usize) {
    if slack > 0 {
        header.note_waste(slack);
    }
}

impl Receiver<'_, '_> {
    /// Reserves space for a value of `value_bytes` bytes and a tail of `tail_bytes` bytes. The value will be stored
    /// under `key` by `put`, an unconditional `Set` whose `value` is ignored.
    ///
    /// # Errors
    /// [`OpError::TooLarge`] if the value is not allowed or does not fit in one item; [`OpError::Parked`] if no segment
    /// is free.
    pub fn begin(
        self,
        key: &Key<'_>,
        put: &Put<'_>,
        value_bytes: usize,
        tail_bytes: usize,
    ) -> Result<InPlaceReceive, OpError> {
        assert!(put.mode == PutMode::Set && put.compare.is_none(), "only an unconditional set is received ahead");
        self.guard.sizes().check_size(key, value_bytes as u64)?;
        if value_bytes as u64 > self.guard.sizes().plain_max(key) {
            return Err(OpError::TooLarge);
        }
        let room = Content::Room { bytes: value_bytes, tail: tail_bytes };
        let expire = self.guard.store.spaces.expire(key.namespace, put.expire, self.guard.now);
        let plan = Plan { expire, ..Plan::of(put, ItemKind::Plain, room) };
        begin_receive(self.guard, key, &plan, value_bytes + tail_bytes)
    }

    /// Reserves space for the next piece of a large value: [`crate::Sizes::piece_bytes_max`] bytes, or the rest of the
    /// value, with `tail_bytes` behind it.
    ///
    /// # Errors
    /// [`OpError::Parked`] if no segment is free.
    pub fn begin_piece(self, writer: &LargeWriter, tail_bytes: usize) -> Result<InPlaceReceive, OpError> {
        let bytes = self.guard.sizes().piece_len(writer);
        let name = writer.next_name(self.guard.store);
        let key = self.guard.store.hasher.piece(writer.namespace, &name);
        let room = Content::Room { bytes, tail: tail_bytes };
        begin_receive(self.guard, &key, &writer.piece_plan(room), bytes + tail_bytes)
    }

    /// Stores a value whose bytes have all arrived. `key` and `put` are those of [`Receiver::begin`].
    ///
    /// # Errors
    /// The error returns the in-place receive. On [`OpError::Parked`] the caller calls again in a later iteration.
    pub fn commit(
        self,
        arriving: InPlaceReceive,
        key: &Key<'_>,
        put: &Put<'_>,
    ) -> Result<PutOutcome, (InPlaceReceive, OpError)> {
        assert!(arriving.left() == 0, "{} bytes have not arrived", arriving.left());
        if was_flushed(self.guard, &arriving) {
            let value = value_of(self.guard, &arriving);
            return match self.guard.items_mut().put(key, &Put { value, ..*put }) {
                Ok(outcome) => {
                    self.guard.receiver().abort(arriving);
                    Ok(outcome)
                }
                Err(error) => Err((arriving, error)),
            };
        }
        self.guard.sample(key, RequestKind::Store);
        let bytes = arriving.unpublished().layout.value_len as u64;
        let token = publish_received(self.guard, arriving, key, put.token)?;
        Ok(PutOutcome::stored(put, token, bytes))
    }

    /// Stores a piece whose bytes have all arrived, as [`crate::LargeValues::write_piece`] does.
    ///
    /// # Errors
    /// The error returns the in-place receive. On [`OpError::Parked`] the caller calls again in a later iteration.
    pub fn commit_piece(
        self,
        arriving: InPlaceReceive,
        writer: &mut LargeWriter,
    ) -> Result<(), (InPlaceReceive, OpError)> {
        assert!(arriving.left() == 0, "{} bytes have not arrived", arriving.left());
        if was_flushed(self.guard, &arriving) {
            let value = value_of(self.guard, &arriving);
            if let Err(error) = self.guard.large().write_piece(writer, value) {
                return Err((arriving, error));
            }
            self.guard.receiver().abort(arriving);
            return Ok(());
        }
        let (bytes, name) = (self.guard.sizes().piece_len(writer) as u64, writer.next_name(self.guard.store));
        let key = self.guard.store.hasher.piece(writer.namespace, &name);
        publish_received(self.guard, arriving, &key, None)?;
        writer.written += bytes;
        Ok(())
    }

    /// Aborts an in-place receive, whether or not all its bytes have arrived.
    pub fn abort(self, mut arriving: InPlaceReceive) {
        let Some(unpublished) = arriving.unpublished.take() else { return };
        abandon(self.guard, unpublished);
    }
}

/// Protects an unpublished item: its segment is not evicted until [`abandon`] or [`release`], even if the segment is
/// sealed meanwhile.
pub(crate) fn protect(store: &Store, unpublished: &Unpublished) {
    store.segments.header_of(unpublished.address()).arrivals.fetch_add(1, Relaxed);
}

/// Ends the protection of an item that was published, by the header of its segment.
pub(crate) fn release(header: &SegmentHeader) {
    end_receive(header);
}

/// Discards a protected item that was not published.
pub(crate) fn abandon(guard: &mut Guard<'_>, unpublished: Unpublished) {
    let header = guard.store.segments.header_of(unpublished.address());
    if guard.own.open.is_latest(guard.store, &unpublished.reserved) {
        guard.own.open.give_back(guard.store, unpublished.reserved);
    } else {
        fill_slack(guard.store, &unpublished);
        note_slack(header, unpublished.reserved.len() - unpublished.layout.size);
        header.note_waste(unpublished.layout.size);
    }
    end_receive(header);
}

fn begin_receive(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    plan: &Plan<'_>,
    bytes: usize,
) -> Result<InPlaceReceive, OpError> {
    let counters = guard.counters();
    let unpublished = unpublished(guard.store, &mut guard.own.open, key, plan, guard.now);
    let unpublished = unpublished.inspect_err(|error| counters.parked.add(u64::from(*error == OpError::Parked)))?;
    protect(guard.store, &unpublished);
    Ok(InPlaceReceive { unpublished: Some(unpublished), bytes, received: 0 })
}

/// Returns true if the item's namespace was flushed after the item's space was reserved.
fn was_flushed(guard: &Guard<'_>, arriving: &InPlaceReceive) -> bool {
    let header = guard.store.segments.header_of(arriving.unpublished().address());
    header.sequence() < guard.store.flushed_before(header.namespace())
}

/// Returns the value without its tail. The bytes stay in place until the in-place receive is aborted.
fn value_of<'l>(guard: &Guard<'l>, arriving: &InPlaceReceive) -> &'l [u8] {
    let unpublished = arriving.unpublished();
    unpublished.layout.value(&guard.store.segments.heap, unpublished.address())
}

fn publish_received(
    guard: &mut Guard<'_>,
    mut arriving: InPlaceReceive,
    key: &Key<'_>,
    token: Option<u64>,
) -> Result<u64, (InPlaceReceive, OpError)> {
    let (store, counters) = (guard.store, guard.counters());
    let locked = match guard.locks().lock_over(key) {
        Ok(locked) => locked,
        Err(error) => return Err((arriving, error)),
    };
    let unpublished = arriving.unpublished.take().expect("it is neither committed nor abandoned");
    let (address, slack) = (unpublished.address(), unpublished.reserved.len() - unpublished.layout.size);
    fill_slack(store, &unpublished);
    write_sum(store, address, &unpublished.layout);
    let header = store.segments.header_of(address);
    let old = find_locked(store, &locked, key);
    let revived = note_ended(store, counters, old.as_ref(), guard.now);
    let published = publish(store, &locked, counters, key, unpublished, old.as_ref(), None);
    if revived && published.is_ok() {
        locked.note_birth();
    }
    drop(locked);
    match published {
        Ok(orphan) => {
            let token = token.unwrap_or_else(|| store.place_token(address));
            note_slack(header, slack);
            end_receive(header);
            guard.commits().free_orphan(orphan, None);
            Ok(token)
        }
        Err(unpublished) => {
            arriving.unpublished = Some(unpublished);
            let full = no_place(store, key.namespace);
            Err((arriving, if full { OpError::OutOfMemory } else { guard.parked() }))
        }
    }
}
