//! Parsing and writing of decimal text.

/// Number of digits of the longest signed 64-bit number. A `u64` can hold every number with this many digits.
const DIGITS_MAX: usize = 19;

/// Number of digits of the longest unsigned 64-bit number.
pub const DIGITS_ALL_MAX: usize = 20;

/// Returns the decimal digits of a number, which are written into `place`.
pub fn digits(number: u64, place: &mut [u8; DIGITS_ALL_MAX]) -> &[u8] {
    let mut left = number;
    let mut at = place.len();
    loop {
        at -= 1;
        place[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return &place[at..];
        }
    }
}

/// Parses a signed 64-bit number in its canonical form: an optional minus, then digits without leading zeros.
pub fn parse_signed(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] => return (!is_negative).then_some(0),
        [b'1'..=b'9', ..] if digits.len() <= DIGITS_MAX => {}
        _ => return None,
    }
    let mut number = 0u64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    if is_negative { 0i64.checked_sub_unsigned(number) } else { i64::try_from(number).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_integer_parses_only_in_canonical_form() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(parse_signed(number.to_string().as_bytes()), Some(number));
        }
        for bad in ["", "-", "-0", "+1", " 1", "1 ", "01", "-01", "1a", "9223372036854775808", "1.0", "--1", "-"] {
            assert_eq!(parse_signed(bad.as_bytes()), None, "{bad:?}");
        }
        for beyond in ["-9223372036854775809", "9999999999999999999", "-9999999999999999999", "18446744073709551617"] {
            assert_eq!(parse_signed(beyond.as_bytes()), None, "{beyond:?}");
        }
    }
}
