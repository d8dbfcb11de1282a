//! The value of a bin, and its text form.

use crate::coding::Coded;
use crate::{List, Map};

/// The value of a bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'v> {
    /// A whole number. A text that is a whole number in canonical form is stored as an integer.
    Integer(i64),
    /// A finite floating-point number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// A string.
    Text(&'v [u8]),
    /// Bytes that are not text.
    Bytes(&'v [u8]),
    /// Values in order.
    List(List<'v>),
    /// Values under keys, each of which is a text or a whole number.
    Map(Map<'v>),
}

/// The type of a bin's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// See [`Value::Integer`].
    Integer,
    /// See [`Value::Float`].
    Float,
    /// See [`Value::Bool`].
    Bool,
    /// See [`Value::Text`].
    Text,
    /// See [`Value::Bytes`].
    Bytes,
    /// See [`Value::List`].
    List,
    /// See [`Value::Map`].
    Map,
}

impl ValueType {
    /// Every type.
    pub const ALL: [Self; 7] = [Self::Integer, Self::Float, Self::Bool, Self::Text, Self::Bytes, Self::List, Self::Map];

    /// Returns the type's name in commands and errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integer => "INT",
            Self::Float => "FLOAT",
            Self::Bool => "BOOL",
            Self::Text => "STR",
            Self::Bytes => "BYTES",
            Self::List => "LIST",
            Self::Map => "MAP",
        }
    }

    /// Returns the type with this name. Upper and lower case are equivalent.
    pub fn of(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|known| name.eq_ignore_ascii_case(known.name().as_bytes()))
    }
}

impl<'v> Value<'v> {
    /// Returns the value of a text that a client sent without a type: a number if the text is a whole number in
    /// canonical form, else the text.
    pub fn of_text(text: &'v [u8]) -> Self {
        // A cheap test first: the length or the first byte shows for most texts that they are not numbers.
        let may_be = matches!(text.first(), Some(b'-' | b'0'..=b'9')) && text.len() <= Digits::MAX;
        match base::decimal::parse_signed(if may_be { text } else { b"" }) {
            Some(number) => Self::Integer(number),
            None => Self::Text(text),
        }
    }

    /// Returns the type of the value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::Integer(_) => ValueType::Integer,
            Self::Float(_) => ValueType::Float,
            Self::Bool(_) => ValueType::Bool,
            Self::Text(_) => ValueType::Text,
            Self::Bytes(_) => ValueType::Bytes,
            Self::List(_) => ValueType::List,
            Self::Map(_) => ValueType::Map,
        }
    }

    /// Returns the value as text; `digits` holds the text of a number, a list or a map. True is `1` and false is `0`.
    /// Lists and maps have their JSON form.
    pub fn text<'t>(&self, digits: &'t mut Digits) -> &'t [u8]
    where
        'v: 't,
    {
        match *self {
            Self::Integer(number) => digits.put(format_args!("{number}")),
            // Negative zero becomes zero. An integral number is written without a decimal point.
            Self::Float(number) => digits.put(format_args!("{}", if number == 0.0 { 0.0 } else { number })),
            Self::Bool(value) => digits.put(format_args!("{}", u8::from(value))),
            Self::Text(text) | Self::Bytes(text) => text,
            Self::List(_) | Self::Map(_) => {
                digits.long.clear();
                crate::coding::collection::push_json(self, &mut digits.long);
                &digits.long
            }
        }
    }
}

/// A buffer for a number's text, and on the heap for the text of a list or a map.
#[derive(Clone, Debug)]
pub struct Digits {
    text: [u8; Self::FLOAT_MAX],
    len: usize,
    long: Vec<u8>,
}

impl Digits {
    /// Maximum number of bytes of a whole number's text.
    pub const MAX: usize = 20;
    /// Maximum number of bytes of a floating-point number's text without an exponent: 309 digits, or 17 digits after
    /// 324 zeros.
    pub const FLOAT_MAX: usize = 352;

    /// Creates an empty buffer.
    pub const fn new() -> Self {
        Self { text: [0; Self::FLOAT_MAX], len: 0, long: Vec::new() }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) -> &[u8] {
        let mut left = &mut self.text[..];
        std::io::Write::write_fmt(&mut left, text).expect("there is room for any number");
        self.len = Self::FLOAT_MAX - left.len();
        &self.text[..self.len]
    }
}

impl Default for Digits {
    fn default() -> Self {
        Self::new()
    }
}

/// The name of a bin, prepared for lookups: its text, and its encoding in a record outside any set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'n> {
    pub(crate) text: &'n [u8],
    pub(crate) coded: Coded<'n>,
}

impl<'n> Name<'n> {
    /// Prepares a name.
    pub fn new(name: &'n [u8]) -> Self {
        Self { text: name, coded: Coded::of(&Value::of_text(name)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scalar_value_is_formatted_as_text() {
        for (value, text) in [
            (Value::Integer(i64::MIN), "-9223372036854775808"),
            (Value::Float(-0.0), "0"),
            (Value::Float(3.0), "3"),
            (Value::Float(5e-7), "0.0000005"),
            (Value::Bool(true), "1"),
            (Value::Text(b"a b"), "a b"),
            (Value::Bytes(b"x"), "x"),
        ] {
            assert_eq!(value.text(&mut Digits::new()), text.as_bytes());
        }
        for longest in [f64::MIN, f64::MAX, -f64::MIN_POSITIVE, -5e-324] {
            assert!(Value::Float(longest).text(&mut Digits::new()).len() <= Digits::FLOAT_MAX);
        }
    }

    #[test]
    fn the_text_of_a_number_is_that_number_and_no_other_text_is() {
        assert_eq!(Value::of_text(b"-12"), Value::Integer(-12));
        for text in [&b""[..], b"-", b"012", b"+1", b"1.0", b" 1", b"9223372036854775808", b"1234567890123456789012"] {
            assert_eq!(Value::of_text(text), Value::Text(text));
        }
    }

    #[test]
    fn a_type_is_known_by_its_name_in_letters_of_any_size() {
        for known in ValueType::ALL {
            assert_eq!(ValueType::of(known.name().to_lowercase().as_bytes()), Some(known));
        }
        assert_eq!(ValueType::of(b"STRING"), None);
    }
}
