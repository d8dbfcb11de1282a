//! Writes a changed tree: joins short nodes, divides long ones, and collects the new parts and the new head.

use super::edit::{CHANGED, CountedEdit};
use super::node::{self, Entry, EntryStart, entries};
use super::seek::Nodes;
use super::{
    BYTES_MIN, COUNTED, Codec, JOINED_BYTES_MAX, LEAF_BYTES_FULL, LEAF_BYTES_MAX, LEVELS_MAX, PAGE_BYTES_MAX,
    PAGE_ENTRIES_LONG, PAGE_ENTRIES_MIN, ROOT_BYTES_MAX,
};
use crate::Damaged;
use crate::tree::Parts;

/// A tree whose leaves have at most this many bytes in all becomes a plain value again.
const PLAIN_AGAIN_BYTES: usize = 1024;
/// A tree with more leaves than this is not examined for that.
const PLAIN_AGAIN_LEAVES: usize = 4;

/// The part of a leaf to which all its changes belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Elements were only added at the end, or replaced there.
    Back,
    /// Elements were only added at the beginning, or replaced there.
    Front,
    /// Anything else.
    Mixed,
}

impl Direction {
    pub(super) fn of(start: usize, end: usize, bytes: usize) -> Self {
        match (start, end) {
            (_, end) if end == bytes => Self::Back,
            (0, _) => Self::Front,
            _ => Self::Mixed,
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Mixed }
    }
}

/// The result of a change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// No element is left. Nothing was written.
    Empty,
    /// A plain value was written: the elements of the lowest section.
    Plain,
    /// The head of a tree was written.
    Tree,
}

/// A child of a page under construction.
enum Child {
    /// An unchanged child.
    There { part: u64, count: u64, key: Vec<u8> },
    /// A child that is written when the page is complete.
    New { count: u64, key: Vec<u8>, bytes: Vec<u8>, direction: Direction },
}

impl Child {
    fn section(&self) -> u8 {
        match self {
            Self::There { key, .. } | Self::New { key, .. } => key[0],
        }
    }
}

/// A tree that is being written.
struct Writing<'e, 'w> {
    edit: CountedEdit<'e>,
    codec: &'w dyn Codec,
    parts: &'w mut Parts,
}

/// Writes the changed nodes of a tree into `parts`, and the value into `to`: the head of a tree, or a plain value.
pub(in crate::collections) fn finish(
    edit: CountedEdit<'_>,
    codec: &dyn Codec,
    parts: &mut Parts,
    to: &mut Vec<u8>,
) -> Result<Finished, Damaged> {
    Writing { edit, codec, parts }.finish(to)
}

impl Writing<'_, '_> {
    fn finish(mut self, to: &mut Vec<u8>) -> Result<Finished, Damaged> {
        if self.edit.count == 0 {
            return Ok(Finished::Empty);
        }
        if self.edit.is_plain() {
            put_plain_count(self.edit.count, to);
            self.edit.root.append_to(to);
            return Ok(Finished::Plain);
        }
        let root = self.edit.root.take();
        if self.edit.levels > 0 && self.keeps_nodes(&root, self.edit.levels)? {
            let bytes = self.edit.changed.iter().map(|node| node.bytes.len()).sum();
            self.parts.bytes.reserve(bytes);
            let root = self.rewritten(root, self.edit.levels)?;
            self.put_head(root, to)?;
            return Ok(Finished::Tree);
        }
        let children = if self.edit.levels == 0 {
            (self.edit.object, self.edit.levels) = (self.edit.source.fresh(), 1);
            let new =
                |(section, count, bytes)| Child::New { count, key: vec![section], bytes, direction: Direction::Back };
            self.codec.sections(self.edit.count, root)?.into_iter().map(new).collect()
        } else {
            self.children(root, self.edit.levels)?
        };
        if self.edit.levels == 1
            && let Some((count, all)) = self.plain(&children)?
        {
            self.parts.clear();
            put_plain_count(count, to);
            to.extend_from_slice(&all);
            return Ok(Finished::Plain);
        }
        let root = self.page(children, self.edit.levels)?;
        self.put_head(root, to)?;
        Ok(Finished::Tree)
    }

