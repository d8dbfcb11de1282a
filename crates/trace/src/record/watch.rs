//! Records from a server's own log of requests: memcached's `watch` stream or RESP's `MONITOR`.
//!
//! memcached logs a store after an internal lookup on the same connection, which no client requested; both lines count
//! as one request. Newer servers also log deletions. `MONITOR` reports every command.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use protocol::memcache::KEY_BYTES_MAX;
use protocol::memcache::client::uri_decoded;
use protocol::number::{parse_i64, parse_u32, parse_u64};

use super::monitor::{micros, monitored, timed};
use super::{Ledger, Pen, Seen};
use crate::format::{RequestOutcome, Secret, TraceEntry, Verb};

/// The commands that start the stream of memcached, tried in turn until the reply is OK. Older versions do not support
/// deletions.
pub const WATCH_COMMANDS: [&[u8]; 2] = [b"watch fetchers mutations deletions\r\n", b"watch fetchers mutations\r\n"];

/// The maximum length of a line, in bytes. A longer line ends the stream.
const LINE_BYTES_MAX: usize = 1 << 20;
/// The maximum number of connections whose last lookup is stored.
const CONNECTIONS_MAX: usize = 1 << 16;
/// The time limit of a read, after which the caller decides whether to continue.
const LOOK: Duration = Duration::from_millis(100);

/// The state of a recording from a watch stream.
#[derive(Debug)]
pub struct WatchRecording {
    pen: Pen,
    /// The time of the first line, at which the trace begins.
    began_unix_us: Option<u64>,
    /// Each connection's last lookup: its number in the ledger, its key's hash, and its outcome.
    lookups: HashMap<u64, (u64, u64, RequestOutcome)>,
}

impl WatchRecording {
    /// Creates the state with this secret.
    pub fn new(secret: Secret) -> Self {
        let pen = Pen { secret, at_us: 0, now_s: 0, connection: 0 };
        Self { pen, began_unix_us: None, lookups: HashMap::new() }
    }

    /// Returns the beginning of the stream in microseconds since 1970, and the current position.
    pub const fn time(&self) -> (Option<u64>, u64) {
        (self.began_unix_us, self.pen.at_us)
    }

    /// Ends the stream and settles the last lookups.
    pub fn close(&mut self, ledger: &mut Ledger) {
        self.lookups.drain().for_each(|(_, lookup)| settle(Some(lookup), ledger));
    }

    /// Parses a line of `MONITOR` without its line end. Returns false if the line is malformed.
    pub fn monitored(&mut self, line: &[u8], ledger: &mut Ledger, seen: &mut Seen) -> bool {
        let Some((unix_us, rest)) = timed(line) else { return false };
        self.pen.at_us = self.at(unix_us);
        self.pen.now_s = unix_us / 1_000_000;
        monitored(rest, &mut self.pen, ledger, seen).is_some()
    }

    fn at(&mut self, unix_us: u64) -> u64 {
        unix_us.saturating_sub(*self.began_unix_us.get_or_insert(unix_us))
    }
}

/// Returns the fields of a line: time, type, key and so on; missing fields are empty.
fn facts(line: &[u8]) -> [&[u8]; 8] {
    const NAMES: [&[u8]; 8] = [b"ts", b"type", b"key", b"status", b"cmd", b"ttl", b"cfd", b"size"];
    let mut facts: [&[u8]; 8] = [b""; 8];
    for word in line.split(|byte| *byte == b' ') {
        let Some(equals) = word.iter().position(|byte| *byte == b'=') else { continue };
        if let Some(at) = NAMES.iter().position(|name| *name == &word[..equals]) {
            facts[at] = &word[equals + 1..];
        }
    }
    facts
}

