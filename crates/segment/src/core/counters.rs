//! Counters: one block for each thread. Only that thread writes its block; a reader sums all blocks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::layout::item::{EXPIRY, ItemKind, Layout};
use crate::layout::key::Namespace;

/// A counter with a single writer. It is updated by a plain load and store, without a locked instruction.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline(always)]
    pub(crate) fn add(&self, by: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(by), Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One thread's block of counters.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
            /// The part of these counts that belongs to namespaces other than the default one.
            spaces: [SpaceCounters; Namespace::MAX],
        }

        /// The blocks of all threads, summed.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Totals { $($(#[$doc])* pub(crate) $name: u64,)* }

        impl Totals {
            pub(crate) fn add(&mut self, block: &Counters) {
                $(self.$name = self.$name.wrapping_add(block.$name.read());)*
            }
        }
    };
}

/// The counters of one namespace. The default namespace has none: its counts are the totals less those of all other
/// namespaces.
#[derive(Debug, Default)]
struct SpaceCounters {
    items_added: Counter,
    items_removed: Counter,
    bytes_added: Counter,
    bytes_removed: Counter,
    hidden_added: Counter,
    hidden_removed: Counter,
    evicted: Counter,
    expired: Counter,
    flushed: Counter,
    flash_taken: Counter,
    flash_removed: Counter,
}

impl Counters {
    fn space(&self, namespace: u8) -> Option<&SpaceCounters> {
        (namespace != Namespace::DEFAULT.0).then(|| &self.spaces[usize::from(namespace)])
    }

    /// Records that an item without a hidden key was published.
    #[inline(always)]
    pub(crate) fn note_added(&self, namespace: u8, bytes: usize) {
        self.items_added.add(1);
        self.bytes_added.add(bytes as u64);
        if let Some(space) = self.space(namespace) {
            space.items_added.add(1);
            space.bytes_added.add(bytes as u64);
        }
    }

    /// Records that items were found when the store was opened.
    pub(crate) fn note_found(&self, namespace: u8, items: u64, hidden: u64, bytes: u64) {
        let visible = items - hidden;
        self.items_added.add(visible);
        self.hidden_added.add(hidden);
        self.bytes_added.add(bytes);
        if let Some(space) = self.space(namespace) {
            space.items_added.add(visible);
            space.hidden_added.add(hidden);
            space.bytes_added.add(bytes);
        }
    }

    /// Records that `items` items, of which `hidden` had hidden keys, and `bytes` bytes were counted as present but do
    /// not exist. The numbers are modulo 2^64, so they may correct a count upwards.
    pub(crate) fn note_lost(&self, namespace: u8, items: u64, hidden: u64, bytes: u64) {
        let visible = items.wrapping_sub(hidden);
        self.items_removed.add(visible);
        self.hidden_removed.add(hidden);
        self.bytes_removed.add(bytes);
        if let Some(space) = self.space(namespace) {
            space.items_removed.add(visible);
            space.hidden_removed.add(hidden);
            space.bytes_removed.add(bytes);
        }
    }

    /// Records that an item without a hidden key was removed or replaced.
    #[inline(always)]
    pub(crate) fn note_removed(&self, namespace: u8, bytes: usize) {
        self.items_removed.add(1);
        self.bytes_removed.add(bytes as u64);
        if let Some(space) = self.space(namespace) {
            space.items_removed.add(1);
            space.bytes_removed.add(bytes as u64);
        }
    }

    /// Records that an item with a hidden key was published.
    pub(crate) fn note_hidden_added(&self, namespace: u8, bytes: usize) {
        self.hidden_added.add(1);
        self.bytes_added.add(bytes as u64);
        if let Some(space) = self.space(namespace) {
            space.hidden_added.add(1);
            space.bytes_added.add(bytes as u64);
        }
    }

    /// Records that an item with a hidden key was removed.
    #[cold]
    pub(crate) fn note_hidden_removed(&self, namespace: u8, bytes: usize) {
        self.hidden_removed.add(1);
        self.bytes_removed.add(bytes as u64);
        if let Some(space) = self.space(namespace) {
            space.hidden_removed.add(1);
            space.bytes_removed.add(bytes as u64);
        }
    }

