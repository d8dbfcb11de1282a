//! The reads that a handle has requested from a second tier, and their results.
//!
//! ```text
//!   (no entry) ──ask──> asked ──collect──> the item is here ──> served, or brought back to memory
//!                                   └────> another key's item, or a failed read: retained until the request repeats
//! ```
//!
//! Each entry is for one key and one address. If several slots have a key's tag, their addresses are read one after
//! another. An entry alone does not prove anything about a key: it is valid only while a slot of the key has its
//! address. So each use of an entry checks the index again.
//!
//! Bounds: at most [`READS_MAX`] entries, each with a buffer. If all are in use, a request that needs another entry
//! parks. A result that a request still needs is not discarded for another request, because the two requests could
//! then evict each other's results without end. Only two kinds of results are discarded when an entry is needed:
//! - a result that no request has asked about in the last [`IDLE_GUARDS`] guards, because its connection has closed;
//! - a result that arrived more than [`RETAINED_GUARDS`] guards ago. Its request may be waiting for a reply before it
//!   in the same pipeline, and that reply may need the entry.
//!
//! Walks over all items, or over those of a secondary index, use at most [`WALK_READS_MAX`] entries. The others remain
//! available to requests for a key.
//!
//! A request that waits for a read in progress registers for it ([`Staging::awaited`]). When the read has arrived,
//! [`Staging::take_completed`] reports it. Every read that the tier accepted completes, at the latest when its device
//! is taken out of service.

use crate::tier::{FlashAddress, Found, ReadBy, Tier, TierRead};

/// The maximum number of reads of a handle, in progress or arrived.
pub(crate) const READS_MAX: usize = 64;
/// The maximum number of those reads that walks use.
const WALK_READS_MAX: usize = READS_MAX / 2;
/// The number of guards after which a result that no request asked about is abandoned. A request that still waits
/// asks soon after the result has arrived.
const IDLE_GUARDS: u64 = 64;
/// The number of guards after which a result may be discarded even if a request asks about it.
const RETAINED_GUARDS: u64 = 1024;

/// The state of one key at one address.
#[derive(Debug)]
struct StagedRead {
    hash: u64,
    at: FlashAddress,
    /// True if the item moves back to memory, because it is about to be changed or was read often.
    back: bool,
    /// True if the read is for a walk.
    walk: bool,
    /// The number of the guard in which the read was requested, arrived, or was put back, whichever was last.
    since: u64,
    /// The number of the last guard in which a request asked about the read, or in which the read arrived.
    asked_about: u64,
    /// True if a request waits for the read's arrival.
    awaited: bool,
    read: Option<TierRead>,
}

/// The event that a request waits for when it cannot be answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A read in progress for a key with this hash: [`crate::ThreadHandle::take_completed_reads`] reports its arrival.
    Read(u64),
    /// A free entry for a read: [`crate::ThreadHandle::reads_free`] returns the number of free entries.
    Room,
}

/// The state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The key has no entry for the address.
    Nothing,
    /// The read was requested and has not arrived.
    Asked,
    /// The read has arrived, with an item whose key has the hash.
    Here,
    /// The read has arrived: the item at the address belongs to another key.
    Other,
    /// The read has failed.
    Failed,
}

/// The state of an entry, as a walk uses it.
#[derive(Debug)]
pub(crate) enum Walked {
    /// Not requested.
    Nothing,
    /// Requested, not arrived.
    Asked,
    /// The result that arrived, taken out of the staging.
    Come(TierRead),
}

/// The entries of one handle.
#[derive(Debug)]
pub(crate) struct Staging {
    entries: Vec<StagedRead>,
    buffers: Vec<Vec<u8>>,
    /// The number of guards that the handle has begun.
    guards: u64,
    /// The event that the last request waits for.
    awaited: Option<Awaited>,
    /// The hashes of awaited reads that have arrived and that [`Staging::take_completed`] has not yet reported.
    landed: Vec<u64>,
}

