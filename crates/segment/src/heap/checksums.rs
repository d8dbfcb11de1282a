//! Checksums of the items of a store in a memory file, which detect torn and damaged items.
//!
//! ```text
//!   sum = low half of XXH3( key, value )   seeded with   the store's seed | segment sequence | offset | header, flags
//! ```
//!
//! - A checksum is valid only for one place and one use of its segment. Bytes from an earlier use, or from another
//!   place, are never accepted as an intact item.
//! - Fields that change in place are left out: DEAD, CAS_TAKEN, META, the expiry, the CAS field, a number. Each of
//!   these fields is one word, which is never torn. Damage to such a field is not detected.
//! - The checksum is written before the item has an index slot. It is verified by all walks over items (the scrub, the
//!   rebuild of the index, `gannet file check`), and by lookups until all slots of an earlier process are verified
//!   ([`crate::durable::verify`]).

use std::sync::atomic::Ordering::Acquire;

use crate::heap::segments::Segments;
use crate::layout::item::Layout;

/// An odd factor that spreads the unchanging fields of an item over all bits of the checksum seed.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Segments {
    /// Returns the checksum of the item at an address.
    pub(crate) fn sum(&self, seed: u64, address: usize, layout: &Layout) -> u32 {
        let (bytes, frozen) = layout.frozen(&self.heap, address);
        // Combines the segment's sequence and the offset as a CAS token does.
        let offset = (address & (self.segment_bytes() - 1)) as u64 / 4;
        let place = (self.header_of(address).sequence() << crate::layout::header::TOKEN_OFFSET_BITS) | offset;
        let seed = seed ^ place.wrapping_add(frozen.wrapping_mul(SPREAD));
        xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed) as u32
    }

    /// Returns true if the checksum of the item at an address is right, or if the item has none.
    pub(crate) fn is_sound(&self, seed: u64, address: usize, layout: &Layout) -> bool {
        !self.heap.has_sums()
            || self.heap.word32(layout.sum_address(address)).load(Acquire) == self.sum(seed, address, layout)
    }
}

/// Returns the seed of checksums, derived from the seed of the key hash.
pub(crate) fn seed(hash_seed: u64) -> u64 {
    base::prng::split_mix(hash_seed ^ SPREAD)
}
