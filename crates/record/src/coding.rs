//! Encoding of one value: a head, and for a text, bytes, a list or a map also a body. The head gives the length of the
//! whole value.
//!
//! ```text
//!   0nnnnnnn                         the whole number n, 0..=127
//!   10llllll  text                   a text of l bytes, 0..=63
//!   110nnnnn nnnnnnnn                a signed whole number of 13 bits, the high bits first
//!   1110llll llllllll  text          a text whose length has 12 bits, the high bits first
//!   11110bbb  b+2 bytes              a signed whole number of 2 to 8 bytes, the low byte first (b = 0..=6)
//!   11110111  length 4  text         a text whose length has 4 bytes, the low byte first
//!   11111000  8 bytes                a floating-point number
//!   11111001, 11111010               false, true
//!   11111011  length 4  bytes        bytes that are not text
//!   11111100  length 4  values       a list: its values, end to end
//!   11111101  length 4  pairs        a map: keys, each with its value
//!   11111111                         not a value: the marker of an expiry before a bin (see `read`)
//! ```
//!
//! A value has exactly one encoding, the shortest. So equal names have equal bytes.

pub(crate) mod collection;
pub(crate) mod hash;

use crate::{Damaged, List, Map, Value};
use std::ops::Range;

const TEXT: u8 = 0x80;
const NUMBER_13: u8 = 0xc0;
const TEXT_12: u8 = 0xe0;
const NUMBER: u8 = 0xf0;
const TEXT_32: u8 = 0xf7;
const FLOAT: u8 = 0xf8;
const FALSE: u8 = 0xf9;
const TRUE: u8 = 0xfa;
const BYTES: u8 = 0xfb;
const LIST: u8 = 0xfc;
const MAP: u8 = 0xfd;
/// The marker byte with which a bin that has an expiry begins.
pub(crate) const END: u8 = 0xff;

/// The longest head: a first byte and an eight-byte number.
const HEAD_MAX: usize = 9;

/// An encoded value: its head, and a tail that borrows the bytes of a text, list or map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coded<'v> {
    head: [u8; HEAD_MAX],
    head_len: u8,
    tail: &'v [u8],
}

impl PartialEq for Coded<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.head() == other.head() && self.tail == other.tail
    }
}

impl Eq for Coded<'_> {}

impl<'v> Coded<'v> {
    pub(crate) fn of(value: &Value<'v>) -> Self {
        let mut coded = Self { head: [0; HEAD_MAX], head_len: 0, tail: b"" };
        match *value {
            Value::Integer(number) => coded.number(number),
            Value::Float(number) => coded.put(&[&[FLOAT][..], &number.to_le_bytes()]),
            Value::Bool(value) => coded.put(&[&[if value { TRUE } else { FALSE }]]),
            Value::Text(text) => coded.text(text),
            Value::Bytes(bytes) => coded.long(BYTES, bytes),
            Value::List(list) => coded.long(LIST, list.body()),
            Value::Map(map) => coded.long(MAP, map.body()),
        }
        coded
    }

    fn long(&mut self, first: u8, tail: &'v [u8]) {
        self.put(&[&[first][..], &(tail.len() as u32).to_le_bytes()]);
        self.tail = tail;
    }

    fn number(&mut self, number: i64) {
        if (0..128).contains(&number) {
            self.put(&[&[number as u8]]);
        } else if (-4096..4096).contains(&number) {
            self.put(&[&[NUMBER_13 | (number >> 8) as u8 & 0x1f, number as u8]]);
        } else {
            // Number of bytes that hold the value if the last byte is sign-extended.
            let spare = if number < 0 { number.leading_ones() } else { number.leading_zeros() } - 1;
            let bytes = 8 - spare as usize / 8;
            self.put(&[&[NUMBER + bytes as u8 - 2][..], &number.to_le_bytes()[..bytes]]);
        }
    }

    fn text(&mut self, text: &'v [u8]) {
        match text.len() {
            len @ 0..64 => self.put(&[&[TEXT | len as u8]]),
            len @ 64..4096 => self.put(&[&[TEXT_12 | (len >> 8) as u8, len as u8]]),
            len => self.put(&[&[TEXT_32][..], &(len as u32).to_le_bytes()]),
        }
        self.tail = text;
    }

    fn put(&mut self, parts: &[&[u8]]) {
        for part in parts {
            let at = usize::from(self.head_len);
            self.head[at..at + part.len()].copy_from_slice(part);
            self.head_len += part.len() as u8;
        }
    }

    fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_len)]
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.head_len) + self.tail.len()
    }

    /// Returns true if `bytes` begin with this encoded value.
    #[inline]
    pub(crate) fn begins(&self, bytes: &[u8]) -> bool {
        // In most comparisons the first bytes differ; texts mostly differ in their tails.
        bytes.first() == self.head.first()
            && bytes.strip_prefix(self.head()).is_some_and(|rest| rest.starts_with(self.tail))
    }

    /// Writes the value to the beginning of `to`.
    pub(crate) fn write(&self, to: &mut [u8]) {
        let (head, tail) = to.split_at_mut(usize::from(self.head_len));
        head.copy_from_slice(self.head());
        tail[..self.tail.len()].copy_from_slice(self.tail);
    }

    pub(crate) fn push(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.head());
        to.extend_from_slice(self.tail);
    }
}

