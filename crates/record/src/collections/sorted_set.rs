//! Sorted sets of Redis: different texts, each with a score, ordered by score and then by text.
//!
//! ```text
//!   section 0   score 8 | text        in the order of scores and texts
//!   section 1   hash 4 | score 8      in the order of the hashes of the texts; only in large sorted sets
//! ```
//!
//! A search for a text finds its score in section 1, without a second copy of the text: section 0 distinguishes
//! elements with the same hash. Scores are stored as 64 bits whose order is that of the numbers ([`code`]).

use std::cmp::Ordering;
use std::ops::Range;

use super::counted::{Codec, CountedEdit, CountedTree, Elements, ElementsBack, Finished, FoundLeaf, Nodes, finish};
use crate::coding::hash::Salt;
use crate::coding::{self, Coded};
use crate::{Damaged, Digits, Kind, Parts, Source, Value};

/// The section of the elements in their order, and the section of the hashes.
const ORDER: u8 = 0;
const HASHES: u8 = 1;
/// The length in bytes of a score, and of an element of the section of the hashes.
const SCORE_BYTES: usize = 8;
const HASH_BYTES: usize = 12;
/// The sign bit of a number, and the codes of the two zeros, which are equal.
const SIGN: u64 = 1 << 63;
const ZERO: u64 = SIGN;
const MINUS_ZERO: u64 = SIGN - 1;

/// Returns the code of a score: a number with the same order.
fn code(score: f64) -> u64 {
    let bits = score.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Returns the score with this code.
fn score_of(code: u64) -> f64 {
    f64::from_bits(if code & SIGN == 0 { !code } else { code & !SIGN })
}

/// Returns a code by which scores are compared: both zeros have the same.
fn rank_code(code: u64) -> u64 {
    if code == MINUS_ZERO { ZERO } else { code }
}

/// Returns the code at the start of an element.
fn code_at(bytes: &[u8]) -> Result<u64, Damaged> {
    bytes.first_chunk().map(|code| u64::from_be_bytes(*code)).ok_or(Damaged)
}

/// Calls `look` with the text of an encoded value.
fn with_text<T>(bytes: &[u8], look: impl FnOnce(&[u8]) -> T) -> Result<T, Damaged> {
    Ok(match coding::value(bytes)?.0 {
        Value::Text(text) => look(text),
        value => look(value.text(&mut Digits::new())),
    })
}

/// The encoding of the elements.
#[derive(Clone, Copy, Debug)]
struct ByScore {
    salt: Salt,
}

impl Codec for ByScore {
    fn len(&self, section: u8, bytes: &[u8]) -> Result<usize, Damaged> {
        if section == HASHES {
            Ok(HASH_BYTES)
        } else {
            Ok(SCORE_BYTES + coding::len(bytes.get(SCORE_BYTES..).ok_or(Damaged)?)?)
        }
    }

    fn separator(&self, section: u8, before: &[u8], after: &[u8], to: &mut Vec<u8>) -> Result<bool, Damaged> {
        if section == HASHES {
            to.extend_from_slice(after);
            return Ok(before != after);
        }
        let [low, high] = [rank_code(code_at(before)?), rank_code(code_at(after)?)];
        to.extend_from_slice(&high.to_be_bytes());
        if low != high {
            return Ok(true);
        }
        with_text(&before[SCORE_BYTES..], |low| {
            with_text(&after[SCORE_BYTES..], |high| {
                let common = low.iter().zip(high).take_while(|(low, high)| low == high).count();
                to.extend_from_slice(high.get(..=common).unwrap_or(high));
                to.len() <= usize::from(u16::MAX)
            })
        })?
    }

    fn sections(&self, count: u64, body: Vec<u8>) -> Result<Vec<(u8, u64, Vec<u8>)>, Damaged> {
        let (mut hashes, mut at) = (Vec::new(), 0);
        while at < body.len() {
            let end = at + self.len(ORDER, &body[at..])?;
            let element = body.get(at..end).ok_or(Damaged)?;
            hashes.push(hash_element(
                with_text(&element[SCORE_BYTES..], |text| self.salt.hash(text))?,
                code_at(element)?,
            ));
            at = end;
        }
        hashes.sort_unstable();
        Ok(vec![(ORDER, count, body), (HASHES, count, hashes.concat())])
    }
}

/// Appends the element of the section of the order.
fn push_element(code: u64, text: &[u8], to: &mut Vec<u8>) {
    let coded = Coded::of(&Value::of_text(text));
    to.reserve(SCORE_BYTES + coded.len());
    to.extend_from_slice(&code.to_be_bytes());
    coded.push(to);
}

fn hash_element(hash: u32, code: u64) -> [u8; HASH_BYTES] {
    let mut element = [0; HASH_BYTES];
    element[..4].copy_from_slice(&hash.to_be_bytes());
    element[4..].copy_from_slice(&code.to_be_bytes());
    element
}

/// Returns the key of an element of the section of the order.
fn order_key(code: u64, text: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + SCORE_BYTES + text.len());
    key.push(ORDER);
    key.extend_from_slice(&rank_code(code).to_be_bytes());
    key.extend_from_slice(text);
    key
}

