//! Commands that change one sorted set.

use super::interval::{By, ScoreInterval, score};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection::{self, Effect};
use crate::resp::error::ErrorReply;
use crate::resp::number::double;
use crate::resp::slices::{self, FIELDS_A_SLICE, Slices};
use crate::resp::typed::{self, Edited};
use crate::visit::progress::SessionWait;
use protocol::resp::Args;
use record::{Damaged, Digits, SortedSetEdit, SortedSetValue, SortedSets};

/// The conditions under which `ZADD` sets a score, and the number that it replies with.
#[derive(Clone, Copy, Debug, Default)]
struct AddOptions {
    /// Only elements that are not there, or only those that are.
    is_new: bool,
    is_old: bool,
    /// Only scores above the present one, or only those below.
    is_above: bool,
    is_below: bool,
    /// Replies with the number of changed elements instead of new ones.
    counts_changes: bool,
    /// Adds to the present score.
    increments: bool,
}

impl AddOptions {
    /// Parses the options at the start of `args`. Returns the words behind them.
    fn read(args: Args<'_>) -> Result<(Self, Args<'_>), ErrorReply> {
        let (mut options, mut words) = (Self::default(), args);
        loop {
            let behind = words.after_first();
            let option = match &lower(words.into_iter().next().unwrap_or_default())[..] {
                b"nx" => &mut options.is_new,
                b"xx" => &mut options.is_old,
                b"gt" => &mut options.is_above,
                b"lt" => &mut options.is_below,
                b"ch" => &mut options.counts_changes,
                b"incr" => &mut options.increments,
                _ => break,
            };
            *option = true;
            words = behind;
        }
        let Self { is_new, is_old, is_above, is_below, increments, .. } = options;
        if words.len() == 0 || !words.len().is_multiple_of(2) {
            return Err(ErrorReply::Syntax);
        }
        if is_new && is_old {
            return Err(ErrorReply::NewAndOld);
        }
        if is_above && is_below || is_new && (is_above || is_below) {
            return Err(ErrorReply::AboveAndBelow);
        }
        if increments && words.len() > 2 {
            return Err(ErrorReply::OneIncrement);
        }
        Ok((options, words))
    }

    /// Returns the new score of an element that has the score `old` or is not there. Returns `None` if the conditions
    /// exclude the change. `given` is the score or the increment.
    fn new_score(&self, old: Option<f64>, given: f64) -> Result<Option<f64>, ErrorReply> {
        let Some(old) = old else { return Ok((!self.is_old).then_some(given)) };
        if self.is_new {
            return Ok(None);
        }
        let new = if self.increments { old + given } else { given };
        if new.is_nan() {
            return Err(ErrorReply::NotANumber);
        }
        let is_excluded = self.is_above && new <= old || self.is_below && new >= old;
        Ok((!is_excluded).then_some(new))
    }
}

/// The stages of a `ZADD` whose reply is collected, in [`crate::resp::session::SessionState::sum`]. All scores are
/// checked before the first is stored. Later, the number is the reply plus [`CHECKED`].
const UNCHECKED: i64 = 0;
const CHECKED: i64 = 1;
/// The cost of parsing the scores of a slice, in operations.
const OPS_PER_CHECK: usize = 8;

/// A function that returns the score for the words before an element.
type Score<'s, const N: usize> = dyn Fn([&[u8]; N]) -> Result<f64, ErrorReply> + 's;

/// Parses the scores and elements of a request.
fn scored<'c, const N: usize>(mut words: Args<'c>, score: &Score<'_, N>) -> Result<Vec<(f64, &'c [u8])>, ErrorReply> {
    let mut elements = Vec::with_capacity(words.len() / (N + 1));
    while words.len() > N {
        let given = [(); N].map(|()| words.next().unwrap_or_default());
        elements.push((score(given)?, words.next().unwrap_or_default()));
    }
    Ok(elements)
}

