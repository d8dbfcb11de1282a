//! Long values of both protocols, which are written to the store while they are received. A session buffers at most one
//! piece of a value, and usually none.
//!
//! ```text
//!   head ──> whole: reserve space ──────> receive into it ──> line end? ──> store
//!       └──> pieces: large_begin ──> reserve space for a piece ──> receive into it ──> ... last, line end? ──> store
//!                                            │                                        └ no line end: discard the value
//!                                            └ no space, or too slow: receive into a buffer, then copy
//! ```
//!
//! A line end that is in the session's input is consumed only when the value is stored. If the store parks the
//! operation, the session therefore still has input, and is called again. A line end that was received in place, behind
//! the value, is consumed with the value.
//!
//! A segment with reserved space cannot be reused. The reserved space is therefore limited by the budget of pins
//! ([`crate::memory::pins`]) and by [`IN_PLACE_RECEIVES_MAX`]. The time for which it is reserved is limited too
//! (`worker/in_place.rs`). A client that announces a value and sends nothing holds the space of one piece for a second,
//! and after that one receive buffer.

use crate::context::{IN_PLACE_RECEIVES_MAX, WorkerContext};
use crate::memory::budget::{self, Grant};
use crate::visit::clock::Ticks;
use segment::{Guard, InPlaceReceive, Key, LargeWriter, Namespace, OpError, Put, PutOutcome, Store};

/// The minimum length of a value or piece that is received in place, in bytes. Shorter ones are received into a buffer
/// and copied.
pub(crate) const IN_PLACE_BYTES_MIN: usize = 16 << 10;
/// The maximum length of a key that is held in the session, in bytes. A longer key has its own allocation; a worker
/// holds at most [`LONG_KEYS_MAX`] of them.
const SHORT_KEY_BYTES_MAX: usize = 250;
/// The maximum number of long keys of values being received that one worker holds.
const LONG_KEYS_MAX: usize = 64;
/// The line end that follows a value.
const LINE_END: &[u8; 2] = b"\r\n";

const _: () = assert!(LINE_END.len() <= segment::TAIL_BYTES_MAX && IN_PLACE_RECEIVES_MAX > 0);

/// A value that is being received.
pub(crate) struct LargeSet {
    body: LargeBody,
    /// The state of the part that is being received in place.
    arrival: Option<PartInPlace>,
    /// The number of bytes of the line end that have not been received yet.
    line_end_left: usize,
    key: OwnedKey,
    namespace: Namespace,
}

enum LargeBody {
    Pieces(LargeWriter),
    /// A value of this length in bytes, which is stored as a whole.
    Whole(usize),
    /// The value was already stored or aborted.
    Gone,
}

struct PartInPlace {
    arriving: InPlaceReceive,
    /// The number of bytes that the part takes from the budget of pins.
    charge: u64,
    since: Ticks,
}

/// A copy of a key, which is needed after the input with the key was consumed.
#[expect(clippy::large_enum_variant, reason = "the value lives in a connection's slot; a box would need an allocation")]
enum OwnedKey {
    Short([u8; SHORT_KEY_BYTES_MAX], u8),
    /// A long key, with its share of client memory.
    Long(Box<[u8]>, #[expect(dead_code, reason = "the grant is released when the key is dropped")] Grant),
}

const _: () = assert!(SHORT_KEY_BYTES_MAX <= u8::MAX as usize);

impl OwnedKey {
    /// Copies the key. Returns `None` if the key is long and either there are already [`LONG_KEYS_MAX`] long keys or
    /// client memory is used up.
    fn new(bytes: &[u8], ctx: &mut WorkerContext) -> Option<Self> {
        if bytes.len() <= SHORT_KEY_BYTES_MAX {
            let mut kept = [0; SHORT_KEY_BYTES_MAX];
            kept[..bytes.len()].copy_from_slice(bytes);
            return Some(Self::Short(kept, bytes.len() as u8));
        }
        if ctx.in_place.long_keys == LONG_KEYS_MAX {
            return None;
        }
        let grant = ctx.shared.budget.grant(budget::MemoryUse::Requests, bytes.len() as u64)?;
        ctx.in_place.long_keys += 1;
        Some(Self::Long(bytes.into(), grant))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(bytes, len) => &bytes[..usize::from(*len)],
            Self::Long(bytes, _) => bytes,
        }
    }

