//! Requests that take several visits: how far they are, and what they read meanwhile.
//!
//! ```text
//!   more than a slice ──> a transaction of its own (`atomic`), which holds the words ──visit, visit ...──> answered
//!                           a change: its key is locked, so others see all of it or nothing
//!                           a read:   the same value at each visit, or it starts again, at last with a key lock set
//! ```
//!
//! Invariants: a visit costs what it does: the words that are done are never read again ([`words_left`]), and a
//! walk over a value goes on at a place in it. No visit does more than its slice, whatever a client asks for.

use super::catalog;
use super::error::Fault;
use super::typed::{KeyParts, record};
use crate::resp::call::{Call, Run, Stop};
use crate::resp::own_transaction;
use crate::resp::pairs::Pairs;
use crate::resp::state::transaction::ANSWER_BYTES_MAX;
use crate::resp::state::transaction::Stage;
use crate::resp::state::walk::{NOTHING, Reading, Walk};
use crate::resp::typed;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::OutBuffer;
use crate::visit::progress::State;
use protocol::resp::Args;
use record::{Record, bin_bytes_max};

/// Fields that a request names at most if it is done in one visit.
pub(super) const FIELDS_A_SLICE: u32 = 64;
/// Fields that are changed together where it takes several: each may copy a part of the value.
const FIELDS_AN_EDIT: u32 = 16;
/// Operations that such a change of one field counts for.
const OPS_AN_EDITED_FIELD: usize = 3;
/// Operations that checking the lengths of [`FIELDS_A_SLICE`] fields counts as.
const OPS_A_LOOK: usize = 8;
/// Number of times that a read starts over before its key is locked.
const RESTARTS_MAX: u32 = 4;

/// The words of the request that are not done.
pub(super) fn words_left<'c>(call: &Call<'c, '_>, args: Args<'c>) -> Args<'c> {
    call.behind(args, call.session.done)
}

/// So many more words are done, which take so many bytes.
pub(super) fn words_done(call: &mut Call<'_, '_>, words: u32, bytes: usize) {
    let (_, before) = call.session.passed;
    call.session.done += words;
    call.session.passed = (call.session.done, before + bytes);
}

/// Does `each` for the words of a command that changes one value, some of them at a time: `fields` says which words
/// of `all` and how many are for one field. With more than a slice has room for it becomes a transaction of its
/// own, with the key claimed. `stores` says that it may store what the words say. `each` gives false if the value
/// that an earlier visit changed is gone: all are done again then.
pub(super) fn in_slices<'c, 'l>(
    call: &mut Call<'c, 'l>,
    name: &'static str,
    all: Args<'c>,
    key: &[u8],
    (words, each_words): (Args<'c>, u32),
    stores: bool,
    mut each: impl FnMut(&mut Call<'c, 'l>, Args<'c>, bool) -> Result<bool, Stop>,
) -> Run {
    if !call.beside && words.len() as u32 > FIELDS_A_SLICE * each_words {
        return run_claimed(call, name, all, key);
    }
    if stores && call.beside && !call.session.fits {
        check_pairs(call, words)?;
    }
    if stores && call.session.done == 0 {
        typed::room_to_store(call, if call.beside { words.wire_bytes() as u64 } else { 0 })?;
    }
    if !call.beside {
        // All of it in this visit.
        if !each(call, words, true)? {
            return Err(State::Yield.into());
        }
        // The first counts as the request.
        call.ops += OPS_AN_EDITED_FIELD * (words.len() / each_words as usize).saturating_sub(1);
        return Ok(());
    }
    let together = if words.len() as u32 > FIELDS_A_SLICE * each_words { FIELDS_AN_EDIT } else { FIELDS_A_SLICE };
    let mut left = words_left(call, words);
    while left.len() > 0 {
        let (slice, behind) = left.split(together * each_words);
        let is_first = call.session.done == 0;
        if !each(call, slice, is_first)? {
            call.session.end_request();
            return Err(State::Yield.into());
        }
        words_done(call, slice.len() as u32, slice.wire_bytes());
        call.ops += OPS_AN_EDITED_FIELD * slice.len() / each_words as usize;
        left = behind;
        if left.len() > 0 && call.is_spent() {
            return Err(State::Yield.into());
        }
    }
    Ok(())
}

/// Looks at names and values before the first of them is stored: where one is too long, none is.
fn check_pairs<'c>(call: &mut Call<'c, '_>, words: Args<'c>) -> Run {
    let most = call.guard.sizes().part_bytes_max();
    let mut left = words_left(call, words);
    while left.len() > 0 && words.wire_bytes() > most {
        let (slice, behind) = left.split(2 * FIELDS_A_SLICE);
        if Pairs(slice).any(|(name, value)| bin_bytes_max(name, value) > most) {
            return Err(Fault::RecordTooLarge.into());
        }
        words_done(call, slice.len() as u32, slice.wire_bytes());
        call.ops += OPS_A_LOOK;
        left = behind;
        if left.len() > 0 && call.is_spent() {
            return Err(State::Yield.into());
        }
    }
    (call.session.done, call.session.passed, call.session.fits) = (0, (0, 0), true);
    Ok(())
}

/// Has a command that changes one value go on over several visits, as one.
fn run_claimed<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, key: &[u8]) -> Run {
    run_over(call, name, args, key, Stage::Obtaining)
}

