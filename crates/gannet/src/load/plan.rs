//! Converts the description of a workload's arrivals to the plan of the load engine.

use std::path::Path;
use std::sync::Arc;

use load::engine::Load;
use load::schedule::{Instants, RateShape, SendPlan, Spacing};
use load::workload::model::{Arrivals, Pace};
use trace::{Selection, TracePace};

/// Returns the plan of `pace`. If `kind` is given, it replaces the kind of arrivals in `pace`.
pub fn plan(pace: &Pace, kind: Option<&str>, speed: Option<f64>) -> Result<SendPlan, String> {
    match kind {
        Some("poisson") => return Ok(SendPlan::poisson()),
        Some("constant") => return Ok(SendPlan::constant()),
        Some(other) => {
            let Some(path) = other.strip_prefix("trace:").filter(|path| !path.is_empty()) else {
                let known = "write poisson, constant or trace:FILE, or use a workload file for others";
                return Err(format!("{other:?} is not a kind of arrivals; {known}"));
            };
            return trace(Path::new(path), speed.unwrap_or(1.0));
        }
        None => {}
    }
    let Pace::Open { rate_per_s, arrivals } = pace else { return Ok(SendPlan::poisson()) };
    let shaped = |shape| SendPlan::Rate { pace: Spacing::Poisson, shape };
    Ok(match arrivals {
        Arrivals::Constant => SendPlan::constant(),
        Arrivals::Poisson => SendPlan::poisson(),
        Arrivals::OnOff { on, off } => shaped(RateShape::OnOff { on_ns: on.0, off_ns: off.0 }),
        Arrivals::Ramp { to_per_s, over } => {
            shaped(RateShape::Ramp { from: 1.0, to: to_per_s / rate_per_s.max(1e-9), over_ns: over.0 })
        }
        Arrivals::Sine { swing, period } => shaped(RateShape::Sine { period_ns: period.0, swing: swing.0 }),
        Arrivals::Trace { path, speed: named } => trace(path, speed.unwrap_or(*named))?,
    })
}

/// Returns the instants of the trace at `path`.
fn trace(path: &Path, speed: f64) -> Result<SendPlan, String> {
    let pace = TracePace::open(Selection::new(path)).map_err(|fault| fault.to_string())?;
    Ok(SendPlan::Trace { instants: Instants::Stream(Arc::new(pace)), speed })
}

/// Describes a plan in words.
pub fn words(load: &Load) -> String {
    let (Load::Open(plan) | Load::Blind(Some(plan))) = load else { return "as fast as possible".to_owned() };
    match plan {
        SendPlan::Rate { pace: Spacing::Even, shape: RateShape::Flat } => "constant".to_owned(),
        SendPlan::Rate { shape: RateShape::Flat, .. } => "Poisson".to_owned(),
        SendPlan::Rate { shape: RateShape::OnOff { on_ns, off_ns }, .. } => {
            format!("bursts of {} ms every {} ms", on_ns / 1_000_000, (on_ns + off_ns) / 1_000_000)
        }
        SendPlan::Rate { shape: RateShape::Ramp { from, to, .. }, .. } => format!("ramp by {:.2}", to / from),
        SendPlan::Rate { shape: RateShape::Sine { .. }, .. } => "sine".to_owned(),
        SendPlan::Trace { speed, .. } if *speed == 1.0 => "a trace's".to_owned(),
        SendPlan::Trace { speed, .. } => format!("a trace at {speed} times its speed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::units::TimeSpan;

    #[test]
    fn ramp_rates_are_preserved_and_the_flag_overrides_them() {
        let arrivals = Arrivals::Ramp { to_per_s: 400.0, over: TimeSpan::secs(2) };
        let pace = Pace::Open { rate_per_s: 100.0, arrivals };
        let plan_of = |kind| plan(&pace, kind, None).unwrap();
        let SendPlan::Rate { shape, .. } = plan_of(None) else { panic!("not a rate") };
        assert_eq!(shape, RateShape::Ramp { from: 1.0, to: 4.0, over_ns: 2_000_000_000 });
        assert_eq!(plan_of(Some("constant")), SendPlan::constant());
        assert!(plan(&pace, Some("fast"), None).unwrap_err().contains("poisson, constant or trace:FILE"));
    }
}
