//! The meta commands `mg`, `md` and `ma`. Their answers repeat the flags of the request in its order.

use super::exptime::{self, seconds_left};
use super::{Call, LINE_ROOM, NAMESPACE, Step};
use crate::context::State;
use crate::metrics::Command;
use base::clock::UnixMillis;
use protocol::memcache::meta::Meta;
use protocol::memcache::reply::{self, MetaLine};
use protocol::memcache::{Error, KEY_BYTES_MAX};
use protocol::number::Decimal;
use segment::{Arith, ArithOutcome, Delete, DeleteOutcome, Fetch, Fetched, Item, LargeRef, Lease, Value};

/// How a fetch is answered.
enum Fetching {
    Miss,
    Done,
    /// A value to be sent from the store. Its line is written, from this mark on.
    Large(LargeRef, usize),
}

/// What a fetch found when it was first done. If the answer then has to wait for room, the fetch is done again, and must
/// neither lose the right that it won nor take its own first run for an earlier access.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstFetch {
    won: bool,
    fetched: bool,
    last_access: UnixMillis,
}

impl FirstFetch {
    fn of(found: &Fetched<'_>) -> Self {
        let Item { fetched, last_access, .. } = found.item;
        Self { won: found.lease == Lease::Won, fetched, last_access }
    }

    fn restore(self, found: &mut Fetched<'_>) {
        if self.won && found.lease == Lease::AlreadyWon {
            found.lease = Lease::Won;
        }
        (found.item.fetched, found.item.last_access) = (self.fetched, self.last_access);
    }
}

impl<'c> Call<'c, '_> {
    pub(super) fn meta_get(&mut self, meta: &Meta<'c>, consumed: usize) -> Step {
        let now = self.ctx.now;
        let fetch = Fetch {
            touch: meta.expire().map(|exptime| exptime::expire(exptime, now)),
            vivify: meta.vivify().map(|exptime| exptime::expire(exptime, now)),
            recache_below_ms: meta.recache().map(|seconds| u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)),
            token: meta.token(),
            want_token: meta.has(b'c') || meta.has(b'C'),
            want_access: meta.has(b'h') || meta.has(b'l'),
            no_bump: meta.has(b'u'),
        };
        let mut scratch = [0; KEY_BYTES_MAX];
        let key = self.turn.key(NAMESPACE, meta.key.bytes(&mut scratch));
        let fetching = match self.turn.fetch(&key, &fetch) {
            Ok(None) => Fetching::Miss,
            Ok(Some(mut fetched)) => {
                let first = FirstFetch::of(&fetched);
                if let Some(first) = self.session.fetched {
                    first.restore(&mut fetched);
                }
                self.session.fetched.get_or_insert(first);
                write_fetched(self.out, meta, &fetched, now)?
            }
            Err(error) => {
                self.op_error(error, false)?;
                self.at += consumed;
                self.done(Command::MetaGet);
                return Ok(());
            }
        };
        let hit = match fetching {
            Fetching::Done => true,
            Fetching::Miss => false,
            Fetching::Large(large, mark) => self.large_value(&key, large, mark)?,
        };
        if !hit && !meta.has(b'q') {
            let mut line = MetaLine::new(b"EN");
            line.reflect(meta);
            line.finish(self.out);
        }
        self.session.fetched = None;
        self.count_fetch(meta, hit);
        self.at += consumed;
        self.done(Command::MetaGet);
        Ok(())
    }

    fn count_fetch(&self, meta: &Meta<'_>, hit: bool) {
        let counters = self.counters();
        counters.cmd_meta.add(1);
        counters.cmd_get.add(1);
        if hit {
            counters.get_hits.add(1)
        } else {
            counters.get_misses.add(1)
        }
        if meta.has(b'T') {
            counters.cmd_touch.add(1);
            if hit { counters.touch_hits.add(1) } else { counters.touch_misses.add(1) }
        }
    }

    pub(super) fn meta_delete(&mut self, meta: &Meta<'c>, consumed: usize) -> Step {
        let mark_stale = meta.has(b'I');
        let delete = Delete {
            compare: meta.compare(),
            mark_stale,
            expire: meta.expire().filter(|_| mark_stale).map(|exptime| exptime::expire(exptime, self.ctx.now)),
            drop_value: meta.has(b'x'),
            token: meta.token(),
        };
        let mut scratch = [0; KEY_BYTES_MAX];
        let key = self.turn.key(NAMESPACE, meta.key.bytes(&mut scratch));
        match self.turn.delete(&key, &delete) {
            Ok(outcome) => {
                let counters = self.counters();
                counters.cmd_meta.add(1);
                let code = match outcome {
                    DeleteOutcome::Deleted => {
                        counters.delete_hits.add(1);
                        b"HD"
                    }
                    DeleteOutcome::NotFound => {
                        counters.delete_misses.add(1);
                        b"NF"
                    }
                    DeleteOutcome::Exists => b"EX",
                };
                if !(meta.has(b'q') && code != b"EX") {
                    let mut line = MetaLine::new(code);
                    line.reflect(meta);
                    line.finish(self.out);
                }
            }
            Err(error) => self.op_error(error, false)?,
        }
        self.at += consumed;
        self.done(Command::MetaDelete);
        Ok(())
    }

    pub(super) fn meta_arith(&mut self, meta: &Meta<'c>, consumed: usize) -> Step {
        let now = self.ctx.now;
        let arith = Arith {
            delta: meta.delta(),
            decrement: meta.is_decrement(),
            vivify: meta.vivify().map(|exptime| (meta.initial(), exptime::expire(exptime, now))),
            expire: meta.expire().map(|exptime| exptime::expire(exptime, now)),
            compare: meta.compare(),
            token: meta.token(),
            want_token: meta.has(b'c'),
        };
        let mut scratch = [0; KEY_BYTES_MAX];
        let key = self.turn.key(NAMESPACE, meta.key.bytes(&mut scratch));
        match self.turn.arith(&key, &arith) {
            Ok(outcome) => {
                self.counters().cmd_meta.add(1);
                self.count_arith(arith.decrement, outcome);
                self.answer_arith(meta, outcome);
            }
            Err(error) => self.op_error(error, false)?,
        }
        self.at += consumed;
        self.done(Command::MetaArith);
        Ok(())
    }

    fn answer_arith(&mut self, meta: &Meta<'c>, outcome: ArithOutcome) {
        let code = match outcome {
            ArithOutcome::Number { value, token, expire } => {
                if !meta.has(b'q') {
                    number_answer(self.out, meta, value, token, seconds_left(expire, self.ctx.now));
                }
                return;
            }
            ArithOutcome::NotNumber => return reply::error(self.out, Error::NotNumber),
            ArithOutcome::NotFound => b"NF",
            ArithOutcome::Exists => b"EX",
        };
        let mut line = MetaLine::new(code);
        line.reflect(meta);
        line.finish(self.out);
    }
}

