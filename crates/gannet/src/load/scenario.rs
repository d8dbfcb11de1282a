//! `gannet load scenario FILE`: plays scenarios of the client libraries over gRPC.

use clap::{Arg, ArgAction, ArgMatches, Command};
use load::clients::scenario::{Scenario, ScenarioServer};

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
                .help("Address of a running server's gRPC port; if absent, each file has a server of its own"),
        )
        .after_help(
            "Without --target, a server of this program is started for each file on 127.0.0.1, and ended. With \
             --target, scenarios that pause, end or limit their server are refused, and the server needs --test-faults \
             if a scenario has faults. Scenarios about the near cache need a client library.\nExit codes: 0 if all \
             results are as expected, 1 if one differs, 2 for a file that cannot be played.\n\nExample:\n  gannet load \
             scenario conformance/clients/scenarios/hit_and_miss.toml",
        )
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let usage = |line: String| Failure::Usage(vec![line]);
    let server = match matches.get_one::<String>("target") {
        Some(target) => {
            let address = std::net::ToSocketAddrs::to_socket_addrs(target).ok().and_then(|mut all| all.next());
            let fault = || usage(format!("--target: {target} is no address; pass HOST:PORT"));
            ScenarioServer::Running(address.ok_or_else(fault)?)
        }
        None => {
            let fault = |error| Failure::Failed(vec![format!("cannot find this program: {error}; pass --target")]);
            ScenarioServer::Own(std::env::current_exe().map_err(fault)?)
        }
    };
    let mut scenarios = Vec::new();
    for path in matches.get_many::<String>("file").into_iter().flatten() {
        let at = |cause: &dyn std::fmt::Display| usage(format!("cannot play {path}: {cause}"));
        let text = std::fs::read_to_string(path).map_err(|error| at(&error))?;
        let scenario = Scenario::parse(&text).map_err(|error| at(&error))?;
        scenario.check_server(&server).map_err(|error| at(&error))?;
        scenarios.push((path, scenario));
    }
    for (path, scenario) in scenarios {
        match scenario.play(&server) {
            Ok(steps) => print(&format!("ok: {}: {steps} steps\n", scenario.name))?,
            Err(cause) => return Err(Failure::Failed(vec![format!("{path}: {cause}")])),
        }
    }
    Ok(())
}
