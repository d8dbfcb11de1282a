//! `gannet load aerospike|memtier|rpc-perf|mc-crusher`: runs other tools' command lines and files unchanged.
//!
//! An argument that has a slightly different meaning here is reported on standard error. An argument without an
//! equivalent is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::clock::UnixMillis;
use base::units::TimeSpan;
use clap::{Arg, ArgAction, ArgMatches, Command};
use load::dialect::aerospike::{self, Aerospike, Intervals};
use load::dialect::{Mapped, Run, mc_crusher, memtier, rpc_perf};
use load::engine::Config;
use load::report::terminal;
use load::result::{RunResult, hdr};
use load::search::rate::Rate;
use load::session::{Job, Mode, RunControl, Stepped};
use load::traffic::Traffic;
use load::workload::model::{Pace, Target};
use load::workload::{RequestSource, Workload, WorkloadFault};
use page::words::duration;

use super::ask::{LoadRun, assertions, config_of, known, secured, tls_flags};
use super::compare::{read_text, write};
use super::run::{admin, ended, files, of_round, one};
use super::view::Screen;
use super::{args, plan, stop};
use crate::{Failure, print};

/// Maximum length of a run that ends by a number of requests or by a signal.
const LENGTH_MAX: Duration = Duration::from_secs(24 * 3600);
/// Largest size of a tool's file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Highest number of consecutive runs.
const ROUNDS_MAX: u32 = 1000;

/// Returns the subcommands.
pub fn commands() -> [Command; 4] {
    [
        words(
            "aerospike",
            "Run a command line of an Aerospike benchmark (asbench or Java client) on a server that speaks RESP",
            "Example:\n  gannet load aerospike -h 127.0.0.1 -p 6379 -n test -k 1000 -o S:10 -b 10 -w I -z 4\n  \
             gannet load aerospike -h 127.0.0.1 -p 6379 -n test -k 1000 -o S:10 -b 10 -w RU,80 -z 4 \
             -t 2000 -latency 5,1",
        ),
        words(
            "memtier",
            "Run a command line of memtier_benchmark",
            "Example:\n  gannet load memtier -s 127.0.0.1 -p 11211 -P memcache_text -t 1 -c 4 -n 500 --ratio 1:9 \
             --key-maximum 1000 -d 100",
        ),
        file(
            "rpc-perf",
            "rpc-perf.toml",
            "Run a configuration file of rpc-perf, in version 5 or the older form",
            "Example:\n  gannet load rpc-perf cache.toml --duration 5s --report out.html",
        ),
        file(
            "mc-crusher",
            "CONF",
            "Run a configuration file of mc-crusher",
            "Example:\n  gannet load mc-crusher paced.conf --target 127.0.0.1:11211 --duration 5s",
        ),
    ]
}

/// Defines the subcommand of a tool with a command line. The tool's command line begins with the first word that is not
/// one of our flags.
fn words(name: &'static str, about: &'static str, example: &'static str) -> Command {
    let command = Command::new(name)
        .about(about)
        .disable_help_flag(true)
        .arg(Arg::new("help").long("help").action(ArgAction::Help).help("Print help"))
        .arg(
            Arg::new("ARGS")
                .help("The tool's own arguments, after the generator's flags")
                .num_args(0..)
                .allow_hyphen_values(true)
                .trailing_var_arg(true),
        );
    args::add_outcome(command).after_help(example)
}

/// Defines the subcommand of a tool that reads a file.
fn file(name: &'static str, placeholder: &'static str, about: &'static str, example: &'static str) -> Command {
    let flag = |name: &'static str, placeholder: &'static str| Arg::new(name).long(name).value_name(placeholder);
    let command = Command::new(name)
        .about(about)
        .arg(Arg::new("FILE").value_name(placeholder).required(true).help("The file"))
        .arg(flag("target", "HOST:PORT|unix:PATH").help("Server to use instead of the one in the file"))
        .arg(flag("duration", "DURATION").help("Length of the run, instead of the one in the file"));
    args::add_outcome(command).after_help(example)
}

