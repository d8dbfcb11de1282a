//! Plain retrievals: `get` and `gets`. The keys of consecutive requests are looked up together by
//! [`crate::lookup::run`].
//!
//! A request is consumed together with its last key. A partly answered request is stored as a [`Retrieval`].

use super::LINE_ROOM;
use super::call::{Call, Step};
use super::get::{Found, write_value};
use super::session::SessionState;
use super::state::Retrieval;
use super::watch::WatchedLookup;
use crate::context::WorkerContext;
use crate::keyspace::prefixes::Count;
use crate::lookup::flash;
use crate::lookup::run;
use crate::memcache::get;
use crate::memcache::guarded;
use crate::memcache::watch;
use crate::metrics::Command;
use crate::metrics::command_counters::CommandCounters;
use crate::session::ReadHead;
use crate::visit::out::PINNED_BYTES_MIN;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::memcache::request::Get;
use protocol::memcache::{Keys, Parsed, Request, lone_get, parse, reply, set_key};
use segment::{Guard, Hit, Key, OpError, Prefetched, Value};

/// Returns the key and the length in bytes of the first request in `buf`, if that request is a plain `get` of one key.
#[inline]
pub(crate) fn head_key<'b>(buf: &'b [u8], session: &SessionState) -> Option<(&'b [u8], usize)> {
    if session.is_between_requests() { lone_get(buf) } else { None }
}

/// Returns the key of the first request in `buf`, if that request is a `set`.
pub(crate) fn head_set_key<'b>(buf: &'b [u8], session: &SessionState) -> Option<&'b [u8]> {
    if session.is_between_requests() { set_key(buf) } else { None }
}

/// The length of `get ` before the key of a plain `get` of one key, in bytes.
const LONE_VERB_BYTES: usize = 4;

/// A key of a run. Positions are offsets from the start of the buffer, in bytes.
#[derive(Clone, Copy)]
pub(super) struct RunKey<'b> {
    key: Key<'b>,
    /// The position of this key, from which parsing of its request's keys can resume.
    from: u32,
    /// The position after this key, from which parsing of its request's keys can resume.
    behind: u32,
    /// The position of the end of the keys of its request.
    keys_end: u32,
    /// The position of the end of its request.
    line_end: u32,
    command: Command,
    /// True if this is the last key of its request.
    ends: bool,
}

impl RunKey<'_> {
    fn with_cas(&self) -> bool {
        self.command == Command::Gets
    }
}

impl<'b> run::Probe<'b> for RunKey<'b> {
    #[inline(always)]
    fn key(&self) -> &Key<'b> {
        &self.key
    }

    #[inline(always)]
    fn command(&self) -> Command {
        self.command
    }

    #[inline(always)]
    fn is_read(&self) -> bool {
        true
    }

    #[inline(always)]
    fn ends(&self) -> bool {
        self.ends
    }
}

/// Keys that are looked up together.
type Run<'b> = run::Run<RunKey<'b>>;

/// Answers the keys of a run one by one. A request whose reply continues later is stored as a [`Retrieval`].
impl<'c, 'l> run::Visit<'c, 'l> for Call<'c, 'l> {
    type Probe = RunKey<'c>;

    #[inline(always)]
    fn guard(&self) -> &Guard<'l> {
        self.guard
    }

    #[inline(always)]
    fn parts(&mut self) -> (&mut WorkerContext, &Guard<'l>) {
        (self.ctx, self.guard)
    }

    #[inline(always)]
    fn counters(&self) -> &CommandCounters {
        Call::counters(self)
    }

    #[inline(always)]
    fn answer(&mut self, probe: &RunKey<'c>, ahead: Prefetched<'_>) -> Result<bool, SessionWait> {
        let watched = watch::watched(self);
        if !(watched || probe.with_cas()) {
            // A plain read reads from flash itself if necessary, so only locks are checked here.
            if self.guard.locks().is_locked_by_other(&probe.key) {
                self.ctx.retry_at_once = true;
                return Err(SessionWait::Parked);
            }
            return answer_plain(self, probe, ahead);
        }
        if self.guard.locks().is_blocked(&probe.key) {
            self.ctx.retry_at_once |= self.guard.is_contended();
            return Err(SessionWait::Parked);
        }
        let hit = look_up(self, probe, watched)?;
        if probe.ends {
            self.out.push(reply::END);
        }
        Ok(hit)
    }

    #[inline(always)]
    fn answered(&mut self, probe: &RunKey<'c>) {
        if probe.ends {
            self.at = probe.line_end as usize;
            self.session.retrieval = None;
        } else {
            // Each key counts as an operation, even if its request is not complete.
            self.session.retrieval = Some(retrieval_from(self, probe, probe.behind));
            self.ops += 1;
        }
    }

    fn stopped_at(&mut self, probe: &RunKey<'c>) {
        self.session.retrieval = Some(retrieval_from(self, probe, probe.from));
    }

    #[inline(always)]
    fn account(&mut self, command: Command, requests: usize) {
        self.ops += requests;
        self.ctx.ops_done(self.out, self.session.namespace, (command, requests), &self.buf[self.line_at..]);
        self.line_at = self.at;
    }
}

