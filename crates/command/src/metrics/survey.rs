//! Figures of the store that are expensive to compute. One thread of the server computes these figures regularly, and
//! publishes them for all other threads.

use segment::{Census, Store};
use std::sync::{Mutex, PoisonError};

/// The latest figures that were computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Findings {
    /// The number of segments in each state and their dead bytes, at most one second old.
    pub census: Census,
    /// The store's memory in huge pages in bytes, at most about ten seconds old. 0 in the first second.
    pub huge_page_bytes: u64,
    /// The resident memory of the process in bytes, at most one second old.
    pub resident_bytes: u64,
    /// The maximum number of bytes that the store has held at a survey.
    pub used_peak_bytes: u64,
    /// The memory of the machine, in bytes.
    pub system_bytes: u64,
    /// The CPU time of the process, at most one second old.
    pub cpu: CpuTimes,
    /// The rates between the last two surveys.
    pub rates: Rates,
}

/// CPU times of the process since its start, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// The time in user mode.
    pub user_ms: u64,
    /// The time in the kernel.
    pub system_ms: u64,
    /// The time of ended child processes in user mode.
    pub children_user_ms: u64,
    /// The time of ended child processes in the kernel.
    pub children_system_ms: u64,
    /// The time of the main thread in user mode.
    pub main_user_ms: u64,
    /// The time of the main thread in the kernel.
    pub main_system_ms: u64,
}

/// Rates of the whole server, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Operations.
    pub ops_per_s: u64,
    /// Received bytes.
    pub input_bytes_per_s: u64,
    /// Sent bytes.
    pub output_bytes_per_s: u64,
}

/// The latest figures, which all threads share. The lock is held only while a few words are copied.
#[derive(Debug)]
pub struct Survey {
    latest: Mutex<Findings>,
}

impl Survey {
    /// Takes a first census of `store`, and publishes it.
    pub fn new(store: &Store) -> Self {
        Self { latest: Mutex::new(Findings { census: store.census(), ..Findings::default() }) }
    }

    /// Returns the latest figures.
    pub fn latest(&self) -> Findings {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the latest figures.
    pub fn publish(&self, findings: Findings) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = findings;
    }
}
