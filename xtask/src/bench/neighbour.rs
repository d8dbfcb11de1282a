//! Measures the effect of a noisy neighbour: one of a server's two namespaces is flooded, and the response times of the
//! other namespace are measured.
//!
//! ```text
//!   quiet   50 connections, gets at a fifth of the highest rate, each timed from its due instant
//!   loud    50 connections, sets of new keys, so that each evicts another item of its namespace
//!   round   quiet alone, then beside a flood; the result is the quiet load's p999 beside the flood / alone
//! ```
//!
//! Both namespaces have their own memory and are selected by key prefix. One thread generates both loads, so the
//! quiet load's times include the generator's work for the flood. The null server, whose flood consists of gets, shows
//! the size of that effect.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;

use super::generator::{self, Generator, KEYS, REPLY_BYTES, Talk, store_keys};
use super::rounds::{GENERATOR_CPU, SERVER_CPU, median_min_max};
use testbed::server::{NullReply, ServerKind, ServerOptions, TestServer, pin};

/// Connections of each load.
const CONNECTIONS: usize = 50;
/// The quiet load's rate, as a share of the highest.
const QUIET_SHARE: f64 = 0.2;
/// Highest number of requests in flight on a connection of the flood.
const DEPTH: usize = 16;
/// Bytes of a value in the flood.
const LOUD_BYTES: usize = 1000;
const QUIET: &str = "quiet";
const LOUD: &str = "loud";
/// Memory of the flooded namespace.
const LOUD_MIB: usize = 64;
/// Highest ratio that meets the goal.
const GOAL: f64 = 2.0;
/// Lowest epoll token of the flood's connections; those of the quiet load are lower.
const LOUD_TOKEN: u64 = 1 << 32;

/// The load of the flooded namespace.
struct Flood {
    name: &'static str,
    /// The flood's rate as a share of the highest; `None` for as much as possible, with [`DEPTH`] in flight on each
    /// connection.
    share: Option<f64>,
    /// The flooded namespace's quota of operations per second, as a share of the highest rate.
    quota: Option<f64>,
    /// True if the goal applies to this flood. It does not apply to a neighbour without a limit, which uses all of the
    /// CPU.
    has_goal: bool,
}

const FLOODS: [Flood; 3] = [
    Flood { name: "evicting, at a quarter of the highest rate", share: Some(0.25), quota: None, has_goal: true },
    Flood {
        name: "as much as possible, limited to a quarter of the highest rate",
        share: None,
        quota: Some(0.25),
        has_goal: true,
    },
    Flood { name: "as much as possible, without a quota", share: None, quota: None, has_goal: false },
];

