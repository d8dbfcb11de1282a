//! Calls by which one client fills a value while the others wait or get the old one.

use super::common::{key, time_ms, ttl_ms};
use crate::grpc::plan::{CallError, CallPlan, integer, reply};
use protocol::grpc::protobuf::Message;
use protocol::number::parse_u64;
use protocol::resp::client::Value;

/// The numbers of `LeaseState`, by their words.
const STATES: [(&[u8], u64); 3] = [(b"hit", 1), (b"won", 2), (b"wait", 3)];

/// Decodes 1 key, 2 the time in ms before the end of a value from which it is filled again, 3 the time of the lease in
/// ms. Replies 1 state, 2 value if there is one, 3 token.
pub(super) fn read(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    let (recache, lease) = (time_ms(message, 2).to_string(), time_ms(message, 3).to_string());
    let mut words: Vec<&[u8]> = vec![b"LEASE.GET", key];
    if message.uint(2) > 0 {
        words.extend([&b"RECACHE"[..], recache.as_bytes()]);
    }
    if message.uint(3) > 0 {
        words.extend([&b"PX"[..], lease.as_bytes()]);
    }
    Ok(CallPlan::one(&words, |value| {
        let parts: Vec<Value<'_>> = value.items().collect();
        let [value, state, token] = parts[..] else { return Err(CallError::unexpected()) };
        let state = STATES.iter().find(|(word, _)| state.text() == Some(word)).ok_or_else(CallError::unexpected)?.1;
        let token = token.text().and_then(parse_u64).ok_or_else(CallError::unexpected)?;
        reply(|out| {
            out.uint(1, state);
            if let Some(value) = value.text() {
                out.item(2, value);
            }
            out.uint(3, token);
        })
    }))
}

/// Decodes 1 key, 2 token, 3 value, 4 time to live in ms. Replies 1 true if the value was stored.
pub(super) fn fill(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (token, ttl) = (message.uint(2).to_string(), ttl_ms(message, 4)?);
    let words = [b"LEASE.SET", key(message)?, token.as_bytes(), message.bytes(3), b"PX", ttl.as_bytes()];
    Ok(CallPlan::one(&words, |stored| {
        reply(|out| {
            out.uint(1, u64::from(stored.text().is_some()));
        })
    }))
}

/// Decodes 1 key, 2 the time in ms for which the stale value stays; 0 for its own time. Replies 1 true if there is a
/// value.
pub(super) fn make_stale(message: Message<'_>) -> Result<CallPlan, CallError> {
    let time = time_ms(message, 2).to_string();
    let mut words: Vec<&[u8]> = vec![b"LEASE.STALE", key(message)?];
    if message.uint(2) > 0 {
        words.extend([&b"PX"[..], time.as_bytes()]);
    }
    Ok(CallPlan::one(&words, |found| {
        let found = integer(found)?;
        reply(|out| {
            out.int(1, found);
        })
    }))
}
