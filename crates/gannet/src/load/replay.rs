//! `gannet load replay FILE --target ...`: sends a trace's requests at their recorded times.

use std::path::Path;
use std::sync::Arc;

use base::clock::UnixMillis;
use clap::{Arg, ArgMatches, Command};
use link::Address;
use load::engine::{Config, Load, LoadStream, TrafficThread, Wait};
use load::report::terminal;
use load::result::{RunResult, Tls};
use load::schedule::{Instants, SendPlan};
use load::search::rate::Rate;
use load::session::{self, Job, Mode, RunControl};
use load::workload::Workload;
use load::workload::model::{self, Placement, Protocol};
use load::workload::units::Share;
use load::workload::value::Values;
use trace::replay::{Altered, Deal, Feed, Playback, Prefill, Script};
use trace::{Selection, Times, TraceFormat, TraceReader};

use super::args;
use super::ask::{Flags, auth, config_of, known, reached, secured, speed};
use super::run::{admin, describe, ended, failed, files, sources, stored};
use super::stop;
use super::view::Screen;
use crate::{Failure, print};

const EXAMPLES: &str = "Examples:
  A recorded trace, at its own instants:
    gannet load replay day.trace --target \
                        127.0.0.1:11211
  A production trace ten times as fast for a minute, on a cache that begins \
                        with what the trace finds:
    gannet load replay cluster52.csv.zst --target 127.0.0.1:11211 \
                        --speed 10 --scale-ttl --duration 60s --prefill
  Its first 100,000 requests at another rate, \
                        on a server that speaks RESP, every value checked:
    gannet load replay day.trace --target \
                        127.0.0.1:6379 --protocol resp --rate 5k --limit 100000 --verify";

/// Maximum length of a replay if the user gives none, in nanoseconds.
const LENGTH_NS_MAX: u64 = 24 * 3_600_000_000_000;
const VALUE_BYTES: u64 = 256;
const VALUE_BYTES_MAX: u64 = 1000 << 10;

/// The subcommand's arguments.
pub fn command() -> Command {
    let command = Command::new("replay")
        .about("Replay a trace: a recorded one, Twitter's format or oracleGeneral, also compressed as .zst")
        .arg(Arg::new("FILE").value_name("FILE").required(true).help("The trace"));
    args::add_replay(command).after_help(EXAMPLES)
}

/// Arguments of a replay.
struct ReplayRun {
    ask: Selection,
    script: Script,
    workload: Workload,
    config: Config,
    mode: Mode,
    prefill: bool,
    notes: Vec<&'static str>,
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let mut asked = ask(matches)?;
    let mut screen = Screen::new(matches.get_flag("quiet"));
    let run_control = Arc::new(RunControl::default());
    stop::run_control(&run_control)?;
    for note in &asked.notes {
        screen.line(&format!("note: {note}"));
    }
    let _admin = admin(matches.get_one::<String>("admin").map(String::as_str), &run_control, &mut screen)?;
    let mut known = known(matches, &asked.workload, &asked.mode, &asked.config);
    // The requests are in the trace, so the result alone is not enough to repeat the run.
    known.workload = None;
    known.tls = asked.config.tls.as_ref().map(|client| Tls::from(client.settings()));
    describe(&asked.workload, &asked.config, &mut known)?;
    if asked.prefill {
        prefill(&asked, &run_control, &mut screen)?;
    }
    let deal = if matches!(asked.mode, Mode::Traced) { Deal::ByKey } else { Deal::InTurn };
    let feed = Arc::new(start(&asked.ask, asked.config.threads, deal)?);
    if let (Load::Open(plan), Deal::ByKey) = (&mut asked.config.load, deal) {
        let speed = if let SendPlan::Trace { speed, .. } = plan { *speed } else { 1.0 };
        *plan = SendPlan::Trace { instants: Instants::Stream(feed.clone()), speed };
    }
    let objectives = Vec::new();
    let assertions = super::ask::assertions(matches)?;
    let sources = sources(matches, &asked.workload, &asked.config, true)?;
    let job = Job { known, config: asked.config.clone(), mode: asked.mode.clone(), objectives, assertions, sources };
    let make = |place: TrafficThread| {
        debug_assert_eq!(place.stream, LoadStream::Bulk, "a replay does not support a sampler");
        Playback::new(&asked.script, &feed, place.thread)
    };
    let mut result = session::run(job, make, &run_control, &mut screen).map_err(failed)?;
    screen.wipe();
    tell(&feed, &mut result, matches.get_flag("allow-cut"));
    print(&terminal::summary(&result))?;
    files(matches, &result, 1)?;
    ended(&result)
}

