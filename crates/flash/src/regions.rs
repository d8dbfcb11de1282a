//! The regions of all devices: the position of each, and its recorded state.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use base::clock::UnixMillis;
use base::prng::Prng;
use segment::{FlashAddress, IndexPlace, TierPlan};

use crate::begin::StartedFlash;
use crate::device::Device;
use crate::entry::{ENTRY_BYTES_MAX, HEADER_BYTES, Seed, padded};
use crate::front;
use crate::log::CHUNKS;
use crate::marks::Marks;
use crate::table::{ITEMS, SEQUENCE, Table, words_for};

/// Length of a region in bytes, if the devices have room for enough regions of this length.
const REGION_BYTES: usize = FlashAddress::BLOCK_BYTES * FlashAddress::REGION_BLOCKS_MAX;
/// Length of a chunk, the unit of writes, in bytes. Chunks are shorter if regions are short.
const CHUNK_BYTES: usize = 1 << 20;
/// Minimum number of regions on all devices together: the open regions, some free regions, and some full ones to read
/// from.
const REGIONS_MIN: usize = 12;
/// The desired number of regions. On small devices, regions are shorter so that there are as many.
const REGIONS_WANTED: u64 = 32;

/// Sizes of the regions and chunks into which devices are cut. All are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Length of a region in bytes.
    pub region_bytes: usize,
    /// Length of a chunk in bytes, the unit of writes. A region consists of several chunks.
    pub chunk_bytes: usize,
}

/// The error that the devices are too small or too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashSizeError {
    /// All devices together have too few bytes.
    TooSmall {
        /// The minimum number of bytes of all devices together.
        least_bytes: u64,
    },
    /// All devices together have more bytes than an index can address.
    TooLarge {
        /// The maximum number of bytes of all devices together.
        most_bytes: u64,
    },
}

impl std::fmt::Display for FlashSizeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooSmall { least_bytes } => {
                write!(f, "the devices are too small: at least {least_bytes} bytes are needed")
            }
            Self::TooLarge { most_bytes } => {
                write!(f, "the devices are too large: at most {most_bytes} bytes can be addressed")
            }
        }
    }
}

impl std::error::Error for FlashSizeError {}

impl Sizes {
    /// Chooses sizes for devices of these lengths: regions of 16 MiB, or smaller ones on less than half a gigabyte.
    ///
    /// # Errors
    /// See [`FlashSizeError`].
    pub fn of(devices: &[u64]) -> Result<Self, FlashSizeError> {
        let bytes = devices.iter().sum::<u64>();
        let wanted = (bytes / REGIONS_WANTED).clamp(2 * ENTRY_BYTES_MAX as u64, REGION_BYTES as u64);
        let region_bytes = 1 << wanted.ilog2();
        let sizes = Self { region_bytes, chunk_bytes: CHUNK_BYTES.min(region_bytes / 2) };
        if sizes.regions(devices) < REGIONS_MIN as u64 {
            let least = (REGIONS_MIN + 2 * devices.len()) * 2 * ENTRY_BYTES_MAX;
            return Err(FlashSizeError::TooSmall { least_bytes: least as u64 });
        }
        let most_bytes = (REGION_BYTES * FlashAddress::REGIONS_MAX) as u64;
        if bytes > most_bytes { Err(FlashSizeError::TooLarge { most_bytes }) } else { Ok(sizes) }
    }

    /// Returns the sizes that a store with an index of `index_slots` slots allocates for a tier on devices of these
    /// lengths.
    pub fn plan(&self, devices: &[u64], index_slots: u64, index: IndexPlace) -> TierPlan {
        let (bytes, regions) = (devices.iter().sum(), self.regions(devices) as usize);
        let finds = index == IndexPlace::Dram;
        let words = if finds { Marks::of(regions, *self).end(regions) } else { words_for(regions) };
        TierPlan { index_slots, bytes, regions, words, chunks: CHUNKS, chunk_bytes: self.chunk_bytes, finds }
    }

