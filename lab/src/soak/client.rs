//! The main load: one thread and a few dozen connections, each with a pipeline of 1 to 200 requests in flight.
//!
//! ```text
//!   begin   draws a batch of requests, and writes it to the connection's output buffer      requests.rs
//!   epoll   sends pending output, reads replies
//!   check   compares each reply with the model, in order, and updates the model             replies.rs
//! ```
//!
//! Only one connection uses a key, so the server executes the requests for the key in the order in which they were
//! sent. When a reply is checked, the model contains the effects of all earlier requests for the key. After a call of
//! [`SoakClient::run`], no request is in flight.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use base::prng::Prng;
use rustix::event::{Timespec, epoll};

use super::model::{Item, Span, Values};
use testbed::clock::Clock;

/// Number of open connections of the main load.
pub const CONNECTIONS: u32 = 32;

/// Maximum number of missed keys that a connection stores with its next batch.
pub(super) const REFILLS_MAX: usize = 50;
const INPUT_BYTES: usize = 128 << 10;
const REPLY_WAIT_MAX: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// Counts of the outcomes of all requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoakTally {
    /// Completed requests: those with a reply, and those for which no reply is expected.
    pub requests: u64,
    /// Keys that were read and found; each value was compared.
    pub hits: u64,
    /// Keys that were requested and not found.
    pub misses: u64,
    /// Items that were missed although they had not expired and had not been deleted or flushed.
    pub lost: u64,
    /// Items that were stored.
    pub stored: u64,
    /// Reads of expired, deleted or flushed items that were correctly missed.
    pub gone: u64,
    /// Compare-and-swap requests that were refused because of an old CAS token.
    pub refused: u64,
    /// Bytes of values that were compared.
    pub value_bytes: u64,
}

/// The condition under which a value is stored, and its position relative to an existing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Stores the value unconditionally.
    Set,
    /// Stores the value if the key has no item.
    Add,
    /// Stores the value if the key has an item.
    Replace,
    /// Appends to the item's value.
    Append,
    /// Prepends to the item's value.
    Prepend,
    /// Stores the value if the item has this CAS token.
    Swap(u64),
}

/// A request that stores a value.
#[derive(Clone, Copy, Debug)]
pub struct StoreRequest {
    /// The key.
    pub key: u32,
    /// The version of the value. For `Append` and `Prepend`, the number of the piece to add.
    pub version: u32,
    /// Length of the value in bytes.
    pub bytes: u32,
    /// The value, if the values of the key are numbers.
    pub number: u64,
    /// Seconds to live; 0 for no expiry, negative for immediate expiry.
    pub ttl_s: i64,
    /// The condition for the store, and the position of the value.
    pub mode: Mode,
    /// True to use `ms`, which returns the new CAS token.
    pub meta: bool,
}

/// The reply that a connection expects to a request.
#[derive(Clone, Copy, Debug)]
pub enum SoakExpect {
    /// The reply to a get of the connection's next `count` keys: `VALUE` for each key that is found, and `END`.
    Values { count: u32, ttl_s: Option<i64> },
    /// The replies to quiet `mg` of the connection's next `count` keys: `VA` for each key that is found, and `MN`.
    Group { count: u32 },
    /// The reply to an `mg` that requests all flags of the item.
    Meta { key: u32 },
    /// The reply to a store. If `silent`, a successful store has no reply.
    Store { store: StoreRequest, silent: bool },
    /// The reply to `delete` or `md`.
    Delete { key: u32, meta: bool, silent: bool },
    /// The reply to `incr`, `decr` or `ma`.
    Count { key: u32, delta: u64, up: bool, meta: bool },
    /// The reply to `touch`.
    Touch { key: u32, ttl_s: i64 },
    /// The reply to `me`, which reports an item's state.
    Known { key: u32 },
    /// A line that begins with this text.
    Line(&'static str),
}

/// One connection of the main load.
pub struct SoakConnection {
    stream: TcpStream,
    pub(super) out: Vec<u8>,
    sent: usize,
    pub(super) input: Vec<u8>,
    pub(super) read: usize,
    filled: usize,
    pub(super) expects: VecDeque<SoakExpect>,
    pub(super) keys: VecDeque<u32>,
    /// Missed keys that will be stored with the next batch.
    pub(super) refills: Vec<u32>,
    begun_ms: u64,
}

/// The main load's client.
pub struct SoakClient {
    /// The server's clock.
    pub clock: Clock,
    /// Counts of the replies so far.
    pub tally: SoakTally,
    pub(super) values: Values,
    pub(super) items: Vec<Item>,
    pub(super) prng: Prng,
    pub(super) connections: Vec<SoakConnection>,
    pub(super) version: u32,
    pub(super) scratch: Vec<u8>,
    poll: rustix::fd::OwnedFd,
    events: Vec<epoll::Event>,
}

impl SoakClient {
    /// Connects to a server.
    ///
    /// # Errors
    /// If a connection is refused.
    pub fn connect(address: SocketAddr, clock: Clock, keys: u32, seed: u64) -> std::io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::new();
        for index in 0..CONNECTIONS {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            epoll::add(&poll, &stream, epoll::EventData::new_u64(u64::from(index)), flags)?;
            connections.push(SoakConnection {
                stream,
                out: Vec::with_capacity(INPUT_BYTES),
                sent: 0,
                input: vec![0; INPUT_BYTES],
                read: 0,
                filled: 0,
                expects: VecDeque::with_capacity(256),
                keys: VecDeque::with_capacity(4096),
                refills: Vec::with_capacity(REFILLS_MAX),
                begun_ms: 0,
            });
        }
        Ok(Self {
            clock,
            tally: SoakTally::default(),
            values: Values::new(seed),
            items: vec![Item::default(); keys as usize],
            prng: Prng::new(seed),
            connections,
            version: 0,
            scratch: Vec::new(),
            poll,
            events: Vec::with_capacity(CONNECTIONS as usize),
        })
    }

