//! Integers with a prefix in the first byte (RFC 7541, 5.1).

/// The maximum number of bytes after the first one. A valid encoder needs no more for any number below 2^28.
const CONTINUATION_BYTES_MAX: usize = 4;

/// Decodes the integer at the start of `bytes`, whose first byte holds `prefix_bits` bits of it. Returns the number and
/// its length in bytes; `None` if it is cut off or too large.
#[inline(always)]
pub(super) fn decode(bytes: &[u8], prefix_bits: u32) -> Option<(usize, usize)> {
    let mask = (1u8 << prefix_bits).wrapping_sub(1);
    let prefix = *bytes.first()? & mask;
    if prefix < mask {
        return Some((usize::from(prefix), 1));
    }
    decode_long(bytes, usize::from(mask))
}

/// Decodes the bytes after a prefix of ones only.
fn decode_long(bytes: &[u8], mask: usize) -> Option<(usize, usize)> {
    let mut value = mask;
    for (at, byte) in bytes.iter().enumerate().skip(1).take(CONTINUATION_BYTES_MAX) {
        value += usize::from(byte & 0x7f) << (7 * (at - 1));
        if byte & 0x80 == 0 {
            return Some((value, at + 1));
        }
    }
    None
}

/// Appends `value`, whose first byte has the bits `flags` above the prefix.
pub(super) fn encode(sink: &mut impl crate::sink::Sink, flags: u8, prefix_bits: u32, value: usize) {
    let mask = (1usize << prefix_bits) - 1;
    if value < mask {
        return sink.put(&[flags | value as u8]);
    }
    sink.put(&[flags | mask as u8]);
    let mut rest = value - mask;
    while rest >= 0x80 {
        sink.put(&[(rest & 0x7f) as u8 | 0x80]);
        rest >>= 7;
    }
    sink.put(&[rest as u8]);
}
