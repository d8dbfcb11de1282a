//! Commands that choose elements of a set by chance. Each element has the same chance.

use super::words;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::collection::{self, ELEMENTS_A_VISIT, ElementRange, Pops, ReplyShape};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::slices;
use crate::resp::state::walk::Walk;
use crate::resp::typed::{self, put_text};
use crate::visit::progress::SessionWait;
use base::prng::Prng;
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;
use record::{Damaged, Digits, Name, SetEdit, SetValue, TextSets};
use std::collections::HashSet;

impl Pops for TextSets {
    /// The seed of the choice.
    type From = u64;

    fn pop(
        set: &SetValue<'_>,
        edit: &mut SetEdit<'_>,
        seed: u64,
        count: u64,
        _: ReplyShape,
        to: &mut Vec<u8>,
    ) -> Result<(), Damaged> {
        if count == set.len() {
            for value in set.from(0)? {
                put_text(to, &value?);
            }
            edit.clear();
            return Ok(());
        }
        for index in distinct(&mut Prng::new(seed), set.len(), count) {
            let Some(value) = set.from(index)?.next() else { return Err(Damaged) };
            let mut digits = Digits::new();
            let value = value?;
            let text = value.text(&mut digits);
            reply::bulk(to, text);
            if !edit.remove(&Name::new(text))? {
                return Err(Damaged);
            }
        }
        Ok(())
    }
}

/// Returns `count` different random numbers below `bound`, each set of numbers with the same chance (R. Floyd's
/// algorithm).
fn distinct(prng: &mut Prng, bound: u64, count: u64) -> Vec<u64> {
    let mut chosen = HashSet::with_capacity(count as usize);
    let mut numbers = Vec::with_capacity(count as usize);
    for last in bound - count.min(bound)..bound {
        let number = prng.below(last + 1);
        let number = if chosen.insert(number) { number } else { last };
        chosen.insert(number);
        numbers.push(number);
    }
    numbers
}

/// Returns a seed for choices of this request.
fn seed(call: &Call<'_, '_>) -> u64 {
    call.ctx.clock.ticks().0 ^ (call.ops as u64) << 48
}

pub(in crate::resp) fn spop<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, count] = words(args);
    let count = match args.len() {
        1 => None,
        2 => Some(integer(count).ok().and_then(|count| u64::try_from(count).ok()).ok_or(ErrorReply::NotPositive)?),
        _ => return Err(ErrorReply::Syntax.into()),
    };
    let shape = ReplyShape { is_set: count.is_some(), ..ReplyShape::of(call) };
    let seed = seed(call);
    let popped = collection::reply_popped::<TextSets>(call, ("spop", args), key, (seed, count), shape, KeyEvent::SPOP)?;
    if !popped {
        match count {
            Some(_) => reply::set(call.out, call.session.version, 0),
            None => call.null(),
        }
    }
    Ok(())
}

pub(in crate::resp) fn srandmember<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, count] = words(args);
    let count = match args.len() {
        1 => return one_at_random(call, key),
        2 => integer(count)?,
        _ => return Err(ErrorReply::Syntax.into()),
    };
    if !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(ErrorReply::OutOfRange.into());
    }
    let len = collection::look::<TextSets, _>(call, key, |_, set| Ok(set.map_or(0, SetValue::len)))?;
    let shape = ReplyShape::of(call);
    if count >= 0 && count as u64 >= len {
        return collection::reply_range::<TextSets>(call, ("srandmember", args), key, shape, &|set| {
            Ok(ElementRange { first: 0, count: set.len(), is_reverse: false })
        });
    }
    let is_short = count.unsigned_abs() <= ELEMENTS_A_VISIT && call.session.walk.is_none();
    if len == 0 {
        reply::array(call.out, 0);
        return Ok(());
    }
    if is_short {
        let mut prng = Prng::new(seed(call));
        let mut found = Vec::new();
        collection::look::<TextSets, _>(call, key, |_, set| {
            let Some(set) = set.filter(|_| count != 0) else { return Ok(()) };
            let numbers = match u64::try_from(count) {
                Ok(count) => distinct(&mut prng, set.len(), count),
                Err(_) => (0..count.unsigned_abs()).map(|_| prng.below(set.len())).collect(),
            };
            for number in numbers {
                if let Some(value) = set.from(number)?.next() {
                    put_text(&mut found, &value?);
                }
            }
            Ok(())
        })?;
        call.ops += count.unsigned_abs() as usize / super::ELEMENTS_AN_OP;
        match typed::answer_fits(call, found.len()) {
            Err(Interrupt::Fault(ErrorReply::AnswerTooLong)) if !call.collects_replies => {}
            ran => {
                ran?;
                reply::array(call.out, count.unsigned_abs());
                call.out.push(&found);
                return Ok(());
            }
        }
    }
    if !call.collects_replies {
        return Err(slices::run_reading(call, "srandmember", args, key));
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = choose_over_visits(call, key, count, &mut walk);
    slices::end_visit(call, walk, ran)
}

