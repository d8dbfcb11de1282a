//! Calls on dictionaries, which are the hashes of Redis.

use super::common::{self, CollectionTtl, change, done, key, length_reply, read_parts};
use crate::grpc::item_replies::ItemForm;
use crate::grpc::plan::{CallError, CallPlan, Commands, integer, reply};
use protocol::grpc::protobuf::Message;

/// Decodes 1 name, 2 fields. Replies 1 found (1 for each field: 1 result, 2 value) or 2 missing.
pub(super) fn get(message: Message<'_>) -> Result<CallPlan, CallError> {
    read_parts(message, b"HMGET", |value, part| {
        part.bytes(2, value.text().unwrap_or_default());
        value.text().is_some()
    })
}

/// Decodes 1 name. Replies 1 found (1 for each field: 1 field, 2 value) or 2 missing.
pub(super) fn fetch(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::items(&[b"HGETALL", key(message)?], ItemForm::Pairs))
}

/// Decodes 1 name, 2 fields (1 field, 2 value), 3 time to live in ms, 4 refresh.
pub(super) fn set(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (key, mut words) = (key(message)?, Vec::new());
    for pair in message.all(2) {
        let pair = message.part(pair)?;
        words.extend([pair.bytes(1), pair.bytes(2)]);
    }
    if words.is_empty() {
        return Err(CallError::invalid("the request has no fields; give at least one"));
    }
    let mut commands = Commands::default();
    commands.add_words(&[b"HSET", key], words.into_iter());
    Ok(change(key, &CollectionTtl::of(message, 3, 4)?, commands, |_| done()))
}

/// Decodes 1 name, 2 field, 3 amount, 4 time to live in ms, 5 refresh. Replies 1 the sum.
pub(super) fn increment(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (key, amount) = (key(message)?, message.int(3).to_string());
    let commands = Commands::one(&[b"HINCRBY", key, message.bytes(2), amount.as_bytes()]);
    Ok(change(key, &CollectionTtl::of(message, 4, 5)?, commands, |replies| {
        let sum = integer(replies[0])?;
        reply(|out| {
            out.int(1, sum);
        })
    }))
}

/// Decodes 1 name, and 2 some fields (1 fields) or 3 all.
pub(super) fn delete(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    let Some(some) = message.message(2)? else { return common::delete_whole(message, 3, b"HLEN") };
    if some.all(1).next().is_none() {
        return Err(CallError::invalid("the request has no fields; name at least one, or all"));
    }
    let mut commands = Commands::default();
    commands.add_words(&[b"HDEL", key], some.all(1).collect::<Vec<_>>().into_iter());
    Ok(CallPlan::new(commands, |_| done()))
}

/// Decodes 1 name. Replies 1 found (1 length) or 2 missing.
pub(super) fn length(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::one(&[b"HLEN", key(message)?], |length| length_reply(integer(length)?)))
}
