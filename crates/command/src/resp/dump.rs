//! `DUMP` and `RESTORE`: values of strings and hashes in the format of Redis's files, which the crate `rdb` writes and
//! reads.
//!
//! ```text
//!   DUMP      value, part by part ──> payload ──> checksum, part by part ──> reply
//!   RESTORE   payload ──> string: stored at once        hash: its fields, some at a time, under a lock of the key
//! ```

use super::aside;
use super::catalog::lower;
use super::error::ErrorReply;
use super::expire::{Deadline, Unit};
use super::number::integer;
use super::slices;
use super::string::note_store;
use super::typed::{self, Edited, KeyParts, live};
use crate::memory::budget::MemoryUse;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::state::dump_work::{DumpPart, DumpWork, RestoreWork, RestoredField};
use crate::resp::state::string_work::StringWork;
use crate::resp::state::transaction::ANSWER_BYTES_MAX;
use crate::resp::state::walk::Reading;
use crate::visit::clock::Moment;
use crate::visit::progress::SessionWait;
use base::clock::UnixMillis;
use protocol::resp::{Args, reply};
use rdb::{DumpError, DumpReader, Element, PayloadWriter, ReadLimits, ValueType};
use record::{Digits, HASHES, Name, Value as BinValue};
use segment::{Attempts, Expire, Loaded, Put, PutMode, PutOutcome, Replaced, Replacement, Value};

/// Room before the payload for the head of the reply.
const HEAD_ROOM: usize = reply::NUMBER_LINE_BYTES_MAX;
/// The number of bytes of a string that are copied between two checks of the slice, and their cost in operations.
const COPY_STEP: u64 = 8 << 10;
const COPY_OPS: usize = 2;
/// The number of bytes that are added to the checksum between two checks of the slice, and their cost in operations.
const SUM_STEP: usize = 16 << 10;
const SUM_OPS: usize = 16;
/// The maximum length of a string that is dumped in one visit.
const FIRST_BYTES_MAX: u64 = 32 << 10;
/// The number of bytes of a payload that are read for one operation.
const BYTES_READ_AN_OP: usize = 1 << 10;
/// The number of fields that one edit of a hash stores, and the cost of each in operations.
const FIELDS_AN_EDIT: usize = 16;
const OPS_A_FIELD: usize = 3;

/// Executes `DUMP key`.
pub(super) fn dump<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let bytes = args.into_iter().next().unwrap_or_default();
    let mut work = match slices::take_work(call) {
        Some(StringWork::Dump(work)) => work,
        _ => match begin_dump(call, bytes)? {
            Some((_, true)) if !call.collects_replies => {
                return Err(slices::run_locked(call, "dump", args, bytes));
            }
            Some((work, _)) => Box::new(work),
            None => {
                call.null();
                return Ok(());
            }
        },
    };
    let ran = write_payload(call, bytes, &mut work);
    match ran {
        Ok(()) => reply_payload(call, *work),
        Err(Interrupt::State(state)) if call.collects_replies => {
            // A read that starts over has no identity any more, and begins with a new payload.
            if work.len.is_some() || work.reading.identity.is_some() {
                slices::retain_work(call, StringWork::Dump(work));
            }
            Err(state.into())
        }
        ran => ran,
    }
}

