//! `KEYS`: a walk over all keys that is one answer, made in pieces, between which others are served.

use super::error::Fault;
use super::glob::matches;
use super::{Call, Run};
use crate::context::{OPS_A_BATCH, State};
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;
use std::collections::HashSet;

/// A walk that is not at its end.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) cursor: u32,
    /// Where the answer begins.
    mark: usize,
    /// The hashes of the keys told: a key that moves is met twice.
    told: HashSet<u64>,
}

/// Keys that are told at most, so that what is remembered of them is bounded.
pub const KEYS_TOLD_MAX: usize = 1 << 20;

/// Keys looked at that count as one operation.
const KEYS_AN_OP: usize = 16;

pub(super) fn keys<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    if !call.beside {
        return call.run_beside("keys", args);
    }
    let pattern = args.next().unwrap_or_default();
    let walk = call.session.walk.take();
    let mut walk = walk.unwrap_or_else(|| Box::new(Walk { cursor: 0, mark: call.out.mark(), told: HashSet::new() }));
    loop {
        match step(call, &mut walk, pattern) {
            Ok(true) if call.ops < OPS_A_BATCH => {}
            Ok(true) => {
                call.session.done = 1;
                call.session.walk = Some(walk);
                return Err(State::Yield.into());
            }
            Ok(false) => break,
            Err(want) => {
                call.session.done = 1;
                call.session.walk = Some(walk);
                return Err(State::OutputFull { want }.into());
            }
        }
        if walk.told.len() > KEYS_TOLD_MAX {
            call.out.truncate(walk.mark);
            call.fault(Fault::TooManyKeys);
            return Ok(());
        }
    }
    let mut head = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    reply::array(&mut head, walk.told.len() as u64);
    call.out.insert(walk.mark, head.as_slice());
    Ok(())
}

/// One step; false at the end, `Err` with the room that it needs, in which case nothing of it is told.
fn step(call: &mut Call<'_, '_>, walk: &mut Walk, pattern: &[u8]) -> Result<bool, usize> {
    let (mut looked, mut want) = (0, 2 * NUMBER_LINE_BYTES_MAX);
    let (turn, out, cursor, namespace) = (&*call.turn, &mut *call.out, walk.cursor, call.session.namespace);
    let bulk_bytes = |key: &[u8]| NUMBER_LINE_BYTES_MAX + key.len() + 2;
    turn.scan(namespace, cursor, &mut |item| {
        want += if matches(pattern, item.key) { bulk_bytes(item.key) } else { 0 };
    });
    if out.room() < want {
        return Err(want);
    }
    let room = out.room();
    let mark = out.mark();
    let next = turn.scan(namespace, cursor, &mut |item| {
        looked += 1;
        // Between two looks there may be more.
        let fits = out.mark() - mark + bulk_bytes(item.key) + NUMBER_LINE_BYTES_MAX <= room;
        if fits && matches(pattern, item.key) && walk.told.insert(turn.key(namespace, item.key).hash()) {
            reply::bulk(out, item.key);
        }
    });
    call.ops += looked / KEYS_AN_OP + 1;
    walk.cursor = next.unwrap_or(0);
    Ok(next.is_some())
}
