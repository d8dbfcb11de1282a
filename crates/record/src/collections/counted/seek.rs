//! Searches in a tree, and walks over its leaves.

use arrayvec::ArrayVec;

use super::node::{Entry, EntryStart, prefix, prefix_at, total};
use super::{COUNTED, LEVELS_MAX, Salt};
use crate::coding::hash::SALTED;
use crate::{Damaged, Source};

/// The nodes of a tree: of a stored one ([`CountedTree`]) or of one under change ([`super::CountedEdit`]).
pub(crate) trait Nodes {
    /// Returns the entries of the root, and the number of levels of entries above the leaves. With no levels, the root
    /// is the only leaf.
    fn root(&self) -> (&[u8], usize);

    /// Returns the bytes of a page or a leaf.
    fn node(&self, part: u64) -> Result<&[u8], Damaged>;

    /// Returns the leaf that has, or would have, the elements with this key. The key begins with the section.
    fn leaf_of_key(&self, key: &[u8]) -> Result<FoundLeaf<'_>, Damaged>
    where
        Self: Sized,
    {
        let leaf = FoundLeaf::descend(self, |page| entry_of_key(page, key))?;
        if leaf.section >= key[0] {
            return Ok(leaf);
        }
        let cursor = self.seek_key(key)?;
        Ok(FoundLeaf {
            bytes: cursor.leaf,
            before: cursor.before,
            count: cursor.count,
            section: cursor.section(),
            path: cursor.path.iter().map(|(_, at, _)| *at as u32).collect(),
        })
    }

    /// Returns the leaf of the element before which there are `index` elements, or the last leaf if there are too few
    /// elements.
    fn leaf_of_index(&self, index: u64) -> Result<FoundLeaf<'_>, Damaged>
    where
        Self: Sized,
    {
        let mut left = index;
        FoundLeaf::descend(self, |page| entry_of_index(page, &mut left))
    }

    /// Returns a cursor at the leaf of [`Nodes::leaf_of_key`].
    fn seek_key(&self, key: &[u8]) -> Result<Cursor<'_>, Damaged>
    where
        Self: Sized,
    {
        let mut cursor = Cursor::descend(self, |page| entry_of_key(page, key))?;
        while cursor.section() < key[0] && cursor.next(self)? {}
        Ok(cursor)
    }

    /// Returns a cursor at the leaf of [`Nodes::leaf_of_index`].
    fn seek_index(&self, index: u64) -> Result<Cursor<'_>, Damaged>
    where
        Self: Sized,
    {
        let mut left = index;
        Cursor::descend(self, |page| entry_of_index(page, &mut left))
    }

    /// Returns the number of elements of all sections.
    fn count(&self) -> u64;

    /// Returns the key of the hashes of the tree's elements.
    fn salt(&self) -> Salt;
}

/// Returns the offset of the entry of a page that leads to a key, and the number of elements before the entry in the
/// page.
fn entry_of_key(page: &[u8], key: &[u8]) -> Result<(usize, u64), Damaged> {
    let (mut chosen, mut before, mut sum, mut at) = (0, 0, 0, 0);
    let wanted = prefix(key);
    while at < page.len() {
        let EntryStart { count, end, .. } = EntryStart::at(page, at)?;
        let found = prefix_at(page, at, end)?;
        if at > 0 && (found > wanted || found == wanted && Entry::at(page, at)?.key > key) {
            break;
        }
        (chosen, before) = (at, sum);
        (sum, at) = (sum + count, end);
    }
    Ok((chosen, before))
}

/// Returns the offset of the entry of a page that leads to the element behind `left` others, and the number of elements
/// before the entry in the page, which are subtracted from `left`.
fn entry_of_index(page: &[u8], left: &mut u64) -> Result<(usize, u64), Damaged> {
    let (mut at, mut before) = (0, 0);
    loop {
        let entry = Entry::at(page, at)?;
        if before + entry.count > *left || entry.end == page.len() {
            *left = left.saturating_sub(before);
            return Ok((at, before));
        }
        (before, at) = (before + entry.count, entry.end);
    }
}

