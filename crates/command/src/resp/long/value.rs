//! Receives a long value and writes it to the store meanwhile. Then receives and applies the options that follow the
//! value.

use super::super::acl::KnownKeys;
use super::super::catalog::CommandSpec;
use super::super::error::ErrorReply;
use super::super::key_specs::set_reads;
use super::super::string::SetOptions;
use super::super::typed::string;
use super::TAIL_MAX;
use crate::lookup::large::{Advance, LargeSet};
use crate::push::notify::KeyEvent;
use crate::resp::absent;
use crate::resp::admit;
use crate::resp::call::{Call, Interrupt, Run, Step};
use crate::resp::long;
use crate::resp::state::long::{Each, Long, LongStage, ValueEffect};
use crate::resp::string;
use crate::visit::progress::SessionWait;
use arrayvec::ArrayVec;
use protocol::resp::{Argument, Parser, ProtocolError, argument, reply};
use segment::{Expire, OpError, Put, PutMode, PutOutcome};

/// Checks the conditions for storing a value that can be checked before the value is received.
pub(super) fn may_begin(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    key: &[u8],
    words: usize,
    rule: ValueEffect,
    value_len: u32,
) -> Run {
    admit::admit_command(
        call,
        entry,
        words,
        if rule == ValueEffect::Pair { KnownKeys::Some } else { KnownKeys::One(key) },
    )?;
    if words > TAIL_MAX {
        return Err(ErrorReply::Syntax.into());
    }
    if matches!(rule, ValueEffect::Append | ValueEffect::Range(_)) {
        string(call.guard.items().peek(&call.key(key)).as_ref())?;
    }
    let offset = if let ValueEffect::Range(offset) = rule { offset } else { 0 };
    if offset.saturating_add(value_len.into()) > call.ctx.shared.config.item_bytes_max {
        return Err(ErrorReply::TooLong.into());
    }
    Ok(call.ctx.check_room(call.session.namespace, value_len.into())?)
}

/// Begins to receive the rest of a value directly into its item in the store. The value is stored as one item, not in
/// pieces. Returns false if the value must be received into a buffer instead.
pub(super) fn whole_begin(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    rule: ValueEffect,
    key: &[u8],
    bytes: usize,
    consumed: usize,
) -> bool {
    let Some(mut large) = LargeSet::whole(bytes, (call.session.namespace, key), call.ctx) else { return false };
    let rest = &call.buf[call.at + consumed..];
    let Some(taken) = large.begin_in_place(call.guard, call.ctx, rest, &rule.put()) else {
        large.end(call.guard, call.ctx);
        return false;
    };
    call.at += consumed + taken;
    call.session.parser = Parser::new();
    call.session.long = Some(Long { entry, left: 0, stage: LongStage::Value { large, rule } });
    true
}

/// Begins to receive a value that is stored in pieces. The value has `value_len` bytes, and `left` arguments follow it.
pub(super) fn pieces_begin(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    rule: ValueEffect,
    key: &[u8],
    (value_len, left): (u32, u32),
    consumed: usize,
) -> Step {
    // The expiry is not known yet if an option after the value may set it. The pieces may expire later than their head,
    // because they are removed together with it.
    let expire = if let ValueEffect::Until(expire) = rule { expire } else { Expire::Never };
    let name = call.guard.key(call.session.namespace, key);
    let begun = call.guard.large().begin(&name, value_len.into(), expire);
    let fault = match begun.map(|writer| LargeSet::pieces(writer, (call.session.namespace, key), call.ctx)) {
        Ok(Ok(large)) => {
            call.at += consumed;
            call.session.parser = Parser::new();
            call.session.long = Some(Long { entry, left, stage: LongStage::Value { large, rule } });
            return Ok(());
        }
        Ok(Err(writer)) => {
            call.guard.large().abort(writer);
            ErrorReply::LongKeys
        }
        Err(OpError::Parked) => return Err(SessionWait::Parked),
        Err(OpError::OutOfMemory) => ErrorReply::OutOfMemory,
        Err(OpError::TooLarge) => ErrorReply::TooLong,
    };
    long::refuse(call, entry, fault, consumed, u64::from(value_len) + 2, left)
}