/// Looks the value up. Returns the state of its dump, and whether it is too long for one visit.
fn begin_dump(call: &mut Call<'_, '_>, bytes: &[u8]) -> Result<Option<(DumpWork, bool)>, Interrupt> {
    let key = call.key(bytes);
    let item = live(call.guard.items().get(&key), call.ctx.view());
    let facts = match &item {
        None => None,
        Some(item) if matches!(item.value, Value::Typed { .. }) => {
            let parts = KeyParts::new(call.guard, key);
            let record = typed::record(Some(item), call.ctx.view(), &parts).map_err(|error| match error {
                ErrorReply::WrongType => ErrorReply::DumpType,
                error => error,
            })?;
            record.map(|record| (None, record.has_ends(), record.is_large()))
        }
        Some(item) => Some((Some(item.value_len()), false, item.value_len() > FIRST_BYTES_MAX)),
    };
    call.count_read(facts.is_some());
    let Some((len, has_ends, is_long)) = facts else { return Ok(None) };
    if len.is_some_and(|len| len > ANSWER_BYTES_MAX as u64) {
        return Err(ErrorReply::RepliesTooLong.into());
    }
    let memory = 2 * HEAD_ROOM as u64 + 64 + len.unwrap_or(0);
    let grant = call.ctx.shared.budget.grant(MemoryUse::Walks, memory).ok_or(ErrorReply::ClientMemory)?;
    let mut writer =
        len.map_or_else(|| PayloadWriter::hash(None, HEAD_ROOM), |len| PayloadWriter::text(len, HEAD_ROOM));
    writer.reserve(len.unwrap_or(0) as usize);
    let part = if has_ends { DumpPart::Earliest } else { DumpPart::Value };
    let work = DumpWork { part, writer, len, cursor: 0, earliest: None, reading: Reading::default(), grant };
    Ok(Some((work, is_long)))
}

/// Writes the parts of the payload that are left.
fn write_payload(call: &mut Call<'_, '_>, bytes: &[u8], work: &mut DumpWork) -> Run {
    if work.part == DumpPart::Earliest {
        while work.cursor < HASHES {
            find_earliest(call, bytes, work)?;
            check_slice(call)?;
        }
        let earliest = work.earliest.map(|end| call.moment().to_wall(UnixMillis(end)).0);
        (work.writer, work.part, work.cursor) = (PayloadWriter::hash(earliest, HEAD_ROOM), DumpPart::Value, 0);
    }
    if work.part == DumpPart::Value {
        let end = work.len.unwrap_or(HASHES);
        while work.cursor < end {
            match work.len {
                Some(len) => copy_text(call, bytes, work, len)?,
                None => copy_fields(call, bytes, work)?,
            }
            check_slice(call)?;
        }
        work.writer.end();
        work.part = DumpPart::Sum;
    }
    while !work.writer.advance(SUM_STEP) {
        call.ops += SUM_OPS;
        check_slice(call)?;
    }
    Ok(())
}

/// Returns [`SessionWait::Yield`] if the visit has used up its slice, in a request that takes several visits.
fn check_slice(call: &Call<'_, '_>) -> Run {
    if call.collects_replies && call.is_slice_used() { Err(SessionWait::Yield.into()) } else { Ok(()) }
}

/// Copies the next bytes of a string.
fn copy_text(call: &mut Call<'_, '_>, bytes: &[u8], work: &mut DumpWork, len: u64) -> Run {
    let key = call.key(bytes);
    let item = live(call.guard.items().peek(&key), call.ctx.view());
    let end = (work.cursor + COPY_STEP).min(len);
    let range = work.cursor..end;
    let writer = &mut work.writer;
    let is_read = item.is_some_and(|item| {
        item.value_len() == len
            && call.guard.pieces().copy_range(&key, item.value, range, &mut |part| writer.push(part))
    });
    if !is_read {
        // The value was evicted, or has lost a piece, since the previous visit. The command starts over.
        work.len = None;
        work.reading.identity = None;
        return Err(SessionWait::Yield.into());
    }
    work.cursor = end;
    call.ops += COPY_OPS;
    Ok(())
}

/// Searches the next part of a hash for the earliest expiry of its fields.
fn find_earliest(call: &mut Call<'_, '_>, bytes: &[u8], work: &mut DumpWork) -> Run {
    let from = work.cursor as u32;
    let (to, fields, earliest) = slices::read_consistently(call, bytes, &mut work.reading, |_, record, now_ms| {
        let Some(record) = record else { return Ok((HASHES, 0, None)) };
        let to = record.step_end(from)?;
        let (mut fields, mut earliest) = (0, None::<u64>);
        for bin in record.bins_in(now_ms, from, to) {
            fields += 1;
            earliest = earliest.into_iter().chain(bin?.end_ms).min();
        }
        Ok((to, fields, earliest))
    })?;
    work.earliest = work.earliest.into_iter().chain(earliest).min();
    work.cursor = to;
    call.ops += 2 + fields / 4;
    Ok(())
}

