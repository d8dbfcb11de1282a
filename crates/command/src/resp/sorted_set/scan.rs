//! Scans over a sorted set, and random selection of elements.
//!
//! A cursor is a position in the order of the hashes of the elements, so an element that stays in the sorted set during
//! a whole scan is returned, whatever its score becomes. A sorted set that is stored as one item has no such order:
//! each call returns all its elements, so a scan of one set that becomes small may return elements twice. The index of
//! hashes has the score of an element but not its text, which is found among the elements with that score:
//!
//! ```text
//!   hashes from the cursor on ──> (score, hash) ... sorted by score ──> elements with each score, whose hash is wanted
//! ```
//!
//! If many elements have the same score, each call compares all of them, and returns a larger share of the sorted set.

use super::put_element;
use crate::glob::matches;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::lower;
use crate::resp::catalog::words;
use crate::resp::collection::{self, ReplyShape, look_consistently};
use crate::resp::elements::{reply_at_random, reply_one_at_random};
use crate::resp::error::ErrorReply;
use crate::resp::number::{self, integer};
use crate::resp::pattern::check;
use crate::resp::slices::{self, STEP_BYTES, collect_room};
use crate::resp::state::walk::Walk;
use crate::resp::typed::{self, reply_bytes};
use crate::visit::progress::SessionWait;
use protocol::number::Decimal;
use protocol::resp::{Args, Version, reply};
use protocol::sink::{Fixed, Sink};
use record::{Bound, Damaged, Digits, HASHES, ScoredHashes, SortedSetValue, SortedSets, Value};

/// The default of `COUNT`.
const COUNT: u64 = 10;
/// The maximum number of hashes that one call looks up.
const HASHES_A_CALL: u64 = 4096;
/// The inverse of the share of a sorted set that one call returns at least, if many elements have the same score.
const CALLS_OF_TIES: u64 = 256;
/// The number of elements that are compared before the end of a visit is checked.
const COMPARED_A_STEP: u64 = 256;
/// The cost of so many compared elements, in operations.
const OPS_A_STEP: usize = 8;
/// The length of a score and a hash in the state of a scan, in bytes.
const WANTED_BYTES: usize = 12;

/// The options of `ZSCAN`.
struct Scan<'c> {
    cursor: u64,
    pattern: Option<&'c [u8]>,
    count: u64,
}

impl<'c> Scan<'c> {
    fn read(cursor: u64, mut options: Args<'c>) -> Result<Self, ErrorReply> {
        let mut scan = Self { cursor, pattern: None, count: COUNT };
        while let Some(word) = options.next() {
            match (&lower(word)[..], options.next()) {
                (b"match", Some(pattern)) => {
                    check(pattern)?;
                    scan.pattern = Some(pattern);
                }
                (b"count", Some(count)) => {
                    let count = u64::try_from(integer(count)?).ok().filter(|count| *count > 0);
                    scan.count = count.ok_or(ErrorReply::Syntax)?;
                }
                _ => return Err(ErrorReply::Syntax),
            }
        }
        Ok(scan)
    }

    fn takes(&self, text: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| matches(pattern, text))
    }
}

fn put_head(out: &mut impl Sink, cursor: u64, elements: u64) {
    reply::array(out, 2);
    reply::bulk(out, Decimal::new(cursor).as_slice());
    reply::array(out, 2 * elements);
}

/// Returns the form of the elements of a scan: in both versions of the protocol, scores are texts.
fn shape(call: &Call<'_, '_>) -> ReplyShape {
    ReplyShape { version: Version::Resp2, is_nested: false, has_scores: true, ..ReplyShape::of(call) }
}

pub(in crate::resp) fn zscan<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, cursor] = words(args);
    let cursor = number::cursor(cursor)?;
    let is_begun = call.session.walk.is_some();
    if !is_begun {
        let is_there = collection::look::<SortedSets, _>(call, key, |_, set| Ok(set.is_some()))?;
        if !is_there {
            put_head(call.out, 0, 0);
            return Ok(());
        }
    }
    let scan = Scan::read(cursor, args.after_first().after_first())?;
    if !is_begun && scan_plain(call, key, &scan)? {
        return Ok(());
    }
    if !call.collects_replies {
        return Err(slices::run_reading(call, "zscan", args, key));
    }
    let mut walk = call.session.walk.take().unwrap_or_default();
    let ran = scan_over_visits(call, key, &scan, &mut walk);
    slices::end_visit(call, walk, ran)
}

