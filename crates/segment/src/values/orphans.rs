//! Removal of pieces and parts that no head names: a process was killed while it wrote or removed them.
//!
//! ```text
//!   walk 1   every head of an earlier process marks its object, and the parts that it names     (the scrub's own walk)
//!            a head that is written meanwhile, by a rename or a change, marks its object first
//!   walk 2   a piece or part of an earlier process that is not marked goes
//! ```
//!
//! - Marks are bits by the hash of a number. Two numbers may share a bit, so an orphan may stay. A named piece or part
//!   is never removed.
//! - A head stands where it is through the whole first walk, or it is written again and marks its object by that. So a
//!   rename cannot evade the walk by moving a head from a segment still to be walked to one that was. All parts of such
//!   an object stay this time.
//! - After the first walk the marks hold for good: a later head is made of one that was there, or of numbers that no
//!   earlier process gave out.
//!
//! Bounds: [`BITS_MAX`] bits, of a store that was opened after a crash.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::layout::hidden_key::{ANCHOR, hidden_numbers};
use crate::layout::key::Key;
use crate::layout::raw::Word32;

const BITS_MIN: u64 = 1 << 16;
const BITS_MAX: u64 = 1 << 25;
/// The number of heap bytes for each bit.
const BYTES_A_BIT: u64 = 512;

const MARKING: u32 = 0;
const MARKED: u32 = 1;

/// Sets the marks of objects whose parts all stay apart from the others.
const WHOLE: u64 = 0x5ca1_ab1e_0000_0000;

/// The objects and parts of earlier processes that heads name.
#[derive(Debug)]
pub(crate) struct Named {
    bits: Box<[AtomicU64]>,
    /// Numbers from here on belong to this process.
    before: u64,
    state: Word32,
}

impl Named {
    pub(crate) fn new(heap_bytes: usize, before: u64) -> Self {
        let bits = (heap_bytes as u64 / BYTES_A_BIT).clamp(BITS_MIN, BITS_MAX).next_power_of_two();
        let bits = (0..bits / 64).map(|_| AtomicU64::new(0)).collect();
        Self { bits, before, state: Word32::new(MARKING) }
    }

    fn bit(&self, number: u64) -> (&AtomicU64, u64) {
        let hash = base::prng::split_mix(number);
        (&self.bits[(hash >> 6) as usize % self.bits.len()], 1 << (hash % 64))
    }

    /// Marks an object or a part that a head names.
    pub(crate) fn mark(&self, number: u64) {
        let (word, bit) = self.bit(number);
        word.fetch_or(bit, Relaxed);
    }

    fn is_marked(&self, number: u64) -> bool {
        let (word, bit) = self.bit(number);
        word.load(Relaxed) & bit != 0
    }

    /// Records that a head is about to be written.
    #[cold]
    pub(crate) fn note_unpublished(&self, object: Option<u64>) {
        if let Some(object) = object.filter(|_| self.state.load(Relaxed) == MARKING) {
            self.mark(object);
            self.mark(object ^ WHOLE);
        }
    }

    pub(crate) fn is_marked_whole(&self) -> bool {
        self.state.load(Acquire) == MARKED
    }

    /// Ends the marking: every head has marked what it names.
    pub(crate) fn end_marking(&self) {
        self.state.store(MARKED, Release);
    }

    /// Returns true if no head names this hidden key, now or later.
    pub(crate) fn is_orphan(&self, key: &Key<'_>) -> bool {
        if !self.is_marked_whole() {
            return false;
        }
        match hidden_numbers(key) {
            Some((object, None | Some(ANCHOR))) => object < self.before && !self.is_marked(object),
            Some((object, Some(part))) => {
                part < self.before && object < self.before && !self.is_marked(part) && !self.is_marked(object ^ WHOLE)
            }
            None => false,
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::layout::key::Hasher;

    #[test]
    fn only_unreferenced_items_of_earlier_processes_are_orphans_after_marking() {
        let (named, hasher) = (Named::new(1 << 20, 100), Hasher::new(1));
        let piece = |object: u64| [&object.to_le_bytes()[..], &[0; 4]].concat();
        let part = |part: u64, object: u64| crate::layout::hidden_key::name(part, object).to_vec();
        let is_orphan = |bytes: &[u8]| named.is_orphan(&hasher.piece(0, bytes));
        [7, 20, 21].into_iter().for_each(|number| named.mark(number));
        assert!(!is_orphan(&piece(8)), "not all are marked yet");
        named.end_marking();
        assert!(is_orphan(&piece(8)) && !is_orphan(&piece(7)) && !is_orphan(&piece(100)));
        assert!(is_orphan(&part(0, 8)) && !is_orphan(&part(0, 20)));
        assert!(is_orphan(&part(22, 20)) && !is_orphan(&part(21, 20)) && !is_orphan(&part(100, 20)));
        assert!(!named.is_orphan(&hasher.key(crate::Namespace(0), &piece(8))), "no hidden key");
    }
}
