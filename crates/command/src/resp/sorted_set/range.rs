//! Commands that return an interval of the elements of a sorted set.

use super::interval::{By, ScoreInterval};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection::{self, ElementRange, ReplyShape};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::stored::{self, Destination, STORED_A_STEP};
use protocol::resp::Args;
use record::{Damaged, Digits, SortedSetValue, SortedSets};

/// The forms of a command that returns an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// The kind of the ends of the interval. `None` if options decide.
    pub(super) by: Option<By>,
    /// The direction. `None` if an option decides.
    pub(super) is_reverse: Option<bool>,
    /// True if the elements may be returned with their scores.
    pub(super) may_have_scores: bool,
}

/// The interval of elements that a request selects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection<'c> {
    interval: ScoreInterval<'c>,
    is_reverse: bool,
    pub(super) has_scores: bool,
    /// The number of elements of the interval that are skipped, and the maximum number of the others. Negative numbers
    /// skip all, and set no maximum.
    limit: (i64, i64),
}

impl<'c> Selection<'c> {
    /// Parses the ends of the interval and the options behind them.
    pub(super) fn read(mut args: Args<'c>, form: Form) -> Result<Self, ErrorReply> {
        let ends = [(); 2].map(|()| args.next().unwrap_or_default());
        let Form { mut by, mut is_reverse, may_have_scores } = form;
        let (mut has_scores, mut limit) = (false, (0, -1));
        while let Some(word) = args.next() {
            match &lower(word)[..] {
                b"withscores" if may_have_scores => has_scores = true,
                b"limit" if args.len() >= 2 => {
                    let mut number = || integer(args.next().unwrap_or_default());
                    limit = (number()?, number()?);
                }
                b"rev" if is_reverse.is_none() => is_reverse = Some(true),
                b"bylex" if by.is_none() => by = Some(By::Text),
                b"byscore" if by.is_none() => by = Some(By::Score),
                _ => return Err(ErrorReply::Syntax),
            }
        }
        let (by, is_reverse) = (by.unwrap_or(By::Rank), is_reverse.unwrap_or(false));
        if limit.1 != -1 && by == By::Rank {
            return Err(ErrorReply::LimitOfRanks);
        }
        if by == By::Rank {
            // As in Redis, a limit without a maximum is ignored.
            limit = (0, -1);
        }
        if has_scores && by == By::Text {
            return Err(ErrorReply::ScoresOfTexts);
        }
        Ok(Self { interval: ScoreInterval::read(by, ends, is_reverse)?, is_reverse, has_scores, limit })
    }

    /// Returns the selected elements.
    pub(super) fn range(&self, set: &SortedSetValue<'_>) -> Result<ElementRange, Damaged> {
        let (mut first, mut end) = self.interval.positions(set, self.is_reverse)?;
        let (skipped, most) = self.limit;
        let skipped = u64::try_from(skipped).unwrap_or(u64::MAX).min(end - first);
        let most = u64::try_from(most).unwrap_or(u64::MAX).min(end - first - skipped);
        match self.is_reverse {
            true => (first, end) = (end - skipped - most, end - skipped),
            false => (first, end) = (first + skipped, first + skipped + most),
        }
        let is_reverse = self.is_reverse;
        Ok(ElementRange {
            first: if is_reverse { end.saturating_sub(1) } else { first },
            count: end - first,
            is_reverse,
        })
    }
}

fn reply_selection<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, form: Form) -> Run {
    let [key] = words(args);
    let selection = Selection::read(args.after_first(), form)?;
    let shape = ReplyShape { has_scores: selection.has_scores, ..ReplyShape::of(call) };
    collection::reply_range::<SortedSets>(call, (name, args), key, shape, &|set| selection.range(set))
}

/// Stores the selected elements under the first key of `args`, and replies with their number.
pub(in crate::resp) fn zrangestore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, from] = words(args);
    let form = Form { by: None, is_reverse: None, may_have_scores: false };
    let selection = Selection::read(args.after_first().after_first(), form)?;
    let wanted = collection::look::<SortedSets, _>(call, from, |_, set| {
        Ok(set.map(|set| selection.range(set)).transpose()?.unwrap_or_default())
    })?;
    let first = if wanted.is_reverse { wanted.first + 1 - wanted.count.min(wanted.first + 1) } else { wanted.first };
    let (sources, _) = args.after_first().split(1);
    let to = Destination { key, sources, is_apart: key != from, event: KeyEvent::ZRANGESTORE };
    stored::store::<SortedSets>(call, to, (wanted.count, wanted.count > STORED_A_STEP), &mut |call, walk, found| {
        // The source may have been lost since the previous visit, so that fewer elements are wanted.
        let left = wanted.count.saturating_sub(walk.cursor).min(STORED_A_STEP);
        collection::look::<SortedSets, _>(call, from, |_, set| {
            let Some(set) = set else { return Ok(()) };
            for element in set.from(first + walk.cursor)?.take(left as usize) {
                let (score, value) = element?;
                stored::collect(found, score, value.text(&mut Digits::new()));
            }
            Ok(())
        })?;
        walk.cursor += left;
        Ok(walk.cursor >= wanted.count)
    })
}

/// Returns the form of a command of which the name decides about the interval.
fn named(by: By, is_reverse: bool) -> Form {
    Form { by: Some(by), is_reverse: Some(is_reverse), may_have_scores: true }
}

pub(in crate::resp) fn zrange<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_selection(call, "zrange", args, Form { by: None, is_reverse: None, may_have_scores: true })
}

pub(in crate::resp) fn zrevrange<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_selection(call, "zrevrange", args, named(By::Rank, true))
}

pub(in crate::resp) fn zrangebyscore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_selection(call, "zrangebyscore", args, named(By::Score, false))
}

pub(in crate::resp) fn zrevrangebyscore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_selection(call, "zrevrangebyscore", args, named(By::Score, true))
}

pub(in crate::resp) fn zrangebylex<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_selection(call, "zrangebylex", args, named(By::Text, false))
}

pub(in crate::resp) fn zrevrangebylex<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    reply_selection(call, "zrevrangebylex", args, named(By::Text, true))
}
