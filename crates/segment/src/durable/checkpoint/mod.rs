//! Checkpoints: the state of a store in a file that survives a loss of power.
//!
//! ```text
//!   begin      a sequence B is taken; every thread seals what it has open from before B
//!     wait     no segment from before B is open
//!   finish     note: which segments are sealed, with their sequences; the kept words; keys of changes under way
//!     sync     all pages of the file are on the disk as they are now, or as they became since
//!     record   what was noted, over the older of two copies, with a sum
//!     sync     from here on this is the last checkpoint
//! ```
//!
//! After a power loss, each page of the file has its contents from the last sync, or from any later time, independently
//! of its neighbours. The store trusts only the following:
//!
//! - A segment whose header still has the sequence in the record. It was complete when it was synced. It is never
//!   written again, except for single words (DEAD, numbers, ends, tokens). If its header is old and its bytes are of a
//!   later life, the checksums of its items do not match, because they are seeded with the sequence.
//! - DEAD, which is never taken back in a life. Every path that takes an item's slot has marked the item first, with
//!   the index in the file too ([`crate::items::unpublished::dies_first`]). So an item that was replaced or removed
//!   before the checkpoint is dead on the disk. No opening restores it when the newer version is lost.
//! - Nothing else: no slots, no locks, no counts, and no items that were stored in segments since. The index is rebuilt
//!   ([`crate::durable::rebuild`]).
//!
//! Invariants:
//! - An item that is served after a power loss existed at the last checkpoint or later: it is never older, never torn,
//!   never another key's. An item that was acknowledged before its `begin` and not changed since is present, unless its
//!   segment was emptied since by eviction, compaction, a flush or expiry.
//! - If a change of several keys as one is in progress when the record is taken, its keys are in the record, and are
//!   misses. A part of such a change is never served.
//! - The keys of a change that was in progress at `begin` and ended before the record is taken are misses too: some of
//!   its items may lie in segments from before B, and others not. The record contains every other change completely or
//!   not at all. A change that ended before `begin` lies in segments from before B. A change that begins later finds
//!   all such segments of its thread sealed, or seals them before its first item
//!   ([`crate::core::open::OpenTable::seal_partial`]). The background seals its own segments before it moves any item
//!   that was stored since.
//! - A change of several keys as one stores a new copy of every item that it changes, and changes nothing in place
//!   ([`crate::core::handle::Guard::copies_all`]). So after a power loss nothing of a change that was made since is
//!   served.
//! - Sequences and object numbers continue above all that can have been assigned, so bytes of a lost life are never
//!   taken for those of a later life. Until all of this is on the disk, the superblock names the boot of the machine
//!   that was lost.
//! - A superblock that marks the file as in use is on the disk before anything is changed. A superblock that marks it
//!   as closed in order is written after everything else.
//! - No client has a token of a number that changes in place: a number whose token is requested is copied first
//!   ([`crate::Versions::gets`]). So no token matches a number that was restored to an earlier value.
//! - After a failed sync, the kernel may have dropped pages that it could not write. Segments from before are in no
//!   later checkpoint, and the file is not marked as closed in order.
//! - Nothing that a second tier holds in the file is trusted after a power loss ([`crate::tier::room`]). It is synced
//!   only when a store is closed in order, and then its devices are too. Items on it are misses, and their slots are
//!   lost with the index.
//! - Without checkpoints, the only cost of this is a field that is not 0.
//!
//! This module does not decide when a checkpoint is made, or on which thread ([`Checkpointer`] does not sleep).

pub(crate) mod progress;
pub(crate) mod record;

pub use progress::CheckpointStats;
pub(crate) use progress::Checkpoints;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use base::clock::UnixMillis;

use crate::core::store::Store;
use crate::heap::segments::SegmentId;
use crate::layout::header::SegmentState;
use crate::locks::undo_log::RECORDS_MAX;
use record::Record;

/// Returns the handle that makes checkpoints, or `None` if the store is not in a file or was opened without
/// checkpoints.
pub(crate) fn checkpointer(store: &Arc<Store>) -> Option<Checkpointer> {
    store.checkpoints.records.as_ref()?;
    Some(Checkpointer { store: Arc::clone(store), begun: None })
}

/// Returns the results of checkpoints, or `None` if this process makes none.
pub(crate) fn checkpoint_stats(store: &Store) -> Option<CheckpointStats> {
    let Checkpoints { made, failed, at_ms, segments, records, .. } = &store.checkpoints;
    records.as_ref().map(|_| CheckpointStats {
        made: made.load(Relaxed),
        failed: failed.load(Relaxed),
        last: UnixMillis(at_ms.load(Relaxed)),
        segments: segments.load(Relaxed),
    })
}

