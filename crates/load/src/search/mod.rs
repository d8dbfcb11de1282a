//! Searches by trials for the highest rate at which a service meets its objectives.
//!
//! ```text
//!   warm up ──> rise: x 2 until a trial fails twice ──> bisect: [met, broken] until they are one step apart
//!                                                                        │
//!   answer       the highest rate at which N repeats, taken together, meet the objectives  <── a step at a time
//!   lower end    the highest rate that met them in N repeats of N      <── downwards from the answer
//!   upper end    the lowest rate that broke them in N repeats of N     <── upwards from the answer
//! ```
//!
//! A trial runs the service at a rate for a time. The [`Trial`] trait executes it, so the search itself is pure logic:
//! the same trial results give the same answer.
//!
//! The interval assumes only that a higher rate never makes a trial more likely to pass. At the rate where a trial
//! passes or fails with equal probability, N trials in a row pass with a probability of 2^-N. So with N = 5 each end is
//! on the wrong side of that rate with a probability of at most 3.1 %, and both are correct with at least 93.75 %.
//!
//! Invariants: a single stall never decides the bracket, because a trial that fails during the rise is repeated. A
//! trial that fails while the generator was the bottleneck gives no verdict on the service and ends the search; the
//! trials below it still give a lower bound. The search ends after at most [`SearchSettings::trials_max`] trials.

pub mod objective;
pub mod rate;
#[cfg(test)]
mod tests;

use std::time::Duration;

use hdrhistogram::Histogram;

use objective::Condition;
use rate::Rate;

/// The purpose of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialPhase {
    /// Warm-up, which is not judged: caches fill, connections open.
    WarmUp,
    /// The rate is doubled, or halved if the first rate is too high.
    Rise,
    /// The bracket is halved.
    Bisect,
    /// A rate is repeated.
    Confirm,
    /// The rate rises by fixed steps.
    Step,
}

/// Parameters of a [`Trial`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialRequest {
    /// The rate at which requests become due.
    pub rate: Rate,
    /// Time during which requests become due.
    pub duration: Duration,
    /// Purpose of the trial.
    pub phase: TrialPhase,
    /// Number of trials before this one.
    pub number: u32,
}

/// Measurements of a trial.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Time at which requests were first due, in seconds since the start of the whole run.
    pub began_s: f64,
    /// Requests that were due per second; with a random schedule this differs from the requested rate.
    pub offered_per_s: f64,
    /// Replies per second.
    pub achieved_per_s: f64,
    /// Requests with a reply, including errors.
    pub answered: u64,
    /// Requests that were due and got no reply.
    pub unanswered: u64,
    /// Replies that are errors.
    pub errors: u64,
    /// Reads that did not find their key.
    pub misses: u64,
    /// Response times from the intended instants, in nanoseconds.
    pub response_ns: Histogram<u64>,
    /// The reason why the generator and not the service limited the trial, if it did.
    pub generator_limit: Option<String>,
}

impl Observed {
    /// Combines several trials; `None` if there are none.
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
            sum.response_ns.add(&one.response_ns).expect("all histograms have the same bounds or resize");
            sum.generator_limit = sum.generator_limit.or_else(|| one.generator_limit.clone());
            Some(sum)
        })?;
        sum.offered_per_s /= count;
        sum.achieved_per_s /= count;
        Some(sum)
    }
}

/// The reason why a trial has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A stop was requested.
    Asked,
    /// The trial could not run: the event, and the remedy.
    Failed(String),
}

/// A way to run a service at a rate.
pub trait Trial {
    /// Runs the trial and returns its measurements. All requests have a reply or are given up before it returns.
    fn run(&mut self, ask: TrialRequest) -> Result<Observed, Stop>;

    /// Receives the verdict on the trial.
    fn judged(&mut self, step: &JudgedTrial) {
        let _ = step;
    }
}

/// Parameters of the search.
#[derive(Clone, Debug)]
pub struct SearchSettings {
    /// Objectives that must all be met.
    pub objectives: Vec<Condition>,
    /// Lowest share of the offered rate that must be achieved, 0 to 1.
    pub throughput_min: f64,
    /// First rate of the rise.
    pub start: Rate,
    /// Highest rate of any trial.
    pub rate_max: Rate,
    /// If set, the rate rises by this much from `start` until a trial fails, instead of by bisection.
    pub step: Option<Rate>,
    /// The bracket is narrowed until the ratio of its ends is at most 1 plus this.
    pub tolerance: f64,
    /// Number of trials that must agree on each end of the interval.
    pub confirmations: u32,
    /// Duration of a trial.
    pub trial: Duration,
    /// Duration of the warm-up; zero for none.
    pub warm_up: Duration,
    /// Highest number of trials.
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

/// One trial and its verdict.
#[derive(Clone, Debug)]
pub struct JudgedTrial {
    /// Parameters of the trial.
    pub ask: TrialRequest,
    /// Measurements of the trial.
    pub observed: Observed,
    /// Descriptions of the objectives that were not met; empty if all were met.
    pub broken: Vec<String>,
}

impl JudgedTrial {
    /// Returns whether all objectives were met.
    pub fn passed(&self) -> bool {
        self.broken.is_empty()
    }
}

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The answer is bounded from both sides.
    Found,
    /// The highest allowed rate met the objectives.
    KeptAtMax,
    /// Even the lowest rate of any trial broke the objectives.
    NeverKept,
    /// The generator was the bottleneck, for this reason.
    GeneratorLimited(String),
    /// The trials were used up before the answer was confirmed.
    TrialsUsedUp,
    /// The search was stopped.
    Stopped(Stop),
}

