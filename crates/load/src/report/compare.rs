//! Compares results side by side; the first result is the baseline.

use std::fmt::Write;

use super::{charts, tables};
use crate::result::RunResult;
use crate::result::searched::SearchResult;
use page::words::{duration, grouped};
use page::{escape, section, whole};

/// Highest number of results in one comparison.
pub const RESULTS_MAX: usize = 8;

/// One figure of each result.
struct ComparedFigure {
    name: String,
    values: Vec<Option<f64>>,
    show: fn(f64) -> String,
    /// True for each value that is only a lower bound.
    bounds: Vec<bool>,
}

fn rows(results: &[RunResult]) -> Vec<ComparedFigure> {
    let row = |name: &str, show, of: &dyn Fn(&RunResult) -> Option<f64>| ComparedFigure {
        name: name.to_owned(),
        values: results.iter().map(of).collect(),
        show,
        bounds: vec![false; results.len()],
    };
    let times = |name: &'static str, service: bool| {
        let of = move |result: &RunResult| {
            let latencies = if service { &result.figures.service } else { &result.figures.response };
            let some = latencies.named().into_iter().find(|(known, _)| *known == name);
            some.filter(|_| latencies.count > 0).map(|(_, ns)| ns as f64)
        };
        row(&format!("{name}, {}", if service { "service" } else { "response" }), duration, &of)
    };
    let is_bound = |result: &RunResult| result.search.as_ref().is_some_and(SearchResult::is_lower_bound);
    let rate = row("rate within the objectives, /s", grouped, &|r| r.search.as_ref()?.answer_per_s);
    let mut rows = vec![
        ComparedFigure { bounds: results.iter().map(is_bound).collect(), ..rate },
        row("replies per second", grouped, &|r| Some(r.figures.achieved_per_s)),
    ];
    rows.extend(["p50", "p90", "p99", "p999", "p9999", "max"].map(|name| times(name, false)));
    rows.extend(["p50", "p99", "p999"].map(|name| times(name, true)));
    rows.push(row("errors", grouped, &|r| Some(r.figures.counts.errors as f64)));
    rows.push(row("misses", grouped, &|r| Some(r.figures.with_outcome("miss") as f64)));
    rows.retain(|row| row.values.iter().any(Option::is_some));
    rows
}

/// Returns the ratio of a value to the first one; `None` if both are lower bounds.
fn ratio(row: &ComparedFigure, at: usize) -> Option<String> {
    let (first, value) = (row.values[0].filter(|first| *first > 0.0)?, row.values[at]?);
    let sign = match (row.bounds[0], row.bounds[at]) {
        (true, true) => return None,
        (true, false) => "<= ",
        (false, true) => ">= ",
        (false, false) => "",
    };
    Some(format!("{sign}x {:.2}", value / first))
}

fn cell(row: &ComparedFigure, at: usize) -> String {
    let Some(value) = row.values[at] else { return "-".to_owned() };
    let sign = if row.bounds[at] { ">= " } else { "" };
    let shown = format!("{sign}{}", (row.show)(value));
    match ratio(row, at) {
        Some(ratio) if at > 0 => format!("{shown} ({ratio})"),
        _ => shown,
    }
}

/// Returns the differences that make the comparison unfair, in words.
pub fn warnings(results: &[RunResult]) -> Vec<String> {
    let mut warnings = Vec::new();
    for result in results {
        if let Some(cause) = &result.invalid {
            warnings.push(format!("{} is INVALID: {cause}", result.name));
        }
        if let Some(cause) = &result.partial {
            warnings.push(format!("{} is PARTIAL: {cause}", result.name));
        }
    }
    let Some(first) = results.first() else { return warnings };
    for other in &results[1..] {
        let mut differs = |what: &str, same: bool| {
            if !same {
                warnings.push(format!("{} and {} have {what}", first.name, other.name));
            }
        };
        differs("another machine", first.machine == other.machine);
        differs("another workload", first.workload == other.workload);
        differs("other objectives", first.objectives == other.objectives);
        let tls = |result: &RunResult| (result.tls.is_some(), result.figures.connections.label());
        differs("other TLS", tls(first) == tls(other));
        differs("another loop", std::mem::discriminant(&first.arrivals) == std::mem::discriminant(&other.arrivals));
    }
    warnings
}

