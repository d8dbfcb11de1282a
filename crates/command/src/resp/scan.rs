//! Scans over all keys: `SCAN` and `RANDOMKEY`.
//!
//! `SCAN` visits the keys in the order of their hashes, and a cursor is a position in that order. The order remains the
//! same while the index grows or shrinks. A key that exists during a whole iteration is listed at least once, and may
//! be listed twice.

use super::catalog::lower;
use super::error::ErrorReply;
use super::number::{self, integer};
use super::pattern::check;
use super::typed::{View, type_name};
use super::walk::walk_step_ops;
use crate::glob::matches;
use crate::resp::call::{Call, Run};
use crate::resp::state::walk::Walk;
use crate::resp::typed;
use crate::resp::walk;
use crate::visit::progress::SessionWait;
use arrayvec::ArrayVec;
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;
use segment::{Item, Walks};

/// The default of `COUNT`: the number of keys that one `SCAN` command examines.
const COUNT: i64 = 10;
/// The maximum number of steps of the walk in one `SCAN` command: about 50 ms of a worker, in slices between which
/// other clients are served. A command that ends after less work costs the client a round trip for each empty part of
/// the index, of which an empty store with much memory has thousands.
pub(super) const STEPS_MAX: usize = 1 << 16;
/// The maximum length of the start of a reply, before the first key, in bytes. It includes the cursor.
const HEAD_BYTES: usize = 2 * NUMBER_LINE_BYTES_MAX + 64;

/// The condition that a key must meet to be listed.
struct Filter<'c> {
    pattern: Option<&'c [u8]>,
    /// The type of value that a listed key must have. `None` if keys of all types are listed.
    kind: Option<ArrayVec<u8, 16>>,
}

pub(super) fn scan<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let cursor = number::cursor(args.next().unwrap_or_default())?;
    let (mut filter, mut count) = (Filter { pattern: None, kind: None }, COUNT);
    while let Some(word) = args.next() {
        let value = args.next().ok_or(ErrorReply::Syntax)?;
        match &lower(word)[..] {
            b"match" => {
                check(value)?;
                filter.pattern = Some(value);
            }
            b"count" => {
                count = integer(value)?;
                if count < 1 {
                    return Err(ErrorReply::Syntax.into());
                }
            }
            b"type" => filter.kind = Some(lower(value)),
            _ => return Err(ErrorReply::Syntax.into()),
        }
    }
    walk_on(call, &filter, count as u64, cursor)
}

/// Returns the start of the reply: the outer array's header, the cursor, and the header of the array of keys.
fn head(next: u64, replied: u64) -> Fixed<HEAD_BYTES> {
    let mut head = Fixed::<HEAD_BYTES>::new();
    reply::array(&mut head, 2);
    let mut digits = Fixed::<20>::new();
    protocol::number::put_u64(&mut digits, next);
    reply::bulk(&mut head, digits.as_slice());
    reply::array(&mut head, replied);
    head
}

impl Filter<'_> {
    #[inline(always)]
    fn takes(&self, item: &Item<'_>, view: View<'_>) -> bool {
        if self.pattern.is_some_and(|pattern| !matches(pattern, item.key)) {
            return false;
        }
        let kind = type_name(item, view);
        kind.is_some() && self.kind.as_ref().is_none_or(|wanted| kind.map(str::as_bytes) == Some(wanted))
    }
}

/// Creates a walk for a client's cursor. If the walk begins and the namespace has no key, the walk has ended.
pub(super) fn begin(call: &Call<'_, '_>, cursor: u64) -> Box<Walk> {
    let first = if cursor == 0 { call.guard.walks().first_cursor() } else { cursor };
    let mut walk = Walk::from(first);
    walk.ended = (cursor == 0 && call.ctx.shared.store.keys(call.session.namespace) == 0).then_some(0);
    walk
}

/// Starts or continues the walk of a `SCAN`. The walk takes several visits if `count` is too high for one slice, or if
/// it has to wait for items that are read from flash.
fn walk_on(call: &mut Call<'_, '_>, filter: &Filter<'_>, count: u64, cursor: u64) -> Run {
    let walk = call.session.walk.take();
    let mut walk = walk.unwrap_or_else(|| begin(call, cursor));
    let (bytes_max, namespace) = (call.ctx.request_bytes_max / 2, call.session.namespace);
    while walk.ended.is_none() {
        let Walk { cursor, stride, found, keys, examined: looked, .. } = &mut *walk;
        let (before, view) = (*looked, call.ctx.view());
        let stepped = call.guard.walks().walk(namespace, *cursor, stride, &mut |item| {
            *looked += 1;
            if filter.takes(item, view) {
                reply::bulk(found, item.key);
                *keys += 1;
            }
        });
        call.ops += walk_step_ops(*looked - before);
        let next = match stepped {
            Ok(next) => next.unwrap_or(0),
            Err(error) => return walk::suspend(call, walk, error.into()),
        };
        walk.steps += 1;
        let is_enough = walk.examined as u64 >= count || walk.steps >= STEPS_MAX || walk.found.len() >= bytes_max;
        walk.cursor = next;
        walk.ended = (next == 0 || is_enough).then_some(next);
        if walk.ended.is_none() && call.is_slice_used() {
            return walk::suspend(call, walk, SessionWait::Yield.into());
        }
    }
    if let Err(stop) = typed::answer_fits(call, walk.found.len() + HEAD_BYTES) {
        return walk::suspend(call, walk, stop);
    }
    call.out.push(head(walk.ended.unwrap_or(0), walk.keys).as_slice());
    call.out.push(&walk.found);
    Ok(())
}

