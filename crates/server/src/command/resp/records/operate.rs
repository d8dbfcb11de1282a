//! What changes records: each command is a list of operations that are done together or not at all.

use super::ops::{Op, Stopped};
use super::{Bad, Options, Presence, Refusal};
use crate::command::resp::error::Fault;
use crate::command::resp::typed::Edited;
use crate::command::resp::{Call, LINE_ROOM, Run};
use crate::notify::Event;
use protocol::resp::{Args, reply};
use record::{Edit, Record};
use segment::Expire;

/// What a list of operations came to.
struct Done {
    /// The revision of the record, 0 if there is none.
    revision: u32,
    /// What is told of each operation, as it is told.
    told: Vec<u8>,
    /// The record is another one.
    changed: bool,
}

impl<'c> Call<'c, '_> {
    /// Does the operations on the record under `key`, all or none.
    fn do_all(&mut self, key: &'c [u8], options: Options, ops: &[Op<'c>]) -> Result<Option<Done>, super::super::Stop> {
        if ops.iter().any(Op::writes) {
            self.room_to_store(0)?;
        }
        // Nothing is changed before there is room to tell it.
        let (room, version) = (self.out.room(), self.session.version);
        let mut decide = |old: Option<&Record<'_>>, edit: &mut Edit<'_>, _: Expire| {
            let revision = old.map_or(0, Record::revision);
            if let Err(refusal) = options.allow(revision) {
                return Ok(Edited::Keep(Err(refusal)));
            }
            if options.presence == Some(Presence::Replace) {
                edit.clear();
            }
            let (mut told, mut changed) = (Vec::new(), false);
            for op in ops {
                match op.apply(edit, &mut told, version) {
                    Ok(writes) => changed |= writes,
                    Err(Stopped::Refusal(refusal)) => return Ok(Edited::Keep(Err(refusal))),
                    Err(Stopped::Damaged) => return Err(Fault::Damaged),
                }
            }
            let keeps = !changed && options.presence != Some(Presence::Replace) && options.expire.is_none();
            if keeps || told.len() + LINE_ROOM > room {
                return Ok(Edited::Keep(Ok(Done { revision, told, changed: false })));
            }
            let done = Ok(Done { revision: edit.revision(), told, changed: true });
            Ok(match options.expire {
                Some(expire) => Edited::StoreUntil(expire, done),
                None => Edited::Store(done),
            })
        };
        match self.edit_record(key, Event::HSET, &mut decide)? {
            Err(refusal) => {
                refusal.say(self.out, key);
                Ok(None)
            }
            Ok(done) => {
                self.answer_room(done.told.len())?;
                if done.changed {
                    self.note_store();
                    if options.expire.is_some() {
                        self.changed(Event::EXPIRE, key);
                    }
                }
                Ok(Some(done))
            }
        }
    }

    /// A command that does the same to every bin it names, and answers with the record's revision.
    fn do_to_bins(&mut self, mut args: Args<'c>, word: &'static [u8], name: &'static str) -> Run {
        let key = args.next().unwrap_or_default();
        let options = Options::read(&mut args, b"bins", self.ctx.now, name)?;
        let ops = match Op::read_all(Some(word), args) {
            Ok(ops) => ops,
            Err(bad) => return self.bad(key, bad),
        };
        if let Some(done) = self.do_all(key, options, &ops)? {
            self.int(done.revision.into());
        }
        Ok(())
    }
}

pub(in super::super) fn put<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.do_to_bins(args, b"put", "rec.put")
}

pub(in super::super) fn add<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.do_to_bins(args, b"add", "rec.add")
}

pub(in super::super) fn append<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.do_to_bins(args, b"append", "rec.append")
}

pub(in super::super) fn operate<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = args.next().unwrap_or_default();
    let options = Options::read(&mut args, b"ops", call.ctx.now, "rec.operate")?;
    let ops = match Op::read_all(None, args) {
        Ok(ops) => ops,
        Err(bad) => return call.bad(key, bad),
    };
    if let Some(done) = call.do_all(key, options, &ops)? {
        reply::array(call.out, 2);
        call.int(done.revision.into());
        reply::array(call.out, ops.len() as u64);
        call.out.push(&done.told);
    }
    Ok(())
}

pub(in super::super) fn touch<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = args.next().unwrap_or_default();
    let options = Options::read(&mut args, b"", call.ctx.now, "rec.touch")?;
    if options.presence.is_some() {
        return Err(Fault::Syntax.into());
    }
    let touched = call.edit_record(key, Event::HSET, &mut |old, edit, present| {
        let revision = old.map_or(0, Record::revision);
        let there = if revision == 0 { Err(Refusal::NotFound) } else { Ok(()) };
        Ok(match there.and(options.allow(revision)) {
            Err(refusal) => Edited::Keep(Err(refusal)),
            Ok(()) => Edited::StoreUntil(options.expire.unwrap_or(present), Ok(edit.revision())),
        })
    })?;
    if touched.is_ok() && options.expire.is_some() {
        call.changed(Event::EXPIRE, key);
    }
    call.tell_number(key, touched.map(i64::from))
}

pub(in super::super) fn del<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = args.next().unwrap_or_default();
    let options = Options::read(&mut args, b"", call.ctx.now, "rec.del")?;
    if options.presence.is_some() || options.expire.is_some() {
        return Err(Fault::Syntax.into());
    }
    let removed = call.edit_record(key, Event::DEL, &mut |old, _, _| {
        Ok(match (old, options.allow(old.map_or(0, Record::revision))) {
            (_, Err(refusal)) => Edited::Keep(Err(refusal)),
            (Some(_), Ok(())) => Edited::Remove(Ok(1)),
            (None, Ok(())) => Edited::Keep(Ok(0)),
        })
    })?;
    call.tell_number(key, removed)
}

impl Call<'_, '_> {
    fn tell_number(&mut self, key: &[u8], number: Result<i64, Refusal<'_>>) -> Run {
        match number {
            Ok(number) => {
                self.int(number);
                Ok(())
            }
            Err(refusal) => self.bad(key, Bad::Refusal(refusal)),
        }
    }
}
