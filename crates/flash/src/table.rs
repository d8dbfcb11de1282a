//! The persistent state of a tier in its room: words for the log, each device, each chunk and each region. If the room
//! lies in the memory file, the words outlive the process.
//!
//! ```text
//!     0   magic | next sequence | number of devices | bytes left of the write budget | finding | 0 ...
//!     8   for each device (16):   its number,  the number of its regions
//!    64   for each chunk (12):    used 1 | full 1 | 0 2 | group 4 | region 24 | number of the chunk in its region 32,
//!                                items 32 | bytes used 32
//!   128   for each region:        life 32 | bytes written 32,  blocks of all items 32 | blocks of referenced items 32,
//!                               expiry of its last item,  sequence (0: free),  number of referenced items,  salt
//!         tombstones, marks       only if the index is not in the file: see [`crate::marks`]
//! ```
//!
//! - The table counts the items of a chunk only if chunks have footers ([`crate::footer`]). `finding` is used only in
//!   that case, too. It is 1 while a process searches for the items of an earlier process ([`crate::found`]). If the
//!   searching process ends early, the next process retains the tombstones.
//! - The word that makes a record valid is stored last: a chunk's first word, or a region's sequence.
//! - Every change of the table needs the log's lock, except changes of a region's counts, which any thread may make.

use segment::TierRoom;

use crate::log::CHUNKS;
use crate::marks::Marks;

/// Maximum number of devices.
pub const DEVICES_MAX: usize = 16;

const MAGIC: u64 = u64::from_le_bytes(*b"GANNETFT");
const DEVICES_AT: usize = 8;
const CHUNKS_AT: usize = 64;
const REGIONS_AT: usize = 128;
/// Number of words for one region.
pub(crate) const REGION_WORDS: usize = 6;

/// Index, among a region's words, of the number that orders regions by the time of their opening; 0 if the region is
/// free.
pub(crate) const SEQUENCE: usize = 3;
/// Index, among a region's words, of the number of items that slots reference.
pub(crate) const ITEMS: usize = 4;

const _: () = assert!(DEVICES_AT + 2 * DEVICES_MAX <= CHUNKS_AT && CHUNKS_AT + 2 * CHUNKS <= REGIONS_AT);

/// Returns the number of words for `regions` regions.
pub(crate) fn words_for(regions: usize) -> usize {
    REGIONS_AT + regions * REGION_WORDS
}

/// The use of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkWord {
    pub(crate) full: bool,
    pub(crate) group: usize,
    pub(crate) region: u32,
    /// Index of the chunk in its region.
    pub(crate) number: u32,
}

impl ChunkWord {
    fn word(self) -> u64 {
        let (full, group) = (u64::from(self.full), self.group as u64);
        1 << 63 | full << 62 | group << 56 | u64::from(self.region) << 32 | u64::from(self.number)
    }

    fn of(word: u64) -> Option<Self> {
        let part = |shift: u32, bits: u32| (word >> shift) & ((1 << bits) - 1);
        (part(63, 1) == 1).then(|| Self {
            full: part(62, 1) == 1,
            group: part(56, 4) as usize,
            region: part(32, 24) as u32,
            number: word as u32,
        })
    }
}

/// The words of the table.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) room: TierRoom,
    /// Positions of marks and tombstones; `None` if the index is in the memory file too.
    pub(crate) marks: Option<Marks>,
}

impl Table {
    /// Returns true if an earlier process has left a table.
    pub(crate) fn is_found(&self) -> bool {
        self.room.is_found() && self.room.load(0) == MAGIC
    }

    /// Marks the words as a valid table.
    pub(crate) fn begin(&self) {
        self.room.store(1, self.room.load(1).max(1));
        self.room.store(0, MAGIC);
    }

    /// Returns a sequence number that no region has had.
    pub(crate) fn next_sequence(&self) -> u64 {
        let sequence = self.room.load(1);
        self.room.store(1, sequence.wrapping_add(1));
        sequence
    }

    /// Returns the number of bytes that the write budget still allows.
    pub(crate) fn budget_left(&self) -> u64 {
        self.room.load(3)
    }

    pub(crate) fn set_budget_left(&self, bytes: u64) {
        self.room.store(3, bytes);
    }

    /// Returns each device's number and its number of regions.
    pub(crate) fn devices(&self) -> Vec<(u64, u64)> {
        let count = (self.room.load(2) as usize).min(DEVICES_MAX);
        let word = |number: usize| self.room.load(DEVICES_AT + number);
        (0..count).map(|device| (word(2 * device), word(2 * device + 1))).collect()
    }

    pub(crate) fn set_devices(&self, devices: &[(u64, u64)]) {
        assert!(devices.len() <= DEVICES_MAX, "{} devices", devices.len());
        for (device, (number, regions)) in devices.iter().enumerate() {
            self.room.store(DEVICES_AT + 2 * device, *number);
            self.room.store(DEVICES_AT + 2 * device + 1, *regions);
        }
        self.room.store(2, devices.len() as u64);
    }

