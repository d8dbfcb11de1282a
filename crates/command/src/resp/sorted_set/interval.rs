//! Intervals of elements of a sorted set, by rank, by score or by text.

use crate::resp::error::ErrorReply;
use crate::resp::list::between;
use crate::resp::number::{double, float, integer};
use record::{Bound, Damaged, SortedSetValue};

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

    /// Returns the number of the first element, and of the one behind the last.
    pub(super) fn positions(&self, set: &SortedSetValue<'_>) -> Result<(u64, u64), Damaged> {
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
                // All elements have the same score, or the result is not specified.
                let Some(element) = set.from(0)?.next() else { return Ok((0, 0)) };
                let (score, _) = element?;
                (position(set, score, low, true)?, position(set, score, high, false)?)
            }
        };
        Ok((first, end.max(first)))
    }
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