    /// Records that the second tier has taken `items` more items.
    pub(crate) fn note_flash_taken(&self, namespace: u8, items: u64) {
        self.flash_taken.add(items);
        if let Some(space) = self.space(namespace) {
            space.flash_taken.add(items);
        }
    }

    /// Records that an item of the second tier has lost its slot.
    pub(crate) fn note_flash_removed(&self, namespace: u8) {
        self.flash_removed.add(1);
        if let Some(space) = self.space(namespace) {
            space.flash_removed.add(1);
        }
    }

    /// Records that an item was evicted. The pieces and parts of a value count with their head.
    pub(crate) fn note_evicted(&self, namespace: u8, layout: &Layout, fetched: bool) {
        if layout.is(ItemKind::Piece) {
            return;
        }
        self.evicted.add(1);
        self.evicted_unread.add(u64::from(!fetched));
        self.evicted_with_ttl.add(u64::from(layout.has(EXPIRY)));
        if let Some(space) = self.space(namespace) {
            space.evicted.add(1);
        }
    }

    /// Records that an expired item was removed.
    pub(crate) fn note_expired(&self, namespace: u8, fetched: bool) {
        self.expired.add(1);
        self.expired_unread.add(u64::from(!fetched));
        if let Some(space) = self.space(namespace) {
            space.expired.add(1);
        }
    }

    /// Records that an item was removed because of a flush.
    pub(crate) fn note_flushed(&self, namespace: u8) {
        self.flushed.add(1);
        if let Some(space) = self.space(namespace) {
            space.flushed.add(1);
        }
    }
}

/// The counters by namespace, summed over all threads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SpaceTotals {
    items_added: u64,
    items_removed: u64,
    bytes_added: u64,
    bytes_removed: u64,
    hidden_added: u64,
    hidden_removed: u64,
    pub(crate) evicted: u64,
    pub(crate) expired: u64,
    pub(crate) flushed: u64,
    flash_taken: u64,
    flash_removed: u64,
}

impl SpaceTotals {
    /// Adds one thread's counts of a namespace other than the default one.
    pub(crate) fn add(&mut self, block: &Counters, namespace: u8) {
        let space = &block.spaces[usize::from(namespace)];
        self.items_added = self.items_added.wrapping_add(space.items_added.read());
        self.items_removed = self.items_removed.wrapping_add(space.items_removed.read());
        self.bytes_added = self.bytes_added.wrapping_add(space.bytes_added.read());
        self.bytes_removed = self.bytes_removed.wrapping_add(space.bytes_removed.read());
        self.hidden_added = self.hidden_added.wrapping_add(space.hidden_added.read());
        self.hidden_removed = self.hidden_removed.wrapping_add(space.hidden_removed.read());
        self.evicted = self.evicted.wrapping_add(space.evicted.read());
        self.expired = self.expired.wrapping_add(space.expired.read());
        self.flushed = self.flushed.wrapping_add(space.flushed.read());
        self.flash_taken = self.flash_taken.wrapping_add(space.flash_taken.read());
        self.flash_removed = self.flash_removed.wrapping_add(space.flash_removed.read());
    }

    /// Returns the counts `all` less those of `self`.
    pub(crate) fn left_of(&self, all: &Totals) -> Self {
        Self {
            items_added: all.items_added.saturating_sub(self.items_added),
            items_removed: all.items_removed.saturating_sub(self.items_removed),
            bytes_added: all.bytes_added.saturating_sub(self.bytes_added),
            bytes_removed: all.bytes_removed.saturating_sub(self.bytes_removed),
            hidden_added: all.hidden_added.saturating_sub(self.hidden_added),
            hidden_removed: all.hidden_removed.saturating_sub(self.hidden_removed),
            evicted: all.evicted.saturating_sub(self.evicted),
            expired: all.expired.saturating_sub(self.expired),
            flushed: all.flushed.saturating_sub(self.flushed),
            flash_taken: all.flash_taken.saturating_sub(self.flash_taken),
            flash_removed: all.flash_removed.saturating_sub(self.flash_removed),
        }
    }

