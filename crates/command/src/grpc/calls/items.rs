//! Calls on items with one value.

use super::PlainCall;
use super::common::{self, HIT, MISS, OK, done, key, ttl, ttl_ms};
use crate::grpc::plan::{CallError, CallPlan, Commands, Flow, Next, add_command, add_message, integer, reply};
use protocol::grpc::Status;
use protocol::grpc::protobuf::{Encoder, Message};
use protocol::number::Decimal;
use protocol::resp::client::Value;

/// The maximum number of fields of a get or set that is executed together with others.
const PLAIN_FIELDS_MAX: u32 = 16;

/// The time to live of an item that never ends, in ms.
const ENDLESS_MS: u64 = i64::MAX as u64;

/// Writes the answer to a get: 1 result, 2 value.
fn write_value(value: Value<'_>) -> impl FnOnce(&mut Encoder) {
    move |out| {
        match value.text() {
            Some(text) => out.uint(1, HIT).bytes(2, text),
            None => out.uint(1, MISS),
        };
    }
}

/// Decodes 1 key.
pub(super) fn get(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::one(&[b"GET", key(message)?], |value| reply(write_value(value))))
}

/// The fields of a get or set.
pub(in crate::grpc) struct PlainItem<'b> {
    key: &'b [u8],
    /// The value of a set, and its time to live in ms.
    value: Option<(&'b [u8], u64)>,
}

impl PlainItem<'_> {
    /// Appends the Redis command.
    pub(in crate::grpc) fn add_command(&self, requests: &mut Vec<u8>) {
        match self.value {
            None => add_command(requests, 2, [b"GET", self.key].into_iter()),
            Some((value, ttl_ms)) => {
                let ttl_ms = Decimal::new(ttl_ms);
                let words = [b"SET", self.key, value, b"PX", ttl_ms.as_slice()];
                add_command(requests, words.len(), words.into_iter());
            }
        }
    }
}

/// Decodes the message of a get or set. One with more fields than its schema has is not decoded.
pub(in crate::grpc) fn plain_item(call: PlainCall, message: &[u8]) -> Result<PlainItem<'_>, CallError> {
    let message = Message::parse_short(message, PLAIN_FIELDS_MAX)?;
    let value = match call {
        PlainCall::Get => None,
        PlainCall::Set => Some((message.bytes(2), ttl(message, 3)?)),
    };
    Ok(PlainItem { key: key(message)?, value })
}

/// Decodes 1 requests of [`get`]. Replies with a message for each, in order.
pub(super) fn read_batch(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut commands = Commands::default();
    for request in message.all(1) {
        commands.add(&[b"GET", key(message.part(request)?)?]);
    }
    Ok(CallPlan::new(commands, |replies| {
        let mut messages = Vec::new();
        replies.iter().for_each(|value| add_message(&mut messages, write_value(*value)));
        Ok(Flow::Reply(messages))
    }))
}

fn add_set(commands: &mut Commands, message: Message<'_>) -> Result<(), CallError> {
    commands.add(&[b"SET", key(message)?, message.bytes(2), b"PX", ttl_ms(message, 3)?.as_bytes()]);
    Ok(())
}

/// Decodes 1 key, 2 value, 3 time to live in ms. Replies 1 result.
pub(super) fn set(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut commands = Commands::default();
    add_set(&mut commands, message)?;
    Ok(CallPlan::new(commands, |_| {
        reply(|out| {
            out.uint(1, OK);
        })
    }))
}

/// Decodes 1 requests of [`set`]. Replies with a message for each, in order.
pub(super) fn set_batch(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut commands = Commands::default();
    for request in message.all(1) {
        add_set(&mut commands, message.part(request)?)?;
    }
    Ok(CallPlan::new(commands, |replies| {
        let mut messages = Vec::new();
        for _ in replies {
            add_message(&mut messages, |out| {
                out.uint(1, OK);
            });
        }
        Ok(Flow::Reply(messages))
    }))
}

/// Decodes 1 key.
pub(super) fn delete(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::one(&[b"DEL", key(message)?], |_| done()))
}

