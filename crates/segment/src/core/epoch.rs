//! Epochs: they show the background that no thread reads a segment any more.
//!
//! A lane enters the current epoch once a turn and leaves it at the turn's end. The global epoch advances only when
//! every lane that is inside is inside the current one. A segment that no slot names any more since epoch `e` can
//! have readers from `e` at the latest; when the global epoch has reached `e + 2`, they are gone:
//!
//! ```text
//!   epoch      e            e + 1           e + 2
//!   reader   |--- turn ---|                            entered e, may hold bytes of the segment
//!   segment     unlinked                    reused     the step to e + 2 needs every lane out of e
//! ```
//!
//! **Memory orders.** The lane stores its epoch, passes a `SeqCst` fence, and then loads slots. The background clears a
//! slot, passes a `SeqCst` fence, and then loads the lane's epoch. The two fences are in one order:
//!
//! - If the lane's fence comes first, the background sees the lane inside and does not make the second step.
//! - If the background's fence comes first, the loads of the turn find the slot cleared.
//!
//! A `SeqCst` swap instead of store and fence is a full barrier on x86 only. The C++ model does not order later loads
//! of other words behind it, and AArch64 need not. The store is `Release`, so that a thread that sees a turn also sees
//! the end of the turn before it. Loom explores this over the executions of the C++ model (`tests/loom.rs`).
//!
//! Beside its epoch each lane counts the turns that it has ended, so that one turn is distinguishable from the next:
//! see [`crate::locks::claim`].
//!
//! Bound: two words for each lane, made at start. An idle lane is outside and holds nothing up.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::layout::raw::{Word64, fence};

/// A word on two cache lines of its own (adjacent lines are fetched in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Word64);

/// A lane, on two cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct LaneWords {
    /// 0 outside, else the epoch it entered.
    entered: Word64,
    /// The turns that it has ended.
    turns: Word64,
}

/// The epoch of the store and of each lane.
#[derive(Debug)]
pub(crate) struct Epochs {
    global: Padded,
    lanes: Box<[LaneWords]>,
}

impl Epochs {
    pub(crate) fn new(lanes: usize) -> Self {
        Self { global: Padded(Word64::new(1)), lanes: (0..lanes).map(|_| LaneWords::default()).collect() }
    }

    pub(crate) fn now(&self) -> u64 {
        self.global.0.load(Acquire)
    }

    /// Begins a turn of `lane`. What its loads find from here on is not reused before [`Epochs::leave`].
    #[inline]
    pub(crate) fn enter(&self, lane: usize) {
        let word = &self.lanes[lane].entered;
        debug_assert!(word.load(Relaxed) == 0, "a turn within a turn");
        // An epoch that passes between the load and the store only makes the lane look older, which holds reuse back.
        word.store(self.global.0.load(Relaxed), Release);
        fence(SeqCst);
    }

    /// Ends the turn of `lane`.
    #[inline]
    pub(crate) fn leave(&self, lane: usize) {
        let lane = &self.lanes[lane];
        // A thread that sees either store knows that the turn has ended, and sees what it did.
        lane.turns.store(lane.turns.load(Relaxed) + 1, Release);
        lane.entered.store(0, Release);
    }

    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Orders the caller's stores before [`Epochs::turn_of`], whose first call has to follow. A turn that it does not
    /// see, or that begins later, sees all that the caller stored before.
    pub(crate) fn before_turns(&self) {
        fence(SeqCst);
    }

    /// Returns the turn that `lane` is in, or `None` if it is in none. Two results differ if a turn ended between them,
    /// and then the caller sees what that turn did.
    pub(crate) fn turn_of(&self, lane: usize) -> Option<u64> {
        let lane = &self.lanes[lane];
        (lane.entered.load(Acquire) != 0).then(|| lane.turns.load(Acquire))
    }

    /// Steps to the next epoch if every lane that is inside entered the current one. Only the background calls it.
    pub(crate) fn try_advance(&self) -> bool {
        fence(SeqCst);
        let global = self.global.0.load(Relaxed);
        let behind = self.lanes.iter().any(|lane| {
            let entered = lane.entered.load(Acquire);
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
    fn a_lane_inside_holds_the_second_step_back_and_an_idle_one_does_not() {
        let epochs = Epochs::new(2);
        epochs.enter(0);
        assert!(epochs.try_advance(), "the first step only needs lanes to be in the current epoch");
        assert!(!epochs.try_advance(), "lane 0 is still in the epoch before");
        epochs.leave(0);
        assert!(epochs.try_advance());
        assert_eq!(epochs.now(), 3);
    }
}
