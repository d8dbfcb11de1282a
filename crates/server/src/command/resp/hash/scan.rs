//! Walks over the fields of a hash, and draws from them.
//!
//! A cursor is a place in the order of the hashes of the names: a field that stays is told once by a whole walk,
//! whatever is stored and deleted meanwhile.

use crate::command::resp::error::Fault;
use crate::command::resp::glob::{check, matches};
use crate::command::resp::number::integer;
use crate::command::resp::table::lower;
use crate::command::resp::typed::{KeyParts, put_text, put_texts, record, told_bytes};
use crate::command::resp::{Call, Run, typed};
use base::prng::Prng;
use protocol::number::{Decimal, parse_u64};
use protocol::resp::{Args, Version, reply};
use record::{Bin, Damaged, Digits, HASHES, Record};

/// A hash of so many fields is told whole, whatever the count.
const WHOLE_MAX: usize = 128;
/// Fields told if no count is given.
const COUNT: i64 = 10;

/// Which fields a call of `HSCAN` tells.
struct Scan<'c> {
    from: u64,
    pattern: Option<&'c [u8]>,
    count: i64,
    values: bool,
}

impl<'c> Scan<'c> {
    fn read(from: u64, mut args: Args<'c>) -> Result<Self, Fault> {
        let mut scan = Self { from, pattern: None, count: COUNT, values: true };
        while let Some(word) = args.next() {
            match &lower(word)[..] {
                b"match" => {
                    let pattern = args.next().ok_or(Fault::Syntax)?;
                    check(pattern)?;
                    scan.pattern = Some(pattern);
                }
                b"count" => {
                    scan.count = integer(args.next().ok_or(Fault::Syntax)?)?;
                    if scan.count < 1 {
                        return Err(Fault::Syntax);
                    }
                }
                b"novalues" => scan.values = false,
                _ => return Err(Fault::Syntax),
            }
        }
        Ok(scan)
    }

    /// The end of the hashes that this call tells, of a hash with so many fields.
    fn to(&self, fields: usize) -> u64 {
        if fields <= WHOLE_MAX {
            return HASHES;
        }
        let step = (HASHES / fields as u64).saturating_mul(self.count.unsigned_abs()).max(1);
        self.from.saturating_add(step).min(HASHES)
    }

    fn takes(&self, bin: &Bin<'_>, to: u64) -> bool {
        let mut digits = Digits::new();
        let name = bin.name.text(&mut digits);
        let hash = u64::from(record::hash(name));
        (self.from..to).contains(&hash) && self.pattern.is_none_or(|pattern| matches(pattern, name))
    }
}

pub(in super::super) fn hscan<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.at_any_length("hscan", args, scan)
}

fn scan<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (key, now_ms) = (call.key(args.next().unwrap_or_default()), call.ctx.now.0);
    let from = parse_u64(args.next().unwrap_or_default()).ok_or(Fault::Cursor)?;
    let item = call.turn.get(&key);
    let parts = KeyParts::new(call.turn, key);
    let Some(record) = record(item.as_ref(), call.ctx.view(), &parts)? else {
        put_scan_head(call.out, 0, 0);
        return Ok(());
    };
    let scan = Scan::read(from, args)?;
    let to = scan.to(record.count_at_most(now_ms)?);
    let told = record
        .bins_in(now_ms, scan.from.min(HASHES - 1) as u32, to)
        .filter(|bin| bin.as_ref().map_or(true, |bin| scan.takes(bin, to)));
    let (fields, bytes) = told.clone().try_fold((0, 0), |(fields, bytes), bin| {
        let bin = bin?;
        Ok::<_, Damaged>((fields + 1, bytes + told_bytes(&bin.name) + told_bytes(&bin.value)))
    })?;
    call.answer_room(bytes)?;
    put_scan_head(call.out, if to == HASHES { 0 } else { to }, fields * if scan.values { 2 } else { 1 });
    for bin in told {
        let bin = bin?;
        put_text(call.out, &bin.name);
        if scan.values {
            put_text(call.out, &bin.value);
        }
    }
    Ok(())
}

