//! Reads and changes of collections: lists, sets, sorted sets and streams.
//!
//! ```text
//!   look     item ──> value ──> the command reads it ──> reply
//!   change   item ──> value, edit ──> the command decides ──> new head and parts replace the old ones
//!            └────── another client changed the key ◀───────────────────────┘
//! ```
//!
//! A read that takes several visits continues at the number of the next element, and starts over if the collection was
//! changed meanwhile, as those of hashes do ([`super::slices`]).

use super::blocking;
use super::error::ErrorReply;
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::number::integer;
use crate::resp::slices::{self, BYTES_A_SLICE, STEP_BYTES, collect_room};
use crate::resp::state::walk::{Reading, Walk};
use crate::resp::string;
use crate::resp::typed::{self, Edited, KeyParts, answer_room, reply_bytes};
use crate::visit::out::{LINE_ROOM, OutBuffer};
use crate::visit::progress::SessionWait;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::resp::{Args, Version};
use protocol::sink::{Fixed, Sink};
use record::{Collection, Damaged, Kind, Value};
use segment::{Attempts, Expire, Item, Loaded, OpError, Replaced, Replacement};

/// The maximum number of elements that a reply of one visit contains.
pub(super) const ELEMENTS_A_VISIT: u64 = 256;
/// The number of elements that cost one operation.
const ELEMENTS_AN_OP: usize = 8;
/// The number of copied bytes that cost one operation.
pub(super) const BYTES_AN_OP: usize = 4096;

/// A function that changes a collection. Its arguments are the stored collection, if there is one, and the change,
/// which begins as a copy of it. If another client changes the key meanwhile, the function is called again with the new
/// collection. The function must therefore have no side effects.
pub(super) type Change<'d, C, T> = dyn for<'o, 'v, 'e> FnMut(
        Option<&'o <C as Collection>::Value<'v>>,
        &mut <C as Collection>::Edit<'e>,
    ) -> Result<Edited<T>, ErrorReply>
    + 'd;

/// The effect of a change on its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// The collection was changed.
    pub(super) is_changed: bool,
    /// The key no longer exists.
    pub(super) is_removed: bool,
}

/// Returns the collection that an item holds. Returns an error if the item is of another type.
pub(super) fn opened<'i, C: Collection>(
    item: Option<&Item<'i>>,
    parts: &'i KeyParts<'_>,
) -> Result<Option<C::Value<'i>>, ErrorReply> {
    let Some(item) = item else { return Ok(None) };
    let segment::Value::Typed { kind, bytes } = item.value else { return Err(ErrorReply::WrongType) };
    let kind = Kind::of(kind).filter(|kind| C::has(*kind)).ok_or(ErrorReply::WrongType)?;
    Ok(Some(C::open(kind, bytes, parts)?))
}

/// Calls `look` with the output and the collection under a key, or with `None` if the key does not exist. Counts the
/// read in the metrics.
pub(super) fn look<C: Collection, T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    look: impl FnOnce(&mut OutBuffer, Option<&C::Value<'_>>) -> Result<T, Interrupt>,
) -> Result<T, Interrupt> {
    let (key, view) = (call.key(bytes), call.ctx.view());
    let (result, is_hit) = {
        let item = typed::live(call.guard.items().get(&key), view);
        let parts = KeyParts::new(call.guard, key);
        let value = opened::<C>(item.as_ref(), &parts)?;
        (look(call.out, value.as_ref())?, value.is_some())
    };
    call.count_read(is_hit);
    Ok(result)
}

/// Changes the collection under a key, and returns the result of `change` with the effect on the key. Sends no events.
pub(super) fn change<C: Collection, T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    change: &mut Change<'_, C, T>,
) -> Result<(T, Effect), Interrupt> {
    change_from::<C, T>(call, bytes, false, change)
}

/// Changes the collection under a key as [`change`] does. Leaves some free segments of a store without eviction to
/// removals: for deliveries and other changes that let a value grow although the store is full.
pub(super) fn change_sparing<C: Collection, T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    change: &mut Change<'_, C, T>,
) -> Result<(T, Effect), Interrupt> {
    call.guard.spare_segments(true);
    let changed = self::change::<C, T>(call, bytes, change);
    call.guard.spare_segments(false);
    changed
}

