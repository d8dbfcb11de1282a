//! The sizes of a store, computed once from the memory that it may use.

use crate::index::{GROUP_BYTES, GROUP_SLOTS, Index};
use crate::layout::item::KEY_BYTES_MAX;
use crate::layout::slot::HEAP_BYTES_MAX;

/// Sizes and settings of a store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The limit of segments, their headers and the index together, in bytes. The store never uses more. After
    /// [`crate::Store::resize`] has lowered the limit, it shrinks to it.
    pub memory_bytes: u64,
    /// The maximum to which [`crate::Store::resize`] may raise the limit, in bytes: address space is reserved for it. A
    /// value below `memory_bytes`, or beyond the available address space, counts as `memory_bytes`.
    pub memory_bytes_max: u64,
    /// The size of a segment, a power of two. `None` selects 1 MiB, or less for a small memory.
    pub segment_bytes: Option<u32>,
    /// The maximum size of an item, key and value, in bytes.
    pub item_bytes_max: u64,
    /// Number of threads that will open a handle.
    pub handles_max: usize,
    /// The seed that makes the places of keys unpredictable.
    pub hash_seed: u64,
    /// True if huge pages are requested.
    pub huge_pages: bool,
}

/// The reason why a store cannot be created.
#[derive(Debug)]
pub enum StartError {
    /// The memory is too small for the segments that handles, classes and the reserve need.
    MemoryTooSmall {
        /// The requested memory, in bytes.
        memory_bytes: u64,
        /// Least memory that works, in bytes.
        least_bytes: u64,
    },
    /// The memory is larger than the index can name.
    MemoryTooLarge {
        /// The largest heap, in bytes.
        most_bytes: u64,
    },
    /// The segment size is not a power of two, or is outside 1 KiB ..= 1 MiB.
    SegmentBytes(u32),
    /// An item would not fit into half of the memory, or is longer than a length field allows.
    ItemTooLarge {
        /// The largest item maximum for this memory, in bytes.
        most_bytes: u64,
    },
    /// The operating system refused the address space.
    Map(std::io::Error),
    /// The store's file cannot be used.
    File {
        /// Path of the file.
        path: std::path::PathBuf,
        /// Reason why the file cannot be used.
        fault: crate::durable::file::FileFault,
    },
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MemoryTooSmall { memory_bytes, least_bytes } => {
                write!(f, "memory of {memory_bytes} bytes is too small: pass at least {least_bytes} bytes")
            }
            Self::MemoryTooLarge { most_bytes } => {
                write!(f, "the memory is larger than the index can address: pass at most {most_bytes} bytes")
            }
            Self::SegmentBytes(bytes) => {
                write!(f, "invalid segment size of {bytes} bytes: pass a power of two from 1 KiB to 1 MiB")
            }
            Self::ItemTooLarge { most_bytes } => {
                write!(f, "the maximum item size is too large for this memory: pass at most {most_bytes} bytes")
            }
            Self::Map(error) => {
                write!(f, "cannot reserve the memory: {error}; raise `ulimit -v` or pass a smaller size")
            }
            Self::File { path, fault } => write!(f, "cannot use the memory file {}: {fault}", path.display()),
        }
    }
}

impl std::error::Error for StartError {}

const SEGMENT_BYTES_MAX: u32 = 1 << 20;
const SEGMENT_BYTES_MIN: u32 = 1 << 10;
/// The approximate number of segments that a small memory is divided into, so that open ones waste little of it.
const SEGMENTS_WANTED: u64 = 1024;
const SEGMENT_BYTES_SMALL: u64 = 64 << 10;
const SEGMENTS_MIN: u64 = 16;
/// The item size that determines the initial index: it has a slot for every item of this size.
const START_ITEM_BYTES: u64 = 2048;
/// The size of a header, in bytes.
pub(crate) const HEADER_BYTES: u64 = 128;

/// The sizes that follow from a [`StoreConfig`] and never change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Upper bound of a resize, in bytes.
    pub(crate) memory_bytes_max: u64,
    pub(crate) segment_bytes: usize,
    pub(crate) segment_shift: u32,
    /// Segments that address space is reserved for.
    pub(crate) segments_max: usize,
    pub(crate) groups_start: usize,
    /// Index groups that address space is reserved for.
    pub(crate) groups_max: usize,
    /// The fixed number of groups of the index, if it does not depend on the memory.
    pub(crate) groups_fixed: Option<usize>,
    /// Room of a second tier in the file, in bytes.
    pub(crate) tier_bytes: u64,
    /// The largest item that is stored whole, header included, in bytes. Larger ones are stored in pieces.
    pub(crate) item_whole_max: usize,
    /// The length of the longest value that is stored whole, in bytes.
    pub(crate) value_whole_max: usize,
    /// A piece's value, in bytes. Pieces are shorter than the longest whole value, because on average half a piece is
    /// left unused at a segment's end.
    pub(crate) piece_bytes: usize,
    pub(crate) item_bytes_max: u64,
    pub(crate) handles_max: usize,
}

