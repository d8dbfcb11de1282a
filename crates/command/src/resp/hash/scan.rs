//! Scans over the fields of a hash, and random selection of fields.
//!
//! A scan visits the fields of a large hash in the order of the hashes of their names, and a cursor is a position in
//! that order. A field that exists during a whole scan is returned exactly once, even if other fields are stored or
//! deleted during the scan. A hash that is stored as one item has no such order: each call returns all its fields, as
//! in Redis. So a scan of a hash that becomes small may return fields twice, but misses none.

use crate::glob::matches;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::{entry, lower};
use crate::resp::error::ErrorReply;
use crate::resp::number::{self, integer};
use crate::resp::own_transaction;
use crate::resp::pattern::check;
use crate::resp::slices;
use crate::resp::state::transaction::ANSWER_BYTES_MAX;
use crate::resp::state::walk::Walk;
use crate::resp::typed;
use crate::resp::typed::{KeyParts, put_text, put_texts, record, reply_bytes};
use crate::visit::out::OutBuffer;
use crate::visit::progress::SessionWait;
use base::prng::Prng;
use protocol::number::Decimal;
use protocol::resp::reply::{self, NUMBER_LINE_BYTES_MAX};
use protocol::resp::{Args, Version};
use protocol::sink::{Fixed, Sink};
use record::{Bin, Digits, HASHES, Record};

/// The maximum number of fields of a large hash that one `HSCAN` returns completely, even if `COUNT` is lower.
const WHOLE_MAX: usize = 128;
/// The default of `COUNT`, in fields.
const COUNT: i64 = 10;

/// The options of one `HSCAN` command.
struct Scan<'c> {
    pattern: Option<&'c [u8]>,
    count: i64,
    values: bool,
}

impl<'c> Scan<'c> {
    fn read(mut args: Args<'c>) -> Result<Self, ErrorReply> {
        let mut scan = Self { pattern: None, count: COUNT, values: true };
        while let Some(word) = args.next() {
            match &lower(word)[..] {
                b"match" => {
                    let pattern = args.next().ok_or(ErrorReply::Syntax)?;
                    check(pattern)?;
                    scan.pattern = Some(pattern);
                }
                b"count" => {
                    scan.count = integer(args.next().ok_or(ErrorReply::Syntax)?)?;
                    if scan.count < 1 {
                        return Err(ErrorReply::Syntax);
                    }
                }
                b"novalues" => scan.values = false,
                _ => return Err(ErrorReply::Syntax),
            }
        }
        Ok(scan)
    }

    /// Returns true if a step over a range of hashes of the record returns this bin.
    fn takes(&self, record: &Record<'_>, bin: &Bin<'_>, hashes: std::ops::Range<u64>) -> bool {
        let mut digits = Digits::new();
        let name = bin.name.text(&mut digits);
        let is_within = !record.is_large() || hashes.contains(&record.salt().hash(name).into());
        is_within && self.pattern.is_none_or(|pattern| matches(pattern, name))
    }

    /// Returns the cursor for the reply, which is 0 at the end of the scan.
    fn cursor(&self, walk: &Walk) -> u64 {
        if walk.cursor >= HASHES { 0 } else { walk.cursor }
    }

    /// Returns the total number of names and values in the reply.
    fn parts(&self, walk: &Walk) -> u64 {
        walk.keys * if self.values { 2 } else { 1 }
    }
}

/// Executes `HSCAN`. If one visit cannot complete the scan, or the reply may not fit into the output buffer, turns the
/// command into a single-command transaction.
pub(in super::super) fn hscan<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let mut words = args;
    let key = words.next().unwrap_or_default();
    let from = number::cursor(words.next().unwrap_or_default())?;
    if call.session.walk.is_none() && number_of_fields(call, key)? == 0 {
        put_scan_head(call.out, 0, 0);
        return Ok(());
    }
    let scan = Scan::read(words)?;
    if !call.collects_replies {
        let mark = call.out.mark();
        let mut walk = Walk::from(from);
        let ran = scan_at_once(call, key, &scan, &mut walk);
        if matches!(ran, Err(Interrupt::State(SessionWait::Yield))) {
            call.out.truncate(mark);
            return own_transaction::run_collected(call, entry("hscan"), args);
        }
        return ran;
    }
    let mut walk = call.session.walk.take().unwrap_or_else(|| Walk::from(from));
    let ran = scan_on(call, key, &scan, &mut walk);
    slices::end_visit(call, walk, ran)
}

