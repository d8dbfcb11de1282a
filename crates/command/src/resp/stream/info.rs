//! `XINFO`: the description of a stream.

use super::claim::now_ms;
use super::group::NO_GROUP_OF_KEY;
use super::{entry_bytes, no_group, put_entry, put_id};
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection;
use crate::resp::error::ErrorReply;
use crate::resp::help::other_subcommand;
use crate::resp::number::integer;
use crate::resp::slices;
use crate::resp::state::dump_work::StreamPlace;
use crate::resp::state::walk::Walk;
use crate::resp::typed::{answer_bytes_max, answer_room};
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
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
/// The maximum number of elements that one step of a full description writes, and the number of bytes behind which it
/// ends. A step that writes this number of bytes counts as one element more.
const ELEMENTS_A_STEP: u64 = 64;
const BYTES_A_STEP: usize = 16 << 10;
const BYTES_AN_ELEMENT: usize = 512;
/// The number of groups or consumers that one step lists, and the number of elements as which each counts.
const LISTED_A_STEP: u64 = 4;
const ELEMENTS_A_GROUP: usize = 8;
const ELEMENTS_A_CONSUMER: usize = 4;
/// The number of elements of a description that cost one operation, and the number behind which it takes several
/// visits.
const ELEMENTS_AN_OP: usize = 4;
const ELEMENTS_A_VISIT: usize = 64;

pub(in crate::resp) fn xinfo<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [part, key, option, count, number] = words(args);
    match (&lower(part)[..], args.len()) {
        (b"stream", 2) => reply_stream(call, key),
        (b"stream", 3) if lower(option)[..] == *b"full" => {
            reply_in_steps(call, (args, key), Described::Full(FULL_COUNT))
        }
        (b"stream", 5) if lower(option)[..] == *b"full" && lower(count)[..] == *b"count" => {
            let Ok(count) = integer(number) else {
                // The key is looked up before the number is refused.
                collection::look::<Streams, _>(call, key, |_, stream| {
                    Ok(stream.map(drop).ok_or(ErrorReply::NoKey)?)
                })?;
                return Err(ErrorReply::NotInteger.into());
            };
            let count = u64::try_from(count).unwrap_or(FULL_COUNT);
            reply_in_steps(call, (args, key), Described::Full(if count == 0 { u64::MAX } else { count }))
        }
        (b"stream", 3..) => {
            // The key is looked up before the options are refused.
            collection::look::<Streams, _>(call, key, |_, stream| Ok(stream.map(drop).ok_or(ErrorReply::NoKey)?))?;
            other_subcommand(call, "xinfo", part)
        }
        (b"groups", 2) => reply_in_steps(call, (args, key), Described::Groups),
        (b"consumers", 3) => reply_in_steps(call, (args, key), Described::Consumers(option)),
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

/// The lists that `XINFO` writes in several steps, because each may be long.
#[derive(Clone, Copy)]
enum Described<'a> {
    /// The whole stream, with at most this number of entries in each list.
    Full(u64),
    Groups,
    /// The consumers of the group with this name.
    Consumers(&'a [u8]),
}

/// Replies with a description. If it is long, this takes several visits: `walk.found` has the reply, and `walk.keys`
/// the number of elements of the current list in it.
fn reply_in_steps<'c>(call: &mut Call<'c, '_>, (args, key): (Args<'c>, &[u8]), what: Described<'_>) -> Run {
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = describe(call, (args, key), what, &mut walk);
    if call.collects_replies { slices::end_visit(call, walk, ran) } else { ran }
}

fn describe<'c>(call: &mut Call<'c, '_>, (args, key): (Args<'c>, &[u8]), what: Described<'_>, walk: &mut Walk) -> Run {
    let (version, now_ms) = (call.session.version, now_ms(call));
    loop {
        let place = *walk.place.get_or_insert(match what {
            Described::Full(_) => StreamPlace::Entry(0),
            Described::Groups => StreamPlace::Group(0),
            Described::Consumers(_) => StreamPlace::Consumer(0, 0),
        });
        let (done, to) = (walk.keys, &mut walk.found);
        let step = collection::look_consistently::<Streams, _>(call, key, &mut walk.reading, |_, stream| {
            let stream = stream.ok_or(ErrorReply::NoKey)?;
            let (count, from) = match (what, place) {
                (Described::Full(count), _) => (count, None),
                (_, StreamPlace::Group(from) | StreamPlace::Consumer(_, from)) => (0, Some(from)),
                _ => (0, None),
            };
            let mut to = Description { stream, version, count, now_ms, to };
            Ok(match (what, from) {
                (Described::Groups, Some(from)) => Some(to.listed_groups(from)?),
                (Described::Consumers(group), Some(from)) => to.listed_consumers(group, from)?,
                _ => Some(to.step(place, done)?),
            })
        })?;
        let Some(step) = step else {
            let Described::Consumers(group) = what else { return Err(ErrorReply::Damaged.into()) };
            no_group(call.out, [group, key], &NO_GROUP_OF_KEY);
            return Ok(());
        };
        (walk.place, walk.keys) = (Some(step.place), step.done);
        walk.examined += step.elements;
        call.ops += 1 + step.elements / ELEMENTS_AN_OP;
        if step.place == StreamPlace::End {
            break;
        }
        if !call.collects_replies && walk.examined > ELEMENTS_A_VISIT {
            return Err(slices::run_reading(call, "xinfo", args, key));
        }
        if call.collects_replies && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    call.count_read(true);
    aside::send_long_reply(call, std::mem::take(&mut walk.found))
}

