//! Commands on sets. This file contains the commands that read one set, `change` those that change one, `random` those
//! that choose elements by chance, and `combine` those over several sets.

mod change;
mod combine;
mod random;

pub(super) use change::{sadd, smove, srem};
pub(super) use combine::{sdiff, sdiffstore, sinter, sintercard, sinterstore, sunion, sunionstore};
pub(super) use random::{spop, srandmember};

use super::catalog::lower;
use super::catalog::words;
use super::collection::{self, BYTES_AN_OP, ElementRange, Elements, ReplyShape, put_while_room};
use super::elements::reply_each;
use super::error::ErrorReply;
use super::number::{self, integer};
use super::pattern::check;
use super::slices::BYTES_A_SLICE;
use super::typed::{self, put_text};
use crate::glob::matches;
use crate::resp::call::{Call, Interrupt, Run};
use crate::visit::out::OutBuffer;
use protocol::number::Decimal;
use protocol::resp::reply::NUMBER_LINE_BYTES_MAX;
use protocol::resp::{Args, reply};
use record::{Digits, Name, SetValue, TextSets};

impl Elements for TextSets {
    fn put(
        out: &mut OutBuffer,
        set: &SetValue<'_>,
        range: ElementRange,
        most: u64,
        shape: ReplyShape,
    ) -> Result<(u64, usize), Interrupt> {
        let elements = set.from(range.first)?.take(range.count.min(most) as usize);
        put_while_room(out, elements, shape, |value| *value, |out, value| put_text(out, value))
    }
}

pub(super) fn scard<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let len = collection::look::<TextSets, _>(call, key, |_, set| Ok(set.map_or(0, SetValue::len)))?;
    call.int(len as i64);
    Ok(())
}

pub(super) fn sismember<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, element] = words(args);
    let is_there = collection::look::<TextSets, _>(call, key, |_, set| {
        Ok(set.map_or(Ok(false), |set| set.contains(&Name::new(element)))?)
    })?;
    call.int(is_there.into());
    Ok(())
}

pub(super) fn smismember<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_each::<TextSets>(call, ("smismember", args), NUMBER_LINE_BYTES_MAX, &|out, set, element| {
        let is_there = set.map_or(Ok(false), |set| set.contains(&Name::new(element)))?;
        reply::int(out, is_there.into());
        Ok(())
    })
}

/// The number of elements whose search costs one operation.
const ELEMENTS_AN_OP: usize = 4;

pub(super) fn smembers<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let shape = ReplyShape { is_set: true, ..ReplyShape::of(call) };
    collection::reply_range::<TextSets>(call, ("smembers", args), key, shape, &|set| {
        Ok(ElementRange { first: 0, count: set.len(), is_reverse: false })
    })
}

/// The number of hashes of elements; a cursor is below.
const HASHES: u64 = 1 << 32;
/// The default of `COUNT` in `SSCAN`.
const SCANNED: i64 = 10;
/// The maximum number of elements that one `SSCAN` examines, apart from the last leaf.
const SCANNED_MAX: u64 = 4096;

/// The number of bytes of elements after which one `SSCAN` examines no more, apart from the last leaf.
const SCANNED_BYTES: usize = BYTES_A_SLICE;

/// Parses the options of `SSCAN`: the pattern, and the number of elements that a call examines at least.
fn scan_options(mut options: Args<'_>) -> Result<(Option<&[u8]>, u64), ErrorReply> {
    let (mut pattern, mut count) = (None, SCANNED);
    while let Some(word) = options.next() {
        match (&lower(word)[..], options.next()) {
            (b"match", Some(given)) => {
                check(given)?;
                pattern = Some(given);
            }
            (b"count", Some(given)) => {
                count = Some(integer(given)?).filter(|count| *count > 0).ok_or(ErrorReply::Syntax)?
            }
            _ => return Err(ErrorReply::Syntax),
        }
    }
    Ok((pattern, (count as u64).min(SCANNED_MAX)))
}

/// Executes `SSCAN`. A cursor is a position in the order of the hashes of the elements.
pub(super) fn sscan<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, cursor] = words(args);
    let cursor = number::cursor(cursor)?;
    let (mut found, mut replied, mut examined, mut bytes) = (Vec::new(), 0, 0, 0);
    let next = collection::look::<TextSets, _>(call, key, |_, set| {
        let mut next = Some(cursor).filter(|cursor| *cursor < HASHES);
        // As in Redis, the options are not read if the key does not exist.
        let Some(set) = set else { return Ok(0) };
        let (pattern, wanted) = scan_options(args.after_first().after_first())?;
        while let Some(from) = next.filter(|_| examined < wanted && bytes < SCANNED_BYTES) {
            let (elements, behind) = set.step(from as u32)?;
            examined += elements.len() as u64;
            for value in elements {
                let mut digits = Digits::new();
                let text = value.text(&mut digits);
                bytes += text.len();
                if pattern.is_none_or(|pattern| matches(pattern, text)) {
                    reply::bulk(&mut found, text);
                    replied += 1;
                }
            }
            next = behind.map(u64::from);
        }
        Ok(next.unwrap_or(0))
    })?;
    call.ops += examined as usize / ELEMENTS_AN_OP + bytes / BYTES_AN_OP;
    typed::answer_fits(call, found.len())?;
    reply::array(call.out, 2);
    reply::bulk(call.out, Decimal::new(next).as_slice());
    reply::array(call.out, replied);
    call.out.push(&found);
    Ok(())
}
