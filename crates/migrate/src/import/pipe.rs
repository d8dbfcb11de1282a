//! The connection to the target. Requests are sent without waiting for the replies to earlier ones, up to a bound, and
//! each reply is matched with its request.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use link::{Link, wait_any};
use protocol::resp::client::{ParsedValue, Value, command, value};

use super::held::HeldExpiries;
use super::job::ImportCounts;
use super::missing::{DbKey, KeyUse, MissingKeys};
use super::primary::WAIT_MAX;
use crate::place::{Login, ServerAddress};
use crate::reconnect::{ConnectSettings, RequestError};
use crate::redis::{page, text, trouble};

/// Highest number of requests without a reply.
pub(super) const REQUESTS_MAX: usize = 1024;
/// Bytes of requests without a reply above which no further request is sent.
pub(super) const UNANSWERED_BYTES_MAX: usize = 4 << 20;

/// Reason under which keys are counted that the target has evicted.
const EVICTED: &str = "evicted by the target, because its memory is too small";
/// Interval at which the target is asked for its evictions.
const EVICTIONS_EVERY: Duration = Duration::from_secs(1);

/// The request to which a reply is awaited.
#[derive(Debug)]
pub(super) enum Awaited {
    /// A part of a key of the snapshot. Its command's name is for messages.
    Part(&'static str),
    /// The last part of a key, which gets its value.
    KeyEnd(&'static str, KeyUse),
    /// A function library.
    Function,
    /// A request of the import itself, which must succeed.
    Own,
    /// The statistics of the target, of which the number of evicted keys is used.
    Statistics,
    /// The expiry of this key.
    Expiry(Vec<u8>),
    /// The end of a transaction that is not executed.
    Discard,
    /// A command of the source, with its name and keys, and the stream's offset after it.
    Command { name: String, keys: KeyUse, offset: u64 },
    /// A command within a transaction, with its keys.
    Queued(String, KeyUse),
    /// The end of a transaction, and the stream's offset after it.
    Exec(u64),
}

impl Awaited {
    fn keys(&self) -> Option<&KeyUse> {
        match self {
            Self::KeyEnd(_, keys) | Self::Command { keys, .. } | Self::Queued(_, keys) => Some(keys),
            _ => None,
        }
    }
}

/// The results of the replies so far.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The counts.
    pub counts: ImportCounts,
    /// Offset in the source's stream up to which the target has executed all commands.
    pub applied: u64,
    /// Keys with their expiries in milliseconds since 1970, as the target has reported them.
    pub expiries: Vec<(Vec<u8>, u64)>,
    /// Keys that the target has evicted since its start, and how many of them before the import.
    evicted: u64,
    evicted_before: u64,
    /// The error of a part of the current key.
    failed: Option<String>,
    /// The commands of the current transaction.
    queued: Vec<(String, KeyUse)>,
    /// The keys whose change the last reply refused.
    refused: Vec<DbKey>,
}

impl Ledger {
    /// Counts the reply to a request.
    fn settle(&mut self, awaited: Awaited, reply: &Value<'_>) -> Result<(), RequestError> {
        match awaited {
            Awaited::Own => return if let Value::Error(error) = reply { Err(trouble(error)) } else { Ok(()) },
            Awaited::Statistics => self.count_evicted(reply),
            Awaited::Expiry(key) => {
                if let Value::Int(at_ms) = reply
                    && let Ok(at_ms) = u64::try_from(*at_ms)
                {
                    self.expiries.push((key, at_ms));
                }
            }
            Awaited::Discard => self.queued.clear(),
            Awaited::Part(name) => self.fail(name, reply),
            Awaited::KeyEnd(name, keys) => {
                self.fail(name, reply);
                match self.failed.take() {
                    Some(reason) => self.refuse(reason, &keys),
                    None => self.counts.keys += 1,
                }
            }
            Awaited::Function => match reply {
                Value::Error(error) => self.counts.refuse(format!("function library: {}", text(error))),
                _ => self.counts.functions += 1,
            },
            Awaited::Command { name, keys, offset } => {
                self.executed(&name, &keys, reply);
                self.applied = offset;
            }
            Awaited::Queued(name, keys) => match reply {
                Value::Error(error) => self.refuse(format!("{name}: {}", text(error)), &keys),
                _ => self.queued.push((name, keys)),
            },
            Awaited::Exec(offset) => {
                self.executed_all(reply);
                self.applied = offset;
            }
        }
        Ok(())
    }

    /// Counts the keys that the target has evicted, by the reply to `INFO stats`.
    fn count_evicted(&mut self, reply: &Value<'_>) {
        self.evicted = reply.text().map_or(0, evicted_keys);
        let count = self.evicted.saturating_sub(self.evicted_before);
        if count > 0 {
            self.counts.refused.insert(EVICTED.to_owned(), count);
        }
    }

