//! Commands on pending entries: `XPENDING`, `XCLAIM` and `XAUTOCLAIM`.

use super::{StreamError, interval, interval_id, no_group, put_entry, put_id, whole_id};
use crate::memory::budget::{Grant, MemoryUse};
use crate::push::notify::KeyEvent;
use crate::resp::aside;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection;
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::slices::{self, FIELDS_A_SLICE, OPS_PER_CHECK};
use crate::resp::state::claim_work::{ClaimOptions, ClaimWork};
use crate::resp::state::string_work::StringWork;
use crate::resp::state::walk::{FREE_BYTES, Walk};
use crate::resp::string;
use crate::resp::typed::Edited;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use record::{Damaged, PendingEntry, StreamEdit, StreamEntry, StreamGroup, StreamId, StreamValue, Streams};

/// The error line of commands on pending entries if there is no such group.
pub(super) const NO_GROUP: [&str; 3] = ["NOGROUP No such key '", "' or consumer group '", "'"];
/// The number of pending entries that cost one operation.
const PENDING_AN_OP: usize = 4;
/// The number of pending entries that `XAUTOCLAIM` examines for each entry that it may return.
const ATTEMPTS_FACTOR: u64 = 10;
/// The greatest number of entries that a client may request of `XAUTOCLAIM`, as in Redis.
const CLAIMED_MAX: i64 = i64::MAX / 16;

/// Returns the time in milliseconds since 1970.
pub(super) fn now_ms(call: &Call<'_, '_>) -> u64 {
    let moment = call.moment();
    moment.to_wall(moment.now).0
}

/// The entries that the extended form of `XPENDING` lists.
#[derive(Clone, Copy)]
struct Listed<'c> {
    min_idle_ms: i64,
    first: StreamId,
    last: StreamId,
    count: u64,
    consumer: Option<&'c [u8]>,
}

impl<'c> Listed<'c> {
    fn read(args: Args<'c>) -> Result<Self, ErrorReply> {
        let [option, idle] = words(args);
        let (mut min_idle_ms, mut rest) = (0, args);
        if lower(option)[..] == *b"idle" {
            min_idle_ms = integer(idle)?;
            rest = args.split(2).1;
        }
        if rest.len() < 3 {
            return Err(ErrorReply::Syntax);
        }
        let [first, last, count, consumer] = words(rest);
        let count = integer(count)?.max(0) as u64;
        let (first, last) = interval(first, last)?;
        Ok(Self { min_idle_ms, first, last, count, consumer: (rest.len() > 3).then_some(consumer) })
    }
}

/// The maximum number of pending entries that one step of `XPENDING` examines.
const EXAMINED_A_STEP: usize = 64;
/// The maximum number of consumers that one step of the summary of `XPENDING` examines, and the cost of each in
/// operations: two searches for the number of its entries.
const CONSUMERS_A_STEP: u64 = 16;
const OPS_A_CONSUMER: usize = 2;
/// Room before a reply that is collected, for the lines before its elements.
const HEAD_ROOM: usize = 160;
/// The maximum length of an identifier in a reply.
const ID_BYTES: usize = 64;

pub(in crate::resp) fn xpending<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, group] = words(args);
    if args.len() != 2 && !(5..=8).contains(&args.len()) {
        return Err(ErrorReply::Syntax.into());
    }
    if args.len() > 2 {
        let listed = Listed::read(args.split(2).1)?;
        let mut walk = call.session.walk.take().unwrap_or_default();
        let ran = list_pending(call, (args, key, group), listed, &mut walk);
        return if call.collects_replies { slices::end_visit(call, walk, ran) } else { ran };
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = summarize(call, (args, key, group), &mut walk);
    if call.collects_replies { slices::end_visit(call, walk, ran) } else { ran }
}

