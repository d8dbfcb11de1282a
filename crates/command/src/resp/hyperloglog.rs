//! Commands on HyperLogLogs. A HyperLogLog is a string whose bytes are those of Redis ([`record::hyperloglog`]).

use super::catalog::lower;
use super::error::{self, ErrorReply};
use super::typed::{live, string};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::slices::{self, Slices};
use crate::resp::state::string_work::StringWork;
use crate::resp::string::note_store;
use crate::resp::typed;
use crate::visit::progress::{OPS_A_BATCH, REPORT_OPS, SessionWait};
use protocol::resp::{Args, reply};
use record::hyperloglog::{self, DENSE_BYTES, NotHyperLogLog, REGISTERS, Registers};
use segment::{Attempts, Expire, Guard, Item, Key, Loaded, Replaced, Replacement, Value};

/// The cost of merging one HyperLogLog, in operations.
const OPS_PER_MERGE: usize = 8;
/// The maximum length of a sparse HyperLogLog in bytes: two for each register.
const BYTES_MAX: u64 = hyperloglog::HEADER_BYTES as u64 + 2 * REGISTERS as u64;

impl From<NotHyperLogLog> for ErrorReply {
    fn from(_: NotHyperLogLog) -> Self {
        Self::NotHyperLogLog
    }
}

/// Copies the value of `item` to `value`, which is empty, and checks that it has the form of a HyperLogLog. Returns
/// false if a piece of the value is lost. A sparse value that is longer than the longest valid one is an error.
fn read(guard: &Guard<'_>, key: &Key<'_>, item: &Item<'_>, value: &mut Vec<u8>) -> Result<bool, ErrorReply> {
    string(Some(item))?;
    let is_too_long = item.value_len() > BYTES_MAX;
    let bytes = if is_too_long { hyperloglog::HEADER_BYTES as u64 } else { item.value_len() };
    value.reserve_exact(DENSE_BYTES.max(bytes as usize));
    let is_whole = guard.pieces().copy_range(key, item.value, 0..bytes, &mut |part| value.extend_from_slice(part));
    if is_whole {
        hyperloglog::is_dense(value)?;
        if is_too_long {
            return Err(ErrorReply::InvalidHyperLogLog);
        }
    }
    Ok(is_whole)
}

/// Returns true if the value of `item` is a HyperLogLog that the addition of these elements would not change. May
/// return false although it would not.
fn has_all<'c>(item: &Item<'_>, mut elements: Args<'c>) -> bool {
    elements.len() > 0 && matches!(item.value, Value::Bytes(value) if elements.all(|one| hyperloglog::has(value, one)))
}

pub(super) fn pfadd<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let all = args;
    let key = args.next().unwrap_or_default();
    if args.len() == 0 {
        let changed = add_some(call, key, args, true)?;
        call.int(changed.into());
        return Ok(());
    }
    if call.session.done == 0 {
        typed::room_to_store(call, DENSE_BYTES as u64)?;
    }
    let mut slices = Slices::begin(call, ("pfadd", all), key, (args, 1), false)?;
    while let Some((elements, is_first)) = slices.next(call)? {
        call.session.sum |= i64::from(add_some(call, key, elements, is_first)?);
    }
    call.int(call.session.sum);
    Ok(())
}

/// Adds elements to the HyperLogLog of a key. Returns true if it changed. Creates it if the key does not exist and
/// these are the first elements of the request. If they are not, the HyperLogLog was lost, and the request starts over.
fn add_some<'c>(call: &mut Call<'c, '_>, bytes: &[u8], elements: Args<'c>, is_first: bool) -> Result<bool, Interrupt> {
    let key = call.key(bytes);
    if call.guard.items().get(&key).is_some_and(|item| has_all(&item, elements)) {
        return Ok(false);
    }
    let (mut changed, mut is_lost) = (false, false);
    edit(call, bytes, |value, is_there| {
        (changed, is_lost) = (!is_there, !is_there && !is_first);
        if is_lost {
            return Ok(false);
        }
        if changed {
            // As in Redis, the count of a new HyperLogLog is not cached, even if it has no elements.
            hyperloglog::outdate(value);
        }
        for element in elements {
            changed |= hyperloglog::add(value, element).map_err(|_| ErrorReply::InvalidHyperLogLog)?;
        }
        Ok(changed)
    })?;
    if is_lost {
        return Err(Slices::restart(call));
    }
    if changed && !std::mem::replace(&mut call.session.is_published, true) {
        note_store(call);
        call.changed(KeyEvent::PFADD, bytes);
    }
    Ok(changed)
}

