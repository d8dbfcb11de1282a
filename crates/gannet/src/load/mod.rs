//! `gannet load`: the load generator's command line.
//!
//! ```text
//!   args      the arguments                run       prefill, session, files, exit code
//!   ask       arguments -> a session       view      output during the run
//!   plan      arrivals -> a schedule       compare   results side by side
//!   cost      requests per dollar          versus    two servers, alternating, with ratios
//!   self_test capacity of this host        tool      other tools' command lines and files
//!   migrate   copies keys to another server; `gannet migrate`     import    follows a Redis; `gannet import`
//!   graph     loads files of edges into graphs; `gannet graph`
//!   recipe    the data with which a run can be repeated    rerun    repeats the run of a result
//!   agent     one run on several hosts         clients  the load programs of client libraries
//!   replay    a trace at its instants      record    requests of clients, as a trace
//!   stop      Ctrl-C ends the run          started   a server that a run starts and ends
//!   scenario  scenarios of the client libraries, over gRPC
//! ```

mod agent;
pub mod args;
pub mod ask;
mod clients;
pub mod compare;
mod cost;
pub mod graph;
pub mod import;
pub mod migrate;
mod plan;
mod recipe;
mod record;
mod replay;
mod rerun;
pub mod run;
mod scenario;
mod self_test;
pub mod started;
pub mod stop;
mod tool;
mod versus;
mod view;

use clap::{ArgMatches, Command};
use load::result::RunResult;
use load::session::RunControl;

use crate::{Failure, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    let command = Command::new("load")
        .about("Generate load on a server, and find the highest rate that meets its objectives")
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand_negates_reqs(true)
        .args_conflicts_with_subcommands(true)
        .subcommand(self_test::command())
        .subcommand(rerun::command())
        .subcommand(agent::command())
        .subcommand(compare::command())
        .subcommand(versus::command())
        .subcommand(cost::command())
        .subcommand(clients::command())
        .subcommand(record::command())
        .subcommand(replay::command())
        .subcommand(scenario::command())
        .subcommands(tool::commands())
        .subcommand(migrate::command("warm").about("Copy keys to another server: an alias of `gannet migrate`"))
        .subcommand(Command::new("presets").about("List the published workloads"))
        .subcommand(Command::new("schema").about("Print the JSON schema of a result"));
    args::add(command)
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("agent", matches)) => agent::run(matches),
        Some(("self-test", matches)) => self_test::run(matches),
        Some(("rerun", matches)) => rerun::run(matches),
        Some(("compare", matches)) => compare::run(matches),
        Some(("versus", matches)) => versus::run(matches),
        Some(("cost", matches)) => cost::run(matches),
        Some(("clients", matches)) => clients::run(matches),
        Some(("warm", matches)) => migrate::run(matches),
        Some(("record", matches)) => record::run(matches),
        Some(("replay", matches)) => replay::run(matches),
        Some(("scenario", matches)) => scenario::run(matches),
        Some(("presets", _)) => print(&presets()),
        Some((name @ ("aerospike" | "memtier" | "rpc-perf" | "mc-crusher"), matches)) => tool::run(name, matches),
        Some(("schema", _)) => print(&load::result::schema()),
        _ => run::run(matches),
    }
}

/// Runs `gannet load` with the flags in `words`, for another subcommand. Prints nothing.
pub fn one(words: &[String], run_control: &RunControl) -> Result<RunResult, Failure> {
    let command = args::add(Command::new("load")).no_binary_name(true);
    let matches = command.try_get_matches_from(words).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Failure::Usage(vec![format!("in the flags of `gannet load`: {first}")])
    })?;
    run::one(&matches, ask::ask(&matches)?, run_control, &mut view::Screen::new(true), None)
}

/// Returns the presets, one per line.
fn presets() -> String {
    load::workload::presets::names().iter().map(|name| format!("{name}\n")).collect()
}
