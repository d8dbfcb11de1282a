//! Snapshots of items: a change compares two snapshots to detect that another thread changed the item meanwhile.

use crate::core::lookup::FoundItem;
use crate::core::op::Expire;
use crate::core::store::Store;
use crate::layout::item::{EXPIRY, META_STALE, META_WON, NUM};
use crate::layout::slot::Slot;

/// A snapshot of an item: all words that a change may depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snap {
    slot: Slot,
    header: u32,
    expiry: u32,
    pub(crate) number: u64,
    pub(crate) token: u64,
    lease: u32,
}

impl Snap {
    /// Takes a snapshot of the item. If other threads change the item meanwhile, the words may belong to different
    /// instants. A second snapshot under the key's lock that is equal proves that they belong together.
    pub(crate) fn of(store: &Store, seen: &FoundItem<'_>) -> Self {
        let (heap, layout, address) = (&store.segments.heap, &seen.layout, seen.address);
        let load = std::sync::atomic::Ordering::Acquire;
        Self {
            slot: seen.slot,
            header: layout.header,
            token: seen.token(store),
            expiry: if layout.has(EXPIRY) { layout.expiry(heap, address).load(load) } else { 0 },
            number: if layout.has(NUM) { layout.number(heap, address).load(load) } else { 0 },
            lease: seen.meta(store).unwrap_or(0) & (META_STALE | META_WON),
        }
    }

    /// Returns the item's value as a number. Valid only if the item is stored as a number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the CAS token.
    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// Returns this snapshot with another CAS token.
    pub(crate) fn with_token(self, token: u64) -> Self {
        Self { token, ..self }
    }

    /// Returns the expiry of the item.
    pub(crate) fn expire(&self, store: &Store, seen: &FoundItem<'_>) -> Expire {
        if seen.layout.has(EXPIRY) {
            Expire::At(store.segments.expire_at(seen.address, self.expiry))
        } else {
            Expire::Never
        }
    }

    /// Returns the lease bits of the META word.
    pub(crate) fn lease(&self) -> u32 {
        self.lease
    }

    /// Returns the META word for a copy of the item, if the item has a META word. The last access and the read flag are
    /// the present ones; the lease bits are those of the snapshot.
    pub(crate) fn meta(&self, store: &Store, seen: &FoundItem<'_>) -> Option<u32> {
        seen.meta(store).map(|meta| meta & !(META_STALE | META_WON) | self.lease)
    }

    /// Returns true if both snapshots show the same item in the same state. The read frequency and the last access are
    /// not compared.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.slot.same_item(other.slot)
            && (self.header, self.expiry, self.number) == (other.header, other.expiry, other.number)
            && (self.token, self.lease) == (other.token, other.lease)
    }
}
