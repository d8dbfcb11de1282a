//! The map from external 64-bit node identifiers to dense 32-bit node numbers, and back.
//!
//! Linear hashing (Litwin, VLDB '80) over pages of 1,024 slots: the map grows by one page at a time, so no insertion
//! copies the whole map. A slot is one word, so a lookup costs one probe of 8 bytes and the check of the identifier:
//!
//! ```text
//!   slot   bits 32-63 fingerprint   bits 0-31 node number + 1; 0: empty
//!   pages  hash page ──> number of the page that holds its slots
//!   next   page of slots ──> number of the page that holds more slots of the same hash page + 1; 0: none
//! ```
//!
//! Clients choose the identifiers, so the hash has a secret: no client can compute ones that share a hash page.
//! If a page is full all the same, a page is chained to it, so every sequence of identifiers has room.
//!
//! Nodes are never removed. A split writes two new pages and then replaces the old one. A reader that misses looks
//! again if the number of pages changed, so a split hides no node. The old page is reused two epochs later.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use base::prng::split_mix;

use crate::epoch::Epochs;
use crate::error::GraphError;
use crate::memory::AtomicU32;
use crate::paged::{IndexMemory, PAGE, Paged};
use crate::sync::AtomicU64;

/// The mean number of nodes in a hash page above which the map splits a page. Pages that are not split yet hold up to
/// twice the mean, 840 nodes, so one of 1,024 slots is full with a probability below 10^-9. A full page gets a chained
/// one.
const PAGE_NODES_MAX: u64 = 420;

/// The maximum number of nodes that [`Ids::find_many`] looks up at once.
pub(crate) const FIND_MAX: usize = 64;

/// The mean number of nodes of a page from which on the identifiers of a list are looked up page by page.
const PAGE_NUMBERS_MIN: usize = 16;

/// The identifier of a node whose record was lost. Its number is never given to another node.
pub(crate) const LOST: u64 = 0;

/// Returns an error if an identifier is reserved.
pub(crate) fn check_node(node: u64) -> Result<(), GraphError> {
    if node == 0 || node == u64::MAX { Err(GraphError::ReservedNode(node)) } else { Ok(()) }
}

/// The hash of identifiers, with a secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdHash {
    keys: [u64; 2],
}

impl IdHash {
    pub(crate) fn new(seed: u64) -> Self {
        Self { keys: [split_mix(seed), split_mix(!seed) | 1] }
    }

    /// Hashes an identifier. Without the keys, the bits of the product are unknown: [`split_mix`] alone has an inverse.
    #[inline]
    fn of(self, external: u64) -> u64 {
        let product = u128::from(external ^ self.keys[0]) * u128::from(self.keys[1]);
        split_mix(product as u64 ^ (product >> 64) as u64)
    }
}

/// The map. One writer changes it; readers take no lock.
#[derive(Debug)]
pub(crate) struct Ids {
    hash: IdHash,
    slots: Paged<AtomicU64>,
    pages: Paged<AtomicU32>,
    /// The page that is chained to each page of slots, plus 1. Almost always without elements.
    next: Paged<AtomicU32>,
    page_count: AtomicU64,
    /// The identifier of each node, by its number.
    externals: Paged<AtomicU64>,
    nodes: AtomicU64,
}

/// The writer's part of the map: pages that a split replaced, each with the epoch of the split.
#[derive(Debug, Default)]
pub(crate) struct IdPages {
    replaced: std::collections::VecDeque<(u32, u64)>,
    created: u32,
}

/// Returns the hash page of a hash, of `pages`.
fn page_of(hash: u64, pages: u64) -> u32 {
    let level = pages.ilog2();
    let wide = hash & ((2 << level) - 1);
    (if wide < pages { wide } else { hash & ((1 << level) - 1) }) as u32
}

/// Writes a slot into a page. Returns false if the page is full.
fn place(page: &[AtomicU64], hash: u64, number: u32) -> bool {
    let slot = (hash >> 32) << 32 | u64::from(number + 1);
    let start = (hash >> 22) as usize;
    let free = (0..PAGE).map(|step| &page[(start + step) % PAGE]).find(|word| word.load(Relaxed) == 0);
    free.inspect(|word| word.store(slot, Release)).is_some()
}

