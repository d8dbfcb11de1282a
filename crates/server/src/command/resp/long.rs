//! Requests that do not lie whole in the receive buffer: a value that goes into the store as it arrives, and keys
//! without end, one after another.
//!
//! ```text
//!   head of SET k <100 MiB> EX 9 ──> Value: into the store ──> the words behind it ──> stored as they say
//!   first 256 KiB of DEL, MGET, MSET ... ──> Each: an argument, its part of the answer, the next argument
//!   anything else, or a fault ──> the error ──> Refused: the rest is read and thrown away
//! ```
//!
//! - A request that is begun here is consumed as it comes, so it holds no buffer while its sender is slow, and it is
//!   not one operation: other requests come between its keys.
//! - A value that comes here is not seen before it is whole, its words included. What its sender leaves half done is
//!   nothing.

use super::acl::Asked;
use super::error::Fault;
use super::expire::{Deadline, Unit};
use super::string::SetOptions;
use super::table::{self, Entry};
use super::typed::string;
use super::{Answers, Call, Run, SessionState, Step, Stop};
use crate::command::large::{ARRIVING_BYTES_MIN, Advance, LargeSet};
use crate::context::{OPS_A_BATCH, State, WorkerContext};
use crate::notify::Event;
use arrayvec::ArrayVec;
use protocol::resp::{Args, Argument, Limits, Parser, ProtocolError, argument, reply};
use segment::{Delete, DeleteOutcome, Expire, OpError, Put, PutMode, PutOutcome, Turn};

/// Words behind a value that arrives: more than all options of `SET` together.
const TAIL_MAX: usize = 16;

/// A request of which some is consumed.
pub(super) struct Long {
    entry: &'static Entry,
    /// Arguments that are still to be read, but for the value that is arriving.
    left: u32,
    stage: Stage,
}

#[expect(clippy::large_enum_variant, reason = "it lies in a connection's slot; a box would be allocated")]
enum Stage {
    /// A value is arriving.
    Value { large: LargeSet, rule: Rule },
    /// Keys, or keys and values, are taken one after another.
    Each(Each),
    /// So many bytes of an argument are read away, and then the arguments that are left.
    Skipped { bytes: u64, then: Option<Each> },
}

/// What becomes of a value that is all there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// As the words behind it say: `SET`.
    Set,
    /// `SETEX` and `PSETEX`.
    Until(Expire),
    /// `SETNX`.
    Absent,
    /// `GETSET`.
    Swap,
    Append,
    /// `SETRANGE`.
    Range(u64),
    /// One of `MSET`'s.
    Pair,
}

/// What is done to each argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Each {
    Get,
    Delete,
    Exists,
    Touch,
    /// A key and a value at a time.
    Set,
}

impl Each {
    fn of(entry: &Entry) -> Option<Self> {
        Some(match entry.name {
            "mget" => Self::Get,
            "del" | "unlink" => Self::Delete,
            "exists" => Self::Exists,
            "touch" => Self::Touch,
            "mset" => Self::Set,
            _ => return None,
        })
    }
}

impl Rule {
    /// What a command does with a value that comes behind `args`, its name first; `None` if that is no value that it
    /// stores.
    fn of(entry: &Entry, mut args: Args<'_>, call: &Call<'_, '_>) -> Result<Option<Self>, Fault> {
        let words = args.len();
        // Behind the name and the key.
        let word = args.nth(2).unwrap_or_default();
        Ok(Some(match (entry.name, words) {
            ("set", 2) => Self::Set,
            ("setnx", 2) => Self::Absent,
            ("getset", 2) => Self::Swap,
            ("append", 2) => Self::Append,
            ("setex", 3) => Self::Until(Deadline::positive(word, Unit::Seconds, call.ctx.now, "setex")?.expire()),
            ("psetex", 3) => Self::Until(Deadline::positive(word, Unit::Millis, call.ctx.now, "psetex")?.expire()),
            ("setrange", 3) => {
                let offset = super::number::integer(word)?;
                Self::Range(u64::try_from(offset).map_err(|_| Fault::Offset)?)
            }
            _ => return Ok(None),
        }))
    }

    /// What is stored by, where that does not depend on what is there.
    fn put(self) -> Put<'static> {
        match self {
            Self::Until(expire) => Put { expire, ..Put::set(b"") },
            Self::Absent => Put { mode: PutMode::Add, ..Put::set(b"") },
            Self::Append => Put { mode: PutMode::Append, vivify: Some(Expire::Never), ..Put::set(b"") },
            Self::Set | Self::Swap | Self::Range(_) | Self::Pair => Put::set(b""),
        }
    }

    /// Whatever is there, it is stored.
    fn replaces(self) -> bool {
        matches!(self, Self::Set | Self::Until(_) | Self::Pair)
    }
}

