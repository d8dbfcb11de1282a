//! `gannet load agent`, and the flag `--agents`: one run on several hosts.

use std::path::Path;

use clap::{Arg, ArgMatches, Command};
use load::agents::clock::HostClock;
use load::agents::{Agent, Fleet, FleetLimits};
use load::result::{AgentHost, RunResult};

use super::compare::read_text;
use crate::{Failure, print, warn};

/// Minimum length of a token in characters; a shorter token could be guessed.
const TOKEN_CHARS_MIN: usize = 16;
/// Largest size of a token file in bytes.
const TOKEN_BYTES_MAX: u64 = 4096;
const MAKE_ONE: &str = "create one: head -c 32 /dev/urandom | base64 > token";

/// The subcommand's arguments.
pub fn command() -> Command {
    let value = |name: &'static str, placeholder: &'static str| Arg::new(name).long(name).value_name(placeholder);
    Command::new("agent")
        .about("Carry out a share of the load of a coordinator on another host, which names this agent with --agents")
        .arg(value("listen", "HOST:PORT").required(true).help("Address to listen on for coordinators"))
        .arg(
            value("token", "FILE")
                .help("File with a secret that coordinators must know; required unless only this host can connect"),
        )
        .after_help(
            "Example, on each of two hosts and then on a third:\n  head -c 32 /dev/urandom | base64 > token\n  gannet \
             load agent --listen 10.0.0.1:9099 --token token\n  gannet load --agents 10.0.0.1:9099,10.0.0.2:9099 \
             --agents-token token \\\n    --target 10.0.0.9:11211 --slo p999=2ms --report out.html\n\nAn agent serves \
             one coordinator at a time, until Ctrl-C. The connection is not encrypted, and anyone with the\ntoken can \
             load any server from this host: run agents in a private network.",
        )
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let listen = matches.get_one::<String>("listen").map_or("", String::as_str);
    let token = token(matches, "token")?;
    let system = |error: std::io::Error| Failure::Failed(vec![format!("cannot watch signals: {error}")]);
    let mut signals = io::signal::Signals::take_over().map_err(system)?;
    let agent = Agent::start(listen, token, HostClock::default(), warn)
        .map_err(|error| Failure::Failed(vec![format!("--listen {listen}: {error}")]))?;
    print(&format!("agent listens at {}\n", agent.addr()))?;
    signals.wait();
    Ok(())
}

/// Returns the token in the file of `flag`.
fn token(matches: &ArgMatches, flag: &str) -> Result<Option<Vec<u8>>, Failure> {
    let Some(path) = matches.get_one::<String>(flag) else { return Ok(None) };
    let text = read_text(Path::new(path), TOKEN_BYTES_MAX)
        .map_err(|error| Failure::Failed(vec![format!("--{flag}: {error}")]))?;
    let token = text.trim();
    if token.chars().count() < TOKEN_CHARS_MIN {
        let line = format!("--{flag}: {path} has fewer than {TOKEN_CHARS_MIN} characters; {MAKE_ONE}");
        return Err(Failure::Usage(vec![line]));
    }
    Ok(Some(token.as_bytes().to_vec()))
}

/// Adds the arguments of a run on several hosts.
pub fn add(command: Command) -> Command {
    let value = |name: &'static str, placeholder: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(placeholder).help(help)
    };
    command
        .next_help_heading("On several hosts")
        .arg(value(
            "agents",
            "HOST:PORT,...",
            "Run the load on these agents (`gannet load agent`) together; --threads then applies to each agent",
        ))
        .arg(value("agents-token", "FILE", "File with the agents' token").requires("agents"))
        .arg(
            value("clock-error-max", "DURATION", "Largest error of an agent's start [default: 20ms]")
                .requires("agents"),
        )
}

/// Connects to the requested agents; `None` if only this host runs the load.
pub fn fleet(matches: &ArgMatches) -> Result<Option<Fleet>, Failure> {
    let Some(list) = matches.get_one::<String>("agents") else { return Ok(None) };
    let addresses: Vec<String> =
        list.split(',').map(|address| address.trim().to_owned()).filter(|address| !address.is_empty()).collect();
    let mut settings = FleetLimits::default();
    if let Some(text) = matches.get_one::<String>("clock-error-max") {
        let span: base::units::TimeSpan = text.parse().map_err(|error: base::units::UnitError| {
            Failure::Usage(vec![format!("--clock-error-max: {error}; {}", error.remedy())])
        })?;
        settings.uncertainty_max = std::time::Duration::from_nanos(span.0);
    }
    let token = token(matches, "agents-token")?;
    Fleet::connect(&addresses, token.as_deref(), settings).map(Some).map_err(Failure::Failed)
}

/// Adds the agents to the result, with notes about differing builds.
pub fn describe(fleet: &Fleet, known: &mut RunResult) {
    let host = |(name, program, machine): (&str, &str, &load::result::Machine)| AgentHost {
        name: name.to_owned(),
        program: program.to_owned(),
        machine: machine.clone(),
    };
    known.agents = fleet.hosts().map(host).collect();
    known.configuration.insert("agents".to_owned(), known.agents.len().to_string());
    for agent in known.agents.iter().filter(|agent| agent.program != known.program) {
        let note = format!("agent {} runs {}, but this program is {}", agent.name, agent.program, known.program);
        known.verdict.notes.push(note);
    }
}
