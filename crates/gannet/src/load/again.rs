//! `gannet load rerun RESULT.json`: repeats a run with the workload and flags that its result contains.
//!
//! ```text
//!   result.workload   a workload file's text: requests, servers, seed
//!   result.again      the flags of the session: rate or search, times, objectives
//!   new flags override both
//! ```

use std::path::Path;

use base::units::TimeSpan;
use clap::{Arg, ArgMatches, Command};
use load::engine::{Config, Load};
use load::result::{JSON_BYTES_MAX, RunResult};
use load::schedule::{Pace as Spacing, Plan, Shape};
use load::session::Mode;
use load::workload::Workload;
use load::workload::model::{Arrivals, Pace};
use load::workload::units::Share;

use super::compare::read_text;
use super::{args, run as session};
use crate::Failure;

/// Flags that a result stores as they were given.
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
/// Flags that select the kind of session; one of them replaces all others.
const MODES: [&str; 4] = ["slo", "rate", "closed", "rates"];

/// Returns the subcommand's arguments.
pub fn command() -> Command {
    Command::new("rerun")
        .about("Repeat the run of a result, with its workload, seed and flags")
        .arg(Arg::new("RESULT").value_name("RESULT.json").required(true).help("A file that --json wrote"))
        .arg(
            Arg::new("FLAGS")
                .help("Flags of `gannet load` that override those of the result")
                .num_args(0..)
                .allow_hyphen_values(true)
                .trailing_var_arg(true),
        )
        .after_help("Example:\n  gannet load rerun out.json --target 127.0.0.1:11212 --json again.json")
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let path = matches.get_one::<String>("RESULT").map_or("", String::as_str);
    let given: Vec<String> = matches.get_many::<String>("FLAGS").into_iter().flatten().cloned().collect();
    let result = read(Path::new(path))?;
    let mut words = vec!["gannet load".to_owned()];
    words.extend(result.again.into_iter().filter(|flag| !is_replaced(flag, &given)));
    words.push(format!("--workload={}", as_json(path)?));
    words.extend(given);
    let matches = args::add(Command::new("load")).try_get_matches_from(words).unwrap_or_else(|error| error.exit());
    session::run(&matches)
}

/// A result is distinguished from a workload file by its name.
fn as_json(path: &str) -> Result<&str, Failure> {
    if path.ends_with(".json") {
        return Ok(path);
    }
    Err(Failure::Usage(vec![format!("{path}: a result's name ends with .json; rename the file")]))
}

/// Replaces the kept `flag` by the given one.
fn is_replaced(flag: &str, given: &[String]) -> bool {
    let name = |word: &str| word.trim_start_matches('-').split('=').next().unwrap_or_default().to_owned();
    let kept = name(flag);
    given.iter().filter(|word| word.starts_with("--")).map(|word| name(word)).any(|given| {
        let modes = MODES.contains(&given.as_str()) && MODES.contains(&kept.as_str());
        given == kept || modes
    })
}

fn read(path: &Path) -> Result<RunResult, Failure> {
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

/// Returns the workload with the pace of `config`.
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

fn arrivals(plan: &Plan, rate_per_s: f64, known: &Pace) -> Arrivals {
    match plan {
        Plan::Rate { pace: Spacing::Even, shape: Shape::Flat } => Arrivals::Constant,
        Plan::Rate { shape: Shape::Flat, .. } => Arrivals::Poisson,
        Plan::Rate { shape: Shape::OnOff { on_ns, off_ns }, .. } => {
            Arrivals::OnOff { on: TimeSpan(*on_ns), off: TimeSpan(*off_ns) }
        }
        Plan::Rate { shape: Shape::Ramp { to, over_ns, .. }, .. } => {
            Arrivals::Ramp { to_per_s: to * rate_per_s, over: TimeSpan(*over_ns) }
        }
        Plan::Rate { shape: Shape::Sine { period_ns, swing }, .. } => {
            Arrivals::Sine { swing: Share(*swing), period: TimeSpan(*period_ns) }
        }
        Plan::Trace { .. } => match known {
            Pace::Open { arrivals, .. } => arrivals.clone(),
            Pace::Closed => Arrivals::Poisson,
        },
    }
}

/// Returns the flags that repeat the session with its workload.
pub fn flags(matches: &ArgMatches, mode: &Mode, config: &Config) -> Vec<String> {
    let mut flags = Vec::new();
    for name in KEPT {
        // Commands of other tools do not have all of them.
        if let Ok(Some(values)) = matches.try_get_many::<String>(name) {
            flags.extend(values.map(|value| format!("--{name}={value}")));
        }
    }
    match mode {
        Mode::AtRate(rate) => flags.push(format!("--rate={:?}", rate.per_s())),
        Mode::Closed => flags.push("--closed".to_owned()),
        // The workload's own pace contains it.
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
