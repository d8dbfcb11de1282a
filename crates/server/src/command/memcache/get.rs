//! Retrievals: `get`, `gets`, `gat`, `gats`.
//!
//! Plain retrievals that follow one another are looked up together: all their keys, up to [`PROBES_MAX`], are hashed
//! and prefetched before the first is looked up, so that the waits for memory overlap.

use super::watch::Seen;
use super::{Call, LINE_ROOM, NAMESPACE, Step, exptime};
use crate::context::{OPS_A_BATCH, State, WorkerContext};
use crate::metrics::Command;
use crate::out::{OutBuffer, PINNED_BYTES_MIN};
use protocol::memcache::request::Get;
use protocol::memcache::{Error, Keys, Parsed, Request, parse, reply};
use protocol::number::Decimal;
use segment::{Expire, Item, Key, LargeRef, OpError, Pinned, Value};

/// Keys that are looked up together. Sixteen hide most of the memory's latency; more would push each other out.
const PROBES_MAX: usize = 16;

/// A retrieval whose answer goes on in a later call: what has been read of its line need not be read again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retrieval {
    /// Bytes of the line, its end included.
    consumed: usize,
    /// Bytes of the keys that are left.
    keys_left: usize,
    with_cas: bool,
    touch: Option<i64>,
}

/// One key of a run of retrievals.
#[derive(Clone, Copy)]
struct Probe<'b> {
    key: Key<'b>,
    with_cas: bool,
    command: Command,
    /// Bytes of the request's keys from this one on, to come back to.
    keys_left: usize,
    /// Bytes of the request's keys behind this one.
    keys_behind: usize,
    /// Bytes of the request's line, its end included.
    consumed: usize,
    /// The last key of its request.
    ends: bool,
}

impl Probe<'_> {
    /// How to go on with the last `keys_left` bytes of the request's keys.
    fn retrieval(&self, keys_left: usize) -> Retrieval {
        Retrieval { consumed: self.consumed, keys_left, with_cas: self.with_cas, touch: None }
    }
}

/// A run of keys, of one request or of several.
struct Probes<'b> {
    probes: [Option<Probe<'b>>; PROBES_MAX],
    len: usize,
    /// As many keys as this call may still look up, and at most [`PROBES_MAX`].
    most: usize,
}

/// What stands at a key's place in the answer so far.
pub(super) enum Found {
    /// An item, all of it written.
    Hit,
    /// Nothing.
    Miss,
    /// A large value to be sent from the store, behind its line.
    Large(LargeRef),
    /// A value to be sent from the store, behind its line.
    Pinned(Pinned),
}

impl<'b> Probes<'b> {
    /// A run of at most `most` keys.
    fn new(most: usize) -> Self {
        Self { probes: [None; PROBES_MAX], len: 0, most }
    }

    /// Collects the keys of the retrieval `get` and of the retrievals behind it.
    fn collect(&mut self, call: &Call<'b, '_>, get: Get<'b>, consumed: usize) {
        let mut at = call.at + consumed;
        if !self.add(call, get.keys, call.session.retrieval.is_some(), get.with_cas, consumed) {
            return;
        }
        while self.len < self.most && at < call.buf.len() {
            let Parsed::Request { request: Request::Get(next), consumed } = parse(&call.buf[at..]) else { break };
            if next.touch.is_some() || !self.add(call, next.keys, false, next.with_cas, consumed) {
                break;
            }
            at += consumed;
        }
    }

    /// Adds the keys of one request, of which `several` says that some came before; false if they do not all fit.
    fn add(
        &mut self,
        call: &Call<'b, '_>,
        mut keys: Keys<'b>,
        mut several: bool,
        with_cas: bool,
        consumed: usize,
    ) -> bool {
        let mut keys_left = keys.rest().len();
        let mut next = keys.next();
        while let Some(bytes) = next {
            if self.len == self.most {
                return false;
            }
            let key = call.turn.key(NAMESPACE, bytes);
            call.turn.prefetch(&key);
            let left_before = keys_left;
            keys_left = keys.rest().len();
            next = keys.next();
            let ends = next.is_none();
            let command = match (with_cas, several || !ends) {
                (true, _) => Command::Gets,
                (false, true) => Command::MultiGet,
                (false, false) => Command::Get,
            };
            several = true;
            self.probes[self.len] =
                Some(Probe { key, with_cas, command, keys_left: left_before, keys_behind: keys_left, consumed, ends });
            self.len += 1;
        }
        true
    }
}

