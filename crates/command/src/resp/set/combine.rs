//! Commands over several sets: intersections, unions and differences, which are replied or stored.
//!
//! ```text
//!   sources   the sets whose elements are examined, in order    others   the sets in which each is searched
//!   SINTER    the smallest set                                  all others have it
//!   SDIFF     the first set                                     none of the others has it
//!   SUNION    all sets, one after another                       none of those before has it
//! ```
//!
//! So no command needs memory for a result that is replied. A result that is stored in a key that is not among the sets
//! is stored a few elements at a time; otherwise all its elements are collected first, in client memory.

use super::ELEMENTS_AN_OP;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection::{self, ReplyShape};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::slices::{self, BYTES_A_SLICE, STEP_BYTES};
use crate::resp::sources;
use crate::resp::state::walk::Walk;
use crate::resp::stored::{self, Destination};
use crate::resp::typed::{self, KeyParts};
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;
use record::{Damaged, Digits, SetSearch, SetValue, TextSets, Value};

/// The maximum number of elements that a command examines in one visit.
const EXAMINED_A_VISIT: u64 = 512;
/// The number of elements that one step examines.
const EXAMINED_A_STEP: u64 = 64;

/// A combination of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combination {
    Intersection,
    Union,
    Difference,
}

impl Combination {
    /// Returns the numbers of the sets whose elements are examined.
    fn sources(self, sets: &[Option<SetValue<'_>>]) -> std::ops::Range<usize> {
        match self {
            Self::Union => 0..sets.len(),
            Self::Difference => 0..1,
            Self::Intersection => {
                let len = |number: &usize| sets[*number].as_ref().map_or(0, SetValue::len);
                let smallest = (0..sets.len()).min_by_key(len).unwrap_or(0);
                smallest..smallest + 1
            }
        }
    }

    /// Returns the sets in which the elements of the set number `source` are searched.
    fn others<'s>(
        self,
        sets: &[Option<SetValue<'s>>],
        source: usize,
        searches: u64,
    ) -> Result<Vec<Option<SetSearch<'s>>>, Damaged> {
        let others = match self {
            Self::Union => 0..source,
            Self::Difference | Self::Intersection => 0..sets.len(),
        };
        let others = others.filter(|number| *number != source);
        others.map(|number| sets[number].map(|set| SetSearch::new(set, searches)).transpose()).collect()
    }

