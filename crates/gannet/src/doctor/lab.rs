//! `gannet doctor lab`: reproduces one cause of tail latency, measures the effect, and shows which check detects the
//! cause.

use std::path::PathBuf;
use std::time::Duration;

use base::units::{ByteSize, UnitError};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use doctor::lab::ledger::usual_folder;
use doctor::lab::reclaim::{Engine, ReclaimOptions};
use doctor::lab::{LABS, Lab, LabOptions, Ledger, html, run as show, run_part};

use super::args::failed;
use crate::load::stop;
use crate::{Failure, print, warn};

/// The subcommand's arguments.
pub fn command() -> Command {
    let part = Command::new("part")
        .hide(true)
        .args([Arg::new("role").required(true), Arg::new("lab").required(true).value_parser(value_parser!(u32))]);
    Command::new("lab")
        .about("Reproduce one cause of tail latency, measure it, and show which check detects it")
        .after_help(
            "A lab uses CPU for some seconds. It removes everything that it creates (control groups, networks, loop \
             devices, files), even when it is interrupted; the next lab removes the remains of one that was \
             killed.\nExit codes: 0 the effect was shown; 1 it was not; 3 it cannot be shown on this host.",
        )
        .subcommand_required(true)
        .subcommands(LABS.iter().map(|entry| {
            let command = Command::new(entry.name).about(entry.about).args(arguments(entry.seconds));
            if entry.lab == Lab::Reclaim { command.args(reclaim_arguments()) } else { command }
        }))
        .subcommand(part)
}

fn arguments(seconds: &'static str) -> [Arg; 6] {
    [
        Arg::new("rounds")
            .long("rounds")
            .default_value("5")
            .value_name("N")
            .value_parser(value_parser!(u32).range(1..=100))
            .help("Number of measurements of each setting"),
        Arg::new("seconds")
            .long("seconds")
            .default_value(seconds)
            .value_name("SECONDS")
            .value_parser(value_parser!(u64).range(1..=600))
            .help("Maximum length of a phase"),
        Arg::new("seed")
            .long("seed")
            .default_value("1")
            .value_name("N")
            .value_parser(value_parser!(u64))
            .help("Seed of the random draws"),
        Arg::new("folder")
            .long("folder")
            .value_parser(value_parser!(PathBuf))
            .value_name("DIR")
            .help("Directory of the lab's files [default: /var/lib/gannet/lab]"),
        Arg::new("html")
            .long("html")
            .value_parser(value_parser!(PathBuf))
            .value_name("FILE")
            .help("Write a report with charts as one HTML file"),
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the outcome as JSON"),
    ]
}

fn bytes(text: &str) -> Result<u64, UnitError> {
    text.parse::<ByteSize>().map(|size| size.0)
}

/// Parses a ratio of memory, between 0.01 and 4.
fn part(text: &str) -> Result<f64, String> {
    let part: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if (0.01..=4.0).contains(&part) { Ok(part) } else { Err("the value is not between 0.01 and 4".to_owned()) }
}

fn reclaim_arguments() -> [Arg; 13] {
    let value =
        |name: &'static str, of: &'static str, help: &'static str| Arg::new(name).long(name).value_name(of).help(help);
    let threads = || value_parser!(u32).range(1..=64);
    [
        value("memory", "SIZE", "Memory of the lab's control group [default: 512MiB, at most 2GiB]")
            .value_parser(bytes),
        value("garbage", "PART", "Size of the files that fill the page cache, as a ratio of --memory")
            .default_value("0.52")
            .value_parser(part),
        value("active", "PART", "Size of the segments in use, as a ratio of --memory")
            .default_value("0.8")
            .value_parser(part),
        value("segment", "SIZE", "Size of a segment in bytes").default_value("4MiB").value_parser(bytes),
        value("readers", "N", "Number of reading threads").default_value("2").value_parser(threads()),
        value("reads", "N", "Reads per second of each reading thread")
            .default_value("1000")
            .value_parser(value_parser!(u32).range(1..=1_000_000)),
        value("writers", "N", "Number of threads that replace segments").default_value("1").value_parser(threads()),
        value("writes", "SIZE", "Bytes that these threads write per second, together")
            .default_value("32MiB")
            .value_parser(bytes),
        value("scan", "SIZE", "Bytes per second read from files that nothing else uses, as by a backup; 0B for none")
            .default_value("64MiB")
            .value_parser(bytes),
        value("engine", "ENGINE", "Run only this engine").value_parser(Engine::ALL.map(|(name, _)| name)),
        value(
            "compare",
            "vm.NAME=A,B",
            "Compare values of a kernel setting instead of engines; the original value is restored",
        )
        .value_parser(|text: &str| compared(text).ok_or("not a setting with values, as in vm.zone_reclaim_mode=0,1")),
        value("whole-host", "", "Use all memory of this host, without a control group; for a dedicated guest")
            .action(ArgAction::SetTrue)
            .conflicts_with("memory"),
        value("article-mode", "", "Print each read that takes at least 100 ms, as the article's simulator did")
            .action(ArgAction::SetTrue),
    ]
}

