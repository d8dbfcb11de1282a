//! The commands `REC.SCAN` and `REC.TRUNCATE`, which walk over the records of a set, and `REC.SETS`, which lists the
//! sets.
//!
//! `REC.SCAN` visits the keys in the order of their hashes, as `SCAN` does, and a cursor is a position in that order. A
//! record that exists from the first command of an iteration to the last is returned at least once, and may be returned
//! twice.

use super::read::ReadOptions;
use super::set_name;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::entry;
use crate::resp::error::ErrorReply;
use crate::resp::index_places::record_of_set;
use crate::resp::number::integer;
use crate::resp::own_transaction;
use crate::resp::records;
use crate::resp::scan::{STEPS_MAX, begin};
use crate::resp::state::walk::{FoundRecords, Walk};
use crate::resp::typed::{self, KeyParts, View};
use crate::resp::walk;
use crate::resp::walk::walk_step_ops;
use crate::visit::progress::SessionWait;
use protocol::number::{Decimal, parse_u64};
use protocol::resp::{Args, Version, reply};
use record::{Kind, NoParts, Record};
use segment::{Attempts, Guard, Item, Key, Loaded, OpError, Replaced, Replacement, Stride, Value, Walks};

/// The default of `COUNT`: the maximum number of records that one command returns.
const COUNT: i64 = 10;
/// The maximum of `COUNT`, in records.
const COUNT_MAX: i64 = 4096;

/// The arguments of one `REC.SCAN` command.
struct Scan<'c> {
    set: u16,
    telling: ReadOptions<'c>,
    count: usize,
}

impl Scan<'_> {
    fn look(&self, item: &Item<'_>, parts: &KeyParts<'_>, view: View<'_>, version: Version, found: &mut FoundRecords) {
        found.looked += 1;
        if record_of_set(item, view) != Some(self.set) {
            return;
        }
        found.of_set += 1;
        let from = found.bytes.len();
        let mut tell = || {
            let Some(record) = typed::record(Some(item), view, parts)? else { return Ok(false) };
            if !self.telling.takes(&record, view.now_ms)? {
                return Ok(false);
            }
            self.telling.put_with_key(&mut found.bytes, version, &record, item, view.now_ms)?;
            Ok(true)
        };
        match tell() {
            Ok(true) => found.records.push((parts.place(), from..found.bytes.len())),
            Ok(false) => {}
            Err(fault) => {
                found.fault = Some(fault);
                found.broken = Some(item.key.to_vec());
            }
        }
    }
}

/// Executes `REC.SCAN set cursor [COUNT n] [RATE n] [TYPED] [FILTER filter] [BINS name ...]`.
pub(in super::super) fn scan<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let name = set_name(args.next())?;
    let cursor = parse_u64(args.next().unwrap_or_default()).ok_or(ErrorReply::Cursor)?;
    let (mut count, mut rate) = (COUNT, None);
    let telling = ReadOptions::read(args, |word, args| {
        let number = integer(args.next().ok_or(ErrorReply::Syntax)?)?;
        match word {
            b"count" if number > 0 => count = number.min(COUNT_MAX),
            b"rate" if number > 0 => rate = Some(number as u64),
            _ => return Err(ErrorReply::Syntax),
        }
        Ok(())
    });
    let telling = match telling {
        Ok(telling) => telling,
        Err(bad) => return records::bad(call, b"", bad),
    };
    let now_ms = call.ctx.now.0;
    if rate.is_some() && now_ms < call.session.paced_until_ms {
        return Err(SessionWait::Parked.into());
    }
    let (version, view) = (call.session.version, call.ctx.view());
    let going = call.session.walk.take();
    let mut going = going.unwrap_or_else(|| begin(call, cursor));
    if let Some(set) = view.sets.find(call.session.namespace.0, name).filter(|_| going.ended.is_none()) {
        let scan = Scan { set: set.number(), telling, count: count as usize };
        match walk(call, &scan, &mut going, version) {
            Ok(next) => going.ended = Some(next.unwrap_or(0)),
            Err(stop) => return walk::suspend(call, going, stop),
        }
    }
    let replied = &mut going.records;
    if let Some(fault) = replied.fault {
        return Err(match replied.broken.take().filter(|_| call.guard.parts().take_lost()) {
            Some(key) => call.retry_after_lost_part(std::iter::once(&key[..])).into(),
            None => fault.into(),
        });
    }
    let bytes = replied.bytes.len() + 3 * reply::NUMBER_LINE_BYTES_MAX;
    if let Err(stop) = typed::answer_room(call.out, call.ctx.request_bytes_max, bytes) {
        return walk::suspend(call, going, stop);
    }
    reply::array(call.out, 2);
    reply::bulk(call.out, Decimal::new(going.ended.unwrap_or(0)).as_slice());
    reply::array(call.out, replied.records.len() as u64);
    for (_, range) in &replied.records {
        call.out.push(&replied.bytes[range.clone()]);
    }
    if let Some(rate) = rate {
        // The client's next `REC.SCAN` with a rate waits until the time has passed that examining these records takes
        // at the requested rate, in records per second.
        call.session.paced_until_ms = now_ms + (replied.of_set as u64 * 1000).div_ceil(rate);
    }
    Ok(())
}

