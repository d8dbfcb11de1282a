//! Frees regions: shows each of their items to the store, which knows whether a slot still references it.
//!
//! ```text
//!   (none) ──free regions are few──> wanted ──read──> at hand ──all of the chunk shown──> wanted ...
//!                              all of the region shown ──> freeing ──discarded on device──> (none)
//! ```
//!
//! No slot references a region of an earlier process that is still to be searched ([`crate::found`]). Such a region is
//! freed at once.
//!
//! The next region to reclaim is one whose items have all expired. If there is none, it is a region of which at most
//! [`SPARSE_PER_MILLE`] is referenced; otherwise the one that became full first. The store writes items once more that
//! were read since they came to flash, up to [`AGAIN_PERCENT`] of a region. So devices write less than 1.4 times the
//! accepted bytes.

use std::sync::atomic::Ordering::Relaxed;

use base::clock::UnixMillis;
use segment::{Reclaimed, TierItem, Visit};

use crate::entry::{self, Entry};
use crate::flash::{Flash, lock};
use crate::queues::{Scratch, Work};

/// A region of which at most this much is referenced is reclaimed before regions that became full earlier.
const SPARSE_PER_MILLE: u64 = 250;
/// Maximum share of a region that is written once more. With a quarter, devices write four thirds of the accepted
/// bytes.
const AGAIN_PERCENT: usize = 25;

/// A region that is being reclaimed.
#[derive(Debug)]
pub(crate) struct Job {
    region: u32,
    /// Offset of the end of the written part.
    end: usize,
    /// Offset in the region of the chunk that is in memory or being read.
    chunk: usize,
    /// Offset in the chunk of the next item.
    at: usize,
    /// Bytes of the region's items that were rewritten to other regions.
    again_bytes: usize,
    bytes: Vec<u8>,
    state: ReclaimState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReclaimState {
    /// The chunk waits for a thread to read it.
    Wanted,
    AtHand,
    /// The chunk cannot be read.
    Failed,
    /// All items were shown, and the region waits to be discarded on the device.
    Freeing,
}

impl Flash {
    /// See [`segment::Tier::reclaim`].
    pub(crate) fn reclaim_some(&self, now: UnixMillis, visit: &mut Visit<'_>) -> bool {
        let mut guard = lock(&self.job);
        // A lost device may never answer a request.
        guard.take_if(|job| self.regions.place(job.region).0.is_lost());
        if guard.is_none() {
            *guard = self.begin_job(now);
        }
        let Some(job) = guard.as_mut() else { return false };
        match job.state {
            ReclaimState::Wanted | ReclaimState::Freeing => return false,
            // The device is lost, and the region with it.
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
        // A device may take long to discard a region.
        self.push_work(region, Work::Free(region));
        false
    }

    /// Shows the rest of the chunk in memory. Returns false if the store postponed an item.
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
                    // The start of the next item is unknown. The slots of the remaining items refer to an earlier life
                    // from now on, and a read through such a slot clears it.
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
                // An item that goes on was read here.
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
        // If a device failed, nothing of the region may have been written. Then there is nothing to show.
        let end = self.regions.at(region).written();
        let state = if end > 0 { ReclaimState::Wanted } else { ReclaimState::AtHand };
        if state == ReclaimState::Wanted {
            self.push_work(region, Work::Chunk);
        }
        let bytes = Vec::with_capacity(self.regions.sizes.chunk_bytes);
        Some(Job { region, end, chunk: 0, at: 0, again_bytes: 0, bytes, state })
    }

    /// Reads the chunk that the job waits for.
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
        // The job may be another one by now.
        let Some(job) = guard.as_mut().filter(|job| wants(job) == Some((region, chunk))) else { return };
        job.bytes.clear();
        if is_read {
            job.bytes.extend_from_slice(&scratch.bytes.bytes()[..bytes]);
        }
        job.state = if is_read { ReclaimState::AtHand } else { ReclaimState::Failed };
        drop(guard);
        self.wake(None);
    }

    /// Discards a region on its device, and frees it. No slot references anything there.
    pub(crate) fn free(&self, region: u32, scratch: &mut Scratch) {
        let (part, at) = self.regions.place(region);
        if !part.is_lost() {
            self.take_off(scratch, None);
            part.device.discard(at, self.regions.sizes.region_bytes as u64);
            self.land(scratch);
        }
        // If the device took too long to answer, it was lost meanwhile.
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
