//! Numbers formatted for people: `1.5 us`, `96,400`, `1.2M`.

/// Formats a time given in ns, with three digits and a suitable unit.
pub fn duration(ns: f64) -> String {
    let (scale, unit) = match ns {
        ns if ns < 1e3 => return format!("{ns:.0} ns"),
        ns if ns < 999.5e3 => (1e3, "us"),
        ns if ns < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns / scale;
    let digits = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    let text = format!("{value:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// Formats a number with grouped thousands: three significant digits below 100, a whole number above.
pub fn grouped(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return "-".to_owned();
    }
    if magnitude < 100.0 && magnitude.fract() != 0.0 {
        let digits = if magnitude < 1.0 {
            3
        } else if magnitude < 10.0 {
            2
        } else {
            1
        };
        return format!("{value:.digits$}");
    }
    let digits = format!("{:.0}", magnitude);
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if value < 0.0 {
        text.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with at most two decimals and a letter for thousand, million or billion.
pub fn compact(value: f64) -> String {
    let text = |value: f64, unit: &str| {
        let text = format!("{value:.2}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match value.abs() {
        size if size >= 1e9 => text(value / 1e9, "G"),
        size if size >= 1e6 => text(value / 1e6, "M"),
        size if size >= 1e3 => text(value / 1e3, "k"),
        _ => text(value, ""),
    }
}

/// Formats a fraction of 1 as a percentage.
pub fn percent(value: f64) -> String {
    format!("{} %", compact(value * 100.0))
}

/// Formats a number of seconds.
pub fn seconds(value: f64) -> String {
    format!("{} s", grouped(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let shown = [12.0, 1_500.0, 48_250.0, 999_400.0, 999_600.0, 2e6, 1.2345e9].map(duration);
        assert_eq!(shown, ["12 ns", "1.5 us", "48.2 us", "999 us", "1 ms", "2 ms", "1.23 s"]);
    }

    #[test]
    fn numbers_are_grouped_or_short_and_shares_are_per_cent() {
        assert_eq!((grouped(0.0), grouped(-1234.0), grouped(2.5)), ("0".into(), "-1,234".into(), "2.50".into()));
        assert_eq!([1.0, 1_250.0, 2e6, -3e9].map(compact), ["1", "1.25k", "2M", "-3G"]);
        assert_eq!((percent(0.125), seconds(1_000.0)), ("12.5 %".into(), "1,000 s".into()));
    }
}
