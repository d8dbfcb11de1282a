//! Checkpoints: the state of a store in a file that survives a loss of power.
//!
//! ```text
//!   begin      B = the next segment sequence; every thread seals its open segments with lower sequences
//!     wait     until no open segment has a sequence below B
//!   finish     read: sequences of sealed segments; persistent header; keys of changes in progress
//!     sync     every page of the file reaches the disk, with its present contents or later ones
//!     record   the state that `finish` read is written over the older of two copies, with a checksum
//!     sync     when the record is on the disk, this checkpoint is the last one
//! ```
//!
//! After a power loss, each page of the file has its contents from the last sync, or from any later time, independently
//! of its neighbours. The store trusts only the following:
//!
//! - A segment whose header still has the sequence in the record. The segment was complete when it was synced. Until it
//!   is reused, only single words of it change (DEAD, numbers, expiry times, tokens). If the disk has its old header
//!   but bytes from after its reuse, the checksums of the items do not match: the sequence seeds them.
//! - The DEAD mark of an item. A running store never clears the mark of an item that has had a slot. Every code path
//!   that removes an item's slot marks the item first, even if the index is in the file
//!   ([`crate::items::unpublished::dies_first`]). So an item that was replaced or removed before the checkpoint is dead
//!   on the disk. No opening restores it when the newer version is lost.
//! - Nothing else: no slots, no locks, no counts, and no items in segments that were filled after the checkpoint. The
//!   index is rebuilt ([`crate::durable::rebuild`]).
//!
//! Invariants:
//! - An item that is served after a power loss existed at the last checkpoint or later: it is never an older version,
//!   never torn, and never another key's item. An item that was acknowledged before that checkpoint's `begin` and not
//!   changed since is present, unless its segment was emptied since by eviction, compaction, a flush or expiry.
//! - If an atomic change of several keys is in progress when `finish` reads the state, the record contains its keys.
//!   After a power loss these keys are misses, so an incomplete change is never served.
//! - The keys of an atomic change that was in progress at `begin` and ended before `finish` are misses too: only some
//!   of its items may lie in segments with sequences below B. The record contains every other change completely or not
//!   at all. All items of a change that ended before `begin` lie in segments with sequences below B. Before the first
//!   item of a change that begins later, the thread seals its segments with lower sequences, unless they are sealed
//!   already ([`crate::core::open::OpenTable::seal_partial`]). The background seals its own segments before it moves
//!   any item that was stored after `begin`.
//! - An atomic change of several keys stores a new copy of every item that it changes, and changes nothing in place
//!   ([`crate::core::handle::Guard::copies_all`]). So after a power loss, no part of a change that was made after the
//!   checkpoint is served.
//! - After a power loss, sequences and object numbers continue above all that can have been assigned. So bytes that a
//!   lost process wrote never pass for those of a later one. Until the repaired state is on the disk, the superblock
//!   names the boot of the machine that ended with the power loss.
//! - A superblock that marks the file as in use is on the disk before anything is changed. A superblock that marks it
//!   as cleanly closed is written after everything else.
//! - No client has a token of a number that changes in place: a number whose token is requested is copied first
//!   ([`crate::Versions::gets`]). So no token matches a number that was restored to an earlier value.
//! - After a failed sync, the kernel may have dropped pages that it could not write. So no later checkpoint includes
//!   segments from before the failure, and the file is not marked as cleanly closed.
//! - After a power loss, the second tier's state in the file is not trusted ([`crate::tier::room`]). It is synced only
//!   when a store is closed cleanly, together with the tier's devices. Items on flash are then misses, and their slots
//!   are lost with the index.
//! - Without checkpoints, all this costs only comparisons with [`Checkpoints::before`], which stays 0.
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
    /// More keys were being changed atomically than the record has room for. The caller has to begin another
    /// checkpoint.
    Crowded,
}

#[derive(Clone, Copy, Debug)]
struct PendingCheckpoint {
    before: u64,
    at: UnixMillis,
}

impl Checkpointer {
    /// Begins a checkpoint: every thread seals its open segments at its next check, in [`crate::ThreadHandle::tidy`] or
    /// in a slice of the background. Returns false during an index rebuild, because an item that supersedes an older
    /// version may not be found yet.
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

    /// Writes the checkpoint that was begun and whose segments are all sealed. Blocks until the disk has stored it.
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
    // `spanning` is read after the open groups of the undo log. A change that ends between the two reads has by then
    // added its keys to `spanning`.
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

/// Returns the sequence of the segment `id` if a checkpoint of sequences below `before` includes it, and 0 if not.
fn sealed_sequence(store: &Store, id: SegmentId, before: u64) -> u64 {
    let header = store.segments.header(id);
    // The state is read before the sequence: a sealed segment is complete. If it is reopened between the reads, its
    // sequence is too high to be included.
    let is_sealed = matches!(header.state(), SegmentState::Sealed | SegmentState::Draining);
    let sequence = header.sequence();
    let since = store.persistent.unsynced_before.load(Acquire);
    if is_sealed && (since..before).contains(&sequence) { sequence } else { 0 }
}
