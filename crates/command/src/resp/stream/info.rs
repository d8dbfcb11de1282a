//! `XINFO`: the description of a stream.

use super::claim::now_ms;
use super::group::NO_GROUP_OF_KEY;
use super::{entry_bytes, no_group, put_entry, put_id};
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::collection::{self, words};
use crate::resp::error::ErrorReply;
use crate::resp::help::other_subcommand;
use crate::resp::number::integer;
use crate::resp::typed::{answer_bytes_max, answer_room};
use crate::visit::out::OutBuffer;
use protocol::resp::reply;
use protocol::resp::{Args, Version};
use protocol::sink::Sink;
use record::{Damaged, StreamEntry, StreamGroup, StreamId, StreamValue, Streams};

/// The number of entries of a node of Redis's radix tree, from which the reported numbers of keys and nodes follow.
const NODE_ENTRIES: u64 = 100;
/// The maximum length of the description without its entries, in bytes.
const FIXED_BYTES_MAX: usize = 1024;
/// The number of entries that `XINFO STREAM FULL` lists without `COUNT`.
const FULL_COUNT: u64 = 10;

pub(in crate::resp) fn xinfo<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [part, key, option, count, number] = words(args);
    match (&lower(part)[..], args.len()) {
        (b"stream", 2) => reply_stream(call, key),
        (b"stream", 3) if lower(option)[..] == *b"full" => reply_full(call, key, FULL_COUNT),
        (b"stream", 5) if lower(option)[..] == *b"full" && lower(count)[..] == *b"count" => {
            let count = integer(number)?;
            let count = u64::try_from(count).unwrap_or(FULL_COUNT);
            reply_full(call, key, if count == 0 { u64::MAX } else { count })
        }
        (b"stream", 3..) => {
            // The key is looked up before the options are refused.
            collection::look::<Streams, _>(call, key, |_, stream| Ok(stream.map(drop).ok_or(ErrorReply::NoKey)?))?;
            other_subcommand(call, "xinfo", part)
        }
        (b"groups", 2) => reply_groups(call, key),
        (b"consumers", 3) => reply_consumers(call, key, option),
        _ => other_subcommand(call, "xinfo", part),
    }
}

fn reply_stream(call: &mut Call<'_, '_>, key: &[u8]) -> Run {
    let (version, bytes_max) = (call.session.version, answer_bytes_max(call));
    collection::look::<Streams, _>(call, key, |out, stream| {
        let stream = stream.ok_or(ErrorReply::NoKey)?;
        let (first, last) = (stream.first()?, stream.last()?);
        let bytes = |entry: &Option<StreamEntry<'_>>| entry.as_ref().map_or(Ok(0), entry_bytes);
        answer_room(out, bytes_max, FIXED_BYTES_MAX + bytes(&first)? + bytes(&last)?)?;
        put_stream(out, version, stream, [first, last])?;
        Ok(())
    })
}

