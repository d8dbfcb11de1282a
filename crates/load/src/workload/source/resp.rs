//! RESP: writes a plan's request and reads its reply.

use protocol::resp::client::{self, CommandLine, Decoder, Event, Head, Step};

use super::super::model::{Auth, Verb};
use super::exchange::{AnswerReader, FIELD_SHIFT, RequestDraft, field_name, field_number};
use super::route::RequestForm;
use super::template::Template;
use crate::traffic::{ReplyOutcome, ReplyProgress};

const CRLF: &[u8] = b"\r\n";
/// The field of a counter; stores never write it.
const COUNT_FIELD: &[u8] = b"n";
/// Longest field name; longer names do not belong to a generated field.
const NAME_BYTES_MAX: u64 = 64;

/// Writes the request. Returns the number of bytes of value in it.
#[inline]
pub fn put(draft: &mut RequestDraft<'_>, verb: Verb, out: &mut Vec<u8>) -> u64 {
    let (number, space, route) = (draft.number(), draft.space, draft.route);
    let one = |out: &mut Vec<u8>, name: &[u8], key: &[u8]| {
        CommandLine::new(out, 2).arg(name).arg(key);
    };
    match verb {
        Verb::Get if route.keys > 1 => {
            let mut line = CommandLine::new(out, 1 + route.keys).arg(b"MGET");
            for index in 0..route.keys {
                draft.key.clear();
                space.text.put(space.key_at(draft.plan.key, index, route.keys), draft.key);
                line = line.arg(draft.key);
            }
        }
        Verb::Get => client::get(out, draft.only_key()),
        Verb::Set | Verb::Add | Verb::Replace | Verb::Append => return put_store(draft, verb, out),
        Verb::Incr | Verb::Decr => {
            let name: &[u8] = if verb == Verb::Incr { b"INCRBY" } else { b"DECRBY" };
            CommandLine::new(out, 3).arg(name).arg(draft.only_key()).number(route.delta as i64);
        }
        Verb::Delete => one(out, b"DEL", draft.only_key()),
        Verb::Touch => {
            let ttl_s = space.ttl_s(number).max(1);
            CommandLine::new(out, 3).arg(b"EXPIRE").arg(draft.only_key()).number(ttl_s as i64);
        }
        Verb::HashSet => return put_hash(draft, out),
        Verb::HashGet => {
            let name = field_name(draft.field());
            CommandLine::new(out, 3).arg(b"HGET").arg(draft.only_key()).arg(&name);
        }
        Verb::HashIncr | Verb::HashDecr => {
            let delta = if verb == Verb::HashIncr { route.delta as i64 } else { -(route.delta as i64) };
            CommandLine::new(out, 4).arg(b"HINCRBY").arg(draft.only_key()).arg(COUNT_FIELD).number(delta);
        }
        Verb::HashGetAll => one(out, b"HGETALL", draft.only_key()),
        Verb::HashMultiGet | Verb::HashDelete => {
            let (first, named) = (draft.field(), draft.named());
            let name: &[u8] = if verb == Verb::HashMultiGet { b"HMGET" } else { b"HDEL" };
            let line = CommandLine::new(out, 2 + named).arg(name).arg(draft.only_key());
            (0..named).fold(line, |line, index| line.arg(&field_name((first + index) % space.fields)));
        }
        Verb::Ping => out.extend_from_slice(b"*1\r\n$4\r\nPING\r\n"),
        _ => unreachable!("a validated workload has no other RESP verbs"),
    }
    0
}

/// Writes a store. The value comes last if possible, generated directly in the output.
fn put_store(draft: &mut RequestDraft<'_>, verb: Verb, out: &mut Vec<u8>) -> u64 {
    let (number, space, version) = (draft.number(), draft.space, draft.version);
    let len = space.value_bytes(number, 0);
    let ttl_s = space.ttl_s(number);
    draft.only_key();
    match (verb, ttl_s) {
        (Verb::Append, _) => CommandLine::new(out, 3).arg(b"APPEND").arg(draft.key).arg_head(len as u32),
        (Verb::Set, 0) => CommandLine::new(out, 3).arg(b"SET").arg(draft.key).arg_head(len as u32),
        (Verb::Set, _) => {
            CommandLine::new(out, 4).arg(b"SETEX").arg(draft.key).number(ttl_s as i64).arg_head(len as u32)
        }
        _ => {
            draft.word.clear();
            space.put_value(number, 0, version, len, draft.word);
            let args = if ttl_s > 0 { 6 } else { 4 };
            let line = CommandLine::new(out, args).arg(b"SET").arg(draft.key).arg(draft.word);
            let line = line.arg(if verb == Verb::Add { b"NX" } else { b"XX" });
            if ttl_s > 0 {
                line.arg(b"EX").number(ttl_s as i64);
            }
            return len;
        }
    };
    space.put_value(number, 0, version, len, out);
    out.extend_from_slice(CRLF);
    len
}