/// Executes a plain `get` of one key, whose line has `consumed` bytes, together with the retrievals that follow it.
#[inline]
pub(super) fn lone_run<'c>(call: &mut Call<'c, '_>, key: &'c [u8], consumed: usize) -> Step {
    let mut run = Run::new();
    add_lone(&mut run, call.at, call.guard.key(call.session.namespace, key));
    follow(call, &mut run, call.at + consumed);
    run::answer(call, &run, Prefetched::default())
}

/// Executes the request of a prefetched head, together with the retrievals that follow it.
#[inline]
pub(super) fn head_run<'c, 'l>(call: &mut Call<'c, 'l>, head: ReadHead<'l>) -> Step {
    let mut run = Run::new();
    let key = head.key.key(&call.rest()[LONE_VERB_BYTES..][..head.key_len]);
    add_lone(&mut run, call.at, key);
    follow(call, &mut run, call.at + head.consumed);
    run::answer(call, &run, head.ahead)
}

/// Executes a `get` or `gets`, together with the retrievals that follow it.
pub(super) fn get<'c>(call: &mut Call<'c, '_>, get: Get<'c>, consumed: usize) -> Step {
    let mut run = Run::new();
    if add(call, &mut run, call.at, get, consumed) {
        follow(call, &mut run, call.at + consumed);
    }
    run::answer(call, &run, Prefetched::default())
}

/// Continues a retrieval that was partly answered.
pub(super) fn continue_retrieval(call: &mut Call<'_, '_>, retrieval: Retrieval) -> Step {
    let Retrieval { consumed, keys_left, with_cas, touch } = retrieval;
    let line = &call.rest()[..consumed - 1];
    let text = line.strip_suffix(b"\r").unwrap_or(line);
    let left = Get { keys: Keys::resume(&text[text.len() - keys_left..]), with_cas, touch };
    if call.guarded {
        guarded::switch_to_run(call, left.keys);
    }
    if touch.is_some() { get::get_and_touch(call, left, consumed) } else { get(call, left, consumed) }
}

/// Returns the maximum number of keys that this call may look up together.
fn run_max(call: &Call<'_, '_>) -> usize {
    call.run_max.min(OPS_A_BATCH - call.ops)
}

#[inline(always)]
fn add_lone<'c>(run: &mut Run<'c>, at: usize, key: Key<'c>) {
    let from = at + LONE_VERB_BYTES;
    let keys_end = from + key.bytes().len();
    let [from, keys_end, line_end] = [from, keys_end, keys_end + 2].map(|place| place as u32);
    run.push(RunKey { key, from, behind: keys_end, keys_end, line_end, command: Command::Get, ends: true });
}

/// Adds the keys of the request that begins at `at` to the run. Returns false if some of them do not fit.
fn add<'c>(call: &Call<'c, '_>, run: &mut Run<'c>, at: usize, get: Get<'c>, consumed: usize) -> bool {
    let mut several = run.is_empty() && call.session.retrieval.is_some();
    let line_end = at + consumed;
    let line = &call.buf[at..line_end - 1];
    let keys_end = at + line.strip_suffix(b"\r").unwrap_or(line).len();
    let mut keys = get.keys;
    let mut read_from = keys_end - keys.rest().len();
    let mut next = keys.next();
    while let Some(bytes) = next {
        if run.len() == run_max(call) {
            return false;
        }
        let key = call.guard.key(call.session.namespace, bytes);
        call.guard.items().prefetch(&key);
        let read_behind = keys_end - keys.rest().len();
        next = keys.next();
        let ends = next.is_none();
        let command = match (get.with_cas, several || !ends) {
            (true, _) => Command::Gets,
            (false, true) => Command::MultiGet,
            (false, false) => Command::Get,
        };
        several = true;
        let [from, behind] = [read_from, read_behind].map(|place| place as u32);
        let [keys_end, line_end] = [keys_end, line_end].map(|place| place as u32);
        run.push(RunKey { key, from, behind, keys_end, line_end, command, ends });
        read_from = read_behind;
    }
    true
}

/// Adds the keys of the retrievals that begin at `at` to the run, while they fit.
#[inline]
fn follow<'c>(call: &Call<'c, '_>, run: &mut Run<'c>, mut at: usize) {
    let run_max = run_max(call);
    while run.len() < run_max {
        let rest = &call.buf[at..];
        if let Some((bytes, consumed)) = lone_get(rest) {
            let key = call.guard.key(call.session.namespace, bytes);
            call.guard.items().prefetch(&key);
            add_lone(run, at, key);
            at += consumed;
            continue;
        }
        if !rest.starts_with(b"get") {
            return;
        }
        let Parsed::Request { request: Request::Get(next), consumed } = parse(rest) else { return };
        if next.touch.is_some() || !add(call, run, at, next, consumed) {
            return;
        }
        at += consumed;
    }
}