pub(super) fn continue_value(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    left: u32,
    mut large: LargeSet,
    rule: ValueEffect,
) -> Step {
    match large.advance(call.guard, call.ctx, call.rest(), &rule.put()) {
        Advance::Wait { consumed, want } => {
            call.at += consumed;
            long::retain(call, entry, left, LongStage::Value { large, rule });
            Err(SessionWait::NeedInput { want })
        }
        Advance::Part { consumed } => {
            call.at += consumed;
            long::retain(call, entry, left, LongStage::Value { large, rule });
            Ok(())
        }
        Advance::Unended { .. } => {
            large.end(call.guard, call.ctx);
            call.fatal(ProtocolError::ArgumentEnd)
        }
        Advance::Failed(OpError::Parked) => {
            long::retain(call, entry, left, LongStage::Value { large, rule });
            Err(SessionWait::Parked)
        }
        Advance::Failed(error) => {
            let unread = large.unread();
            large.end(call.guard, call.ctx);
            let fault = if error == OpError::TooLarge { ErrorReply::TooLong } else { ErrorReply::OutOfMemory };
            long::refuse(call, entry, fault, 0, unread, left)
        }
        Advance::Complete { held } if rule == ValueEffect::Pair => pair_complete(call, entry, left, large, held),
        Advance::Complete { held } => value_complete(call, entry, left, (large, rule), held),
    }
}

/// Completes a value whose last `held` bytes are still in the input. Parses the words after the value, and stores the
/// value when all of them have been received.
fn value_complete(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    left: u32,
    value: (LargeSet, ValueEffect),
    held: usize,
) -> Step {
    let (mut large, rule) = value;
    let (limits, mut at) = (call.waiting_limits(), held);
    let mut tail = ArrayVec::<&[u8], TAIL_MAX>::new();
    while tail.len() < left as usize {
        match argument(&call.rest()[at..], &limits) {
            Argument::Whole { bytes, consumed } => {
                tail.push(bytes);
                at += consumed;
            }
            Argument::Incomplete { want } => {
                // If the length of the next argument is unknown, any further byte may complete it.
                let want = if want == 0 { 0 } else { at + want };
                if want > call.ctx.request_bytes_max {
                    large.end(call.guard, call.ctx);
                    return long::refuse(call, entry, ErrorReply::RequestTooLong, at, 0, left - tail.len() as u32);
                }
                long::retain(call, entry, left, LongStage::Value { large, rule });
                return Err(SessionWait::NeedInput { want });
            }
            Argument::Long { len, consumed } => {
                large.end(call.guard, call.ctx);
                let behind = left - tail.len() as u32 - 1;
                let (from, unread) = (at + consumed, u64::from(len) + 2);
                return long::refuse(call, entry, ErrorReply::RequestTooLong, from, unread, behind);
            }
            Argument::Fatal(error) => {
                large.end(call.guard, call.ctx);
                return call.fatal(error);
            }
        }
    }
    let (mark, answers) = (call.out.mark(), call.session.answers);
    // The key is copied only for the events that name it.
    let stored = match call.ctx.push.watch.watched.has_absence_events() {
        false => store_received(call, entry, &mut large, rule, &tail),
        true => {
            let (key, is_read) = (large.key().to_vec(), rule.reads_key(&tail));
            absent::run_part(call, &key, is_read, |call| store_received(call, entry, &mut large, rule, &tail))
        }
    };
    let quits = matches!(stored, Err(Interrupt::Quit));
    match stored {
        Err(Interrupt::State(state)) => {
            call.out.truncate(mark);
            long::retain(call, entry, left, LongStage::Value { large, rule });
            return Err(state);
        }
        Err(Interrupt::Fault(fault)) => {
            call.out.truncate(mark);
            call.fault(fault);
        }
        Ok(()) | Err(Interrupt::Quit | Interrupt::UnderWay | Interrupt::Queued) => {}
    }
    large.end(call.guard, call.ctx);
    call.at += at;
    long::long_answered(call, entry, mark, answers);
    if quits { Err(SessionWait::Close) } else { Ok(()) }
}

