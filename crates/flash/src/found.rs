//! Recovers the items of an earlier process if the index was lost with that process. The search goes region by region
//! and reads each chunk's footer ([`crate::footer`]).
//!
//! ```text
//!   regions, newest first   waiting ──> requested chunk by chunk ──read──> in memory ──shown to the store──> done
//!                                  └──free regions are short: the oldest region is freed at once, unread
//! ```
//!
//! - The search runs while the store serves. A request for an item that is not found yet is a miss.
//! - At any instant, a key has at most one live copy on flash: the old copy is dead before the new copy is live
//!   ([`segment::Tier`]). So the order in which chunks are read does not matter.
//! - If a key is changed during the search, a tombstone records the key's hash ([`mod@crate::marks`]). From then on, no
//!   item with that hash is accepted from regions that were opened before this process started. The tombstones remain
//!   until the search is complete. If the process is killed before that, the next process adds its own tombstones to
//!   them. All these tombstones apply to every region that was opened before the next process started. So after such a
//!   kill, a key that was changed during the search and whose item was then written to flash may be a miss. The key's
//!   outdated item is never returned.
//! - An item that the store rejects is marked as dead. Tombstones are valid until the search ends. A mark is valid as
//!   long as its item is on flash.
//! - No slot references a region that was not yet searched. So such a region may be freed without reading its items.
//! - A chunk whose footer is corrupt is skipped, and all its items are marked as dead. They remain lost even if a later
//!   read of the footer would succeed.
//!
//! Limits: at most [`UNDER_WAY_MAX`] chunks are being read or are in memory.

use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use segment::{TierFind, TierShow, WalkProgress};

use crate::flash::{Flash, lock};
use crate::footer::{self, Entries, Footer, FooterEntry};
use crate::log::Log;
use crate::queues::{Scratch, Work};
use crate::regions::{self, Regions};

/// Maximum number of chunks that are being read or are in memory.
const UNDER_WAY_MAX: usize = 16;
/// Number of bytes at a chunk's end that are read first. This is enough for the footer of a chunk with items of 150
/// bytes.
const END_BYTES: usize = 64 << 10;

/// A chunk whose footer was read.
#[derive(Debug)]
struct Page {
    region: u32,
    generation: u8,
    /// Offset of the chunk in its region.
    base: usize,
    entries: Entries,
}

/// The regions and chunks that are still to be searched.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    /// Regions that were in use at the start and whose search has not begun, the newest last. Regions that were dropped
    /// unread remain in this list; `unseen` excludes them.
    waiting: Vec<u32>,
    /// For each region, true if it is still to be searched.
    unseen: Vec<bool>,
    /// Number of regions that are still to be searched.
    unseen_count: usize,
    /// Regions that an earlier process left partly filled, and that this process continues to fill. Each has the offset
    /// at which this process's data begins.
    filled: Vec<(u32, usize)>,
    /// The region whose chunks are being requested, the offset of the next chunk to request, and the offset at which
    /// the last chunk to request ends.
    asking: Option<(u32, usize, usize)>,
    /// The region of each chunk that is being read, in memory or being shown.
    under_way: Vec<u32>,
    /// Chunks whose footers are in memory, and whose items wait to be shown to the store.
    ready: VecDeque<Page>,
}

impl Finder {
    /// Creates a search of all regions that are in use according to the table.
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
            // If the process is killed between the two calls, the next process repeats both.
            table.clear_tombstones();
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

    /// Removes a region from those that are still to be searched. Returns false if the region was not among them.
    fn see(&mut self, region: u32) -> bool {
        let was = self.unseen.get_mut(region as usize).is_some_and(std::mem::take);
        self.unseen_count -= usize::from(was);
        was
    }

    /// Returns the region and the offset of the next chunk to read; `None` if no chunk is left, or if [`UNDER_WAY_MAX`]
    /// chunks are in progress.
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

    /// Removes one chunk of the region from those in progress. Returns false if none of the region's chunks was in
    /// progress.
    fn end(&mut self, region: u32) -> bool {
        let place = self.under_way.iter().position(|other| *other == region);
        place.map(|place| self.under_way.swap_remove(place)).is_some()
    }

    /// Returns true if the region is still to be searched. If so, no slot references any of the region's items.
    pub(crate) fn waits(&self, region: u32) -> bool {
        self.unseen.get(region as usize).is_some_and(|unseen| *unseen)
    }

    /// Returns true if the region is being searched.
    pub(crate) fn is_at(&self, region: u32) -> bool {
        let is_it = |(other, _): &(u32, usize)| *other == region;
        self.under_way.contains(&region)
            || self.asking.is_some_and(|(asking, ..)| asking == region)
            || self.filled.iter().any(is_it)
    }

    /// Frees a region without searching it.
    pub(crate) fn drop_unseen(&mut self, regions: &Regions, region: u32) {
        let was_unseen = self.see(region);
        debug_assert!(was_unseen, "region was looked at before: {region}");
        regions.at(region).free();
    }

    /// Removes the regions of a lost device from the search. Those that were not fully searched count as empty from now
    /// on.
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

    /// Returns the number of regions of an earlier process that are still to be searched, plus one until the search is
    /// complete.
    pub fn regions_unread(&self) -> usize {
        if self.finds.load(Acquire) { self.finder().unseen_count + 1 } else { 0 }
    }

    /// Implements [`segment::Tier::find`].
    pub(crate) fn find_some(&self, show: &mut TierShow<'_>) -> TierFind {
        while self.finds.load(Acquire) {
            self.ask_for_chunks();
            let next = self.finder().ready.pop_front();
            let Some(mut page) = next else {
                return if self.is_all_found() { TierFind::Whole } else { TierFind::Waits };
            };
            if !self.show_page(&mut page, show) {
                let mut finder = self.finder();
                // If the device was lost meanwhile, the chunk is dropped.
                if finder.is_at(page.region) {
                    finder.ready.push_front(page);
                }
                return TierFind::More;
            }
            self.finder().end(page.region);
        }
        TierFind::Whole
    }

    /// Shows the remaining items of a chunk to the store. Returns false if the store postponed an item.
    fn show_page(&self, page: &mut Page, show: &mut TierShow<'_>) -> bool {
        while let Some(FooterEntry { hash, offset, bytes }) = page.entries.peek() {
            let at = regions::address(page.generation, page.region, page.base + offset, bytes);
            match show(hash, at) {
                WalkProgress::Later => return false,
                WalkProgress::Entered => {
                    self.regions.at(page.region).count_found(at);
                    self.counters.found.fetch_add(1, Relaxed);
                }
                WalkProgress::Gone => {}
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
                // The chunk was written between the two checks.
                None if is_written() => self.push_work(region, Work::Footer(region, from)),
                None => self.end_footer(region, from, None),
            }
        }
    }

    /// Reads the footer of a chunk.
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