/// Checks all scores of a request.
fn check_scores<'c, const N: usize>(
    call: &mut Call<'c, '_>,
    (words, width): (Args<'c>, u32),
    score: &Score<'_, N>,
) -> Run {
    if call.session.sum != UNCHECKED {
        return Ok(());
    }
    let mut left = slices::words_left(call, words);
    while left.len() > 0 {
        let (slice, behind) = left.split(width * FIELDS_A_SLICE);
        scored(slice, score)?;
        slices::words_done(call, slice.len() as u32, slice.wire_bytes());
        call.ops += OPS_PER_CHECK;
        left = behind;
        if left.len() > 0 && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    (call.session.done, call.session.passed, call.session.sum) = (0, (0, 0), CHECKED);
    Ok(())
}

/// Sets the scores of elements. Returns the number of those that the reply counts, and true if any was changed.
fn add_all(
    set: &mut SortedSetEdit<'_>,
    options: AddOptions,
    elements: &[(f64, &[u8])],
) -> Result<(i64, bool), ErrorReply> {
    let (mut counted, mut is_changed) = (0, false);
    for (given, text) in elements {
        let old = set.score(text)?;
        let Some(new) = options.new_score(old, *given)? else { continue };
        if old == Some(new) {
            continue;
        }
        set.set(text, old, new)?;
        is_changed = true;
        counted += i64::from(old.is_none() || options.counts_changes);
    }
    Ok((counted, is_changed))
}

pub(in crate::resp) fn zadd<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let (options, words) = AddOptions::read(args.after_first())?;
    if options.increments {
        let [given, text] = self::words(words);
        return increment(call, key, options, (given, text));
    }
    add(call, ("zadd", args), options, (words, 2), &|[number]| score(number))
}

/// Adds elements with positions. `score` returns the score for a longitude and a latitude.
pub(in crate::resp) fn add_positions<'c>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    score: &Score<'_, 2>,
) -> Run {
    let mut words = args.after_first();
    let mut options = AddOptions::default();
    loop {
        match &lower(words.into_iter().next().unwrap_or_default())[..] {
            b"nx" => options.is_new = true,
            b"xx" => options.is_old = true,
            b"ch" => options.counts_changes = true,
            _ => break,
        }
        words = words.after_first();
    }
    if words.len() == 0 || !words.len().is_multiple_of(3) || options.is_new && options.is_old {
        return Err(ErrorReply::Syntax.into());
    }
    add(call, (name, args), options, (words, 3), score)
}

/// Adds elements to the sorted set under the first key of `args`, or changes their scores. `words` has `width` words
/// for each element, from all of which but the last `score` returns its score.
fn add<'c, const N: usize>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    options: AddOptions,
    (words, width): (Args<'c>, u32),
    score: &Score<'_, N>,
) -> Run {
    let [key] = self::words(args);
    if call.collects_replies {
        check_scores(call, (words, width), score)?;
    }
    let mut slices = Slices::begin(call, (name, args), key, (words, width), true)?;
    while let Some((group, is_first)) = slices.next(call)? {
        let elements = scored(group, score)?;
        let (added, effect) = collection::change::<SortedSets, _>(call, key, &mut |old, set| {
            if old.is_none() && (options.is_old || !is_first) {
                return Ok(Edited::Keep(options.is_old.then_some(0)));
            }
            let (counted, is_changed) = add_all(set, options, &elements)?;
            Ok(if is_changed { Edited::Store(Some(counted)) } else { Edited::Keep(Some(counted)) })
        })?;
        // The sorted set was removed after an earlier visit of this command added elements. The command restarts.
        let Some(added) = added else { return Err(Slices::restart(call)) };
        call.session.sum += added;
        collection::notify_once(call, key, KeyEvent::ZADD, effect);
    }
    call.int(call.session.sum - if call.collects_replies { CHECKED } else { UNCHECKED });
    Ok(())
}

/// Adds to the score of an element, and replies with the new one, or with null if the conditions exclude the change.
fn increment(call: &mut Call<'_, '_>, key: &[u8], options: AddOptions, (given, text): (&[u8], &[u8])) -> Run {
    // As in Redis, the reply for a new element has the sign of a zero, and the score has not.
    let given = double(given)?;
    typed::room_to_store(call, 0)?;
    let new = collection::change_and_notify::<SortedSets, _>(call, key, KeyEvent::ZINCR, &mut |_, set| {
        let old = set.score(text)?;
        match options.new_score(old, given)? {
            Some(new) if old != Some(new) => {
                set.set(text, old, new + 0.0)?;
                Ok(Edited::Store(Some(new)))
            }
            new => Ok(Edited::Keep(new)),
        }
    })?;
    super::put_score(call.out, call.session.version, new);
    Ok(())
}

pub(in crate::resp) fn zincrby<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, given, text] = words(args);
    increment(call, key, AddOptions { increments: true, ..AddOptions::default() }, (given, text))
}

