//! Sends a stream over a few pipelined connections, and checks every reply byte by byte.
//!
//! ```text
//!   turn:  fills and swaps that the last turn's replies caused, then new requests ──> one batch per connection
//!          all batches are sent, all replies are read; a miss causes a fill in the next turn
//! ```
//!
//! All requests for a key use the same connection, so the server executes them in the order in which they were sent. So
//! the client knows which version of a key a read must return.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use base::prng::{Prng, split_mix};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::workload::{Request, StreamName, Workload};

/// Number of open connections.
pub const CONNECTIONS: usize = 8;
/// Number of new requests per turn, over all connections.
pub const TURN_REQUESTS: u64 = 256;

const BLOCK_BYTES: usize = 2 * 1024 * 1024;
const VALUE_HEAD_BYTES: usize = 16;
const REPLY_WAIT_MAX: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// Counts of the replies.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReplayTally {
    /// Requests of the stream that were sent, without fills and swaps.
    pub requests: u64,
    /// All commands that were sent.
    pub commands: u64,
    /// Reads that found the key.
    pub hits: u64,
    /// Reads that did not find the key.
    pub misses: u64,
    /// Items that were stored by fills, adds and swaps.
    pub stored: u64,
    /// Swaps that were refused because the item had changed, and adds that were refused because the key existed.
    pub refused: u64,
    /// Errors such as `SERVER_ERROR out of memory`.
    pub errors: u64,
}

#[derive(Clone, Copy, Debug)]
enum ReplayExpect {
    Get(u64),
    Gets(u64),
    /// The reply to a store: the key and the stored version.
    Store(u64, u8),
}

#[derive(Clone, Copy, Debug)]
enum Follow {
    Fill(u64),
    Swap(u64, u64),
}

struct ReplayConnection {
    stream: TcpStream,
    out: Vec<u8>,
    sent_bytes: usize,
    expects: VecDeque<ReplayExpect>,
    input: Vec<u8>,
    read_bytes: usize,
}

/// The client that replays a stream, with its connections.
pub struct ReplayClient<'w> {
    workload: &'w Workload,
    /// Number of seconds in production that one second of the replay represents.
    compression: f64,
    prng: Prng,
    lone: u64,
    connections: Vec<ReplayConnection>,
    follows: Vec<Follow>,
    /// The version of each key that was stored last.
    versions: Vec<u8>,
    block: Vec<u8>,
    scratch: Vec<u8>,
    /// Counts of the replies so far.
    pub tally: ReplayTally,
}

impl<'w> ReplayClient<'w> {
    /// Connects to a server.
    ///
    /// # Errors
    /// If a connection is refused.
    pub fn connect(address: SocketAddr, workload: &'w Workload, compression: f64, seed: u64) -> std::io::Result<Self> {
        let connect = |_| -> std::io::Result<ReplayConnection> {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let (out, expects, input) = (Vec::new(), VecDeque::new(), Vec::new());
            Ok(ReplayConnection { stream, out, sent_bytes: 0, expects, input, read_bytes: 0 })
        };
        let mut block = vec![0; BLOCK_BYTES];
        Prng::new(seed ^ 1).fill(&mut block);
        Ok(Self {
            workload,
            compression,
            prng: Prng::new(seed),
            lone: 0,
            connections: (0..CONNECTIONS).map(connect).collect::<Result<_, _>>()?,
            follows: Vec::new(),
            versions: vec![0; workload.keys as usize],
            block,
            scratch: Vec::new(),
            tally: ReplayTally::default(),
        })
    }

    /// Runs one turn: the follow-ups of the last turn, and at most `requests` new requests.
    ///
    /// # Errors
    /// The first wrong reply.
    pub fn iterate(&mut self, requests: u64) -> Result<(), String> {
        for follow in std::mem::take(&mut self.follows) {
            match follow {
                Follow::Fill(key) if self.workload.name == StreamName::Cluster52 => self.store(key, "add", None),
                Follow::Fill(key) => self.store(key, "set", None),
                Follow::Swap(key, token) => self.store(key, "cas", Some(token)),
            }
        }
        for _ in 0..requests {
            match self.workload.next(&mut self.prng, &mut self.lone) {
                Request::Get(key) => self.read(key, b"get ", ReplayExpect::Get(key)),
                Request::GetsCas(key) => self.read(key, b"gets ", ReplayExpect::Gets(key)),
                Request::Add(key) => self.store(key, "add", None),
            }
            self.tally.requests += 1;
        }
        self.exchange()
    }

    fn version(&self, key: u64) -> u8 {
        if Workload::is_lone(key) { 0 } else { self.versions[key as usize] }
    }