/// Returns the state of the request of `probe`, to continue with the keys at position `from`.
fn retrieval_from(call: &Call<'_, '_>, probe: &RunKey<'_>, from: u32) -> Retrieval {
    Retrieval {
        consumed: probe.line_end as usize - call.at,
        keys_left: (probe.keys_end - from) as usize,
        with_cas: probe.with_cas(),
        touch: None,
    }
}

/// Answers a key of a `get` while there are no watchers. Returns true if the key existed.
#[inline(always)]
fn answer_plain(call: &mut Call<'_, '_>, probe: &RunKey<'_>, ahead: Prefetched<'_>) -> Result<bool, SessionWait> {
    let key = probe.key.bytes();
    match call.guard.items().read(&probe.key, ahead) {
        Some(Hit { value: Value::Bytes(bytes), client_flags, .. }) if bytes.len() < PINNED_BYTES_MIN => {
            let want = LINE_ROOM + bytes.len();
            if call.out.room() < want {
                return Err(SessionWait::OutputFull { want });
            }
            let written = reply::write_hit(call.out.spare(), key, client_flags, bytes, probe.ends);
            call.out.advance(written);
            Ok(true)
        }
        None if call.guard.is_tiered() => answer_from_flash(call, probe),
        None => answer_miss(call, probe),
        Some(Hit { value, client_flags, .. }) => {
            if call.out.room() < LINE_ROOM {
                return Err(SessionWait::OutputFull { want: LINE_ROOM });
            }
            let mark = call.out.mark();
            let found = write_value(call.out, call.ctx, key, value, client_flags, None)?;
            let hit = get::finish_item(call, &probe.key, found, mark, None)?;
            if probe.ends {
                call.out.push(reply::END);
            }
            Ok(hit)
        }
    }
}

fn answer_miss(call: &mut Call<'_, '_>, probe: &RunKey<'_>) -> Result<bool, SessionWait> {
    call.room(LINE_ROOM)?;
    if probe.ends {
        call.out.push(reply::END);
    }
    Ok(false)
}

/// Answers a key that is not in memory. Returns true if the key was on flash.
#[cold]
#[inline(never)]
fn answer_from_flash(call: &mut Call<'_, '_>, probe: &RunKey<'_>) -> Result<bool, SessionWait> {
    let out = &mut *call.out;
    let replied = flash::read(call.guard, &probe.key, |value, client_flags| {
        let mut digits = None;
        let bytes = flash::text(value, &mut digits);
        let want = LINE_ROOM + bytes.len();
        if out.room() < want {
            return Err(SessionWait::OutputFull { want });
        }
        let written = reply::write_hit(out.spare(), probe.key.bytes(), client_flags, bytes, probe.ends);
        out.advance(written);
        Ok(())
    })?;
    if replied { Ok(true) } else { answer_miss(call, probe) }
}

/// Answers a key of a `gets`, or a key of any retrieval while there are watchers. Returns true if the key existed.
#[cold]
fn look_up(call: &mut Call<'_, '_>, probe: &RunKey<'_>, watched: bool) -> Result<bool, SessionWait> {
    call.room(LINE_ROOM)?;
    let item = if probe.with_cas() {
        match call.guard.versions().gets(&probe.key) {
            Ok(item) => item,
            Err(error) => return retrieval_failed(call, error).map(|()| false),
        }
    } else {
        call.guard.items().get(&probe.key)
    };
    let mark = call.out.mark();
    let seen = watched.then(|| WatchedLookup::of(item.as_ref()));
    let found = match item {
        None => Found::Miss,
        Some(item) => {
            let cas = probe.with_cas().then(|| call.ctx.client_token(item.token));
            write_value(call.out, call.ctx, probe.key.bytes(), item.value, item.client_flags, cas)?
        }
    };
    let hit = get::finish_item(call, &probe.key, found, mark, None)?;
    watch::report_get(call, probe.key.bytes(), seen, hit);
    watch::report_retrieved(call, probe.key.bytes(), hit, false);
    watch::count_prefix(call, probe.key.bytes(), Count::Get { hit });
    Ok(hit)
}

/// Handles an error of a retrieval that changes its item. If the operation is parked, returns that state. Otherwise,
/// the key counts as missing.
fn retrieval_failed(call: &mut Call<'_, '_>, error: OpError) -> Step {
    match error {
        OpError::Parked => Err(SessionWait::Parked),
        OpError::TooLarge | OpError::OutOfMemory => {
            call.counters().store_no_memory.add(1);
            Ok(())
        }
    }
}
