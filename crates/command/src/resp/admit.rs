//! Admission: decides whether a request may be executed now. It checks authentication, rights, pauses and quotas.
//!
//! Invariant: while no such restriction applies to any client, the admission of a request only reads a few fields of
//! the worker and the session.

use super::acl::KnownKeys;
use super::catalog;
use super::error::ErrorReply;
use crate::resp::acl;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::pubsub;
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
    if !entry.accepts_words(words) {
        return Err(refusal(call, entry, ErrorReply::Arity(entry.name)));
    }
    let session = &*call.session;
    let restrained = call.ctx.admission.restrained || call.ctx.has_op_quota(call.session.namespace);
    if restrained || session.is_restricted || session.aside.is_some() || call.is_unauthenticated() {
        check_allowed(call, entry, asked).map_err(|stop| match stop {
            Interrupt::Fault(fault) => refusal(call, entry, fault),
            other => other,
        })?;
    }
    Ok(())
}

/// Returns an error if the client may not execute the request, or a wait state if the request must wait.
#[cold]
fn check_allowed<'c>(call: &mut Call<'c, '_>, entry: &'static catalog::CommandSpec, asked: KnownKeys<'_, 'c>) -> Run {
    if call.is_unauthenticated() && !entry.has(catalog::Flag::NoAuth) {
        return Err(ErrorReply::NoAuth.into());
    }
    if call.session.is_restricted && !matches!(entry.name, "ping" | "hello" | "auth" | "quit") {
        return Err(ErrorReply::Protected.into());
    }
    if call.ctx.shared.config.disabled.iter().any(|name| name == entry.name) {
        return Err(ErrorReply::Disabled(entry.name).into());
    }
    pubsub::may_while_subscribed(call, entry)?;
    if call.ctx.admission.user_changes != 0 {
        acl::permit(call, entry, asked)?;
    }
    let waits = match call.ctx.admission.pause {
        Pause::None => false,
        Pause::Writes => entry.has(catalog::Flag::Write) || matches!(entry.name, "publish" | "exec"),
        // During a pause, `CLIENT` must still be executed, because `CLIENT UNPAUSE` ends the pause.
        Pause::All => entry.name != "client",
    };
    if waits {
        return Err(SessionWait::Parked.into());
    }
    // Commands of the group "connection" do not access keys, so they do not use the quota.
    if call.ctx.has_op_quota(call.session.namespace)
        && !call.session.is_counted
        && call.session.done == 0
        && entry.group != "connection"
    {
        if !call.ctx.shared.namespaces.take_op(call.session.namespace, call.ctx.now) {
            return Err(ErrorReply::TooManyOps.into());
        }
        call.session.is_counted = true;
    }
    Ok(())
}

/// Returns the error reply to a refused request. If the session has an open transaction, first marks it as aborted, or
/// discards it if the refused request is `EXEC`.
#[cold]
pub(super) fn refusal(call: &mut Call<'_, '_>, entry: &catalog::CommandSpec, fault: ErrorReply) -> Interrupt {
    if entry.name == "exec" && matches!(fault, ErrorReply::Arity(_)) {
        // A refused `EXEC` ends the transaction.
        transaction::discard_all(call);
        return ErrorReply::ExecRefused.into();
    }
    call.session.abort_queue();
    fault.into()
}
