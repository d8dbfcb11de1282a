//! Atomic execution over several keys. This module executes a transaction, or a command with several keys, from the
//! acquisition of its key lock set to its last reply.
//!
//! ```text
//!   EXEC, or a command over several keys that cannot be executed at once
//!     obtain   the key lock set of all keys (park until it is acquired)                       segment::KeyLocks
//!     run      the queued requests, in order, over as many visits as they need; replies go into a separate buffer
//!     reply    release the key lock set, then send the replies as fast as the client reads them
//! ```
//!
//! A command that only reads, and has at most [`KEYS_UNCLAIMED_MAX`] keys, needs no key lock set. It succeeds if no
//! other client changed one of the keys during the read (segment::Snapshot).
//!
//! Each queued command is sent to monitoring clients, counted and timed when it is executed. After the last of them,
//! `EXEC` is sent and counted, with the total time of the transaction.
//!
//! Invariants:
//! - The transaction of a gRPC call ends at its first error. Its rights are checked before the first command, so that
//!   they cannot change between two of its changes.
//! - The server never waits for a client while a key lock set is held. All bytes of the requests are received before
//!   the key lock set is acquired, and the replies are sent after it is released.
//! - A transaction whose execution has begun is completed, unless it only reads. If its connection ends first, the
//!   connection retains its slot until the transaction is complete. Only a stop abandons a transaction, if it does not
//!   end in time. In a memory file, the next start then undoes its changes.
//! - Queued requests and collected replies use client memory ([`crate::memory::budget`]), which is reserved before it
//!   is allocated. Other limits: see `QUEUE_BYTES_MAX`, `ANSWER_BYTES_MAX`, [`KEYS_AS_ONE_MAX`] and
//!   [`segment::KEY_LOCKS_MAX`].

use super::catalog;
use super::error::ErrorReply;
use crate::context::WorkerContext;
use crate::metrics::command_stats::Outcome;
use crate::resp::absent;
use crate::resp::acl;
use crate::resp::blocking;
use crate::resp::call::{Call, CommandFunctions, Interrupt, Run, Step};
use crate::resp::databases;
use crate::resp::own_transaction;
use crate::resp::pubsub;
use crate::resp::secrets::{self, SecretArgs};
use crate::resp::session::{CommandOrigin, LockWish, SessionState};
use crate::resp::settle;
use crate::resp::state::Answers;
use crate::resp::state::transaction::answers_bytes_max;
use crate::resp::state::transaction::{ANSWER_BYTES, Current, Stage, Transaction};
use crate::resp::statistics::{self, StatKey};
use crate::resp::tracking;
use crate::resp::typed;
use crate::resp::value_reply;
use crate::visit::clock::{Moment, Ticks};
use crate::visit::out::LINE_ROOM;
use crate::visit::out::{OutBuffer, Position};
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use arrayvec::ArrayVec;
use protocol::resp::reply;
use protocol::resp::{Args, Limits, Parsed, Parser, Version};
use segment::{Guard, KeyHash};

/// The maximum number of keys that one command outside a transaction accesses atomically. A command with more keys
/// accesses them one after another.
pub const KEYS_AS_ONE_MAX: usize = 4096;
/// The maximum number of keys that a command reads atomically without a key lock set.
const KEYS_UNCLAIMED_MAX: usize = 64;
/// The maximum number of bytes by which short replies may exceed the limit on replies of a transaction. Short replies
/// are errors of refused requests, and replies to requests that change keys. If the replies exceed both limits, they
/// are discarded, and the connection is closed when the transaction is complete.
const LINES_BYTES_MAX: usize = 4 << 20;

/// Returns true if a command has too many keys to access them atomically, and therefore accesses them one after
/// another.
pub(super) fn exceeds_atomic_limit(entry: &catalog::CommandSpec, args: Args<'_>) -> bool {
    let keys = entry.key_count(args);
    keys > KEYS_AS_ONE_MAX && entry.name != "watch"
}

