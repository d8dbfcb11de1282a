//! Commands on sorted sets. This file contains the commands that read one sorted set by names and intervals, `range`
//! those that return intervals of elements, `change` those that change one sorted set, `pop` those that remove and
//! return elements, `scan` those that return elements in no order, `several` those over several sorted
//! sets, and `waiting` those that wait for elements.

mod change;
mod interval;
mod pop;
mod range;
mod scan;
mod several;
mod waiting;

pub(super) use change::{add_positions, zadd, zincrby, zrem, zremrangebylex, zremrangebyrank, zremrangebyscore};
pub(super) use pop::{zmpop, zpopmax, zpopmin};
pub(super) use range::{zrange, zrangebylex, zrangebyscore, zrangestore, zrevrange, zrevrangebylex, zrevrangebyscore};
pub(super) use scan::{zrandmember, zscan};
pub(super) use several::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub(super) use waiting::{bzmpop, bzpopmax, bzpopmin};

use super::catalog::lower;
use super::catalog::words;
use super::collection::put_while_room;
use super::collection::{self, ElementRange, Elements, ReplyShape};
use super::elements::reply_each;
use super::error::ErrorReply;
use super::typed::put_text;
use crate::resp::call::{Call, Interrupt, Run};
use crate::visit::out::OutBuffer;
use interval::{By, ScoreInterval};
use protocol::resp::{Args, Version, reply};
use protocol::sink::Sink;
use record::{Damaged, SortedSetValue, SortedSets, Value};

/// The maximum length of a score in a reply, in bytes.
const SCORE_BYTES_MAX: usize = 40;

impl Elements for SortedSets {
    fn put(
        out: &mut OutBuffer,
        set: &SortedSetValue<'_>,
        range: ElementRange,
        most: u64,
        shape: ReplyShape,
    ) -> Result<(u64, usize), Interrupt> {
        let count = range.count.min(most) as usize;
        match range.is_reverse {
            true => put_scored(out, set.back_from(range.first)?.take(count), shape),
            false => put_scored(out, set.from(range.first)?.take(count), shape),
        }
    }
}

/// Writes elements with their scores until there is no room.
fn put_scored<'v>(
    out: &mut OutBuffer,
    elements: impl Iterator<Item = Result<(f64, Value<'v>), Damaged>>,
    shape: ReplyShape,
) -> Result<(u64, usize), Interrupt> {
    let put = |out: &mut OutBuffer, (score, value): &(f64, Value<'v>)| put_element(out, value, *score, shape);
    put_while_room(out, elements, shape, |(_, value)| *value, put)
}

/// Writes an element, with its score if the reply has scores: both in an array if the reply is nested.
fn put_element(to: &mut impl Sink, value: &Value<'_>, score: f64, shape: ReplyShape) {
    if shape.has_scores && shape.is_nested {
        reply::array(to, 2);
    }
    put_text(to, value);
    if shape.has_scores {
        reply::double(to, shape.version, score);
    }
}

pub(super) fn zcard<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let len = collection::look::<SortedSets, _>(call, key, |_, set| Ok(set.map_or(0, SortedSetValue::len)))?;
    call.int(len as i64);
    Ok(())
}

/// Writes a score, or null if there is none.
fn put_score(out: &mut OutBuffer, version: Version, score: Option<f64>) {
    match score {
        Some(score) => reply::double(out, version, score),
        None => reply::null(out, version),
    }
}

pub(super) fn zscore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let ([key, text], version) = (words(args), call.session.version);
    collection::look::<SortedSets, _>(call, key, |out, set| {
        put_score(out, version, set.map(|set| set.score(text)).transpose()?.flatten());
        Ok(())
    })
}

pub(super) fn zmscore<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let version = call.session.version;
    reply_each::<SortedSets>(call, ("zmscore", args), SCORE_BYTES_MAX, &|out, set, text| {
        put_score(out, version, set.map(|set| set.score(text)).transpose()?.flatten());
        Ok(())
    })
}

/// Replies with the number of elements before one, from either end.
fn rank<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, is_reverse: bool) -> Run {
    let ([key, text, option], version) = (words(args), call.session.version);
    let has_score = match args.len() {
        2 => false,
        3 if lower(option)[..] == *b"withscore" => true,
        3 => return Err(ErrorReply::Syntax.into()),
        _ => return Err(ErrorReply::Arity(name).into()),
    };
    collection::look::<SortedSets, _>(call, key, |out, set| {
        let len = set.map_or(0, SortedSetValue::len);
        let found = set.map(|set| set.rank(text)).transpose()?.flatten();
        let Some((rank, score)) = found else {
            match has_score {
                true => reply::null_array(out, version),
                false => reply::null(out, version),
            }
            return Ok(());
        };
        let rank = if is_reverse { len - 1 - rank } else { rank };
        if has_score {
            reply::array(out, 2);
        }
        reply::int(out, rank as i64);
        if has_score {
            reply::double(out, version, score);
        }
        Ok(())
    })
}

pub(super) fn zrank<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    rank(call, "zrank", args, false)
}

pub(super) fn zrevrank<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    rank(call, "zrevrank", args, true)
}

/// Replies with the number of elements in an interval.
fn count(call: &mut Call<'_, '_>, args: Args<'_>, by: By) -> Run {
    let [key, start, stop] = words(args);
    let interval = ScoreInterval::read(by, [start, stop], false)?;
    let (first, end) = collection::look::<SortedSets, _>(call, key, |_, set| {
        Ok(set.map_or(Ok((0, 0)), |set| interval.positions(set, false))?)
    })?;
    call.int((end - first) as i64);
    Ok(())
}

pub(super) fn zcount<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    count(call, args, By::Score)
}

pub(super) fn zlexcount<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    count(call, args, By::Text)
}
