//! Reads a record in place, without a copy.
//!
//! ```text
//!   record   head, bins
//!   head     m e rrrrrr | m rrrrrrr ...    r: the revision, six bits and then seven bits per byte, the low bits first
//!                                          m: more bytes follow; e: a bin has an end (expiry time)
//!   bin      name value                    encoded as in `coding`; the name is a text or a whole number
//!            0xff end 6 name value         end: ms since the epoch, the low byte first
//!
//!   in a set: set, generation, record     set and generation: seven bits per byte, the low bits first
//!                                         a bin's name is its number in the set, or a text if it has no number
//! ```

use std::ops::Range;

use crate::coding::hash::Salt;
use crate::coding::{self, Coded, END};
use crate::sets::{self, InSet, Sets};
use crate::tree::{Leaves, Source, Tree};
use crate::{Damaged, Kind, Name, Value};

/// Bit of the head's first byte: more bytes follow.
pub(crate) const MORE: u8 = 0x80;
/// Bit of the head's first byte: a bin has an end.
pub(crate) const ENDS: u8 = 0x40;
/// Number of bytes of a bin's expiry (its end), including the marker before it.
pub(crate) const END_BYTES: usize = 7;
/// Maximum length of a record's head in bytes: 6 bits and 4 times 7 bits hold 32 bits.
pub(crate) const HEAD_BYTES_MAX: usize = 5;

/// Maximum number of reply bytes for each byte of a bin. In a set, one byte can stand for a 63-byte name, to which a
/// reply adds protocol lines. A value of one byte can stand for a number, or for a boolean with the name of its type.
pub const ANSWER_BYTES_A_BYTE: usize = 80;

/// A record, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    /// The encoded bins, without the head.
    pub(crate) body: &'r [u8],
    revision: u32,
    has_ends: bool,
    set: Option<InSet<'r>>,
    /// The tree of a large record. If it is set, `body` holds no bins.
    pub(crate) tree: Option<Tree<'r>>,
}

/// One bin of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin<'r> {
    /// The name: a text or a whole number.
    pub name: Value<'r>,
    /// The value of the bin.
    pub value: Value<'r>,
    /// The bin's expiry, in milliseconds since the epoch; `None`: it does not expire.
    pub end_ms: Option<u64>,
}

impl Bin<'_> {
    /// Returns true if the bin has not expired at `now_ms`.
    pub fn is_live(&self, now_ms: u64) -> bool {
        self.end_ms.is_none_or(|end| end > now_ms)
    }
}

/// Offsets of the parts of a bin, in bytes from the first bin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BinRange {
    pub(crate) start: usize,
    pub(crate) name: usize,
    pub(crate) value: usize,
    pub(crate) end: usize,
    pub(crate) end_ms: Option<u64>,
}

impl BinRange {
    /// Reads the bin that begins at `start` of `body`.
    #[inline]
    pub(crate) fn at(body: &[u8], start: usize) -> Result<Self, Damaged> {
        let (mut name, mut end_ms) = (start, None);
        if body.get(start) == Some(&END) {
            let bytes = body.get(start + 1..start + END_BYTES).ok_or(Damaged)?;
            end_ms = Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)));
            name += END_BYTES;
        }
        let value = name + coding::len_at(body, name)?;
        let end = value + coding::len_at(body, value)?;
        if end > body.len() {
            return Err(Damaged);
        }
        Ok(Self { start, name, value, end, end_ms })
    }

    pub(crate) fn is_live(&self, now_ms: u64) -> bool {
        self.end_ms.is_none_or(|end| end > now_ms)
    }

    pub(crate) fn whole(&self) -> Range<usize> {
        self.start..self.end
    }

    pub(crate) fn bin<'r>(&self, body: &'r [u8], set: Option<InSet<'r>>) -> Result<Bin<'r>, Damaged> {
        let name = name_of(&body[self.name..self.value], set)?;
        let value = coding::value(&body[self.value..self.end])?.0;
        Ok(Bin { name, value, end_ms: self.end_ms })
    }
}

