//! The state that all threads share, and the lookup of items.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use base::clock::UnixMillis;

use crate::core::counters::{Counters, SpaceTotals, Totals};
use crate::core::epoch::Epochs;
use crate::core::op::{Expire, Item, LargeRef, Value};
use crate::core::snap::Snap;
use crate::durable::checkpoint::Checkpoints;
use crate::durable::file::Held;
use crate::durable::file::notes::Notes;
use crate::durable::rebuild::Rebuild;
use crate::durable::reopen::Reopened;
use crate::heap::config::Geometry;
use crate::heap::memory::Memory;
use crate::heap::namespaces::Spaces;
use crate::heap::prefault::Ahead;
use crate::heap::samples::Samples;
use crate::heap::segments::Segments;
use crate::heap::shortage::Shortages;
use crate::index::{Found, GROUP_SLOTS, Index};
use crate::layout::header::{Queue, TOKEN_OFFSET_BITS};
use crate::layout::item::{CAS_FIELD, EXPIRY, Kind, Layout, META, META_FETCHED, META_STALE, NUM, meta_secs};
use crate::layout::key::{Hasher, Key, Namespace};
use crate::layout::persistent::KeptPage;
use crate::layout::raw::{Mutex, Word64};
use crate::layout::slot::Slot;
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
    pub(crate) kept: KeptPage,
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
    /// True if every path that takes an item's slot marks the item dead first: DEAD in the file is then what an opening
    /// goes by, now or after a loss of power.
    pub(crate) marks_first: bool,
    pub(crate) checkpoints: Checkpoints,
    /// True if the index was taken from a file and not all of its slots were verified: see [`crate::durable::verify`].
    pub(crate) unverified: AtomicBool,
    /// Names that heads hold, after a crash: pieces and parts that no head names can then be removed.
    pub(crate) named: Option<Named>,
    /// Sequence below which a segment belongs to an earlier process.
    pub(crate) reopened_at: u64,
    /// Flush sequence of each namespace: items in segments with a smaller sequence are gone. A copy of the kept words.
    pub(crate) flushed: [Word64; Namespace::MAX],
    /// Flush sequence of each namespace below which no item was found any more: see [`Store::keys`].
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
    /// Instant that META words count from: the first start.
    pub(crate) started: UnixMillis,
    pub(crate) huge_pages_asked: bool,
    /// Second tier that evicted items go to.
    pub(crate) tier: Option<Arc<dyn Tier>>,
    /// True if the second tier finds the items again because the index is not in the file. The store then reports to
    /// the tier what the slots would say.
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

