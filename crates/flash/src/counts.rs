//! The counters of a tier.

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
    /// Requested reads.
    reads,
    /// Requested reads of data that was still in memory.
    reads_in_memory,
    /// Bytes read from devices for requested reads.
    read_bytes,
    /// Bytes of accepted items.
    item_bytes,
    /// Bytes of accepted items that were rewritten to another region.
    again_bytes,
    /// Chunks written.
    writes,
    /// Bytes written to devices.
    written_bytes,
    /// Regions that were freed when no slot referenced their items any more.
    regions_reclaimed,
    /// Bytes read from devices to reclaim regions.
    reclaim_read_bytes,
    /// Chunks of reclaimed regions whose contents were corrupt.
    reclaim_failed,
    /// Items refused because they are longer than a chunk.
    refused_too_long,
    /// Items refused because no region was free.
    refused_no_region,
    /// Items refused because the devices were slower than eviction.
    refused_busy,
    /// Items refused because the write budget was spent.
    refused_budget,
    /// Items refused because the rest of the write budget was reserved for items that had been read.
    refused_unread,
    /// Devices that failed.
    devices_lost,
    /// Items of an earlier process that were recovered.
    found,
    /// Regions of an earlier process that were freed without being read, because few regions were free.
    regions_dropped,
    /// Chunks whose footer could not be read.
    footers_failed,
}

impl FlashCounts {
    /// Returns the number of refused items, for all reasons together.
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

/// The figures of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Name of the device.
    pub name: String,
    /// Bytes of the device that the tier uses.
    pub bytes: u64,
    /// True if the device has failed.
    pub lost: bool,
}
