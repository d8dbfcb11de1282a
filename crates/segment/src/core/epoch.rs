//! Epochs: they show the background that no thread reads a segment any more.
//!
//! A handle enters the current epoch once an iteration and leaves it at the guard's end. The global epoch advances only
//! when every handle that is inside is inside the current one. A segment that no slot names any more since epoch `e`
//! can have readers from `e` at the latest; when the global epoch has reached `e + 2`, they are gone:
//!
//! ```text
//!   epoch      e            e + 1           e + 2
//!   reader   |--- guard ---|                           entered e, may hold bytes of the segment
//!   segment     unlinked                    reused     the step to e + 2 needs every handle out of e
//! ```
//!
//! **Memory orders.** The handle stores its epoch, passes a `SeqCst` fence, and then loads slots. The background clears
//! a slot, passes a `SeqCst` fence, and then loads the handle's epoch. The two fences are in one order:
//!
//! - If the handle's fence comes first, the background sees the handle inside and does not make the second step.
//! - If the background's fence comes first, the loads of the guard find the slot cleared.
//!
//! A `SeqCst` swap instead of store and fence is a full barrier on x86 only. The C++ model does not order later loads
//! of other words behind it, and AArch64 need not. The store is `Release`, so that a thread that sees a guard also sees
//! the end of the guard before it. Loom explores this over the executions of the C++ model (`tests/loom.rs`).
//!
//! Beside its epoch each handle counts the guards that it has ended, so that one guard is distinguishable from the
//! next: see [`crate::locks::key_locks`].
//!
//! Bound: two words for each handle, made at start. An idle handle is outside and holds nothing up.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::layout::raw::{Word64, fence};

/// A word on two cache lines of its own (adjacent lines are fetched in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Word64);

/// A handle, on two cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct HandleWords {
    /// 0 outside, else the epoch it entered.
    entered: Word64,
    /// The guards that it has ended.
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

    /// Begins a guard of `handle`. What its loads find from here on is not reused before [`Epochs::leave`].
    #[inline]
    pub(crate) fn enter(&self, handle: usize) {
        let word = &self.handles[handle].entered;
        debug_assert!(word.load(Relaxed) == 0, "a turn within a turn");
        // If the epoch advances between the load and the store, the handle only looks older, which delays reuse.
        word.store(self.global.0.load(Relaxed), Release);
        fence(SeqCst);
    }

    /// Ends the guard of `handle`.
    #[inline]
    pub(crate) fn leave(&self, handle: usize) {
        let handle = &self.handles[handle];
        // A thread that sees either store knows that the guard has ended, and sees what it did.
        handle.guards.store(handle.guards.load(Relaxed) + 1, Release);
        handle.entered.store(0, Release);
    }

    pub(crate) fn handles(&self) -> usize {
        self.handles.len()
    }

    /// Orders the caller's stores before [`Epochs::guard_of`], whose first call has to follow. A guard that it does not
    /// see, or that begins later, sees all that the caller stored before.
    pub(crate) fn before_guards(&self) {
        fence(SeqCst);
    }

    /// Returns the guard that `handle` is in, or `None` if it is in none. Two results differ if a guard ended between
    /// them, and then the caller sees what that guard did.
    pub(crate) fn guard_of(&self, handle: usize) -> Option<u64> {
        let handle = &self.handles[handle];
        (handle.entered.load(Acquire) != 0).then(|| handle.guards.load(Acquire))
    }

    /// Steps to the next epoch if every handle that is inside entered the current one. Only the background calls it.
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