fn one_at_random(call: &mut Call<'_, '_>, key: &[u8]) -> Run {
    let (version, shape, mut prng) = (call.session.version, ReplyShape::of(call), Prng::new(seed(call)));
    collection::look::<TextSets, _>(call, key, |out, set| {
        let Some(set) = set else {
            reply::null(out, version);
            return Ok(());
        };
        let Some(value) = set.from(prng.below(set.len()))?.next() else { return Err(Damaged.into()) };
        let value = value?;
        shape.room(out, shape.bytes_of(&value))?;
        put_text(out, &value);
        Ok(())
    })
}

/// Chooses many elements over several visits. `walk.cursor` elements are replied. If each element may be chosen once
/// only, `walk.left` elements have been examined in order, and each is chosen with the chance that makes all choices
/// equal.
fn choose_over_visits(call: &mut Call<'_, '_>, key: &[u8], count: i64, walk: &mut Walk) -> Run {
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    let (wanted, shape) = (count.unsigned_abs(), ReplyShape::of(call));
    while walk.cursor < wanted {
        let mut prng = Prng::new(seed(call) ^ walk.cursor);
        let (done, first) = (walk.cursor, walk.left);
        let (chosen, examined) =
            collection::look_consistently::<TextSets, _>(call, key, &mut walk.reading, |out, set| {
                let Some(set) = set else { return Ok((0, 0)) };
                let most = ELEMENTS_A_VISIT;
                let (mut chosen, mut examined) = (0, 0);
                if count < 0 {
                    while chosen < most.min(wanted - done) {
                        let Some(value) = set.from(prng.below(set.len()))?.next() else { return Err(Damaged.into()) };
                        let value = value?;
                        match shape.room(out, shape.bytes_of(&value)) {
                            Err(stop) if chosen == 0 => return Err(stop),
                            Err(_) => break,
                            Ok(()) => put_text(out, &value),
                        }
                        chosen += 1;
                    }
                    return Ok((chosen, 0));
                }
                for value in set.from(first)?.take(most as usize) {
                    let (value, left) = (value?, set.len() - first - examined);
                    if prng.below(left) < wanted - done - chosen {
                        match shape.room(out, shape.bytes_of(&value)) {
                            Err(stop) if examined == 0 => return Err(stop),
                            Err(_) => break,
                            Ok(()) => put_text(out, &value),
                        }
                        chosen += 1;
                    }
                    examined += 1;
                }
                Ok((chosen, examined))
            })?;
        if chosen == 0 && examined == 0 {
            break;
        }
        (walk.cursor, walk.left) = (walk.cursor + chosen, walk.left + examined);
        call.ops += 1 + (chosen + examined) as usize / super::ELEMENTS_AN_OP;
        if walk.cursor < wanted && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    reply::array(&mut line, walk.cursor);
    call.out.fill_head(head, line.as_slice());
    Ok(())
}