    /// Returns true if no node below a page has to be joined, divided or removed, so that only numbers of parts change
    /// in the pages. `height` is the number of levels of entries from the page down to the leaves.
    fn keeps_nodes(&self, page: &[u8], height: usize) -> Result<bool, Damaged> {
        // The offset of the previous entry, and that of the current one.
        let (mut before, mut at) = (None, 0);
        let (mut leaf_bytes, mut leaves) = (0, 0);
        while at < page.len() {
            let EntryStart { part, end, .. } = EntryStart::at(page, at)?;
            if part & CHANGED != 0 {
                let entry = Entry::at(page, at)?;
                let before = before.map(|before| Entry::at(page, before)).transpose()?;
                let bytes = self.edit.node(entry.part)?;
                let is_apart = bytes.len() >= BYTES_MIN || !self.may_join(before, &entry, height, bytes.len())?;
                let is_kept = if height > 1 {
                    bytes.len() <= PAGE_BYTES_MAX
                        && !bytes.is_empty()
                        && Entry::at(bytes, 0)?.key == entry.key
                        && self.keeps_nodes(bytes, height - 1)?
                } else {
                    !bytes.is_empty() && bytes.len() <= LEAF_BYTES_MAX
                };
                if !is_apart || !is_kept {
                    return Ok(false);
                }
            }
            (before, at, leaves) = (Some(at), end, leaves + 1);
        }
        if self.edit.levels > 1 || leaves > PLAIN_AGAIN_LEAVES || !self.codec.may_be_plain() {
            return Ok(leaves > 0);
        }
        for entry in entries(page) {
            leaf_bytes += self.edit.node(entry?.1.part)?.len();
        }
        Ok(leaf_bytes > PLAIN_AGAIN_BYTES)
    }

    /// Returns true if a short node of `bytes` bytes may have to be joined to the one before it.
    fn may_join(
        &self,
        before: Option<Entry<'_>>,
        entry: &Entry<'_>,
        height: usize,
        bytes: usize,
    ) -> Result<bool, Damaged> {
        let Some(before) = before.filter(|before| height > 1 || before.section() == entry.section()) else {
            return Ok(false);
        };
        Ok(self.edit.node(before.part)?.len() + bytes <= JOINED_BYTES_MAX)
    }

    /// Writes the changed nodes below a page, and returns the page with the numbers of their parts.
    fn rewritten(&mut self, mut page: Vec<u8>, height: usize) -> Result<Vec<u8>, Damaged> {
        let mut at = 0;
        while at < page.len() {
            let EntryStart { part, end, .. } = EntryStart::at(&page, at)?;
            if part & CHANGED != 0 {
                let node = self.edit.changed.get_mut((part & !CHANGED) as usize).ok_or(Damaged)?;
                let mut bytes = std::mem::take(&mut node.bytes);
                if height > 1 {
                    bytes = self.rewritten(bytes, height - 1)?;
                }
                let part = self.parts.add(self.edit.source, |to| to.extend_from_slice(&bytes));
                node::set_part(&mut page, at, part);
            }
            at = end;
        }
        Ok(page)
    }

    /// Returns the elements of the lowest section and their number, if the tree is small enough for a plain value.
    fn plain(&self, children: &[Child]) -> Result<Option<(u64, Vec<u8>)>, Damaged> {
        if children.len() > PLAIN_AGAIN_LEAVES || !self.codec.may_be_plain() {
            return Ok(None);
        }
        let lowest = children.first().map_or(0, Child::section);
        let (mut all, mut elements, mut total) = (Vec::new(), 0, 0);
        for child in children {
            let (leaf, count) = match child {
                Child::There { part, count, .. } => {
                    (self.edit.source.part(self.edit.object, *part).ok_or(Damaged)?, count)
                }
                Child::New { bytes, count, .. } => (&bytes[..], count),
            };
            total += leaf.len();
            if child.section() == lowest {
                all.extend_from_slice(leaf);
                elements += count;
            }
        }
        Ok((total <= PLAIN_AGAIN_BYTES).then_some((elements, all)))
    }

