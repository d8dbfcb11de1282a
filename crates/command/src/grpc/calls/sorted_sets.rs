//! Calls on sorted sets.

use super::common::{self, CollectionTtl, HIT, MISS, change, done, key, length_reply, missing, read_parts, ttl_ms};
use crate::grpc::plan::{CallError, CallPlan, Commands, integer, reply};
use protocol::grpc::protobuf::Message;
use protocol::resp::client::Value;

/// Returns a score as Redis takes it, with all digits.
fn score_text(score: f64) -> Result<String, CallError> {
    match score {
        score if score.is_nan() => Err(CallError::invalid("a score is not a number; give a number")),
        f64::INFINITY => Ok("+inf".into()),
        f64::NEG_INFINITY => Ok("-inf".into()),
        score => Ok(score.to_string()),
    }
}

/// Returns the score of a reply.
fn score(value: Value<'_>) -> Option<f64> {
    std::str::from_utf8(value.text()?).ok()?.parse().ok()
}

/// Decodes 1 name, 2 elements (1 value, 2 score), 3 time to live in ms, 4 refresh.
pub(super) fn put(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (key, mut scores, mut values) = (key(message)?, Vec::new(), Vec::new());
    for element in message.all(2) {
        let element = message.part(element)?;
        scores.push(score_text(element.try_double(2).unwrap_or(0.0))?);
        values.push(element.bytes(1));
    }
    if values.is_empty() {
        return Err(CallError::invalid("the request has no elements; give at least one"));
    }
    let mut commands = Commands::default();
    commands.add_words(&[b"ZADD", key], scores.iter().zip(values).flat_map(|(score, value)| [score.as_bytes(), value]));
    Ok(change(key, &CollectionTtl::of(message, 3, 4)?, commands, |_| done()))
}

/// The words of a range in `ZRANGE`, behind the key.
fn range(message: Message<'_>) -> Result<Vec<String>, CallError> {
    let is_descending = message.uint(2) == 1;
    if let Some(by_score) = message.message(5)? {
        let bound = |number: u32, endless: &str| -> Result<String, CallError> {
            let Some(bound) = by_score.message(number)? else { return Ok(endless.into()) };
            let text = score_text(bound.try_double(1).unwrap_or(0.0))?;
            Ok(if bound.uint(2) != 0 { format!("({text}") } else { text })
        };
        let (least, greatest) = (bound(2, "-inf")?, bound(4, "+inf")?);
        let [first, last] = if is_descending { [greatest, least] } else { [least, greatest] };
        let offset = by_score.uint(5).to_string();
        // A count of 0 or below is that of all elements.
        let count = by_score.try_sint(6).filter(|count| *count > 0).unwrap_or(-1).to_string();
        let mut words = vec![first, last, "BYSCORE".into(), "LIMIT".into(), offset, count];
        words.extend(is_descending.then(|| "REV".into()));
        return Ok(words);
    }
    let by_index = message.message(4)?.unwrap_or(Message::parse(&[])?);
    let first = by_index.try_sint(2).unwrap_or(0).to_string();
    let last = match by_index.try_sint(4) {
        None => "-1".into(),
        // Nothing is before the first element.
        Some(0) => return Ok(vec!["1".into(), "0".into()]),
        Some(end) => end.saturating_sub(1).to_string(),
    };
    let mut words = vec![first, last];
    words.extend(is_descending.then(|| "REV".into()));
    Ok(words)
}

/// Decodes 1 name, 2 order (1: descending), 3 with scores, and 4 by index (1 from the start, 2 first index, 3 to the
/// end, 4 index behind the last) or 5 by score (1 from the least, 2 least, 3 to the greatest, 4 greatest, each 1 score,
/// 2 exclusive; 5 offset, 6 count). Replies 1 found (1 elements: 1 for each 1 value, 2 score; or 2 values) or 2
/// missing.
pub(super) fn fetch(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (key, range, shows_scores) = (key(message)?, range(message)?, message.uint(3) != 0);
    let mut words: Vec<&[u8]> = range.iter().map(String::as_bytes).collect();
    words.push(b"WITHSCORES");
    let mut commands = Commands::one(&[b"EXISTS", key]);
    commands.add_words(&[b"ZRANGE", key], words.into_iter());
    Ok(CallPlan::transaction(&commands, move |replies| {
        if replies[0] == Value::Int(0) {
            return missing();
        }
        let mut words = replies[1].items();
        reply(|out| {
            out.message(1, |found| {
                found.message(if shows_scores { 1 } else { 2 }, |elements| {
                    while let (Some(value), Some(of)) = (words.next(), words.next()) {
                        let value = value.text().unwrap_or_default();
                        if shows_scores {
                            elements.message(1, |element| {
                                element.bytes(1, value).double(2, score(of).unwrap_or_default());
                            });
                        } else {
                            elements.item(1, value);
                        }
                    }
                });
            });
        })
    }))
}

