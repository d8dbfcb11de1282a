//! Values with parts among the commands: the type that a client sees, and the way to read and change one.
//!
//! ```text
//!   key ── item ──┬─ bytes, number, pieces     a string
//!                 └─ type byte, bytes          record::Kind: its commands have a file each
//! ```

use super::error::Fault;
use crate::context::WorkerContext;
use crate::keyspace::indexes::{Indexes, Moves};
use crate::push::notify::Event;
use crate::resp::call::{Call, Run, Stop};
use crate::resp::index_places::places_of;
use crate::resp::index_places::sweep;
use crate::resp::own_transaction;
use crate::resp::state::transaction::ANSWER_BYTES_MAX;
use crate::shared::Shared;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::OutBuffer;
use crate::visit::progress::{OPS_A_BATCH, State};
use base::clock::UnixMillis;
use protocol::resp::{Args, Version, reply};
use protocol::sink::Sink;
use record::{Damaged, Digits, Edit, InSet, Kind, Name, Record, Sets, Source};
use segment::{Change, Expire, Guard, Item, Key, OpError, Value};

impl From<Damaged> for Fault {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

impl From<Damaged> for Stop {
    fn from(damaged: Damaged) -> Self {
        Fault::from(damaged).into()
    }
}

/// The view through which values with parts are read.
#[derive(Clone, Copy)]
pub(crate) struct View<'v> {
    pub(super) now_ms: u64,
    pub(super) sets: &'v Sets,
    pub(super) indexes: &'v Indexes,
}

impl<'v> View<'v> {
    /// Values with parts as they are at an instant.
    pub(super) fn at(shared: &'v Shared, now: UnixMillis) -> Self {
        Self { now_ms: now.0, sets: &shared.sets, indexes: &shared.indexes }
    }
}

impl WorkerContext {
    /// Values with parts as they are in this iteration.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        View { now_ms: self.now.0, sets: &self.shared.sets, indexes: &self.shared.indexes }
    }
}

/// Location of the parts of a key's large record.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyParts<'t> {
    guard: &'t Guard<'t>,
    key: Key<'t>,
}

impl<'t> KeyParts<'t> {
    pub(super) fn new(guard: &'t Guard<'_>, key: Key<'t>) -> Self {
        Self { guard, key }
    }

    /// Returns the place at which a walk meets the key.
    pub(super) fn place(&self) -> u64 {
        self.guard.walks().walk_place(&self.key)
    }
}

impl Source for KeyParts<'_> {
    fn part(&self, object: u64, number: u64) -> Option<&[u8]> {
        self.guard.parts().part(&self.key, object, number)
    }

    fn fresh(&self) -> u64 {
        self.guard.parts().part_number()
    }
}

const _: () = assert!(Kind::Large as u8 & segment::KIND_IN_PARTS != 0, "the store is to know of its parts");
const _: () = assert!(record::ENTRY_BYTES == segment::ENTRY_BYTES, "the store is to find them");

/// Returns an item's type, as `TYPE` names it. Returns `None` if it has parts and all of them have ended, or its set
/// was truncated.
pub(super) fn type_name(item: &Item<'_>, view: View<'_>) -> Option<&'static str> {
    match item.value {
        Value::Typed { kind, bytes } => {
            let kind = Kind::of(kind)?;
            (kind.is_empty(bytes, view.sets, view.now_ms) != Ok(true)).then(|| kind.name())
        }
        _ => Some("string"),
    }
}

/// The item, unless all its parts have ended.
pub(super) fn live<'i>(item: Option<Item<'i>>, view: View<'_>) -> Option<Item<'i>> {
    item.filter(|item| type_name(item, view).is_some())
}

/// The item, if it is a string or nothing is there.
pub(super) fn string<'r, 'i>(item: Option<&'r Item<'i>>) -> Result<Option<&'r Item<'i>>, Fault> {
    match item {
        Some(Item { value: Value::Typed { .. }, .. }) => Err(Fault::WrongType),
        item => Ok(item),
    }
}

/// The record that an item holds, if a bin of it is there.
pub(super) fn record<'i>(
    item: Option<&Item<'i>>,
    view: View<'i>,
    parts: &'i KeyParts<'_>,
) -> Result<Option<Record<'i>>, Fault> {
    Ok(match opened(item, view, parts)? {
        Some(record) if !record.is_empty(view.now_ms)? => Some(record),
        _ => None,
    })
}

/// The record that an item holds, whether a bin of it is there or all have ended.
pub(super) fn opened<'i>(
    item: Option<&Item<'i>>,
    view: View<'i>,
    parts: &'i KeyParts<'_>,
) -> Result<Option<Record<'i>>, Fault> {
    let Some(item) = item else { return Ok(None) };
    let Value::Typed { kind, bytes } = item.value else { return Err(Fault::WrongType) };
    let kind = Kind::of(kind).ok_or(Fault::WrongType)?;
    Ok(Record::of(kind, bytes, view.sets, parts)?)
}

