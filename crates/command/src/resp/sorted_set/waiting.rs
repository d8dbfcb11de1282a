//! Commands that take elements from sorted sets, and wait if there are none (see [`crate::resp::blocking`]).

use super::pop::{PopEnd, SeveralPops, pop_first};
use crate::push::waiters::WaitKind;
use crate::resp::blocking;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::words;
use crate::resp::state::waits::WaitedKeys;
use protocol::resp::Args;

/// Pops an element from an end of the first sorted set that exists.
fn pop<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, from: PopEnd) -> Run {
    let count = args.len() as u32 - 1;
    let (keys, timeout) = args.split(count);
    let [timeout] = words(timeout);
    let deadline = blocking::deadline_secs(call, timeout)?;
    let waited = WaitedKeys::of_values(WaitKind::SortedSet, 0, count);
    let candidates = blocking::candidates(call, waited, args);
    if pop_first(call, (name, args), keys, candidates.into_iter(), (from, None))? {
        return Ok(());
    }
    blocking::wait_or_null_array(call, (name, args), waited, deadline)
}

pub(in crate::resp) fn bzpopmin<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    pop(call, "bzpopmin", args, PopEnd::Lowest)
}

pub(in crate::resp) fn bzpopmax<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    pop(call, "bzpopmax", args, PopEnd::Highest)
}

/// Executes `BZMPOP timeout numkeys key ... MIN | MAX [COUNT count]`.
pub(in crate::resp) fn bzmpop<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [timeout] = words(args);
    let pops = SeveralPops::read(args.after_first())?;
    let deadline = blocking::deadline_secs(call, timeout)?;
    let waited = WaitedKeys::of_values(WaitKind::SortedSet, 2, pops.keys.len() as u32);
    let candidates = blocking::candidates(call, waited, args);
    if pops.pop(call, ("bzmpop", args), candidates.into_iter())? {
        return Ok(());
    }
    blocking::wait_or_null_array(call, ("bzmpop", args), waited, deadline)
}
