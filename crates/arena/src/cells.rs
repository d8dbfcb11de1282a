//! Memory maps that any thread may read and write without synchronisation, for programs that measure memory.
//!
//! ```text
//!   anonymous(Pages)  load, store          private memory, with pages of the chosen size
//!   of_file(Order)    load                 a file's pages, in the kernel's page cache
//! ```
//!
//! Invariants:
//! - Every access is to one aligned atomic word inside the map, so two accesses never form a data race.
//! - A map of a file is read-only.
//!
//! If a file is truncated while it is mapped, a read beyond its new end kills the process (SIGBUS). Map only files that
//! no other process truncates.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, mmap};

use crate::Map;

/// Number of bytes in a word.
const WORD_BYTES: usize = size_of::<AtomicU64>();

/// The page size that an anonymous map requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Ordinary pages, even if the host enables huge pages for all memory.
    Small,
    /// Transparent huge pages, if the host supports them.
    Huge,
}

/// The order in which a file's pages will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// No advice: the kernel reads ahead as usual.
    Usual,
    /// Random order: the kernel does not read ahead.
    Random,
}

/// A map of atomic words that threads share.
#[derive(Debug)]
pub struct Cells {
    map: Map,
    is_writable: bool,
}

impl Cells {
    /// Maps `bytes` of anonymous memory that reads as zero.
    ///
    /// # Errors
    /// If `mmap` fails.
    pub fn anonymous(bytes: usize, pages: Pages) -> io::Result<Self> {
        let map = Map::reserve(bytes, pages == Pages::Huge)?;
        if pages == Pages::Small {
            // A kernel without huge pages refuses this advice; all its pages are ordinary ones anyway.
            let _ = map.advise(0, map.bytes, Advice::LinuxNoHugepage);
        }
        Ok(Self { map, is_writable: true })
    }

    /// Maps the first `bytes` of a file or block device for reading. The file must have at least that length.
    ///
    /// # Errors
    /// If `mmap` fails.
    pub fn of_file(file: &File, bytes: usize, order: Order) -> io::Result<Self> {
        let map = Map::reserve(bytes, false)?;
        // SAFETY: 1. start..start + bytes is address space that `map` reserved and owns alone, and that no other code
        // has received; 2. FIXED replaces the existing mapping there, which is that reservation; 3. if other processes
        // change the file, the changed bytes are only ever read as atomics.
        unsafe {
            mmap(map.start.as_ptr().cast(), map.bytes, ProtFlags::READ, MapFlags::SHARED | MapFlags::FIXED, file, 0)?
        };
        if order == Order::Random {
            map.advise(0, map.bytes, Advice::Random)?;
        }
        Ok(Self { map, is_writable: false })
    }

    /// Returns the number of bytes in the map.
    pub fn bytes(&self) -> usize {
        self.map.bytes
    }

    /// Returns the byte at `offset`.
    pub fn load(&self, offset: usize) -> u8 {
        let within = offset % WORD_BYTES;
        self.word(offset - within).load(Ordering::Relaxed).to_ne_bytes()[within]
    }

    /// Stores `word` in the eight bytes that begin at `offset`, which must be a multiple of eight.
    pub fn store(&self, offset: usize, word: u64) {
        assert!(self.is_writable, "a map of a file is read-only");
        self.word(offset).store(word, Ordering::Relaxed);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(WORD_BYTES) && offset < self.map.bytes, "offset {offset} outside the map");
        // SAFETY: 1. the word is inside the map (asserted; the map's length is a multiple of a page), which is readable
        // and lives as long as `self`; 2. the map begins at a page and the offset is a multiple of a word (asserted);
        // 3. every access goes through this method, so all are atomic and of this size; `store` has checked that the
        // map is writable.
        unsafe { AtomicU64::from_ptr(self.map.start.as_ptr().add(offset).cast()) }
    }

    /// Allocates memory for a range, as [`Map::populate`] does.
    ///
    /// # Errors
    /// If [`Map::populate`] fails.
    pub fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        self.map.populate(offset, bytes)
    }

    /// Returns the number of bytes that huge pages back now.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn huge_bytes(&self) -> io::Result<u64> {
        self.map.huge_bytes()
    }

    /// Returns the number of bytes that are resident in memory now.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        self.map.resident_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_BYTES;
    use std::io::Write;

    #[test]
    fn stored_bytes_are_loaded_and_only_touched_pages_are_resident() {
        let cells = Cells::anonymous(64 * PAGE_BYTES, Pages::Small).expect("map");
        cells.store(8, 0x0102);
        assert_eq!((cells.load(8), cells.load(9), cells.load(10)), (2, 1, 0));
        assert_eq!(cells.resident_bytes().expect("smaps"), PAGE_BYTES as u64);
        cells.populate(0, 3 * PAGE_BYTES).expect("populate");
        assert_eq!(cells.resident_bytes().expect("smaps"), 3 * PAGE_BYTES as u64);
        assert_eq!(cells.huge_bytes().expect("smaps"), 0);
    }

    #[test]
    fn a_file_is_read_as_it_is_and_never_written() {
        let path = std::env::temp_dir().join(format!("gannet-arena-cells-{}", std::process::id()));
        File::create(&path).and_then(|mut file| file.write_all(&[7; 2 * PAGE_BYTES])).expect("write");
        let cells = Cells::of_file(&File::open(&path).expect("open"), 2 * PAGE_BYTES, Order::Random).expect("map");
        std::fs::remove_file(&path).expect("remove");
        assert_eq!((cells.load(0), cells.load(2 * PAGE_BYTES - 1)), (7, 7));
        let stored = std::panic::catch_unwind(|| cells.store(0, 1));
        assert!(stored.is_err() && cells.load(0) == 7);
    }

    #[test]
    #[should_panic(expected = "outside the map")]
    fn load_past_the_end_of_the_map_panics() {
        Cells::anonymous(PAGE_BYTES, Pages::Small).expect("map").load(PAGE_BYTES);
    }
}
