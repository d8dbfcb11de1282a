//! An allocator that counts what one thread asks of it: the proof that a data thread, once warm, asks nothing.
//!
//! One thread is counted at a time; while one is, every call of any thread costs a system call more.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

/// The kernel's number of the thread that is counted; 0: none is.
static COUNTED: AtomicI32 = AtomicI32::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Counts the calling thread's calls from now on, from 0, and no other's.
pub fn count_this_thread() {
    CALLS.store(0, Relaxed);
    COUNTED.store(this_thread(), Relaxed);
}

/// Ends the count and gives it: allocations, reallocations and releases of the calling thread together; `None` if it
/// was not counted.
pub fn take_count() -> Option<u64> {
    COUNTED.compare_exchange(this_thread(), 0, Relaxed, Relaxed).ok().map(|_| CALLS.load(Relaxed))
}

fn count() {
    let counted = COUNTED.load(Relaxed);
    if counted != 0 && counted == this_thread() {
        CALLS.fetch_add(1, Relaxed);
    }
}

// SAFETY: 1. each method hands its arguments to the system's allocator unchanged, so that one's guarantees hold here.
// 2. Counting is two static words and gettid(2): it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: 1. the caller's obligations are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: 1. the caller's obligations are the system allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: 1. the caller's obligations are the system allocator's.
        unsafe { System.realloc(at, layout, new_size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: 1. the caller's obligations are the system allocator's.
        unsafe { System.dealloc(at, layout) }
    }
}
