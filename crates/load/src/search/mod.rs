//! The highest rate at which a service keeps its objectives, found by trials.
//!
//! ```text
//!   warm up ──> rise: x 2 until a trial fails twice ──> bisect: [kept, broken] until they are one step apart
//!                                                                        │
//!   answer       the highest rate at which N repeats, taken together, keep the objectives  <── a step at a time
//!   lower end    the highest rate that kept them in N repeats of N     <── downwards from the answer
//!   upper end    the lowest rate that broke them in N repeats of N     <── upwards from the answer
//! ```
//!
//! A trial runs the service at a rate for a time; what carries it out is behind [`Trial`], so that the search is pure
//! logic: the same trials give the same answer.
//!
//! The interval needs no model of the service but one: that a higher rate does not make a trial likelier to pass. If at
//! the rate where passing is as likely as failing N trials in a row pass, that has a probability of 2^-N; so with N = 5
//! each end is on the wrong side of that rate with a probability of at most 3.1 %, and both are right with at least
//! 93.75 %.
//!
//! Invariants: a lone stall never decides the bracket, since a trial that fails during the rise is run again; a trial
//! that fails while the generator was the limit is no verdict on the service, and ends the search as such; the search
//! ends after [`SearchSettings::trials_max`] trials at the latest.

pub mod objective;
pub mod rate;
#[cfg(test)]
mod tests;

use std::time::Duration;

use hdrhistogram::Histogram;

use objective::Condition;
use rate::Rate;

/// Purpose of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialPhase {
    /// Warm-up, which is not judged: caches fill, connections open.
    WarmUp,
    /// The rate is doubled, or halved while the first rate is too high.
    Rise,
    /// The bracket is halved.
    Bisect,
    /// A rate is run again and again.
    Confirm,
    /// The rate goes up by fixed steps.
    Step,
}

/// Parameters of a [`Trial`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    /// The rate at which requests are due.
    pub rate: Rate,
    /// Duration of the requests.
    pub duration: Duration,
    /// Purpose of the trial.
    pub phase: TrialPhase,
    /// Number of trials before this one.
    pub number: u32,
}

/// Measurements of a trial.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Time at which requests were first due, in s since the start of the whole run.
    pub began_s: f64,
    /// Requests that were due a second; a random schedule is off the rate that was asked for.
    pub offered_per_s: f64,
    /// Answers per second.
    pub achieved_per_s: f64,
    /// Requests with an answer, whatever it says.
    pub answered: u64,
    /// Requests that were due and have none.
    pub unanswered: u64,
    /// Answers that are errors.
    pub errors: u64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Response times from the intended instants, in ns.
    pub response_ns: Histogram<u64>,
    /// Why the generator and not the service limited the trial, if it did.
    pub generator_limit: Option<String>,
}

impl Observed {
    /// Several of them as one; `None` of none.
    pub fn together<'a>(several: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut count = 0.0;
        let mut sum = several.fold(None, |sum: Option<Self>, one| {
            count += 1.0;
            let Some(mut sum) = sum else { return Some(one.clone()) };
            sum.offered_per_s += one.offered_per_s;
            sum.achieved_per_s += one.achieved_per_s;
            sum.answered += one.answered;
            sum.unanswered += one.unanswered;
            sum.errors += one.errors;
            sum.misses += one.misses;
            sum.response_ns.add(&one.response_ns).expect("one that has not the room grows");
            sum.generator_limit = sum.generator_limit.or_else(|| one.generator_limit.clone());
            Some(sum)
        })?;
        sum.offered_per_s /= count;
        sum.achieved_per_s /= count;
        Some(sum)
    }
}

/// Why a trial has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A stop was requested.
    Asked,
    /// It could not be run: what happened, and the remedy.
    Failed(String),
}

/// Something that runs a service at a rate.
pub trait Trial {
    /// Runs it, and gives what was seen; the service has answered or given up everything before it returns.
    fn run(&mut self, ask: Ask) -> Result<Observed, Stop>;

    /// Receives the verdict on the trial.
    fn judged(&mut self, step: &JudgedTrial) {
        let _ = step;
    }
}

