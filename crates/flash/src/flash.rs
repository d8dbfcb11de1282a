//! The tier itself: what the store asks of it, and the work that waits for its threads.
//!
//! ```text
//!   ask ──> reads ──┐                               ┌──> done, a queue for each lane ──> collect
//!   offer ──> log ──┼──> Flash::work, on any thread ┤
//!   reclaim ──> job ┘                               └──> the job's chunk
//! ```
//!
//! All that waits for a device happens in [`Flash::work`], a piece of work at a time. With threads
//! ([`crate::Flash::spawn`]) they call it; a test calls it itself, and chooses the order.
//!
//! Locks, none of which is held while a device is at work: the job's before the log's; all others alone.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use base::clock::UnixMillis;
use segment::{FlashAddress, Found, Tier, TierItem, TierRead, Visit};

use crate::aligned::{ALIGN, Aligned};
use crate::device::Device;
use crate::entry::{self, ENTRY_BYTES_MAX, Search};
use crate::log::{Log, OPEN_MAX, Refused};
use crate::reclaim::Job;
use crate::regions::{Regions, Sizes};

/// Reads of one lane that are under way or not fetched.
const READS_A_LANE: usize = 64;

/// A device that failed and is not used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What it is called.
    pub device: String,
    /// What it did.
    pub why: String,
}

/// Called when a device is lost, on the thread that found it out.
pub type OnLost = Box<dyn Fn(&Lost) + Send + Sync>;

/// Called when there is something for a lane, or for the background.
pub type Wake = Box<dyn Fn(Option<usize>) + Send + Sync>;

/// How a tier is made.
pub struct FlashConfig {
    /// The devices.
    pub devices: Vec<Box<dyn Device>>,
    /// How they are cut.
    pub sizes: Sizes,
    /// Lanes of the store.
    pub lanes: usize,
    /// Seeds checksums, so that what another process wrote is not taken for items.
    pub secret: u64,
    /// Is told of devices that fail.
    pub on_lost: OnLost,
}

impl std::fmt::Debug for FlashConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlashConfig")
            .field("devices", &self.devices)
            .field("sizes", &self.sizes)
            .finish_non_exhaustive()
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* }

        /// What a tier has done since the start.
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
    /// Devices that failed.
    devices_lost,
}

/// A device's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCounts {
    /// What it is called.
    pub name: String,
    /// What is used of it, in bytes.
    pub bytes: u64,
    /// It has failed.
    pub lost: bool,
}

/// What waits for a thread.
pub(crate) enum Work {
    Read(TierRead),
    /// The job wants its next chunk.
    Chunk,
}

/// Reads of one lane that have ended.
#[derive(Debug, Default)]
struct Done {
    reads: Mutex<VecDeque<TierRead>>,
    count: AtomicUsize,
}

/// The second tier. See the module `flash`.
pub struct Flash {
    pub(crate) regions: Regions,
    pub(crate) log: Mutex<Log>,
    pub(crate) job: Mutex<Option<Job>>,
    pub(crate) counters: Counters,
    work: Mutex<VecDeque<Work>>,
    wakes: Condvar,
    writes: Condvar,
    done: Box<[Done]>,
    wake: OnceLock<Wake>,
    on_lost: OnLost,
    pub(crate) stopped: AtomicBool,
    threads: usize,
}

impl std::fmt::Debug for Flash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flash").field("regions", &self.regions.count()).finish_non_exhaustive()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread reads into: no item, and no more than a chunk, is read at once.
#[derive(Debug)]
pub struct Scratch(pub(crate) Aligned);

impl Scratch {
    fn new(sizes: Sizes) -> Self {
        Self(Aligned::new(sizes.chunk_bytes.max(ENTRY_BYTES_MAX) + 2 * ALIGN))
    }
}

impl Flash {
    /// Threads that read at once; one more writes.
    pub const READERS: usize = 8;

    /// A tier on these devices, all of whose regions are free.
    pub fn new(config: FlashConfig) -> Arc<Self> {
        let FlashConfig { devices, sizes, lanes, secret, on_lost } = config;
        let regions = Regions::new(devices, sizes, secret);
        let reads = lanes * READS_A_LANE;
        Arc::new(Self {
            log: Mutex::new(Log::new(&regions)),
            job: Mutex::new(None),
            counters: Counters::default(),
            work: Mutex::new(VecDeque::with_capacity(reads + 1)),
            wakes: Condvar::new(),
            writes: Condvar::new(),
            done: (0..lanes)
                .map(|_| Done { reads: Mutex::new(VecDeque::with_capacity(READS_A_LANE)), ..Done::default() })
                .collect(),
            wake: OnceLock::new(),
            on_lost,
            stopped: AtomicBool::new(false),
            threads: Self::READERS + 1,
            regions,
        })
    }

