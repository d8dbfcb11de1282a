//! The lines that the benchmarks print during a run: one line per interval, followed by the interval's table of
//! latencies.
//!
//! ```text
//!   Java      2014-08-21 12:00:01.000 write(tps=5120 timeouts=0 errors=0) read(...) total(...)
//!   asbench   2014-08-21 12:00:01.000 INFO write(tps=5120 timeouts=0 errors=0) read(...) total(...)
//!   of -w I   Java: write(count=10240 tps=5120 timeouts=0 errors=0)   asbench: write(tps=5120 .. total=10240)
//! ```

use std::collections::BTreeMap;

use super::latency::{LatencyTable, READS, Tps, shown, tps_line};
use super::{Aerospike, Form};
use crate::measure::{Fate, Histogram, VerbCounts};

/// Formats the live figures of a run as the benchmarks' lines.
#[derive(Debug)]
pub struct Intervals {
    form: Form,
    table: Option<LatencyTable>,
    inserts: bool,
    period_ns: u64,
    /// For each verb, true if it reads.
    reads: Vec<bool>,
    printed: Vec<VerbCounts>,
    printed_ns: u64,
    written: u64,
}

/// The writes or the reads of an interval.
#[derive(Default)]
struct IntervalFigures {
    tps: Tps,
    answered: u64,
    times: Histogram,
}

impl Intervals {
    /// Creates the lines of the run `asked`, one line every `period_ns` nanoseconds. `verbs` are the verbs of the
    /// traffic.
    pub fn new(asked: &Aerospike, verbs: &[String], period_ns: u64) -> Self {
        Self {
            form: asked.form,
            table: asked.latency,
            inserts: asked.inserts,
            period_ns,
            reads: verbs.iter().map(|verb| READS.contains(&verb.as_str())).collect(),
            printed: Vec::new(),
            printed_ns: 0,
            written: 0,
        }
    }

    /// Returns the lines of the interval that ends at `covered_ns`, if the interval is long enough or is the `last`.
    /// `verbs` has the counts since the start. `unix_ms` is the time of day.
    pub fn lines(&mut self, verbs: &[VerbCounts], covered_ns: u64, unix_ms: u64, last: bool) -> Option<String> {
        let length_ns = covered_ns.saturating_sub(self.printed_ns);
        if length_ns == 0 || length_ns < self.period_ns && !last {
            return None;
        }
        let mut kinds = [IntervalFigures::default(), IntervalFigures::default()];
        for (at, now) in verbs.iter().enumerate() {
            let before = self.printed.get(at).cloned().unwrap_or_default();
            let kind = &mut kinds[usize::from(self.reads.get(at).copied().unwrap_or(false))];
            for fate in Fate::ALL {
                let count = now.ended[fate as usize] - before.ended[fate as usize];
                match fate {
                    Fate::Lost | Fate::Unsent => kind.tps.timeouts += count,
                    Fate::Error | Fate::Wrong => {
                        (kind.tps.errors, kind.answered) = (kind.tps.errors + count, kind.answered + count)
                    }
                    Fate::Hit | Fate::Miss | Fate::Partial => kind.answered += count,
                }
            }
            let mut since: BTreeMap<u64, u64> = now.response.classes().collect();
            for (ns, count) in before.response.classes() {
                since.entry(ns).and_modify(|all| *all -= count);
            }
            since.into_iter().filter(|(_, count)| *count > 0).for_each(|(ns, count)| kind.times.record_n(ns, count));
        }
        for kind in &mut kinds {
            kind.tps.per_s = (kind.answered as f64 * 1e9 / length_ns as f64).round() as u64;
        }
        (self.printed, self.printed_ns) = (verbs.to_vec(), covered_ns);
        self.written += kinds[0].answered;
        Some(self.text(&kinds, unix_ms))
    }

