//! Streams of Redis: entries of fields and values, ordered by their identifiers.
//!
//! ```text
//!   head      length | last id | greatest deleted id | entries ever added | groups | next number      (all variable)
//!   section 0 entries, in the order of their ids                             [`entries`]
//! ```
//!
//! The sections of groups are in [`groups`]. A stream with groups is always large.
//!
//! A plain value is the head of the stream and the entries. The head of a large stream follows the entries of the root.
//! A stream without entries is stored, too: its last id decides which ids are accepted next.

mod entries;
mod groups;

pub use entries::StreamEntry;
pub use groups::{PendingEntry, StreamConsumer, StreamGroup, StreamGroups, StreamGroupsEdit};

use std::cmp::Ordering;
use std::ops::Range;

use super::counted::{
    Codec, CountedEdit, CountedTree, Element, Elements, ElementsBack, Finished, FoundLeaf, Nodes, finish,
};
use crate::coding::Coded;
use crate::{Damaged, Kind, Parts, Source, Value};

/// The sections of a stream.
const ENTRIES: u8 = 0;
const GROUPS: u8 = 1;
const CONSUMERS: u8 = 2;
const PENDING: u8 = 3;
const OWNED: u8 = 4;
const NAMES: u8 = 5;

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

    /// Reads the bytes of an identifier.
    fn of(bytes: &[u8]) -> Result<Self, Damaged> {
        let bytes: &[u8; ID_BYTES] = bytes.first_chunk().ok_or(Damaged)?;
        let (ms, seq) = (*bytes.first_chunk().ok_or(Damaged)?, *bytes.last_chunk().ok_or(Damaged)?);
        Ok(Self { ms: u64::from_be_bytes(ms), seq: u64::from_be_bytes(seq) })
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
/// The maximum length of an entry before its fields: its length and its identifier.
const ENTRY_HEAD_BYTES_MAX: usize = 30;

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
    /// The number of groups.
    pub groups: u64,
    /// The number of the next group or consumer.
    next: u64,
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
    if let [first @ 0..0x80, rest @ ..] = bytes {
        return Ok((u64::from(*first), rest));
    }
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
        let (groups, bytes) = number(bytes)?;
        let (next, bytes) = number(bytes)?;
        Ok((Self { len, last, deleted_max, added, groups, next }, bytes))
    }

    fn put(&self, to: &mut Vec<u8>) {
        put_number(self.len, to);
        put_id(self.last, to);
        put_id(self.deleted_max, to);
        put_number(self.added, to);
        put_number(self.groups, to);
        put_number(self.next, to);
    }
}

/// The number of bytes for which a new element has room at once.
const ELEMENT_BYTES: usize = 120;

/// Returns a new element: its length in bytes, and what `fill` writes.
fn with_len(fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut element = Vec::with_capacity(ELEMENT_BYTES);
    element.push(0);
    fill(&mut element);
    let len = element.len() - 1;
    if let (Ok(short @ 0..0x80), Some(first)) = (u8::try_from(len), element.first_mut()) {
        *first = short;
        return element;
    }
    let mut head = Vec::new();
    put_number(len as u64, &mut head);
    element.splice(..1, head);
    element
}

/// The encoding of the elements of all sections.
#[derive(Clone, Copy, Debug)]
struct ById {
    has_groups: bool,
}

/// The encoding for reads, which do not depend on groups.
const READING: ById = ById { has_groups: false };

impl Codec for ById {
    fn len(&self, section: u8, bytes: &[u8]) -> Result<usize, Damaged> {
        match section {
            PENDING => return Ok(groups::PENDING_BYTES),
            OWNED => return Ok(groups::OWNED_BYTES),
            _ => {}
        }
        let (len, rest) = number(bytes)?;
        let len = usize::try_from(len).map_err(|_| Damaged)?;
        (bytes.len() - rest.len()).checked_add(len).ok_or(Damaged)
    }

    fn separator(&self, section: u8, before: &[u8], after: &[u8], to: &mut Vec<u8>) -> Result<bool, Damaged> {
        let id;
        let key = match section {
            ENTRIES if !entries::begins_run(after) => return Ok(false),
            ENTRIES => {
                id = entries::decode(after, after)?.id.bytes();
                &id[..]
            }
            GROUPS | CONSUMERS => {
                let (low, high) = (groups::key_of(section, before)?, groups::key_of(section, after)?);
                let common = low.iter().zip(high).take_while(|(low, high)| low == high).count();
                to.extend_from_slice(high.get(..=common).unwrap_or(high));
                return Ok(to.len() <= usize::from(u16::MAX));
            }
            _ => groups::key_of(section, after)?,
        };
        // Of keys of one length, zeros at the end are not needed: the key of `before` is below the key without them.
        let zeros = key.iter().rev().take_while(|byte| **byte == 0).count();
        to.extend_from_slice(&key[..key.len() - zeros]);
        Ok(true)
    }