    /// Returns the number of items of `item_bytes` bytes (key and value) that devices of these lengths have room for.
    pub fn items(&self, devices: &[u64], item_bytes: u64) -> u64 {
        self.regions(devices) * self.region_bytes as u64 / padded(HEADER_BYTES + item_bytes as usize) as u64
    }

    /// Returns the number of regions on devices of these lengths.
    pub fn regions(&self, devices: &[u64]) -> u64 {
        devices.iter().map(|bytes| front::regions_of(*bytes, *self)).sum()
    }
}

/// One region, as recorded in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region<'t> {
    table: &'t Table,
    number: u32,
}

/// Index, among a region's words, of the number of its current life and the number of bytes written, 32 bits each.
const LIFE: usize = 0;
/// Index of the counts of blocks: of all items, and of the items that slots reference, 32 bits each.
const BLOCKS: usize = 1;
/// Index of the time at which the region's last item expires, in ms since 1970; the maximum if an item never expires.
const ENDS: usize = 2;
/// Index of the salt of the region's current life.
const SALT: usize = 5;

const HALF: u64 = u32::MAX as u64;

impl Region<'_> {
    fn word(self, word: usize) -> u64 {
        self.table.region(self.number, word)
    }

    fn set(self, word: usize, value: u64) {
        self.table.set_region(self.number, word, value);
    }

    fn life(self) -> u32 {
        (self.word(LIFE) >> 32) as u32
    }

    /// Returns the address of an item of `bytes` bytes at offset `from`, in the region's current life.
    pub(crate) fn address(self, from: usize, bytes: usize) -> FlashAddress {
        address(self.generation(), self.number, from, bytes)
    }

    pub(crate) fn generation(self) -> u8 {
        (self.life() % 128) as u8
    }

    /// Returns the checksum seed of the region's items.
    pub(crate) fn seed(self) -> Seed {
        Seed { salt: self.word(SALT), region: self.number }
    }

    /// Returns the number of bytes of this life that are on the device.
    pub(crate) fn written(self) -> usize {
        (self.word(LIFE) & HALF) as usize
    }

    pub(crate) fn note_written(self, bytes: usize) {
        self.set(LIFE, self.word(LIFE) & !HALF | bytes as u64);
    }

    /// Returns the number that orders regions by the time of their opening; 0 if the region is free.
    pub(crate) fn sequence(self) -> u64 {
        self.word(SEQUENCE)
    }

    /// Starts the region's next life, with a salt that no earlier life had.
    pub(crate) fn open(self, salt: u64) {
        self.table.clear_marks(self.number);
        self.set(LIFE, u64::from(self.life().wrapping_add(1)) << 32);
        self.set(BLOCKS, 0);
        self.set(ENDS, 0);
        self.set(ITEMS, 0);
        self.set(SALT, salt);
        self.set(SEQUENCE, self.table.next_sequence());
    }

    /// Frees the region. No slot references its items any more.
    pub(crate) fn free(self) {
        self.set(SEQUENCE, 0);
    }

    /// Discards the region's contents: addresses of this life become invalid.
    pub(crate) fn forget(self) {
        self.free();
        self.set(LIFE, u64::from(self.life().wrapping_add(1)) << 32);
        self.set(ITEMS, 0);
    }

    /// Resets the counts of referenced items and blocks to zero, before the search after a start counts the
    /// region's items again.
    pub(crate) fn begin_count(self) {
        self.table.change_region(self.number, BLOCKS, |word| word & !HALF);
        self.set(ITEMS, 0);
    }

    /// Counts an item of the region that the search after a start has found.
    pub(crate) fn count_found(self, at: FlashAddress) {
        if at.generation() == self.generation() {
            self.table.change_region(self.number, BLOCKS, |word| word.wrapping_add(at.blocks().into()));
            self.table.change_region(self.number, ITEMS, |items| items.wrapping_add(1));
        }
    }

    pub(crate) fn note_item(self, blocks: u8, ends: Option<UnixMillis>) {
        let blocks = u64::from(blocks);
        self.table.change_region(self.number, BLOCKS, |word| word.wrapping_add(blocks << 32 | blocks));
        self.table.change_region(self.number, ITEMS, |items| items.wrapping_add(1));
        let ends = ends.map_or(u64::MAX, |at| at.0);
        self.table.change_region(self.number, ENDS, |word| word.max(ends));
    }

    pub(crate) fn release(self, at: FlashAddress) {
        if at.generation() != self.generation() {
            return;
        }
        // After a crash, the item may not have been counted, or may not be in this region.
        let less = |word: u64| (word & HALF).saturating_sub(at.blocks().into()) | word & !HALF;
        self.table.change_region(self.number, BLOCKS, less);
        self.table.change_region(self.number, ITEMS, |items| items.saturating_sub(1));
    }

    /// Returns the number of items that slots reference.
    pub(crate) fn items(self) -> u64 {
        self.word(ITEMS)
    }

    /// Returns true if all items have expired.
    pub(crate) fn is_past(self, now: UnixMillis) -> bool {
        self.word(ENDS) <= now.0
    }

    /// Returns the share of the region's blocks that slots still reference, in thousandths.
    pub(crate) fn live_per_mille(self) -> u64 {
        let blocks = self.word(BLOCKS);
        (blocks & HALF) * 1000 / (blocks >> 32).max(1)
    }
}