/// Returns true if another thread's key lock set locks a key of the command.
#[cold]
pub(super) fn is_blocked_by_locks<'c>(call: &mut Call<'c, '_>, entry: &catalog::CommandSpec, args: Args<'c>) -> bool {
    let away = entry.keys_of(args).any(|key| call.guard.locks().is_locked_by_other(&call.key(key)));
    call.ctx.retry_at_once |= away;
    away
}

/// Returns true if the command must wait until items of its keys are read from flash, and starts these reads. Returns
/// false for commands that process one key at a time, because they wait for each key themselves, and for commands that
/// only store or delete.
#[cold]
pub(super) fn awaits_flash<'c>(call: &mut Call<'c, '_>, entry: &catalog::CommandSpec, args: Args<'c>) -> bool {
    if matches!(entry.name, "get" | "mget" | "set" | "mset" | "del" | "unlink" | "exists" | "touch") {
        return false;
    }
    // The reads of all keys are started at once, not one after another.
    let away = |waits, (of, key)| call.guard.tier().is_on_flash(&call.guard.key(of, key)) | waits;
    databases::keys_of((call.session.namespace, &call.ctx.shared.namespaces), entry, args).fold(false, away)
}

/// Executes a command that only reads several keys, without locking them. To detect changes by other clients, compares
/// snapshots of the keys before and after the read ([`segment::Snapshot`]), which costs much less than a key lock set.
/// Returns `None`, without a reply, if another client may have changed a key during the read.
pub(super) fn run_unchanged<'c>(
    call: &mut Call<'c, '_>,
    entry: &'static catalog::CommandSpec,
    args: Args<'c>,
) -> Option<Run> {
    if !entry.has(catalog::Flag::ReadOnly) || entry.key_count(args) > KEYS_UNCLAIMED_MAX {
        return None;
    }
    let mut keys = ArrayVec::<KeyHash, KEYS_UNCLAIMED_MAX>::new();
    entry.keys_of(args).for_each(|key| keys.push(call.key(key).key_hash()));
    let snapshot = call.guard.locks().snapshot(&keys)?;
    let mark = call.out.mark();
    call.copies = true;
    // If an item moves to or from flash during the read, the snapshot becomes invalid too.
    let ran = (call.functions[entry.number])(call, args);
    call.copies = false;
    let (reads, hits) = std::mem::take(&mut call.reads);
    // A value of another type may be a record without live bins, which is removed when its key is locked.
    let is_final = !matches!(ran, Err(Interrupt::State(_) | Interrupt::Fault(ErrorReply::WrongType)));
    if is_final && call.guard.locks().holds(&keys, snapshot) {
        call.count_reads(reads, hits);
        return Some(ran);
    }
    call.out.truncate(mark);
    call.session.end_request();
    match ran {
        // The reply does not fit into the output. The command starts over when the output is empty, or with a longer
        // output. A restart costs less than a single-command transaction.
        Err(Interrupt::State(SessionWait::OutputFull { .. })) if !call.out.is_empty() || !call.out.is_lent() => {
            let want = if call.out.is_empty() { call.out.capacity() + 1 } else { LINE_ROOM };
            Some(Err(SessionWait::OutputFull { want }.into()))
        }
        _ => None,
    }
}