/// An item that was found: its slot, its address and its layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'s> {
    pub(crate) word: &'s Word64,
    pub(crate) slot: Slot,
    pub(crate) address: usize,
    pub(crate) layout: Layout,
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

    /// Stops eviction from now on: what does not fit ends in [`crate::OpError::OutOfMemory`]. Before each store call
    /// [`Store::check_room`], or the last free segments, which compaction needs, are used up.
    pub fn keep_all(&self) {
        self.spaces.keep_all();
    }

    /// Returns true if the store evicts nothing of the namespace.
    #[inline(always)]
    pub fn keeps(&self, namespace: Namespace) -> bool {
        self.spaces.keeps(namespace.0)
    }

    /// Returns true if a value of so many bytes fits into what is free for the namespace beyond the segments that are
    /// always kept free.
    pub fn has_room(&self, namespace: Namespace, value_bytes: u64) -> bool {
        let whole = value_bytes < self.geometry.item_whole_max as u64;
        let wanted = if whole { 0 } else { self.segments_for(value_bytes) };
        self.free_of(namespace.0) > self.free_low_of(namespace.0) + wanted
    }

    pub(crate) fn call_background(&self) {
        if !self.background_called.load(Relaxed) {
            self.background_called.store(true, Relaxed);
        }
    }

    /// Returns all threads' counters, summed.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for block in &self.counters {
            totals.add(block);
        }
        totals
    }

    /// Returns all threads' counters of one namespace, summed.
    pub(crate) fn space_totals(&self, namespace: u8) -> SpaceTotals {
        let mut totals = SpaceTotals::default();
        let add =
            |totals: &mut SpaceTotals, namespace| self.counters.iter().for_each(|block| totals.add(block, namespace));
        if namespace != Namespace::DEFAULT.0 {
            add(&mut totals, namespace);
            return totals;
        }
        (1..Namespace::MAX as u8).for_each(|namespace| add(&mut totals, namespace));
        totals.left_of(&self.totals())
    }

    /// Returns true if so many of the index's slots hold items that it has to grow. That is earlier while the memory is
    /// still filling, when growing takes nothing that is needed elsewhere, and items come fastest.
    pub(crate) fn index_is_loaded(&self, totals: &Totals) -> bool {
        let filling = self.segments.free_count() > self.segments.count() / 10;
        let percent = if filling { LOAD_FILLING_PERCENT } else { LOAD_MAX_PERCENT };
        let slots = self.index.groups() * GROUP_SLOTS;
        self.index.groups() < self.memory.groups_max() && totals.items() as usize * 100 > slots * percent
    }

    /// Returns the sequence below which segments of a namespace count as flushed.
    #[inline(always)]
    pub(crate) fn flushed_before(&self, namespace: u8) -> u64 {
        self.flushed[namespace as usize].load(SeqCst)
    }

    /// Ends every item of the namespace that was stored before. The caller holds the slice gate.
    ///
    /// A relocation or a copying change may have opened a segment after the first sequence was taken and before it
    /// was stored; its segment lies below the second one.
    pub(crate) fn raise_flushed(&self, namespace: u8) {
        for _ in 0..2 {
            let sequence = self.segments.next_sequence();
            self.kept.flushed[namespace as usize].fetch_max(sequence, SeqCst);
            self.flushed[namespace as usize].fetch_max(sequence, SeqCst);
        }
        self.note_flash_flushed(namespace);
        self.shortages.flushed(self.pool(namespace));
    }

    /// Ends every item of the namespace that is there now, for a caller without a guard: it waits for a slice of the
    /// background.
    pub fn flush(&self, namespace: Namespace) {
        let _gate = self.slice_gate.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.raise_flushed(namespace.0);
    }

    /// Returns the item's address and layout if the slot names this very key.
    #[inline(always)]
    fn matches(&self, key: &Key<'_>, slot: Slot) -> Option<(usize, Layout)> {
        let address = slot.address();
        let header = self.segments.named(slot)?;
        if header.namespace_if_verified() != key.namespace {
            return self.matches_unverified(key, slot, header);
        }
        let layout = Layout::read(&self.segments.heap, address);
        let same = layout.key_len == key.bytes.len()
            && layout.is(Kind::Piece) == key.piece
            && layout.key(&self.segments.heap, address) == key.bytes;
        same.then_some((address, layout))
    }

    /// Returns the item that a slot in memory names, if it is of this key.
    pub(crate) fn seen_at<'s>(&self, key: &Key<'_>, word: &'s Word64, slot: Slot) -> Option<Seen<'s>> {
        let (address, layout) = self.matches(key, slot)?;
        Some(Seen { word, slot, address, layout })
    }

    /// Finds the key's slot without a lock, whether its item has ended or not.
    #[inline(always)]
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<Seen<'_>> {
        self.index.find(key.hash, |slot| self.matches(key, slot)).map(Seen::of)
    }

    /// Finds the key's slot under its lock.
    #[inline(always)]
    pub(crate) fn find_locked<'s>(&'s self, locked: &crate::index::Locked<'s>, key: &Key<'_>) -> Option<Seen<'s>> {
        locked.find(|slot| self.matches(key, slot)).map(Seen::of)
    }

    /// Returns the reason why an item that is there is not to be read, if there is one.
    #[inline(always)]
    pub(crate) fn ended(&self, seen: &Seen<'_>, now: UnixMillis) -> Option<Ended> {
        if seen.layout.has(EXPIRY) {
            let relative = seen.layout.expiry(&self.segments.heap, seen.address).load(Acquire);
            if self.segments.expire_at(seen.address, relative) <= now {
                return Some(Ended::Expired);
            }
        }
        let header = self.segments.header_of(seen.address);
        (header.sequence() < self.flushed_before(header.namespace())).then_some(Ended::Flushed)
    }

    /// Returns the item, unless it has ended.
    #[inline(always)]
    pub(crate) fn live<'s>(&self, seen: Option<Seen<'s>>, now: UnixMillis) -> Option<Seen<'s>> {
        seen.filter(|s| self.ended(s, now).is_none())
    }

    /// Returns the expiry of the item.
    #[inline(always)]
    pub(crate) fn expire(&self, seen: &Seen<'_>) -> Expire {
        if seen.layout.has(EXPIRY) {
            let relative = seen.layout.expiry(&self.segments.heap, seen.address).load(Acquire);
            Expire::At(self.segments.expire_at(seen.address, relative))
        } else {
            Expire::Never
        }
    }

    /// Returns the CAS token that goes with a place: `segment sequence 46 | offset / 4 18`.
    #[inline(always)]
    pub(crate) fn place_token(&self, address: usize) -> u64 {
        let offset = address & (self.segments.segment_bytes() - 1);
        self.segments.header_of(address).sequence() << TOKEN_OFFSET_BITS | (offset as u64 / 4)
    }

    /// Returns the item's CAS token. Read before the value: see [`crate::items::write`] on in-place changes.
    #[inline(always)]
    pub(crate) fn token(&self, seen: &Seen<'_>) -> u64 {
        if seen.layout.has(CAS_FIELD) {
            seen.layout.cas_field(&self.segments.heap, seen.address).load(Acquire)
        } else {
            self.place_token(seen.address)
        }
    }

    /// Returns the META word, if the item has one.
    #[inline(always)]
    pub(crate) fn meta(&self, seen: &Seen<'_>) -> Option<u32> {
        seen.layout.has(META).then(|| seen.layout.meta(&self.segments.heap, seen.address).load(Acquire))
    }

    /// Returns whether the item was read, and its last access. Without a META word, the creation of the item's segment
    /// stands for the last access.
    #[inline(always)]
    pub(crate) fn access(&self, slot: Slot, address: usize, meta: Option<u32>) -> (bool, UnixMillis) {
        match meta {
            Some(meta) => {
                let secs = u64::from(meta_secs(meta));
                (meta & META_FETCHED != 0, self.started.plus_ms(secs * 1000))
            }
            None => {
                let header = self.segments.header_of(address);
                (slot.freq() > 0 || header.queue() == Queue::Main, header.created())
            }
        }
    }

    /// Seconds since the store's start, as META counts them.
    pub(crate) fn meta_now(&self, now: UnixMillis) -> u32 {
        (now.ms_since(self.started) / 1000) as u32 & META_SECS_MASK
    }

    /// Returns the item's value.
    #[inline(always)]
    pub(crate) fn value<'s>(&'s self, seen: &Seen<'_>) -> Value<'s> {
        let (heap, layout, address) = (&self.segments.heap, &seen.layout, seen.address);
        if layout.has(NUM) {
            Value::Integer(layout.number(heap, address).load(Acquire))
        } else if layout.is(Kind::Plain) {
            Value::Bytes(layout.value(heap, address))
        } else if layout.is(Kind::Head) {
            Value::Large(large_ref(layout.value(heap, address)))
        } else {
            typed(layout.value(heap, address))
        }
    }

    /// Returns the item as a caller sees it.
    #[inline(always)]
    pub(crate) fn item<'s>(&'s self, seen: &Seen<'_>) -> Item<'s> {
        // The token first, the value second: an in-place change writes them the other way round, so a token is never
        // newer than the value it is given out with.
        let token = self.token(seen);
        let value = self.value(seen);
        let meta = self.meta(seen);
        self.item_from(seen, token, value, self.expire(seen), meta, meta)
    }

    /// Returns the item as `snap` has it, of which every word was proved to belong to one instant. What changes in
    /// place is taken from the snapshot alone: the words in the heap may be those of a later change.
    #[inline(always)]
    pub(crate) fn item_as<'s>(&'s self, seen: &Seen<'_>, snap: &Snap) -> Item<'s> {
        let value = if seen.layout.has(NUM) { Value::Integer(snap.number()) } else { self.value(seen) };
        self.item_from(seen, snap.token(), value, snap.expire(self, seen), self.meta(seen), Some(snap.lease()))
    }

    /// `access` is the META word for the facts of access, `lease` the one for the lease.
    #[inline(always)]
    fn item_from<'s>(
        &'s self,
        seen: &Seen<'_>,
        token: u64,
        value: Value<'s>,
        expire: Expire,
        access: Option<u32>,
        lease: Option<u32>,
    ) -> Item<'s> {
        let (heap, layout, address) = (&self.segments.heap, &seen.layout, seen.address);
        let (fetched, last_access) = self.access(seen.slot, address, access);
        Item {
            key: layout.key(heap, address),
            value,
            client_flags: layout.client_flags(heap, address),
            expire,
            token,
            fetched,
            last_access,
            stale: lease.is_some_and(|lease| lease & META_STALE != 0),
            stored_bytes: layout.size as u64,
            ttl_class: self.segments.header_of(address).class(),
        }
    }

    /// Writes the sum of a new item that is otherwise whole.
    #[inline(always)]
    pub(crate) fn write_sum(&self, address: usize, layout: &Layout) {
        if self.segments.heap.has_sums() {
            let sum = self.segments.sum(self.sum_seed, address, layout);
            self.segments.heap.word32(layout.sum_address(address)).store(sum, Relaxed);
        }
    }

    /// Returns true if the item at an address is what was written there, as far as it has a sum.
    pub(crate) fn is_sound(&self, address: usize, layout: &Layout) -> bool {
        self.segments.is_sound(self.sum_seed, address, layout)
    }
}

/// Returns a value behind the byte that says of what type it is.
fn typed(bytes: &[u8]) -> Value<'_> {
    bytes.split_first().map_or(Value::Bytes(bytes), |(kind, bytes)| Value::Typed { kind: *kind, bytes })
}

/// The index grows when more than this part of its slots, in percent, hold items.
const LOAD_MAX_PERCENT: usize = 88;
/// Percent of the index's slots in use at which it grows while the memory is filling.
const LOAD_FILLING_PERCENT: usize = 75;
/// META counts seconds modulo 2^26: two years.
const META_SECS_MASK: u32 = (1 << 26) - 1;

/// Why an item that still has its slot is not to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its time has come.
    Expired,
    /// Its namespace was flushed.
    Flushed,
}

impl<'s> Seen<'s> {
    #[inline(always)]
    pub(crate) fn of(found: Found<'s, (usize, Layout)>) -> Self {
        let (address, layout) = found.what;
        Self { word: found.word, slot: found.slot, address, layout }
    }
}

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
