//! Parses whole numbers as C does.

/// Parses `text` as C's `atoi` does. Returns the number, and true if the number is the whole text.
pub fn number(text: &str) -> (i64, bool) {
    let body = text.trim_start();
    let (negative, digits) = match body.as_bytes().first() {
        Some(b'-') => (true, &body[1..]),
        Some(b'+') => (false, &body[1..]),
        _ => (false, body),
    };
    let len = digits.bytes().take_while(u8::is_ascii_digit).count();
    let most = i64::from(i32::MAX);
    let value = digits[..len].bytes().fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(most));
    (if negative { -value } else { value }, len > 0 && len == digits.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, value, whole) in [
            ("64", 64, true),
            (" -1", -1, true),
            ("+7", 7, true),
            ("64m", 64, false),
            ("x", 0, false),
            ("", 0, false),
            ("-", 0, false),
            ("99999999999999999999", i64::from(i32::MAX), true),
        ] {
            assert_eq!(number(text), (value, whole), "{text:?}");
        }
    }
}
