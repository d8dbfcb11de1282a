//! The pool of segments: a fixed number of equal parts of the memory, reused in place.
//!
//! ```text
//!   word 0  magic, graph number, bits 24-31        2  segment's sequence, 2 words; higher: opened later
//!   word 1  segment size in words                  4  used words, published after each record
//!   word 5  CRC-32C of words 0-3
//!
//!   Free ──open──> Open ──full──> Sealed ──all records dead──> Retired ──two epochs, and a commit──> Free
//! ```
//!
//! The commit is that of a store on a disk: see `commit`.
//!
//! A segment never goes from Sealed to Free directly: a reader may be in it. A segment that is opened gets `used = 0`
//! before its sequence changes, so no crash shows old records under a new sequence.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::epoch::Epochs;
use crate::error::GraphError;
use crate::limits::{SEGMENT_BYTES, SEGMENT_BYTES_MIN, SEGMENTS_FOR_REMOVALS, SEGMENTS_RESERVED};
use crate::memory::{AtomicU32, Backing, crc32c};
use crate::record::{HEADER_WORDS, RecordRef, checksum};
use crate::sync::{AtomicU64, Mutex, MutexGuard};

const MAGIC: u32 = 0x0047_5247;
/// The word with the low half of the sequence.
const SEQUENCE: usize = 2;
/// The word of a segment's header with its number of used words.
pub(crate) const USED: usize = 4;
/// The words of a segment's header.
pub(crate) const SEGMENT_HEADER_WORDS: usize = 8;
/// The minimum number of segments: two open ones, two for compaction, three for a change and one to compact.
const SEGMENTS_MIN: usize = SEGMENTS_RESERVED + SEGMENTS_FOR_REMOVALS + 6;

/// The header of a segment that a store wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentInfo {
    pub(crate) graph: u8,
    pub(crate) sequence: u64,
    pub(crate) used: usize,
}

impl SegmentInfo {
    /// Returns the header in the words of a segment if a store wrote it completely, and the segment is not free.
    pub(crate) fn of(words: &[AtomicU32]) -> Option<Self> {
        Self::of_any(words).filter(|info| info.used >= SEGMENT_HEADER_WORDS)
    }

    /// Returns the header in the words of a segment if a store wrote it. A free segment has less than its header's used
    /// words.
    fn of_any(words: &[AtomicU32]) -> Option<Self> {
        let word = |at: usize| words[at].load(Acquire);
        let is_right = word(0) & 0xFF_FFFF == MAGIC && word(5) == crc32c(0, (0..4).map(word));
        let used = (word(USED) as usize).min(words.len());
        let sequence = u64::from(word(2)) | u64::from(word(3)) << 32;
        let is_whole = is_right && word(1) as usize == words.len();
        is_whole.then_some(Self { graph: (word(0) >> 24) as u8, sequence, used })
    }
}

/// A segment that becomes free when no reader can be in it.
#[derive(Clone, Copy, Debug)]
struct Retired {
    segment: u32,
    epoch: u64,
    /// The number of the commit that must have ended.
    commit: u64,
}

#[derive(Debug, Default)]
struct Lists {
    free: Vec<u32>,
    retired: VecDeque<Retired>,
    /// True if a segment is reused after a commit only.
    needs_commit: bool,
    /// The number of the last commit that began, and of the last one that ended.
    commit_begun: u64,
    commit_ended: u64,
    sequence: u64,
    recycled: u64,
    /// The number of times that a change opened a segment, and not compaction.
    opened: u64,
}

/// The pool.
pub(crate) struct Pool {
    memory: Box<dyn Backing>,
    segment_words: usize,
    segments: usize,
    lists: Mutex<Lists>,
    /// The number of words of each segment that live records hold.
    live: Box<[AtomicU32]>,
    /// The words that are reserved for bulk batches.
    reserved: AtomicU64,
}