/// Decodes a bin's name. In a set, a number stands for one of the set's names.
pub(crate) fn name_of<'r>(bytes: &'r [u8], set: Option<InSet<'r>>) -> Result<Value<'r>, Damaged> {
    match (coding::value(bytes)?.0, set) {
        (Value::Integer(number), Some(InSet { set, .. })) => {
            let number = u16::try_from(number).map_err(|_| Damaged)?;
            set.bin(number).map(Value::Text).ok_or(Damaged)
        }
        (name @ (Value::Text(_) | Value::Integer(_)), _) => Ok(name),
        _ => Err(Damaged),
    }
}

/// Decodes a variable-length number: seven bits per byte, low bits first. Returns it with the rest of `bytes`.
pub(crate) fn number(bytes: &[u8]) -> Result<(u32, &[u8]), Damaged> {
    let (mut number, mut at) = (0, 0);
    loop {
        let byte = *bytes.get(at).filter(|_| at < 5).ok_or(Damaged)?;
        number |= u32::from(byte & 0x7f).checked_shl(7 * at as u32).ok_or(Damaged)?;
        at += 1;
        if byte & 0x80 == 0 {
            return Ok((number, &bytes[at..]));
        }
    }
}

/// Decodes the set number and the generation at the start of a record in a set. Returns them and the bytes after them.
pub(crate) fn set_of(bytes: &[u8]) -> Result<(u16, u32, &[u8]), Damaged> {
    let (set, bytes) = number(bytes)?;
    let (generation, bytes) = number(bytes)?;
    Ok((u16::try_from(set).map_err(|_| Damaged)?, generation, bytes))
}

/// Appends a number in the form that [`number`] reads.
pub(crate) fn push_number(mut number: u32, to: &mut Vec<u8>) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Finds the bin with this name, if it is live at `now_ms`.
#[inline]
pub(crate) fn find(body: &[u8], name: &Coded<'_>, now_ms: u64) -> Result<Option<BinRange>, Damaged> {
    find_between(body, 0..body.len(), name, now_ms)
}

/// Finds the bin with this name among those that begin within `bounds`. A bin must begin at the start of `bounds`.
#[inline]
fn find_between(body: &[u8], bounds: Range<usize>, name: &Coded<'_>, now_ms: u64) -> Result<Option<BinRange>, Damaged> {
    let mut at = bounds.start;
    while at < bounds.end {
        let place = BinRange::at(body, at)?;
        if name.begins(&body[place.name..place.value]) && place.is_live(now_ms) {
            return Ok(Some(place));
        }
        at = place.end;
    }
    Ok(None)
}

impl<'r> Record<'r> {
    /// Reads the head of the record in a typed value; `None` if its set was truncated after the record was stored.
    ///
    /// # Errors
    /// [`Damaged`], also if the type is not that of a record. Bytes after the head are checked when they are read.
    #[inline]
    pub fn of(kind: Kind, bytes: &'r [u8], sets: &'r Sets, source: &'r dyn Source) -> Result<Option<Self>, Damaged> {
        match kind {
            Kind::Hash => Self::open(bytes).map(Some),
            Kind::Large | Kind::LargeInSet => {
                let (tree, rest) = Tree::open(bytes, source)?;
                let kind = if kind == Kind::Large { Kind::Hash } else { Kind::InSet };
                Self::of(kind, rest, sets, source)?.map(|record| record.with(tree)).transpose()
            }
            Kind::InSet => {
                let (set, generation, bytes) = set_of(bytes)?;
                let set = sets.of(set).ok_or(Damaged)?;
                if set.generation() != generation {
                    return Ok(None);
                }
                Ok(Some(Self { set: Some(InSet::new(sets, set)), ..Self::open(bytes)? }))
            }
            Kind::List | Kind::Set | Kind::SortedSet | Kind::Stream => Err(Damaged),
            Kind::LargeList | Kind::LargeSet | Kind::LargeSortedSet | Kind::LargeStream => Err(Damaged),
        }
    }

    /// Completes a large record whose revision was read as the head of a plain record. `body` holds the rest of the
    /// tree's head.
    fn with(self, mut tree: Tree<'r>) -> Result<Self, Damaged> {
        let (count, rest) = number(self.body)?;
        tree.count = count.into();
        if self.has_ends {
            let end = rest.get(..END_BYTES - 1).ok_or(Damaged)?;
            tree.first_end = end.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        }
        Ok(Self { body: b"", tree: Some(tree), ..self })
    }

