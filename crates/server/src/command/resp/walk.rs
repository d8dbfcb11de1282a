//! `KEYS`: a walk over all keys that is one answer, made in pieces, between which others are served.

use super::error::Fault;
use super::glob::{check, matches};
use super::{Call, Run, Stop};
use crate::context::{OPS_A_BATCH, State};
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;
use segment::Stride;
use std::collections::HashSet;

/// A walk that is not at its end.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) cursor: u32,
    /// What its step waits for, of items on flash.
    pub(super) stride: Stride,
    /// Where the answer begins.
    mark: usize,
    /// The hashes of the keys told: a key that moves is met twice.
    told: HashSet<u64>,
    /// What is found and not answered.
    pub(super) found: Vec<u8>,
    /// Keys in that.
    pub(super) keys: u64,
    /// Keys looked at.
    pub(super) looked: usize,
    /// Steps that were made, of those that are counted.
    pub(super) steps: usize,
    /// Where the walk began, if it goes round, and whether it has come to the end of all keys.
    pub(super) start: u32,
    pub(super) round: bool,
    /// It is at its end: the cursor that is told.
    pub(super) ended: Option<u32>,
    /// Records that are found and not answered.
    pub(super) records: super::records::Found,
    /// How far a query of an index has come.
    pub(super) query: super::records::Going,
}

impl Walk {
    /// One that begins there.
    pub(super) fn from(cursor: u32) -> Box<Self> {
        Box::new(Self { cursor, start: cursor, ..Self::default() })
    }
}

/// Keys that are told at most, so that what is remembered of them is bounded.
pub const KEYS_TOLD_MAX: usize = 1 << 20;

/// Keys looked at that count as one operation.
pub(super) const KEYS_AN_OP: usize = 16;

pub(super) fn keys<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    args.into_iter().next().map_or(Ok(()), check)?;
    if !call.beside {
        return call.run_beside("keys", args);
    }
    let pattern = args.next().unwrap_or_default();
    let walk = call.session.walk.take();
    let mut walk = walk.unwrap_or_else(|| Box::new(Walk { mark: call.out.mark(), ..Walk::default() }));
    loop {
        let stepped = match call.turn.is_tiered() {
            true => step_tiers(call, &mut walk, pattern),
            false => step(call, &mut walk, pattern).map_err(|want| State::OutputFull { want }.into()),
        };
        match stepped {
            Ok(true) if call.ops < OPS_A_BATCH => {}
            Ok(true) => return call.put_off(walk, State::Yield.into()),
            Ok(false) => break,
            Err(stop) => return call.put_off(walk, stop),
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

/// The same where items are on flash too: what the step finds is kept until it has all.
fn step_tiers(call: &mut Call<'_, '_>, walk: &mut Walk, pattern: &[u8]) -> Result<bool, Stop> {
    let (turn, namespace) = (&*call.turn, call.session.namespace);
    let Walk { cursor, stride, told, found, looked, ended, .. } = walk;
    if ended.is_none() {
        let next = turn.walk(namespace, *cursor, stride, &mut |item| {
            *looked += 1;
            if matches(pattern, item.key) && told.insert(turn.key(namespace, item.key).hash()) {
                reply::bulk(found, item.key);
            }
        })?;
        *ended = Some(next.unwrap_or(0));
    }
    let want = found.len() + 2 * NUMBER_LINE_BYTES_MAX;
    if call.out.room() < want {
        return Err(State::OutputFull { want }.into());
    }
    call.out.push(found);
    call.ops += *looked / KEYS_AN_OP + 1;
    (*looked, *cursor) = (0, ended.take().unwrap_or(0));
    found.clear();
    Ok(*cursor > 0)
}

impl Call<'_, '_> {
    /// The request goes on in another visit, with the walk where it stands.
    pub(super) fn put_off(&mut self, walk: Box<Walk>, stop: Stop) -> Run {
        if matches!(stop, Stop::State(_)) {
            self.session.done = 1;
            self.session.walk = Some(walk);
        }
        Err(stop)
    }
}
