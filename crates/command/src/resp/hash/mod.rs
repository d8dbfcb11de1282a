//! Hash commands. A hash is a record, and a field is a bin, whose value is returned as text. The commands read a record
//! in place, without copying it first.

use crate::resp::state::walk::Walk;
mod change;
mod ends;
mod scan;

pub(super) use change::{hdel, hincrby, hincrbyfloat, hmset, hset, hsetnx};
pub(super) use ends::{
    hexpire, hexpireat, hexpiretime, hgetdel, hgetex, hpersist, hpexpire, hpexpireat, hpexpiretime, hpttl, hsetex, httl,
};
pub(super) use scan::{hrandfield, hscan};

use super::slices::{self, FIELDS_A_SLICE};
use super::typed::{self, KeyParts, put_texts, record};
use crate::resp::call::{Call, Interrupt, Run};
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;
use record::{Bin, Damaged, HASHES, Kind, Name, Record};
use segment::{Item, Value};

/// The parts of each field that a reply contains: its name, its value, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyParts {
    Names,
    Values,
    Both,
}

impl ReplyParts {
    /// Returns the number of fields in `bins`, and an upper bound of the bytes that these fields need in a reply.
    fn measure<'r>(self, bins: impl Iterator<Item = Result<Bin<'r>, Damaged>>) -> Result<(usize, usize), Damaged> {
        bins.into_iter().try_fold((0, 0), |(fields, bytes), bin| {
            let bin = bin?;
            Ok((fields + 1, bytes + typed::reply_bytes(&bin.name) + typed::reply_bytes(&bin.value)))
        })
    }

    /// Writes the selected parts of one field. This function is always inlined, because it runs for each field of a
    /// hash. Without the attribute, unrelated changes of the code could stop the compiler from inlining it.
    #[inline(always)]
    fn put(self, out: &mut OutBuffer, bin: &Bin<'_>) {
        if self != Self::Values {
            typed::put_text(out, &bin.name);
        }
        if self != Self::Names {
            typed::put_text(out, &bin.value);
        }
    }
}

/// The number of copied bytes that count as one operation of a visit.
const COPIED_BYTES_AN_OP: usize = 4 << 10;

/// Calls `look` with the record of a key, and replies with the number that `look` returns. Replies with 0 if the key
/// does not exist. Counts the read in the metrics.
pub(super) fn number_of(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    look: impl FnOnce(Record<'_>) -> Result<i64, Interrupt>,
) -> Run {
    let key = call.key(bytes);
    let item = call.guard.items().get(&key);
    let parts = KeyParts::new(call.guard, key);
    let replied = record(item.as_ref(), call.ctx.view(), &parts)?.map(look).transpose()?;
    call.count_read(replied.is_some());
    call.int(replied.unwrap_or(0));
    Ok(())
}

fn reply_all<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, telling: ReplyParts) -> Run {
    let key = args.into_iter().next().unwrap_or_default();
    if call.collects_replies && call.session.walk.is_some() {
        return reply_leaves(call, key, telling);
    }
    let mut is_replied = true;
    typed::at_any_length(call, name, args, |call, args| {
        is_replied = reply_all_at_once(call, args, telling)?;
        Ok(())
    })?;
    match (is_replied, call.collects_replies) {
        (true, _) => Ok(()),
        (false, true) => reply_leaves(call, key, telling),
        (false, false) => Err(slices::run_reading(call, name, args, key)),
    }
}

/// Replies with all fields of a large record, leaf by leaf, over several visits.
fn reply_leaves(call: &mut Call<'_, '_>, key: &[u8], telling: ReplyParts) -> Run {
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = reply_leaves_over_visits(call, key, telling, &mut walk);
    slices::end_visit(call, walk, ran)
}

