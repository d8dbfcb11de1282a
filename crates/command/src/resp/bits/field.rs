//! `BITFIELD` and `BITFIELD_RO`: integers of any width at any bit of a string.
//!
//! ```text
//!   request ──> check all operations ──> edit: read, compute, overwrite ──> their replies ──> next edit ...
//! ```
//!
//! An edit executes up to [`OPERATIONS_AN_EDIT`] operations on one state of the value. A request with more operations
//! locks its key, so that other clients see all of its changes or none.

use super::{OFFSET_BYTES, copy_part};
use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::slices::{self, Slices};
use crate::resp::state::string_work::{FieldsWork, Overflow, StringWork};
use crate::resp::string::note_store;
use crate::resp::typed::{self, live, string};
use crate::visit::progress::SessionWait;
use arrayvec::ArrayVec;
use protocol::resp::{Args, reply};
use segment::{Attempts, Expire, Guard, Item, Key, Loaded, PATCHES_MAX, Patch, Replaced, Replacement, Value};

/// The maximum number of operations of one edit.
const OPERATIONS_AN_EDIT: usize = 64;
/// The maximum number of operations of one edit of a value in pieces. Each changes at most two blocks.
const OPERATIONS_AN_EDIT_OF_PIECES: usize = PATCHES_MAX / 2;
/// The maximum number of words of a request that is executed in one visit, without the name and the key.
const WORDS_MAX: usize = 256;
/// The number of operations of a request that cost as much as one operation of a worker.
const OPERATIONS_AN_OP: usize = 8;
/// The maximum length of the reply to one operation, in bytes.
const LINE_BYTES: usize = 24;
/// The length of a block of a value in pieces, in bytes.
const BLOCK_BYTES: usize = 16;
/// The maximum number of bytes that contain bits of one field.
const FIELD_BYTES_MAX: usize = 9;

/// The kinds of operations on a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// One operation.
#[derive(Clone, Copy, Debug)]
struct Operation {
    action: Action,
    is_signed: bool,
    /// The width of the field.
    bits: u32,
    /// The position of the field's first bit.
    at: u64,
    overflow: Overflow,
}

impl Operation {
    /// Returns the number of bytes of a value that contains the whole field.
    fn bytes_min(&self) -> u64 {
        (self.at + u64::from(self.bits)).div_ceil(8)
    }

