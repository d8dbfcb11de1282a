//! Assembly of a store from the parts of the lower modules: creation, opening and closing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};

use arena::MapFile;
use base::clock::UnixMillis;

use crate::background::Background;
use crate::core::counters::Counters;
use crate::core::ended_keys::EndedKeys;
use crate::core::epoch::Epochs;
use crate::core::handle::{HandleError, ThreadHandle};
use crate::core::store::{BackgroundGauges, Store};
use crate::durable::checkpoint::{CheckpointStats, Checkpointer, Checkpoints};
use crate::durable::file::notes::{NoteFault, Notes};
use crate::durable::file::{Backing, FileFault, Held, IndexPlace, StoreFile};
use crate::durable::rebuild::latest::find_latest;
use crate::durable::rebuild::{REBUILDERS_MAX, Rebuild, RebuildProgress, Rebuilder};
use crate::durable::reopen::scattered::reopen_without_index;
use crate::durable::reopen::{Reopened, reopen, resume_clock};
use crate::durable::verify::{begin_verification, end_verification};
use crate::heap::back_pressure::Shortages;
use crate::heap::config::{Geometry, StartError, StoreConfig};
use crate::heap::memory::Memory;
use crate::heap::namespaces::Spaces;
use crate::heap::prefault::Ahead;
use crate::heap::samples::Samples;
use crate::heap::segments::Segments;
use crate::index::Index;
use crate::items::receive::InPlaceReceive;
use crate::items::write::delete::raise_flushed;
use crate::layout::key::{Hasher, Namespace};
use crate::layout::raw::{Mutex, Word64};
use crate::locks::key_locks::KeyLocks;
use crate::locks::words::LockTable;
use crate::tier::Tier;
use crate::tier::flash_keys::FlashKeys;
use crate::values::free_queue::FreeQueue;
use crate::values::orphans::Named;

impl Store {
    /// Creates a store of the given sizes, and the handle that does its background work. A thread has to call the
    /// handle's slices; otherwise no item is ever evicted.
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

