//! `RESTORE`: stores a value that `DUMP` or another server has written.
//!
//! ```text
//!   payload ──> checksum ──> elements, which are checked ──> lock of the key ──> old value replaced, others added
//!                       └──> string: stored at once
//! ```
//!
//! Each step takes several visits if the payload is long. The elements of a stream are not retained when they were
//! checked, but read once more to be stored. No value is changed before all elements are known to be
//! valid, and the store has room for them. If other writers then use up that room, the command waits for the background
//! to free some ([`typed::waits_for_room`]). If none is freed, no part of the value stays. The old value is then lost,
//! unless the first elements could not be stored.

use super::catalog::lower;
use super::collection;
use super::dump::check_slice;
use super::error::ErrorReply;
use super::expire::{Deadline, Unit};
use super::number::integer;
use super::slices;
use super::stream;
use super::string::note_store;
use super::typed::{self, Edited};
use crate::memory::budget::{Grant, MemoryUse};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::state::dump_work::{Detail, RestoreStage, RestoreWork, RestoredElements};
use crate::resp::state::stream_intake::StreamRestore;
use crate::resp::state::string_work::StringWork;
use crate::resp::state::transaction::QUEUE_BYTES_MAX;
use crate::visit::clock::Moment;
use crate::visit::progress::SessionWait;
use base::clock::UnixMillis;
use protocol::resp::{Args, reply};
use rdb::{DumpError, DumpReader, Element, ReadLimits, ValueType};
use record::{Collection, Damaged, ListEdit, ListEnd, Lists, Name, SetEdit, SortedSetEdit, SortedSets, TextSets};
use record::{Value as BinValue, bin_bytes_max};
use segment::{Attempts, Expire, Loaded, Put, PutMode, PutOutcome, Replaced, Replacement};

/// The number of bytes that are added to the checksum between two checks of the slice, and their cost in operations.
const SUM_STEP: usize = 16 << 10;
const SUM_OPS: usize = 16;
/// The number of elements that are read between two checks of the slice, and their cost in operations.
const ELEMENTS_READ_A_STEP: usize = 16;
const READ_OPS: usize = 4;
/// The number of elements that one edit of a value stores, and the cost of each in operations.
const ELEMENTS_AN_EDIT: usize = 16;
const OPS_AN_ELEMENT: usize = 3;
/// The number of bytes of parts, at most, that edits have replaced and that are not free again yet.
const EDITED_BYTES_MAX: usize = 256 << 10;
/// The number of times that a value is stored from its first element on, because what was stored of it was evicted.
const TRIES_MAX: u32 = 3;

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
    /// The error of a time that is out of range. As in Redis, the payload is checked first.
    time_fault: Option<ErrorReply>,
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
    if integer(ttl)? < 0 {
        return Err(ErrorReply::RestoreTtl.into());
    }
    let (expire, is_past, time_fault) = match expiry(ttl, options, call.moment()) {
        Ok((expire, is_past)) => (expire, is_past, None),
        Err(fault) => (Expire::Never, false, Some(fault)),
    };
    let request = Restore { bytes, payload, options, expire, is_past, time_fault };
    let work = match work {
        Some(work) => work,
        None if !call.collects_replies && !rdb::is_text(payload) => {
            return Err(slices::run_locked(call, "restore", all, bytes));
        }
        None => {
            let grant = Grant::none(&call.ctx.shared.budget, MemoryUse::Walks);
            let (stage, elements, stream) = Default::default();
            Box::new(RestoreWork { stage, elements, stream, full_since: None, grant })
        }
    };
    restore_over_visits(call, &request, work)
}

/// Returns the expiry that a time to live of at least 0 stands for, and whether it has passed.
fn expiry(ttl: &[u8], options: RestoreOptions, moment: Moment) -> Result<(Expire, bool), ErrorReply> {
    match integer(ttl)? {
        0 => Ok((Expire::Never, false)),
        _ => {
            let unit = if options.is_absolute { Unit::UnixMillis } else { Unit::Millis };
            let deadline = Deadline::read(ttl, unit, moment, "restore")?;
            Ok((deadline.expire(), deadline.is_past(moment.now)))
        }
    }
}

