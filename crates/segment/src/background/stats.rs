//! The statistics of a store.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use base::clock::UnixMillis;

use crate::background::shadow::Shadows;
use crate::core::capacity::held_bytes;
use crate::core::store::{Store, space_totals, totals};
use crate::durable::rebuild::rebuild_progress;
use crate::heap::segments::SegmentId;
use crate::index::{GROUP_BYTES, GROUP_SLOTS};
use crate::layout::header::{STATES, SegmentState};
use crate::layout::key::Namespace;
use crate::layout::ttl::CLASS_NEVER;

/// A store's figures at one moment. Counts begin at the start of the process; sizes are in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreStats {
    /// Items in memory, including the pieces and parts of values. Expired and flushed items count until they are
    /// removed.
    pub items: u64,
    /// The items that clients see. A value in pieces or in parts counts once.
    pub values: u64,
    /// Items stored since the start.
    pub items_total: u64,
    /// Bytes of the items in memory, headers and padding included.
    pub item_bytes: u64,
    /// The memory limit of segments, headers and index together. The store exceeds the limit only during a resize to
    /// less memory.
    pub memory_bytes: u64,
    /// Bytes that segments, headers and index hold now: more than `memory_bytes` during a resize to less memory, and
    /// less during a resize to more memory.
    pub held_bytes: u64,
    /// The maximum memory limit that a resize may set, in bytes.
    pub memory_bytes_max: u64,
    /// Bytes of all segments in use.
    pub heap_bytes: u64,
    /// Present size of the index, in bytes.
    pub index_bytes: u64,
    /// Slots in the index.
    pub index_slots: u64,
    /// The base-2 logarithm of `index_slots`, rounded down, for tools that expect a power of two.
    pub index_power: u64,
    /// True while the index is growing.
    pub index_growing: bool,
    /// Completed growths of the index.
    pub index_growths: u64,
    /// Completed shrinks of the index.
    pub index_shrinks: u64,
    /// Size of one segment, in bytes.
    pub segment_bytes: u64,
    /// Number of segments by state: free, open, sealed, draining, quarantine, decommitted.
    pub segments: [u64; 6],
    /// Sealed segments in the small queue.
    pub segments_small: u64,
    /// Target share of the small queue in all segments when memory is full, in percent.
    pub small_percent: u64,
    /// Sealed segments in the main queue.
    pub segments_main: u64,
    /// Bytes in sealed and open segments that belong to dead items, fillers and unused ends.
    pub dead_bytes: u64,
    /// Items evicted to make room.
    pub evicted: u64,
    /// Of those, items that were never read.
    pub evicted_unread: u64,
    /// Evicted items that had a TTL.
    pub evicted_with_ttl: u64,
    /// Evicted items that were pushed out of an overfull index bucket.
    pub evicted_by_index: u64,
    /// Time between the last read and the eviction of the most recently evicted item, in milliseconds. If its last read
    /// is not recorded: the age of the item.
    pub evicted_idle_ms: u64,
    /// Items removed because they had expired.
    pub expired: u64,
    /// Of those, items that were never read.
    pub expired_unread: u64,
    /// Items removed because of a flush.
    pub flushed: u64,
    /// Instant at which the oldest sealed segment was opened. No item is older, except one that is still being written.
    pub oldest: Option<UnixMillis>,
    /// Items copied to another segment.
    pub relocated: u64,
    /// Index slots moved to the other index bucket of their key.
    pub displaced: u64,
    /// New items whose key had a ghost.
    pub ghost_hits: u64,
    /// Operations that were parked because they waited for a lock or for memory.
    pub parked: u64,
    /// Reads that found an expired item.
    pub read_expired: u64,
    /// Reads that found a flushed item.
    pub read_flushed: u64,
    /// Segments that became free again.
    pub segments_freed: u64,
    /// Number of drained segments by reason: evicted, expired, flushed, compacted.
    pub segments_drained: [u64; 4],
    /// Large values that were discarded because a piece was missing.
    pub large_broken: u64,
    /// Items of a memory file that were damaged and were removed.
    pub damaged: u64,
    /// Index slots of a memory file that were cleared because they named no intact item.
    pub slots_cleared: u64,
    /// Segments that the rebuild of the index has not walked yet.
    pub rebuild_segments: u64,
    /// Pieces and parts that were removed because no head named them after a crash.
    pub orphans: u64,
    /// Items on flash. They are not included in `items`.
    pub flash_items: u64,
    /// Evicted items that were written to flash.
    pub flash_taken: u64,
    /// Items on flash that were evicted with their region to make room on the device.
    pub flash_evicted: u64,
    /// Items on flash that were copied to another region because they had been read.
    pub flash_again: u64,
    /// Values served from flash.
    pub flash_hits: u64,
    /// Items that were moved from flash back to memory.
    pub flash_back: u64,
    /// Reads of flash that failed or found damaged data. They count as misses.
    pub flash_failed: u64,
    /// Values that are pinned now because they are being sent.
    pub pins: u64,
    /// Background slices run.
    pub slices: u64,
    /// True if huge pages were requested.
    pub huge_pages_asked: bool,
}

