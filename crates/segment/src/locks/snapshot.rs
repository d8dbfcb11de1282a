//! Several keys read as one without a key lock set: the reader checks before and after whether another thread changed
//! one.
//!
//! ```text
//!   snapshot   how often the stripes of these keys were locked, none of them held    (sums: no count ever falls)
//!   reads      any of the keys, in this guard
//!   holds      the same counts again: at every instant between the two all keys were as they were read
//! ```
//!
//! Invariants: every change of an item is made under its stripe lock, which counts when it is taken and when it is let
//! go; a growth of the index, by which a key's stripe becomes another, is a change too. Locks are also taken for other
//! keys and by the background. So a snapshot that does not hold need not mean a change: the reader then uses another
//! way, or tries again.

use std::sync::atomic::{Ordering::Acquire, fence};

use crate::core::facets::LockChecks;
use crate::layout::key::KeyHash;

/// The state that was seen before several keys were read. Valid within one guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    growth: u64,
    changes: u32,
}

impl LockChecks<'_, '_> {
    /// Takes a snapshot. Call this before the keys are read. Returns `None` if one of them is being changed now, or
    /// key lock sets are in flight.
    #[inline]
    pub fn snapshot(self, keys: &[KeyHash]) -> Option<Snapshot> {
        if self.guard.is_contended() {
            return None;
        }
        let index = &self.guard.store.index;
        let growth = index.growth();
        let changes = keys.iter().try_fold(0u32, |sum, key| Some(sum.wrapping_add(index.changes(key.hash)?)))?;
        Some(Snapshot { growth, changes })
    }

    /// Returns true if none of the keys was changed since, so that all values read in between are those of one instant.
    #[inline]
    pub fn holds(self, keys: &[KeyHash], snapshot: Snapshot) -> bool {
        fence(Acquire);
        self.snapshot(keys) == Some(snapshot)
    }
}
