//! Functions that look up a key and write its value into a reply. A long value is pinned and sent directly from the
//! store, because that is cheaper than a copy.
//!
//! Invariant: if a value cannot be sent completely, no part of it remains in the output.

pub(super) use crate::lookup::values::Identity;
use crate::lookup::values::pin_or_room;
use crate::resp::call::{Call, Interrupt, Step};
use crate::resp::error::ErrorReply;
use crate::resp::session::SessionState;
use crate::resp::state::copying::Copying;
use crate::resp::state::transaction::answers_bytes_max;
use crate::resp::typed;
use crate::visit::out::LINE_ROOM;
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use protocol::number::Decimal;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::sink::Fixed;
use segment::{Attempts, Guard, Item, Key, LargeRef, Loaded, Pinned, Replaced, Replacement, Value};

/// The number of bytes of a long value that are copied into a reply between two checks of the slice.
const COPIED_AT_ONCE_BYTES: u64 = 64 << 10;
/// The cost of copying [`COPIED_AT_ONCE_BYTES`] bytes, in operations.
const COPIED_AT_ONCE_OPS: usize = 16;

/// The rest of a value whose beginning is already in the reply. It consists of the bytes that are sent directly from
/// the store, if there are any, and the line end.
pub(super) struct ValueReply {
    pub(super) identity: Identity,
    pub(super) pinned: Option<Pinned>,
    pub(super) tail: &'static [u8],
}

/// Looks up a key and replies with its value or null. Returns true if the key existed.
pub(super) fn value_of(call: &mut Call<'_, '_>, bytes: &[u8]) -> Result<bool, Interrupt> {
    let key = call.key(bytes);
    let replied = reply_value(call, &key)?;
    let hit = replied.is_some();
    if let Some(replied) = replied {
        push_rest(call, replied);
    }
    Ok(hit)
}

/// Looks up a key. If the key does not exist, writes null. Otherwise, writes the beginning of its value, and the caller
/// writes the returned rest with [`push_rest`].
pub(super) fn reply_value(call: &mut Call<'_, '_>, key: &Key<'_>) -> Result<Option<ValueReply>, Interrupt> {
    let Some(item) = call.guard.items().get(key) else {
        if call.guard.tier().is_false_miss(key) {
            return Err(SessionWait::Parked.into());
        }
        continue_copy(call.out, call.session, None)?;
        reply::null(call.out, call.session.version);
        return Ok(None);
    };
    continue_copy(call.out, call.session, Some(&item.value))?;
    let mut replied = ValueReply { identity: Identity::of(&item), pinned: None, tail: &b"\r\n"[..] };
    match item.value {
        Value::Typed { .. } => {
            if typed::is_there(call, key)? {
                return Err(ErrorReply::WrongType.into());
            }
            reply::null(call.out, call.session.version);
            return Ok(None);
        }
        _ if !call.session.answers.wants_reply() => replied.tail = b"",
        Value::Bytes(bytes) => {
            replied.pinned = if call.copies || call.collects_replies || call.guard.locks().is_attached() {
                call.room(bytes.len()).map(|()| None)?
            } else {
                pin_or_room(call.out, call.ctx, bytes)?
            };
            reply::bulk_head(call.out, bytes.len() as u64);
            if replied.pinned.is_none() {
                call.out.push(bytes);
            }
        }
        Value::Integer(number) => {
            let digits = Decimal::new(number);
            reply::bulk_head(call.out, digits.as_slice().len() as u64);
            call.out.push(digits.as_slice());
        }
        Value::Large(large) if call.collects_replies => {
            let identity = replied.identity;
            let is_whole = put_pieces(call, key, large, 0..large.bytes)?;
            if !is_whole {
                reply::null(call.out, call.session.version);
            }
            return Ok(is_whole.then_some(ValueReply { identity, pinned: None, tail: b"\r\n" }));
        }
        Value::Large(large) if call.copies || call.guard.locks().is_attached() => {
            // After this result, the command becomes a single-command transaction, which copies the value over several
            // visits.
            return Err(SessionWait::OutputFull { want: (LINE_ROOM as u64 + large.bytes) as usize }.into());
        }
        Value::Large(large) => {
            replied.pinned = pin_long(call, key, large)?;
            if replied.pinned.is_none() {
                // A piece of the value is lost, so the key counts as missing.
                reply::null(call.out, call.session.version);
                return Ok(None);
            }
            reply::bulk_head(call.out, large.bytes);
        }
    }
    Ok(Some(replied))
}

/// Pins a value that is stored in pieces, so that it can be sent directly from the store. Returns `None` if a piece is
/// lost.
fn pin_long(call: &mut Call<'_, '_>, key: &Key<'_>, large: LargeRef) -> Result<Option<Pinned>, Interrupt> {
    if !call.out.has_pin_room_for_large(large.bytes) || !call.ctx.pin_budget(large.bytes) {
        return Err(SessionWait::OutputFull { want: LINE_ROOM }.into());
    }
    let pinned = call.guard.large().pin(key, large);
    if !matches!(pinned, Ok(Some(_))) {
        call.ctx.pin_refund(large.bytes);
    }
    Ok(pinned?)
}

/// Returns true if an earlier visit has written a part of the value that the request is replying with. Everything
/// before that value is then in the reply already.
pub(super) fn is_copying(call: &Call<'_, '_>) -> bool {
    call.session.copying.is_some()
}

