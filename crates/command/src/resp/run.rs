//! Plain `GET` and `SET` requests, which have no options. Consecutive requests form a run, and [`crate::lookup::run`]
//! looks up their keys together.

use super::error::ErrorReply;
use crate::context::WorkerContext;
use crate::lookup::flash;
use crate::lookup::large::IN_PLACE_BYTES_MIN;
use crate::lookup::run::{self, PROBES_MAX};
use crate::metrics::Command;
use crate::metrics::command_counters::CommandCounters;
use crate::resp::call::{Call, Interrupt, Step};
use crate::resp::session::{SessionState, is_token};
use crate::resp::settle;
use crate::resp::statistics;
use crate::resp::string;
use crate::resp::value_reply;
use crate::session::ReadHead;
use crate::shared::Pause;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::PINNED_BYTES_MIN;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::number::Decimal;
use protocol::resp::{Lone, lone, reply};
use segment::{Expire, Guard, Hit, Key, Prefetched, PutMode, Value};

/// One request of a run.
#[derive(Clone, Copy)]
pub(super) struct RunRequest<'b> {
    key: Key<'b>,
    /// The value that a `SET` stores; `None` for a `GET`.
    value: Option<&'b [u8]>,
    /// The end of the request, in bytes from the start of the buffer.
    end: usize,
}

impl<'b> run::Probe<'b> for RunRequest<'b> {
    #[inline(always)]
    fn key(&self) -> &Key<'b> {
        &self.key
    }

    #[inline(always)]
    fn command(&self) -> Command {
        if self.value.is_some() { Command::PlainSet } else { Command::PlainGet }
    }

    #[inline(always)]
    fn is_read(&self) -> bool {
        self.value.is_none()
    }

    #[inline(always)]
    fn ends(&self) -> bool {
        true
    }
}

/// A run of plain requests.
type Run<'b> = run::Run<RunRequest<'b>>;

impl<'c, 'l> run::Visit<'c, 'l> for Call<'c, 'l> {
    type Probe = RunRequest<'c>;

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
    fn answer(&mut self, probe: &RunRequest<'c>, ahead: Prefetched<'_>) -> Result<bool, SessionWait> {
        if self.guard.locks().is_locked_by_other(&probe.key) {
            return answer_locked(self);
        }
        match probe.value {
            None => answer_get(self, &probe.key, ahead),
            Some(value) => answer_set(self, &probe.key, value),
        }
    }

    #[inline(always)]
    fn answered(&mut self, probe: &RunRequest<'c>) {
        self.at = probe.end;
    }

    fn stopped_at(&mut self, _: &RunRequest<'c>) {}

    #[inline(always)]
    fn account(&mut self, command: Command, requests: usize) {
        self.ops += requests;
        self.session.last = command.name();
        let line = &self.buf[self.line_at..];
        self.ctx.ops_done(self.out, self.session.namespace, (command, requests), line);
        self.line_at = self.at;
    }
}

/// Parks a request for a key that another thread's key lock set locks. If a script that runs for too long may hold the
/// key for ever, answers with an error.
#[cold]
fn answer_locked(call: &mut Call<'_, '_>) -> Result<bool, SessionWait> {
    if call.ctx.shared.scripts.is_busy(call.ctx.now) {
        call.room(0)?;
        call.fault(ErrorReply::Busy);
        return Ok(false);
    }
    call.ctx.retry_at_once = true;
    Err(SessionWait::Parked)
}

/// Returns the key and the length of the first request in the received bytes, if it is a plain request.
#[inline]
pub(crate) fn head_key<'b>(buf: &'b [u8], session: &SessionState) -> Option<(&'b [u8], usize)> {
    if !session.is_plain() {
        return None;
    }
    lone(buf, IN_PLACE_BYTES_MIN).map(|(lone, consumed)| (lone.key(), consumed))
}

/// Returns true if plain requests may be executed in runs. This is the case if no client monitors requests, no events
/// about absent keys are published, and no plain request of this client can be refused.
#[inline(always)]
pub(super) fn runs_plain(call: &Call<'_, '_>) -> bool {
    let restrained = call.ctx.admission.restrained || call.session.is_restricted || is_token(call.session);
    let free = (!restrained || is_free(call)) && !call.ctx.has_op_quota(call.session.namespace);
    free && !call.is_unauthenticated() && !call.ctx.push.watch.watched.inspects_each_request()
}

/// Returns true if no restriction applies to this client: commands are neither paused nor disabled, its user has all
/// rights, and its database was not exchanged with another one.
#[cold]
fn is_free(call: &Call<'_, '_>) -> bool {
    let others = call.ctx.admission.pause != Pause::None || !call.ctx.shared.config.disabled.is_empty();
    let is_settled = settle::is_settled(call.session, &call.ctx.shared.namespaces);
    let has_all_rights = call.session.all_rights_at == call.ctx.admission.user_changes;
    !others && is_settled && !call.session.is_restricted && !is_token(call.session) && has_all_rights
}

/// Executes the plain requests at the start of the input. Returns `None` if the first request is not plain, or if plain
/// requests may not be executed in runs.
#[inline]
pub(super) fn run_of_plain(call: &mut Call<'_, '_>) -> Option<Step> {
    if !call.session.is_plain() || !runs_plain(call) {
        return None;
    }
    let (first, consumed) = lone(call.rest(), IN_PLACE_BYTES_MIN)?;
    let key = call.key(first.key());
    Some(run_from(call, first, key, consumed, Prefetched::default()))
}