    /// Resets the counts, because all data is loaded again.
    pub fn begin(&mut self, offset: u64) {
        self.counts = ImportCounts::default();
        (self.applied, self.evicted_before) = (offset, self.evicted);
    }

    /// Returns whether the target has refused a part of the current key.
    pub const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    fn fail(&mut self, name: &str, reply: &Value<'_>) {
        if let Value::Error(error) = reply {
            self.failed.get_or_insert_with(|| format!("{name}: {}", text(error)));
        }
    }

    /// Counts a refused change, whose keys are missing from now on.
    fn refuse(&mut self, reason: String, keys: &KeyUse) {
        self.counts.refuse(reason);
        self.refused.extend(keys.written().cloned());
    }

    fn executed(&mut self, name: &str, keys: &KeyUse, reply: &Value<'_>) {
        match reply {
            Value::Error(error) => self.refuse(format!("{name}: {}", text(error)), keys),
            _ => self.counts.commands += 1,
        }
    }

    /// Counts the commands of a transaction by the reply to `EXEC`.
    fn executed_all(&mut self, reply: &Value<'_>) {
        let queued = std::mem::take(&mut self.queued);
        if let Value::Array(replies) = reply {
            queued.iter().zip(*replies).for_each(|((name, keys), reply)| self.executed(name, keys, &reply));
            return;
        }
        let error = Value::Error(b"the transaction was not executed, because the target refused one of its commands");
        queued.iter().for_each(|(name, keys)| self.executed(name, keys, &error));
    }
}

/// The target, with its connection.
pub(super) struct TargetPipe {
    link: Link,
    name: String,
    login: Option<Login>,
    timeout: Duration,
    /// The requests without a reply, and the bytes of each.
    unanswered: VecDeque<(Awaited, usize)>,
    unanswered_bytes: usize,
    /// The last time at which a reply arrived, or at which a request was sent while no other was unanswered.
    heard: Instant,
    /// The results of the replies.
    pub ledger: Ledger,
    /// The expiries that are set when the target has caught up.
    pub held: HeldExpiries,
    /// The keys that the target lacks, because it refused a change of them.
    pub missing: MissingKeys,
    /// The last time at which the target was asked for its evictions.
    evictions_asked: Instant,
    /// The identifier of the server's run, if there was a connection; empty if the server does not report it.
    run_id: Option<String>,
    /// The commands that the target has, in upper case; empty if it does not list them.
    commands: BTreeSet<String>,
    /// The databases that were selected so far, and for each that the target does not have its error.
    databases: BTreeMap<u32, Option<String>>,
    selected: Option<u32>,
}

impl TargetPipe {
    /// Creates the client of `server`, not yet connected.
    pub fn new(server: &ServerAddress, settings: &ConnectSettings) -> Self {
        Self {
            link: settings.link(server),
            name: server.to_string(),
            login: server.login.clone(),
            timeout: settings.timeout,
            unanswered: VecDeque::new(),
            unanswered_bytes: 0,
            heard: Instant::now(),
            ledger: Ledger::default(),
            held: HeldExpiries::default(),
            missing: MissingKeys::default(),
            evictions_asked: Instant::now(),
            run_id: None,
            commands: BTreeSet::new(),
            databases: BTreeMap::new(),
            selected: None,
        }
    }

    /// Returns the connection, to wait for it.
    pub const fn link(&self) -> &Link {
        &self.link
    }

    /// Returns the target's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects. Returns whether the server is the same run as before, or is connected for the first time.
    pub fn connect(&mut self) -> Result<bool, RequestError> {
        self.close();
        self.link.connect()?;
        if let Some(Login { user, password }) = self.login.clone() {
            let full = [b"AUTH".as_slice(), user.as_bytes(), password.as_bytes()];
            let short = [b"AUTH".as_slice(), password.as_bytes()];
            self.ask(if user.is_empty() { &short } else { &full }, accepted)?;
        }
        self.commands = self.ask(&[b"COMMAND", b"LIST"], |reply| {
            Ok(reply.items().filter_map(|name| Some(text(name.text()?).to_ascii_uppercase())).collect())
        })?;
        let run_id = self.ask(&[b"INFO", b"server"], |reply| match reply {
            Value::Error(error) if error.starts_with(b"NOAUTH") => Err(trouble(error)),
            reply => Ok(reply.text().map(run_id).unwrap_or_default()),
        })?;
        let is_same = self.run_id.as_ref().is_none_or(|before| *before == run_id);
        self.run_id = Some(run_id);
        count_evictions(self)?;
        Ok(is_same)
    }

