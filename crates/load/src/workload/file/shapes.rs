//! Parses lengths, key orders and times to live in all their forms.

use std::path::Path;

use base::units::TimeSpan;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::distribution;
use super::reader::{DocumentReader, Section};
use crate::workload::model::{LengthStep, Order, Sizes};
use crate::workload::units::Share;

/// Reads lengths: `"256B"`, `{ from = "64B", to = "1KiB" }`, `[{ bytes = "64B", weight = 3 }, ...]`, `{ file =
/// "sizes.csv" }`, or `{ rows = "..." }` with the lines of such a file.
pub fn sizes<'t>(reader: &mut DocumentReader<'t>, section: &mut Section<'_, 't>, key: &'static str) -> Option<Sizes> {
    const REMEDY: &str = "write \"256B\", { from = \"64B\", to = \"1KiB\" }, [{ bytes = \"64B\", weight = 3 }] \
                          or { file = \"sizes.csv\" }";
    let value = reader.value(section, key)?;
    let name = section.field(key);
    match value.get_ref() {
        DeValue::Table(table) => sizes_table(reader, &name, value, table),
        DeValue::Array(entries) => {
            let mut steps = Vec::new();
            for (at, entry) in entries.iter().enumerate() {
                let path = format!("{name}[{at}]");
                reader.found(&path, entry.span().start);
                match entry.get_ref().as_table() {
                    Some(table) => steps.extend(step(reader, Section::new(path, table), entry)),
                    None => reader.misshapen(&path, entry, "a table", REMEDY),
                }
            }
            Some(Sizes::Steps(steps))
        }
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) => reader.as_bytes(&name, value).map(Sizes::Fixed),
        _ => {
            reader.misshapen(&name, value, "a length", REMEDY);
            None
        }
    }
}

fn sizes_table<'t>(
    reader: &mut DocumentReader<'t>,
    name: &str,
    value: &Spanned<DeValue<'t>>,
    table: &DeTable<'t>,
) -> Option<Sizes> {
    let mut inner = Section::new(name, table);
    let read = if inner.has("file") {
        let file = reader.text(&mut inner, "file")?;
        match distribution::sizes(&reader.folder().join(file)) {
            Ok(sizes) => Some(sizes),
            Err(wrong) => {
                reader.fault(value.span().start, name, wrong.what, wrong.remedy);
                None
            }
        }
    } else if inner.has("rows") {
        let text = reader.text(&mut inner, "rows")?;
        match distribution::sizes_rows(Path::new("rows"), &text) {
            Ok(sizes) => Some(sizes),
            Err(wrong) => {
                reader.fault(value.span().start, name, wrong.what, wrong.remedy);
                None
            }
        }
    } else {
        let (from, to) = (reader.bytes(&mut inner, "from"), reader.bytes(&mut inner, "to"));
        if !(inner.has("from") && inner.has("to")) {
            reader.misshapen(name, value, "a range", "write { from = \"64B\", to = \"1KiB\" }");
        }
        from.zip(to).map(|(from, to)| Sizes::Range(from, to))
    };
    reader.end(inner);
    read
}

fn step<'t>(
    reader: &mut DocumentReader<'t>,
    mut section: Section<'_, 't>,
    value: &Spanned<DeValue<'t>>,
) -> Option<LengthStep> {
    let (from, to) = if section.has("bytes") {
        let bytes = reader.bytes(&mut section, "bytes");
        (bytes, bytes)
    } else {
        (reader.bytes(&mut section, "from"), reader.bytes(&mut section, "to"))
    };
    if !(section.has("bytes") || section.has("from") && section.has("to")) {
        let path = section.path.clone();
        reader.misshapen(&path, value, "a length with its weight", "write { bytes = \"64B\", weight = 3 }");
    }
    let weight = reader.number(&mut section, "weight").unwrap_or(1.0);
    reader.end(section);
    Some(LengthStep { from: from?, to: to?, weight })
}

