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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn reader_inside_an_epoch_blocks_the_second_advance_and_an_idle_one_does_not() {
        let epochs = Epochs::new(2);
        let (busy, idle) = (epochs.register().expect("free"), epochs.register().expect("free"));
        assert_eq!(epochs.register(), None);
        epochs.enter(busy);
        epochs.try_advance();
        epochs.try_advance();
        assert_eq!(epochs.now(), 2, "the reader is still in epoch 1");
        epochs.leave(busy);
        epochs.try_advance();
        assert_eq!(epochs.now(), 3);
        epochs.release(idle);
        assert_eq!(epochs.register(), Some(idle));
    }
}

/// Run with `RUSTFLAGS='--cfg shuttle' cargo test -p gannet-graph --lib model`.
#[cfg(all(test, shuttle))]
mod model {
    use super::*;
    use std::sync::Arc;

    /// Two segments with one word each, and the head that names the one in use.
    struct Segments {
        epochs: Epochs,
        head: AtomicU64,
        words: [AtomicU64; 2],
    }

    #[test]
    fn reader_never_sees_a_segment_reused() {
        let model = || {
            let words = [AtomicU64::new(1), AtomicU64::new(0)];
            let shared = Arc::new(Segments { epochs: Epochs::new(2), head: AtomicU64::new(0), words });
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    shuttle::thread::spawn({
                        let shared = Arc::clone(&shared);
                        move || {
                            let slot = shared.epochs.register().expect("one of two");
                            for _ in 0..2 {
                                shared.epochs.enter(slot);
                                let segment = shared.head.load(Acquire) as usize;
                                assert_ne!(
                                    shared.words[segment].load(Relaxed),
                                    0,
                                    "the segment was cleared under the reader"
                                );
                                shared.epochs.leave(slot);
                            }
                        }
                    })
                })
                .collect();
            for turn in 1..4u64 {
                let (old, new) = ((turn as usize + 1) % 2, turn as usize % 2);
                shared.words[new].store(turn, Relaxed);
                shared.head.store(new as u64, Release);
                fence(SeqCst);
                let retired = shared.epochs.now();
                while shared.epochs.now() < retired + 2 {
                    shared.epochs.try_advance();
                    shuttle::thread::yield_now();
                }
                shared.words[old].store(0, Relaxed);
            }
            readers.into_iter().for_each(|reader| reader.join().expect("no assertion failed"));
        };
        shuttle::check_random(model, 2000);
        shuttle::check_pct(model, 2000, 3);
    }
}
