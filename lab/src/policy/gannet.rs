//! Runs accesses on the real store in one thread, with slices of background work between them.

use std::sync::Arc;

use base::clock::UnixMillis;
use segment::{Background, Expire, Namespace, OpError, Put, Store, StoreConfig, StoreStats, ThreadHandle, Value};

use super::streams::{Access, VALUE_BYTES_MAX};

/// Minimum number of segments of a memory: the number that a server with one or two gigabytes has. The size of a
/// segment is scaled with the memory.
const SEGMENTS_MIN: u64 = 256;
/// Minimum size of a segment, in bytes; the longest usual value of the streams fits into it as one piece.
const SEGMENT_BYTES_MIN: u64 = 4 << 10;
const SEGMENT_BYTES_MAX: u64 = 1 << 20;
/// The initial time of the store's clock.
pub(super) const START: UnixMillis = UnixMillis(1_700_000_000_000);
/// Length of a key in bytes.
pub(super) const KEY_BYTES: usize = 16;
/// Overhead of an item in bytes, as the store's fill test measured it: its share of the index, its header and its
/// padding.
const OVERHEAD_BYTES: u64 = 15;
/// Bytes that an expiry time adds to an item.
const EXPIRY_BYTES: u64 = 4;
/// Number of accesses between two background slices, for streams without lifetimes.
const SLICE_EVERY: usize = 32;
/// Maximum number of background slices between two accesses of a stream with lifetimes, whose accesses may be seconds
/// apart.
const SLICES_MAX: usize = 16;
/// Number of times that the store's counters are sampled during a stream.
const SAMPLES: usize = 512;

/// Returns the cost of an access's item in bytes.
pub fn cost_bytes(access: &Access) -> u64 {
    let expiry = if access.ttl_ms > 0 { EXPIRY_BYTES } else { 0 };
    u64::from(access.value_bytes) + KEY_BYTES as u64 + OVERHEAD_BYTES + expiry
}

/// The use of the memory, in percent: means over a stream's second half, from the store's counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// Live items, with headers and padding.
    pub live: f64,
    /// Dead items, fillers, and unused ends of sealed segments.
    pub dead: f64,
    /// Unused segments.
    pub free: f64,
    /// Unwritten parts of open segments.
    pub open: f64,
    /// The index.
    pub index: f64,
    /// Share of the index's slots that items use, in percent.
    pub load: f64,
    /// The small queue's target share, in percent of the segments.
    pub share: f64,
    samples: f64,
}

impl Account {
    /// Returns the columns of the table.
    pub fn columns(&self) -> String {
        let Self { live, dead, free, open, index, load, share, .. } = self;
        format!(" {live:.1} | {dead:.1} | {free:.1} | {open:.1} | {index:.1} | {load:.0} | {share:.0} |")
    }

    fn add(&mut self, stats: &StoreStats) {
        let percent = |bytes: u64| bytes as f64 * 100.0 / stats.memory_bytes as f64;
        let open_bytes = stats.heap_bytes.saturating_sub(stats.item_bytes + stats.dead_bytes);
        self.samples += 1.0;
        let weight = 1.0 / self.samples;
        for (mean, now) in [
            (&mut self.live, percent(stats.item_bytes)),
            (&mut self.dead, percent(stats.dead_bytes)),
            (&mut self.free, percent(stats.segments[0] * stats.segment_bytes)),
            (&mut self.open, percent(open_bytes)),
            (&mut self.index, percent(stats.index_bytes)),
            (&mut self.share, stats.small_percent as f64),
            (&mut self.load, stats.items as f64 * 100.0 / stats.index_slots as f64),
        ] {
            *mean += (now - *mean) * weight;
        }
    }
}

/// Returns the number of misses in a store of `memory_bytes`, and the parts of its memory.
///
/// # Errors
/// If a store of that size cannot be created.
pub fn misses(accesses: &[Access], memory_bytes: u64, small_percent: Option<u8>) -> Result<(u64, Account), String> {
    let mut rig = Rig::start(&config(memory_bytes), small_percent)?;
    let store = Arc::clone(&rig.store);
    let (mut misses, mut account) = (0, Account::default());
    for (number, access) in accesses.iter().enumerate() {
        let now = START.plus_ms(access.at_ms);
        if !rig.hit(access, now)? {
            misses += 1;
            rig.store(access, now, &mut || {})?;
        }
        rig.meanwhile(number, access, now);
        if number * 2 > accesses.len() && number.is_multiple_of(accesses.len() / SAMPLES + 1) {
            account.add(&store.stats());
        }
    }
    Ok((misses, account))
}