/// Outcome of an edit of a record.
pub(super) enum Edited<T> {
    /// Nothing.
    Keep(T),
    /// It is as it was edited; where nothing is left of it, it goes.
    Store(T),
    /// The same, and it ends then.
    StoreUntil(Expire, T),
    /// It goes.
    Remove(T),
}

/// A command that changes a record does so by this: from the record that was there, and with the next one, which
/// begins as its copy. It may be asked more than once.
pub(super) type EditRecord<'d, T> =
    dyn FnMut(Option<&Record<'_>>, &mut Edit<'_>, Expire) -> Result<Edited<T>, Fault> + 'd;

/// Changes the record under a key as `decide` says; sends `event` to subscribers if the record was changed.
pub(super) fn edit_record<T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    event: Event,
    decide: &mut EditRecord<'_, T>,
) -> Result<T, Stop> {
    edit_record_in(call, bytes, None, event, decide)
}

/// The same; a new record is of the set of this number.
pub(super) fn edit_record_in<T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    set: Option<u16>,
    event: Event,
    decide: &mut EditRecord<'_, T>,
) -> Result<T, Stop> {
    let (key, view) = (call.key(bytes), call.ctx.view());
    let set = set.and_then(|set| view.sets.of(set)).map(|set| InSet::new(view.sets, set));
    let goes_on = call.session.is_published;
    let mut moves = None;
    let stripe = if view.indexes.any() {
        moves = Some(Moves::default());
        Some(view.indexes.stripe(key.hash()).ok_or(State::Parked)?)
    } else {
        None
    };
    let changed = call.guard.parts_mut().change(&key, &mut |guard, item, scratch, parts| {
        let there = KeyParts::new(guard, key);
        let mut made = record::Parts::default();
        let scene = Scene { view, there: &there, set, goes_on };
        let change = edit(item, scratch, &mut made, scene, moves.as_mut(), decide);
        if !made.new.is_empty() || !made.gone.is_empty() {
            (parts.bytes, parts.new, parts.gone) = (made.bytes, made.new, made.gone);
        }
        change.unwrap_or_else(|fault| Change::Keep(Err(fault)))
    });
    let looked = match (&moves, &changed) {
        (Some(moves), Ok(Ok(_))) => view.indexes.note(moves, key.hash()),
        _ => Vec::new(),
    };
    drop(stripe);
    if !looked.is_empty() {
        sweep(view.indexes, call.guard, view, looked.into_iter());
    }
    match changed {
        Ok(answer) => {
            let (answer, became) = answer?;
            // One of a request that takes several visits.
            if became.stored && !std::mem::replace(&mut call.session.is_published, true) {
                call.changed(event, bytes);
            }
            if became.removed {
                call.changed(Event::DEL, bytes);
            }
            Ok(answer)
        }
        Err(OpError::TooLarge) => Err(Fault::RecordTooLarge.into()),
        Err(error) => Err(error.into()),
    }
}

