//! A server that speaks RESP, as source or target: Redis, Valkey or Gannet.
//!
//! Strings and hashes are read and written with their own commands, which every such server supports. Other types are
//! copied in serialised form with `DUMP` and `RESTORE`, from Redis to a Redis of the same or a newer version.

mod graph_load;
mod read;
mod store;
mod stream;

use std::time::{SystemTime, UNIX_EPOCH};

use link::Link;
use protocol::resp::client::{CommandLine, ParsedValue, Value, command, value};

use super::place::{Login, ServerAddress};
use super::reconnect::{ConnectSettings, Reconnecting, RequestError, ServerRun};

pub use graph_load::{
    EdgePart, EdgeText, GraphLoadCounts, GraphLoadJob, GraphLoadProgress, GraphLoadServer, GraphLoadTarget,
    GraphLoadView, LoadUser, PartReply, REFUSALS_SHOWN_MAX, load_graph,
};
pub(super) use read::{Others, Wanted};
pub(crate) use stream::LongStream;

/// Largest difference of clocks that is ignored, in milliseconds; network delays are within it.
const SKEW_MS_MIN: i64 = 1_000;

/// A RESP server with its connection.
#[derive(Debug)]
pub(super) struct Redis {
    link: Link,
    login: Option<Login>,
    name: String,
    db: u32,
    /// The run of the server, because cursors are valid in one run only.
    pub run: ServerRun,
    /// Number of keys in the database when the connection was opened; 0 if the server does not report it.
    pub keys: u64,
    /// True if `SET` supports absolute expiries.
    has_set_at: bool,
    /// True if the server reports absolute expiries.
    has_expire_time: bool,
    /// True if the server has expiries of hash fields.
    pub has_field_times: bool,
    /// True if the server supports `RENAMENX`.
    has_rename: bool,
    /// Milliseconds by which the server's clock is ahead of this host's; 0 if the difference is negligible.
    pub skew_ms: i64,
}

impl Redis {
    /// Creates the client of `server`, not yet connected.
    pub fn new(server: &ServerAddress, settings: &ConnectSettings) -> Self {
        Self {
            link: settings.link(server),
            login: server.login.clone(),
            name: server.to_string(),
            db: server.db,
            run: ServerRun::default(),
            keys: 0,
            has_set_at: false,
            has_expire_time: false,
            has_field_times: false,
            has_rename: true,
            skew_ms: 0,
        }
    }

    /// Writes a request; replies must be taken in the same order.
    fn put(&mut self, args: &[&[u8]]) {
        command(self.link.out(), args.iter().copied());
    }

