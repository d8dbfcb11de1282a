//! The encoding of Protocol Buffers: reads fields of a message in place, and writes messages.
//!
//! ```text
//!   message   [ tag | value ] [ tag | value ] ...        tag = number << 3 | type, as a varint
//!   type 0    varint: 7 bits a byte, the lowest first    uint64, int64, bool, enum; sint32 as zigzag
//!   type 1, 5 8 or 4 bytes, little endian                double, float
//!   type 2    length as a varint, then the bytes         bytes, string, a message, packed numbers
//! ```
//!
//! A reader names fields by their numbers, so a schema is the table of numbers in the documentation of a call. A field
//! that a message lacks has the value 0, or is empty. A field of another type than the expected one counts as unknown.
//! Source: the encoding chapter of the Protocol Buffers documentation.

use std::cell::Cell;
use std::fmt;

/// The maximum number of fields of a request, with those of its nested messages. An empty field is two bytes long, so
/// that a long message could have millions of them.
pub const FIELDS_MAX: u32 = 65_536;

/// The maximum number of steps over fields by which a request is decoded: a decoder reads a message once for each
/// repeated field that it looks for.
const STEPS_MAX: u32 = 8 * FIELDS_MAX;

/// The numbers of fields whose last occurrences a message has, so that a read of one of them takes one step.
const INDEXED: usize = 16;

/// The place of a field that a message lacks.
const ABSENT: u32 = u32::MAX;

/// The places of the last fields of each number, in bytes; [`ABSENT`] if there is none.
type Places = [u32; INDEXED];

/// The reason why bytes are no message, or not accepted as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes are not a message.
    Malformed {
        /// The offset of the field that is malformed, in bytes.
        at: usize,
    },
    /// The message has more fields than permitted.
    TooManyFields {
        /// The maximum number of fields.
        fields_max: u32,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { at } => write!(f, "the message is not valid Protocol Buffers at byte {at}"),
            Self::TooManyFields { fields_max } => {
                write!(f, "the message has more than {fields_max} fields; send less in one call")
            }
        }
    }
}

/// The number of fields that a request may still have, and of steps by which it may still be decoded.
#[derive(Debug, PartialEq, Eq)]
pub struct FieldBudget {
    fields_left: Cell<u32>,
    steps_left: Cell<u32>,
}

impl Default for FieldBudget {
    fn default() -> Self {
        Self { fields_left: Cell::new(FIELDS_MAX), steps_left: Cell::new(STEPS_MAX) }
    }
}

impl FieldBudget {
    /// Returns the number of steps that were taken.
    pub fn steps(&self) -> u32 {
        STEPS_MAX - self.steps_left.get()
    }

    /// Returns true if the steps are used up. The fields of a message were then not read to their end.
    pub fn is_used_up(&self) -> bool {
        self.steps_left.get() == 0
    }

    /// Takes a step. Returns false if there is none left.
    fn step(&self) -> bool {
        let left = self.steps_left.get();
        self.steps_left.set(left.saturating_sub(1));
        left > 0
    }
}

/// The value of a field, by its type on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wire<'b> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'b [u8]),
    Fixed32([u8; 4]),
}

impl<'b> Wire<'b> {
    fn bytes(self) -> Option<&'b [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

/// A message whose fields have been checked. Fields within nested messages are checked when those are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'b> {
    bytes: &'b [u8],
    last: Places,
    /// The budget of the request of which this is a part; `None` if there is no limit.
    budget: Option<&'b FieldBudget>,
}

impl<'b> Message<'b> {
    /// Checks the fields of a message, of which there may be any number: the caller trusts its sender, or bounds its
    /// length.
    ///
    /// # Errors
    /// If a field is cut off, has an unknown type or the number 0.
    pub fn parse(bytes: &'b [u8]) -> Result<Self, DecodeError> {
        Self::parse_short(bytes, u32::MAX)
    }

    /// Checks the fields of a short message, which has at most `fields_max` of them.
    ///
    /// # Errors
    /// As [`Message::parse`], and if there are more fields.
    #[inline]
    pub fn parse_short(bytes: &'b [u8], fields_max: u32) -> Result<Self, DecodeError> {
        let (_, last) = check(bytes, fields_max)?;
        Ok(Self { bytes, last, budget: None })
    }

