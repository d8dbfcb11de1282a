//! The intended instants of one thread: its share of a plan.

use super::{Next, RateShape, SendPlan, Stream};
use crate::schedule::Spacing;
use base::prng::Prng;
use std::collections::VecDeque;
use std::fmt;

/// Highest number of pending rate changes; a further change replaces the last one.
const CHANGES_MAX: usize = 64;

/// A rate that holds from an instant on.
#[derive(Clone, Copy, Debug)]
struct RateChange {
    at_ns: u64,
    rate_per_ns: f64,
}

/// The intended instants of one thread, in nanoseconds from the start of the run.
#[derive(Debug)]
pub struct Intents {
    source: InstantSource,
    /// The next instant; `u64::MAX` if there is none unless the rate changes.
    next_ns: u64,
}

#[derive(Debug)]
enum InstantSource {
    Rate(Box<Rate>),
    Trace(Trace),
}

/// State of a plan by given instants.
struct Trace {
    instants: Stream,
    speed: f64,
    /// The next instant of the stream, before division by the speed.
    next: Next,
    /// The last instant; a stream that descends stays at it.
    last_ns: u64,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("speed", &self.speed).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Trace {
    fn advance(&mut self) {
        self.next = (self.instants)();
        if let Next::At(instant_ns) = &mut self.next {
            *instant_ns = (*instant_ns).max(self.last_ns);
            self.last_ns = *instant_ns;
        }
    }
}

#[derive(Debug)]
struct Rate {
    pace: Spacing,
    shape: RateShape,
    share: f64,
    prng: Prng,
    /// Requests per nanosecond of this thread at the last instant.
    rate_per_ns: f64,
    changes: VecDeque<RateChange>,
    /// The last instant: whole nanoseconds, and the fraction that prevents accumulated rounding errors.
    last_ns: u64,
    last_fraction: f64,
    /// Mass of the next request: the integral of the rate up to it.
    mass: f64,
    /// Position of the next request.
    found: RateInstant,
}

/// An instant as whole nanoseconds and fraction, with the number of rate changes before it.
#[derive(Clone, Copy, Debug, Default)]
struct RateInstant {
    at_ns: u64,
    fraction: f64,
    passed: usize,
}

impl RateInstant {
    /// Rounds to the nearest nanosecond: an instant exactly on a boundary must not move before it by a rounding error.
    fn instant_ns(&self) -> u64 {
        self.at_ns.saturating_add(u64::from(self.fraction >= 0.5))
    }
}

impl Intents {
    /// Creates the share of thread `thread` of `threads` in `plan`, at `rate_per_s` requests per second over all
    /// threads. A plan by trace ignores the rate.
    pub fn new(plan: &SendPlan, rate_per_s: f64, thread: usize, threads: usize, seed: u64) -> Self {
        assert!(thread < threads, "thread {thread} of {threads}");
        let source = match plan {
            SendPlan::Trace { instants, speed } => {
                let instants = instants.open(thread, threads);
                let mut trace = Trace { instants, speed: *speed, next: Next::NotYet, last_ns: 0 };
                trace.advance();
                InstantSource::Trace(trace)
            }
            SendPlan::Rate { pace, shape } => {
                let share = 1.0 / threads as f64;
                let mut rate = Rate {
                    pace: *pace,
                    shape: *shape,
                    share,
                    prng: Prng::new(seed ^ (thread as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
                    rate_per_ns: per_ns(rate_per_s, share),
                    changes: VecDeque::with_capacity(CHANGES_MAX),
                    last_ns: 0,
                    last_fraction: 0.0,
                    mass: 0.0,
                    found: RateInstant::default(),
                };
                rate.mass = match pace {
                    // The first requests of the threads interleave as all later ones do.
                    Spacing::Even => thread as f64 * share,
                    Spacing::Poisson => rate.draw_mass(),
                };
                InstantSource::Rate(Box::new(rate))
            }
        };
        let mut intents = Self { source, next_ns: 0 };
        intents.next_ns = intents.look();
        intents
    }

    /// Returns the next intended instant in nanoseconds from the start; `u64::MAX` if there is none.
    pub const fn peek_ns(&self) -> u64 {
        self.next_ns
    }

    /// Takes the next intended instant. The caller must check that there is one.
    pub fn take_ns(&mut self) -> u64 {
        let taken = self.next_ns;
        assert_ne!(taken, u64::MAX, "there is an instant to take");
        match &mut self.source {
            InstantSource::Rate(rate) => rate.advance(),
            InstantSource::Trace(trace) => trace.advance(),
        }
        self.next_ns = self.look();
        taken
    }

    /// Returns whether the next instant is not known yet. If so, [`Intents::poll`] may obtain it.
    pub const fn is_waiting(&self) -> bool {
        matches!(&self.source, InstantSource::Trace(Trace { next: Next::NotYet, .. }))
    }

    /// Returns whether there are no more instants at any rate.
    pub const fn is_over(&self) -> bool {
        matches!(&self.source, InstantSource::Trace(Trace { next: Next::End, .. }))
    }

    /// Reads an instant that was not known before.
    pub fn poll(&mut self) {
        if let InstantSource::Trace(trace @ Trace { next: Next::NotYet, .. }) = &mut self.source {
            trace.advance();
            self.next_ns = self.look();
        }
    }

    /// Sets the rate of all threads together to `rate_per_s` requests per second from `at_ns` on. Instants that have
    /// been taken stay; a change before them takes effect from the last of them on. A plan by trace ignores the rate.
    pub fn change_rate(&mut self, at_ns: u64, rate_per_s: f64) {
        let InstantSource::Rate(rate) = &mut self.source else { return };
        let change = RateChange { at_ns: at_ns.max(rate.last_ns), rate_per_ns: per_ns(rate_per_s, rate.share) };
        let full = rate.changes.len() == CHANGES_MAX;
        match rate.changes.back_mut() {
            Some(last) if full || last.at_ns >= change.at_ns => last.rate_per_ns = change.rate_per_ns,
            _ => rate.changes.push_back(change),
        }
        self.next_ns = self.look();
    }

    /// Returns the rate of all threads at the last taken instant, in requests per second; 0 for a plan by trace.
    pub fn rate_per_s(&self) -> f64 {
        match &self.source {
            InstantSource::Rate(rate) => rate.rate_per_ns * 1e9 / rate.share,
            InstantSource::Trace(_) => 0.0,
        }
    }

    fn look(&mut self) -> u64 {
        match &mut self.source {
            InstantSource::Rate(rate) => {
                rate.found = rate.find();
                rate.found.instant_ns()
            }
            InstantSource::Trace(trace) => match trace.next {
                // Such a late instant is clamped below the value that means "none".
                Next::At(next_ns) => ((next_ns as f64 / trace.speed) as u64).min(u64::MAX - 1),
                Next::NotYet | Next::End => u64::MAX,
            },
        }
    }
}

impl Rate {
    fn draw_mass(&mut self) -> f64 {
        match self.pace {
            Spacing::Even => 1.0,
            Spacing::Poisson => -(1.0 - self.prng.unit()).ln(),
        }
    }

    /// Returns the instant at which the integral of the rate reaches the next request's mass.
    fn find(&self) -> RateInstant {
        let (mut at_ns, mut fraction, mut mass, mut rate) =
            (self.last_ns, self.last_fraction, self.mass, self.rate_per_ns);
        let mut passed = 0;
        for change in &self.changes {
            let ends = change.at_ns as f64;
            let begins = at_ns as f64 + fraction;
            let here = if ends > begins { rate * self.shape.mass(begins, ends) } else { 0.0 };
            if here >= mass {
                break;
            }
            mass -= here;
            passed += 1;
            rate = change.rate_per_ns;
            if ends > begins {
                (at_ns, fraction) = (change.at_ns, 0.0);
            }
        }
        if rate <= 0.0 {
            return RateInstant { at_ns: u64::MAX, fraction: 0.0, passed };
        }
        let span = self.shape.span_of(at_ns as f64 + fraction, mass / rate) + fraction;
        if !span.is_finite() || span >= (u64::MAX - at_ns) as f64 {
            return RateInstant { at_ns: u64::MAX, fraction: 0.0, passed };
        }
        RateInstant { at_ns: at_ns + span as u64, fraction: span.fract(), passed }
    }

    /// Moves to the next request.
    fn advance(&mut self) {
        let RateInstant { at_ns, fraction, passed } = self.found;
        debug_assert_ne!(at_ns, u64::MAX, "there is a next request");
        if passed > 0 {
            self.rate_per_ns = self.changes[passed - 1].rate_per_ns;
            self.changes.drain(..passed);
        }
        (self.last_ns, self.last_fraction) = (at_ns, fraction);
        self.mass = self.draw_mass();
    }
}

fn per_ns(rate_per_s: f64, share: f64) -> f64 {
    let held = if rate_per_s.is_finite() { rate_per_s.clamp(0.0, super::RATE_PER_S_MAX) } else { 0.0 };
    held * share / 1e9
}