/// A step of a description: the next place, the number of elements of its list that are written, and the number of
/// elements that the step has written.
struct DescriptionStep {
    place: StreamPlace,
    done: u64,
    elements: usize,
}

/// A description of a stream that is being written.
struct Description<'s, 't> {
    stream: &'s StreamValue<'s>,
    version: Version,
    /// The maximum number of entries of each list.
    count: u64,
    now_ms: u64,
    to: &'t mut Vec<u8>,
}

impl Description<'_, '_> {
    /// Writes the elements of one step. `done` elements of the list at `place` are written.
    fn step(&mut self, place: StreamPlace, done: u64) -> Result<DescriptionStep, Damaged> {
        let groups = self.stream.groups();
        let place = match place {
            StreamPlace::Entry(from) => return self.entries(from),
            StreamPlace::Group(at) if at == self.stream.state().groups => StreamPlace::End,
            StreamPlace::Group(at) => {
                self.group(at)?;
                StreamPlace::Pending(at, StreamId::MIN)
            }
            StreamPlace::Pending(at, from) => return self.pending(at, from, done),
            StreamPlace::Consumer(at, consumer) => {
                let (_, group) = groups.at(at)?;
                if consumer == groups.consumer_count(group.number)? {
                    StreamPlace::Group(at + 1)
                } else {
                    self.consumer(&group, consumer)?;
                    StreamPlace::Owned(at, consumer, StreamId::MIN)
                }
            }
            StreamPlace::Owned(at, consumer, from) => return self.owned(at, consumer, from, done),
            StreamPlace::End => StreamPlace::End,
        };
        Ok(DescriptionStep { place, done: 0, elements: 2 })
    }

    /// Writes the next groups of `XINFO GROUPS`.
    fn listed_groups(&mut self, from: u64) -> Result<DescriptionStep, Damaged> {
        let (groups, count) = (self.stream.groups(), self.stream.state().groups);
        if from == 0 {
            reply::array(self.to, count);
        }
        let until = count.min(from + LISTED_A_STEP);
        for at in from..until {
            let (name, group) = groups.at(at)?;
            reply::map(self.to, self.version, 6);
            reply::bulk(self.to, b"name");
            reply::bulk(self.to, name);
            put_number(self.to, "consumers", groups.consumer_count(group.number)?);
            put_number(self.to, "pending", groups.pending_count(group.number)?);
            reply::bulk(self.to, b"last-delivered-id");
            put_id(self.to, group.last);
            put_lag(self.to, self.version, self.stream, &group)?;
        }
        let place = if until == count { StreamPlace::End } else { StreamPlace::Group(until) };
        Ok(DescriptionStep { place, done: 0, elements: (until - from) as usize * ELEMENTS_A_GROUP })
    }

    /// Writes the next consumers of `XINFO CONSUMERS`. Returns `None` if there is no such group.
    fn listed_consumers(&mut self, group: &[u8], from: u64) -> Result<Option<DescriptionStep>, Damaged> {
        let groups = self.stream.groups();
        let Some(group) = groups.group(group)? else { return Ok(None) };
        let count = groups.consumer_count(group.number)?;
        if from == 0 {
            reply::array(self.to, count);
        }
        let until = count.min(from + LISTED_A_STEP);
        for at in from..until {
            let (name, consumer) = groups.consumer_at(group.number, at)?;
            reply::map(self.to, self.version, 3);
            reply::bulk(self.to, b"name");
            reply::bulk(self.to, name);
            put_number(self.to, "pending", groups.owned_count(consumer.number)?);
            put_number(self.to, "idle", self.now_ms.saturating_sub(consumer.seen_ms));
        }
        let place = if until == count { StreamPlace::End } else { StreamPlace::Consumer(0, until) };
        Ok(Some(DescriptionStep { place, done: 0, elements: (until - from) as usize * ELEMENTS_A_CONSUMER }))
    }