    /// Checks the fields of a request. It and its nested messages share the budget.
    ///
    /// # Errors
    /// As [`Message::parse`], and if there are more than [`FIELDS_MAX`] fields.
    pub fn parse_within(bytes: &'b [u8], budget: &'b FieldBudget) -> Result<Self, DecodeError> {
        let (fields, last) = check(bytes, budget.fields_left.get()).map_err(|error| match error {
            DecodeError::TooManyFields { .. } => DecodeError::TooManyFields { fields_max: FIELDS_MAX },
            malformed @ DecodeError::Malformed { .. } => malformed,
        })?;
        budget.fields_left.set(budget.fields_left.get() - fields);
        budget.steps_left.set(budget.steps_left.get().saturating_sub(fields));
        Ok(Self { bytes, last, budget: Some(budget) })
    }

    /// Checks the fields of a nested message, one of those that [`Message::all`] returns.
    ///
    /// # Errors
    /// If its fields are malformed, or more than the budget of the request permits.
    pub fn part(self, bytes: &'b [u8]) -> Result<Self, DecodeError> {
        match self.budget {
            Some(budget) => Self::parse_within(bytes, budget),
            None => Self::parse(bytes),
        }
    }

    fn fields(self, number: u32) -> impl Iterator<Item = Wire<'b>> {
        let (mut rest, budget) = (self.bytes, self.budget);
        std::iter::from_fn(move || {
            loop {
                let (found, value, after) = field(rest)?;
                if budget.is_some_and(|budget| !budget.step()) {
                    return None;
                }
                rest = after;
                if found == number {
                    return Some(value);
                }
            }
        })
    }

    /// Returns the bytes of the message.
    pub fn as_bytes(self) -> &'b [u8] {
        self.bytes
    }

    /// Returns the last value of this number that `of` accepts.
    fn last<T>(self, number: u32, of: impl Fn(Wire<'b>) -> Option<T>) -> Option<T> {
        if let Some(place) = self.last.get(number as usize) {
            let (_, value, _) = field(self.bytes.get(*place as usize..)?)?;
            if let Some(value) = of(value) {
                return Some(value);
            }
        }
        // A field of another type counts as unknown, so that one before it may have the value.
        self.fields(number).filter_map(of).last()
    }

    /// Returns the last bytes or string of this number; `None` if there is none.
    pub fn try_bytes(self, number: u32) -> Option<&'b [u8]> {
        self.last(number, Wire::bytes)
    }

    /// Returns the last bytes or string of this number, or no bytes.
    pub fn bytes(self, number: u32) -> &'b [u8] {
        self.try_bytes(number).unwrap_or_default()
    }

    /// Returns all bytes, strings or messages of this number, in order.
    pub fn all(self, number: u32) -> impl Iterator<Item = &'b [u8]> {
        self.fields(number).filter_map(Wire::bytes)
    }

    /// Returns the last nested message of this number; `None` if there is none.
    ///
    /// # Errors
    /// If its fields are malformed, or more than the budget of the request permits.
    pub fn message(self, number: u32) -> Result<Option<Message<'b>>, DecodeError> {
        self.try_bytes(number).map(|bytes| self.part(bytes)).transpose()
    }

    /// Returns the last unsigned number (uint, bool, enum); `None` if there is none.
    pub fn try_uint(self, number: u32) -> Option<u64> {
        let varint = |value| if let Wire::Varint(varint) = value { Some(varint) } else { None };
        self.last(number, varint)
    }

    /// Returns the last unsigned number (uint, bool, enum), or 0.
    pub fn uint(self, number: u32) -> u64 {
        self.try_uint(number).unwrap_or(0)
    }

    /// Returns all unsigned numbers of a repeated field, packed or not. If there are more than `count_max`, returns the
    /// first `count_max` + 1.
    ///
    /// # Errors
    /// If a packed number is malformed.
    pub fn uints(self, number: u32, count_max: usize) -> Result<Vec<u64>, DecodeError> {
        let mut all = Vec::new();
        for value in self.fields(number) {
            if all.len() > count_max {
                break;
            }
            match value {
                Wire::Varint(varint) => all.push(varint),
                Wire::Bytes(mut packed) => {
                    while !packed.is_empty() && all.len() <= count_max {
                        let at = packed.as_ptr().addr() - self.bytes.as_ptr().addr();
                        let (value, rest) = varint(packed).ok_or(DecodeError::Malformed { at })?;
                        all.push(value);
                        packed = rest;
                    }
                }
                Wire::Fixed64(_) | Wire::Fixed32(_) => {}
            }
        }
        Ok(all)
    }

    /// Returns the last number of type int64 or int32, or 0.
    pub fn int(self, number: u32) -> i64 {
        self.uint(number).cast_signed()
    }

    /// Returns the last number of type sint64 or sint32; `None` if there is none.
    pub fn try_sint(self, number: u32) -> Option<i64> {
        self.try_uint(number).map(|zigzag| (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }

    /// Returns the last double; `None` if there is none.
    pub fn try_double(self, number: u32) -> Option<f64> {
        let double = |value| if let Wire::Fixed64(bytes) = value { Some(f64::from_le_bytes(bytes)) } else { None };
        self.last(number, double)
    }

    /// Returns the last float; `None` if there is none.
    pub fn try_float(self, number: u32) -> Option<f32> {
        let float = |value| if let Wire::Fixed32(bytes) = value { Some(f32::from_le_bytes(bytes)) } else { None };
        self.last(number, float)
    }
}

/// Checks the fields of a message. Returns their number, and their places.
///
/// # Errors
/// If a field is malformed, or there are more than `fields_max` fields, which are then not read.
#[inline]
fn check(bytes: &[u8], fields_max: u32) -> Result<(u32, Places), DecodeError> {
    let (mut rest, mut fields, mut last) = (bytes, 0, [ABSENT; INDEXED]);
    while !rest.is_empty() {
        if fields == fields_max {
            return Err(DecodeError::TooManyFields { fields_max });
        }
        let at = bytes.len() - rest.len();
        let (number, _, after) = field(rest).ok_or(DecodeError::Malformed { at })?;
        if let Some(place) = last.get_mut(number as usize) {
            *place = at as u32;
        }
        (rest, fields) = (after, fields + 1);
    }
    Ok((fields, last))
}

/// Reads the first field: its number, its value and the bytes behind it.
fn field(bytes: &[u8]) -> Option<(u32, Wire<'_>, &[u8])> {
    let (tag, rest) = varint(bytes)?;
    let number = u32::try_from(tag >> 3).ok().filter(|number| (1..1 << 29).contains(number))?;
    let (value, rest) = match tag & 7 {
        0 => varint(rest).map(|(value, rest)| (Wire::Varint(value), rest))?,
        1 => rest.split_first_chunk().map(|(bytes, rest)| (Wire::Fixed64(*bytes), rest))?,
        2 => {
            let (len, rest) = varint(rest)?;
            rest.split_at_checked(usize::try_from(len).ok()?).map(|(bytes, rest)| (Wire::Bytes(bytes), rest))?
        }
        5 => rest.split_first_chunk().map(|(bytes, rest)| (Wire::Fixed32(*bytes), rest))?,
        _ => return None,
    };
    Some((number, value, rest))
}

/// Reads a varint of at most 10 bytes, and returns the bytes behind it.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// Returns the length of a varint in bytes.
#[inline]
pub const fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends a varint.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A writer of one message. Fields with the value 0 and empty bytes are left out, as in proto3.
#[derive(Debug, Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    /// Creates a writer of an empty message.
    pub fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, value: u64) {
        put_varint(&mut self.0, value);
    }

    /// Adds an unsigned number, a bool or an enum.
    pub fn uint(&mut self, number: u32, value: u64) -> &mut Self {
        if value == 0 { self } else { self.one_of_uint(number, value) }
    }

    /// Adds an unsigned number of a oneof, also if it is 0.
    pub fn one_of_uint(&mut self, number: u32, value: u64) -> &mut Self {
        self.varint(u64::from(number) << 3);
        self.varint(value);
        self
    }

    /// Adds a number of type int64 or int32.
    pub fn int(&mut self, number: u32, value: i64) -> &mut Self {
        self.uint(number, value.cast_unsigned())
    }

    /// Adds a double.
    pub fn double(&mut self, number: u32, value: f64) -> &mut Self {
        if value.to_bits() == 0 { self } else { self.one_of_double(number, value) }
    }

    /// Adds a double of a oneof, also if it is 0.
    pub fn one_of_double(&mut self, number: u32, value: f64) -> &mut Self {
        self.varint(u64::from(number) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Adds a float of a oneof, also if it is 0.
    pub fn one_of_float(&mut self, number: u32, value: f32) -> &mut Self {
        self.varint(u64::from(number) << 3 | 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Adds bytes or a string.
    pub fn bytes(&mut self, number: u32, value: &[u8]) -> &mut Self {
        if value.is_empty() { self } else { self.item(number, value) }
    }

    /// Adds an item of a repeated field of bytes, strings or messages, also if it is empty.
    pub fn item(&mut self, number: u32, value: &[u8]) -> &mut Self {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    /// Adds a nested message, also if it is empty.
    pub fn message(&mut self, number: u32, write: impl FnOnce(&mut Self)) -> &mut Self {
        let mut nested = Self::new();
        write(&mut nested);
        self.item(number, &nested.0)
    }

    /// Adds a repeated field of type bool, packed.
    pub fn packed_bools(&mut self, number: u32, values: impl Iterator<Item = bool>) -> &mut Self {
        let values: Vec<u8> = values.map(u8::from).collect();
        self.bytes(number, &values)
    }

    /// Adds a repeated field of type uint64 or uint32, packed.
    pub fn packed_uints(&mut self, number: u32, values: impl Iterator<Item = u64>) -> &mut Self {
        let mut packed = Vec::new();
        values.for_each(|value| put_varint(&mut packed, value));
        self.bytes(number, &packed)
    }

    /// Adds all fields of another message.
    pub fn append(&mut self, other: &Self) -> &mut Self {
        self.0.extend_from_slice(&other.0);
        self
    }

    /// Returns the message.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_types_are_read_as_they_were_written() {
        let mut encoder = Encoder::new();
        encoder.bytes(1, b"key").uint(2, 300).int(3, -1).double(4, 1.5).item(5, b"").item(5, b"b");
        encoder.message(6, |nested| {
            nested.uint(1, 7);
        });
        encoder.packed_bools(7, [true, false].into_iter());
        let message = Message::parse(encoder.as_slice()).expect("a message");
        assert_eq!((message.bytes(1), message.uint(2), message.int(3)), (&b"key"[..], 300, -1));
        assert_eq!((message.try_double(4), message.try_double(1)), (Some(1.5), None));
        assert_eq!(message.all(5).collect::<Vec<_>>(), [&b""[..], b"b"]);
        assert_eq!(message.message(6).expect("a nested message").map(|nested| nested.uint(1)), Some(7));
        assert_eq!((message.bytes(7), message.uint(99)), (&[1, 0][..], 0));
    }

    #[test]
    fn length_of_a_varint_is_that_of_its_bytes() {
        for bits in 0..64 {
            for value in [1u64 << bits, (1u64 << bits) - 1, u64::MAX >> bits] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(varint_len(value), out.len(), "{value}");
                assert_eq!(varint(&out).map(|(read, rest)| (read, rest.len())), Some((value, 0)));
            }
        }
    }

    #[test]
    fn numbers_of_the_encodings_documentation_are_read() {
        // Examples of the documentation: 150 as a varint, and the zigzag forms of 0, -1, 1, -2 and the extremes.
        assert_eq!(Message::parse(&[0x08, 0x96, 0x01]).map(|message| message.uint(1)), Ok(150));
        for (bytes, number) in [(&[8, 0][..], 0), (&[8, 1], -1), (&[8, 2], 1), (&[8, 3], -2)] {
            assert_eq!(Message::parse(bytes).map(|message| message.try_sint(1)), Ok(Some(number)));
        }
        let least = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Message::parse(&least).map(|message| message.try_sint(1)), Ok(Some(i64::MIN)));
    }

    #[test]
    fn cut_messages_and_unknown_types_are_refused_with_the_place() {
        let mut encoder = Encoder::new();
        encoder.uint(1, 1).bytes(2, b"value").double(3, 2.5);
        let whole = encoder.as_slice();
        let ends = [0, 2, 9, 18];
        for len in 0..=whole.len() {
            assert_eq!(Message::parse(&whole[..len]).is_ok(), ends.contains(&len), "{len}");
        }
        assert_eq!(Message::parse(&[8, 1, 0x0b]), Err(DecodeError::Malformed { at: 2 }), "type 3, a group");
        assert!(Message::parse(&[0, 1]).is_err(), "the number 0");
        assert!(
            Message::parse(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).is_err(),
            "2^64 bytes"
        );
        assert!(Message::parse(&[8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).is_err());
    }

    /// Returns a message of `count` empty fields with a number, each two bytes long.
    fn empty_fields(number: u32, count: u32) -> Vec<u8> {
        let mut encoder = Encoder::new();
        (0..count).for_each(|_| {
            encoder.item(number, b"");
        });
        encoder.as_slice().to_vec()
    }

    #[test]
    fn message_of_millions_of_fields_is_refused_after_the_permitted_ones() {
        let most = empty_fields(1, FIELDS_MAX);
        assert!(Message::parse_within(&most, &FieldBudget::default()).is_ok());
        // The byte 0 begins no field. It is not reached.
        let more = [&most[..], &[0x0a, 0, 0]].concat();
        let error = DecodeError::TooManyFields { fields_max: FIELDS_MAX };
        assert_eq!(Message::parse_within(&more, &FieldBudget::default()), Err(error));
        assert_eq!(Message::parse_short(&more, 7), Err(DecodeError::TooManyFields { fields_max: 7 }));
        assert_eq!(Message::parse(&more), Err(DecodeError::Malformed { at: most.len() + 2 }));
    }

    #[test]
    fn nested_messages_have_the_budget_of_their_request() {
        let nested = empty_fields(3, FIELDS_MAX / 2);
        let mut encoder = Encoder::new();
        encoder.item(1, &nested).item(2, &nested).item(2, &nested);
        let budget = FieldBudget::default();
        let message = Message::parse_within(encoder.as_slice(), &budget).expect("a message of three fields");
        assert!(message.message(1).is_ok());
        assert_eq!(message.message(2), Err(DecodeError::TooManyFields { fields_max: FIELDS_MAX }));
        assert_eq!(message.all(2).map(|part| message.part(part).is_ok()).collect::<Vec<_>>(), [false, false]);
    }

    #[test]
    fn field_of_another_type_hides_no_earlier_value() {
        let mut encoder = Encoder::new();
        encoder.one_of_uint(1, 5).item(1, b"text").one_of_uint(2, 6).one_of_uint(20, 7).item(20, b"far");
        let message = Message::parse(encoder.as_slice()).expect("a message");
        assert_eq!((message.uint(1), message.bytes(1), message.try_bytes(2)), (5, &b"text"[..], None));
        assert_eq!((message.uint(20), message.bytes(20), message.uint(21)), (7, &b"far"[..], 0));
    }

    #[test]
    fn reads_of_a_request_end_when_its_steps_are_used_up() {
        let (bytes, budget) = (empty_fields(1, FIELDS_MAX), FieldBudget::default());
        let message = Message::parse_within(&bytes, &budget).expect("a message");
        assert_eq!((message.bytes(1), message.uint(2)), (&b""[..], 0));
        for reads in 1..8 {
            assert_eq!((budget.steps(), budget.is_used_up()), (reads * FIELDS_MAX, false));
            assert_eq!(message.all(2).count(), 0);
        }
        assert!(budget.is_used_up());
        assert_eq!(message.all(1).count(), 0);
    }
}