/// Parameters of the search.
#[derive(Clone, Debug)]
pub struct SearchSettings {
    /// All must hold.
    pub objectives: Vec<Condition>,
    /// The least share of the offered rate that must be achieved, 0 to 1.
    pub throughput_min: f64,
    /// First rate of the rise.
    pub start: Rate,
    /// No trial is above it.
    pub rate_max: Rate,
    /// Go up by this much from `start` until a trial fails, instead of bisecting.
    pub step: Option<Rate>,
    /// The bracket is narrowed to this ratio less 1.
    pub tolerance: f64,
    /// Trials that must agree on each end of the interval.
    pub confirmations: u32,
    /// Duration of a trial.
    pub trial: Duration,
    /// Duration of the warm-up; zero for none.
    pub warm_up: Duration,
    /// Trials at most.
    pub trials_max: u32,
}

impl Default for SearchSettings {
    fn default() -> Self {
        Self {
            objectives: Vec::new(),
            throughput_min: 0.99,
            start: Rate::new(1000.0),
            rate_max: Rate::new(rate::RATE_MAX),
            step: None,
            tolerance: 0.02,
            confirmations: 5,
            trial: Duration::from_secs(5),
            warm_up: Duration::from_secs(5),
            trials_max: 100,
        }
    }
}

/// One trial and its judgement.
#[derive(Clone, Debug)]
pub struct JudgedTrial {
    /// Parameters of the trial.
    pub ask: Ask,
    /// Measurements of the trial.
    pub observed: Observed,
    /// Descriptions of the objectives that did not hold; empty if all did.
    pub broken: Vec<String>,
}

impl JudgedTrial {
    /// All objectives held.
    pub fn passed(&self) -> bool {
        self.broken.is_empty()
    }
}

/// Outcome of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The answer is bounded from both sides.
    Found,
    /// The highest rate that is allowed was kept.
    KeptAtMax,
    /// Even the lowest rate that was tried broke the objectives.
    NeverKept,
    /// The generator was the limit, and why.
    GeneratorLimited(String),
    /// The trials were used up before the answer was confirmed.
    TrialsUsedUp,
    /// It was stopped.
    Stopped(Stop),
}

/// The bounds of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The highest rate that is known to be kept.
    pub lower: Rate,
    /// The lowest rate that is known to be broken.
    pub upper: Rate,
    /// The probability with which both are right, 0 to 1; `None` where single trials decided.
    pub confidence: Option<f64>,
}

/// Result of a search.
#[derive(Clone, Debug)]
pub struct SearchOutcome {
    /// Outcome of the search.
    pub end: End,
    /// The highest rate at which the objectives were kept: by repeats taken together if `end` is [`End::Found`], else
    /// by the trials that there were.
    pub answer: Option<Rate>,
    /// Its bounds.
    pub interval: Option<Interval>,
    /// Every trial, in order.
    pub steps: Vec<JudgedTrial>,
}

impl SearchOutcome {
    /// The trials at the answer: its repeats if there are any, else all.
    pub fn at_answer(&self) -> Vec<&JudgedTrial> {
        let at = |step: &&JudgedTrial| Some(step.ask.rate) == self.answer;
        let repeats: Vec<&JudgedTrial> =
            self.steps.iter().filter(at).filter(|step| step.ask.phase == TrialPhase::Confirm).collect();
        if repeats.is_empty() { self.steps.iter().filter(at).filter(|step| step.passed()).collect() } else { repeats }
    }

    /// The first trial that broke an objective at the lowest rate above the answer.
    pub fn first_broken(&self) -> Option<&JudgedTrial> {
        let floor = self.answer.map_or(0.0, Rate::per_s);
        let above = self.steps.iter().filter(|step| !step.passed() && step.ask.rate.per_s() > floor);
        above.min_by(|a, b| a.ask.rate.per_s().total_cmp(&b.ask.rate.per_s()))
    }
}

/// Searches. `seen` is shown every trial as soon as it was judged.
pub fn search(settings: &SearchSettings, trial: &mut dyn Trial, seen: &mut dyn FnMut(&JudgedTrial)) -> SearchOutcome {
    let mut search = Search { settings, trial, seen, steps: Vec::new() };
    let (end, answer, interval) = match search.run() {
        Ok((answer, interval)) => (End::Found, Some(answer), Some(interval)),
        Err(end) => (end, search.highest_kept(), None),
    };
    SearchOutcome { end, answer, interval, steps: search.steps }
}

