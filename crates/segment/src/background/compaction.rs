//! The selection of segments to compact: those over half dead, and as many of the deadest as keep the whole store's
//! dead bytes under a bound.
//!
//! ```text
//!   the scan passes every header:   histogram of dead bytes by dead share       |..:.:|||:.....|
//!   at the end of a round:          is the sum above DEAD_PERCENT_MAX?                ^
//!                                   then the threshold for the next round             threshold: all to the right
//!                                   frees the excess, from the deadest down           together is the excess
//! ```
//!
//! Copying a segment costs its live bytes and frees its dead ones, so the deadest are the cheapest. A store whose items
//! are overwritten evenly stays at the bound and not below it: the fewer bytes are dead, the more bytes must be
//! copied to free one byte.
//!
//! Bounds: one round of the scan looks at every segment once, a slice at 256 of them.

/// Share of dead bytes that the store may hold for more than two rounds of the scan, in percent of all segments.
const DEAD_PERCENT_MAX: u64 = 15;
/// Classes of deadness: a sixteenth of a segment each.
const CLASSES: usize = 16;
/// A segment of a class under this one is not copied, whatever the store's sum is: it is four fifths live.
const CLASS_MIN: usize = 3;
/// From this class on a segment is copied whenever memory is short, whatever the store's sum is.
const CLASS_HALF: usize = CLASSES / 2;

/// The distribution of the dead bytes in one round.
#[derive(Debug)]
pub(super) struct Deadness {
    /// Dead bytes seen in this round, by the class of their segment.
    dead_bytes: [u64; CLASSES],
    /// Segments of this class and above are copied.
    threshold: usize,
}

impl Deadness {
    pub(super) fn new() -> Self {
        Self { dead_bytes: [0; CLASSES], threshold: CLASSES }
    }

    fn class(dead_bytes: u32, segment_bytes: usize) -> usize {
        (dead_bytes as usize * CLASSES / segment_bytes).min(CLASSES - 1)
    }

    /// Passes a sealed segment in the scan. Returns true if it is to be copied. `short`: less than half of the memory
    /// is free. `tight`: stores wait or are refused, since too little is free and nothing may be evicted.
    pub(super) fn pass(&mut self, dead_bytes: u32, segment_bytes: usize, short: bool, tight: bool) -> bool {
        let class = Self::class(dead_bytes, segment_bytes);
        self.dead_bytes[class] += u64::from(dead_bytes);
        class >= self.threshold || (short && class >= CLASS_HALF) || (tight && class > 0)
    }

    /// Ends a round: the scan has passed every header of `heap_bytes` of segments.
    pub(super) fn end_round(&mut self, heap_bytes: u64) {
        let dead: u64 = self.dead_bytes.iter().sum();
        let mut left = dead.saturating_sub(heap_bytes * DEAD_PERCENT_MAX / 100);
        self.threshold = CLASSES;
        while left > 0 && self.threshold > CLASS_MIN {
            self.threshold -= 1;
            left = left.saturating_sub(self.dead_bytes[self.threshold]);
        }
        self.dead_bytes = [0; CLASSES];
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const SEGMENT: usize = 1600;

    fn round(dead: &[(usize, u32)]) -> Deadness {
        let mut deadness = Deadness::new();
        let segments: usize = dead.iter().map(|(count, _)| count).sum();
        for (count, dead_bytes) in dead {
            for _ in 0..*count {
                deadness.pass(*dead_bytes, SEGMENT, false, false);
            }
        }
        deadness.end_round((segments * SEGMENT) as u64);
        deadness
    }

    #[test]
    fn store_below_dead_bound_compacts_half_dead_segments_only_on_shortage() {
        let mut deadness = round(&[(90, 100), (10, 810)]);
        assert!(!deadness.pass(1500, SEGMENT, false, false));
        assert!(deadness.pass(810, SEGMENT, true, false) && !deadness.pass(700, SEGMENT, true, false));
    }

    #[test]
    fn the_deadest_go_first_and_no_more_than_are_needed() {
        // 90 x 240 + 10 x 1200 = 33,600 of 160,000 bytes are dead, 24,000 may be: the ten are enough.
        let mut deadness = round(&[(90, 240), (10, 1200)]);
        assert!(deadness.pass(1200, SEGMENT, false, false) && !deadness.pass(800, SEGMENT, false, false));
    }

    #[test]
    fn evenly_dead_store_is_compacted_unless_four_fifths_live() {
        assert!(round(&[(100, 320)]).pass(320, SEGMENT, false, false));
        assert!(!round(&[(100, 290)]).pass(290, SEGMENT, false, false));
    }
}
