//! The state that all threads share, and the lookup of items.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use base::clock::UnixMillis;

use crate::core::counters::{Counters, SpaceTotals, Totals};
use crate::core::epoch::Epochs;
use crate::core::op::LargeRef;
use crate::durable::checkpoint::Checkpoints;
use crate::durable::file::Held;
use crate::durable::file::notes::Notes;
use crate::durable::rebuild::Rebuild;
use crate::durable::reopen::Reopened;
use crate::heap::back_pressure::Shortages;
use crate::heap::config::Geometry;
use crate::heap::memory::Memory;
use crate::heap::namespaces::Spaces;
use crate::heap::prefault::Ahead;
use crate::heap::samples::Samples;
use crate::heap::segments::Segments;
use crate::index::{GROUP_SLOTS, Index};
use crate::layout::header::TOKEN_OFFSET_BITS;
use crate::layout::item::Layout;
use crate::layout::key::{Hasher, Namespace};
use crate::layout::persistent::PersistentPage;
use crate::layout::raw::{Mutex, Word64};
use crate::locks::undo_log::UndoLog;
use crate::locks::words::LockTable;
use crate::tier::Tier;
use crate::tier::flash_keys::FlashKeys;
use crate::values::free_queue::FreeQueue;
use crate::values::orphans::Named;

/// An in-memory store of items.
#[derive(Debug)]
pub struct Store {
    pub(crate) geometry: Geometry,
    pub(crate) memory: Memory,
    pub(crate) ahead: Ahead,
    pub(crate) segments: Segments,
    pub(crate) index: Index,
    pub(crate) epochs: Epochs,
    pub(crate) key_locks: LockTable,
    pub(crate) samples: Samples,
    pub(crate) hasher: Hasher,
    /// Seed of the sums of items: see [`crate::heap::checksums`].
    pub(crate) sum_seed: u64,
    /// Counters: one block for each handle, one for each thread that rebuilds the index, and the last one for the
    /// background.
    pub(crate) counters: Box<[Counters]>,
    pub(crate) handles_opened: AtomicUsize,
    /// True if a handle found index buckets full; cleared by the next slice.
    pub(crate) background_called: AtomicBool,
    /// Words that outlive the process.
    pub(crate) persistent: PersistentPage,
    /// The memory file that holds the store, if there is one.
    pub(crate) held: Option<Held>,
    /// True once the file records that it was left in order.
    pub(crate) closed: AtomicBool,
    /// Metadata records that the layers above persist in the file.
    pub(crate) notes: Option<Notes>,
    /// State that was found in the file when it was opened.
    pub(crate) reopened: Option<Reopened>,
    /// State of the index rebuild, for a store whose index is not in its file.
    pub(crate) rebuild: Option<Rebuild>,
    /// True if every path that takes an item's slot marks the item dead first. An opening then relies on DEAD in the
    /// file, now or after a power loss.
    pub(crate) marks_first: bool,
    pub(crate) checkpoints: Checkpoints,
    /// True if the index was taken from a file and not all of its slots were verified: see [`crate::durable::verify`].
    pub(crate) unverified: AtomicBool,
    /// The names of pieces and parts that heads hold, collected after a crash, so that pieces and parts without a head
    /// can be removed.
    pub(crate) named: Option<Named>,
    /// Sequence below which a segment belongs to an earlier process.
    pub(crate) reopened_at: u64,
    /// Flush sequence of each namespace: items in segments with a smaller sequence are gone. A copy of the kept words.
    pub(crate) flushed: [Word64; Namespace::MAX],
    /// Flush sequence of each namespace below which all items have been removed: see [`Store::keys`].
    pub(crate) settled: [Word64; Namespace::MAX],
    /// Namespaces of the items on flash.
    pub(crate) flash_keys: FlashKeys,
    /// Objects that wait to be removed.
    pub(crate) deferred: FreeQueue,
    /// Undo log of a store in a file: the state before changes that must be applied together.
    pub(crate) undo: Option<UndoLog>,
    /// Gate that the background holds for a slice, so that a flush does not overlap a relocation.
    pub(crate) slice_gate: Mutex<()>,
    /// Free segments that a large value waits for, beyond those that are always kept free. Cleared when they are
    /// available.
    pub(crate) room_wanted: AtomicUsize,
    /// Limits and usage of each namespace.
    pub(crate) spaces: Spaces,
    /// Namespaces that are full, of those that evict nothing.
    pub(crate) shortages: Shortages,
    /// True if a new item found only items in its index buckets that it may not replace; cleared when the index grows.
    pub(crate) index_crowded: AtomicBool,
    /// Number of pins, for the stats. The callers bound the bytes of segments that are pinned, or reserved by
    /// unfinished large values.
    pub(crate) pins: Word64,
    /// Gauges of the background: see [`crate::StoreStats`].
    pub(crate) background: BackgroundGauges,
    /// The instant from which META words count: the first start.
    pub(crate) started: UnixMillis,
    pub(crate) huge_pages_asked: bool,
    /// Second tier that evicted items go to.
    pub(crate) tier: Option<Arc<dyn Tier>>,
    /// True if the second tier finds the items again because the index is not in the file. The store then reports to
    /// the tier the changes that the slots would show.
    pub(crate) finds: bool,
}