/// Changes the collection under a key as [`change`] does, or if `is_new`, replaces the value of the key, whatever its
/// type, by a new collection.
pub(super) fn change_from<C: Collection, T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    is_new: bool,
    change: &mut Change<'_, C, T>,
) -> Result<(T, Effect), Interrupt> {
    let (key, view) = (call.key(bytes), call.ctx.view());
    let mut scratch = call.ctx.scratch(call.guard);
    let mut attempts = Attempts::default();
    loop {
        scratch.clear();
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        // A record whose fields have all expired is not there.
        let item = typed::live(item, view);
        let there = KeyParts::new(call.guard, key);
        let old = item.as_ref().filter(|_| !is_new);
        let Changed { answer, expire, kind, parts } = match changed::<C, T>(old, &there, &mut scratch, change)? {
            Ok(changed) => changed,
            Err(answer) => return Ok((answer, Effect::default())),
        };
        let effect = Effect { is_changed: true, is_removed: kind.is_none() && item.is_some() };
        let new = match kind {
            None => Replacement::Remove,
            Some(kind) => {
                let parts = kind.is_large().then_some(&parts);
                Replacement::Typed { kind: kind as u8, bytes: &scratch, parts, expire }
            }
        };
        match call.guard.items_mut().replace(&key, &version, new) {
            Ok(Replaced::Done) => return Ok((answer, effect)),
            Ok(Replaced::Stale) => {}
            Err(OpError::TooLarge) => return Err(ErrorReply::ElementTooLong.into()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A collection that replaces an item, or `None` as its type if no elements are left.
struct Changed<T> {
    answer: T,
    expire: Expire,
    kind: Option<Kind>,
    parts: segment::Parts,
}

/// Changes the collection of an item, and writes its head into `to`. Returns the answer as an error if nothing is to be
/// stored.
fn changed<C: Collection, T>(
    item: Option<&Item<'_>>,
    there: &KeyParts<'_>,
    to: &mut Vec<u8>,
    change: &mut Change<'_, C, T>,
) -> Result<Result<Changed<T>, T>, ErrorReply> {
    let old = opened::<C>(item, there)?;
    let mut edit = C::edit(old.as_ref(), there);
    let present = item.map_or(Expire::Never, |item| item.expire);
    let (answer, expire) = match change(old.as_ref(), &mut edit)? {
        Edited::Keep(answer) => return Ok(Err(answer)),
        Edited::Store(answer) => (answer, present),
        Edited::StoreUntil(expire, answer) => (answer, expire),
        Edited::Remove(answer) => {
            edit = C::edit(None, there);
            (answer, present)
        }
    };
    let mut parts = record::Parts::default();
    let kind = C::finish(edit, &mut parts, to)?;
    Ok(Ok(Changed { answer, expire, kind, parts: typed::stored_parts(parts) }))
}

/// Changes the collection under a key, and sends `event` to subscribers if it was changed, and `del` if no elements are
/// left. A command that changes the collection in several steps sends `event` only once, after the first change.
pub(super) fn change_and_notify<C: Collection, T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    event: KeyEvent,
    edit: &mut Change<'_, C, T>,
) -> Result<T, Interrupt> {
    let (answer, effect) = change::<C, T>(call, bytes, edit)?;
    notify_once(call, bytes, event, effect);
    Ok(answer)
}

/// Sends the events of one of a command's changes to its key as [`notify`] does, but `event` only for the first.
pub(super) fn notify_once(call: &mut Call<'_, '_>, bytes: &[u8], event: KeyEvent, effect: Effect) {
    let is_changed = effect.is_changed && !std::mem::replace(&mut call.session.is_published, true);
    notify(call, bytes, event, Effect { is_changed, ..effect });
}

/// Sends the events of a change, and counts it.
pub(super) fn notify(call: &mut Call<'_, '_>, bytes: &[u8], event: KeyEvent, effect: Effect) {
    if effect.is_changed {
        string::note_store(call);
        call.changed(event, bytes);
    }
    if effect.is_removed {
        call.changed(KeyEvent::DEL, bytes);
    }
}

/// Parses the number of keys that begins `args`, and returns the keys and the words after them.
pub(super) fn counted_keys<'c>(mut args: Args<'c>) -> Result<(Args<'c>, Args<'c>), ErrorReply> {
    let count = integer(args.next().unwrap_or_default()).ok().filter(|count| *count > 0);
    let count = count.ok_or(ErrorReply::KeyCount)?;
    let count = u32::try_from(count).ok().filter(|count| *count as usize <= args.len()).ok_or(ErrorReply::Syntax)?;
    Ok(args.split(count))
}

/// Removes a key, whatever its type. Returns false if it does not exist.
pub(super) fn remove(call: &mut Call<'_, '_>, bytes: &[u8]) -> Result<bool, Interrupt> {
    typed::remove(call, bytes)
}

/// The elements of a reply: the number of the first one, their number, and their direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ElementRange {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) is_reverse: bool,
}

/// A type of collection whose elements are written into replies.
pub(super) trait Elements: Collection {
    /// Writes elements of `value` into `out`, at most `most`, each with the parts that `with` selects. Stops before an
    /// element for which there is no room; an error is returned only if there is none for the first. Returns the number
    /// of elements and of bytes written.
    fn put(
        out: &mut OutBuffer,
        value: &Self::Value<'_>,
        range: ElementRange,
        most: u64,
        shape: ReplyShape,
    ) -> Result<(u64, usize), Interrupt>;
}

/// Writes elements until there is no room, as [`Elements::put`] does. A collected reply gets elements until they have
/// [`STEP_BYTES`], so that the cost of a step does not depend on their lengths. `value_of` returns the text of an
/// element, and `put` writes it.
pub(super) fn put_while_room<'v, T>(
    out: &mut OutBuffer,
    elements: impl Iterator<Item = Result<T, Damaged>>,
    shape: ReplyShape,
    value_of: impl Fn(&T) -> Value<'v>,
    put: impl Fn(&mut OutBuffer, &T),
) -> Result<(u64, usize), Interrupt> {
    let (mut count, mut bytes) = (0, 0);
    for element in elements {
        let element = element?;
        let len = shape.bytes_of(&value_of(&element));
        match shape.room(out, len) {
            Err(stop) if count == 0 || !shape.is_collected => return Err(stop),
            Err(_) => break,
            Ok(()) => put(out, &element),
        }
        (count, bytes) = (count + 1, bytes + len);
        if shape.is_collected && bytes >= STEP_BYTES as usize {
            break;
        }
    }
    Ok((count, bytes))
}

