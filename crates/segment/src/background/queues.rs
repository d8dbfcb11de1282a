//! The two eviction queues, first in first out.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Acquire;

use base::clock::UnixMillis;

use crate::header::{Queue, State};
use crate::segments::SegmentId;
use crate::store::Store;

/// Sealed segments in the order of their sealing. An entry names one life of a segment by its sequence; a segment
/// that left early (expired, flushed, compacted) leaves an entry that is skipped when its turn comes.
#[derive(Debug)]
pub(super) struct Queues {
    entries: [VecDeque<(SegmentId, u64)>; 2],
    /// Entries of one queue at most.
    entries_max: usize,
    /// The sequence under which each segment is queued; 0: it is not.
    queued: Box<[u64]>,
    collected: Vec<SegmentId>,
    /// Sealed, and still written to.
    arriving: Vec<SegmentId>,
    /// Segments in the small queue.
    pub(super) small: usize,
    /// Segments in the main queue.
    pub(super) main: usize,
}

impl Queues {
    /// Room for `segments`, of which there may once be `segments_max`.
    pub(super) fn new(segments: usize, segments_max: usize) -> Self {
        let mut queues = Self {
            entries: [const { VecDeque::new() }; 2],
            entries_max: 0,
            // Pages that are never written cost nothing.
            queued: vec![0; segments_max].into_boxed_slice(),
            collected: Vec::new(),
            arriving: Vec::new(),
            small: 0,
            main: 0,
        };
        queues.make_room(segments);
        queues
    }

    /// Makes room for so many segments, if it is not there.
    pub(super) fn make_room(&mut self, segments: usize) {
        self.entries_max = self.entries_max.max(2 * segments);
        for entries in &mut self.entries {
            entries.reserve((self.entries_max + 1).saturating_sub(entries.len()));
        }
        self.collected.reserve(segments.saturating_sub(self.collected.len()));
        self.arriving.reserve(segments.saturating_sub(self.arriving.len()));
    }

    /// Takes in what the lanes (and the background itself) sealed since the last call, and nobody writes to any more.
    pub(super) fn collect_sealed(&mut self, store: &Store) {
        while let Some(id) = store.segments.pop_sealed() {
            self.collected.push(id);
        }
        // The oldest on top.
        self.collected.extend(self.arriving.drain(..).rev());
        while let Some(id) = self.collected.pop() {
            let header = store.segments.header(id);
            if header.arrivals.load(Acquire) > 0 {
                // No arrival begins in a sealed segment, so once there is none there will be none.
                self.arriving.push(id);
                continue;
            }
            let queue = header.queue();
            self.queued[id.0 as usize] = header.sequence();
            *self.count(queue) += 1;
            let entries = &mut self.entries[queue as usize];
            if entries.len() >= self.entries_max {
                let queued = &self.queued;
                entries.retain(|(id, sequence)| queued[id.0 as usize] == *sequence);
            }
            entries.push_back((id, header.sequence()));
        }
    }

    fn count(&mut self, queue: Queue) -> &mut usize {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    /// Takes a segment out of its queue; false if it is not in one.
    pub(super) fn leave(&mut self, store: &Store, id: SegmentId) -> bool {
        let header = store.segments.header(id);
        let queued = self.queued[id.0 as usize] == header.sequence();
        if queued {
            debug_assert!(header.state() == State::Sealed);
            self.queued[id.0 as usize] = 0;
            *self.count(header.queue()) -= 1;
        }
        queued
    }

    /// When the oldest segment of both queues was opened.
    pub(super) fn oldest(&mut self, store: &Store) -> Option<UnixMillis> {
        let queued = &self.queued;
        let mut oldest = None;
        for entries in &mut self.entries {
            while entries.front().is_some_and(|(id, sequence)| queued[id.0 as usize] != *sequence) {
                entries.pop_front();
            }
            let created = entries.front().map(|(id, _)| store.segments.header(*id).created());
            oldest = oldest.into_iter().chain(created).min();
        }
        oldest
    }

    /// The oldest segment of a queue.
    pub(super) fn pop(&mut self, store: &Store, queue: Queue) -> Option<SegmentId> {
        while let Some((id, sequence)) = self.entries[queue as usize].pop_front() {
            if self.queued[id.0 as usize] == sequence && self.leave(store, id) {
                return Some(id);
            }
        }
        None
    }
}
