//! `XREADGROUP`: delivers entries to a consumer of a group.
//!
//! ```text
//!   >       the entries behind the last one of the group ──> pending entries of the consumer, unless NOACK
//!   an id   the pending entries of the consumer behind it ──> delivered once more
//! ```
//!
//! A long reply takes several visits, with the keys locked. The reply is collected in the walk.

use super::claim::{note, now_ms};
use super::read::StreamsRequest;
use super::{no_group, put_entry, put_id, whole_id};
use crate::resp::aside;
use crate::resp::blocking;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::words;
use crate::resp::collection;
use crate::resp::error::ErrorReply;
use crate::resp::state::walk::Walk;
use crate::resp::stream_error::StreamError;
use crate::resp::typed::Edited;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, Version, reply};
use record::{Damaged, PendingEntry, StreamEdit, StreamGroup, StreamId, StreamValue, Streams};
use std::sync::Arc;

/// The maximum number of entries that one change delivers.
const DELIVERED_A_STEP: u64 = 32;
/// The cost of delivering one entry, in operations.
const OPS_PER_DELIVERED: usize = 2;
/// The length in bytes of the entries of a reply after which no more are delivered.
const REPLY_BYTES: usize = 32 << 20;
/// The number of bytes of a reply for which there is room at once, for each entry.
const ENTRY_BYTES: usize = 96;
/// The error line if there is no such group.
const NO_GROUP: [&str; 3] = ["NOGROUP No such key '", "' or consumer group '", "' in XREADGROUP with GROUP option"];

/// The entries that are requested from a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupWanted {
    /// Entries that were not delivered to the group.
    New,
    /// Pending entries of the consumer behind this identifier.
    Pending(StreamId),
}

impl GroupWanted {
    fn read(word: &[u8]) -> Result<Self, ErrorReply> {
        match word {
            b">" => Ok(Self::New),
            b"$" => Err(ErrorReply::Stream(StreamError::LastOfGroup)),
            word => match whole_id(word)? {
                StreamId::MAX => Ok(Self::New),
                id => Ok(Self::Pending(id)),
            },
        }
    }
}

/// The entries of a stream that a group can deliver to a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Available {
    NoStream,
    NoGroup,
    /// The number of entries that a request would deliver.
    Entries(u64),
}

/// Returns the entries that a request would deliver from a stream.
fn available(
    call: &mut Call<'_, '_>,
    request: StreamsRequest<'_>,
    (group, consumer): (&[u8], &[u8]),
    (key, id): (&[u8], &[u8]),
) -> Result<Available, Interrupt> {
    collection::look::<Streams, _>(call, key, |_, stream| {
        let Some(stream) = stream else { return Ok(Available::NoStream) };
        let Some(group) = stream.groups().group(group)? else { return Ok(Available::NoGroup) };
        let count = match GroupWanted::read(id)? {
            GroupWanted::New => stream.len() - entries_up_to(stream, group.last)?,
            GroupWanted::Pending(_) => stream
                .groups()
                .consumer(group.number, consumer)?
                .map_or(Ok(0), |consumer| stream.groups().owned_count(consumer.number))?,
        };
        Ok(Available::Entries(count.min(request.most)))
    })
}

/// Prepares the delivery of entries to a client that waits and has the turn: those of the first stream that was
/// announced and has some. Returns its number; `None` if the client waits on.
fn begin_turn<'c>(
    call: &mut Call<'c, '_>,
    request: StreamsRequest<'c>,
    names: (&[u8], &[u8]),
    args: Args<'c>,
) -> Result<Option<u32>, Interrupt> {
    for (number, key) in blocking::candidates(call, request.waited(args), args) {
        match available(call, request, names, (key, request.id(number))) {
            Ok(Available::Entries(0)) => {}
            Ok(Available::Entries(_)) => return Ok(Some(number)),
            Ok(Available::NoGroup) => return Err(ErrorReply::Stream(StreamError::GroupEnded).into()),
            Ok(Available::NoStream) | Err(Interrupt::Fault(ErrorReply::WrongType)) => {
                return Err(ErrorReply::Stream(StreamError::StreamEnded).into());
            }
            Err(stop) => return Err(stop),
        }
    }
    Ok(None)
}

