//! `gannet graph load`: loads a file of edges into a graph of a running server, or into a file of graphs.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use ::migrate::place::{CopyEndpoint, Login, Protocol, ServerAddress};
use ::migrate::{
    ConnectSettings, EdgePart, GraphLoadCounts, GraphLoadJob, GraphLoadProgress, GraphLoadServer, GraphLoadTarget,
    GraphLoadView, LoadUser, MigrateError, PartReply, RetryPolicy, load_graph,
};
use base::clock::UnixMillis;
use clap::{Arg, ArgGroup, ArgMatches, Command};
use command::resp::graph::parse_edge_type;
use graph::{EdgeFormat, EdgeTypeConfig};
use server::offline::graph_load::{GraphFileLoad, GraphFileTarget, LinesOfFile};

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
/// The default lengths of a part of a request, and of one that is loaded into a file.
const PART_BYTES_OF_REQUESTS: usize = 1_000_000;
const PART_BYTES_OF_FILES: usize = 32 << 20;

/// Defines the subcommand.
pub fn command() -> Command {
    let load = Command::new("load")
        .about("Load a CSV file or an edge list into a graph; gzip and zstd are recognised")
        .arg(Arg::new("FILE").required(true).help("The file of edges, or - for standard input"))
        .arg(value("server", "ADDRESS", "The server: HOST:PORT, redis://... or rediss://..."))
        .arg(value("graph-file", "FILE", "A file of graphs that no server uses; it is created if it does not exist"))
        .group(ArgGroup::new("target").args(["server", "graph-file"]).required(true))
        .arg(value("graph", "NAME", "The graph").required(true))
        .arg(value("type", "NAME", "The edge type, which G.TYPE or --declare has declared").required(true))
        .arg(
            value("declare", "WORDS", "Declare the edge type in FILE with words of G.TYPE, as in 'UNDIRECTED SORT ID'")
                .conflicts_with("server"),
        )
        .arg(
            value("graph-memory", "SIZE", "Memory of FILE [default: its size; 256MiB if it is new]")
                .conflicts_with("server"),
        )
        .arg(
            value("format", "FORM", "csv: source,destination[,ms[,attribute..]]; edges: separated by spaces or tabs")
                .value_parser(["csv", "edges"])
                .default_value("edges"),
        )
        .arg(value("part-size", "SIZE", "Length of the parts [default: 1MB; 32MiB for --graph-file]"))
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

/// The receiver of the edges, as the arguments state it.
enum EdgeTarget {
    Server { server: ServerAddress, connect: ConnectSettings, retries: RetryPolicy },
    File { path: PathBuf, declared: Option<EdgeTypeConfig>, memory_bytes: Option<u64> },
}

/// A file of graphs as the receiver of a load.
struct FileTarget {
    load: GraphFileLoad,
    format: EdgeFormat,
    name: String,
}

impl FileTarget {
    fn refused(&self, what: &str) -> MigrateError {
        MigrateError::Refused(format!("{}: {what}", self.name))
    }
}

impl GraphLoadTarget for FileTarget {
    fn load_first(
        &mut self,
        _: &GraphLoadJob,
        parts: &VecDeque<EdgePart>,
        time_ms: u64,
        user: &LoadUser<'_>,
    ) -> Result<PartReply, MigrateError> {
        if (user.is_stopped)() {
            return Err(MigrateError::Stopped);
        }
        let mut lines = parts.iter().map(|part| LinesOfFile { text: &part.text, lines_before: part.lines_before });
        let first = lines.next().expect("a load passes a part");
        // A line that is too long is a part without text.
        let next = lines.next().filter(|next| !next.text.is_empty());
        let loaded = self.load.load(self.format, first, next, time_ms);
        let loaded = loaded.map_err(|what| self.refused(&what))?;
        let counts = GraphLoadCounts { edges: loaded.edges, changed: loaded.changed, refused: loaded.refused };
        Ok((counts, loaded.refusals))
    }

    fn run(&self) -> &str {
        ""
    }
}

/// Loads into the target. The edges of a file are committed also if the load ends early.
fn load_into(
    target: &EdgeTarget,
    job: &GraphLoadJob,
    screen: &mut Screen,
    is_stopped: &dyn Fn() -> bool,
) -> Result<GraphLoadProgress, MigrateError> {
    let now_ms = UnixMillis::now().0;
    let (path, declared, memory_bytes) = match target {
        EdgeTarget::Server { server, connect, retries } => {
            let mut server = GraphLoadServer::new(server, connect, *retries);
            return load_graph(job, &mut server, now_ms, screen, is_stopped);
        }
        EdgeTarget::File { path, declared, memory_bytes } => (path, declared.as_ref(), *memory_bytes),
    };
    let (graph, edge_type) = (&job.graph[..], &job.edge_type[..]);
    let opened = GraphFileLoad::open(&GraphFileTarget { path, memory_bytes, graph, edge_type, declared });
    let load = opened.map_err(|what| MigrateError::Refused(format!("cannot load into {}: {what}", path.display())))?;
    let format = if job.format == "CSV" { EdgeFormat::Csv } else { EdgeFormat::List };
    let mut file = FileTarget { load, format, name: path.display().to_string() };
    let loaded = load_graph(job, &mut file, now_ms, screen, is_stopped);
    let name = file.name;
    let closed = file.load.close().map_err(|what| MigrateError::Refused(format!("{name}: {what}")));
    loaded.and_then(|loaded| closed.map(|()| loaded))
}

/// Returns the advice to continue a load, if it can continue.
fn advice(job: &GraphLoadJob, error: &MigrateError) -> &'static str {
    let can_continue = !matches!(error, MigrateError::Refused(what) if what.starts_with("cannot "));
    match &job.journal {
        Some(path) if path.exists() && can_continue && !job.resume => {
            "; the same command with --resume continues the load"
        }
        Some(path) if path.exists() && can_continue => "; the same command continues the load",
        _ => "",
    }
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let Some(("load", matches)) = matches.subcommand() else { unreachable!("a subcommand is required") };
    let (job, target) = job(matches)?;
    let stopped = stop::switch()?;
    let mut screen = Screen::new(matches.get_flag("quiet"));
    let loaded = load_into(&target, &job, &mut screen, &|| stopped.load(Ordering::Relaxed));
    screen.wipe();
    let loaded = loaded.map_err(|error| {
        let resume = advice(&job, &error);
        let what =
            if let MigrateError::Stopped = error { "the load was stopped".to_owned() } else { error.to_string() };
        Failure::Failed(vec![format!("cannot load: {what}{resume}")])
    })?;
    print(&format!("{} in {:.1} s\n", loaded.summary(), loaded.spent.as_secs_f64()))?;
    match loaded.counts.refused {
        0 => Ok(()),
        refused => Err(Failure::Code(REFUSED, vec![format!("{refused} lines were refused")])),
    }
}