/// Executes a command over several keys atomically. If it cannot be completed in this visit, turns it into a
/// single-command transaction.
pub(super) fn run_as_one<'c>(call: &mut Call<'c, '_>, entry: &'static catalog::CommandSpec, args: Args<'c>) -> Run {
    let mut one = own_transaction::take_empty(call);
    databases::keys_of((call.session.namespace, &call.ctx.shared.namespaces), entry, args)
        .for_each(|(of, key)| one.key_locks.add(&call.guard.key(of, key)));
    if entry.name == "swapdb" {
        one.key_locks.add_all();
    }
    let mark = call.out.mark();
    let ran = match call.guard.locks_mut().acquire(&mut one.key_locks) {
        Ok(()) => {
            one.stage = Stage::Running;
            call.guard.locks_mut().attach(&mut one.key_locks);
            let ran = typed::run(call, entry, args);
            call.guard.locks_mut().detach(&mut one.key_locks);
            ran
        }
        Err(error) => {
            one.stage = Stage::Obtaining;
            Err(error.into())
        }
    };
    match ran {
        Err(Interrupt::State(_)) => {
            // The command continues from a copy of its words, because the session consumes the input.
            let is_begun = call.session.done > 0 || call.session.copy.is_some() || call.session.walk.is_some();
            if !one.set_single_request(entry, args, is_begun) {
                own_transaction::recycle(one, call.ctx);
                return Err(ErrorReply::ClientMemory.into());
            }
            if call.session.done > 0 {
                one.store_reply(call.out.since(mark));
            }
            call.out.truncate(mark);
            own_transaction::begin(call, one);
            Err(Interrupt::UnderWay)
        }
        ended => {
            own_transaction::recycle(one, call.ctx);
            ended
        }
    }
}

/// Executes a command again whose reply was too long for the output, and which has changed nothing: as a single-command
/// transaction, which locks its keys and collects the reply.
#[cold]
pub(super) fn run_for_long_reply<'c>(
    call: &mut Call<'c, '_>,
    entry: &'static catalog::CommandSpec,
    args: Args<'c>,
) -> Run {
    let mut one = own_transaction::take_empty(call);
    databases::keys_of((call.session.namespace, &call.ctx.shared.namespaces), entry, args)
        .for_each(|(of, key)| one.key_locks.add(&call.guard.key(of, key)));
    if !one.set_single_request(entry, args, false) {
        own_transaction::recycle(one, call.ctx);
        return Err(ErrorReply::ClientMemory.into());
    }
    one.stage = Stage::Obtaining;
    own_transaction::begin(call, one);
    Err(Interrupt::UnderWay)
}

/// Continues the session's transaction.
pub(super) fn continue_transaction(call: &mut Call<'_, '_>) -> Step {
    let mut transaction = call.session.under_way.take().expect("a transaction is in execution");
    let step = advance(call, &mut transaction);
    match step {
        Ok(()) | Err(SessionWait::Close) => {
            let (entry, is_lone) = (transaction.entry, transaction.is_single_command);
            let exec_name = transaction.exec_name;
            let entry = entry.unwrap_or_else(|| catalog::entry("exec"));
            let ready = std::mem::replace(&mut call.ctx.ready, transaction.ready);
            call.ctx.op_begun = transaction.begun;
            own_transaction::recycle(transaction, call.ctx);
            call.session.end_request();
            tracking::request_done(call.session, Some(entry));
            if call.session.answers == Answers::SkipAfter {
                call.session.answers = Answers::SkipNext;
            }
            if !is_lone && call.ctx.push.watch.watched.has_monitors() {
                pubsub::send_to_monitors(call, Some(catalog::entry("exec")), &exec_name, std::iter::empty());
            }
            let line = if is_lone { &b""[..] } else { b"EXEC" };
            statistics::ended(call, StatKey::of_command(entry), Outcome::Done, line);
            call.ctx.ready = ready;
        }
        Err(SessionWait::Blocked) if transaction.stage == Stage::Running => {
            // A blocking command has found nothing.
            own_transaction::recycle(transaction, call.ctx);
            call.session.end_request();
            blocking::attempt_failed(call);
            return Ok(());
        }
        Err(_) => call.session.under_way = Some(transaction),
    }
    step
}