    /// Returns true if the combination has an element that is searched in these sets.
    fn takes(self, others: &[Option<SetSearch<'_>>], value: &Value<'_>) -> Result<bool, Damaged> {
        for set in others {
            let has = set.as_ref().map_or(Ok(false), |set| set.contains(value))?;
            if has != (self == Self::Intersection) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The maximum number of elements that a step examines, and the number of their bytes after which it examines no more.
#[derive(Clone, Copy)]
struct Portion {
    elements: u64,
    bytes: usize,
}

impl Portion {
    const STEP: Self = Self { elements: EXAMINED_A_STEP, bytes: STEP_BYTES as usize };
    /// All sets of a command that takes one visit, unless their elements are long.
    const VISIT: Self = Self { elements: u64::MAX, bytes: BYTES_A_SLICE };
}

/// A step of a combination: the number of elements examined, and whether all are.
struct CombineStep {
    examined: u64,
    is_last: bool,
}

/// Examines `most` elements from the position of the walk on, and calls `take` for those that the combination
/// has. `take` returns false if it has no room for the element; the walk then stays before it. `walk.left` is the
/// number of the source, and `walk.cursor` that of the element in it.
fn step(
    call: &mut Call<'_, '_>,
    keys: Args<'_>,
    combination: Combination,
    walk: &mut Walk,
    most: Portion,
    take: &mut dyn FnMut(&mut OutBuffer, &[u8]) -> bool,
) -> Result<CombineStep, Interrupt> {
    let (view, guard, out, namespace) = (call.ctx.view(), &*call.guard, &mut *call.out, call.session.namespace);
    let parts: Vec<KeyParts<'_>> =
        keys.into_iter().map(|key| KeyParts::new(guard, guard.key(namespace, key))).collect();
    let mut sets = Vec::with_capacity(parts.len());
    for (key, parts) in keys.into_iter().zip(&parts) {
        let item = typed::live(guard.items().get(&guard.key(namespace, key)), view);
        sets.push(collection::opened::<TextSets>(item.as_ref(), parts)?);
    }
    let sources = combination.sources(&sets);
    let (mut examined, mut bytes) = (0, 0);
    loop {
        let source = sources.start + walk.left as usize;
        if source >= sources.end {
            return Ok(CombineStep { examined, is_last: true });
        }
        let set = sets[source].as_ref().filter(|set| walk.cursor < set.len());
        let Some(set) = set else {
            (walk.left, walk.cursor) = (walk.left + 1, 0);
            continue;
        };
        let others = combination.others(&sets, source, (set.len() - walk.cursor).min(most.elements - examined))?;
        for value in set.from(walk.cursor)? {
            if examined >= most.elements || bytes >= most.bytes {
                return Ok(CombineStep { examined, is_last: false });
            }
            let (value, mut digits) = (value?, Digits::new());
            let text = value.text(&mut digits);
            if combination.takes(&others, &value)? && !take(out, text) {
                return Ok(CombineStep { examined, is_last: false });
            }
            bytes += text.len();
            (walk.cursor, examined) = (walk.cursor + 1, examined + 1);
        }
    }
}

/// Returns the number of elements of all sets under `keys`.
fn elements_of(call: &mut Call<'_, '_>, keys: Args<'_>) -> Result<u64, Interrupt> {
    let mut elements = 0;
    for key in keys {
        elements += collection::look::<TextSets, _>(call, key, |_, set| Ok(set.map_or(0, SetValue::len)))?;
    }
    Ok(elements)
}

/// Makes the command one that takes several visits, with the sets under `keys` locked.
fn take_visits<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, keys: Args<'c>) -> Interrupt {
    let [key] = words(keys);
    collection::take_visits(call, name, args, key)
}

/// Replies with a combination of the sets under `keys`.
fn combine<'c>(call: &mut Call<'c, '_>, name: &'static str, keys: Args<'c>, combination: Combination) -> Run {
    let version = call.session.version;
    if !call.collects_replies {
        if elements_of(call, keys)? > EXAMINED_A_VISIT {
            return Err(take_visits(call, name, keys, keys));
        }
        let (mut walk, mut found, mut count) = (Walk::default(), Vec::new(), 0);
        let step = step(call, keys, combination, &mut walk, Portion::VISIT, &mut |_, text| {
            reply::bulk(&mut found, text);
            count += 1;
            true
        })?;
        call.ops += step.examined as usize / ELEMENTS_AN_OP;
        if !step.is_last {
            return Err(take_visits(call, name, keys, keys));
        }
        match typed::answer_fits(call, found.len()) {
            Err(Interrupt::Fault(ErrorReply::AnswerTooLong)) => {
                return Err(take_visits(call, name, keys, keys));
            }
            ran => ran?,
        }
        reply::set(call.out, version, count);
        call.out.push(&found);
        return Ok(());
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = combine_over_visits(call, keys, combination, &mut walk);
    slices::end_visit(call, walk, ran)
}

fn combine_over_visits(call: &mut Call<'_, '_>, keys: Args<'_>, combination: Combination, walk: &mut Walk) -> Run {
    // The keys are locked, unless they are too many.
    sources::begin(call, &mut walk.reading, keys)?;
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    let shape = ReplyShape::of(call);
    loop {
        let (mut full, mut count) = (Ok(()), walk.keys);
        let step = step(call, keys, combination, walk, Portion::STEP, &mut |out, text| {
            full = shape.room(out, text.len() + NUMBER_LINE_BYTES_MAX + 2);
            if full.is_ok() {
                reply::bulk(out, text);
                count += 1;
            }
            full.is_ok()
        })?;
        walk.keys = count;
        call.ops += 1 + step.examined as usize / ELEMENTS_AN_OP;
        if step.is_last {
            sources::check(call, &mut walk.reading, keys)?;
            break;
        }
        full?;
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    reply::set(&mut line, call.session.version, walk.keys);
    call.out.fill_head(head, line.as_slice());
    Ok(())
}

pub(in crate::resp) fn sinter<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    combine(call, "sinter", args, Combination::Intersection)
}

pub(in crate::resp) fn sunion<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    combine(call, "sunion", args, Combination::Union)
}

pub(in crate::resp) fn sdiff<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    combine(call, "sdiff", args, Combination::Difference)
}

/// Replies with the number of elements that all sets have, at most `LIMIT`.
pub(in crate::resp) fn sintercard<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let (keys, mut options) = collection::counted_keys(args).map_err(|fault| match fault {
        ErrorReply::Syntax => ErrorReply::KeyCountTooHigh,
        fault => fault,
    })?;
    let mut most = 0;
    while let Some(word) = options.next() {
        let (b"limit", Some(number)) = (&lower(word)[..], options.next()) else {
            return Err(ErrorReply::Syntax.into());
        };
        let number = integer(number).ok().and_then(|number| u64::try_from(number).ok());
        most = number.ok_or(ErrorReply::NegativeOption("LIMIT"))?;
    }
    let most = if most == 0 { u64::MAX } else { most };
    if !call.collects_replies && elements_of(call, keys)? > EXAMINED_A_VISIT {
        return Err(take_visits(call, "sintercard", args, keys));
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = count_over_visits(call, args, keys, most, &mut walk);
    match call.collects_replies {
        true => slices::end_visit(call, walk, ran),
        false => ran,
    }
}

/// Counts the elements of an intersection, up to `most`, and replies with their number.
fn count_over_visits<'c>(call: &mut Call<'c, '_>, args: Args<'c>, keys: Args<'c>, most: u64, walk: &mut Walk) -> Run {
    let has_visits = call.collects_replies;
    if has_visits {
        sources::begin(call, &mut walk.reading, keys)?;
    }
    // Without locks, all elements are examined at one instant.
    let portion = if has_visits { Portion::STEP } else { Portion::VISIT };
    loop {
        let mut count = walk.keys;
        let step = step(call, keys, Combination::Intersection, walk, portion, &mut |_, _| {
            count += 1;
            count < most
        })?;
        walk.keys = count;
        call.ops += 1 + step.examined as usize / ELEMENTS_AN_OP;
        if step.is_last || count >= most {
            sources::check(call, &mut walk.reading, keys)?;
            call.int(count.min(most) as i64);
            return Ok(());
        }
        if !has_visits {
            return Err(take_visits(call, "sintercard", args, keys));
        }
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
}

/// Stores a combination of sets under the first key of `args`, and replies with the number of its elements.
fn store<'c>(call: &mut Call<'c, '_>, args: Args<'c>, combination: Combination, event: KeyEvent) -> Run {
    let ([key], keys) = (words(args), args.after_first());
    let elements = if call.session.walk.is_none() { elements_of(call, keys)? } else { 0 };
    let is_apart = keys.into_iter().all(|source| source != key);
    let to = Destination { key, sources: keys, is_apart, event };
    stored::store::<TextSets>(call, to, (elements, elements > EXAMINED_A_VISIT), &mut |call, walk, found| {
        let step = step(call, keys, combination, walk, Portion::STEP, &mut |_, text| {
            stored::collect(found, 0.0, text);
            true
        })?;
        call.ops += 1 + step.examined as usize / ELEMENTS_AN_OP;
        Ok(step.is_last)
    })
}

pub(in crate::resp) fn sinterstore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    store(call, args, Combination::Intersection, KeyEvent::SINTERSTORE)
}

pub(in crate::resp) fn sunionstore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    store(call, args, Combination::Union, KeyEvent::SUNIONSTORE)
}

pub(in crate::resp) fn sdiffstore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    store(call, args, Combination::Difference, KeyEvent::SDIFFSTORE)
}
