//! Commands on pending entries: `XPENDING`, `XCLAIM` and `XAUTOCLAIM`.

use super::{StreamError, interval, interval_id, no_group, put_entry, put_id, whole_id};
use crate::push::notify::KeyEvent;
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::lower;
use crate::resp::collection::{self, words};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::string;
use crate::resp::typed::{self, Edited};
use protocol::resp::{Args, Version, reply};
use record::{Damaged, PendingEntry, StreamEdit, StreamEntry, StreamGroup, StreamId, StreamValue, Streams};

/// The error line of commands on pending entries if there is no such group.
pub(super) const NO_GROUP: [&str; 3] = ["NOGROUP No such key '", "' or consumer group '", "'"];
/// The number of pending entries that cost one operation.
const PENDING_AN_OP: u64 = 4;
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

pub(in crate::resp) fn xpending<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let ([key, group], now_ms, version) = (words(args), now_ms(call), call.session.version);
    if args.len() != 2 && !(5..=8).contains(&args.len()) {
        return Err(ErrorReply::Syntax.into());
    }
    let listed = if args.len() > 2 { Some(Listed::read(args.split(2).1)?) } else { None };
    let (text, examined) = collection::look::<Streams, _>(call, key, |_, stream| {
        let Some(stream) = stream else { return Ok((None, 0)) };
        let Some(found) = stream.groups().group(group)? else { return Ok((None, 0)) };
        let (mut text, mut examined) = (Vec::new(), 0);
        match listed {
            None => put_summary(&mut text, version, stream, found)?,
            Some(listed) => examined = put_listed(&mut text, stream, found, listed, now_ms)?,
        }
        Ok((Some(text), examined))
    })?;
    call.ops += (examined / PENDING_AN_OP) as usize;
    match text {
        Some(text) => aside::send_long_reply(call, text),
        None => {
            no_group(call.out, [key, group], &NO_GROUP);
            Ok(())
        }
    }
}

/// Writes the number of pending entries of a group, the first and the last one, and the number of each consumer.
fn put_summary(
    to: &mut Vec<u8>,
    version: Version,
    stream: &StreamValue<'_>,
    group: StreamGroup,
) -> Result<(), Damaged> {
    let count = stream.groups().pending_count(group.number)?;
    reply::array(to, 4);
    reply::int(to, count as i64);
    let first = stream.groups().pending_from(group.number, StreamId::MIN)?.next().transpose()?;
    let (Some((first, _)), Some(last)) = (first, stream.groups().last_pending(group.number)?) else {
        reply::null(to, version);
        reply::null(to, version);
        reply::null_array(to, version);
        return Ok(());
    };
    put_id(to, first);
    put_id(to, last);
    let (mut consumers, mut lines) = (0, Vec::new());
    for consumer in stream.groups().consumers(group.number)? {
        let (name, consumer) = consumer?;
        let owned = stream.groups().owned_count(consumer.number)?;
        if owned > 0 {
            consumers += 1;
            reply::array(&mut lines, 2);
            reply::bulk(&mut lines, name);
            reply::bulk(&mut lines, owned.to_string().as_bytes());
        }
    }
    reply::array(to, consumers);
    to.extend_from_slice(&lines);
    Ok(())
}

/// Writes pending entries. Returns the number of examined ones.
fn put_listed(
    to: &mut Vec<u8>,
    stream: &StreamValue<'_>,
    group: StreamGroup,
    listed: Listed<'_>,
    now_ms: u64,
) -> Result<u64, Damaged> {
    let (mut count, mut examined, mut lines) = (0, 0, Vec::new());
    let mut put = |id: StreamId, pending: PendingEntry| {
        examined += 1;
        let idle = idle_ms(now_ms, &pending);
        if listed.min_idle_ms > 0 && idle < listed.min_idle_ms {
            return Ok(count < listed.count);
        }
        count += 1;
        reply::array(&mut lines, 4);
        put_id(&mut lines, id);
        reply::bulk(&mut lines, stream.groups().consumer_name(pending.consumer)?);
        reply::int(&mut lines, idle);
        reply::int(&mut lines, pending.deliveries.into());
        Ok::<_, Damaged>(count < listed.count)
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
    reply::array(to, count);
    to.extend_from_slice(&lines);
    Ok(examined)
}

/// Returns the time since the last delivery, in milliseconds.
fn idle_ms(now_ms: u64, pending: &PendingEntry) -> i64 {
    now_ms.saturating_sub(pending.delivered_ms) as i64
}

/// The options of `XCLAIM`.
#[derive(Clone, Copy)]
struct Claim<'c> {
    ids: Args<'c>,
    min_idle_ms: i64,
    delivered_ms: u64,
    deliveries: Option<u32>,
    forces: bool,
    only_ids: bool,
    last: StreamId,
}

