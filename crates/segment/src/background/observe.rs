//! Who wants to know what is evicted.

use crate::key::Namespace;
use crate::op::Item;

/// An item that is evicted or has expired, as it was.
#[derive(Clone, Copy, Debug)]
pub struct Evicted<'i> {
    /// Where its key is looked up.
    pub namespace: Namespace,
    /// All that a read would have said of it.
    pub item: &'i Item<'i>,
}

/// Is told of every item that the background evicts to make room: not of those that ended, nor of the pieces of a
/// large value, nor of the few that a lane pushes out of an overfull index bucket.
pub trait EvictionObserver: std::fmt::Debug + Send {
    /// Somebody listens now. Asked for every evicted item, so it has to be cheap.
    fn wanted(&self) -> bool;

    /// Called under the key's stripe lock, inside a slice: it must not block, nor call the store.
    fn evicted(&mut self, evicted: &Evicted<'_>);

    /// Somebody wants to know of items that have expired. Asked for every item whose end the background meets.
    fn wants_expired(&self) -> bool {
        false
    }

    /// The background has met an item that has expired, and removes it. Called as [`EvictionObserver::evicted`] is.
    fn expired(&mut self, expired: &Evicted<'_>) {
        let _ = expired;
    }
}
