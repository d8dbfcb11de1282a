//! A server in this process, and a client that sends exactly the given bytes.
#![allow(dead_code)]

pub mod hashes;
pub mod memcached;
#[path = "../../../../lab/testbed/src/server/port.rs"]
pub mod port;
pub mod records;
pub mod redis;
pub mod request;
pub mod tiered;

use gannet_server::config::kinds::IoChoice;
use gannet_server::start::{Running, Server, ServerConfig};
use io::listen::ListenAddr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The maximum time that a test waits for an event.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the reactor under test: io_uring in the test binary `uring`, which runs the same suites again.
pub fn io() -> IoChoice {
    if module_path!().starts_with("uring::") { IoChoice::Uring } else { IoChoice::Epoll }
}

/// Returns the configuration of a small server on a free port.
pub fn config() -> ServerConfig {
    ServerConfig {
        memcached: vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())],
        memory_bytes: 64 << 20,
        workers: 1,
        io: io(),
        hash_seed: Some(7),
        huge_pages: false,
        ..ServerConfig::default()
    }
}

pub fn start(config: ServerConfig) -> Running {
    let io = config.io;
    let running = Server::start(config).expect("the server starts");
    assert_eq!(running.io(), io, "the back end under test is the one that serves");
    running
}

/// Returns the server's first TCP address.
pub fn tcp(running: &Running) -> SocketAddr {
    let is_tcp = |addr: &ListenAddr| if let ListenAddr::Tcp(addr) = addr { Some(*addr) } else { None };
    running.addrs().iter().find_map(is_tcp).expect("a TCP address")
}

/// A client connection.
pub struct Client<S = TcpStream> {
    pub stream: S,
}

impl Client {
    pub fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }
}

impl<S: Read + Write> Client<S> {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sends");
    }

    /// Reads as many bytes as `reply` has, and asserts that they are equal.
    pub fn expect(&mut self, reply: &[u8]) {
        let mut bytes = vec![0; reply.len()];
        self.stream.read_exact(&mut bytes).expect("the whole reply");
        if bytes != reply {
            let show = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(300)]).into_owned();
            panic!("got {:?} instead of {:?}", show(&bytes), show(reply));
        }
    }

    /// Sends a request and asserts its reply.
    pub fn ask(&mut self, request: &[u8], reply: &[u8]) {
        self.send(request);
        self.expect(reply);
    }

    /// Asserts that the peer closes without sending anything.
    pub fn expect_end(&mut self) {
        assert_eq!(self.read_to_end(), b"", "the end of the stream");
    }

    /// Returns all bytes until the peer closes.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error} after {} bytes", bytes.len()),
        }
        bytes
    }
}

/// Waits until `holds` returns true.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns a `set` request.
pub fn set(key: &str, value: &[u8]) -> Vec<u8> {
    let mut request = format!("set {key} 0 0 {}\r\n", value.len()).into_bytes();
    request.extend_from_slice(value);
    request.extend_from_slice(b"\r\n");
    request
}

/// Returns the reply to a `get` of one key with the value `value`.
pub fn value(key: &str, value: &[u8]) -> Vec<u8> {
    let mut reply = format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes();
    reply.extend_from_slice(value);
    reply.extend_from_slice(b"\r\nEND\r\n");
    reply
}

/// Returns bytes that depend on their position, so that a shift is detected.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

/// Returns the resident memory of this process, in bytes.
pub fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Returns how often the threads that obtain memory in advance went to sleep, which they do if no memory is wanted.
fn sleeps_of_memory_threads() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let statuses = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    let sleeps = statuses.filter(|status| status.starts_with("Name:\tmemory\n")).filter_map(|status| {
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        count.trim().parse::<u64>().ok()
    });
    sleeps.sum()
}

/// Returns the resident memory once it no longer rises: a background thread obtains the store's memory in advance. On a
/// busy machine that thread may not run for a while, so it must have gone to sleep again and again in the meantime.
pub fn settled_resident() -> u64 {
    let mut before = (resident(), sleeps_of_memory_threads());
    wait_until("the store's memory", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = (resident(), sleeps_of_memory_threads());
        let settled = now.0 < before.0 + (1 << 20) && now.1 > before.1 + 2;
        before = now;
        settled
    });
    before.0
}
