//! Streams of Redis: entries of fields and values, ordered by their identifiers.
//!
//! ```text
//!   head      length | last id | greatest deleted id | entries ever added | groups | next number      (all variable)
//!   section 0 length | id | field value field value ...                      entries, in the order of their ids
//! ```
//!
//! A plain value is the head of the stream and the entries. The head of a large stream follows the entries of the root.
//! A stream without entries is stored, too: its last id decides which ids are accepted next.

use std::cmp::Ordering;
use std::ops::Range;

use super::counted::{Codec, CountedEdit, CountedTree, Cursor, Elements, ElementsBack, Finished, Nodes, finish};
use crate::coding::{self, Coded};
use crate::{Damaged, Kind, Parts, Source, Value};

/// The section of the entries.
const ENTRIES: u8 = 0;

/// The identifier of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    /// The first number: usually a time in milliseconds.
    pub ms: u64,
    /// The second number.
    pub seq: u64,
}

impl StreamId {
    /// The lowest identifier. No entry has it.
    pub const MIN: Self = Self { ms: 0, seq: 0 };
    /// The highest identifier.
    pub const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// Returns the next identifier; `None` after the highest one.
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| Self { ms, seq: 0 }),
        }
    }

    /// Returns the previous identifier; `None` before the lowest one.
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| Self { ms, seq: u64::MAX }),
        }
    }

    /// Returns the identifier as 16 bytes in the order of the identifiers.
    fn bytes(self) -> [u8; ID_BYTES] {
        let mut bytes = [0; ID_BYTES];
        bytes[..8].copy_from_slice(&self.ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_be_bytes());
        bytes
    }
}

const ID_BYTES: usize = 16;

/// The state of a stream besides its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// The number of entries.
    pub len: u64,
    /// The identifier of the entry that was added last.
    pub last: StreamId,
    /// The highest identifier of an entry that a client has deleted.
    pub deleted_max: StreamId,
    /// The number of entries ever added.
    pub added: u64,
}

/// Appends a number of seven bits for each byte, low bits first.
fn put_number(mut number: u64, to: &mut Vec<u8>) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads a number at the start of `bytes`. Returns it and the bytes after it.
fn number(bytes: &[u8]) -> Result<(u64, &[u8]), Damaged> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((number, &bytes[at + 1..]));
        }
    }
    Err(Damaged)
}

/// Reads an identifier at the start of `bytes`. Returns it and the bytes after it.
fn id(bytes: &[u8]) -> Result<(StreamId, &[u8]), Damaged> {
    let (ms, bytes) = number(bytes)?;
    let (seq, bytes) = number(bytes)?;
    Ok((StreamId { ms, seq }, bytes))
}

fn put_id(id: StreamId, to: &mut Vec<u8>) {
    put_number(id.ms, to);
    put_number(id.seq, to);
}

impl StreamState {
    fn read(bytes: &[u8]) -> Result<(Self, &[u8]), Damaged> {
        let (len, bytes) = number(bytes)?;
        let (last, bytes) = id(bytes)?;
        let (deleted_max, bytes) = id(bytes)?;
        let (added, bytes) = number(bytes)?;
        Ok((Self { len, last, deleted_max, added }, bytes))
    }

    fn put(&self, to: &mut Vec<u8>) {
        put_number(self.len, to);
        put_id(self.last, to);
        put_id(self.deleted_max, to);
        put_number(self.added, to);
    }
}

/// The encoding of the elements of all sections.
#[derive(Clone, Copy, Debug)]
struct ById;

impl Codec for ById {
    fn len(&self, _: u8, bytes: &[u8]) -> Result<usize, Damaged> {
        let (len, rest) = number(bytes)?;
        let len = usize::try_from(len).map_err(|_| Damaged)?;
        (bytes.len() - rest.len()).checked_add(len).ok_or(Damaged)
    }

    fn separator(&self, _: u8, _: &[u8], after: &[u8], to: &mut Vec<u8>) -> Result<bool, Damaged> {
        // Zeros at the end are not needed: the key of `before` is below the key without them.
        let key = entry_id(after)?.bytes();
        let zeros = key.iter().rev().take_while(|byte| **byte == 0).count();
        to.extend_from_slice(&key[..ID_BYTES - zeros]);
        Ok(true)
    }
}

/// Returns the identifier of an encoded entry.
fn entry_id(entry: &[u8]) -> Result<StreamId, Damaged> {
    Ok(id(number(entry)?.1)?.0)
}

