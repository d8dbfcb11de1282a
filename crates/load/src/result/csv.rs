//! CSV tables for spreadsheets, with one row per interval or per trial.

use std::fmt::Write;

use super::{Latencies, RunResult};

const LATENCY_COLUMNS: &str = "p50_ns,p90_ns,p99_ns,p999_ns,p9999_ns,max_ns,mean_ns";

/// Returns a table with one row per interval.
pub fn intervals(result: &RunResult) -> String {
    let mut text = format!("at_s,duration_s,target_per_s,achieved_per_s,errors,{LATENCY_COLUMNS}\n");
    for i in &result.intervals {
        let head = (i.at_s, i.duration_s, i.target_per_s, i.achieved_per_s, i.errors);
        let _ = write!(text, "{:.3},{:.3},{:.3},{:.3},{}", head.0, head.1, head.2, head.3, head.4);
        latencies(&mut text, &i.response);
    }
    text
}

/// Returns a table with one row per trial of the search; only the header if there were no trials.
pub fn steps(result: &RunResult) -> String {
    let mut text =
        format!("number,phase,rate_per_s,offered_per_s,achieved_per_s,passed,errors,unanswered,{LATENCY_COLUMNS}\n");
    for step in result.search.iter().flat_map(|search| &search.steps) {
        let _ = write!(text, "{},{},{:.3},{:.3}", step.number, step.phase, step.rate_per_s, step.offered_per_s);
        let _ = write!(text, ",{:.3},{},{},{}", step.achieved_per_s, step.passed, step.errors, step.unanswered);
        latencies(&mut text, &step.response);
    }
    text
}

fn latencies(text: &mut String, latencies: &Latencies) {
    for (_, ns) in latencies.named() {
        let _ = write!(text, ",{ns}");
    }
    text.push('\n');
}
