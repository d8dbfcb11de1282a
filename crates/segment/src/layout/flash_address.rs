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
/// A block is 512 bytes; the item begins in block `block` of its region and reaches into `blocks` of them, where 63
/// means that many or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashAddress(u64);

impl FlashAddress {
    /// Bits of an address.
    pub const BITS: u32 = 48;
    /// Size of a block, the unit of addresses, in bytes.
    pub const BLOCK_BYTES: usize = 512;
    /// The maximum number of blocks of a region.
    pub const REGION_BLOCKS_MAX: usize = 1 << 15;
    /// The maximum number of regions.
    pub const REGIONS_MAX: usize = 1 << 20;
    /// The block count of an item of this many blocks or more. The item's header has the exact number.
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

    /// Returns the generation: the number of the life of its region.
    pub fn generation(self) -> u8 {
        (self.0 >> 41) as u8 & 0x7f
    }

    /// Returns the region.
    pub fn region(self) -> u32 {
        (self.0 >> 21) as u32 & ((1 << 20) - 1)
    }

    /// Returns the block of the region that the item begins in.
    pub fn block(self) -> u16 {
        (self.0 >> 6) as u16 & 0x7fff
    }

    /// Returns the number of blocks that the item reaches into, at most [`FlashAddress::BLOCKS_MANY`].
    pub fn blocks(self) -> u8 {
        self.0 as u8 & 0x3f
    }
}
