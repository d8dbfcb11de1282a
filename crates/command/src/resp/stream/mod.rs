//! Commands on streams. This file contains identifiers in requests and replies, and the commands that return entries of
//! one stream; `add` those that add and remove entries, `read` those that read several streams, `group` and
//! `read_group` those on groups, `claim` those on pending entries, `info` the descriptions, and `dump` and
//! `restore` payloads.

mod add;
mod claim;
mod dump;
mod group;
mod info;
mod read;
mod read_group;
mod restore;

pub(super) use add::{xadd, xdel, xsetid, xtrim};
pub(super) use claim::{xautoclaim, xclaim, xpending};
pub(super) use dump::dump_some;
pub(super) use group::{xack, xgroup};
pub(super) use info::xinfo;
pub(super) use read::xread;
pub(super) use read_group::xreadgroup;
pub(super) use restore::{read_some, restore_some};

use super::catalog::lower;
use super::catalog::words;
use super::collection::{self, ElementRange, Elements, ReplyShape};
use super::error::{self as replies, ErrorReply};
use super::number::integer;
use super::stream_error::StreamError;
use super::typed::{put_text, reply_bytes};
use crate::resp::call::{Call, Interrupt, Run};
use crate::visit::out::OutBuffer;
use protocol::number::{U64_DIGITS_MAX, put_u64};
use protocol::resp::Args;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::{Fixed, Sink};
use record::{Damaged, StreamEntry, StreamId, StreamValue, Streams};

/// The maximum length of an identifier in a request, in bytes.
const ID_BYTES_MAX: usize = 127;
/// The maximum length of an identifier in a reply, in bytes, with its line before.
const ID_REPLY_BYTES_MAX: usize = 48;

/// An identifier in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GivenId {
    id: StreamId,
    /// True if the second number is `*`: the next one after the last entry.
    is_partial: bool,
}

/// Parses a number as C's `strtoull` does, which Redis uses: after spaces, with a plus sign and zeros before it.
fn unsigned(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii_start();
    let digits = digits.strip_prefix(b"+").unwrap_or(digits);
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// Parses `MS-SEQ`, `MS` or `MS-*`. The second number is `missing` if it is not given.
fn given_id(text: &[u8], missing: u64) -> Result<GivenId, ErrorReply> {
    let fault = ErrorReply::Stream(StreamError::Id);
    if text.len() > ID_BYTES_MAX {
        return Err(fault);
    }
    let (ms, seq) = match text.iter().position(|byte| *byte == b'-') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let ms = unsigned(ms).ok_or(fault)?;
    match seq {
        Some(b"*") => Ok(GivenId { id: StreamId { ms, seq: 0 }, is_partial: true }),
        Some(seq) => Ok(GivenId { id: StreamId { ms, seq: unsigned(seq).ok_or(fault)? }, is_partial: false }),
        None => Ok(GivenId { id: StreamId { ms, seq: missing }, is_partial: false }),
    }
}

/// Parses an identifier, whose second number is 0 if it is not given.
fn whole_id(text: &[u8]) -> Result<StreamId, ErrorReply> {
    whole_id_or(text, 0)
}

fn whole_id_or(text: &[u8], missing: u64) -> Result<StreamId, ErrorReply> {
    let given = given_id(text, missing)?;
    if given.is_partial { Err(ErrorReply::Stream(StreamError::Id)) } else { Ok(given.id) }
}

/// Parses an end of an interval: `-`, `+`, an identifier, or an identifier after `(`, which is not included. Returns
/// true if it is excluded.
fn interval_id(text: &[u8], missing: u64) -> Result<(StreamId, bool), ErrorReply> {
    match text {
        b"-" => Ok((StreamId::MIN, false)),
        b"+" => Ok((StreamId::MAX, false)),
        [b'(', excluded @ ..] if !excluded.is_empty() => Ok((whole_id_or(excluded, missing)?, true)),
        _ => Ok((whole_id_or(text, missing)?, false)),
    }
}

/// Parses the two ends of an interval. Returns its first and its last identifier.
fn interval(start: &[u8], end: &[u8]) -> Result<(StreamId, StreamId), ErrorReply> {
    let first = match interval_id(start, 0)? {
        (id, true) => id.next().ok_or(ErrorReply::Stream(StreamError::Start))?,
        (id, false) => id,
    };
    let last = match interval_id(end, u64::MAX)? {
        (id, true) => id.previous().ok_or(ErrorReply::Stream(StreamError::End))?,
        (id, false) => id,
    };
    Ok((first, last))
}

/// Parses an identifier, or `-` or `+`.
fn bound_id(word: &[u8]) -> Result<StreamId, ErrorReply> {
    match word {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => whole_id(word),
    }
}

/// Writes an error line about a group that does not exist: two names between the parts of a text.
#[cold]
fn no_group(out: &mut OutBuffer, names: [&[u8]; 2], text: &[&str; 3]) {
    replies::quoted(out, names, text);
}

/// Writes an identifier.
fn put_id(to: &mut impl Sink, id: StreamId) {
    let mut text = Fixed::<{ 2 * U64_DIGITS_MAX + 1 }>::new();
    put_u64(&mut text, id.ms);
    text.push(b'-');
    put_u64(&mut text, id.seq);
    reply::bulk(to, text.as_slice());
}

/// Returns the maximum length of an entry in a reply, in bytes.
fn entry_bytes(entry: &StreamEntry<'_>) -> Result<usize, Damaged> {
    let lines = ID_REPLY_BYTES_MAX + 2 * NUMBER_LINE_BYTES_MAX;
    entry.words().try_fold(lines, |bytes, word| Ok(bytes + reply_bytes(&word?)))
}

/// Writes an entry: its identifier, and the array of its fields and values.
fn put_entry(to: &mut impl Sink, entry: &StreamEntry<'_>) -> Result<(), Damaged> {
    reply::array(to, 2);
    put_id(to, entry.id);
    reply::array(to, entry.words().count() as u64);
    entry.words().try_for_each(|word| {
        put_text(to, &word?);
        Ok(())
    })
}

/// Writes entries until there is no room. Returns their number and bytes.
fn put_entries<'v>(
    out: &mut OutBuffer,
    entries: impl Iterator<Item = Result<StreamEntry<'v>, Damaged>>,
    shape: ReplyShape,
) -> Result<(u64, usize), Interrupt> {
    let (mut count, mut bytes) = (0, 0);
    for entry in entries {
        let entry = entry?;
        let len = entry_bytes(&entry)?;
        match shape.room(out, len) {
            Err(stop) if count == 0 || !shape.is_collected => return Err(stop),
            Err(_) => break,
            Ok(()) => put_entry(out, &entry)?,
        }
        (count, bytes) = (count + 1, bytes + len);
    }
    Ok((count, bytes))
}

