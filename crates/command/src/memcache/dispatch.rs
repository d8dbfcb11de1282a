//! Dispatch: selects and calls the function that executes a request.

use super::LINE_ROOM;
use super::call::{Call, Step};
use super::session::SessionState;
use crate::context::WorkerContext;
use crate::lookup::ahead::PrefetchedHead;
use crate::memcache::auth;
use crate::memcache::dump;
use crate::memcache::get;
use crate::memcache::guarded;
use crate::memcache::large;
use crate::memcache::meta;
use crate::memcache::rights;
use crate::memcache::run;
use crate::memcache::small;
use crate::memcache::stats;
use crate::memcache::store;
use crate::memcache::watch;
use crate::metrics::Command;
use crate::visit::out::OutBuffer;
use crate::visit::progress::{OPS_A_BATCH, Progress, SessionWait};
use protocol::memcache::request::Dump;
use protocol::memcache::{Error, Parsed, Request, lone_get, parse, reply};
use segment::Guard;

/// Executes the requests at the start of `buf`, at most [`OPS_A_BATCH`] operations, and returns the progress. `head` is
/// the prefetched first request of `buf`. The caller created it from the same bytes and session, under the same guard.
pub fn serve<'l>(
    guard: &mut Guard<'l>,
    buf: &[u8],
    head: Option<PrefetchedHead<'l>>,
    out: &mut OutBuffer,
    session: &mut SessionState,
    ctx: &mut WorkerContext,
) -> Progress {
    // The configuration may permit fewer operations than `OPS_A_BATCH` in a visit. The difference counts as executed
    // from the start.
    let ops = OPS_A_BATCH - ctx.shared.config.requests_a_visit;
    let guarded = ctx.keys.guards & session.guards != 0;
    let call = &mut Call {
        guard,
        buf,
        at: 0,
        line_at: 0,
        out,
        session,
        ctx,
        ops,
        guarded,
        run_max: crate::lookup::run::PROBES_MAX,
        next_set: None,
    };
    if guarded && !rights::refresh(call) {
        return Progress { consumed: 0, state: SessionWait::Close };
    }
    let mut done = match head {
        _ if auth::is_unauthenticated(call) && auth::is_at_request(call) => auth::authenticate(call),
        Some(PrefetchedHead::Read(head)) if !call.guarded => run::head_run(call, head),
        Some(PrefetchedHead::Set(set)) if !call.guarded => {
            call.next_set = Some(set);
            Ok(())
        }
        _ => Ok(()),
    };
    let state = loop {
        match done {
            Ok(()) => done = step(call),
            Err(state) => break state,
        }
    };
    call.ctx.pace.charge(call.ops - ops);
    Progress { consumed: call.at, state }
}

fn step(call: &mut Call<'_, '_>) -> Step {
    if call.ops >= OPS_A_BATCH || call.ctx.is_slice_over() {
        call.counters().yields.add(1);
        return Err(SessionWait::Yield);
    }
    if call.session.discard_bytes > 0 {
        return discard(call);
    }
    call.room(LINE_ROOM)?;
    if call.session.large.is_some() {
        // An earlier call consumed the request line.
        call.line_at = call.buf.len();
        return large::continue_large(call);
    }
    call.line_at = call.at;
    if let Some(retrieval) = call.session.retrieval {
        return run::continue_retrieval(call, retrieval);
    }
    if call.at == call.buf.len() {
        return Err(SessionWait::NeedInput { want: 0 });
    }
    if let Some((key, consumed)) = lone_get(call.rest()).filter(|_| !call.guarded) {
        return run::lone_run(call, key, consumed);
    }
    match parse(call.rest()) {
        Parsed::Incomplete => Err(SessionWait::NeedInput { want: 0 }),
        Parsed::Request { request, consumed } if call.guarded => execute_guarded(call, request, consumed),
        Parsed::Request { request, consumed } => execute(call, request, consumed),
        Parsed::Bad { error, consumed, swallow, quiet } => {
            guarded::switch_to_listener(call);
            call.hide_line();
            call.at += consumed;
            call.session.discard_bytes = swallow;
            call.counters().protocol_errors.add(1);
            if !quiet {
                reply::error(call.out, error);
            }
            call.done(Command::Other);
            Ok(())
        }
        Parsed::Fatal(error) => {
            guarded::switch_to_listener(call);
            call.hide_line();
            call.at = call.buf.len();
            call.counters().protocol_errors.add(1);
            reply::error(call.out, error);
            call.done(Command::Other);
            Err(SessionWait::Close)
        }
    }
}

