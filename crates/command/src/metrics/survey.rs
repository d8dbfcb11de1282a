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
}

/// The latest figures, which all threads share. The lock is held only while a few words are copied.
#[derive(Debug)]
pub struct Survey {
    latest: Mutex<Findings>,
}

impl Survey {
    /// Takes a first census of `store`, and publishes it.
    pub fn new(store: &Store) -> Self {
        Self { latest: Mutex::new(Findings { census: store.census(), huge_page_bytes: 0 }) }
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
