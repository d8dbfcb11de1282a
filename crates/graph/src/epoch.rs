//! Epochs, by which the writer knows when no reader can be in a segment any more.
//!
//! ```text
//!   epoch      e             e + 1            e + 2
//!   reader   |--- guard ---|                            entered e, may read the segment
//!   segment    retired                      reused      advances to e + 2 after every reader has left e
//! ```
//!
//! A reader stores the epoch that it enters, passes a `SeqCst` fence, and then loads list heads. The writer changes
//! heads, passes a `SeqCst` fence, and then loads the readers' epochs. One fence comes first: either the writer sees
//! the reader, or the reader sees the new heads.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use crate::sync::{AtomicU64, fence};

/// The value of a slot that no reader owns.
const FREE: u64 = u64::MAX;

/// A word with two cache lines to itself, because CPUs fetch adjacent lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(AtomicU64);

/// The epoch of the store and of each reader.
#[derive(Debug)]
pub(crate) struct Epochs {
    global: Padded,
    readers: Box<[Padded]>,
}

impl Epochs {
    pub(crate) fn new(readers: usize) -> Self {
        Self {
            global: Padded(AtomicU64::new(1)),
            readers: (0..readers).map(|_| Padded(AtomicU64::new(FREE))).collect(),
        }
    }

    /// Assigns a slot to a new reader. Returns `None` if all are taken.
    pub(crate) fn register(&self) -> Option<usize> {
        self.readers.iter().position(|slot| slot.0.compare_exchange(FREE, 0, AcqRel, Relaxed).is_ok())
    }

    /// Returns the slot of a reader that ends.
    pub(crate) fn release(&self, slot: usize) {
        self.readers[slot].0.store(FREE, Release);
    }

    #[inline]
    pub(crate) fn enter(&self, slot: usize) {
        self.readers[slot].0.store(self.global.0.load(Relaxed), Release);
        fence(SeqCst);
    }

    #[inline]
    pub(crate) fn leave(&self, slot: usize) {
        self.readers[slot].0.store(0, Release);
    }

    pub(crate) fn now(&self) -> u64 {
        self.global.0.load(Acquire)
    }

    /// Advances the epoch if every reader inside a guard has entered the current one.
    pub(crate) fn try_advance(&self) {
        fence(SeqCst);
        let now = self.global.0.load(Relaxed);
        let behind = self.readers.iter().any(|slot| {
            let entered = slot.0.load(Acquire);
            entered != 0 && entered != FREE && entered != now
        });
        if !behind {
            // Writers of several graphs may try at once. A failed exchange means that another one advanced it.
            let _ = self.global.0.compare_exchange(now, now + 1, AcqRel, Relaxed);
        }
    }
}
