//! Memory maps for the store. A map is a range of address space that is reserved as a whole, then populated and
//! released piece by piece.
//!
//! ```text
//!   reserve            populate(range)            release(range)
//!   [ . . . . . ]  ->  [ P P . . . ]          ->  [ . P . . . ]      . no memory behind it   P populated
//! ```
//!
//! Invariants:
//! - Memory reads as zero until it is first written, and again after a release.
//! - A map never moves, and is unmapped only when the [`Map`] is dropped.
//! - All sizes are in bytes. The start is aligned to [`HUGE_PAGE_BYTES`].
//!
//! A map may lie in a [`MapFile`]. Then it is shared with the file, and a released range becomes a hole in the file.
//! Space is allocated ([`Map::allocate`]) before each first write, because a write to a hole ends the process if the
//! disk is full.
//!
//! A [`Map`] returns addresses and never references. Its caller decides which threads may read and write, and when.
//! [`Words`] are a map of atomic words, which any thread may access.

mod cells;
mod file;
mod words;

pub use cells::{Cells, Order, Pages};
pub use file::{BOOT_ID_VARIABLE, MapFile, Medium, OpenError, boot_id, boot_id_override};
pub use words::Words;

use std::io::{self, Read, Seek, SeekFrom};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap};

/// The size of a huge page on the supported machines (x86-64, and AArch64 with 4 KiB pages), in bytes.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The page size to which populate and release round, in bytes.
pub const PAGE_BYTES: usize = 4096;

/// A memory map: private anonymous memory, or a range of a file.
#[derive(Debug)]
pub struct Map {
    /// The address that `mmap` returned, for `munmap`.
    mapped: NonNull<u8>,
    mapped_bytes: usize,
    /// Start of the aligned part that callers use.
    start: NonNull<u8>,
    bytes: usize,
    /// The file that the map is a range of, and the offset of that range in it.
    file: Option<(Arc<MapFile>, u64)>,
}

// SAFETY: 1. A Map is an address range and owns it alone; 2. it is not tied to a thread; 3. its methods only make
// system calls on the range, which the kernel serialises. Reads and writes behind `start` are the caller's
// responsibility.
unsafe impl Send for Map {}
// SAFETY: as for Send.
unsafe impl Sync for Map {}

