//! Making regions free: each of their items is shown to the store, which knows whether anything names it.
//!
//! ```text
//!   (none) ──free regions are few──> wanted ──read──> at hand ──all of the chunk shown──> wanted ... ──> region free
//! ```
//!
//! The region that goes is one whose items have all ended, or else one of which at most [`SPARSE_PER_MILLE`] is named,
//! or else the one that was full first. What was read since it came is written once more by the store, at most as far
//! as [`AGAIN_PERCENT`] of a region: so what devices write stays below 1.4 times what was taken.

use std::sync::atomic::Ordering::Relaxed;

use base::clock::UnixMillis;
use segment::{Reclaimed, TierItem, Visit};

use crate::entry::{self, Entry};
use crate::flash::{Flash, Scratch, Work, lock};

/// A region of which so much or less is named goes before those that were full earlier.
const SPARSE_PER_MILLE: u64 = 250;
/// How much of a region is written once more at most: with a quarter, four thirds of what is taken are written.
const AGAIN_PERCENT: usize = 25;

/// A region that is to be free.
#[derive(Debug)]
pub(crate) struct Job {
    region: u32,
    /// Where the chunk that is at hand or wanted begins.
    chunk: usize,
    /// Where in it the next item is.
    at: usize,
    /// What of it went on in other regions, in bytes.
    again_bytes: usize,
    bytes: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It waits for a thread.
    Wanted,
    AtHand,
    /// It cannot be read.
    Failed,
}

impl Flash {
    /// See [`segment::Tier::reclaim`].
    pub(crate) fn reclaim_some(&self, now: UnixMillis, visit: &mut Visit<'_>) -> bool {
        let mut guard = lock(&self.job);
        if guard.is_none() {
            *guard = self.begin_job(now);
        }
        let Some(job) = guard.as_mut() else { return false };
        match job.state {
            State::Wanted => return false,
            // Its device is lost, and the region with it.
            State::Failed => {
                *guard = None;
                return false;
            }
            State::AtHand => {}
        }
        if !self.show(job, visit) {
            return true;
        }
        (job.chunk, job.at) = (job.chunk + self.regions.sizes.chunk_bytes, 0);
        if job.chunk < self.regions.sizes.region_bytes {
            job.state = State::Wanted;
            drop(guard);
            self.push_work(Work::Chunk);
            return false;
        }
        let region = job.region;
        *guard = None;
        drop(guard);
        self.free(region);
        true
    }

    /// Shows what is left of the chunk at hand; false if an item was put off.
    fn show(&self, job: &mut Job, visit: &mut Visit<'_>) -> bool {
        let (region, seed) = (self.regions.at(job.region), self.regions.seed(job.region));
        while job.at < job.bytes.len() {
            let (parts, len) = match entry::read(&job.bytes, job.chunk, job.at, seed) {
                Entry::Item(parts, len) => (parts, len),
                Entry::End => return true,
                Entry::Longer(bytes) if bytes == entry::HEADER_BYTES => return true,
                Entry::Longer(_) | Entry::Broken => {
                    // Where the next one begins is not known. The slots of the others name an earlier life from here
                    // on, and are cleared by who reads them.
                    self.counters.reclaim_failed.fetch_add(1, Relaxed);
                    return true;
                }
            };
            let item = TierItem {
                hash: 0,
                namespace: parts.namespace,
                key: &job.bytes[parts.key.clone()],
                kept: parts.kept,
                value: &job.bytes[parts.value.clone()],
                client_flags: parts.client_flags,
                expire_at: parts.expire_at,
                token: parts.token,
                sequence: parts.sequence,
                class: 0,
            };
            let from = job.chunk + job.at;
            let may_stay = job.again_bytes + len <= self.regions.sizes.region_bytes * AGAIN_PERCENT / 100;
            match visit(&item, region.address(job.region, from, len), may_stay) {
                Reclaimed::Later => return false,
                Reclaimed::Again => {
                    job.again_bytes += entry::padded(len);
                    self.counters.again_bytes.fetch_add(len as u64, Relaxed);
                }
                Reclaimed::Done => {}
            }
            job.at += entry::padded(len);
        }
        true
    }

    fn begin_job(&self, now: UnixMillis) -> Option<Job> {
        let mut log = lock(&self.log);
        if log.free_count() >= self.free_low() {
            return None;
        }
        let whole = |region: &u32| self.regions.at(*region).written() == self.regions.sizes.region_bytes;
        let past = || log.sealed().filter(whole).find(|region| self.regions.at(*region).is_past(now));
        let live = |region: &u32| self.regions.at(*region).live_per_mille();
        let sparse = || log.sealed().filter(whole).filter(|region| live(region) <= SPARSE_PER_MILLE).min_by_key(live);
        let region = past().or_else(sparse).or_else(|| log.sealed().find(whole))?;
        log.take_sealed(region);
        drop(log);
        self.push_work(Work::Chunk);
        let bytes = Vec::with_capacity(self.regions.sizes.chunk_bytes);
        Some(Job { region, chunk: 0, at: 0, again_bytes: 0, bytes, state: State::Wanted })
    }

    /// Reads the chunk that the job wants.
    pub(crate) fn read_chunk(&self, scratch: &mut Scratch) {
        let Some((region, chunk)) = lock(&self.job).as_ref().map(|job| (job.region, job.chunk)) else { return };
        let bytes = self.regions.sizes.chunk_bytes;
        let read = self.read_device(region, chunk, bytes, scratch);
        if read.is_some() {
            self.counters.reclaim_read_bytes.fetch_add(bytes as u64, Relaxed);
        }
        let mut guard = lock(&self.job);
        let Some(job) = guard.as_mut() else { return };
        job.bytes.clear();
        job.bytes.extend_from_slice(read.unwrap_or_default());
        job.state = if read.is_some() { State::AtHand } else { State::Failed };
        drop(guard);
        self.wake(None);
    }

    fn free(&self, region: u32) {
        let (part, at) = self.regions.place(region);
        if part.is_lost() {
            return;
        }
        part.device.discard(at, self.regions.sizes.region_bytes as u64);
        lock(&self.log).push_free(region);
        self.counters.regions_reclaimed.fetch_add(1, Relaxed);
    }
}
