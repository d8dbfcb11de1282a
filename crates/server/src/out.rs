//! What a session has to say and has not said yet: bytes, long values pinned in the store, and the times of the
//! operations that are answered in it.
//!
//! ```text
//!   bytes   [ VALUE big 0 900000\r\n | \r\nEND\r\n ............ room ]        one block of a pool, never grown
//!                                    ^ at = 20
//!   pins    [ (at 20, Pinned 900000 B) ]                                    sent between the bytes, from the store
//!   sent    how much of that whole stream the peer's socket has taken
//! ```
//!
//! An output that is never sent itself, but collects answers over several visits, keeps them in blocks that are filled
//! one after another ([`OutBuffer::beside`]): nothing is copied when there are more, whatever their length.
//!
//! ```text
//!   full    [ head, written last ] [ answers ... ] [ answers ... ]      block [ answers . room ]
//! ```
//!
//! Invariants: `pins` is ordered by `at`; `sent` never passes the whole; a buffer goes back to its pool empty, so with
//! every pin released and every operation's time recorded.

use crate::buffers::{BIG_BYTES_MIN, OUT_BYTES};
use crate::clock::Ticks;
use crate::context::OPS_A_BATCH;
use crate::metrics::Command;
use segment::{Pinned, Store};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Pinned values that one buffer takes before it counts as full.
pub const PINS_MAX: usize = 8;
/// Values from this length on are sent from where they lie in the store, if they can be pinned; others are copied.
pub const PINNED_BYTES_MIN: usize = 8 << 10;
/// A buffer with more than this in it pins no further whole value: so what a slow reader leaves unsent of whole values
/// can be copied into a big block, with all that was appended behind the last of them.
pub const PINNED_BYTES_MAX: u64 = (BIG_BYTES_MIN - OUT_BYTES) as u64;
/// Operations whose times one buffer keeps before it counts as full.
pub const OPS_MAX: usize = 256;
/// Operations at most that are done together and accounted for at once: while a buffer has room, it has room for the
/// times of so many.
pub const OPS_TOGETHER_MAX: usize = 16;
/// Bytes of a block of an output that collects answers, unless one answer needs more.
const BESIDE_BYTES: usize = 64 << 10;
/// Parts of one send: the pieces of large values and the bytes around them.
pub const PARTS_MAX: usize = 64;

/// The times of one operation, or of several that were done together, until their replies have been sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpTimes {
    pub(crate) command: Command,
    pub(crate) namespace: u8,
    /// How many.
    pub(crate) count: u32,
    /// When its bytes were known to be there.
    pub(crate) ready: Ticks,
    pub(crate) begun: Ticks,
    pub(crate) ended: Ticks,
}

struct Pin {
    at: usize,
    pinned: Pinned,
}

/// A session's output. Commands append; the worker sends.
pub struct OutBuffer {
    block: Box<[u8]>,
    /// Its own block, while a longer one is lent to it.
    own: Option<Box<[u8]>>,
    len: usize,
    sent: u64,
    pins: [Option<Pin>; PINS_MAX],
    pins_len: usize,
    pinned_bytes: u64,
    ops: Vec<OpTimes>,
    /// Blocks that are filled, of an output that collects answers, and their bytes together.
    full: VecDeque<Vec<u8>>,
    full_bytes: usize,
}

/// The place of a head that is written when what follows it is known: see [`OutBuffer::reserve_head`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadPlace(usize);

impl OutBuffer {
    pub(crate) fn new(block: Box<[u8]>) -> Self {
        Self {
            block,
            own: None,
            len: 0,
            sent: 0,
            pins: [const { None }; PINS_MAX],
            pins_len: 0,
            pinned_bytes: 0,
            ops: Vec::with_capacity(OPS_MAX),
            full: VecDeque::new(),
            full_bytes: 0,
        }
    }

