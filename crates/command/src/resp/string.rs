//! Commands on strings: `GET`, `SET` with all its options, the commands that read or change a part of a string, and the
//! commands that change a number.

use super::catalog::words;
use super::digest::{Digest, ValueCondition};
use super::error::ErrorReply;
use super::expire::{Deadline, Unit};
use super::number::{float, integer, put_float};
use super::typed::{live, string};
use super::value_reply::{ValueReply, continue_copy};
use crate::lookup::large::LargeSet;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::typed;
use crate::resp::value_reply;
use crate::visit::clock::Moment;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::PINNED_BYTES_MIN;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use segment::{
    AddOutcome, Attempts, Expire, Guard, Item, Key, LargeRef, LargeWriter, Loaded, Put, PutMode, PutOutcome, Replaced,
    Replacement, Value,
};

/// Options of `SET`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SetOptions<'c> {
    /// The condition under which the value is stored, if any.
    condition: Option<Condition<'c>>,
    deadline: Option<(Unit, &'c [u8])>,
    keep_ttl: bool,
    /// True if the reply contains the previous value (option `GET`).
    get: bool,
    /// The digest of the present value, if the condition needs it.
    digest: Option<Digest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition<'c> {
    Absent,
    Present,
    Value(ValueCondition<'c>),
}

impl<'c> SetOptions<'c> {
    pub(super) fn read(mut args: impl Iterator<Item = &'c [u8]>) -> Result<Self, Interrupt> {
        let mut options = Self::default();
        while let Some(word) = args.next() {
            let lower = super::catalog::lower(word);
            // An option may be repeated, but options that exclude each other are an error.
            let mut condition = |condition| match options.condition.replace(condition) {
                Some(before) if before != condition => Err(ErrorReply::Syntax),
                _ => Ok(()),
            };
            match &lower[..] {
                b"nx" => condition(Condition::Absent)?,
                b"xx" => condition(Condition::Present)?,
                b"ifeq" | b"ifne" | b"ifdeq" | b"ifdne" => {
                    let value = args.next().and_then(|wanted| ValueCondition::of(word, wanted));
                    condition(Condition::Value(value.ok_or(ErrorReply::Syntax)?))?;
                }
                b"get" => options.get = true,
                b"keepttl" if options.deadline.is_none() => options.keep_ttl = true,
                unit => {
                    let unit = Unit::of(unit).filter(|_| !options.keep_ttl).ok_or(ErrorReply::Syntax)?;
                    if options.deadline.is_some_and(|(before, _)| before != unit) {
                        return Err(ErrorReply::Syntax.into());
                    }
                    options.deadline = Some((unit, args.next().ok_or(ErrorReply::Syntax)?));
                }
            }
        }
        Ok(options)
    }

    /// Returns the options of `GETSET`.
    pub(super) fn swap() -> Self {
        Self { get: true, ..Self::default() }
    }

    /// Returns the mode of [`Put`] that has the effect of these options. Returns `None` if no mode has this effect.
    pub(super) fn put_mode(&self) -> Option<PutMode> {
        match self.condition {
            _ if self.keep_ttl || self.get => None,
            None => Some(PutMode::Set),
            Some(Condition::Absent) => Some(PutMode::Add),
            Some(Condition::Present) => Some(PutMode::Replace),
            Some(Condition::Value(_)) => None,
        }
    }

    /// Reads the options of `MSETEX`. Also returns whether all keys must exist; `None` if there is no condition.
    pub(super) fn of_several(args: Args<'c>) -> Result<(Self, Option<bool>), Interrupt> {
        let mut options = Self::read(args)?;
        match options.condition.take() {
            Some(Condition::Value(_)) => Err(ErrorReply::Syntax.into()),
            _ if options.get => Err(ErrorReply::Syntax.into()),
            condition => Ok((options, condition.map(|condition| condition == Condition::Present))),
        }
    }

    /// Returns the expiry of the new item, set by `command`.
    pub(super) fn expire(&self, moment: Moment, command: &'static str) -> Result<Expire, ErrorReply> {
        let Some((unit, text)) = self.deadline else { return Ok(Expire::Never) };
        Deadline::positive(text, unit, moment, command).map(Deadline::expire)
    }

    /// Reads the digest of the present value of a key, if the condition needs it. `request` is described at
    /// [`ValueCondition::digest`].
    fn read_digest<'a>(
        &mut self,
        call: &mut Call<'a, '_>,
        request: Option<(&'static str, Args<'a>)>,
        bytes: &[u8],
    ) -> Run {
        if let Some(Condition::Value(condition)) = self.condition {
            self.digest = condition.digest(call, request, bytes)?;
        }
        Ok(())
    }

    /// Returns true if the condition allows a new value to replace `item`, the present item of `key`.
    fn allow(&self, guard: &Guard<'_>, key: &Key<'_>, item: Option<&Item<'_>>) -> Result<bool, Interrupt> {
        match (self.condition, item) {
            (None, _) | (Some(Condition::Absent), None) | (Some(Condition::Present), Some(_)) => Ok(true),
            (Some(Condition::Value(condition)), item) => condition.holds(guard, key, item, self.digest),
            _ => Ok(false),
        }
    }

    /// Returns the expiry of the new item that replaces `item`. Returns `None` if the condition does not allow the
    /// replacement. `expire` is the expiry that the request sets.
    fn expire_over(
        &self,
        guard: &Guard<'_>,
        key: &Key<'_>,
        item: Option<&Item<'_>>,
        expire: Expire,
    ) -> Result<Option<Expire>, Interrupt> {
        let kept = item.filter(|_| self.keep_ttl).map(|item| item.expire);
        Ok(self.allow(guard, key, item)?.then_some(kept.unwrap_or(expire)))
    }
}

