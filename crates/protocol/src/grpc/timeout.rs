//! The value of `grpc-timeout`: up to eight digits and a unit.

/// The maximum number of digits.
const DIGITS_MAX: usize = 8;

/// Parses the value of `grpc-timeout` to nanoseconds; `None` if it is malformed.
///
/// The greatest one, 99,999,999 hours, is 3.6 * 10^20 ns. Such values saturate at `u64::MAX`, 584 years.
pub fn parse_timeout_ns(value: &[u8]) -> Option<u64> {
    let (unit, digits) = value.split_last()?;
    let unit_ns: u64 = match unit {
        b'H' => 3_600_000_000_000,
        b'M' => 60_000_000_000,
        b'S' => 1_000_000_000,
        b'm' => 1_000_000,
        b'u' => 1_000,
        b'n' => 1,
        _ => return None,
    };
    if !(1..=DIGITS_MAX).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let count = digits.iter().fold(0, |count, digit| 10 * count + u64::from(digit - b'0'));
    Some(count.saturating_mul(unit_ns))
}
