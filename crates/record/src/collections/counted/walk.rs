//! Walks over the elements of a collection, in both directions.

use super::seek::{Cursor, Nodes};
use super::{Codec, CountedTree};
use crate::Damaged;

/// An encoded element of a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element<'n> {
    pub(crate) bytes: &'n [u8],
    /// The leaf from the first element of this element's run on ([`Codec::begins_run`]).
    pub(crate) run: &'n [u8],
}

/// The elements of one section in order.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'n, C> {
    tree: &'n CountedTree<'n>,
    codec: C,
    cursor: Cursor<'n>,
    section: u8,
    at: usize,
    /// The offset of the first element of the run to which the element before `at` belongs.
    run: usize,
}

impl<'n, C: Codec> Elements<'n, C> {
    /// Returns the elements from number `index` on.
    pub(crate) fn from(tree: &'n CountedTree<'n>, codec: C, index: u64) -> Result<Self, Damaged> {
        let cursor = tree.seek_index(index)?;
        let (section, mut at, mut run) = (cursor.section(), 0, 0);
        for _ in cursor.before..index.min(cursor.before + cursor.count) {
            let left = cursor.leaf.get(at..).ok_or(Damaged)?;
            if codec.begins_run(section, left) {
                run = at;
            }
            at += codec.len(section, left)?;
        }
        Ok(Self { tree, codec, cursor, section, at, run })
    }

    fn step(&mut self) -> Result<Option<Element<'n>>, Damaged> {
        while self.at >= self.cursor.leaf.len() {
            if !self.cursor.next(self.tree)? || self.cursor.section() != self.section {
                return Ok(None);
            }
            (self.at, self.run) = (0, 0);
        }
        let leaf = self.cursor.leaf;
        let left = &leaf[self.at..];
        if self.codec.begins_run(self.section, left) {
            self.run = self.at;
        }
        let bytes = left.get(..self.codec.len(self.section, left)?).ok_or(Damaged)?;
        self.at += bytes.len();
        Ok(Some(Element { bytes, run: &leaf[self.run..] }))
    }
}

impl<'n, C: Codec> Iterator for Elements<'n, C> {
    type Item = Result<Element<'n>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}

/// The elements of one section in reverse order.
#[derive(Clone, Debug)]
pub(crate) struct ElementsBack<'n, C> {
    tree: &'n CountedTree<'n>,
    codec: C,
    cursor: Cursor<'n>,
    section: u8,
    /// The ranges of the leaf's elements that are not returned yet, each with the offset of its run.
    left: Vec<(std::ops::Range<usize>, usize)>,
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
        let (leaf, mut at, mut run) = (self.cursor.leaf, 0, 0);
        while at < leaf.len() {
            if self.codec.begins_run(self.section, &leaf[at..]) {
                run = at;
            }
            let end = at + self.codec.len(self.section, &leaf[at..])?;
            self.left.push((at..end, run));
            at = end;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Element<'n>>, Damaged> {
        loop {
            if let Some((range, run)) = self.left.pop() {
                let bytes = self.cursor.leaf.get(range).ok_or(Damaged)?;
                return Ok(Some(Element { bytes, run: &self.cursor.leaf[run..] }));
            }
            if !self.cursor.previous(self.tree)? || self.cursor.section() != self.section {
                return Ok(None);
            }
            self.fill()?;
        }
    }
}

impl<'n, C: Codec> Iterator for ElementsBack<'n, C> {
    type Item = Result<Element<'n>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