/// Returns the key of the elements of the section of the hashes from `hash` and `code` on.
fn hash_key(hash: u32, code: u64) -> [u8; 1 + HASH_BYTES] {
    let mut key = [HASHES; 1 + HASH_BYTES];
    key[1..].copy_from_slice(&hash_element(hash, code));
    key
}

/// The place of an element in a leaf of the section of the order: the number of elements before it in the leaf, and its
/// range, which is empty if the element is not there.
struct InLeaf {
    before: u64,
    range: Range<usize>,
}

/// Finds the first element of a leaf that is not below the element with this code and text.
fn find(leaf: &[u8], code: u64, text: &[u8]) -> Result<InLeaf, Damaged> {
    let (mut at, mut before, wanted) = (0, 0, rank_code(code));
    // Elements with lower scores are skipped: most searches pass many of them. Their raw codes are below `floor`.
    let floor = if wanted == ZERO { MINUS_ZERO } else { wanted };
    while let Some(code) = leaf.get(at..).and_then(<[u8]>::first_chunk) {
        if u64::from_be_bytes(*code) >= floor {
            break;
        }
        (at, before) = (at + SCORE_BYTES + coding::len_at(leaf, at + SCORE_BYTES)?, before + 1);
    }
    while at < leaf.len() {
        let element = &leaf[at..];
        let code = rank_code(code_at(element)?);
        if code > wanted {
            break;
        }
        let end = at + SCORE_BYTES + coding::len_at(element, SCORE_BYTES)?;
        if code == wanted {
            match with_text(leaf.get(at + SCORE_BYTES..end).ok_or(Damaged)?, |other| other.cmp(text))? {
                Ordering::Less => {}
                Ordering::Equal => return Ok(InLeaf { before, range: at..end }),
                Ordering::Greater => break,
            }
        }
        (at, before) = (end, before + 1);
    }
    if at > leaf.len() {
        return Err(Damaged);
    }
    Ok(InLeaf { before, range: at..at })
}

/// A place between two elements of a sorted set: before all elements with a greater or equal score, and text if the
/// scores are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    code: u64,
    text: Vec<u8>,
}

impl Bound {
    /// Returns the bound before the first element with this score.
    pub fn before(score: f64) -> Self {
        Self { code: rank_code(code(score)), text: Vec::new() }
    }

    /// Returns the bound behind the last element with this score.
    pub fn behind(score: f64) -> Self {
        Self { code: rank_code(code(score)) + 1, text: Vec::new() }
    }

    /// Returns the bound before the element with this score and text, or where it would be.
    pub fn before_text(score: f64, text: &[u8]) -> Self {
        Self { code: rank_code(code(score)), text: text.to_vec() }
    }

    /// Returns the bound behind the element with this score and text, or where it would be.
    pub fn behind_text(score: f64, text: &[u8]) -> Self {
        Self { code: rank_code(code(score)), text: [text, &[0]].concat() }
    }
}

/// Searches that a stored sorted set and one under change have in common.
trait Searches: Nodes + Sized {
    /// Returns the leaf in which an element is or would be, and its place in it.
    fn place(&self, code: u64, text: &[u8]) -> Result<(FoundLeaf<'_>, InLeaf), Damaged> {
        // Without levels, the only leaf is the root, and no key is needed.
        let is_plain = self.root().1 == 0;
        let leaf = if is_plain { self.leaf_of_index(0)? } else { self.leaf_of_key(&order_key(code, text))? };
        let place = find(leaf.bytes, code, text)?;
        Ok((leaf, place))
    }

    /// Returns the code of a text's score.
    fn code_of(&self, text: &[u8]) -> Result<Option<u64>, Damaged> {
        if self.root().1 == 0 {
            let coded = Coded::of(&Value::of_text(text));
            let leaf = self.root().0;
            let found = coding::find(leaf, SCORE_BYTES, &coded)?;
            return found.map(|range| code_at(&leaf[range])).transpose();
        }
        let hash = self.salt().hash(text);
        let mut cursor = self.seek_key(&hash_key(hash, 0))?;
        loop {
            let (elements, _) = cursor.leaf.as_chunks::<HASH_BYTES>();
            let first = elements.partition_point(|element| element[..4] < hash.to_be_bytes()[..]);
            for element in &elements[first..] {
                if element[..4] != hash.to_be_bytes() {
                    return Ok(None);
                }
                let code = code_at(&element[4..])?;
                if !self.place(code, text)?.1.range.is_empty() {
                    return Ok(Some(code));
                }
            }
            if !cursor.next(self)? {
                return Ok(None);
            }
        }
    }