/// Copies the fields of the next part of a hash.
fn copy_fields(call: &mut Call<'_, '_>, bytes: &[u8], work: &mut DumpWork) -> Run {
    let (from, moment) = (work.cursor as u32, call.moment());
    let writer = &mut work.writer;
    let (to, fields, copied) = slices::read_consistently(call, bytes, &mut work.reading, |_, record, now_ms| {
        let Some(record) = record else { return Ok((HASHES, 0, 0)) };
        let to = record.step_end(from)?;
        let (mut fields, mut copied) = (0, 0);
        for bin in record.bins_in(now_ms, from, to) {
            let (bin, mut name, mut value) = (bin?, Digits::new(), Digits::new());
            let expire_at = bin.end_ms.map(|end| moment.to_wall(UnixMillis(end)).0);
            let (name, value) = (bin.name.text(&mut name), bin.value.text(&mut value));
            writer.field(name, value, expire_at);
            fields += 1;
            copied += name.len() + value.len();
        }
        Ok((to, fields, copied))
    })?;
    work.cursor = to;
    if work.writer.capacity() > ANSWER_BYTES_MAX {
        return Err(ErrorReply::RepliesTooLong.into());
    }
    if !work.grant.resize(work.writer.capacity() as u64) {
        return Err(ErrorReply::ClientMemory.into());
    }
    call.ops += 2 + fields / 2 + copied / COPY_STEP as usize * COPY_OPS;
    Ok(())
}

/// Replies with a complete payload, whose head is written into the room before it.
fn reply_payload(call: &mut Call<'_, '_>, work: DumpWork) -> Run {
    let DumpWork { writer, grant, .. } = work;
    let (mut bytes, start) = writer.into_parts();
    let head = format!("${}\r\n", bytes.len() - start);
    let from = start - head.len();
    bytes[from..start].copy_from_slice(head.as_bytes());
    bytes.extend_from_slice(b"\r\n");
    // The reply has a share of its own.
    drop(grant);
    aside::send_long_reply_from(call, bytes, from)
}

/// Options of `RESTORE`.
#[derive(Clone, Copy, Default)]
struct RestoreOptions {
    replace: bool,
    is_absolute: bool,
}

impl RestoreOptions {
    /// Parses the options. The idle time and the frequency are only checked.
    fn read(mut args: Args<'_>) -> Result<Self, ErrorReply> {
        let (mut options, mut has_idle, mut has_frequency) = (Self::default(), false, false);
        while let Some(word) = args.next() {
            match &lower(word)[..] {
                b"replace" => options.replace = true,
                b"absttl" => options.is_absolute = true,
                b"idletime" if args.len() > 0 && !has_frequency => {
                    has_idle = true;
                    if integer(args.next().unwrap_or_default())? < 0 {
                        return Err(ErrorReply::IdleTime);
                    }
                }
                b"freq" if args.len() > 0 && !has_idle => {
                    has_frequency = true;
                    if !(0..=255).contains(&integer(args.next().unwrap_or_default())?) {
                        return Err(ErrorReply::Frequency);
                    }
                }
                _ => return Err(ErrorReply::Syntax),
            }
        }
        Ok(options)
    }
}

/// A request of `RESTORE` whose arguments are valid.
struct Restore<'c> {
    bytes: &'c [u8],
    payload: &'c [u8],
    options: RestoreOptions,
    /// The expiry, and whether it has passed.
    expire: Expire,
    is_past: bool,
}

