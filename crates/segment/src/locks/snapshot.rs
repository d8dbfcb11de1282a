//! Consistent reads of several keys without a key lock set. The reader checks, after the reads, that no other thread
//! has changed a key since before the reads.
//!
//! ```text
//!   snapshot   adds up the lock counters of the keys' stripes; no stripe may be locked (the counters never decrease)
//!   reads      the caller reads any of the keys, in this guard
//!   holds      adds up the counters again: if the sum is the same, no key has changed since the snapshot
//! ```
//!
//! Invariants: every change of an item is made under its stripe lock, whose counter changes when the lock is taken and
//! when it is released. A growth of the index can change a key's stripe, and also invalidates the snapshot. Locks are
//! also taken for other keys and by the background. So an invalid snapshot does not prove that a key has changed. The
//! reader then tries again, or locks the keys.

use std::sync::atomic::{Ordering::Acquire, fence};

use crate::core::facets::LockChecks;
use crate::layout::key::KeyHash;

/// The counters of the stripes of several keys before the keys are read. Valid only within one guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    growth: u64,
    changes: u32,
}

impl LockChecks<'_, '_> {
    /// Takes a snapshot, before the caller reads the keys. Returns `None` if a thread is changing a key with the same
    /// stripe, or if key lock sets are in flight.
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

    /// Returns true if no key was changed since the snapshot. All values that were read since the snapshot then belong
    /// to one instant.
    #[inline]
    pub fn holds(self, keys: &[KeyHash], snapshot: Snapshot) -> bool {
        fence(Acquire);
        self.snapshot(keys) == Some(snapshot)
    }
}
