//! What is said to a run while it goes, and what it says.

use crate::measure::{Histogram, Slice, Totals, VerbCounts};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Slices that a live view shows.
pub const RECENT_MAX: usize = 120;

/// The live rate, the stop button and the live figures of one run.
#[derive(Debug)]
pub struct Control {
    rate_bits: AtomicU64,
    stopped: AtomicBool,
    live: Mutex<Live>,
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunPhase {
    /// Connections are being made.
    #[default]
    Connecting,
    /// Requests are sent and not measured yet.
    WarmUp,
    /// The measured part.
    Measuring,
    /// Nothing is due any more; the last answers are waited for.
    Draining,
    /// It is over.
    Over,
}

/// Figures of a run under way; they are renewed with every slice of the timeline.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// The phase of the run.
    pub phase: RunPhase,
    /// Since the first request could be due, in nanoseconds.
    pub elapsed_ns: u64,
    /// Counts of the bulk so far, warm-up included; `due` counts what was sent.
    pub totals: Totals,
    /// Response times of what ended in the measured part.
    pub response: Histogram,
    /// Counts of each verb up to the end of the newest slice, if [`super::Config::live_verbs`] asks for them.
    pub verbs: Vec<VerbCounts>,
    /// The last slices, the newest last; at most [`RECENT_MAX`].
    pub recent: Vec<Slice>,
}

impl Control {
    /// A control that asks for `rate_per_s` requests a second over all threads. A closed loop knows no rate.
    pub fn new(rate_per_s: f64) -> Self {
        Self {
            rate_bits: AtomicU64::new(rate_per_s.to_bits()),
            stopped: AtomicBool::new(false),
            live: Mutex::new(Live::default()),
        }
    }

    /// Asks for another rate from now on. Each thread takes it up when it next looks, and works off what was due
    /// before at the rate that held then.
    pub fn set_rate(&self, rate_per_s: f64) {
        self.rate_bits.store(rate_per_s.to_bits(), Ordering::Relaxed);
    }

    /// The rate asked for, in requests a second over all threads.
    pub fn rate_per_s(&self) -> f64 {
        f64::from_bits(self.rate_bits.load(Ordering::Relaxed))
    }

    /// Ends the run soon: nothing is due from now on, what is in flight is waited for, and the figures cover what was.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`Control::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The figures so far.
    pub fn live(&self) -> Live {
        self.lock().clone()
    }

    /// Renews the live figures.
    pub(crate) fn show(&self, change: impl FnOnce(&mut Live)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
