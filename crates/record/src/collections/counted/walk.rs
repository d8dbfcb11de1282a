//! Walks over the elements of a collection, in both directions.

use super::seek::{Cursor, Nodes};
use super::{Codec, CountedTree};
use crate::Damaged;

/// The elements of one section in order, as encoded bytes.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'n, C> {
    tree: &'n CountedTree<'n>,
    codec: C,
    cursor: Cursor<'n>,
    section: u8,
    at: usize,
}

impl<'n, C: Codec> Elements<'n, C> {
    /// Returns the elements from number `index` on.
    pub(crate) fn from(tree: &'n CountedTree<'n>, codec: C, index: u64) -> Result<Self, Damaged> {
        let cursor = tree.seek_index(index)?;
        let (section, mut at) = (cursor.section(), 0);
        for _ in cursor.before..index.min(cursor.before + cursor.count) {
            at += codec.len(section, cursor.leaf.get(at..).ok_or(Damaged)?)?;
        }
        Ok(Self { tree, codec, cursor, section, at })
    }

    fn step(&mut self) -> Result<Option<&'n [u8]>, Damaged> {
        while self.at >= self.cursor.leaf.len() {
            if !self.cursor.next(self.tree)? || self.cursor.section() != self.section {
                return Ok(None);
            }
            self.at = 0;
        }
        let left = &self.cursor.leaf[self.at..];
        let element = left.get(..self.codec.len(self.section, left)?).ok_or(Damaged)?;
        self.at += element.len();
        Ok(Some(element))
    }
}

impl<'n, C: Codec> Iterator for Elements<'n, C> {
    type Item = Result<&'n [u8], Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// The elements of one section in reverse order, as encoded bytes.
#[derive(Clone, Debug)]
pub(crate) struct ElementsBack<'n, C> {
    tree: &'n CountedTree<'n>,
    codec: C,
    cursor: Cursor<'n>,
    section: u8,
    /// The ranges of the leaf's elements that are not returned yet.
    left: Vec<std::ops::Range<usize>>,
}

impl<'n, C: Codec> ElementsBack<'n, C> {
    /// Returns the elements from number `index` down to the first.
    pub(crate) fn from(tree: &'n CountedTree<'n>, codec: C, index: u64) -> Result<Self, Damaged> {
        let cursor = tree.seek_index(index)?;
        let mut back = Self { tree, codec, section: cursor.section(), cursor, left: Vec::new() };
        back.fill()?;
        let keep = index.saturating_sub(back.cursor.before) as usize + 1;
        back.left.truncate(keep);
        Ok(back)
    }

    fn fill(&mut self) -> Result<(), Damaged> {
        let (leaf, mut at) = (self.cursor.leaf, 0);
        while at < leaf.len() {
            let end = at + self.codec.len(self.section, &leaf[at..])?;
            self.left.push(at..end);
            at = end;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<&'n [u8]>, Damaged> {
        loop {
            if let Some(range) = self.left.pop() {
                return self.cursor.leaf.get(range).map(Some).ok_or(Damaged);
            }
            if !self.cursor.previous(self.tree)? || self.cursor.section() != self.section {
                return Ok(None);
            }
            self.fill()?;
        }
    }
}

impl<'n, C: Codec> Iterator for ElementsBack<'n, C> {
    type Item = Result<&'n [u8], Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
