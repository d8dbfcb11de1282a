//! Typed values, such as records: the type name that `TYPE` returns, and the functions with which commands read and
//! change a typed value.
//!
//! ```text
//!   key ── item ──┬─ bytes, number, pieces     a string
//!                 └─ type byte, bytes          a record: see `hash` and `records`; or a collection: see `collection`
//! ```

use super::error::ErrorReply;
use crate::context::WorkerContext;
use crate::keyspace::indexes::{IndexChanges, Indexes};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::CommandSpec;
use crate::resp::index_places::places_of;
use crate::resp::index_places::sweep;
use crate::resp::own_transaction;
use crate::resp::state::transaction::ANSWER_BYTES_MAX;
use crate::shared::Shared;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::{OutBuffer, Position};
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use base::clock::UnixMillis;
use protocol::resp::{Args, Version, reply};
use protocol::sink::Sink;
use record::{Damaged, Digits, Edit, InSet, Kind, Name, Record, Sets, Source};
use segment::{
    Attempts, Delete, DeleteOutcome, Expire, Guard, Item, JoinedParts, Key, Loaded, OpError, PartBytes, Replaced,
    Replacement, Value,
};
use std::cell::{Cell, OnceCell};

impl From<Damaged> for ErrorReply {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}

impl From<Damaged> for Interrupt {
    fn from(damaged: Damaged) -> Self {
        ErrorReply::from(damaged).into()
    }
}

/// The data that a read of typed values needs: the current time, the record sets and the indexes.
#[derive(Clone, Copy)]
pub(crate) struct View<'v> {
    pub(super) now_ms: u64,
    pub(super) sets: &'v Sets,
    pub(super) indexes: &'v Indexes,
}

impl<'v> View<'v> {
    /// Returns the view of typed values at an instant.
    pub(super) fn at(shared: &'v Shared, now: UnixMillis) -> Self {
        Self { now_ms: now.0, sets: &shared.sets, indexes: &shared.indexes }
    }
}

impl WorkerContext {
    /// Returns the view of typed values at the time of this iteration.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        View { now_ms: self.now.0, sets: &self.shared.sets, indexes: &self.shared.indexes }
    }
}

/// The numbers of a part's object and of the part, and its bytes.
type RecentPart<'t> = (u64, u64, &'t [u8]);

/// Access to the parts of the large value under a key.
#[derive(Debug)]
pub(super) struct KeyParts<'t> {
    guard: &'t Guard<'t>,
    key: Key<'t>,
    /// The long parts that were read.
    joined: OnceCell<Box<JoinedParts>>,
    /// The short parts that were read last.
    recent: [Cell<Option<RecentPart<'t>>>; RECENT_PARTS],
    /// The place in `recent` of the part that is replaced next.
    next_recent: Cell<usize>,
}

/// The number of short parts of which a command remembers the places in the store. One command reads the same few parts
/// several times.
const RECENT_PARTS: usize = 8;

impl<'t> KeyParts<'t> {
    pub(super) fn new(guard: &'t Guard<'_>, key: Key<'t>) -> Self {
        Self { guard, key, joined: OnceCell::new(), recent: Default::default(), next_recent: Cell::new(0) }
    }

    /// Returns the key's position in the order in which walks visit keys.
    pub(super) fn place(&self) -> u64 {
        self.guard.walks().walk_place(&self.key)
    }
}

impl Source for KeyParts<'_> {
    fn part(&self, object: u64, number: u64) -> Option<&[u8]> {
        let is_wanted = |(of, part, bytes)| ((of, part) == (object, number)).then_some(bytes);
        if let Some(bytes) = self.recent.iter().filter_map(Cell::get).find_map(is_wanted) {
            return Some(bytes);
        }
        match self.guard.parts().part(&self.key, object, number)? {
            PartBytes::Whole(bytes) => {
                let place = self.next_recent.get();
                self.recent[place].set(Some((object, number, bytes)));
                self.next_recent.set((place + 1) % RECENT_PARTS);
                Some(bytes)
            }
            PartBytes::Fragments(all) => self.joined.get_or_init(Box::default).join(number, &all),
        }
    }

    fn fresh(&self) -> u64 {
        self.guard.parts().part_number()
    }

    fn salt(&self) -> u64 {
        self.guard.parts().salt(&self.key)
    }
}

/// The time in ms for which a command that has begun to replace a value waits for room in the store.
const ROOM_WAIT_MS: u64 = 1000;

