//! Retrievals that change what they find (`gat`, `gats`), and what all retrievals share.

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

/// An item that ends by the request that shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// A time that is past.
    pub(super) expire: Expire,
    /// The item that was written.
    pub(super) identity: Identity,
}

/// Contents of a key's place in the reply so far.
pub(super) enum Found {
    /// An item, all of it written.
    Hit,
    /// No item.
    Miss,
    /// A large value to be sent from the store, behind its line.
    Large(LargeRef),
    /// A value to be sent from the store, behind its line.
    Pinned(Pinned),
}

/// Writes what is left to be written of an item, whose line begins at `mark`, and says whether it was there. With
/// `end_it` the item that was written ends by this request, which all the same is the last to see it.
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

/// Ends the item that was written. If another one has taken its place, nothing ends and the request is done again.
fn end_item(call: &mut Call<'_, '_>, key: &Key<'_>, end_it: Option<Ending>) -> Step {
    let Some(ending) = end_it else { return Ok(()) };
    match expire_same(call.guard, key, ending) {
        Ok(false) | Err(OpError::Parked) => Err(SessionWait::Parked),
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Changes the expiry of the item that was written. Returns false if the key has another item by now.
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

/// Puts a pinned value and a line end.
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

/// Puts a large value and a line end; `false` if the value has lost a piece and counts as missing.
fn push_large(
    call: &mut Call<'_, '_>,
    key: &Key<'_>,
    large: LargeRef,
    end_it: Option<Ending>,
) -> Result<bool, SessionWait> {
    if !call.out.has_pin_room() || !call.ctx.pin_budget(large.bytes) {
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

/// `gat` and `gats`.
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
        // A time that is past ends the item, but only after it was sent.
        let ends = exptime::is_past(expire, call.ctx.now);
        // Touch, value and token are of one item: a second look-up could find another.
        let item = match (ends, get.with_cas) {
            (true, true) => call.guard.versions().gets(&key),
            (true, false) => Ok(call.guard.items().peek(&key)),
            (false, true) => call.guard.items_mut().touch_gets(&key, expire),
            (false, false) => call.guard.items_mut().touch(&key, expire),
        };
        let shown = item.as_ref().ok().and_then(|item| item.as_ref());
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
        if hit {
            watch::report_touched(call, bytes, expire);
        }
        watch::count_prefix(call, bytes, Count::Get { hit });
        let counters = call.counters();
        counters.cmd_touch.add(1);
        counters.cmd_get.add(1);
        if hit {
            counters.touch_hits.add(1);
            counters.get_hits.add(1);
        } else {
            counters.touch_misses.add(1);
            counters.get_misses.add(1);
        }
        call.ops += 1;
    }
    call.out.push(reply::END);
    call.session.retrieval = None;
    call.at += consumed;
    call.done(Command::Gat);
    Ok(())
}

/// Answers a request that could not be done.
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

/// Writes an item's line and value, unless the value is to be sent from the store. `LINE_ROOM` bytes are free.
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
        // What another protocol has stored and this one has no words for is as if it were not there.
        Value::Typed { .. } => Ok(Found::Miss),
    }
}
