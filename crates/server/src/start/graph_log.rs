//! The commits in the header of a file of graphs (`graph.sync`).
//!
//! ```text
//!   byte 32 of the header   1 if commits protect the contents
//!   byte 36                 1 if the disk refused a flush since it was last written completely
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
/// The word of the header that is not 0 after the disk refused a flush.
const FAILED_WORD: usize = 9;
const PAGE_WORDS: usize = 1024;
/// The words at which the slots begin.
const SLOTS: [usize; 2] = [128, 512];
/// The words of a slot before the watermarks, and of a watermark.
const SLOT_HEADER_WORDS: usize = 4;
const WATERMARK_WORDS: usize = 4;

/// The two operations of a disk, which a test replaces.
#[derive(Debug)]
struct Disk {
    flush: fn(&Arc<MapFile>) -> io::Result<()>,
    /// Makes the next flush write all pages.
    rewrite: fn(&Arc<MapFile>) -> io::Result<()>,
}

static DISK: Disk = Disk { flush: |file| file.sync_data(), rewrite };

/// Writes to each page of a file: the kernel takes pages whose write failed for clean ones, and does not write them
/// again otherwise.
fn rewrite(file: &Arc<MapFile>) -> io::Result<()> {
    let all = Words::of_file(file, file.bytes()? as usize, false)?;
    all.as_slice().iter().step_by(PAGE_WORDS).for_each(|word| {
        word.fetch_or(0, Relaxed);
    });
    Ok(())
}

