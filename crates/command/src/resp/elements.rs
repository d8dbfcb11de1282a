//! Replies with elements of collections that a request names, or that are chosen by chance. Long replies take several
//! visits.

use super::collection::{
    BYTES_AN_OP, ELEMENTS_A_VISIT, ElementRange, Elements, ReplyShape, look, look_consistently, reply_range,
};
use super::error::ErrorReply;
use super::slices::{self, FIELDS_A_SLICE, STEP_BYTES, collect_room};
use super::typed;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::state::walk::Walk;
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use base::prng::Prng;
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;
use record::{Collection, Damaged};
use std::collections::HashSet;

/// The number of elements whose search costs one operation.
const ELEMENTS_AN_OP: usize = 4;

/// A function that writes one element of a reply, for the element with this name.
pub(super) type PutNamed<'d, C> =
    dyn for<'v> Fn(&mut OutBuffer, Option<&<C as Collection>::Value<'v>>, &[u8]) -> Run + 'd;

/// Replies with an array that has one element for each name in the arguments after the key. `bytes_max` is the maximum
/// length of what `put` writes.
pub(super) fn reply_each<'c, C: Collection>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    bytes_max: usize,
    put: &PutNamed<'_, C>,
) -> Run {
    let (key, names) = (args.into_iter().next().unwrap_or_default(), args.after_first());
    if names.len() <= FIELDS_A_SLICE as usize && call.session.walk.is_none() {
        typed::answer_fits(call, NUMBER_LINE_BYTES_MAX + names.len() * bytes_max)?;
        call.ops += names.len() / ELEMENTS_AN_OP;
        return look::<C, _>(call, key, |out, value| {
            reply::array(out, names.len() as u64);
            names.into_iter().try_for_each(|name| put(out, value, name))
        });
    }
    if !call.collects_replies {
        return Err(slices::run_reading(call, name, args, key));
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = reply_each_over_visits::<C>(call, (key, names), bytes_max, &mut walk, put);
    slices::end_visit(call, walk, ran)
}

/// Writes the elements over several visits: `walk.left` of the names are done, which have `walk.wanted` bytes.
fn reply_each_over_visits<C: Collection>(
    call: &mut Call<'_, '_>,
    (key, names): (&[u8], Args<'_>),
    bytes_max: usize,
    walk: &mut Walk,
    put: &PutNamed<'_, C>,
) -> Run {
    if walk.head.is_none() {
        let head = call.out.reserve_head();
        let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
        reply::array(&mut line, names.len() as u64);
        call.out.fill_head(head, line.as_slice());
        walk.head = Some(head);
    }
    let mut left = names.after(walk.left as u32, walk.wanted as usize);
    while left.len() > 0 {
        let (slice, behind) = left.split(FIELDS_A_SLICE);
        collect_room(call.out, slice.len() * bytes_max)?;
        look_consistently::<C, _>(call, key, &mut walk.reading, |out, value| {
            slice.into_iter().try_for_each(|name| put(out, value, name))
        })?;
        walk.left += slice.len() as u64;
        walk.wanted += slice.wire_bytes() as u64;
        call.ops += 1 + slice.len() / ELEMENTS_AN_OP;
        left = behind;
        if left.len() > 0 && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    call.count_read(walk.reading.was_there());
    Ok(())
}

/// Returns a generator of the random choices of this visit.
pub(super) fn prng_of(call: &Call<'_, '_>) -> Prng {
    Prng::new(call.ctx.clock.ticks().0 ^ (call.ops as u64) << 48)
}

/// Replies with one element, each with the same chance, or with null if the key does not exist.
pub(super) fn reply_one_at_random<C: Elements>(call: &mut Call<'_, '_>, key: &[u8]) -> Run {
    let (version, shape, mut prng) = (call.session.version, ReplyShape::of(call), prng_of(call));
    look::<C, _>(call, key, |out, value| {
        let Some(value) = value else {
            reply::null(out, version);
            return Ok(());
        };
        put_one::<C>(out, value, prng.below(C::len(value)), shape).map(drop)
    })
}

/// Writes the element with this number. Returns its length in the reply.
fn put_one<C: Elements>(
    out: &mut OutBuffer,
    value: &C::Value<'_>,
    number: u64,
    shape: ReplyShape,
) -> Result<usize, Interrupt> {
    let range = ElementRange { first: number, count: 1, is_reverse: false };
    match C::put(out, value, range, 1, shape)? {
        (1, bytes) => Ok(bytes),
        _ => Err(Damaged.into()),
    }
}

/// Replies with `count` different elements, or with `-count` elements, which may repeat. Each element has the same
/// chance.
pub(super) fn reply_at_random<'c, C: Elements>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    key: &[u8],
    count: i64,
    shape: ReplyShape,
) -> Run {
    if !call.collects_replies || count == 0 {
        // A request for no elements is an error, too, if the key holds another type.
        let len = look::<C, _>(call, key, |_, value| Ok(value.map_or(0, C::len)))?;
        if len == 0 || count == 0 {
            shape.put_head(call.out, 0);
            return Ok(());
        }
        if u64::try_from(count).is_ok_and(|count| count >= len) {
            // Another client may have added elements since this look.
            let most = count.unsigned_abs();
            return reply_range::<C>(call, (name, args), key, shape, &|value| {
                Ok(ElementRange { first: 0, count: C::len(value).min(most), is_reverse: false })
            });
        }
        if count.unsigned_abs() <= DRAWN_AT_ONCE_MAX {
            let mark = call.out.mark();
            let ran = draw_at_once::<C>(call, key, count, shape);
            if ran.is_ok() {
                return ran;
            }
            call.out.truncate(mark);
            if !matches!(
                ran,
                Err(Interrupt::Fault(ErrorReply::AnswerTooLong) | Interrupt::State(SessionWait::OutputFull { .. }))
            ) {
                return ran;
            }
        }
        return Err(slices::run_reading(call, name, args, key));
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = draw_over_visits::<C>(call, key, count, shape, &mut walk);
    slices::end_visit(call, walk, ran)
}

/// The maximum number of elements that are drawn in one visit.
const DRAWN_AT_ONCE_MAX: u64 = 64;

fn draw_at_once<C: Elements>(call: &mut Call<'_, '_>, key: &[u8], count: i64, shape: ReplyShape) -> Run {
    let (mut prng, wanted) = (prng_of(call), count.unsigned_abs());
    call.ops += wanted as usize / ELEMENTS_AN_OP;
    look::<C, _>(call, key, |out, value| {
        let len = value.map_or(0, C::len);
        let numbers = if count < 0 {
            (0..wanted).map(|_| prng.below(len.max(1))).collect()
        } else {
            distinct(&mut prng, len, wanted)
        };
        let Some(value) = value else { return Err(SessionWait::Yield.into()) };
        shape.put_head(out, numbers.len() as u64);
        numbers.into_iter().try_for_each(|number| put_one::<C>(out, value, number, shape).map(drop))
    })
}

/// Returns `count` different random numbers below `bound`. Each set of numbers has the same chance (R. Floyd's
/// algorithm).
pub(super) fn distinct(prng: &mut Prng, bound: u64, count: u64) -> Vec<u64> {
    let mut chosen = HashSet::with_capacity(count as usize);
    let mut numbers = Vec::with_capacity(count as usize);
    for last in bound - count.min(bound)..bound {
        let number = prng.below(last + 1);
        let number = if chosen.contains(&number) { last } else { number };
        chosen.insert(number);
        numbers.push(number);
    }
    numbers
}

/// Draws elements over several visits. `walk.cursor` elements are in the reply. If each element may be drawn only once,
/// the first `walk.left` elements have been examined, and each is drawn with the probability (elements still wanted) /
/// (elements not yet examined): if there are no more than are wanted, all are drawn.
fn draw_over_visits<C: Elements>(
    call: &mut Call<'_, '_>,
    key: &[u8],
    count: i64,
    shape: ReplyShape,
    walk: &mut Walk,
) -> Run {
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    let wanted = count.unsigned_abs();
    while walk.cursor < wanted {
        let mut prng = prng_of(call);
        let (done, first) = (walk.cursor, walk.left);
        let (drawn, examined, bytes) = look_consistently::<C, _>(call, key, &mut walk.reading, |out, value| {
            let Some(value) = value else { return Ok((0, 0, 0)) };
            let (mut drawn, mut examined, mut bytes) = (0, 0, 0);
            let most = if count < 0 { wanted - done } else { C::len(value).saturating_sub(first) };
            while examined < most.min(ELEMENTS_A_VISIT) && bytes < STEP_BYTES as usize {
                let left = C::len(value) - if count < 0 { 0 } else { first + examined };
                let draws = count < 0 || prng.below(left) < wanted - done - drawn;
                let number = if count < 0 { prng.below(left) } else { first + examined };
                match if draws { put_one::<C>(out, value, number, shape) } else { Ok(0) } {
                    Err(stop) if examined == 0 => return Err(stop),
                    Err(_) => break,
                    Ok(len) => (drawn, examined, bytes) = (drawn + u64::from(draws), examined + 1, bytes + len),
                }
            }
            Ok((drawn, examined, bytes))
        })?;
        if examined == 0 {
            break;
        }
        (walk.cursor, walk.left) = (walk.cursor + drawn, walk.left + examined);
        call.ops += 1 + examined as usize / ELEMENTS_AN_OP + bytes / BYTES_AN_OP;
        if walk.cursor < wanted && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    shape.put_head(&mut line, walk.cursor);
    call.out.fill_head(head, line.as_slice());
    call.count_read(walk.reading.was_there());
    Ok(())
}