    /// Returns the position of the field's lowest bit in the number that is formed by [`FIELD_BYTES_MAX`] bytes, from
    /// the field's first byte on.
    fn shift(&self) -> u32 {
        8 * FIELD_BYTES_MAX as u32 - (self.at % 8) as u32 - self.bits
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Returns the field's number.
    fn read(&self, bytes: &[u8; FIELD_BYTES_MAX]) -> i64 {
        let bits = (number_of(bytes) >> self.shift()) as u64 & self.mask();
        if self.is_signed { extend(bits, self.bits) } else { bits as i64 }
    }

    /// Overwrites the field.
    fn write(&self, bytes: &mut [u8; FIELD_BYTES_MAX], number: i64) {
        let (mask, shift) = (u128::from(self.mask()), self.shift());
        let new = number_of(bytes) & !(mask << shift) | (number as u128 & mask) << shift;
        bytes.copy_from_slice(&new.to_be_bytes()[16 - FIELD_BYTES_MAX..]);
    }

    /// Returns the new number of a field whose number is `old`, and the reply. Returns `None` if the number does not
    /// fit and must not be stored.
    fn apply(&self, old: i64) -> Option<(i64, i64)> {
        let (base, delta) = match self.action {
            Action::Get => return Some((old, old)),
            Action::Set(number) => (number, 0),
            Action::Add(delta) => (old, delta),
        };
        let limit = if self.is_signed { self.signed_limit(base, delta) } else { self.unsigned_limit(base, delta) };
        let sum = base.wrapping_add(delta);
        let new = match (limit, self.overflow) {
            (None, _) => sum,
            (Some(limit), Overflow::Saturate) => limit,
            (Some(_), Overflow::Fail) => return None,
            (Some(_), Overflow::Wrap) if self.is_signed => extend(sum as u64 & self.mask(), self.bits),
            (Some(_), Overflow::Wrap) => (sum as u64 & self.mask()) as i64,
        };
        Some((new, if matches!(self.action, Action::Set(_)) { old } else { new }))
    }

    /// Returns the limit that a sum exceeds, if it does. The comparisons wrap where those of Redis do.
    fn signed_limit(&self, base: i64, delta: i64) -> Option<i64> {
        let max = (self.mask() >> 1) as i64;
        let min = -max - 1;
        let (delta_max, delta_min) = (max.wrapping_sub(base), min.wrapping_sub(base));
        let is_narrow = self.bits != 64;
        if base > max || is_narrow && delta > delta_max || base >= 0 && delta > 0 && delta > delta_max {
            return Some(max);
        }
        (base < min || is_narrow && delta < delta_min || base < 0 && delta < 0 && delta < delta_min).then_some(min)
    }

    /// Returns the limit that a sum exceeds, if it does.
    fn unsigned_limit(&self, base: i64, delta: i64) -> Option<i64> {
        let (base, max) = (base as u64, self.mask());
        let (delta_max, delta_min) = (max.wrapping_sub(base) as i64, base.wrapping_neg() as i64);
        if base > max || delta > 0 && delta > delta_max {
            return Some(max as i64);
        }
        (delta < 0 && delta < delta_min).then_some(0)
    }
}

/// Returns the number that bytes form, the first of which is the most significant.
fn number_of(bytes: &[u8; FIELD_BYTES_MAX]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Extends the sign of a number of `bits` bits.
fn extend(number: u64, bits: u32) -> i64 {
    let unused = 64 - bits;
    (number << unused) as i64 >> unused
}

/// Parses the type of a field: whether the field is signed, and its width.
fn field_type(text: &[u8]) -> Result<(bool, u32), ErrorReply> {
    let Some((sign, bits)) = text.split_first() else { return Err(ErrorReply::FieldType) };
    let is_signed = match sign {
        b'i' => true,
        b'u' => false,
        _ => return Err(ErrorReply::FieldType),
    };
    match integer(bits) {
        Ok(bits @ 1..=63) => Ok((is_signed, bits as u32)),
        Ok(64) if is_signed => Ok((true, 64)),
        _ => Err(ErrorReply::FieldType),
    }
}

/// Parses the position of a field: a number of bits, or `#` and a number of fields.
fn position(text: &[u8], bits: u32, bytes_max: u64) -> Result<u64, ErrorReply> {
    let (text, unit) = text.strip_prefix(b"#").map_or((text, 1), |text| (text, u64::from(bits)));
    let number = integer(text).ok().and_then(|number| u64::try_from(number).ok()?.checked_mul(unit));
    number.filter(|place| place / 8 < bytes_max).ok_or(ErrorReply::BitOffset)
}

/// The operations of a request.
struct Operations<'c> {
    words: Args<'c>,
    overflow: Overflow,
    /// The numbers of bytes that may contain fields that the request reads, and fields that it writes.
    bytes_max: (u64, u64),
}

impl Operations<'_> {
    /// Parses the next operation. Returns `None` after the last one.
    fn next(&mut self) -> Result<Option<Operation>, ErrorReply> {
        loop {
            let Some(word) = self.words.next() else { return Ok(None) };
            let word = lower(word);
            let (is_read, arguments) = match &word[..] {
                b"get" => (true, 2),
                b"set" | b"incrby" => (false, 3),
                b"overflow" => (false, 1),
                _ => return Err(ErrorReply::Syntax),
            };
            if self.words.len() < arguments {
                return Err(ErrorReply::Syntax);
            }
            let mut argument = || self.words.next().unwrap_or_default();
            if arguments == 1 {
                self.overflow = match &lower(argument())[..] {
                    b"wrap" => Overflow::Wrap,
                    b"sat" => Overflow::Saturate,
                    b"fail" => Overflow::Fail,
                    _ => return Err(ErrorReply::OverflowType),
                };
                continue;
            }
            let (is_signed, bits) = field_type(argument())?;
            let bytes_max = if is_read { self.bytes_max.0 } else { self.bytes_max.1 };
            let at = position(argument(), bits, bytes_max)?;
            let action = match &word[..] {
                b"get" => Action::Get,
                b"set" => Action::Set(integer(argument())?),
                _ => Action::Add(integer(argument())?),
            };
            return Ok(Some(Operation { action, is_signed, bits, at, overflow: self.overflow }));
        }
    }
}

