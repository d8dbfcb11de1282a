//! The check of other protocols for records whose bins have all expired. Such a key counts as missing.

use crate::context::WorkerContext;
use crate::resp::call::{Call, Interrupt};
use crate::resp::functions::FUNCTIONS;
use crate::resp::session::session_of_calls;
use crate::resp::typed;
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use segment::{Guard, Key};

/// Returns true if a key holds a typed value.
#[inline]
fn is_typed(guard: &Guard<'_>, key: &Key<'_>) -> bool {
    guard.items().peek(key).is_some_and(|item| typed::is_typed(&item))
}

/// Removes the value of a key if it is a record whose bins have all expired, or whose set was truncated. Returns true
/// if it has removed one.
#[cold]
pub(crate) fn remove_ended(guard: &mut Guard<'_>, ctx: &mut WorkerContext, key: &Key<'_>) -> Result<bool, SessionWait> {
    if !is_typed(guard, key) {
        return Ok(false);
    }
    let mut session = session_of_calls(key.namespace());
    let mut out = OutBuffer::beside(&ctx.shared.budget);
    let call = &mut Call::new((guard, ctx), b"", &mut out, &mut session, &FUNCTIONS);
    match typed::is_there(call, key) {
        Ok(is_there) => Ok(!is_there),
        Err(Interrupt::State(state)) => Err(state),
        // The record cannot be read. The request treats it as a value of another type.
        Err(_) => Ok(false),
    }
}