/// Returns all elements of a sorted set without an index of hashes. Returns false if it has one.
fn scan_plain(call: &mut Call<'_, '_>, key: &[u8], scan: &Scan<'_>) -> Result<bool, Interrupt> {
    let (mut found, mut count, shape) = (Vec::new(), 0, shape(call));
    let is_plain = collection::look::<SortedSets, _>(call, key, |_, set| {
        let Some(set) = set else { return Ok(true) };
        if set.is_large() {
            return Ok(false);
        }
        for element in set.from(0)? {
            let (score, value) = element?;
            let mut digits = Digits::new();
            let text = value.text(&mut digits);
            if scan.cursor < HASHES && scan.takes(text) {
                put_element(&mut found, &value, score, shape);
                count += 1;
            }
        }
        Ok(true)
    })?;
    if is_plain {
        typed::answer_fits(call, found.len())?;
        put_head(call.out, 0, count);
        call.out.push(&found);
    }
    Ok(is_plain)
}

/// The progress of a step that looks for the elements with wanted scores and hashes.
struct ScanStep {
    /// The number of scores and hashes that are done.
    done: usize,
    /// The number of elements that were compared with the next of them.
    compared: u64,
    /// True if more elements have this score than a step compares.
    has_ties: bool,
    /// The number of elements in the reply.
    replied: u64,
}

/// Scans over several visits. `walk.found` has the wanted scores and hashes, of which `walk.examined` are done;
/// `walk.left` elements were compared with the next of them; `walk.keys` elements are in the reply.
fn scan_over_visits(call: &mut Call<'_, '_>, key: &[u8], scan: &Scan<'_>, walk: &mut Walk) -> Run {
    let head = *walk.head.get_or_insert_with(|| call.out.reserve_head());
    let shape = shape(call);
    loop {
        if walk.ended.is_none() {
            begin(call, key, scan, walk)?;
        }
        let Walk { reading, found, examined, left, salt, .. } = &mut *walk;
        let wanted = found.as_chunks::<WANTED_BYTES>().0;
        if *examined >= wanted.len() {
            break;
        }
        let step = look_consistently::<SortedSets, _>(call, key, reading, |out, set| {
            let Some(set) = set else { return Err(Damaged.into()) };
            if Some(set.salt()) != *salt {
                return Ok(None);
            }
            find(set, &wanted[*examined..], *left, &mut |score, value, text| {
                if !scan.takes(text) {
                    return Ok(false);
                }
                collect_room(out, reply_bytes(value) + Digits::FLOAT_MAX)?;
                put_element(out, value, score, shape);
                Ok(true)
            })
            .map(Some)
        })?;
        call.ops += OPS_A_STEP;
        let Some(step) = step else {
            // The hashes are those of another form of the value. Elements may be returned twice.
            (walk.ended, walk.examined, walk.left) = (None, 0, 0);
            continue;
        };
        (*examined, *left) = (*examined + step.done, step.compared);
        walk.keys += step.replied;
        if step.has_ties && !walk.has_wrapped && walk.keys == 0 && walk.examined == 0 {
            // Looks for more hashes at once.
            (walk.has_wrapped, walk.ended) = (true, None);
            (walk.examined, walk.left) = (0, 0);
        }
        if call.is_slice_used() {
            return Err(SessionWait::Yield.into());
        }
    }
    let mut line = Fixed::<128>::new();
    put_head(&mut line, walk.ended.unwrap_or(0), walk.keys);
    call.out.fill_head(head, line.as_slice());
    Ok(())
}

