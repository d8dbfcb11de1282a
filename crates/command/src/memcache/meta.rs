//! The meta commands `mg`, `md` and `ma`. A reply repeats the request's flags in their order.

use super::call::{Call, Step};
use super::exptime::{self, seconds_left};
use super::get::{Ending, Found};
use super::state::FirstFetch;
use super::watch::WatchedLookup;
use crate::context::WorkerContext;
use crate::lookup::flash;
use crate::lookup::values::{Identity, pin_or_room};
use crate::memcache::get;
use crate::memcache::small;
use crate::memcache::watch;
use crate::metrics::Command;
use crate::resp;
use crate::visit::clock::Moment;
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use protocol::memcache::meta::Meta;
use protocol::memcache::reply::{self, MetaLine};
use protocol::memcache::{Error, KeyScratch};
use protocol::number::Decimal;
use segment::{
    Arith, ArithOutcome, Delete, DeleteOutcome, Expire, Fetch, Fetched, Hit, Key, Lease, Pinned, Prefetched, Value,
    decimal_len,
};

pub(super) fn meta_get<'c>(call: &mut Call<'c, '_>, meta: &Meta<'c>, consumed: usize) -> Step {
    call.sample_meta(meta, true);
    if meta.is_plain_read() && !watch::watched(call) {
        meta_read(call, meta, consumed)
    } else {
        meta_fetch(call, meta, consumed)
    }
}

/// Executes an `mg` that only reads, as most `mg` requests do. The reply is the same as that of [`meta_fetch`]. If the
/// item has a lease, [`meta_fetch`] executes the request instead.
fn meta_read<'c>(call: &mut Call<'c, '_>, meta: &Meta<'c>, consumed: usize) -> Step {
    let mut scratch = KeyScratch::default();
    let key = call.guard.key(call.session.namespace, meta.key.bytes(&mut scratch));
    let mark = call.out.mark();
    if call.guard.locks().is_locked_by_other(&key) {
        call.ctx.retry_at_once = true;
        return Err(SessionWait::Parked);
    }
    let found = match call.guard.items().read(&key, Prefetched::default()) {
        None if call.guard.is_tiered() => match read_from_flash(call, meta, &key)? {
            true => Found::Hit,
            false => Found::Miss,
        },
        // `meta_fetch` must grant or report the lease.
        Some(hit) if hit.is_leased => return meta_fetch(call, meta, consumed),
        Some(hit) => write_read(call.out, call.ctx, meta, hit)?,
        None => Found::Miss,
    };
    let hit = get::finish_item(call, &key, found, mark, None)?;
    meta_got(call, meta, hit, consumed)
}

/// Answers a read-only `mg` for a key that is not in memory. Returns false if the key is not on flash either.
#[cold]
#[inline(never)]
fn read_from_flash<'c>(call: &mut Call<'c, '_>, meta: &Meta<'c>, key: &Key<'_>) -> Result<bool, SessionWait> {
    let (out, ctx) = (&mut *call.out, &*call.ctx);
    flash::read(call.guard, key, |value, client_flags| {
        write_read(out, ctx, meta, Hit { value, client_flags, is_leased: false }).map(|_| ())
    })
}

/// Completes an `mg`: replies to a miss, counts the request and consumes it.
fn meta_got<'c>(call: &mut Call<'c, '_>, meta: &Meta<'c>, hit: bool, consumed: usize) -> Step {
    if !hit && !meta.has(b'q') {
        let mut line = MetaLine::new(call.out, b"EN");
        line.reflect(meta);
        line.finish();
    }
    count_fetch(call, meta, hit);
    call.at += consumed;
    call.done(Command::MetaGet);
    Ok(())
}

