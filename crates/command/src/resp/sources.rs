//! Detects keys that a command over several visits has lost.
//!
//! The keys of such a command are locked, so no other client changes them. But a key may expire, be evicted or be
//! flushed between two visits. The result would then contain a part of its elements.
//!
//! ```text
//!   first visit ──> count the keys that exist ──visit, visit ...──> count again ──the same──> the result is whole
//!        ▲                                                               │
//!        └──────────── discard the result, at most 4 times ◀────fewer────┘
//! ```
//!
//! A locked key that is lost does not return, so one comparison after the last read covers all visits.

use super::error::ErrorReply;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::state::walk::Reading;
use crate::visit::progress::SessionWait;
use protocol::resp::Args;

/// The number of times that a command starts over because it has lost a key, before it fails.
pub(super) const LOSSES_MAX: u32 = 4;

/// Returns the number of `keys` that exist.
///
/// # Errors
/// [`SessionWait::Parked`] if one of them is on its way to or from flash.
pub(super) fn count(call: &Call<'_, '_>, keys: Args<'_>) -> Result<u64, Interrupt> {
    let mut found = 0;
    for bytes in keys {
        let key = call.key(bytes);
        let is_there = call.guard.items().peek(&key).is_some();
        if !is_there && call.guard.tier().is_false_miss(&key) {
            return Err(SessionWait::Parked.into());
        }
        found += u64::from(is_there);
    }
    Ok(found)
}

/// Begins a visit: counts the keys in the first one. Keys that are not locked are not compared, because other clients
/// may change them.
pub(super) fn begin(call: &Call<'_, '_>, reading: &mut Reading, keys: Args<'_>) -> Run {
    reading.allow_changes();
    if reading.keys.is_none() && call.guard.locks().is_attached() {
        reading.keys = Some(count(call, keys)?);
    }
    Ok(())
}

/// Checks after the last read that all keys that [`begin`] has counted still exist.
///
/// # Errors
/// See [`start_over`].
pub(super) fn check(call: &mut Call<'_, '_>, reading: &mut Reading, keys: Args<'_>) -> Run {
    match reading.keys {
        Some(before) if count(call, keys)? < before => Err(start_over(call, reading)),
        _ => Ok(()),
    }
}

/// Resets the progress of the request, which has lost a key. Returns the wait state after which it starts over, or the
/// error if it has lost keys too often. The caller discards the rest of its state if `reading` is new again.
pub(super) fn start_over(call: &mut Call<'_, '_>, reading: &mut Reading) -> Interrupt {
    call.session.end_request();
    *reading = Reading { restarts: reading.restarts + 1, ..Reading::default() };
    if reading.restarts > LOSSES_MAX { ErrorReply::KeysLost.into() } else { SessionWait::Yield.into() }
}
