//! Long values, which are written to the store while they are received, for both protocols. A session buffers at most
//! one piece of a value, and usually nothing.
//!
//! ```text
//!   head ──> whole: space for it ───────> received into it ──> \r\n? store
//!       └──> pieces: large_begin ──> space for a piece ──> received into it ──> ... last, \r\n? ──> store
//!                                            │                                        └ no \r\n: unended
//!                                            └ no space, or too slow: received into a buffer, and copied
//! ```
//!
//! A line end that is in the input is consumed when the value is stored. If the store parks, the session therefore
//! still has input with which it is called again. A line end that was received behind a value is consumed with the
//! value.
//!
//! A segment with reserved space is not reused. So the reserved space is limited, by the limit of pins and by
//! [`IN_PLACE_RECEIVES_MAX`], and so is the time for which it is reserved (`worker/in_place.rs`). If a client announces
//! a value and sends nothing, it holds the space of one piece for a second, and after that one receive buffer.

use crate::context::{IN_PLACE_RECEIVES_MAX, WorkerContext};
use crate::memory::budget::{self, Grant};
use crate::visit::clock::Ticks;
use segment::{Guard, InPlaceReceive, Key, LargeWriter, Namespace, OpError, Put, PutOutcome, Store};

/// Values and pieces of at least this length are received in place. Shorter ones are received into a buffer and copied.
pub(crate) const IN_PLACE_BYTES_MIN: usize = 16 << 10;
/// Keys of at most this length are held in the session. Longer ones have memory of their own, [`LONG_KEYS_MAX`] at
/// most.
const SHORT_KEY_BYTES_MAX: usize = 250;
/// The maximum number of long keys that one worker holds for values that are being received.
const LONG_KEYS_MAX: usize = 64;
/// The bytes that end a value.
const LINE_END: &[u8; 2] = b"\r\n";

const _: () = assert!(LINE_END.len() <= segment::TAIL_BYTES_MAX && IN_PLACE_RECEIVES_MAX > 0);

/// A value that is being received.
pub(crate) struct LargeSet {
    body: LargeBody,
    /// The part that is being received in place.
    arrival: Option<PartInPlace>,
    /// Bytes of the line end that have not been received with the value.
    line_end_left: usize,
    key: OwnedKey,
    namespace: Namespace,
}

enum LargeBody {
    Pieces(LargeWriter),
    /// A value of this many bytes that is stored whole.
    Whole(usize),
    /// The value was stored or aborted.
    Gone,
}

struct PartInPlace {
    arriving: InPlaceReceive,
    /// The number of pinned bytes that it counts as.
    charge: u64,
    since: Ticks,
}

/// A key that is still needed when the input that contained it is consumed.
#[expect(clippy::large_enum_variant, reason = "the value lives in a connection's slot; a box would need an allocation")]
enum OwnedKey {
    Short([u8; SHORT_KEY_BYTES_MAX], u8),
    /// A long key, with its share of client memory.
    Long(Box<[u8]>, #[expect(dead_code, reason = "the grant is released when the key is dropped")] Grant),
}

const _: () = assert!(SHORT_KEY_BYTES_MAX <= u8::MAX as usize);

impl OwnedKey {
    /// Creates the key. Returns `None` if the key is long and there are already [`LONG_KEYS_MAX`] long keys, or if
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
    /// The next step needs `want` bytes, counted from the first unconsumed one.
    Wait {
        /// The number of bytes that were consumed.
        consumed: usize,
        /// The number of bytes that the next step needs.
        want: usize,
    },
    /// A part was written to the store. The caller calls again.
    Part {
        /// The number of bytes that were consumed.
        consumed: usize,
    },
    /// The value has no line end and is discarded.
    Unended {
        /// The number of bytes that were consumed.
        consumed: usize,
    },
    /// The value is complete. The caller calls [`LargeSet::store`].
    Complete {
        /// The number of input bytes that still belong to the value, its line end included.
        held: usize,
    },
    /// A part could not be stored. If the operation is parked, the caller calls again; otherwise it aborts the value.
    Failed(OpError),
}

impl LargeSet {
    /// Creates a value that is written in pieces. Returns the writer if the key cannot be held.
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

    /// Creates a value of `bytes` bytes that is stored whole. Returns `None` if the key cannot be held.
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