    fn read(&mut self, key: u64, verb: &[u8], expect: ReplayExpect) {
        let connection = &mut self.connections[split_mix(key) as usize % CONNECTIONS];
        connection.out.extend_from_slice(verb);
        self.workload.write_key(key, &mut connection.out);
        connection.out.extend_from_slice(b"\r\n");
        connection.expects.push_back(expect);
        self.tally.commands += 1;
    }

    fn store(&mut self, key: u64, verb: &str, token: Option<u64>) {
        let version = self.version(key).wrapping_add(u8::from(token.is_some()));
        let length = self.workload.value_bytes(key);
        let lifetime = self.workload.lifetime_s(key, self.compression);
        let connection = &mut self.connections[split_mix(key) as usize % CONNECTIONS];
        connection.out.extend_from_slice(verb.as_bytes());
        connection.out.push(b' ');
        self.workload.write_key(key, &mut connection.out);
        let token = token.map(|token| format!(" {token}")).unwrap_or_default();
        connection.out.extend_from_slice(format!(" 0 {lifetime} {length}{token}\r\n").as_bytes());
        write_value(&self.block, key, version, length, &mut connection.out);
        connection.out.extend_from_slice(b"\r\n");
        connection.expects.push_back(ReplayExpect::Store(key, version));
        self.tally.commands += 1;
    }