    /// Has `wake` called with a lane's number when there is something to collect for it, and with none when there are
    /// items for [`Tier::reclaim`] to show. The first one who asks for that is called.
    pub fn wake_by(&self, wake: Wake) {
        let _ = self.wake.set(wake);
    }

    pub(crate) fn wake(&self, lane: Option<usize>) {
        if let Some(wake) = self.wake.get() {
            wake(lane);
        }
    }

    /// The figures.
    pub fn counts(&self) -> FlashCounts {
        self.counters.read()
    }

    /// The devices.
    pub fn devices(&self) -> Vec<DeviceCounts> {
        let region_bytes = self.regions.sizes.region_bytes as u64;
        let of = |part: &crate::regions::Part| DeviceCounts {
            name: part.device.name(),
            bytes: part.regions().len() as u64 * region_bytes,
            lost: part.is_lost(),
        };
        self.regions.parts.iter().map(of).collect()
    }

    /// Regions that are free, and all.
    pub fn regions(&self) -> (usize, usize) {
        (lock(&self.log).free_count(), self.regions.count())
    }

    /// The memory that it takes beside the store's, in bytes, but for what lanes read into.
    pub fn memory_bytes(&self) -> u64 {
        let scratch = self.threads * (self.regions.sizes.chunk_bytes.max(ENTRY_BYTES_MAX) + 3 * ALIGN);
        let reads = self.done.len() * READS_A_LANE * size_of::<TierRead>() * 2;
        let job = self.regions.sizes.chunk_bytes;
        (Log::memory_bytes(&self.regions) + self.regions.memory_bytes() + scratch + reads + job) as u64
    }

