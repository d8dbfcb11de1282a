//! `LCS`: the longest common subsequence of two strings, as text, as its length, or as ranges.
//!
//! ```text
//!   copy both values ──> table, row by row ──> from the last cell back to the first: text and ranges ──> reply
//! ```
//!
//! A cell of the table is the length of the longest common subsequence of a prefix of each string. Only one row of
//! lengths is stored. Of all other cells, one bit is stored: the direction of the way back. A request that takes
//! several visits locks its keys.

use super::catalog::lower;
use super::error::ErrorReply;
use super::number::integer;
use super::typed::{self, live};
use crate::memory::budget::MemoryUse;
use crate::resp::aside;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::slices;
use crate::resp::state::string_work::{LcsWork, StringWork};
use crate::visit::progress::SessionWait;
use protocol::resp::{Args, Version, reply};
use segment::Value;

/// The maximum size in bytes of a table of 32-bit numbers, which Redis allocates. It limits the number of cells.
const TABLE_BYTES_MAX: u64 = 512 << 20;
/// The maximum number of cells, and of bytes of both strings, of a request that is executed in one visit.
const FIRST_CELLS_MAX: u64 = 32 << 10;
/// The number of cells that cost one operation.
const CELLS_AN_OP: usize = 512;
/// The number of bytes that are copied, or steps that are made, between two checks of the slice.
const STEP: usize = 8 << 10;
/// The cost of such a step, in operations.
const STEP_OPS: usize = 16;
/// An upper bound of the memory that the ranges in the reply need for each byte of the shorter string.
const RANGE_BYTES: u64 = 64;

/// Options of a request.
#[derive(Clone, Copy, Default)]
struct Options {
    /// True if the reply is the length.
    len: bool,
    /// True if the reply contains ranges.
    ranges: bool,
    /// True if each range has its length.
    with_lengths: bool,
    /// The minimum length of a range in the reply.
    length_min: u32,
}

impl Options {
    fn read<'c>(mut args: Args<'c>) -> Result<Self, ErrorReply> {
        let mut options = Self::default();
        while let Some(word) = args.next() {
            match &lower(word)[..] {
                b"len" => options.len = true,
                b"idx" => options.ranges = true,
                b"withmatchlen" => options.with_lengths = true,
                b"minmatchlen" => {
                    let number = integer(args.next().ok_or(ErrorReply::Syntax)?)?;
                    options.length_min = number.clamp(0, u32::MAX.into()) as u32;
                }
                _ => return Err(ErrorReply::Syntax),
            }
        }
        if options.len && options.ranges { Err(ErrorReply::LengthAndRanges) } else { Ok(options) }
    }
}

/// Executes `LCS key key [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]`.
pub(super) fn lcs<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let keys = [(); 2].map(|()| args.next().unwrap_or_default());
    let mut work = match slices::take_work(call) {
        Some(StringWork::Lcs(work)) => work,
        _ => LcsWork::default(),
    };
    let ran = begin(call, keys, args, &mut work).and_then(|options| advance(call, keys, options, &mut work));
    if call.collects_replies && matches!(ran, Err(Interrupt::State(_))) {
        slices::retain_work(call, StringWork::Lcs(work));
    }
    ran
}

/// Checks the request and reserves its memory, unless an earlier visit has done so.
fn begin<'c>(
    call: &mut Call<'c, '_>,
    keys: [&[u8]; 2],
    args: Args<'c>,
    work: &mut LcsWork,
) -> Result<Options, Interrupt> {
    if work.grant.is_some() {
        return Ok(Options::read(args)?);
    }
    let mut lens = [0; 2];
    for (key, len) in keys.into_iter().zip(&mut lens) {
        let key = call.key(key);
        typed::is_there(call, &key)?;
        let item = live(call.guard.items().get(&key), call.ctx.view());
        if matches!(item, Some(segment::Item { value: Value::Typed { .. }, .. })) {
            return Err(ErrorReply::NotStrings.into());
        }
        *len = item.as_ref().map_or(0, |item| item.value_len());
        let hit = item.is_some();
        call.count_read(hit);
    }
    let options = Options::read(args)?;
    let [a, b] = lens;
    if (a + 1).saturating_mul(b + 1).saturating_mul(4) > TABLE_BYTES_MAX {
        return Err(ErrorReply::TableTooLarge.into());
    }
    let (cells, shorter) = (a * b, a.min(b));
    if !call.collects_replies && (cells > FIRST_CELLS_MAX || a + b > FIRST_CELLS_MAX) {
        // The command becomes a transaction, which takes several visits.
        return Err(SessionWait::Yield.into());
    }
    let way_back = if options.len { 0 } else { cells / 8 + shorter };
    let ranges = if options.ranges { shorter * RANGE_BYTES } else { 0 };
    work.grant = call.ctx.shared.budget.grant(MemoryUse::Walks, a + b + 4 * shorter + way_back + ranges);
    if work.grant.is_none() {
        return Err(ErrorReply::ClientMemory.into());
    }
    work.lens = lens.map(|len| if a == 0 || b == 0 { 0 } else { len as usize });
    Ok(options)
}

