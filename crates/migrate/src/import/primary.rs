//! The connection to the source, as one of its replicas.
//!
//! ```text
//!   PING, AUTH, REPLCONF listening-port 0, REPLCONF capa eof capa psync2, PSYNC replid offset
//!   <-- +FULLRESYNC replid offset   then   $LENGTH or $EOF:MARK, and the snapshot; MARK again
//!   <-- +CONTINUE replid
//!   <-- commands
//! ```
//! The port 0 shows Sentinel that no client can be sent here.

use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};

use link::{Link, wait_any};
use protocol::resp::client::{ParsedValue, Value, command, value};

use crate::pace::CopyPace;
use crate::place::{Login, ServerAddress};
use crate::reconnect::{ConnectSettings, RequestError, sleep};
use crate::redis::text;

/// Interval at which the source is shown that this replica is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(1);
/// Longest wait before a stop is noticed.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(100);
/// Length of the mark at the end of a snapshot without a known length.
const MARK_BYTES: usize = 40;
/// Longest line before a snapshot.
const LINE_BYTES_MAX: usize = 512;

/// A position in the source's stream of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamPlace {
    /// Identifier of the stream.
    pub replid: String,
    /// Bytes of the stream up to here.
    pub offset: u64,
}

/// The source's reply to an attachment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attached {
    /// The stream continues where it ended; it has this identifier now.
    Continued(String),
    /// A snapshot follows, and then the stream from this place.
    Full(StreamPlace),
}

/// The extent of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SnapshotEnd {
    /// It has this many bytes.
    Bytes(u64),
    /// These bytes follow it.
    Mark([u8; MARK_BYTES]),
}

/// The source, with its connection.
pub(super) struct Primary {
    /// The connection; its input is the stream of commands after the snapshot.
    pub link: Link,
    /// The source's name, for messages.
    pub name: String,
    login: Option<Login>,
    timeout: Duration,
}

impl Primary {
    /// Creates the client of `server`, not yet connected.
    pub fn new(server: &ServerAddress, settings: &ConnectSettings) -> Self {
        let (link, name) = (settings.link(server), server.to_string());
        Self { link, name, login: server.login.clone(), timeout: settings.timeout }
    }

    /// Connects, and asks for the stream behind `place`, or for everything without a place.
    pub fn attach(
        &mut self,
        place: Option<&StreamPlace>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Attached, RequestError> {
        self.link.connect()?;
        self.say(&[b"PING"]);
        self.reply("PING", |reply| match reply {
            Value::Error(error) if !error.starts_with(b"NOAUTH") => Some(Err(refused("PING", error))),
            _ => Some(Ok(())),
        })?;
        if let Some(Login { user, password }) = self.login.clone() {
            let full = [b"AUTH".as_slice(), user.as_bytes(), password.as_bytes()];
            let short = [b"AUTH".as_slice(), password.as_bytes()];
            self.say(if user.is_empty() { &short } else { &full });
            self.accepted("AUTH")?;
        }
        self.say(&[b"REPLCONF", b"listening-port", b"0"]);
        self.accepted("REPLCONF")?;
        self.say(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"]);
        self.accepted("REPLCONF")?;
        // Valkey 9 chooses the format of the snapshot by this. Redis replies with an error.
        self.say(&[b"REPLCONF", b"version", b"9.0.0"]);
        self.reply("REPLCONF", |_| Some(Ok(())))?;
        let (replid, offset) = match place {
            Some(place) => (place.replid.clone(), (place.offset + 1).to_string()),
            None => ("?".to_owned(), "-1".to_owned()),
        };
        self.say(&[b"PSYNC", replid.as_bytes(), offset.as_bytes()]);
        // The source may reply only when its snapshot begins. Meanwhile it sends a line end each second.
        self.skip_newlines();
        while self.link.input().is_empty() {
            self.wait(is_stopped, &mut Instant::now())?;
            self.skip_newlines();
        }
        self.reply("PSYNC", |reply| match reply {
            Value::Error(error) => Some(Err(refused("PSYNC", error))),
            Value::Simple(line) => attached(std::str::from_utf8(line).ok()?, &replid).map(Ok),
            _ => None,
        })
    }

    /// Reads the line before the snapshot. Returns the reader of the snapshot's bytes.
    pub fn snapshot<'m>(
        &'m mut self,
        pace: CopyPace,
        is_stopped: &'m dyn Fn() -> bool,
    ) -> Result<SnapshotInput<'m>, RequestError> {
        let begun = Instant::now();
        let end = loop {
            self.skip_newlines();
            let line = self.link.input();
            if let Some(len) = line.iter().position(|byte| *byte == b'\n') {
                let end = snapshot_end(&line[..len]);
                self.link.take(len + 1);
                break end?;
            }
            if line.len() > LINE_BYTES_MAX {
                return Err(RequestError::Refused("the source sent no line before its snapshot".to_owned()));
            }
            // The source sends a line end each second while it prepares the snapshot.
            self.wait(is_stopped, &mut Instant::now())?;
        };
        let left = if let SnapshotEnd::Bytes(bytes) = end { Some(bytes) } else { None };
        let (clock, alive) = (begun, Instant::now());
        let mut pace = pace;
        pace.begin(clock.elapsed().as_nanos() as u64);
        Ok(SnapshotInput {
            primary: self,
            end,
            left,
            read: 0,
            unpaced: 0,
            pace,
            clock,
            alive,
            is_stopped,
            failure: None,
        })
    }

