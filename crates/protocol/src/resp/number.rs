//! Parses the line after a type's first byte, which nearly always is a number.

use memchr::memchr;

use super::LINE_BYTES_MAX;

/// The result of looking for the rest of a line after a type's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'b> {
    /// The line end has not arrived yet.
    Incomplete,
    /// The line without its end, and the length of the line with its end, in bytes.
    Complete(&'b [u8], usize),
    /// No line end within [`LINE_BYTES_MAX`].
    TooLong,
    /// A newline without a carriage return before it.
    BareNewline,
}

/// Returns the line at the start of `buf`.
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

/// Maximum number of digits for the fast path, so that 32 bits cannot overflow.
const PLAIN_DIGITS_MAX: usize = 9;

/// The greatest number that [`short`] parses.
pub(super) const SHORT_MAX: u32 = 99;

/// Parses a number of one digit or two, and its line end. Returns the number and the length of number and line end, in
/// bytes.
#[inline(always)]
pub(super) fn short(buf: &[u8]) -> Option<(u32, usize)> {
    match *buf {
        [digit @ b'0'..=b'9', b'\r', b'\n', ..] => Some(((digit - b'0').into(), 3)),
        [high @ b'1'..=b'9', low @ b'0'..=b'9', b'\r', b'\n', ..] => {
            Some((u32::from(high - b'0') * 10 + u32::from(low - b'0'), 4))
        }
        _ => None,
    }
}

/// Parses a number that [`plain`] has accepted before, and its line end. Returns what [`plain`] has returned. It takes
/// half as many instructions, because only the end of the number is searched for.
#[inline(always)]
pub(super) fn accepted(buf: &[u8]) -> (u32, usize) {
    let digit = |byte: u8| u32::from(byte.wrapping_sub(b'0'));
    let parsed = match *buf {
        [low, b'\r', ..] => (digit(low), 3),
        [high, low, b'\r', ..] => (digit(high) * 10 + digit(low), 4),
        _ => {
            let (mut value, mut at) = (0_u32, 0);
            while buf[at] != b'\r' {
                value = value.wrapping_mul(10).wrapping_add(digit(buf[at]));
                at += 1;
            }
            (value, at + 2)
        }
    };
    debug_assert_eq!(plain(buf), Some(parsed), "the number was accepted before");
    parsed
}

/// Parses a number of at most [`PLAIN_DIGITS_MAX`] digits without a sign, and its line end. Returns the number and the
/// length of number and line end, in bytes. For all other forms the caller uses [`line()`] and `parse`.
#[inline(always)]
pub(super) fn plain(buf: &[u8]) -> Option<(u32, usize)> {
    // Nearly all numbers of a request have one digit or two. The loop needs twice as many instructions for them.
    if let Some(parsed) = short(buf) {
        return Some(parsed);
    }
    let (mut value, mut at) = (0, 0);
    while let Some(digit) = buf.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9) {
        if at == PLAIN_DIGITS_MAX {
            return None;
        }
        value = value * 10 + u32::from(digit);
        at += 1;
    }
    match buf[at..] {
        // A number with a leading zero is invalid.
        [b'\r', b'\n', ..] if at == 1 || (at > 1 && buf[0] != b'0') => Some((value, at + 2)),
        _ => None,
    }
}
