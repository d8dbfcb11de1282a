//! Writing: items go into chunks of memory, and full chunks to their region.
//!
//! ```text
//!   chunk:  Free ──a region needs one──> Filling ──full──> Queued ──a thread takes it──> Writing ──written──> Free
//! ```
//!
//! A region's chunks are filled and written in order, by one thread at a time, so what is on the device of a region is
//! all of it up to [`Region::written`], and the rest is in chunks that are read where they are. An item is where its
//! address says before anybody is told the address.
//!
//! Bounds: [`CHUNKS`] chunks. Where none is free, devices are slower than eviction, and an item is refused.

use std::collections::VecDeque;
use std::sync::Arc;

use segment::{FlashAddress, TierItem};

use crate::aligned::Aligned;
use crate::entry;
use crate::regions::Regions;

/// Regions that are open at once, each for items with times to live of its own.
pub(crate) const OPEN_MAX: usize = 4;
/// Chunks in memory: one for each open region, and those that are being written.
const CHUNKS: usize = 12;

/// What goes together, by the store's TTL class: without an end, up to some minutes, hours, days.
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
    region: u32,
    /// Where in the region it begins.
    from: usize,
    used: usize,
    /// Of nobody else while it is filled.
    bytes: Arc<Aligned>,
    is_used: bool,
}

/// A chunk that is to be written.
#[derive(Debug)]
pub(crate) struct Write {
    chunk: usize,
    pub(crate) region: u32,
    pub(crate) from: usize,
    pub(crate) bytes: Arc<Aligned>,
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
}

#[derive(Clone, Copy, Debug)]
struct Open {
    region: u32,
    chunk: usize,
}

/// What is being written. One lock guards all of it, which nobody holds while a device is at work.
#[derive(Debug)]
pub(crate) struct Log {
    chunks: Vec<Chunk>,
    open: [Option<Open>; OPEN_MAX],
    free: VecDeque<u32>,
    /// Full regions, those that were full first in front.
    sealed: VecDeque<u32>,
    queue: VecDeque<usize>,
    /// A thread has a chunk: the next one waits, so that a region is written in order.
    writing: bool,
}

impl Log {
    pub(crate) fn new(regions: &Regions) -> Self {
        let chunk = |_| Chunk {
            region: 0,
            from: 0,
            used: 0,
            bytes: Arc::new(Aligned::new(regions.sizes.chunk_bytes)),
            is_used: false,
        };
        Self {
            chunks: (0..CHUNKS).map(chunk).collect(),
            open: [None; OPEN_MAX],
            free: (0..regions.count() as u32).collect(),
            sealed: VecDeque::with_capacity(regions.count()),
            queue: VecDeque::with_capacity(CHUNKS),
            writing: false,
        }
    }

    /// Bytes of memory that chunks of such sizes take.
    pub(crate) fn memory_bytes(regions: &Regions) -> usize {
        CHUNKS * regions.sizes.chunk_bytes + regions.count() * 2 * size_of::<u32>()
    }

    /// Copies an item to where its address says. True beside it: a chunk waits to be written.
    pub(crate) fn append(&mut self, regions: &Regions, item: &TierItem<'_>) -> Result<(FlashAddress, bool), Refused> {
        let bytes = entry::entry_bytes(item);
        if bytes > regions.sizes.chunk_bytes || bytes > entry::ENTRY_BYTES_MAX {
            return Err(Refused::TooLong);
        }
        let group = group_of(item.class, item.expire_at.is_some());
        let mut fills = false;
        let open = match self.open[group] {
            Some(open) if self.chunks[open.chunk].used + bytes <= regions.sizes.chunk_bytes => open,
            Some(open) => {
                fills = true;
                self.next_chunk(regions, group, open)?
            }
            None => self.next_region(regions, group)?,
        };
        let chunk = &mut self.chunks[open.chunk];
        let (from, used) = (chunk.from + chunk.used, chunk.used);
        let room = Arc::get_mut(&mut chunk.bytes).expect("a chunk that is filled is nobody else's").bytes_mut();
        entry::write(item, regions.seed(open.region), from, &mut room[used..]);
        chunk.used = entry::padded(used + bytes).min(regions.sizes.chunk_bytes);
        let region = regions.at(open.region);
        let at = region.address(open.region, from, bytes);
        region.note_item(at.blocks(), item.expire_at);
        Ok((at, fills))
    }

