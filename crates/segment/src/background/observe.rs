//! The interface for observers of evicted and expired items.

use crate::core::op::Item;
use crate::layout::key::Namespace;

/// An item that is being removed because it is evicted or has expired.
#[derive(Clone, Copy, Debug)]
pub struct Evicted<'i> {
    /// Namespace of the item's key.
    pub namespace: Namespace,
    /// The item, as a read would have returned it.
    pub item: &'i Item<'i>,
}

/// A receiver of every item that the background evicts to make room. Flushed items, pieces of a large value, and the
/// few items that a handle pushes out of an overfull index bucket are not reported. Expired items are reported only to
/// an observer that wants them.
pub trait EvictionObserver: std::fmt::Debug + Send {
    /// Returns true if a listener wants evictions now. Called for every evicted item, so it has to be cheap.
    fn wanted(&self) -> bool;

    /// Receives an evicted item. Called under the key's stripe lock, inside a slice: it must not block, nor call the
    /// store.
    fn evicted(&mut self, evicted: &Evicted<'_>);

    /// Returns true if a listener wants items that have expired. Called for every expired item that the background
    /// finds.
    fn wants_expired(&self) -> bool {
        false
    }

    /// Receives an item that has expired and that the background removes. Called as [`EvictionObserver::evicted`] is.
    fn expired(&mut self, expired: &Evicted<'_>) {
        let _ = expired;
    }
}