    /// Reads the head of a record outside any set.
    ///
    /// # Errors
    /// [`Damaged`]. Bytes after the head are checked when they are read.
    #[inline]
    pub fn open(bytes: &'r [u8]) -> Result<Self, Damaged> {
        let first = *bytes.first().ok_or(Damaged)?;
        let (mut revision, mut at) = (u32::from(first & (ENDS - 1)), 1);
        let mut more = first & MORE != 0;
        while more {
            let byte = *bytes.get(at).filter(|_| at < HEAD_BYTES_MAX).ok_or(Damaged)?;
            let shift = 6 + 7 * (at - 1);
            if shift == 27 && byte & 0x60 != 0 {
                return Err(Damaged);
            }
            revision |= u32::from(byte & 0x7f) << shift;
            more = byte & MORE != 0;
            at += 1;
        }
        Ok(Self { body: &bytes[at..], revision, has_ends: first & ENDS != 0, set: None, tree: None })
    }

    /// Returns the record's revision: 1 at first, plus 1 for each write. It restarts after 2^32 - 1.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// Returns the set that the record belongs to.
    pub fn set(&self) -> Option<InSet<'r>> {
        self.set
    }

    /// Returns true if a bin had an end (expiry time) when the record was written.
    pub fn has_ends(&self) -> bool {
        self.has_ends
    }

    /// Returns the bins that are live at `now_ms`, in the order in which they were first stored.
    pub fn bins(&self, now_ms: u64) -> Bins<'r> {
        self.bins_in(now_ms, 0, crate::HASHES)
    }

    /// Returns all bins that are live at `now_ms` and whose names' hashes ([`Salt::hash`]) are in `from..to`. It may
    /// also return other live bins that are stored beside them.
    pub fn bins_in(&self, now_ms: u64, from: u32, to: u64) -> Bins<'r> {
        let leaves = self.tree.map(|tree| tree.leaves(from, to));
        Bins { body: self.body, at: 0, now_ms, set: self.set, leaves }
    }

    /// Returns the key of the hashes of the record's names.
    pub fn salt(&self) -> Salt {
        self.tree.map_or(Salt::NONE, |tree| tree.salt())
    }

    /// Returns an upper bound in bytes for all bins, as texts or typed values in a reply; `None` if that requires
    /// reading each bin. A reply has at most [`ANSWER_BYTES_A_BYTE`] bytes for each byte of the body.
    pub fn answer_bytes_max(&self) -> Option<usize> {
        self.tree.is_none().then_some(self.body.len() * ANSWER_BYTES_A_BYTE)
    }

    /// Returns the end of the range of hashes whose names are stored in the same leaf as those of hash `from`. Walking
    /// in such ranges with [`Record::bins_in`] reads no part twice.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn step_end(&self, from: u32) -> Result<u64, Damaged> {
        self.tree.map_or(Ok(crate::HASHES), |tree| tree.leaf_end(from))
    }

    /// Returns the identity of the record's state. Two walks that see the same identity see the same bins.
    ///
    /// That of a large record is its object number, its revision and its number of bins. The number of bins is needed
    /// because a sweep of expired bins does not change the revision. That of a small record is its revision and a hash
    /// of its bins. The hash is needed because each record begins with revision 1, and a key may get another record.
    pub fn identity(&self) -> (u64, u32, u64) {
        match &self.tree {
            Some(tree) => (tree.object(), self.revision, tree.count),
            None => (0, self.revision, crate::coding::hash::unkeyed(self.body)),
        }
    }

    /// Returns true if the record is stored as a tree of leaves.
    pub fn is_large(&self) -> bool {
        self.tree.is_some()
    }

    /// Returns the bin with this name, if it is live at `now_ms`.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn find(&self, name: &Name<'_>, now_ms: u64) -> Result<Option<Bin<'r>>, Damaged> {
        self.find_after(&mut 0, name, now_ms)
    }

    /// Finds a bin, with a search that begins at offset `at`, for callers that look up several names. `at` is 0 for the
    /// first name, and each hit sets it to the end of the found bin. This is fast because clients mostly request names
    /// in the order in which they were stored.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn find_after(&self, at: &mut usize, name: &Name<'_>, now_ms: u64) -> Result<Option<Bin<'r>>, Damaged> {
        let coded = sets::coded(self.set, name, false);
        let (body, place) = match &self.tree {
            None => {
                let body = self.body;
                let place = match find_between(body, *at..body.len(), &coded, now_ms)? {
                    None => find_between(body, 0..*at, &coded, now_ms)?,
                    found => found,
                };
                *at = place.map_or(*at, |place| place.end);
                (body, place)
            }
            Some(tree) => {
                let leaf = tree.leaf(name.text)?;
                (leaf, find(leaf, &coded, now_ms)?)
            }
        };
        place.map(|place| place.bin(body, self.set)).transpose()
    }

    /// Returns true if some bins may have expired and are still counted. Only large records have such bins.
    /// [`crate::Edit::swept`] removes them.
    pub fn is_due(&self, now_ms: u64) -> bool {
        self.tree.is_some_and(|tree| tree.first_end <= now_ms)
    }

    /// Returns an upper bound for the number of bins that are live at `now_ms`. Reads no parts of a large record.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn count_at_most(&self, now_ms: u64) -> Result<usize, Damaged> {
        self.tree.map_or_else(|| self.count(now_ms), |tree| Ok(tree.count as usize))
    }

    /// Returns the number of bins that are live at `now_ms`. Of a large record, reads only the leaves that may have
    /// expired bins.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn count(&self, now_ms: u64) -> Result<usize, Damaged> {
        if let Some(tree) = &self.tree {
            if tree.first_end > now_ms {
                return Ok(tree.count as usize);
            }
            return Ok(tree.count.saturating_sub(tree.ended(now_ms)?) as usize);
        }
        let (mut at, mut count) = (0, 0);
        while at < self.body.len() {
            if self.body[at] == END {
                let place = BinRange::at(self.body, at)?;
                count += usize::from(place.is_live(now_ms));
                at = place.end;
                continue;
            }
            // A bin without an end is live.
            at += coding::len_at(self.body, at)?;
            at += coding::len_at(self.body, at)?;
            count += 1;
        }
        if at > self.body.len() {
            return Err(Damaged);
        }
        Ok(count)
    }

    /// Returns true if no bin is live at `now_ms`.
    ///
    /// # Errors
    /// [`Damaged`].
    #[inline]
    pub fn is_empty(&self, now_ms: u64) -> Result<bool, Damaged> {
        match &self.tree {
            Some(tree) if tree.first_end > now_ms => return Ok(tree.count == 0),
            Some(tree) if tree.has_lasting(now_ms) => return Ok(false),
            None if !self.has_ends => return Ok(self.body.is_empty()),
            _ => {}
        }
        Ok(self.bins(now_ms).next().transpose()?.is_none())
    }
}

