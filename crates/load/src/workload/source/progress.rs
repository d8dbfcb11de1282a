//! The progress of a reply, packed into the few words that the engine stores for each request.
//!
//! ```text
//!   state  | flags 6 | index 14: keys or fields read so far | route 12 |
//!   rest   | cursor 24: position of the value in the block | remaining bytes 40 |
//! ```

use super::super::value::{HEAD_BYTES, Values, WrongValue};
use crate::traffic::{Pending, ReplyOutcome, ReplyProgress};

const ROUTE_BITS: u32 = 12;
const INDEX_BITS: u32 = 14;
/// Highest number of parts of a reply that are counted separately.
pub const INDEX_MAX: u32 = (1 << INDEX_BITS) - 1;
const REST_BITS: u32 = 40;
const REST_MAX: u64 = (1 << REST_BITS) - 1;

/// A value's first bytes have not been compared yet.
const HEAD: u32 = 1 << 26;
/// A value was wrong.
const WRONG: u32 = 1 << 27;
/// A key was missing.
const MISSED: u32 = 1 << 28;
/// The server reported an error.
const FAILED: u32 = 1 << 29;
/// The rest of the current value is not compared.
const SKIP: u32 = 1 << 30;
/// The reply to `ASKING` comes first.
const ASKED: u32 = 1 << 31;

/// The state of one reply, unpacked.
#[derive(Clone, Copy, Debug)]
pub struct AnswerState {
    /// Index of the request's route.
    pub route: usize,
    /// Number of keys or fields that have been read.
    pub index: u32,
    flags: u32,
    cursor: u32,
    /// Remaining bytes of the current value, including its line end.
    pub rest: u64,
}

/// Returns the initial state of a request of `route`, as the engine stores it.
pub fn begin(route: usize) -> u32 {
    debug_assert!(route < 1 << ROUTE_BITS);
    route as u32
}

impl AnswerState {
    /// Unpacks the state of `pending`.
    #[inline]
    pub fn of(pending: &Pending) -> Self {
        let state = pending.state;
        Self {
            route: (state & ((1 << ROUTE_BITS) - 1)) as usize,
            index: (state >> ROUTE_BITS) & INDEX_MAX,
            flags: state & !((1 << (ROUTE_BITS + INDEX_BITS)) - 1),
            cursor: (pending.rest >> REST_BITS) as u32,
            rest: pending.rest & REST_MAX,
        }
    }

    /// Packs the state into `pending`.
    #[inline]
    pub fn keep(&self, pending: &mut Pending) {
        debug_assert!(self.index <= INDEX_MAX && self.rest <= REST_MAX);
        pending.state = self.route as u32 | self.index << ROUTE_BITS | self.flags;
        pending.rest = u64::from(self.cursor) << REST_BITS | self.rest;
    }

    /// Begins a value; `verify` requests a comparison of its bytes.
    #[inline]
    pub fn value_begins(&mut self, verify: bool) {
        self.flags = (self.flags & !(HEAD | SKIP)) | if verify { HEAD } else { SKIP };
    }

    /// Returns whether the current value is compared.
    #[inline]
    pub fn compares(&self) -> bool {
        self.flags & SKIP == 0
    }

    /// Returns the number of bytes of the current value that must be available at once, for a value with `rest` bytes
    /// left.
    #[inline]
    pub fn wanted(&self, rest: u64) -> usize {
        if self.flags & HEAD != 0 { rest.min(HEAD_BYTES as u64) as usize } else { 0 }
    }

    /// Compares `piece`, the next bytes of the current value, with the expected bytes. `mark` is the mark of the
    /// value's key, and `len` the length of the whole value. Both are used only for the first piece.
    pub fn compare(&mut self, values: &Values, mark: u64, len: u64, piece: &[u8]) {
        let compared = if self.flags & HEAD != 0 {
            self.flags &= !HEAD;
            let (head, body) = piece.split_at(piece.len().min(HEAD_BYTES));
            values.check_head(mark, len, head).and_then(|at| values.check_body(at, body))
        } else {
            values.check_body(self.cursor, piece)
        };
        match compared {
            Ok(at) => self.cursor = at,
            Err(WrongValue) => {
                self.flags |= SKIP;
                self.wrong();
            }
        }
    }

    /// Records a wrong value.
    pub fn wrong(&mut self) {
        self.flags |= WRONG;
    }

    /// Records a missing key.
    pub fn missed(&mut self) {
        self.flags |= MISSED;
    }

    /// Records an error reply.
    pub fn failed(&mut self) {
        self.flags |= FAILED;
    }

    /// Returns the progress of a complete reply.
    pub fn done(&self, value_bytes: u64) -> ReplyProgress {
        let has = |flag| self.flags & flag != 0;
        let outcome = match () {
            () if has(WRONG) => ReplyOutcome::Wrong,
            () if has(FAILED) => ReplyOutcome::Error,
            () if has(MISSED) => ReplyOutcome::Miss,
            () => ReplyOutcome::Hit,
        };
        ReplyProgress::Done { outcome, value_bytes }
    }

    /// Records that the request is preceded by an `ASKING`, whose reply comes first.
    pub fn needs_leave(&mut self) {
        self.flags |= ASKED;
    }

    /// Returns whether the reply to `ASKING` is outstanding.
    #[inline]
    pub fn waits_for_leave(&self) -> bool {
        self.flags & ASKED != 0
    }

    /// Records the reply to `ASKING`.
    pub fn has_leave(&mut self) {
        self.flags &= !ASKED;
    }

    /// Resets the progress of the reply, because the request is sent again.
    pub fn forget_answer(&mut self) {
        (self.index, self.cursor, self.rest) = (0, 0, 0);
        self.flags &= ASKED;
    }

    /// Returns whether a key was missing.
    pub fn has_missed(&self) -> bool {
        self.flags & MISSED != 0
    }

    /// Returns whether the server replied with an error.
    pub fn has_failed(&self) -> bool {
        self.flags & FAILED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let mut pending = Pending { state: begin(4095), ..Pending::default() };
        let mut state = AnswerState::of(&pending);
        (state.index, state.cursor, state.rest) = (INDEX_MAX, (1 << 17) - 1, REST_MAX);
        state.missed();
        state.value_begins(true);
        state.keep(&mut pending);
        let back = AnswerState::of(&pending);
        assert_eq!((back.route, back.index, back.cursor, back.rest), (4095, INDEX_MAX, (1 << 17) - 1, REST_MAX));
        assert_eq!(back.wanted(100), HEAD_BYTES);
        assert_eq!(back.done(7), ReplyProgress::Done { outcome: ReplyOutcome::Miss, value_bytes: 7 });
    }
}