/// Gauges of the background, written by the background alone.
#[derive(Debug, Default)]
pub(crate) struct BackgroundGauges {
    pub(crate) small_segments: AtomicU64,
    pub(crate) main_segments: AtomicU64,
    pub(crate) quarantine_segments: AtomicU64,
    pub(crate) decommitted_segments: AtomicU64,
    pub(crate) growths: AtomicU64,
    pub(crate) shrinks: AtomicU64,
    /// Share of the segments that the background holds the small queue at, in percent.
    pub(crate) small_percent: AtomicU64,
    /// Time since the last access of the item that was evicted last, in milliseconds.
    pub(crate) evicted_idle_ms: AtomicU64,
    /// Instant at which the oldest sealed segment was opened; 0 if there is none.
    pub(crate) oldest_created: AtomicU64,
    pub(crate) slices: AtomicU64,
    /// Segments drained, by reason: evicted, expired, flushed, compacted.
    pub(crate) drained: [AtomicU64; 4],
}

impl Store {
    /// Returns true if the background has urgent work: free segments are short or the index is full. Cheap.
    #[inline]
    pub fn needs_background(&self) -> bool {
        (self.segments.free_count() < self.free_low() && !self.spaces.keeps(0)) || self.background_called.load(Relaxed)
    }

    /// Returns the number of segments that the background has to keep free.
    pub(crate) fn free_low(&self) -> usize {
        self.memory.free_low() + self.room_wanted.load(Relaxed)
    }

    /// Stops eviction from now on: an item that does not fit is refused with [`crate::OpError::OutOfMemory`]. Callers
    /// call [`Store::check_room`] before each store. Otherwise they use up the last free segments, which compaction
    /// needs.
    pub fn persist_all(&self) {
        self.spaces.persist_all();
    }

    /// Returns true if the store evicts nothing of the namespace.
    #[inline(always)]
    pub fn keeps(&self, namespace: Namespace) -> bool {
        self.spaces.keeps(namespace.0)
    }

    pub(crate) fn call_background(&self) {
        if !self.background_called.load(Relaxed) {
            self.background_called.store(true, Relaxed);
        }
    }

    /// Returns the sequence below which segments of a namespace count as flushed.
    #[inline(always)]
    pub(crate) fn flushed_before(&self, namespace: u8) -> u64 {
        self.flushed[namespace as usize].load(SeqCst)
    }

    /// Returns the CAS token of an address: `segment sequence 46 | offset / 4 18`.
    #[inline(always)]
    pub(crate) fn place_token(&self, address: usize) -> u64 {
        let offset = address & (self.segments.segment_bytes() - 1);
        self.segments.header_of(address).sequence() << TOKEN_OFFSET_BITS | (offset as u64 / 4)
    }

