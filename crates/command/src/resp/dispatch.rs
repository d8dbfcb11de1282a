//! Dispatch: parses received bytes, executes the function of each command, and turns its result into the state of the
//! session.
//!
//! ```text
//!   step ──> parse ──> execute ──> run: rights, transaction, flash ──> the command's function
//!                         └── counts, monitors, effects of an error
//! ```

use super::acl::KnownKeys;
use super::call::{Call, Interrupt, Run, Step};
use super::error::ErrorReply;
use super::functions::FUNCTIONS;
use super::session::{SessionState, take_auth_wait};
use super::{catalog, error};
use crate::context::WorkerContext;
use crate::lookup::ahead::PrefetchedHead;
use crate::metrics::Command;
use crate::metrics::command_stats::Outcome;
use crate::resp::absent;
use crate::resp::admit;
use crate::resp::aside;
use crate::resp::atomic;
use crate::resp::blocking;
use crate::resp::long;
use crate::resp::own_transaction;
use crate::resp::pubsub;
use crate::resp::run;
use crate::resp::secrets::{self, SecretArgs};
use crate::resp::state::Answers;
use crate::resp::state::long::{Collected, Long, LongStage};
use crate::resp::state::transaction::Transaction;
use crate::resp::statistics::{self, StatKey};
use crate::resp::tracking;
use crate::resp::transaction;
use crate::resp::typed;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::OutBuffer;
use crate::visit::progress::{OPS_A_BATCH, Progress, SessionWait};
use protocol::resp::{Args, Limits, Parsed, Parser};
use segment::Guard;
/// Executes the requests at the start of `buf`, at most [`OPS_A_BATCH`] operations, and returns the progress. `head`
/// was created from the same bytes and session, under the same guard.
pub fn serve<'l>(
    guard: &mut Guard<'l>,
    buf: &[u8],
    head: Option<PrefetchedHead<'l>>,
    out: &mut OutBuffer,
    session: &mut SessionState,
    ctx: &mut WorkerContext,
) -> Progress {
    // The configuration may allow fewer than [`OPS_A_BATCH`] operations per visit. The difference is counted as if
    // these operations had already been executed.
    let ops = OPS_A_BATCH - ctx.shared.config.requests_a_visit;
    let call = &mut Call { ops, ..Call::new((guard, ctx), buf, out, session, &FUNCTIONS) };
    let sent = match aside::send_pending(call) {
        // A turn does not wait until the client has read its messages.
        Err(SessionWait::OutputFull { .. }) if blocking::takes_turns(call.session) => Ok(()),
        sent => sent,
    };
    let mut done = match (sent, head) {
        (Ok(()), Some(PrefetchedHead::Read(head))) if run::runs_plain(call) && call.out.room() >= LINE_ROOM => {
            run::head_run(call, head)
        }
        (done, _) => done,
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

/// Releases the locks and memory that an ended connection holds. Returns false if the caller must call this function
/// again in a later iteration.
pub(crate) fn release(session: &mut SessionState, guard: &mut Guard<'_>, ctx: &mut WorkerContext) -> bool {
    // The rest of a transaction must report its changes to clients that wait.
    ctx.push.watch.watched = ctx.shared.watch.watched();
    long::end(session, guard, ctx);
    admit::forget_paused(session, ctx);
    take_auth_wait(session).abandon(ctx);
    let connection = ctx.push.watch.connection;
    ctx.connection_table().client_info(connection, |client_info| client_info.is_ending = true);
    ctx.shared.channels.end_outbox(ctx.worker, connection);
    let is_released = session.end_some_subscriptions() && transaction::end(session, guard, ctx, &FUNCTIONS);
    if is_released {
        blocking::end(session, guard, ctx);
    }
    is_released
}

fn step(call: &mut Call<'_, '_>) -> Step {
    if call.ops >= OPS_A_BATCH || call.ctx.is_slice_over() {
        call.counters().yields.add(1);
        return Err(SessionWait::Yield);
    }
    if call.out.room() < LINE_ROOM && !blocking::takes_turns(call.session) {
        return Err(SessionWait::OutputFull { want: LINE_ROOM });
    }
    if call.session.is_under_way() {
        return atomic::continue_transaction(call);
    }
    if call.session.long.is_some() {
        return match Long::take_collected(&mut call.session.long) {
            Some((entry, collected)) => execute_collected(call, entry, collected),
            None => long::continue_long(call),
        };
    }
    if call.at == call.buf.len() {
        return Err(SessionWait::NeedInput { want: 0 });
    }
    if let Some(step) = run::run_of_plain(call) {
        return step;
    }
    let mut limits = call.limits();
    loop {
        return match call.session.parser.parse(call.rest(), &limits) {
            Parsed::Incomplete => Err(SessionWait::NeedInput { want: 0 }),
            Parsed::Request { args, consumed } => execute(call, args, consumed),
            Parsed::Inline { inline: words, consumed } => inline(call, &words, consumed),
            Parsed::Nothing { consumed } => {
                call.at += consumed;
                Ok(())
            }
            Parsed::Head { args, value_len, left, consumed } => {
                if !long::head(call, args, value_len, left, consumed)? {
                    // A buffer receives this value completely. Only a later, longer value may be received in parts.
                    limits.long_bytes_min = value_len + 1;
                    continue;
                }
                Ok(())
            }
            Parsed::Long { args, left, consumed } => long::too_long(call, args, left, consumed),
            Parsed::Fatal(error) => call.fatal(error),
        };
    }
}

/// Executes an inline request, which consists of words on one line. First converts the request to an array of bulk
/// strings, in a separate buffer.
#[cold]
fn inline(call: &mut Call<'_, '_>, words: &protocol::resp::Inline<'_>, consumed: usize) -> Step {
    if consumed * 7 / 2 + 16 > INLINE_ROOM {
        return call.fatal(protocol::resp::ProtocolError::InlineTooLong);
    }
    let mut text = protocol::sink::Fixed::<INLINE_ROOM>::new();
    words.rewrite(&mut text);
    let Parsed::Request { args, .. } = Parser::new().parse(text.as_slice(), &Limits::REDIS) else {
        unreachable!("a rewritten command is a request");
    };
    let (step, is_done) = execute_apart(call, text.as_slice(), args);
    if is_done {
        call.at += consumed;
    }
    step
}

/// The maximum number of keys of a request that was collected: about that of one that fits into a receive buffer. Its
/// keys are checked, hashed and locked in one visit.
const COLLECTED_KEYS_MAX: usize = 32_768;

/// Executes a request that was collected in client memory.
#[cold]
fn execute_collected(call: &mut Call<'_, '_>, entry: &'static catalog::CommandSpec, collected: Box<Collected>) -> Step {
    if entry.key_count(collected.args().after_first()) > COLLECTED_KEYS_MAX {
        call.session.abort_queue();
        return long::refuse(call, entry, ErrorReply::RequestTooLong, 0, 0, 0);
    }
    let (step, is_done) = execute_apart(call, &collected.request, collected.args());
    if !is_done {
        debug_assert!(call.session.long.is_none(), "a command that starts over has changed nothing");
        call.session.long = Some(Long { entry, left: 0, stage: LongStage::Collected(collected) });
    }
    step
}

/// Executes a request that is not in the input, but in `request`. `args` are its words, the name included. Returns
/// false, with the wait state, if the request must be executed again.
fn execute_apart(call: &mut Call<'_, '_>, request: &[u8], args: Args<'_>) -> (Step, bool) {
    let mut apart = Call {
        ops: call.ops,
        ..Call::new((&mut *call.guard, &mut *call.ctx), request, &mut *call.out, &mut *call.session, call.functions)
    };
    let step = execute(&mut apart, args, request.len());
    let (is_done, ops) = (apart.at > 0, apart.ops);
    call.ops = ops;
    (step, is_done)
}

/// Executes one request and accounts for it, unless it must be executed again.
#[inline]
fn execute<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, consumed: usize) -> Step {
    let name = args.next().unwrap_or_default();
    let (mark, answers) = (call.out.mark(), call.session.answers);
    let begins = !call.session.is_answered_in_part();
    call.is_refused = false;
    let entry = catalog::find(name);
    let ran = match entry {
        Some(entry) if call.ctx.push.watch.watched.has_absence_events() => {
            absent::run(call, entry, args, |call| run(call, entry, args, consumed))
        }
        Some(entry) => run(call, entry, args, consumed),
        None => {
            call.session.abort_queue();
            error::unknown(call.out, name, args);
            call.ops += error::UNKNOWN_OPS;
            Ok(())
        }
    };
    let quits = matches!(ran, Err(Interrupt::Quit));
    // A queued request is counted and reported when it is executed.
    let queued = matches!(ran, Err(Interrupt::Queued));
    match ran {
        Ok(()) | Err(Interrupt::Quit | Interrupt::Queued) => {}
        Err(Interrupt::UnderWay) => return begin_transaction(call, entry, name, consumed),
        Err(Interrupt::State(state)) => {
            let is_push =
                |call: &Call<'_, '_>| entry.is_some_and(|entry| entry.replies_in_pushes(call.out.since(mark)));
            if call.session.done == 0 || answers != Answers::All && !is_push(call) {
                // The request starts over, or the client does not want the reply.
                call.out.truncate(mark);
            }
            return Err(state);
        }
        Err(Interrupt::Fault(ErrorReply::Damaged)) if call.guard.parts().take_lost() => {
            let keys = entry.map(|entry| entry.keys_of(args));
            if call.session.done == 0 {
                call.out.truncate(mark);
            }
            return Err(call.retry_after_lost_part(keys.into_iter().flatten()));
        }
        Err(Interrupt::Fault(fault)) => {
            // The partial reply of the failed request is discarded. This visit has written all of it, because a request
            // whose reply was begun in an earlier visit cannot fail here.
            call.out.truncate(mark);
            call.session.abandon_request();
            write_fault(call, entry, fault, args);
        }
    }
    call.session.end_request();
    call.session.is_counted = false;
    // The end of a long reply may look like an error.
    let reply = if begins { call.out.since(mark) } else { &[] };
    let outcome = statistics::outcome(reply, call.is_refused, call.ctx);
    call.remove_unwanted_reply(mark, answers, entry);
    // As in Redis, monitoring clients see a request only if it is executed.
    if call.ctx.push.watch.watched.has_monitors() && !queued && !call.is_refused {
        pubsub::send_to_monitors(call, entry, name, args);
    }
    call.session.last = entry.map_or("", |entry| entry.name);
    account(call, entry, (name, args), (consumed, (!queued).then_some(outcome)));
    if quits { Err(SessionWait::Close) } else { Ok(()) }
}

/// Consumes a request that is a transaction of its own, or ends one, which is under way now.
fn begin_transaction(
    call: &mut Call<'_, '_>,
    entry: Option<&'static catalog::CommandSpec>,
    name: &[u8],
    consumed: usize,
) -> Step {
    call.session.last = entry.map_or("", |entry| entry.name);
    call.session.is_counted = false;
    call.at += consumed;
    if let (Some(transaction), Ok(name)) = (call.session.under_way.as_deref_mut(), name.try_into()) {
        transaction.exec_name = name;
    }
    // A command that takes several visits continues after the worker has served other sessions.
    let is_long = |transaction: &Transaction| transaction.is_single_command && !transaction.has_script;
    let is_long = call.session.under_way.as_deref().is_some_and(is_long);
    if is_long { Err(SessionWait::Yield) } else { Ok(()) }
}

/// Consumes a request and accounts for it. `outcome` is `None` if the request was queued.
#[inline]
fn account<'c>(
    call: &mut Call<'c, '_>,
    entry: Option<&'static catalog::CommandSpec>,
    (name, args): (&[u8], Args<'c>),
    (consumed, outcome): (usize, Option<Outcome>),
) {
    tracking::request_done(call.session, entry);
    let line = &call.buf[call.at..];
    call.at += consumed;
    let shown;
    let line = match entry {
        // The words of a request that is not executed may be a mistyped password: the slow log does not contain them.
        _ if call.is_refused => &[],
        None => &[],
        Some(entry) if SecretArgs::has_none(entry) => line,
        Some(_) => {
            shown = secrets::shown_line(name, args);
            shown.as_slice()
        }
    };
    match entry.zip(outcome) {
        Some((entry, outcome)) => statistics::ended(call, StatKey::of(entry, args), outcome, line),
        None => call.done(Command::Other, line),
    }
}

/// Writes the error reply to a request of the command `entry` with the arguments `args`.
fn write_fault(call: &mut Call<'_, '_>, entry: Option<&catalog::CommandSpec>, fault: ErrorReply, mut args: Args<'_>) {
    match fault {
        ErrorReply::UnknownPart(container) => {
            error::unknown_part(call.out, container, args.next().unwrap_or_default());
        }
        _ if call.is_refused && entry.is_some_and(|entry| entry.name == "exec") => fault.write_for_exec(call.out),
        _ => call.fault(fault),
    }
}

/// Executes or queues a request. A command whose reply is too long for the output becomes a transaction.
#[inline]
fn run<'c>(call: &mut Call<'c, '_>, entry: &'static catalog::CommandSpec, args: Args<'c>, consumed: usize) -> Run {
    let mark = call.out.mark();
    let ran = run_at_once(call, entry, args, consumed);
    let is_too_long = match &ran {
        Err(Interrupt::Fault(ErrorReply::AnswerTooLong)) => true,
        // No output is that long.
        Err(Interrupt::State(SessionWait::OutputFull { want })) => *want > call.ctx.request_bytes_max,
        _ => return ran,
    };
    if !is_too_long || call.session.done > 0 {
        return ran;
    }
    call.out.truncate(mark);
    atomic::run_for_long_reply(call, entry, args)
}

