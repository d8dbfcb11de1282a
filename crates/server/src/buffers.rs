//! The buffers of one worker: created at start, lent to a session while the buffer holds bytes, never grown.
//!
//! | class | bytes each | lent to |
//! |---|---|---|
//! | `Small` | 16 KiB | a session with received bytes, until its last complete request is consumed |
//! | `Big` | [`Sizes::big_bytes`] | a session whose request is longer than 16 KiB |
//! | `Out` | 32 KiB | a session with output, until the peer's socket has accepted it |
//! | `BigOut` | [`Sizes::big_bytes`] | a session whose next reply is longer; half of the class also to slow readers |
//!
//! Idle connections hold no buffer. The free buffers of a class form a stack: a session gets the buffer that was used
//! last, which is still in the CPU cache.
//!
//! The maximum time for which a buffer is lent:
//!
//! | class | lent | then |
//! |---|---|---|
//! | `Small`, `Big` | while the session is served, and [`LENT_NS_MAX`] longer | its bytes are set aside |
//! | the same, another session waits | while the session is served | its bytes are set aside at once |
//! | `Out`, `BigOut`, the peer reads | until all output is sent | the buffer is free |
//! | the same, the peer does not read | until another session waits | the unsent bytes are set aside at once |
//!
//! Bytes that are set aside are moved to an allocation of their size, which the session owns. The session is served
//! from that allocation, and receives into its free space. All such allocations of a worker are reserved and released
//! in one place ([`Buffers::reserve`], [`Buffers::release`]) and use at most [`aside_bytes_max`]. If that limit is
//! reached and another session waits, the sessions that were set aside first are closed until the reservation fits. A
//! client with an incomplete request gets an error; a client that does not read gets none. If the waiting session needs
//! a `BigOut`, a reader is closed only after [`READER_GRACE_NS`], because many clients may read long replies slowly. So
//! a peer that sends or reads slowly cannot keep a buffer that another session needs. `worker/hold.rs` applies these
//! rules.
//!
//! A session that holds a buffer may wait for a buffer of a class further down in the first table, never further up.

use crate::shared::Shared;
use command::clients::client_info::CONNECTION_BYTES_MAX;
use command::context::{INPUT_BYTES, LINE_BYTES_MAX};
use command::memory::budget::{Budget, MemoryUse, SetAside};
use command::visit::out::{BIG_BYTES_MIN, OPS_MAX, OUT_BYTES, OpTimes, OutBuffer};
use std::sync::Arc;

/// The size of an ordinary receive buffer, in bytes.
pub const SMALL_BYTES: usize = INPUT_BYTES;

/// The maximum memory of a worker's buffers, in bytes, with segments of up to 2 MiB. It is not part of the store's
/// memory. With larger segments, the big buffers are as long as a piece of a large value requires: see
/// [`Sizes::bytes`].
pub const BYTES_A_WORKER_MAX: usize = 16 << 20;

/// The maximum memory of an idle connection, in bytes. Such a connection holds no buffer. With io_uring, 128 bytes are
/// added.
pub const BYTES_A_CONNECTION_MAX: usize = CONNECTION_BYTES_MAX;

/// The time for which a session that is not being served keeps a receive buffer, in ns.
pub const LENT_NS_MAX: u64 = 2_000_000;

/// The time that a reader of a long reply has to read it, in ns, if other sessions wait for a `BigOut` buffer and no
/// memory is left.
pub const READER_GRACE_NS: u64 = 1_000_000_000;

/// The range of the bytes that all workers together may set aside.
const ASIDE_BYTES: std::ops::RangeInclusive<u64> = 4 << 20..=64 << 20;

/// The minimum spare room in the allocation for a request of unknown length that is set aside. The allocation also has
/// room for half of the bytes received so far. So a peer that sends byte by byte does not cause a copy for each byte.
const ASIDE_ROOM: usize = 64;

/// Approximate overhead of an allocation, in bytes.
const ALLOCATION_OVERHEAD: u64 = 32;

/// Returns the maximum number of bytes that one of `workers` sets aside, in a server of `memory_bytes`.
pub fn aside_bytes_max(memory_bytes: u64, workers: usize) -> u64 {
    (memory_bytes / 16).clamp(*ASIDE_BYTES.start(), *ASIDE_BYTES.end()) / workers.max(1) as u64
}

/// The number of buffers of each class, and the size of the big ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The number of ordinary receive buffers.
    pub small_count: usize,
    /// The number of ordinary output buffers.
    pub out_count: usize,
    /// The number of big receive buffers.
    pub big_count: usize,
    /// The number of big output buffers.
    pub big_out_count: usize,
    /// The size of a big buffer, in bytes: the longest value or request that must be contiguous.
    pub big_bytes: usize,
}