/// A leaf and its place in a tree. It is short, because it is returned by each search.
#[derive(Clone, Debug)]
pub(crate) struct FoundLeaf<'n> {
    pub(crate) bytes: &'n [u8],
    /// The number of elements before the leaf.
    pub(crate) before: u64,
    /// The number of elements of the leaf.
    pub(crate) count: u64,
    pub(crate) section: u8,
    /// The offsets of the entries that lead to the leaf, from the root down.
    pub(crate) path: Path,
}

/// The offsets of the entries that lead to a leaf, from the root down.
pub(crate) type Path = ArrayVec<u32, LEVELS_MAX>;

impl<'n> FoundLeaf<'n> {
    /// Descends from the root. `choose` returns the offset of an entry of a page, and the number of elements before
    /// that entry in the page.
    fn descend(
        nodes: &'n impl Nodes,
        mut choose: impl FnMut(&'n [u8]) -> Result<(usize, u64), Damaged>,
    ) -> Result<Self, Damaged> {
        let (root, levels) = nodes.root();
        let mut leaf = Self { bytes: root, before: 0, count: nodes.count(), section: 0, path: Path::new() };
        for _ in 0..levels {
            let (at, before) = choose(leaf.bytes)?;
            let entry = Entry::at(leaf.bytes, at)?;
            leaf.path.try_push(at as u32).map_err(|_| Damaged)?;
            (leaf.before, leaf.count, leaf.section) = (leaf.before + before, entry.count, entry.section());
            leaf.bytes = nodes.node(entry.part)?;
        }
        Ok(leaf)
    }
}

/// A stored collection, read from its head: a tree, or a plain value, which is the only leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedTree<'r> {
    pub(super) object: u64,
    pub(super) levels: usize,
    pub(super) salt: Salt,
    pub(super) root: &'r [u8],
    pub(super) count: u64,
    pub(super) source: &'r dyn Source,
}

impl<'r> CountedTree<'r> {
    /// Reads a value: the head of a tree if `is_large`, else the number of elements and the elements.
    pub(crate) fn open(is_large: bool, bytes: &'r [u8], source: &'r dyn Source) -> Result<Self, Damaged> {
        if !is_large {
            let (count, root) = crate::read::number(bytes)?;
            return Ok(Self { object: 0, levels: 0, salt: Salt::NONE, root, count: count.into(), source });
        }
        let (fixed, rest) = bytes.split_first_chunk::<13>().ok_or(Damaged)?;
        let object = u64::from_le_bytes(*fixed.first_chunk().expect("eight bytes"));
        let levels = usize::from(fixed[8] & !COUNTED & !SALTED);
        let root_bytes = u32::from_le_bytes(*fixed.last_chunk().expect("four bytes")) as usize;
        let (root, rest) = rest.split_at_checked(root_bytes).ok_or(Damaged)?;
        let (salt, rest) = Salt::read(fixed[8], rest).ok_or(Damaged)?;
        if fixed[8] & COUNTED == 0 || !(1..=LEVELS_MAX).contains(&levels) || !rest.is_empty() {
            return Err(Damaged);
        }
        Ok(Self { object, levels, salt, root, count: total(root)?, source })
    }

    /// Returns a value that differs whenever the tree differs: a change gives the root other parts.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.object, crate::coding::hash::unkeyed(self.root))
    }
}

impl Nodes for CountedTree<'_> {
    fn root(&self) -> (&[u8], usize) {
        (self.root, self.levels)
    }

    fn node(&self, part: u64) -> Result<&[u8], Damaged> {
        self.source.part(self.object, part).ok_or(Damaged)
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn salt(&self) -> Salt {
        self.salt
    }
}

/// A position in a tree: one of its leaves.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'n> {
    /// The pages from the root to the leaf, each with the offset of the entry that leads to the leaf, and the number of
    /// elements before the page.
    path: ArrayVec<(&'n [u8], usize, u64), LEVELS_MAX>,
    pub(crate) leaf: &'n [u8],
    /// The number of elements before the leaf.
    pub(crate) before: u64,
    /// The number of elements of the leaf.
    pub(crate) count: u64,
}

