//! `BITOP`: combines the bits of several strings, and stores the result.
//!
//! ```text
//!   measure     the lengths of all sources; the result is as long as the longest
//!   for each part of the result: combine the same part of all sources ──> store it, or write it as a piece
//!   at the end  replace the target by the pieces
//! ```
//!
//! The keys are locked, so no other client changes a source between two visits. If a source is lost, the command starts
//! over.

use crate::memory::budget::MemoryUse;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::error::ErrorReply;
use crate::resp::slices;
use crate::resp::slices::{STEP_BYTES, STEP_OPS};
use crate::resp::sources;
use crate::resp::state::string_work::{CombineWork, StringWork};
use crate::resp::string::note_store;
use crate::resp::typed::{self, live, string};
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::resp::Args;
use segment::{Expire, Key, LargeRef, OpError, Put, PutOutcome, Value};

/// The maximum number of bytes of all sources that are combined in the first visit.
const FIRST_BYTES_MAX: u64 = 4 * STEP_BYTES;

/// An operation on bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// The bits of the first source that no other source has.
    Diff,
    /// The bits that the first source does not have and another source has.
    Diff1,
    /// The bits that the first source and another source have.
    AndOr,
    /// The bits that exactly one source has.
    One,
}

impl Operation {
    fn of(name: &[u8]) -> Option<Self> {
        Some(match &lower(name)[..] {
            b"and" => Self::And,
            b"or" => Self::Or,
            b"xor" => Self::Xor,
            b"not" => Self::Not,
            b"diff" => Self::Diff,
            b"diff1" => Self::Diff1,
            b"andor" => Self::AndOr,
            b"one" => Self::One,
            _ => return None,
        })
    }

    /// Checks the number of sources.
    fn check(self, sources: usize) -> Result<(), ErrorReply> {
        match self {
            Self::Not if sources != 1 => Err(ErrorReply::NotOfSeveral),
            Self::Diff if sources < 2 => Err(ErrorReply::TooFewSources("DIFF")),
            Self::Diff1 if sources < 2 => Err(ErrorReply::TooFewSources("DIFF1")),
            Self::AndOr if sources < 2 => Err(ErrorReply::TooFewSources("ANDOR")),
            _ => Ok(()),
        }
    }

    /// Returns true if the operation needs a second bit for each bit of the result.
    fn has_second(self) -> bool {
        matches!(self, Self::Diff1 | Self::AndOr | Self::One)
    }

    /// Combines bytes of the source number `source` with the result. `second` is empty unless the operation needs it.
    fn combine(self, source: usize, from: &[u8], part: &mut [u8], second: &mut [u8]) {
        let is_first = source == 0;
        match self {
            Self::And | Self::Diff if is_first => part.copy_from_slice(from),
            Self::Not => zip(part, from, |_, from| !from),
            Self::And => zip(part, from, |to, from| to & from),
            Self::Diff => zip(part, from, |to, from| to & !from),
            Self::Xor => zip(part, from, |to, from| to ^ from),
            Self::Diff1 | Self::AndOr if is_first => second.copy_from_slice(from),
            Self::Or | Self::Diff1 | Self::AndOr => zip(part, from, |to, from| to | from),
            Self::One => {
                for ((to, twice), from) in part.iter_mut().zip(second).zip(from) {
                    *twice |= *to & from;
                    *to |= from;
                }
            }
        }
    }

    /// Completes the result after all sources.
    fn finish(self, part: &mut [u8], second: &[u8]) {
        match self {
            Self::Diff1 | Self::One => zip(part, second, |to, second| to & !second),
            Self::AndOr => zip(part, second, |to, second| to & second),
            _ => {}
        }
    }
}

/// Replaces each byte of `to` by the result of `combine`.
#[inline(always)]
fn zip(to: &mut [u8], from: &[u8], combine: impl Fn(u8, u8) -> u8) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = combine(*to, *from));
}

