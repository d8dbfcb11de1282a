//! The change of a rate over time: a factor of the rate at each instant, its integral, and the inverse of the integral.

use super::PlanError;
use std::f64::consts::TAU;

/// Change of a rate over time. Its time begins with the run, including the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateShape {
    /// The rate is constant.
    Flat,
    /// Bursts with pauses between them. The rate within a burst is higher, so that the mean is the requested rate.
    OnOff {
        /// Length of a burst in nanoseconds, above 0.
        on_ns: u64,
        /// Length of the pause after a burst in nanoseconds.
        off_ns: u64,
    },
    /// A linear change from one factor of the rate to another, which then holds.
    Ramp {
        /// Factor at the start, at least 0.
        from: f64,
        /// Factor at the end, above 0.
        to: f64,
        /// Duration of the change in nanoseconds, above 0.
        over_ns: u64,
    },
    /// A sine wave around the rate.
    Sine {
        /// Period of the wave in nanoseconds, above 0.
        period_ns: u64,
        /// Amplitude as a share of the rate: from 0 to 1.
        swing: f64,
    },
}

impl RateShape {
    /// Checks the ranges of the numbers.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let fault = |text: &str| Err(PlanError(text.to_owned()));
        match *self {
            Self::OnOff { on_ns: 0, .. } => fault("a burst must have a length above 0, as in 100ms"),
            Self::Ramp { over_ns: 0, .. } => fault("a ramp must have a length above 0, as in 60s"),
            Self::Ramp { from, to, .. } if !(from >= 0.0 && from.is_finite() && to > 0.0 && to.is_finite()) => {
                fault("a ramp must go from a factor of at least 0 to one above 0, as in 0 to 1")
            }
            Self::Sine { period_ns: 0, .. } => fault("a wave must have a period above 0, as in 10s"),
            Self::Sine { swing, .. } if !(0.0..=1.0).contains(&swing) => {
                fault("the swing of a wave must be 0 to 1 of the rate, as in 0.5")
            }
            _ => Ok(()),
        }
    }

    /// Returns the integral of the factor from `begin_ns` to `end_ns`, in nanoseconds.
    pub fn mass(&self, begin_ns: f64, end_ns: f64) -> f64 {
        self.integral(end_ns) - self.integral(begin_ns)
    }

    /// Returns the time after `begin_ns` at which the factor's integral reaches `mass_ns`; infinite if it never does.
    pub fn span_of(&self, begin_ns: f64, mass_ns: f64) -> f64 {
        if mass_ns <= 0.0 {
            return 0.0;
        }
        match *self {
            Self::Flat => mass_ns,
            Self::OnOff { on_ns, off_ns } => on_off_span(begin_ns, mass_ns, on_ns as f64, off_ns as f64),
            Self::Ramp { from, to, over_ns } => ramp_span(begin_ns, mass_ns, from, to, over_ns as f64),
            Self::Sine { period_ns, swing } => self.sine_span(begin_ns, mass_ns, period_ns as f64, swing),
        }
    }

    /// Returns the integral of the factor from 0 to `at_ns`.
    fn integral(&self, at_ns: f64) -> f64 {
        match *self {
            Self::Flat => at_ns,
            Self::OnOff { on_ns, off_ns } => {
                let (on, whole) = (on_ns as f64, (on_ns + off_ns) as f64);
                let waves = (at_ns / whole).floor();
                let inside = (at_ns - waves * whole).min(on);
                waves * whole + inside * (whole / on)
            }
            Self::Ramp { from, to, over_ns } => {
                let over = over_ns as f64;
                let inside = at_ns.min(over);
                inside * (from + (to - from) * inside / (2.0 * over)) + (at_ns - inside) * to
            }
            Self::Sine { period_ns, swing } => {
                let turn = TAU / period_ns as f64;
                at_ns + swing / turn * (1.0 - (at_ns * turn).cos())
            }
        }
    }

    /// Uses bisection between bounds that hold for any swing, then Newton's steps if the rate is not near 0.
    fn sine_span(&self, begin_ns: f64, mass_ns: f64, period_ns: f64, swing: f64) -> f64 {
        let turn = TAU / period_ns;
        let (mut low, mut high) = (0.0, mass_ns + period_ns);
        let mut guess = mass_ns / (1.0 + swing * (begin_ns * turn).sin()).max(0.05);
        for _ in 0..64 {
            let guess_in = if guess > low && guess < high { guess } else { (low + high) / 2.0 };
            let short = mass_ns - self.mass(begin_ns, begin_ns + guess_in);
            if short.abs() < 1e-3 || high - low < 1e-3 {
                return guess_in;
            }
            if short > 0.0 {
                low = guess_in;
            } else {
                high = guess_in;
            }
            let rate = 1.0 + swing * ((begin_ns + guess_in) * turn).sin();
            guess = if rate > 0.01 { guess_in + short / rate } else { (low + high) / 2.0 };
        }
        (low + high) / 2.0
    }
}

/// Returns the time that `mass_ns` takes. Mass that reaches the end of a burst, within a rounding error, belongs to the
/// next burst.
fn on_off_span(begin_ns: f64, mass_ns: f64, on: f64, off: f64) -> f64 {
    const ROUNDING_NS: f64 = 1e-3;
    let whole = on + off;
    let scale = whole / on;
    let inside = begin_ns - (begin_ns / whole).floor() * whole;
    let left = (on - inside).max(0.0) * scale;
    if mass_ns + ROUNDING_NS < left {
        return mass_ns / scale;
    }
    let rest = (mass_ns - left).max(0.0);
    let waves = ((rest + ROUNDING_NS) / whole).floor();
    (whole - inside) + waves * whole + (rest - waves * whole).max(0.0) / scale
}

fn ramp_span(begin_ns: f64, mass_ns: f64, from: f64, to: f64, over: f64) -> f64 {
    if begin_ns >= over {
        return mass_ns / to;
    }
    let slope = (to - from) / over;
    let here = from + slope * begin_ns;
    let inside = over - begin_ns;
    let inside_mass = inside * (here + to) / 2.0;
    if mass_ns > inside_mass {
        return inside + (mass_ns - inside_mass) / to;
    }
    // Solves here * x + slope / 2 * x^2 = mass, in a form that is stable for a slope near 0.
    let root = (here * here + 2.0 * slope * mass_ns).max(0.0).sqrt();
    2.0 * mass_ns / (here + root)
}
