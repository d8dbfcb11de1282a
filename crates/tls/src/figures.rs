//! Counters of TLS, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::failure::FailureKind;

/// Counters of all reactors since start. They change at the rate of handshakes, so that reactors share them.
#[derive(Debug, Default)]
pub struct Figures {
    /// Handshakes that established a new session.
    pub full: AtomicU64,
    /// Handshakes that resumed an earlier session.
    pub resumed: AtomicU64,
    /// Handshakes that failed, by [`FailureKind`].
    pub failed: [AtomicU64; FailureKind::ALL.len()],
    /// Connections that are encrypted now.
    pub open: AtomicU64,
    /// Handshakes under way.
    pub under_way: AtomicU64,
    /// Connections that wait unread because the maximum of handshakes is under way.
    pub waiting: AtomicU64,
    /// Connections that had to wait for the maximum of handshakes.
    pub waited: AtomicU64,
    /// Steps of handshakes, and many records without data in sequence, that were postponed to a later iteration.
    pub postponed: AtomicU64,
    /// Connections that were closed after their handshake, because of what the peer sent, or for want of memory.
    pub broken: AtomicU64,
    /// Clients whose certificates name no user of the server.
    pub unknown_users: AtomicU64,
    /// Connections that ended without a close_notify.
    pub truncated: AtomicU64,
    /// Reloads of the certificates that succeeded.
    pub reloads: AtomicU64,
    /// Reloads that failed, after which the earlier certificates stay in use.
    pub reloads_failed: AtomicU64,
}

impl Figures {
    pub(crate) fn fail(&self, kind: FailureKind) {
        self.failed[kind as usize].fetch_add(1, Relaxed);
    }

    /// Returns the number of handshakes that failed.
    pub fn failed_total(&self) -> u64 {
        self.failed.iter().map(|count| count.load(Relaxed)).sum()
    }
}

/// Adds `change` to a gauge.
pub(crate) fn adjust(gauge: &AtomicU64, change: i64) {
    gauge.fetch_add(change as u64, Relaxed);
}
