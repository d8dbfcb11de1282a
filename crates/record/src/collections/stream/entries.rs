//! The encoding of the entries of a stream.
//!
//! ```text
//!   whole      length | ms | seq | field value field value ...
//!   relative   length | mark 2 | [ms] | [seq] | value value ...               the fields of its base
//!                                             | field value field value ...   other fields
//!   heir       length | mark 3 | ms | seq | length of the fields | field field ... | relative entry without length
//!
//!   mark 2     1 m m m m m s f | 00000000     m   the ms less that of the base; 31 if it follows the mark
//!                                             s   1 if a seq follows: the seq itself, or the seq less that of the base
//!                                                 if both have the same ms; otherwise it is 0
//!                                             f   1 if the entry has other fields than its base
//!   mark 3     10000000 | 10000000 | 00000000
//! ```
//!
//! A whole entry is the base of the relative entries behind it in its leaf, up to the next whole entry or heir: a run.
//! So the fields of a run are stored once, and most identifiers take two bytes. If a base is removed, the next entry of
//! its run becomes an heir: it retains the identifier and the fields of the base, and the others remain as they are. A
//! mark is not the start of a whole entry: the last byte of a number is 0 only if the number is 0 and has one byte.
//!
//! Invariants:
//! - A leaf begins with a whole entry or an heir. Leaves are therefore divided before these only.
//! - A run has at most [`LEAF_BYTES_FULL`] bytes and a few more, or one entry, so that a leaf can be divided.
//! - The identifiers of a run ascend.

use std::ops::Range;

use super::{InLeaf, StreamId, id, number, put_id, put_number, with_len};
use crate::coding::{self, Coded};
use crate::collections::counted::LEAF_BYTES_FULL;
use crate::{Damaged, Value};

/// The flags of the mark of a relative entry.
const MARK: u8 = 0x80;
const HAS_SEQ: u8 = 2;
const HAS_FIELDS: u8 = 1;
/// The number in a mark that stands for a longer difference, which follows the mark, less this number.
const MS_FOLLOWS: u64 = 31;
/// The length of the mark of a relative entry in bytes.
const MARK_BYTES: usize = 2;
/// The mark of an heir.
const HEIR: [u8; 3] = [0x80, 0x80, 0];

/// An entry of a stored stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamEntry<'r> {
    /// Its identifier.
    pub id: StreamId,
    /// Its fields and values; only the values if `base` has the fields.
    words: &'r [u8],
    /// The fields of the base, if the entry has the same.
    base: Option<Fields<'r>>,
}

/// The fields of a base.
#[derive(Clone, Copy, Debug)]
struct Fields<'r> {
    bytes: &'r [u8],
    /// True if each field is followed by a value.
    has_values: bool,
}

impl<'r> Fields<'r> {
    /// Takes the first field.
    fn next(&mut self) -> Result<Value<'r>, Damaged> {
        let field = next(&mut self.bytes)?;
        self.skip_value()?;
        Ok(field)
    }

    fn skip_value(&mut self) -> Result<(), Damaged> {
        if self.has_values {
            self.bytes = self.bytes.get(coding::len(self.bytes)?..).ok_or(Damaged)?;
        }
        Ok(())
    }

    /// Returns true if the fields are those of these fields and values, in the same order.
    fn are_of<'w>(mut self, words: impl Iterator<Item = Coded<'w>>) -> Result<bool, Damaged> {
        for field in words.step_by(2) {
            if !field.begins(self.bytes) {
                return Ok(false);
            }
            self.bytes = &self.bytes[field.len()..];
            self.skip_value()?;
        }
        Ok(self.bytes.is_empty())
    }
}

impl<'r> StreamEntry<'r> {
    /// Returns the fields and values, alternately.
    pub fn words(&self) -> impl Iterator<Item = Result<Value<'r>, Damaged>> + Clone + use<'r> {
        let Self { mut words, mut base, .. } = *self;
        let mut is_value = false;
        std::iter::from_fn(move || {
            if words.is_empty() && !is_value {
                return None;
            }
            let word = match &mut base {
                Some(base) if !is_value => base.next(),
                _ => next(&mut words),
            };
            is_value = !is_value;
            if word.is_err() {
                (words, is_value) = (&[], false);
            }
            Some(word)
        })
    }
}

/// Takes a value from the start of `bytes`.
fn next<'r>(bytes: &mut &'r [u8]) -> Result<Value<'r>, Damaged> {
    let (value, len) = coding::value(bytes)?;
    *bytes = &bytes[len..];
    Ok(value)
}

/// The base of relative entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Base<'r> {
    id: StreamId,
    fields: Fields<'r>,
}