    /// Returns the bytes of the value that are not in the store.
    fn bytes_left(&self) -> u64 {
        match &self.body {
            LargeBody::Pieces(writer) => writer.bytes() - writer.written(),
            LargeBody::Whole(bytes) => *bytes as u64,
            LargeBody::Gone => 0,
        }
    }

    /// Returns the bytes of the value and its line end that have not been consumed.
    pub(crate) fn unread(&self) -> u64 {
        let received = self.arrival.as_ref().map_or(0, |arrival| arrival.arriving.received());
        self.bytes_left() + self.line_end_left as u64 - received as u64
    }

    /// Returns the number of bytes of the next part, and of the line end behind it.
    fn next(&self, guard: &Guard<'_>) -> (usize, usize) {
        match &self.body {
            LargeBody::Whole(bytes) => (*bytes, self.line_end_left),
            LargeBody::Pieces(_) => {
                let part = self.bytes_left().min(guard.sizes().piece_bytes_max() as u64);
                // The last piece is checked together with its line end, so that a value without a line end is not
                // stored.
                (part as usize, if part == self.bytes_left() { self.line_end_left } else { 0 })
            }
            LargeBody::Gone => (0, 0),
        }
    }

    /// Aborts the value, unless it is stored. The caller calls this once, when it is done with the value.
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

    /// Returns the memory into which the rest of the part is received; `None` if a buffer receives it.
    pub(crate) fn room<'a>(&'a mut self, store: &'a Store) -> Option<&'a mut [u8]> {
        self.arrival.as_mut().map(|arrival| store.room_of(&mut arrival.arriving))
    }

    /// Records that `bytes` bytes were received into that memory.
    pub(crate) fn receive(&mut self, bytes: usize) {
        if let Some(arrival) = &mut self.arrival {
            arrival.arriving.receive(bytes);
        }
    }

    pub(crate) fn is_arriving(&self) -> bool {
        self.arrival.is_some()
    }

    /// Returns when the worker began to receive the incomplete part; `None` if there is no such part.
    pub(crate) fn arriving_since(&self) -> Option<Ticks> {
        self.arrival.as_ref().filter(|arrival| arrival.arriving.left() > 0).map(|arrival| arrival.since)
    }

    /// Returns the buffer size, in bytes, that the part being received in place needs.
    pub(crate) fn part_bytes(&self) -> usize {
        self.arrival.as_ref().map_or(0, |arrival| arrival.arriving.received() + arrival.arriving.left())
    }

    /// Moves the received bytes into a buffer, which then receives the rest. Returns the number of these bytes.
    pub(crate) fn move_out(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext, buffer: &mut [u8]) -> usize {
        let Some(arrival) = &self.arrival else { return 0 };
        let received = ctx.shared.store.received_of(&arrival.arriving);
        let bytes = received.len();
        buffer[..bytes].copy_from_slice(received);
        self.abandon(guard, ctx);
        bytes
    }

    /// Begins an in-place receive of the next part: reserves its space and moves the bytes received so far into it.
    /// Returns the number of these bytes. Returns `None` if a buffer must receive the part. `put` applies to a value
    /// that is stored whole.
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
            LargeBody::Gone => unreachable!("it was stored"),
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

    /// Consumes received bytes of the value, up to the end of a part.
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

    /// Commits a part that was received in place and is complete.
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

    /// Stores the complete value: in pieces, in its place, or from the start of `rest`.
    ///
    /// # Errors
    /// If the operation is parked. The caller calls again.
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
            LargeBody::Whole(_) | LargeBody::Gone => unreachable!("it was written in pieces, and is stored once"),
        }
    }

    /// Records that the value in pieces was stored.
    pub(crate) fn stored(&mut self) {
        self.body = LargeBody::Gone;
    }

    /// Stores a value that was written in pieces, by calling `by`.
    ///
    /// # Errors
    /// The errors of `by`, which then also returns the writer.
    pub(crate) fn store_by<T>(
        &mut self,
        guard: &mut Guard<'_>,
        by: impl FnOnce(&mut Guard<'_>, &Key<'_>, LargeWriter) -> Result<T, (LargeWriter, OpError)>,
    ) -> Result<T, OpError> {
        let key = guard.key(self.namespace, self.key.bytes());
        let LargeBody::Pieces(writer) = std::mem::replace(&mut self.body, LargeBody::Gone) else {
            unreachable!("it was written in pieces, and is stored once")
        };
        by(guard, &key, writer).map_err(|(writer, error)| {
            self.body = LargeBody::Pieces(writer);
            error
        })
    }
}