    fn may_be_plain(&self) -> bool {
        !self.has_groups
    }

    fn begins_run(&self, section: u8, bytes: &[u8]) -> bool {
        section != ENTRIES || entries::begins_run(bytes)
    }

    fn without(&self, section: u8, leaf: &[u8], gone: Range<usize>) -> Result<(Vec<u8>, usize), Damaged> {
        if section == ENTRIES { entries::without(leaf, gone) } else { Ok((Vec::new(), gone.end)) }
    }
}

/// Returns the key of an entry.
fn entry_key(id: StreamId) -> [u8; 1 + ID_BYTES] {
    let mut key = [ENTRIES; 1 + ID_BYTES];
    key[1..].copy_from_slice(&id.bytes());
    key
}

/// The place of an element in a leaf: the number of elements before it in the leaf, its range, which is empty if the
/// element is not there, and the offset of the first element of its run.
struct InLeaf {
    before: u64,
    range: Range<usize>,
    run: usize,
}

/// Finds the first element of a leaf that is not below a key, which begins with the section.
fn find(leaf: &[u8], key: &[u8]) -> Result<InLeaf, Damaged> {
    match key[0] {
        ENTRIES => return entries::find(leaf, StreamId::of(&key[1..])?),
        PENDING => return Ok(find_fixed::<{ groups::PENDING_BYTES }>(leaf, &key[1..])),
        OWNED => return Ok(find_fixed::<{ groups::OWNED_BYTES }>(leaf, &key[1..])),
        _ => {}
    }
    let (mut at, mut before) = (0, 0);
    while at < leaf.len() {
        let end = at + READING.len(key[0], &leaf[at..])?;
        let element = leaf.get(at..end).ok_or(Damaged)?;
        match groups::key_of(key[0], element)?.cmp(&key[1..]) {
            Ordering::Less => (at, before) = (end, before + 1),
            Ordering::Equal => return Ok(InLeaf { before, range: at..end, run: at }),
            Ordering::Greater => break,
        }
    }
    Ok(InLeaf { before, range: at..at, run: at })
}

/// Returns the index of the first element that is not below a key, among elements that begin with their keys.
fn first_not_below<const LEN: usize>(elements: &[[u8; LEN]], key: &[u8]) -> usize {
    // The comparison of two numbers takes a fraction of the instructions of one of bytes.
    let numbers = |key: &[u8]| {
        let key: &[u8; groups::OWNED_BYTES] = key.first_chunk()?;
        let (high, low) = (key.first_chunk()?, key.last_chunk()?);
        Some((u128::from_be_bytes(*high), u32::from_be_bytes(*low)))
    };
    let wanted = numbers(key);
    elements.partition_point(|element| numbers(element) < wanted)
}

/// Finds the first element that is not below a key, in a leaf of elements of `LEN` bytes that begin with their keys.
fn find_fixed<const LEN: usize>(leaf: &[u8], key: &[u8]) -> InLeaf {
    let (elements, _) = leaf.as_chunks::<LEN>();
    let before = first_not_below(elements, key);
    let is_there = elements.get(before).is_some_and(|element| element[..groups::OWNED_BYTES] == *key);
    let at = before * LEN;
    InLeaf { before: before as u64, range: at..if is_there { at + LEN } else { at }, run: at }
}

/// Searches that a stored stream and one under change have in common. Keys begin with their section.
trait Searches: Nodes + Sized {
    /// Returns the leaf in which the element with a key is or would be. Returns `None` if the section has no leaf.
    fn leaf(&self, key: &[u8]) -> Result<Option<FoundLeaf<'_>>, Damaged> {
        // A tree without elements may have no leaf at all.
        if self.root().1 > 0 && self.root().0.is_empty() {
            return Ok(None);
        }
        let leaf = self.leaf_of_key(key)?;
        Ok(if leaf.section == key[0] { Some(leaf) } else { None })
    }

    /// Returns the leaf in which the element with a key is or would be, and its place in it. Returns `None` if the
    /// section has no leaf.
    fn place(&self, key: &[u8]) -> Result<Option<(FoundLeaf<'_>, InLeaf)>, Damaged> {
        let Some(leaf) = self.leaf(key)? else { return Ok(None) };
        let place = find(leaf.bytes, key)?;
        Ok(Some((leaf, place)))
    }

    /// Returns the number of elements of all sections before a key.
    fn before_key(&self, key: &[u8]) -> Result<u64, Damaged> {
        if let Some((leaf, place)) = self.place(key)? {
            return Ok(leaf.before + place.before);
        }
        if self.count() == 0 {
            return Ok(0);
        }
        // The section has no leaf: this is the first leaf behind it, or the last one.
        let leaf = self.leaf_of_key(key)?;
        Ok(if leaf.section > key[0] { leaf.before } else { leaf.before + leaf.count })
    }

    /// Returns the number of elements from one key on, up to another.
    fn count_between(&self, from: &[u8], to: &[u8]) -> Result<u64, Damaged> {
        self.before_key(to)?.checked_sub(self.before_key(from)?).ok_or(Damaged)
    }

    /// Returns the element with a key.
    fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, Damaged> {
        let Some((leaf, place)) = self.place(key)? else { return Ok(None) };
        Ok(leaf.bytes.get(place.range).filter(|element| !element.is_empty()))
    }
}