impl StoreStats {
    /// Returns the bytes that segments with items and the index take. The store reserves its whole memory at the start,
    /// so an empty store holds [`Self::held_bytes`] but uses few of them.
    pub fn used_bytes(&self) -> u64 {
        // The number of segments in use may be older than the bytes of the items.
        self.heap_bytes.max(self.item_bytes) + self.index_bytes
    }
}

/// The contents and the activity of a namespace. Counts begin at the start of the process; sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceStats {
    /// As [`StoreStats::items`].
    pub items: u64,
    /// As [`StoreStats::values`].
    pub values: u64,
    /// Items on flash that are known to belong to the namespace: see [`Store::keys`].
    pub flash_items: u64,
    /// As [`StoreStats::item_bytes`].
    pub item_bytes: u64,
    /// Bytes of the segments that the namespace uses.
    pub heap_bytes: u64,
    /// Maximum of `heap_bytes` now. With a quota: the quota less the index space of the namespace's items. Without a
    /// quota: the memory that is not reserved by quotas.
    pub heap_bytes_max: u64,
    /// Items evicted to make room.
    pub evicted: u64,
    /// Items removed because they had expired.
    pub expired: u64,
    /// Items removed because of a flush.
    pub flushed: u64,
}

/// The names of [`StoreStats::segments`], in order.
pub const SEGMENT_STATES: [&str; 6] = ["free", "open", "sealed", "draining", "quarantine", "decommitted"];
/// The names of [`StoreStats::segments_drained`], in order.
pub const DRAIN_REASONS: [&str; 4] = ["evicted", "expired", "flushed", "compacted"];

/// Figures that only a walk over all segment headers yields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// As [`StoreStats::segments`].
    pub segments: [u64; STATES.len()],
    /// As [`StoreStats::dead_bytes`].
    pub dead_bytes: u64,
    /// For each namespace, the number of keys in memory that expire, and that no flush has ended. Times to live of
    /// more than a year count as none, because such keys share segments with those that never expire.
    pub expiring: [u64; Namespace::MAX],
}

