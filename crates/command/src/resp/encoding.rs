//! The encodings that `OBJECT ENCODING` reports: those that Redis 7.0 gives to a new value with this content, with its
//! default limits.
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
/// The maximum number of fields of a hash in a listpack.
const LISTPACK_FIELDS_MAX: usize = 512;
/// The maximum number of elements of a sorted set in a listpack.
const LISTPACK_ELEMENTS_MAX: u64 = 128;
/// The maximum length of a field, of its value and of an element in a listpack.
const LISTPACK_ENTRY_BYTES_MAX: usize = 64;
/// The maximum number of elements of an intset.
const INTSET_ENTRIES_MAX: u64 = 512;

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
            if record.map_or(Ok(true), |record| is_listpack(&record, view))? { "listpack" } else { "hashtable" }
        }
        "set" => {
            let set = collection::opened::<TextSets>(Some(item), &parts)?;
            if set.map_or(Ok(true), |set| is_intset(&set))? { "intset" } else { "hashtable" }
        }
        "zset" => {
            let set = collection::opened::<SortedSets>(Some(item), &parts)?;
            if set.map_or(Ok(true), |set| is_sorted_listpack(&set))? { "listpack" } else { "skiplist" }
        }
        other => other,
    })
}

fn is_listpack(record: &Record<'_>, view: View<'_>) -> Result<bool, Damaged> {
    if record.count_at_most(view.now_ms)? > LISTPACK_FIELDS_MAX {
        return Ok(false);
    }
    for bin in record.bins(view.now_ms) {
        let bin = bin?;
        if !is_short(&bin.name) || !is_short(&bin.value) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_intset(set: &SetValue<'_>) -> Result<bool, Damaged> {
    if set.len() > INTSET_ENTRIES_MAX {
        return Ok(false);
    }
    for element in set.from(0)? {
        if !matches!(element?, record::Value::Integer(_)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_sorted_listpack(set: &SortedSetValue<'_>) -> Result<bool, Damaged> {
    if set.len() > LISTPACK_ELEMENTS_MAX {
        return Ok(false);
    }
    for element in set.from(0)? {
        if !is_short(&element?.1) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_short(value: &record::Value<'_>) -> bool {
    value.text(&mut Digits::new()).len() <= LISTPACK_ENTRY_BYTES_MAX
}
