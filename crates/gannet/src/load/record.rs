//! `gannet load record FILE ...`: records the requests of a server's clients as a trace.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::clock::UnixMillis;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use link::Address;
use trace::record::{self, CONNECTIONS_MAX, Ledger, Proxy, Seen, Tape, WatchKind, WatchRecording};
use trace::{Header, Secret};

use super::ask::Flags;
use super::stop;
use crate::{Failure, print, warn};

const EXAMPLES: &str = "\
Examples:
  As a proxy: clients connect to port 11311 instead of 11211; Ctrl-C ends the recording:
    gannet load record day.trace --listen 127.0.0.1:11311 --target 127.0.0.1:11211
  For a minute from the watch stream of a memcached or Gannet, without touching its clients:
    gannet load record minute.trace --watch 127.0.0.1:11211 --duration 60s
  The same from a server that speaks RESP, in the format of Twitter's traces:
    gannet load record minute.csv --watch 127.0.0.1:6379 --protocol resp --csv --duration 60s

A trace has no keys, only their hashes with a secret: a random one for each trace, which is not stored, or that of
--key, so that several traces can be matched. Values are not read.";

/// Time between two progress lines.
const PERIOD: Duration = Duration::from_secs(2);

/// Time limit for connecting to the server whose requests are recorded.
const CONNECT: Duration = Duration::from_secs(10);

/// The subcommand's arguments.
pub fn command() -> Command {
    let value = |name: &'static str, placeholder: &'static str| Arg::new(name).long(name).value_name(placeholder);
    Command::new("record")
        .about("Record the requests of a server's clients, anonymised, for `gannet load replay`")
        .after_help(EXAMPLES)
        .arg(Arg::new("FILE").value_name("FILE").required(true).help("The trace to write; the file must not exist"))
        .arg(
            value("listen", "HOST:PORT|unix:PATH")
                .help("Address that clients connect to instead of the server's")
                .requires("target"),
        )
        .arg(value("target", "HOST:PORT|unix:PATH").help("Server that clients are forwarded to").requires("listen"))
        .arg(value("watch", "HOST:PORT|unix:PATH").help("Server whose watch stream is recorded instead"))
        .group(ArgGroup::new("how").args(["listen", "watch"]).required(true))
        .arg(
            value("protocol", "NAME")
                .help("Protocol of the watched server: memcache or resp [default: memcache]")
                .requires("watch"),
        )
        .arg(value("key", "HEX").help("Secret for the hashes of keys: 32 hexadecimal digits [default: random]"))
        .arg(value("duration", "DURATION").help("Length of the recording [default: until Ctrl-C]"))
        .arg(
            value("connections-max", "N")
                .help("Maximum number of simultaneous clients; further ones wait [default: 1024]")
                .requires("listen"),
        )
        .arg(
            Arg::new("csv")
                .long("csv")
                .action(ArgAction::SetTrue)
                .help("Write Twitter's format: one line per request, times in seconds"),
        )
        .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue).help("Print nothing until the end"))
}

/// Arguments of a recording.
struct RecordRun {
    secret: Secret,
    chosen_secret: bool,
    duration: Option<Duration>,
    connections_max: usize,
    lines: bool,
    quiet: bool,
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let mut flags = Flags::new(matches);
    let [listen, target, watch] = ["listen", "target", "watch"].map(|name| flags.parsed::<Address>(name));
    let stream = flags.read("protocol", |text| match text {
        "memcache" | "meta" => Ok(WatchKind::Watch),
        "resp" => Ok(WatchKind::Monitor),
        _ => Err(format!("{text:?} is not a protocol; write memcache or resp")),
    });
    let secret = flags.read("key", |text| Secret::parse(text).ok_or("the secret must be 32 hexadecimal digits"));
    let connections_max = flags.whole("connections-max").unwrap_or(1024);
    if !(1..=CONNECTIONS_MAX).contains(&connections_max) {
        flags.fault("connections-max", format!("the number must be from 1 to {CONNECTIONS_MAX}"));
    }
    let duration = flags.span("duration");
    if !flags.faults.is_empty() {
        return Err(Failure::Usage(flags.faults));
    }
    let random = |error| Failure::Failed(vec![format!("cannot draw a random secret ({error}); pass a --key")]);
    let asked = RecordRun {
        chosen_secret: secret.is_some(),
        secret: secret.map_or_else(Secret::random, Ok).map_err(random)?,
        duration,
        connections_max,
        lines: matches.get_flag("csv"),
        quiet: matches.get_flag("quiet"),
    };
    let path = Path::new(matches.get_one::<String>("FILE").map_or("", String::as_str));
    let stop = stop::switch()?;
    let seen = match (listen.zip(target), watch) {
        (Some((listen, target)), _) => proxied(&asked, path, &listen, &target, &stop)?,
        (None, Some(server)) => overheard(&asked, path, &server, stream.unwrap_or(WatchKind::Watch), &stop)?,
        (None, None) => unreachable!("one of the two is required"),
    };
    print(&summary(path, &seen))
}