    /// Returns the children of a page whose entries lie at `height` levels above the leaves. All changed nodes below
    /// them are complete.
    fn children(&mut self, page: Vec<u8>, height: usize) -> Result<Vec<Child>, Damaged> {
        let mut children: Vec<Child> = Vec::new();
        // The key of an empty first child, which the next child takes over.
        let mut low: Option<Vec<u8>> = None;
        for entry in entries(&page) {
            let (_, Entry { part, count, key, .. }) = entry?;
            let mut key = match low.take() {
                Some(low) if low[0] == key[0] => low,
                _ => key.to_vec(),
            };
            if part & CHANGED == 0 {
                children.push(Child::There { part, count, key });
                continue;
            }
            let node = self.edit.changed.get_mut((part & !CHANGED) as usize).ok_or(Damaged)?;
            let (mut bytes, direction) = (std::mem::take(&mut node.bytes), node.direction.unwrap_or(Direction::Mixed));
            if height > 1 {
                // Most changed pages keep their nodes, although a node elsewhere in the tree does not.
                bytes = match self.keeps_nodes(&bytes, height - 1)? {
                    true => self.rewritten(bytes, height - 1)?,
                    false => {
                        let below = self.children(bytes, height - 1)?;
                        self.page(below, height - 1)?
                    }
                };
                // The first leaf below may be of another section now.
                key = Entry::at(&bytes, 0).map_or(key, |first| first.key.to_vec());
            }
            if bytes.is_empty() {
                if children.is_empty() {
                    low = Some(key);
                }
                continue;
            }
            self.add(&mut children, Child::New { count, key, bytes, direction }, height)?;
        }
        Ok(children)
    }

    /// Appends a changed child. Joins it to the previous one if it is short.
    fn add(&mut self, children: &mut Vec<Child>, child: Child, height: usize) -> Result<(), Damaged> {
        let Child::New { count, bytes, direction, .. } = &child else { return Err(Damaged) };
        let same = children.last().filter(|last| height > 1 || last.section() == child.section());
        if bytes.len() >= BYTES_MIN || same.is_none() {
            children.push(child);
            return Ok(());
        }
        let before = match same {
            Some(Child::There { part, .. }) => self.edit.source.part(self.edit.object, *part).ok_or(Damaged)?,
            Some(Child::New { bytes, .. }) => bytes,
            None => &[],
        };
        if before.len() + bytes.len() > JOINED_BYTES_MAX {
            children.push(child);
            return Ok(());
        }
        let (joined, more, direction) = ([before, bytes].concat(), *count, *direction);
        let (count, key) = match children.pop() {
            Some(Child::There { part, count, key }) => {
                self.edit.gone.push(part);
                (count, key)
            }
            Some(Child::New { count, key, .. }) => (count, key),
            None => return Err(Damaged),
        };
        children.push(Child::New { count: count + more, key, bytes: joined, direction });
        Ok(())
    }

    /// Appends the head to `to`. Divides a long root, drops levels with a single entry, and moves a root with long keys
    /// into a page.
    fn put_head(mut self, mut root: Vec<u8>, to: &mut Vec<u8>) -> Result<(), Damaged> {
        while pages_of(&root) > 1 && self.edit.levels < LEVELS_MAX {
            let (key, bytes) = (Entry::at(&root, 0)?.key.to_vec(), root);
            let child = Child::New { count: self.edit.count, key, bytes, direction: Direction::Mixed };
            self.edit.levels += 1;
            root = self.page(vec![child], self.edit.levels)?;
        }
        while self.edit.levels > 1 {
            let only = Entry::at(&root, 0)?;
            if only.end < root.len() {
                break;
            }
            let part = only.part;
            root = match self.parts.take_back(part) {
                Some(bytes) => bytes,
                None => {
                    self.edit.gone.push(part);
                    self.edit.source.part(self.edit.object, part).ok_or(Damaged)?.to_vec()
                }
            };
            self.edit.levels -= 1;
        }
        if root.len() > ROOT_BYTES_MAX && self.edit.levels < LEVELS_MAX {
            let mut above = Vec::new();
            self.write(node::total(&root)?, &[Entry::at(&root, 0)?.section()], &root, &mut above);
            root = above;
            self.edit.levels += 1;
        }
        self.parts.gone.append(&mut self.edit.gone);
        self.parts.gone_trees.append(&mut self.edit.gone_trees);
        to.extend_from_slice(&self.edit.object.to_le_bytes());
        to.push(COUNTED | self.edit.salt.bit() | self.edit.levels as u8);
        to.extend_from_slice(&(root.len() as u32).to_le_bytes());
        to.extend_from_slice(&root);
        self.edit.salt.push(to);
        Ok(())
    }
}

impl Writing<'_, '_> {
    /// Writes the new ones among the children, which lie `height` levels above the leaves less one, and returns the
    /// page with the entries of all.
    fn page(&mut self, children: Vec<Child>, height: usize) -> Result<Vec<u8>, Damaged> {
        let mut page = Vec::new();
        for child in children {
            match child {
                Child::There { part, count, key } => node::push(part, count, &key, &mut page),
                Child::New { key, bytes, direction, .. } if height == 1 => {
                    self.leaves(key, bytes, direction, &mut page)?;
                }
                Child::New { key, bytes, .. } => self.pages(key, &bytes, &mut page)?,
            }
        }
        Ok(page)
    }