/// The options of `XCLAIM`, or one that does not exist.
enum Read<'c> {
    Claim(Claim<'c>),
    Unknown(&'c [u8]),
}

impl<'c> Claim<'c> {
    /// Parses the words behind the consumer.
    fn read(args: Args<'c>, now_ms: u64) -> Result<Read<'c>, ErrorReply> {
        let [min_idle] = words(args);
        let min_idle_ms = integer(min_idle).map_err(|_| ErrorReply::Stream(StreamError::ClaimIdle))?;
        let all = args.after_first();
        let count = all.into_iter().take_while(|id| whole_id(id).is_ok()).count();
        let (ids, mut options) = all.split(count as u32);
        let mut delivered_ms = None;
        let mut claim = Self {
            ids,
            min_idle_ms,
            delivered_ms: now_ms,
            deliveries: None,
            forces: false,
            only_ids: false,
            last: StreamId::MIN,
        };
        while let Some(word) = options.next() {
            let has_more = options.len() > 0;
            let mut number = |error| integer(options.next().unwrap_or_default()).map_err(|_| ErrorReply::Stream(error));
            match &lower(word)[..] {
                b"force" => claim.forces = true,
                b"justid" => claim.only_ids = true,
                b"idle" if has_more => {
                    delivered_ms = Some((now_ms as i64).saturating_sub(number(StreamError::ClaimIdleOption)?));
                }
                b"time" if has_more => delivered_ms = Some(number(StreamError::ClaimTime)?),
                b"retrycount" if has_more => {
                    let deliveries = number(StreamError::ClaimRetryCount)?;
                    let limited = u64::try_from(deliveries).ok();
                    claim.deliveries = limited.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
                }
                b"lastid" if has_more => claim.last = whole_id(options.next().unwrap_or_default())?,
                _ => return Ok(Read::Unknown(word)),
            }
        }
        let given = delivered_ms.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms <= now_ms);
        claim.delivered_ms = given.unwrap_or(now_ms);
        Ok(Read::Claim(claim))
    }
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
    min_idle_ms: i64,
    now_ms: u64,
    delivered_ms: u64,
    deliveries: Option<u32>,
    counts: bool,
    forces: bool,
    only_ids: bool,
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

impl Claiming<'_> {
    /// Claims the entry with an identifier.
    fn claim(&mut self, old: &StreamValue<'_>, stream: &mut StreamEdit<'_>, id: StreamId) -> Result<Claimed, Damaged> {
        let pending = stream.groups().pending(self.group.number, id)?;
        let Some(entry) = old.entry(id)? else {
            let was_pending = stream.groups().acknowledge(self.group.number, id)?;
            self.is_changed |= was_pending;
            return Ok(if was_pending { Claimed::Deleted } else { Claimed::Unchanged });
        };
        let before = match pending {
            Some(pending) if self.min_idle_ms > 0 && idle_ms(self.now_ms, &pending) < self.min_idle_ms => {
                return Ok(Claimed::Unchanged);
            }
            Some(pending) => pending.deliveries,
            None if self.forces => 1,
            None => return Ok(Claimed::Unchanged),
        };
        let counted = before.saturating_add(u32::from(self.counts));
        let deliveries = self.deliveries.unwrap_or(counted);
        let consumer = match self.consumer {
            Some(consumer) => consumer,
            None => {
                let (consumer, is_new) = stream.groups().see_consumer(self.group.number, self.name, self.now_ms)?;
                self.is_new = is_new;
                *self.consumer.insert(consumer.number)
            }
        };
        self.is_changed = true;
        let new = PendingEntry { consumer, delivered_ms: self.delivered_ms, deliveries };
        stream.groups().deliver(self.group.number, id, &new)?;
        put_claimed(self.to, &entry, self.only_ids)?;
        Ok(Claimed::Taken)
    }
}

pub(in crate::resp) fn xclaim<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let ([key, group, consumer], now_ms) = (words(args), now_ms(call));
    let has_group = collection::look::<Streams, _>(call, key, |_, stream| {
        Ok(stream.map_or(Ok(None), |stream| stream.groups().group(group))?.is_some())
    })?;
    if !has_group {
        no_group(call.out, [key, group], &NO_GROUP);
        return Ok(());
    }
    let claim = match Claim::read(args.split(3).1, now_ms)? {
        Read::Claim(claim) => claim,
        Read::Unknown(word) => {
            crate::resp::error::word(call.out, "ERR Unrecognized XCLAIM option", word);
            return Ok(());
        }
    };
    typed::room_to_store(call, 0)?;
    let mut text = Vec::new();
    let ((count, is_new), effect) = collection::change::<Streams, _>(call, key, &mut |old, stream| {
        text.clear();
        let (Some(old), Some(mut found)) = (old, stream.groups().group(group)?) else {
            return Ok(Edited::Keep((0, false)));
        };
        let is_ahead = claim.last > found.last;
        if is_ahead {
            found.last = claim.last;
            stream.groups().set_group(group, &found)?;
        }
        let mut claiming = Claiming {
            group: found,
            name: consumer,
            consumer: None,
            is_new: false,
            is_changed: false,
            min_idle_ms: claim.min_idle_ms,
            now_ms,
            delivered_ms: claim.delivered_ms,
            deliveries: claim.deliveries,
            counts: !claim.only_ids,
            forces: claim.forces,
            only_ids: claim.only_ids,
            to: &mut text,
        };
        let mut count = 0;
        for id in claim.ids {
            count += u64::from(claiming.claim(old, stream, whole_id(id)?)? == Claimed::Taken);
        }
        let answer = (count, claiming.is_new);
        Ok(if claiming.is_changed || is_ahead { Edited::Store(answer) } else { Edited::Keep(answer) })
    })?;
    note(call, key, is_new, effect.is_changed);
    call.ops += claim.ids.len();
    let mut all = Vec::with_capacity(text.len() + 24);
    reply::array(&mut all, count);
    all.extend_from_slice(&text);
    aside::send_long_reply(call, all)
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

/// The result of `XAUTOCLAIM`.
#[derive(Default)]
struct AutoClaimed {
    claimed: u64,
    deleted: Vec<StreamId>,
    next: StreamId,
    is_new: bool,
}

/// Claims pending entries from an identifier on.
fn claim_from(
    old: &StreamValue<'_>,
    stream: &mut StreamEdit<'_>,
    options: AutoClaim,
    claiming: &mut Claiming<'_>,
) -> Result<AutoClaimed, Damaged> {
    let mut result = AutoClaimed::default();
    let (mut count, mut attempts) = (options.count, options.count.saturating_mul(ATTEMPTS_FACTOR));
    for pending in old.groups().pending_from(claiming.group.number, options.start)? {
        let (id, _) = pending?;
        if count == 0 || attempts == 0 {
            result.next = id;
            break;
        }
        attempts -= 1;
        match claiming.claim(old, stream, id)? {
            Claimed::Taken => result.claimed += 1,
            Claimed::Deleted => result.deleted.push(id),
            Claimed::Unchanged => continue,
        }
        count -= 1;
    }
    Ok(result)
}

pub(in crate::resp) fn xautoclaim<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let ([key, group, consumer], now_ms) = (words(args), now_ms(call));
    let options = AutoClaim::read(args.split(3).1)?;
    typed::room_to_store(call, 0)?;
    let mut text = Vec::new();
    let (result, effect) = collection::change::<Streams, _>(call, key, &mut |old, stream| {
        text.clear();
        let (Some(old), Some(found)) = (old, stream.groups().group(group)?) else { return Ok(Edited::Keep(None)) };
        let mut claiming = Claiming {
            group: found,
            name: consumer,
            consumer: None,
            is_new: false,
            is_changed: false,
            min_idle_ms: options.min_idle_ms,
            now_ms,
            delivered_ms: now_ms,
            deliveries: None,
            counts: !options.only_ids,
            forces: false,
            only_ids: options.only_ids,
            to: &mut text,
        };
        let result = claim_from(old, stream, options, &mut claiming)?;
        let answer = Some(AutoClaimed { is_new: claiming.is_new, ..result });
        Ok(if claiming.is_changed { Edited::Store(answer) } else { Edited::Keep(answer) })
    })?;
    let Some(result) = result else {
        no_group(call.out, [key, group], &NO_GROUP);
        return Ok(());
    };
    note(call, key, result.is_new, effect.is_changed);
    call.ops += (result.claimed as usize) + result.deleted.len();
    let mut all = Vec::with_capacity(text.len() + 64);
    reply::array(&mut all, 3);
    put_id(&mut all, result.next);
    reply::array(&mut all, result.claimed);
    all.extend_from_slice(&text);
    reply::array(&mut all, result.deleted.len() as u64);
    result.deleted.iter().for_each(|id| put_id(&mut all, *id));
    aside::send_long_reply(call, all)
}
