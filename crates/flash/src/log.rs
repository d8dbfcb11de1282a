//! Writes items: collects them in chunks of memory, and writes each full chunk to its region.
//!
//! ```text
//!   chunk:  Free ──needed by a region──> Filling ──full──> Queued ──taken by a thread──> Writing ──written──> Free
//! ```
//!
//! A region's chunks are filled and written in order, by one thread at a time. So the device holds a region up to
//! `Region::written`, and chunks in memory hold the rest. Items in those chunks are read from memory. An item is stored
//! at its address before any caller receives that address.
//!
//! The table records the state of each chunk. The table and the chunks lie in the memory file, if there is one. A later
//! process that opens the file continues to fill and write the chunks where the earlier process stopped, so no
//! referenced item is lost.
//!
//! If the index is not in that file, each chunk has a footer with the positions of its items ([`crate::footer`]). The
//! later process then writes the partly filled chunks without adding items, and fills the rest of their regions with
//! new chunks.
//!
//! Limits: [`CHUNKS`] chunks. If none is free, the devices are slower than eviction, and the item is refused.

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

/// Maximum number of open regions. Each receives items of one range of times to live.
pub(crate) const OPEN_MAX: usize = 4;
/// Number of chunks in memory: one for each open region; the others wait to be written or are being written.
pub(crate) const CHUNKS: usize = 12;

/// Returns the group of an item, by the store's TTL class. The groups are items without a time to live, and items that
/// expire within minutes, within hours, or later.
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
    /// The region and the position to which the chunk will be written; `None` if the chunk is free.
    word: Option<ChunkWord>,
    used: usize,
    /// Number of items in the footer, if the chunk has one.
    items: usize,
    /// Tags of the items that begin in the current block.
    tags: Tags,
    /// The chunk's bytes. No other thread has a reference to them while the chunk is filled.
    bytes: Arc<TierChunk>,
}

/// Maximum number of items that begin in one block.
const BLOCK_ITEMS_MAX: usize = FlashAddress::BLOCK_BYTES.div_ceil(entry::HEADER_BYTES);

/// The tags of the items that begin in one block of a chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Tags {
    block: usize,
    tags: [u16; BLOCK_ITEMS_MAX],
    count: usize,
    /// True if an earlier process has written items to the block. The tags of those items are unknown.
    unknown: bool,
}

impl Tags {
    /// Creates the tags for a chunk of which an earlier process has filled `used` bytes.
    fn left_at(used: usize) -> Self {
        let unknown = !used.is_multiple_of(FlashAddress::BLOCK_BYTES);
        Self { block: used / FlashAddress::BLOCK_BYTES, unknown, ..Self::default() }
    }

    /// Returns true if another item that begins in this block has the same tag, or may have it.
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
    /// Returns the length in bytes of the filler that must precede an item with this tag; 0 if no filler is needed.
    fn gap(&self, tag: u16) -> usize {
        if self.tags.has(self.used, tag) { entry::filler_bytes(self.used) } else { 0 }
    }

    /// Returns the offset of the chunk in its region.
    fn from(&self) -> usize {
        self.word.map_or(0, |word| word.number as usize * self.bytes.bytes().len())
    }

    /// Writes the filler that must precede an item with this tag, if a filler is needed.
    fn fill_gap(&mut self, tag: u16, has_footer: bool, seed: entry::Seed) {
        let (gap, offset) = (self.gap(tag), self.from() + self.used);
        if gap == 0 {
            return;
        }
        let room = Arc::get_mut(&mut self.bytes).expect("no other thread has a chunk that is being filled").bytes_mut();
        entry::write_filler(gap, seed, offset, &mut room[self.used..]);
        if has_footer {
            // No slot ever references the filler.
            footer::put(room, self.items, 0, gap);
            self.items += 1;
        }
        self.used += gap;
    }

    fn is_of(&self, region: u32) -> bool {
        self.word.is_some_and(|word| word.region == region)
    }
}

/// A chunk to be written.
#[derive(Debug)]
pub(crate) struct Write {
    chunk: usize,
    device: usize,
    pub(crate) region: u32,
    pub(crate) from: usize,
    pub(crate) bytes: Arc<TierChunk>,
}

/// The reason why an item was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The item is longer than a chunk, or than an address can express.
    TooLong,
    /// No region is free.
    NoRegion,
    /// No chunk is free.
    NoChunk,
    /// The budget of writes is spent.
    Budget,
    /// The rest of the write budget is reserved for items that were read.
    Unread,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    region: u32,
    chunk: usize,
}

/// The last accepted item, which no slot references yet.
#[derive(Clone, Copy, Debug)]
struct Unnamed {
    at: FlashAddress,
    chunk: usize,
    number: usize,
}

/// The state of writing. One lock guards all of it, and no thread holds that lock during a device operation.
#[derive(Debug)]
pub(crate) struct Log {
    chunks: Vec<Chunk>,
    open: [Option<Open>; OPEN_MAX],
    free: VecDeque<u32>,
    /// Full regions, in the order in which they became full.
    sealed: VecDeque<u32>,
    queue: VecDeque<usize>,
    /// For each device, true if a thread is writing a chunk. Further chunks wait, so that a region is written in order.
    writing: Vec<bool>,
    unnamed: Option<Unnamed>,
    /// Generates the salts of regions.
    random: Prng,
    budget: Budget,
}

impl Log {
    /// Creates the log in the state that the table describes: empty, or as an earlier process left the log.
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

