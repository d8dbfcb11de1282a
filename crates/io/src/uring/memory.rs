//! Memory lent to the kernel: buffers for received bytes, and blocks for bytes to send.
//!
//! ```text
//!   Inbound   [ ring: count x 16 B | buffer 0 | buffer 1 | ... ]     4 KiB each
//!     kernel's ──(completion)──> held by one stream, in a chain ──(bytes taken)──> kernel's, through the ring's tail
//!   Outbound  [ block 0 | block 1 | ... ]                            16 KiB each
//!     free ──(send)──> one stream's ──(the kernel has sent all of it)──> free
//! ```
//!
//! Invariants: a buffer belongs to the kernel or is held by one stream, never both; a block is free or belongs to one
//! stream. Both maps are allocated and touched completely at start. They live until the kernel has ended every
//! operation (the reactor's drop).

use arena::Map;
use io_uring::types::BufRingEntry;
use std::io;
use std::sync::atomic::{AtomicU16, Ordering::Release};

/// Length of a receive buffer in bytes.
pub const INBOUND_BYTES: usize = 4 << 10;
/// Maximum number of receive buffers.
pub const INBOUND_MAX: usize = 1024;
/// Minimum number of receive buffers.
const INBOUND_MIN: usize = 64;
/// Length of a send block in bytes.
pub const OUTBOUND_BYTES: usize = 16 << 10;
/// Maximum number of send blocks.
pub const OUTBOUND_MAX: usize = 128;
/// The number that means no buffer or no block.
pub(super) const NONE: u16 = u16::MAX;

const PAGE: usize = arena::PAGE_BYTES;
const _: () = assert!(INBOUND_MAX.is_power_of_two() && INBOUND_MIN.is_power_of_two() && INBOUND_MAX < NONE as usize);
const _: () = assert!(size_of::<BufRingEntry>() == 16 && OUTBOUND_MAX < NONE as usize);

/// The provided receive buffers of one ring.
pub(super) struct Inbound {
    map: Map,
    count: u16,
    tail: u16,
    /// Offset of buffer 0 in the map, in bytes.
    buffers_at: usize,
    /// For each held buffer, the next buffer of its chain, which was filled after it.
    next: Box<[u16]>,
    /// Number of bytes in each held buffer; 0 for a buffer that belongs to the kernel.
    len: Box<[u16]>,
    /// Number of buffers that belong to the kernel, which may fill them.
    lent: u16,
}

/// The buffers that one stream holds, the oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: u16,
    last: u16,
    count: u16,
    /// Bytes of the first buffer that were already taken.
    taken: u16,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, count: 0, taken: 0 };

    pub(super) fn count(self) -> u16 {
        self.count
    }
}

impl Inbound {
    /// Creates buffers for `streams_max` streams, and gives them all to the kernel.
    pub(super) fn new(streams_max: usize) -> io::Result<Self> {
        let count = streams_max.next_power_of_two().clamp(INBOUND_MIN, INBOUND_MAX);
        let buffers_at = (count * size_of::<BufRingEntry>()).next_multiple_of(PAGE);
        let map = Map::reserve(buffers_at + count * INBOUND_BYTES, false)?;
        map.populate(0, map.bytes())?;
        let zeros = || vec![0; count].into_boxed_slice();
        let mut made = Self { map, count: count as u16, tail: 0, buffers_at, next: zeros(), len: zeros(), lent: 0 };
        (0..count as u16).for_each(|buffer| made.give(buffer));
        Ok(made)
    }

    /// Returns the address of the ring, for its registration, and the number of its entries.
    pub(super) fn ring(&self) -> (u64, u16) {
        (self.map.start().as_ptr() as u64, self.count)
    }

    /// Returns the number of buffers that the kernel may fill now.
    pub(super) fn lent(&self) -> u16 {
        self.lent
    }

    pub(super) fn count(&self) -> u16 {
        self.count
    }

    fn at(&self, buffer: u16) -> *mut u8 {
        assert!(buffer < self.count, "buffer {buffer} of {}", self.count);
        self.map.start().as_ptr().wrapping_add(self.buffers_at + usize::from(buffer) * INBOUND_BYTES)
    }

