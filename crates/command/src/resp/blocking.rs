//! Blocking commands: a client waits until another client fills a key, its deadline is due, or `CLIENT UNBLOCK` ends
//! the wait. The queues of the waiters are in [`crate::push::waiters`].
//!
//! ```text
//!   BLPOP k 5 ──> the command's function: elements? ──> reply
//!                   │ none
//!                   v                       turn                        nothing there: end the turn
//!                 consumed ──> join ──> waits ──> a single-command transaction locks the keys, runs the function ─┐
//!                                         ^ │ └──────────────────────────────────────────────────────┘            │
//!                                         │ └── deadline, CLIENT UNBLOCK ──> leave ──> null or error              │
//!                   PUSH k by another ────┘                                  leave <── reply with the elements <──┘
//!   PUSH k ──> change, key recorded ──> request done, locks released ──> announce ──> turns ended ──> reply
//! ```
//!
//! While a client waits, the session retains the words of the request, in client memory, and no transaction or lock.
//! Requests behind a blocking command stay in the input. A client begins to wait only when its replies are sent.
//!
//! A turn, a deadline and `CLIENT UNBLOCK` never wait for a client to read. Messages for a client that waits may fill
//! its output ([`takes_turns`]). Its turns are executed nevertheless, and the reply is held, in client memory, until
//! the output is sent.
//!
//! In a transaction of `MULTI` and in a script, a blocking command does not wait. A transaction or script announces the
//! keys that it has filled after its last command.
//!
//! A waiter of any type can be added: its function looks at the [`candidates`], and calls [`wait`] if it finds nothing.
//!
//! When a server stops, waiting clients are disconnected at once. When another process takes over, it executes the
//! waiting requests again, with the time that is left. The waiters for a key are then in the order in which their
//! connections arrive there.

use super::collection;
use super::error::ErrorReply;
use crate::clients::client_info::Unblock;
use crate::context::WorkerContext;
use crate::memory::budget::MemoryUse;
use crate::push::waiters::{ENTRY_BYTES, Handoff, TurnEnd, WaitKey, WaitKind};
use crate::resp::call::{Call, Interrupt, Run, Step};
use crate::resp::catalog;
use crate::resp::own_transaction;
use crate::resp::pubsub;
use crate::resp::session::CommandOrigin;
use crate::resp::session::SessionState;
use crate::resp::settle;
use crate::resp::state::Answers;
use crate::resp::state::long::Long;
use crate::resp::state::transaction::{Stage, Transaction};
use crate::resp::state::waits::{TimeoutReply, WaitedKeys, WaitingCommand, Waits};
use crate::resp::statistics::{self, StatKey};
use crate::resp::typed::live;
use crate::visit::out::LINE_ROOM;
use crate::visit::progress::SessionWait;
use base::clock::UnixMillis;
use protocol::resp::{Args, reply};
use record::{Collection, Kind, Lists, SortedSets, Streams};
use segment::{Expire, Guard, Value};
use std::sync::Arc;

/// The maximum number of keys for which a client waits.
const KEYS_MAX: u32 = 4096;
/// The number of keys whose queues are joined or left at the cost of one operation.
const KEYS_AN_OP: usize = 16;
/// The maximum length of replies that are held until waiters are served, in bytes.
const HELD_BYTES_MAX: usize = 16 << 10;

/// Parses a timeout in seconds. Returns the deadline, or `None` if the timeout is 0.
pub(super) fn deadline_secs(call: &Call<'_, '_>, text: &[u8]) -> Result<Option<UnixMillis>, ErrorReply> {
    let secs = super::number::float(text).map_err(|_| ErrorReply::TimeoutNotFloat)?;
    let ms = (secs * 1000.0).ceil();
    if ms >= i64::MAX as f64 {
        // In Redis 7.0, the number of milliseconds overflows.
        return Err(ErrorReply::TimeoutBelowZero);
    }
    deadline(call, ms as i64)
}

/// Parses a timeout in milliseconds. Returns the deadline, or `None` if the timeout is 0.
pub(super) fn deadline_ms(call: &Call<'_, '_>, text: &[u8]) -> Result<Option<UnixMillis>, ErrorReply> {
    deadline(call, super::number::integer(text).map_err(|_| ErrorReply::Timeout)?)
}

