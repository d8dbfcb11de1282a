//! Sets of Redis: different texts without an order that clients know. A large set is in the order of the hashes of its
//! texts.

use super::counted::{Codec, CountedEdit, CountedTree, Elements, Finished, FoundLeaf, Nodes, finish};
use crate::coding;
use crate::coding::hash::Salt;
use crate::{Damaged, Digits, Kind, Name, Parts, Source, Value};

/// The elements of a set are values, end to end.
#[derive(Clone, Copy, Debug)]
struct ByHash {
    salt: Salt,
}

impl ByHash {
    /// Returns the hash of an encoded element.
    fn hash_of(&self, element: &[u8]) -> Result<u32, Damaged> {
        match coding::value(element)?.0 {
            Value::Text(text) => Ok(self.salt.hash(text)),
            value => Ok(self.salt.hash(value.text(&mut Digits::new()))),
        }
    }
}

impl Codec for ByHash {
    fn len(&self, _: u8, bytes: &[u8]) -> Result<usize, Damaged> {
        coding::len(bytes)
    }

    fn separator(&self, _: u8, before: &[u8], after: &[u8], to: &mut Vec<u8>) -> Result<bool, Damaged> {
        let hash = self.hash_of(after)?;
        to.extend_from_slice(&hash.to_be_bytes());
        Ok(self.hash_of(before)? != hash)
    }

    fn arrange(&self, _: u8, body: Vec<u8>) -> Result<Vec<u8>, Damaged> {
        let (mut elements, mut at) = (Vec::new(), 0);
        while at < body.len() {
            let end = at + coding::len_at(&body, at)?;
            elements.push((self.hash_of(body.get(at..end).ok_or(Damaged)?)?, at..end));
            at = end;
        }
        elements.sort_by_key(|(hash, _)| *hash);
        let mut sorted = Vec::with_capacity(body.len());
        elements.into_iter().for_each(|(_, range)| sorted.extend_from_slice(&body[range]));
        Ok(sorted)
    }
}

/// Returns the key of the elements with this hash.
fn key(hash: u32) -> [u8; 5] {
    let [a, b, c, d] = hash.to_be_bytes();
    [0, a, b, c, d]
}

/// Returns the leaf in which an element is or would be.
fn leaf_of<'n>(nodes: &'n impl Nodes, name: &Name<'_>) -> Result<FoundLeaf<'n>, Damaged> {
    // Without levels, the only leaf is the root, and no hash is needed.
    let hash = if nodes.root().1 == 0 { 0 } else { nodes.salt().hash(name.text) };
    nodes.leaf_of_key(&key(hash))
}

/// A stored set.
#[derive(Clone, Copy, Debug)]
pub struct SetValue<'r>(CountedTree<'r>);

impl<'r> SetValue<'r> {
    /// Reads the head of a set.
    ///
    /// # Errors
    /// [`Damaged`]. Bytes after the head are checked when they are read.
    pub fn open(kind: Kind, bytes: &'r [u8], source: &'r dyn Source) -> Result<Self, Damaged> {
        CountedTree::open(kind.is_large(), bytes, source).map(Self)
    }

    /// Returns the number of elements, which is not 0.
    pub fn len(&self) -> u64 {
        self.0.count()
    }

    /// Returns true if the set has no elements. A stored set never is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a value that differs whenever the elements of a large set differ.
    pub fn identity(&self) -> (u64, u64) {
        self.0.identity()
    }

    /// Returns true if the set has this element.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn contains(&self, name: &Name<'_>) -> Result<bool, Damaged> {
        let leaf = leaf_of(&self.0, name)?.bytes;
        Ok(coding::find(leaf, 0, &name.coded)?.is_some())
    }

    /// Returns the elements from number `index` on.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn from(&self, index: u64) -> Result<impl Iterator<Item = Result<Value<'_>, Damaged>> + Clone, Damaged> {
        Ok(Elements::from(&self.0, ByHash { salt: self.0.salt() }, index)?
            .map(|element| Ok(coding::value(element?.bytes)?.0)))
    }

    /// Returns the elements of one leaf, the one with the lowest hashes that are not below `hash`, and the lowest hash
    /// of the next leaf, if there is one. A walk with these hashes returns all elements that stay in the set, even if
    /// the set changes meanwhile.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn step(&self, hash: u32) -> Result<(Vec<Value<'_>>, Option<u32>), Damaged> {
        let mut cursor = self.0.seek_key(&key(hash))?;
        let (mut elements, leaf, mut at) = (Vec::new(), cursor.leaf, 0);
        while at < leaf.len() {
            let (value, len) = coding::value(&leaf[at..])?;
            elements.push(value);
            at += len;
        }
        let next = match cursor.next(&self.0)? {
            true => cursor.low_key().and_then(|key| key.get(1..5)?.try_into().ok()).map(u32::from_be_bytes),
            false => None,
        };
        Ok((elements, next))
    }
}

