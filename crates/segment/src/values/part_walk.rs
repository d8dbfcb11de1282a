//! Walks over the parts of a value in which a page comes after the parts that it names, and which can pause.

use std::borrow::Cow;

use crate::layout::parts_head::{Entry, EntryForm, PartsHead};

/// A page on the way from the root to the present part, and the offset of an entry in it.
#[derive(Clone, Copy, Debug)]
struct PagePosition {
    page: u64,
    at: usize,
}

/// A walk over parts and the parts below them. Pages are read when they are reached; a lost page has no parts.
#[derive(Clone, Debug)]
pub(crate) struct PartWalk {
    form: EntryForm,
    /// The number of levels of entries above the leaves, the root's included.
    levels: usize,
    /// The parts that the root names, and the index of the present one.
    root: Vec<u64>,
    next: usize,
    below: Vec<PagePosition>,
}

impl PartWalk {
    /// Returns a walk over all parts of a value.
    pub(crate) fn of_head(head: &PartsHead<'_>) -> Self {
        Self::of(head.form, head.levels, head.form.parts(head.root).collect())
    }

    /// Returns a walk over the parts in `root`, each with the parts below it: `levels` includes the level of `root`.
    pub(crate) fn of(form: EntryForm, levels: u8, root: Vec<u64>) -> Self {
        Self { form, levels: usize::from(levels.max(1)), root, next: 0, below: Vec::new() }
    }

    /// Returns the memory that the walk takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.root.len() * size_of::<u64>() + self.levels * size_of::<PagePosition>()
    }

    /// Returns the present part, or `None` after the last one. `read` returns the bytes of a page.
    pub(crate) fn part<'p>(&mut self, read: impl Fn(u64) -> Option<Cow<'p, [u8]>>) -> Option<u64> {
        loop {
            let is_leaf = self.below.len() + 1 == self.levels;
            let part = match self.below.last() {
                None => *self.root.get(self.next)?,
                Some(top) => match self.entry(top, &read) {
                    Some(entry) => entry.part,
                    None => return Some(top.page),
                },
            };
            if is_leaf {
                return Some(part);
            }
            self.below.push(PagePosition { page: part, at: 0 });
        }
    }

    /// Goes on to the next part. [`PartWalk::part`] has returned the present one.
    pub(crate) fn advance<'p>(&mut self, read: impl Fn(u64) -> Option<Cow<'p, [u8]>>) {
        if let Some(top) = self.below.last()
            && self.entry(top, &read).is_none()
        {
            self.below.pop();
        }
        let end = self.below.last().and_then(|top| self.entry(top, &read)).map(|entry| entry.end);
        match (self.below.last_mut(), end) {
            (None, _) => self.next += 1,
            (Some(top), Some(end)) => top.at = end,
            // The page was lost meanwhile. It comes next.
            (Some(_), None) => {}
        }
    }

    fn entry<'p>(&self, at: &PagePosition, read: &impl Fn(u64) -> Option<Cow<'p, [u8]>>) -> Option<Entry> {
        read(at.page).and_then(|page| self.form.entry(&page, at.at))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn page(parts: &[u64]) -> Vec<u8> {
        parts.iter().flat_map(|part| [&part.to_le_bytes()[..], &[0; 6], &2u16.to_le_bytes(), b"ab"].concat()).collect()
    }

    #[test]
    fn a_step_reads_as_many_pages_at_the_end_of_a_long_value_as_at_its_start() {
        let pages: HashMap<u64, Vec<u8>> = (0..100)
            .map(|number| (10_000 + number, page(&(number * 100..(number + 1) * 100).collect::<Vec<_>>())))
            .collect();
        let mut walk = PartWalk::of(EntryForm::Keyed, 2, (10_000..10_100).collect());
        let reads = std::cell::Cell::new(0);
        let read = |part: u64| {
            reads.set(reads.get() + 1);
            pages.get(&part).map(Cow::from)
        };
        let mut parts = 0;
        while walk.part(read).is_some() {
            walk.advance(read);
            assert!(reads.replace(0) <= 4, "after {parts} parts");
            parts += 1;
        }
        assert_eq!(parts, 100 * 100 + 100);
    }

    #[test]
    fn a_page_comes_after_its_parts_at_every_number_of_levels() {
        let pages: HashMap<u64, Vec<u8>> =
            [(10, vec![1, 2]), (11, vec![3]), (12, vec![]), (20, vec![10, 11]), (21, vec![12])]
                .into_iter()
                .map(|(number, parts)| (number, page(&parts)))
                .collect();
        let walk = |levels, root: &[u64]| {
            let mut walk = PartWalk::of(EntryForm::Keyed, levels, root.to_vec());
            let read = |part: u64| pages.get(&part).map(Cow::from);
            let mut found = Vec::new();
            while let Some(part) = walk.part(read) {
                assert_eq!(walk.part(read), Some(part), "a second look changes nothing");
                found.push(part);
                walk.advance(read);
            }
            found
        };
        assert_eq!(walk(1, &[1, 2, 3]), [1, 2, 3]);
        assert_eq!(walk(2, &[10, 11, 12]), [1, 2, 10, 3, 11, 12]);
        assert_eq!(walk(3, &[20, 21]), [1, 2, 10, 3, 11, 20, 12, 21]);
        assert_eq!(walk(3, &[99, 21]), [99, 12, 21], "a lost page has no parts");
        assert_eq!(walk(2, &[]), []);
    }
}
