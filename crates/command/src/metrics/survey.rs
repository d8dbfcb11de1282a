//! Figures of the store that are expensive to compute. One thread of the server computes these figures regularly, and
//! publishes them for all other threads.

use segment::{Census, Store};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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
    /// The maximum number of bytes that the store was seen to use.
    used_peak_bytes: AtomicU64,
}

impl Survey {
    /// Takes a first census of `store`, and publishes it.
    pub fn new(store: &Store) -> Self {
        let findings = Findings { census: store.census(), ..Findings::default() };
        Self { latest: Mutex::new(findings), used_peak_bytes: AtomicU64::new(0) }
    }

    /// Returns the latest figures.
    pub fn latest(&self) -> Findings {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the store uses `used` bytes. Returns the maximum that was recorded.
    pub fn used_peak_bytes(&self, used: u64) -> u64 {
        self.used_peak_bytes.fetch_max(used, Relaxed).max(used)
    }

    /// Replaces the latest figures.
    pub fn publish(&self, findings: Findings) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = findings;
    }
}
