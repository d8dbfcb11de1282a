//! Parses inline commands: words on a line, as typed in a terminal.
//!
//! An inline command is rewritten to the usual form and parsed again, so that arguments have the same form everywhere.
//! In double quotes, `\xHH \n \r \t \b \a` stand for bytes, and a backslash before any other character stands for that
//! character. In single quotes, only `\'` is special. A space or the end of the line must follow a closing quote. As
//! with Redis, a NUL ends the line.

use super::error::ProtocolError;
use crate::number::{digits_in, put_u64};
use crate::sink::Sink;

/// Maximum length of a rewritten inline command in bytes: a one-byte word and the space after it become seven bytes,
/// and a count precedes them.
pub const INLINE_REWRITTEN_BYTES_MAX: usize = super::LINE_BYTES_MAX * 7 / 2 + 16;

/// An inline command with at least one word and balanced quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inline<'b> {
    line: &'b [u8],
    words: u32,
}

/// Returns true if the byte separates words.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

impl<'b> Inline<'b> {
    /// Parses `line`, which must not include the line end. Returns `None` if the line has no word.
    pub(super) fn new(line: &'b [u8]) -> Result<Option<Self>, ProtocolError> {
        let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
        let (mut rest, mut words) = (line, 0);
        while let Some(word) = next_word(&mut rest, &mut |_| {}) {
            word?;
            words += 1;
        }
        Ok(if words == 0 { None } else { Some(Self { line, words }) })
    }

    /// Returns the number of words.
    pub const fn words(&self) -> u32 {
        self.words
    }

    /// Writes the same command as an array of bulk strings: at most [`INLINE_REWRITTEN_BYTES_MAX`] bytes.
    pub fn rewrite(&self, sink: &mut impl Sink) {
        sink.put(b"*");
        put_u64(sink, self.words.into());
        sink.put(b"\r\n");
        let mut rest = self.line;
        loop {
            let (mut again, mut len) = (rest, 0);
            if next_word(&mut again, &mut |_| len += 1).is_none() {
                return;
            }
            debug_assert!(digits_in(len) <= 5, "a word is within a line");
            sink.put(b"$");
            put_u64(sink, len);
            sink.put(b"\r\n");
            next_word(&mut rest, &mut |byte| sink.put(&[byte]));
            sink.put(b"\r\n");
        }
    }
}

/// Splits a text of any length into words, as an inline command is split.
///
/// # Errors
/// [`ProtocolError::UnbalancedQuotes`].
pub fn split_line(text: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
    let (mut rest, mut words) = (text, Vec::new());
    loop {
        let mut word = Vec::new();
        match next_word(&mut rest, &mut |byte| word.push(byte)) {
            Some(read) => read?,
            None => return Ok(words),
        }
        words.push(word);
    }
}

/// Consumes the next word of `rest` and passes its bytes to `give` one by one. Returns `None` if there is no word.
fn next_word(rest: &mut &[u8], give: &mut impl FnMut(u8)) -> Option<Result<(), ProtocolError>> {
    while let [first, behind @ ..] = *rest {
        if !is_space(*first) {
            return Some(word(rest, give));
        }
        *rest = behind;
    }
    None
}

fn word(rest: &mut &[u8], give: &mut impl FnMut(u8)) -> Result<(), ProtocolError> {
    while let [first, behind @ ..] = *rest {
        match first {
            byte if is_space(*byte) => break,
            b'"' | b'\'' => {
                *rest = behind;
                quoted(rest, *first, give)?;
                if rest.first().is_some_and(|byte| !is_space(*byte)) {
                    return Err(ProtocolError::UnbalancedQuotes);
                }
                break;
            }
            byte => {
                give(*byte);
                *rest = behind;
            }
        }
    }
    Ok(())
}

/// Reads a quoted text up to and including the closing `quote`. The caller has consumed the opening quote.
fn quoted(rest: &mut &[u8], quote: u8, give: &mut impl FnMut(u8)) -> Result<(), ProtocolError> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    loop {
        let (byte, behind) = match (quote, *rest) {
            (_, []) => return Err(ProtocolError::UnbalancedQuotes),
            (_, [first, behind @ ..]) if *first == quote => {
                *rest = behind;
                return Ok(());
            }
            (b'"', [b'\\', b'x', high, low, behind @ ..]) if digit(*high).and(digit(*low)).is_some() => {
                (digit(*high).unwrap_or(0) << 4 | digit(*low).unwrap_or(0), behind)
            }
            (b'"', [b'\\', letter, behind @ ..]) => {
                let byte = match letter {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                };
                (byte, behind)
            }
            (b'\'', [b'\\', b'\'', behind @ ..]) => (b'\'', behind),
            (_, [first, behind @ ..]) => (*first, behind),
        };
        give(byte);
        *rest = behind;
    }
}
