//! Limits the rate of a copy: keys per second, and bytes per second.
//!
//! ```text
//!   due += max(keys / rate, bytes / byte rate)        the next batch waits until `due`
//! ```
//! Unused rate is not saved: after a pause the rate is the same as before, never higher.

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;
/// Duration of a batch at the requested rate, so that the traffic is not a sequence of bursts.
const BATCH_NS: u64 = SECOND_NS / 20;

/// Enforces two rates. Time is an argument.
#[derive(Clone, Debug)]
pub struct CopyPace {
    keys_per_s: Option<u64>,
    bytes_per_s: Option<u64>,
    due_ns: u64,
}

impl CopyPace {
    /// Creates a pace; a rate of `None` is unlimited, and a rate of 0 counts as 1.
    pub fn new(keys_per_s: Option<u64>, bytes_per_s: Option<u64>) -> Self {
        Self {
            keys_per_s: keys_per_s.map(|rate| rate.max(1)),
            bytes_per_s: bytes_per_s.map(|rate| rate.max(1)),
            due_ns: 0,
        }
    }

    /// Returns the highest number of keys of the next batch, limited to `most`.
    pub fn keys_max(&self, most: usize) -> usize {
        let at_once = |rate: u64| (rate * BATCH_NS / SECOND_NS).max(1);
        self.keys_per_s.map_or(most, |rate| usize::try_from(at_once(rate)).unwrap_or(most).min(most))
    }

    /// Returns the largest size of the next batch in bytes, limited to `most`. A single larger value is a batch by
    /// itself.
    pub fn bytes_max(&self, most: u64) -> u64 {
        self.bytes_per_s.map_or(most, |rate| (rate / (SECOND_NS / BATCH_NS)).clamp(1, most))
    }

    /// Records a batch that was copied by `now_ns`. Returns the nanoseconds that the next batch has to wait.
    pub fn after(&mut self, now_ns: u64, keys: u64, bytes: u64) -> u64 {
        let span = |count: u64, rate: Option<u64>| {
            rate.map_or(0, |rate| {
                u64::try_from(u128::from(count) * u128::from(SECOND_NS) / u128::from(rate)).unwrap_or(u64::MAX)
            })
        };
        let span_ns = span(keys, self.keys_per_s).max(span(bytes, self.bytes_per_s));
        // A batch begins at the due time after the previous batch, or later. The next due time counts from that
        // beginning.
        self.due_ns = self.due_ns.saturating_add(span_ns);
        if self.due_ns <= now_ns {
            self.due_ns = now_ns;
            return 0;
        }
        self.due_ns - now_ns
    }

    /// Restarts at `now_ns`, because nothing was copied before. The pace does not catch up on the time before `now_ns`.
    pub fn begin(&mut self, now_ns: u64) {
        self.due_ns = self.due_ns.max(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates the copy of `batches`, each of which takes `work_ns`. Returns the total time, waits included.
    fn simulated(pace: &mut CopyPace, work_ns: u64, batches: &[(u64, u64)]) -> u64 {
        let mut now_ns = 7 * SECOND_NS;
        let begin_ns = now_ns;
        pace.begin(now_ns);
        for (keys, bytes) in batches {
            now_ns += work_ns;
            now_ns += pace.after(now_ns, *keys, *bytes);
        }
        now_ns - begin_ns
    }

    #[test]
    fn neither_rate_is_exceeded_whatever_the_batches_are() {
        for (keys_per_s, bytes_per_s) in [(1_000, 1 << 20), (50_000, 1 << 20), (3, 1 << 30)] {
            let mut pace = CopyPace::new(Some(keys_per_s), Some(bytes_per_s));
            let batches: Vec<(u64, u64)> = (0..500).map(|n| (n % 60 + 1, n * n * 7)).collect();
            let (keys, bytes) = batches.iter().fold((0, 0), |(k, b), (keys, bytes)| (k + keys, b + bytes));
            let spent_ns = simulated(&mut pace, 1_000, &batches);
            assert!(spent_ns >= keys * SECOND_NS / keys_per_s - 500, "{keys} keys in {spent_ns} ns at {keys_per_s}/s");
            assert!(spent_ns >= bytes * SECOND_NS / bytes_per_s - 500, "{bytes} bytes in {spent_ns} ns");
        }
    }

    #[test]
    fn feasible_copy_rate_is_reached() {
        let mut pace = CopyPace::new(Some(10_000), None);
        let spent_ns = simulated(&mut pace, 2_000_000, &[(100, 0); 100]);
        assert_eq!(spent_ns, SECOND_NS, "10,000 keys in a second, however much of it is work");
    }

    #[test]
    fn pause_is_not_followed_by_catch_up_burst() {
        let mut pace = CopyPace::new(Some(100), None);
        pace.begin(0);
        assert_eq!(pace.after(0, 10, 0), SECOND_NS / 10);
        let late_ns = 60 * SECOND_NS;
        assert_eq!(pace.after(late_ns, 10, 0), 0, "a copy slower than the rate does not wait");
        assert_eq!(pace.after(late_ns, 10, 0), SECOND_NS / 10, "a pause of a minute does not raise the rate");
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pace = CopyPace::new(None, None);
        assert_eq!(simulated(&mut pace, 5, &[(1 << 40, 1 << 60); 4]), 20);
        assert_eq!((pace.keys_max(512), pace.bytes_max(9)), (512, 9));
    }

    #[test]
    fn batches_are_a_twentieth_of_a_second_at_most() {
        let pace = CopyPace::new(Some(1_000), Some(1_000_000));
        assert_eq!((pace.keys_max(512), pace.bytes_max(4 << 20)), (50, 50_000));
        assert_eq!(CopyPace::new(Some(3), None).keys_max(512), 1);
    }
}
