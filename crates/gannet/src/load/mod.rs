//! `gannet load`: the load generator's command line.
//!
//! ```text
//!   mod       subcommands          compare   results side by side
//! ```

mod compare;

use clap::{ArgMatches, Command};

use crate::{Failure, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    Command::new("load")
        .about("Results of load runs: compare them, and their JSON schema")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(compare::command())
        .subcommand(Command::new("schema").about("Print the JSON schema of a result"))
}

/// Runs it.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("compare", matches)) => compare::run(matches),
        Some(("schema", _)) => print(&load::result::schema()),
        _ => unreachable!("a subcommand is required"),
    }
}
