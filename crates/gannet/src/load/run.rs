//! `gannet load --target ...`: prefills the server, runs the session, writes the files, and determines the exit code.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::clock::UnixMillis;
use clap::ArgMatches;
use load::agents::{AgentRequests, Fleet};
use load::dialect::aerospike::Intervals;
use load::engine::{Config, Control, Error, Load, LoadStream};
use load::report::{html, terminal};
use load::result::{RunResult, SearchResult, Target, Tls, csv, hdr, metrics};
use load::session::admin::Admin;
use load::session::{self, Job, Mode, RunControl, View};
use load::timeline::host::Host;
use load::timeline::process::Process;
use load::timeline::server::{Account, ObservedServer};
use load::timeline::{Source, locate};
use load::workload::Workload;
use load::workload::model::Protocol;
use load::workload::prefill::Prefill;
use load::workload::source;

use super::agent;
use super::ask::{LoadRun, ask, secured};
use super::compare::{check_writable, write};
use super::stop;
use super::view::{Screen, Spoken};
use crate::{Failure, print};

/// The exit code if the generator was the bottleneck, so that the result does not describe the server.
pub const GENERATOR_LIMITED: u8 = 3;
/// The exit code if an assertion or an objective was violated.
pub const BROKEN: u8 = 4;
/// The exit code if the run ended early, with partial results.
pub const PARTIAL: u8 = 5;

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let asked = ask(matches)?;
    check_files(matches)?;
    let mut screen = Screen::new(matches.get_flag("quiet"));
    let run_control = Arc::new(RunControl::default());
    stop::run_control(&run_control)?;
    for note in &asked.notes {
        screen.line(&format!("note: {note}"));
    }
    let _admin = admin(matches.get_one::<String>("admin").map(String::as_str), &run_control, &mut screen)?;
    let result = one(matches, asked, &run_control, &mut screen, None)?;
    print(&terminal::summary(&result))?;
    files(matches, &result, 1)?;
    ended(&result)
}

/// Runs one session, including the prefill. `intervals` are printed during the run, if given.
pub fn one(
    matches: &ArgMatches,
    asked: LoadRun,
    run_control: &RunControl,
    screen: &mut Screen,
    intervals: Option<Intervals>,
) -> Result<RunResult, Failure> {
    let LoadRun { mut job, workload, .. } = asked;
    if job.config.tls.is_none() {
        job.config.tls = secured(workload.tls.as_ref()).map_err(Failure::Failed)?;
    }
    job.known.tls = job.config.tls.as_ref().map(|client| Tls::from(client.settings()));
    describe(&workload, &job.config, &mut job.known)?;
    let mut fleet = agent::fleet(matches)?;
    if let Some(fleet) = &fleet {
        agent::describe(fleet, &mut job.known);
    }
    job.sources = sources(matches, &workload, &job.config, fleet.is_none())?;
    if matches!(job.mode, Mode::AtRate(_)) {
        run_control.await_rate();
    }
    if workload.prefill {
        prefill(&workload, &job.config, fleet.as_mut(), run_control, screen)?;
    }
    let now = UnixMillis::now();
    let make = |place: load::engine::TrafficThread| {
        // The sampler's requests are drawn in the same way as those of the workload's first thread.
        match place.stream {
            LoadStream::Bulk => source::RequestSource::new(&workload, place.thread as u32, now),
            LoadStream::Sampler => source::RequestSource::beside(&workload, 0, now),
        }
    };
    let (mut spoken, mut counted);
    let view: &mut dyn View = match (intervals, job.config.requests_max) {
        (Some(intervals), _) => {
            spoken = Spoken { intervals, screen: &mut *screen };
            &mut spoken
        }
        (None, Some(requests)) => {
            counted = Counted { screen: &mut *screen, requests: Some(requests), what: None };
            &mut counted
        }
        (None, None) => &mut *screen,
    };
    let outcome = match &mut fleet {
        None => session::run(job, make, run_control, view),
        Some(fleet) => session::run_by(job, &mut by(fleet, &workload, AgentRequests::Requests), run_control, view),
    };
    screen.wipe();
    outcome.map_err(failed)
}

/// Returns a function that runs a configuration on the agents.
fn by<'a>(
    fleet: &'a mut Fleet,
    workload: &'a Workload,
    kind: AgentRequests,
) -> impl FnMut(&Config, &Control) -> Result<load::engine::Run, Error> + 'a {
    move |config, control| fleet.run(config, control, workload, kind)
}