pub(super) fn get<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    read_one(call, args.next().unwrap_or_default())
}

fn read_one(call: &mut Call<'_, '_>, key: &[u8]) -> Run {
    let hit = value_reply::value_of(call, key)?;
    call.count_read(hit);
    Ok(())
}

pub(super) fn set<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let mut left = args;
    let (key, value) = (left.next().unwrap_or_default(), left.next().unwrap_or_default());
    if left.len() == 0 {
        return store_plain(call, key, value, PutMode::Set, Expire::Never).map(|_| call.out.push(reply::OK));
    }
    let mut options = SetOptions::read(left)?;
    let expire = options.expire(call.moment(), "set")?;
    let Some(mode) = options.put_mode() else {
        options.read_digest(call, Some(("set", args)), key)?;
        return set_by(call, key, value, &options, expire);
    };
    let stored = match mode {
        PutMode::Add => store_absent(call, key, value, expire)?,
        PutMode::Replace => {
            // Removes a record whose bins have all expired. The store decides: the item may be on flash.
            let place = call.key(key);
            typed::is_there(call, &place)?;
            store_plain(call, key, value, mode, expire)?
        }
        mode => store_plain(call, key, value, mode, expire)?,
    };
    ok_or_null(call, stored);
    Ok(())
}

pub(super) fn setnx<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (key, value) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let stored = store_absent(call, key, value, Expire::Never)?;
    call.int(stored.into());
    Ok(())
}

pub(super) fn setex<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    set_until(call, args, Unit::Seconds, "setex")
}

pub(super) fn psetex<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    set_until(call, args, Unit::Millis, "psetex")
}

pub(super) fn getset<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (key, value) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    set_by(call, key, value, &SetOptions::swap(), Expire::Never)
}

pub(super) fn getdel<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let hit = value_reply::reply_and_replace(call, bytes, Replacement::Remove)?;
    call.count_read(hit);
    if hit {
        call.changed(KeyEvent::DEL, bytes);
    }
    Ok(())
}