const _: () =
    assert!(Kind::Large as u8 & segment::KIND_IN_PARTS != 0, "the store must know that a large record has parts");
const _: () = assert!(
    record::ENTRY_BYTES == segment::ENTRY_BYTES,
    "the store and the records must agree on the size of an entry"
);

/// Returns an item's type, as `TYPE` names it. Returns `None` if the item is a record whose bins have all expired, or
/// whose set was truncated.
pub(super) fn type_name(item: &Item<'_>, view: View<'_>) -> Option<&'static str> {
    match item.value {
        Value::Typed { kind, bytes } => {
            let kind = Kind::of(kind)?;
            (kind.is_empty(bytes, view.sets, view.now_ms) != Ok(true)).then(|| kind.name())
        }
        _ => Some("string"),
    }
}

/// Returns the item, unless it is a record whose bins have all expired, or whose set was truncated.
pub(super) fn live<'i>(item: Option<Item<'i>>, view: View<'_>) -> Option<Item<'i>> {
    item.filter(|item| type_name(item, view).is_some())
}

/// Returns true if an item is no string.
#[inline]
pub(super) fn is_typed(item: &Item<'_>) -> bool {
    matches!(item.value, Value::Typed { .. })
}

/// Returns true if bins of an item may expire: if it is no string and no collection.
pub(super) fn may_have_ended_bins(item: &Item<'_>) -> bool {
    matches!(item.value, Value::Typed { kind, .. } if Kind::of(kind).is_none_or(Kind::is_record))
}

/// Returns `item` unchanged if it is a string or `None`. Returns an error if it is a typed value.
pub(super) fn string<'r, 'i>(item: Option<&'r Item<'i>>) -> Result<Option<&'r Item<'i>>, ErrorReply> {
    match item {
        Some(Item { value: Value::Typed { .. }, .. }) => Err(ErrorReply::WrongType),
        item => Ok(item),
    }
}

/// Returns the record that an item holds, if at least one of its bins has not expired. Returns an error if the item is
/// not a record.
pub(super) fn record<'i>(
    item: Option<&Item<'i>>,
    view: View<'i>,
    parts: &'i KeyParts<'_>,
) -> Result<Option<Record<'i>>, ErrorReply> {
    Ok(match opened(item, view, parts)? {
        Some(record) if !record.is_empty(view.now_ms)? => Some(record),
        _ => None,
    })
}

/// Returns the record that an item holds, even if all its bins have expired. Returns an error if the item is not a
/// record.
pub(super) fn opened<'i>(
    item: Option<&Item<'i>>,
    view: View<'i>,
    parts: &'i KeyParts<'_>,
) -> Result<Option<Record<'i>>, ErrorReply> {
    let Some(item) = item else { return Ok(None) };
    let Value::Typed { kind, bytes } = item.value else { return Err(ErrorReply::WrongType) };
    let kind = Kind::of(kind).filter(|kind| kind.is_record()).ok_or(ErrorReply::WrongType)?;
    Ok(Record::of(kind, bytes, view.sets, parts)?)
}

/// The result of an [`EditRecord`] function: the action on the record, and a result for the caller of [`edit_record`].
pub(super) enum Edited<T> {
    /// Keep the old record.
    Keep(T),
    /// Store the edited record, or remove the key if no bins are left.
    Store(T),
    /// Store the edited record with this expiry.
    StoreUntil(Expire, T),
    /// Remove the key.
    Remove(T),
}

/// A function that edits a record. Its arguments are the old record, an edit that begins as a copy of the old record,
/// and the key's expiry. If another client changes the key during the edit, the function is called again with the new
/// record. The function must therefore have no side effects.
pub(super) type EditRecord<'d, T> =
    dyn FnMut(Option<&Record<'_>>, &mut Edit<'_>, Expire) -> Result<Edited<T>, ErrorReply> + 'd;

/// Loads the record under a key, edits it with `edit`, and stores the result in place of the old record. If the key has
/// no record yet, the new record belongs to the set with the number `set`, if given. Sends `event` to subscribers if
/// the record was stored.
pub(super) fn edit_record<T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    set: Option<u16>,
    event: KeyEvent,
    edit: &mut EditRecord<'_, T>,
) -> Result<T, Interrupt> {
    edit_record_from(call, bytes, (set, false), event, edit)
}

