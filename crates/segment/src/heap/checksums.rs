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
//! - An item with a wrong checksum has trusted lengths only if a walk can continue behind it. Otherwise a part of the
//!   segment is damaged, and the walk continues at the next item with the right checksum.
//! - The checksum is written before the item has an index slot. It is verified by all walks over items (the scrub, the
//!   rebuild of the index, `gannet file check`), and by lookups until all slots of an earlier process are verified
//!   ([`crate::durable::verify`]).

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::heap::segments::{SegmentId, Segments};
use crate::layout::item::{DEAD, Layout, dead_span};

/// An odd factor that spreads the unchanging fields of an item over all bits of the checksum seed.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// The distance of the places where an item may begin, in bytes.
pub(crate) const ITEM_STEP: usize = 4;
/// The number of dead items without a right checksum that a walk steps over before it believes their lengths. Such
/// items are left by reservations that were not used.
const UNUSED_IN_A_ROW_MAX: usize = 64;

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

/// An item as a walk over a segment finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkedItem {
    pub(crate) layout: Layout,
    /// True if the item is live and its checksum is wrong.
    pub(crate) is_damaged: bool,
}

impl Segments {
    /// Returns the layout of the item at an offset in a segment. Returns `None` if no item fits there.
    fn layout_in(&self, id: SegmentId, at: usize) -> Option<Layout> {
        let written = self.header(id).written.load(Acquire) as usize;
        Layout::read_within(&self.heap, self.start(id) + at, written.min(self.segment_bytes()).saturating_sub(at))
    }

    /// Returns the item at an offset at which a walk over a segment expects one. Returns `None` if the segment is
    /// damaged there. Without checksums the lengths are always trusted.
    pub(crate) fn walked(&self, seed: u64, id: SegmentId, at: usize) -> Option<WalkedItem> {
        let layout = self.layout_in(id, at)?;
        let is_damaged = !layout.has(DEAD) && !self.is_sound(seed, self.start(id) + at, &layout);
        (!is_damaged || self.leads_on(seed, id, at + layout.size)).then_some(WalkedItem { layout, is_damaged })
    }

    /// Returns the layout of the item at an offset at which the repair of a segment expects one. Returns `None` if the
    /// segment is damaged there. In contrast to [`Segments::walked`], does not trust the length of a dead item without
    /// a right checksum unless the walk can continue behind it.
    pub(crate) fn repaired(&self, seed: u64, id: SegmentId, at: usize) -> Option<Layout> {
        let layout = self.layout_in(id, at)?;
        let is_trusted = self.is_sound(seed, self.start(id) + at, &layout) || self.leads_on(seed, id, at + layout.size);
        is_trusted.then_some(layout)
    }

    /// Returns the item at an offset behind a damaged part, if its checksum is right.
    pub(crate) fn sound_item(&self, seed: u64, id: SegmentId, at: usize) -> Option<WalkedItem> {
        let layout = self.layout_in(id, at).filter(|_| self.heap.has_sums())?;
        self.is_sound(seed, self.start(id) + at, &layout).then_some(WalkedItem { layout, is_damaged: false })
    }

    /// Returns true if a walk can continue at an offset: it is the segment's end, or an item with the right checksum
    /// follows there, perhaps behind dead items.
    fn leads_on(&self, seed: u64, id: SegmentId, mut at: usize) -> bool {
        let written = self.header(id).written.load(Acquire) as usize;
        for _ in 0..UNUSED_IN_A_ROW_MAX {
            if at == written {
                return true;
            }
            let Some(layout) = self.layout_in(id, at) else { return false };
            if self.is_sound(seed, self.start(id) + at, &layout) {
                return true;
            }
            if !layout.has(DEAD) {
                return false;
            }
            at += layout.size;
        }
        true
    }

    /// Writes dead items over a damaged part of a segment, so that later walks step over it.
    pub(crate) fn cover(&self, id: SegmentId, damaged: std::ops::Range<usize>) {
        let mut spans = Vec::new();
        let mut at = damaged.start;
        while at < damaged.end {
            let (header, bytes) = dead_span(damaged.end - at);
            spans.push((self.start(id) + at, header));
            at += bytes;
        }
        // The first item is written last: until then a walk finds the damage as it was.
        spans.into_iter().rev().for_each(|(address, header)| self.heap.word32(address).store(header, Release));
    }
}

/// Returns the seed of checksums, derived from the seed of the key hash.
pub(crate) fn seed(hash_seed: u64) -> u64 {
    base::prng::split_mix(hash_seed ^ SPREAD)
}