/// Executes `RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds] [FREQ frequency]`.
pub(super) fn restore<'c>(call: &mut Call<'c, '_>, all: Args<'c>) -> Run {
    let mut args = all;
    let [bytes, ttl, payload] = [(); 3].map(|()| args.next().unwrap_or_default());
    let options = RestoreOptions::read(args)?;
    let work = match slices::take_work(call) {
        Some(StringWork::Restore(work)) => Some(work),
        _ => {
            let key = call.key(bytes);
            if !options.replace && typed::is_there(call, &key)? {
                return Err(ErrorReply::BusyKey.into());
            }
            None
        }
    };
    let (expire, is_past) = expiry(ttl, options, call.moment())?;
    let request = Restore { bytes, payload, options, expire, is_past };
    match work {
        Some(work) => restore_hash(call, &request, work),
        None => begin_restore(call, all, &request),
    }
}

/// Returns the expiry that a time to live stands for, and whether it has passed.
fn expiry(ttl: &[u8], options: RestoreOptions, moment: Moment) -> Result<(Expire, bool), ErrorReply> {
    match integer(ttl)? {
        0 => Ok((Expire::Never, false)),
        ..0 => Err(ErrorReply::RestoreTtl),
        _ => {
            let unit = if options.is_absolute { Unit::UnixMillis } else { Unit::Millis };
            let deadline = Deadline::read(ttl, unit, moment, "restore")?;
            Ok((deadline.expire(), deadline.is_past(moment.now)))
        }
    }
}

/// Reads the payload, and stores a string, or begins to store a hash.
fn begin_restore<'c>(call: &mut Call<'c, '_>, all: Args<'c>, request: &Restore<'c>) -> Run {
    let bytes_max = call.ctx.request_bytes_max as u64;
    let reader = DumpReader::new(request.payload, ReadLimits { string_bytes_max: bytes_max });
    call.ops += request.payload.len() / BYTES_READ_AN_OP;
    let reader = reader.map_err(|error| match error {
        DumpError::VersionOrSum => ErrorReply::DumpFooter,
        DumpError::Value(_) => ErrorReply::BadDump,
    })?;
    match reader.value_type() {
        ValueType::String => restore_string(call, request, reader),
        ValueType::Hash if !call.collects_replies => Err(slices::run_locked(call, "restore", all, request.bytes)),
        ValueType::Hash => {
            let work = fields_of(call, reader, bytes_max)?;
            restore_hash(call, request, Box::new(work))
        }
        _ => Err(ErrorReply::DumpType.into()),
    }
}

fn restore_string<'c>(call: &mut Call<'c, '_>, request: &Restore<'c>, mut reader: DumpReader<'c>) -> Run {
    let Ok(Some(Element::Text(text))) = reader.next_element() else { return Err(ErrorReply::BadDump.into()) };
    let (key, len) = (call.key(request.bytes), text.len() as u64);
    if request.is_past {
        return end_past(call, request);
    }
    typed::room_to_store(call, len)?;
    let mode = if request.options.replace { PutMode::Set } else { PutMode::Add };
    let put = Put { mode, expire: request.expire, ..Put::set(text) };
    let outcome = call.guard.items_mut().put(&key, &put)?;
    if !matches!(outcome, PutOutcome::Stored { .. }) {
        return Err(ErrorReply::BusyKey.into());
    }
    if !matches!(reader.next_element(), Ok(None)) {
        return Err(ErrorReply::BadDump.into());
    }
    note_store(call);
    call.ctx.note_length(call.session.namespace, request.bytes, len);
    end(call, request)
}

/// Replies after a value was stored.
fn end(call: &mut Call<'_, '_>, request: &Restore<'_>) -> Run {
    call.changed(KeyEvent::RESTORE, request.bytes);
    call.out.push(reply::OK);
    Ok(())
}

/// Removes the old value instead of storing one that has expired.
fn end_past(call: &mut Call<'_, '_>, request: &Restore<'_>) -> Run {
    if remove(call, request.bytes)? {
        call.changed(KeyEvent::DEL, request.bytes);
    }
    call.out.push(reply::OK);
    Ok(())
}

