//! Finds the command line at the start of a receive buffer, and splits the line into words.

use memchr::memchr;

/// The maximum length of a command line, in bytes, including its end. A longer line ends the connection.
pub const LINE_BYTES_MAX: usize = 64 * 1024;

/// The result of looking for a line at the start of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'b> {
    /// The buffer contains no complete line yet.
    Incomplete,
    /// A line without its end (`\r\n`, or `\n` alone).
    Complete {
        /// The text of the line.
        text: &'b [u8],
        /// The length of the line and its end, in bytes.
        consumed: usize,
    },
    /// The first [`LINE_BYTES_MAX`] bytes contain no line end.
    TooLong,
}

/// Looks for a line at the start of `buf`.
pub fn line(buf: &[u8]) -> Line<'_> {
    let window = &buf[..buf.len().min(LINE_BYTES_MAX)];
    match memchr(b'\n', window) {
        Some(at) => {
            let text = &window[..at];
            Line::Complete { text: text.strip_suffix(b"\r").unwrap_or(text), consumed: at + 1 }
        }
        None if window.len() == LINE_BYTES_MAX => Line::TooLong,
        None => Line::Incomplete,
    }
}

const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);

/// Returns the first position where `condition` holds. `condition` tests eight bytes at a time, and sets the high bit
/// of each byte for which it holds. Only the lowest set bit of the result must be exact. Words are short, so this is
/// faster than a call of `memchr`.
#[inline(always)]
fn first_where(text: &[u8], condition: impl Fn(u64) -> u64) -> Option<usize> {
    let mut at = 0;
    let mut rest = text;
    while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
        let found = condition(u64::from_le_bytes(*eight)) & HIGHS;
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
        rest = behind;
    }
    if rest.is_empty() {
        return None;
    }
    let Some(last) = text.last_chunk::<8>() else {
        return rest.iter().position(|byte| condition(u64::from(*byte)) & 0x80 != 0);
    };
    // Reads the last eight bytes again: shifts out those already tested, and fills up with bytes that never match.
    let seen_bits = 8 * (8 - rest.len() as u32);
    let eight = (u64::from_le_bytes(*last) >> seen_bits) | (u64::MAX << (64 - seen_bits));
    let found = condition(eight) & HIGHS;
    if found == 0 { None } else { Some(at + found.trailing_zeros() as usize / 8) }
}

/// Returns the position of the first byte up to 0x20: a space or a control character, such as a line end.
#[inline(always)]
pub(super) fn first_blank(text: &[u8]) -> Option<usize> {
    first_where(text, |eight| eight.wrapping_sub(ONES * 0x21) & !eight)
}

/// Returns the position of the first byte below 0x20: a control character, such as a line end.
#[inline(always)]
pub(super) fn first_control(text: &[u8]) -> Option<usize> {
    first_where(text, |eight| eight.wrapping_sub(ONES * 0x20) & !eight)
}

/// Returns the position of the first byte that is a space, a control character below 0x20, or a delete (0x7f). A text
/// key contains none of these.
#[inline(always)]
pub(super) fn first_blank_or_delete(text: &[u8]) -> Option<usize> {
    first_where(text, |eight| {
        let differs = eight ^ (ONES * 0x7f);
        (eight.wrapping_sub(ONES * 0x21) & !eight) | (differs.wrapping_sub(ONES) & !differs)
    })
}

#[inline(always)]
fn first_space(text: &[u8]) -> Option<usize> {
    first_where(text, |eight| {
        let differs = eight ^ (ONES * b' ' as u64);
        differs.wrapping_sub(ONES) & !differs
    })
}

/// The words of a line, separated by one or more spaces. As with memcached, no other byte separates words: a tab or a
/// NUL is part of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'b> {
    rest: &'b [u8],
}

impl<'b> Words<'b> {
    /// Splits `text` into words.
    pub const fn new(text: &'b [u8]) -> Self {
        Self { rest: text }
    }

    /// Returns the text after the words that `next` has returned.
    pub const fn rest(&self) -> &'b [u8] {
        self.rest
    }
}

impl<'b> Iterator for Words<'b> {
    type Item = &'b [u8];

    #[inline]
    fn next(&mut self) -> Option<&'b [u8]> {
        let mut rest = self.rest;
        while let [b' ', tail @ ..] = rest {
            rest = tail;
        }
        if rest.is_empty() {
            self.rest = rest;
            return None;
        }
        let word;
        (word, self.rest) = match first_space(rest) {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_the_first_newline_with_or_without_a_carriage_return() {
        assert_eq!(line(b""), Line::Incomplete);
        assert_eq!(line(b"get a\r"), Line::Incomplete);
        assert_eq!(line(b"get a\r\nrest"), Line::Complete { text: b"get a", consumed: 7 });
        assert_eq!(line(b"get a\nrest"), Line::Complete { text: b"get a", consumed: 6 });
        assert_eq!(line(b"\r\n"), Line::Complete { text: b"", consumed: 2 });
        assert_eq!(line(b"a\r\r\n"), Line::Complete { text: b"a\r", consumed: 4 });
    }

    #[test]
    fn line_is_accepted_up_to_limit_only() {
        let mut buf = vec![b'x'; LINE_BYTES_MAX - 1];
        assert_eq!(line(&buf), Line::Incomplete);
        buf.push(b'\n');
        assert!(matches!(line(&buf), Line::Complete { consumed: LINE_BYTES_MAX, .. }));
        buf[LINE_BYTES_MAX - 1] = b'x';
        assert_eq!(line(&buf), Line::TooLong);
        buf.push(b'\n');
        assert_eq!(line(&buf), Line::TooLong);
    }

    #[test]
    fn eight_byte_scan_matches_bytewise_scan() {
        let mut prng = base::prng::Prng::new(5);
        let (mut spaces, mut blanks) = (0, 0);
        for round in 0..200_000u64 {
            let mut text = [0; 27];
            prng.fill(&mut text);
            // Mostly neutral bytes, with few matching ones and their neighbours, so that the first match can be
            // anywhere.
            for byte in &mut text {
                *byte = match *byte {
                    byte @ (0x1f..=0x22 | 0x7f..=0x81 | 0xa0 | 0xa1 | 0xff) if round % 2 == 0 => byte,
                    byte => byte % 94 + 0x21,
                };
            }
            let text = &text[..prng.below(28) as usize];
            let space = text.iter().position(|byte| *byte == b' ');
            let blank = text.iter().position(|byte| *byte <= b' ');
            let unfit = text.iter().position(|byte| *byte <= b' ' || *byte == 0x7f);
            let control = text.iter().position(|byte| *byte < b' ');
            assert_eq!(first_control(text), control, "{text:?}");
            assert_eq!(first_blank_or_delete(text), unfit, "{text:?}");
            assert_eq!((first_space(text), first_blank(text)), (space, blank), "{text:?}");
            spaces += u32::from(space.is_some());
            blanks += u32::from(blank.is_some());
        }
        assert!(spaces > 1000 && blanks > spaces + 1000, "{spaces} {blanks}");
    }

    #[test]
    fn runs_of_spaces_part_words_and_tabs_do_not() {
        let words: Vec<&[u8]> = Words::new(b"  get  a\tb\0 c ").collect();
        assert_eq!(words, [b"get".as_slice(), b"a\tb\0", b"c"]);
        assert_eq!(Words::new(b"   ").next(), None);
    }
}
