//! The shared words and locks: `std`'s in production. Under `--cfg shuttle` every access is a scheduling point, so that
//! the same code runs under a scheduler that explores interleavings.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU32, AtomicU64, fence},
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicU32, AtomicU64, fence},
};
