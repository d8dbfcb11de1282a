//! `gannet load clients`: runs the load programs of client libraries over a grid of offered requests, presets and
//! round trips.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use base::units::TimeSpan;
use clap::{Arg, ArgAction, ArgMatches, Command};
use load::clients::bench::BenchProgram;
use load::clients::study::{ClientSetting, RUNS_MAX, StudyCell, StudyPlan};
use load::clients::{page, table};

use super::compare::write;
use super::stop;
use super::view::Screen;
use crate::{Failure, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    let value = |name: &'static str, placeholder: &'static str| Arg::new(name).long(name).value_name(placeholder);
    let list = |name: &'static str, placeholder: &'static str, default: &'static str| {
        value(name, placeholder).value_delimiter(',').default_value(default)
    };
    Command::new("clients")
        .about("Run the load programs of gRPC client libraries over a grid of concurrency, presets and round trips")
        .arg(
            value("target", "HOST:PORT")
                .default_value("127.0.0.1:7000")
                .help("Address of the server: `gannet serve --grpc`"),
        )
        .arg(
            value("program", "NAME=COMMAND")
                .required(true)
                .action(ArgAction::Append)
                .help("A library's load program, as 'python=python -m gannet.bench'; may be repeated"),
        )
        .arg(list("presets", "NAMES", "InRegion.Default,InRegion.LowLatency").help("Presets of the libraries"))
        .arg(
            Arg::new("uncapped")
                .long("uncapped")
                .action(ArgAction::SetTrue)
                .help("Also run each preset without its cap of requests in flight"),
        )
        .arg(
            list("concurrency", "NUMBERS", "1,5,25,100,400,1000,2500,5000")
                .help("Requests that a program offers at once"),
        )
        .arg(list("round-trips", "TIMES", "0us,500us,20ms").help("Round trips that a proxy adds"))
        .arg(value("repeats", "N").default_value("5").help("Runs of each combination; the figures are their medians"))
        .arg(value("duration", "TIME").default_value("2s").help("Measured time of a run"))
        .arg(value("json", "FILE.json").help("Write all runs"))
        .arg(value("table", "FILE.md").help("Write the table of medians [default: print it]"))
        .arg(value("report", "FILE.html").help("Write an HTML page with charts"))
        .after_help(
            "The libraries take turns. A run without a success does not count. Exit code 1: a library had no run that \
             counts; the others are reported.\n\nExample:\n  gannet serve --grpc \
             127.0.0.1:7000 &\n  gannet load clients --program 'go=clients/go/gannet-bench' \\\n    --program \
             'python=python -m gannet.bench' --presets Laptop \\\n    --concurrency 1,100,5000 --round-trips 0us \
             --repeats 3 --report study.html",
        )
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let plan = plan(matches).map_err(Failure::Usage)?;
    let stopped = stop::switch()?;
    let (runs, mut screen) = (plan.runs(), Screen::new(false));
    let report = |number: usize, cell: &StudyCell| {
        let rate = cell.runs.last().map_or("failed".to_owned(), |run| format!("{:.0}/s", run.figures.requests_per_s));
        let (client, setting, offered) = (&cell.client, &cell.setting, cell.concurrency);
        screen.line(&format!("run {number} of {runs}: {client}, {setting}, {offered} offered: {rate}"));
    };
    let study = plan.run(|| stopped.load(Relaxed), report).map_err(|error| Failure::Failed(vec![error]))?;
    let text = |name: &str| matches.get_one::<String>(name).map(Path::new);
    if let Some(path) = text("json") {
        let json = serde_json::to_string_pretty(&study).map_err(|error| Failure::Failed(vec![error.to_string()]))?;
        write(path, &json)?;
    }
    if let Some(path) = text("report") {
        write(path, &page::html(&study))?;
    }
    match text("table") {
        Some(path) => write(path, &table::markdown(&study))?,
        None => print(&table::markdown(&study))?,
    }
    let failed = failed(&study.cells);
    if failed.is_empty() { Ok(()) } else { Err(Failure::Failed(failed)) }
}

