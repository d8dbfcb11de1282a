//! Storage commands whose value is too long for a buffer. The value is written to the store while it is received.

use super::call::{Call, Step};
use super::state::{Plan, Storing};
use crate::lookup::large::{Advance, IN_PLACE_BYTES_MIN, LargeSet};
use crate::memcache::store;
use crate::memcache::watch;
use crate::resp;
use crate::visit::progress::SessionWait;
use protocol::memcache::{Error, KEY_BYTES_MAX};
use segment::OpError;

/// Checks that every key of this protocol is short enough to be stored in the session.
const _: () = assert!(KEY_BYTES_MAX <= 250);

/// Begins to receive a large value, after its request line.
pub(super) fn large_begin(call: &mut Call<'_, '_>, plan: Plan, key: &[u8], value_len: u32, consumed: usize) -> Step {
    if call.ctx.shared.host.is_draining() {
        // A handover is being prepared. The process that takes over will receive the value.
        return Err(SessionWait::Parked);
    }
    let name = call.guard.key(call.session.namespace, key);
    match call.guard.large().begin(&name, value_len.into(), plan.pieces_end()) {
        Ok(writer) => {
            call.at += consumed;
            let large =
                LargeSet::pieces(writer, (call.session.namespace, key), call.ctx).expect("a short key always fits");
            call.session.large = Some(Storing { large, plan });
        }
        Err(error) => {
            store::not_stored(call, &plan, key, error)?;
            call.at += consumed;
            call.session.discard_bytes = u64::from(value_len) + 2;
            call.done(plan.command);
        }
    }
    Ok(())
}

/// Begins to receive a value in place, after the line of a command that stores it as a whole. Returns false if a buffer
/// must receive the value.
pub(super) fn whole_begin(call: &mut Call<'_, '_>, plan: &Plan, key: &[u8], value_len: u32, consumed: usize) -> bool {
    // Conditions of a command are checked after the whole value was received, so only unconditional commands qualify.
    if (value_len as usize) < IN_PLACE_BYTES_MIN || !plan.replaces() || call.ctx.shared.host.is_draining() {
        return false;
    }
    let Some(mut large) = LargeSet::whole(value_len as usize, (call.session.namespace, key), call.ctx) else {
        return false;
    };
    let rest = &call.buf[call.at + consumed..];
    match large.begin_in_place(call.guard, call.ctx, rest, &plan.put(b"")) {
        Some(taken) => {
            call.at += consumed + taken;
            call.session.large = Some(Storing { large, plan: *plan });
            true
        }
        None => {
            large.end(call.guard, call.ctx);
            false
        }
    }
}

/// Processes the next received part of the large value. Stores the value when it is complete.
pub(super) fn continue_large(call: &mut Call<'_, '_>) -> Step {
    let Some(mut storing) = call.session.large.take() else { return Ok(()) };
    let rest = call.rest();
    match storing.large.advance(call.guard, call.ctx, rest, &storing.plan.put(b"")) {
        Advance::Wait { consumed, want } => {
            call.at += consumed;
            call.session.large = Some(storing);
            Err(SessionWait::NeedInput { want })
        }
        Advance::Part { consumed } => {
            call.at += consumed;
            call.session.large = Some(storing);
            Ok(())
        }
        Advance::Unended { consumed } => {
            call.at += consumed;
            storing.large.end(call.guard, call.ctx);
            store::refuse(call, &storing.plan, Error::BadDataChunk);
            Ok(())
        }
        Advance::Failed(error) => large_failed(call, storing, error),
        Advance::Complete { held } => large_store(call, storing, held),
    }
}

/// Stores a value that was received completely. The input still contains `held` bytes of it.
fn large_store(call: &mut Call<'_, '_>, mut storing: Storing, held: usize) -> Step {
    let Storing { large, plan } = &mut storing;
    if !plan.replaces() {
        let key = call.guard.key(call.session.namespace, large.key());
        if let Err(state) = resp::remove_ended(call.guard, call.ctx, &key) {
            call.session.large = Some(storing);
            return Err(state);
        }
    }
    let (rest, bytes) = (call.rest(), large.bytes());
    let before = watch::look_up_watched(call, &call.guard.key(call.session.namespace, large.key()));
    match large.store(call.guard, call.ctx, rest, &plan.put(b"")) {
        Ok(outcome) => {
            store::stored(call, plan, large.key(), before, outcome, bytes);
            call.at += held;
            call.done(plan.command);
            storing.large.end(call.guard, call.ctx);
            Ok(())
        }
        Err(error) => large_failed(call, storing, error),
    }
}

/// Handles a value that the store has not accepted. If the operation was parked, arranges a retry. Otherwise, replies
/// with an error and discards the rest of the value.
fn large_failed(call: &mut Call<'_, '_>, storing: Storing, error: OpError) -> Step {
    if let Err(state) = store::not_stored(call, &storing.plan, storing.large.key(), error) {
        call.session.large = Some(storing);
        return Err(state);
    }
    call.session.discard_bytes = storing.large.unread();
    storing.large.end(call.guard, call.ctx);
    call.done(storing.plan.command);
    Ok(())
}