fn put_stream(
    out: &mut OutBuffer,
    version: Version,
    stream: &StreamValue<'_>,
    [first, last]: [Option<StreamEntry<'_>>; 2],
) -> Result<(), Damaged> {
    reply::map(out, version, 10);
    put_state(out, stream)?;
    put_number(out, "groups", stream.state().groups);
    for (name, entry) in [(&b"first-entry"[..], first), (b"last-entry", last)] {
        reply::bulk(out, name);
        match entry {
            Some(entry) => put_entry(out, &entry)?,
            None => reply::null(out, version),
        }
    }
    Ok(())
}

/// Writes the seven fields about all entries.
fn put_state(out: &mut impl Sink, stream: &StreamValue<'_>) -> Result<(), Damaged> {
    let state = stream.state();
    let keys = state.len.div_ceil(NODE_ENTRIES);
    let nodes = keys + 1;
    for (name, number) in [("length", state.len), ("radix-tree-keys", keys), ("radix-tree-nodes", nodes)] {
        put_number(out, name, number);
    }
    reply::bulk(out, b"last-generated-id");
    put_id(out, state.last);
    reply::bulk(out, b"max-deleted-entry-id");
    put_id(out, state.deleted_max);
    put_number(out, "entries-added", state.added);
    reply::bulk(out, b"recorded-first-entry-id");
    put_id(out, stream.first_id()?);
    Ok(())
}

/// Writes the number of entries that a group has read, and that of those it has not.
fn put_lag(
    out: &mut impl Sink,
    version: Version,
    stream: &StreamValue<'_>,
    group: &StreamGroup,
) -> Result<(), Damaged> {
    reply::bulk(out, b"entries-read");
    match group.read {
        Some(read) => reply::int(out, read as i64),
        None => reply::null(out, version),
    }
    reply::bulk(out, b"lag");
    match group.lag(&stream.state(), stream.first_id()?) {
        Some(lag) => reply::int(out, lag),
        None => reply::null(out, version),
    }
    Ok(())
}

fn reply_groups(call: &mut Call<'_, '_>, key: &[u8]) -> Run {
    let version = call.session.version;
    let text = collection::look::<Streams, _>(call, key, |_, stream| {
        let (stream, mut text) = (stream.ok_or(ErrorReply::NoKey)?, Vec::new());
        reply::array(&mut text, stream.state().groups);
        for group in stream.groups().all()? {
            let (name, group) = group?;
            reply::map(&mut text, version, 6);
            reply::bulk(&mut text, b"name");
            reply::bulk(&mut text, name);
            put_number(&mut text, "consumers", stream.groups().consumer_count(group.number)?);
            put_number(&mut text, "pending", stream.groups().pending_count(group.number)?);
            reply::bulk(&mut text, b"last-delivered-id");
            put_id(&mut text, group.last);
            put_lag(&mut text, version, stream, &group)?;
        }
        Ok(text)
    })?;
    aside::send_long_reply(call, text)
}

fn reply_consumers(call: &mut Call<'_, '_>, key: &[u8], group: &[u8]) -> Run {
    let (version, now_ms) = (call.session.version, now_ms(call));
    let text = collection::look::<Streams, _>(call, key, |_, stream| {
        let stream = stream.ok_or(ErrorReply::NoKey)?;
        let Some(group) = stream.groups().group(group)? else { return Ok(None) };
        let mut text = Vec::new();
        reply::array(&mut text, stream.groups().consumer_count(group.number)?);
        for consumer in stream.groups().consumers(group.number)? {
            let (name, consumer) = consumer?;
            reply::map(&mut text, version, 3);
            reply::bulk(&mut text, b"name");
            reply::bulk(&mut text, name);
            put_number(&mut text, "pending", stream.groups().owned_count(consumer.number)?);
            put_number(&mut text, "idle", now_ms.saturating_sub(consumer.seen_ms));
        }
        Ok(Some(text))
    })?;
    match text {
        Some(text) => aside::send_long_reply(call, text),
        None => {
            no_group(call.out, [group, key], &NO_GROUP_OF_KEY);
            Ok(())
        }
    }
}

fn reply_full(call: &mut Call<'_, '_>, key: &[u8], count: u64) -> Run {
    let version = call.session.version;
    let text = collection::look::<Streams, _>(call, key, |_, stream| {
        let (stream, mut text) = (stream.ok_or(ErrorReply::NoKey)?, Vec::new());
        reply::map(&mut text, version, 9);
        put_state(&mut text, stream)?;
        reply::bulk(&mut text, b"entries");
        let listed = stream.len().min(count);
        reply::array(&mut text, listed);
        stream.from(0)?.take(listed as usize).try_for_each(|entry| put_entry(&mut text, &entry?))?;
        reply::bulk(&mut text, b"groups");
        reply::array(&mut text, stream.state().groups);
        for group in stream.groups().all()? {
            let (name, group) = group?;
            reply::map(&mut text, version, 7);
            reply::bulk(&mut text, b"name");
            reply::bulk(&mut text, name);
            put_group(&mut text, version, stream, &group, count)?;
        }
        Ok(text)
    })?;
    aside::send_long_reply(call, text)
}

/// Writes the fields of a group behind its name, with its pending entries and consumers.
fn put_group(
    to: &mut Vec<u8>,
    version: Version,
    stream: &StreamValue<'_>,
    group: &StreamGroup,
    count: u64,
) -> Result<(), Damaged> {
    reply::bulk(to, b"last-delivered-id");
    put_id(to, group.last);
    put_lag(to, version, stream, group)?;
    let pending = stream.groups().pending_count(group.number)?;
    put_number(to, "pel-count", pending);
    reply::bulk(to, b"pending");
    reply::array(to, pending.min(count));
    for pending in stream.groups().pending_from(group.number, StreamId::MIN)?.take(pending.min(count) as usize) {
        let (id, pending) = pending?;
        reply::array(to, 4);
        put_id(to, id);
        reply::bulk(to, stream.groups().consumer_name(pending.consumer)?);
        reply::int(to, pending.delivered_ms as i64);
        reply::int(to, pending.deliveries.into());
    }
    reply::bulk(to, b"consumers");
    reply::array(to, stream.groups().consumer_count(group.number)?);
    for consumer in stream.groups().consumers(group.number)? {
        let (name, consumer) = consumer?;
        let owned = stream.groups().owned_count(consumer.number)?;
        reply::map(to, version, 4);
        reply::bulk(to, b"name");
        reply::bulk(to, name);
        put_number(to, "seen-time", consumer.seen_ms);
        put_number(to, "pel-count", owned);
        reply::bulk(to, b"pending");
        reply::array(to, owned.min(count));
        for id in stream.groups().owned_from(consumer.number, StreamId::MIN)?.take(owned.min(count) as usize) {
            let id = id?;
            let pending = stream.groups().pending(group.number, id)?.ok_or(Damaged)?;
            reply::array(to, 3);
            put_id(to, id);
            reply::int(to, pending.delivered_ms as i64);
            reply::int(to, pending.deliveries.into());
        }
    }
    Ok(())
}

fn put_number(out: &mut impl Sink, name: &str, number: u64) {
    reply::bulk(out, name.as_bytes());
    reply::int(out, number as i64);
}
