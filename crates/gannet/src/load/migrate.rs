//! `gannet migrate --from ... --to ...`: copies keys with values, flags and expiries to another server.

use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::migrate::place::{CopyEndpoint, ServerAddress};
use ::migrate::{Choice, ConnectSettings, CopyJob, CopyOutcome, CopyProgress, RetryPolicy, Verify, View};
use base::units::{ByteSize, TimeSpan};
use clap::{Arg, ArgAction, ArgMatches, Command};
use link::tls::TlsClient;
use load::search::rate::Rate;

use super::args::secured;
use super::ask;
use super::compare::write;
use super::run::{BROKEN, PARTIAL};
use super::stop;
use super::view::Screen;
use crate::{Failure, print};

const EXAMPLES: &str = "Examples:
  From memcached to Gannet; existing keys stay unchanged:
    gannet migrate --from \
                        memcached://127.0.0.1:11211 --to memcached://127.0.0.1:11311
  Resumable by the same command \
                        line, ten thousand keys a second, all keys compared:
    gannet migrate --from \
                        memcached://127.0.0.1:11211 --to memcached://127.0.0.1:11311 --resume move.json --rate 10k \
                        --verify all
  Database 0 of a Redis, without its sessions:
    gannet migrate --from \
                        redis://127.0.0.1:6379/0 --to redis://127.0.0.1:6380/0 --exclude session:
  From the file \
                        that Redis saved:
    gannet migrate --from dump.rdb --to memcached://127.0.0.1:11311 --json \
                        moved.json

Exit codes: 0 done; 1 the copy could not begin; 2 wrong arguments; 4 done, but \
                        keys were refused or differ; 5 the copy
ended early: copied keys stay, and --resume \
                        continues.";

pub(super) fn value(name: &'static str, placeholder: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(placeholder).help(help)
}

pub(super) fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// Defines the subcommand `name`, with its arguments.
pub fn command(name: &'static str) -> Command {
    let places = "memcached://[USER:PASSWORD@]HOST:PORT or redis://[USER:PASSWORD@]HOST:PORT/DB; with TLS \
                  memcacheds:// or rediss://";
    let command = Command::new(name)
        .about("Copy keys from memcached, Redis or an RDB file to another server")
        .arg(value("from", "PLACE", "").required(true).help(format!("{places}; or FILE.rdb")))
        .arg(value("to", "PLACE", "").required(true).help(places))
        .arg(value("rate", "RATE", "Maximum of keys per second, as 10k; none: no limit").default_value("20k"))
        .arg(value("bytes", "SIZE", "Maximum of bytes per second, as 20MB; none: no limit").default_value("100MB"))
        .arg(value("resume", "FILE", "Journal of the copy's progress; if the file exists, resume from it"))
        .arg(flag("overwrite", "Replace existing keys at the target; by default they stay unchanged"))
        .arg(value("prefix", "TEXT", "Copy only keys with this prefix; may be repeated").action(ArgAction::Append))
        .arg(value("exclude", "TEXT", "Skip keys with this prefix; may be repeated").action(ArgAction::Append))
        .arg(value("limit", "N", "End after N copied keys, rounded up to a batch"))
        .arg(
            value("verify", "PART", "Compare keys at both servers afterwards: all, none, a share as 5%, or some")
                .default_value("some"),
        )
        .arg(value("db", "N", "Database of an RDB file to copy").default_value("0"))
        .arg(flag("accept-damaged", "Copy the readable part of an RDB file whose checksum is wrong"))
        .arg(value("timeout", "DURATION", "Time limit for a reply").default_value("10s"))
        .arg(
            value("retries", "N", "Attempts to reopen a lost connection, within about half a minute")
                .default_value("10"),
        )
        .arg(value("json", "FILE", "Write the outcome as JSON"))
        .arg(flag("quiet", "Print nothing on standard error"))
        .after_help(EXAMPLES);
    secured(command.next_help_heading("TLS, for addresses written as rediss:// or memcacheds://"))
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let job = job(matches)?;
    let stopped = stop::switch()?;
    let mut screen = Screen::new(matches.get_flag("quiet"));
    let outcome = ::migrate::run(&job, &mut screen, &|| stopped.load(Ordering::Relaxed));
    screen.wipe();
    let outcome = outcome.map_err(|fault| Failure::Failed(vec![fault.to_string()]))?;
    print(&outcome.text())?;
    if let Some(path) = matches.get_one::<String>("json") {
        write(Path::new(path), &outcome.to_json())?;
    }
    ended(&outcome)
}

impl View for Screen {
    fn progress(&mut self, progress: &CopyProgress<'_>) {
        self.now(|| progress.line());
    }

    fn note(&mut self, text: &str) {
        self.line(&format!("note: {text}"));
    }
}

fn ended(outcome: &CopyOutcome) -> Result<(), Failure> {
    if let Some(why) = &outcome.ended_early {
        return Err(Failure::Code(PARTIAL, vec![why.clone()]));
    }
    let mut lines = Vec::new();
    if outcome.counts.refused_sum() > 0 {
        lines.push(format!("the target refused {} keys", outcome.counts.refused_sum()));
    }
    if let Some(differ) = outcome.verified.as_ref().map(|verified| verified.differ()).filter(|differ| *differ > 0) {
        lines.push(format!("{differ} keys differ between both ends"));
    }
    if lines.is_empty() { Ok(()) } else { Err(Failure::Code(BROKEN, lines)) }
}

/// A reader of the arguments, which collects the errors in them.
pub(super) struct ArgReader<'a> {
    /// The arguments.
    pub matches: &'a ArgMatches,
    /// The errors so far.
    pub faults: Vec<String>,
}

