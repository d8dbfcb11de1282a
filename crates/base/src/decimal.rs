//! Decimal text.

/// A number of 64 bits in the one way to write it: a minus or none, and digits without a zero before them.
pub fn parse_signed(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if plain { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_number_has_one_way_to_be_written() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(parse_signed(number.to_string().as_bytes()), Some(number));
        }
        for bad in ["", "-", "-0", "+1", " 1", "1 ", "01", "-01", "1a", "9223372036854775808", "1.0", "--1"] {
            assert_eq!(parse_signed(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
