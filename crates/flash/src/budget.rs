//! The daily write budget, and the choice of items that may use it.
//!
//! ```text
//!                  empty                    half                    full
//!   bytes left     |------------------------|------------------------|   refilled evenly, up to one hour's share
//!   read items     no | accepted ...........................................
//!   other items    no | with probability: bytes left / half   | accepted ..
//! ```
//!
//! An item counts as read if it was read while in memory. An item also counts as read if its key had been evicted and
//! was then stored again while the key's ghost existed. If the budget is short, items that were never requested twice
//! are rejected first. A rejected item may be accepted when it is stored again. In the long run, devices write as much
//! as the budget allows.
//!
//! The remaining bytes are persisted with the tier's state, so a restart does not refill the bucket.

use base::clock::UnixMillis;
use base::prng::Prng;

/// A day, in milliseconds.
const DAY_MS: u64 = 24 * 3600 * 1000;
/// The bucket holds a day's bytes divided by this number.
const BUCKETS_A_DAY: u64 = 24;

/// A token bucket of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Maximum number of bytes to write per day; 0 for no limit.
    bytes_a_day: u64,
    left: u64,
    since: Option<UnixMillis>,
}

/// The reason why an item is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    /// The bucket is empty.
    Empty,
    /// The bucket has too little for an item that was never requested twice.
    Unread,
}

impl Budget {
    /// Creates a budget with `left` bytes, limited to the bucket's size; `None` means a full bucket.
    pub(crate) fn new(bytes_a_day: u64, left: Option<u64>) -> Self {
        let most = bytes_a_day / BUCKETS_A_DAY;
        Self { bytes_a_day, left: left.map_or(most, |left| left.min(most)), since: None }
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Adds the bytes for the time that has passed.
    pub(crate) fn refill(&mut self, now: UnixMillis) {
        let since = *self.since.get_or_insert(now);
        let more = (u128::from(now.ms_since(since)) * u128::from(self.bytes_a_day) / u128::from(DAY_MS)) as u64;
        // If the elapsed time yields less than a byte, the time is not lost: it counts at a later call.
        if more > 0 {
            self.left = self.left.saturating_add(more).min(self.bytes_a_day / BUCKETS_A_DAY);
            self.since = Some(now);
        }
    }

    /// Takes the bytes of a write from the budget, or returns why the write is not allowed.
    pub(crate) fn take(&mut self, bytes: usize, is_read: bool, random: &mut Prng) -> Result<(), Short> {
        if self.bytes_a_day == 0 {
            return Ok(());
        }
        let half = self.bytes_a_day / BUCKETS_A_DAY / 2;
        if self.left < bytes as u64 {
            return Err(Short::Empty);
        }
        if !is_read && self.left < half && random.below(half) >= self.left {
            return Err(Short::Unread);
        }
        self.left -= bytes as u64;
        Ok(())
    }

    /// Gives back bytes that were taken from the budget but not written.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.left = self.left.saturating_add(bytes as u64).min(self.bytes_a_day / BUCKETS_A_DAY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: UnixMillis = UnixMillis(1_700_000_000_000);

    #[test]
    fn over_a_day_no_more_is_written_than_the_budget_and_a_bucket_and_nearly_all_of_it() {
        let (mut budget, mut random) = (Budget::new(24 << 30, None), Prng::new(1));
        let mut written = 0;
        for second in 0..24 * 3600 {
            budget.refill(START.plus_ms(second * 1000));
            // The test offers twice as much as may be written.
            for _ in 0..600 {
                written += if budget.take(1 << 20, false, &mut random).is_ok() { 1u64 << 20 } else { 0 };
            }
        }
        assert!((24 << 30..=25 << 30).contains(&written), "{written}");
    }

    #[test]
    fn items_that_were_read_are_favoured_if_the_write_budget_is_short() {
        let (mut budget, mut random) = (Budget::new(24 << 30, Some(170 << 20)), Prng::new(1));
        let mut taken = [0u64; 2];
        for ms in 0..1_000_000 {
            budget.refill(START.plus_ms(ms));
            for (read, taken) in taken.iter_mut().enumerate() {
                // Each of the two kinds alone would use three quarters of the budget.
                if random.below(4) < 3 && budget.take(298, read == 1, &mut random).is_ok() {
                    *taken += 1;
                }
            }
        }
        let [unread, read] = taken;
        assert!(read > 740_000, "all that was read is written: {read} of 750000");
        assert!((200_000..300_000).contains(&unread), "and of the rest what there is room for: {unread}");
    }

    #[test]
    fn without_a_budget_everything_is_written_and_a_restart_fills_no_bucket() {
        let mut random = Prng::new(1);
        assert!((0..1000).all(|_| Budget::new(0, Some(0)).take(1 << 30, false, &mut random).is_ok()));
        let mut budget = Budget::new(24 << 20, Some(1000));
        budget.refill(START);
        assert_eq!(budget.left(), 1000);
        budget.refill(START.plus_ms(1000));
        assert_eq!(budget.left(), 1000 + (24 << 20) / 86_400);
        assert_eq!(budget.take(500_000, true, &mut random), Err(Short::Empty));
        assert_eq!(Budget::new(24 << 20, Some(u64::MAX)).left(), 1 << 20);
    }
}