/// Walks until enough records are found. Returns the cursor for the client's next command, or `None` at the end of the
/// walk.
fn walk(
    call: &mut Call<'_, '_>,
    scan: &Scan<'_>,
    going: &mut Walk,
    version: Version,
) -> Result<Option<u64>, Interrupt> {
    let bytes_max = call.ctx.request_bytes_max / 2;
    let Walk { cursor, stride, steps, records: found, .. } = going;
    let mut next = None;
    while *steps < STEPS_MAX {
        let (view, before) = (call.ctx.view(), found.looked);
        next = call.guard.walks().walk(call.session.namespace, *cursor, stride, &mut |item| {
            let parts = KeyParts::new(call.guard, call.key(item.key));
            scan.look(item, &parts, view, version, found);
        })?;
        call.ops += walk_step_ops(4 * (found.looked - before));
        let before = found.before;
        // Sorts the records of this step in the order of the walk, so that the command can end after any of them and
        // the next cursor points behind it.
        let order = *cursor;
        found.records[before..].iter_mut().for_each(|(place, _)| *place = Walks::place_in_walk(order, *place));
        found.records[before..].sort_unstable_by_key(|(place, _)| *place);
        let (mut bytes, mut kept) = (0, 0);
        for (at, (place, range)) in found.records.iter().enumerate() {
            let is_new = at == 0 || found.records[at - 1].0 != *place;
            if is_new && (kept >= scan.count || kept > 0 && bytes + range.len() > bytes_max) {
                next = Some(*place);
                break;
            }
            (bytes, kept) = (bytes + range.len(), at + 1);
        }
        if kept < found.records.len() {
            found.records.truncate(kept);
            let of_kept: Vec<u8> =
                found.records.iter().flat_map(|(_, range)| &found.bytes[range.clone()]).copied().collect();
            let mut end = 0;
            for (_, range) in &mut found.records {
                *range = end..end + range.len();
                end = range.end;
            }
            found.bytes = of_kept;
            break;
        }
        let Some(at) = next else { break };
        (*cursor, *steps, found.before) = (at, *steps + 1, found.records.len());
        if kept >= scan.count || bytes >= bytes_max {
            break;
        }
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    Ok(next)
}

/// Executes `REC.TRUNCATE set`: hides all records of the set at once, and then removes them to free their memory.
/// Replies with the number of removed records when all of them are removed.
pub(in super::super) fn truncate<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if !call.collects_replies {
        return own_transaction::run_collected(call, entry("rec.truncate"), args);
    }
    let name = set_name(args.into_iter().next())?;
    let walk = call.session.walk.take();
    let shared = std::sync::Arc::clone(&call.ctx.shared);
    let Some(set) = shared.sets.find(call.session.namespace.0, name) else {
        call.int(0);
        return Ok(());
    };
    if walk.is_none() {
        if !shared.sets.truncate(set) {
            return Err(ErrorReply::OutOfMemory.into());
        }
        // From here on, every read misses the records. Only the walk finds their keys, so clients drop all copies.
        call.ctx.invalidate_flushed();
    }
    let mut walk = walk.unwrap_or_else(|| Walk::from(call.guard.walks().first_cursor()));
    loop {
        let (mut gone, mut on_flash) = (Vec::new(), Vec::new());
        let mut looked = 0;
        let is_gone = |item: &Item<'_>| match item.value {
            Value::Typed { kind, bytes } => {
                Kind::of(kind).is_some_and(|kind| matches!(Record::of(kind, bytes, &shared.sets, &NoParts), Ok(None)))
            }
            _ => false,
        };
        let stepped =
            call.guard.walks().walk_tiers(call.session.namespace, walk.cursor, &mut walk.stride, &mut |item, place| {
                looked += 1;
                match place.filter(|_| is_gone(item)) {
                    Some(place) => on_flash.push((item.key.to_vec(), place)),
                    None if is_gone(item) => gone.push(item.key.to_vec()),
                    None => {}
                }
            });
        for (bytes, place) in on_flash {
            // If the item is no longer at the place that the walk reported, it is removed by its key below.
            if call.guard.walks().remove_from_flash(call.session.namespace, place) {
                call.session.sum += 1;
            } else {
                gone.push(bytes);
            }
        }
        for bytes in gone {
            let key = call.key(&bytes);
            match remove_if(call.guard, &key, is_gone) {
                Ok(removed) => call.session.sum += i64::from(removed),
                Err(error) => {
                    // The next visit repeats the step from its beginning.
                    walk.stride = Stride::default();
                    return walk::suspend(call, walk, error.into());
                }
            }
        }
        call.ops += walk_step_ops(looked);
        let next = match stepped {
            Ok(next) => next,
            Err(error) => return walk::suspend(call, walk, error.into()),
        };
        let Some(at) = next else { break };
        walk.cursor = at;
        if call.is_slice_used() {
            return walk::suspend(call, walk, SessionWait::Yield.into());
        }
    }
    call.int(call.session.sum);
    Ok(())
}