/// Forgets the part of a value that earlier visits copied, because the value no longer exists. Returns the wait state
/// after which the request starts over.
pub(super) fn copy_again(call: &mut Call<'_, '_>) -> Interrupt {
    call.session.copying = None;
    SessionWait::Yield.into()
}

/// Copies a range of a value into a collected reply, after the part that earlier visits copied ([`continue_copy`]). A
/// visit copies as much as its slice allows, and the next visit continues after it, as `SessionState::copying` records.
/// Does not write the line end. If a piece of the value is lost, removes the copied part and returns false.
pub(super) fn put_pieces(
    call: &mut Call<'_, '_>,
    key: &Key<'_>,
    large: LargeRef,
    range: std::ops::Range<u64>,
) -> Result<bool, Interrupt> {
    let value = large.identity();
    let (head, mut at) = match call.session.copying {
        Some(copying) => (copying.head, copying.at),
        None => {
            let most = answers_bytes_max(&call.ctx.shared.config);
            if range.end - range.start > most.saturating_sub(call.out.collected() + LINE_ROOM) as u64 {
                return Err(ErrorReply::RepliesTooLong.into());
            }
            let head = call.out.reserve_head();
            let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
            reply::bulk_head(&mut line, range.end - range.start);
            call.out.fill_head(head, line.as_slice());
            (head, range.start)
        }
    };
    while at < range.end {
        call.session.copying = Some(Copying { value, head, at });
        let to = range.end.min(at + COPIED_AT_ONCE_BYTES);
        call.room((to - at) as usize)?;
        let out = &mut *call.out;
        if !call.guard.pieces().copy_range(key, Value::Large(large), at..to, &mut |part| out.push(part)) {
            continue_copy(call.out, call.session, None)?;
            return Ok(false);
        }
        at = to;
        call.session.copying = Some(Copying { value, head, at });
        call.ops += COPIED_AT_ONCE_OPS;
        if at < range.end && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    call.room(0)?;
    Ok(true)
}

/// Writes the rest of a value whose beginning [`reply_value`] has written.
pub(super) fn push_rest(call: &mut Call<'_, '_>, replied: ValueReply) {
    if let Some(pinned) = replied.pinned {
        call.out.push_pinned(pinned);
    }
    call.out.push(replied.tail);
    call.session.copying = None;
}

/// Removes the written part of a value. In a collected reply, that part remains until the next lookup of the key, which
/// removes it if the value has changed.
pub(super) fn take_back(call: &mut Call<'_, '_>, replied: Option<ValueReply>, mark: usize) {
    if let Some(pinned) = replied.and_then(|replied| replied.pinned) {
        call.ctx.unpin(pinned);
    }
    if !call.collects_replies {
        call.out.truncate(mark);
    }
}

/// Replies with a key's value or null, and applies the change `new` to the item whose value was replied. Returns true
/// if the key existed.
pub(super) fn reply_and_replace(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    new: Replacement<'_>,
) -> Result<bool, Interrupt> {
    let (key, mark) = (call.key(bytes), call.out.mark());
    let replied = reply_value(call, &key)?;
    let replaced = replace_replied(call.guard, &key, replied.as_ref(), new);
    finish_or_take_back(call, replied, mark, replaced).map(|(hit, ())| hit)
}

/// Applies the change `new` to the item whose value is in the reply. If another client has replaced the item meanwhile,
/// parks the request.
fn replace_replied(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    replied: Option<&ValueReply>,
    new: Replacement<'_>,
) -> Result<(), Interrupt> {
    let mut attempts = Attempts::default();
    loop {
        let Loaded { item, version } = guard.items().load(key, &mut attempts)?;
        if !is_replied(item.as_ref(), replied) {
            return Err(SessionWait::Parked.into());
        }
        if guard.items_mut().replace(key, &version, new)? == Replaced::Done {
            return Ok(());
        }
    }
}

/// Returns true if the value in the reply is the value of `item`, or if the reply is null and there is no item.
pub(super) fn is_replied(item: Option<&Item<'_>>, replied: Option<&ValueReply>) -> bool {
    item.map(Identity::of) == replied.map(|replied| replied.identity)
}

/// Writes the rest of a value if `changed`, the result of a change, is `Ok`. Otherwise, removes the written part of the
/// value. Returns true if the reply contains a value, and the result of the change.
pub(super) fn finish_or_take_back<T>(
    call: &mut Call<'_, '_>,
    replied: Option<ValueReply>,
    mark: usize,
    changed: Result<T, Interrupt>,
) -> Result<(bool, T), Interrupt> {
    match changed {
        Ok(changed) => {
            let hit = replied.is_some();
            if let Some(replied) = replied {
                push_rest(call, replied);
            }
            Ok((hit, changed))
        }
        Err(stop) => {
            take_back(call, replied, mark);
            Err(stop)
        }
    }
}

/// Removes the part of a value that earlier visits copied into the reply, unless the key still has the same value.
/// `value` is the key's current value.
#[inline]
pub(super) fn continue_copy(out: &mut OutBuffer, session: &mut SessionState, value: Option<&Value<'_>>) -> Step {
    match session.copying {
        Some(copying) if !matches!(value, Some(Value::Large(large)) if large.identity() == copying.value) => {
            session.copying = None;
            out.cut_to_head(copying.head);
            if out.room() < LINE_ROOM { Err(SessionWait::OutputFull { want: LINE_ROOM }) } else { Ok(()) }
        }
        _ => Ok(()),
    }
}
