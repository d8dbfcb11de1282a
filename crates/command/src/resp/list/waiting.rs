//! Commands that take elements from lists, and wait if there are none (see [`crate::resp::blocking`]).

use super::moves::{SeveralPops, end, move_element, pop_first};
use crate::push::waiters::WaitKind;
use crate::resp::blocking;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::words;
use crate::resp::state::waits::{TimeoutReply, WaitedKeys};
use protocol::resp::Args;
use record::{ListEnd, Lists};

/// Pops an element from an end of the first list that exists.
fn pop<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, end: ListEnd) -> Run {
    let count = args.len() as u32 - 1;
    let (keys, timeout) = args.split(count);
    let [timeout] = words(timeout);
    let deadline = blocking::deadline_secs(call, timeout)?;
    let waited = WaitedKeys::of_values(WaitKind::List, 0, count);
    let candidates = blocking::candidates(call, waited, args);
    if pop_first(call, (name, args), keys, candidates.into_iter(), (end, None))? {
        return Ok(());
    }
    blocking::wait_or_null_array(call, (name, args), waited, deadline)
}

pub(in crate::resp) fn blpop<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    pop(call, "blpop", args, ListEnd::Left)
}

pub(in crate::resp) fn brpop<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    pop(call, "brpop", args, ListEnd::Right)
}

/// Executes `BLMPOP timeout numkeys key ... LEFT | RIGHT [COUNT count]`.
pub(in crate::resp) fn blmpop<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [timeout] = words(args);
    let pops = SeveralPops::read(args.after_first())?;
    let deadline = blocking::deadline_secs(call, timeout)?;
    let waited = WaitedKeys::of_values(WaitKind::List, 2, pops.keys.len() as u32);
    let candidates = blocking::candidates(call, waited, args);
    if pops.pop(call, ("blmpop", args), candidates.into_iter())? {
        return Ok(());
    }
    blocking::wait_or_null_array(call, ("blmpop", args), waited, deadline)
}

/// Moves an element between the ends of two lists.
fn move_one<'c>(
    call: &mut Call<'c, '_>,
    command: (&'static str, Args<'c>),
    keys: [&[u8]; 2],
    ends: [ListEnd; 2],
    timeout: &[u8],
) -> Run {
    let deadline = blocking::deadline_secs(call, timeout)?;
    let waited = WaitedKeys::of_values(WaitKind::List, 0, 1);
    let is_free = !blocking::candidates(call, waited, command.1).is_empty();
    // An earlier visit may have moved the element already.
    if !blocking::may_wait(call) || call.session.done > 0 || is_free && blocking::finds::<Lists>(call, keys[0])? {
        return move_element(call, keys, ends);
    }
    blocking::wait(call, command, Some(waited), deadline, TimeoutReply::NullArray)
}

/// Executes `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout`.
pub(in crate::resp) fn blmove<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [from, to, pop, push, timeout] = words(args);
    move_one(call, ("blmove", args), [from, to], [end(pop)?, end(push)?], timeout)
}

/// Executes `BRPOPLPUSH source destination timeout`.
pub(in crate::resp) fn brpoplpush<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [from, to, timeout] = words(args);
    move_one(call, ("brpoplpush", args), [from, to], [ListEnd::Right, ListEnd::Left], timeout)
}
