//! Commands on whole keys: their existence, type, representation and removal.

use super::catalog::lower;
use super::error::ErrorReply;
use super::typed::{live, type_name};
use crate::keyspace::namespaces::Namespaces;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Run};
use crate::resp::typed;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use record::Kind;
use segment::{Delete, DeleteOutcome, Namespace, Value};

pub(super) fn del<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.each_key(args, |call, bytes| {
        let key = call.key(bytes);
        let outcome = call.guard.items_mut().delete(&key, &Delete::default())?;
        if outcome == DeleteOutcome::Deleted {
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
        let found = call.guard.items().get(&key);
        let is_missed = found.is_none();
        let is_there = live(found, call.ctx.view()).is_some();
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

/// Executes `OBJECT`: replies with a property of a stored value, such as its encoding.
pub(super) fn object<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    let (Some(bytes), 0) = (args.next(), args.len()) else {
        super::error::subcommand(call.out, "OBJECT", topic);
        return Ok(());
    };
    let key = call.key(bytes);
    let now = call.ctx.now;
    let Some(item) = live(call.guard.items().peek(&key), call.ctx.view()) else {
        reply::null(call.out, call.session.version);
        return Ok(());
    };
    match &lower(topic)[..] {
        b"encoding" => reply::bulk(call.out, encoding(item.value)),
        b"idletime" => reply::int(call.out, (now.ms_since(item.last_access) / 1000) as i64),
        b"refcount" => reply::int(call.out, 1),
        b"freq" => reply::error(
            call.out,
            b"ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
              switching between policies at runtime LRU and LFU data will take some time to adjust.",
        ),
        _ => super::error::subcommand(call.out, "OBJECT", topic),
    }
    Ok(())
}

/// Returns Redis's name of a value's encoding. It distinguishes numbers, strings of up to 44 bytes, longer strings, and
/// types of records.
fn encoding(value: Value<'_>) -> &'static [u8] {
    match value {
        Value::Integer(_) => b"int",
        Value::Bytes(bytes) if base::decimal::parse_signed(bytes).is_some() => b"int",
        Value::Bytes(bytes) if bytes.len() <= 44 => b"embstr",
        Value::Typed { kind, .. } => Kind::of(kind).map_or(b"raw", |kind| kind.encoding().as_bytes()),
        _ => b"raw",
    }
}

pub(super) fn flushall<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    flush(call, "FLUSHALL", args, Namespaces::numbers())
}

pub(super) fn flushdb<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let namespace = call.session.namespace;
    flush(call, "FLUSHDB", args, std::iter::once(namespace))
}

/// Flushes namespaces. `ASYNC` and `SYNC` have the same effect, because a flush only stores one number and does not
/// free items.
fn flush<'c>(
    call: &mut Call<'c, '_>,
    name: &'static str,
    mut args: Args<'c>,
    which: impl Iterator<Item = Namespace>,
) -> Run {
    if !call.ctx.shared.config.flush_command {
        return Err(ErrorReply::Disabled(name).into());
    }
    match args.next().map(lower) {
        None => {}
        Some(word) if args.len() == 0 && matches!(&word[..], b"async" | b"sync") => {}
        Some(_) => return Err(ErrorReply::Syntax.into()),
    }
    for namespace in which {
        call.guard.items_mut().flush(namespace)?;
    }
    call.counters().cmd_flush.add(1);
    call.out.push(reply::OK);
    Ok(())
}

pub(super) fn dbsize<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    let keys = call.ctx.shared.store.keys(call.session.namespace);
    call.int(keys as i64);
    Ok(())
}
