//! Measures whether a change of a host helps. Each round measures once with and once without the change, in random
//! order.
//!
//! ```text
//!   round 1   measure without, measure with the change     the order follows from the seed, which is reported
//!   round 2   measure with, measure without the change     a measurement: request times, and kernel counters
//!     ...
//!     v
//!   ratio per round ─> confidence interval ─> verdict
//!     helped          p999 or the rate within the SLO is significantly better, neither is worse: the change stays
//!     hurt            p999 or the rate is significantly worse     \
//!     no difference   neither differs significantly                } the change is undone
//!     cannot tell     too few valid rounds                        /
//! ```
//! Invariants:
//! - A round is valid only if both of its measurements are. The report gives the reason why a round is invalid.
//! - The verdict depends only on request figures. Kernel counters explain it.
//! - A difference is significant only if its confidence interval excludes "no change".

pub mod pace;
mod show;
pub mod stats;

use std::collections::BTreeMap;

use base::prng::Prng;
use serde::{Deserialize, Serialize};

use crate::counters::Grown;
use crate::tune::SettingStep;

pub use show::{change, number, text};
pub use stats::{Interval, ROUNDS_MIN};

/// The version of the JSON format, raised when the meaning changes.
pub const VERSION: u32 = 1;
/// Minimum number of rounds when three figures are judged. With fewer rounds, one of the figures may seem significant
/// by chance.
pub const ROUNDS_MIN_LIVE: usize = 7;
/// Maximum number of rounds.
pub const ROUNDS_MAX: usize = 51;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Events per second.
    PerSecond,
    /// A share of the time, 0 to 1.
    Share,
}

/// A figure by which both sides are compared.
#[derive(Debug, PartialEq, Eq)]
pub struct Figure {
    /// The figure's name in the JSON.
    pub id: &'static str,
    /// The figure's name in the report.
    pub name: &'static str,
    /// The figure's unit.
    pub unit: Unit,
    /// True if a higher value is better.
    pub more_is_better: bool,
    /// True for a figure of requests, which is compared as a ratio. False for a kernel counter, which is compared as a
    /// difference.
    pub is_of_requests: bool,
    /// True if the verdict depends on the figure.
    pub is_judged: bool,
}

const fn of_requests(id: &'static str, name: &'static str, unit: Unit, is_judged: bool) -> Figure {
    let more_is_better = matches!(unit, Unit::PerSecond);
    Figure { id, name, unit, more_is_better, is_of_requests: true, is_judged }
}

const fn counted(id: &'static str, name: &'static str, unit: Unit) -> Figure {
    Figure { id, name, unit, more_is_better: false, is_of_requests: false, is_judged: false }
}

/// All figures, in the order in which they are reported.
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

/// Returns the figures of kernel counters by id. Figures that the kernel did not report are absent.
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

/// The measurement of one side in one round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The values by the figures' ids.
    pub figures: BTreeMap<String, f64>,
    /// The reason why the measurement does not count, if it does not.
    pub fault: Option<String>,
}

impl Measured {
    /// Returns the figures that the verdict depends on: times of whole requests, or of their parts in the server.
    pub fn judged(&self) -> impl Iterator<Item = (&'static Figure, f64)> {
        let judged = FIGURES.iter().filter(|figure| figure.is_judged);
        judged.filter_map(|figure| Some((figure, *self.figures.get(figure.id)?)))
    }
}

/// One of the two sides that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The host without the change.
    Before,
    /// The host with the change.
    Changed,
}

/// A round of measurements of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofRound {
    /// The side that was measured first.
    pub first: Side,
    /// The measurement without the change.
    pub before: Measured,
    /// The measurement with the change.
    pub changed: Measured,
}

impl ProofRound {
    /// Returns the reason why the round does not count, if it does not.
    pub fn fault(&self) -> Option<&str> {
        self.before.fault.as_deref().or(self.changed.fault.as_deref())
    }
}

/// Returns the order of the sides in round `number` (from 0), which follows from the seed.
pub fn order(seed: u64, number: u64) -> [Side; 2] {
    let both = [Side::Before, Side::Changed];
    // In each pair of rounds each side comes first once, so that neither side always runs on the warmer host.
    let coin = Prng::new(base::prng::split_mix(seed ^ (number / 2))).chance(1, 2);
    if coin == number.is_multiple_of(2) { both } else { [both[1], both[0]] }
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProofVerdict {
    /// The change is significantly better.
    Helped,
    /// The change is neither significantly better nor significantly worse.
    NoDifference,
    /// The change is significantly worse.
    Hurt,
    /// Too few rounds are valid.
    CannotTell,
}

impl ProofVerdict {
    /// Returns the verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Helped => "helped",
            Self::NoDifference => "no difference",
            Self::Hurt => "hurt",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// The subject of a comparison: the change, the host, the server and the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// The change's name: a check's id, or the caller's own settings.
    pub change: String,
    /// The mechanism by which the change costs or saves, if it is known.
    pub mechanism: Option<String>,
    /// The settings to write, if the change consists of settings.
    pub steps: Vec<SettingStep>,
    /// The host's name.
    pub host: String,
    /// The host's kernel and CPUs, in words.
    pub machine: String,
    /// The server that received the requests, in words.
    pub server: String,
    /// The load, in words.
    pub load: String,
    /// The reason for this rate, in words; empty if the traffic is the server's own.
    #[serde(default)]
    pub rate: String,
    /// The seed of the order within rounds and of the random draws for the intervals.
    pub seed: u64,
}

/// A figure of both sides, over all valid rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureRow {
    /// The figure's id.
    pub figure: String,
    /// The median without the change.
    pub before: f64,
    /// The median with the change.
    pub changed: f64,
    /// The ratio of the changed side to the unchanged one; only for figures of requests.
    pub ratio: Option<Interval>,
    /// The changed side minus the unchanged one; for all other figures.
    pub difference: Option<Interval>,
}

