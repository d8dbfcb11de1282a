//! The undo log in the memory file, and the group of changes that writes it: see [`crate::locks::undo`].

use std::collections::HashSet;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::layout::persistent::PersistentPage;
use crate::layout::raw::{Array, Mutex, MutexGuard, Word64};
use crate::layout::slot::Slot;
use crate::values::free_queue::DeferredFree;

/// The number of chunks of undo records in the file, for all groups of changes together.
const CHUNKS: usize = 256;
const CHUNK_WORDS: usize = 512;
/// The size of the undo log (all chunks of undo records) in the file, in bytes.
pub(crate) const LOG_BYTES: usize = CHUNKS * CHUNK_WORDS * 8;
/// The number of words at the front of a chunk, before its records.
const FRONT: usize = 8;
const RECORD_WORDS: usize = 8;
/// The number of records of a chunk.
const RECORDS: usize = (CHUNK_WORDS - FRONT) / RECORD_WORDS;
/// The number of records of all chunks.
pub(crate) const RECORDS_MAX: usize = CHUNKS * RECORDS;

/// The state of a key before a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) hash: u64,
    /// The slot of the key's item, or the empty slot if the key had no item.
    pub(crate) slot: u64,
    pub(crate) namespace: u8,
    /// True for a hidden key.
    pub(crate) piece: bool,
    pub(crate) number: u64,
    pub(crate) cas: u64,
    pub(crate) expiry: u32,
    pub(crate) meta: u32,
}

/// A key that a group of changes has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangingKey {
    pub(crate) hash: u64,
    pub(crate) namespace: u8,
    pub(crate) piece: bool,
}

impl Record {
    pub(crate) fn key(&self) -> ChangingKey {
        ChangingKey { hash: self.hash, namespace: self.namespace, piece: self.piece }
    }

    pub(super) fn words(&self) -> [u64; RECORD_WORDS] {
        let what = u64::from(self.namespace) | u64::from(self.piece) << 8;
        let small = u64::from(self.expiry) | u64::from(self.meta) << 32;
        [self.hash, self.slot, what, self.number, self.cas, small, 0, 0]
    }

    pub(super) fn of_words([hash, slot, what, number, cas, small, ..]: [u64; RECORD_WORDS]) -> Self {
        let (namespace, piece) = (what as u8, what >> 8 & 1 == 1);
        Self { hash, slot, namespace, piece, number, cas, expiry: small as u32, meta: (small >> 32) as u32 }
    }
}

/// The records of all groups, and the list of free chunks.
#[derive(Debug)]
pub(crate) struct UndoLog {
    pub(super) words: Array<Word64>,
    /// The persistent header, which assigns the numbers of groups.
    pub(super) kept: PersistentPage,
    /// The numbers of the free chunks. The last chunk is assigned next.
    pub(super) free: Mutex<Vec<u32>>,
    /// The number of segments that open groups have pinned.
    pub(super) pinned: AtomicUsize,
    /// The number of groups that were closed early.
    pub(super) cut: AtomicU64,
    /// The chunks of an earlier process's groups, which are held until a rebuild has found the groups' changes.
    pub(super) held: Mutex<Vec<u32>>,
}

impl UndoLog {
    /// Returns the log in a map of [`LOG_BYTES`].
    pub(crate) fn of(words: Array<Word64>, kept: PersistentPage) -> Self {
        assert!(words.len() * 8 == LOG_BYTES, "{} words", words.len());
        let free = Mutex::new((0..CHUNKS as u32).rev().collect());
        let held = Mutex::new(Vec::new());
        Self { words, kept, free, pinned: AtomicUsize::new(0), cut: AtomicU64::new(0), held }
    }

    pub(super) fn word(&self, chunk: u32, word: usize) -> &Word64 {
        self.words.at(chunk as usize * CHUNK_WORDS + word)
    }

    pub(super) fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free chunk for a group and returns its number, or `None` if no chunk is free. `first` is the group's
    /// first chunk, or `None` if this chunk is the first.
    pub(super) fn take(&self, group: u64, first: Option<u32>) -> Option<u32> {
        let chunk = self.free().pop()?;
        if self.space(chunk).is_err() {
            self.free().push(chunk);
            return None;
        }
        // Assigns the chunk to no group while the chunk is prepared.
        self.word(chunk, 0).store(0, Release);
        self.word(chunk, 1).store(first.unwrap_or(chunk).into(), Relaxed);
        self.word(chunk, 2).store(0, Relaxed);
        self.word(chunk, 3).store(0, Relaxed);
        self.word(chunk, 0).store(group, Release);
        Some(chunk)
    }