fn deadline(call: &Call<'_, '_>, ms: i64) -> Result<Option<UnixMillis>, ErrorReply> {
    let ms = u64::try_from(ms).map_err(|_| ErrorReply::TimeoutBelowZero)?;
    let end = call.ctx.now.0.saturating_add(ms);
    let carried = call.with_client_info(|client_info| client_info.waits_until.take()).flatten();
    Ok(carried.or((ms > 0).then_some(end)).map(UnixMillis))
}

/// Returns true if the client waits in a blocking command.
pub(crate) fn waits_in_command(session: &SessionState) -> bool {
    Long::command_of(&session.long).is_some()
}

/// Returns true if the client waits for keys or for its deadline, and can take a turn whatever output is unsent.
pub(crate) fn takes_turns(session: &SessionState) -> bool {
    Long::command_of(&session.long).is_some_and(|command| command.waiter.is_some())
}

/// Returns true if a client that waits has a reason to go on: a turn, its deadline, `CLIENT UNBLOCK`, the expiry of a
/// stream, or `SWAPDB`.
#[cold]
pub(crate) fn has_turn(session: &SessionState, ctx: &WorkerContext) -> bool {
    let Some(command) = Long::command_of(&session.long) else { return false };
    let Some(waiter) = &command.waiter else { return false };
    let unblocked = ctx.connection_table().client_info(waiter.connection, |client_info| client_info.unblocked);
    waiter.has_turns()
        || unblocked.flatten().is_some()
        || [command.deadline, command.expires].into_iter().flatten().any(|at| at <= ctx.now)
        || !settle::is_settled(session, &ctx.shared.namespaces)
}

/// Returns true if the command may wait: it is not executed by a transaction of `MULTI` or by a script.
pub(super) fn may_wait(call: &Call<'_, '_>) -> bool {
    call.may_wait && call.session.origin != CommandOrigin::Script
}

/// Returns true if the command already waits, so that it runs in its turn.
pub(super) fn is_turn(call: &Call<'_, '_>) -> bool {
    waits_in_command(call.session) && call.session.origin != CommandOrigin::Script
}

/// Returns the keys at which a command looks now, each with its number. In its turn, these are the keys that were
/// announced. At first, these are the keys for which no other client waits, and those whose value has another type: the
/// command fails because of such a value, although the waiting clients do not.
pub(super) fn candidates<'c>(call: &Call<'c, '_>, keys: WaitedKeys, args: Args<'c>) -> Vec<(u32, &'c [u8])> {
    let all = (0..).zip(keys.of(args));
    if let Some(command) = Long::command_of(&call.session.long).filter(|_| is_turn(call)) {
        let mut turns: Vec<(usize, (u32, &[u8]))> = all
            .filter_map(|(number, key)| Some((command.turns.iter().position(|turn| *turn == number)?, (number, key))))
            .collect();
        turns.sort_by_key(|(place, _)| *place);
        return turns.into_iter().map(|(_, key)| key).collect();
    }
    let waiters = &call.ctx.shared.waiters;
    all.filter(|(_, key)| {
        !may_wait(call)
            || waiters.blocked() == 0
            || !waiters.has(keys.kind, keys.key(call.wait_key(key), args))
            || has_other_type(call, keys.kind, key)
    })
    .collect()
}

/// Returns true if a key has a value of another type than the one that a command waits for.
fn has_other_type(call: &Call<'_, '_>, wanted: WaitKind, key: &[u8]) -> bool {
    let item = live(call.guard.items().peek(&call.key(key)), call.ctx.view());
    item.is_some_and(|item| match item.value {
        Value::Typed { kind, .. } => Kind::of(kind).is_some_and(|kind| match wanted {
            WaitKind::List => !Lists::has(kind),
            WaitKind::SortedSet => !SortedSets::has(kind),
            WaitKind::Entries | WaitKind::Group => !Streams::has(kind),
        }),
        _ => true,
    })
}