impl SessionState {
    /// Gives back what an arriving value holds in the store.
    pub(super) fn end_long(&mut self, turn: &mut Turn<'_>, ctx: &mut WorkerContext) {
        if let Some(Long { stage: Stage::Value { large, .. }, .. }) = self.long.take() {
            large.end(turn, ctx);
        }
    }

    /// The value that is arriving.
    #[inline]
    pub(in crate::command) fn large(&self) -> Option<&LargeSet> {
        match &self.long {
            Some(Long { stage: Stage::Value { large, .. }, .. }) => Some(large),
            _ => None,
        }
    }

    /// The same, to receive into.
    pub(in crate::command) fn large_mut(&mut self) -> Option<&mut LargeSet> {
        match &mut self.long {
            Some(Long { stage: Stage::Value { large, .. }, .. }) => Some(large),
            _ => None,
        }
    }

    /// Some of a request is consumed, or it is under way.
    pub(crate) fn is_receiving(&self) -> bool {
        self.long.is_some() || self.is_under_way()
    }
}

impl<'c> Call<'c, '_> {
    /// A request has a long argument behind `args`, of `value_len` bytes, `left` more behind it. False if it is to be
    /// waited for.
    #[cold]
    pub(super) fn head(&mut self, args: Args<'c>, value_len: u32, left: u32, consumed: usize) -> Result<bool, State> {
        if self.session.is_queueing() {
            return Ok(false);
        }
        let rest = &self.rest()[consumed..];
        let bytes = value_len as usize;
        let Some(entry) = args.clone().next().and_then(table::find) else { return Ok(false) };
        let rule = match Rule::of(entry, args, self) {
            Ok(Some(rule)) => rule,
            Ok(None) => return Ok(false),
            Err(_) if rest.len() >= bytes + 2 => return Ok(false),
            Err(fault) => return self.refuse(entry, fault, consumed, bytes as u64 + 2, left).map(|()| true),
        };
        let whole = u64::from(value_len) <= self.turn.large_threshold();
        // What a condition comes to is not known before all is there.
        if whole && (rest.len() >= bytes + 2 || left > 0 || !rule.replaces()) {
            return Ok(false);
        }
        let key = args.clone().nth(1).unwrap_or_default();
        let words = args.len() + 1 + left as usize;
        match self.may_begin(entry, key, words, rule, value_len) {
            Ok(()) if whole => Ok(self.whole_begin(entry, rule, key, bytes, consumed)),
            Ok(()) => self.pieces_begin(entry, rule, key, (value_len, left), consumed).map(|()| true),
            Err(Stop::Fault(fault)) => self.refuse(entry, fault, consumed, bytes as u64 + 2, left).map(|()| true),
            Err(Stop::State(state)) => Err(state),
            Err(Stop::Quit | Stop::UnderWay) => Ok(false),
        }
    }

    /// What is to be seen of a value before it is there.
    fn may_begin(&mut self, entry: &'static Entry, key: &[u8], words: usize, rule: Rule, value_len: u32) -> Run {
        self.admit_command(entry, words, if rule == Rule::Pair { Asked::Some } else { Asked::One(key) })?;
        if words > TAIL_MAX {
            return Err(Fault::Syntax.into());
        }
        if matches!(rule, Rule::Append | Rule::Range(_)) {
            string(self.turn.peek(&self.key(key)).as_ref())?;
        }
        let offset = if let Rule::Range(offset) = rule { offset } else { 0 };
        if offset.saturating_add(value_len.into()) > self.ctx.shared.config.item_bytes_max {
            return Err(Fault::TooLong.into());
        }
        if self.ctx.is_full(value_len.into()) {
            return Err(Fault::OutOfMemory.into());
        }
        Ok(())
    }

    /// Has the rest of a value that is stored whole received into its place; false if it is to be received into a
    /// buffer.
    fn whole_begin(&mut self, entry: &'static Entry, rule: Rule, key: &[u8], bytes: usize, consumed: usize) -> bool {
        let Some(mut large) = LargeSet::whole(bytes, key, self.ctx) else { return false };
        let rest = &self.buf[self.at + consumed..];
        let Some(taken) = large.begin_arrival(self.turn, self.ctx, rest, &rule.put()) else {
            large.end(self.turn, self.ctx);
            return false;
        };
        self.at += consumed + taken;
        self.session.parser = Parser::new();
        self.session.long = Some(Long { entry, left: 0, stage: Stage::Value { large, rule } });
        true
    }

    /// Begins a value that is written in pieces: of so many bytes, with so many arguments behind it.
    fn pieces_begin(
        &mut self,
        entry: &'static Entry,
        rule: Rule,
        key: &[u8],
        (value_len, left): (u32, u32),
        consumed: usize,
    ) -> Step {
        // The words behind it may say when it ends; pieces go with their head, however long they could have stayed.
        let expire = if let Rule::Until(expire) = rule { expire } else { Expire::Never };
        let begun = self.turn.large_begin(&self.turn.key(self.session.namespace, key), value_len.into(), expire);
        let fault = match begun.map(|writer| LargeSet::pieces(writer, key, self.ctx)) {
            Ok(Ok(large)) => {
                self.at += consumed;
                self.session.parser = Parser::new();
                self.session.long = Some(Long { entry, left, stage: Stage::Value { large, rule } });
                return Ok(());
            }
            Ok(Err(writer)) => {
                self.turn.large_abort(writer);
                Fault::LongKeys
            }
            Err(OpError::Parked) => return Err(State::Parked),
            Err(OpError::OutOfMemory) => Fault::OutOfMemory,
            Err(OpError::TooLarge) => Fault::TooLong,
        };
        self.refuse(entry, fault, consumed, u64::from(value_len) + 2, left)
    }

    /// A request is longer than the buffer: `args` are there, `left` more come behind `consumed`.
    #[cold]
    pub(super) fn too_long(&mut self, mut args: Args<'c>, left: u32, consumed: usize) -> Step {
        let entry = args.next().and_then(table::find);
        let words = 1 + args.len() + left as usize;
        let Some(entry) = entry else { return self.fatal(ProtocolError::RequestTooLong) };
        let fault = match (Each::of(entry), self.admit_command(entry, words, Asked::Some)) {
            (_, Err(Stop::Fault(fault))) => fault,
            _ if self.session.is_queueing() => {
                self.session.spoil();
                Fault::QueueTooLong
            }
            (_, Err(Stop::State(state))) => return Err(state),
            (Some(Each::Set), _) if words.is_multiple_of(2) => Fault::Arity(entry.name),
            (Some(each), _) => {
                if each == Each::Get && self.session.answers == Answers::All {
                    reply::array(self.out, words as u64 - 1);
                }
                self.at += consumed - args.wire_bytes();
                self.session.long = Some(Long { entry, left: words as u32 - 1, stage: Stage::Each(each) });
                return Ok(());
            }
            (None, _) => Fault::RequestTooLong,
        };
        self.refuse(entry, fault, consumed, 0, left)
    }

    /// Answers a request of which `bytes` and `left` arguments behind those are still to come.
    fn refuse(&mut self, entry: &'static Entry, fault: Fault, consumed: usize, bytes: u64, left: u32) -> Step {
        self.at += consumed;
        self.session.parser = Parser::new();
        self.session.long = Some(Long { entry, left, stage: Stage::Skipped { bytes, then: None } });
        let (mark, answers) = (self.out.mark(), self.session.answers);
        self.fault(fault);
        self.long_answered(entry, mark, answers);
        Ok(())
    }

    /// The answer to a long request is in the output.
    fn long_answered(&mut self, entry: &Entry, mark: usize, answers: Answers) {
        self.session.done = 0;
        self.session.sum = 0;
        self.hush(mark, answers);
        if self.ctx.watch.watched.tells_commands() {
            // What it was about has been read away.
            self.tell_monitors(entry.name.as_bytes(), std::iter::empty());
        }
        self.done(entry.kind, b"");
    }

    /// Goes on with a request of which some is consumed.
    #[cold]
    pub(super) fn long_go_on(&mut self) -> Step {
        let Some(Long { entry, left, stage }) = self.session.long.take() else { return Ok(()) };
        match stage {
            Stage::Value { large, rule } => self.value_go_on(entry, left, large, rule),
            Stage::Each(each) => self.each_go_on(entry, left, each),
            Stage::Skipped { bytes, then } => self.skip(entry, left, bytes, then),
        }
    }

    /// Keeps what is left of a request for the next call.
    fn keep(&mut self, entry: &'static Entry, left: u32, stage: Stage) {
        self.session.long = Some(Long { entry, left, stage });
    }

    fn value_go_on(&mut self, entry: &'static Entry, left: u32, mut large: LargeSet, rule: Rule) -> Step {
        match large.go_on(self.turn, self.ctx, self.rest(), &rule.put()) {
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
                large.end(self.turn, self.ctx);
                self.fatal(ProtocolError::ArgumentEnd)
            }
            Advance::Failed(OpError::Parked) => {
                self.keep(entry, left, Stage::Value { large, rule });
                Err(State::Parked)
            }
            Advance::Failed(error) => {
                let unread = large.unread();
                large.end(self.turn, self.ctx);
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
                        large.end(self.turn, self.ctx);
                        return self.refuse(entry, Fault::RequestTooLong, at, 0, left - tail.len() as u32);
                    }
                    self.keep(entry, left, Stage::Value { large, rule });
                    return Err(State::NeedInput { want });
                }
                Argument::Long { len, consumed } => {
                    large.end(self.turn, self.ctx);
                    let behind = left - tail.len() as u32 - 1;
                    return self.refuse(entry, Fault::RequestTooLong, at + consumed, u64::from(len) + 2, behind);
                }
                Argument::Fatal(error) => {
                    large.end(self.turn, self.ctx);
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
            Ok(()) | Err(Stop::Quit | Stop::UnderWay) => {}
        }
        large.end(self.turn, self.ctx);
        self.at += at;
        self.long_answered(entry, mark, answers);
        Ok(())
    }

    /// Stores a value as its command says, and answers.
    fn store_large(&mut self, large: &mut LargeSet, rule: Rule, tail: &[&'c [u8]]) -> Run {
        match rule {
            Rule::Set => {
                let options = SetOptions::read(tail.iter().copied())?;
                let expire = options.expire(self.ctx.now)?;
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
                if self.put_large(large, &rule.put())? == PutOutcome::WrongType {
                    return Err(Fault::WrongType.into());
                }
                let key = self.turn.key(self.session.namespace, large.key());
                let len = self.turn.peek(&key).map_or(0, |item| item.value_len());
                self.int(len as i64);
            }
            Rule::Range(offset) => {
                let len = large.store_by(self.turn, |turn, key, writer| turn.splice_large(key, offset, writer))?;
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
        let outcome = large.store(self.turn, self.ctx, rest, put)?;
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
                large.end(self.turn, self.ctx);
                return self.refuse(entry, fault, held, 0, left);
            }
            Ok(_) | Err(Stop::Quit | Stop::UnderWay) => {}
        }
        large.end(self.turn, self.ctx);
        self.at += held;
        self.ops += 1;
        self.keep(entry, left, Stage::Each(Each::Set));
        Ok(())
    }

    /// Takes the arguments that are there, one after another.
    fn each_go_on(&mut self, entry: &'static Entry, mut left: u32, each: Each) -> Step {
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
                    Err(Stop::Quit | Stop::UnderWay) => unreachable!("no key ends a connection"),
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
        if self.turn.is_kept_away(&key) {
            return Err(State::Parked.into());
        }
        let counts = match each {
            Each::Get => {
                let hit = self.value_of(bytes)?;
                self.note_read(hit);
                return Ok(());
            }
            Each::Delete => {
                let deleted = self.turn.delete(&key, &Delete::default())? == DeleteOutcome::Deleted;
                if deleted {
                    self.changed(Event::DEL, bytes);
                }
                deleted
            }
            Each::Exists => self.turn.peek(&key).is_some(),
            Each::Touch => self.turn.get(&key).is_some(),
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
                    Err(Stop::Quit | Stop::UnderWay) => unreachable!("no value ends a connection"),
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

    /// Reads away what is left of a request that was answered, or of an argument.
    fn skip(&mut self, entry: &'static Entry, mut left: u32, mut bytes: u64, then: Option<Each>) -> Step {
        loop {
            let gone = bytes.min(self.rest().len() as u64);
            self.at += gone as usize;
            bytes -= gone;
            if bytes > 0 {
                self.keep(entry, left, Stage::Skipped { bytes, then });
                return Err(State::NeedInput { want: 1 });
            }
            if let Some(each) = then {
                self.keep(entry, left, Stage::Each(each));
                return Ok(());
            }
            if left == 0 {
                return Ok(());
            }
            match argument(self.rest(), &Limits { long_bytes_min: 0, ..self.waiting_limits() }) {
                Argument::Long { len, consumed } => {
                    self.at += consumed;
                    (left, bytes) = (left - 1, u64::from(len) + 2);
                }
                Argument::Incomplete { .. } => {
                    self.keep(entry, left, Stage::Skipped { bytes: 0, then });
                    return Err(State::NeedInput { want: 0 });
                }
                Argument::Whole { .. } => unreachable!("every argument is a long one here"),
                Argument::Fatal(error) => return self.fatal(error),
            }
        }
    }
}

const _: () = assert!(ARRIVING_BYTES_MIN <= 16 << 10);
