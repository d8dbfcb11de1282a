//! A server that speaks the memcached protocol, as source and as target: memcached itself, Gannet, and others.
//!
//! Reads and writes are meta commands, which carry any key, the flags and the time to live. A server without them is
//! spoken with in the older text commands: keys are then text, and what an item's time to live is only the dump says.

mod dump;
mod read;
mod store;

use base::clock::UnixMillis;
use link::Link;
use protocol::memcache::client::{self, Expect, Parsed, Place, Reply, ServerError};

use super::place::{Login, ServerAddress};
use super::reconnect::{ConnectSettings, Reconnecting, RequestError};

pub(super) use dump::ListedKey;
pub(super) use store::unfit;

/// Clocks that differ by less are taken for the same: the server's ticks once a second.
const SKEW_S_MIN: i64 = 3;

/// One server.
#[derive(Debug)]
pub(super) struct Memcached {
    link: Link,
    login: Option<Login>,
    name: String,
    /// It knows meta commands.
    pub has_meta: bool,
    /// Seconds by which its clock is ahead of this host's, 0 if they are about the same.
    pub skew_s: i64,
    is_known: bool,
}

impl Memcached {
    /// `server`, not yet connected.
    pub fn new(server: &ServerAddress, settings: &ConnectSettings) -> Self {
        Self {
            link: settings.link(server),
            login: server.login.clone(),
            name: server.to_string(),
            has_meta: true,
            skew_s: 0,
            is_known: false,
        }
    }

    /// The next reply of an answer and the value behind it.
    fn answer<T>(
        &mut self,
        expect: Expect,
        mut take: impl FnMut(Reply<'_>, &[u8]) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        loop {
            let (reply, consumed) = match client::reply(self.link.input()) {
                Parsed::Reply { reply, consumed } => (reply, consumed),
                Parsed::Incomplete => {
                    self.link.pump()?;
                    continue;
                }
                Parsed::Garbage(garbage) => return Err(RequestError::Refused(format!("it answers with {garbage}"))),
            };
            if expect.place(&reply) == Place::Foreign {
                let garbage = client::Garbage::Unexpected;
                return Err(RequestError::Refused(format!("it answers with {garbage}")));
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
                _ => return Err(RequestError::Refused(format!("it answers with {}", client::Garbage::ValueEnd))),
            };
            let taken = take(reply, value)?;
            self.link.take(consumed + len);
            return Ok(taken);
        }
    }

    /// Asks for the statistic `name` of the general ones.
    fn statistic(&mut self, name: &[u8]) -> Result<Option<u64>, RequestError> {
        client::stats(self.link.out(), b"");
        let mut found = None;
        while !self.answer(Expect::Stats, |reply, _| {
            Ok(match reply {
                Reply::Stat { name: reported, value } => {
                    if reported == name {
                        found = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
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
                return Err(RequestError::Refused(format!("user {user:?} or the password is wrong")));
            }
        }
        if self.is_known {
            return Ok(());
        }
        client::meta_noop(self.link.out());
        self.has_meta = self.answer(Expect::UntilNoop, |reply, _| match reply {
            Reply::MetaNoop => Ok(true),
            Reply::Error(ServerError::Command(_)) => Ok(false),
            Reply::Error(error) => Err(refused(error)),
            _ => Err(RequestError::Refused("it answers mn with something else".to_owned())),
        })?;
        if let Some(time_s) = self.statistic(b"time")? {
            let skew_s = time_s as i64 - UnixMillis::now().secs() as i64;
            self.skew_s = if skew_s.abs() < SKEW_S_MIN { 0 } else { skew_s };
        }
        self.is_known = true;
        Ok(())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// The server's own words, and what helps where that is known.
fn refused(error: ServerError<'_>) -> RequestError {
    let line = text(error.line());
    let remedy = if line.contains("unauthenticated") {
        "; write user and password, as in memcached://USER:PASSWORD@HOST:PORT"
    } else {
        ""
    };
    RequestError::Refused(format!("it refuses: {line}{remedy}"))
}

/// Returns a server's words as text for a message.
fn text(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 120;
    bytes[..bytes.len().min(BYTES_MAX)].escape_ascii().to_string()
}