/// Edits the record under a key as [`edit_record`] does, or if `is_new`, replaces the value of the key, whatever its
/// type, by a new record.
pub(super) fn edit_record_from<T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    (set, is_new): (Option<u16>, bool),
    event: KeyEvent,
    edit: &mut EditRecord<'_, T>,
) -> Result<T, Interrupt> {
    let (key, view) = (call.key(bytes), call.ctx.view());
    let set = set.and_then(|set| view.sets.of(set)).map(|set| InSet::new(view.sets, set));
    let mut moves = None;
    let stripe = if view.indexes.any() {
        moves = Some(IndexChanges::default());
        Some(view.indexes.stripe(key.hash()).ok_or(SessionWait::Parked)?)
    } else {
        None
    };
    let mut scratch = call.ctx.scratch(call.guard);
    let (mut attempts, continues) = (Attempts::default(), call.session.is_published);
    let replaced: Result<_, Interrupt> = loop {
        scratch.clear();
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        let change = Change { view, set, continues, moves: moves.as_mut() };
        let there = KeyParts::new(call.guard, key);
        let mut made = record::Parts::default();
        let old = item.as_ref().filter(|_| !is_new);
        let (answer, new, outcome) = match new_record(old, &there, change, (&mut scratch, &mut made), edit) {
            Ok(change) => change,
            Err(fault) => break Err(fault.into()),
        };
        let parts;
        let new = match new {
            NewRecord::Same => break Ok((answer, outcome)),
            NewRecord::None => Replacement::Remove,
            NewRecord::Stored { kind, expire } => {
                let kind = kind as u8;
                parts = (kind & segment::KIND_IN_PARTS != 0).then(|| stored_parts(made));
                Replacement::Typed { kind, bytes: &scratch, parts: parts.as_ref(), expire }
            }
        };
        match call.guard.items_mut().replace(&key, &version, new) {
            Ok(Replaced::Done) => break Ok((answer, outcome)),
            Ok(Replaced::Stale) => {}
            Err(OpError::TooLarge) => break Err(ErrorReply::RecordTooLarge.into()),
            Err(error) => break Err(error.into()),
        }
    };
    drop(scratch);
    let looked = match (&moves, &replaced) {
        (Some(moves), Ok(_)) => view.indexes.note(moves, key.hash()),
        _ => Vec::new(),
    };
    drop(stripe);
    if !looked.is_empty() {
        sweep(view.indexes, call.guard, view, looked.into_iter());
    }
    let (answer, outcome) = replaced?;
    // A request that takes several visits sends its event only once.
    if outcome.stored && !std::mem::replace(&mut call.session.is_published, true) {
        call.changed(event, bytes);
    }
    if outcome.removed {
        call.changed(KeyEvent::DEL, bytes);
    }
    Ok(answer)
}

/// Removes all expired bins from a large record, a few of its leaves at a time. Afterwards, the number of bins is
/// exact. Does not change the record's revision. If memory for the change is not available, the remaining expired bins
/// are not removed.
pub(super) fn sweep_ended(call: &mut Call<'_, '_>, bytes: &[u8]) -> Run {
    let key = call.key(bytes);
    loop {
        let view = call.ctx.view();
        let item = call.guard.items().peek(&key).filter(may_have_ended_bins);
        let there = KeyParts::new(call.guard, key);
        if !opened(item.as_ref(), view, &there)?.is_some_and(|record| record.is_due(view.now_ms)) {
            return Ok(());
        }
        if call.ops >= OPS_A_BATCH {
            return Err(SessionWait::Yield.into());
        }
        call.ops += SWEPT_LEAVES;
        match sweep_some(call, &key) {
            Ok(Swept::Stored) => {}
            Ok(Swept::Gone) => call.changed(KeyEvent::DEL, bytes),
            Err(Interrupt::Fault(ErrorReply::OutOfMemory)) => return Ok(()),
            Err(stop) => return Err(stop),
        }
    }
}

