//! Reads the files that Redis and Valkey save: whole keys with their values and expiries.
//!
//! Strings and hashes become values. Lists, sets, sorted sets and streams become payloads of `RESTORE`, or are listed
//! for a comparison. Values of modules are skipped, so that they can be counted.

use std::cmp::Ordering;
use std::io::Read;

use ::rdb::{Element, Encoder, Event, FieldTimes, FileReader, Key, ReadLimits, ValueType};
use base::clock::UnixMillis;
use serde::{Deserialize, Serialize};

use crate::item::HashField;

pub use ::rdb::{Checked, Damage, What, check};

/// Content of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A string.
    Bytes(Vec<u8>),
    /// A hash: its fields in the file's order.
    Hash(Vec<HashField>),
    /// A value of another type: the type's name as in `TYPE`, and a payload of `RESTORE`.
    Dump(&'static str, Vec<u8>),
    /// A value of another type: the type's name as in `TYPE`, and its elements, in an order that is the same for equal
    /// values.
    Elements(&'static str, Vec<Vec<u8>>),
    /// A value that was skipped; the type's name as in `TYPE`.
    Passed(&'static str),
}

/// A key of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdbEntry {
    /// The number of the database.
    pub db: u32,
    /// The key.
    pub key: Vec<u8>,
    /// Time at which the key expires.
    pub expire_at: Option<UnixMillis>,
    /// Content of the key.
    pub content: Content,
}

/// A position of a reader between two entries. It is sufficient to resume in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Bytes from the start of the file.
    pub offset: u64,
    /// The database of the entries from here on.
    pub db: u32,
    /// The version of the file.
    pub version: u32,
}

/// The part of a value that has been read.
enum Collected {
    Bytes(Vec<u8>),
    Hash(Vec<HashField>),
    Dump(Box<Encoder>),
    Elements(Vec<Vec<u8>>),
    Scores(Vec<(Vec<u8>, f64)>),
}

impl Collected {
    fn new(value_type: ValueType, is_listed: bool) -> Self {
        match value_type {
            ValueType::SortedSet if is_listed => Self::Scores(Vec::new()),
            ValueType::List | ValueType::Set | ValueType::Stream if is_listed => Self::Elements(Vec::new()),
            ValueType::String => Self::Bytes(Vec::new()),
            ValueType::Hash => Self::Hash(Vec::new()),
            other => Self::Dump(Box::new(Encoder::new(other, FieldTimes::default()))),
        }
    }

    fn add(&mut self, element: &Element<'_>) {
        match (self, element) {
            (Self::Bytes(bytes), Element::Text(text)) => bytes.extend_from_slice(text),
            (Self::Hash(fields), Element::Field { name, value, expire_at_ms }) => {
                let expire_at = expire_at_ms.map(UnixMillis);
                fields.push(HashField { expire_at, ..HashField::new(name.to_vec(), value.to_vec()) });
            }
            (Self::Elements(elements), Element::Member(member)) => elements.push(member.to_vec()),
            (Self::Elements(elements), Element::Entry(id)) => elements.push(id.to_string().into_bytes()),
            (Self::Elements(elements), Element::Field { name, value, .. }) => {
                elements.extend([name.to_vec(), value.to_vec()]);
            }
            (Self::Scores(scores), Element::Scored { member, score }) => scores.push((member.to_vec(), *score)),
            // An element that a payload cannot contain belongs to a module, whose value is skipped at the end.
            (Self::Dump(encoder), element) => drop(encoder.add(element)),
            _ => {}
        }
    }

    fn end(self, value_type: ValueType) -> Content {
        match self {
            Self::Bytes(bytes) => Content::Bytes(bytes),
            Self::Hash(fields) => Content::Hash(fields),
            Self::Dump(encoder) => match encoder.finish() {
                Ok(payload) => Content::Dump(value_type.name(), payload),
                Err(_) => Content::Passed(value_type.name()),
            },
            Self::Elements(mut elements) => {
                if value_type == ValueType::Set {
                    elements.sort_unstable();
                }
                Content::Elements(value_type.name(), elements)
            }
            Self::Scores(mut scores) => {
                // The order of `ZRANGE`; a file has another one.
                scores.sort_unstable_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal).then(a.0.cmp(&b.0)));
                let elements = scores.into_iter().flat_map(|(member, score)| [member, same_score(score)]);
                Content::Elements(value_type.name(), elements.collect())
            }
        }
    }
}

/// Returns the text of a score in a comparison. Servers write the same score in different ways.
pub(crate) fn same_score(score: f64) -> Vec<u8> {
    format!("{score:e}").into_bytes()
}

/// Reads the entries in the file's order.
pub struct RdbReader<R> {
    reader: FileReader<R>,
    is_listed: bool,
}

impl<R: Read> RdbReader<R> {
    /// Creates a reader at the start of a file.
    ///
    /// # Errors
    /// [`Damage`] if the input is not such a file, or has an unknown version.
    pub fn new(input: R) -> Result<Self, Damage> {
        Ok(Self { reader: FileReader::new(input, ReadLimits::default())?, is_listed: false })
    }

    /// Creates a reader at `mark`; the caller has positioned `input` there.
    pub fn resume(input: R, mark: Mark) -> Self {
        let mark = ::rdb::Mark { offset: mark.offset, db: mark.db, version: mark.version };
        Self { reader: FileReader::resume(input, mark, ReadLimits::default()), is_listed: false }
    }

    /// Sets whether lists, sets, sorted sets and streams are read as [`Content::Elements`] instead of payloads.
    pub const fn list_elements(&mut self, is_listed: bool) {
        self.is_listed = is_listed;
    }

    /// Returns the reader's position, at which the next entry begins.
    pub const fn mark(&self) -> Mark {
        let mark = self.reader.mark();
        Mark { offset: mark.offset, db: mark.db, version: mark.version }
    }

    /// Returns the next key, if there is one. If `is_wanted` returns false for its database and key, its value is
    /// skipped to save memory.
    ///
    /// # Errors
    /// [`Damage`] if the file ends early or is invalid. The reader cannot be used afterwards.
    pub fn next(&mut self, mut is_wanted: impl FnMut(u32, &[u8]) -> bool) -> Result<Option<RdbEntry>, Damage> {
        while let Some(event) = self.reader.next_event()? {
            let Event::Key(Key { db, name, value_type, expire_at_ms, .. }) = event else { continue };
            let (key, expire_at) = (name.to_vec(), expire_at_ms.map(UnixMillis));
            let content = if is_wanted(db, &key) {
                self.value(value_type)?
            } else {
                self.reader.skip_value()?;
                Content::Passed(value_type.name())
            };
            return Ok(Some(RdbEntry { db, key, expire_at, content }));
        }
        Ok(None)
    }

    fn value(&mut self, value_type: ValueType) -> Result<Content, Damage> {
        let mut collected = Collected::new(value_type, self.is_listed);
        while let Some(Event::Element(element)) = self.reader.next_event()? {
            collected.add(&element);
        }
        Ok(collected.end(value_type))
    }
}
