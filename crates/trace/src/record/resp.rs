//! Follows RESP. Requests are parsed as arrays of strings while they arrive, so that no value is stored.

use std::collections::VecDeque;

use protocol::number::parse_i64;
use protocol::resp::client::{Decoder, Event, Head};

use super::{Ledger, Pen, Seen};
use crate::format::{KeyHash, RequestOutcome, TraceEntry, Verb};

/// The maximum number of requests of a connection that wait for their replies. If more requests wait, the replies of
/// the connection are no longer followed.
const WAITING_MAX: usize = 1 << 16;
/// The maximum length of an argument that is examined, in bytes: a command's name, an option or a number.
const WORD_BYTES_MAX: usize = 24;
/// The maximum length of an inline command, in bytes.
const INLINE_BYTES_MAX: usize = protocol::resp::LINE_BYTES_MAX;

/// The arguments of a command that are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    /// The first argument.
    One,
    /// All arguments.
    All,
    /// Every other argument, each followed by its value.
    Pairs,
}

/// The argument with the time to live, and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ttl {
    None,
    /// The argument after the key, in seconds.
    Seconds,
    Millis,
    UntilSeconds,
    UntilMillis,
    /// The argument after `EX`, `PX`, `EXAT` or `PXAT`.
    Options,
}

/// A command that corresponds to a verb of traces.
#[derive(Clone, Copy, Debug)]
struct CommandShape {
    verb: Verb,
    keys: Keys,
    /// The index of the argument with the value; 0 if there is none. For a hash, every second argument from there on is
    /// a value.
    value: u32,
    ttl: Ttl,
}

const fn shape(verb: Verb, keys: Keys, value: u32, ttl: Ttl) -> Option<CommandShape> {
    Some(CommandShape { verb, keys, value, ttl })
}

/// Returns the command with this name, in upper case.
fn shape_of(name: &[u8]) -> Option<CommandShape> {
    use Keys::{All, One, Pairs};
    match name {
        b"GET" | b"GETDEL" => shape(Verb::Get, One, 0, Ttl::None),
        b"MGET" => shape(Verb::Get, All, 0, Ttl::None),
        b"GETEX" => shape(Verb::Gat, One, 0, Ttl::Options),
        b"SET" => shape(Verb::Set, One, 2, Ttl::Options),
        b"GETSET" => shape(Verb::Set, One, 2, Ttl::None),
        b"SETEX" => shape(Verb::Set, One, 3, Ttl::Seconds),
        b"PSETEX" => shape(Verb::Set, One, 3, Ttl::Millis),
        b"SETNX" => shape(Verb::Add, One, 2, Ttl::None),
        b"MSET" => shape(Verb::Set, Pairs, 2, Ttl::None),
        b"MSETNX" => shape(Verb::Add, Pairs, 2, Ttl::None),
        b"APPEND" => shape(Verb::Append, One, 2, Ttl::None),
        b"INCR" | b"INCRBY" | b"INCRBYFLOAT" => shape(Verb::Incr, One, 0, Ttl::None),
        b"DECR" | b"DECRBY" => shape(Verb::Decr, One, 0, Ttl::None),
        b"DEL" | b"UNLINK" => shape(Verb::Delete, All, 0, Ttl::None),
        b"TOUCH" => shape(Verb::Touch, All, 0, Ttl::None),
        b"EXPIRE" => shape(Verb::Touch, One, 0, Ttl::Seconds),
        b"PEXPIRE" => shape(Verb::Touch, One, 0, Ttl::Millis),
        b"EXPIREAT" => shape(Verb::Touch, One, 0, Ttl::UntilSeconds),
        b"PEXPIREAT" => shape(Verb::Touch, One, 0, Ttl::UntilMillis),
        b"HGET" | b"HMGET" => shape(Verb::HashGet, One, 0, Ttl::None),
        b"HGETALL" => shape(Verb::HashGetAll, One, 0, Ttl::None),
        b"HSET" | b"HMSET" | b"HSETNX" => shape(Verb::HashSet, One, 3, Ttl::None),
        b"HDEL" => shape(Verb::HashDelete, One, 0, Ttl::None),
        _ => None,
    }
}

