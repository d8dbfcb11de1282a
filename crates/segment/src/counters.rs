//! Counters: one block for each thread, written by it alone and summed on read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::item::{EXPIRY, Layout};

/// A counter with a single writer: a plain load and store, no locked instruction.
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
        /// One thread's block.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct Counters { $($(#[$doc])* pub(crate) $name: Counter,)* }

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

impl Counters {
    /// An item was evicted.
    pub(crate) fn note_evicted(&self, layout: &Layout, fetched: bool) {
        self.evicted.add(1);
        self.evicted_unread.add(u64::from(!fetched));
        self.evicted_with_ttl.add(u64::from(layout.has(EXPIRY)));
    }
}

impl Totals {
    /// Items that are there.
    pub(crate) fn items(&self) -> u64 {
        self.items_added.saturating_sub(self.items_removed)
    }

    /// What an item that is there takes on the mean, in bytes, header and padding included; 0 without items.
    pub(crate) fn item_bytes_mean(&self) -> usize {
        let bytes = self.bytes_added.saturating_sub(self.bytes_removed);
        bytes.checked_div(self.items()).unwrap_or(0) as usize
    }
}

counters! {
    /// Items published.
    items_added,
    /// Items that died, whatever the cause.
    items_removed,
    /// Bytes of items published, header and padding included.
    bytes_added,
    /// Bytes of items that died.
    bytes_removed,
    /// Items evicted to make room for others.
    evicted,
    /// Of those, items that were never read.
    evicted_unread,
    /// Of those, items that had a TTL.
    evicted_with_ttl,
    /// Of those, items that lost their index slot to a newer one.
    evicted_by_index,
    /// Items whose time had come, removed by the background or replaced.
    expired,
    /// Of those, items that were never read.
    expired_unread,
    /// Items that a flush ended, removed.
    flushed,
    /// Items copied to another segment.
    relocated,
    /// Index slots displaced to their other index bucket.
    displaced,
    /// New items whose ghost was found.
    ghost_hits,
    /// Operations that had to be parked.
    parked,
    /// Reads that found an item past its time.
    read_expired,
    /// Reads that found an item ended by a flush.
    read_flushed,
    /// Segments that went back to the free list.
    segments_freed,
    /// Large values that lost a piece.
    large_broken,
}
