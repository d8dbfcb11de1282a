//! Writes and reads the recipe in a result: the workload and the flags with which the run can be repeated.
//!
//! ```text
//!   result.workload   a workload file's text: requests, servers, seed
//!   result.again      the flags of the session: rate or search, times, objectives
//! ```

use std::path::Path;

use base::units::TimeSpan;
use clap::ArgMatches;
use load::engine::{Config, Load};
use load::result::{JSON_BYTES_MAX, RunResult};
use load::schedule::{RateShape, SendPlan, Spacing};
use load::session::Mode;
use load::workload::Workload;
use load::workload::model::{Arrivals, Pace};
use load::workload::units::Share;

use super::compare::read_text;
use crate::Failure;

/// Flags that a result stores with the user's text.
const KEPT: [&str; 14] = [
    "slo",
    "assert",
    "start",
    "step",
    "rate-max",
    "trial",
    "tolerance",
    "confirm",
    "throughput-min",
    "sampler",
    "sampler-target",
    "sampler-cpu",
    "server-admin",
    "name",
];
/// Reads the result of a run.
pub fn read(path: &Path) -> Result<RunResult, Failure> {
    let text = read_text(path, JSON_BYTES_MAX).map_err(|fault| Failure::Failed(vec![fault]))?;
    RunResult::from_json(&text).map_err(|fault| Failure::Failed(vec![format!("{}: {fault}", path.display())]))
}

/// Reads the workload in the result at `path`.
pub fn workload(path: &Path) -> Result<Workload, Failure> {
    let Some(text) = read(path)?.workload else {
        let remedy = "pass the result of a run, not of a prefill";
        return Err(Failure::Failed(vec![format!("{}: the result contains no workload; {remedy}", path.display())]));
    };
    // Line numbers refer to the text in the result; files in the workload have absolute paths.
    let name = format!("{} (its workload)", path.display());
    Workload::read_text(Path::new(&name), &text)
        .map_err(|faults| Failure::Failed(faults.iter().map(ToString::to_string).collect()))
}

/// Returns the workload with the pace that the run really has, according to `mode` and `config`.
pub fn in_force(workload: &Workload, mode: &Mode, config: &Config) -> Workload {
    let known = match &workload.pace {
        Pace::Open { rate_per_s, .. } => *rate_per_s,
        Pace::Closed => 0.0,
    };
    let rate_per_s = match mode {
        Mode::AtRate(rate) => rate.per_s(),
        Mode::Search(settings) => settings.start.per_s(),
        Mode::Steps(steps) => steps.rates.first().map_or(known, |rate| rate.per_s()),
        Mode::Traced => known,
        Mode::Closed => return Workload { pace: Pace::Closed, ..workload.clone() },
    };
    let arrivals = match &config.load {
        Load::Open(plan) | Load::Blind(Some(plan)) => arrivals(plan, rate_per_s, &workload.pace),
        Load::Closed | Load::Blind(None) => return Workload { pace: Pace::Closed, ..workload.clone() },
    };
    Workload { pace: Pace::Open { rate_per_s, arrivals }, ..workload.clone() }
}

fn arrivals(plan: &SendPlan, rate_per_s: f64, known: &Pace) -> Arrivals {
    match plan {
        SendPlan::Rate { pace: Spacing::Even, shape: RateShape::Flat } => Arrivals::Constant,
        SendPlan::Rate { shape: RateShape::Flat, .. } => Arrivals::Poisson,
        SendPlan::Rate { shape: RateShape::OnOff { on_ns, off_ns }, .. } => {
            Arrivals::OnOff { on: TimeSpan(*on_ns), off: TimeSpan(*off_ns) }
        }
        SendPlan::Rate { shape: RateShape::Ramp { to, over_ns, .. }, .. } => {
            Arrivals::Ramp { to_per_s: to * rate_per_s, over: TimeSpan(*over_ns) }
        }
        SendPlan::Rate { shape: RateShape::Sine { period_ns, swing }, .. } => {
            Arrivals::Sine { swing: Share(*swing), period: TimeSpan(*period_ns) }
        }
        SendPlan::Trace { .. } => match known {
            Pace::Open { arrivals, .. } => arrivals.clone(),
            Pace::Closed => Arrivals::Poisson,
        },
    }
}

/// Returns the flags that repeat the session with its workload.
pub fn flags(matches: &ArgMatches, mode: &Mode, config: &Config) -> Vec<String> {
    let mut flags = Vec::new();
    for name in KEPT {
        // The subcommands for other tools' command lines lack some of these flags.
        if let Ok(Some(values)) = matches.try_get_many::<String>(name) {
            flags.extend(values.map(|value| format!("--{name}={value}")));
        }
    }
    match mode {
        Mode::AtRate(rate) => flags.push(format!("--rate={:?}", rate.per_s())),
        Mode::Closed => flags.push("--closed".to_owned()),
        // The workload's pace already contains the trace and its speed.
        Mode::Traced => {}
        Mode::Steps(steps) => {
            let rates: Vec<String> = steps.rates.iter().map(|rate| format!("{:?}", rate.per_s())).collect();
            flags.retain(|flag| !flag.starts_with("--trial="));
            flags.push(format!("--rates={}", rates.join(",")));
            flags.push(format!("--trial={}ns", steps.each.as_nanos()));
        }
        Mode::Search(settings) => flags.push(format!("--warm-up={}ns", settings.warm_up.as_nanos())),
    }
    let usual = Config::default();
    if !matches!(mode, Mode::Search(_)) {
        flags.push(format!("--duration={}ns", config.duration_ns));
        flags.push(format!("--warm-up={}ns", config.warm_up_ns));
    }
    if let Some(requests) = config.requests_max {
        flags.push(format!("--requests={requests}"));
    }
    if config.timeout_ns != usual.timeout_ns {
        flags.push(format!("--timeout={}ns", config.timeout_ns));
    }
    if config.connect_timeout_ns != usual.connect_timeout_ns {
        flags.push(format!("--connect-timeout={}ns", config.connect_timeout_ns));
    }
    if config.wait == load::engine::Wait::Poll {
        flags.push("--poll".to_owned());
    }
    flags
}