fn advance(call: &mut Call<'_, '_>, transaction: &mut Transaction) -> Step {
    if transaction.stage == Stage::Obtaining && transaction.swaps != call.ctx.shared.namespaces.swaps() {
        follow_swap(call, transaction)?;
    }
    if transaction.stage == Stage::Obtaining && !take_right(call, transaction)? {
        ErrorReply::Busy.write(&mut transaction.out);
        transaction.stage = Stage::Replying;
    }
    if transaction.stage == Stage::Obtaining {
        if call.guard.locks_mut().acquire(&mut transaction.key_locks).is_err() {
            if blocking::waits_in_command(call.session) || !call.ctx.shared.scripts.is_busy(call.ctx.now) {
                call.ctx.retry_at_once = true;
                return Err(SessionWait::Parked);
            }
            // A script that runs for too long may hold the keys for ever.
            own_transaction::release_locks(transaction, call.ctx);
            transaction.out.force_room(LINE_ROOM);
            ErrorReply::Busy.write(&mut transaction.out);
            transaction.stage = Stage::Replying;
            return send_replies(call, transaction);
        }
        // A previous attempt that was abandoned may have used up the room that is reserved for one line.
        transaction.out.force_room(LINE_ROOM);
        call.guard.locks_mut().attach(&mut transaction.key_locks);
        let changed = transaction.is_watched_changed(call.guard, &mut call.ops, &call.ctx.shared.namespaces);
        call.guard.locks_mut().detach(&mut transaction.key_locks);
        let changed = changed?;
        transaction.stage = Stage::Running;
        transaction.begun = call.ctx.clock.ticks();
        if changed {
            transaction.queue.clear();
            reply::null_array(&mut transaction.out, call.session.version);
        } else if let Err(fault) = permit_changes(call, transaction) {
            transaction.queue.clear();
            fault.write(&mut transaction.out);
        } else if !transaction.is_single_command {
            reply::array(&mut transaction.out, transaction.commands.into());
        }
        if !transaction.is_single_command {
            transaction.answer_at = transaction.out.spot();
        }
    }
    if transaction.stage == Stage::Running {
        let ran = run(call.guard, transaction, call.session, call.ctx, (&mut call.ops, call.functions));
        if call.session.lock_wish == LockWish::Keys {
            call.session.lock_wish = LockWish::None;
            // The transaction restarts, and locks its keys this time.
            transaction.restart();
            call.session.end_request();
            return Err(SessionWait::Yield);
        }
        ran?;
        own_transaction::release_locks(transaction, call.ctx);
        transaction.stage = Stage::Replying;
        blocking::request_done(call);
    }
    blocking::await_handoff(call)?;
    send_replies(call, transaction)
}

/// Checks the rights to all requests of a call that changes items, because users may have changed since they were
/// queued.
fn permit_changes(call: &mut Call<'_, '_>, transaction: &Transaction) -> Result<(), ErrorReply> {
    if !checks_all_rights_first(call.session, transaction.has_writes) || !acl::has_limits(call) {
        return Ok(());
    }
    let (queue, mut at) = (&transaction.queue[..], 0);
    while at < queue.len() {
        let Current { first, args, end, .. } = read(queue, at, None, call.session.moment);
        let mut args = Args::resumed(&queue[first..end], args);
        let entry = args.next().and_then(catalog::find).expect("the command was found when it was queued");
        acl::permit_queued(call, entry, args)?;
        at = end;
    }
    Ok(())
}

/// Returns true if the rights to all requests of a transaction are checked before the first of them is executed.
fn checks_all_rights_first(session: &SessionState, has_writes: bool) -> bool {
    has_writes && stops_at_error(session)
}

/// Moves a transaction that has not begun to the namespaces that the databases have now. Locks all keys, because the
/// keys in those namespaces were not added to its key lock set.
#[cold]
fn follow_swap(call: &mut Call<'_, '_>, transaction: &mut Transaction) -> Step {
    call.ctx.shared.store.release(&mut transaction.key_locks);
    transaction.key_locks.add_all();
    transaction.swaps = call.ctx.shared.namespaces.swaps();
    if blocking::waits_in_command(call.session) {
        // The attempt of a client that waits ends without result. The client then waits in the other namespace.
        transaction.stage = Stage::Running;
        return Err(SessionWait::Blocked);
    }
    settle::settle(call.session, &call.ctx.shared.namespaces);
    Ok(())
}