fn put_hash(draft: &mut RequestDraft<'_>, out: &mut Vec<u8>) -> u64 {
    let (number, space, version) = (draft.number(), draft.space, draft.version);
    let (first, named) = (draft.field(), draft.named());
    draft.only_key();
    let mut line = CommandLine::new(out, 2 + 2 * named).arg(b"HSET").arg(draft.key);
    let mut bytes = 0;
    for index in 0..named {
        let field = (first + index) % space.fields;
        let len = space.value_bytes(number, field);
        draft.word.clear();
        space.put_value(number, field, version, len, draft.word);
        line = line.arg(&field_name(field)).arg(draft.word);
        bytes += len;
    }
    bytes
}

/// Writes a raw command word by word. Returns the number of bytes of value in it.
pub fn put_words(draft: &mut RequestDraft<'_>, words: &[Template], out: &mut Vec<u8>) -> u64 {
    let (number, space, version) = (draft.number(), draft.space, draft.version);
    let len = space.value_bytes(number, 0);
    draft.only_key();
    let mut line = CommandLine::new(out, words.len() as u32);
    let mut bytes = 0;
    for word in words {
        draft.word.clear();
        word.put(draft.key, len, |out| space.put_value(number, 0, version, len, out), draft.word);
        line = line.arg(draft.word);
        bytes += if word.has_data() { len } else { 0 };
    }
    bytes
}

/// Writes `AUTH`.
pub fn put_auth(auth: &Auth, out: &mut Vec<u8>) {
    if auth.user.is_empty() {
        client::command(out, [b"AUTH", auth.password.as_bytes()]);
    } else {
        client::command(out, [b"AUTH", auth.user.as_bytes(), auth.password.as_bytes()]);
    }
}

/// Writes `HELLO 3`.
pub fn put_hello(auth: Option<&Auth>, name: &str, out: &mut Vec<u8>) {
    let args = 2 + if auth.is_some() { 3 } else { 0 } + if name.is_empty() { 0 } else { 2 };
    let mut line = CommandLine::new(out, args).arg(b"HELLO").arg(b"3");
    if let Some(auth) = auth {
        let user = if auth.user.is_empty() { "default" } else { &auth.user };
        line = line.arg(b"AUTH").arg(user.as_bytes()).arg(auth.password.as_bytes());
    }
    if !name.is_empty() {
        line.arg(b"SETNAME").arg(name.as_bytes());
    }
}

/// Writes `SELECT`.
pub fn put_select(database: u32, out: &mut Vec<u8>) {
    CommandLine::new(out, 2).arg(b"SELECT").number(database.into());
}

/// Reads received bytes of a reply to `verb`, or to a raw command if `None`, whose values are not examined. Only a null
/// reply counts as a miss.
#[inline]
pub fn answer(mut reading: AnswerReader<'_>, verb: Option<Verb>, bytes: &[u8]) -> (usize, ReplyProgress) {
    if let Some(answered) = plain_get(&mut reading, verb, bytes) {
        return answered;
    }
    let parts = reading.pending.parts;
    let mut decoder = if parts == 0 { Decoder::new() } else { Decoder::resume((parts, reading.state.rest)) };
    let mut is_first = parts == 0;
    let mut used = 0;
    loop {
        let rest = decoder.rest();
        let wanted = if rest > 0 { reading.wanted(verb, rest - 2) } else { 0 };
        let step = if bytes.len() - used < wanted { Ok(None) } else { decoder.step(&bytes[used..]) };
        let step = match step {
            Ok(Some(step)) => step,
            Ok(None) => {
                // Before the first step there is no state to store.
                (reading.pending.parts, reading.state.rest) = if is_first { (0, 0) } else { decoder.state() };
                reading.state.keep(reading.pending);
                return (used, ReplyProgress::More);
            }
            Err(garbage) => return (used, ReplyProgress::Garbage(garbage.text())),
        };
        used += step.consumed;
        if let Err(text) = reading.take(verb, &step, rest, is_first) {
            return (used, ReplyProgress::Garbage(text));
        }
        is_first = false;
        if step.last {
            return (used, reading.done());
        }
    }
}

/// Reads the usual reply to a `GET` quickly, if nothing is compared.
#[inline]
fn plain_get(reading: &mut AnswerReader<'_>, verb: Option<Verb>, bytes: &[u8]) -> Option<(usize, ReplyProgress)> {
    if verb != Some(Verb::Get) || reading.verify || reading.pending.parts > 0 || reading.route.keys > 1 {
        return None;
    }
    let (value, used) = client::lone_bulk(bytes)?;
    reading.follow.tally.keys_found += 1;
    Some((used, ReplyProgress::Done { outcome: ReplyOutcome::Hit, value_bytes: value.len() as u64 }))
}

