//! Admission: decides whether a request may be executed now. It checks authentication, rights, pauses and quotas.
//!
//! Invariant: while no such restriction applies to any client, the admission of a request only reads a few fields of
//! the worker and the session.

use super::acl::KnownKeys;
use super::catalog;
use super::error::ErrorReply;
use super::session::{SessionState, is_token};
use super::subcommands::find_subcommand;
use crate::context::WorkerContext;
use crate::resp::acl;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::pubsub;
use crate::resp::scripts;
use crate::resp::session::CommandOrigin;
use crate::resp::settle;
use crate::resp::transaction;
use crate::shared::Pause;
use crate::visit::progress::SessionWait;

/// Checks that a request of `words` words may be executed now.
#[inline(always)]
pub(super) fn admit_command<'c>(
    call: &mut Call<'c, '_>,
    entry: &'static catalog::CommandSpec,
    words: usize,
    asked: KnownKeys<'_, 'c>,
) -> Run {
    if !entry.needs_no_check(words) {
        check_words(call, entry, words, asked).map_err(|fault| refusal(call, entry, fault))?;
    }
    admit_received(call, entry, asked)
}

/// Checks that a request with a valid number of words may be executed now. A request that is received in parts is
/// checked when it begins and again when it is complete: users and pauses may change meanwhile, and the rights that it
/// needs may depend on its last words.
#[inline(always)]
pub(super) fn admit_received<'c>(
    call: &mut Call<'c, '_>,
    entry: &'static catalog::CommandSpec,
    asked: KnownKeys<'_, 'c>,
) -> Run {
    let session = &*call.session;
    let restrained = call.ctx.admission.restrained || call.ctx.has_op_quota(call.session.namespace);
    if restrained || session.is_restricted || is_token(session) || session.aside.is_some() || call.is_unauthenticated()
    {
        check_allowed(call, entry, asked).map_err(|stop| match stop {
            Interrupt::Fault(fault) => refusal(call, entry, fault),
            other => other,
        })?;
    }
    Ok(())
}

/// Returns an error if the request has a wrong number of words, or an unknown subcommand. Records the subcommand.
#[cold]
fn check_words(
    call: &mut Call<'_, '_>,
    entry: &'static catalog::CommandSpec,
    words: usize,
    asked: KnownKeys<'_, '_>,
) -> Result<(), ErrorReply> {
    if !entry.accepts_words(words) {
        return Err(ErrorReply::Arity(entry.name));
    }
    let first = if let KnownKeys::All(mut args) = asked { args.next() } else { None };
    let Some(first) = first.filter(|_| entry.is_container()) else { return Ok(()) };
    let (_, part) = find_subcommand(entry.name, first).ok_or(ErrorReply::UnknownPart(entry.name))?;
    if !part.accepts_words(words) {
        return Err(ErrorReply::Arity(part.name));
    }
    call.session.last_part = Some(part);
    Ok(())
}

/// Returns an error if the client may not execute the request, or a wait state if the request must wait.
#[cold]
fn check_allowed<'c>(call: &mut Call<'c, '_>, entry: &'static catalog::CommandSpec, asked: KnownKeys<'_, 'c>) -> Run {
    if !settle::is_settled(call.session, &call.ctx.shared.namespaces) {
        settle::settle_between_requests(call.session, &call.ctx.shared.namespaces);
    }
    if call.is_unauthenticated() && !entry.has(catalog::Flag::NoAuth) {
        return Err(ErrorReply::NoAuth.into());
    }
    if call.session.is_restricted && !matches!(entry.name, "ping" | "hello" | "auth" | "quit") {
        return Err(ErrorReply::Protected.into());
    }
    if call.ctx.shared.config.disabled.iter().any(|name| name == entry.name) {
        return Err(ErrorReply::Disabled(entry.name).into());
    }
    if call.ctx.admission.is_below_least && entry.has(catalog::Flag::DenyOom) {
        return Err(ErrorReply::OutOfMemory.into());
    }
    pubsub::may_while_subscribed(call, entry)?;
    if call.ctx.admission.user_changes != 0 || is_token(call.session) {
        acl::permit(call, entry, asked)?;
    }
    let waits = match call.ctx.admission.pause {
        Pause::None => false,
        Pause::Writes if entry.name == "exec" => {
            call.session.transaction.as_ref().is_some_and(|transaction| transaction.has_writes)
        }
        Pause::Writes => {
            let first = if let KnownKeys::All(mut args) = asked { args.next() } else { None };
            entry.waits_with_writes(first) && !scripts::is_declared_not_to_write(call, entry.name, first)
        }
        // As in Redis, `CLIENT UNPAUSE` waits too.
        Pause::All => true,
    };
    if waits {
        call.ctx.admission.has_delayed = true;
        note_paused(call);
        return Err(SessionWait::Parked.into());
    }
    if !call.session.is_counted && call.session.done == 0 && counts_in_quotas(call.session, entry) {
        take_quotas(call, entry)?;
    }
    Ok(())
}