/// A tool's parsed command line or file.
struct Tool {
    mapped: Mapped,
    /// Set if the tool is one of Aerospike's benchmarks.
    aerospike: Option<Aerospike>,
}

/// Runs the tool `name`.
pub fn run(name: &str, matches: &ArgMatches) -> Result<(), Failure> {
    let mut tool = read(name, matches)?;
    let notes = std::mem::take(&mut tool.mapped.notes);
    let run = tool.mapped.run.clone();
    let mut screen = Screen::new(matches.get_flag("quiet"));
    if let Some(interval) = run.interval {
        screen = screen.every(Duration::from_nanos(interval.0));
    }
    for note in notes {
        screen.line(&format!("note: {note}"));
    }
    let run_control = Arc::new(RunControl::default());
    stop::run_control(&run_control)?;
    let admin_addr = matches.get_one::<String>("admin").or(run.admin.as_ref());
    let _admin = admin(admin_addr.map(String::as_str), &run_control, &mut screen)?;
    let mut outcome = Ok(());
    let rounds = run.rounds.max(1);
    for round in 1..=rounds {
        if rounds > 1 {
            screen.line(&format!("run {round} of {rounds}"));
        }
        let mut asked = asked(matches, &tool.mapped)?;
        let result = match &tool.aerospike {
            Some(aerospike) => {
                asked.job.config.live_verbs = true;
                let verbs = RequestSource::new(&asked.workload, 0, UnixMillis::now()).verbs().to_vec();
                let period_ns = run.interval.map_or(1_000_000_000, |span| span.0);
                let intervals = Intervals::new(aerospike, &verbs, period_ns);
                one(matches, asked, &run_control, &mut screen, Some(intervals))?
            }
            None => one(matches, asked, &run_control, &mut screen, None)?,
        };
        let text = text(&tool, &result);
        print(&text)?;
        files(matches, &result, round)?;
        own_files(&run, &result, &text, round)?;
        outcome = outcome.and(ended(&result));
        if run_control.is_stopped() {
            break;
        }
    }
    outcome
}

fn read(name: &str, matches: &ArgMatches) -> Result<Tool, Failure> {
    let lines = |faults: Vec<WorkloadFault>| faults.iter().map(ToString::to_string).collect::<Vec<String>>();
    let usage = |faults| Failure::Usage(lines(faults));
    let mut aerospike = None;
    let mut mapped = match name {
        "aerospike" | "memtier" => {
            let words: Vec<String> = matches.get_many::<String>("ARGS").into_iter().flatten().cloned().collect();
            if name == "memtier" {
                memtier::read(&words).map_err(usage)?
            } else {
                let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
                let read = Aerospike::read(&words, None, cpus).map_err(usage)?;
                let mapped = read.mapped.clone();
                aerospike = Some(read);
                mapped
            }
        }
        _ => of_file(name, matches).map_err(Failure::Failed)?,
    };
    tls_flags(matches, &mut mapped.workload.tls).map_err(Failure::Usage)?;
    if mapped.run.rounds > ROUNDS_MAX {
        return Err(Failure::Usage(vec![format!(
            "{} runs are too many; the maximum is {ROUNDS_MAX}",
            mapped.run.rounds
        )]));
    }
    Ok(Tool { mapped, aerospike })
}

/// Parses the given file and applies the flags that override it.
fn of_file(name: &str, matches: &ArgMatches) -> Result<Mapped, Vec<String>> {
    let path = PathBuf::from(matches.get_one::<String>("FILE").map_or("", String::as_str));
    let target = matches.get_one::<String>("target");
    let lines = |faults: Vec<WorkloadFault>| faults.iter().map(ToString::to_string).collect::<Vec<String>>();
    let mut mapped = if name == "rpc-perf" {
        rpc_perf::read_file(&path).map_err(lines)?
    } else {
        let text = read_text(&path, FILE_BYTES_MAX).map_err(|fault| vec![fault])?;
        mc_crusher::read_text(&path, &text, target.map(String::as_str)).map_err(lines)?
    };
    if let Some(address) = target {
        mapped.workload.targets = vec![Target { address: address.clone(), weight: 1 }];
        mapped.workload.validate().map_err(lines)?;
    }
    if let Some(text) = matches.get_one::<String>("duration") {
        let span: TimeSpan = text
            .parse()
            .map_err(|error: base::units::UnitError| vec![format!("--duration: {error}; {}", error.remedy())])?;
        mapped.run.duration = Some(span);
    }
    Ok(mapped)
}