/// Executes `BITOP operation target source [source ...]`.
pub(in super::super) fn bitop<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let operation = Operation::of(args.next().unwrap_or_default()).ok_or(ErrorReply::Syntax)?;
    let target = args.next().unwrap_or_default();
    operation.check(args.len())?;
    let mut work = match slices::take_work(call) {
        Some(StringWork::Combine(work)) => work,
        _ => CombineWork::default(),
    };
    let ran = combine_all(call, operation, target, args, &mut work);
    match ran {
        Err(Interrupt::State(state)) if call.collects_replies => {
            slices::retain_work(call, StringWork::Combine(work));
            Err(state.into())
        }
        ran => {
            if let Some(writer) = work.writer.take() {
                call.guard.large().abort(writer);
            }
            ran
        }
    }
}

fn combine_all<'c>(
    call: &mut Call<'c, '_>,
    operation: Operation,
    target: &[u8],
    sources: Args<'c>,
    work: &mut CombineWork,
) -> Run {
    if !work.is_measured {
        measure(call, operation, target, sources, work)?;
    }
    let key = call.key(target);
    if work.bytes == 0 {
        if typed::remove(call, target)? {
            call.changed(KeyEvent::DEL, target);
        }
        call.int(0);
        return Ok(());
    }
    loop {
        if !work.is_combined && work.at < work.bytes {
            combine_part(call, operation, sources, work)?;
        }
        let is_due = work.at == work.bytes && call.guard.locks().is_attached();
        if is_due && sources::count(call, sources)? < work.found {
            return Err(start_over(call, work));
        }
        if store_part(call, &key, work)? {
            break;
        }
    }
    note_store(call);
    call.changed(KeyEvent::SET, target);
    call.int(work.bytes as i64);
    Ok(())
}

/// Determines the length of the result, and reserves memory for a part of it.
fn measure<'c>(
    call: &mut Call<'c, '_>,
    operation: Operation,
    target: &[u8],
    sources: Args<'c>,
    work: &mut CombineWork,
) -> Run {
    for bytes in sources.skip(work.sources) {
        if call.ops >= OPS_A_BATCH {
            return Err(SessionWait::Yield.into());
        }
        let key = call.key(bytes);
        let item = live(call.guard.items().get(&key), call.ctx.view());
        let len = string(item.as_ref())?.map(|item| item.value_len());
        call.count_read(len.is_some());
        work.found += u64::from(len.is_some());
        work.bytes = work.bytes.max(len.unwrap_or(0));
        work.sources += 1;
        call.ops += 1;
    }
    let key = call.key(target);
    if work.bytes > 0 {
        call.guard.sizes().check_fits(&key, work.bytes)?;
        typed::room_to_store(call, work.bytes)?;
    }
    if !call.collects_replies && work.bytes * sources.len() as u64 > FIRST_BYTES_MAX {
        // The command becomes a transaction, which takes several visits.
        return Err(SessionWait::Yield.into());
    }
    let sizes = call.guard.sizes();
    work.part_bytes =
        if is_whole(work, sizes.large_threshold()) { work.bytes as usize } else { sizes.piece_bytes_max() };
    let memory = work.part_bytes as u64 * if operation.has_second() { 2 } else { 1 };
    work.grant = call.ctx.shared.budget.grant(MemoryUse::Walks, memory);
    if work.grant.is_none() {
        return Err(ErrorReply::ClientMemory.into());
    }
    (work.sources, work.is_measured) = (0, true);
    Ok(())
}

/// Returns true if the result is stored as one item.
fn is_whole(work: &CombineWork, large_threshold: u64) -> bool {
    work.bytes <= large_threshold
}

/// Combines the sources in the current part of the result.
fn combine_part<'c>(call: &mut Call<'c, '_>, operation: Operation, sources: Args<'c>, work: &mut CombineWork) -> Run {
    let end = work.bytes.min(work.at + work.part_bytes as u64);
    let part_bytes = (end - work.at) as usize;
    if work.sources == 0 {
        let second_bytes = if operation.has_second() { part_bytes } else { 0 };
        for (buffer, bytes) in [(&mut work.part, part_bytes), (&mut work.second, second_bytes)] {
            buffer.clear();
            buffer.resize(bytes, 0);
        }
    }
    for bytes in sources.skip(work.sources) {
        if call.collects_replies && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
        combine_source(call, operation, bytes, work)?;
        work.sources += 1;
        call.ops += 1 + STEP_OPS * part_bytes / STEP_BYTES as usize;
    }
    operation.finish(&mut work.part, &work.second);
    (work.at, work.sources, work.is_combined) = (end, 0, true);
    Ok(())
}

