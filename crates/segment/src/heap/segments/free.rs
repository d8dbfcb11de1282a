//! The free segments: segments that were used and freed again, and segments that were never taken.
//!
//! ```text
//!   take   first takes a right: available - 1, if it exceeds `keep`   then a segment from the stack, or a fresh one
//!   give   first pushes the segment onto the stack                    then adds a right: available + 1
//! ```
//!
//! A right is a permit to take one segment. `available` is the number of rights. Invariant: at every instant, at least
//! as many segments are free as there are rights, including the rights that threads have taken and not used yet. So the
//! count never wraps, and the holder of a right always finds a segment. `keep` segments remain free, however many
//! threads take segments at once.
//!
//! The stacks are linked through a word in each segment's header, so they need no further memory and no lock. The
//! stack's head word has a count that changes with every push and pop. So a pop detects that the top segment was
//! removed and pushed again meanwhile (the ABA problem).

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::layout::raw::{Word32, Word64};

/// The words that link segments into stacks: one word for each segment.
pub(crate) trait Links {
    /// Returns the link word of segment `id`.
    fn link(&self, id: u32) -> &Word32;
}

/// The head word of a stack of segments: 32 bits with a count of changes, then 32 bits with the top segment's number
/// plus 1, or 0 if the stack is empty.
#[derive(Debug, Default)]
pub(crate) struct Stack(Word64);

impl Stack {
    pub(crate) fn push(&self, links: &impl Links, id: u32) {
        let link = links.link(id);
        let mut head = self.0.load(Relaxed);
        loop {
            link.store(head as u32, Relaxed);
            let next = ((head >> 32).wrapping_add(1) << 32) | u64::from(id + 1);
            match self.0.compare_exchange(head, next, Release) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    pub(crate) fn pop(&self, links: &impl Links) -> Option<u32> {
        let mut head = self.0.load(Acquire);
        loop {
            let id = (head as u32).checked_sub(1)?;
            let under = links.link(id).load(Relaxed);
            let next = ((head >> 32).wrapping_add(1) << 32) | u64::from(under);
            match self.0.compare_exchange(head, next, AcqRel) {
                Ok(_) => return Some(id),
                Err(_) => head = self.0.load(Acquire),
            }
        }
    }
}

/// The range of segments that were never taken: from `next` up to, but not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fresh {
    pub(crate) next: u32,
    pub(crate) end: u32,
}

impl Fresh {
    fn of(word: u64) -> Self {
        Self { next: (word >> 32) as u32, end: word as u32 }
    }

    fn word(self) -> u64 {
        u64::from(self.next) << 32 | u64::from(self.end)
    }
}

/// The free segments of a store.
#[derive(Debug)]
pub(crate) struct FreeSegments {
    came_back: Stack,
    /// The segments that were never taken: 32 bits with `next`, then 32 bits with `end`.
    fresh: Word64,
    /// The number of rights: segments that may still be taken.
    available: Word32,
}

impl FreeSegments {
    /// Creates the free segments from segments that were never taken.
    pub(crate) fn new(fresh: Fresh) -> Self {
        Self {
            came_back: Stack::default(),
            fresh: Word64::new(fresh.word()),
            available: Word32::new(fresh.end - fresh.next),
        }
    }

    /// Sets the range of segments that were never taken. Called before any segment is freed, and before another thread
    /// uses the lists.
    pub(crate) fn begin(&self, fresh: Fresh) {
        self.fresh.store(fresh.word(), Relaxed);
        self.available.store(fresh.end - fresh.next, Relaxed);
    }

    pub(crate) fn fresh(&self) -> Fresh {
        Fresh::of(self.fresh.load(Relaxed))
    }

    /// Returns the number of segments that may be taken.
    pub(crate) fn count(&self) -> usize {
        self.available.load(Relaxed) as usize
    }

    /// Takes a free segment, if more than `keep` are available.
    pub(crate) fn take(&self, links: &impl Links, keep: usize) -> Option<u32> {
        if self.rights(1, keep) == 0 {
            return None;
        }
        loop {
            // The holder of a right finds a segment in one of the two lists. Both appear empty only if other threads
            // took the last segment of one list and freed a segment to the other meanwhile. Each retry then means that
            // another thread made progress.
            if let Some(id) = self.came_back.pop(links).or_else(|| self.next_fresh()) {
                return Some(id);
            }
        }
    }

    /// Takes up to `most` rights, and leaves at least `keep` rights. Returns the number of rights taken.
    fn rights(&self, most: u32, keep: usize) -> u32 {
        let mut available = self.available.load(Relaxed);
        loop {
            let rights = most.min((available as usize).saturating_sub(keep) as u32);
            if rights == 0 {
                return 0;
            }
            // Acquire ordering makes the segment visible that was freed before this right was added.
            match self.available.compare_exchange(available, available - rights, Acquire) {
                Ok(_) => return rights,
                Err(now) => available = now,
            }
        }
    }

    fn next_fresh(&self) -> Option<u32> {
        let mut word = self.fresh.load(Relaxed);
        loop {
            let Fresh { next, end } = Fresh::of(word);
            if next >= end {
                return None;
            }
            match self.fresh.compare_exchange(word, Fresh { next: next + 1, end }.word(), AcqRel) {
                Ok(_) => return Some(next),
                Err(now) => word = now,
            }
        }
    }

    /// Adds a segment to the free segments.
    pub(crate) fn give(&self, links: &impl Links, id: u32) {
        self.came_back.push(links, id);
        self.available.fetch_add(1, Release);
    }

    /// Removes at most `count` segments that were never taken. Returns how many were removed, and the new end.
    pub(crate) fn cut_fresh(&self, count: usize) -> (u32, u32) {
        let rights = self.rights(count as u32, 0);
        let mut word = self.fresh.load(Relaxed);
        let (cut, end) = loop {
            let Fresh { next, end } = Fresh::of(word);
            let cut = rights.min(end - next);
            match self.fresh.compare_exchange(word, Fresh { next, end: end - cut }.word(), AcqRel) {
                Ok(_) => break (cut, end - cut),
                Err(now) => word = now,
            }
        };
        self.available.fetch_add(rights - cut, Release);
        (cut, end)
    }

    /// Extends the range of segments that were never taken by `count` segments.
    pub(crate) fn add_fresh(&self, count: usize) {
        self.fresh.fetch_add(count as u64, AcqRel);
        let fresh = self.fresh();
        assert!(fresh.next <= fresh.end, "the segments are counted in 32 bits");
        self.available.fetch_add(count as u32, Release);
    }
}