/// Replies with the number of pending entries of a group, the first and the last one, and the number of each consumer.
/// If there are many consumers, this takes several visits: `walk.found` has the lines of consumers behind room for the
/// first lines, `walk.keys` their number, and `walk.cursor` consumers were examined.
fn summarize<'c>(call: &mut Call<'c, '_>, (args, key, group): (Args<'c>, &[u8], &[u8]), walk: &mut Walk) -> Run {
    let version = call.session.version;
    let (count, ends) = loop {
        if walk.found.is_empty() {
            walk.found.resize(HEAD_ROOM, 0);
        }
        let (lines, from) = (&mut walk.found, walk.cursor);
        let step = collection::look_consistently::<Streams, _>(call, key, &mut walk.reading, |_, stream| {
            let Some(stream) = stream else { return Ok(None) };
            let Some(found) = stream.groups().group(group)? else { return Ok(None) };
            Ok(Some(put_consumers(lines, stream, found, from)?))
        })?;
        let Some(step) = step else {
            no_group(call.out, [key, group], &NO_GROUP);
            return Ok(());
        };
        walk.keys += step.listed;
        walk.cursor += step.examined;
        call.ops += 1 + step.examined as usize * OPS_A_CONSUMER;
        if step.examined < CONSUMERS_A_STEP {
            break (step.count, step.ends);
        }
        if !call.collects_replies {
            return Err(slices::run_reading(call, "xpending", args, key));
        }
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    };
    let text = std::mem::take(&mut walk.found);
    let consumers = walk.keys;
    send_behind(call, (text, None), |head| {
        reply::array(head, 4);
        reply::int(head, count as i64);
        match ends {
            Some((first, last)) => {
                put_id(head, first);
                put_id(head, last);
                reply::array(head, consumers);
            }
            None => {
                reply::null(head, version);
                reply::null(head, version);
                reply::null_array(head, version);
            }
        }
    })
}

