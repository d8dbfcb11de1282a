//! The regions of all devices: where each lies, and what is known of it.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use base::clock::UnixMillis;
use segment::FlashAddress;

use crate::device::Device;
use crate::entry::{ENTRY_BYTES_MAX, Seed};

/// A region where a device has room for enough of them.
const REGION_BYTES: usize = FlashAddress::BLOCK_BYTES * FlashAddress::REGION_BLOCKS_MAX;
/// A chunk, the unit of writes, in a region of that size.
const CHUNK_BYTES: usize = 1 << 20;
/// Regions that all devices together have at least: those that are open, some that are free, and some to read.
const REGIONS_MIN: usize = 12;
/// And so many where smaller regions can give as many.
const REGIONS_WANTED: u64 = 32;

/// How devices are cut. All are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a region.
    pub region_bytes: usize,
    /// Bytes that are written at once; a region is some of them.
    pub chunk_bytes: usize,
}

/// The devices are too small, or too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashSizeError {
    /// All together have to have so many bytes.
    TooSmall {
        /// How many.
        least_bytes: u64,
    },
    /// An index names no more.
    TooLarge {
        /// All together may have so many bytes.
        most_bytes: u64,
    },
}

impl std::fmt::Display for FlashSizeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooSmall { least_bytes } => write!(f, "too small: give at least {least_bytes} bytes"),
            Self::TooLarge { most_bytes } => write!(f, "more than can be named: give at most {most_bytes} bytes"),
        }
    }
}

impl std::error::Error for FlashSizeError {}

impl Sizes {
    /// For so many bytes: regions of 16 MiB, smaller ones on less than half a gigabyte.
    ///
    /// # Errors
    /// See [`FlashSizeError`].
    pub fn of(bytes: u64) -> Result<Self, FlashSizeError> {
        let wanted = (bytes / REGIONS_WANTED).clamp(2 * ENTRY_BYTES_MAX as u64, REGION_BYTES as u64);
        let region_bytes = 1 << wanted.ilog2();
        let sizes = Self { region_bytes, chunk_bytes: CHUNK_BYTES.min(region_bytes / 2) };
        if bytes / (region_bytes as u64) < REGIONS_MIN as u64 {
            return Err(FlashSizeError::TooSmall { least_bytes: (REGIONS_MIN * 2 * ENTRY_BYTES_MAX) as u64 });
        }
        let most_bytes = (REGION_BYTES * FlashAddress::REGIONS_MAX) as u64;
        if bytes > most_bytes { Err(FlashSizeError::TooLarge { most_bytes }) } else { Ok(sizes) }
    }
}

/// One region. What the log alone changes is changed under its lock.
#[derive(Debug, Default)]
pub(crate) struct Region {
    /// How often it was opened.
    life: AtomicU32,
    /// Bytes of this life that are on the device.
    written: AtomicU32,
    /// Blocks of the items that slots name, and of all; a block that two share counts for each.
    live_blocks: AtomicU32,
    all_blocks: AtomicU32,
    /// When the last of its items ends.
    ends_ms: AtomicU64,
}

impl Region {
    pub(crate) fn life(&self) -> u32 {
        self.life.load(Acquire)
    }

    /// The address of an item of this life.
    pub(crate) fn address(&self, region: u32, from: usize, bytes: usize) -> FlashAddress {
        let first = from / FlashAddress::BLOCK_BYTES;
        let blocks = (from + bytes).div_ceil(FlashAddress::BLOCK_BYTES) - first;
        let blocks = blocks.min(usize::from(FlashAddress::BLOCKS_MANY)) as u8;
        FlashAddress::new(self.generation(), region, first as u16, blocks)
    }

    pub(crate) fn generation(&self) -> u8 {
        (self.life() % 128) as u8
    }

    pub(crate) fn written(&self) -> usize {
        self.written.load(Acquire) as usize
    }

    pub(crate) fn note_written(&self, bytes: usize) {
        self.written.store(bytes as u32, Release);
    }

    /// Begins another life.
    pub(crate) fn open(&self) {
        self.written.store(0, Release);
        self.live_blocks.store(0, Relaxed);
        self.all_blocks.store(0, Relaxed);
        self.ends_ms.store(0, Relaxed);
        self.life.store(self.life().wrapping_add(1), Release);
    }

    pub(crate) fn note_item(&self, blocks: u8, ends: Option<UnixMillis>) {
        self.live_blocks.fetch_add(blocks.into(), Relaxed);
        self.all_blocks.fetch_add(blocks.into(), Relaxed);
        self.ends_ms.fetch_max(ends.map_or(u64::MAX, |at| at.0), Relaxed);
    }

