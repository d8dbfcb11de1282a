//! Commands without a value and with a one-line reply: `delete`, `incr`, `decr`, `touch`, `flush_all`, `me`, and
//! administrative commands.

use super::call::{Call, Step};
use super::{VERSION, exptime};
use crate::clients::audit::AuditEvent;
use crate::keyspace::prefixes::Count;
use crate::memcache::get;
use crate::memcache::guarded;
use crate::memcache::rights;
use crate::memcache::watch;
use crate::metrics::Command;
use crate::push::notify::KeyEvent;
use crate::resp;
use crate::visit::progress::SessionWait;
use protocol::memcache::reply::{self, ItemFacts};
use protocol::memcache::request::Arith as ArithRequest;
use protocol::memcache::{Error, KeyScratch, MetaKey};
use segment::{Arith, ArithOutcome, Delete, DeleteOutcome, Expire, Key, OpError, ResizeError, Value};

pub(super) fn delete(call: &mut Call<'_, '_>, key: &[u8], noreply: bool, consumed: usize) -> Step {
    call.sample(key, false);
    let key = call.guard.key(call.session.namespace, key);
    let seen = watch::look_up_watched(call, &key);
    match delete_item(call, &key, Delete::default())? {
        Ok(outcome) => {
            watch::count_prefix(call, key.bytes(), Count::Delete);
            let deleted = outcome == DeleteOutcome::Deleted;
            watch::report_get(call, key.bytes(), seen, deleted);
            if deleted {
                watch::report_deleted(call, key.bytes(), seen, "delete");
            } else if outcome == DeleteOutcome::Expired {
                watch::report_expired(call, key.bytes());
            }
            let counters = call.counters();
            if deleted {
                counters.delete_hits.add(1)
            } else {
                counters.delete_misses.add(1)
            }
            if !noreply {
                call.out.push(if deleted { reply::DELETED } else { reply::NOT_FOUND });
            }
        }
        Err(error) => get::op_error(call, error, noreply)?,
    }
    call.at += consumed;
    call.done(Command::Delete);
    Ok(())
}

/// Deletes an item as `delete` requests. A record whose bins have all expired counts as missing.
pub(super) fn delete_item(
    call: &mut Call<'_, '_>,
    key: &Key<'_>,
    delete: Delete,
) -> Result<Result<DeleteOutcome, OpError>, SessionWait> {
    let outcome = call.guard.items_mut().delete(key, &Delete { spares_typed: true, ..delete });
    if outcome != Ok(DeleteOutcome::Typed) {
        return Ok(outcome);
    }
    let is_missing = resp::remove_ended(call.guard, call.ctx, key)?;
    Ok(if is_missing { Ok(DeleteOutcome::NotFound) } else { call.guard.items_mut().delete(key, &delete) })
}

/// Adds to a number. A record whose bins have all expired counts as missing.
pub(super) fn add_to(
    call: &mut Call<'_, '_>,
    key: &Key<'_>,
    arith: &Arith,
) -> Result<Result<ArithOutcome, OpError>, SessionWait> {
    let outcome = call.guard.numbers().arith(key, arith);
    let may_be_ended = matches!(outcome, Ok(ArithOutcome::NotNumber | ArithOutcome::Exists));
    let is_missing = may_be_ended && resp::remove_ended(call.guard, call.ctx, key)?;
    Ok(if is_missing { call.guard.numbers().arith(key, arith) } else { outcome })
}

pub(super) fn arith(call: &mut Call<'_, '_>, request: ArithRequest<'_>, consumed: usize) -> Step {
    let ArithRequest { key, delta, decrement, noreply } = request;
    call.sample(key, false);
    let key = call.guard.key(call.session.namespace, key);
    let arith = Arith { delta, decrement, vivify: None, expire: None, compare: None, token: None, want_token: false };
    let seen = watch::look_up_watched(call, &key);
    match add_to(call, &key, &arith)? {
        Ok(outcome) => {
            watch::report_get(call, key.bytes(), seen, outcome != ArithOutcome::NotFound);
            report_added(call, key.bytes(), outcome);
            count_arith(call, decrement, outcome);
            match outcome {
                _ if noreply => {}
                ArithOutcome::Number { value, .. } => reply::number(call.out, value),
                ArithOutcome::NotFound => call.out.push(reply::NOT_FOUND),
                ArithOutcome::NotNumber => reply::error(call.out, Error::NotNumber),
                ArithOutcome::Exists => call.out.push(reply::EXISTS),
            }
        }
        Err(error) => get::op_error(call, error, noreply)?,
    }
    call.at += consumed;
    call.done(if decrement { Command::Decr } else { Command::Incr });
    Ok(())
}

