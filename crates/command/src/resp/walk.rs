//! Functions for walks over all keys, which may take several visits, and the command `KEYS`, which replies with the
//! results of a whole walk.
//!
//! A step of a walk covers a part of the index ([`segment::Walks::walk`]), about 27 keys. A visit makes as many steps
//! as fit in its slice, and the next visit continues from the cursor. Two steps never meet the same key. To report each
//! key once, it is therefore enough to remember the keys of the current step.

use super::catalog::entry;
use super::error::ErrorReply;
use super::pattern::check;
use crate::glob::matches;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::own_transaction;
use crate::resp::scan;
use crate::resp::state::walk::Walk;
use crate::visit::progress::SessionWait;
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;

/// The maximum number of keys in a reply of `KEYS`.
pub const KEYS_REPLIED_MAX: u64 = 1 << 20;

/// Returns the cost of one step that examined `items` items, in operations. Reading the slots of an index group costs
/// four operations. Each item costs only a quarter of an operation, because the memory accesses of several items
/// overlap.
pub(crate) fn walk_step_ops(items: usize) -> usize {
    4 + items / 4
}

pub(super) fn keys<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    args.into_iter().next().map_or(Ok(()), check)?;
    if !call.collects_replies {
        return own_transaction::run_collected(call, entry("keys"), args);
    }
    let pattern = args.next().unwrap_or_default();
    let walk = call.session.walk.take();
    let mut walk = walk.unwrap_or_else(|| scan::begin(call, 0));
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    loop {
        match step(call, &mut walk, pattern) {
            Ok(true) if !call.is_slice_used() => {}
            Ok(true) => return suspend(call, walk, SessionWait::Yield.into()),
            Ok(false) => break,
            Err(stop) => return suspend(call, walk, stop),
        }
        if walk.keys > KEYS_REPLIED_MAX {
            return Err(ErrorReply::TooManyKeys.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    reply::array(&mut line, walk.keys);
    call.out.fill_head(head, line.as_slice());
    Ok(())
}

/// Performs one step of the walk. Returns false at the end of the walk. `walk` retains the results of the step until
/// the step is complete and the reply has room for them.
fn step(call: &mut Call<'_, '_>, walk: &mut Walk, pattern: &[u8]) -> Result<bool, Interrupt> {
    let (guard, namespace) = (&*call.guard, call.session.namespace);
    let Walk { cursor, stride, found_hashes: met, found, keys, examined: looked, ended, .. } = walk;
    if ended.is_none() {
        let next = guard.walks().walk(namespace, *cursor, stride, &mut |item| {
            *looked += 1;
            if matches(pattern, item.key) && met.insert(guard.key(namespace, item.key).hash()) {
                *keys += 1;
                reply::bulk(found, item.key);
            }
        })?;
        met.clear();
        *ended = Some(next.unwrap_or(0));
    }
    call.room(found.len())?;
    call.out.push(found);
    call.ops += walk_step_ops(*looked);
    (*looked, *cursor) = (0, ended.take().unwrap_or(0));
    found.clear();
    Ok(*cursor > 0)
}

/// Stores the walk in the session, so that another visit continues the request from the current position, and returns
/// `stop`. If `stop` is an error reply, drops the walk.
pub(super) fn suspend(call: &mut Call<'_, '_>, mut walk: Box<Walk>, stop: Interrupt) -> Run {
    if matches!(stop, Interrupt::State(_)) {
        if !walk.reserve(&call.ctx.shared.budget) {
            return Err(ErrorReply::ClientMemory.into());
        }
        call.session.done = 1;
        call.session.walk = Some(walk);
    }
    Err(stop)
}
