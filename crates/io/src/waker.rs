//! Ends another thread's [`crate::Backend::wait`] (eventfd).

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A bell for one waiting thread. Clones ring the same one.
///
/// It is only ever written to: a waiter that watches for edges needs no read to hear the next ring, and the
/// counter behind it would take centuries to fill.
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
}

impl Waker {
    /// A bell that no one hears yet. Fails when the process has no descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd: Arc::new(fd) })
    }

    /// Rings: a wait in progress, or the next one, returns.
    pub fn wake(&self) {
        // The one possible failure is a counter that is full, and then the bell has been rung.
        let _ = rustix::io::write(&*self.fd, &1u64.to_ne_bytes());
    }

    /// Makes the bell silent again, for a waiter that watches its level.
    pub fn clear(&self) {
        let _ = rustix::io::read(&*self.fd, &mut [0u8; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
