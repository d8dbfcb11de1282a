//! Lists of Redis: texts in the order in which they were pushed.

use super::counted::{Codec, CountedEdit, CountedTree, Elements, ElementsBack, Finished, FoundLeaf, Nodes, finish};
use crate::coding::{self, Coded};
use crate::{Damaged, Kind, Parts, Source, Value};

/// The elements of a list are values, end to end.
#[derive(Clone, Copy, Debug)]
struct Plain;

impl Codec for Plain {
    fn len(&self, _: u8, bytes: &[u8]) -> Result<usize, Damaged> {
        coding::len(bytes)
    }

    fn separator(&self, _: u8, _: &[u8], _: &[u8], _: &mut Vec<u8>) -> Result<bool, Damaged> {
        Ok(true)
    }
}

/// A stored list.
#[derive(Clone, Copy, Debug)]
pub struct ListValue<'r>(CountedTree<'r>);

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// The end of `LPUSH` and `LPOP`.
    Left,
    /// The end of `RPUSH` and `RPOP`.
    Right,
}

impl<'r> ListValue<'r> {
    /// Reads the head of a list.
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

    /// Returns true if the list has no elements. A stored list never is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a value that differs whenever the elements of a large list differ.
    pub fn identity(&self) -> (u64, u64) {
        self.0.identity()
    }

    /// Returns the elements from number `index` on.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn from(&self, index: u64) -> Result<impl Iterator<Item = Result<Value<'_>, Damaged>> + Clone, Damaged> {
        Ok(Elements::from(&self.0, Plain, index)?.map(|element| Ok(coding::value(element?.bytes)?.0)))
    }

    /// Returns the elements from number `index` down to the first.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn back_from(&self, index: u64) -> Result<impl Iterator<Item = Result<Value<'_>, Damaged>> + Clone, Damaged> {
        Ok(ElementsBack::from(&self.0, Plain, index)?.map(|element| Ok(coding::value(element?.bytes)?.0)))
    }

    /// Returns the element number `index`, or `None` if there are too few elements.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn at(&self, index: u64) -> Result<Option<Value<'_>>, Damaged> {
        if index >= self.len() {
            return Ok(None);
        }
        let leaf = self.0.leaf_of_index(index)?;
        let at = skip(leaf.bytes, index - leaf.before)?;
        Ok(Some(coding::value(leaf.bytes.get(at..).ok_or(Damaged)?)?.0))
    }
}

/// A list under change.
#[derive(Debug)]
pub struct ListEdit<'e>(CountedEdit<'e>);

impl<'e> ListEdit<'e> {
    /// Begins a change of `old`, or a new list.
    pub fn of(old: Option<&ListValue<'e>>, source: &'e dyn Source) -> Self {
        Self(CountedEdit::of(old.map(|old| &old.0), source))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> u64 {
        self.0.count()
    }

    /// Returns true if the list has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an element at an end.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn push(&mut self, end: ListEnd, text: &[u8]) -> Result<(), Damaged> {
        let index = if end == ListEnd::Left { 0 } else { self.len() };
        self.insert(index, text)
    }

    /// Adds an element before the element number `index`, or at the end.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn insert(&mut self, index: u64, text: &[u8]) -> Result<(), Damaged> {
        self.splice(index, 0, Some(text))
    }

    /// Replaces the element number `index`, which exists.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn set(&mut self, index: u64, text: &[u8]) -> Result<(), Damaged> {
        self.splice(index, 1, Some(text))
    }

    /// Removes the elements from number `from` up to, not including, number `to`.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn remove(&mut self, from: u64, to: u64) -> Result<(), Damaged> {
        if to == from + 1 && from < self.len() {
            self.splice(from, 1, None)
        } else {
            self.0.remove_between(from, to, &Plain)
        }
    }

    fn splice(&mut self, index: u64, removed: i64, text: Option<&[u8]>) -> Result<(), Damaged> {
        let FoundLeaf { bytes: leaf, before, count, path, .. } = self.0.leaf_of_index(index)?;
        let start = if index == before + count { leaf.len() } else { skip(leaf, index - before)? };
        let end = if removed > 0 { start + coding::len_at(leaf, start)? } else { start };
        let mut with = Vec::new();
        if let Some(text) = text {
            Coded::of(&Value::of_text(text)).push(&mut with);
        }
        self.0.splice(&path, start..end, with, i64::from(text.is_some()) - removed)
    }

    /// Completes the list: writes its head into `to` and new parts into `parts`. Returns the type of the head, or
    /// `None` if no elements are left.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn finish(self, parts: &mut Parts, to: &mut Vec<u8>) -> Result<Option<Kind>, Damaged> {
        Ok(match finish(self.0, &Plain, parts, to)? {
            Finished::Empty => None,
            Finished::Plain => Some(Kind::List),
            Finished::Tree => Some(Kind::LargeList),
        })
    }
}

/// Returns the offset of the element number `elements` of a leaf.
fn skip(leaf: &[u8], elements: u64) -> Result<usize, Damaged> {
    (0..elements).try_fold(0, |at, _| Ok(at + coding::len_at(leaf, at)?))
}
