//! The table of latencies that Aerospike's benchmarks print, computed from a histogram.
//!
//! ```text
//!        <=1ms  >1ms  >2ms  >4ms  >8ms
//! read     99%    1%    1%    0%    0%
//! ```
//!
//! `5,1` means five columns, each with twice the limit of the previous one (`5,3`: eight times). The first column
//! counts requests that took at most one unit. Each other column counts requests that took longer than its limit, so
//! the columns do not add up. Percentages are rounded.

use std::fmt::Write as _;

use crate::measure::Histogram;
use crate::result::Figures;

/// The arguments of `-latency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyTable {
    columns: u32,
    shift: u32,
    /// Length of one unit in nanoseconds, and the unit's name.
    unit: (u64, &'static str),
    style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Columns,
    Ycsb,
}

/// Highest number of columns.
const COLUMNS_MAX: u32 = 32;
/// Largest number of bits of a limit, so that a histogram can represent the largest limit.
const LIMIT_BITS_MAX: u32 = 30;

const REMEDY: &str = "write COLUMNS,SHIFT as in 7,1, optionally with a unit after it (7,1,us), or alt, before it, or \
                      ycsb";

impl LatencyTable {
    /// Parses `7,1`, `7,1,us`, `alt,7,1` or `ycsb`.
    ///
    /// # Errors
    /// A text that says what to write instead.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        let mut words: Vec<&str> = text.split(',').map(str::trim).collect();
        if words[0] == "alt" {
            words.remove(0);
        }
        let (ms, us) = ((1_000_000, "ms"), (1_000, "us"));
        if words == ["ycsb"] {
            return Ok(Self { columns: 2, shift: 1, unit: us, style: Style::Ycsb });
        }
        let (columns, shift, unit) = match *words.as_slice() {
            [columns, shift] | [columns, shift, "ms"] => (columns, shift, ms),
            [columns, shift, "us"] => (columns, shift, us),
            _ => return Err(REMEDY),
        };
        let columns = columns.parse().ok().filter(|columns| (2..=COLUMNS_MAX).contains(columns)).ok_or(REMEDY)?;
        let shift = shift.parse().ok().filter(|shift| (1..=LIMIT_BITS_MAX).contains(shift)).ok_or(REMEDY)?;
        if (columns - 2) * shift > LIMIT_BITS_MAX {
            return Err("use fewer columns or a smaller shift: the last limit is beyond any latency");
        }
        Ok(Self { columns, shift, unit, style: Style::Columns })
    }

    /// Returns the column headings with the lower end of each column's range, in nanoseconds.
    fn limits(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let (unit_ns, unit) = self.unit;
        (1..self.columns).map(move |column| {
            let limit = 1u64 << ((column - 1) * self.shift);
            (format!(">{limit}{unit}"), limit * unit_ns)
        })
    }

    /// Returns the line above the rows; empty with `ycsb`, whose rows contain labels.
    pub fn header(&self) -> String {
        if self.style == Style::Ycsb {
            return String::new();
        }
        let mut line = format!("{:6} {:>6}", "", format!("<=1{}", self.unit.1));
        for (head, _) in self.limits() {
            write!(line, " {:>width$}", head, width = head.len().max(5)).expect("writing to a string does not fail");
        }
        line
    }

    /// Returns the row of the operations `name`, or several rows with `ycsb`.
    pub fn row(&self, name: &str, times: &Histogram) -> String {
        if self.style == Style::Ycsb {
            return ycsb(&name.to_uppercase(), times);
        }
        let percent = |share: f64| format!("{:.0}%", share * 100.0);
        let mut line = format!("{name:6} {:>6}", percent(times.share_within(self.unit.0)));
        for (head, limit_ns) in self.limits() {
            let longer = 1.0 - times.share_within(limit_ns);
            write!(line, " {:>width$}", percent(longer), width = head.len().max(5))
                .expect("writing to a string does not fail");
        }
        line
    }
}

fn ycsb(name: &str, times: &Histogram) -> String {
    let us = |ns: f64| ns / 1_000.0;
    let mut lines = format!("[{name}], Operations, {}", times.count());
    let facts = [
        ("AverageLatency(us)", us(times.mean_ns())),
        ("MinLatency(us)", us(times.min_ns() as f64)),
        ("MaxLatency(us)", us(times.max_ns() as f64)),
        ("95thPercentileLatency(us)", us(times.quantile_ns(0.95) as f64)),
        ("99thPercentileLatency(us)", us(times.quantile_ns(0.99) as f64)),
    ];
    for (fact, value) in facts {
        write!(lines, "\n[{name}], {fact}, {value:.1}").expect("writing to a string does not fail");
    }
    lines
}

/// The operations of one kind in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tps {
    /// Operations per second.
    pub per_s: u64,
    /// Number of operations of the interval that timed out.
    pub timeouts: u64,
    /// Number of operations of the interval that got an error as reply.
    pub errors: u64,
}

/// Formats one kind of operations within a line.
pub(super) fn shown(name: &str, tps: &Tps) -> String {
    format!("{name}(tps={} timeouts={} errors={})", tps.per_s, tps.timeouts, tps.errors)
}

