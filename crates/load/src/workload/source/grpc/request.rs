//! Writes the messages of requests by the numbers in `proto/gannet/v1/cache.proto`.

use protocol::grpc::protobuf::{put_varint, varint_len};

use super::super::super::model::Verb;
use super::super::exchange::{RequestDraft, field_name};
use super::super::space::Space;

/// The field of a counter; stores never write it.
const COUNT_FIELD: &[u8] = b"n";

/// The time to live of keys that do not expire, in milliseconds: a year. A call that stores needs one.
const UNLIMITED_MS: u64 = 365 * 86_400_000;

/// The tags of the fields, with their types.
mod tag {
    pub(super) const BYTES_1: u8 = 0x0a;
    pub(super) const BYTES_2: u8 = 0x12;
    pub(super) const NUMBER_2: u8 = 0x10;
    pub(super) const NUMBER_3: u8 = 0x18;
    pub(super) const NUMBER_4: u8 = 0x20;
    pub(super) const MESSAGE_4: u8 = 0x22;
    pub(super) const MESSAGE_6: u8 = 0x32;
}

fn put_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, tag: u8, number: u64) {
    if number > 0 {
        out.push(tag);
        put_varint(out, number);
    }
}

/// Returns a key's time to live in milliseconds.
fn ttl_ms(space: &Space, number: u64) -> u64 {
    match space.ttl_s(number) {
        0 => UNLIMITED_MS,
        ttl_s => ttl_s * 1000,
    }
}

/// Returns the length of a field of `len` bytes.
const fn bytes_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

/// Appends the message of a request. Returns the number of bytes of value in it.
pub(super) fn write(draft: &mut RequestDraft<'_>, verb: Verb, out: &mut Vec<u8>) -> u64 {
    let (number, space, route) = (draft.number(), draft.space, draft.route);
    match verb {
        Verb::Ping => return 0,
        Verb::Get | Verb::Set if route.keys > 1 => return put_items(draft, verb, out),
        Verb::Set => {
            draft.only_key();
            return put_store(draft, number, out);
        }
        _ => {}
    }
    put_bytes(out, tag::BYTES_1, draft.only_key());
    match verb {
        Verb::Add | Verb::Replace => {
            let bytes = put_value(draft, number, out);
            out.extend_from_slice(&[if verb == Verb::Add { tag::MESSAGE_6 } else { tag::MESSAGE_4 }, 0]);
            return bytes;
        }
        Verb::Incr | Verb::Decr => {
            put_number(out, tag::NUMBER_2, amount(route.delta, verb == Verb::Decr));
            put_number(out, tag::NUMBER_3, ttl_ms(space, number));
        }
        Verb::Touch => put_number(out, tag::NUMBER_4, space.ttl_s(number).max(1) * 1000),
        Verb::HashSet => return put_fields(draft, out),
        Verb::HashGet => put_bytes(out, tag::BYTES_2, &field_name(draft.field())),
        Verb::HashMultiGet => put_names(draft, tag::BYTES_2, out),
        Verb::HashDelete => {
            let names = draft.named() as usize * bytes_len(field_name(0).len());
            out.push(tag::BYTES_2);
            put_varint(out, names as u64);
            put_names(draft, tag::BYTES_1, out);
        }
        Verb::HashIncr | Verb::HashDecr => {
            put_bytes(out, tag::BYTES_2, COUNT_FIELD);
            put_number(out, tag::NUMBER_3, amount(route.delta, verb == Verb::HashDecr));
            put_number(out, tag::NUMBER_4, UNLIMITED_MS);
        }
        _ => {}
    }
    0
}

/// Appends the fields of a store whose key is in the draft.
fn put_store(draft: &RequestDraft<'_>, number: u64, out: &mut Vec<u8>) -> u64 {
    put_bytes(out, tag::BYTES_1, draft.key);
    put_value(draft, number, out)
}

/// Appends the value of key `number` and its time to live.
fn put_value(draft: &RequestDraft<'_>, number: u64, out: &mut Vec<u8>) -> u64 {
    let len = draft.space.value_bytes(number, 0);
    out.push(tag::BYTES_2);
    put_varint(out, len);
    draft.space.put_value(number, 0, draft.version, len, out);
    put_number(out, tag::NUMBER_3, ttl_ms(draft.space, number));
    len
}

/// Appends the requests of a batch.
fn put_items(draft: &mut RequestDraft<'_>, verb: Verb, out: &mut Vec<u8>) -> u64 {
    let (space, route) = (draft.space, draft.route);
    let mut bytes = 0;
    for index in 0..route.keys {
        let number = space.key_at(draft.plan.key, index, route.keys);
        draft.key.clear();
        space.text.put(number, draft.key);
        out.push(tag::BYTES_1);
        if verb == Verb::Get {
            put_varint(out, bytes_len(draft.key.len()) as u64);
            put_bytes(out, tag::BYTES_1, draft.key);
            continue;
        }
        let ttl_len = 1 + varint_len(ttl_ms(space, number));
        let len = bytes_len(draft.key.len()) + bytes_len(space.value_bytes(number, 0) as usize) + ttl_len;
        put_varint(out, len as u64);
        bytes += put_store(draft, number, out);
    }
    bytes
}

/// Appends the names of the fields of a request.
fn put_names(draft: &RequestDraft<'_>, tag: u8, out: &mut Vec<u8>) {
    let first = draft.field();
    for index in 0..draft.named() {
        put_bytes(out, tag, &field_name((first + index) % draft.space.fields));
    }
}

/// Appends the fields of a dictionary with their values.
fn put_fields(draft: &mut RequestDraft<'_>, out: &mut Vec<u8>) -> u64 {
    let (number, space) = (draft.number(), draft.space);
    let first = draft.field();
    let mut bytes = 0;
    for index in 0..draft.named() {
        let field = (first + index) % space.fields;
        let (name, len) = (field_name(field), space.value_bytes(number, field));
        out.push(tag::BYTES_2);
        put_varint(out, (bytes_len(name.len()) + bytes_len(len as usize)) as u64);
        put_bytes(out, tag::BYTES_1, &name);
        out.push(tag::BYTES_2);
        put_varint(out, len);
        space.put_value(number, field, draft.version, len, out);
        bytes += len;
    }
    put_number(out, tag::NUMBER_3, UNLIMITED_MS);
    bytes
}

/// Returns the amount of a change as a number of type int64.
const fn amount(delta: u64, is_decrement: bool) -> u64 {
    let delta = delta.cast_signed();
    if is_decrement { delta.wrapping_neg().cast_unsigned() } else { delta.cast_unsigned() }
}
