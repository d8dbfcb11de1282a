//! A session's unsent output. It holds bytes, long values that are pinned in the store, and the times of the operations
//! whose replies it contains.
//!
//! ```text
//!   bytes   [ VALUE big 0 900000\r\n | \r\nEND\r\n ............ room ]        one block of a pool, of fixed size
//!                                    ^ at = 20
//!   pins    [ (at 20, Pinned 900000 B) ]                                    sent at this offset, from the store
//!   sent    the number of bytes of the stream that the kernel has accepted
//! ```
//!
//! An output may also collect replies over several visits without being sent itself ([`OutBuffer::beside`]). It then
//! holds them in blocks that are filled in order. When such an output grows, no bytes are copied.
//!
//! ```text
//!   full    [ head, written last ] [ replies ... ] [ replies ... ]      block [ replies . room ]
//! ```
//!
//! Invariants: `pins` is ordered by `at`. `sent` never exceeds the total length. A buffer returns to its pool empty:
//! every pin is released, and every operation's time is recorded.

use crate::memory::budget::{self, Budget, Grant};
use crate::metrics::Command;
use crate::visit::clock::Ticks;
use crate::visit::progress::OPS_A_BATCH;
use segment::{Pinned, Store};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

/// The maximum number of bytes that a protocol writes before and after a value. Each protocol reserves this room in the
/// output before it writes a reply.
pub(crate) const LINE_ROOM: usize = 1024;

/// The size of an ordinary output buffer, in bytes.
pub const OUT_BYTES: usize = 32 << 10;
/// The minimum size of a big output buffer, in bytes.
pub const BIG_BYTES_MIN: usize = 256 << 10;
/// The number of pinned values at which a buffer counts as full.
pub const PINS_MAX: usize = 8;
/// The minimum length of a value that is sent from its place in the store if it can be pinned, in bytes. Shorter values
/// are copied.
pub const PINNED_BYTES_MIN: usize = 8 << 10;
/// The maximum number of bytes of whole values that a buffer pins. With this limit, the unsent output of a slow reader
/// fits into a big block: the whole values together with all bytes that were appended after them.
pub const PINNED_BYTES_MAX: u64 = (BIG_BYTES_MIN - OUT_BYTES) as u64;
/// The number of operations with recorded times at which a buffer counts as full.
pub const OPS_MAX: usize = 256;
/// The maximum number of operations that are executed and recorded together. A buffer that reports room can hold the
/// times of this many operations.
pub const OPS_TOGETHER_MAX: usize = 16;
/// The minimum size of a further block of an output that collects replies, in bytes. The first block has the requested
/// size: that of most replies, so that a transaction's output can be retained for the next one.
const COLLECTOR_BYTES: usize = 64 << 10;
/// The maximum number of parts of one send. A part is a piece of a large value, or the bytes between two values.
pub const PARTS_MAX: usize = 64;

/// The times of one operation, or of several operations that were executed together. They are retained until the
/// replies have been sent.
#[derive(Clone, Copy, Debug)]
pub struct OpTimes {
    /// The command.
    pub command: Command,
    /// The namespace of the client.
    pub namespace: u8,
    /// The number of operations.
    pub count: u32,
    /// The instant at which the worker learned that the request's bytes had been received.
    pub ready: Ticks,
    /// The instant at which the execution began.
    pub begun: Ticks,
    /// The instant at which the execution ended.
    pub ended: Ticks,
}

struct Pin {
    at: usize,
    pinned: Pinned,
}

/// A session's output. Commands append bytes, and the worker sends them.
pub struct OutBuffer {
    block: Box<[u8]>,
    /// The output's own block, while a longer block is lent to it.
    own: Option<Box<[u8]>>,
    len: usize,
    sent: u64,
    pins: [Option<Pin>; PINS_MAX],
    pins_len: usize,
    pinned_bytes: u64,
    ops: Vec<OpTimes>,
    /// The client memory that is reserved for this output if it was moved out of the pools, in bytes. 0 if the output
    /// belongs to a pool.
    reserved: u64,
    /// The full blocks of an output that collects replies. `full_bytes` is their length, `full_held` their capacity, in
    /// bytes.
    full: VecDeque<Vec<u8>>,
    full_bytes: usize,
    full_held: usize,
    /// The share of client memory that all blocks use.
    grant: Option<Grant>,
}