/// Formats the line of one interval: `write(tps=... timeouts=... errors=...) read(...) total(...)`.
pub fn tps_line(operations: &[(&str, Tps)]) -> String {
    let mut total = Tps::default();
    let mut line = String::new();
    for (name, tps) in operations {
        total.per_s += tps.per_s;
        total.timeouts += tps.timeouts;
        total.errors += tps.errors;
        line.push_str(&shown(name, tps));
        line.push(' ');
    }
    line + &shown("total", &total)
}

/// Returns the benchmark's output for a whole run: a line of its operations with their rates, followed by `table`. The
/// verbs' names decide whether they count as reads or writes.
pub fn printed(figures: &Figures, table: Option<LatencyTable>) -> String {
    let of = |reads: bool| {
        let (mut tps, mut times, mut answered) = (Tps::default(), Histogram::new(), 0);
        for group in figures.verbs.iter().filter(|group| READS.contains(&group.name.as_str()) == reads) {
            match group.outcome.as_str() {
                "lost" | "unsent" => tps.timeouts += group.response.count,
                "error" | "wrong" => tps.errors += group.response.count,
                _ => {}
            }
            if matches!(group.outcome.as_str(), "lost" | "unsent") {
                continue;
            }
            answered += group.response.count;
            for bucket in group.response.histogram().iter().flat_map(|histogram| histogram.iter_recorded()) {
                times.record_n(bucket.value_iterated_to(), bucket.count_at_value());
            }
        }
        tps.per_s = (answered as f64 / figures.duration_s.max(1e-9)) as u64;
        (tps, times)
    };
    let ((writes, write_times), (reads, read_times)) = (of(false), of(true));
    let mut lines = tps_line(&[("write", writes), ("read", reads)]);
    lines.push('\n');
    if let Some(table) = table {
        for line in [table.header(), table.row("write", &write_times), table.row("read", &read_times)] {
            if !line.is_empty() {
                lines.push_str(&line);
                lines.push('\n');
            }
        }
    }
    lines
}

/// Names of the verbs that read.
pub(super) const READS: [&str; 3] = ["hget", "hmget", "hgetall"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_columns_count_times_above_their_limit() {
        let mut times = Histogram::new();
        times.record_n(500_000, 90);
        times.record_n(1_500_000, 6);
        times.record_n(3_000_000, 3);
        times.record_n(100_000_000, 1);
        let table = LatencyTable::read("5,1").unwrap();
        let shown =
            format!("{}\n{}\n{}", table.header(), table.row("read", &times), table.row("write", &Histogram::new()));
        let expected = "        <=1ms  >1ms  >2ms  >4ms  >8ms\n\
                        read      90%   10%    4%    1%    1%\n\
                        write    100%    0%    0%    0%    0%";
        assert_eq!(shown, expected);
    }

    #[test]
    fn latency_limits_scale_by_shift_and_use_the_unit() {
        assert!(LatencyTable::read("4,3,us").unwrap().header().ends_with(" >1us  >8us >64us"));
        assert_eq!(LatencyTable::read("alt,7,1"), LatencyTable::read("7,1,ms"));
        for text in ["", "7", "7,0", "1,1", "33,1", "7,1,s", "x,1", "7,1,ms,x", "32,2", "ycsb,1"] {
            assert!(LatencyTable::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ycsb_lines_have_the_counts_and_percentiles() {
        let mut times = Histogram::new();
        times.record_n(250_000, 10);
        let table = LatencyTable::read("ycsb").unwrap();
        let rows = table.row("read", &times);
        assert!(table.header().is_empty());
        assert!(
            rows.starts_with("[READ], Operations, 10\n[READ], AverageLatency(us), 250.") && rows.lines().count() == 6
        );
    }

    #[test]
    fn the_line_of_an_interval_adds_up() {
        let tps = |per_s, timeouts, errors| Tps { per_s, timeouts, errors };
        let line = tps_line(&[("write", tps(10, 1, 0)), ("read", tps(90, 0, 2))]);
        let expected = "write(tps=10 timeouts=1 errors=0) read(tps=90 timeouts=0 errors=2) \
                        total(tps=100 timeouts=1 errors=2)";
        assert_eq!(line, expected);
    }

    #[test]
    fn whole_run_latency_is_grouped_by_operation() {
        let group = |name: &str, outcome: &str, ns: u64, count: u64| {
            let mut times = Histogram::new();
            times.record_n(ns, count);
            crate::result::Group {
                name: name.to_owned(),
                outcome: outcome.to_owned(),
                response: crate::result::Latencies::of(times.as_hdr()),
                ..Default::default()
            }
        };
        let verbs = vec![
            group("hset", "hit", 500_000, 100),
            group("hgetall", "hit", 500_000, 90),
            group("hgetall", "miss", 1_500_000, 10),
            group("hget", "error", 1_500_000, 100),
            group("raw", "lost", 9_000_000, 3),
        ];
        let figures = Figures { duration_s: 2.0, verbs, ..Figures::default() };
        let expected = "write(tps=50 timeouts=3 errors=0) read(tps=100 timeouts=0 errors=100) \
                        total(tps=150 timeouts=3 errors=100)\n";
        assert_eq!(printed(&figures, None), expected);
        let table = printed(&figures, Some(LatencyTable::read("3,1").unwrap()));
        let lines: Vec<&str> = table.lines().skip(1).collect();
        assert_eq!(
            lines,
            ["        <=1ms  >1ms  >2ms", "write    100%    0%    0%", "read      45%   55%    0%"],
            "{table}"
        );
    }
}
