//! Waits for the guards in progress. A thread that has announced a change in shared memory learns when every thread
//! sees the change, without a lock.
//!
//! ```text
//!   announce   the caller stores a word that guards read when they begin
//!   meet       notes every guard of another handle that is in progress: it may have read the earlier word
//!   ended      true once all these guards have ended: each later guard reads the new word
//! ```

use crate::core::facets::LockChecks;

/// The guards of other handles that were in progress at one instant, and that may still be in progress.
#[derive(Debug)]
pub struct GuardsMet(Vec<(usize, u64)>);

impl LockChecks<'_, '_> {
    /// Notes the guards of other handles that are in progress. Each guard that begins later sees what the caller has
    /// stored before this call.
    pub fn meet_guards(self) -> GuardsMet {
        let epochs = &self.guard.store.epochs;
        epochs.before_guards();
        let others = (0..epochs.handles()).filter(|handle| *handle != self.guard.own.id);
        GuardsMet(others.filter_map(|handle| Some((handle, epochs.guard_of(handle)?))).collect())
    }

    /// Returns true if all guards that were met have ended. The caller then sees all that they have written.
    pub fn have_ended(self, met: &mut GuardsMet) -> bool {
        let epochs = &self.guard.store.epochs;
        met.0.retain(|(handle, guards)| epochs.guard_of(*handle) == Some(*guards));
        met.0.is_empty()
    }
}