impl Ids {
    pub(crate) fn new(hash: IdHash, memory: &Arc<IndexMemory>, spare: &mut IdPages) -> Self {
        let ids = Self {
            hash,
            slots: Paged::new(memory),
            pages: Paged::new(memory),
            next: Paged::new(memory),
            page_count: AtomicU64::new(1),
            externals: Paged::new(memory),
            nodes: AtomicU64::new(0),
        };
        ids.slots.create_page(0);
        ids.pages.create(0).store(0, Relaxed);
        spare.created = 1;
        ids
    }

    /// Returns the number of nodes. All lower numbers are nodes.
    pub(crate) fn len(&self) -> u32 {
        self.nodes.load(Acquire) as u32
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.bytes() + self.pages.bytes() + self.next.bytes() + self.externals.bytes()
    }

    /// Returns the identifier of a node.
    #[inline]
    pub(crate) fn external(&self, number: u32) -> u64 {
        self.externals.find(number).map_or(0, |word| word.load(Relaxed))
    }

    /// Writes the identifiers of nodes, whose numbers ascend, to the start of `out`. That is faster than one call for
    /// each, because a page is looked up once for all its numbers.
    #[inline]
    pub(crate) fn externals(&self, numbers: &[u32], out: &mut [u64]) {
        let page = |index: usize| self.externals.page(index);
        let identifier = |page: Option<&[AtomicU64; PAGE]>, number: u32| {
            page.map_or(0, |page| page[number as usize % PAGE].load(Relaxed))
        };
        let span = numbers.last().zip(numbers.first()).map_or(0, |(last, first)| last.saturating_sub(*first) as usize);
        if span / PAGE * PAGE_NUMBERS_MIN > numbers.len() {
            // The search for the end of a short run would cost more than one comparison for each number.
            let (mut current, mut index) = (None, usize::MAX);
            for (out, number) in out.iter_mut().zip(numbers) {
                if *number as usize / PAGE != index {
                    index = *number as usize / PAGE;
                    current = page(index);
                }
                *out = identifier(current, *number);
            }
            return;
        }
        let (mut rest, mut out) = (numbers, out);
        while let Some(first) = rest.first() {
            let index = *first as usize / PAGE;
            let (run, after) = rest.split_at(rest.partition_point(|number| *number as usize / PAGE == index));
            let (nodes, free) = out.split_at_mut(run.len());
            let page = page(index);
            nodes.iter_mut().zip(run).for_each(|(out, number)| *out = identifier(page, *number));
            (rest, out) = (after, free);
        }
    }

    /// Returns the number of the node with an identifier.
    #[inline]
    pub(crate) fn find(&self, external: u64) -> Option<u32> {
        let hash = self.hash.of(external);
        let mut pages = self.page_count.load(Acquire);
        loop {
            if let Some(number) = self.probe(external, hash, pages) {
                return Some(number);
            }
            let after = self.page_count.load(Acquire);
            if after == pages {
                return None;
            }
            pages = after;
        }
    }

    /// Returns the numbers of up to [`FIND_MAX`] nodes, as [`Ids::find`] does. The cache misses of all of them overlap,
    /// which makes it several times faster than one call for each in a map that is larger than the cache.
    pub(crate) fn find_many(&self, externals: &[u64]) -> [Option<u32>; FIND_MAX] {
        let mut found = [None; FIND_MAX];
        let pages = self.page_count.load(Acquire);
        let page = |external: u64| {
            let hash = self.hash.of(external);
            let page = self.pages.find(page_of(hash, pages)).map_or(0, |page| page.load(Acquire));
            (hash, self.slots.page(page as usize))
        };
        // The first loop only brings the slots into the cache. The loads of different nodes do not depend on each
        // other.
        let mut sum = 0;
        for external in externals {
            let (hash, page) = page(*external);
            sum ^= page.map_or(0, |page| page[(hash >> 22) as usize % PAGE].load(Relaxed));
        }
        std::hint::black_box(sum);
        for (external, found) in externals.iter().zip(&mut found) {
            let (hash, page) = page(*external);
            let start = (hash >> 22) as usize;
            let mut slots =
                page.into_iter().flat_map(|page| (start..start + PAGE).map(|at| page[at % PAGE].load(Acquire)));
            let slot = slots.find(|slot| *slot == 0 || slot >> 32 == hash >> 32);
            *found = slot.and_then(|slot| (slot as u32).checked_sub(1));
        }
        let mut is_right = [true; FIND_MAX];
        for ((external, found), is_right) in externals.iter().zip(&found).zip(&mut is_right) {
            *is_right = found.is_some_and(|number| self.external(number) == *external);
        }
        for ((external, found), is_right) in externals.iter().zip(&mut found).zip(is_right) {
            if !is_right {
                // Another node has the fingerprint, the page is full or was split meanwhile, or the node is absent.
                *found = self.find(*external);
            }
        }
        found
    }

