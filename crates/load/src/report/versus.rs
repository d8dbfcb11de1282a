//! Compares two servers in alternating rounds, with the ratios of each round and an interval for each ratio.
//!
//! A round runs both sides within a few seconds of each other, so that disturbances of the machine affect both. Only
//! rounds count in which the generator was the bottleneck on neither side. The report shows the ratio of the sides'
//! medians, and an interval between two of the rounds' ratios at equal distances from the ends, widened to contain that
//! ratio. The interval misses the true ratio only if nearly all rounds are on one side of it by chance. The probability
//! is that of coin tosses (sign test).
//!
//! A rate that a search could not bound from above is a lower bound, and so is its ratio. Two lower bounds have no
//! ratio.

use std::fmt::Write;

use super::{compare, tables};
use crate::result::RunResult;
use crate::result::from_run;
use crate::result::searched::SearchResult;
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
    /// The medians of the first and of the second side.
    pub medians: (f64, f64),
    /// The second median divided by the first.
    pub value: f64,
    /// The interval around the ratio.
    pub interval: (f64, f64),
    /// Probability that the interval contains the true ratio, 0 to 1.
    pub confidence: f64,
}

/// Returns the median of `values`, which are not empty.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// Returns the ratio of the medians of the rounds' pairs, and its interval; `None` if no pair has a ratio.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let pairs: Vec<(f64, f64)> = pairs.iter().copied().filter(|(a, b)| (b / a).is_finite()).collect();
    let mut sorted: Vec<f64> = pairs.iter().map(|(a, b)| b / a).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    if count == 0 {
        return None;
    }
    let medians =
        (median(pairs.iter().map(|pair| pair.0).collect()), median(pairs.iter().map(|pair| pair.1).collect()));
    let value = medians.1 / medians.0;
    // The ends are `inside` positions from the extremes. The interval misses the true median if at most `inside` of the
    // rounds are on one side of it.
    let confidence = |inside: usize| 1.0 - 2.0 * binomial_at_most(count, inside);
    let inside = (0..count.div_ceil(2)).rev().find(|inside| confidence(*inside) >= CONFIDENCE_MIN).unwrap_or(0);
    let interval = (sorted[inside].min(value), sorted[count - 1 - inside].max(value));
    Some(Ratio { medians, value, interval, confidence: confidence(inside).max(0.0) })
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
    /// Returns whether the figure of a round is only a lower bound.
    is_bound: fn(&VersusRound) -> bool,
}

const FIGURES: [Figure; 7] = [
    Figure {
        is_bound: |round| round.result.search.as_ref().is_some_and(SearchResult::is_lower_bound),
        ..Figure::new("rate within the objectives, /s", true, grouped, |round| {
            round.result.search.as_ref()?.answer_per_s
        })
    },
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
        Self { name, more_is_better, show, of, is_bound: |_| false }
    }
}

/// The rounds that count.
type Pairs<'r> = Vec<(&'r VersusRound, &'r VersusRound)>;

/// Returns the rounds in which the generator was the bottleneck on neither side.
fn sound<'r>(a: &'r [VersusRound], b: &'r [VersusRound]) -> Pairs<'r> {
    a.iter().zip(b).filter(|(a, b)| a.result.invalid.is_none() && b.result.invalid.is_none()).collect()
}

/// Returns the reason why the rounds give no verdict, if they give none.
pub fn no_verdict(a: &[VersusRound], b: &[VersusRound]) -> Option<String> {
    let pairs = sound(a, b);
    let of = |round: &VersusRound, is: fn(&SearchResult) -> bool| round.result.search.as_ref().is_some_and(is);
    if pairs.is_empty() {
        let limited = |rounds: &[VersusRound]| rounds.iter().any(|round| round.result.invalid.is_some());
        let sides = match (limited(a), limited(b)) {
            (true, true) => "a or b",
            (true, false) => "a",
            (false, true) => "b",
            (false, false) => return Some("no round was completed".to_owned()),
        };
        return Some(format!("the generator was the bottleneck in every round, with {sides}"));
    }
    let all = |is: fn(&SearchResult) -> bool| pairs.iter().all(|(a, b)| of(a, is) && of(b, is));
    if !all(SearchResult::is_lower_bound) {
        return None;
    }
    let cause = match all(SearchResult::is_generator_limited) {
        true => "the generator was the bottleneck on both sides",
        false => "both sides met the objectives at the highest rate that was tried (raise --rate-max)",
    };
    Some(format!("{cause}, so that both rates are only lower bounds"))
}

