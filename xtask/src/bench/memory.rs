//! Measures bytes per item: fills a server until its first eviction, counts the readable items, and reads the memory
//! use.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use testbed::server::{ServerKind, ServerOptions, TestServer};

/// One kind of item.
#[derive(Clone, Copy, Debug)]
pub struct ItemShape {
    /// Key length in bytes.
    pub key_bytes: usize,
    /// Value length in bytes.
    pub value_bytes: usize,
    /// Seconds to live; 0 for none.
    pub ttl_s: u32,
}

/// The shapes that are measured, one in each row of the printed table.
pub const SHAPES: [ItemShape; 7] = [
    ItemShape { key_bytes: 16, value_bytes: 64, ttl_s: 0 },
    ItemShape { key_bytes: 16, value_bytes: 64, ttl_s: 86_400 },
    ItemShape { key_bytes: 24, value_bytes: 200, ttl_s: 0 },
    ItemShape { key_bytes: 24, value_bytes: 200, ttl_s: 86_400 },
    ItemShape { key_bytes: 24, value_bytes: 150 * 1024, ttl_s: 0 },
    ItemShape { key_bytes: 24, value_bytes: 600 * 1024, ttl_s: 0 },
    ItemShape { key_bytes: 24, value_bytes: 1_153_434, ttl_s: 0 },
];

/// The contents of a full server.
#[derive(Clone, Debug)]
pub struct Fill {
    /// The shape.
    pub shape: ItemShape,
    /// The server's memory limit in bytes.
    pub memory_bytes: u64,
    /// Number of readable items at the first eviction.
    pub items: u64,
    /// Resident memory at that time, in bytes.
    pub rss_bytes: u64,
    /// Resident memory of the empty server, in bytes.
    pub rss_empty_bytes: u64,
    /// The server's own accounting at that time, if it has an admin port.
    pub stats: Option<serde_json::Value>,
}

impl Fill {
    /// Returns the memory limit divided by the number of items, minus the bytes of key and value.
    pub fn overhead_of_limit(&self) -> f64 {
        self.memory_bytes as f64 / self.items as f64 - self.payload()
    }

    /// Returns the resident memory divided by the number of items, minus the bytes of key and value.
    pub fn overhead_of_rss(&self) -> f64 {
        self.rss_bytes as f64 / self.items as f64 - self.payload()
    }

    fn payload(&self) -> f64 {
        (self.shape.key_bytes + self.shape.value_bytes) as f64
    }
}

const BATCH_BYTES_MAX: usize = 64 * 1024;
const REPLY_WAIT_MAX: Duration = Duration::from_secs(30);

/// Fills a new server of `memory_mib` MiB with items of one shape.
///
/// # Errors
/// If the server does not start, or replies with anything but `STORED`.
pub fn fill(kind: ServerKind, shape: ItemShape, memory_mib: u64) -> Result<Fill, String> {
    let options = ServerOptions { item_bytes_max: 2 * 1024 * 1024, ..ServerOptions::memory(memory_mib) };
    let server = TestServer::start(kind, &options)?;
    let rss_empty_bytes = server.rss_bytes();
    let mut client = StoringClient::connect(&server)?;
    let memory_bytes = memory_mib * 1024 * 1024;
    let in_memory = memory_bytes / (shape.key_bytes + shape.value_bytes) as u64;
    let between_looks = (in_memory / 500).max(1);
    let mut stored = 0;
    while server.stat("evictions")? == 0 {
        if stored > 2 * in_memory {
            return Err(format!("{}: {stored} items were stored without an eviction", kind.name()));
        }
        client.store(shape, stored, between_looks)?;
        stored += between_looks;
    }
    let rss_bytes = server.rss_bytes();
    let stats = server.admin_page("/stats.json").ok().and_then(|text| serde_json::from_str(&text).ok());
    let items = client.count_readable(shape, stored)?;
    Ok(Fill { shape, memory_bytes, items, rss_bytes, rss_empty_bytes, stats })
}

/// A client that stores items, and counts the readable ones.
pub(super) struct StoringClient {
    reader: BufReader<TcpStream>,
    batch: Vec<u8>,
    /// True for RESP instead of the memcached protocol.
    resp: bool,
}

