//! Several changes that outlive a crash together or not at all: the state before each is retained in the memory file
//! until the last one is made.
//!
//! ```text
//!   a claim acts:  lock a key ──> record: slot, words that change in place ──> change ──> ... ──> let go: it stands
//!   a crash        ······ nothing to undo ······|····· opening: every slot as it was ·····|···· nothing to undo ····
//!
//!   chunk  (4096)  group | first chunk | records | undone before      0 as the group of its first chunk: it stands
//!                  record: hash | slot | namespace, hidden | number | CAS field | expiry, META
//! ```
//!
//! Invariants:
//! - A record is whole, and counts, before the first change of its key; there is one for each key.
//! - While a group is open, the bytes that its slots named stay. Their segments are pinned, and pieces and parts that
//!   have lost their head go when it is closed. So nothing has to be copied to be retained.
//! - A group that was open when a checkpoint was begun may have a part of its items in segments that the checkpoint
//!   has: it says so before it is closed ([`crate::durable::checkpoint::Checkpoints::note_spanning`]).
//! - One store closes a group, however many chunks it has. Group numbers are never reused, so what is left in a chunk
//!   is never taken for a later group's.
//! - A store that is not in a file keeps no records, and does everything at once.
//! - If the index is rebuilt while the store serves, what was done for an open group is found late. Its chunks are
//!   held, with the sequence of segments before which it is undone, until all of it is found.
//!
//! Bounds: [`CHUNKS`] for all groups, and [`PINNED_PART`] of the segments. A group without a chunk waits for one before
//! its first change; one that finds none for a later change, or has too much of the memory pinned, is closed, and goes
//! on as another ([`Turn::cut`]).

use std::collections::HashSet;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{
    AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use crate::core::lane::Turn;
use crate::core::op::OpError;
use crate::heap::segments::SegmentId;
use crate::index::{Hash, Locked};
use crate::items::write::Snap;
use crate::items::write::rewrite::Rewrite;
use crate::layout::item::{CAS_FIELD, EXPIRY, META, NUM};
use crate::layout::key::Key;
use crate::layout::persistent::KeptPage;
use crate::layout::raw::{Array, Mutex, MutexGuard, Word64};
use crate::layout::slot::Slot;
use crate::store::{Seen, Store};
use crate::values::deferred_free::Grave;

/// Chunks of records, over all groups.
const CHUNKS: usize = 256;
const CHUNK_WORDS: usize = 512;
/// Bytes that the chunks take of the file.
pub(crate) const LOG_BYTES: usize = CHUNKS * CHUNK_WORDS * 8;
/// Words before a chunk's records.
const FRONT: usize = 8;
const RECORD_WORDS: usize = 8;
/// Records of a chunk.
const RECORDS: usize = (CHUNK_WORDS - FRONT) / RECORD_WORDS;
/// Records of all chunks.
pub(crate) const RECORDS_MAX: usize = CHUNKS * RECORDS;
/// The part of the segments that open groups keep pinned at most, all together.
const PINNED_PART: usize = 8;
/// From this part of those on, what is to be kept is copied to where the group's other items are, so that a group pins
/// as much memory as it changes and not a segment for each key.
const PINNED_APART: usize = 2;
/// Keys that an ended group keeps room for in its sets.
const KEPT_ROOM: usize = 1024;

/// The state under a key before a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) hash: u64,
    /// Empty: there was nothing.
    pub(crate) slot: u64,
    pub(crate) namespace: u8,
    /// It is a hidden key.
    pub(crate) piece: bool,
    pub(crate) number: u64,
    pub(crate) cas: u64,
    pub(crate) expiry: u32,
    pub(crate) meta: u32,
}

/// A key that changes together with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChangingKey {
    pub(crate) hash: u64,
    pub(crate) namespace: u8,
    pub(crate) piece: bool,
}

impl Record {
    fn of(store: &Store, key: &Key<'_>, there: Option<&Seen<'_>>) -> Self {
        let mut record = Self { hash: key.hash.0, namespace: key.namespace, piece: key.piece, ..Self::default() };
        if let Some(Seen { slot, address, layout, .. }) = there {
            let heap = &store.segments.heap;
            record.slot = slot.0;
            record.number = if layout.has(NUM) { layout.number(heap, *address).load(Acquire) } else { 0 };
            record.cas = if layout.has(CAS_FIELD) { layout.cas_field(heap, *address).load(Acquire) } else { 0 };
            record.expiry = if layout.has(EXPIRY) { layout.expiry(heap, *address).load(Acquire) } else { 0 };
            record.meta = if layout.has(META) { layout.meta(heap, *address).load(Acquire) } else { 0 };
        }
        record
    }