    pub(super) fn space(&self, chunk: u32) -> io::Result<()> {
        self.words.map().allocate(chunk as usize * CHUNK_WORDS * 8, CHUNK_WORDS * 8)
    }

    pub(super) fn write(&self, chunk: u32, at: usize, record: &Record) {
        for (word, value) in record.words().into_iter().enumerate() {
            self.word(chunk, FRONT + at * RECORD_WORDS + word).store(value, Relaxed);
        }
        self.word(chunk, 2).store(at as u64 + 1, Release);
    }

    /// Returns the chunks of groups that are open.
    pub(super) fn open_chunks(&self) -> impl Iterator<Item = u32> + '_ {
        (0..CHUNKS as u32).filter(|chunk| {
            let [group, first] = [0, 1].map(|word| self.word(*chunk, word).load(Acquire));
            group != 0 && first < CHUNKS as u64 && self.word(first as u32, 0).load(Acquire) == group
        })
    }

    /// Calls `each` for the records of all open groups, with the segment sequence number below which the group's
    /// changes were already undone, or 0. Returns the number of groups that were not undone yet. While other threads
    /// use the log, a record may belong to a group that was closed meanwhile, or contain fields of several records.
    pub(crate) fn each_open(&self, each: &mut dyn FnMut(&Record, u64)) -> u64 {
        let mut groups = 0;
        for chunk in self.open_chunks() {
            let [first, count, undone] = [1, 2, 3].map(|word| self.word(chunk, word).load(Acquire));
            groups += u64::from(first == u64::from(chunk) && undone == 0);
            self.records(chunk, count).for_each(|record| each(&record, undone));
        }
        groups
    }

    /// Returns the `count` records of a chunk.
    pub(super) fn records(&self, chunk: u32, count: u64) -> impl Iterator<Item = Record> + '_ {
        (0..(count as usize).min(RECORDS)).map(move |at| {
            let word = |word| self.word(chunk, FRONT + at * RECORD_WORDS + word).load(Acquire);
            Record::of_words(std::array::from_fn(word))
        })
    }

    /// Returns the keys of a group.
    pub(super) fn keys<'l>(&'l self, group: &'l Group) -> impl Iterator<Item = ChangingKey> + 'l {
        let records = |chunk: &u32| self.records(*chunk, self.word(*chunk, 2).load(Relaxed));
        group.chunks.iter().flat_map(records).map(|record| record.key())
    }

    /// Replaces all open groups by one held group with these keys. According to its records, no key had an item.
    /// Changes of its keys in segments with sequence numbers below `before` are undone.
    pub(crate) fn hold_keys(&self, keys: &[ChangingKey], before: u64) -> io::Result<()> {
        self.close_all();
        let (group, mut first) = (self.kept.objects.fetch_add(1, Relaxed), None);
        for some in keys.chunks(RECORDS) {
            let chunk = self.take(group, first).ok_or_else(|| io::Error::other("no space for what is undone"))?;
            first.get_or_insert(chunk);
            self.word(chunk, 3).store(before, Release);
            for (at, key) in some.iter().enumerate() {
                self.write(
                    chunk,
                    at,
                    &Record { hash: key.hash, namespace: key.namespace, piece: key.piece, ..Record::default() },
                );
            }
        }
        Ok(())
    }

    /// Holds the chunks of all open groups until [`UndoLog::close_held`]. Changes of the groups in segments with
    /// sequence numbers below `before` are undone.
    pub(crate) fn hold_open(&self, before: u64) {
        let open: Vec<u32> = self.open_chunks().collect();
        for chunk in &open {
            let undone = self.word(*chunk, 3);
            if undone.load(Relaxed) == 0 {
                undone.store(before, Release);
            }
        }
        self.free().retain(|chunk| !open.contains(chunk));
        *self.held() = open;
    }

    /// Closes and frees the undo log's held chunks, after a rebuild has undone all changes of their groups.
    pub(crate) fn close_held(&self) {
        let held = std::mem::take(&mut *self.held());
        held.iter().for_each(|chunk| self.word(*chunk, 0).store(0, Release));
        self.free().extend(held);
    }

    pub(super) fn held(&self) -> MutexGuard<'_, Vec<u32>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes every group.
    pub(crate) fn close_all(&self) {
        for chunk in 0..CHUNKS as u32 {
            let word = self.word(chunk, 0);
            if word.load(Relaxed) != 0 {
                word.store(0, Release);
            }
        }
    }
}

