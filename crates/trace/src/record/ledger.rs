//! Holds requests in the order in which they were sent, until their outcomes are known.
//!
//! ```text
//!   front                                     back
//!   | settled | settled | open | settled | open |      the front goes to the tape while it is settled;
//!    first                                 next        requests that wait too long go with an unknown outcome
//! ```

use std::collections::VecDeque;

use crate::format::{RequestOutcome, TraceEntry};

/// The maximum number of waiting entries; if more wait, the oldest goes to the tape with an unknown outcome.
const WAITING_MAX: usize = 1 << 16;
/// The time limit for a reply, in microseconds.
const WAIT_US: u64 = 10_000_000;

/// The ordered queue of a recording's requests.
#[derive(Debug, Default)]
pub struct Ledger {
    slots: VecDeque<LedgerSlot>,
    first: u64,
}

#[derive(Debug)]
struct LedgerSlot {
    entry: TraceEntry,
    open: bool,
}

impl Ledger {
    /// Adds a request and returns its number. If `open` is true, [`Ledger::settle`] sets its outcome later.
    pub fn add(&mut self, entry: TraceEntry, open: bool) -> u64 {
        self.slots.push_back(LedgerSlot { entry, open });
        self.first + self.slots.len() as u64 - 1
    }

    fn slot(&mut self, number: u64) -> Option<&mut LedgerSlot> {
        let at = number.checked_sub(self.first)?;
        self.slots.get_mut(usize::try_from(at).ok()?)
    }

    /// Returns the request with this number, if it is still in the queue.
    pub fn entry(&mut self, number: u64) -> Option<&mut TraceEntry> {
        self.slot(number).map(|slot| &mut slot.entry)
    }

    /// Records the outcome of request `number` and the length of the value in its reply. Must be called once per open
    /// request.
    pub fn settle(&mut self, number: u64, outcome: RequestOutcome, value_bytes: Option<u32>) {
        if let Some(slot) = self.slot(number).filter(|slot| slot.open) {
            slot.open = false;
            slot.entry.outcome = outcome;
            slot.entry.value_bytes = value_bytes.unwrap_or(slot.entry.value_bytes);
        }
    }

    /// Returns true if request `number` still waits for its outcome.
    pub fn is_open(&mut self, number: u64) -> bool {
        self.slot(number).is_some_and(|slot| slot.open)
    }

    /// Passes settled requests to `give` in order, and also the requests that have waited too long at the instant
    /// `now_us`, in microseconds.
    pub fn drain(&mut self, now_us: u64, mut give: impl FnMut(&TraceEntry)) {
        while let Some(front) = self.slots.front() {
            let is_old = now_us.saturating_sub(front.entry.at_us) > WAIT_US || self.slots.len() > WAITING_MAX;
            if front.open && !is_old {
                break;
            }
            give(&front.entry);
            self.slots.pop_front();
            self.first += 1;
        }
    }

    /// Passes all requests to `give`.
    pub fn close(&mut self, give: impl FnMut(&TraceEntry)) {
        self.drain(u64::MAX, give);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_us: u64) -> TraceEntry {
        TraceEntry { at_us, ..TraceEntry::default() }
    }

    fn drained(ledger: &mut Ledger, now_us: u64) -> Vec<(u64, RequestOutcome)> {
        let mut got = Vec::new();
        ledger.drain(now_us, |entry| got.push((entry.at_us, entry.outcome)));
        got
    }

    #[test]
    fn ledger_releases_requests_in_arrival_order() {
        let mut ledger = Ledger::default();
        let [a, b, c] = [1, 2, 3].map(|instant| ledger.add(at(instant), true));
        ledger.add(at(4), false);
        ledger.settle(b, RequestOutcome::Miss, None);
        assert_eq!(drained(&mut ledger, 10), []);
        ledger.settle(a, RequestOutcome::Hit, Some(7));
        assert_eq!(drained(&mut ledger, 10), [(1, RequestOutcome::Hit), (2, RequestOutcome::Miss)]);
        ledger.settle(b, RequestOutcome::Error, None);
        assert!(ledger.is_open(c) && !ledger.is_open(b));
        assert_eq!(drained(&mut ledger, WAIT_US + 4), [(3, RequestOutcome::Unknown), (4, RequestOutcome::Unknown)]);
    }

    #[test]
    fn a_server_that_does_not_answer_holds_up_a_bounded_number() {
        let mut ledger = Ledger::default();
        for instant in 0..WAITING_MAX as u64 + 100 {
            ledger.add(at(instant), true);
        }
        assert_eq!(drained(&mut ledger, 0).len(), 100);
        let mut rest = 0;
        ledger.close(|_| rest += 1);
        assert_eq!(rest, WAITING_MAX);
    }
}
