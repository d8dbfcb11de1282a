//! The state that all threads share, and the lookup of items.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use base::clock::UnixMillis;

use crate::core::counters::{Counters, SpaceTotals, Totals};
use crate::core::ended_keys::EndedKeys;
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
    /// Seed of the items' checksums: see [`crate::heap::checksums`].
    pub(crate) sum_seed: u64,
    /// Blocks of counters: one block for each handle, one for each thread that rebuilds the index, and a last block for
    /// the background.
    pub(crate) counters: Box<[Counters]>,
    pub(crate) handles_opened: AtomicUsize,
    /// True if a thread needs the background soon, for example because segments are short. The next slice clears the
    /// flag.
    pub(crate) background_called: AtomicBool,
    /// The persistent header, whose words outlive the process.
    pub(crate) persistent: PersistentPage,
    /// The memory file that holds the store, if there is one.
    pub(crate) held: Option<Held>,
    /// True once the memory file records a clean shutdown.
    pub(crate) closed: AtomicBool,
    /// Metadata records that the layers above persist in the file.
    pub(crate) notes: Option<Notes>,
    /// The state that the memory file had when it was opened.
    pub(crate) reopened: Option<Reopened>,
    /// State of the index rebuild, for a store whose index is not in its file.
    pub(crate) rebuild: Option<Rebuild>,
    /// True if all code that removes an item's index slot first marks the item DEAD. The next opening of the file then
    /// relies on these marks, even after a power loss.
    pub(crate) marks_first: bool,
    pub(crate) checkpoints: Checkpoints,
    /// True if the index comes from a memory file and not all of its slots have been verified: see
    /// [`crate::durable::verify`].
    pub(crate) unverified: AtomicBool,
    /// The names of pieces and parts that heads hold, collected after a crash, so that pieces and parts without a head
    /// can be removed.
    pub(crate) named: Option<Named>,
    /// The first segment sequence of this process. Segments with lower sequences are from an earlier process.
    pub(crate) reopened_at: u64,
    /// Flush sequence of each namespace: items in segments with a lower sequence count as flushed. These words are a
    /// copy of those in the persistent header.
    pub(crate) flushed: [Word64; Namespace::MAX],
    /// Flush sequence of each namespace below which all items have been removed: see [`Store::keys`].
    pub(crate) settled: [Word64; Namespace::MAX],
    /// Namespaces of the items on flash.
    pub(crate) flash_keys: FlashKeys,
    /// Keys whose items have ended without the background, which reports them.
    pub(crate) ended_keys: EndedKeys,
    /// Deferred frees: objects whose pieces or parts are still to be removed.
    pub(crate) deferred: FreeQueue,
    /// Undo log of a store in a file: the state before changes that must be applied together.
    pub(crate) undo: Option<UndoLog>,
    /// Lock that the background holds during a slice, so that no flush runs while an item is relocated.
    pub(crate) slice_gate: Mutex<()>,
    /// Number of free segments that a waiting large value needs, in addition to those that are always kept free. Set to
    /// 0 when they are available.
    pub(crate) room_wanted: AtomicUsize,
    /// Limits and usage of each namespace.
    pub(crate) spaces: Spaces,
    /// State of the namespaces that evict nothing: which of them are full.
    pub(crate) shortages: Shortages,
    /// True if a new item found its index buckets full of items that it must not replace. Cleared when a growth of the
    /// index is planned.
    pub(crate) index_crowded: AtomicBool,
    /// Number of pins, for the statistics. The callers limit the bytes of segments that are pinned or reserved by
    /// unfinished large values.
    pub(crate) pins: Word64,
    /// Gauges of the background: see [`crate::StoreStats`].
    pub(crate) background: BackgroundGauges,
    /// The instant of the store's first start, from which META words count seconds.
    pub(crate) started: UnixMillis,
    pub(crate) huge_pages_asked: bool,
    /// The second tier, to which evicted items are written, if there is one.
    pub(crate) tier: Option<Arc<dyn Tier>>,
    /// True if the second tier has to find its items again at the next start, because the index is not in the memory
    /// file. The store then reports to the tier each change that only the index slots would record.
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
    /// Target share of the small queue in all segments, in percent.
    pub(crate) small_percent: AtomicU64,
    /// Time between the last access and the eviction of the most recently evicted item, in milliseconds.
    pub(crate) evicted_idle_ms: AtomicU64,
    /// Instant at which the oldest sealed segment was opened, in Unix milliseconds; 0 if no segment is sealed.
    pub(crate) oldest_created: AtomicU64,
    pub(crate) slices: AtomicU64,
    /// Segments drained, by reason: evicted, expired, flushed, compacted.
    pub(crate) drained: [AtomicU64; 4],
}

