//! A load generator that treats all servers alike: N connections with D requests in flight on each. A connection sends
//! its next D requests when all of the previous D have their replies.
//!
//! The generator has one thread with epoll, and allocates all buffers at the start. It checks that each batch of
//! replies has exactly the length of D replies and ends like a reply.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use base::prng::Prng;
use rustix::event::epoll;

/// Length of each key in bytes.
pub const KEY_BYTES: usize = 24;
/// Length of each value in bytes.
pub const VALUE_BYTES: usize = 200;
/// Number of keys that are stored and requested.
pub const KEYS: usize = 100_000;
/// `VALUE <key> 0 200\r\n<value>\r\nEND\r\n`
pub const REPLY_BYTES: usize = 6 + KEY_BYTES + 8 + VALUE_BYTES + 7;

const READ_BYTES: usize = 256 * 1024;
const REPLY_WAIT_MAX: Duration = Duration::from_secs(10);

/// The requests, and the form of their replies.
pub struct Talk {
    /// Requests of equal length, end to end.
    requests: Vec<u8>,
    request_bytes: usize,
    reply_bytes: usize,
    /// The end of each reply.
    reply_end: &'static [u8],
}

impl Talk {
    /// Creates gets of all keys; each is a hit after [`store_keys`].
    pub fn gets() -> Self {
        Self::of(KEYS, REPLY_BYTES, b"END\r\n", |out, index| out.extend(format!("get {}\r\n", key(index)).bytes()))
    }

    /// Creates `count` requests of equal length, each written by `request`. A reply has `reply_bytes` bytes and ends
    /// with `reply_end`.
    pub fn of(
        count: usize,
        reply_bytes: usize,
        reply_end: &'static [u8],
        request: impl Fn(&mut Vec<u8>, usize),
    ) -> Self {
        let mut requests = Vec::new();
        (0..count).for_each(|index| request(&mut requests, index));
        assert!(requests.len().is_multiple_of(count) && reply_end.len() <= TAIL_BYTES, "requests of equal length");
        Self { request_bytes: requests.len() / count, requests, reply_bytes, reply_end }
    }

    /// Returns the number of lines of a request.
    pub fn lines(&self) -> usize {
        memchr::memchr_iter(b'\n', self.request(0)).count()
    }

    fn request(&self, index: usize) -> &[u8] {
        &self.requests[index * self.request_bytes..][..self.request_bytes]
    }

    fn count(&self) -> usize {
        self.requests.len() / self.request_bytes
    }
}

/// Number of bytes at the end of a reply that are checked.
const TAIL_BYTES: usize = 5;

struct PeerConnection {
    stream: TcpStream,
    request: Vec<u8>,
    sent_bytes: usize,
    received_bytes: usize,
    /// The last received bytes, to distinguish a hit from another reply of the same length.
    tail: [u8; TAIL_BYTES],
}

/// Open connections to one server.
pub struct Generator<'t> {
    talk: &'t Talk,
    poll: rustix::fd::OwnedFd,
    connections: Vec<PeerConnection>,
    depth: usize,
    prng: Prng,
    buffer: Vec<u8>,
    events: Vec<epoll::Event>,
}

/// Returns the key with this number.
pub fn key(index: usize) -> String {
    format!("key-{index:020}")
}

/// Stores every key that a [`Generator`] requests.
///
/// # Errors
/// If the server does not store all of them.
pub fn store_keys(address: SocketAddr) -> Result<(), String> {
    let store = || -> std::io::Result<usize> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(REPLY_WAIT_MAX))?;
        let value = "x".repeat(VALUE_BYTES);
        let mut stored = 0;
        for first in (0..KEYS).step_by(100) {
            let batch: String = (first..(first + 100).min(KEYS))
                .map(|index| format!("set {} 0 0 {VALUE_BYTES}\r\n{value}\r\n", key(index)))
                .collect();
            stream.write_all(batch.as_bytes())?;
            let mut reply = vec![0; 8 * (first + 100).min(KEYS) - 8 * first];
            stream.read_exact(&mut reply)?;
            stored += reply.chunks(8).filter(|line| *line == b"STORED\r\n").count();
        }
        Ok(stored)
    };
    match store() {
        Ok(KEYS) => Ok(()),
        Ok(stored) => Err(format!("{stored} of {KEYS} keys were stored")),
        Err(error) => Err(format!("cannot store the keys: {error}")),
    }
}

impl<'t> Generator<'t> {
    /// Opens `connections` connections with `depth` requests in flight on each.
    ///
    /// # Errors
    /// If a connection is refused.
    pub fn connect(
        address: SocketAddr,
        connections: usize,
        depth: usize,
        seed: u64,
        talk: &'t Talk,
    ) -> std::io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut open = Vec::with_capacity(connections);
        for index in 0..connections {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            epoll::add(&poll, &stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
            let request = Vec::with_capacity(depth * talk.request_bytes);
            open.push(PeerConnection { stream, request, sent_bytes: 0, received_bytes: 0, tail: [0; TAIL_BYTES] });
        }
        Ok(Self {
            talk,
            poll,
            connections: open,
            depth,
            prng: Prng::new(seed),
            buffer: vec![0; READ_BYTES],
            events: Vec::with_capacity(1024),
        })
    }