pub(in super::super) fn bitfield<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    execute(call, args, "bitfield")
}

pub(in super::super) fn bitfield_ro<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    execute(call, args, "bitfield_ro")
}

fn execute<'c>(call: &mut Call<'c, '_>, args: Args<'c>, name: &'static str) -> Run {
    let mut words = args;
    let key = words.next().unwrap_or_default();
    if !call.collects_replies && words.len() > WORDS_MAX {
        return Err(slices::run_locked(call, name, args, key));
    }
    let mut work = match slices::take_work(call) {
        Some(StringWork::Fields(work)) => work,
        _ => FieldsWork::default(),
    };
    let ran = check_all(call, words, &mut work, name == "bitfield_ro")
        .and_then(|()| execute_all(call, (name, args), (key, words), &mut work));
    if call.collects_replies && matches!(ran, Err(Interrupt::State(_))) {
        slices::retain_work(call, StringWork::Fields(work));
    }
    ran
}

/// Returns the operations of the request that are not done.
fn operations_left<'c>(call: &Call<'c, '_>, words: Args<'c>, overflow: Overflow) -> Operations<'c> {
    let words = if call.collects_replies { slices::words_left(call, words) } else { words };
    let item_max = call.ctx.shared.config.item_bytes_max;
    let bytes_max = (item_max.max(OFFSET_BYTES), item_max);
    Operations { words, overflow, bytes_max }
}

/// Checks all operations of the request before the first of them is executed. Takes several visits if there are many.
fn check_all<'c>(call: &mut Call<'c, '_>, words: Args<'c>, work: &mut FieldsWork, only_reads: bool) -> Run {
    if work.is_checked {
        return Ok(());
    }
    let mut left = operations_left(call, words, work.overflow);
    loop {
        let before = left.words;
        let Some(operation) = left.next()? else { break };
        work.overflow = left.overflow;
        work.count += 1;
        if operation.action != Action::Get {
            work.bytes_min = work.bytes_min.max(operation.bytes_min());
        }
        if call.collects_replies {
            let passed = (before.len() - left.words.len(), before.wire_bytes() - left.words.wire_bytes());
            slices::words_done(call, passed.0 as u32, passed.1);
        }
        if (work.count as usize).is_multiple_of(OPERATIONS_AN_OP) {
            call.ops += 1;
        }
        if call.collects_replies && call.is_slice_used() && left.words.len() > 0 {
            return Err(SessionWait::Yield.into());
        }
    }
    if only_reads && work.bytes_min > 0 {
        return Err(ErrorReply::OnlyGet.into());
    }
    (call.session.done, call.session.passed) = (0, (0, 0));
    (work.overflow, work.is_checked) = (Overflow::Wrap, true);
    Ok(())
}

