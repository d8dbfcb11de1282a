//! Calls on sets.

use super::common::{CollectionTtl, change, done, key, length_reply, missing};
use crate::grpc::item_replies::ItemForm;
use crate::grpc::plan::{CallError, CallPlan, Commands, Flow, Next, integer, reply};
use protocol::grpc::protobuf::Message;
use protocol::resp::client::Value;

/// Returns a command with a set and elements.
fn with_elements<'b>(name: &'b [u8], key: &'b [u8], elements: impl Iterator<Item = &'b [u8]>) -> Commands {
    let mut commands = Commands::default();
    commands.add_words(&[name, key], elements.collect::<Vec<_>>().into_iter());
    commands
}

fn check_elements(message: Message<'_>, number: u32) -> Result<(), CallError> {
    match message.all(number).next() {
        Some(_) => Ok(()),
        None => Err(CallError::invalid("the request has no elements; give at least one")),
    }
}

/// Decodes 1 name. Replies 1 found (1 elements) or 2 missing.
pub(super) fn fetch(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::items(&[b"SMEMBERS", key(message)?], ItemForm::Words))
}

/// Decodes 1 name, 2 maximum of elements. Replies 1 found (1 different elements at random) or 2 missing.
pub(super) fn sample(message: Message<'_>) -> Result<CallPlan, CallError> {
    let most = message.uint(2).min(i64::MAX as u64).to_string();
    if message.uint(2) == 0 {
        return Ok(CallPlan::one(&[b"SCARD", key(message)?], |length| match integer(length)? {
            0 => missing(),
            _ => reply(|out| {
                out.message(1, |_| {});
            }),
        }));
    }
    Ok(CallPlan::items(&[b"SRANDMEMBER", key(message)?, most.as_bytes()], ItemForm::Words))
}

/// Decodes 1 name, 2 elements, 3 time to live in ms, 4 refresh.
pub(super) fn union(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    check_elements(message, 2)?;
    let commands = with_elements(b"SADD", key, message.all(2));
    Ok(change(key, &CollectionTtl::of(message, 3, 4)?, commands, |_| done()))
}

/// Decodes 1 name, and 2 minuend (1 elements), from which the set is subtracted, or 3 subtrahend (1 set: 1 elements; 2
/// identity: all), which is subtracted from the set. Replies 1 found or 2 missing.
pub(super) fn difference(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    if let Some(minuend) = message.message(2)? {
        check_elements(minuend, 1)?;
        return Ok(subtract_set(key, minuend));
    }
    let subtrahend = message.message(3)?.ok_or_else(|| CallError::invalid("the request has no difference"))?;
    let Some(set) = subtrahend.message(1)? else {
        if subtrahend.message(2)?.is_none() {
            return Err(CallError::invalid("the request names nothing to subtract; name elements, or all"));
        }
        let delete = Commands::one(&[b"DEL", key]);
        let decide = move |replies: &[Value<'_>]| match integer(replies[0])? {
            0 => missing(),
            _ => Ok(Flow::Execute(delete.clone())),
        };
        return Ok(CallPlan::watched(key, &Commands::one(&[b"SCARD", key]), decide, |_| found()));
    };
    let mut commands = Commands::one(&[b"EXISTS", key]);
    check_elements(set, 1)?;
    commands.append(&with_elements(b"SREM", key, set.all(1)));
    Ok(CallPlan::transaction(&commands, |replies| if replies[0] == Value::Int(0) { missing() } else { found() }))
}

fn found() -> Next {
    reply(|out| {
        out.message(1, |_| {});
    })
}

/// Returns the plan that replaces a set by the elements of `minuend` that it lacks.
fn subtract_set(key: &[u8], minuend: Message<'_>) -> CallPlan {
    let mut probe = Commands::one(&[b"SMEMBERS", key]);
    probe.append(&with_elements(b"SMISMEMBER", key, minuend.all(1)));
    let elements: Vec<Vec<u8>> = minuend.all(1).map(<[u8]>::to_vec).collect();
    let (name, held) = (key.to_vec(), elements.iter().map(Vec::capacity).sum());
    let decide = move |replies: &[Value<'_>]| {
        if replies[0].items().len() == 0 {
            return missing();
        }
        let members = replies[0].items().filter_map(|member| member.text());
        let rest = elements.iter().zip(replies[1].items()).filter(|(_, is_member)| *is_member == Value::Int(0));
        let rest: Vec<&[u8]> = rest.map(|(element, _)| &element[..]).collect();
        let mut commands = Commands::default();
        if !rest.is_empty() {
            // The set is never empty in between, so it keeps its time to live.
            commands.append(&with_elements(b"SADD", &name, rest.into_iter()));
        }
        commands.append(&with_elements(b"SREM", &name, members));
        Ok(Flow::Execute(commands))
    };
    CallPlan::watched(key, &probe, decide, |_| found()).holding(held)
}

/// Decodes 1 name, 2 elements. Replies 1 found (1 membership of each) or 2 missing.
pub(super) fn contains(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    check_elements(message, 2)?;
    let mut commands = Commands::one(&[b"EXISTS", key]);
    commands.append(&with_elements(b"SMISMEMBER", key, message.all(2)));
    Ok(CallPlan::transaction(&commands, |replies| {
        if replies[0] == Value::Int(0) {
            return missing();
        }
        reply(|out| {
            out.message(1, |found| {
                found.packed_bools(1, replies[1].items().map(|is_member| is_member == Value::Int(1)));
            });
        })
    }))
}

/// Decodes 1 name. Replies 1 found (1 length) or 2 missing.
pub(super) fn length(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::one(&[b"SCARD", key(message)?], |length| length_reply(integer(length)?)))
}

/// Decodes 1 name, 2 number of elements, at least 1. Replies 1 found (1 removed elements) or 2 missing.
pub(super) fn pop(message: Message<'_>) -> Result<CallPlan, CallError> {
    if message.uint(2) == 0 {
        return Err(CallError::invalid("the number of elements to remove is 0; give at least 1"));
    }
    let count = message.uint(2).min(i64::MAX as u64).to_string();
    Ok(CallPlan::items(&[b"SPOP", key(message)?, count.as_bytes()], ItemForm::Words))
}
