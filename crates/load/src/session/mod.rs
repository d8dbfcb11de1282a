//! A session of the generator from start to result: one run, or the trials of a search, with the timelines of host and
//! server.
//!
//! ```text
//!   Job ──> run ──┬─ engine::run        once, or for every trial of the search (or agents::Fleet, on several hosts)
//!                 ├─ follow             intervals and progress, from the engine's live figures
//!                 ├─ timeline::Recorder host and server during the run
//!                 └─ result::from_run   the measurements, as plain data   ──> RunResult with its verdict
//!   RunControl    stop, rate, live figures: for the terminal, the admin port and signals
//! ```
//!
//! Invariant: however a session ends, its result contains the measurements so far and is marked as partial if it is
//! incomplete.

pub mod admin;
mod agents;
mod control;
mod follow;
mod steps;
mod trials;
pub mod verdict;

pub use control::{Freedom, RateRefused, RateTaken, RunControl};

use std::time::{Duration, Instant};

use crate::engine::{self, Config, Control, Error, Load, Run, TrafficThread};
use crate::report::terminal::RunProgress;
use crate::result::{RunResult, SearchResult, StepResult, from_run, searched};
use crate::schedule::SendPlan;
use crate::search::objective::Condition;
use crate::search::rate::Rate;
use crate::search::{End, JudgedTrial, SearchSettings, Stop};
use crate::timeline::{Recorder, Source};
use crate::traffic::Traffic;
use trials::Trials;

/// The kind of a session.
#[derive(Clone, Debug)]
pub enum Mode {
    /// One run at a rate that can change during the run.
    AtRate(Rate),
    /// One run at the instants of a trace.
    Traced,
    /// One run in a closed loop, or blind.
    Closed,
    /// A search.
    Search(SearchSettings),
    /// A sequence of rates, independent of their results.
    Steps(Stepped),
}

/// A sequence of rates.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped {
    /// The rates in order; at least one.
    pub rates: Vec<Rate>,
    /// Duration of each rate.
    pub each: Duration,
}

/// A session to run.
pub struct Job {
    /// The parts of the result that are known in advance: name, targets, arguments, machine.
    pub known: RunResult,
    /// The engine's configuration; a search sets the durations of its trials itself.
    pub config: Config,
    /// Kind of session.
    pub mode: Mode,
    /// Conditions by which a run at a rate is judged.
    pub objectives: Vec<Condition>,
    /// Conditions that must hold at the end.
    pub assertions: Vec<Condition>,
    /// Sources that are read during the session.
    pub sources: Vec<Box<dyn Source>>,
}

/// A receiver of a session's progress.
pub trait View: Send {
    /// Reports the progress of a run.
    fn progress(&mut self, progress: &RunProgress);
    /// Reports a completed trial.
    fn step(&mut self, step: &StepResult);
}

/// A function that carries out one run: with the engine of this host, or with the agents of several.
pub type Carry<'a> = &'a mut dyn FnMut(&Config, &Control) -> Result<Run, Error>;

/// Runs `job` on this host. `make_traffic` is called once in each thread of each run.
///
/// # Errors
/// If no run could start: the engine's error.
pub fn run<T: Traffic>(
    job: Job,
    make_traffic: impl Fn(TrafficThread) -> T + Sync,
    run_control: &RunControl,
    view: &mut dyn View,
) -> Result<RunResult, Error> {
    run_by(job, &mut |config, control| engine::run(config, &make_traffic, control), run_control, view)
}

/// Runs `job`; `carry` carries out each of its runs.
///
/// # Errors
/// As for [`run`].
pub fn run_by(
    mut job: Job,
    carry: Carry<'_>,
    run_control: &RunControl,
    view: &mut dyn View,
) -> Result<RunResult, Error> {
    let started = Instant::now();
    let recorder = Recorder::start(std::mem::take(&mut job.sources), started)
        .map_err(|error| Error::System { doing: "starting the thread that records the timelines", error })?;
    let mut result = std::mem::take(&mut job.known);
    result.started_at_unix_ms = base::clock::UnixMillis::now().0;
    let mut trials = Trials::new(&job.config, carry, run_control, view, started);
    let outcome = match &job.mode {
        Mode::Search(settings) => searched(settings, &mut trials, &mut result),
        Mode::AtRate(rate) => once(&job, Some(*rate), &mut trials, &mut result),
        Mode::Closed | Mode::Traced => once(&job, None, &mut trials, &mut result),
        Mode::Steps(steps) => steps::stepped(steps, &mut trials, &mut result),
    };
    result.intervals = trials.take_intervals();
    result.timelines = recorder.finish();
    result.timelines.extend(trials.take_lines());
    result.elapsed_s = started.elapsed().as_secs_f64();
    outcome?;
    verdict::finish(&job, &mut result);
    Ok(result)
}

/// Carries out one run with the configured length.
fn once(job: &Job, rate: Option<Rate>, trials: &mut Trials<'_>, result: &mut RunResult) -> Result<(), Error> {
    let what = if matches!(job.mode, Mode::Closed) { "closed loop" } else { "open loop" };
    let freedom = if rate.is_some() { Freedom::Free } else { Freedom::Closed };
    let run = trials.engine(&job.config, rate.map_or(0.0, Rate::per_s), what, freedom)?;
    result.figures = from_run::figures(&run);
    result.objectives = job.objectives.iter().map(ToString::to_string).collect();
    result.objective_line = verdict::line(&job.objectives);
    verdict::of_run(job, &run, result);
    if let Load::Open(SendPlan::Trace { instants, .. }) | Load::Blind(Some(SendPlan::Trace { instants, .. })) =
        &job.config.load
        && let Some(fault) = instants.fault()
    {
        result.partial = Some(fault);
    }
    Ok(())
}

fn searched(settings: &SearchSettings, trials: &mut Trials<'_>, result: &mut RunResult) -> Result<(), Error> {
    let found = crate::search::search(settings, trials, &mut |_: &JudgedTrial| {});
    if let (End::Stopped(Stop::Failed(_)), true, Some(error)) =
        (&found.end, found.steps.is_empty(), trials.take_error())
    {
        return Err(error);
    }
    result.figures = trials.figures_of(&found);
    result.objectives = settings.objectives.iter().map(ToString::to_string).collect();
    result.objective_line = verdict::line(&settings.objectives);
    let mut search = SearchResult::of(settings, &found);
    trials.shorten(&mut search.steps);
    result.search = Some(search);
    let (headline, invalid, partial) = searched::headline(settings, &found);
    result.verdict.headline = headline;
    result.is_broken = found.end == End::NeverKept;
    result.invalid = invalid;
    result.partial = partial;
    Ok(())
}

/// Returns the time between a trial's start and its measured part: a tenth of the trial, at most a second.
fn settling(trial: Duration) -> Duration {
    (trial / 10).clamp(Duration::from_millis(100), Duration::from_secs(1))
}

#[cfg(test)]
mod capacity_tests;
#[cfg(test)]
mod tests;
