//! Obtains memory from the kernel ahead of its use, on a separate thread: see [`crate::heap::prefault`].

use std::sync::Arc;

use crate::core::store::Store;

/// Returns true if the file system refused space for the memory file since the last call, so that segments or index are
/// smaller than configured.
pub(crate) fn takes_short_of_space(store: &Store) -> bool {
    store.ahead.takes_short_of_space()
}

/// The worker of a thread that obtains memory from the kernel ahead of its use: see
/// [`crate::Background::leave_populating`].
#[derive(Debug)]
pub struct Populator {
    store: Arc<Store>,
}

impl Populator {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// Runs one step, which lasts as long as the kernel takes. Returns false if there is nothing to do; then call again
    /// in a few milliseconds.
    pub fn step(&mut self) -> bool {
        self.store.ahead.step(&self.store.segments, &self.store.index)
    }
}