/// Stores a completely received value if the client may still execute the command, and replies.
fn store_received<'c>(
    call: &mut Call<'c, '_>,
    entry: &'static CommandSpec,
    large: &mut LargeSet,
    rule: ValueEffect,
    tail: &[&'c [u8]],
) -> Run {
    let key = large.key();
    let reads = rule == ValueEffect::Set && set_reads(tail.iter().copied());
    admit::admit_received(call, entry, if reads { KnownKeys::OneReadAndWritten(key) } else { KnownKeys::One(key) })?;
    store_large(call, large, rule, tail)
}

/// Stores a completely received value as its command requires, and replies.
fn store_large<'c>(call: &mut Call<'c, '_>, large: &mut LargeSet, rule: ValueEffect, tail: &[&'c [u8]]) -> Run {
    match rule {
        ValueEffect::Set => {
            let options = SetOptions::read(tail.iter().copied())?;
            let expire = options.expire(call.ctx.moment(), "set")?;
            match options.put_mode() {
                Some(mode) => match put_large(call, large, &Put { mode, expire, ..Put::set(b"") })? {
                    PutOutcome::Stored { .. } => call.out.push(reply::OK),
                    _ => call.null(),
                },
                None => return string::set_large_by(call, large, options, expire),
            }
        }
        ValueEffect::Swap => return string::set_large_by(call, large, SetOptions::swap(), Expire::Never),
        ValueEffect::Until(_) | ValueEffect::Pair => {
            put_large(call, large, &rule.put())?;
            call.out.push(reply::OK);
        }
        ValueEffect::Absent => {
            let outcome = put_large(call, large, &rule.put())?;
            call.int(matches!(outcome, PutOutcome::Stored { .. }).into());
        }
        ValueEffect::Append => {
            let PutOutcome::Stored { bytes, .. } = put_large(call, large, &rule.put())? else {
                return Err(ErrorReply::WrongType.into());
            };
            call.int(bytes as i64);
        }
        ValueEffect::Range(offset) => {
            let len =
                large.store_by(call.guard, |guard, key, writer| guard.items_mut().splice_large(key, offset, writer))?;
            let len = len.ok_or(ErrorReply::WrongType)?;
            string::note_store(call);
            call.changed(KeyEvent::SETRANGE, large.key());
            call.int(len as i64);
        }
    }
    Ok(())
}

fn put_large(call: &mut Call<'_, '_>, large: &mut LargeSet, put: &Put<'_>) -> Result<PutOutcome, Interrupt> {
    let (rest, bytes) = (call.rest(), large.bytes());
    let outcome = large.store(call.guard, call.ctx, rest, put)?;
    if matches!(outcome, PutOutcome::Stored { .. }) {
        call.ctx.note_length(call.session.namespace, large.key(), bytes);
        string::note_store(call);
        match put.mode {
            PutMode::Append => call.changed(KeyEvent::APPEND, large.key()),
            _ => string::publish_set(call, large.key(), put.expire),
        }
    }
    Ok(outcome)
}

/// Stores a value of `MSET` that was received completely.
fn pair_complete(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    left: u32,
    mut large: LargeSet,
    held: usize,
) -> Step {
    match put_large(call, &mut large, &ValueEffect::Pair.put()) {
        Err(Interrupt::State(state)) => {
            long::retain(call, entry, left, LongStage::Value { large, rule: ValueEffect::Pair });
            return Err(state);
        }
        Err(Interrupt::Fault(fault)) => {
            large.end(call.guard, call.ctx);
            return long::refuse(call, entry, fault, held, 0, left);
        }
        Ok(_) | Err(Interrupt::Quit | Interrupt::UnderWay | Interrupt::Queued) => {}
    }
    large.end(call.guard, call.ctx);
    call.at += held;
    call.ops += 1;
    long::retain(call, entry, left, LongStage::Each(Each::Set));
    Ok(())
}