    /// One that collects answers, is never sent and belongs to no pool: without room until it is given some
    /// ([`OutBuffer::make_room`]).
    pub(crate) fn beside() -> Self {
        Self { ops: Vec::new(), ..Self::new(Box::default()) }
    }

    /// Bytes that can still be appended. 0 when the times of [`OPS_TOGETHER_MAX`] further operations cannot be kept, so
    /// that a command that asks for room before it begins needs no second question.
    #[inline]
    pub fn room(&self) -> usize {
        if self.ops.len() > OPS_MAX - OPS_TOGETHER_MAX { 0 } else { self.block.len() - self.len }
    }

    /// Bytes that could be appended if this buffer was empty. A reply longer than this needs
    /// [`crate::context::State::OutputFull`] with `want`.
    pub fn capacity(&self) -> usize {
        self.block.len()
    }

    /// Nothing is waiting to be sent.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.pins_len == 0
    }

    /// Appends `bytes`, which must fit into [`OutBuffer::room`].
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.block[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// The free bytes, to be written in place; [`OutBuffer::advance`] says how many were.
    #[inline]
    pub fn spare(&mut self) -> &mut [u8] {
        &mut self.block[self.len..]
    }

    /// The first `bytes` of [`OutBuffer::spare`] have been written.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.block.len() - self.len, "more was written than there was room for");
        self.len += bytes;
    }

    /// A mark to come back to with [`OutBuffer::truncate`].
    #[inline]
    pub fn mark(&self) -> usize {
        self.len
    }

    /// Forgets all that was collected.
    pub(crate) fn forget(&mut self) {
        self.full.clear();
        (self.full_bytes, self.len) = (0, 0);
    }

    /// Forgets the bytes appended since `mark`. Nothing may have been pinned or sent since.
    pub fn truncate(&mut self, mark: usize) {
        assert!(
            mark <= self.len && self.pins_len.checked_sub(1).is_none_or(|i| self.pin_at(i) <= mark),
            "a stale mark"
        );
        self.len = mark;
    }

    /// Forgets the bytes appended since `mark`, unless those before it have gone to a block of their own since.
    pub(crate) fn take_back(&mut self, mark: usize) {
        if mark < self.len {
            self.truncate(mark);
        }
    }

    /// The bytes appended since `mark`. Nothing may have been pinned since.
    pub(crate) fn since(&self, mark: usize) -> &[u8] {
        &self.block[mark..self.len]
    }

    /// Has room for `bytes` from now on, in a block of its own if there is none. Marks from before mean nothing then.
    /// Only for an output that collects answers.
    pub(crate) fn make_room(&mut self, bytes: usize) {
        if self.block.len() - self.len < bytes {
            self.retire();
            self.block = vec![0; bytes.max(BESIDE_BYTES)].into_boxed_slice();
        }
    }

    /// Appends a whole block. Marks from before mean nothing then. Only for an output that collects answers.
    pub(crate) fn push_block(&mut self, block: Vec<u8>) {
        self.retire();
        self.full_bytes += block.len();
        self.full.push_back(block);
    }

    /// Keeps a place for bytes that are known later ([`OutBuffer::fill_head`]). Only for an output that collects answers.
    pub(crate) fn reserve_head(&mut self) -> HeadPlace {
        self.push_block(Vec::new());
        HeadPlace(self.full.len() - 1)
    }

    /// Writes what belongs to a place.
    pub(crate) fn fill_head(&mut self, place: HeadPlace, bytes: &[u8]) {
        self.full_bytes += bytes.len();
        self.full[place.0].extend_from_slice(bytes);
    }

    /// Forgets what was appended behind a place; what was written to it stays.
    pub(crate) fn cut_behind_head(&mut self, place: HeadPlace) {
        self.full.truncate(place.0 + 1);
        self.full_bytes = self.full.iter().map(Vec::len).sum();
        self.len = 0;
    }

    /// Forgets what was appended behind a place, and the place.
    pub(crate) fn cut_to_head(&mut self, place: HeadPlace) {
        self.full.truncate(place.0);
        self.full_bytes = self.full.iter().map(Vec::len).sum();
        self.len = 0;
    }

    /// Bytes that are collected.
    pub(crate) fn collected(&self) -> usize {
        self.full_bytes + self.len
    }

    /// The block at hand is full.
    pub(crate) fn retire(&mut self) {
        if self.len == 0 {
            return;
        }
        self.full_bytes += self.len;
        let block = if self.len < self.block.len() / 2 {
            self.block[..self.len].to_vec()
        } else {
            let mut block = std::mem::take(&mut self.block).into_vec();
            block.truncate(self.len);
            block
        };
        self.full.push_back(block);
        self.len = 0;
    }

    /// The bytes that were collected first, those of one block. All blocks are full.
    pub(crate) fn first(&self) -> &[u8] {
        self.full.front().map_or(&[], |block| &block[..])
    }

    /// Forgets the first block.
    pub(crate) fn drop_first(&mut self) {
        if let Some(block) = self.full.pop_front() {
            self.full_bytes -= block.len();
        }
    }

    /// Whether another value can be pinned here.
    #[inline]
    pub fn has_pin_room(&self) -> bool {
        self.pins_len < PINS_MAX
    }

    /// Whether another whole value of so many bytes can be pinned here.
    #[inline]
    pub fn has_pin_room_for(&self, bytes: usize) -> bool {
        self.has_pin_room() && (self.is_empty() || self.total() + bytes as u64 <= PINNED_BYTES_MAX)
    }

    /// Appends a value without copying it. There must be room ([`OutBuffer::has_pin_room`]), and its charge must have
    /// been granted by [`crate::context::WorkerContext::pin_budget`]; the worker returns both.
    pub fn push_pinned(&mut self, pinned: Pinned) {
        self.pinned_bytes += pinned.bytes();
        self.pins[self.pins_len] = Some(Pin { at: self.len, pinned });
        self.pins_len += 1;
    }

    fn pin_at(&self, index: usize) -> usize {
        self.pins[index].as_ref().map_or(0, |pin| pin.at)
    }

    /// Bytes of the store that cannot be reused until this buffer was sent.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// The whole stream's length, sent or not.
    fn total(&self) -> u64 {
        self.len as u64 + self.pinned_bytes
    }

    /// What is to be sent next, if that is one run of bytes.
    #[inline]
    pub(crate) fn plain(&self) -> Option<&[u8]> {
        (self.pins_len == 0).then(|| &self.block[self.sent as usize..self.len])
    }

    /// Room enough that another batch of operations is worth adding before this is sent.
    #[inline]
    pub(crate) fn has_batch_room(&self) -> bool {
        self.ops.len() + OPS_A_BATCH <= OPS_MAX && self.len <= self.block.len() / 2 && self.pins_len == 0
    }

    /// Fills `parts` with what is to be sent next, at most `bytes_max` of it, and returns how many there are.
    pub(crate) fn parts<'s>(
        &'s self,
        store: &'s Store,
        parts: &mut [IoSlice<'s>; PARTS_MAX],
        bytes_max: usize,
    ) -> usize {
        let mut gather = Gather { skip: self.sent, left: bytes_max, parts, filled: 0 };
        let mut from = 0;
        for pin in self.pins[..self.pins_len].iter().flatten() {
            gather.add(&self.block[from..pin.at]);
            from = pin.at;
            for piece in 0..pin.pinned.pieces() {
                gather.add(store.pinned_bytes(&pin.pinned, piece));
            }
        }
        gather.add(&self.block[from..self.len]);
        gather.filled
    }

    /// What is to be sent yet, in bytes.
    pub(crate) fn unsent(&self) -> u64 {
        self.total() - self.sent
    }

    /// Moves what is unsent into `block`, which holds it and is lent from now on, and the pins out. Gives a longer
    /// block back that was lent before.
    pub(crate) fn copy_out(
        &mut self,
        store: &Store,
        mut block: Box<[u8]>,
        mut unpin: impl FnMut(Pinned),
    ) -> Option<Box<[u8]>> {
        assert!(self.pins_len > 0 && self.unsent() <= block.len() as u64, "nothing to copy, or no room for it");
        let mut copied = 0;
        while self.unsent() > 0 {
            let mut parts = [IoSlice::new(&[]); PARTS_MAX];
            let count = self.parts(store, &mut parts, usize::MAX);
            let before = copied;
            for part in &parts[..count] {
                block[copied..copied + part.len()].copy_from_slice(part);
                copied += part.len();
            }
            self.sent += (copied - before) as u64;
        }
        for pin in &mut self.pins[..self.pins_len] {
            unpin(pin.take().expect("the first pins_len are there").pinned);
        }
        (self.len, self.sent, self.pins_len, self.pinned_bytes) = (copied, 0, 0, 0);
        let old = std::mem::replace(&mut self.block, block);
        if self.own.is_some() {
            return Some(old);
        }
        self.own = Some(old);
        None
    }

    /// The peer's socket has taken `bytes` more. True when that was all; the buffer can then be cleared.
    pub(crate) fn advance_sent(&mut self, bytes: usize) -> bool {
        self.sent += bytes as u64;
        assert!(self.sent <= self.total(), "more was sent than there was");
        self.sent == self.total()
    }

    /// Moves the pins out; the buffer's bytes are forgotten with them.
    pub(crate) fn clear(&mut self, mut unpin: impl FnMut(Pinned)) {
        for pin in &mut self.pins[..self.pins_len] {
            unpin(pin.take().expect("the first pins_len are there").pinned);
        }
        (self.len, self.sent, self.pins_len, self.pinned_bytes) = (0, 0, 0, 0);
        self.ops.clear();
    }

    /// Uses a longer block from now on. Only an empty buffer can.
    pub(crate) fn lend(&mut self, block: Box<[u8]>) {
        assert!(self.is_empty() && self.own.is_none(), "bytes or a block would be lost");
        self.own = Some(std::mem::replace(&mut self.block, block));
    }

    /// Whether a longer block is lent to it.
    pub(crate) fn is_lent(&self) -> bool {
        self.own.is_some()
    }

    /// Gives the longer block back, if one is lent. Only an empty buffer can.
    pub(crate) fn take_lent(&mut self) -> Option<Box<[u8]>> {
        assert!(self.is_empty(), "bytes would be lost");
        let own = self.own.take()?;
        Some(std::mem::replace(&mut self.block, own))
    }

    pub(crate) fn push_op(&mut self, op: OpTimes) {
        assert!(self.ops.len() < OPS_MAX, "an operation was begun without room");
        self.ops.push(op);
    }

    pub(crate) fn ops(&self) -> &[OpTimes] {
        &self.ops
    }
}

impl protocol::sink::Sink for OutBuffer {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.push(bytes);
    }

    #[inline]
    fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        write(&mut self.block[self.len..self.len + len]);
        self.len += len;
    }
}

/// Collects slices behind the bytes that were sent already.
struct Gather<'p, 's> {
    skip: u64,
    /// Bytes that are wanted yet.
    left: usize,
    parts: &'p mut [IoSlice<'s>; PARTS_MAX],
    filled: usize,
}

impl<'s> Gather<'_, 's> {
    fn add(&mut self, bytes: &'s [u8]) {
        let skipped = self.skip.min(bytes.len() as u64);
        self.skip -= skipped;
        let rest = &bytes[skipped as usize..];
        let rest = &rest[..rest.len().min(self.left)];
        self.left -= rest.len();
        if !rest.is_empty() && self.filled < PARTS_MAX {
            self.parts[self.filled] = IoSlice::new(rest);
            self.filled += 1;
        }
    }
}
