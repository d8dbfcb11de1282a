//! The Huffman code of HPACK (RFC 7541, 5.2 and appendix B).
//!
//! The code is canonical: codes of the same length are consecutive in the order of their symbols, and shorter codes
//! come first. So the lengths of all codes define it:
//!
//! ```text
//!   length      5        6        7       8     ...    30
//!   codes    0.. 9    20..45   92..123 248..253 ...        the first code of a length continues the last one, shifted
//! ```

/// The lengths of the codes of all symbols, in bits. The last symbol marks the end.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28,
    28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6,
    12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15,
    5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20,
    22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22,
    23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26,
    27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];
/// The maximum length of a code, in bits.
const LENGTH_MAX: usize = 30;
/// The minimum length of a code, in bits.
const LENGTH_MIN: usize = 5;
/// The symbol that marks the end. It never occurs in a string.
const END: u16 = 256;

/// The codes of one length.
#[derive(Clone, Copy)]
struct CodeGroup {
    /// The first code.
    first: u32,
    /// The number of codes.
    count: u32,
    /// The place of the first code's symbol in [`SYMBOLS`].
    place: u32,
}

/// The symbols in the order of their codes.
const SYMBOLS: [u16; 257] = symbols();
/// The codes of each length, from 0 to [`LENGTH_MAX`] bits.
const GROUPS: [CodeGroup; LENGTH_MAX + 1] = groups();

const fn symbols() -> [u16; 257] {
    let (mut symbols, mut place, mut length) = ([0; 257], 0, 0);
    while length <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                symbols[place] = symbol as u16;
                place += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    symbols
}

const fn groups() -> [CodeGroup; LENGTH_MAX + 1] {
    let mut groups = [CodeGroup { first: 0, count: 0, place: 0 }; LENGTH_MAX + 1];
    let (mut length, mut code, mut place) = (1, 0, 0);
    while length <= LENGTH_MAX {
        code <<= 1;
        let (mut symbol, mut count) = (0, 0);
        while symbol < LENGTHS.len() {
            count += (LENGTHS[symbol] as usize == length) as u32;
            symbol += 1;
        }
        groups[length] = CodeGroup { first: code, count, place };
        (code, place) = (code + count, place + count);
        length += 1;
    }
    groups
}

/// Appends the text of a Huffman-coded string to `to`. Returns false, with a part of the text appended, if the string
/// is malformed: it contains the end symbol, or does not end with at most 7 bits of its code.
#[must_use]
pub(super) fn decode(coded: &[u8], to: &mut Vec<u8>) -> bool {
    let (mut bits, mut held, mut bytes) = (0u64, 0usize, coded.iter());
    loop {
        while held <= 56
            && let Some(byte) = bytes.next()
        {
            bits = bits << 8 | u64::from(*byte);
            held += 8;
        }
        let Some((symbol, length)) = first_symbol(bits, held) else { break };
        if symbol == END {
            return false;
        }
        to.push(symbol as u8);
        held -= length;
    }
    // The padding is the beginning of the end symbol's code, which has only ones.
    held < 8 && bits & ((1 << held) - 1) == (1 << held) - 1
}

/// Returns the symbol whose code begins the last `held` of `bits`, and the code's length; `None` if no code is
/// complete.
#[inline]
fn first_symbol(bits: u64, held: usize) -> Option<(u16, usize)> {
    for (length, group) in GROUPS.iter().enumerate().take(held + 1).skip(LENGTH_MIN) {
        let code = (bits >> (held - length)) as u32 & ((1 << length) - 1);
        if code.wrapping_sub(group.first) < group.count {
            return Some((SYMBOLS[(group.place + code - group.first) as usize], length));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of a string in hexadecimal.
    fn decoded(hex: &str) -> Option<String> {
        let mut text = Vec::new();
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        decode(&bytes, &mut text).then(|| String::from_utf8(text).unwrap())
    }

    #[test]
    fn strings_of_the_appendix_c_are_decoded() {
        assert_eq!(decoded("f1e3c2e5f23a6ba0ab90f4ff").as_deref(), Some("www.example.com"));
        assert_eq!(decoded("a8eb10649cbf").as_deref(), Some("no-cache"));
        assert_eq!(decoded("25a849e95bb8e8b4bf").as_deref(), Some("custom-value"));
        let date = "d07abe941054d444a8200595040b8166e082a62d1bff";
        assert_eq!(decoded(date).as_deref(), Some("Mon, 21 Oct 2013 20:13:21 GMT"));
        assert_eq!(decoded("").as_deref(), Some(""));
    }

    #[test]
    fn padding_that_is_long_or_has_zeros_and_the_end_symbol_are_refused() {
        assert_eq!(decoded("a8eb10649cbe"), None, "padding with a zero");
        assert_eq!(decoded("a8eb10649cbfff"), None, "padding of a whole byte");
        assert_eq!(decoded("ffffffff"), None, "the end symbol");
        assert_eq!(decoded("fffffffc"), None);
    }

    #[test]
    fn every_symbol_is_decoded_from_its_code() {
        for (symbol, length) in LENGTHS.iter().enumerate().take(256) {
            let length = usize::from(*length);
            let place = SYMBOLS.iter().position(|of| usize::from(*of) == symbol).unwrap() as u32;
            let code = GROUPS[length].first + place - GROUPS[length].place;
            let bits = (u64::from(code) << (64 - length)) | (u64::MAX >> length);
            let bytes = bits.to_be_bytes();
            let mut text = Vec::new();
            assert!(decode(&bytes[..length.div_ceil(8)], &mut text), "{symbol}");
            assert_eq!(usize::from(text[0]), symbol);
        }
    }
}