impl Searches for CountedTree<'_> {}
impl Searches for CountedEdit<'_> {}

/// Returns the length of an encoded entry with these fields and values in bytes, at most.
pub fn entry_bytes_max<'w>(words: impl Iterator<Item = &'w [u8]>) -> usize {
    words.map(|word| Coded::of(&Value::of_text(word)).len()).sum::<usize>() + ENTRY_HEAD_BYTES_MAX
}

/// A stored stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamValue<'r> {
    tree: CountedTree<'r>,
    state: StreamState,
}

fn decoded(entry: Element<'_>) -> Result<StreamEntry<'_>, Damaged> {
    entries::decode(entry.run, entry.bytes)
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
        self.tree.before_key(&entry_key(id))
    }

    /// Returns the elements between two keys, of which the second may be of another section.
    fn elements<'s>(
        &'s self,
        [from, to]: [&[u8]; 2],
    ) -> Result<impl Iterator<Item = Result<&'s [u8], Damaged>> + Clone + use<'s, 'r>, Damaged> {
        let elements = self.elements_between(self.tree.before_key(from)?, self.tree.before_key(to)?)?;
        Ok(elements.map(|element| Ok(element?.bytes)))
    }

    /// Returns the elements between two numbers, all of one section.
    fn elements_between(
        &self,
        first: u64,
        end: u64,
    ) -> Result<impl Iterator<Item = Result<Element<'_>, Damaged>> + Clone, Damaged> {
        let elements = if first < end { Some(Elements::from(&self.tree, READING, first)?) } else { None };
        Ok(elements.into_iter().flatten().take(end.saturating_sub(first) as usize))
    }

    /// Returns the entries from number `index` on.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn from(&self, index: u64) -> Result<impl Iterator<Item = Result<StreamEntry<'_>, Damaged>> + Clone, Damaged> {
        Ok(self.elements_between(index, self.len())?.map(|entry| decoded(entry?)))
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
        let entries = if count == 0 { None } else { Some(ElementsBack::from(&self.tree, READING, count - 1)?) };
        Ok(entries.into_iter().flatten().take(count as usize).map(|entry| decoded(entry?)))
    }

    /// Returns the first entry.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn first(&self) -> Result<Option<StreamEntry<'_>>, Damaged> {
        self.from(0)?.next().transpose()
    }

    /// Returns the entry with an identifier.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn entry(&self, id: StreamId) -> Result<Option<StreamEntry<'_>>, Damaged> {
        let Some((leaf, InLeaf { range, run, .. })) = self.tree.place(&entry_key(id))? else { return Ok(None) };
        let entry = leaf.bytes.get(range).filter(|entry| !entry.is_empty());
        entry.map(|entry| entries::decode(&leaf.bytes[run..], entry)).transpose()
    }

    /// Returns a search for entries with ascending identifiers.
    pub fn entry_search(&self) -> EntrySearch<'_, 'r> {
        EntrySearch { stream: self, leaf: &[], start: entries::SearchStart::default() }
    }

    /// Returns the identifier of the first entry, or the lowest identifier if there is none.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn first_id(&self) -> Result<StreamId, Damaged> {
        Ok(self.first()?.map_or(StreamId::MIN, |entry| entry.id))
    }

    /// Returns the last entry.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn last(&self) -> Result<Option<StreamEntry<'_>>, Damaged> {
        self.back_from(u64::MAX)?.next().transpose()
    }

    /// Returns the groups.
    pub fn groups(&self) -> StreamGroups<'_> {
        StreamGroups { stream: self }
    }
}

/// A search for several entries of a stream, in the order of their identifiers. Entries that lie in one leaf take one
/// descent together.
#[derive(Debug)]
pub struct EntrySearch<'s, 'r> {
    stream: &'s StreamValue<'r>,
    /// The leaf of the last search, and the place in it at which the search ended.
    leaf: &'s [u8],
    start: entries::SearchStart,
}

