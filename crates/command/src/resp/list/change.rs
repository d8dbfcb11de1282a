//! Commands that change one list.

use super::{EXAMINED_A_STEP, OPS_A_STEP, between, element_at};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::words;
use crate::resp::catalog::{self, Flag, lower};
use crate::resp::collection::{self, ElementRange, Pop, Pops, ReplyShape};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::slices::{self, Slices};
use crate::resp::state::walk::Walk;
use crate::resp::typed::{self, Edited, put_text};
use crate::visit::progress::SessionWait;
use protocol::resp::Args;
use protocol::resp::reply;
use record::{Damaged, ListEdit, ListEnd, ListValue, Lists, Value};

/// Returns the event of a push to an end.
pub(super) const fn push_event(end: ListEnd) -> KeyEvent {
    match end {
        ListEnd::Left => KeyEvent::LPUSH,
        ListEnd::Right => KeyEvent::RPUSH,
    }
}

/// Returns the event of a pop from an end.
pub(super) const fn pop_event(end: ListEnd) -> KeyEvent {
    match end {
        ListEnd::Left => KeyEvent::LPOP,
        ListEnd::Right => KeyEvent::RPOP,
    }
}

/// Pushes elements to an end. If `must_exist`, does nothing unless the key exists. Replies with the new length.
fn push<'c>(call: &mut Call<'c, '_>, name: &'static str, all: Args<'c>, end: ListEnd, must_exist: bool) -> Run {
    let [key] = words(all);
    let mut slices = Slices::begin(call, (name, all), key, (all.after_first(), 1), true)?;
    let mut len = 0;
    while let Some((elements, is_first)) = slices.next(call)? {
        len = collection::change_and_notify::<Lists, _>(call, key, push_event(end), &mut |old, list| {
            if old.is_none() && (must_exist || !is_first) {
                return Ok(Edited::Keep(None));
            }
            for element in elements {
                list.push(end, element)?;
            }
            Ok(Edited::Store(Some(list.len())))
        })?
        .unwrap_or(0);
        if len == 0 {
            if is_first {
                break;
            }
            // The list was removed after an earlier visit of this command pushed elements. The command restarts.
            return Err(Slices::restart(call));
        }
    }
    call.int(len as i64);
    Ok(())
}

pub(in crate::resp) fn lpush<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    push(call, "lpush", args, ListEnd::Left, false)
}

pub(in crate::resp) fn rpush<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    push(call, "rpush", args, ListEnd::Right, false)
}

pub(in crate::resp) fn lpushx<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    push(call, "lpushx", args, ListEnd::Left, true)
}

pub(in crate::resp) fn rpushx<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    push(call, "rpushx", args, ListEnd::Right, true)
}

impl Pops for Lists {
    type From = ListEnd;

    fn pop(
        list: &ListValue<'_>,
        edit: &mut ListEdit<'_>,
        from: ListEnd,
        (count, bytes_max): (u64, usize),
        _: ReplyShape,
        to: &mut Vec<u8>,
    ) -> Result<u64, Damaged> {
        let len = list.len();
        let popped = match from {
            ListEnd::Left => put_some(list.from(0)?.take(count as usize), bytes_max, to)?,
            ListEnd::Right => put_some(list.back_from(len - 1)?.take(count as usize), bytes_max, to)?,
        };
        match from {
            ListEnd::Left => edit.remove(0, popped)?,
            ListEnd::Right => edit.remove(len - popped, len)?,
        }
        Ok(popped)
    }
}

/// Writes elements until `to` has `bytes_max` bytes, but at least one. Returns their number.
fn put_some<'v>(
    elements: impl Iterator<Item = Result<Value<'v>, Damaged>>,
    bytes_max: usize,
    to: &mut Vec<u8>,
) -> Result<u64, Damaged> {
    let mut count = 0;
    for value in elements {
        put_text(to, &value?);
        count += 1;
        if to.len() >= bytes_max {
            break;
        }
    }
    Ok(count)
}

/// Pops elements from an end, and replies with them.
fn pop<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, end: ListEnd) -> Run {
    let [key, count] = words(args);
    if args.len() > 2 {
        return Err(ErrorReply::Arity(name).into());
    }
    let count = match args.len() {
        1 => None,
        _ => Some(integer(count).ok().and_then(|count| u64::try_from(count).ok()).ok_or(ErrorReply::NotPositive)?),
    };
    let pop = Pop::<Lists> { from: end, count, shape: ReplyShape::of(call), event: pop_event(end) };
    if !collection::reply_popped(call, (name, args), key, &pop)? {
        match count {
            Some(_) => reply::null_array(call.out, call.session.version),
            None => call.null(),
        }
    }
    Ok(())
}

pub(in crate::resp) fn lpop<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    pop(call, "lpop", args, ListEnd::Left)
}

pub(in crate::resp) fn rpop<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    pop(call, "rpop", args, ListEnd::Right)
}

pub(in crate::resp) fn lset<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, index, element] = words(args);
    typed::room_to_store(call, 0)?;
    collection::change_and_notify::<Lists, _>(call, key, KeyEvent::LSET, &mut |old, list| {
        let len = old.ok_or(ErrorReply::NoKey)?.len();
        list.set(element_at(len, integer(index)?).ok_or(ErrorReply::IndexOutOfRange)?, element)?;
        Ok(Edited::Store(()))
    })?;
    call.out.push(reply::OK);
    Ok(())
}

pub(in crate::resp) fn ltrim<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, start, stop] = words(args);
    let (start, stop) = (integer(start)?, integer(stop)?);
    collection::change_and_notify::<Lists, _>(call, key, KeyEvent::LTRIM, &mut |old, list| {
        let Some(old) = old else { return Ok(Edited::Keep(())) };
        let (first, end) = between(start, stop, old.len());
        list.remove(end, old.len())?;
        list.remove(0, first)?;
        Ok(Edited::Store(()))
    })?;
    call.out.push(reply::OK);
    Ok(())
}