/// Continues with the stage that an earlier visit has reached.
fn restore_over_visits<'c>(call: &mut Call<'c, '_>, request: &Restore<'c>, mut work: Box<RestoreWork>) -> Run {
    let ran = check(call, request, &mut work)
        .and_then(|()| request.time_fault.map_or(Ok(()), |fault| Err(fault.into())))
        .and_then(|()| read(call, request, &mut work))
        .and_then(|()| store(call, request, &mut work));
    match ran {
        Err(Interrupt::State(state)) => {
            if call.collects_replies {
                slices::retain_work(call, StringWork::Restore(work));
            }
            Err(state.into())
        }
        Err(fault) => {
            let RestoreStage::Store { is_begun: true, has_part, .. } = work.stage else { return Err(fault) };
            if typed::waits_for_room(call, &fault, &mut work.full_since) {
                slices::retain_work(call, StringWork::Restore(work));
                return Err(SessionWait::Yield.into());
            }
            if has_part {
                match remove(call, request.bytes) {
                    // The next visit finds the same fault and tries again to remove the part of the value.
                    Err(Interrupt::State(state)) => {
                        slices::retain_work(call, StringWork::Restore(work));
                        return Err(state.into());
                    }
                    removed => removed?,
                };
            }
            Err(fault)
        }
        stored => stored,
    }
}

/// Returns the limits of what is read from a payload.
fn limits() -> ReadLimits {
    ReadLimits { string_bytes_max: QUEUE_BYTES_MAX as u64 }
}

/// Returns the error reply for a payload that is refused.
fn refused(error: DumpError) -> Interrupt {
    match error {
        DumpError::VersionOrSum => ErrorReply::DumpFooter.into(),
        DumpError::Value(_) => ErrorReply::BadDump.into(),
    }
}

/// Checks the version and the checksum, and begins to read the value.
fn check(call: &mut Call<'_, '_>, request: &Restore<'_>, work: &mut RestoreWork) -> Run {
    let RestoreStage::Check(check) = &mut work.stage else { return Ok(()) };
    while !check.advance(request.payload, SUM_STEP).map_err(refused)? {
        call.ops += SUM_OPS;
        check_slice(call)?;
    }
    let reader = DumpReader::of_checked(request.payload, limits()).map_err(refused)?;
    let value_type = reader.value_type();
    if value_type == ValueType::Module {
        return Err(ErrorReply::DumpType.into());
    }
    work.elements.value_type = value_type;
    work.stage = RestoreStage::Read(Box::new(reader.pause()));
    Ok(())
}

/// Reads the elements. A string is only checked.
fn read(call: &mut Call<'_, '_>, request: &Restore<'_>, work: &mut RestoreWork) -> Run {
    while work.elements.value_type != ValueType::String && matches!(work.stage, RestoreStage::Read(_)) {
        let RestoreStage::Read(paused) = std::mem::take(&mut work.stage) else { return Ok(()) };
        let mut reader = DumpReader::resume(request.payload, *paused, limits()).map_err(refused)?;
        let is_end = match work.elements.value_type {
            ValueType::Stream => check_stream(call, &mut reader, work)?,
            _ => read_some(call, &mut reader, work)?,
        };
        call.ops += READ_OPS;
        let memory = work.elements.held_bytes() + work.stream.intake.held_bytes();
        if !work.grant.resize(memory as u64) {
            return Err(ErrorReply::ClientMemory.into());
        }
        work.stage = match is_end {
            true => RestoreStage::Store { done: 0, is_begun: false, has_part: false, tries: 0 },
            false => RestoreStage::Read(Box::new(reader.pause())),
        };
        check_slice(call)?;
    }
    Ok(())
}

/// Reads the elements of one step. Returns true after the last one.
fn read_some(call: &Call<'_, '_>, reader: &mut DumpReader<'_>, work: &mut RestoreWork) -> Result<bool, Interrupt> {
    let (moment, element_bytes_max) = (call.moment(), call.guard.sizes().element_bytes_max());
    let elements = &mut work.elements;
    for _ in 0..ELEMENTS_READ_A_STEP {
        let element = reader.next_element().map_err(|_| ErrorReply::BadDump)?;
        let (name, value, detail) = match element {
            None if elements.is_empty() => return Err(ErrorReply::BadDump.into()),
            None => return Ok(true),
            Some(Element::Member(member)) => (member, &b""[..], Detail::None),
            Some(Element::Scored { member, score }) => (member, &b""[..], Detail::Score(score)),
            Some(Element::Field { name, value, expire_at_ms }) => {
                let end = expire_at_ms.map(|at| moment.to_store(UnixMillis(at)).0.min(record::END_MS_MAX));
                (name, value, end.map_or(Detail::None, Detail::End))
            }
            Some(_) => return Err(ErrorReply::BadDump.into()),
        };
        if bin_bytes_max(name, value) > element_bytes_max {
            let is_hash = elements.value_type == ValueType::Hash;
            return Err(if is_hash { ErrorReply::RecordTooLarge } else { ErrorReply::ElementTooLong }.into());
        }
        if !elements.add(name, value, detail) {
            return Err(ErrorReply::BadDump.into());
        }
        if elements.text_bytes() > QUEUE_BYTES_MAX {
            return Err(ErrorReply::DumpTooLong.into());
        }
    }
    Ok(false)
}