impl Pool {
    /// Returns the pool, with all segments free.
    pub(crate) fn new(memory: Box<dyn Backing>, segment_bytes: usize) -> Result<Self, GraphError> {
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES).contains(&segment_bytes) || !segment_bytes.is_multiple_of(8) {
            return Err(GraphError::BadSegmentSize(segment_bytes));
        }
        let segment_words = segment_bytes / 4;
        // A position has 32 bits and counts pairs of words.
        let segments = (memory.words().len() / segment_words).min((1 << 33) / segment_words);
        if segments < SEGMENTS_MIN {
            return Err(GraphError::TooLittleMemory { segments, segments_min: SEGMENTS_MIN });
        }
        let live = (0..segments).map(|_| AtomicU32::new(0)).collect();
        let lists = Lists { free: (0..segments as u32).rev().collect(), ..Lists::default() };
        Ok(Self { memory, segment_words, segments, lists: Mutex::new(lists), live, reserved: AtomicU64::new(0) })
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().expect("no holder of the lock panics")
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU32] {
        self.memory.words()
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    pub(crate) fn segment_words(&self) -> usize {
        self.segment_words
    }

    /// Returns the words of a segment.
    pub(crate) fn segment(&self, segment: u32) -> &[AtomicU32] {
        &self.words()[segment as usize * self.segment_words..][..self.segment_words]
    }

    /// Returns the segment of a position.
    pub(crate) fn segment_of(&self, position: u32) -> u32 {
        (position as usize * 2 / self.segment_words) as u32
    }

    /// Returns the position of a word of a segment.
    pub(crate) fn position(&self, segment: u32, word: usize) -> u32 {
        ((segment as usize * self.segment_words + word) / 2) as u32
    }

    /// Returns the number of free segments, the number of retired ones, how often a segment was reused, and how often a
    /// change opened one.
    pub(crate) fn counts(&self) -> (usize, usize, u64, u64) {
        let lists = self.lists();
        (lists.free.len(), lists.retired.len(), lists.recycled, lists.opened)
    }

    /// Opens a free segment for a graph. Only compaction may take the last ones.
    pub(crate) fn open(&self, graph: u8, is_compaction: bool, epochs: &Epochs) -> Result<u32, GraphError> {
        let mut lists = self.lists();
        self.reclaim(&mut lists, epochs);
        if !is_compaction && lists.free.len() <= SEGMENTS_RESERVED {
            return Err(GraphError::NoSpace);
        }
        let segment = lists.free.pop().ok_or(GraphError::NoSpace)?;
        lists.sequence += 1;
        lists.opened += u64::from(!is_compaction);
        let words = self.segment(segment);
        words[USED].store(0, Release);
        let header = [
            MAGIC | u32::from(graph) << 24,
            self.segment_words as u32,
            lists.sequence as u32,
            (lists.sequence >> 32) as u32,
        ];
        for (word, value) in words.iter().zip(header) {
            word.store(value, Release);
        }
        words[5].store(crc32c(0, header.into_iter()), Release);
        words[USED].store(SEGMENT_HEADER_WORDS as u32, Release);
        self.live[segment as usize].store(0, Relaxed);
        Ok(segment)
    }

    /// Frees retired segments that no reader can be in.
    fn reclaim(&self, lists: &mut Lists, epochs: &Epochs) {
        for _ in 0..2 {
            epochs.try_advance();
        }
        while let Some(retired) = lists.retired.front().copied()
            && epochs.now() >= retired.epoch + 2
            && (!lists.needs_commit || lists.commit_ended >= retired.commit)
        {
            lists.retired.pop_front();
            // A restart must not take the segment for one in use. Its sequence stays, because the next one is higher.
            self.segment(retired.segment)[USED].store(0, Release);
            lists.free.push(retired.segment);
            lists.recycled += 1;
        }
    }

    /// Returns true if `wanted` segments are free. Frees retired segments only if that is necessary.
    pub(crate) fn has_free(&self, wanted: usize, epochs: &Epochs) -> bool {
        let mut lists = self.lists();
        if lists.free.len() < wanted {
            self.reclaim(&mut lists, epochs);
        }
        lists.free.len() >= wanted
    }

    /// Frees retired segments that no reader can be in, and returns the number of free ones.
    pub(crate) fn reclaim_now(&self, epochs: &Epochs) -> usize {
        let mut lists = self.lists();
        self.reclaim(&mut lists, epochs);
        lists.free.len()
    }

    /// Retires a segment whose records are all dead.
    pub(crate) fn retire(&self, segment: u32, epochs: &Epochs) {
        debug_assert_eq!(self.live[segment as usize].load(Relaxed), 0, "live records in a retired segment");
        crate::sync::fence(std::sync::atomic::Ordering::SeqCst);
        let mut lists = self.lists();
        let (epoch, commit) = (epochs.now(), lists.commit_begun + 1);
        lists.retired.push_back(Retired { segment, epoch, commit });
    }

    /// Returns true if a segment of a graph is not free.
    pub(crate) fn has_segment_of(&self, graph: u8) -> bool {
        (0..self.segments as u32).any(|segment| self.info(segment).is_some_and(|info| info.graph == graph))
    }

    /// Retires all segments of a graph with all their records. The segment `last` becomes free after the others.
    pub(crate) fn retire_graph(&self, graph: u8, last: u32, epochs: &Epochs) {
        crate::sync::fence(std::sync::atomic::Ordering::SeqCst);
        let mut lists = self.lists();
        let mut is_retired = vec![false; self.segments];
        lists.retired.iter().for_each(|retired| is_retired[retired.segment as usize] = true);
        let (epoch, commit) = (epochs.now(), lists.commit_begun + 1);
        let is_of_graph = |segment: &u32| {
            let is_one = self.info(*segment).is_some_and(|info| info.graph == graph);
            is_one && *segment != last && !is_retired[*segment as usize]
        };
        for segment in (0..self.segments as u32).filter(is_of_graph).chain([last]) {
            self.live[segment as usize].store(0, Relaxed);
            lists.retired.push_back(Retired { segment, epoch, commit });
        }
    }

    /// Returns the sequence of the segment that was opened last.
    pub(crate) fn sequence(&self) -> u64 {
        self.lists().sequence
    }

    /// Makes retired segments wait for a commit that begins after they were retired.
    pub(crate) fn require_commits(&self) {
        self.lists().needs_commit = true;
    }

    /// Returns the number of a new commit.
    pub(crate) fn begin_commit(&self) -> u64 {
        let mut lists = self.lists();
        lists.commit_begun += 1;
        lists.commit_begun
    }

    pub(crate) fn end_commit(&self, number: u64) {
        let mut lists = self.lists();
        lists.commit_ended = lists.commit_ended.max(number);
    }

    /// Lets retired segments be reused without a commit.
    pub(crate) fn waive_commits(&self) {
        self.lists().needs_commit = false;
    }

    /// Fills a segment from a word on with a record without effect.
    pub(crate) fn close(&self, segment: u32, at: usize, sequence: u32) {
        let words = self.segment(segment);
        let rest = &words[at..];
        if rest.len() >= HEADER_WORDS {
            RecordRef::fill_void(rest, sequence);
            words[USED].store(self.segment_words as u32, Release);
        }
    }

    /// Makes a segment unknown to [`Pool::info`].
    pub(crate) fn forget(&self, segment: u32) {
        self.segment(segment)[0].store(0, Release);
    }

    /// Writes a record at a word of an open segment, with its checksum, and publishes it.
    pub(crate) fn write(&self, segment: u32, at: usize, record: &[u32]) {
        let words = self.segment(segment);
        for (word, value) in words[at..at + record.len()].iter().zip(record).skip(1) {
            word.store(*value, Relaxed);
        }
        words[at].store(checksum(record, words[SEQUENCE].load(Relaxed)), Relaxed);
        words[USED].store((at + record.len()) as u32, Release);
    }

    pub(crate) fn live_words(&self, segment: u32) -> u32 {
        self.live[segment as usize].load(Relaxed)
    }

    /// Returns the number of words that all live records and reservations hold.
    pub(crate) fn words_claimed(&self) -> u64 {
        let live = self.live.iter().map(|words| u64::from(words.load(Relaxed))).sum::<u64>();
        live + self.reserved.load(Relaxed)
    }

    /// Returns true if a bulk batch has reserved words.
    pub(crate) fn has_reservations(&self) -> bool {
        self.reserved.load(Relaxed) > 0
    }

    /// Reserves words for a bulk batch: see [`Pool::words_claimed`].
    pub(crate) fn reserve_words(&self, words: u64) {
        self.reserved.fetch_add(words, Relaxed);
    }

    /// Ends a reservation.
    pub(crate) fn end_reservation(&self, words: u64) {
        self.reserved.fetch_sub(words, Relaxed);
    }

    /// Adds words of a new record. Only the writer of the segment's graph changes this number, so it needs no atomic
    /// addition, which would wait until all earlier writes are in the cache.
    pub(crate) fn add_live(&self, segment: u32, words: u32) {
        let live = &self.live[segment as usize];
        live.store(live.load(Relaxed) + words, Relaxed);
    }

    /// Subtracts words of dead records. Returns true if none is left.
    pub(crate) fn sub_live(&self, segment: u32, words: u32) -> bool {
        let live = &self.live[segment as usize];
        let before = live.load(Relaxed);
        debug_assert!(before >= words, "segment {segment}: {words} dead of {before} words");
        live.store(before.wrapping_sub(words), Relaxed);
        before == words
    }

    /// Returns the header of a segment if an earlier store wrote it.
    pub(crate) fn info(&self, segment: u32) -> Option<SegmentInfo> {
        SegmentInfo::of(self.segment(segment))
    }

    /// Returns the sequence of the last use of a segment, which may be free now.
    pub(crate) fn last_sequence(&self, segment: u32) -> u64 {
        SegmentInfo::of_any(self.segment(segment)).map_or(0, |info| info.sequence)
    }

    /// Returns the segment size that an earlier store used, in bytes, if its first segment shows another one.
    pub(crate) fn other_size(memory: &[AtomicU32], segment_bytes: usize) -> Option<usize> {
        let word = |at: usize| memory.get(at).map_or(0, |word| word.load(Relaxed));
        let is_right = word(0) & 0xFF_FFFF == MAGIC && word(5) == crc32c(0, (0..4).map(word));
        let bytes = word(1) as usize * 4;
        (is_right && bytes != segment_bytes).then_some(bytes)
    }

    /// Returns true if a segment is neither free nor retired.
    pub(crate) fn is_used(&self, segment: u32) -> bool {
        let lists = self.lists();
        !lists.free.contains(&segment) && lists.retired.iter().all(|retired| retired.segment != segment)
    }

    /// Takes segments that recovery found in use out of the free ones.
    pub(crate) fn adopt(&self, used: &[u32], sequence: u64) {
        let mut lists = self.lists();
        lists.free.retain(|segment| !used.contains(segment));
        lists.sequence = lists.sequence.max(sequence);
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("segments", &self.segments).finish_non_exhaustive()
    }
}