    fn write(&mut self, count: u64, key: &[u8], bytes: &[u8], page: &mut Vec<u8>) {
        let part = self.parts.add(self.edit.source, |to| to.extend_from_slice(bytes));
        node::push(part, count, key, page);
    }

    /// Writes a leaf, or several if it is too long, and appends their entries to `page`.
    fn leaves(
        &mut self,
        key: Vec<u8>,
        bytes: Vec<u8>,
        direction: Direction,
        page: &mut Vec<u8>,
    ) -> Result<(), Damaged> {
        let section = key[0];
        let bytes = if bytes.len() > LEAF_BYTES_MAX { self.codec.arrange(section, bytes)? } else { bytes };
        let (first, target) = leaf_bytes(bytes.len(), direction);
        let (mut key, mut from, mut at, mut before, mut count) = (key, 0, 0, 0, 0);
        let mut goal = first;
        while at < bytes.len() {
            let len = self.codec.len(section, &bytes[at..])?;
            let end = at.checked_add(len).filter(|end| *end <= bytes.len() && len > 0).ok_or(Damaged)?;
            if at > from && end - from > goal {
                let mut next = vec![section];
                if self.codec.separator(section, &bytes[before..at], &bytes[at..end], &mut next)? {
                    // Elements below the key of their leaf's entry are in the first leaf of a section.
                    if next <= key {
                        key = vec![section];
                    }
                    self.write(count, &key, &bytes[from..at], page);
                    (key, from, count, goal) = (next, at, 0, target);
                }
            }
            (before, at, count) = (at, end, count + 1);
        }
        self.write(count, &key, &bytes[from..], page);
        Ok(())
    }

    /// Writes a page, or several if it is too long, and appends their entries to `to`. Each of several has at least
    /// [`PAGE_ENTRIES_MIN`] entries, and nearly the same length if its keys permit.
    fn pages(&mut self, key: Vec<u8>, bytes: &[u8], to: &mut Vec<u8>) -> Result<(), Damaged> {
        // The pages and the entries that are not written yet.
        let mut pages = pages_of(bytes);
        let mut left = if pages > 1 { entries(bytes).count() } else { 0 };
        let target = bytes.len().div_ceil(pages);
        let (mut key, mut from, mut count, mut number) = (key, 0, 0, 0);
        for entry in entries(bytes) {
            let (at, entry) = entry?;
            if pages > 1 && number >= PAGE_ENTRIES_MIN {
                let needed = PAGE_ENTRIES_MIN * (pages - 1);
                if left == needed || left > needed && entry.end - from > target {
                    self.write(count, &key, &bytes[from..at], to);
                    (key, from, count, number, pages) = (entry.key.to_vec(), at, 0, 0, pages - 1);
                }
            }
            (count, number, left) = (count + entry.count, number + 1, left.saturating_sub(1));
        }
        self.write(count, &key, &bytes[from..], to);
        Ok(())
    }
}

/// Returns the number of pages into which a page is divided: 1 if it is short enough, or has few entries.
fn pages_of(page: &[u8]) -> usize {
    let pages = page.len().div_ceil(PAGE_BYTES_MAX);
    if pages <= 1 {
        return 1;
    }
    let number = entries(page).count();
    if number <= PAGE_ENTRIES_LONG { 1 } else { pages.min(number / PAGE_ENTRIES_MIN) }
}

/// Appends the number of elements with which a plain value begins.
fn put_plain_count(count: u64, to: &mut Vec<u8>) {
    crate::read::push_number(count as u32, to);
}

/// Returns the goals for the lengths in bytes of the first leaf and of the others into which a leaf of `bytes` bytes is
/// divided.
fn leaf_bytes(bytes: usize, direction: Direction) -> (usize, usize) {
    match direction {
        _ if bytes <= LEAF_BYTES_MAX => (bytes, bytes),
        Direction::Back => (LEAF_BYTES_FULL, LEAF_BYTES_FULL),
        Direction::Front => (bytes % LEAF_BYTES_FULL, LEAF_BYTES_FULL),
        Direction::Mixed => {
            let leaf = bytes.div_ceil(bytes.div_ceil(LEAF_BYTES_MAX));
            (leaf, leaf)
        }
    }
}
