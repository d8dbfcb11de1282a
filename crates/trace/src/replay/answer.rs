//! Reads the replies to a replay's requests.

use std::collections::VecDeque;

use protocol::memcache::client::{Decoder, Event, Expect, MetaCode, Reply, Step};
use protocol::resp::client::{self as resp, Head};

use super::Script;
use super::playback::{FILLS_MAX, Tokens};
use super::request::{expect, mark};
use crate::format::{RequestOutcome, TraceEntry, Verb, put_key};
use load::traffic::{Pending, ReplyProgress};
use load::workload::model::Protocol;
use load::workload::source::progress::AnswerState;

const UNASKED: &str = "the reply has a value of a key that was not requested";

/// A reply that is being read.
pub struct ReplayAnswer<'r> {
    /// Settings of the replay.
    pub script: &'r Script,
    /// The connection's entries that have no reply yet; the first `keys` belong to this request.
    pub asked: &'r VecDeque<TraceEntry>,
    /// The number of keys of the request.
    pub keys: usize,
    /// Stores of missed keys.
    pub fills: &'r mut VecDeque<TraceEntry>,
    /// Tokens that arrived with values.
    pub tokens: &'r mut Tokens,
    /// Buffer for a key's text.
    pub key: &'r mut Vec<u8>,
    /// The progress of the reply.
    pub state: AnswerState,
    /// The progress that outlives a partial reply.
    pub pending: &'r mut Pending,
}

/// Reads the reply to a new connection's greeting.
pub fn greeting(
    protocol: Protocol,
    pending: &mut Pending,
    mut state: AnswerState,
    bytes: &[u8],
) -> (usize, ReplyProgress) {
    let mut used = 0;
    let (mut text, mut reply) = (Decoder::new(Expect::Store), resp::Decoder::new());
    loop {
        // The reply to a greeting is one line.
        let (consumed, last, failed) = if protocol == Protocol::Resp {
            match reply.step(&bytes[used..]) {
                Ok(Some(step)) => (
                    step.consumed,
                    step.last,
                    matches!(step.event, resp::Event::Head(Head::Error(_) | Head::BulkError(_))),
                ),
                Ok(None) => return (0, ReplyProgress::More),
                Err(garbage) => return (0, ReplyProgress::Garbage(garbage.text())),
            }
        } else {
            match text.step(&bytes[used..]) {
                Ok(Some(step)) => (step.consumed, step.last, !matches!(step.event, Event::Reply(Reply::Stored))),
                Ok(None) => return (0, ReplyProgress::More),
                Err(garbage) => return (0, ReplyProgress::Garbage(garbage.text())),
            }
        };
        used += consumed;
        if failed {
            state.failed();
        }
        if last {
            return (used, state.done(pending.read_bytes));
        }
    }
}