/// Returns the number of entries that a request delivers at once. Those of a stream for which other consumers of the
/// group wait are theirs, if the client may wait. Returns `None`, with an error in the output, if there is no such
/// group.
fn entries_at_once<'c>(
    call: &mut Call<'c, '_>,
    request: StreamsRequest<'c>,
    names: (&[u8], &[u8]),
    args: Args<'c>,
) -> Result<Option<u64>, Interrupt> {
    let mut entries = 0;
    let free = request.may_wait(call).then(|| blocking::candidates(call, request.waited(args), args));
    for (number, (key, id)) in (0..).zip(request.keys.into_iter().zip(request.ids)) {
        let Available::Entries(count) = available(call, request, names, (key, id))? else {
            no_group(call.out, [key, names.0], &NO_GROUP);
            return Ok(None);
        };
        let is_free = free.as_ref().is_none_or(|free| free.iter().any(|(other, _)| *other == number));
        if is_free || GroupWanted::read(id)? != GroupWanted::New {
            entries += count;
        }
    }
    Ok(Some(entries))
}

/// Returns the number of entries of a stream up to an identifier.
fn entries_up_to(stream: &StreamValue<'_>, id: StreamId) -> Result<u64, Damaged> {
    // No entry is behind the highest identifier.
    id.next().map_or(Ok(stream.len()), |next| stream.before(next))
}

/// A delivery of entries of one stream by one change.
struct Delivery<'n> {
    group: StreamGroup,
    consumer: u32,
    now_ms: u64,
    is_acknowledged: bool,
    most: usize,
    to: &'n mut Vec<u8>,
}

impl Delivery<'_> {
    /// Delivers new entries. Returns their number.
    fn deliver_new(&mut self, old: &StreamValue<'_>, stream: &mut StreamEdit<'_>) -> Result<u64, Damaged> {
        let (state, first, mut count) = (stream.state(), old.first_id()?, 0);
        for entry in old.from(entries_up_to(old, self.group.last)?)?.take(self.most) {
            let entry = entry?;
            self.group.advance(&state, entry.id, first);
            if !self.is_acknowledged {
                let pending = PendingEntry { consumer: self.consumer, delivered_ms: self.now_ms, deliveries: 1 };
                stream.groups().deliver(self.group.number, entry.id, &pending)?;
            }
            put_entry(self.to, &entry)?;
            count += 1;
        }
        Ok(count)
    }

    /// Delivers pending entries behind an identifier once more. Returns their number and the last identifier.
    fn deliver_pending(
        &mut self,
        old: &StreamValue<'_>,
        stream: &mut StreamEdit<'_>,
        after: StreamId,
        version: Version,
    ) -> Result<(u64, StreamId), Damaged> {
        let (mut count, mut last) = (0, after);
        let Some(first) = after.next() else { return Ok((count, last)) };
        let (mut entries, mut delivered) = (old.entry_search(), Vec::with_capacity(DELIVERED_A_STEP as usize));
        for id in old.groups().owned_from(self.consumer, first)?.take(self.most) {
            let id = id?;
            match entries.entry(id)? {
                Some(entry) => {
                    delivered.push(id);
                    put_entry(self.to, &entry)?;
                }
                None => {
                    reply::array(self.to, 2);
                    put_id(self.to, id);
                    reply::null_array(self.to, version);
                }
            }
            (count, last) = (count + 1, id);
        }
        stream.groups().deliver_once_more(self.group.number, &delivered, self.now_ms)?;
        Ok((count, last))
    }
}

/// The result of a step: the number of entries, whether more may follow, and the last identifier.
#[derive(Clone, Copy, Default)]
struct DeliveryStep {
    has_group: bool,
    count: u64,
    has_more: bool,
    last: StreamId,
    is_new: bool,
}

