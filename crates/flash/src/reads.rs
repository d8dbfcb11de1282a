//! Finds an item at an address: determines the bytes to read, and searches them for the item.
//!
//! ```text
//!   address ──> Finding ──read from a chunk in memory, or from the device──> bytes ──searched──> found
//!                  └────────────────────── more bytes are needed ───────────┘
//! ```

use std::sync::atomic::Ordering::Relaxed;

use segment::{FlashAddress, Found, ReadBy, TierRead};

use crate::entry::{self, Search, Seed};
use crate::flash::{Flash, lock};
use crate::queues::Scratch;

/// A search for an item at an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finding {
    pub(crate) region: u32,
    /// Offset of the item's block in the region.
    pub(crate) from: usize,
    /// Number of bytes to read from `from` on.
    pub(crate) bytes: usize,
    /// Number of bytes from `from` to the end of the chunk.
    most: usize,
    seed: Seed,
}

impl Finding {
    /// Searches for the item in the bytes read. Returns `None` if more bytes are needed; then `self.bytes` holds the
    /// new number.
    pub(crate) fn look(&mut self, read: &TierRead) -> Option<Found> {
        let search = match read.by {
            ReadBy::Key => entry::search(&read.buffer, self.from, read.hash, self.seed),
            ReadBy::Slot(slot) => {
                let fits = |namespace, key: &[u8]| slot.hash(namespace, key).filter(|hash| slot.fits(read.hash, *hash));
                entry::search_keys(&read.buffer, self.from, fits, self.seed)
            }
        };
        match search {
            Search::Item(parts) => Some(Found::Item(Box::new(parts))),
            Search::Other => Some(Found::Other),
            Search::More(more) if more > self.bytes && more <= self.most => {
                self.bytes = more;
                None
            }
            Search::More(_) | Search::Broken => Some(Found::Failed),
        }
    }
}

/// The location of a region's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadTarget {
    /// In memory; the bytes are already in the caller's buffer.
    Memory,
    Device,
    Nowhere,
}

impl Flash {
    /// Creates a search for the item at an address; `None` if no item can be at that address.
    pub(crate) fn finding(&self, at: FlashAddress) -> Option<Finding> {
        // The address may come from a damaged memory file, so it is checked first.
        if !segment::Tier::may_name(self, at) {
            return None;
        }
        let chunk_bytes = self.regions.sizes.chunk_bytes;
        let from = usize::from(at.block()) * FlashAddress::BLOCK_BYTES;
        let most = chunk_bytes - from % chunk_bytes;
        let bytes = (usize::from(at.blocks()) * FlashAddress::BLOCK_BYTES).min(most);
        Some(Finding { region: at.region(), from, bytes, most, seed: self.regions.at(at.region()).seed() })
    }

    pub(crate) fn find(&self, read: &mut TierRead, scratch: &mut Scratch) -> Found {
        let Some(mut finding) = self.finding(read.at) else { return Found::Failed };
        loop {
            match self.place(&finding, &mut read.buffer) {
                ReadTarget::Memory => {}
                ReadTarget::Nowhere => return Found::Failed,
                ReadTarget::Device => {
                    let Some(bytes) = self.read_device(finding.region, finding.from, finding.bytes, scratch) else {
                        return Found::Failed;
                    };
                    self.counters.read_bytes.fetch_add(bytes.len() as u64, Relaxed);
                    read.buffer.clear();
                    read.buffer.extend_from_slice(bytes);
                }
            }
            if let Some(found) = finding.look(read) {
                return found;
            }
        }
    }

    /// Returns the location of the bytes to search. If they are in memory, copies them to `into`.
    pub(crate) fn place(&self, finding: &Finding, into: &mut Vec<u8>) -> ReadTarget {
        let Finding { region, from, bytes, .. } = *finding;
        let on_device = || self.regions.at(region).written() >= from + bytes;
        if on_device() {
            return ReadTarget::Device;
        }
        if lock(&self.log).copy(region, from, into, bytes) {
            self.counters.reads_in_memory.fetch_add(1, Relaxed);
            return ReadTarget::Memory;
        }
        // The chunk was written between the two checks, or its device was lost.
        if on_device() { ReadTarget::Device } else { ReadTarget::Nowhere }
    }

    /// Returns the device blocks that contain a part of a region: their offset on the device, their length, and the
    /// offset of the part within them, in bytes.
    pub(crate) fn blocks_around(&self, region: u32, from: usize, bytes: usize) -> (u64, usize, usize) {
        let (part, at) = self.regions.place(region);
        let block = part.device.block_bytes();
        let begin = from / block * block;
        (at + begin as u64, (from + bytes).next_multiple_of(block) - begin, from - begin)
    }

    /// Reads the device blocks that contain a part of a region, and returns that part; `None` if the device is lost or
    /// the read fails.
    pub(crate) fn read_device<'s>(
        &self,
        region: u32,
        from: usize,
        bytes: usize,
        scratch: &'s mut Scratch,
    ) -> Option<&'s [u8]> {
        let (part, _) = self.regions.place(region);
        if part.is_lost() {
            return None;
        }
        let (at, whole, begin) = self.blocks_around(region, from, bytes);
        let did = part.device.read(&mut scratch.bytes.bytes_mut()[..whole], at);
        self.device_did(part, "a read", did).then(|| &scratch.bytes.bytes()[begin..begin + bytes])
    }
}
