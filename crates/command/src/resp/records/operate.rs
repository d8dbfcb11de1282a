//! Commands that change records. A command consists of a list of operations on one record. It executes either all of
//! them or none.

use super::ops::{Op, Stopped};
use super::{Bad, Options, Presence, Refusal};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::error::ErrorReply;
use crate::resp::records;
use crate::resp::string;
use crate::resp::typed;
use crate::resp::typed::Edited;
use crate::visit::out::LINE_ROOM;
use protocol::resp::{Args, reply};
use record::{Edit, Record};
use segment::Expire;

/// The result of a list of operations.
pub(super) struct Done {
    /// The revision of the record; 0 if the record does not exist.
    pub(super) revision: u32,
    /// The encoded replies of the operations.
    replied: Vec<u8>,
    /// True if the record was changed.
    changed: bool,
}

/// Executes all operations on the record of `key`, or none of them. If the command is refused, writes the error reply
/// and returns `None`.
pub(super) fn do_all<'c>(
    call: &mut Call<'c, '_>,
    key: &'c [u8],
    options: &Options<'c>,
    ops: &[Op<'c>],
) -> Result<Option<Done>, Interrupt> {
    if ops.iter().any(Op::writes) {
        typed::room_to_store(call, 0)?;
    }
    // If the reply does not fit into the output buffer, the record is left unchanged.
    let (room, version, now) = (call.out.room(), call.session.version, call.ctx.now);
    let set = make_set(call, options)?;
    let mut decide = |old: Option<&Record<'_>>, edit: &mut Edit<'_>, _: Expire| {
        let revision = old.map_or(0, Record::revision);
        match options.allow(old, set, now) {
            Ok(()) => {}
            Err(Bad::Refusal(refusal)) => return Ok(Edited::Keep(Err(refusal))),
            Err(Bad::Fault(fault)) => return Err(fault),
            Err(Bad::Filter(_)) => unreachable!("the filter was parsed before"),
        }
        if options.presence == Some(Presence::Replace) {
            edit.clear();
        }
        let (mut replied, mut changed) = (Vec::new(), false);
        for op in ops {
            match op.apply(edit, &mut replied, version) {
                Ok(writes) => changed |= writes,
                Err(Stopped::Refusal(refusal)) => return Ok(Edited::Keep(Err(refusal))),
                Err(Stopped::Damaged) => return Err(ErrorReply::Damaged),
            }
        }
        let keeps = !changed && options.presence != Some(Presence::Replace) && options.expire.is_none();
        if keeps || replied.len() + LINE_ROOM > room {
            return Ok(Edited::Keep(Ok(Done { revision, replied, changed: false })));
        }
        let done = Ok(Done { revision: edit.revision(), replied, changed: true });
        Ok(match options.expire {
            Some(expire) => Edited::StoreUntil(expire, done),
            None => Edited::Store(done),
        })
    };
    match typed::edit_record(call, key, set, KeyEvent::HSET, &mut decide)? {
        Err(refusal) => {
            refusal.write(call.out, &call.ctx.shared.sets, key);
            Ok(None)
        }
        Ok(done) => {
            typed::answer_fits(call, done.replied.len())?;
            if done.changed {
                string::note_store(call);
                if options.expire.is_some() {
                    call.changed(KeyEvent::EXPIRE, key);
                }
            }
            Ok(Some(done))
        }
    }
}

/// Returns the number of the set in the options, or `None` if the options contain no set. Creates the set if it does
/// not exist.
fn make_set(call: &Call<'_, '_>, options: &Options<'_>) -> Result<Option<u16>, ErrorReply> {
    let Some(name) = options.set else { return Ok(None) };
    let made = call.ctx.shared.sets.make(call.session.namespace.0, name).map_err(|_| ErrorReply::TooManySets)?;
    Ok(Some(made.number()))
}

/// Executes the operation `word` on each bin that the request names, and replies with the record's new revision.
fn do_to_bins<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, word: &'static [u8], name: &'static str) -> Run {
    let key = args.next().unwrap_or_default();
    let read = Options::read(&mut args, b"bins", call.moment(), name);
    let (options, ops) = match read.and_then(|options| Ok((options, Op::read_all(Some(word), args)?))) {
        Ok(read) => read,
        Err(bad) => return records::bad(call, key, bad),
    };
    if let Some(done) = do_all(call, key, &options, &ops)? {
        call.int(done.revision.into());
    }
    Ok(())
}

pub(in super::super) fn put<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    do_to_bins(call, args, b"put", "rec.put")
}

pub(in super::super) fn add<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    do_to_bins(call, args, b"add", "rec.add")
}

pub(in super::super) fn append<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    do_to_bins(call, args, b"append", "rec.append")
}

pub(in super::super) fn operate<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = args.next().unwrap_or_default();
    let read = Options::read(&mut args, b"ops", call.moment(), "rec.operate");
    let (options, ops) = match read.and_then(|options| Ok((options, Op::read_all(None, args)?))) {
        Ok(read) => read,
        Err(bad) => return records::bad(call, key, bad),
    };
    if let Some(done) = do_all(call, key, &options, &ops)? {
        reply::array(call.out, 2);
        call.int(done.revision.into());
        reply::array(call.out, ops.len() as u64);
        call.out.push(&done.replied);
    }
    Ok(())
}

pub(in super::super) fn touch<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = args.next().unwrap_or_default();
    let options = match Options::read(&mut args, b"", call.moment(), "rec.touch") {
        Ok(options) => options,
        Err(bad) => return records::bad(call, key, bad),
    };
    if options.presence.is_some() || options.set.is_some() {
        return Err(ErrorReply::Syntax.into());
    }
    let now = call.ctx.now;
    let touched = typed::edit_record(call, key, None, KeyEvent::HSET, &mut |old, edit, present| {
        let there = if old.is_none() { Err(Refusal::NotFound.into()) } else { Ok(()) };
        Ok(match there.and(options.allow(old, None, now)) {
            Err(Bad::Refusal(refusal)) => Edited::Keep(Err(refusal)),
            Err(_) => return Err(ErrorReply::Damaged),
            Ok(()) => Edited::StoreUntil(options.expire.unwrap_or(present), Ok(edit.revision())),
        })
    })?;
    if touched.is_ok() && options.expire.is_some() {
        call.changed(KeyEvent::EXPIRE, key);
    }
    reply_number(call, key, touched.map(i64::from))
}

pub(in super::super) fn del<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = args.next().unwrap_or_default();
    let options = match Options::read(&mut args, b"", call.moment(), "rec.del") {
        Ok(options) => options,
        Err(bad) => return records::bad(call, key, bad),
    };
    if options.presence.is_some() || options.expire.is_some() || options.set.is_some() {
        return Err(ErrorReply::Syntax.into());
    }
    let now = call.ctx.now;
    let removed = typed::edit_record(call, key, None, KeyEvent::DEL, &mut |old, _, _| {
        Ok(match (old, options.allow(old, None, now)) {
            (_, Err(Bad::Refusal(refusal))) => Edited::Keep(Err(refusal)),
            (_, Err(_)) => return Err(ErrorReply::Damaged),
            (Some(_), Ok(())) => Edited::Remove(Ok(1)),
            (None, Ok(())) => Edited::Keep(Ok(0)),
        })
    })?;
    reply_number(call, key, removed)
}

fn reply_number(call: &mut Call<'_, '_>, key: &[u8], number: Result<i64, Refusal<'_>>) -> Run {
    match number {
        Ok(number) => {
            call.int(number);
            Ok(())
        }
        Err(refusal) => records::bad(call, key, Bad::Refusal(refusal)),
    }
}