    /// Returns the number of elements.
    fn elements(&self) -> u64 {
        if self.root().1 == 0 { self.count() } else { self.count() / 2 }
    }
}

impl Searches for CountedTree<'_> {}
impl Searches for CountedEdit<'_> {}

/// Scores and hashes of texts, from [`SortedSetValue::hashes`].
#[derive(Clone, Debug, Default)]
pub struct ScoredHashes {
    /// The score and the hash of each text.
    pub found: Vec<(f64, u32)>,
    /// The lowest hash of the texts behind them.
    pub next: Option<u32>,
}

/// A stored sorted set.
#[derive(Clone, Copy, Debug)]
pub struct SortedSetValue<'r>(CountedTree<'r>);

/// Decodes an element.
fn scored(element: &[u8]) -> Result<(f64, Value<'_>), Damaged> {
    Ok((score_of(code_at(element)?), coding::value(&element[SCORE_BYTES..])?.0))
}

impl<'r> SortedSetValue<'r> {
    /// Reads the head of a sorted set.
    ///
    /// # Errors
    /// [`Damaged`]. Bytes after the head are checked when they are read.
    pub fn open(kind: Kind, bytes: &'r [u8], source: &'r dyn Source) -> Result<Self, Damaged> {
        CountedTree::open(kind.is_large(), bytes, source).map(Self)
    }

    /// Returns the number of elements, which is not 0.
    pub fn len(&self) -> u64 {
        self.0.elements()
    }

    /// Returns true if the sorted set has no elements. A stored one never is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a value that differs whenever the elements of a large sorted set differ.
    pub fn identity(&self) -> (u64, u64) {
        self.0.identity()
    }

    /// Returns the score of a text.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn score(&self, text: &[u8]) -> Result<Option<f64>, Damaged> {
        Ok(self.0.code_of(text)?.map(score_of))
    }

    /// Returns the number of elements before a text, and its score.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn rank(&self, text: &[u8]) -> Result<Option<(u64, f64)>, Damaged> {
        let Some(code) = self.0.code_of(text)? else { return Ok(None) };
        let (leaf, place) = self.0.place(code, text)?;
        Ok(Some((leaf.before + place.before, score_of(code))))
    }

    /// Returns the number of elements before a bound.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn before(&self, bound: &Bound) -> Result<u64, Damaged> {
        let (leaf, place) = self.0.place(bound.code, &bound.text)?;
        Ok(leaf.before + place.before)
    }

    /// Returns the key of the hashes of the texts, by which a large sorted set has an index.
    pub fn salt(&self) -> Salt {
        self.0.salt()
    }

    /// Returns true if the sorted set has an index of the hashes of its texts.
    pub fn is_large(&self) -> bool {
        self.0.root().1 > 0
    }

    /// Returns the scores and hashes of at least `most` texts, in the order of the hashes from `hash` on, and the
    /// lowest hash of the texts behind them, if there are more. Never separates texts with the same hash. If the sorted
    /// set has no index of the hashes, returns those of all texts. A walk with these hashes meets all texts that stay
    /// in the sorted set, even if it changes meanwhile, unless its salt changes.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn hashes(&self, hash: u32, most: u64) -> Result<ScoredHashes, Damaged> {
        let mut found: Vec<(f64, u32)> = Vec::new();
        if !self.is_large() {
            for element in self.from(0)? {
                let (score, value) = element?;
                found.push((score, self.salt().hash(value.text(&mut Digits::new()))));
            }
            return Ok(ScoredHashes { found, next: None });
        }
        let mut cursor = self.0.seek_key(&hash_key(hash, 0))?;
        loop {
            let (elements, rest) = cursor.leaf.as_chunks::<HASH_BYTES>();
            if !rest.is_empty() {
                return Err(Damaged);
            }
            let first = elements.partition_point(|element| element[..4] < hash.to_be_bytes()[..]);
            for element in &elements[first..] {
                let of = u32::from_be_bytes(*element.first_chunk().ok_or(Damaged)?);
                if found.len() as u64 >= most && found.last().is_none_or(|(_, last)| *last != of) {
                    return Ok(ScoredHashes { found, next: Some(of) });
                }
                found.push((score_of(code_at(&element[4..])?), of));
            }
            if !cursor.next(&self.0)? {
                return Ok(ScoredHashes { found, next: None });
            }
        }
    }

    /// Returns the elements from number `index` on, in order, each with its score.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn from(&self, index: u64) -> Result<impl Iterator<Item = Result<(f64, Value<'_>), Damaged>> + Clone, Damaged> {
        let left = self.len().saturating_sub(index);
        let elements =
            Elements::from(&self.0, ByScore { salt: self.0.salt() }, index.min(self.len().saturating_sub(1)))?;
        Ok(elements.take(left as usize).map(|element| scored(element?.bytes)))
    }

    /// Returns the elements from number `index` down to the first, each with its score.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn back_from(
        &self,
        index: u64,
    ) -> Result<impl Iterator<Item = Result<(f64, Value<'_>), Damaged>> + Clone, Damaged> {
        let index = index.min(self.len().saturating_sub(1));
        Ok(ElementsBack::from(&self.0, ByScore { salt: self.0.salt() }, index)?.map(|element| scored(element?.bytes)))
    }
}