    fn release(&mut self, ctx: &mut WorkerContext) {
        if matches!(self, Self::Long(..)) {
            ctx.in_place.long_keys -= 1;
            *self = Self::Short([0; SHORT_KEY_BYTES_MAX], 0);
        }
    }
}

/// The result of a step with the bytes received so far.
pub(crate) enum Advance {
    /// The next step needs `want` bytes, counted from the first unconsumed byte.
    Wait {
        /// The number of bytes that were consumed.
        consumed: usize,
        /// The number of bytes that the next step needs.
        want: usize,
    },
    /// A part was written to the store. The caller calls again for the next part.
    Part {
        /// The number of bytes that were consumed.
        consumed: usize,
    },
    /// The value is not followed by a line end, and is discarded.
    Unended {
        /// The number of bytes that were consumed.
        consumed: usize,
    },
    /// The value is complete. The caller calls [`LargeSet::store`].
    Complete {
        /// The number of input bytes that still belong to the value, line end included.
        held: usize,
    },
    /// A part could not be stored. If the operation is parked, the caller calls again. Otherwise, the caller aborts the
    /// value.
    Failed(OpError),
}

impl LargeSet {
    /// Creates the state of a value that is written in pieces. Returns the writer if the key cannot be copied; see
    /// [`OwnedKey::new`].
    pub(crate) fn pieces(
        writer: LargeWriter,
        (namespace, key): (Namespace, &[u8]),
        ctx: &mut WorkerContext,
    ) -> Result<Self, LargeWriter> {
        match OwnedKey::new(key, ctx) {
            Some(key) => Ok(Self {
                body: LargeBody::Pieces(writer),
                arrival: None,
                line_end_left: LINE_END.len(),
                key,
                namespace,
            }),
            None => Err(writer),
        }
    }

    /// Creates the state of a value of `bytes` bytes that is stored as a whole. Returns `None` if the key cannot be
    /// copied; see [`OwnedKey::new`].
    pub(crate) fn whole(bytes: usize, (namespace, key): (Namespace, &[u8]), ctx: &mut WorkerContext) -> Option<Self> {
        let key = OwnedKey::new(key, ctx)?;
        Some(Self { body: LargeBody::Whole(bytes), arrival: None, line_end_left: LINE_END.len(), key, namespace })
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.key.bytes()
    }

