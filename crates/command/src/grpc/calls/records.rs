//! Calls on records: named bins with types, revisions and filters.

use super::common::{key, time_ms};
use crate::grpc::plan::{CallError, CallPlan, Commands, integer, reply};
use protocol::grpc::protobuf::{Encoder, Message};
use protocol::resp::client::Value;

/// The maximum depth of lists and maps within a value, as for Redis clients.
const DEPTH_MAX: usize = 8;

/// The words of a command.
#[derive(Default)]
struct Words(Vec<Vec<u8>>);

impl Words {
    fn add(&mut self, word: impl AsRef<[u8]>) -> &mut Self {
        self.0.push(word.as_ref().to_vec());
        self
    }

    fn command(&self, first: [&[u8]; 2]) -> Commands {
        let mut commands = Commands::default();
        commands.add_words(&first, self.0.iter().map(Vec::as_slice));
        commands
    }

    /// Adds the type and the text of a value: 1 integer, 2 number, 3 boolean, 4 text, 5 binary, 6 list (1 values), 7
    /// map (1 entries: 1 key, 2 value). `levels` lists and maps contain the value.
    fn add_value(&mut self, value: Message<'_>, levels: usize) -> Result<(), CallError> {
        if let Some(integer) = value.try_sint(1) {
            self.add("INT").add(integer.to_string());
        } else if let Some(number) = value.try_double(2) {
            self.add("FLOAT").add(number.to_string());
        } else if let Some(boolean) = value.try_uint(3) {
            self.add("BOOL").add(if boolean == 0 { "0" } else { "1" });
        } else if let Some(text) = value.try_bytes(4) {
            self.add("STR").add(text);
        } else if let Some(binary) = value.try_bytes(5) {
            self.add("BYTES").add(binary);
        } else if let Some(list) = value.message(6)? {
            let levels = one_more(levels)?;
            self.add("LIST").add(list.all(1).count().to_string());
            for item in list.all(1) {
                self.add_value(list.part(item)?, levels)?;
            }
        } else if let Some(map) = value.message(7)? {
            let levels = one_more(levels)?;
            self.add("MAP").add(map.all(1).count().to_string());
            for entry in map.all(1) {
                let entry = map.part(entry)?;
                self.add(entry.bytes(1));
                self.add_value(entry.message(2)?.ok_or_else(no_value)?, levels)?;
            }
        } else {
            return Err(no_value());
        }
        Ok(())
    }

    /// Adds the condition on the revision: the field with the revision itself, or that with one below it.
    fn add_revision(&mut self, message: Message<'_>, numbers: [u32; 2]) -> Result<(), CallError> {
        match numbers.map(|number| message.try_uint(number)) {
            [Some(_), Some(_)] => {
                let text = "the request has if_revision and if_revision_above; give one of them";
                return Err(CallError::invalid(text));
            }
            [Some(revision), None] => self.add("IFREV").add(revision.to_string()),
            [None, Some(revision)] => self.add("IFGT").add(revision.to_string()),
            [None, None] => self,
        };
        Ok(())
    }

    /// Adds `BINS` and the bins in a field (1 name, 2 value), if there are any.
    fn add_bins(&mut self, message: Message<'_>, number: u32) -> Result<(), CallError> {
        for (place, bin) in message.all(number).enumerate() {
            let bin = message.part(bin)?;
            if place == 0 {
                self.add("BINS");
            }
            self.add(bin.bytes(1));
            self.add_value(bin.message(2)?.ok_or_else(no_value)?, 0)?;
        }
        Ok(())
    }

    /// Adds the options of a read: the filter in one field, and the names of bins in another.
    fn add_view(&mut self, message: Message<'_>, filter: u32, names: u32) {
        self.add("TYPED");
        if !message.bytes(filter).is_empty() {
            self.add("FILTER").add(message.bytes(filter));
        }
        if message.all(names).next().is_some() {
            self.add("BINS");
            message.all(names).for_each(|name| {
                self.add(name);
            });
        }
    }
}

/// Returns the number of levels of the values in a list or map that `levels` others contain.
fn one_more(levels: usize) -> Result<usize, CallError> {
    if levels == DEPTH_MAX {
        return Err(CallError::invalid(format!("a value has more than {DEPTH_MAX} levels of lists and maps")));
    }
    Ok(levels + 1)
}