    /// Loads the server for `duration`, waits for the last replies, and returns the number of gets answered.
    ///
    /// # Errors
    /// If a reply has another length than a hit, or does not arrive.
    pub fn run(&mut self, duration: Duration) -> Result<u64, String> {
        let end = Instant::now() + duration;
        let mut answered = 0;
        let mut waiting = 0;
        for index in 0..self.connections.len() {
            self.begin(index).map_err(|error| error.to_string())?;
            waiting += 1;
        }
        let patience = rustix::event::Timespec { tv_sec: REPLY_WAIT_MAX.as_secs() as i64, tv_nsec: 0 };
        while waiting > 0 {
            self.events.clear();
            let room = rustix::buffer::spare_capacity(&mut self.events);
            match epoll::wait(&self.poll, room, Some(&patience)) {
                Ok(0) => return Err(format!("{waiting} batches got no reply in {REPLY_WAIT_MAX:?}")),
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.to_string()),
            }
            let more = Instant::now() < end;
            for event in 0..self.events.len() {
                let index = self.events[event].data.u64() as usize;
                if !self.receive(index)? {
                    continue;
                }
                answered += self.depth as u64;
                match more {
                    true => self.begin(index).map_err(|error| error.to_string())?,
                    false => waiting -= 1,
                }
            }
        }
        Ok(answered)
    }

    /// Sends the next batch of a connection.
    fn begin(&mut self, index: usize) -> std::io::Result<()> {
        let connection = &mut self.connections[index];
        connection.request.clear();
        for _ in 0..self.depth {
            let index = self.prng.below(self.talk.count() as u64) as usize;
            connection.request.extend_from_slice(self.talk.request(index));
        }
        connection.sent_bytes = 0;
        connection.received_bytes = 0;
        connection.send()
    }

    /// Reads received bytes. Returns true if the batch has all its replies.
    fn receive(&mut self, index: usize) -> Result<bool, String> {
        let (reply_bytes, reply_end) = (self.talk.reply_bytes, self.talk.reply_end);
        let expected = self.depth * reply_bytes;
        let connection = &mut self.connections[index];
        connection.send().map_err(|error| error.to_string())?;
        match connection.stream.read(&mut self.buffer) {
            Ok(0) => return Err("the server closed a connection".into()),
            Ok(n) => {
                connection.received_bytes += n;
                connection.keep_tail(&self.buffer[..n]);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.to_string()),
        }
        let ended = connection.tail.ends_with(reply_end);
        // No requested value contains `reply_end`, and a truncated reply does not end with it. So these bytes are a
        // complete reply, but of another length.
        let short = ended && reply_end.len() > 2 && !connection.received_bytes.is_multiple_of(reply_bytes);
        if connection.received_bytes > expected || short {
            return Err(format!("{} bytes arrived where {expected} were due", connection.received_bytes));
        }
        Ok(connection.received_bytes == expected && ended)
    }
}

impl PeerConnection {
    fn send(&mut self) -> std::io::Result<()> {
        while self.sent_bytes < self.request.len() {
            match self.stream.write(&self.request[self.sent_bytes..]) {
                Ok(n) => self.sent_bytes += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn keep_tail(&mut self, bytes: &[u8]) {
        let kept = bytes.len().min(self.tail.len());
        self.tail.rotate_left(kept);
        let begin = self.tail.len() - kept;
        self.tail[begin..].copy_from_slice(&bytes[bytes.len() - kept..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testbed::server::{ServerKind, ServerOptions, TestServer};

    #[test]
    fn every_get_is_answered_by_memcached() {
        let server =
            TestServer::start(ServerKind::Memcached, &ServerOptions::memory(64)).expect("memcached is installed");
        store_keys(server.address).expect("every key is stored");
        for depth in [1, 16] {
            let talk = Talk::gets();
            let mut generator = Generator::connect(server.address, 10, depth, 1, &talk).expect("connections");
            let answered = generator.run(Duration::from_millis(100)).expect("hits only");
            assert!(answered >= 10 * depth as u64);
        }
        assert_eq!(server.stat("get_misses").expect("it answers"), 0);
    }

    #[test]
    fn a_miss_is_not_counted_as_an_answer() {
        let server =
            TestServer::start(ServerKind::Memcached, &ServerOptions::memory(64)).expect("memcached is installed");
        let talk = Talk::gets();
        let mut generator = Generator::connect(server.address, 1, 1, 1, &talk).expect("a connection");
        assert!(generator.run(Duration::from_millis(10)).is_err());
    }
}
