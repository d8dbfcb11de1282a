//! Rates and shares with their text forms: `50k/s`, `25%`. A bare number is refused, as with sizes and durations.

use std::fmt;
use std::str::FromStr;

/// Digits behind the decimal point that a share keeps.
const SHARE_DIGITS: usize = 6;

/// Why a text is not a rate or a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// What is wrong.
    pub what: &'static str,
    /// What to write instead.
    pub remedy: &'static str,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for Unreadable {}

/// So many in a second. The text is a number, `k` or `M` if wanted, and `/s`, `/m` or `/h`: `1.5M/s`, `600/m`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

impl FromStr for Rate {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        const REMEDY: &str = "write a number, k or M if wanted, and /s, /m or /h, as in 50k/s";
        let wrong = |what| Unreadable { what, remedy: REMEDY };
        let (number, unit) = text.trim().split_once('/').ok_or(wrong("a rate has a unit, and this has none"))?;
        let seconds = match unit.trim() {
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong("no such unit for a rate")),
        };
        let number = number.trim();
        let (digits, scale) = match number.strip_suffix(['k', 'M']) {
            Some(digits) if number.ends_with('k') => (digits, 1e3),
            Some(digits) => (digits, 1e6),
            None => (number, 1.0),
        };
        let value = decimal(digits.trim()).ok_or(wrong("a rate begins with a number"))?;
        Ok(Self(value * scale / seconds))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |scale: f64| (self.0 / scale * 1e3).fract() == 0.0 && self.0 >= scale;
        if short(1e6) {
            write!(f, "{}M/s", self.0 / 1e6)
        } else if short(1e3) {
            write!(f, "{}k/s", self.0 / 1e3)
        } else {
            write!(f, "{}/s", self.0)
        }
    }
}

/// A part of a whole, from 0 to 1. The text is in percent: `25%`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        const REMEDY: &str = "write a number from 0 to 100 and %, as in 25%";
        let wrong = |what| Unreadable { what, remedy: REMEDY };
        let number = text.trim().strip_suffix('%').ok_or(wrong("a share is in percent, and this has no %"))?;
        let percent = decimal(number.trim()).ok_or(wrong("a share begins with a number"))?;
        if percent > 100.0 { Err(wrong("a share is at most 100%")) } else { Ok(Self(percent / 100.0)) }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.SHARE_DIGITS$}", self.0 * 100.0);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A number of digits with `_` between them and a fraction, without sign and exponent.
fn decimal(text: &str) -> Option<f64> {
    let plain = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    if !text.starts_with(|c: char| c.is_ascii_digit()) || !text.chars().all(plain) {
        return None;
    }
    text.replace('_', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_has_a_unit_and_reads_back() {
        for (text, per_s) in [("50k/s", 50e3), ("1.5M/s", 1.5e6), ("600/m", 10.0), ("1_000/s", 1e3), ("0/s", 0.0)] {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate, Rate(per_s), "{text}");
            assert_eq!(rate.to_string().parse(), Ok(rate), "{rate}");
        }
        for text in ["50k", "50", "", "k/s", "-1/s", "1e3/s", "inf/s", "NaN/s", "50K/s", "5/d", "1.2.3/s"] {
            let error = text.parse::<Rate>().unwrap_err();
            assert!(error.remedy.contains("50k/s"), "{text}");
        }
    }

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
