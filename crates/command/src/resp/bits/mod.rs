//! Commands on strings as arrays of bits: `SETBIT`, `GETBIT`, `BITCOUNT`, `BITPOS`. The other commands are in `field`
//! and `op`.

mod field;
mod op;
mod words;

pub(super) use field::{bitfield, bitfield_ro};
pub(super) use op::bitop;

use super::catalog::lower;
use super::error::ErrorReply;
use super::number::integer;
use super::typed::{live, string};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::slices::{self, STEP_BYTES, STEP_OPS};
use crate::resp::state::walk::{MISSING, Walk};
use crate::resp::string::note_store;
use crate::resp::typed;
use crate::visit::progress::SessionWait;
use protocol::resp::Args;
use segment::{Attempts, Guard, Item, Key, Loaded, Patch, Replaced, Replacement, Value};
use std::ops::Range;

/// The maximum number of bytes that a command reads in its first visit.
const FIRST_BYTES_MAX: u64 = 4 * STEP_BYTES;
/// The number of bits up to which Redis accepts the offset of a bit by default, whatever the length of the value.
const OFFSET_BYTES: u64 = 512 << 20;

/// Parses the offset of a bit. It may lie behind the maximum length of an item, `item_max`.
fn offset(text: &[u8], item_max: u64) -> Result<u64, ErrorReply> {
    let offset = integer(text).ok().and_then(|offset| u64::try_from(offset).ok());
    offset.filter(|offset| offset / 8 < item_max.max(OFFSET_BYTES)).ok_or(ErrorReply::BitOffset)
}

/// Copies a part of a value to `to`. Fills the rest of `to` with zeros, if the value ends before it. If a piece of the
/// value is lost, all of `to` is zero.
fn copy_part(guard: &Guard<'_>, key: &Key<'_>, item: Option<&Item<'_>>, at: u64, to: &mut [u8]) {
    to.fill(0);
    let Some(item) = item else { return };
    let end = item.value_len().min(at + to.len() as u64);
    let mut filled = 0;
    let is_whole = at >= end
        || guard.pieces().copy_range(key, item.value, at..end, &mut |part| {
            to[filled..filled + part.len()].copy_from_slice(part);
            filled += part.len();
        });
    if !is_whole {
        to.fill(0);
    }
}

pub(super) fn getbit<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let key = call.key(args.next().unwrap_or_default());
    let place = offset(args.next().unwrap_or_default(), call.ctx.shared.config.item_bytes_max)?;
    let item = live(call.guard.items().get(&key), call.ctx.view());
    string(item.as_ref())?;
    let mut byte = [0];
    copy_part(call.guard, &key, item.as_ref(), place / 8, &mut byte);
    call.count_read(item.is_some());
    call.int((byte[0] >> (7 - place % 8) & 1).into());
    Ok(())
}

pub(super) fn setbit<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let bytes = args.next().unwrap_or_default();
    let item_max = call.ctx.shared.config.item_bytes_max;
    let place = offset(args.next().unwrap_or_default(), item_max)?;
    let bit = match integer(args.next().unwrap_or_default()) {
        Ok(bit @ 0..=1) => bit as u8,
        _ => return Err(ErrorReply::BitValue.into()),
    };
    if place / 8 >= item_max {
        return Err(ErrorReply::TooLong.into());
    }
    typed::room_to_store(call, 0)?;
    let key = call.key(bytes);
    let (shift, end) = (7 - place % 8, place / 8 + 1);
    let mut attempts = Attempts::default();
    let old = loop {
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        // The patch below must not change the bytes of a record whose bins have all expired.
        string(item.as_ref())?;
        let mut byte = [0];
        copy_part(call.guard, &key, item.as_ref(), place / 8, &mut byte);
        let old = byte[0] >> shift & 1;
        if old == bit && item.is_some_and(|item| item.value_len() >= end) {
            call.int(old.into());
            return Ok(());
        }
        byte[0] = byte[0] & !(1 << shift) | bit << shift;
        let patches = [Patch { at: place / 8, bytes: &byte }];
        if call.guard.items_mut().replace(&key, &version, Replacement::Patch { patches: &patches, bytes_min: end })?
            == Replaced::Done
        {
            break old;
        }
    };
    note_store(call);
    call.changed(KeyEvent::SETBIT, bytes);
    call.int(old.into());
    Ok(())
}