/// The commits in the header of a file.
#[derive(Debug)]
pub(crate) struct CommitLog {
    header: Words,
    file: Arc<MapFile>,
    number: u64,
    last: Vec<Watermark>,
    disk: &'static Disk,
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
        Self::open_on(&DISK, file, header_bytes, store)
    }

    fn open_on(disk: &'static Disk, file: &Arc<MapFile>, header_bytes: usize, store: &GraphStore) -> io::Result<Self> {
        let header = Words::of_file(file, header_bytes, false)?;
        let number = last_commit(header.as_slice()).map_or(0, |(number, _)| number);
        let mut log = Self { header, file: Arc::clone(file), number, last: Vec::new(), disk };
        store.require_commits();
        if log.header.as_slice()[FAILED_WORD].load(Relaxed) != 0 {
            (log.disk.rewrite)(file)?;
        }
        log.begin(store).inspect_err(|_| log.record_failure())?;
        Ok(log)
    }

    /// Commits the contents, and records that commits protect them.
    fn begin(&mut self, store: &GraphStore) -> io::Result<()> {
        self.commit(store)?;
        self.header.as_slice()[SYNCED_WORD].store(1, Relaxed);
        self.header.as_slice()[FAILED_WORD].store(0, Relaxed);
        (self.disk.flush)(&self.file)
    }

    /// Commits all changes of a store, if there are some since the last commit.
    ///
    /// # Errors
    /// If the disk refuses a flush.
    pub(crate) fn commit(&mut self, store: &GraphStore) -> io::Result<()> {
        let commit = store.begin_commit();
        if commit.watermarks != self.last {
            (self.disk.flush)(&self.file)?;
            self.number += 1;
            self.write(&commit.watermarks);
            (self.disk.flush)(&self.file)?;
            self.last.clone_from(&commit.watermarks);
        }
        store.end_commit(&commit);
        Ok(())
    }

    /// Records that the disk refused a flush, for the next restart.
    pub(crate) fn record_failure(&self) {
        self.header.as_slice()[FAILED_WORD].store(1, Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::graphs::{GRAPH_BYTES_MIN, GraphMemory, HEADER_BYTES};
    use graph::{EdgeAction, EdgeChange, EdgeTypeConfig, GraphStoreConfig};
    use std::cell::RefCell;

    /// A disk that refuses flushes as the kernel reports it: some dirty pages are written, and all count as clean.
    #[derive(Default)]
    struct FailingDisk {
        pages: Vec<Vec<u32>>,
        clean: Vec<Option<Vec<u32>>>,
        /// The number of flushes before one fails.
        flushes_left: usize,
        rewrites: usize,
    }

    thread_local! {
        static FAILING: RefCell<FailingDisk> = RefCell::default();
    }

    fn map(file: &Arc<MapFile>) -> Words {
        Words::of_file(file, file.bytes().expect("a size") as usize, false).expect("a map")
    }

    fn pages_of(file: &Arc<MapFile>) -> Vec<Vec<u32>> {
        let page = |page: &[AtomicU32]| page.iter().map(|word| word.load(Relaxed)).collect();
        map(file).as_slice().chunks(PAGE_WORDS).map(page).collect()
    }

    fn flush(file: &Arc<MapFile>) -> io::Result<()> {
        FAILING.with_borrow_mut(|disk| {
            let fails = disk.flushes_left == 0;
            disk.flushes_left = disk.flushes_left.saturating_sub(1);
            for (number, page) in pages_of(file).into_iter().enumerate() {
                if disk.clean[number].as_ref() == Some(&page) {
                    continue;
                }
                if !fails || number % 2 == 1 {
                    disk.pages[number].clone_from(&page);
                }
                disk.clean[number] = Some(page);
            }
            if fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
        })
    }

    fn rewrite_all(_: &Arc<MapFile>) -> io::Result<()> {
        FAILING.with_borrow_mut(|disk| {
            disk.rewrites += 1;
            disk.clean.fill(None);
        });
        Ok(())
    }

    static MODEL: Disk = Disk { flush, rewrite: rewrite_all };

    fn set_flushes(flushes: usize) {
        FAILING.with_borrow_mut(|disk| disk.flushes_left = flushes);
    }

    fn add(store: &GraphStore, sources: std::ops::Range<u64>) {
        let graph = store.create_graph("g").expect("room");
        let mut writer = graph.writer();
        let edge_type = writer.declare_type("knows", &EdgeTypeConfig::default()).expect("valid");
        for source in sources {
            let action = EdgeAction::Add(b"");
            let change = EdgeChange { source, edge_type, destination: source + 1, time_ms: 1, action };
            assert_eq!(writer.apply(&change), Ok(true));
        }
    }

    /// Returns how many of the edges from nodes 1 to 3000 a store has.
    fn edges(store: &GraphStore) -> usize {
        let graph = store.graph("g").expect("committed");
        let ty = graph.edge_type("knows").expect("committed");
        let mut reader = store.reader().expect("the only one");
        let guard = reader.enter();
        let view = guard.view(&graph);
        (1..=3000).filter(|source| view.has_edge(*source, ty, source + 1) == Ok(true)).count()
    }

    fn reopened(file: &Arc<MapFile>) -> GraphStore {
        GraphStore::open(GraphMemory(map(file)), &GraphStoreConfig::default()).expect("room").0
    }

    /// Returns the number of edges after a power loss: those of the last commit in what the disk has.
    fn edges_on_disk() -> usize {
        let disk = Arc::new(MapFile::in_memory().expect("memory"));
        FAILING.with_borrow(|found| {
            disk.set_bytes((found.pages.len() * PAGE_WORDS * 4) as u64).expect("a size");
            let words = map(&disk);
            words.as_slice().iter().zip(found.pages.iter().flatten()).for_each(|(to, from)| to.store(*from, Relaxed));
        });
        let words = map(&disk);
        let (_, watermarks) = last_commit(words.as_slice()).expect("a commit");
        let opened = GraphStore::open_committed(GraphMemory(words), &GraphStoreConfig::default(), &watermarks);
        edges(&opened.expect("room").0)
    }

    #[test]
    fn flush_that_failed_before_a_restart_loses_nothing_that_was_reported_and_reports_nothing_that_is_lost() {
        // The flush that fails: of the segments or of the watermarks, of a commit or of the one at the next start.
        for (flushes, flushes_at_start) in
            [(0, None), (1, None), (0, Some(0)), (1, Some(1)), (9, Some(0)), (9, Some(2))]
        {
            let file = Arc::new(MapFile::in_memory().expect("memory"));
            let bytes = GRAPH_BYTES_MIN + HEADER_BYTES as u64;
            file.set_bytes(bytes).expect("a size");
            let pages = pages_of(&file);
            let clean = vec![None; pages.len()];
            FAILING.set(FailingDisk { pages, clean, flushes_left: 9, rewrites: 0 });
            let store = reopened(&file);
            let mut log = CommitLog::open_on(&MODEL, &file, HEADER_BYTES, &store).expect("the disk works");
            add(&store, 1..1001);
            log.commit(&store).expect("the disk works");
            add(&store, 1001..2001);
            set_flushes(flushes);
            if log.commit(&store).is_err() {
                log.record_failure();
                assert_eq!(edges_on_disk(), 1000, "flush {flushes} failed: the disk has the commit before");
            }
            drop((log, store));
            let mut store = reopened(&file);
            assert_eq!(edges(&store), 2000, "the kernel has all pages");
            if let Some(flushes) = flushes_at_start {
                add(&store, 2001..3001);
                set_flushes(flushes);
                assert!(CommitLog::open_on(&MODEL, &file, HEADER_BYTES, &store).is_err(), "flush {flushes} fails");
                store = reopened(&file);
            }
            set_flushes(9);
            let reported = edges(&store);
            CommitLog::open_on(&MODEL, &file, HEADER_BYTES, &store).expect("the disk works");
            let name = format!("flush {flushes} of a commit and {flushes_at_start:?} of a start failed");
            assert_eq!(edges_on_disk(), reported, "{name}");
            assert!(FAILING.with_borrow(|disk| disk.rewrites > 0), "{name}: no page is written again");
            assert_eq!(map(&file).as_slice()[FAILED_WORD].load(Relaxed), 0, "{name}");
        }
    }
}
