//! Retrievals that change the expiry of their items (`gat`, `gats`), and code that all retrievals share.

use super::call::{Call, Step};
use super::state::Retrieval;
use super::watch::WatchedLookup;
use super::{LINE_ROOM, exptime};
use crate::context::WorkerContext;
use crate::keyspace::prefixes::Count;
use crate::lookup::values::{Identity, pin_or_room};
use crate::memcache::guarded;
use crate::memcache::watch;
use crate::metrics::Command;
use crate::visit::out::OutBuffer;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::memcache::request::Get;
use protocol::memcache::{Error, reply};
use protocol::number::Decimal;
use segment::{Attempts, Expire, Guard, Key, LargeRef, Loaded, OpError, Pinned, Replaced, Replacement, Value};

/// An item that expires because the current request, which also returns the item, sets an expiry in the past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// The new expiry, which is in the past.
    pub(super) expire: Expire,
    /// The identity of the item whose value was written to the output.
    pub(super) identity: Identity,
}

/// The state of a key's part of the reply.
pub(super) enum Found {
    /// The item is completely written.
    Hit,
    /// The key has no item.
    Miss,
    /// The item's line is written; its large value must be sent from the store.
    Large(LargeRef),
    /// The item's line is written; its value is pinned and must be sent from the store.
    Pinned(Pinned),
}

/// Completes an item whose line begins at `mark` in the output. Returns true if the key exists. If `end_it` is given,
/// the item then expires, so that this reply is the last one that contains it.
pub(super) fn finish_item(
    call: &mut Call<'_, '_>,
    key: &Key<'_>,
    found: Found,
    mark: usize,
    end_it: Option<Ending>,
) -> Result<bool, SessionWait> {
    let done = match found {
        Found::Miss => return Ok(false),
        Found::Hit => end_item(call, key, end_it).map(|()| true),
        Found::Large(large) => push_large(call, key, large, end_it),
        Found::Pinned(pinned) => push_pinned(call, key, pinned, end_it),
    };
    if done != Ok(true) {
        call.out.truncate(mark);
    }
    done
}

