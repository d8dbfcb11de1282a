//! The fields that many requests have, and the replies that many calls make.

use crate::grpc::plan::{CallError, CallPlan, Commands, Flow, Next, reply};
use protocol::grpc::protobuf::{Encoder, Message};
use protocol::resp::client::Value;

/// The number of `CacheResult` for a value that exists.
pub(in crate::grpc) const HIT: u64 = 2;
/// The number of `CacheResult` for a value that does not exist.
pub(in crate::grpc) const MISS: u64 = 3;
/// The number of `CacheResult` for a success.
pub(in crate::grpc) const OK: u64 = 1;

/// Returns the key in the field 1.
pub(super) fn key<'b>(message: Message<'b>) -> Result<&'b [u8], CallError> {
    match message.bytes(1) {
        b"" => Err(CallError::invalid("the key is empty; name a key of at least one byte")),
        key => Ok(key),
    }
}

/// Returns the time to live in a field, in ms, as text. A time to live of 0 is refused.
pub(super) fn ttl_ms(message: Message<'_>, number: u32) -> Result<String, CallError> {
    ttl(message, number).map(|ttl_ms| ttl_ms.to_string())
}

/// Returns the time to live in a field, in ms. A time to live of 0 is refused.
pub(super) fn ttl(message: Message<'_>, number: u32) -> Result<u64, CallError> {
    match message.uint(number) {
        0 => Err(CallError::invalid("the time to live is 0 ms; give at least 1 ms")),
        _ => Ok(time_ms(message, number)),
    }
}

/// Returns the time in a field, in ms: at most half of what Redis commands take, so that its end is in range.
pub(super) fn time_ms(message: Message<'_>, number: u32) -> u64 {
    message.uint(number).min(i64::MAX as u64 / 2)
}

/// The time to live that a change of a collection sets.
pub(super) struct CollectionTtl {
    ttl_ms: String,
    /// True if the change of an existing collection sets it too.
    refreshes: bool,
}

impl CollectionTtl {
    /// Reads the time to live in ms from one field, and from another whether it is set again.
    pub(super) fn of(message: Message<'_>, ttl: u32, refresh: u32) -> Result<Self, CallError> {
        Ok(Self { ttl_ms: ttl_ms(message, ttl)?, refreshes: message.uint(refresh) != 0 })
    }
}

/// Returns the plan of a change of a collection. `next` gets the replies to `commands`.
pub(super) fn change(
    key: &[u8],
    ttl: &CollectionTtl,
    mut commands: Commands,
    next: impl FnMut(&[Value<'_>]) -> Next + Send + 'static,
) -> CallPlan {
    let expire = Commands::one(&[b"PEXPIRE", key, ttl.ttl_ms.as_bytes()]);
    if ttl.refreshes {
        commands.append(&expire);
        return CallPlan::transaction(&commands, next);
    }
    let held = commands.request.capacity();
    let decide = move |replies: &[Value<'_>]| {
        let mut all = Commands::default();
        all.append(&commands);
        if replies[0] == Value::Int(0) {
            all.append(&expire);
        }
        Ok(Flow::Execute(all))
    };
    CallPlan::watched(key, &Commands::one(&[b"EXISTS", key]), decide, next).holding(held)
}

/// Returns the reply of a call whose only field, 1, is the number of a collection's elements (1 found, 2 missing). A
/// collection without elements does not exist.
pub(super) fn length_reply(length: i64) -> Next {
    reply(|out| {
        match length {
            0 => out.message(2, |_| {}),
            length => out.message(1, |found| {
                found.int(1, length);
            }),
        };
    })
}

/// Returns the reply that the collection does not exist (2 missing).
pub(in crate::grpc) fn missing() -> Next {
    reply(|out| {
        out.message(2, |_| {});
    })
}

/// Returns the plan of a call that reads a value for each of the words in the field 2 of its request with the command
/// `name`. Replies 1 found (1 for each word: 1 result, and what `write` adds) or 2 missing. `write` returns false for a
/// word without a value.
pub(super) fn read_parts(
    message: Message<'_>,
    name: &[u8],
    write: fn(Value<'_>, &mut Encoder) -> bool,
) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    let words: Vec<&[u8]> = message.all(2).collect();
    if words.is_empty() {
        return Err(CallError::invalid("the request names nothing to read; name at least one field or value"));
    }
    let mut commands = Commands::one(&[b"EXISTS", key]);
    commands.add_words(&[name, key], words.into_iter());
    Ok(CallPlan::transaction(&commands, move |replies| {
        if replies[0] == Value::Int(0) {
            return missing();
        }
        reply(|out| {
            out.message(1, |found| {
                for value in replies[1].items() {
                    let mut part = Encoder::new();
                    let result = if write(value, &mut part) { HIT } else { MISS };
                    found.message(1, |out| {
                        out.uint(1, result).append(&part);
                    });
                }
            });
        })
    }))
}

/// Returns an empty message.
pub(super) fn done() -> Next {
    reply(|_| {})
}

/// Returns the plan of a call that deletes a whole collection, which its request asks for by the field `all`. `length`
/// is a command that replies with an error if the item is of another type.
pub(super) fn delete_whole(message: Message<'_>, all: u32, length: &'static [u8]) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    if message.message(all)?.is_none() {
        return Err(CallError::invalid("the request names nothing to delete; name elements, or all"));
    }
    let deletion = Commands::one(&[b"DEL", key]);
    let decide = move |_: &[Value<'_>]| Ok(Flow::Execute(deletion.clone()));
    Ok(CallPlan::watched(key, &Commands::one(&[length, key]), decide, |_| done()))
}
