//! Reads the messages of replies by the numbers in `proto/gannet/v1/cache.proto`.

use protocol::grpc::protobuf::{DecodeError, Message};

use super::super::super::model::Verb;
use super::super::exchange::{AnswerReader, FIELD_SHIFT, field_number};
use super::super::route::RequestForm;

/// The value of a `Result` for a key that was found.
const RESULT_HIT: u64 = 2;
/// The value of a `Result` for a key that was not found.
const RESULT_MISS: u64 = 3;

const MALFORMED: &str = "the reply's message does not follow the schema";

/// Reads message number `index` of the reply to a request.
pub(super) fn read(answer: &mut AnswerReader<'_>, index: u32, bytes: &[u8]) -> Result<(), &'static str> {
    let RequestForm::Grpc(call) = &answer.route.wire else { return Err(MALFORMED) };
    let verb = call.verb;
    if index >= answer.route.keys.max(1) {
        return Err("the reply has more messages than requested keys");
    }
    let malformed = |_: DecodeError| MALFORMED;
    let message = Message::parse(bytes).map_err(malformed)?;
    let number = answer.pending.key & ((1 << FIELD_SHIFT) - 1);
    match verb {
        Verb::Get => return get(answer, index, message),
        Verb::Add | Verb::Replace if message.try_bytes(2).is_some() => answer.state.missed(),
        Verb::Touch if message.try_bytes(3).is_some() => answer.state.missed(),
        Verb::HashGet | Verb::HashMultiGet => match message.message(1).map_err(malformed)? {
            None => answer.missed(0, 1),
            Some(found) => return fields(answer, verb, found),
        },
        Verb::HashGetAll => match message.message(1).map_err(malformed)? {
            None => answer.missed(0, 1),
            Some(found) => {
                answer.follow.found(answer.route, number, None);
                return pairs(answer, found);
            }
        },
        _ => {}
    }
    Ok(())
}

/// Reads the reply to a request for key `index`.
#[inline]
fn get(answer: &mut AnswerReader<'_>, index: u32, message: Message<'_>) -> Result<(), &'static str> {
    match message.uint(1) {
        RESULT_HIT => {
            let number = answer.key_at(index);
            answer.follow.found(answer.route, number, None);
            let mark = if answer.verify { answer.space.mark(number, 0) } else { 0 };
            value(answer, mark, message.bytes(2));
            Ok(())
        }
        RESULT_MISS => {
            answer.missed(index, index + 1);
            Ok(())
        }
        _ => Err("the reply says neither hit nor miss"),
    }
}

/// Counts a value, and compares it if requested.
fn value(answer: &mut AnswerReader<'_>, mark: u64, bytes: &[u8]) {
    answer.pending.read_bytes += bytes.len() as u64;
    if answer.verify {
        answer.state.value_begins(true);
        answer.state.compare(&answer.space.values, mark, bytes.len() as u64, bytes);
    }
}

/// Reads the values of the requested fields, in their order.
fn fields(answer: &mut AnswerReader<'_>, verb: Verb, found: Message<'_>) -> Result<(), &'static str> {
    let number = answer.pending.key & ((1 << FIELD_SHIFT) - 1);
    let first = (answer.pending.key >> FIELD_SHIFT) as u32;
    let wanted = if verb == Verb::HashGet { 1 } else { answer.named() };
    let mut count = 0;
    for item in found.all(1) {
        let item = Message::parse(item).map_err(|_| MALFORMED)?;
        let field = (first + count) % answer.space.fields;
        count += 1;
        match item.uint(1) {
            RESULT_HIT => {
                if verb == Verb::HashGet {
                    answer.follow.found(answer.route, number, None);
                }
                let mark = answer.space.mark(number, field);
                value(answer, mark, item.bytes(2));
            }
            // One missing field causes one store of the whole dictionary.
            RESULT_MISS if !answer.state.has_missed() => answer.missed(0, 1),
            RESULT_MISS => {}
            _ => return Err("the reply says neither hit nor miss"),
        }
    }
    if count == wanted { Ok(()) } else { Err("the reply has another number of fields than requested") }
}

/// Reads all fields of a dictionary with their values.
fn pairs(answer: &mut AnswerReader<'_>, found: Message<'_>) -> Result<(), &'static str> {
    let number = answer.pending.key & ((1 << FIELD_SHIFT) - 1);
    for item in found.all(1) {
        let item = Message::parse(item).map_err(|_| MALFORMED)?;
        match field_number(item.bytes(1)).filter(|field| *field < answer.space.fields) {
            Some(field) => {
                let mark = answer.space.mark(number, field);
                value(answer, mark, item.bytes(2));
            }
            None if answer.verify => answer.state.wrong(),
            None => answer.pending.read_bytes += item.bytes(2).len() as u64,
        }
    }
    Ok(())
}
