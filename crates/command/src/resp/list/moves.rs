//! Commands that move elements between lists, or take them from the first list that exists.

use super::change::{pop_event, push_event};
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection::{self, Effect, Pop, ReplyShape};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::typed::{self, Edited, answer_fits};
use protocol::resp::{Args, reply};
use record::{Digits, ListEnd, ListValue, Lists, Value};

/// The state of a move after the element was pushed, in [`crate::resp::session::SessionState::done`].
const PUSHED: u32 = 1;

/// Parses the name of an end.
pub(super) fn end(word: &[u8]) -> Result<ListEnd, ErrorReply> {
    match &lower(word)[..] {
        b"left" => Ok(ListEnd::Left),
        b"right" => Ok(ListEnd::Right),
        _ => Err(ErrorReply::Syntax),
    }
}

/// Returns the element at an end of a list.
fn at_end<'v>(list: &'v ListValue<'_>, end: ListEnd) -> Result<Option<Value<'v>>, record::Damaged> {
    list.at(if end == ListEnd::Left { 0 } else { list.len() - 1 })
}

/// Moves an element from an end of one list to an end of another, or of the same. The keys are locked, so the two
/// changes are one to other clients.
pub(super) fn move_element(call: &mut Call<'_, '_>, [from, to]: [&[u8]; 2], [pop, push]: [ListEnd; 2]) -> Run {
    let version = call.session.version;
    let element = collection::look::<Lists, _>(call, from, |_, list| {
        let value = list.map(|list| at_end(list, pop)).transpose()?.flatten();
        Ok(value.map(|value| value.text(&mut Digits::new()).to_vec()))
    })?;
    let Some(element) = element else {
        reply::null(call.out, version);
        return Ok(());
    };
    answer_fits(call, element.len() + reply::NUMBER_LINE_BYTES_MAX + 2)?;
    if call.session.done < PUSHED {
        typed::room_to_store(call, element.len() as u64)?;
        let is_same = from == to;
        let (_, pushed) = collection::change::<Lists, _>(call, to, &mut |old, list| {
            list.push(push, &element)?;
            if let Some(old) = old.filter(|_| is_same) {
                // The old elements begin after the new one if that was pushed at the left.
                let first = u64::from(push == ListEnd::Left);
                let index = if pop == ListEnd::Left { first } else { first + old.len() - 1 };
                list.remove(index, index + 1)?;
            }
            Ok(Edited::Store(()))
        })?;
        if is_same {
            collection::notify(call, to, push_event(push), pushed);
            collection::notify(call, from, pop_event(pop), pushed);
            reply::bulk(call.out, &element);
            return Ok(());
        }
        call.session.done = PUSHED;
    }
    let (_, popped) = collection::change::<Lists, _>(call, from, &mut |old, list| {
        let Some(old) = old else { return Ok(Edited::Keep(())) };
        let index = if pop == ListEnd::Left { 0 } else { old.len() - 1 };
        list.remove(index, index + 1)?;
        Ok(Edited::Store(()))
    })?;
    let pushed = Effect { is_changed: true, is_removed: false };
    collection::notify(call, to, push_event(push), pushed);
    collection::notify(call, from, pop_event(pop), popped);
    reply::bulk(call.out, &element);
    Ok(())
}

pub(in crate::resp) fn lmove<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [from, to, pop, push] = words(args);
    move_element(call, [from, to], [end(pop)?, end(push)?])
}

pub(in crate::resp) fn rpoplpush<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [from, to] = words(args);
    move_element(call, [from, to], [ListEnd::Right, ListEnd::Left])
}

/// The pops of `LMPOP`: the keys, the end and the number of elements.
pub(super) struct SeveralPops<'c> {
    pub(super) keys: Args<'c>,
    from: ListEnd,
    count: u64,
}

impl<'c> SeveralPops<'c> {
    /// Parses the number of keys, the keys and the options.
    pub(super) fn read(args: Args<'c>) -> Result<Self, ErrorReply> {
        let (keys, mut options) = collection::counted_keys(args)?;
        let from = end(options.next().ok_or(ErrorReply::Syntax)?)?;
        let mut count = None;
        while let Some(word) = options.next() {
            if lower(word)[..] != *b"count" || count.is_some() {
                return Err(ErrorReply::Syntax);
            }
            let number = integer(options.next().ok_or(ErrorReply::Syntax)?).ok();
            let number = number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0);
            count = Some(number.ok_or(ErrorReply::CountNotPositive)?);
        }
        Ok(Self { keys, from, count: count.unwrap_or(1) })
    }

    /// Pops from the first list of `candidates`, which are some of the keys with their numbers. Returns false, without
    /// a reply, if none exists.
    pub(super) fn pop(
        &self,
        call: &mut Call<'c, '_>,
        command: (&'static str, Args<'c>),
        candidates: impl Iterator<Item = (u32, &'c [u8])>,
    ) -> Result<bool, Interrupt> {
        pop_first(call, command, self.keys, candidates, (self.from, Some(self.count)))
    }
}

/// Pops elements from the first list that exists among `candidates`, as [`collection::pop_first`] does.
pub(super) fn pop_first<'c>(
    call: &mut Call<'c, '_>,
    command: (&'static str, Args<'c>),
    keys: Args<'c>,
    candidates: impl Iterator<Item = (u32, &'c [u8])>,
    (from, count): (ListEnd, Option<u64>),
) -> Result<bool, Interrupt> {
    let pop = Pop::<Lists> { from, count, shape: ReplyShape::of(call), event: pop_event(from) };
    collection::pop_first(call, command, keys, candidates, 2, &pop)
}

pub(in crate::resp) fn lmpop<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let pops = SeveralPops::read(args)?;
    if !pops.pop(call, ("lmpop", args), (0..).zip(pops.keys))? {
        reply::null_array(call.out, call.session.version);
    }
    Ok(())
}
