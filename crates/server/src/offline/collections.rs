//! Encodes lists, sets, sorted sets and streams as members of a JSON object, in the format of `docs/format/dump.md`.
//!
//! A collection is encoded element by element into one text, which is as long as its line in the dump.

use std::fmt::Write;

use record::{
    Collection, Damaged, Digits, Kind, Lists, SortedSets, Source, StreamGroup, StreamId, StreamValue, Streams,
    TextSets, Value,
};

use super::json;

/// Encodes a collection. Returns `None` if a value of this kind is a hash or a record.
///
/// # Errors
/// [`Damaged`], also if a part of the collection is lost.
pub(super) fn member(kind: Kind, bytes: &[u8], source: &dyn Source) -> Result<Option<String>, Damaged> {
    let mut out = String::new();
    match kind {
        Kind::List | Kind::LargeList => {
            out.push_str("\"list\":");
            list(&mut out, Lists::open(kind, bytes, source)?.from(0)?, text)?;
        }
        Kind::Set | Kind::LargeSet => {
            out.push_str("\"members\":");
            list(&mut out, TextSets::open(kind, bytes, source)?.from(0)?, text)?;
        }
        Kind::SortedSet | Kind::LargeSortedSet => {
            out.push_str("\"scores\":");
            list(&mut out, SortedSets::open(kind, bytes, source)?.from(0)?, |out, (score, member)| {
                out.push('[');
                text(out, member)?;
                // JSON has no infinite numbers.
                if score.is_finite() {
                    put(out, format_args!(",{score}]"))
                } else {
                    put(out, format_args!(",\"{score}\"]"))
                }
                Ok(())
            })?;
        }
        Kind::Stream | Kind::LargeStream => {
            out.push_str("\"stream\":");
            stream(&mut out, &Streams::open(kind, bytes, source)?)?;
        }
        Kind::Hash | Kind::InSet | Kind::Large | Kind::LargeInSet => return Ok(None),
    }
    Ok(Some(out))
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes what is written");
}

fn text(out: &mut String, value: Value<'_>) -> Result<(), Damaged> {
    put_bytes(out, value.text(&mut Digits::default()));
    Ok(())
}

fn put_bytes(out: &mut String, bytes: &[u8]) {
    put(out, format_args!("{}", json::bytes(bytes)));
}

/// Writes an array whose elements `write` writes.
fn list<T>(
    out: &mut String,
    elements: impl Iterator<Item = Result<T, Damaged>>,
    mut write: impl FnMut(&mut String, T) -> Result<(), Damaged>,
) -> Result<(), Damaged> {
    out.push('[');
    for (number, element) in elements.enumerate() {
        if number > 0 {
            out.push(',');
        }
        write(out, element?)?;
    }
    out.push(']');
    Ok(())
}

fn stream(out: &mut String, stream: &StreamValue<'_>) -> Result<(), Damaged> {
    let state = stream.state();
    put(out, format_args!("{{\"last_id\":\"{}\",\"added\":{}", id(state.last), state.added));
    put(out, format_args!(",\"greatest_deleted_id\":\"{}\",\"entries\":", id(state.deleted_max)));
    list(out, stream.from(0)?, |out, entry| {
        put(out, format_args!("[\"{}\",", id(entry.id)));
        list(out, entry.words(), text)?;
        out.push(']');
        Ok(())
    })?;
    out.push_str(",\"groups\":");
    let groups = (0..state.groups).map(|at| stream.groups().at(at));
    list(out, groups, |out, (name, found)| group(out, stream, name, &found))?;
    out.push('}');
    Ok(())
}

fn group(out: &mut String, stream: &StreamValue<'_>, name: &[u8], found: &StreamGroup) -> Result<(), Damaged> {
    out.push_str("{\"name\":");
    put_bytes(out, name);
    put(out, format_args!(",\"last_id\":\"{}\"", id(found.last)));
    if let Some(read) = found.read {
        put(out, format_args!(",\"read\":{read}"));
    }
    out.push_str(",\"consumers\":");
    list(out, stream.groups().consumers(found.number)?, |out, (name, consumer)| {
        out.push_str("{\"name\":");
        put_bytes(out, name);
        put(out, format_args!(",\"seen_ms\":{},\"pending\":", consumer.seen_ms));
        let owned = stream.groups().owned_from(consumer.number, StreamId::MIN)?;
        list(out, owned, |out, entry| {
            let pending = stream.groups().pending(found.number, entry)?.ok_or(Damaged)?;
            let (delivered_ms, deliveries) = (pending.delivered_ms, pending.deliveries);
            put(out, format_args!("[\"{}\",{delivered_ms},{deliveries}]", id(entry)));
            Ok(())
        })?;
        out.push('}');
        Ok(())
    })?;
    out.push('}');
    Ok(())
}

fn id(id: StreamId) -> String {
    format!("{}-{}", id.ms, id.seq)
}