/// Parses a kernel setting and the values to compare.
fn compared(text: &str) -> Option<(String, Vec<String>)> {
    let (name, values) = text.split_once('=')?;
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    let is_number = |value: &String| !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    (name.starts_with("vm.") && values.len() > 1 && values.iter().all(is_number)).then(|| (name.to_owned(), values))
}

/// Reads the options of `reclaim`.
fn shape(matches: &ArgMatches) -> ReclaimOptions {
    let size = |name: &str| matches.get_one::<u64>(name).copied();
    let part = |name: &str| *matches.get_one::<f64>(name).expect("it has a default");
    let threads = |name: &str| *matches.get_one::<u32>(name).expect("it has a default");
    let named =
        |name: &String| Engine::ALL.into_iter().find(|(known, _)| known == name).expect("the parser knows them").1;
    let page = arena::PAGE_BYTES as u64;
    ReclaimOptions {
        memory_bytes: size("memory"),
        is_whole_host: matches.get_flag("whole-host"),
        garbage: part("garbage"),
        active: part("active"),
        segment_bytes: size("segment").expect("it has a default").max(1).next_multiple_of(page),
        readers: threads("readers"),
        reads_per_s: threads("reads"),
        writers: threads("writers"),
        write_bytes_per_s: size("writes").expect("it has a default").max(1),
        scan_bytes_per_s: size("scan").expect("it has a default"),
        notes_slow: matches.get_flag("article-mode"),
        engine: matches.get_one::<String>("engine").map(named),
        values: matches.get_one::<(String, Vec<String>)>("compare").cloned(),
    }
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("part", matches)) => {
            let role = matches.get_one::<String>("role").expect("it is required");
            run_part(role, *matches.get_one::<u32>("lab").expect("it is required")).map_err(|why| failed(vec![why]))
        }
        Some((name, matches)) => one(name, matches),
        None => unreachable!("a subcommand is required"),
    }
}

fn one(name: &str, matches: &ArgMatches) -> Result<(), Failure> {
    let words = |why: String| failed(vec![why]);
    let entry = LABS.iter().find(|entry| entry.name == name).expect("the parser knows them");
    let wanted = LabOptions {
        rounds: *matches.get_one::<u32>("rounds").expect("it has a default"),
        phase: Duration::from_secs(*matches.get_one::<u64>("seconds").expect("it has a default")),
        seed: *matches.get_one::<u64>("seed").expect("it has a default"),
        reclaim: if entry.lab == Lab::Reclaim { shape(matches) } else { ReclaimOptions::default() },
        program: std::env::current_exe().map_err(|error| words(format!("cannot find this program's file: {error}")))?,
    };
    let stop = stop::switch()?;
    let folder = matches.get_one::<PathBuf>("folder").cloned().unwrap_or_else(usual_folder);
    let (mut ledger, lines) = Ledger::begin(&folder).map_err(words)?;
    lines.iter().for_each(|line| warn(&format!("gannet: {line}")));
    let ran = show(entry.lab, &wanted, &mut ledger, &stop, &mut |line| warn(&format!("{name}: {line}")));
    drop(ledger);
    let outcome = ran.map_err(|why| words(format!("lab {name}: {why}")))?;
    if let Some(path) = matches.get_one::<PathBuf>("html") {
        std::fs::write(path, html(&outcome)).map_err(|error| words(format!("{}: {error}", path.display())))?;
    }
    print(&if matches.get_flag("json") { outcome.json() } else { outcome.text() })?;
    if outcome.is_shown { Ok(()) } else { Err(Failure::Code(1, Vec::new())) }
}