/// A group of changes that are kept or undone together. It is open from its first record on.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// The group's number, or 0 if the group is not open.
    pub(super) number: u64,
    /// The numbers of the group's chunks. A store to the first chunk closes the group.
    pub(super) chunks: Vec<u32>,
    /// The number of records in the group's last chunk.
    pub(super) records: usize,
    /// The sequence number below which the segments of the latest checkpoint lay when the group was opened. That
    /// checkpoint includes no change of the group.
    pub(super) behind: u64,
    /// The hashes of the group's keys.
    pub(super) keys: HashSet<u64>,
    pub(super) pinned: HashSet<u32>,
    /// The item to be copied before it is changed: its key's hash, its namespace, and true if its key is hidden.
    pub(super) apart: Option<(u64, u8, bool)>,
    /// The hash of the key whose item was last copied, or could not be copied.
    pub(super) copied: u64,
    /// The pieces and parts that are removed when the group is closed.
    pub(super) deferred: Vec<DeferredFree>,
    /// The next number of an object or part when the latest record was written. No record names an object or part with
    /// this number or a greater one.
    pub(super) unrecorded_from: u64,
}

impl Group {
    pub(crate) fn is_open(&self) -> bool {
        self.number != 0
    }

    /// Returns true if an object or a part must be retained until the group is closed, because a record may name it.
    pub(crate) fn retains(&self, number: u64) -> bool {
        self.is_open() && number < self.unrecorded_from
    }

    /// Makes room for another record and returns false if there is no room. Opens the group if it is not open; a
    /// checkpoint whose segments end at `behind` then includes no change of the group.
    pub(super) fn make_room(&mut self, log: &UndoLog, behind: u64) -> bool {
        let full = self.chunks.is_empty() || self.records == RECORDS;
        if full {
            let number = if self.is_open() { self.number } else { log.kept.objects.fetch_add(1, Relaxed) };
            let Some(chunk) = log.take(number, self.chunks.first().copied()) else { return false };
            if !self.is_open() {
                self.behind = behind;
            }
            self.number = number;
            self.chunks.push(chunk);
            self.records = 0;
        }
        true
    }
}

/// Returns a slot that a record can name.
pub(crate) fn slot_of(record: &Record) -> Option<Slot> {
    Some(Slot(record.slot)).filter(|slot| slot.is_item())
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn log() -> UndoLog {
        let words = Array::reserve(LOG_BYTES / 8, false).expect("reserve");
        UndoLog::of(words, PersistentPage::private().expect("a page").begun(0, 1, 1))
    }

    fn record(hash: u64) -> Record {
        Record { hash, slot: 7 << 39, namespace: 3, piece: true, number: 4, cas: 5, expiry: 6, meta: 7 }
    }

    fn open(log: &UndoLog) -> (u64, Vec<Record>) {
        let mut records = Vec::new();
        (log.each_open(&mut |record, _| records.push(*record)), records)
    }

    fn fill(log: &UndoLog, group: &mut Group, records: u64) {
        for hash in 0..records {
            assert!(group.make_room(log, 0));
            log.write(*group.chunks.last().expect("one"), group.records, &record(hash));
            group.records += 1;
        }
    }

    #[test]
    fn undo_group_is_open_with_all_records_until_closed_by_a_single_write() {
        let (log, mut groups) = (log(), [Group::default(), Group::default()]);
        assert_eq!(open(&log), (0, vec![]));
        fill(&log, &mut groups[0], 150);
        fill(&log, &mut groups[1], 2);
        assert_eq!((groups[0].chunks.len(), open(&log).0, open(&log).1.len()), (3, 2, 152));
        assert!((0..150).all(|hash| open(&log).1.contains(&record(hash))));
        log.word(groups[0].chunks[0], 0).store(0, Release);
        assert_eq!(open(&log), (1, vec![record(0), record(1)]));
        // Returns the group's chunks to the free list. Another group then gets the chunks, but none of the old records.
        log.free().append(&mut groups[0].chunks);
        groups[0] = Group::default();
        fill(&log, &mut groups[0], 1);
        assert_eq!((open(&log).0, open(&log).1.len()), (2, 3));
        log.close_all();
        assert_eq!(open(&log), (0, vec![]));
    }

    #[test]
    fn undo_log_chunks_are_unique_until_exhausted() {
        let (log, mut group) = (log(), Group::default());
        fill(&log, &mut group, (CHUNKS * RECORDS) as u64);
        assert!(!group.make_room(&log, 0));
        group.chunks.sort_unstable();
        group.chunks.dedup();
        assert_eq!(group.chunks.len(), CHUNKS);
    }
}