/// Returns true if a key holds a collection of this type. In its turn, a command does not fail because of a value of
/// another type, but waits on.
pub(super) fn finds<C: Collection>(call: &mut Call<'_, '_>, key: &[u8]) -> Result<bool, Interrupt> {
    match collection::look::<C, _>(call, key, |_, value| Ok(value.is_some())) {
        Err(Interrupt::Fault(ErrorReply::WrongType)) if is_turn(call) => Ok(false),
        found => found,
    }
}

/// Makes the client wait for the keys. In a transaction of `MULTI` or a script, replies with a null array instead.
pub(super) fn wait_or_null_array(
    call: &mut Call<'_, '_>,
    command: (&'static str, Args<'_>),
    keys: WaitedKeys,
    deadline: Option<UnixMillis>,
) -> Run {
    if may_wait(call) {
        return wait(call, command, Some(keys), deadline, TimeoutReply::NullArray);
    }
    reply::null_array(call.out, call.session.version);
    Ok(())
}

/// Makes the client wait, because the command has found nothing. The session retains the request until the wait ends.
pub(super) fn wait(
    call: &mut Call<'_, '_>,
    (name, args): (&'static str, Args<'_>),
    keys: Option<WaitedKeys>,
    deadline: Option<UnixMillis>,
    timeout_reply: TimeoutReply,
) -> Run {
    if is_turn(call) {
        return Err(SessionWait::Blocked.into());
    }
    if call.copies {
        // A read without key locks may have missed a change: the command looks again, with the keys locked.
        return Err(SessionWait::Yield.into());
    }
    let count = keys.map_or(0, |keys| keys.count);
    if count > KEYS_MAX {
        return Err(ErrorReply::TooManyWaitedKeys.into());
    }
    let bytes = size_of::<Waits>() + 2 * args.wire_bytes() + count as usize * ENTRY_BYTES;
    let grant = call.ctx.shared.budget.grant(MemoryUse::Queued, bytes as u64).ok_or(ErrorReply::ClientMemory)?;
    let answers = call.session.answers;
    if answers == Answers::SkipNext {
        call.session.answers = Answers::All;
    }
    // Monitoring clients see a command when it begins to wait, and not again when the wait ends.
    if call.ctx.push.watch.watched.has_monitors() {
        pubsub::send_to_monitors(call, Some(catalog::entry(name)), name.as_bytes(), args);
    }
    Long::waits_mut(&mut call.session.long).command = Some(WaitingCommand {
        entry: catalog::entry(name),
        words: args.wire().into(),
        words_count: args.len() as u32,
        keys,
        deadline,
        timeout_reply,
        expires: None,
        waiter: None,
        turns: Vec::new(),
        answers,
        grant,
    });
    // In a transaction of its own, the command ends as one that has found nothing.
    Err(if call.collects_replies { SessionWait::Blocked.into() } else { Interrupt::UnderWay })
}

/// Continues a wait.
pub(super) fn continue_wait(call: &mut Call<'_, '_>, mut waits: Box<Waits>) -> Step {
    waits.rests = false;
    let step = match waits.command {
        Some(_) => continue_command(call, &mut waits),
        None => continue_handoff(call, &mut waits),
    };
    if waits.command.is_some() || matches!(step, Err(SessionWait::Blocked | SessionWait::OutputFull { .. })) {
        waits.rests = step == Err(SessionWait::Blocked);
        *Long::waits_mut(&mut call.session.long) = *waits;
    }
    step
}