impl<'c> Call<'c, '_> {
    /// `get` and `gets`, and those that follow.
    pub(super) fn get(&mut self, get: Get<'c>, consumed: usize) -> Step {
        // A new array here, not one returned: it is not worth a copy of it for a lone key.
        let mut run = Probes::new(PROBES_MAX.min(OPS_A_BATCH - self.ops));
        run.collect(self, get, consumed);
        if run.len > 1 {
            run.probes[..run.len].iter().flatten().for_each(|probe| self.turn.prefetch_item(&probe.key));
        }
        for probe in run.probes[..run.len].iter().flatten() {
            let found = self.room(LINE_ROOM).and_then(|()| match self.watched() {
                false => self.look_up::<false>(probe),
                true => self.look_up_watched(probe),
            });
            if let Err(state) = found {
                self.session.retrieval = Some(probe.retrieval(probe.keys_left));
                return Err(state);
            }
            if probe.ends {
                self.out.push(reply::END);
                self.at += probe.consumed;
                self.session.retrieval = None;
                self.done(probe.command);
                self.line_at = self.at;
            } else {
                // A key is an operation's work, though its request is not done.
                self.session.retrieval = Some(probe.retrieval(probe.keys_behind));
                self.ops += 1;
            }
        }
        Ok(())
    }

    /// Goes on with a retrieval that was answered in part.
    pub(super) fn retrieval_go_on(&mut self, retrieval: Retrieval) -> Step {
        let Retrieval { consumed, keys_left, with_cas, touch } = retrieval;
        let line = &self.rest()[..consumed - 1];
        let text = line.strip_suffix(b"\r").unwrap_or(line);
        let get = Get { keys: Keys::resume(&text[text.len() - keys_left..]), with_cas, touch };
        if touch.is_some() { self.get_and_touch(get, consumed) } else { self.get(get, consumed) }
    }

    #[cold]
    fn look_up_watched(&mut self, probe: &Probe<'_>) -> Step {
        self.look_up::<true>(probe)
    }

    /// Looks up one key and writes its item. `WATCHED`: somebody watches.
    fn look_up<const WATCHED: bool>(&mut self, probe: &Probe<'_>) -> Step {
        let item = if probe.with_cas {
            match self.turn.gets(&probe.key) {
                Ok(item) => item,
                Err(error) => return self.retrieval_failed(error),
            }
        } else {
            self.turn.get(&probe.key)
        };
        let mark = self.out.mark();
        let seen = WATCHED.then(|| Seen::of(item.as_ref()));
        let found = match item {
            None => Found::Miss,
            Some(item) => write_item(self.out, self.ctx, &item, probe.key.bytes(), probe.with_cas)?,
        };
        let hit = self.finish_item(&probe.key, found, mark, None)?;
        self.tell_get(probe.key.bytes(), seen, hit);
        let counters = self.counters();
        counters.cmd_get.add(1);
        if hit {
            counters.get_hits.add(1)
        } else {
            counters.get_misses.add(1)
        }
        Ok(())
    }

    /// Writes what is left to be written of an item, whose line begins at `mark`, and says whether it was there. With
    /// `end_it` the item ends by this request, which all the same is the last to see it.
    pub(super) fn finish_item(
        &mut self,
        key: &Key<'_>,
        found: Found,
        mark: usize,
        end_it: Option<Expire>,
    ) -> Result<bool, State> {
        let done = match found {
            Found::Miss => return Ok(false),
            Found::Hit => self.end_item(key, end_it).map(|()| true),
            Found::Large(large) => self.push_large(key, large, end_it),
            Found::Pinned(pinned) => self.push_pinned(key, pinned, end_it),
        };
        if done != Ok(true) {
            self.out.truncate(mark);
        }
        done
    }

    fn end_item(&mut self, key: &Key<'_>, end_it: Option<Expire>) -> Step {
        match end_it.map(|expire| self.turn.touch(key, expire).err()) {
            Some(Some(OpError::Parked)) => Err(State::Parked),
            _ => Ok(()),
        }
    }

    /// Puts a pinned value and a line end.
    #[cold]
    fn push_pinned(&mut self, key: &Key<'_>, pinned: Pinned, end_it: Option<Expire>) -> Result<bool, State> {
        if let Err(state) = self.end_item(key, end_it) {
            self.ctx.unpin(pinned);
            return Err(state);
        }
        self.out.push_pinned(pinned);
        self.out.push(reply::CRLF);
        Ok(true)
    }

    /// Puts a large value and a line end; `false` if the value has lost a piece and counts as missing.
    fn push_large(&mut self, key: &Key<'_>, large: LargeRef, end_it: Option<Expire>) -> Result<bool, State> {
        if !self.out.has_pin_room() || !self.ctx.pin_budget(large.bytes) {
            return Err(State::OutputFull { want: LINE_ROOM });
        }
        match self.turn.pin_large(key, large) {
            Ok(Some(pinned)) => self.push_pinned(key, pinned, end_it),
            refused => {
                self.ctx.pin_refund(large.bytes);
                if matches!(refused, Err(OpError::Parked)) { Err(State::Parked) } else { Ok(false) }
            }
        }
    }

    /// A retrieval that changes the item could not: the key counts as missing unless it is to be tried again.
    fn retrieval_failed(&mut self, error: OpError) -> Step {
        match error {
            OpError::Parked => Err(State::Parked),
            OpError::TooLarge | OpError::OutOfMemory => {
                self.counters().store_no_memory.add(1);
                self.counters().cmd_get.add(1);
                self.counters().get_misses.add(1);
                Ok(())
            }
        }
    }

    /// `gat` and `gats`.
    pub(super) fn get_and_touch(&mut self, get: Get<'c>, consumed: usize) -> Step {
        let expire = exptime::expire(get.touch.unwrap_or(0), self.ctx.now);
        let mut keys = get.keys;
        loop {
            let (keys_left, with_cas, touch) = (keys.rest().len(), get.with_cas, get.touch);
            self.session.retrieval = Some(Retrieval { consumed, keys_left, with_cas, touch });
            if self.ops >= OPS_A_BATCH {
                return Err(State::Yield);
            }
            self.room(LINE_ROOM)?;
            let Some(bytes) = keys.next() else { break };
            let key = self.turn.key(NAMESPACE, bytes);
            // A time that is past ends the item, but after it was told.
            let end_it = exptime::is_past(expire, self.ctx.now).then_some(expire);
            let touched = match end_it {
                Some(_) => Ok(true),
                None => self.turn.touch(&key, expire).map(|item| item.is_some()),
            };
            // A touched item's token is exact only once it has been taken.
            let item = match touched {
                Ok(false) => Ok(None),
                Ok(true) if get.with_cas => self.turn.gets(&key),
                Ok(true) => Ok(self.turn.peek(&key)),
                Err(error) => Err(error),
            };
            let mark = self.out.mark();
            let seen =
                self.ctx.watch.watched.any().then(|| Seen::of(item.as_ref().ok().and_then(|item| item.as_ref())));
            let found = match item {
                Ok(None) => Found::Miss,
                Ok(Some(item)) => write_item(self.out, self.ctx, &item, bytes, get.with_cas)?,
                Err(OpError::Parked) => return Err(State::Parked),
                Err(_) => Found::Miss,
            };
            let hit = self.finish_item(&key, found, mark, end_it)?;
            self.tell_get(bytes, seen, hit);
            let counters = self.counters();
            counters.cmd_touch.add(1);
            counters.cmd_get.add(1);
            if hit {
                counters.touch_hits.add(1);
                counters.get_hits.add(1);
            } else {
                counters.touch_misses.add(1);
                counters.get_misses.add(1);
            }
            self.ops += 1;
        }
        self.out.push(reply::END);
        self.session.retrieval = None;
        self.at += consumed;
        self.done(Command::Gat);
        Ok(())
    }

    /// Answers a request that could not be done.
    pub(super) fn op_error(&mut self, error: OpError, quiet: bool) -> Step {
        let told = match error {
            OpError::Parked => return Err(State::Parked),
            OpError::TooLarge => {
                self.counters().store_too_large.add(1);
                Error::TooLarge
            }
            OpError::OutOfMemory => {
                self.counters().store_no_memory.add(1);
                Error::OutOfMemory
            }
        };
        if !quiet {
            reply::error(self.out, told);
        }
        Ok(())
    }
}