/// Publishes a key event if an `incr`, `decr` or `ma` has changed a number.
pub(super) fn report_added(call: &mut Call<'_, '_>, key: &[u8], outcome: ArithOutcome) {
    if matches!(outcome, ArithOutcome::Number { .. }) {
        watch::changed(call, KeyEvent::INCRBY, key);
    }
}

pub(super) fn count_arith(call: &Call<'_, '_>, decrement: bool, outcome: ArithOutcome) {
    let counters = call.counters();
    match (outcome, decrement) {
        (ArithOutcome::Number { .. }, false) => counters.incr_hits.add(1),
        (ArithOutcome::Number { .. }, true) => counters.decr_hits.add(1),
        (ArithOutcome::NotFound, false) => counters.incr_misses.add(1),
        (ArithOutcome::NotFound, true) => counters.decr_misses.add(1),
        (ArithOutcome::Exists, _) => counters.cas_badval.add(1),
        (ArithOutcome::NotNumber, _) => {}
    }
}

pub(super) fn touch(call: &mut Call<'_, '_>, key: &[u8], exptime: i64, noreply: bool, consumed: usize) -> Step {
    call.sample(key, false);
    let key = call.guard.key(call.session.namespace, key);
    let expire = exptime::expire(exptime, call.ctx.moment());
    // A touch to a time in the past removes the item at once, so a record without live bins must be found before it.
    if matches!(expire, Expire::At(at) if at <= call.ctx.now) {
        resp::remove_ended(call.guard, call.ctx, &key)?;
    }
    let seen = watch::look_up_watched(call, &key);
    let touched = call.guard.items_mut().touch(&key, expire);
    let touched = touched.map(|item| item.map(|item| matches!(item.value, Value::Typed { .. })));
    let is_ended = touched == Ok(Some(true)) && resp::remove_ended(call.guard, call.ctx, &key)?;
    // If the new expiry is in the past, the touch removes the item at once, but still counts as a hit.
    match touched.map(|item| item.is_some() && !is_ended) {
        Ok(touched) => {
            watch::report_get(call, key.bytes(), seen, touched);
            if touched {
                watch::report_touched(call, key.bytes(), expire);
            }
            let counters = call.counters();
            counters.cmd_touch.add(1);
            if touched {
                counters.touch_hits.add(1)
            } else {
                counters.touch_misses.add(1)
            }
            if !noreply {
                call.out.push(if touched { reply::TOUCHED } else { reply::NOT_FOUND });
            }
        }
        Err(error) => get::op_error(call, error, noreply)?,
    }
    call.at += consumed;
    call.done(Command::Touch);
    Ok(())
}

/// Flushes the namespaces to which keys of this connection can belong: the listener's namespace, and the namespaces of
/// the routes. With a delay, schedules the flush, which the first worker iteration after that time executes. Without a
/// delay, executes the flush now and cancels an earlier scheduled flush.
pub(super) fn flush_all(call: &mut Call<'_, '_>, delay: i64, noreply: bool, consumed: usize) -> Step {
    let now = call.ctx.now;
    match exptime::expire(delay, call.ctx.moment()) {
        Expire::At(at) if at > now => {
            for namespace in guarded::namespaces_of_keys(call) {
                call.ctx.shared.delayed_flush.schedule(namespace, at);
                // Clients that wait arrange to be woken at that time.
                call.ctx.flushed(Some(namespace));
            }
        }
        Expire::At(_) | Expire::Never => {
            for namespace in guarded::namespaces_of_keys(call) {
                if call.guard.items_mut().flush(namespace).is_err() {
                    call.ctx.shared.delayed_flush.note_refused();
                    return Err(SessionWait::Parked);
                }
                call.ctx.shared.delayed_flush.cancel(namespace);
                call.ctx.flushed(Some(namespace));
            }
        }
    }
    rights::audit(call, AuditEvent::Flush, || format!("flush_all {delay}"));
    call.counters().cmd_flush.add(1);
    if !noreply {
        call.out.push(reply::OK);
    }
    call.at += consumed;
    call.done(Command::Flush);
    Ok(())
}

