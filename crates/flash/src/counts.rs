//! What a tier counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* }

        /// Counts of a tier's work since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct FlashCounts { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            pub(crate) fn read(&self) -> FlashCounts {
                FlashCounts { $($name: self.$name.load(Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Reads that were asked for.
    reads,
    /// Of those, reads of what was still in memory.
    reads_in_memory,
    /// Bytes read for them from devices.
    read_bytes,
    /// Bytes of items that were taken.
    item_bytes,
    /// Of those, bytes of items that went on in another region.
    again_bytes,
    /// Chunks written.
    writes,
    /// Bytes written to devices.
    written_bytes,
    /// Regions whose items were all shown, and that became free.
    regions_reclaimed,
    /// Bytes read from devices to reclaim regions.
    reclaim_read_bytes,
    /// Chunks of regions that were reclaimed and were not what was written.
    reclaim_failed,
    /// Items refused since they are longer than a chunk.
    refused_too_long,
    /// Items refused since no region was free.
    refused_no_region,
    /// Items refused since devices were slower than eviction.
    refused_busy,
    /// Items refused since the budget of writes was spent.
    refused_budget,
    /// Items refused since the budget of writes was kept for what was read.
    refused_unread,
    /// Devices that failed.
    devices_lost,
    /// Items of an earlier process that were found.
    found,
    /// Regions of an earlier process that were made free unread, for want of free ones.
    regions_dropped,
    /// Chunks of which it could not be read what is in them.
    footers_failed,
}

impl FlashCounts {
    /// Items that were refused, for whatever reason.
    pub fn refused(&self) -> u64 {
        self.refusals().iter().map(|(_, items)| items).sum()
    }

    /// Returns the number of refused items by reason.
    pub fn refusals(&self) -> [(&'static str, u64); 5] {
        [
            ("too_long", self.refused_too_long),
            ("no_region", self.refused_no_region),
            ("busy", self.refused_busy),
            ("budget", self.refused_budget),
            ("unread", self.refused_unread),
        ]
    }
}

/// A device's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Name of the device.
    pub name: String,
    /// Bytes of the device that the tier uses.
    pub bytes: u64,
    /// It has failed.
    pub lost: bool,
}
