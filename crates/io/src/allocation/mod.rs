//! Memory of the process outside the store: allocators that stand before the system's where a program or a test
//! declares them with `#[global_allocator]`, and the return of what the system's allocator holds free.
//!
//! | allocator | for |
//! |---|---|
//! | [`MappedLong`] | the program: a freed long block is the kernel's at once |
//! | [`Counting`] | tests: how often a thread allocates |
#![allow(unsafe_code)]

mod counting;
mod long;

pub use counting::{Counting, count_this_thread, take_count};
pub use long::{LONG_BYTES_MIN, MappedLong};

/// The free end of a heap goes back to the kernel from this length on, in bytes.
#[cfg(target_env = "gnu")]
const TRIMMED_BYTES_MIN: libc::c_int = 1 << 20;

/// Has the system's allocator return free memory to the kernel early. Left alone, glibc raises the length from which it
/// maps blocks of their own, and twice that length is what it keeps, with each mapped block that is freed.
pub fn return_free_memory_early() {
    #[cfg(target_env = "gnu")]
    // SAFETY: 1. mallopt(3) may be called at any time from any thread. 2. Both parameters take a length in bytes.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LONG_BYTES_MIN as libc::c_int);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TRIMMED_BYTES_MIN);
    }
}

/// Returns to the kernel what the system's allocator holds free. It takes the lock of each heap in turn, so a thread
/// that allocates waits for it.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: 1. malloc_trim(3) may be called at any time from any thread: it takes the locks of the heaps.
    unsafe {
        libc::malloc_trim(0);
    }
}
