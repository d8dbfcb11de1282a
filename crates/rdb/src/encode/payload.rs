//! Payloads that are written in steps.

use super::REDIS_FIELD_TIMES_VERSION;
use super::stream::{self, NodeWriter};
use super::write::{Misplaced, id_as_bytes, length, scored, string};
use crate::dump::{FOOTER_BYTES, VERSION};
use crate::event::{StreamId, StreamTotals};
use crate::sum::RunningSum;
use crate::value::kind;

/// Bytes of the longest head of a payload: its type, the earliest expiry, and a length.
const HEAD_BYTES_MAX: usize = 1 + 8 + 9;

/// An element of a stream, with the numbers of the elements that follow it, in the order of [`crate::Element`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedElement<'a> {
    /// The begin of an entry.
    Entry(StreamId),
    /// A field of the current entry.
    Field {
        /// The field's name.
        name: &'a [u8],
        /// The field's value.
        value: &'a [u8],
    },
    /// Facts about the whole stream, behind its entries.
    Totals {
        /// The facts.
        totals: StreamTotals,
        /// The number of groups, which follow.
        groups: u64,
    },
    /// The begin of a group.
    Group {
        /// The group's name.
        name: &'a [u8],
        /// The id of the last delivered entry.
        last_id: StreamId,
        /// The number of entries that the group has read, if known.
        entries_read: Option<u64>,
        /// The number of pending entries, which follow.
        pending: u64,
    },
    /// A pending entry of the current group.
    Pending {
        /// The entry.
        id: StreamId,
        /// Time of the last delivery, in milliseconds since 1970.
        delivered_at_ms: u64,
        /// The number of deliveries.
        deliveries: u64,
    },
    /// The number of consumers of the current group, which follow its pending entries.
    Consumers(u64),
    /// The begin of a consumer.
    Consumer {
        /// The consumer's name.
        name: &'a [u8],
        /// Time of the last request, in milliseconds since 1970.
        seen_at_ms: u64,
        /// The number of its pending entries, which follow.
        owned: u64,
    },
    /// A pending entry of the current consumer.
    Owned(StreamId),
}

/// Writes the payload of a value in steps, behind room for bytes that the caller writes before it. No step
/// takes time that grows with the value.
#[derive(Debug)]
pub struct PayloadWriter {
    bytes: Vec<u8>,
    kind: u8,
    version: u16,
    /// The length of the string, or the number of elements.
    count: u64,
    /// The entries of a stream.
    entries: NodeWriter,
    /// The earliest expiry of the fields, if any of them expires.
    earliest: Option<u64>,
    /// The first byte of the value, behind the room and the longest head; the first byte of the payload; and the end of
    /// the bytes that are in the checksum.
    value: usize,
    start: usize,
    summed: usize,
    sum: RunningSum,
    is_complete: bool,
}

impl PayloadWriter {
    /// Creates a writer for a string of `len` bytes, behind `room` bytes.
    pub fn text(len: u64, room: usize) -> Self {
        Self::new(kind::TEXT, VERSION, len, None, room)
    }

    /// Creates a writer for a hash, behind `room` bytes. `earliest` is the earliest expiry of its fields in ms since
    /// 1970, if any of them expires. The payload is then in the format of Redis 7.4.
    pub fn hash(earliest: Option<u64>, room: usize) -> Self {
        match earliest {
            None => Self::new(kind::HASH, VERSION, 0, None, room),
            Some(_) => Self::new(kind::EXPIRING_HASH, REDIS_FIELD_TIMES_VERSION, 0, earliest, room),
        }
    }

    /// Creates a writer for a list, behind `room` bytes.
    pub fn list(room: usize) -> Self {
        Self::new(kind::LIST, VERSION, 0, None, room)
    }

    /// Creates a writer for a set, behind `room` bytes.
    pub fn set(room: usize) -> Self {
        Self::new(kind::SET, VERSION, 0, None, room)
    }

    /// Creates a writer for a sorted set, behind `room` bytes.
    pub fn sorted_set(room: usize) -> Self {
        Self::new(kind::SORTED_SET, VERSION, 0, None, room)
    }

