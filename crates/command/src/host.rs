//! The services that commands need from the server around them.
//!
//! ```text
//!   command ── Shared::host ──> Host ── implemented by the server's threads
//! ```
//!
//! Invariants: an ordinary request never calls a host. No call waits.

/// The server around the commands, with its threads.
pub trait Host: Send + Sync {
    /// Ends the wait of a worker.
    fn wake_worker(&self, worker: usize);

    /// Wakes the background thread if it sleeps.
    fn wake_background(&self);

    /// Requests a graceful stop. Returns at once, so that a command may call it.
    fn request_stop(&self);

    /// Returns true if a stop was requested.
    fn is_stopping(&self) -> bool;

    /// Returns true if workers must not begin an in-place receive, because a handover is being prepared.
    fn is_draining(&self) -> bool;

    /// Returns the figures of the tier that evicted items go to, if there is one.
    fn flash(&self) -> Option<FlashFigures>;
}

/// Figures of a second tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashFigures {
    /// Regions whose items are not known yet after a start.
    pub regions_unread: u64,
    /// Items that were evicted and not written.
    pub items_refused: u64,
    /// Reads of devices.
    pub reads: u64,
    /// Bytes of items that were written.
    pub item_bytes: u64,
    /// All bytes that were written.
    pub written_bytes: u64,
    /// Devices that are not used any more because they failed.
    pub devices_lost: u64,
}
