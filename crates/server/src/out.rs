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

use crate::budget::{self, Budget, Grant};
use crate::buffers::{BIG_BYTES_MIN, OUT_BYTES};
use crate::clock::Ticks;
use crate::context::OPS_A_BATCH;
use crate::metrics::Command;
use segment::{Pinned, Store};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

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
    /// Number of replies.
    pub(crate) count: u32,
    /// Time at which its bytes were known to be there.
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
    /// Bytes that are reserved for one that is set aside; 0: it is of a pool.
    reserved: u64,
    /// Blocks that are filled, of an output that collects answers, with their bytes and what they take together.
    full: VecDeque<Vec<u8>>,
    full_bytes: usize,
    full_held: usize,
    /// Its share of client memory: the bytes of all its blocks.
    grant: Option<Grant>,
}

/// The place of a head that is written when what follows it is known: see [`OutBuffer::reserve_head`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadPlace(usize);

/// A place in what an output has collected: see [`OutBuffer::spot`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spot {
    full: usize,
    len: usize,
}

impl OutBuffer {
    pub(crate) fn new(block: Box<[u8]>) -> Self {
        Self { ops: Vec::with_capacity(OPS_MAX), ..Self::without_times(block) }
    }

    /// One that has no room for the times of operations.
    fn without_times(block: Box<[u8]>) -> Self {
        Self {
            block,
            grant: None,
            own: None,
            len: 0,
            sent: 0,
            pins: [const { None }; PINS_MAX],
            pins_len: 0,
            pinned_bytes: 0,
            ops: Vec::new(),
            reserved: 0,
            full: VecDeque::new(),
            full_bytes: 0,
            full_held: 0,
        }
    }

    /// Bytes that [`OutBuffer::move_aside`] allocates.
    pub(crate) fn bytes_aside(&self) -> u64 {
        (size_of::<Self>() + self.unsent_own().len() + size_of_val(&self.ops[..])) as u64
    }

    /// Returns those of its own bytes that have to be retained: all, if values are pinned between them.
    fn unsent_own(&self) -> &[u8] {
        self.plain().unwrap_or(&self.block[..self.len])
    }

    /// Moves what is unsent, its pins and times into one that belongs to no pool and for which `reserved` bytes are
    /// reserved. This one is empty then.
    pub(crate) fn move_aside(&mut self, reserved: u64) -> Self {
        assert!(reserved > 0, "what is reserved tells it from one of a pool");
        let block: Box<[u8]> = self.unsent_own().into();
        let sent = if self.pins_len == 0 { 0 } else { self.sent };
        let aside = Self {
            len: block.len(),
            sent,
            pins: std::mem::replace(&mut self.pins, [const { None }; PINS_MAX]),
            pins_len: self.pins_len,
            pinned_bytes: self.pinned_bytes,
            ops: self.ops.as_slice().into(),
            reserved,
            ..Self::without_times(block)
        };
        (self.len, self.sent, self.pins_len, self.pinned_bytes) = (0, 0, 0, 0);
        self.ops.clear();
        aside
    }

    /// Creates an output of no pool, with bytes to be sent. `reserved` bytes of client memory are reserved for it.
    pub(crate) fn aside(bytes: &[u8], reserved: u64) -> Self {
        assert!(reserved > 0, "what is reserved tells it from one of a pool");
        Self { len: bytes.len(), reserved, ..Self::without_times(bytes.into()) }
    }

    /// Bytes that are reserved for it, if it is set aside; 0 if it is of a pool.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns whether it holds a buffer of class `Out` or `BigOut` that another session could use.
    pub(crate) fn holds_lent(&self) -> bool {
        self.reserved == 0 || self.is_lent()
    }

    /// One that collects answers, is never sent and belongs to no pool: without room until it is given some
    /// ([`OutBuffer::make_room`]).
    pub(crate) fn beside(budget: &Arc<Budget>) -> Self {
        let grant = Grant::none(budget, budget::Kind::Replies);
        Self { grant: Some(grant), ..Self::without_times(Box::default()) }
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
        (self.full_bytes, self.full_held, self.len) = (0, 0, 0);
        self.recount();
    }

    /// Forgets the bytes appended since `mark`. Nothing may have been pinned or sent since.
    pub fn truncate(&mut self, mark: usize) {
        assert!(
            mark <= self.len && self.pins_len.checked_sub(1).is_none_or(|i| self.pin_at(i) <= mark),
            "a stale mark"
        );
        self.len = mark;
    }

    /// The bytes appended since `mark`. Nothing may have been pinned since.
    pub(crate) fn since(&self, mark: usize) -> &[u8] {
        &self.block[mark..self.len]
    }

    /// Has room for `bytes` from now on, in a block of its own if there is none; false if client memory is used up.
    /// Marks from before mean nothing then. Only for an output that collects answers.
    pub(crate) fn make_room(&mut self, bytes: usize) -> bool {
        if self.block.len() - self.len >= bytes {
            return true;
        }
        for block_bytes in [bytes.max(BESIDE_BYTES), bytes] {
            let held = self.held_with(block_bytes);
            if self.grant.as_mut().is_none_or(|grant| grant.bytes() >= held || grant.resize(held)) {
                self.add_block(block_bytes);
                return true;
            }
        }
        false
    }

