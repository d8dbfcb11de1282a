//! Sums of items, of a store in a file: what was torn or damaged is known for what it is.
//!
//! ```text
//!   sum = low half of XXH3( key, value )   seeded with   the store's seed | segment sequence | offset | header, flags
//! ```
//!
//! - A sum is of one life of one place: bytes that an earlier life left, or that were brought from elsewhere, never
//!   pass for an item that is whole.
//! - What changes in place is left out: DEAD, CAS_TAKEN, META, the end, the CAS field, a number. Each is one word,
//!   which is never torn; damage to one is not seen.
//! - Written before the item has a slot. Compared by whatever goes over all items (the scrub, a rebuilt index, `gannet
//!   file check`), and by lookups until all slots of an earlier process were looked at ([`crate::durable::verify`]).

use std::sync::atomic::Ordering::Acquire;

use crate::heap::segments::Segments;
use crate::layout::item::Layout;

/// An odd number that spreads what is frozen beside the bytes.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Segments {
    /// Returns the sum of the item at an address.
    pub(crate) fn sum(&self, seed: u64, address: usize, layout: &Layout) -> u32 {
        let (bytes, frozen) = layout.frozen(&self.heap, address);
        // As a CAS token names it.
        let offset = (address & (self.segment_bytes() - 1)) as u64 / 4;
        let place = (self.header_of(address).sequence() << crate::layout::header::TOKEN_OFFSET_BITS) | offset;
        let seed = seed ^ place.wrapping_add(frozen.wrapping_mul(SPREAD));
        xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed) as u32
    }

    /// Returns true if the item at an address is what was written there.
    pub(crate) fn is_sound(&self, seed: u64, address: usize, layout: &Layout) -> bool {
        !self.heap.has_sums()
            || self.heap.word32(layout.sum_address(address)).load(Acquire) == self.sum(seed, address, layout)
    }
}

/// Returns the seed of sums, from that of the hash of keys.
pub(crate) fn seed(hash_seed: u64) -> u64 {
    base::prng::split_mix(hash_seed ^ SPREAD)
}
