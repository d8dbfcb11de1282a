//! The result of a lab, as data and as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use page::words::{duration, grouped};
use serde::Serialize;

use super::catalogue::Lab;
use super::phases::{compare, mean};
use super::scene::Scene;
use super::tally::TimeTally;
use crate::check::Finding;
use crate::host::read_at;
use crate::prove::{Interval, ROUNDS_MIN};

/// The version of the JSON format, raised when the meaning changes.
const VERSION: u32 = 1;

/// A period in which one setting was in force.
#[derive(Clone, Debug, Serialize)]
pub struct LabPhase {
    /// The setting, as an index into the outcome's list.
    pub setting: usize,
    /// The number of the phase's round.
    pub round: u32,
    /// The start of the phase, in seconds since the lab began.
    pub begun_s: f64,
    /// The measured figures, by names that end with their unit.
    pub figures: BTreeMap<String, f64>,
    /// The measured times, from which the figures are computed.
    #[serde(skip)]
    pub tally: TimeTally,
}

impl LabPhase {
    /// Creates a phase without figures.
    pub fn begin(setting: usize, round: u32, begun_s: f64) -> Self {
        Self { setting, round, begun_s, figures: BTreeMap::new(), tally: TimeTally::default() }
    }

    /// Stores measured times, and the figures computed from them.
    pub fn take(&mut self, tally: TimeTally) {
        for (name, share) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0)] {
            self.figures.insert(name.to_owned(), tally.at(share) as f64 / 1e3);
        }
        self.figures.insert("count".to_owned(), tally.count() as f64);
        self.tally = tally;
    }
}

/// The difference of a figure between two settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The figure's name.
    pub figure: String,
    /// The baseline setting, as an index.
    pub a: usize,
    /// The compared setting, as an index.
    pub b: usize,
    /// The mean over the rounds under `a`.
    pub mean_a: f64,
    /// The mean over the rounds under `b`.
    pub mean_b: f64,
    /// The lower end of the 95 % interval of the mean difference `b - a`.
    pub low: f64,
    /// The upper end of the same interval.
    pub high: f64,
    /// Number of rounds.
    pub pairs: usize,
}

impl Compared {
    /// Returns whether the interval excludes 0.
    pub fn is_clear(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Returns whether the whole interval is above 0: the figure is higher under `b`.
    pub fn is_higher(&self) -> bool {
        self.low > 0.0
    }
}

/// A figure under one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The figure's name.
    pub figure: String,
    /// The setting.
    pub setting: usize,
    /// The mean over the rounds, with the 95 % interval of the true mean.
    #[serde(flatten)]
    pub interval: Interval,
    /// Number of rounds.
    pub rounds: usize,
}

/// A figure over time.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// `chart/line`, or one name for both the chart and its single line.
    pub name: String,
    /// The unit of its values.
    pub unit: &'static str,
    /// The points: seconds since the lab began, and the value.
    pub points: Vec<(f64, f64)>,
}

/// The result of a lab.
#[derive(Clone, Debug, Serialize)]
pub struct LabOutcome {
    /// The format's version: [`VERSION`].
    pub version: u32,
    /// The lab's name.
    pub lab: &'static str,
    /// The kernel's version.
    pub kernel: String,
    /// The start of the lab, in ms since the Unix epoch.
    pub started_at_unix_ms: u64,
    /// The mechanism that the lab demonstrates.
    pub mechanism: &'static str,
    /// True if the mechanism was shown: the intervals of the decisive differences exclude 0.
    pub is_shown: bool,
    /// One sentence that says what was shown, or was not.
    pub headline: String,
    /// The settings' names. The others are compared with the first.
    pub settings: Vec<String>,
    /// The phases, in the order in which they took place.
    pub phases: Vec<LabPhase>,
    /// Each figure under each setting.
    pub means: Vec<Mean>,
    /// The differences between settings.
    pub compared: Vec<Compared>,
    /// The findings of the lab's checks during the lab.
    pub findings: Vec<Finding>,
    /// Other figures over time.
    pub timelines: Vec<Timeline>,
    /// Notes for the reader, one or more sentences each.
    pub notes: Vec<String>,
}

