//! `gannet doctor`: checks this host, explains a check, compares two reports, plans CPUs, applies and undoes settings,
//! and proves their effect.
//!
//! Exit codes of a check: 0 without findings, 1 with warnings, 2 with a serious finding, 3 if the host could not be
//! checked.

mod args;
mod bundle;
mod lab;
pub mod plan;
mod prove;
mod tune;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use doctor::checks::{nearest_of, select};
use doctor::{Host, OptInActions, Report, checks, diff::diff, report, run as look};

use self::args::{failed, pid, read_named, root, target};
use crate::{Failure, print};

/// Maximum time between the two readings of the counters, in seconds.
const SECONDS_MAX: u64 = 3600;

/// The subcommand's arguments.
pub fn command() -> Command {
    let report =
        |name: &'static str, help: &'static str| Arg::new(name).required(true).help(help).value_name("REPORT.json");
    Command::new("doctor")
        .about("Find causes of tail latency on this host, for any server process, and remedy them")
        .after_help(
            "Exit codes: 0 no findings, 1 warnings, 2 a serious finding, 3 the host could not be \
             checked.\n\nExamples:\n  gannet doctor --pid $(pidof redis-server)\n  gannet doctor --only \
             mem,net.somaxconn --json > here.json\n  gannet doctor explain mem.thp-defrag\n  gannet doctor diff \
             fast-host.json slow-host.json",
        )
        .args_conflicts_with_subcommands(true)
        .arg(pid("Process id of the server: its threads, limits, memory and control group are also checked"))
        .arg(
            Arg::new("only")
                .long("only")
                .value_delimiter(',')
                .value_name("ID,...")
                .help("Run only these checks or groups of checks, as in cpu,mem.thp"),
        )
        .arg(
            Arg::new("seconds")
                .long("seconds")
                .default_value("1")
                .value_name("SECONDS")
                .help("Time for which counters are watched")
                .value_parser(value_parser!(u64).range(1..=SECONDS_MAX)),
        )
        .arg(root())
        .arg(
            Arg::new("measure")
                .long("measure")
                .action(ArgAction::SetTrue)
                .help("Also run measurements that use a CPU or a disk for some seconds: cpu.noise, disk.fsync-probe"),
        )
        .arg(
            Arg::new("data")
                .long("data")
                .value_parser(value_parser!(PathBuf))
                .value_name("DIR")
                .help("Directory of the server's log or data; checks its mount, and with --measure its disk"),
        )
        .arg(
            Arg::new("metadata")
                .long("metadata")
                .action(ArgAction::SetTrue)
                .help("Query the cloud's metadata service for the location of this machine"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the whole report as JSON"))
        .arg(Arg::new("all").long("all").action(ArgAction::SetTrue).help("Also list checks that pass or cannot run"))
        .subcommand(
            Command::new("explain")
                .about("Explain a check in full")
                .arg(Arg::new("id").required(true).value_name("ID").help("The check, as in mem.thp")),
        )
        .subcommand(Command::new("list").about("List the ids of all checks, with the files that each reads"))
        .subcommand(
            Command::new("diff")
                .about("Compare two reports that --json wrote")
                .arg(report("a", "The first"))
                .arg(report("b", "The second")),
        )
        .subcommand(plan::command())
        .subcommands(tune::commands())
        .subcommand(lab::command())
        .subcommand(prove::command())
        .subcommand(watch::command())
        .subcommand(bundle::command())
        .subcommand(Command::new("schema").about("Print the JSON schema of a report").hide(true))
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("explain", matches)) => explain(matches.get_one::<String>("id").expect("it is required")),
        Some(("list", _)) => {
            let lines: Vec<String> = checks::all().map(|check| format!("{:<24} {}\n", check.id, check.reads)).collect();
            print(&lines.concat())
        }
        Some(("diff", matches)) => compare(matches),
        Some(("plan", matches)) => plan::run(matches),
        Some(("apply", matches)) => tune::run_apply(matches),
        Some(("undo", matches)) => tune::run_undo(matches),
        Some(("persist", matches)) => tune::run_persist(matches),
        Some(("lab", matches)) => lab::run(matches),
        Some(("prove", matches)) => prove::run(matches),
        Some(("watch", matches)) => watch::run(matches),
        Some(("bundle", matches)) => bundle::run(matches),
        Some(("schema", _)) => print(&report::schema()),
        _ => check(matches),
    }
}

fn check(matches: &ArgMatches) -> Result<(), Failure> {
    let only: Vec<String> = matches.get_many::<String>("only").unwrap_or_default().cloned().collect();
    let checks = select(&only).map_err(failed)?;
    let window = Duration::from_secs(*matches.get_one::<u64>("seconds").expect("it has a default"));
    let mut target = target(matches, window)?;
    target.asked = OptInActions {
        measure: matches.get_flag("measure"),
        data: matches.get_one::<PathBuf>("data").cloned(),
        metadata: matches.get_flag("metadata"),
    };
    let pid = target.pid;
    let host = Host::watch(target);
    let report = Report::new(&host, pid, look(&host, &checks));
    print(&if matches.get_flag("json") { report.json() } else { report.text(matches.get_flag("all")) })?;
    match report.exit_code() {
        0 => Ok(()),
        code => Err(Failure::Code(code, Vec::new())),
    }
}

fn explain(id: &str) -> Result<(), Failure> {
    let Some(check) = checks::all().find(|check| check.id == id) else {
        return Err(failed(vec![format!("{id:?} is not a check{}; `gannet doctor list` lists all", nearest_of(id))]));
    };
    print(&report::explain(check))
}

fn compare(matches: &ArgMatches) -> Result<(), Failure> {
    let read = |name: &str| {
        let path = matches.get_one::<String>(name).expect("it is required");
        let text = read_named(path)?;
        Report::from_json(&text).map_err(|wrong| failed(vec![format!("{path}: {wrong}")]))
    };
    let (a, b) = (read("a")?, read("b")?);
    let text = diff(&a, &b);
    print(if text.is_empty() { "the two reports are equal\n" } else { &text })
}