/// Takes the right to extend the key lock set, if the transaction contains a script. Returns false if another script
/// has held that right for too long.
fn take_right(call: &mut Call<'_, '_>, transaction: &mut Transaction) -> Result<bool, SessionWait> {
    let scripts = &call.ctx.shared.scripts;
    if !transaction.has_script || transaction.has_right {
        return Ok(true);
    }
    if scripts.take_right() {
        transaction.has_right = true;
        return Ok(true);
    }
    if scripts.is_busy(call.ctx.now) {
        transaction.out.force_room(LINE_ROOM);
        return Ok(false);
    }
    call.ctx.retry_at_once |= !scripts.has_long();
    Err(SessionWait::Parked)
}

/// Moves as many bytes of the replies into the output as fit.
fn send_replies(call: &mut Call<'_, '_>, transaction: &mut Transaction) -> Step {
    if transaction.replies_dropped {
        call.counters().store_too_large.add(1);
        return Err(SessionWait::Close);
    }
    if transaction.answers != Answers::All {
        return Ok(());
    }
    let Transaction { out: answers, sent, .. } = transaction;
    answers.finish_block();
    let left = answers.collected() - *sent;
    // An empty output may be replaced by a longer one.
    let want = LINE_ROOM + left.min(call.ctx.request_bytes_max);
    if call.out.is_empty() && call.out.capacity() < want && !call.out.is_lent() && left > call.out.room() {
        return Err(SessionWait::OutputFull { want });
    }
    while answers.collected() > 0 {
        let rest = &answers.first()[*sent..];
        let part = rest.len().min(call.out.room());
        call.out.push(&rest[..part]);
        if part < rest.len() {
            *sent += part;
            return Err(SessionWait::OutputFull { want: LINE_ROOM });
        }
        answers.drop_first();
        *sent = 0;
    }
    Ok(())
}