/// Executes an `mg` with any flags.
fn meta_fetch<'c, 'l>(call: &mut Call<'c, 'l>, meta: &Meta<'c>, consumed: usize) -> Step {
    let (now, moment) = (call.ctx.now, call.ctx.moment());
    let touch = meta.expire().map(|exptime| exptime::expire(exptime, moment));
    // If the new expiry is in the past, the item expires, but only after it was written to this reply.
    let end_it = touch.filter(|expire| exptime::is_past(*expire, now));
    let fetch = Fetch {
        touch: touch.filter(|_| end_it.is_none()),
        // Flags take effect in their order: `T` after `N` also sets the expiry of an item that `N` creates.
        vivify: match meta.vivify() {
            Some(_) if touch.is_some() && end_it.is_none() && stands_first(meta, b'N', b"T") => touch,
            vivify => vivify.map(|exptime| exptime::expire(exptime, moment)),
        },
        recache_below_ms: meta.recache().map(|seconds| u64::try_from(seconds).unwrap_or(0).saturating_mul(1000)),
        token: meta.token(),
        want_token: meta.has(b'c') || meta.has(b'C'),
        want_access: meta.has(b'h') || meta.has(b'l'),
        no_bump: meta.has(b'u'),
    };
    let mut scratch = KeyScratch::default();
    let key = call.guard.key(call.session.namespace, meta.key.bytes(&mut scratch));
    if fetch.vivify.is_some() {
        resp::remove_ended(call.guard, call.ctx, &key)?;
    }
    let mark = call.out.mark();
    let watched = watch::watched(call);
    let mut seen = watched.then_some(WatchedLookup::MISS);
    let (mut ending, mut is_created, mut is_touched) = (None, false, false);
    let found = match call.guard.items_mut().fetch(&key, &fetch) {
        Ok(None) => Found::Miss,
        Ok(Some(mut fetched)) => {
            // An item that `N` created with an expiry in the past has already expired.
            let lives = !exptime::is_past(fetched.item.expire, now);
            ending = end_it.filter(|_| lives).map(|expire| Ending { expire, identity: Identity::of(&fetched.item) });
            let first = *call.session.fetched.get_or_insert_with(|| FirstFetch::of(&fetched));
            first.restore(&mut fetched);
            is_created = fetched.vivified;
            // A value of another type has no form here, but its expiry is changed.
            is_touched = fetch.touch.is_some();
            if fetch.want_token {
                fetched.item.token = call.ctx.client_token(fetched.item.token);
            }
            if watched && !fetched.vivified {
                seen = Some(WatchedLookup::of(Some(&fetched.item)));
            }
            write_fetched(call.out, call.ctx, meta, &fetched)?
        }
        Err(error) => {
            get::op_error(call, error, false)?;
            call.at += consumed;
            call.done(Command::MetaGet);
            return Ok(());
        }
    };
    let hit = get::finish_item(call, &key, found, mark, ending)?;
    call.session.fetched = None;
    watch::report_get(call, key.bytes(), seen, hit && seen.is_some_and(|seen| seen.found));
    watch::report_retrieved(call, key.bytes(), hit, is_created);
    if let Some(expire) = touch.filter(|_| hit || is_touched) {
        watch::report_touched(call, key.bytes(), expire);
    }
    meta_got(call, meta, hit, consumed)
}

/// Counts an `mg`. As in memcached, a hit with the flag `T` counts as a touch, and every other `mg` as a retrieval.
fn count_fetch(call: &Call<'_, '_>, meta: &Meta<'_>, hit: bool) {
    let counters = call.counters();
    counters.cmd_meta.add(1);
    if hit && meta.has(b'T') {
        counters.cmd_touch.add(1);
        counters.touch_hits.add(1);
        return;
    }
    counters.cmd_get.add(1);
    if hit { counters.get_hits.add(1) } else { counters.get_misses.add(1) }
}

pub(super) fn meta_delete<'c>(call: &mut Call<'c, '_>, meta: &Meta<'c>, consumed: usize) -> Step {
    call.sample_meta(meta, false);
    let mark_stale = meta.has(b'I');
    let delete = Delete {
        compare: meta.compare(),
        mark_stale,
        expire: meta.expire().filter(|_| mark_stale).map(|exptime| exptime::expire(exptime, call.ctx.moment())),
        drop_value: meta.has(b'x'),
        token: meta.token(),
        spares_typed: false,
    };
    let mut scratch = KeyScratch::default();
    let key = call.guard.key(call.session.namespace, meta.key.bytes(&mut scratch));
    let seen = watch::look_up_watched(call, &key);
    match small::delete_item(call, &key, delete)? {
        Ok(outcome) => {
            let is_found = !matches!(outcome, DeleteOutcome::NotFound | DeleteOutcome::Expired);
            watch::report_get(call, key.bytes(), seen, is_found);
            if outcome == DeleteOutcome::Expired {
                watch::report_expired(call, key.bytes());
            } else if outcome == DeleteOutcome::Deleted && !mark_stale && !delete.drop_value {
                watch::report_deleted(call, key.bytes(), seen, "md");
            } else if outcome == DeleteOutcome::Deleted {
                watch::invalidated(call, key.bytes());
            }
            let counters = call.counters();
            counters.cmd_meta.add(1);
            let code = match outcome {
                DeleteOutcome::Deleted => {
                    counters.delete_hits.add(1);
                    b"HD"
                }
                DeleteOutcome::NotFound | DeleteOutcome::Expired | DeleteOutcome::Typed => {
                    counters.delete_misses.add(1);
                    b"NF"
                }
                DeleteOutcome::Exists => b"EX",
            };
            if !(meta.has(b'q') && code != b"EX") {
                let mut line = MetaLine::new(call.out, code);
                line.reflect(meta);
                line.finish();
            }
        }
        Err(error) => get::op_error(call, error, false)?,
    }
    call.at += consumed;
    call.done(Command::MetaDelete);
    Ok(())
}

