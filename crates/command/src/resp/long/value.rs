//! A value that goes into the store as it arrives: its beginning, its parts, and what the words behind it do with it.

use super::super::acl::Asked;
use super::super::error::Fault;
use super::super::string::SetOptions;
use super::super::table::Entry;
use super::super::typed::string;
use super::super::{Call, Run, Step, Stop};
use super::{Each, Long, Rule, Stage, TAIL_MAX};
use crate::lookup::large::{Advance, LargeSet};
use crate::push::notify::Event;
use crate::visit::progress::State;
use arrayvec::ArrayVec;
use protocol::resp::{Argument, Parser, ProtocolError, argument, reply};
use segment::{Expire, OpError, Put, PutMode, PutOutcome};

impl<'c> Call<'c, '_> {
    /// Returns what is to be seen of a value before it is there.
    pub(super) fn may_begin(
        &mut self,
        entry: &'static Entry,
        key: &[u8],
        words: usize,
        rule: Rule,
        value_len: u32,
    ) -> Run {
        self.admit_command(entry, words, if rule == Rule::Pair { Asked::Some } else { Asked::One(key) })?;
        if words > TAIL_MAX {
            return Err(Fault::Syntax.into());
        }
        if matches!(rule, Rule::Append | Rule::Range(_)) {
            string(self.guard.items().peek(&self.key(key)).as_ref())?;
        }
        let offset = if let Rule::Range(offset) = rule { offset } else { 0 };
        if offset.saturating_add(value_len.into()) > self.ctx.shared.config.item_bytes_max {
            return Err(Fault::TooLong.into());
        }
        Ok(self.ctx.check_room(value_len.into())?)
    }

    /// Has the rest of a value that is stored whole received into its place; false if it is to be received into a
    /// buffer.
    pub(super) fn whole_begin(
        &mut self,
        entry: &'static Entry,
        rule: Rule,
        key: &[u8],
        bytes: usize,
        consumed: usize,
    ) -> bool {
        let Some(mut large) = LargeSet::whole(bytes, key, self.ctx) else { return false };
        let rest = &self.buf[self.at + consumed..];
        let Some(taken) = large.begin_arrival(self.guard, self.ctx, rest, &rule.put()) else {
            large.end(self.guard, self.ctx);
            return false;
        };
        self.at += consumed + taken;
        self.session.parser = Parser::new();
        self.session.long = Some(Long { entry, left: 0, stage: Stage::Value { large, rule } });
        true
    }

    /// Begins a value that is written in pieces: of so many bytes, with so many arguments behind it.
    pub(super) fn pieces_begin(
        &mut self,
        entry: &'static Entry,
        rule: Rule,
        key: &[u8],
        (value_len, left): (u32, u32),
        consumed: usize,
    ) -> Step {
        // The words behind it may say when it ends; pieces go with their head, however long they could have stayed.
        let expire = if let Rule::Until(expire) = rule { expire } else { Expire::Never };
        let name = self.guard.key(self.session.namespace, key);
        let begun = self.guard.large().begin(&name, value_len.into(), expire);
        let fault = match begun.map(|writer| LargeSet::pieces(writer, key, self.ctx)) {
            Ok(Ok(large)) => {
                self.at += consumed;
                self.session.parser = Parser::new();
                self.session.long = Some(Long { entry, left, stage: Stage::Value { large, rule } });
                return Ok(());
            }
            Ok(Err(writer)) => {
                self.guard.large().abort(writer);
                Fault::LongKeys
            }
            Err(OpError::Parked) => return Err(State::Parked),
            Err(OpError::OutOfMemory) => Fault::OutOfMemory,
            Err(OpError::TooLarge) => Fault::TooLong,
        };
        self.refuse(entry, fault, consumed, u64::from(value_len) + 2, left)
    }

    pub(super) fn value_go_on(&mut self, entry: &'static Entry, left: u32, mut large: LargeSet, rule: Rule) -> Step {
        match large.go_on(self.guard, self.ctx, self.rest(), &rule.put()) {
            Advance::Wait { consumed, want } => {
                self.at += consumed;
                self.keep(entry, left, Stage::Value { large, rule });
                Err(State::NeedInput { want })
            }
            Advance::Part { consumed } => {
                self.at += consumed;
                self.keep(entry, left, Stage::Value { large, rule });
                Ok(())
            }
            Advance::Unended { .. } => {
                large.end(self.guard, self.ctx);
                self.fatal(ProtocolError::ArgumentEnd)
            }
            Advance::Failed(OpError::Parked) => {
                self.keep(entry, left, Stage::Value { large, rule });
                Err(State::Parked)
            }
            Advance::Failed(error) => {
                let unread = large.unread();
                large.end(self.guard, self.ctx);
                let fault = if error == OpError::TooLarge { Fault::TooLong } else { Fault::OutOfMemory };
                self.refuse(entry, fault, 0, unread, left)
            }
            Advance::Complete { held } if rule == Rule::Pair => self.pair_complete(entry, left, large, held),
            Advance::Complete { held } => self.value_complete(entry, left, (large, rule), held),
        }
    }

    /// A value is all there, `held` bytes of it in the input: reads the words behind it, and stores it as they say.
    fn value_complete(&mut self, entry: &'static Entry, left: u32, value: (LargeSet, Rule), held: usize) -> Step {
        let (mut large, rule) = value;
        let (limits, mut at) = (self.waiting_limits(), held);
        let mut tail = ArrayVec::<&[u8], TAIL_MAX>::new();
        while tail.len() < left as usize {
            match argument(&self.rest()[at..], &limits) {
                Argument::Whole { bytes, consumed } => {
                    tail.push(bytes);
                    at += consumed;
                }
                Argument::Incomplete { want } => {
                    // Where nothing is known of the next one, it takes more than there is.
                    let want = if want == 0 { 0 } else { at + want };
                    if want > self.ctx.request_bytes_max {
                        large.end(self.guard, self.ctx);
                        return self.refuse(entry, Fault::RequestTooLong, at, 0, left - tail.len() as u32);
                    }
                    self.keep(entry, left, Stage::Value { large, rule });
                    return Err(State::NeedInput { want });
                }
                Argument::Long { len, consumed } => {
                    large.end(self.guard, self.ctx);
                    let behind = left - tail.len() as u32 - 1;
                    return self.refuse(entry, Fault::RequestTooLong, at + consumed, u64::from(len) + 2, behind);
                }
                Argument::Fatal(error) => {
                    large.end(self.guard, self.ctx);
                    return self.fatal(error);
                }
            }
        }
        let (mark, answers) = (self.out.mark(), self.session.answers);
        match self.store_large(&mut large, rule, &tail) {
            Err(Stop::State(state)) => {
                self.out.truncate(mark);
                self.keep(entry, left, Stage::Value { large, rule });
                return Err(state);
            }
            Err(Stop::Fault(fault)) => {
                self.out.truncate(mark);
                self.fault(fault);
            }
            Ok(()) | Err(Stop::Quit | Stop::UnderWay | Stop::Queued) => {}
        }
        large.end(self.guard, self.ctx);
        self.at += at;
        self.long_answered(entry, mark, answers);
        Ok(())
    }

    /// Stores a value as its command says, and answers.
    fn store_large(&mut self, large: &mut LargeSet, rule: Rule, tail: &[&'c [u8]]) -> Run {
        match rule {
            Rule::Set => {
                let options = SetOptions::read(tail.iter().copied())?;
                let expire = options.expire(self.ctx.moment())?;
                match options.put_mode() {
                    Some(mode) => match self.put_large(large, &Put { mode, expire, ..Put::set(b"") })? {
                        PutOutcome::Stored { .. } => self.out.push(reply::OK),
                        _ => self.null(),
                    },
                    None => return self.set_large_by(large, &options, expire),
                }
            }
            Rule::Swap => return self.set_large_by(large, &SetOptions::swap(), Expire::Never),
            Rule::Until(_) | Rule::Pair => {
                self.put_large(large, &rule.put())?;
                self.out.push(reply::OK);
            }
            Rule::Absent => {
                let outcome = self.put_large(large, &rule.put())?;
                self.int(matches!(outcome, PutOutcome::Stored { .. }).into());
            }
            Rule::Append => {
                let PutOutcome::Stored { bytes, .. } = self.put_large(large, &rule.put())? else {
                    return Err(Fault::WrongType.into());
                };
                self.int(bytes as i64);
            }
            Rule::Range(offset) => {
                let len = large
                    .store_by(self.guard, |guard, key, writer| guard.items_mut().splice_large(key, offset, writer))?;
                let len = len.ok_or(Fault::WrongType)?;
                self.note_store();
                self.changed(Event::SETRANGE, large.key());
                self.int(len as i64);
            }
        }
        Ok(())
    }

    fn put_large(&mut self, large: &mut LargeSet, put: &Put<'_>) -> Result<PutOutcome, Stop> {
        let (rest, bytes) = (self.rest(), large.bytes());
        let outcome = large.store(self.guard, self.ctx, rest, put)?;
        if matches!(outcome, PutOutcome::Stored { .. }) {
            self.ctx.note_length(large.key(), bytes);
            self.note_store();
            match put.mode {
                PutMode::Append => self.changed(Event::APPEND, large.key()),
                _ => self.tell_set(large.key(), put.expire),
            }
        }
        Ok(outcome)
    }

    /// One of `MSET`'s values is all there.
    fn pair_complete(&mut self, entry: &'static Entry, left: u32, mut large: LargeSet, held: usize) -> Step {
        match self.put_large(&mut large, &Rule::Pair.put()) {
            Err(Stop::State(state)) => {
                self.keep(entry, left, Stage::Value { large, rule: Rule::Pair });
                return Err(state);
            }
            Err(Stop::Fault(fault)) => {
                large.end(self.guard, self.ctx);
                return self.refuse(entry, fault, held, 0, left);
            }
            Ok(_) | Err(Stop::Quit | Stop::UnderWay | Stop::Queued) => {}
        }
        large.end(self.guard, self.ctx);
        self.at += held;
        self.ops += 1;
        self.keep(entry, left, Stage::Each(Each::Set));
        Ok(())
    }
}
