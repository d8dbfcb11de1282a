//! memcached's protocols: writes a plan's request and reads its reply.

use protocol::memcache::client::{self, Decoder, Event, Expect, MetaCode, MetaFlags, MetaRequest, Reply, Step};
use protocol::memcache::request::{Arith, Store, StoreMode};

use super::exchange::{AnswerReader, RequestDraft};
use super::route::{Flags, RequestForm};
use crate::traffic::{ReplyOutcome, ReplyProgress};

const CRLF: &[u8] = b"\r\n";

/// Writes the request. Returns the number of bytes of value in it.
#[inline]
pub fn put(draft: &mut RequestDraft<'_>, out: &mut Vec<u8>) -> u64 {
    let (number, space, route) = (draft.number(), draft.space, draft.route);
    match &route.wire {
        RequestForm::Get { cas } if route.keys > 1 => put_many(draft, *cas, out),
        RequestForm::Get { cas: false } => client::get(out, draft.only_key()),
        RequestForm::Get { cas: true } => client::multi_gets(out, [draft.only_key()]),
        RequestForm::Store { mode, compare } => return put_store(draft, *mode, *compare, out),
        RequestForm::MetaStore { flags, compare } => return put_meta_store(draft, flags, *compare, out),
        RequestForm::Arith { delta, decrement } => {
            let (delta, decrement) = (*delta, *decrement);
            client::arith(out, &Arith { key: draft.only_key(), delta, decrement, noreply: false });
        }
        RequestForm::Delete => client::delete(out, draft.only_key(), false),
        RequestForm::Touch => client::touch(out, draft.only_key(), space.exptime(number), false),
        RequestForm::MetaGet(flags) => put_flags(MetaRequest::get(out, draft.only_key()), flags).finish(),
        RequestForm::MetaTouch => MetaRequest::get(out, draft.only_key()).signed(b'T', space.exptime(number)).finish(),
        RequestForm::MetaDelete(flags) => put_flags(MetaRequest::delete(out, draft.only_key()), flags).finish(),
        RequestForm::MetaArith(flags) => put_flags(MetaRequest::arith(out, draft.only_key()), flags).finish(),
        RequestForm::MetaMany(flags) => {
            for index in 0..route.keys {
                draft.key.clear();
                space.text.put(space.key_at(draft.plan.key, index, route.keys), draft.key);
                put_flags(MetaRequest::get(out, draft.key), flags).finish();
            }
            client::meta_noop(out);
        }
        RequestForm::Line(template) => {
            draft.only_key();
            let len = space.value_bytes(number, 0);
            let version = draft.version;
            template.put(draft.key, len, |out| space.put_value(number, 0, version, len, out), out);
            out.extend_from_slice(CRLF);
            return if template.has_data() { len } else { 0 };
        }
        _ => unreachable!("other forms are written elsewhere"),
    }
    0
}

fn put_many(draft: &mut RequestDraft<'_>, cas: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if cas { b"gets" } else { b"get" });
    for index in 0..draft.route.keys {
        out.push(b' ');
        draft.space.text.put(draft.space.key_at(draft.plan.key, index, draft.route.keys), out);
    }
    out.extend_from_slice(CRLF);
}

#[inline]
fn put_store(draft: &mut RequestDraft<'_>, mode: StoreMode, compare: bool, out: &mut Vec<u8>) -> u64 {
    let (number, space, version) = (draft.number(), draft.space, draft.version);
    let len = space.value_bytes(number, 0);
    let exptime = space.exptime(number);
    let compare = compare.then_some(draft.plan.token);
    let key = draft.only_key();
    client::store(out, &Store { mode, key, client_flags: 0, exptime, value_len: len as u32, compare, noreply: false });
    space.put_value(number, 0, version, len, out);
    out.extend_from_slice(CRLF);
    len
}

fn put_meta_store(draft: &mut RequestDraft<'_>, flags: &Flags, compare: bool, out: &mut Vec<u8>) -> u64 {
    let (number, space, version, token) = (draft.number(), draft.space, draft.version, draft.plan.token);
    let len = space.value_bytes(number, 0);
    let mut request = put_flags(MetaRequest::store(out, draft.only_key(), len as u32), flags);
    if compare {
        request = request.number(b'C', token);
    }
    if space.ttl_s(number) != 0 && !flags.iter().any(|(letter, _)| *letter == b'T') {
        request = request.signed(b'T', space.exptime(number));
    }
    request.finish();
    space.put_value(number, 0, version, len, out);
    out.extend_from_slice(CRLF);
    len
}

fn put_flags<'o>(request: MetaRequest<'o, Vec<u8>>, flags: &Flags) -> MetaRequest<'o, Vec<u8>> {
    flags.iter().fold(request, |request, (letter, token)| request.token(*letter, token))
}