/// The sizes that follow from the memory, and change with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The background keeps at least this many segments free: 2 %.
    pub(crate) free_low: usize,
    /// The last free segments, which only the background may take: relocation frees more than it uses.
    pub(crate) free_reserve: usize,
    /// Open segments a handle may have; the background's count is the same.
    pub(crate) open_max: usize,
    /// Largest number of groups of the index.
    pub(crate) groups_max: usize,
}

impl Geometry {
    pub(crate) fn of(config: &StoreConfig) -> Result<Self, StartError> {
        Self::sized(config, None)
    }

    /// Returns the geometry with an index of `groups` groups that keeps its size, and `tier_bytes` of a second tier in
    /// its file.
    pub(crate) fn with_index(config: &StoreConfig, groups: usize, tier_bytes: u64) -> Result<Self, StartError> {
        Ok(Self { tier_bytes, ..Self::sized(config, Some(groups))? })
    }

    fn sized(config: &StoreConfig, groups_fixed: Option<usize>) -> Result<Self, StartError> {
        let memory = config.memory_bytes;
        let segment_bytes = match config.segment_bytes {
            Some(bytes) if bytes.is_power_of_two() && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) => bytes,
            Some(bytes) => return Err(StartError::SegmentBytes(bytes)),
            None => {
                let wanted = (memory / SEGMENTS_WANTED).clamp(SEGMENT_BYTES_SMALL, u64::from(SEGMENT_BYTES_MAX));
                1 << wanted.ilog2()
            }
        } as u64;
        let item_whole_max = segment_bytes as usize / 8;
        let mut geometry = Self {
            memory_bytes_max: config.memory_bytes_max.max(memory),
            segment_bytes: segment_bytes as usize,
            segment_shift: segment_bytes.trailing_zeros(),
            segments_max: 0,
            groups_start: groups_fixed.unwrap_or(groups_for(memory)),
            groups_max: 0,
            groups_fixed,
            tier_bytes: 0,
            item_whole_max,
            value_whole_max: item_whole_max - PIECE_OVERHEAD,
            piece_bytes: (segment_bytes as usize / 32).max(PIECE_BYTES_MIN).min(item_whole_max) - PIECE_OVERHEAD,
            item_bytes_max: config.item_bytes_max,
            handles_max: config.handles_max,
        };
        let groups = geometry.groups_start;
        let segments = geometry.segments_for(memory, groups);
        if segments < geometry.segments_min() {
            return Err(StartError::MemoryTooSmall { memory_bytes: memory, least_bytes: geometry.least_start_bytes() });
        }
        if segments as u64 * segment_bytes > HEAP_BYTES_MAX {
            return Err(StartError::MemoryTooLarge { most_bytes: HEAP_BYTES_MAX });
        }
        let item_most = (segments as u64 * segment_bytes / 2).min(u64::from(u32::MAX));
        if config.item_bytes_max > item_most {
            return Err(StartError::ItemTooLarge { most_bytes: item_most });
        }
        geometry.memory_bytes_max = geometry.memory_bytes_max.min(HEAP_BYTES_MAX).max(memory);
        let most = geometry.segments_for(geometry.memory_bytes_max, groups);
        geometry.segments_max = most.min((HEAP_BYTES_MAX / segment_bytes) as usize).max(segments);
        geometry.groups_max =
            groups_fixed.unwrap_or((geometry.memory_bytes_max as usize / GROUP_BYTES).max(groups + 1));
        Ok(geometry)
    }

    /// Returns the number of segments that fit into `memory_bytes` beside an index of `groups` groups.
    pub(crate) fn segments_for(&self, memory_bytes: u64, groups: usize) -> usize {
        let fixed = groups as u64 * GROUP_BYTES as u64 + Index::stripes_bytes() as u64;
        (memory_bytes.saturating_sub(fixed) / (self.segment_bytes as u64 + HEADER_BYTES)) as usize
    }

    /// Returns the number of segments that handles and background have open at once, plus some to evict from.
    fn segments_min(&self) -> usize {
        SEGMENTS_MIN as usize + 2 * OPEN_MIN * (self.handles_max + 1)
    }

    /// Returns the least quota of a namespace, in segments: what handles and background have open for it, some that are
    /// kept free, and some to evict from.
    pub(crate) fn quota_segments_min(&self) -> usize {
        self.segments_min() + self.handles_max
    }

    /// Returns the least quota in bytes, which is also large enough for the largest item.
    pub(crate) fn least_quota_bytes(&self) -> u64 {
        let for_items = (3 * self.item_bytes_max).div_ceil(self.segment_bytes as u64);
        (self.quota_segments_min() as u64).max(for_items) * (self.segment_bytes as u64 + HEADER_BYTES)
    }

    /// Returns the least memory that a store can begin with, in bytes. The index is a twentieth of it or less.
    fn least_start_bytes(&self) -> u64 {
        let segments = self.segments_min() as u64 * (self.segment_bytes as u64 + HEADER_BYTES);
        if let Some(groups) = self.groups_fixed {
            return self.bytes_of(self.segments_min(), groups);
        }
        (segments + Index::stripes_bytes() as u64) * 105 / 100 + GROUP_BYTES as u64
    }

    /// Returns the least memory in which the store can run with an index of `groups` groups, in bytes.
    pub(crate) fn least_bytes(&self, groups: usize) -> u64 {
        let for_items = (2 * self.item_bytes_max).div_ceil(self.segment_bytes as u64);
        self.bytes_of(for_items.max(self.segments_min() as u64) as usize, groups)
    }

    /// Returns the least memory that a resize may request, in bytes. The index then has its initial size.
    pub(crate) fn least_resize_bytes(&self) -> u64 {
        let index_share = START_ITEM_BYTES * GROUP_SLOTS as u64 / GROUP_BYTES as u64;
        (self.least_bytes(2)).div_ceil(index_share - 1) * index_share
    }

    /// Returns the bytes of `segments` segments and `groups` index groups.
    pub(crate) fn bytes_of(&self, segments: usize, groups: usize) -> u64 {
        let fixed = groups as u64 * GROUP_BYTES as u64 + Index::stripes_bytes() as u64;
        fixed + segments as u64 * (self.segment_bytes as u64 + HEADER_BYTES)
    }

    /// Returns the limits that follow from `memory_bytes`.
    pub(crate) fn limits(&self, memory_bytes: u64) -> Limits {
        let segments = self.segments_for(memory_bytes, self.groups_fixed.unwrap_or(groups_for(memory_bytes)));
        let free_reserve = 2 + segments / 200;
        let least = self.least_bytes(0);
        let index_most = memory_bytes.saturating_sub(least) as usize / GROUP_BYTES;
        Limits {
            free_low: (segments / 50).max(free_reserve + self.handles_max + 1),
            free_reserve,
            open_max: (segments / 10 / (self.handles_max + 1)).clamp(OPEN_MIN, OPEN_MAX),
            groups_max: self.groups_fixed.unwrap_or(index_most.min(self.groups_max)),
        }
    }
}