/// Returns a line for each library without any successful run, with the reason of its first failure.
fn failed(cells: &[StudyCell]) -> Vec<String> {
    let mut clients: Vec<&str> = Vec::new();
    for cell in cells {
        if !clients.contains(&cell.client.as_str()) {
            clients.push(&cell.client);
        }
    }
    let of = |client: &str| cells.iter().filter(move |cell| cell.client == client).collect::<Vec<_>>();
    let line = |client: &str| {
        let cells = of(client);
        let cause = cells.iter().flat_map(|cell| &cell.failures).next().cloned();
        let is_failed = cells.iter().all(|cell| cell.runs.is_empty());
        is_failed.then(|| cause.unwrap_or_else(|| format!("{client}: no run was completed")))
    };
    clients.into_iter().filter_map(line).collect()
}

/// Returns the plan of the arguments; otherwise a line for each fault.
fn plan(matches: &ArgMatches) -> Result<StudyPlan, Vec<String>> {
    let mut faults = Vec::new();
    let texts = |name: &str| matches.get_many::<String>(name).into_iter().flatten().cloned().collect::<Vec<_>>();
    let target = parsed(&mut faults, "target", &texts("target"), address);
    let programs = parsed(&mut faults, "program", &texts("program"), BenchProgram::parse);
    let concurrencies = parsed(&mut faults, "concurrency", &texts("concurrency"), |text| number(text, 1..=100_000));
    let round_trips = parsed(&mut faults, "round-trips", &texts("round-trips"), time);
    let repeats = parsed(&mut faults, "repeats", &texts("repeats"), |text| number(text, 1..=1_000));
    let duration = parsed(&mut faults, "duration", &texts("duration"), time);
    let seconds = duration.first().map_or(0.0, Duration::as_secs_f64);
    if seconds == 0.0 && !duration.is_empty() {
        faults.push("--duration: the time must be above 0".to_owned());
    }
    let uncapped: &[bool] = if matches.get_flag("uncapped") { &[false, true] } else { &[false] };
    let settings = texts("presets").into_iter().flat_map(|preset| {
        uncapped.iter().map(move |is_uncapped| ClientSetting { preset: preset.clone(), is_uncapped: *is_uncapped })
    });
    let repeats = repeats.first().copied().unwrap_or(1);
    let Some(target) = target.first().copied() else { return Err(faults) };
    let plan =
        StudyPlan { target, programs, settings: settings.collect(), concurrencies, round_trips, repeats, seconds };
    if plan.runs() > RUNS_MAX {
        faults.push(format!("{} runs are more than {RUNS_MAX}; reduce the grid", plan.runs()));
    }
    if faults.is_empty() { Ok(plan) } else { Err(faults) }
}

/// Parses each text of an argument. Adds a fault for each that is malformed.
fn parsed<T>(
    faults: &mut Vec<String>,
    name: &str,
    texts: &[String],
    parse: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    let parsed = texts.iter().map(|text| parse(text).map_err(|error| format!("--{name}: {error}")));
    parsed.filter_map(|one| one.map_err(|fault| faults.push(fault)).ok()).collect()
}

fn number(text: &str, within: std::ops::RangeInclusive<u32>) -> Result<u32, String> {
    let number = u32::from_str(text).ok().filter(|number| within.contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from {} to {}", within.start(), within.end()))
}

fn time(text: &str) -> Result<Duration, String> {
    let span: TimeSpan =
        text.parse().map_err(|error: base::units::UnitError| format!("{error}; {}", error.remedy()))?;
    Ok(Duration::from_nanos(span.0))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("cannot resolve {text:?}: {error}; use HOST:PORT"))?;
    found.into_iter().next().ok_or_else(|| format!("{text:?} has no address; use HOST:PORT"))
}