/// Returns true if the server may afterwards send unrequested data, or omit replies.
fn is_overheard(name: &[u8], option: &[u8]) -> bool {
    let subscribes = name.ends_with(b"SUBSCRIBE");
    subscribes || matches!(name, b"MONITOR" | b"SYNC" | b"PSYNC") || (name == b"CLIENT" && option == b"REPLY")
}

/// The state of one connection.
#[derive(Debug, Default)]
pub struct Resp {
    asking: Asking,
    asked_lost: bool,
    asked_kept: Vec<u8>,
    answers: Answers,
}

/// A request that arrives in pieces.
#[derive(Debug, Default)]
struct Asking {
    decoder: Option<Decoder>,
    command: PartialCommand,
}

/// A command whose arguments arrive one by one.
#[derive(Debug, Default)]
pub(super) struct PartialCommand {
    /// The index of the next argument; 0 is the command's name.
    at: u32,
    name: Word,
    shape: Option<CommandShape>,
    /// The number of the first entry in the ledger.
    number: u64,
    keys: u32,
    key: Option<KeyHash>,
    word: Word,
    bytes: u64,
    entry: TraceEntry,
    /// The option before this argument, which determines the argument's meaning.
    option: Word,
    /// The command's second argument.
    second: Word,
}

/// A short argument, in upper case.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    bytes: [u8; WORD_BYTES_MAX],
    len: usize,
    is_long: bool,
}

impl Word {
    fn add(&mut self, piece: &[u8]) {
        let fits = self.len + piece.len() <= WORD_BYTES_MAX;
        self.is_long |= !fits;
        if fits {
            for byte in piece {
                self.bytes[self.len] = byte.to_ascii_uppercase();
                self.len += 1;
            }
        }
    }

    /// Returns the word; empty if the argument was long.
    fn text(&self) -> &[u8] {
        if self.is_long { &[] } else { &self.bytes[..self.len] }
    }
}

/// A request that waits for its reply.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    number: u64,
    keys: u32,
    verb: Verb,
}

#[derive(Debug, Default)]
struct Answers {
    is_lost: bool,
    kept: Vec<u8>,
    waiting: VecDeque<PendingRequest>,
    decoder: Decoder,
    /// The number of elements of this reply parsed so far.
    heads: u32,
    /// True if the current data is an out-of-band message instead of a reply.
    is_push: bool,
    outcome: RequestOutcome,
    value_bytes: u64,
}

impl PartialCommand {
    /// Begins an argument.
    pub fn begin(&mut self, pen: &Pen) {
        (self.word, self.bytes) = (Word::default(), 0);
        let is_key = self.at > 0
            && self.shape.is_some_and(|shape| match shape.keys {
                Keys::One => self.at == 1,
                Keys::All => true,
                Keys::Pairs => self.at % 2 == 1,
            });
        self.key = is_key.then(|| KeyHash::new(&pen.secret));
    }

