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

/// The reason why an item on flash has lost its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashEnd {
    /// The item has expired.
    Expired,
    /// The region of the item was reclaimed.
    Evicted,
}

/// A receiver of every item that the background evicts to make room. Flushed items, pieces of a large value, and the
/// few items that a handle pushes out of an overfull index bucket are not reported. Expired items and items on flash
/// are reported only to an observer that wants expired items. Items on flash whose keys are not read when they lose
/// their slots are not reported: those that a new item of the same tag replaces, and those of a failed device.
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

    /// Receives the key of an item on flash that has lost its slot, because the item has expired or its region was
    /// reclaimed. Called inside a slice: it must not block, nor call the store.
    fn ended_on_flash(&mut self, namespace: Namespace, key: &[u8], end: FlashEnd) {
        let _ = (namespace, key, end);
    }

    /// Learns that further items on flash have expired whose keys are not reported, because there were too many.
    fn missed_keys(&mut self) {}
}
