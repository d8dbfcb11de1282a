//! Sizes, durations and counts with their text forms.
//!
//! A quantity is always written with its unit: `512MiB`, `1GB`, `100ms`, `5m`. MB is 10^6 bytes and MiB is 2^20 bytes,
//! everywhere. A bare number is rejected because a reader cannot see its unit; the error names the remedy.
//! [`std::str::FromStr`] parses the output of [`std::fmt::Display`] back to the same value.
//!
//! ```text
//! quantity = number unit          number = digits [ "." digits ]      digits may hold "_" between them
//! size unit = B kB MB GB TB (powers of 1000) | KiB MiB GiB TiB (powers of 1024), in upper or lower case
//! time unit = ns us µs ms s m h d
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Maximum number of digits after a decimal point; more are an error.
const FRACTION_DIGITS_MAX: usize = 9;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// A span of time in nanoseconds: at most about 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan(pub u64);

/// A number of things, such as connections. It has no unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(pub u64);

/// The kind of quantity that a text should contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A [`ByteSize`].
    Bytes,
    /// A [`TimeSpan`].
    Time,
    /// A [`Count`].
    Count,
}

/// The reason why a text is not a valid quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitFault {
    /// The text is empty.
    Empty,
    /// The text does not begin with a number.
    NotANumber,
    /// A number without a unit.
    BareNumber,
    /// A unit that could be a power of 1000 or of 1024, such as `m`.
    AmbiguousUnit,
    /// A unit that does not exist.
    UnknownUnit,
    /// A fraction that is not a whole number of bytes, nanoseconds or items.
    NotWhole,
    /// The value does not fit in 64 bits.
    TooLarge,
}

/// The error of a text that is not a valid quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// The kind of quantity that the caller asked for.
    pub quantity: Quantity,
    /// The reason why the text is not valid.
    pub fault: UnitFault,
}

impl UnitError {
    /// Returns the remedy: what to write instead.
    pub const fn remedy(self) -> &'static str {
        match (self.quantity, self.fault) {
            (Quantity::Bytes, UnitFault::BareNumber | UnitFault::AmbiguousUnit) => {
                "name the unit: MiB is 2^20 bytes and MB is 10^6, as in 512MiB"
            }
            (Quantity::Bytes, _) => "write a number and one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, as in 512MiB",
            (Quantity::Time, UnitFault::BareNumber) => "name the unit: s is seconds and ms milliseconds, as in 60s",
            (Quantity::Time, _) => "write a number and one of ns, us, ms, s, m, h, d, as in 100ms",
            (Quantity::Count, _) => "write a whole number, as in 1024",
        }
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.quantity {
            Quantity::Bytes => "a size",
            Quantity::Time => "a duration",
            Quantity::Count => "a count",
        };
        match self.fault {
            UnitFault::Empty => write!(f, "{what} is missing"),
            UnitFault::NotANumber => write!(f, "{what} must begin with a number"),
            UnitFault::BareNumber => write!(f, "{what} needs a unit, and this number has none"),
            UnitFault::AmbiguousUnit => write!(f, "this unit is ambiguous: it may mean powers of 1000 or of 1024"),
            UnitFault::UnknownUnit => write!(f, "no such unit for {what}"),
            UnitFault::NotWhole => write!(f, "this fraction is not a whole number of the smallest unit"),
            UnitFault::TooLarge => write!(f, "{what} must be less than 2^64"),
        }
    }
}

impl std::error::Error for UnitError {}

/// Size units, largest first. If two units give equally short texts, the earlier one is used.
const BYTE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// Time units, largest first.
const TIME_UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl ByteSize {
    /// Converts a count of MiB (2^20 bytes). Saturates.
    pub const fn mib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 20))
    }

    /// Converts a count of KiB (2^10 bytes). Saturates.
    pub const fn kib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 10))
    }
}

impl TimeSpan {
    /// Converts whole seconds. Saturates.
    pub const fn secs(count: u64) -> Self {
        Self(count.saturating_mul(1_000_000_000))
    }

    /// Converts whole milliseconds. Saturates.
    pub const fn millis(count: u64) -> Self {
        Self(count.saturating_mul(1_000_000))
    }