/// The result of a step that compares elements of a list.
enum Compared {
    /// The command is complete, with this number as its reply.
    Done(i64),
    /// So many more elements have been passed, of which none is compared again.
    Passed(u64),
    /// The list is too long for a request that has not locked the key. Nothing was changed.
    TooLong,
}

/// A step of [`compare_each`].
type CompareStep<'d> =
    dyn FnMut(&ListValue<'_>, &mut ListEdit<'_>, &mut Walk) -> Result<Edited<Compared>, ErrorReply> + 'd;

/// Executes a command that compares the elements of a list one after another. `step` compares up to
/// [`EXAMINED_A_STEP`] elements of the list from the given number on, in one change of the list. If the list is long,
/// the key is locked, and the command takes several visits.
fn compare_each<'c>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    key: &[u8],
    event: KeyEvent,
    step: &mut CompareStep<'_>,
) -> Run {
    if catalog::entry(name).has(Flag::DenyOom) {
        typed::room_to_store(call, 0)?;
    }
    let is_locked = call.collects_replies;
    let mut walk = call.session.walk.take().unwrap_or_default();
    loop {
        let before = walk.keys;
        let compared = collection::change_and_notify::<Lists, _>(call, key, event, &mut |old, list| {
            walk.keys = before;
            match old {
                None => Ok(Edited::Keep(Compared::Done(walk.keys as i64))),
                Some(old) if !is_locked && old.len() > EXAMINED_A_STEP => Ok(Edited::Keep(Compared::TooLong)),
                Some(old) => step(old, list, &mut walk),
            }
        });
        call.ops += OPS_A_STEP;
        let stop = match compared {
            Ok(Compared::Done(number)) => {
                call.int(number);
                return Ok(());
            }
            Ok(Compared::TooLong) => return Err(slices::run_locked(call, name, args, key)),
            Ok(Compared::Passed(count)) => {
                walk.cursor += count;
                if !call.is_slice_used() {
                    continue;
                }
                SessionWait::Yield.into()
            }
            Err(stop) => {
                // The change was not made, so what its last attempt has counted is not done.
                walk.keys = before;
                stop
            }
        };
        if matches!(stop, Interrupt::State(_)) {
            call.session.walk = Some(walk);
            call.session.done = call.session.done.max(1);
        }
        return Err(stop);
    }
}

pub(in crate::resp) fn linsert<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, place, pivot, element] = words(args);
    let is_after = match &lower(place)[..] {
        b"before" => false,
        b"after" => true,
        _ => return Err(ErrorReply::Syntax.into()),
    };
    let pivot = Value::of_text(pivot);
    compare_each(call, ("linsert", args), key, KeyEvent::LINSERT, &mut |old, list, walk| {
        let range = ElementRange { first: walk.cursor, count: EXAMINED_A_STEP, is_reverse: false };
        let (equal, compared) = equal_elements(old, &pivot, range, 1)?;
        let Some(index) = equal.first() else {
            let is_last = walk.cursor + compared >= old.len();
            return Ok(Edited::Keep(if is_last { Compared::Done(-1) } else { Compared::Passed(compared) }));
        };
        list.insert(index + u64::from(is_after), element)?;
        Ok(Edited::Store(Compared::Done(list.len() as i64)))
    })
}

pub(in crate::resp) fn lrem<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, count, element] = words(args);
    let count = integer(count)?;
    let (is_reverse, most) = (count < 0, if count == 0 { u64::MAX } else { count.unsigned_abs() });
    let element = Value::of_text(element);
    compare_each(call, ("lrem", args), key, KeyEvent::LREM, &mut |old, list, walk| {
        let (done, left) = (walk.cursor, most - walk.keys);
        let range = ElementRange { first: done, count: EXAMINED_A_STEP, is_reverse };
        let (equal, compared) = equal_elements(old, &element, range, left)?;
        // From the last to the first, so that the numbers of the others remain.
        for index in equal.iter().rev() {
            list.remove(*index, index + 1)?;
        }
        let removed = equal.len() as u64;
        walk.keys += removed;
        let is_done = removed == left || done + compared >= old.len();
        let answer = if is_done { Compared::Done(walk.keys as i64) } else { Compared::Passed(compared - removed) };
        Ok(if removed > 0 { Edited::Store(answer) } else { Edited::Keep(answer) })
    })
}

/// Returns the numbers of the elements that are equal, in ascending order and at most `most`, and the number of
/// elements that were compared. The range counts from the end if it is reverse.
fn equal_elements(
    list: &ListValue<'_>,
    element: &Value<'_>,
    range: ElementRange,
    most: u64,
) -> Result<(Vec<u64>, u64), Damaged> {
    let (mut equal, mut compared, len) = (Vec::new(), 0, list.len());
    let mut compare = |number: u64, value: Value<'_>| {
        compared += 1;
        if value == *element {
            equal.push(number);
        }
        equal.len() as u64 >= most
    };
    if range.first >= len {
        return Ok((equal, 0));
    }
    if range.is_reverse {
        let last = len - 1 - range.first;
        for (offset, value) in list.back_from(last)?.take(range.count as usize).enumerate() {
            if compare(last - offset as u64, value?) {
                break;
            }
        }
        equal.reverse();
    } else {
        for (offset, value) in list.from(range.first)?.take(range.count as usize).enumerate() {
            if compare(range.first + offset as u64, value?) {
                break;
            }
        }
    }
    Ok((equal, compared))
}