/// Returns true if a key exists in memory. If the key holds a record whose bins have all expired, or whose set was
/// truncated, deletes the record and returns false. The item of a key that is not in memory may be on flash.
pub(super) fn is_there(call: &mut Call<'_, '_>, key: &Key<'_>) -> Result<bool, Interrupt> {
    match call.guard.items().peek(key).map(|item| is_typed(&item)) {
        None => return Ok(false),
        Some(false) => return Ok(true),
        Some(true) => sweep_ended(call, key.bytes())?,
    }
    let view = call.ctx.view();
    let Some(item) = call.guard.items().peek(key) else { return Ok(false) };
    if live(Some(item), view).is_some() {
        return Ok(true);
    }
    let mut attempts = Attempts::default();
    let gone = loop {
        let Loaded { item, version } = call.guard.items().load(key, &mut attempts)?;
        if item.is_none() || live(item, view).is_some() {
            break false;
        }
        if call.guard.items_mut().replace(key, &version, Replacement::Remove)? == Replaced::Done {
            break true;
        }
    };
    if gone {
        call.changed(KeyEvent::DEL, key.bytes());
    }
    Ok(!gone && call.guard.items().peek(key).is_some())
}

/// Removes a key, whatever its type. Returns false if it does not exist, or holds a record whose bins have all expired.
pub(super) fn remove(call: &mut Call<'_, '_>, bytes: &[u8]) -> Result<bool, Interrupt> {
    let key = call.key(bytes);
    let outcome = match call.remove(&key, &Delete { spares_typed: true, ..Delete::default() })? {
        DeleteOutcome::Typed if !is_there(call, &key)? => return Ok(false),
        DeleteOutcome::Typed => call.remove(&key, &Delete::default())?,
        outcome => outcome,
    };
    Ok(outcome == DeleteOutcome::Deleted)
}

/// Runs the function of a command. If the command fails because of a value of another type, and a key holds a record
/// whose bins have all expired, removes that key, which counts as missing, and runs the function again.
#[inline]
pub(super) fn run<'c>(call: &mut Call<'c, '_>, entry: &'static CommandSpec, args: Args<'c>) -> Run {
    let begun = call.out.spot();
    match call.run(entry, args) {
        Err(Interrupt::Fault(ErrorReply::WrongType)) => run_without_ended(call, entry, args, begun),
        ran => ran,
    }
}

#[cold]
fn run_without_ended<'c>(call: &mut Call<'c, '_>, entry: &'static CommandSpec, args: Args<'c>, begun: Position) -> Run {
    let mut is_removed = false;
    if call.session.done == 0 {
        for bytes in entry.keys_of(args) {
            let key = call.key(bytes);
            is_removed |= call.guard.items().peek(&key).is_some() && !is_there(call, &key)?;
        }
    }
    if !is_removed {
        return Err(ErrorReply::WrongType.into());
    }
    call.out.cut_to_spot(begun);
    call.session.end_request();
    call.run(entry, args)
}

/// Returns an error if eviction is off and the store has no room for `bytes` more bytes. A command that may need more
/// memory calls this function before it changes anything.
pub(super) fn room_to_store(call: &Call<'_, '_>, bytes: u64) -> Run {
    Ok(call.ctx.check_room(call.session.namespace, bytes)?)
}

/// Returns true if a command that has begun to replace a value, and found the store full, is to be executed again in
/// its next visit: for at most [`ROOM_WAIT_MS`] after the first such fault, whose time `full_since` receives. The store
/// had room when the command began, and memory that was freed is available after the background has reclaimed it.
pub(super) fn waits_for_room(call: &Call<'_, '_>, fault: &Interrupt, full_since: &mut Option<UnixMillis>) -> bool {
    let is_full = matches!(fault, Interrupt::Fault(ErrorReply::OutOfMemory));
    is_full && call.collects_replies && call.ctx.now.ms_since(*full_since.get_or_insert(call.ctx.now)) < ROOM_WAIT_MS
}

/// Returns the maximum length of this call's reply, in bytes.
pub(super) fn answer_bytes_max(call: &Call<'_, '_>) -> usize {
    if call.collects_replies { ANSWER_BYTES_MAX } else { call.ctx.request_bytes_max }
}