/// The form of the elements of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyShape {
    pub(super) version: Version,
    /// True if each element is followed by its score.
    pub(super) has_scores: bool,
    /// True if each element is in an array with its score. Otherwise, the elements and scores alternate.
    pub(super) is_nested: bool,
    /// True if the whole reply is a set of RESP3.
    pub(super) is_set: bool,
    /// The maximum length of a reply in bytes.
    pub(super) bytes_max: usize,
    /// True if the reply is collected, so that an element without room waits for more.
    pub(super) is_collected: bool,
}

impl ReplyShape {
    pub(super) fn of(call: &Call<'_, '_>) -> Self {
        Self {
            version: call.session.version,
            has_scores: false,
            is_nested: call.session.version == Version::Resp3,
            is_set: false,
            bytes_max: typed::answer_bytes_max(call),
            is_collected: call.collects_replies,
        }
    }

    /// Checks that the output has room for an element of `bytes` bytes.
    pub(super) fn room(&self, out: &OutBuffer, bytes: usize) -> Run {
        if self.is_collected { collect_room(out, bytes) } else { answer_room(out, self.bytes_max, bytes) }
    }

    /// Writes the line before the elements.
    pub(super) fn put_head(&self, to: &mut impl Sink, count: u64) {
        let pairs = self.has_scores && !self.is_nested;
        match self.is_set {
            true => reply::set(to, self.version, count),
            false => reply::array(to, if pairs { 2 * count } else { count }),
        }
    }

    /// Returns the number of bytes of an element in the reply, at most.
    pub(super) fn bytes_of(&self, value: &Value<'_>) -> usize {
        reply_bytes(value) + if self.has_scores { record::Digits::FLOAT_MAX } else { 0 }
    }
}

