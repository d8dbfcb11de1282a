//! Numbers in arguments, as Redis reads and writes them.

use super::error::ErrorReply;
use std::io::Write;

/// Parses a signed 64-bit number, which must be in canonical form: without leading zeros, a plus sign or spaces.
pub(super) fn integer(text: &[u8]) -> Result<i64, ErrorReply> {
    base::decimal::parse_signed(text).ok_or(ErrorReply::NotInteger)
}

/// Parses a floating-point number, with or without a point or an exponent. It may be infinite.
pub(super) fn float(text: &[u8]) -> Result<f64, ErrorReply> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    number.filter(|number| !number.is_nan()).ok_or(ErrorReply::NotFloat)
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
        for bad in [&b""[..], b"nan", b" 1", b"1 ", b"0x10", b"\xff"] {
            assert_eq!(float(bad), Err(ErrorReply::NotFloat), "{bad:?}");
        }
    }
}