impl FigureRow {
    /// Returns the description of the figure.
    pub fn figure(&self) -> Option<&'static Figure> {
        FIGURES.iter().find(|figure| figure.id == self.figure)
    }

    /// Judges the figure by its interval: better, worse, or neither.
    pub fn says(&self) -> ProofVerdict {
        let (interval, same) = match (self.ratio, self.difference) {
            (Some(ratio), _) => (ratio, 1.0),
            (None, Some(difference)) => (difference, 0.0),
            (None, None) => return ProofVerdict::CannotTell,
        };
        let more_is_better = self.figure().is_some_and(|figure| figure.more_is_better);
        match (interval.low > same, interval.high < same) {
            (true, _) if more_is_better => ProofVerdict::Helped,
            (_, true) if !more_is_better => ProofVerdict::Helped,
            (true, _) | (_, true) => ProofVerdict::Hurt,
            _ => ProofVerdict::NoDifference,
        }
    }
}

/// A change with the result of its comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The format's version: [`VERSION`].
    pub version: u32,
    /// The subject of the comparison.
    pub subject: Subject,
    /// All rounds, in order.
    pub rounds: Vec<ProofRound>,
    /// The figures of the valid rounds.
    pub rows: Vec<FigureRow>,
    /// The verdict.
    pub verdict: ProofVerdict,
    /// The reason for the verdict, in a sentence.
    pub why: String,
    /// The final state of the change, in a sentence; empty until it is settled.
    pub end: String,
}

/// Judges the rounds of a comparison.
pub fn judge(subject: Subject, rounds: Vec<ProofRound>) -> Proof {
    let rows = rows(&rounds, subject.seed);
    let counted = rounds.iter().filter(|round| round.fault().is_none()).count();
    let judged: Vec<&FigureRow> =
        rows.iter().filter(|row| row.figure().is_some_and(|figure| figure.is_judged)).collect();
    let shown = |verdict: ProofVerdict| judged.iter().copied().find(|row| row.says() == verdict);
    let (verdict, why) = if counted < ROUNDS_MIN || judged.iter().all(|row| row.says() == ProofVerdict::CannotTell) {
        let fault =
            rounds.iter().find_map(ProofRound::fault).map_or(String::new(), |fault| format!(" (the first: {fault})"));
        let why =
            format!("{counted} of {} rounds count, and a verdict needs at least {ROUNDS_MIN}{fault}", rounds.len());
        (ProofVerdict::CannotTell, why)
    } else if let Some(row) = shown(ProofVerdict::Hurt) {
        (ProofVerdict::Hurt, show::sentence(row))
    } else if let Some(row) = shown(ProofVerdict::Helped) {
        (ProofVerdict::Helped, show::sentence(row))
    } else {
        let all: Vec<String> = judged.iter().map(|row| show::sentence(row)).collect();
        (ProofVerdict::NoDifference, format!("{}: the same is within", all.join("; ")))
    };
    Proof { version: VERSION, subject, rounds, rows, verdict, why, end: String::new() }
}

/// Returns a row for each figure that both sides have in every valid round.
fn rows(rounds: &[ProofRound], seed: u64) -> Vec<FigureRow> {
    let counted: Vec<&ProofRound> = rounds.iter().filter(|round| round.fault().is_none()).collect();
    let row = |figure: &Figure| {
        let side = |of: fn(&ProofRound) -> &Measured| {
            counted.iter().map(|round| of(round).figures.get(figure.id).copied()).collect::<Option<Vec<f64>>>()
        };
        let (before, changed) = (side(|round| &round.before)?, side(|round| &round.changed)?);
        // A figure that was 0 in any round has no ratio. For example, the rate within the objectives is 0 if they are
        // never met.
        let ratio = figure.is_of_requests.then(|| stats::ratio(&before, &changed, seed)).flatten();
        let difference = if ratio.is_none() { stats::difference(&before, &changed, seed) } else { None };
        let (before, changed) = (stats::median(&before)?, stats::median(&changed)?);
        Some(FigureRow { figure: figure.id.to_owned(), before, changed, ratio, difference })
    };
    FIGURES.iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests;
