//! Applies the source's commands in their order.
//!
//! ```text
//!   SELECT 3   MULTI   SET a 1   SELECT 4   SET b 2   EXEC          the stream
//!              .       SELECT 3  MULTI  SET a 1  EXEC  SELECT 4  MULTI  SET b 2  EXEC      sent to the target
//! ```
//! A transaction begins at the target with its first command, so that it is always in one database; a change of the
//! database, and a bound on commands, ends it and begins another.

use protocol::resp::client::{ParsedValue, Value, command, value};

use super::job::ImportJob;
use super::missing::KeyUse;
use super::pipe::{Awaited, TargetPipe, database_of, delete_missing};
use super::primary::StreamPlace;
use crate::reconnect::RequestError;
use crate::redis::text;

/// Highest number of commands in one transaction at the target.
const TRANSACTION_COMMANDS_MAX: usize = 1_000;

/// The state of the stream between two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StreamState {
    offset: u64,
    /// The selected database.
    db: u32,
    /// True between `MULTI` and `EXEC`.
    is_multi: bool,
}

/// The outcome of reading one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TailStep {
    /// A command was applied or ignored.
    Taken,
    /// The source wants to know how much was applied.
    Acknowledge,
    /// No command is complete.
    Incomplete,
}

/// The reader of the stream.
#[derive(Debug)]
pub(super) struct StreamTail {
    replid: String,
    now: StreamState,
    /// The state before the present command.
    before: StreamState,
    /// The state to return to if the source is lost: the target has no open transaction in it.
    safe: StreamState,
    /// Commands in the transaction that is open at the target, if there is one.
    open: Option<usize>,
    /// Number of commands that were sent to the target.
    pub sent: u64,
}

impl StreamTail {
    /// Creates a reader at the beginning of a stream after a snapshot.
    pub fn new(place: StreamPlace) -> Self {
        let state = StreamState { offset: place.offset, db: 0, is_multi: false };
        Self { replid: place.replid, now: state, before: state, safe: state, open: None, sent: 0 }
    }

    /// Returns the place behind which the stream continues after a lost connection.
    pub fn place(&self) -> StreamPlace {
        StreamPlace { replid: self.replid.clone(), offset: self.safe.offset }
    }

    /// Returns the offset of the commands that were read.
    pub const fn offset(&self) -> u64 {
        self.now.offset
    }

    /// Returns to the last place without an open transaction, because the source or the target is lost.
    pub fn rewind(&mut self) {
        self.now = self.safe;
        self.open = None;
    }

    /// Returns whether a transaction is open at the target.
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Sets the identifier under which the stream continues.
    pub fn rename(&mut self, replid: String) {
        self.replid = replid;
    }

    /// Returns the offset up to which the target has executed everything.
    pub fn applied(&self, pipe: &TargetPipe) -> u64 {
        if pipe.is_idle() { self.safe.offset } else { pipe.ledger.applied }
    }

    /// Reads the next command of `input`, and sends what the target has to execute. Returns the bytes of the command.
    pub fn step(
        &mut self,
        input: &[u8],
        job: &ImportJob,
        pipe: &mut TargetPipe,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(TailStep, usize), StreamError> {
        // A line end alone is a sign of life.
        if input.first() == Some(&b'\n') {
            self.now.offset += 1;
            return Ok((TailStep::Taken, 1));
        }
        let (words, consumed) = match value(input) {
            ParsedValue::Incomplete => return Ok((TailStep::Incomplete, 0)),
            ParsedValue::Garbage(garbage) => return Err(StreamError::Garbled(garbage.text().to_owned())),
            ParsedValue::Value { value: Value::Array(words), consumed } => (words, consumed),
            ParsedValue::Value { .. } => return Err(StreamError::Garbled("a reply instead of a command".to_owned())),
        };
        let words: Vec<&[u8]> = words.filter_map(|word| word.text()).collect();
        self.before = self.now;
        self.now.offset += consumed as u64;
        let mut apply = Apply { tail: self, job, pipe, is_stopped };
        let step = apply.command(&words, &input[..consumed])?;
        if self.open.is_none() {
            self.safe = self.now;
        }
        Ok((step, consumed))
    }
}

/// The reason why the stream cannot be followed.
#[derive(Debug)]
pub(super) enum StreamError {
    /// The source sent something else than commands.
    Garbled(String),
    /// The target was lost, or refuses.
    Target(RequestError),
}

impl From<RequestError> for StreamError {
    fn from(error: RequestError) -> Self {
        Self::Target(error)
    }
}

/// The application of one command.
struct Apply<'a> {
    tail: &'a mut StreamTail,
    job: &'a ImportJob,
    pipe: &'a mut TargetPipe,
    is_stopped: &'a dyn Fn() -> bool,
}