impl Store {
    /// Walks all segment headers and returns their figures. A data thread must not call it, because it costs a cache
    /// miss for each MiB of the heap.
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        for id in 0..self.segments.high_water() {
            let header = self.segments.header(SegmentId(id as u32));
            census.segments[header.state() as usize] += 1;
            census.dead_bytes += u64::from(header.dead_bytes());
            if holds_items(header.state())
                && header.class() != CLASS_NEVER
                && header.sequence() >= self.flushed_before(header.namespace())
            {
                census.expiring[usize::from(header.namespace())] += u64::from(header.live_keys());
            }
        }
        census.segments[SegmentState::Free as usize] += self.segments.fresh_count() as u64;
        census
    }

    /// Returns the store's present figures. Walks all segment headers.
    pub fn stats(&self) -> StoreStats {
        self.stats_by(&self.census())
    }

    /// Returns the store's present figures, except that those of `census` were taken earlier.
    pub fn stats_by(&self, census: &Census) -> StoreStats {
        let Census { segments, dead_bytes, .. } = *census;
        let totals = totals(self);
        let groups = self.index.groups() as u64;
        let used = segments.iter().sum::<u64>()
            - segments[SegmentState::Free as usize]
            - segments[SegmentState::Decommitted as usize];
        let gauges = &self.background;
        let oldest = gauges.oldest_created.load(Relaxed);
        let rebuild = rebuild_progress(self).unwrap_or_default();
        StoreStats {
            items: totals.items(),
            values: totals.values(),
            items_total: totals.items_added + totals.hidden_added,
            item_bytes: totals.bytes_added.saturating_sub(totals.bytes_removed),
            memory_bytes: self.memory.wanted_bytes(),
            held_bytes: held_bytes(self),
            memory_bytes_max: self.geometry.memory_bytes_max,
            heap_bytes: used * self.segments.segment_bytes() as u64,
            index_bytes: self.index.groups().max(self.index.groups_next()) as u64 * GROUP_BYTES as u64,
            index_slots: groups * GROUP_SLOTS as u64,
            index_power: (groups * GROUP_SLOTS as u64).ilog2().into(),
            index_growing: self.index.is_growing(),
            index_growths: gauges.growths.load(Relaxed),
            index_shrinks: gauges.shrinks.load(Relaxed),
            segment_bytes: self.segments.segment_bytes() as u64,
            segments,
            small_percent: gauges.small_percent.load(Relaxed),
            segments_small: gauges.small_segments.load(Relaxed),
            segments_main: gauges.main_segments.load(Relaxed),
            dead_bytes,
            evicted: totals.evicted,
            evicted_unread: totals.evicted_unread,
            evicted_with_ttl: totals.evicted_with_ttl,
            evicted_idle_ms: gauges.evicted_idle_ms.load(Relaxed),
            evicted_by_index: totals.evicted_by_index,
            expired: totals.expired,
            expired_unread: totals.expired_unread,
            oldest: (oldest > 0).then_some(UnixMillis(oldest)),
            flushed: totals.flushed,
            relocated: totals.relocated,
            displaced: totals.displaced,
            ghost_hits: totals.ghost_hits,
            parked: totals.parked,
            read_expired: totals.read_expired,
            read_flushed: totals.read_flushed,
            segments_freed: totals.segments_freed,
            segments_drained: std::array::from_fn(|i| gauges.drained[i].load(Relaxed)),
            large_broken: totals.large_broken,
            damaged: totals.damaged + rebuild.torn,
            slots_cleared: totals.slots_cleared,
            rebuild_segments: rebuild.segments_left,
            orphans: totals.orphans,
            flash_items: totals.flash_taken.saturating_sub(totals.flash_removed),
            flash_taken: totals.flash_taken,
            flash_evicted: totals.flash_evicted,
            flash_again: totals.flash_again,
            flash_hits: totals.flash_hits,
            flash_back: totals.flash_back,
            flash_failed: totals.flash_failed,
            pins: self.pins.load(Relaxed),
            slices: gauges.slices.load(Relaxed),
            huge_pages_asked: self.huge_pages_asked,
        }
    }

    /// Returns the number of keys of a namespace whose items, in memory or on flash, no flush has ended. Items that
    /// have expired count until they are removed. While flushed items are being removed, the function reads every
    /// segment header.
    pub fn keys(&self, namespace: Namespace) -> u64 {
        let space = namespace.0;
        let unflushed = self.unflushed_keys(space);
        let totals = space_totals(self, space);
        let in_memory = unflushed.unwrap_or_else(|| totals.values());
        in_memory + self.flash_keys.keys(space, totals.flash_counted())
    }

    /// Returns the number of keys in the segments that no flush has ended, or `None` if no segment is flushed. While
    /// flushed items are being removed, the counters cannot be used, because they also count the flushed items that are
    /// still present.
    fn unflushed_keys(&self, space: u8) -> Option<u64> {
        let flushed = self.flushed_before(space);
        if self.settled[usize::from(space)].load(Acquire) == flushed {
            return None;
        }
        let (mut keys, mut settled) = (0, true);
        for id in 0..self.segments.high_water() {
            let header = self.segments.header(SegmentId(id as u32));
            if !holds_items(header.state()) || header.namespace() != space {
                continue;
            }
            if header.sequence() < flushed {
                settled = false;
            } else {
                keys += u64::from(header.live_keys());
            }
        }
        if settled {
            self.settled[usize::from(space)].store(flushed, Release);
            return None;
        }
        Some(keys)
    }

    /// Returns the present figures of one namespace.
    pub fn namespace_stats(&self, namespace: Namespace) -> NamespaceStats {
        let (totals, segment_bytes) = (space_totals(self, namespace.0), self.segments.segment_bytes() as u64);
        let limits: usize = self.spaces.with_quota().filter_map(|other| self.spaces.limit(other)).sum();
        let shared = self.segments.count().saturating_sub(limits);
        NamespaceStats {
            items: totals.items(),
            values: totals.values(),
            flash_items: self.flash_keys.items(namespace.0, totals.flash_counted()),
            item_bytes: totals.item_bytes(),
            heap_bytes: self.spaces.used(namespace.0) as u64 * segment_bytes,
            heap_bytes_max: self.spaces.limit(namespace.0).unwrap_or(shared) as u64 * segment_bytes,
            evicted: totals.evicted,
            expired: totals.expired,
            flushed: totals.flushed,
        }
    }

    /// Returns the bytes of the segments and the index that are backed by huge pages now, as the kernel reports. The
    /// call is slow.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn huge_page_bytes(&self) -> std::io::Result<u64> {
        Ok(self.segments.heap.map().huge_bytes()? + self.index.map().huge_bytes()?)
    }

    /// Returns the maximum process memory that the store uses in addition to [`crate::StoreConfig::memory_bytes`], in
    /// bytes. It consists of the background's queues, deferred frees and shadows, and for each handle a ring of samples
    /// and two pieces of scratch space.
    pub fn overhead_bytes_max(&self) -> u64 {
        let queues = self.segments.end() as u64 * 208;
        let handles = self.counters.len() as u64 * 2 * self.geometry.piece_bytes as u64;
        queues
            + handles
            + crate::values::free_queue::QUEUE_BYTES_MAX
            + self.samples.bytes()
            + Shadows::BYTES_MAX
            + (64 << 10)
    }
}

/// Returns true if a segment in this state has items.
fn holds_items(state: SegmentState) -> bool {
    matches!(state, SegmentState::Open | SegmentState::Sealed | SegmentState::Draining)
}
