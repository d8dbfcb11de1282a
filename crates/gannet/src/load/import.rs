//! `gannet import redis://...`: brings the data of a running Redis or Valkey, and its changes, into a running server.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::migrate::place::{CopyEndpoint, Protocol, ServerAddress, names_db};
use ::migrate::{
    ConnectSettings, ImportJob, ImportOutcome, ImportPart, ImportProgress, ImportView, MigrateError, RetryPolicy,
};
use clap::{Arg, ArgMatches, Command};

use super::args::secured;
use super::compare::write;
use super::migrate::{ArgReader, byte_limit, flag, reached_by, time_limit, value};
use super::run::PARTIAL;
use super::stop;
use super::view::Screen;
use crate::{Failure, print};

const EXAMPLES: &str = "Examples:
  Everything from Redis into Gannet; ends when Gannet has it all and no client \
                        writes to Redis any more:
    gannet import redis://10.0.0.7:6379 --to redis://127.0.0.1:6379 --cut-over --verify 10000
  \
                        Only database 2, at most 20 MB a second, until Ctrl-C:
    gannet import redis://:secret@10.0.0.7:6379/2 \
                        --rate 20MB

Exit codes: 0 done; 1 the import could not begin, or the target did not take all data, or keys differ; 2 wrong
\
                        arguments; 5 the import ended early.";

/// Defines the subcommand.
pub fn command() -> Command {
    let command = Command::new("import")
        .about("Import a running Redis or Valkey as its replica, and follow its changes")
        .arg(Arg::new("from").value_name("SOURCE").required(true).help(
            "The server to import: redis://[USER:PASSWORD@]HOST[:PORT][/DB]; without DB all databases; rediss:// \
                 over TLS",
        ))
        .arg(
            value("to", "TARGET", "The server that gets the data; it must be empty, unless --flush is given")
                .default_value("redis://127.0.0.1:6379"),
        )
        .arg(flag("flush", "Delete the data of the target's databases first"))
        .arg(value("rate", "BYTES", "Maximum of bytes of the snapshot per second, as 20MB; none: no limit"))
        .arg(flag("cut-over", "End when the target has all data and the source has had no writes for a second"))
        .arg(
            value("verify", "KEYS", "After --cut-over, compare about this many keys at both servers, or all")
                .requires("cut-over"),
        )
        .arg(value("timeout", "DURATION", "Time limit for a reply, and for silence").default_value("60s"))
        .arg(
            value("retries", "N", "Attempts to attach again after a lost connection, within about half a minute")
                .default_value("10"),
        )
        .arg(value("json", "FILE", "Write the outcome as JSON"))
        .arg(flag("quiet", "Print nothing on standard error"))
        .after_help(EXAMPLES);
    secured(command.next_help_heading("TLS, for addresses written as rediss://"))
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let job = job(matches)?;
    let stopped = stop::switch()?;
    let mut screen = Screen::new(matches.get_flag("quiet")).every(Duration::from_secs(1));
    let outcome = ::migrate::import(&job, &mut screen, &|| stopped.load(Ordering::Relaxed));
    screen.wipe();
    let outcome = outcome.map_err(|fault| match fault {
        MigrateError::Stopped => {
            Failure::Code(PARTIAL, vec!["the import was stopped before the snapshot was loaded".to_owned()])
        }
        fault => Failure::Failed(vec![format!("cannot import: {fault}")]),
    })?;
    print(&outcome.text())?;
    if let Some(path) = matches.get_one::<String>("json") {
        write(Path::new(path), &outcome.to_json())?;
    }
    ended(&outcome)
}

impl ImportView for Screen {
    fn progress(&mut self, progress: &ImportProgress<'_>) {
        self.now(|| progress.line());
    }

    fn note(&mut self, text: &str) {
        self.line(&format!("note: {text}"));
    }
}

fn ended(outcome: &ImportOutcome) -> Result<(), Failure> {
    if let Some(why) = &outcome.ended_early {
        return Err(Failure::Code(PARTIAL, vec![why.clone()]));
    }
    let mut lines = Vec::new();
    if outcome.counts.refused_sum() > 0 {
        let count = outcome.counts.refused_sum();
        lines
            .push(format!("the target did not take {count} keys, commands or other data; the table lists the reasons"));
    }
    if let Some(differ) = outcome.verified.as_ref().map(|verified| verified.differ()).filter(|differ| *differ > 0) {
        lines.push(format!("{differ} keys differ between both servers"));
    }
    if lines.is_empty() { Ok(()) } else { Err(Failure::Failed(lines)) }
}

/// Reads the job from the arguments, or returns all errors.
fn job(matches: &ArgMatches) -> Result<ImportJob, Failure> {
    let mut words = ArgReader { matches, faults: Vec::new() };
    let from = words.read("from", server);
    let to = words.read("to", server);
    let bytes_per_s = words.limit("rate", byte_limit);
    let timeout = words.read("timeout", time_limit);
    let verify = words.read("verify", part);
    let attempts = words.whole("retries");
    let named = |name: &str| matches.get_one::<String>(name).is_some_and(|text| names_db(text));
    if let (Some(from), Some(to)) = (&from, &to) {
        if from.target == to.target {
            words.faults.push("--to: it is the same server as the source".to_owned());
        }
        if named("to") && !named("from") {
            words.faults.push("--to: it names a database; name one of the source too, or none".to_owned());
        }
    }
    let (Some(from), Some(to), Some(timeout), Some(attempts)) = (from, to, timeout, attempts) else {
        return Err(Failure::Usage(words.faults));
    };
    let tls = reached_by(matches, &CopyEndpoint::Server(from.clone()), &to).unwrap_or_else(|faults| {
        words.faults.extend(faults);
        None
    });
    if !words.faults.is_empty() {
        return Err(Failure::Usage(words.faults));
    }
    let db = named("from").then(|| (from.db, if named("to") { to.db } else { from.db }));
    Ok(ImportJob {
        from,
        to,
        db,
        flush: matches.get_flag("flush"),
        bytes_per_s,
        cut_over: matches.get_flag("cut-over"),
        verify: verify.unwrap_or(ImportPart::None),
        connect: ConnectSettings { tls, timeout },
        retries: RetryPolicy { attempts, ..RetryPolicy::default() },
    })
}

/// Reads the address of a server that speaks RESP.
fn server(text: &str) -> Result<ServerAddress, String> {
    match text.parse::<CopyEndpoint>()? {
        CopyEndpoint::Server(server) if server.protocol == Protocol::Redis => Ok(server),
        CopyEndpoint::Server(server) => {
            Err(format!("{server} is not a Redis server; write redis://HOST:PORT, or use gannet migrate"))
        }
        CopyEndpoint::File(path) => {
            Err(format!("{} is a file; copy from it with gannet migrate --from", path.display()))
        }
    }
}

fn part(text: &str) -> Result<ImportPart, String> {
    match text {
        "all" => Ok(ImportPart::All),
        text => {
            let keys = text.replace('_', "").parse::<u64>();
            keys.map(ImportPart::Keys).map_err(|_| format!("{text:?} is not valid; write a number of keys, or all"))
        }
    }
}