    /// Creates a writer for a stream, behind `room` bytes.
    pub fn stream(room: usize) -> Self {
        Self::new(kind::STREAM, VERSION, 0, None, room)
    }

    fn new(kind: u8, version: u16, count: u64, earliest: Option<u64>, room: usize) -> Self {
        let bytes = vec![0; room + HEAD_BYTES_MAX];
        let sum = RunningSum::default();
        let value = bytes.len();
        let entries = NodeWriter::default();
        Self { bytes, kind, version, count, entries, earliest, value, start: 0, summed: 0, sum, is_complete: false }
    }

    /// Returns the number of bytes of memory that the payload occupies.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Reserves memory for `bytes` more bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes + FOOTER_BYTES);
    }

    /// Appends a part of the string.
    pub fn push(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
    }

    /// Appends a field. An expiry before the earliest one is as late as that.
    pub fn field(&mut self, name: &[u8], value: &[u8], expire_at_ms: Option<u64>) {
        if let Some(earliest) = self.earliest {
            length(&mut self.bytes, expire_at_ms.map_or(0, |at| at.saturating_sub(earliest) + 1));
        }
        string(&mut self.bytes, name);
        string(&mut self.bytes, value);
        self.count += 1;
    }

    /// Appends a member of a list or a set.
    pub fn member(&mut self, member: &[u8]) {
        string(&mut self.bytes, member);
        self.count += 1;
    }

    /// Appends a member of a sorted set.
    pub fn scored(&mut self, member: &[u8], score: f64) {
        scored(&mut self.bytes, member, score);
        self.count += 1;
    }

    /// Appends an element of a stream.
    ///
    /// # Errors
    /// [`Misplaced`] if a field follows no entry.
    pub fn add(&mut self, element: &CountedElement<'_>) -> Result<(), Misplaced> {
        let out = &mut self.bytes;
        match *element {
            CountedElement::Entry(id) => self.entries.entry(id, out),
            CountedElement::Field { name, value } => self.entries.field(name, value)?,
            CountedElement::Totals { totals, groups } => {
                self.entries.end(out);
                self.count = self.entries.count;
                stream::totals(out, &totals);
                length(out, groups);
            }
            CountedElement::Group { name, last_id, entries_read, pending } => {
                stream::group(out, name, last_id, entries_read);
                length(out, pending);
            }
            CountedElement::Pending { id, delivered_at_ms, deliveries } => {
                stream::pending(out, id, delivered_at_ms, deliveries);
            }
            CountedElement::Consumers(count) => length(out, count),
            CountedElement::Consumer { name, seen_at_ms, owned } => {
                stream::consumer(out, name, seen_at_ms);
                length(out, owned);
            }
            CountedElement::Owned(id) => id_as_bytes(out, id),
        }
        Ok(())
    }

    /// Writes the head before the value, and the version after it. The checksum follows.
    pub fn end(&mut self) {
        let mut head = vec![self.kind];
        head.extend(self.earliest.iter().flat_map(|earliest| earliest.to_le_bytes()));
        length(&mut head, self.count);
        self.start = self.value - head.len();
        self.bytes[self.start..self.value].copy_from_slice(&head);
        self.bytes.extend_from_slice(&self.version.to_le_bytes());
        self.summed = self.start;
    }

    /// Adds at most `bytes_max` bytes to the checksum. Returns true if the payload is complete.
    pub fn advance(&mut self, bytes_max: usize) -> bool {
        if self.is_complete {
            return true;
        }
        let end = (self.summed + bytes_max).min(self.bytes.len());
        self.sum.add(&self.bytes[self.summed..end]);
        self.summed = end;
        if end == self.bytes.len() {
            let sum = std::mem::take(&mut self.sum).end();
            self.bytes.extend_from_slice(&sum.to_le_bytes());
            self.is_complete = true;
        }
        self.is_complete
    }

    /// Returns all bytes, and where the payload begins in them.
    pub fn into_parts(self) -> (Vec<u8>, usize) {
        (self.bytes, self.start)
    }
}
