//! Removal of pieces and parts that no head names, because a process was killed while it wrote or removed them.
//!
//! ```text
//!   walk 1   marks the object of each head of an earlier process, and the parts that the head names (the scrub's walk)
//!            a thread that writes a head meanwhile, for a rename or a change, marks the head's object first
//!   walk 2   removes the pieces and parts of earlier processes that are not marked
//! ```
//!
//! - Marks are bits by the hash of a number. Two numbers may share a bit, so an orphan may stay. A named piece or part
//!   is never removed.
//! - A head either stays in its place during the whole first walk, or a thread writes it again and so marks its object.
//!   So the walk cannot miss a head that a rename moves from a segment not yet walked to one that was walked. All parts
//!   of an object marked by a writing thread stay, even those that no head names.
//! - After the first walk the marks are final: a later head takes its numbers from an existing head, or from this
//!   process, which assigns only new numbers.
//!
//! Bounds: at most [`BITS_MAX`] bits, and only in a store that was opened after a crash.

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

/// A constant that is XORed with an object's number. If the result is marked, all parts of the object stay.
const WHOLE: u64 = 0x5ca1_ab1e_0000_0000;

/// The marks of the objects and parts of earlier processes that heads name.
#[derive(Debug)]
pub(crate) struct Named {
    bits: Box<[AtomicU64]>,
    /// The first number of this process. Smaller numbers were assigned by earlier processes.
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

    /// Marks the object of a head that is about to be written, so that all its parts stay.
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

    /// Ends the marking. The objects and parts of all heads are marked.
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
