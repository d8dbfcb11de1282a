//! Changes of a tree before they are written.

use super::finish::Direction;
use super::node::{Entry, add_count, push, set_part};
use super::root::Root;
use super::seek::{CountedTree, Nodes};
use super::{Codec, Salt};
use crate::tree::LARGE_BYTES;
use crate::{Damaged, Source};

/// The number of bytes by which most changed nodes grow at most. A copy has room for them.
const GROWTH: usize = 64;

/// The bit in an entry's part that marks a changed node; the other bits are its index in [`CountedEdit::changed`].
pub(super) const CHANGED: u64 = 1 << 63;

/// A tree under change. Its changed pages and leaves are copies in memory.
#[derive(Debug)]
pub(crate) struct CountedEdit<'e> {
    pub(super) object: u64,
    pub(super) levels: usize,
    pub(super) salt: Salt,
    pub(super) root: Root<'e>,
    pub(super) count: u64,
    pub(super) changed: Vec<ChangedNode>,
    /// The parts that the changed nodes replace.
    pub(super) gone: Vec<u64>,
    /// The removed parts with all parts below them, each with the number of levels below it.
    pub(super) gone_trees: Vec<(u64, u8)>,
    pub(super) source: &'e dyn Source,
}

/// A changed page or leaf.
#[derive(Debug)]
pub(super) struct ChangedNode {
    pub(super) bytes: Vec<u8>,
    /// The part of the leaf that was changed, which decides how the leaf is divided.
    pub(super) direction: Option<Direction>,
}

impl<'e> CountedEdit<'e> {
    /// Begins a change of a stored collection, or a new collection.
    pub(crate) fn of(old: Option<&CountedTree<'e>>, source: &'e dyn Source) -> Self {
        let none = CountedTree { object: 0, levels: 0, salt: Salt::NONE, root: &[], count: 0, source };
        let CountedTree { object, levels, salt, root, count, source } = *old.unwrap_or(&none);
        let (changed, gone, gone_trees) = (Vec::new(), Vec::new(), Vec::new());
        Self { object, levels, salt, root: Root::of(root), count, changed, gone, gone_trees, source }
    }

    /// Replaces a range of the bytes of a leaf by `with`, and adds `elements` to the number of its elements. `path`
    /// leads to the leaf ([`super::FoundLeaf::path`]) and remains valid.
    pub(crate) fn splice(
        &mut self,
        path: &[u32],
        range: std::ops::Range<usize>,
        with: impl AsRef<[u8]> + Into<Vec<u8>>,
        elements: i64,
    ) -> Result<(), Damaged> {
        let node = self.enter(path, elements)?.map(|node| &mut self.changed[node]);
        let bytes = node.as_ref().map_or_else(|| self.root.len(), |node| node.bytes.len());
        if range.end > bytes || range.start > range.end {
            return Err(Damaged);
        }
        let at = Direction::of(range.start, range.end, bytes);
        match node {
            None => self.root.replace(range, with),
            Some(node) => {
                replace(&mut node.bytes, range, with.as_ref());
                node.direction = Some(node.direction.map_or(at, |before| before.and(at)));
            }
        }
        Ok(())
    }

    /// Returns true if the tree has no levels and remains a plain value, or becomes empty.
    pub(crate) fn is_plain(&self) -> bool {
        self.levels == 0 && self.root.len() <= LARGE_BYTES
    }

    /// Returns the key of the hashes of the tree's elements. A plain value that is about to become a tree gets a salt:
    /// the caller adds no further elements.
    pub(crate) fn salt_to_finish(&mut self) -> Salt {
        if self.levels == 0 && !self.is_plain() {
            self.salt = Salt::new(self.source.salt());
        }
        self.salt
    }

    /// Returns the bytes of a leaf, of which the caller may overwrite some. `path` leads to the leaf, as for
    /// [`CountedEdit::splice`].
    pub(crate) fn leaf_mut(&mut self, path: &[u32]) -> Result<&mut [u8], Damaged> {
        let page = self.enter(path, 0)?;
        if let Some(node) = page.map(|node| &mut self.changed[node]) {
            node.direction = Some(Direction::Mixed);
        }
        Ok(self.page_mut(page))
    }