    /// Adds the next bytes of the argument.
    pub fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        match &mut self.key {
            Some(key) => key.add(piece),
            None => self.word.add(piece),
        }
    }

    /// Ends the argument. Entries of commands with several keys go to the ledger one by one.
    pub fn end(&mut self, pen: &Pen, ledger: &mut Ledger, open: bool) {
        let word = self.word;
        match (self.at, self.shape) {
            (0, _) => {
                self.name = word;
                self.shape = shape_of(word.text());
            }
            (at, Some(shape)) => self.argument(at, shape, pen, ledger, open),
            (_, None) => {}
        }
        if self.at == 1 {
            self.second = word;
        }
        self.at += 1;
    }

    fn argument(&mut self, at: u32, shape: CommandShape, pen: &Pen, ledger: &mut Ledger, open: bool) {
        if let Some(key) = self.key.take() {
            let (key, key_bytes) = key.finish();
            let Pen { at_us, connection, .. } = *pen;
            self.entry = TraceEntry { at_us, key, key_bytes, connection, verb: shape.verb, ..TraceEntry::default() };
            if shape.keys == Keys::All {
                self.put(ledger, open);
            }
            return;
        }
        let bytes = u32::try_from(self.bytes).unwrap_or(u32::MAX);
        if shape.keys == Keys::Pairs {
            self.entry.value_bytes = bytes;
            return self.put(ledger, open);
        }
        let is_hash = shape.verb == Verb::HashSet && at >= shape.value && (at - shape.value).is_multiple_of(2);
        if is_hash {
            self.entry.value_bytes = self.entry.value_bytes.saturating_add(bytes);
        } else if at == shape.value {
            self.entry.value_bytes = bytes;
        } else {
            self.time(at, shape.ttl, pen);
        }
    }

    /// Reads an argument that may be a time to live, or the condition `NX` or `XX`.
    fn time(&mut self, at: u32, ttl: Ttl, pen: &Pen) {
        let number = parse_i64(self.word.text());
        let meant = match ttl {
            Ttl::Options => match self.option.text() {
                b"EX" => Ttl::Seconds,
                b"PX" => Ttl::Millis,
                b"EXAT" => Ttl::UntilSeconds,
                b"PXAT" => Ttl::UntilMillis,
                _ => Ttl::None,
            },
            ttl if at == 2 => ttl,
            _ => Ttl::None,
        };
        let now_s = pen.now_s as i64;
        let seconds = match (meant, number) {
            (Ttl::Seconds, Some(number)) => Some(number),
            (Ttl::Millis, Some(number)) => Some(number.saturating_add(999) / 1000),
            (Ttl::UntilSeconds, Some(number)) => Some(number.saturating_sub(now_s)),
            (Ttl::UntilMillis, Some(number)) => Some((number.saturating_add(999) / 1000).saturating_sub(now_s)),
            _ => None,
        };
        if let Some(seconds) = seconds {
            self.entry.ttl_s = u32::try_from(seconds.max(1)).unwrap_or(u32::MAX);
        }
        if ttl == Ttl::Options && self.entry.verb == Verb::Set {
            match self.word.text() {
                b"NX" => self.entry.verb = Verb::Add,
                b"XX" => self.entry.verb = Verb::Replace,
                _ => {}
            }
        }
        self.option = self.word;
    }

    fn put(&mut self, ledger: &mut Ledger, open: bool) {
        let entry = TraceEntry { joined: self.keys > 0, ..self.entry };
        let number = ledger.add(entry, open);
        self.number = if self.keys == 0 { number } else { self.number };
        self.keys += 1;
    }

    /// Ends the command. Returns the expected reply, and whether the command has an entry.
    fn finish(&mut self, ledger: &mut Ledger, open: bool) -> PendingRequest {
        if self.shape.is_some_and(|shape| shape.keys == Keys::One) && self.at > 1 {
            self.put(ledger, open);
        }
        let ask = PendingRequest { number: self.number, keys: self.keys, verb: self.entry.verb };
        *self = Self::default();
        ask
    }

    /// Records a complete command from its words. Returns the number of its entries.
    pub fn of_words<'w>(words: impl Iterator<Item = &'w [u8]>, pen: &Pen, ledger: &mut Ledger) -> u32 {
        let mut command = Self::default();
        for word in words {
            command.begin(pen);
            command.add(word);
            command.end(pen, ledger, false);
        }
        command.finish(ledger, false).keys
    }
}

impl Resp {
    /// Reads bytes that the client sent. Returns false if the stream cannot be followed any further.
    pub fn asked(&mut self, bytes: &[u8], pen: &Pen, ledger: &mut Ledger, seen: &mut Seen) -> bool {
        if self.asked_lost {
            return true;
        }
        let mut kept = std::mem::take(&mut self.asked_kept);
        kept.extend_from_slice(bytes);
        let mut at = 0;
        while at < kept.len() {
            match self.step(&kept[at..], pen, ledger, seen) {
                Some(0) => break,
                Some(used) => at += used,
                None => {
                    self.asked_lost = true;
                    return false;
                }
            }
        }
        kept.drain(..at);
        self.asked_kept = kept;
        if self.answers.waiting.len() > WAITING_MAX {
            self.give_up_answers(ledger);
            return false;
        }
        true
    }