impl<'r> Base<'r> {
    /// Reads a whole entry or an heir without its length. Returns the base that it is or retains, and the relative
    /// entry of an heir.
    fn read(body: &'r [u8]) -> Result<(Self, Option<&'r [u8]>), Damaged> {
        let Some(heir) = body.strip_prefix(&HEIR) else {
            let (id, bytes) = id(body)?;
            return Ok((Self { id, fields: Fields { bytes, has_values: true } }, None));
        };
        let (id, rest) = id(heir)?;
        let (len, rest) = number(rest)?;
        let len = usize::try_from(len).map_err(|_| Damaged)?;
        let (bytes, entry) = rest.split_at_checked(len).ok_or(Damaged)?;
        Ok((Self { id, fields: Fields { bytes, has_values: false } }, Some(entry)))
    }

    /// Returns the base of the run that begins with `run`.
    fn of(run: &'r [u8]) -> Result<Self, Damaged> {
        Ok(Self::read(body(run)?.0)?.0)
    }
}

/// Returns the entry at the start of `bytes` without its length, and the number of bytes up to its end.
fn body(bytes: &[u8]) -> Result<(&[u8], usize), Damaged> {
    let (len, rest) = number(bytes)?;
    let body = usize::try_from(len).ok().and_then(|len| rest.get(..len)).ok_or(Damaged)?;
    Ok((body, bytes.len() - rest.len() + body.len()))
}

/// Returns true if an entry without its length is relative.
fn is_relative(body: &[u8]) -> bool {
    matches!(body, [first, 0, ..] if *first >= MARK)
}

/// Returns true if the entry at the start of `bytes` is not relative.
pub(super) fn begins_run(bytes: &[u8]) -> bool {
    !number(bytes).is_ok_and(|(_, body)| is_relative(body))
}

/// Reads a relative entry without its length. Returns its identifier, the bytes behind it, and true if it has fields.
fn relative(body: &[u8], base: StreamId) -> Result<(StreamId, &[u8], bool), Damaged> {
    let (mark, mut rest) = body.split_at_checked(MARK_BYTES).ok_or(Damaged)?;
    let mut ms = u64::from(mark[0] & !MARK) >> 2;
    if ms == MS_FOLLOWS {
        let (more, behind) = number(rest)?;
        (ms, rest) = (ms.checked_add(more).ok_or(Damaged)?, behind);
    }
    let mut seq = 0;
    if mark[0] & HAS_SEQ != 0 {
        (seq, rest) = number(rest)?;
    }
    if ms == 0 {
        seq = seq.checked_add(base.seq).ok_or(Damaged)?;
    }
    let id = StreamId { ms: ms.checked_add(base.ms).ok_or(Damaged)?, seq };
    Ok((id, rest, mark[0] & HAS_FIELDS != 0))
}

/// Decodes an entry. `run` begins with the first entry of its run, which may be the entry itself.
pub(super) fn decode<'r>(run: &'r [u8], entry: &'r [u8]) -> Result<StreamEntry<'r>, Damaged> {
    let body = body(entry)?.0;
    let (base, body) = if is_relative(body) { (Base::of(run)?, Some(body)) } else { Base::read(body)? };
    let Some(body) = body else { return Ok(StreamEntry { id: base.id, words: base.fields.bytes, base: None }) };
    let (id, words, has_fields) = relative(body, base.id)?;
    Ok(StreamEntry { id, words, base: (!has_fields).then_some(base.fields) })
}

/// Encodes an entry with these fields and values: relative to `base`, or whole.
pub(super) fn encode<'w>(
    id: StreamId,
    words: impl Iterator<Item = Coded<'w>> + Clone,
    base: Option<&Base<'_>>,
) -> Result<Vec<u8>, Damaged> {
    let Some(base) = base else {
        return Ok(with_len(|body| {
            put_id(id, body);
            words.for_each(|word| word.push(body));
        }));
    };
    let shares_fields = base.fields.are_of(words.clone())?;
    let ms = id.ms.checked_sub(base.id.ms).ok_or(Damaged)?;
    let seq = if ms == 0 { id.seq.checked_sub(base.id.seq).ok_or(Damaged)? } else { id.seq };
    let flags = if seq > 0 { HAS_SEQ } else { 0 } | if shares_fields { 0 } else { HAS_FIELDS };
    Ok(with_len(|body| {
        body.extend_from_slice(&[MARK | (ms.min(MS_FOLLOWS) as u8) << 2 | flags, 0]);
        if let Some(more) = ms.checked_sub(MS_FOLLOWS) {
            put_number(more, body);
        }
        if seq > 0 {
            put_number(seq, body);
        }
        let skipped = usize::from(shares_fields);
        words.skip(skipped).step_by(1 + skipped).for_each(|word| word.push(body));
    }))
}