    /// Reports how much of the stream was applied.
    pub fn acknowledge(&mut self, offset: u64) {
        self.say(&[b"REPLCONF", b"ACK", offset.to_string().as_bytes()]);
    }

    fn say(&mut self, words: &[&[u8]]) {
        command(self.link.out(), words.iter().copied());
    }

    fn skip_newlines(&mut self) {
        let count = self.link.input().iter().take_while(|byte| **byte == b'\n').count();
        self.link.take(count);
    }

    fn accepted(&mut self, verb: &'static str) -> Result<(), RequestError> {
        self.reply(verb, |reply| match reply {
            Value::Error(error) => Some(Err(refused(verb, error))),
            _ => Some(Ok(())),
        })
    }

    /// Reads the reply to `verb`. `take` returns `None` for an unexpected one.
    fn reply<T>(
        &mut self,
        verb: &str,
        mut take: impl FnMut(Value<'_>) -> Option<Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        loop {
            self.skip_newlines();
            let (taken, consumed) = match value(self.link.input()) {
                ParsedValue::Value { value, consumed } => (take(value), consumed),
                ParsedValue::Incomplete => {
                    self.link.pump()?;
                    continue;
                }
                ParsedValue::Garbage(garbage) => return Err(not_redis(self.link.input(), garbage.text())),
            };
            self.link.take(consumed);
            return taken.unwrap_or_else(|| {
                Err(RequestError::Refused(format!("the source sent an unexpected reply to {verb}")))
            });
        }
    }

    /// Waits a moment for bytes from the source. Fails if nothing has arrived since `heard` for the time limit.
    fn wait(&mut self, is_stopped: &dyn Fn() -> bool, heard: &mut Instant) -> Result<(), RequestError> {
        loop {
            self.link.flush()?;
            if self.link.receive()? {
                *heard = Instant::now();
                return Ok(());
            }
            if is_stopped() {
                return Err(RequestError::Stopped);
            }
            if heard.elapsed() > self.timeout {
                return Err(RequestError::Lost("the source sends nothing".to_owned()));
            }
            wait_any(&[&self.link], WAIT_MAX)?;
        }
    }
}

/// Returns the meaning of the reply to `PSYNC`. A source without a second identifier continues under the same one.
fn attached(line: &str, replid: &str) -> Option<Attached> {
    let mut words = line.split(' ');
    match (words.next()?, words.next(), words.next()) {
        ("CONTINUE", new, _) => Some(Attached::Continued(new.unwrap_or(replid).to_owned())),
        ("FULLRESYNC", Some(replid), Some(offset)) => {
            Some(Attached::Full(StreamPlace { replid: replid.to_owned(), offset: offset.parse().ok()? }))
        }
        _ => None,
    }
}

fn snapshot_end(line: &[u8]) -> Result<SnapshotEnd, RequestError> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some(error) = line.strip_prefix(b"-") {
        return Err(RequestError::Lost(format!("the source sent an error instead of its snapshot: {}", text(error))));
    }
    let end = match line.strip_prefix(b"$EOF:") {
        Some(mark) => mark.try_into().ok().map(SnapshotEnd::Mark),
        None => line
            .strip_prefix(b"$")
            .and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok())
            .map(SnapshotEnd::Bytes),
    };
    end.ok_or_else(|| RequestError::Refused(format!("the source sent {:?} before its snapshot", text(line))))
}

/// Returns the error for an error reply of the source, with a remedy if one is known.
fn refused(verb: &str, error: &[u8]) -> RequestError {
    let words = text(error);
    if [&b"LOADING"[..], b"BUSY ", b"MASTERDOWN", b"NOMASTERLINK"].iter().any(|code| error.starts_with(code)) {
        return RequestError::Lost(format!("the source is not ready: {words}"));
    }
    let begins = |code: &str| words.starts_with(code);
    let remedy = if begins("WRONGPASS") || begins("NOAUTH") || begins("ERR invalid password") {
        "write the right user and password in the address, as in redis://USER:PASSWORD@HOST:PORT"
    } else if begins("ERR AUTH") || begins("ERR Client sent AUTH") {
        "the source has no password; remove it from the address"
    } else if begins("NOPERM") {
        "the user needs the rights +psync +replconf +ping"
    } else {
        "if the source does not serve replicas, use gannet migrate"
    };
    RequestError::Refused(format!("the source refused {verb}: {words}; {remedy}"))
}

