//! Values that go into the store as they arrive: a session holds no more than a piece of one, and mostly nothing.
//!
//! ```text
//!   line ──> whole: space for it ───────> received into it ──> \r\n? commit, answer
//!       └──> large: large_begin ──> space for a piece ──> received into it ──> ... last, \r\n? ──> commit, answer
//!                                            │                                        └ no \r\n: abort, error
//!                                            └ none to be had, or too slow: received into a buffer, and copied
//! ```
//!
//! A line end that lies in the input is consumed with the commit, so that a session whose commit is parked still has
//! input to come back with; one that was received behind a value is gone with it.
//!
//! Space that is reserved keeps its segment: so there is a bound on it (that of pins, and [`ARRIVALS_MAX`]), and on how
//! long it takes (`worker/arrive.rs`).

use super::store::Plan;
use super::{Call, NAMESPACE, Step};
use crate::clock::Ticks;
use crate::context::{ARRIVALS_MAX, State, WorkerContext};
use protocol::memcache::{Error, KEY_BYTES_MAX};
use segment::{Arriving, LargeWriter, OpError, Store, Turn};

/// Values and pieces from this length on are received into their place; shorter ones into a buffer, and copied.
pub(super) const ARRIVING_BYTES_MIN: usize = 16 << 10;
/// What ends a value.
const LINE_END: &[u8; 2] = b"\r\n";

const _: () = assert!(LINE_END.len() <= segment::TAIL_BYTES_MAX && ARRIVALS_MAX > 0);

/// A value that is arriving.
pub(super) struct LargeSet {
    body: Body,
    /// The part that is being received into its place in the store.
    arrival: Option<Arrival>,
    /// Of the line end, what has not been received with the value.
    line_end_left: usize,
    plan: Plan,
    key: [u8; KEY_BYTES_MAX],
    key_len: usize,
}

enum Body {
    Pieces(LargeWriter),
    /// So many bytes, stored whole.
    Whole(usize),
}

struct Arrival {
    arriving: Arriving,
    /// What it counts for among the pins, in bytes.
    charge: u64,
    since: Ticks,
}

impl LargeSet {
    fn new(body: Body, plan: Plan, key: &[u8]) -> Self {
        let mut kept = [0; KEY_BYTES_MAX];
        kept[..key.len()].copy_from_slice(key);
        Self { body, arrival: None, line_end_left: LINE_END.len(), plan, key: kept, key_len: key.len() }
    }

    /// Bytes of the value that are not in the store.
    fn left(&self) -> u64 {
        match &self.body {
            Body::Pieces(writer) => writer.bytes() - writer.written(),
            Body::Whole(bytes) => *bytes as u64,
        }
    }

    /// Bytes of the part that comes next, and of the line end behind it.
    fn next(&self, turn: &Turn<'_>) -> (usize, usize) {
        match &self.body {
            Body::Whole(bytes) => (*bytes, self.line_end_left),
            Body::Pieces(_) => {
                let part = self.left().min(turn.large_piece_max() as u64);
                // The last piece is looked at together with its line end, so that a value without one is not committed.
                (part as usize, if part == self.left() { self.line_end_left } else { 0 })
            }
        }
    }

    /// Gives up the value.
    pub(super) fn abort(mut self, turn: &mut Turn<'_>, ctx: &mut WorkerContext) {
        self.abandon(turn, ctx);
        if let Body::Pieces(writer) = self.body {
            turn.large_abort(writer);
        }
    }

    /// Gives up the part that is being received, if one is.
    fn abandon(&mut self, turn: &mut Turn<'_>, ctx: &mut WorkerContext) {
        if let Some(arrival) = self.arrival.take() {
            turn.abandon(arrival.arriving);
            ctx.end_arrival(arrival.charge);
        }
    }

    /// Where what arrives goes; `None`: into a buffer.
    pub(super) fn room<'a>(&'a mut self, store: &'a Store) -> Option<&'a mut [u8]> {
        self.arrival.as_mut().map(|arrival| store.room_of(&mut arrival.arriving))
    }

    /// So many bytes were received into that room.
    pub(super) fn receive(&mut self, bytes: usize) {
        if let Some(arrival) = &mut self.arrival {
            arrival.arriving.receive(bytes);
        }
    }

