//! Arguments that several subcommands of the doctor share, their values, and the failure of these subcommands.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches, value_parser};
use doctor::{CheckTarget, OptInActions};

use crate::Failure;

/// Returns the argument `--pid`.
pub fn pid(help: &'static str) -> Arg {
    Arg::new("pid").long("pid").value_parser(value_parser!(u32).range(1..)).value_name("PID").help(help)
}

/// Returns the argument `--root`.
pub fn root() -> Arg {
    Arg::new("root").long("root").default_value("/").value_parser(value_parser!(PathBuf)).value_name("DIR").help(
        "Look at a tree of captured files instead: DIR/proc/stat, DIR/sys/...; DIR/later/... is a second reading, a \
         second after",
    )
}

/// Returns the failure of a doctor subcommand that could not do its work. `lines` are the reasons.
pub fn failed(lines: Vec<String>) -> Failure {
    Failure::Code(3, lines)
}

/// Returns the host to check, or an error if the directory of `--root` or the process of `--pid` does not exist.
pub fn target(matches: &ArgMatches, window: Duration) -> Result<CheckTarget, Failure> {
    let target = CheckTarget {
        root: matches.get_one::<PathBuf>("root").expect("it has a default").clone(),
        pid: matches.get_one::<u32>("pid").copied(),
        window,
        asked: OptInActions::default(),
    };
    if !target.root.is_dir() {
        return Err(failed(vec![format!("--root: {} is not a directory", target.root.display())]));
    }
    if let Some(pid) = target.pid
        && !target.root.join(format!("proc/{pid}")).is_dir()
    {
        return Err(failed(vec![format!("--pid: there is no process {pid}; `pidof NAME` prints a server's")]));
    }
    Ok(target)
}

/// Reads a file that the command line names.
pub fn read_named(path: &str) -> Result<String, Failure> {
    doctor::host::read_named(path.as_ref()).map_err(|why| failed(vec![format!("{path}: {why}")]))
}