/// Lengths in bytes of values, by first byte; 0 if the first byte does not determine the length or begins no value.
const LENS: [u8; 256] = {
    let mut lens = [0; 256];
    let mut first = 0;
    while first < 256 {
        lens[first] = match first as u8 {
            0..TEXT | FALSE | TRUE => 1,
            text @ TEXT..NUMBER_13 => 1 + (text & 0x3f),
            NUMBER_13..TEXT_12 => 2,
            number @ NUMBER..TEXT_32 => 3 + (number - NUMBER),
            FLOAT => 9,
            TEXT_12..NUMBER | TEXT_32 | BYTES..=END => 0,
        };
        first += 1;
    }
    lens
};

/// Returns the length in bytes of the encoded value at the start of `bytes`. `bytes` may be shorter than that length.
#[inline]
pub(crate) fn len(bytes: &[u8]) -> Result<usize, Damaged> {
    len_at(bytes, 0)
}

/// Returns the length of the value that begins at `at`, as [`len`] does.
#[inline]
pub(crate) fn len_at(bytes: &[u8], at: usize) -> Result<usize, Damaged> {
    match LENS[usize::from(*bytes.get(at).ok_or(Damaged)?)] {
        0 => len_after(&bytes[at..]),
        len => Ok(len.into()),
    }
}

/// Returns the length of a value whose first byte does not determine it.
fn len_after(bytes: &[u8]) -> Result<usize, Damaged> {
    match bytes[0] {
        first @ TEXT_12..NUMBER => Ok(2 + (usize::from(first & 0xf) << 8 | usize::from(*bytes.get(1).ok_or(Damaged)?))),
        TEXT_32 | BYTES | LIST | MAP => {
            let len = bytes.get(1..5).ok_or(Damaged)?;
            Ok(5 + u32::from_le_bytes(len.try_into().expect("four bytes")) as usize)
        }
        _ => Err(Damaged),
    }
}

/// Finds a value among elements, each of which is `skip` bytes and then a value. Returns the range of its element.
#[inline]
pub(crate) fn find(elements: &[u8], skip: usize, wanted: &Coded<'_>) -> Result<Option<Range<usize>>, Damaged> {
    let (first, len) = (wanted.head[0], wanted.len());
    // A value with the same first byte is as long. Texts that begin alike mostly differ in their last bytes.
    let last = match (LENS[usize::from(first)], wanted.tail.last_chunk::<LAST_BYTES>()) {
        (1.., Some(last)) => *last,
        _ => return find_any(elements, skip, wanted),
    };
    let mut at = 0;
    while at < elements.len() {
        let value = at + skip;
        if elements.get(value) != Some(&first) {
            at = value + len_at(elements, value)?;
            continue;
        }
        let end = value + len;
        let Some(bytes) = elements.get(value..end) else { break };
        if bytes.last_chunk() == Some(&last) && wanted.begins(bytes) {
            return Ok(Some(at..end));
        }
        at = end;
    }
    Ok(None)
}

/// The number of bytes at the end of a text that a search compares first.
const LAST_BYTES: usize = size_of::<u64>();

/// Finds a value of any length, as [`find`] does.
fn find_any(elements: &[u8], skip: usize, wanted: &Coded<'_>) -> Result<Option<Range<usize>>, Damaged> {
    let (first, last_at) = (wanted.head[0], wanted.len() - 1);
    let last = wanted.tail.last().unwrap_or(&wanted.head[usize::from(wanted.head_len) - 1]);
    let mut at = 0;
    while at < elements.len() {
        let value = at + skip;
        if elements.get(value) == Some(&first)
            && elements.get(value + last_at) == Some(last)
            && wanted.begins(&elements[value..])
        {
            return Ok(Some(at..value + last_at + 1));
        }
        at = value + len_at(elements, value)?;
    }
    Ok(None)
}

/// Returns the text that begins at `at` and its end offset, if it is a text of up to 63 bytes.
#[inline]
pub(crate) fn short_text(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let first = *bytes.get(at)?;
    let end = at + 1 + usize::from(first & 0x3f);
    let is_short = first & 0xc0 == TEXT;
    bytes.get(at + 1..end).filter(|_| is_short).map(|text| (text, end))
}

