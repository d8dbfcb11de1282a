//! Walks over all keys: `SCAN`, `KEYS`, `RANDOMKEY`.
//!
//! A cursor is a place in the order of the keys' hashes, which does not change while the index grows or shrinks: a key
//! that stays is told at least once, and may be told twice.

use super::error::Fault;
use super::glob::{check, matches};
use super::number::integer;
use super::table::lower;
use super::typed::{View, type_name};
use super::walk::{KEYS_AN_OP, Walk};
use super::{Call, LINE_ROOM, Run};
use crate::context::{OPS_A_BATCH, State};
use arrayvec::ArrayVec;
use protocol::number::parse_u64;
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;
use segment::Item;

/// Keys that a call of `SCAN` tells if no count is given.
const COUNT: i64 = 10;
/// Steps of the walk in one call at most: each looks at a group of the index.
const STEPS_MAX: usize = 64;
/// Bytes of the two lines before the keys, and of the cursor.
const HEAD_BYTES: usize = 2 * NUMBER_LINE_BYTES_MAX + 64;

/// Which keys are told.
struct Filter<'c> {
    pattern: Option<&'c [u8]>,
    /// Of this type alone.
    kind: Option<ArrayVec<u8, 16>>,
}

pub(super) fn scan<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let cursor = parse_u64(args.next().unwrap_or_default()).ok_or(Fault::Cursor)?;
    let mut cursor = u32::try_from(cursor).map_err(|_| Fault::Cursor)?;
    let (mut filter, mut count) = (Filter { pattern: None, kind: None }, COUNT);
    while let Some(word) = args.next() {
        let value = args.next().ok_or(Fault::Syntax)?;
        match &lower(word)[..] {
            b"match" => {
                check(value)?;
                filter.pattern = Some(value);
            }
            b"count" => {
                count = integer(value)?;
                if count < 1 {
                    return Err(Fault::Syntax.into());
                }
            }
            b"type" => filter.kind = Some(lower(value)),
            _ => return Err(Fault::Syntax.into()),
        }
    }
    if call.turn.is_tiered() {
        return scan_tiers(call, &filter, count as u64, cursor);
    }
    let view = call.ctx.view();
    let (mut told, mut looked, mut filled) = (0u64, 0i64, HEAD_BYTES);
    let mut next = Some(cursor);
    for step in 0..STEPS_MAX {
        let before = (told, filled);
        let mut want = filled;
        let spare = call.out.spare();
        next = call.turn.scan(call.session.namespace, cursor, &mut |item| {
            looked += 1;
            if !filter.takes(item, view) {
                return;
            }
            want += bulk_bytes(item.key);
            if want <= spare.len() {
                put_bulk(&mut spare[filled..], item.key);
                (told, filled) = (told + 1, want);
            }
        });
        if want > spare.len() {
            if step == 0 {
                return Err(State::OutputFull { want: want + LINE_ROOM }.into());
            }
            // Those of this step are told by the next call.
            (told, filled) = before;
            next = Some(cursor);
            break;
        }
        let Some(at) = next else { break };
        cursor = at;
        if looked >= count {
            break;
        }
    }
    let head = head(next.unwrap_or(0), told);
    let head = head.as_slice();
    let spare = call.out.spare();
    spare[..head.len()].copy_from_slice(head);
    spare.copy_within(HEAD_BYTES..filled, head.len());
    call.out.advance(head.len() + filled - HEAD_BYTES);
    // A step is as much work as some lookups.
    call.ops += (looked as usize / KEYS_AN_OP).min(OPS_A_BATCH);
    Ok(())
}

/// The two lines before the keys, and the cursor.
fn head(next: u32, told: u64) -> Fixed<HEAD_BYTES> {
    let mut head = Fixed::<HEAD_BYTES>::new();
    reply::array(&mut head, 2);
    let mut digits = Fixed::<20>::new();
    protocol::number::put_u64(&mut digits, next.into());
    reply::bulk(&mut head, digits.as_slice());
    reply::array(&mut head, told);
    head
}

impl Filter<'_> {
    #[inline(always)]
    fn takes(&self, item: &Item<'_>, view: View<'_>) -> bool {
        if self.pattern.is_some_and(|pattern| !matches(pattern, item.key)) {
            return false;
        }
        let kind = type_name(item, view);
        kind.is_some() && self.kind.as_ref().is_none_or(|wanted| kind.map(str::as_bytes) == Some(wanted))
    }
}

