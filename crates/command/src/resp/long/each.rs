//! Requests with more keys than fit into the receive buffer. The keys are processed one after another while they are
//! received.

use super::super::catalog::CommandSpec;
use super::super::error::ErrorReply;
use crate::push::notify::KeyEvent;
use crate::resp::absent;
use crate::resp::call::{Call, Interrupt, Run, Step};
use crate::resp::long;
use crate::resp::long::value;
use crate::resp::state::Answers;
use crate::resp::state::long::{Each, LongStage, ValueEffect};
use crate::resp::string;
use crate::resp::typed;
use crate::resp::value_reply;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::resp::{Argument, Limits, argument, reply};
use segment::{Expire, PutMode};

/// Processes the received arguments one after another, and completes the reply after the last of them.
pub(super) fn continue_keys(call: &mut Call<'_, '_>, entry: &'static CommandSpec, mut left: u32, each: Each) -> Step {
    let mark = call.out.mark();
    let hush = call.session.answers != Answers::All;
    let end = loop {
        if left == 0 {
            break Ok(());
        }
        if let Err(state) = check_room_and_slice(call) {
            break Err(state);
        }
        let limits = call.waiting_limits();
        let (bytes, consumed) = match argument(call.rest(), &limits) {
            Argument::Whole { bytes, consumed } => (bytes, consumed),
            Argument::Incomplete { want } => break Err(SessionWait::NeedInput { want }),
            Argument::Long { len, consumed } if each != Each::Set => {
                // The argument is longer than any key, so no item has this key.
                if each == Each::Get && !hush {
                    call.null();
                }
                call.at += consumed;
                let stage = LongStage::Skipped { bytes: u64::from(len) + 2, then: Some(each) };
                long::retain(call, entry, left - 1, stage);
                return Ok(());
            }
            Argument::Long { len, consumed } => {
                return long::refuse(call, entry, ErrorReply::TooLong, consumed, u64::from(len) + 2, left - 1);
            }
            Argument::Fatal(error) => return call.fatal(error),
        };
        if each == Each::Set {
            match pair(call, entry, bytes, consumed, left) {
                Ok(true) => left -= 2,
                Ok(false) => return Ok(()),
                Err(state) => break Err(state),
            }
        } else {
            match execute_one(call, each, bytes) {
                Ok(()) => {
                    call.at += consumed;
                    left -= 1;
                }
                Err(Interrupt::State(state)) => break Err(state),
                Err(Interrupt::Fault(fault)) => return long::refuse(call, entry, fault, consumed, 0, left - 1),
                Err(Interrupt::Quit | Interrupt::UnderWay | Interrupt::Queued) => {
                    unreachable!("processing a key never closes the connection")
                }
            }
        }
        call.ops += 1;
    };
    if hush {
        call.out.truncate(mark);
    }
    if let Err(state) = end {
        long::retain(call, entry, left, LongStage::Each(each));
        return Err(state);
    }
    let (mark, answers) = (call.out.mark(), call.session.answers);
    match each {
        Each::Get => {}
        Each::Set => call.out.push(reply::OK),
        Each::Delete | Each::Exists | Each::Touch => call.int(call.session.sum),
    }
    long::long_answered(call, entry, mark, answers);
    Ok(())
}

/// Returns a wait state if the output buffer has no room for the next part of a reply, or if this visit has used up its
/// slice.
fn check_room_and_slice(call: &Call<'_, '_>) -> Step {
    call.room(0)?;
    if call.ops >= OPS_A_BATCH { Err(SessionWait::Yield) } else { Ok(()) }
}

/// Executes the operation `each` on one key.
fn execute_one(call: &mut Call<'_, '_>, each: Each, bytes: &[u8]) -> Run {
    let key = call.key(bytes);
    if call.guard.locks().is_blocked(&key) {
        return Err(SessionWait::Parked.into());
    }
    let counts = match each {
        Each::Get => {
            let hit = match value_reply::value_of(call, bytes) {
                // The array has begun, so an error cannot follow.
                Err(Interrupt::Fault(_)) => {
                    call.null();
                    call.count_read(false);
                    return Ok(());
                }
                hit => hit?,
            };
            call.count_read(hit);
            if !hit {
                call.changed(KeyEvent::KEYMISS, bytes);
            }
            return Ok(());
        }
        Each::Delete => {
            let deleted = typed::remove(call, bytes)?;
            if deleted {
                call.changed(KeyEvent::DEL, bytes);
            }
            deleted
        }
        Each::Exists | Each::Touch => {
            let found = if each == Each::Touch { call.guard.items().get(&key) } else { call.guard.items().peek(&key) };
            let found = found.map(|item| typed::is_typed(&item));
            let (is_missed, may_have_ended) = (found.is_none(), found == Some(true));
            if is_missed && call.guard.tier().is_false_miss(&key) {
                return Err(SessionWait::Parked.into());
            }
            let is_there = !is_missed && (!may_have_ended || typed::is_there(call, &key)?);
            if !is_there {
                call.changed(KeyEvent::KEYMISS, bytes);
            }
            is_there
        }
        Each::Set => unreachable!("`MSET` processes a key together with its value"),
    };
    call.session.sum += i64::from(counts);
    Ok(())
}

/// Stores the value that follows `key` in the request. The key's argument has `consumed` bytes. Returns false if the
/// request is now in another stage, because the value is long and is being received, or because it was refused.
fn pair(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    key: &[u8],
    consumed: usize,
    left: u32,
) -> Result<bool, SessionWait> {
    let limits = call.waiting_limits();
    let limits = Limits { request_bytes_max: limits.request_bytes_max - consumed, ..limits };
    match argument(&call.rest()[consumed..], &limits) {
        Argument::Whole { bytes, consumed: more } => {
            let store =
                |call: &mut Call<'_, '_>| string::store_plain(call, key, bytes, PutMode::Set, Expire::Never).map(drop);
            match absent::run_part(call, key, false, store) {
                Ok(()) => {
                    call.at += consumed + more;
                    Ok(true)
                }
                Err(Interrupt::Fault(fault)) => {
                    long::refuse(call, entry, fault, consumed + more, 0, left - 2).map(|()| false)
                }
                Err(Interrupt::State(state)) => Err(state),
                Err(Interrupt::Quit | Interrupt::UnderWay | Interrupt::Queued) => {
                    unreachable!("processing a value never closes the connection")
                }
            }
        }
        Argument::Incomplete { want } => {
            Err(SessionWait::NeedInput { want: if want == 0 { 0 } else { consumed + want } })
        }
        Argument::Long { len, consumed: more } => {
            value::pieces_begin(call, entry, ValueEffect::Pair, key, (len, left - 2), consumed + more).map(|()| false)
        }
        Argument::Fatal(error) => call.fatal(error).map(|()| false),
    }
}
