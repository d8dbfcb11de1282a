//! Parses lines of RESP's `MONITOR`: `+1700000000.123456 [0 127.0.0.1:4711] "SET" "key" "value"`.

use xxhash_rust::xxh3::xxh3_64;

use super::resp::PartialCommand;
use super::{Ledger, Pen, Seen};

/// Returns the time of a line, in microseconds since 1970, and the rest of the line.
pub(super) fn timed(text: &[u8]) -> Option<(u64, &[u8])> {
    let text = text.strip_prefix(b"+")?;
    let space = text.iter().position(|byte| *byte == b' ')?;
    Some((micros(&text[..space])?, &text[space + 1..]))
}

/// Parses the part of a line after its time; `pen` has the time and the secret. Returns `None` if the line is not a
/// `MONITOR` line. Commands without a key are counted.
pub(super) fn monitored(rest: &[u8], pen: &mut Pen, ledger: &mut Ledger, seen: &mut Seen) -> Option<()> {
    let rest = rest.strip_prefix(b"[")?;
    // The address may be a path with brackets; the quote of the command marks its end.
    let close = rest.windows(3).position(|three| three == b"] \"")?;
    pen.connection = xxh3_64(&rest[..close]) as u32;
    let mut words = Vec::new();
    let mut quoted = &rest[close + 2..];
    while !quoted.is_empty() {
        words.push(word(&mut quoted)?);
    }
    let entries = PartialCommand::of_words(words.iter().map(Vec::as_slice), pen, ledger);
    seen.other_requests += u64::from(entries == 0);
    Some(())
}

/// Returns the microseconds of a time with six decimal digits.
pub(super) fn micros(text: &[u8]) -> Option<u64> {
    let point = text.iter().position(|byte| *byte == b'.')?;
    let (seconds, digits) = (&text[..point], &text[point + 1..]);
    let seconds = protocol::number::parse_u64(seconds)?;
    let part = protocol::number::parse_u64(digits).filter(|_| digits.len() == 6)?;
    seconds.checked_mul(1_000_000)?.checked_add(part)
}

/// Removes a quoted word and the following space from the front.
fn word(text: &mut &[u8]) -> Option<Vec<u8>> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut word = Vec::new();
    loop {
        let (first, behind) = rest.split_first()?;
        rest = behind;
        match first {
            b'"' => break,
            b'\\' => {
                let (escaped, behind) = rest.split_first()?;
                rest = behind;
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'x' => {
                        let (digits, behind) = rest.split_first_chunk::<2>()?;
                        rest = behind;
                        let digit = |byte: u8| char::from(byte).to_digit(16);
                        (digit(digits[0])? << 4 | digit(digits[1])?) as u8
                    }
                    other => *other,
                });
            }
            other => word.push(*other),
        }
    }
    *text = rest.strip_prefix(b" ").unwrap_or(rest);
    Some(word)
}