impl Store {
    /// Returns true if the background has urgent work: free segments are short, or a thread has called for the
    /// background. The check is cheap.
    #[inline]
    pub fn needs_background(&self) -> bool {
        (self.segments.free_count() < self.free_low() && !self.spaces.keeps(0)) || self.background_called.load(Relaxed)
    }

    /// Returns the number of segments that the background has to keep free.
    pub(crate) fn free_low(&self) -> usize {
        self.memory.free_low() + self.room_wanted.load(Relaxed)
    }

    /// Decides whether items of the namespace are evicted, from now on. If it has no quota, this also decides for all
    /// other namespaces without one, because they share their memory. If no items are evicted, an item that does not
    /// fit is refused with [`crate::OpError::OutOfMemory`]. Callers must call [`Store::check_room`] before they store
    /// an item. Otherwise they use up the last free segments, which compaction needs.
    pub fn set_eviction(&self, namespace: Namespace, evicts: bool) {
        self.spaces.set_eviction(namespace.0, evicts);
        self.call_background();
    }

    /// Returns true if the store never evicts items of the namespace.
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

    /// Returns the CAS token of an address: 46 bits of the segment's sequence, then 18 bits with the offset in the
    /// segment in units of 4 bytes.
    #[inline(always)]
    pub(crate) fn place_token(&self, address: usize) -> u64 {
        let offset = address & (self.segments.segment_bytes() - 1);
        self.segments.header_of(address).sequence() << TOKEN_OFFSET_BITS | (offset as u64 / 4)
    }

    /// Returns the seconds since the store's first start, modulo 2^26, as META words hold them.
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

/// Returns true if the item at an address has no checksum, or if its checksum is right.
pub(crate) fn is_sound(store: &Store, address: usize, layout: &Layout) -> bool {
    store.segments.is_sound(store.sum_seed, address, layout)
}

/// Returns true if the index has to grow, because too many of its slots hold items. The limit is lower while the memory
/// is still filling, because items then arrive fastest and the index grows into unused memory.
pub(crate) fn index_is_loaded(store: &Store, totals: &Totals) -> bool {
    let filling = store.segments.free_count() > store.segments.count() / 10;
    let percent = if filling { LOAD_FILLING_PERCENT } else { LOAD_MAX_PERCENT };
    let slots = store.index.groups() * GROUP_SLOTS;
    store.index.groups() < store.memory.groups_max() && totals.items() as usize * 100 > slots * percent
}

/// The percentage of slots that hold items above which the index grows, once memory has filled.
const LOAD_MAX_PERCENT: usize = 88;
/// The percentage of slots that hold items above which the index grows, while memory is still filling.
const LOAD_FILLING_PERCENT: usize = 75;
/// META counts seconds modulo 2^26: two years.
const META_SECS_MASK: u32 = (1 << 26) - 1;

/// Length of the value of a large value's head, in bytes.
pub(crate) const LARGE_REF_BYTES: usize = 16;

/// Decodes the value of a large value's head: 8 bytes with the object number, 5 with the length, and 3 with the
/// revision, all little-endian.
pub(crate) fn large_ref(value: &[u8]) -> LargeRef {
    let word = |at: usize| u64::from_le_bytes(value[at..at + 8].try_into().expect("eight bytes"));
    let last = word(8);
    LargeRef { object: word(0), bytes: last % LARGE_BYTES_END, revision: (last / LARGE_BYTES_END) as u32 }
}

/// All large values are shorter than this number of bytes.
const LARGE_BYTES_END: u64 = 1 << 40;

/// Encodes the value of a large value's head. [`large_ref`] decodes it.
pub(crate) fn large_value(large: LargeRef) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&large.object.to_le_bytes());
    assert!(large.bytes < LARGE_BYTES_END, "a value of {} bytes", large.bytes);
    let last = large.bytes | u64::from(large.revision) << 40;
    value[8..].copy_from_slice(&last.to_le_bytes());
    value
}

/// Returns the block of counters of the background.
pub(crate) fn background_counters(store: &Store) -> &Counters {
    store.counters.last().expect("the background has a block of its own")
}

impl Store {
    /// Returns true while items of an earlier process, in memory or on flash, have not all been found. A key that is
    /// missing now may be found later.
    #[inline(always)]
    pub fn is_finding(&self) -> bool {
        self.rebuild.as_ref().is_some_and(|rebuild| !rebuild.has_found_all())
    }

    /// Returns true while the index slots of items in memory are being rebuilt: see [`crate::durable::rebuild`].
    #[inline(always)]
    pub fn is_rebuilding(&self) -> bool {
        self.rebuild.as_ref().is_some_and(|rebuild| !rebuild.is_whole())
    }
}