/// Writes an item's line and value, unless the value is to be sent from the store. `LINE_ROOM` bytes are free.
fn write_item(
    out: &mut OutBuffer,
    ctx: &WorkerContext,
    item: &Item<'_>,
    key: &[u8],
    with_cas: bool,
) -> Result<Found, State> {
    let cas = with_cas.then_some(item.token);
    match item.value {
        Value::Bytes(bytes) => {
            let pinned = pin_or_room(out, ctx, bytes)?;
            reply::value_header(out, key, item.client_flags, bytes.len() as u64, cas);
            if let Some(pinned) = pinned {
                return Ok(Found::Pinned(pinned));
            }
            out.push(bytes);
            out.push(reply::CRLF);
            Ok(Found::Hit)
        }
        Value::Integer(number) => {
            let digits = Decimal::new(number);
            reply::value_header(out, key, item.client_flags, digits.as_slice().len() as u64, cas);
            out.push(digits.as_slice());
            out.push(reply::CRLF);
            Ok(Found::Hit)
        }
        Value::Large(large) => {
            reply::value_header(out, key, item.client_flags, large.bytes, cas);
            Ok(Found::Large(large))
        }
    }
}

/// Makes sure of room for a copy of the value and a line, or pins the value.
#[inline(always)]
pub(super) fn pin_or_room(out: &OutBuffer, ctx: &WorkerContext, value: &[u8]) -> Result<Option<Pinned>, State> {
    if value.len() >= PINNED_BYTES_MIN {
        return pin_long_or_room(out, ctx, value);
    }
    let want = LINE_ROOM + value.len();
    if out.room() < want { Err(State::OutputFull { want }) } else { Ok(None) }
}

#[cold]
fn pin_long_or_room(out: &OutBuffer, ctx: &WorkerContext, value: &[u8]) -> Result<Option<Pinned>, State> {
    if !out.has_pin_room_for(value.len()) {
        // It is asked again when the pins were sent, and may then need no copy.
        return Err(State::OutputFull { want: LINE_ROOM });
    }
    let pinned = ctx.pin(value);
    let want = LINE_ROOM + value.len();
    if pinned.is_none() && out.room() < want { Err(State::OutputFull { want }) } else { Ok(pinned) }
}
