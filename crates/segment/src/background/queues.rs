//! The two eviction queues of each namespace, first in first out.
//!
//! A sealed segment enters the queue that its header names. While memory is filled for the first time, the oldest
//! segments of the small queue move to the main queue ([`Queues::move_to_main`]). Their headers still name the small
//! queue, because their items were not read.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Acquire;

use base::clock::UnixMillis;

use crate::core::store::Store;
use crate::heap::segments::SegmentId;
use crate::layout::header::{EvictionQueue, SegmentState};
use crate::layout::key::Namespace;

/// Sealed segments in the order of their sealing. An entry holds the segment and its sequence, which changes with each
/// reuse. If a segment leaves its queue early (expired, flushed, compacted), its entry stays, and is skipped when it
/// reaches the front.
#[derive(Debug)]
pub(super) struct Queues {
    /// The queues by namespace. The queues of the default namespace allocate their memory at start, those of other
    /// namespaces when they need it.
    entries: [[VecDeque<(SegmentId, u64)>; 2]; Namespace::MAX],
    /// The maximum number of entries of one queue of the default namespace.
    entries_max: usize,
    /// The number of segments in each queue, without stale entries.
    counts: [[usize; 2]; Namespace::MAX],
    /// For each segment, its sequence and its queue while it is in a queue, or 0 if it is in none: see [`in_queue`].
    queued: Box<[u64]>,
    collected: Vec<SegmentId>,
    /// Sealed segments that still have in-place receives in progress.
    arriving: Vec<SegmentId>,
}

/// Returns the word that records that the segment with this sequence is in a queue.
fn in_queue(sequence: u64, queue: EvictionQueue) -> u64 {
    sequence << 1 | queue as u64
}

/// Both queues, in the order of their numbers.
const QUEUES: [EvictionQueue; 2] = [EvictionQueue::Small, EvictionQueue::Main];

/// Removes the entries at a queue's front whose segments have left the queue.
fn drop_stale(entries: &mut VecDeque<(SegmentId, u64)>, queued: &[u64], queue: EvictionQueue) {
    while entries.front().is_some_and(|(id, sequence)| queued[id.0 as usize] != in_queue(*sequence, queue)) {
        entries.pop_front();
    }
}

/// A queue's stale entries are removed when it has this many entries more than twice its number of segments.
const ENTRIES_SPARE: usize = 64;

impl Queues {
    /// Creates queues with room for `segments` segments. The number of segments may later rise to `segments_max`.
    pub(super) fn new(segments: usize, segments_max: usize) -> Self {
        let mut queues = Self {
            entries: [const { [const { VecDeque::new() }; 2] }; Namespace::MAX],
            entries_max: 0,
            // The whole array is allocated now, because pages that are never written use no memory.
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
        // Puts the segment that was sealed first on top of the stack.
        self.collected.extend(self.arriving.drain(..).rev());
        while let Some(id) = self.collected.pop() {
            let header = store.segments.header(id);
            if header.arrivals.load(Acquire) > 0 {
                // No new in-place receive begins in a sealed segment. The segment is queued once the last one has
                // ended.
                self.arriving.push(id);
                continue;
            }
            self.push(header.namespace(), header.queue(), (id, header.sequence()));
        }
    }

    /// Adds a segment at the end of a queue.
    fn push(&mut self, namespace: u8, queue: EvictionQueue, (id, sequence): (SegmentId, u64)) {
        let (namespace, number) = (usize::from(namespace), queue as usize);
        self.queued[id.0 as usize] = in_queue(sequence, queue);
        self.counts[namespace][number] += 1;
        let entries = &mut self.entries[namespace][number];
        if entries.len() >= self.entries_max.min(2 * self.counts[namespace][number] + ENTRIES_SPARE) {
            let queued = &self.queued;
            entries.retain(|(id, sequence)| queued[id.0 as usize] == in_queue(*sequence, queue));
        }
        entries.push_back((id, sequence));
    }

    /// Moves the oldest segment of the small queue of the given namespaces to the main queue. Returns false if the
    /// small queue is empty.
    pub(super) fn move_to_main(&mut self, store: &Store, namespaces: impl IntoIterator<Item = u8>) {
        let Some(id) = self.pop(store, namespaces, EvictionQueue::Small) else { return };
        let header = store.segments.header(id);
        self.push(header.namespace(), EvictionQueue::Main, (id, header.sequence()));
    }

    /// Returns the number of segments in one queue of all given namespaces.
    pub(super) fn count(&self, namespaces: impl IntoIterator<Item = u8>, queue: EvictionQueue) -> usize {
        namespaces.into_iter().map(|namespace| self.counts[usize::from(namespace)][queue as usize]).sum()
    }

    /// Removes a segment from its queue. Returns false if the segment is in no queue.
    pub(super) fn leave(&mut self, store: &Store, id: SegmentId) -> bool {
        let (header, word) = (store.segments.header(id), self.queued[id.0 as usize]);
        let queued = word != 0 && word >> 1 == header.sequence();
        if queued {
            debug_assert!(header.state() == SegmentState::Sealed);
            self.queued[id.0 as usize] = 0;
            self.counts[usize::from(header.namespace())][(word & 1) as usize] -= 1;
        }
        queued
    }

    /// Returns the instant at which the oldest segment of all queues was opened.
    pub(super) fn oldest(&mut self, store: &Store) -> Option<UnixMillis> {
        let queued = &self.queued;
        let mut oldest = None;
        for (queue, entries) in self.entries.iter_mut().flat_map(|queues| QUEUES.into_iter().zip(queues)) {
            drop_stale(entries, queued, queue);
            let created = entries.front().map(|(id, _)| store.segments.header(*id).created());
            oldest = oldest.into_iter().chain(created).min();
        }
        oldest
    }

    /// Removes the oldest segment from one queue of the given namespaces, and returns it.
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
            drop_stale(entries, queued, queue);
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