    fn text(&self, [write, read]: &[IntervalFigures; 2], unix_ms: u64) -> String {
        let info = if self.form == Form::Asbench { "INFO " } else { "" };
        let Tps { per_s, timeouts, errors } = write.tps;
        let printed = match (self.inserts, self.form) {
            (false, _) => tps_line(&[("write", write.tps), ("read", read.tps)]),
            (true, Form::Java) => {
                format!("write(count={} tps={per_s} timeouts={timeouts} errors={errors})", self.written)
            }
            (true, Form::Asbench) => {
                format!("{} total={})", shown("write", &write.tps).trim_end_matches(')'), self.written)
            }
        };
        let mut text = format!("{} {info}{printed}\n", time_of(unix_ms));
        if let Some(table) = self.table {
            let reads = (!self.inserts).then(|| table.row("read", &read.times));
            let rows = [Some(table.header()), Some(table.row("write", &write.times)), reads];
            for row in rows.into_iter().flatten().filter(|row| !row.is_empty()) {
                text.push_str(&row);
                text.push('\n');
            }
        }
        text
    }
}

/// Formats a time of day as `2014-08-21 12:00:01.000`, in UTC.
fn time_of(unix_ms: u64) -> String {
    const DAYS_400_YEARS: u64 = 146_097;
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    // A year that begins in March ends with the leap day. Day 0 of the count is 1 March of the year 0.
    let days = days + 719_468;
    let (era, day) = (days / DAYS_400_YEARS, days % DAYS_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = 400 * era + year + u64::from(month <= 2);
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}.{:03}", ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn counts(hits: u64, errors: u64, lost: u64, ns: u64) -> VerbCounts {
        let mut counts = VerbCounts::default();
        counts.ended[Fate::Hit as usize] = hits;
        counts.ended[Fate::Error as usize] = errors;
        counts.ended[Fate::Lost as usize] = lost;
        counts.response.record_n(ns, hits + errors + lost);
        counts
    }

    fn intervals(text: &str) -> Intervals {
        let asked = Aerospike::read(&super::super::super::flags::words(text), None, 4).unwrap();
        Intervals::new(&asked, &["hset", "hgetall"].map(str::to_owned), S)
    }

    #[test]
    fn interval_lines_count_only_since_previous_interval() {
        let mut lines = intervals("-p 1 -w RU,50 -latency 3,1");
        assert_eq!(lines.lines(&[counts(1, 0, 0, 1), counts(0, 0, 0, 1)], S / 2, 0, false), None);
        let first = lines.lines(&[counts(10, 0, 0, 500_000), counts(30, 0, 2, 500_000)], S, 0, false).unwrap();
        let expected = "1970-01-01 00:00:00.000 write(tps=10 timeouts=0 errors=0) read(tps=30 timeouts=2 errors=0) \
                        total(tps=40 timeouts=2 errors=0)\n        <=1ms  >1ms  >2ms\n\
                        write    100%    0%    0%\nread     100%    0%    0%\n";
        assert_eq!(first, expected);
        let mut reads = counts(30, 0, 2, 500_000);
        reads.ended[Fate::Hit as usize] += 60;
        reads.response.record_n(1_500_000, 60);
        let second = lines.lines(&[counts(10, 0, 0, 500_000), reads], 3 * S, 0, false).unwrap();
        assert!(second.contains("write(tps=0 ") && second.contains("read(tps=30 timeouts=0"), "{second}");
        assert!(
            second.contains("read       0%  100%    0%"),
            "only the requests since the previous interval: {second}"
        );
        assert_eq!(lines.lines(&[], 3 * S, 0, true), None, "no interval since the last lines");
    }

    #[test]
    fn the_last_interval_may_be_short_and_inserts_count_up() {
        let verbs = |hits| [counts(hits, 1, 0, 1000)];
        let mut java = intervals("-p 1 -w I -b 2");
        let printed = java.lines(&verbs(99), S, 1_408_622_401_002, false).unwrap();
        assert_eq!(printed, "2014-08-21 12:00:01.002 write(count=100 tps=100 timeouts=0 errors=1)\n");
        let printed = java.lines(&verbs(199), S + S / 2, 0, true).unwrap();
        assert!(printed.ends_with("write(count=200 tps=200 timeouts=0 errors=0)\n"), "{printed}");
        let mut asbench = intervals("-p 1 -w I -o S10");
        let printed = asbench.lines(&verbs(99), S, 0, false).unwrap();
        assert!(printed.ends_with(" INFO write(tps=100 timeouts=0 errors=1 total=100)\n"), "{printed}");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (unix_s, expected) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_799, "2000-02-29 23:59:59"),
            (1_704_067_199, "2023-12-31 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(time_of(unix_s * 1000), format!("{expected}.000"));
        }
    }
}
