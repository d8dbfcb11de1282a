//! Numbers in arguments, as Redis reads and writes them.

use super::error::ErrorReply;
use protocol::number::parse_u64;
use std::io::Write;

/// Parses a signed 64-bit number, which must be in canonical form: without leading zeros, a plus sign or spaces.
pub(super) fn integer(text: &[u8]) -> Result<i64, ErrorReply> {
    base::decimal::parse_signed(text).ok_or(ErrorReply::NotInteger)
}

/// Parses a floating-point number, with or without a point or an exponent, in decimal or hexadecimal digits (`0x1.8p3`)
/// as `strtod` does. It may be infinite.
pub(super) fn float(text: &[u8]) -> Result<f64, ErrorReply> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    number.or_else(|| hexadecimal(text)).filter(|number| !number.is_nan()).ok_or(ErrorReply::NotFloat)
}

/// Parses a floating-point number as [`float`] does. Returns an error if it is too large or too small for 64 bits.
pub(super) fn double(text: &[u8]) -> Result<f64, ErrorReply> {
    let number = float(text)?;
    let is_exact = match number {
        0.0 => !text.iter().take_while(|byte| !b"eEpP".contains(byte)).any(|byte| (b'1'..=b'9').contains(byte)),
        number => number.is_finite() || text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'i')),
    };
    if is_exact { Ok(number) } else { Err(ErrorReply::NotFloat) }
}

/// Parses a cursor of a scan. As in Redis, an empty word is 0, and the number may have a sign: it then counts modulo
/// 2^64.
pub(super) fn cursor(text: &[u8]) -> Result<u64, ErrorReply> {
    let number = match text {
        [] => Some(0),
        [b'-', digits @ ..] => parse_u64(digits).map(u64::wrapping_neg),
        [b'+', digits @ ..] => parse_u64(digits),
        digits => parse_u64(digits),
    };
    number.ok_or(ErrorReply::Cursor)
}

/// Parses a number in hexadecimal digits, with an optional point and an optional binary exponent.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    let (sign, text) = match text {
        [b'-', text @ ..] => (-1.0, text),
        [b'+', text @ ..] => (1.0, text),
        text => (1.0, text),
    };
    let [b'0', b'x' | b'X', text @ ..] = text else { return None };
    let end = text.iter().position(|byte| matches!(byte, b'p' | b'P')).unwrap_or(text.len());
    let exponent = match text.get(end + 1..) {
        None => 0,
        Some(digits) => std::str::from_utf8(digits).ok()?.parse::<i32>().ok()?,
    };
    let (mut mantissa, mut shift, mut has_digit, mut is_behind_point) = (0_u128, 0_i32, false, false);
    for byte in &text[..end] {
        if *byte == b'.' && !is_behind_point {
            is_behind_point = true;
            continue;
        }
        let digit = char::from(*byte).to_digit(16)?;
        has_digit = true;
        if mantissa >> 120 == 0 {
            mantissa = mantissa << 4 | u128::from(digit);
            shift -= 4 * i32::from(is_behind_point);
        } else {
            // The number has far more digits than 64 bits hold. A last bit that is 1 makes it round as the rest does.
            mantissa |= u128::from(digit > 0);
            shift += 4 * i32::from(!is_behind_point);
        }
    }
    let power = exponent.saturating_add(shift).clamp(-4000, 4000);
    // Either half is in the range of the type.
    let scaled = mantissa as f64 * 2_f64.powi(power / 4) * 2_f64.powi(power / 4);
    let scaled = scaled * 2_f64.powi(power / 4) * 2_f64.powi(power - 3 * (power / 4));
    has_digit.then_some(sign * scaled)
}

/// Writes a number without an exponent, in the fewest digits that parse to the same number.
pub(super) fn put_float(text: &mut Vec<u8>, number: f64) {
    // A whole number is written without a decimal point, and negative zero is written as zero.
    write!(text, "{}", if number == 0.0 { 0.0 } else { number }).expect("a vector takes all bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_is_stored_without_an_exponent_and_in_the_fewest_digits() {
        for (number, text) in
            [(10.6, "10.6"), (3.0, "3"), (-0.0, "0"), (1e21, "1000000000000000000000"), (5e-7, "0.0000005")]
        {
            let mut stored = Vec::new();
            put_float(&mut stored, number);
            assert_eq!(stored, text.as_bytes());
        }
        assert_eq!(float(b"5.0e3"), Ok(5000.0));
        for bad in [&b""[..], b"nan", b" 1", b"1 ", b"0x", b"0x.", b"0x1p", b"0x1p+-1", b"0x1.2.3", b"x1", b"\xff"] {
            assert_eq!(float(bad), Err(ErrorReply::NotFloat), "{bad:?}");
        }
    }

    #[test]
    fn a_number_in_hexadecimal_digits_has_the_value_that_the_c_library_gives_it() {
        for (text, number) in [
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("0x.8P+1", 1.0),
            ("0x1.p-1", 0.5),
            ("0x1p1023", 2_f64.powi(1023)),
            ("0x1p-1074", f64::from_bits(1)),
            ("0x1p99999", f64::INFINITY),
            ("0x1p-99999", 0.0),
            ("0x20000000000001000000000000000000001", ((1_u64 << 53) + 2) as f64 * 2_f64.powi(84)),
        ] {
            assert_eq!(float(text.as_bytes()), Ok(number), "{text}");
        }
        for bad in ["1e400", "-1e400", "1e-400", "0x1p99999", "0x1p-99999"] {
            assert_eq!(double(bad.as_bytes()), Err(ErrorReply::NotFloat), "{bad}");
        }
        for (text, number) in
            [("0e9", 0.0), ("inf", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY), ("5e-324", 5e-324)]
        {
            assert_eq!(double(text.as_bytes()), Ok(number), "{text}");
        }
    }
}