/// Returns the comparison as text.
pub fn text(results: &[RunResult]) -> String {
    let mut out = String::new();
    for warning in warnings(results) {
        let _ = writeln!(out, "careful: {warning}");
    }
    let _ = write!(out, "{:<32}", "");
    for result in results {
        let _ = write!(out, "{:>24}", result.name);
    }
    out.push('\n');
    for row in rows(results) {
        let _ = write!(out, "{:<32}", row.name);
        for at in 0..results.len() {
            let _ = write!(out, "{:>24}", cell(&row, at));
        }
        out.push('\n');
    }
    out
}

/// Returns the comparison as an HTML page.
pub fn html(results: &[RunResult]) -> String {
    whole(&title(results), &body(results))
}

fn title(results: &[RunResult]) -> String {
    let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
    names.join(" against ")
}

/// Returns the main ratios. With more than two results it also names the compared results and the baseline.
fn headline(results: &[RunResult]) -> String {
    let [first, other] = results else { return title(results) };
    let wanted =
        ["rate within the objectives, /s", "replies per second", "p50, response", "p99, response", "p999, response"];
    let named = |row: &ComparedFigure| {
        let name = row.name.trim_end_matches(", /s").trim_end_matches(", response");
        Some(format!("{name} {}", ratio(row, 1)?))
    };
    let rows = rows(results);
    let ratios: Vec<String> = rows.iter().filter(|row| wanted.contains(&row.name.as_str())).filter_map(named).collect();
    format!("{} against {}: {}", other.name, first.name, ratios.join(", "))
}

/// Returns the body of the comparison page.
fn body(results: &[RunResult]) -> String {
    let warnings = warnings(results);
    let class = if warnings.is_empty() { "" } else { " warn" };
    let mut body = format!(
        "<div class=\"card verdict{class}\"><div class=\"what\">comparison</div><h1>{}</h1>",
        escape(&headline(results))
    );
    for warning in warnings {
        let _ = write!(body, "<p class=\"bad-text\"><b>Careful:</b> {}.</p>", escape(&warning));
    }
    for result in results {
        let _ = write!(body, "<p><b>{}:</b> {}</p>", escape(&result.name), escape(&result.verdict.headline));
    }
    body.push_str("</div>");
    body.push_str(&side_by_side(results));
    body
}

/// Returns the charts and tables of several results, side by side.
pub fn side_by_side(results: &[RunResult]) -> String {
    let names: Vec<&str> = results.iter().map(|result| result.name.as_str()).collect();
    let mut body = "<div class=\"charts\">".to_owned();
    let responses: Vec<(String, _)> = results.iter().map(|r| (r.name.clone(), &r.figures.response)).collect();
    let services: Vec<(String, _)> = results.iter().map(|r| (r.name.clone(), &r.figures.service)).collect();
    for (title, several) in [("Response time", &responses), ("Service time", &services)] {
        let _ = write!(body, "<div class=\"card\">{}</div>", charts::curve(title, several, None).render());
    }
    for result in results {
        if let Some(mut chart) = charts::rate_against_percentile(result) {
            chart.title = format!("{}: {}", result.name, chart.title);
            let _ = write!(body, "<div class=\"card\">{}</div>", chart.render());
        }
    }
    body.push_str("</div>");
    let heads: Vec<&str> = std::iter::once("").chain(names.iter().copied()).collect();
    let cells = |row: &ComparedFigure| {
        let mut cells = vec![row.name.clone()];
        cells.extend((0..results.len()).map(|at| cell(row, at)));
        ("", cells)
    };
    let table: Vec<_> = rows(results).iter().map(cells).collect();
    section(&mut body, "Figures", &tables::table(&heads, &table));
    for result in results {
        section(&mut body, &format!("Settings and machine of {}", result.name), &tables::environment(result));
    }
    body
}
