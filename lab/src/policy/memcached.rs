//! Replays a stream on Debian's memcached: a `get` for each access, and a `set` after each miss.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use testbed::server::{ServerKind, ServerOptions, TestServer};

/// Minimum memory in MiB. memcached assigns memory in pages of 1 MiB, so in less memory the pages decide.
const MEMORY_MIB_MIN: u64 = 8;
/// Number of objects that are requested at once. The requests for one object are at least this far apart in a batch, or
/// in different batches, so the misses are those of single requests.
const BATCH: usize = 16;

/// Returns the misses of a stream in a memcached server of `memory_bytes`, or `None` if that is too little memory.
///
/// # Errors
/// If the server does not start, or if a reply is unexpected.
pub fn misses(keys: &[u64], value_bytes: u32, memory_bytes: u64) -> Result<Option<u64>, String> {
    let mib = memory_bytes >> 20;
    if mib < MEMORY_MIB_MIN {
        return Ok(None);
    }
    let server = TestServer::start(ServerKind::Memcached, &ServerOptions::memory(mib))?;
    let stream = TcpStream::connect(server.address).map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let mut client = MemcachedClient { input: BufReader::new(stream), value: vec![b'v'; value_bytes as usize] };
    let mut missed = 0;
    for batch in keys.chunks(BATCH) {
        missed += client.run(batch).map_err(|error| format!("memcached: {error}"))?;
    }
    Ok(Some(missed))
}

/// A connection to the server.
struct MemcachedClient {
    input: BufReader<TcpStream>,
    value: Vec<u8>,
}

impl MemcachedClient {
    /// Requests a batch of objects, and stores those that were missing. Returns their number.
    fn run(&mut self, batch: &[u64]) -> std::io::Result<u64> {
        let mut missed = 0;
        let mut rest = batch;
        while !rest.is_empty() {
            // An object that occurs twice is requested again after it was stored.
            let repeats = |at: usize| rest[..at].contains(&rest[at]);
            let (now, later) = rest.split_at((0..rest.len()).find(|at| repeats(*at)).unwrap_or(rest.len()));
            rest = later;
            let requests: String = now.iter().map(|key| format!("get {key:016}\r\n")).collect();
            self.input.get_mut().write_all(requests.as_bytes())?;
            let mut absent = Vec::new();
            for key in now {
                if !self.read_value()? {
                    absent.push(*key);
                }
            }
            missed += absent.len() as u64;
            self.store(&absent)?;
        }
        Ok(missed)
    }

    /// Reads the reply to a `get`. Returns false if the object is missing.
    fn read_value(&mut self) -> std::io::Result<bool> {
        if self.line()? == "END" {
            return Ok(false);
        }
        let mut skipped = [0; 4096];
        let mut left = self.value.len() + 2;
        while left > 0 {
            let bytes = left.min(skipped.len());
            self.input.read_exact(&mut skipped[..bytes])?;
            left -= bytes;
        }
        match self.line()?.as_str() {
            "END" => Ok(true),
            other => Err(std::io::Error::other(format!("unexpected line {other:?} after a value"))),
        }
    }

    fn store(&mut self, keys: &[u64]) -> std::io::Result<()> {
        for key in keys {
            let line = format!("set {key:016} 0 0 {}\r\n", self.value.len());
            let output = self.input.get_mut();
            output.write_all(line.as_bytes())?;
            output.write_all(&self.value)?;
            output.write_all(b"\r\n")?;
            // memcached refuses an item if it finds nothing to evict in the item's size class: that is a miss later.
            match self.line()?.as_str() {
                "STORED" | "SERVER_ERROR out of memory storing object" => {}
                other => return Err(std::io::Error::other(format!("unexpected reply to a set: {other:?}"))),
            }
        }
        Ok(())
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.input.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }
}
