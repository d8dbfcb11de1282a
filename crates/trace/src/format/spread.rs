//! Instants for entries that name a second and no more: the n entries of a second lie evenly in it.
//!
//! ```text
//!   second 17: a b c d   ->   17.00 a   17.25 b   17.50 c   17.75 d
//! ```
//!
//! How many there are is known when the next second begins, so that one second's entries are held; no more.

use std::collections::VecDeque;

use super::TraceEntry;
use super::fault::TraceDefect;

/// Entries of one second at most.
pub const SECOND_ENTRIES_MAX: usize = 1 << 21;

const US_A_SECOND: u64 = 1_000_000;

/// The second that is being gathered, and the one before it that is being given.
#[derive(Debug, Default)]
pub(super) struct Spread {
    ready: VecDeque<TraceEntry>,
    gathered: VecDeque<TraceEntry>,
    first: Option<u64>,
    second: u64,
}

impl Spread {
    /// The next entry that knows its instant.
    pub fn pop(&mut self) -> Option<TraceEntry> {
        self.ready.pop_front()
    }

    /// Takes an entry of `second`. To be called when [`Spread::pop`] has nothing.
    ///
    /// # Errors
    /// When time goes back, or a second has more entries than may be held.
    pub fn push(&mut self, second: u64, entry: TraceEntry) -> Result<(), TraceDefect> {
        if self.first.is_none() {
            (self.first, self.second) = (Some(second), second);
        }
        if second < self.second {
            let what = format!("time goes back from second {} to {second}", self.second);
            return Err(TraceDefect::new(what, "sort the trace by time, or pace it by --rate and not by its own time"));
        }
        if second > self.second {
            self.end();
            self.second = second;
        }
        if self.gathered.len() == SECOND_ENTRIES_MAX {
            let what = format!("more than {SECOND_ENTRIES_MAX} requests in second {second}");
            return Err(TraceDefect::new(what, "pace it by --rate and not by its own time"));
        }
        self.gathered.push_back(entry);
        Ok(())
    }

    /// No more entries of the present second come.
    pub fn end(&mut self) {
        debug_assert!(self.ready.is_empty(), "what is ready is given before more is taken");
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
    fn time_that_goes_back_and_a_second_without_end_are_refused() {
        assert!(spread(&[5, 4]).unwrap_err().what.contains("from second 5 to 4"));
        let mut spread = Spread::default();
        for _ in 0..SECOND_ENTRIES_MAX {
            spread.push(0, TraceEntry::default()).unwrap();
        }
        let wrong = spread.push(0, TraceEntry::default()).unwrap_err();
        assert!(wrong.what.contains("in second 0") && wrong.remedy.contains("--rate"), "{wrong:?}");
    }
}