impl Staging {
    /// Creates an empty list. Each read's buffer has an initial capacity of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        let buffers = (0..READS_MAX).map(|_| Vec::with_capacity(bytes)).collect();
        let entries = Vec::with_capacity(READS_MAX);
        Self { entries, buffers, guards: 0, awaited: None, landed: Vec::with_capacity(READS_MAX) }
    }

    fn place(&self, hash: u64, at: FlashAddress) -> Option<usize> {
        self.entries.iter().position(|entry| entry.hash == hash && entry.at == at)
    }

    /// Returns the state of the entry of a key and an address. If `back` is true, the item will be moved to memory.
    pub(crate) fn known(&mut self, hash: u64, at: FlashAddress, back: bool) -> Known {
        let Some(place) = self.place(hash, at) else { return Known::Nothing };
        let entry = &mut self.entries[place];
        entry.back |= back;
        entry.asked_about = self.guards;
        match entry.read.as_ref().map(|read| &read.found) {
            None | Some(Found::Nothing) => Known::Asked,
            Some(Found::Item(_)) => Known::Here,
            Some(Found::Other) => Known::Other,
            Some(Found::Failed) => Known::Failed,
        }
    }

    /// Begins a request, which does not wait for a read yet.
    pub(crate) fn begin_request(&mut self) {
        self.awaited = None;
    }

    /// Returns the event that the current request waits for, if it waits for a read or an entry. If it waits for a
    /// read, [`Staging::take_completed`] will report the arrival.
    pub(crate) fn awaited(&mut self) -> Option<Awaited> {
        let awaited = self.awaited?;
        if let Awaited::Read(hash) = awaited {
            let under_way = |entry: &&mut StagedRead| entry.hash == hash && entry.read.is_none();
            self.entries.iter_mut().find(under_way)?.awaited = true;
        }
        Some(awaited)
    }

    /// Moves the hashes of awaited reads that have arrived to the end of `into`.
    pub(crate) fn take_completed(&mut self, into: &mut Vec<u64>) {
        into.append(&mut self.landed);
    }

    /// Returns the number of reads that can be requested now.
    pub(crate) fn free(&self) -> usize {
        self.buffers.len()
    }

    /// Returns true if a read for this hash is in progress.
    pub(crate) fn is_pending(&self, hash: u64) -> bool {
        self.entries.iter().any(|entry| entry.hash == hash && entry.read.is_none())
    }

    /// Records that the current request waits for the read in progress for this hash.
    pub(crate) fn waits_for(&mut self, hash: u64) {
        self.awaited = Some(Awaited::Read(hash));
    }

    /// Requests a read from the tier. If no entry is free or the tier refuses, the caller has to try again later.
    pub(crate) fn ask(&mut self, tier: &dyn Tier, handle: usize, hash: u64, at: FlashAddress, back: bool) {
        let read = TierRead { handle, hash, by: ReadBy::Key, at, buffer: Vec::new(), found: Found::Nothing };
        self.begin(tier, read, back, false);
    }

    /// Requests a read for a walk. `hash` is the key's hash, or only those bits of it that the key's slot determines.
    pub(crate) fn request_for_walk(&mut self, tier: &dyn Tier, handle: usize, hash: u64, at: FlashAddress, by: ReadBy) {
        // If no read can begin, the walk waits for a free entry, as in `begin`.
        self.awaited = self.awaited.or(Some(Awaited::Room));
        if self.walks() < WALK_READS_MAX || self.forget_abandoned(|entry| entry.walk) {
            let read = TierRead { handle, hash, by, at, buffer: Vec::new(), found: Found::Nothing };
            self.begin(tier, read, false, true);
        }
    }

    fn walks(&self) -> usize {
        self.entries.iter().filter(|entry| entry.walk).count()
    }

    /// Returns true if another read for a walk can be requested. A walk may request reads ahead of the read that it
    /// waits for.
    pub(crate) fn has_room_for_walks(&self) -> bool {
        !self.buffers.is_empty() && self.walks() < WALK_READS_MAX
    }

    fn begin(&mut self, tier: &dyn Tier, read: TierRead, back: bool, walk: bool) {
        // If no read can begin, the request waits for a free entry. If a read begins, `waits_for` replaces this.
        self.awaited = self.awaited.or(Some(Awaited::Room));
        if self.buffers.is_empty() && !self.forget_abandoned(|_| true) {
            return;
        }
        let Some(buffer) = self.buffers.pop() else { return };
        let (hash, at) = (read.hash, read.at);
        match tier.ask(TierRead { buffer, ..read }) {
            Ok(()) => {
                let now = self.guards;
                let asked_about = now;
                self.entries.push(StagedRead {
                    hash,
                    at,
                    back,
                    walk,
                    since: now,
                    asked_about,
                    awaited: false,
                    read: None,
                });
                self.waits_for(hash);
            }
            Err(refused) => self.buffers.push(refused.buffer),
        }
    }

    /// Returns the state of an entry to a walk. If the read has arrived, removes the entry.
    pub(crate) fn walked(&mut self, hash: u64, at: FlashAddress) -> Walked {
        let Some(place) = self.place(hash, at) else { return Walked::Nothing };
        let entry = &mut self.entries[place];
        entry.asked_about = self.guards;
        match entry.read.take() {
            None => {
                self.waits_for(hash);
                Walked::Asked
            }
            Some(read) => {
                self.entries.swap_remove(place);
                Walked::Come(read)
            }
        }
    }

    /// Frees an entry by discarding a result that no request has asked about for too long, or that arrived too long
    /// ago. Returns false if no such entry exists among those that `meant` accepts.
    fn forget_abandoned(&mut self, meant: impl Fn(&StagedRead) -> bool) -> bool {
        let is_left = |entry: &StagedRead| {
            let (idle, kept) = (self.guards - entry.asked_about, self.guards - entry.since);
            entry.read.is_some() && meant(entry) && (idle > IDLE_GUARDS || kept > RETAINED_GUARDS)
        };
        let left = self.entries.iter().enumerate().filter(|(_, entry)| is_left(entry));
        let Some((place, _)) = left.min_by_key(|(_, entry)| entry.asked_about) else { return false };
        self.forget_at(place);
        true
    }

    fn forget_at(&mut self, place: usize) {
        let entry = self.entries.swap_remove(place);
        self.buffers.extend(entry.read.map(|read| read.buffer));
    }

    /// Begins a guard: collects the reads that have completed.
    pub(crate) fn collect(&mut self, tier: &dyn Tier, handle: usize) {
        self.guards += 1;
        while let Some(read) = tier.collect(handle) {
            match self.place(read.hash, read.at) {
                Some(place) => {
                    let entry = &mut self.entries[place];
                    if std::mem::take(&mut entry.awaited) {
                        self.landed.push(read.hash);
                    }
                    (entry.since, entry.asked_about, entry.read) = (self.guards, self.guards, Some(read));
                }
                None => self.buffers.push(read.buffer),
            }
        }
    }

    /// Returns the index of the first entry from index `from` on whose item has arrived and is to be moved to memory.
    pub(crate) fn wanted_back(&self, from: usize) -> Option<usize> {
        let is_wanted = |entry: &StagedRead| {
            entry.back && entry.read.as_ref().is_some_and(|read| matches!(read.found, Found::Item(_)))
        };
        (from..self.entries.len()).find(|place| is_wanted(&self.entries[*place]))
    }

    /// Takes the read of an arrived entry out of its place while it is examined.
    pub(crate) fn lift(&mut self, place: usize) -> TierRead {
        self.entries[place].read.take().expect("it is here")
    }

    /// Takes the arrived read of a key out of its place while it is examined.
    pub(crate) fn lift_of(&mut self, hash: u64, at: FlashAddress) -> TierRead {
        self.lift(self.place(hash, at).expect("it is here"))
    }

    /// Puts a read that [`Self::lift`] or [`Self::lift_of`] took out back into its entry. If the entry no longer
    /// exists, only the read's buffer is retained, for other reads.
    pub(crate) fn put_down(&mut self, read: TierRead) {
        match self.place(read.hash, read.at) {
            Some(place) => self.entries[place].read = Some(read),
            None => self.buffers.push(read.buffer),
        }
    }

    /// Removes the entry of a read that has arrived, and returns the read.
    pub(crate) fn take(&mut self, hash: u64, at: FlashAddress) -> Option<TierRead> {
        let place = self.place(hash, at)?;
        let read = self.entries[place].read.take()?;
        self.entries.swap_remove(place);
        Some(read)
    }

    /// Puts a read that [`Self::take`] returned back, because the request will be repeated. `walk` is true if the read
    /// is only for a walk. If no entry is free, discards the result.
    pub(crate) fn put_back(&mut self, read: TierRead, back: bool, walk: bool) {
        if self.entries.len() == READS_MAX {
            return self.buffers.push(read.buffer);
        }
        let (now, hash, at) = (self.guards, read.hash, read.at);
        let (awaited, read) = (false, Some(read));
        self.entries.push(StagedRead { hash, at, back, walk, since: now, asked_about: now, awaited, read });
    }

    /// Makes the buffer of a read that [`Self::take`] returned available for other reads.
    pub(crate) fn recycle(&mut self, read: TierRead) {
        self.buffers.push(read.buffer);
    }

    /// Discards the results for this hash that are only for a walk, because the walk has passed the hash.
    pub(crate) fn walked_past(&mut self, hash: u64) {
        let is_left = |entry: &StagedRead| entry.hash == hash && entry.walk && entry.read.is_some();
        while let Some(place) = self.entries.iter().position(is_left) {
            self.forget_at(place);
        }
    }

    /// Discards the result for an address that no request needs any more, if it has arrived.
    pub(crate) fn forget(&mut self, hash: u64, at: FlashAddress) {
        if let Some(place) = self.place(hash, at)
            && self.entries[place].read.is_some()
        {
            self.forget_at(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::{TierFind, TierFound, TierItem, TierShow, Visit};
    use base::clock::UnixMillis;
    use std::collections::VecDeque;

    /// A device that completes one read per guard, the most recently requested one, and counts the requested reads.
    #[derive(Debug, Default)]
    struct Slow(std::sync::Mutex<SlowReads>);

    #[derive(Debug, Default)]
    struct SlowReads {
        under_way: VecDeque<TierRead>,
        asked: usize,
        ended_one: bool,
    }

    impl Tier for Slow {
        fn offer(&self, _: &TierItem<'_>) -> Option<FlashAddress> {
            None
        }

        fn release(&self, _: FlashAddress) {}

        fn ask(&self, read: TierRead) -> Result<(), TierRead> {
            let mut reads = self.0.lock().unwrap();
            reads.asked += 1;
            reads.under_way.push_back(read);
            Ok(())
        }

        fn collect(&self, _: usize) -> Option<TierRead> {
            let mut reads = self.0.lock().unwrap();
            reads.ended_one = !reads.ended_one;
            let read = if reads.ended_one { reads.under_way.pop_back() } else { None };
            read.map(|read| TierRead { found: Found::Item(Box::default()), ..read })
        }

        fn found(&self) -> TierFound {
            TierFound::default()
        }

        fn may_name(&self, _: FlashAddress) -> bool {
            true
        }

        fn name(&self, _: FlashAddress) {}

        fn kill(&self, _: FlashAddress, _: u16) {}

        fn change(&self, _: u64) {}

        fn is_gone(&self, _: u64, _: FlashAddress, _: u16) -> bool {
            false
        }

        fn is_found(&self) -> bool {
            true
        }

        fn find(&self, _: &mut TierShow<'_>) -> TierFind {
            TierFind::Whole
        }

        fn sync(&self) {}

        fn reclaim(&self, _: UnixMillis, _: &mut Visit<'_>) -> bool {
            false
        }
    }

    fn at(key: u64) -> FlashAddress {
        FlashAddress::new(1, 0, key as u16, 1)
    }

    #[test]
    fn completed_reads_of_a_pipeline_are_not_discarded_for_another_pipeline() {
        let (tier, mut staging) = (Slow::default(), Staging::new(512));
        let pipelines = 4;
        let mut left: Vec<VecDeque<u64>> =
            (0..pipelines).map(|number| (0..READS_MAX as u64).map(|key| number * 1000 + key).collect()).collect();
        let mut guards = 0;
        while left.iter().any(|keys| !keys.is_empty()) {
            guards += 1;
            assert!(guards < 100 * READS_MAX, "the pipelines do not complete: {left:?}");
            staging.collect(&tier, 0);
            // Each pipeline consumes results in its own order, and requests the reads of all its other keys.
            for keys in &mut left {
                while let Some(key) =
                    keys.front().copied().filter(|key| staging.known(*key, at(*key), false) == Known::Here)
                {
                    let read = staging.take(key, at(key)).expect("it is here");
                    staging.recycle(read);
                    keys.pop_front();
                }
                for key in keys.iter() {
                    if staging.known(*key, at(*key), false) == Known::Nothing {
                        staging.ask(&tier, 0, *key, at(*key), false);
                    }
                }
            }
        }
        assert_eq!(tier.0.lock().unwrap().asked, pipelines as usize * READS_MAX, "each is read once");
    }

    #[test]
    fn abandoned_reads_make_room_for_new_reads_but_awaited_reads_do_not() {
        let (tier, mut staging) = (Slow::default(), Staging::new(512));
        let all = 0..READS_MAX as u64;
        all.clone().for_each(|key| staging.ask(&tier, 0, key, at(key), false));
        for _ in all.clone() {
            staging.collect(&tier, 0);
            staging.known(0, at(0), false);
        }
        staging.ask(&tier, 0, 100, at(100), false);
        assert_eq!(staging.known(100, at(100), false), Known::Nothing, "requests may still wait for the other reads");
        for _ in 0..=IDLE_GUARDS {
            staging.collect(&tier, 0);
            if staging.known(100, at(100), false) == Known::Nothing {
                staging.ask(&tier, 0, 100, at(100), false);
            }
            assert_eq!(staging.known(0, at(0), false), Known::Here, "a request still asks about it");
        }
        assert_ne!(staging.known(100, at(100), false), Known::Nothing, "the other reads were abandoned");
        assert_eq!(staging.known(0, at(0), false), Known::Here);
    }
}
