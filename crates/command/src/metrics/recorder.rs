//! The recorded latencies of one worker, and the totals of all workers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base::clock::UnixMillis;
use segment::Namespace;

use super::command::{Command, Part};
use super::counters::Counter;
use super::histogram::{BucketCounts, Histogram};
use super::slow::{SlowLine, SlowRequest, SlowRing};
use super::slow_client::SlowClient;

const SERIES: usize = Command::ALL.len() * Part::ALL.len();

/// The number of series of the kinds that metrics show as another kind. They follow the other series.
const PLAIN_SERIES: usize = Command::PLAIN.len() * Part::ALL.len();

/// The number of namespaces that have histograms: all except the default namespace.
const SPACES: usize = Namespace::MAX - 1;

fn space(namespace: Namespace, part: Part) -> usize {
    (usize::from(namespace.0) - 1) * Part::ALL.len() + part as usize
}

const fn series(command: Command, part: Part) -> usize {
    command as usize * Part::ALL.len() + part as usize
}

/// The histograms of one worker, and its latest slow requests. There is a histogram for each command and part, and for
/// each namespace and part. Together, the histograms take about 900 KiB of address space. Memory is used only for
/// histograms that have counted a request.
#[derive(Debug)]
pub struct Recorder {
    histograms: Box<[Histogram]>,
    /// The histograms of all commands together, for each namespace and part. The default namespace has no histograms.
    /// Its counts are computed as the total minus the counts of the other namespaces.
    spaces: Box<[Histogram]>,
    /// For each command, the sum of the times by which the execution times of requests that were executed together
    /// exceed the time of all of them, because each of them counts the time of all.
    excess_ns: [Counter; Command::ALL.len() + Command::PLAIN.len()],
    slow_above_ns: AtomicU64,
    slow: SlowRing,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Creates an empty recorder and allocates all its memory. It records no slow requests until a threshold is set.
    pub fn new() -> Self {
        let histograms = (0..SERIES + PLAIN_SERIES).map(|_| Histogram::default()).collect();
        let spaces = (0..SPACES * Part::ALL.len()).map(|_| Histogram::default()).collect();
        Self {
            histograms,
            spaces,
            excess_ns: std::array::from_fn(|_| Counter::default()),
            slow_above_ns: AtomicU64::new(u64::MAX),
            slow: SlowRing::default(),
        }
    }

    /// Sets the threshold for slow requests, in ns. A request is recorded as slow if the sum of its parts exceeds the
    /// threshold. With `None`, no request is slow. Any thread may call this function.
    pub fn set_slow_above_ns(&self, ns: Option<u64>) {
        self.slow_above_ns.store(ns.unwrap_or(u64::MAX), Relaxed);
    }

    /// Returns the threshold of [`Recorder::set_slow_above_ns`], in ns; `u64::MAX` if no threshold is set.
    #[inline]
    pub fn slow_above_ns(&self) -> u64 {
        self.slow_above_ns.load(Relaxed)
    }

    /// Counts `count` requests, each with these times. Returns true if the requests were slow. The caller must then
    /// pass one of them to [`Recorder::record_slow`]. Only the thread that owns the recorder may call this function. If
    /// another thread calls it, counts may be lost.
    #[inline]
    #[must_use]
    pub fn record(&self, command: Command, count: u32, [wait_ns, execute_ns, send_ns]: [u64; 3]) -> bool {
        self.histograms[series(command, Part::Wait)].record(wait_ns, count);
        self.histograms[series(command, Part::Execute)].record(execute_ns, count);
        self.histograms[series(command, Part::Send)].record(send_ns, count);
        if count > 1 {
            self.excess_ns[command as usize].add(execute_ns.wrapping_mul(u64::from(count - 1)));
        }
        wait_ns.saturating_add(execute_ns).saturating_add(send_ns) > self.slow_above_ns.load(Relaxed)
    }

    /// Counts `count` requests of a namespace, each with these times. Only the thread that owns the recorder may call
    /// this function.
    #[inline]
    pub fn record_in(&self, namespace: u8, count: u32, parts_ns: [u64; 3]) {
        if namespace != Namespace::DEFAULT.0 {
            for (part, ns) in Part::ALL.into_iter().zip(parts_ns) {
                self.spaces[space(Namespace(namespace), part)].record(ns, count);
            }
        }
    }