    fn probe(&self, external: u64, hash: u64, pages: u64) -> Option<u32> {
        let mut at = self.pages.find(page_of(hash, pages))?.load(Acquire);
        let start = (hash >> 22) as usize;
        loop {
            let page = self.slots.page(at as usize)?;
            for step in 0..PAGE {
                let slot = page[(start + step) % PAGE].load(Acquire);
                if slot == 0 {
                    return None;
                }
                if slot >> 32 == hash >> 32 && self.external(slot as u32 - 1) == external {
                    return Some(slot as u32 - 1);
                }
            }
            at = self.next_of(at)?;
        }
    }

    /// Returns the page that is chained to a page of slots.
    #[cold]
    fn next_of(&self, page: u32) -> Option<u32> {
        self.next.find(page)?.load(Acquire).checked_sub(1)
    }

    /// Writes a slot into a page, or into the first page with room that is chained to it.
    fn place_from(&self, page: u32, (hash, number): (u64, u32), spare: &mut IdPages, epochs: &Epochs) {
        let mut page = page;
        while !place(self.slots.create_page(page as usize), hash, number) {
            page = match self.next_of(page) {
                Some(next) => next,
                None => {
                    let next = self.spare_page(spare, epochs);
                    self.next.create(page).store(next + 1, Release);
                    next
                }
            };
        }
    }

    /// Adds a node and returns its number, or `None` if the map is full. The caller knows that the node is absent. A
    /// node with the identifier [`LOST`] is never found.
    pub(crate) fn add(&self, external: u64, spare: &mut IdPages, epochs: &Epochs) -> Option<u32> {
        let number = self.len();
        if number >= u32::MAX - 2 {
            return None;
        }
        self.externals.create(number).store(external, Relaxed);
        if u64::from(number) >= self.page_count.load(Relaxed) * PAGE_NODES_MAX {
            self.split(spare, epochs);
        }
        if external != LOST {
            let hash = self.hash.of(external);
            let page = self.pages.create(page_of(hash, self.page_count.load(Relaxed))).load(Relaxed);
            self.place_from(page, (hash, number), spare, epochs);
        }
        self.nodes.store(u64::from(number) + 1, Release);
        Some(number)
    }

    fn split(&self, spare: &mut IdPages, epochs: &Epochs) {
        let pages = self.page_count.load(Relaxed);
        let old_hash_page = (pages - (1 << pages.ilog2())) as u32;
        let old = self.pages.create(old_hash_page).load(Relaxed);
        let (low, high) = (self.spare_page(spare, epochs), self.spare_page(spare, epochs));
        for page in self.chain(old) {
            for word in self.slots.create_page(page as usize) {
                let Some(number) = (word.load(Relaxed) as u32).checked_sub(1) else { continue };
                let hash = self.hash.of(self.external(number));
                let page = if page_of(hash, pages + 1) == old_hash_page { low } else { high };
                self.place_from(page, (hash, number), spare, epochs);
            }
        }
        self.pages.create(pages as u32).store(high, Release);
        self.page_count.store(pages + 1, Release);
        self.pages.create(old_hash_page).store(low, Release);
        // Not earlier: a replaced page becomes spare while readers advance.
        spare.replaced.extend(self.chain(old).map(|page| (page, epochs.now())));
    }