    /// Opens or creates a store in a file. All changes that were acknowledged before the previous process ended are
    /// present again, even after a crash. The store takes its seed and its sizes from the file. Of the fields of
    /// `config`, only `memory_bytes` has to match the file. `memory_bytes_max` is ignored, because a file does not
    /// grow.
    ///
    /// # Errors
    /// If the sizes do not fit or the file is refused: see [`StartError`], above all [`StartError::File`]. A file that
    /// belongs to another store remains unchanged.
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
        ground: Backing,
        held: Option<Held>,
        tier: Option<(Arc<dyn Tier>, usize)>,
        now: UnixMillis,
    ) -> Result<(Arc<Self>, Background), StartError> {
        let regions = tier.as_ref().map_or(0, |(_, regions)| *regions);
        let Backing { kept, stripes, headers, buckets, heap, notes, undo, records } = ground;
        let segments = Segments::on(&geometry, heap, headers, kept.clone());
        let rebuilds_index = held.as_ref().is_some_and(|held| held.rebuilds_index);
        let index_in_dram = held.as_ref().is_some_and(|held| held.index() == IndexPlace::Dram);
        let rebuilders = if rebuilds_index { REBUILDERS_MAX } else { 0 };
        let records = records.filter(|_| held.as_ref().is_some_and(Held::has_checkpoints));
        let mut store = Self {
            memory: Memory::new(&geometry, config.memory_bytes),
            ahead: Ahead::default(),
            segments,
            index: Index::on(buckets, stripes, kept.clone()),
            epochs: Epochs::new(config.handles_max),
            key_locks: LockTable::new(),
            samples: Samples::new(config.handles_max),
            hasher: Hasher::new(config.hash_seed),
            sum_seed: crate::heap::checksums::seed(config.hash_seed),
            counters: (0..=config.handles_max + rebuilders).map(|_| Counters::default()).collect(),
            handles_opened: AtomicUsize::new(0),
            background_called: AtomicBool::new(false),
            flushed: std::array::from_fn(|namespace| Word64::new(kept.flushed[namespace].load(Relaxed))),
            settled: [const { Word64::new(0) }; Namespace::MAX],
            ended_keys: EndedKeys::new(),
            flash_keys: FlashKeys::new(regions).map_err(StartError::Map)?,
            deferred: FreeQueue::default(),
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
            marks_first: index_in_dram || rebuilds_index || records.is_some(),
            checkpoints: Checkpoints::new(records),
            unverified: AtomicBool::new(false),
            named: None,
            reopened_at: 0,
            closed: AtomicBool::new(false),
            held,
            persistent: kept,
            geometry,
        };
        store.take_over(now)?;
        let store = Arc::new(store);
        let background = Background::new(Arc::clone(&store));
        Ok((store, background))
    }

    /// Repairs the contents of the file.
    fn take_over(&mut self, now: UnixMillis) -> Result<(), StartError> {
        let Some(held) = &self.held else { return Ok(()) };
        let (mut reopened, mut rebuild) = (Reopened::default(), None);
        let fault = |fault| StartError::File { path: held.file.path().to_owned(), fault };
        let (opened, rebuilds_index) = (held.block.opened, held.rebuilds_index);
        (reopened.lost, reopened.lost_all) = (held.lost.is_some(), held.lost_all);
        let (now, behind_ms) = if held.left.is_some() { resume_clock(self, now) } else { (now, 0) };
        if let Some(left) = held.left {
            reopened = if rebuilds_index {
                let (reopened, begun) = reopen_without_index(self).map_err(fault)?;
                rebuild = Some(begun);
                reopened
            } else {
                reopen(self).map_err(fault)?
            };
            (reopened.clean, reopened.unsynced) = (left.clean, left.unsynced);
            reopened.flash_emptied = self.tier.is_some() && held.lost.is_some();
        } else if rebuilds_index {
            rebuild = Some(Rebuild::new(&self.segments, held.lost.is_some(), Vec::new(), u64::MAX, HashMap::new()));
        }
        (reopened.opened, reopened.at, reopened.clock_behind_ms) = (opened, now, behind_ms);
        if let Some(rebuild) = rebuild.as_ref().filter(|rebuild| rebuild.is_empty()) {
            rebuild.become_whole(self);
        }
        self.rebuild = rebuild;
        let later = find_latest(self, now);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.note_later(later);
        }
        if reopened.found && !reopened.clean {
            let heap_bytes = self.segments.high_water() * self.segments.segment_bytes();
            self.named = Some(Named::new(heap_bytes, self.persistent.objects.load(Relaxed)));
        }
        if reopened.found && !rebuilds_index {
            begin_verification(self);
        }
        self.reopened = Some(reopened);
        self.reopened_at = self.segments.next_sequence();
        self.ahead.begin_in_file(&self.segments, &self.index, self.rebuild.is_none());
        self.persistent.exact_tokens.store(1, Release);
        self.settle()
    }

    /// Records in the file that the repair of its contents is complete.
    fn settle(&mut self) -> Result<(), StartError> {
        if let (Some(notes), Some(record)) = (&self.notes, self.checkpoints.latest()) {
            notes.name_only(record.notes());
        }
        let Some(held) = &mut self.held else { return Ok(()) };
        let settled = held.settle();
        settled.map_err(|error| StartError::File { path: held.file.path().to_owned(), fault: FileFault::Io(error) })
    }

    /// Returns what the opening of the store's file found, or `None` if the store is not in a file.
    pub fn reopened(&self) -> Option<&Reopened> {
        self.reopened.as_ref()
    }

    /// Closes the store's file cleanly and returns the file for another store. This store no longer writes to the file.
    /// No thread may use the store any more. Returns `None` if the store is not in a file.
    pub fn leave(&self) -> Option<Arc<MapFile>> {
        self.close();
        self.held.as_ref().map(|held| Arc::clone(&held.file))
    }

    /// Copies the index for the next store that opens the file, so that the next store need not rebuild the index.
    /// Returns `None` if the index is in the file or is still being rebuilt, or if the store has flash. Callers call
    /// this function after [`Store::leave`].
    ///
    /// # Errors
    /// If there is not enough memory for the copy.
    pub fn leave_index(&self) -> std::io::Result<Option<Arc<MapFile>>> {
        let Some(held) = self.held.as_ref().filter(|held| held.index() == IndexPlace::Dram) else { return Ok(None) };
        if self.tier.is_some() || self.is_rebuilding() || !self.closed.load(SeqCst) {
            return Ok(None);
        }
        crate::durable::file::index_left::leave(&self.index, held).map(Some)
    }

    /// Returns the memory file, if the store is in one.
    pub fn file(&self) -> Option<&Arc<MapFile>> {
        self.held.as_ref().map(|held| &held.file)
    }

    /// Records in the file, once, that no thread accesses the file any more.
    fn close(&self) {
        if let Some(held) = &self.held
            && !self.closed.swap(true, SeqCst)
        {
            end_verification(self);
            if let Some(tier) = self.tier.as_ref().filter(|_| held.has_checkpoints()) {
                tier.sync();
            }
            let has_lost_changes = self.persistent.unsynced_before.load(Relaxed) != 0;
            held.close(UnixMillis(self.persistent.clock_ms.load(Relaxed)), has_lost_changes);
        }
    }

    /// Appends a metadata record that outlives the process. A store that is not in a file discards the record.
    ///
    /// # Errors
    /// If the metadata records cannot be changed: see [`NoteFault`]. The records are then unchanged.
    pub fn append_metadata(&self, note: &[u8]) -> Result<(), NoteFault> {
        self.notes.as_ref().map_or(Ok(()), |notes| notes.append(note))
    }

    /// Visits every metadata record, in order.
    pub fn each_note(&self, each: &mut dyn FnMut(&[u8])) {
        if let Some(notes) = &self.notes {
            notes.read(each);
        }
    }

    /// Replaces all metadata records.
    ///
    /// # Errors
    /// If the metadata records cannot be changed: see [`NoteFault`]. The records are then unchanged.
    pub fn rewrite_notes(&self, all: &[Vec<u8>]) -> Result<(), NoteFault> {
        self.notes.as_ref().map_or(Ok(()), |notes| notes.rewrite(all))
    }

    /// Returns true if the metadata records fill half of their space. The caller should then rewrite them with each
    /// fact only once.
    pub fn notes_are_long(&self) -> bool {
        self.notes.as_ref().is_some_and(Notes::are_long)
    }

    /// Replaces all metadata records by those that `make` builds from the present ones, in order. A caller that appends
    /// a record meanwhile waits.
    ///
    /// # Errors
    /// If the metadata records cannot be replaced: see [`NoteFault`]. The records are then unchanged.
    pub fn renew_notes(&self, make: impl Fn(&[Vec<u8>]) -> Vec<Vec<u8>>) -> Result<(), NoteFault> {
        let Some(notes) = &self.notes else { return Ok(()) };
        notes.renew(&mut |notes| {
            let mut all = Vec::new();
            notes.read(&mut |note| all.push(note.to_vec()));
            make(&all)
        })
    }

    /// Persists the instant of a pending flush. `None`: no flush is pending.
    pub fn persist_flush_at(&self, namespace: Namespace, at: Option<UnixMillis>) {
        let (number, kept) = (usize::from(namespace.0), &self.persistent);
        // Stores the current flush sequence first. If the namespace's sequence differs later, the pending flush was
        // carried out.
        kept.flush_behind[number].store(kept.flushed[number].load(SeqCst), SeqCst);
        kept.flush_at_ms[number].store(at.map_or(0, |at| at.0), SeqCst);
    }

    /// Returns the instant of the flush that was pending when the previous process ended, if it has not been done
    /// since.
    pub fn persisted_flush_at(&self, namespace: Namespace) -> Option<UnixMillis> {
        let (number, kept) = (usize::from(namespace.0), &self.persistent);
        let at = UnixMillis(kept.flush_at_ms[number].load(SeqCst));
        let waits = kept.flush_behind[number].load(SeqCst) == kept.flushed[number].load(SeqCst);
        (at.0 > 0 && waits).then_some(at)
    }

    /// Opens a data thread's handle of the store.
    ///
    /// # Errors
    /// If `handles_max` handles were opened already. A dropped handle cannot be replaced by a new one.
    pub fn handle(self: &Arc<Self>) -> Result<ThreadHandle, HandleError> {
        let handles_max = self.geometry.handles_max;
        let id = self.handles_opened.fetch_add(1, Relaxed);
        if id < handles_max { Ok(ThreadHandle::new(Arc::clone(self), id)) } else { Err(HandleError { handles_max }) }
    }
}