/// Delivers some entries of a stream, behind those that the walk has delivered. Appends them to the walk. Returns
/// `None`, and delivers nothing, if there is no client memory even for one entry, or if a fault ends a request that has
/// delivered entries.
fn deliver_some<'c>(
    call: &mut Call<'c, '_>,
    request: StreamsRequest<'c>,
    place: (&[u8], &[u8]),
    walk: &mut Walk,
) -> Result<Option<DeliveryStep>, Interrupt> {
    let mut most = request.most.saturating_sub(walk.cursor).min(DELIVERED_A_STEP);
    loop {
        match deliver_most(call, request, place, (walk, most)) {
            // Fewer entries need less memory.
            Ok(None) | Err(Interrupt::Fault(ErrorReply::OutOfMemory)) if most > 1 => most /= 2,
            // What is delivered must be replied.
            Err(Interrupt::Fault(_)) if walk.keys > 0 || walk.cursor > 0 => return Ok(None),
            step => return step,
        }
    }
}

/// Delivers up to `most` entries, as [`deliver_some`] does. Returns `None`, and delivers nothing, if there is no client
/// memory for so many.
fn deliver_most<'c>(
    call: &mut Call<'c, '_>,
    request: StreamsRequest<'c>,
    (key, id): (&[u8], &[u8]),
    (walk, most): (&mut Walk, u64),
) -> Result<Option<DeliveryStep>, Interrupt> {
    let (now_ms, version) = (now_ms(call), call.session.version);
    let (group, consumer) = request.group.unwrap_or_default();
    let after = match GroupWanted::read(id)? {
        GroupWanted::Pending(_) if walk.cursor > 0 => {
            GroupWanted::Pending(StreamId { ms: walk.start, seq: walk.wanted })
        }
        wanted => wanted,
    };
    let budget = Arc::clone(&call.ctx.shared.budget);
    let mut text = Vec::with_capacity(most as usize * ENTRY_BYTES);
    // A delivery without pending entries is a removal from the queue.
    call.guard.spare_segments(!request.no_ack);
    let changed = collection::change::<Streams, _>(call, key, &mut |old, stream| {
        text.clear();
        let (Some(old), Some(found)) = (old, stream.groups().group(group)?) else {
            return Ok(Edited::Keep(Some(DeliveryStep::default())));
        };
        if after == GroupWanted::New && entries_up_to(old, found.last)? == old.len() {
            return Ok(Edited::Keep(Some(DeliveryStep { has_group: true, ..DeliveryStep::default() })));
        }
        let (owner, is_new) = stream.groups().see_consumer(found.number, consumer, now_ms)?;
        let mut delivery = Delivery {
            group: found,
            consumer: owner.number,
            now_ms,
            is_acknowledged: request.no_ack,
            most: most as usize,
            to: &mut text,
        };
        let (count, last) = match after {
            GroupWanted::New => (delivery.deliver_new(old, stream)?, StreamId::MIN),
            GroupWanted::Pending(after) => delivery.deliver_pending(old, stream, after, version)?,
        };
        if delivery.group != found {
            stream.groups().set_group(group, &delivery.group)?;
        }
        // A growing buffer may be twice as long as its contents.
        if !walk.reserve_more(&budget, delivery.to.len() * 2) {
            return Ok(Edited::Keep(None));
        }
        Ok(Edited::Store(Some(DeliveryStep { has_group: true, count, has_more: count == most, last, is_new })))
    });
    call.guard.spare_segments(false);
    let (step, effect) = changed?;
    let Some(step) = step else { return Ok(None) };
    walk.query.bytes.extend_from_slice(&text);
    walk.cursor += step.count;
    (walk.start, walk.wanted) = (step.last.ms, step.last.seq);
    note(call, key, step.is_new, effect.is_changed);
    let is_full = walk.found.len() + walk.query.bytes.len() > REPLY_BYTES;
    Ok(Some(DeliveryStep { has_more: step.has_more && walk.cursor < request.most && !is_full, ..step }))
}

