//! An allocator that counts what one thread asks of it: the proof that a data thread, once warm, asks nothing.
//!
//! It stands before the system's allocator where a program or a test declares it with `#[global_allocator]`; threads
//! that did not ask to be counted pay one thread-local read a call.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static CALLS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug)]
pub struct Counting;

/// Counts the calling thread's calls from now on, from 0.
pub fn count_this_thread() {
    CALLS.with(|calls| calls.set(Some(0)));
}

/// Ends the count and gives it: allocations, reallocations and releases together; `None` if nothing was counted.
pub fn take_count() -> Option<u64> {
    CALLS.with(Cell::take)
}

fn count() {
    CALLS.with(|calls| calls.set(calls.get().map(|n| n + 1)));
}

// SAFETY: 1. each method hands its arguments to the system's allocator unchanged, so that one's guarantees hold here.
// 2. Counting touches a thread local that is initialised by a constant and has no destructor: it neither allocates nor
// unwinds, and it is there as long as its thread.
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