/// Leaves out what has ended of a large record, some of its leaves at a time, so that what is left needs no count.
/// A revision is no other for it. Where there is no room to write, it stays as it is.
pub(super) fn sweep_ended(call: &mut Call<'_, '_>, bytes: &[u8]) -> Run {
    let key = call.key(bytes);
    loop {
        let view = call.ctx.view();
        let item = call.guard.items().peek(&key);
        let there = KeyParts::new(call.guard, key);
        if !opened(item.as_ref(), view, &there)?.is_some_and(|record| record.is_due(view.now_ms)) {
            return Ok(());
        }
        if call.ops >= OPS_A_BATCH {
            return Err(State::Yield.into());
        }
        call.ops += SWEPT_LEAVES;
        let swept = call.guard.parts_mut().change(&key, &mut |guard, item, scratch, parts| {
            let there = KeyParts::new(guard, key);
            let mut made = record::Parts::default();
            let change = sweep_some(item, scratch, &mut made, view, &there);
            (parts.bytes, parts.new, parts.gone) = (made.bytes, made.new, made.gone);
            change.unwrap_or_else(|fault| Change::Keep(Err(fault)))
        });
        match swept {
            Ok(Ok(Swept::Stored)) => {}
            Ok(Ok(Swept::Gone)) => call.changed(Event::DEL, bytes),
            Ok(Err(fault)) => return Err(fault.into()),
            Err(OpError::OutOfMemory) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns whether there is a value under a key. If all parts of a value have ended, this call removes it, like a
/// value that has ended itself.
pub(super) fn is_there(call: &mut Call<'_, '_>, key: &Key<'_>) -> Result<bool, Stop> {
    let is_typed = |item: Item<'_>| matches!(item.value, Value::Typed { .. });
    match call.guard.items().peek(key).map(is_typed) {
        None => return Ok(false),
        Some(false) => return Ok(true),
        Some(true) => sweep_ended(call, key.bytes())?,
    }
    let view = call.ctx.view();
    let Some(item) = call.guard.items().peek(key) else { return Ok(false) };
    if live(Some(item), view).is_some() {
        return Ok(true);
    }
    let gone = call.guard.items_mut().change(key, &mut |_, item, _| match (item, live(item.copied(), view)) {
        (Some(_), None) => Change::Remove(true),
        _ => Change::Keep(false),
    })?;
    if gone {
        call.changed(Event::DEL, key.bytes());
    }
    Ok(!gone && call.guard.items().peek(key).is_some())
}

/// A command that may make more of what there is goes on only if there is room, where nothing is evicted.
pub(super) fn room_to_store(call: &Call<'_, '_>, bytes: u64) -> Run {
    Ok(call.ctx.check_room(call.session.namespace, bytes)?)
}

/// The longest answer that there can be room for here, in bytes.
pub(super) fn answer_bytes_max(call: &Call<'_, '_>) -> usize {
    if call.beside { ANSWER_BYTES_MAX } else { call.ctx.request_bytes_max }
}

/// Runs a command of this name; an answer that no output has room for is put together beside it.
pub(super) fn at_any_length<'c, 'l>(
    call: &mut Call<'c, 'l>,
    name: &'static str,
    args: Args<'c>,
    run: impl FnOnce(&mut Call<'c, 'l>, Args<'c>) -> Run,
) -> Run {
    let mark = call.out.mark();
    match run(call, args) {
        Err(Stop::Fault(Fault::AnswerTooLong)) if !call.beside => {
            call.out.truncate(mark);
            own_transaction::run_beside(call, super::catalog::entry(name), args)
        }
        ran => ran,
    }
}

/// An answer of so many bytes is put if the output has room for it, or is an error if it never has.
pub(super) fn answer_fits(call: &Call<'_, '_>, bytes: usize) -> Run {
    answer_room(call.out, answer_bytes_max(call), bytes)
}

/// Goes on only if there is room for an answer of so many bytes and a line. No output is longer than `bytes_max`.
pub(super) fn answer_room(out: &OutBuffer, bytes_max: usize, bytes: usize) -> Run {
    let want = bytes.saturating_add(LINE_ROOM);
    match out.room() < want {
        false => Ok(()),
        true if want > bytes_max => Err(Fault::AnswerTooLong.into()),
        true => Err(State::OutputFull { want }.into()),
    }
}

/// Leaves of a large record that are looked through for what has ended in one go.
const SWEPT_LEAVES: usize = 16;

/// Outcome for a record some of whose bins have ended.
enum Swept {
    /// It is without them.
    Stored,
    /// No bins were left.
    Gone,
}

fn sweep_some(
    item: Option<&Item<'_>>,
    scratch: &mut Vec<u8>,
    parts: &mut record::Parts,
    view: View<'_>,
    there: &KeyParts<'_>,
) -> Result<Change<Result<Swept, Fault>>, Fault> {
    let (Some(old), Some(item)) = (opened(item, view, there)?, item) else {
        return Ok(Change::Keep(Ok(Swept::Stored)));
    };
    let edit = Edit::swept(&old, view.now_ms, SWEPT_LEAVES, scratch)?;
    Ok(match edit.finish_with(there, parts)? {
        Some(kind) => Change::StoreTyped { kind: kind as u8, expire: item.expire, answer: Ok(Swept::Stored) },
        None => Change::Remove(Ok(Swept::Gone)),
    })
}

/// Returns whether all bins of a record fit into the output with the lines before them, without a look at each of them.
pub(super) fn has_room_for_all(out: &OutBuffer, record: &Record<'_>) -> bool {
    record.answer_bytes_max().is_some_and(|bytes| out.room() >= bytes + LINE_ROOM)
}

/// Outcome for a key with a record, or without.
#[derive(Clone, Copy)]
struct Became {
    /// The record is another one, or was before it went.
    stored: bool,
    /// It is gone.
    removed: bool,
}

/// The result for the command, and the outcome for others.
type Done<T> = Result<(T, Became), Fault>;

/// The context in which a record is changed.
struct Scene<'s> {
    view: View<'s>,
    there: &'s KeyParts<'s>,
    /// The set of a new one.
    set: Option<InSet<'s>>,
    /// It is a later part of a change that is made in several.
    goes_on: bool,
}

fn edit<T>(
    item: Option<&Item<'_>>,
    scratch: &mut Vec<u8>,
    parts: &mut record::Parts,
    scene: Scene<'_>,
    mut moves: Option<&mut Moves>,
    decide: &mut EditRecord<'_, T>,
) -> Result<Change<Done<T>>, Fault> {
    let Scene { view, there, set, goes_on } = scene;
    let old = record(item, view, there)?;
    // What has ended without being gone is not followed by what comes after it.
    let present = item.filter(|_| old.is_some()).map_or(Expire::Never, |item| item.expire);
    let set = old.as_ref().map_or(set, Record::set);
    if let Some(moves) = moves.as_deref_mut() {
        moves.of = set.map(|set| view.indexes.of(set.set().number())).unwrap_or_default();
        let old = places_of(&moves.of, old.as_ref(), view.now_ms)?;
        moves.places = old.into_iter().map(|place| [place, place]).collect();
    }
    let mut edit = match old.as_ref().filter(|_| goes_on) {
        Some(old) => Edit::going_on(old, view.now_ms, scratch)?,
        None => Edit::in_set(old.as_ref(), set, view.now_ms, scratch)?,
    };
    let done = |answer: T, stored: bool, removed: bool| Ok((answer, Became { stored, removed }));
    let (expire, answer) = match decide(old.as_ref(), &mut edit, present)? {
        Edited::Keep(answer) => return Ok(Change::Keep(done(answer, false, false))),
        Edited::Remove(answer) => {
            if let Some(moves) = moves {
                moves.places.iter_mut().for_each(|[_, new]| *new = None);
            }
            return Ok(Change::Remove(done(answer, false, old.is_some())));
        }
        Edited::Store(answer) => (present, answer),
        Edited::StoreUntil(expire, answer) => (expire, answer),
    };
    if let Some(moves) = moves {
        for (index, [_, new]) in moves.of.iter().zip(&mut moves.places) {
            *new = edit.bin(&Name::new(&index.bin))?.and_then(|bin| index.kind.place(&bin.value));
        }
    }
    Ok(match edit.finish_with(there, parts)? {
        Some(kind) => Change::StoreTyped { kind: kind as u8, expire, answer: done(answer, true, false) },
        None => Change::Remove(done(answer, old.is_some(), old.is_some())),
    })
}

/// The most bytes that a value takes in an answer.
pub(super) fn reply_bytes(value: &record::Value<'_>) -> usize {
    const LINES: usize = reply::NUMBER_LINE_BYTES_MAX + 2;
    LINES
        + match value {
            record::Value::Text(text) | record::Value::Bytes(text) => text.len(),
            record::Value::Integer(_) => Digits::MAX,
            record::Value::Float(_) => Digits::FLOAT_MAX,
            record::Value::Bool(_) => 1,
            // As text, or each of their parts.
            value => value.text(&mut Digits::new()).len() + parts(value).map(|part| reply_bytes(&part)).sum::<usize>(),
        }
}

/// The values in a list or a map, its keys among them.
fn parts<'v>(value: &record::Value<'v>) -> impl Iterator<Item = record::Value<'v>> {
    let (list, map) = match *value {
        record::Value::List(list) => (Some(list), None),
        record::Value::Map(map) => (None, Some(map)),
        _ => (None, None),
    };
    let pairs = map.into_iter().flat_map(|map| map.pairs().flat_map(|(key, value)| [key, value]));
    list.into_iter().flat_map(|list| list.values()).chain(pairs)
}

/// Puts a value as text.
pub(super) fn put_text(to: &mut impl Sink, value: &record::Value<'_>) {
    match value {
        record::Value::Text(text) | record::Value::Bytes(text) => reply::bulk(to, text),
        value => reply::bulk(to, value.text(&mut Digits::new())),
    }
}

/// Puts values as texts, and a null where there is none, all of them or nothing. `bytes_max`: see [`answer_room`].
pub(super) fn put_texts<'v>(
    out: &mut OutBuffer,
    version: Version,
    bytes_max: usize,
    values: impl Iterator<Item = Result<Option<record::Value<'v>>, Damaged>> + Clone,
) -> Run {
    let begun = out.mark();
    for value in values.clone() {
        let value = value?;
        let bytes = value.as_ref().map_or(0, reply_bytes);
        if out.room() < bytes + LINE_ROOM {
            // All of it is put again into a longer output.
            out.truncate(begun);
            let all = values.map(|value| value.ok().flatten().as_ref().map_or(5, reply_bytes)).sum();
            return Err(answer_room(out, bytes_max, all)
                .err()
                .unwrap_or(State::OutputFull { want: LINE_ROOM + all }.into()));
        }
        match value {
            Some(value) => put_text(out, &value),
            None => reply::null(out, version),
        }
    }
    Ok(())
}
