//! Checksums of items of a store in a file: they detect torn and damaged items.
//!
//! ```text
//!   sum = low half of XXH3( key, value )   seeded with   the store's seed | segment sequence | offset | header, flags
//! ```
//!
//! - A checksum is valid for one life of one place. Bytes of an earlier life, or bytes from another place, never pass
//!   for an intact item.
//! - Fields that change in place are left out: DEAD, CAS_TAKEN, META, the expiry, the CAS field, a number. Each is one
//!   word, which is never torn. Damage to one is not detected.
//! - It is written before the item has a slot. It is compared by all walks over items (the scrub, the rebuild of the
//!   index, `gannet file check`), and by lookups until all slots of an earlier process are verified
//!   ([`crate::durable::verify`]).

use std::sync::atomic::Ordering::Acquire;

use crate::heap::segments::Segments;
use crate::layout::item::Layout;

/// An odd factor that spreads the frozen fields beside the bytes.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Segments {
    /// Returns the sum of the item at an address.
    pub(crate) fn sum(&self, seed: u64, address: usize, layout: &Layout) -> u32 {
        let (bytes, frozen) = layout.frozen(&self.heap, address);
        // The offset as in a CAS token.
        let offset = (address & (self.segment_bytes() - 1)) as u64 / 4;
        let place = (self.header_of(address).sequence() << crate::layout::header::TOKEN_OFFSET_BITS) | offset;
        let seed = seed ^ place.wrapping_add(frozen.wrapping_mul(SPREAD));
        xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed) as u32
    }

    /// Returns true if the item at an address is undamaged.
    pub(crate) fn is_sound(&self, seed: u64, address: usize, layout: &Layout) -> bool {
        !self.heap.has_sums()
            || self.heap.word32(layout.sum_address(address)).load(Acquire) == self.sum(seed, address, layout)
    }
}

/// Returns the seed of checksums, derived from the seed of the key hash.
pub(crate) fn seed(hash_seed: u64) -> u64 {
    base::prng::split_mix(hash_seed ^ SPREAD)
}
