//! Opening without an index: the segments are brought into a state in which no thread works on them. Their items are
//! found later ([`crate::durable::rebuild`]).
//!
//! ```text
//!   1  undo        keys changed under a key lock set that was not released: their previous items are live again
//!   2  segments    Open, Draining -> Sealed; Quarantine -> Free; flushed segments -> Free; items are not counted yet
//!   3  moves       if an item was being moved between memory and flash, only one copy stays live
//!   4  lists       free, sealed and decommitted segments; segments per namespace
//! ```

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::Reopened;
use crate::core::lookup::{hash_at, item_in};
use crate::core::store::Store;
use crate::durable::file::FileFault;
use crate::durable::moving::end_moves_of_before;
use crate::durable::rebuild::{Rebuild, Undone};
use crate::durable::reopen::lost::believe_checkpoint;
use crate::durable::reopen::segments::check_headers;
use crate::durable::reopen::undo::{is_persistent, walk_again, write_back};
use crate::heap::segments::SegmentId;
use crate::layout::header::SegmentState;
use crate::layout::item::{DEAD, ItemKind};
use crate::layout::key::Namespace;
use crate::locks::undo_log::{Record, slot_of};

/// Repairs the segments. Returns the report, and the rebuild that finds their items.
pub(crate) fn reopen_without_index(store: &Store) -> Result<(Reopened, Rebuild), FileFault> {
    let mut report = Reopened { found: true, rebuilds_index: true, ..Reopened::default() };
    believe_checkpoint(store, &mut report)?;
    check_headers(store)?;
    let undone = undo_scattered(store, &mut report);
    let live = live_bytes_of_before(store);
    for id in (0..store.geometry.segments_max as u32).map(SegmentId) {
        reopen_scattered(store, id, &mut report);
    }
    end_moves_of_before(store);
    store.segments.relist();
    let mut ids = Vec::new();
    for id in (0..store.segments.high_water() as u32).map(SegmentId) {
        let header = store.segments.header(id);
        if header.state() == SegmentState::Sealed {
            store.spaces.takes(header.namespace());
            ids.push((id, live.get(id.0 as usize).copied().unwrap_or(0)));
        }
    }
    // Until all items are found, an item that is stored from here on may supersede an older version that is not found
    // yet. `since` is the sequence from which such items exist.
    let since = match store.persistent.rebuilding.load(Acquire) {
        0 => u64::MAX,
        since => since,
    };
    if since == u64::MAX {
        store.persistent.rebuilding.store(store.persistent.sequence.load(Acquire), Release);
    }
    let lost = store.held.as_ref().is_some_and(|held| held.lost.is_some());
    Ok((report, Rebuild::new(&store.segments, lost, ids, since, undone)))
}

/// Returns the bytes of live items of each segment, as the previous process counted them. If that process had not found
/// all of its items, there are no counts.
fn live_bytes_of_before(store: &Store) -> Vec<u32> {
    if store.persistent.rebuilding.load(Acquire) != 0 {
        return Vec::new();
    }
    let segment_bytes = store.segments.segment_bytes() as u32;
    let all = (0..store.geometry.segments_max as u32).map(|id| store.segments.header(SegmentId(id)));
    // The free bytes of an open segment count as live, because the segment is young.
    all.map(|header| segment_bytes.saturating_sub(header.dead_bytes())).collect()
}

fn reopen_scattered(store: &Store, id: SegmentId, report: &mut Reopened) {
    let header = store.segments.header(id);
    report.segments_open += u64::from(header.was_written_to());
    if matches!(header.state(), SegmentState::Open | SegmentState::Sealed | SegmentState::Draining) {
        report.items += u64::from(header.live_keys());
        header.reopen_unknown(store.segments.segment_bytes());
    }
    header.reopen();
    if header.state() == SegmentState::Sealed && header.sequence() < store.flushed_before(header.namespace()) {
        header.go(SegmentState::Draining);
        header.go(SegmentState::Quarantine);
        header.free();
    }
}

/// Marks as live the previous items of keys that open groups have changed. Returns, by key hash, the only item of each
/// of these keys that the rebuild may find.
fn undo_scattered(store: &Store, report: &mut Reopened) -> HashMap<u64, Vec<Undone>> {
    let mut all: HashMap<u64, Vec<Undone>> = HashMap::new();
    let Some(log) = &store.undo else { return all };
    let next = store.persistent.sequence.load(Acquire);
    report.groups_undone = log.each_open(&mut |record, undone| {
        let before = if undone == 0 { next } else { undone };
        if let Some(address) = undo_at(store, record, undone == 0) {
            let (namespace, piece) = (record.namespace, record.piece);
            all.entry(record.hash).or_default().push(Undone { namespace, piece, address, before });
        }
    });
    log.hold_open(next);
    all
}

/// Returns the address of the item that a record's key had before the change, and marks the item live if `restore` is
/// true. The inner `None`: the key had no item. The outer `None`: the file was damaged, and any item of the key may
/// stay.
fn undo_at(store: &Store, record: &Record, restore: bool) -> Option<Option<usize>> {
    if usize::from(record.namespace) >= Namespace::MAX {
        return None;
    }
    let Some(before) = slot_of(record) else { return Some(None) };
    let address = before.address();
    if !restore {
        return Some(Some(address));
    }
    let header = store.segments.named(before).filter(|_| is_persistent(store, before))?;
    let layout = item_in(store, header, address)?;
    let is_its = header.namespace() == record.namespace
        && layout.is(ItemKind::Piece) == record.piece
        && hash_at(store, record.namespace, address, &layout).0 == record.hash;
    if !is_its {
        return None;
    }
    let _ = store.segments.heap.word32(address).fetch_and(!DEAD, Release);
    walk_again(store, address);
    write_back(store, address, record);
    Some(Some(address))
}