    /// Makes the nodes on the path to a leaf changed ones, and adds `elements` to their numbers of elements. Returns
    /// the index of the leaf's node, or `None` if the root is the leaf.
    fn enter(&mut self, path: &[u32], elements: i64) -> Result<Option<usize>, Damaged> {
        let mut page = None;
        for at in path {
            let at = *at as usize;
            let part = Entry::at(self.page(page), at)?.part;
            let child = self.changed_node(part)?;
            let bytes = self.page_mut(page);
            set_part(bytes, at, CHANGED | child as u64);
            add_count(bytes, at, elements)?;
            page = Some(child);
        }
        self.count = self.count.checked_add_signed(elements).ok_or(Damaged)?;
        Ok(page)
    }

    /// Adds an element of a section that has no leaf. A plain value becomes a tree.
    pub(crate) fn insert_leaf(&mut self, key: &[u8], element: &[u8]) -> Result<(), Damaged> {
        if self.levels == 0 {
            (self.object, self.levels) = (self.source.fresh(), 1);
            let bytes = self.root.take();
            if !bytes.is_empty() {
                let leaf = self.new_node(bytes);
                push(leaf, self.count, &[0], self.root.to_mut());
            }
        }
        let leaf = self.new_node(element.to_vec());
        let mut entry = Vec::new();
        // Any key of the section is a lower bound, since it has no other leaf.
        push(leaf, 1, &key[..1], &mut entry);
        self.count += 1;
        if self.root.len() == 0 {
            self.levels = 1;
            self.root.set(entry);
            return Ok(());
        }
        let leaf = self.leaf_of_key(key)?;
        let is_behind = leaf.section < key[0];
        let path = leaf.path;
        let (last, above) = path.split_last().ok_or(Damaged)?;
        let (last, mut page) = (*last as usize, None);
        for at in above {
            let at = *at as usize;
            let child = self.changed_node(Entry::at(self.page(page), at)?.part)?;
            let bytes = self.page_mut(page);
            set_part(bytes, at, CHANGED | child as u64);
            add_count(bytes, at, 1)?;
            page = Some(child);
        }
        let at = if is_behind { Entry::at(self.page(page), last)?.end } else { last };
        replace(self.page_mut(page), at..at, &entry);
        Ok(())
    }

    /// Adds a changed node. Returns the number by which an entry names it.
    fn new_node(&mut self, bytes: Vec<u8>) -> u64 {
        self.changed.push(ChangedNode { bytes, direction: None });
        CHANGED | (self.changed.len() - 1) as u64
    }

    /// Removes all elements. What remains is a new plain value.
    pub(crate) fn clear(&mut self) {
        *self = Self::of(None, self.source);
    }

    /// Removes the elements from number `from` up to, not including, number `to`. Whole pages are removed without being
    /// read.
    pub(crate) fn remove_between(&mut self, from: u64, to: u64, codec: &dyn Codec) -> Result<(), Damaged> {
        let removed = to.min(self.count).saturating_sub(from);
        if removed > 0 {
            let root = self.root.take();
            let root = self.without(root, self.levels, 0, from..to, codec)?;
            self.root.set(root);
            self.count -= removed;
        }
        Ok(())
    }