/// Runs the function `run` of the command `name`. If the reply exceeds the maximum length of an output buffer, executes
/// the command again and collects the reply outside the output buffer.
pub(super) fn at_any_length<'c, 'l>(
    call: &mut Call<'c, 'l>,
    name: &'static str,
    args: Args<'c>,
    run: impl FnOnce(&mut Call<'c, 'l>, Args<'c>) -> Run,
) -> Run {
    let mark = call.out.mark();
    match run(call, args) {
        Err(Interrupt::Fault(ErrorReply::AnswerTooLong)) if !call.collects_replies => {
            call.out.truncate(mark);
            own_transaction::run_collected(call, super::catalog::entry(name), args)
        }
        ran => ran,
    }
}

/// Checks that this call's output has room for a reply of `bytes` bytes (see [`answer_room`]).
pub(super) fn answer_fits(call: &Call<'_, '_>, bytes: usize) -> Run {
    answer_room(call.out, answer_bytes_max(call), bytes)
}

/// Checks that the output has room for a reply of `bytes` bytes and one protocol line. If they exceed `bytes_max`, the
/// maximum length of a reply, returns an error reply. If only the room is too small, returns
/// [`SessionWait::OutputFull`], so that the request is executed again with more room.
pub(super) fn answer_room(out: &OutBuffer, bytes_max: usize, bytes: usize) -> Run {
    let want = bytes.saturating_add(LINE_ROOM);
    match out.room() < want {
        false => Ok(()),
        true if want > bytes_max => Err(ErrorReply::AnswerTooLong.into()),
        true => Err(SessionWait::OutputFull { want }.into()),
    }
}

/// The number of leaves of a large record that are searched for expired bins in one step.
const SWEPT_LEAVES: usize = 16;

/// The outcome of the removal of expired bins from a record.
enum Swept {
    /// The record is stored without the expired bins.
    Stored,
    /// No bins were left, so the key was removed.
    Gone,
}

/// Removes expired bins from some leaves of a large record.
fn sweep_some(call: &mut Call<'_, '_>, key: &Key<'_>) -> Result<Swept, Interrupt> {
    let view = call.ctx.view();
    let mut scratch = call.ctx.scratch(call.guard);
    let mut attempts = Attempts::default();
    loop {
        scratch.clear();
        let Loaded { item, version } = call.guard.items().load(key, &mut attempts)?;
        let item = item.filter(may_have_ended_bins);
        let there = KeyParts::new(call.guard, *key);
        let (Some(old), Some(item)) = (opened(item.as_ref(), view, &there)?, item) else { return Ok(Swept::Stored) };
        let mut parts = record::Parts::default();
        let kind = Edit::swept(&old, view.now_ms, SWEPT_LEAVES, &mut scratch)?.finish_with(&there, &mut parts)?;
        let parts = stored_parts(parts);
        let (new, swept) = match kind {
            Some(kind) => {
                let (kind, expire) = (kind as u8, item.expire);
                (Replacement::Typed { kind, bytes: &scratch, parts: Some(&parts), expire }, Swept::Stored)
            }
            None => (Replacement::Remove, Swept::Gone),
        };
        if call.guard.items_mut().replace(key, &version, new)? == Replaced::Done {
            return Ok(swept);
        }
    }
}

/// Converts the parts of a record to the store's type.
pub(super) fn stored_parts(record::Parts { bytes, new, gone, gone_trees }: record::Parts) -> segment::Parts {
    segment::Parts { bytes, new, gone, gone_trees }
}

/// Returns true if the output has room for all bins of a record and the protocol lines before them. Uses an upper bound
/// of their length, so it does not read the bins.
pub(super) fn has_room_for_all(out: &OutBuffer, record: &Record<'_>) -> bool {
    record.answer_bytes_max().is_some_and(|bytes| out.room() >= bytes + LINE_ROOM)
}

/// The effect of a change on its key, which decides which events subscribers receive.
#[derive(Clone, Copy)]
struct Outcome {
    /// The record was changed, possibly before it was removed.
    stored: bool,
    /// The key was removed.
    removed: bool,
}

/// The state of the key after an edit.
enum NewRecord {
    /// The key is unchanged.
    Same,
    /// The key has no item.
    None,
    /// The key has the record that was written into the scratch buffer.
    Stored { kind: Kind, expire: Expire },
}

/// The inputs of an edit in addition to the record.
struct Change<'s> {
    view: View<'s>,
    /// The set to which a new record belongs.
    set: Option<InSet<'s>>,
    /// True if an earlier visit has stored a part of the change.
    continues: bool,
    /// The positions of the record in the indexes before and after the change. The edit fills them in.
    moves: Option<&'s mut IndexChanges>,
}