    /// Closes the connection. Returns whether requests were without a reply.
    pub fn close(&mut self) -> bool {
        self.link.close();
        let was_asked = !self.unanswered.is_empty();
        self.unanswered.clear();
        (self.unanswered_bytes, self.selected) = (0, None);
        (self.ledger.failed, self.ledger.queued) = (None, Vec::new());
        self.ledger.expiries.clear();
        was_asked
    }

    /// Returns whether the connection is open.
    pub const fn is_connected(&self) -> bool {
        self.link.is_up()
    }

    /// Discards the open transaction.
    pub fn discard(&mut self) {
        self.put_words(Awaited::Discard, &[b"DISCARD"]);
    }

    /// Asks the target for its evictions once in a while.
    pub fn watch_evictions(&mut self) {
        if self.evictions_asked.elapsed() >= EVICTIONS_EVERY {
            self.evictions_asked = Instant::now();
            self.put_words(Awaited::Statistics, &[b"INFO", b"stats"]);
        }
    }

    /// Returns the number of keys of the selected database, while no request is unanswered.
    pub fn count_keys(&mut self) -> Result<u64, RequestError> {
        self.ask(&[b"DBSIZE"], |reply| match reply {
            Value::Int(keys) => Ok(keys.max(0) as u64),
            Value::Error(error) => Err(trouble(error)),
            _ => Err(RequestError::Refused("the target sent an unexpected reply to DBSIZE".to_owned())),
        })
    }

    /// Deletes all keys of the selected database, while no request is unanswered.
    pub fn flush_database(&mut self) -> Result<(), RequestError> {
        self.ask(&[b"FLUSHDB"], accepted)
    }

    /// Returns whether the target has a command, by its name in upper case.
    pub fn has(&self, command: &str) -> bool {
        self.commands.is_empty() || self.commands.contains(command)
    }

    /// Returns whether another request may be sent.
    pub fn has_room(&self) -> bool {
        self.unanswered.len() < REQUESTS_MAX && self.unanswered_bytes < UNANSWERED_BYTES_MAX
    }

