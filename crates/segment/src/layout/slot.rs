//! The index slot: a u64 that names an item in memory or on flash, or is a ghost, which records an item that was
//! evicted or has expired.
//!
//! ```text
//!  63       52 51  49  48  47        39 38                                     0
//! +-----------+------+----+------------+-----------------------------------------+
//! |  tag 12   | freq | 0  | generation |  location 39: address / 4               |   item in memory
//! +-----------+------+----+----------+-+-----------+-----------------+-----------+
//! |  tag 12   | freq | 1  | gener. 7 | region 20   |    block 15     | blocks 6  |   item on flash
//! +-----------+------+----+----------+-+-----------+-----------------+-----------+
//! |  tag 12   | st. 3| 0  |     0      |  1 | stamp 6 |  group hash 32           |   ghost
//! +-----------+------+----+------------+-----------------------------------------+
//! |  0                                                                           |   empty
//! +------------------------------------------------------------------------------+
//! ```
//! - `freq`: the number of reads of the item, at most [`FREQ_MAX`], in the lower two bits. The upper bit of an item in
//!   memory is set when a read first finds that the item has ended (expired or flushed); then the read is counted.
//! - The bit at 48 is the tier: 0 is memory; 1 is flash, and [`crate::tier::FlashAddress`] defines the lower bits.
//! - `generation`: 1..=511, derived from the segment's; 0 marks a ghost, so no item's slot is ever 0.
//! - A ghost contains the group hash of its key, from which a growth of the index finds the ghost's new group.
//! - A ghost's stamp is the time at which it was left, on the clock of [`crate::index::ghosts`]. The upper 3 of its 9
//!   bits are in the place of `freq`.

use crate::tier::FlashAddress;

/// An index slot's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u64);

/// The maximum read count of a slot: S3-FIFO needs two bits of history.
pub(crate) const FREQ_MAX: u64 = 3;

const TAG_SHIFT: u32 = 52;
const FREQ_SHIFT: u32 = 49;
/// The bit of `freq` that is set when a read has found the ended item.
const END_READ: u64 = 4 << FREQ_SHIFT;
const GENERATION_SHIFT: u32 = 39;
const LOCATION_BITS: u32 = 39;
const LOCATION_MASK: u64 = (1 << LOCATION_BITS) - 1;
const GHOST_MARK: u64 = 1 << 38;
/// The number of times that a ghost's stamp distinguishes.
pub(crate) const GHOST_STAMPS: u32 = 512;
const STAMP_SHIFT: u32 = 32;
const STAMP_LOW_BITS: u32 = 6;
const STAMP_LOW_MASK: u64 = (1 << STAMP_LOW_BITS) - 1;
/// The bits of a ghost's stamp.
const STAMP: u64 = 7 << FREQ_SHIFT | STAMP_LOW_MASK << STAMP_SHIFT;
/// The bit that is set if the item is on flash.
const TIER: u64 = 1 << FlashAddress::BITS;
/// The number of generations that a slot distinguishes.
const GENERATIONS: u32 = 511;

/// The largest heap that a slot can name, in bytes.
pub(crate) const HEAP_BYTES_MAX: u64 = (1 << LOCATION_BITS) * 4;

impl Slot {
    pub(crate) const EMPTY: Self = Self(0);

    /// Returns a slot that names the item at `address` (in bytes from the heap's start) in a segment of that
    /// generation.
    pub(crate) fn item(tag: u16, freq: u64, generation: u16, address: usize) -> Self {
        debug_assert!(tag < 1 << 12 && freq <= FREQ_MAX);
        debug_assert!((1..=511).contains(&generation) && address.is_multiple_of(4));
        let location = address as u64 / 4;
        assert!(location <= LOCATION_MASK, "address {address} is past what a slot can name");
        Self(
            (u64::from(tag) << TAG_SHIFT)
                | (freq << FREQ_SHIFT)
                | (u64::from(generation) << GENERATION_SHIFT)
                | location,
        )
    }

    /// Returns a ghost, which records that a key with this tag and group hash had an item until the time `stamp`.
    pub(crate) fn ghost(tag: u16, group_hash: u32, stamp: u32) -> Self {
        debug_assert!(stamp < GHOST_STAMPS);
        let (high, low) = (u64::from(stamp) >> STAMP_LOW_BITS, u64::from(stamp) & STAMP_LOW_MASK);
        let stamp = high << FREQ_SHIFT | low << STAMP_SHIFT;
        Self((u64::from(tag) << TAG_SHIFT) | stamp | GHOST_MARK | u64::from(group_hash))
    }

    /// Returns a slot that names the item at address `at` on flash.
    pub(crate) fn flash(tag: u16, freq: u64, at: FlashAddress) -> Self {
        debug_assert!(tag < 1 << 12 && freq <= FREQ_MAX);
        Self((u64::from(tag) << TAG_SHIFT) | (freq << FREQ_SHIFT) | TIER | at.bits())
    }

    /// Returns true if the slot names an item in memory.
    #[inline(always)]
    pub(crate) fn is_item(self) -> bool {
        // Reads the tier and the generation as one number of 10 bits, which is 1..=511 for an item in memory.
        ((self.0 >> GENERATION_SHIFT) & 0x3ff).wrapping_sub(1) < 0x1ff
    }

    /// Returns true if the slot names an item on flash.
    #[inline(always)]
    pub(crate) fn is_flash(self) -> bool {
        self.0 & TIER != 0
    }

    /// Returns true if the slot names an item, in memory or on flash.
    #[inline(always)]
    pub(crate) fn is_taken(self) -> bool {
        self.is_item() || self.is_flash()
    }

    #[inline(always)]
    pub(crate) fn is_ghost(self) -> bool {
        !self.is_taken() && self.0 != 0
    }

