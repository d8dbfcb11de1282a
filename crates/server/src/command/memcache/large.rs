//! Values longer than the store keeps in one piece: they go into the store as they arrive, so that a session never
//! holds more than one piece of one.
//!
//! ```text
//!   line ──> large_begin ──> piece ──> piece ──> last piece, \r\n ──> commit, answer
//!                │              │                     └ no \r\n: abort, error
//!                └──────────────┴ no memory: abort, error, the rest of the value is swallowed
//! ```
//!
//! The `\r\n` is consumed with the commit, so that a session whose commit is parked still has input to come back with.

use super::store::Plan;
use super::{Call, NAMESPACE, Step};
use crate::context::State;
use protocol::memcache::{Error, KEY_BYTES_MAX};
use segment::{LargeWriter, OpError, Turn};

/// A large value that is arriving.
pub(super) struct LargeSet {
    writer: LargeWriter,
    plan: Plan,
    key: [u8; KEY_BYTES_MAX],
    key_len: usize,
}

impl LargeSet {
    fn left(&self) -> u64 {
        self.writer.bytes() - self.writer.written()
    }

    /// Gives up the value.
    pub(super) fn abort(self, turn: &mut Turn<'_>) {
        turn.large_abort(self.writer);
    }
}

impl Call<'_, '_> {
    /// The line of a large value has arrived.
    pub(super) fn large_begin(&mut self, plan: Plan, key: &[u8], value_len: u32, consumed: usize) -> Step {
        let mut kept = [0; KEY_BYTES_MAX];
        kept[..key.len()].copy_from_slice(key);
        let name = self.turn.key(NAMESPACE, key);
        match self.turn.large_begin(&name, value_len.into(), plan.pieces_end()) {
            Ok(writer) => {
                self.at += consumed;
                self.session.large = Some(LargeSet { writer, plan, key: kept, key_len: key.len() });
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

    /// Takes the next piece of the value that is arriving, or commits it.
    pub(super) fn large_go_on(&mut self) -> Step {
        let Some(mut large) = self.session.large.take() else { return Ok(()) };
        let left = large.left();
        let piece = left.min(self.turn.large_piece_max() as u64) as usize;
        // The last piece is looked at together with its line end, so that a value without one is never committed.
        let want = if piece as u64 == left { piece + 2 } else { piece };
        let rest = self.rest();
        if rest.len() < want {
            self.session.large = Some(large);
            return Err(State::NeedInput { want });
        }
        if piece as u64 == left && rest[piece..want] != *b"\r\n" {
            self.at += want;
            let plan = large.plan;
            large.abort(self.turn);
            self.refuse(&plan, Error::BadDataChunk);
            return Ok(());
        }
        if piece > 0 {
            match self.turn.large_piece(&mut large.writer, &rest[..piece]) {
                Ok(()) => {
                    self.at += piece;
                    self.session.large = Some(large);
                    return Ok(());
                }
                Err(OpError::Parked) => {
                    self.session.large = Some(large);
                    return Err(State::Parked);
                }
                Err(error) => return self.large_failed(large, error),
            }
        }
        self.large_commit(large)
    }

    /// All pieces are written and the line end is there.
    fn large_commit(&mut self, large: LargeSet) -> Step {
        let LargeSet { writer, plan, key, key_len } = large;
        let (name, bytes) = (self.turn.key(NAMESPACE, &key[..key_len]), writer.bytes());
        let before = self.seen(&name);
        match self.turn.large_commit(writer, &name, &plan.put(b"")) {
            Ok(outcome) => {
                self.stored(&plan, &key[..key_len], before, outcome, bytes);
                self.at += 2;
                self.done(plan.command);
                Ok(())
            }
            Err((writer, OpError::Parked)) => {
                self.session.large = Some(LargeSet { writer, plan, key, key_len });
                Err(State::Parked)
            }
            Err((writer, error)) => self.large_failed(LargeSet { writer, plan, key, key_len }, error),
        }
    }

    /// The store does not take the value: says so, and swallows what is left of it.
    fn large_failed(&mut self, large: LargeSet, error: OpError) -> Step {
        if let Err(state) = self.not_stored(&large.plan, &large.key[..large.key_len], error) {
            self.session.large = Some(large);
            return Err(state);
        }
        self.session.swallow = large.left() + 2;
        let command = large.plan.command;
        large.abort(self.turn);
        self.done(command);
        Ok(())
    }
}
