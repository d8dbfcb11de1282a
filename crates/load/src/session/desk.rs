//! What is said to a session while it goes: the end, another rate; and what it shows. Shared by the terminal, the admin
//! port and the signals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::{Control, Live};
use crate::search::rate::Rate;

/// Where a session is spoken to.
#[derive(Debug, Default)]
pub struct Desk {
    current: Mutex<Current>,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct Current {
    control: Option<Arc<Control>>,
    /// The rate may be set from outside.
    rate_is_free: bool,
    /// What is being done.
    what: String,
    /// The rate that was asked for from outside.
    asked: Option<Rate>,
}

/// Why a rate was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateRefused {
    /// A search sets it.
    Searching,
    /// A closed loop has none.
    Closed,
}

impl RateRefused {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Searching => "a search sets the rate itself; start the run with --rate to set it by hand",
            Self::Closed => "a closed loop has no rate; start the run with --rate to set one",
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

    /// Whether [`Desk::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Asks for another rate, from now on.
    pub fn set_rate(&self, rate: Rate) -> Result<(), RateRefused> {
        let mut current = self.lock();
        if !current.rate_is_free {
            let is_closed = current.control.as_ref().is_some_and(|control| control.rate_per_s() <= 0.0);
            return Err(if is_closed { RateRefused::Closed } else { RateRefused::Searching });
        }
        current.asked = Some(rate);
        if let Some(control) = &current.control {
            control.set_rate(rate.per_s());
        }
        Ok(())
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

    /// A run begins. A stop that came before it holds for it too, and so does a rate that was asked for.
    pub(super) fn begin(&self, control: &Arc<Control>, what: &str, rate_is_free: bool) {
        let mut current = self.lock();
        current.control = Some(control.clone());
        current.what = what.to_owned();
        current.rate_is_free = rate_is_free;
        if let (true, Some(rate)) = (rate_is_free, current.asked) {
            control.set_rate(rate.per_s());
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
        desk.begin(&first, "run", true);
        desk.set_rate(Rate::new(50.0)).unwrap();
        assert_eq!(first.rate_per_s(), 50.0);
        desk.stop();
        assert!(first.is_stopped());
        desk.begin(&second, "run", true);
        assert!(second.is_stopped() && second.rate_per_s() == 50.0);
    }

    #[test]
    fn a_rate_is_refused_where_it_would_mean_nothing() {
        let desk = Desk::default();
        assert_eq!(desk.set_rate(Rate::new(1.0)), Err(RateRefused::Searching));
        desk.begin(&Arc::new(Control::new(0.0)), "closed loop", false);
        assert_eq!(desk.set_rate(Rate::new(1.0)), Err(RateRefused::Closed));
        assert!(desk.live().is_some() && Desk::default().live().is_none());
    }
}
