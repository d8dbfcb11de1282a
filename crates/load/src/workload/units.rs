//! Shares in text form, such as `25%`. As for sizes and durations, a bare number is refused.

use std::fmt;
use std::str::FromStr;

/// Number of decimal digits of a share.
const SHARE_DIGITS: usize = 6;

/// The reason why a text is not a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Description of the fault.
    pub what: &'static str,
    /// Text to write instead.
    pub remedy: &'static str,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for Unreadable {}

/// A share from 0 to 1. The text form is in percent: `25%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        const REMEDY: &str = "write a number from 0 to 100 and %, as in 25%";
        let wrong = |what| Unreadable { what, remedy: REMEDY };
        let number =
            text.trim().strip_suffix('%').ok_or(wrong("a share must be in percent, and this text has no %"))?;
        // Uses the exponent instead of a division, so that every share parses back from its text.
        let share = decimal(number.trim(), "e-2").ok_or(wrong("a share must begin with a number"))?;
        if share > 1.0 { Err(wrong("a share must be at most 100%")) } else { Ok(Self(share)) }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.SHARE_DIGITS$}", self.0 * 100.0);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Parses a decimal number with `_` between digits and an optional fraction, without sign or exponent, and multiplies
/// it by the power of ten `exponent`.
fn decimal(text: &str, exponent: &str) -> Option<f64> {
    let plain = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    if !text.starts_with(|c: char| c.is_ascii_digit()) || !text.chars().all(plain) {
        return None;
    }
    (text.replace('_', "") + exponent).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_in_percent_and_reads_back() {
        for (text, share) in [("25%", 0.25), ("0%", 0.0), ("100 %", 1.0), ("0.5%", 0.005)] {
            let read: Share = text.parse().unwrap();
            assert_eq!(read, Share(share), "{text}");
            assert_eq!(read.to_string().parse(), Ok(read), "{read}");
        }
        for text in ["25", "0.25", "101%", "%", "-1%", ""] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
