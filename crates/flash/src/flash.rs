//! The tier itself: the operations that the store calls, and the work for the tier's threads.
//!
//! ```text
//!   ask ──> reads ──┐                               ┌──> done, a queue for each handle ──> collect
//!   offer ──> log ──┼──> Flash::work, on any thread ┤
//!   reclaim ──> job ┘                               └──> the job's chunk
//!   find ──> finder        only if the index is not in the memory file
//! ```
//!
//! All waits for a device happen in [`Flash::work`] and [`Flash::write`], one piece of work at a time. The threads of
//! [`crate::Flash::spawn`] call them. A test calls them directly and chooses the order.
//!
//! No lock is held during a device operation. Lock order: the job, then the log, then the finder. All other locks are
//! taken alone.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use base::clock::UnixMillis;
use base::prng::Prng;
use segment::{FlashAddress, Found, ReadBy, Tier, TierFind, TierFound, TierItem, TierRead, TierRoom, TierShow, Visit};

use crate::aligned::ALIGN;
use crate::begin::StartedFlash;
use crate::budget::Budget;
use crate::counts::{Counters, DeviceCounts, FlashCounts};
use crate::device::Device;
use crate::entry;
use crate::found::Finder;
use crate::log::{CHUNKS, Log, OPEN_MAX, Refused};
use crate::marks::Marks;
use crate::queues::{DeviceQueue, Flight, Scratch, Work};
use crate::reclaim::Job;
use crate::regions::{Regions, Sizes};
use crate::ring::{HandleReads, Unasked};
use crate::table::{Table, words_for};

/// Maximum number of a handle's reads that are in flight or not yet collected.
const READS_PER_HANDLE: usize = 64;

/// A device that failed and is no longer used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Name of the device.
    pub device: String,
    /// Cause of the failure.
    pub why: String,
}

/// Callback for a lost device. It runs on the thread that detected the failure.
pub type OnLost = Box<dyn Fn(&Lost) + Send + Sync>;

/// Callback that runs when a handle can collect reads (its number), or when the background has work (`None`).
pub type Wake = Box<dyn Fn(Option<usize>) + Send + Sync>;

/// Configuration of a tier.
pub struct FlashConfig {
    /// The devices.
    pub devices: Vec<Box<dyn Device>>,
    /// Sizes of the regions and chunks into which the devices are divided.
    pub sizes: Sizes,
    /// Number of per-thread handles of the store.
    pub handles: usize,
    /// Memory for the tier's state, of the size that [`Sizes::plan`] returns.
    pub room: TierRoom,
    /// Seed for the numbers of devices and the salts of checksums. The seed must differ in each process. Otherwise data
    /// of an earlier process could pass for an item of this process.
    pub seed: u64,
    /// Maximum number of bytes that all devices together may write per day; 0 for no limit.
    pub writes_a_day_bytes: u64,
    /// Called when a device fails.
    pub on_lost: OnLost,
    /// If true, the tier only reads existing data: it accepts no items and frees no regions.
    pub is_view: bool,
}

impl std::fmt::Debug for FlashConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlashConfig")
            .field("devices", &self.devices)
            .field("sizes", &self.sizes)
            .finish_non_exhaustive()
    }
}

/// Completed reads of one handle.
#[derive(Debug, Default)]
struct Done {
    reads: Mutex<VecDeque<TierRead>>,
    count: AtomicUsize,
}

/// The second storage tier. See the module `flash`.
pub struct Flash {
    pub(crate) regions: Regions,
    pub(crate) log: Mutex<Log>,
    pub(crate) job: Mutex<Option<Job>>,
    pub(crate) finder: Mutex<Finder>,
    /// True until all items of an earlier process are found.
    pub(crate) finds: AtomicBool,
    pub(crate) counters: Counters,
    /// The work queues, one for each device.
    pub(crate) queues: Box<[DeviceQueue]>,
    /// Time of the last background slice, in ms since 1970.
    now_ms: AtomicU64,
    /// Time of the last check for devices that do not answer.
    watched_ms: AtomicU64,
    /// Time of the first check after this process was stopped for a while.
    resumed_ms: AtomicU64,
    writes: Condvar,
    /// The reads that each handle's thread has submitted itself.
    pub(crate) handles: Box<[HandleReads]>,
    done: Box<[Done]>,
    wake: OnceLock<Wake>,
    on_lost: OnLost,
    /// The state in which each device was found at start.
    begun: Vec<StartedFlash>,
    is_view: bool,
    pub(crate) stopped: AtomicBool,
}