fn reply_leaves_over_visits(call: &mut Call<'_, '_>, key: &[u8], telling: ReplyParts, walk: &mut Walk) -> Run {
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    while walk.cursor < HASHES {
        let from = walk.cursor as u32;
        let (to, fields, bytes) = slices::read_consistently(call, key, &mut walk.reading, |out, record, now_ms| {
            let Some(record) = record else { return Ok((HASHES, 0, 0)) };
            let to = record.step_end(from)?;
            let bins = record.bins_in(now_ms, from, to);
            let (fields, bytes) = telling.measure(bins.clone())?;
            slices::collect_room(out, bytes)?;
            for bin in bins {
                telling.put(out, &bin?);
            }
            Ok((to, fields, bytes))
        })?;
        (walk.cursor, walk.keys) = (to, walk.keys + fields as u64);
        call.ops += 2 + fields / 4 + bytes / COPIED_BYTES_AN_OP;
        if walk.cursor < HASHES && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    match telling {
        ReplyParts::Both => reply::map(&mut line, call.session.version, walk.keys),
        _ => reply::array(&mut line, walk.keys),
    }
    call.out.fill_head(head, line.as_slice());
    call.count_read(walk.keys > 0);
    Ok(())
}

/// Replies with all fields of a record in this visit. If the record is stored in leaves, writes nothing and returns
/// false.
fn reply_all_at_once<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, telling: ReplyParts) -> Result<bool, Interrupt> {
    let (key, now_ms) = (call.key(args.next().unwrap_or_default()), call.ctx.now.0);
    let (version, bytes_max) = (call.session.version, typed::answer_bytes_max(call));
    let item = call.guard.items().get(&key);
    if item.as_ref().is_some_and(is_large) {
        return Ok(false);
    }
    let parts = KeyParts::new(call.guard, key);
    let record = record(item.as_ref(), call.ctx.view(), &parts)?;
    let fields = record.as_ref().map_or(Ok(0), |record| record.count(now_ms))? as u64;
    match telling {
        ReplyParts::Both => reply::map(call.out, version, fields),
        _ => reply::array(call.out, fields),
    }
    if let Some(record) = record.as_ref().filter(|record| typed::has_room_for_all(call.out, record)) {
        for bin in record.bins(now_ms) {
            let bin = bin?;
            telling.put(call.out, &bin);
        }
    } else if let Some(record) = &record {
        let parts = record.bins(now_ms).flat_map(|bin| {
            let (name, value) = match bin {
                Ok(bin) => (Ok(Some(bin.name)), Ok(Some(bin.value))),
                Err(damaged) => (Err(damaged), Err(damaged)),
            };
            [(telling != ReplyParts::Values).then_some(name), (telling != ReplyParts::Names).then_some(value)]
        });
        put_texts(call.out, version, bytes_max, parts.flatten())?;
    }
    let hit = record.is_some();
    call.count_read(hit);
    Ok(true)
}

/// Returns true if an item is a record that is stored in leaves. Reading a whole record of this kind takes several
/// visits.
fn is_large(item: &Item<'_>) -> bool {
    matches!(item.value, Value::Typed { kind, .. } if Kind::of(kind).is_some_and(Kind::is_large))
}

pub(super) fn hgetall<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_all(call, "hgetall", args, ReplyParts::Both)
}

pub(super) fn hkeys<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_all(call, "hkeys", args, ReplyParts::Names)
}

pub(super) fn hvals<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_all(call, "hvals", args, ReplyParts::Values)
}

/// Replies with the values of named fields, for `HGET` and `HMGET`. The reply for a missing field is null.
fn reply_some<'c>(call: &mut Call<'c, '_>, bytes: &[u8], names: Args<'c>) -> Run {
    let (key, now_ms, bytes_max) = (call.key(bytes), call.ctx.now.0, typed::answer_bytes_max(call));
    let item = call.guard.items().get(&key);
    let parts = KeyParts::new(call.guard, key);
    let record = record(item.as_ref(), call.ctx.view(), &parts)?;
    let (record, mut at) = (record.as_ref(), 0);
    let values = names.map(move |name| match record {
        Some(record) => Ok(record.find_after(&mut at, &Name::new(name), now_ms)?.map(|bin| bin.value)),
        None => Ok(None),
    });
    put_texts(call.out, call.session.version, bytes_max, values)?;
    let hit = record.is_some();
    call.count_read(hit);
    Ok(())
}

pub(super) fn hget<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = args.next().unwrap_or_default();
    reply_some(call, key, args)
}