/// Removes a key. Returns true if it existed.
fn remove(call: &mut Call<'_, '_>, bytes: &[u8]) -> Result<bool, Interrupt> {
    let (key, mut attempts) = (call.key(bytes), Attempts::default());
    loop {
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        if item.is_none() {
            return Ok(false);
        }
        if call.guard.items_mut().replace(&key, &version, Replacement::Remove)? == Replaced::Done {
            return Ok(true);
        }
    }
}

/// Reads the fields of a payload, except those that have expired.
fn fields_of(call: &Call<'_, '_>, mut reader: DumpReader<'_>, bytes_max: u64) -> Result<RestoreWork, Interrupt> {
    let moment = call.moment();
    let (mut bytes, mut fields) = (Vec::new(), Vec::new());
    loop {
        let (name, value, expire_at) = match reader.next_element() {
            Ok(Some(Element::Field { name, value, expire_at_ms })) => (name, value, expire_at_ms),
            Ok(None) if !fields.is_empty() => break,
            _ => return Err(ErrorReply::BadDump.into()),
        };
        bytes.extend_from_slice(name);
        let name_end = bytes.len();
        bytes.extend_from_slice(value);
        if bytes.len() as u64 > bytes_max {
            return Err(ErrorReply::DumpTooLong.into());
        }
        let end_ms = expire_at.map(|at| moment.to_store(UnixMillis(at)).0.min(record::END_MS_MAX));
        fields.push(RestoredField { name_end, value_end: bytes.len(), end_ms });
    }
    let memory = bytes.capacity() + fields.capacity() * size_of::<RestoredField>();
    let grant = call.ctx.shared.budget.grant(MemoryUse::Walks, memory as u64).ok_or(ErrorReply::ClientMemory)?;
    Ok(RestoreWork { bytes, fields, done: 0, is_begun: false, grant })
}

/// Stores the fields of a hash that are left. The transaction of this command has locked the key.
fn restore_hash(call: &mut Call<'_, '_>, request: &Restore<'_>, mut work: Box<RestoreWork>) -> Run {
    match store_fields(call, request, &mut work) {
        Err(Interrupt::State(state)) => {
            slices::retain_work(call, StringWork::Restore(work));
            Err(state.into())
        }
        Err(fault) => {
            // No part of a value stays.
            if work.is_begun {
                remove(call, request.bytes)?;
            }
            Err(fault)
        }
        stored => stored,
    }
}

fn store_fields(call: &mut Call<'_, '_>, request: &Restore<'_>, work: &mut RestoreWork) -> Run {
    if !work.is_begun {
        if request.is_past {
            return end_past(call, request);
        }
        typed::room_to_store(call, work.bytes.len() as u64)?;
        remove(call, request.bytes)?;
        work.is_begun = true;
    }
    while work.done < work.fields.len() {
        let next = (work.done + FIELDS_AN_EDIT).min(work.fields.len());
        store_some(call, request, work, next)?;
        call.ops += (next - work.done) * OPS_A_FIELD;
        work.done = next;
        check_slice(call)?;
    }
    work.grant.shrink(0);
    note_store(call);
    call.out.push(reply::OK);
    Ok(())
}

/// Stores the fields up to number `next`.
fn store_some(call: &mut Call<'_, '_>, request: &Restore<'_>, work: &RestoreWork, next: usize) -> Run {
    let (first, now_ms) = (work.done, call.ctx.now.0);
    let begin = |at: usize| at.checked_sub(1).map_or(0, |before| work.fields[before].value_end);
    typed::edit_record(call, request.bytes, None, KeyEvent::RESTORE, &mut |_, edit, _| {
        for at in first..next {
            let RestoredField { name_end, value_end, end_ms } = work.fields[at];
            let (name, value) = (&work.bytes[begin(at)..name_end], &work.bytes[name_end..value_end]);
            let name = Name::new(name);
            if end_ms.is_some_and(|end| end <= now_ms) {
                continue;
            }
            edit.set(&name, &BinValue::of_text(value), false)?;
            if end_ms.is_some() {
                edit.set_end(&name, end_ms)?;
            }
        }
        Ok(Edited::StoreUntil(request.expire, ()))
    })
}