fn no_value() -> CallError {
    CallError::invalid("a bin has no value; give a number, a boolean, a text, bytes, a list or a map")
}

/// Adds a value of a reply. `kind` is its type if the reply names it: a text of a list or map may be binary.
fn add_value(out: &mut Encoder, kind: &[u8], value: Value<'_>) {
    match value {
        Value::Int(integer) => out.one_of_uint(1, ((integer << 1) ^ (integer >> 63)).cast_unsigned()),
        Value::Double(number) => out.one_of_double(2, number),
        Value::Boolean(boolean) => out.one_of_uint(3, u64::from(boolean)),
        Value::Array(items) => out.message(6, |list| {
            items.for_each(|item| {
                list.message(1, |out| add_value(out, b"", item));
            });
        }),
        Value::Map(items) => out.message(7, |map| {
            let entries: Vec<Value<'_>> = items.collect();
            for entry in entries.chunks_exact(2) {
                map.message(1, |out| {
                    out.bytes(1, entry[0].text().unwrap_or_default()).message(2, |out| add_value(out, b"", entry[1]));
                });
            }
        }),
        value => {
            let text = value.text().unwrap_or_default();
            let is_text = kind != b"BYTES" && std::str::from_utf8(text).is_ok();
            out.item(if is_text { 4 } else { 5 }, text)
        }
    };
}

