//! Counts of the keys that each namespace has on flash. Each thread counts items in its own counters. This module holds
//! the corrections to the sums of those counters.
//!
//! ```text
//!   region    | its life | last block taken | for each namespace: its balance, the first block not flushed |
//!
//!   taken    adds 1 to the balance of the item's namespace
//!   gone     subtracts 1 from the balance of the item's namespace; if the item was not read, its namespace is unknown,
//!            and 1 is subtracted for the namespace of the item that replaces it
//!   the next life begins: all items of the previous life are gone, so every balance should be 0. A balance that is not
//!            0 was counted for the wrong namespace; it is added to `wrong`
//! ```
//!
//! A slot does not contain its item's namespace, and an operation that replaces the slot does not read the item.
//! Occasionally the item belongs to another namespace ([decision 0013](../../../docs/decisions/0013-flash-tier.md)),
//! and its loss is then counted for the wrong namespace. A flush ends items but does not clear their slots. When a
//! slot of a flushed item is cleared, its address shows that the flush ended the item, because a region is filled from
//! its front.
//!
//! - A count is wrong only by items that were replaced without a read since the lives of their regions began. If all
//!   items belong to one namespace, the count is exact, except for items in the last block before a flush.
//! - All regions of earlier processes count as one region, whose life ends when the last of them begins its next life.
//! - Only the background's thread stores items on flash, so only this thread begins lives of regions.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU64, AtomicUsize};

use crate::layout::key::Namespace;
use crate::layout::raw::Array;
use crate::tier::FlashAddress;

const SPACES: usize = Namespace::MAX;
/// The life number of a region that this process has not begun. All other life numbers are the generation in the
/// region's addresses plus one.
const UNKNOWN: u8 = 0;

/// The counts of one region in its current life. If all fields are zero, the life is unknown.
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

/// The counts of all regions of earlier processes together.
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
    /// For each namespace, the number of items that the threads' counters include but that do not exist. It is negative
    /// if they include too few.
    wrong: [AtomicI64; SPACES],
    /// For each namespace, the number of items that a flush has ended but that slots still name.
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

    /// Counts items of earlier processes for a namespace.
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

    /// Records that `left` of the items that are counted for a namespace do not exist. `was_flushed` is true if the
    /// namespace was flushed in the life of their region.
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
                // Because of damage, this item did not lose its slot in the life of its region.
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

    /// Records that all items of a namespace on flash are flushed. `counted` is the sum of the threads' counters. No
    /// item is written to flash meanwhile.
    pub(crate) fn flush(&self, namespace: u8, counted: i64) {
        let space = usize::from(namespace);
        self.flushed[space].store(self.items(namespace, counted), Relaxed);
        self.earlier.flushed[space].store(true, Relaxed);
        let regions = (0..self.regions.len()).map(|number| self.regions.at(number));
        for region in regions.filter(|region| region.life.load(Relaxed) != UNKNOWN) {
            region.flushed_to[space].store(region.last.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Returns the number of items of a namespace on flash that slots name. `counted` is the sum of the threads'
    /// counters.
    pub(crate) fn items(&self, namespace: u8, counted: i64) -> u64 {
        (counted - self.wrong[usize::from(namespace)].load(Relaxed)).max(0) as u64
    }

    /// Returns the number of items of a namespace on flash that slots name and that no flush has ended.
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
        // Each namespace has five items. All ten are counted as gone from namespace 0.
        (0..10).for_each(|block| keys.gone(at(1, 0, block), 0, None));
        assert_eq!((keys.items(0, -5), keys.items(1, 5)), (0, 5), "corrected only in the next life");
        keys.taken(at(2, 0, 0), 1);
        assert_eq!((keys.items(0, -5), keys.items(1, 6)), (0, 1));
    }

    #[test]
    fn counts_of_an_earlier_process_are_corrected_after_its_last_region() {
        let keys = FlashKeys::new(2).expect("memory");
        // Counted by an estimate: in fact, each namespace had three items.
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
        assert_eq!(keys.keys(0, 8), 2, "the item was stored after the flush");
        keys.gone(at(1, 0, 2), 0, None);
        assert_eq!(keys.keys(0, 7), 2, "the item was stored before the flush");
        keys.flush(0, 7);
        assert_eq!(keys.keys(0, 7), 0);
    }
}
