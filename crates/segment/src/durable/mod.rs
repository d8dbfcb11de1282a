//! The store in a file: its format, checkpoints, reopening after a close or a crash, and the rebuild of the index.

pub(crate) mod checkpoint;
pub(crate) mod file;
pub(crate) mod moving;
pub(crate) mod rebuild;
pub(crate) mod reopen;
pub(crate) mod tier_backing;
pub(crate) mod verify;
