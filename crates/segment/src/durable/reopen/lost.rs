//! Opening after a loss of power: only what the last checkpoint has is used. See
//! [`crate::durable::checkpoint`].
//!
//! ```text
//!   a header says the record's sequence, and Sealed or Draining     its items are found, if their sums say so
//!   Decommitted                                                        as it is
//!   anything else                                                   Free: it was used since, or is torn
//! ```
//!
//! Nothing here counts on what another step has done before: cut anywhere, all of it is done again.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::Reopened;
use crate::core::store::Store;
use crate::durable::file::{FileFault, IndexPlace};
use crate::heap::segments::SegmentId;
use crate::layout::header::{SegmentHeader, State};

/// Leaves of the segments those that the last checkpoint has, if the machine lost its power.
pub(crate) fn believe_checkpoint(store: &Store, report: &mut Reopened) -> Result<(), FileFault> {
    let Some(record) = store.held.as_ref().and_then(|held| held.lost.as_deref()) else { return Ok(()) };
    (report.lost, report.checkpoint_ms) = (true, record.at_ms);
    if let Some(log) = &store.undo {
        // What was changed for several keys as one when the checkpoint was made is believed of none of them.
        log.hold_keys(&record.keys, record.before)?;
    }
    let (end, each) = (store.kept.end.load(Acquire) as usize, store.segments.segment_bytes());
    for (at, recorded) in record.sequences.iter().enumerate() {
        let id = SegmentId(at as u32);
        let header = store.segments.header(id);
        let is_decommitted = header.has_state() && header.state() == State::Decommitted && *recorded == 0;
        if !is_of_checkpoint(store, header, *recorded) && !is_decommitted && !is_untouched(header) {
            report.segments_emptied += u64::from(*recorded != 0);
            header.empty();
        }
        if at < end && !is_decommitted {
            // Its space may have been given back since, or given back and not be had again.
            store.segments.heap.map().allocate(store.segments.start(id), each)?;
        }
    }
    Ok(())
}

fn is_of_checkpoint(store: &Store, header: &SegmentHeader, sequence: u64) -> bool {
    let next = store.kept.sequence.load(Relaxed);
    header.is_sealed_as(sequence) && header.check(store.segments.segment_bytes(), next).is_ok()
}

/// Requests a walk over each segment where items may have lost their slots without being marked. That is before the
/// first checkpoint of a file that was used without checkpoints, and has its index. From then on DEAD is the truth
/// there too.
pub(crate) fn look_at_all_once(store: &Store) {
    let unmarked = |held: &&crate::durable::file::Held| held.has_checkpoints() && held.block.marked == 0;
    if store.held.as_ref().filter(unmarked).is_none_or(|held| held.index() == IndexPlace::Dram) {
        return;
    }
    for id in (0..store.geometry.segments_max as u32).map(SegmentId) {
        let header = store.segments.header(id);
        if header.has_state() && matches!(header.state(), State::Sealed | State::Draining) {
            header.walk_again();
        }
    }
}

fn is_untouched(header: &SegmentHeader) -> bool {
    header.has_state() && header.is_pristine() && header.sequence() == 0
}
