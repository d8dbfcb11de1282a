//! `gannet graph load`: loads a file of edges into a graph of a running server.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use ::migrate::place::{CopyEndpoint, Login, Protocol, ServerAddress};
use ::migrate::{
    ConnectSettings, GraphLoadJob, GraphLoadProgress, GraphLoadView, MigrateError, RetryPolicy, load_graph,
};
use base::clock::UnixMillis;
use clap::{Arg, ArgMatches, Command};

use super::args::secured;
use super::migrate::{ArgReader, byte_limit, flag, reached_by, time_limit, value};
use super::stop;
use super::view::Screen;
use crate::{Failure, print};

const EXAMPLES: &str =
    "Exit codes: 0 all lines are loaded; 1 the load ended early, and --resume continues it; 2 wrong arguments; 3 some
lines were refused.";
/// The exit code of a load with refused lines.
const REFUSED: u8 = 3;
/// The minimum and the maximum length of a part, in bytes.
const PART_BYTES_MIN: u64 = 16 << 10;
const PART_BYTES_MAX: u64 = 64 << 20;

/// Defines the subcommand.
pub fn command() -> Command {
    let load = Command::new("load")
        .about("Load a CSV file or an edge list into a graph; gzip and zstd are recognised")
        .arg(Arg::new("FILE").required(true).help("The file of edges, or - for standard input"))
        .arg(value("server", "ADDRESS", "The server: HOST:PORT, redis://... or rediss://...").required(true))
        .arg(value("graph", "NAME", "The graph").required(true))
        .arg(value("type", "NAME", "The edge type, which G.TYPE has declared").required(true))
        .arg(
            value("format", "FORM", "csv: source,destination[,ms[,attribute..]]; edges: separated by spaces or tabs")
                .value_parser(["csv", "edges"])
                .default_value("edges"),
        )
        .arg(value("part-size", "SIZE", "Maximum length of a request's text").default_value("1MB"))
        .arg(value("journal", "FILE", "Journal of the progress [default: FILE.gannet-load]"))
        .arg(flag("resume", "Continue an earlier load from its journal"))
        .arg(value("user", "NAME", "User name").requires("password-env"))
        .arg(value("password-env", "VARIABLE", "Environment variable with the password"))
        .arg(value("timeout", "DURATION", "Time limit for a reply").default_value("60s"))
        .arg(value("retries", "N", "Attempts to reopen a lost connection").default_value("10"))
        .arg(flag("quiet", "Print nothing on standard error"))
        .after_help(EXAMPLES);
    let load = secured(load.next_help_heading("TLS, for addresses written as rediss://"));
    Command::new("graph")
        .about("Load edges into graphs")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(load)
}

impl GraphLoadView for Screen {
    fn progress(&mut self, progress: &GraphLoadProgress) {
        self.now(|| progress.line());
    }

    fn note(&mut self, text: &str) {
        self.line(&format!("note: {text}"));
    }
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let Some(("load", matches)) = matches.subcommand() else { unreachable!("a subcommand is required") };
    let job = job(matches)?;
    let stopped = stop::switch()?;
    let mut screen = Screen::new(matches.get_flag("quiet"));
    let loaded = load_graph(&job, UnixMillis::now().0, &mut screen, &|| stopped.load(Ordering::Relaxed));
    screen.wipe();
    let loaded = loaded.map_err(|error| {
        let resume = match &job.journal {
            Some(path) if path.exists() && !job.resume => "; the same command with --resume continues the load",
            Some(path) if path.exists() => "; the same command continues the load",
            _ => "",
        };
        let what =
            if let MigrateError::Stopped = error { "the load was stopped".to_owned() } else { error.to_string() };
        Failure::Failed(vec![format!("cannot load: {what}{resume}")])
    })?;
    print(&format!("{} in {:.1} s\n", loaded.summary(), loaded.spent.as_secs_f64()))?;
    match loaded.counts.refused {
        0 => Ok(()),
        refused => Err(Failure::Code(REFUSED, vec![format!("the server refused {refused} lines")])),
    }
}

/// Reads the job from the arguments, or returns all errors.
fn job(matches: &ArgMatches) -> Result<GraphLoadJob, Failure> {
    let mut words = ArgReader { matches, faults: Vec::new() };
    let server = words.read("server", server);
    let timeout = words.read("timeout", time_limit);
    let attempts = words.whole("retries");
    let part_bytes = words.read("part-size", |text| {
        let allowed = PART_BYTES_MIN..=PART_BYTES_MAX;
        byte_limit(text).and_then(|bytes| {
            let wrong = || format!("{text:?} is not from 16KiB to 64MiB; write one, as in 1MB");
            if allowed.contains(&bytes) { Ok(bytes as usize) } else { Err(wrong()) }
        })
    });
    let password = words.read("password-env", |variable| {
        std::env::var(variable).map_err(|_| format!("the environment has no variable {variable:?}; export it"))
    });
    let (Some(mut server), Some(timeout), Some(attempts), Some(part_bytes)) = (server, timeout, attempts, part_bytes)
    else {
        return Err(Failure::Usage(words.faults));
    };
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    if let Some(password) = password {
        server.login = Some(Login { user: text("user"), password });
    }
    let tls = reached_by(matches, &CopyEndpoint::Server(server.clone()), &server).unwrap_or_else(|faults| {
        words.faults.extend(faults);
        None
    });
    let file = text("FILE");
    let input = (file != "-").then(|| PathBuf::from(&file));
    let journal = match (matches.get_one::<String>("journal"), &input) {
        (Some(_), None) => {
            words.faults.push("--journal: standard input cannot be read again; pass a file".to_owned());
            None
        }
        (Some(path), Some(_)) => Some(path.into()),
        (None, input) => input.as_ref().map(|_| format!("{file}.gannet-load").into()),
    };
    if !words.faults.is_empty() {
        return Err(Failure::Usage(words.faults));
    }
    Ok(GraphLoadJob {
        input,
        server,
        graph: text("graph"),
        edge_type: text("type"),
        format: if text("format") == "csv" { "CSV" } else { "EDGES" },
        part_bytes,
        journal,
        resume: matches.get_flag("resume"),
        connect: ConnectSettings { tls, timeout },
        retries: RetryPolicy { attempts, ..RetryPolicy::default() },
    })
}

/// Reads the address of a server that speaks RESP.
fn server(text: &str) -> Result<ServerAddress, String> {
    let full = if text.contains("://") { text.to_owned() } else { format!("redis://{text}") };
    match full.parse::<CopyEndpoint>()? {
        CopyEndpoint::Server(server) if server.protocol == Protocol::Redis => Ok(server),
        _ => Err(format!("{text:?} is not the address of a Redis listener; write HOST:PORT or redis://HOST:PORT")),
    }
}
