//! Counts the keys that each namespace has on flash. This module holds the part of the counts that the threads' own
//! counters cannot include.
//!
//! ```text
//!   region    | its life | last block taken | for each namespace: items named less those gone, flushed before block |
//!
//!   taken    one more of the item's namespace
//!   gone     one less of the item's namespace, or, if unread, of the namespace that stores in its place
//!   the next life begins: all of the one before are gone. What is left was counted for the wrong one: mended
//! ```
//!
//! A slot does not contain its item's namespace, and an operation that replaces the slot does not read the item.
//! Occasionally the item belongs to another namespace ([decision 0013](../../../docs/decisions/0013-flash-tier.md)),
//! and its loss is then counted for the wrong namespace. A flush ends items but does not clear their slots. When such a
//! slot is cleared, its address shows whether the flush ended its item, because a region is filled from its front.
//!
//! - A count is wrong only by the items that were stored over since the regions' lives began. If all items have one
//!   namespace, it is exact, except for items that share a block with the last one before a flush.
//! - All regions of an earlier process count as one region, whose life ends when the last of them begins its next life.
//! - Only the background's thread stores items on flash, so only this thread begins lives of regions.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU64, AtomicUsize};

use crate::layout::key::Namespace;
use crate::layout::raw::Array;
use crate::tier::FlashAddress;

const SPACES: usize = Namespace::MAX;
/// Number of the life of a region that an earlier process began, or that none began. All other lives are one more than
/// addresses say.
const UNKNOWN: u8 = 0;

/// One region, in its life. All zero is one whose life is unknown.
#[derive(Debug)]
pub(crate) struct Region {
    life: AtomicU8,
    last: AtomicU16,
    balance: [AtomicI32; SPACES],
    /// For each namespace, the number of a block: items from this block on were stored after the last flush.
    flushed_to: [AtomicU16; SPACES],
}

fn life_of(at: FlashAddress) -> u8 {
    at.generation() + 1
}

/// All regions of earlier processes together.
#[derive(Debug, Default)]
struct Earlier {
    regions: AtomicUsize,
    balance: [AtomicI64; SPACES],
    flushed: [AtomicBool; SPACES],
}

/// The counts of keys on flash, for each region and namespace: see the module.
#[derive(Debug)]
pub(crate) struct FlashKeys {
    regions: Array<Region>,
    earlier: Earlier,
    /// For each namespace, the number of items that are counted but do not exist.
    wrong: [AtomicI64; SPACES],
    /// For each namespace, the number of items that a flush has ended and that slots still name.
    flushed: [AtomicU64; SPACES],
}

impl FlashKeys {
    /// Creates the counts for `regions` regions.
    ///
    /// # Errors
    /// If the address space cannot be reserved.
    pub(crate) fn new(regions: usize) -> io::Result<Self> {
        let earlier = Earlier { regions: AtomicUsize::new(regions), ..Earlier::default() };
        // A map cannot be empty.
        let regions = Array::reserve(regions.max(1), false)?;
        Ok(Self { regions, earlier, wrong: Default::default(), flushed: Default::default() })
    }

    fn region(&self, at: FlashAddress) -> Option<&Region> {
        self.regions.get(at.region() as usize).filter(|region| region.life.load(Relaxed) == life_of(at))
    }

    /// Counts an item of a namespace at an address, which a slot will name.
    pub(crate) fn taken(&self, at: FlashAddress, namespace: u8) {
        let Some(region) = self.regions.get(at.region() as usize) else { return };
        let life = region.life.load(Relaxed);
        if life == UNKNOWN && at.block() > 0 {
            return self.found(namespace, 1);
        }
        if life != life_of(at) {
            self.begin(region, life_of(at));
        }
        region.last.store(at.block(), Relaxed);
        region.balance[usize::from(namespace)].fetch_add(1, Relaxed);
    }

    /// Counts items of an earlier process for a namespace.
    pub(crate) fn found(&self, namespace: u8, items: u64) {
        self.earlier.balance[usize::from(namespace)].fetch_add(items as i64, Relaxed);
    }

    fn begin(&self, region: &Region, life: u8) {
        let was = region.life.swap(life, Relaxed);
        for namespace in 0..SPACES {
            let left = region.balance[namespace].swap(0, Relaxed);
            self.mend(namespace, left.into(), region.flushed_to[namespace].swap(0, Relaxed) > 0);
        }
        if was == UNKNOWN && self.earlier.regions.fetch_sub(1, Relaxed) == 1 {
            for namespace in 0..SPACES {
                let left = self.earlier.balance[namespace].swap(0, Relaxed);
                self.mend(namespace, left, self.earlier.flushed[namespace].load(Relaxed));
            }
        }
    }

    /// Records that `left` of the items that are counted for a namespace do not exist.
    fn mend(&self, namespace: usize, left: i64, was_flushed: bool) {
        self.wrong[namespace].fetch_add(left, Relaxed);
        if was_flushed {
            self.unflush(namespace, left.max(0) as u64);
        }
    }