/// Converts an error of the load engine to a failure.
pub fn failed(error: Error) -> Failure {
    Failure::Failed(error.to_string().lines().map(str::to_owned).collect())
}

/// Opens the admin port, if requested.
pub fn admin(addr: Option<&str>, run_control: &Arc<RunControl>, screen: &mut Screen) -> Result<Option<Admin>, Failure> {
    let Some(addr) = addr else { return Ok(None) };
    let admin = Admin::start(addr, run_control.clone()).map_err(|error| {
        Failure::Failed(vec![format!("--admin: cannot listen on {addr} ({error}); name a free HOST:PORT of this host")])
    })?;
    screen.line(&format!("admin port: http://{}/", admin.addr()));
    Ok(Some(admin))
}

/// Reads the name and version of each target. If a target refuses TLS, the run fails before any request is sent.
pub fn describe(workload: &Workload, config: &Config, known: &mut RunResult) -> Result<(), Failure> {
    let account = account(workload.protocol);
    let meet = |address: &str| match account {
        Some(account) => ObservedServer::new(address, account).secured(config.tls.as_ref()).meet(),
        None => Ok(None),
    };
    for target in &workload.targets {
        let server = meet(&target.address).map_err(|failure| {
            Failure::Failed(vec![format!("cannot open a connection: {}: {failure}", target.address)])
        })?;
        let (address, protocol) = (target.address.clone(), workload.protocol.name().to_owned());
        known.targets.push(Target { address, protocol, server });
    }
    Ok(())
}

const fn account(protocol: Protocol) -> Option<Account> {
    match protocol {
        Protocol::Memcache | Protocol::Meta => Some(Account::Stats),
        Protocol::Resp | Protocol::Resp3 => Some(Account::Info),
        Protocol::Ping | Protocol::Grpc => None,
    }
}

/// Returns the sources of the timelines: the host, the generator if it runs here, and the statistics of the first
/// target.
pub fn sources(
    matches: &ArgMatches,
    workload: &Workload,
    config: &Config,
    is_here: bool,
) -> Result<Vec<Box<dyn Source>>, Failure> {
    let mut sources: Vec<Box<dyn Source>> = vec![Box::new(Host::default())];
    if is_here {
        sources.push(Box::new(Process::new("generator", std::process::id())));
    }
    let Some(first) = workload.targets.first() else { return Ok(sources) };
    let pid = match matches.get_one::<String>("server-pid") {
        Some(text) => {
            let wrong = || Failure::Usage(vec![format!("--server-pid: {text:?} is not a process id; see pidof")]);
            Some(text.parse::<u32>().map_err(|_| wrong())?)
        }
        None => locate::listener(&first.address),
    };
    if let Some(pid) = pid {
        sources.push(Box::new(Process::new("server", pid)));
    }
    match matches.get_one::<String>("server-admin") {
        Some(admin) => sources.push(Box::new(ObservedServer::new(admin, Account::Metrics))),
        None => {
            if let Some(account) = account(workload.protocol) {
                sources.push(Box::new(ObservedServer::new(&first.address, account).secured(config.tls.as_ref())));
            }
        }
    }
    Ok(sources)
}

/// Stores every key of the workload once, before the run.
fn prefill(
    workload: &Workload,
    config: &Config,
    fleet: Option<&mut Fleet>,
    run_control: &RunControl,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let requests: u64 = workload.prefill_requests().iter().sum();
    let config = Config {
        load: Load::Closed,
        depth: 64,
        batch: 1,
        warm_up_ns: 0,
        duration_ns: 24 * 3_600_000_000_000,
        slice_ns: 1_000_000_000,
        // No limit is needed, because each thread ends after it has stored its part of the keys.
        requests_max: None,
        sampler: None,
        ..config.clone()
    };
    let now = UnixMillis::now();
    let make = |place: load::engine::TrafficThread| Prefill::new(workload, place.thread as u32, now);
    stored(config, Some(requests), run_control, screen, |job, bar| match fleet {
        None => session::run(job, make, run_control, bar),
        Some(fleet) => session::run_by(job, &mut by(fleet, workload, AgentRequests::Prefill), run_control, bar),
    })?;
    screen.line(&match &workload.graph {
        Some(graph) => format!("prefill: sent {} edges", graph.origin.count()),
        None => format!("prefill: stored {requests} keys"),
    });
    Ok(())
}