/// Lists pending entries. If there are many, this takes several visits: `walk.found` has the reply behind room for its
/// first line, `walk.keys` their number, and `walk.start` and `walk.wanted` the next identifier.
fn list_pending<'c>(
    call: &mut Call<'c, '_>,
    (args, key, group): (Args<'c>, &[u8], &[u8]),
    listed: Listed<'_>,
    walk: &mut Walk,
) -> Run {
    let now_ms = now_ms(call);
    loop {
        if walk.found.is_empty() {
            walk.found.resize(HEAD_ROOM, 0);
            (walk.start, walk.wanted) = (listed.first.ms, listed.first.seq);
        }
        let left = Listed {
            first: StreamId { ms: walk.start, seq: walk.wanted },
            count: listed.count.saturating_sub(walk.keys),
            ..listed
        };
        let lines = &mut walk.found;
        let step = collection::look_consistently::<Streams, _>(call, key, &mut walk.reading, |_, stream| {
            let Some(stream) = stream else { return Ok(None) };
            let Some(found) = stream.groups().group(group)? else { return Ok(None) };
            Ok(Some(put_listed(lines, stream, found, left, now_ms)?))
        })?;
        let Some(step) = step else {
            no_group(call.out, [key, group], &NO_GROUP);
            return Ok(());
        };
        walk.keys += step.count;
        call.ops += 1 + step.examined / PENDING_AN_OP;
        let Some(next) = step.next else { break };
        (walk.start, walk.wanted) = (next.ms, next.seq);
        if !call.collects_replies {
            return Err(slices::run_reading(call, "xpending", args, key));
        }
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    call.count_read(true);
    let text = std::mem::take(&mut walk.found);
    send_behind(call, (text, None), |head| reply::array(head, walk.keys))
}

/// Sends a reply that follows the first [`HEAD_ROOM`] bytes of `text`, behind the lines that `put_head` writes. With a
/// grant, the command has changed something and sends its reply even if client memory is used up.
fn send_behind(
    call: &mut Call<'_, '_>,
    (mut text, grant): (Vec<u8>, Option<Grant>),
    put_head: impl FnOnce(&mut Vec<u8>),
) -> Run {
    let mut head = Vec::new();
    put_head(&mut head);
    let from = HEAD_ROOM - head.len();
    text[from..HEAD_ROOM].copy_from_slice(&head);
    match grant {
        Some(_) => aside::send_held_reply(call, (text, from), grant),
        None => aside::send_long_reply_from(call, text, from),
    }
}

/// A step of a summary: the numbers of pending entries, of listed consumers and of examined ones, and the first and the
/// last pending entry, if there are any.
struct SummaryStep {
    count: u64,
    listed: u64,
    examined: u64,
    ends: Option<(StreamId, StreamId)>,
}

/// Writes the numbers of pending entries of the next consumers, from number `from` on.
fn put_consumers(
    to: &mut Vec<u8>,
    stream: &StreamValue<'_>,
    group: StreamGroup,
    from: u64,
) -> Result<SummaryStep, Damaged> {
    let groups = stream.groups();
    let first = groups.pending_from(group.number, StreamId::MIN)?.next().transpose()?;
    let ends = first.map(|(first, _)| first).zip(groups.last_pending(group.number)?);
    let count = groups.pending_count(group.number)?;
    let mut step = SummaryStep { count, listed: 0, examined: 0, ends };
    if step.ends.is_none() {
        return Ok(step);
    }
    for consumer in groups.consumers_from(group.number, from)?.take(CONSUMERS_A_STEP as usize) {
        let (name, consumer) = consumer?;
        step.examined += 1;
        let owned = groups.owned_count(consumer.number)?;
        if owned > 0 {
            step.listed += 1;
            reply::array(to, 2);
            reply::bulk(to, name);
            reply::bulk(to, owned.to_string().as_bytes());
        }
    }
    Ok(step)
}

/// A step of a list of pending entries: the numbers of listed and of examined ones, and the next to examine, if any.
struct ListStep {
    count: u64,
    examined: usize,
    next: Option<StreamId>,
}

/// Writes pending entries of one step.
fn put_listed(
    to: &mut Vec<u8>,
    stream: &StreamValue<'_>,
    group: StreamGroup,
    listed: Listed<'_>,
    now_ms: u64,
) -> Result<ListStep, Damaged> {
    let mut step = ListStep { count: 0, examined: 0, next: None };
    // Returns true if more entries can be examined.
    let mut put = |id: StreamId, pending: PendingEntry| {
        if step.examined == EXAMINED_A_STEP {
            step.next = Some(id);
            return Ok(false);
        }
        step.examined += 1;
        let idle = idle_ms(now_ms, &pending);
        if listed.min_idle_ms > 0 && idle < listed.min_idle_ms {
            return Ok(true);
        }
        step.count += 1;
        reply::array(to, 4);
        put_id(to, id);
        reply::bulk(to, stream.groups().consumer_name(pending.consumer)?);
        reply::int(to, idle);
        reply::int(to, pending.deliveries.into());
        Ok::<_, Damaged>(step.count < listed.count)
    };
    let consumer = listed.consumer.map(|name| stream.groups().consumer(group.number, name)).transpose()?;
    match consumer {
        _ if listed.count == 0 => {}
        None => {
            for pending in stream.groups().pending_from(group.number, listed.first)? {
                let (id, pending) = pending?;
                if id > listed.last || !put(id, pending)? {
                    break;
                }
            }
        }
        Some(None) => {}
        Some(Some(consumer)) => {
            for id in stream.groups().owned_from(consumer.number, listed.first)? {
                let id = id?;
                if id > listed.last || !put(id, stream.groups().pending(group.number, id)?.ok_or(Damaged)?)? {
                    break;
                }
            }
        }
    }
    Ok(step)
}

/// Returns the time since the last delivery, in milliseconds.
fn idle_ms(now_ms: u64, pending: &PendingEntry) -> i64 {
    now_ms.saturating_sub(pending.delivered_ms) as i64
}

/// Parses the options of `XCLAIM` behind its identifiers into `claim`. Returns a word that is no option.
fn read_options<'c>(claim: &mut ClaimOptions, mut options: Args<'c>) -> Result<Option<&'c [u8]>, ErrorReply> {
    let mut delivered_ms = None;
    while let Some(word) = options.next() {
        let has_more = options.len() > 0;
        let mut number = |error| integer(options.next().unwrap_or_default()).map_err(|_| ErrorReply::Stream(error));
        match &lower(word)[..] {
            b"force" => claim.forces = true,
            b"justid" => claim.only_ids = true,
            b"idle" if has_more => {
                delivered_ms = Some((claim.now_ms as i64).saturating_sub(number(StreamError::ClaimIdleOption)?));
            }
            b"time" if has_more => delivered_ms = Some(number(StreamError::ClaimTime)?),
            b"retrycount" if has_more => {
                let deliveries = number(StreamError::ClaimRetryCount)?;
                let limited = u64::try_from(deliveries).ok();
                claim.deliveries = limited.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            }
            b"lastid" if has_more => claim.last = whole_id(options.next().unwrap_or_default())?,
            _ => return Ok(Some(word)),
        }
    }
    let given = delivered_ms.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms <= claim.now_ms);
    claim.delivered_ms = given.unwrap_or(claim.now_ms);
    Ok(None)
}