impl Sizes {
    /// Returns the numbers and sizes of buffers for a worker with at most `sessions_max` connections, over a store
    /// whose longest contiguous value has `piece_bytes_max` bytes. Such a value is a complete value, or a piece of a
    /// large value.
    pub fn new(sessions_max: usize, piece_bytes_max: usize) -> Self {
        let head = 4 << 10;
        let big_bytes = BIG_BYTES_MIN.max((piece_bytes_max + head).next_multiple_of(4096)).max(LINE_BYTES_MAX + head);
        Self {
            small_count: sessions_max.min(256),
            out_count: sessions_max.min(128),
            big_count: sessions_max.min(16),
            big_out_count: sessions_max.min(8),
            big_bytes,
        }
    }

    /// Returns the size of all buffers, in bytes. A worker uses this memory in addition to the store's once each buffer
    /// was used.
    pub fn bytes(&self) -> usize {
        self.small_count * SMALL_BYTES
            + self.out_count * (OUT_BYTES + size_of::<OutBuffer>() + OPS_MAX * size_of::<OpTimes>())
            + (self.big_count + self.big_out_count) * self.big_bytes
    }
}

/// A kind of buffer that a session can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Small,
    Big,
    Out,
    BigOut,
}

/// All classes, in the order of [`Class::slot`].
pub(crate) const CLASSES: [Class; 4] = [Class::Small, Class::Big, Class::Out, Class::BigOut];

impl Class {
    /// Returns the class's index in a table with an entry for each class.
    pub(crate) const fn slot(self) -> usize {
        self as usize
    }
}

/// The free buffers of one worker.
pub(crate) struct Buffers {
    small: Vec<Box<[u8]>>,
    big: Vec<Box<[u8]>>,
    /// The free output buffers. They are boxed, so that lending an output to a session moves a pointer and not the
    /// output's table of pins.
    #[allow(clippy::vec_box)]
    outs: Vec<Box<OutBuffer>>,
    big_outs: Vec<Box<[u8]>>,
    sizes: Sizes,
    aside: Arc<SetAside>,
    budget: Arc<Budget>,
    aside_bytes_max: u64,
}

/// Received bytes that have not been consumed, in a lent block or in an allocation for bytes that are set aside.
#[derive(Debug)]
pub(crate) struct Input {
    block: Box<[u8]>,
    from: usize,
    to: usize,
    is_aside: bool,
}

impl Input {
    /// Creates an empty input in a lent block.
    pub(crate) fn new(block: Box<[u8]>) -> Self {
        Self { block, from: 0, to: 0, is_aside: false }
    }

    /// Returns true if the input's block is lent from the worker's pool.
    pub(crate) fn is_lent(&self) -> bool {
        !self.is_aside
    }

    /// Returns the class of the input's block, or `None` if the block is not lent.
    pub(crate) fn class(&self) -> Option<Class> {
        self.is_lent().then_some(if self.block.len() == SMALL_BYTES { Class::Small } else { Class::Big })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.block[self.from..self.to]
    }

    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }

    pub(crate) fn capacity(&self) -> usize {
        self.block.len()
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "more was consumed than was there");
        self.from += bytes;
    }

    /// Returns the free space after the unconsumed bytes. First moves these bytes to the front if no space is free
    /// after them, or if a request of `want` bytes that begins with them would not fit.
    pub(crate) fn room(&mut self, want: usize) -> &mut [u8] {
        if self.from > 0 && (self.to == self.block.len() || self.from + want > self.block.len()) {
            self.block.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        &mut self.block[self.to..]
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.to += bytes;
        assert!(self.to <= self.block.len(), "more was received than there was room for");
    }

    /// Moves the received bytes to another lent block. Returns the input that contained the bytes, for
    /// [`Buffers::put_input`].
    pub(crate) fn exchange(&mut self, block: Box<[u8]>) -> Self {
        self.replace(Self::new(block))
    }

    /// Moves the received bytes into `to`, which is empty and replaces this input. Returns the old input.
    fn replace(&mut self, mut to: Self) -> Self {
        let len = self.len();
        to.block[..len].copy_from_slice(self.bytes());
        to.to = len;
        std::mem::replace(self, to)
    }
}