/// `HD` or `VA` with the number after an `ma`.
fn number_answer(out: &mut crate::out::OutBuffer, meta: &Meta<'_>, value: u64, token: u64, seconds_left: i64) {
    let digits = Decimal::new(value);
    let with_value = meta.has(b'v');
    let mut line = if with_value { MetaLine::with_value(digits.as_slice().len() as u64) } else { MetaLine::new(b"HD") };
    for word in meta.in_order() {
        match word[0] {
            b't' => line.signed(b't', seconds_left),
            b'c' => line.number(b'c', token),
            b'k' => line.key(meta.key),
            b'O' => line.token(b'O', &word[1..]),
            _ => {}
        }
    }
    line.finish(out);
    if with_value {
        out.push(digits.as_slice());
        out.push(reply::CRLF);
    }
}

/// Writes the answer to a fetch that found something, unless its value is large.
fn write_fetched(
    out: &mut crate::out::OutBuffer,
    meta: &Meta<'_>,
    fetched: &Fetched<'_>,
    now: UnixMillis,
) -> Result<Fetching, State> {
    let item = &fetched.item;
    // With `C` a client that has the value already is spared it.
    let has_value_already = meta.compare() == Some(item.token);
    let with_value = meta.has(b'v') && !has_value_already;
    let line = fetched_line(meta, fetched, with_value, now);
    if !with_value {
        line.finish(out);
        return Ok(Fetching::Done);
    }
    match item.value {
        Value::Bytes(bytes) => {
            let want = LINE_ROOM + bytes.len();
            if out.room() < want {
                return Err(State::OutputFull { want });
            }
            line.finish(out);
            out.push(bytes);
        }
        Value::Integer(number) => {
            line.finish(out);
            out.push(Decimal::new(number).as_slice());
        }
        Value::Large(large) => {
            let mark = out.mark();
            line.finish(out);
            return Ok(Fetching::Large(large, mark));
        }
    }
    out.push(reply::CRLF);
    Ok(Fetching::Done)
}

fn fetched_line(meta: &Meta<'_>, fetched: &Fetched<'_>, with_value: bool, now: UnixMillis) -> MetaLine {
    let item = &fetched.item;
    let mut line = if with_value { MetaLine::with_value(item.value_len()) } else { MetaLine::new(b"HD") };
    for word in meta.in_order() {
        match word[0] {
            b'k' => line.key(meta.key),
            b'O' => line.token(b'O', &word[1..]),
            b'c' => line.number(b'c', item.token),
            b'f' => line.number(b'f', item.client_flags.into()),
            b'h' => line.number(b'h', item.fetched.into()),
            b'l' => line.number(b'l', now.ms_since(item.last_access) / 1000),
            b's' => line.number(b's', item.value_len()),
            b't' => line.signed(b't', seconds_left(item.expire, now)),
            _ => {}
        }
    }
    if fetched.lease == Lease::AlreadyWon {
        line.mark(b'Z');
    }
    if item.stale {
        line.mark(b'X');
    }
    if fetched.lease == Lease::Won {
        line.mark(b'W');
    }
    line
}
