//! Atomic operations on several keys: key lock sets, the undo log of their changes, and snapshots that need no lock.

pub(crate) mod guards_met;
pub(crate) mod key_locks;
pub(crate) mod snapshot;
pub(crate) mod undo;
pub(crate) mod undo_log;
pub(crate) mod words;
