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

use crate::resp::admit;
use crate::resp::pubsub;
mod each;
mod value;

use super::acl::Asked;
use super::catalog::{self, Entry};
use super::error::Fault;
use super::expire::{Deadline, Unit};
use crate::context::WorkerContext;
use crate::lookup::large::{ARRIVING_BYTES_MIN, LargeSet};
use crate::resp::call::{Call, Step, Stop};
use crate::resp::session::{Answers, SessionState};
use crate::visit::progress::State;
use protocol::resp::{Args, Argument, Limits, Parser, ProtocolError, argument, reply};
use segment::{Expire, Guard, Put, PutMode};

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

/// The treatment of a value that has arrived whole.
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

/// The operation on each argument.
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
    /// Returns what a command does with a value that comes behind `args`, its name first. Returns `None` if the command
    /// does not store it.
    fn of(entry: &Entry, mut args: Args<'_>, call: &Call<'_, '_>) -> Result<Option<Self>, Fault> {
        let words = args.len();
        // Behind the name and the key.
        let word = args.nth(2).unwrap_or_default();
        Ok(Some(match (entry.name, words) {
            ("set", 2) => Self::Set,
            ("setnx", 2) => Self::Absent,
            ("getset", 2) => Self::Swap,
            ("append", 2) => Self::Append,
            ("setex", 3) => Self::Until(Deadline::positive(word, Unit::Seconds, call.ctx.moment(), "setex")?.expire()),
            ("psetex", 3) => Self::Until(Deadline::positive(word, Unit::Millis, call.ctx.moment(), "psetex")?.expire()),
            ("setrange", 3) => {
                let offset = super::number::integer(word)?;
                Self::Range(u64::try_from(offset).map_err(|_| Fault::Offset)?)
            }
            _ => return Ok(None),
        }))
    }

    /// Returns the put for a value whose store does not depend on the existing item.
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
    pub(super) fn end_long(&mut self, guard: &mut Guard<'_>, ctx: &mut WorkerContext) {
        if let Some(Long { stage: Stage::Value { large, .. }, .. }) = self.long.take() {
            large.end(guard, ctx);
        }
    }

    /// The value that is arriving.
    #[inline]
    pub(crate) fn large(&self) -> Option<&LargeSet> {
        match &self.long {
            Some(Long { stage: Stage::Value { large, .. }, .. }) => Some(large),
            _ => None,
        }
    }

    /// The same, to receive into.
    pub(crate) fn large_mut(&mut self) -> Option<&mut LargeSet> {
        match &mut self.long {
            Some(Long { stage: Stage::Value { large, .. }, .. }) => Some(large),
            _ => None,
        }
    }

    /// True if a part of a request is consumed and the rest is still to be received.
    pub(crate) fn is_taking_in(&self) -> bool {
        self.long.is_some()
    }

    /// Some of a request is consumed, or it is under way.
    pub(crate) fn is_receiving(&self) -> bool {
        self.long.is_some() || self.is_under_way()
    }
}

/// A request has a long argument behind `args`, of `value_len` bytes, `left` more behind it. False if it is to be
/// waited for.
#[cold]
pub(super) fn head<'c>(
    call: &mut Call<'c, '_>,
    args: Args<'c>,
    value_len: u32,
    left: u32,
    consumed: usize,
) -> Result<bool, State> {
    if call.session.is_queueing() {
        return Ok(false);
    }
    let rest = &call.rest()[consumed..];
    let bytes = value_len as usize;
    let Some(entry) = args.clone().next().and_then(catalog::find) else { return Ok(false) };
    let rule = match Rule::of(entry, args, call) {
        Ok(Some(rule)) => rule,
        Ok(None) => return Ok(false),
        Err(_) if rest.len() >= bytes + 2 => return Ok(false),
        Err(fault) => return refuse(call, entry, fault, consumed, bytes as u64 + 2, left).map(|()| true),
    };
    let whole = u64::from(value_len) <= call.guard.sizes().large_threshold();
    // The result of a condition is not known before all is there. Before a hand-over nothing is begun that could
    // not move.
    let drains = call.ctx.shared.host.is_draining();
    if whole && (rest.len() >= bytes + 2 || left > 0 || !rule.replaces() || drains) {
        return Ok(false);
    }
    if drains {
        return Err(State::Parked);
    }
    let key = args.clone().nth(1).unwrap_or_default();
    let words = args.len() + 1 + left as usize;
    match value::may_begin(call, entry, key, words, rule, value_len) {
        Ok(()) if whole => Ok(value::whole_begin(call, entry, rule, key, bytes, consumed)),
        Ok(()) => value::pieces_begin(call, entry, rule, key, (value_len, left), consumed).map(|()| true),
        Err(Stop::Fault(fault)) => refuse(call, entry, fault, consumed, bytes as u64 + 2, left).map(|()| true),
        Err(Stop::State(state)) => Err(state),
        Err(Stop::Quit | Stop::UnderWay | Stop::Queued) => Ok(false),
    }
}

