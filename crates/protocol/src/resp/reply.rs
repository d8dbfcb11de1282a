//! Writes a server's replies in either version. Each writer documents its maximum length.

use std::fmt::Write as _;

use super::Version;
use crate::number::{U64_DIGITS_MAX, digits_in, pair, put_i64, write_digits};
use crate::sink::{FILL_BYTES_MAX, Fixed, Sink};

/// The reply `+OK`.
pub const OK: &[u8] = b"+OK\r\n";
/// The reply `+PONG`.
pub const PONG: &[u8] = b"+PONG\r\n";
/// The reply `+QUEUED`.
pub const QUEUED: &[u8] = b"+QUEUED\r\n";

/// The maximum length of a line with a first byte and a number, in bytes.
pub const NUMBER_LINE_BYTES_MAX: usize = 1 + 1 + U64_DIGITS_MAX + 2;

const CRLF: &[u8] = b"\r\n";

fn assert_line(text: &[u8]) {
    debug_assert!(!text.iter().any(|byte| matches!(byte, b'\r' | b'\n')), "a line has no line end in it: {text:?}");
}

#[inline]
fn number_line(sink: &mut impl Sink, first: u8, number: u64) {
    if number < 100 {
        // Most counts and lengths take this path.
        let [tens, ones] = pair(number as u8);
        return match number {
            0..10 => sink.put(&[first, ones, b'\r', b'\n']),
            _ => sink.put(&[first, tens, ones, b'\r', b'\n']),
        };
    }
    let digits = digits_in(number);
    sink.fill(1 + digits + 2, |line| {
        line[0] = first;
        write_digits(&mut line[1..=digits], number);
        line[1 + digits..].copy_from_slice(CRLF);
    });
}

/// Writes a simple string: the bytes of the text and 3 more bytes. The text must not contain a line end.
pub fn simple(sink: &mut impl Sink, text: &[u8]) {
    assert_line(text);
    sink.put(b"+");
    sink.put(text);
    sink.put(CRLF);
}

/// Writes an error, which begins with its code (`ERR`, `WRONGTYPE`): the bytes of the text and 3 more bytes. The text
/// must not contain a line end.
pub fn error(sink: &mut impl Sink, text: &[u8]) {
    assert_line(text);
    sink.put(b"-");
    sink.put(text);
    sink.put(CRLF);
}

/// Writes an error that may contain line ends: the bytes of the text and at most 25 more bytes. Version 2 replaces each
/// line end by a space.
pub fn bulk_error(sink: &mut impl Sink, version: Version, text: &[u8]) {
    match version {
        Version::Resp3 => {
            number_line(sink, b'!', text.len() as u64);
            sink.put(text);
        }
        Version::Resp2 => {
            sink.put(b"-");
            for (number, part) in text.split(|byte| matches!(byte, b'\r' | b'\n')).enumerate() {
                sink.put(if number == 0 { b"" } else { b" " });
                sink.put(part);
            }
        }
    }
    sink.put(CRLF);
}

/// Writes an integer: at most [`NUMBER_LINE_BYTES_MAX`] bytes.
pub fn int(sink: &mut impl Sink, value: i64) {
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    line.push(b':');
    put_i64(&mut line, value);
    line.put(CRLF);
    sink.put(line.as_slice());
}

/// Writes the line before a bulk string of `len` bytes: at most [`NUMBER_LINE_BYTES_MAX`] bytes. `\r\n` must follow the
/// string.
pub fn bulk_head(sink: &mut impl Sink, len: u64) {
    number_line(sink, b'$', len);
}

/// Writes a bulk string: the bytes of the string and at most [`NUMBER_LINE_BYTES_MAX`] + 2 more bytes.
#[inline]
pub fn bulk(sink: &mut impl Sink, bytes: &[u8]) {
    if bytes.len() > BULK_SHORT_BYTES_MAX {
        bulk_head(sink, bytes.len() as u64);
        sink.put(bytes);
        sink.put(CRLF);
        return;
    }
    sink.fill(bulk_bytes(bytes.len()), |room| {
        write_bulk(room, bytes);
    });
}

