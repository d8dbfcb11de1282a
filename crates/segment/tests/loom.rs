//! Loom models of the protocols that depend on memory orderings. Loom tries every execution that the C++ memory model
//! allows, up to a bound on thread switches, including executions that never occur on x86. The models run the store's
//! own code for epochs and free segments. For data in mapped memory (slots, items, the stripe lock) they use a few
//! words with the same orderings.
//!
//! Loom treats every `SeqCst` access as `AcqRel`, so a model that passes depends only on fences.
//!
//! Run with `make loom`, or `RUSTFLAGS='--cfg loom' cargo test --release -p gannet-segment --test loom`.
#![cfg(loom)]

#[allow(dead_code, reason = "the model uses a part of the module")]
#[path = "../src/core/epoch.rs"]
mod epoch;
#[allow(dead_code, reason = "the model uses a part of the module")]
#[path = "../src/heap/segments/free.rs"]
mod free;

/// The module in which the store's code expects [`raw`].
mod layout {
    pub(crate) use crate::raw;
}

/// The store's word types, implemented with loom's atomics.
mod raw {
    use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    pub(crate) use loom::sync::atomic::fence;

    macro_rules! word {
        ($name:ident, $atomic:ident, $int:ident) => {
            #[derive(Debug, Default)]
            pub(crate) struct $name($atomic);

            #[allow(dead_code, reason = "not every word needs every operation")]
            impl $name {
                pub(crate) fn new(value: $int) -> Self {
                    Self($atomic::new(value))
                }

                pub(crate) fn load(&self, order: Ordering) -> $int {
                    self.0.load(order)
                }

                pub(crate) fn store(&self, value: $int, order: Ordering) {
                    self.0.store(value, order);
                }

                pub(crate) fn compare_exchange(&self, from: $int, to: $int, ok: Ordering) -> Result<$int, $int> {
                    self.0.compare_exchange(from, to, ok, Ordering::Relaxed)
                }

                pub(crate) fn fetch_add(&self, by: $int, order: Ordering) -> $int {
                    self.0.fetch_add(by, order)
                }
            }
        };
    }

    word!(Word32, AtomicU32, u32);
    word!(Word64, AtomicU64, u64);
}

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64 as Count, Ordering};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use epoch::Epochs;
use free::{FreeSegments, Fresh, Links, Stack};
use raw::{Word32, Word64, fence};