    /// What a thread needs to work.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(self.regions.sizes)
    }

    /// Work that waits: reads and chunks of the job, and chunks to be written.
    pub fn waiting(&self) -> (usize, usize) {
        (lock(&self.work).len(), lock(&self.log).writes_waiting())
    }

    /// Does what has waited longest of reads; false if nothing waits.
    pub fn work(&self, scratch: &mut Scratch) -> bool {
        let work = lock(&self.work).pop_front();
        self.do_work(work, scratch)
    }

    /// The same for the one at `place` of those that wait: a device ends reads in any order.
    pub fn work_at(&self, place: usize, scratch: &mut Scratch) -> bool {
        let work = lock(&self.work).remove(place);
        self.do_work(work, scratch)
    }

    fn do_work(&self, work: Option<Work>, scratch: &mut Scratch) -> bool {
        match work {
            None => false,
            Some(Work::Read(read)) => {
                self.read(read, scratch);
                true
            }
            Some(Work::Chunk) => {
                self.read_chunk(scratch);
                true
            }
        }
    }

    /// Writes the chunk that has waited longest; false if none waits, or one is being written.
    pub fn write(&self) -> bool {
        let Some(write) = lock(&self.log).take_write() else { return false };
        let (part, at) = self.regions.place(write.region);
        let bytes = write.bytes.bytes();
        let written =
            !part.is_lost() && self.device_did(part, "a write", part.device.write(bytes, at + write.from as u64));
        if written {
            self.counters.writes.fetch_add(1, Relaxed);
            self.counters.written_bytes.fetch_add(bytes.len() as u64, Relaxed);
        }
        lock(&self.log).end_write(&self.regions, write, written);
        true
    }

    /// Takes a device out where what it did went wrong.
    pub(crate) fn device_did<T>(&self, part: &crate::regions::Part, what: &str, did: std::io::Result<T>) -> bool {
        let Err(error) = did else { return true };
        if part.lose() {
            self.counters.devices_lost.fetch_add(1, Relaxed);
            lock(&self.log).lose(part.regions());
            (self.on_lost)(&Lost { device: part.device.name(), why: format!("{what} failed: {error}") });
        }
        false
    }

    pub(crate) fn push_work(&self, work: Work) {
        lock(&self.work).push_back(work);
        self.wakes.notify_one();
    }

    /// Waits for work, until `stopped`.
    pub(crate) fn wait_for_work(&self) {
        let work = lock(&self.work);
        if work.is_empty() && !self.stopped.load(Relaxed) {
            // Who is woken looks at the queue himself; a stop wakes all.
            drop(self.wakes.wait(work).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Waits for a chunk to be written, until `stopped`.
    pub(crate) fn wait_for_writes(&self) {
        let log = lock(&self.log);
        if log.writes_waiting() == 0 && !self.stopped.load(Relaxed) {
            drop(self.writes.wait(log).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// All threads look at what there is for them.
    pub(crate) fn wake_all(&self) {
        drop(lock(&self.work));
        self.wakes.notify_all();
        drop(lock(&self.log));
        self.writes.notify_all();
    }

    /// Reads, verifies and gives to its lane.
    fn read(&self, mut read: TierRead, scratch: &mut Scratch) {
        read.found = self.find(read.at, read.hash, &mut read.buffer, scratch);
        let lane = read.lane;
        let done = &self.done[lane];
        lock(&done.reads).push_back(read);
        done.count.fetch_add(1, std::sync::atomic::Ordering::Release);
        self.wake(Some(lane));
    }

    fn find(&self, at: FlashAddress, hash: u64, buffer: &mut Vec<u8>, scratch: &mut Scratch) -> Found {
        let region = self.regions.at(at.region());
        if at.generation() != region.generation() {
            return Found::Failed;
        }
        let (seed, chunk_bytes) = (self.regions.seed(at.region()), self.regions.sizes.chunk_bytes);
        let from = usize::from(at.block()) * FlashAddress::BLOCK_BYTES;
        let most = chunk_bytes - from % chunk_bytes;
        let mut bytes = (usize::from(at.blocks()) * FlashAddress::BLOCK_BYTES).min(most);
        loop {
            if !self.fetch(at.region(), from, bytes, buffer, scratch) {
                return Found::Failed;
            }
            match entry::search(buffer, from, hash, seed) {
                Search::Item(parts) => return Found::Item(Box::new(parts)),
                Search::Other => return Found::Other,
                Search::More(more) if more > bytes && more <= most => bytes = more,
                Search::More(_) | Search::Broken => return Found::Failed,
            }
        }
    }

    /// Reads a part of a chunk from where it is; false if it cannot be read.
    fn fetch(&self, region: u32, from: usize, bytes: usize, into: &mut Vec<u8>, scratch: &mut Scratch) -> bool {
        let on_device = || self.regions.at(region).written() >= from + bytes;
        if !on_device() {
            if lock(&self.log).copy(region, from, into, bytes) {
                self.counters.reads_in_memory.fetch_add(1, Relaxed);
                return true;
            }
            // It was written between the two looks, or its device was lost.
            if !on_device() {
                return false;
            }
        }
        self.read_device(region, from, bytes, scratch).is_some_and(|read| {
            self.counters.read_bytes.fetch_add(read.len() as u64, Relaxed);
            into.clear();
            into.extend_from_slice(read);
            true
        })
    }

    /// Reads a part of a region from its device, with the whole blocks around it.
    pub(crate) fn read_device<'s>(
        &self,
        region: u32,
        from: usize,
        bytes: usize,
        scratch: &'s mut Scratch,
    ) -> Option<&'s [u8]> {
        let (part, at) = self.regions.place(region);
        if part.is_lost() {
            return None;
        }
        let block = part.device.block_bytes();
        let begin = from / block * block;
        let end = (from + bytes).next_multiple_of(block);
        let into = &mut scratch.0.bytes_mut()[..end - begin];
        let did = part.device.read(into, at + begin as u64);
        self.device_did(part, "a read", did).then(|| &scratch.0.bytes()[from - begin..from - begin + bytes])
    }

    /// Free regions that there should be at least, so that eviction finds one.
    pub(crate) fn free_low(&self) -> usize {
        (OPEN_MAX + 1).max(self.regions.count() / 50).min(self.regions.count() / 3)
    }
}

impl Tier for Flash {
    fn offer(&self, item: &TierItem<'_>) -> Option<FlashAddress> {
        let taken = lock(&self.log).append(&self.regions, item);
        match taken {
            Ok((at, fills)) => {
                self.counters.item_bytes.fetch_add(entry::entry_bytes(item) as u64, Relaxed);
                if fills {
                    self.writes.notify_one();
                }
                Some(at)
            }
            Err(refused) => {
                let counter = match refused {
                    Refused::TooLong => &self.counters.refused_too_long,
                    Refused::NoRegion => &self.counters.refused_no_region,
                    Refused::NoChunk => &self.counters.refused_busy,
                };
                counter.fetch_add(1, Relaxed);
                None
            }
        }
    }

    fn release(&self, at: FlashAddress) {
        self.regions.at(at.region()).release(at);
    }

    fn ask(&self, read: TierRead) -> Result<(), TierRead> {
        let mut work = lock(&self.work);
        if work.len() == work.capacity() {
            return Err(read);
        }
        self.counters.reads.fetch_add(1, Relaxed);
        work.push_back(Work::Read(read));
        drop(work);
        self.wakes.notify_one();
        Ok(())
    }

    fn collect(&self, lane: usize) -> Option<TierRead> {
        let done = &self.done[lane];
        if done.count.load(std::sync::atomic::Ordering::Acquire) == 0 {
            return None;
        }
        let read = lock(&done.reads).pop_front();
        done.count.fetch_sub(usize::from(read.is_some()), Relaxed);
        read
    }

    fn reclaim(&self, now: UnixMillis, visit: &mut Visit<'_>) -> bool {
        self.reclaim_some(now, visit)
    }
}