impl Store {
    /// Returns true if the file system refused space for the memory file since the last call of this function. Segments
    /// or the index are then smaller than configured.
    pub fn takes_short_of_space(&self) -> bool {
        crate::background::populator::takes_short_of_space(self)
    }

    /// Returns the handle that makes checkpoints, or `None` if the store is not in a file or was opened without
    /// checkpoints.
    pub fn checkpointer(self: &Arc<Self>) -> Option<Checkpointer> {
        crate::durable::checkpoint::checkpointer(self)
    }

    /// Returns statistics of checkpoints, or `None` if the store makes no checkpoints.
    pub fn checkpoint_stats(&self) -> Option<CheckpointStats> {
        crate::durable::checkpoint::checkpoint_stats(self)
    }

    /// Returns the progress of the rebuild, or `None` if the index is in the file or the store has no file.
    pub fn rebuild_progress(&self) -> Option<RebuildProgress> {
        crate::durable::rebuild::rebuild_progress(self)
    }

    /// Returns a rebuilder, which helps the background from a thread of its own. Returns `None` if there is nothing to
    /// rebuild, or if the maximum number of threads already helps.
    pub fn rebuilder(self: &Arc<Self>) -> Option<Rebuilder> {
        crate::durable::rebuild::rebuilder(self)
    }

