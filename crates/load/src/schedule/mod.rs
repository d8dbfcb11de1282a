//! The intended instants of an open loop's requests.
//!
//! A [`SendPlan`] has a rate, the [`RateShape`] of the rate over time, and the [`Spacing`] of single requests within
//! it. Each thread draws its share as [`Intents`], in ascending order, from a seed.
//!
//! ```text
//!   mass m of each request      Even: 1            Poisson: exponential with mean 1
//!   rate(t)                     the thread's share of the rate, times the shape's factor at t
//!   next instant                the t' at which the integral of rate from t to t' equals m
//!
//!   rate |        ______              a change at c does not move instants before c; the part of m after c
//!        |_______|                    accumulates at the new rate: no request is lost, doubled or sent early
//!        +-------c--------> t
//! ```
//!
//! Invariants: the module reads no clock. One seed gives one sequence. Instants never descend.

mod instants;
mod intents;
mod shape;

pub use instants::{Instants, Next, OpenInstants, Stream};
pub use intents::Intents;
pub use shape::RateShape;

/// The highest allowed rate, in requests per second over all threads.
pub const RATE_PER_S_MAX: f64 = 1e9;

/// Distribution of single requests within the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// Requests at equal distances; the requests of the threads interleave.
    Even,
    /// Independent requests, as from many users: exponentially distributed distances.
    Poisson,
}

/// The plan of the instants at which requests are sent. In serialised form it is always a plan by rate, because a
/// trace's instants stay on the host that has read them.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendPlan {
    /// A plan by rate. The rate itself can change during a run; the engine's `Control` holds it.
    Rate {
        /// Distribution of single requests within the rate.
        pace: Spacing,
        /// Change of the rate over time.
        shape: RateShape,
    },
    #[serde(skip)]
    /// A plan by given instants, such as those of a recorded trace.
    Trace {
        /// The instants, in nanoseconds from the start.
        instants: Instants,
        /// The instants are divided by the speed: 2 is twice as fast.
        speed: f64,
    },
}

/// Description of an invalid plan, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(pub String);

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

impl SendPlan {
    /// Returns a plan with a constant rate.
    pub const fn constant() -> Self {
        Self::Rate { pace: Spacing::Even, shape: RateShape::Flat }
    }

    /// Returns a plan with a constant rate of independent requests.
    pub const fn poisson() -> Self {
        Self::Rate { pace: Spacing::Poisson, shape: RateShape::Flat }
    }

    /// Checks the ranges that the types do not enforce.
    ///
    /// # Errors
    /// If a number is out of its range or if offsets descend; the message has the remedy.
    pub fn check(&self) -> Result<(), PlanError> {
        match self {
            Self::Rate { shape, .. } => shape.check(),
            Self::Trace { instants, speed } => {
                if !(speed.is_finite() && *speed > 0.0) {
                    return Err(PlanError(format!("the speed of a trace is {speed}; it must be above 0, as in 2")));
                }
                if let Some(at) = instants.descent() {
                    let number = at + 2;
                    return Err(PlanError(format!(
                        "offset {number} of the trace is smaller than the previous one; sort the offsets"
                    )));
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