/// Adds a record: 1 key if it is named, 2 revision, 3 the instant at which it expires in ms since 1970 (0: never), 4
/// bins (1 name, 2 value).
fn add_record(out: &mut Encoder, name: &[u8], parts: &[Value<'_>]) -> Result<(), CallError> {
    let [revision, expires, bins] = parts else { return Err(CallError::unexpected()) };
    out.bytes(1, name).int(2, integer(*revision)?).int(3, integer(*expires)?.max(0));
    let bins: Vec<Value<'_>> = bins.items().collect();
    for bin in bins.chunks_exact(2) {
        let typed: Vec<Value<'_>> = bin[1].items().collect();
        let [kind, value] = match typed[..] {
            // The request names a bin that the record does not have.
            [] => continue,
            [kind, value] => [kind, value],
            _ => return Err(CallError::unexpected()),
        };
        out.message(4, |out| {
            out.bytes(1, bin[0].text().unwrap_or_default());
            out.message(2, |out| add_value(out, kind.text().unwrap_or_default(), value));
        });
    }
    Ok(())
}

/// Decodes 1 key, 2 filter, 3 names of bins. Replies 1 the record, or 2 missing.
pub(super) fn read(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut words = Words::default();
    words.add_view(message, 2, 3);
    let plan = CallPlan::new(words.command([b"REC.GET", key(message)?]), |replies| {
        let parts: Vec<Value<'_>> = replies[0].items().collect();
        if parts.is_empty() {
            return super::common::missing();
        }
        let mut record = Encoder::new();
        add_record(&mut record, b"", &parts)?;
        reply(|out| {
            out.item(1, record.as_slice());
        })
    });
    Ok(plan.with_types())
}

/// Returns the plan of a change: 1 key, 2 bins, 3 time to live in ms, 4 persist, 5 condition (1 create, 2 update, 3
/// replace), 6 revision is, 7 revision is above, 8 set, 9 filter. Replies 1 revision.
fn change(message: Message<'_>, command: &[u8]) -> Result<CallPlan, CallError> {
    let mut words = Words::default();
    match message.uint(5) {
        1 => words.add("CREATE"),
        2 => words.add("UPDATE"),
        3 => words.add("REPLACE"),
        _ => &mut words,
    };
    words.add_revision(message, [6, 7])?;
    if message.uint(3) > 0 && message.uint(4) != 0 {
        return Err(CallError::invalid("the request sets a time to live and removes it; give ttl_ms or persist"));
    }
    if message.uint(3) > 0 {
        words.add("PX").add(time_ms(message, 3).to_string());
    }
    if message.uint(4) != 0 {
        words.add("PERSIST");
    }
    for (number, word) in [(8, "IN"), (9, "FILTER")] {
        if !message.bytes(number).is_empty() {
            words.add(word).add(message.bytes(number));
        }
    }
    words.add_bins(message, 2)?;
    Ok(CallPlan::new(words.command([command, key(message)?]), |replies| {
        let revision = integer(replies[0])?;
        reply(|out| {
            out.int(1, revision);
        })
    }))
}

/// Sets bins. See [`change`].
pub(super) fn put(message: Message<'_>) -> Result<CallPlan, CallError> {
    change(message, b"REC.PUT")
}

/// Adds to numbers. See [`change`].
pub(super) fn add(message: Message<'_>) -> Result<CallPlan, CallError> {
    change(message, b"REC.ADD")
}

/// Appends to texts and bytes. See [`change`].
pub(super) fn append(message: Message<'_>) -> Result<CallPlan, CallError> {
    change(message, b"REC.APPEND")
}

/// Changes the time to live and the revision alone. See [`change`].
pub(super) fn touch(message: Message<'_>) -> Result<CallPlan, CallError> {
    if message.all(2).next().is_some() {
        return Err(CallError::invalid("RecordTouch changes no bins; use RecordPut"));
    }
    change(message, b"REC.TOUCH")
}

/// Decodes 1 key, 2 revision is, 3 revision is above. Replies 1 true if there was a record.
pub(super) fn delete(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut words = Words::default();
    words.add_revision(message, [2, 3])?;
    Ok(CallPlan::new(words.command([b"REC.DEL", key(message)?]), |replies| {
        let count = integer(replies[0])?;
        reply(|out| {
            out.int(1, count);
        })
    }))
}

/// Returns the plan of a page of records. Replies 1 cursor (empty at the end), 2 records.
fn page(commands: Commands) -> CallPlan {
    let plan = CallPlan::new(commands, |replies| {
        let parts: Vec<Value<'_>> = replies[0].items().collect();
        let [cursor, records] = parts[..] else { return Err(CallError::unexpected()) };
        let mut page = Encoder::new();
        page.bytes(1, cursor.text().filter(|cursor| *cursor != b"0").unwrap_or_default());
        for record in records.items() {
            let parts: Vec<Value<'_>> = record.items().collect();
            let (name, parts) = parts.split_first().ok_or_else(CallError::unexpected)?;
            let mut record = Encoder::new();
            add_record(&mut record, name.text().unwrap_or_default(), parts)?;
            page.item(2, record.as_slice());
        }
        reply(|out| {
            out.append(&page);
        })
    });
    plan.with_types()
}

/// Decodes 1 set, 2 cursor (empty at the start), 3 maximum number, 4 filter, 5 names of bins. Replies a [`page`].
pub(super) fn scan(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut words = Words::default();
    words.add(if message.bytes(2).is_empty() { b"0" } else { message.bytes(2) });
    if message.uint(3) > 0 {
        words.add("COUNT").add(message.uint(3).to_string());
    }
    words.add_view(message, 4, 5);
    Ok(page(words.command([b"REC.SCAN", message.bytes(1)])))
}

/// Returns the text of a value of an index, which is an integer, a text or bytes.
fn indexed_value(value: Message<'_>) -> Result<Vec<u8>, CallError> {
    let text = value.try_bytes(4).or_else(|| value.try_bytes(5));
    match (value.try_sint(1), text) {
        (Some(integer), _) => Ok(integer.to_string().into_bytes()),
        (None, Some(text)) => Ok(text.to_vec()),
        (None, None) => Err(CallError::invalid("an index has integers and texts only; give one of them")),
    }
}

/// Decodes 1 set, 2 bin, 3 equal or 4 least and 5 greatest value, 6 cursor (empty at the start), 7 maximum number, 8
/// filter, 9 names of bins. Replies a [`page`].
pub(super) fn query(message: Message<'_>) -> Result<CallPlan, CallError> {
    let mut words = Words::default();
    words.add(message.bytes(2));
    match (message.message(3)?, message.message(4)?, message.message(5)?) {
        (Some(equal), None, None) => words.add("EQ").add(indexed_value(equal)?),
        (None, Some(least), Some(greatest)) => {
            words.add("BETWEEN").add(indexed_value(least)?).add(indexed_value(greatest)?)
        }
        _ => return Err(CallError::invalid("give a value, or the least and the greatest one")),
    };
    if message.uint(7) > 0 {
        words.add("LIMIT").add(message.uint(7).to_string());
    }
    if !message.bytes(6).is_empty() {
        words.add("AFTER").add(message.bytes(6));
    }
    words.add_view(message, 8, 9);
    Ok(page(words.command([b"REC.QUERY", message.bytes(1)])))
}
