//! `DUMP`: a value in the format of Redis's files, which the crate `rdb` writes.
//!
//! ```text
//!   value, part by part ──> payload ──> checksum, part by part ──> reply
//! ```
//!
//! The key of a short value is not locked, so another client may change the value between two looks at it. The dump
//! then starts over.

use super::aside;
use super::collection;
use super::error::ErrorReply;
use super::slices;
use super::stream;
use super::typed::{self, KeyParts, live};
use crate::memory::budget::MemoryUse;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::state::dump_work::{DumpPart, DumpWork, StreamPlace};
use crate::resp::state::string_work::StringWork;
use crate::resp::state::transaction::ANSWER_BYTES_MAX;
use crate::resp::state::walk::Reading;
use crate::visit::progress::SessionWait;
use base::clock::UnixMillis;
use protocol::resp::{Args, reply};
use rdb::{PayloadWriter, ValueType};
use record::{
    Collection, Damaged, Digits, HASHES, Kind, ListValue, Lists, SetValue, SortedSetValue, SortedSets, Streams,
    TextSets, Value,
};
use segment::Item;

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
/// The maximum number of elements of a collection that are copied between two checks of the slice, and the number of
/// bytes after which no more are copied.
const ELEMENTS_A_STEP: usize = 256;
const BYTES_A_STEP: usize = 32 << 10;
/// The number of elements that cost one operation.
const ELEMENTS_AN_OP: usize = 8;

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
            if !work.reading.is_new() {
                slices::retain_work(call, StringWork::Dump(work));
            }
            Err(state.into())
        }
        // The key had another type when it was looked up.
        Err(Interrupt::Fault(ErrorReply::WrongType)) if !call.collects_replies => Err(SessionWait::Yield.into()),
        ran => ran,
    }
}

/// A value to dump.
struct Found {
    value_type: ValueType,
    /// The identity of a hash, from whose fields the head of the payload is chosen.
    identity: Option<(u64, u32, u64)>,
    /// The length of a string.
    len: Option<u64>,
    /// True if fields of a hash may expire.
    has_ends: bool,
    /// True if the value is too long for one visit.
    is_long: bool,
}

/// Returns the facts about an item that its dump needs.
fn found(call: &Call<'_, '_>, item: &Item<'_>, parts: &KeyParts<'_>) -> Result<Option<Found>, ErrorReply> {
    let segment::Value::Typed { kind, .. } = item.value else {
        let (len, value_type) = (item.value_len(), ValueType::String);
        let is_long = len > FIRST_BYTES_MAX;
        return Ok(Some(Found { value_type, identity: None, len: Some(len), has_ends: false, is_long }));
    };
    let kind = Kind::of(kind).ok_or(ErrorReply::Damaged)?;
    let value_type = match kind {
        Kind::List | Kind::LargeList => ValueType::List,
        Kind::Set | Kind::LargeSet => ValueType::Set,
        Kind::SortedSet | Kind::LargeSortedSet => ValueType::SortedSet,
        Kind::Hash | Kind::InSet | Kind::Large | Kind::LargeInSet => ValueType::Hash,
        Kind::Stream | Kind::LargeStream => ValueType::Stream,
    };
    if value_type != ValueType::Hash {
        let is_long = kind.is_large();
        return Ok(Some(Found { value_type, identity: None, len: None, has_ends: false, is_long }));
    }
    let record = typed::record(Some(item), call.ctx.view(), parts)?;
    Ok(record.map(|record| Found {
        value_type,
        identity: Some(record.identity()),
        len: None,
        has_ends: record.has_ends(),
        is_long: record.is_large(),
    }))
}

