//! The commands `MULTI`, `EXEC`, `DISCARD`, `WATCH` and `UNWATCH`. This module queues the requests of a transaction and
//! stores its watched keys. The module `atomic` executes the transaction.
//!
//! ```text
//!   WATCH k ──> Watching ──MULTI──> Queueing ──EXEC──> Obtaining ──> Running ──> Replying ──> none     see `atomic`
//!                                      └─DISCARD, RESET, or EXEC after a request was refused──> none
//! ```
//!
//! A watched key counts as changed if its item was replaced or removed, or has another expiry. A key that was missing
//! counts as changed if an item was stored, even if that item was removed again ([`segment::Version`]).

use super::atomic;
use super::catalog::{self, CommandSpec, entry};
use super::databases;
use super::error::ErrorReply;
use crate::context::WorkerContext;
use crate::handover::{HandoverTransaction, HandoverWatch};
use crate::keyspace::namespaces::Namespaces;
use crate::metrics::Command;
use crate::resp::call::{Call, CommandFunctions, Interrupt, Run};
use crate::resp::own_transaction;
use crate::resp::session::SessionState;
use crate::resp::state::transaction::QUEUE_BYTES_MAX;
use crate::resp::state::transaction::{Stage, Transaction, WATCHED_MAX, Watched};
use crate::resp::typed;
use crate::visit::progress::OPS_A_BATCH;
use protocol::resp::{Args, Limits, Parsed, Parser, reply};
use segment::{Guard, Namespace, Version};

/// Queues the request if it must be queued. Returns false if it must be executed at once.
#[cold]
pub(super) fn queues<'c>(
    call: &mut Call<'c, '_>,
    entry: &'static CommandSpec,
    args: Args<'c>,
    consumed: usize,
) -> Result<bool, ErrorReply> {
    let at_once = matches!(entry.name, "multi" | "exec" | "discard" | "watch" | "quit" | "reset");
    if !call.session.is_queueing() || at_once {
        return Ok(false);
    }
    let other = databases::other((call.session.namespace, &call.ctx.shared.namespaces), entry, args);
    let Some(transaction) = &mut call.session.transaction else { return Ok(false) };
    if transaction.queue.len() + consumed > QUEUE_BYTES_MAX {
        return Err(ErrorReply::QueueTooLong);
    }
    if !transaction.room_to_queue(consumed) {
        return Err(ErrorReply::ClientMemory);
    }
    transaction.queue.extend_from_slice(&call.buf[call.at..call.at + consumed]);
    transaction.commands += 1;
    transaction.has_writes |= entry.waits_with_writes(args.into_iter().next());
    transaction.has_script |= entry.runs_script();
    if entry.kind == Command::Flush || entry.name == "swapdb" {
        transaction.key_locks.add_all();
    }
    transaction.namespaces |= 1 << call.session.namespace.0;
    transaction.namespaces |= other.map_or(0, |other| 1 << other.0);
    if entry.name == "select" {
        // It is not known yet whether the SELECT will succeed, so later keys are locked in both namespaces.
        let to = args.into_iter().next().and_then(|text| call.ctx.shared.namespaces.find(text));
        transaction.namespaces |= to.map_or(0, |to| 1 << to.0);
    }
    for key in entry.keys_of(args) {
        let queued = transaction.namespaces;
        for namespace in Namespaces::numbers().filter(|namespace| queued & 1 << namespace.0 != 0) {
            transaction.key_locks.add(&call.guard.key(namespace, key));
        }
    }
    call.out.push(reply::QUEUED);
    Ok(true)
}

/// Restores a transaction that was handed over, whose queued requests are in this call's buffer. Returns false if
/// client memory is used up.
pub(super) fn requeue(call: &mut Call<'_, '_>, carried: &HandoverTransaction) -> bool {
    let mut transaction = own_transaction::take_empty(call);
    for HandoverWatch { namespace, key, version } in &carried.watched {
        let key = call.guard.key(*namespace, key);
        let version = match version {
            // This version differs from the version of every key, so the watched key counts as changed.
            None => Version::Absent(u64::MAX, 0),
            Some(Version::Absent(..)) => call.guard.items().absent_at_open(),
            Some(version) => *version,
        };
        if !transaction.watch(&key, watched_in(&call.ctx.shared.namespaces, *namespace, version)) {
            own_transaction::recycle(transaction, call.ctx);
            return false;
        }
    }
    if !transaction.room_to_queue(0) {
        own_transaction::recycle(transaction, call.ctx);
        return false;
    }
    transaction.stage = if carried.is_queueing { Stage::Queueing } else { Stage::Watching };
    transaction.is_aborted = carried.is_aborted;
    call.session.transaction = Some(transaction);
    let limits = Limits { long_bytes_min: u32::MAX, ..Limits::REDIS };
    while call.at < call.buf.len() {
        let Parsed::Request { mut args, consumed } = Parser::new().parse(&call.buf[call.at..], &limits) else {
            return false;
        };
        let mark = call.out.mark();
        let entry = args.next().and_then(catalog::find);
        if !entry.is_some_and(|entry| queues(call, entry, args, consumed) == Ok(true)) {
            // The process that handed over may be another build, with other commands or limits. A queued request may
            // therefore be refused here.
            call.session.abort_queue();
            break;
        }
        call.out.truncate(mark);
        call.at += consumed;
    }
    true
}