impl<'s> EntrySearch<'s, '_> {
    /// Returns the entry with an identifier, which is above those of earlier calls.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn entry(&mut self, id: StreamId) -> Result<Option<StreamEntry<'s>>, Damaged> {
        let mut place = entries::find_from(self.leaf, &mut self.start, id)?;
        if place.range.start == self.leaf.len() {
            let Some(leaf) = self.stream.tree.leaf(&entry_key(id))? else { return Ok(None) };
            (self.leaf, self.start) = (leaf.bytes, entries::SearchStart::default());
            place = entries::find_from(self.leaf, &mut self.start, id)?;
        }
        let entry = self.leaf.get(place.range).filter(|entry| !entry.is_empty());
        entry.map(|entry| entries::decode(&self.leaf[place.run..], entry)).transpose()
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
        self.state = StreamState { last, deleted_max, added, ..self.state };
    }

    /// Returns the number of entries before an identifier.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn before(&self, id: StreamId) -> Result<u64, Damaged> {
        self.tree.before_key(&entry_key(id))
    }

    /// Adds an entry with these fields and values. Its identifier is above the last one.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn append<'w>(&mut self, id: StreamId, words: impl Iterator<Item = &'w [u8]> + Clone) -> Result<(), Damaged> {
        debug_assert!(id > self.state.last);
        let words = words.map(|word| Coded::of(&Value::of_text(word)));
        match self.tree.leaf(&entry_key(id))? {
            None => self.tree.insert_leaf(&entry_key(id), &entries::encode(id, words, None)?)?,
            Some(FoundLeaf { bytes: leaf, path, .. }) => {
                let (end, entry) = (leaf.len(), entries::encode_last(leaf, id, words)?);
                self.tree.splice(&path, end..end, entry, 1)?;
            }
        }
        self.state = StreamState { len: self.state.len + 1, last: id, added: self.state.added + 1, ..self.state };
        Ok(())
    }

    /// Deletes an entry. Returns false if the stream does not have it.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn remove(&mut self, id: StreamId) -> Result<bool, Damaged> {
        let Some((leaf, InLeaf { range, .. })) = self.tree.place(&entry_key(id))? else { return Ok(false) };
        if range.is_empty() {
            return Ok(false);
        }
        let (rest, end) = entries::without(leaf.bytes, range.clone())?;
        let path = leaf.path;
        self.tree.splice(&path, range.start..end, rest, -1)?;
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
        self.tree.remove_between(0, count, &READING)?;
        self.state.len -= count;
        Ok(())
    }

    /// Returns the groups.
    pub fn groups(&mut self) -> StreamGroupsEdit<'_, 'e> {
        StreamGroupsEdit { stream: self }
    }

    /// Stores an element under its key, in place of an earlier one.
    fn put(&mut self, key: &[u8], element: &[u8]) -> Result<(), Damaged> {
        let Some((FoundLeaf { path, .. }, place)) = self.tree.place(key)? else {
            return self.tree.insert_leaf(key, element);
        };
        let elements = i64::from(place.range.is_empty());
        self.tree.splice(&path, place.range, element, elements)
    }

    /// Removes the element with a key. Returns false if there is none.
    fn take(&mut self, key: &[u8]) -> Result<bool, Damaged> {
        let Some((FoundLeaf { path, .. }, place)) = self.tree.place(key)? else { return Ok(false) };
        if place.range.is_empty() {
            return Ok(false);
        }
        self.tree.splice(&path, place.range, b"", -1)?;
        Ok(true)
    }

    /// Removes the elements between two keys.
    fn clear_between(&mut self, from: &[u8], to: &[u8]) -> Result<(), Damaged> {
        let (first, end) = (self.tree.before_key(from)?, self.tree.before_key(to)?);
        self.tree.remove_between(first, end, &READING)
    }

    /// Completes the stream: writes its head into `to` and new parts into `parts`. Returns the type of the head.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn finish(self, parts: &mut Parts, to: &mut Vec<u8>) -> Result<Option<Kind>, Damaged> {
        if self.tree.is_plain() {
            self.state.put(to);
            if finish(self.tree, &READING, parts, to)? == Finished::Empty {
                to.push(0);
            }
            return Ok(Some(Kind::Stream));
        }
        let (start, mut head) = (to.len(), Vec::new());
        match finish(self.tree, &ById { has_groups: self.state.groups > 0 }, parts, to)? {
            Finished::Tree => {
                self.state.put(to);
                return Ok(Some(Kind::LargeStream));
            }
            Finished::Plain => {}
            Finished::Empty => to.push(0),
        }
        self.state.put(&mut head);
        to.splice(start..start, head);
        Ok(Some(Kind::Stream))
    }
}