/// Runs the measurement and prints the results.
///
/// # Errors
/// If a server does not start, gives a wrong reply, or evicts a key of the quiet namespace.
pub fn run(quick: bool) -> Result<(), String> {
    let (rounds, turn) = if quick { (2, Duration::from_millis(1500)) } else { (7, Duration::from_secs(3)) };
    let options = ServerOptions {
        cpu: Some(SERVER_CPU),
        null: NullReply { bytes: REPLY_BYTES, lines: 1 },
        ..ServerOptions::memory(512)
    };
    let servers = [TestServer::start(ServerKind::Null, &options)?, TestServer::start(ServerKind::Gannet, &options)?];
    prepare(&servers[1])?;
    pin(Some(GENERATOR_CPU))?;
    let talk = Talk::gets();
    let highest = servers.each_ref().map(|server| -> Result<f64, String> {
        let mut closed = Generator::connect(server.address, CONNECTIONS, 1, 1, &talk).map_err(|e| e.to_string())?;
        closed.run(turn / 4)?;
        Ok(closed.run(turn / 2)? as f64 / (turn / 2).as_secs_f64())
    });
    println!(
        "Gets in a separate namespace, on {CONNECTIONS} connections at a fifth of each server's highest rate, alone \
         and beside a flood of sets of {LOUD_BYTES} B into another namespace of {LOUD_MIB} MiB; {rounds} rounds.\n"
    );
    println!(
        "| server | flood | gets/s | sets/s (refused) | p50, us, alone / beside | p99 | p999 | p999 beside / alone, \
         median (min-max) | goal | reached |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut loads = Loads { number: 0, request: set, end: b"\n" };
    for flood in &FLOODS {
        for (server, highest) in servers.iter().zip(&highest) {
            let highest = highest.clone()?;
            if server.kind != ServerKind::Null {
                let ops_max = flood.quota.map_or(0, |share| (share * highest) as u64);
                server.admin_put(&format!("/namespaces/{LOUD}"), &format!("ops_max = {ops_max}\n"))?;
            }
            let mut turns = Vec::new();
            for _ in 0..rounds {
                let quiet_rate = highest * QUIET_SHARE;
                let loud_rate = flood.share.map_or(f64::INFINITY, |share| share * highest);
                let name = |error: std::io::Error| format!("{}: {error}", server.kind.name());
                let alone = loads.run(server, quiet_rate, 0.0, turn).map_err(name)?;
                let refused = figure(server, "ops_refused_total", LOUD)?;
                let mut beside = loads.run(server, quiet_rate, loud_rate, turn).map_err(name)?;
                beside.refused = figure(server, "ops_refused_total", LOUD)? - refused;
                turns.push((alone, beside));
            }
            print(server, flood, highest * QUIET_SHARE, turn, &turns, quick);
        }
    }
    pin(None)?;
    let (lost, went) = (figure(&servers[1], "evicted_total", QUIET)?, figure(&servers[1], "evicted_total", LOUD)?);
    println!("\nEvictions in the flooded namespace: {went}; in the quiet one: {lost}.\n");
    if lost > 0 || went == 0 {
        return Err("the flood must evict only its own items".to_owned());
    }
    Ok(())
}

/// Creates the namespaces and stores the keys.
fn prepare(server: &TestServer) -> Result<(), String> {
    let quiet = format!("memory = \"128MiB\"\nprefix = \"{}\"\n", &generator::key(0)[..4]);
    server.admin_put(&format!("/namespaces/{QUIET}"), &quiet)?;
    let loud = format!("memory = \"{LOUD_MIB}MiB\"\nprefix = \"{LOUD}:\"\n");
    server.admin_put(&format!("/namespaces/{LOUD}"), &loud)?;
    store_keys(server.address)?;
    if figure(server, "items", QUIET)? != KEYS as u64 {
        return Err("the keys are not in the quiet namespace".to_owned());
    }
    // The namespace is full from the start, so that every store of the flood evicts.
    let mut stream = TcpStream::connect(server.address).map_err(|error| error.to_string())?;
    let sets = LOUD_MIB * 1024 * 1024 / LOUD_BYTES;
    for first in (0..sets).step_by(100) {
        let batch: Vec<u8> = (first..first + 100).flat_map(|number| set(usize::MAX - number)).collect();
        let mut replies = [0; 800];
        let asked = stream.write_all(&batch).and_then(|()| stream.read_exact(&mut replies));
        asked.map_err(|error| format!("cannot fill the flooded namespace: {error}"))?;
    }
    Ok(())
}

fn set(number: usize) -> Vec<u8> {
    let mut request = format!("set {LOUD}:{number:020} 0 0 {LOUD_BYTES}\r\n").into_bytes();
    request.resize(request.len() + LOUD_BYTES, b'x');
    request.extend_from_slice(b"\r\n");
    request
}

fn get(number: usize) -> Vec<u8> {
    format!("get {}\r\n", generator::key(number % KEYS)).into_bytes()
}

/// Returns a namespace's metric `gannet_namespace_NAME`; 0 for a server without an admin port.
fn figure(server: &TestServer, name: &str, namespace: &str) -> Result<u64, String> {
    if server.admin.is_none() {
        return Ok(0);
    }
    let series = format!("gannet_namespace_{name}{{namespace=\"{namespace}\"}} ");
    let page = server.admin_page("/metrics")?;
    let value = page.lines().find_map(|line| line.strip_prefix(&series)?.parse().ok());
    value.ok_or_else(|| format!("{series}is not among the metrics"))
}

fn print(
    server: &TestServer,
    flood: &Flood,
    rate: f64,
    turn: Duration,
    turns: &[(NeighbourTurn, NeighbourTurn)],
    quick: bool,
) {
    let both = |share: f64| {
        let column = |of: fn(&(NeighbourTurn, NeighbourTurn)) -> &NeighbourTurn| {
            turns.iter().map(|pair| of(pair).us(share)).collect::<Vec<_>>()
        };
        format!("{:.0} / {:.0}", median_min_max(&column(|p| &p.0)).0, median_min_max(&column(|p| &p.1)).0)
    };
    let seconds = turn.as_secs_f64();
    let of_flood = |pick: fn(&NeighbourTurn) -> u64| {
        median_min_max(&turns.iter().map(|(_, beside)| pick(beside) as f64 / seconds).collect::<Vec<_>>()).0
    };
    let ratios: Vec<f64> = turns.iter().map(|(alone, beside)| beside.us(0.999) / alone.us(0.999)).collect();
    let (ratio, low, high) = median_min_max(&ratios);
    let judged = flood.has_goal && server.kind != ServerKind::Null;
    println!(
        "| {} | {} | {rate:.0} | {:.0} ({:.0}) | {} | {} | {} | {ratio:.2} ({low:.2}-{high:.2}) | {} | {} |",
        server.kind.name(),
        flood.name,
        of_flood(|turn| turn.answered),
        of_flood(|turn| turn.refused),
        both(0.5),
        both(0.99),
        both(0.999),
        if judged { format!("{GOAL:.2}") } else { "-".to_owned() },
        match judged {
            true if quick => "not judged",
            true if ratio <= GOAL => "yes",
            true => "NO",
            false => "-",
        },
    );
}

/// The results of one turn.
pub(super) struct NeighbourTurn {
    /// Response times of the quiet load in ns, in ascending order.
    times_ns: Vec<u64>,
    /// Number of the flood's requests that got a reply.
    pub(super) answered: u64,
    /// Number of those requests that the server refused because of the quota.
    refused: u64,
}

impl NeighbourTurn {
    /// Returns a quantile of the quiet load's response times, in us; a `share` of 0.99 is the p99.
    pub(super) fn us(&self, share: f64) -> f64 {
        let at = (self.times_ns.len() as f64 * share) as usize;
        self.times_ns.get(at).map_or(f64::NAN, |ns| *ns as f64 / 1000.0)
    }
}

/// One connection of the quiet load.
struct Quiet {
    stream: TcpStream,
    /// The instant at which each request in flight was due.
    due: VecDeque<Instant>,
    received_bytes: usize,
}

/// One connection of the flood.
struct Loud {
    stream: TcpStream,
    in_flight: usize,
    /// The part of the requests that the kernel has not accepted yet.
    unsent: Vec<u8>,
    received_bytes: usize,
    /// The last received bytes, which may be the beginning of [`Loads::end`].
    tail: Vec<u8>,
}

/// Both loads, with the state that continues from turn to turn.
pub(super) struct Loads {
    /// Number of the flood's next request: the number of requests so far.
    pub(super) number: usize,
    /// Function that returns the flood's request with a number.
    pub(super) request: fn(usize) -> Vec<u8>,
    /// The bytes with which each reply to the flood ends; they occur once in a reply.
    pub(super) end: &'static [u8],
}

impl Loads {
    pub(super) fn run(
        &mut self,
        server: &TestServer,
        quiet_rate: f64,
        loud_rate: f64,
        turn: Duration,
    ) -> std::io::Result<NeighbourTurn> {
        let mut now = Running::connect(server.address, server.kind == ServerKind::Null)?;
        (now.number, now.request, now.end) = (self.number, self.request, self.end);
        let done = now.run(quiet_rate, loud_rate, turn);
        self.number = now.number;
        done
    }
}

/// Both loads during one turn, with their connections.
struct Running {
    poll: OwnedFd,
    quiet: Vec<Quiet>,
    loud: Vec<Loud>,
    /// True if the server is the null server, which replies to the flood as to gets.
    is_null: bool,
    number: usize,
    request: fn(usize) -> Vec<u8>,
    end: &'static [u8],
    times_ns: Vec<u64>,
    answered: u64,
    buffer: Vec<u8>,
}

fn connect(address: SocketAddr, poll: &OwnedFd, token: u64) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    epoll::add(poll, &stream, EventData::new_u64(token), EventFlags::IN)?;
    Ok(stream)
}

