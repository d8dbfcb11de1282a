//! The waker (an eventfd), which ends another thread's [`crate::Backend::wait`].

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A bell for one waiting thread. All clones ring the same bell.
///
/// Ringing adds 1 to a 64-bit counter in the kernel, which does not overflow in practice. A waiter that watches for
/// edges (epoll) need not reset the counter to notice the next ring.
#[derive(Clone, Debug)]
pub struct Waker {
    fd: Arc<OwnedFd>,
}

impl Waker {
    /// Creates a bell that no thread watches yet. Fails if the process has no file descriptor left.
    pub fn new() -> std::io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd: Arc::new(fd) })
    }

    /// Rings the bell: a wait in progress, or the next one, returns.
    pub fn wake(&self) {
        // The only possible failure is a full counter, and then the bell has been rung already.
        let _ = rustix::io::write(&*self.fd, &1u64.to_ne_bytes());
    }

    /// Resets the bell, for a waiter that watches for the bell's level instead of edges.
    pub fn clear(&self) {
        let _ = rustix::io::read(&*self.fd, &mut [0u8; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