/// Creates the state of a claim.
fn new_work(call: &Call<'_, '_>, min_idle_ms: i64, only_ids: bool) -> Box<ClaimWork> {
    let now_ms = now_ms(call);
    let (deliveries, forces, last) = (None, false, StreamId::MIN);
    let options = ClaimOptions { min_idle_ms, now_ms, delivered_ms: now_ms, deliveries, forces, only_ids, last };
    Box::new(ClaimWork {
        options,
        ids: None,
        next: StreamId::MIN,
        count: 0,
        attempts: 0,
        text: vec![0; HEAD_ROOM],
        claimed: 0,
        deleted_text: Vec::new(),
        deleted: 0,
        grant: Grant::none(&call.ctx.shared.budget, MemoryUse::Walks),
    })
}

/// Accounts for the memory of a claim's reply with `more` bytes more. Returns false if client memory is used up.
fn has_memory(work: &mut ClaimWork, more: usize) -> bool {
    // A growing buffer may be twice as long as its contents.
    let bytes = work.text.capacity() + work.deleted_text.capacity() + 2 * more;
    bytes <= FREE_BYTES || work.grant.resize(bytes as u64)
}

/// Returns true if a claim ends because of `fault`: what is claimed must be replied.
///
/// # Errors
/// `fault` if nothing is claimed yet.
fn ends_early(work: &ClaimWork, fault: ErrorReply) -> Result<bool, Interrupt> {
    if work.claimed + work.deleted > 0 { Ok(true) } else { Err(fault.into()) }
}

/// Retains the state of a claim that another visit continues.
fn retained(call: &mut Call<'_, '_>, work: Box<ClaimWork>, stop: Interrupt) -> Interrupt {
    if matches!(stop, Interrupt::State(_)) && call.collects_replies {
        slices::retain_work(call, StringWork::Claim(work));
    }
    stop
}

/// Writes a claimed entry, or only its identifier.
fn put_claimed(to: &mut Vec<u8>, entry: &StreamEntry<'_>, only_ids: bool) -> Result<(), Damaged> {
    match only_ids {
        true => put_id(to, entry.id),
        false => put_entry(to, entry)?,
    }
    Ok(())
}

/// A claim by one consumer, which is created when it gets its first entry.
struct Claiming<'n> {
    group: StreamGroup,
    name: &'n [u8],
    consumer: Option<u32>,
    is_new: bool,
    is_changed: bool,
    options: ClaimOptions,
    to: &'n mut Vec<u8>,
}

/// The result of a claim of one entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claimed {
    Taken,
    /// The entry was deleted from the stream, and is no longer pending.
    Deleted,
    Unchanged,
}

