//! An allocator that maps each long block separately, so that a free returns its memory to the kernel at once.
//!
//! ```text
//!   block          below LONG_BYTES_MIN            LONG_BYTES_MIN or more     at MAPS_MAX, or if mmap fails
//!   lies in        a heap of the system            a separate map             a heap, after 16 or 32 skipped bytes
//!   address        any                             a multiple of PAGE_BYTES   never a multiple of PAGE_BYTES
//!   when freed     stays resident, until the       unmapped                   as a short block
//!                  heap's end is free or `trim`
//! ```
//!
//! With glibc alone, freed memory below a live block of a heap stays resident, and a long block is mapped only if no
//! heap has room for it. Without this allocator, if clients fill heaps with one kind of memory and then need another
//! kind, both would stay resident. Only the second kind would count against the clients' limit.
//!
//! Invariants:
//! - The layout's length and the block's address show how a block was allocated. This needs no table and no lock.
//! - At most [`MAPS_MAX`] blocks are mapped at once, a quarter of the maps that the kernel allows a process. The kernel
//!   may merge adjacent maps; unmapping from the middle of a merged map then needs one more map. The remaining three
//!   quarters allow for that.
//! - A mapped block grows by moving pages, never by copying.

use rustix::mm::{self, MapFlags, MremapFlags, ProtFlags};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Minimum length of a mapped block, in bytes.
pub const LONG_BYTES_MIN: usize = 128 << 10;
/// Maximum number of mapped blocks: a quarter of the default `vm.max_map_count`, 65,530.
const MAPS_MAX: usize = 16_384;
/// Alignment in bytes that every map has at least, whatever the machine's page size.
const PAGE_BYTES: usize = 4096;
/// Alignment of a heap block that replaces a map, and of the word before it.
const HEAP_ALIGN: usize = 16;

/// The system's allocator, except for long blocks.
#[derive(Debug)]
pub struct MappedLong {
    mapped: AtomicUsize,
}

impl MappedLong {
    /// Creates an allocator without blocks.
    pub const fn new() -> Self {
        Self { mapped: AtomicUsize::new(0) }
    }

    /// Returns the number of mapped blocks.
    pub fn mapped(&self) -> usize {
        self.mapped.load(Relaxed)
    }

    /// Maps zeroed memory. Returns null if the limit on maps is reached or the kernel refuses.
    fn map(&self, bytes: usize) -> *mut u8 {
        if self.mapped.fetch_add(1, Relaxed) >= MAPS_MAX {
            self.mapped.fetch_sub(1, Relaxed);
            return null_mut();
        }
        // SAFETY: 1. a new private map overlaps nothing that is in use.
        let map =
            unsafe { mm::mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        map.map_or_else(
            |_| {
                self.mapped.fetch_sub(1, Relaxed);
                null_mut()
            },
            |map| map.cast(),
        )
    }

    fn alloc_long(&self, layout: Layout) -> *mut u8 {
        let map = self.map(layout.size());
        if map.is_null() { alloc_in_heap(layout) } else { map }
    }

    /// # Safety
    /// `at` is from `alloc_long` or `realloc_map` with this length, and is no longer used.
    unsafe fn dealloc_long(&self, at: *mut u8, layout: Layout) {
        if !is_map(at) {
            // SAFETY: 1. a block that is not a map is from `alloc_in_heap`.
            return unsafe { dealloc_in_heap(at, layout) };
        }
        // SAFETY: 1. by the caller's contract, the map has this length and is no longer in use.
        if unsafe { mm::munmap(at.cast(), layout.size()) }.is_err() {
            // SAFETY: 1. as above. 2. This returns the pages to the kernel; their addresses stay reserved.
            let _ = unsafe { mm::madvise(at.cast(), layout.size(), mm::Advice::LinuxDontNeed) };
        }
        self.mapped.fetch_sub(1, Relaxed);
    }

    /// Copies the block into a new block and frees the old block. Returns null, and leaves the old block unchanged, if
    /// there is no memory.
    ///
    /// # Safety
    /// `at` is a block of `layout` of this allocator, and `new_layout` has the alignment of `layout`.
    unsafe fn copy(&self, at: *mut u8, layout: Layout, new_layout: Layout) -> *mut u8 {
        // SAFETY: 1. by the caller's contract, for each of the three: `at` has `layout`, `new` has `new_layout`; they
        // do not overlap.
        unsafe {
            let new = self.alloc(new_layout);
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(at, new, layout.size().min(new_layout.size()));
                self.dealloc(at, layout);
            }
            new
        }
    }
}

