//! Takes one reading of a server's figures, from two pages of its admin port.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use link::tls::Maker;
use link::{Address, ServerStream};
use serde_json::Value;

/// The default admin port of a server.
pub const ADMIN: &str = "127.0.0.1:9555";
/// Time limit for the server's reply.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Time limit for the reply of a port of another protocol.
const PROBE: Duration = Duration::from_secs(1);
/// The beginning of each reply of an HTTP server.
const HTTP: &[u8] = b"HTTP/";
/// Largest size of a page in bytes.
const PAGE_BYTES_MAX: u64 = 8 << 20;

/// The server's figures, and the time of the reading.
pub struct ServerFigures {
    at: Instant,
    stats: Value,
    hot: Value,
}

/// A group of requests for which the server reports times.
#[derive(Clone, Copy)]
pub enum Of<'n> {
    /// The requests of a command.
    Command(&'n str),
    /// All requests in a namespace.
    Namespace(&'n str),
}

/// An entry in a list of hot keys.
pub struct Leader {
    /// The key or prefix, as the server reports it.
    pub name: String,
    /// Number of requests or bytes.
    pub amount: u64,
    /// The namespace; empty if the server does not report it.
    pub namespace: String,
}

impl ServerFigures {
    /// Reads both pages of the server, over TLS if `tls` is given. The server must reply within `patience`.
    ///
    /// # Errors
    /// The reason in a sentence with the remedy.
    pub fn take(addr: SocketAddr, tls: Option<&Maker>, patience: Duration) -> Result<Self, String> {
        let read = |path| page_within(addr, tls, path, patience);
        let (stats, hot) = (read("/stats.json")?, read("/hotkeys.json?minutes=1&count=20")?);
        Ok(Self { at: Instant::now(), stats, hot })
    }

    #[cfg(test)]
    pub fn of(at: Instant, stats: Value, hot: Value) -> Self {
        Self { at, stats, hot }
    }

    /// Returns the seconds from `earlier` to this reading.
    pub fn seconds_since(&self, earlier: &Self) -> f64 {
        self.at.duration_since(earlier.at).as_secs_f64().max(1e-3)
    }

    /// Returns a figure without labels, or the value for one label; 0 if the server does not report it.
    pub fn figure(&self, name: &str, label: Option<&str>) -> f64 {
        let figure = &self.stats["figures"][name];
        label.map_or(figure, |label| &figure[label]).as_f64().unwrap_or(0.0)
    }

    /// Returns the values of the label of the figure `name`, in the order of the parsed reply.
    pub fn labels(&self, name: &str) -> Vec<&str> {
        let labels = self.stats["figures"][name].as_object().into_iter().flatten();
        labels.map(|(label, _)| label.as_str()).collect()
    }

    /// Returns the sum over a figure's labels.
    pub fn sum(&self, name: &str) -> f64 {
        self.labels(name).into_iter().map(|label| self.figure(name, Some(label))).sum()
    }

    /// Returns the commands that were used since the server's start.
    pub fn commands(&self) -> Vec<&str> {
        let commands = self.stats["latency"]["start"].as_object().into_iter().flatten();
        commands.map(|(command, _)| command.as_str()).collect()
    }

    /// Returns the times of a command or a namespace, since the start or in the last minute.
    fn times(&self, of: Of<'_>, since: &str) -> &Value {
        let latency = &self.stats["latency"];
        match of {
            Of::Command(command) => &latency[since][command],
            Of::Namespace(namespace) => &latency["namespaces"][since][namespace],
        }
    }

    /// Returns the number of requests since the start.
    pub fn count(&self, of: Of<'_>) -> f64 {
        self.times(of, "start")["execute"]["count"].as_f64().unwrap_or(0.0)
    }

    /// Returns a quantile of the time that one part of a request took in the last minute, in nanoseconds; `None` if
    /// there were no requests.
    pub fn minute_ns(&self, of: Of<'_>, part: &str, quantile: &str) -> Option<f64> {
        let part = &self.times(of, "minute")[part];
        part[quantile].as_f64().filter(|_| part["count"].as_f64() != Some(0.0))
    }

    /// Returns the sampling interval of the hot keys: on average, one of this number of requests is sampled. Returns 0
    /// if the server does not report it.
    pub fn sampled_one_in(&self) -> f64 {
        self.hot["sampled_one_in"].as_f64().unwrap_or(0.0)
    }

    /// Returns a list of hot keys.
    pub fn leaders(&self, list: &str) -> Vec<Leader> {
        let leaders = self.hot["lists"][list].as_array().into_iter().flatten();
        let leader = |leader: &Value| {
            let namespace = leader["namespace"].as_str().unwrap_or_default().to_owned();
            Some(Leader { name: leader["name"].as_str()?.to_owned(), amount: leader["amount"].as_u64()?, namespace })
        };
        leaders.filter_map(leader).collect()
    }
}

/// Reads a page of the admin port at `addr`, over TLS if `tls` is given.
///
/// # Errors
/// The reason in a sentence with the remedy. The port of another protocol is named.
pub fn page(addr: SocketAddr, tls: Option<&Maker>, path: &str) -> Result<Value, String> {
    page_within(addr, tls, path, PATIENCE)
}

fn page_within(addr: SocketAddr, tls: Option<&Maker>, path: &str, patience: Duration) -> Result<Value, String> {
    let answer = ask(addr, tls, path, patience).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("{addr} has not replied for {} s; the server is stopped or overloaded", patience.as_secs_f64())
        }
        _ => format!(
            "cannot read {addr}: {error}; pass the admin port of a running server (listen.admin, {ADMIN} by default)"
        ),
    })?;
    let value = answer.as_deref().and_then(body);
    value.ok_or_else(|| {
        let is_secured = answer.is_some_and(|answer| answer.windows(14).any(|part| part == b"port uses TLS:"));
        if is_secured {
            return format!("{addr} uses TLS; pass --tls-ca FILE, the certificate of the CA that verifies the server");
        }
        let what = other_protocol(addr).unwrap_or("not an admin port of this version of Gannet");
        format!("{addr} is {what}; pass the server's admin port (listen.admin, {ADMIN} by default)")
    })
}

