//! The sizes of a store, computed once from the memory that it may use.

use crate::index::{GROUP_BYTES, GROUP_SLOTS, Index};
use crate::layout::item::KEY_BYTES_MAX;
use crate::layout::slot::HEAP_BYTES_MAX;

/// The configured sizes and settings of a store.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The memory limit of segments, their headers and the index together, in bytes. The store never uses more, except
    /// while it shrinks after [`crate::Store::resize`] has lowered the limit.
    pub memory_bytes: u64,
    /// The maximum to which [`crate::Store::resize`] may raise the limit, in bytes: address space is reserved for it. A
    /// value below `memory_bytes`, or beyond the available address space, counts as `memory_bytes`.
    pub memory_bytes_max: u64,
    /// The size of a segment, a power of two. `None` selects 1 MiB, or less for a small memory.
    pub segment_bytes: Option<u32>,
    /// The maximum size of an item, key and value, in bytes.
    pub item_bytes_max: u64,
    /// The maximum number of thread handles that are opened.
    pub handles_max: usize,
    /// The seed of the key hash, so that clients cannot predict the places of keys in the index.
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
        /// The smallest possible memory limit, in bytes.
        least_bytes: u64,
    },
    /// The memory is larger than the range of addresses that an index slot can hold.
    MemoryTooLarge {
        /// The largest heap, in bytes.
        most_bytes: u64,
    },
    /// The segment size is not a power of two, or is outside 1 KiB ..= 1 MiB.
    SegmentBytes(u32),
    /// An item would not fit into half of the memory, or is longer than a length field allows.
    ItemTooLarge {
        /// The largest possible item size limit for this memory, in bytes.
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
/// The approximate number of segments into which a small memory is divided, so that partly filled open segments waste
/// little of it.
const SEGMENTS_WANTED: u64 = 1024;
const SEGMENT_BYTES_SMALL: u64 = 64 << 10;
const SEGMENTS_MIN: u64 = 16;
/// The item size that determines the size of the initial index, in bytes. The index has enough slots if the memory is
/// full of items of this size.
const START_ITEM_BYTES: u64 = 2048;
/// The size of a segment header, in bytes.
pub(crate) const HEADER_BYTES: u64 = 128;

impl StoreConfig {
    /// Returns true if the memory has room for the segments that this number of thread handles has open at once.
    pub fn has_room_for(&self, handles_max: usize) -> bool {
        let sized = Geometry::of(&Self { handles_max, ..self.clone() });
        !matches!(sized, Err(StartError::MemoryTooSmall { .. }))
    }
}

/// The sizes that follow from a [`StoreConfig`] and never change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// The maximum memory limit that a resize may set, in bytes.
    pub(crate) memory_bytes_max: u64,
    pub(crate) segment_bytes: usize,
    pub(crate) segment_shift: u32,
    /// The number of segments for which address space is reserved.
    pub(crate) segments_max: usize,
    pub(crate) groups_start: usize,
    /// The number of index groups for which address space is reserved.
    pub(crate) groups_max: usize,
    /// The number of index groups, if it is fixed and does not follow from the memory limit.
    pub(crate) groups_fixed: Option<usize>,
    /// The space that the second tier's state takes in the memory file, in bytes.
    pub(crate) tier_bytes: u64,
    /// The largest item that is stored whole, header included, in bytes. Larger values are stored in pieces.
    pub(crate) item_whole_max: usize,
    /// The length of the longest value that is stored whole, in bytes.
    pub(crate) value_whole_max: usize,
    /// The length of the longest plain value that is stored whole, in bytes, if its key is short. Shorter than
    /// `value_whole_max` where pieces waste less of the memory.
    pub(crate) plain_whole_max: usize,
    /// The length of a piece's value, in bytes. Pieces are shorter than the longest whole value, because on average
    /// half a piece's length stays unused at the end of each segment.
    pub(crate) piece_bytes: usize,
    pub(crate) item_bytes_max: u64,
    pub(crate) handles_max: usize,
}