    /// Returns a page of slots and those that are chained to it.
    fn chain(&self, page: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(page), |page| self.next_of(*page))
    }

    /// Returns an empty page for slots: one that no reader can see any more, or a new one.
    fn spare_page(&self, spare: &mut IdPages, epochs: &Epochs) -> u32 {
        epochs.try_advance();
        if let Some((page, epoch)) = spare.replaced.front().copied()
            && epochs.now() >= epoch + 2
        {
            spare.replaced.pop_front();
            self.slots.create_page(page as usize).iter().for_each(|word| word.store(0, Relaxed));
            if let Some(next) = self.next.find(page) {
                next.store(0, Relaxed);
            }
            return page;
        }
        spare.created += 1;
        self.slots.create_page(spare.created as usize - 1);
        spare.created - 1
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn growing_map_finds_every_node_and_no_other() {
        let (epochs, mut spare) = (Epochs::new(1), IdPages::default());
        let ids = Ids::new(IdHash::new(1), &IndexMemory::new(usize::MAX), &mut spare);
        for number in 0..200_000u32 {
            let external = u64::from(number) * 3 + 1;
            assert_eq!(ids.find(external), None);
            assert_eq!(ids.add(external, &mut spare, &epochs), Some(number));
        }
        for number in 0..200_000u32 {
            assert_eq!(ids.find(u64::from(number) * 3 + 1), Some(number));
            assert_eq!(ids.find(u64::from(number) * 3 + 2), None);
        }
        let externals: Vec<u64> = (1..=300_000u64).map(|number| number * 7919 % 700_000 + 1).collect();
        for part in externals.chunks(FIND_MAX - 1) {
            let expected: Vec<Option<u32>> = part.iter().map(|external| ids.find(*external)).collect();
            assert_eq!(ids.find_many(part)[..part.len()], expected);
        }
        assert!(spare.created < 520, "{} pages: replaced pages are reused", spare.created);
    }

    #[test]
    fn identifiers_of_one_hash_page_get_chained_pages() {
        let (epochs, mut spare, hash) = (Epochs::new(1), IdPages::default(), IdHash::new(7));
        let ids = Ids::new(hash, &IndexMemory::new(usize::MAX), &mut spare);
        // The map has fewer than 2^4 hash pages, so all of these stay in page 0 whatever is split.
        let chosen: Vec<u64> = (1..).filter(|external| hash.of(*external) & 0xF == 0).take(5000).collect();
        for (number, external) in chosen.iter().enumerate() {
            assert_eq!(ids.find(*external), None);
            assert_eq!(ids.add(*external, &mut spare, &epochs), Some(number as u32));
        }
        assert!(ids.chain(ids.pages.create(0).load(Relaxed)).count() >= 5, "no page was chained");
        for (number, external) in chosen.iter().enumerate() {
            assert_eq!(ids.find(*external), Some(number as u32));
            assert_eq!(ids.find_many(&[*external, u64::MAX])[..2], [Some(number as u32), None]);
        }
        // Other identifiers split page 0 with its chain, whose pages are reused.
        let others: Vec<u64> = (1..).filter(|external| hash.of(*external) & 0xF != 0).take(200_000).collect();
        for external in &others {
            ids.add(*external, &mut spare, &epochs).expect("room");
        }
        for (number, external) in chosen.iter().chain(&others).enumerate() {
            assert_eq!(ids.find(*external), Some(number as u32));
        }
        assert!(spare.created < 540, "{} pages: replaced pages are reused", spare.created);
        assert_eq!(ids.chain(ids.pages.create(0).load(Relaxed)).count(), 1, "a chain was not divided");
    }

    #[test]
    fn hash_depends_on_its_seed() {
        let low = |seed| (1..=64).filter(|external| IdHash::new(seed).of(*external) & 1 == 0).collect::<Vec<u64>>();
        assert_ne!(low(1), low(2));
        assert_ne!(IdHash::new(1).of(5), split_mix(5));
    }
}
