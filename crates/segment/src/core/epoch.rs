//! Epochs, by which the background knows when no thread reads a segment any more.
//!
//! A handle enters the current epoch when a guard begins, once per iteration, and leaves the epoch when the guard ends.
//! The global epoch advances only when every handle that is inside an epoch has entered the current epoch. If a
//! segment's last slot is cleared in epoch `e`, only handles that entered epoch `e` or an earlier one can still read
//! the segment. When the global epoch reaches `e + 2`, all of them have left:
//!
//! ```text
//!   epoch      e            e + 1           e + 2
//!   reader   |--- guard ---|                           entered e, may hold bytes of the segment
//!   segment     unlinked                    reused     advances to e + 2 after every handle has left e
//! ```
//!
//! **Memory orders.** The handle stores its epoch, passes a `SeqCst` fence, and then loads slots. The background clears
//! a slot, passes a `SeqCst` fence, and then loads the handle's epoch. One of the two fences comes first:
//!
//! - If the handle's fence comes first, the background sees that the handle is inside an epoch, and does not advance to
//!   `e + 2`.
//! - If the background's fence comes first, the guard sees that the slot is cleared.
//!
//! A `SeqCst` swap would not be enough in place of the store and the fence: it is a full barrier on x86 only. The C++
//! memory model lets later loads of other words move ahead of such a swap, and so does AArch64. The store is `Release`,
//! so that a thread that sees a guard also sees the end of the guard before it. Loom explores this over the executions
//! of the C++ model (`tests/loom.rs`).
//!
//! Each handle also counts its ended guards, so that two guards of one handle differ: see
//! [`crate::locks::key_locks`].
//!
//! Bound: two words for each handle, allocated at start. An idle handle is outside every epoch and delays no reuse.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::layout::raw::{Word64, fence};

/// A word that has two cache lines to itself, because the CPU fetches adjacent lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Word64);

/// The words of one handle, which have two cache lines to themselves.
#[derive(Debug, Default)]
#[repr(align(128))]
struct HandleWords {
    /// The epoch that the handle has entered, or 0 if the handle is outside every epoch.
    entered: Word64,
    /// The number of guards that the handle has ended.
    guards: Word64,
}

/// The epoch of the store and of each handle.
#[derive(Debug)]
pub(crate) struct Epochs {
    global: Padded,
    handles: Box<[HandleWords]>,
}

impl Epochs {
    pub(crate) fn new(handles: usize) -> Self {
        Self { global: Padded(Word64::new(1)), handles: (0..handles).map(|_| HandleWords::default()).collect() }
    }

    pub(crate) fn now(&self) -> u64 {
        self.global.0.load(Acquire)
    }

    /// Begins a guard of `handle`. A segment that the guard finds through an index slot is not reused before
    /// [`Epochs::leave`].
    #[inline]
    pub(crate) fn enter(&self, handle: usize) {
        let word = &self.handles[handle].entered;
        debug_assert!(word.load(Relaxed) == 0, "a turn within a turn");
        // If the global epoch advances between this load and this store, the handle appears to be in the earlier epoch.
        // That only delays reuse.
        word.store(self.global.0.load(Relaxed), Release);
        fence(SeqCst);
    }

    /// Ends the guard of `handle`.
    #[inline]
    pub(crate) fn leave(&self, handle: usize) {
        let handle = &self.handles[handle];
        // A thread that sees either of these stores also sees everything that the ended guard wrote.
        handle.guards.store(handle.guards.load(Relaxed) + 1, Release);
        handle.entered.store(0, Release);
    }

    pub(crate) fn handles(&self) -> usize {
        self.handles.len()
    }

    /// Orders the caller's earlier stores before its later calls of [`Epochs::guard_of`]. A guard that `guard_of` does
    /// not report, or that begins later, sees those stores.
    pub(crate) fn before_guards(&self) {
        fence(SeqCst);
    }

    /// Returns the number of the guard that `handle` is in, or `None` if it is in no guard. If a guard ended between
    /// two calls, their results differ and the caller sees everything that this guard wrote.
    pub(crate) fn guard_of(&self, handle: usize) -> Option<u64> {
        let handle = &self.handles[handle];
        (handle.entered.load(Acquire) != 0).then(|| handle.guards.load(Acquire))
    }

    /// Advances the global epoch if every handle that is inside an epoch has entered the current one. Returns true if
    /// the epoch advanced. Only the background calls this function.
    pub(crate) fn try_advance(&self) -> bool {
        fence(SeqCst);
        let global = self.global.0.load(Relaxed);
        let behind = self.handles.iter().any(|handle| {
            let entered = handle.entered.load(Acquire);
            entered != 0 && entered != global
        });
        if !behind {
            self.global.0.store(global + 1, Release);
        }
        !behind
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;

    #[test]
    fn active_handle_blocks_second_epoch_advance_but_idle_handle_does_not() {
        let epochs = Epochs::new(2);
        epochs.enter(0);
        assert!(epochs.try_advance(), "the first step only needs handles to be in the current epoch");
        assert!(!epochs.try_advance(), "handle 0 is still in the epoch before");
        epochs.leave(0);
        assert!(epochs.try_advance());
        assert_eq!(epochs.now(), 3);
    }
}