/// The range of a request, before the length of the value is known.
#[derive(Clone, Copy)]
struct Selection {
    from: i64,
    /// The last selected byte or bit; `None` if the range extends to the end of the value.
    to: Option<i64>,
    is_bits: bool,
}

impl Selection {
    /// Parses the rest of a request: `[start [end [BYTE | BIT]]]`.
    fn read(args: &mut Args<'_>) -> Result<Self, ErrorReply> {
        if args.len() > 3 {
            return Err(ErrorReply::Syntax);
        }
        let Some(from) = args.next() else { return Ok(Self { from: 0, to: None, is_bits: false }) };
        let (from, to) = (integer(from)?, args.next());
        let unit = args.next().map(lower);
        let is_bits = unit.as_deref() == Some(b"bit");
        if unit.is_some_and(|unit| !matches!(&unit[..], b"bit" | b"byte")) {
            return Err(ErrorReply::Syntax);
        }
        Ok(Self { from, to: to.map(integer).transpose()?, is_bits })
    }

    /// Parses the rest of a request of `BITCOUNT`: `[start [end [BYTE | BIT]]]`.
    fn read_counted(mut args: Args<'_>) -> Result<Self, ErrorReply> {
        // As in Redis, the end is checked before the unit.
        let mut ends = args;
        for end in ends.by_ref().take(if args.len() > 3 { 0 } else { 2 }) {
            integer(end)?;
        }
        Self::read(&mut args)
    }

    /// Returns the selected bits of a value of `bytes` bytes. Numbers below 0 count from the end.
    fn bits(&self, bytes: u64) -> Range<u64> {
        let total = if self.is_bits { 8 * bytes } else { bytes } as i64;
        let place = |number: i64| if number < 0 { (total + number.max(-total)).max(0) } else { number };
        let (from, to) = (place(self.from), place(self.to.unwrap_or(-1)).min(total - 1));
        if from > to {
            return 0..0;
        }
        let (from, end) = (from as u64, to as u64 + 1);
        if self.is_bits { from..end } else { 8 * from..8 * end }
    }
}

/// Ends a request whose range is malformed. As in Redis, the key is looked up first: if it does not exist, the reply is
/// `missing`, and if it holds another type, that is the error.
#[cold]
fn end_malformed(call: &mut Call<'_, '_>, bytes: &[u8], error: ErrorReply, missing: i64) -> Run {
    let key = call.key(bytes);
    if call.guard.locks().is_locked_by_other(&key) {
        return Err(SessionWait::Parked.into());
    }
    let item = live(call.guard.items().get(&key), call.ctx.view());
    if string(item.as_ref())?.is_some() {
        return Err(error.into());
    }
    call.count_read(false);
    call.int(missing);
    Ok(())
}

pub(super) fn bitcount<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let mut left = args;
    let bytes = left.next().unwrap_or_default();
    let selection = match Selection::read_counted(left) {
        Ok(selection) => selection,
        Err(error) => return end_malformed(call, bytes, error, 0),
    };
    let is_reversed = selection.from < 0 && selection.to.is_some_and(|to| to < 0 && selection.from > to);
    let read = read_bits(call, ("bitcount", args), bytes, selection, &mut |part, at, bits, sum| {
        *sum += words::count_ones_in(part, at, bits);
        false
    })?;
    call.int(if is_reversed { 0 } else { read.sum as i64 });
    Ok(())
}

pub(super) fn bitpos<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let mut left = args;
    let bytes = left.next().unwrap_or_default();
    let bit = match integer(left.next().unwrap_or_default())? {
        0 => false,
        1 => true,
        _ => return Err(ErrorReply::BitArgument.into()),
    };
    let selection = match Selection::read(&mut left) {
        Ok(selection) => selection,
        Err(error) => return end_malformed(call, bytes, error, if bit { -1 } else { 0 }),
    };
    let mut found = None;
    let read = read_bits(call, ("bitpos", args), bytes, selection, &mut |part, at, bits, _| {
        found = words::find_in(part, at, bits, bit);
        found.is_some()
    })?;
    call.int(match (found, read.len) {
        (Some(place), _) => place as i64,
        (None, None) => {
            if bit {
                -1
            } else {
                0
            }
        }
        // The value is followed by an infinite number of zeros, unless the range has an end.
        (None, Some(len)) if !bit && selection.to.is_none() && !selection.bits(len).is_empty() => 8 * len as i64,
        (None, Some(_)) => -1,
    });
    Ok(())
}