    fn entries(&mut self, from: u64) -> Result<DescriptionStep, Damaged> {
        let listed = self.stream.len().min(self.count);
        if from == 0 {
            reply::map(self.to, self.version, 9);
            put_state(self.to, self.stream)?;
            reply::bulk(self.to, b"entries");
            reply::array(self.to, listed);
        }
        let (begin, mut next) = (self.to.len(), from);
        for entry in self.stream.from(from)?.take((listed - from).min(ELEMENTS_A_STEP) as usize) {
            put_entry(self.to, &entry?)?;
            next += 1;
            if self.to.len() - begin > BYTES_A_STEP {
                break;
            }
        }
        let elements = (next - from) as usize + (self.to.len() - begin) / BYTES_AN_ELEMENT;
        if next < listed {
            return Ok(DescriptionStep { place: StreamPlace::Entry(next), done: 0, elements });
        }
        reply::bulk(self.to, b"groups");
        reply::array(self.to, self.stream.state().groups);
        Ok(DescriptionStep { place: StreamPlace::Group(0), done: 0, elements })
    }

    /// Writes the fields of a group before the list of its pending entries.
    fn group(&mut self, at: u64) -> Result<(), Damaged> {
        let (name, group) = self.stream.groups().at(at)?;
        reply::map(self.to, self.version, 7);
        reply::bulk(self.to, b"name");
        reply::bulk(self.to, name);
        reply::bulk(self.to, b"last-delivered-id");
        put_id(self.to, group.last);
        put_lag(self.to, self.version, self.stream, &group)?;
        let pending = self.stream.groups().pending_count(group.number)?;
        put_number(self.to, "pel-count", pending);
        reply::bulk(self.to, b"pending");
        reply::array(self.to, pending.min(self.count));
        Ok(())
    }

    /// Writes pending entries of a group, and behind the last one the line before its consumers.
    fn pending(&mut self, at: u64, from: StreamId, done: u64) -> Result<DescriptionStep, Damaged> {
        let groups = self.stream.groups();
        let (_, group) = groups.at(at)?;
        let mut elements = 0;
        for pending in groups.pending_from(group.number, from)?.take((self.count - done) as usize) {
            let (id, pending) = pending?;
            if elements == ELEMENTS_A_STEP {
                let (place, done) = (StreamPlace::Pending(at, id), done + elements);
                return Ok(DescriptionStep { place, done, elements: elements as usize });
            }
            elements += 1;
            reply::array(self.to, 4);
            put_id(self.to, id);
            reply::bulk(self.to, groups.consumer_name(pending.consumer)?);
            reply::int(self.to, pending.delivered_ms as i64);
            reply::int(self.to, pending.deliveries.into());
        }
        reply::bulk(self.to, b"consumers");
        reply::array(self.to, groups.consumer_count(group.number)?);
        Ok(DescriptionStep { place: StreamPlace::Consumer(at, 0), done: 0, elements: elements as usize })
    }

    /// Writes the fields of a consumer before the list of its pending entries.
    fn consumer(&mut self, group: &StreamGroup, at: u64) -> Result<(), Damaged> {
        let (name, consumer) = self.stream.groups().consumer_at(group.number, at)?;
        let owned = self.stream.groups().owned_count(consumer.number)?;
        reply::map(self.to, self.version, 4);
        reply::bulk(self.to, b"name");
        reply::bulk(self.to, name);
        put_number(self.to, "seen-time", consumer.seen_ms);
        put_number(self.to, "pel-count", owned);
        reply::bulk(self.to, b"pending");
        reply::array(self.to, owned.min(self.count));
        Ok(())
    }

    /// Writes pending entries of a consumer.
    fn owned(&mut self, at: u64, consumer: u64, from: StreamId, done: u64) -> Result<DescriptionStep, Damaged> {
        let groups = self.stream.groups();
        let (_, group) = groups.at(at)?;
        let (_, found) = groups.consumer_at(group.number, consumer)?;
        let mut elements = 0;
        for id in groups.owned_from(found.number, from)?.take((self.count - done) as usize) {
            let id = id?;
            if elements == ELEMENTS_A_STEP {
                let (place, done) = (StreamPlace::Owned(at, consumer, id), done + elements);
                return Ok(DescriptionStep { place, done, elements: elements as usize });
            }
            elements += 1;
            let pending = groups.pending(group.number, id)?.ok_or(Damaged)?;
            reply::array(self.to, 3);
            put_id(self.to, id);
            reply::int(self.to, pending.delivered_ms as i64);
            reply::int(self.to, pending.deliveries.into());
        }
        let place = StreamPlace::Consumer(at, consumer + 1);
        Ok(DescriptionStep { place, done: 0, elements: elements as usize })
    }
}

fn put_number(out: &mut impl Sink, name: &str, number: u64) {
    reply::bulk(out, name.as_bytes());
    reply::int(out, number as i64);
}