/// Discards queued requests and watched keys.
pub(super) fn discard_all(call: &mut Call<'_, '_>) {
    if let Some(transaction) = call.session.transaction.take() {
        own_transaction::recycle(transaction, call.ctx);
    }
}

pub(super) fn multi<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    if call.session.is_queueing() {
        return Err(ErrorReply::NestedMulti.into());
    }
    let mut transaction = match call.session.transaction.take() {
        Some(watching) => watching,
        None => own_transaction::take_empty(call),
    };
    if !transaction.room_to_queue(0) {
        own_transaction::recycle(transaction, call.ctx);
        return Err(ErrorReply::ClientMemory.into());
    }
    transaction.stage = Stage::Queueing;
    call.session.transaction = Some(transaction);
    call.out.push(reply::OK);
    Ok(())
}

pub(super) fn discard<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    if !call.session.is_queueing() {
        return Err(ErrorReply::WithoutMulti("DISCARD").into());
    }
    discard_all(call);
    call.out.push(reply::OK);
    Ok(())
}

pub(super) fn exec<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    if !call.session.is_queueing() {
        return Err(ErrorReply::WithoutMulti("EXEC").into());
    }
    let Some(mut transaction) = call.session.transaction.take() else { return Ok(()) };
    if transaction.is_aborted {
        own_transaction::recycle(transaction, call.ctx);
        return Err(ErrorReply::ExecAbort.into());
    }
    if !transaction.room_to_answer() {
        // The transaction is not executed unless client memory for its replies is available.
        own_transaction::recycle(transaction, call.ctx);
        return Err(ErrorReply::ClientMemory.into());
    }
    let Transaction { watched, watched_bytes, key_locks, stage, .. } = &mut *transaction;
    let mut from = 0;
    for watched in watched {
        key_locks.add(&call.guard.key(watched.namespace, &watched_bytes[from..watched.end]));
        from = watched.end;
    }
    *stage = Stage::Obtaining;
    own_transaction::begin(call, transaction);
    Err(Interrupt::UnderWay)
}

pub(super) fn watch<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if call.session.is_queueing() {
        return Err(ErrorReply::WatchInMulti.into());
    }
    if !call.collects_replies && args.len() > OPS_A_BATCH {
        return own_transaction::run_collected(call, entry("watch"), args);
    }
    let mut transaction = match call.session.transaction.take() {
        Some(watching) => watching,
        None => own_transaction::take_empty(call),
    };
    let watched = watch_each(call, &mut transaction, args);
    call.session.transaction = Some(transaction);
    watched?;
    call.out.push(reply::OK);
    Ok(())
}

fn watch_each<'c>(call: &mut Call<'c, '_>, transaction: &mut Transaction, args: Args<'c>) -> Run {
    call.each_key(args, |call, bytes| {
        let (namespace, key) = (call.session.namespace, call.key(bytes));
        let is_same = |(watched, what): (&[u8], &Watched)| watched == bytes && what.namespace == namespace;
        if transaction.watched_hashes.contains(&key.hash()) && transaction.watched().any(is_same) {
            return Ok(());
        }
        let room = QUEUE_BYTES_MAX / 64;
        if transaction.watched.len() >= WATCHED_MAX || transaction.watched_bytes.len() + bytes.len() > room {
            return Err(ErrorReply::QueueTooLong.into());
        }
        typed::is_there(call, &key)?;
        let version = call.guard.versions().version(&key)?;
        if transaction.watch(&key, watched_in(&call.ctx.shared.namespaces, namespace, version)) {
            Ok(())
        } else {
            Err(ErrorReply::ClientMemory.into())
        }
    })
}

/// Returns what is stored about a watched key besides its bytes.
fn watched_in(namespaces: &Namespaces, namespace: Namespace, version: Version) -> Watched {
    let database = namespaces.databases().database(namespace);
    Watched { end: 0, namespace, database, swaps: namespaces.swaps_of(database), version }
}

pub(super) fn unwatch<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    // When a queued `UNWATCH` is executed, no key is watched any more.
    if call.session.transaction.as_ref().is_some_and(|transaction| transaction.stage == Stage::Watching) {
        discard_all(call);
    }
    call.out.push(reply::OK);
    Ok(())
}

/// Ends the connection's transaction, if there is one, and releases its locks and memory. Returns false if the
/// transaction is unfinished. The caller must then call this function again in a later iteration.
pub(super) fn end(
    session: &mut SessionState,
    guard: &mut Guard<'_>,
    ctx: &mut WorkerContext,
    functions: &'static CommandFunctions,
) -> bool {
    for transaction in [session.transaction.take(), session.under_way.take()].into_iter().flatten() {
        session.under_way = atomic::end(transaction, guard, session, ctx, functions);
    }
    session.under_way.is_none()
}
