//! Commands on lists. This file contains the commands that read, `change` those that change one list, `moves` those
//! that move elements from one list to another, and `waiting` those that wait for elements.

mod change;
mod moves;
mod waiting;

pub(super) use change::{linsert, lpop, lpush, lpushx, lrem, lset, ltrim, rpop, rpush, rpushx};
pub(super) use moves::{lmove, lmpop, rpoplpush};
pub(super) use waiting::{blmove, blmpop, blpop, brpop, brpoplpush};

use super::catalog::lower;
use super::catalog::words;
use super::collection::{self, ElementRange, Elements, ReplyShape, put_while_room};
use super::error::ErrorReply;
use super::number::integer;
use super::slices::{self, STEP_BYTES};
use super::typed::{answer_fits, put_text, reply_bytes};
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::state::walk::Walk;
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use record::{ListValue, Lists, Value};

/// The number of elements that are examined before the end of a visit is checked.
const EXAMINED_A_STEP: u64 = 256;
/// The cost of examining so many elements, in operations.
const OPS_A_STEP: usize = 4;

impl Elements for Lists {
    fn put(
        out: &mut OutBuffer,
        list: &ListValue<'_>,
        range: ElementRange,
        most: u64,
        shape: ReplyShape,
    ) -> Result<(u64, usize), Interrupt> {
        let elements = list.from(range.first)?.take(range.count.min(most) as usize);
        put_while_room(out, elements, shape, |value| *value, |out, value| put_text(out, value))
    }
}

/// Returns the elements between two positions of a command, of which negative ones count from the end: from the first
/// returned number up to, not including, the second.
pub(super) fn between(start: i64, stop: i64, len: u64) -> (u64, u64) {
    let position = |at: i64| if at < 0 { len as i64 + at } else { at };
    let (start, stop) = (position(start).max(0) as u64, position(stop).saturating_add(1).max(0) as u64);
    (start.min(len), stop.min(len).max(start.min(len)))
}

pub(super) fn llen<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = args.next().unwrap_or_default();
    let len = collection::look::<Lists, _>(call, key, |_, list| Ok(list.map_or(0, ListValue::len)))?;
    call.int(len as i64);
    Ok(())
}

pub(super) fn lrange<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, start, stop] = words(args);
    let (start, stop) = (integer(start)?, integer(stop)?);
    let shape = ReplyShape::of(call);
    collection::reply_range::<Lists>(call, ("lrange", args), key, shape, &|list| {
        let (first, end) = between(start, stop, list.len());
        Ok(ElementRange { first, count: end - first, is_reverse: false })
    })
}

pub(super) fn lindex<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, index] = words(args);
    let (version, shape) = (call.session.version, ReplyShape::of(call));
    collection::look::<Lists, _>(call, key, |out, list| {
        let value = match list {
            Some(list) => element_at(list.len(), integer(index)?).map(|index| list.at(index)).transpose()?.flatten(),
            None => None,
        };
        let Some(value) = value else {
            reply::null(out, version);
            return Ok(());
        };
        shape.room(out, shape.bytes_of(&value))?;
        put_text(out, &value);
        Ok(())
    })
}

/// Returns the number of the element at a position, of which a negative one counts from the end.
fn element_at(len: u64, index: i64) -> Option<u64> {
    let index = if index < 0 { index.checked_add(len as i64)? } else { index };
    u64::try_from(index).ok().filter(|index| *index < len)
}

/// The options of `LPOS`.
#[derive(Clone, Copy, Debug)]
struct Positions {
    /// The number of matches that are skipped.
    skipped: u64,
    is_reverse: bool,
    /// The maximum number of positions; `None` for a single position.
    count: Option<u64>,
    /// The maximum number of elements that are compared.
    compared_max: u64,
}

impl Positions {
    fn read(mut args: Args<'_>) -> Result<Self, ErrorReply> {
        let mut options = Self { skipped: 0, is_reverse: false, count: None, compared_max: u64::MAX };
        while let Some(word) = args.next() {
            let name = lower(word);
            let number = args.next().ok_or(ErrorReply::Syntax)?;
            match &name[..] {
                b"rank" => {
                    let rank = integer(number)?;
                    if rank == 0 {
                        return Err(ErrorReply::RankZero);
                    }
                    if rank == i64::MIN {
                        return Err(ErrorReply::RankOutOfRange);
                    }
                    (options.skipped, options.is_reverse) = (rank.unsigned_abs() - 1, rank < 0);
                }
                b"count" => {
                    let count = integer(number).ok().and_then(|count| u64::try_from(count).ok());
                    let count = count.ok_or(ErrorReply::NegativeOption("COUNT"))?;
                    options.count = Some(if count == 0 { u64::MAX } else { count });
                }
                b"maxlen" => {
                    let most = integer(number).ok().and_then(|most| u64::try_from(most).ok());
                    let most = most.ok_or(ErrorReply::NegativeOption("MAXLEN"))?;
                    options.compared_max = if most == 0 { u64::MAX } else { most };
                }
                _ => return Err(ErrorReply::Syntax),
            }
        }
        Ok(options)
    }