    /// Returns the address of the item on flash.
    pub(crate) fn flash_address(self) -> FlashAddress {
        debug_assert!(self.is_flash());
        FlashAddress::of_bits(self.0)
    }

    #[inline(always)]
    pub(crate) fn tag(self) -> u16 {
        (self.0 >> TAG_SHIFT) as u16
    }

    #[inline(always)]
    pub(crate) fn freq(self) -> u64 {
        (self.0 >> FREQ_SHIFT) & FREQ_MAX
    }

    /// Returns the slot with the mark that a read has found the ended item, or `None` if the slot has the mark.
    pub(crate) fn with_end_read(self) -> Option<Self> {
        debug_assert!(self.is_item());
        (self.0 & END_READ == 0).then_some(Self(self.0 | END_READ))
    }

    #[inline(always)]
    pub(crate) fn generation(self) -> u16 {
        ((self.0 >> GENERATION_SHIFT) & 0x1ff) as u16
    }

    /// Returns the item's address in bytes from the heap's start.
    #[inline(always)]
    pub(crate) fn address(self) -> usize {
        debug_assert!(self.is_item());
        ((self.0 & LOCATION_MASK) * 4) as usize
    }

    /// Returns the group hash that a ghost contains.
    pub(crate) fn ghost_group_hash(self) -> u32 {
        debug_assert!(self.is_ghost());
        self.0 as u32
    }

    /// Returns the time at which the ghost was left.
    pub(crate) fn ghost_stamp(self) -> u32 {
        debug_assert!(self.is_ghost());
        let (high, low) = (self.0 >> FREQ_SHIFT & 7, self.0 >> STAMP_SHIFT & STAMP_LOW_MASK);
        (high << STAMP_LOW_BITS | low) as u32
    }

    /// Returns true if both slots are ghosts of one key, whatever their stamps.
    #[inline(always)]
    pub(crate) fn same_ghost(self, other: Self) -> bool {
        (self.0 ^ other.0) & !STAMP == 0
    }

    /// Returns true if both slots name the same item, whatever its frequency.
    #[inline(always)]
    pub(crate) fn same_item(self, other: Self) -> bool {
        const FREQ: u64 = 7 << FREQ_SHIFT;
        (self.0 & !FREQ) == (other.0 & !FREQ)
    }

    #[inline(always)]
    pub(crate) fn with_freq(self, freq: u64) -> Self {
        debug_assert!(freq <= FREQ_MAX);
        Self((self.0 & !(7 << FREQ_SHIFT)) | (freq << FREQ_SHIFT))
    }
}

/// Returns the nine bits of a segment's generation that a slot stores: 1..=511.
#[inline(always)]
pub(crate) fn slot_generation(segment_generation: u32) -> u16 {
    1 + (segment_generation % GENERATIONS) as u16
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn slot_fields_round_trip_without_overlap() {
        for tag in [0, 1, 0xfff] {
            for freq in [0, 1, 3] {
                for generation in [1, 511] {
                    for address in [0, 4, (HEAP_BYTES_MAX - 4) as usize] {
                        let slot = Slot::item(tag, freq, generation, address);
                        assert!(slot.is_item() && !slot.is_ghost());
                        assert_eq!((slot.tag(), slot.freq()), (tag, freq));
                        assert_eq!((slot.generation(), slot.address()), (generation, address));
                        let other = slot.with_freq(3 - freq);
                        assert!(other.same_item(slot) && other.freq() == 3 - freq);
                    }
                }
            }
        }
    }

    #[test]
    fn an_item_on_flash_is_no_item_in_memory_and_no_ghost_whatever_its_address() {
        for (generation, region, block, blocks) in
            [(0, 0, 0, 1), (127, (1 << 20) - 1, (1 << 15) - 1, 63), (64, 5, 0, 2)]
        {
            let at = FlashAddress::new(generation, region, block, blocks);
            for (tag, freq) in [(0, 0), (0xfff, 3), (0x800, 2)] {
                let slot = Slot::flash(tag, freq, at);
                assert!(slot.is_flash() && slot.is_taken() && !slot.is_item() && !slot.is_ghost());
                assert_eq!((slot.tag(), slot.freq(), slot.flash_address()), (tag, freq, at));
                assert!(slot.with_freq(3 - freq).same_item(slot));
                let at = slot.flash_address();
                assert_eq!((at.generation(), at.region()), (generation, region));
                assert_eq!((at.block(), at.blocks()), (block, blocks));
            }
        }
        assert!(!Slot::item(1, 1, 511, 4).is_flash() && !Slot::ghost(0xfff, u32::MAX, 511).is_flash());
    }

    #[test]
    fn a_ghost_is_neither_empty_nor_an_item_whatever_its_hash() {
        let ghost = Slot::ghost(0, 0, 0);
        assert!(ghost.is_ghost() && !ghost.is_item() && ghost != Slot::EMPTY);
        for stamp in 0..GHOST_STAMPS {
            let ghost = Slot::ghost(0xfff, u32::MAX, stamp);
            assert!(ghost.is_ghost() && !ghost.is_taken());
            assert_eq!((ghost.tag(), ghost.ghost_group_hash(), ghost.ghost_stamp()), (0xfff, u32::MAX, stamp));
            assert!(ghost.same_ghost(Slot::ghost(0xfff, u32::MAX, 0)));
            assert!(!ghost.same_ghost(Slot::ghost(0xffe, u32::MAX, stamp)) && !ghost.same_ghost(Slot::EMPTY));
        }
        assert!(!Slot::EMPTY.is_ghost() && !Slot::EMPTY.is_item());
    }

    #[test]
    fn slot_generations_are_never_zero() {
        for generation in 0..2000 {
            assert!((1..=511).contains(&slot_generation(generation)));
        }
    }
}