    /// Counts a request in a namespace. The request's reply is sent together with later replies, so it has no send time
    /// of its own. Returns true if the request was slow. Only the thread that owns the recorder may call this function.
    #[must_use]
    pub fn record_unsent(&self, command: Command, namespace: u8, [wait_ns, execute_ns]: [u64; 2]) -> bool {
        for (part, ns) in [(Part::Wait, wait_ns), (Part::Execute, execute_ns)] {
            self.histograms[series(command, part)].record(ns, 1);
            if namespace != Namespace::DEFAULT.0 {
                self.spaces[space(Namespace(namespace), part)].record(ns, 1);
            }
        }
        wait_ns.saturating_add(execute_ns) > self.slow_above_ns.load(Relaxed)
    }

    /// Records a slow request with its three times. Only the thread that owns the recorder may call this function.
    #[cold]
    pub fn record_slow(
        &self,
        command: Command,
        (client, line): (SlowClient, SlowLine),
        [wait_ns, execute_ns, send_ns]: [u64; 3],
    ) {
        let at = UnixMillis::now();
        self.slow.push(&SlowRequest { at, number: 0, worker: 0, command, line, client, wait_ns, execute_ns, send_ns });
    }

    /// Adds the execution times of one kind of [`Command::PLAIN`] to `times`. Of requests that were executed together,
    /// the sum of the times contains the time of all only once.
    pub fn add_plain(&self, command: Command, times: &mut BucketCounts) {
        times.add(&self.histograms[series(command, Part::Execute)]);
        times.sum_ns = times.sum_ns.wrapping_sub(self.excess_ns[command as usize].value());
    }

    /// Returns the latest slow requests.
    pub fn slow(&self) -> &SlowRing {
        &self.slow
    }
}

/// The latency counts of all workers at one instant, by command and [`Part`] of a request's time, and by namespace and
/// [`Part`].
#[derive(Clone, Debug)]
pub struct Totals {
    counts: Box<[BucketCounts]>,
    spaces: Box<[BucketCounts]>,
}

impl Default for Totals {
    fn default() -> Self {
        let empty = |series| (0..series).map(|_| BucketCounts::default()).collect();
        Self { counts: empty(SERIES), spaces: empty(SPACES * Part::ALL.len()) }
    }
}

