//! Writes payloads of DUMP, in encodings that Redis 7.0 and all later servers read.
//!
//! Lists, sets, sorted sets and hashes are not packed: a server packs them again if they are small. Streams have the
//! second form. Only hashes whose fields expire need a format of newer servers: that of Redis 7.4, or of Valkey 9.

mod payload;
mod stream;
mod write;

use crate::dump::{VERSION, sealed};
use crate::event::{Element, ValueType};
use crate::value::kind;
use stream::StreamEncoder;
use write::{CountedParts, length, scored, string};

pub use payload::{CountedElement, PayloadWriter};
pub use write::Misplaced;

/// The servers for which hashes with expiring fields are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldTimes {
    /// Redis 7.4 and later.
    #[default]
    Redis,
    /// Valkey 9 and later.
    Valkey,
}

/// The version of payloads that contain a hash with expiring fields, of Redis 7.4.
const REDIS_FIELD_TIMES_VERSION: u16 = 12;
/// The version of such payloads, of Valkey 9.
const VALKEY_FIELD_TIMES_VERSION: u16 = 80;

/// Encodes a value, element by element, in the order in which a reader returns the elements.
#[derive(Debug)]
pub struct Encoder {
    value_type: ValueType,
    times: FieldTimes,
    parts: CountedParts,
    /// The expiries of a hash's fields, and where each field begins, if any field expires.
    expiries: Vec<(u64, usize)>,
    expires: bool,
    stream: StreamEncoder,
}

impl Encoder {
    /// Creates an encoder for a value of this type.
    pub fn new(value_type: ValueType, times: FieldTimes) -> Self {
        Self {
            value_type,
            times,
            parts: CountedParts::default(),
            expiries: Vec::new(),
            expires: false,
            stream: StreamEncoder::default(),
        }
    }

    /// Appends an element.
    ///
    /// # Errors
    /// [`Misplaced`] if the value's type has no such element, or has none here.
    pub fn add(&mut self, element: &Element<'_>) -> Result<(), Misplaced> {
        match (self.value_type, element) {
            (ValueType::String, Element::Text(text)) if self.parts.count == 0 => string(self.parts.part(), text),
            (ValueType::List | ValueType::Set, Element::Member(member)) => string(self.parts.part(), member),
            (ValueType::SortedSet, Element::Scored { member, score }) => {
                scored(self.parts.part(), member, *score);
            }
            (ValueType::Hash, Element::Field { name, value, expire_at_ms }) => {
                // 0 stands for no expiry, and 1 is as long ago.
                self.expiries.push((expire_at_ms.map_or(0, |at| at.max(1)), self.parts.bytes.len()));
                self.expires |= expire_at_ms.is_some();
                let out = self.parts.part();
                string(out, name);
                string(out, value);
            }
            (ValueType::Stream, element) => return self.stream.add(element),
            _ => return Err(Misplaced),
        }
        Ok(())
    }

    /// Returns the payload.
    ///
    /// # Errors
    /// [`Misplaced`] if an element is missing: the text of a string, the totals of a stream, or all.
    pub fn finish(mut self) -> Result<Vec<u8>, Misplaced> {
        if self.parts.count == 0 && self.value_type != ValueType::Stream {
            return Err(Misplaced);
        }
        let mut out = Vec::with_capacity(self.parts.bytes.len() + 32);
        if self.expires {
            return Ok(self.expiring_hash());
        }
        let kind = match self.value_type {
            ValueType::String => kind::TEXT,
            ValueType::List => kind::LIST,
            ValueType::Set => kind::SET,
            ValueType::SortedSet => kind::SORTED_SET,
            ValueType::Hash => kind::HASH,
            ValueType::Stream => kind::STREAM,
            ValueType::Module => return Err(Misplaced),
        };
        out.push(kind);
        match self.value_type {
            ValueType::String => out.append(&mut self.parts.bytes),
            ValueType::Stream => self.stream.finish(&mut out)?,
            _ => self.parts.flush(&mut out),
        }
        Ok(sealed(out, VERSION))
    }

    fn expiring_hash(self) -> Vec<u8> {
        let fields = &self.parts.bytes;
        let ends = self.expiries.iter().skip(1).map(|(_, begin)| *begin).chain([fields.len()]);
        let each = self.expiries.iter().zip(ends).map(|((expiry, begin), end)| (*expiry, &fields[*begin..end]));
        let mut out = Vec::with_capacity(fields.len() + 16 + 9 * self.expiries.len());
        if self.times == FieldTimes::Valkey {
            out.push(22);
            length(&mut out, self.parts.count);
            for (expiry, field) in each {
                out.extend_from_slice(field);
                let expiry = if expiry == 0 { -1 } else { i64::try_from(expiry).unwrap_or(i64::MAX) };
                out.extend_from_slice(&expiry.to_le_bytes());
            }
            return sealed(out, VALKEY_FIELD_TIMES_VERSION);
        }
        let earliest = self.expiries.iter().map(|(expiry, _)| *expiry).filter(|expiry| *expiry > 0).min().unwrap_or(0);
        out.push(kind::EXPIRING_HASH);
        out.extend_from_slice(&earliest.to_le_bytes());
        length(&mut out, self.parts.count);
        for (expiry, field) in each {
            length(&mut out, if expiry == 0 { 0 } else { expiry - earliest + 1 });
            out.extend_from_slice(field);
        }
        sealed(out, REDIS_FIELD_TIMES_VERSION)
    }
}
