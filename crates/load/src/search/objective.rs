//! Parses the objectives of a service: `p50=200us,p999=2ms,errors=0.01%`, `p999<2ms`, `rate>100k`.
//!
//! ```text
//! condition = what relation limit          relation = "=" | "<" | "<=" | ">" | ">="       ("=" reads as "at most")
//! what      = p50 p99 p999 p99.9 ... | mean | max       limit: a time, as 2ms
//!           | errors | misses | unanswered              limit: a share, as 0.01%
//!           | rate                                      limit: requests per second, as 100k
//! ```

use std::fmt;
use std::str::FromStr;

use base::units::TimeSpan;

use super::Observed;
use super::rate::Rate;
use page::words::{duration, grouped};

/// Highest number of conditions in one list.
pub const CONDITIONS_MAX: usize = 16;

/// The figure that a condition examines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// A percentile of the response time, in nanoseconds. The value is the share of requests, from 0 to 1.
    Percentile(f64),
    /// The mean response time, in nanoseconds.
    Mean,
    /// The longest response time, in nanoseconds.
    Max,
    /// The share of requests that ended with an error, 0 to 1.
    Errors,
    /// The share of reads that did not find their key, 0 to 1.
    Misses,
    /// The share of requests that were due and got no reply, 0 to 1.
    Unanswered,
    /// Replies per second.
    Rate,
}

/// The relation of a figure to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// At most.
    AtMost,
    /// Below.
    Below,
    /// At least.
    AtLeast,
    /// Above.
    Above,
}

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// Figure that the condition examines.
    pub what: What,
    /// Relation that the figure must have to the limit.
    pub relation: Relation,
    /// The limit, in the unit of `what`.
    pub limit: f64,
}

/// The reason why a text is not a list of conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    text: String,
    what: String,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.text, self.what)
    }
}

impl std::error::Error for ConditionError {}

impl What {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "mean" => Self::Mean,
            "max" => Self::Max,
            "errors" => Self::Errors,
            "misses" => Self::Misses,
            "unanswered" => Self::Unanswered,
            "rate" => Self::Rate,
            _ => Self::Percentile(share(text.strip_prefix('p')?)?),
        })
    }

    fn parse_limit(self, text: &str) -> Result<f64, String> {
        match self {
            Self::Percentile(_) | Self::Mean | Self::Max => {
                let span: TimeSpan =
                    text.parse().map_err(|error: base::units::UnitError| format!("{error}; {}", error.remedy()))?;
                Ok(span.0 as f64)
            }
            Self::Errors | Self::Misses | Self::Unanswered => {
                percent(text).ok_or_else(|| format!("{text:?} is not a share; write a percentage, as in 0.01%"))
            }
            Self::Rate => text.parse::<Rate>().map(Rate::per_s).map_err(|error| error.to_string()),
        }
    }

    /// Returns the figure in `observed`.
    pub fn of(self, observed: &Observed) -> f64 {
        let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        match self {
            Self::Percentile(share) => observed.response_ns.value_at_quantile(share) as f64,
            Self::Mean => observed.response_ns.mean(),
            Self::Max => observed.response_ns.max() as f64,
            Self::Errors => share(observed.errors, observed.answered),
            Self::Misses => share(observed.misses, observed.answered),
            Self::Unanswered => share(observed.unanswered, observed.answered + observed.unanswered),
            Self::Rate => observed.achieved_per_s,
        }
    }

    /// Formats `value` with the unit of this figure.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Percentile(_) | Self::Mean | Self::Max => duration(value),
            Self::Errors | Self::Misses | Self::Unanswered => {
                let text = format!("{:.4}", value * 100.0);
                format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
            }
            Self::Rate => format!("{}/s", grouped(value)),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(share) => f.write_str(&percentile_name(*share)),
            Self::Mean => f.write_str("mean"),
            Self::Max => f.write_str("max"),
            Self::Errors => f.write_str("errors"),
            Self::Misses => f.write_str("misses"),
            Self::Unanswered => f.write_str("unanswered"),
            Self::Rate => f.write_str("rate"),
        }
    }
}

/// Returns the name of a percentile, such as `p50` or `p999`, without the decimal point.
pub fn percentile_name(share: f64) -> String {
    let digits = format!("{:09.6}", share * 100.0);
    let (whole, rest) = digits.split_once('.').unwrap_or((&digits, ""));
    format!("p{whole}{}", rest.trim_end_matches('0'))
}

/// Parses `50`, `999` and `99.9` as the shares 0.5, 0.999 and 0.999. Refuses `100`, which would mean 10 percent.
fn share(digits: &str) -> Option<f64> {
    let plain: String = digits.chars().filter(|c| *c != '.').collect();
    let point = digits.find('.').unwrap_or(digits.len().min(2));
    if plain.is_empty()
        || plain.len() > 9
        || digits.matches('.').count() > 1
        || plain == "100"
        || point > 2
        || !plain.bytes().all(|digit| digit.is_ascii_digit())
    {
        return None;
    }
    let scale = 10f64.powi(plain.len() as i32 - point as i32 + 2);
    let share = plain.parse::<f64>().ok()? / scale;
    (share > 0.0 && share < 1.0).then_some(share)
}