/// Calls `edit` for the record of `item`. Writes the new record into `scratch`, and its new parts into `made`. Returns
/// the result of `edit`, the new state of the key, and the effect on the key.
fn new_record<T>(
    item: Option<&Item<'_>>,
    parts: &KeyParts<'_>,
    change: Change<'_>,
    (scratch, made): (&mut Vec<u8>, &mut record::Parts),
    edit: &mut EditRecord<'_, T>,
) -> Result<(T, NewRecord, Outcome), ErrorReply> {
    let Change { view, set, continues, mut moves } = change;
    let old = record(item, view, parts)?;
    // A new record does not inherit the expiry of a record whose bins have all expired.
    let present = item.filter(|_| old.is_some()).map_or(Expire::Never, |item| item.expire);
    let set = old.as_ref().map_or(set, Record::set);
    if let Some(moves) = moves.as_deref_mut() {
        moves.of = set.map(|set| view.indexes.of(set.set().number())).unwrap_or_default();
        let old = places_of(&moves.of, old.as_ref(), view.now_ms)?;
        moves.places = old.into_iter().map(|place| [place, place]).collect();
    }
    let mut new = match old.as_ref().filter(|_| continues) {
        Some(old) => Edit::continue_change(old, view.now_ms, scratch)?,
        None => Edit::in_set(old.as_ref(), set, view.now_ms, scratch)?,
    };
    let (expire, answer) = match edit(old.as_ref(), &mut new, present)? {
        Edited::Keep(answer) => return Ok((answer, NewRecord::Same, Outcome { stored: false, removed: false })),
        Edited::Remove(answer) => {
            if let Some(moves) = moves {
                moves.places.iter_mut().for_each(|[_, new]| *new = None);
            }
            return Ok((answer, NewRecord::None, Outcome { stored: false, removed: old.is_some() }));
        }
        Edited::Store(answer) => (present, answer),
        Edited::StoreUntil(expire, answer) => (expire, answer),
    };
    if let Some(moves) = moves {
        for (index, [_, place]) in moves.of.iter().zip(&mut moves.places) {
            *place = new.bin(&Name::new(&index.bin))?.and_then(|bin| index.kind.place(&bin.value));
        }
    }
    Ok(match new.finish_with(parts, made)? {
        Some(kind) => (answer, NewRecord::Stored { kind, expire }, Outcome { stored: true, removed: false }),
        None => (answer, NewRecord::None, Outcome { stored: old.is_some(), removed: old.is_some() }),
    })
}

/// Returns the maximum length of a value in a reply, in bytes.
pub(super) fn reply_bytes(value: &record::Value<'_>) -> usize {
    const LINES: usize = reply::NUMBER_LINE_BYTES_MAX + 2;
    LINES
        + match value {
            record::Value::Text(text) | record::Value::Bytes(text) => text.len(),
            record::Value::Integer(_) => Digits::MAX,
            record::Value::Float(_) => Digits::FLOAT_MAX,
            record::Value::Bool(_) => 1,
            // The value is sent as text, or as its parts. The sum is enough for both forms.
            value => value.text(&mut Digits::new()).len() + parts(value).map(|part| reply_bytes(&part)).sum::<usize>(),
        }
}

/// Returns the values in a list or a map, including the keys of the map.
fn parts<'v>(value: &record::Value<'v>) -> impl Iterator<Item = record::Value<'v>> {
    let (list, map) = match *value {
        record::Value::List(list) => (Some(list), None),
        record::Value::Map(map) => (None, Some(map)),
        _ => (None, None),
    };
    let pairs = map.into_iter().flat_map(|map| map.pairs().flat_map(|(key, value)| [key, value]));
    list.into_iter().flat_map(|list| list.values()).chain(pairs)
}

/// Writes a value as text, in a bulk string.
pub(super) fn put_text(to: &mut impl Sink, value: &record::Value<'_>) {
    match value {
        record::Value::Text(text) | record::Value::Bytes(text) => reply::bulk(to, text),
        value => reply::bulk(to, value.text(&mut Digits::new())),
    }
}

/// Writes values as text, and null for each missing value. If the output has no room for all of them, writes nothing
/// and returns an error. `bytes_max` is the maximum length of a reply, as in [`answer_room`].
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
            // The request is executed again, and then writes all values into an output with more room.
            out.truncate(begun);
            let all = values.map(|value| value.ok().flatten().as_ref().map_or(5, reply_bytes)).sum();
            return Err(answer_room(out, bytes_max, all)
                .err()
                .unwrap_or(SessionWait::OutputFull { want: LINE_ROOM + all }.into()));
        }
        match value {
            Some(value) => put_text(out, &value),
            None => reply::null(out, version),
        }
    }
    Ok(())
}
