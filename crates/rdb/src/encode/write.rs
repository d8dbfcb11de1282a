//! Lengths, strings and other parts of encoded values.

use crate::event::StreamId;
use std::fmt;

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
pub(super) fn length(out: &mut Vec<u8>, length: u64) {
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
pub(super) fn string(out: &mut Vec<u8>, text: &[u8]) {
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
pub(super) fn raw(out: &mut Vec<u8>, text: &[u8]) {
    length(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Appends a member of a sorted set with its score.
pub(super) fn scored(out: &mut Vec<u8>, member: &[u8], score: f64) {
    string(out, member);
    out.extend_from_slice(&score.to_bits().to_le_bytes());
}

pub(super) fn id_as_lengths(out: &mut Vec<u8>, id: StreamId) {
    length(out, id.ms);
    length(out, id.seq);
}

pub(super) fn id_as_bytes(out: &mut Vec<u8>, id: StreamId) {
    out.extend_from_slice(&id.ms.to_be_bytes());
    out.extend_from_slice(&id.seq.to_be_bytes());
}

/// A list of parts whose number precedes them.
#[derive(Debug, Default)]
pub(super) struct CountedParts {
    pub(super) count: u64,
    pub(super) bytes: Vec<u8>,
}

impl CountedParts {
    /// Counts a part, and returns the bytes to append it to.
    pub(super) fn part(&mut self) -> &mut Vec<u8> {
        self.count += 1;
        &mut self.bytes
    }

    /// Appends the number and the parts to `out`, and becomes empty.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        length(out, self.count);
        out.append(&mut self.bytes);
        self.count = 0;
    }
}