    pub(crate) fn key(&self) -> ChangingKey {
        ChangingKey { hash: self.hash, namespace: self.namespace, piece: self.piece }
    }

    fn words(&self) -> [u64; RECORD_WORDS] {
        let what = u64::from(self.namespace) | u64::from(self.piece) << 8;
        let small = u64::from(self.expiry) | u64::from(self.meta) << 32;
        [self.hash, self.slot, what, self.number, self.cas, small, 0, 0]
    }

    fn of_words([hash, slot, what, number, cas, small, ..]: [u64; RECORD_WORDS]) -> Self {
        let (namespace, piece) = (what as u8, what >> 8 & 1 == 1);
        Self { hash, slot, namespace, piece, number, cas, expiry: small as u32, meta: (small >> 32) as u32 }
    }
}

/// The records of all groups, and which chunks are free.
#[derive(Debug)]
pub(crate) struct UndoLog {
    words: Array<Word64>,
    /// Groups get their numbers here.
    kept: KeptPage,
    /// The last one is given out next.
    free: Mutex<Vec<u32>>,
    /// Segments that open groups have pinned.
    pinned: AtomicUsize,
    /// Groups that were closed before their end.
    cut: AtomicU64,
    /// Chunks of groups of an earlier process, until what they did is found.
    held: Mutex<Vec<u32>>,
}

impl UndoLog {
    /// Returns the log in a map of [`LOG_BYTES`].
    pub(crate) fn of(words: Array<Word64>, kept: KeptPage) -> Self {
        assert!(words.len() * 8 == LOG_BYTES, "{} words", words.len());
        let free = Mutex::new((0..CHUNKS as u32).rev().collect());
        let held = Mutex::new(Vec::new());
        Self { words, kept, free, pinned: AtomicUsize::new(0), cut: AtomicU64::new(0), held }
    }

    fn word(&self, chunk: u32, word: usize) -> &Word64 {
        self.words.at(chunk as usize * CHUNK_WORDS + word)
    }

    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a chunk that has its space, for a group: the first one, if it is its own first.
    fn take(&self, group: u64, first: Option<u32>) -> Option<u32> {
        let chunk = self.free().pop()?;
        if self.space(chunk).is_err() {
            self.free().push(chunk);
            return None;
        }
        // Of no group while it is made ready.
        self.word(chunk, 0).store(0, Release);
        self.word(chunk, 1).store(first.unwrap_or(chunk).into(), Relaxed);
        self.word(chunk, 2).store(0, Relaxed);
        self.word(chunk, 3).store(0, Relaxed);
        self.word(chunk, 0).store(group, Release);
        Some(chunk)
    }

    fn space(&self, chunk: u32) -> io::Result<()> {
        self.words.map().allocate(chunk as usize * CHUNK_WORDS * 8, CHUNK_WORDS * 8)
    }

    fn write(&self, chunk: u32, at: usize, record: &Record) {
        for (word, value) in record.words().into_iter().enumerate() {
            self.word(chunk, FRONT + at * RECORD_WORDS + word).store(value, Relaxed);
        }
        self.word(chunk, 2).store(at as u64 + 1, Release);
    }

    /// Returns the chunks of groups that are open.
    fn open_chunks(&self) -> impl Iterator<Item = u32> + '_ {
        (0..CHUNKS as u32).filter(|chunk| {
            let [group, first] = [0, 1].map(|word| self.word(*chunk, word).load(Acquire));
            group != 0 && first < CHUNKS as u64 && self.word(first as u32, 0).load(Acquire) == group
        })
    }

    /// Gives the records of all groups that are open, with the sequence before which they were undone already or 0, and
    /// says how many groups there are that were not undone. While others have the log, some may be of groups that were
    /// closed meanwhile, or mixed of those and others.
    pub(crate) fn each_open(&self, each: &mut dyn FnMut(&Record, u64)) -> u64 {
        let mut groups = 0;
        for chunk in self.open_chunks() {
            let [first, count, undone] = [1, 2, 3].map(|word| self.word(chunk, word).load(Acquire));
            groups += u64::from(first == u64::from(chunk) && undone == 0);
            self.records(chunk, count).for_each(|record| each(&record, undone));
        }
        groups
    }

    /// Returns the records of a chunk that has so many.
    fn records(&self, chunk: u32, count: u64) -> impl Iterator<Item = Record> + '_ {
        (0..(count as usize).min(RECORDS)).map(move |at| {
            let word = |word| self.word(chunk, FRONT + at * RECORD_WORDS + word).load(Acquire);
            Record::of_words(std::array::from_fn(word))
        })
    }

    /// Returns the keys of a group.
    fn keys<'l>(&'l self, group: &'l Group) -> impl Iterator<Item = ChangingKey> + 'l {
        let records = |chunk: &u32| self.records(*chunk, self.word(*chunk, 2).load(Relaxed));
        group.chunks.iter().flat_map(records).map(|record| record.key())
    }

    /// No group is open but one, whose keys are these, and which is undone as far as segments before this sequence go:
    /// there is nothing under any of them.
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

    /// Keeps the chunks of groups that are open, which are undone as far as segments before this sequence go: until
    /// [`UndoLog::close_held`].
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

    /// Closes the held chunks: what was done for them is found, and undone.
    pub(crate) fn close_held(&self) {
        let held = std::mem::take(&mut *self.held());
        held.iter().for_each(|chunk| self.word(*chunk, 0).store(0, Release));
        self.free().extend(held);
    }

    fn held(&self) -> MutexGuard<'_, Vec<u32>> {
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