/// Run with `RUSTFLAGS='--cfg shuttle' cargo test -p gannet-graph --lib model`.
#[cfg(all(test, shuttle))]
mod model {
    use super::*;
    use crate::record::{self, RecordKind, RecordRef};
    use std::sync::Arc;

    /// The words of a record: a header, a key, and its value three times. A reader that races with a writer sees a
    /// mixture.
    const RECORD_WORDS: usize = 6;
    /// A segment holds two records.
    const SEGMENT_WORDS: usize = SEGMENT_HEADER_WORDS + 2 * RECORD_WORDS;
    const SEGMENTS: usize = 4;
    const KEYS: usize = 2;

    /// A pool of tiny segments, and the head of each key's record.
    struct Store {
        pool: Pool,
        epochs: Epochs,
        heads: [AtomicU64; KEYS],
        /// The segment that the writer appends to, and its used words.
        open: Mutex<(u32, usize)>,
    }

    impl Store {
        fn new() -> Self {
            let words = crate::memory::anonymous(SEGMENTS * SEGMENT_WORDS * 4);
            let lists = Lists { free: (0..SEGMENTS as u32).rev().collect(), ..Lists::default() };
            let live = (0..SEGMENTS).map(|_| AtomicU32::new(0)).collect();
            let (memory, lists) = (Box::new(words), Mutex::new(lists));
            let reserved = AtomicU64::new(0);
            let pool = Pool { memory, segment_words: SEGMENT_WORDS, segments: SEGMENTS, lists, live, reserved };
            let epochs = Epochs::new(2);
            let open = Mutex::new((pool.open(0, true, &epochs).expect("one is free"), SEGMENT_HEADER_WORDS));
            Self { pool, epochs, heads: [AtomicU64::new(0), AtomicU64::new(0)], open }
        }

