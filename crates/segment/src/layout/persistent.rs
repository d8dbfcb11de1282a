//! The persistent header: words of a store that outlive its process, in one page.
//!
//! Invariants:
//! - The page contains numbers, sequences and instants, never an address of a process.
//! - The process has copies of the words that a get or a set reads (growth, flush sequences). The page is written
//!   before the copy, so a thread that reads the copy uses a value that is already persisted.
//! - An all-zero page belongs to no store yet. [`PersistentHeader::begin`] initialises the page for an empty store.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::key::Namespace;
use crate::layout::raw::{Array, Word64};

/// The words of the persistent header.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct PersistentHeader {
    /// The next sequence number of a segment. Sequence numbers are never reused; 0 is not a sequence number.
    pub(crate) sequence: Word64,
    /// The next number for an object of a large value or a part of a value in parts. Numbers are never reused.
    pub(crate) objects: Word64,
    /// The index's growth word: see [`crate::index::growth::Growth`].
    pub(crate) growth: Word64,
    /// The number of groups after the growth or shrink in progress.
    pub(crate) groups_next: Word64,
    /// The number of the highest segment that may be allocated, plus 1.
    pub(crate) end: Word64,
    /// The latest time, by the store's clock, at which a background slice ran, in ms since 1970.
    pub(crate) clock_ms: Word64,
    /// The half of the metadata log that is in use, and the length of its records. See [`crate::durable::file::notes`].
    pub(crate) notes: Word64,
    /// For each namespace, its flush sequence: items in segments with a smaller sequence number have been flushed.
    pub(crate) flushed: [Word64; Namespace::MAX],
    /// For each namespace, the instant at which a requested flush is due, in ms since 1970; 0: none.
    pub(crate) flush_at_ms: [Word64; Namespace::MAX],
    /// For each namespace, its flush sequence at the instant when the flush of `flush_at_ms` was requested.
    pub(crate) flush_behind: [Word64; Namespace::MAX],
    /// The next sequence number at the start of a rebuild of the index from the segments; 0 if the index is complete.
    /// See [`crate::durable::rebuild`].
    pub(crate) rebuilding: Word64,
    /// Segments with a smaller sequence number belong to no checkpoint, because a failed sync may have lost changes of
    /// them.
    pub(crate) unsynced_before: Word64,
    /// The signed number of milliseconds by which the wall clock was ahead of the store's clock.
    pub(crate) wall_ahead_ms: Word64,
    /// 1 if every change in place first stores a token that no client has, and then the value. A start then need not
    /// renew tokens.
    pub(crate) exact_tokens: Word64,
    /// The items that are moving between memory and flash, if the index is not in the file: an entry for each handle,
    /// and the last entry for the background. See [`crate::durable::moving`].
    pub(crate) moving: [Moving; MOVING],
}

/// An item that is moving between memory and flash. Both copies may be live.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Moving {
    /// The address of the copy in memory plus 1, or 0 if no item is moving.
    pub(crate) memory: Word64,
    /// The slot that names the copy on flash.
    pub(crate) flash: Word64,
}

/// The number of entries in `moving`, including the background's. If a handle has no entry, the old copy of a moving
/// item dies before the new copy is live.
pub(crate) const MOVING: usize = 140;

/// The number of words that a checkpoint contains.
pub(crate) const CHECKPOINT_WORDS: usize = 7 + 3 * Namespace::MAX;
/// The number by which sequence and object numbers are raised after a power loss. More numbers cannot be assigned
/// between two syncs.
const AHEAD: u64 = 1 << 32;

const _: () = assert!(size_of::<PersistentHeader>() == 4096);

impl PersistentHeader {
    /// Sets the words of an empty store with an index of `groups` groups and with `segments` segments.
    fn begin(&self, growth: u64, groups: usize, segments: usize) {
        self.sequence.store(1, Relaxed);
        self.objects.store(1, Relaxed);
        self.groups_next.store(groups as u64, Relaxed);
        self.end.store(segments as u64, Relaxed);
        self.growth.store(growth, Release);
    }

    fn single(&self) -> [&Word64; 7] {
        [&self.sequence, &self.objects, &self.growth, &self.groups_next, &self.end, &self.clock_ms, &self.notes]
    }

    /// Returns the words that a checkpoint contains.
    pub(crate) fn words(&self) -> [u64; CHECKPOINT_WORDS] {
        let all = self.single().into_iter().chain(&self.flushed).chain(&self.flush_at_ms).chain(&self.flush_behind);
        let mut words = [0; CHECKPOINT_WORDS];
        words.iter_mut().zip(all).for_each(|(to, from)| *to = from.load(Acquire));
        words
    }

    /// Restores the words of a checkpoint, after a power loss that left the page in its state at the checkpoint or at
    /// any later time. Sequence and object numbers continue above all numbers that may have been assigned. A flush
    /// since the checkpoint may remain in force.
    pub(crate) fn restore(&self, words: &[u64; CHECKPOINT_WORDS]) {
        let later = |word: &Word64, saved: u64| word.load(Acquire).max(saved);
        let ([single @ .., _], spaces) = (self.single(), &words[7..]);
        for (word, saved) in single.into_iter().zip(words).skip(2).take(3) {
            word.store(*saved, Relaxed);
        }
        for (word, saved) in [(&self.sequence, words[0]), (&self.objects, words[1])] {
            word.store(later(word, saved).saturating_add(AHEAD), Relaxed);
        }
        self.clock_ms.store(later(&self.clock_ms, words[5]), Relaxed);
        self.notes.store(words[6], Relaxed);
        for number in 0..Namespace::MAX {
            let saved = |part: usize| spaces[part * Namespace::MAX + number];
            self.flushed[number].store(later(&self.flushed[number], saved(0)), Relaxed);
            self.flush_at_ms[number].store(saved(1), Relaxed);
            self.flush_behind[number].store(saved(2), Relaxed);
        }
        self.unsynced_before.store(0, Relaxed);
        self.rebuilding.store(0, Release);
    }
}

/// A shared reference to the persistent header, for all modules of a store.
#[derive(Clone, Debug)]
pub(crate) struct PersistentPage(Arc<Array<PersistentHeader>>);

impl PersistentPage {
    /// Returns a reference to an existing page.
    pub(crate) fn of(page: Array<PersistentHeader>) -> Self {
        Self(Arc::new(page))
    }

    /// Returns the page of a store in private memory.
    pub(crate) fn private() -> std::io::Result<Self> {
        Ok(Self::of(Array::reserve(1, false)?))
    }

    /// Initialises the page for an empty store and returns the page.
    pub(crate) fn begun(self, growth: u64, groups: usize, segments: usize) -> Self {
        self.begin(growth, groups, segments);
        self
    }
}

impl Deref for PersistentPage {
    type Target = PersistentHeader;

    #[inline]
    fn deref(&self) -> &PersistentHeader {
        self.0.at(0)
    }
}