/// Returns the address of an item of `bytes` bytes at offset `from` of a region. `generation` identifies the region's
/// life.
pub(crate) fn address(generation: u8, region: u32, from: usize, bytes: usize) -> FlashAddress {
    let first = from / FlashAddress::BLOCK_BYTES;
    let blocks = (from + bytes).div_ceil(FlashAddress::BLOCK_BYTES) - first;
    let blocks = blocks.min(usize::from(FlashAddress::BLOCKS_MANY)) as u8;
    FlashAddress::new(generation, region, first as u16, blocks)
}

/// A device, and the regions on it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) device: Box<dyn Device>,
    first: u32,
    count: u32,
    lost: AtomicBool,
}

impl Part {
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Acquire)
    }

    /// Marks the device as lost. Returns true for the first call only.
    pub(crate) fn lose(&self) -> bool {
        !self.lost.swap(true, Release)
    }

    pub(crate) fn regions(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// The regions of all devices, and the table of their states.
#[derive(Debug)]
pub(crate) struct Regions {
    pub(crate) table: Table,
    pub(crate) parts: Vec<Part>,
    pub(crate) sizes: Sizes,
    count: usize,
}

impl Regions {
    /// Creates the regions of these devices, and returns the state in which each device was found. Forgets the recorded
    /// contents of devices that were replaced.
    pub(crate) fn new(
        devices: Vec<Box<dyn Device>>,
        sizes: Sizes,
        table: Table,
        random: &mut Prng,
        is_view: bool,
    ) -> (Self, Vec<StartedFlash>) {
        assert!(sizes.region_bytes.is_power_of_two() && sizes.region_bytes <= REGION_BYTES, "{sizes:?}");
        assert!(sizes.chunk_bytes.is_power_of_two() && sizes.chunk_bytes < sizes.region_bytes, "{sizes:?}");
        assert!(sizes.chunk_bytes.is_multiple_of(crate::aligned::ALIGN), "{sizes:?}");
        let (mut parts, mut begun, mut numbers) = (Vec::<Part>::new(), Vec::new(), Vec::new());
        for found in crate::begin::devices(devices, sizes, &table, random, is_view) {
            let first = parts.last().map_or(0, |part| part.regions().end);
            let room = FlashAddress::REGIONS_MAX as u64 - u64::from(first);
            let count = found.regions.min(room) as u32;
            parts.push(Part { device: found.device, first, count, lost: AtomicBool::new(false) });
            numbers.push((found.number, found.regions));
            begun.push(found.begun);
        }
        let count = parts.last().map_or(0, |part| part.regions().end) as usize;
        assert!(count > 0, "devices without a region");
        let regions = Self { table, parts, sizes, count };
        for (part, _) in regions.parts.iter().zip(&begun).filter(|(_, begun)| begun.forgets()) {
            part.regions().for_each(|region| regions.at(region).forget());
        }
        // Only a damaged memory file can record more written bytes than a region has.
        for (_, region) in regions.all().filter(|(_, region)| region.written() > sizes.region_bytes) {
            region.forget();
        }
        regions.table.set_devices(&numbers);
        regions.table.begin();
        (regions, begun)
    }

    pub(crate) fn at(&self, region: u32) -> Region<'_> {
        assert!((region as usize) < self.count, "region {region} of {}", self.count);
        Region { table: &self.table, number: region }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns true if chunks have footers. They do if the index does not outlive the process.
    pub(crate) fn has_footers(&self) -> bool {
        self.table.marks.is_some()
    }

    /// Returns all regions.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, Region<'_>)> {
        (0..self.count as u32).map(|number| (number, self.at(number)))
    }

    /// Returns the index of the device that holds a region.
    pub(crate) fn device_of(&self, region: u32) -> usize {
        self.parts.iter().position(|part| part.regions().contains(&region)).expect("a region lies on a device")
    }

    /// Returns the device of a region, and the offset of the region on that device in bytes.
    pub(crate) fn place(&self, region: u32) -> (&Part, u64) {
        let part = &self.parts[self.device_of(region)];
        let at = u64::from(region - part.first) * self.sizes.region_bytes as u64;
        (part, front::front_bytes(self.sizes) + at)
    }
}

