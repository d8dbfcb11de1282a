//! What an earlier process left on flash, found again where the index is gone with it: region by region, by what each
//! chunk says of its items ([`crate::footer`]).
//!
//! ```text
//!   regions, the newest first   waiting ──> asked for, a chunk each ──read──> at hand ──shown to the store──> done
//!                                  └──regions are short: the oldest is free at once, unread
//! ```
//!
//! - The search goes on while the store serves. An item that is not found yet is a miss.
//! - At any instant, a key has at most one copy on flash that lives: the old one is dead before the new one lives
//!   ([`segment::Tier`]). So the order in which chunks are read does not matter.
//! - A key that is changed meanwhile is known by its hash ([`mod@crate::marks`]): none of its items is taken from
//!   regions that were opened before this process. The graves stay until all is found. If the process is killed before,
//!   the next one adds its own graves, and they hold for all regions before it. So a key that was changed during the
//!   search and went to flash again may be a miss after such a kill, but its older item is never returned.
//! - An item that is shown and left out is marked. Graves end when all is found; marks last as long as the item.
//! - No slot names a region that was not looked at yet. It may be made free without a look at its items, before all is
//!   called found.
//! - A chunk whose footer is not what was written is skipped, with all its blocks marked. Its items are lost with what
//!   tore it, whatever a later read gives.
//!
//! Bounds: [`UNDER_WAY_MAX`] chunks are read or at hand.

use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use segment::{Shown, TierFind, TierShow};

use crate::flash::{Flash, lock};
use crate::footer::{self, Entries, Footer, Told};
use crate::log::Log;
use crate::queues::{Scratch, Work};
use crate::regions::{self, Regions};

/// Chunks that are read at once, or at hand.
const UNDER_WAY_MAX: usize = 16;
/// Bytes of a chunk's end that are read at first: more than the footer of items of 150 bytes.
const END_BYTES: usize = 64 << 10;

/// A chunk whose footer was read.
#[derive(Debug)]
struct Page {
    region: u32,
    generation: u8,
    /// Offset of the chunk in the region.
    base: usize,
    entries: Entries,
}

/// The regions and chunks whose items are still to be found.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    /// Regions that were there at the start, the newest behind.
    waiting: Vec<u32>,
    /// For each region, whether it was not looked at yet; then the number of such regions.
    unseen: Vec<bool>,
    unseen_count: usize,
    /// Regions that are filled further, and where in them what this process has made begins.
    filled: Vec<(u32, usize)>,
    /// The region whose chunks are asked for, which of them is next, and where the last one ends.
    asking: Option<(u32, usize, usize)>,
    /// The region of each chunk that is read, at hand or being shown.
    under_way: Vec<u32>,
    ready: VecDeque<Page>,
}

impl Finder {
    /// All that the table says of regions that are there.
    pub(crate) fn new(regions: &Regions, log: &Log) -> Self {
        if !regions.has_footers() {
            return Self::default();
        }
        let mut there: Vec<(u64, u32)> =
            regions.all().map(|(number, region)| (region.sequence(), number)).filter(|(at, _)| *at != 0).collect();
        there.sort_unstable();
        there.iter().for_each(|(_, region)| regions.at(*region).begin_count());
        let filled: Vec<(u32, usize)> = log.open_regions().filter(|(_, from)| *from > 0).collect();
        let is_open = |region: &u32| log.open_regions().any(|(open, _)| open == *region);
        let waiting: Vec<u32> = there.into_iter().map(|(_, number)| number).filter(|region| !is_open(region)).collect();
        let table = &regions.table;
        if waiting.is_empty() && filled.is_empty() {
            table.set_finding(false);
        } else if !table.is_finding() {
            // Cut between the two it is done again.
            table.clear_graves();
            table.set_finding(true);
        }
        let mut unseen = vec![false; regions.count()];
        waiting.iter().for_each(|region| unseen[*region as usize] = true);
        let (unseen_count, under_way) = (waiting.len(), Vec::with_capacity(UNDER_WAY_MAX));
        Self { waiting, unseen, unseen_count, filled, under_way, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unseen_count == 0 && self.filled.is_empty() && self.asking.is_none() && self.under_way.is_empty()
    }

    /// Notes that a region is looked at, or never will be; false if that was so before.
    fn see(&mut self, region: u32) -> bool {
        let was = self.unseen.get_mut(region as usize).is_some_and(std::mem::take);
        self.unseen_count -= usize::from(was);
        was
    }

    /// The next chunk to be read.
    fn take(&mut self, regions: &Regions) -> Option<(u32, usize)> {
        if self.under_way.len() == UNDER_WAY_MAX {
            return None;
        }
        let (region, from, end) = match (self.asking.take(), self.filled.pop()) {
            (Some(asking), filled) => {
                self.filled.extend(filled);
                asking
            }
            (None, Some((region, end))) => (region, 0, end),
            (None, None) => loop {
                let next = self.waiting.pop()?;
                if self.see(next) {
                    break (next, 0, regions.sizes.region_bytes);
                }
            },
        };
        let next = from + regions.sizes.chunk_bytes;
        self.asking = (next < end).then_some((region, next, end));
        self.under_way.push(region);
        Some((region, from))
    }

    /// Ends the work on a chunk of the region; false if none of its chunks is under way.
    fn end(&mut self, region: u32) -> bool {
        let place = self.under_way.iter().position(|other| *other == region);
        place.map(|place| self.under_way.swap_remove(place)).is_some()
    }

    /// Returns whether the region was not looked at yet, so that no slot names anything there.
    pub(crate) fn waits(&self, region: u32) -> bool {
        self.unseen.get(region as usize).is_some_and(|unseen| *unseen)
    }

    /// It is being looked at.
    pub(crate) fn is_at(&self, region: u32) -> bool {
        let is_it = |(other, _): &(u32, usize)| *other == region;
        self.under_way.contains(&region)
            || self.asking.is_some_and(|(asking, ..)| asking == region)
            || self.filled.iter().any(is_it)
    }

    /// Frees a region that was not looked at yet.
    pub(crate) fn drop_unseen(&mut self, regions: &Regions, region: u32) {
        let was_unseen = self.see(region);
        debug_assert!(was_unseen, "nobody has looked at region {region}");
        regions.at(region).free();
    }

    /// Drops lost regions: nothing more is read from them, and those that are not all found are empty from now on.
    pub(crate) fn lose(&mut self, regions: &Regions, lost: std::ops::Range<u32>) {
        for region in lost.clone() {
            if self.see(region) || self.is_at(region) {
                regions.at(region).forget();
            }
        }
        self.asking.take_if(|(region, ..)| lost.contains(region));
        self.filled.retain(|(region, _)| !lost.contains(region));
        self.under_way.retain(|region| !lost.contains(region));
        self.ready.retain(|page| !lost.contains(&page.region));
    }
}

impl Flash {
    fn finder(&self) -> MutexGuard<'_, Finder> {
        lock(&self.finder)
    }