/// Looks the value up. Returns the state of its dump, and whether it is too long for one visit.
fn begin_dump(call: &mut Call<'_, '_>, bytes: &[u8]) -> Result<Option<(DumpWork, bool)>, Interrupt> {
    let key = call.key(bytes);
    let found = match live(call.guard.items().get(&key), call.ctx.view()) {
        None => None,
        Some(item) => found(call, &item, &KeyParts::new(call.guard, key))?,
    };
    call.count_read(found.is_some());
    let Some(Found { value_type, identity, len, has_ends, is_long }) = found else { return Ok(None) };
    if len.is_some_and(|len| len > ANSWER_BYTES_MAX as u64) {
        return Err(ErrorReply::RepliesTooLong.into());
    }
    let memory = 2 * HEAD_ROOM as u64 + 64 + len.unwrap_or(0);
    let grant = call.ctx.shared.budget.grant(MemoryUse::Walks, memory).ok_or(ErrorReply::ClientMemory)?;
    let mut writer = match value_type {
        ValueType::List => PayloadWriter::list(HEAD_ROOM),
        ValueType::Set => PayloadWriter::set(HEAD_ROOM),
        ValueType::SortedSet => PayloadWriter::sorted_set(HEAD_ROOM),
        ValueType::Stream => PayloadWriter::stream(HEAD_ROOM),
        ValueType::Hash => PayloadWriter::hash(None, HEAD_ROOM),
        _ => PayloadWriter::text(len.unwrap_or(0), HEAD_ROOM),
    };
    writer.reserve(len.unwrap_or(0) as usize);
    let (part, end) = if has_ends { (DumpPart::Earliest, HASHES) } else { (DumpPart::Value, len.unwrap_or(HASHES)) };
    let reading = Reading { identity, ..Reading::default() };
    let place = StreamPlace::Entry(0);
    let work = DumpWork { part, writer, value_type, end, cursor: 0, earliest: None, place, reading, grant };
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
        while work.cursor < work.end {
            match work.value_type {
                ValueType::List => copy_elements::<Lists>(call, bytes, work)?,
                ValueType::Set => copy_elements::<TextSets>(call, bytes, work)?,
                ValueType::SortedSet => copy_elements::<SortedSets>(call, bytes, work)?,
                ValueType::Hash => copy_fields(call, bytes, work)?,
                ValueType::Stream => copy_stream(call, bytes, work)?,
                _ => copy_text(call, bytes, work)?,
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
pub(super) fn check_slice(call: &Call<'_, '_>) -> Run {
    if call.collects_replies && call.is_slice_used() { Err(SessionWait::Yield.into()) } else { Ok(()) }
}

/// Copies the next bytes of a string, or all of them if the key is not locked.
fn copy_text(call: &mut Call<'_, '_>, bytes: &[u8], work: &mut DumpWork) -> Run {
    let (key, len) = (call.key(bytes), work.end);
    let item = live(call.guard.items().peek(&key), call.ctx.view());
    let end = if call.collects_replies { (work.cursor + COPY_STEP).min(len) } else { len };
    let range = work.cursor..end;
    let writer = &mut work.writer;
    let is_read = item.is_some_and(|item| {
        typed::string(Some(&item)).is_ok()
            && item.value_len() == len
            && call.guard.pieces().copy_range(&key, item.value, range, &mut |part| writer.push(part))
    });
    if !is_read {
        // Since it was looked up, the value was replaced or evicted, or has lost a piece. The command starts over.
        work.reading.identity = None;
        return Err(SessionWait::Yield.into());
    }
    call.ops += COPY_OPS * (end - work.cursor).div_ceil(COPY_STEP) as usize;
    work.cursor = end;
    work.reading.allow_changes();
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
    let step = slices::read_consistently(call, bytes, &mut work.reading, |_, record, now_ms| {
        let Some(record) = record else { return Ok(None) };
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
        Ok(Some((to, fields, copied)))
    })?;
    let Some((to, fields, copied)) = step else { return Err(key_lost(call, work)) };
    work.cursor = to;
    check_memory(work)?;
    call.ops += 2 + fields / 2 + copied / COPY_STEP as usize * COPY_OPS;
    Ok(())
}

/// Accounts for the memory of the payload, and checks its length.
fn check_memory(work: &mut DumpWork) -> Run {
    if work.writer.capacity() > ANSWER_BYTES_MAX {
        return Err(ErrorReply::RepliesTooLong.into());
    }
    if !work.grant.resize(work.writer.capacity() as u64) {
        return Err(ErrorReply::ClientMemory.into());
    }
    Ok(())
}

/// Lets the command start over, because the key was removed since the command looked it up.
fn key_lost(call: &mut Call<'_, '_>, work: &mut DumpWork) -> Interrupt {
    slices::restart(call.session, call.guard, &mut work.reading)
}

/// A collection that is dumped.
trait Dumped: Collection {
    /// Writes elements from number `from` on, until a step is full. Returns the numbers of elements and of their bytes.
    fn write(value: &Self::Value<'_>, from: u64, to: &mut PayloadWriter) -> Result<(usize, usize), Damaged>;
}

/// Writes elements until a step is full. `write` writes one and returns its length.
fn write_step<T>(
    elements: impl Iterator<Item = Result<T, Damaged>>,
    mut write: impl FnMut(T) -> usize,
) -> Result<(usize, usize), Damaged> {
    let (mut count, mut bytes) = (0, 0);
    for element in elements.take(ELEMENTS_A_STEP) {
        (count, bytes) = (count + 1, bytes + write(element?));
        if bytes >= BYTES_A_STEP {
            break;
        }
    }
    Ok((count, bytes))
}

/// Writes a member of a list or a set. Returns its length.
fn write_member(to: &mut PayloadWriter, member: &Value<'_>) -> usize {
    let mut digits = Digits::new();
    let text = member.text(&mut digits);
    to.member(text);
    text.len()
}

impl Dumped for Lists {
    fn write(list: &ListValue<'_>, from: u64, to: &mut PayloadWriter) -> Result<(usize, usize), Damaged> {
        write_step(list.from(from)?, |member| write_member(to, &member))
    }
}

impl Dumped for TextSets {
    fn write(set: &SetValue<'_>, from: u64, to: &mut PayloadWriter) -> Result<(usize, usize), Damaged> {
        write_step(set.from(from)?, |member| write_member(to, &member))
    }
}

impl Dumped for SortedSets {
    fn write(set: &SortedSetValue<'_>, from: u64, to: &mut PayloadWriter) -> Result<(usize, usize), Damaged> {
        write_step(set.from(from)?, |(score, member)| {
            let mut digits = Digits::new();
            let text = member.text(&mut digits);
            to.scored(text, score);
            text.len()
        })
    }
}

/// Copies the next elements of a collection.
fn copy_elements<C: Dumped>(call: &mut Call<'_, '_>, bytes: &[u8], work: &mut DumpWork) -> Run {
    let (from, writer) = (work.cursor, &mut work.writer);
    let step = collection::look_consistently::<C, _>(call, bytes, &mut work.reading, |_, value| {
        let Some(value) = value else { return Ok(None) };
        let (count, copied) = C::write(value, from, writer)?;
        Ok(Some((C::len(value), count, copied)))
    })?;
    let Some((len, count, copied)) = step else { return Err(key_lost(call, work)) };
    (work.end, work.cursor) = (len, from + count as u64);
    check_memory(work)?;
    call.ops += 1 + count / ELEMENTS_AN_OP + copied / COPY_STEP as usize * COPY_OPS;
    Ok(())
}

/// Copies the next elements of a stream.
fn copy_stream(call: &mut Call<'_, '_>, bytes: &[u8], work: &mut DumpWork) -> Run {
    let (place, writer) = (work.place, &mut work.writer);
    let step = collection::look_consistently::<Streams, _>(call, bytes, &mut work.reading, |_, stream| {
        Ok(stream.map(|stream| stream::dump_some(stream, place, writer)).transpose()?)
    })?;
    let Some(step) = step else { return Err(key_lost(call, work)) };
    work.place = step.place;
    if step.place == StreamPlace::End {
        work.cursor = work.end;
    }
    check_memory(work)?;
    call.ops += 1 + step.texts / ELEMENTS_AN_OP + step.bytes / COPY_STEP as usize * COPY_OPS;
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
