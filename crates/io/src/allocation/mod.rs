//! Process memory outside the store: allocators that wrap the system's allocator, and functions that return its free
//! memory to the kernel. A program or a test declares an allocator with `#[global_allocator]`.
//!
//! | allocator | purpose |
//! |---|---|
//! | [`MappedLong`] | in the program: returns a freed long block to the kernel at once |
//! | [`Counting`] | in tests: counts how often a thread allocates |
#![allow(unsafe_code)]

mod counting;
mod long;

pub use counting::{Counting, count_this_thread, take_count};
pub use long::{LONG_BYTES_MIN, MappedLong};

/// Minimum length in bytes of the free end of a heap that is returned to the kernel.
#[cfg(target_env = "gnu")]
const TRIMMED_BYTES_MIN: libc::c_int = 1 << 20;

/// Makes the system's allocator return free memory to the kernel early. By default, each free of a mapped block lets
/// glibc raise two thresholds: the length from which it maps blocks, and the free memory that it retains, which is
/// twice that length.
pub fn return_free_memory_early() {
    #[cfg(target_env = "gnu")]
    // SAFETY: 1. mallopt(3) may be called at any time from any thread. 2. Both parameters take a length in bytes.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LONG_BYTES_MIN as libc::c_int);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIMMED_BYTES_MIN);
    }
}

/// Returns the system allocator's free memory to the kernel. It takes the lock of each heap in turn, so threads that
/// allocate meanwhile wait.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: 1. malloc_trim(3) may be called at any time from any thread: it takes the locks of the heaps.
    unsafe {
        libc::malloc_trim(0);
    }
}
