//! Writes payloads of DUMP, in encodings that Redis 7.0 and all later servers read.
//!
//! Lists, sets, sorted sets and hashes are not packed: a server packs them again if they are small. Streams have the
//! second form. Only hashes whose fields expire need a format of newer servers: that of Redis 7.4, or of Valkey 9.

mod payload;

use std::fmt;

use crate::dump::{VERSION, sealed};
use crate::event::{Element, StreamId, StreamTotals, ValueType};
use crate::packed::back_bytes;
use crate::stream::SAME_FIELDS;
use crate::value::kind;

pub use payload::PayloadWriter;

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
/// Highest number of entries and of bytes of a stream's node, as the defaults of Redis.
const NODE_ENTRIES_MAX: i64 = 100;
const NODE_BYTES_MAX: usize = 4096;

/// An element that does not fit the value's type, or its place in the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misplaced;

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an element does not fit the type of its value")
    }
}

impl std::error::Error for Misplaced {}

/// Appends a length.
fn length(out: &mut Vec<u8>, length: u64) {
    match length {
        0..=0x3F => out.push(length as u8),
        0x40..=0x3FFF => out.extend_from_slice(&(0x4000 | length as u16).to_be_bytes()),
        0x4000..=0xFFFF_FFFF => {
            out.push(0x80);
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
        _ => {
            out.push(0x81);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
}

/// Appends a string; a number of up to 32 bits takes 2 to 5 bytes.
fn string(out: &mut Vec<u8>, text: &[u8]) {
    match base::decimal::parse_signed(text) {
        Some(number) if i8::try_from(number).is_ok() => out.extend_from_slice(&[0xC0, number as u8]),
        Some(number) if i16::try_from(number).is_ok() => {
            out.push(0xC1);
            out.extend_from_slice(&(number as i16).to_le_bytes());
        }
        Some(number) if i32::try_from(number).is_ok() => {
            out.push(0xC2);
            out.extend_from_slice(&(number as i32).to_le_bytes());
        }
        _ => raw(out, text),
    }
}

/// Appends a string as it is.
fn raw(out: &mut Vec<u8>, text: &[u8]) {
    length(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Appends a member of a sorted set with its score.
fn scored(out: &mut Vec<u8>, member: &[u8], score: f64) {
    string(out, member);
    out.extend_from_slice(&score.to_bits().to_le_bytes());
}

fn id_as_lengths(out: &mut Vec<u8>, id: StreamId) {
    length(out, id.ms);
    length(out, id.seq);
}

fn id_as_bytes(out: &mut Vec<u8>, id: StreamId) {
    out.extend_from_slice(&id.ms.to_be_bytes());
    out.extend_from_slice(&id.seq.to_be_bytes());
}

/// A list of parts whose number precedes them.
#[derive(Debug, Default)]
struct CountedParts {
    count: u64,
    bytes: Vec<u8>,
}

impl CountedParts {
    /// Counts a part, and returns the bytes to append it to.
    fn part(&mut self) -> &mut Vec<u8> {
        self.count += 1;
        &mut self.bytes
    }

    /// Appends the number and the parts to `out`, and becomes empty.
    fn flush(&mut self, out: &mut Vec<u8>) {
        length(out, self.count);
        out.append(&mut self.bytes);
        self.count = 0;
    }
}

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
            ValueType::Stream => 19,
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

/// The fields of an entry: names and values alternate.
#[derive(Debug, Default)]
struct Fields {
    bytes: Vec<u8>,
    /// The end of each string.
    ends: Vec<usize>,
}

impl Fields {
    fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    fn text(&self, at: usize) -> &[u8] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[begin..self.ends[at]]
    }

    fn texts(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|at| self.text(at))
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).step_by(2).map(|at| self.text(at))
    }

    fn values(&self) -> impl Iterator<Item = &[u8]> {
        (1..self.ends.len()).step_by(2).map(|at| self.text(at))
    }
}

/// A listpack that is being written.
#[derive(Debug, Default)]
struct Listpack {
    bytes: Vec<u8>,
    count: usize,
}

impl Listpack {
    fn number(&mut self, number: i64) {
        let begin = self.bytes.len();
        let out = &mut self.bytes;
        match number {
            0..=127 => out.push(number as u8),
            -4096..=4095 => out.extend_from_slice(&(0xC000 | (number as u16 & 0x1FFF)).to_be_bytes()),
            -32_768..=32_767 => {
                out.push(0xF1);
                out.extend_from_slice(&(number as i16).to_le_bytes());
            }
            -8_388_608..=8_388_607 => {
                out.push(0xF2);
                out.extend_from_slice(&number.to_le_bytes()[..3]);
            }
            -2_147_483_648..=2_147_483_647 => {
                out.push(0xF3);
                out.extend_from_slice(&(number as i32).to_le_bytes());
            }
            _ => {
                out.push(0xF4);
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        self.end(begin);
    }

    fn text(&mut self, text: &[u8]) {
        if let Some(number) = base::decimal::parse_signed(text) {
            return self.number(number);
        }
        let begin = self.bytes.len();
        match text.len() {
            len @ 0..=63 => self.bytes.push(0x80 | len as u8),
            len @ 64..=4095 => self.bytes.extend_from_slice(&(0xE000 | len as u16).to_be_bytes()),
            len => {
                self.bytes.push(0xF0);
                self.bytes.extend_from_slice(&(len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(text);
        self.end(begin);
    }

    /// Appends the length of the element that began at `begin`: 7 bits a byte, the highest first; all bytes but the
    /// first have the highest bit.
    fn end(&mut self, begin: usize) {
        let len = self.bytes.len() - begin;
        let bytes = back_bytes(len);
        for at in (0..bytes).rev() {
            let bits = (len >> (7 * at)) as u8 & 0x7F;
            self.bytes.push(if at + 1 == bytes { bits } else { bits | 0x80 });
        }
        self.count += 1;
    }

    /// Appends the whole listpack to `out`, as a string.
    fn finish(self, out: &mut Vec<u8>) {
        let bytes = self.bytes.len() + 7;
        length(out, bytes as u64);
        out.extend_from_slice(&(bytes as u32).to_le_bytes());
        out.extend_from_slice(&u16::try_from(self.count).unwrap_or(u16::MAX).to_le_bytes());
        out.extend_from_slice(&self.bytes);
        out.push(0xFF);
    }
}

/// A node of a stream that is being written.
#[derive(Debug)]
struct StreamNode {
    id: StreamId,
    /// The fields of the first entry, whose names other entries may share.
    first: Fields,
    entries: Listpack,
    count: i64,
}

impl StreamNode {
    /// Appends an entry to the node.
    fn add(&mut self, id: StreamId, fields: &Fields, is_first: bool) {
        let shares = is_first || self.first.names().eq(fields.names());
        let out = &mut self.entries;
        let before = out.count;
        out.number(if shares { SAME_FIELDS } else { 0 });
        out.number(id.ms.wrapping_sub(self.id.ms).cast_signed());
        out.number(id.seq.wrapping_sub(self.id.seq).cast_signed());
        if shares {
            fields.values().for_each(|value| out.text(value));
        } else {
            out.number((fields.ends.len() / 2) as i64);
            fields.texts().for_each(|text| out.text(text));
        }
        out.number((out.count - before) as i64);
        self.count += 1;
    }

    /// Appends the node to `out`.
    fn finish(self, out: &mut Vec<u8>) {
        let mut head = Listpack::default();
        head.number(self.count);
        head.number(0);
        head.number((self.first.ends.len() / 2) as i64);
        self.first.names().for_each(|name| head.text(name));
        head.number(0);
        head.bytes.extend_from_slice(&self.entries.bytes);
        head.count += self.entries.count;
        length(out, 16);
        id_as_bytes(out, self.id);
        head.finish(out);
    }
}

/// The state of a stream that is being written.
#[derive(Debug, Default)]
struct StreamEncoder {
    nodes: CountedParts,
    node: Option<StreamNode>,
    entry: Option<(StreamId, Fields)>,
    totals: Option<StreamTotals>,
    first_id: Option<StreamId>,
    groups: CountedParts,
    in_group: bool,
    /// The pending entries of the current group: id, time of delivery, number of deliveries.
    pending: Vec<(StreamId, u64, u64)>,
    consumers: CountedParts,
    in_consumer: bool,
    owned: CountedParts,
}

impl StreamEncoder {
    fn add(&mut self, element: &Element<'_>) -> Result<(), Misplaced> {
        match *element {
            Element::Entry(id) if self.totals.is_none() => {
                self.end_entry();
                self.first_id.get_or_insert(id);
                self.entry = Some((id, Fields::default()));
            }
            Element::Field { name, value, .. } => {
                let (_, fields) = self.entry.as_mut().ok_or(Misplaced)?;
                fields.push(name);
                fields.push(value);
            }
            Element::Totals(totals) if self.totals.is_none() => {
                self.end_entry();
                self.end_node();
                self.totals = Some(totals);
            }
            Element::Group { name, last_id, entries_read } if self.totals.is_some() => {
                self.end_group();
                self.in_group = true;
                let out = self.groups.part();
                raw(out, name);
                id_as_lengths(out, last_id);
                length(out, entries_read.unwrap_or(u64::MAX));
            }
            Element::Pending { id, delivered_at_ms, deliveries } if self.in_group => {
                self.pending.push((id, delivered_at_ms, deliveries));
            }
            Element::Consumer { name, seen_at_ms, .. } if self.in_group => {
                self.end_consumer();
                self.in_consumer = true;
                let out = self.consumers.part();
                raw(out, name);
                out.extend_from_slice(&seen_at_ms.to_le_bytes());
            }
            Element::Owned(id) if self.in_consumer => id_as_bytes(self.owned.part(), id),
            // The encoding has no pending entries without a consumer, so they count as acknowledged.
            Element::Unowned(id) if self.in_group => self.forget_pending(id),
            // The encoding has no place for producers.
            Element::Producer(_) | Element::Produced { .. } => {}
            _ => return Err(Misplaced),
        }
        Ok(())
    }

    fn end_entry(&mut self) {
        let Some((id, fields)) = self.entry.take() else { return };
        let is_full = |node: &StreamNode| node.count >= NODE_ENTRIES_MAX || node.entries.bytes.len() >= NODE_BYTES_MAX;
        if self.node.as_ref().is_some_and(is_full) {
            self.end_node();
        }
        match &mut self.node {
            Some(node) => node.add(id, &fields, false),
            None => {
                let mut node = StreamNode { id, first: Fields::default(), entries: Listpack::default(), count: 0 };
                node.add(id, &fields, true);
                node.first = fields;
                self.node = Some(node);
            }
        }
    }

    fn end_node(&mut self) {
        if let Some(node) = self.node.take() {
            node.finish(self.nodes.part());
        }
    }

    fn end_consumer(&mut self) {
        if std::mem::take(&mut self.in_consumer) {
            self.owned.flush(&mut self.consumers.bytes);
        }
    }

    /// Removes a pending entry. They are in the order of their ids.
    fn forget_pending(&mut self, id: StreamId) {
        if let Ok(at) = self.pending.binary_search_by_key(&id, |(id, ..)| *id) {
            self.pending.remove(at);
        }
    }

    fn end_group(&mut self) {
        self.end_consumer();
        if std::mem::take(&mut self.in_group) {
            let out = &mut self.groups.bytes;
            length(out, self.pending.len() as u64);
            for (id, delivered_at_ms, deliveries) in self.pending.drain(..) {
                id_as_bytes(out, id);
                out.extend_from_slice(&delivered_at_ms.to_le_bytes());
                length(out, deliveries);
            }
            self.consumers.flush(&mut self.groups.bytes);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Misplaced> {
        let totals = self.totals.ok_or(Misplaced)?;
        self.end_group();
        self.nodes.flush(out);
        length(out, totals.length);
        id_as_lengths(out, totals.last_id);
        id_as_lengths(out, totals.first_id.or(self.first_id).unwrap_or_default());
        id_as_lengths(out, totals.max_deleted_id);
        length(out, totals.entries_added);
        self.groups.flush(out);
        Ok(())
    }
}