impl Default for MappedLong {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns true if blocks of this layout are mapped if possible. The system allocates blocks whose alignment exceeds a
/// heap's natural alignment: the program allocates such blocks at start and never frees them.
#[inline]
fn is_long(layout: Layout) -> bool {
    layout.size() >= LONG_BYTES_MIN && layout.align() <= HEAP_ALIGN
}

fn is_map(at: *mut u8) -> bool {
    at.addr().is_multiple_of(PAGE_BYTES)
}

/// Returns the layout of the heap block that replaces a map of `layout`; `None` if it would be too long.
fn heap_layout(layout: Layout) -> Option<Layout> {
    Layout::from_size_align(layout.size().checked_add(2 * HEAP_ALIGN)?, HEAP_ALIGN).ok()
}

/// Allocates a heap block at an address that is not a multiple of a page. The word before the address holds its offset
/// in the heap's block.
fn alloc_in_heap(layout: Layout) -> *mut u8 {
    let Some(whole) = heap_layout(layout) else { return null_mut() };
    // SAFETY: 1. the layout's size is not zero. 2. Both possible addresses are inside: the allocation has 32 bytes more
    // than needed. 3. The word before either address is inside and aligned.
    unsafe {
        let base = System.alloc(whole);
        if base.is_null() {
            return base;
        }
        let skipped = if is_map(base.add(HEAP_ALIGN)) { 2 * HEAP_ALIGN } else { HEAP_ALIGN };
        let at = base.add(skipped);
        at.cast::<usize>().sub(1).write(skipped);
        at
    }
}

/// # Safety
/// `at` is from [`alloc_in_heap`] with this layout and is no longer used.
unsafe fn dealloc_in_heap(at: *mut u8, layout: Layout) {
    let Some(whole) = heap_layout(layout) else { return };
    // SAFETY: 1. `alloc_in_heap` wrote the word before the block. 2. `whole` is the layout that it used.
    unsafe {
        let skipped = at.cast::<usize>().sub(1).read();
        System.dealloc(at.sub(skipped), whole);
    }
}

// SAFETY: 1. a map is aligned to a page, so to every alignment of a long block, and has the requested length; a heap
// block is what the system returned for the same layout, or lies inside a block that is 32 bytes longer. 2. Blocks are
// freed in the way in which they were allocated: the layout is the same both times, and of the long blocks exactly the
// mapped ones begin at a multiple of a page. 3. Nothing here allocates or unwinds.
unsafe impl GlobalAlloc for MappedLong {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_long(layout) {
            return self.alloc_long(layout);
        }
        // SAFETY: 1. the caller's obligations are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_long(layout) {
            let at = self.alloc_long(layout);
            if !at.is_null() && !is_map(at) {
                // SAFETY: 1. the block has the length of its layout.
                unsafe { at.write_bytes(0, layout.size()) };
            }
            return at;
        }
        // SAFETY: 1. the caller's obligations are the system allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if is_long(layout) {
            // SAFETY: 1. by the caller's contract, it is a block of this layout, so from `alloc_long` or a remapped
            // one.
            return unsafe { self.dealloc_long(at, layout) };
        }
        // SAFETY: 1. the caller's obligations are the system allocator's.
        unsafe { System.dealloc(at, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: 1. by the caller's contract, the new length, rounded up to the alignment, does not exceed
        // `isize::MAX`.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (is_long(layout), is_long(new_layout)) {
            // SAFETY: 1. the caller's obligations are the system allocator's.
            (false, false) => unsafe { System.realloc(at, layout, new_size) },
            (true, true) if is_map(at) => {
                // SAFETY: 1. by the caller's contract, the map has this length, and its old address is no longer used
                // if it moves.
                let moved = unsafe { mm::mremap(at.cast(), layout.size(), new_size, MremapFlags::MAYMOVE) };
                moved.map_or(null_mut(), |map| map.cast())
            }
            // SAFETY: 1. the caller's obligations are those of `copy`.
            _ => unsafe { self.copy(at, layout, new_layout) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 8).expect("a layout")
    }

    fn bytes_of<'a>(at: *mut u8, bytes: usize) -> &'a mut [u8] {
        assert!(!at.is_null());
        // SAFETY: 1. tests pass blocks that they have allocated and not freed.
        unsafe { std::slice::from_raw_parts_mut(at, bytes) }
    }

    fn resident_bytes() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").expect("every process has this file");
        let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
        pages.expect("a number") * rustix::param::page_size()
    }

    /// The blocks take far more memory than the other tests of this process use meanwhile.
    #[test]
    fn freed_long_block_returns_to_the_kernel_while_a_later_block_remains() {
        const BYTES: usize = 1 << 20;
        let heap = MappedLong::new();
        // SAFETY: 1. each block is freed once, with its layout.
        unsafe {
            let blocks: Vec<*mut u8> = (0..200).map(|_| heap.alloc(layout(BYTES))).collect();
            blocks.iter().for_each(|block| bytes_of(*block, BYTES).fill(7));
            let full = resident_bytes();
            blocks[..199].iter().for_each(|block| heap.dealloc(*block, layout(BYTES)));
            let left = resident_bytes();
            assert!(left + 150 * BYTES < full, "{full} bytes were resident, {left} are");
            assert!((heap.mapped(), bytes_of(blocks[199], BYTES)[BYTES - 1]) == (1, 7));
            heap.dealloc(blocks[199], layout(BYTES));
        }
        assert_eq!(heap.mapped(), 0);
    }

    #[test]
    fn block_contents_survive_reallocation_across_the_long_threshold() {
        let heap = MappedLong::new();
        let long = LONG_BYTES_MIN;
        let lengths = [10, long - 1, long, long + 1, 5 * long, 3 * long, 9 * long, long, long - 1, 4 * long, 100];
        // SAFETY: 1. the layout is always that of the last allocation.
        unsafe {
            let mut block = heap.alloc_zeroed(layout(1));
            let mut has = 1;
            bytes_of(block, 1)[0] = 3;
            for length in lengths {
                block = heap.realloc(block, layout(has), length);
                let bytes = bytes_of(block, length);
                let kept = has.min(length);
                assert_eq!((bytes[0], bytes[kept - 1]), (3, 3), "{has} to {length}");
                bytes.fill(3);
                has = length;
            }
            heap.dealloc(block, layout(has));
        }
        assert_eq!(heap.mapped(), 0);
    }

    /// Without the limit, a server with more long blocks than the kernel allows maps would abort at the next block.
    #[test]
    fn long_blocks_above_the_map_limit_are_allocated_and_freed_in_the_heap() {
        let heap = MappedLong::new();
        heap.mapped.store(MAPS_MAX - 1, Relaxed);
        let bytes = LONG_BYTES_MIN;
        // SAFETY: 1. each block is freed once, with its layout.
        unsafe {
            let mapped = heap.alloc(layout(bytes));
            let mut blocks: Vec<*mut u8> = (0..100).map(|_| heap.alloc(layout(bytes))).collect();
            let zeroed = heap.alloc_zeroed(layout(bytes));
            assert!(is_map(mapped) && !is_map(zeroed) && !blocks.iter().any(|block| is_map(*block)));
            assert!(bytes_of(zeroed, bytes).iter().all(|byte| *byte == 0));
            for (number, block) in blocks.iter_mut().enumerate() {
                bytes_of(*block, bytes).fill(number as u8);
                *block = heap.realloc(*block, layout(bytes), 2 * bytes);
            }
            heap.dealloc(mapped, layout(bytes));
            for (number, block) in blocks.into_iter().enumerate() {
                assert!(bytes_of(block, 2 * bytes)[..bytes].iter().all(|byte| *byte == number as u8));
                heap.dealloc(block, layout(2 * bytes));
            }
            heap.dealloc(zeroed, layout(bytes));
        }
        assert_eq!(heap.mapped(), MAPS_MAX - 1, "the count before the first block");
    }

    #[test]
    fn failed_mapping_returns_null_and_preserves_the_old_block() {
        let heap = MappedLong::new();
        let bytes = LONG_BYTES_MIN;
        // SAFETY: 1. each block is freed once, with its layout.
        unsafe {
            let block = heap.alloc(layout(bytes));
            bytes_of(block, bytes).fill(9);
            assert!(heap.realloc(block, layout(bytes), isize::MAX as usize / 2).is_null());
            assert!(heap.alloc(layout(isize::MAX as usize / 2)).is_null());
            assert!(bytes_of(block, bytes).iter().all(|byte| *byte == 9));
            heap.dealloc(block, layout(bytes));
        }
        assert_eq!(heap.mapped(), 0);
    }

    /// The system allocates these alignments, although their length alone would require a map.
    #[test]
    fn a_block_of_a_wide_alignment_has_it() {
        let heap = MappedLong::new();
        let wide = Layout::from_size_align(LONG_BYTES_MIN, 4 * PAGE_BYTES).expect("a layout");
        // SAFETY: 1. the block is freed once, with its layout.
        unsafe {
            let block = heap.alloc(wide);
            assert!(!block.is_null() && block.addr().is_multiple_of(wide.align()));
            heap.dealloc(block, wide);
        }
        assert_eq!(heap.mapped(), 0);
    }
}