    /// Sends requests until `requests` of them are complete or `over` is set, and waits for the last replies.
    ///
    /// # Errors
    /// The first wrong reply.
    pub fn run(&mut self, requests: u64, over: &AtomicBool) -> Result<(), String> {
        let mut waiting = 0;
        for index in 0..self.connections.len() {
            self.start_batch(index)?;
            waiting += 1;
        }
        while waiting > 0 {
            self.events.clear();
            let room = rustix::buffer::spare_capacity(&mut self.events);
            match epoll::wait(&self.poll, room, Some(&REPLY_WAIT_MAX)) {
                Ok(0) => return Err(self.describe_silence()),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.to_string()),
            }
            for event in 0..self.events.len() {
                let index = self.events[event].data.u64() as usize;
                if self.connections[index].expects.is_empty() {
                    continue;
                }
                self.connections[index].send().map_err(|error| format!("connection {index}: {error}"))?;
                self.receive(index).map_err(|error| format!("connection {index}: {error}"))?;
                if self.connections[index].expects.is_empty() {
                    match self.tally.requests < requests && !over.load(Relaxed) {
                        true => self.start_batch(index)?,
                        false => waiting -= 1,
                    }
                }
            }
        }
        Ok(())
    }

    /// Records in the model that all items were flushed.
    pub fn flushed(&mut self) {
        self.items.iter_mut().for_each(|item| item.present = false);
    }

    fn start_batch(&mut self, index: usize) -> Result<(), String> {
        let connection = &mut self.connections[index];
        connection.out.clear();
        connection.sent = 0;
        connection.begun_ms = self.clock.now_ms();
        self.draw_batch(index);
        self.connections[index].send().map_err(|error| format!("connection {index}: {error}"))
    }

    /// Reads and checks replies until no more are available.
    fn receive(&mut self, index: usize) -> Result<(), String> {
        loop {
            let more = self.connections[index].fill()?;
            let span = Span { sent_ms: self.connections[index].begun_ms, answered_ms: self.clock.now_ms() };
            self.check_replies(index, span)?;
            let connection = &mut self.connections[index];
            if connection.expects.is_empty() && connection.read < connection.filled {
                let rest = String::from_utf8_lossy(&connection.input[connection.read..connection.filled]);
                return Err(format!("there are more replies than requests: '{:.200}'", rest));
            }
            connection.compact();
            if !more {
                return Ok(());
            }
        }
    }

    fn describe_silence(&self) -> String {
        let silent = self.connections.iter().enumerate().filter(|(_, connection)| !connection.expects.is_empty());
        let list: Vec<String> = silent
            .map(|(index, connection)| {
                let unsent = connection.out.len() - connection.sent;
                format!("connection {index} waits for {:?}, {unsent} bytes unsent", connection.expects.front())
            })
            .collect();
        format!("no reply in {} s: {}", REPLY_WAIT_MAX.tv_sec, list.join("; "))
    }
}

impl SoakConnection {
    /// Returns the received bytes that have not been checked yet.
    pub(super) fn unread(&self) -> &[u8] {
        &self.input[self.read..self.filled]
    }

    fn send(&mut self) -> std::io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads from the socket once. Returns true if another read may return more: the buffer was filled, or a signal
    /// interrupted the read.
    fn fill(&mut self) -> Result<bool, String> {
        if self.filled == self.input.len() {
            self.input.resize(2 * self.filled, 0);
        }
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => Err("the server closed the connection".into()),
            Ok(n) => {
                self.filled += n;
                Ok(self.filled == self.input.len())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Puts a reply into the input buffer, as if it had been received.
    #[cfg(test)]
    pub(super) fn receive_from(&mut self, answer: &[u8]) {
        self.input[..answer.len()].copy_from_slice(answer);
        (self.read, self.filled) = (0, answer.len());
    }

    /// Moves the bytes that have not been checked to the front of the input buffer.
    fn compact(&mut self) {
        if self.read > 0 {
            self.input.copy_within(self.read..self.filled, 0);
            self.filled -= self.read;
            self.read = 0;
        }
    }
}
