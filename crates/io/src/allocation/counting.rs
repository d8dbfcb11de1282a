//! An allocator that counts the calls of one thread. Tests use it to prove that a warmed-up data thread never
//! allocates.
//!
//! It counts one thread at a time. While it counts, each call of any thread makes one additional system call.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

/// Kernel thread ID of the counted thread; 0 if none is counted.
static COUNTED: AtomicI32 = AtomicI32::new(0);
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, with counting.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Starts counting the calling thread's calls from 0. No other thread is counted from then on.
pub fn count_this_thread() {
    CALLS.store(0, Relaxed);
    COUNTED.store(this_thread(), Relaxed);
}

/// Stops counting and returns the number of allocations, reallocations and releases of the calling thread together;
/// `None` if the calling thread was not counted.
pub fn take_count() -> Option<u64> {
    COUNTED.compare_exchange(this_thread(), 0, Relaxed, Relaxed).ok().map(|_| CALLS.load(Relaxed))
}

fn count() {
    let counted = COUNTED.load(Relaxed);
    if counted != 0 && counted == this_thread() {
        CALLS.fetch_add(1, Relaxed);
    }
}

// SAFETY: 1. each method passes its arguments to the system's allocator unchanged, so that allocator's guarantees hold
// here. 2. Counting uses two static words and gettid(2): it neither allocates nor unwinds.
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
