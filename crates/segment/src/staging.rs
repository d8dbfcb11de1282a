//! What a lane has asked a second tier for, and what has come.
//!
//! ```text
//!   (none) ──ask──> asked ──collect──> here ──> served, or brought back to memory
//!                     │                └──> another key's, or broken: kept until the request was tried again
//! ```
//!
//! An entry is for one key and one address: a key whose tag several slots have asks for one after another. Nothing in
//! here is the truth about a key: what an entry says holds as long as the index has a slot with its address, which is
//! looked at again each time.
//!
//! Bounds: [`READS_MAX`] entries, with a buffer each. One that nobody comes back for, since its connection is gone,
//! makes room for others.

use crate::tier::{FlashAddress, Found, Tier, TierRead};

/// Reads that a lane has under way or at hand.
pub(crate) const READS_MAX: usize = 64;

/// What is known of one key at one address.
#[derive(Debug)]
struct Entry {
    hash: u64,
    at: FlashAddress,
    /// It is to be an item in memory again, since it is to be changed, or was read often.
    back: bool,
    /// When it was asked for: entries are numbered.
    number: u64,
    read: Option<TierRead>,
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The key has no entry for the address.
    Nothing,
    /// It was asked for.
    Asked,
    /// An item with the key's hash is here.
    Here,
    /// The item there is another key's.
    Other,
    /// It cannot be read.
    Failed,
}

/// The entries of one lane.
#[derive(Debug)]
pub(crate) struct Staging {
    entries: Vec<Entry>,
    buffers: Vec<Vec<u8>>,
    asked: u64,
}

impl Staging {
    /// `bytes`: what the buffer of a read begins with.
    pub(crate) fn new(bytes: usize) -> Self {
        let buffers = (0..READS_MAX).map(|_| Vec::with_capacity(bytes)).collect();
        Self { entries: Vec::with_capacity(READS_MAX), buffers, asked: 0 }
    }

    fn place(&self, hash: u64, at: FlashAddress) -> Option<usize> {
        self.entries.iter().position(|entry| entry.hash == hash && entry.at == at)
    }

    /// What is known of the key there. `back`: it is wanted in memory.
    pub(crate) fn known(&mut self, hash: u64, at: FlashAddress, back: bool) -> Known {
        let Some(place) = self.place(hash, at) else { return Known::Nothing };
        let entry = &mut self.entries[place];
        entry.back |= back;
        match entry.read.as_ref().map(|read| &read.found) {
            None | Some(Found::Nothing) => Known::Asked,
            Some(Found::Item(_)) => Known::Here,
            Some(Found::Other) => Known::Other,
            Some(Found::Failed) => Known::Failed,
        }
    }

    /// Asks the tier. Where that is not possible now, who wants to know comes again and asks again.
    pub(crate) fn ask(&mut self, tier: &dyn Tier, lane: usize, hash: u64, at: FlashAddress, back: bool) {
        if self.buffers.is_empty() && !self.forget_oldest() {
            return;
        }
        let Some(buffer) = self.buffers.pop() else { return };
        match tier.ask(TierRead { lane, hash, at, buffer, found: Found::Nothing }) {
            Ok(()) => {
                self.asked += 1;
                self.entries.push(Entry { hash, at, back, number: self.asked, read: None });
            }
            Err(refused) => self.buffers.push(refused.buffer),
        }
    }

    /// Makes room where nobody came back for what is here; false if all is still under way.
    fn forget_oldest(&mut self) -> bool {
        let here = self.entries.iter().enumerate().filter(|(_, entry)| entry.read.is_some());
        let Some((place, _)) = here.min_by_key(|(_, entry)| entry.number) else { return false };
        self.forget_at(place);
        true
    }

    fn forget_at(&mut self, place: usize) {
        let entry = self.entries.swap_remove(place);
        self.buffers.extend(entry.read.map(|read| read.buffer));
    }

    /// Takes in what has come.
    pub(crate) fn collect(&mut self, tier: &dyn Tier, lane: usize) {
        while let Some(read) = tier.collect(lane) {
            match self.place(read.hash, read.at) {
                Some(place) => self.entries[place].read = Some(read),
                None => self.buffers.push(read.buffer),
            }
        }
    }

    /// The next item that is here and wanted in memory, behind the first `from` entries.
    pub(crate) fn wanted_back(&self, from: usize) -> Option<usize> {
        let is_wanted =
            |entry: &Entry| entry.back && entry.read.as_ref().is_some_and(|read| matches!(read.found, Found::Item(_)));
        (from..self.entries.len()).find(|place| is_wanted(&self.entries[*place]))
    }

    /// The read of an entry that is here, out of its place while it is looked at.
    pub(crate) fn lift(&mut self, place: usize) -> TierRead {
        self.entries[place].read.take().expect("it is here")
    }

    /// Puts it back.
    pub(crate) fn put_down(&mut self, read: TierRead) {
        match self.place(read.hash, read.at) {
            Some(place) => self.entries[place].read = Some(read),
            None => self.buffers.push(read.buffer),
        }
    }

    /// The item of a key that is here, out of the staging.
    pub(crate) fn take(&mut self, hash: u64, at: FlashAddress) -> Option<TierRead> {
        let place = self.place(hash, at)?;
        let read = self.entries[place].read.take()?;
        self.entries.swap_remove(place);
        Some(read)
    }

    /// Puts an item back that was taken, for who comes again.
    pub(crate) fn put_back(&mut self, read: TierRead, back: bool) {
        if self.entries.len() == READS_MAX {
            return self.buffers.push(read.buffer);
        }
        self.asked += 1;
        self.entries.push(Entry { hash: read.hash, at: read.at, back, number: self.asked, read: Some(read) });
    }

    /// The buffer of a read that was taken is free again.
    pub(crate) fn recycle(&mut self, read: TierRead) {
        self.buffers.push(read.buffer);
    }

    /// Nobody needs to know any more what was found there.
    pub(crate) fn forget(&mut self, hash: u64, at: FlashAddress) {
        if let Some(place) = self.place(hash, at)
            && self.entries[place].read.is_some()
        {
            self.forget_at(place);
        }
    }
}