/// Collects the scores and hashes that this call looks for: those of about `COUNT` elements from the cursor on, or of
/// more if many elements have the same score (`walk.has_wrapped`).
fn begin(call: &mut Call<'_, '_>, key: &[u8], scan: &Scan<'_>, walk: &mut Walk) -> Run {
    let (has_ties, salt) = (walk.has_wrapped, &mut walk.salt);
    let ScoredHashes { mut found, next } =
        look_consistently::<SortedSets, _>(call, key, &mut walk.reading, |_, set| {
            let Some((set, from)) = set.zip(u32::try_from(scan.cursor).ok()) else {
                return Ok(ScoredHashes::default());
            };
            *salt = Some(set.salt());
            let count = if has_ties { scan.count.max(set.len() / CALLS_OF_TIES) } else { scan.count };
            Ok(set.hashes(from, count.min(HASHES_A_CALL))?)
        })?;
    found.sort_unstable_by(|(score, hash), (other, of)| (score + 0.0).total_cmp(&(other + 0.0)).then(hash.cmp(of)));
    walk.found.clear();
    for (score, hash) in found {
        walk.found.extend_from_slice(&score.to_bits().to_le_bytes());
        walk.found.extend_from_slice(&hash.to_le_bytes());
    }
    walk.ended = Some(next.map_or(0, u64::from).min(HASHES));
    call.ops += OPS_A_STEP;
    Ok(())
}

/// A function that writes an element of which the text is the last argument, and returns true if it is in the reply.
type PutFound<'d> = dyn FnMut(f64, &Value<'_>, &[u8]) -> Result<bool, Interrupt> + 'd;

/// Looks for the elements with the first of the wanted scores, and calls `put` for those with its hashes. `put` returns
/// true if the element is in the reply. `compared` elements were compared before.
fn find(
    set: &SortedSetValue<'_>,
    wanted: &[[u8; WANTED_BYTES]],
    compared: u64,
    put: &mut PutFound<'_>,
) -> Result<ScanStep, Interrupt> {
    let score_of = |of: &[u8; WANTED_BYTES]| f64::from_le_bytes(*of.first_chunk().expect("eight bytes"));
    let hash_of = |of: &[u8; WANTED_BYTES]| u32::from_le_bytes(*of.last_chunk().expect("four bytes"));
    let score = wanted.first().map_or(0.0, score_of);
    let tied = wanted.iter().take_while(|other| score_of(other) == score).count();
    let mut step = ScanStep { done: 0, compared, has_ties: false, replied: 0 };
    let (mut met, mut bytes, first) = (0, 0, set.before(&Bound::before(score))? + compared);
    for element in set.from(first)?.take(COMPARED_A_STEP as usize) {
        let (of, value) = element?;
        if of != score || compared == 0 && met == tied {
            step.done = tied;
            break;
        }
        let mut digits = Digits::new();
        let text = value.text(&mut digits);
        let hash = set.salt().hash(text);
        if wanted[..tied].binary_search_by_key(&hash, hash_of).is_ok() {
            met += 1;
            match put(of, &value, text) {
                Err(stop) if step.compared == compared => return Err(stop),
                Err(_) => return Ok(step),
                Ok(is_replied) => step.replied += u64::from(is_replied),
            }
        }
        step.compared += 1;
        bytes += text.len() as u64;
        if bytes >= STEP_BYTES {
            return Ok(step);
        }
    }
    if step.done == 0 && step.compared < compared + COMPARED_A_STEP {
        // These were the last elements of the sorted set.
        step.done = tied;
    }
    step.has_ties = step.done == 0;
    if step.done > 0 {
        step.compared = 0;
    }
    Ok(step)
}

pub(in crate::resp) fn zrandmember<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, count, option] = words(args);
    if args.len() == 1 {
        return reply_one_at_random::<SortedSets>(call, key);
    }
    let count = integer(count)?;
    if count == i64::MIN {
        return Err(ErrorReply::NoOppositeCount.into());
    }
    let has_scores = match args.len() {
        2 => false,
        3 if lower(option)[..] == *b"withscores" => true,
        _ => return Err(ErrorReply::Syntax.into()),
    };
    if has_scores && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(ErrorReply::OutOfRange.into());
    }
    let shape = ReplyShape { has_scores, ..ReplyShape::of(call) };
    reply_at_random::<SortedSets>(call, ("zrandmember", args), key, count, shape)
}