    /// Returns the length of the whole value in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.body {
            LargeBody::Pieces(writer) => writer.bytes(),
            LargeBody::Whole(bytes) => *bytes as u64,
            LargeBody::Gone => 0,
        }
    }

    /// Returns the number of bytes of the value that have not been written to the store.
    fn bytes_left(&self) -> u64 {
        match &self.body {
            LargeBody::Pieces(writer) => writer.bytes() - writer.written(),
            LargeBody::Whole(bytes) => *bytes as u64,
            LargeBody::Gone => 0,
        }
    }

    /// Returns the number of bytes of the value and its line end that have not been consumed.
    pub(crate) fn unread(&self) -> u64 {
        let received = self.arrival.as_ref().map_or(0, |arrival| arrival.arriving.received());
        self.bytes_left() + self.line_end_left as u64 - received as u64
    }

    /// Returns the length of the next part, and of the line end that must follow it, in bytes.
    fn next(&self, guard: &Guard<'_>) -> (usize, usize) {
        match &self.body {
            LargeBody::Whole(bytes) => (*bytes, self.line_end_left),
            LargeBody::Pieces(_) => {
                let part = self.bytes_left().min(guard.sizes().piece_bytes_max() as u64);
                // The last piece is checked together with its line end. A value without a line end is therefore never
                // stored.
                (part as usize, if part == self.bytes_left() { self.line_end_left } else { 0 })
            }
            LargeBody::Gone => (0, 0),
        }
    }

    /// Aborts the value, unless it was stored. The caller calls this once, when the command ends.
    pub(crate) fn end(mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) {
        self.abandon(guard, ctx);
        self.key.release(ctx);
        if let LargeBody::Pieces(writer) = self.body {
            guard.large().abort(writer);
        }
    }

    /// Aborts the in-place receive of the current part, if there is one.
    fn abandon(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) {
        if let Some(arrival) = self.arrival.take() {
            guard.receiver().abort(arrival.arriving);
            ctx.end_in_place(arrival.charge);
        }
    }

    /// Returns the memory into which the rest of the part must be received. Returns `None` if a buffer receives it.
    pub(crate) fn room<'a>(&'a mut self, store: &'a Store) -> Option<&'a mut [u8]> {
        self.arrival.as_mut().map(|arrival| store.room_of(&mut arrival.arriving))
    }

    /// Records that `bytes` bytes were received into the memory that [`LargeSet::room`] returned.
    pub(crate) fn receive(&mut self, bytes: usize) {
        if let Some(arrival) = &mut self.arrival {
            arrival.arriving.receive(bytes);
        }
    }

    pub(crate) fn is_arriving(&self) -> bool {
        self.arrival.is_some()
    }

    /// Returns the instant at which the worker began to receive the current part in place. Returns `None` if no part is
    /// being received in place, or if that part is complete.
    pub(crate) fn arriving_since(&self) -> Option<Ticks> {
        self.arrival.as_ref().filter(|arrival| arrival.arriving.left() > 0).map(|arrival| arrival.since)
    }

    /// Returns the length of the part that is being received in place, in bytes. A buffer that receives the part
    /// instead must have at least this size.
    pub(crate) fn part_bytes(&self) -> usize {
        self.arrival.as_ref().map_or(0, |arrival| arrival.arriving.received() + arrival.arriving.left())
    }

    /// Copies the bytes that were received in place into `buffer`, which then receives the rest. Returns their number.
    pub(crate) fn move_out(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext, buffer: &mut [u8]) -> usize {
        let Some(arrival) = &self.arrival else { return 0 };
        let received = ctx.shared.store.received_of(&arrival.arriving);
        let bytes = received.len();
        buffer[..bytes].copy_from_slice(received);
        self.abandon(guard, ctx);
        bytes
    }

    /// Begins an in-place receive of the next part: reserves its space, and moves the received bytes into it. Returns
    /// the number of these bytes. Returns `None` if a buffer must receive the part. `put` is the operation of a value
    /// that is stored as a whole.
    pub(crate) fn begin_in_place(
        &mut self,
        guard: &mut Guard<'_>,
        ctx: &mut WorkerContext,
        rest: &[u8],
        put: &Put<'_>,
    ) -> Option<usize> {
        let (part, line_end) = self.next(guard);
        let charge = ctx.shared.store.pin_charge(part);
        if part < IN_PLACE_BYTES_MIN || !ctx.begin_in_place(charge) {
            return None;
        }
        let arriving = match &self.body {
            LargeBody::Pieces(writer) => guard.receiver().begin_piece(writer, line_end),
            LargeBody::Whole(_) => {
                let key = guard.key(self.namespace, self.key.bytes());
                guard.receiver().begin(&key, put, part, line_end)
            }
            LargeBody::Gone => unreachable!("the value was stored or aborted"),
        };
        let Ok(mut arriving) = arriving else {
            ctx.end_in_place(charge);
            return None;
        };
        ctx.shared.store.room_of(&mut arriving)[..rest.len()].copy_from_slice(rest);
        arriving.receive(rest.len());
        self.arrival = Some(PartInPlace { arriving, charge, since: ctx.op_begun });
        Some(rest.len())
    }

    /// Consumes received bytes of the value, at most to the end of a part.
    pub(crate) fn advance(
        &mut self,
        guard: &mut Guard<'_>,
        ctx: &mut WorkerContext,
        rest: &[u8],
        put: &Put<'_>,
    ) -> Advance {
        let (part, line_end) = self.next(guard);
        if let Some(arrival) = &self.arrival {
            if arrival.arriving.left() > 0 {
                return Advance::Wait { consumed: 0, want: 1 };
            }
            if line_end > 0 && !ctx.shared.store.received_of(&arrival.arriving).ends_with(LINE_END) {
                return Advance::Unended { consumed: 0 };
            }
            return self.commit_part(guard, ctx, line_end);
        }
        let want = part + line_end;
        if rest.len() < want {
            return match self.begin_in_place(guard, ctx, rest, put) {
                Some(consumed) => Advance::Wait { consumed, want: 1 },
                None => Advance::Wait { consumed: 0, want },
            };
        }
        if line_end > 0 && rest[part..want] != *LINE_END {
            return Advance::Unended { consumed: want };
        }
        match &mut self.body {
            LargeBody::Pieces(writer) if part > 0 => match guard.large().write_piece(writer, &rest[..part]) {
                Ok(()) => Advance::Part { consumed: part },
                Err(error) => Advance::Failed(error),
            },
            _ => Advance::Complete { held: want },
        }
    }

    /// Commits a part that was completely received in place.
    fn commit_part(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext, line_end: usize) -> Advance {
        let LargeBody::Pieces(writer) = &mut self.body else { return Advance::Complete { held: 0 } };
        let Some(PartInPlace { arriving, charge, since }) = self.arrival.take() else {
            return Advance::Part { consumed: 0 };
        };
        match guard.receiver().commit_piece(arriving, writer) {
            Ok(()) => {
                ctx.end_in_place(charge);
                self.line_end_left -= line_end;
                Advance::Part { consumed: 0 }
            }
            Err((arriving, error)) => {
                self.arrival = Some(PartInPlace { arriving, charge, since });
                Advance::Failed(error)
            }
        }
    }

    /// Stores the complete value, which is in pieces, in place, or at the beginning of `rest`.
    ///
    /// # Errors
    /// If the operation is parked. The caller retries later.
    pub(crate) fn store(
        &mut self,
        guard: &mut Guard<'_>,
        ctx: &mut WorkerContext,
        rest: &[u8],
        put: &Put<'_>,
    ) -> Result<PutOutcome, OpError> {
        if let LargeBody::Whole(bytes) = self.body {
            let key = guard.key(self.namespace, self.key.bytes());
            let outcome = match self.arrival.take() {
                None => guard.items_mut().put(&key, &Put { value: &rest[..bytes], ..*put })?,
                Some(PartInPlace { arriving, charge, since }) => match guard.receiver().commit(arriving, &key, put) {
                    Ok(outcome) => {
                        ctx.end_in_place(charge);
                        outcome
                    }
                    Err((arriving, error)) => {
                        self.arrival = Some(PartInPlace { arriving, charge, since });
                        return Err(error);
                    }
                },
            };
            self.body = LargeBody::Gone;
            return Ok(outcome);
        }
        self.store_by(guard, |guard, key, writer| guard.large().commit(writer, key, put))
    }

    /// Returns the writer of a value in pieces.
    pub(crate) fn writer(&self) -> &LargeWriter {
        match &self.body {
            LargeBody::Pieces(writer) => writer,
            LargeBody::Whole(_) | LargeBody::Gone => unreachable!("a value in pieces is stored once"),
        }
    }

    /// Records that the value in pieces was stored.
    pub(crate) fn stored(&mut self) {
        self.body = LargeBody::Gone;
    }

    /// Stores a value that was written in pieces, by calling `by`.
    ///
    /// # Errors
    /// The error of `by`. The value then still owns its writer, so that the caller can retry.
    pub(crate) fn store_by<T>(
        &mut self,
        guard: &mut Guard<'_>,
        by: impl FnOnce(&mut Guard<'_>, &Key<'_>, LargeWriter) -> Result<T, (LargeWriter, OpError)>,
    ) -> Result<T, OpError> {
        let key = guard.key(self.namespace, self.key.bytes());
        let LargeBody::Pieces(writer) = std::mem::replace(&mut self.body, LargeBody::Gone) else {
            unreachable!("a value in pieces is stored once")
        };
        by(guard, &key, writer).map_err(|(writer, error)| {
            self.body = LargeBody::Pieces(writer);
            error
        })
    }
}