/// Continues a blocking command: begins an attempt if it is the client's turn, and ends the wait if it is over.
fn continue_command(call: &mut Call<'_, '_>, waits: &mut Waits) -> Step {
    let Some(command) = &mut waits.command else { return Ok(()) };
    if command.waiter.is_none() {
        if !call.out.is_empty() {
            return Err(SessionWait::OutputFull { want: LINE_ROOM });
        }
        join(call, command);
    }
    if !settle::is_settled(call.session, &call.ctx.shared.namespaces) {
        follow_swap(call, command);
    }
    announce_expired(call, command);
    let unblocked = call.with_client_info(|client_info| client_info.unblocked).flatten();
    let turns = command.waiter.as_ref().map_or_else(Vec::new, |waiter| waiter.take_turns());
    command.turns.extend(turns);
    let is_over = unblocked.is_some() || command.deadline.is_some_and(|deadline| deadline <= call.ctx.now);
    if unblocked.is_none() && !command.turns.is_empty() {
        begin_attempt(call, command);
        return Ok(());
    }
    if !is_over {
        return Err(SessionWait::Blocked);
    }
    let (entry, timeout_reply, wants_reply) = (command.entry, command.timeout_reply, command.answers.wants_reply());
    leave(waits, call.session, call.guard, call.ctx);
    let held = &mut waits.held;
    match (unblocked, timeout_reply) {
        _ if !wants_reply => {}
        (Some(Unblock::Error), _) => reply::error(held, b"UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        (_, TimeoutReply::NullArray) => reply::null_array(held, call.session.version),
        (_, TimeoutReply::Zero) => reply::int(held, 0),
        (_, TimeoutReply::Zeros) => super::server::put_zeros(held),
    }
    let outcome = statistics::outcome(held, false, call.ctx);
    statistics::ended(call, StatKey::of_command(entry), outcome, b"");
    send_held(call, waits)
}

/// Sends a reply that was held, if the output has room for it.
fn send_held(call: &mut Call<'_, '_>, waits: &mut Waits) -> Step {
    let want = waits.held.len() + LINE_ROOM;
    if call.out.room() < want {
        return Err(SessionWait::OutputFull { want });
    }
    call.out.push(&std::mem::take(&mut waits.held));
    Ok(())
}

/// Joins the queues of the command's keys.
fn join(call: &mut Call<'_, '_>, command: &mut WaitingCommand) {
    let (shared, connection) = (Arc::clone(&call.ctx.shared), call.ctx.push.watch.connection);
    let waiter = shared.waiters.begin(call.ctx.worker, connection, call.session.numbers.database());
    // Later requests of this batch must report their changes, too.
    call.ctx.push.watch.watched = shared.watch.watched();
    if let Some(keys) = command.keys {
        for (number, key) in (0..).zip(keys.of(command.args())) {
            shared.waiters.join(keys.kind, keys.key(call.wait_key(key), command.args()), &waiter, number);
        }
        call.ops += keys.count as usize / KEYS_AN_OP;
    }
    if let Some(deadline) = command.deadline {
        call.ctx.deadlines.add(deadline, connection);
    }
    call.with_client_info(|client_info| (client_info.is_waiting, client_info.unblocked) = (true, None));
    command.waiter = Some(waiter);
    await_expiry(call, command);
}

/// Moves a client that waits to the queues of the namespace that its database has now. It keeps its position among the
/// waiters. `SWAPDB` announces the keys when all waiters have moved.
#[cold]
fn follow_swap(call: &mut Call<'_, '_>, command: &mut WaitingCommand) {
    let shared = Arc::clone(&call.ctx.shared);
    let waits = command.keys.zip(command.waiter.clone());
    if let Some((keys, waiter)) = &waits {
        for key in keys.of(command.args()) {
            let key = keys.key(call.wait_key(key), command.args());
            let wake = &mut |worker, connection| call.ctx.mark_messages_queued(worker, connection);
            shared.waiters.end_turn(keys.kind, key, waiter, TurnEnd::Leaves, wake);
        }
        drop(waiter.take_turns());
        command.turns.clear();
    }
    settle::settle(call.session, &shared.namespaces);
    if let Some((keys, waiter)) = &waits {
        for (number, key) in (0..).zip(keys.of(command.args())) {
            shared.waiters.rejoin(keys.kind, keys.key(call.wait_key(key), command.args()), waiter, number);
        }
        await_expiry(call, command);
    }
}

/// Arranges for a member of a group to be woken when the first of its streams expires, or its namespace is flushed.
fn await_expiry(call: &mut Call<'_, '_>, command: &mut WaitingCommand) {
    let Some(keys) = command.keys.filter(|keys| keys.kind == WaitKind::Group) else { return };
    let connection = call.ctx.push.watch.connection;
    let expiry = |key| match call.guard.items().peek(&call.key(key))?.expire {
        Expire::Never => None,
        Expire::At(at) => Some(at),
    };
    let flush = call.ctx.shared.delayed_flush.at(call.session.namespace);
    let expires = keys.of(command.args()).filter_map(expiry).chain(flush).min();
    if let Some(before) = std::mem::replace(&mut command.expires, expires) {
        call.ctx.deadlines.remove(before, connection);
    }
    // The deadline may be the instant that was removed.
    for at in [expires, command.deadline].into_iter().flatten() {
        call.ctx.deadlines.add(at, connection);
    }
}

/// Announces the streams of a member of a group if one of them has expired: their groups no longer exist.
fn announce_expired(call: &mut Call<'_, '_>, command: &mut WaitingCommand) {
    if command.expires.is_none_or(|at| at > call.ctx.now) {
        return;
    }
    let (Some(keys), shared) = (command.keys, Arc::clone(&call.ctx.shared)) else { return };
    command.expires = None;
    for key in keys.of(command.args()) {
        let key = call.wait_key(key);
        shared.waiters.announce(key, &[], &mut |worker, connection| call.ctx.mark_messages_queued(worker, connection));
    }
}

/// Begins an attempt: a transaction that locks the keys of the command and executes it.
fn begin_attempt(call: &mut Call<'_, '_>, command: &WaitingCommand) {
    let (mut one, args) = (own_transaction::take_empty(call), command.args());
    command.entry.keys_of(args).for_each(|key| one.key_locks.add(&call.key(key)));
    // The request is already accepted, so it must not fail now.
    one.set_single_request(command.entry, args, true);
    one.stage = Stage::Obtaining;
    own_transaction::begin(call, one);
    if let Some(one) = &mut call.session.under_way {
        one.answers = command.answers;
    }
    call.ctx.op_begun = call.ctx.clock.ticks();
}

/// Ends an attempt that has found nothing: the client has had its turns, and waits on.
pub(super) fn attempt_failed(call: &mut Call<'_, '_>) {
    let Some(mut waits) = Long::take_waits(&mut call.session.long) else { return };
    let shared = Arc::clone(&call.ctx.shared);
    if let Some(command) = &mut waits.command {
        await_expiry(call, command);
    }
    if let Some(WaitingCommand { keys: Some(keys), waiter: Some(waiter), turns, words, words_count, .. }) =
        &mut waits.command
    {
        let args = Args::resumed(words, *words_count);
        for (number, key) in (0..).zip(keys.of(args)) {
            if turns.contains(&number) {
                let key = keys.key(call.wait_key(key), args);
                let wake = &mut |worker, connection| call.ctx.mark_messages_queued(worker, connection);
                shared.waiters.end_turn(keys.kind, key, waiter, TurnEnd::Stays, wake);
            }
        }
        turns.clear();
    }
    *Long::waits_mut(&mut call.session.long) = *waits;
}

/// Ends the wait of a session whose request is done, and whose locks are released: a blocking command leaves the
/// queues, and the keys that the request has filled are announced.
pub(super) fn request_done(call: &mut Call<'_, '_>) {
    let Some(mut waits) = Long::take_waits(&mut call.session.long) else { return };
    if waits.command.is_some() {
        return leave(&mut waits, call.session, call.guard, call.ctx);
    }
    if waits.handoff.is_none() {
        announce_own(call, &mut waits);
    }
    if waits.handoff.as_ref().is_some_and(|handoff| !handoff.is_done()) {
        *Long::waits_mut(&mut call.session.long) = *waits;
    }
}

/// Returns [`SessionWait::Blocked`] while the session has to wait until other clients have had their turns.
pub(super) fn await_handoff(call: &mut Call<'_, '_>) -> Step {
    let Some(waits) = Long::waits_of(&call.session.long) else { return Ok(()) };
    if waits.handoff.as_ref().is_some_and(|handoff| !handoff.is_done()) {
        return Err(SessionWait::Blocked);
    }
    Long::take_waits(&mut call.session.long);
    Ok(())
}

/// Announces the keys that the request has filled, and creates the handoff of their waiters' turns.
fn announce_own(call: &mut Call<'_, '_>, waits: &mut Waits) {
    let handoff = Handoff::new(call.ctx.worker, call.ctx.push.watch.connection);
    announce(waits, std::slice::from_ref(&handoff), call.ctx);
    handoff.end_one();
    waits.handoff = Some(handoff);
}

fn announce(waits: &mut Waits, handoffs: &[Arc<Handoff>], ctx: &mut WorkerContext) {
    let shared = Arc::clone(&ctx.shared);
    for filled in waits.filled.drain(..) {
        let wake = &mut |worker, connection| ctx.mark_messages_queued(worker, connection);
        shared.waiters.announce(filled.key(), handoffs, wake);
    }
}

/// Continues a request that has filled keys with waiters: holds its reply until the waiters have had their turns.
fn continue_handoff(call: &mut Call<'_, '_>, waits: &mut Waits) -> Step {
    if waits.handoff.is_none() {
        announce_own(call, waits);
    }
    if waits.handoff.as_ref().is_some_and(|handoff| !handoff.is_done()) {
        let can_hold = call.out.pinned_bytes() == 0 && call.out.mark() <= HELD_BYTES_MAX;
        if waits.held.is_empty() && can_hold {
            waits.held.extend_from_slice(call.out.since(0));
            call.out.truncate(0);
        }
        return Err(SessionWait::Blocked);
    }
    send_held(call, waits)
}

/// Ends the wait of a blocking command: leaves the queues of its keys, and passes its turns on.
fn leave(waits: &mut Waits, session: &SessionState, guard: &Guard<'_>, ctx: &mut WorkerContext) {
    let Some(command) = waits.command.take() else { return };
    let Some(waiter) = &command.waiter else { return };
    let shared = Arc::clone(&ctx.shared);
    if let Some(keys) = command.keys {
        let key_of = |bytes| {
            let key = guard.key(session.namespace, bytes);
            // The other members of a group also have to learn that the stream no longer exists.
            let is_there = keys.kind == WaitKind::Group || guard.is_tiered() || guard.items().peek(&key).is_some();
            let end = if is_there { TurnEnd::Leaves } else { TurnEnd::LeavesNothing };
            let key = WaitKey { namespace: session.namespace, hash: key.hash(), bytes, group: b"" };
            (keys.key(key, command.args()), end)
        };
        let all = keys.of(command.args());
        if !waits.filled.is_empty() {
            // The clients that wait for this turn also wait for those that it causes.
            let handoffs = all.flat_map(|key| shared.waiters.handoffs(keys.kind, key_of(key).0, waiter));
            let handoffs: Vec<_> = handoffs.collect();
            announce(waits, &handoffs, ctx);
        }
        for key in all {
            let (key, end) = key_of(key);
            let wake = &mut |worker, connection| ctx.mark_messages_queued(worker, connection);
            shared.waiters.end_turn(keys.kind, key, waiter, end, wake);
        }
    }
    shared.waiters.end();
    for at in [command.deadline, command.expires].into_iter().flatten() {
        ctx.deadlines.remove(at, waiter.connection);
    }
    ctx.connection_table()
        .client_info(waiter.connection, |client_info| (client_info.is_waiting, client_info.unblocked) = (false, None));
}

/// Returns true if an attempt of a blocking command has not changed anything yet, so that it can be abandoned.
pub(super) fn is_unbegun(session: &SessionState, transaction: &Transaction) -> bool {
    waits_in_command(session)
        && transaction.is_single_command
        && !session.is_answered_in_part()
        && session.walk.is_none()
        && Long::waits_of(&session.long).is_some_and(|waits| waits.filled.is_empty())
}

/// Ends the wait of a connection that ends. Its transaction has ended.
pub(super) fn end(session: &mut SessionState, guard: &Guard<'_>, ctx: &mut WorkerContext) {
    let Some(mut waits) = Long::take_waits(&mut session.long) else { return };
    leave(&mut waits, session, guard, ctx);
    announce(&mut waits, &[], ctx);
}