fn run_at_once<'c>(
    call: &mut Call<'c, '_>,
    entry: &'static catalog::CommandSpec,
    args: Args<'c>,
    consumed: usize,
) -> Run {
    admit::admit_command(call, entry, args.len() + 1, KnownKeys::All(args))?;
    if call.session.transaction.is_some() {
        match transaction::queues(call, entry, args, consumed) {
            Ok(true) => return Err(Interrupt::Queued),
            Ok(false) => {}
            Err(fault) => return Err(admit::refusal(call, entry, fault)),
        }
    }
    if call.ctx.sampler.should_sample(1) {
        sample(call, entry, args);
    }
    if call.guard.is_tiered() && atomic::awaits_flash(call, entry, args) {
        return Err(SessionWait::Parked.into());
    }
    tracking::track(call, entry, args);
    if entry.keys.0 != entry.keys.1 && call.session.done == 0 && entry.key_count(args) > 1 {
        if entry.runs_script() {
            return typed::run(call, entry, args);
        }
        if atomic::exceeds_atomic_limit(entry, args) {
            return own_transaction::run_collected(call, entry, args);
        }
        if call.ops > 0 && call.ops + entry.key_count(args) > OPS_A_BATCH {
            // The rest of this visit is too short to complete the command. If the command began now, its work would be
            // discarded, or it would have to continue from a copy of the request.
            return Err(SessionWait::Yield.into());
        }
        if entry.name != "watch" {
            return atomic::run_unchanged(call, entry, args).unwrap_or_else(|| atomic::run_as_one(call, entry, args));
        }
    }
    if call.guard.is_contended() && atomic::is_blocked_by_locks(call, entry, args) {
        if call.session.done == 0 && call.ctx.shared.scripts.is_busy(call.ctx.now) {
            // A script that runs for too long may hold the keys for ever.
            return Err(ErrorReply::Busy.into());
        }
        return Err(SessionWait::Parked.into());
    }
    typed::run(call, entry, args)
}

/// Samples the keys of a request for the hot keys, before the request is executed. Samples at most [`OPS_A_BATCH`]
/// keys.
#[cold]
#[inline(never)]
fn sample<'c>(call: &mut Call<'c, '_>, entry: &'static catalog::CommandSpec, args: Args<'c>) {
    // Commands with channels have no keys to sample: the names of channels are not keys.
    if call.ctx.sampler.next(0, 1).is_none() || entry.keys.0 == 0 || entry.has(catalog::Flag::PubSub) {
        return;
    }
    for bytes in entry.keys_of(args).take(OPS_A_BATCH) {
        let key = call.key(bytes);
        call.ctx.sample(call.guard, &key, entry.has(catalog::Flag::ReadOnly));
    }
}

/// The maximum length of an inline request after its conversion, in bytes. Inline requests are typed by people, who
/// need far less.
const INLINE_ROOM: usize = 32 << 10;
