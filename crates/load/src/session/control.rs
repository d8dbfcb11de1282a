//! The control of a session: stop requests, rate changes and live figures. The terminal, the admin port and the signal
//! handlers share it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::{Control, Live};
use crate::search::rate::Rate;

/// Control point of a session.
#[derive(Debug, Default)]
pub struct RunControl {
    current: Mutex<Current>,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct Current {
    control: Option<Arc<Control>>,
    freedom: Freedom,
    /// True if the rate was set from outside during this run.
    is_set: bool,
    /// True if a later run will accept a rate.
    is_awaited: bool,
    /// Name of the current activity.
    what: String,
    /// The rate that was requested from outside.
    asked: Option<Rate>,
}

/// The rule for setting the rate of a run from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freedom {
    /// Any caller may set the rate. It applies to this run and all later runs.
    Free,
    /// Any caller may set the rate. It applies only to this run: the next run has its own configured rate.
    ThisRun,
    /// Only the search may set the rate.
    Searching,
    /// No caller may set the rate: a closed loop has none.
    Closed,
    /// No caller may set the rate: no run is in progress.
    #[default]
    NotYet,
}

/// The outcome of a request for a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateTaken {
    /// The rate takes effect now.
    FromNowOn,
    /// The rate applies until the next step begins. That step has its own rate.
    ThisStep,
    /// The rate takes effect when the next run at a rate begins. The current run has no rate.
    Later,
}

impl RateTaken {
    /// Describes the outcome in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::FromNowOn => "from now on",
            Self::ThisStep => "until the next step, which has its own rate",
            Self::Later => "when the next run at a rate begins",
        }
    }
}

/// The reason why a rate was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateRefused {
    /// A search sets the rate.
    Searching,
    /// A closed loop has no rate, and neither has a trace.
    Closed,
    /// No run with a rate is in progress.
    NotYet,
}

impl RateRefused {
    /// Describes the reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Searching => "a search sets the rate itself; start the run with --rate to set it manually",
            Self::Closed => "neither a closed loop nor a trace has a rate; start the run with --rate to set one",
            Self::NotYet => "no run with a rate is in progress; try again when one is",
        }
    }
}

impl RunControl {
    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the session soon; its measurements are reported.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(control) = &self.lock().control {
            control.stop();
        }
    }

    /// Returns whether [`RunControl::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Announces a later run with a settable rate. A rate that is requested before that run is stored for it.
    pub fn await_rate(&self) {
        self.lock().is_awaited = true;
    }

    /// Requests another rate.
    ///
    /// # Errors
    /// If the current run has no rate, or sets its rate itself.
    pub fn set_rate(&self, rate: Rate) -> Result<RateTaken, RateRefused> {
        let mut current = self.lock();
        let taken = match current.freedom {
            Freedom::Free => RateTaken::FromNowOn,
            Freedom::ThisRun => RateTaken::ThisStep,
            Freedom::Closed | Freedom::NotYet if current.is_awaited => RateTaken::Later,
            Freedom::Searching => return Err(RateRefused::Searching),
            Freedom::Closed => return Err(RateRefused::Closed),
            Freedom::NotYet => return Err(RateRefused::NotYet),
        };
        if taken != RateTaken::ThisStep {
            current.asked = Some(rate);
        }
        current.is_set = true;
        if let (Some(control), true) = (&current.control, taken != RateTaken::Later) {
            control.set_rate(rate.per_s());
        }
        Ok(taken)
    }

    /// Returns the requested rate per second; 0 if there is none.
    pub fn rate_per_s(&self) -> f64 {
        self.lock().control.as_ref().map_or(0.0, |control| control.rate_per_s())
    }

    /// Returns the figures of the current run, and its purpose.
    pub fn live(&self) -> Option<(String, Live)> {
        let (what, control) = {
            let current = self.lock();
            (current.what.clone(), current.control.clone()?)
        };
        Some((what, control.live()))
    }

    /// Returns whether a rate was set from outside during the run that began last.
    pub(super) fn is_rate_set(&self) -> bool {
        self.lock().is_set
    }

    /// Registers the run that begins. An earlier stop request or rate request also applies to it.
    pub(super) fn begin(&self, control: &Arc<Control>, what: &str, freedom: Freedom) {
        let mut current = self.lock();
        current.control = Some(control.clone());
        current.what = what.to_owned();
        current.freedom = freedom;
        current.is_set = false;
        if freedom == Freedom::Free {
            current.is_awaited = false;
            if let Some(rate) = current.asked {
                control.set_rate(rate.per_s());
            }
        }
        if self.is_stopped() {
            control.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_and_rate_set_between_runs_apply_to_next_run() {
        let run_control = RunControl::default();
        let (first, second) = (Arc::new(Control::new(10.0)), Arc::new(Control::new(10.0)));
        run_control.begin(&first, "run", Freedom::Free);
        assert_eq!(run_control.set_rate(Rate::new(50.0)), Ok(RateTaken::FromNowOn));
        assert_eq!(first.rate_per_s(), 50.0);
        run_control.stop();
        assert!(first.is_stopped());
        run_control.begin(&second, "run", Freedom::Free);
        assert!(second.is_stopped() && second.rate_per_s() == 50.0);
    }

    #[test]
    fn rate_set_during_prefill_applies_only_to_following_run() {
        let run_control = RunControl::default();
        run_control.await_rate();
        assert_eq!(run_control.set_rate(Rate::new(20.0)), Ok(RateTaken::Later));
        let (prefill, run) = (Arc::new(Control::new(0.0)), Arc::new(Control::new(10.0)));
        run_control.begin(&prefill, "prefill", Freedom::Closed);
        assert_eq!(run_control.set_rate(Rate::new(30.0)), Ok(RateTaken::Later));
        assert_eq!(prefill.rate_per_s(), 0.0);
        run_control.begin(&run, "open loop", Freedom::Free);
        assert_eq!(run.rate_per_s(), 30.0);
    }

    #[test]
    fn rate_set_during_a_step_ends_with_the_step() {
        let run_control = RunControl::default();
        let (first, second) = (Arc::new(Control::new(10.0)), Arc::new(Control::new(20.0)));
        run_control.begin(&first, "trial 1, step", Freedom::ThisRun);
        assert_eq!(run_control.set_rate(Rate::new(50.0)), Ok(RateTaken::ThisStep));
        assert!(first.rate_per_s() == 50.0 && run_control.is_rate_set());
        run_control.begin(&second, "trial 2, step", Freedom::ThisRun);
        assert!(second.rate_per_s() == 20.0 && !run_control.is_rate_set());
    }

    #[test]
    fn a_rate_is_refused_where_it_would_mean_nothing() {
        let run_control = RunControl::default();
        assert_eq!(run_control.set_rate(Rate::new(1.0)), Err(RateRefused::NotYet));
        run_control.begin(&Arc::new(Control::new(0.0)), "closed loop", Freedom::Closed);
        assert_eq!(run_control.set_rate(Rate::new(1.0)), Err(RateRefused::Closed));
        run_control.begin(&Arc::new(Control::new(9.0)), "trial 1, rise", Freedom::Searching);
        assert_eq!(run_control.set_rate(Rate::new(1.0)), Err(RateRefused::Searching));
        assert!(run_control.live().is_some() && RunControl::default().live().is_none());
    }
}