/// The limits that follow from the memory limit, and change with each resize.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of segments that the background keeps free: the reserve, and a hundredth of all segments. A handle
    /// that finds none waits for the background, which is called at once.
    pub(crate) free_low: usize,
    /// The number of free segments that only the background may take, because relocation frees more segments than it
    /// takes.
    pub(crate) free_reserve: usize,
    /// The maximum number of open segments of one handle. The same limit applies to the background.
    pub(crate) open_max: usize,
    /// The maximum number of index groups.
    pub(crate) groups_max: usize,
}

/// The length of items for which each quota has room.
const QUOTA_ITEM_BYTES: u64 = 1 << 20;

impl Geometry {
    pub(crate) fn of(config: &StoreConfig) -> Result<Self, StartError> {
        Self::sized(config, None)
    }

    /// Returns the geometry of a store with a second tier: its index has a fixed size of `groups` groups, and the tier
    /// takes `tier_bytes` bytes in the memory file, or none if the memory is not in a file.
    pub(crate) fn with_index(config: &StoreConfig, groups: usize, tier_bytes: u64) -> Result<Self, StartError> {
        let sized = Self::sized(config, Some(groups))?;
        // The second tier takes no value in pieces.
        Ok(Self { tier_bytes, plain_whole_max: sized.value_whole_max, ..sized })
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
            plain_whole_max: item_whole_max.min(PLAIN_BYTES_MIN.max(segment_bytes as usize / 16)) - PIECE_OVERHEAD,
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

    /// Returns the same sizes with another length of pieces: that which a file records, or 0 for that of version 3.
    pub(crate) fn with_pieces(self, recorded_bytes: u64) -> Self {
        let of_version_3 = (self.segment_bytes / 32).max(PIECE_BYTES_MIN_3).min(self.item_whole_max) - PIECE_OVERHEAD;
        let piece_bytes = if recorded_bytes == 0 { of_version_3 } else { recorded_bytes as usize };
        Self { piece_bytes: piece_bytes.min(self.item_whole_max - PIECE_OVERHEAD), ..self }
    }

    /// Returns the number of segments that fit into `memory_bytes` beside an index of `groups` groups.
    pub(crate) fn segments_for(&self, memory_bytes: u64, groups: usize) -> usize {
        let fixed = groups as u64 * GROUP_BYTES as u64 + Index::stripes_bytes() as u64;
        (memory_bytes.saturating_sub(fixed) / (self.segment_bytes as u64 + HEADER_BYTES)) as usize
    }

    /// Returns the smallest number of segments that a store needs: those that handles and background have open at once,
    /// and some from which items can be evicted.
    fn segments_min(&self) -> usize {
        SEGMENTS_MIN as usize + 2 * OPEN_MIN * (self.handles_max + 1)
    }

    /// Returns the smallest quota of a namespace, in segments: those that handles and background have open for the
    /// namespace, some that are kept free, and some from which items can be evicted.
    pub(crate) fn quota_segments_min(&self) -> usize {
        self.segments_min() + self.handles_max
    }

    /// Returns the smallest quota of a namespace, in bytes. It is also large enough for a few of the largest items, or
    /// of [`QUOTA_ITEM_BYTES`] if those are longer: an item of a namespace is at most a third of its quota.
    pub(crate) fn least_quota_bytes(&self) -> u64 {
        let for_items = (3 * self.item_bytes_max.min(QUOTA_ITEM_BYTES)).div_ceil(self.segment_bytes as u64);
        (self.quota_segments_min() as u64).max(for_items) * (self.segment_bytes as u64 + HEADER_BYTES)
    }

    /// Returns the smallest memory limit at which a store can start, in bytes. The initial index takes at most a
    /// twentieth of it.
    fn least_start_bytes(&self) -> u64 {
        let segments = self.segments_min() as u64 * (self.segment_bytes as u64 + HEADER_BYTES);
        if let Some(groups) = self.groups_fixed {
            return self.bytes_of(self.segments_min(), groups);
        }
        (segments + Index::stripes_bytes() as u64) * 105 / 100 + GROUP_BYTES as u64
    }

    /// Returns the smallest memory limit for a store whose index has `groups` groups, in bytes.
    pub(crate) fn least_bytes(&self, groups: usize) -> u64 {
        let for_items = (2 * self.item_bytes_max).div_ceil(self.segment_bytes as u64);
        self.bytes_of(for_items.max(self.segments_min() as u64) as usize, groups)
    }

    /// Returns the smallest memory limit that a resize may request, in bytes. The index then has its initial size.
    pub(crate) fn least_resize_bytes(&self) -> u64 {
        let index_share = START_ITEM_BYTES * GROUP_SLOTS as u64 / GROUP_BYTES as u64;
        (self.least_bytes(2)).div_ceil(index_share - 1) * index_share
    }

    /// Returns the memory of `segments` segments and `groups` index groups together, in bytes.
    pub(crate) fn bytes_of(&self, segments: usize, groups: usize) -> u64 {
        let fixed = groups as u64 * GROUP_BYTES as u64 + Index::stripes_bytes() as u64;
        fixed + segments as u64 * (self.segment_bytes as u64 + HEADER_BYTES)
    }

    /// Returns the limits that follow from a memory limit of `memory_bytes` bytes.
    pub(crate) fn limits(&self, memory_bytes: u64) -> Limits {
        let segments = self.segments_for(memory_bytes, self.groups_fixed.unwrap_or(groups_for(memory_bytes)));
        // Segments on their way to flash are freed later than others, so more are kept free with a second tier.
        let (reserve, kept_free) = match self.groups_fixed {
            None => (1, (segments / 100).max(1)),
            Some(_) => (2, (segments / 100).max(self.handles_max + 1)),
        };
        let free_reserve = reserve + segments / 200;
        let least = self.least_bytes(0);
        let index_most = memory_bytes.saturating_sub(least) as usize / GROUP_BYTES;
        Limits {
            free_low: free_reserve + kept_free,
            free_reserve,
            open_max: (segments / 10 / (self.handles_max + 1)).clamp(OPEN_MIN, OPEN_MAX),
            groups_max: self.groups_fixed.unwrap_or(index_most.min(self.groups_max)),
        }
    }
}

/// Returns the number of groups of an index with enough slots for a memory that is full of items of
/// [`START_ITEM_BYTES`] bytes.
pub(crate) fn groups_for(memory_bytes: u64) -> usize {
    (memory_bytes / START_ITEM_BYTES).div_ceil(GROUP_SLOTS as u64).max(1) as usize
}

/// The maximum number of open segments in one thread's table: enough for every TTL class of a namespace, and a few
/// more.
pub(crate) const OPEN_MAX: usize = 64;
/// The minimum number of open segments in one thread's table: one for each of the two units of expiry in each of the
/// two queues. With fewer, a thread could alternate between sealing one segment and opening another.
pub(crate) const OPEN_MIN: usize = 4;
/// The minimum length of a piece, in bytes, if a segment has room for eight such pieces. On average half a piece stays
/// unused at the end of a segment, and each piece takes 50 bytes beside its value: in a segment of 64 KiB both together
/// take 4 % with pieces of 4 KiB, and 7 % with pieces of 8 KiB.
const PIECE_BYTES_MIN: usize = 4 << 10;
/// The minimum length of a piece in files of version 3, in bytes.
const PIECE_BYTES_MIN_3: usize = 32 << 10;
/// The minimum length of the longest plain item that is stored whole, in bytes, if an eighth of a segment is longer.
/// The values that fit into a segment fill it up to half a value on average: with values of an eighth, 6 % of it stay
/// unused. From segments of 256 KiB on, pieces waste less, with the 50 bytes that each takes beside its value.
const PLAIN_BYTES_MIN: usize = 16 << 10;
/// The bytes of a piece beside its value: header, extended lengths, expiry and hidden key, rounded up.
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
    fn memory_has_room_for_as_many_handles_as_a_store_with_them_starts() {
        let config = config(64 << 20, 1);
        let most = (1..400).rev().find(|handles| config.has_room_for(*handles)).expect("one handle fits");
        let of = |handles_max| Geometry::of(&StoreConfig { handles_max, ..config.clone() });
        assert!((50..200).contains(&most) && of(most).is_ok() && of(most + 1).is_err(), "{most}");
        assert!(!StoreConfig { memory_bytes: 1 << 20, ..config }.has_room_for(1));
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