    /// Restores the chunks of an earlier process: continues with those that were being filled, and queues those that
    /// waited to be written.
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
            // A chunk does not count if its region was forgotten since, or if the chunk was written but the process
            // ended before it could free the chunk.
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

    /// Starts the next chunk of each region that an earlier process was filling, if the region has another chunk.
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

    /// Returns the open regions, each with the offset in bytes at which its current chunk begins.
    pub(crate) fn open_regions(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        self.open.iter().flatten().map(|open| (open.region, self.chunks[open.chunk].from()))
    }

    /// Adds to the write budget for the time that has passed.
    pub(crate) fn refill(&mut self, regions: &Regions, now: UnixMillis) {
        self.budget.refill(now);
        regions.table.set_budget_left(self.budget.left());
    }

    fn is_open(&self, region: u32) -> bool {
        self.open.iter().flatten().any(|open| open.region == region)
    }

    /// Returns true if the region is complete on its device.
    pub(crate) fn is_whole(&self, region: u32) -> bool {
        !self.chunks.iter().any(|chunk| chunk.is_of(region))
    }

    /// Returns the memory that the log takes in bytes, without the [`CHUNKS`] chunks.
    pub(crate) fn memory_bytes(regions: &Regions) -> usize {
        regions.count() * 2 * size_of::<u32>()
    }

    /// Copies an item into an open chunk, and returns the item's address. The second result is true if a full chunk now
    /// waits to be written.
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
        let room =
            Arc::get_mut(&mut chunk.bytes).expect("no other thread has a chunk that is being filled").bytes_mut();
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

    /// Marks that a slot will reference the item at `at`, which must be the last accepted item.
    pub(crate) fn name(&mut self, at: FlashAddress) {
        let Some(Unnamed { chunk, number, .. }) = self.unnamed.take_if(|unnamed| unnamed.at == at) else {
            // The device was lost meanwhile, which a read of the item detects.
            return;
        };
        let bytes = &mut self.chunks[chunk].bytes;
        footer::name(
            Arc::get_mut(bytes).expect("no other thread has a chunk that is being filled").bytes_mut(),
            number,
        );
    }

    /// Returns an open chunk with room for an item of `bytes` bytes. The second value is true if another chunk now
    /// waits to be written.
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

    /// Queues a full chunk for writing, and starts the next chunk of the same region, or the first chunk of a free
    /// region.
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

    /// Seals the footer of a chunk. Without a footer, zeroes the unused end of the chunk, so that data of an earlier
    /// use does not pass for items.
    fn fill_up(&mut self, regions: &Regions, number: usize) {
        let chunk = &mut self.chunks[number];
        let (from, word) = (chunk.from(), chunk.word);
        let room =
            Arc::get_mut(&mut chunk.bytes).expect("no other thread has a chunk that is being filled").bytes_mut();
        match word.filter(|_| regions.has_footers()) {
            Some(word) => footer::seal(room, chunk.used, chunk.items, regions.at(word.region).seed(), from),
            None => room[chunk.used..].fill(0),
        }
    }

    /// Returns true if a chunk waits to be written to the device with the regions `of`, and the device is not writing
    /// another chunk.
    pub(crate) fn write_waits(&self, device: usize, of: &std::ops::Range<u32>) -> bool {
        !self.writing[device] && self.place_for(of).is_some()
    }

    fn place_for(&self, of: &std::ops::Range<u32>) -> Option<usize> {
        let region = |number: &usize| self.chunks[*number].word.map(|word| word.region);
        self.queue.iter().position(|number| region(number).is_some_and(|region| of.contains(&region)))
    }

    /// Returns the next chunk to write to the device with the regions `of`; `None` if no chunk waits, or if the device
    /// is writing another chunk.
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

    /// Records the end of a chunk's write, and frees the chunk. `ok` is true if the write succeeded.
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

    /// Copies up to `bytes` bytes of a region, from offset `from` on, out of a chunk in memory. Returns false if no
    /// chunk in memory holds that offset.
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

    /// Reads the footer of the chunk that begins at offset `from` of a region, if that chunk is in memory.
    pub(crate) fn footer(&self, regions: &Regions, region: u32, from: usize) -> Option<Footer> {
        let holds = |chunk: &&Chunk| chunk.is_of(region) && chunk.from() == from;
        let chunk = self.chunks.iter().find(holds)?;
        let bytes = chunk.bytes.bytes();
        Some(footer::read(bytes, bytes.len(), from, regions.at(region).seed()))
    }

    /// Returns the number of free regions.
    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn sealed(&self) -> impl Iterator<Item = u32> + '_ {
        self.sealed.iter().copied()
    }

    /// Removes a full region from the list, so that it can be reclaimed.
    pub(crate) fn take_sealed(&mut self, region: u32) {
        self.sealed.retain(|sealed| *sealed != region);
    }

    /// Adds a region to the free list.
    pub(crate) fn push_free(&mut self, region: u32) {
        self.free.push_back(region);
    }

    /// Drops the regions of a lost device from all lists and queues. From now on, nothing is written to them or read
    /// from them.
    pub(crate) fn lose(&mut self, regions: &Regions, lost: std::ops::Range<u32>) {
        self.unnamed.take_if(|unnamed| lost.contains(&unnamed.at.region()));
        self.free.retain(|region| !lost.contains(region));
        self.sealed.retain(|region| !lost.contains(region));
        // A chunk that is being written is freed when that write ends.
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

    /// Returns the number of chunks that wait to be written or are being written.
    pub(crate) fn writes_waiting(&self) -> usize {
        self.queue.len() + self.writing.iter().filter(|writing| **writing).count()
    }
}