/// A set in which many texts are searched.
#[derive(Debug)]
pub struct SetSearch<'r> {
    set: SetValue<'r>,
    /// A hash table of a plain set, whose elements are in no order: the offset of each element plus one, in the slot of
    /// its fingerprint or behind it. A slot without an element is 0. The number of slots is a power of two, or 0 if the
    /// set itself is searched.
    table: Vec<u16>,
}

/// The minimum number of searches for which a table is made.
const TABLE_SEARCHES_MIN: u64 = 8;

/// Returns a number for the place of a value in a table, from its length, its beginning and its end.
fn fingerprint(value: &Value<'_>) -> usize {
    let mix = |first: u64, last: u64, len: usize| {
        let mixed = (first ^ last.rotate_left(29) ^ len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize
    };
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    match value {
        Value::Text(text) => match (text.first_chunk(), text.last_chunk()) {
            (Some(first), Some(last)) => mix(u64::from_le_bytes(*first), u64::from_le_bytes(*last), text.len()),
            _ => mix(number(text), 0, text.len()),
        },
        Value::Integer(number) => mix(*number as u64, 0, 0),
        _ => 0,
    }
}

impl<'r> SetSearch<'r> {
    /// Prepares for this number of searches.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn new(set: SetValue<'r>, searches: u64) -> Result<Self, Damaged> {
        let (leaf, levels) = set.0.root();
        if levels > 0 || searches.min(set.len()) < TABLE_SEARCHES_MIN {
            return Ok(Self { set, table: Vec::new() });
        }
        // An element has at least one byte.
        let count = usize::try_from(set.len()).ok().filter(|count| *count <= leaf.len()).ok_or(Damaged)?;
        let mut table = vec![0; (2 * count).next_power_of_two()];
        let (mut at, mut left) = (0, count);
        while at < leaf.len() {
            let (value, len) = coding::value(&leaf[at..])?;
            // The table has more slots than elements, so that each search ends.
            left = left.checked_sub(1).ok_or(Damaged)?;
            let mut slot = fingerprint(&value) & (table.len() - 1);
            while table[slot] != 0 {
                slot = (slot + 1) & (table.len() - 1);
            }
            table[slot] = u16::try_from(at + 1).map_err(|_| Damaged)?;
            at += len;
        }
        Ok(Self { set, table })
    }

    /// Returns true if the set has this element, which is a text or a whole number.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn contains(&self, value: &Value<'_>) -> Result<bool, Damaged> {
        if self.table.is_empty() {
            return self.set.contains(&Name::new(value.text(&mut Digits::new())));
        }
        let leaf = self.set.0.root().0;
        let mut slot = fingerprint(value) & (self.table.len() - 1);
        while let Some(at) = self.table[slot].checked_sub(1) {
            if coding::value(leaf.get(at.into()..).ok_or(Damaged)?)?.0 == *value {
                return Ok(true);
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
        Ok(false)
    }
}

/// A set under change.
#[derive(Debug)]
pub struct SetEdit<'e>(CountedEdit<'e>);

impl<'e> SetEdit<'e> {
    /// Begins a change of `old`, or a new set.
    pub fn of(old: Option<&SetValue<'e>>, source: &'e dyn Source) -> Self {
        Self(CountedEdit::of(old.map(|old| &old.0), source))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.0.count()
    }

    /// Returns true if the set has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an element. Returns false if the set has it already.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn add(&mut self, name: &Name<'_>) -> Result<bool, Damaged> {
        let FoundLeaf { bytes: leaf, path, .. } = leaf_of(&self.0, name)?;
        if coding::find(leaf, 0, &name.coded)?.is_some() {
            return Ok(false);
        }
        let (end, mut with) = (leaf.len(), Vec::with_capacity(name.coded.len()));
        name.coded.push(&mut with);
        self.0.splice(&path, end..end, with, 1)?;
        Ok(true)
    }

    /// Removes an element. Returns false if the set does not have it.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn remove(&mut self, name: &Name<'_>) -> Result<bool, Damaged> {
        let FoundLeaf { bytes: leaf, path, .. } = leaf_of(&self.0, name)?;
        let Some(range) = coding::find(leaf, 0, &name.coded)? else { return Ok(false) };
        self.0.splice(&path, range, b"", -1)?;
        Ok(true)
    }

    /// Removes all elements.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Completes the set: writes its head into `to` and new parts into `parts`. Returns the type of the head, or `None`
    /// if no elements are left.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn finish(mut self, parts: &mut Parts, to: &mut Vec<u8>) -> Result<Option<Kind>, Damaged> {
        let codec = ByHash { salt: self.0.salt_to_finish() };
        Ok(match finish(self.0, &codec, parts, to)? {
            Finished::Empty => None,
            Finished::Plain => Some(Kind::Set),
            Finished::Tree => Some(Kind::LargeSet),
        })
    }
}
