//! Commands over several sorted sets, some of which may be sets, whose elements have the score 1.
//!
//! ```text
//!   sources   the keys whose elements are examined          others   the keys in which each is searched
//!   ZINTER    the one with the fewest elements                       all others have it
//!   ZDIFF     the first                                              none of the others has it
//!   ZUNION    all, from the fewest elements to the most              none of those before has it
//! ```
//!
//! The elements of a result are collected in client memory, in the order of their scores.

use super::put_element;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection::{self, ReplyShape};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::slices;
use crate::resp::sources;
use crate::resp::state::walk::{ScoredElements, Walk};
use crate::resp::stored::{self, Destination};
use crate::resp::typed::{self, KeyParts, reply_bytes};
use crate::visit::progress::SessionWait;
use protocol::resp::Args;
use protocol::resp::reply::NUMBER_LINE_BYTES_MAX;
use protocol::sink::Fixed;
use record::{Damaged, Digits, Name, SetValue, SortedSetValue, SortedSets, TextSets, Value};
use segment::Item;

/// The maximum number of searches that a command makes in one visit, and in one step.
const SEARCHES_A_VISIT: u64 = 512;
const SEARCHES_A_STEP: u64 = 64;
/// The number of searches that cost one operation.
const SEARCHES_AN_OP: u64 = 2;
/// The number of elements that are replied in one step.
const REPLIED_A_STEP: usize = 64;