impl StoringClient {
    pub(super) fn connect(server: &TestServer) -> Result<Self, String> {
        Self::connect_to(server.address, server.kind == ServerKind::Valkey)
    }

    pub(super) fn connect_to(address: SocketAddr, resp: bool) -> Result<Self, String> {
        let stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
        stream.set_read_timeout(Some(REPLY_WAIT_MAX)).map_err(|error| error.to_string())?;
        Ok(Self { reader: BufReader::new(stream), batch: Vec::new(), resp })
    }

    /// Stores `count` items, beginning with number `first`.
    pub(super) fn store(&mut self, shape: ItemShape, first: u64, count: u64) -> Result<(), String> {
        let value = vec![b'x'; shape.value_bytes];
        let mut sent = 0;
        while sent < count {
            self.batch.clear();
            let begin = sent;
            while sent < count && (sent == begin || self.batch.len() < BATCH_BYTES_MAX) {
                let key = key(shape, first + sent);
                match (self.resp, shape.ttl_s) {
                    (false, ttl_s) => {
                        let head = format!("set {key} 0 {ttl_s} {}\r\n", shape.value_bytes);
                        self.batch.extend_from_slice(head.as_bytes());
                        self.batch.extend_from_slice(&value);
                        self.batch.extend_from_slice(b"\r\n");
                    }
                    (true, 0) => write_resp(&[b"SET", key.as_bytes(), &value], &mut self.batch),
                    (true, ttl_s) => {
                        let ttl_s = ttl_s.to_string();
                        write_resp(&[b"SET", key.as_bytes(), &value, b"EX", ttl_s.as_bytes()], &mut self.batch);
                    }
                }
                sent += 1;
            }
            self.send()?;
            for _ in begin..sent {
                let line = self.line()?;
                if line != if self.resp { "+OK" } else { "STORED" } {
                    return Err(format!("a set got the reply '{line}'"));
                }
            }
        }
        Ok(())
    }

    /// Counts the readable items among the first `count`, without transferring values.
    fn count_readable(&mut self, shape: ItemShape, count: u64) -> Result<u64, String> {
        let mut readable = 0;
        for first in (0..count).step_by(500) {
            let end = (first + 500).min(count);
            self.batch.clear();
            for index in first..end {
                let key = key(shape, index);
                match self.resp {
                    false => self.batch.extend_from_slice(format!("mg {key} s\r\n").as_bytes()),
                    true => write_resp(&[b"STRLEN", key.as_bytes()], &mut self.batch),
                }
            }
            self.send()?;
            for _ in first..end {
                let line = self.line()?;
                match line.as_str() {
                    "EN" | ":0" => {}
                    hit if hit == format!("HD s{}", shape.value_bytes) => readable += 1,
                    hit if hit == format!(":{}", shape.value_bytes) => readable += 1,
                    other => return Err(format!("a meta get got the reply '{other}'")),
                }
            }
        }
        Ok(readable)
    }

    fn send(&mut self) -> Result<(), String> {
        self.reader.get_mut().write_all(&self.batch).map_err(|error| error.to_string())
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.reader.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line.trim_end().to_owned())
    }
}

/// Appends a RESP request: an array with the words as bulk strings.
fn write_resp(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

pub(super) fn key(shape: ItemShape, index: u64) -> String {
    format!("{index:0width$}", width = shape.key_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_memcached_stores_fewer_bytes_of_items_than_its_limit() {
        let fill = fill(ServerKind::Memcached, SHAPES[2], 8).expect("memcached is installed");
        assert!(fill.items > 1000 && fill.items * 224 < fill.memory_bytes, "{} items", fill.items);
        assert!(fill.overhead_of_limit() > 0.0 && fill.rss_bytes > fill.rss_empty_bytes);
    }

    #[test]
    fn resp_request_encodes_its_argument_lengths() {
        let mut out = Vec::new();
        write_resp(&[b"SET", b"key", b""], &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$0\r\n\r\n");
    }

    #[test]
    fn keys_have_the_length_of_their_shape() {
        assert!(SHAPES.iter().all(|shape| key(*shape, 123).len() == shape.key_bytes));
    }
}