    fn unflush(&self, namespace: usize, items: u64) {
        let flushed = &self.flushed[namespace];
        if items > 0 && flushed.load(Relaxed) > 0 {
            let _ = flushed.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_sub(items)));
        }
    }

    /// Records that the item at an address has lost its slot, and counts it as gone for a namespace. `lived` is true if
    /// no flush had ended the item before, or `None` if that is unknown.
    pub(crate) fn gone(&self, at: FlashAddress, namespace: u8, lived: Option<bool>) {
        let space = usize::from(namespace);
        let was_flushed = match self.region(at) {
            Some(region) => {
                region.balance[space].fetch_sub(1, Relaxed);
                at.block() < region.flushed_to[space].load(Relaxed)
            }
            None if self.earlier.regions.load(Relaxed) == 0 => {
                // Damage has kept it from going with its region.
                self.wrong[space].fetch_sub(1, Relaxed);
                true
            }
            None => {
                self.earlier.balance[space].fetch_sub(1, Relaxed);
                self.earlier.flushed[space].load(Relaxed)
            }
        };
        if lived.map_or(was_flushed, |lived| !lived) {
            self.unflush(space, 1);
        }
    }

    /// Records that all items of a namespace on flash are flushed. `counted` is the number that the threads' counters
    /// have. No item is written to flash meanwhile.
    pub(crate) fn flush(&self, namespace: u8, counted: i64) {
        let space = usize::from(namespace);
        self.flushed[space].store(self.items(namespace, counted), Relaxed);
        self.earlier.flushed[space].store(true, Relaxed);
        let regions = (0..self.regions.len()).map(|number| self.regions.at(number));
        for region in regions.filter(|region| region.life.load(Relaxed) != UNKNOWN) {
            region.flushed_to[space].store(region.last.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Returns the number of items of a namespace on flash that slots name. `counted` is the number that the threads'
    /// counters have.
    pub(crate) fn items(&self, namespace: u8, counted: i64) -> u64 {
        (counted - self.wrong[usize::from(namespace)].load(Relaxed)).max(0) as u64
    }

    /// Returns the number of those items that no flush has ended.
    pub(crate) fn keys(&self, namespace: u8, counted: i64) -> u64 {
        self.items(namespace, counted).saturating_sub(self.flushed[usize::from(namespace)].load(Relaxed))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn at(life: u8, region: u32, block: u16) -> FlashAddress {
        FlashAddress::new(life, region, block, 1)
    }

    #[test]
    fn wrong_namespace_counts_are_corrected_when_their_region_is_reused() {
        let keys = FlashKeys::new(2).expect("memory");
        (0..10).for_each(|block| keys.taken(at(1, 0, block), (block % 2) as u8));
        // Five are counted for each; all of them go in the place of items of the first.
        (0..10).for_each(|block| keys.gone(at(1, 0, block), 0, None));
        assert_eq!((keys.items(0, -5), keys.items(1, 5)), (0, 5), "not known yet");
        keys.taken(at(2, 0, 0), 1);
        assert_eq!((keys.items(0, -5), keys.items(1, 6)), (0, 1));
    }

    #[test]
    fn counts_of_an_earlier_process_are_corrected_after_its_last_region() {
        let keys = FlashKeys::new(2).expect("memory");
        // Counted by a share; three of each were there.
        keys.found(0, 2);
        keys.found(3, 4);
        // A region continues in its present life.
        keys.taken(at(7, 1, 20), 3);
        (0..3).for_each(|block| keys.gone(at(6, 0, block), 0, Some(true)));
        (0..3).for_each(|block| keys.gone(at(7, 1, block), 3, Some(true)));
        keys.taken(at(7, 0, 0), 0);
        assert_eq!((keys.items(0, 0), keys.items(3, 2)), (0, 2));
        keys.gone(at(7, 1, 20), 3, Some(true));
        keys.taken(at(8, 1, 0), 0);
        assert_eq!((keys.items(3, 1), keys.items(0, 1)), (0, 2));
    }

    #[test]
    fn position_of_a_removed_item_shows_whether_it_was_already_flushed() {
        let keys = FlashKeys::new(1).expect("memory");
        (0..6).for_each(|block| keys.taken(at(1, 0, block), 0));
        keys.flush(0, 6);
        assert_eq!(keys.keys(0, 6), 0);
        (6..9).for_each(|block| keys.taken(at(1, 0, block), 0));
        assert_eq!(keys.keys(0, 9), 3);
        keys.gone(at(1, 0, 7), 0, None);
        assert_eq!(keys.keys(0, 8), 2, "one that was stored since");
        keys.gone(at(1, 0, 2), 0, None);
        assert_eq!(keys.keys(0, 7), 2, "one that was flushed");
        keys.flush(0, 7);
        assert_eq!(keys.keys(0, 7), 0);
    }
}