/// Returns the session that corresponds to the tool's command line or file.
fn asked(matches: &ArgMatches, mapped: &Mapped) -> Result<LoadRun, Failure> {
    let (workload, run) = (&mapped.workload, &mapped.run);
    let mode = mode(workload, run);
    let plan = plan::plan(&workload.pace, None, None).map_err(|wrong| Failure::Usage(vec![wrong]))?;
    let length_ns = LENGTH_MAX.as_nanos() as u64;
    let duration_ns = run.duration.map_or(length_ns, |span| span.0.clamp(1, length_ns));
    let usual = config_of(workload, &mode, plan, duration_ns);
    let nanos = |span: Option<TimeSpan>, usual: u64| span.map_or(usual, |span| span.0);
    let config = Config {
        requests_max: run.requests_max,
        tls: secured(workload.tls.as_ref()).map_err(Failure::Failed)?,
        timeout_ns: nanos(run.timeout, usual.timeout_ns),
        connect_timeout_ns: nanos(run.connect_timeout, usual.connect_timeout_ns),
        ..usual
    };
    let faults = config.faults();
    if !faults.is_empty() {
        return Err(Failure::Usage(faults));
    }
    let known = known(matches, workload, &mode, &config);
    let assertions = assertions(matches)?;
    let job = Job { known, config, mode, objectives: Vec::new(), assertions, sources: Vec::new() };
    Ok(LoadRun { job, workload: workload.clone(), notes: Vec::new() })
}

fn mode(workload: &Workload, run: &Run) -> Mode {
    if let Some(steps) = &run.steps {
        let rates = steps.rates(run.duration, workload.seed).into_iter().map(Rate::new).collect();
        return Mode::Steps(Stepped { rates, each: Duration::from_nanos(steps.each.0) });
    }
    match workload.pace {
        Pace::Open { rate_per_s, .. } => Mode::AtRate(Rate::new(rate_per_s)),
        Pace::Closed => Mode::Closed,
    }
}

/// Returns the text of a run: the summary, and the tool's own output.
fn text(tool: &Tool, result: &RunResult) -> String {
    let mut text = terminal::summary(result);
    let response = &result.figures.response;
    if let (false, Some(times)) = (tool.mapped.run.percentiles.is_empty(), response.histogram()) {
        let shown = tool.mapped.run.percentiles.iter().map(|percent| {
            let ns = times.value_at_quantile(percent / 100.0).min(times.max());
            format!("p{percent} {}", duration(ns as f64))
        });
        text.push_str(&format!("response time: {}\n", shown.collect::<Vec<_>>().join(", ")));
    }
    if let Some(Aerospike { latency: table, .. }) = tool.aerospike {
        text.push('\n');
        text.push_str(&aerospike::printed(&result.figures, table));
    }
    text
}

/// Writes the files that the tool's own flags name.
fn own_files(run: &Run, result: &RunResult, text: &str, round: u32) -> Result<(), Failure> {
    let put = |path: &Path, text: &str| write(&of_round(path, round), text);
    if let Some(path) = &run.out {
        put(path, text)?;
    }
    if let Some(path) = &run.json {
        put(path, &result.to_json())?;
    }
    if let Some(prefix) = &run.hdr {
        let mut path = prefix.clone().into_os_string();
        path.push(".hlog");
        put(Path::new(&path), &hdr::log(result))?;
    }
    Ok(())
}