impl Scan<'_> {
    fn is_enough(&self, walk: &Walk) -> bool {
        walk.cursor >= HASHES || walk.examined as i64 >= self.count && !walk.has_wrapped
    }
}

fn put_scan_head(out: &mut impl Sink, cursor: u64, parts: u64) {
    reply::array(out, 2);
    reply::bulk(out, Decimal::new(cursor).as_slice());
    reply::array(out, parts);
}

/// Returns an upper bound of the number of fields of the hash at `key`.
fn number_of_fields(call: &mut Call<'_, '_>, key: &[u8]) -> Result<usize, Interrupt> {
    let (key, view) = (call.key(key), call.ctx.view());
    let item = call.guard.items().peek(&key);
    let parts = KeyParts::new(call.guard, key);
    let record = record(item.as_ref(), view, &parts)?;
    Ok(record.map(|record| record.count_at_most(view.now_ms)).transpose()?.unwrap_or(0))
}

/// Scans in one visit. Fails with [`SessionWait::Yield`] if the scan takes more than one visit.
fn scan_at_once(call: &mut Call<'_, '_>, key: &[u8], scan: &Scan<'_>, walk: &mut Walk) -> Run {
    let bytes_max = call.ctx.request_bytes_max / 2;
    let mut found = Vec::new();
    while !scan.is_enough(walk) {
        scan_step(call, key, scan, walk, |part| {
            found.extend_from_slice(part);
            Ok(())
        })?;
        if found.len() > bytes_max || call.is_slice_used() && !scan.is_enough(walk) {
            return Err(SessionWait::Yield.into());
        }
    }
    typed::answer_fits(call, found.len())?;
    put_scan_head(call.out, scan.cursor(walk), scan.parts(walk));
    call.out.push(&found);
    Ok(())
}