    pub(super) fn is_arriving(&self) -> bool {
        self.arrival.is_some()
    }

    /// Since when the part that is not all there is received; `None` if there is no such part.
    pub(super) fn arriving_since(&self) -> Option<Ticks> {
        self.arrival.as_ref().filter(|arrival| arrival.arriving.left() > 0).map(|arrival| arrival.since)
    }

    /// How long a buffer has to be that takes over what is being received.
    pub(super) fn part_bytes(&self) -> usize {
        self.arrival.as_ref().map_or(0, |arrival| arrival.arriving.received() + arrival.arriving.left())
    }

    /// Moves what was received into a buffer, where the rest is to follow it, and says how many bytes that is.
    pub(super) fn move_out(&mut self, turn: &mut Turn<'_>, ctx: &mut WorkerContext, buffer: &mut [u8]) -> usize {
        let Some(arrival) = &self.arrival else { return 0 };
        let received = ctx.shared.store.received_of(&arrival.arriving);
        let bytes = received.len();
        buffer[..bytes].copy_from_slice(received);
        self.abandon(turn, ctx);
        bytes
    }
}

impl Call<'_, '_> {
    /// The line of a large value has arrived.
    pub(super) fn large_begin(&mut self, plan: Plan, key: &[u8], value_len: u32, consumed: usize) -> Step {
        let name = self.turn.key(NAMESPACE, key);
        match self.turn.large_begin(&name, value_len.into(), plan.pieces_end()) {
            Ok(writer) => {
                self.at += consumed;
                self.session.large = Some(LargeSet::new(Body::Pieces(writer), plan, key));
            }
            Err(error) => {
                self.not_stored(&plan, key, error)?;
                self.at += consumed;
                self.session.swallow = u64::from(value_len) + 2;
                self.done(plan.command);
            }
        }
        Ok(())
    }

    /// The line of a value that is stored whole has arrived, and not all of the value: has the rest received into its
    /// place. False if it is to be received into a buffer.
    pub(super) fn whole_begin(&mut self, plan: &Plan, key: &[u8], value_len: u32, consumed: usize) -> bool {
        // What a condition comes to is not known before all is there.
        if (value_len as usize) < ARRIVING_BYTES_MIN || !plan.replaces() {
            return false;
        }
        let mut large = LargeSet::new(Body::Whole(value_len as usize), *plan, key);
        let line_at = self.at;
        self.at += consumed;
        let begun = self.arrival_begin(&mut large);
        if begun {
            self.session.large = Some(large);
        } else {
            self.at = line_at;
        }
        begun
    }

    /// Reserves space for the part that comes next, and moves what there is of it into that.
    fn arrival_begin(&mut self, large: &mut LargeSet) -> bool {
        let (part, line_end) = large.next(self.turn);
        let charge = self.ctx.shared.store.pin_charge(part);
        if part < ARRIVING_BYTES_MIN || !self.ctx.begin_arrival(charge) {
            return false;
        }
        let arriving = match &large.body {
            Body::Pieces(writer) => self.turn.piece_arrives(writer, line_end),
            Body::Whole(_) => {
                let key = self.turn.key(NAMESPACE, &large.key[..large.key_len]);
                self.turn.arrive(&key, &large.plan.put(b""), part, line_end)
            }
        };
        let Ok(mut arriving) = arriving else {
            self.ctx.end_arrival(charge);
            return false;
        };
        let rest = self.rest();
        self.ctx.shared.store.room_of(&mut arriving)[..rest.len()].copy_from_slice(rest);
        arriving.receive(rest.len());
        self.at += rest.len();
        large.arrival = Some(Arrival { arriving, charge, since: self.ctx.op_begun });
        true
    }