/// Encodes an entry that is appended to `leaf`. The entry is whole if the leaf, or its last run, would otherwise have
/// more than [`LEAF_BYTES_FULL`] bytes, so that a long leaf can be divided before the entry.
pub(super) fn encode_last<'w>(
    leaf: &[u8],
    id: StreamId,
    words: impl Iterator<Item = Coded<'w>> + Clone,
) -> Result<Vec<u8>, Damaged> {
    if leaf.is_empty() {
        return encode(id, words, None);
    }
    let run = last_run(leaf)?;
    let entry = encode(id, words.clone(), Some(&Base::of(&leaf[run..])?))?;
    let bytes = leaf.len() + entry.len();
    let is_full = leaf.len() <= LEAF_BYTES_FULL && bytes > LEAF_BYTES_FULL;
    if is_full || bytes - run > LEAF_BYTES_FULL { encode(id, words, None) } else { Ok(entry) }
}

/// Returns the offset of the last entry of `leaf` that begins a run. The leaf is not empty.
fn last_run(leaf: &[u8]) -> Result<usize, Damaged> {
    let (mut at, mut run) = (0, 0);
    while at < leaf.len() {
        let (body, end) = body(&leaf[at..])?;
        if !is_relative(body) {
            run = at;
        }
        at += end;
    }
    Ok(run)
}

/// The place in a leaf at which a search begins: before its first entry, by default.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchStart {
    at: usize,
    before: u64,
    /// The offset of the first entry of the run to which the entry belongs, and the identifier of its base.
    run: usize,
    base: StreamId,
}

/// Finds the first entry of a leaf whose identifier is not below another.
pub(super) fn find(leaf: &[u8], wanted: StreamId) -> Result<InLeaf, Damaged> {
    find_from(leaf, &mut SearchStart::default(), wanted)
}

/// Finds the first entry of a leaf, from `start` on, whose identifier is not below another. `start` becomes the place
/// of that entry, or the end of the leaf.
pub(super) fn find_from(leaf: &[u8], start: &mut SearchStart, wanted: StreamId) -> Result<InLeaf, Damaged> {
    let SearchStart { mut at, mut before, mut run, mut base } = *start;
    while at < leaf.len() {
        let (body, len) = body(&leaf[at..])?;
        let id = if is_relative(body) {
            relative(body, base)?.0
        } else {
            let (own, entry) = Base::read(body)?;
            (run, base) = (at, own.id);
            entry.map_or(Ok(base), |entry| Ok(relative(entry, base)?.0))?
        };
        if id >= wanted {
            let end = if id == wanted { at + len } else { at };
            *start = SearchStart { at, before, run, base };
            return Ok(InLeaf { before, range: at..end, run });
        }
        (at, before) = (at + len, before + 1);
    }
    *start = SearchStart { at, before, run, base };
    Ok(InLeaf { before, range: at..at, run })
}

