//! Measures the effect of a storm of connections on the response times of a steady load.
//!
//! ```text
//!   steady   50 connections, gets at half of the highest rate, each timed from its due instant
//!   storm    connects at a fixed rate; each connection sends one request, stays for a while and closes
//!   round    for each server: a turn without the storm, then a turn with it; the result is the p999 with / without
//! ```
//!
//! One thread generates both loads, so the steady load's times include the generator's work for the storm. The null
//! server, which does the least possible work for a connection and a request, shows the size of that effect.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::generator::{self, Generator, REPLY_BYTES, Talk, store_keys};
use super::rounds::median_min_max;
use testbed::server::{NullReply, ServerKind, ServerOptions, TestServer, pin};

/// Connections opened per second.
const STORM_RATE: f64 = 5000.0;
/// Highest number of simultaneous connections of the storm.
const STAYING_MAX: usize = 2000;
/// Connections of the steady load.
const STEADY: usize = 50;
/// Number of source addresses of the storm; with a single address, the source ports would run out.
const SOURCES: u8 = 200;
const SERVER_CPU: usize = 0;
const GENERATOR_CPU: usize = 1;
/// Lowest epoll token of the storm's connections; those of the steady load are lower.
const STORM_TOKEN: u64 = 1 << 32;

/// Runs the measurement and prints the results.
///
/// # Errors
/// If a server does not start, or gives a wrong reply.
pub fn run(quick: bool) -> Result<(), String> {
    let (rounds, turn) = if quick { (3, Duration::from_secs(2)) } else { (7, Duration::from_secs(5)) };
    let null = NullReply { bytes: REPLY_BYTES, lines: 1 };
    let options = ServerOptions { cpu: Some(SERVER_CPU), null, connections_max: 8000, ..ServerOptions::memory(512) };
    let kinds = [ServerKind::Null, ServerKind::GannetEpoll, ServerKind::GannetUring, ServerKind::Memcached];
    let servers: Vec<TestServer> =
        kinds.iter().map(|kind| TestServer::start(*kind, &options)).collect::<Result<_, _>>()?;
    for server in servers.iter().filter(|server| server.kind != ServerKind::Null) {
        store_keys(server.address)?;
    }
    pin(Some(GENERATOR_CPU))?;
    println!("Gets on {STEADY} connections at half of each server's highest rate; {STORM_RATE} connects per second.\n");
    println!(
        "| server | gets/s | connects/s | p50, us, calm / storm | p99 | p999 | p999 storm / calm, median (min-max) |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut outcomes: Vec<Vec<(StormTurn, StormTurn)>> = servers.iter().map(|_| Vec::new()).collect();
    let mut rates = Vec::new();
    for server in &servers {
        let talk = Talk::gets();
        let mut closed = Generator::connect(server.address, STEADY, 1, 1, &talk).map_err(|error| error.to_string())?;
        closed.run(turn / 4)?;
        rates.push(closed.run(turn / 2)? as f64 / (turn / 2).as_secs_f64() / 2.0);
    }
    for _ in 0..rounds {
        for ((server, rate), outcome) in servers.iter().zip(&rates).zip(&mut outcomes) {
            let calm = StormLoads::new(server.address, *rate, 0.0).and_then(|load| load.run(turn));
            let storm = StormLoads::new(server.address, *rate, STORM_RATE).and_then(|load| load.run(turn));
            let name = |error: std::io::Error| format!("{}: {error}", server.kind.name());
            outcome.push((calm.map_err(name)?, storm.map_err(name)?));
        }
    }
    pin(None)?;
    for ((server, rate), outcome) in servers.iter().zip(&rates).zip(&outcomes) {
        let both = |pick: fn(&StormTurn) -> f64| {
            let column = |of: fn(&(StormTurn, StormTurn)) -> &StormTurn| {
                outcome.iter().map(|pair| pick(of(pair))).collect::<Vec<_>>()
            };
            format!("{:.0} / {:.0}", median_min_max(&column(|p| &p.0)).0, median_min_max(&column(|p| &p.1)).0)
        };
        let ratios: Vec<f64> = outcome.iter().map(|(calm, storm)| storm.us(0.999) / calm.us(0.999)).collect();
        let (ratio, low, high) = median_min_max(&ratios);
        let connects = median_min_max(&outcome.iter().map(|(_, storm)| storm.connects_s).collect::<Vec<_>>()).0;
        println!(
            "| {} | {rate:.0} | {connects:.0} | {} | {} | {} | {ratio:.2} ({low:.2}-{high:.2}) |",
            server.kind.name(),
            both(|turn| turn.us(0.5)),
            both(|turn| turn.us(0.99)),
            both(|turn| turn.us(0.999)),
        );
    }
    Ok(())
}

/// The results of one turn.
struct StormTurn {
    /// Response times in ns, in ascending order.
    times_ns: Vec<u64>,
    connects_s: f64,
}

impl StormTurn {
    fn us(&self, share: f64) -> f64 {
        let at = (self.times_ns.len() as f64 * share) as usize;
        self.times_ns.get(at).map_or(f64::NAN, |ns| *ns as f64 / 1000.0)
    }
}

/// One connection of the steady load.
struct Steady {
    stream: TcpStream,
    /// The instant at which each request in flight was due.
    due: VecDeque<Instant>,
    received_bytes: usize,
}

/// One connection of the storm.
struct Guest {
    stream: TcpStream,
    asked: bool,
}

/// Both loads, with their sockets.
struct StormLoads {
    address: SocketAddrV4,
    poll: OwnedFd,
    steady: Vec<Steady>,
    /// Connections of the storm by number; closed ones are `None`.
    guests: Vec<Option<Guest>>,
    /// Number of the storm's oldest connection.
    oldest: usize,
    interval: Duration,
    storm_interval: Option<Duration>,
    times_ns: Vec<u64>,
    answered: usize,
    buffer: Vec<u8>,
}

fn request(number: usize) -> Vec<u8> {
    format!("get {}\r\n", generator::key(number % generator::KEYS)).into_bytes()
}

impl StormLoads {
    fn new(address: SocketAddr, rate: f64, storm_rate: f64) -> std::io::Result<Self> {
        let SocketAddr::V4(address) = address else { return Err(ErrorKind::Unsupported.into()) };
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut steady = Vec::new();
        for number in 0..STEADY {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            epoll::add(&poll, &stream, EventData::new_u64(number as u64), EventFlags::IN)?;
            steady.push(Steady { stream, due: VecDeque::with_capacity(1024), received_bytes: 0 });
        }
        Ok(Self {
            address,
            poll,
            steady,
            guests: Vec::new(),
            oldest: 0,
            interval: Duration::from_secs_f64(1.0 / rate),
            storm_interval: (storm_rate > 0.0).then(|| Duration::from_secs_f64(1.0 / storm_rate)),
            times_ns: Vec::with_capacity(4 << 20),
            answered: 0,
            buffer: vec![0; 64 << 10],
        })
    }

    fn run(mut self, turn: Duration) -> std::io::Result<StormTurn> {
        let begun = Instant::now();
        let (mut next, mut next_guest, mut sent) = (begun, begun, 0);
        let mut events = Vec::with_capacity(512);
        loop {
            let now = Instant::now();
            let over = now - begun > turn;
            while !over && next <= now {
                self.ask(sent, next)?;
                (next, sent) = (next + self.interval, sent + 1);
            }
            while let Some(interval) = self.storm_interval
                && !over
                && next_guest <= now
            {
                self.invite()?;
                next_guest += interval;
            }
            if over && (self.steady.iter().all(|steady| steady.due.is_empty()) || now - begun > 2 * turn) {
                break;
            }
            // Polls without waiting, because a late wake-up from a wait would be included in the times.
            events.clear();
            let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&none))?;
            for event in &events {
                self.take(event.data.u64())?;
            }
        }
        self.times_ns.sort_unstable();
        if self.times_ns.len() < sent {
            return Err(std::io::Error::other(format!("{} of {sent} gets got a reply", self.times_ns.len())));
        }
        Ok(StormTurn { times_ns: self.times_ns, connects_s: self.answered as f64 / turn.as_secs_f64() })
    }

    fn ask(&mut self, number: usize, due: Instant) -> std::io::Result<()> {
        let steady = &mut self.steady[number % STEADY];
        steady.stream.write_all(&request(number))?;
        steady.due.push_back(due);
        Ok(())
    }

    /// Opens another connection of the storm. Closes the oldest if more than [`STAYING_MAX`] are open.
    fn invite(&mut self) -> std::io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        let source = Ipv4Addr::new(127, 0, 0, 2 + (self.guests.len() % usize::from(SOURCES)) as u8);
        rustix::net::bind(&socket, &SocketAddrV4::new(source, 0))?;
        match rustix::net::connect(&socket, &self.address) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        let token = STORM_TOKEN + self.guests.len() as u64;
        epoll::add(&self.poll, &socket, EventData::new_u64(token), EventFlags::OUT | EventFlags::IN)?;
        self.guests.push(Some(Guest { stream: socket.into(), asked: false }));
        if self.guests.len() - self.oldest > STAYING_MAX {
            self.guests[self.oldest] = None;
            self.oldest += 1;
        }
        Ok(())
    }

    fn take(&mut self, token: u64) -> std::io::Result<()> {
        if token >= STORM_TOKEN {
            return self.take_guest((token - STORM_TOKEN) as usize);
        }
        let steady = &mut self.steady[token as usize];
        match steady.stream.read(&mut self.buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => steady.received_bytes += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        let now = Instant::now();
        while steady.received_bytes >= REPLY_BYTES {
            steady.received_bytes -= REPLY_BYTES;
            let due = steady.due.pop_front().ok_or_else(|| std::io::Error::other("a reply without a request"))?;
            self.times_ns.push((now - due).as_nanos() as u64);
        }
        Ok(())
    }

    fn take_guest(&mut self, number: usize) -> std::io::Result<()> {
        let Some(guest) = &mut self.guests[number] else { return Ok(()) };
        if !guest.asked {
            guest.asked = true;
            guest.stream.write_all(&request(number))?;
            let token = EventData::new_u64(STORM_TOKEN + number as u64);
            return Ok(epoll::modify(&self.poll, &guest.stream, token, EventFlags::IN)?);
        }
        match guest.stream.read(&mut self.buffer) {
            Ok(REPLY_BYTES) => self.answered += 1,
            Ok(bytes) => return Err(std::io::Error::other(format!("{bytes} bytes for a new connection"))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