    /// Takes the next part of the value that is arriving, or commits it.
    pub(super) fn large_go_on(&mut self) -> Step {
        let Some(mut large) = self.session.large.take() else { return Ok(()) };
        if let Some(arrival) = large.arrival.take() {
            return self.arrival_go_on(large, arrival);
        }
        let (part, line_end) = large.next(self.turn);
        let (want, rest) = (part + line_end, self.rest());
        if rest.len() < want {
            let want = if self.arrival_begin(&mut large) { 1 } else { want };
            self.session.large = Some(large);
            return Err(State::NeedInput { want });
        }
        if line_end > 0 && rest[part..want] != *LINE_END {
            self.at += want;
            return self.large_refused(large);
        }
        let LargeSet { body, plan, key, key_len, .. } = &mut large;
        let stored = match body {
            Body::Pieces(_) if part == 0 => return self.large_commit(large),
            Body::Pieces(writer) => self.turn.large_piece(writer, &rest[..part]),
            Body::Whole(_) => {
                let key = self.turn.key(NAMESPACE, &key[..*key_len]);
                let before = self.seen(&key);
                match self.turn.put(&key, &plan.put(&rest[..part])) {
                    Ok(outcome) => {
                        self.stored(plan, key.bytes(), before, outcome, part as u64);
                        self.at += want;
                        self.done(plan.command);
                        return Ok(());
                    }
                    Err(error) => Err(error),
                }
            }
        };
        match stored {
            Ok(()) => {
                self.at += part;
                self.session.large = Some(large);
                Ok(())
            }
            Err(error) => self.large_failed(large, error),
        }
    }

    /// Stores the part that was received into its place, if all of it is there.
    fn arrival_go_on(&mut self, mut large: LargeSet, arrival: Arrival) -> Step {
        let (part, line_end) = large.next(self.turn);
        if arrival.arriving.left() > 0 {
            large.arrival = Some(arrival);
            self.session.large = Some(large);
            return Err(State::NeedInput { want: 1 });
        }
        if line_end > 0 && !self.ctx.shared.store.received_of(&arrival.arriving).ends_with(LINE_END) {
            large.arrival = Some(arrival);
            return self.large_refused(large);
        }
        let Arrival { arriving, charge, since } = arrival;
        let LargeSet { body, plan, key, key_len, .. } = &mut large;
        let stored = match body {
            Body::Pieces(writer) => self.turn.piece_arrived(arriving, writer),
            Body::Whole(_) => {
                let key = self.turn.key(NAMESPACE, &key[..*key_len]);
                let before = self.seen(&key);
                self.turn.arrived(arriving, &key, &plan.put(b"")).map(|outcome| {
                    self.stored(plan, key.bytes(), before, outcome, part as u64);
                    self.done(plan.command);
                })
            }
        };
        match stored {
            Ok(()) => {
                self.ctx.end_arrival(charge);
                large.line_end_left -= line_end;
                if matches!(large.body, Body::Pieces(_)) {
                    self.session.large = Some(large);
                }
                Ok(())
            }
            Err((arriving, error)) => {
                large.arrival = Some(Arrival { arriving, charge, since });
                self.large_failed(large, error)
            }
        }
    }

    /// All pieces are written and the line end is there.
    fn large_commit(&mut self, large: LargeSet) -> Step {
        let LargeSet { body: Body::Pieces(writer), line_end_left, plan, key, key_len, .. } = large else {
            return Ok(());
        };
        let (name, bytes) = (self.turn.key(NAMESPACE, &key[..key_len]), writer.bytes());
        let before = self.seen(&name);
        match self.turn.large_commit(writer, &name, &plan.put(b"")) {
            Ok(outcome) => {
                self.stored(&plan, &key[..key_len], before, outcome, bytes);
                self.at += line_end_left;
                self.done(plan.command);
                Ok(())
            }
            Err((writer, error)) => {
                let body = Body::Pieces(writer);
                self.large_failed(LargeSet { body, arrival: None, line_end_left, plan, key, key_len }, error)
            }
        }
    }

    /// The value has no line end.
    fn large_refused(&mut self, large: LargeSet) -> Step {
        let plan = large.plan;
        large.abort(self.turn, self.ctx);
        self.refuse(&plan, Error::BadDataChunk);
        Ok(())
    }

    /// The store does not take the value: says so, and swallows what is left of it; or it does not take it yet.
    fn large_failed(&mut self, large: LargeSet, error: OpError) -> Step {
        if let Err(state) = self.not_stored(&large.plan, &large.key[..large.key_len], error) {
            self.session.large = Some(large);
            return Err(state);
        }
        let received = large.arrival.as_ref().map_or(0, |arrival| arrival.arriving.received());
        self.session.swallow = large.left() + large.line_end_left as u64 - received as u64;
        let command = large.plan.command;
        large.abort(self.turn, self.ctx);
        self.done(command);
        Ok(())
    }
}