/// Has a command that reads one value go on over several visits.
pub(super) fn run_reading<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, key: &[u8]) -> Run {
    run_over(call, name, args, key, Stage::Running)
}

fn run_over<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, key: &[u8], stage: Stage) -> Run {
    let entry = catalog::entry(name);
    let mut one = own_transaction::spare(call);
    one.key_locks.add(&call.key(key));
    if !one.hold(entry, args, false) {
        own_transaction::put_away(one, call.ctx);
        return Err(Fault::ClientMemory.into());
    }
    one.stage = stage;
    own_transaction::begin(call, one);
    Err(Stop::UnderWay)
}

/// Gives `look` the record under a key, `None` if there is none, and the same one at each visit of the request.
///
/// # Errors
/// If it is another one than at the visit before, the request starts over.
pub(super) fn read_on<T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    reading: &mut Reading,
    look: impl FnOnce(&mut OutBuffer, Option<&Record<'_>>, u64) -> Result<T, Stop>,
) -> Result<T, Stop> {
    let (key, view) = (call.key(bytes), call.ctx.view());
    if call.guard.locks().is_locked_by_other(&key) {
        return Err(State::Parked.into());
    }
    let item = call.guard.items().get(&key);
    let parts = KeyParts::new(call.guard, key);
    let record = record(item.as_ref(), view, &parts)?;
    let identity = record.as_ref().map_or(NOTHING, Record::identity);
    if reading.identity.is_some_and(|before| before != identity) {
        return Err(restart(call, reading));
    }
    reading.identity = Some(identity);
    look(call.out, record.as_ref(), view.now_ms)
}

/// Starts over because the value was changed, with a key lock set after several times.
fn restart(call: &mut Call<'_, '_>, reading: &mut Reading) -> Stop {
    call.session.end_request();
    reading.restarts += 1;
    reading.identity = None;
    call.session.wants_key_locks = reading.restarts > RESTARTS_MAX && !call.guard.locks().is_attached();
    State::Yield.into()
}

/// Ends a visit of a walk whose answer is collected behind a head: what was collected stands if it goes on in
/// another visit, and ends if the request starts over or fails.
pub(super) fn end_visit(call: &mut Call<'_, '_>, mut walk: Box<Walk>, mut ran: Run) -> Run {
    if matches!(ran, Err(Stop::State(_))) && !walk.reserve(&call.ctx.shared.budget) {
        ran = Err(Fault::ClientMemory.into());
    }
    match ran {
        Err(stop @ Stop::State(_)) => {
            if walk.reading.identity.is_none() {
                let reading = std::mem::take(&mut walk.reading);
                if let Some(head) = walk.head {
                    call.out.cut_to_head(head);
                }
                walk = Box::new(Walk { reading, ..Walk::default() });
            }
            call.session.walk = Some(walk);
            // The caller removes nothing of it.
            call.session.done = call.session.done.max(1);
            Err(stop)
        }
        Err(stop) => {
            if let Some(head) = walk.head {
                call.out.cut_to_head(head);
            }
            call.session.end_request();
            Err(stop)
        }
        Ok(()) => Ok(()),
    }
}

/// Goes on only if the answer that is collected has room for `bytes` more.
pub(super) fn collect_room(out: &OutBuffer, bytes: usize) -> Run {
    let want = bytes + LINE_ROOM;
    if out.collected() + want > ANSWER_BYTES_MAX {
        return Err(Fault::AnswerTooLong.into());
    }
    if out.room() < want { Err(State::OutputFull { want }.into()) } else { Ok(()) }
}
