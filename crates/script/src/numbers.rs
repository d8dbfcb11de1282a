//! Numbers as text, as C's `printf` writes them.

use mlua::Value;

/// Appends a number with at most `digits` significant digits, as `%.{digits}g` does.
pub(crate) fn put_general(out: &mut Vec<u8>, number: f64, digits: usize) {
    if number.is_nan() {
        return out.extend_from_slice(if number.is_sign_negative() { b"-nan" } else { b"nan" });
    }
    if number.is_infinite() {
        return out.extend_from_slice(if number < 0.0 { b"-inf" } else { b"inf" });
    }
    let is_negative_zero = number == 0.0 && number.is_sign_negative();
    if number == number.trunc() && number.abs() < 10f64.powi(digits.min(15) as i32) && !is_negative_zero {
        return out.extend_from_slice((number as i64).to_string().as_bytes());
    }
    let scientific = format!("{:.*e}", digits - 1, number);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        out.extend_from_slice(without_zeros(mantissa).as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        return out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    }
    let fixed = format!("{:.*}", (digits as i32 - 1 - exponent) as usize, number);
    out.extend_from_slice(without_zeros(&fixed).as_bytes());
}

/// Appends the line before a string or an array: its type, and its length or number of elements.
pub(crate) fn put_head(out: &mut Vec<u8>, kind: u8, count: usize) {
    let (tens, ones) = ((count / 10) as u8, (count % 10) as u8);
    match count {
        // Nearly all words and requests are as short as this.
        0..10 => return out.extend_from_slice(&[kind, b'0' + ones, b'\r', b'\n']),
        10..100 => return out.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']),
        _ => out.push(kind),
    }
    out.extend_from_slice(base::decimal::digits(count as u64, &mut [0; base::decimal::DIGITS_ALL_MAX]));
    out.extend_from_slice(b"\r\n");
}

/// Removes zeros at the end of a fraction.
fn without_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// Returns the number that a value is, without conversion of strings.
pub(crate) fn number_in(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(*number),
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

/// Converts a number to an integer as C does on x86-64: numbers out of range become the lowest integer.
pub(crate) fn to_integer(number: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) { number as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        let cases = [
            (0.1, 17, "0.10000000000000001"),
            (3.0, 17, "3"),
            (-0.0, 17, "-0"),
            (1e300, 17, "1.0000000000000001e+300"),
            (123_456_789_012_345_678.0, 17, "1.2345678901234568e+17"),
            (1e15, 14, "1e+15"),
            (0.1, 14, "0.1"),
            (9_007_199_254_740_992.0, 14, "9.007199254741e+15"),
            (0.000_01, 14, "1e-05"),
            (f64::INFINITY, 14, "inf"),
            (-12.5, 14, "-12.5"),
            (100_000.0, 3, "1e+05"),
        ];
        for (number, digits, want) in cases {
            let mut text = Vec::new();
            put_general(&mut text, number, digits);
            assert_eq!(String::from_utf8_lossy(&text), want);
        }
    }
}