impl Running {
    fn connect(address: SocketAddr, is_null: bool) -> std::io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (mut quiet, mut loud) = (Vec::new(), Vec::new());
        for number in 0..CONNECTIONS as u64 {
            let stream = connect(address, &poll, number)?;
            quiet.push(Quiet { stream, due: VecDeque::with_capacity(1024), received_bytes: 0 });
            let stream = connect(address, &poll, LOUD_TOKEN + number)?;
            loud.push(Loud { stream, in_flight: 0, unsent: Vec::new(), received_bytes: 0, tail: Vec::new() });
        }
        let (times_ns, buffer) = (Vec::with_capacity(1 << 20), vec![0; 64 << 10]);
        Ok(Self { poll, quiet, loud, is_null, number: 0, request: set, end: b"\n", times_ns, answered: 0, buffer })
    }

    fn run(&mut self, quiet_rate: f64, loud_rate: f64, turn: Duration) -> std::io::Result<NeighbourTurn> {
        let begun = Instant::now();
        let interval = Duration::from_secs_f64(1.0 / quiet_rate);
        let (mut next, mut sent, mut flooded) = (begun, 0, 0u64);
        let mut events = Vec::with_capacity(256);
        loop {
            let now = Instant::now();
            let over = now - begun > turn;
            while !over && next <= now {
                let quiet = &mut self.quiet[sent % CONNECTIONS];
                quiet.stream.write_all(&get(sent))?;
                quiet.due.push_back(next);
                (next, sent) = (next + interval, sent + 1);
            }
            // Each pass of this loop sends on only one connection of the flood, so that the quiet load is not delayed.
            if !over && loud_rate > 0.0 {
                let due = (now - begun).as_secs_f64() * loud_rate - flooded as f64;
                flooded +=
                    self.flood((flooded / DEPTH as u64) as usize % CONNECTIONS, due.min(DEPTH as f64) as usize)?;
            }
            if over && (self.quiet.iter().all(|quiet| quiet.due.is_empty()) || now - begun > 2 * turn) {
                break;
            }
            // Polls without waiting, because a late wake-up from a wait would be included in the times.
            events.clear();
            let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&none))?;
            for event in &events {
                match event.data.u64() {
                    token if token >= LOUD_TOKEN => self.take_loud((token - LOUD_TOKEN) as usize)?,
                    token => self.take_quiet(token as usize)?,
                }
            }
        }
        let mut times_ns = std::mem::take(&mut self.times_ns);
        times_ns.sort_unstable();
        if times_ns.len() < sent {
            return Err(std::io::Error::other(format!("{} of {sent} gets got a reply", times_ns.len())));
        }
        Ok(NeighbourTurn { times_ns, answered: self.answered, refused: 0 })
    }

    /// Sends requests of the flood on the first free connection from number `from` on: at most `due`, and at most
    /// [`DEPTH`] in flight. Returns their number.
    fn flood(&mut self, from: usize, due: usize) -> std::io::Result<u64> {
        let free = |loud: &&mut Loud| loud.unsent.is_empty() && loud.in_flight < DEPTH;
        let (before, behind) = self.loud.split_at_mut(from);
        let Some(loud) = behind.iter_mut().chain(before).find(free) else { return Ok(0) };
        let count = due.min(DEPTH - loud.in_flight);
        for _ in 0..count {
            let request = if self.is_null { get(self.number) } else { (self.request)(self.number) };
            loud.unsent.extend_from_slice(&request);
            self.number += 1;
        }
        loud.in_flight += count;
        send(loud)?;
        Ok(count as u64)
    }

    fn take_quiet(&mut self, number: usize) -> std::io::Result<()> {
        let quiet = &mut self.quiet[number];
        quiet.received_bytes += read(&mut quiet.stream, &mut self.buffer)?;
        let now = Instant::now();
        while quiet.received_bytes >= REPLY_BYTES {
            quiet.received_bytes -= REPLY_BYTES;
            let due = quiet.due.pop_front().ok_or_else(|| std::io::Error::other("a reply without a request"))?;
            self.times_ns.push((now - due).as_nanos() as u64);
        }
        Ok(())
    }

    fn take_loud(&mut self, number: usize) -> std::io::Result<()> {
        let loud = &mut self.loud[number];
        let bytes = read(&mut loud.stream, &mut self.buffer)?;
        let replies = if self.is_null {
            loud.received_bytes += bytes;
            let replies = loud.received_bytes / REPLY_BYTES;
            loud.received_bytes %= REPLY_BYTES;
            replies
        } else {
            loud.tail.extend_from_slice(&self.buffer[..bytes]);
            let replies = memchr::memmem::find_iter(&loud.tail, self.end).count();
            let kept = loud.tail.len().min(self.end.len() - 1);
            loud.tail.drain(..loud.tail.len() - kept);
            replies
        };
        let left = loud.in_flight.checked_sub(replies);
        loud.in_flight = left.ok_or_else(|| std::io::Error::other("a reply of the flood without a request"))?;
        self.answered += replies as u64;
        send(loud)
    }
}

/// Sends as much as the kernel accepts; the rest is sent with the next replies.
fn send(loud: &mut Loud) -> std::io::Result<()> {
    while !loud.unsent.is_empty() {
        match loud.stream.write(&loud.unsent) {
            Ok(sent) => drop(loud.unsent.drain(..sent)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the available bytes, at most as many as fit into `buffer`. Returns their number; 0 if none are available.
fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<usize> {
    match stream.read(buffer) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error),
    }
}