impl Buffers {
    /// Creates the buffers of worker `number`.
    pub(crate) fn of_worker(sizes: Sizes, shared: &Shared, number: usize) -> Self {
        let aside_bytes_max = aside_bytes_max(shared.config.memory_bytes, shared.workers.len());
        Self::new(sizes, Arc::clone(&shared.workers[number].aside), aside_bytes_max, &shared.budget)
    }

    /// Creates the buffers of a worker that sets at most `aside_bytes_max` bytes aside, and counts them in `aside` and
    /// in `budget`.
    pub(crate) fn new(sizes: Sizes, aside: Arc<SetAside>, aside_bytes_max: u64, budget: &Arc<Budget>) -> Self {
        let blocks = |count, bytes| (0..count).map(|_| vec![0u8; bytes].into_boxed_slice()).collect::<Vec<_>>();
        let outs = blocks(sizes.out_count, OUT_BYTES).into_iter().map(|b| Box::new(OutBuffer::new(b))).collect();
        Self {
            small: blocks(sizes.small_count, SMALL_BYTES),
            big: blocks(sizes.big_count, sizes.big_bytes),
            outs,
            big_outs: blocks(sizes.big_out_count, sizes.big_bytes),
            sizes,
            budget: Arc::clone(budget),
            aside,
            aside_bytes_max,
        }
    }

    /// Reserves `bytes` for an allocation outside the pools. Returns false if the total would exceed `bytes_max`.
    fn reserve(&self, bytes: u64, bytes_max: u64) -> bool {
        let fits = self.aside.bytes() + bytes <= bytes_max;
        if fits {
            self.aside.add_bytes(bytes);
            // Only the worker's own limit applies here, so that the memory of other clients never causes slow clients
            // of this worker to be closed. The bytes still count in client memory, so that requests of other clients
            // are refused sooner.
            self.budget.take(MemoryUse::Requests, bytes);
        }
        fits
    }

    /// Releases bytes that [`Buffers::reserve`] reserved.
    fn release(&self, bytes: u64) {
        debug_assert!(bytes <= self.aside.bytes(), "more is released than was reserved");
        self.aside.add_bytes(bytes.wrapping_neg());
        self.budget.release(MemoryUse::Requests, bytes);
    }

    /// Moves the bytes of `input` from its lent block into an allocation of their size. If `receives`, the allocation
    /// has room for the rest of a request that needs `want` bytes (0: unknown). Returns false and does nothing if the
    /// limit of bytes set aside is reached.
    pub(crate) fn set_input_aside(&mut self, input: &mut Input, want: usize, receives: bool) -> bool {
        debug_assert!(input.is_lent() && input.len() > 0, "nothing is lent, or nothing is there");
        let len = input.len();
        let ample = (len + len / 2 + ASIDE_ROOM).min(self.sizes.big_bytes);
        let bytes = match want {
            _ if !receives => len,
            want if want > len && want <= 2 * ample => want,
            _ => ample,
        };
        if !self.reserve(bytes as u64 + ALLOCATION_OVERHEAD, self.aside_bytes_max) {
            return false;
        }
        let lent = input.replace(Input { is_aside: true, ..Input::new(vec![0; bytes].into_boxed_slice()) });
        self.aside.add_inputs(1);
        self.put_input(lent);
        true
    }

    /// Moves the unsent bytes of `out` into an output of their size, and takes back the lent blocks. Returns `out`
    /// unchanged if the limit of bytes set aside is reached. Outputs with a lent big block may use only half of the
    /// limit.
    pub(crate) fn set_output_aside(&mut self, mut out: Box<OutBuffer>) -> Result<Box<OutBuffer>, Box<OutBuffer>> {
        let bytes = out.bytes_aside() + ALLOCATION_OVERHEAD;
        if !self.reserve(bytes, self.aside_bytes_max / if out.is_lent() { 2 } else { 1 }) {
            return Err(out);
        }
        let aside = Box::new(out.move_aside(bytes));
        self.aside.add_outputs(1);
        self.put_out(out);
        Ok(aside)
    }

    /// Creates an output with bytes that the previous process had not sent when this process took over. Returns `None`
    /// if client memory is used up. The worker's own limit for slow clients does not apply, because a takeover happens
    /// once.
    pub(crate) fn output_of(&mut self, bytes: &[u8]) -> Option<Box<OutBuffer>> {
        let reserved = (size_of::<OutBuffer>() + bytes.len()) as u64 + ALLOCATION_OVERHEAD;
        let fits = self.budget.used() + reserved <= self.budget.bytes_max();
        if !fits || !self.reserve(reserved, u64::MAX) {
            return None;
        }
        self.aside.add_outputs(1);
        Some(Box::new(OutBuffer::aside(bytes, reserved)))
    }