/// Removes the item of `key` if `is_gone` returns true for the item. Returns true if the item was removed.
fn remove_if(guard: &mut Guard<'_>, key: &Key<'_>, is_gone: impl Fn(&Item<'_>) -> bool) -> Result<bool, OpError> {
    let mut attempts = Attempts::default();
    loop {
        let Loaded { item, version } = guard.items().load(key, &mut attempts)?;
        if !item.as_ref().is_some_and(&is_gone) {
            return Ok(false);
        }
        if guard.items_mut().replace(key, &version, Replacement::Remove)? == Replaced::Done {
            return Ok(true);
        }
    }
}

/// Executes `REC.SETS`: lists the sets, each with the names of all bins that any of its records has or once had.
pub(in super::super) fn sets<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    let (mut replied, mut count, namespace) = (Vec::new(), 0, call.session.namespace);
    for set in call.ctx.shared.sets.all().filter(|set| set.namespace() == namespace.0) {
        count += 1;
        reply::array(&mut replied, 2);
        reply::bulk(&mut replied, set.name());
        let bins: Vec<_> = set.bins().collect();
        reply::array(&mut replied, bins.len() as u64);
        bins.iter().for_each(|bin| reply::bulk(&mut replied, bin));
    }
    typed::answer_fits(call, replied.len() + reply::NUMBER_LINE_BYTES_MAX)?;
    reply::array(call.out, count);
    call.out.push(&replied);
    Ok(())
}
