//! The metadata log: an append-only list of the metadata records (here: notes) that the layers above the store persist.
//!
//! ```text
//!   half 0   | len 4 | sum 4 | note | len 4 | ...        The word `half, 1 bit | length, 63 bits` of the persistent
//!   half 1   | len 4 | sum 4 | note | ...                header names the valid half and the length of its notes.
//!                                                        sum: the low 32 bits of the note's XXH3
//! ```
//!
//! Invariants:
//! - A note's bytes are written before the length in the word includes them, so a note is persisted completely or not
//!   at all.
//! - Notes are read in the order in which they were written. A rewritten list goes to the other half, and becomes valid
//!   when the word names that half.
//! - Space is allocated before it is written to.
//! - A half that the last checkpoint names is not rewritten until a later checkpoint names the other half.

use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use arena::Map;

use crate::layout::persistent::PersistentPage;
use crate::layout::raw::{Heap, Mutex, Reserved};

/// The reason why a note was not persisted.
#[derive(Debug)]
pub enum NoteFault {
    /// There is no room for the note: the list has to be rewritten, shorter.
    Full,
    /// The file system has no space for the note.
    Space(std::io::Error),
}

impl std::fmt::Display for NoteFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => f.write_str("the memory file has no room for another metadata record"),
            Self::Space(error) => write!(f, "the file system has no space for another metadata record ({error})"),
        }
    }
}

impl std::error::Error for NoteFault {}

/// The bytes before each note: its length and its checksum.
pub(super) const FRONT_BYTES: usize = 8;

fn sum_of(note: &[u8]) -> u32 {
    xxhash_rust::xxh3::xxh3_64(note) as u32
}

/// The word that names the valid half and the length of its notes.
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    fn new(half: usize, bytes: usize) -> Self {
        Self((half as u64) << 63 | bytes as u64)
    }

    fn half(self) -> usize {
        (self.0 >> 63) as usize
    }

    fn bytes(self) -> usize {
        (self.0 & u64::MAX >> 1) as usize
    }
}

/// The notes of a store in a file.
#[derive(Debug)]
pub(crate) struct Notes {
    halves: Heap,
    half_bytes: usize,
    kept: PersistentPage,
    writes: Mutex<()>,
    /// The length of the notes in bytes when they were last rewritten.
    renewed: AtomicUsize,
    /// The halves that the last checkpoint, or one in progress, names: bit 0 and bit 1.
    named: AtomicUsize,
}

impl Notes {
    /// Returns the notes in a map of both halves.
    pub(super) fn of(map: Map, kept: PersistentPage) -> Self {
        let half_bytes = map.bytes() / 2;
        Self {
            halves: Heap::of_map(map),
            half_bytes,
            kept,
            writes: Mutex::new(()),
            renewed: AtomicUsize::new(0),
            named: AtomicUsize::new(0),
        }
    }

    fn word(&self) -> Word {
        Word(self.kept.notes.load(Acquire))
    }

    /// Returns true if the word names a valid range and the notes in it are intact.
    pub(super) fn is_sound(&self) -> bool {
        self.word().bytes() <= self.half_bytes && self.read(&mut |_| {})
    }

    /// Calls `each` for every note in order, up to the first damaged one. Returns false if there is a damaged one.
    pub(crate) fn read(&self, each: &mut dyn FnMut(&[u8])) -> bool {
        let (from, bytes) = (self.word().half() * self.half_bytes, self.word().bytes());
        let mut left = self.halves.bytes(from, bytes);
        while let Some((front, rest)) = left.split_at_checked(FRONT_BYTES) {
            let [len, sum] =
                [&front[..4], &front[4..]].map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")));
            let Some((note, rest)) = rest.split_at_checked(len as usize) else { return false };
            if sum != sum_of(note) {
                return false;
            }
            each(note);
            left = rest;
        }
        left.is_empty()
    }

    /// Appends a note.
    pub(crate) fn append(&self, note: &[u8]) -> Result<(), NoteFault> {
        let _writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let word = self.word();
        let bytes = self.put(word.half(), word.bytes(), note)?;
        self.kept.notes.store(Word::new(word.half(), bytes).0, Release);
        Ok(())
    }

    /// Replaces all notes by `notes`.
    pub(crate) fn rewrite(&self, notes: &[Vec<u8>]) -> Result<(), NoteFault> {
        self.renew(&mut |_| notes.to_vec())
    }

    /// Returns true if the notes take more than half of their room, and more than twice what they took when last
    /// rewritten.
    pub(crate) fn are_long(&self) -> bool {
        let bytes = self.word().bytes();
        !self.is_named(1 - self.word().half()) && bytes > self.half_bytes / 2 && bytes > 2 * self.renewed.load(Relaxed)
    }

