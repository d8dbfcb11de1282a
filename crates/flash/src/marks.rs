//! What a memory file says of items on flash where it has no slots that would: which are dead, and which keys were
//! changed while items of an earlier process were not found yet.
//!
//! ```text
//!   table ... | graves: one bit for each block, 2^20 at least    | marks: 16 bits for each block of 512 bytes
//!             |   chosen by a key's hash                         |   one of a block's chosen by an item's tag
//! ```
//!
//! - A mark is set before its item's slot changes, and the marks of a region are cleared before that is given another
//!   life. Who shares block and bit with a dead item is lost with it at the next start, and at no other time.
//! - A grave is dug before the change of a key, as long as flash is not found. What is found then with a hash that has
//!   a grave is dead. Graves are cleared when the next such time begins: they are bits, so they are never full; with
//!   many of them more is lost that had none.

use segment::FlashAddress;

use crate::regions::Sizes;
use crate::table::{Table, words_for};

/// Marks of a block.
const BITS: usize = 16;
const WORD_BITS: usize = u64::BITS as usize;
/// Graves at least.
const GRAVES_MIN: usize = 1 << 20;

/// Positions of graves and marks among the words of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    graves_at: usize,
    graves: usize,
    marks_at: usize,
    /// Words of a region's marks.
    region_words: usize,
}

impl Marks {
    /// For so many regions.
    pub(crate) fn of(regions: usize, sizes: Sizes) -> Self {
        let region_words = sizes.region_bytes / FlashAddress::BLOCK_BYTES * BITS / WORD_BITS;
        assert!(region_words > 0, "{sizes:?}");
        let graves = (regions * sizes.region_bytes / FlashAddress::BLOCK_BYTES).max(GRAVES_MIN);
        let graves_at = words_for(regions);
        Self { graves_at, graves, marks_at: graves_at + graves.div_ceil(WORD_BITS), region_words }
    }

    /// One past the last word.
    pub(crate) fn end(&self, regions: usize) -> usize {
        self.marks_at + regions * self.region_words
    }

    fn mark(&self, at: FlashAddress, tag: u16) -> (usize, u64) {
        let bit = usize::from(at.block()) * BITS + usize::from(tag) % BITS;
        (self.marks_at + at.region() as usize * self.region_words + bit / WORD_BITS, 1 << (bit % WORD_BITS))
    }

    fn grave(&self, hash: u64) -> (usize, u64) {
        let bit = ((u128::from(hash) * self.graves as u128) >> 64) as usize;
        (self.graves_at + bit / WORD_BITS, 1 << (bit % WORD_BITS))
    }
}

impl Table {
    /// The item there is dead.
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

    /// All that begins in a part of a region is dead.
    pub(crate) fn mark_all(&self, region: u32, from: usize, bytes: usize) {
        if let Some(marks) = &self.marks {
            let (words_of, region) = (|bytes| bytes / FlashAddress::BLOCK_BYTES * BITS / WORD_BITS, region as usize);
            let first = marks.marks_at + region * marks.region_words + words_of(from);
            (first..first + words_of(bytes)).for_each(|word| self.room.store(word, u64::MAX));
        }
    }

    /// Clears the marks of a region, so that no item there is dead.
    pub(crate) fn clear_marks(&self, region: u32) {
        if let Some(marks) = &self.marks {
            let first = marks.marks_at + region as usize * marks.region_words;
            (first..first + marks.region_words).for_each(|word| self.room.store(word, 0));
        }
    }

    /// Keys with this hash are changed.
    pub(crate) fn dig_grave(&self, hash: u64) {
        if let Some(marks) = &self.marks {
            let (word, bit) = marks.grave(hash);
            if self.room.load(word) & bit == 0 {
                self.room.set_bits(word, bit);
            }
        }
    }

    pub(crate) fn has_grave(&self, hash: u64) -> bool {
        let is_set = |(word, bit): (usize, u64)| self.room.load(word) & bit != 0;
        self.marks.is_some_and(|marks| is_set(marks.grave(hash)))
    }

    /// No key was changed.
    pub(crate) fn clear_graves(&self) {
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
            assert!(!table.has_grave(hash));
            table.dig_grave(hash);
            assert!(table.has_grave(hash));
        }
        table.clear_graves();
        assert!(![0, u64::MAX, 1 << 63].into_iter().any(|hash| table.has_grave(hash)));
        assert!(table.is_marked(at(2, 127), 15), "marks stay");
    }
}
