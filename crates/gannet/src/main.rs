//! `gannet`: reads its arguments, joins the crates, and says what went wrong.
//!
//! One file a subcommand, and nothing here but arguments and wiring. Exit codes: 0 done, 1 it could not be done, 2 the
//! arguments are wrong.
#![forbid(unsafe_code)]

mod args;
mod config;
mod serve;

use std::process::ExitCode;

/// What a subcommand ends with when it could not do its work.
pub enum Failure {
    /// The arguments are wrong: a line for each fault.
    Usage(Vec<String>),
    /// It could not be done: a line for each reason.
    Failed(Vec<String>),
}

fn main() -> ExitCode {
    let matches = match args::program().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // `--help` and `--version` are errors to the parser; they go to standard output and end well.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    let ended = match matches.subcommand() {
        Some(("serve", matches)) => serve::run(matches),
        Some(("config", matches)) => config::run(matches),
        Some((name, _)) => Err(Failure::Usage(vec![args::absent_command(name)])),
        None => unreachable!("a subcommand is required"),
    };
    let (lines, code) = match ended {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(lines)) => (lines, 1),
        Err(Failure::Usage(lines)) => (lines, 2),
    };
    for line in lines {
        eprintln!("gannet: {line}");
    }
    ExitCode::from(code)
}
