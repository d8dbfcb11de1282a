//! Commands on the groups of a stream and their consumers, and the acknowledgement of entries.

use super::{StreamError, bound_id, no_group, whole_id};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection::{self, Effect};
use crate::resp::error::ErrorReply;
use crate::resp::help::other_subcommand;
use crate::resp::number::integer;
use crate::resp::slices::{self, Slices};
use crate::resp::state::walk::Walk;
use crate::resp::typed::{self, Edited};
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, reply};
use record::{StreamId, Streams};

/// The maximum number of pending entries of a consumer that one change removes.
const REMOVED_A_STEP: usize = 32;
/// The cost of removing one pending entry, in operations.
const OPS_PER_REMOVED: usize = 2;
/// The numbers of consumers and of pending entries up to which a group is destroyed in one step.
const CONSUMERS_AT_ONCE: u64 = 16;
const PENDING_AT_ONCE: u64 = 4096;
/// The cost of a step that makes a group smaller, in operations.
const OPS_PER_SHRINKING: usize = 16;

/// The options of `XGROUP CREATE` and `XGROUP SETID`.
#[derive(Clone, Copy, Default)]
struct GroupOptions {
    makes_stream: bool,
    read: Option<u64>,
}

impl GroupOptions {
    /// Parses the options. Returns `None` if one does not exist.
    fn read(mut args: Args<'_>, may_make: bool) -> Result<Option<Self>, ErrorReply> {
        let mut options = Self::default();
        while let Some(word) = args.next() {
            match &lower(word)[..] {
                b"mkstream" if may_make => options.makes_stream = true,
                b"entriesread" if args.len() > 0 => {
                    let read = integer(args.next().unwrap_or_default())?;
                    if read < -1 {
                        return Err(ErrorReply::Stream(StreamError::ReadBelowZero));
                    }
                    options.read = u64::try_from(read).ok();
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(options))
    }
}

/// The outcome of a change of a group.
enum Outcome {
    /// The reply is this number.
    Number(i64),
    /// The reply is OK.
    Ok,
    NoGroup,
}

pub(in crate::resp) fn xgroup<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [part, key, group, word] = words(args);
    let name = lower(part);
    if args.len() < 3 {
        return other_subcommand(call, "xgroup", part);
    }
    let is_create = name[..] == *b"create";
    let options = match (&name[..], args.len()) {
        (b"create" | b"setid", 4..) => GroupOptions::read(args.split(4).1, is_create)?,
        (b"createconsumer" | b"delconsumer", 4) | (b"destroy", 3) => Some(GroupOptions::default()),
        _ => None,
    };
    let Some(options) = options else { return other_subcommand(call, "xgroup", part) };
    if name[..] == *b"delconsumer" {
        return remove_consumer(call, ("xgroup", args), [key, group, word]);
    }
    if name[..] == *b"destroy" {
        empty_group(call, ("xgroup", args), [key, group])?;
    } else if name[..] != *b"setid" {
        typed::room_to_store(call, 0)?;
    }
    let now_ms = super::claim::now_ms(call);
    let (outcome, effect) = collection::change::<Streams, _>(call, key, &mut |old, stream| {
        if old.is_none() && !options.makes_stream {
            return Err(ErrorReply::Stream(StreamError::NoStream));
        }
        let found = stream.groups().group(group)?;
        let last = |last: StreamId, parse: fn(&[u8]) -> Result<StreamId, ErrorReply>| match word {
            b"$" => Ok(last),
            word => parse(word),
        };
        match (&name[..], found) {
            (b"create", found) => {
                let last = last(stream.state().last, whole_id)?;
                if found.is_some() {
                    return Err(ErrorReply::Stream(StreamError::GroupExists));
                }
                stream.groups().create_group(group, last, options.read)?;
                Ok(Edited::Store(Outcome::Ok))
            }
            (b"destroy", None) => Ok(Edited::Keep(Outcome::Number(0))),
            (_, None) => Ok(Edited::Keep(Outcome::NoGroup)),
            (b"destroy", Some(_)) => {
                let old = old.ok_or(ErrorReply::Damaged)?;
                stream.groups().destroy_group(old, group)?;
                Ok(Edited::Store(Outcome::Number(1)))
            }
            (b"setid", Some(found)) => {
                let last = last(stream.state().last, bound_id)?;
                stream.groups().set_group(group, &record::StreamGroup { last, read: options.read, ..found })?;
                Ok(Edited::Store(Outcome::Ok))
            }
            (_, Some(found)) => {
                if stream.groups().consumer(found.number, word)?.is_some() {
                    return Ok(Edited::Keep(Outcome::Number(0)));
                }
                stream.groups().see_consumer(found.number, word, now_ms)?;
                Ok(Edited::Store(Outcome::Number(1)))
            }
        }
    })?;
    let event = event_of(&name);
    collection::notify(call, key, event, effect);
    match outcome {
        Outcome::Number(number) => call.int(number),
        Outcome::Ok => call.out.push(reply::OK),
        Outcome::NoGroup => no_group(call.out, [group, key], &NO_GROUP_OF_KEY),
    }
    Ok(())
}

/// Returns the event of a subcommand of `XGROUP`.
fn event_of(name: &[u8]) -> KeyEvent {
    match name {
        b"create" => KeyEvent::XGROUP_CREATE,
        b"destroy" => KeyEvent::XGROUP_DESTROY,
        b"setid" => KeyEvent::XGROUP_SETID,
        _ => KeyEvent::XGROUP_CREATECONSUMER,
    }
}

/// The error line of `XGROUP` and `XINFO CONSUMERS` if the stream does not have the group.
pub(super) const NO_GROUP_OF_KEY: [&str; 3] = ["NOGROUP No such consumer group '", "' for key name '", "'"];

/// A step of the removal of a consumer: the number of pending entries that were removed, and whether it is gone.
enum Removal {
    NoGroup,
    Step {
        removed: i64,
        is_done: bool,
        was_there: bool,
    },
    /// There are too many pending entries for a request that has not locked the key. Nothing was changed.
    TooLong,
}

/// Removes consumers and pending entries of a group that will be destroyed, until few are left. If there are many, it
/// takes several visits, with the key locked.
fn empty_group<'c>(call: &mut Call<'c, '_>, (name, args): (&'static str, Args<'c>), [key, group]: [&[u8]; 2]) -> Run {
    let is_locked = call.collects_replies;
    loop {
        let (is_small, _) = collection::change::<Streams, _>(call, key, &mut |old, stream| {
            let Some(old) = old else { return Ok(Edited::Keep(true)) };
            let Some(group) = old.groups().group(group)? else { return Ok(Edited::Keep(true)) };
            let consumers = old.groups().consumer_count(group.number)?;
            let pending = old.groups().pending_count(group.number)?;
            if consumers <= CONSUMERS_AT_ONCE && pending <= PENDING_AT_ONCE {
                return Ok(Edited::Keep(true));
            }
            if is_locked {
                stream.groups().shrink_group(old, group.number, consumers > CONSUMERS_AT_ONCE)?;
                return Ok(Edited::Store(false));
            }
            Ok(Edited::Keep(false))
        })?;
        if is_small {
            return Ok(());
        }
        if !is_locked {
            return Err(slices::run_locked(call, name, args, key));
        }
        call.ops += OPS_PER_SHRINKING;
        call.session.done = call.session.done.max(1);
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
}

/// Removes a consumer with its pending entries. If there are many, it takes several visits, with the key locked.
fn remove_consumer<'c>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    [key, group, consumer]: [&[u8]; 3],
) -> Run {
    let is_locked = call.collects_replies;
    let mut removed_before = call.session.walk.take().map_or(0, |walk| walk.keys);
    loop {
        let changed = collection::change::<Streams, _>(call, key, &mut |old, stream| {
            let old = old.ok_or(ErrorReply::Stream(StreamError::NoStream))?;
            let Some(group) = stream.groups().group(group)? else { return Ok(Edited::Keep(Removal::NoGroup)) };
            let Some(there) = stream.groups().consumer(group.number, consumer)? else {
                return Ok(Edited::Keep(Removal::Step { removed: 0, is_done: true, was_there: false }));
            };
            let owned = old.groups().owned_count(there.number)?;
            if owned > REMOVED_A_STEP as u64 && !is_locked {
                return Ok(Edited::Keep(Removal::TooLong));
            }
            for id in old.groups().owned_from(there.number, StreamId::MIN)?.take(REMOVED_A_STEP) {
                stream.groups().acknowledge(group.number, id?)?;
            }
            let removed = owned.min(REMOVED_A_STEP as u64) as i64;
            let is_done = removed as u64 == owned;
            if is_done {
                stream.groups().remove_consumer(group.number, consumer)?;
            }
            Ok(Edited::Store(Removal::Step { removed, is_done, was_there: true }))
        });
        let stop: Interrupt = match changed {
            Ok((Removal::NoGroup, _)) => {
                no_group(call.out, [group, key], &NO_GROUP_OF_KEY);
                return Ok(());
            }
            Ok((Removal::TooLong, _)) => return Err(slices::run_locked(call, name, args, key)),
            Ok((Removal::Step { removed, is_done, was_there }, _)) => {
                removed_before += removed as u64;
                call.ops += OPS_PER_REMOVED * removed as usize;
                if is_done {
                    let effect = Effect { is_changed: was_there, is_removed: false };
                    collection::notify(call, key, KeyEvent::XGROUP_DELCONSUMER, effect);
                    call.int(removed_before as i64);
                    return Ok(());
                }
                if !call.is_slice_used() {
                    continue;
                }
                SessionWait::Yield.into()
            }
            Err(stop) => stop,
        };
        if matches!(stop, Interrupt::State(_)) && removed_before > 0 {
            call.session.walk = Some(Box::new(Walk { keys: removed_before, ..Walk::default() }));
            call.session.done = call.session.done.max(1);
        }
        return Err(stop);
    }
}

pub(in crate::resp) fn xack<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, group] = words(args);
    let ids = args.split(2).1;
    if call.session.done == 0 {
        let has_group = collection::look::<Streams, _>(call, key, |_, stream| {
            Ok(stream.map_or(Ok(None), |stream| stream.groups().group(group))?.is_some())
        })?;
        if !has_group {
            call.int(0);
            return Ok(());
        }
    }
    slices::check_words(call, ids, |id| whole_id(id).map(drop))?;
    let mut slices = Slices::begin(call, ("xack", args), key, (ids, 1), false)?;
    while let Some((ids, _)) = slices.next(call)? {
        let (removed, effect) = collection::change::<Streams, _>(call, key, &mut |_, stream| {
            let Some(group) = stream.groups().group(group)? else { return Ok(Edited::Keep(0)) };
            let mut removed = 0;
            for id in ids {
                removed += i64::from(stream.groups().acknowledge(group.number, whole_id(id)?)?);
            }
            Ok(if removed > 0 { Edited::Store(removed) } else { Edited::Keep(0) })
        })?;
        call.session.sum += removed;
        if effect.is_changed {
            crate::resp::string::note_store(call);
        }
    }
    call.int(call.session.sum);
    Ok(())
}