    /// Reads the next reply.
    fn answer<T>(&mut self, mut take: impl FnMut(Value<'_>) -> Result<T, RequestError>) -> Result<T, RequestError> {
        loop {
            let (answer, consumed) = match value(self.link.input()) {
                ParsedValue::Value { value: Value::Push(_), consumed } => {
                    self.link.take(consumed);
                    continue;
                }
                ParsedValue::Value { value, consumed } => (value, consumed),
                ParsedValue::Incomplete => {
                    self.link.pump()?;
                    continue;
                }
                ParsedValue::Garbage(garbage) => {
                    return Err(RequestError::Refused(format!("the server sent an invalid reply: {garbage}")));
                }
            };
            let taken = take(answer)?;
            self.link.take(consumed);
            return Ok(taken);
        }
    }

    /// Sends a request and reads its reply. An error reply is converted by [`trouble`].
    fn request<T>(&mut self, args: &[&[u8]], mut take: impl FnMut(Value<'_>) -> Option<T>) -> Result<T, RequestError> {
        self.put(args);
        let verb = text(args[0]);
        self.answer(|answer| match answer {
            Value::Error(error) => Err(trouble(error)),
            answer => take(answer).ok_or_else(|| odd(&verb)),
        })
    }

    /// Executes one step of the walk over all keys. Returns its keys and the next cursor; 0 is the end.
    pub fn scan(&mut self, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), RequestError> {
        CommandLine::new(self.link.out(), 4)
            .arg(b"SCAN")
            .arg(cursor.to_string().as_bytes())
            .arg(b"COUNT")
            .number(count as i64);
        self.answer(|answer| {
            if let Value::Error(error) = answer {
                return Err(trouble(error));
            }
            page(&answer).ok_or_else(|| odd("SCAN"))
        })
    }

    /// Reads the run and the properties of the server, which another version may have after a restart.
    fn learn(&mut self) -> Result<(), RequestError> {
        let info = |redis: &mut Self| {
            redis.put(&[b"INFO", b"server"]);
            redis.answer(|answer| match answer {
                Value::Error(error) if [&b"NOAUTH"[..], b"LOADING"].iter().any(|code| error.starts_with(code)) => {
                    Err(trouble(error))
                }
                answer => Ok(answer.text().map(|text| String::from_utf8_lossy(text).into_owned())),
            })
        };
        let info_text = info(self)?.unwrap_or_default();
        let field = |name: &str| info_text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        self.run.greet(field("run_id").unwrap_or_default().trim().to_owned());
        let version = field("redis_version").unwrap_or_default();
        let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        (self.has_set_at, self.has_expire_time) = (version >= (6, 2), version >= (7, 0));
        self.put(&[b"COMMAND", b"INFO", b"HPEXPIRETIME", b"HPEXPIREAT"]);
        // A server lists a command that it does not have as null, or refuses the request.
        self.has_field_times = self.answer(|answer| {
            let known = answer.items().filter(|command| matches!(command, Value::Array(_))).count();
            Ok(matches!(answer, Value::Array(_)) && known == 2)
        })?;
        self.put(&[b"DBSIZE"]);
        self.keys = self.answer(|answer| Ok(if let Value::Int(keys) = answer { keys.max(0) as u64 } else { 0 }))?;
        self.put(&[b"TIME"]);
        let time_ms = self.answer(|answer| Ok(time_ms(&answer)))?;
        if let Some(time_ms) = time_ms {
            let own = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
            let skew_ms = time_ms - own;
            self.skew_ms = if skew_ms.abs() < SKEW_MS_MIN { 0 } else { skew_ms };
        }
        Ok(())
    }
}

/// Returns the length of a server's stream of commands in bytes, if the server reports it.
pub(super) fn stream_offset(server: &mut Redis) -> Result<Option<u64>, RequestError> {
    server.request(&[b"INFO", b"replication"], |answer| {
        let info = String::from_utf8_lossy(answer.text()?).into_owned();
        Some(info.lines().find_map(|line| line.strip_prefix("master_repl_offset:")?.trim().parse().ok()))
    })
}

/// Sends a request without effect, and reads its reply.
pub(super) fn ping(server: &mut Redis) -> Result<(), RequestError> {
    server.request(&[b"PING"], |_| Some(()))
}

/// Returns for each key whether the server has it.
pub(super) fn have(server: &mut Redis, keys: &[Vec<u8>]) -> Result<Vec<bool>, RequestError> {
    for key in keys {
        server.put(&[b"EXISTS", key]);
    }
    let mut found = Vec::with_capacity(keys.len());
    for _ in keys {
        found.push(server.answer(|answer| match answer {
            Value::Int(count) => Ok(count > 0),
            Value::Error(error) => Err(trouble(error)),
            _ => Err(odd("EXISTS")),
        })?);
    }
    Ok(found)
}

impl Reconnecting for Redis {
    fn link(&mut self) -> &mut Link {
        &mut self.link
    }

    fn greet(&mut self) -> Result<(), RequestError> {
        if let Some(Login { user, password }) = self.login.clone() {
            let (user, password) = (user.as_bytes(), password.as_bytes());
            let full = [b"AUTH".as_slice(), user, password];
            let short = [b"AUTH".as_slice(), password];
            self.request(if user.is_empty() { &short } else { &full }, |_| Some(()))?;
        }
        if self.db != 0 {
            let db = self.db.to_string();
            self.request(&[b"SELECT", db.as_bytes()], |_| Some(()))?;
        }
        self.learn()
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Parses a reply of `SCAN` and similar commands: a cursor and elements.
pub(super) fn page(answer: &Value<'_>) -> Option<(u64, Vec<Vec<u8>>)> {
    let mut parts = answer.items();
    let cursor = std::str::from_utf8(parts.next()?.text()?).ok()?.parse().ok()?;
    let keys = parts.next()?.items().map(|key| key.text().map(<[u8]>::to_vec)).collect::<Option<_>>()?;
    Some((cursor, keys))
}

/// Converts a reply of `TIME`, in seconds and microseconds, to milliseconds.
fn time_ms(answer: &Value<'_>) -> Option<i64> {
    let mut parts = answer.items().map(|part| std::str::from_utf8(part.text()?).ok()?.parse::<i64>().ok());
    Some(parts.next()?? * 1000 + parts.next()?? / 1000)
}

/// Returns the error for an unexpected kind of reply.
fn odd(verb: &str) -> RequestError {
    RequestError::Refused(format!("the server sent an unexpected reply to {verb}"))
}

/// Converts an error reply to an error, with a remedy if one is known.
pub(super) fn trouble(error: &[u8]) -> RequestError {
    let words = text(error);
    if error.starts_with(b"LOADING") || error.starts_with(b"BUSY ") || error.starts_with(b"MASTERDOWN") {
        return RequestError::Lost(format!("the server is not ready: {words}"));
    }
    let remedy = match error {
        _ if error.starts_with(b"NOAUTH") => "; pass the password, as in redis://:PASSWORD@HOST:PORT",
        _ if error.starts_with(b"MOVED") => "; the server is one node of a cluster: copy from each node separately",
        _ => "",
    };
    RequestError::Refused(format!("the server refused the request: {words}{remedy}"))
}

/// Returns a server's reply as text for a message.
pub(super) fn text(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 120;
    bytes[..bytes.len().min(BYTES_MAX)].escape_ascii().to_string()
}