/// Reads an order of keys: a name, or a table with one entry, such as `{ zipf = 0.99 }`.
pub fn order<'t>(reader: &mut DocumentReader<'t>, section: &mut Section<'_, 't>, key: &'static str) -> Option<Order> {
    const REMEDY: &str = "write \"uniform\", \"sequential\", { zipf = 0.99 }, { latest = 0.99 }, { scan = 100 }, \
                          { hot = { keys = \"10%\", requests = \"90%\" } } or { popularity = \"pop.json\" }";
    let value = reader.value(section, key)?;
    let name = section.field(key);
    let table = match value.get_ref() {
        DeValue::String(word) if word == "uniform" => return Some(Order::Uniform),
        DeValue::String(word) if word == "sequential" => return Some(Order::Sequential),
        DeValue::Table(table) if table.len() == 1 => table,
        _ => {
            reader.misshapen(&name, value, "an order of keys", REMEDY);
            return None;
        }
    };
    let mut inner = Section::new(name.as_str(), table);
    let order = if inner.has("zipf") {
        reader.number(&mut inner, "zipf").map(|exponent| Order::Zipf { exponent })
    } else if inner.has("latest") {
        reader.number(&mut inner, "latest").map(|exponent| Order::Latest { exponent })
    } else if inner.has("scan") {
        reader.count(&mut inner, "scan").map(|length| Order::Scan { length })
    } else if inner.has("hot") {
        let mut hot = reader.table(&mut inner, "hot")?;
        let keys = reader.share(&mut hot, "keys").unwrap_or(Share(0.1));
        let requests = reader.share(&mut hot, "requests").unwrap_or(Share(0.9));
        reader.end(hot);
        Some(Order::Hot { keys, requests })
    } else if inner.has("popularity") {
        let file = reader.text(&mut inner, "popularity")?;
        match distribution::popularity(&reader.folder().join(file)) {
            Ok(groups) => Some(Order::Groups(groups)),
            Err(wrong) => {
                reader.fault(value.span().start, &name, wrong.what, wrong.remedy);
                None
            }
        }
    } else if inner.has("popularity_rows") {
        let text = reader.text(&mut inner, "popularity_rows")?;
        match distribution::popularity_rows(Path::new("popularity_rows"), &text) {
            Ok(groups) => Some(Order::Groups(groups)),
            Err(wrong) => {
                reader.fault(value.span().start, &name, wrong.what, wrong.remedy);
                None
            }
        }
    } else {
        None
    };
    reader.end(inner);
    order
}

/// Reads times to live: `"1h"`, or `[{ ttl = "1h", weight = 3 }, ...]`.
pub fn ttl<'t>(
    reader: &mut DocumentReader<'t>,
    section: &mut Section<'_, 't>,
    key: &'static str,
) -> Option<Vec<(TimeSpan, f64)>> {
    const REMEDY: &str = "write \"1h\", or [{ ttl = \"1h\", weight = 3 }]";
    let value = reader.value(section, key)?;
    let name = section.field(key);
    let DeValue::Array(entries) = value.get_ref() else {
        return reader.as_span(&name, value).map(|ttl| vec![(ttl, 1.0)]);
    };
    let mut ttls = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let path = format!("{name}[{at}]");
        reader.found(&path, entry.span().start);
        let Some(table) = entry.get_ref().as_table() else {
            reader.misshapen(&path, entry, "a table", REMEDY);
            continue;
        };
        let mut inner = Section::new(path.as_str(), table);
        let weight = reader.number(&mut inner, "weight").unwrap_or(1.0);
        match reader.span(&mut inner, "ttl") {
            Some(ttl) => ttls.push((ttl, weight)),
            None if inner.has("ttl") => {}
            None => reader.misshapen(&path, entry, "a time to live", REMEDY),
        }
        reader.end(inner);
    }
    Some(ttls)
}