/// Executes all operations of the request, and replies with the array of their results.
fn execute_all<'c>(
    call: &mut Call<'c, '_>,
    (name, args): (&'static str, Args<'c>),
    (bytes, words): (&[u8], Args<'c>),
    work: &mut FieldsWork,
) -> Run {
    if work.bytes_min > 0 && call.session.done == 0 {
        typed::room_to_store(call, 0)?;
    }
    let key = call.key(bytes);
    let present = call.guard.items().peek(&key);
    let is_large = present.is_some_and(|item| matches!(item.value, Value::Large(_)))
        || work.bytes_min > call.guard.sizes().large_threshold();
    let edit_max = if is_large { OPERATIONS_AN_EDIT_OF_PIECES } else { OPERATIONS_AN_EDIT };
    if !call.collects_replies && work.count as usize > edit_max {
        return Err(slices::run_locked(call, name, args, bytes));
    }
    let mut left = operations_left(call, words, work.overflow);
    loop {
        typed::answer_fits(call, LINE_BYTES * (edit_max + 1))?;
        let before = left.words;
        let mut edit = ArrayVec::<Operation, OPERATIONS_AN_EDIT>::new();
        while edit.len() < edit_max
            && let Some(operation) = left.next()?
        {
            edit.push(operation);
        }
        let is_first = work.done == 0;
        if edit.is_empty() && !is_first {
            return Ok(());
        }
        let Some(results) = edit_value(call, bytes, &edit, (work.bytes_min, is_large), is_first)? else {
            *work = FieldsWork::default();
            return Err(Slices::restart(call));
        };
        if is_first {
            reply::array(call.out, work.count.into());
        }
        work.done += edit.len() as u32;
        work.overflow = left.overflow;
        for result in results {
            match result {
                Some(number) => reply::int(call.out, number),
                None => call.null(),
            }
        }
        call.ops += edit.len() / OPERATIONS_AN_OP;
        if work.done == work.count {
            return Ok(());
        }
        let passed = (before.len() - left.words.len(), before.wire_bytes() - left.words.wire_bytes());
        slices::words_done(call, passed.0 as u32, passed.1);
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
}

/// The results of an edit's operations. `None`: the number did not fit, and the field is unchanged.
type Results = ArrayVec<Option<i64>, OPERATIONS_AN_EDIT>;

/// Executes operations on the value of a key, and returns their results. If an operation writes, the value has at least
/// `bytes_min` bytes afterwards; otherwise `bytes_min` is 0. Returns `None` if the value that earlier edits of the
/// request have written is lost.
fn edit_value(
    call: &mut Call<'_, '_>,
    bytes: &[u8],
    operations: &[Operation],
    (bytes_min, is_large): (u64, bool),
    is_first: bool,
) -> Result<Option<Results>, Interrupt> {
    if bytes_min == 0 {
        return read_fields(call, bytes, operations).map(Some);
    }
    let key = call.key(bytes);
    let mut whole = call.ctx.scratch(call.guard);
    let mut attempts = Attempts::default();
    let ran = loop {
        let Loaded { item, version } = call.guard.items().load(&key, &mut attempts)?;
        // A patch must not change the bytes of a record whose bins have all expired.
        string(item.as_ref())?;
        if item.is_none() && !is_first {
            return Ok(None);
        }
        let len = item.as_ref().map_or(0, Item::value_len);
        let (total, is_grown) = (len.max(bytes_min), bytes_min > len);
        if !is_large && item.is_some_and(|item| matches!(item.value, Value::Large(_))) {
            // Another client has replaced the value by a longer one meanwhile.
            return Err(SessionWait::Yield.into());
        }
        let mut blocks = Blocks::default();
        let ran = if is_large {
            blocks = Blocks::read(call.guard, &key, item.as_ref(), operations);
            run(&mut Editable::Blocks(&mut blocks), operations)
        } else {
            whole.clear();
            whole.resize(total as usize, 0);
            copy_part(call.guard, &key, item.as_ref(), 0, &mut whole);
            run(&mut Editable::Whole(&mut whole), operations)
        };
        let ran = Ran { has_event: ran.is_changed || ran.has_written && is_grown, ..ran };
        if !ran.is_changed && !is_grown {
            break ran;
        }
        let patches: ArrayVec<_, PATCHES_MAX> = blocks.changed().map(|block| block.patch(total)).collect();
        let new = match item.filter(|_| !is_large) {
            _ if is_large => Replacement::Patch { patches: &patches, bytes_min: total },
            Some(Item { client_flags, expire, .. }) => Replacement::Bytes { value: &whole, client_flags, expire },
            None => Replacement::Bytes { value: &whole, client_flags: 0, expire: Expire::Never },
        };
        if call.guard.items_mut().replace(&key, &version, new)? == Replaced::Done {
            break ran;
        }
    };
    drop(whole);
    // A request that takes several edits sends its event only once.
    if ran.has_event && !std::mem::replace(&mut call.session.is_published, true) {
        note_store(call);
        call.changed(KeyEvent::SETBIT, bytes);
    }
    Ok(Some(ran.results))
}

/// Returns the numbers of fields, without a change of the value.
fn read_fields(call: &mut Call<'_, '_>, bytes: &[u8], operations: &[Operation]) -> Result<Results, Interrupt> {
    let key = call.key(bytes);
    let item = live(call.guard.items().get(&key), call.ctx.view());
    string(item.as_ref())?;
    let read = |operation: &Operation| {
        let mut bytes = [0; FIELD_BYTES_MAX];
        copy_part(call.guard, &key, item.as_ref(), operation.at / 8, &mut bytes);
        Some(operation.read(&bytes))
    };
    let results = operations.iter().map(read).collect();
    let hit = item.is_some();
    call.count_read(hit);
    Ok(results)
}

/// The result of operations on a value.
struct Ran {
    results: Results,
    /// True if an operation has changed a field.
    is_changed: bool,
    /// True if an operation has written a number, which may be the old one.
    has_written: bool,
    /// True if subscribers are notified.
    has_event: bool,
}

/// Executes operations on a value.
fn run(value: &mut Editable<'_>, operations: &[Operation]) -> Ran {
    let mut ran = Ran { results: Results::new(), is_changed: false, has_written: false, has_event: false };
    for operation in operations {
        let first = operation.at / 8;
        let mut bytes = value.field(first);
        let old = operation.read(&bytes);
        let applied = operation.apply(old);
        ran.has_written |= applied.is_some() && operation.action != Action::Get;
        if let Some((new, _)) = applied
            && new != old
        {
            operation.write(&mut bytes, new);
            value.set_field(first, &bytes);
            ran.is_changed = true;
        }
        ran.results.push(applied.map(|(_, result)| result));
    }
    ran
}

/// A value that is being edited.
enum Editable<'e> {
    /// A copy of the whole value.
    Whole(&'e mut [u8]),
    /// The blocks of a value that contain the fields of all operations.
    Blocks(&'e mut Blocks),
}

impl Editable<'_> {
    /// Returns the bytes from byte `first` on. Those behind the end of the value are zero.
    fn field(&self, first: u64) -> [u8; FIELD_BYTES_MAX] {
        let mut field = [0; FIELD_BYTES_MAX];
        match self {
            Self::Whole(value) => {
                let rest = value.get(first as usize..).unwrap_or_default();
                field.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            }
            Self::Blocks(blocks) => {
                let places = (first..).zip(&mut field);
                places.for_each(|(place, to)| *to = blocks.byte(place).map_or(0, |byte| *byte));
            }
        }
        field
    }

    /// Overwrites the bytes from byte `first` on, up to the end of the value.
    fn set_field(&mut self, first: u64, field: &[u8; FIELD_BYTES_MAX]) {
        match self {
            Self::Whole(value) => {
                let rest = value.get_mut(first as usize..).unwrap_or_default();
                rest.iter_mut().zip(field).for_each(|(to, from)| *to = *from);
            }
            Self::Blocks(blocks) => (first..).zip(field).for_each(|(place, byte)| blocks.set_byte(place, *byte)),
        }
    }
}

/// Some blocks of a value, in the order of their positions.
#[derive(Default)]
struct Blocks(ArrayVec<Block, PATCHES_MAX>);

/// A part of a value. It begins at a multiple of [`BLOCK_BYTES`].
#[derive(Clone, Copy)]
struct Block {
    at: u64,
    bytes: [u8; BLOCK_BYTES],
    is_changed: bool,
}

impl Blocks {
    /// Reads the blocks that contain the fields of `operations`, at most [`OPERATIONS_AN_EDIT_OF_PIECES`].
    fn read(guard: &Guard<'_>, key: &Key<'_>, item: Option<&Item<'_>>, operations: &[Operation]) -> Self {
        let block_of = |byte: u64| byte / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        let mut blocks = Self::default();
        for at in operations.iter().flat_map(|operation| [operation.at / 8, operation.bytes_min() - 1]).map(block_of) {
            let Err(place) = blocks.0.binary_search_by_key(&at, |block| block.at) else { continue };
            let mut bytes = [0; BLOCK_BYTES];
            copy_part(guard, key, item, at, &mut bytes);
            blocks.0.insert(place, Block { at, bytes, is_changed: false });
        }
        blocks
    }

    fn changed(&self) -> impl Iterator<Item = &Block> {
        self.0.iter().filter(|block| block.is_changed)
    }

    fn byte(&self, place: u64) -> Option<&u8> {
        let block = self.0.iter().rev().find(|block| block.at <= place)?;
        block.bytes.get((place - block.at) as usize)
    }

    /// Overwrites a byte. Does nothing if no block contains it: a field's last bytes may be outside its bits.
    fn set_byte(&mut self, place: u64, byte: u8) {
        let Some(block) = self.0.iter_mut().rev().find(|block| block.at <= place) else { return };
        let at = (place - block.at) as usize;
        if block.bytes.get(at).is_some_and(|old| *old != byte) {
            block.bytes[at] = byte;
            block.is_changed = true;
        }
    }
}

impl Block {
    /// Returns the patch that writes the block to a value of `total` bytes.
    fn patch(&self, total: u64) -> Patch<'_> {
        Patch { at: self.at, bytes: &self.bytes[..(total - self.at).min(BLOCK_BYTES as u64) as usize] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(action: Action, kind: &str, overflow: Overflow) -> Operation {
        let (is_signed, bits) = field_type(kind.as_bytes()).unwrap();
        Operation { action, is_signed, bits, at: 13, overflow }
    }

    #[test]
    fn numbers_that_do_not_fit_wrap_saturate_or_fail() {
        let apply =
            |kind, overflow, old, delta| operation(Action::Add(delta), kind, overflow).apply(old).map(|new| new.0);
        assert_eq!(apply("u8", Overflow::Wrap, 250, 10), Some(4));
        assert_eq!(apply("u8", Overflow::Saturate, 250, 10), Some(255));
        assert_eq!(apply("u8", Overflow::Fail, 250, 10), None);
        assert_eq!(apply("u8", Overflow::Saturate, 5, -10), Some(0));
        assert_eq!(apply("i8", Overflow::Wrap, 127, 1), Some(-128));
        assert_eq!(apply("i8", Overflow::Saturate, -100, -100), Some(-128));
        assert_eq!(apply("i64", Overflow::Wrap, i64::MAX, 1), Some(i64::MIN));
        assert_eq!(apply("i64", Overflow::Saturate, i64::MAX, 1), Some(i64::MAX));
        assert_eq!(apply("i64", Overflow::Fail, i64::MIN, -1), None);
        assert_eq!(apply("u63", Overflow::Wrap, i64::MAX, 1), Some(0));
        assert_eq!(operation(Action::Set(300), "u8", Overflow::Wrap).apply(7), Some((44, 7)));
        for bad in ["", "u64", "i65", "i0", "u", "x8", "i08"] {
            assert_eq!(field_type(bad.as_bytes()), Err(ErrorReply::FieldType), "{bad}");
        }
    }

    #[test]
    fn a_field_is_read_as_written_and_the_bits_around_it_stay() {
        for bits in 1..=64_u32 {
            for at in 0..8 {
                let field = Operation { bits, at, ..operation(Action::Get, "i1", Overflow::Wrap) };
                for number in [0, -1, 1, i64::MIN, 0x5a5a_5a5a_5a5a_5a5a] {
                    for fill in [0, 0xff] {
                        let mut bytes = [fill; FIELD_BYTES_MAX];
                        field.write(&mut bytes, number);
                        assert_eq!(field.read(&bytes), extend(number as u64 & field.mask(), bits));
                        field.write(&mut bytes, if fill == 0 { 0 } else { -1 });
                        assert_eq!(bytes, [fill; FIELD_BYTES_MAX]);
                    }
                }
            }
        }
    }
}