impl ArgReader<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        self.matches.get_one::<String>(name).map(String::as_str)
    }

    /// Reads an argument, if it is given.
    pub fn read<T>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        match read(self.text(name)?) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.faults.push(format!("--{name}: {fault}"));
                None
            }
        }
    }

    /// Reads a limit. The value `none` means that there is no limit.
    pub fn limit(&mut self, name: &str, read: impl Fn(&str) -> Result<u64, String>) -> Option<u64> {
        self.read(name, |text| if text == "none" { Ok(None) } else { read(text).map(Some) }).flatten()
    }

    /// Reads a whole number, if it is given.
    pub fn whole<T: FromStr>(&mut self, name: &str) -> Option<T> {
        self.read(name, |text| {
            text.replace('_', "").parse().map_err(|_| format!("{text:?} is not a whole number; write one, as in 50"))
        })
    }

    fn begins(&self, name: &str) -> Vec<Vec<u8>> {
        self.matches.get_many::<String>(name).into_iter().flatten().map(|text| text.as_bytes().to_vec()).collect()
    }
}

/// Reads the job from the arguments, or returns all errors.
fn job(matches: &ArgMatches) -> Result<CopyJob, Failure> {
    let mut words = ArgReader { matches, faults: Vec::new() };
    let from = words.read("from", str::parse::<CopyEndpoint>);
    let to = words.read("to", |text| match text.parse::<CopyEndpoint>()? {
        CopyEndpoint::Server(server) => Ok(server),
        CopyEndpoint::File(path) => Err(format!("{} is a file; name a server", path.display())),
    });
    let keys_per_s = words.limit("rate", |text| {
        text.parse::<Rate>().map(|rate| rate.per_s().max(1.0) as u64).map_err(|error| error.to_string())
    });
    let bytes_per_s = words.limit("bytes", byte_limit);
    let timeout = words.read("timeout", time_limit);
    let verify = words.read("verify", verify);
    let limit = words.whole("limit");
    let file_db = words.whole("db");
    let attempts = words.whole("retries");
    if let (Some(from), Some(to)) = (&from, &to)
        && *from == CopyEndpoint::Server(to.clone())
    {
        words.faults.push("--to: it is the same server as --from".to_owned());
    }
    let choice = Choice { prefixes: words.begins("prefix"), excluded: words.begins("exclude") };
    let all = (from, to, timeout, verify, file_db, attempts);
    let (Some(from), Some(to), Some(timeout), Some(verify), Some(file_db), Some(attempts)) = all else {
        return Err(Failure::Usage(words.faults));
    };
    let tls = reached_by(matches, &from, &to).unwrap_or_else(|faults| {
        words.faults.extend(faults);
        None
    });
    if !words.faults.is_empty() {
        return Err(Failure::Usage(words.faults));
    }
    Ok(CopyJob {
        from,
        to,
        choice,
        overwrite: matches.get_flag("overwrite"),
        limit,
        keys_per_s,
        bytes_per_s,
        journal: matches.get_one::<String>("resume").map(Into::into),
        verify,
        file_db,
        accept_damaged: matches.get_flag("accept-damaged"),
        connect: ConnectSettings { tls, timeout },
        retries: RetryPolicy { attempts, ..RetryPolicy::default() },
    })
}

/// Reads a number of bytes per second.
pub(super) fn byte_limit(text: &str) -> Result<u64, String> {
    text.parse::<ByteSize>().map(|size| size.0).map_err(|error| format!("{text:?}: {error}; {}", error.remedy()))
}

/// Reads a time above 0.
pub(super) fn time_limit(text: &str) -> Result<Duration, String> {
    let span = text.parse::<TimeSpan>().map_err(|error| format!("{text:?}: {error}; {}", error.remedy()))?;
    if span.0 == 0 { Err("it must be above 0, as in 10s".to_owned()) } else { Ok(Duration::from_nanos(span.0)) }
}

/// Returns the TLS certificates and keys for servers whose addresses use TLS. Reports every error with its remedy.
pub(super) fn reached_by(
    matches: &ArgMatches,
    from: &CopyEndpoint,
    to: &ServerAddress,
) -> Result<Option<TlsClient>, Vec<String>> {
    let servers = [if let CopyEndpoint::Server(server) = from { Some(server) } else { None }, Some(to)];
    let secured: Vec<&ServerAddress> = servers.into_iter().flatten().filter(|server| server.is_secured).collect();
    let mut settings = None;
    ask::tls_flags(matches, &mut settings)?;
    if secured.is_empty() {
        let unused = "there are TLS flags, but no address uses TLS; write rediss:// or memcacheds://".to_owned();
        return if settings.is_some() { Err(vec![unused]) } else { Ok(None) };
    }
    let client = ask::secured(Some(&settings.unwrap_or_default()))?;
    for server in secured {
        client.as_ref().map(|client| client.server_name(&server.target)).transpose().map_err(|fault| vec![fault])?;
    }
    Ok(client)
}

fn verify(text: &str) -> Result<Verify, String> {
    let wrong = || format!("{text:?} is not valid; write all, none, some or a share, as in 5%");
    match text {
        "none" => Ok(Verify::None),
        "some" => Ok(Verify::Some),
        "all" => Ok(Verify::PerMillion(1_000_000)),
        text => {
            let percent = text.strip_suffix('%').and_then(|text| text.parse::<f64>().ok()).ok_or_else(wrong)?;
            if !(0.0..=100.0).contains(&percent) {
                return Err(wrong());
            }
            Ok(Verify::PerMillion((percent * 1e4).round() as u32))
        }
    }
}