pub(super) fn getex<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let moment = call.moment();
    if args.len() == 0 {
        return read_one(call, bytes);
    }
    let (mut persists, mut deadline) = (false, None);
    while let Some(word) = args.next() {
        match &super::catalog::lower(word)[..] {
            b"persist" if deadline.is_none() => persists = true,
            unit => {
                let unit = Unit::of(unit).filter(|_| !persists).ok_or(ErrorReply::Syntax)?;
                // An option may be repeated, but options that exclude each other are an error.
                if deadline.is_some_and(|(before, _)| before != unit) {
                    return Err(ErrorReply::Syntax.into());
                }
                deadline = Some((unit, args.next().ok_or(ErrorReply::Syntax)?));
            }
        }
    }
    let key = call.key(bytes);
    let found = call.guard.items().peek(&key);
    let is_missed = found.is_none();
    if string(found.as_ref())?.is_none() {
        if is_missed && call.guard.tier().is_false_miss(&key) {
            return Err(SessionWait::Parked.into());
        }
        // The key is missing, so the expiry argument is not parsed. The reply is null without a second lookup of the
        // key, which might find a value that was stored meanwhile, and return it without changing its expiry.
        continue_copy(call.out, call.session, None)?;
        call.count_read(false);
        call.null();
        return Ok(());
    }
    let expires = found.is_some_and(|item| item.expire != Expire::Never);
    let (new, event) = match deadline {
        None => (Replacement::Expire(Expire::Never), expires.then_some(KeyEvent::PERSIST)),
        Some((unit, text)) => match Deadline::positive(text, unit, moment, "getex")? {
            past if past.is_past(moment.now) => (Replacement::Remove, Some(KeyEvent::DEL)),
            deadline => (Replacement::Expire(deadline.expire()), Some(KeyEvent::EXPIRE)),
        },
    };
    let hit = value_reply::reply_and_replace(call, bytes, new)?;
    call.count_read(hit);
    if let Some(event) = event.filter(|_| hit) {
        call.changed(event, bytes);
    }
    Ok(())
}

pub(super) fn append<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (bytes, value) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    typed::room_to_store(call, value.len() as u64)?;
    let put = Put { mode: PutMode::Append, vivify: Some(Expire::Never), ..Put::set(value) };
    let key = call.key(bytes);
    let PutOutcome::Stored { bytes: len, .. } = call.guard.items_mut().put(&key, &put)? else {
        return Err(ErrorReply::WrongType.into());
    };
    note_store(call);
    call.changed(KeyEvent::APPEND, bytes);
    call.int(len as i64);
    Ok(())
}

pub(super) fn strlen<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = call.key(args.next().unwrap_or_default());
    let item = call.guard.items().get(&key);
    let len = string(item.as_ref())?.map(|item| item.value_len());
    call.count_read(len.is_some());
    call.int(len.unwrap_or(0) as i64);
    Ok(())
}

pub(super) fn getrange<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let (from, to) = (integer(args.next().unwrap_or_default())?, integer(args.next().unwrap_or_default())?);
    let key = call.key(bytes);
    let Some(item) = call.guard.items().get(&key) else {
        continue_copy(call.out, call.session, None)?;
        call.count_read(false);
        reply::bulk(call.out, b"");
        return Ok(());
    };
    string(Some(&item))?;
    continue_copy(call.out, call.session, Some(&item.value))?;
    let range = range(item.value_len(), from, to).unwrap_or(0..0);
    let (bytes, value) = (range.end - range.start, item.value);
    if let Value::Large(large) = value
        && bytes >= PINNED_BYTES_MIN as u64
    {
        if !call.collects_replies {
            return range_of_large(call, &key, large, range);
        }
        let is_whole = value_reply::put_pieces(call, &key, large, range)?;
        if is_whole {
            call.session.copying = None;
            call.out.push(b"\r\n");
        } else {
            reply::bulk(call.out, b"");
        }
        call.count_read(is_whole);
        return Ok(());
    }
    call.room(bytes as usize)?;
    let out = &mut *call.out;
    let mark = out.mark();
    reply::bulk_head(out, bytes);
    let whole = call.guard.pieces().copy_range(&key, value, range, &mut |part| out.push(part));
    if whole {
        out.push(b"\r\n");
    } else {
        // A piece of the value is lost, so the key counts as missing.
        out.truncate(mark);
        reply::bulk(out, b"");
    }
    call.count_read(whole);
    Ok(())
}