/// Executes a session's first request, which was prefetched (the head), and the plain requests after it.
#[inline]
pub(super) fn head_run<'c, 'l>(call: &mut Call<'c, 'l>, head: ReadHead<'l>) -> Step {
    let Some((first, consumed)) = lone(call.rest(), IN_PLACE_BYTES_MIN) else { return Ok(()) };
    debug_assert!(
        consumed == head.consumed && first.key().len() == head.key_len,
        "the head was created from other bytes"
    );
    run_from(call, first, head.key.key(first.key()), consumed, head.ahead)
}

#[inline(always)]
fn run_from<'c, 'l>(
    call: &mut Call<'c, 'l>,
    first: Lone<'c>,
    key: Key<'c>,
    consumed: usize,
    ahead: Prefetched<'l>,
) -> Step {
    let mut run = Run::new();
    let mut end = call.at + consumed;
    run.push(probe(first, key, end));
    let run_max = PROBES_MAX.min(OPS_A_BATCH - call.ops);
    while run.len() < run_max {
        let Some((next, consumed)) = lone(&call.buf[end..], IN_PLACE_BYTES_MIN) else { break };
        let key = call.key(next.key());
        call.guard.items().prefetch(&key);
        end += consumed;
        run.push(probe(next, key, end));
    }
    // The start of the requests that are not accounted for yet, for the slow log.
    call.line_at = call.at;
    run::answer(call, &run, ahead)
}

/// Replies to a `GET`. Returns true if the key existed.
#[inline(always)]
fn answer_get(call: &mut Call<'_, '_>, key: &Key<'_>, ahead: Prefetched<'_>) -> Result<bool, SessionWait> {
    match answer_short(call, key, ahead)? {
        Some(hit) => Ok(hit),
        None => answer_long(call, key),
    }
}

/// Replies with a copy of a key's value, or with null. Returns true if the key existed. Returns `None`, without a
/// reply, if the value is too long to be copied, or is not a string.
#[inline(always)]
pub(super) fn answer_short(
    call: &mut Call<'_, '_>,
    key: &Key<'_>,
    ahead: Prefetched<'_>,
) -> Result<Option<bool>, SessionWait> {
    match call.guard.items().read(key, ahead) {
        Some(Hit { value: Value::Bytes(bytes), .. }) if bytes.len() < PINNED_BYTES_MIN => {
            call.room(bytes.len())?;
            let written = reply::write_bulk(call.out.spare(), bytes);
            call.out.advance(written);
            Ok(Some(true))
        }
        None if call.guard.is_tiered() => short_from_flash(call, key).map(Some),
        None => {
            call.room(0)?;
            call.null();
            Ok(Some(false))
        }
        Some(Hit { value: Value::Integer(number), .. }) => {
            call.room(0)?;
            let written = reply::write_bulk(call.out.spare(), Decimal::new(number).as_slice());
            call.out.advance(written);
            Ok(Some(true))
        }
        Some(_) => Ok(None),
    }
}

/// Replies with the value of a key that is not in memory, after it was read from flash, or with null. Returns true if
/// the key existed.
#[cold]
#[inline(never)]
fn short_from_flash(call: &mut Call<'_, '_>, key: &Key<'_>) -> Result<bool, SessionWait> {
    let out = &mut *call.out;
    let replied = flash::read(call.guard, key, |value, _| {
        let mut digits = None;
        let bytes = flash::text(value, &mut digits);
        let want = LINE_ROOM + bytes.len();
        if out.room() < want {
            return Err(SessionWait::OutputFull { want });
        }
        let written = reply::write_bulk(out.spare(), bytes);
        out.advance(written);
        Ok(())
    })?;
    if !replied {
        call.room(0)?;
        call.null();
    }
    Ok(replied)
}

/// Replies with a long value, which is sent directly from the store, or with an error if the value is not a string.
#[cold]
fn answer_long(call: &mut Call<'_, '_>, key: &Key<'_>) -> Result<bool, SessionWait> {
    call.room(0)?;
    let mark = call.out.mark();
    match value_reply::value_of(call, key.bytes()) {
        Ok(hit) => Ok(hit),
        Err(Interrupt::State(state)) => {
            call.out.truncate(mark);
            Err(state)
        }
        Err(Interrupt::Fault(fault)) => {
            call.out.truncate(mark);
            statistics::plain_failed(call, "get", fault);
            Ok(true)
        }
        Err(Interrupt::Quit | Interrupt::UnderWay | Interrupt::Queued) => unreachable!("no value ends a connection"),
    }
}

/// Stores the value of a `SET`, and replies.
#[inline(always)]
fn answer_set(call: &mut Call<'_, '_>, key: &Key<'_>, value: &[u8]) -> Result<bool, SessionWait> {
    if call.out.room() < LINE_ROOM {
        return Err(SessionWait::OutputFull { want: LINE_ROOM });
    }
    match string::store_key(call, key, value, PutMode::Set, Expire::Never) {
        Ok(_) => call.out.push(reply::OK),
        Err(Interrupt::State(state)) => return Err(state),
        Err(Interrupt::Fault(fault)) => statistics::plain_failed(call, "set", fault),
        Err(Interrupt::Quit | Interrupt::UnderWay | Interrupt::Queued) => unreachable!("no value ends a connection"),
    }
    Ok(true)
}

#[inline(always)]
fn probe<'b>(lone: Lone<'b>, key: Key<'b>, end: usize) -> RunRequest<'b> {
    let value = if let Lone::Set { value, .. } = lone { Some(value) } else { None };
    RunRequest { key, value, end }
}