/// Combines one source with the current part of the result.
fn combine_source(call: &mut Call<'_, '_>, operation: Operation, bytes: &[u8], work: &mut CombineWork) -> Run {
    let key = call.key(bytes);
    let item = live(call.guard.items().peek(&key), call.ctx.view());
    let item = string(item.as_ref())?;
    let (from, source) = (work.at, work.sources);
    let end = item.map_or(from, |item| item.value_len().clamp(from, from + work.part.len() as u64));
    let mut filled = 0;
    let (part, second) = (&mut work.part, &mut work.second);
    if let Some(item) = item.filter(|_| end > from) {
        let is_read = call.guard.pieces().copy_range(&key, item.value, from..end, &mut |bytes| {
            let to = filled + bytes.len();
            let second = if operation.has_second() { &mut second[filled..to] } else { &mut [][..] };
            operation.combine(source, bytes, &mut part[filled..to], second);
            filled = to;
        });
        if !is_read {
            let large = if let Value::Large(large) = item.value { Some(large) } else { None };
            return Err(lose_piece(call, &key, large, work));
        }
    }
    // The bytes behind the end of a source are zero. They change only the results of these operations.
    match operation {
        Operation::And => part[filled..].fill(0),
        Operation::Not => part[filled..].fill(0xff),
        _ => {}
    }
    Ok(())
}

/// Discards the result, because a source was lost, and starts the command over. Returns an error if sources were lost
/// too often.
#[cold]
fn start_over(call: &mut Call<'_, '_>, work: &mut CombineWork) -> Interrupt {
    if let Some(writer) = work.writer.take() {
        call.guard.large().abort(writer);
    }
    *work = CombineWork { restarts: work.restarts + 1, ..CombineWork::default() };
    if work.restarts > sources::LOSSES_MAX { ErrorReply::KeysLost.into() } else { SessionWait::Yield.into() }
}

/// Deletes a source that has lost a piece, and starts the command over.
#[cold]
fn lose_piece(call: &mut Call<'_, '_>, key: &Key<'_>, large: Option<LargeRef>, work: &mut CombineWork) -> Interrupt {
    // A value whose pieces cannot all be pinned is deleted.
    if let Some(large) = large
        && let Ok(Some(pinned)) = call.guard.large().pin(key, large)
    {
        call.ctx.shared.store.unpin(pinned);
    }
    start_over(call, work)
}

/// Stores the completed part of the result. Returns true if the whole result is stored.
fn store_part(call: &mut Call<'_, '_>, key: &Key<'_>, work: &mut CombineWork) -> Result<bool, Interrupt> {
    if is_whole(work, call.guard.sizes().large_threshold()) {
        call.guard.items_mut().put(key, &Put::set(&work.part))?;
        return Ok(true);
    }
    let mut writer = match work.writer.take() {
        Some(writer) => writer,
        None => call.guard.large().begin(key, work.bytes, Expire::Never)?,
    };
    let written = match work.is_combined {
        true => call.guard.large().write_piece(&mut writer, &work.part),
        false => Ok(()),
    };
    work.is_combined = written.is_err();
    if written.is_err() || work.at < work.bytes {
        work.writer = Some(writer);
        written?;
        return Ok(false);
    }
    match call.guard.large().commit(writer, key, &Put::set(&[])) {
        Ok(PutOutcome::Stored { .. }) => Ok(true),
        Ok(_) => Err(OpError::Parked.into()),
        Err((writer, error)) => {
            work.writer = Some(writer);
            Err(error.into())
        }
    }
}
