//! The buffers of one worker: made at start, lent while there is something in them, never grown.
//!
//! | class | bytes each | lent to |
//! |---|---|---|
//! | `Small` | 16 KiB | a session whose bytes have arrived, until its last whole request is consumed |
//! | `Big` | [`Sizes::big_bytes`] | a session whose request is longer than that |
//! | `Out` | 32 KiB | a session that has something to say, until the peer's socket has taken it |
//! | `BigOut` | [`Sizes::big_bytes`] | a session whose next reply is longer than that, or half of them: slow readers |
//!
//! Idle connections hold none. The free ones are stacks: the one used last is the one still in the cache.
//!
//! Who holds a buffer may wait for one of a class further down in the table, never further up: so among the waiting
//! there is always one whom only its peer can hold up, and a peer that does so is dropped after the stall timeout.

use crate::context::LINE_BYTES_MAX;
use crate::out::{OPS_MAX, OpTimes, OutBuffer};

/// Bytes of an ordinary receive buffer.
pub const SMALL_BYTES: usize = 16 << 10;
/// Bytes of an ordinary output buffer.
pub const OUT_BYTES: usize = 32 << 10;
/// Least bytes of a big buffer.
pub const BIG_BYTES_MIN: usize = 256 << 10;

/// What a worker's buffers take at most on top of the store's memory, with segments of up to 2 MiB. With larger ones,
/// the big buffers grow with the pieces of large values: see [`Sizes::bytes`].
pub const BYTES_A_WORKER_MAX: usize = 16 << 20;

/// What an idle connection takes, in bytes: it holds no buffer. With io_uring, 128 bytes more.
pub const BYTES_A_CONNECTION_MAX: usize = 1 << 10;

/// How many buffers of each class there are, and how large the big ones are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Ordinary receive buffers.
    pub small_count: usize,
    /// Ordinary output buffers.
    pub out_count: usize,
    /// Big receive buffers.
    pub big_count: usize,
    /// Big output buffers.
    pub big_out_count: usize,
    /// Bytes of a big buffer: the longest thing that must lie in one piece.
    pub big_bytes: usize,
}

impl Sizes {
    /// For a worker with at most `sessions_max` connections over a store whose longest value in one piece (a whole
    /// value, or a piece of a large one) is `piece_bytes_max`.
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

    /// Bytes of all buffers together: what a worker adds to the store's memory once each was in use.
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
    /// Its place in a table by class.
    pub(crate) const fn slot(self) -> usize {
        self as usize
    }
}

/// The free buffers of one worker.
pub(crate) struct Buffers {
    small: Vec<Box<[u8]>>,
    big: Vec<Box<[u8]>>,
    /// Boxed, since a session takes one over: a pointer moves, not the pins' table.
    #[allow(clippy::vec_box)]
    outs: Vec<Box<OutBuffer>>,
    big_outs: Vec<Box<[u8]>>,
    sizes: Sizes,
}

/// Received bytes that have not been consumed.
#[derive(Debug)]
pub(crate) struct Input {
    block: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Input {
    pub(crate) fn new(block: Box<[u8]>) -> Self {
        Self { block, from: 0, to: 0 }
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

    /// Free room behind the bytes, which move to the front first if that makes room for `want` of them.
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

    /// The same bytes in a larger block; returns the old one.
    pub(crate) fn exchange(&mut self, mut block: Box<[u8]>) -> Box<[u8]> {
        let len = self.len();
        block[..len].copy_from_slice(self.bytes());
        (self.from, self.to) = (0, len);
        std::mem::replace(&mut self.block, block)
    }

    pub(crate) fn into_block(self) -> Box<[u8]> {
        self.block
    }
}

impl Buffers {
    pub(crate) fn new(sizes: Sizes) -> Self {
        let blocks = |count, bytes| (0..count).map(|_| vec![0u8; bytes].into_boxed_slice()).collect::<Vec<_>>();
        let outs = blocks(sizes.out_count, OUT_BYTES).into_iter().map(|b| Box::new(OutBuffer::new(b))).collect();
        Self {
            small: blocks(sizes.small_count, SMALL_BYTES),
            big: blocks(sizes.big_count, sizes.big_bytes),
            outs,
            big_outs: blocks(sizes.big_out_count, sizes.big_bytes),
            sizes,
        }
    }

    /// How many of `class` are free.
    pub(crate) fn free(&self, class: Class) -> usize {
        match class {
            Class::Small => self.small.len(),
            Class::Big => self.big.len(),
            Class::Out => self.outs.len(),
            Class::BigOut => self.big_outs.len(),
        }
    }

    /// Takes a receive block that holds `bytes`, or says which class has none left.
    pub(crate) fn take_input(&mut self, bytes: usize) -> Result<Box<[u8]>, Class> {
        assert!(bytes <= self.sizes.big_bytes, "no block is that long");
        if bytes <= SMALL_BYTES { self.small.pop().ok_or(Class::Small) } else { self.big.pop().ok_or(Class::Big) }
    }

    /// Takes the block for an output that needs more than its own, if more than half of them are left after that: for a
    /// copy that nobody waits for.
    pub(crate) fn take_spare_big_out(&mut self) -> Option<Box<[u8]>> {
        if self.big_outs.len() > self.sizes.big_out_count / 2 { self.big_outs.pop() } else { None }
    }

    /// Gives such a block back.
    pub(crate) fn put_big_out(&mut self, block: Box<[u8]>) {
        debug_assert_eq!(block.len(), self.sizes.big_bytes, "a block of no class");
        self.big_outs.push(block);
    }

    /// Takes the block for an output that needs more than its own.
    pub(crate) fn take_big_out(&mut self) -> Option<Box<[u8]>> {
        self.big_outs.pop()
    }

    /// Gives a receive block back to the class that its length names.
    pub(crate) fn put_input(&mut self, block: Box<[u8]>) {
        if block.len() == SMALL_BYTES {
            self.small.push(block);
        } else {
            debug_assert_eq!(block.len(), self.sizes.big_bytes, "a block of no class");
            self.big.push(block);
        }
    }

    pub(crate) fn take_out(&mut self) -> Option<Box<OutBuffer>> {
        self.outs.pop()
    }

    /// Takes an empty output buffer back, and the big block that was lent to it.
    pub(crate) fn put_out(&mut self, mut out: Box<OutBuffer>) {
        if let Some(block) = out.take_lent() {
            self.big_outs.push(block);
        }
        self.outs.push(out);
    }

    /// How many are lent.
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
    fn bytes_keep_their_order_when_they_move_to_the_front_and_to_a_longer_block() {
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
        assert_eq!(input.exchange(vec![0; 16].into_boxed_slice()).len(), 8);
        assert_eq!(input.bytes(), b"fghijkl");
        assert_eq!(input.room(8).len(), 9);
    }

    #[test]
    fn a_lent_block_comes_back_to_its_own_class() {
        let sizes = Sizes::new(3, 100_000);
        let mut buffers = Buffers::new(sizes);
        let small = buffers.take_input(SMALL_BYTES).unwrap();
        let big = buffers.take_input(SMALL_BYTES + 1).unwrap();
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
        let mut buffers = Buffers::new(Sizes { small_count: 1, big_count: 0, ..Sizes::new(1, 0) });
        assert!(buffers.take_input(1).is_ok());
        assert_eq!(buffers.take_input(1), Err(Class::Small));
        assert_eq!(buffers.take_input(SMALL_BYTES + 1), Err(Class::Big));
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
