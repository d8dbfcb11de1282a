//! The latest findings about the store that take long to obtain. A thread of the server publishes them.

use segment::{Census, Store};
use std::sync::{Mutex, PoisonError};

/// The latest findings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Findings {
    /// Segments by state and their dead bytes, at most a second old.
    pub census: Census,
    /// Bytes of the store in huge pages, at most about ten seconds old; 0 in the first second.
    pub huge_page_bytes: u64,
}

/// The latest findings, shared. The lock is held only while a few words are copied.
#[derive(Debug)]
pub struct Survey {
    latest: Mutex<Findings>,
}

impl Survey {
    /// Takes a first census of `store`.
    pub fn new(store: &Store) -> Self {
        Self { latest: Mutex::new(Findings { census: store.census(), huge_page_bytes: 0 }) }
    }

    /// Returns the latest findings.
    pub fn latest(&self) -> Findings {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the latest findings.
    pub fn publish(&self, findings: Findings) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = findings;
    }
}