    /// Returns the number of items on flash whose namespace is known. The number is negative if removed items of other
    /// namespaces were counted for this namespace.
    pub(crate) fn flash_counted(&self) -> i64 {
        self.flash_taken.wrapping_sub(self.flash_removed) as i64
    }

    /// Returns the number of current items.
    pub(crate) fn items(&self) -> u64 {
        (self.items_added + self.hidden_added).saturating_sub(self.items_removed.wrapping_add(self.hidden_removed))
    }

    /// Returns the number of current items that have no hidden key: a value in pieces or in parts counts once. A thread
    /// that removes parts meanwhile does not change it.
    pub(crate) fn values(&self) -> u64 {
        // After a crash, a removal may have been counted as one of the other kind.
        self.items_added.saturating_sub(self.items_removed).min(self.items())
    }

    /// Returns the bytes of all current items.
    pub(crate) fn item_bytes(&self) -> u64 {
        self.bytes_added.saturating_sub(self.bytes_removed)
    }

    /// Returns the mean size of a value in bytes, with all its pieces or parts, headers and padding, or 0 if there are
    /// no items.
    pub(crate) fn value_bytes_mean(&self) -> usize {
        self.item_bytes().checked_div(self.values()).unwrap_or(0) as usize
    }
}

impl Totals {
    /// Returns the number of current items.
    pub(crate) fn items(&self) -> u64 {
        (self.items_added + self.hidden_added).saturating_sub(self.items_removed.wrapping_add(self.hidden_removed))
    }

    /// Returns the number of current items that have no hidden key: a value in pieces or in parts counts once. A thread
    /// that removes parts meanwhile does not change it.
    pub(crate) fn values(&self) -> u64 {
        // After a crash, a removal may have been counted as one of the other kind.
        self.items_added.saturating_sub(self.items_removed).min(self.items())
    }

    /// Returns the bytes of all current items.
    pub(crate) fn item_bytes(&self) -> u64 {
        self.bytes_added.saturating_sub(self.bytes_removed)
    }
}

counters! {
    /// Items without a hidden key, published.
    items_added,
    /// Items without a hidden key that were removed or replaced, for any reason.
    items_removed,
    /// Bytes of items published, header and padding included.
    bytes_added,
    /// Bytes of items that were removed or replaced.
    bytes_removed,
    /// Pieces of large values, and parts of records, published.
    hidden_added,
    /// Pieces of large values, and parts of records, removed.
    hidden_removed,
    /// Items evicted to make room for others.
    evicted,
    /// Of those, items that were never read.
    evicted_unread,
    /// Evicted items that had a TTL.
    evicted_with_ttl,
    /// Evicted items that lost their index slot to a newer item.
    evicted_by_index,
    /// Expired items that the background thread removed, or that were replaced.
    expired,
    /// Of those, items that were never read.
    expired_unread,
    /// Items removed because of a flush.
    flushed,
    /// Items copied to another segment.
    relocated,
    /// Index slots displaced to their other index bucket.
    displaced,
    /// New items for whose key a ghost entry existed.
    ghost_hits,
    /// Operations that had to be parked.
    parked,
    /// Reads that found an expired item.
    read_expired,
    /// Reads that found a flushed item.
    read_flushed,
    /// Segments that went back to the free list.
    segments_freed,
    /// Large values discarded because a piece was missing.
    large_broken,
    /// Damaged items that were removed.
    damaged,
    /// Index slots cleared because they pointed to no intact item.
    slots_cleared,
    /// Unreferenced pieces and parts that were removed.
    orphans,
    /// Evicted items that were stored on the second tier.
    flash_taken,
    /// Items of the second tier whose index slot was removed.
    flash_removed,
    /// Items of the second tier that were evicted when their region was reclaimed.
    flash_evicted,
    /// Items of the second tier that were copied to another region.
    flash_again,
    /// Values served from the second tier.
    flash_hits,
    /// Items that moved from the second tier back to memory.
    flash_back,
    /// Reads of the second tier that failed, or found damaged data.
    flash_failed,
}