    /// Returns nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns whole milliseconds, rounded up, so that a nonzero span never becomes 0.
    pub const fn as_ms_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }

    /// Converts to the standard library's type.
    pub const fn as_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl From<Duration> for TimeSpan {
    /// Saturates at 2^64 - 1 ns.
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Writes `value` in the unit that gives the shortest whole number.
fn write_shortest(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let last = units[units.len() - 1];
    let mut best = (last.0, value);
    if value != 0 {
        for (name, scale) in units.iter().rev() {
            if value.is_multiple_of(*scale) && value / scale <= best.1 {
                best = (name, value / scale);
            }
        }
    } else if let Some((name, _)) = units.iter().find(|(name, _)| *name == "s") {
        best.0 = name;
    }
    let mut digits = [0u8; 24];
    f.pad(text_of(best.1, best.0, &mut digits))
}

/// Writes `number` and `unit` as one text into `out`, so that width and alignment apply to both together.
fn text_of<'o>(number: u64, unit: &str, out: &'o mut [u8; 24]) -> &'o str {
    use std::io::Write as _;
    let mut rest = &mut out[..];
    write!(rest, "{number}{unit}").expect("20 digits and a unit of at most 3 bytes fit 24 bytes");
    let free = rest.len();
    let used = out.len() - free;
    std::str::from_utf8(&out[..used]).expect("digits and unit names are ASCII")
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_shortest(f, self.0, &BYTE_UNITS)
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_shortest(f, self.0, &TIME_UNITS)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A decimal number: `whole` and `fraction` / 10^`fraction_digits`.
struct Number {
    whole: u64,
    fraction: u64,
    fraction_digits: u32,
}

/// Splits the leading number from the rest of the text.
fn number(text: &str) -> Result<(Number, &str), UnitFault> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let fraction_digits = fraction.len();
    if !starts_with_digit(whole) || !starts_with_digit(fraction) || fraction.contains(['.', '_']) {
        return Err(UnitFault::NotANumber);
    }
    if fraction_digits > FRACTION_DIGITS_MAX {
        return Err(UnitFault::NotWhole);
    }
    let mut value = 0u64;
    for digit in whole.bytes().filter(|byte| *byte != b'_') {
        value =
            value.checked_mul(10).and_then(|v| v.checked_add(u64::from(digit - b'0'))).ok_or(UnitFault::TooLarge)?;
    }
    let fraction = fraction.bytes().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    Ok((Number { whole: value, fraction, fraction_digits: fraction_digits as u32 }, rest.trim_start()))
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

impl Number {
    /// Multiplies this number by `scale`. Returns an error unless the result is whole and fits in 64 bits.
    fn times(&self, scale: u64) -> Result<u64, UnitFault> {
        let parts = 10u128.pow(self.fraction_digits);
        let fraction = u128::from(self.fraction) * u128::from(scale);
        if fraction % parts != 0 {
            return Err(UnitFault::NotWhole);
        }
        u64::try_from(u128::from(self.whole) * u128::from(scale) + fraction / parts).map_err(|_| UnitFault::TooLarge)
    }
}

/// Parses `text` as a number and a unit; `scale_of` returns the unit's scale.
fn quantity(text: &str, scale_of: impl Fn(&str) -> Result<u64, UnitFault>) -> Result<u64, UnitFault> {
    let text = text.trim();
    if text.is_empty() {
        return Err(UnitFault::Empty);
    }
    let (number, unit) = number(text)?;
    if unit.is_empty() {
        return Err(UnitFault::BareNumber);
    }
    number.times(scale_of(unit)?)
}

fn byte_scale(unit: &str) -> Result<u64, UnitFault> {
    if let Some((_, scale)) = BYTE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) {
        return Ok(*scale);
    }
    match unit {
        "k" | "K" | "m" | "M" | "g" | "G" | "t" | "T" => Err(UnitFault::AmbiguousUnit),
        _ => Err(UnitFault::UnknownUnit),
    }
}

fn time_scale(unit: &str) -> Result<u64, UnitFault> {
    let unit = if matches!(unit, "µs" | "μs") { "us" } else { unit };
    TIME_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale).ok_or(UnitFault::UnknownUnit)
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        quantity(text, byte_scale).map(Self).map_err(|fault| UnitError { quantity: Quantity::Bytes, fault })
    }
}

impl FromStr for TimeSpan {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        quantity(text, time_scale).map(Self).map_err(|fault| UnitError { quantity: Quantity::Time, fault })
    }
}

impl FromStr for Count {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        let parse = || {
            if text.is_empty() {
                return Err(UnitFault::Empty);
            }
            let (number, rest) = number(text)?;
            if !rest.is_empty() { Err(UnitFault::UnknownUnit) } else { number.times(1) }
        };
        parse().map(Self).map_err(|fault| UnitError { quantity: Quantity::Count, fault })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    fn size(text: &str) -> Result<u64, UnitFault> {
        text.parse::<ByteSize>().map(|size| size.0).map_err(|error| error.fault)
    }

