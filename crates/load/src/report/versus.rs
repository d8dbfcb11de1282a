//! Compares two servers in alternating rounds, with the ratios of each round and an interval for each ratio.
//!
//! A round runs both sides within a few seconds of each other, so that disturbances of the machine affect both. The
//! report shows the median of the rounds' ratios and an interval between two ratios at equal distances from the ends.
//! The interval misses the true median only if nearly all rounds are on one side of it by chance. The probability is
//! that of coin tosses (sign test).

use std::fmt::Write;

use super::{compare, tables};
use crate::result::RunResult;
use crate::result::from_run;
use page::words::{duration, grouped};
use page::{escape, section, whole};

/// Highest number of rounds.
pub const ROUNDS_MAX: u32 = 101;
/// Minimum confidence of an interval, if there are enough rounds.
const CONFIDENCE_MIN: f64 = 0.9;

/// The measurements of one side in one round.
#[derive(Clone, Debug, PartialEq)]
pub struct VersusRound {
    /// The result of the load run.
    pub result: RunResult,
    /// CPU time of the server per request, in nanoseconds.
    pub server_cpu_ns: Option<f64>,
}

/// A ratio of the second side to the first, over all rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The median of the ratios.
    pub median: f64,
    /// The interval around the median.
    pub interval: (f64, f64),
    /// Probability that the interval contains the true median, 0 to 1.
    pub confidence: f64,
}

/// Returns the median and interval of `ratios`; `None` if there are no ratios.
pub fn ratio(ratios: &[f64]) -> Option<Ratio> {
    let mut sorted: Vec<f64> = ratios.iter().copied().filter(|ratio| ratio.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    if count == 0 {
        return None;
    }
    let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
    // The ends are `inside` positions from the extremes. The interval misses the true median if at most `inside` of the
    // rounds are on one side of it.
    let confidence = |inside: usize| 1.0 - 2.0 * binomial_at_most(count, inside);
    let inside = (0..count.div_ceil(2)).rev().find(|inside| confidence(*inside) >= CONFIDENCE_MIN).unwrap_or(0);
    let interval = (sorted[inside], sorted[count - 1 - inside]);
    Some(Ratio { median, interval, confidence: confidence(inside).max(0.0) })
}

/// Returns the probability of at most `most` heads in `count` coin tosses.
fn binomial_at_most(count: usize, most: usize) -> f64 {
    let (mut term, mut sum) = (0.5f64.powi(count as i32), 0.0);
    for heads in 0..=most.min(count) {
        sum += term;
        term *= (count - heads) as f64 / (heads + 1) as f64;
    }
    sum
}

/// A figure by which two sides are compared.
struct Figure {
    name: &'static str,
    more_is_better: bool,
    show: fn(f64) -> String,
    of: fn(&VersusRound) -> Option<f64>,
}

const FIGURES: [Figure; 7] = [
    Figure::new("rate within the objectives, /s", true, grouped, |round| round.result.search.as_ref()?.answer_per_s),
    Figure::new("replies per second", true, grouped, |round| Some(round.result.figures.achieved_per_s)),
    Figure::new("server CPU per request", false, duration, |round| round.server_cpu_ns),
    Figure::new("p50", false, duration, |round| Some(round.result.figures.response.p50_ns as f64)),
    Figure::new("p99", false, duration, |round| Some(round.result.figures.response.p99_ns as f64)),
    Figure::new("p999", false, duration, |round| Some(round.result.figures.response.p999_ns as f64)),
    Figure::new("max", false, duration, |round| Some(round.result.figures.response.max_ns as f64)),
];

impl Figure {
    const fn new(
        name: &'static str,
        more_is_better: bool,
        show: fn(f64) -> String,
        of: fn(&VersusRound) -> Option<f64>,
    ) -> Self {
        Self { name, more_is_better, show, of }
    }
}

/// Returns the rows of the comparison: the figure, both medians, the ratio, and the side that is better.
fn rows(a: &[VersusRound], b: &[VersusRound]) -> Vec<Vec<String>> {
    let row = |figure: &Figure| {
        let pairs: Vec<(f64, f64)> =
            a.iter().zip(b).filter_map(|(a, b)| Some(((figure.of)(a)?, (figure.of)(b)?))).collect();
        let ratio = ratio(&pairs.iter().map(|(a, b)| b / a).collect::<Vec<_>>())?;
        let median = |side: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = pairs.iter().map(side).collect();
            values.sort_by(f64::total_cmp);
            (figure.show)(values[values.len() / 2])
        };
        let (from, to) = ratio.interval;
        let better = match (from > 1.0, to < 1.0) {
            (true, _) if figure.more_is_better => "b",
            (_, true) if !figure.more_is_better => "b",
            (true, _) | (_, true) => "a",
            _ => "no significant difference",
        };
        Some(vec![
            figure.name.to_owned(),
            median(|pair| pair.0),
            median(|pair| pair.1),
            format!("x {:.3}", ratio.median),
            format!("{from:.3} to {to:.3} ({:.0} %)", ratio.confidence * 100.0),
            better.to_owned(),
        ])
    };
    FIGURES.iter().filter_map(row).collect()
}

const HEADS: [&str; 6] = ["median of the rounds", "a", "b", "b / a", "interval", "better"];