impl std::fmt::Debug for Flash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flash").field("regions", &self.regions.count()).finish_non_exhaustive()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time limit for one request to a device, in milliseconds. Even a busy device answers much sooner. The kernel's own
/// time limits are longer.
const SLOW_MS: u64 = 10_000;
/// Minimum time between two checks for slow devices, in milliseconds.
const WATCH_MS: u64 = 500;

impl Flash {
    /// Returns the number of reading threads per device if there are `devices` devices. Each device also has one
    /// writing thread.
    pub fn readers(devices: usize) -> usize {
        if devices == 1 { 8 } else { 4 }
    }

    /// Creates a tier on these devices. The tier continues from the state in the room, or is empty if the room has
    /// none. A device whose first request fails is lost.
    pub fn new(config: FlashConfig) -> Arc<Self> {
        let FlashConfig { devices, sizes, handles, mut room, seed, writes_a_day_bytes, on_lost, is_view } = config;
        let (chunks, mut random) = (room.take_chunks(), Prng::new(seed));
        let device_bytes: Vec<u64> = devices.iter().map(|device| device.bytes()).collect();
        let marks = room.finds().then(|| Marks::of(sizes.regions(&device_bytes) as usize, sizes));
        let table = Table { room, marks };
        let left = table.is_found().then(|| table.budget_left());
        let budget = Budget::new(writes_a_day_bytes, left);
        let (regions, begun) = Regions::new(devices, sizes, table, &mut random, is_view);
        let reads = handles * READS_PER_HANDLE;
        let log = Log::new(&regions, chunks, random, budget);
        let finder = Finder::new(&regions, &log);
        let flash = Arc::new(Self {
            log: Mutex::new(log),
            job: Mutex::new(None),
            finds: AtomicBool::new(!finder.is_empty()),
            finder: Mutex::new(finder),
            counters: Counters::default(),
            queues: regions.parts.iter().map(|_| DeviceQueue::new(reads)).collect(),
            now_ms: AtomicU64::new(0),
            watched_ms: AtomicU64::new(0),
            resumed_ms: AtomicU64::new(0),
            writes: Condvar::new(),
            done: (0..handles)
                .map(|_| Done { reads: Mutex::new(VecDeque::with_capacity(READS_PER_HANDLE)), ..Done::default() })
                .collect(),
            handles: (0..handles).map(|_| HandleReads::default()).collect(),
            wake: OnceLock::new(),
            on_lost,
            is_view,
            stopped: AtomicBool::new(false),
            regions,
            begun,
        });
        for (part, begun) in flash.regions.parts.iter().zip(&flash.begun) {
            if let Some(why) = begun.failure() {
                flash.lose(part, why);
            }
        }
        flash
    }

    /// Returns the names of the devices that were replaced, or that another process has used. Their earlier contents
    /// are lost.
    pub fn exchanged(&self) -> Vec<String> {
        let all = self.regions.parts.iter().zip(&self.begun);
        all.filter(|(_, begun)| **begun == StartedFlash::Exchanged).map(|(part, _)| part.device.name()).collect()
    }

    /// Returns the names of devices whose contents are not those that an earlier process left, or that cannot be read.
    pub fn strangers(&self) -> Vec<String> {
        let all = self.regions.parts.iter().zip(&self.begun);
        all.filter(|(_, begun)| **begun != StartedFlash::Known).map(|(part, _)| part.device.name()).collect()
    }

    /// Sets the callback for ready work. The callback receives a handle's number if that handle can collect reads, and
    /// `None` if [`Tier::reclaim`] can show items. Only the first call of this function has an effect.
    pub fn wake_by(&self, wake: Wake) {
        let _ = self.wake.set(wake);
    }

    pub(crate) fn wake(&self, handle: Option<usize>) {
        if let Some(wake) = self.wake.get() {
            wake(handle);
        }
    }

    /// Returns the counters.
    pub fn counts(&self) -> FlashCounts {
        self.counters.read()
    }

    /// Returns the figures of each device.
    pub fn devices(&self) -> Vec<DeviceCounts> {
        let region_bytes = self.regions.sizes.region_bytes as u64;
        let of = |part: &crate::regions::Part| DeviceCounts {
            name: part.device.name(),
            bytes: part.regions().len() as u64 * region_bytes,
            lost: part.is_lost(),
        };
        self.regions.parts.iter().map(of).collect()
    }