pub(super) fn meta_debug<'c>(call: &mut Call<'c, '_>, token: MetaKey<'c>, consumed: usize) -> Step {
    let mut scratch = KeyScratch::default();
    let key = call.guard.key(call.session.namespace, token.bytes(&mut scratch));
    if call.guard.locks().is_blocked(&key) {
        return Err(SessionWait::Parked);
    }
    resp::remove_ended(call.guard, call.ctx, &key)?;
    let seen = watch::look_up_watched(call, &key);
    // A client may use the returned token in a compare-and-swap command.
    match call.guard.versions().peek_gets(&key) {
        Err(error) => get::op_error(call, error, false)?,
        Ok(None) => call.out.push(reply::META_END),
        Ok(Some(item)) => {
            let facts = ItemFacts {
                key: key.bytes(),
                exp: exptime::seconds_left(item.expire, call.ctx.now),
                la: call.ctx.now.ms_since(item.last_access) / 1000,
                cas: call.ctx.client_token(item.token),
                fetched: item.fetched,
                class: item.ttl_class.into(),
                size: item.bytes_with_pieces(),
                client_flags: item.client_flags,
            };
            reply::debug(call.out, token, &facts);
        }
    }
    watch::report_get(call, key.bytes(), seen, seen.is_some_and(|seen| seen.found));
    call.counters().cmd_meta.add(1);
    call.at += consumed;
    call.done(Command::Other);
    Ok(())
}

pub(super) fn version(call: &mut Call<'_, '_>, consumed: usize) -> Step {
    call.out.push(b"VERSION ");
    call.out.push(VERSION.as_bytes());
    call.answer(reply::CRLF, consumed)
}

/// Executes `refresh_certs`: waits, without blocking other clients, until the certificates were read again.
pub(super) fn refresh_certs(call: &mut Call<'_, '_>, consumed: usize) -> Step {
    if call.ctx.shared.host.tls().is_none() {
        return call.answer(b"Error TLS not enabled\r\n", consumed);
    }
    let host = &call.ctx.shared.host;
    let reload = call.session.reload.get_or_insert_with(|| host.reload_certificates());
    let Some(result) = reload.get().cloned() else { return Err(SessionWait::Parked) };
    call.session.reload = None;
    rights::audit(call, AuditEvent::CertificateReload, || "refresh_certs".to_owned());
    match result {
        Ok(()) => call.answer(reply::OK, consumed),
        Err(what) => {
            let mut line = format!("Error loading the certificates: {what}").into_bytes();
            line.truncate(super::LINE_ROOM - 2);
            line.extend_from_slice(reply::CRLF);
            call.answer(&line, consumed)
        }
    }
}

/// Changes the memory limit. Replies at once, and the background thread resizes the memory later.
pub(super) fn cache_memlimit(call: &mut Call<'_, '_>, mib: u32, noreply: bool, consumed: usize) -> Step {
    let resized = call.ctx.shared.resize_memory(u64::from(mib) << 20);
    if resized.is_ok() {
        rights::audit(call, AuditEvent::Config, || format!("cache_memlimit {mib}"));
    }
    call.at += consumed;
    call.done(Command::Other);
    if noreply {
        return Ok(());
    }
    let (refused, mib) = match resized {
        Ok(()) => {
            call.out.push(reply::OK);
            return Ok(());
        }
        Err(ResizeError::TooSmall { least_bytes }) => {
            (&b"MEMLIMIT_TOO_SMALL the least limit, in MiB, is "[..], least_bytes.div_ceil(1 << 20))
        }
        Err(ResizeError::TooLarge { most_bytes }) => {
            (&b"MEMLIMIT_ADJUST_FAILED the greatest limit, in MiB, is "[..], most_bytes >> 20)
        }
    };
    call.out.push(refused);
    reply::number(call.out, mib);
    Ok(())
}

/// Stops the server. `shutdown` and `shutdown graceful` have the same effect, because every stop completes the
/// operations in progress.
pub(super) fn shutdown(call: &mut Call<'_, '_>, is_valid: bool, consumed: usize) -> Step {
    if !call.ctx.shared.config.shutdown_command {
        return call.answer(Error::ShutdownDisabled.wire(), consumed);
    }
    if !is_valid {
        return call.answer(Error::ShutdownMode.wire(), consumed);
    }
    call.at += consumed;
    rights::audit(call, AuditEvent::Shutdown, || "shutdown".to_owned());
    call.ctx.shared.host.request_stop();
    Err(SessionWait::Close)
}