    /// Returns whether every request has a reply.
    pub fn is_idle(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Returns for how long the target has not replied to any of the unanswered requests.
    pub fn silence(&self) -> Duration {
        if self.is_idle() { Duration::ZERO } else { self.heard.elapsed() }
    }

    /// Appends a request that `write` writes.
    pub fn put(&mut self, awaited: Awaited, write: impl FnOnce(&mut Vec<u8>)) {
        let out = self.link.out();
        let before = out.len();
        write(out);
        let bytes = out.len() - before;
        if self.unanswered.is_empty() {
            self.heard = Instant::now();
        }
        self.unanswered.push_back((awaited, bytes));
        self.unanswered_bytes += bytes;
    }

    /// Appends a request of these words.
    pub fn put_words(&mut self, awaited: Awaited, words: &[&[u8]]) {
        self.put(awaited, |out| command(out, words.iter().copied()));
    }

    /// Returns the databases that were selected so far.
    pub fn existing(&self) -> Vec<u32> {
        self.databases.iter().filter(|(_, refusal)| refusal.is_none()).map(|(db, _)| *db).collect()
    }

    /// Selects a database. Returns the target's error if it does not have the database.
    pub fn select(&mut self, db: u32, is_stopped: &dyn Fn() -> bool) -> Result<Option<String>, RequestError> {
        if self.selected == Some(db) {
            return Ok(None);
        }
        let number = db.to_string();
        let words = [b"SELECT".as_slice(), number.as_bytes()];
        match self.databases.get(&db) {
            Some(None) => self.put_words(Awaited::Own, &words),
            Some(refusal) => return Ok(refusal.clone()),
            None => {
                self.drain(is_stopped)?;
                let refusal = self.ask(&words, |reply| match reply {
                    Value::Error(error) => Ok(Some(text(error))),
                    _ => Ok(None),
                })?;
                self.databases.insert(db, refusal.clone());
                if refusal.is_some() {
                    return Ok(refusal);
                }
            }
        }
        self.selected = Some(db);
        Ok(None)
    }

    /// Sends a request while no other is unanswered, and waits for its reply.
    pub fn ask<T>(
        &mut self,
        words: &[&[u8]],
        take: impl Fn(Value<'_>) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        command(self.link.out(), words.iter().copied());
        loop {
            let (taken, consumed) = match value(self.link.input()) {
                ParsedValue::Value { value, consumed } => (take(value), consumed),
                ParsedValue::Incomplete => {
                    self.link.pump()?;
                    continue;
                }
                ParsedValue::Garbage(garbage) => return Err(garbled(garbage.text())),
            };
            self.link.take(consumed);
            return taken;
        }
    }

    /// Sends and receives what is possible now, and counts the replies. Returns whether anything arrived.
    pub fn exchange(&mut self) -> Result<bool, RequestError> {
        self.link.flush()?;
        let arrived = self.link.receive()?;
        if arrived {
            self.heard = Instant::now();
        }
        loop {
            let consumed = match value(self.link.input()) {
                ParsedValue::Incomplete => return Ok(arrived),
                ParsedValue::Garbage(garbage) => return Err(garbled(garbage.text())),
                ParsedValue::Value { value: Value::Push(_), consumed } => consumed,
                ParsedValue::Value { value, consumed } => {
                    let unasked = || RequestError::Refused("the target sent a reply without a request".to_owned());
                    let (awaited, bytes) = self.unanswered.pop_front().ok_or_else(unasked)?;
                    self.unanswered_bytes -= bytes;
                    self.ledger.settle(awaited, &value)?;
                    if !self.ledger.refused.is_empty() {
                        let sent = self.unanswered.iter().filter_map(|(awaited, _)| awaited.keys());
                        self.missing.refused(self.ledger.refused.drain(..), sent)?;
                    }
                    consumed
                }
            };
            self.link.take(consumed);
        }
    }

    /// Waits until another request may be sent.
    pub fn make_room(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<(), RequestError> {
        self.exchange_until(Self::has_room, is_stopped)
    }

    /// Waits until every request has a reply.
    pub fn drain(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<(), RequestError> {
        self.exchange_until(Self::is_idle, is_stopped)
    }

    fn exchange_until(&mut self, holds: fn(&Self) -> bool, is_stopped: &dyn Fn() -> bool) -> Result<(), RequestError> {
        while !holds(self) {
            if self.exchange()? {
                continue;
            }
            if is_stopped() {
                return Err(RequestError::Stopped);
            }
            if self.silence() > self.timeout {
                return Err(RequestError::Lost("the target does not reply".to_owned()));
            }
            wait_any(&[&self.link], WAIT_MAX)?;
        }
        Ok(())
    }
}

/// Returns the selected database.
pub(super) fn database_of(pipe: &TargetPipe) -> u32 {
    pipe.selected.unwrap_or(0)
}

/// Deletes the keys whose changes the target refused. No transaction may be open.
pub(super) fn delete_missing(pipe: &mut TargetPipe, is_stopped: &dyn Fn() -> bool) -> Result<(), RequestError> {
    for (db, key) in pipe.missing.take_deletions() {
        pipe.make_room(is_stopped)?;
        if pipe.select(db, is_stopped)?.is_none() {
            pipe.put_words(Awaited::Own, &[b"DEL", &key]);
        }
    }
    Ok(())
}

/// Returns the identifier in the reply of `INFO`.
fn run_id(info: &[u8]) -> String {
    let info = String::from_utf8_lossy(info);
    info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().trim().to_owned()
}

/// Counts the keys that the target has evicted, while no request is unanswered.
pub(super) fn count_evictions(pipe: &mut TargetPipe) -> Result<(), RequestError> {
    let evicted = pipe.ask(&[b"INFO", b"stats"], |reply| Ok(reply.text().map(<[u8]>::to_vec)))?;
    pipe.ledger.count_evicted(&evicted.as_deref().map_or(Value::Null, Value::Bulk));
    Ok(())
}

/// Executes one step of a walk over the keys of the selected database, while no request is unanswered. Returns the next
/// cursor and the keys.
pub(super) fn scan(pipe: &mut TargetPipe, cursor: u64, count: usize) -> Result<(u64, Vec<Vec<u8>>), RequestError> {
    let (cursor, count) = (cursor.to_string(), count.to_string());
    pipe.ask(&[b"SCAN", cursor.as_bytes(), b"COUNT", count.as_bytes()], |reply| match reply {
        Value::Error(error) => Err(trouble(error)),
        reply => page(&reply).ok_or_else(|| garbled("an unexpected reply to SCAN")),
    })
}

/// Returns the number of evicted keys in the reply of `INFO`.
fn evicted_keys(info: &[u8]) -> u64 {
    let info = String::from_utf8_lossy(info);
    info.lines().find_map(|line| line.strip_prefix("evicted_keys:")?.trim().parse().ok()).unwrap_or(0)
}

fn accepted(reply: Value<'_>) -> Result<(), RequestError> {
    if let Value::Error(error) = reply { Err(trouble(error)) } else { Ok(()) }
}

fn garbled(why: &str) -> RequestError {
    RequestError::Refused(format!("the target does not speak the Redis protocol ({why}); check the address of --to"))
}