/// The result of [`read_bits`].
struct ReadBits {
    /// The length of the value in bytes; `None` if the key does not exist.
    len: Option<u64>,
    /// The sum of the function that read the bytes.
    sum: u64,
}

/// A function that reads bytes of a value. Its arguments are the bytes, the offset of the first of them in the value,
/// the selected bits, and a sum that it may increase. It returns true if no more bytes are needed.
type ReadPart<'f> = dyn FnMut(&[u8], u64, &Range<u64>, &mut u64) -> bool + 'f;

/// Calls `each` with the bytes of the selected bits of a string, in order, at most [`STEP_BYTES`] at a time. `request`
/// is the name of the command and its arguments. If there are many bytes, the command becomes a transaction, which
/// reads them over several visits.
fn read_bits<'c>(
    call: &mut Call<'c, '_>,
    request: (&'static str, Args<'c>),
    bytes: &[u8],
    selection: Selection,
    each: &mut ReadPart<'_>,
) -> Result<ReadBits, Interrupt> {
    if !call.collects_replies {
        return read_on(call, request, bytes, selection, (&mut Walk::default(), each));
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let read = read_on(call, request, bytes, selection, (&mut walk, each));
    read.map_err(|stop| slices::end_unfinished_visit(call, walk, stop))
}

fn read_on<'c>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    bytes: &[u8],
    selection: Selection,
    (walk, each): (&mut Walk, &mut ReadPart<'_>),
) -> Result<ReadBits, Interrupt> {
    let key = call.key(bytes);
    if call.guard.locks().is_locked_by_other(&key) {
        return Err(SessionWait::Parked.into());
    }
    let item = live(call.guard.items().get(&key), call.ctx.view());
    string(item.as_ref())?;
    let identity = item.as_ref().map_or(MISSING, |item| (item.token, 1, item.value_len()));
    if walk.reading.identity.is_some_and(|before| before != identity) {
        return Err(slices::restart(call.session, call.guard, &mut walk.reading));
    }
    walk.reading.identity = Some(identity);
    let Some(item) = item else {
        call.count_read(false);
        return Ok(ReadBits { len: None, sum: 0 });
    };
    let bits = selection.bits(item.value_len());
    let range = words::bytes_of(&bits);
    if !call.collects_replies && range.end - range.start > FIRST_BYTES_MAX {
        return Err(slices::run_reading(call, name, args, bytes));
    }
    let mut at = range.start.max(walk.cursor);
    while at < range.end {
        let end = range.end.min(at + STEP_BYTES);
        let is_done =
            read_step(call, &key, item.value, at..end, &mut |part, at| each(part, at, &bits, &mut walk.wanted));
        let Some(is_done) = is_done else { return Ok(ReadBits { len: None, sum: 0 }) };
        call.ops += STEP_OPS * (end - at) as usize / STEP_BYTES as usize;
        (at, walk.cursor) = (end, end);
        if is_done {
            break;
        }
        if call.collects_replies && at < range.end && call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let len = Some(item.value_len());
    call.count_read(true);
    Ok(ReadBits { len, sum: walk.wanted })
}

/// Calls `each` with the parts of a range of a value, until it returns true. Returns the last result, or `None` if a
/// piece of the value is lost.
fn read_step(
    call: &Call<'_, '_>,
    key: &Key<'_>,
    value: Value<'_>,
    range: Range<u64>,
    each: &mut dyn FnMut(&[u8], u64) -> bool,
) -> Option<bool> {
    let (mut at, mut is_done) = (range.start, false);
    let is_whole = call.guard.pieces().copy_range(key, value, range, &mut |part| {
        is_done = is_done || each(part, at);
        at += part.len() as u64;
    });
    is_whole.then_some(is_done)
}
