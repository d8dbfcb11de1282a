//! The verdict on a run or a search: whether the objectives were met, and which bottleneck there was.

use super::{Job, Mode};
use crate::engine::{Ending, LoopKind, Run};
use crate::measure::NamedFailure;
use crate::result::{Assertion, Figures, Latencies, ObjectiveLine, RunResult, STOPPED, SearchResult};
use crate::search::objective::{Condition, What};
use crate::timeline::limit;
use page::words::{duration, grouped};

/// Returns the objective for the highest percentile, for a plot.
pub fn line(objectives: &[Condition]) -> Option<ObjectiveLine> {
    let percentiles = objectives.iter().filter_map(|objective| match objective.what {
        What::Percentile(share) => Some(ObjectiveLine { share, limit_ns: objective.limit as u64 }),
        _ => None,
    });
    percentiles.max_by(|a, b| a.share.total_cmp(&b.share))
}

/// Returns the value of `what` in `figures`.
pub fn value(what: What, figures: &Figures) -> f64 {
    let (counts, response) = (&figures.counts, &figures.response);
    let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
    let times = |of: &dyn Fn(&Latencies) -> f64| if response.count == 0 { 0.0 } else { of(response) };
    match what {
        What::Percentile(at) => {
            times(&|all| all.histogram().map_or(0.0, |histogram| histogram.value_at_quantile(at) as f64))
        }
        What::Mean => times(&|all| all.mean_ns),
        What::Max => times(&|all| all.max_ns as f64),
        What::Errors => share(counts.errors + counts.wrong, counts.answered),
        What::Misses => share(counts.misses, counts.answered),
        What::Unanswered => share(counts.unanswered, counts.due),
        What::Rate => figures.achieved_per_s,
    }
}

/// Writes the verdict on one run.
pub(super) fn of_run(job: &Job, run: &Run, result: &mut RunResult) {
    let figures = &result.figures;
    let closed = matches!(job.mode, Mode::Closed);
    let loops = if closed { "closed loop, " } else { "" };
    let rate = grouped(figures.achieved_per_s);
    let broken: Vec<String> = broken(&job.objectives, figures);
    result.is_broken = !broken.is_empty();
    let kept: Vec<String> = job.objectives.iter().map(ToString::to_string).collect();
    let judgement = match () {
        () if !broken.is_empty() => format!("BROKE its objectives: {}", broken.join(", ")),
        () if !kept.is_empty() => format!("met its objectives: {}", kept.join(" and ")),
        () => {
            let response = &figures.response;
            let [p50, p99, p999] = [response.p50_ns, response.p99_ns, response.p999_ns].map(|ns| duration(ns as f64));
            format!("p50 {p50}, p99 {p99}, p999 {p999}")
        }
    };
    result.verdict.headline = format!("{loops}{rate}/s for {:.1} s: {judgement}", figures.duration_s);
    if !run.limits.is_empty() {
        let causes: Vec<String> = run.limits.iter().map(ToString::to_string).collect();
        result.invalid = Some(format!("GENERATOR LIMITED: {}", causes.join("; ")));
    }
    result.partial = match run.ending {
        Ending::Complete | Ending::Exhausted => unheard(run),
        Ending::Stopped => Some(STOPPED[0].to_owned()),
        Ending::HostLost => super::agents::lost(&run.hosts),
        Ending::Deserted => unheard(run).or_else(|| {
            Some(format!("no connection was up at the end{}; the figures cover the time before", first_fault(run)))
        }),
    };
}

/// Returns the reason why figures without any reply are invalid.
pub(super) fn unheard(run: &Run) -> Option<String> {
    let totals = &run.bulk.totals;
    let deaf = run.kind != LoopKind::Blind && totals.due > 0 && totals.answered == 0;
    deaf.then(|| {
        let first = first_fault(run);
        format!(
            "no request got a reply{first}; check that the server speaks this protocol (--protocol) and is responsive"
        )
    })
}

/// Returns the most frequent fault in brackets, if there is one.
pub(super) fn first_fault(run: &Run) -> String {
    let described =
        |fault: &NamedFailure| format!(" ({}, {} times; first occurrence: {})", fault.name, fault.count, fault.first);
    run.bulk.faults.first().map(described).unwrap_or_default()
}

fn broken(objectives: &[Condition], figures: &Figures) -> Vec<String> {
    let broken = objectives.iter().filter(|objective| !objective.holds_for(value(objective.what, figures)));
    broken
        .map(|objective| format!("{} is {}", objective.what, objective.what.show(value(objective.what, figures))))
        .collect()
}

/// Adds the parts of every session's result: the assertions, the bottleneck, and notes for the reader.
pub(super) fn finish(job: &Job, result: &mut RunResult) {
    result.assertions = job
        .assertions
        .iter()
        .map(|assertion| {
            let value = asserted(assertion.what, result);
            let (condition, shown) = (assertion.to_string(), assertion.what.show(value));
            Assertion { condition, value: shown, held: assertion.holds_for(value) }
        })
        .collect();
    if result.tls.as_ref().is_some_and(|tls| tls.insecure) {
        let note = "the server was NOT verified: any certificate is accepted".to_owned();
        result.verdict.notes.push(note);
    }
    let spans = broken_spans(job, result);
    // If the generator was the bottleneck, a rising timeline does not explain the server's limit.
    let is_limited = result.invalid.is_some() || result.search.as_ref().is_some_and(SearchResult::is_generator_limited);
    result.verdict.limit = if is_limited { None } else { limit::limit(&result.timelines, &spans) };
    result.verdict.notes.extend(super::agents::slowest(&result.figures.agents));
    let first = result.search.as_ref().and_then(|search| {
        let first = search.first_broken?;
        search.steps.iter().find(|step| step.number == first)
    });
    if let Some(step) = first {
        let (rate, broken) = (grouped(step.rate_per_s), step.broken.join("; "));
        result.verdict.notes.push(format!("the first rate that failed: {rate}/s, trial {}: {broken}", step.number));
    }
    if result.verdict.limit.is_none() && result.search.is_some() && !is_limited && !spans.is_empty() {
        let note = "no figure of host or server was above its threshold when objectives were broken".to_owned();
        result.verdict.notes.push(note);
    }
}

/// Returns the value of `what` for an assertion. For a search, the rate is its answer.
fn asserted(what: What, result: &RunResult) -> f64 {
    match (&result.search, what) {
        (Some(search), What::Rate) => search.answer_per_s.unwrap_or(0.0),
        _ => value(what, &result.figures),
    }
}

/// Returns the periods in which objectives were broken, in seconds since the start.
fn broken_spans(job: &Job, result: &RunResult) -> Vec<(f64, f64)> {
    match &result.search {
        Some(search) => {
            let broken = search.steps.iter().filter(|step| !step.passed);
            broken.map(|step| (step.at_s, step.at_s + step.duration_s)).collect()
        }
        None if !broken(&job.objectives, &result.figures).is_empty() => vec![(0.0, result.elapsed_s)],
        None => Vec::new(),
    }
}
