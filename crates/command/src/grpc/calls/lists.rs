//! Calls on lists.

use super::common::{CollectionTtl, change, key, length_reply, missing};
use crate::grpc::item_replies::ItemForm;
use crate::grpc::plan::{CallError, CallPlan, Commands, Flow, Next, integer, reply};
use protocol::grpc::protobuf::Message;
use protocol::resp::client::Value;
use std::ops::Range;

/// Returns the plan that adds values at an end with `push`, and keeps at most the number of elements in the field 5, at
/// that end. Decodes 1 name, 3 time to live in ms, 4 refresh, 5 maximum of elements. Replies 1 length.
fn add<'b>(
    message: Message<'b>,
    push: &'b [u8],
    values: impl Iterator<Item = &'b [u8]>,
    trim: fn(i64) -> (i64, i64),
) -> Result<CallPlan, CallError> {
    let (key, values) = (key(message)?, values.collect::<Vec<_>>());
    if values.is_empty() {
        return Err(CallError::invalid("the request has no values; give at least one"));
    }
    let mut commands = Commands::default();
    commands.add_words(&[push, key], values.into_iter());
    if message.uint(5) > 0 {
        let (first, last) = trim(message.uint(5).min(u64::from(u32::MAX)) as i64);
        commands.add(&[b"LTRIM", key, first.to_string().as_bytes(), last.to_string().as_bytes()]);
    }
    let count = commands.count;
    commands.add(&[b"LLEN", key]);
    Ok(change(key, &CollectionTtl::of(message, 3, 4)?, commands, move |replies| {
        let length = integer(replies[count])?;
        reply(|out| {
            out.int(1, length);
        })
    }))
}

const fn keep_first(most: i64) -> (i64, i64) {
    (0, most - 1)
}

const fn keep_last(most: i64) -> (i64, i64) {
    (-most, -1)
}

/// Decodes 2 value, and what all calls that add have.
pub(super) fn push_front(message: Message<'_>) -> Result<CallPlan, CallError> {
    add(message, b"LPUSH", std::iter::once(message.bytes(2)), keep_first)
}

/// Decodes 2 value, and what all calls that add have.
pub(super) fn push_back(message: Message<'_>) -> Result<CallPlan, CallError> {
    add(message, b"RPUSH", std::iter::once(message.bytes(2)), keep_last)
}

/// Decodes 2 values, which are in front in this order, and what all calls that add have.
pub(super) fn concatenate_front(message: Message<'_>) -> Result<CallPlan, CallError> {
    let values: Vec<&[u8]> = message.all(2).collect();
    add(message, b"LPUSH", values.into_iter().rev(), keep_first)
}

/// Decodes 2 values, and what all calls that add have.
pub(super) fn concatenate_back(message: Message<'_>) -> Result<CallPlan, CallError> {
    add(message, b"RPUSH", message.all(2), keep_last)
}

fn pop(message: Message<'_>, name: &[u8]) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    let mut commands = Commands::one(&[name, key]);
    commands.add(&[b"LLEN", key]);
    Ok(CallPlan::transaction(&commands, |replies| {
        let Some(value) = replies[0].text() else { return missing() };
        let length = integer(replies[1])?;
        reply(|out| {
            out.message(1, |found| {
                found.bytes(1, value).int(2, length);
            });
        })
    }))
}

/// Decodes 1 name. Replies 1 found (1 value, 2 length) or 2 missing.
pub(super) fn pop_front(message: Message<'_>) -> Result<CallPlan, CallError> {
    pop(message, b"LPOP")
}

/// Decodes 1 name. Replies 1 found (1 value, 2 length) or 2 missing.
pub(super) fn pop_back(message: Message<'_>) -> Result<CallPlan, CallError> {
    pop(message, b"RPOP")
}

