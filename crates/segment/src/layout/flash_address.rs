//! The address of an item on flash, as an index slot holds it.

/// The address of an item on flash.
///
/// ```text
///  47        41 40                  21 20             6 5        0
/// +------------+----------------------+----------------+----------+
/// | generation |      region 20       |    block 15    | blocks 6 |
/// +------------+----------------------+----------------+----------+
/// ```
///
/// A block is 512 bytes. The item begins in block `block` of its region and occupies `blocks` blocks, wholly or in
/// part; 63 means 63 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashAddress(u64);

impl FlashAddress {
    /// The number of bits of an address.
    pub const BITS: u32 = 48;
    /// The size of a block in bytes. A block is the unit of addresses.
    pub const BLOCK_BYTES: usize = 512;
    /// The maximum number of blocks of a region.
    pub const REGION_BLOCKS_MAX: usize = 1 << 15;
    /// The maximum number of regions.
    pub const REGIONS_MAX: usize = 1 << 20;
    /// The value of the `blocks` field for an item of 63 or more blocks. The item's header contains the exact length.
    pub const BLOCKS_MANY: u8 = 63;

    /// Returns the address of an item.
    pub fn new(generation: u8, region: u32, block: u16, blocks: u8) -> Self {
        let fits = generation < 128 && (region as usize) < Self::REGIONS_MAX && block < 1 << 15;
        assert!(fits && (1..=Self::BLOCKS_MANY).contains(&blocks), "{generation} {region} {block} {blocks}");
        let (generation, region, block) = (u64::from(generation), u64::from(region), u64::from(block));
        Self(generation << 41 | region << 21 | block << 6 | u64::from(blocks))
    }

    pub(crate) fn of_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Returns the generation, which identifies the life of the item's region.
    pub fn generation(self) -> u8 {
        (self.0 >> 41) as u8 & 0x7f
    }

    /// Returns the number of the item's region.
    pub fn region(self) -> u32 {
        (self.0 >> 21) as u32 & ((1 << 20) - 1)
    }

    /// Returns the number of the block, within its region, in which the item begins.
    pub fn block(self) -> u16 {
        (self.0 >> 6) as u16 & 0x7fff
    }

    /// Returns the number of blocks that the item occupies, wholly or in part, at most [`FlashAddress::BLOCKS_MANY`].
    pub fn blocks(self) -> u8 {
        self.0 as u8 & 0x3f
    }
}
