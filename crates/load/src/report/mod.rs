//! Reports of a result: one HTML file, and lines in a terminal.
//!
//! ```text
//!   ┌ verdict: rate, objectives that were met, limit ────────────────┐   read in ten seconds
//!   │ p50  p99  p999  max  errors  replied                           │
//!   └────────────────────────────────────────────────────────────────┘
//!   rate against p999, every trial      throughput      response time over time      percentile curve
//!   tables: verbs and sizes, trials     use of host, server, generator     settings, machine
//! ```
//!
//! Invariants: the file is self-contained, without external scripts, fonts or pictures. An invalid or partial result is
//! marked before any figure. All external text is escaped.

pub mod charts;
pub mod compare;
pub mod tables;
pub mod terminal;
pub mod versus;

use std::fmt::Write;

use crate::result::{Arrivals, RunResult};
use page::words::{duration, grouped};
use page::{escape, section, whole};

/// Returns the complete HTML page of a run.
pub fn html(result: &RunResult) -> String {
    let mut body = verdict(result);
    body.push_str("<div class=\"charts\">");
    let charts = charts::rate_against_percentile(result).into_iter().chain([
        charts::curves(result),
        charts::throughput(result),
        charts::percentiles(result),
    ]);
    for chart in charts {
        let _ = write!(body, "<div class=\"card\">{}</div>", chart.render());
    }
    body.push_str("</div>");
    section(&mut body, "Requests", &tables::figures(result));
    if !result.figures.agents.is_empty() {
        section(&mut body, "Agents", &tables::agents(result));
    }
    if let Some(search) = &result.search {
        let steps = tables::steps(result).unwrap_or_default();
        let method = escape(&search.method);
        section(&mut body, "Trials", &format!("<p>How the interval was found: {method}.</p>{steps}"));
    }
    if !result.timelines.is_empty() {
        body.push_str("<h2>Host, server and generator during the run</h2><div class=\"charts small\">");
        let (moving, flat) = charts::timelines(result);
        for chart in moving {
            let _ = write!(body, "<div class=\"card\">{}</div>", chart.render_small());
        }
        body.push_str("</div>");
        body.push_str(&tables::flat(&flat));
    }
    section(
        &mut body,
        "Counts",
        &format!("{}{}{}", tables::faults(result), tables::counts(result), tables::threads(result)),
    );
    let mut environment = tables::environment(result);
    if let Some(workload) = &result.workload {
        let _ = write!(environment, "<details><summary>Workload</summary><pre>{}</pre></details>", escape(workload));
    }
    section(&mut body, "Settings and machine", &environment);
    whole(&result.verdict.headline, &body)
}

fn verdict(result: &RunResult) -> String {
    let missed = result.assertions.iter().any(|assertion| !assertion.held);
    let class = match () {
        () if result.invalid.is_some() || missed => " bad",
        () if result.partial.is_some() => " warn",
        () => "",
    };
    let targets: Vec<&str> = result.targets.iter().map(|target| target.address.as_str()).collect();
    let mut out = format!("<div class=\"card verdict{class}\"><div class=\"what\">");
    let _ = write!(out, "{}: {}", escape(&targets.join(", ")), escape(&result.manner()));
    let _ = write!(out, "</div><h1>{}</h1>", escape(&sentence(&result.verdict.headline)));
    if let Some(cause) = &result.invalid {
        let _ = write!(
            out,
            "<p class=\"bad-text\"><b>INVALID:</b> {}. The figures below do not describe the server.</p>",
            escape(cause)
        );
    }
    if let Some(cause) = &result.partial {
        let _ = write!(out, "<p class=\"bad-text\"><b>PARTIAL:</b> {}.</p>", escape(cause));
    }
    if let Some(limit) = &result.verdict.limit {
        let _ = write!(out, "<p><b>The bottleneck:</b> {}, from {:.1} s on.", escape(&limit.what), limit.at_s);
        if !limit.then.is_empty() {
            let _ = write!(out, " Figures that rose later: {}.", escape(&limit.then.join(", ")));
        }
        out.push_str("</p>");
    }
    for note in &result.verdict.notes {
        let _ = write!(out, "<p>{}.</p>", escape(&sentence(note)));
    }
    for assertion in &result.assertions {
        let (class, word) = if assertion.held { ("good-text", "held") } else { ("bad-text", "BROKEN") };
        let _ = write!(out, "<p><span class=\"{class}\">{word}</span>: ");
        let _ = write!(out, "{}; actual value {}</p>", escape(&assertion.condition), escape(&assertion.value));
    }
    tiles(result, &mut out);
    out.push_str("</div>\n");
    out
}

/// Returns the text with a capital first letter.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn tiles(result: &RunResult, out: &mut String) {
    let (figures, response) = (&result.figures, &result.figures.response);
    let closed = matches!(result.arrivals, Arrivals::Closed { .. });
    let time = |ns: u64| if response.count == 0 { "-".to_owned() } else { duration(ns as f64) };
    let bad = figures.counts.errors + figures.counts.wrong + figures.counts.unanswered;
    let answers = if closed { "replies per second, closed loop" } else { "replies per second" };
    out.push_str("<div class=\"tiles\">");
    for (name, value) in [
        (answers, grouped(figures.achieved_per_s)),
        ("p50", time(response.p50_ns)),
        ("p99", time(response.p99_ns)),
        ("p999", time(response.p999_ns)),
        ("max", time(response.max_ns)),
        ("errors, wrong values, unanswered", grouped(bad as f64)),
    ] {
        let _ = write!(out, "<div><b>{}</b><span>{name}</span></div>", escape(&value));
    }
    out.push_str("</div>");
}

#[cfg(test)]
mod tests;