/// A sorted set, or a set.
enum Source<'v> {
    Scored(SortedSetValue<'v>),
    Plain(SetValue<'v>),
}

impl<'v> Source<'v> {
    fn of(item: Option<&Item<'v>>, parts: &'v KeyParts<'_>) -> Result<Option<Self>, ErrorReply> {
        match collection::opened::<SortedSets>(item, parts) {
            Err(ErrorReply::WrongType) => Ok(collection::opened::<TextSets>(item, parts)?.map(Self::Plain)),
            found => Ok(found?.map(Self::Scored)),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Scored(set) => set.len(),
            Self::Plain(set) => set.len(),
        }
    }

    fn score(&self, text: &[u8]) -> Result<Option<f64>, Damaged> {
        match self {
            Self::Scored(set) => set.score(text),
            Self::Plain(set) => Ok(set.contains(&Name::new(text))?.then_some(1.0)),
        }
    }

    /// Calls `look` for up to `most` elements from number `index` on, until it returns false.
    fn each(
        &self,
        index: u64,
        most: u64,
        look: &mut dyn FnMut(f64, &Value<'_>) -> Result<bool, Damaged>,
    ) -> Result<(), Damaged> {
        let most = most as usize;
        match self {
            Self::Scored(set) => {
                for element in set.from(index)?.take(most) {
                    let (score, value) = element?;
                    if !look(score, &value)? {
                        break;
                    }
                }
            }
            Self::Plain(set) => {
                for value in set.from(index)?.take(most) {
                    if !look(1.0, &value?)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A combination of sorted sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combination {
    Intersection,
    Union,
    Difference,
}

/// The score of an element that several sorted sets have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Aggregate {
    #[default]
    Sum,
    Min,
    Max,
}

impl Aggregate {
    /// Combines the result so far with a further score, which may not be a number. As in Redis, such a sum is 0, also
    /// of two opposite infinities, and no other result is replaced by what is not a number.
    fn of(self, result: f64, other: f64) -> f64 {
        match self {
            Self::Sum if (result + other).is_nan() => 0.0,
            Self::Sum => result + other,
            Self::Min => {
                if other < result {
                    other
                } else {
                    result
                }
            }
            Self::Max => {
                if other > result {
                    other
                } else {
                    result
                }
            }
        }
    }
}

/// A combination with its options.
struct Combine<'c> {
    combination: Combination,
    keys: Args<'c>,
    /// The factors of the scores, one for each key. Empty if all are 1.
    weights: Vec<f64>,
    aggregate: Aggregate,
    has_scores: bool,
}

impl<'c> Combine<'c> {
    /// Parses the options behind the keys. Those of a stored result do not include `WITHSCORES`.
    fn read(
        combination: Combination,
        keys: Args<'c>,
        mut options: Args<'c>,
        is_stored: bool,
    ) -> Result<Self, ErrorReply> {
        let aggregate = Aggregate::default();
        let mut combine = Self { combination, keys, weights: Vec::new(), aggregate, has_scores: false };
        let is_difference = combination == Combination::Difference;
        while let Some(word) = options.next() {
            match &lower(word)[..] {
                b"weights" if !is_difference && options.len() >= keys.len() => {
                    let weights = options.by_ref().take(keys.len()).map(super::interval::score);
                    combine.weights = weights.collect::<Result<_, _>>().map_err(|_| ErrorReply::WeightNotFloat)?;
                }
                b"aggregate" if !is_difference && options.len() > 0 => {
                    combine.aggregate = match &lower(options.next().unwrap_or_default())[..] {
                        b"sum" => Aggregate::Sum,
                        b"min" => Aggregate::Min,
                        b"max" => Aggregate::Max,
                        _ => return Err(ErrorReply::Syntax),
                    };
                }
                b"withscores" if !is_stored => combine.has_scores = true,
                _ => return Err(ErrorReply::Syntax),
            }
        }
        Ok(combine)
    }

    /// Returns the weighted score of an element of the key with this number. The product of 0 and an infinity is 0 if
    /// it is the first score of the element. In Redis, the further scores of a union are converted so too, but those of
    /// an intersection are not.
    fn weighted(&self, number: usize, score: f64, is_first: bool) -> f64 {
        let weighted = self.weights.get(number).map_or(score, |weight| weight * score);
        let is_converted = is_first || self.combination == Combination::Union;
        if is_converted && weighted.is_nan() { 0.0 } else { weighted }
    }

    /// Returns the numbers of the keys in the order in which they are examined and searched.
    fn order(&self, sources: &[Option<Source<'_>>]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..sources.len()).collect();
        if self.combination != Combination::Difference {
            order.sort_by_key(|number| sources[*number].as_ref().map_or(0, Source::len));
        }
        order
    }

    /// Returns the score of an element in the result, or `None` if the result does not have it. The element has the
    /// score `score` in the key number `place` of the order.
    fn result(
        &self,
        sources: &[Option<Source<'_>>],
        (order, place): (&[usize], usize),
        text: &[u8],
        score: f64,
    ) -> Result<Option<f64>, Damaged> {
        let mut result = self.weighted(order[place], score, true);
        for (other, number) in order.iter().enumerate().filter(|(other, _)| *other != place) {
            let found = sources[*number].as_ref().map(|source| source.score(text)).transpose()?.flatten();
            match (self.combination, found) {
                (Combination::Intersection, None) | (Combination::Difference, Some(_)) => return Ok(None),
                (Combination::Union, Some(_)) if other < place => return Ok(None),
                (Combination::Difference, None) | (Combination::Union, None) => {}
                (_, Some(score)) => {
                    result = self.aggregate.of(result, self.weighted(*number, score, false));
                }
            }
        }
        Ok(Some(result))
    }

    /// Examines up to `most` elements from the position of the walk on, and calls `take` for those that the result has,
    /// until it returns false. `walk.left` is the place of the examined key in the order, and `walk.cursor` the number
    /// of the element in it. Returns true after the last element.
    fn step(
        &self,
        call: &mut Call<'_, '_>,
        walk: &mut Walk,
        most: u64,
        take: &mut dyn FnMut(f64, &[u8]) -> bool,
    ) -> Result<bool, Interrupt> {
        let mut left = most;
        let is_last = with_sources(call, self.keys, |sources| {
            let order = self.order(sources);
            let examined = if self.combination == Combination::Union { order.len() } else { 1 };
            while left > 0 && (walk.left as usize) < examined {
                let place = walk.left as usize;
                let source = sources[order[place]].as_ref().filter(|source| walk.cursor < source.len());
                let Some(source) = source else {
                    (walk.left, walk.cursor) = (walk.left + 1, 0);
                    continue;
                };
                let mut goes_on = true;
                source.each(walk.cursor, left, &mut |score, value| {
                    let mut digits = Digits::new();
                    let text = value.text(&mut digits);
                    (walk.cursor, left) = (walk.cursor + 1, left - 1);
                    if let Some(score) = self.result(sources, (&order, place), text, score)? {
                        goes_on = take(score, text);
                    }
                    Ok(goes_on)
                })?;
                if !goes_on {
                    return Ok(true);
                }
            }
            Ok(walk.left as usize >= examined)
        })?;
        call.ops += 1 + ((most - left) * self.keys.len() as u64 / SEARCHES_AN_OP) as usize;
        Ok(is_last)
    }

    /// Returns the number of elements that one step examines.
    fn examined_a_step(&self) -> u64 {
        (SEARCHES_A_STEP / self.keys.len() as u64).max(1)
    }
}

/// Calls `look` with the values under the keys.
fn with_sources<T>(
    call: &mut Call<'_, '_>,
    keys: Args<'_>,
    look: impl FnOnce(&[Option<Source<'_>>]) -> Result<T, Interrupt>,
) -> Result<T, Interrupt> {
    let (view, guard, namespace) = (call.ctx.view(), &*call.guard, call.session.namespace);
    let parts: Vec<KeyParts<'_>> =
        keys.into_iter().map(|key| KeyParts::new(guard, guard.key(namespace, key))).collect();
    let mut sources = Vec::with_capacity(parts.len());
    for (key, parts) in keys.into_iter().zip(&parts) {
        let item = typed::live(guard.items().get(&guard.key(namespace, key)), view);
        sources.push(Source::of(item.as_ref(), parts)?);
    }
    look(&sources)
}

/// Parses the number of keys and the keys, and checks the types of their values. Returns the keys, the words behind
/// them, and the number of elements of all keys.
fn read_keys<'c>(
    call: &mut Call<'c, '_>,
    name: &'static str,
    mut args: Args<'c>,
) -> Result<(Args<'c>, Args<'c>, u64), Interrupt> {
    let count = integer(args.next().unwrap_or_default())?;
    if count < 1 {
        return Err(ErrorReply::NoInputKey(name).into());
    }
    let count = u32::try_from(count).ok().filter(|count| *count as usize <= args.len()).ok_or(ErrorReply::Syntax)?;
    let (keys, options) = args.split(count);
    let (elements, hits) = with_sources(call, keys, |sources| {
        let there = sources.iter().flatten();
        Ok((there.clone().map(Source::len).sum::<u64>(), there.count()))
    })?;
    if call.session.walk.is_none() {
        call.count_reads(keys.len() as u64, hits as u64);
    }
    Ok((keys, options, elements))
}

/// Returns true if a command over keys with so many elements makes too many searches for one visit.
fn is_long(keys: Args<'_>, elements: u64) -> bool {
    elements.saturating_mul(keys.len() as u64) > SEARCHES_A_VISIT
}

/// Makes the command one that takes several visits, with its keys locked.
fn take_visits<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, keys: Args<'c>) -> Interrupt {
    let [key] = words(keys);
    collection::take_visits(call, name, args, key)
}

/// Replies with a combination of sorted sets.
fn combine<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, combination: Combination) -> Run {
    let (keys, options, elements) = read_keys(call, name, args)?;
    let combine = Combine::read(combination, keys, options, false)?;
    let shape = ReplyShape { has_scores: combine.has_scores, ..ReplyShape::of(call) };
    if !call.collects_replies {
        if is_long(keys, elements) {
            return Err(take_visits(call, name, args, keys));
        }
        let mut found = ScoredElements::default();
        combine.step(call, &mut Walk::default(), u64::MAX, &mut |score, text| found.add(score, text))?;
        let mut bytes = Vec::new();
        shape.put_head(&mut bytes, found.len() as u64);
        while let Some((score, text)) = found.pop_first() {
            put_element(&mut bytes, &Value::Text(&text), score, shape);
        }
        return match typed::answer_fits(call, bytes.len()) {
            Err(Interrupt::Fault(ErrorReply::AnswerTooLong)) => Err(take_visits(call, name, args, keys)),
            ran => ran.map(|()| call.out.push(&bytes)),
        };
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = combine_over_visits(call, &combine, shape, &mut walk);
    slices::end_visit(call, walk, ran)
}

/// Collects the elements of a combination over several visits, and then replies with them. `walk.ended` is set when all
/// are collected.
fn combine_over_visits(call: &mut Call<'_, '_>, combine: &Combine<'_>, shape: ReplyShape, walk: &mut Walk) -> Run {
    // The keys are locked, unless they are too many.
    sources::begin(call, &mut walk.reading, combine.keys)?;
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    loop {
        if walk.ended.is_none() {
            let mut scored = std::mem::take(&mut walk.scored);
            let stepped =
                combine.step(call, walk, combine.examined_a_step(), &mut |score, text| scored.add(score, text));
            walk.scored = scored;
            if stepped? {
                sources::check(call, &mut walk.reading, combine.keys)?;
                walk.ended = Some(0);
            }
        } else {
            for _ in 0..REPLIED_A_STEP {
                let Some((score, text)) = walk.scored.first() else { break };
                let value = Value::Text(text);
                slices::collect_room(call.out, reply_bytes(&value) + Digits::FLOAT_MAX)?;
                put_element(call.out, &value, score, shape);
                walk.scored.pop_first();
                walk.keys += 1;
            }
            call.ops += REPLIED_A_STEP / SEARCHES_AN_OP as usize;
            if walk.scored.len() == 0 {
                break;
            }
        }
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    shape.put_head(&mut line, walk.keys);
    call.out.fill_head(head, line.as_slice());
    Ok(())
}

pub(in crate::resp) fn zinter<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    combine(call, "zinter", args, Combination::Intersection)
}

pub(in crate::resp) fn zunion<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    combine(call, "zunion", args, Combination::Union)
}

pub(in crate::resp) fn zdiff<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    combine(call, "zdiff", args, Combination::Difference)
}

/// Stores a combination of sorted sets under the first key of `args`, and replies with the number of its elements.
fn store<'c>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    combination: Combination,
    event: KeyEvent,
) -> Run {
    let [key] = words(args);
    let (keys, options, elements) = read_keys(call, name, args.after_first())?;
    let combine = Combine::read(combination, keys, options, true)?;
    let is_apart = keys.into_iter().all(|source| source != key);
    let to = Destination { key, sources: keys, is_apart, event };
    stored::store::<SortedSets>(call, to, (elements, is_long(keys, elements)), &mut |call, walk, found| {
        combine.step(call, walk, combine.examined_a_step(), &mut |score, text| {
            stored::collect(found, score, text);
            true
        })
    })
}

pub(in crate::resp) fn zinterstore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    store(call, ("zinterstore", args), Combination::Intersection, KeyEvent::ZINTERSTORE)
}

pub(in crate::resp) fn zunionstore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    store(call, ("zunionstore", args), Combination::Union, KeyEvent::ZUNIONSTORE)
}

pub(in crate::resp) fn zdiffstore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    store(call, ("zdiffstore", args), Combination::Difference, KeyEvent::ZDIFFSTORE)
}

/// Replies with the number of elements that all keys have, at most `LIMIT`.
pub(in crate::resp) fn zintercard<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let (keys, mut options, elements) = read_keys(call, "zintercard", args)?;
    let mut most = u64::MAX;
    while let Some(word) = options.next() {
        let (b"limit", Some(number)) = (&lower(word)[..], options.next()) else {
            return Err(ErrorReply::Syntax.into());
        };
        let number = integer(number).ok().and_then(|number| u64::try_from(number).ok());
        most = number.ok_or(ErrorReply::NegativeOption("LIMIT"))?;
        most = if most == 0 { u64::MAX } else { most };
    }
    if !call.collects_replies && is_long(keys, elements) {
        return Err(take_visits(call, "zintercard", args, keys));
    }
    let combine = Combine::read(Combination::Intersection, keys, options, false)?;
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = count_over_visits(call, &combine, most, &mut walk);
    match call.collects_replies {
        true => slices::end_visit(call, walk, ran),
        false => ran,
    }
}

/// Counts the elements of an intersection, up to `most`, and replies with their number.
fn count_over_visits(call: &mut Call<'_, '_>, combine: &Combine<'_>, most: u64, walk: &mut Walk) -> Run {
    let has_visits = call.collects_replies;
    if has_visits {
        sources::begin(call, &mut walk.reading, combine.keys)?;
    }
    // Without locks, all elements are examined at one instant.
    let examined = if has_visits { combine.examined_a_step() } else { u64::MAX };
    loop {
        let mut count = walk.keys;
        let is_last = combine.step(call, walk, examined, &mut |_, _| {
            count += 1;
            count < most
        })?;
        walk.keys = count;
        if is_last || count >= most {
            sources::check(call, &mut walk.reading, combine.keys)?;
            call.int(count as i64);
            return Ok(());
        }
        if has_visits && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
}