/// Reads received bytes of a reply.
#[inline]
pub fn answer(mut reading: AnswerReader<'_>, bytes: &[u8]) -> (usize, ReplyProgress) {
    if let Some(answered) = plain_get(&mut reading, bytes) {
        return answered;
    }
    let mut decoder = Decoder::resume(reading.route.expect, reading.state.rest);
    let mut used = 0;
    loop {
        let rest = decoder.rest();
        let wanted = if rest > 0 { reading.state.wanted(rest - 2) } else { 0 };
        let step = if bytes.len() - used < wanted { Ok(None) } else { decoder.step(&bytes[used..]) };
        let step = match step {
            Ok(Some(step)) => step,
            Ok(None) => {
                reading.state.rest = decoder.rest();
                reading.state.keep(reading.pending);
                return (used, ReplyProgress::More);
            }
            Err(garbage) => return (used, ReplyProgress::Garbage(garbage.text())),
        };
        used += step.consumed;
        if let Err(text) = reading.step(&step, rest) {
            return (used, ReplyProgress::Garbage(text));
        }
        if step.last {
            return (used, reading.done());
        }
    }
}

/// Reads the usual replies to a `get` quickly, if nothing is compared and no follow-up is needed.
#[inline]
fn plain_get(reading: &mut AnswerReader<'_>, bytes: &[u8]) -> Option<(usize, ReplyProgress)> {
    let route = reading.route;
    if route.expect != Expect::Values || route.keys > 1 || reading.verify || reading.state.rest > 0 {
        return None;
    }
    if reading.state.index > 0 {
        return None;
    }
    let (hit, used) = client::lone_hit(bytes)?;
    reading.follow.tally.keys_found += 1;
    let value_bytes = hit.value.len() as u64;
    Some((used, ReplyProgress::Done { outcome: ReplyOutcome::Hit, value_bytes }))
}

impl AnswerReader<'_> {
    /// Applies one step of a decoder that had `rest` bytes of a value left before it.
    fn step(&mut self, step: &Step<'_>, rest: u64) -> Result<(), &'static str> {
        match step.event {
            Event::Reply(reply) => self.reply(reply)?,
            Event::Piece(piece) => {
                self.pending.read_bytes += piece.len() as u64;
                if self.state.compares() {
                    let mark = self.space.mark(self.key_at(self.state.index), 0);
                    self.state.compare(&self.space.values, mark, rest - 2, piece);
                }
            }
            Event::ValueEnd => self.state.index += 1,
        }
        if step.last && matches!(self.route.expect, Expect::Values | Expect::UntilNoop) && !self.state.has_failed() {
            self.missed(self.state.index, self.route.keys);
        }
        Ok(())
    }

    fn reply(&mut self, reply: Reply<'_>) -> Result<(), &'static str> {
        match reply {
            Reply::Value(header) => self.value(Some(header.key), header.cas),
            Reply::MetaValue { flags, .. } => {
                let key = if self.route.keys > 1 { flags.token(b'k') } else { None };
                self.value(key, token(flags))
            }
            Reply::Meta { code: MetaCode::Done, .. } => Ok(()),
            Reply::Meta { code: MetaCode::Miss, .. } if self.route.keys == 1 => {
                self.missed(0, 1);
                Ok(())
            }
            Reply::Meta { .. } | Reply::NotStored | Reply::Exists | Reply::NotFound => {
                self.state.missed();
                Ok(())
            }
            Reply::Error(error) => {
                self.failed(error.line());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Begins a value; `key` is its key if the reply names it.
    fn value(&mut self, key: Option<&[u8]>, token: Option<u64>) -> Result<(), &'static str> {
        const UNASKED: &str = "the reply has a value of a key that was not requested";
        let raw = matches!(self.route.wire, RequestForm::Line(_));
        if raw {
            self.state.value_begins(false);
            return Ok(());
        }
        if self.state.index >= self.route.keys {
            return Err("the reply has more values than requested keys");
        }
        if let Some(key) = key.filter(|_| self.verify || self.route.keys > 1) {
            let number = self.space.text.number(key).ok_or(UNASKED)?;
            let from = self.state.index;
            let at = (from..self.route.keys).find(|index| self.key_at(*index) == number).ok_or(UNASKED)?;
            self.missed(from, at);
            self.state.index = at;
        }
        self.state.value_begins(self.verify);
        let number = self.key_at(self.state.index);
        self.follow.found(self.route, number, token);
        Ok(())
    }
}

fn token(flags: MetaFlags<'_>) -> Option<u64> {
    flags.number(b'c')
}
