//! Decimal text.

/// Digits of the longest number of 64 bits with a sign. A `u64` holds every number of as many digits.
const DIGITS_MAX: usize = 19;

/// A number of 64 bits in the one way to write it: a minus or none, and digits without a zero before them.
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
    fn a_signed_number_has_one_way_to_be_written() {
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