/// Formats the figure's row: its name, both medians, the ratio with its interval, and the side that is better.
fn row(figure: &Figure, pairs: &Pairs<'_>, is_judged: bool) -> Option<Vec<String>> {
    let both = |(a, b): &(&VersusRound, &VersusRound)| Some(((figure.of)(a)?, (figure.of)(b)?));
    let Ratio { medians, value, interval: (from, to), confidence } =
        ratio(&pairs.iter().filter_map(both).collect::<Vec<_>>())?;
    let (a_bound, b_bound) =
        (pairs.iter().any(|pair| (figure.is_bound)(pair.0)), pairs.iter().any(|pair| (figure.is_bound)(pair.1)));
    let side = |median: f64, is_bound: bool| format!("{}{}", if is_bound { ">= " } else { "" }, (figure.show)(median));
    let percent = confidence * 100.0;
    let (ratio, interval) = match (a_bound, b_bound) {
        (false, false) => (format!("x {value:.3}"), format!("{from:.3} to {to:.3} ({percent:.0} %)")),
        (false, true) => (format!(">= x {value:.3}"), format!("from {from:.3} ({percent:.0} %)")),
        (true, false) => (format!("<= x {value:.3}"), format!("up to {to:.3} ({percent:.0} %)")),
        (true, true) => ("-".to_owned(), "-".to_owned()),
    };
    // The true ratio may be above the ratio of a lower bound of b, and below that of a lower bound of a.
    let (is_above, is_below) = (from > 1.0 && !a_bound, to < 1.0 && !b_bound);
    let better = match (is_above, is_below) {
        _ if !is_judged || (a_bound && b_bound) => "no verdict",
        // With 2 rounds, a coin would name a winner in half of all comparisons.
        _ if confidence < CONFIDENCE_MIN => "too few rounds",
        (true, _) if figure.more_is_better => "b",
        (_, true) if !figure.more_is_better => "b",
        (true, _) | (_, true) => "a",
        _ => "no significant difference",
    };
    let cells = [side(medians.0, a_bound), side(medians.1, b_bound), ratio, interval, better.to_owned()];
    Some(std::iter::once(figure.name.to_owned()).chain(cells).collect())
}

/// Returns the rows of the comparison.
fn rows(a: &[VersusRound], b: &[VersusRound]) -> Vec<Vec<String>> {
    let (pairs, is_judged) = (sound(a, b), no_verdict(a, b).is_none());
    FIGURES.iter().filter_map(|figure| row(figure, &pairs, is_judged)).collect()
}

const HEADS: [&str; 6] = ["median of the rounds", "a", "b", "b / a", "interval", "better"];

