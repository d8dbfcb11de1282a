//! The verification pass over the index of a reopened memory file: see [`crate::durable::verify`].
//!
//! Bounds: the pass runs in slices without more urgent work, for at most one slice's time at once. It locks a stripe of
//! the index only to clear a slot.

use super::Background;
use crate::core::lookup::is_unverified;
use crate::core::store::Store;
use crate::durable::verify::{Verified, end_verification, verify_slot};
use crate::index::GROUP_SLOTS;
use crate::index::growth::Keys;
use crate::index::repair;
use crate::layout::slot::Slot;

/// The number of slots that are verified between two checks whether the slice is over.
const SLOTS_PER_LOOK: usize = 32;
/// The distance, in slots, at which items are prefetched ahead of their verification.
const AHEAD: usize = 16;

/// The position of the verification pass in the index.
#[derive(Debug, Default)]
pub(super) struct Verification {
    group: usize,
    at: usize,
    /// The state of the index's growth when the pass began.
    growth: Option<u64>,
    /// The number of displacements in the group when its first slot was checked.
    moves: u32,
}

/// Runs one slice of the pass. Returns false if no pass is due, or while the index changes its size.
pub(super) fn run_verification(background: &mut Background, store: &Store, over: &mut dyn FnMut() -> bool) -> bool {
    if !is_unverified(store) || store.index.is_growing() || store.index.is_shrinking() {
        return false;
    }
    let pass = &mut background.verification;
    let growth = store.index.growth();
    if pass.growth != Some(growth) {
        *pass = Verification { growth: Some(growth), ..Verification::default() };
    }
    let groups = store.index.groups();
    while pass.group < groups {
        if pass.at == 0 {
            pass.moves = repair::moves_of(&store.index, pass.group);
        }
        let end = (pass.at + SLOTS_PER_LOOK).min(GROUP_SLOTS);
        prefetch(store, pass.group, pass.at, AHEAD);
        while pass.at < end {
            prefetch(store, pass.group, pass.at + AHEAD, 1);
            match verify_slot(store, pass.group, pass.at) {
                Verified::Whole => {}
                Verified::Cleared => Background::counters(store).slots_cleared.add(1),
                Verified::Busy => return true,
            }
            pass.at += 1;
        }
        if pass.at == GROUP_SLOTS {
            // If a slot was displaced meanwhile, the pass may have missed it, and checks the group again.
            let is_done = repair::moves_of(&store.index, pass.group) == pass.moves;
            (pass.group, pass.at) = (pass.group + usize::from(is_done), 0);
        }
        if over() {
            return true;
        }
    }
    end_verification(store);
    true
}

/// Prefetches the items of some slots into the CPU cache.
fn prefetch(store: &Store, group: usize, from: usize, count: usize) {
    for at in (from..from + count).take_while(|at| *at < GROUP_SLOTS) {
        let slot = Slot(store.index.slot_word(group, at).load(std::sync::atomic::Ordering::Relaxed));
        if slot.is_item() {
            Keys::prefetch(store, slot);
        }
    }
}
