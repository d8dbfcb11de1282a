//! Statistics of Redis commands by name, and of error replies by code. Each worker has its own counters, and a reader
//! sums those of all workers.
//!
//! Plain requests (`GET` and `SET` without options) are not counted here, because they are executed in runs. The
//! histograms of [`super::Recorder`] count them.

use super::counters::Counter;
use super::histogram::{BucketCounts, CoarseHistogram};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of different codes of error replies that a worker counts. Scripts may return any code: errors with
/// further codes count as `ERR`.
const CODES_MAX: usize = 128;
/// The maximum length of a code. Redis does not look for a longer one either.
const CODE_BYTES_MAX: usize = 32;
/// The code of errors without one.
const ERR: &[u8] = b"ERR";

/// Numbers of error replies by their code.
pub type ErrorCounts = BTreeMap<Box<[u8]>, u64>;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request was executed. Its reply is not an error.
    Done,
    /// The request was executed. Its reply is an error.
    Failed,
    /// The request was refused before its execution.
    Rejected,
}

/// The statistics of one command on one worker.
#[derive(Debug, Default)]
struct CommandRow {
    /// The execution times of all requests except the rejected ones.
    times: CoarseHistogram,
    failed: Counter,
    rejected: Counter,
}

/// The statistics of all Redis commands on one worker. Only that worker writes them.
#[derive(Debug)]
pub struct CommandStats {
    rows: Box<[CommandRow]>,
    errors: Mutex<ErrorCounts>,
}

impl CommandStats {
    /// Creates the statistics of `commands` commands.
    pub fn new(commands: usize) -> Self {
        let rows = (0..commands).map(|_| CommandRow::default()).collect();
        Self { rows, errors: Default::default() }
    }

    /// Counts a request of the command with this number. `ns` is its execution time.
    #[inline]
    pub fn record(&self, number: usize, outcome: Outcome, ns: u64) {
        match outcome {
            Outcome::Done => self.rows[number].times.record(ns),
            Outcome::Failed | Outcome::Rejected => self.record_error_reply(number, outcome, ns),
        }
    }

    #[cold]
    fn record_error_reply(&self, number: usize, outcome: Outcome, ns: u64) {
        let row = &self.rows[number];
        if outcome == Outcome::Rejected {
            return row.rejected.add(1);
        }
        row.failed.add(1);
        row.times.record(ns);
    }

    /// Counts a failed request of the command with this number whose execution is counted elsewhere.
    #[cold]
    pub fn record_failure(&self, number: usize) {
        self.rows[number].failed.add(1);
    }

    /// Counts an error reply. `line` begins with the error's code.
    #[cold]
    pub fn record_error(&self, line: &[u8]) {
        let code = line.split(|byte| matches!(byte, b' ' | b'\r' | b'\n')).next().unwrap_or_default();
        let mut errors = self.errors();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
            return;
        }
        let is_new = (1..=CODE_BYTES_MAX).contains(&code.len()) && errors.len() < CODES_MAX;
        *errors.entry(if is_new { code.into() } else { ERR.into() }).or_default() += 1;
    }

    /// Locks the numbers of error replies.
    fn errors(&self) -> MutexGuard<'_, ErrorCounts> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The statistics of one command, summed over all workers.
#[derive(Clone, Debug, Default)]
pub struct CommandSums {
    /// The execution times of all requests except the rejected ones.
    pub times: BucketCounts,
    /// The number of executed requests whose reply was an error.
    pub failed: u64,
    /// The number of requests that were refused before their execution.
    pub rejected: u64,
}

/// The statistics of all commands, summed over all workers.
#[derive(Clone, Debug, Default)]
pub struct StatsSums {
    /// The sums of each command, by its number. Empty before the first reading.
    pub commands: Vec<CommandSums>,
    /// The number of error replies with each code.
    pub errors: ErrorCounts,
}

impl StatsSums {
    /// Reads the statistics of all workers, and returns their sums.
    pub fn read<'s>(workers: impl IntoIterator<Item = &'s CommandStats>) -> Self {
        let mut sums = Self::default();
        for stats in workers {
            sums.commands.resize_with(stats.rows.len(), CommandSums::default);
            for (sum, row) in sums.commands.iter_mut().zip(&stats.rows) {
                sum.times.add_coarse(&row.times);
                sum.failed += row.failed.value();
                sum.rejected += row.rejected.value();
            }
            for (code, count) in &*stats.errors() {
                *sums.errors.entry(code.clone()).or_default() += count;
            }
        }
        sums
    }

    /// Returns the increase since `earlier` was read.
    pub fn since(&self, earlier: &Self) -> Self {
        let none = CommandSums::default();
        let commands = self.commands.iter().enumerate().map(|(number, now)| {
            let then = earlier.commands.get(number).unwrap_or(&none);
            CommandSums {
                times: now.times.since(&then.times),
                failed: now.failed - then.failed,
                rejected: now.rejected - then.rejected,
            }
        });
        let errors = self.errors.iter().map(|(code, now)| (code.clone(), now - earlier.errors.get(code).unwrap_or(&0)));
        Self { commands: commands.collect(), errors: errors.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_requests_have_no_times_and_sums_count_from_an_earlier_reading() {
        let workers = [CommandStats::new(2), CommandStats::new(2)];
        workers[0].record(1, Outcome::Done, 1_000);
        workers[1].record(1, Outcome::Failed, 3_000);
        workers[1].record(1, Outcome::Rejected, 5_000);
        let before = StatsSums::read(&workers);
        let row = &before.commands[1];
        assert_eq!((row.times.count, row.times.sum_ns, row.failed, row.rejected), (2, 4_000, 1, 1));
        assert_eq!(before.commands[0].times.count, 0);
        workers[0].record(1, Outcome::Done, 7_000);
        workers[0].record_failure(0);
        workers[0].record_error(b"WRONGTYPE Operation\r\n");
        workers[0].record_error(b"SOMETHING else\r\n");
        workers[1].record_error(b"\r\n");
        let since = StatsSums::read(&workers).since(&before);
        let row = &since.commands[1];
        assert_eq!((row.times.count, row.times.sum_ns, row.failed, row.rejected), (1, 7_000, 0, 0));
        let errors: Vec<(&[u8], u64)> = since.errors.iter().map(|(code, count)| (&code[..], *count)).collect();
        assert_eq!(since.commands[0].failed, 1);
        assert_eq!(errors, [(&b"ERR"[..], 1), (b"SOMETHING", 1), (b"WRONGTYPE", 1)]);
    }

    #[test]
    fn scripts_that_invent_error_codes_take_no_memory_without_end() {
        let stats = CommandStats::new(1);
        (0..1000).for_each(|n| stats.record_error(format!("CODE{n} x\r\n").as_bytes()));
        stats.record_error(&[b'X'; 1000]);
        let sums = StatsSums::read([&stats]);
        assert_eq!((sums.errors.len(), sums.errors.values().sum::<u64>()), (CODES_MAX + 1, 1001));
        assert!(sums.errors.keys().all(|code| code.len() <= CODE_BYTES_MAX));
    }
}
