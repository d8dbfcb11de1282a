//! The interface for observers of evicted and expired items.

use crate::core::ended_keys::KeyEnd;
use crate::core::op::Item;
use crate::core::store::Store;
use crate::layout::key::Namespace;

/// An item that is being removed because it is evicted or has expired.
#[derive(Clone, Copy, Debug)]
pub struct Evicted<'i> {
    /// Namespace of the item's key.
    pub namespace: Namespace,
    /// The item, as a read would have returned it.
    pub item: &'i Item<'i>,
}

/// A receiver of every item that the background evicts to make room. Flushed items and pieces of a large value are not
/// reported. Expired items, and items of which only the key is known, are reported only to an observer that wants
/// expired items: items on flash, items that lost their slots in overfull index buckets, and values that lost a part.
/// Items on flash whose keys are not read when they lose their slots are not reported: those that a new item of the
/// same tag replaces, and those of a failed device.
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

    /// Receives the key of an item that has ended and is no longer readable. Called inside a slice: it must not block,
    /// nor call the store.
    fn key_ended(&mut self, namespace: Namespace, key: &[u8], end: KeyEnd) {
        let _ = (namespace, key, end);
    }

    /// Learns that further items have ended whose keys are not reported, because there were too many.
    fn missed_keys(&mut self) {}
}

/// Reports the keys of items that have ended without the background to an observer that wants them.
pub(super) fn report_ended(store: &Store, observer: Option<&mut (dyn EvictionObserver + 'static)>) {
    let observer = observer.filter(|observer| observer.wants_expired());
    store.ended_keys.take(|keys| {
        let Some(observer) = observer else { return };
        keys.for_each(|namespace, key, end| observer.key_ended(namespace, key, end));
        if keys.is_incomplete {
            observer.missed_keys();
        }
    });
}