pub(super) fn meta_arith<'c>(call: &mut Call<'c, '_>, meta: &Meta<'c>, consumed: usize) -> Step {
    call.sample_meta(meta, false);
    let moment = call.ctx.moment();
    let expire = meta.expire().map(|exptime| exptime::expire(exptime, moment));
    let arith = Arith {
        delta: meta.delta(),
        decrement: meta.is_decrement(),
        // Flags take effect in their order: `T` after `N` also sets the expiry of an item that `N` creates.
        vivify: meta.vivify().map(|exptime| {
            let touch = expire.filter(|_| stands_first(meta, b'N', b"T"));
            (meta.initial(), touch.unwrap_or_else(|| exptime::expire(exptime, moment)))
        }),
        expire,
        compare: meta.compare(),
        token: meta.token(),
        want_token: meta.has(b'c'),
    };
    let mut scratch = KeyScratch::default();
    let key = call.guard.key(call.session.namespace, meta.key.bytes(&mut scratch));
    let seen = watch::look_up_watched(call, &key);
    match small::add_to(call, &key, &arith)? {
        Ok(outcome) => {
            write_arith_reply(call, &key, seen, outcome);
            small::report_added(call, key.bytes(), outcome);
            call.counters().cmd_meta.add(1);
            small::count_arith(call, arith.decrement, outcome);
            answer_arith(call, meta, outcome);
        }
        Err(error) => get::op_error(call, error, false)?,
    }
    call.at += consumed;
    call.done(Command::MetaArith);
    Ok(())
}

/// Reports the lookup of an `ma` to watchers. If the item did not exist before, also reports that `ma` created a
/// number.
fn write_arith_reply(call: &mut Call<'_, '_>, key: &Key<'_>, seen: Option<WatchedLookup>, outcome: ArithOutcome) {
    let Some(before) = seen else { return };
    match outcome {
        ArithOutcome::Number { value, expire, .. } if !before.found => {
            watch::report_get(call, key.bytes(), seen, false);
            watch::report_number_created(call, key.bytes(), decimal_len(value), expire);
        }
        _ => watch::report_get(call, key.bytes(), seen, outcome != ArithOutcome::NotFound),
    }
}

fn answer_arith<'c>(call: &mut Call<'c, '_>, meta: &Meta<'c>, outcome: ArithOutcome) {
    let code = match outcome {
        ArithOutcome::Number { value, token, expire_before, expire } => {
            let is_created = expire_before.is_none();
            // As in memcached, a quiet request that creates the item is answered.
            if !meta.has(b'q') || is_created {
                let before = expire_before.unwrap_or(Expire::Never);
                let expiries = Expiries { before, after: expire, is_created };
                number_answer(call.out, meta, (value, call.ctx.client_token(token)), &expiries, call.ctx.moment());
            }
            return;
        }
        ArithOutcome::NotNumber => return reply::error(call.out, Error::NotNumber),
        ArithOutcome::NotFound => b"NF",
        ArithOutcome::Exists => b"EX",
    };
    let mut line = MetaLine::new(call.out, code);
    line.reflect(meta);
    line.finish();
}

/// Writes the reply to an `ma`: `HD`, or `VA` with the number.
fn number_answer(
    out: &mut OutBuffer,
    meta: &Meta<'_>,
    (value, token): (u64, u64),
    expiries: &Expiries,
    moment: Moment,
) {
    let digits = Decimal::new(value);
    let with_value = meta.has(b'v');
    let mut line = match with_value {
        true => MetaLine::with_value(out, digits.as_slice().len() as u64),
        false => MetaLine::new(out, b"HD"),
    };
    for word in meta.in_order() {
        match word[0] {
            b't' => line.signed(b't', seconds_left(expiries.shown(meta, moment), moment.now)),
            b'c' => line.number(b'c', token),
            b'k' => line.key(meta.key),
            b'O' => line.token(b'O', &word[1..]),
            _ => {}
        }
    }
    line.finish();
    if with_value {
        out.push(digits.as_slice());
        out.push(reply::CRLF);
    }
}

