//! `gannet load scenario FILE --target HOST:PORT`: plays scenarios of the client libraries over gRPC.

use clap::{Arg, ArgAction, ArgMatches, Command};
use load::clients::scenario::Scenario;

use crate::{Failure, print};

/// The subcommand's arguments.
pub fn command() -> Command {
    Command::new("scenario")
        .about("Play scenario files of the client libraries on a gRPC port, and compare each result")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .action(ArgAction::Append)
                .num_args(1..)
                .help("Scenario files; each needs an empty server"),
        )
        .arg(
            Arg::new("target")
                .long("target")
                .value_name("HOST:PORT")
                .required(true)
                .help("Address of the server's gRPC port"),
        )
        .after_help(
            "The server needs --test-faults if a scenario has faults. Scenarios with steps on the client's queue, \
             retries or near cache, and those that stop the server, are refused.\nExit codes: 0 if all results are as \
             expected, 1 if one differs, 2 for a file that cannot be played.\n\nExample:\n  gannet load scenario \
             conformance/clients/scenarios/hit_and_miss.toml --target 127.0.0.1:7000",
        )
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let usage = |line: String| Failure::Usage(vec![line]);
    let target = matches.get_one::<String>("target").map_or("", String::as_str);
    let address = std::net::ToSocketAddrs::to_socket_addrs(target).ok().and_then(|mut all| all.next());
    let address = address.ok_or_else(|| usage(format!("--target: {target} is no address; pass HOST:PORT")))?;
    let mut scenarios = Vec::new();
    for path in matches.get_many::<String>("file").into_iter().flatten() {
        let at = |cause: &dyn std::fmt::Display| usage(format!("cannot play {path}: {cause}"));
        let text = std::fs::read_to_string(path).map_err(|error| at(&error))?;
        scenarios.push((path, Scenario::parse(&text).map_err(|error| at(&error))?));
    }
    for (path, scenario) in scenarios {
        match scenario.play(address) {
            Ok(steps) => print(&format!("ok: {}: {steps} steps\n", scenario.name))?,
            Err(cause) => return Err(Failure::Failed(vec![format!("{path}: {cause}")])),
        }
    }
    Ok(())
}