/// Changes that stand or fall together. Open from the first record on.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// 0: it is not open.
    number: u64,
    /// The first one is what it is closed by.
    chunks: Vec<u32>,
    /// Records of the last chunk.
    records: usize,
    /// The latest checkpoint that has nothing of it, when it was opened: where its segments end.
    behind: u64,
    /// The hashes of its keys.
    keys: HashSet<u64>,
    pinned: HashSet<u32>,
    /// Item that is to be copied before it is changed: a hash, a namespace, whether it is a hidden key's.
    apart: Option<(u64, u8, bool)>,
    /// The hash of what was copied last, or could not be.
    copied: u64,
    /// Objects that are removed when it is closed.
    graves: Vec<Grave>,
}

impl Group {
    pub(crate) fn is_open(&self) -> bool {
        self.number != 0
    }

    /// Makes room for one more record, if there is any. A group that this opens has no part in the checkpoint whose
    /// segments end at `behind`.
    fn make_room(&mut self, log: &UndoLog, behind: u64) -> bool {
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

impl Store {
    /// Closes a group: from here on what was done for it stands.
    pub(crate) fn close_group(&self, group: &mut Group) {
        let Some(log) = self.undo.as_ref().filter(|_| group.is_open()) else { return };
        if group.behind != self.checkpoints.before() {
            // Before it is closed: a thread that finds it closed finds its keys there.
            self.checkpoints.note_spanning(log.keys(group));
        }
        log.word(group.chunks[0], 0).store(0, Release);
        for id in group.pinned.drain() {
            let before = self.segments.header(SegmentId(id)).pins.fetch_sub(1, AcqRel);
            assert!(before > 0, "a pin is released once");
            log.pinned.fetch_sub(1, Relaxed);
        }
        if !group.graves.is_empty() {
            group.graves.drain(..).for_each(|grave| self.graves.push_reserved(grave));
            self.call_background();
        }
        log.free().append(&mut group.chunks);
        group.keys.clear();
        group.keys.shrink_to(KEPT_ROOM);
        group.pinned.shrink_to(KEPT_ROOM);
        group.graves.shrink_to(KEPT_ROOM);
        (group.number, group.records, group.apart, group.copied) = (0, 0, None, 0);
    }

    /// Groups of changes that were closed before their last one, for want of room for what was there before.
    pub fn groups_cut(&self) -> u64 {
        self.undo.as_ref().map_or(0, |log| log.cut.load(Relaxed))
    }
}

impl Turn<'_> {
    /// Keeps what is under the key, whose lock this is, before the turn's claim changes it.
    ///
    /// # Errors
    /// [`OpError::Parked`]: there is no room for the first record of a group; other groups will end.
    pub(crate) fn note_before(&self, key: &Key<'_>, locked: &Locked<'_>) -> Result<(), OpError> {
        let Some(log) = &self.store.undo else { return Ok(()) };
        let mut group = self.own.group.borrow_mut();
        let there = self.store.find_locked(locked, key);
        // New pieces and parts are named by nothing but what is new.
        if group.keys.contains(&key.hash.0) || (key.piece && there.is_none()) {
            return Ok(());
        }
        let segment = there.as_ref().map(|seen| self.store.segments.of(seen.address));
        let pins = segment.is_some_and(|id| !group.pinned.contains(&id.0));
        let (pinned, pinned_max) = (log.pinned.load(Relaxed), (self.store.segments.count() / PINNED_PART).max(1));
        if group.is_open() && pins && pinned >= pinned_max / PINNED_APART && group.copied != key.hash.0 {
            group.apart = Some((key.hash.0, key.namespace, key.piece));
            return Err(self.parked());
        }
        if group.is_open() && pins && pinned >= pinned_max {
            self.cut(log, &mut group);
        }
        let behind = self.own.open.sealed_before();
        if !group.make_room(log, behind) {
            if !group.is_open() {
                return Err(self.parked());
            }
            self.cut(log, &mut group);
            if !group.make_room(log, behind) {
                return Err(self.parked());
            }
        }
        if let Some(id) = segment.filter(|id| group.pinned.insert(id.0)) {
            // Within the epoch in which its slot was seen, so that it is not free yet.
            self.store.segments.header(id).pins.fetch_add(1, AcqRel);
            log.pinned.fetch_add(1, Relaxed);
        }
        group.keys.insert(key.hash.0);
        let (chunk, at) = (*group.chunks.last().expect("there is room"), group.records);
        log.write(chunk, at, &Record::of(self.store, key, there.as_ref()));
        group.records += 1;
        Ok(())
    }

    /// Keeps the rest of a value to be removed when the turn's group is closed. Returns it if it is to be removed at
    /// once.
    pub(crate) fn keep_grave(&mut self, grave: Grave) -> Option<Grave> {
        let Some(log) = &self.store.undo else { return Some(grave) };
        let group = self.own.group.get_mut();
        if !group.is_open() {
            return Some(grave);
        }
        if self.store.graves.reserve(&grave) {
            group.graves.push(grave);
            return None;
        }
        log.cut.fetch_add(1, Relaxed);
        self.store.close_group(group);
        Some(grave)
    }

    /// Copies what lies in a segment of its own to where this lane stores now, if that was asked for.
    pub(crate) fn bring_together(&mut self) {
        let group = self.own.group.get_mut();
        let Some((hash, namespace, piece)) = group.apart.take() else { return };
        group.copied = hash;
        let (store, hash) = (self.store, Hash(hash));
        let found = store.index.find(hash, |slot| store.item_of_hash(slot, namespace, piece, hash));
        let Some(seen) = store.live(found.map(Seen::of), self.now) else { return };
        let (snap, bytes) = (Snap::of(store, &seen), seen.layout.key(&store.segments.heap, seen.address));
        let key = Key { bytes, hash, namespace, piece };
        let plan = store.copy_plan(&seen, &snap, Rewrite::SAME);
        let Ok(draft) = store.draft(&mut self.own.open, &key, &plan, self.now) else { return };
        let locked = store.index.lock(hash);
        let there = locked.as_ref().and_then(|locked| store.find_locked(locked, &key));
        let same = store.live(there, self.now).filter(|there| Snap::of(store, there).same(&snap));
        if let (Some(locked), Some(there)) = (&locked, same) {
            let moved = store.publish(locked, self.counters(), &key, draft, Some(&there), None);
            // What it is the head of, the copy is the head of.
            assert!(moved.is_ok(), "an item that has a slot needs no room for another");
            self.counters().relocated.add(1);
        } else {
            drop(locked);
            self.own.open.give_back(store, draft.reserved);
        }
    }

    /// Lets what was done so far stand, because there is no room to retain what was before.
    #[cold]
    fn cut(&self, log: &UndoLog, group: &mut Group) {
        log.cut.fetch_add(1, Relaxed);
        self.store.close_group(group);
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
        UndoLog::of(words, KeptPage::private().expect("a page").begun(0, 1, 1))
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
    fn a_group_is_open_with_all_its_records_until_one_word_closes_it() {
        let (log, mut groups) = (log(), [Group::default(), Group::default()]);
        assert_eq!(open(&log), (0, vec![]));
        fill(&log, &mut groups[0], 150);
        fill(&log, &mut groups[1], 2);
        assert_eq!((groups[0].chunks.len(), open(&log).0, open(&log).1.len()), (3, 2, 152));
        assert!((0..150).all(|hash| open(&log).1.contains(&record(hash))));
        log.word(groups[0].chunks[0], 0).store(0, Release);
        assert_eq!(open(&log), (1, vec![record(0), record(1)]));
        // Its chunks go to another, which has none of its records.
        log.free().append(&mut groups[0].chunks);
        groups[0] = Group::default();
        fill(&log, &mut groups[0], 1);
        assert_eq!((open(&log).0, open(&log).1.len()), (2, 3));
        log.close_all();
        assert_eq!(open(&log), (0, vec![]));
    }

    #[test]
    fn of_all_chunks_none_is_given_twice_and_then_there_is_none() {
        let (log, mut group) = (log(), Group::default());
        fill(&log, &mut group, (CHUNKS * RECORDS) as u64);
        assert!(!group.make_room(&log, 0));
        group.chunks.sort_unstable();
        group.chunks.dedup();
        assert_eq!(group.chunks.len(), CHUNKS);
    }
}
