//! Selects the segments to compact. While memory is short, the background compacts every segment that is at least half
//! dead. At any time, it compacts as many of the deadest segments as are needed to keep the store's dead bytes under a
//! bound.
//!
//! ```text
//!   the scan passes every header:   histogram of dead bytes by dead share       |..:.:|||:.....|
//!   at the end of a round:          excess = sum - DEAD_PERCENT_MAX                   ^
//!                                   the next round compacts all segments              threshold: the classes to the
//!                                   from the threshold up                             right hold at least the excess
//! ```
//!
//! Compacting a segment copies its live bytes and frees its dead bytes, so the deadest segments are the cheapest. In a
//! store whose items are overwritten evenly, the dead bytes stay at the bound. A lower bound would be expensive: the
//! fewer bytes are dead, the more bytes must be copied to free one.
//!
//! Bounds: one round of the scan checks every segment once, and one slice checks at most 256 segments.

/// Maximum share of dead bytes in all segments, in percent. The store exceeds it for at most two rounds of the scan.
const DEAD_PERCENT_MAX: u64 = 15;
/// Number of classes of deadness. Each class is a sixteenth of a segment wide.
const CLASSES: usize = 16;
/// The lowest class that is compacted because of the bound. A segment of a lower class is more than four fifths live.
const CLASS_MIN: usize = 3;
/// The lowest class that is compacted whenever memory is short, even if the store's dead bytes are under the bound.
const CLASS_HALF: usize = CLASSES / 2;

/// The distribution of the dead bytes over the classes in one round of the scan.
#[derive(Debug)]
pub(super) struct Deadness {
    /// Dead bytes seen in this round, by the class of their segment.
    dead_bytes: [u64; CLASSES],
    /// Segments of this class and above are compacted.
    threshold: usize,
}

impl Deadness {
    pub(super) fn new() -> Self {
        Self { dead_bytes: [0; CLASSES], threshold: CLASSES }
    }

    fn class(dead_bytes: u32, segment_bytes: usize) -> usize {
        (dead_bytes as usize * CLASSES / segment_bytes).min(CLASSES - 1)
    }

    /// Counts a sealed segment that the scan has reached. Returns true if the segment has to be compacted. `short`:
    /// less than half of the memory is free. `tight`: too little memory is free and nothing may be evicted, so stores
    /// wait or are refused.
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
        // 90 x 240 + 10 x 1200 = 33,600 of 160,000 bytes are dead, and the bound is 24,000 bytes. Compacting the ten
        // deadest segments is enough.
        let mut deadness = round(&[(90, 240), (10, 1200)]);
        assert!(deadness.pass(1200, SEGMENT, false, false) && !deadness.pass(800, SEGMENT, false, false));
    }

    #[test]
    fn evenly_dead_store_is_compacted_unless_four_fifths_live() {
        assert!(round(&[(100, 320)]).pass(320, SEGMENT, false, false));
        assert!(!round(&[(100, 290)]).pass(290, SEGMENT, false, false));
    }
}