impl Map {
    /// Reserves `bytes` (rounded up to a page) of address space that reads as zero. No memory is used until it is
    /// touched or populated. `huge_pages` asks the kernel for transparent huge pages. If the kernel refuses, the map
    /// uses ordinary pages; [`Map::huge_bytes`] returns how much memory huge pages back.
    ///
    /// # Errors
    /// If `mmap` fails, most often with `ENOMEM` because an address-space limit is set.
    pub fn reserve(bytes: usize, huge_pages: bool) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let mapped_bytes = bytes + HUGE_PAGE_BYTES;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: 1. the address is null, so the kernel chooses a free range; 2. nothing else refers to that range.
        let mapped =
            unsafe { mmap_anonymous(std::ptr::null_mut(), mapped_bytes, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        let mapped =
            NonNull::new(mapped.cast::<u8>()).ok_or_else(|| io::Error::other("mmap returned a null address"))?;
        let skip = mapped.as_ptr().align_offset(HUGE_PAGE_BYTES);
        assert!(skip < HUGE_PAGE_BYTES, "alignment of a mapped address is always computable");
        // SAFETY: 1. skip < HUGE_PAGE_BYTES, so start..start + bytes lies inside the mapped range.
        let start = unsafe { mapped.add(skip) };
        let map = Self { mapped, mapped_bytes, start, bytes, file: None };
        if huge_pages {
            // A kernel without transparent huge pages refuses this; ordinary pages work too.
            let _ = map.advise(0, bytes, Advice::LinuxHugepage);
        }
        Ok(map)
    }

    /// Maps `bytes` (rounded up to a page) of a file from offset `at`, which must be a multiple of a page. Writes reach
    /// the file at once and survive the end of the process, even if it is killed. The range must lie inside the file.
    /// Holes of a file on tmpfs are not mapped in a view ([`MapFile::view`]): they read as zero and take no space.
    ///
    /// # Errors
    /// If `mmap` fails.
    pub fn of_file(file: &Arc<MapFile>, at: u64, bytes: usize, huge_pages: bool) -> io::Result<Self> {
        let mut map = Self::reserve(bytes, false)?;
        let flags = if file.is_view() { MapFlags::PRIVATE } else { MapFlags::SHARED } | MapFlags::FIXED;
        for part in file.mapped_parts(at, map.bytes as u64)? {
            let (offset, len) = ((part.start - at) as usize, (part.end - part.start) as usize);
            assert!(offset <= map.bytes && len <= map.bytes - offset, "range {offset}+{len} outside the map");
            // SAFETY: 1. the range lies inside start..start + bytes (asserted), which is address space that `map`
            // reserved and owns alone, and that no other code has received; 2. FIXED replaces the existing mapping
            // there, which is that reservation; 3. the map holds the file, so the file outlives it; the file's lock
            // keeps other processes from changing it.
            unsafe {
                let prot = ProtFlags::READ | ProtFlags::WRITE;
                mmap(map.start.as_ptr().add(offset).cast(), len, prot, flags, file.file(), part.start)?;
            }
        }
        map.file = Some((Arc::clone(file), at));
        if huge_pages {
            // A file system without huge pages refuses this; ordinary pages work too.
            let _ = map.advise(0, map.bytes, Advice::LinuxHugepage);
        }
        Ok(map)
    }

    /// Allocates file space for the pages that `offset .. offset + bytes` touches. Does nothing for an anonymous map.
    ///
    /// # Errors
    /// `ENOSPC`; `EOPNOTSUPP` on file systems that allocate only as they write.
    pub fn allocate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        let Some((file, at)) = &self.file else { return Ok(()) };
        let (from, to) = self.pages_touched(offset, bytes);
        if from == to { Ok(()) } else { file.allocate(at + from as u64, (to - from) as u64) }
    }

    /// Returns the file that the map is a range of.
    pub fn file(&self) -> Option<&Arc<MapFile>> {
        self.file.as_ref().map(|(file, _)| file)
    }

    fn pages_touched(&self, offset: usize, bytes: usize) -> (usize, usize) {
        let from = offset / PAGE_BYTES * PAGE_BYTES;
        let to = (offset + bytes).next_multiple_of(PAGE_BYTES).min(self.bytes);
        assert!(from <= to, "range {offset}+{bytes} outside the map");
        (from, to)
    }

