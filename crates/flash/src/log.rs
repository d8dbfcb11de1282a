//! Writing: items go into chunks of memory, and full chunks to their region.
//!
//! ```text
//!   chunk:  Free ──a region needs one──> Filling ──full──> Queued ──a thread takes it──> Writing ──written──> Free
//! ```
//!
//! A region's chunks are filled and written in order, by one thread at a time. So a region is on the device up to
//! `Region::written`, and the rest is in chunks that are read where they are. An item is at its address before any
//! caller receives the address.
//!
//! What is in a chunk is in the table too, and both lie in the store's file, if it has one: a process that goes on with
//! it fills and writes the chunks as they were left, so nothing that a slot names is lost with the process before.
//!
//! Where the index is not in that file, each chunk has a footer that says where its items are ([`crate::footer`]); a
//! process that goes on writes the chunks that it finds as they are, and fills the rest of their regions with others.
//!
//! Bounds: [`CHUNKS`] chunks. Where none is free, devices are slower than eviction, and an item is refused.

use std::collections::VecDeque;
use std::sync::Arc;

use base::clock::UnixMillis;
use base::prng::Prng;
use segment::{FlashAddress, TierChunk, TierItem};

use crate::budget::{Budget, Short};
use crate::entry;
use crate::footer::{self, Footer, LONGEST_BYTES, footer_bytes};
use crate::regions::Regions;
use crate::table::ChunkWord;

/// Regions that are open at once, each for items with times to live of its own.
pub(crate) const OPEN_MAX: usize = 4;
/// Chunks in memory: one for each open region, and those that are being written.
pub(crate) const CHUNKS: usize = 12;

/// Returns the group of items that go together, by the store's TTL class: without an end, up to some minutes, hours,
/// days.
fn group_of(class: u8, ends: bool) -> usize {
    match class {
        _ if !ends => 0,
        0..=7 => 1,
        8..=13 => 2,
        _ => 3,
    }
}

#[derive(Debug)]
struct Chunk {
    /// The region and the place in it for which the chunk is used, if it is in use.
    word: Option<ChunkWord>,
    used: usize,
    /// Items in its footer, if it has one.
    items: usize,
    /// Tags of what begins in the block that was begun last.
    tags: Tags,
    /// Not shared while the chunk is filled.
    bytes: Arc<TierChunk>,
}

/// Items that begin in a block at most.
const BLOCK_ITEMS_MAX: usize = FlashAddress::BLOCK_BYTES.div_ceil(entry::HEADER_BYTES);

/// The tags of the items that begin in a block of a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Tags {
    block: usize,
    tags: [u16; BLOCK_ITEMS_MAX],
    count: usize,
    /// An earlier process has put items there: any tag may be among theirs.
    unknown: bool,
}

impl Tags {
    /// Of a chunk of which an earlier process has used so much.
    fn left_at(used: usize) -> Self {
        let unknown = !used.is_multiple_of(FlashAddress::BLOCK_BYTES);
        Self { block: used / FlashAddress::BLOCK_BYTES, unknown, ..Self::default() }
    }

    /// An item with the tag that began there could be taken for another one.
    fn has(&self, at: usize, tag: u16) -> bool {
        let same = at / FlashAddress::BLOCK_BYTES == self.block;
        same && (self.unknown || self.tags[..self.count].contains(&tag))
    }

    fn note(&mut self, at: usize, tag: u16) {
        let block = at / FlashAddress::BLOCK_BYTES;
        if block != self.block {
            *self = Self { block, ..Self::default() };
        }
        self.tags[self.count] = tag;
        self.count += 1;
    }
}

impl Chunk {
    /// Returns the bytes that have to stay free in front of an item with the tag.
    fn gap(&self, tag: u16) -> usize {
        if self.tags.has(self.used, tag) { entry::filler_bytes(self.used) } else { 0 }
    }

    /// Returns the offset of the chunk in its region.
    fn from(&self) -> usize {
        self.word.map_or(0, |word| word.number as usize * self.bytes.bytes().len())
    }