/// The maximum length of a bulk string that is written in one step, in bytes.
const BULK_SHORT_BYTES_MAX: usize = FILL_BYTES_MAX - NUMBER_LINE_BYTES_MAX - 2;

/// Returns the length of an encoded bulk string of `len` bytes.
#[inline]
const fn bulk_bytes(len: usize) -> usize {
    1 + digits_in(len as u64) + 2 + len + 2
}

/// Writes a bulk string to the start of `room` in one step. Returns its encoded length: its bytes and at most
/// [`NUMBER_LINE_BYTES_MAX`] + 2 more.
///
/// # Panics
/// If `room` is too short.
#[inline(always)]
pub fn write_bulk(room: &mut [u8], bytes: &[u8]) -> usize {
    let len = bytes.len();
    // Most strings are short, and their heads are written in one step.
    match len {
        0..10 => {
            room[..4].copy_from_slice(&[b'$', b'0' + len as u8, b'\r', b'\n']);
            let (text, end) = room[4..len + 6].split_at_mut(len);
            copy(text, bytes);
            end.copy_from_slice(CRLF);
            len + 6
        }
        10..100 => {
            let [tens, ones] = pair(len as u8);
            room[..5].copy_from_slice(&[b'$', tens, ones, b'\r', b'\n']);
            let (text, end) = room[5..len + 7].split_at_mut(len);
            copy(text, bytes);
            end.copy_from_slice(CRLF);
            len + 7
        }
        _ => {
            let digits = digits_in(len as u64);
            let from = 3 + digits;
            room[0] = b'$';
            write_digits(&mut room[1..=digits], len as u64);
            room[1 + digits..from].copy_from_slice(CRLF);
            let (text, end) = room[from..from + len + 2].split_at_mut(len);
            text.copy_from_slice(bytes);
            end.copy_from_slice(CRLF);
            from + len + 2
        }
    }
}

/// Copies `from` to `to`, which has the same length. Short strings, as most names and values are, are copied as two
/// words that may overlap. This costs less than a call.
#[inline(always)]
fn copy(to: &mut [u8], from: &[u8]) {
    let len = from.len();
    match len {
        8..=16 => {
            to[..8].copy_from_slice(&from[..8]);
            to[len - 8..].copy_from_slice(&from[len - 8..]);
        }
        4..8 => {
            to[..4].copy_from_slice(&from[..4]);
            to[len - 4..].copy_from_slice(&from[len - 4..]);
        }
        _ => to.copy_from_slice(from),
    }
}

