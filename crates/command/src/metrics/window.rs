//! The latencies of the last minute. Recorders are read every ten seconds, so that there is always a reading that is
//! about one minute old.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::recorder::Totals;

/// The interval between two readings.
pub const STEP: Duration = Duration::from_secs(10);
/// The length of the window.
pub const WINDOW: Duration = Duration::from_secs(60);
const READINGS_MAX: usize = (WINDOW.as_secs() / STEP.as_secs()) as usize + 1;

/// The readings of the last minute. There are at most seven.
#[derive(Debug)]
pub struct Window {
    readings: VecDeque<(Instant, Totals)>,
}

impl Window {
    /// Creates a window that begins at `now` with zero counts.
    pub fn new(now: Instant) -> Self {
        let mut readings = VecDeque::with_capacity(READINGS_MAX);
        readings.push_back((now, Totals::default()));
        Self { readings }
    }

    /// Returns the instant at which the next reading is due.
    pub fn due(&self) -> Instant {
        self.readings.back().expect("a window always has a reading").0 + STEP
    }

    /// Records a reading that was taken at `now`. If the window is full, replaces the oldest reading.
    pub fn push(&mut self, now: Instant, totals: Totals) {
        if self.readings.len() == READINGS_MAX {
            self.readings.pop_front();
        }
        self.readings.push_back((now, totals));
    }

    /// Returns the counts of the last minute before `now`, and the length of the period that they actually cover. This
    /// is 60 to 70 s, or the time since the start if that is shorter. `totals` are the counts from the start until
    /// `now`.
    pub fn last_minute(&self, now: Instant, totals: &Totals) -> (Duration, Totals) {
        let old_enough = |(at, _): &&(Instant, Totals)| now.duration_since(*at) >= WINDOW;
        let from = self.readings.iter().rev().find(old_enough).or(self.readings.front());
        let (at, earlier) = from.expect("a window always has a reading");
        (now.duration_since(*at), totals.since(earlier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Command, Part, Recorder};

    #[test]
    fn readings_older_than_a_minute_leave_the_window() {
        let (recorder, start) = (Recorder::new(), Instant::now());
        let mut window = Window::new(start);
        let mut seen = Vec::new();
        for second in 0..200u64 {
            let now = start + Duration::from_secs(second);
            let _ = recorder.record(Command::Get, 1, [1, 1, 1]);
            let totals = Totals::read([&recorder]);
            let (length, minute) = window.last_minute(now, &totals);
            let count = minute.of(Command::Get, Part::Wait).count;
            if second < 60 {
                assert_eq!((length.as_secs(), count), (second, second + 1));
            } else {
                assert!((60..=70).contains(&length.as_secs()) && count.abs_diff(length.as_secs()) <= 1, "{length:?}");
            }
            seen.push(count);
            if now >= window.due() {
                window.push(now, totals);
            }
            assert!(window.readings.len() <= READINGS_MAX);
        }
        assert!(seen.iter().all(|count| *count <= 71));
    }
}