/// Executes `SUBSTR`, the old name of `GETRANGE`.
pub(super) fn substr<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    getrange(call, args)
}

/// Executes `DELIFEQ key value`.
pub(super) fn delifeq<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, wanted] = words(args);
    delete_if(call, ("delifeq", args), key, ValueCondition::of(b"ifeq", wanted))
}

/// Executes `DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]`.
pub(super) fn delex<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if args.len() == 1 {
        return call.run(super::catalog::entry("del"), args);
    }
    if args.len() != 3 {
        return Err(ErrorReply::Arity("delex").into());
    }
    let [key, option, wanted] = words(args);
    let place = call.key(key);
    typed::is_there(call, &place)?;
    let item = live(call.guard.items().peek(&place), call.ctx.view());
    string(item.as_ref()).map_err(|_| ErrorReply::NotStringForCondition)?;
    delete_if(call, ("delex", args), key, ValueCondition::of(option, wanted))
}

/// Deletes the string at a key if it meets the condition, and replies with the number of deleted keys. As in Redis, a
/// missing condition is an error only if the key exists.
fn delete_if<'c>(
    call: &mut Call<'c, '_>,
    request: (&'static str, Args<'c>),
    bytes: &[u8],
    condition: Option<ValueCondition<'c>>,
) -> Run {
    let digest = condition.map(|condition| condition.digest(call, Some(request), bytes)).transpose()?.flatten();
    let (key, view) = (call.key(bytes), call.ctx.view());
    let mut attempts = Attempts::default();
    let is_deleted = loop {
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        let Some(item) = live(item, view) else { break false };
        if !condition.ok_or(ErrorReply::Condition)?.holds(call.guard, &key, Some(&item), digest)? {
            break false;
        }
        if call.guard.items_mut().replace(&key, &version, Replacement::Remove)? == Replaced::Done {
            break true;
        }
    };
    if is_deleted {
        call.changed(KeyEvent::DEL, bytes);
    }
    call.int(is_deleted.into());
    Ok(())
}

/// Returns the range of bytes that `GETRANGE` selects from a value of `len` bytes. Returns `None` if the range is
/// empty. Offsets below 0 count from the end.
fn range(len: u64, from: i64, to: i64) -> Option<std::ops::Range<u64>> {
    let bytes = i64::try_from(len).ok()?;
    if (from < 0 && to < 0 && from > to) || bytes == 0 {
        return None;
    }
    let place = |offset: i64| if offset < 0 { (bytes + offset.max(-bytes)).max(0) } else { offset };
    let (from, to) = (place(from), place(to).min(bytes - 1));
    (from <= to).then(|| from as u64..to as u64 + 1)
}

pub(super) fn setrange<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let offset = integer(args.next().unwrap_or_default())?;
    let part = args.next().unwrap_or_default();
    let offset = u64::try_from(offset).map_err(|_| ErrorReply::Offset)?;
    let key = call.key(bytes);
    if part.is_empty() {
        let item = call.guard.items().peek(&key);
        let len = string(item.as_ref())?.map_or(0, |item| item.value_len());
        call.int(len as i64);
        return Ok(());
    }
    string(call.guard.items().peek(&key).as_ref())?;
    typed::room_to_store(call, part.len() as u64)?;
    let len = call.guard.items_mut().splice(&key, offset, part)?.ok_or(ErrorReply::WrongType)?;
    note_store(call);
    call.changed(KeyEvent::SETRANGE, bytes);
    call.int(len as i64);
    Ok(())
}