/// Returns the key of an entry.
fn entry_key(id: StreamId) -> [u8; 1 + ID_BYTES] {
    let mut key = [ENTRIES; 1 + ID_BYTES];
    key[1..].copy_from_slice(&id.bytes());
    key
}

/// The place of an element in a leaf: the number of elements before it in the leaf, and its range, which is empty if
/// the element is not there.
struct InLeaf {
    before: u64,
    range: Range<usize>,
}

/// Finds the first element of a leaf that is not below the wanted one. `compare` compares an element with that.
fn find(leaf: &[u8], section: u8, compare: impl Fn(&[u8]) -> Result<Ordering, Damaged>) -> Result<InLeaf, Damaged> {
    let (mut at, mut before) = (0, 0);
    while at < leaf.len() {
        let end = at + ById.len(section, &leaf[at..])?;
        match compare(leaf.get(at..end).ok_or(Damaged)?)? {
            Ordering::Less => (at, before) = (end, before + 1),
            Ordering::Equal => return Ok(InLeaf { before, range: at..end }),
            Ordering::Greater => break,
        }
    }
    Ok(InLeaf { before, range: at..at })
}

/// Searches that a stored stream and one under change have in common.
trait Searches: Nodes + Sized {
    /// Returns the leaf in which an entry is or would be, and its place in it.
    fn place(&self, id: StreamId) -> Result<(Cursor<'_>, InLeaf), Damaged> {
        let cursor = self.seek_key(&entry_key(id))?;
        let place = find(cursor.leaf, ENTRIES, |entry| Ok(entry_id(entry)?.cmp(&id)))?;
        Ok((cursor, place))
    }
}

impl Searches for CountedTree<'_> {}
impl Searches for CountedEdit<'_> {}

/// An entry of a stored stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamEntry<'r> {
    /// Its identifier.
    pub id: StreamId,
    fields: &'r [u8],
}

impl<'r> StreamEntry<'r> {
    fn of(entry: &'r [u8]) -> Result<Self, Damaged> {
        let (id, fields) = id(number(entry)?.1)?;
        Ok(Self { id, fields })
    }

    /// Returns the fields and values, alternately.
    pub fn words(&self) -> impl Iterator<Item = Result<Value<'r>, Damaged>> + Clone + use<'r> {
        let mut left = self.fields;
        std::iter::from_fn(move || {
            if left.is_empty() {
                return None;
            }
            let word = coding::value(left);
            left = word.as_ref().map_or(&[], |(_, len)| &left[*len..]);
            Some(word.map(|(value, _)| value))
        })
    }
}

/// A stored stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamValue<'r> {
    tree: CountedTree<'r>,
    state: StreamState,
}

/// The number of bytes of a tree's head before the entries of the root; its last four are the length of these.
const TREE_HEAD_BYTES: usize = 13;

impl<'r> StreamValue<'r> {
    /// Reads the head of a stream.
    ///
    /// # Errors
    /// [`Damaged`]. Bytes after the head are checked when they are read.
    pub fn open(kind: Kind, bytes: &'r [u8], source: &'r dyn Source) -> Result<Self, Damaged> {
        if !kind.is_large() {
            let (state, bytes) = StreamState::read(bytes)?;
            return Ok(Self { tree: CountedTree::open(false, bytes, source)?, state });
        }
        let fixed: &[u8; TREE_HEAD_BYTES] = bytes.first_chunk().ok_or(Damaged)?;
        let root_bytes = u32::from_le_bytes(*fixed.last_chunk().expect("four bytes")) as usize;
        let (tree, state) = bytes.split_at_checked(TREE_HEAD_BYTES.saturating_add(root_bytes)).ok_or(Damaged)?;
        Ok(Self { tree: CountedTree::open(true, tree, source)?, state: StreamState::read(state)?.0 })
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.state.len
    }

    /// Returns true if the stream has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the state besides the entries.
    pub fn state(&self) -> StreamState {
        self.state
    }

    /// Returns a value that differs whenever the entries of a large stream differ.
    pub fn identity(&self) -> (u64, u64) {
        self.tree.identity()
    }

