//! Runs a sequence of rates, as ramps of other generators do. Each rate runs for its time, without a verdict.

use super::Stepped;
use super::trials::Trials;
use crate::engine::Error;
use crate::result::{RunResult, SearchResult};
use crate::search::rate::Rate;
use crate::search::{JudgedTrial, Stop, Trial, TrialPhase, TrialRequest};
use page::words::{duration, grouped};

/// Runs every rate. The result's figures combine all rates, and each rate is a step of the result.
pub(super) fn stepped(steps: &Stepped, trials: &mut Trials<'_>, result: &mut RunResult) -> Result<(), Error> {
    assert!(!steps.rates.is_empty(), "there is a rate");
    trials.is_stepped = true;
    let mut done: Vec<JudgedTrial> = Vec::with_capacity(steps.rates.len());
    let (mut stopped, mut by_hand) = (None, Vec::new());
    for (rate, number) in steps.rates.iter().zip(1..) {
        let ask = TrialRequest { rate: *rate, duration: steps.each, phase: TrialPhase::Step, number };
        match trials.run(ask) {
            Ok(observed) => {
                if trials.is_rate_set() {
                    by_hand.push(number.to_string());
                }
                let step = JudgedTrial { ask, observed, broken: Vec::new() };
                trials.judged(&step);
                done.push(step);
            }
            Err(stop) => {
                stopped = Some(stop);
                break;
            }
        }
    }
    if let (true, Some(Stop::Failed(_)), Some(error)) = (done.is_empty(), &stopped, trials.take_error()) {
        return Err(error);
    }
    result.figures = trials.figures_together(&done);
    result.verdict.headline = headline(&done, steps);
    result.partial = stopped.map(|stop| match stop {
        Stop::Asked => format!("the session was stopped after {} of {} rates", done.len(), steps.rates.len()),
        Stop::Failed(why) => format!("{why}, after {} of {} rates", done.len(), steps.rates.len()),
    });
    if !by_hand.is_empty() {
        let list = by_hand.join(", ");
        let note =
            format!("the rate was changed manually in trial {list}, so the rate in that trial's line does not apply");
        result.verdict.notes.push(note);
    }
    let limited: Vec<&JudgedTrial> = done.iter().filter(|step| step.observed.generator_limit.is_some()).collect();
    if let Some(first) = limited.first() {
        let cause = first.observed.generator_limit.as_deref().unwrap_or_default();
        let (count, all) = (limited.len(), done.len());
        result.invalid =
            Some(format!("GENERATOR LIMITED at {count} of {all} rates, first at {}: {cause}", first.ask.rate));
    }
    let mut search = SearchResult {
        end: "stepped".to_owned(),
        method: format!("a sequence of rates, {} s each; without a verdict", steps.each.as_secs_f64()),
        steps: done.iter().map(Into::into).collect(),
        ..SearchResult::default()
    };
    trials.shorten(&mut search.steps);
    result.search = Some(search);
    Ok(())
}

fn headline(done: &[JudgedTrial], steps: &Stepped) -> String {
    let Some(highest) = done.iter().max_by(|a, b| a.ask.rate.per_s().total_cmp(&b.ask.rate.per_s())) else {
        return format!("none of the {} rates was run", steps.rates.len());
    };
    let lowest = done.iter().map(|step| step.ask.rate.per_s()).fold(f64::INFINITY, f64::min);
    format!(
        "{} rates from {} to {}, {} s each: {}/s of replies at the highest, p999 {}",
        done.len(),
        Rate::new(lowest),
        highest.ask.rate,
        steps.each.as_secs_f64(),
        grouped(highest.observed.achieved_per_s),
        duration(highest.observed.response_ns.value_at_quantile(0.999) as f64),
    )
}