/// Writes a null in place of a bulk string: at most 5 bytes.
pub fn null(sink: &mut impl Sink, version: Version) {
    sink.put(match version {
        Version::Resp2 => b"$-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// Writes a null in place of an array: at most 5 bytes.
pub fn null_array(sink: &mut impl Sink, version: Version) {
    sink.put(match version {
        Version::Resp2 => b"*-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// Writes a boolean: 4 bytes.
pub fn boolean(sink: &mut impl Sink, version: Version, value: bool) {
    sink.put(match (version, value) {
        (Version::Resp2, false) => b":0\r\n",
        (Version::Resp2, true) => b":1\r\n",
        (Version::Resp3, false) => b"#f\r\n",
        (Version::Resp3, true) => b"#t\r\n",
    });
}

/// The maximum length of a double's text in bytes: sign, 17 digits, point, exponent, or up to 5 zeros.
const DOUBLE_BYTES_MAX: usize = 32;

struct Text(Fixed<DOUBLE_BYTES_MAX>);

impl std::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.put(text.as_bytes());
        Ok(())
    }
}

/// Writes a double with the fewest digits that read back as the same value: at most 40 bytes.
pub fn double(sink: &mut impl Sink, version: Version, value: f64) {
    let mut text = Text(Fixed::new());
    let magnitude = value.abs();
    let written = if value.is_infinite() || value.is_nan() {
        text.write_str(if value.is_nan() { "nan" } else { ["inf", "-inf"][usize::from(value < 0.0)] })
    } else if magnitude == 0.0 || (1e-5..1e17).contains(&magnitude) {
        write!(text, "{value}")
    } else if magnitude < 1.0 {
        write!(text, "{value:e}")
    } else {
        // As in C, the exponent has a sign.
        let mut plain = Text(Fixed::new());
        write!(plain, "{value:e}").and_then(|()| {
            let plain = String::from_utf8_lossy(plain.0.as_slice());
            let (digits, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
            write!(text, "{digits}e+{exponent}")
        })
    };
    written.expect("a double's text is within its maximum");
    number_text(sink, version, b',', text.0.as_slice());
}

/// Writes a floating-point number from its digits.
pub fn double_text(sink: &mut impl Sink, version: Version, digits: &[u8]) {
    number_text(sink, version, b',', digits);
}

/// Writes an integer of any size, in decimal: its digits and at most [`NUMBER_LINE_BYTES_MAX`] + 2 more bytes.
pub fn big_number(sink: &mut impl Sink, version: Version, digits: &[u8]) {
    debug_assert!(digits.strip_prefix(b"-").unwrap_or(digits).iter().all(u8::is_ascii_digit), "{digits:?}");
    number_text(sink, version, b'(', digits);
}

fn number_text(sink: &mut impl Sink, version: Version, first: u8, text: &[u8]) {
    match version {
        Version::Resp2 => bulk(sink, text),
        Version::Resp3 => {
            sink.put(&[first]);
            sink.put(text);
            sink.put(CRLF);
        }
    }
}

/// Writes a verbatim string: a text with the three letters of its format (`txt`, `mkd`). The reply is at most
/// [`NUMBER_LINE_BYTES_MAX`] + 6 bytes longer than the text.
pub fn verbatim(sink: &mut impl Sink, version: Version, format: &[u8; 3], text: &[u8]) {
    match version {
        Version::Resp2 => bulk(sink, text),
        Version::Resp3 => {
            number_line(sink, b'=', text.len() as u64 + 4);
            sink.put(format);
            sink.put(b":");
            sink.put(text);
            sink.put(CRLF);
        }
    }
}

/// Writes the bytes before the text of a verbatim string of `len` bytes: at most [`NUMBER_LINE_BYTES_MAX`] + 4 bytes.
/// The text and its line end must follow.
pub fn text_head(sink: &mut impl Sink, version: Version, format: &[u8; 3], len: u64) {
    match version {
        Version::Resp2 => bulk_head(sink, len),
        Version::Resp3 => {
            number_line(sink, b'=', len + 4);
            sink.put(format);
            sink.put(b":");
        }
    }
}

/// Writes the line before an array of `len` replies: at most [`NUMBER_LINE_BYTES_MAX`] bytes.
pub fn array(sink: &mut impl Sink, len: u64) {
    number_line(sink, b'*', len);
}

/// Writes the line before a map of `pairs` alternating keys and values: at most [`NUMBER_LINE_BYTES_MAX`] bytes.
pub fn map(sink: &mut impl Sink, version: Version, pairs: u64) {
    match version {
        Version::Resp2 => array(sink, pairs * 2),
        Version::Resp3 => number_line(sink, b'%', pairs),
    }
}

/// Writes the line before a set of `len` replies: at most [`NUMBER_LINE_BYTES_MAX`] bytes.
pub fn set(sink: &mut impl Sink, version: Version, len: u64) {
    match version {
        Version::Resp2 => array(sink, len),
        Version::Resp3 => number_line(sink, b'~', len),
    }
}

/// Writes the line before a push message of `len` replies: at most [`NUMBER_LINE_BYTES_MAX`] bytes. A push message may
/// be written only between two replies.
pub fn push(sink: &mut impl Sink, version: Version, len: u64) {
    match version {
        Version::Resp2 => array(sink, len),
        Version::Resp3 => number_line(sink, b'>', len),
    }
}

/// Writes the line before an attribute's `pairs` names and values: at most [`NUMBER_LINE_BYTES_MAX`] bytes. The reply
/// that the attribute describes must follow them. Only version 3 has attributes.
pub fn attribute(sink: &mut impl Sink, pairs: u64) {
    number_line(sink, b'|', pairs);
}