    /// Returns the number of free regions, and of all regions.
    pub fn regions(&self) -> (usize, usize) {
        (lock(&self.log).free_count(), self.regions.count())
    }

    /// Returns the memory that the tier uses in addition to the store's, in bytes. The buffers that handles pass with
    /// their reads are not included.
    pub fn memory_bytes(&self) -> u64 {
        let devices = self.queues.len();
        let threads = devices * (Self::readers(devices) + 1);
        let scratch = threads * (Scratch::bytes_for(self.regions.sizes) + ALIGN);
        let reads = self.done.len() * READS_PER_HANDLE;
        let queues = devices * DeviceQueue::memory_bytes(reads) + reads * size_of::<TierRead>();
        let rings = self.handles.iter().map(HandleReads::memory_bytes).sum::<usize>();
        let chunks = (CHUNKS + 1) * self.regions.sizes.chunk_bytes;
        let marks = self.regions.table.marks.map(|marks| marks.end(self.regions.count()));
        let words = marks.unwrap_or(words_for(self.regions.count())) * size_of::<u64>();
        (Log::memory_bytes(&self.regions) + words + scratch + queues + rings + chunks) as u64
    }

    /// Returns a read buffer and request state for a thread that serves no particular device.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(self.regions.sizes)
    }

    /// Returns a read buffer and request state for a thread of a device. The device's queue also refers to that state,
    /// to detect slow requests.
    pub(crate) fn scratch_of(&self, device: usize) -> Scratch {
        let scratch = self.scratch();
        lock(&self.queues[device].flights).push(Arc::clone(&scratch.flight));
        scratch
    }

    /// Returns the number of waiting requests for reading threads, and the number of chunks that wait to be written.
    pub fn waiting(&self) -> (usize, usize) {
        let work = self.queues.iter().map(|queue| lock(&queue.work).len());
        (work.sum(), lock(&self.log).writes_waiting())
    }

    /// Does the oldest waiting work of the first device that has any. Returns false if no device has work.
    pub fn work(&self, scratch: &mut Scratch) -> bool {
        (0..self.queues.len()).any(|device| self.work_at(device, 0, scratch))
    }

    /// Does the work at position `place` of a device's queue. A test can thus complete reads in any order. Returns
    /// false if that position holds no work.
    pub fn work_at(&self, device: usize, place: usize, scratch: &mut Scratch) -> bool {
        let work = lock(&self.queues[device].work).remove(place);
        match work {
            None => return false,
            Some(Work::Read(read)) => self.read(read, scratch),
            Some(Work::Chunk) => self.read_chunk(scratch),
            Some(Work::Free(region)) => self.free(region, scratch),
            Some(Work::Footer(region, from)) => self.read_footer(region, from, scratch),
        }
        true
    }

    /// Writes the oldest waiting chunk of the first device that is not writing already. Returns false if no chunk could
    /// be written.
    pub fn write(&self, scratch: &mut Scratch) -> bool {
        (0..self.queues.len()).any(|device| self.write_to(device, scratch))
    }

    pub(crate) fn write_to(&self, device: usize, scratch: &mut Scratch) -> bool {
        let part = &self.regions.parts[device];
        let Some(write) = lock(&self.log).take_write(device, part.regions()) else { return false };
        let (_, at) = self.regions.place(write.region);
        let bytes = write.bytes.bytes();
        self.take_off(scratch, None);
        let written =
            !part.is_lost() && self.device_did(part, "a write", part.device.write(bytes, at + write.from as u64));
        self.land(scratch);
        if written {
            self.counters.writes.fetch_add(1, Relaxed);
            self.counters.written_bytes.fetch_add(bytes.len() as u64, Relaxed);
        }
        lock(&self.log).end_write(&self.regions, write, written);
        true
    }

    /// Records that a thread starts a request to a device.
    pub(crate) fn take_off(&self, scratch: &Scratch, read: Option<&TierRead>) {
        let read = read.map(|read| (read.handle, read.hash, read.at));
        *lock(&scratch.flight) = Flight::Out { since_ms: self.now_ms(), read };
    }

    /// Records that the device has answered a thread's request. Returns false if the request was given up before.
    pub(crate) fn land(&self, scratch: &Scratch) -> bool {
        std::mem::take(&mut *lock(&scratch.flight)) != Flight::GivenUp
    }

    /// Takes devices that have not answered for [`SLOW_MS`] out of use, and fails the requests that wait for them.
    fn watch(&self, now: UnixMillis) {
        self.now_ms.store(now.0, Relaxed);
        let watched_ms = self.watched_ms.load(Relaxed);
        if now.0 < watched_ms + WATCH_MS {
            return;
        }
        self.watched_ms.store(now.0, Relaxed);
        if now.0 > watched_ms + SLOW_MS / 2 {
            // This process itself was stopped for a while, so the age of a request does not prove that its device is
            // slow.
            self.resumed_ms.store(now.0, Relaxed);
        }
        self.handles.iter().for_each(|handle| handle.fail_slow_reads(self));
        let mut scratch = None;
        for (device, (part, queue)) in self.regions.parts.iter().zip(&self.queues).enumerate() {
            let given_up = queue.fail_slow_reads(self.slow_before_ms());
            if !given_up.is_empty() {
                self.lose_slow(part);
            }
            for (handle, hash, at) in given_up.into_iter().flatten() {
                let by = ReadBy::Key;
                self.done(TierRead { handle, hash, by, at, buffer: Vec::new(), found: Found::Failed });
            }
            // All threads of the device may still wait for an answer, so the device's queued work fails here.
            while part.is_lost() && self.work_at(device, 0, scratch.get_or_insert_with(|| self.scratch())) {}
        }
    }

    /// Takes the device out of use if its operation failed. Returns whether the operation succeeded.
    pub(crate) fn device_did<T>(&self, part: &crate::regions::Part, what: &str, did: std::io::Result<T>) -> bool {
        let Err(error) = did else { return true };
        self.lose(part, format!("{what} failed: {error}"));
        false
    }

    pub(crate) fn lose_slow(&self, part: &crate::regions::Part) {
        self.lose(part, format!("no response for {} s", SLOW_MS / 1000));
    }

    /// Returns a time in ms since 1970: an unanswered request that started earlier counts as slow. Returns 0 if this
    /// process was stopped recently, so that no request counts as slow.
    pub(crate) fn slow_before_ms(&self) -> u64 {
        let before = self.now_ms().saturating_sub(SLOW_MS);
        if self.resumed_ms.load(Relaxed) > before { 0 } else { before }
    }

    /// Returns the time of the last background slice, in ms since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.load(Relaxed)
    }

    fn lose(&self, part: &crate::regions::Part, why: String) {
        if part.lose() {
            self.counters.devices_lost.fetch_add(1, Relaxed);
            lock(&self.log).lose(&self.regions, part.regions());
            lock(&self.finder).lose(&self.regions, part.regions());
            (self.on_lost)(&Lost { device: part.device.name(), why });
        }
    }

    /// Queues work for the threads of the region's device.
    pub(crate) fn push_work(&self, region: u32, work: Work) {
        self.queues[self.regions.device_of(region)].push(work);
    }

    /// Waits until the device has work, or until the tier is stopped.
    pub(crate) fn wait_for_work(&self, device: usize) {
        let queue = &self.queues[device];
        let work = lock(&queue.work);
        if work.is_empty() && !self.stopped.load(Relaxed) {
            // A woken thread checks the queue itself. A stop wakes all threads.
            drop(queue.wakes.wait(work).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Waits until the device has a chunk to write, or until the tier is stopped.
    pub(crate) fn wait_for_writes(&self, device: usize) {
        let log = lock(&self.log);
        let waits = log.write_waits(device, &self.regions.parts[device].regions());
        if !waits && !self.stopped.load(Relaxed) {
            drop(self.writes.wait(log).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Wakes all threads, so that they check for work.
    pub(crate) fn wake_all(&self) {
        self.queues.iter().for_each(DeviceQueue::wake_all);
        drop(lock(&self.log));
        self.writes.notify_all();
    }

    /// Reads and verifies an item, and passes the result to its handle.
    fn read(&self, mut read: TierRead, scratch: &mut Scratch) {
        self.take_off(scratch, Some(&read));
        read.found = self.find(&mut read, scratch);
        if self.land(scratch) {
            self.done(read);
        }
    }

    /// Completes a read and wakes its handle. For a handle that will collect results anyway, [`Self::complete`]
    /// suffices.
    pub(crate) fn done(&self, read: TierRead) {
        let handle = read.handle;
        self.complete(read);
        self.wake(Some(handle));
    }

    pub(crate) fn complete(&self, read: TierRead) {
        let done = &self.done[read.handle];
        lock(&done.reads).push_back(read);
        done.count.fetch_add(1, std::sync::atomic::Ordering::Release);
    }

    /// Returns the number of free regions below which a region is reclaimed, so that eviction finds a free region.
    pub(crate) fn free_low(&self) -> usize {
        (OPEN_MAX + 1).max(self.regions.count() / 50).min(self.regions.count() / 3)
    }
}

impl Tier for Flash {
    fn offer(&self, item: &TierItem<'_>) -> Option<FlashAddress> {
        if self.is_view {
            return None;
        }
        let taken = lock(&self.log).append(&self.regions, item);
        match taken {
            Ok((at, fills)) => {
                self.counters.item_bytes.fetch_add(entry::entry_bytes(item) as u64, Relaxed);
                if fills {
                    self.writes.notify_all();
                }
                Some(at)
            }
            Err(refused) => {
                let counter = match refused {
                    Refused::TooLong => &self.counters.refused_too_long,
                    Refused::NoRegion => &self.counters.refused_no_region,
                    Refused::NoChunk => &self.counters.refused_busy,
                    Refused::Budget => &self.counters.refused_budget,
                    Refused::Unread => &self.counters.refused_unread,
                };
                counter.fetch_add(1, Relaxed);
                None
            }
        }
    }

    fn release(&self, at: FlashAddress) {
        if self.may_name(at) {
            self.regions.at(at.region()).release(at);
        }
    }

    fn ask(&self, read: TierRead) -> Result<(), TierRead> {
        if !self.may_name(read.at) {
            // The address comes from a damaged memory file, or from an earlier life of the region.
            self.done(TierRead { found: Found::Failed, ..read });
            return Ok(());
        }
        match self.handles[read.handle].ask(self, read) {
            Ok(()) => {}
            Err(Unasked::NoRing(read)) => self.queues[self.regions.device_of(read.at.region())].push_read(read)?,
            Err(Unasked::Later(read)) => return Err(read),
        }
        self.counters.reads.fetch_add(1, Relaxed);
        Ok(())
    }

    fn collect(&self, handle: usize) -> Option<TierRead> {
        self.handles[handle].collect(self);
        let done = &self.done[handle];
        if done.count.load(std::sync::atomic::Ordering::Acquire) == 0 {
            return None;
        }
        let read = lock(&done.reads).pop_front();
        done.count.fetch_sub(usize::from(read.is_some()), Relaxed);
        read
    }

    fn found(&self) -> TierFound {
        let items = self.regions.all().filter(|(_, region)| region.sequence() != 0).map(|(_, region)| region.items());
        let items = items.fold(0u64, u64::saturating_add);
        TierFound { items, lost: self.begun.iter().any(|begun| begun.forgets() && *begun != StartedFlash::New) }
    }

    fn may_name(&self, at: FlashAddress) -> bool {
        // A damaged memory file can contain any address in a slot.
        let (region, first) = (at.region(), usize::from(at.block()) * FlashAddress::BLOCK_BYTES);
        let lies_within = (region as usize) < self.regions.count() && first < self.regions.sizes.region_bytes;
        lies_within && at.blocks() > 0 && self.regions.at(region).generation() == at.generation()
    }

    fn name(&self, at: FlashAddress) {
        if self.regions.has_footers() {
            lock(&self.log).name(at);
        }
    }

    fn kill(&self, at: FlashAddress, tag: u16) {
        // A mark for an address of another life of the region would mark a wrong item as dead.
        if self.may_name(at) {
            self.regions.table.set_mark(at, tag);
        }
    }

    fn change(&self, hash: u64) {
        if self.finds.load(Relaxed) {
            self.regions.table.add_tombstone(hash);
        }
    }

    fn is_gone(&self, hash: u64, at: FlashAddress, tag: u16) -> bool {
        let table = &self.regions.table;
        !self.may_name(at) || table.is_marked(at, tag) || table.has_tombstone(hash)
    }

    fn is_found(&self) -> bool {
        !self.finds.load(std::sync::atomic::Ordering::Acquire)
    }

    fn find(&self, show: &mut TierShow<'_>) -> TierFind {
        self.find_some(show)
    }

    fn sync(&self) {
        for part in self.regions.parts.iter().filter(|part| !self.is_view && !part.is_lost()) {
            self.device_did(part, "a sync", part.device.sync());
        }
    }

    fn reclaim(&self, now: UnixMillis, visit: &mut Visit<'_>) -> bool {
        if self.is_view {
            return false;
        }
        self.watch(now);
        lock(&self.log).refill(&self.regions, now);
        self.reclaim_some(now, visit)
    }
}