/// Replies 1 found (1 length) for the reply to `LLEN`, the last of `replies`, or 2 missing if the first, that to
/// `EXISTS`, is 0.
fn length_if_existed(replies: &[Value<'_>]) -> Next {
    if replies[0] == Value::Int(0) {
        return missing();
    }
    let length = integer(*replies.last().ok_or_else(CallError::unexpected)?)?;
    reply(|out| {
        out.message(1, |found| {
            found.int(1, length);
        });
    })
}

/// Decodes 1 name, and 2 some (1 ranges: 1 first index, 2 count) or 3 all. Replies 1 found (1 length) or 2 missing.
pub(super) fn erase(message: Message<'_>) -> Result<CallPlan, CallError> {
    let name = key(message)?.to_vec();
    let Some(some) = message.message(2)? else {
        if message.message(3)?.is_none() {
            return Err(CallError::invalid("the request names nothing to erase; name ranges, or all"));
        }
        let decide = move |replies: &[Value<'_>]| match integer(replies[0])? {
            0 => missing(),
            _ => Ok(Flow::Execute(Commands::one(&[b"DEL", &name]))),
        };
        let probe = Commands::one(&[b"LLEN", key(message)?]);
        return Ok(CallPlan::watched(key(message)?, &probe, decide, |_| length_found(0)));
    };
    let mut ranges = Vec::new();
    for range in some.all(1) {
        let range = some.part(range)?;
        ranges.push(range.uint(1)..range.uint(1).saturating_add(range.uint(2)));
    }
    let ranges = joined(ranges);
    let decide = move |replies: &[Value<'_>]| {
        let values = replies[0].items();
        if values.len() == 0 {
            return missing();
        }
        let mut erased = ranges.iter().peekable();
        let mut is_kept = |at: u64| {
            while erased.next_if(|range| range.end <= at).is_some() {}
            erased.peek().is_none_or(|range| at < range.start)
        };
        let kept = values.enumerate().filter(|(at, _)| is_kept(*at as u64));
        let kept: Vec<&[u8]> = kept.filter_map(|(_, value)| value.text()).collect();
        // The kept values are appended, and the old ones removed in front, so that the list keeps its time to live.
        let mut commands = Commands::default();
        if kept.is_empty() {
            commands.add(&[b"DEL", &name]);
        } else {
            let first = values.len().to_string();
            commands.add_words(&[b"RPUSH", &name], kept.iter().copied());
            commands.add(&[b"LTRIM", &name, first.as_bytes(), b"-1"]);
        }
        commands.add(&[b"LLEN", &name]);
        Ok(Flow::Execute(commands))
    };
    let probe = Commands::one(&[b"LRANGE", key(message)?, b"0", b"-1"]);
    Ok(CallPlan::watched(key(message)?, &probe, decide, |replies| {
        length_found(integer(*replies.last().ok_or_else(CallError::unexpected)?)?)
    }))
}

/// Returns the same indices in ascending ranges that do not touch one another.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, before| {
        let touches = next.start <= before.end;
        if touches {
            before.end = before.end.max(next.end);
        }
        touches
    });
    ranges
}

fn length_found(length: i64) -> Next {
    reply(|out| {
        out.message(1, |found| {
            found.int(1, length);
        });
    })
}

/// Decodes 1 name, 2 value of all elements to remove. Replies 1 found (1 length) or 2 missing.
pub(super) fn remove(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    let mut commands = Commands::one(&[b"EXISTS", key]);
    commands.add(&[b"LREM", key, b"0", message.bytes(2)]);
    commands.add(&[b"LLEN", key]);
    Ok(CallPlan::transaction(&commands, length_if_existed))
}

/// Returns the first and last index of a range: 2 from the start or 3 the first index, 4 to the end or 5 the index
/// behind the last one. Negative indices count from the end. Returns `None` if the range is empty.
fn range(message: Message<'_>) -> Option<(String, String)> {
    let first = message.try_sint(3).unwrap_or(0);
    // The end 0 is the index of the first element: nothing is before it.
    let last = match message.try_sint(5) {
        None => -1,
        Some(0) => return None,
        Some(end) => end.saturating_sub(1),
    };
    Some((first.to_string(), last.to_string()))
}

/// Decodes 1 name, 2-5 range. Replies 1 found (1 values) or 2 missing.
pub(super) fn fetch(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    // An empty range is that of indices that no list has.
    let (first, last) = range(message).unwrap_or(("1".into(), "0".into()));
    Ok(CallPlan::items(&[b"LRANGE", key, first.as_bytes(), last.as_bytes()], ItemForm::Words))
}

/// Decodes 1 name, 2-5 range, 6 time to live in ms, 7 refresh. Replies 1 found (1 length) or 2 missing.
pub(super) fn retain(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    let (first, last) = range(message).unwrap_or(("1".into(), "0".into()));
    let mut commands = Commands::one(&[b"EXISTS", key]);
    commands.add(&[b"LTRIM", key, first.as_bytes(), last.as_bytes()]);
    commands.add(&[b"LLEN", key]);
    let next = |replies: &[Value<'_>]| length_if_existed(&replies[..3]);
    // The list exists, or nothing is retained: its time to live is set only if it is refreshed.
    if message.uint(7) == 0 {
        return Ok(CallPlan::transaction(&commands, next));
    }
    Ok(change(key, &CollectionTtl::of(message, 6, 7)?, commands, next))
}

/// Decodes 1 name. Replies 1 found (1 length) or 2 missing.
pub(super) fn length(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::one(&[b"LLEN", key(message)?], |length| length_reply(integer(length)?)))
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn joined_ranges_hold_the_same_indices() {
        type Bounds = &'static [(u64, u64)];
        let cases: [(Bounds, Bounds); 5] = [
            (&[], &[]),
            (&[(3, 3)], &[]),
            (&[(5, 7), (0, 2)], &[(0, 2), (5, 7)]),
            (&[(0, 10), (2, 3), (4, 12)], &[(0, 12)]),
            (&[(2, 4), (0, 2), (9, u64::MAX)], &[(0, 4), (9, u64::MAX)]),
        ];
        for (ranges, wanted) in cases {
            let ranges_of = |bounds: Bounds| bounds.iter().map(|(start, end)| *start..*end).collect::<Vec<_>>();
            assert_eq!(joined(ranges_of(ranges)), ranges_of(wanted), "{ranges:?}");
        }
    }
}