impl<'n> Claiming<'n> {
    fn new(group: StreamGroup, name: &'n [u8], options: ClaimOptions, to: &'n mut Vec<u8>) -> Self {
        Self { group, name, consumer: None, is_new: false, is_changed: false, options, to }
    }

    /// Claims the entry with an identifier.
    fn claim(&mut self, old: &StreamValue<'_>, stream: &mut StreamEdit<'_>, id: StreamId) -> Result<Claimed, Damaged> {
        let pending = stream.groups().pending(self.group.number, id)?;
        let Some(entry) = old.entry(id)? else {
            let was_pending = stream.groups().acknowledge(self.group.number, id)?;
            self.is_changed |= was_pending;
            return Ok(if was_pending { Claimed::Deleted } else { Claimed::Unchanged });
        };
        let options = self.options;
        let before = match pending {
            Some(pending) if options.min_idle_ms > 0 && idle_ms(options.now_ms, &pending) < options.min_idle_ms => {
                return Ok(Claimed::Unchanged);
            }
            Some(pending) => pending.deliveries,
            None if options.forces => 1,
            None => return Ok(Claimed::Unchanged),
        };
        // A claim of identifiers only is no delivery.
        let deliveries = options.deliveries.unwrap_or(before.saturating_add(u32::from(!options.only_ids)));
        let consumer = match self.consumer {
            Some(consumer) => consumer,
            None => {
                let (consumer, is_new) = stream.groups().see_consumer(self.group.number, self.name, options.now_ms)?;
                self.is_new = is_new;
                *self.consumer.insert(consumer.number)
            }
        };
        self.is_changed = true;
        let new = PendingEntry { consumer, delivered_ms: options.delivered_ms, deliveries };
        stream.groups().deliver(self.group.number, id, &new)?;
        put_claimed(self.to, &entry, options.only_ids)?;
        Ok(Claimed::Taken)
    }
}

/// The number of identifiers that one change of a long `XCLAIM` claims, and of entries that one of a long `XAUTOCLAIM`
/// examines. The cost of each in operations.
const CLAIMED_A_STEP: u32 = 16;
const CLAIM_OPS: usize = 3;

pub(in crate::resp) fn xclaim<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, group, consumer, min_idle] = words(args);
    let all = args.split(4).1;
    let mut work = match slices::take_work(call) {
        Some(StringWork::Claim(work)) => work,
        _ => {
            let has_group = collection::look::<Streams, _>(call, key, |_, stream| {
                Ok(stream.map_or(Ok(None), |stream| stream.groups().group(group))?.is_some())
            })?;
            if !has_group {
                no_group(call.out, [key, group], &NO_GROUP);
                return Ok(());
            }
            let min_idle_ms = integer(min_idle).map_err(|_| ErrorReply::Stream(StreamError::ClaimIdle))?;
            if all.len() as u32 > FIELDS_A_SLICE && !call.collects_replies {
                return Err(collection::take_visits(call, "xclaim", args, key));
            }
            new_work(call, min_idle_ms, false)
        }
    };
    let ids = match count_ids(call, all, &mut work) {
        Ok(Ok(ids)) => ids,
        Ok(Err(word)) => {
            crate::resp::error::word(call.out, "ERR Unrecognized XCLAIM option", word);
            return Ok(());
        }
        Err(stop) => return Err(retained(call, work, stop)),
    };
    match claim_ids(call, [key, group, consumer], (all, ids), &mut work) {
        Ok(true) => {
            let (text, claimed, grant) = (work.text, work.claimed, work.grant);
            send_behind(call, (text, Some(grant)), |head| reply::array(head, claimed))
        }
        Ok(false) => {
            no_group(call.out, [key, group], &NO_GROUP);
            Ok(())
        }
        Err(stop) => Err(retained(call, work, stop)),
    }
}