fn percent(text: &str) -> Option<f64> {
    let value: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    (0.0..=100.0).contains(&value).then_some(value / 100.0)
}

impl Condition {
    /// Returns whether `observed` meets the condition.
    pub fn holds(&self, observed: &Observed) -> bool {
        self.holds_for(self.what.of(observed))
    }

    /// Returns whether a figure of `value` meets the condition.
    pub fn holds_for(&self, value: f64) -> bool {
        match self.relation {
            Relation::AtMost => value <= self.limit,
            Relation::Below => value < self.limit,
            Relation::AtLeast => value >= self.limit,
            Relation::Above => value > self.limit,
        }
    }

    /// Parses the argument of `--slo`: conditions separated by commas.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, ConditionError> {
        let list: Vec<Self> = text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>()?;
        if list.len() > CONDITIONS_MAX {
            let what = format!("there are more than {CONDITIONS_MAX} conditions");
            return Err(ConditionError { text: text.to_owned(), what });
        }
        Ok(list)
    }
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let fault = |what: String| ConditionError { text: text.to_owned(), what };
        let shape = "write it as in p999=2ms, p50<200us, errors=0.01% or rate>100k";
        let at = text.find(['<', '>', '=']).ok_or_else(|| fault(format!("it contains no relation; {shape}")))?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let (relation, width) = match rest.as_bytes() {
            [b'<', b'=', ..] => (Relation::AtMost, 2),
            [b'>', b'=', ..] => (Relation::AtLeast, 2),
            [b'<', ..] => (Relation::Below, 1),
            [b'>', ..] => (Relation::Above, 1),
            _ => (Relation::AtMost, 1),
        };
        let what = What::parse(name).ok_or_else(|| {
            fault(format!(
                "{name:?} is not a figure; write p50, p99, p999, mean, max, errors, misses, unanswered or \
                           rate"
            ))
        })?;
        if what == What::Rate && rest.starts_with('=') {
            return Err(fault("a rate must have a lower limit; write rate>=100k".to_owned()));
        }
        let limit = what.parse_limit(rest[width..].trim()).map_err(fault)?;
        Ok(Self { what, relation, limit })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = match self.relation {
            Relation::AtMost => "at most",
            Relation::Below => "below",
            Relation::AtLeast => "at least",
            Relation::Above => "above",
        };
        write!(f, "{} {relation} {}", self.what, self.what.show(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objective_list_is_parsed_and_formatted_in_words() {
        let list = Condition::parse_list("p50=200us, p999=2ms,p99.99<5ms,errors=0.01%,rate>=100k").unwrap();
        let words: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(
            words,
            [
                "p50 at most 200 us",
                "p999 at most 2 ms",
                "p9999 below 5 ms",
                "errors at most 0.01%",
                "rate at least 100,000/s"
            ]
        );
        assert_eq!(list[1].what, What::Percentile(0.999));
        assert_eq!(list[1].limit, 2e6);
    }

    #[test]
    fn invalid_objective_is_rejected_with_remedy() {
        for (wrong, remedy) in [
            ("p999", "p999=2ms"),
            ("p999=2", "name the unit"),
            ("p0=1ms", "not a figure"),
            ("p100.5=1ms", "not a figure"),
            ("latency=1ms", "write p50"),
            ("errors=0.01", "percentage"),
            ("errors=101%", "percentage"),
            ("rate=100k", "rate>=100k"),
            ("", "no relation"),
        ] {
            let error = Condition::parse_list(wrong).unwrap_err().to_string();
            assert!(error.contains(remedy), "{wrong}: {error}");
        }
        assert!(Condition::parse_list(&["p50=1s"; CONDITIONS_MAX + 1].join(",")).is_err());
    }

    #[test]
    fn both_percentile_spellings_parse_to_same_value() {
        for (text, value, name) in
            [("5", 0.05, "p05"), ("50", 0.5, "p50"), ("999", 0.999, "p999"), ("99.9", 0.999, "p999")]
        {
            assert_eq!(share(text), Some(value), "{text}");
            assert_eq!(percentile_name(value), name);
        }
        assert_eq!((share("100"), share("1.2.3"), share("")), (None, None, None));
    }

    #[test]
    fn objective_relation_is_exact_at_its_limit() {
        let holds = |text: &str, value: f64| text.parse::<Condition>().unwrap().holds_for(value);
        assert!(holds("p99=1us", 1000.0) && holds("p99<=1us", 1000.0) && !holds("p99<1us", 1000.0));
        assert!(holds("rate>=1k", 1000.0) && !holds("rate>1k", 1000.0));
    }
}