impl Totals {
    /// Reads `recorders`, and returns the sums of their counts.
    pub fn read<'r>(recorders: impl IntoIterator<Item = &'r Recorder>) -> Self {
        let mut totals = Self::default();
        for recorder in recorders {
            for (counts, histogram) in totals.counts.iter_mut().zip(&recorder.histograms) {
                counts.add(histogram);
            }
            for command in Command::PLAIN {
                for part in Part::ALL {
                    totals.counts[series(command.shown(), part)].add(&recorder.histograms[series(command, part)]);
                }
            }
            for (counts, histogram) in totals.spaces.iter_mut().zip(&recorder.spaces) {
                counts.add(histogram);
            }
        }
        totals
    }

    /// Returns the counts of a part of one command.
    pub fn of(&self, command: Command, part: Part) -> &BucketCounts {
        &self.counts[series(command, part)]
    }

    /// Returns the counts of a part for all operations of a namespace. For the default namespace, `max_ns` is
    /// approximate: it is the upper end of the highest bucket with a count.
    pub fn of_namespace(&self, namespace: Namespace, part: Part) -> BucketCounts {
        if namespace != Namespace::DEFAULT {
            return self.spaces[space(namespace, part)].clone();
        }
        let mut all = BucketCounts::default();
        Command::ALL.into_iter().for_each(|command| all.join(self.of(command, part)));
        let mut others = BucketCounts::default();
        (1..Namespace::MAX as u8).for_each(|other| others.join(&self.spaces[space(Namespace(other), part)]));
        all.since(&others)
    }

    /// Returns the increase of each count since `earlier` was read.
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |now: &[BucketCounts], then: &[BucketCounts]| {
            now.iter().zip(then).map(|(now, then)| now.since(then)).collect()
        };
        Self { counts: since(&self.counts, &earlier.counts), spaces: since(&self.spaces, &earlier.spaces) }
    }

    /// Returns the commands that were executed at least once.
    pub fn commands(&self) -> impl Iterator<Item = Command> + '_ {
        Command::ALL.into_iter().filter(|command| self.of(*command, Part::Execute).count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_commands_do_not_mix_and_workers_add_up() {
        let recorders = [Recorder::new(), Recorder::new()];
        for (recorder, command, [wait, execute, send]) in [
            (&recorders[0], Command::Get, [10, 20, 30]),
            (&recorders[1], Command::Get, [11, 21, 31]),
            (&recorders[1], Command::Set, [7, 8, 9]),
        ] {
            assert!(!recorder.record(command, 1, [wait, execute, send]), "nothing is slow without a threshold");
        }
        let totals = Totals::read(&recorders);
        let parts = |command| Part::ALL.map(|part| (totals.of(command, part).count, totals.of(command, part).sum_ns));
        assert_eq!(parts(Command::Get), [(2, 21), (2, 41), (2, 61)]);
        assert_eq!(parts(Command::Set), [(1, 7), (1, 8), (1, 9)]);
        assert_eq!(parts(Command::Delete), [(0, 0); 3]);
        assert_eq!(totals.commands().collect::<Vec<_>>(), [Command::Get, Command::Set]);
    }

    #[test]
    fn plain_requests_count_under_the_kind_that_metrics_show() {
        let recorder = Recorder::new();
        assert!(!recorder.record(Command::Get, 1, [1, 20, 3]));
        assert!(!recorder.record(Command::PlainGet, 2, [1, 30, 3]));
        recorder.record_slow(Command::PlainGet, <(SlowClient, SlowLine)>::default(), [1, 2, 3]);
        let totals = Totals::read([&recorder]);
        let mut plain = BucketCounts::default();
        recorder.add_plain(Command::PlainGet, &mut plain);
        assert_eq!((totals.of(Command::Get, Part::Execute).count, plain.count, plain.sum_ns), (3, 2, 30));
        assert_eq!(totals.commands().collect::<Vec<_>>(), [Command::Get]);
        assert_eq!(recorder.slow().read(0)[0].command, Command::Get);
    }

    #[test]
    fn unsent_requests_record_wait_and_execute_times_and_may_be_slow() {
        let recorder = Recorder::new();
        assert!(!recorder.record_unsent(Command::Get, 3, [10, 20]));
        recorder.set_slow_above_ns(Some(29));
        assert!(recorder.record_unsent(Command::Get, 0, [10, 20]));
        let totals = Totals::read([&recorder]);
        assert_eq!(Part::ALL.map(|part| totals.of(Command::Get, part).count), [2, 2, 0]);
        for namespace in [Namespace(0), Namespace(3)] {
            assert_eq!(Part::ALL.map(|part| totals.of_namespace(namespace, part).count), [1, 1, 0]);
        }
    }

    #[test]
    fn only_requests_above_the_threshold_are_slow_and_it_can_change() {
        let recorder = Recorder::new();
        assert!(!recorder.record(Command::Get, 1, [u64::MAX / 2, u64::MAX / 2, 9]));
        recorder.set_slow_above_ns(Some(1_000));
        assert!(!recorder.record(Command::Get, 1, [500, 300, 200]));
        assert!(recorder.record(Command::Set, 1, [500, 300, 201]));
        assert!(recorder.record(Command::Set, 1, [u64::MAX, 300, 201]), "the sum does not wrap");
        recorder.record_slow(Command::Set, (SlowClient::default(), SlowLine::of(b"set k 0 0 1\r\n")), [500, 300, 201]);
        recorder.set_slow_above_ns(None);
        assert!(!recorder.record(Command::Get, 1, [5_000, 0, 0]));
        let kept = recorder.slow().read(3);
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!((kept[0].command, kept[0].line.to_string().as_str()), (Command::Set, "set k 0 0 1"));
        assert_eq!((kept[0].worker, kept[0].total_ns()), (3, 1_001));
    }
}