/// Expires the item that was written to the output. If another item has replaced it meanwhile, expires nothing, and the
/// request is retried.
fn end_item(call: &mut Call<'_, '_>, key: &Key<'_>, end_it: Option<Ending>) -> Step {
    let Some(ending) = end_it else { return Ok(()) };
    match expire_same(call.guard, key, ending) {
        Ok(false) | Err(OpError::Parked) => Err(SessionWait::Parked),
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Changes the expiry of the item that was written to the output. If another item has replaced it meanwhile, changes
/// nothing and returns false.
fn expire_same(guard: &mut Guard<'_>, key: &Key<'_>, Ending { expire, identity }: Ending) -> Result<bool, OpError> {
    let mut attempts = Attempts::default();
    loop {
        let Loaded { item, version } = guard.items().load(key, &mut attempts)?;
        if item.as_ref().map(Identity::of) != Some(identity) {
            return Ok(false);
        }
        if guard.items_mut().replace(key, &version, Replacement::Expire(expire))? == Replaced::Done {
            return Ok(true);
        }
    }
}

/// Appends a pinned value and a line end.
#[cold]
fn push_pinned(
    call: &mut Call<'_, '_>,
    key: &Key<'_>,
    pinned: Pinned,
    end_it: Option<Ending>,
) -> Result<bool, SessionWait> {
    if let Err(state) = end_item(call, key, end_it) {
        call.ctx.unpin(pinned);
        return Err(state);
    }
    call.out.push_pinned(pinned);
    call.out.push(reply::CRLF);
    Ok(true)
}

/// Appends a large value and a line end. Returns false if the value has lost a piece; the key then counts as missing.
fn push_large(
    call: &mut Call<'_, '_>,
    key: &Key<'_>,
    large: LargeRef,
    end_it: Option<Ending>,
) -> Result<bool, SessionWait> {
    if !call.out.has_pin_room_for_large(large.bytes) || !call.ctx.pin_budget(large.bytes) {
        return Err(SessionWait::OutputFull { want: LINE_ROOM });
    }
    match call.guard.large().pin(key, large) {
        Ok(Some(pinned)) => push_pinned(call, key, pinned, end_it),
        refused => {
            call.ctx.pin_refund(large.bytes);
            if matches!(refused, Err(OpError::Parked)) { Err(SessionWait::Parked) } else { Ok(false) }
        }
    }
}

/// Executes `gat` and `gats`.
pub(super) fn get_and_touch<'c>(call: &mut Call<'c, '_>, get: Get<'c>, consumed: usize) -> Step {
    let expire = exptime::expire(get.touch.unwrap_or(0), call.ctx.moment());
    let mut keys = get.keys;
    loop {
        let (keys_left, with_cas, touch) = (keys.rest().len(), get.with_cas, get.touch);
        call.session.retrieval = Some(Retrieval { consumed, keys_left, with_cas, touch });
        if call.ops >= OPS_A_BATCH {
            return Err(SessionWait::Yield);
        }
        call.room(LINE_ROOM)?;
        let Some(bytes) = keys.next() else { break };
        if call.guarded {
            guarded::switch_to_key(call, bytes);
        }
        call.sample(bytes, true);
        let key = call.guard.key(call.session.namespace, bytes);
        if call.guard.locks().is_blocked(&key) {
            return Err(SessionWait::Parked);
        }
        // If the new expiry is in the past, the item expires, but only after it was written to this reply.
        let ends = exptime::is_past(expire, call.ctx.now);
        // Touch, value and token must belong to one item. A second lookup could find another item.
        let item = match (ends, get.with_cas) {
            (true, true) => call.guard.versions().gets(&key),
            (true, false) => Ok(call.guard.items().peek(&key)),
            (false, true) => call.guard.items_mut().touch_gets(&key, expire),
            (false, false) => call.guard.items_mut().touch(&key, expire),
        };
        let shown = item.as_ref().ok().and_then(|item| item.as_ref());
        // A value of another type has no form here, but its expiry is changed.
        let touched = !ends && shown.is_some();
        let end_it = shown.filter(|_| ends).map(|item| Ending { expire, identity: Identity::of(item) });
        let mark = call.out.mark();
        let seen = call.ctx.push.watch.watched.any().then(|| WatchedLookup::of(shown));
        let found = match item {
            Ok(None) => Found::Miss,
            Ok(Some(item)) => {
                let cas = get.with_cas.then(|| call.ctx.client_token(item.token));
                write_value(call.out, call.ctx, bytes, item.value, item.client_flags, cas)?
            }
            Err(OpError::Parked) => return Err(SessionWait::Parked),
            Err(_) => Found::Miss,
        };
        let hit = finish_item(call, &key, found, mark, end_it)?;
        watch::report_get(call, bytes, seen, hit);
        watch::report_retrieved(call, bytes, hit, false);
        if hit || touched {
            watch::report_touched(call, bytes, expire);
        }
        watch::count_prefix(call, bytes, Count::Get { hit });
        // As in memcached, a `gat` counts as a touch only.
        let counters = call.counters();
        counters.cmd_touch.add(1);
        if hit {
            counters.touch_hits.add(1)
        } else {
            counters.touch_misses.add(1)
        }
        call.ops += 1;
    }
    call.out.push(reply::END);
    call.session.retrieval = None;
    call.at += consumed;
    call.done(Command::Gat);
    Ok(())
}

/// Replies to a request that the store could not execute. If the operation is parked, returns that state instead.
pub(super) fn op_error(call: &mut Call<'_, '_>, error: OpError, quiet: bool) -> Step {
    let replied = match error {
        OpError::Parked => return Err(SessionWait::Parked),
        OpError::TooLarge => {
            call.counters().store_too_large.add(1);
            Error::TooLarge
        }
        OpError::OutOfMemory => {
            call.counters().store_no_memory.add(1);
            Error::OutOfMemory
        }
    };
    if !quiet {
        reply::error(call.out, replied);
    }
    Ok(())
}

/// Writes an item's line, and its value unless the value is sent from its place in the store. The caller ensures
/// `LINE_ROOM` free bytes.
pub(super) fn write_value(
    out: &mut OutBuffer,
    ctx: &WorkerContext,
    key: &[u8],
    value: Value<'_>,
    client_flags: u32,
    cas: Option<u64>,
) -> Result<Found, SessionWait> {
    match value {
        Value::Bytes(bytes) => {
            let pinned = pin_or_room(out, ctx, bytes)?;
            reply::value_header(out, key, client_flags, bytes.len() as u64, cas);
            if let Some(pinned) = pinned {
                return Ok(Found::Pinned(pinned));
            }
            out.push(bytes);
            out.push(reply::CRLF);
            Ok(Found::Hit)
        }
        Value::Integer(number) => {
            let digits = Decimal::new(number);
            reply::value_header(out, key, client_flags, digits.as_slice().len() as u64, cas);
            out.push(digits.as_slice());
            out.push(reply::CRLF);
            Ok(Found::Hit)
        }
        Value::Large(large) => {
            reply::value_header(out, key, client_flags, large.bytes, cas);
            Ok(Found::Large(large))
        }
        // A typed value of another protocol has no form in this protocol, so its key counts as missing.
        Value::Typed { .. } => Ok(Found::Miss),
    }
}
