//! The result of a search as plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Latencies, STOPPED};
use crate::search::rate::Rate;
use crate::search::{End, JudgedTrial, SearchOutcome, SearchSettings, Stop, TrialPhase, method};

/// The `end` of a search that the generator ended.
const GENERATOR_LIMITED: &str = "generator limited";

/// Result of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchResult {
    /// `found`, `kept at max`, `never kept`, `generator limited`, `trials used up` or `stopped`; `stepped` if the rates
    /// were not judged.
    pub end: String,
    /// The highest rate that met the objectives, per second; a lower bound if `end` is `kept at max` or `generator
    /// limited`.
    pub answer_per_s: Option<f64>,
    /// Lower bound of the answer: the highest rate that is known to meet the objectives, per second.
    pub lower_per_s: Option<f64>,
    /// Upper bound of the answer: the lowest rate that is known to break the objectives, per second.
    pub upper_per_s: Option<f64>,
    /// Probability that both bounds are correct, 0 to 1.
    pub confidence: Option<f64>,
    /// Method by which the interval was computed.
    pub method: String,
    /// Every trial, in order.
    pub steps: Vec<StepResult>,
    /// Number of the first trial that broke an objective at the lowest rate above the answer.
    pub first_broken: Option<u32>,
}

/// A trial of the search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepResult {
    /// The trial's number, from 1.
    pub number: u32,
    /// Phase of the search: `rise`, `bisect`, `confirm` or `step`.
    pub phase: String,
    /// Beginning of the trial, in seconds since the start.
    pub at_s: f64,
    /// Time during which requests were due, in seconds.
    pub duration_s: f64,
    /// The requested rate per second.
    pub rate_per_s: f64,
    /// Requests that were due, per second.
    pub offered_per_s: f64,
    /// Replies per second.
    pub achieved_per_s: f64,
    /// True if all objectives were met.
    pub passed: bool,
    /// Objectives that were not met, in words.
    pub broken: Vec<String>,
    /// The reason why the generator was the bottleneck, if it was.
    pub generator_limit: Option<String>,
    /// Replies that are errors.
    pub errors: u64,
    /// Requests without a reply.
    pub unanswered: u64,
    /// Response times.
    pub response: Latencies,
}

/// Returns a phase's name.
pub fn phase_name(phase: TrialPhase) -> &'static str {
    match phase {
        TrialPhase::WarmUp => "warm-up",
        TrialPhase::Rise => "rise",
        TrialPhase::Bisect => "bisect",
        TrialPhase::Confirm => "confirm",
        TrialPhase::Step => "step",
    }
}

impl From<&JudgedTrial> for StepResult {
    fn from(step: &JudgedTrial) -> Self {
        Self {
            number: step.ask.number,
            phase: phase_name(step.ask.phase).to_owned(),
            at_s: step.observed.began_s,
            duration_s: step.ask.duration.as_secs_f64(),
            rate_per_s: step.ask.rate.per_s(),
            offered_per_s: step.observed.offered_per_s,
            achieved_per_s: step.observed.achieved_per_s,
            passed: step.passed(),
            broken: step.broken.clone(),
            generator_limit: step.observed.generator_limit.clone(),
            errors: step.observed.errors,
            unanswered: step.observed.unanswered,
            response: Latencies::of(&step.observed.response_ns),
        }
    }
}

impl SearchResult {
    /// Returns whether the answer is only a lower bound, because no rate above it was tried or could be tried.
    pub fn is_lower_bound(&self) -> bool {
        self.answer_per_s.is_some() && matches!(self.end.as_str(), "kept at max" | GENERATOR_LIMITED)
    }

    /// Returns whether the generator ended the search.
    pub fn is_generator_limited(&self) -> bool {
        self.end == GENERATOR_LIMITED
    }

