//! Reclaims regions. Each item of a region is shown to the store, which knows whether a slot still references the item.
//! Then the region is freed.
//!
//! ```text
//!   (no job) ──few free regions──> Wanted ──chunk read──> AtHand ──all items of the chunk shown──> Wanted ...
//!                              all items of the region shown ──> Freeing ──region discarded on device──> (no job)
//! ```
//!
//! After a start without an index, no slot references a region until the search has reached it ([`crate::found`]). Such
//! a region is freed at once, without being read.
//!
//! The next region to reclaim is one whose items have all expired. If there is none, it is a region of which slots
//! reference at most [`SPARSE_PER_MILLE`]. Otherwise it is the region that became full first. Items that clients have
//! read on flash are written once more, to another region. At most [`AGAIN_PERCENT`] percent of a region is written
//! again, so devices write less than 1.4 times the accepted bytes.

use std::sync::atomic::Ordering::Relaxed;

use base::clock::UnixMillis;
use segment::{Reclaimed, TierItem, Visit};

use crate::entry::{self, Entry};
use crate::flash::{Flash, lock};
use crate::queues::{Scratch, Work};

/// A share of a region, in thousandths. A region of which slots reference at most this share is reclaimed before
/// regions that became full earlier.
const SPARSE_PER_MILLE: u64 = 250;
/// Maximum share of a region whose items are written to another region, in percent. At 25 %, devices write at most four
/// thirds of the accepted bytes.
const AGAIN_PERCENT: usize = 25;

/// A region that is being reclaimed.
#[derive(Debug)]
pub(crate) struct Job {
    region: u32,
    /// Offset in the region at which its written part ends.
    end: usize,
    /// Offset of the current chunk in the region. The chunk is in memory or being read.
    chunk: usize,
    /// Offset of the next item in the chunk.
    at: usize,
    /// Number of bytes of the region's items that were rewritten to other regions.
    again_bytes: usize,
    bytes: Vec<u8>,
    state: ReclaimState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReclaimState {
    /// The chunk waits for a thread to read it.
    Wanted,
    /// The chunk is in memory, and its items are being shown.
    AtHand,
    /// The chunk cannot be read.
    Failed,
    /// All items were shown, and the region waits to be discarded on the device.
    Freeing,
}

impl Flash {
    /// Implements [`segment::Tier::reclaim`].
    pub(crate) fn reclaim_some(&self, now: UnixMillis, visit: &mut Visit<'_>) -> bool {
        let mut guard = lock(&self.job);
        // A job whose device is lost ends here, because the device may never answer the job's request.
        guard.take_if(|job| self.regions.place(job.region).0.is_lost());
        if guard.is_none() {
            *guard = self.begin_job(now);
        }
        let Some(job) = guard.as_mut() else { return false };
        match job.state {
            ReclaimState::Wanted | ReclaimState::Freeing => return false,
            // A failed read takes the device out of use, and its regions with it.
            ReclaimState::Failed => {
                *guard = None;
                return false;
            }
            ReclaimState::AtHand => {}
        }
        if !self.show(job, visit) {
            return true;
        }
        let region = job.region;
        (job.chunk, job.at) = (job.chunk + self.regions.sizes.chunk_bytes, 0);
        if job.chunk < job.end {
            job.state = ReclaimState::Wanted;
            drop(guard);
            self.push_work(region, Work::Chunk);
            return false;
        }
        job.state = ReclaimState::Freeing;
        drop(guard);
        // A device may take long to discard a region, so one of the device's threads does it.
        self.push_work(region, Work::Free(region));
        false
    }