    /// Puts a filler in front of an item with the tag, if there is to be one.
    fn fill_gap(&mut self, tag: u16, has_footer: bool, seed: entry::Seed) {
        let (gap, offset) = (self.gap(tag), self.from() + self.used);
        if gap == 0 {
            return;
        }
        let room = Arc::get_mut(&mut self.bytes).expect("a chunk that is filled is nobody else's").bytes_mut();
        entry::write_filler(gap, seed, offset, &mut room[self.used..]);
        if has_footer {
            // No slot ever names it.
            footer::put(room, self.items, 0, gap);
            self.items += 1;
        }
        self.used += gap;
    }

    fn is_of(&self, region: u32) -> bool {
        self.word.is_some_and(|word| word.region == region)
    }
}

/// A chunk that is to be written.
#[derive(Debug)]
pub(crate) struct Write {
    chunk: usize,
    device: usize,
    pub(crate) region: u32,
    pub(crate) from: usize,
    pub(crate) bytes: Arc<TierChunk>,
}

/// Why an item was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is longer than a chunk, or than what an address says.
    TooLong,
    /// No region is free.
    NoRegion,
    /// No chunk is free.
    NoChunk,
    /// The budget of writes is spent.
    Budget,
    /// The budget of writes is kept for what was read.
    Unread,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    region: u32,
    chunk: usize,
}

/// The item that was taken last, which no slot names yet.
#[derive(Clone, Copy, Debug)]
struct Unnamed {
    at: FlashAddress,
    chunk: usize,
    number: usize,
}

/// The state of writing. One lock guards all of it, and no thread holds it while a device is at work.
#[derive(Debug)]
pub(crate) struct Log {
    chunks: Vec<Chunk>,
    open: [Option<Open>; OPEN_MAX],
    free: VecDeque<u32>,
    /// Full regions, those that were full first in front.
    sealed: VecDeque<u32>,
    queue: VecDeque<usize>,
    /// Of each device, a thread has a chunk: the next one waits, so that a region is written in order.
    writing: Vec<bool>,
    unnamed: Option<Unnamed>,
    /// Gives the salts of regions.
    random: Prng,
    budget: Budget,
}

impl Log {
    /// The log where the table says that it stands: empty, or as an earlier process left it.
    pub(crate) fn new(regions: &Regions, chunks: Vec<TierChunk>, random: Prng, budget: Budget) -> Self {
        assert!(chunks.len() == CHUNKS, "{} chunks", chunks.len());
        let chunk = |bytes| Chunk { word: None, used: 0, items: 0, tags: Tags::default(), bytes: Arc::new(bytes) };
        let mut log = Self {
            chunks: chunks.into_iter().map(chunk).collect(),
            open: [None; OPEN_MAX],
            free: VecDeque::with_capacity(regions.count()),
            sealed: VecDeque::with_capacity(regions.count()),
            queue: VecDeque::with_capacity(CHUNKS),
            writing: vec![false; regions.parts.len()],
            unnamed: None,
            random,
            budget,
        };
        log.take_chunks(regions);
        let mut sealed = Vec::new();
        for (number, region) in regions.all() {
            match region.sequence() {
                0 => log.free.push_back(number),
                sequence if !log.is_open(number) => sealed.push((sequence, number)),
                _ => {}
            }
        }
        sealed.sort_unstable();
        log.sealed.extend(sealed.into_iter().map(|(_, number)| number));
        log
    }

