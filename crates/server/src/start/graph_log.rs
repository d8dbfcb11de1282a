//! The commits in the header of a file of graphs (`graph.sync`).
//!
//! ```text
//!   byte 32 of the header   1 if commits protect the contents; 2 if they do, and the disk refused a flush
//!   byte 512, byte 2048     slots for the watermarks, of the last commit and the one before it:
//!                           [CRC-32C] [0] [number of the commit 8]
//!                           [LSN 8] [nodes 4] [types + 1, 4] for each graph
//! ```
//!
//! A commit flushes the segments, writes the watermarks to the older slot and flushes that. Invariants: a slot whose
//! checksum is right names segments that were flushed before it; the disk is written only if the store has changed; no
//! lock is held while the disk works.

use arena::{MapFile, Words};
use graph::limits::GRAPHS_MAX;
use graph::{AtomicU32, GraphStore, Watermark};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The word of the header that is not 0 if commits protect the contents.
pub(crate) const SYNCED_WORD: usize = 8;
/// The value of that word after the disk refused a flush.
const FLUSH_FAILED: u32 = 2;
const PAGE_WORDS: usize = 1024;
/// The words at which the slots begin.
const SLOTS: [usize; 2] = [128, 512];
/// The words of a slot before the watermarks, and of a watermark.
const SLOT_HEADER_WORDS: usize = 4;
const WATERMARK_WORDS: usize = 4;
/// The commits in the header of a file.
#[derive(Debug)]
pub(crate) struct CommitLog {
    header: Words,
    file: Arc<MapFile>,
    number: u64,
    last: Vec<Watermark>,
}

fn slot(words: &[AtomicU32], start: usize) -> &[AtomicU32] {
    &words[start..][..SLOT_HEADER_WORDS + GRAPHS_MAX * WATERMARK_WORDS]
}

fn long(words: &[AtomicU32]) -> u64 {
    u64::from(words[0].load(Relaxed)) | u64::from(words[1].load(Relaxed)) << 32
}

fn checksum(slot: &[AtomicU32]) -> u32 {
    let bytes: Vec<u8> = slot[1..].iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(&bytes)
}

/// Returns the number and the watermarks of the last commit in a header, if one is whole.
pub(crate) fn last_commit(header: &[AtomicU32]) -> Option<(u64, Vec<Watermark>)> {
    let whole = SLOTS
        .map(|start| slot(header, start))
        .into_iter()
        .filter(|slot| long(&slot[2..]) > 0 && slot[0].load(Relaxed) == checksum(slot));
    let slot = whole.max_by_key(|slot| long(&slot[2..]))?;
    let (marks, _) = slot[SLOT_HEADER_WORDS..].as_chunks::<WATERMARK_WORDS>();
    let watermark = |words: &[AtomicU32; WATERMARK_WORDS]| Watermark {
        lsn: long(words),
        nodes: words[2].load(Relaxed),
        types_plus_one: words[3].load(Relaxed),
        appended: 0,
    };
    Some((long(&slot[2..]), marks.iter().map(watermark).collect()))
}

impl CommitLog {
    /// Opens the commits of a file whose store is open, and commits its contents.
    ///
    /// # Errors
    /// If the disk refuses a flush.
    pub(crate) fn open(file: &Arc<MapFile>, header_bytes: usize, store: &GraphStore) -> io::Result<Self> {
        let header = Words::of_file(file, header_bytes, false)?;
        let number = last_commit(header.as_slice()).map_or(0, |(number, _)| number);
        let mut log = Self { header, file: Arc::clone(file), number, last: Vec::new() };
        store.require_commits();
        if log.header.as_slice()[SYNCED_WORD].load(Relaxed) == FLUSH_FAILED {
            // The kernel takes pages whose write failed for clean ones. A write to each makes it write them again.
            let all = Words::of_file(file, file.bytes()? as usize, false)?;
            all.as_slice().iter().step_by(PAGE_WORDS).for_each(|word| {
                word.fetch_or(0, Relaxed);
            });
        }
        log.commit(store)?;
        log.header.as_slice()[SYNCED_WORD].store(1, Relaxed);
        log.file.sync_data()?;
        Ok(log)
    }

    /// Commits all changes of a store, if there are some since the last commit.
    ///
    /// # Errors
    /// If the disk refuses a flush.
    pub(crate) fn commit(&mut self, store: &GraphStore) -> io::Result<()> {
        let commit = store.begin_commit();
        if commit.watermarks != self.last {
            self.file.sync_data()?;
            self.number += 1;
            self.write(&commit.watermarks);
            self.file.sync_data()?;
            self.last.clone_from(&commit.watermarks);
        }
        store.end_commit(&commit);
        Ok(())
    }

    /// Records that the disk refused a flush, for the next restart.
    pub(crate) fn record_failure(&self) {
        self.header.as_slice()[SYNCED_WORD].store(FLUSH_FAILED, Relaxed);
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    fn write(&self, watermarks: &[Watermark]) {
        let slot = slot(self.header.as_slice(), SLOTS[(self.number % 2) as usize]);
        let put = |at: usize, value: u64| {
            slot[at].store(value as u32, Relaxed);
            slot[at + 1].store((value >> 32) as u32, Relaxed);
        };
        put(2, self.number);
        for (index, watermark) in watermarks.iter().enumerate() {
            let at = SLOT_HEADER_WORDS + index * WATERMARK_WORDS;
            put(at, watermark.lsn);
            put(at + 2, u64::from(watermark.nodes) | u64::from(watermark.types_plus_one) << 32);
        }
        slot[0].store(checksum(slot), Relaxed);
    }
}