    /// Parses one step of the client's bytes. Returns the number of bytes used; `None` if they are not a request.
    fn step(&mut self, bytes: &[u8], pen: &Pen, ledger: &mut Ledger, seen: &mut Seen) -> Option<usize> {
        let open = !self.answers.is_lost;
        let Some(decoder) = &mut self.asking.decoder else {
            if bytes[0] != b'*' {
                return self.inline(bytes, pen, ledger, seen);
            }
            self.asking.decoder = Some(Decoder::new());
            return self.step(bytes, pen, ledger, seen);
        };
        let Some(step) = decoder.step(bytes).ok()? else { return Some(0) };
        let is_nothing = match step.event {
            Event::Head(Head::Array(count)) => count == 0,
            // A negative count means 0.
            Event::Head(Head::Null) => true,
            Event::Head(Head::Bulk(_)) => {
                self.asking.command.begin(pen);
                false
            }
            Event::Head(_) => return None,
            Event::Piece(piece) => {
                self.asking.command.add(piece);
                false
            }
            Event::BulkEnd => {
                self.asking.command.end(pen, ledger, open);
                false
            }
        };
        let (last, consumed) = (step.last, step.consumed);
        if last {
            self.asking.decoder = None;
            if !is_nothing {
                self.whole(ledger, seen);
            }
        }
        Some(consumed)
    }

    /// Parses an inline command.
    fn inline(&mut self, bytes: &[u8], pen: &Pen, ledger: &mut Ledger, seen: &mut Seen) -> Option<usize> {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            return if bytes.len() > INLINE_BYTES_MAX { None } else { Some(0) };
        };
        let open = !self.answers.is_lost;
        let words = bytes[..end].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut is_nothing = true;
        for word in words {
            is_nothing = false;
            self.asking.command.begin(pen);
            self.asking.command.add(word);
            self.asking.command.end(pen, ledger, open);
        }
        if !is_nothing {
            self.whole(ledger, seen);
        }
        Some(end + 1)
    }

    /// Ends a request.
    fn whole(&mut self, ledger: &mut Ledger, seen: &mut Seen) {
        let open = !self.answers.is_lost;
        let command = &mut self.asking.command;
        let overheard = is_overheard(command.name.text(), command.second.text());
        let ask = command.finish(ledger, open);
        seen.other_requests += u64::from(ask.keys == 0);
        if open {
            self.answers.waiting.push_back(ask);
        }
        if overheard {
            self.give_up_answers(ledger);
        }
    }

    /// Reads bytes that the server sent. Returns false if the stream cannot be followed any further.
    pub fn answered(&mut self, bytes: &[u8], ledger: &mut Ledger) -> bool {
        if self.answers.is_lost {
            return true;
        }
        let mut kept = std::mem::take(&mut self.answers.kept);
        kept.extend_from_slice(bytes);
        let mut at = 0;
        while at < kept.len() {
            match self.answers.step(&kept[at..], ledger) {
                Some(0) => break,
                Some(used) => at += used,
                None => {
                    self.give_up_answers(ledger);
                    return false;
                }
            }
        }
        kept.drain(..at);
        self.answers.kept = kept;
        true
    }

    /// Stops following replies: the outcomes of waiting and later requests are unknown.
    pub fn give_up_answers(&mut self, ledger: &mut Ledger) {
        self.answers.is_lost = true;
        for ask in self.answers.waiting.drain(..) {
            for at in 0..ask.keys {
                ledger.settle(ask.number + u64::from(at), RequestOutcome::Unknown, None);
            }
        }
    }
}