/// Counts the identifiers at the start of `all`, and parses the options behind them. Returns a word that is no option
/// as an error.
fn count_ids<'c>(
    call: &mut Call<'c, '_>,
    all: Args<'c>,
    work: &mut ClaimWork,
) -> Result<Result<u32, &'c [u8]>, Interrupt> {
    if let Some(ids) = work.ids {
        return Ok(Ok(ids));
    }
    let mut left = slices::words_left(call, all);
    loop {
        let (slice, behind) = left.split(FIELDS_A_SLICE);
        let valid = slice.into_iter().take_while(|id| whole_id(id).is_ok()).count();
        if valid < slice.len() || behind.len() == 0 {
            if let Some(word) = read_options(&mut work.options, left.split(valid as u32).1)? {
                return Ok(Err(word));
            }
            let ids = call.session.done + valid as u32;
            (work.ids, call.session.done, call.session.passed) = (Some(ids), 0, (0, 0));
            return Ok(Ok(ids));
        }
        slices::words_done(call, slice.len() as u32, slice.wire_bytes());
        call.ops += OPS_PER_CHECK;
        left = behind;
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
}

/// Claims the first `ids` identifiers of `all`, except those that earlier visits have claimed. Returns false if there
/// is no such group.
fn claim_ids<'c>(
    call: &mut Call<'c, '_>,
    [key, group, consumer]: [&[u8]; 3],
    (all, ids): (Args<'c>, u32),
    work: &mut ClaimWork,
) -> Result<bool, Interrupt> {
    let mut most = if call.collects_replies { CLAIMED_A_STEP } else { FIELDS_A_SLICE };
    loop {
        let left = ids - call.session.done;
        let (some, _) = slices::words_left(call, all).split(left.min(most));
        match claim_some(call, [key, group, consumer], some, work) {
            Ok(ClaimStep::Done) => {}
            Ok(ClaimStep::NoGroup) => return Ok(false),
            // Fewer entries need less memory.
            Ok(ClaimStep::NoMemory) | Err(Interrupt::Fault(ErrorReply::OutOfMemory)) if some.len() > 1 => {
                most = some.len() as u32 / 2;
                continue;
            }
            Ok(ClaimStep::NoMemory) => return ends_early(work, ErrorReply::ClientMemory),
            Err(Interrupt::Fault(fault)) => return ends_early(work, fault),
            Err(stop) => return Err(stop),
        }
        call.ops += CLAIM_OPS * some.len();
        if left <= most {
            return Ok(true);
        }
        slices::words_done(call, some.len() as u32, some.wire_bytes());
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
}

/// The result of a change that claims some entries.
enum ClaimStep {
    Done,
    NoGroup,
    /// Nothing was changed: there is no client memory for the reply.
    NoMemory,
}

/// Claims these identifiers by one change.
fn claim_some<'c>(
    call: &mut Call<'c, '_>,
    [key, group, consumer]: [&[u8]; 3],
    ids: Args<'c>,
    work: &mut ClaimWork,
) -> Result<ClaimStep, Interrupt> {
    let (options, mut text, mut has_room) = (work.options, Vec::new(), true);
    let (claimed, effect) = collection::change_sparing::<Streams, _>(call, key, &mut |old, stream| {
        text.clear();
        has_room = true;
        let (Some(old), Some(mut found)) = (old, stream.groups().group(group)?) else {
            return Ok(Edited::Keep(None));
        };
        let is_ahead = options.last > found.last;
        if is_ahead {
            found.last = options.last;
            stream.groups().set_group(group, &found)?;
        }
        let (mut claiming, mut count) = (Claiming::new(found, consumer, options, &mut text), 0);
        for id in ids {
            count += u64::from(claiming.claim(old, stream, whole_id(id)?)? == Claimed::Taken);
        }
        let (answer, is_changed) = (Some((count, claiming.is_new)), claiming.is_changed);
        has_room = has_memory(work, text.len());
        Ok(if has_room && (is_changed || is_ahead) { Edited::Store(answer) } else { Edited::Keep(answer) })
    })?;
    let Some((count, is_new)) = claimed else { return Ok(ClaimStep::NoGroup) };
    if !has_room {
        return Ok(ClaimStep::NoMemory);
    }
    note(call, key, is_new, effect.is_changed);
    work.text.extend_from_slice(&text);
    work.claimed += count;
    Ok(ClaimStep::Done)
}

