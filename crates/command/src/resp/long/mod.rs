//! Requests that do not fit into the receive buffer. Such a request has a long value, which is written to the store
//! while it is received, or many keys, which are processed one after another, or it is collected in client memory.
//!
//! ```text
//!   head of SET k <100 MiB> EX 9 ──> Value: written to the store ──> words after it ──> stored with these options
//!   first 256 KiB of DEL, MGET, MSET ... ──> Each: an argument, its part of the reply, the next argument
//!   first 256 KiB of any other command ──> Collected: the rest is received into client memory ──> executed
//!   an error ──> error reply ──> Skipped: the rest is received and discarded
//! ```
//!
//! - A long request is consumed while it is received, so a client that sends slowly does not occupy a buffer. A long
//!   request with many keys is not atomic: other requests are executed between its keys. A collected request is
//!   executed as any other, and is queued in `MULTI`.
//! - A long value becomes visible only after the complete request, including the words after the value, was received.
//!   If the client stops sending before that, nothing is stored.

use crate::resp::admit;
use crate::resp::blocking;
use crate::resp::pubsub;
use crate::resp::state::Answers;
use crate::resp::state::long::{Collected, Each, Long, LongStage, ValueEffect};
use crate::resp::statistics::{self, StatKey};
mod collect;
mod each;
mod value;

use self::collect::CollectStop;
use super::acl::KnownKeys;
use super::catalog::{self, CommandSpec};
use super::error::{self, ErrorReply};
use super::expire::{Deadline, Unit};
use crate::context::WorkerContext;
use crate::lookup::large::IN_PLACE_BYTES_MIN;
use crate::metrics::Command;
use crate::resp::call::{Call, Interrupt, Step};
use crate::resp::session::SessionState;
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, Argument, Limits, Parser, argument, reply};
use segment::Guard;

/// The maximum number of words after a value that is being received. It is higher than the number of words of all
/// options of `SET` together.
const TAIL_MAX: usize = 16;

/// Returns the effect that a command has with the value that follows `args`, which begin with the command's name.
/// Returns `None` if the command does not store this argument as a value.
fn effect_of(entry: &CommandSpec, mut args: Args<'_>, call: &Call<'_, '_>) -> Result<Option<ValueEffect>, ErrorReply> {
    let words = args.len();
    // `word` is the word after the name and the key.
    let word = args.nth(2).unwrap_or_default();
    Ok(Some(match (entry.name, words) {
        ("set", 2) => ValueEffect::Set,
        ("setnx", 2) => ValueEffect::Absent,
        ("getset", 2) => ValueEffect::Swap,
        ("append", 2) => ValueEffect::Append,
        ("setex", 3) => {
            ValueEffect::Until(Deadline::positive(word, Unit::Seconds, call.ctx.moment(), "setex")?.expire())
        }
        ("psetex", 3) => {
            ValueEffect::Until(Deadline::positive(word, Unit::Millis, call.ctx.moment(), "psetex")?.expire())
        }
        ("setrange", 3) => {
            let offset = super::number::integer(word)?;
            ValueEffect::Range(u64::try_from(offset).map_err(|_| ErrorReply::Offset)?)
        }
        _ => return Ok(None),
    }))
}

/// Releases the memory in the store that is allocated for a partly received value.
pub(super) fn end(session: &mut SessionState, guard: &mut Guard<'_>, ctx: &mut WorkerContext) {
    let long = session.long.take_if(|long| long.waits().is_none());
    if let Some(Long { stage: LongStage::Value { large, .. }, .. }) = long {
        large.end(guard, ctx);
    }
}