/// Returns what replaces the entries `gone` of a leaf, and the entries behind them up to the returned offset: the next
/// entry of a run whose base is removed becomes an heir.
pub(super) fn without(leaf: &[u8], gone: Range<usize>) -> Result<(Vec<u8>, usize), Damaged> {
    let Some(behind) = leaf.get(gone.end..).filter(|behind| !behind.is_empty() && !begins_run(behind)) else {
        return Ok((Vec::new(), gone.end));
    };
    let run = last_run(leaf.get(..gone.end).ok_or(Damaged)?)?;
    if run < gone.start {
        return Ok((Vec::new(), gone.end));
    }
    let mut base = Base::of(&leaf[run..])?;
    let (entry, len) = body(behind)?;
    let mut fields = Vec::new();
    while !base.fields.bytes.is_empty() {
        Coded::of(&base.fields.next()?).push(&mut fields);
    }
    let heir = with_len(|body| {
        body.extend_from_slice(&HEIR);
        put_id(base.id, body);
        put_number(fields.len() as u64, body);
        body.extend_from_slice(&fields);
        body.extend_from_slice(entry);
    });
    Ok((heir, gone.end + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(words: &[&'static str]) -> Vec<Coded<'static>> {
        words.iter().map(|word| Coded::of(&Value::of_text(word.as_bytes()))).collect()
    }

    fn encoded(id: StreamId, words: &[&'static str], base: Option<&[u8]>) -> Vec<u8> {
        let base = base.map(|base| Base::of(base).unwrap());
        encode(id, coded(words).into_iter(), base.as_ref()).unwrap()
    }

    fn texts(entry: &StreamEntry<'_>) -> Vec<String> {
        let text = |word: Value<'_>| String::from_utf8(word.text(&mut crate::Digits::new()).to_vec()).unwrap();
        entry.words().map(|word| text(word.unwrap())).collect()
    }

    #[test]
    fn identifier_relative_to_any_base_is_read_back() {
        let edges = [0, 1, 2, 29, 30, 31, 32, 126, 127, 128, 129, 1 << 14, 1 << 41, u64::MAX - 1, u64::MAX];
        let ids = edges.iter().flat_map(|ms| edges.iter().map(|seq| StreamId { ms: *ms, seq: *seq }));
        for base_id in ids.clone() {
            let base = encoded(base_id, &["f", "v"], None);
            for id in ids.clone().filter(|id| *id > base_id) {
                let entry = encoded(id, &["f", "w"], Some(&base));
                assert!(!begins_run(&entry), "{base_id:?} {id:?}");
                let read = decode(&base, &entry).unwrap();
                assert_eq!((read.id, texts(&read)), (id, vec!["f".to_owned(), "w".to_owned()]), "{base_id:?}");
                let leaf = [&base[..], &entry].concat();
                let found = find(&leaf, id).unwrap();
                assert_eq!((found.before, found.range, found.run), (1, base.len()..leaf.len(), 0));
                (0..entry.len()).for_each(|cut| assert!(decode(&base, &entry[..cut]).is_err()));
            }
        }
    }

    #[test]
    fn only_entries_with_the_same_fields_in_the_same_order_share_them() {
        let base = encoded(StreamId { ms: 5, seq: 1 }, &["a", "1", "b", "2"], None);
        for (words, shares) in [
            (&["a", "7", "b", "8"][..], true),
            (&["b", "7", "a", "8"], false),
            (&["a", "7"], false),
            (&["a", "7", "b", "8", "c", "9"], false),
            (&["a", "7", "bb", "8"], false),
        ] {
            let entry = encoded(StreamId { ms: 6, seq: 0 }, words, Some(&base));
            let read = decode(&base, &entry).unwrap();
            assert_eq!(
                (texts(&read), read.base.is_some()),
                (words.iter().map(|word| word.to_string()).collect(), shares)
            );
        }
    }

    #[test]
    fn entries_without_marks_are_whole() {
        let leaf = [&[6, 5, 0, 0x81, b'f', 0x81, b'v'][..], &[7, 0x85, 1, 2, 0x81, b'f', 0x81, b'w']].concat();
        let found = find(&leaf, StreamId { ms: 133, seq: 2 }).unwrap();
        assert_eq!((found.before, found.range.clone(), found.run), (1, 7..15, 7));
        let entry = decode(&leaf[found.run..], &leaf[found.range]).unwrap();
        assert_eq!(texts(&entry), ["f", "w"]);
        let added = encode_last(&leaf, StreamId { ms: 134, seq: 0 }, coded(&["f", "x"]).into_iter()).unwrap();
        assert_eq!(added, [4, MARK | 1 << 2, 0, 0x81, b'x']);
    }

    #[test]
    fn entries_that_lose_their_base_are_read_back() {
        let ids: Vec<StreamId> = (0..6).map(|number| StreamId { ms: 1000 + 40 * number, seq: number }).collect();
        let base = encoded(ids[0], &["f", "0"], None);
        let words: [&[&str]; 5] = [&["f", "1"], &["g", "2"], &["f", "3"], &["f", "4"], &["f", "5"]];
        let mut leaf = base.clone();
        for (id, words) in ids[1..5].iter().zip(words) {
            leaf.extend_from_slice(&encoded(*id, words, Some(&base)));
        }
        let run = leaf.len();
        leaf.extend_from_slice(&encoded(ids[5], words[4], None));
        let place = |leaf: &[u8], id: StreamId| find(leaf, id).unwrap();
        for gone in (0..6).flat_map(|first| (first..6).map(move |last| first..last + 1)) {
            let range = place(&leaf, ids[gone.start]).range.start..place(&leaf, ids[gone.end - 1]).range.end;
            let (rest, end) = without(&leaf, range.clone()).unwrap();
            assert_eq!(rest.is_empty(), gone.start > 0 || range.end >= run, "{gone:?}");
            // Then the first of those that are left, several times.
            let mut left = [&leaf[..range.start], &rest, &leaf[end..]].concat();
            let mut there: Vec<usize> = (0..6).filter(|number| !gone.contains(number)).collect();
            while !there.is_empty() {
                for (number, id) in ids.iter().enumerate() {
                    let found = place(&left, *id);
                    let entry = left.get(found.range.clone()).filter(|entry| !entry.is_empty());
                    let read = entry.map(|entry| texts(&decode(&left[found.run..], entry).unwrap())[1].clone());
                    assert_eq!(read, there.contains(&number).then(|| number.to_string()), "{number} without {gone:?}");
                }
                let first = place(&left, ids[there.remove(0)]).range;
                let (rest, end) = without(&left, first.clone()).unwrap();
                left = [&left[..first.start], &rest, &left[end..]].concat();
            }
            assert!(left.is_empty());
        }
    }
}