/// Decodes 1 keys. Replies 1 existence of each.
pub(super) fn keys_exist(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut commands = Commands::default();
    message.all(1).for_each(|key| commands.add(&[b"EXISTS", key]));
    Ok(CallPlan::new(commands, |replies| {
        reply(|out| {
            out.packed_bools(1, replies.iter().map(|exists| *exists == Value::Int(1)));
        })
    }))
}

/// Decodes 1 key, 2 amount, 3 time to live in ms. Replies 1 the sum.
pub(super) fn increment(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    let mut commands = Commands::one(&[b"INCRBY", key, message.int(2).to_string().as_bytes()]);
    commands.add(&[b"PEXPIRE", key, ttl_ms(message, 3)?.as_bytes()]);
    Ok(CallPlan::transaction(&commands, |replies| {
        let sum = integer(replies[0])?;
        reply(|out| {
            out.int(1, sum);
        })
    }))
}

/// Decodes 1 key. Replies 1 found (1 value, 2 hash) or 2 missing. The hash is the text of `DIGEST`.
pub(super) fn read_with_hash(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    let mut commands = Commands::one(&[b"GET", key]);
    commands.add(&[b"DIGEST", key]);
    Ok(CallPlan::transaction(&commands, |replies| {
        let (value, hash) = (replies[0].text(), replies[1].text().unwrap_or_default());
        reply(|out| {
            match value {
                Some(value) => out.message(1, |found| {
                    found.bytes(1, value).bytes(2, hash);
                }),
                None => out.message(2, |_| {}),
            };
        })
    }))
}

/// A condition of a set: requires or excludes equality with bytes, and requires or allows absence.
#[derive(Debug)]
struct Condition {
    /// The result if the item does not exist.
    if_absent: bool,
    /// The compared bytes, and the result if they are equal. The result is the opposite if they differ.
    compared: Option<(Vec<u8>, bool)>,
    /// The result if the item exists and nothing is compared.
    if_present: bool,
}

impl Condition {
    /// Reads the first condition of those in `fields`: its number, [`Condition::if_absent`], and the result for equal
    /// bytes if it has bytes to compare.
    fn of(message: Message<'_>, fields: &[(u32, bool, Option<bool>)]) -> Result<Self, CallError> {
        for (number, if_absent, if_equal) in fields {
            if let Some(condition) = message.message(*number)? {
                let compared = if_equal.map(|if_equal| (condition.bytes(1).to_vec(), if_equal));
                return Ok(Self { if_absent: *if_absent, compared, if_present: !if_absent });
            }
        }
        Err(CallError::invalid("the request has no condition; give one"))
    }

    fn holds(&self, found: Option<&[u8]>) -> bool {
        match (found, &self.compared) {
            (None, _) => self.if_absent,
            (Some(found), Some((bytes, if_equal))) => (found == &bytes[..]) == *if_equal,
            (Some(_), None) => self.if_present,
        }
    }
}

/// Returns the plan of a set on a condition of the text that the command `probe` reads. Replies 1 stored, with the new
/// digest as its field 1 if `shows_digest`, or 2 not stored.
fn conditional(
    message: Message<'_>,
    probe: &'static [u8],
    condition: Condition,
    shows_digest: bool,
) -> Result<CallPlan, CallError> {
    let (key, mut store) = (key(message)?, Commands::default());
    add_set(&mut store, message)?;
    store.add(&[b"DIGEST", key]);
    let held = store.request.capacity();
    let decide = move |replies: &[Value<'_>]| {
        if condition.holds(replies[0].text()) {
            let mut commands = Commands::default();
            commands.append(&store);
            return Ok(Flow::Execute(commands));
        }
        reply(|out| {
            out.message(2, |_| {});
        })
    };
    let plan = CallPlan::watched(key, &Commands::one(&[probe, key]), decide, move |replies| {
        let digest = replies[1].text().filter(|_| shows_digest).unwrap_or_default();
        reply(|out| {
            out.message(1, |stored| {
                stored.bytes(1, digest);
            });
        })
    });
    Ok(plan.holding(held))
}

/// Decodes 1 key, 2 value, 3 time to live in ms, and a condition: 4 present, 5 present and not equal, 6 absent, 7
/// equal, 8 absent or equal, 9 not equal.
pub(super) fn set_if(message: Message<'_>) -> Result<CallPlan, CallError> {
    const FIELDS: [(u32, bool, Option<bool>); 6] = [
        (4, false, None),
        (5, false, Some(false)),
        (6, true, None),
        (7, false, Some(true)),
        (8, true, Some(true)),
        (9, true, Some(false)),
    ];
    conditional(message, b"GET", Condition::of(message, &FIELDS)?, false)
}

