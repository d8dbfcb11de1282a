//! C's `strtod`: the number at the start of a text.

/// Returns the number at the start of a text and its length in bytes, or `None` if there is none.
pub(crate) fn prefix_number(text: &[u8]) -> Option<(f64, usize)> {
    let signed = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let sign = if text.first() == Some(&b'-') { -1.0 } else { 1.0 };
    let rest = &text[signed..];
    let starts = |name: &[u8]| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    if starts(b"infinity") || starts(b"inf") {
        return Some((sign * f64::INFINITY, signed + if starts(b"infinity") { 8 } else { 3 }));
    }
    if starts(b"nan") {
        return Some((f64::NAN.copysign(sign), signed + 3 + payload_length(&rest[3..])));
    }
    if starts(b"0x")
        && let Some((number, length)) = hexadecimal(&rest[2..])
    {
        return Some((sign * number, signed + 2 + length));
    }
    let length = decimal_length(rest)?;
    let number = std::str::from_utf8(&rest[..length]).ok()?.parse::<f64>().ok()?;
    Some((sign * number, signed + length))
}

/// Returns the length of the payload after `nan`, such as `(1)`.
fn payload_length(text: &[u8]) -> usize {
    let word = text.iter().skip(1).take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    if text.first() == Some(&b'(') && text.get(word + 1) == Some(&b')') { word + 2 } else { 0 }
}

fn digits(text: &[u8], is_digit: fn(&u8) -> bool) -> usize {
    text.iter().take_while(|byte| is_digit(byte)).count()
}

/// Returns the length of an exponent with its mark, or 0.
fn exponent_length(text: &[u8], mark: u8) -> usize {
    if !text.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&mark)) {
        return 0;
    }
    let signed = 1 + usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    match digits(&text[signed.min(text.len())..], u8::is_ascii_digit) {
        0 => 0,
        count => signed + count,
    }
}

/// Returns the length of a decimal number.
fn decimal_length(text: &[u8]) -> Option<usize> {
    let whole = digits(text, u8::is_ascii_digit);
    let fraction = match text.get(whole) {
        Some(b'.') => 1 + digits(&text[whole + 1..], u8::is_ascii_digit),
        _ => 0,
    };
    if whole == 0 && fraction < 2 {
        return None;
    }
    let mantissa = whole + fraction;
    Some(mantissa + exponent_length(&text[mantissa..], b'e'))
}

/// Returns a hexadecimal number, without its prefix, and its length.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    let whole = digits(text, u8::is_ascii_hexdigit);
    let fraction = match text.get(whole) {
        Some(b'.') => digits(&text[whole + 1..], u8::is_ascii_hexdigit),
        _ => 0,
    };
    if whole + fraction == 0 {
        return None;
    }
    let point = usize::from(text.get(whole) == Some(&b'.'));
    let all = text[..whole].iter().chain(text.get(whole + 1..whole + 1 + fraction).unwrap_or_default());
    let mantissa = all.fold(0.0, |sum, digit| sum * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or(0)));
    let end = whole + point + fraction;
    let exponent = exponent_length(&text[end..], b'p');
    let power = std::str::from_utf8(text.get(end + 1..end + exponent).unwrap_or_default()).ok();
    let power = power.and_then(|power| power.parse::<i32>().ok()).unwrap_or(0);
    Some((mantissa * 2f64.powi(power - 4 * fraction as i32), end + exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_far_as_c_reads_them() {
        let cases: [(&str, Option<(f64, usize)>); 16] = [
            ("12,", Some((12.0, 2))),
            ("1.", Some((1.0, 2))),
            ("-.5x", Some((-0.5, 3))),
            (".", None),
            ("-", None),
            ("", None),
            ("1e5", Some((100_000.0, 3))),
            ("1e", Some((1.0, 1))),
            ("1e+x", Some((1.0, 1))),
            ("0x10", Some((16.0, 4))),
            ("0x", Some((0.0, 1))),
            ("0x.8p1", Some((1.0, 6))),
            ("-Infinity", Some((f64::NEG_INFINITY, 9))),
            ("infin", Some((f64::INFINITY, 3))),
            ("1e999", Some((f64::INFINITY, 5))),
            ("01", Some((1.0, 2))),
        ];
        for (text, want) in cases {
            assert_eq!(prefix_number(text.as_bytes()), want, "{text}");
        }
        assert!(prefix_number(b"nan(12)x").is_some_and(|(number, length)| number.is_nan() && length == 7));
    }
}
