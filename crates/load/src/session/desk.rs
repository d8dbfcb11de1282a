//! What is said to a session while it goes: the end, another rate; and what it shows. Shared by the terminal, the admin
//! port and the signals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::{Control, Live};
use crate::search::rate::Rate;

/// Control point of a session.
#[derive(Debug, Default)]
pub struct Desk {
    current: Mutex<Current>,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct Current {
    control: Option<Arc<Control>>,
    freedom: Freedom,
    /// A rate was set from outside during this run.
    is_set: bool,
    /// A run at a rate that may be set comes later.
    is_awaited: bool,
    /// Name of the current activity.
    what: String,
    /// The rate that was asked for from outside.
    asked: Option<Rate>,
}

/// Party that sets the rate of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freedom {
    /// Any caller: the rate holds from then on, also for later runs.
    Free,
    /// Any caller: the rate holds until the run ends, as the next run has a rate of its own.
    ThisRun,
    /// A search.
    Searching,
    /// None: it is a closed loop.
    Closed,
    /// None: nothing runs yet.
    #[default]
    NotYet,
}

/// Outcome of a request for a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateTaken {
    /// It holds from now on.
    FromNowOn,
    /// It holds until the next step begins, which has a rate of its own.
    ThisStep,
    /// It holds from when the run at a rate begins; what goes on now has none.
    Later,
}

impl RateTaken {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::FromNowOn => "from now on",
            Self::ThisStep => "until the next step, which has a rate of its own",
            Self::Later => "when the run at a rate begins",
        }
    }
}

/// Why a rate was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateRefused {
    /// A search sets it.
    Searching,
    /// A closed loop has none, nor has a trace.
    Closed,
    /// No run that has a rate is under way.
    NotYet,
}

impl RateRefused {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Searching => "a search sets the rate itself; start the run with --rate to set it by hand",
            Self::Closed => "a closed loop has no rate, nor has a trace; start the run with --rate to set one",
            Self::NotYet => "nothing runs yet that has a rate; ask again when it does",
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the session soon; what was measured is kept.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(control) = &self.lock().control {
            control.stop();
        }
    }

    /// Returns whether [`Desk::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// A run whose rate may be set comes, after what has none: a rate that is asked for before it holds for it.
    pub fn await_rate(&self) {
        self.lock().is_awaited = true;
    }

    /// Asks for another rate.
    ///
    /// # Errors
    /// When what runs has none, or sets it itself.
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

    /// The rate that is asked for, a second; 0 if there is none.
    pub fn rate_per_s(&self) -> f64 {
        self.lock().control.as_ref().map_or(0.0, |control| control.rate_per_s())
    }

    /// The figures of the run that is under way, and what it is for.
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

    /// A run begins. A stop that came before it holds for it too, and so does a rate that was asked for.
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
    fn a_stop_and_a_rate_that_come_between_two_runs_hold_for_the_next() {
        let desk = Desk::default();
        let (first, second) = (Arc::new(Control::new(10.0)), Arc::new(Control::new(10.0)));
        desk.begin(&first, "run", Freedom::Free);
        assert_eq!(desk.set_rate(Rate::new(50.0)), Ok(RateTaken::FromNowOn));
        assert_eq!(first.rate_per_s(), 50.0);
        desk.stop();
        assert!(first.is_stopped());
        desk.begin(&second, "run", Freedom::Free);
        assert!(second.is_stopped() && second.rate_per_s() == 50.0);
    }

    #[test]
    fn a_rate_that_comes_during_a_prefill_holds_for_the_run_and_not_before() {
        let desk = Desk::default();
        desk.await_rate();
        assert_eq!(desk.set_rate(Rate::new(20.0)), Ok(RateTaken::Later));
        let (prefill, run) = (Arc::new(Control::new(0.0)), Arc::new(Control::new(10.0)));
        desk.begin(&prefill, "prefill", Freedom::Closed);
        assert_eq!(desk.set_rate(Rate::new(30.0)), Ok(RateTaken::Later));
        assert_eq!(prefill.rate_per_s(), 0.0);
        desk.begin(&run, "open loop", Freedom::Free);
        assert_eq!(run.rate_per_s(), 30.0);
    }

    #[test]
    fn a_rate_that_comes_in_a_step_ends_with_it() {
        let desk = Desk::default();
        let (first, second) = (Arc::new(Control::new(10.0)), Arc::new(Control::new(20.0)));
        desk.begin(&first, "trial 1, step", Freedom::ThisRun);
        assert_eq!(desk.set_rate(Rate::new(50.0)), Ok(RateTaken::ThisStep));
        assert!(first.rate_per_s() == 50.0 && desk.is_rate_set());
        desk.begin(&second, "trial 2, step", Freedom::ThisRun);
        assert!(second.rate_per_s() == 20.0 && !desk.is_rate_set());
    }

    #[test]
    fn a_rate_is_refused_where_it_would_mean_nothing() {
        let desk = Desk::default();
        assert_eq!(desk.set_rate(Rate::new(1.0)), Err(RateRefused::NotYet));
        desk.begin(&Arc::new(Control::new(0.0)), "closed loop", Freedom::Closed);
        assert_eq!(desk.set_rate(Rate::new(1.0)), Err(RateRefused::Closed));
        desk.begin(&Arc::new(Control::new(9.0)), "trial 1, rise", Freedom::Searching);
        assert_eq!(desk.set_rate(Rate::new(1.0)), Err(RateRefused::Searching));
        assert!(desk.live().is_some() && Desk::default().live().is_none());
    }
}