/// Returns the comparison as text.
pub fn text(a: &[VersusRound], b: &[VersusRound]) -> String {
    let mut out = String::new();
    for warning in warnings(a, b) {
        let _ = writeln!(out, "careful: {warning}");
    }
    for row in std::iter::once(HEADS.map(str::to_owned).to_vec()).chain(rows(a, b)) {
        let _ = write!(out, "{:<32}{:>14}{:>14}{:>10}{:>28}  {}", row[0], row[1], row[2], row[3], row[4], row[5]);
        out.push('\n');
    }
    out
}

/// Returns warnings about rounds that are invalid or partial.
fn warnings(a: &[VersusRound], b: &[VersusRound]) -> Vec<String> {
    let mut warnings = Vec::new();
    for (side, rounds) in [("a", a), ("b", b)] {
        let invalid = rounds.iter().filter(|round| round.result.invalid.is_some()).count();
        if invalid > 0 {
            warnings
                .push(format!("the generator was the bottleneck in {invalid} of {} rounds of {side}", rounds.len()));
        }
        let partial = rounds.iter().filter(|round| round.result.partial.is_some()).count();
        if partial > 0 {
            warnings.push(format!("{partial} of {} rounds of {side} ended early", rounds.len()));
        }
    }
    warnings
}

/// Combines each side's rounds into one result.
pub fn sides(a: &[VersusRound], b: &[VersusRound]) -> Vec<RunResult> {
    [("a", a), ("b", b)]
        .into_iter()
        .filter_map(|(name, rounds)| {
            let results: Vec<&RunResult> = rounds.iter().map(|round| &round.result).collect();
            let mut joined = from_run::results_together(&results)?;
            joined.name = name.to_owned();
            Some(joined)
        })
        .collect()
}

/// Returns a sentence with the figures in which a and b differ significantly.
fn headline(rows: &[Vec<String>]) -> String {
    let shown = rows.iter().filter(|row| row[5] == "a" || row[5] == "b");
    let shown: Vec<String> = shown.map(|row| format!("{} {}", row[0].trim_end_matches(", /s"), row[3])).collect();
    match shown.is_empty() {
        true => "no significant difference between a and b".to_owned(),
        false => format!("b against a: {}", shown.join(", ")),
    }
}

/// Returns the comparison as an HTML page.
pub fn html(a: &[VersusRound], b: &[VersusRound], commands: [&str; 2]) -> String {
    let (rows, warnings) = (rows(a, b), warnings(a, b));
    let class = if warnings.is_empty() { "" } else { " warn" };
    let headline = escape(&headline(&rows));
    let table: Vec<_> = rows.into_iter().map(|row| ("", row)).collect();
    let mut body = format!("<div class=\"card verdict{class}\"><div class=\"what\">versus</div><h1>{headline}</h1>");
    for (side, command) in ["a", "b"].iter().zip(commands) {
        let _ = write!(body, "<p><b>{side}:</b> {}</p>", escape(command));
    }
    for warning in warnings {
        let _ = write!(body, "<p class=\"bad-text\"><b>Careful:</b> {}.</p>", escape(&warning));
    }
    body.push_str("</div>");
    section(
        &mut body,
        &format!("{} rounds of both sides, alternating", a.len().min(b.len())),
        &tables::table(&HEADS, &table),
    );
    body.push_str("<h2>All rounds of a side together</h2>");
    body.push_str(&compare::side_by_side(&sides(a, b)));
    whole("a versus b", &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::sample;

    #[test]
    fn seven_rounds_give_the_interval_that_the_sign_test_allows() {
        let found = ratio(&[1.5, 1.1, 1.2, 1.3, 1.4, 1.6, 1.7]).unwrap();
        // In 7 coin tosses, no heads have a probability of 1/128, for a confidence of 98.4 %. At most one head has
        // 8/128, for 87.5 %, which is below the minimum.
        assert_eq!((found.median, found.interval), (1.4, (1.1, 1.7)));
        assert!((found.confidence - (1.0 - 2.0 / 128.0)).abs() < 1e-12);
        let nine = ratio(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]).unwrap();
        assert_eq!(nine.interval, (2.0, 8.0));
        assert_eq!(ratio(&[2.0]).unwrap().confidence, 0.0);
        assert_eq!(ratio(&[f64::NAN]), None);
    }

    #[test]
    fn difference_is_reported_only_if_significant() {
        let rounds = |scale: u64, cpu: [f64; 5]| -> Vec<VersusRound> {
            cpu.map(|ns| VersusRound { result: sample(scale), server_cpu_ns: Some(ns) }).to_vec()
        };
        let (a, b) = (rounds(2, [10.0, 11.0, 12.0, 9.0, 10.0]), rounds(1, [10.5, 10.0, 12.5, 9.5, 9.0]));
        let lines = text(&a, &b);
        let line = |name: &str| lines.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        assert!(line("p99 ").contains("x 0.50") && line("p99 ").ends_with(" b"), "{lines}");
        assert!(line("server CPU").ends_with("no significant difference"), "{lines}");
        let page = html(&a, &b, ["one", "two & more"]);
        assert!(page.contains("<h1>b against a: p50 x 0.5"), "the verdict is first");
        assert!(page.contains("two &amp; more") && page.contains("5 rounds of both"));
        let sides = sides(&a, &b);
        assert_eq!(sides[0].figures.counts.due, 5 * 10_000);
    }
}