/// Returns the error for a peer that does not speak RESP.
fn not_redis(input: &[u8], why: &str) -> RequestError {
    let remedy = match input {
        _ if input.starts_with(b"ERROR") || input.starts_with(b"CLIENT_ERROR") => {
            "it replies as memcached does; copy from it with gannet migrate --from memcached://HOST:PORT"
        }
        _ if input.starts_with(b"HTTP/") => "it replies as a web server does; check the port",
        [0x15, 0x03, ..] => "it replies as a TLS server does; write rediss://",
        _ => "check the address",
    };
    RequestError::Refused(format!("the source does not speak the Redis protocol ({why}): {remedy}"))
}

/// The bytes of a snapshot, as they arrive. The source is shown each second that this replica is alive.
pub(super) struct SnapshotInput<'m> {
    primary: &'m mut Primary,
    end: SnapshotEnd,
    /// Bytes that are outstanding, if the length is known.
    left: Option<u64>,
    /// Bytes read so far.
    pub read: u64,
    unpaced: u64,
    pace: CopyPace,
    clock: Instant,
    alive: Instant,
    is_stopped: &'m dyn Fn() -> bool,
    failure: Option<RequestError>,
}

impl SnapshotInput<'_> {
    /// Returns the length of the snapshot, if the source has sent it.
    pub const fn bytes(&self) -> Option<u64> {
        if let SnapshotEnd::Bytes(bytes) = self.end { Some(bytes) } else { None }
    }

    /// Returns why the source could not be read, if that is why the reader of the snapshot failed.
    pub fn failure(&mut self) -> Option<RequestError> {
        self.failure.take()
    }

    /// Checks that the snapshot ends here, and reads the mark after it.
    pub fn finish(&mut self) -> Result<(), RequestError> {
        let is_end = match self.end {
            SnapshotEnd::Bytes(bytes) => bytes == self.read,
            SnapshotEnd::Mark(mark) => {
                let mut found = [0; MARK_BYTES];
                if self.read_exact(&mut found).is_err() {
                    let lost = RequestError::Lost("the source closed the connection after its snapshot".to_owned());
                    return Err(self.failure().unwrap_or(lost));
                }
                found == mark
            }
        };
        let read = self.read;
        let wrong = || RequestError::Refused(format!("the snapshot does not end where its data ends, at byte {read}"));
        if is_end { Ok(()) } else { Err(wrong()) }
    }

    /// Shows the source that this replica is alive.
    fn keep_alive(&mut self) -> Result<(), RequestError> {
        if self.alive.elapsed() >= ALIVE_EVERY {
            self.alive = Instant::now();
            self.primary.link.out().push(b'\n');
            self.primary.link.flush()?;
        }
        Ok(())
    }

    /// Waits as the limit of bytes per second demands.
    fn follow_pace(&mut self, bytes: u64) -> Result<(), RequestError> {
        self.unpaced += bytes;
        if self.unpaced < self.pace.bytes_max(64 << 10) {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.unpaced);
        let wait_ns = self.pace.after(self.clock.elapsed().as_nanos() as u64, 0, bytes);
        let end = Instant::now() + Duration::from_nanos(wait_ns);
        loop {
            self.keep_alive()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if !sleep(left.min(ALIVE_EVERY), self.is_stopped) {
                return Err(RequestError::Stopped);
            }
        }
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<usize, RequestError> {
        if into.is_empty() || self.left == Some(0) {
            return Ok(0);
        }
        let mut heard = Instant::now();
        while self.primary.link.input().is_empty() {
            self.keep_alive()?;
            self.primary.wait(self.is_stopped, &mut heard)?;
        }
        let input = self.primary.link.input();
        let most = self.left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let bytes = input.len().min(into.len()).min(most);
        into[..bytes].copy_from_slice(&input[..bytes]);
        self.primary.link.take(bytes);
        self.read += bytes as u64;
        self.left = self.left.map(|left| left - bytes as u64);
        self.follow_pace(bytes as u64)?;
        Ok(bytes)
    }
}

impl Read for SnapshotInput<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.fill(into).map_err(|failure| {
            self.failure = Some(failure);
            ErrorKind::Other.into()
        })
    }
}
