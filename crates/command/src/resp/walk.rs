//! Walks over the keys that take several visits, and `KEYS`, whose walk is one answer.
//!
//! A step of a walk is a part of the index ([`segment::Walks::walk`]), some 27 keys; a visit makes as many steps as its
//! slice has room for, and the next one goes on at the cursor. No key is met in two steps, so what a step has found is
//! all that has to be known to report each key once.

use super::catalog::entry;
use super::error::Fault;
use super::pattern::check;
use crate::glob::matches;
use crate::resp::call::{Call, Run, Stop};
use crate::resp::own_transaction;
use crate::resp::state::walk::Walk;
use crate::visit::progress::State;
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;

/// Keys that `KEYS` reports at most.
pub const KEYS_REPLIED_MAX: u64 = 1 << 20;

/// Returns what a step of a walk that looked at so many items counts for, in operations: the slots of an index group
/// are read, and each item is a wait for memory that overlaps with others'.
pub(crate) fn walk_step_ops(items: usize) -> usize {
    4 + items / 4
}

pub(super) fn keys<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    args.into_iter().next().map_or(Ok(()), check)?;
    if !call.beside {
        return own_transaction::run_beside(call, entry("keys"), args);
    }
    let pattern = args.next().unwrap_or_default();
    let walk = call.session.walk.take();
    let mut walk = walk.unwrap_or_default();
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    loop {
        match step(call, &mut walk, pattern) {
            Ok(true) if !call.is_spent() => {}
            Ok(true) => return put_off(call, walk, State::Yield.into()),
            Ok(false) => break,
            Err(stop) => return put_off(call, walk, stop),
        }
        if walk.keys > KEYS_REPLIED_MAX {
            return Err(Fault::TooManyKeys.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    reply::array(&mut line, walk.keys);
    call.out.fill_head(head, line.as_slice());
    Ok(())
}

/// One step; false at the end. What it finds is kept until the step has all, and there is room to report it.
fn step(call: &mut Call<'_, '_>, walk: &mut Walk, pattern: &[u8]) -> Result<bool, Stop> {
    let (guard, namespace) = (&*call.guard, call.session.namespace);
    let Walk { cursor, stride, met, found, keys, looked, ended, .. } = walk;
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

/// The request goes on in another visit, with the walk where it stands.
pub(super) fn put_off(call: &mut Call<'_, '_>, mut walk: Box<Walk>, stop: Stop) -> Run {
    if matches!(stop, Stop::State(_)) {
        if !walk.reserve(&call.ctx.shared.budget) {
            return Err(Fault::ClientMemory.into());
        }
        call.session.done = 1;
        call.session.walk = Some(walk);
    }
    Err(stop)
}