/// Makes checkpoints. It is used on a separate thread, which may wait for the disk.
#[derive(Debug)]
pub struct Checkpointer {
    store: Arc<Store>,
    begun: Option<PendingCheckpoint>,
}

/// The result of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The checkpoint is on the disk, and is the last one.
    Made,
    /// More keys were being changed together than the record has room for: the caller has to begin again.
    Crowded,
}

#[derive(Clone, Copy, Debug)]
struct PendingCheckpoint {
    before: u64,
    at: UnixMillis,
}

impl Checkpointer {
    /// Begins a checkpoint: every thread seals its open segments at its next check, in [`crate::ThreadHandle::tidy`] or
    /// in a slice of the background. Returns false during an index rebuild, because items that hide older ones may not
    /// be found yet.
    pub fn begin(&mut self, now: UnixMillis) -> bool {
        if self.store.is_rebuilding() {
            return false;
        }
        let made = &self.store.checkpoints;
        // A thread that is assigned a sequence of `before` or higher also sees one of these two stores, and so sees
        // that a checkpoint was begun.
        made.before.store(u64::MAX, Release);
        made.spanning().clear();
        let before = self.store.segments.next_sequence();
        self.begun = Some(PendingCheckpoint { before, at: now });
        made.before.store(before, Release);
        self.store.call_background();
        true
    }

    /// Returns the instant at which the checkpoint in progress was begun.
    pub fn begun_at(&self) -> Option<UnixMillis> {
        self.begun.map(|begun| begun.at)
    }

    /// Returns true if all segments that were open when the checkpoint was begun are sealed.
    pub fn is_sealed(&self) -> bool {
        let Some(PendingCheckpoint { before, .. }) = self.begun else { return false };
        let segments = &self.store.segments;
        let is_open = |id: u32| {
            let header = segments.header(SegmentId(id));
            header.state() == SegmentState::Open && header.sequence() < before
        };
        !(0..segments.high_water() as u32).any(is_open)
    }

    /// Writes the checkpoint that was begun and is sealed. It takes as long as the disk does.
    ///
    /// # Errors
    /// If the disk fails: its error. The previous checkpoint then remains the last one.
    pub fn finish(&mut self) -> io::Result<Finished> {
        let begun = self.begun.take().expect("it was begun");
        let (store, made) = (&self.store, &self.store.checkpoints);
        let done = make_checkpoint(store, begun);
        match &done {
            Ok(Finished::Made) => made.made.fetch_add(1, Relaxed),
            Ok(Finished::Crowded) => 0,
            Err(_) => {
                store.persistent.unsynced_before.store(store.segments.next_sequence(), Release);
                made.failed.fetch_add(1, Relaxed)
            }
        };
        done
    }
}

fn make_checkpoint(store: &Store, PendingCheckpoint { before, at }: PendingCheckpoint) -> io::Result<Finished> {
    let parts = (&store.held, &store.notes, &store.undo, &store.checkpoints.records);
    let (Some(held), Some(notes), Some(undo), Some(records)) = parts else {
        unreachable!("a store in a file has all of them")
    };
    let kept = notes.name_with(|| store.persistent.words());
    let sequences = (0..store.geometry.segments_max as u32).map(|id| sealed_sequence(store, SegmentId(id), before));
    let sequences: Vec<u64> = sequences.collect();
    let mut keys = Vec::new();
    undo.each_open(&mut |record, _| keys.push(record.key()));
    // Reads these keys after those of the open groups. A change that ends between the two reads has then recorded its
    // keys here.
    keys.append(&mut store.checkpoints.spanning());
    if keys.len() > RECORDS_MAX {
        return Ok(Finished::Crowded);
    }
    held.sync()?;
    let record = Record { at_ms: at.0, before, kept, keys, sequences };
    records.write(&record);
    held.sync()?;
    notes.name_only(record.notes());
    store.checkpoints.segments.store(record.segments(), Relaxed);
    store.checkpoints.at_ms.store(record.at_ms, Relaxed);
    Ok(Finished::Made)
}

/// Returns the sequence of a segment that a checkpoint includes; 0: it does not include the segment.
fn sealed_sequence(store: &Store, id: SegmentId, before: u64) -> u64 {
    let header = store.segments.header(id);
    // Reads the state first: a sealed segment is complete. A segment that was reopened meanwhile has a later sequence.
    let is_sealed = matches!(header.state(), SegmentState::Sealed | SegmentState::Draining);
    let sequence = header.sequence();
    let since = store.persistent.unsynced_before.load(Acquire);
    if is_sealed && (since..before).contains(&sequence) { sequence } else { 0 }
}
