//! The reads of one per-thread handle: see [`crate::tier::staging`].

use std::cell::RefCell;

use crate::core::store::Store;
use crate::tier::staging::Staging;

/// A handle's reads from flash. Empty if the store has no second tier.
#[derive(Debug, Default)]
pub(crate) struct Reads(Option<RefCell<Staging>>);

impl Reads {
    pub(crate) fn new(store: &Store) -> Self {
        let bytes = store.geometry.item_whole_max.min(64 << 10) + (8 << 10);
        Self(store.tier.as_ref().map(|_| RefCell::new(Staging::new(bytes))))
    }

    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Staging) -> T) -> T {
        act(&mut self.0.as_ref().expect("a store with a second tier").borrow_mut())
    }
}