impl Elements for Streams {
    fn put(
        out: &mut OutBuffer,
        stream: &StreamValue<'_>,
        range: ElementRange,
        most: u64,
        shape: ReplyShape,
    ) -> Result<(u64, usize), Interrupt> {
        let count = range.count.min(most) as usize;
        match range.is_reverse {
            true => put_entries(out, stream.back_from(range.first)?.take(count), shape),
            false => put_entries(out, stream.from(range.first)?.take(count), shape),
        }
    }
}

pub(super) fn xlen<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key] = words(args);
    let len = collection::look::<Streams, _>(call, key, |_, stream| Ok(stream.map_or(0, StreamValue::len)))?;
    call.int(len as i64);
    Ok(())
}

/// Parses the options of `XRANGE`. Returns the maximum number of entries.
fn count_of(mut options: Args<'_>) -> Result<u64, ErrorReply> {
    let mut count = u64::MAX;
    while let Some(word) = options.next() {
        let number = options.next().filter(|_| lower(word)[..] == *b"count").ok_or(ErrorReply::Syntax)?;
        count = integer(number)?.max(0) as u64;
    }
    Ok(count)
}

/// Replies with the entries of an interval.
fn range<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, is_reverse: bool) -> Run {
    let [key, start, end] = words(args);
    let (start, end) = if is_reverse { (end, start) } else { (start, end) };
    let (first, last) = interval(start, end)?;
    let most = count_of(args.split(3).1)?;
    if most == 0 {
        let is_there = collection::look::<Streams, _>(call, key, |_, stream| Ok(stream.is_some()))?;
        match is_there {
            true => reply::null_array(call.out, call.session.version),
            false => reply::array(call.out, 0),
        }
        return Ok(());
    }
    let shape = ReplyShape::of(call);
    collection::reply_range::<Streams>(call, (name, args), key, shape, &|stream| {
        let from = stream.before(first)?;
        let to = last.next().map_or(Ok(stream.len()), |behind| stream.before(behind))?.max(from);
        let count = (to - from).min(most);
        Ok(ElementRange { first: if is_reverse { to.saturating_sub(1) } else { from }, count, is_reverse })
    })
}

pub(super) fn xrange<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    range(call, "xrange", args, false)
}

pub(super) fn xrevrange<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    range(call, "xrevrange", args, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_read_as_redis_reads_it() {
        let id = |ms, seq| Ok(StreamId { ms, seq });
        for (text, read) in [
            ("5", id(5, 0)),
            ("5-7", id(5, 7)),
            (" +005-07", id(5, 7)),
            ("18446744073709551615-18446744073709551615", Ok(StreamId::MAX)),
        ] {
            assert_eq!(whole_id(text.as_bytes()), read, "{text}");
        }
        for bad in ["", "-", "5-", "-5", "5-*", "a", "5-7-9", "18446744073709551616", "+", "*"] {
            assert_eq!(whole_id(bad.as_bytes()), Err(ErrorReply::Stream(StreamError::Id)), "{bad}");
        }
        assert_eq!(interval(b"(5-3", b"(7"), Ok((StreamId { ms: 5, seq: 4 }, StreamId { ms: 7, seq: u64::MAX - 1 })));
    }
}
