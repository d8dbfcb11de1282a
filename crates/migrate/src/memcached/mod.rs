//! A server that speaks the memcached protocol, as source or target: memcached, Gannet and others.
//!
//! Reads and writes are meta commands, which support any key, the flags and the time to live. For servers without them,
//! the older text commands are used. Keys are then limited to text, and only the dump reports an item's expiry.

mod dump;
mod read;
mod store;

use base::clock::UnixMillis;
use link::Link;
use protocol::memcache::client::{self, Expect, ParsedReply, Reply, ReplyPosition, ServerError};

use super::place::{Login, ServerAddress};
use super::reconnect::{ConnectSettings, Reconnecting, RequestError, ServerRun};

pub(super) use dump::ListedKey;
pub(super) use store::why_unstorable;

/// A line of a dump for a key that requests cannot contain.
const EMPTY_KEY: &[u8] = b"key=\n";
/// Largest difference of clocks that is ignored, in seconds; the server's clock ticks once per second.
const SKEW_S_MIN: i64 = 3;

/// A memcached server with its connection.
#[derive(Debug)]
pub(super) struct Memcached {
    link: Link,
    login: Option<Login>,
    name: String,
    /// True if the server supports meta commands.
    pub has_meta: bool,
    /// Seconds by which the server's clock is ahead of this host's; 0 if the difference is negligible.
    pub skew_s: i64,
    /// The run of the server.
    pub run: ServerRun,
}

impl Memcached {
    /// Creates the client of `server`, not yet connected.
    pub fn new(server: &ServerAddress, settings: &ConnectSettings) -> Self {
        Self {
            link: settings.link(server),
            login: server.login.clone(),
            name: server.to_string(),
            has_meta: true,
            skew_s: 0,
            run: ServerRun::default(),
        }
    }

    /// Reads the next reply and its value, if there is one.
    fn answer<T>(
        &mut self,
        expect: Expect,
        mut take: impl FnMut(Reply<'_>, &[u8]) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        loop {
            let (reply, consumed) = match client::reply(self.link.input()) {
                ParsedReply::Reply { reply, consumed } => (reply, consumed),
                ParsedReply::Incomplete => {
                    self.link.pump()?;
                    continue;
                }
                ParsedReply::Garbage(client::Garbage::LineTooLong) if expect == Expect::Metadump => {
                    // Only a key that no request of this protocol can contain makes a line of a dump so long.
                    self.skip_line()?;
                    let ParsedReply::Reply { reply, .. } = client::reply(EMPTY_KEY) else {
                        unreachable!("it is whole")
                    };
                    return take(reply, &[]);
                }
                ParsedReply::Garbage(garbage) => {
                    return Err(RequestError::Refused(format!("the server sent an invalid reply: {garbage}")));
                }
            };
            if expect.place(&reply) == ReplyPosition::Foreign {
                let garbage = client::Garbage::Unexpected;
                return Err(RequestError::Refused(format!("the server sent an invalid reply: {garbage}")));
            }
            let len = match reply {
                Reply::Value(header) => header.len as usize + 2,
                Reply::MetaValue { len, .. } => len as usize + 2,
                _ => 0,
            };
            if self.link.input().len() < consumed + len {
                self.link.pump()?;
                continue;
            }
            let value = &self.link.input()[consumed..consumed + len];
            let value = match (len, value) {
                (0, _) => value,
                (_, [value @ .., b'\r', b'\n']) => value,
                _ => {
                    return Err(RequestError::Refused(format!(
                        "the server sent an invalid reply: {}",
                        client::Garbage::ValueEnd
                    )));
                }
            };
            let taken = take(reply, value)?;
            self.link.take(consumed + len);
            return Ok(taken);
        }
    }

    /// Discards the input up to the next line end.
    fn skip_line(&mut self) -> Result<(), RequestError> {
        loop {
            let input = self.link.input();
            if let Some(end) = input.iter().position(|byte| *byte == b'\n') {
                self.link.take(end + 1);
                return Ok(());
            }
            let bytes = input.len();
            self.link.take(bytes);
            self.link.pump()?;
        }
    }

    /// Sends a request that every server supports, and reads its replies.
    pub fn confirm(&mut self) -> Result<(), RequestError> {
        self.statistics([]).map(|[]| ())
    }

    /// Requests the values of `names` in the server's general statistics (`stats`).
    fn statistics<const N: usize>(&mut self, names: [&[u8]; N]) -> Result<[Option<u64>; N], RequestError> {
        client::stats(self.link.out(), b"");
        let mut found = [None; N];
        while !self.answer(Expect::Stats, |reply, _| {
            Ok(match reply {
                Reply::Stat { name: reported, value } => {
                    if let Some(at) = names.iter().position(|name| *name == reported) {
                        found[at] = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                    }
                    false
                }
                _ => true,
            })
        })? {}
        Ok(found)
    }
}

impl Reconnecting for Memcached {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn greet(&mut self) -> Result<(), RequestError> {
        if let Some(Login { user, password }) = self.login.clone() {
            client::authenticate(self.link.out(), user.as_bytes(), password.as_bytes());
            let stored = self.answer(Expect::Store, |reply, _| Ok(matches!(reply, Reply::Stored)))?;
            if !stored {
                return Err(RequestError::Refused(format!("the user {user:?} or the password is wrong")));
            }
        }
        client::meta_noop(self.link.out());
        self.has_meta = self.answer(Expect::UntilNoop, |reply, _| match reply {
            Reply::MetaNoop => Ok(true),
            Reply::Error(ServerError::Command(_)) => Ok(false),
            Reply::Error(error) => Err(refused(error)),
            _ => Err(RequestError::Refused("the server sent an unexpected reply to mn".to_owned())),
        })?;
        let [pid, uptime_s, time_s] = self.statistics([b"pid", b"uptime", b"time"])?;
        // The server's own clock has the same value in both statistics, so the start of a run is exact.
        let run = pid.zip(uptime_s).zip(time_s).map(|((pid, uptime_s), time_s)| {
            let started_s = time_s.saturating_sub(uptime_s);
            format!("process {pid} of {started_s}")
        });
        self.run.greet(run.unwrap_or_default());
        if let Some(time_s) = time_s {
            let skew_s = time_s as i64 - UnixMillis::now().secs() as i64;
            self.skew_s = if skew_s.abs() < SKEW_S_MIN { 0 } else { skew_s };
        }
        Ok(())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Converts a server's error to an error with a remedy, if one is known.
fn refused(error: ServerError<'_>) -> RequestError {
    let line = text(error.line());
    let remedy = if line.contains("unauthenticated") {
        "; pass user and password, as in memcached://USER:PASSWORD@HOST:PORT"
    } else {
        ""
    };
    RequestError::Refused(format!("the server refused the request: {line}{remedy}"))
}

/// Returns a server's reply as text for a message.
fn text(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 120;
    bytes[..bytes.len().min(BYTES_MAX)].escape_ascii().to_string()
}