    /// Shows the remaining items of the chunk in memory to the store. Returns false if the store postponed an item.
    fn show(&self, job: &mut Job, visit: &mut Visit<'_>) -> bool {
        let region = self.regions.at(job.region);
        let seed = region.seed();
        while job.at < job.bytes.len() {
            let (parts, len) = match entry::read(&job.bytes, job.chunk, job.at, seed) {
                Entry::Item(parts, len) => (parts, len),
                Entry::Filler(len) => {
                    job.at += len;
                    continue;
                }
                Entry::End => return true,
                Entry::Longer(bytes) if bytes == entry::HEADER_BYTES => return true,
                Entry::Longer(_) | Entry::Broken => {
                    // The item is corrupt, so the start of the next item is unknown, and the rest of the chunk is
                    // skipped. The slots of the skipped items become stale, because the region starts another life. A
                    // read through a stale slot clears the slot.
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
                // The store writes an item again only if the item was read on flash.
                is_read: true,
            };
            let from = job.chunk + job.at;
            let may_stay = job.again_bytes + len <= self.regions.sizes.region_bytes * AGAIN_PERCENT / 100;
            match visit(&item, region.address(from, len), may_stay) {
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
        let mut finder = lock(&self.finder);
        let whole = |region: &u32| log.is_whole(*region) && !finder.is_at(*region);
        let past = || log.sealed().filter(whole).find(|region| self.regions.at(*region).is_past(now));
        let live = |region: &u32| self.regions.at(*region).live_per_mille();
        let is_sparse = |region: &u32| !finder.waits(*region) && live(region) <= SPARSE_PER_MILLE;
        let sparse = || log.sealed().filter(whole).filter(is_sparse).min_by_key(live);
        let region = past().or_else(sparse).or_else(|| log.sealed().find(whole))?;
        log.take_sealed(region);
        if finder.waits(region) {
            finder.drop_unseen(&self.regions, region);
            self.counters.regions_dropped.fetch_add(1, Relaxed);
            self.push_work(region, Work::Free(region));
            return Some(Job {
                region,
                end: 0,
                chunk: 0,
                at: 0,
                again_bytes: 0,
                bytes: Vec::new(),
                state: ReclaimState::Freeing,
            });
        }
        drop(finder);
        drop(log);
        // If the device failed early, no byte of the region was written, and there are no items to show.
        let end = self.regions.at(region).written();
        let state = if end > 0 { ReclaimState::Wanted } else { ReclaimState::AtHand };
        if state == ReclaimState::Wanted {
            self.push_work(region, Work::Chunk);
        }
        let bytes = Vec::with_capacity(self.regions.sizes.chunk_bytes);
        Some(Job { region, end, chunk: 0, at: 0, again_bytes: 0, bytes, state })
    }

    /// Reads the chunk that the reclaim job waits for.
    pub(crate) fn read_chunk(&self, scratch: &mut Scratch) {
        let wants = |job: &Job| (job.state == ReclaimState::Wanted).then_some((job.region, job.chunk));
        let Some((region, chunk)) = lock(&self.job).as_ref().and_then(wants) else { return };
        let bytes = self.regions.sizes.chunk_bytes;
        self.take_off(scratch, None);
        let is_read = self.read_device(region, chunk, bytes, scratch).is_some();
        self.land(scratch);
        if is_read {
            self.counters.reclaim_read_bytes.fetch_add(bytes as u64, Relaxed);
        }
        let mut guard = lock(&self.job);
        // Another job may have replaced this one during the read.
        let Some(job) = guard.as_mut().filter(|job| wants(job) == Some((region, chunk))) else { return };
        job.bytes.clear();
        if is_read {
            job.bytes.extend_from_slice(&scratch.bytes.bytes()[..bytes]);
        }
        job.state = if is_read { ReclaimState::AtHand } else { ReclaimState::Failed };
        drop(guard);
        self.wake(None);
    }

    /// Discards a region on its device, and frees the region. The caller ensures that no slot references an item of the
    /// region.
    pub(crate) fn free(&self, region: u32, scratch: &mut Scratch) {
        let (part, at) = self.regions.place(region);
        if !part.is_lost() {
            self.take_off(scratch, None);
            part.device.discard(at, self.regions.sizes.region_bytes as u64);
            self.land(scratch);
        }
        // The device may have been lost during the discard. Then the region is not freed.
        if !part.is_lost() {
            let mut log = lock(&self.log);
            self.regions.at(region).free();
            log.push_free(region);
            drop(log);
            self.counters.regions_reclaimed.fetch_add(1, Relaxed);
        }
        lock(&self.job).take_if(|job| job.region == region);
        self.wake(None);
    }
}
