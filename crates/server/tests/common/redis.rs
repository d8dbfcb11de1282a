//! Debian's Redis, for comparisons, and replies in their wire format.

pub use super::request::request;
use super::{Client, PATIENCE, config, start};
use command::clients::endpoint::Protocol;
use gannet_server::start::{Running, ServerConfig};
use io::listen::ListenAddr;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Debian's redis-server on a port of its own; stopped when dropped.
pub struct Redis {
    child: Child,
    pub addr: SocketAddr,
}

impl Redis {
    pub fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port_text = port.to_string();
        let child = Command::new("redis-server")
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

/// A small server for clients of both protocols.
pub fn both() -> ServerConfig {
    ServerConfig { resp: vec![ListenAddr::Tcp(([127, 0, 0, 1], 0).into())], ..config() }
}

/// Where clients of this protocol connect to.
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

/// A client of Redis.
pub fn resp(running: &Running) -> Replies {
    Replies::connect(resp_addr(running))
}

/// A small server for clients of both protocols that is up.
pub fn running() -> Running {
    start(both())
}

/// The words of a line.
pub fn words(line: &str) -> Vec<&[u8]> {
    line.split(' ').map(str::as_bytes).collect()
}

/// Reads replies, whole.
pub struct Replies {
    pub client: Client,
    held: Vec<u8>,
}

impl Replies {
    pub fn connect(addr: SocketAddr) -> Self {
        Self { client: Client::connect(addr), held: Vec::new() }
    }

    /// The next reply, as its bytes.
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

    /// One request, its reply.
    pub fn ask(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.client.send(&request(words));
        self.next()
    }

    /// Asks with the words of a line; gives the reply as text, with spaces for its line ends.
    pub fn text(&mut self, line: &str) -> String {
        String::from_utf8(self.ask(&words(line))).expect("text").trim_end().replace("\r\n", " ")
    }

    /// The same for a reply of any bytes: what is no text is shown escaped.
    pub fn shown(&mut self, line: &str) -> String {
        let reply = self.ask(&words(line)).escape_ascii().to_string();
        reply.replace("\\r\\n", " ").replace("\\'", "'").trim_end().to_owned()
    }
}

/// The length of the reply at the start of `bytes`, if it is all there.
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