/// Decodes 1 key, 2 value, 3 time to live in ms, and a condition: 4 present and another hash, 5 present and this hash,
/// 6 absent or this hash, 7 absent or another hash, 8 none.
pub(super) fn set_if_hash(message: Message<'_>) -> Result<CallPlan, CallError> {
    const FIELDS: [(u32, bool, Option<bool>); 4] =
        [(4, false, Some(false)), (5, false, Some(true)), (6, true, Some(true)), (7, true, Some(false))];
    let condition = match message.message(8)? {
        Some(_) => Condition { if_absent: true, compared: None, if_present: true },
        None => Condition::of(message, &FIELDS)?,
    };
    conditional(message, b"DIGEST", condition, true)
}

/// Decodes 1 key, 2 value, 3 time to live in ms. Replies 1 stored or 2 not stored.
pub(super) fn set_if_not_exists(message: Message<'_>) -> Result<CallPlan, CallError> {
    let (key, value, ttl_ms) = (key(message)?, message.bytes(2), ttl_ms(message, 3)?);
    Ok(CallPlan::one(&[b"SET", key, value, b"PX", ttl_ms.as_bytes(), b"NX"], |stored| {
        let number = if stored == Value::Null { 2 } else { 1 };
        reply(|out| {
            out.message(number, |_| {});
        })
    }))
}

/// Decodes 1 key, and 2 the least, 3 the greatest or 4 the new time to live in ms. Replies 1 set, 2 not set or
/// 3 missing.
pub(super) fn update_ttl(message: Message<'_>) -> Result<CallPlan, CallError> {
    let key = key(message)?;
    let options: [(u32, &[&[u8]]); 3] = [(2, &[b"GT"]), (3, &[b"LT"]), (4, &[])];
    let given = options.iter().find(|(number, _)| message.try_uint(*number).is_some());
    let (number, option) = given.ok_or_else(|| CallError::invalid("the request has no time to live; give one"))?;
    let ttl_ms = ttl_ms(message, *number)?;
    let mut commands = Commands::one(&[b"EXISTS", key]);
    commands.add_words(&[b"PEXPIRE", key, ttl_ms.as_bytes()], option.iter().copied());
    Ok(CallPlan::transaction(&commands, |replies| {
        let number = match (integer(replies[0])?, integer(replies[1])?) {
            (0, _) => 3,
            (_, 0) => 2,
            _ => 1,
        };
        reply(|out| {
            out.message(number, |_| {});
        })
    }))
}

/// Decodes 1 key. Replies 1 found (1 the time to live in ms) or 2 missing. An item that never ends has
/// [`ENDLESS_MS`].
pub(super) fn item_get_ttl(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::one(&[b"PTTL", key(message)?], |ttl_ms| match integer(ttl_ms)? {
        -2 => common::missing(),
        ttl_ms => reply(|out| {
            out.message(1, |found| {
                found.uint(1, u64::try_from(ttl_ms).unwrap_or(ENDLESS_MS));
            });
        }),
    }))
}

/// Decodes 1 key. Replies 1 found (1 type: 0 value, 1 dictionary, 2 set, 3 list, 4 sorted set) or 2 missing.
pub(super) fn item_get_type(message: Message<'_>) -> Result<CallPlan, CallError> {
    Ok(CallPlan::one(&[b"TYPE", key(message)?], type_reply))
}

fn type_reply(value: Value<'_>) -> Next {
    let number = match value.text().unwrap_or_default() {
        b"none" => return common::missing(),
        b"string" => 0,
        b"hash" => 1,
        b"set" => 2,
        b"list" => 3,
        b"zset" => 4,
        other => {
            let other = String::from_utf8_lossy(other);
            let text = format!("the item is a {other}, which this call cannot name; read it as a Redis client");
            return Err(CallError::new(Status::FailedPrecondition, text));
        }
    };
    reply(|out| {
        out.message(1, |found| {
            found.uint(1, number);
        });
    })
}