/// Requests the page. Returns the reply, or `None` if it is no HTTP.
fn ask(addr: SocketAddr, tls: Option<&Maker>, path: &str, patience: Duration) -> std::io::Result<Option<Vec<u8>>> {
    let mut stream = ServerStream::connect(&Address::Tcp(addr.to_string()), tls, patience)?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut stream = stream.take(PAGE_BYTES_MAX);
    let mut chunk = [0; 16 << 10];
    loop {
        // A server that closes a connection of another protocol may reset it.
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
        // Servers of other protocols may leave the connection open after their reply.
        if answer.len() >= HTTP.len() && !answer.starts_with(HTTP) {
            return Ok(None);
        }
    }
    Ok(Some(answer))
}

fn connected(addr: SocketAddr, patience: Duration) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

/// Returns the JSON of a successful reply.
fn body(answer: &[u8]) -> Option<Value> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let is_good = answer.starts_with(b"HTTP/1.1 200 ");
    serde_json::from_slice(&answer[end + 4..]).ok().filter(|_| is_good)
}

/// Returns the kind of the port at `addr` if it is one for clients.
fn other_protocol(addr: SocketAddr) -> Option<&'static str> {
    let mut stream = connected(addr, PROBE).ok()?;
    // memcached replies with its version, and Redis with a line that begins with a sign.
    stream.write_all(b"version\r\n").ok()?;
    let mut reply = [0; 64];
    let count = stream.read(&mut reply).ok()?;
    match &reply[..count] {
        [b'V', b'E', b'R', ..] => Some("a port for memcached clients"),
        [b'-' | b'+', ..] => Some("a port for Redis clients"),
        [b'H', b'T', b'T', b'P', ..] => Some("an HTTP port, but not one of this version of Gannet"),
        _ => None,
    }
}