/// Replies with a range of the elements of a collection. `range` returns the range for the present collection; the
/// reply for a missing key is empty. A long range is written over several visits.
pub(super) fn reply_range<'c, C: Elements>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    key: &[u8],
    shape: ReplyShape,
    range: &dyn for<'v> Fn(&C::Value<'v>) -> Result<ElementRange, Damaged>,
) -> Run {
    if call.collects_replies {
        let mut walk = call.session.walk.take().unwrap_or_default();
        let ran = reply_over_visits::<C>(call, key, shape, range, &mut walk);
        return slices::end_visit(call, walk, ran);
    }
    let mark = call.out.mark();
    let is_replied = look::<C, _>(call, key, |out, value| {
        let wanted = value.map(range).transpose()?.unwrap_or_default();
        let Some(value) = value.filter(|_| wanted.count > 0) else {
            shape.put_head(out, 0);
            return Ok(true);
        };
        if wanted.count > ELEMENTS_A_VISIT {
            return Ok(false);
        }
        shape.put_head(out, wanted.count);
        match C::put(out, value, wanted, wanted.count, shape) {
            Ok((count, _)) => Ok(count == wanted.count),
            // The room that an element asks for would not be enough for those before it.
            Err(Interrupt::Fault(ErrorReply::AnswerTooLong) | Interrupt::State(SessionWait::OutputFull { .. })) => {
                Ok(false)
            }
            Err(stop) => Err(stop),
        }
    });
    match is_replied {
        Ok(true) => Ok(()),
        Ok(false) => {
            call.out.truncate(mark);
            Err(slices::run_reading(call, name, args, key))
        }
        Err(stop) => {
            call.out.truncate(mark);
            Err(stop)
        }
    }
}