impl ReplayAnswer<'_> {
    /// Reads received bytes.
    pub fn answer(mut self, bytes: &[u8]) -> (usize, ReplyProgress) {
        let is_resp = self.script.protocol == Protocol::Resp;
        if is_resp { self.resp(bytes) } else { self.memcache(bytes) }
    }

    fn done(&self) -> ReplyProgress {
        self.state.done(self.pending.read_bytes)
    }

    fn verb(&self) -> Verb {
        self.asked[0].verb
    }

    /// Returns the current key.
    fn entry(&self) -> &TraceEntry {
        &self.asked[(self.state.index as usize).min(self.keys - 1)]
    }

    /// Records that the keys from `from` to before `to` do not exist.
    fn missed(&mut self, from: usize, to: usize) {
        for at in from..to {
            self.state.missed();
            let entry = self.asked[at];
            if self.script.fill_on_miss && entry.verb.reads() && self.fills.len() < FILLS_MAX {
                let is_hash = matches!(entry.verb, Verb::HashGet | Verb::HashGetAll);
                let verb = if is_hash { Verb::HashSet } else { Verb::Set };
                self.fills.push_back(TraceEntry { verb, joined: false, outcome: RequestOutcome::Unknown, ..entry });
            }
        }
    }

    /// Begins a value and decides whether it is compared.
    fn value_begins(&mut self) {
        let compared = self.script.verify && self.verb().reads() && !self.script.altered.has(self.entry().key);
        self.state.value_begins(compared);
    }

    /// Compares the next bytes of a value. `rest` is the number of its remaining bytes, including `piece`, without the
    /// line end.
    fn piece(&mut self, piece: &[u8], rest: u64) {
        self.pending.read_bytes += piece.len() as u64;
        if self.state.compares() {
            let mark = mark(self.entry().key);
            self.state.compare(&self.script.values, mark, rest, piece);
        }
    }

    fn next_key(&mut self) {
        let next = self.state.index as usize + 1;
        self.state.index = next.min(self.keys) as u32;
    }

    // --- memcached ---

    fn memcache(&mut self, bytes: &[u8]) -> (usize, ReplyProgress) {
        let expected = expect(self.script.protocol, self.verb(), self.keys == 1);
        let mut decoder = Decoder::resume(expected, self.state.rest);
        let mut used = 0;
        loop {
            let rest = decoder.rest();
            let wanted = if rest > 0 { self.state.wanted(rest - 2) } else { 0 };
            let step = if bytes.len() - used < wanted { Ok(None) } else { decoder.step(&bytes[used..]) };
            let step = match step {
                Ok(Some(step)) => step,
                Ok(None) => {
                    self.state.rest = decoder.rest();
                    self.state.keep(self.pending);
                    return (used, ReplyProgress::More);
                }
                Err(garbage) => return (used, ReplyProgress::Garbage(garbage.text())),
            };
            used += step.consumed;
            if let Err(text) = self.step(&step, rest) {
                return (used, ReplyProgress::Garbage(text));
            }
            if step.last {
                if matches!(expected, Expect::Values | Expect::UntilNoop) && !self.state.has_failed() {
                    self.missed(self.state.index as usize, self.keys);
                }
                return (used, self.done());
            }
        }
    }

    fn step(&mut self, step: &Step<'_>, rest: u64) -> Result<(), &'static str> {
        match step.event {
            Event::Piece(piece) => self.piece(piece, rest - 2),
            Event::ValueEnd => self.next_key(),
            Event::Reply(Reply::Value(header)) => self.value(Some(header.key), header.cas)?,
            Event::Reply(Reply::MetaValue { flags, .. }) => self.value(flags.token(b'k'), flags.number(b'c'))?,
            Event::Reply(Reply::Meta { code: MetaCode::Done, .. }) => {}
            Event::Reply(Reply::Meta { code: MetaCode::Miss, .. }) if self.keys == 1 => self.missed(0, 1),
            Event::Reply(Reply::Meta { .. } | Reply::NotStored | Reply::Exists | Reply::NotFound) => {
                self.state.missed()
            }
            Event::Reply(Reply::Error(_)) => self.state.failed(),
            Event::Reply(_) => {}
        }
        Ok(())
    }

    /// Begins a value; `key` is its key if the reply names it.
    fn value(&mut self, key: Option<&[u8]>, token: Option<u64>) -> Result<(), &'static str> {
        if let Some(named) = key.filter(|_| self.script.verify || self.keys > 1) {
            let from = self.state.index as usize;
            let at = (from..self.keys).find(|at| self.is_key(*at, named)).ok_or(UNASKED)?;
            self.missed(from, at);
            self.state.index = at as u32;
        }
        if self.state.index as usize >= self.keys {
            return Err("the reply has more values than requested keys");
        }
        if let Some(token) = token {
            self.tokens.keep(self.entry().key, token);
        }
        self.value_begins();
        Ok(())
    }

    fn is_key(&mut self, at: usize, named: &[u8]) -> bool {
        self.key.clear();
        put_key(self.asked[at].key, self.asked[at].key_bytes, self.key);
        self.key == named
    }

    // --- RESP ---

    fn resp(&mut self, bytes: &[u8]) -> (usize, ReplyProgress) {
        let parts = self.pending.parts;
        let mut decoder =
            if parts == 0 { resp::Decoder::new() } else { resp::Decoder::resume((parts, self.state.rest)) };
        let (mut is_first, mut used) = (parts == 0, 0);
        loop {
            let rest = decoder.rest();
            let wanted = if rest > 0 { self.state.wanted(rest - 2) } else { 0 };
            let step = if bytes.len() - used < wanted { Ok(None) } else { decoder.step(&bytes[used..]) };
            let step = match step {
                Ok(Some(step)) => step,
                Ok(None) => {
                    (self.pending.parts, self.state.rest) = if is_first { (0, 0) } else { decoder.state() };
                    self.state.keep(self.pending);
                    return (used, ReplyProgress::More);
                }
                Err(garbage) => return (used, ReplyProgress::Garbage(garbage.text())),
            };
            used += step.consumed;
            match step.event {
                resp::Event::Head(head) => {
                    if let Err(text) = self.head(head, is_first) {
                        return (used, ReplyProgress::Garbage(text));
                    }
                }
                resp::Event::Piece(piece) => self.piece(piece, rest - 2),
                resp::Event::BulkEnd => self.next_key(),
            }
            is_first = false;
            if step.last {
                return (used, self.done());
            }
        }
    }

    fn head(&mut self, head: Head<'_>, is_first: bool) -> Result<(), &'static str> {
        const OTHER: &str = "the RESP reply has another type or length than expected";
        let verb = self.verb();
        match head {
            Head::Error(_) | Head::BulkError(_) => self.state.failed(),
            Head::Array(count) if is_first && self.keys > 1 => {
                if count as usize != self.keys {
                    return Err(OTHER);
                }
            }
            Head::Array(0) | Head::Map(0) if verb == Verb::HashGetAll => self.missed(0, 1),
            Head::Array(_) | Head::Map(_) if verb == Verb::HashGetAll => {}
            Head::Bulk(_) if verb == Verb::HashGetAll => self.state.value_begins(false),
            Head::Bulk(_) => self.value_begins(),
            Head::Null if verb.reads() => {
                let at = (self.state.index as usize).min(self.keys - 1);
                self.missed(at, at + 1);
                self.next_key();
            }
            Head::Null => self.state.missed(),
            Head::Int(0) if matches!(verb, Verb::Delete | Verb::HashDelete | Verb::Touch) => self.state.missed(),
            Head::Int(_) | Head::Simple(_) if !verb.reads() => {}
            _ => return Err(OTHER),
        }
        Ok(())
    }
}
