//! Opening after a power loss: only the contents of the last checkpoint are used. See [`crate::durable::checkpoint`].
//!
//! ```text
//!   segment header                                          result
//!   the record's sequence, and Sealed or Draining           its items with correct checksums are found
//!   Decommitted, and not in the record                      unchanged
//!   anything else                                           Free: the segment was reused since, or is torn
//! ```
//!
//! No step relies on another. If the opening is interrupted at any point, the next opening repeats all steps.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::Reopened;
use crate::core::store::Store;
use crate::durable::file::{FileFault, IndexPlace};
use crate::heap::segments::SegmentId;
use crate::layout::header::{SegmentHeader, SegmentState};

/// Discards all segments that the last checkpoint does not include, if the machine lost power.
pub(crate) fn believe_checkpoint(store: &Store, report: &mut Reopened) -> Result<(), FileFault> {
    let Some(record) = store.held.as_ref().and_then(|held| held.lost.as_deref()) else { return Ok(()) };
    (report.lost, report.checkpoint_ms) = (true, record.at_ms);
    if let Some(log) = &store.undo {
        // The keys of atomic changes that were in progress at the checkpoint are not trusted.
        log.hold_keys(&record.keys, record.before)?;
    }
    let (end, each) = (store.persistent.end.load(Acquire) as usize, store.segments.segment_bytes());
    for (at, recorded) in record.sequences.iter().enumerate() {
        let id = SegmentId(at as u32);
        let header = store.segments.header(id);
        let is_decommitted = header.has_state() && header.state() == SegmentState::Decommitted && *recorded == 0;
        if !is_of_checkpoint(store, header, *recorded) && !is_decommitted && !is_untouched(header) {
            report.segments_emptied += u64::from(*recorded != 0);
            header.empty();
        }
        if at < end && !is_decommitted {
            // The space of the segment may have been returned to the file system since, so it is allocated again.
            store.segments.heap.map().allocate(store.segments.start(id), each)?;
        }
    }
    Ok(())
}

fn is_of_checkpoint(store: &Store, header: &SegmentHeader, sequence: u64) -> bool {
    let next = store.persistent.sequence.load(Relaxed);
    header.is_sealed_as(sequence) && header.check(store.segments.segment_bytes(), next).is_ok()
}

/// Requests a walk over each segment in which items may have lost their slots without being marked dead. This is needed
/// before the first checkpoint of a file that contains its index and was used without checkpoints. From then on, DEAD
/// marks are reliable in such a file too.
pub(crate) fn look_at_all_once(store: &Store) {
    let unmarked = |held: &&crate::durable::file::Held| held.has_checkpoints() && held.block.marked == 0;
    if store.held.as_ref().filter(unmarked).is_none_or(|held| held.index() == IndexPlace::Dram) {
        return;
    }
    for id in (0..store.geometry.segments_max as u32).map(SegmentId) {
        let header = store.segments.header(id);
        if header.has_state() && matches!(header.state(), SegmentState::Sealed | SegmentState::Draining) {
            header.walk_again();
        }
    }
}

fn is_untouched(header: &SegmentHeader) -> bool {
    header.has_state() && header.is_pristine() && header.sequence() == 0
}