    /// Gives a buffer to the kernel.
    fn give(&mut self, buffer: u16) {
        assert!(self.lent < self.count, "a buffer was given twice");
        let place = usize::from(self.tail & (self.count - 1));
        let base = self.map.start().as_ptr().cast::<BufRingEntry>();
        // SAFETY: 1. `place` is below `count`, and the map begins with `count` entries, aligned to its page; 2. the
        // kernel reads an entry only once the tail is past it, which it is not yet: fewer than `count` are lent, by the
        // assertion above; 3. the reference ends before the tail is stored, and never covers a tail that another thread
        // writes: only this thread writes it.
        let entry = unsafe { &mut *base.add(place) };
        entry.set_addr(self.at(buffer) as u64);
        entry.set_len(INBOUND_BYTES as u32);
        entry.set_bid(buffer);
        self.len[usize::from(buffer)] = 0;
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: 1. `base` is the ring's first entry, whose reserved half-word is the ring's tail; 2. it is aligned
        // and lives as long as the map; 3. it is accessed only as an atomic, here, and read by the kernel.
        let tail = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(base).cast_mut()) };
        tail.store(self.tail, Release);
        self.lent += 1;
    }

    /// Appends a buffer that the kernel filled with `bytes` bytes to `chain`. An empty buffer is given back to the
    /// kernel at once.
    pub(super) fn hold(&mut self, chain: &mut Chain, buffer: u16, bytes: usize) {
        assert!(usize::from(self.count) > usize::from(buffer) && bytes <= INBOUND_BYTES, "{buffer}, {bytes} bytes");
        assert_eq!(self.len[usize::from(buffer)], 0, "the kernel filled a buffer that is held");
        self.lent -= 1;
        if bytes == 0 {
            return self.give(buffer);
        }
        self.len[usize::from(buffer)] = bytes as u16;
        self.next[usize::from(buffer)] = NONE;
        if chain.count == 0 {
            *chain = Chain { first: buffer, last: buffer, count: 1, taken: 0 };
        } else {
            self.next[usize::from(chain.last)] = buffer;
            chain.last = buffer;
            chain.count += 1;
        }
    }

    /// Copies bytes of `chain` into `into` and gives emptied buffers back to the kernel. Returns the number of bytes
    /// copied.
    pub(super) fn take(&mut self, chain: &mut Chain, into: &mut [u8]) -> usize {
        let mut done = 0;
        while chain.count > 0 && done < into.len() {
            let first = usize::from(chain.first);
            let (from, len) = (usize::from(chain.taken), usize::from(self.len[first]));
            let bytes = (len - from).min(into.len() - done);
            // SAFETY: 1. the buffer is held, so the kernel does not access it until `give`; 2. `from + bytes` is at
            // most its length, which `hold` has checked; 3. the kernel has initialised these bytes, and the map reads
            // as zero elsewhere; 4. the slice is not used after `copy_from_slice`.
            let held = unsafe { std::slice::from_raw_parts(self.at(chain.first).add(from), bytes) };
            into[done..done + bytes].copy_from_slice(held);
            done += bytes;
            chain.taken += bytes as u16;
            if usize::from(chain.taken) == len {
                self.drop_first(chain);
            }
        }
        done
    }

    fn drop_first(&mut self, chain: &mut Chain) {
        let first = chain.first;
        let next = self.next[usize::from(first)];
        *chain = if chain.count == 1 {
            Chain::EMPTY
        } else {
            Chain { first: next, count: chain.count - 1, taken: 0, ..*chain }
        };
        self.give(first);
    }

    /// Gives all buffers of `chain` back, unread.
    pub(super) fn discard(&mut self, chain: &mut Chain) {
        while chain.count > 0 {
            self.drop_first(chain);
        }
    }
}

/// The send blocks of one ring.
pub(super) struct Outbound {
    map: Map,
    free: Vec<u16>,
}

impl Outbound {
    /// Creates blocks for `streams_max` streams, all free.
    pub(super) fn new(streams_max: usize) -> io::Result<Self> {
        let count = streams_max.clamp(1, OUTBOUND_MAX);
        let map = Map::reserve(count * OUTBOUND_BYTES, false)?;
        map.populate(0, map.bytes())?;
        Ok(Self { map, free: (0..count as u16).rev().collect() })
    }

    /// Returns true if every block is free.
    pub(super) fn is_whole(&self) -> bool {
        self.free.len() * OUTBOUND_BYTES == self.map.bytes()
    }

    pub(super) fn take(&mut self) -> Option<u16> {
        self.free.pop()
    }

    pub(super) fn put(&mut self, block: u16) {
        debug_assert!(!self.free.contains(&block), "a block was put back twice");
        self.free.push(block);
    }

    /// Returns the address of byte `at` of a block.
    pub(super) fn address(&self, block: u16, at: usize) -> *const u8 {
        assert!(at < OUTBOUND_BYTES && (usize::from(block) + 1) * OUTBOUND_BYTES <= self.map.bytes());
        self.map.start().as_ptr().wrapping_add(usize::from(block) * OUTBOUND_BYTES + at)
    }

    /// Returns a range of a block's bytes. No operation in the kernel may be reading the block.
    pub(super) fn bytes(&self, block: u16, range: std::ops::Range<usize>) -> &[u8] {
        assert!(range.start <= range.end && range.end <= OUTBOUND_BYTES, "a block holds {OUTBOUND_BYTES} bytes");
        if range.is_empty() {
            return &[];
        }
        let from = self.address(block, range.start);
        // SAFETY: 1. the block lies inside the map and the range inside the block, by the assertions; 2. the map reads
        // as zero where nothing was written; 3. only `write` writes to it, which needs `&mut self`; the kernel only
        // reads it.
        unsafe { std::slice::from_raw_parts(from, range.len()) }
    }

    /// Writes `bytes` at byte `at` of a block. No operation in the kernel may be reading the block.
    pub(super) fn write(&mut self, block: u16, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        assert!(at + bytes.len() <= OUTBOUND_BYTES, "a block holds {OUTBOUND_BYTES} bytes");
        let to = self.address(block, at).cast_mut();
        // SAFETY: 1. the block lies inside the map and `at + bytes.len()` inside the block, by the assertions; 2. the
        // block was taken and the kernel does not have its send (the caller's state machine: none or queued); 3.
        // `bytes` is not part of the map, which hands out no reference.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}