impl Apply<'_> {
    fn command(&mut self, words: &[&[u8]], wire: &[u8]) -> Result<TailStep, RequestError> {
        if self.tail.open.is_none() {
            delete_missing(self.pipe, self.is_stopped)?;
        }
        let Some(name) = words.first().map(|name| text(name).to_ascii_uppercase()) else { return Ok(TailStep::Taken) };
        match name.as_str() {
            "PING" => {}
            "REPLCONF" => return Ok(TailStep::Acknowledge),
            "SELECT" => {
                self.cut();
                self.tail.now.db = words
                    .get(1)
                    .and_then(|db| std::str::from_utf8(db).ok()?.parse().ok())
                    .ok_or_else(|| RequestError::Refused("the source selects an invalid database".to_owned()))?;
            }
            "MULTI" => self.tail.now.is_multi = true,
            "EXEC" => {
                self.tail.now.is_multi = false;
                self.close(self.tail.now.offset);
            }
            "FLUSHALL" => self.flush_all()?,
            // These do not belong to a database.
            "FUNCTION" | "SCRIPT" | "PUBLISH" | "SPUBLISH" => self.send(name, words, wire)?,
            "SWAPDB" | "MOVE" | "COPY" if self.job.db.is_some() => {
                self.pipe.held.moved();
                self.between(name, words)?;
            }
            _ => {
                if name == "SWAPDB" {
                    self.meet_swapped(words)?;
                }
                if MOVING.contains(&name.as_str()) {
                    self.pipe.held.moved();
                }
                if self.select(&name, self.tail.now.db)? {
                    match with_held_expiry(&name, words, self.pipe) {
                        Some(held) => self.send(name, words, &held)?,
                        None => self.send(name, words, wire)?,
                    }
                }
            }
        }
        Ok(TailStep::Taken)
    }

    /// Selects a database at the target. Returns false, and counts the command, if it is not imported.
    fn select(&mut self, name: &str, db: u32) -> Result<bool, RequestError> {
        let Some(to) = self.job.db_at_target(db) else {
            self.pipe.ledger.counts.not_chosen += 1;
            return Ok(false);
        };
        let refusal = self.pipe.select(to, self.is_stopped)?;
        if let Some(refusal) = &refusal {
            self.pipe.ledger.counts.refuse(format!("{name} in database {db}: {refusal}"));
        }
        Ok(refusal.is_none())
    }

    /// Sends a command as it arrived, within the transaction if there is one. `words` are those of the command, whose
    /// keys are in the selected database.
    fn send(&mut self, name: String, words: &[&[u8]], wire: &[u8]) -> Result<(), RequestError> {
        let keys = KeyUse::of(&name, words, database_of(self.pipe));
        match name.as_str() {
            "FLUSHDB" => self.pipe.missing.flushed(database_of(self.pipe)),
            "SWAPDB" => {
                let number = |at: usize| std::str::from_utf8(words.get(at)?).ok()?.parse().ok();
                if let (Some(one), Some(other)) = (number(1), number(2)) {
                    self.pipe.missing.swapped(one, other);
                }
            }
            _ => {}
        }
        if self.pipe.missing.withholds(&keys) {
            let why = "the target lacks the key, because it refused an earlier change";
            self.pipe.ledger.counts.refuse(format!("{name}: {why}"));
            return Ok(());
        }
        if !self.pipe.has(&name) {
            self.pipe.ledger.counts.refuse(format!("{name}: the target does not have this command"));
            return self.pipe.missing.refused(keys.written().cloned(), std::iter::empty());
        }
        self.tail.sent += 1;
        if !self.tail.now.is_multi {
            let offset = self.tail.now.offset;
            self.pipe.put(Awaited::Command { name, keys, offset }, |out| out.extend_from_slice(wire));
            return Ok(());
        }
        if self.tail.open.is_some_and(|commands| commands >= TRANSACTION_COMMANDS_MAX) {
            self.cut();
        }
        if self.tail.open.is_none() {
            self.pipe.put_words(Awaited::Own, &[b"MULTI"]);
        }
        *self.tail.open.get_or_insert(0) += 1;
        self.pipe.put(Awaited::Queued(name, keys), |out| out.extend_from_slice(wire));
        Ok(())
    }

    /// Ends the transaction at the target, whose commands end at `offset` in the stream.
    fn close(&mut self, offset: u64) {
        if self.tail.open.take().is_some() {
            self.pipe.put_words(Awaited::Exec(offset), &[b"EXEC"]);
        }
    }

    /// Ends the transaction at the target before the present command. The target executes its commands, so a lost
    /// source continues at the present command, even if that one begins another transaction.
    fn cut(&mut self) {
        if self.tail.open.is_some() {
            self.close(self.tail.before.offset);
            self.tail.safe = self.tail.before;
        }
    }

    /// Empties the imported databases, and no other of the target's.
    fn flush_all(&mut self) -> Result<(), RequestError> {
        self.cut();
        let offset = self.tail.now.offset;
        for db in flushed(self.job, self.pipe) {
            if self.pipe.select(db, self.is_stopped)?.is_none() {
                self.tail.sent += 1;
                self.pipe.missing.flushed(db);
                let (name, keys) = ("FLUSHALL".to_owned(), KeyUse::default());
                self.pipe.put_words(Awaited::Command { name, keys, offset }, &[b"FLUSHDB"]);
            }
        }
        Ok(())
    }

    /// Selects both databases of a `SWAPDB`, so that they are among those that the import has selected: a later
    /// `FLUSHALL` empties them.
    fn meet_swapped(&mut self, words: &[&[u8]]) -> Result<(), RequestError> {
        self.cut();
        for word in words.iter().skip(1) {
            if let Some(database) = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok()) {
                self.select("SWAPDB", database)?;
            }
        }
        Ok(())
    }

    /// Applies a command that concerns another database than the imported one too.
    fn between(&mut self, name: String, words: &[&[u8]]) -> Result<(), RequestError> {
        let Some((from, _)) = self.job.db else { return Ok(()) };
        let number = |word: Option<&&[u8]>| word.and_then(|word| std::str::from_utf8(word).ok()?.parse::<u32>().ok());
        let here = self.tail.now.db;
        let (other, is_swap) = match name.as_str() {
            "MOVE" => (number(words.get(2)), false),
            "SWAPDB" => (number(words.get(2)), true),
            _ => (db_option(words).map_or(Some(here), |at| number(words.get(at + 1))), false),
        };
        let own = if is_swap { number(words.get(1)) } else { Some(here) };
        match (own == Some(from), other == Some(from)) {
            (false, false) => self.pipe.ledger.counts.not_chosen += 1,
            (true, true) => {
                if self.select(&name, here)? {
                    let wire = without_db(words);
                    self.send(name, words, &wire)?;
                }
            }
            (true, false) if name == "MOVE" => {
                if let (Some(key), true) = (words.get(1), self.select(&name, here)?) {
                    let mut wire = Vec::new();
                    command(&mut wire, [b"DEL".as_slice(), key]);
                    self.send("DEL".to_owned(), &[b"DEL", key], &wire)?;
                }
            }
            (true, false) if name == "COPY" => self.pipe.ledger.counts.not_chosen += 1,
            _ => {
                let reason = format!("{name}: it brings keys of a database that is not imported");
                self.pipe.ledger.counts.refuse(reason);
            }
        }
        Ok(())
    }
}