/// Decodes 1 name, 2 values. Replies 1 found (1 for each: 1 result, 2 score) or 2 missing.
pub(super) fn read_scores(message: Message<'_>) -> Result<CallPlan, CallError> {
    read_parts(message, b"ZMSCORE", |value, part| {
        part.double(2, score(value).unwrap_or(0.0));
        score(value).is_some()
    })
}

/// Decodes 1 name, and 2 all or 3 some (1 values).
pub(super) fn remove(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    let Some(some) = message.message(3)? else { return common::delete_whole(message, 2, b"ZCARD") };
    if some.all(1).next().is_none() {
        return Err(CallError::invalid("the request has no values; name at least one, or all"));
    }
    let mut commands = Commands::default();
    commands.add_words(&[b"ZREM", key], some.all(1).collect::<Vec<_>>().into_iter());
    Ok(CallPlan::new(commands, |_| done()))
}

/// Decodes 1 name, 2 value, 3 amount, 4 time to live in ms, 5 refresh. Replies 1 the new score.
pub(super) fn increment(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (key, amount) = (key(message)?, score_text(message.try_double(3).unwrap_or(0.0))?);
    let commands = Commands::one(&[b"ZINCRBY", key, amount.as_bytes(), message.bytes(2)]);
    Ok(change(key, &CollectionTtl::of(message, 4, 5)?, commands, |replies| {
        let score = score(replies[0]).ok_or_else(CallError::unexpected)?;
        reply(|out| {
            out.double(1, score);
        })
    }))
}

/// Decodes 1 name, 2 value, 3 order (1: descending). Replies 1 element (1 result, 2 rank): Momento's client for Python
/// takes `missing` as an error.
pub(super) fn read_rank(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (key, value) = (key(message)?, message.bytes(2));
    let name: &[u8] = if message.uint(3) == 1 { b"ZREVRANK" } else { b"ZRANK" };
    Ok(CallPlan::one(&[name, key, value], |rank| {
        reply(|out| {
            out.message(1, |element| {
                match rank {
                    Value::Int(rank) => element.uint(1, HIT).int(2, rank),
                    _ => element.uint(1, MISS),
                };
            });
        })
    }))
}

/// Decodes 1 name. Replies 1 found (1 length) or 2 missing.
pub(super) fn length(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::one(&[b"ZCARD", key(message)?], |length| length_reply(integer(length)?)))
}

/// Decodes 1 name, 2 inclusive or 3 exclusive least score or 4 none, 5 inclusive or 6 exclusive greatest score or
/// 7 none. Replies 1 found (1 length) or 2 missing.
pub(super) fn length_by_score(message: Message<'_>) -> Result<CallPlan, CallError> {
    let bound = |inclusive: u32, endless: &str| -> Result<String, CallError> {
        match (message.try_double(inclusive), message.try_double(inclusive + 1)) {
            (Some(score), _) => score_text(score),
            (None, Some(score)) => Ok(format!("({}", score_text(score)?)),
            (None, None) => Ok(endless.into()),
        }
    };
    let (key, least, greatest) = (key(message)?, bound(2, "-inf")?, bound(5, "+inf")?);
    let mut commands = Commands::one(&[b"EXISTS", key]);
    commands.add(&[b"ZCOUNT", key, least.as_bytes(), greatest.as_bytes()]);
    Ok(CallPlan::transaction(&commands, |replies| {
        if replies[0] == Value::Int(0) {
            return missing();
        }
        let length = integer(replies[1])?;
        reply(|out| {
            out.message(1, |found| {
                found.int(1, length);
            });
        })
    }))
}

/// Decodes 1 name, 2 sources (1 name, 2 weight), 3 function (0 sum, 1 least, 2 greatest), 4 time to live in ms. Replies
/// 1 length.
pub(super) fn union_store(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (key, ttl_ms) = (key(message)?, ttl_ms(message, 4)?);
    let (mut sources, mut weights) = (Vec::new(), Vec::new());
    for source in message.all(2) {
        let source = message.part(source)?;
        sources.push(common::key(source)?);
        weights.push(score_text(f64::from(source.try_float(2).unwrap_or(0.0)))?);
    }
    if sources.is_empty() {
        return Err(CallError::invalid("the request has no sources; name at least one"));
    }
    let count = sources.len().to_string();
    let function: &[u8] = match message.uint(3) {
        1 => b"MIN",
        2 => b"MAX",
        _ => b"SUM",
    };
    let mut words = vec![count.as_bytes()];
    words.extend(sources);
    words.push(b"WEIGHTS");
    words.extend(weights.iter().map(String::as_bytes));
    words.extend([b"AGGREGATE", function]);
    let mut commands = Commands::default();
    commands.add_words(&[b"ZUNIONSTORE", key], words.into_iter());
    commands.add(&[b"PEXPIRE", key, ttl_ms.as_bytes()]);
    Ok(CallPlan::transaction(&commands, |replies| {
        let length = integer(replies[0])?;
        reply(|out| {
            out.int(1, length);
        })
    }))
}