    /// Goes on with chunks that were being filled, and queues those that were to be written.
    fn take_chunks(&mut self, regions: &Regions) {
        for number in 0..CHUNKS {
            let Some((word, used, items)) = regions.table.chunk(number) else { continue };
            let chunk_bytes = regions.sizes.chunk_bytes;
            let fits = (word.region as usize) < regions.count()
                && (word.number as usize) < regions.sizes.region_bytes / chunk_bytes
                && word.group < OPEN_MAX
                && used <= chunk_bytes
                && (!regions.has_footers() || used + footer_bytes(items) <= chunk_bytes);
            let region = fits.then(|| regions.at(word.region));
            // Of a region that was forgotten since, or one that was written before the process could say so.
            let waits = |region: &crate::regions::Region<'_>| {
                region.sequence() != 0 && region.written() <= word.number as usize * chunk_bytes
            };
            if !region.as_ref().is_some_and(waits) {
                regions.table.set_chunk(number, None);
                continue;
            }
            let chunk = &mut self.chunks[number];
            (chunk.word, chunk.used, chunk.items, chunk.tags) = (Some(word), used, items, Tags::left_at(used));
            let goes_on = !word.full && self.open[word.group].is_none() && (!regions.has_footers() || items == 0);
            if !goes_on {
                self.fill_up(regions, number);
                self.queue.push_back(number);
            } else {
                self.open[word.group] = Some(Open { region: word.region, chunk: number });
            }
        }
        if regions.has_footers() {
            self.fill_further(regions);
        }
        let chunks = &self.chunks;
        self.queue.make_contiguous().sort_by_key(|number| chunks[*number].word.map(|word| (word.region, word.number)));
    }

    /// Begins the next chunk of each region of which one was being filled, where there is one.
    fn fill_further(&mut self, regions: &Regions) {
        let words: Vec<ChunkWord> =
            self.queue.iter().filter_map(|number| self.chunks[*number].word).filter(|word| !word.full).collect();
        for ChunkWord { group, region, number, .. } in words {
            let next = (number as usize + 1) * regions.sizes.chunk_bytes;
            if next < regions.sizes.region_bytes
                && self.open[group].is_none()
                && let Some(chunk) = self.free_chunk()
            {
                self.begin_chunk(regions, group, Open { region, chunk }, next);
            }
        }
    }

    /// Regions that are open, and where in them what is filled begins.
    pub(crate) fn open_regions(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        self.open.iter().flatten().map(|open| (open.region, self.chunks[open.chunk].from()))
    }

    /// Time has passed, by which more may be written.
    pub(crate) fn refill(&mut self, regions: &Regions, now: UnixMillis) {
        self.budget.refill(now);
        regions.table.set_budget_left(self.budget.left());
    }

    fn is_open(&self, region: u32) -> bool {
        self.open.iter().flatten().any(|open| open.region == region)
    }

    /// All of the region that there will be is on its device.
    pub(crate) fn is_whole(&self, region: u32) -> bool {
        !self.chunks.iter().any(|chunk| chunk.is_of(region))
    }

    /// Bytes of memory that it takes beside the chunks, which are [`CHUNKS`].
    pub(crate) fn memory_bytes(regions: &Regions) -> usize {
        regions.count() * 2 * size_of::<u32>()
    }

    /// Copies an item to where its address says. True beside it: a chunk waits to be written.
    pub(crate) fn append(&mut self, regions: &Regions, item: &TierItem<'_>) -> Result<(FlashAddress, bool), Refused> {
        let bytes = entry::entry_bytes(item);
        let longest = match regions.has_footers() {
            true => LONGEST_BYTES.min(regions.sizes.chunk_bytes - footer_bytes(1)),
            false => regions.sizes.chunk_bytes.min(entry::ENTRY_BYTES_MAX),
        };
        if bytes > longest {
            return Err(Refused::TooLong);
        }
        self.budget.take(bytes, item.is_read, &mut self.random).map_err(|short| match short {
            Short::Empty => Refused::Budget,
            Short::Unread => Refused::Unread,
        })?;
        let (open, fills) = self.open_for(regions, item, bytes).inspect_err(|_| self.budget.give_back(bytes))?;
        let region = regions.at(open.region);
        let chunk = &mut self.chunks[open.chunk];
        chunk.fill_gap(item.tag(), regions.has_footers(), region.seed());
        chunk.tags.note(chunk.used, item.tag());
        let (from, used) = (chunk.from() + chunk.used, chunk.used);
        let room = Arc::get_mut(&mut chunk.bytes).expect("a chunk that is filled is nobody else's").bytes_mut();
        entry::write(item, region.seed(), from, &mut room[used..]);
        let at = region.address(from, bytes);
        if regions.has_footers() {
            footer::put(room, chunk.items, item.hash, bytes);
            self.unnamed = Some(Unnamed { at, chunk: open.chunk, number: chunk.items });
            chunk.items += 1;
        }
        chunk.used = entry::padded(used + bytes).min(regions.sizes.chunk_bytes);
        regions.table.set_used(open.chunk, chunk.used, chunk.items);
        region.note_item(at.blocks(), item.expire_at);
        Ok((at, fills))
    }

    /// A slot is to name the item there, which was taken last.
    pub(crate) fn name(&mut self, at: FlashAddress) {
        let Some(Unnamed { chunk, number, .. }) = self.unnamed.take_if(|unnamed| unnamed.at == at) else {
            // Its device was lost meanwhile: who wants the item finds that out.
            return;
        };
        let bytes = &mut self.chunks[chunk].bytes;
        footer::name(Arc::get_mut(bytes).expect("a chunk that is filled is nobody else's").bytes_mut(), number);
    }

    /// Returns an open chunk that has room for an item of so many bytes, and whether another chunk waits to be written.
    fn open_for(&mut self, regions: &Regions, item: &TierItem<'_>, bytes: usize) -> Result<(Open, bool), Refused> {
        let group = group_of(item.class, item.expire_at.is_some());
        let fits = |open: Open| {
            let chunk = &self.chunks[open.chunk];
            let (gap, items) = (chunk.gap(item.tag()), chunk.items);
            let behind = if regions.has_footers() { footer_bytes(items + 1 + usize::from(gap > 0)) } else { 0 };
            entry::padded(chunk.used + gap + bytes) + behind <= regions.sizes.chunk_bytes
        };
        match self.open[group] {
            Some(open) if fits(open) => Ok((open, false)),
            Some(open) => Ok((self.next_chunk(regions, group, open)?, true)),
            None => Ok((self.next_region(regions, group)?, false)),
        }
    }

    /// Has a full chunk written and begins the next one of the region, or of another region.
    fn next_chunk(&mut self, regions: &Regions, group: usize, open: Open) -> Result<Open, Refused> {
        let next = self.chunks[open.chunk].from() + regions.sizes.chunk_bytes;
        if next == regions.sizes.region_bytes {
            if self.free.is_empty() || self.free_chunk().is_none() {
                return Err(if self.free.is_empty() { Refused::NoRegion } else { Refused::NoChunk });
            }
            self.queue_chunk(regions, open);
            self.open[group] = None;
            self.sealed.push_back(open.region);
            return self.next_region(regions, group);
        }
        let chunk = self.free_chunk().ok_or(Refused::NoChunk)?;
        self.queue_chunk(regions, open);
        self.begin_chunk(regions, group, Open { chunk, ..open }, next);
        Ok(Open { chunk, ..open })
    }

    fn next_region(&mut self, regions: &Regions, group: usize) -> Result<Open, Refused> {
        let chunk = self.free_chunk().ok_or(Refused::NoChunk)?;
        let region = self.free.pop_front().ok_or(Refused::NoRegion)?;
        regions.at(region).open(self.random.next_u64());
        self.begin_chunk(regions, group, Open { region, chunk }, 0);
        Ok(Open { region, chunk })
    }

    fn free_chunk(&self) -> Option<usize> {
        self.chunks.iter().position(|chunk| chunk.word.is_none())
    }

    fn begin_chunk(&mut self, regions: &Regions, group: usize, open: Open, from: usize) {
        let number = (from / regions.sizes.chunk_bytes) as u32;
        let word = ChunkWord { full: false, group, region: open.region, number };
        regions.table.set_used(open.chunk, 0, 0);
        regions.table.set_chunk(open.chunk, Some(word));
        let begun = &mut self.chunks[open.chunk];
        (begun.word, begun.used, begun.items, begun.tags) = (Some(word), 0, 0, Tags::default());
        self.open[group] = Some(open);
    }

    fn queue_chunk(&mut self, regions: &Regions, open: Open) {
        self.fill_up(regions, open.chunk);
        let word = &mut self.chunks[open.chunk].word;
        *word = word.map(|word| ChunkWord { full: true, ..word });
        regions.table.set_chunk(open.chunk, *word);
        self.queue.push_back(open.chunk);
    }

    /// Seals the footer of a chunk, or fills its rest with zeros, so that remains of an earlier use are not taken for
    /// items.
    fn fill_up(&mut self, regions: &Regions, number: usize) {
        let chunk = &mut self.chunks[number];
        let (from, word) = (chunk.from(), chunk.word);
        let room = Arc::get_mut(&mut chunk.bytes).expect("a chunk that is filled is nobody else's").bytes_mut();
        match word.filter(|_| regions.has_footers()) {
            Some(word) => footer::seal(room, chunk.used, chunk.items, regions.at(word.region).seed(), from),
            None => room[chunk.used..].fill(0),
        }
    }

    /// A chunk waits for a device with these regions, and none is being written there.
    pub(crate) fn write_waits(&self, device: usize, of: &std::ops::Range<u32>) -> bool {
        !self.writing[device] && self.place_for(of).is_some()
    }

    fn place_for(&self, of: &std::ops::Range<u32>) -> Option<usize> {
        let region = |number: &usize| self.chunks[*number].word.map(|word| word.region);
        self.queue.iter().position(|number| region(number).is_some_and(|region| of.contains(&region)))
    }

    /// The next chunk to be written to a device with these regions, if none is being written there.
    pub(crate) fn take_write(&mut self, device: usize, of: std::ops::Range<u32>) -> Option<Write> {
        if self.writing[device] {
            return None;
        }
        let number = self.queue.remove(self.place_for(&of)?)?;
        let chunk = &self.chunks[number];
        let region = chunk.word.map(|word| word.region)?;
        self.writing[device] = true;
        Some(Write { chunk: number, device, region, from: chunk.from(), bytes: Arc::clone(&chunk.bytes) })
    }

    /// A chunk was written, or could not be: its bytes are not needed any more.
    pub(crate) fn end_write(&mut self, regions: &Regions, write: Write, ok: bool) {
        let Write { chunk, device, region, from, bytes } = write;
        drop(bytes);
        if ok {
            regions.at(region).note_written(from + regions.sizes.chunk_bytes);
        }
        self.free_of(regions, chunk);
        self.writing[device] = false;
    }

    fn free_of(&mut self, regions: &Regions, chunk: usize) {
        regions.table.set_chunk(chunk, None);
        self.chunks[chunk].word = None;
    }

    /// Copies what a chunk in memory holds of a region from `from` on; false if it is in none.
    pub(crate) fn copy(&self, region: u32, from: usize, into: &mut Vec<u8>, bytes: usize) -> bool {
        let holds = |chunk: &&Chunk| {
            let begin = chunk.from();
            chunk.is_of(region) && (begin..begin + chunk.bytes.bytes().len()).contains(&from)
        };
        let Some(chunk) = self.chunks.iter().find(holds) else { return false };
        let all = chunk.bytes.bytes();
        let at = from - chunk.from();
        into.clear();
        into.extend_from_slice(&all[at..(at + bytes).min(all.len())]);
        true
    }

    /// Reads the footer of the chunk in memory that begins at `from` of a region, if there is such a chunk.
    pub(crate) fn footer(&self, regions: &Regions, region: u32, from: usize) -> Option<Footer> {
        let holds = |chunk: &&Chunk| chunk.is_of(region) && chunk.from() == from;
        let chunk = self.chunks.iter().find(holds)?;
        let bytes = chunk.bytes.bytes();
        Some(footer::read(bytes, bytes.len(), from, regions.at(region).seed()))
    }

    /// Regions that are free.
    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn sealed(&self) -> impl Iterator<Item = u32> + '_ {
        self.sealed.iter().copied()
    }

    /// Takes a full region out, to be reclaimed.
    pub(crate) fn take_sealed(&mut self, region: u32) {
        self.sealed.retain(|sealed| *sealed != region);
    }

    /// A region is free again.
    pub(crate) fn push_free(&mut self, region: u32) {
        self.free.push_back(region);
    }

    /// Drops lost regions: nothing more goes to them or comes from them.
    pub(crate) fn lose(&mut self, regions: &Regions, lost: std::ops::Range<u32>) {
        self.unnamed.take_if(|unnamed| lost.contains(&unnamed.at.region()));
        self.free.retain(|region| !lost.contains(region));
        self.sealed.retain(|region| !lost.contains(region));
        // What is being written is freed when that has come to an end.
        for chunk in std::mem::take(&mut self.queue) {
            match self.chunks[chunk].word {
                Some(word) if !lost.contains(&word.region) => self.queue.push_back(chunk),
                _ => self.free_of(regions, chunk),
            }
        }
        for group in 0..OPEN_MAX {
            if let Some(gone) = self.open[group].take_if(|open| lost.contains(&open.region)) {
                self.free_of(regions, gone.chunk);
            }
        }
    }

    /// Chunks that wait to be written or are being written.
    pub(crate) fn writes_waiting(&self) -> usize {
        self.queue.len() + self.writing.iter().filter(|writing| **writing).count()
    }
}