    /// Sends every batch and reads every reply.
    fn exchange(&mut self) -> Result<(), String> {
        loop {
            let mut busy = false;
            for index in 0..CONNECTIONS {
                self.connections[index].send().map_err(|error| error.to_string())?;
                self.receive(index)?;
                busy |= !self.connections[index].expects.is_empty();
            }
            if !busy {
                self.connections.iter_mut().for_each(ReplayConnection::clear);
                return Ok(());
            }
            let waits = |connection: &ReplayConnection| match connection.sent_bytes < connection.out.len() {
                true => PollFlags::IN | PollFlags::OUT,
                false => PollFlags::IN,
            };
            let mut fds: Vec<PollFd<'_>> = self
                .connections
                .iter()
                .filter(|connection| !connection.expects.is_empty())
                .map(|connection| PollFd::new(&connection.stream, waits(connection)))
                .collect();
            match poll(&mut fds, Some(&REPLY_WAIT_MAX)) {
                Ok(0) => return Err("the server does not reply".into()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn receive(&mut self, index: usize) -> Result<(), String> {
        if self.connections[index].expects.is_empty() {
            return Ok(());
        }
        self.connections[index].fill()?;
        while let Some(expect) = self.connections[index].expects.front().copied() {
            let connection = &self.connections[index];
            let input = &connection.input[connection.read_bytes..];
            let used = match expect {
                ReplayExpect::Get(key) | ReplayExpect::Gets(key) => {
                    let version = self.version(key);
                    match check_read(input, self.workload, &self.block, key, version, &mut self.scratch)? {
                        Reply::Partial => break,
                        Reply::Miss(used) => {
                            self.tally.misses += 1;
                            self.follows.push(Follow::Fill(key));
                            used
                        }
                        Reply::Hit(used, token) => {
                            self.tally.hits += 1;
                            if let (ReplayExpect::Gets(_), Some(token)) = (expect, token) {
                                self.follows.push(Follow::Swap(key, token));
                            }
                            used
                        }
                    }
                }
                ReplayExpect::Store(key, version) => match line(input) {
                    None => break,
                    Some(reply) => {
                        let used = reply.len() + 2;
                        match reply {
                            b"STORED" => {
                                self.tally.stored += 1;
                                if !Workload::is_lone(key) {
                                    self.versions[key as usize] = version;
                                }
                            }
                            b"NOT_STORED" | b"EXISTS" | b"NOT_FOUND" => self.tally.refused += 1,
                            error if error.starts_with(b"SERVER_ERROR") => self.tally.errors += 1,
                            other => {
                                return Err(format!("a store got the reply '{}'", String::from_utf8_lossy(other)));
                            }
                        }
                        used
                    }
                },
            };
            self.connections[index].read_bytes += used;
            self.connections[index].expects.pop_front();
        }
        Ok(())
    }
}

/// Writes the value of `key` in `version`: the key's number, the version with a checksum of both, then random bytes.
fn write_value(block: &[u8], key: u64, version: u8, length: usize, out: &mut Vec<u8>) {
    let mixed = split_mix(split_mix(key) ^ u64::from(version));
    let mut head = [0; VALUE_HEAD_BYTES];
    head[..8].copy_from_slice(&key.to_le_bytes());
    head[8..].copy_from_slice(&mixed.to_le_bytes());
    let from_head = length.min(VALUE_HEAD_BYTES);
    out.extend_from_slice(&head[..from_head]);
    let mut left = length - from_head;
    let mut begin = mixed as usize % (block.len() / 2);
    while left > 0 {
        let part = left.min(block.len() - begin);
        out.extend_from_slice(&block[begin..begin + part]);
        left -= part;
        begin = 0;
    }
}

enum Reply {
    /// The reply is incomplete.
    Partial,
    /// `END`: the key was not found. Holds the reply's length in bytes.
    Miss(usize),
    /// A value. Holds the reply's length in bytes, and the CAS token if the request was a `gets`.
    Hit(usize, Option<u64>),
}

fn line(input: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'\n', input)?;
    input[..end].strip_suffix(b"\r")
}

/// Checks the reply to a read: key, length, every byte of the value, and the line after it.
fn check_read(
    input: &[u8],
    workload: &Workload,
    block: &[u8],
    key: u64,
    version: u8,
    scratch: &mut Vec<u8>,
) -> Result<Reply, String> {
    let Some(head) = line(input) else { return Ok(Reply::Partial) };
    if head == b"END" {
        return Ok(Reply::Miss(5));
    }
    let length = workload.value_bytes(key);
    let begin = head.len() + 2;
    let end = begin + length;
    if input.len() < end + 7 {
        return Ok(Reply::Partial);
    }
    scratch.clear();
    scratch.extend_from_slice(b"VALUE ");
    workload.write_key(key, scratch);
    scratch.extend_from_slice(format!(" 0 {length}").as_bytes());
    let token = match head.strip_prefix(scratch.as_slice()) {
        Some(b"") => None,
        Some(rest) => std::str::from_utf8(rest).ok().and_then(|rest| rest.strip_prefix(' ')?.parse().ok()),
        None => return Err(format!("a read of key {key} got the reply '{}'", String::from_utf8_lossy(head))),
    };
    scratch.clear();
    write_value(block, key, version, length, scratch);
    if &input[begin..end] != scratch.as_slice() {
        return Err(format!("key {key}: the value is not version {version} of its {length} bytes"));
    }
    match &input[end..end + 7] {
        b"\r\nEND\r\n" => Ok(Reply::Hit(end + 7, token)),
        other => Err(format!("key {key}: found '{}' after the value", String::from_utf8_lossy(other))),
    }
}

impl ReplayConnection {
    fn send(&mut self) -> std::io::Result<()> {
        while self.sent_bytes < self.out.len() {
            match self.stream.write(&self.out[self.sent_bytes..]) {
                Ok(n) => self.sent_bytes += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the bytes that have arrived.
    fn fill(&mut self) -> Result<(), String> {
        const READ_BYTES: usize = 64 * 1024;
        loop {
            let end = self.input.len();
            self.input.resize(end + READ_BYTES, 0);
            let read = self.stream.read(&mut self.input[end..]);
            self.input.truncate(end + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err("the server closed a connection".into()),
                Ok(n) if n < READ_BYTES => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn clear(&mut self) {
        self.out.clear();
        self.sent_bytes = 0;
        self.input.clear();
        self.read_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8], version: u8) -> Result<Reply, String> {
        let workload = Workload::cluster52(10_000);
        check_read(input, &workload, &[7; 4096], 3, version, &mut Vec::new())
    }

    fn good() -> Vec<u8> {
        let workload = Workload::cluster52(10_000);
        let mut reply = b"VALUE ".to_vec();
        workload.write_key(3, &mut reply);
        let length = workload.value_bytes(3);
        reply.extend_from_slice(format!(" 0 {length} 99\r\n").as_bytes());
        write_value(&[7; 4096], 3, 5, length, &mut reply);
        reply.extend_from_slice(b"\r\nEND\r\n");
        reply
    }

    #[test]
    fn corrupt_byte_old_version_and_wrong_key_are_detected() {
        let reply = good();
        assert!(matches!(read(&reply, 5), Ok(Reply::Hit(used, Some(99))) if used == reply.len()));
        assert!(read(&reply, 4).is_err());
        for at in [8, reply.len() / 2, reply.len() - 3] {
            let mut bad = reply.clone();
            bad[at] ^= 1;
            assert!(read(&bad, 5).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_reply_in_parts_is_waited_for() {
        let reply = good();
        for end in 0..reply.len() {
            assert!(matches!(read(&reply[..end], 5), Ok(Reply::Partial)), "{end} bytes");
        }
        assert!(matches!(read(b"END\r\n", 5), Ok(Reply::Miss(5))));
    }
}