impl Answers {
    /// Parses one step of the server's bytes. Returns the number of bytes used; `None` if they are not a reply.
    fn step(&mut self, bytes: &[u8], ledger: &mut Ledger) -> Option<usize> {
        let ask = self.waiting.front().copied();
        let Some(step) = self.decoder.step(bytes).ok()? else { return Some(0) };
        match (step.event, ask) {
            // A reply without a request: an out-of-band message may arrive at any time.
            (Event::Head(Head::Push(_)), _) if self.heads == 0 => self.is_push = true,
            (_, None) if !self.is_push => return None,
            (Event::Head(head), Some(ask)) if !self.is_push => self.head(head, ask, ledger),
            _ => {}
        }
        if matches!(step.event, Event::Head(_)) {
            self.heads += 1;
        }
        if step.last {
            if let (Some(ask), false) = (ask, self.is_push) {
                self.whole(ask, ledger);
                self.waiting.pop_front();
            }
            (self.decoder, self.heads, self.is_push) = (Decoder::new(), 0, false);
            (self.outcome, self.value_bytes) = (RequestOutcome::Unknown, 0);
        }
        Some(step.consumed)
    }

    fn head(&mut self, head: Head<'_>, ask: PendingRequest, ledger: &mut Ledger) {
        let (is_first, many) = (self.heads == 0, ask.keys > 1 && ask.verb == Verb::Get);
        match head {
            Head::Error(_) | Head::BulkError(_) => self.outcome = RequestOutcome::Error,
            Head::Bulk(len) if many && !is_first => self.of_many(ask, RequestOutcome::Hit, Some(len), ledger),
            Head::Null if many && !is_first => self.of_many(ask, RequestOutcome::Miss, None, ledger),
            Head::Null if is_first => self.outcome = RequestOutcome::Miss,
            Head::Null => {}
            Head::Array(0) | Head::Map(0) if ask.verb == Verb::HashGetAll && is_first => {
                self.outcome = RequestOutcome::Miss
            }
            Head::Array(_) | Head::Map(_) | Head::Set(_) if is_first => {
                // A value in the reply to HMGET shows that the field exists.
                self.outcome = if ask.verb == Verb::HashGet { RequestOutcome::Miss } else { RequestOutcome::Hit };
            }
            // Names and values of a hash alternate.
            Head::Bulk(_) if ask.verb == Verb::HashGetAll && self.heads % 2 == 1 => {}
            Head::Bulk(len) => {
                self.outcome = RequestOutcome::Hit;
                self.value_bytes += u64::from(len);
            }
            Head::Int(count) if is_first => self.outcome = counted(ask, count),
            // Within MULTI, outcomes are not known yet.
            Head::Simple(b"QUEUED") => self.outcome = RequestOutcome::Unknown,
            Head::Simple(_) if is_first => self.outcome = RequestOutcome::Hit,
            _ => {}
        }
    }

    fn of_many(&self, ask: PendingRequest, outcome: RequestOutcome, value_bytes: Option<u32>, ledger: &mut Ledger) {
        if self.heads <= ask.keys {
            ledger.settle(ask.number + u64::from(self.heads - 1), outcome, value_bytes);
        }
    }

    fn whole(&self, ask: PendingRequest, ledger: &mut Ledger) {
        let bytes = u32::try_from(self.value_bytes).unwrap_or(u32::MAX);
        let read = (ask.verb.reads() && ask.keys == 1 && self.outcome == RequestOutcome::Hit).then_some(bytes);
        for at in 0..ask.keys {
            ledger.settle(ask.number + u64::from(at), self.outcome, read);
        }
    }
}

/// Returns the outcome of a request whose reply is a number.
fn counted(ask: PendingRequest, count: i64) -> RequestOutcome {
    match (ask.verb, count) {
        (Verb::Delete | Verb::Touch | Verb::HashDelete | Verb::Add, 0) => RequestOutcome::Miss,
        // The reply does not show which of several keys existed.
        (Verb::Delete | Verb::Touch, count) if ask.keys > 1 && count != i64::from(ask.keys) => RequestOutcome::Unknown,
        _ => RequestOutcome::Hit,
    }
}