fn put_scan_head(out: &mut crate::out::OutBuffer, cursor: u64, parts: u64) {
    reply::array(out, 2);
    reply::bulk(out, Decimal::new(cursor).as_slice());
    reply::array(out, parts);
}

pub(in super::super) fn hrandfield<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    call.at_any_length("hrandfield", args, random)
}

fn random<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (key, now_ms) = (call.key(args.next().unwrap_or_default()), call.ctx.now.0);
    let count = args.next().map(integer).transpose()?;
    if count == Some(i64::MIN) {
        return Err(Fault::NoOppositeCount.into());
    }
    let with_values = match (args.next().map(lower), args.len()) {
        (None, _) => false,
        (Some(word), 0) if word[..] == *b"withvalues" => true,
        _ => return Err(Fault::Syntax.into()),
    };
    // Redis doubles the number where values are told.
    if count.is_some_and(|count| with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count)) {
        return Err(Fault::OutOfRange.into());
    }
    let (version, bytes_max) = (call.session.version, call.answer_bytes_max());
    let mut prng = Prng::new(call.ctx.clock.ticks().0 ^ call.ops as u64);
    let item = call.turn.get(&key);
    let parts = KeyParts::new(call.turn, key);
    let bins: Vec<Bin<'_>> = match record(item.as_ref(), call.ctx.view(), &parts)? {
        // One leaf is drawn, and from it one field.
        Some(record) if record.is_large() && count.is_none() => draw_leaf(&record, now_ms, &mut prng)?,
        Some(record) => record.bins(now_ms).collect::<Result<_, _>>()?,
        None => Vec::new(),
    };
    let Some(count) = count else {
        let drawn = (!bins.is_empty()).then(|| bins[prng.below(bins.len() as u64) as usize].name);
        return put_texts(call.out, version, bytes_max, std::iter::once(Ok(drawn)));
    };
    let drawn = draw(&bins, count, call.ctx.request_bytes_max, &mut prng)?;
    // Newer clients are told pairs.
    let in_pairs = with_values && version == Version::Resp3;
    let bytes = drawn.iter().map(|bin| 8 + told_bytes(&bin.name) + told_bytes(&bin.value)).sum();
    typed::answer_room(call.out, bytes_max, bytes)?;
    reply::array(call.out, drawn.len() as u64 * if with_values && !in_pairs { 2 } else { 1 });
    for bin in drawn {
        if in_pairs {
            reply::array(call.out, 2);
        }
        put_text(call.out, &bin.name);
        if with_values {
            put_text(call.out, &bin.value);
        }
    }
    Ok(())
}

/// The fields of some leaf that has any.
fn draw_leaf<'r>(record: &Record<'r>, now_ms: u64, prng: &mut Prng) -> Result<Vec<Bin<'r>>, Damaged> {
    for _ in 0..8 {
        let from = prng.below(HASHES);
        let bins: Vec<_> = record.bins_in(now_ms, from as u32, from + 1).collect::<Result<_, _>>()?;
        if !bins.is_empty() {
            return Ok(bins);
        }
    }
    record.bins(now_ms).collect()
}

/// So many different ones, in their order; below 0: so many, each drawn from all.
fn draw<'b>(bins: &[Bin<'b>], count: i64, bytes_max: usize, prng: &mut Prng) -> Result<Vec<Bin<'b>>, Fault> {
    if bins.is_empty() {
        return Ok(Vec::new());
    }
    if count < 0 {
        // Each has five bytes at least.
        let count = usize::try_from(count.unsigned_abs()).ok().filter(|count| *count <= bytes_max / 5);
        let count = count.ok_or(Fault::AnswerTooLong)?;
        return Ok((0..count).map(|_| bins[prng.below(bins.len() as u64) as usize]).collect());
    }
    let mut wanted = (count as u64).min(bins.len() as u64);
    let chosen = bins.iter().enumerate().filter(|(at, _)| {
        // As many of those that are left as are still wanted.
        let left = (bins.len() - at) as u64;
        let takes = prng.below(left) < wanted;
        wanted -= u64::from(takes);
        takes
    });
    Ok(chosen.map(|(_, bin)| *bin).collect())
}
