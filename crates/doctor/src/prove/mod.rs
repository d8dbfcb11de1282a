//! Whether a change of a host helps: measured there, as it was and as it would be, in turn and in random order.
//!
//! ```text
//!   round 1   as it was ── measured     changed ── measured     which of the two comes first: by a seed that is told
//!   round 2   changed ── measured       as it was ── measured
//!     ...                                                        each: times of requests, and what the kernel counted
//!     v
//!   ratios round by round ─> intervals ─> verdict    helped          p999, or the rate within the SLO, better beyond
//!                                                                    doubt, and neither is worse: the change stays
//!                                                    hurt            either is worse beyond doubt      \
//!                                                    no difference   neither is shown to be either      } taken back
//!                                                    cannot tell     too few rounds count              /
//! ```
//! Invariants:
//! - A round counts whole or not at all, and one that does not count says why.
//! - The verdict is of the figures of requests alone; what the kernel counted explains it.
//! - Only an interval that excludes "the same" speaks for or against a change.

pub mod pace;
mod show;
pub mod stats;

use std::collections::BTreeMap;

use base::prng::Prng;
use serde::{Deserialize, Serialize};

use crate::counters::Grown;
use crate::tune::Step;

pub use show::{change, number, text};
pub use stats::{Interval, ROUNDS_MIN};

/// Raised when the meaning of the JSON changes.
pub const VERSION: u32 = 1;
/// Rounds that tell something where three figures are judged: of fewer one of the three may fall on one side by chance.
pub const ROUNDS_MIN_LIVE: usize = 7;
/// Rounds at most.
pub const ROUNDS_MAX: usize = 51;

/// What a figure's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// So many a second.
    PerSecond,
    /// A share of the time, 0 to 1.
    Share,
}

/// A figure that both sides are compared by.
#[derive(Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name in the JSON.
    pub id: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// What its number is.
    pub unit: Unit,
    /// More of it is better.
    pub more_is_better: bool,
    /// It is of requests, compared as a ratio; else the kernel counted it, and it is compared as a difference.
    pub is_of_requests: bool,
    /// The verdict is of it.
    pub is_judged: bool,
}

const fn of_requests(id: &'static str, name: &'static str, unit: Unit, is_judged: bool) -> Figure {
    let more_is_better = matches!(unit, Unit::PerSecond);
    Figure { id, name, unit, more_is_better, is_of_requests: true, is_judged }
}

const fn counted(id: &'static str, name: &'static str, unit: Unit) -> Figure {
    Figure { id, name, unit, more_is_better: false, is_of_requests: false, is_judged: false }
}

/// All of them, in the order in which they are told.
pub const FIGURES: [Figure; 25] = [
    of_requests("rate_within_slo_per_s", "rate within the SLO, /s", Unit::PerSecond, true),
    of_requests("p999_ns", "p999", Unit::Time, true),
    of_requests("p99_ns", "p99", Unit::Time, false),
    of_requests("p50_ns", "p50", Unit::Time, false),
    of_requests("wait_p999_ns", "p999, waiting in the server", Unit::Time, true),
    of_requests("execute_p999_ns", "p999, being executed", Unit::Time, true),
    of_requests("send_p999_ns", "p999, being sent", Unit::Time, true),
    of_requests("wait_p99_ns", "p99, waiting in the server", Unit::Time, false),
    of_requests("execute_p99_ns", "p99, being executed", Unit::Time, false),
    of_requests("send_p99_ns", "p99, being sent", Unit::Time, false),
    of_requests("answers_per_s", "answers a second", Unit::PerSecond, false),
    counted("involuntary_per_s", "taken off its CPU, /s", Unit::PerSecond),
    counted("voluntary_per_s", "went to sleep, /s", Unit::PerSecond),
    counted("moves_per_s", "moved to another CPU, /s", Unit::PerSecond),
    counted("waited_share", "ready without a CPU", Unit::Share),
    counted("throttled_share", "stopped by a quota", Unit::Share),
    counted("softirq_share", "soft interrupts, busiest CPU", Unit::Share),
    counted("steal_share", "steal, most of a CPU", Unit::Share),
    counted("pressure_cpu_share", "pressure: cpu", Unit::Share),
    counted("pressure_memory_share", "pressure: memory", Unit::Share),
    counted("pressure_io_share", "pressure: io", Unit::Share),
    counted("major_faults_per_s", "major faults, /s", Unit::PerSecond),
    counted("minor_faults_per_s", "minor faults, /s", Unit::PerSecond),
    counted("direct_reclaim_per_s", "pages of direct reclaim, /s", Unit::PerSecond),
    counted("compactions_per_s", "stalls for compaction, /s", Unit::PerSecond),
];