impl LabOutcome {
    /// Builds the outcome of these phases. Each of `figures` is compared between the first setting and every other one.
    pub(super) fn of(lab: Lab, scene: &Scene<'_>, settings: &[&str], figures: &[&str], phases: Vec<LabPhase>) -> Self {
        let seed = scene.wanted.seed;
        let compared = figures
            .iter()
            .flat_map(|figure| (1..settings.len()).map(move |setting| (figure, setting)))
            .filter_map(|(figure, setting)| compare(&phases, figure, 0, setting, seed))
            .collect();
        let means = figures
            .iter()
            .flat_map(|figure| (0..settings.len()).map(move |setting| (*figure, setting)))
            .filter_map(|(figure, setting)| mean(&phases, figure, setting, seed))
            .collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut notes = Vec::new();
        if (scene.wanted.rounds as usize) < ROUNDS_MIN {
            notes.push(format!("An interval needs at least {ROUNDS_MIN} rounds, so this run shows nothing."));
        }
        Self {
            version: VERSION,
            lab: lab.entry().name,
            kernel: read_at("/proc/sys/kernel/osrelease".as_ref(), "").unwrap_or_else(|_| "unknown".to_owned()),
            started_at_unix_ms: now.saturating_sub(scene.begun.elapsed()).as_millis() as u64,
            mechanism: lab.entry().mechanism,
            is_shown: false,
            headline: String::new(),
            settings: settings.iter().map(|name| (*name).to_owned()).collect(),
            phases,
            means,
            compared,
            findings: Vec::new(),
            timelines: Vec::new(),
            notes,
        }
    }

    /// Returns the difference of a figure under a setting from the first setting; `None` if there are too few rounds.
    pub(super) fn against_first(&self, figure: &str, setting: usize) -> Option<&Compared> {
        self.compared.iter().find(|compared| compared.figure == figure && compared.b == setting)
    }

    /// Returns the times of all phases of a setting.
    pub fn tally_of(&self, setting: usize) -> TimeTally {
        let mut all = TimeTally::default();
        self.phases.iter().filter(|phase| phase.setting == setting).for_each(|phase| all.add(&phase.tally));
        all
    }

    /// Returns the outcome as JSON, with a line end.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("an outcome is plain JSON") + "\n"
    }

    /// Formats the outcome for a terminal.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.headline);
        let wide = self.settings.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        for (at, name) in self.settings.iter().enumerate() {
            let tally = self.tally_of(at);
            let times = ["p50", "p99", "p999", "max"].into_iter().zip([0.5, 0.99, 0.999, 1.0]);
            let times: Vec<String> =
                times.map(|(name, share)| format!("{name} {:>8}", duration(tally.at(share) as f64))).collect();
            let _ = writeln!(text, "{name:<wide$}  {}  of {}", times.join("  "), grouped(tally.count() as f64));
        }
        for compared in &self.compared {
            let _ = writeln!(text, "\n{}", self.sentence(compared));
        }
        for finding in &self.findings {
            let _ = writeln!(text, "\ncheck {}: {} ({})", finding.id, finding.verdict.text(), finding.value);
        }
        for note in &self.notes {
            let _ = writeln!(text, "\n{note}");
        }
        text
    }

    /// Formats a difference in one line.
    pub fn sentence(&self, compared: &Compared) -> String {
        let show = |value: f64| shown(&compared.figure, value);
        format!(
            "{}: {} with {}, {} with {}; difference {} to {} (95 %, {} rounds){}",
            compared.figure,
            show(compared.mean_b),
            self.settings[compared.b],
            show(compared.mean_a),
            self.settings[compared.a],
            show(compared.low),
            show(compared.high),
            compared.pairs,
            if compared.is_clear() { "" } else { ": no clear difference" }
        )
    }
}

/// Formats a figure's value with the unit at the end of the figure's name.
pub fn shown(figure: &str, value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let scaled = |ns: f64| format!("{sign}{}", duration(value.abs() * ns));
    match figure.rsplit('_').next() {
        Some("ns") => scaled(1.0),
        Some("us") => scaled(1e3),
        Some("ms") => scaled(1e6),
        Some("s") if figure.ends_with("_per_s") => format!("{}/s", grouped(value)),
        Some("kib") => format!("{} KiB", grouped(value)),
        Some("mib") => format!("{} MiB", grouped(value)),
        Some("percent") => format!("{} %", grouped(value)),
        _ => grouped(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shown_in_its_figures_unit() {
        let all =
            [("p99_us", 1500.0), ("p99_us", -20.0), ("throttled_ms", 60.0), ("read_kib", 12.5), ("faults_per_s", 1e4)];
        let shown = all.map(|(figure, value)| shown(figure, value));
        assert_eq!(shown, ["1.5 ms", "-20 us", "60 ms", "12.5 KiB", "10,000/s"]);
    }
}