/// Tries all executions with at most `switches` involuntary thread switches.
fn explore(switches: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

/// Returns a counter over all executions, by which a model checks that it has reached the intended case.
fn counter() -> (std::sync::Arc<Count>, std::sync::Arc<Count>) {
    let count = std::sync::Arc::new(Count::new(0));
    (count.clone(), count)
}

/// Data that changes without atomics. Loom fails if a change overlaps with another access.
#[derive(Default)]
struct Plain(UnsafeCell<()>);

impl Plain {
    fn read(&self) {
        self.0.with(|_| ());
    }

    fn write(&self) {
        self.0.with_mut(|_| ());
    }
}

/// A segment with one item, and the slot that names the item. The slot holds the segment's life, or 0 if it is empty.
struct Segment {
    epochs: Epochs,
    slot: Word64,
    item: Plain,
    /// The life of the segment in which the item was written.
    life: Word64,
}

impl Segment {
    fn new() -> Arc<Self> {
        Arc::new(Self { epochs: Epochs::new(1), slot: Word64::new(1), item: Plain::default(), life: Word64::new(1) })
    }

    /// Reads the item in one guard, and checks that it is whole and belongs to the life that the slot holds.
    fn read_in_a_guard(&self) {
        self.epochs.enter(0);
        let life = self.slot.load(Acquire);
        if life != 0 {
            self.item.read();
            assert_eq!(self.life.load(Relaxed), life, "a slot names an item of another life");
        }
        self.epochs.leave(0);
    }

    /// Clears the slot, tries to advance the epoch at most twice, and reuses the segment if both steps succeeded.
    /// Returns true if the segment was reused.
    fn reuse(&self) -> bool {
        self.slot.compare_exchange(1, 0, Release).expect("nobody else changes the slot");
        let unlinked = self.epochs.now();
        self.epochs.try_advance();
        self.epochs.try_advance();
        if self.epochs.now() < unlinked + 2 {
            return false;
        }
        self.item.write();
        self.life.store(2, Relaxed);
        self.slot.store(2, Release);
        true
    }
}

#[test]
fn no_reader_sees_a_segment_in_its_next_life() {
    let (reused, counted) = counter();
    explore(3, move || {
        let segment = Segment::new();
        let reader = {
            let segment = Arc::clone(&segment);
            thread::spawn(move || {
                segment.read_in_a_guard();
                segment.read_in_a_guard();
            })
        };
        counted.fetch_add(u64::from(segment.reuse()), Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert!(reused.load(Ordering::Relaxed) > 10, "the segment was used again in some executions");
}

/// The state that a key lock set and a guard share: an announcement, one lock word, and a key that both access.
struct Claimed {
    epochs: Epochs,
    announced: Word64,
    word: Word32,
    key: Plain,
}

impl Claimed {
    /// Accesses the key in a guard, unless a key lock set holds it.
    fn guard(&self) {
        self.epochs.enter(0);
        if self.announced.load(SeqCst) == 0 || self.word.load(SeqCst) == 0 {
            self.key.write();
        }
        self.epochs.leave(0);
    }

    /// Acquires the key lock set, and checks for a guard in progress, at most twice. Returns true if it accessed the
    /// key.
    fn key_locks(&self) -> bool {
        self.announced.fetch_add(1, SeqCst);
        self.word.compare_exchange(0, 1, SeqCst).expect("nobody else claims");
        self.epochs.before_guards();
        let met = self.epochs.guard_of(0);
        if met.is_some() && self.epochs.guard_of(0) == met {
            return false;
        }
        self.key.write();
        true
    }
}

#[test]
fn a_claimant_that_waited_for_the_guards_under_way_is_alone_with_its_key() {
    let (acted, counted) = counter();
    explore(3, move || {
        let locked = Arc::new(Claimed {
            epochs: Epochs::new(1),
            announced: Word64::new(0),
            word: Word32::new(0),
            key: Plain::default(),
        });
        let handle = {
            let locked = Arc::clone(&locked);
            thread::spawn(move || {
                locked.guard();
                locked.guard();
            })
        };
        counted.fetch_add(u64::from(locked.key_locks()), Ordering::Relaxed);
        handle.join().unwrap();
    });
    assert!(acted.load(Ordering::Relaxed) > 10, "the claimant acted in some executions");
}

/// Free segments with their link words, and data that belongs to the owner of each segment.
struct Segments {
    links: Vec<Word32>,
    free: FreeSegments,
    owned: Vec<Plain>,
}

impl Links for Segments {
    fn link(&self, id: u32) -> &Word32 {
        &self.links[id as usize]
    }
}

impl Segments {
    /// Creates `listed` segments that were used and freed, and `fresh` segments that were never taken.
    fn new(listed: u32, fresh: u32) -> Arc<Self> {
        let count = listed + fresh;
        let segments = Self {
            links: (0..count).map(|_| Word32::new(0)).collect(),
            free: FreeSegments::new(Fresh { next: listed, end: count }),
            owned: (0..count).map(|_| Plain::default()).collect(),
        };
        (0..listed).for_each(|id| segments.free.give(&segments, id));
        Arc::new(segments)
    }

    fn take(&self, keep: usize) -> Option<u32> {
        let id = self.free.take(self, keep)?;
        self.owned[id as usize].write();
        Some(id)
    }
}

/// Takes a segment on a separate thread, if more than `keep` of at most `most` segments are available.
fn taking(segments: &Arc<Segments>, keep: usize, most: usize) -> thread::JoinHandle<Option<u32>> {
    let segments = Arc::clone(segments);
    thread::spawn(move || {
        let taken = segments.take(keep);
        assert!(segments.free.count() <= most, "the count of free segments wrapped");
        taken
    })
}

/// Checks that every segment is either free or taken, and that none is both.
fn all_are_there(segments: &Segments, mut taken: Vec<u32>) {
    let count = segments.free.count();
    let free: Vec<u32> = std::iter::from_fn(|| segments.take(0)).collect();
    assert_eq!(count, free.len());
    taken.extend(free);
    let all: BTreeSet<u32> = taken.iter().copied().collect();
    assert_eq!((all.len(), taken.len()), (segments.links.len(), segments.links.len()), "{taken:?}");
}

#[test]
fn concurrent_allocations_never_use_the_reserve_of_free_segments() {
    for listed in 0..=2 {
        explore(3, move || {
            let segments = Segments::new(listed, 2 - listed);
            let takers = [taking(&segments, 1, 2), taking(&segments, 1, 2)];
            let taken: Vec<u32> = takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect();
            assert_eq!(taken.len(), 1, "the reserve was taken, or nothing was");
            all_are_there(&segments, taken);
        });
    }
}

#[test]
fn free_segment_count_never_wraps_during_a_concurrent_return() {
    explore(3, || {
        let segments = Segments::new(1, 1);
        let own = segments.take(0).expect("one is free");
        let takers = [taking(&segments, 0, 2), taking(&segments, 0, 2)];
        segments.free.give(&*segments, own);
        let taken: Vec<u32> = takers.into_iter().filter_map(|taker| taker.join().unwrap()).collect();
        assert!(!taken.is_empty(), "one was free all the time");
        all_are_there(&segments, taken);
    });
}

#[test]
fn segment_stack_survives_aba_when_a_segment_is_popped_and_pushed_back() {
    explore(3, || {
        let segments = Segments::new(0, 3);
        let stack = Arc::new(Stack::default());
        (0..3).for_each(|id| stack.push(&*segments, id));
        let other = {
            let (segments, stack) = (Arc::clone(&segments), Arc::clone(&stack));
            thread::spawn(move || {
                let (first, second) = (stack.pop(&*segments), stack.pop(&*segments));
                first.iter().for_each(|id| stack.push(&*segments, *id));
                second
            })
        };
        let own = stack.pop(&*segments);
        let mut all: Vec<u32> = own.into_iter().chain(other.join().unwrap()).collect();
        while let Some(id) = stack.pop(&*segments) {
            all.push(id);
        }
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

/// A number that changes in place under its stripe lock: first the value, then the token.
struct Counter {
    lock: Word32,
    value: Word64,
    token: Word64,
}

impl Counter {
    fn change(&self, to: u64) {
        let idle = self.lock.load(Relaxed);
        self.lock.compare_exchange(idle, idle + 1, Acquire).expect("nobody else changes it");
        fence(Release);
        self.value.store(to, Release);
        self.token.store(to, Release);
        self.lock.store(idle + 2, Release);
    }
}

#[test]
fn value_and_token_that_were_read_at_once_belong_together() {
    let (exact, counted) = counter();
    explore(3, move || {
        let counter = Arc::new(Counter { lock: Word32::new(0), value: Word64::new(1), token: Word64::new(1) });
        let changer = {
            let counter = Arc::clone(&counter);
            thread::spawn(move || {
                counter.change(2);
                counter.change(3);
            })
        };
        let before = counter.lock.load(Acquire);
        let (token, value) = (counter.token.load(Acquire), counter.value.load(Acquire));
        assert!(token <= value, "a token is newer than the value that is given out with it");
        fence(Acquire);
        if before.is_multiple_of(2) && counter.lock.load(Acquire) == before {
            assert_eq!(token, value, "value and token are of two instants");
            counted.fetch_add(1, Ordering::Relaxed);
        }
        changer.join().unwrap();
    });
    assert!(exact.load(Ordering::Relaxed) > 3, "nobody came between in some executions");
}

/// An item is written, published by its slot, and marked dead by the thread that replaces it.
#[test]
fn thread_that_sees_an_item_dead_sees_its_slot_replaced() {
    explore(3, || {
        let (slot, dead) = (Arc::new(Word64::new(1)), Arc::new(Word32::new(0)));
        let handle = {
            let (slot, dead) = (Arc::clone(&slot), Arc::clone(&dead));
            thread::spawn(move || {
                slot.compare_exchange(1, 2, Release).expect("nobody else changes the slot");
                dead.fetch_add(1, AcqRel);
            })
        };
        if dead.load(Acquire) == 1 {
            assert_eq!(slot.load(Relaxed), 2, "a segment would be given up while a slot names its item");
        }
        handle.join().unwrap();
    });
}