/// Appends the value of `item` to `to`, or nothing if a piece of the value is lost.
pub(super) fn copy_value(guard: &Guard<'_>, key: &Key<'_>, item: Option<&Item<'_>>, to: &mut Vec<u8>) {
    let Some(item) = item else { return };
    let start = to.len();
    to.reserve(item.value_len() as usize);
    let range = 0..item.value_len();
    if !guard.pieces().copy_range(key, item.value, range, &mut |bytes| to.extend_from_slice(bytes)) {
        to.truncate(start);
    }
}

pub(super) fn incr<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    add(call, args, |_| Ok(1))
}

pub(super) fn decr<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    add(call, args, |_| Ok(-1))
}

pub(super) fn incrby<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    add(call, args, integer)
}

pub(super) fn decrby<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    add(call, args, |text| integer(text)?.checked_neg().ok_or(ErrorReply::NotNegatable))
}

pub(super) fn incrbyfloat<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let key = call.key(bytes);
    string(call.guard.items().peek(&key).as_ref())?;
    let delta = float(args.next().unwrap_or_default())?;
    typed::room_to_store(call, 0)?;
    let mut text = call.ctx.scratch(call.guard);
    let mut attempts = Attempts::default();
    let sum = loop {
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        let item = string(item.as_ref())?;
        if item.is_some_and(|item| item.value_len() > FLOAT_BYTES_MAX as u64) {
            return Err(ErrorReply::NotFloat.into());
        }
        text.clear();
        copy_value(call.guard, &key, item, &mut text);
        let present = if text.is_empty() && item.is_none() { 0.0 } else { float(&text)? };
        let sum = present + delta;
        if !sum.is_finite() {
            return Err(ErrorReply::NotFinite.into());
        }
        text.clear();
        put_float(&mut text, sum);
        let (client_flags, expire) = item.map_or((0, Expire::Never), |item| (item.client_flags, item.expire));
        let new = Replacement::Bytes { value: &text, client_flags, expire };
        if call.guard.items_mut().replace(&key, &version, new)? == Replaced::Done {
            break sum;
        }
    };
    drop(text);
    note_store(call);
    call.changed(KeyEvent::INCRBYFLOAT, bytes);
    let mut room = [0; FLOAT_BYTES_MAX];
    let mut left = &mut room[..];
    std::io::Write::write_fmt(&mut left, format_args!("{}", if sum == 0.0 { 0.0 } else { sum }))
        .expect("the buffer has room for any number");
    let len = FLOAT_BYTES_MAX - left.len();
    reply::bulk(call.out, &room[..len]);
    Ok(())
}

/// The maximum length of a number without an exponent, in characters. The longest numbers have 309 digits, or 17 digits
/// after 324 zeros.
const FLOAT_BYTES_MAX: usize = 352;

/// Stores a value. Returns false if the condition of `mode` did not hold.
pub(super) fn store_plain(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    value: &[u8],
    mode: PutMode,
    expire: Expire,
) -> Result<bool, Interrupt> {
    let key = call.key(bytes);
    store_key(call, &key, value, mode, expire)
}

/// Stores a value if the key does not exist. A record whose bins have all expired is deleted first. Returns true if the
/// value was stored.
fn store_absent(call: &mut Call<'_, '_>, bytes: &[u8], value: &[u8], expire: Expire) -> Result<bool, Interrupt> {
    let stored = store_plain(call, bytes, value, PutMode::Add, expire)?;
    Ok(stored || !typed::is_there(call, &call.key(bytes))? && store_plain(call, bytes, value, PutMode::Add, expire)?)
}

/// Stores a value as [`store_plain`] does, under a key whose hash was already computed.
#[inline]
pub(super) fn store_key(
    call: &mut Call<'_, '_>,
    key: &Key<'_>,
    value: &[u8],
    mode: PutMode,
    expire: Expire,
) -> Result<bool, Interrupt> {
    typed::room_to_store(call, value.len() as u64)?;
    let outcome = call.guard.items_mut().put(key, &Put { mode, expire, ..Put::set(value) })?;
    let stored = matches!(outcome, PutOutcome::Stored { .. });
    if stored {
        note_store(call);
        call.ctx.note_length(call.session.namespace, key.bytes(), value.len() as u64);
        publish_set(call, key.bytes(), expire);
    }
    Ok(stored)
}

