//! The encodings that `OBJECT ENCODING` reports: those that Redis 7.0 gives to a new value with this content, with the
//! limits that `CONFIG SET` has set. They have no effect on how the server stores values.
//!
//! ```text
//!   string      int: a whole number        embstr: at most 44 bytes              raw
//!   list        quicklist
//!   set         intset: at most 512 whole numbers                                hashtable
//!   hash        listpack: at most 512 fields, no field or value above 64 bytes   hashtable
//!   sorted set  listpack: at most 128 elements, none above 64 bytes              skiplist
//!   stream      stream
//! ```
//!
//! Redis does not return to the encoding of a small value when a value shrinks, and a string is `raw` once `APPEND`,
//! `SETRANGE` or `SETBIT` has changed it. The server has no such history.

use super::collection;
use super::typed::{self, KeyParts, View};
use crate::resp::call::{Call, Interrupt};
use record::{Damaged, Digits, Kind, Record, SetValue, SortedSetValue, SortedSets, TextSets};
use segment::{Item, Key, Value};

/// The maximum length of a string that Redis stores beside the key's object.
const EMBEDDED_BYTES_MAX: usize = 44;
/// The maximum number of elements of a value that are read for its encoding. A larger value has the encoding of large
/// ones, whatever the limit.
const READ_MAX: u64 = 512;

/// The limits of a listpack: the number of its elements, and the length in bytes of each.
#[derive(Clone, Copy)]
struct ListpackLimits {
    elements: u64,
    bytes: u64,
}

impl ListpackLimits {
    fn of(call: &Call<'_, '_>, elements: &str, bytes: &str) -> Self {
        let hints = &call.ctx.shared.live.hints;
        Self { elements: hints.number(elements).min(READ_MAX), bytes: hints.number(bytes) }
    }

    fn allows(self, value: &record::Value<'_>) -> bool {
        value.text(&mut Digits::new()).len() as u64 <= self.bytes
    }
}

/// The number below which Redis shares the objects of whole numbers among keys, unless keys are evicted.
const SHARED_NUMBERS: i64 = 10_000;

/// Returns true for a value whose object Redis shares among keys.
pub(super) fn shared_number(item: &Item<'_>) -> bool {
    let number = match item.value {
        Value::Integer(number) => i64::try_from(number).ok(),
        Value::Bytes(bytes) => base::decimal::parse_signed(bytes),
        _ => None,
    };
    number.is_some_and(|number| (0..SHARED_NUMBERS).contains(&number))
}

/// Returns the encoding of a key's value. Reads at most 512 elements.
pub(super) fn encoding_of(call: &Call<'_, '_>, key: Key<'_>, item: &Item<'_>) -> Result<&'static str, Interrupt> {
    let kind = match item.value {
        Value::Integer(_) => return Ok("int"),
        Value::Bytes(bytes) if base::decimal::parse_signed(bytes).is_some() => return Ok("int"),
        // Redis writes a HyperLogLog into a buffer of its own, whatever its length.
        Value::Bytes(bytes) if record::hyperloglog::is_dense(bytes).is_ok() => return Ok("raw"),
        Value::Bytes(bytes) if bytes.len() <= EMBEDDED_BYTES_MAX => return Ok("embstr"),
        Value::Typed { kind, .. } => Kind::of(kind),
        _ => None,
    };
    let (Some(kind), view) = (kind, call.ctx.view()) else { return Ok("raw") };
    let parts = KeyParts::new(call.guard, key);
    Ok(match kind.name() {
        "list" => "quicklist",
        "hash" => {
            let record = typed::opened(Some(item), view, &parts)?;
            let limits = ListpackLimits::of(call, "hash-max-listpack-entries", "hash-max-listpack-value");
            if record.map_or(Ok(true), |record| is_listpack(&record, view, limits))? { "listpack" } else { "hashtable" }
        }
        "set" => {
            let set = collection::opened::<TextSets>(Some(item), &parts)?;
            let most = call.ctx.shared.live.hints.number("set-max-intset-entries").min(READ_MAX);
            if set.map_or(Ok(true), |set| is_intset(&set, most))? { "intset" } else { "hashtable" }
        }
        "zset" => {
            let set = collection::opened::<SortedSets>(Some(item), &parts)?;
            let limits = ListpackLimits::of(call, "zset-max-listpack-entries", "zset-max-listpack-value");
            if set.map_or(Ok(true), |set| is_sorted_listpack(&set, limits))? { "listpack" } else { "skiplist" }
        }
        other => other,
    })
}

fn is_listpack(record: &Record<'_>, view: View<'_>, limits: ListpackLimits) -> Result<bool, Damaged> {
    if record.count_at_most(view.now_ms)? as u64 > limits.elements {
        return Ok(false);
    }
    for bin in record.bins(view.now_ms) {
        let bin = bin?;
        if !limits.allows(&bin.name) || !limits.allows(&bin.value) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_intset(set: &SetValue<'_>, most: u64) -> Result<bool, Damaged> {
    if set.len() > most {
        return Ok(false);
    }
    for element in set.from(0)? {
        if !matches!(element?, record::Value::Integer(_)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_sorted_listpack(set: &SortedSetValue<'_>, limits: ListpackLimits) -> Result<bool, Damaged> {
    if set.len() > limits.elements {
        return Ok(false);
    }
    for element in set.from(0)? {
        if !limits.allows(&element?.1) {
            return Ok(false);
        }
    }
    Ok(true)
}