/// Decodes the value at the start of `bytes`. Returns the value and its encoded length in bytes. Checks all nested
/// values of a list or a map.
#[inline]
pub(crate) fn value(bytes: &[u8]) -> Result<(Value<'_>, usize), Damaged> {
    let len = len(bytes)?;
    let all = bytes.get(..len).ok_or(Damaged)?;
    let value = match all[0] {
        first @ 0..TEXT => Value::Integer(i64::from(first)),
        TEXT..NUMBER_13 => Value::Text(&all[1..]),
        first @ NUMBER_13..TEXT_12 => {
            // Shifts 13 bits up so that their sign becomes that of the word.
            let bits = i16::from_be_bytes([first << 3, 0]) | i16::from(all[1]) << 3;
            Value::Integer(i64::from(bits >> 3))
        }
        TEXT_12..NUMBER => Value::Text(&all[2..]),
        NUMBER..TEXT_32 => {
            let fill = if all[len - 1] & 0x80 != 0 { 0xff } else { 0 };
            let mut bytes = [fill; 8];
            bytes[..len - 1].copy_from_slice(&all[1..]);
            Value::Integer(i64::from_le_bytes(bytes))
        }
        TEXT_32 => Value::Text(&all[5..]),
        BYTES => Value::Bytes(&all[5..]),
        LIST => Value::List(List::open(&all[5..])?),
        MAP => Value::Map(Map::open(&all[5..])?),
        FLOAT => Value::Float(f64::from_le_bytes(all[1..].try_into().expect("eight bytes"))),
        first => Value::Bool(first == TRUE),
    };
    Ok((value, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(value: Value<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        Coded::of(&value).push(&mut bytes);
        bytes
    }

    #[test]
    fn a_number_has_the_shortest_coding_at_every_border() {
        let mut lens = Vec::new();
        for bits in 0..64u32 {
            for number in [(1i128 << bits) - 1, 1i128 << bits, -(1i128 << bits), -(1i128 << bits) - 1] {
                let Ok(number) = i64::try_from(number) else { continue };
                let bytes = coded(Value::Integer(number));
                assert_eq!(value(&bytes), Ok((Value::Integer(number), bytes.len())), "{number}");
                let most = match number {
                    0..128 => 1,
                    -4096..4096 => 2,
                    // The smallest number of bytes above which only sign bits remain.
                    _ => 1 + (2..8).find(|bytes| matches!(number >> (bytes * 8 - 1), -1 | 0)).unwrap_or(8),
                };
                assert_eq!(bytes.len(), most as usize, "{number}");
                lens.push(bytes.len());
            }
        }
        (1..=9).for_each(|len| assert!(lens.contains(&len), "{len}"));
    }

    #[test]
    fn texts_and_bytes_round_trip_around_length_boundaries() {
        for len in (0..130).chain(4090..4100).chain([70_000]) {
            let text = vec![b'x'; len];
            for wanted in [Value::Text(&text), Value::Bytes(&text)] {
                let mut bytes = coded(wanted);
                let whole = bytes.len();
                bytes.push(b'!');
                assert_eq!(value(&bytes), Ok((wanted, whole)));
                assert_eq!(value(&bytes[..whole - 1]), Err(Damaged), "{len}: cut");
            }
        }
        for wanted in [Value::Float(-0.1), Value::Bool(true), Value::Bool(false)] {
            let bytes = coded(wanted);
            assert_eq!(value(&bytes), Ok((wanted, bytes.len())));
        }
    }

    #[test]
    fn invalid_value_encoding_is_rejected() {
        for bytes in [
            &[][..],
            &[0xfc],
            &[0xfd],
            &[0xfe],
            &[END],
            &[LIST, 1, 0, 0, 0, TEXT | 1],
            &[TEXT_32, 255, 255, 255, 255],
            &[BYTES, 1],
        ] {
            assert_eq!(value(bytes), Err(Damaged), "{bytes:?}");
        }
    }

    #[test]
    fn coded_name_or_value_is_no_longer_than_in_a_listpack() {
        // In a listpack of Redis, a number takes 1 byte up to 127, 2 bytes within 13 bits, else 3, 4, 5 or 9. A text
        // has 1, 2 or 5 bytes before it. The length of each entry follows the entry: 1 byte up to 127, 2 bytes below
        // 16384.
        let listpack = |value: &Value<'_>| {
            let len = match *value {
                Value::Integer(0..128) => 1,
                Value::Integer(-4096..4096) => 2,
                Value::Integer(n) if i16::try_from(n).is_ok() => 3,
                Value::Integer(-8_388_608..8_388_608) => 4,
                Value::Integer(n) if i32::try_from(n).is_ok() => 5,
                Value::Integer(_) => 9,
                Value::Text(text) if text.len() < 64 => 1 + text.len(),
                Value::Text(text) if text.len() < 4096 => 2 + text.len(),
                Value::Text(text) => 5 + text.len(),
                _ => unreachable!("hashes have no others"),
            };
            len + if len < 128 { 1 } else { 2 }
        };
        let long = vec![b'x'; 9000];
        let texts = (0..9000).map(|len| Value::Text(&long[..len]));
        let numbers = (0..63).flat_map(|bits| [1i64 << bits, -(1i64 << bits), (1i64 << bits) - 1]).map(Value::Integer);
        for value in texts.chain(numbers) {
            assert!(Coded::of(&value).len() < listpack(&value), "{value:?}");
        }
    }
}
