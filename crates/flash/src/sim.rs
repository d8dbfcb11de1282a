//! A disk in memory that fails as real disks do. The same seed reproduces the same failures.
//!
//! - A read or a write can return an error. A write can also leave some sectors unwritten and report success.
//! - The disk can vanish: every later request fails.
//! - The disk can lose power: any sector written since the last sync may return to its previous contents
//!   ([`SimHand::copy_cut_off`]).
//! - The test controls how long a request takes: it completes waiting requests in any order
//!   ([`crate::Flash::work_at`]).

use std::io;
use std::sync::Mutex;

use base::prng::Prng;

use crate::device::Device;
use crate::flash::lock;

/// Rates of simulated failures, per thousand requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Writes that leave some sectors unchanged.
    pub torn_writes: u64,
    /// Reads that return an error.
    pub read_errors: u64,
    /// Writes that return an error.
    pub write_errors: u64,
}

/// A simulated disk.
#[derive(Debug)]
pub struct SimDisk {
    state: std::sync::Arc<Mutex<DeviceState>>,
    bytes: u64,
    block_bytes: usize,
}

#[derive(Debug)]
struct DeviceState {
    contents: Vec<u8>,
    faults: Faults,
    random: Prng,
    vanished: bool,
    torn: u64,
    block_bytes: usize,
    /// The last writes since a sync: each write's offset in bytes, and the previous contents at that offset.
    unsynced: Vec<(usize, Vec<u8>)>,
}

/// Maximum number of recent writes that a power loss can undo.
const UNSYNCED_MAX: usize = 32;
/// Size of a sector in bytes. A sector is written completely or not at all.
const SECTOR_BYTES: usize = 512;

/// A handle with which a test controls a disk that a tier uses.
#[derive(Clone, Debug)]
pub struct SimHand(std::sync::Arc<Mutex<DeviceState>>);

impl SimHand {
    /// Sets the failure rates from now on.
    pub fn set(&self, faults: Faults) {
        lock(&self.0).faults = faults;
    }

    /// Makes the disk vanish.
    pub fn vanish(&self) {
        lock(&self.0).vanished = true;
    }

    /// Returns an independent disk with the contents of this disk and without failures, as after a restart of the
    /// machine.
    pub fn copy(&self, seed: u64) -> (SimDisk, SimHand) {
        let (contents, block_bytes) = {
            let state = lock(&self.0);
            (state.contents.clone(), state.block_bytes)
        };
        SimDisk::of(contents, block_bytes, seed)
    }

    /// Returns a copy as after a power loss: any sector written since [`SimHand::sync`] may have its previous contents.
    /// This also covers reordered writes.
    pub fn copy_cut_off(&self, seed: u64) -> (SimDisk, SimHand) {
        let (disk, hand) = self.copy(seed);
        let mut state = lock(&hand.0);
        for (at, before) in lock(&self.0).unsynced.iter().rev() {
            for (sector, bytes) in before.chunks(SECTOR_BYTES).enumerate() {
                if state.random.chance(1, 2) {
                    let begin = at + sector * SECTOR_BYTES;
                    state.contents[begin..begin + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
        drop(state);
        (disk, hand)
    }

    /// Makes all writes so far durable, also across a power loss.
    pub fn sync(&self) {
        lock(&self.0).unsynced.clear();
    }

    /// Returns the number of torn writes.
    pub fn torn(&self) -> u64 {
        lock(&self.0).torn
    }
}

impl SimDisk {
    /// Creates a disk of zeros, and its control handle.
    pub fn new(bytes: u64, block_bytes: usize, seed: u64) -> (Self, SimHand) {
        Self::of(vec![0; bytes as usize], block_bytes, seed)
    }

    fn of(contents: Vec<u8>, block_bytes: usize, seed: u64) -> (Self, SimHand) {
        let (bytes, random) = (contents.len() as u64, Prng::new(seed));
        let (faults, unsynced) = (Faults::default(), Vec::new());
        let state = DeviceState { contents, faults, random, vanished: false, torn: 0, block_bytes, unsynced };
        let state = std::sync::Arc::new(Mutex::new(state));
        (Self { state: std::sync::Arc::clone(&state), bytes, block_bytes }, SimHand(state))
    }

    fn check(&self, at: u64, bytes: usize, start: *const u8) {
        let block = self.block_bytes as u64;
        assert!(at.is_multiple_of(block) && (bytes as u64).is_multiple_of(block), "{at}+{bytes} are no whole blocks");
        assert!(start.align_offset(512) == 0, "memory that no device can be read into");
    }
}

impl DeviceState {
    fn happens(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.random.below(1000) < per_mille
    }

    fn range(&self, at: u64, bytes: usize) -> io::Result<std::ops::Range<usize>> {
        let range = at as usize..at as usize + bytes;
        if self.vanished || range.end > self.contents.len() {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::NODEV.raw_os_error()));
        }
        Ok(range)
    }
}

fn input_output_error() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error())
}

impl Device for SimDisk {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn name(&self) -> String {
        "simulated".to_owned()
    }

    fn read(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        self.check(at, into.len(), into.as_ptr());
        let mut state = lock(&self.state);
        let range = state.range(at, into.len())?;
        let per_mille = state.faults.read_errors;
        if state.happens(per_mille) {
            return Err(input_output_error());
        }
        into.copy_from_slice(&state.contents[range]);
        Ok(())
    }

    fn write(&self, from: &[u8], at: u64) -> io::Result<()> {
        self.check(at, from.len(), from.as_ptr());
        let mut state = lock(&self.state);
        let range = state.range(at, from.len())?;
        let Faults { torn_writes, write_errors, .. } = state.faults;
        if state.happens(write_errors) {
            return Err(input_output_error());
        }
        let torn = state.happens(torn_writes);
        state.torn += u64::from(torn);
        let before = state.contents[range.clone()].to_vec();
        if state.unsynced.len() == UNSYNCED_MAX {
            state.unsynced.remove(0);
        }
        state.unsynced.push((range.start, before));
        for (sector, bytes) in from.chunks(SECTOR_BYTES).enumerate() {
            if !(torn && state.happens(300)) {
                let begin = range.start + sector * SECTOR_BYTES;
                state.contents[begin..begin + bytes.len()].copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        if state.vanished {
            return Err(input_output_error());
        }
        state.unsynced.clear();
        Ok(())
    }

    fn discard(&self, at: u64, bytes: u64) {
        let mut state = lock(&self.state);
        if let Ok(range) = state.range(at, bytes as usize) {
            state.contents[range].fill(0);
        }
    }
}