/// Counts a change, and sends the event of a new consumer.
pub(super) fn note(call: &mut Call<'_, '_>, key: &[u8], is_new: bool, is_changed: bool) {
    if is_changed {
        string::note_store(call);
    }
    if is_new {
        call.changed(KeyEvent::XGROUP_CREATECONSUMER, key);
    }
}

/// The options of `XAUTOCLAIM`.
#[derive(Clone, Copy)]
struct AutoClaim {
    min_idle_ms: i64,
    start: StreamId,
    count: u64,
    only_ids: bool,
}

impl AutoClaim {
    /// Parses the words behind the consumer.
    fn read(args: Args<'_>) -> Result<Self, ErrorReply> {
        let [min_idle, start] = words(args);
        let min_idle_ms = integer(min_idle).map_err(|_| ErrorReply::Stream(StreamError::AutoClaimIdle))?;
        let start = match interval_id(start, 0)? {
            (id, true) => id.next().ok_or(ErrorReply::Stream(StreamError::Start))?,
            (id, false) => id,
        };
        let (mut count, mut only_ids, mut options) = (100, false, args.split(2).1);
        while let Some(word) = options.next() {
            match &lower(word)[..] {
                b"count" if options.len() > 0 => {
                    let given = integer(options.next().unwrap_or_default()).ok();
                    let given = given.filter(|count| (1..=CLAIMED_MAX).contains(count));
                    count = given.ok_or(ErrorReply::Stream(StreamError::ClaimCount))? as u64;
                }
                b"justid" => only_ids = true,
                _ => return Err(ErrorReply::Syntax),
            }
        }
        Ok(Self { min_idle_ms, start, count, only_ids })
    }
}

/// A step of `XAUTOCLAIM`: the number of claimed entries, the deleted ones, the number of examined ones, and the next
/// one to examine, if any.
#[derive(Default)]
struct AutoClaimed {
    claimed: u64,
    deleted: Vec<StreamId>,
    examined: u64,
    next: Option<StreamId>,
    is_new: bool,
}

/// Claims pending entries from `first` on: returns at most `count`, and examines at most `attempts`.
fn claim_from(
    old: &StreamValue<'_>,
    stream: &mut StreamEdit<'_>,
    (first, count, attempts): (StreamId, u64, u64),
    claiming: &mut Claiming<'_>,
) -> Result<AutoClaimed, Damaged> {
    let mut step = AutoClaimed::default();
    for pending in old.groups().pending_from(claiming.group.number, first)? {
        let (id, _) = pending?;
        if step.claimed + step.deleted.len() as u64 == count || step.examined == attempts {
            step.next = Some(id);
            break;
        }
        step.examined += 1;
        match claiming.claim(old, stream, id)? {
            Claimed::Taken => step.claimed += 1,
            Claimed::Deleted => step.deleted.push(id),
            Claimed::Unchanged => {}
        }
    }
    Ok(step)
}

/// Returns true if `XAUTOCLAIM` examines more entries than one visit may.
fn examines_many(call: &mut Call<'_, '_>, [key, group]: [&[u8]; 2], options: AutoClaim) -> Result<bool, Interrupt> {
    let most = u64::from(FIELDS_A_SLICE);
    if options.count.saturating_mul(ATTEMPTS_FACTOR) <= most {
        return Ok(false);
    }
    collection::look::<Streams, _>(call, key, |_, stream| {
        let Some(stream) = stream else { return Ok(false) };
        let Some(group) = stream.groups().group(group)? else { return Ok(false) };
        let pending = stream.groups().pending_from(group.number, options.start)?;
        Ok(pending.take(FIELDS_A_SLICE as usize + 1).count() as u64 > most)
    })
}