    /// Returns the address of the first byte, aligned to [`HUGE_PAGE_BYTES`].
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the number of reserved bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Allocates memory for the pages that `offset .. offset + bytes` touches, so that a later write does not fault.
    ///
    /// # Errors
    /// `ENOMEM` if there is no memory; `EINVAL` on kernels before 5.14, where the first write faults instead. For a map
    /// of a file, the errors of [`Map::allocate`].
    pub fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        let (from, to) = self.pages_touched(offset, bytes);
        if let Some((file, at)) = &self.file {
            file.allocate(at + from as u64, (to - from) as u64)?;
            if file.medium() == Medium::Disk || file.is_view() {
                // Populating would map the pages for writing, and the kernel writes such pages back.
                return Ok(());
            }
        }
        self.advise(from, to - from, Advice::LinuxPopulateWrite)
    }

    /// Returns the memory of all whole pages inside `offset .. offset + bytes` to the kernel, and deallocates their
    /// file space if the map is of a file. The pages then read as zero. No thread may access the range meanwhile.
    ///
    /// # Errors
    /// If `madvise` fails, for example because the range is locked; for a file, if [`MapFile::punch`] fails.
    pub fn release(&self, offset: usize, bytes: usize) -> io::Result<()> {
        let from = offset.next_multiple_of(PAGE_BYTES);
        let to = (offset + bytes) / PAGE_BYTES * PAGE_BYTES;
        if from >= to {
            return Ok(());
        }
        if let Some((file, at)) = &self.file {
            if file.is_view() {
                assert!(to <= self.bytes, "range {offset}+{bytes} outside the map");
                // SAFETY: 1. the range lies inside the map (asserted); 2. no thread reads or writes it meanwhile, as
                // for DONTNEED.
                unsafe { self.start.as_ptr().add(from).write_bytes(0, to - from) };
                return Ok(());
            }
            return file.punch(at + from as u64, (to - from) as u64);
        }
        // Kernels before 5.18 lack this advice, which also covers locked pages.
        match self.advise(from, to - from, Advice::LinuxDontneedLocked) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                self.advise(from, to - from, Advice::LinuxDontNeed)
            }
            done => done,
        }
    }

    /// Flushes this map's range of the file to the disk, if the file lies on one. [`MapFile::sync_data`] does this for
    /// the whole file. Writes through other maps are included.
    ///
    /// # Errors
    /// If `msync` fails. The error may belong to an earlier failure elsewhere in the file that was not yet reported.
    pub fn sync(&self) -> io::Result<()> {
        let on_disk = |file: &MapFile| file.medium() == Medium::Disk && !file.is_view();
        if self.file().is_some_and(|file| on_disk(file)) {
            // SAFETY: 1. the range is this map's; 2. a sync changes no contents.
            unsafe { msync(self.start.as_ptr().cast(), self.bytes, MsyncFlags::SYNC)? };
        }
        Ok(())
    }

    fn advise(&self, offset: usize, bytes: usize, advice: Advice) -> io::Result<()> {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "range {offset}+{bytes} outside the map");
        // SAFETY: 1. the range lies inside the map (asserted); 2. populate and hugepage change no contents; 3. for
        // DONTNEED the caller promises that the range is not in use (see `release`).
        unsafe { madvise(self.start.as_ptr().add(offset).cast(), bytes, advice)? };
        Ok(())
    }

    /// Returns the number of bytes that huge pages back now in this map, from `/proc/self/smaps`. Adjacent maps may be
    /// one entry there, and then count too. Slow: not for a data thread.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn huge_bytes(&self) -> io::Result<u64> {
        let (from, to) = (self.start.as_ptr() as u64, self.start.as_ptr() as u64 + self.bytes as u64);
        let mut inside = false;
        let mut kib = 0;
        for line in std::fs::read_to_string("/proc/self/smaps")?.lines() {
            if let Some((start, end)) = line.split(' ').next().and_then(address_range) {
                inside = start < to && end > from;
            } else if let (true, Some(rest)) = (inside, huge_line(line)) {
                kib += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
            }
        }
        Ok(kib * 1024)
    }

    /// Returns the number of bytes of this map that are resident now, from `/proc/self/pagemap`. Slow, like
    /// [`Map::huge_bytes`], but exact.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn resident_bytes(&self) -> io::Result<u64> {
        let first = self.start.as_ptr() as usize / PAGE_BYTES;
        let mut left = self.bytes.div_ceil(PAGE_BYTES);
        let mut pages = std::fs::File::open("/proc/self/pagemap")?;
        pages.seek(SeekFrom::Start((first * PAGEMAP_ENTRY_BYTES) as u64))?;
        let (mut resident, mut buffer) = (0, vec![0; PAGEMAP_READ_BYTES]);
        while left > 0 {
            let entries = left.min(PAGEMAP_READ_BYTES / PAGEMAP_ENTRY_BYTES);
            let read = &mut buffer[..entries * PAGEMAP_ENTRY_BYTES];
            pages.read_exact(read)?;
            let (words, _) = read.as_chunks::<PAGEMAP_ENTRY_BYTES>();
            resident += words.iter().filter(|word| u64::from_ne_bytes(**word) >> PAGEMAP_PRESENT & 1 == 1).count();
            left -= entries;
        }
        Ok((resident * PAGE_BYTES) as u64)
    }
}

