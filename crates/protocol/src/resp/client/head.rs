//! Decodes the line that a reply begins with: its type, and its value or its length.

use super::garbage::Garbage;
use crate::resp::number::{self, Line};

/// Maximum number of replies within one reply, including nested ones, that are outstanding at a time.
pub const VALUES_MAX: u32 = (1 << 31) - 1;

/// The head of a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Head<'b> {
    /// A simple string.
    Simple(&'b [u8]),
    /// An error, beginning with its code.
    Error(&'b [u8]),
    /// An integer.
    Int(i64),
    /// A null of any form: `_`, `$-1`, `*-1`.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A double.
    Double(f64),
    /// An integer of any size, in decimal.
    BigNumber(&'b [u8]),
    /// A string of this length in bytes follows.
    Bulk(u32),
    /// An error of this length in bytes follows.
    BulkError(u32),
    /// A text of this length in bytes follows: three letters for its format, a colon, and the text.
    Verbatim(u32),
    /// This number of replies follows.
    Array(u32),
    /// This number of key-value pairs follows.
    Map(u32),
    /// This number of replies follows, all different.
    Set(u32),
    /// A push message of this number of replies follows.
    Push(u32),
    /// This number of name-value pairs follows. They describe the reply after them.
    Attribute(u32),
}

impl Head<'_> {
    /// Returns the number of bytes that follow, without the line end after them; `None` if the head is not that of a
    /// string.
    #[inline]
    pub const fn bytes(&self) -> Option<u32> {
        match self {
            Self::Bulk(len) | Self::BulkError(len) | Self::Verbatim(len) => Some(*len),
            _ => None,
        }
    }

    /// Returns the number of replies that follow and belong to this reply.
    #[inline]
    pub const fn values(&self) -> u64 {
        match self {
            Self::Array(len) | Self::Set(len) | Self::Push(len) => *len as u64,
            Self::Map(pairs) | Self::Attribute(pairs) => *pairs as u64 * 2,
            _ => 0,
        }
    }
}

/// The result of decoding the start of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParsedHead<'b> {
    /// The line is not complete yet.
    Incomplete,
    /// The head of a reply. The bytes or replies that the head announces follow after `consumed`.
    Head {
        /// The head.
        head: Head<'b>,
        /// Length of the head in bytes.
        consumed: usize,
    },
    /// Not a valid reply.
    Garbage(Garbage),
}

/// Decodes the head at the start of `buf`.
#[inline]
pub fn head(buf: &[u8]) -> ParsedHead<'_> {
    let plain = match buf {
        [b'$', behind @ ..] => number::plain(behind).map(|(len, bytes)| (Head::Bulk(len), bytes)),
        [b':', behind @ ..] => number::plain(behind).map(|(value, bytes)| (Head::Int(value.into()), bytes)),
        [b'*', behind @ ..] => number::plain(behind).map(|(len, bytes)| (Head::Array(len), bytes)),
        [b'+', b'O', b'K', b'\r', b'\n', ..] => Some((Head::Simple(&buf[1..3]), 4)),
        _ => None,
    };
    match plain {
        Some((head, bytes)) => ParsedHead::Head { head, consumed: 1 + bytes },
        None => any(buf),
    }
}

/// Decodes any head, including the simple forms.
pub(in crate::resp) fn any(buf: &[u8]) -> ParsedHead<'_> {
    let Some((first, behind)) = buf.split_first() else { return ParsedHead::Incomplete };
    if !b"+-:$*_#,(!=%~>|".contains(first) {
        return ParsedHead::Garbage(if *first == b';' || *first == b'.' {
            Garbage::Streamed
        } else {
            Garbage::UnknownType
        });
    }
    let (text, consumed) = match number::line(behind) {
        Line::Incomplete => return ParsedHead::Incomplete,
        Line::TooLong => return ParsedHead::Garbage(Garbage::LineTooLong),
        Line::BareNewline => return ParsedHead::Garbage(Garbage::LineEnd),
        Line::Complete(text, bytes) => (text, 1 + bytes),
    };
    match typed(*first, text) {
        Ok(head) => ParsedHead::Head { head, consumed },
        Err(garbage) => ParsedHead::Garbage(garbage),
    }
}

fn typed(first: u8, text: &[u8]) -> Result<Head<'_>, Garbage> {
    Ok(match first {
        b'+' => Head::Simple(one_line(text)?),
        b'-' => Head::Error(one_line(text)?),
        b':' => Head::Int(base::decimal::parse_signed(text).ok_or(Garbage::Number)?),
        b'_' if text.is_empty() => Head::Null,
        b'_' => return Err(Garbage::Length),
        b'$' | b'*' if text == b"-1" => Head::Null,
        b'$' => Head::Bulk(length(text)?),
        b'!' => Head::BulkError(length(text)?),
        b'=' => match length(text)? {
            0..4 => return Err(Garbage::Verbatim),
            len => Head::Verbatim(len),
        },
        b'*' => Head::Array(count(text, 1)?),
        b'%' => Head::Map(count(text, 2)?),
        b'~' => Head::Set(count(text, 1)?),
        b'>' => Head::Push(count(text, 1)?),
        b'|' => Head::Attribute(count(text, 2)?),
        b'#' => match text {
            b"t" => Head::Boolean(true),
            b"f" => Head::Boolean(false),
            _ => return Err(Garbage::Number),
        },
        b',' => Head::Double(double(text).ok_or(Garbage::Number)?),
        _ => match text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text) {
            [] => return Err(Garbage::Number),
            digits if digits.iter().all(u8::is_ascii_digit) => Head::BigNumber(text),
            _ => return Err(Garbage::Number),
        },
    })
}

fn one_line(text: &[u8]) -> Result<&[u8], Garbage> {
    if memchr::memchr(b'\r', text).is_some() { Err(Garbage::LineEnd) } else { Ok(text) }
}

fn unsigned(text: &[u8]) -> Result<i64, Garbage> {
    match text {
        b"?" => Err(Garbage::Streamed),
        text => base::decimal::parse_signed(text).filter(|value| *value >= 0).ok_or(Garbage::Length),
    }
}

fn length(text: &[u8]) -> Result<u32, Garbage> {
    // The line end after the bytes counts too.
    u32::try_from(unsigned(text)?).ok().filter(|len| *len <= u32::MAX - 2).ok_or(Garbage::BulkTooLong)
}

fn count(text: &[u8], each: u32) -> Result<u32, Garbage> {
    let count = u32::try_from(unsigned(text)?).map_err(|_| Garbage::TooManyValues)?;
    if count > VALUES_MAX / each { Err(Garbage::TooManyValues) } else { Ok(count) }
}

/// Parses a double in the form of RESP: digits with a point and an exponent, `inf`, `-inf`, `nan`.
fn double(text: &[u8]) -> Option<f64> {
    match text {
        b"inf" | b"+inf" => Some(f64::INFINITY),
        b"-inf" => Some(f64::NEG_INFINITY),
        b"nan" | b"-nan" => Some(f64::NAN),
        text if text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) => {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        _ => None,
    }
}
