//! Terminal output: progress lines during a run, and the summary at its end.
//!
//! If standard error is a terminal, one line is overwritten. Otherwise each update is a new line, so that the output
//! can be logged.

use std::fmt::Write;

use crate::measure::VerbCounts;
use crate::result::{Figures, Latencies, RunResult, StepResult};
use page::words::{duration, grouped};

/// The state of a run in progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunProgress {
    /// Name of the current activity, such as `trial 7, bisect`.
    pub what: String,
    /// Elapsed share of the time, 0 to 1; `None` if the run has no fixed end.
    pub done: Option<f64>,
    /// The requested rate per second; 0 in a closed loop.
    pub target_per_s: f64,
    /// Recent replies per second.
    pub achieved_per_s: f64,
    /// Recent p50, p99 and p999 of the response time, in nanoseconds.
    pub percentiles_ns: [u64; 3],
    /// Replies so far.
    pub answered: u64,
    /// Errors and wrong values so far.
    pub errors: u64,
    /// Counts of each verb so far, up to `covered_ns`; empty if they were not requested.
    pub verbs: Vec<VerbCounts>,
    /// Time from the start to the end of the last slice of the timeline, in nanoseconds.
    pub covered_ns: u64,
    /// True if the run has ended.
    pub is_last: bool,
}

/// Number of cells of a progress bar.
const BAR_CELLS: usize = 20;

/// Formats the progress of a run as one line.
pub fn progress(progress: &RunProgress) -> String {
    let mut line = String::new();
    if let Some(done) = progress.done {
        let full = (done.clamp(0.0, 1.0) * BAR_CELLS as f64).round() as usize;
        let _ = write!(line, "[{}{}] ", "#".repeat(full), ".".repeat(BAR_CELLS - full));
    }
    let _ = write!(line, "{}  {}/s", progress.what, grouped(progress.achieved_per_s));
    if progress.target_per_s > 0.0 {
        let _ = write!(line, " of {}/s", grouped(progress.target_per_s));
    }
    let [p50, p99, p999] = progress.percentiles_ns.map(|ns| if ns == 0 { "-".to_owned() } else { duration(ns as f64) });
    let _ = write!(line, "  p50 {p50}  p99 {p99}  p999 {p999}  errors {}", progress.errors);
    line
}

/// Formats a completed trial as one line.
pub fn step(step: &StepResult) -> String {
    let verdict = if step.passed { "met".to_owned() } else { format!("BROKEN: {}", step.broken.join("; ")) };
    let limited =
        step.generator_limit.as_ref().map_or(String::new(), |cause| format!(" (limited by the generator: {cause})"));
    format!(
        "trial {:>3}  {:<8} {:>12}/s  p50 {:>8}  p99 {:>8}  p999 {:>8}  {verdict}{limited}",
        step.number,
        step.phase,
        grouped(step.rate_per_s),
        duration(step.response.p50_ns as f64),
        duration(step.response.p99_ns as f64),
        duration(step.response.p999_ns as f64),
    )
}

