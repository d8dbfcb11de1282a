//! `gannet`: parses arguments, connects the crates, and reports errors.
//!
//! Each subcommand has its own file or directory, with only arguments and wiring. Exit codes: 0 done, 1 failed, 2 wrong
//! arguments. `gannet load` and `gannet doctor` have further codes, and `gannet memcached` uses memcached's.
#![forbid(unsafe_code)]

mod config;
mod doctor;
mod file;
mod load;
mod memcached;
mod screen;
mod serve;
mod top;
mod user;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;

/// The program's allocator. It returns long blocks to the kernel when they are freed, on which the limit of client
/// memory relies.
#[global_allocator]
static ALLOCATOR: io::allocation::MappedLong = io::allocation::MappedLong::new();

/// The failure of a subcommand.
pub enum Failure {
    /// The arguments are wrong; one line per fault.
    Usage(Vec<String>),
    /// The command failed; one line per reason.
    Failed(Vec<String>),
    /// A failure with its own exit code; one line per reason.
    Code(u8, Vec<String>),
}

/// Returns the arguments after the program's name or the subcommand, if the program runs in memcached mode: under the
/// name `memcached`, or with the subcommand `memcached`.
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
        .about("An in-memory cache and store with low tail latency")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(serve::command())
        .subcommand(Command::new("memcached").about("Run the server by memcached's own flags; -h lists them"))
        .subcommand(load::command())
        .subcommand(load::migrate::command("migrate"))
        .subcommand(load::import::command())
        .subcommand(load::graph::command())
        .subcommand(top::command())
        .subcommand(doctor::command())
        .subcommand(config::command())
        .subcommand(user::command())
        .subcommand(file::command())
        .subcommand(config::generate::command())
}

fn main() -> ExitCode {
    if let Some(args) = memcached_args() {
        return ended(memcached::run(args));
    }
    let args = with_help_as_flag(std::env::args_os().collect());
    if args.get(1).is_some_and(|first| first == "memcached") {
        return ended(memcached::run(std::iter::once("-h".into())));
    }
    let matches = match program().try_get_matches_from(&args) {
        Ok(matches) => matches,
        Err(error) => {
            if let Some(text) = screen::help::short_for(&program(), args.get(1..).unwrap_or_default(), error.kind()) {
                return helped(&text, error.exit_code() as u8);
            }
            // The parser reports `--help` and `--version` as errors; they go to standard output with exit code 0.
            let _ = error.print();
            return ExitCode::from(error.exit_code() as u8);
        }
    };
    ended(match matches.subcommand() {
        Some(("serve", matches)) => serve::run(matches),
        Some(("load", matches)) => load::run(matches),
        Some(("migrate", matches)) => load::migrate::run(matches),
        Some(("import", matches)) => load::import::run(matches),
        Some(("graph", matches)) => load::graph::run(matches),
        Some(("top", matches)) => top::run(matches),
        Some(("config", matches)) => config::run(matches),
        Some(("user", matches)) => user::run(matches),
        Some(("doctor", matches)) => doctor::run(matches),
        Some(("file", matches)) => file::run(matches),
        Some(("generate", matches)) => config::generate::run(matches, program()),
        _ => unreachable!("a subcommand is required"),
    })
}

/// Returns the arguments with `help COMMAND` replaced by `COMMAND --help`.
fn with_help_as_flag(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|first| first == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

/// Prints the short help: to standard output if it was requested, otherwise to standard error.
fn helped(text: &str, code: u8) -> ExitCode {
    if code == 0 {
        return ended(print(text));
    }
    warn(text.trim_end());
    ExitCode::from(code)
}

/// Prints the reasons if the subcommand failed. Returns the exit code.
fn ended(ended: Result<(), Failure>) -> ExitCode {
    let (lines, code) = match ended {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(lines)) => (lines, 1),
        Err(Failure::Usage(lines)) => (lines, 2),
        Err(Failure::Code(code, lines)) => (lines, code),
    };
    for line in lines {
        warn(&format!("gannet: {line}"));
    }
    ExitCode::from(code)
}

/// Writes a line to standard error. A reader that has closed it, as in `2>&1 | head`, must not end the program, and no
/// place is left to report another error.
pub fn warn(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes to standard output. A reader that has closed it, as in `| head`, is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(vec![format!("cannot write to standard output: {error}; check its destination")]))
        }
        _ => Ok(()),
    }
}