    /// Returns the number of free buffers of `class`.
    pub(crate) fn free(&self, class: Class) -> usize {
        match class {
            Class::Small => self.small.len(),
            Class::Big => self.big.len(),
            Class::Out => self.outs.len(),
            Class::BigOut => self.big_outs.len(),
        }
    }

    /// Takes a receive block with room for `bytes`. If the class of that size has no free block, returns the class as
    /// the error.
    pub(crate) fn take_input(&mut self, bytes: usize) -> Result<Box<[u8]>, Class> {
        assert!(bytes <= self.sizes.big_bytes, "no block is that long");
        if bytes <= SMALL_BYTES { self.small.pop().ok_or(Class::Small) } else { self.big.pop().ok_or(Class::Big) }
    }

    /// Takes a big block for an output whose own block is too small, if more than half of the big blocks remain free.
    /// Used for a copy that can be postponed.
    pub(crate) fn take_spare_big_out(&mut self) -> Option<Box<[u8]>> {
        if self.big_outs.len() > self.sizes.big_out_count / 2 { self.big_outs.pop() } else { None }
    }

    /// Returns a big output block to its class.
    pub(crate) fn put_big_out(&mut self, block: Box<[u8]>) {
        debug_assert_eq!(block.len(), self.sizes.big_bytes, "a block of no class");
        self.big_outs.push(block);
    }

    /// Takes a big block for an output whose own block is too small.
    pub(crate) fn take_big_out(&mut self) -> Option<Box<[u8]>> {
        self.big_outs.pop()
    }

    /// Takes back an input's block: returns a lent block to its class, and frees an allocation for bytes that were set
    /// aside.
    pub(crate) fn put_input(&mut self, input: Input) {
        match input.class() {
            Some(Class::Small) => self.small.push(input.block),
            Some(_) => {
                debug_assert_eq!(input.block.len(), self.sizes.big_bytes, "a block of no class");
                self.big.push(input.block);
            }
            None => {
                self.release(input.block.len() as u64 + ALLOCATION_OVERHEAD);
                self.aside.add_inputs(1u64.wrapping_neg());
            }
        }
    }

    pub(crate) fn take_out(&mut self) -> Option<Box<OutBuffer>> {
        self.outs.pop()
    }

    /// Takes back an empty output buffer, and the big block that was lent to this output.
    pub(crate) fn put_out(&mut self, mut out: Box<OutBuffer>) {
        if let Some(block) = out.take_lent() {
            self.big_outs.push(block);
        }
        match out.reserved() {
            0 => self.outs.push(out),
            bytes => {
                self.release(bytes);
                self.aside.add_outputs(1u64.wrapping_neg());
            }
        }
    }

    /// Returns the number of buffers that are lent.
    pub(crate) fn lent(&self) -> usize {
        let all = self.sizes.small_count + self.sizes.big_count + self.sizes.out_count + self.sizes.big_out_count;
        all - CLASSES.iter().map(|class| self.free(*class)).sum::<usize>()
    }