/// Executes the queued requests that have not been executed yet. If they need a key lock set, the caller has acquired
/// it. If a script accesses further keys, adds them to the set.
pub(super) fn run(
    guard: &mut Guard<'_>,
    transaction: &mut Transaction,
    session: &mut SessionState,
    ctx: &mut WorkerContext,
    (ops, functions): (&mut usize, &'static CommandFunctions),
) -> Step {
    loop {
        if matches!(session.lock_wish, LockWish::Guards | LockWish::GuardsBegun) {
            let is_first = std::mem::replace(&mut session.lock_wish, LockWish::GuardsBegun) == LockWish::Guards;
            if guard.locks_mut().await_guards(&mut transaction.key_locks, is_first).is_err() {
                ctx.retry_at_once = true;
                return Err(SessionWait::Parked);
            }
            session.lock_wish = LockWish::None;
        }
        if let Some(running) = &mut session.script {
            while let Some((namespace, key)) = running.wanted.last() {
                let key = guard.key(*namespace, key);
                if guard.locks_mut().extend(&mut transaction.key_locks, &key).is_err() {
                    ctx.retry_at_once = true;
                    return Err(SessionWait::Parked);
                }
                running.wanted.pop();
            }
        }
        let ran = run_queue(guard, transaction, session, ctx, (ops, functions));
        if session.script.as_ref().is_none_or(|running| running.wanted.is_empty()) {
            return ran;
        }
    }
}

fn run_queue(
    guard: &mut Guard<'_>,
    transaction: &mut Transaction,
    session: &mut SessionState,
    ctx: &mut WorkerContext,
    (ops, functions): (&mut usize, &'static CommandFunctions),
) -> Step {
    ctx.op_begun = ctx.clock.ticks();
    let has_locks = transaction.key_locks.is_begun();
    if has_locks {
        guard.locks_mut().attach(&mut transaction.key_locks);
    }
    let ran = run_requests(guard, transaction, session, ctx, (ops, functions));
    if has_locks {
        guard.locks_mut().detach(&mut transaction.key_locks);
    }
    ran
}

/// Executes the requests that are left, under the attached key lock set.
fn run_requests(
    guard: &mut Guard<'_>,
    transaction: &mut Transaction,
    session: &mut SessionState,
    ctx: &mut WorkerContext,
    (ops, functions): (&mut usize, &'static CommandFunctions),
) -> Step {
    let limits = (answers_bytes_max(&ctx.shared.config), transaction.is_single_command && transaction.only_reads);
    let Transaction {
        queue,
        out,
        at,
        current,
        words,
        entry,
        answer_at,
        replies_dropped: is_cut,
        is_single_command: is_lone,
        has_failed,
        has_writes,
        ready,
        ..
    } = transaction;
    let from = (!*is_lone).then_some(*ready);
    let checks_rights = !*is_lone && !checks_all_rights_first(session, *has_writes);
    loop {
        if *at == queue.len() {
            break Ok(());
        }
        if *ops >= OPS_A_BATCH || ctx.is_slice_over() {
            break Err(SessionWait::Yield);
        }
        let now = ctx.moment();
        let Current { first, args, end, moment } = *current.get_or_insert_with(|| read(queue, *at, *words, now));
        let args = Args::resumed(&queue[first..end], args);
        session.moment = moment;
        let request = (&queue[*at..end], from, *answer_at);
        let ran = if *has_failed {
            pass_over(out, session.version)
        } else {
            run_one((guard, ctx), (request, checks_rights), (*entry, args), out, session, (ops, functions))
        };
        match ran {
            Ok(()) => {
                *has_failed |= stops_at_error(session) && out.after(*answer_at).first() == Some(&b'-');
                (*at, *current, *answer_at) = (end, None, out.spot());
                session.end_request();
                *ops += 1;
            }
            Err(SessionWait::OutputFull { want }) => match make_room(out, *answer_at, want, limits) {
                Room::Grown => {}
                Room::Refused(fault) => {
                    fault.write(out);
                    session.abandon_request();
                    *has_failed |= stops_at_error(session);
                    (*at, *current, *answer_at) = (end, None, out.spot());
                }
                Room::Cut => {
                    out.discard();
                    out.force_room(LINE_ROOM);
                    (*is_cut, *answer_at) = (true, out.spot());
                    if !session.discard_replies(args) {
                        (*at, *current) = (end, None);
                    }
                }
            },
            Err(state) => break Err(state),
        }
    }
}

/// Returns true if an error ends the session's transactions: those of gRPC calls, which have no effect if they fail.
fn stops_at_error(session: &SessionState) -> bool {
    session.origin == CommandOrigin::Call
}

/// Replies with null to a command that is not executed because one before it has failed.
fn pass_over(out: &mut OutBuffer, version: Version) -> Step {
    if out.room() < LINE_ROOM {
        return Err(SessionWait::OutputFull { want: LINE_ROOM });
    }
    reply::null(out, version);
    Ok(())
}

/// Returns the request that begins at `at` of a queue. `words` is the place of the words if the queue has one request,
/// which was parsed before.
fn read(queue: &[u8], at: usize, words: Option<(usize, u32)>, moment: Moment) -> Current {
    if let Some((first, args)) = words {
        return Current { first, args, end: queue.len(), moment };
    }
    let limits = Limits { long_bytes_min: u32::MAX, ..Limits::REDIS };
    let Parsed::Request { args, consumed } = Parser::new().parse(&queue[at..], &limits) else {
        unreachable!("a queue contains only whole requests");
    };
    let end = at + consumed;
    Current { first: end - args.wire_bytes(), args: args.len() as u32, end, moment }
}

/// The result of [`make_room`] for a request whose reply did not fit into the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// The output has room now. The request is executed again.
    Grown,
    /// The reply cannot be written, for this reason. The part that was already written is discarded, and the output has
    /// room for the error.
    Refused(ErrorReply),
    /// The output has no room even for a line. The replies are discarded, the remaining requests are still executed,
    /// and the connection is closed after the last of them. A single command that only reads is refused instead.
    Cut,
}

/// Makes room for `want` bytes after the replies in `out`. The current request's reply begins at `answer_at`. Replies
/// longer than one line may fill `out` up to `bytes_max` bytes. Single lines may exceed that limit, so that there is
/// room for the error reply to a refused request. `can_refuse`: the request is the only one and changes nothing, so its
/// whole reply may be discarded.
fn make_room(out: &mut OutBuffer, answer_at: Position, want: usize, (bytes_max, can_refuse): (usize, bool)) -> Room {
    let is_line = want <= LINE_ROOM;
    let lines_max = bytes_max + LINES_BYTES_MAX;
    let most = if is_line { lines_max } else { bytes_max };
    let fits = out.collected() + want <= most;
    // The buffer must also have room for the parts of the same reply that are already written.
    if fits && out.make_room(want + ANSWER_BYTES) {
        return Room::Grown;
    }
    if is_line && fits && out.make_room(want) {
        return Room::Grown;
    }
    if can_refuse {
        out.discard();
        out.force_room(LINE_ROOM);
        return Room::Refused(if fits { ErrorReply::ClientMemory } else { ErrorReply::RepliesTooLong });
    }
    if is_line {
        return Room::Cut;
    }
    out.cut_to_spot(answer_at);
    let is_replied = out.room() >= LINE_ROOM || out.collected() + LINE_ROOM <= lines_max && out.make_room(LINE_ROOM);
    let fault = if fits { ErrorReply::ClientMemory } else { ErrorReply::RepliesTooLong };
    if is_replied { Room::Refused(fault) } else { Room::Cut }
}

/// Executes one request and appends its reply, which begins at `answer_at`. `buf` begins with the request. `queued` is
/// the arrival time of `EXEC` if the request was queued, and `None` for a single command, which has this `entry`. If
/// `checks_rights` is true, the rights to a queued request are checked again.
fn run_one<'c>(
    (guard, ctx): (&'c mut Guard<'_>, &'c mut WorkerContext),
    ((buf, queued, answer_at), checks_rights): ((&'c [u8], Option<Ticks>, Position), bool),
    (entry, mut args): (Option<&'static catalog::CommandSpec>, Args<'c>),
    out: &'c mut OutBuffer,
    session: &'c mut SessionState,
    (ops, functions): (&mut usize, &'static CommandFunctions),
) -> Step {
    let name = args.next().unwrap_or_default();
    let entry = entry.or_else(|| catalog::find(name)).expect("the command was found when it was queued");
    let call = &mut Call {
        ops: *ops,
        collects_replies: true,
        may_wait: queued.is_none(),
        ..Call::new((guard, ctx), buf, out, session, functions)
    };
    let ran = call.room(0).map_err(Interrupt::State).and_then(|()| match queued {
        Some(_) if checks_rights && call.session.done == 0 && call.session.script.is_none() => {
            acl::permit_queued(call, entry, args).map_err(Interrupt::Fault)
        }
        _ => Ok(()),
    });
    tracking::track(call, entry, args);
    let ran = match ran {
        Ok(()) if call.guard.is_tiered() && call.session.script.is_none() && awaits_flash(call, entry, args) => {
            Err(SessionWait::Parked.into())
        }
        Ok(()) if call.ctx.push.watch.watched.has_absence_events() => {
            absent::run(call, entry, args, |call| typed::run(call, entry, args))
        }
        Ok(()) => typed::run(call, entry, args),
        refused => refused,
    };
    *ops = call.ops;
    match ran {
        Ok(()) | Err(Interrupt::Quit) => {
            debug_assert!(!value_reply::is_copying(call), "{} is answered with a part of a value", entry.name);
            account_queued(call, entry, (name, args), queued, answer_at);
            if !call.session.answers.wants_reply() {
                // An earlier request of the transaction has switched replies off.
                call.out.cut_to_spot(answer_at);
            }
            Ok(())
        }
        Err(Interrupt::UnderWay | Interrupt::Queued) => unreachable!("a transaction's command begins no other"),
        Err(Interrupt::Fault(ErrorReply::Damaged)) if call.guard.parts().take_lost() => {
            if !call.session.is_answered_in_part() {
                call.out.cut_to_spot(answer_at);
            }
            Err(call.retry_after_lost_part(entry.keys_of(args)))
        }
        Err(Interrupt::Fault(fault)) => {
            // The whole reply is discarded, including the parts that earlier visits wrote.
            call.out.cut_to_spot(answer_at);
            call.session.abandon_request();
            call.out.force_room(LINE_ROOM);
            call.fault(fault);
            call.is_refused = matches!(fault, ErrorReply::PermissionRevoked(_));
            account_queued(call, entry, (name, args), queued, answer_at);
            Ok(())
        }
        Err(Interrupt::State(state)) => {
            if !call.session.is_answered_in_part() {
                call.out.cut_to_spot(answer_at);
            }
            Err(state)
        }
    }
}

/// Accounts for an executed request of a transaction: sends it to the monitoring clients, and records the times of a
/// queued request. The replies of all requests are sent together, so only `EXEC` has a send time.
fn account_queued(
    call: &mut Call<'_, '_>,
    entry: &catalog::CommandSpec,
    (name, args): (&[u8], Args<'_>),
    queued: Option<Ticks>,
    answer_at: Position,
) {
    let number = acl::number_of_request(entry, args);
    let outcome = statistics::outcome(call.out.after(answer_at), call.is_refused, call.ctx);
    if call.is_refused {
        return call.ctx.command_stats().record(number, outcome, 0);
    }
    // A script, and a command that has waited, were sent when they began.
    let is_sent = entry.runs_script() || blocking::is_turn(call);
    if call.ctx.push.watch.watched.has_monitors() && !is_sent {
        pubsub::send_to_monitors(call, Some(entry), name, args);
    }
    let Some(ready) = queued else {
        if outcome == Outcome::Failed {
            // The whole single-command transaction is counted when it ends.
            call.ctx.command_stats().record_failure(number);
        }
        return;
    };
    let begun = call.ctx.op_begun;
    let shown;
    let line = if SecretArgs::has_none(entry) {
        call.buf
    } else {
        shown = secrets::shown_line(name, args);
        shown.as_slice()
    };
    call.ctx.op_done_unsent(call.session.namespace, entry.kind, ready, line);
    let ns = call.ctx.clock.ns_between(begun, call.ctx.op_begun);
    call.ctx.command_stats().record(number, outcome, ns);
}

/// Ends the transaction of a connection that ends. If its execution has begun, completes it, one slice per call.
/// Otherwise discards it. Returns the unfinished transaction if the caller must call this function again in a later
/// iteration.
pub(super) fn end(
    mut transaction: Box<Transaction>,
    guard: &mut Guard<'_>,
    session: &mut SessionState,
    ctx: &mut WorkerContext,
    functions: &'static CommandFunctions,
) -> Option<Box<Transaction>> {
    // If the transaction only reads, it is not completed, because no client waits for its result.
    let is_needed = !transaction.only_reads && !blocking::is_unbegun(session, &transaction);
    if transaction.stage == Stage::Running && is_needed {
        ctx.op_begun = ctx.clock.ticks();
        ctx.pace.begin_visit(ctx.op_begun, u32::MAX, true);
        let mut ops = 0;
        let ran = run(guard, &mut transaction, session, ctx, (&mut ops, functions));
        ctx.pace.charge(ops);
        if session.lock_wish == LockWish::Keys {
            session.lock_wish = LockWish::None;
        }
        if let Err(state) = ran {
            ctx.retry_at_once |= state == SessionWait::Yield;
            return Some(transaction);
        }
    }
    if transaction.stage == Stage::Running {
        session.script = None;
    }
    own_transaction::recycle(transaction, ctx);
    None
}