/// The place of a reply's header that is written later, when its contents are known (see [`OutBuffer::reserve_head`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadPlace(usize);

/// A position in the collected bytes; see [`OutBuffer::spot`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    full: usize,
    len: usize,
}

impl OutBuffer {
    /// Creates an empty output in `block`.
    pub fn new(block: Box<[u8]>) -> Self {
        Self { ops: Vec::with_capacity(OPS_MAX), ..Self::without_times(block) }
    }

    /// Creates an output without room for the times of operations.
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

    /// Returns the number of bytes that [`OutBuffer::move_aside`] would allocate.
    pub fn bytes_aside(&self) -> u64 {
        (size_of::<Self>() + self.unsent_own().len() + size_of_val(&self.ops[..])) as u64
    }

    /// Returns the bytes of the block that must be retained. These are the unsent bytes, or all bytes if values are
    /// pinned between them.
    fn unsent_own(&self) -> &[u8] {
        self.plain().unwrap_or(&self.block[..self.len])
    }

    /// Moves the unsent bytes, pins and times into an output outside the pools, for which `reserved` bytes of client
    /// memory are reserved. This output is then empty.
    pub fn move_aside(&mut self, reserved: u64) -> Self {
        assert!(reserved > 0, "a reservation distinguishes it from an output of a pool");
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

    /// Creates an output outside the pools that contains `bytes`. `reserved` bytes of client memory are reserved for
    /// it.
    pub fn aside(bytes: &[u8], reserved: u64) -> Self {
        assert!(reserved > 0, "a reservation distinguishes it from an output of a pool");
        Self { len: bytes.len(), reserved, ..Self::without_times(bytes.into()) }
    }

    /// Returns the client memory that is reserved for this output if it was moved out of the pools, in bytes. Returns 0
    /// if the output belongs to a pool.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Returns true if the output holds a buffer of class `Out` or `BigOut`, which another session could use.
    pub fn holds_lent(&self) -> bool {
        self.reserved == 0 || self.is_lent()
    }

    /// Creates an output that collects replies. It belongs to no pool and is never sent itself. It has no room until
    /// [`OutBuffer::make_room`] is called.
    pub(crate) fn beside(budget: &Arc<Budget>) -> Self {
        let grant = Grant::none(budget, budget::MemoryUse::Replies);
        Self { grant: Some(grant), ..Self::without_times(Box::default()) }
    }

    /// Returns the number of bytes that can still be appended. Returns 0 if the output cannot hold the times of
    /// [`OPS_TOGETHER_MAX`] more operations. A command can therefore check both limits at once before it begins.
    #[inline]
    pub fn room(&self) -> usize {
        if self.ops.len() > OPS_MAX - OPS_TOGETHER_MAX { 0 } else { self.block.len() - self.len }
    }

    /// Returns the number of bytes that fit into the empty buffer. For a longer reply, the command returns
    /// [`crate::visit::progress::SessionWait::OutputFull`] with `want`.
    pub fn capacity(&self) -> usize {
        self.block.len()
    }

    /// Returns true if the output contains no bytes and no pins.
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

    /// Returns the free bytes, to be written in place. The caller then records the number of written bytes with
    /// [`OutBuffer::advance`].
    #[inline]
    pub fn spare(&mut self) -> &mut [u8] {
        &mut self.block[self.len..]
    }

    /// Records that the first `bytes` of [`OutBuffer::spare`] have been written.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.block.len() - self.len, "more bytes were written than there was room for");
        self.len += bytes;
    }

    /// Returns the current end of the bytes, for [`OutBuffer::truncate`].
    #[inline]
    pub fn mark(&self) -> usize {
        self.len
    }

    /// Discards all collected bytes.
    pub(crate) fn discard(&mut self) {
        self.full.clear();
        (self.full_bytes, self.full_held, self.len) = (0, 0, 0);
        self.recount();
    }