/// `SCAN` where items are on flash too: it parks while they are read, with what it has found.
fn scan_tiers(call: &mut Call<'_, '_>, filter: &Filter<'_>, count: u64, cursor: u32) -> Run {
    let walk = call.session.walk.take();
    let mut walk = walk.unwrap_or_else(|| Walk::from(cursor));
    let (view, bytes_max, namespace) = (call.ctx.view(), call.ctx.request_bytes_max / 2, call.session.namespace);
    while walk.ended.is_none() {
        let Walk { cursor, stride, found, keys, looked, .. } = &mut *walk;
        let stepped = call.turn.walk(namespace, *cursor, stride, &mut |item| {
            *looked += 1;
            if filter.takes(item, view) {
                reply::bulk(found, item.key);
                *keys += 1;
            }
        });
        let next = match stepped {
            Ok(next) => next.unwrap_or(0),
            Err(error) => return call.put_off(walk, error.into()),
        };
        walk.steps += 1;
        let is_enough = walk.looked as u64 >= count || walk.steps >= STEPS_MAX || walk.found.len() >= bytes_max;
        walk.cursor = next;
        walk.ended = (next == 0 || is_enough).then_some(next);
    }
    if let Err(stop) = call.answer_room(walk.found.len() + HEAD_BYTES) {
        return call.put_off(walk, stop);
    }
    call.out.push(head(walk.cursor, walk.keys).as_slice());
    call.out.push(&walk.found);
    call.ops += (walk.looked / KEYS_AN_OP).min(OPS_A_BATCH);
    Ok(())
}

/// A key that is told, in bytes.
fn bulk_bytes(key: &[u8]) -> usize {
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    reply::bulk_head(&mut line, key.len() as u64);
    line.as_slice().len() + key.len() + 2
}

fn put_bulk(to: &mut [u8], key: &[u8]) {
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    reply::bulk_head(&mut line, key.len() as u64);
    let (head, rest) = to.split_at_mut(line.as_slice().len());
    head.copy_from_slice(line.as_slice());
    rest[..key.len()].copy_from_slice(key);
    rest[key.len()..][..2].copy_from_slice(b"\r\n");
}

/// `RANDOMKEY`. Where few keys are among many of others, the walk takes several visits: it goes round once.
pub(super) fn randomkey<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    let namespace = call.session.namespace;
    if call.session.done == 0 && call.ctx.shared.store.keys(namespace) == 0 {
        call.null();
        return Ok(());
    }
    if call.turn.is_tiered() {
        return randomkey_tiers(call);
    }
    let (start, mut from) = match call.session.done {
        0 => {
            let start = draw(call) as u32;
            (start, start)
        }
        _ => ((call.session.sum >> 32) as u32, call.session.sum as u32),
    };
    let mut round = call.session.done > 1;
    let view = call.ctx.view();
    for _ in 0..STEPS_MAX {
        let mut found = false;
        let out = &mut *call.out;
        let next = call.turn.scan(namespace, from, &mut |item| {
            if !found && type_name(item, view).is_some() && out.room() >= LINE_ROOM + item.key.len() {
                reply::bulk(out, item.key);
                found = true;
            }
        });
        if found {
            return Ok(());
        }
        round |= next.is_none();
        from = next.unwrap_or(0);
        if round && from >= start {
            call.null();
            return Ok(());
        }
    }
    call.session.sum = i64::from(start) << 32 | i64::from(from);
    call.session.done = 1 + u32::from(round);
    call.ops = OPS_A_BATCH;
    Err(State::Yield.into())
}

/// Where a walk begins is drawn from the time; who comes behind a gap is told more often, which Redis has too.
fn draw(call: &Call<'_, '_>) -> u64 {
    base::prng::split_mix(call.ctx.clock.ticks().0 ^ call.ops as u64)
}

/// `RANDOMKEY` where items are on flash too: one of all those of a step, so that the ones in memory are not told first.
fn randomkey_tiers(call: &mut Call<'_, '_>) -> Run {
    let (drawn, view, namespace) = (draw(call), call.ctx.view(), call.session.namespace);
    let (begin, walk) = (drawn as u32, call.session.walk.take());
    let mut walk = walk.unwrap_or_else(|| Walk::from(begin));
    for _ in 0..STEPS_MAX {
        let Walk { cursor, stride, found, looked, ended, .. } = &mut *walk;
        let stepped = match ended {
            Some(_) => Ok(None),
            None => call.turn.walk(namespace, *cursor, stride, &mut |item| {
                if type_name(item, view).is_none() {
                    return;
                }
                *looked += 1;
                // The first of one, the second of two with half of the chance, and so on.
                if base::prng::split_mix(drawn ^ *looked as u64).is_multiple_of(*looked as u64) {
                    found.clear();
                    found.extend_from_slice(item.key);
                }
            }),
        };
        let next = match stepped {
            Ok(next) => next,
            Err(error) => return call.put_off(walk, error.into()),
        };
        if walk.looked > 0 {
            walk.ended = Some(0);
            if let Err(stop) = call.answer_room(walk.found.len()) {
                return call.put_off(walk, stop);
            }
            reply::bulk(call.out, &walk.found);
            return Ok(());
        }
        walk.round |= next.is_none();
        walk.cursor = next.unwrap_or(0);
        if walk.round && walk.cursor >= walk.start {
            call.null();
            return Ok(());
        }
    }
    call.ops = OPS_A_BATCH;
    call.put_off(walk, State::Yield.into())
}
