//! The services that commands need from the server that runs them.
//!
//! ```text
//!   command ── Shared::host ──> Host ── implemented by the server's threads
//! ```
//!
//! Invariants: ordinary requests never call the host. No call blocks.

/// Work that may block, for example on a disk.
pub type Job = Box<dyn FnOnce() + Send>;

/// The server that runs the commands, with its threads.
pub trait Host: Send + Sync {
    /// Wakes a worker if it waits.
    fn wake_worker(&self, worker: usize);

    /// Wakes the background thread if it sleeps.
    fn wake_background(&self);

    /// Executes a job in a thread that serves no clients, after the earlier jobs. If the server stops first, drops it.
    fn run_aside(&self, job: Job);

    /// Requests a graceful stop. Does not wait for the stop, so that a command may call it.
    fn request_stop(&self);

    /// Returns true if a stop has been requested.
    fn is_stopping(&self) -> bool;

    /// Returns true if workers must not begin an in-place receive, because a handover is being prepared.
    fn is_draining(&self) -> bool;

    /// Returns the figures of the second tier, if there is one.
    fn flash(&self) -> Option<FlashFigures>;
}

/// Figures of the second tier (flash).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashFigures {
    /// The number of regions that have not been read yet since the start, so that their items are unknown.
    pub regions_unread: u64,
    /// The number of items that were evicted from memory but not written to flash.
    pub items_refused: u64,
    /// The number of reads from devices.
    pub reads: u64,
    /// The number of bytes of items that were written.
    pub item_bytes: u64,
    /// The number of all bytes that were written, metadata included.
    pub written_bytes: u64,
    /// The number of devices that are no longer used because they failed.
    pub devices_lost: u64,
    /// The size of all devices, in bytes.
    pub bytes: u64,
    /// The number of free regions.
    pub regions_free: u64,
    /// The number of regions in use.
    pub regions_used: u64,
    /// The number of regions that were freed.
    pub regions_freed: u64,
    /// The number of bytes that were read from devices.
    pub read_bytes: u64,
    /// The number of reads that wait for a thread.
    pub reads_waiting: u64,
    /// The number of bytes of items that were written once more, because their region was freed.
    pub again_bytes: u64,
}