    /// Has a full chunk written and begins the next one of the region, or of another region.
    fn next_chunk(&mut self, regions: &Regions, group: usize, open: Open) -> Result<Open, Refused> {
        let next = self.chunks[open.chunk].from + regions.sizes.chunk_bytes;
        if next == regions.sizes.region_bytes {
            if self.free.is_empty() || self.free_chunk().is_none() {
                return Err(if self.free.is_empty() { Refused::NoRegion } else { Refused::NoChunk });
            }
            self.queue_chunk(open);
            self.open[group] = None;
            self.sealed.push_back(open.region);
            return self.next_region(regions, group);
        }
        let chunk = self.free_chunk().ok_or(Refused::NoChunk)?;
        self.queue_chunk(open);
        self.begin_chunk(group, open.region, chunk, next);
        Ok(Open { chunk, ..open })
    }

    fn next_region(&mut self, regions: &Regions, group: usize) -> Result<Open, Refused> {
        let chunk = self.free_chunk().ok_or(Refused::NoChunk)?;
        let region = self.free.pop_front().ok_or(Refused::NoRegion)?;
        regions.at(region).open();
        self.begin_chunk(group, region, chunk, 0);
        Ok(Open { region, chunk })
    }

    fn free_chunk(&self) -> Option<usize> {
        self.chunks.iter().position(|chunk| !chunk.is_used)
    }

    fn begin_chunk(&mut self, group: usize, region: u32, chunk: usize, from: usize) {
        let begun = &mut self.chunks[chunk];
        (begun.region, begun.from, begun.used, begun.is_used) = (region, from, 0, true);
        self.open[group] = Some(Open { region, chunk });
    }

    fn queue_chunk(&mut self, open: Open) {
        let chunk = &mut self.chunks[open.chunk];
        let room = Arc::get_mut(&mut chunk.bytes).expect("a chunk that is filled is nobody else's").bytes_mut();
        // What an earlier use left behind the last item is not to be taken for items.
        room[chunk.used..].fill(0);
        self.queue.push_back(open.chunk);
    }

    /// The next chunk to be written, if none is being written.
    pub(crate) fn take_write(&mut self) -> Option<Write> {
        if self.writing {
            return None;
        }
        let number = self.queue.pop_front()?;
        self.writing = true;
        let chunk = &self.chunks[number];
        Some(Write { chunk: number, region: chunk.region, from: chunk.from, bytes: Arc::clone(&chunk.bytes) })
    }

    /// A chunk was written, or could not be: its bytes are not needed any more.
    pub(crate) fn end_write(&mut self, regions: &Regions, write: Write, ok: bool) {
        let Write { chunk, region, from, bytes } = write;
        drop(bytes);
        if ok {
            regions.at(region).note_written(from + regions.sizes.chunk_bytes);
        }
        self.chunks[chunk].is_used = false;
        self.writing = false;
    }

    /// Copies what a chunk in memory holds of a region from `from` on; false if it is in none.
    pub(crate) fn copy(&self, region: u32, from: usize, into: &mut Vec<u8>, bytes: usize) -> bool {
        let holds = |chunk: &&Chunk| {
            let end = chunk.from + chunk.bytes.bytes().len();
            chunk.is_used && chunk.region == region && (chunk.from..end).contains(&from)
        };
        let Some(chunk) = self.chunks.iter().find(holds) else { return false };
        let all = chunk.bytes.bytes();
        let at = from - chunk.from;
        into.clear();
        into.extend_from_slice(&all[at..(at + bytes).min(all.len())]);
        true
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

    /// Nothing more goes to these regions, nor comes from there.
    pub(crate) fn lose(&mut self, lost: std::ops::Range<u32>) {
        self.free.retain(|region| !lost.contains(region));
        self.sealed.retain(|region| !lost.contains(region));
        for open in &mut self.open {
            if let Some(gone) = open.take_if(|open| lost.contains(&open.region)) {
                self.chunks[gone.chunk].is_used = false;
            }
        }
    }

    /// Chunks that wait to be written or are being written.
    pub(crate) fn writes_waiting(&self) -> usize {
        self.queue.len() + usize::from(self.writing)
    }
}