/// What the kernel counted, by the figures' ids; what it did not tell is not there.
pub fn counted_figures(grown: &Grown) -> BTreeMap<String, f64> {
    let pressure = |of: &str| grown.pressure.get(of).copied();
    let memory = |of: &str| grown.memory_per_s.get(of).copied();
    let figures = [
        ("involuntary_per_s", grown.sum(|thread| Some(thread.involuntary_per_s))),
        ("voluntary_per_s", grown.sum(|thread| Some(thread.voluntary_per_s))),
        ("moves_per_s", grown.sum(|thread| thread.moves_per_s)),
        ("waited_share", grown.sum(|thread| Some(thread.waited))),
        ("throttled_share", grown.throttled),
        ("softirq_share", grown.most(|cpu| cpu.softirq)),
        ("steal_share", grown.most(|cpu| cpu.steal)),
        ("pressure_cpu_share", pressure("cpu")),
        ("pressure_memory_share", pressure("memory")),
        ("pressure_io_share", pressure("io")),
        ("major_faults_per_s", grown.sum(|thread| Some(thread.major_faults_per_s))),
        ("minor_faults_per_s", grown.sum(|thread| Some(thread.minor_faults_per_s))),
        ("direct_reclaim_per_s", memory("pgscan_direct")),
        ("compactions_per_s", memory("compact_stall")),
    ];
    figures.into_iter().filter_map(|(id, value)| Some((id.to_owned(), value?))).collect()
}

/// What was measured of one side in one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// By the figures' ids.
    pub figures: BTreeMap<String, f64>,
    /// Why it does not count, if it does not.
    pub fault: Option<String>,
}

impl Measured {
    /// Its figures that the verdict is of: of whole requests, or of their parts in the server.
    pub fn judged(&self) -> impl Iterator<Item = (&'static Figure, f64)> {
        let judged = FIGURES.iter().filter(|figure| figure.is_judged);
        judged.filter_map(|figure| Some((figure, *self.figures.get(figure.id)?)))
    }
}

/// One of the two that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// As it was.
    Before,
    /// With the change.
    Changed,
}

/// A round of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Which came first.
    pub first: Side,
    /// As it was.
    pub before: Measured,
    /// With the change.
    pub changed: Measured,
}

impl Round {
    /// Why it does not count, if it does not.
    pub fn fault(&self) -> Option<&str> {
        self.before.fault.as_deref().or(self.changed.fault.as_deref())
    }
}

/// The sides in the order of round `number` (from 0), which follows from the seed.
pub fn order(seed: u64, number: u64) -> [Side; 2] {
    let both = [Side::Before, Side::Changed];
    // Of each two rounds one begins with the one and one with the other, so that neither is always on the warmer host.
    let coin = Prng::new(base::prng::split_mix(seed ^ (number / 2))).chance(1, 2);
    if coin == number.is_multiple_of(2) { both } else { [both[1], both[0]] }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better beyond doubt.
    Helped,
    /// Not shown to be either.
    NoDifference,
    /// Worse beyond doubt.
    Hurt,
    /// Too few rounds count.
    CannotTell,
}

impl Verdict {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Helped => "helped",
            Self::NoDifference => "no difference",
            Self::Hurt => "hurt",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// What is compared, on what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// The change's name: a check's id, or what was asked for.
    pub change: String,
    /// How the change costs or saves, if that is known.
    pub mechanism: Option<String>,
    /// What is written, if settings are.
    pub steps: Vec<Step>,
    /// The host's name.
    pub host: String,
    /// Its kernel and CPUs, in words.
    pub machine: String,
    /// What was asked, in words.
    pub server: String,
    /// How, in words.
    pub load: String,
    /// Why at this rate, in words; empty under traffic that is the server's own.
    #[serde(default)]
    pub rate: String,
    /// What follows the seed: the order of the rounds, and the draws of the intervals.
    pub seed: u64,
}