    /// Discards the bytes that were appended since `mark`. No value may have been pinned or sent since.
    pub fn truncate(&mut self, mark: usize) {
        assert!(
            mark <= self.len && self.pins_len.checked_sub(1).is_none_or(|i| self.pin_at(i) <= mark),
            "a stale mark"
        );
        self.len = mark;
    }

    /// Returns the bytes that were appended since `mark`. No value may have been pinned since.
    pub(crate) fn since(&self, mark: usize) -> &[u8] {
        &self.block[mark..self.len]
    }

    /// Ensures room for `bytes` bytes, with a new block if necessary. Returns false if client memory is used up.
    /// Earlier marks become invalid. May be called only on an output that collects replies.
    pub(crate) fn make_room(&mut self, bytes: usize) -> bool {
        if self.block.len() - self.len >= bytes {
            return true;
        }
        let is_first = self.block.is_empty() && self.full.is_empty();
        let usual = if is_first { bytes } else { bytes.max(COLLECTOR_BYTES) };
        for block_bytes in [usual, bytes] {
            let held = self.held_with(block_bytes);
            if self.grant.as_mut().is_none_or(|grant| grant.bytes() >= held || grant.resize(held)) {
                self.add_block(block_bytes);
                return true;
            }
        }
        false
    }

    /// Ensures that the output has room for `bytes` bytes, even if client memory is used up. Used for the reply of an
    /// operation that has begun and must be completed.
    pub(crate) fn force_room(&mut self, bytes: usize) {
        if self.block.len() - self.len < bytes {
            let held = self.held_with(bytes);
            if let Some(grant) = &mut self.grant {
                grant.force(held);
            }
            self.add_block(bytes);
        }
    }

    /// Returns the memory of all blocks in bytes, if a block of `bytes` bytes is added.
    fn held_with(&self, bytes: usize) -> u64 {
        let retired = if self.len < self.block.len() / 2 { self.len } else { self.block.len() };
        (self.full_held + retired + bytes) as u64
    }

    fn add_block(&mut self, bytes: usize) {
        self.finish_block();
        // The allocator obtains zeroed memory from the kernel, which provides each page only when it is first written.
        self.block = vec![0; bytes].into_boxed_slice();
        self.recount();
    }

    /// Returns the memory of all blocks, in bytes.
    pub(crate) fn held(&self) -> u64 {
        (self.full_held + self.block.len()) as u64
    }

    /// Adjusts the grant to the memory of all blocks, and returns the unused part to client memory.
    fn recount(&mut self) {
        let held = self.held();
        if let Some(grant) = &mut self.grant {
            grant.shrink(held);
        }
    }

    /// Appends a block without copying it. Earlier marks become invalid. May be called only on an output that collects
    /// replies.
    pub(crate) fn push_block(&mut self, block: Vec<u8>) {
        self.finish_block();
        (self.full_bytes, self.full_held) = (self.full_bytes + block.len(), self.full_held + block.capacity());
        self.full.push_back(block);
        let held = self.held();
        if let Some(grant) = &mut self.grant {
            grant.force(held);
        }
    }

    /// Reserves a place for a header whose contents are not known yet. [`OutBuffer::fill_head`] writes the header
    /// later. May be called only on an output that collects replies.
    pub(crate) fn reserve_head(&mut self) -> HeadPlace {
        self.push_block(Vec::new());
        HeadPlace(self.full.len() - 1)
    }

    /// Writes the head at a reserved place.
    pub(crate) fn fill_head(&mut self, place: HeadPlace, bytes: &[u8]) {
        let block = &mut self.full[place.0];
        let before = block.capacity();
        block.extend_from_slice(bytes);
        self.full_bytes += bytes.len();
        self.full_held += block.capacity() - before;
    }

    /// Discards a reserved place and all bytes that were appended after it.
    pub(crate) fn cut_to_head(&mut self, place: HeadPlace) {
        self.retain_blocks(place.0);
        self.len = 0;
    }