#[cfg(test)]
mod tests {
    use segment::TierRoom;

    use super::*;
    use crate::table::REGION_WORDS;

    #[test]
    fn regions_are_16_mib_and_smaller_on_small_devices() {
        assert_eq!(Sizes::of(&[1 << 40]), Ok(Sizes { region_bytes: 16 << 20, chunk_bytes: 1 << 20 }));
        assert_eq!(Sizes::of(&[512 << 20]), Ok(Sizes { region_bytes: 16 << 20, chunk_bytes: 1 << 20 }));
        assert_eq!(Sizes::of(&[64 << 20]), Ok(Sizes { region_bytes: 2 << 20, chunk_bytes: 1 << 20 }));
        let Err(FlashSizeError::TooSmall { least_bytes }) = Sizes::of(&[1 << 20]) else { panic!("1 MiB is too small") };
        assert!(Sizes::of(&[least_bytes]).is_ok(), "the size that the error names is enough");
        let Err(FlashSizeError::TooLarge { most_bytes }) = Sizes::of(&[1 << 60]) else { panic!("too large") };
        assert_eq!(most_bytes, 16 << 40);
    }

    #[test]
    fn item_capacity_counts_entries_with_headers_in_whole_regions() {
        let sizes = Sizes { region_bytes: 1 << 20, chunk_bytes: 1 << 18 };
        assert_eq!(sizes.items(&[(1 << 20) + 9 * (1 << 20) - 1], 64), (8 << 20) / 88);
        assert_eq!(sizes.items(&[9 << 20, 5 << 20], 101), (12 << 20) / 128);
    }

    #[test]
    fn region_needs_a_few_millionths_of_its_size_in_memory() {
        assert!(REGION_WORDS * size_of::<u64>() * 300_000 < REGION_BYTES);
    }

    #[test]
    fn release_from_an_earlier_region_cycle_is_not_counted() {
        let plan = TierPlan {
            index_slots: 0,
            bytes: 0,
            regions: 4,
            words: words_for(4),
            chunks: 0,
            chunk_bytes: 0,
            finds: false,
        };
        let table = Table { room: TierRoom::private(&plan).expect("memory"), marks: None };
        let region = Region { table: &table, number: 3 };
        region.open(1);
        let at = region.address(1000, 100);
        assert_eq!((at.region(), at.block(), at.blocks()), (3, 1, 2), "from byte 1000 to byte 1100");
        region.note_item(at.blocks(), None);
        assert_eq!((region.live_per_mille(), region.items()), (1000, 1));
        region.open(2);
        region.note_item(2, None);
        region.release(at);
        assert_eq!((region.live_per_mille(), region.items()), (1000, 1), "that was another life");
        region.release(region.address(0, 600));
        assert_eq!((region.live_per_mille(), region.items()), (0, 0));
        region.release(region.address(0, 600));
        assert_eq!((region.live_per_mille(), region.items()), (0, 0), "no more than there was");
    }
}