fn start(ask: &Selection, threads: usize, deal: Deal) -> Result<Feed, Failure> {
    let fault = |fault: trace::TraceError| Failure::Failed(vec![fault.to_string()]);
    let reader = TraceReader::open(ask).map_err(fault)?;
    Feed::start(reader, threads, deal)
        .map_err(|error| Failure::Failed(vec![format!("cannot start the thread that reads the trace ({error})")]))
}

/// The reason why a trace without an end is refused, or its replay is partial.
const NO_END: &str = "the trace has no end: its recorder was killed, or a part of the file is missing";

/// Adds notes to the result about figures that the trace affects.
fn tell(feed: &Feed, result: &mut RunResult, allows_cut: bool) {
    feed.close();
    // The engine reports faults of a trace only if the trace determines the instants of the requests.
    if let Some(fault) = load::schedule::OpenInstants::fault(feed) {
        result.partial = Some(fault);
    }
    let Some(end) = feed.end() else { return };
    let notes = &mut result.verdict.notes;
    if end.is_cut {
        let what = format!("{NO_END}; all complete blocks were replayed");
        // The end of a compressed trace is only known after its replay.
        if !allows_cut {
            result.partial.get_or_insert_with(|| what.clone());
        }
        notes.push(what);
    }
    if let Some(summary) = end.summary.filter(|summary| summary.lost > 0) {
        notes.push(format!("the trace lacks {} requests that the recorder could not write in time", summary.lost));
    }
}

fn ask(matches: &ArgMatches) -> Result<ReplayRun, Failure> {
    let mut flags = Flags::new(matches);
    let path = Path::new(matches.get_one::<String>("FILE").map_or("", String::as_str));
    let format = flags.read("format", |text| named(&TraceFormat::NAMES, text));
    let limit = flags.whole("limit");
    let (rate, speed) = (flags.parsed::<Rate>("rate"), speed(&mut flags));
    let mode = match rate {
        _ if matches.get_flag("closed") => Mode::Closed,
        Some(rate) => Mode::AtRate(rate),
        None => Mode::Traced,
    };
    let times = if matches!(mode, Mode::Traced) { Times::Kept } else { Times::Ignored };
    let repeat = matches.get_flag("loop");
    let ask = Selection { format, times, requests_max: limit, repeat, ..Selection::new(path) };
    let mut workload = workload(&mut flags, &mode);
    workload.name = format!("replay of {}", path.display());
    auth(&mut flags, &mut workload);
    let plan = match mode {
        Mode::Traced => SendPlan::Trace { instants: Instants::List([].into()), speed: speed.unwrap_or(1.0) },
        _ => SendPlan::poisson(),
    };
    let mut config = config(&mut flags, &workload, &mode, plan);
    config.tls = secured(workload.tls.as_ref()).unwrap_or_else(|faults| {
        flags.faults.extend(faults);
        None
    });
    let mut script = script(&mut flags, &workload, speed);
    if let Err(faults) = workload.validate() {
        flags.faults.extend(faults.iter().map(ToString::to_string));
    }
    if flags.faults.is_empty() {
        flags.faults.extend(config.faults());
    }
    if !flags.faults.is_empty() {
        return Err(Failure::Usage(flags.faults));
    }
    let mut notes = Vec::new();
    let mut reader = TraceReader::open(&ask).map_err(|fault| Failure::Failed(vec![fault.to_string()]))?;
    if reader.format() == TraceFormat::OracleGeneral && !script.fill_on_miss {
        script.fill_on_miss = true;
        notes.push("the trace contains only reads: missed keys are stored");
    }
    let is_complete = limit.is_some() || matches.get_flag("allow-cut") || reader.has_end();
    if reader.format() == TraceFormat::Recorded && !is_complete {
        let remedy = "pass --allow-cut to replay its complete blocks, or record it again";
        return Err(Failure::Failed(vec![format!("{}: {NO_END}; {remedy}", path.display())]));
    }
    // An unreadable trace is refused before any request is sent.
    match reader.entry() {
        Ok(Some(_)) => {}
        Ok(None) => {
            return Err(Failure::Failed(vec![format!(
                "{}: the trace contains no requests; pass another file",
                path.display()
            )]));
        }
        Err(fault) => return Err(Failure::Failed(vec![fault.to_string()])),
    }
    Ok(ReplayRun { ask, script, workload, config, mode, prefill: matches.get_flag("prefill"), notes })
}

