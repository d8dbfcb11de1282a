//! Values that go into the store as they arrive, whatever the protocol: a session holds no more than a piece of one,
//! and mostly nothing.
//!
//! ```text
//!   head ──> whole: space for it ───────> received into it ──> \r\n? store
//!       └──> pieces: large_begin ──> space for a piece ──> received into it ──> ... last, \r\n? ──> store
//!                                            │                                        └ no \r\n: unended
//!                                            └ no space, or too slow: received into a buffer, and copied
//! ```
//!
//! A line end that lies in the input is consumed when the value is stored, so that a session whose store is parked
//! still has input to come back with; one that was received behind a value is gone with it.
//!
//! Space that is reserved keeps its segment: so there is a bound on it (that of pins, and [`ARRIVALS_MAX`]), and on how
//! long it takes (`worker/arrive.rs`). So a client that announces a value and sends nothing holds the space of one
//! piece, for a second, and after that a receive buffer.

use crate::context::{ARRIVALS_MAX, WorkerContext};
use crate::memory::budget::{self, Grant};
use crate::visit::clock::Ticks;
use segment::{Arriving, Guard, Key, LargeWriter, Namespace, OpError, Put, PutOutcome, Store};

/// Values and pieces from this length on are received into their place; shorter ones into a buffer, and copied.
pub(crate) const ARRIVING_BYTES_MIN: usize = 16 << 10;
/// Keys up to this length are kept in the session; longer ones in memory of their own, [`LONG_KEYS_MAX`] of them.
const SHORT_KEY_BYTES_MAX: usize = 250;
/// Long keys that one worker keeps for values that are arriving.
const LONG_KEYS_MAX: usize = 64;
/// The bytes that end a value.
const LINE_END: &[u8; 2] = b"\r\n";

const _: () = assert!(LINE_END.len() <= segment::TAIL_BYTES_MAX && ARRIVALS_MAX > 0);

/// A value that is arriving.
pub(crate) struct LargeSet {
    body: Body,
    /// The part that is being received into its place in the store.
    arrival: Option<Arrival>,
    /// Bytes of the line end that have not been received with the value.
    line_end_left: usize,
    key: HeldKey,
    namespace: Namespace,
}

enum Body {
    Pieces(LargeWriter),
    /// A value of so many bytes, stored whole.
    Whole(usize),
    /// It is stored, or given up.
    Gone,
}

struct Arrival {
    arriving: Arriving,
    /// Bytes that it counts for among the pins.
    charge: u64,
    since: Ticks,
}

/// A key that is needed when the bytes that it came in are gone.
#[expect(clippy::large_enum_variant, reason = "it lies in a connection's slot; a box would be allocated")]
enum HeldKey {
    Short([u8; SHORT_KEY_BYTES_MAX], u8),
    /// With its share of client memory.
    Long(Box<[u8]>, #[expect(dead_code, reason = "it is given back with the key")] Grant),
}

const _: () = assert!(SHORT_KEY_BYTES_MAX <= u8::MAX as usize);

impl HeldKey {
    /// Returns `None` if the key is long and there are already [`LONG_KEYS_MAX`] of those, or if client memory is used
    /// up.
    fn new(bytes: &[u8], ctx: &mut WorkerContext) -> Option<Self> {
        if bytes.len() <= SHORT_KEY_BYTES_MAX {
            let mut kept = [0; SHORT_KEY_BYTES_MAX];
            kept[..bytes.len()].copy_from_slice(bytes);
            return Some(Self::Short(kept, bytes.len() as u8));
        }
        if ctx.in_place.long_keys == LONG_KEYS_MAX {
            return None;
        }
        let grant = ctx.shared.budget.grant(budget::Kind::Requests, bytes.len() as u64)?;
        ctx.in_place.long_keys += 1;
        Some(Self::Long(bytes.into(), grant))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(bytes, len) => &bytes[..usize::from(*len)],
            Self::Long(bytes, _) => bytes,
        }
    }

    fn let_go(&mut self, ctx: &mut WorkerContext) {
        if matches!(self, Self::Long(..)) {
            ctx.in_place.long_keys -= 1;
            *self = Self::Short([0; SHORT_KEY_BYTES_MAX], 0);
        }
    }
}

/// The outcome for the bytes that are there.
pub(crate) enum Advance {
    /// `want` bytes have to be there, from the first one that is not consumed.
    Wait {
        /// Bytes that were taken.
        consumed: usize,
        /// Bytes that it takes to go on.
        want: usize,
    },
    /// A part is in the store: ask again.
    Part {
        /// Bytes that were taken.
        consumed: usize,
    },
    /// The value has no line end. Its bytes are gone: so many of the input with them.
    Unended {
        /// Bytes that were taken.
        consumed: usize,
    },
    /// All is there: [`LargeSet::store`] it.
    Complete {
        /// Bytes of the input that are the value's yet, its line end included.
        held: usize,
    },
    /// A part could not be stored, or not yet: ask again if it is parked, give it up else.
    Failed(OpError),
}