    /// Returns the numbers of the equal elements among those after the first `done` compared ones, and how many
    /// elements are compared then. Compares at most [`EXAMINED_A_STEP`], and no more after [`STEP_BYTES`] of them.
    fn find(&self, list: &ListValue<'_>, element: &Value<'_>, done: u64) -> Result<(Vec<u64>, u64), ErrorReply> {
        let len = list.len();
        let count = EXAMINED_A_STEP.min(self.compared_max.min(len).saturating_sub(done));
        let mut found = Vec::new();
        if count == 0 {
            return Ok((found, done));
        }
        let (mut compared, mut bytes) = (0, 0);
        // Returns true if more elements may be compared.
        let mut compare = |number: u64, value: &Value<'_>| {
            if value == element {
                found.push(number);
            }
            (compared, bytes) = (compared + 1, bytes + reply_bytes(value) as u64);
            bytes < STEP_BYTES
        };
        if self.is_reverse {
            let last = len - 1 - done;
            for (offset, value) in list.back_from(last)?.take(count as usize).enumerate() {
                if !compare(last - offset as u64, &value?) {
                    break;
                }
            }
        } else {
            for (offset, value) in list.from(done)?.take(count as usize).enumerate() {
                if !compare(done + offset as u64, &value?) {
                    break;
                }
            }
        }
        Ok((found, done + compared))
    }
}

pub(super) fn lpos<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, element] = words(args);
    let options = Positions::read(args.after_first().after_first())?;
    if !call.collects_replies {
        let is_short = |list: Option<&ListValue<'_>>| list.is_none_or(|list| list.len() <= EXAMINED_A_STEP);
        if !collection::look::<Lists, _>(call, key, |_, list| Ok(is_short(list)))? {
            return Err(slices::run_reading(call, "lpos", args, key));
        }
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = find_positions(call, key, &Value::of_text(element), options, &mut walk);
    if call.collects_replies { slices::end_visit(call, walk, ran) } else { ran }
}

/// Finds positions over several visits: `walk.cursor` elements have been compared, and `walk.keys` of them are equal.
/// The positions that are to be replied are in `walk.found`.
fn find_positions(
    call: &mut Call<'_, '_>,
    key: &[u8],
    element: &Value<'_>,
    options: Positions,
    walk: &mut Walk,
) -> Run {
    let wanted = options.count.unwrap_or(1);
    loop {
        let done = walk.cursor;
        let (found, compared) = collection::look_consistently::<Lists, _>(call, key, &mut walk.reading, |_, list| {
            Ok(list.map_or(Ok((Vec::new(), done)), |list| options.find(list, element, done))?)
        })?;
        for position in found {
            walk.keys += 1;
            if walk.keys > options.skipped && (walk.found.len() as u64) < wanted.saturating_mul(POSITION_BYTES) {
                walk.found.extend_from_slice(&position.to_le_bytes());
            }
        }
        walk.cursor = compared;
        call.ops += OPS_A_STEP;
        if compared == done || walk.found.len() as u64 / POSITION_BYTES >= wanted {
            break;
        }
        if call.is_slice_used() && call.collects_replies {
            return Err(SessionWait::Yield.into());
        }
    }
    let (positions, _) = walk.found.as_chunks::<8>();
    answer_fits(call, (1 + positions.len()) * reply::NUMBER_LINE_BYTES_MAX)?;
    let mut positions = positions.iter().map(|position| u64::from_le_bytes(*position) as i64);
    match (options.count, positions.next()) {
        (None, None) => call.null(),
        (None, Some(position)) => call.int(position),
        (Some(_), first) => {
            reply::array(call.out, positions.len() as u64 + u64::from(first.is_some()));
            first.into_iter().chain(positions).for_each(|position| reply::int(call.out, position));
        }
    }
    Ok(())
}

/// The length of a position in the results of a walk, in bytes.
const POSITION_BYTES: u64 = 8;