fn named<T: Copy>(names: &[(&'static str, T)], text: &str) -> Result<T, String> {
    let known = names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    known.ok_or_else(|| format!("{text:?} is not a format; write {}", all.join(", ")))
}

/// Returns the workload that describes the replay in its result.
fn workload(flags: &mut Flags<'_>, mode: &Mode) -> Workload {
    let targets = flags.matches.get_many::<String>("target").into_iter().flatten();
    let protocols = &Protocol::NAMES[..3];
    let mut workload = Workload {
        targets: targets.map(|address| model::Target { address: address.clone(), weight: 1 }).collect(),
        protocol: flags.read("protocol", |text| named(protocols, text)).unwrap_or_default(),
        placement: flags.read("placement", |text| named(&Placement::NAMES, text)).unwrap_or_default(),
        connections: flags.whole("connections").unwrap_or(50),
        depth: flags.whole("depth").unwrap_or(if matches!(mode, Mode::Closed) { 1 } else { 64 }),
        ..Workload::default()
    };
    reached(flags, &mut workload);
    workload
}

fn config(flags: &mut Flags<'_>, workload: &Workload, mode: &Mode, plan: SendPlan) -> Config {
    let duration_ns = flags.span("duration").map_or(LENGTH_NS_MAX, |span| span.as_nanos() as u64);
    let usual = config_of(workload, mode, plan, duration_ns);
    Config {
        targets: workload.targets.iter().filter_map(|target| target.address.parse::<Address>().ok()).collect(),
        routed: workload.placement != Placement::Any && workload.targets.len() > 1,
        warm_up_ns: flags.span("warm-up").map_or(0, |span| span.as_nanos() as u64),
        connect_timeout_ns: flags
            .span("connect-timeout")
            .map_or(usual.connect_timeout_ns, |span| span.as_nanos() as u64),
        timeout_ns: flags.span("timeout").map_or(usual.timeout_ns, |span| span.as_nanos() as u64),
        wait: if flags.matches.get_flag("poll") { Wait::Poll } else { Wait::Sleep },
        ..usual
    }
}

fn script(flags: &mut Flags<'_>, workload: &Workload, speed: Option<f64>) -> Script {
    let mut size = |name: &str, usual: u64, most: u64| {
        let bytes = flags.size(name).unwrap_or(usual);
        if bytes == 0 || bytes > most {
            flags.fault(name, format!("it must be from 1 to {most} bytes"));
        }
        bytes.min(most) as u32
    };
    let value_bytes = size("value-bytes", VALUE_BYTES, model::VALUE_BYTES_MAX);
    let value_bytes_max = size("value-max", VALUE_BYTES_MAX, model::VALUE_BYTES_MAX);
    let is_scaled = flags.matches.get_flag("scale-ttl");
    Script {
        protocol: workload.protocol,
        targets: workload.targets.clone(),
        placement: workload.placement,
        auth: workload.auth.clone(),
        verify: flags.matches.get_flag("verify"),
        fill_on_miss: flags.matches.get_flag("fill-on-miss"),
        value_bytes,
        value_bytes_max,
        ttl_divisor: speed.filter(|_| is_scaled).unwrap_or(1.0),
        now_s: UnixMillis::now().secs(),
        values: Arc::new(Values::new(Share(0.0))),
        altered: Arc::new(Altered::default()),
    }
}

/// Stores the keys that the trace reads with a hit.
fn prefill(asked: &ReplayRun, run_control: &RunControl, screen: &mut Screen) -> Result<(), Failure> {
    let ask = Selection { times: Times::Ignored, repeat: false, ..asked.ask.clone() };
    let feed = start(&ask, asked.config.threads, Deal::InTurn)?;
    let config = Config {
        load: Load::Closed,
        warm_up_ns: 0,
        duration_ns: LENGTH_NS_MAX,
        slice_ns: 1_000_000_000,
        ..asked.config.clone()
    };
    let make = |place: TrafficThread| Prefill::new(&asked.script, &feed, place.thread);
    let stored = stored(config, None, run_control, screen, |job, bar| session::run(job, make, run_control, bar))?;
    if let Some(fault) = load::schedule::OpenInstants::fault(&feed) {
        return Err(Failure::Failed(vec![format!("prefill: {fault}")]));
    }
    screen.line(&format!("prefill: stored {stored} keys that the trace reads"));
    Ok(())
}
