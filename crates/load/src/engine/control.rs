//! The control of a run in progress, and its live figures.

use crate::measure::{Histogram, Slice, Totals, VerbCounts};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Number of slices in a live view.
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
    /// Connections are being opened.
    #[default]
    Connecting,
    /// Requests are sent but not measured yet.
    WarmUp,
    /// The measured part.
    Measuring,
    /// No more requests are due; the last replies are outstanding.
    Draining,
    /// The run has ended.
    Over,
}

/// Figures of a run in progress, updated after every slice of the timeline.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// The phase of the run.
    pub phase: RunPhase,
    /// Time since the first request could be due, in nanoseconds.
    pub elapsed_ns: u64,
    /// Counts of the bulk load so far, including the warm-up; `due` counts sent requests.
    pub totals: Totals,
    /// Response times of the requests that ended in the measured part.
    pub response: Histogram,
    /// Counts of each verb up to the end of the newest slice, if [`super::Config::live_verbs`] is set.
    pub verbs: Vec<VerbCounts>,
    /// The last slices, newest last; at most [`RECENT_MAX`].
    pub recent: Vec<Slice>,
}

impl Control {
    /// Creates a control with a rate of `rate_per_s` requests per second over all threads. A closed loop ignores the
    /// rate.
    pub fn new(rate_per_s: f64) -> Self {
        Self {
            rate_bits: AtomicU64::new(rate_per_s.to_bits()),
            stopped: AtomicBool::new(false),
            live: Mutex::new(Live::default()),
        }
    }

    /// Changes the rate. Each thread applies the new rate when it next reads it. Requests that were already due keep
    /// the instants of the old rate.
    pub fn set_rate(&self, rate_per_s: f64) {
        self.rate_bits.store(rate_per_s.to_bits(), Ordering::Relaxed);
    }

    /// Returns the requested rate, in requests per second over all threads.
    pub fn rate_per_s(&self) -> f64 {
        f64::from_bits(self.rate_bits.load(Ordering::Relaxed))
    }

    /// Ends the run soon. No more requests become due, requests in flight may complete, and the figures cover the
    /// shortened run.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`Control::stop`] was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns the figures so far.
    pub fn live(&self) -> Live {
        self.lock().clone()
    }

    /// Updates the live figures.
    pub(crate) fn show(&self, change: impl FnOnce(&mut Live)) {
        change(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
