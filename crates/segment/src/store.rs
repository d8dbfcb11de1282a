//! The store: the state that all threads share, and the lookup of items.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use arena::MapFile;
use base::clock::UnixMillis;

use crate::background::Background;
use crate::core::counters::{Counters, SpaceTotals, Totals};
use crate::core::epoch::Epochs;
use crate::core::lane::{Lane, LaneError};
use crate::core::op::{Expire, Item, LargeRef, Value};
use crate::durable::checkpoint::Checkpoints;
use crate::durable::file::notes::{NoteFault, Notes};
use crate::durable::file::{FileFault, Ground, Held, IndexPlace, StoreFile};
use crate::durable::rebuild::{REBUILDERS_MAX, Rebuild};
use crate::durable::reopen::Reopened;
use crate::heap::config::{Geometry, StartError, StoreConfig};
use crate::heap::memory::Memory;
use crate::heap::namespaces::Spaces;
use crate::heap::prefault::Ahead;
use crate::heap::samples::Samples;
use crate::heap::segments::Segments;
use crate::heap::shortage::Shortages;
use crate::index::{Found, GROUP_SLOTS, Index};
use crate::items::write::Snap;
use crate::layout::header::Queue;
use crate::layout::item::{CAS_FIELD, EXPIRY, Kind, Layout, META, META_FETCHED, META_STALE, NUM, meta_secs};
use crate::layout::key::{Hasher, Key, Namespace};
use crate::layout::persistent::KeptPage;
use crate::layout::raw::{Mutex, Word64};
use crate::layout::slot::Slot;
use crate::locks::claim::Claims;
use crate::locks::undo::UndoLog;
use crate::tier::Tier;
use crate::tier::flash_keys::FlashKeys;
use crate::values::deferred_free::Graves;
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
    pub(crate) claims: Claims,
    pub(crate) samples: Samples,
    pub(crate) hasher: Hasher,
    /// Seed of the sums of items: see [`crate::layout::checksums`].
    pub(crate) sum_seed: u64,
    /// Counters: one block for each lane, one for each thread that rebuilds the index, and the last one for the
    /// background.
    pub(crate) counters: Box<[Counters]>,
    pub(crate) lanes_opened: AtomicUsize,
    /// True if a lane found index buckets full; cleared by the next slice.
    pub(crate) background_called: AtomicBool,
    /// Words that outlive the process.
    pub(crate) kept: KeptPage,
    /// The memory file that holds the store, if there is one.
    pub(crate) held: Option<Held>,
    /// True once the file records that it was left in order.
    closed: AtomicBool,
    /// Metadata records that the layers above persist in the file.
    pub(crate) notes: Option<Notes>,
    /// State that was found in the file when it was opened.
    reopened: Option<Reopened>,
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
    flushed: [Word64; Namespace::MAX],
    /// Flush sequence of each namespace below which no item was found any more: see [`Store::keys`].
    pub(crate) settled: [Word64; Namespace::MAX],
    /// Namespaces of the items on flash.
    pub(crate) flash_keys: FlashKeys,
    /// Objects that wait to be removed.
    pub(crate) graves: Graves,
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
    pub(crate) limbo_segments: AtomicU64,
    pub(crate) withheld_segments: AtomicU64,
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
    /// Creates a store of the given sizes, and the handle that does its background work. A thread has to drive that
    /// handle, or no item is ever evicted.
    ///
    /// # Errors
    /// If the sizes do not fit together, or the address space cannot be reserved: see [`StartError`].
    pub fn new(config: &StoreConfig, now: UnixMillis) -> Result<(Arc<Self>, Background), StartError> {
        let (geometry, ground) = match reserve(config) {
            // If that much address space cannot be reserved, the store runs without room to grow.
            Err(StartError::Map(_)) if config.memory_bytes_max > config.memory_bytes => {
                reserve(&StoreConfig { memory_bytes_max: 0, ..config.clone() })?
            }
            reserved => reserved?,
        };
        Self::on(config, geometry, ground, None, None, now)
    }

    /// Opens or creates a store in a file. What was acknowledged before the previous process ended, however it ended,
    /// is there again. The file's seed and sizes become the store's. Of `config`, only the memory has to equal that of
    /// the file. Its `memory_bytes_max` is ignored: a file does not grow.
    ///
    /// # Errors
    /// If the sizes do not fit or the file is refused: see [`StartError`], above all [`StartError::File`]. A file that
    /// is not this store's is left unchanged.
    pub fn in_file(
        config: &StoreConfig,
        file: &StoreFile,
        now: UnixMillis,
    ) -> Result<(Arc<Self>, Background), StartError> {
        let (geometry, ground, held) = crate::durable::file::lay(config, file, None, now)?;
        let config = StoreConfig { hash_seed: held.block.hash_seed, memory_bytes_max: 0, ..config.clone() };
        Self::on(&config, geometry, ground, Some(held), None, now)
    }

    pub(crate) fn on(
        config: &StoreConfig,
        geometry: Geometry,
        ground: Ground,
        held: Option<Held>,
        tier: Option<(Arc<dyn Tier>, usize)>,
        now: UnixMillis,
    ) -> Result<(Arc<Self>, Background), StartError> {
        let regions = tier.as_ref().map_or(0, |(_, regions)| *regions);
        let Ground { kept, stripes, headers, buckets, heap, notes, undo, records } = ground;
        let segments = Segments::on(&geometry, heap, headers, kept.clone());
        let index_anew = held.as_ref().is_some_and(|held| held.index_anew);
        let index_in_dram = held.as_ref().is_some_and(|held| held.index() == IndexPlace::Dram);
        let rebuilders = if index_anew { REBUILDERS_MAX } else { 0 };
        let records = records.filter(|_| held.as_ref().is_some_and(Held::has_checkpoints));
        let mut store = Self {
            memory: Memory::new(&geometry, config.memory_bytes),
            ahead: Ahead::default(),
            segments,
            index: Index::on(buckets, stripes, kept.clone()),
            epochs: Epochs::new(config.lanes_max),
            claims: Claims::new(),
            samples: Samples::new(config.lanes_max),
            hasher: Hasher::new(config.hash_seed),
            sum_seed: crate::layout::checksums::seed(config.hash_seed),
            counters: (0..=config.lanes_max + rebuilders).map(|_| Counters::default()).collect(),
            lanes_opened: AtomicUsize::new(0),
            background_called: AtomicBool::new(false),
            flushed: std::array::from_fn(|namespace| Word64::new(kept.flushed[namespace].load(Relaxed))),
            settled: [const { Word64::new(0) }; Namespace::MAX],
            flash_keys: FlashKeys::new(regions).map_err(StartError::Map)?,
            graves: Graves::default(),
            undo,
            slice_gate: Mutex::new(()),
            room_wanted: AtomicUsize::new(0),
            spaces: Spaces::default(),
            shortages: Shortages::default(),
            index_crowded: AtomicBool::new(false),
            pins: Word64::new(0),
            background: BackgroundGauges::default(),
            started: held.as_ref().map_or(now, |held| UnixMillis(held.block.made_ms)),
            huge_pages_asked: config.huge_pages,
            finds: tier.is_some() && index_in_dram,
            tier: tier.map(|(tier, _)| tier),
            notes,
            reopened: None,
            rebuild: None,
            marks_first: index_in_dram || index_anew || records.is_some(),
            checkpoints: Checkpoints::new(records),
            unverified: AtomicBool::new(false),
            named: None,
            reopened_at: 0,
            closed: AtomicBool::new(false),
            held,
            kept,
            geometry,
        };
        store.take_over(now)?;
        let store = Arc::new(store);
        let background = Background::new(Arc::clone(&store));
        Ok((store, background))
    }

    /// Makes whole what is in the file.
    fn take_over(&mut self, now: UnixMillis) -> Result<(), StartError> {
        let Some(held) = &self.held else { return Ok(()) };
        let (mut reopened, mut rebuild) = (Reopened::default(), None);
        let fault = |fault| StartError::File { path: held.file.path().to_owned(), fault };
        let (opened, index_anew) = (held.block.opened, held.index_anew);
        (reopened.lost, reopened.lost_all) = (held.lost.is_some(), held.lost_all);
        let (now, behind_ms) = if held.left.is_some() { self.resume_clock(now) } else { (now, 0) };
        if let Some(left) = held.left {
            reopened = if index_anew {
                let (reopened, begun) = self.reopen_without_index().map_err(fault)?;
                rebuild = Some(begun);
                reopened
            } else {
                self.reopen().map_err(fault)?
            };
            (reopened.clean, reopened.unsynced) = (left.clean, left.unsynced);
            reopened.flash_emptied = self.tier.is_some() && held.lost.is_some();
        } else if index_anew {
            rebuild = Some(Rebuild::new(self, Vec::new(), u64::MAX, HashMap::new()));
        }
        (reopened.opened, reopened.at, reopened.clock_behind_ms) = (opened, now, behind_ms);
        if let Some(rebuild) = rebuild.as_ref().filter(|rebuild| rebuild.is_empty()) {
            rebuild.become_whole(self);
        }
        self.rebuild = rebuild;
        let later = self.find_latest(now);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.note_later(later);
        }
        if reopened.found && !reopened.clean {
            let heap_bytes = self.segments.high_water() * self.segments.segment_bytes();
            self.named = Some(Named::new(heap_bytes, self.kept.objects.load(Relaxed)));
        }
        if reopened.found && !index_anew {
            self.begin_verification();
        }
        self.reopened = Some(reopened);
        self.reopened_at = self.segments.next_sequence();
        self.ahead.begin_in_file(self);
        self.kept.exact_tokens.store(1, Release);
        self.settle()
    }

    /// Records in the file that what was found in it is in order now.
    fn settle(&mut self) -> Result<(), StartError> {
        if let (Some(notes), Some(record)) = (&self.notes, self.checkpoints.latest()) {
            notes.name_only(record.notes());
        }
        let Some(held) = &mut self.held else { return Ok(()) };
        let settled = held.settle();
        settled.map_err(|error| StartError::File { path: held.file.path().to_owned(), fault: FileFault::Io(error) })
    }

    /// Returns what was found in the store's file, or `None` if the store lies in no file.
    pub fn reopened(&self) -> Option<&Reopened> {
        self.reopened.as_ref()
    }

    /// Closes the store's file in order and returns it for another store; this store records nothing more in it. No
    /// thread works on the store any more, or will. Returns `None` if the store lies in no file.
    pub fn leave(&self) -> Option<Arc<MapFile>> {
        self.close();
        self.held.as_ref().map(|held| Arc::clone(&held.file))
    }

    /// Copies the index for the store that opens the file next, so that it need not rebuild the index. `None`: the
    /// index is in the file, is still being rebuilt, or the store has flash. Call it after [`Store::leave`].
    ///
    /// # Errors
    /// There is not enough memory for the copy.
    pub fn leave_index(&self) -> std::io::Result<Option<Arc<MapFile>>> {
        let Some(held) = self.held.as_ref().filter(|held| held.index() == IndexPlace::Dram) else { return Ok(None) };
        if self.tier.is_some() || self.is_rebuilding() || !self.closed.load(SeqCst) {
            return Ok(None);
        }
        crate::durable::file::index_left::leave(&self.index, held).map(Some)
    }

    /// Returns the file that it lies in, if it does.
    pub fn file(&self) -> Option<&Arc<MapFile>> {
        self.held.as_ref().map(|held| &held.file)
    }

    /// Records, once, that no thread works on the file any more.
    fn close(&self) {
        if let Some(held) = &self.held
            && !self.closed.swap(true, SeqCst)
        {
            self.end_verification();
            if let Some(tier) = self.tier.as_ref().filter(|_| held.has_checkpoints()) {
                tier.sync();
            }
            let has_lost_changes = self.kept.unsynced_before.load(Relaxed) != 0;
            held.close(UnixMillis(self.kept.clock_ms.load(Relaxed)), has_lost_changes);
        }
    }

    /// Keeps a note beyond the process, behind those that are there; of a store in no file it is forgotten.
    ///
    /// # Errors
    /// See [`NoteFault`]; the notes are as they were.
    pub fn keep_note(&self, note: &[u8]) -> Result<(), NoteFault> {
        self.notes.as_ref().map_or(Ok(()), |notes| notes.append(note))
    }

    /// Visits every note that is retained, in order.
    pub fn each_note(&self, each: &mut dyn FnMut(&[u8])) {
        if let Some(notes) = &self.notes {
            notes.read(each);
        }
    }

    /// Puts other notes in the place of all that are kept.
    ///
    /// # Errors
    /// See [`NoteFault`]; the notes are as they were.
    pub fn rewrite_notes(&self, all: &[Vec<u8>]) -> Result<(), NoteFault> {
        self.notes.as_ref().map_or(Ok(()), |notes| notes.rewrite(all))
    }

    /// Returns true if the notes fill half of their room: it is time to rewrite them, each fact once.
    pub fn notes_are_long(&self) -> bool {
        self.notes.as_ref().is_some_and(Notes::are_long)
    }

    /// Replaces all notes with those that `make` builds from them, in order. A caller that adds a note meanwhile waits.
    ///
    /// # Errors
    /// If the notes cannot be replaced: see [`NoteFault`]. The notes are then unchanged.
    pub fn renew_notes(&self, make: impl Fn(&[Vec<u8>]) -> Vec<Vec<u8>>) -> Result<(), NoteFault> {
        let Some(notes) = &self.notes else { return Ok(()) };
        notes.renew(&mut |notes| {
            let mut all = Vec::new();
            notes.read(&mut |note| all.push(note.to_vec()));
            make(&all)
        })
    }

    /// Keeps the instant of a flush that is to come, beyond the process; `None`: none is to come.
    pub fn keep_flush_at(&self, namespace: Namespace, at: Option<UnixMillis>) {
        let (number, kept) = (usize::from(namespace.0), &self.kept);
        // The flush that it waits behind first: with another one it is done.
        kept.flush_behind[number].store(kept.flushed[number].load(SeqCst), SeqCst);
        kept.flush_at_ms[number].store(at.map_or(0, |at| at.0), SeqCst);
    }

    /// Returns the flush that was to come when the process before ended, if it was not done since.
    pub fn kept_flush_at(&self, namespace: Namespace) -> Option<UnixMillis> {
        let (number, kept) = (usize::from(namespace.0), &self.kept);
        let at = UnixMillis(kept.flush_at_ms[number].load(SeqCst));
        let waits = kept.flush_behind[number].load(SeqCst) == kept.flushed[number].load(SeqCst);
        (at.0 > 0 && waits).then_some(at)
    }

    /// Opens a data thread's handle of the store.
    ///
    /// # Errors
    /// When `lanes_max` lanes were opened already: lanes are for the life of their threads, and not reused.
    pub fn lane(self: &Arc<Self>) -> Result<Lane, LaneError> {
        let lanes_max = self.geometry.lanes_max;
        let id = self.lanes_opened.fetch_add(1, Relaxed);
        if id < lanes_max { Ok(Lane::new(Arc::clone(self), id)) } else { Err(LaneError { lanes_max }) }
    }

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

    /// Ends every item of the namespace that is there now, for a caller without a turn: it waits for a slice of the
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
}

/// Returns a value behind the byte that says of what type it is.
fn typed(bytes: &[u8]) -> Value<'_> {
    bytes.split_first().map_or(Value::Bytes(bytes), |(kind, bytes)| Value::Typed { kind: *kind, bytes })
}

/// Returns address space for a store of these sizes.
fn reserve(config: &StoreConfig) -> Result<(Geometry, Ground), StartError> {
    let geometry = Geometry::of(config)?;
    let count = geometry.segments_for(config.memory_bytes, geometry.groups_start);
    let ground = Ground::private(&geometry, count, config.huge_pages).map_err(StartError::Map)?;
    Ok((geometry, ground))
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

/// The index grows when more than this part of its slots, in percent, hold items.
const LOAD_MAX_PERCENT: usize = 88;
/// Percent of the index's slots in use at which it grows while the memory is filling.
const LOAD_FILLING_PERCENT: usize = 75;
/// Bits of a CAS token that hold the offset: a segment of 1 MiB in units of 4 bytes.
pub(crate) const TOKEN_OFFSET_BITS: u32 = 18;
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
