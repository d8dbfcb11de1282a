//! The record of a checkpoint. The file has two copies, and at least one of them is always intact.
//!
//! ```text
//!   head, 16 words                              | persistent | sequence of each segment | keys, 2 words each
//!   magic, number, at, before, segments, keys,  | header     | 0: not included          | hash |
//!   sum, zeros                                  |            |                          | namespace, hidden
//! ```
//!
//! The intact copy with the higher number is valid. The next record is written over the other copy. The checksum is
//! XXH3 over all words except itself.

use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::persistent::CHECKPOINT_WORDS;
use crate::layout::raw::{Array, Word64};
use crate::locks::undo_log::{ChangingKey, RECORDS_MAX};

const MAGIC: u64 = u64::from_le_bytes(*b"GANNETCP");
/// The number of words of the head.
pub(crate) const HEAD_WORDS: usize = 16;
/// The position of the checksum in the head.
const SUM: usize = 6;
/// The position of the word that names the metadata log's half, among the words of the persistent header.
const NOTES: usize = 6;

/// The contents of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The instant at which the checkpoint was begun, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// The sequence limit of the checkpoint: all segments that it includes have lower sequences.
    pub(crate) before: u64,
    pub(crate) kept: [u64; CHECKPOINT_WORDS],
    /// The keys of atomic changes that were in progress.
    pub(crate) keys: Vec<ChangingKey>,
    /// For each segment of the file, its sequence if the checkpoint includes the segment, and 0 if not.
    pub(crate) sequences: Vec<u64>,
}

impl Record {
    /// Returns the word that names the half and the length of the metadata log ([`crate::durable::file::notes`]).
    pub(crate) fn notes(&self) -> u64 {
        self.kept[NOTES]
    }

    /// Returns the number of segments that the checkpoint includes.
    pub(crate) fn segments(&self) -> u64 {
        self.sequences.iter().filter(|sequence| **sequence != 0).count() as u64
    }

    fn words(&self, number: u64) -> Vec<u64> {
        let mut words = vec![0; HEAD_WORDS];
        let (segments, keys) = (self.sequences.len() as u64, self.keys.len() as u64);
        words[..SUM].copy_from_slice(&[MAGIC, number, self.at_ms, self.before, segments, keys]);
        words.extend(self.kept);
        words.extend(&self.sequences);
        words.extend(self.keys.iter().flat_map(|key| [key.hash, u64::from(key.namespace) | u64::from(key.piece) << 8]));
        words[SUM] = sum(&words);
        words
    }

    /// Decodes the record from the words of an intact copy.
    fn of_words(words: &[u64], segments: usize) -> Self {
        let (kept, rest) = words[HEAD_WORDS..].split_at(CHECKPOINT_WORDS);
        let (sequences, keys) = rest.split_at(segments);
        let key = |pair: &[u64]| ChangingKey { hash: pair[0], namespace: pair[1] as u8, piece: pair[1] >> 8 & 1 == 1 };
        Self {
            at_ms: words[2],
            before: words[3],
            kept: kept.try_into().expect("as many as there are"),
            keys: keys.chunks_exact(2).map(key).collect(),
            sequences: sequences.to_vec(),
        }
    }
}

/// Returns the checksum of all words except the one that holds it.
fn sum(words: &[u64]) -> u64 {
    let others = words.iter().enumerate().filter(|(at, _)| *at != SUM);
    let bytes: Vec<u8> = others.flat_map(|(_, word)| word.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, MAGIC)
}

/// Both copies of the record in a file.
#[derive(Debug)]
pub(crate) struct Records {
    words: Array<Word64>,
    segments: usize,
}

impl Records {
    /// Returns the number of words that a copy takes, rounded up to whole pages.
    fn copy_words(segments: usize) -> usize {
        let words = HEAD_WORDS + CHECKPOINT_WORDS + segments + 2 * RECORDS_MAX;
        words.next_multiple_of(arena::PAGE_BYTES / 8)
    }

