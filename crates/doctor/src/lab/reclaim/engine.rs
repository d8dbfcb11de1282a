//! Three ways to store segments of data. Random segments are read, and segments are replaced one at a time.
//!
//! ```text
//!   files   replace: write and map a new file, unmap and delete the old file       needs new pages of the page cache
//!   pool    replace: rewrite an existing mapped file                               uses the same pages again
//!   graph   replace: write lists of Gannet's graph store, which compacts           uses no files: see `graph`
//! ```
//!
//! Invariants: a reader holds a reference to the segment that it reads. A replaced segment is reused or deleted only
//! after all readers have released it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arena::{Cells, Order};
use serde::{Deserialize, Serialize};

use super::graph::GraphSegments;

/// Size of one write, in bytes.
const PIECE_BYTES: usize = 1 << 18;

/// A way to store segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// Files that are created and deleted.
    Files,
    /// Files that are reused.
    Pool,
    /// Gannet's graph store in anonymous memory, without files.
    Graph,
}

impl Engine {
    /// All engines, each with its name. The other engines are compared with the first one.
    pub const ALL: [(&'static str, Self); 3] = [("graph", Self::Graph), ("pool", Self::Pool), ("files", Self::Files)];

    /// Returns the engine's name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, engine)| *engine == self).expect("all are in the list").0
    }
}

/// A segment's memory.
#[derive(Debug)]
struct Segment {
    cells: Cells,
    file: File,
    path: PathBuf,
}

impl Drop for Segment {
    fn drop(&mut self) {
        // An error does not matter, because the whole folder is removed at the end.
        let _ = fs::remove_file(&self.path);
    }
}

/// The segments in use, by place.
pub enum SegmentStore {
    /// Mapped files.
    Files(FileSegments),
    /// Lists of a graph store.
    Graph(Box<GraphSegments>),
}

/// Mapped files by place, and the spare ones.
pub struct FileSegments {
    are_reused: bool,
    folder: PathBuf,
    segment_bytes: usize,
    places: Vec<Mutex<Arc<Segment>>>,
    spare: Mutex<Vec<Arc<Segment>>>,
    made: AtomicU64,
    piece: Vec<u8>,
}

/// Locks data that is consistent after every statement.
pub(super) fn held<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SegmentStore {
    /// Creates `places` segments, and `spare` segments into which writers can write while readers hold replaced
    /// segments.
    ///
    /// # Errors
    /// If the file system or the memory allocation fails.
    pub fn make(
        engine: Engine,
        folder: &Path,
        segment_bytes: usize,
        places: usize,
        spare: usize,
    ) -> Result<Self, String> {
        let spare_files = match engine {
            Engine::Graph => return Ok(Self::Graph(Box::new(GraphSegments::make(segment_bytes, places, spare)?))),
            Engine::Pool => Some(spare),
            Engine::Files => None,
        };
        FileSegments::make(folder, segment_bytes, places, spare_files).map(Self::Files)
    }

    /// Reads the pages of a place that contain the `bytes` bytes at `offset`.
    pub fn read(&self, place: usize, offset: usize, bytes: usize) -> u64 {
        match self {
            Self::Files(files) => files.read(place, offset, bytes),
            Self::Graph(graph) => graph.read(place, offset, bytes),
        }
    }

    /// Puts new data at a place. Returns `false` if readers hold all spare segments.
    ///
    /// # Errors
    /// If the file system returns an error, or the graph store is full.
    pub fn replace(&self, place: usize, word: u64) -> Result<bool, String> {
        match self {
            Self::Files(files) => files.replace(place),
            Self::Graph(graph) => graph.replace(place, word).map(|()| true),
        }
    }

    /// Returns the percentage of the segments' pages that are in memory.
    pub fn resident_percent(&self) -> f64 {
        match self {
            Self::Files(files) => files.resident_percent(),
            Self::Graph(graph) => graph.resident_percent(),
        }
    }
}

impl FileSegments {
    /// Creates `places` segments, and `spare` segments if files are reused.
    fn make(folder: &Path, segment_bytes: usize, places: usize, spare: Option<usize>) -> Result<Self, String> {
        let mut store = Self {
            are_reused: spare.is_some(),
            folder: folder.to_owned(),
            segment_bytes,
            places: Vec::new(),
            spare: Mutex::new(Vec::new()),
            made: AtomicU64::new(0),
            piece: vec![0xa5; PIECE_BYTES],
        };
        for _ in 0..places {
            let segment = store.fresh()?;
            store.places.push(Mutex::new(segment));
        }
        for _ in 0..spare.unwrap_or(0) {
            let segment = store.fresh()?;
            held(&store.spare).push(segment);
        }
        Ok(store)
    }