    /// Replaces all notes with those that `make` returns. No other thread can append a note meanwhile.
    pub(crate) fn renew(&self, make: &mut dyn FnMut(&Self) -> Vec<Vec<u8>>) -> Result<(), NoteFault> {
        let _writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let half = 1 - self.word().half();
        if self.is_named(half) {
            return Err(NoteFault::Full);
        }
        let notes = make(self);
        let bytes = notes.iter().try_fold(0, |at, note| self.put(half, at, note))?;
        self.kept.notes.store(Word::new(half, bytes).0, Release);
        self.renewed.store(bytes, Relaxed);
        Ok(())
    }

    /// Returns true if a checkpoint names this half.
    fn is_named(&self, half: usize) -> bool {
        self.named.load(Acquire) & 1 << half != 0
    }

    /// Begins a checkpoint: returns the result of `read`. The half that is valid now and the half that the previous
    /// checkpoint names are not rewritten until [`Self::name_only`].
    pub(crate) fn name_with<T>(&self, read: impl FnOnce() -> T) -> T {
        let _writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        self.named.fetch_or(1 << self.word().half(), AcqRel);
        read()
    }

    /// Records that the last checkpoint contains this word of the metadata log. The other half may be rewritten from
    /// now on.
    pub(crate) fn name_only(&self, word: u64) {
        self.named.store(1 << Word(word).half(), Release);
    }

    /// Writes a note at a position in a half. Returns the position of the next one.
    fn put(&self, half: usize, at: usize, note: &[u8]) -> Result<usize, NoteFault> {
        let end = at + FRONT_BYTES + note.len();
        if end > self.half_bytes || u32::try_from(note.len()).is_err() {
            return Err(NoteFault::Full);
        }
        let from = half * self.half_bytes + at;
        self.halves.map().allocate(from, end - at).map_err(NoteFault::Space)?;
        // The bytes follow the current notes, and this thread holds the writers' lock, so no other thread accesses
        // them.
        let mut reserved = Reserved::of_notes(from, end - at);
        reserved.write(&self.halves, 0, &(note.len() as u32).to_le_bytes());
        reserved.write(&self.halves, 4, &sum_of(note).to_le_bytes());
        reserved.write(&self.halves, FRONT_BYTES, note);
        Ok(end)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn notes() -> Notes {
        let map = Map::reserve(2 * arena::PAGE_BYTES, false).expect("reserve");
        Notes::of(map, PersistentPage::private().expect("a page"))
    }

    fn all(notes: &Notes) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        notes.read(&mut |note| all.push(note.to_vec()));
        all
    }

    #[test]
    fn metadata_records_are_read_in_order_and_rewrite_replaces_them() {
        let notes = notes();
        assert!(all(&notes).is_empty() && notes.is_sound());
        for note in [&b"one"[..], b"", b"three"] {
            notes.append(note).expect("room");
        }
        assert_eq!(all(&notes), [&b"one"[..], b"", b"three"]);
        notes.rewrite(&[b"a".to_vec(), b"bc".to_vec()]).expect("room");
        notes.append(b"d").expect("room");
        assert_eq!(all(&notes), [&b"a"[..], b"bc", b"d"]);
        notes.rewrite(&[]).expect("room");
        assert!(all(&notes).is_empty());
    }

    #[test]
    fn metadata_log_is_rewritten_at_half_full_and_again_after_doubling() {
        let notes = notes();
        (0..20).for_each(|_| notes.append(&[7; 92]).expect("room"));
        assert!(!notes.are_long());
        (0..5).for_each(|_| notes.append(&[7; 92]).expect("room"));
        assert!(notes.are_long());
        let mut found = 0;
        let made = notes.renew(&mut |notes| {
            notes.read(&mut |_| found += 1);
            vec![vec![1; 1200]]
        });
        assert!(made.is_ok() && found == 25 && all(&notes) == [vec![1; 1200]]);
        (0..10).for_each(|_| notes.append(&[7; 92]).expect("room"));
        assert!(!notes.are_long(), "half full, but not twice as long");
        (0..5).for_each(|_| notes.append(&[7; 92]).expect("room"));
        assert!(notes.are_long());
    }

    #[test]
    fn a_list_that_is_full_is_as_it_was() {
        let notes = notes();
        while notes.append(&[7; 100]).is_ok() {}
        let before = all(&notes);
        assert_eq!(before.len(), arena::PAGE_BYTES / 108);
        assert!(matches!(notes.rewrite(&[vec![1; 5000]]), Err(NoteFault::Full)));
        assert_eq!(all(&notes), before);
    }
}
