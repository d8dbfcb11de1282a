//! Marks and tombstones: bits in the memory file about items on flash, used if the file contains no index. Marks record
//! which items are dead. Tombstones record which keys were changed while the items of an earlier process were still
//! being searched.
//!
//! ```text
//!   table ... | tombstones: one bit per block, at least 2^20;    | marks: 16 bits for each block of 512 bytes;
//!             |   a key's hash selects its bit                 |   an item's tag selects one of its block's bits
//! ```
//!
//! - A mark is set before its item's slot changes. The marks of a region are cleared before the region starts another
//!   life. If a live item shares the block and the bit of a dead item, the next start treats the live item as dead too.
//! - A tombstone is set before a key is changed, as long as the search is not complete. An item that is found later and
//!   whose hash has a tombstone is dead. Tombstones are cleared when the next search starts. The number of tombstone
//!   bits is fixed, so changed keys need no additional memory. Several keys share a bit, however: the more bits are
//!   set, the more items of unchanged keys are lost.

use segment::FlashAddress;

use crate::regions::Sizes;
use crate::table::{Table, words_for};

/// Number of marks for one block.
const BITS: usize = 16;
const WORD_BITS: usize = u64::BITS as usize;
/// Minimum size of the tombstone bitmap, in bits.
const TOMBSTONES_MIN: usize = 1 << 20;

/// Positions of tombstones and marks among the words of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    graves_at: usize,
    tombstones: usize,
    marks_at: usize,
    /// Number of words for the marks of one region.
    region_words: usize,
}

impl Marks {
    /// Returns the positions for `regions` regions.
    pub(crate) fn of(regions: usize, sizes: Sizes) -> Self {
        let region_words = sizes.region_bytes / FlashAddress::BLOCK_BYTES * BITS / WORD_BITS;
        assert!(region_words > 0, "{sizes:?}");
        let tombstones = (regions * sizes.region_bytes / FlashAddress::BLOCK_BYTES).max(TOMBSTONES_MIN);
        let graves_at = words_for(regions);
        Self { graves_at, tombstones, marks_at: graves_at + tombstones.div_ceil(WORD_BITS), region_words }
    }

    /// Returns the index after the last word of the marks, if there are `regions` regions.
    pub(crate) fn end(&self, regions: usize) -> usize {
        self.marks_at + regions * self.region_words
    }

    fn mark(&self, at: FlashAddress, tag: u16) -> (usize, u64) {
        let bit = usize::from(at.block()) * BITS + usize::from(tag) % BITS;
        (self.marks_at + at.region() as usize * self.region_words + bit / WORD_BITS, 1 << (bit % WORD_BITS))
    }

    fn tombstone(&self, hash: u64) -> (usize, u64) {
        let bit = ((u128::from(hash) * self.tombstones as u128) >> 64) as usize;
        (self.graves_at + bit / WORD_BITS, 1 << (bit % WORD_BITS))
    }
}

impl Table {
    /// Marks the item as dead.
    pub(crate) fn set_mark(&self, at: FlashAddress, tag: u16) {
        if let Some(marks) = &self.marks {
            let (word, bit) = marks.mark(at, tag);
            self.room.set_bits(word, bit);
        }
    }

    pub(crate) fn is_marked(&self, at: FlashAddress, tag: u16) -> bool {
        let is_set = |(word, bit): (usize, u64)| self.room.load(word) & bit != 0;
        self.marks.is_some_and(|marks| is_set(marks.mark(at, tag)))
    }

    /// Marks all items that begin in a part of a region as dead.
    pub(crate) fn mark_all(&self, region: u32, from: usize, bytes: usize) {
        if let Some(marks) = &self.marks {
            let (words_of, region) = (|bytes| bytes / FlashAddress::BLOCK_BYTES * BITS / WORD_BITS, region as usize);
            let first = marks.marks_at + region * marks.region_words + words_of(from);
            (first..first + words_of(bytes)).for_each(|word| self.room.store(word, u64::MAX));
        }
    }

    /// Clears all marks of a region.
    pub(crate) fn clear_marks(&self, region: u32) {
        if let Some(marks) = &self.marks {
            let first = marks.marks_at + region as usize * marks.region_words;
            (first..first + marks.region_words).for_each(|word| self.room.store(word, 0));
        }
    }

    /// Sets the tombstone for keys with this hash.
    pub(crate) fn add_tombstone(&self, hash: u64) {
        if let Some(marks) = &self.marks {
            let (word, bit) = marks.tombstone(hash);
            if self.room.load(word) & bit == 0 {
                self.room.set_bits(word, bit);
            }
        }
    }

    pub(crate) fn has_tombstone(&self, hash: u64) -> bool {
        let is_set = |(word, bit): (usize, u64)| self.room.load(word) & bit != 0;
        self.marks.is_some_and(|marks| is_set(marks.tombstone(hash)))
    }

    /// Clears all tombstones.
    pub(crate) fn clear_tombstones(&self) {
        if let Some(marks) = &self.marks {
            (marks.graves_at..marks.marks_at).for_each(|word| self.room.store(word, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use segment::{TierPlan, TierRoom};

    use super::*;

    #[test]
    fn marks_and_graves_are_of_their_items_and_go_with_their_region() {
        let sizes = Sizes { region_bytes: 64 << 10, chunk_bytes: 16 << 10 };
        let marks = Marks::of(3, sizes);
        let plan = TierPlan {
            index_slots: 0,
            bytes: 0,
            regions: 3,
            words: marks.end(3),
            chunks: 0,
            chunk_bytes: 0,
            finds: true,
        };
        let table = Table { room: TierRoom::private(&plan).expect("memory"), marks: Some(marks) };
        let at = |region, block| FlashAddress::new(1, region, block, 1);
        let places: Vec<(FlashAddress, u16)> = (0..3)
            .flat_map(|region| (0..128).flat_map(move |block| (0..16).map(move |tag| (at(region, block), tag))))
            .collect();
        for (at, tag) in &places {
            assert!(!table.is_marked(*at, *tag), "{at:?} {tag}: another's mark");
            table.set_mark(*at, *tag);
            assert!(table.is_marked(*at, *tag));
        }
        table.clear_marks(1);
        table.mark_all(1, 16 << 10, 16 << 10);
        let marked = |block: u16| table.is_marked(at(1, block), 3);
        assert!((0..128).all(|block| marked(block) == (32..64).contains(&block)), "those of one chunk");
        table.clear_marks(1);
        let left = places.iter().filter(|(at, tag)| table.is_marked(*at, *tag));
        assert!(left.clone().all(|(at, _)| at.region() != 1) && left.count() == 2 * 128 * 16);
        for hash in [0, u64::MAX, 1 << 63] {
            assert!(!table.has_tombstone(hash));
            table.add_tombstone(hash);
            assert!(table.has_tombstone(hash));
        }
        table.clear_tombstones();
        assert!(![0, u64::MAX, 1 << 63].into_iter().any(|hash| table.has_tombstone(hash)));
        assert!(table.is_marked(at(2, 127), 15), "marks stay");
    }
}