/// Parses a line of memcached's log stream without its line end. Returns false if the line is malformed.
pub fn watched(line: &[u8], watched: &mut WatchRecording, ledger: &mut Ledger, seen: &mut Seen) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some(skipped) = line.strip_prefix(b"skipped=") {
        seen.lost += parse_u64(skipped).unwrap_or(1);
        return true;
    }
    let [ts, kind, key, status, cmd, ttl, cfd, size] = facts(line);
    let mut room = [0; KEY_BYTES_MAX];
    let (Some(unix_us), Some(key)) = (unpadded_micros(ts), uri_decoded(key, &mut room)) else {
        return line.is_empty();
    };
    let (key_hash, connection) = (watched.pen.secret.hash(key), parse_u64(cfd));
    watched.pen.at_us = watched.at(unix_us);
    let outcome = if matches!(status, b"found" | b"stored") { RequestOutcome::Hit } else { RequestOutcome::Miss };
    let entry = TraceEntry {
        at_us: watched.pen.at_us,
        key: key_hash,
        key_bytes: key.len() as u32,
        value_bytes: parse_u32(size).unwrap_or(0),
        connection: connection.unwrap_or(0) as u32,
        outcome,
        ..TraceEntry::default()
    };
    let before = connection.and_then(|connection| watched.lookups.remove(&connection));
    let verb = match kind {
        b"item_get" => Verb::Get,
        b"item_store" => Verb::from_name(cmd).unwrap_or(Verb::Set),
        b"deleted" => Verb::Delete,
        _ => {
            settle(before, ledger);
            seen.other_requests += 1;
            return true;
        }
    };
    if verb == Verb::Get {
        settle(before, ledger);
        let number = ledger.add(TraceEntry { outcome: RequestOutcome::Unknown, ..entry }, connection.is_some());
        if let Some(connection) = connection {
            if watched.lookups.len() >= CONNECTIONS_MAX {
                watched.lookups.drain().for_each(|(_, lookup)| settle(Some(lookup), ledger));
            }
            watched.lookups.insert(connection, (number, key_hash, outcome));
        }
        return true;
    }
    let ttl_s = parse_i64(ttl).filter(|ttl| *ttl > 0).map_or(0, |ttl| u32::try_from(ttl).unwrap_or(u32::MAX));
    let outcome = if verb == Verb::Delete { RequestOutcome::Hit } else { outcome };
    let (value_bytes, ttl_s) = if verb == Verb::Delete { (0, 0) } else { (entry.value_bytes, ttl_s) };
    let entry = TraceEntry { verb, outcome, value_bytes, ttl_s, ..entry };
    match before {
        Some((number, of, _)) if of == key_hash && ledger.is_open(number) => {
            if let Some(place) = ledger.entry(number) {
                *place = TraceEntry { at_us: place.at_us, ..entry };
            }
            ledger.settle(number, outcome, None);
        }
        before => {
            settle(before, ledger);
            ledger.add(entry, false);
        }
    }
    true
}

fn settle(lookup: Option<(u64, u64, RequestOutcome)>, ledger: &mut Ledger) {
    if let Some((number, _, outcome)) = lookup {
        ledger.settle(number, outcome, None);
    }
}

/// Parses a time whose microseconds have no leading zeros, as memcached writes it.
fn unpadded_micros(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|byte| *byte == b'.')?;
    match text.len() - point - 1 {
        6 => micros(text),
        0 | 7.. => None,
        _ => {
            let seconds = parse_u64(&text[..point])?;
            seconds.checked_mul(1_000_000)?.checked_add(parse_u64(&text[point + 1..])?)
        }
    }
}

/// The kind of a server's log stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    /// memcached's `watch`.
    Watch,
    /// RESP's `MONITOR`.
    Monitor,
}

/// Reads the stream of `server` until it ends, or until `look` returns false. `look` is called regularly with the
/// current state.
///
/// # Errors
/// Returns the reason in words if the server refused, or sent unexpected data.
pub fn watch(
    server: &mut link::ServerStream,
    stream: WatchKind,
    by: &mut WatchRecording,
    ledger: &mut Ledger,
    seen: &mut Seen,
    look: &mut dyn FnMut(&WatchRecording, &mut Ledger, &Seen) -> bool,
) -> Result<(), String> {
    let lost = |error: std::io::Error| format!("the stream failed ({error}); check that the server is running");
    server.set_timeout(LOOK);
    let mut asks = match stream {
        WatchKind::Watch => WATCH_COMMANDS.to_vec(),
        WatchKind::Monitor => vec![b"*1\r\n$7\r\nMONITOR\r\n".as_slice()],
    }
    .into_iter();
    let mut ask = |server: &mut link::ServerStream| match asks.next() {
        Some(words) => server.write_all(words).map(|()| true).map_err(lost),
        None => Ok(false),
    };
    ask(server)?;
    let (mut buffer, mut kept, mut is_granted) = (vec![0; 64 << 10], Vec::new(), false);
    loop {
        match server.read(&mut buffer) {
            Ok(0) if is_granted => return Ok(()),
            Ok(0) => return Err("the server closed the connection; see the server's log".to_owned()),
            Ok(bytes) => kept.extend_from_slice(&buffer[..bytes]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            Err(error) => return Err(lost(error)),
        }
        let mut at = 0;
        while let Some(end) = memchr::memchr(b'\n', &kept[at..]) {
            let line = &kept[at..at + end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            at += end + 1;
            if !is_granted {
                is_granted = line == b"OK" || line == b"+OK";
                if !is_granted && !ask(server)? {
                    let said = String::from_utf8_lossy(line);
                    return Err(format!(
                        "the server refused the stream ({said:?}); permit it on the server, or record with --listen"
                    ));
                }
                continue;
            }
            let is_line = match stream {
                WatchKind::Watch => watched(line, by, ledger, seen),
                WatchKind::Monitor => by.monitored(line, ledger, seen),
            };
            if !is_line {
                let said = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
                return Err(format!("the server sent an unexpected line: {said:?}; check --protocol"));
            }
        }
        kept.drain(..at);
        if kept.len() > LINE_BYTES_MAX {
            return Err(format!("a line is longer than {LINE_BYTES_MAX} bytes; check --protocol"));
        }
        if !look(by, ledger, seen) {
            return Ok(());
        }
    }
}
