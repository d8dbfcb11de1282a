//! Encodes items as lines of JSON, in the format of `docs/format/dump.md`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use record::{Digits, Record, Value};
use serde_json::{Map, Value as Json, json};

use super::{ExportedItem, ValueReply, name_text};
use crate::shared::Shared;
use base::clock::UnixMillis;

/// The version of the dump format.
const VERSION: u32 = 1;

/// Encodes bytes: text as a string, and other bytes as base64.
pub(super) fn bytes(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// Encodes an item as one line.
pub fn line(entry: &ExportedItem<'_>, now: UnixMillis) -> String {
    let mut fields = Map::new();
    fields.insert("namespace".to_owned(), json!(entry.namespace.0));
    fields.insert("key".to_owned(), bytes(entry.key));
    if entry.client_flags != 0 {
        fields.insert("flags".to_owned(), json!(entry.client_flags));
    }
    if let Some(ends) = entry.ends {
        fields.insert("ends_ms".to_owned(), json!(ends.0));
    }
    match &entry.value {
        ValueReply::Bytes(value) => {
            fields.insert("value".to_owned(), bytes(value));
        }
        ValueReply::Record(record) => write_record(&mut fields, record, now),
        ValueReply::Collection(member) => {
            let mut line = Json::Object(fields).to_string();
            line.truncate(line.len() - 1);
            return line + "," + member + "}";
        }
    }
    Json::Object(fields).to_string()
}

fn write_record(fields: &mut Map<String, Json>, record: &Record<'_>, now: UnixMillis) {
    if let Some(set) = record.set() {
        fields.insert("set".to_owned(), bytes(set.set().name()));
    }
    if record.revision() > 0 {
        fields.insert("revision".to_owned(), json!(record.revision()));
    }
    let bins = record.bins(now.0).filter_map(Result::ok).map(|bin| {
        let mut digits = Digits::default();
        let (name, value) = (bytes(name_text(&bin.name, &mut digits)), value(&bin.value));
        match bin.end_ms {
            Some(ends) => json!([name, value, ends]),
            None => json!([name, value]),
        }
    });
    fields.insert("bins".to_owned(), bins.collect());
}

/// Encodes a bin's value. A value of a type that JSON lacks becomes an object whose key is the type's name.
fn value(of: &Value<'_>) -> Json {
    match of {
        Value::Integer(number) => json!(number),
        Value::Float(number) => json!({ "float": number }),
        Value::Bool(truth) => json!(truth),
        Value::Text(text) => bytes(text),
        Value::Bytes(raw) => json!({ "bytes": STANDARD.encode(raw) }),
        Value::List(list) => list.values().map(|one| value(&one)).collect(),
        Value::Map(map) => {
            json!({ "map": map.pairs().map(|(key, of)| json!([value(&key), value(&of)])).collect::<Vec<_>>() })
        }
    }
}

/// Encodes the format version, and the names of namespaces and of sets of records.
pub(super) fn names(shared: &Shared) -> Vec<String> {
    let mut lines = vec![json!({ "gannet_dump": VERSION }).to_string()];
    for config in shared.namespaces.named() {
        lines.push(json!({ "namespace_name": config.name, "namespace": config.number }).to_string());
    }
    lines
}