/// Returns true if a request counts in the quotas of operations. A call that is a transaction counts once, as its
/// `MULTI` or as what it reads before, so that it is refused before its first step.
fn counts_in_quotas(session: &SessionState, entry: &catalog::CommandSpec) -> bool {
    session.origin != CommandOrigin::Call
        || match entry.name {
            "exec" | "watch" | "unwatch" => false,
            "multi" => session.transaction.is_none(),
            _ => !session.is_queueing(),
        }
}

/// Counts a request, unless it is a retry, in the quotas of operations per second of the user and of the namespace.
/// Returns an error if one is used up.
fn take_quotas(call: &mut Call<'_, '_>, entry: &'static catalog::CommandSpec) -> Result<(), ErrorReply> {
    // A script is one request of its user.
    if call.ctx.admission.user_changes != 0
        && call.session.origin != CommandOrigin::Script
        && (entry.name == "multi" || !acl::is_always_allowed(call.session, entry))
    {
        if let Err(fault) = acl::take_op(call) {
            call.counters().user_ops_refused.add(1);
            return Err(fault);
        }
        call.session.is_counted = true;
    }
    // Commands of the group "connection" do not access keys, so they do not use the namespace's quota.
    if call.ctx.has_op_quota(call.session.namespace) && entry.group != "connection" {
        if !call.ctx.shared.namespaces.take_op(call.session.namespace, call.ctx.now) {
            return Err(ErrorReply::TooManyOps);
        }
        call.session.is_counted = true;
    }
    Ok(())
}

/// Counts the client among those that wait in the current pause.
fn note_paused(call: &mut Call<'_, '_>) {
    let number = call.ctx.shared.live.pause.number();
    if call.session.paused_in == number {
        return;
    }
    call.session.paused_in = number;
    let counters = call.ctx.counters();
    let others = if counters.paused_in.value() == number { counters.paused_clients.value() } else { 0 };
    counters.paused_in.set(number);
    counters.paused_clients.set(others + 1);
    call.with_client_info(|client_info| client_info.paused_in = number);
}

/// Removes a client whose connection ends from those that wait in the current pause.
pub(super) fn forget_paused(session: &mut SessionState, ctx: &WorkerContext) {
    let (number, counters) = (std::mem::take(&mut session.paused_in), ctx.counters());
    if number != 0 && number == counters.paused_in.value() {
        counters.paused_clients.set(counters.paused_clients.value().saturating_sub(1));
    }
}

/// Returns the error reply to a refused request. If the session has an open transaction, first marks it as aborted, or
/// discards it if the refused request is `EXEC`.
#[cold]
pub(super) fn refusal(call: &mut Call<'_, '_>, entry: &catalog::CommandSpec, fault: ErrorReply) -> Interrupt {
    call.is_refused = true;
    if entry.name == "exec" {
        transaction::discard_all(call);
    } else {
        call.session.abort_queue();
    }
    fault.into()
}