pub(in crate::resp) fn zrem<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let mut slices = Slices::begin(call, ("zrem", args), key, (args.after_first(), 1), false)?;
    while let Some((elements, _)) = slices.next(call)? {
        let (removed, effect) = collection::change::<SortedSets, _>(call, key, &mut |_, set| {
            let mut removed = 0;
            for text in elements {
                if let Some(score) = set.score(text)? {
                    set.remove(text, score)?;
                    removed += 1;
                }
            }
            Ok(if removed > 0 { Edited::Store(removed) } else { Edited::Keep(0) })
        })?;
        call.session.sum += removed;
        collection::notify_once(call, key, KeyEvent::ZREM, effect);
    }
    call.int(call.session.sum);
    Ok(())
}

/// The maximum number of elements that one change removes.
const REMOVED_A_STEP: u64 = 32;
/// The cost of removing one element, in operations.
const OPS_PER_REMOVED: usize = 3;

/// Removes the elements with these numbers.
fn remove_between(
    old: &SortedSetValue<'_>,
    set: &mut SortedSetEdit<'_>,
    first: u64,
    count: u64,
) -> Result<(), Damaged> {
    for element in old.from(first)?.take(count as usize) {
        let (score, value) = element?;
        set.remove(value.text(&mut Digits::new()), score)?;
    }
    Ok(())
}

/// A step of the removal of an interval.
enum Removal {
    /// So many elements were removed, and so many are left in the interval, whose first element has this number.
    Removed { count: u64, left: u64, first: u64 },
    /// The interval is too long for a request that has not locked the key. Nothing was changed.
    TooLong,
}

/// Removes an interval of elements. A long one takes several visits, with the key locked.
fn remove_interval<'c>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    by: By,
    event: KeyEvent,
) -> Run {
    let [key, start, stop] = words(args);
    let interval = ScoreInterval::read(by, [start, stop], false)?;
    let is_locked = call.collects_replies;
    // `wanted` elements from number `start` on are still to be removed, after `keys` that were removed.
    let mut walk = call.session.walk.take().unwrap_or_default();
    loop {
        let (is_begun, first, left) = (walk.keys > 0, walk.start, walk.wanted);
        let changed = collection::change::<SortedSets, _>(call, key, &mut |old, set| {
            let Some(old) = old else { return Ok(Edited::Keep(Removal::Removed { count: 0, left: 0, first })) };
            let (first, left) = if is_begun {
                (first, left.min(old.len().saturating_sub(first)))
            } else {
                let (first, end) = interval.positions(old, false)?;
                (first, end - first)
            };
            let is_all = left == old.len();
            let count = if is_all { left } else { left.min(REMOVED_A_STEP) };
            match count {
                0 => return Ok(Edited::Keep(Removal::Removed { count, left: 0, first })),
                _ if is_all => set.clear(),
                count if count < left && !is_locked => return Ok(Edited::Keep(Removal::TooLong)),
                count => remove_between(old, set, first, count)?,
            }
            Ok(Edited::Store(Removal::Removed { count, left: left - count, first }))
        });
        let stop: Interrupt = match changed {
            Ok((Removal::TooLong, _)) => return Err(slices::run_locked(call, name, args, key)),
            Ok((Removal::Removed { count, left, first }, effect)) => {
                (walk.keys, walk.wanted, walk.start) = (walk.keys + count, left, first);
                call.ops += OPS_PER_REMOVED * count.min(REMOVED_A_STEP) as usize;
                if left == 0 {
                    collection::notify(call, key, event, Effect { is_changed: walk.keys > 0, ..effect });
                    call.int(walk.keys as i64);
                    return Ok(());
                }
                if !call.is_slice_used() {
                    continue;
                }
                SessionWait::Yield.into()
            }
            Err(stop) => stop,
        };
        if matches!(stop, Interrupt::State(_)) && walk.keys > 0 {
            call.session.walk = Some(walk);
            call.session.done = call.session.done.max(1);
        }
        return Err(stop);
    }
}

pub(in crate::resp) fn zremrangebyrank<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    remove_interval(call, ("zremrangebyrank", args), By::Rank, KeyEvent::ZREMRANGEBYRANK)
}

pub(in crate::resp) fn zremrangebyscore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    remove_interval(call, ("zremrangebyscore", args), By::Score, KeyEvent::ZREMRANGEBYSCORE)
}

pub(in crate::resp) fn zremrangebylex<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    remove_interval(call, ("zremrangebylex", args), By::Text, KeyEvent::ZREMRANGEBYLEX)
}
