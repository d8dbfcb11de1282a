//! Storage commands whose value is longer than what a buffer is for: it goes into the store as it arrives.

use super::call::{Call, Step};
use super::state::{Plan, Storing};
use crate::lookup::large::{ARRIVING_BYTES_MIN, Advance, LargeSet};
use crate::memcache::store;
use crate::memcache::watch;
use crate::visit::progress::State;
use protocol::memcache::{Error, KEY_BYTES_MAX};
use segment::OpError;

/// Such keys are kept in the session.
const _: () = assert!(KEY_BYTES_MAX <= 250);

/// The line of a large value has arrived.
pub(super) fn large_begin(call: &mut Call<'_, '_>, plan: Plan, key: &[u8], value_len: u32, consumed: usize) -> Step {
    if call.ctx.shared.host.is_draining() {
        // The process that takes over begins it.
        return Err(State::Parked);
    }
    let name = call.guard.key(call.session.namespace, key);
    match call.guard.large().begin(&name, value_len.into(), plan.pieces_end()) {
        Ok(writer) => {
            call.at += consumed;
            let large =
                LargeSet::pieces(writer, (call.session.namespace, key), call.ctx).expect("a short key is always kept");
            call.session.large = Some(Storing { large, plan });
        }
        Err(error) => {
            store::not_stored(call, &plan, key, error)?;
            call.at += consumed;
            call.session.swallow = u64::from(value_len) + 2;
            call.done(plan.command);
        }
    }
    Ok(())
}

/// The line of a value that is stored whole has arrived, and not all of the value: has the rest received into its
/// place. False if it is to be received into a buffer.
pub(super) fn whole_begin(call: &mut Call<'_, '_>, plan: &Plan, key: &[u8], value_len: u32, consumed: usize) -> bool {
    // What a condition comes to is not known before all is there.
    if (value_len as usize) < ARRIVING_BYTES_MIN || !plan.replaces() || call.ctx.shared.host.is_draining() {
        return false;
    }
    let Some(mut large) = LargeSet::whole(value_len as usize, (call.session.namespace, key), call.ctx) else {
        return false;
    };
    let rest = &call.buf[call.at + consumed..];
    match large.begin_arrival(call.guard, call.ctx, rest, &plan.put(b"")) {
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

/// Takes the next part of the value that is arriving, or stores it.
pub(super) fn large_go_on(call: &mut Call<'_, '_>) -> Step {
    let Some(mut storing) = call.session.large.take() else { return Ok(()) };
    let rest = call.rest();
    match storing.large.go_on(call.guard, call.ctx, rest, &storing.plan.put(b"")) {
        Advance::Wait { consumed, want } => {
            call.at += consumed;
            call.session.large = Some(storing);
            Err(State::NeedInput { want })
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

/// All of the value is there, `held` bytes of it in the input.
fn large_store(call: &mut Call<'_, '_>, mut storing: Storing, held: usize) -> Step {
    let Storing { large, plan } = &mut storing;
    let (rest, bytes) = (call.rest(), large.bytes());
    let before = watch::seen(call, &call.guard.key(call.session.namespace, large.key()));
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

/// The store does not take the value: says so, and swallows what is left of it; or it does not take it yet.
fn large_failed(call: &mut Call<'_, '_>, storing: Storing, error: OpError) -> Step {
    if let Err(state) = store::not_stored(call, &storing.plan, storing.large.key(), error) {
        call.session.large = Some(storing);
        return Err(state);
    }
    call.session.swallow = storing.large.unread();
    storing.large.end(call.guard, call.ctx);
    call.done(storing.plan.command);
    Ok(())
}