    pub(crate) fn release(&self, at: FlashAddress) {
        if at.generation() == self.generation() {
            self.live_blocks.fetch_sub(at.blocks().into(), Relaxed);
        }
    }

    /// All its items have ended.
    pub(crate) fn is_past(&self, now: UnixMillis) -> bool {
        self.ends_ms.load(Relaxed) <= now.0
    }

    /// The part of it that slots name, of 1000.
    pub(crate) fn live_per_mille(&self) -> u64 {
        let [live, all] = [&self.live_blocks, &self.all_blocks].map(|blocks| u64::from(blocks.load(Relaxed)));
        live * 1000 / all.max(1)
    }
}

/// A device, and which regions lie on it.
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

    /// True for the first one who says so.
    pub(crate) fn lose(&self) -> bool {
        !self.lost.swap(true, Release)
    }

    pub(crate) fn regions(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// All regions.
#[derive(Debug)]
pub(crate) struct Regions {
    all: Box<[Region]>,
    pub(crate) parts: Vec<Part>,
    pub(crate) sizes: Sizes,
    secret: u64,
}

impl Regions {
    pub(crate) fn new(devices: Vec<Box<dyn Device>>, sizes: Sizes, secret: u64) -> Self {
        assert!(sizes.region_bytes.is_power_of_two() && sizes.region_bytes <= REGION_BYTES, "{sizes:?}");
        assert!(sizes.chunk_bytes.is_power_of_two() && sizes.chunk_bytes < sizes.region_bytes, "{sizes:?}");
        assert!(sizes.chunk_bytes.is_multiple_of(crate::aligned::ALIGN), "{sizes:?}");
        let mut parts: Vec<Part> = Vec::new();
        for device in devices {
            let first = parts.last().map_or(0, |part| part.regions().end);
            let room = FlashAddress::REGIONS_MAX as u64 - u64::from(first);
            let count = (device.bytes() / sizes.region_bytes as u64).min(room) as u32;
            parts.push(Part { device, first, count, lost: AtomicBool::new(false) });
        }
        let count = parts.last().map_or(0, |part| part.regions().end);
        assert!(count > 0, "devices without a region");
        Self { all: (0..count).map(|_| Region::default()).collect(), parts, sizes, secret }
    }

    pub(crate) fn at(&self, region: u32) -> &Region {
        &self.all[region as usize]
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn seed(&self, region: u32) -> Seed {
        Seed { secret: self.secret, region, life: self.at(region).life() }
    }

    /// The device of a region, and where on it the region begins.
    pub(crate) fn place(&self, region: u32) -> (&Part, u64) {
        let part = self.parts.iter().find(|part| part.regions().contains(&region)).expect("a region lies on a device");
        (part, u64::from(region - part.first) * self.sizes.region_bytes as u64)
    }

    /// Bytes of memory that the table takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.all.len() * size_of::<Region>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_of_16_mib_and_smaller_where_there_would_be_too_few() {
        assert_eq!(Sizes::of(1 << 40), Ok(Sizes { region_bytes: 16 << 20, chunk_bytes: 1 << 20 }));
        assert_eq!(Sizes::of(512 << 20), Ok(Sizes { region_bytes: 16 << 20, chunk_bytes: 1 << 20 }));
        assert_eq!(Sizes::of(64 << 20), Ok(Sizes { region_bytes: 2 << 20, chunk_bytes: 1 << 20 }));
        let Err(FlashSizeError::TooSmall { least_bytes }) = Sizes::of(1 << 20) else { panic!("1 MiB is too small") };
        assert!(Sizes::of(least_bytes).is_ok(), "the size that the error names is enough");
        let Err(FlashSizeError::TooLarge { most_bytes }) = Sizes::of(1 << 60) else { panic!("too large") };
        assert_eq!(most_bytes, 16 << 40);
    }

    #[test]
    fn a_region_takes_less_than_a_millionth_of_memory() {
        assert!(size_of::<Region>() <= 32);
    }

    #[test]
    fn what_is_released_of_an_earlier_life_is_not_counted_again() {
        let region = Region::default();
        region.open();
        let at = region.address(3, 1000, 100);
        assert_eq!((at.block(), at.blocks()), (1, 2), "from byte 1000 to byte 1100");
        region.note_item(at.blocks(), None);
        assert_eq!(region.live_per_mille(), 1000);
        region.open();
        region.note_item(2, None);
        region.release(at);
        assert_eq!(region.live_per_mille(), 1000, "that was another life");
        region.release(region.address(3, 0, 600));
        assert_eq!(region.live_per_mille(), 0);
    }
}