/// Formats the summary at the end of a run, with the verdict first.
pub fn summary(result: &RunResult) -> String {
    let mut out = String::new();
    if let Some(cause) = &result.invalid {
        let _ = writeln!(out, "INVALID: {cause}; the figures below do not describe the server");
    }
    if let Some(cause) = &result.partial {
        let _ = writeln!(out, "PARTIAL: {cause}");
    }
    let _ = writeln!(out, "{}", result.verdict.headline);
    explanation(&mut out, result);
    out.push_str(&trials_of_stopped(result));
    let figures = &result.figures;
    let _ = writeln!(out, "\n{}", result.manner());
    let head = ["", "requests", "p50", "p90", "p99", "p999", "p9999", "max"];
    row(&mut out, &head.map(str::to_owned));
    times(&mut out, "response time", &figures.response);
    times(&mut out, "service time", &figures.service);
    if let Some(sampler) = &figures.sampler {
        times(&mut out, result.second_stream(), sampler);
    }
    if result.tls.is_some() {
        times(&mut out, "connecting", &figures.connections.time);
        times(&mut out, "TLS handshake", &figures.connections.handshake);
    }
    for group in &figures.verbs {
        times(&mut out, format!("{} {}", group.name, group.outcome).trim(), &group.response);
    }
    let c = &figures.counts;
    let ended = |outcome: &str| grouped(figures.with_outcome(outcome) as f64);
    let _ = writeln!(
        out,
        "\n{} due, {} replied ({}/s of {}/s), {} hits, {} misses, {} writes done, {} not done, {} errors, {} wrong \
         values, {} unanswered",
        grouped(c.due as f64),
        grouped(c.answered as f64),
        grouped(figures.achieved_per_s),
        grouped(figures.offered_per_s),
        ended("hit"),
        ended("miss"),
        ended("done"),
        ended("not done"),
        grouped(c.errors as f64),
        grouped(c.wrong as f64),
        grouped(c.unanswered as f64),
    );
    out.push_str(&partial_replies(figures));
    if c.redirects > 0 {
        let _ = writeln!(out, "{} redirects to other nodes; response times include them", grouped(c.redirects as f64));
    }
    for sessions in &figures.connections.tls {
        let _ = writeln!(out, "{}", sessions.words());
    }
    for fault in &figures.faults {
        let _ = writeln!(
            out,
            "fault {}: {} times; first occurrence: {}",
            fault.name,
            grouped(fault.count as f64),
            fault.first
        );
    }
    for assertion in &result.assertions {
        let word = if assertion.held { "held" } else { "BROKEN" };
        let _ = writeln!(out, "assertion {word}: {}; actual value {}", assertion.condition, assertion.value);
    }
    out
}

/// Formats the share of partial replies of each kind of query with a budget; empty if there are none.
fn partial_replies(figures: &Figures) -> String {
    let partial = figures.partial_replies();
    if partial.is_empty() {
        return String::new();
    }
    let share = |(name, replies, partial): &(&str, u64, u64)| {
        let percent = *partial as f64 * 100.0 / *replies as f64;
        format!("{name} {} of {} ({percent:.2} %)", grouped(*partial as f64), grouped(*replies as f64))
    };
    let shares: Vec<String> = partial.iter().map(share).collect();
    format!("partial replies: {}\n", shares.join(", "))
}

/// Writes the bottleneck and the notes.
fn explanation(out: &mut String, result: &RunResult) {
    if let Some(limit) = &result.verdict.limit {
        let then = if limit.then.is_empty() { String::new() } else { format!("; later: {}", limit.then.join(", ")) };
        let _ = writeln!(out, "the bottleneck: {}, from {:.1} s on{then}", limit.what, limit.at_s);
    }
    for note in &result.verdict.notes {
        let _ = writeln!(out, "{note}");
    }
}

/// Formats the trials of a search that was stopped. The terminal may not show them any more.
fn trials_of_stopped(result: &RunResult) -> String {
    let search = result.search.iter().filter(|search| search.end == "stopped");
    search.flat_map(|search| &search.steps).map(|trial| step(trial) + "\n").collect()
}

fn times(out: &mut String, name: &str, latencies: &Latencies) {
    let figures =
        [latencies.p50_ns, latencies.p90_ns, latencies.p99_ns, latencies.p999_ns, latencies.p9999_ns, latencies.max_ns];
    let mut cells = vec![name.to_owned(), grouped(latencies.count as f64)];
    cells.extend(figures.map(|ns| if latencies.count == 0 { "-".to_owned() } else { duration(ns as f64) }));
    row(out, &cells);
}

fn row(out: &mut String, cells: &[String]) {
    let _ = write!(out, "{:<26}{:>12}", cells[0], cells[1]);
    for cell in &cells[2..] {
        let _ = write!(out, "{cell:>10}");
    }
    out.push('\n');
}
