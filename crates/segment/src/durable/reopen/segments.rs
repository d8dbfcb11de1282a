//! Repairs the segments: walks those that were being written to, and counts the items of all segments.

use std::sync::atomic::Ordering::{AcqRel, Acquire};

use super::Reopened;
use crate::core::lookup::hash_at;
use crate::core::store::{Store, background_counters};
use crate::durable::file::FileFault;
use crate::heap::checksums::ITEM_STEP;
use crate::heap::segments::SegmentId;
use crate::layout::header::SegmentState;
use crate::layout::item::{DEAD, ItemKind, Layout};

/// Brings every segment into a state in which no thread works on it.
pub(crate) fn repair_segments(store: &Store, report: &mut Reopened) -> Result<(), FileFault> {
    check_headers(store)?;
    for id in (0..store.geometry.segments_max as u32).map(SegmentId) {
        let header = store.segments.header(id);
        // `header.reopen` clears the count of in-place receives after the walk, so an interrupted walk is repeated from
        // its start.
        if header.was_written_to() {
            report.segments_open += 1;
            let before = header.live_items();
            let (items, hidden, bytes, damage) = walk(store, id);
            if damage != Damage::default() {
                report.gaps += damage.gaps;
                report.items_damaged += u64::from(before.saturating_sub(items));
            }
            header.reopen_sealed(items, hidden, (store.segments.segment_bytes() - bytes) as u32);
        }
        header.reopen();
    }
    Ok(())
}

/// Checks that every segment's header has a state that a process can leave.
pub(crate) fn check_headers(store: &Store) -> Result<(), FileFault> {
    let sequence = store.persistent.sequence.load(Acquire);
    for id in 0..store.geometry.segments_max {
        let header = store.segments.header(SegmentId(id as u32));
        header.check(store.segments.segment_bytes(), sequence).map_err(|what| {
            FileFault::Damaged(format!("the header of segment {id} of {}: {what}", store.geometry.segments_max))
        })?;
    }
    Ok(())
}

/// The damage that a walk over a segment met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Damage {
    /// The number of parts in which neither an item nor its length could be read.
    gaps: u64,
    /// True if an item was damaged, and not even its key is known.
    has_unknown: bool,
}

/// Marks each item of a segment as live if a slot names it, and as dead otherwise. Returns the number of live items,
/// the number of hidden ones among them, their bytes, and the damage of the segment. Writes dead items over a damaged
/// part, so that only the items in it are lost: their slots then name no item, and the verification
/// ([`crate::durable::verify`]) clears them.
fn walk(store: &Store, id: SegmentId) -> (u32, u32, usize, Damage) {
    let (heap, header) = (&store.segments.heap, store.segments.header(id));
    let (start, written) = (store.segments.start(id), header.written.load(Acquire) as usize);
    let (mut at, mut items, mut hidden, mut bytes, mut damage) = (0, 0, 0, 0, Damage::default());
    while at < written {
        let address = start + at;
        let Some(layout) = store.segments.repaired(store.sum_seed, id, at) else {
            let is_sound = |at: &usize| store.segments.sound_item(store.sum_seed, id, *at).is_some();
            let behind = (at..written).step_by(ITEM_STEP).skip(1).find(is_sound).unwrap_or(written);
            store.segments.cover(id, at..behind);
            (at, damage.gaps) = (behind, damage.gaps + 1);
            continue;
        };
        let named = is_named(store, address, &layout, header.namespace());
        if named {
            let _ = heap.word32(address).fetch_and(!DEAD, AcqRel);
            items += 1;
            hidden += u32::from(layout.is(ItemKind::Piece));
            bytes += layout.size;
        } else {
            let before = heap.word32(address).fetch_or(DEAD, AcqRel);
            damage.has_unknown |= before & DEAD == 0 && !store.segments.is_sound(store.sum_seed, address, &layout);
        }
        at += layout.size;
    }
    (items, hidden, bytes, damage)
}

/// Returns true if a slot names the item at this address.
fn is_named(store: &Store, address: usize, layout: &Layout, namespace: u8) -> bool {
    let hash = hash_at(store, namespace, address, layout);
    store.index.find(hash, |slot| (slot.address() == address).then_some(())).is_some()
}

/// Recounts the items and bytes of each namespace, and the totals, from the headers.
pub(crate) fn recount(store: &Store, report: &mut Reopened) {
    let counters = background_counters(store);
    for id in (0..store.segments.high_water() as u32).map(SegmentId) {
        let header = store.segments.header(id);
        if header.state() == SegmentState::Sealed {
            let items = u64::from(header.live_items());
            let bytes = store.segments.segment_bytes() as u64 - u64::from(header.dead_bytes());
            let keys = u64::from(header.live_keys());
            counters.note_found(header.namespace(), items, items.saturating_sub(keys), bytes);
            store.spaces.takes(header.namespace());
            report.items += keys;
        }
    }
}