    /// Records for the next process by how many milliseconds the wall clock is ahead of the store's clock.
    pub fn persist_wall_lead(&self, ahead_ms: i64) {
        crate::durable::reopen::persist_wall_lead(self, ahead_ms)
    }

    /// Returns the buffer for the bytes that an in-place receive is still to receive.
    pub fn room_of<'a>(&'a self, arriving: &'a mut InPlaceReceive) -> &'a mut [u8] {
        crate::items::receive::room_of(self, arriving)
    }

    /// Returns the bytes that an in-place receive has received so far.
    pub fn received_of<'a>(&'a self, arriving: &'a InPlaceReceive) -> &'a [u8] {
        crate::items::receive::received_of(self, arriving)
    }

    /// Returns an empty key lock set.
    pub fn key_locks(&self) -> KeyLocks {
        crate::locks::key_locks::key_locks(self)
    }

    /// Releases the words that a key lock set holds, even if it does not hold all of its words. Changes that were made
    /// under the set remain. Afterwards the set is empty and can be used again.
    pub fn release(&self, key_locks: &mut KeyLocks) {
        crate::locks::key_locks::release(self, key_locks)
    }

    /// Returns the number of key lock sets in flight.
    pub fn key_locks_in_flight(&self) -> u64 {
        crate::locks::key_locks::key_locks_in_flight(self)
    }

    /// Returns the number of groups of changes that were closed early because the undo log had no space for the
    /// previous states.
    pub fn groups_cut(&self) -> u64 {
        crate::locks::undo::groups_cut(self)
    }

    /// Counts the slots that name items on flash with a walk over all slots. Callers compare the result with the
    /// running count.
    pub fn flash_slots(&self) -> u64 {
        crate::tier::tiered::flash_slots(self)
    }
}

/// Reserves address space for a store of these sizes.
fn reserve(config: &StoreConfig) -> Result<(Geometry, Backing), StartError> {
    let geometry = Geometry::of(config)?;
    let count = geometry.segments_for(config.memory_bytes, geometry.groups_start);
    let ground = Backing::private(&geometry, count, config.huge_pages).map_err(StartError::Map)?;
    Ok((geometry, ground))
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store {
    /// Ends every present item of the namespace, for a caller without a guard. Waits for a slice of the background to
    /// end.
    pub fn flush(&self, namespace: Namespace) {
        let _gate = self.slice_gate.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        raise_flushed(self, namespace.0);
    }
}
