//! Admission: decides whether a request may be executed now. It checks authentication, rights, pauses and quotas.
//!
//! Invariant: while no client is restrained, admission of a request reads two fields of the batch and the session.

use super::acl::Asked;
use super::catalog;
use super::error::Fault;
use crate::resp::acl;
use crate::resp::call::{Call, Run, Stop};
use crate::resp::pubsub;
use crate::resp::transaction;
use crate::shared::Pause;
use crate::visit::progress::State;

/// Checks that a request of `words` words may be executed now.
#[inline(always)]
pub(super) fn admit_command<'c>(
    call: &mut Call<'c, '_>,
    entry: &'static catalog::Entry,
    words: usize,
    asked: Asked<'_, 'c>,
) -> Run {
    if !entry.takes(words) {
        return Err(refused(call, entry, Fault::Arity(entry.name)));
    }
    let session = &*call.session;
    let restrained = call.ctx.admission.restrained || call.ctx.is_rationed(call.session.namespace);
    if restrained || session.held_off || session.aside.is_some() || call.is_stranger() {
        may(call, entry, asked).map_err(|stop| match stop {
            Stop::Fault(fault) => refused(call, entry, fault),
            other => other,
        })?;
    }
    Ok(())
}

/// Refuses or delays a request that this client may not execute, or not now.
#[cold]
fn may<'c>(call: &mut Call<'c, '_>, entry: &'static catalog::Entry, asked: Asked<'_, 'c>) -> Run {
    if call.is_stranger() && !entry.has(catalog::Flag::NoAuth) {
        return Err(Fault::NoAuth.into());
    }
    if call.session.held_off && !matches!(entry.name, "ping" | "hello" | "auth" | "quit") {
        return Err(Fault::Protected.into());
    }
    if call.ctx.shared.config.disabled.iter().any(|name| name == entry.name) {
        return Err(Fault::Disabled(entry.name).into());
    }
    pubsub::may_while_subscribed(call, entry)?;
    if call.ctx.admission.user_changes != 0 {
        acl::permit(call, entry, asked)?;
    }
    let waits = match call.ctx.admission.pause {
        Pause::None => false,
        Pause::Writes => entry.has(catalog::Flag::Write) || matches!(entry.name, "publish" | "exec"),
        // The command that ends the pause must be executed.
        Pause::All => entry.name != "client",
    };
    if waits {
        return Err(State::Parked.into());
    }
    // Commands of the group "connection" do not access keys, so they do not count.
    if call.ctx.is_rationed(call.session.namespace)
        && !call.session.is_paid
        && call.session.done == 0
        && entry.group != "connection"
    {
        if !call.ctx.shared.namespaces.take_op(call.session.namespace, call.ctx.now) {
            return Err(Fault::TooManyOps.into());
        }
        call.session.is_paid = true;
    }
    Ok(())
}

/// Returns the reason why a request is neither executed nor queued, after its effect on a transaction.
#[cold]
pub(super) fn refused(call: &mut Call<'_, '_>, entry: &catalog::Entry, fault: Fault) -> Stop {
    if entry.name == "exec" && matches!(fault, Fault::Arity(_)) {
        // A refused `EXEC` ends the transaction.
        transaction::discard_all(call);
        return Fault::ExecRefused.into();
    }
    call.session.spoil();
    fault.into()
}
