//! Assigns instants to entries with times in whole seconds: the n entries of a second are spread evenly over that
//! second.
//!
//! ```text
//!   second 17: a b c d   ->   17.00 a   17.25 b   17.50 c   17.75 d
//! ```
//!
//! The number of entries is known when the next second begins, so the entries of one second are buffered.

use std::collections::VecDeque;

use super::TraceEntry;
use super::fault::TraceDefect;

/// The maximum number of entries in one second.
pub const SECOND_ENTRIES_MAX: usize = 1 << 21;

const US_A_SECOND: u64 = 1_000_000;

/// The second that is being collected, and the entries of the previous second.
#[derive(Debug, Default)]
pub(super) struct Spread {
    ready: VecDeque<TraceEntry>,
    gathered: VecDeque<TraceEntry>,
    first: Option<u64>,
    second: u64,
}

impl Spread {
    /// Returns the next entry that has received its instant.
    pub fn pop(&mut self) -> Option<TraceEntry> {
        self.ready.pop_front()
    }

    /// Adds an entry of `second`. [`Spread::pop`] must have returned `None` before.
    ///
    /// # Errors
    /// If the time decreases, or if a second has too many entries.
    pub fn push(&mut self, second: u64, entry: TraceEntry) -> Result<(), TraceDefect> {
        if self.first.is_none() {
            (self.first, self.second) = (Some(second), second);
        }
        if second < self.second {
            let what = format!("the time decreases from second {} to {second}", self.second);
            return Err(TraceDefect::new(
                what,
                "sort the trace by time, or pass --rate instead of using its own times",
            ));
        }
        if second > self.second {
            self.end();
            self.second = second;
        }
        if self.gathered.len() == SECOND_ENTRIES_MAX {
            let what = format!("second {second} has more than {SECOND_ENTRIES_MAX} requests");
            return Err(TraceDefect::new(what, "pass --rate instead of using the trace's own times"));
        }
        self.gathered.push_back(entry);
        Ok(())
    }

    /// Ends the current second.
    pub fn end(&mut self) {
        debug_assert!(self.ready.is_empty(), "all ready entries were taken");
        std::mem::swap(&mut self.ready, &mut self.gathered);
        let count = self.ready.len() as u64;
        let begins_us = (self.second - self.first.unwrap_or(self.second)).saturating_mul(US_A_SECOND);
        for (at, entry) in self.ready.iter_mut().enumerate() {
            entry.at_us = begins_us.saturating_add(at as u64 * US_A_SECOND / count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(seconds: &[u64]) -> Result<Vec<u64>, TraceDefect> {
        let (mut spread, mut instants) = (Spread::default(), Vec::new());
        for second in seconds {
            spread.push(*second, TraceEntry::default())?;
            instants.extend(std::iter::from_fn(|| spread.pop()).map(|entry| entry.at_us));
        }
        spread.end();
        instants.extend(std::iter::from_fn(|| spread.pop()).map(|entry| entry.at_us));
        Ok(instants)
    }

    #[test]
    fn entries_of_a_second_lie_evenly_in_it_and_gaps_stay() {
        let instants = spread(&[100, 100, 100, 100, 103, 103, 104]).unwrap();
        assert_eq!(instants, [0, 250_000, 500_000, 750_000, 3_000_000, 3_500_000, 4_000_000]);
        assert!(spread(&[]).unwrap().is_empty());
    }

    #[test]
    fn decreasing_timestamps_and_overfull_seconds_are_refused() {
        assert!(spread(&[5, 4]).unwrap_err().what.contains("from second 5 to 4"));
        let mut spread = Spread::default();
        for _ in 0..SECOND_ENTRIES_MAX {
            spread.push(0, TraceEntry::default()).unwrap();
        }
        let wrong = spread.push(0, TraceEntry::default()).unwrap_err();
        assert!(wrong.what.contains("second 0") && wrong.remedy.contains("--rate"), "{wrong:?}");
    }
}