/// Reads the job and its target from the arguments, or returns all errors.
fn job(matches: &ArgMatches) -> Result<(GraphLoadJob, EdgeTarget), Failure> {
    let mut words = ArgReader { matches, faults: Vec::new() };
    let target = target(matches, &mut words);
    let default = if matches.contains_id("graph-file") { PART_BYTES_OF_FILES } else { PART_BYTES_OF_REQUESTS };
    let part_bytes = words.read("part-size", |text| {
        let allowed = PART_BYTES_MIN..=PART_BYTES_MAX;
        byte_limit(text).and_then(|bytes| {
            let wrong = || format!("{text:?} is not from 16KiB to 64MiB; write one, as in 1MB");
            if allowed.contains(&bytes) { Ok(bytes as usize) } else { Err(wrong()) }
        })
    });
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
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
    let Some(target) = target.filter(|_| words.faults.is_empty()) else { return Err(Failure::Usage(words.faults)) };
    let job = GraphLoadJob {
        input,
        graph: text("graph"),
        edge_type: text("type"),
        format: if text("format") == "csv" { "CSV" } else { "EDGES" },
        part_bytes: part_bytes.unwrap_or(default),
        journal,
        resume: matches.get_flag("resume"),
    };
    Ok((job, target))
}

/// Reads the target from the arguments. Adds the errors to `words`.
fn target(matches: &ArgMatches, words: &mut ArgReader<'_>) -> Option<EdgeTarget> {
    if let Some(path) = matches.get_one::<String>("graph-file") {
        let declared = words.read("declare", parse_edge_type);
        let memory_bytes = words.read("graph-memory", byte_limit);
        return Some(EdgeTarget::File { path: Path::new(path).to_owned(), declared, memory_bytes });
    }
    let server = words.read("server", server);
    let timeout = words.read("timeout", time_limit);
    let attempts = words.whole("retries");
    let password = words.read("password-env", |variable| {
        std::env::var(variable).map_err(|_| format!("the environment has no variable {variable:?}; export it"))
    });
    let (mut server, timeout, attempts) = (server?, timeout?, attempts?);
    if let Some(password) = password {
        let user = matches.get_one::<String>("user").cloned().unwrap_or_default();
        server.login = Some(Login { user, password });
    }
    let tls = reached_by(matches, &CopyEndpoint::Server(server.clone()), &server).unwrap_or_else(|faults| {
        words.faults.extend(faults);
        None
    });
    let retries = RetryPolicy { attempts, ..RetryPolicy::default() };
    Some(EdgeTarget::Server { server, connect: ConnectSettings { tls, timeout }, retries })
}

/// Reads the address of a server that speaks RESP.
fn server(text: &str) -> Result<ServerAddress, String> {
    let full = if text.contains("://") { text.to_owned() } else { format!("redis://{text}") };
    match full.parse::<CopyEndpoint>()? {
        CopyEndpoint::Server(server) if server.protocol == Protocol::Redis => Ok(server),
        _ => Err(format!("{text:?} is not the address of a Redis listener; write HOST:PORT or redis://HOST:PORT")),
    }
}
