//! The line behind a type's first byte: a number, nearly always.

use memchr::memchr;

use super::LINE_BYTES_MAX;

/// The rest of a line, behind a type's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'b> {
    /// No line end yet.
    Incomplete,
    /// A line without its end, and the bytes of both.
    Complete(&'b [u8], usize),
    /// No line end within [`LINE_BYTES_MAX`].
    TooLong,
    /// A newline without a carriage return before it.
    BareNewline,
}

/// The line at the start of `buf`.
#[inline]
pub(super) fn line(buf: &[u8]) -> Line<'_> {
    let window = &buf[..buf.len().min(LINE_BYTES_MAX)];
    match memchr(b'\n', window) {
        Some(at) => match window[..at].strip_suffix(b"\r") {
            Some(text) => Line::Complete(text, at + 1),
            None => Line::BareNewline,
        },
        None if window.len() == LINE_BYTES_MAX => Line::TooLong,
        None => Line::Incomplete,
    }
}

/// Digits of a number that is read in the short way: no overflow of 32 bits.
const PLAIN_DIGITS_MAX: usize = 9;

/// A number of at most [`PLAIN_DIGITS_MAX`] digits without a sign, its line end behind it, and the bytes of both.
/// Anything else is left to [`line()`] and `parse`, which read this form just the same.
#[inline(always)]
pub(super) fn plain(buf: &[u8]) -> Option<(u32, usize)> {
    let (mut value, mut at) = (0, 0);
    while let Some(digit) = buf.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9) {
        if at == PLAIN_DIGITS_MAX {
            return None;
        }
        value = value * 10 + u32::from(digit);
        at += 1;
    }
    match buf[at..] {
        // A zero before other digits is none.
        [b'\r', b'\n', ..] if at == 1 || (at > 1 && buf[0] != b'0') => Some((value, at + 2)),
        _ => None,
    }
}
