//! Maps that any thread may read and write without synchronisation, for a program that measures memory itself.
//!
//! ```text
//!   anonymous(Pages)  load, store          memory of this process, in pages of a size
//!   of_file(Order)    load                 a file's pages, as the kernel's cache has them
//! ```
//!
//! Invariants:
//! - Every access is of one aligned atomic word inside the map, so no two of them are ever a data race.
//! - Nothing is stored into a map of a file: it is mapped for reading.
//!
//! If a file is cut short below its map, a read there ends the process (SIGBUS). So only files are mapped that no other
//! process has a reason to change.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, mmap};

use crate::Map;

/// The bytes of a word.
const WORD_BYTES: usize = size_of::<AtomicU64>();

/// Which pages memory is had in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Ordinary ones, also where huge ones are the host's rule.
    Small,
    /// Transparent huge ones, where the host has any.
    Huge,
}

/// The order in which a file's pages are about to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As the kernel thinks fit: with read-ahead.
    Usual,
    /// Here and there: without.
    Random,
}

/// A map of words that threads share.
#[derive(Debug)]
pub struct Cells {
    map: Map,
    is_writable: bool,
}

impl Cells {
    /// `bytes` of memory that reads as zero.
    ///
    /// # Errors
    /// If `mmap` fails.
    pub fn anonymous(bytes: usize, pages: Pages) -> io::Result<Self> {
        let map = Map::reserve(bytes, pages == Pages::Huge)?;
        if pages == Pages::Small {
            // Refused on kernels without huge pages: there are no others then.
            let _ = map.advise(0, map.bytes, Advice::LinuxNoHugepage);
        }
        Ok(Self { map, is_writable: true })
    }

    /// The first `bytes` of a file (or block device) that is at least so long, for reading.
    ///
    /// # Errors
    /// If `mmap` fails.
    pub fn of_file(file: &File, bytes: usize, order: Order) -> io::Result<Self> {
        let map = Map::reserve(bytes, false)?;
        // SAFETY: 1. start..start + bytes is address space that `map` reserved and owns alone, and that was given out
        // to no code; 2. FIXED replaces what is mapped there, which is that reservation; 3. what others do to the file
        // changes bytes that are only ever read as atomics.
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

    /// The byte at `offset`.
    pub fn load(&self, offset: usize) -> u8 {
        let within = offset % WORD_BYTES;
        self.word(offset - within).load(Ordering::Relaxed).to_ne_bytes()[within]
    }

    /// Stores `word` in the eight bytes that begin at `offset`, a multiple of eight.
    pub fn store(&self, offset: usize, word: u64) {
        assert!(self.is_writable, "a map of a file is for reading");
        self.word(offset).store(word, Ordering::Relaxed);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(WORD_BYTES) && offset < self.map.bytes, "offset {offset} outside the map");
        // SAFETY: 1. the word is inside the map (asserted; the map's length is a multiple of a page), which is readable
        // and lives as long as `self`; 2. the map begins at a page and the offset is a multiple of a word (asserted);
        // 3. every access goes through here, so all are atomic and of this size; `store` has seen that it may write.
        unsafe { AtomicU64::from_ptr(self.map.start.as_ptr().add(offset).cast()) }
    }

    /// Gets memory for a range, as [`Map::populate`] does.
    ///
    /// # Errors
    /// What that answers.
    pub fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        self.map.populate(offset, bytes)
    }

    /// Bytes that huge pages stand behind now.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn huge_bytes(&self) -> io::Result<u64> {
        self.map.huge_bytes()
    }

    /// Bytes that have a page behind them now.
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
    fn what_is_stored_is_loaded_and_only_touched_pages_are_there() {
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
    fn a_byte_behind_the_end_is_refused() {
        Cells::anonymous(PAGE_BYTES, Pages::Small).expect("map").load(PAGE_BYTES);
    }
}
