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
//! After a loss of power each page of the file is what it was when it was synced last, or at any time since, whatever
//! its neighbours are. Of all that, the store believes this:
//!
//! - A segment whose header still says the sequence that the record has. It was whole when it was synced. It is never
//!   written again, except for single words (DEAD, numbers, ends, tokens). If its header is old and its bytes are of a
//!   later life, the sums of items show that: they are seeded with the sequence.
//! - DEAD, which is never taken back in a life. Every path that takes an item's slot has marked the item first, with
//!   the index in the file too ([`crate::items::unpublished::dies_first`]). So what was replaced or removed before the
//!   checkpoint is dead on the disk. No opening brings it back when the newer version is lost.
//! - Neither slots nor locks nor counts nor what was stored in segments since. The index is rebuilt
//!   ([`crate::durable::rebuild`]).
//!
//! Invariants:
//! - An item that is served after a loss of power was there at the last checkpoint or later: never older, never torn,
//!   never another key's. What was acknowledged before its `begin` and not changed since is there, unless its segment
//!   was emptied since: to evict, to compact, for a flush, or because its items expired.
//! - If a change of several keys as one is under way when the record is noted, its keys are in the record, and are
//!   misses. A part of such a change is never served.
//! - So are those of one that was open when the checkpoint was begun and ended before that: some of its items may lie
//!   in segments from before B, and others not. No other change is in the record by half: what ended before `begin`
//!   lies in segments from before B; what begins since finds all of those of its thread sealed, or seals them before
//!   its first item ([`crate::core::open::OpenTable::seal_begun`]); and the background seals its own before it moves
//!   anything that was stored since.
//! - A change of several keys as one stores a new copy of all that it changes, and changes nothing in place
//!   ([`crate::core::handle::Guard::copies_all`]). So nothing is served of one that is made since.
//! - Sequences and object numbers go on behind all that can have been given, so bytes of a life that was lost never
//!   pass for ones of a later life. Until all that is on the disk, the superblock says the run of the machine that was
//!   lost.
//! - A superblock that says that the file is in use is on the disk before anything is changed, one that says that it
//!   was left in order after all else.
//! - No client has a token of a number that changes in place: one whose token is asked for is copied first
//!   ([`crate::Versions::gets`]). So none fits a number that is back as it was.
//! - After a sync that failed the kernel may have let go of what it could not write. Segments from before are in no
//!   later checkpoint, and the file is not left in order.
//! - Nothing that a second tier holds in the file is believed ([`crate::tier::room`]). It is synced only when a store
//!   is left in order, and then its devices are too. What was there is a miss, and its slots are gone with the index.
//! - Without checkpoints nothing of this costs anything but a field that is not 0.
//!
//! Not here: when to make one, and on which thread ([`Checkpointer`] does not sleep).

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
use crate::layout::header::State;
use crate::locks::undo_log::RECORDS_MAX;
use record::Record;

/// Returns the handle that makes checkpoints, or `None` if the store is in no file, or was opened without
/// checkpoints.
pub(crate) fn checkpointer(store: &Arc<Store>) -> Option<Checkpointer> {
    store.checkpoints.records.as_ref()?;
    Some(Checkpointer { store: Arc::clone(store), begun: None })
}

/// Returns the results of checkpoints, or `None` if there are none.
pub(crate) fn checkpoint_stats(store: &Store) -> Option<CheckpointStats> {
    let Checkpoints { made, failed, at_ms, segments, records, .. } = &store.checkpoints;
    records.as_ref().map(|_| CheckpointStats {
        made: made.load(Relaxed),
        failed: failed.load(Relaxed),
        last: UnixMillis(at_ms.load(Relaxed)),
        segments: segments.load(Relaxed),
    })
}

/// Makes checkpoints, for a thread of its own that may wait for the disk.
#[derive(Debug)]
pub struct Checkpointer {
    store: Arc<Store>,
    begun: Option<Begun>,
}

/// The result of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It is on the disk, and the last one.
    Made,
    /// More keys were being changed together than it has room for: the caller has to begin it again.
    Crowded,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    before: u64,
    at: UnixMillis,
}

impl Checkpointer {
    /// Makes every thread seal what it has open, when the thread next looks at that: in [`crate::ThreadHandle::tidy`],
    /// or in a slice of the background. Returns false during an index rebuild: items that hide older ones may not be
    /// found yet.
    pub fn begin(&mut self, now: UnixMillis) -> bool {
        if self.store.is_rebuilding() {
            return false;
        }
        let made = &self.store.checkpoints;
        // A thread that gets a sequence behind `before` sees this or what follows, and that a checkpoint was begun.
        made.before.store(u64::MAX, Release);
        made.spanning().clear();
        let before = self.store.segments.next_sequence();
        self.begun = Some(Begun { before, at: now });
        made.before.store(before, Release);
        self.store.call_background();
        true
    }

    /// Returns the instant at which the checkpoint under way was begun.
    pub fn begun_at(&self) -> Option<UnixMillis> {
        self.begun.map(|begun| begun.at)
    }

    /// Returns true if everything that was there when it was begun is sealed.
    pub fn is_sealed(&self) -> bool {
        let Some(Begun { before, .. }) = self.begun else { return false };
        let segments = &self.store.segments;
        let is_open = |id: u32| {
            let header = segments.header(SegmentId(id));
            header.state() == State::Open && header.sequence() < before
        };
        !(0..segments.high_water() as u32).any(is_open)
    }

    /// Makes the one that was begun and is sealed. It takes as long as the disk does.
    ///
    /// # Errors
    /// What the disk answers; the checkpoint before is the last one.
    pub fn finish(&mut self) -> io::Result<Finished> {
        let begun = self.begun.take().expect("it was begun");
        let (store, made) = (&self.store, &self.store.checkpoints);
        let done = make_checkpoint(store, begun);
        match &done {
            Ok(Finished::Made) => made.made.fetch_add(1, Relaxed),
            Ok(Finished::Crowded) => 0,
            Err(_) => {
                store.kept.unsynced_before.store(store.segments.next_sequence(), Release);
                made.failed.fetch_add(1, Relaxed)
            }
        };
        done
    }
}

fn make_checkpoint(store: &Store, Begun { before, at }: Begun) -> io::Result<Finished> {
    let parts = (&store.held, &store.notes, &store.undo, &store.checkpoints.records);
    let (Some(held), Some(notes), Some(undo), Some(records)) = parts else {
        unreachable!("a store in a file has all of them")
    };
    let kept = notes.name_with(|| store.kept.words());
    let sequences = (0..store.geometry.segments_max as u32).map(|id| sealed_sequence(store, SegmentId(id), before));
    let sequences: Vec<u64> = sequences.collect();
    let mut keys = Vec::new();
    undo.each_open(&mut |record, _| keys.push(record.key()));
    // Behind that: what was closed meanwhile is among these.
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

/// Returns the sequence of a segment that a checkpoint has; 0: it has not.
fn sealed_sequence(store: &Store, id: SegmentId, before: u64) -> u64 {
    let header = store.segments.header(id);
    // The state first: what was sealed is whole. One that was opened again meanwhile has a later sequence.
    let is_sealed = matches!(header.state(), State::Sealed | State::Draining);
    let sequence = header.sequence();
    let since = store.kept.unsynced_before.load(Acquire);
    if is_sealed && (since..before).contains(&sequence) { sequence } else { 0 }
}
