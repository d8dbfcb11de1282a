//! What waits for each device's threads, and what they are at.
//!
//! ```text
//!   thread:   Idle ──takes off──> Out ──the device answers──> Idle
//!                                  └──no answer for too long──> Given up ──it answers all the same──> Idle
//! ```
//!
//! Each device has threads of its own, so that one that does not answer holds up nobody else. What is given up is told
//! as failed to who waits for it; what the device answers later is thrown away.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};

use segment::{FlashAddress, TierRead};

use crate::aligned::{ALIGN, Aligned};
use crate::entry::ENTRY_BYTES_MAX;
use crate::flash::lock;
use crate::regions::Sizes;

/// What waits for a thread.
#[derive(Debug)]
pub(crate) enum Work {
    Read(TierRead),
    /// The job wants its next chunk.
    Chunk,
    /// Nothing names anything in this region.
    Free(u32),
    /// What the chunk that begins there in a region says of its items.
    Footer(u32, usize),
}

/// What a thread is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flight {
    #[default]
    Idle,
    /// With a device since then, for the read of a lane or for none.
    Out { since_ms: u64, read: Option<(usize, u64, FlashAddress)> },
    /// Nobody waits for it any more.
    GivenUp,
}

/// What a thread works with: bytes to read into (no item, and no more than a chunk, is read at once), and a sign of
/// what it is at.
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

/// What waits for the threads of one device that read.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) work: Mutex<VecDeque<Work>>,
    pub(crate) wakes: Condvar,
    /// Reads that wait at most: all that lanes have.
    reads_max: usize,
    /// Its threads.
    pub(crate) flights: Mutex<Vec<Arc<Mutex<Flight>>>>,
}

impl Queue {
    pub(crate) fn new(reads_max: usize) -> Self {
        // One more for the job.
        let work = Mutex::new(VecDeque::with_capacity(reads_max + 1));
        Self { work, wakes: Condvar::new(), reads_max, flights: Mutex::default() }
    }

    /// Its threads look at what there is for them.
    pub(crate) fn wake_all(&self) {
        drop(lock(&self.work));
        self.wakes.notify_all();
    }

    /// Bytes that so many reads take.
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

    /// Takes those of its threads off what they are at that began before then; gives the reads that they were at.
    pub(crate) fn give_up(&self, before_ms: u64) -> Vec<Option<(usize, u64, FlashAddress)>> {
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
