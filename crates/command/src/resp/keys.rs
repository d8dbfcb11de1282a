//! Commands on whole keys: their existence, type, representation and removal.

use super::catalog::lower;
use super::encoding;
use super::error::ErrorReply;
use super::help::other_subcommand;
use super::info::policy;
use super::typed::{live, type_name};
use crate::clients::audit::AuditEvent;
use crate::context::audit_redis;
use crate::keyspace::namespaces::Namespaces;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::typed;
use crate::visit::progress::SessionWait;
use base::clock::UnixMillis;
use protocol::resp::{Args, reply};
use segment::{Fetch, Key, Namespace, OpError};

pub(super) fn del<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.each_key(args, |call, bytes| {
        if typed::remove(call, bytes)? {
            call.session.sum += 1;
            call.changed(KeyEvent::DEL, bytes);
        }
        Ok(())
    })?;
    call.int(call.session.sum);
    Ok(())
}

pub(super) fn exists<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.each_key(args, |call, bytes| {
        let key = call.key(bytes);
        let is_there = typed::is_there(call, &key)?;
        if !is_there && call.guard.tier().is_false_miss(&key) {
            return Err(SessionWait::Parked.into());
        }
        call.session.sum += i64::from(is_there);
        Ok(())
    })?;
    call.int(call.session.sum);
    Ok(())
}

pub(super) fn touch<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.each_key(args, |call, bytes| {
        let key = call.key(bytes);
        // If the item in memory counts as removed, for example because its set was truncated, flash need not be
        // checked.
        let found = call.guard.items().get(&key).map(|item| typed::is_typed(&item));
        let (is_missed, may_have_ended) = (found.is_none(), found == Some(true));
        let is_there = !is_missed && (!may_have_ended || typed::is_there(call, &key)?);
        if is_missed && call.guard.tier().is_false_miss(&key) {
            return Err(SessionWait::Parked.into());
        }
        call.session.sum += i64::from(is_there);
        Ok(())
    })?;
    call.int(call.session.sum);
    Ok(())
}

pub(super) fn kind<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = call.key(args.next().unwrap_or_default());
    typed::is_there(call, &key)?;
    let name = call.guard.items().peek(&key).and_then(|item| type_name(&item, call.ctx.view())).unwrap_or("none");
    reply::simple(call.out, name.as_bytes());
    Ok(())
}

/// Executes `OBJECT ENCODING | IDLETIME | FREQ | REFCOUNT`. As in Redis, the eviction policy determines which of
/// `IDLETIME` and `FREQ` is available.
pub(super) fn object<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    let Some(bytes) = args.next() else { return other_subcommand(call, "object", topic) };
    let key = call.key(bytes);
    typed::is_there(call, &key)?;
    let Some(item) = live(call.guard.items().peek(&key), call.ctx.view()) else {
        reply::null(call.out, call.session.version);
        return Ok(());
    };
    let is_lfu = policy(&call.ctx.shared, call.session.namespace).ends_with("lfu");
    match &lower(topic)[..] {
        b"encoding" => {
            let encoding = encoding::encoding_of(call, key, &item)?;
            reply::bulk(call.out, encoding.as_bytes());
        }
        b"refcount" => {
            let is_shared = !is_lfu && encoding::shared_number(&item);
            reply::int(call.out, if is_shared { i32::MAX.into() } else { 1 });
        }
        b"idletime" if is_lfu => reply::error(call.out, IDLE_TIME_UNKNOWN),
        b"idletime" => {
            let last_access = if item.stale { item.last_access } else { last_access(call, &key, item.last_access)? };
            let idle_secs = call.ctx.now.ms_since(last_access) / 1000;
            call.int(idle_secs as i64);
        }
        b"freq" if is_lfu => {
            let frequency = frequency(call, &key);
            call.int(frequency);
        }
        b"freq" => reply::error(call.out, FREQUENCY_UNKNOWN),
        _ => return other_subcommand(call, "object", topic),
    }
    Ok(())
}

const IDLE_TIME_UNKNOWN: &[u8] = b"ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that \
    when switching between policies at runtime LRU and LFU data will take some time to adjust.";
const FREQUENCY_UNKNOWN: &[u8] = b"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
    note that when switching between policies at runtime LRU and LFU data will take some time to adjust.";

/// Returns the instant of the last access to a key. From the first call for a key on, each access to its value is
/// recorded. `known` is the last access that is known before this call. The key's item is not stale, because this call
/// would then acquire the right to refill it.
fn last_access(call: &mut Call<'_, '_>, key: &Key<'_>, known: UnixMillis) -> Result<UnixMillis, Interrupt> {
    let fetch = Fetch { want_access: true, no_bump: true, ..Fetch::default() };
    match call.guard.items_mut().fetch(key, &fetch) {
        Ok(fetched) => Ok(fetched.map_or(known, |fetched| fetched.item.last_access)),
        // The record of accesses makes the item longer. If there is no room, the accesses stay unrecorded.
        Err(OpError::OutOfMemory | OpError::TooLarge) => Ok(known),
        Err(OpError::Parked) => Err(SessionWait::Parked.into()),
    }
}

/// Returns the access frequency of a key, from 0 to 255, on a logarithmic scale: the number of reads that the store has
/// counted, or more if the key is one of the hot keys of this minute or the last one.
fn frequency(call: &Call<'_, '_>, key: &Key<'_>) -> i64 {
    let reads = call.guard.items().reads(key).unwrap_or(0);
    let requests = call.ctx.shared.hot_requests((call.session.namespace, key.bytes()));
    let hot = requests.checked_ilog2().map_or(0, |log| FREQUENCY_COLD + STEP_OF_FREQUENCY * u64::from(log));
    hot.max(reads).min(255) as i64
}

/// The maximum frequency of a key that is not hot.
const FREQUENCY_COLD: u64 = 7;
/// The increase of the frequency of a hot key when the number of its requests doubles.
const STEP_OF_FREQUENCY: u64 = 8;

pub(super) fn flushall<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    flush(call, "FLUSHALL", args, None)
}

pub(super) fn flushdb<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let namespace = call.session.namespace;
    flush(call, "FLUSHDB", args, Some(namespace))
}

/// Flushes a namespace, or all without one. `ASYNC` and `SYNC` have the same effect, because a flush only stores one
/// number and does not free items.
fn flush<'c>(call: &mut Call<'c, '_>, name: &'static str, mut args: Args<'c>, which: Option<Namespace>) -> Run {
    if !call.ctx.shared.config.flush_command {
        return Err(ErrorReply::Disabled(name).into());
    }
    match args.next().map(lower) {
        None => {}
        Some(word) if args.len() == 0 && matches!(&word[..], b"async" | b"sync") => {}
        Some(_) => return Err(ErrorReply::Syntax.into()),
    }
    for namespace in Namespaces::numbers().filter(|namespace| which.is_none_or(|which| *namespace == which)) {
        call.guard.items_mut().flush(namespace)?;
        // As memcached's own flush without a delay does.
        call.ctx.shared.delayed_flush.cancel(namespace);
    }
    audit_redis(call.ctx, AuditEvent::Flush, || match which {
        Some(namespace) => format!("{name} {}", call.ctx.shared.namespaces.name(namespace)),
        None => name.to_owned(),
    });
    call.ctx.flushed(which);
    call.counters().cmd_flush.add(1);
    call.out.push(reply::OK);
    Ok(())
}

pub(super) fn dbsize<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    let keys = call.ctx.shared.store.keys(call.session.namespace);
    call.int(keys as i64);
    Ok(())
}