/// An iterator over bins. It ends after an error.
#[derive(Clone, Debug)]
pub struct Bins<'r> {
    body: &'r [u8],
    at: usize,
    now_ms: u64,
    set: Option<InSet<'r>>,
    /// The leaves of a large record that are to be read after `body`, which holds the current leaf.
    leaves: Option<Leaves<'r>>,
}

impl<'r> Iterator for Bins<'r> {
    type Item = Result<Bin<'r>, Damaged>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Most names and values are short texts; this path decodes them in one pass.
        if let Some((name, at)) = coding::short_text(self.body, self.at)
            && let Some((value, end)) = coding::short_text(self.body, at)
        {
            self.at = end;
            return Some(Ok(Bin { name: Value::Text(name), value: Value::Text(value), end_ms: None }));
        }
        self.next_of_any()
    }
}

impl<'r> Bins<'r> {
    /// Returns the next live bin, whatever its encoding.
    fn next_of_any(&mut self) -> Option<Result<Bin<'r>, Damaged>> {
        loop {
            if self.at >= self.body.len() {
                match self.leaves.as_mut()?.next()? {
                    Ok(leaf) => (self.body, self.at) = (leaf, 0),
                    Err(damaged) => {
                        self.leaves = None;
                        return Some(Err(damaged));
                    }
                }
                continue;
            }
            let bin = BinRange::at(self.body, self.at).and_then(|place| {
                self.at = place.end;
                if place.is_live(self.now_ms) { place.bin(self.body, self.set).map(Some) } else { Ok(None) }
            });
            match bin {
                Ok(Some(bin)) => return Some(Ok(bin)),
                Ok(None) => {}
                Err(Damaged) => {
                    (self.at, self.leaves) = (self.body.len(), None);
                    return Some(Err(Damaged));
                }
            }
        }
    }
}
