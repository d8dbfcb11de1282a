//! Walks over the keys that take several visits, and `KEYS`, whose walk is one answer.
//!
//! A step of a walk is a part of the index ([`segment::Walks::walk`]), some 27 keys; a visit makes as many steps as its
//! slice has room for, and the next one goes on at the cursor. No key is met in two steps, so what a step has found is
//! all that has to be known to report each key once.

use super::catalog::entry;
use super::error::Fault;
use super::pattern::check;
use super::slices::Reading;
use crate::glob::matches;
use crate::memory::budget::{self, Budget, Grant};
use crate::resp::atomic;
use crate::resp::call::{Call, Run, Stop};
use crate::visit::out::HeadPlace;
use crate::visit::progress::State;
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;
use segment::Stride;
use std::collections::HashSet;
use std::sync::Arc;

/// A walk that is not at its end.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) cursor: u64,
    /// The items on flash that its step waits for.
    pub(super) stride: Stride,
    /// Start of the reply, if the reply is collected.
    pub(super) head: Option<HeadPlace>,
    /// The value that is read, if the walk is over one.
    pub(super) reading: Reading,
    /// Parts of it that are still wanted, and that are left to be looked at.
    pub(super) wanted: u64,
    pub(super) left: u64,
    /// Hashes of the keys that the step at hand has found: a key that moves meanwhile is met twice in one step.
    pub(super) met: HashSet<u64>,
    /// Results that are not replied yet.
    pub(super) found: Vec<u8>,
    /// Keys in that, or in all that is answered.
    pub(super) keys: u64,
    /// Keys looked at.
    pub(super) looked: usize,
    /// Steps that were made, of those that are counted.
    pub(super) steps: usize,
    /// Start of the walk, if it goes round, and whether it has reached the end of all keys.
    pub(super) start: u64,
    pub(super) round: bool,
    /// It is at its end: the cursor that is told.
    pub(super) ended: Option<u64>,
    /// Records that are found and not answered.
    pub(super) records: super::records::Found,
    /// Progress of a query of an index.
    pub(super) query: super::records::Going,
    /// Its share of client memory.
    pub(super) grant: Option<Grant>,
}

impl Walk {
    /// One that begins there.
    pub(super) fn from(cursor: u64) -> Box<Self> {
        Box::new(Self { cursor, start: cursor, ..Self::default() })
    }

    /// Returns what it remembers, in bytes. A set of hashes is copied as it grows.
    fn held_bytes(&self) -> usize {
        let met = self.met.capacity() * HASH_BYTES * 3 / 2;
        met + self.found.capacity() + self.records.held_bytes() + self.query.held_bytes()
    }

    /// Reserves what it remembers; false if client memory is used up. A short walk counts for nothing.
    pub(super) fn reserve(&mut self, budget: &Arc<Budget>) -> bool {
        let bytes = self.held_bytes();
        if bytes <= FREE_BYTES && self.grant.is_none() {
            return true;
        }
        self.grant.get_or_insert_with(|| Grant::none(budget, budget::Kind::Walks)).resize(bytes as u64)
    }
}

/// Keys that `KEYS` reports at most.
pub const KEYS_TOLD_MAX: u64 = 1 << 20;

/// Bytes of one hash in a set of them, and what that has beside it.
const HASH_BYTES: usize = 10;
/// Bytes that a walk may remember without counting.
const FREE_BYTES: usize = 4 << 10;

/// Returns what a step of a walk that looked at so many items counts for, in operations: the slots of an index group
/// are read, and each item is a wait for memory that overlaps with others'.
pub(crate) fn walk_step_ops(items: usize) -> usize {
    4 + items / 4
}

pub(super) fn keys<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    args.into_iter().next().map_or(Ok(()), check)?;
    if !call.beside {
        return atomic::run_beside(call, entry("keys"), args);
    }
    let pattern = args.next().unwrap_or_default();
    let walk = call.session.walk.take();
    let mut walk = walk.unwrap_or_default();
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    loop {
        match step(call, &mut walk, pattern) {
            Ok(true) if !is_spent(call) => {}
            Ok(true) => return put_off(call, walk, State::Yield.into()),
            Ok(false) => break,
            Err(stop) => return put_off(call, walk, stop),
        }
        if walk.keys > KEYS_TOLD_MAX {
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

/// Returns whether this visit has used its slice, by its operations or by the clock, which is read.
pub(super) fn is_spent(call: &mut Call<'_, '_>) -> bool {
    call.ops >= call.ctx.pace.share() || call.ctx.pace.is_slice_over(call.ctx.clock.ticks())
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