    /// Returns true if the earlier process ended before the search was complete.
    pub(crate) fn is_finding(&self) -> bool {
        self.room.load(4) != 0
    }

    pub(crate) fn set_finding(&self, finds: bool) {
        self.room.store(4, finds.into());
    }

    /// Returns the use of a chunk, the number of bytes used in it, and the number of items in its footer; `None` if the
    /// chunk is free.
    pub(crate) fn chunk(&self, chunk: usize) -> Option<(ChunkWord, usize, usize)> {
        let word = ChunkWord::of(self.room.load(CHUNKS_AT + 2 * chunk))?;
        let used = self.room.load(CHUNKS_AT + 2 * chunk + 1);
        Some((word, used as u32 as usize, (used >> 32) as usize))
    }

    /// Records the use of a chunk, or that it is free.
    pub(crate) fn set_chunk(&self, chunk: usize, to: Option<ChunkWord>) {
        self.room.store(CHUNKS_AT + 2 * chunk, to.map_or(0, ChunkWord::word));
    }

    pub(crate) fn set_used(&self, chunk: usize, bytes: usize, items: usize) {
        self.room.store(CHUNKS_AT + 2 * chunk + 1, (items as u64) << 32 | bytes as u64);
    }

    fn place(region: u32, word: usize) -> usize {
        REGIONS_AT + region as usize * REGION_WORDS + word
    }

    pub(crate) fn region(&self, region: u32, word: usize) -> u64 {
        self.room.load(Self::place(region, word))
    }

    pub(crate) fn set_region(&self, region: u32, word: usize, value: u64) {
        self.room.store(Self::place(region, word), value);
    }

    pub(crate) fn change_region(&self, region: u32, word: usize, to: impl Fn(u64) -> u64) {
        self.room.change(Self::place(region, word), to);
    }
}

/// A summary of the tier that an earlier process has left. It is read from the table alone, without the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashRemainder {
    /// Number of devices in the table.
    pub devices: u64,
    /// Number of regions on these devices.
    pub regions: u64,
    /// Number of regions that hold items or are being filled.
    pub regions_used: u64,
    /// Number of items that slots referenced, including those that have expired since.
    pub items: u64,
}

impl FlashRemainder {
    /// Reads a summary from a room of `words` words; `None` if they are not a table.
    pub fn of(words: u64, load: impl Fn(u64) -> u64) -> Option<Self> {
        if words < REGIONS_AT as u64 || load(0) != MAGIC {
            return None;
        }
        let devices = load(2).min(DEVICES_MAX as u64);
        let regions = |device: u64| load(DEVICES_AT as u64 + 2 * device + 1);
        let all = (0..devices).try_fold(0u64, |sum, device| sum.checked_add(regions(device)))?;
        if all > (words - REGIONS_AT as u64) / REGION_WORDS as u64 {
            return None;
        }
        let word = |region: u64, word: usize| load(REGIONS_AT as u64 + region * REGION_WORDS as u64 + word as u64);
        let used = || (0..all).filter(|region| word(*region, SEQUENCE) != 0);
        let items = used().fold(0u64, |sum, region| sum.saturating_add(word(region, ITEMS)));
        Some(Self { devices, regions: all, regions_used: used().count() as u64, items })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_word_survives_encoding_and_decoding() {
        for full in [false, true] {
            for (group, region, number) in [(0, 0, 0), (3, (1 << 20) - 1, 15), (2, 77, 1)] {
                let chunk = ChunkWord { full, group, region, number };
                assert_eq!(ChunkWord::of(chunk.word()), Some(chunk));
            }
        }
        assert_eq!(ChunkWord::of(0), None);
    }

    #[test]
    fn invalid_or_truncated_table_words_yield_no_summary() {
        let mut words = vec![0; words_for(3)];
        let look = |words: &[u64]| FlashRemainder::of(words.len() as u64, |at| words[at as usize]);
        assert_eq!(look(&words), None);
        (words[0], words[2], words[DEVICES_AT + 1], words[DEVICES_AT + 3]) = (MAGIC, 2, 1, 2);
        for (region, sequence, items) in [(0, 5, 7), (1, 0, 100), (2, 6, 1)] {
            let at = REGIONS_AT + region * REGION_WORDS;
            (words[at + SEQUENCE], words[at + ITEMS]) = (sequence, items);
        }
        assert_eq!(look(&words), Some(FlashRemainder { devices: 2, regions: 3, regions_used: 2, items: 8 }));
        for end in [0, REGIONS_AT - 1, words.len() - 1] {
            assert_eq!(look(&words[..end]), None, "{end}");
        }
        words[DEVICES_AT + 1] = u64::MAX;
        assert_eq!(look(&words), None);
    }
}