    fn retain_blocks(&mut self, count: usize) {
        self.full.truncate(count);
        self.full_bytes = self.full.iter().map(Vec::len).sum();
        self.full_held = self.full.iter().map(Vec::capacity).sum();
        self.recount();
    }

    /// Returns the position of the current end of the collected bytes, for [`OutBuffer::cut_to_spot`]. The position
    /// stays valid while more bytes are appended.
    pub(crate) fn spot(&self) -> Position {
        Position { full: self.full.len(), len: self.len }
    }

    /// Returns the beginning of the bytes that were collected after a spot.
    pub(crate) fn after(&self, spot: Position) -> &[u8] {
        let full = self.full.get(spot.full).map_or(&[][..], |block| &block[spot.len.min(block.len())..]);
        match (self.full.len() == spot.full, full.is_empty()) {
            (true, _) => &self.block[spot.len..self.len],
            (false, false) => full,
            (false, true) => self.full.get(spot.full + 1).map_or(&self.block[..self.len], Vec::as_slice),
        }
    }

    /// Discards all bytes that were collected after a spot.
    pub(crate) fn cut_to_spot(&mut self, spot: Position) {
        if self.full.len() == spot.full {
            self.len = spot.len;
            return;
        }
        // The block of the spot has become full since.
        self.len = 0;
        if spot.len > 0
            && let Some(block) = self.full.get_mut(spot.full)
        {
            block.truncate(spot.len);
            self.retain_blocks(spot.full + 1);
        } else {
            self.retain_blocks(spot.full);
        }
    }

    /// Returns the number of collected bytes.
    pub(crate) fn collected(&self) -> usize {
        self.full_bytes + self.len
    }

