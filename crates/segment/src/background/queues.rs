//! The two eviction queues of each namespace, first in first out.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Acquire;

use base::clock::UnixMillis;

use crate::core::store::Store;
use crate::heap::segments::SegmentId;
use crate::layout::header::{EvictionQueue, SegmentState};
use crate::layout::key::Namespace;

/// Sealed segments in the order of their sealing. An entry names one life of a segment by its sequence; a segment
/// that left early (expired, flushed, compacted) leaves an entry that is skipped when it comes up.
#[derive(Debug)]
pub(super) struct Queues {
    /// The queues by namespace. Those of the default namespace allocate their room at start, the others when they need
    /// it.
    entries: [[VecDeque<(SegmentId, u64)>; 2]; Namespace::MAX],
    /// The maximum number of entries of one queue of the default namespace.
    entries_max: usize,
    /// Number of each queue's entries whose segments are in it.
    counts: [[usize; 2]; Namespace::MAX],
    /// The sequence under which each segment is queued; 0: it is not.
    queued: Box<[u64]>,
    collected: Vec<SegmentId>,
    /// Segments that are sealed and still receive values.
    arriving: Vec<SegmentId>,
}

/// The number of entries beyond twice its segments that a queue may have before the entries of segments that left early
/// are removed.
const ENTRIES_SPARE: usize = 64;

impl Queues {
    /// Creates queues with room for `segments`, of which there may once be `segments_max`.
    pub(super) fn new(segments: usize, segments_max: usize) -> Self {
        let mut queues = Self {
            entries: [const { [const { VecDeque::new() }; 2] }; Namespace::MAX],
            entries_max: 0,
            // Pages that are never written cost nothing.
            queued: vec![0; segments_max].into_boxed_slice(),
            collected: Vec::new(),
            arriving: Vec::new(),
            counts: [[0; 2]; Namespace::MAX],
        };
        queues.make_room(segments);
        queues
    }

    /// Reserves room for `segments` segments, unless there is enough.
    pub(super) fn make_room(&mut self, segments: usize) {
        self.entries_max = self.entries_max.max(2 * segments);
        for entries in &mut self.entries[usize::from(Namespace::DEFAULT.0)] {
            entries.reserve((self.entries_max + 1).saturating_sub(entries.len()));
        }
        self.collected.reserve(segments.saturating_sub(self.collected.len()));
        self.arriving.reserve(segments.saturating_sub(self.arriving.len()));
    }

    /// Adds the segments that the handles and the background sealed since the last call and that no thread writes to
    /// any more.
    pub(super) fn collect_sealed(&mut self, store: &Store) {
        while let Some(id) = store.segments.pop_sealed() {
            self.collected.push(id);
        }
        // The oldest on top.
        self.collected.extend(self.arriving.drain(..).rev());
        while let Some(id) = self.collected.pop() {
            let header = store.segments.header(id);
            if header.arrivals.load(Acquire) > 0 {
                // No in-place receive begins in a sealed segment, so once it has none it never has one again.
                self.arriving.push(id);
                continue;
            }
            let (namespace, queue) = (usize::from(header.namespace()), header.queue() as usize);
            self.queued[id.0 as usize] = header.sequence();
            self.counts[namespace][queue] += 1;
            let entries = &mut self.entries[namespace][queue];
            if entries.len() >= self.entries_max.min(2 * self.counts[namespace][queue] + ENTRIES_SPARE) {
                let queued = &self.queued;
                entries.retain(|(id, sequence)| queued[id.0 as usize] == *sequence);
            }
            entries.push_back((id, header.sequence()));
        }
    }

    /// Returns the number of segments in a queue of those namespaces.
    pub(super) fn count(&self, namespaces: impl IntoIterator<Item = u8>, queue: EvictionQueue) -> usize {
        namespaces.into_iter().map(|namespace| self.counts[usize::from(namespace)][queue as usize]).sum()
    }

    /// Removes a segment from its queue. Returns false if it is in none.
    pub(super) fn leave(&mut self, store: &Store, id: SegmentId) -> bool {
        let header = store.segments.header(id);
        let queued = self.queued[id.0 as usize] == header.sequence();
        if queued {
            debug_assert!(header.state() == SegmentState::Sealed);
            self.queued[id.0 as usize] = 0;
            self.counts[usize::from(header.namespace())][header.queue() as usize] -= 1;
        }
        queued
    }

    /// Returns the instant at which the oldest segment of both queues was opened.
    pub(super) fn oldest(&mut self, store: &Store) -> Option<UnixMillis> {
        let queued = &self.queued;
        let mut oldest = None;
        for entries in self.entries.iter_mut().flatten() {
            while entries.front().is_some_and(|(id, sequence)| queued[id.0 as usize] != *sequence) {
                entries.pop_front();
            }
            let created = entries.front().map(|(id, _)| store.segments.header(*id).created());
            oldest = oldest.into_iter().chain(created).min();
        }
        oldest
    }

    /// Returns the oldest segment of a queue of those namespaces.
    pub(super) fn pop(
        &mut self,
        store: &Store,
        namespaces: impl IntoIterator<Item = u8>,
        queue: EvictionQueue,
    ) -> Option<SegmentId> {
        let queued = &self.queued;
        let mut oldest: Option<(u64, SegmentId, u8)> = None;
        for namespace in namespaces {
            let entries = &mut self.entries[usize::from(namespace)][queue as usize];
            while entries.front().is_some_and(|(id, sequence)| queued[id.0 as usize] != *sequence) {
                entries.pop_front();
            }
            // Sequences are assigned when segments are opened, which is close enough to the order of sealing.
            if let Some((id, sequence)) = entries.front()
                && oldest.is_none_or(|(before, ..)| *sequence < before)
            {
                oldest = Some((*sequence, *id, namespace));
            }
        }
        let (_, id, namespace) = oldest?;
        self.entries[usize::from(namespace)][queue as usize].pop_front();
        self.leave(store, id).then_some(id)
    }
}
