//! Items that were stored while an earlier rebuild was under way, which was cut. They may hide something older that was
//! not found then, and are found before any request is served.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use base::clock::UnixMillis;

use super::{Entry, HAS_HEADS, Hand, LaterHead};
use crate::core::counters::Counters;
use crate::core::store::{Store, background_counters};
use crate::heap::segments::SegmentId;
use crate::layout::item::{DEAD, Layout};
use crate::layout::key::Key;
use crate::layout::slot::Slot;

impl Store {
    /// Finds all that was stored while an earlier rebuild was under way, before any request is served. Its heads take
    /// the slots of what is older than they are. They get their own slots with the others.
    pub(crate) fn find_latest(&self, now: UnixMillis) -> HashMap<u64, Vec<LaterHead>> {
        let (Some(rebuild), counters) = (&self.rebuild, background_counters(self)) else { return HashMap::new() };
        let sequence = |entry: &Entry| self.segments.header(entry.id).sequence();
        let count = rebuild.entries.partition_point(|entry| sequence(entry) >= rebuild.since);
        let mut hand = Hand { never_waits: true, ..Hand::default() };
        // The newest come first, and no other thread takes any.
        while rebuild.left.load(Relaxed) + count > rebuild.entries.len() && !rebuild.is_whole() {
            hand.step(self, counters, now, &mut || true);
        }
        let mut later: HashMap<u64, Vec<LaterHead>> = HashMap::new();
        for entry in rebuild.entries[..count].iter().filter(|entry| entry.state.load(Relaxed) == HAS_HEADS) {
            self.each_live(entry.id, &mut |address, layout| {
                let Some(object) = self.object_of(address, layout) else { return };
                let namespace = self.segments.header_of(address).namespace();
                let key = self.key_at(namespace, address, layout);
                let version = self.version_at(address);
                if self.hides_older(counters, &key, version, object) {
                    later.entry(key.hash.0).or_default().push(LaterHead { namespace, version, object: Some(object) });
                }
            });
        }
        later
    }

    /// Takes the slot of what is older than a head of this version; false if something later is there.
    fn hides_older(&self, counters: &Counters, key: &Key<'_>, version: (u64, usize), object: u64) -> bool {
        let locked = self.index.lock(key.hash).expect("nobody else has a lock");
        let Some(there) = self.find_locked(&locked, key) else { return true };
        if self.version_at(there.address) > version {
            return false;
        }
        self.unname(&locked, &there, Slot::EMPTY);
        let orphan = self.kill(counters, there.address, &there.layout);
        drop(locked);
        self.free_unless(counters, orphan, Some(object));
        true
    }

    /// Gives the items of a segment that are not dead.
    fn each_live(&self, id: SegmentId, each: &mut dyn FnMut(usize, &Layout)) {
        let (header, start, mut at) = (self.segments.header(id), self.segments.start(id), 0);
        let written = header.written.load(Acquire) as usize;
        while at < written
            && let Some(layout) = self.item_in(header, start + at)
        {
            if !layout.has(DEAD) {
                each(start + at, &layout);
            }
            at += layout.size;
        }
    }
}