pub(super) fn pfcount<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if args.len() == 1 {
        return count_one(call, args);
    }
    let registers = merge_all(call, args)?;
    call.int(registers.count() as i64);
    Ok(())
}

/// Replies with the count of one HyperLogLog. If its cached count is outdated, computes the count and caches it.
fn count_one<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = call.key(args.next().unwrap_or_default());
    let mut value = call.ctx.scratch(call.guard);
    let mut attempts = Attempts::default();
    let count = loop {
        value.clear();
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        let Some(item) = live(item, call.ctx.view()) else { break None };
        if let Value::Bytes(bytes) = item.value
            && hyperloglog::is_dense(bytes).is_ok()
            && let Some(count) = hyperloglog::cached_count(bytes)
        {
            break Some(count);
        }
        if !read(call.guard, &key, &item, &mut value)? {
            break None;
        }
        if let Some(count) = hyperloglog::cached_count(&value) {
            break Some(count);
        }
        let count = hyperloglog::count(&value).map_err(|_| ErrorReply::InvalidHyperLogLog)?;
        hyperloglog::cache_count(&mut value, count);
        let new = Replacement::Bytes { value: &value, client_flags: item.client_flags, expire: item.expire };
        // If there is no memory for the new value, the next request computes the count again.
        if call.guard.items_mut().replace(&key, &version, new) != Ok(Replaced::Stale) {
            break Some(count);
        }
    };
    drop(value);
    call.count_read(count.is_some());
    call.int(count.unwrap_or(0) as i64);
    Ok(())
}

/// Merges the HyperLogLogs of all keys in `args`. Takes several visits if there are many.
fn merge_all<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Result<Registers, Interrupt> {
    let mut registers = match slices::take_work(call) {
        Some(StringWork::Merge(registers)) => registers,
        _ => Registers::default(),
    };
    let mut left = if call.collects_replies { slices::words_left(call, args) } else { args };
    loop {
        let before = left.wire_bytes();
        let Some(bytes) = left.next() else { return Ok(registers) };
        let used = if call.collects_replies { call.is_slice_used() } else { call.ops >= OPS_A_BATCH };
        let merged = match used {
            true => Err(SessionWait::Yield.into()),
            false => merge_one(call, bytes, &mut registers),
        };
        if let Err(stop) = merged {
            // Outside a transaction, the command starts over as one.
            if call.collects_replies && matches!(stop, Interrupt::State(_)) {
                slices::retain_work(call, StringWork::Merge(registers));
            }
            return Err(stop);
        }
        call.ops += OPS_PER_MERGE;
        if call.collects_replies {
            slices::words_done(call, 1, before - left.wire_bytes());
        }
    }
}

/// Adds the elements of a key's HyperLogLog to `registers`.
fn merge_one(call: &mut Call<'_, '_>, bytes: &[u8], registers: &mut Registers) -> Run {
    let key = call.key(bytes);
    let found = call.guard.items().get(&key);
    let is_missed = found.is_none();
    let Some(item) = live(found, call.ctx.view()) else {
        if is_missed && call.guard.tier().is_false_miss(&key) {
            return Err(SessionWait::Parked.into());
        }
        call.count_read(false);
        return Ok(());
    };
    let merged = match item.value {
        Value::Bytes(value) if hyperloglog::is_dense(value).is_ok() => registers.merge(value),
        _ => {
            let mut value = call.ctx.scratch(call.guard);
            let is_whole = read(call.guard, &key, &item, &mut value)?;
            if is_whole { registers.merge(&value) } else { Ok(()) }
        }
    };
    merged.map_err(|_| ErrorReply::InvalidHyperLogLog)?;
    call.count_read(true);
    Ok(())
}

pub(super) fn pfmerge<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let target = args.into_iter().next().unwrap_or_default();
    if args.len() == 1 {
        merge_with_itself(call, target)?;
        return reply_merged(call, target);
    }
    let registers = merge_all(call, args)?;
    let stored = store_merged(call, target, &registers);
    if call.collects_replies && matches!(stored, Err(Interrupt::State(_))) {
        slices::retain_work(call, StringWork::Merge(registers));
    }
    stored?;
    reply_merged(call, target)
}

/// Replies after the merged HyperLogLog was stored.
fn reply_merged(call: &mut Call<'_, '_>, target: &[u8]) -> Run {
    note_store(call);
    call.changed(KeyEvent::PFADD, target);
    call.out.push(reply::OK);
    Ok(())
}