impl LargeSet {
    /// Returns a value that is written in pieces. Gives the writer back if its key cannot be kept.
    pub(crate) fn pieces(
        writer: LargeWriter,
        (namespace, key): (Namespace, &[u8]),
        ctx: &mut WorkerContext,
    ) -> Result<Self, LargeWriter> {
        match HeldKey::new(key, ctx) {
            Some(key) => {
                Ok(Self { body: Body::Pieces(writer), arrival: None, line_end_left: LINE_END.len(), key, namespace })
            }
            None => Err(writer),
        }
    }

    /// Returns a value of so many bytes that is stored whole. Returns `None` if its key cannot be kept.
    pub(crate) fn whole(bytes: usize, (namespace, key): (Namespace, &[u8]), ctx: &mut WorkerContext) -> Option<Self> {
        let key = HeldKey::new(key, ctx)?;
        Some(Self { body: Body::Whole(bytes), arrival: None, line_end_left: LINE_END.len(), key, namespace })
    }

    pub(crate) fn key(&self) -> &[u8] {
        self.key.bytes()
    }

    /// Returns the length of the whole value in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.body {
            Body::Pieces(writer) => writer.bytes(),
            Body::Whole(bytes) => *bytes as u64,
            Body::Gone => 0,
        }
    }

    /// Returns the bytes of the value that are not in the store.
    fn left(&self) -> u64 {
        match &self.body {
            Body::Pieces(writer) => writer.bytes() - writer.written(),
            Body::Whole(bytes) => *bytes as u64,
            Body::Gone => 0,
        }
    }

    /// Returns the bytes of the value and its line end that have not been consumed.
    pub(crate) fn unread(&self) -> u64 {
        let received = self.arrival.as_ref().map_or(0, |arrival| arrival.arriving.received());
        self.left() + self.line_end_left as u64 - received as u64
    }

    /// Returns the bytes of the part that comes next, and of the line end behind it.
    fn next(&self, guard: &Guard<'_>) -> (usize, usize) {
        match &self.body {
            Body::Whole(bytes) => (*bytes, self.line_end_left),
            Body::Pieces(_) => {
                let part = self.left().min(guard.sizes().piece_bytes_max() as u64);
                // The last piece is looked at together with its line end, so that a value without one is not stored.
                (part as usize, if part == self.left() { self.line_end_left } else { 0 })
            }
            Body::Gone => (0, 0),
        }
    }

    /// Gives up the value, unless it is stored. The caller calls it once, when it is done with the value.
    pub(crate) fn end(mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) {
        self.abandon(guard, ctx);
        self.key.let_go(ctx);
        if let Body::Pieces(writer) = self.body {
            guard.large().abort(writer);
        }
    }

    /// Gives up the part that is being received, if one is.
    fn abandon(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) {
        if let Some(arrival) = self.arrival.take() {
            guard.receiver().abort(arrival.arriving);
            ctx.end_arrival(arrival.charge);
        }
    }

    /// Returns the memory that the rest of the part is received into; `None` if a buffer receives it.
    pub(crate) fn room<'a>(&'a mut self, store: &'a Store) -> Option<&'a mut [u8]> {
        self.arrival.as_mut().map(|arrival| store.room_of(&mut arrival.arriving))
    }

    /// Records that `bytes` bytes were received into that room.
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

    /// Returns the bytes that a buffer needs to take over the part that is being received.
    pub(crate) fn part_bytes(&self) -> usize {
        self.arrival.as_ref().map_or(0, |arrival| arrival.arriving.received() + arrival.arriving.left())
    }

    /// Moves the received bytes into a buffer, where the rest is to follow, and returns how many bytes that is.
    pub(crate) fn move_out(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext, buffer: &mut [u8]) -> usize {
        let Some(arrival) = &self.arrival else { return 0 };
        let received = ctx.shared.store.received_of(&arrival.arriving);
        let bytes = received.len();
        buffer[..bytes].copy_from_slice(received);
        self.abandon(guard, ctx);
        bytes
    }

    /// Reserves space for the part that comes next, moves the bytes of it that are there into that space, and returns
    /// how many bytes that is. Returns `None` if a buffer is to receive it. `put` applies to a value that is stored
    /// whole.
    pub(crate) fn begin_arrival(
        &mut self,
        guard: &mut Guard<'_>,
        ctx: &mut WorkerContext,
        rest: &[u8],
        put: &Put<'_>,
    ) -> Option<usize> {
        let (part, line_end) = self.next(guard);
        let charge = ctx.shared.store.pin_charge(part);
        if part < ARRIVING_BYTES_MIN || !ctx.begin_arrival(charge) {
            return None;
        }
        let arriving = match &self.body {
            Body::Pieces(writer) => guard.receiver().begin_piece(writer, line_end),
            Body::Whole(_) => {
                let key = guard.key(self.namespace, self.key.bytes());
                guard.receiver().begin(&key, put, part, line_end)
            }
            Body::Gone => unreachable!("it was stored"),
        };
        let Ok(mut arriving) = arriving else {
            ctx.end_arrival(charge);
            return None;
        };
        ctx.shared.store.room_of(&mut arriving)[..rest.len()].copy_from_slice(rest);
        arriving.receive(rest.len());
        self.arrival = Some(Arrival { arriving, charge, since: ctx.op_begun });
        Some(rest.len())
    }

    /// Takes the bytes that are there of the arriving value, up to the end of a part.
    pub(crate) fn go_on(
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
            return self.part_arrived(guard, ctx, line_end);
        }
        let want = part + line_end;
        if rest.len() < want {
            return match self.begin_arrival(guard, ctx, rest, put) {
                Some(consumed) => Advance::Wait { consumed, want: 1 },
                None => Advance::Wait { consumed: 0, want },
            };
        }
        if line_end > 0 && rest[part..want] != *LINE_END {
            return Advance::Unended { consumed: want };
        }
        match &mut self.body {
            Body::Pieces(writer) if part > 0 => match guard.large().write_piece(writer, &rest[..part]) {
                Ok(()) => Advance::Part { consumed: part },
                Err(error) => Advance::Failed(error),
            },
            _ => Advance::Complete { held: want },
        }
    }

    /// Ends a part that was received into its place and is complete.
    fn part_arrived(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext, line_end: usize) -> Advance {
        let Body::Pieces(writer) = &mut self.body else { return Advance::Complete { held: 0 } };
        let Some(Arrival { arriving, charge, since }) = self.arrival.take() else {
            return Advance::Part { consumed: 0 };
        };
        match guard.receiver().commit_piece(arriving, writer) {
            Ok(()) => {
                ctx.end_arrival(charge);
                self.line_end_left -= line_end;
                Advance::Part { consumed: 0 }
            }
            Err((arriving, error)) => {
                self.arrival = Some(Arrival { arriving, charge, since });
                Advance::Failed(error)
            }
        }
    }

    /// Stores the value, which is complete: in pieces, in its place, or at the start of `rest`.
    ///
    /// # Errors
    /// If it is parked, ask again.
    pub(crate) fn store(
        &mut self,
        guard: &mut Guard<'_>,
        ctx: &mut WorkerContext,
        rest: &[u8],
        put: &Put<'_>,
    ) -> Result<PutOutcome, OpError> {
        if let Body::Whole(bytes) = self.body {
            let key = guard.key(self.namespace, self.key.bytes());
            let outcome = match self.arrival.take() {
                None => guard.items_mut().put(&key, &Put { value: &rest[..bytes], ..*put })?,
                Some(Arrival { arriving, charge, since }) => match guard.receiver().commit(arriving, &key, put) {
                    Ok(outcome) => {
                        ctx.end_arrival(charge);
                        outcome
                    }
                    Err((arriving, error)) => {
                        self.arrival = Some(Arrival { arriving, charge, since });
                        return Err(error);
                    }
                },
            };
            self.body = Body::Gone;
            return Ok(outcome);
        }
        self.store_by(guard, |guard, key, writer| guard.large().commit(writer, key, put))
    }

    /// Stores a value that was written in pieces as `by` does.
    ///
    /// # Errors
    /// Those of `by`, which gives the writer back with them.
    pub(crate) fn store_by<T>(
        &mut self,
        guard: &mut Guard<'_>,
        by: impl FnOnce(&mut Guard<'_>, &Key<'_>, LargeWriter) -> Result<T, (LargeWriter, OpError)>,
    ) -> Result<T, OpError> {
        let key = guard.key(self.namespace, self.key.bytes());
        let Body::Pieces(writer) = std::mem::replace(&mut self.body, Body::Gone) else {
            unreachable!("it was written in pieces, and is stored once")
        };
        by(guard, &key, writer).map_err(|(writer, error)| {
            self.body = Body::Pieces(writer);
            error
        })
    }
}