/// A figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The figure's id.
    pub figure: String,
    /// The median as it was.
    pub before: f64,
    /// The median with the change.
    pub changed: f64,
    /// Of figures of requests: the changed over the other.
    pub ratio: Option<Interval>,
    /// Of the others: the changed less the other.
    pub difference: Option<Interval>,
}

impl Row {
    /// The figure.
    pub fn figure(&self) -> Option<&'static Figure> {
        FIGURES.iter().find(|figure| figure.id == self.figure)
    }

    /// What its interval says: it is better, it is worse, or neither.
    pub fn says(&self) -> Verdict {
        let (interval, same) = match (self.ratio, self.difference) {
            (Some(ratio), _) => (ratio, 1.0),
            (None, Some(difference)) => (difference, 0.0),
            (None, None) => return Verdict::CannotTell,
        };
        let more_is_better = self.figure().is_some_and(|figure| figure.more_is_better);
        match (interval.low > same, interval.high < same) {
            (true, _) if more_is_better => Verdict::Helped,
            (_, true) if !more_is_better => Verdict::Helped,
            (true, _) | (_, true) => Verdict::Hurt,
            _ => Verdict::NoDifference,
        }
    }
}

/// A change with what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// [`VERSION`].
    pub version: u32,
    /// What is compared.
    pub subject: Subject,
    /// Every round, in order.
    pub rounds: Vec<Round>,
    /// The figures of the rounds that count.
    pub rows: Vec<Row>,
    /// What came of it.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub why: String,
    /// What became of the change, in a sentence; empty until it is settled.
    pub end: String,
}

/// Judges rounds.
pub fn judge(subject: Subject, rounds: Vec<Round>) -> Proof {
    let rows = rows(&rounds, subject.seed);
    let counted = rounds.iter().filter(|round| round.fault().is_none()).count();
    let judged: Vec<&Row> = rows.iter().filter(|row| row.figure().is_some_and(|figure| figure.is_judged)).collect();
    let shown = |verdict: Verdict| judged.iter().copied().find(|row| row.says() == verdict);
    let (verdict, why) = if counted < ROUNDS_MIN || judged.iter().all(|row| row.says() == Verdict::CannotTell) {
        let fault =
            rounds.iter().find_map(Round::fault).map_or(String::new(), |fault| format!(" (the first: {fault})"));
        let why = format!(
            "{counted} of {} rounds count, and {ROUNDS_MIN} are the least that tell anything{fault}",
            rounds.len()
        );
        (Verdict::CannotTell, why)
    } else if let Some(row) = shown(Verdict::Hurt) {
        (Verdict::Hurt, show::sentence(row))
    } else if let Some(row) = shown(Verdict::Helped) {
        (Verdict::Helped, show::sentence(row))
    } else {
        let all: Vec<String> = judged.iter().map(|row| show::sentence(row)).collect();
        (Verdict::NoDifference, format!("{}: the same is within", all.join("; ")))
    };
    Proof { version: VERSION, subject, rounds, rows, verdict, why, end: String::new() }
}

/// A row for each figure that both sides of every round that counts have.
fn rows(rounds: &[Round], seed: u64) -> Vec<Row> {
    let counted: Vec<&Round> = rounds.iter().filter(|round| round.fault().is_none()).collect();
    let row = |figure: &Figure| {
        let side = |of: fn(&Round) -> &Measured| {
            counted.iter().map(|round| of(round).figures.get(figure.id).copied()).collect::<Option<Vec<f64>>>()
        };
        let (before, changed) = (side(|round| &round.before)?, side(|round| &round.changed)?);
        // Of what was 0 once, as the rate within objectives that are never kept, there is no ratio.
        let ratio = figure.is_of_requests.then(|| stats::ratio(&before, &changed, seed)).flatten();
        let difference = if ratio.is_none() { stats::difference(&before, &changed, seed) } else { None };
        let (before, changed) = (stats::median(&before)?, stats::median(&changed)?);
        Some(Row { figure: figure.id.to_owned(), before, changed, ratio, difference })
    };
    FIGURES.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests;