/// Writes the reply to a plain read of an existing item. If the value is sent from its place in the store, writes only
/// the line.
#[inline(always)]
fn write_read(out: &mut OutBuffer, ctx: &WorkerContext, meta: &Meta<'_>, hit: Hit<'_>) -> Result<Found, SessionWait> {
    let with_value = meta.has(b'v');
    let pinned = match hit.value {
        Value::Typed { .. } => return Ok(Found::Miss),
        Value::Bytes(bytes) if with_value => pin_or_room(out, ctx, bytes)?,
        _ => None,
    };
    let value_len = hit.value.client_bytes();
    let mut line = match with_value {
        true => MetaLine::with_value(out, value_len),
        false => MetaLine::new(out, b"HD"),
    };
    for word in meta.in_order() {
        match word[0] {
            b'k' => line.key(meta.key),
            b'O' => line.token(b'O', &word[1..]),
            b'f' => line.number(b'f', hit.client_flags.into()),
            b's' => line.number(b's', value_len),
            _ => {}
        }
    }
    line.finish();
    if with_value { Ok(write_value_bytes(out, hit.value, pinned)) } else { Ok(Found::Hit) }
}

/// Writes a value after its line, unless the value is sent from its place in the store.
fn write_value_bytes(out: &mut OutBuffer, value: Value<'_>, pinned: Option<Pinned>) -> Found {
    match (value, pinned) {
        (_, Some(pinned)) => return Found::Pinned(pinned),
        (Value::Large(large), None) => return Found::Large(large),
        (Value::Bytes(bytes) | Value::Typed { bytes, .. }, None) => out.push(bytes),
        (Value::Integer(number), None) => out.push(Decimal::new(number).as_slice()),
    }
    out.push(reply::CRLF);
    Found::Hit
}

/// Writes the reply to a fetch of an existing item. If the value is sent from its place in the store, writes only the
/// line.
fn write_fetched(
    out: &mut OutBuffer,
    ctx: &WorkerContext,
    meta: &Meta<'_>,
    fetched: &Fetched<'_>,
) -> Result<Found, SessionWait> {
    let item = &fetched.item;
    // With the flag `C`, a client that already has the value does not receive it again.
    let has_value_already = meta.compare() == Some(item.token);
    let with_value = meta.has(b'v') && !has_value_already;
    let pinned = match item.value {
        Value::Typed { .. } => return Ok(Found::Miss),
        Value::Bytes(bytes) if with_value => pin_or_room(out, ctx, bytes)?,
        _ => None,
    };
    put_fetched_line(out, meta, fetched, with_value, ctx.moment());
    if with_value { Ok(write_value_bytes(out, item.value, pinned)) } else { Ok(Found::Hit) }
}

/// The expiries of an item before and after a request.
struct Expiries {
    before: Expire,
    after: Expire,
    /// True if the request created the item.
    is_created: bool,
}

impl Expiries {
    /// Returns the expiry that the flag `t` reports. As in memcached, flags take effect in their order: `t` shows the
    /// effect of the flags `T` before it, and of `N` if the request created the item.
    fn shown(&self, meta: &Meta<'_>, moment: Moment) -> Expire {
        let takes_effect = |letter: u8| letter == b'T' || letter == b'N' && self.is_created;
        let mut letters = meta.in_order().map(|word| word[0]);
        let last = letters.by_ref().take_while(|letter| *letter != b't').filter(|letter| takes_effect(*letter)).last();
        let Some(last) = last else { return self.before };
        let exptime = if last == b'T' { meta.expire() } else { meta.vivify() };
        match exptime.filter(|_| letters.any(takes_effect)) {
            Some(exptime) => exptime::expire(exptime, moment),
            None => self.after,
        }
    }
}

/// Returns true if the request's flag `letter` precedes all flags in `others`.
fn stands_first(meta: &Meta<'_>, letter: u8, others: &[u8]) -> bool {
    meta.in_order().map(|word| word[0]).find(|flag| *flag == letter || others.contains(flag)) == Some(letter)
}

fn put_fetched_line(out: &mut OutBuffer, meta: &Meta<'_>, fetched: &Fetched<'_>, with_value: bool, moment: Moment) {
    let (item, now) = (&fetched.item, moment.now);
    let expiries = Expiries { before: fetched.expire_before, after: item.expire, is_created: fetched.vivified };
    let mut line = match with_value {
        true => MetaLine::with_value(out, item.value_len()),
        false => MetaLine::new(out, b"HD"),
    };
    for word in meta.in_order() {
        match word[0] {
            b'k' => line.key(meta.key),
            b'O' => line.token(b'O', &word[1..]),
            b'c' => line.number(b'c', item.token),
            b'f' => line.number(b'f', item.client_flags.into()),
            b'h' => line.number(b'h', item.fetched.into()),
            b'l' => line.number(b'l', now.ms_since(item.last_access) / 1000),
            b's' => line.number(b's', item.value_len()),
            b't' => line.signed(b't', seconds_left(expiries.shown(meta, moment), now)),
            _ => {}
        }
    }
    if fetched.lease == Lease::AlreadyWon {
        line.mark(b'Z');
    }
    if item.stale {
        line.mark(b'X');
    }
    if fetched.lease == Lease::Won {
        line.mark(b'W');
    }
    line.finish();
}
