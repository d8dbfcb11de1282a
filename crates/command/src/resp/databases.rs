//! The databases that a command accesses besides that of its client: those of `MOVE` and of `COPY` with `DB`. And
//! `SWAPDB`, which exchanges the namespaces of two databases.
//!
//! ```text
//!   SWAPDB a b ──> locks all keys ──> exchanges the namespaces ──> waits for the batches of other workers to end ──┐
//!     reply <── announces keys <── waits until the clients that wait are in the queues of the other namespace <──┘
//! ```
//!
//! A session moves to the other namespace before its next request. A request that has begun ends in the namespace in
//! which it began, unless it is a transaction that has not locked its keys yet.

use super::atomic;
use super::catalog::words;
use super::catalog::{self, CommandSpec, lower};
use super::error::ErrorReply;
use super::number::integer;
use crate::clients::audit::AuditEvent;
use crate::context::audit_redis;
use crate::keyspace::namespaces::Namespaces;
use crate::push::waiters::WaitKind;
use crate::resp::call::{Call, Run};
use crate::resp::session::CommandOrigin;
use crate::resp::session::LockWish;
use crate::resp::settle;
use crate::resp::state::long::Long;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use segment::Namespace;
use std::sync::Arc;

/// Returns the argument that names another database in which the command accesses its keys.
fn named<'c>(entry: &CommandSpec, mut args: Args<'c>) -> Option<&'c [u8]> {
    match entry.name {
        "move" => args.nth(1),
        "copy" => {
            let (mut named, mut options) = (None, args.skip(2));
            while let Some(word) = options.next() {
                if lower(word)[..] == *b"db" {
                    named = options.next();
                }
            }
            named
        }
        _ => None,
    }
}

/// Executes `SWAPDB first second`.
pub(super) fn swapdb<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [first, second] = words(args);
    let number = |text, fault| integer(text).ok().and_then(|number| i32::try_from(number).ok()).ok_or(fault);
    let databases = [number(first, ErrorReply::FirstDatabase)?, number(second, ErrorReply::SecondDatabase)?];
    let [a, b] =
        databases.map(|number| u8::try_from(number).ok().filter(|number| usize::from(*number) < Namespace::MAX));
    let (a, b) = (a.ok_or(ErrorReply::Database)?, b.ok_or(ErrorReply::Database)?);
    if call.session.origin == CommandOrigin::Script {
        return Err(ErrorReply::SwapInScript.into());
    }
    if a == b {
        call.out.push(reply::OK);
        return Ok(());
    }
    if !call.guard.locks().is_attached() {
        return atomic::run_as_one(call, catalog::entry("swapdb"), args);
    }
    let shared = Arc::clone(&call.ctx.shared);
    if call.session.done == 0 {
        shared.namespaces.swap(a, b);
        settle::settle(call.session, &shared.namespaces);
        (call.session.done, call.session.lock_wish) = (1, LockWish::Guards);
        return Err(SessionWait::Yield.into());
    }
    let databases = shared.namespaces.databases();
    let wake = &mut |worker, connection| call.ctx.mark_messages_queued(worker, connection);
    if shared.waiters.blocked() > 0 && !shared.waiters.wake_moved(databases, wake) {
        call.ctx.retry_at_once = true;
        return Err(SessionWait::Parked.into());
    }
    let swapped = [a, b].map(|database| databases.namespace(database));
    audit_redis(call.ctx, AuditEvent::Flush, || format!("SWAPDB {a} {b}"));
    // A client knows its copies by their keys, which have other values now.
    shared.tracking.swapped(swapped);
    call.ctx.invalidate_flushed();
    announce(call, swapped);
    call.out.push(reply::OK);
    Ok(())
}

/// Announces the keys of two namespaces to the clients that wait for them. A member of a group also learns that its
/// stream does not exist.
fn announce(call: &mut Call<'_, '_>, namespaces: [Namespace; 2]) {
    let shared = Arc::clone(&call.ctx.shared);
    shared.waiters.each_key(namespaces, &mut |kind, key| {
        let is_there = call.guard.items().peek(&call.guard.key(key.namespace, key.bytes)).is_some();
        if is_there || kind == WaitKind::Group {
            Long::waits_mut(&mut call.session.long).fill(key);
        }
    });
}

/// Returns the namespace, other than `here`, in which a request of the command accesses its keys. `here` is the
/// namespace of the session. If the argument is no namespace, the command itself refuses it.
pub(super) fn other(
    (here, namespaces): (Namespace, &Namespaces),
    entry: &CommandSpec,
    args: Args<'_>,
) -> Option<Namespace> {
    namespaces.find(named(entry, args)?).filter(|other| *other != here)
}

/// Returns the only key of a request, if the command always has exactly one and accesses it in one namespace. Takes
/// much less time than [`keys_of`].
pub(super) fn only_key<'c>(entry: &CommandSpec, args: Args<'c>) -> Option<&'c [u8]> {
    if entry.keys == (1, 1, 1) && entry.name != "move" { args.into_iter().next() } else { None }
}

/// Returns the keys of a request with their namespaces. A request that accesses two namespaces may access each of its
/// keys in both.
pub(super) fn keys_of<'c>(
    (here, namespaces): (Namespace, &Namespaces),
    entry: &CommandSpec,
    args: Args<'c>,
) -> impl Iterator<Item = (Namespace, &'c [u8])> + use<'c> {
    let other = other((here, namespaces), entry, args);
    let elsewhere = entry.keys_of(args).map_while(move |key| Some((other?, key)));
    entry.keys_of(args).map(move |key| (here, key)).chain(elsewhere)
}