    /// Returns a new segment, written completely.
    fn fresh(&self) -> Result<Arc<Segment>, String> {
        let wrong = |error: std::io::Error| format!("a segment: {error}");
        let path = self.folder.join(format!("segment-{}", self.made.fetch_add(1, Ordering::Relaxed)));
        let file = File::options().read(true).write(true).create_new(true).open(&path).map_err(wrong)?;
        self.write(&file).map_err(wrong)?;
        let cells = Cells::of_file(&file, self.segment_bytes, Order::Usual).map_err(wrong)?;
        Ok(Arc::new(Segment { cells, file, path }))
    }

    fn write(&self, file: &File) -> std::io::Result<()> {
        for offset in (0..self.segment_bytes).step_by(PIECE_BYTES) {
            let bytes = PIECE_BYTES.min(self.segment_bytes - offset);
            file.write_all_at(&self.piece[..bytes], offset as u64)?;
        }
        Ok(())
    }

    fn read(&self, place: usize, offset: usize, bytes: usize) -> u64 {
        let segment = Arc::clone(&held(&self.places[place]));
        let end = (offset + bytes).min(self.segment_bytes);
        (offset..end).step_by(arena::PAGE_BYTES).map(|at| u64::from(segment.cells.load(at))).sum()
    }

    fn replace(&self, place: usize) -> Result<bool, String> {
        let segment = if self.are_reused {
            let Some(segment) = self.take_spare() else { return Ok(false) };
            self.write(&segment.file).map_err(|error| format!("a segment: {error}"))?;
            segment
        } else {
            self.fresh()?
        };
        let old = std::mem::replace(&mut *held(&self.places[place]), segment);
        if self.are_reused {
            held(&self.spare).push(old);
        }
        Ok(true)
    }

    /// Removes and returns a spare segment that no reader holds.
    fn take_spare(&self) -> Option<Arc<Segment>> {
        let mut spare = held(&self.spare);
        let at = spare.iter().position(|segment| Arc::strong_count(segment) == 1)?;
        Some(spare.remove(at))
    }

    fn resident_percent(&self) -> f64 {
        let bytes = |place: &Mutex<Arc<Segment>>| held(place).cells.resident_bytes().unwrap_or(0) as f64;
        let all = (self.places.len() * self.segment_bytes) as f64;
        self.places.iter().map(bytes).sum::<f64>() / all * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("gannet-engine-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn engines_create_and_remove_the_expected_number_of_segment_files() {
        for ((name, engine), (kept, made)) in Engine::ALL.into_iter().zip([(0, 0), (6, 6), (4, 24)]) {
            let folder = folder(name);
            let store = SegmentStore::make(engine, &folder, 64 << 10, 4, 2).unwrap();
            let files = || fs::read_dir(&folder).unwrap().count();
            assert_eq!(files(), kept, "{name}");
            for n in 0..20 {
                assert_eq!(store.replace(n % 4, n as u64), Ok(true), "{name}");
            }
            assert_eq!(files(), kept, "{name}");
            let sum = store.read(3, 0, 2 * arena::PAGE_BYTES);
            match &store {
                SegmentStore::Files(files) => {
                    assert_eq!((sum, files.made.load(Ordering::Relaxed)), (2 * 0xa5, made), "{name}");
                }
                SegmentStore::Graph(_) => assert_eq!(sum, 64 * 19, "the first bytes of a list's edges"),
            }
            drop(store);
            assert_eq!(files(), 0, "{name}");
            let _ = fs::remove_dir_all(folder);
        }
    }

    #[test]
    fn a_segment_that_is_read_is_not_written_into() {
        let folder = folder("read");
        let store = FileSegments::make(&folder, 64 << 10, 1, Some(1)).unwrap();
        let reader = Arc::clone(&held(&store.places[0]));
        assert_eq!(store.replace(0), Ok(true));
        assert_eq!(store.replace(0), Ok(false));
        drop(reader);
        assert_eq!(store.replace(0), Ok(true));
        let _ = fs::remove_dir_all(folder);
    }
}
