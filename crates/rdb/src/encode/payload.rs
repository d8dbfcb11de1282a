//! Payloads that are written in steps.

use super::{REDIS_FIELD_TIMES_VERSION, length, scored, string};
use crate::dump::{FOOTER_BYTES, VERSION};
use crate::sum::RunningSum;
use crate::value::kind;

/// Bytes of the longest head of a payload: its type, the earliest expiry, and a length.
const HEAD_BYTES_MAX: usize = 1 + 8 + 9;

/// Writes the payload of a value in steps, behind room for bytes that the caller writes before it. No step
/// takes time that grows with the value.
#[derive(Debug)]
pub struct PayloadWriter {
    bytes: Vec<u8>,
    kind: u8,
    version: u16,
    /// The length of the string, or the number of elements.
    count: u64,
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

    fn new(kind: u8, version: u16, count: u64, earliest: Option<u64>, room: usize) -> Self {
        let bytes = vec![0; room + HEAD_BYTES_MAX];
        let sum = RunningSum::default();
        let value = bytes.len();
        Self { bytes, kind, version, count, earliest, value, start: 0, summed: 0, sum, is_complete: false }
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
