//! The Huffman code of HPACK (RFC 7541, 5.2 and appendix B).
//!
//! The code is canonical: within a length, codes ascend with their symbols, and a longer code is numerically above all
//! shorter ones. So the lengths alone define it, and all tables are computed from them at compile time.
//!
//! ```text
//!  window, 32 bits   | 8 bits | ...            |
//!                    `-> SHORT: symbol, length      codes of at most 8 bits: all letters, digits and most punctuation
//!                        otherwise FIRST_ABOVE      the first length whose codes are all above the window is one
//!                                                   too long
//! ```

/// The lengths of the codes in bits, by symbol (RFC 7541, appendix B). Symbol 256 is the end of the string.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];

/// The longest code in bits.
const LENGTH_MAX: usize = 30;
/// The longest code in bits that [`TABLES`] finds by one look-up.
const SHORT_BITS: usize = 8;
/// The symbol that must not occur in a string.
const END: u16 = 256;

/// The decoding tables.
struct Tables {
    /// Symbol and code length, by the next 8 bits. Length 0: the code is longer.
    short: [(u8, u8); 1 << SHORT_BITS],
    /// By length: the first code of greater length, left-aligned in 32 bits.
    first_above: [u32; LENGTH_MAX + 1],
    /// By length: the first code of this length.
    first_code: [u32; LENGTH_MAX + 1],
    /// By length: the index in `symbols` of the first code's symbol.
    first_symbol: [u16; LENGTH_MAX + 1],
    /// All symbols in the order of their codes.
    symbols: [u16; 257],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables {
        short: [(0, 0); 1 << SHORT_BITS],
        first_above: [0; LENGTH_MAX + 1],
        first_code: [0; LENGTH_MAX + 1],
        first_symbol: [0; LENGTH_MAX + 1],
        symbols: [0; 257],
    };
    let (mut code, mut index, mut length) = (0u64, 0usize, 1usize);
    while length <= LENGTH_MAX {
        code <<= 1;
        tables.first_code[length] = code as u32;
        tables.first_symbol[length] = index as u16;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == length {
                tables.symbols[index] = symbol as u16;
                if length <= SHORT_BITS {
                    let from = (code << (SHORT_BITS - length)) as usize;
                    let mut at = from;
                    while at < from + (1 << (SHORT_BITS - length)) {
                        tables.short[at] = (symbol as u8, length as u8);
                        at += 1;
                    }
                }
                code += 1;
                index += 1;
            }
            symbol += 1;
        }
        let above = code << (32 - length);
        tables.first_above[length] = if above > u32::MAX as u64 { u32::MAX } else { above as u32 };
        length += 1;
    }
    // The code is complete: the last code of the greatest length is all ones.
    assert!(code == 1 << LENGTH_MAX && index == 257);
    tables
}

/// A string that is not a valid Huffman code: it holds the end symbol, or its padding is longer than 7 bits or has a
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HuffmanError;

/// Decodes `code` and appends the string to `out`: at most 8 / 5 of the code's length.
pub fn decode(code: &[u8], out: &mut Vec<u8>) -> Result<(), HuffmanError> {
    out.reserve(code.len() * 8 / 5 + 1);
    let mut rest = code;
    // The next `bits` bits of the code are the uppermost bits of `window`; ones follow.
    let (mut window, mut bits) = (u64::MAX, 0usize);
    loop {
        if bits <= 32 {
            if let Some((word, behind)) = rest.split_first_chunk::<4>() {
                let word = u64::from(u32::from_be_bytes(*word)) << 32 >> bits;
                window = window & !(u64::MAX << 32 >> bits) | word;
                (rest, bits) = (behind, bits + 32);
            } else {
                while let Some((byte, behind)) = rest.split_first() {
                    window = window & !(0xff << 56 >> bits) | u64::from(*byte) << 56 >> bits;
                    (rest, bits) = (behind, bits + 8);
                }
            }
        }
        let (symbol, length) = TABLES.short[(window >> 56) as usize];
        let (symbol, length) = if length > 0 { (symbol, usize::from(length)) } else { long(window, bits)? };
        if length > bits {
            break;
        }
        out.push(symbol);
        window = window << length | ((1 << length) - 1);
        bits -= length;
    }
    // The rest is padding: less than a byte of ones (RFC 7541, 5.2). Ones follow it in `window`.
    if bits > 7 || window != u64::MAX { Err(HuffmanError) } else { Ok(()) }
}

/// Finds the symbol of a code of more than 8 bits. A code that is only ones up to the end of the string is padding,
/// for which the returned length exceeds `bits`.
#[inline]
fn long(window: u64, bits: usize) -> Result<(u8, usize), HuffmanError> {
    let head = (window >> 32) as u32;
    let mut length = SHORT_BITS + 1;
    while length < LENGTH_MAX && head >= TABLES.first_above[length] {
        length += 1;
    }
    let code = head >> (32 - length);
    let index = u32::from(TABLES.first_symbol[length]) + (code - TABLES.first_code[length]);
    match TABLES.symbols[index as usize] {
        END if bits >= LENGTH_MAX => Err(HuffmanError),
        END => Ok((0, LENGTH_MAX)),
        symbol => Ok((symbol as u8, length)),
    }
}

/// Returns the length in bytes of the code of `text`.
#[cfg(test)]
pub(super) fn encoded_len(text: &[u8]) -> usize {
    text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum::<usize>().div_ceil(8)
}

/// Encodes `text` bit by bit, as the reference for tests of the decoder.
#[cfg(test)]
pub(super) fn encode(text: &[u8]) -> Vec<u8> {
    let mut bits = Vec::new();
    for byte in text {
        let length = usize::from(LENGTHS[usize::from(*byte)]);
        let first = usize::from(TABLES.first_symbol[length]);
        let rank = TABLES.symbols[first..].iter().position(|symbol| *symbol == u16::from(*byte)).expect("a symbol");
        let code = TABLES.first_code[length] + rank as u32;
        bits.extend((0..length).rev().map(|bit| code >> bit & 1));
    }
    while !bits.len().is_multiple_of(8) {
        bits.push(1);
    }
    bits.chunks(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | *bit as u8)).collect()
}
