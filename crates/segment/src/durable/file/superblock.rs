//! The superblock: the layout of a file, in two copies of which one is always intact.
//!
//! ```text
//!   page 0   copy 0   number 7   checksum          the intact copy with the higher number is valid;
//!   page 1   copy 1   number 8   checksum   <--    the next superblock overwrites the other copy
//! ```
//!
//! Words of 64 bits: magic, version, layout hash, number, the fields in the order of [`Superblock`], and zeros up to
//! the last word of the first 512 bytes. That word is the checksum (XXH3) of all words before it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::raw::{Array, Word64};

/// The first eight bytes of a file.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"GANNETMM");
/// The version of the file format. Each change that an older build cannot read raises it.
pub(crate) const VERSION: u64 = 5;
/// The oldest version that this build reads. A file of an older version gets this build's version when it is opened.
pub(crate) const VERSION_MIN: u64 = 3;
/// The number of words of a copy, including the checksum.
const WORDS: usize = 64;
/// The number of words before the fields.
const FRONT: usize = 4;

/// The page of one copy.
#[derive(Debug)]
#[repr(C, align(4096))]
pub(crate) struct Page {
    words: [Word64; 512],
}

const _: () = assert!(size_of::<Page>() == 4096);

macro_rules! superblock {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The layout of a file, and the state in which it was left. Sizes are bytes, instants ms since 1970.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Superblock { $($(#[$doc])* pub(crate) $name: u64,)* }

        impl Superblock {
            /// Number of fields.
            const FIELDS: usize = [$(stringify!($name)),*].len();

            fn fields(&self) -> [u64; Self::FIELDS] {
                [$(self.$name),*]
            }

            fn of_fields(fields: [u64; Self::FIELDS]) -> Self {
                let [$($name),*] = fields;
                Self { $($name),* }
            }

            /// Returns the fields with their names.
            pub(crate) fn named(&self) -> [(&'static str, u64); Self::FIELDS] {
                [$((stringify!($name), self.$name)),*]
            }
        }
    };
}

superblock! {
    /// Length of the whole file, in bytes.
    file_bytes,
    /// Size of the store's memory, in bytes: segments, headers and index together.
    memory_bytes,
    /// Size of a segment, in bytes.
    segment_bytes,
    /// Maximum number of segments in the file.
    segments_max,
    /// The initial number of groups of the index.
    groups_start,
    /// Maximum number of index groups in the file.
    groups_max,
    /// Random seed of the key hash, so that clients cannot predict it.
    hash_seed,
    /// The instant at which the file was created. The times in META words count from it.
    made_ms,
    /// Number of times that the file was opened since its creation.
    opened,
    /// 1: the creation of the file was completed.
    made,
    /// 1: the last process closed the file cleanly; 0: a process uses the file, or was killed.
    clean,
    /// The instant at which the file was last closed cleanly.
    closed_ms,
    /// 1: the index is in the memory of the process; 0: it is in the file.
    index_in_dram,
    /// Total size of the flash devices, in bytes; 0: the store has no flash.
    flash_bytes,
    /// Bytes of the file that are reserved for the state of the flash.
    flash_room_bytes,
    /// 1: the process that last used the file made checkpoints.
    checkpoints,
    /// High half of the ID of the boot in which the file was last opened. Both halves are 0 if the ID is unknown.
    boot_high,
    /// Low half of the boot ID.
    boot_low,
    /// 1: every process so far has marked an item as dead before it cleared the item's slot.
    marked,
    /// Length of every piece of a large value except the last, in bytes; 0: the length of version 3.
    piece_bytes,
}

const _: () = assert!(Superblock::FIELDS + FRONT < WORDS);

/// The content of a superblock's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuperblockState {
    /// An intact copy of this version and layout, with its number.
    Whole { block: Superblock, number: u64 },
    /// An intact copy of another version.
    OtherVersion(u64),
    /// An intact copy of this version, from a build with another layout.
    OtherLayout,
    /// No copy is intact, but the page held one.
    Damaged,
    /// Only zeros.
    Blank,
    /// Bytes that are no superblock: not only zeros, and no copy begins with the magic number.
    Foreign,
}

/// Returns the checksum of words.
fn checksum(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, MAGIC)
}

fn load(page: &Page) -> [u64; WORDS] {
    std::array::from_fn(|at| page.words[at].load(Acquire))
}

/// The two copies of a file.
#[derive(Debug)]
pub(crate) struct Superblocks {
    pages: Array<Page>,
    layout_hash: u64,
}

impl Superblocks {
    /// Returns the copies in the first two pages of a file, for a build whose layout has this hash.
    pub(crate) fn of(pages: Array<Page>, layout_hash: u64) -> Self {
        assert!(pages.len() == 2, "two copies");
        Self { pages, layout_hash }
    }

    /// Returns the state of the superblock: the intact copy with the higher number, or why there is none.
    pub(crate) fn find(&self) -> SuperblockState {
        let copies = [0, 1].map(|at| load(self.pages.at(at)));
        let is_whole = |words: &&[u64; WORDS]| words[0] == MAGIC && words[WORDS - 1] == checksum(&words[..WORDS - 1]);
        let Some(words) = copies.iter().filter(is_whole).max_by_key(|words| words[3]) else {
            return match copies.iter().flatten().all(|word| *word == 0) {
                true => SuperblockState::Blank,
                false if copies.iter().any(|words| words[0] == MAGIC) => SuperblockState::Damaged,
                false => SuperblockState::Foreign,
            };
        };
        if !(VERSION_MIN..=VERSION).contains(&words[1]) {
            return SuperblockState::OtherVersion(words[1]);
        }
        if words[2] != self.layout_hash {
            return SuperblockState::OtherLayout;
        }
        let fields = words[FRONT..FRONT + Superblock::FIELDS].try_into().expect("as many as there are");
        SuperblockState::Whole { block: Superblock::of_fields(fields), number: words[3] }
    }

    /// Writes the block over the copy that is not valid.
    pub(crate) fn write(&self, block: &Superblock) {
        let number = if let SuperblockState::Whole { number, .. } = self.find() { number + 1 } else { 0 };
        let mut words = [0; WORDS];
        words[..FRONT].copy_from_slice(&[MAGIC, VERSION, self.layout_hash, number]);
        words[FRONT..FRONT + Superblock::FIELDS].copy_from_slice(&block.fields());
        words[WORDS - 1] = checksum(&words[..WORDS - 1]);
        let page = self.pages.at((number % 2) as usize);
        for (word, value) in page.words.iter().zip(words) {
            word.store(value, Relaxed);
        }
        std::sync::atomic::fence(Release);
    }

    /// Overwrites a word of a copy.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn damage(&self, copy: usize, word: usize, to: u64) {
        self.pages.at(copy).words[word].store(to, Release);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn blank(layout_hash: u64) -> Superblocks {
        Superblocks::of(Array::reserve(2, false).expect("reserve"), layout_hash)
    }

    #[test]
    fn latest_superblock_copy_is_used_and_torn_copy_falls_back() {
        let blocks = blank(9);
        assert_eq!(blocks.find(), SuperblockState::Blank);
        let block = |opened| Superblock { file_bytes: 77, opened, ..Superblock::default() };
        for opened in 0..5 {
            blocks.write(&block(opened));
            assert_eq!(blocks.find(), SuperblockState::Whole { block: block(opened), number: opened });
        }
        blocks.damage(0, FRONT + 1, 4711);
        assert_eq!(blocks.find(), SuperblockState::Whole { block: block(3), number: 3 });
        blocks.write(&block(9));
        assert_eq!(blocks.find(), SuperblockState::Whole { block: block(9), number: 4 });
        blocks.damage(0, FRONT + 1, 4711);
        blocks.damage(1, FRONT + 1, 4711);
        assert_eq!(blocks.find(), SuperblockState::Damaged);
    }

    #[test]
    fn foreign_superblock_is_distinguished_from_other_version_or_layout() {
        let blocks = blank(9);
        blocks.damage(1, 100 % WORDS, 1);
        assert_eq!(blocks.find(), SuperblockState::Foreign);
        let blocks = blank(9);
        blocks.write(&Superblock::default());
        let other = Superblocks { layout_hash: 10, ..blocks };
        assert_eq!(other.find(), SuperblockState::OtherLayout);
        let mut words = load(other.pages.at(0));
        words[1] = VERSION + 1;
        other.damage(0, 1, VERSION + 1);
        other.damage(0, WORDS - 1, checksum(&words[..WORDS - 1]));
        assert_eq!(other.find(), SuperblockState::OtherVersion(VERSION + 1));
    }
}
