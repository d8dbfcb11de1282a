//! The room of a second tier in the store's memory: the tier's words and chunks.
//!
//! ```text
//!   TierBacking::lay ──room──> the caller creates the tier in it ──TierBacking::store──> the store with the tier
//! ```
//!
//! If the store has a memory file, the words and the chunks are in the file, between the segments' headers and the
//! index. So they outlive the process together with the slots that name items on the tier, in the state of the same
//! instant.
//!
//! A tier whose room has the contents of an earlier process reports that process's items ([`crate::Tier::found`]).
//! After a power loss the room is empty, so no checkpoint has to sync it ([`crate::durable::checkpoint`]).

use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use arena::Map;

use crate::durable::file::Held;
use crate::index::GROUP_SLOTS;
use crate::layout::raw::{Array, TierChunk, Word64};
use crate::tier::TierPlan;

/// The words and chunks of a second tier.
#[derive(Debug)]
pub struct TierRoom {
    words: Array<Word64>,
    chunks: Vec<TierChunk>,
    found: bool,
    finds: bool,
}

/// Returns the size of this number of words in bytes, rounded up to whole pages.
fn words_bytes(words: usize) -> usize {
    (words * size_of::<Word64>()).next_multiple_of(arena::PAGE_BYTES)
}

impl TierPlan {
    /// Returns the number of groups of the index of a store with this plan.
    pub(crate) fn groups(&self) -> usize {
        (self.index_slots as usize).div_ceil(GROUP_SLOTS).max(1)
    }

    /// Returns the size of the room, in bytes.
    pub(crate) fn room_bytes(&self) -> u64 {
        assert!(self.chunk_bytes.is_multiple_of(arena::PAGE_BYTES), "chunks are whole pages: {self:?}");
        (words_bytes(self.words) + self.chunks * self.chunk_bytes) as u64
    }
}

impl TierRoom {
    /// Creates the room from maps that `map` returns. `map` is called with a position in the room and a length in
    /// bytes.
    fn of(plan: &TierPlan, found: bool, mut map: impl FnMut(u64, usize) -> io::Result<Map>) -> io::Result<Self> {
        let front = words_bytes(plan.words);
        let chunk = |number: usize| (front + number * plan.chunk_bytes) as u64;
        Ok(Self {
            words: Array::of_map(map(0, front)?, plan.words),
            chunks: (0..plan.chunks)
                .map(|number| map(chunk(number), plan.chunk_bytes).map(TierChunk::of_map))
                .collect::<io::Result<_>>()?,
            found,
            finds: plan.finds,
        })
    }

    /// Creates a room in the memory of the process, all zero.
    ///
    /// # Errors
    /// If the address space cannot be reserved.
    pub fn private(plan: &TierPlan) -> io::Result<Self> {
        Self::of(plan, false, |_, bytes| Map::reserve(bytes, false))
    }

    /// Returns the room in a memory file, at offset `at`. After a power loss the room's contents are discarded, because
    /// its pages may be from different instants. They are also discarded if the slots that named the items are lost and
    /// the tier does not find its items again. A view whose contents would be discarded gets a private room instead.
    pub(crate) fn in_file(plan: &TierPlan, held: &Held, at: u64) -> io::Result<Self> {
        let is_of_use = held.lost.is_none() && (plan.finds || !held.rebuilds_index);
        if !is_of_use && held.file.is_view() {
            return Self::private(plan);
        }
        let map = |from, bytes| Map::of_file(&held.file, at + from, bytes, false);
        if held.left.is_some() && !is_of_use {
            let words = map(0, words_bytes(plan.words))?;
            words.release(0, words.bytes())?;
            words.allocate(0, words.bytes())?;
        }
        Self::of(plan, held.left.is_some() && is_of_use, map)
    }

    /// Takes the chunks out of the room. A second call returns no chunks.
    pub fn take_chunks(&mut self) -> Vec<TierChunk> {
        std::mem::take(&mut self.chunks)
    }

    /// Returns true if the room has the contents of an earlier process. Otherwise its words are zero.
    pub fn is_found(&self) -> bool {
        self.found
    }

    /// Returns true if the tier finds its items again: see [`TierPlan::finds`].
    pub fn finds(&self) -> bool {
        self.finds
    }

    /// Returns the word at `number`.
    pub fn load(&self, number: usize) -> u64 {
        self.words.at(number).load(Acquire)
    }

    /// Stores a word, with release ordering: a thread that loads the value also sees all earlier stores.
    pub fn store(&self, number: usize, value: u64) {
        self.words.at(number).store(value, Release);
    }

    /// Sets bits of a word that other threads may change at the same time.
    pub fn set_bits(&self, number: usize, bits: u64) {
        let _ = self.words.at(number).fetch_or(bits, AcqRel);
    }

    /// Changes a word that other threads may change at the same time. `to` may be called several times.
    pub fn change(&self, number: usize, to: impl Fn(u64) -> u64) {
        let word = self.words.at(number);
        let mut from = word.load(Acquire);
        while let Err(other) = word.compare_exchange(from, to(from), AcqRel) {
            from = other;
        }
    }
}