/// Returns the comparison as text.
pub fn text(a: &[VersusRound], b: &[VersusRound]) -> String {
    let mut out = String::new();
    if let Some(why) = no_verdict(a, b) {
        let _ = writeln!(out, "no verdict: {why}");
    }
    for warning in warnings(a, b) {
        let _ = writeln!(out, "careful: {warning}");
    }
    let rows = rows(a, b);
    let heads = (!rows.is_empty()).then(|| HEADS.map(str::to_owned).to_vec());
    for row in heads.into_iter().chain(rows) {
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
            let (all, what) = (rounds.len(), "the generator was the bottleneck");
            warnings.push(format!("{what} in {invalid} of {all} rounds of {side}; these rounds do not count"));
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

/// Returns a sentence with the figures in which a and b differ significantly, or the reason why there is no verdict.
fn headline(rows: &[Vec<String>], no_verdict: Option<String>) -> String {
    if let Some(why) = no_verdict {
        return format!("no verdict: {why}");
    }
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
    let headline = escape(&headline(&rows, no_verdict(a, b)));
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
        let of = |ratios: &[f64]| ratio(&ratios.iter().map(|ratio| (1.0, *ratio)).collect::<Vec<_>>());
        let found = of(&[1.5, 1.1, 1.2, 1.3, 1.4, 1.6, 1.7]).unwrap();
        // In 7 coin tosses, no heads have a probability of 1/128, for a confidence of 98.4 %. At most one head has
        // 8/128, for 87.5 %, which is below the minimum.
        assert_eq!((found.value, found.interval), (1.4, (1.1, 1.7)));
        assert!((found.confidence - (1.0 - 2.0 / 128.0)).abs() < 1e-12);
        let nine = of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]).unwrap();
        assert_eq!(nine.interval, (2.0, 8.0));
        assert_eq!(of(&[2.0]).unwrap().confidence, 0.0);
        assert_eq!(of(&[f64::NAN]), None);
    }

    #[test]
    fn few_rounds_name_no_winner_however_far_apart_the_sides_are() {
        let (slow, fast) = (searched("", 1_000.0), searched("", 9_000.0));
        for (rounds, better) in [(1, "too few rounds"), (4, "too few rounds"), (5, "b")] {
            let rows = rows(&slow[..rounds], &fast[..rounds]);
            let row = rows.iter().find(|row| row[3] == "x 9.000").expect("the ratio of the answers");
            assert_eq!(row[5], better, "{rounds} rounds");
        }
    }

    #[test]
    fn printed_ratio_is_that_of_the_printed_medians() {
        for pairs in [&[(100.0, 110.0), (200.0, 190.0)][..], &[(10.0, 40.0), (20.0, 5.0), (30.0, 31.0)]] {
            let found = ratio(pairs).unwrap();
            assert_eq!(found.value, found.medians.1 / found.medians.0);
            assert!(found.interval.0 <= found.value && found.value <= found.interval.1, "{found:?}");
        }
    }

    /// Returns rounds of a search with this end and answer.
    fn searched(end: &str, answer_per_s: f64) -> Vec<VersusRound> {
        let mut result = sample(1);
        let search = result.search.as_mut().unwrap();
        (search.end, search.answer_per_s) = (end.to_owned(), Some(answer_per_s));
        vec![VersusRound { result, server_cpu_ns: None }; 5]
    }

    #[test]
    fn generator_limited_rates_are_bounds_and_two_of_them_give_no_verdict() {
        let (found, bound) = (searched("found", 1000.0), searched("generator limited", 2000.0));
        let line = |a, b| text(a, b).lines().find(|line| line.starts_with("rate within")).unwrap().to_owned();
        let shown = line(&found, &bound);
        assert!(shown.contains(">= 2,000") && shown.contains(">= x 2.000") && shown.ends_with(" b"), "{shown}");
        let shown = line(&bound, &searched("found", 3000.0));
        assert!(shown.contains("<= x 1.500") && shown.ends_with("no significant difference"), "{shown}");
        assert_eq!(no_verdict(&found, &bound), None);
        assert!(no_verdict(&bound, &bound).unwrap().contains("the generator was the bottleneck on both sides"));
        let at_max = searched("kept at max", 2000.0);
        assert!(no_verdict(&at_max, &at_max).unwrap().contains("raise --rate-max"));
        assert!(no_verdict(&at_max, &bound).unwrap().contains("raise --rate-max"));
        assert_eq!((no_verdict(&at_max, &found), no_verdict(&found, &at_max)), (None, None));
        let shown = text(&bound, &bound);
        assert!(shown.starts_with("no verdict: ") && !shown.contains("no significant"), "{shown}");
        assert!(html(&bound, &bound, ["x", "y"]).contains("<h1>no verdict: the generator"));
    }

    #[test]
    fn rounds_that_the_generator_limited_do_not_count() {
        let mut a = searched("found", 1000.0);
        let b = searched("found", 1500.0);
        a[0].result.search.as_mut().unwrap().answer_per_s = Some(9.0);
        a[0].result.invalid = Some("GENERATOR LIMITED: late".to_owned());
        let shown = text(&a, &b);
        assert!(
            shown.contains("in 1 of 5 rounds of a; these rounds do not count") && shown.contains("x 1.500"),
            "{shown}"
        );
        a.iter_mut().for_each(|round| round.result.invalid = Some("GENERATOR LIMITED: late".to_owned()));
        assert_eq!(no_verdict(&a, &b).unwrap(), "the generator was the bottleneck in every round, with a");
        assert!(text(&a, &a).starts_with("no verdict: ") && !text(&a, &a).contains("b / a"));
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