    /// Returns the number of regions of an earlier process that were not looked at yet, and one more until all is
    /// found.
    pub fn regions_unread(&self) -> usize {
        if self.finds.load(Acquire) { self.finder().unseen_count + 1 } else { 0 }
    }

    /// See [`segment::Tier::find`].
    pub(crate) fn find_some(&self, show: &mut TierShow<'_>) -> TierFind {
        while self.finds.load(Acquire) {
            self.ask_for_chunks();
            let next = self.finder().ready.pop_front();
            let Some(mut page) = next else {
                return if self.is_all_found() { TierFind::Whole } else { TierFind::Waits };
            };
            if !self.show_page(&mut page, show) {
                let mut finder = self.finder();
                // Its device may have been lost meanwhile.
                if finder.is_at(page.region) {
                    finder.ready.push_front(page);
                }
                return TierFind::More;
            }
            self.finder().end(page.region);
        }
        TierFind::Whole
    }

    /// Shows what is left of a chunk; false if an item was put off.
    fn show_page(&self, page: &mut Page, show: &mut TierShow<'_>) -> bool {
        while let Some(Told { hash, offset, bytes }) = page.entries.peek() {
            let at = regions::address(page.generation, page.region, page.base + offset, bytes);
            match show(hash, at) {
                Shown::Later => return false,
                Shown::Entered => {
                    self.regions.at(page.region).count_found(at);
                    self.counters.found.fetch_add(1, Relaxed);
                }
                Shown::Gone => {}
            }
            page.entries.pass();
        }
        true
    }

    fn is_all_found(&self) -> bool {
        let finder = self.finder();
        if !finder.is_empty() {
            return false;
        }
        self.regions.table.set_finding(false);
        self.finds.store(false, Release);
        true
    }

    fn ask_for_chunks(&self) {
        loop {
            let Some((region, from)) = self.finder().take(&self.regions) else { return };
            let is_written = || self.regions.at(region).written() > from;
            if is_written() {
                self.push_work(region, Work::Footer(region, from));
                continue;
            }
            let footer = lock(&self.log).footer(&self.regions, region, from);
            match footer {
                Some(footer) => self.end_footer(region, from, Some(footer)),
                // It was written between the two looks.
                None if is_written() => self.push_work(region, Work::Footer(region, from)),
                None => self.end_footer(region, from, None),
            }
        }
    }

    /// Reads what a chunk says of its items.
    pub(crate) fn read_footer(&self, region: u32, from: usize, scratch: &mut Scratch) {
        let (chunk_bytes, seed) = (self.regions.sizes.chunk_bytes, self.regions.at(region).seed());
        let mut bytes = END_BYTES.min(chunk_bytes);
        self.take_off(scratch, None);
        let footer = loop {
            let Some(end) = self.read_device(region, from + chunk_bytes - bytes, bytes, scratch) else { break None };
            match footer::read(end, chunk_bytes, from, seed) {
                Footer::Longer(longer) if longer > bytes => bytes = longer,
                footer => break Some(footer),
            }
        };
        self.land(scratch);
        self.end_footer(region, from, footer);
        self.wake(None);
    }

    fn end_footer(&self, region: u32, base: usize, footer: Option<Footer>) {
        let mut finder = self.finder();
        if !finder.is_at(region) {
            return;
        }
        let generation = self.regions.at(region).generation();
        match footer {
            Some(Footer::Entries(entries)) => {
                finder.ready.push_back(Page { region, generation, base, entries });
            }
            Some(_) => {
                self.counters.footers_failed.fetch_add(1, Relaxed);
                self.regions.table.mark_all(region, base, self.regions.sizes.chunk_bytes);
                finder.end(region);
            }
            None => {
                finder.end(region);
            }
        }
    }
}