/// Begins a request in which a long argument of `value_len` bytes follows `args`, and `left` more arguments follow the
/// long argument. Returns false if the request must be received into a buffer first.
#[cold]
pub(super) fn head<'c>(
    call: &mut Call<'c, '_>,
    args: Args<'c>,
    value_len: u32,
    left: u32,
    consumed: usize,
) -> Result<bool, SessionWait> {
    if call.session.is_queueing() {
        return Ok(false);
    }
    let rest = &call.rest()[consumed..];
    let bytes = value_len as usize;
    let Some(entry) = args.clone().next().and_then(catalog::find) else { return Ok(false) };
    let rule = match effect_of(entry, args, call) {
        Ok(Some(rule)) => rule,
        Ok(None) => return Ok(false),
        Err(_) if rest.len() >= bytes + 2 => return Ok(false),
        Err(fault) => return refuse(call, entry, fault, consumed, bytes as u64 + 2, left).map(|()| true),
    };
    let whole = u64::from(value_len) <= call.guard.sizes().large_threshold();
    // A value that is stored as one item is received in place only if it is the last argument and is stored
    // unconditionally. Otherwise, the effect of the command is known only when the whole request has been received.
    // While the server drains before a handover, no value is received in place, because an unfinished receive cannot be
    // handed over.
    let drains = call.ctx.shared.host.is_draining();
    if whole && (rest.len() >= bytes + 2 || left > 0 || !rule.replaces() || drains) {
        return Ok(false);
    }
    if drains {
        return Err(SessionWait::Parked);
    }
    let key = args.clone().nth(1).unwrap_or_default();
    let words = args.len() + 1 + left as usize;
    match value::may_begin(call, entry, key, words, rule, value_len) {
        Ok(()) if whole => Ok(value::whole_begin(call, entry, rule, key, bytes, consumed)),
        Ok(()) => value::pieces_begin(call, entry, rule, key, (value_len, left), consumed).map(|()| true),
        Err(Interrupt::Fault(fault)) => refuse(call, entry, fault, consumed, bytes as u64 + 2, left).map(|()| true),
        Err(Interrupt::State(state)) => Err(state),
        Err(Interrupt::Quit | Interrupt::UnderWay | Interrupt::Queued) => Ok(false),
    }
}

/// Begins a request that is longer than the buffer. `args` are the arguments in the first `consumed` bytes, which have
/// been received. `left` more arguments follow.
#[cold]
pub(super) fn too_long<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>, left: u32, consumed: usize) -> Step {
    if call.ctx.shared.host.is_draining() {
        return Err(SessionWait::Parked);
    }
    let name = args.next().unwrap_or_default();
    let words = 1 + args.len() + left as usize;
    let Some(entry) = catalog::find(name) else { return discard_unknown(call, (name, args), left, consumed) };
    // Keys that a client tracks must all be known before they are read.
    let tracks = call.session.aside.as_ref().is_some_and(|aside| aside.tracking.is_some());
    let is_whole = call.session.is_queueing() || tracks;
    let each = Each::of(entry).filter(|_| !is_whole);
    let asked = if each.is_some() { KnownKeys::Some } else { KnownKeys::Later };
    let fault = match (each, admit::admit_command(call, entry, words, asked)) {
        (_, Err(Interrupt::Fault(fault))) => fault,
        (_, Err(Interrupt::State(state))) => return Err(state),
        (Some(Each::Set), _) if words.is_multiple_of(2) => ErrorReply::Arity(entry.name),
        (Some(each), _) => {
            if each == Each::Get && call.session.answers == Answers::All {
                reply::array(call.out, words as u64 - 1);
            }
            call.at += consumed - args.wire_bytes();
            call.session.long = Some(Long { entry, left: words as u32 - 1, stage: LongStage::Each(each) });
            return Ok(());
        }
        (None, _) if !collect::may_collect(call, entry) => ErrorReply::RequestTooLong,
        (None, _) => return begin_collecting(call, entry, args, left, consumed),
    };
    refuse(call, entry, fault, consumed, 0, left)
}

/// Begins to collect a request. `args` are the arguments after the command's name in the first `consumed` bytes, and
/// `left` more arguments follow.
fn begin_collecting<'c>(
    call: &mut Call<'c, '_>,
    entry: &'static CommandSpec,
    args: Args<'c>,
    left: u32,
    consumed: usize,
) -> Step {
    let words = 1 + args.len() as u32 + left;
    let mut collected = Box::new(Collected::new(&call.ctx.shared.budget, entry.name, words));
    if !collected.add(args.wire()) {
        call.session.abort_queue();
        return refuse(call, entry, ErrorReply::ClientMemory, consumed, 0, left);
    }
    call.at += consumed;
    call.session.parser = Parser::new();
    collect_request(call, entry, left, collected)
}

/// Continues to collect a request. A complete one stays in the session, from which the caller takes it
/// ([`Long::take_collected`]).
fn collect_request(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    mut left: u32,
    mut collected: Box<Collected>,
) -> Step {
    let step = match collect::receive(call, entry, &mut left, &mut collected) {
        Ok(()) => Ok(()),
        Err(CollectStop::Waits(state)) => Err(state),
        Err(CollectStop::Refused { fault, consumed, bytes }) => {
            call.session.abort_queue();
            return refuse(call, entry, fault, consumed, bytes as u64, left);
        }
        Err(CollectStop::Fatal(error)) => return call.fatal(error),
    };
    retain(call, entry, left, LongStage::Collected(collected));
    step
}