/// Replies with an array that has one element for each field in `names`, over several visits. `each` writes one
/// element. `args` begins with the key and ends with `names`.
pub(super) fn reply_each<'c>(
    call: &mut Call<'c, '_>,
    name: &'static str,
    args: Args<'c>,
    names: Args<'c>,
    each: impl Fn(&mut OutBuffer, Option<Bin<'_>>, u64) -> Run,
) -> Run {
    let key = args.into_iter().next().unwrap_or_default();
    if !call.collects_replies {
        return Err(slices::run_reading(call, name, args, key));
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = reply_each_over_visits(call, key, names, &mut walk, &each);
    slices::end_visit(call, walk, ran)
}

fn reply_each_over_visits<'c>(
    call: &mut Call<'c, '_>,
    key: &[u8],
    names: Args<'c>,
    walk: &mut Walk,
    each: &impl Fn(&mut OutBuffer, Option<Bin<'_>>, u64) -> Run,
) -> Run {
    if walk.head.is_none() {
        let head = call.out.reserve_head();
        let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
        reply::array(&mut line, names.len() as u64);
        call.out.fill_head(head, line.as_slice());
        walk.head = Some(head);
    }
    // The number of finished fields is stored in `walk` and not in `session.done`, because `end_visit` may set
    // `session.done` to 1.
    let mut left = names.after(walk.left as u32, walk.wanted as usize);
    while left.len() > 0 {
        let (slice, behind) = left.split(FIELDS_A_SLICE);
        let (done, bytes) = slices::read_consistently(call, key, &mut walk.reading, |out, record, now_ms| {
            let (mut rest, mut done) = (slice, (0u64, 0usize));
            loop {
                let before = rest.wire_bytes();
                let Some(name) = rest.next() else { return Ok(done) };
                let bin = record.map(|record| record.find(&Name::new(name), now_ms)).transpose()?.flatten();
                match each(out, bin, now_ms) {
                    // The elements that this visit has written remain in the reply. The next visit continues with the
                    // element after them.
                    Err(Interrupt::State(_)) if done.0 > 0 => return Ok(done),
                    put => put?,
                }
                done = (done.0 + 1, done.1 + before - rest.wire_bytes());
            }
        })?;
        walk.left += done;
        walk.wanted += bytes as u64;
        call.ops += done as usize;
        left = if done == slice.len() as u64 { behind } else { left.after(done as u32, bytes) };
        if left.len() > 0 && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    call.count_read(walk.reading.was_there());
    Ok(())
}

pub(super) fn hmget<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    if args.len() > FIELDS_A_SLICE as usize {
        let version = call.session.version;
        return reply_each(call, "hmget", args, args.after_first(), |out, bin, _| {
            let bytes = bin.as_ref().map_or(0, |bin| typed::reply_bytes(&bin.value));
            slices::collect_room(out, bytes)?;
            match bin {
                Some(bin) => typed::put_text(out, &bin.value),
                None => reply::null(out, version),
            }
            Ok(())
        });
    }
    typed::at_any_length(call, "hmget", args, |call, mut args| {
        let key = args.next().unwrap_or_default();
        reply::array(call.out, args.len() as u64);
        reply_some(call, key, args)
    })
}

pub(super) fn hexists<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (key, name, now_ms) = (args.next().unwrap_or_default(), args.next().unwrap_or_default(), call.ctx.now.0);
    number_of(call, key, |record| Ok(record.find(&Name::new(name), now_ms)?.is_some().into()))
}

pub(super) fn hlen<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (key, now_ms) = (args.next().unwrap_or_default(), call.ctx.now.0);
    typed::sweep_ended(call, key)?;
    number_of(call, key, |record| Ok(record.count(now_ms)? as i64))
}

pub(super) fn hstrlen<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (key, name, now_ms) = (args.next().unwrap_or_default(), args.next().unwrap_or_default(), call.ctx.now.0);
    number_of(call, key, |record| {
        let bin = record.find(&Name::new(name), now_ms)?;
        Ok(bin.map_or(0, |bin| bin.value.text(&mut record::Digits::new()).len()) as i64)
    })
}