/// Delivers entries of all streams of a request: `walk.left` streams are done, and `walk.keys` of them are in the
/// reply, which is in `walk.found`. Of the next one, `walk.cursor` entries are delivered, which are in
/// `walk.query.bytes`. Returns the key of a stream without the group, if nothing is delivered before.
fn deliver_all<'c>(
    call: &mut Call<'c, '_>,
    request: StreamsRequest<'c>,
    walk: &mut Walk,
) -> Result<Option<&'c [u8]>, Interrupt> {
    let mut is_full = false;
    for (key, id) in request.keys.into_iter().zip(request.ids).skip(walk.left as usize) {
        loop {
            let Some(step) = deliver_some(call, request, (key, id), walk)? else {
                // What is delivered must be replied, so the reply ends before this entry.
                is_full = true;
                break;
            };
            if !step.has_group && walk.keys == 0 && walk.cursor == 0 {
                return Ok(Some(key));
            }
            call.ops += 1 + OPS_PER_DELIVERED * step.count as usize;
            if !step.has_more {
                break;
            }
            if call.collects_replies && call.is_slice_used() {
                return Err(SessionWait::Yield.into());
            }
        }
        if is_full && walk.keys == 0 && walk.cursor == 0 {
            return Err(ErrorReply::ClientMemory.into());
        }
        if walk.cursor > 0 || !is_full && GroupWanted::read(id)? != GroupWanted::New {
            if call.session.version == Version::Resp2 {
                reply::array(&mut walk.found, 2);
            }
            reply::bulk(&mut walk.found, key);
            reply::array(&mut walk.found, walk.cursor);
            walk.found.append(&mut walk.query.bytes);
            walk.keys += 1;
        }
        (walk.left, walk.cursor) = (walk.left + 1, 0);
        if is_full || blocking::is_turn(call) {
            break;
        }
        if call.collects_replies && call.is_slice_used() && (walk.left as usize) < request.keys.len() {
            return Err(SessionWait::Yield.into());
        }
    }
    Ok(None)
}

/// Retains the state of a delivery that has begun and that another visit continues. Returns the reason for which this
/// visit ends.
fn retained(call: &mut Call<'_, '_>, mut walk: Box<Walk>, is_begun: bool, stop: Interrupt) -> Interrupt {
    if matches!(stop, Interrupt::State(_)) && is_begun {
        walk.force(&call.ctx.shared.budget);
        call.session.walk = Some(walk);
        call.session.done = call.session.done.max(1);
    }
    stop
}

pub(in crate::resp) fn xreadgroup<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let Some(request) = StreamsRequest::read(call, args, true)? else { return Ok(()) };
    let names = request.group.unwrap_or_default();
    let mut first = 0;
    if call.session.walk.is_none() && blocking::is_turn(call) {
        let Some(number) = begin_turn(call, request, names, args)? else { return Err(SessionWait::Blocked.into()) };
        first = number;
    } else if call.session.walk.is_none() {
        // A short request of one stream that does not wait is complete after one step, whatever the stream contains.
        // An invalid identifier is an error only if the group exists, so the group is looked up first.
        let is_short = request.keys.len() == 1
            && request.most <= DELIVERED_A_STEP
            && !request.may_wait(call)
            && GroupWanted::read(request.id(0)).is_ok();
        if !is_short {
            let Some(entries) = entries_at_once(call, request, names, args)? else { return Ok(()) };
            if entries == 0 && request.may_wait(call) && request.ids.into_iter().all(|id| id == b">") {
                return super::read::reply_nothing(call, ("xreadgroup", args), request);
            }
            if entries > DELIVERED_A_STEP && !call.collects_replies {
                let [key] = words(request.keys);
                return Err(collection::take_visits(call, "xreadgroup", args, key));
            }
        }
    }
    let begin = || Box::new(Walk { left: first.into(), ..Walk::default() });
    let mut walk = call.session.walk.take().unwrap_or_else(begin);
    match deliver_all(call, request, &mut walk) {
        Ok(None) => {}
        // Another client has destroyed the group since it was looked up.
        Ok(Some(_)) if blocking::is_turn(call) => return Err(ErrorReply::Stream(StreamError::GroupEnded).into()),
        Ok(Some(key)) => {
            no_group(call.out, [key, names.0], &NO_GROUP);
            return Ok(());
        }
        Err(stop) => {
            let is_begun = walk.left > first.into() || walk.cursor > 0;
            return Err(retained(call, walk, is_begun, stop));
        }
    }
    if walk.keys == 0 {
        return super::read::reply_nothing(call, ("xreadgroup", args), request);
    }
    let mut all = Vec::with_capacity(walk.found.len() + 16);
    super::read::put_head(&mut all, call.session.version, walk.keys);
    all.append(&mut walk.found);
    let grant = walk.grant.take();
    drop(walk);
    aside::send_held_reply(call, (all, 0), grant)
}