impl AnswerReader<'_> {
    /// Returns the number of bytes of the current string that must be available at once, for a string with `rest` bytes
    /// left.
    fn wanted(&self, verb: Option<Verb>, rest: u64) -> usize {
        if self.is_name(verb) && self.verify { rest.min(NAME_BYTES_MAX) as usize } else { self.state.wanted(rest) }
    }

    /// Returns whether the current part is a field's name.
    fn is_name(&self, verb: Option<Verb>) -> bool {
        verb == Some(Verb::HashGetAll) && self.state.index.is_multiple_of(2)
    }

    /// Applies one step of a decoder that had `rest` bytes of a string left before it.
    fn take(&mut self, verb: Option<Verb>, step: &Step<'_>, rest: u64, is_first: bool) -> Result<(), &'static str> {
        match step.event {
            Event::Head(Head::Error(words)) => self.failed(words),
            Event::Head(Head::BulkError(_)) => self.failed(b"the server sent an error of several lines"),
            Event::Head(head) if let RequestForm::Graph(route) = &self.route.wire => {
                super::graph_reply::part(self, route, head, step.last)?;
            }
            Event::Head(head) => match verb {
                None if is_first && head == Head::Null => self.state.missed(),
                None => {}
                Some(verb) if is_first => self.first(verb, head)?,
                Some(_) => self.part(head),
            },
            Event::Piece(name) if self.is_name(verb) => self.name(name, rest - 2),
            Event::Piece(piece) => {
                self.pending.read_bytes += piece.len() as u64;
                if verb.is_some() && self.state.compares() {
                    let mark = self.mark(verb);
                    self.state.compare(&self.space.values, mark, rest - 2, piece);
                }
            }
            Event::BulkEnd => self.next_part(),
        }
        Ok(())
    }

    /// Counts a part of the reply.
    pub fn next_part(&mut self) {
        self.state.index = self.state.index.saturating_add(1).min(super::progress::INDEX_MAX);
    }

    /// Handles the head of a reply.
    fn first(&mut self, verb: Verb, head: Head<'_>) -> Result<(), &'static str> {
        let many = verb == Verb::Get && self.route.keys > 1;
        let number = self.pending.key & ((1 << FIELD_SHIFT) - 1);
        match (verb, head) {
            (Verb::Get, Head::Array(values)) if many && values == self.route.keys => {}
            (Verb::HashMultiGet, Head::Array(values)) if values == self.named() => {}
            (Verb::Get | Verb::HashGet, Head::Bulk(_) | Head::Null) if !many => self.part(head),
            (Verb::HashGetAll, Head::Array(0) | Head::Map(0)) => self.missed(0, 1),
            (Verb::HashGetAll, Head::Array(_) | Head::Map(_)) if head.values() < super::progress::INDEX_MAX.into() => {
                self.follow.found(self.route, number, None);
            }
            (Verb::Get | Verb::HashMultiGet | Verb::HashGet | Verb::HashGetAll, _) => {
                return Err("the RESP reply has another type or length than expected");
            }
            (Verb::Delete | Verb::HashDelete | Verb::Touch, Head::Int(0)) | (_, Head::Null) => self.state.missed(),
            (_, Head::Int(_) | Head::Simple(_)) => {}
            (_, Head::Bulk(_)) => self.state.value_begins(false),
            _ => return Err("the RESP reply has another type than expected"),
        }
        Ok(())
    }

    /// Handles the next part of a reply, or the only one.
    fn part(&mut self, head: Head<'_>) {
        let is_value = matches!(head, Head::Bulk(_));
        self.state.value_begins(self.verify && is_value);
        let (number, index) = (self.pending.key & ((1 << FIELD_SHIFT) - 1), self.state.index);
        match self.route.wire {
            RequestForm::Resp(Verb::Get) if is_value => self.follow.found(self.route, self.key_at(index), None),
            RequestForm::Resp(Verb::Get) => self.missed(index, index + 1),
            RequestForm::Resp(Verb::HashGet) if is_value => self.follow.found(self.route, number, None),
            // One missing field causes one store of the whole hash.
            RequestForm::Resp(Verb::HashGet | Verb::HashMultiGet) if !is_value && !self.state.has_missed() => {
                self.missed(0, 1);
            }
            _ => {}
        }
        if !is_value {
            self.next_part();
        }
    }

    /// Handles a field's name of `len` bytes, which determines the next field.
    fn name(&mut self, name: &[u8], len: u64) {
        if !self.verify {
            return;
        }
        let known = field_number(name).filter(|field| name.len() as u64 == len && *field < self.space.fields);
        match known {
            Some(field) => {
                let number = self.pending.key & ((1 << FIELD_SHIFT) - 1);
                self.pending.key = number | u64::from(field) << FIELD_SHIFT;
            }
            None => self.state.wrong(),
        }
    }

    /// Returns the expected mark of the current value.
    fn mark(&self, verb: Option<Verb>) -> u64 {
        let number = self.pending.key & ((1 << FIELD_SHIFT) - 1);
        let field = (self.pending.key >> FIELD_SHIFT) as u32;
        match verb {
            Some(Verb::HashGet | Verb::HashGetAll) => self.space.mark(number, field),
            Some(Verb::HashMultiGet) => self.space.mark(number, (field + self.state.index) % self.space.fields),
            _ => self.space.mark(self.key_at(self.state.index), 0),
        }
    }
}