    /// Returns the number of bytes that both copies take in the file.
    pub(crate) fn bytes(segments: usize) -> u64 {
        2 * 8 * Self::copy_words(segments) as u64
    }

    /// Creates the records in the words of a file with room for `segments` segments.
    pub(crate) fn of(words: Array<Word64>, segments: usize) -> Self {
        assert!(words.len() == 2 * Self::copy_words(segments), "two copies");
        Self { words, segments }
    }

    /// Allocates file space for both copies.
    pub(crate) fn allocate(&self) -> io::Result<()> {
        self.words.map().allocate(0, self.words.len() * 8)
    }

    fn word(&self, copy: usize, at: usize) -> &Word64 {
        self.words.at(copy * Self::copy_words(self.segments) + at)
    }

    /// Returns the words and the number of a copy, if it is intact.
    fn whole(&self, copy: usize) -> Option<(u64, Vec<u64>)> {
        let head: [u64; HEAD_WORDS] = std::array::from_fn(|at| self.word(copy, at).load(Acquire));
        let [magic, number, _, _, segments, keys, recorded, ..] = head;
        if magic != MAGIC || segments != self.segments as u64 || keys > RECORDS_MAX as u64 {
            return None;
        }
        let count = HEAD_WORDS + CHECKPOINT_WORDS + self.segments + 2 * keys as usize;
        let words: Vec<u64> = (0..count).map(|at| self.word(copy, at).load(Acquire)).collect();
        (sum(&words) == recorded).then_some((number, words))
    }

    fn latest_words(&self) -> Option<(u64, Vec<u64>)> {
        [0, 1].into_iter().filter_map(|copy| self.whole(copy)).max_by_key(|(number, _)| *number)
    }

    /// Returns the valid record: the intact copy with the higher number, if any copy is intact.
    pub(crate) fn latest(&self) -> Option<Record> {
        self.latest_words().map(|(_, words)| Record::of_words(&words, self.segments))
    }

    /// Writes a record over the copy that is not valid.
    pub(crate) fn write(&self, record: &Record) {
        assert!(record.sequences.len() == self.segments && record.keys.len() <= RECORDS_MAX, "it fits");
        let number = self.latest_words().map_or(0, |(number, _)| number + 1);
        let words = record.words(number);
        for (at, value) in words.iter().enumerate() {
            self.word((number % 2) as usize, at).store(*value, Relaxed);
        }
        std::sync::atomic::fence(Release);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn records() -> Records {
        Records::of(Array::reserve(Records::bytes(5) as usize / 8, false).expect("reserve"), 5)
    }

    fn record(at_ms: u64) -> Record {
        let keys = vec![ChangingKey { hash: at_ms * 3, namespace: 2, piece: true }; at_ms as usize];
        Record { at_ms, before: at_ms + 7, kept: [at_ms; CHECKPOINT_WORDS], keys, sequences: vec![at_ms, 0, 3, 0, 5] }
    }

    #[test]
    fn latest_checkpoint_record_is_used_and_torn_record_falls_back() {
        let records = records();
        assert_eq!(records.latest(), None);
        for at in 0..5 {
            records.write(&record(at));
            assert_eq!(records.latest(), Some(record(at)));
        }
        // A change of any word is detected by the checksum.
        for at in [0, 1, 3, 5, 6, HEAD_WORDS + 2, HEAD_WORDS + CHECKPOINT_WORDS + 4] {
            let word = records.word(0, at);
            let was = word.load(Acquire);
            word.store(was ^ 1, Release);
            assert_eq!(records.latest(), Some(record(3)), "word {at}");
            word.store(was, Release);
        }
        records.word(0, 2).store(99, Release);
        records.write(&record(7));
        assert_eq!(records.latest(), Some(record(7)));
        records.word(0, 2).store(99, Release);
        assert_eq!(records.latest(), Some(record(3)));
    }
}
