//! Commands that remove and return the elements with the lowest or highest scores.

use super::put_element;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection::{self, Pop, Pops, ReplyShape};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use protocol::resp::{Args, reply};
use record::{Damaged, Digits, SortedSetEdit, SortedSetValue, SortedSets, Value};

/// The end of a sorted set from which elements are popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::resp) enum PopEnd {
    Lowest,
    Highest,
}

impl PopEnd {
    pub(super) fn event(self) -> KeyEvent {
        match self {
            Self::Lowest => KeyEvent::ZPOPMIN,
            Self::Highest => KeyEvent::ZPOPMAX,
        }
    }
}

impl Pops for SortedSets {
    /// The end, and true if a single element is popped, which the reply has in an array with its score.
    type From = (PopEnd, bool);

    /// Each removal changes two leaves.
    const POPPED_A_STEP: u64 = 32;
    const POPPED_AN_OP: usize = 1;

    fn pop(
        set: &SortedSetValue<'_>,
        edit: &mut SortedSetEdit<'_>,
        (from, is_single): (PopEnd, bool),
        (count, bytes_max): (u64, usize),
        shape: ReplyShape,
        to: &mut Vec<u8>,
    ) -> Result<u64, Damaged> {
        let (is_all, begun) = (count == set.len(), to.len());
        // Returns true if more elements may be popped.
        let mut pop_one = |(score, value): (f64, Value<'_>)| {
            if is_single && !shape.is_nested {
                reply::array(to, 2);
            }
            put_element(to, &value, score, shape);
            if !is_all {
                edit.remove(value.text(&mut Digits::new()), score)?;
            }
            Ok(to.len() < bytes_max)
        };
        let popped = match from {
            PopEnd::Lowest => pop_each(set.from(0)?.take(count as usize), &mut pop_one)?,
            PopEnd::Highest => pop_each(set.back_from(set.len() - 1)?.take(count as usize), &mut pop_one)?,
        };
        if is_all && popped < count {
            // They are too long to be popped at once, so none was removed yet.
            to.truncate(begun);
            return Self::pop(set, edit, (from, is_single), (popped, bytes_max), shape, to);
        }
        if is_all {
            edit.clear();
        }
        Ok(popped)
    }
}

/// Calls `pop_one` for elements until it returns false. Returns their number.
fn pop_each<'v>(
    elements: impl Iterator<Item = Result<(f64, Value<'v>), Damaged>>,
    pop_one: &mut dyn FnMut((f64, Value<'v>)) -> Result<bool, Damaged>,
) -> Result<u64, Damaged> {
    let mut count = 0;
    for element in elements {
        count += 1;
        if !pop_one(element?)? {
            break;
        }
    }
    Ok(count)
}

/// Parses the `COUNT` of a command that pops from several sorted sets. It is 1 if there is none.
fn count_of(mut options: Args<'_>) -> Result<u64, ErrorReply> {
    let Some(word) = options.next() else { return Ok(1) };
    let (true, Some(number)) = (lower(word)[..] == *b"count", options.next()) else { return Err(ErrorReply::Syntax) };
    let number = integer(number).ok().and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0);
    let number = number.ok_or(ErrorReply::CountNotPositive)?;
    if options.len() == 0 { Ok(number) } else { Err(ErrorReply::Syntax) }
}

/// Pops elements from an end, and replies with them.
fn pop<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, from: PopEnd) -> Run {
    let [key, count] = words(args);
    let count = match args.len() {
        1 => None,
        2 => Some(integer(count).ok().and_then(|count| u64::try_from(count).ok()).ok_or(ErrorReply::NotPositive)?),
        _ => return Err(ErrorReply::Syntax.into()),
    };
    let shape = ReplyShape { has_scores: true, ..ReplyShape::of(call) };
    let pop = Pop::<SortedSets> { from: (from, count.is_none()), count, shape, event: from.event() };
    if !collection::reply_popped(call, (name, args), key, &pop)? {
        reply::array(call.out, 0);
    }
    Ok(())
}

pub(in crate::resp) fn zpopmin<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    pop(call, "zpopmin", args, PopEnd::Lowest)
}

pub(in crate::resp) fn zpopmax<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    pop(call, "zpopmax", args, PopEnd::Highest)
}

/// The pops of `ZMPOP`: the keys, the end and the number of elements.
pub(super) struct SeveralPops<'c> {
    pub(super) keys: Args<'c>,
    from: PopEnd,
    count: u64,
}

impl<'c> SeveralPops<'c> {
    /// Parses the number of keys, the keys and the options.
    pub(super) fn read(args: Args<'c>) -> Result<Self, ErrorReply> {
        let (keys, mut options) = collection::counted_keys(args)?;
        let from = match &lower(options.next().ok_or(ErrorReply::Syntax)?)[..] {
            b"min" => PopEnd::Lowest,
            b"max" => PopEnd::Highest,
            _ => return Err(ErrorReply::Syntax),
        };
        Ok(Self { keys, from, count: count_of(options)? })
    }

    /// Pops from the first sorted set of `candidates`, which are some of the keys with their numbers. Returns false,
    /// without a reply, if none exists.
    pub(super) fn pop(
        &self,
        call: &mut Call<'c, '_>,
        command: (&'static str, Args<'c>),
        candidates: impl Iterator<Item = (u32, &'c [u8])>,
    ) -> Result<bool, Interrupt> {
        pop_first(call, command, self.keys, candidates, (self.from, Some(self.count)))
    }
}

/// Pops elements from the first sorted set that exists among `candidates`, as [`collection::pop_first`] does. Without a
/// count, the reply has the key, the element and its score.
pub(super) fn pop_first<'c>(
    call: &mut Call<'c, '_>,
    command: (&'static str, Args<'c>),
    keys: Args<'c>,
    candidates: impl Iterator<Item = (u32, &'c [u8])>,
    (from, count): (PopEnd, Option<u64>),
) -> Result<bool, Interrupt> {
    let shape = ReplyShape { has_scores: true, is_nested: count.is_some(), ..ReplyShape::of(call) };
    let pop = Pop::<SortedSets> { from: (from, false), count, shape, event: from.event() };
    collection::pop_first(call, command, keys, candidates, if count.is_some() { 2 } else { 3 }, &pop)
}

pub(in crate::resp) fn zmpop<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let pops = SeveralPops::read(args)?;
    if !pops.pop(call, ("zmpop", args), (0..).zip(pops.keys))? {
        reply::null_array(call.out, call.session.version);
    }
    Ok(())
}
