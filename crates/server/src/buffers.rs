//! The buffers of one worker: made at start, lent while there is something in them, never grown.
//!
//! | class | bytes each | lent to |
//! |---|---|---|
//! | `Small` | 16 KiB | a session whose bytes have arrived, until its last whole request is consumed |
//! | `Big` | [`Sizes::big_bytes`] | a session whose request is longer than that |
//! | `Out` | 32 KiB | a session that has something to say, until the peer's socket has taken it |
//! | `BigOut` | [`Sizes::big_bytes`] | a session whose next reply is longer than that |
//!
//! Idle connections hold none. The free ones are stacks: the one used last is the one still in the cache.
//!
//! Who holds a buffer may wait for one of a class further down in the table, never further up: so among the waiting
//! there is always one whom only its peer can hold up, and a peer that does so is dropped after the stall timeout.

use crate::context::LINE_BYTES_MAX;
use crate::out::OutBuffer;

/// Bytes of an ordinary receive buffer.
pub const SMALL_BYTES: usize = 16 << 10;
/// Bytes of an ordinary output buffer.
pub const OUT_BYTES: usize = 32 << 10;
/// Least bytes of a big buffer.
pub const BIG_BYTES_MIN: usize = 256 << 10;

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
            small_count: sessions_max.min(512),
            out_count: sessions_max.min(128),
            big_count: sessions_max.min(16),
            big_out_count: sessions_max.min(8),
            big_bytes,
        }
    }

    /// Bytes of all buffers together: what a worker adds to the store's memory.
    pub fn bytes(&self) -> usize {
        self.small_count * SMALL_BYTES
            + self.out_count * OUT_BYTES
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
