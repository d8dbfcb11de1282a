//! Intervals of elements of a sorted set, by rank, by score or by text.

use crate::resp::error::ErrorReply;
use crate::resp::list::between;
use crate::resp::number::{double, float, integer};
use record::{Bound, Damaged, Digits, SortedSetValue};

/// Parses a score. Negative zero becomes zero.
pub(in crate::resp) fn score(text: &[u8]) -> Result<f64, ErrorReply> {
    Ok(double(text)? + 0.0)
}

/// The kinds of ends of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Text,
}

/// An end of an interval of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScoreEnd {
    score: f64,
    is_excluded: bool,
}

/// An end of an interval of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextEnd<'c> {
    First,
    Last,
    Text { text: &'c [u8], is_excluded: bool },
}

/// An interval of elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ScoreInterval<'c> {
    /// Positions, of which negative ones count from the end. The second is included.
    Ranks {
        start: i64,
        stop: i64,
        is_reverse: bool,
    },
    Scores(ScoreEnd, ScoreEnd),
    Texts(TextEnd<'c>, TextEnd<'c>),
}

fn score_end(word: &[u8]) -> Result<ScoreEnd, ErrorReply> {
    let (is_excluded, text) = match word.strip_prefix(b"(") {
        Some(text) => (true, text),
        None => (false, word),
    };
    // An empty text is 0 in Redis, and white space before a number is skipped.
    let is_space = |byte: &u8| matches!(byte, b' ' | 9..=13);
    let number = &text[text.iter().take_while(|byte| is_space(byte)).count()..];
    let score = if text.is_empty() { 0.0 } else { float(number).map_err(|_| ErrorReply::ScoreInterval)? };
    Ok(ScoreEnd { score, is_excluded })
}

fn text_end(word: &[u8]) -> Result<TextEnd<'_>, ErrorReply> {
    match word {
        b"-" => Ok(TextEnd::First),
        b"+" => Ok(TextEnd::Last),
        [first @ (b'(' | b'['), text @ ..] => Ok(TextEnd::Text { text, is_excluded: *first == b'(' }),
        _ => Err(ErrorReply::TextInterval),
    }
}

impl<'c> ScoreInterval<'c> {
    /// Parses the two ends of an interval. The higher end is the first one if `is_reverse`.
    pub(super) fn read(by: By, [start, stop]: [&'c [u8]; 2], is_reverse: bool) -> Result<Self, ErrorReply> {
        let (low, high) = if is_reverse { (stop, start) } else { (start, stop) };
        Ok(match by {
            By::Rank => Self::Ranks { start: integer(start)?, stop: integer(stop)?, is_reverse },
            By::Score => Self::Scores(score_end(low)?, score_end(high)?),
            By::Text => Self::Texts(text_end(low)?, text_end(high)?),
        })
    }

    /// Returns the number of the first element, and of the one behind the last. `is_reverse` is true if the command
    /// returns the elements in descending order.
    pub(super) fn positions(&self, set: &SortedSetValue<'_>, is_reverse: bool) -> Result<(u64, u64), Damaged> {
        let len = set.len();
        let (first, end) = match *self {
            Self::Ranks { start, stop, is_reverse } => {
                let (first, end) = between(start, stop, len);
                if is_reverse { (len - end, len - first) } else { (first, end) }
            }
            Self::Scores(low, high) => {
                let low_bound = if low.is_excluded { Bound::behind(low.score) } else { Bound::before(low.score) };
                let high_bound = if high.is_excluded { Bound::before(high.score) } else { Bound::behind(high.score) };
                (set.before(&low_bound)?, set.before(&high_bound)?)
            }
            Self::Texts(low, high) => {
                let Some(element) = set.from(0)?.next() else { return Ok((0, 0)) };
                let (score, _) = element?;
                if set.len() <= SCANNED_MAX && set.before(&Bound::behind(score))? < set.len() {
                    return scanned_positions(set, (low, high), is_reverse);
                }
                (position(set, score, low, true)?, position(set, score, high, false)?)
            }
        };
        Ok((first, end.max(first)))
    }
}

/// The maximum number of elements of a sorted set with several scores of which an interval of texts is that which Redis
/// finds in a listpack. In a larger set, the interval is not specified, in Redis and here.
const SCANNED_MAX: u64 = 128;

impl TextEnd<'_> {
    /// Returns true if an element with this text is on the inner side of the end.
    fn allows(&self, text: &[u8], is_low: bool) -> bool {
        match *self {
            Self::First => is_low,
            Self::Last => !is_low,
            Self::Text { text: end, is_excluded } => {
                let (low, high) = if is_low { (end, text) } else { (text, end) };
                if is_excluded { low < high } else { low <= high }
            }
        }
    }
}

/// Returns the interval of texts that Redis finds in a listpack whose elements have several scores: from the first
/// element that is not below the low end, up to the first one behind it that is above the high end. In reverse, Redis
/// searches from the last element.
fn scanned_positions(
    set: &SortedSetValue<'_>,
    (low, high): (TextEnd<'_>, TextEnd<'_>),
    is_reverse: bool,
) -> Result<(u64, u64), Damaged> {
    let mut allowed = Vec::with_capacity(SCANNED_MAX as usize);
    for element in set.from(0)? {
        let (_, value) = element?;
        let mut digits = Digits::new();
        let text = value.text(&mut digits);
        allowed.push((low.allows(text, true), high.allows(text, false)));
    }
    let is_empty = match (low, high) {
        (TextEnd::Text { text: low, is_excluded }, TextEnd::Text { text: high, is_excluded: other }) => {
            low > high || low == high && (is_excluded || other)
        }
        _ => false,
    };
    // Redis looks at the ends of the interval and of the set first.
    if is_empty || !allowed.last().is_some_and(|last| last.0) || !allowed.first().is_some_and(|first| first.1) {
        return Ok((0, 0));
    }
    let (first, end) = if is_reverse {
        let end = allowed.iter().rposition(|at| at.1).map_or(0, |last| last + 1);
        (allowed[..end].iter().rposition(|at| !at.0).map_or(0, |below| below + 1), end)
    } else {
        let first = allowed.iter().position(|at| at.0).unwrap_or(allowed.len());
        (first, allowed[first..].iter().position(|at| !at.1).map_or(allowed.len(), |above| first + above))
    };
    Ok((first as u64, end as u64))
}

/// Returns the number of elements before an end of an interval of texts: before its text or behind it.
fn position(set: &SortedSetValue<'_>, score: f64, end: TextEnd<'_>, is_low: bool) -> Result<u64, Damaged> {
    match end {
        TextEnd::First => Ok(0),
        TextEnd::Last => Ok(set.len()),
        TextEnd::Text { text, is_excluded } if is_excluded == is_low => set.before(&Bound::behind_text(score, text)),
        TextEnd::Text { text, .. } => set.before(&Bound::before_text(score, text)),
    }
}