fn tape(asked: &RecordRun, path: &Path) -> Result<Tape, Failure> {
    let header = Header { began_unix_us: UnixMillis::now().0 * 1000, chosen_secret: asked.chosen_secret };
    Tape::create(path, &header, asked.lines).map_err(|error| Failure::Failed(vec![error.to_string()]))
}

/// The state of a recording's progress lines, and the recording's time limit.
struct Teller {
    quiet: bool,
    started: Instant,
    printed: Instant,
    duration: Option<Duration>,
    broken: bool,
}

impl Teller {
    fn new(asked: &RecordRun) -> Self {
        let now = Instant::now();
        Self { quiet: asked.quiet, started: now, printed: now, duration: asked.duration, broken: false }
    }

    fn is_over(&self) -> bool {
        self.duration.is_some_and(|duration| self.started.elapsed() >= duration)
    }

    fn tell(&mut self, seen: &Seen, (written, lost): (u64, u64), broken: bool) {
        if broken && !self.broken {
            self.broken = true;
            warn("the trace cannot be written any more; clients are still served, and Ctrl-C ends the recording");
        }
        if self.quiet || self.printed.elapsed() < PERIOD {
            return;
        }
        self.printed = Instant::now();
        let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
        warn(&format!("{written} requests written{lost}, {} connections", seen.connections));
    }
}

fn proxied(
    asked: &RecordRun,
    path: &Path,
    listen: &Address,
    target: &Address,
    stop: &AtomicBool,
) -> Result<Seen, Failure> {
    let tape = tape(asked, path)?;
    let failed = |what: String| Failure::Failed(vec![what]);
    let mut proxy = Proxy::listen(listen, target, tape, asked.secret, asked.connections_max).map_err(|error| {
        // Nothing was recorded, so the file is removed.
        let _ = std::fs::remove_file(path);
        failed(format!("cannot listen on {listen} for {target} ({error}); pass a free address and a known server"))
    })?;
    let address = proxy.address().map_err(|error| failed(error.to_string()))?;
    warn(&format!("recording: clients connect to {address} and are forwarded to {target}"));
    let mut teller = Teller::new(asked);
    let mut look = |proxy: &Proxy| {
        let (seen, counts) = proxy.seen();
        teller.tell(&seen, counts, proxy.is_tape_broken());
        if teller.is_over() {
            stop.store(true, Ordering::Relaxed);
        }
    };
    proxy.run(stop, &mut look).map_err(|error| failed(format!("cannot wait for clients ({error})")))?;
    if proxy.refused() > 0 {
        warn(&format!("note: {} clients were disconnected, because {target} refused the connection", proxy.refused()));
    }
    proxy.end().map_err(|error| failed(error.to_string()))
}

fn overheard(
    asked: &RecordRun,
    path: &Path,
    server: &Address,
    stream: WatchKind,
    stop: &AtomicBool,
) -> Result<Seen, Failure> {
    let failed = |what: String| Failure::Failed(vec![format!("{server}: {what}")]);
    let refused = |error| failed(format!("cannot connect to it ({error}); check that the server is running"));
    let mut connection = link::ServerStream::connect(server, None, CONNECT).map_err(refused)?;
    let mut tape = tape(asked, path)?;
    warn(&format!("recording: the watch stream of {server}"));
    let (mut by, mut ledger, mut seen) = (WatchRecording::new(asked.secret), Ledger::default(), Seen::default());
    let (mut teller, mut flushed) = (Teller::new(asked), Instant::now());
    let mut look = |by: &WatchRecording, ledger: &mut Ledger, seen: &Seen| {
        ledger.drain(by.time().1, |entry| tape.put(entry));
        if flushed.elapsed() >= Duration::from_secs(1) {
            flushed = Instant::now();
            tape.flush();
        }
        teller.tell(seen, tape.counts(), tape.is_broken());
        !(stop.load(Ordering::Relaxed) || teller.is_over())
    };
    let went = record::watch(&mut connection, stream, &mut by, &mut ledger, &mut seen, &mut look);
    by.close(&mut ledger);
    ledger.close(|entry| tape.put(entry));
    let ended = tape.end(&mut seen);
    if let Err(what) = went {
        if seen.entries == 0 {
            let _ = std::fs::remove_file(path);
        }
        return Err(failed(what));
    }
    ended.map_err(|error| failed(error.to_string())).map(|()| seen)
}

/// Describes a recording in words.
fn summary(path: &Path, seen: &Seen) -> String {
    let mut text = format!("{}: {} requests from {} connections\n", path.display(), seen.entries, seen.connections);
    if seen.other_requests > 0 {
        text.push_str(&format!(
            "{} requests are not in the trace: they have no key, or a trace has no verb for them\n",
            seen.other_requests
        ));
    }
    if seen.unfollowed > 0 {
        text.push_str(&format!(
            "{} connections could not be followed to their end; their bytes were forwarded\n",
            seen.unfollowed
        ));
    }
    if seen.lost > 0 {
        text.push_str(&format!(
            "{} requests were lost: they arrived faster than they could be written or reported\n",
            seen.lost
        ));
    }
    text
}