    /// Returns the number of entries before an identifier.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn before(&self, id: StreamId) -> Result<u64, Damaged> {
        if self.is_empty() {
            return Ok(0);
        }
        let (cursor, place) = self.tree.place(id)?;
        Ok(cursor.before + place.before)
    }

    /// Returns the entries from number `index` on.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn from(&self, index: u64) -> Result<impl Iterator<Item = Result<StreamEntry<'_>, Damaged>> + Clone, Damaged> {
        let left = self.len().saturating_sub(index);
        let entries = Elements::from(&self.tree, ById, index.min(self.len().saturating_sub(1)))?;
        Ok(entries.take(left as usize).map(|entry| StreamEntry::of(entry?)))
    }

    /// Returns the entries from number `index` down to the first.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn back_from(
        &self,
        index: u64,
    ) -> Result<impl Iterator<Item = Result<StreamEntry<'_>, Damaged>> + Clone, Damaged> {
        let count = index.saturating_add(1).min(self.len());
        let entries = ElementsBack::from(&self.tree, ById, count.saturating_sub(1))?;
        Ok(entries.take(count as usize).map(|entry| StreamEntry::of(entry?)))
    }

    /// Returns the first entry.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn first(&self) -> Result<Option<StreamEntry<'_>>, Damaged> {
        self.from(0)?.next().transpose()
    }

    /// Returns the last entry.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn last(&self) -> Result<Option<StreamEntry<'_>>, Damaged> {
        self.back_from(u64::MAX)?.next().transpose()
    }
}

/// A stream under change.
#[derive(Debug)]
pub struct StreamEdit<'e> {
    tree: CountedEdit<'e>,
    state: StreamState,
}

impl<'e> StreamEdit<'e> {
    /// Begins a change of `old`, or a new stream.
    pub fn of(old: Option<&StreamValue<'e>>, source: &'e dyn Source) -> Self {
        let state = old.map_or_else(StreamState::default, |old| old.state);
        Self { tree: CountedEdit::of(old.map(|old| &old.tree), source), state }
    }

    /// Returns the state besides the entries.
    pub fn state(&self) -> StreamState {
        self.state
    }

    /// Changes the last identifier, the greatest deleted one and the number of entries ever added.
    pub fn set_state(&mut self, last: StreamId, deleted_max: StreamId, added: u64) {
        self.state = StreamState { len: self.state.len, last, deleted_max, added };
    }

    /// Returns the number of entries before an identifier.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn before(&self, id: StreamId) -> Result<u64, Damaged> {
        if self.state.len == 0 {
            return Ok(0);
        }
        let (cursor, place) = self.tree.place(id)?;
        Ok(cursor.before + place.before)
    }

    /// Adds an entry with these fields and values. Its identifier is above the last one.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn append<'w>(&mut self, id: StreamId, words: impl Iterator<Item = &'w [u8]>) -> Result<(), Damaged> {
        debug_assert!(id > self.state.last);
        let mut body = Vec::new();
        put_id(id, &mut body);
        words.for_each(|word| Coded::of(&Value::of_text(word)).push(&mut body));
        let mut entry = Vec::with_capacity(body.len() + 3);
        put_number(body.len() as u64, &mut entry);
        entry.extend_from_slice(&body);
        let cursor = self.tree.seek_key(&entry_key(id))?;
        let end = cursor.leaf.len();
        let path = cursor.into_path();
        self.tree.splice(&path, end..end, &entry, 1)?;
        self.state = StreamState { len: self.state.len + 1, last: id, added: self.state.added + 1, ..self.state };
        Ok(())
    }

    /// Deletes an entry. Returns false if the stream does not have it.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn remove(&mut self, id: StreamId) -> Result<bool, Damaged> {
        if self.state.len == 0 {
            return Ok(false);
        }
        let (cursor, place) = self.tree.place(id)?;
        if place.range.is_empty() {
            return Ok(false);
        }
        let path = cursor.into_path();
        self.tree.splice(&path, place.range, b"", -1)?;
        self.state.len -= 1;
        self.state.deleted_max = self.state.deleted_max.max(id);
        Ok(true)
    }

    /// Removes the first `count` entries.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn remove_first(&mut self, count: u64) -> Result<(), Damaged> {
        let count = count.min(self.state.len);
        self.tree.remove_between(0, count, &ById)?;
        self.state.len -= count;
        Ok(())
    }

    /// Completes the stream: writes its head into `to` and new parts into `parts`. Returns the type of the head.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn finish(self, parts: &mut Parts, to: &mut Vec<u8>) -> Result<Option<Kind>, Damaged> {
        let mut body = Vec::new();
        match finish(self.tree, &ById, parts, &mut body)? {
            Finished::Tree => {
                to.extend_from_slice(&body);
                self.state.put(to);
                return Ok(Some(Kind::LargeStream));
            }
            Finished::Plain => {}
            Finished::Empty => body.push(0),
        }
        self.state.put(to);
        to.extend_from_slice(&body);
        Ok(Some(Kind::Stream))
    }
}