/// Returns the configuration of a store of that size.
pub(super) fn config(memory_bytes: u64) -> StoreConfig {
    StoreConfig {
        memory_bytes,
        memory_bytes_max: 0,
        segment_bytes: Some(segment_bytes(memory_bytes)),
        item_bytes_max: VALUE_BYTES_MAX + KEY_BYTES as u64,
        handles_max: 1,
        hash_seed: 1,
        huge_pages: false,
    }
}

/// The store, with its thread handle and its background work.
pub(super) struct Rig {
    pub(super) store: Arc<Store>,
    pub(super) handle: ThreadHandle,
    background: Background,
    value: Vec<u8>,
}

impl Rig {
    pub(super) fn new(store: Arc<Store>, background: Background) -> Result<Self, String> {
        let handle = store.handle().map_err(|error| error.to_string())?;
        Ok(Self { store, handle, background, value: Vec::new() })
    }

    /// Creates a store in memory. `small_percent` fixes the small queue's share of the segments.
    pub(super) fn start(config: &StoreConfig, small_percent: Option<u8>) -> Result<Self, String> {
        let (store, mut background) = Store::new(config, START).map_err(|error| error.to_string())?;
        if let Some(percent) = small_percent {
            background.hold_small_percent(percent);
        }
        Self::new(store, background)
    }

    /// Reads the item of an access as the server does, including all pieces of a large value. Returns false on a miss.
    pub(super) fn hit(&mut self, access: &Access, now: UnixMillis) -> Result<bool, String> {
        let mut guard = self.handle.guard(now);
        let text = key_text(access);
        let key = guard.key(Namespace::DEFAULT, &text);
        let Some(item) = guard.items().get(&key) else { return Ok(false) };
        let Value::Large(large) = item.value else { return Ok(true) };
        match guard.large().pin(&key, large) {
            Ok(Some(pin)) => {
                drop(guard);
                self.store.unpin(pin);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Stores the item of a missed access; `wait` runs background work while the store has no room.
    pub(super) fn store(&mut self, access: &Access, now: UnixMillis, wait: &mut dyn FnMut()) -> Result<(), String> {
        let Self { handle, background, value, .. } = self;
        value.resize(value.len().max(access.value_bytes as usize), 0);
        store_one(handle, background, access, now, &value[..access.value_bytes as usize], wait)
    }

    /// Runs one slice of background work.
    pub(super) fn slice(&mut self, now: UnixMillis) {
        slice(&mut self.background, now);
    }

    /// Runs the slices of background work that are due between two accesses.
    pub(super) fn meanwhile(&mut self, number: usize, access: &Access, now: UnixMillis) {
        let slices = if access.ttl_ms > 0 { SLICES_MAX } else { usize::from(number.is_multiple_of(SLICE_EVERY)) };
        for _ in 0..slices {
            if !slice(&mut self.background, now) {
                break;
            }
        }
    }
}

pub(super) fn key_text(access: &Access) -> [u8; KEY_BYTES] {
    let mut text = [b'0'; KEY_BYTES];
    for (nibble, byte) in text.iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(access.key >> (nibble * 4)) as usize & 15];
    }
    text
}

fn store_one(
    handle: &mut ThreadHandle,
    background: &mut Background,
    access: &Access,
    now: UnixMillis,
    value: &[u8],
    wait: &mut dyn FnMut(),
) -> Result<(), String> {
    let expire = if access.ttl_ms > 0 { Expire::At(now.plus_ms(access.ttl_ms)) } else { Expire::Never };
    loop {
        let mut guard = handle.guard(now);
        let text = key_text(access);
        let key = guard.key(Namespace::DEFAULT, &text);
        match guard.items_mut().put(&key, &Put { expire, ..Put::set(value) }) {
            Ok(_) => return Ok(()),
            Err(OpError::Parked) => {}
            Err(error) => return Err(error.to_string()),
        }
        drop(guard);
        wait();
        slice(background, now);
    }
}

/// Runs one slice. Returns true if there is more work.
fn slice(background: &mut Background, now: UnixMillis) -> bool {
    let mut asked = 0;
    let report = background.slice(now, &mut || {
        asked += 1;
        asked > 4
    });
    report.more
}

fn segment_bytes(memory_bytes: u64) -> u32 {
    let wanted = (memory_bytes / SEGMENTS_MIN).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
    1 << wanted.ilog2()
}