struct Search<'a> {
    settings: &'a SearchSettings,
    trial: &'a mut dyn Trial,
    seen: &'a mut dyn FnMut(&JudgedTrial),
    steps: Vec<JudgedTrial>,
}

type Bounded = (Rate, Interval);

impl Search<'_> {
    fn run(&mut self) -> Result<Bounded, End> {
        if !self.settings.warm_up.is_zero() {
            let ask = Ask {
                rate: self.settings.start,
                duration: self.settings.warm_up,
                phase: TrialPhase::WarmUp,
                number: 0,
            };
            self.trial.run(ask).map_err(End::Stopped)?;
        }
        if let Some(step) = self.settings.step {
            return self.stepwise(step);
        }
        let (kept, broken) = self.rise()?;
        let (kept, broken) = self.bisect(kept, broken)?;
        self.confirm(kept, broken)
    }

    /// One trial; whether all objectives held.
    fn judge(&mut self, rate: Rate, phase: TrialPhase) -> Result<bool, End> {
        for attempt in 0..2 {
            if self.steps.len() >= self.settings.trials_max as usize {
                return Err(End::TrialsUsedUp);
            }
            let ask = Ask { rate, duration: self.settings.trial, phase, number: self.steps.len() as u32 + 1 };
            let observed = self.trial.run(ask).map_err(End::Stopped)?;
            let broken = self.broken(&observed);
            let limit = observed.generator_limit.clone().filter(|_| !broken.is_empty());
            self.steps.push(JudgedTrial { ask, observed, broken });
            let step = self.steps.last().expect("one was pushed");
            self.trial.judged(step);
            (self.seen)(step);
            match limit {
                None => return Ok(step.passed()),
                Some(cause) if attempt == 1 => return Err(End::GeneratorLimited(cause)),
                Some(_) => {}
            }
        }
        unreachable!("the second attempt returns")
    }

    fn broken(&self, observed: &Observed) -> Vec<String> {
        let mut broken: Vec<String> = self
            .settings
            .objectives
            .iter()
            .filter(|objective| !objective.holds(observed))
            .map(|objective| format!("{} is {}", objective.what, objective.what.show(objective.what.of(observed))))
            .collect();
        if observed.achieved_per_s < observed.offered_per_s * self.settings.throughput_min {
            let (achieved, offered) = (Rate::new(observed.achieved_per_s), Rate::new(observed.offered_per_s));
            broken.push(format!("{achieved} of {offered} were answered in time"));
        }
        broken
    }

    /// Doubles the rate until it is broken twice, or halves it until it is kept.
    fn rise(&mut self) -> Result<(Rate, Rate), End> {
        let (mut rate, mut kept) = (self.settings.start, None);
        let mut broken = None;
        loop {
            // A lone stall of the machine must not set the bracket.
            let holds = self.judge(rate, TrialPhase::Rise)? || self.judge(rate, TrialPhase::Rise)?;
            match holds {
                true if rate >= self.settings.rate_max => return Err(End::KeptAtMax),
                true => kept = Some(rate),
                false => broken = Some(rate),
            }
            rate = match (kept, broken) {
                (Some(kept), Some(broken)) => return Ok((kept, broken)),
                (Some(kept), None) => Rate::new((kept.per_s() * 2.0).min(self.settings.rate_max.per_s())),
                (None, _) if rate.per_s() < 1.0 => return Err(End::NeverKept),
                (None, _) => Rate::new(rate.per_s() / 2.0),
            };
        }
    }

    fn bisect(&mut self, mut kept: Rate, mut broken: Rate) -> Result<(Rate, Rate), End> {
        while broken.per_s() / kept.per_s() > 1.0 + self.settings.tolerance {
            let middle = Rate::new((kept.per_s() * broken.per_s()).sqrt());
            match self.judge(middle, TrialPhase::Bisect)? {
                true => kept = middle,
                false => broken = middle,
            }
        }
        Ok((kept, broken))
    }

    /// The answer and both ends of the interval, each by repeats.
    fn confirm(&mut self, kept: Rate, broken: Rate) -> Result<Bounded, End> {
        let (answer, above) = self.settle(kept, broken)?;
        let mut lower = answer;
        while !self.unanimous(lower, true)? {
            lower = self.down(lower)?;
        }
        let mut upper = above;
        while !self.unanimous(upper, false)? {
            upper = self.up(upper)?;
        }
        let confidence = 1.0 - 2.0 * 0.5f64.powi(self.settings.confirmations as i32);
        Ok((answer, Interval { lower, upper, confidence: Some(confidence) }))
    }

    /// The highest rate that holds by its repeats, and the next one above it, which does not.
    fn settle(&mut self, kept: Rate, broken: Rate) -> Result<(Rate, Rate), End> {
        let (mut rate, mut above) = (kept, broken);
        while !self.holds_together(rate)? {
            (rate, above) = (self.down(rate)?, rate);
        }
        if rate < kept {
            return Ok((rate, above));
        }
        while self.holds_together(above)? {
            (rate, above) = (above, self.up(above)?);
        }
        Ok((rate, above))
    }

    fn down(&self, rate: Rate) -> Result<Rate, End> {
        let lower = rate.per_s() / (1.0 + self.settings.tolerance);
        if lower < 1.0 { Err(End::NeverKept) } else { Ok(Rate::new(lower)) }
    }

    fn up(&self, rate: Rate) -> Result<Rate, End> {
        if rate >= self.settings.rate_max {
            return Err(End::KeptAtMax);
        }
        Ok(Rate::new((rate.per_s() * (1.0 + self.settings.tolerance)).min(self.settings.rate_max.per_s())))
    }

    /// Returns whether most of the repeats at `rate` meet the objectives, and all repeats taken together do.
    fn holds_together(&mut self, rate: Rate) -> Result<bool, End> {
        let mut failures = 0;
        for _ in 0..self.settings.confirmations {
            failures += u32::from(!self.judge(rate, TrialPhase::Confirm)?);
            if failures * 2 > self.settings.confirmations {
                return Ok(false);
            }
        }
        let together = Observed::together(self.repeats(rate).map(|step| &step.observed));
        Ok(together.is_some_and(|together| self.broken(&together).is_empty()))
    }

    fn repeats(&self, rate: Rate) -> impl Iterator<Item = &JudgedTrial> {
        self.steps.iter().filter(move |step| step.ask.rate == rate && step.ask.phase == TrialPhase::Confirm)
    }

    /// Returns whether the required number of repeats all end with `passing`. Repeats that were already run count. The
    /// first that differs ends the check.
    fn unanimous(&mut self, rate: Rate, passing: bool) -> Result<bool, End> {
        if self.repeats(rate).any(|step| step.passed() != passing) {
            return Ok(false);
        }
        for _ in self.repeats(rate).count()..self.settings.confirmations as usize {
            if self.judge(rate, TrialPhase::Confirm)? != passing {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One trial a step, until one fails.
    fn stepwise(&mut self, step: Rate) -> Result<Bounded, End> {
        let (mut rate, mut kept) = (self.settings.start, None);
        while self.judge(rate, TrialPhase::Step)? {
            if rate >= self.settings.rate_max {
                return Err(End::KeptAtMax);
            }
            kept = Some(rate);
            rate = Rate::new((rate.per_s() + step.per_s()).min(self.settings.rate_max.per_s()));
        }
        let lower = kept.ok_or(End::NeverKept)?;
        Ok((lower, Interval { lower, upper: rate, confidence: None }))
    }

    /// The highest rate of a trial that passed.
    fn highest_kept(&self) -> Option<Rate> {
        let kept = self.steps.iter().filter(|step| step.passed()).map(|step| step.ask.rate);
        kept.max_by(|a, b| a.per_s().total_cmp(&b.per_s()))
    }
}

/// Describes in a sentence how an interval was obtained.
pub fn method(settings: &SearchSettings) -> String {
    match settings.step {
        Some(step) => format!(
            "stepwise: one trial of {} s at each rate, up by {step} until one broke an objective; single trials \
             decide, so the interval has no stated confidence",
            settings.trial.as_secs_f64()
        ),
        None => format!(
            "rise by doubling, bisection to {} %, then repeats: the rate is the highest at which {n} trials taken \
             together keep all objectives; at the lower end {n} of {n} kept them, at the upper end {n} of {n} broke \
             one; by two sign tests the rate at which a trial of {} s is as likely to pass as to fail lies between \
             them with a confidence of at least {:.1} %",
            settings.tolerance * 100.0,
            settings.trial.as_secs_f64(),
            100.0 - 200.0 * 0.5f64.powi(settings.confirmations as i32),
            n = settings.confirmations,
        ),
    }
}