    fn time(text: &str) -> Result<u64, UnitFault> {
        text.parse::<TimeSpan>().map(|span| span.0).map_err(|error| error.fault)
    }

    #[test]
    fn mb_and_mib_are_not_the_same() {
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("1GB"), Ok(1_000_000_000));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1MB"), Ok(1_000_000));
        assert_eq!(size("1.5GiB"), Ok(3 << 29));
        assert_eq!(size("1_000 kb"), Ok(1_000_000));
        assert_eq!(size("17B"), Ok(17));
    }

    #[test]
    fn every_time_unit_has_its_length() {
        assert_eq!(time("100ms"), Ok(100_000_000));
        assert_eq!(time("60s"), Ok(60_000_000_000));
        assert_eq!(time("5m"), Ok(300_000_000_000));
        assert_eq!(time("1h"), Ok(3_600_000_000_000));
        assert_eq!(time("1d"), Ok(86_400_000_000_000));
        assert_eq!(time("200us"), Ok(200_000));
        assert_eq!(time("200µs"), Ok(200_000));
        assert_eq!(time("0.25s"), Ok(250_000_000));
    }

    #[test]
    fn a_bare_number_is_refused_with_its_remedy() {
        assert_eq!(size("512"), Err(UnitFault::BareNumber));
        assert_eq!(time("60"), Err(UnitFault::BareNumber));
        assert!("512".parse::<ByteSize>().unwrap_err().remedy().contains("512MiB"));
        assert!("60".parse::<TimeSpan>().unwrap_err().remedy().contains("60s"));
    }

    #[test]
    fn invalid_sizes_times_and_counts_are_rejected_with_the_reason() {
        assert_eq!(size(""), Err(UnitFault::Empty));
        assert_eq!(size("MiB"), Err(UnitFault::NotANumber));
        assert_eq!(size("-1MiB"), Err(UnitFault::NotANumber));
        assert_eq!(size("1.MiB"), Err(UnitFault::NotANumber));
        assert_eq!(size(".5MiB"), Err(UnitFault::NotANumber));
        assert_eq!(size("1.2.3MiB"), Err(UnitFault::NotANumber));
        assert_eq!(size("1m"), Err(UnitFault::AmbiguousUnit));
        assert_eq!(size("1PiB"), Err(UnitFault::UnknownUnit));
        assert_eq!(size("0.3B"), Err(UnitFault::NotWhole));
        assert_eq!(size("0.1234567891TiB"), Err(UnitFault::NotWhole));
        assert_eq!(size("18446744073709551616B"), Err(UnitFault::TooLarge));
        assert_eq!(size("16777216TiB"), Err(UnitFault::TooLarge));
        assert_eq!(time("18446744073709551615.999999999d"), Err(UnitFault::TooLarge));
        assert_eq!(time("1S"), Err(UnitFault::UnknownUnit));
        assert_eq!("1k".parse::<Count>().unwrap_err().fault, UnitFault::UnknownUnit);
        assert_eq!("1_024".parse::<Count>(), Ok(Count(1024)));
    }

    #[test]
    fn display_is_the_shortest_text_and_reads_back() {
        assert_eq!(ByteSize(1 << 30).to_string(), "1GiB");
        assert_eq!(ByteSize(1_000_000_000_000).to_string(), "1TB");
        assert_eq!(ByteSize(1_000_000).to_string(), "1MB");
        assert_eq!(ByteSize(0).to_string(), "0B");
        assert_eq!(ByteSize(u64::MAX).to_string(), "18446744073709551615B");
        assert_eq!(TimeSpan::secs(90).to_string(), "90s");
        assert_eq!(TimeSpan::secs(0).to_string(), "0s");
        assert_eq!(format!("[{:>6}]", TimeSpan::millis(7)), "[   7ms]");
        let mut prng = Prng::new(3);
        for _ in 0..20_000 {
            let (units, at) = (BYTE_UNITS.len() as u64, prng.next_u64() as usize);
            let scale = BYTE_UNITS[at % units as usize].1;
            let bytes = prng.below(u64::MAX / scale) >> prng.below(40);
            let value = ByteSize(bytes.saturating_mul(scale));
            assert_eq!(value.to_string().parse::<ByteSize>(), Ok(value));
            let span = TimeSpan(value.0);
            assert_eq!(span.to_string().parse::<TimeSpan>(), Ok(span));
        }
    }
}