        /// Appends a record and returns its position. A full segment is sealed.
        fn append(&self, open: &mut (u32, usize), key: u32, value: u32) -> u32 {
            if open.1 + RECORD_WORDS > SEGMENT_WORDS {
                let full = open.0;
                loop {
                    match self.pool.open(0, true, &self.epochs) {
                        Ok(segment) => break *open = (segment, SEGMENT_HEADER_WORDS),
                        Err(_) => shuttle::thread::yield_now(),
                    }
                }
                if self.pool.live_words(full) == 0 {
                    self.pool.retire(full, &self.epochs);
                }
            }
            let mut words = Vec::new();
            record::begin(&mut words, RecordKind::Mark, 0);
            words.extend([key, value, value, value]);
            record::seal(&mut words);
            self.pool.add_live(open.0, RECORD_WORDS as u32);
            self.pool.write(open.0, open.1, &words);
            let position = self.pool.position(open.0, open.1);
            open.1 += RECORD_WORDS;
            position
        }

        fn release(&self, open: &(u32, usize), position: u32) {
            let segment = self.pool.segment_of(position);
            if position != 0 && self.pool.sub_live(segment, RECORD_WORDS as u32) && segment != open.0 {
                self.pool.retire(segment, &self.epochs);
            }
        }

        /// Publishes a value, and retires the segment of the old record if nothing else in it is live.
        fn publish(&self, key: usize, value: u32) {
            let mut open = self.open.lock().expect("no holder panics");
            let position = self.append(&mut open, key as u32, value);
            let old = self.heads[key].load(Relaxed) as u32;
            self.heads[key].store(position.into(), Release);
            self.release(&open, old);
        }