/// The bounds of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The highest rate that is known to meet the objectives.
    pub lower: Rate,
    /// The lowest rate that is known to break them.
    pub upper: Rate,
    /// Probability that both bounds are correct, 0 to 1; `None` if single trials decided.
    pub confidence: Option<f64>,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct SearchOutcome {
    /// Outcome of the search.
    pub end: End,
    /// The highest rate that met the objectives: in its repeats taken together if `end` is [`End::Found`], otherwise in
    /// the trials that were run. A lower bound if `end` is [`End::KeptAtMax`] or [`End::GeneratorLimited`].
    pub answer: Option<Rate>,
    /// The bounds of the answer.
    pub interval: Option<Interval>,
    /// Every trial, in order.
    pub steps: Vec<JudgedTrial>,
}

impl SearchOutcome {
    /// Returns the trials at the answer: its repeats if there are any, otherwise all.
    pub fn at_answer(&self) -> Vec<&JudgedTrial> {
        let at = |step: &&JudgedTrial| Some(step.ask.rate) == self.answer;
        let repeats: Vec<&JudgedTrial> =
            self.steps.iter().filter(at).filter(|step| step.ask.phase == TrialPhase::Confirm).collect();
        if repeats.is_empty() { self.steps.iter().filter(at).filter(|step| step.passed()).collect() } else { repeats }
    }

    /// Returns the first trial that broke an objective at the lowest rate above the answer.
    pub fn first_broken(&self) -> Option<&JudgedTrial> {
        let floor = self.answer.map_or(0.0, Rate::per_s);
        let above = self.steps.iter().filter(|step| !step.passed() && step.ask.rate.per_s() > floor);
        above.min_by(|a, b| a.ask.rate.per_s().total_cmp(&b.ask.rate.per_s()))
    }
}

/// Runs the search. `seen` is called with every trial as soon as it is judged.
pub fn search(settings: &SearchSettings, trial: &mut dyn Trial, seen: &mut dyn FnMut(&JudgedTrial)) -> SearchOutcome {
    let mut search = Search { settings, trial, seen, steps: Vec::new() };
    let (end, answer, interval) = match search.run() {
        Ok((answer, interval)) => (End::Found, Some(answer), Some(interval)),
        Err(end @ End::GeneratorLimited(_)) => (end, search.sound_bound(), None),
        Err(end) => (end, search.highest_within_slo(), None),
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
            let ask = TrialRequest {
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

    /// Runs one trial. Returns whether all objectives were met.
    fn judge(&mut self, rate: Rate, phase: TrialPhase) -> Result<bool, End> {
        for attempt in 0..2 {
            if self.steps.len() >= self.settings.trials_max as usize {
                return Err(End::TrialsUsedUp);
            }
            let ask = TrialRequest { rate, duration: self.settings.trial, phase, number: self.steps.len() as u32 + 1 };
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
            broken.push(format!("{achieved} of {offered} got a reply in time"));
        }
        broken
    }

    /// Doubles the rate until it is broken twice, or halves it until the objectives are met.
    fn rise(&mut self) -> Result<(Rate, Rate), End> {
        let (mut rate, mut kept) = (self.settings.start, None);
        let mut broken = None;
        loop {
            // A single stall of the machine must not end the rise, so a failed trial is repeated.
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

    /// Finds the answer and both ends of the interval, each by repeats.
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

    /// Returns the highest rate that passes by its repeats, and the next rate above it, which fails.
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

    /// Returns whether the required number of repeats all have the outcome `passing`. Repeats that were already run
    /// count. The first other outcome ends the check.
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

    /// Runs one trial per step until one fails.
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

    /// Returns the highest rate of a trial that passed, below every rate that the service itself broke. A rate is
    /// broken if more trials of it failed without a limit of the generator than passed.
    fn sound_bound(&self) -> Option<Rate> {
        let is_broken = |rate: Rate| {
            let of_rate = || self.steps.iter().filter(move |step| step.ask.rate == rate);
            let failed = of_rate().filter(|step| !step.passed() && step.observed.generator_limit.is_none()).count();
            failed > of_rate().filter(|step| step.passed()).count()
        };
        let rates = || self.steps.iter().map(|step| step.ask.rate);
        let lowest_broken = rates().filter(|rate| is_broken(*rate)).map(Rate::per_s).fold(f64::INFINITY, f64::min);
        let passed = self.steps.iter().filter(|step| step.passed()).map(|step| step.ask.rate);
        passed.filter(|rate| rate.per_s() < lowest_broken).max_by(|a, b| a.per_s().total_cmp(&b.per_s()))
    }

    /// Returns the highest rate of a trial that passed.
    fn highest_within_slo(&self) -> Option<Rate> {
        let kept = self.steps.iter().filter(|step| step.passed()).map(|step| step.ask.rate);
        kept.max_by(|a, b| a.per_s().total_cmp(&b.per_s()))
    }
}

/// Describes in a sentence how an interval was obtained.
pub fn method(settings: &SearchSettings) -> String {
    match settings.step {
        Some(step) => format!(
            "stepwise: one trial of {} s at each rate, rising by {step} until one broke an objective; single trials \
             decide, so the interval has no stated confidence",
            settings.trial.as_secs_f64()
        ),
        None => format!(
            "rise by doubling, bisection to {} %, then repeats: the rate is the highest at which {n} trials taken \
             together meet all objectives; at the lower end {n} of {n} met them, at the upper end {n} of {n} broke \
             one; by two sign tests, the rate at which a trial of {} s is equally likely to pass or fail lies between \
             them with a confidence of at least {:.1} %",
            settings.tolerance * 100.0,
            settings.trial.as_secs_f64(),
            100.0 - 200.0 * 0.5f64.powi(settings.confirmations as i32),
            n = settings.confirmations,
        ),
    }
}
