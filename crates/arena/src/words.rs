//! Words of 32 bits that all threads of a process may read and write, in memory of their own or in a file.

use crate::{Map, MapFile};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Words of 32 bits. They are atomic, so any thread may access them at any time.
#[derive(Debug)]
pub struct Words {
    map: Map,
    count: usize,
}

impl Words {
    /// Reserves `bytes` of memory that reads as zero, rounded down to whole words. Memory is used as it is touched.
    ///
    /// # Errors
    /// If `mmap` fails.
    pub fn anonymous(bytes: usize, huge_pages: bool) -> io::Result<Self> {
        Ok(Self { map: Map::reserve(bytes, huge_pages)?, count: bytes / size_of::<AtomicU32>() })
    }

    /// Maps the first `bytes` of a file, which must lie inside the file, rounded down to whole words. Writes reach the
    /// file at once and survive the end of the process, even if it is killed.
    ///
    /// # Errors
    /// If `mmap` fails.
    pub fn of_file(file: &Arc<MapFile>, bytes: usize, huge_pages: bool) -> io::Result<Self> {
        Ok(Self { map: Map::of_file(file, 0, bytes, huge_pages)?, count: bytes / size_of::<AtomicU32>() })
    }

    /// Returns the number of bytes that are resident in memory now.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        self.map.resident_bytes()
    }

    /// Returns the words.
    #[must_use]
    pub fn as_slice(&self) -> &[AtomicU32] {
        // SAFETY: 1. the map's range is readable and writable and stays mapped as long as `self` lives, to which the
        // result is bound; 2. its start is aligned to a huge page, and `count` words lie inside it; 3. all bit patterns
        // are valid, and memory that was never written reads as zero; 4. only atomics of this type refer to the range,
        // because the map is private to this value; 5. the lock of a file keeps other processes from changing it.
        unsafe { std::slice::from_raw_parts(self.map.start().cast::<AtomicU32>().as_ptr(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn words_of_a_file_are_there_when_it_is_mapped_again() {
        let file = Arc::new(MapFile::in_memory().expect("memory"));
        file.set_bytes(8192).expect("a size");
        Words::of_file(&file, 8192, false).expect("a map").as_slice()[2047].store(7, Relaxed);
        let again = Words::of_file(&file, 8191, false).expect("a map");
        assert_eq!(again.as_slice().len(), 2047);
        let again = Words::of_file(&file, 8192, false).expect("a map");
        assert_eq!((again.as_slice()[2047].load(Relaxed), again.as_slice()[0].load(Relaxed)), (7, 0));
        let anonymous = Words::anonymous(10, false).expect("memory");
        assert!(anonymous.as_slice().iter().all(|word| word.load(Relaxed) == 0));
        assert_eq!(anonymous.as_slice().len(), 2);
    }
}