/// Sends store requests until the traffic source has no more, by calling `go`. Returns the number of stores. `requests`
/// is the expected number of requests, if known.
pub fn stored(
    config: Config,
    requests: Option<u64>,
    run_control: &RunControl,
    screen: &mut Screen,
    go: impl FnOnce(Job, &mut dyn View) -> Result<RunResult, Error>,
) -> Result<u64, Failure> {
    let mut known = RunResult::new("prefill");
    known.name = "prefill".to_owned();
    let job =
        Job { known, config, mode: Mode::Closed, objectives: Vec::new(), assertions: Vec::new(), sources: Vec::new() };
    let mut bar = Counted { screen, requests, what: Some("prefill") };
    let result = go(job, &mut bar).map_err(failed)?;
    if let Some(cause) = result.partial.filter(|_| !run_control.is_stopped()) {
        return Err(Failure::Failed(vec![format!("prefill: {cause}")]));
    }
    let counts = &result.figures.counts;
    if counts.errors > 0 || counts.unanswered > 0 {
        let first =
            result.figures.faults.first().map_or(String::new(), |fault| format!("; the first: {}", fault.first));
        return Err(Failure::Failed(vec![format!(
            "prefill: {} of {} stores failed{first}; give the server more memory, or do not prefill",
            counts.errors + counts.unanswered,
            requests.unwrap_or(counts.due),
        )]));
    }
    Ok(counts.answered)
}

/// A progress bar that counts requests.
struct Counted<'a> {
    screen: &'a mut Screen,
    /// Expected number of requests, if known.
    requests: Option<u64>,
    what: Option<&'a str>,
}

impl View for Counted<'_> {
    fn progress(&mut self, progress: &terminal::RunProgress) {
        let mut progress = progress.clone();
        if let Some(what) = self.what {
            progress.what = what.to_owned();
        }
        progress.done = self.requests.map(|requests| progress.answered as f64 / requests.max(1) as f64);
        self.screen.progress(&progress);
    }

    fn step(&mut self, _: &load::result::StepResult) {}
}

/// The function that formats a file of results.
type Written = fn(&RunResult) -> String;

/// The flags that name files of results, with their contents.
const FILES: [(&str, Written); 6] = [
    ("report", html),
    ("json", RunResult::to_json),
    ("hdr", hdr::log),
    ("csv", csv::intervals),
    ("steps-csv", csv::steps),
    ("prometheus", metrics::text),
];

/// Returns an error if a requested file cannot be written. Called before a run begins.
pub fn check_files(matches: &ArgMatches) -> Result<(), Failure> {
    let paths = FILES.iter().filter_map(|(flag, _)| matches.try_get_one::<String>(flag).ok().flatten());
    paths.into_iter().try_for_each(|path| check_writable(Path::new(path)))
}

/// Writes all requested files. From the second round on, the file names contain the number of the round.
pub fn files(matches: &ArgMatches, result: &RunResult, round: u32) -> Result<(), Failure> {
    for (flag, text) in FILES {
        if let Some(path) = matches.get_one::<String>(flag) {
            write(&of_round(Path::new(path), round), &text(result))?;
        }
    }
    Ok(())
}

/// Returns `path` in the first round, and `out-2.json` for `out.json` in the second.
pub fn of_round(path: &Path, round: u32) -> PathBuf {
    if round <= 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{round}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{round}"),
    };
    path.with_file_name(name)
}

/// Returns the failure with the run's exit code, if it is not 0. Invalid figures have priority over other reasons.
pub fn ended(result: &RunResult) -> Result<(), Failure> {
    if let Some(cause) = &result.invalid {
        return Err(Failure::Code(GENERATOR_LIMITED, vec![format!("INVALID: {cause}")]));
    }
    if let Some(cause) = &result.partial {
        return Err(Failure::Code(PARTIAL, vec![format!("PARTIAL: {cause}")]));
    }
    let broken: Vec<String> = result
        .assertions
        .iter()
        .filter(|assertion| !assertion.held)
        .map(|assertion| format!("assertion violated: {}; actual value {}", assertion.condition, assertion.value))
        .collect();
    if !broken.is_empty() {
        let is_bound = result.search.as_ref().is_some_and(SearchResult::is_generator_limited);
        // The rate may be higher than the lower bound, so that a broken assertion about it says nothing of the server.
        return Err(Failure::Code(if is_bound { GENERATOR_LIMITED } else { BROKEN }, broken));
    }
    if result.is_broken {
        return Err(Failure::Code(BROKEN, vec![result.verdict.headline.clone()]));
    }
    Ok(())
}