impl<'n> Cursor<'n> {
    /// Descends from the root. `choose` returns the offset of an entry of a page, and the number of elements before
    /// that entry in the page.
    fn descend(
        nodes: &'n impl Nodes,
        mut choose: impl FnMut(&'n [u8]) -> Result<(usize, u64), Damaged>,
    ) -> Result<Self, Damaged> {
        let (root, levels) = nodes.root();
        let mut cursor = Self { path: ArrayVec::new(), leaf: root, before: 0, count: nodes.count() };
        for _ in 0..levels {
            let (at, before) = choose(cursor.leaf)?;
            cursor.enter(nodes, cursor.leaf, at, cursor.before, before)?;
        }
        Ok(cursor)
    }

    /// Goes down one level, through the entry at offset `at` of `page`.
    fn enter(
        &mut self,
        nodes: &'n impl Nodes,
        page: &'n [u8],
        at: usize,
        base: u64,
        before: u64,
    ) -> Result<(), Damaged> {
        let entry = Entry::at(page, at)?;
        self.path.try_push((page, at, base)).map_err(|_| Damaged)?;
        (self.before, self.count) = (base + before, entry.count);
        self.leaf = nodes.node(entry.part)?;
        Ok(())
    }

    /// Returns the key of the entry that leads to the leaf; `None` without levels.
    pub(crate) fn low_key(&self) -> Option<&'n [u8]> {
        self.path.last().and_then(|(page, at, _)| Some(Entry::at(page, *at).ok()?.key))
    }

    /// Returns the section of the leaf.
    pub(crate) fn section(&self) -> u8 {
        self.low_key().map_or(0, |key| key[0])
    }

    /// Goes to the next leaf. Returns false after the last one, where the cursor stays.
    pub(crate) fn next(&mut self, nodes: &'n impl Nodes) -> Result<bool, Damaged> {
        self.step(
            nodes,
            |page, at| {
                let end = Entry::at(page, at)?.end;
                Ok((end < page.len()).then_some(end))
            },
            |_| Ok(0),
        )
    }

    /// Goes to the previous leaf. Returns false before the first one, where the cursor stays.
    pub(crate) fn previous(&mut self, nodes: &'n impl Nodes) -> Result<bool, Damaged> {
        let before = |page: &[u8], until: usize| {
            let mut at = 0;
            loop {
                let end = Entry::at(page, at)?.end;
                if end >= until {
                    return Ok(at);
                }
                at = end;
            }
        };
        self.step(
            nodes,
            |page, at| if at == 0 { Ok(None) } else { before(page, at).map(Some) },
            |page| before(page, page.len()),
        )
    }

    /// Goes up until `sibling` returns the offset of another entry of the page, and from there down again. `edge`
    /// returns the offset of the entry at which a lower page is entered.
    fn step(
        &mut self,
        nodes: &'n impl Nodes,
        sibling: impl Fn(&[u8], usize) -> Result<Option<usize>, Damaged>,
        edge: impl Fn(&[u8]) -> Result<usize, Damaged>,
    ) -> Result<bool, Damaged> {
        let levels = self.path.len();
        let mut up = levels;
        let (page, mut at, base) = loop {
            let Some((page, at, base)) = up.checked_sub(1).map(|level| self.path[level]) else { return Ok(false) };
            if let Some(to) = sibling(page, at)? {
                break (page, to, base);
            }
            up -= 1;
        };
        self.path.truncate(up - 1);
        let (mut page, mut base) = (page, base);
        loop {
            let mut before = 0;
            let mut other = 0;
            while other < at {
                let entry = Entry::at(page, other)?;
                (before, other) = (before + entry.count, entry.end);
            }
            self.enter(nodes, page, at, base, before)?;
            if self.path.len() == levels {
                return Ok(true);
            }
            (page, base) = (self.leaf, self.before);
            at = edge(page)?;
        }
    }
}
