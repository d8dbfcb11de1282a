//! Converts decimal text to integers and back, without allocation.

use crate::sink::Sink;

/// The number of digits of the longest `u64`.
pub const U64_DIGITS_MAX: usize = 20;

/// Parses an unsigned 64-bit decimal number. Accepts one leading `+`, as C's `strtoull` does. Returns `None` for
/// anything else, including an empty slice and an overflow.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    let mut value = 0u64;
    if digits.len() < U64_DIGITS_MAX {
        // 19 digits cannot overflow.
        for &byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// Parses an unsigned 32-bit decimal number, in the form that [`parse_u64`] accepts.
pub fn parse_u32(text: &[u8]) -> Option<u32> {
    parse_u64(text).and_then(|value| u32::try_from(value).ok())
}

/// Parses a 64-bit decimal number with an optional sign.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) if digits.first() == Some(&b'+') => None,
        Some(digits) => parse_u64(digits).and_then(|value| 0i64.checked_sub_unsigned(value)),
        None => parse_u64(text).and_then(|value| i64::try_from(value).ok()),
    }
}

/// The decimal digits of a number, stored without allocation.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    digits: [u8; U64_DIGITS_MAX],
    start: u8,
}

const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut n = 0;
    while n < 100 {
        pairs[2 * n] = b'0' + (n / 10) as u8;
        pairs[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    pairs
};

impl Decimal {
    /// Formats `value` as decimal digits.
    #[inline]
    pub const fn new(mut value: u64) -> Self {
        let mut digits = [0; U64_DIGITS_MAX];
        let mut at = U64_DIGITS_MAX;
        while value >= 100 {
            let pair = (value % 100) as usize * 2;
            value /= 100;
            at -= 2;
            digits[at] = PAIRS[pair];
            digits[at + 1] = PAIRS[pair + 1];
        }
        if value >= 10 {
            let pair = value as usize * 2;
            at -= 2;
            digits[at] = PAIRS[pair];
            digits[at + 1] = PAIRS[pair + 1];
        } else {
            at -= 1;
            digits[at] = b'0' + value as u8;
        }
        Self { digits, start: at as u8 }
    }

    /// Returns the digits, the most significant first.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.digits[usize::from(self.start)..]
    }
}

/// Returns the two digits of a number below 100.
#[inline]
pub const fn pair(number: u8) -> [u8; 2] {
    [PAIRS[2 * number as usize], PAIRS[2 * number as usize + 1]]
}

/// Returns the number of digits of `value`.
#[inline]
pub const fn digits_in(value: u64) -> usize {
    match value {
        0..10 => 1,
        10..100 => 2,
        100..1000 => 3,
        1000..10_000 => 4,
        _ => value.ilog10() as usize + 1,
    }
}

/// Fills `place` with the digits of `value`. The length of `place` must be the number of digits ([`digits_in`]).
#[inline]
pub const fn write_digits(place: &mut [u8], mut value: u64) {
    if let [hundreds, tens, ones] = place {
        // Most lengths of values take this path.
        let pair = (value % 100) as usize * 2;
        *hundreds = b'0' + (value / 100) as u8;
        *tens = PAIRS[pair];
        *ones = PAIRS[pair + 1];
        return;
    }
    let mut at = place.len();
    while at >= 2 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        place[at] = PAIRS[pair];
        place[at + 1] = PAIRS[pair + 1];
    }
    if at == 1 {
        place[0] = b'0' + (value % 10) as u8;
    }
}

/// Writes `value` in decimal: at most [`U64_DIGITS_MAX`] bytes.
pub fn put_u64(sink: &mut impl Sink, value: u64) {
    sink.put(Decimal::new(value).as_slice());
}

/// Writes `value` in decimal: at most [`U64_DIGITS_MAX`] bytes, including its sign.
pub fn put_i64(sink: &mut impl Sink, value: i64) {
    if value < 0 {
        sink.put(b"-");
    }
    put_u64(sink, value.unsigned_abs());
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn digits_agree_with_the_standard_library_at_every_length_and_edge() {
        let mut prng = Prng::new(3);
        let mut values = vec![0, 1, 9, 10, 99, 100, 101, 999, u64::from(u32::MAX), i64::MAX as u64, u64::MAX];
        for shift in 0..64 {
            values.push(prng.next_u64() >> shift);
            values.push(1 << shift);
        }
        for value in values {
            let text = value.to_string();
            assert_eq!(Decimal::new(value).as_slice(), text.as_bytes());
            let mut place = vec![0; digits_in(value)];
            write_digits(&mut place, value);
            assert_eq!(place, text.as_bytes());
            assert_eq!(parse_u64(text.as_bytes()), Some(value));
            assert_eq!(parse_u32(text.as_bytes()), u32::try_from(value).ok());
            assert_eq!(parse_i64(text.as_bytes()), i64::try_from(value).ok());
            let mut out = Vec::new();
            put_i64(&mut out, (value as i64).wrapping_neg());
            assert_eq!(out, (value as i64).wrapping_neg().to_string().as_bytes());
        }
    }

    #[test]
    fn overflow_signs_and_stray_bytes_are_not_numbers() {
        for text in ["", "+", "-", "-1", "1x", "x1", "0x1", " 1", "1 ", "++1", "18446744073709551616"] {
            assert_eq!(parse_u64(text.as_bytes()), None, "{text:?}");
        }
        for text in ["", "-", "--1", "-+1", "+-1", "9223372036854775808", "-9223372036854775809", "1.5"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_u64(b"+1"), Some(1));
        assert_eq!(parse_u64(b"0000000000000000000000000000001"), Some(1));
        assert_eq!(parse_u32(b"4294967296"), None);
    }
}