/// Replies with an error, and arranges for the rest of the request to be discarded when it is received. The rest is
/// `bytes` bytes and then `left` arguments.
pub(super) fn refuse(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    fault: ErrorReply,
    consumed: usize,
    bytes: u64,
    left: u32,
) -> Step {
    call.at += consumed;
    call.session.parser = Parser::new();
    call.session.long = Some(Long { entry, left, stage: LongStage::Skipped { bytes, then: None } });
    let (mark, answers) = (call.out.mark(), call.session.answers);
    call.fault(fault);
    long_answered(call, entry, mark, answers);
    Ok(())
}

/// Replies to a request of a command that this server does not have, and arranges for its `left` further arguments to
/// be discarded. `args` are those in the first `consumed` bytes.
fn discard_unknown<'c>(
    call: &mut Call<'c, '_>,
    (name, args): (&'c [u8], Args<'c>),
    left: u32,
    consumed: usize,
) -> Step {
    call.session.abort_queue();
    call.at += consumed;
    call.session.parser = Parser::new();
    // The rest of the request belongs to no command.
    let stage = LongStage::Skipped { bytes: 0, then: None };
    call.session.long = Some(Long { entry: catalog::entry("ping"), left, stage });
    let (mark, answers) = (call.out.mark(), call.session.answers);
    error::unknown(call.out, name, args);
    call.ops += error::UNKNOWN_OPS;
    call.session.end_request();
    call.remove_unwanted_reply(mark, answers, None);
    call.session.last = "";
    call.done(Command::Other, b"");
    Ok(())
}

/// Ends a long request whose reply is in the output: counts the request, and sends it to the monitoring clients.
pub(super) fn long_answered(call: &mut Call<'_, '_>, entry: &CommandSpec, mark: usize, answers: Answers) {
    call.session.end_request();
    call.session.is_counted = false;
    let is_refused = std::mem::take(&mut call.is_refused);
    let outcome = statistics::outcome(call.out.since(mark), is_refused, call.ctx);
    call.remove_unwanted_reply(mark, answers, Some(entry));
    if call.ctx.push.watch.watched.has_monitors() && !is_refused {
        // Monitors see only the command's name, because the arguments were already consumed.
        pubsub::send_to_monitors(call, Some(entry), entry.name.as_bytes(), std::iter::empty());
    }
    statistics::ended(call, StatKey::of_command(entry), outcome, b"");
}

/// Continues a request that is partly consumed.
#[cold]
pub(super) fn continue_long(call: &mut Call<'_, '_>) -> Step {
    let Some(Long { entry, left, stage }) = call.session.long.take() else { return Ok(()) };
    match stage {
        LongStage::Value { large, rule } => value::continue_value(call, entry, left, large, rule),
        LongStage::Each(each) => each::continue_keys(call, entry, left, each),
        LongStage::Skipped { bytes, then } => skip(call, entry, left, bytes, then),
        LongStage::Collected(collected) => collect_request(call, entry, left, collected),
        LongStage::Waits(waits) => blocking::continue_wait(call, waits),
    }
}

/// Stores the state of a partly consumed request in the session, so that the next call continues the request.
fn retain(call: &mut Call<'_, '_>, entry: &'static CommandSpec, left: u32, stage: LongStage) {
    call.session.long = Some(Long { entry, left, stage });
}

/// Discards the rest of an argument, or the rest of a request whose reply is already written.
fn skip(
    call: &mut Call<'_, '_>,
    entry: &'static CommandSpec,
    mut left: u32,
    mut bytes: u64,
    then: Option<Each>,
) -> Step {
    loop {
        let gone = bytes.min(call.rest().len() as u64);
        call.at += gone as usize;
        bytes -= gone;
        if bytes > 0 {
            retain(call, entry, left, LongStage::Skipped { bytes, then });
            return Err(SessionWait::NeedInput { want: 1 });
        }
        if let Some(each) = then {
            retain(call, entry, left, LongStage::Each(each));
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
                retain(call, entry, left, LongStage::Skipped { bytes: 0, then });
                return Err(SessionWait::NeedInput { want: 0 });
            }
            Argument::Whole { .. } => unreachable!("all arguments are long here"),
            Argument::Fatal(error) => return call.fatal(error),
        }
    }
}

const _: () = assert!(IN_PLACE_BYTES_MIN <= 16 << 10);
