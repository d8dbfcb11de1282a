//! The waiting work for each device's threads, and the state of these threads.
//!
//! ```text
//!   thread:   Idle ──starts a request──> Out ──the device answers──> Idle
//!                                  └──no answer for too long──> GivenUp ──the device answers late──> Idle
//! ```
//!
//! Each device has its own threads, so a device that does not answer does not delay the others. A request that is given
//! up is reported to its caller as failed. If the device answers later, the answer is discarded.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use segment::{FlashAddress, TierRead};

use crate::aligned::{ALIGN, Aligned};
use crate::entry::ENTRY_BYTES_MAX;
use crate::flash::lock;
use crate::regions::Sizes;

/// A piece of work for a thread.
#[derive(Debug)]
pub(crate) enum Work {
    Read(TierRead),
    /// Read the next chunk of the reclaim job.
    Chunk,
    /// Free this region, which no slot references any more.
    Free(u32),
    /// Read the footer of the chunk that begins at this offset of a region.
    Footer(u32, usize),
}

/// The state of a thread's request to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flight {
    #[default]
    Idle,
    /// In progress since this time, in ms since 1970. If the request is a handle's read, `read` holds the handle's
    /// number, the key's hash and the item's address.
    Out { since_ms: u64, read: Option<(usize, u64, FlashAddress)> },
    /// The request was given up: no caller waits for it any more.
    GivenUp,
}

/// The working state of a thread: a buffer for reads, and the state of its current request. One read never covers more
/// than an item or a chunk.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) bytes: Aligned,
    pub(crate) flight: Arc<Mutex<Flight>>,
}

impl Scratch {
    pub(crate) fn new(sizes: Sizes) -> Self {
        Self { bytes: Aligned::new(Self::bytes_for(sizes)), flight: Arc::default() }
    }

    pub(crate) fn bytes_for(sizes: Sizes) -> usize {
        sizes.chunk_bytes.max(ENTRY_BYTES_MAX) + 2 * ALIGN
    }
}

/// The waiting work for the reading threads of one device.
#[derive(Debug)]
pub(crate) struct DeviceQueue {
    pub(crate) work: Mutex<VecDeque<Work>>,
    pub(crate) wakes: Condvar,
    /// Maximum number of waiting reads: the sum of the limits of all handles.
    reads_max: usize,
    /// The request state of each of the device's threads.
    pub(crate) flights: Mutex<Vec<Arc<Mutex<Flight>>>>,
}

impl DeviceQueue {
    pub(crate) fn new(reads_max: usize) -> Self {
        // One additional place is for the reclaim job.
        let work = Mutex::new(VecDeque::with_capacity(reads_max + 1));
        Self { work, wakes: Condvar::new(), reads_max, flights: Mutex::default() }
    }

    /// Wakes all threads of the device, so that they check for work.
    pub(crate) fn wake_all(&self) {
        drop(lock(&self.work));
        self.wakes.notify_all();
    }

    /// Returns the memory that `reads_max` waiting reads take, in bytes.
    pub(crate) fn memory_bytes(reads_max: usize) -> usize {
        (reads_max + 1) * size_of::<Work>()
    }

    pub(crate) fn push(&self, work: Work) {
        lock(&self.work).push_back(work);
        self.wakes.notify_one();
    }

    pub(crate) fn push_read(&self, read: TierRead) -> Result<(), TierRead> {
        let mut work = lock(&self.work);
        if work.len() >= self.reads_max {
            return Err(read);
        }
        work.push_back(Work::Read(read));
        drop(work);
        self.wakes.notify_one();
        Ok(())
    }

    /// Gives up the requests of this device's threads that began before `before_ms`. Returns an entry for each of these
    /// requests: the handle's read that the request served, or `None`.
    pub(crate) fn fail_slow_reads(&self, before_ms: u64) -> Vec<Option<(usize, u64, FlashAddress)>> {
        let mut given_up = Vec::new();
        for flight in &*lock(&self.flights) {
            let mut flight = lock(flight);
            if let Flight::Out { since_ms, read } = *flight
                && since_ms < before_ms
            {
                *flight = Flight::GivenUp;
                given_up.push(read);
            }
        }
        given_up
    }
}