/// A sorted set under change.
#[derive(Debug)]
pub struct SortedSetEdit<'e>(CountedEdit<'e>);

impl<'e> SortedSetEdit<'e> {
    /// Begins a change of `old`, or a new sorted set.
    pub fn of(old: Option<&SortedSetValue<'e>>, source: &'e dyn Source) -> Self {
        Self(CountedEdit::of(old.map(|old| &old.0), source))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.0.elements()
    }

    /// Returns true if the sorted set has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the score of a text.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn score(&self, text: &[u8]) -> Result<Option<f64>, Damaged> {
        Ok(self.0.code_of(text)?.map(score_of))
    }

    /// Sets the score of a text, which has the score `old` now, or is absent. The score is a number.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn set(&mut self, text: &[u8], old: Option<f64>, score: f64) -> Result<(), Damaged> {
        let new = code(score);
        if let (Some(old), true) = (old, self.0.root().1 == 0) {
            return self.move_within(text, code(old), new);
        }
        if let Some(old) = old {
            self.remove(text, old)?;
        }
        let (FoundLeaf { path, .. }, place) = self.0.place(new, text)?;
        let mut element = Vec::new();
        push_element(new, text, &mut element);
        self.0.splice(&path, place.range, element, 1)?;
        self.change_hash(text, new, true)
    }

    /// Moves an element of a plain value to its place with another score. Replaces the bytes between both places, so
    /// that all others are copied only once, when the value is written.
    fn move_within(&mut self, text: &[u8], old: u64, new: u64) -> Result<(), Damaged> {
        let leaf = self.0.root().0;
        let (gone, to) = (find(leaf, old, text)?.range, find(leaf, new, text)?.range.start);
        if gone.is_empty() {
            return Err(Damaged);
        }
        let range = to.min(gone.start)..to.max(gone.end);
        let mut with = Vec::with_capacity(range.len() + SCORE_BYTES);
        with.extend_from_slice(&leaf[gone.end..range.end]);
        push_element(new, text, &mut with);
        with.extend_from_slice(&leaf[range.start..gone.start]);
        self.0.splice(&[], range, with, 0)
    }

    /// Removes a text, which has this score.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn remove(&mut self, text: &[u8], score: f64) -> Result<(), Damaged> {
        let (FoundLeaf { bytes: leaf, path, .. }, place) = self.0.place(code(score), text)?;
        if place.range.is_empty() {
            return Err(Damaged);
        }
        // Of the two zeros, the element has one, and the section of the hashes the same.
        let code = code_at(&leaf[place.range.start..])?;
        self.0.splice(&path, place.range, b"", -1)?;
        self.change_hash(text, code, false)
    }

    /// Adds a text to the section of the hashes, or removes it.
    fn change_hash(&mut self, text: &[u8], code: u64, is_added: bool) -> Result<(), Damaged> {
        if self.0.root().1 == 0 {
            return Ok(());
        }
        let hash = self.0.salt().hash(text);
        let element = hash_element(hash, code);
        let FoundLeaf { bytes: leaf, path, .. } = self.0.leaf_of_key(&hash_key(hash, code))?;
        let (elements, rest) = leaf.as_chunks::<HASH_BYTES>();
        let at = elements.partition_point(|other| *other < element);
        let is_there = elements.get(at) == Some(&element);
        if !rest.is_empty() || (!is_added && !is_there) {
            return Err(Damaged);
        }
        let start = at * HASH_BYTES;
        match is_added {
            true => self.0.splice(&path, start..start, element, 1),
            false => self.0.splice(&path, start..start + HASH_BYTES, b"", -1),
        }
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Completes the sorted set: writes its head into `to` and new parts into `parts`. Returns the type of the head, or
    /// `None` if no elements are left.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn finish(mut self, parts: &mut Parts, to: &mut Vec<u8>) -> Result<Option<Kind>, Damaged> {
        let codec = ByScore { salt: self.0.salt_to_finish() };
        Ok(match finish(self.0, &codec, parts, to)? {
            Finished::Empty => None,
            Finished::Plain => Some(Kind::SortedSet),
            Finished::Tree => Some(Kind::LargeSortedSet),
        })
    }
}