/// Merges the HyperLogLog of a key with itself. Creates it if the key does not exist. The key is not locked, so what is
/// stored is what the change finds.
fn merge_with_itself(call: &mut Call<'_, '_>, bytes: &[u8]) -> Run {
    typed::room_to_store(call, DENSE_BYTES as u64)?;
    let mut is_hit = false;
    edit(call, bytes, |value, is_there| {
        is_hit = is_there;
        let mut registers = Registers::default();
        let merged = registers.merge(value).and_then(|()| registers.add_to(value));
        merged.map(|()| true).map_err(|_| ErrorReply::InvalidHyperLogLog)
    })?;
    call.count_read(is_hit);
    Ok(())
}

/// Adds the elements of `registers` to the HyperLogLog of a key. Creates it if the key does not exist.
fn store_merged(call: &mut Call<'_, '_>, bytes: &[u8], registers: &Registers) -> Run {
    typed::room_to_store(call, DENSE_BYTES as u64)?;
    edit(call, bytes, |value, _| registers.add_to(value).map_err(|_| ErrorReply::InvalidHyperLogLog).map(|()| true))
}

/// Changes the HyperLogLog of a key with `change`, whose second argument is true if the key exists. If the key does not
/// exist, the HyperLogLog is empty. Stores the result if `change` returns true.
fn edit(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    mut change: impl FnMut(&mut Vec<u8>, bool) -> Result<bool, ErrorReply>,
) -> Run {
    let (key, view) = (call.key(bytes), call.ctx.view());
    let mut value = call.ctx.scratch(call.guard);
    let mut attempts = Attempts::default();
    loop {
        value.clear();
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        let item = live(item, view);
        let is_there = match &item {
            Some(item) => read(call.guard, &key, item, &mut value)?,
            None => false,
        };
        if !is_there {
            value.clear();
            hyperloglog::write_empty(&mut value);
        }
        if !change(&mut value, is_there)? {
            return Ok(());
        }
        let (client_flags, expire) = item.map_or((0, Expire::Never), |item| (item.client_flags, item.expire));
        let new = Replacement::Bytes { value: &value, client_flags, expire };
        if call.guard.items_mut().replace(&key, &version, new)? == Replaced::Done {
            return Ok(());
        }
    }
}

/// Executes `PFDEBUG GETREG | DECODE | ENCODING | TODENSE key`.
pub(super) fn pfdebug<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (topic, bytes) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let key = call.key(bytes);
    let Some(item) = live(call.guard.items().peek(&key), call.ctx.view()) else {
        return Err(ErrorReply::NoSuchHyperLogLog.into());
    };
    let mut value = Vec::new();
    if !read(call.guard, &key, &item, &mut value)? {
        return Err(ErrorReply::NoSuchHyperLogLog.into());
    }
    let is_dense = hyperloglog::is_dense(&value).map_err(ErrorReply::from)?;
    let invalid = |_| ErrorReply::InvalidHyperLogLog;
    match &lower(topic)[..] {
        b"getreg" => {
            make_dense(call, bytes)?;
            let mut registers = Registers::default();
            registers.merge(&value).map_err(invalid)?;
            typed::answer_fits(call, REGISTERS * REGISTER_LINE_BYTES)?;
            call.ops += REPORT_OPS;
            reply::array(call.out, REGISTERS as u64);
            registers.values().iter().for_each(|value| reply::int(call.out, (*value).into()));
        }
        b"decode" if is_dense => return Err(ErrorReply::NotSparse.into()),
        b"decode" => {
            let mut text = Vec::new();
            hyperloglog::decode(&value, &mut text);
            call.room(text.len())?;
            reply::bulk(call.out, &text);
        }
        b"encoding" => reply::simple(call.out, if is_dense { b"dense" } else { b"sparse" }),
        b"todense" => {
            make_dense(call, bytes)?;
            call.int((!is_dense).into());
        }
        _ => error::word(call.out, "ERR Unknown PFDEBUG subcommand", topic),
    }
    Ok(())
}

/// The maximum length of the line of a register in a reply.
const REGISTER_LINE_BYTES: usize = 5;

/// Converts the HyperLogLog of a key to the dense representation.
fn make_dense(call: &mut Call<'_, '_>, bytes: &[u8]) -> Run {
    edit(call, bytes, |value, is_there| {
        Ok(is_there && hyperloglog::make_dense(value).map_err(|_| ErrorReply::InvalidHyperLogLog)?)
    })
}

pub(super) fn pfselftest<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    call.ops += REPORT_OPS;
    if !hyperloglog::self_test() {
        return Err(ErrorReply::SelfTestFailed.into());
    }
    call.out.push(reply::OK);
    Ok(())
}
