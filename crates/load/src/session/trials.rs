//! Runs the engine as the trials of a search.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::follow::follow;
use super::{Carry, Freedom, RunControl, View, agents, settling, verdict};
use crate::engine::{Config, Control, Ending, Error, Run};
use crate::report::terminal::RunProgress;
use crate::result::{Figures, Interval, StepResult, Timeline, from_run, searched};
use crate::search::{JudgedTrial, Observed, SearchOutcome, Stop, Trial, TrialPhase, TrialRequest};

/// Approximate number of timeline slices of one trial.
const SLICES: u32 = 10;

/// Runs of the engine, with the results of each.
pub(super) struct Trials<'a> {
    config: &'a Config,
    carry: Carry<'a>,
    run_control: &'a RunControl,
    view: &'a mut dyn View,
    started: Instant,
    intervals: Vec<Interval>,
    /// Figures by the trial's number.
    figures: HashMap<u32, Figures>,
    /// The reasons why the generator was the bottleneck, in a few words, by the trial's number.
    limits: HashMap<u32, String>,
    error: Option<Error>,
    /// Time at which the last run's schedule began, in seconds since the start.
    began_s: f64,
    lines: agents::HostTimelines,
    /// True if the runs are a sequence of rates without verdicts.
    pub is_stepped: bool,
}

impl<'a> Trials<'a> {
    pub fn new(
        config: &'a Config,
        carry: Carry<'a>,
        run_control: &'a RunControl,
        view: &'a mut dyn View,
        started: Instant,
    ) -> Self {
        let (intervals, figures, limits) = (Vec::new(), HashMap::new(), HashMap::new());
        let (error, began_s, lines) = (None, 0.0, agents::HostTimelines::default());
        Self {
            config,
            carry,
            run_control,
            view,
            started,
            intervals,
            figures,
            limits,
            error,
            began_s,
            lines,
            is_stepped: false,
        }
    }

    pub fn take_intervals(&mut self) -> Vec<Interval> {
        std::mem::take(&mut self.intervals)
    }

    /// Returns whether the last run's rate was set from outside.
    pub fn is_rate_set(&self) -> bool {
        self.run_control.is_rate_set()
    }

    /// Takes the timelines that the hosts recorded during the runs.
    pub fn take_lines(&mut self) -> Vec<Timeline> {
        std::mem::take(&mut self.lines).into_timelines()
    }

    pub fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    /// Returns the combined figures of the trials at the answer, or those of the last trial if there is no answer.
    pub fn figures_of(&self, found: &SearchOutcome) -> Figures {
        let numbers: Vec<u32> = match found.at_answer() {
            at_answer if at_answer.is_empty() => found.steps.last().map(|step| step.ask.number).into_iter().collect(),
            at_answer => at_answer.iter().map(|step| step.ask.number).collect(),
        };
        let several: Vec<&Figures> = numbers.iter().filter_map(|number| self.figures.get(number)).collect();
        from_run::together(&several)
    }

    /// Returns the combined figures of these trials.
    pub fn figures_together(&self, steps: &[JudgedTrial]) -> Figures {
        let several = steps.iter().filter_map(|step| self.figures.get(&step.ask.number));
        from_run::together(&several.collect::<Vec<_>>())
    }

    /// Removes the remedies from the trials' lines about the generator; the verdict contains them once.
    pub fn shorten(&self, steps: &mut [StepResult]) {
        for step in steps {
            step.generator_limit = self.limits.get(&step.number).cloned();
        }
    }