/// A request is longer than the buffer: `args` are there, `left` more come behind `consumed`.
#[cold]
pub(super) fn too_long<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, left: u32, consumed: usize) -> Step {
    if call.ctx.shared.host.is_draining() {
        return Err(State::Parked);
    }
    let entry = args.next().and_then(catalog::find);
    let words = 1 + args.len() + left as usize;
    let Some(entry) = entry else { return call.fatal(ProtocolError::RequestTooLong) };
    let fault = match (Each::of(entry), admit::admit_command(call, entry, words, Asked::Some)) {
        (_, Err(Stop::Fault(fault))) => fault,
        _ if call.session.is_queueing() => {
            call.session.spoil();
            Fault::QueueTooLong
        }
        (_, Err(Stop::State(state))) => return Err(state),
        (Some(Each::Set), _) if words.is_multiple_of(2) => Fault::Arity(entry.name),
        (Some(each), _) => {
            if each == Each::Get && call.session.answers == Answers::All {
                reply::array(call.out, words as u64 - 1);
            }
            call.at += consumed - args.wire_bytes();
            call.session.long = Some(Long { entry, left: words as u32 - 1, stage: Stage::Each(each) });
            return Ok(());
        }
        (None, _) => Fault::RequestTooLong,
    };
    refuse(call, entry, fault, consumed, 0, left)
}

/// Answers a request of which `bytes` and `left` arguments behind those are still to come.
pub(super) fn refuse(
    call: &mut Call<'_, '_>,
    entry: &'static Entry,
    fault: Fault,
    consumed: usize,
    bytes: u64,
    left: u32,
) -> Step {
    call.at += consumed;
    call.session.parser = Parser::new();
    call.session.long = Some(Long { entry, left, stage: Stage::Skipped { bytes, then: None } });
    let (mark, answers) = (call.out.mark(), call.session.answers);
    call.fault(fault);
    long_answered(call, entry, mark, answers);
    Ok(())
}

/// The answer to a long request is in the output.
pub(super) fn long_answered(call: &mut Call<'_, '_>, entry: &Entry, mark: usize, answers: Answers) {
    call.session.end_request();
    call.hush(mark, answers);
    if call.ctx.watch.watched.tells_commands() {
        // What it was about has been read away.
        pubsub::tell_monitors(call, entry.name.as_bytes(), std::iter::empty());
    }
    call.done(entry.kind, b"");
}

/// Goes on with a request of which some is consumed.
#[cold]
pub(super) fn long_go_on(call: &mut Call<'_, '_>) -> Step {
    let Some(Long { entry, left, stage }) = call.session.long.take() else { return Ok(()) };
    match stage {
        Stage::Value { large, rule } => value::value_go_on(call, entry, left, large, rule),
        Stage::Each(each) => each::each_go_on(call, entry, left, each),
        Stage::Skipped { bytes, then } => skip(call, entry, left, bytes, then),
    }
}

/// Keeps what is left of a request for the next call.
fn keep(call: &mut Call<'_, '_>, entry: &'static Entry, left: u32, stage: Stage) {
    call.session.long = Some(Long { entry, left, stage });
}

/// Reads away what is left of a request that was answered, or of an argument.
fn skip(call: &mut Call<'_, '_>, entry: &'static Entry, mut left: u32, mut bytes: u64, then: Option<Each>) -> Step {
    loop {
        let gone = bytes.min(call.rest().len() as u64);
        call.at += gone as usize;
        bytes -= gone;
        if bytes > 0 {
            keep(call, entry, left, Stage::Skipped { bytes, then });
            return Err(State::NeedInput { want: 1 });
        }
        if let Some(each) = then {
            keep(call, entry, left, Stage::Each(each));
            return Ok(());
        }
        if left == 0 {
            return Ok(());
        }
        match argument(call.rest(), &Limits { long_bytes_min: 0, ..call.waiting_limits() }) {
            Argument::Long { len, consumed } => {
                call.at += consumed;
                (left, bytes) = (left - 1, u64::from(len) + 2);
            }
            Argument::Incomplete { .. } => {
                keep(call, entry, left, Stage::Skipped { bytes: 0, then });
                return Err(State::NeedInput { want: 0 });
            }
            Argument::Whole { .. } => unreachable!("every argument is a long one here"),
            Argument::Fatal(error) => return call.fatal(error),
        }
    }
}

const _: () = assert!(ARRIVING_BYTES_MIN <= 16 << 10);
