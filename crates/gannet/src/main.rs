//! `gannet`: reads its arguments, joins the crates, and says what went wrong.
//!
//! One file or folder a subcommand, and nothing here but arguments and wiring. Exit codes: 0 done, 1 it could not be
//! done, 2 the arguments are wrong; `gannet load` and `gannet doctor` have more, and `gannet memcached` has
//! memcached's.
#![forbid(unsafe_code)]

mod config;
mod doctor;
mod file;
mod load;
mod memcached;
mod screen;
mod serve;
mod top;
mod upgrade;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;

/// Memory that clients hold in long blocks is the kernel's again once they let go of it: their bound relies on it.
#[global_allocator]
static ALLOCATOR: io::allocation::MappedLong = io::allocation::MappedLong::new();

/// The failure of a subcommand.
pub enum Failure {
    /// The arguments are wrong: a line for each fault.
    Usage(Vec<String>),
    /// It could not be done: a line for each reason.
    Failed(Vec<String>),
    /// Either, with an exit code of its own.
    Code(u8, Vec<String>),
}

/// The arguments behind `memcached`, if it is memcached that is asked for: by a subcommand, or by the name under which
/// the program is called.
fn memcached_args() -> Option<impl Iterator<Item = OsString>> {
    let mut args = std::env::args_os();
    let called = args.next().is_some_and(|path| Path::new(&path).file_name() == Some(OsStr::new("memcached")));
    let mut args = args.peekable();
    (called || args.next_if(|first| first == "memcached").is_some()).then_some(args)
}

/// Returns the whole command line.
fn program() -> Command {
    Command::new("gannet")
        .version(env!("CARGO_PKG_VERSION"))
        .about("An in-memory store that is bought by its tail")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(serve::command())
        .subcommand(Command::new("memcached").about("Run the server by memcached's own flags; -h lists them"))
        .subcommand(load::command())
        .subcommand(load::migrate::command("migrate"))
        .subcommand(top::command())
        .subcommand(doctor::command())
        .subcommand(config::command())
        .subcommand(file::command())
}

fn main() -> ExitCode {
    if let Some(args) = memcached_args() {
        return ended(memcached::run(args));
    }
    let matches = match program().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            // `--help` and `--version` are errors to the parser; they go to standard output and end well.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    ended(match matches.subcommand() {
        Some(("serve", matches)) => serve::run(matches),
        Some(("load", matches)) => load::run(matches),
        Some(("migrate", matches)) => load::migrate::run(matches),
        Some(("top", matches)) => top::run(matches),
        Some(("config", matches)) => config::run(matches),
        Some(("doctor", matches)) => doctor::run(matches),
        Some(("file", matches)) => file::run(matches),
        _ => unreachable!("a subcommand is required"),
    })
}

/// Says what went wrong, if anything did.
fn ended(ended: Result<(), Failure>) -> ExitCode {
    let (lines, code) = match ended {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(lines)) => (lines, 1),
        Err(Failure::Usage(lines)) => (lines, 2),
        Err(Failure::Code(code, lines)) => (lines, code),
    };
    for line in lines {
        eprintln!("gannet: {line}");
    }
    ExitCode::from(code)
}

/// Writes to standard output; a reader that has gone, as in `| head`, is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(vec![format!("cannot write to standard output: {error}; check its destination")]))
        }
        _ => Ok(()),
    }
}