        /// Copies the live records of the first sealed segment, as compaction does.
        fn compact(&self) {
            let mut open = self.open.lock().expect("no holder panics");
            let is_sealed = |segment: &u32| *segment != open.0 && self.pool.live_words(*segment) > 0;
            let Some(segment) = (0..SEGMENTS as u32).find(is_sealed) else { return };
            for at in (SEGMENT_HEADER_WORDS..SEGMENT_WORDS).step_by(RECORD_WORDS) {
                let position = self.pool.position(segment, at);
                let record = RecordRef::at(self.pool.words(), position);
                let key = record.word(2) as usize;
                if self.heads[key].load(Relaxed) == u64::from(position) {
                    let copy = self.append(&mut open, key as u32, record.word(3));
                    self.heads[key].store(copy.into(), Release);
                    self.release(&open, position);
                }
            }
        }

        /// Reads a value within an epoch, and asserts that it is whole.
        fn read(&self, slot: usize, key: usize) -> u32 {
            self.epochs.enter(slot);
            let position = self.heads[key].load(Acquire) as u32;
            let record = RecordRef::at(self.pool.words(), position);
            let value = record.word(3);
            assert_eq!(record.word(2) as usize, key, "the segment was reused under the reader");
            assert_eq!([record.word(4), record.word(5)], [value; 2], "the record changed under the reader");
            self.epochs.leave(slot);
            value
        }
    }

    fn run() {
        let store = Arc::new(Store::new());
        (0..KEYS).for_each(|key| store.publish(key, 1));
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                shuttle::thread::spawn({
                    let store = Arc::clone(&store);
                    move || {
                        let slot = store.epochs.register().expect("one of two");
                        let mut latest = 0;
                        for _ in 0..3 {
                            let value = store.read(slot, reader % KEYS);
                            assert!(value >= latest, "a copy brought an old value back");
                            latest = value;
                        }
                        store.epochs.release(slot);
                    }
                })
            })
            .collect();
        let compaction = shuttle::thread::spawn({
            let store = Arc::clone(&store);
            move || (0..3).for_each(|_| store.compact())
        });
        for value in 2..6 {
            store.publish(value as usize % KEYS, value);
        }
        compaction.join().expect("no assertion failed");
        readers.into_iter().for_each(|reader| reader.join().expect("no assertion failed"));
        RECYCLED.fetch_add(store.pool.counts().2, std::sync::atomic::Ordering::Relaxed);
    }

    /// The number of segments that became free again in all runs.
    static RECYCLED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

    #[test]
    fn reader_sees_whole_records_while_compaction_copies_them_and_segments_are_recycled() {
        shuttle::check_random(run, 2000);
        shuttle::check_pct(run, 2000, 3);
        let recycled = RECYCLED.load(std::sync::atomic::Ordering::Relaxed);
        assert!(recycled > 1000, "{recycled} segments were recycled");
    }
}