/// Notifies subscribers that a value was stored. If the value has an expiry, also notifies them that it was set.
#[inline]
pub(super) fn publish_set(call: &mut Call<'_, '_>, bytes: &[u8], expire: Expire) {
    call.changed(KeyEvent::SET, bytes);
    if expire != Expire::Never {
        call.changed(KeyEvent::EXPIRE, bytes);
    }
}

/// Counts a stored value in the metrics.
pub(super) fn note_store(call: &Call<'_, '_>) {
    let counters = call.counters();
    counters.cmd_set.add(1);
    counters.items_stored.add(1);
}

fn set_until<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, unit: Unit, name: &'static str) -> Run {
    let key = args.next().unwrap_or_default();
    let deadline = Deadline::positive(args.next().unwrap_or_default(), unit, call.moment(), name)?;
    let value = args.next().unwrap_or_default();
    store_plain(call, key, value, PutMode::Set, deadline.expire())?;
    call.out.push(reply::OK);
    Ok(())
}

/// The value that `SET` stores.
#[derive(Clone, Copy)]
enum NewValue<'v> {
    Bytes(&'v [u8]),
    Large(&'v LargeWriter),
}

/// Stores a value with the options of `MSETEX`.
pub(super) fn store_with(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    value: &[u8],
    (options, expire): (&SetOptions<'_>, Expire),
) -> Run {
    if options.put_mode().is_some() {
        return store_plain(call, bytes, value, PutMode::Set, expire).map(drop);
    }
    let key = call.key(bytes);
    typed::room_to_store(call, value.len() as u64)?;
    store_over(call.guard, &key, NewValue::Bytes(value), (options, expire), None)?;
    note_stored(call, (bytes, value.len() as u64), expire);
    Ok(())
}

/// Executes a `SET` whose options depend on the existing value, or request that value as the reply.
fn set_by(call: &mut Call<'_, '_>, bytes: &[u8], value: &[u8], options: &SetOptions<'_>, expire: Expire) -> Run {
    typed::room_to_store(call, value.len() as u64)?;
    let (key, mark) = (call.key(bytes), call.out.mark());
    let replied = if options.get { value_reply::reply_value(call, &key)? } else { None };
    let stored = store_over(call.guard, &key, NewValue::Bytes(value), (options, expire), replied.as_ref());
    finish_set(call, (bytes, value.len() as u64), (options, expire), (replied, mark), stored)
}

/// Executes a `SET` as [`set_by`] does, with a long value that is already in the store, in pieces.
pub(super) fn set_large_by<'c>(
    call: &mut Call<'c, '_>,
    large: &mut LargeSet,
    mut options: SetOptions<'c>,
    expire: Expire,
) -> Run {
    options.read_digest(call, None, large.key())?;
    let options = &options;
    let (bytes, mark) = (large.bytes(), call.out.mark());
    let key = call.guard.key(call.session.namespace, large.key());
    let replied = if options.get { value_reply::reply_value(call, &key)? } else { None };
    let stored = store_over(call.guard, &key, NewValue::Large(large.writer()), (options, expire), replied.as_ref());
    if matches!(stored, Ok(true)) {
        large.stored();
    }
    finish_set(call, (large.key(), bytes), (options, expire), (replied, mark), stored)
}

/// Replaces the present item by a new value if the options allow it. Returns true if the value was stored. With the
/// option `GET`, returns [`SessionWait::Parked`] if the value in the reply is not the value of the present item.
fn store_over(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    value: NewValue<'_>,
    (options, expire): (&SetOptions<'_>, Expire),
    replied: Option<&ValueReply>,
) -> Result<bool, Interrupt> {
    let (mut attempts, client_flags) = (Attempts::default(), 0);
    loop {
        let Loaded { item, version } = guard.items().load(key, &mut attempts)?;
        if options.get && !value_reply::is_replied(item.as_ref(), replied) {
            return Err(SessionWait::Parked.into());
        }
        let Some(expire) = options.expire_over(guard, key, item.as_ref(), expire)? else { return Ok(false) };
        let new = match value {
            NewValue::Bytes(value) => Replacement::Bytes { value, client_flags, expire },
            NewValue::Large(value) => Replacement::Large { value, client_flags, expire },
        };
        if guard.items_mut().replace(key, &version, new)? == Replaced::Done {
            return Ok(true);
        }
    }
}

/// Completes the reply to `SET`. If the value was stored, counts it and notifies subscribers.
fn finish_set(
    call: &mut Call<'_, '_>,
    (key, value_bytes): (&[u8], u64),
    (options, expire): (&SetOptions<'_>, Expire),
    (replied, mark): (Option<ValueReply>, usize),
    stored: Result<bool, Interrupt>,
) -> Run {
    let stored = if options.get {
        let (hit, stored) = value_reply::finish_or_take_back(call, replied, mark, stored)?;
        call.count_read(hit);
        stored
    } else {
        let stored = stored?;
        ok_or_null(call, stored);
        stored
    };
    if stored {
        note_stored(call, (key, value_bytes), expire);
    }
    Ok(())
}

/// Counts a value that an option of `SET` allowed to be stored, and notifies subscribers.
fn note_stored(call: &mut Call<'_, '_>, (key, value_bytes): (&[u8], u64), expire: Expire) {
    note_store(call);
    call.ctx.note_length(call.session.namespace, key, value_bytes);
    publish_set(call, key, expire);
}

/// Replies with a range of a large value. The range is pinned and sent directly from the store, without a copy.
fn range_of_large(call: &mut Call<'_, '_>, key: &Key<'_>, large: LargeRef, range: std::ops::Range<u64>) -> Run {
    if !call.session.answers.wants_reply() {
        call.count_read(true);
        return Ok(());
    }
    let bytes = range.end - range.start;
    if !call.out.has_pin_room_for_large(bytes) || !call.ctx.pin_budget(bytes) {
        return Err(SessionWait::OutputFull { want: LINE_ROOM }.into());
    }
    let pinned = call.guard.large().pin_range(key, large, range);
    if !matches!(pinned, Ok(Some(_))) {
        call.ctx.pin_refund(bytes);
    }
    let pinned = pinned?;
    call.count_read(pinned.is_some());
    reply::bulk_head(call.out, if pinned.is_some() { bytes } else { 0 });
    if let Some(pinned) = pinned {
        call.out.push_pinned(pinned);
    }
    call.out.push(b"\r\n");
    Ok(())
}

fn ok_or_null(call: &mut Call<'_, '_>, stored: bool) {
    if stored {
        call.out.push(reply::OK);
    } else {
        call.null();
    }
}

fn add<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, delta: impl Fn(&[u8]) -> Result<i64, ErrorReply>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let delta = delta(args.next().unwrap_or_default())?;
    let key = call.key(bytes);
    if let Err(full) = typed::room_to_store(call, 0)
        && call.guard.items().peek(&key).is_none()
    {
        return Err(full);
    }
    match call.guard.numbers().add(&key, delta)? {
        AddOutcome::Number(sum) => {
            note_store(call);
            // Redis sends this event for decrements too.
            call.changed(KeyEvent::INCRBY, bytes);
            call.int(sum);
            Ok(())
        }
        AddOutcome::WrongType => Err(ErrorReply::WrongType.into()),
        AddOutcome::NotInteger => Err(ErrorReply::NotInteger.into()),
        AddOutcome::Overflow => Err(ErrorReply::Overflow.into()),
    }
}