    /// Converts the result of a search.
    pub fn of(settings: &SearchSettings, found: &SearchOutcome) -> Self {
        let end = match &found.end {
            End::Found => "found",
            End::KeptAtMax => "kept at max",
            End::NeverKept => "never kept",
            End::GeneratorLimited(_) => GENERATOR_LIMITED,
            End::TrialsUsedUp => "trials used up",
            End::Stopped(_) => "stopped",
        };
        Self {
            end: end.to_owned(),
            answer_per_s: found.answer.map(Rate::per_s),
            lower_per_s: found.interval.map(|interval| interval.lower.per_s()),
            upper_per_s: found.interval.map(|interval| interval.upper.per_s()),
            confidence: found.interval.and_then(|interval| interval.confidence),
            method: method(settings),
            steps: found.steps.iter().map(StepResult::from).collect(),
            first_broken: found.first_broken().map(|step| step.ask.number),
        }
    }
}

/// Returns the sentence about `found`, and the reasons why its figures are invalid or partial, if they are.
pub fn headline(settings: &SearchSettings, found: &SearchOutcome) -> (String, Option<String>, Option<String>) {
    let kept: Vec<String> = settings.objectives.iter().map(ToString::to_string).collect();
    let kept = if kept.is_empty() { "a reply to every request in time".to_owned() } else { kept.join(" and ") };
    let most = found.answer.map_or("no rate".to_owned(), |rate| rate.to_string());
    match &found.end {
        End::Found => {
            let interval = found.interval.expect("a found answer has an interval");
            let bounds = format!("{} to {}", interval.lower, interval.upper);
            let how = interval.confidence.map_or(" by single trials".to_owned(), |confidence| {
                format!(" with a confidence of {:.0} %", confidence * 100.0)
            });
            (format!("{most} with {kept} ({bounds}{how})"), None, None)
        }
        End::KeptAtMax => (format!("at least {most} with {kept}: the highest allowed rate met them"), None, None),
        End::NeverKept => (format!("no rate meets {kept}"), None, None),
        End::GeneratorLimited(cause) if found.answer.is_some() => {
            (format!("at least {most} with {kept}: above that the generator was the bottleneck ({cause})"), None, None)
        }
        End::GeneratorLimited(cause) => {
            let headline = "no verdict: the generator was the bottleneck at every rate".to_owned();
            (headline, Some(format!("GENERATOR LIMITED: {cause}")), None)
        }
        End::TrialsUsedUp => {
            let why = format!("{} trials were used up before the answer was confirmed", settings.trials_max);
            (format!("{most} met {kept} in single trials, unconfirmed"), None, Some(why))
        }
        End::Stopped(stop) => {
            let why = match stop {
                Stop::Asked => STOPPED[1].to_owned(),
                Stop::Failed(why) => why.clone(),
            };
            (format!("{most} met {kept} before the search ended"), None, Some(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::objective::Condition;

    #[test]
    fn sound_rate_below_a_limited_one_is_a_lower_bound_and_no_invalid_figure() {
        let settings =
            SearchSettings { objectives: Condition::parse_list("p999=2ms").unwrap(), ..SearchSettings::default() };
        let found = |answer: Option<f64>| SearchOutcome {
            end: End::GeneratorLimited("a thread is at 100 % CPU".to_owned()),
            answer: answer.map(Rate::new),
            interval: None,
            steps: Vec::new(),
        };
        let (line, invalid, partial) = headline(&settings, &found(Some(2000.0)));
        assert!(line.starts_with("at least 2,000/s with p999 at most 2 ms: above that the generator was"), "{line}");
        assert_eq!((invalid, partial), (None, None));
        assert!(SearchResult::of(&settings, &found(Some(2000.0))).is_lower_bound());
        let (line, invalid, _) = headline(&settings, &found(None));
        assert!(line.starts_with("no verdict") && invalid.unwrap().starts_with("GENERATOR LIMITED"), "{line}");
        assert!(!SearchResult::of(&settings, &found(None)).is_lower_bound());
    }
}
