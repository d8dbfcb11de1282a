//! When requests are meant to be sent: the intended instants of an open loop.
//!
//! A [`SendPlan`] is a rate, the [`RateShape`] that the rate has over time, and the [`Spacing`] of single requests
//! within it. Each thread draws its share as [`Intents`], in ascending order, from a seed.
//!
//! ```text
//!   mass m of each request      Even: 1            Poisson: exponential with mean 1
//!   rate(t)                     share of the total, times the shape's factor at t, as it is changed live
//!   next instant                the t' at which the integral of rate from t to t' comes to m
//!
//!   rate |        ______              a change at c does not move what lies before c, and what is left of m behind c
//!        |_______|                    is worked off at the new rate: no request is lost, none is sent twice or early
//!        +-------c--------> t
//! ```
//!
//! Invariants: no clock is read here; one seed gives one sequence; instants never descend.

mod instants;
mod intents;
mod shape;

pub use instants::{Instants, Next, OpenInstants, Stream};
pub use intents::Intents;
pub use shape::RateShape;

/// The highest rate that can be asked for, in requests a second over all threads.
pub const RATE_PER_S_MAX: f64 = 1e9;

/// Distribution of single requests within the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spacing {
    /// At equal distances; the threads' requests lie between one another.
    Even,
    /// Independent of one another, as those of many users are: exponential distances.
    Poisson,
}

/// Plan of the times at which requests are sent. As data it is a plan by rate: a trace's instants stay on the host that
/// has read them.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendPlan {
    /// By a rate. The rate itself is live: it is the engine's `Control` that holds it.
    Rate {
        /// Distribution of single requests within the rate.
        pace: Spacing,
        /// Change of the rate over time.
        shape: RateShape,
    },
    #[serde(skip)]
    /// At given instants, such as those of a recorded trace.
    Trace {
        /// Nanoseconds from the start.
        instants: Instants,
        /// The instants are divided by it: 2 is twice as fast.
        speed: f64,
    },
}

/// Description of an invalid plan, and of what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(pub String);

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

impl SendPlan {
    /// A constant rate.
    pub const fn constant() -> Self {
        Self::Rate { pace: Spacing::Even, shape: RateShape::Flat }
    }

    /// A constant rate of independent requests.
    pub const fn poisson() -> Self {
        Self::Rate { pace: Spacing::Poisson, shape: RateShape::Flat }
    }

    /// Checks what the types do not hold.
    ///
    /// # Errors
    /// When a number is out of its range or offsets descend; the message names the remedy.
    pub fn check(&self) -> Result<(), PlanError> {
        match self {
            Self::Rate { shape, .. } => shape.check(),
            Self::Trace { instants, speed } => {
                if !(speed.is_finite() && *speed > 0.0) {
                    return Err(PlanError(format!("the speed of a trace is {speed}; it is a number above 0, as in 2")));
                }
                if let Some(at) = instants.descent() {
                    let number = at + 2;
                    return Err(PlanError(format!(
                        "offset {number} of the trace is before the one before it; sort them"
                    )));
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
