//! Epochs: how the background knows that nobody reads a segment any more.
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
//! Bound: one word for each lane, made at start. An idle lane is outside and holds nothing up.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::fence;

use crate::raw::Word64;

/// A word on two cache lines of its own (adjacent lines are fetched in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded(Word64);

/// The epoch of the store and of each lane.
#[derive(Debug)]
pub(crate) struct Epochs {
    global: Padded,
    /// For each lane: 0 outside, else the epoch it entered.
    lanes: Box<[Padded]>,
}

impl Epochs {
    pub(crate) fn new(lanes: usize) -> Self {
        Self { global: Padded(Word64::new(1)), lanes: (0..lanes).map(|_| Padded::default()).collect() }
    }

    pub(crate) fn now(&self) -> u64 {
        self.global.0.load(Acquire)
    }

    /// Begins a turn of `lane`. What its loads find from here on is not reused before [`Epochs::leave`].
    #[inline]
    pub(crate) fn enter(&self, lane: usize) {
        let word = &self.lanes[lane].0;
        debug_assert!(word.load(Relaxed) == 0, "a turn within a turn");
        // An epoch that passes between the load and the swap only makes the lane look older, which holds reuse back.
        // The swap is SeqCst: it is ordered before every slot load of the turn.
        word.swap(self.global.0.load(Relaxed), SeqCst);
    }

    /// Ends the turn of `lane`.
    #[inline]
    pub(crate) fn leave(&self, lane: usize) {
        self.lanes[lane].0.store(0, std::sync::atomic::Ordering::Release);
    }

    /// Steps to the next epoch if every lane that is inside entered the current one. Only the background calls it.
    pub(crate) fn try_advance(&self) -> bool {
        fence(SeqCst);
        let global = self.global.0.load(Relaxed);
        let behind = self.lanes.iter().any(|lane| {
            let entered = lane.0.load(Acquire);
            entered != 0 && entered != global
        });
        if !behind {
            self.global.0.store(global + 1, SeqCst);
        }
        !behind
    }
}

#[cfg(all(test, not(shuttle)))]
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