/// Reads and checks some elements of a stream. Returns true after the last one.
fn check_stream(call: &Call<'_, '_>, reader: &mut DumpReader<'_>, work: &mut RestoreWork) -> Result<bool, Interrupt> {
    let is_end = stream::read_some(call, reader, &mut work.stream.intake)?;
    work.stream.bytes += work.stream.intake.stored_bytes();
    work.stream.intake.drop_complete();
    Ok(is_end)
}

/// Stores the value.
fn store(call: &mut Call<'_, '_>, request: &Restore<'_>, work: &mut RestoreWork) -> Run {
    match work.elements.value_type {
        ValueType::String => restore_string(call, request),
        ValueType::Stream => store_stream(call, request, work),
        _ => store_elements(call, request, work),
    }
}

fn restore_string(call: &mut Call<'_, '_>, request: &Restore<'_>) -> Run {
    let mut reader = DumpReader::of_checked(request.payload, limits()).map_err(refused)?;
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

/// Removes the old value instead of storing one that has expired. Without `REPLACE`, there was no old value: another
/// client has stored what may be there now.
fn end_past(call: &mut Call<'_, '_>, request: &Restore<'_>) -> Run {
    if request.options.replace && remove(call, request.bytes)? {
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

/// Stores the elements that are left. The transaction of this command has locked the key.
fn store_elements(call: &mut Call<'_, '_>, request: &Restore<'_>, work: &mut RestoreWork) -> Run {
    let RestoreStage::Store { done, is_begun, has_part, tries } = &mut work.stage else { return Ok(()) };
    let elements = &work.elements;
    if !*is_begun && request.is_past {
        return end_past(call, request);
    }
    begin_to_store(call, is_begun, elements.text_bytes())?;
    while *done < elements.len() {
        let next = (*done + ELEMENTS_AN_EDIT).min(elements.len());
        if store_some(call, request, elements, *done..next)? {
            call.ops += (next - *done) * OPS_AN_ELEMENT;
            (*done, *has_part) = (next, true);
        } else if has_ended(call, request) {
            break;
        } else {
            (*done, *tries) = (0, *tries + 1);
            if *tries > TRIES_MAX {
                return Err(ErrorReply::OutOfMemory.into());
            }
        }
        check_slice(call)?;
    }
    work.grant.shrink(0);
    note_store(call);
    end(call, request)
}

/// Begins to store, unless `is_begun`, if the store has room for the new value of `bytes` bytes.
fn begin_to_store(call: &mut Call<'_, '_>, is_begun: &mut bool, bytes: usize) -> Run {
    if !*is_begun {
        let room = 2 * bytes + (4 * bytes).min(EDITED_BYTES_MAX);
        typed::room_to_store(call, room as u64)?;
        *is_begun = true;
    }
    Ok(())
}

/// Reads the next elements of a stream, which were checked, once more. Returns true if all of them are stored.
fn read_again(call: &Call<'_, '_>, request: &Restore<'_>, work: &mut StreamRestore) -> Result<bool, Interrupt> {
    let reader = match work.reader.take() {
        Some(paused) => DumpReader::resume(request.payload, *paused, limits()),
        None => DumpReader::of_checked(request.payload, limits()),
    };
    let mut reader = reader.map_err(refused)?;
    let is_end = stream::read_some(call, &mut reader, &mut work.intake)?;
    work.reader = Some(Box::new(reader.pause()));
    Ok(is_end && work.intake.complete() == 0)
}

/// Reads the elements of a stream once more and stores them. The transaction of this command has locked the key.
fn store_stream(call: &mut Call<'_, '_>, request: &Restore<'_>, work: &mut RestoreWork) -> Run {
    let RestoreStage::Store { is_begun, has_part, tries, .. } = &mut work.stage else { return Ok(()) };
    if !*is_begun && request.is_past {
        return end_past(call, request);
    }
    if !*is_begun {
        begin_to_store(call, is_begun, work.stream.bytes)?;
        work.stream = StreamRestore::default();
    }
    loop {
        if work.stream.intake.complete() == 0 && read_again(call, request, &mut work.stream)? {
            break;
        }
        let count = work.stream.intake.complete();
        call.ops += READ_OPS + count * OPS_AN_ELEMENT;
        if count > 0 && stream::restore_some(call, request.bytes, request.expire, &mut work.stream)? {
            *has_part = true;
        } else if count > 0 {
            if has_ended(call, request) {
                break;
            }
            (work.stream, *tries) = (StreamRestore::default(), *tries + 1);
            if *tries > TRIES_MAX {
                return Err(ErrorReply::OutOfMemory.into());
            }
        }
        check_slice(call)?;
    }
    work.grant.shrink(0);
    note_store(call);
    end(call, request)
}

/// Returns true if the expiry of the new value has passed.
fn has_ended(call: &Call<'_, '_>, request: &Restore<'_>) -> bool {
    matches!(request.expire, Expire::At(at) if at <= call.ctx.now)
}

/// Stores elements: the first ones in place of the old value. Returns false, and stores nothing, if those before them
/// are not there any more.
fn store_some(
    call: &mut Call<'_, '_>,
    request: &Restore<'_>,
    elements: &RestoredElements,
    range: std::ops::Range<usize>,
) -> Result<bool, Interrupt> {
    match elements.value_type {
        ValueType::List => store_members::<Lists>(call, request, elements, range),
        ValueType::Set => store_members::<TextSets>(call, request, elements, range),
        ValueType::SortedSet => store_members::<SortedSets>(call, request, elements, range),
        _ => store_fields(call, request, elements, range),
    }
}

/// A collection that is restored.
trait Restored: Collection {
    /// Adds an element, which the collection does not have.
    fn add(edit: &mut Self::Edit<'_>, text: &[u8], detail: Detail) -> Result<(), Damaged>;
}

impl Restored for Lists {
    fn add(edit: &mut ListEdit<'_>, text: &[u8], _: Detail) -> Result<(), Damaged> {
        edit.push(ListEnd::Right, text)
    }
}

impl Restored for TextSets {
    fn add(edit: &mut SetEdit<'_>, text: &[u8], _: Detail) -> Result<(), Damaged> {
        edit.add(&Name::new(text)).map(drop)
    }
}

impl Restored for SortedSets {
    fn add(edit: &mut SortedSetEdit<'_>, text: &[u8], detail: Detail) -> Result<(), Damaged> {
        let Detail::Score(score) = detail else { return Err(Damaged) };
        edit.set(text, None, score)
    }
}

fn store_members<C: Restored>(
    call: &mut Call<'_, '_>,
    request: &Restore<'_>,
    elements: &RestoredElements,
    range: std::ops::Range<usize>,
) -> Result<bool, Interrupt> {
    let is_first = range.start == 0;
    let (is_there, _) = collection::change_from::<C, _>(call, request.bytes, is_first, &mut |old, edit| {
        if old.is_none() && !is_first {
            return Ok(Edited::Keep(false));
        }
        for at in range.clone() {
            let (text, _, detail) = elements.get(at);
            C::add(edit, text, detail)?;
        }
        Ok(Edited::StoreUntil(request.expire, true))
    })?;
    Ok(is_there)
}

fn store_fields(
    call: &mut Call<'_, '_>,
    request: &Restore<'_>,
    elements: &RestoredElements,
    range: std::ops::Range<usize>,
) -> Result<bool, Interrupt> {
    let now_ms = call.ctx.now.0;
    // The event follows the last field.
    call.session.is_published = true;
    let is_first = range.start == 0;
    typed::edit_record_from(call, request.bytes, (None, is_first), KeyEvent::RESTORE, &mut |_, edit, _| {
        for at in range.clone() {
            let (name, value, detail) = elements.get(at);
            let name = Name::new(name);
            if matches!(detail, Detail::End(end) if end <= now_ms) {
                continue;
            }
            edit.set(&name, &BinValue::of_text(value), false)?;
            if let Detail::End(end) = detail {
                edit.set_end(&name, Some(end))?;
            }
        }
        Ok(Edited::StoreUntil(request.expire, true))
    })
}