/// Commands after which a key is at another place, so that a walk over the keys may miss it.
const MOVING: [&str; 5] = ["RENAME", "RENAMENX", "COPY", "MOVE", "SWAPDB"];

/// Returns a command with a held expiry in place of its own; `None` if its expiry is not held, or if it has none.
fn with_held_expiry(name: &str, words: &[&[u8]], pipe: &mut TargetPipe) -> Option<Vec<u8>> {
    let option = |name: &[u8]| (3..words.len()).find(|at| words[*at].eq_ignore_ascii_case(name));
    let (at, unit_ms) = match name {
        "PEXPIREAT" => (2, 1),
        "EXPIREAT" => (2, 1_000),
        "SET" => option(b"PXAT").map(|at| (at + 1, 1)).or_else(|| option(b"EXAT").map(|at| (at + 1, 1_000)))?,
        "RESTORE" => option(b"ABSTTL").map(|_| (2, 1))?,
        _ => return None,
    };
    let own_ms = std::str::from_utf8(words.get(at)?).ok()?.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    let held_ms = if own_ms == 0 { own_ms } else { pipe.held.hold(own_ms) };
    if held_ms == own_ms {
        return None;
    }
    let expiry = (held_ms / unit_ms).to_string();
    let mut wire = Vec::new();
    command(&mut wire, words.iter().enumerate().map(|(n, word)| if n == at { expiry.as_bytes() } else { word }));
    Some(wire)
}

/// Returns the position of the option `DB` of a `COPY`, behind the two keys.
fn db_option(words: &[&[u8]]) -> Option<usize> {
    (3..words.len()).find(|at| words[*at].eq_ignore_ascii_case(b"DB"))
}

/// Returns a `COPY` without its database, which is the selected one.
fn without_db(words: &[&[u8]]) -> Vec<u8> {
    let at = db_option(words).unwrap_or(words.len());
    let left: Vec<&[u8]> =
        words.iter().enumerate().filter(|(n, _)| *n != at && *n != at + 1).map(|(_, word)| *word).collect();
    let mut wire = Vec::new();
    command(&mut wire, left);
    wire
}

/// Returns the target's databases that belong to the import.
pub(super) fn flushed(job: &ImportJob, pipe: &TargetPipe) -> Vec<u32> {
    match job.db {
        Some((_, to)) => vec![to],
        None => pipe.existing(),
    }
}