/// Continues the work, and replies when it is complete.
fn advance(call: &mut Call<'_, '_>, keys: [&[u8]; 2], options: Options, work: &mut LcsWork) -> Run {
    copy_values(call, keys, work)?;
    let inner = work.lens[0].min(work.lens[1]);
    if work.row.is_empty() {
        work.row.resize(inner, 0);
        work.place = (work.lens[0], work.lens[1]);
        work.range_end = (0, 0);
        if !options.len {
            work.ups.resize((work.lens[0] * work.lens[1]).div_ceil(64), 0);
        }
    }
    while work.rows < work.lens[0].max(work.lens[1]) && inner > 0 {
        fill_row(work, !options.len);
        work.cells_unpaid += inner;
        call.ops += work.cells_unpaid / CELLS_AN_OP;
        work.cells_unpaid %= CELLS_AN_OP;
        check_slice(call, work.cells_unpaid < inner)?;
    }
    let length = work.row.last().copied().unwrap_or(0);
    if options.len {
        call.int(length.into());
        return Ok(());
    }
    while walk_back(work, options) {
        call.ops += STEP_OPS;
        check_slice(call, true)?;
    }
    work.text.reverse();
    let mut all = Vec::new();
    if options.ranges {
        put_ranges(&mut all, call.session.version, work, length);
    } else {
        reply::bulk(&mut all, &work.text);
    }
    aside::send_long_reply(call, all)
}

/// Returns [`SessionWait::Yield`] if the visit has used up its slice, in a request that takes several visits.
fn check_slice(call: &Call<'_, '_>, is_due: bool) -> Run {
    if is_due && call.collects_replies && call.is_slice_used() { Err(SessionWait::Yield.into()) } else { Ok(()) }
}

/// Copies both values.
fn copy_values(call: &mut Call<'_, '_>, keys: [&[u8]; 2], work: &mut LcsWork) -> Run {
    for (number, bytes) in keys.into_iter().enumerate() {
        let (len, key) = (work.lens[number], call.key(bytes));
        work.values[number].reserve_exact(len - work.values[number].len());
        while work.values[number].len() < len {
            let item = live(call.guard.items().peek(&key), call.ctx.view());
            let at = work.values[number].len() as u64;
            let end = (at + STEP as u64).min(len as u64);
            let value = &mut work.values[number];
            let is_read = item.is_some_and(|item| {
                item.value_len() >= end
                    && call
                        .guard
                        .pieces()
                        .copy_range(&key, item.value, at..end, &mut |part| value.extend_from_slice(part))
            });
            if !is_read {
                // The value was evicted, or has lost a piece, since the previous visit. The command starts over.
                *work = LcsWork::default();
                return Err(SessionWait::Yield.into());
            }
            call.ops += 1;
            check_slice(call, true)?;
        }
    }
    Ok(())
}

/// Computes the next row of the table. The longer string has one row for each byte. If `keeps_way` is true, stores for
/// each cell whether the way back goes to a shorter prefix of the first string.
fn fill_row(work: &mut LcsWork, keeps_way: bool) {
    let is_swapped = work.lens[0] < work.lens[1];
    let [a, b] = &work.values;
    let (outer, inner) = if is_swapped { (b, a) } else { (a, b) };
    let byte = outer[work.rows];
    let first_cell = work.rows * inner.len();
    let (mut diagonal, mut left) = (0, 0);
    for (column, (other, cell)) in inner.iter().zip(&mut work.row).enumerate() {
        let above = *cell;
        if *other == byte {
            left = diagonal + 1;
        } else {
            let is_up = if is_swapped { left > above } else { above > left };
            if keeps_way && is_up {
                let place = first_cell + column;
                work.ups[place / 64] |= 1 << (place % 64);
            }
            left = left.max(above);
        }
        (diagonal, *cell) = (above, left);
    }
    work.rows += 1;
}

/// Makes some steps of the way from the last cell back to the first. Returns false at the end of the way.
fn walk_back(work: &mut LcsWork, options: Options) -> bool {
    let is_swapped = work.lens[0] < work.lens[1];
    for _ in 0..STEP {
        let (i, j) = work.place;
        if i == 0 || j == 0 {
            end_range(work, options);
            return false;
        }
        let byte = work.values[0][i - 1];
        if byte == work.values[1][j - 1] {
            work.text.push(byte);
            work.place = (i - 1, j - 1);
            let is_next = work.range_len > 0 && work.range_start == (i, j);
            if !is_next {
                end_range(work, options);
                work.range_end = (i - 1, j - 1);
            }
            (work.range_start, work.range_len) = ((i - 1, j - 1), work.range_len + 1);
            continue;
        }
        end_range(work, options);
        let cell = if is_swapped { (j - 1) * work.lens[0] + i - 1 } else { (i - 1) * work.lens[1] + j - 1 };
        let is_up = work.ups[cell / 64] >> (cell % 64) & 1 == 1;
        work.place = if is_up { (i - 1, j) } else { (i, j - 1) };
    }
    true
}

/// Ends the current range, and adds it to the reply if it is long enough.
fn end_range(work: &mut LcsWork, options: Options) {
    let length = std::mem::take(&mut work.range_len);
    if length == 0 || length < options.length_min || !options.ranges {
        return;
    }
    let out = &mut work.ranges;
    reply::array(out, if options.with_lengths { 3 } else { 2 });
    for (start, end) in [(work.range_start.0, work.range_end.0), (work.range_start.1, work.range_end.1)] {
        reply::array(out, 2);
        reply::int(out, start as i64);
        reply::int(out, end as i64);
    }
    if options.with_lengths {
        reply::int(out, length.into());
    }
    work.range_count += 1;
}

/// Writes the reply with all ranges and the length of the subsequence.
fn put_ranges(out: &mut Vec<u8>, version: Version, work: &LcsWork, length: u32) {
    reply::map(out, version, 2);
    reply::bulk(out, b"matches");
    reply::array(out, work.range_count);
    out.extend_from_slice(&work.ranges);
    reply::bulk(out, b"len");
    reply::int(out, length.into());
}
