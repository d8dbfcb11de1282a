//! The encoding of `grpc-message`: printable ASCII except the percent sign, and `%XX` for other bytes.

use crate::sink::Sink;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'%'
}

/// Returns the length in bytes of `text` in its encoded form: at most three times as long.
pub fn encoded_len(text: &[u8]) -> usize {
    text.len() + 2 * text.iter().filter(|byte| !is_plain(**byte)).count()
}

/// Appends the encoded form of `text`.
pub fn encode(sink: &mut impl Sink, text: &[u8]) {
    let mut rest = text;
    while !rest.is_empty() {
        let plain = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(plain);
        sink.put(run);
        let Some((byte, behind)) = behind.split_first() else { return };
        sink.put(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        rest = behind;
    }
}

/// Appends the decoded form of `text`. A percent sign without two hexadecimal digits is itself, because a message with
/// an error in it is of more use than none.
pub fn decode(sink: &mut impl Sink, text: &[u8]) {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut rest = text;
    while let Some((byte, behind)) = rest.split_first() {
        let value = match behind {
            [high, low, ..] if *byte == b'%' => digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        sink.put(&[value.unwrap_or(*byte)]);
        rest = if value.is_some() { &behind[2..] } else { behind };
    }
}