pub(in crate::resp) fn xautoclaim<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, group, consumer] = words(args);
    let mut work = match slices::take_work(call) {
        Some(StringWork::Claim(work)) => work,
        _ => {
            let options = AutoClaim::read(args.split(3).1)?;
            if !call.collects_replies && examines_many(call, [key, group], options)? {
                return Err(collection::take_visits(call, "xautoclaim", args, key));
            }
            let mut work = new_work(call, options.min_idle_ms, options.only_ids);
            (work.next, work.count) = (options.start, options.count);
            work.attempts = options.count.saturating_mul(ATTEMPTS_FACTOR);
            work
        }
    };
    match auto_claim(call, [key, group, consumer], &mut work) {
        Ok(true) => {}
        Ok(false) => {
            no_group(call.out, [key, group], &NO_GROUP);
            return Ok(());
        }
        Err(stop) => return Err(retained(call, work, stop)),
    }
    let ClaimWork { mut text, claimed, deleted_text, deleted, next, grant, .. } = *work;
    reply::array(&mut text, deleted);
    text.extend_from_slice(&deleted_text);
    send_behind(call, (text, Some(grant)), |head| {
        reply::array(head, 3);
        put_id(head, next);
        reply::array(head, claimed);
    })
}

/// Claims pending entries until enough are claimed or examined. Returns false if there is no such group.
fn auto_claim(
    call: &mut Call<'_, '_>,
    [key, group, consumer]: [&[u8]; 3],
    work: &mut ClaimWork,
) -> Result<bool, Interrupt> {
    let mut most = u64::from(if call.collects_replies { CLAIMED_A_STEP } else { FIELDS_A_SLICE });
    loop {
        let (options, from) = (work.options, (work.next, work.count.min(most), work.attempts.min(most)));
        let (mut text, mut has_room) = (Vec::new(), true);
        let changed = collection::change_sparing::<Streams, _>(call, key, &mut |old, stream| {
            text.clear();
            let (Some(old), Some(found)) = (old, stream.groups().group(group)?) else { return Ok(Edited::Keep(None)) };
            let mut claiming = Claiming::new(found, consumer, options, &mut text);
            let step = claim_from(old, stream, from, &mut claiming)?;
            let (is_new, is_changed) = (claiming.is_new, claiming.is_changed);
            has_room = has_memory(work, text.len() + step.deleted.len() * ID_BYTES);
            let answer = Some(AutoClaimed { is_new, ..step });
            Ok(if has_room && is_changed { Edited::Store(answer) } else { Edited::Keep(answer) })
        });
        let (step, effect) = match changed {
            Err(Interrupt::Fault(ErrorReply::OutOfMemory)) if most > 1 => {
                most /= 2;
                continue;
            }
            Err(Interrupt::Fault(fault)) => return ends_early(work, fault),
            changed => changed?,
        };
        let Some(step) = step else { return Ok(false) };
        if !has_room && most > 1 {
            most /= 2;
            continue;
        }
        if !has_room {
            return ends_early(work, ErrorReply::ClientMemory);
        }
        note(call, key, step.is_new, effect.is_changed);
        let deleted = step.deleted.len() as u64;
        step.deleted.iter().for_each(|id| put_id(&mut work.deleted_text, *id));
        work.text.extend_from_slice(&text);
        (work.claimed, work.deleted) = (work.claimed + step.claimed, work.deleted + deleted);
        (work.count, work.attempts) = (work.count - step.claimed - deleted, work.attempts - step.examined);
        work.next = step.next.unwrap_or_default();
        call.ops += CLAIM_OPS * step.examined as usize;
        if step.next.is_none() || work.count == 0 || work.attempts == 0 {
            return Ok(true);
        }
        if call.collects_replies && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
}