    /// Has room for `bytes` whatever client memory is used: for the answer of what was begun and has to be done.
    pub(crate) fn force_room(&mut self, bytes: usize) {
        if self.block.len() - self.len < bytes {
            let held = self.held_with(bytes);
            if let Some(grant) = &mut self.grant {
                grant.force(held);
            }
            self.add_block(bytes);
        }
    }

    /// Returns what all blocks take with a new one of so many bytes.
    fn held_with(&self, bytes: usize) -> u64 {
        let retired = if self.len < self.block.len() / 2 { self.len } else { self.block.len() };
        (self.full_held + retired + bytes) as u64
    }

    fn add_block(&mut self, bytes: usize) {
        self.retire();
        // The kernel clears what is new when it is written.
        self.block = vec![0; bytes].into_boxed_slice();
        self.recount();
    }

    /// Returns what all blocks take.
    pub(crate) fn held(&self) -> u64 {
        (self.full_held + self.block.len()) as u64
    }

    /// Gives back what the grant has above what the blocks take.
    fn recount(&mut self) {
        let held = self.held();
        if let Some(grant) = &mut self.grant {
            grant.shrink(held);
        }
    }

    /// Appends a whole block. Marks from before mean nothing then. Only for an output that collects answers.
    pub(crate) fn push_block(&mut self, block: Vec<u8>) {
        self.retire();
        (self.full_bytes, self.full_held) = (self.full_bytes + block.len(), self.full_held + block.capacity());
        self.full.push_back(block);
        let held = self.held();
        if let Some(grant) = &mut self.grant {
            grant.force(held);
        }
    }

    /// Keeps a place for bytes that are known later ([`OutBuffer::fill_head`]). Only for an output that collects
    /// answers.
    pub(crate) fn reserve_head(&mut self) -> HeadPlace {
        self.push_block(Vec::new());
        HeadPlace(self.full.len() - 1)
    }

    /// Writes what belongs to a place.
    pub(crate) fn fill_head(&mut self, place: HeadPlace, bytes: &[u8]) {
        let block = &mut self.full[place.0];
        let before = block.capacity();
        block.extend_from_slice(bytes);
        self.full_bytes += bytes.len();
        self.full_held += block.capacity() - before;
    }

    /// Forgets a place, and what was appended behind it.
    pub(crate) fn cut_to_head(&mut self, place: HeadPlace) {
        self.keep_blocks(place.0);
        self.len = 0;
    }

    fn keep_blocks(&mut self, count: usize) {
        self.full.truncate(count);
        self.full_bytes = self.full.iter().map(Vec::len).sum();
        self.full_held = self.full.iter().map(Vec::capacity).sum();
        self.recount();
    }

    /// The end of what is collected, to come back to with [`OutBuffer::cut_to_spot`] whatever is appended.
    pub(crate) fn spot(&self) -> Spot {
        Spot { full: self.full.len(), len: self.len }
    }

    /// Forgets what was collected behind a spot.
    pub(crate) fn cut_to_spot(&mut self, spot: Spot) {
        if self.full.len() == spot.full {
            self.len = spot.len;
            return;
        }
        // The block that was at hand is one of the full ones by now.
        self.len = 0;
        if spot.len > 0
            && let Some(block) = self.full.get_mut(spot.full)
        {
            block.truncate(spot.len);
            self.keep_blocks(spot.full + 1);
        } else {
            self.keep_blocks(spot.full);
        }
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
        self.full_held += block.capacity();
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
            self.full_held -= block.capacity();
            self.recount();
        }
    }

    /// Gives back what its block counts for, which it keeps: it is put away until it is used again.
    pub(crate) fn rest(&mut self) {
        if let Some(grant) = &mut self.grant {
            grant.shrink(0);
        }
    }

    /// Counts for its blocks again; false if client memory is used up.
    pub(crate) fn wake(&mut self) -> bool {
        let bytes = self.held();
        self.grant.as_mut().is_none_or(|grant| grant.bytes() == bytes || grant.resize(bytes))
    }

    /// Returns whether another value can be pinned here.
    #[inline]
    pub fn has_pin_room(&self) -> bool {
        self.pins_len < PINS_MAX
    }

    /// Returns whether another whole value of so many bytes can be pinned here.
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

    /// Returns what is to be sent next, if that is one run of bytes.
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

    /// Returns what is to be sent yet, in bytes.
    pub(crate) fn unsent(&self) -> u64 {
        self.total() - self.sent
    }

    /// Returns a copy of the unsent bytes and marks them as sent.
    pub(crate) fn take_unsent(&mut self, store: &Store) -> Vec<u8> {
        let mut unsent = Vec::with_capacity(self.unsent() as usize);
        while self.unsent() > 0 {
            let mut parts = [IoSlice::new(&[]); PARTS_MAX];
            let count = self.parts(store, &mut parts, usize::MAX);
            let before = unsent.len();
            parts[..count].iter().for_each(|part| unsent.extend_from_slice(part));
            self.sent += (unsent.len() - before) as u64;
        }
        unsent
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

    /// Returns whether a longer block is lent to it.
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