    /// Returns a node without the elements in `gone`. There are `height` levels of entries from the node down to the
    /// leaves.
    fn without(
        &mut self,
        node: Vec<u8>,
        height: usize,
        section: u8,
        gone: std::ops::Range<u64>,
        codec: &dyn Codec,
    ) -> Result<Vec<u8>, Damaged> {
        if height == 0 {
            return leaf_without(node, section, gone, codec);
        }
        let (mut kept, mut before, mut at) = (Vec::with_capacity(node.len()), 0, 0);
        while at < node.len() {
            if before >= gone.end {
                kept.extend_from_slice(&node[at..]);
                break;
            }
            let entry = Entry::at(&node, at)?;
            let (first, behind) = (before, before + entry.count);
            let removed = behind.min(gone.end).saturating_sub(first.max(gone.start));
            if removed == 0 {
                kept.extend_from_slice(&node[at..entry.end]);
            } else if removed == entry.count && entry.part & CHANGED == 0 {
                self.gone_trees.push((entry.part, height as u8 - 1));
            } else {
                let child = self.changed_node(entry.part)?;
                let bytes = std::mem::take(&mut self.changed[child].bytes);
                let within = gone.start.saturating_sub(first)..gone.end.saturating_sub(first);
                self.changed[child].bytes = self.without(bytes, height - 1, entry.section(), within, codec)?;
                // A page must have an entry.
                if removed < entry.count {
                    push(CHANGED | child as u64, entry.count - removed, entry.key, &mut kept);
                }
            }
            (before, at) = (behind, entry.end);
        }
        Ok(kept)
    }

    fn page(&self, changed: Option<usize>) -> &[u8] {
        changed.map_or_else(|| self.root.bytes(), |node| &self.changed[node].bytes)
    }

    fn page_mut(&mut self, changed: Option<usize>) -> &mut Vec<u8> {
        match changed {
            Some(node) => &mut self.changed[node].bytes,
            None => self.root.to_mut(),
        }
    }

    /// Returns the index of a changed node. Copies the node if it is unchanged.
    fn changed_node(&mut self, part: u64) -> Result<usize, Damaged> {
        if part & CHANGED != 0 {
            return Some((part & !CHANGED) as usize).filter(|node| *node < self.changed.len()).ok_or(Damaged);
        }
        let bytes = copy(self.node(part)?);
        self.gone.push(part);
        self.changed.push(ChangedNode { bytes, direction: None });
        Ok(self.changed.len() - 1)
    }
}

impl Nodes for CountedEdit<'_> {
    fn root(&self) -> (&[u8], usize) {
        (self.root.bytes(), self.levels)
    }

    fn node(&self, part: u64) -> Result<&[u8], Damaged> {
        if part & CHANGED != 0 {
            return self.changed.get((part & !CHANGED) as usize).map(|node| &node.bytes[..]).ok_or(Damaged);
        }
        self.source.part(self.object, part).ok_or(Damaged)
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn salt(&self) -> Salt {
        self.salt
    }
}

/// Returns a copy of a node that is changed.
pub(super) fn copy(node: &[u8]) -> Vec<u8> {
    let mut copy = Vec::with_capacity(node.len() + GROWTH);
    copy.extend_from_slice(node);
    copy
}

/// Returns a leaf without the elements with the numbers `gone`.
fn leaf_without(
    mut leaf: Vec<u8>,
    section: u8,
    gone: std::ops::Range<u64>,
    codec: &dyn Codec,
) -> Result<Vec<u8>, Damaged> {
    let (mut before, mut at, mut start) = (0, 0, leaf.len());
    while at < leaf.len() && before < gone.end {
        if before == gone.start {
            start = at;
        }
        (before, at) = (before + 1, at + codec.len(section, &leaf[at..])?);
    }
    if start > at || at > leaf.len() {
        return if at > leaf.len() { Err(Damaged) } else { Ok(leaf) };
    }
    let (rest, end) = codec.without(section, &leaf, start..at)?;
    replace(&mut leaf, start..end, &rest);
    Ok(leaf)
}

/// Replaces a range of bytes by others.
pub(super) fn replace(bytes: &mut Vec<u8>, range: std::ops::Range<usize>, with: &[u8]) {
    let (end, len) = (range.start + with.len(), bytes.len());
    if end > range.end {
        bytes.resize(len + end - range.end, 0);
    }
    bytes.copy_within(range.end..len, end);
    bytes.truncate(len - range.end + end);
    bytes[range.start..end].copy_from_slice(with);
}
