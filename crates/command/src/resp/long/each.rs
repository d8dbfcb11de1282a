//! Keys without end, one after another: what is done to each, and what is answered in the end.

use super::super::error::Fault;
use super::super::table::Entry;
use super::super::{Answers, Call, Run, Step, Stop};
use super::{Each, Rule, Stage};
use crate::push::notify::Event;
use crate::visit::progress::{OPS_A_BATCH, State};
use protocol::resp::{Argument, Limits, argument, reply};
use segment::{Delete, DeleteOutcome, Expire, PutMode};

impl<'c> Call<'c, '_> {
    /// Takes the arguments that are there, one after another.
    pub(super) fn each_go_on(&mut self, entry: &'static Entry, mut left: u32, each: Each) -> Step {
        let mark = self.out.mark();
        let hush = self.session.answers != Answers::All;
        let end = loop {
            if left == 0 {
                break Ok(());
            }
            if let Err(state) = self.may_go_on() {
                break Err(state);
            }
            let limits = self.waiting_limits();
            let (bytes, consumed) = match argument(self.rest(), &limits) {
                Argument::Whole { bytes, consumed } => (bytes, consumed),
                Argument::Incomplete { want } => break Err(State::NeedInput { want }),
                Argument::Long { len, consumed } if each != Each::Set => {
                    // There is no such key.
                    if each == Each::Get && !hush {
                        self.null();
                    }
                    self.at += consumed;
                    let stage = Stage::Skipped { bytes: u64::from(len) + 2, then: Some(each) };
                    self.keep(entry, left - 1, stage);
                    return Ok(());
                }
                Argument::Long { len, consumed } => {
                    return self.refuse(entry, Fault::TooLong, consumed, u64::from(len) + 2, left - 1);
                }
                Argument::Fatal(error) => return self.fatal(error),
            };
            if each == Each::Set {
                match self.pair(entry, bytes, consumed, left) {
                    Ok(true) => left -= 2,
                    Ok(false) => return Ok(()),
                    Err(state) => break Err(state),
                }
            } else {
                match self.one(each, bytes) {
                    Ok(()) => {
                        self.at += consumed;
                        left -= 1;
                    }
                    Err(Stop::State(state)) => break Err(state),
                    Err(Stop::Fault(fault)) => return self.refuse(entry, fault, consumed, 0, left - 1),
                    Err(Stop::Quit | Stop::UnderWay | Stop::Queued) => unreachable!("no key ends a connection"),
                }
            }
            self.ops += 1;
        };
        if hush {
            self.out.truncate(mark);
        }
        if let Err(state) = end {
            self.keep(entry, left, Stage::Each(each));
            return Err(state);
        }
        let (mark, answers) = (self.out.mark(), self.session.answers);
        match each {
            Each::Get => {}
            Each::Set => self.out.push(reply::OK),
            Each::Delete | Each::Exists | Each::Touch => self.int(self.session.sum),
        }
        self.long_answered(entry, mark, answers);
        Ok(())
    }

    /// There is room for the next part of an answer, and this visit's work is not done.
    fn may_go_on(&self) -> Step {
        self.room(0)?;
        if self.ops >= OPS_A_BATCH { Err(State::Yield) } else { Ok(()) }
    }

    /// Does what is to be done to one key.
    fn one(&mut self, each: Each, bytes: &[u8]) -> Run {
        let key = self.key(bytes);
        if self.guard.locks().is_blocked(&key) {
            return Err(State::Parked.into());
        }
        let counts = match each {
            Each::Get => {
                let hit = self.value_of(bytes)?;
                self.note_read(hit);
                return Ok(());
            }
            Each::Delete => {
                let deleted = self.guard.items_mut().delete(&key, &Delete::default())? == DeleteOutcome::Deleted;
                if deleted {
                    self.changed(Event::DEL, bytes);
                }
                deleted
            }
            Each::Exists | Each::Touch => {
                let found =
                    if each == Each::Touch { self.guard.items().get(&key) } else { self.guard.items().peek(&key) };
                let is_there = found.is_some();
                if !is_there && self.guard.tier().is_false_miss(&key) {
                    return Err(State::Parked.into());
                }
                is_there
            }
            Each::Set => unreachable!("a key of `MSET` comes with its value"),
        };
        self.session.sum += i64::from(counts);
        Ok(())
    }

    /// Stores the value behind `key`, which took `consumed` bytes. False if the request goes on elsewhere: the value
    /// is arriving, or was refused.
    fn pair(&mut self, entry: &'static Entry, key: &[u8], consumed: usize, left: u32) -> Result<bool, State> {
        let limits = self.waiting_limits();
        let limits = Limits { request_bytes_max: limits.request_bytes_max - consumed, ..limits };
        match argument(&self.rest()[consumed..], &limits) {
            Argument::Whole { bytes, consumed: more } => {
                match self.store_plain(key, bytes, PutMode::Set, Expire::Never) {
                    Ok(_) => {
                        self.at += consumed + more;
                        Ok(true)
                    }
                    Err(Stop::Fault(fault)) => self.refuse(entry, fault, consumed + more, 0, left - 2).map(|()| false),
                    Err(Stop::State(state)) => Err(state),
                    Err(Stop::Quit | Stop::UnderWay | Stop::Queued) => unreachable!("no value ends a connection"),
                }
            }
            Argument::Incomplete { want } => {
                Err(State::NeedInput { want: if want == 0 { 0 } else { consumed + want } })
            }
            Argument::Long { len, consumed: more } => {
                self.pieces_begin(entry, Rule::Pair, key, (len, left - 2), consumed + more).map(|()| false)
            }
            Argument::Fatal(error) => self.fatal(error).map(|()| false),
        }
    }
}