/// Returns the groups of an index that has a slot for every item of [`START_ITEM_BYTES`].
pub(crate) fn groups_for(memory_bytes: u64) -> usize {
    (memory_bytes / START_ITEM_BYTES).div_ceil(GROUP_SLOTS as u64).max(1) as usize
}

/// The maximum number of open segments in one table: every class of a namespace and a few more.
pub(crate) const OPEN_MAX: usize = 64;
/// The minimum number of open segments in one table: both units of expiry in both queues, so that a table never
/// alternates between sealing one segment and opening another.
pub(crate) const OPEN_MIN: usize = 4;
/// The minimum length of a piece, in bytes, if a segment holds eight of them. Each piece costs a slot and a receive.
const PIECE_BYTES_MIN: usize = 32 << 10;
/// Header, extended lengths, expiry and hidden key of a piece, rounded up.
const PIECE_OVERHEAD: usize = 40;

const _: () = assert!(KEY_BYTES_MAX < SEGMENT_BYTES_MAX as usize / 8);

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn config(memory_bytes: u64, handles_max: usize) -> StoreConfig {
        StoreConfig {
            memory_bytes,
            memory_bytes_max: 0,
            segment_bytes: None,
            item_bytes_max: 1 << 20,
            handles_max,
            hash_seed: 1,
            huge_pages: false,
        }
    }

    #[test]
    fn segments_are_1_mib_and_smaller_for_small_memories() {
        let of = |mib: u64| Geometry::of(&config(mib << 20, 2)).expect("geometry");
        assert_eq!(of(4096).segment_bytes, 1 << 20);
        assert_eq!(of(512).segment_bytes, 512 << 10);
        assert_eq!(of(64).segment_bytes, 64 << 10);
        let open_max = of(64).limits(64 << 20).open_max;
        assert!(open_max >= 24, "two workers open every class of one namespace on 64 MiB");
        let g = of(64);
        let index = (g.groups_start * GROUP_BYTES) as u64;
        assert!(g.segments_max as u64 * (g.segment_bytes as u64 + HEADER_BYTES) + index <= 64 << 20);
    }

    #[test]
    fn impossible_geometry_is_rejected_with_smallest_valid_size() {
        match Geometry::of(&config(1 << 20, 2)) {
            Err(StartError::MemoryTooSmall { least_bytes, .. }) => {
                let mut again = config(least_bytes, 2);
                again.item_bytes_max = 1000;
                assert!(Geometry::of(&again).is_ok(), "the size that the error names is enough");
            }
            other => panic!("{other:?}"),
        }
        let mut big = config(64 << 20, 2);
        big.item_bytes_max = 1 << 30;
        assert!(matches!(Geometry::of(&big), Err(StartError::ItemTooLarge { .. })));
        let mut odd = config(64 << 20, 2);
        odd.segment_bytes = Some(3000);
        assert!(matches!(Geometry::of(&odd), Err(StartError::SegmentBytes(3000))));
    }
}