/// The length of a page's entry in `/proc/PID/pagemap` in bytes, the bit of pages in memory, and the length of a read.
const PAGEMAP_ENTRY_BYTES: usize = 8;
const PAGEMAP_PRESENT: u32 = 63;
const PAGEMAP_READ_BYTES: usize = 1 << 16;

/// Returns the number, as text, from an `smaps` line that counts huge pages of private memory or of a file. Returns
/// `None` for other lines.
fn huge_line(line: &str) -> Option<&str> {
    let kinds = ["AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:", "Shared_Hugetlb:"];
    kinds.iter().find_map(|kind| line.strip_prefix(kind))
}

/// Parses an address range such as `5581a000-5581b000`.
fn address_range(word: &str) -> Option<(u64, u64)> {
    let (start, end) = word.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: 1. mapped and mapped_bytes are what mmap returned; 2. the Map is being dropped, and references into
        // it are bound by the lifetime of its owner.
        let _ = unsafe { munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(map: &Map, offset: usize, byte: u8) {
        assert!(offset < map.bytes());
        // SAFETY: 1. the offset is inside the map; 2. the test's thread alone uses it.
        unsafe { map.start().as_ptr().add(offset).write(byte) }
    }

    fn read(map: &Map, offset: usize) -> u8 {
        assert!(offset < map.bytes());
        // SAFETY: as in `write`.
        unsafe { map.start().as_ptr().add(offset).read() }
    }

    #[test]
    fn released_page_reads_as_zero_and_adjacent_pages_are_unchanged() {
        let map = Map::reserve(3 * PAGE_BYTES, false).expect("reserve");
        for page in 0..3 {
            write(&map, page * PAGE_BYTES, 7);
        }
        map.release(PAGE_BYTES, PAGE_BYTES).expect("release");
        assert_eq!([read(&map, 0), read(&map, PAGE_BYTES), read(&map, 2 * PAGE_BYTES)], [7, 0, 7]);
    }

    /// The kernel shows adjacent maps as one. Regression: the resident pages of neighbours counted too.
    #[test]
    fn resident_bytes_are_those_of_the_map_alone() {
        let maps = [0; 8].map(|_| Map::reserve(4 * PAGE_BYTES, false).expect("reserve"));
        for (number, map) in maps.iter().enumerate() {
            (0..number % 5).for_each(|page| write(map, page * PAGE_BYTES, 1));
        }
        for (number, map) in maps.iter().enumerate() {
            assert_eq!(map.resident_bytes().expect("pagemap"), (number % 5 * PAGE_BYTES) as u64, "map {number}");
        }
    }

    #[test]
    fn release_of_less_than_a_page_has_no_effect() {
        let map = Map::reserve(PAGE_BYTES, false).expect("reserve");
        write(&map, 100, 9);
        map.release(10, 200).expect("release");
        assert_eq!(read(&map, 100), 9);
    }

    #[test]
    fn populate_keeps_contents_and_start_is_aligned_for_huge_pages() {
        let map = Map::reserve(4 << 20, true).expect("reserve");
        assert_eq!(map.start().as_ptr() as usize % HUGE_PAGE_BYTES, 0);
        write(&map, 5, 3);
        map.populate(0, 1 << 20).expect("populate");
        assert_eq!(read(&map, 5), 3);
        assert!(map.huge_bytes().expect("smaps") <= 4 << 20);
    }

    #[test]
    #[should_panic(expected = "outside the map")]
    fn a_range_outside_the_map_is_refused() {
        let map = Map::reserve(PAGE_BYTES, false).expect("reserve");
        let _ = map.advise(0, 2 * PAGE_BYTES, Advice::Normal);
    }
}