    /// Returns the seconds since the store's start, as META counts them.
    pub(crate) fn meta_now(&self, now: UnixMillis) -> u32 {
        (now.ms_since(self.started) / 1000) as u32 & META_SECS_MASK
    }
}

/// Returns all threads' counters, summed.
pub(crate) fn totals(store: &Store) -> Totals {
    let mut totals = Totals::default();
    for block in &store.counters {
        totals.add(block);
    }
    totals
}

/// Returns all threads' counters of one namespace, summed.
pub(crate) fn space_totals(store: &Store, namespace: u8) -> SpaceTotals {
    let mut space = SpaceTotals::default();
    let add =
        |totals: &mut SpaceTotals, namespace| store.counters.iter().for_each(|block| totals.add(block, namespace));
    if namespace != Namespace::DEFAULT.0 {
        add(&mut space, namespace);
        return space;
    }
    (1..Namespace::MAX as u8).for_each(|namespace| add(&mut space, namespace));
    space.left_of(&totals(store))
}

/// Writes the checksum of a new item that is otherwise complete.
#[inline(always)]
pub(crate) fn write_sum(store: &Store, address: usize, layout: &Layout) {
    if store.segments.heap.has_sums() {
        let sum = store.segments.sum(store.sum_seed, address, layout);
        store.segments.heap.word32(layout.sum_address(address)).store(sum, Relaxed);
    }
}

/// Returns true if the item at an address is undamaged, as far as it has a checksum.
pub(crate) fn is_sound(store: &Store, address: usize, layout: &Layout) -> bool {
    store.segments.is_sound(store.sum_seed, address, layout)
}

/// Returns true if the index has to grow, because too many of its slots hold items. The limit is lower while the memory
/// is still filling: the index then grows into unused memory, and items arrive fastest.
pub(crate) fn index_is_loaded(store: &Store, totals: &Totals) -> bool {
    let filling = store.segments.free_count() > store.segments.count() / 10;
    let percent = if filling { LOAD_FILLING_PERCENT } else { LOAD_MAX_PERCENT };
    let slots = store.index.groups() * GROUP_SLOTS;
    store.index.groups() < store.memory.groups_max() && totals.items() as usize * 100 > slots * percent
}

/// The index grows when more than this part of its slots, in percent, hold items.
const LOAD_MAX_PERCENT: usize = 88;
/// Percent of the index's slots in use at which it grows while the memory is filling.
const LOAD_FILLING_PERCENT: usize = 75;
/// META counts seconds modulo 2^26: two years.
const META_SECS_MASK: u32 = (1 << 26) - 1;

/// Bytes of a head's value.
pub(crate) const LARGE_REF_BYTES: usize = 16;

/// Returns the value of a head: `object 8 | bytes 8`, little-endian.
pub(crate) fn large_ref(value: &[u8]) -> LargeRef {
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"));
    LargeRef { object: word(0), bytes: word(8) }
}

/// Returns the bytes of a head's value.
pub(crate) fn large_value(large: LargeRef) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&large.object.to_le_bytes());
    value[8..].copy_from_slice(&large.bytes.to_le_bytes());
    value
}

/// Returns the block of counters of the background.
pub(crate) fn background_counters(store: &Store) -> &Counters {
    store.counters.last().expect("the background has a block of its own")
}

impl Store {
    /// Returns true if items of an earlier process, in memory or on flash, are still to be found: a missing key may be
    /// found later.
    #[inline(always)]
    pub fn is_finding(&self) -> bool {
        self.rebuild.as_ref().is_some_and(|rebuild| !rebuild.has_found_all())
    }

    /// Returns true while the index is being rebuilt, as far as it covers items in memory: see
    /// [`crate::durable::rebuild`].
    #[inline(always)]
    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.as_ref().is_some_and(|rebuild| !rebuild.is_whole())
    }
}