    /// Moves the current block to the full blocks.
    pub(crate) fn finish_block(&mut self) {
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

    /// Returns the bytes of the first full block. The caller has finished the current block.
    pub(crate) fn first(&self) -> &[u8] {
        self.full.front().map_or(&[], |block| &block[..])
    }

    /// Discards the first full block.
    pub(crate) fn drop_first(&mut self) {
        if let Some(block) = self.full.pop_front() {
            self.full_bytes -= block.len();
            self.full_held -= block.capacity();
            self.recount();
        }
    }

    /// Returns this output's share of client memory to the budget, but retains the block until the output is used
    /// again.
    pub(crate) fn rest(&mut self) {
        if let Some(grant) = &mut self.grant {
            grant.shrink(0);
        }
    }

    /// Charges the retained blocks to client memory again. Returns false if client memory is used up.
    pub(crate) fn renew_charge(&mut self) -> bool {
        let bytes = self.held();
        self.grant.as_mut().is_none_or(|grant| grant.bytes() == bytes || grant.resize(bytes))
    }

    /// Returns true if this output can pin another value.
    #[inline]
    pub fn has_pin_room(&self) -> bool {
        self.pins_len < PINS_MAX
    }

    /// Returns true if this output can pin another whole value of `bytes` bytes.
    #[inline]
    pub fn has_pin_room_for(&self, bytes: usize) -> bool {
        self.has_pin_room() && (self.is_empty() || self.total() + bytes as u64 <= PINNED_BYTES_MAX)
    }

    /// Returns true if this output can pin another value of `bytes` bytes in pieces. Together with other values, it
    /// must not exceed what is copied out for a slow reader; alone, it may have any length.
    #[inline]
    pub fn has_pin_room_for_large(&self, bytes: u64) -> bool {
        self.has_pin_room() && (self.pins_len == 0 || self.total() + bytes <= PINNED_BYTES_MAX)
    }

    /// Appends a value without copying it. The output must have room for a pin ([`OutBuffer::has_pin_room`]), and
    /// [`crate::context::WorkerContext::pin_budget`] must have granted the value's charge. The worker releases both
    /// after the send.
    pub fn push_pinned(&mut self, pinned: Pinned) {
        self.pinned_bytes += pinned.bytes();
        self.pins[self.pins_len] = Some(Pin { at: self.len, pinned });
        self.pins_len += 1;
    }

    fn pin_at(&self, index: usize) -> usize {
        self.pins[index].as_ref().map_or(0, |pin| pin.at)
    }

    /// Returns the number of bytes in the store that this output pins. The store cannot reuse these bytes before the
    /// output has been sent.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// Returns the length of the whole output in bytes, sent or not.
    fn total(&self) -> u64 {
        self.len as u64 + self.pinned_bytes
    }

    /// Returns the unsent bytes, if no values are pinned between them.
    #[inline]
    pub fn plain(&self) -> Option<&[u8]> {
        (self.pins_len == 0).then(|| &self.block[self.sent as usize..self.len])
    }

    /// Returns true if the output has room for another batch of operations before it is sent.
    #[inline]
    pub fn has_batch_room(&self) -> bool {
        self.ops.len() + OPS_A_BATCH <= OPS_MAX && self.len <= self.block.len() / 2 && self.pins_len == 0
    }

    /// Fills `parts` with the next unsent parts, at most `bytes_max` bytes together. Returns the number of parts.
    pub fn parts<'s>(&'s self, store: &'s Store, parts: &mut [IoSlice<'s>; PARTS_MAX], bytes_max: usize) -> usize {
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

    /// Returns the number of unsent bytes.
    pub fn unsent(&self) -> u64 {
        self.total() - self.sent
    }

    /// Returns a copy of the unsent bytes and marks them as sent.
    pub fn take_unsent(&mut self, store: &Store) -> Vec<u8> {
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

    /// Copies the unsent bytes into `block`, which is lent to this output from then on, and releases the pins. Returns
    /// the longer block that was lent before, if any.
    pub fn copy_out(
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
            unpin(pin.take().expect("the first pins_len pins exist").pinned);
        }
        (self.len, self.sent, self.pins_len, self.pinned_bytes) = (copied, 0, 0, 0);
        let old = std::mem::replace(&mut self.block, block);
        if self.own.is_some() {
            return Some(old);
        }
        self.own = Some(old);
        None
    }

    /// Records that the kernel has accepted `bytes` more bytes for sending. Returns true if the whole output is sent;
    /// the caller then clears the buffer.
    pub fn advance_sent(&mut self, bytes: usize) -> bool {
        self.sent += bytes as u64;
        assert!(self.sent <= self.total(), "more bytes were sent than the output contains");
        self.sent == self.total()
    }

    /// Empties the buffer: discards its bytes, and calls `unpin` with each pinned value to release the pin.
    pub fn clear(&mut self, mut unpin: impl FnMut(Pinned)) {
        for pin in &mut self.pins[..self.pins_len] {
            unpin(pin.take().expect("the first pins_len pins exist").pinned);
        }
        (self.len, self.sent, self.pins_len, self.pinned_bytes) = (0, 0, 0, 0);
        self.ops.clear();
    }

    /// Replaces the block by a longer one that is lent to this output. The buffer must be empty.
    pub fn lend(&mut self, block: Box<[u8]>) {
        assert!(self.is_empty() && self.own.is_none(), "bytes or a block would be lost");
        self.own = Some(std::mem::replace(&mut self.block, block));
    }

    /// Returns true if a longer block is lent to this output.
    pub fn is_lent(&self) -> bool {
        self.own.is_some()
    }

    /// Returns the lent block, if any, and uses the output's own block again. The buffer must be empty.
    pub fn take_lent(&mut self) -> Option<Box<[u8]>> {
        assert!(self.is_empty(), "bytes would be lost");
        let own = self.own.take()?;
        Some(std::mem::replace(&mut self.block, own))
    }

    pub(crate) fn push_op(&mut self, op: OpTimes) {
        assert!(self.ops.len() < OPS_MAX, "an operation began without room for its times");
        self.ops.push(op);
    }

    /// Returns the times of the operations whose replies are in this output.
    pub fn ops(&self) -> &[OpTimes] {
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

/// A collector of the unsent slices of an output, for one send.
struct Gather<'p, 's> {
    skip: u64,
    /// The number of bytes that may still be collected.
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