/// The mean number of keys in a block of the order of a walk, from which `RANDOMKEY` draws.
const BLOCK_KEYS: u64 = 2;
/// The number of keys with which a drawn block is always accepted. Few blocks have more: one in about 20,000.
const BLOCK_KEYS_MAX: u64 = 9;
/// The number of blocks that `RANDOMKEY` draws before it reads all keys: most of them have expired then.
const BLOCKS_MAX: usize = 128;

/// Executes `RANDOMKEY`. All keys are equally likely:
///
/// ```text
///   random block of the order of a walk ──> a random one of its keys ──accepted in proportion to their number──> reply
///        ^                                                           └──refused──> another block
/// ```
///
/// The walk takes several visits if the namespace has few keys among many items of other namespaces.
pub(super) fn randomkey<'c>(call: &mut Call<'c, '_>, _: Args<'c>) -> Run {
    if call.session.done == 0 && call.ctx.shared.store.keys(call.session.namespace) == 0 {
        call.null();
        return Ok(());
    }
    let (drawn, namespace) = (draw(call), call.session.namespace);
    let mut walk = call.session.walk.take().unwrap_or_default();
    loop {
        if walk.wanted == 0 {
            begin_block(call, &mut walk, drawn);
        }
        let Walk { cursor, stride, found, examined, start, wanted: end, .. } = &mut *walk;
        let (view, walks, guard) = (call.ctx.view(), call.guard.walks(), &*call.guard);
        let stepped = walks.walk(namespace, *cursor, stride, &mut |item| {
            let place = Walks::place_in_walk(*start, walks.walk_place(&guard.key(namespace, item.key)));
            if !(*start..*end).contains(&place) || type_name(item, view).is_none() {
                return;
            }
            *examined += 1;
            // The first key is chosen; the second replaces it with probability 1/2, the third with 1/3, and so on.
            if random(drawn, *cursor ^ *examined as u64).is_multiple_of(*examined as u64) {
                found.clear();
                found.extend_from_slice(item.key);
            }
        });
        let next = match stepped {
            Ok(next) => next.filter(|next| *next < walk.wanted),
            Err(error) => return walk::suspend(call, walk, error.into()),
        };
        walk.cursor = next.unwrap_or(0);
        if next.is_none() {
            // The last block has all keys.
            let is_last = walk.repeats > BLOCKS_MAX;
            let needed = if is_last { 0 } else { random(drawn, walk.start) % BLOCK_KEYS_MAX };
            if walk.examined as u64 > needed {
                if let Err(stop) = typed::answer_fits(call, walk.found.len()) {
                    return walk::suspend(call, walk, stop);
                }
                reply::bulk(call.out, &walk.found);
                return Ok(());
            }
            if is_last {
                call.null();
                return Ok(());
            }
            (walk.wanted, walk.examined) = (0, 0);
        }
        call.ops += walk_step_ops(walk.examined);
        if call.is_slice_used() {
            return walk::suspend(call, walk, SessionWait::Yield.into());
        }
    }
}

/// Begins the walk over a random block of keys, or over all keys if they are few or many blocks were refused. The block
/// is the range of places from `walk.start` up to `walk.wanted`; `walk.repeats` blocks were drawn.
fn begin_block(call: &Call<'_, '_>, walk: &mut Walk, drawn: u64) {
    walk.repeats += 1;
    let places = call.guard.walks().places();
    let keys = call.ctx.shared.store.keys(call.session.namespace);
    let mut blocks = u128::from(keys.div_ceil(BLOCK_KEYS));
    if walk.repeats > BLOCKS_MAX || blocks <= 1 {
        (walk.repeats, blocks) = (BLOCKS_MAX + 1, 1);
    }
    let number = (u128::from(random(drawn, walk.repeats as u64)) * blocks) >> 64;
    let edge = |number: u128| places.start + (u128::from(places.end - places.start) * number / blocks) as u64;
    (walk.start, walk.wanted, walk.cursor) = (edge(number), edge(number + 1), edge(number));
}

/// Returns a random number, derived from the time.
fn draw(call: &Call<'_, '_>) -> u64 {
    base::prng::split_mix(call.ctx.clock.ticks().0 ^ call.ops as u64)
}

/// Returns the random number with a given number of those that follow from `drawn`.
fn random(drawn: u64, number: u64) -> u64 {
    base::prng::split_mix(drawn ^ base::prng::split_mix(number))
}
