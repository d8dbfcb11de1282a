//! Finds the items that were stored during an earlier, interrupted rebuild, before any request is served. Such an item
//! may supersede an older version that was not found at that time and is still marked live.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use base::clock::UnixMillis;

use super::{HAS_HEADS, Hand, LaterHead, RebuildEntry};
use crate::core::counters::Counters;
use crate::core::lookup::{find_locked, item_in, key_at};
use crate::core::store::{Store, background_counters};
use crate::durable::rebuild::{free_unless, object_of, version_at};
use crate::heap::segments::SegmentId;
use crate::items::unpublished::{kill, unname};
use crate::layout::item::{DEAD, Layout};
use crate::layout::key::Key;
use crate::layout::slot::Slot;

/// Finds all items that were stored during an earlier rebuild, before any request is served. Their heads remove the
/// slots of older versions. The heads themselves get slots in the second round, with all other heads.
pub(crate) fn find_latest(store: &Store, now: UnixMillis) -> HashMap<u64, Vec<LaterHead>> {
    let (Some(rebuild), counters) = (&store.rebuild, background_counters(store)) else { return HashMap::new() };
    let sequence = |entry: &RebuildEntry| store.segments.header(entry.id).sequence();
    let count = rebuild.entries.partition_point(|entry| sequence(entry) >= rebuild.since);
    let mut hand = Hand { never_waits: true, ..Hand::default() };
    // The entries are sorted by sequence, the newest first, and no other thread takes any of them.
    while rebuild.left.load(Relaxed) + count > rebuild.entries.len() && !rebuild.is_whole() {
        hand.step(store, counters, now, &mut || true);
    }
    let mut later: HashMap<u64, Vec<LaterHead>> = HashMap::new();
    for entry in rebuild.entries[..count].iter().filter(|entry| entry.state.load(Relaxed) == HAS_HEADS) {
        each_live(store, entry.id, &mut |address, layout| {
            let Some(object) = object_of(store, address, layout) else { return };
            let namespace = store.segments.header_of(address).namespace();
            let key = key_at(store, namespace, address, layout);
            let version = version_at(store, address);
            if hides_older(store, counters, &key, version, object) {
                later.entry(key.hash.0).or_default().push(LaterHead { namespace, version, object: Some(object) });
            }
        });
    }
    later
}

/// Removes an older version of a head's key from the index. Returns false if the index has a later version than
/// `version`.
fn hides_older(store: &Store, counters: &Counters, key: &Key<'_>, version: (u64, usize), object: u64) -> bool {
    let locked = store.index.lock(key.hash).expect("no other thread has a lock");
    let Some(there) = find_locked(store, &locked, key) else { return true };
    if version_at(store, there.address) > version {
        return false;
    }
    unname(store, &locked, &there, Slot::EMPTY);
    let orphan = kill(store, counters, there.address, &there.layout);
    drop(locked);
    free_unless(store, counters, orphan, Some(object));
    true
}

/// Calls `each` for every item of a segment that is not dead.
fn each_live(store: &Store, id: SegmentId, each: &mut dyn FnMut(usize, &Layout)) {
    let (header, start, mut at) = (store.segments.header(id), store.segments.start(id), 0);
    let written = header.written.load(Acquire) as usize;
    while at < written
        && let Some(layout) = item_in(store, header, start + at)
    {
        if !layout.has(DEAD) {
            each(start + at, &layout);
        }
        at += layout.size;
    }
}