    /// Carries out one run of the engine and follows it.
    pub fn engine(&mut self, config: &Config, rate_per_s: f64, what: &str, freedom: Freedom) -> Result<Run, Error> {
        let control = Arc::new(Control::new(rate_per_s));
        self.run_control.begin(&control, what, freedom);
        let (over, ended) = channel();
        let length_ns = config.warm_up_ns + config.duration_ns;
        let (view, carry) = (&mut *self.view, &mut *self.carry);
        let (run, cut) = std::thread::scope(|scope| {
            let followed = control.clone();
            let mut tell = |progress: &RunProgress| view.progress(progress);
            let builder = std::thread::Builder::new().name("follow".to_owned());
            let follower = builder
                .spawn_scoped(scope, move || follow(&followed, config.slice_ns, length_ns, what, &ended, &mut tell))
                .map_err(|error| Error::System { doing: "starting the thread that follows the run", error })?;
            let run = carry(config, &control);
            drop(over);
            let cut = follower.join().unwrap_or_default();
            Ok((run?, cut))
        })?;
        // The engine reports the start of its schedule by the wall clock. The session converts it to the monotonic
        // clock.
        let ago_ms = base::clock::UnixMillis::now().0.saturating_sub(run.started_unix_ms);
        self.began_s = (self.started.elapsed().as_secs_f64() - ago_ms as f64 / 1e3).max(0.0);
        self.lines.add(&run.hosts, self.began_s);
        // The slices after the measured part contain only late replies, so their rates are meaningless.
        let within = run.bulk.timeline.partition_point(|slice| slice.begin_ns < length_ns);
        self.intervals.extend(cut.intervals(&run.bulk.timeline[..within], self.began_s));
        Ok(run)
    }
}

/// Returns the configuration of one trial of this length.
fn trial_config(config: &Config, trial: Duration) -> Config {
    let settling = settling(trial);
    let slice = (trial / SLICES).clamp(Duration::from_millis(20), Duration::from_secs(1));
    // Only slices that lie wholly within the measured part are measured, so the measured part begins at the start of a
    // slice.
    let slices = (settling.as_nanos() as u64).div_ceil(slice.as_nanos() as u64);
    Config {
        warm_up_ns: slices * slice.as_nanos() as u64,
        duration_ns: trial.as_nanos() as u64,
        slice_ns: slice.as_nanos() as u64,
        ..config.clone()
    }
}

/// Converts the measurements of a run to those by which the search judges a trial.
pub(super) fn observed(run: &Run, began_s: f64) -> Observed {
    let totals = &run.bulk.totals;
    let seconds = run.bulk.measured_ns as f64 / 1e9;
    let limits: Vec<String> = run.limits.iter().map(ToString::to_string).collect();
    Observed {
        began_s,
        offered_per_s: if seconds > 0.0 { totals.due as f64 / seconds } else { 0.0 },
        achieved_per_s: from_run::answered_in_time_per_s(run),
        answered: totals.answered,
        unanswered: totals.lost + totals.unsent,
        errors: totals.errors + totals.wrong,
        misses: totals.misses,
        response_ns: run.bulk.response.as_hdr().clone(),
        generator_limit: (!limits.is_empty()).then(|| limits.join("; ")),
    }
}

impl Trial for Trials<'_> {
    fn run(&mut self, ask: TrialRequest) -> Result<Observed, Stop> {
        if self.run_control.is_stopped() {
            return Err(Stop::Asked);
        }
        let phase = searched::phase_name(ask.phase);
        let what =
            if ask.phase == TrialPhase::WarmUp { phase.to_owned() } else { format!("trial {}, {phase}", ask.number) };
        let config = trial_config(self.config, ask.duration);
        let freedom = if self.is_stepped { Freedom::ThisRun } else { Freedom::Searching };
        let run = match self.engine(&config, ask.rate.per_s(), &what, freedom) {
            Ok(run) => run,
            Err(error) => {
                let words = error.to_string();
                self.error = Some(error);
                return Err(Stop::Failed(words));
            }
        };
        if self.run_control.is_stopped() || run.ending == Ending::Stopped {
            return Err(Stop::Asked);
        }
        if run.ending == Ending::HostLost {
            return Err(Stop::Failed(agents::lost(&run.hosts).unwrap_or_default()));
        }
        if let Some(why) = verdict::unheard(&run) {
            return Err(Stop::Failed(why));
        }
        if run.ending == Ending::Deserted {
            let first = verdict::first_fault(&run);
            return Err(Stop::Failed(format!("no connection was left at the end of a trial{first}")));
        }
        let figures = from_run::figures(&run);
        self.figures.insert(ask.number, figures);
        if !run.limits.is_empty() {
            let causes: Vec<String> = run.limits.iter().map(from_run::brief).collect();
            self.limits.insert(ask.number, causes.join(", "));
        }
        Ok(observed(&run, self.began_s + config.warm_up_ns as f64 / 1e9))
    }

    fn judged(&mut self, step: &JudgedTrial) {
        let mut line = StepResult::from(step);
        self.shorten(std::slice::from_mut(&mut line));
        self.view.step(&line);
    }
}