fn reply_over_visits<C: Elements>(
    call: &mut Call<'_, '_>,
    key: &[u8],
    shape: ReplyShape,
    range: &dyn for<'v> Fn(&C::Value<'v>) -> Result<ElementRange, Damaged>,
    walk: &mut Walk,
) -> Run {
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    loop {
        let done = walk.cursor;
        let (wanted, count, bytes) = look_consistently::<C, _>(call, key, &mut walk.reading, |out, value| {
            let wanted = value.map(range).transpose()?.unwrap_or_default();
            let Some(value) = value.filter(|_| wanted.count > done) else { return Ok((wanted, 0, 0)) };
            let first = if wanted.is_reverse { wanted.first.saturating_sub(done) } else { wanted.first + done };
            let left = ElementRange { first, count: wanted.count - done, ..wanted };
            let (count, bytes) = C::put(out, value, left, ELEMENTS_A_VISIT, shape)?;
            Ok((wanted, count, bytes))
        })?;
        walk.cursor += count;
        call.ops += 1 + count as usize / ELEMENTS_AN_OP + bytes / BYTES_AN_OP;
        if walk.cursor >= wanted.count {
            break;
        }
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    shape.put_head(&mut line, walk.cursor);
    call.out.fill_head(head, line.as_slice());
    call.count_read(walk.reading.was_there());
    Ok(())
}

/// A type of collection from which elements are popped.
pub(super) trait Pops: Collection {
    /// The place from which elements are popped.
    type From: Copy;

    /// The maximum number of elements that one change pops.
    const POPPED_A_STEP: u64 = ELEMENTS_A_VISIT;
    /// The number of popped elements that cost one operation.
    const POPPED_AN_OP: usize = ELEMENTS_AN_OP;

    /// Removes elements, of which the collection has enough, and appends them to `to` as a reply: as many as the first
    /// number of `most`, but no more after an element with which `to` has the second number of bytes. Returns the
    /// number of removed elements.
    fn pop(
        value: &Self::Value<'_>,
        edit: &mut Self::Edit<'_>,
        from: Self::From,
        most: (u64, usize),
        shape: ReplyShape,
        to: &mut Vec<u8>,
    ) -> Result<u64, Damaged>;
}

/// The result of [`pop_some`].
enum Popped {
    /// The key does not exist. Nothing was replied.
    Absent,
    /// So many elements were popped and replied, which have so many bytes.
    Elements { count: u64, bytes: usize },
    /// The reply has no room for so many elements, which need so many bytes. Nothing was changed.
    NoRoom { count: u64, bytes: usize },
    /// The elements are more than one change pops. Nothing was changed.
    TooMany,
}

/// Pops up to `most` elements and writes them into the output. If `has_head` is true, writes the line of the reply
/// before them, and pops all of them or none. Otherwise, pops fewer if they are long.
fn pop_some<C: Pops>(
    call: &mut Call<'_, '_>,
    key: &[u8],
    (from, most): (C::From, u64),
    shape: ReplyShape,
    has_head: bool,
    event: KeyEvent,
) -> Result<Popped, Interrupt> {
    let room = call.out.room().saturating_sub(LINE_ROOM);
    let mut reply = Vec::new();
    let popped = change_and_notify::<C, _>(call, key, event, &mut |old, edit| {
        let Some(old) = old else { return Ok(Edited::Keep(Popped::Absent)) };
        let count = most.min(C::len(old));
        if count > C::POPPED_A_STEP {
            return Ok(Edited::Keep(Popped::TooMany));
        }
        reply.clear();
        if has_head {
            shape.put_head(&mut reply, count);
        }
        let bytes_max = if has_head { BYTES_A_SLICE } else { STEP_BYTES as usize };
        let wanted = count;
        let count = if wanted == 0 { 0 } else { C::pop(old, edit, from, (wanted, bytes_max), shape, &mut reply)? };
        let bytes = reply.len();
        Ok(match bytes > room {
            _ if has_head && count < wanted => Edited::Keep(Popped::TooMany),
            true => Edited::Keep(Popped::NoRoom { count, bytes }),
            false if count == 0 => Edited::Keep(Popped::Elements { count, bytes }),
            false => Edited::Store(Popped::Elements { count, bytes }),
        })
    })?;
    if matches!(popped, Popped::Elements { .. }) {
        call.out.push(&reply);
    }
    Ok(popped)
}

/// How elements are popped from a collection, and how the reply has them.
pub(super) struct Pop<C: Pops> {
    /// The place from which they are popped.
    pub(super) from: C::From,
    /// The maximum number of elements. `None` for one, which is replied without an array.
    pub(super) count: Option<u64>,
    pub(super) shape: ReplyShape,
    pub(super) event: KeyEvent,
}

/// Pops elements from the first collection that exists among `candidates`, which are some of `keys` with their numbers.
/// Replies with an array of `parts` replies: the key, and those of [`reply_popped`]. Returns false, without a reply, if
/// none of the collections exists. Other clients do not change them between two visits, because the keys are locked. A
/// command with one key does not lock it for its first visit, so another client may empty a collection that was found.
pub(super) fn pop_first<'c, C: Pops>(
    call: &mut Call<'c, '_>,
    command: (&'static str, Args<'c>),
    keys: Args<'c>,
    candidates: impl Iterator<Item = (u32, &'c [u8])>,
    parts: u64,
    pop: &Pop<C>,
) -> Result<bool, Interrupt> {
    if call.session.walk.is_some() {
        // An earlier visit has chosen the key, and written the reply up to its elements.
        let key = keys.into_iter().nth(call.session.sum as usize).unwrap_or_default();
        reply_popped(call, command, key, pop)?;
        return Ok(true);
    }
    for (number, key) in candidates {
        if !blocking::finds::<C>(call, key)? {
            continue;
        }
        call.session.sum = i64::from(number);
        typed::answer_fits(call, key.len() + 2 * NUMBER_LINE_BYTES_MAX)?;
        let mark = call.out.mark();
        reply::array(call.out, parts);
        reply::bulk(call.out, key);
        let popped = reply_popped(call, command, key, pop);
        if !matches!(popped, Ok(true)) && call.session.walk.is_none() {
            call.out.truncate(mark);
        }
        if popped? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Pops elements and replies with them: with a single element if `pop.count` is `None`, else with an array. Returns
/// false, without a reply, if the key does not exist. Many elements are popped over several visits, with the key
/// locked.
pub(super) fn reply_popped<'c, C: Pops>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    key: &[u8],
    &Pop { from, count, shape, event }: &Pop<C>,
) -> Result<bool, Interrupt> {
    let most = count.unwrap_or(1);
    if call.session.walk.is_none() {
        match pop_some::<C>(call, key, (from, most), shape, count.is_some(), event) {
            // The store is full. The removal of fewer elements needs less memory.
            Err(Interrupt::Fault(ErrorReply::OutOfMemory)) if most > 1 => {}
            Err(stop) => return Err(stop),
            Ok(Popped::Elements { count, bytes }) => {
                call.ops += count as usize / C::POPPED_AN_OP + bytes / BYTES_AN_OP;
                return Ok(true);
            }
            Ok(Popped::Absent) => return Ok(false),
            Ok(Popped::TooMany) => {}
            Ok(Popped::NoRoom { bytes, .. }) => match typed::answer_fits(call, bytes) {
                Err(Interrupt::Fault(ErrorReply::AnswerTooLong)) => {}
                ran => return ran.map(|()| true),
            },
        }
        if !call.collects_replies {
            return Err(take_visits(call, name, args, key));
        }
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = pop_over_visits::<C>(call, key, (from, most), shape, event, &mut walk);
    let is_there = walk.cursor > 0;
    slices::end_visit(call, walk, ran)?;
    Ok(is_there)
}

/// Makes the command one that takes several visits, with its keys locked: `key`, or those that the caller has locked.
pub(super) fn take_visits<'c>(call: &mut Call<'c, '_>, name: &'static str, args: Args<'c>, key: &[u8]) -> Interrupt {
    match call.guard.locks().is_attached() || call.copies {
        // The caller locks all keys, and goes on with a copy of the words.
        true => SessionWait::Yield.into(),
        false => slices::run_locked(call, name, args, key),
    }
}

fn pop_over_visits<C: Pops>(
    call: &mut Call<'_, '_>,
    key: &[u8],
    (from, most): (C::From, u64),
    shape: ReplyShape,
    event: KeyEvent,
    walk: &mut Walk,
) -> Run {
    walk.reading.allow_changes();
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    let mut step_max = C::POPPED_A_STEP;
    while walk.cursor < most {
        let room = call.out.room().saturating_sub(LINE_ROOM) as u64;
        let fitting = room.checked_div(walk.element_bytes).unwrap_or(u64::MAX).clamp(1, step_max);
        let step = fitting.min(most - walk.cursor);
        let popped = match pop_some::<C>(call, key, (from, step), shape, false, event) {
            Err(Interrupt::Fault(ErrorReply::OutOfMemory)) if step > 1 => {
                step_max = step / 2;
                continue;
            }
            // What is popped must be replied: if no more can be removed, the reply ends.
            Err(Interrupt::Fault(_)) if walk.cursor > 0 => break,
            popped => popped?,
        };
        match popped {
            Popped::Absent | Popped::TooMany | Popped::Elements { count: 0, .. } => break,
            Popped::Elements { count, bytes } => {
                walk.cursor += count;
                call.ops += 1 + count as usize / C::POPPED_AN_OP + bytes / BYTES_AN_OP;
            }
            // What is popped must be replied: if the reply cannot grow, it ends.
            Popped::NoRoom { count: 1, bytes } if walk.cursor > 0 && !slices::grow_reply(call.out, bytes) => break,
            Popped::NoRoom { count: 1, bytes } => collect_room(call.out, bytes)?,
            // Rounded up, so that the next step is shorter.
            Popped::NoRoom { count, bytes } => walk.element_bytes = (bytes as u64).div_ceil(count),
        }
        if walk.cursor < most && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    shape.put_head(&mut line, walk.cursor);
    call.out.fill_head(head, line.as_slice());
    Ok(())
}

/// Calls `look` with the collection at a key, or with `None` if the key does not exist. All visits of a request see the
/// same state of the collection.
///
/// # Errors
/// If the collection has changed since the previous visit. The request is then restarted.
pub(super) fn look_consistently<C: Collection, T>(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    reading: &mut Reading,
    look: impl FnOnce(&mut OutBuffer, Option<&C::Value<'_>>) -> Result<T, Interrupt>,
) -> Result<T, Interrupt> {
    let (key, view) = (call.key(bytes), call.ctx.view());
    slices::wait_for_lock(call, &key)?;
    let item = typed::live(call.guard.items().get(&key), view);
    let parts = KeyParts::new(call.guard, key);
    let value = opened::<C>(item.as_ref(), &parts)?;
    let identity = value.as_ref().map(|value| {
        let (object, elements) = C::identity(value);
        (object, 1, elements)
    });
    slices::check_identity(call.session, call.guard, reading, identity)?;
    look(call.out, value.as_ref())
}
