//! Parses and formats rates: `10k`, `1.5M`, `96,400/s`.

use page::words::grouped;
use std::fmt;
use std::str::FromStr;

/// Requests per second; finite and above 0.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

/// The highest accepted rate per second.
pub const RATE_MAX: f64 = 1e9;
/// The lowest accepted rate per second.
pub const RATE_MIN: f64 = 1e-3;

impl Rate {
    /// Creates a rate of `per_s` requests per second, limited to [`RATE_MIN`] and [`RATE_MAX`]. NaN becomes the lowest
    /// rate.
    pub fn new(per_s: f64) -> Self {
        Self(if per_s.is_nan() { RATE_MIN } else { per_s.clamp(RATE_MIN, RATE_MAX) })
    }

    /// Returns the rate in requests per second.
    pub const fn per_s(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/s", grouped(self.0)))
    }
}

/// The reason why a text is not a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateError(String);

impl fmt::Display for RateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a rate; write requests per second, as in 25000, 10k or 1.5M", self.0)
    }
}

impl std::error::Error for RateError {}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let wrong = || RateError(text.to_owned());
        let bare = text.trim().strip_suffix("/s").unwrap_or(text.trim());
        let (digits, scale) = match bare.as_bytes().last() {
            Some(b'k' | b'K') => (&bare[..bare.len() - 1], 1e3),
            Some(b'm' | b'M') => (&bare[..bare.len() - 1], 1e6),
            _ => (bare, 1.0),
        };
        let digits: String = digits.chars().filter(|c| !matches!(c, '_' | ',')).collect();
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(wrong());
        }
        let per_s = digits.parse::<f64>().map_err(|_| wrong())? * scale;
        if (RATE_MIN..=RATE_MAX).contains(&per_s) { Ok(Self(per_s)) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_with_and_without_its_unit() {
        let per_s = |text: &str| text.parse::<Rate>().map(Rate::per_s);
        assert_eq!(per_s("10k"), Ok(10_000.0));
        assert_eq!(per_s("1.5M/s"), Ok(1_500_000.0));
        assert_eq!(per_s("96,400/s"), Ok(96_400.0));
        assert_eq!(per_s("0.5"), Ok(0.5));
        for wrong in ["", "k", "-5", "fast", "1e99", "0", "inf", "NaN", "10 kk"] {
            assert!(per_s(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn displayed_rate_is_grouped_and_parses_back() {
        assert_eq!(Rate::new(96_400.4).to_string(), "96,400/s");
        assert_eq!(Rate::new(1_234_567.0).to_string(), "1,234,567/s");
        assert_eq!("1,234,567/s".parse::<Rate>(), Ok(Rate::new(1_234_567.0)));
    }
}