#[inline(always)]
pub(super) fn execute<'c>(call: &mut Call<'c, '_>, request: Request<'c>, consumed: usize) -> Step {
    match request {
        Request::Get(get) if get.touch.is_none() => run::get(call, get, consumed),
        Request::Get(get) => get::get_and_touch(call, get, consumed),
        Request::Store(header) => store::store(call, header, consumed),
        Request::Delete { key, noreply } => small::delete(call, key, noreply, consumed),
        Request::Arith(arith) => small::arith(call, arith, consumed),
        Request::Touch { key, exptime, noreply } => small::touch(call, key, exptime, noreply, consumed),
        Request::FlushAll { delay, noreply } if call.ctx.shared.config.flush_command => {
            small::flush_all(call, delay, noreply, consumed)
        }
        Request::FlushAll { noreply, .. } => call.refused(Error::FlushDisabled, noreply, consumed),
        Request::MetaGet(mut meta) => meta::meta_get(call, call.tokens(&mut meta), consumed),
        Request::MetaStore(mut meta, len) => store::meta_store(call, call.tokens(&mut meta), len, consumed),
        Request::MetaDelete(mut meta) => meta::meta_delete(call, call.tokens(&mut meta), consumed),
        Request::MetaArith(mut meta) => meta::meta_arith(call, call.tokens(&mut meta), consumed),
        Request::MetaDebug(key) => small::meta_debug(call, key, consumed),
        Request::MetaNoop => call.answer(reply::META_NOOP, consumed),
        Request::Version => small::version(call, consumed),
        Request::Verbosity { noreply } if noreply => call.answer(b"", consumed),
        Request::Verbosity { .. } | Request::CrawlerSetting => call.answer(reply::OK, consumed),
        Request::CacheMemlimit { mib, noreply } => small::cache_memlimit(call, mib, noreply, consumed),
        Request::Quit => {
            call.at = call.buf.len();
            Err(SessionWait::Close)
        }
        Request::Shutdown { is_valid } => small::shutdown(call, is_valid, consumed),
        Request::RefreshCerts => small::refresh_certs(call, consumed),
        Request::Stats(topic) => stats::stats(call, topic, consumed),
        Request::Watch(watch) if call.ctx.shared.config.watch_command => watch::watch(call, watch, consumed),
        Request::Watch(_) => call.refused(Error::WatchDisabled, false, consumed),
        Request::Dump(format) if call.ctx.shared.config.dump_command => dump::dump(call, format.into(), consumed),
        Request::Dump(Dump::Metadump) => call.refused(Error::MetadumpDisabled, false, consumed),
        Request::Dump(Dump::Mgdump) => call.refused(Error::MgdumpDisabled, false, consumed),
    }
}

fn discard(call: &mut Call<'_, '_>) -> Step {
    let gone = call.session.discard_bytes.min(call.rest().len() as u64);
    call.at += gone as usize;
    call.session.discard_bytes -= gone;
    if call.session.discard_bytes > 0 { Err(SessionWait::NeedInput { want: 1 }) } else { Ok(()) }
}

/// Refuses a request with `error`, and discards its value.
fn refuse<'c>(call: &mut Call<'c, '_>, request: &Request<'c>, error: Error, consumed: usize) -> Step {
    let (value_bytes, quiet) = match request {
        Request::Store(header) => (u64::from(header.value_len) + 2, header.noreply),
        Request::MetaStore(_, value_len) => (u64::from(*value_len) + 2, false),
        _ => (0, false),
    };
    call.session.discard_bytes = value_bytes;
    call.refused(error, quiet, consumed)
}

/// Executes a request, unless clients are paused, the client's user lacks a right to it, or the quota of the user or of
/// one of the request's namespaces is used up.
#[cold]
fn execute_guarded<'c>(call: &mut Call<'c, '_>, request: Request<'c>, consumed: usize) -> Step {
    let goes_on = call.session.is_counted || !call.session.is_between_requests();
    if !goes_on && guarded::is_paused(call, &request) {
        call.ctx.admission.has_delayed = true;
        return Err(SessionWait::Parked);
    }
    if !goes_on && auth::is_unauthenticated(call) {
        // Users changed while the previous request was received. The next visit asks the client to authenticate.
        return Err(SessionWait::Yield);
    }
    let reached = guarded::switch_to_keys(call, &request);
    if !goes_on && !rights::permit(call, &request, reached) {
        return refuse(call, &request, Error::NoPermission, consumed);
    }
    if !goes_on && !rights::take_op(call, &request) {
        return refuse(call, &request, Error::TooManyOpsOfUser, consumed);
    }
    if !goes_on && !guarded::take_quota(call, reached) {
        return refuse(call, &request, Error::TooManyOps, consumed);
    }
    let step = execute(call, request, consumed);
    // A retry of this request is not counted as another operation.
    call.session.is_counted = step.is_err() && call.session.is_between_requests();
    step
}