    pub(crate) fn big_bytes(&self) -> usize {
        self.sizes.big_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_stays_in_order_when_compacted_or_moved_to_a_longer_block() {
        let mut input = Input::new(vec![0; 8].into_boxed_slice());
        input.room(1)[..6].copy_from_slice(b"abcdef");
        input.received(6);
        input.consume(4);
        assert_eq!(input.room(3).len(), 2, "there is room for three in all: nothing moves");
        assert_eq!(input.room(5).len(), 6, "the bytes move to the front");
        input.room(5)[..6].copy_from_slice(b"ghijkl");
        input.received(6);
        assert_eq!(input.bytes(), b"efghijkl");
        input.consume(1);
        assert_eq!(input.exchange(vec![0; 16].into_boxed_slice()).capacity(), 8);
        assert_eq!(input.bytes(), b"fghijkl");
        assert_eq!(input.room(8).len(), 9);
    }

    #[test]
    fn block_returns_to_the_size_class_that_it_was_taken_from() {
        let sizes = Sizes::new(3, 100_000);
        let mut buffers = Buffers::new(sizes, Arc::default(), 0, &Budget::new(0, None));
        let small = Input::new(buffers.take_input(SMALL_BYTES).unwrap());
        let big = Input::new(buffers.take_input(SMALL_BYTES + 1).unwrap());
        let mut out = buffers.take_out().unwrap();
        out.lend(buffers.take_big_out().unwrap());
        assert_eq!((buffers.lent(), out.capacity()), (4, sizes.big_bytes));
        buffers.put_input(small);
        buffers.put_input(big);
        buffers.put_out(out);
        assert_eq!(buffers.lent(), 0);
        assert_eq!(buffers.take_out().unwrap().capacity(), OUT_BYTES);
        assert_eq!(CLASSES.map(|class| class.slot()), [0, 1, 2, 3]);
    }

    #[test]
    fn an_empty_pool_names_the_class_to_wait_for() {
        let sizes = Sizes { small_count: 1, big_count: 0, ..Sizes::new(1, 0) };
        let mut buffers = Buffers::new(sizes, Arc::default(), 0, &Budget::new(0, None));
        assert!(buffers.take_input(1).is_ok());
        assert_eq!(buffers.take_input(1), Err(Class::Small));
        assert_eq!(buffers.take_input(SMALL_BYTES + 1), Err(Class::Big));
    }

    /// Creates an input in a lent block, with `bytes` in it.
    fn received(buffers: &mut Buffers, bytes: &[u8]) -> Input {
        let mut input = Input::new(buffers.take_input(bytes.len()).unwrap());
        input.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        input.received(bytes.len());
        input
    }

    #[test]
    fn bytes_set_aside_are_reserved_once_and_released_whole() {
        let (sizes, aside) = (Sizes::new(4, 0), Arc::<SetAside>::default());
        let mut buffers = Buffers::new(sizes, Arc::clone(&aside), 100_000, &Budget::new(0, None));
        let mut half = received(&mut buffers, b"set h 0 0 100");
        half.consume(4);
        assert!(buffers.set_input_aside(&mut half, 30, true));
        assert_eq!((half.bytes(), half.capacity(), half.is_lent()), (&b"h 0 0 100"[..], 30, false));
        let mut whole = received(&mut buffers, b"get k\r\n");
        assert!(buffers.set_input_aside(&mut whole, 0, false));
        assert_eq!((whole.bytes(), whole.capacity()), (&b"get k\r\n"[..], 7));
        let mut long = received(&mut buffers, &vec![b'x'; 90_000]);
        assert!(!buffers.set_input_aside(&mut long, 0, true), "it is larger than what is left");
        assert_eq!((long.len(), long.is_lent(), buffers.lent()), (90_000, true, 1));
        let mut out = buffers.take_out().unwrap();
        out.lend(buffers.take_big_out().unwrap());
        out.push(&[b'r'; 1000]);
        assert!(!out.advance_sent(400));
        let Ok(mut out) = buffers.set_output_aside(out) else { panic!("600 bytes are too many") };
        assert_eq!((out.unsent(), out.plain().map(<[u8]>::len), buffers.lent()), (600, Some(600), 1));
        assert_eq!((aside.inputs(), aside.outputs()), (2, 1));
        assert!(out.advance_sent(600));
        out.clear(|_| {});
        buffers.put_out(out);
        for input in [half, whole, long] {
            buffers.put_input(input);
        }
        assert_eq!((aside.bytes(), aside.inputs(), aside.outputs(), buffers.lent()), (0, 0, 0, 0));
    }

    #[test]
    fn a_peer_that_sends_byte_by_byte_is_copied_a_few_times_in_all() {
        let sizes = Sizes::new(2, 0);
        let mut buffers = Buffers::new(sizes, Arc::default(), 1 << 20, &Budget::new(0, None));
        let (mut input, mut copied) = (received(&mut buffers, b"x"), 0);
        for _ in 0..200_000 {
            if input.is_lent() {
                copied += input.len();
                assert!(buffers.set_input_aside(&mut input, 0, true));
            }
            if input.len() == input.capacity() {
                copied += input.len();
                let block = buffers.take_input(input.len() + 1).unwrap();
                let old = input.exchange(block);
                buffers.put_input(old);
            }
            input.room(1)[0] = b'x';
            input.received(1);
        }
        assert!(copied < 1_600_000, "{copied} bytes were copied for 200,000");
    }

    #[test]
    fn the_buffers_of_a_worker_stay_below_the_stated_constant() {
        // 1 MiB segments have pieces of 128 KiB.
        assert!(Sizes::new(1_000_000, 128 << 10).bytes() <= BYTES_A_WORKER_MAX);
    }

    #[test]
    fn a_big_buffer_holds_the_longest_line_and_the_longest_piece() {
        for piece_bytes in [0, 1000, 300_000, 8 << 20] {
            let sizes = Sizes::new(10, piece_bytes);
            assert!(sizes.big_bytes > LINE_BYTES_MAX && sizes.big_bytes > piece_bytes);
        }
    }
}