/// Continues a scan that takes several visits.
fn scan_on(call: &mut Call<'_, '_>, key: &[u8], scan: &Scan<'_>, walk: &mut Walk) -> Run {
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    // Changes by other clients do not restart the scan.
    walk.reading.allow_changes();
    while !scan.is_enough(walk) {
        let mut step = std::mem::take(&mut walk.found);
        step.clear();
        let (cursor, looked, keys) = (walk.cursor, walk.examined, walk.keys);
        scan_step(call, key, scan, walk, |part| {
            step.extend_from_slice(part);
            Ok(())
        })?;
        if let Err(stop) = slices::collect_room(call.out, step.len()) {
            (walk.cursor, walk.examined, walk.keys) = (cursor, looked, keys);
            return Err(stop);
        }
        call.out.push(&step);
        walk.found = step;
        if call.is_slice_used() && !scan.is_enough(walk) {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<{ 3 * NUMBER_LINE_BYTES_MAX + 32 }>::new();
    put_scan_head(&mut line, scan.cursor(walk), scan.parts(walk));
    call.out.fill_head(head, line.as_slice());
    Ok(())
}

/// Scans the next part of the hash. Calls `put` with the reply text of each field that the scan selects.
fn scan_step(
    call: &mut Call<'_, '_>,
    key: &[u8],
    scan: &Scan<'_>,
    walk: &mut Walk,
    mut put: impl FnMut(&[u8]) -> Run,
) -> Run {
    let (key, view) = (call.key(key), call.ctx.view());
    let item = call.guard.items().get(&key);
    let parts = KeyParts::new(call.guard, key);
    let from = walk.cursor;
    walk.cursor = HASHES;
    let Some(record) = record(item.as_ref(), view, &parts)?.filter(|_| from < HASHES) else { return Ok(()) };
    let fields = record.count_at_most(view.now_ms)?;
    // A short hash is returned completely, even if `COUNT` is lower.
    walk.has_wrapped = fields <= WHOLE_MAX;
    let to = record.step_end(from as u32)?;
    let (mut looked, mut bytes) = (0, Vec::new());
    for bin in record.bins_in(view.now_ms, from as u32, to) {
        let bin = bin?;
        looked += 1;
        if scan.takes(&record, &bin, from..to) {
            walk.keys += 1;
            bytes.clear();
            put_text(&mut bytes, &bin.name);
            if scan.values {
                put_text(&mut bytes, &bin.value);
            }
            put(&bytes)?;
        }
    }
    walk.cursor = to;
    walk.examined += looked;
    call.ops += 2 + looked / 4;
    Ok(())
}

/// The arguments of `HRANDFIELD`.
#[derive(Clone, Copy)]
struct Drawing {
    /// The requested number of fields. `None` requests one field, which is not in an array. A negative number requests
    /// that many fields, which may repeat.
    count: Option<i64>,
    with_values: bool,
    /// True if the reply contains each name with its value as an array of two elements, which it does in version 3 of
    /// the protocol.
    in_pairs: bool,
}

impl Drawing {
    fn read(mut args: Args<'_>, version: Version) -> Result<Self, ErrorReply> {
        let count = args.next().map(integer).transpose()?;
        if count == Some(i64::MIN) {
            return Err(ErrorReply::NoOppositeCount);
        }
        let with_values = match (args.next().map(lower), args.len()) {
            (None, _) => false,
            (Some(word), 0) if word[..] == *b"withvalues" => true,
            _ => return Err(ErrorReply::Syntax),
        };
        // The reply has two elements for each field if it includes values, so Redis refuses a count that would overflow
        // when doubled.
        if count.is_some_and(|count| with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count)) {
            return Err(ErrorReply::OutOfRange);
        }
        Ok(Self { count, with_values, in_pairs: with_values && version == Version::Resp3 })
    }

    /// Refuses a negative count whose fields cannot fit into a collected reply. Each field needs at least six bytes.
    fn check(self) -> Result<(), ErrorReply> {
        let most = ANSWER_BYTES_MAX as u64 / 6;
        if self.count.is_some_and(|count| count < 0 && count.unsigned_abs() > most) {
            return Err(ErrorReply::AnswerTooLong);
        }
        Ok(())
    }

    /// Returns the number of elements of the reply's outer array, if the reply has `fields` fields.
    fn elements(self, fields: u64) -> u64 {
        fields * if self.with_values && !self.in_pairs { 2 } else { 1 }
    }

    fn bytes(bin: &Bin<'_>) -> usize {
        8 + reply_bytes(&bin.name) + reply_bytes(&bin.value)
    }

    fn put(self, out: &mut OutBuffer, bin: &Bin<'_>) {
        if self.in_pairs {
            reply::array(out, 2);
        }
        put_text(out, &bin.name);
        if self.with_values {
            put_text(out, &bin.value);
        }
    }
}

pub(in super::super) fn hrandfield<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let key = args.into_iter().next().unwrap_or_default();
    let drawing = Drawing::read(args.after_first(), call.session.version)?;
    if call.session.walk.is_none()
        && !call.guard.items().peek(&call.key(key)).is_some_and(|item| super::is_large(&item))
    {
        return typed::at_any_length(call, "hrandfield", args, |call, _| draw_from_plain(call, key, drawing));
    }
    drawing.check()?;
    if !call.collects_replies {
        return Err(slices::run_reading(call, "hrandfield", args, key));
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = draw_over_visits(call, key, drawing, &mut walk);
    slices::end_visit(call, walk, ran)
}

/// Draws random fields from a record that is stored as one item, not in leaves.
fn draw_from_plain(call: &mut Call<'_, '_>, key: &[u8], drawing: Drawing) -> Run {
    let (key, now_ms) = (call.key(key), call.ctx.now.0);
    let (version, bytes_max) = (call.session.version, typed::answer_bytes_max(call));
    let mut prng = Prng::new(call.ctx.clock.ticks().0 ^ call.ops as u64);
    let item = call.guard.items().get(&key);
    let parts = KeyParts::new(call.guard, key);
    let bins: Vec<Bin<'_>> = match record(item.as_ref(), call.ctx.view(), &parts)? {
        Some(record) => record.bins(now_ms).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let Some(count) = drawing.count else {
        let drawn = (!bins.is_empty()).then(|| bins[prng.below(bins.len() as u64) as usize].name);
        return put_texts(call.out, version, bytes_max, std::iter::once(Ok(drawn)));
    };
    if count < 0 && !bins.is_empty() && count.unsigned_abs() > DRAWN_AT_ONCE_MAX {
        drawing.check()?;
        if !call.collects_replies {
            // After this error, the caller turns the command into a single-command transaction.
            return Err(ErrorReply::AnswerTooLong.into());
        }
        let mut walk = call.session.walk.take().unwrap_or_default();
        let key = key.bytes().to_vec();
        let ran = draw_over_visits(call, &key, drawing, &mut walk);
        return slices::end_visit(call, walk, ran);
    }
    let drawn = draw(&bins, count, &mut prng);
    typed::answer_room(call.out, bytes_max, drawn.iter().map(Drawing::bytes).sum())?;
    reply::array(call.out, drawing.elements(drawn.len() as u64));
    drawn.iter().for_each(|bin| drawing.put(call.out, bin));
    Ok(())
}

/// Draws random fields over several visits. If a large share of the fields is requested without repetition, walks over
/// all fields, and selects each with the probability (fields still wanted) / (fields not yet examined). Otherwise,
/// draws each field from a randomly chosen part of the record.
fn draw_over_visits(call: &mut Call<'_, '_>, key: &[u8], drawing: Drawing, walk: &mut Walk) -> Run {
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    let mut prng = Prng::new(call.ctx.clock.ticks().0 ^ call.ops as u64);
    if walk.reading.is_new() {
        let fields = slices::read_consistently(call, key, &mut walk.reading, |_, record, now_ms| {
            Ok(record.map(|record| record.count_at_most(now_ms)).transpose()?.unwrap_or(0) as u64)
        })?;
        let wanted = drawing.count.unwrap_or(1);
        walk.left = fields;
        walk.wanted = match fields {
            0 => 0,
            _ if wanted < 0 => wanted.unsigned_abs(),
            fields => (wanted as u64).min(fields),
        };
        walk.has_wrapped = wanted > 0 && walk.wanted.saturating_mul(WALKED_SHARE) >= fields;
    }
    while walk.wanted > 0 {
        let drawn = if walk.has_wrapped {
            draw_by_walk(call, key, drawing, walk, &mut prng)?
        } else {
            draw_one(call, key, drawing, walk, &mut prng)?
        };
        if !drawn {
            break;
        }
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<NUMBER_LINE_BYTES_MAX>::new();
    match drawing.count {
        Some(_) => reply::array(&mut line, drawing.elements(walk.keys)),
        None if walk.keys == 0 => reply::null(&mut line, call.session.version),
        None => {}
    }
    call.out.fill_head(head, line.as_slice());
    Ok(())
}

/// Selects random fields from the next part of the record, and writes them. Returns false after the last part.
fn draw_by_walk(
    call: &mut Call<'_, '_>,
    key: &[u8],
    drawing: Drawing,
    walk: &mut Walk,
    prng: &mut Prng,
) -> Result<bool, Interrupt> {
    let (from, wanted, left) = (walk.cursor, walk.wanted, walk.left);
    let (to, fields, taken) = slices::read_consistently(call, key, &mut walk.reading, |out, record, now_ms| {
        let Some(record) = record.filter(|_| from < HASHES) else { return Ok((HASHES, 0, 0)) };
        let to = record.step_end(from as u32)?;
        let bins = record.bins_in(now_ms, from as u32, to).collect::<Result<Vec<_>, _>>()?;
        let mut wanted = wanted;
        let before = wanted;
        let taken: Vec<&Bin<'_>> = (bins.iter().enumerate())
            .filter(|(at, _)| {
                let takes = prng.below(left.saturating_sub(*at as u64).max(1)) < wanted;
                wanted -= u64::from(takes);
                takes
            })
            .map(|(_, bin)| bin)
            .collect();
        slices::collect_room(out, taken.iter().map(|bin| Drawing::bytes(bin)).sum())?;
        taken.iter().for_each(|bin| drawing.put(out, bin));
        Ok((to, bins.len() as u64, before - wanted))
    })?;
    (walk.cursor, walk.left) = (to, walk.left.saturating_sub(fields));
    (walk.wanted, walk.keys) = (walk.wanted - taken, walk.keys + taken);
    call.ops += 2 + fields as usize / 4;
    Ok(to < HASHES)
}

/// Tries to draw one field from a random part of the record, and writes it. If the previous part had no fields, tries
/// the part after it instead. Returns false if no part has fields.
fn draw_one(
    call: &mut Call<'_, '_>,
    key: &[u8],
    drawing: Drawing,
    walk: &mut Walk,
    prng: &mut Prng,
) -> Result<bool, Interrupt> {
    // `steps` is the number of consecutive parts without fields.
    let from = if walk.steps > 0 { walk.cursor % HASHES } else { prng.below(HASHES) };
    let distinct = drawing.count.is_some_and(|count| count > 0);
    let met = &walk.found_hashes;
    let found = slices::read_consistently(call, key, &mut walk.reading, |out, record, now_ms| {
        let Some(record) = record else { return Ok((HASHES, None)) };
        let to = record.step_end(from as u32)?;
        let bins = record.bins_in(now_ms, from as u32, to).collect::<Result<Vec<_>, _>>()?;
        if bins.is_empty() {
            return Ok((to, None));
        }
        let bin = &bins[prng.below(bins.len() as u64) as usize];
        let name = base::prng::split_mix(record.salt().hash64(bin.name.text(&mut Digits::new())));
        if distinct && met.contains(&name) {
            return Ok((to, Some(None)));
        }
        slices::collect_room(out, Drawing::bytes(bin))?;
        if drawing.count.is_some() {
            drawing.put(out, bin)
        } else {
            put_text(out, &bin.name)
        }
        Ok((to, Some(Some(name))))
    })?;
    call.ops += 2;
    walk.cursor = found.0;
    match found.1 {
        None => walk.steps += 1,
        Some(name) => {
            (walk.steps, walk.repeats) = (0, walk.repeats + 1);
            if let Some(name) = name {
                walk.repeats = 0;
                (walk.wanted, walk.keys) = (walk.wanted - 1, walk.keys + 1);
                if distinct {
                    walk.found_hashes.insert(name);
                }
            }
        }
    }
    // Gives up after so many consecutive parts without fields that they must have been all parts.
    Ok((walk.steps as u64) <= walk.left.max(HASHES >> 16) && walk.repeats < REPEATS_MAX)
}

/// The maximum number of random fields, which may repeat, that one visit draws.
const DRAWN_AT_ONCE_MAX: u64 = 256;

/// The number of consecutive draws of fields that the reply already has, after which the reply is complete. At most one
/// field in [`WALKED_SHARE`] is drawn, so a record with that many repeats has fewer fields than it counts.
const REPEATS_MAX: usize = 10_000;

/// The inverse of a share. If a request for distinct fields asks for at least `1 / WALKED_SHARE` of the fields, the
/// command walks over all fields instead of drawing them one by one.
const WALKED_SHARE: u64 = 8;

/// Returns `count` distinct random fields, in stored order. If `count` is negative, returns `-count` random fields,
/// which may repeat.
fn draw<'b>(bins: &[Bin<'b>], count: i64, prng: &mut Prng) -> Vec<Bin<'b>> {
    if bins.is_empty() {
        return Vec::new();
    }
    if count < 0 {
        return (0..count.unsigned_abs()).map(|_| bins[prng.below(bins.len() as u64) as usize]).collect();
    }
    let mut wanted = (count as u64).min(bins.len() as u64);
    let chosen = bins.iter().enumerate().filter(|(at, _)| {
        // Selection sampling: selects each field with the probability (fields still wanted) / (fields not yet
        // examined).
        let left = (bins.len() - at) as u64;
        let takes = prng.below(left) < wanted;
        wanted -= u64::from(takes);
        takes
    });
    chosen.map(|(_, bin)| *bin).collect()
}
