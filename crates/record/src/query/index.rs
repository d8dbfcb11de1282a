//! A secondary index: ordered numbers, each with the hash of a record's key.
//!
//! ```text
//!   directory   page, page, page ...        numbers of pages, in the order of the pages' entries
//!   page        entry entry ... up to 128   order 8 | more 8 | key 8
//! ```
//!
//! The order of an integer is its value, with the sign bit inverted. The order of a text is its first eight bytes, and
//! `more` is the hash of the text. An entry is only a hint that a matching record may exist: the caller checks the
//! record itself.
//!
//! An index reserves all its memory when it is created, and touches it as it fills. It uses page numbers instead of
//! pointers.

use crate::Value;

/// Number of entries in a page.
const PAGE: usize = 128;
/// A page with fewer entries is merged with a neighbour if the merged page is at most three quarters full.
const PAGE_MIN: usize = PAGE / 4;
/// Bytes that one page takes: its entries, its count, its slot in the directory and its slot in the free list.
const PAGE_BYTES: usize = PAGE * size_of::<IndexPosting>() + 2 + 4 + 4;

/// The index entry of one record's bin value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexPosting {
    /// The sort key of the value.
    pub order: u64,
    /// A number that distinguishes texts with equal sort keys: the text's hash. 0 for an integer.
    pub more: u64,
    /// The hash of the record's key.
    pub key: u64,
}

/// The type of the values in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexType {
    /// Whole numbers.
    Integer,
    /// Texts.
    Text,
}

impl IndexType {
    /// Returns the sort key of a value, and the number that distinguishes values with equal sort keys. Returns `None`
    /// if the value is of another type.
    pub fn place(self, value: &Value<'_>) -> Option<(u64, u64)> {
        match (self, value) {
            (Self::Integer, Value::Integer(number)) => Some(((*number as u64) ^ (1 << 63), 0)),
            (Self::Text, Value::Text(text)) => {
                let mut first = [0; 8];
                let len = text.len().min(8);
                first[..len].copy_from_slice(&text[..len]);
                Some((u64::from_be_bytes(first), crate::coding::hash::unkeyed(text)))
            }
            _ => None,
        }
    }

    /// Returns the lowest and the highest possible entry of the values from `low` to `high`.
    pub fn range(self, low: &Value<'_>, high: &Value<'_>) -> Option<(IndexPosting, IndexPosting)> {
        let (low_place, high_place) = (self.place(low)?, self.place(high)?);
        let is_one = low == high;
        let (from, to) = if is_one { (low_place.1, high_place.1) } else { (0, u64::MAX) };
        Some((
            IndexPosting { order: low_place.0, more: from, key: 0 },
            IndexPosting { order: high_place.0, more: to, key: u64::MAX },
        ))
    }
}

/// The error that the index has no room for another entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexFull;

/// A secondary index: an ordered collection of entries.
#[derive(Debug, Default)]
pub struct Index {
    entries: Vec<IndexPosting>,
    counts: Vec<u16>,
    directory: Vec<u32>,
    free: Vec<u32>,
    pages_max: usize,
    len: usize,
}

impl Index {
    /// Creates an empty index of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Self {
        let pages_max = bytes_max / PAGE_BYTES;
        Self {
            entries: Vec::with_capacity(pages_max * PAGE),
            counts: Vec::with_capacity(pages_max),
            directory: Vec::with_capacity(pages_max),
            free: Vec::with_capacity(pages_max),
            pages_max,
            len: 0,
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the index has no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn page(&self, place: usize) -> &[IndexPosting] {
        let number = self.directory[place] as usize;
        &self.entries[number * PAGE..][..usize::from(self.counts[number])]
    }

    /// Returns the directory position of the page that holds an entry, or would hold it.
    fn place_of(&self, entry: &IndexPosting) -> usize {
        let behind = self.directory.partition_point(|number| self.entries[*number as usize * PAGE] <= *entry);
        behind.saturating_sub(1)
    }

    fn take_page(&mut self) -> Result<u32, IndexFull> {
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        if self.counts.len() >= self.pages_max {
            return Err(IndexFull);
        }
        self.counts.push(0);
        self.entries.resize(self.counts.len() * PAGE, IndexPosting::default());
        Ok(self.counts.len() as u32 - 1)
    }

    /// Inserts the entry. Returns true if the entry is new.
    ///
    /// # Errors
    /// [`IndexFull`]. The index is unchanged.
    pub fn insert(&mut self, entry: IndexPosting) -> Result<bool, IndexFull> {
        if self.directory.is_empty() {
            let number = self.take_page()?;
            self.directory.push(number);
        }
        let mut place = self.place_of(&entry);
        let mut at = match self.page(place).binary_search(&entry) {
            Ok(_) => return Ok(false),
            Err(at) => at,
        };
        if self.page(place).len() == PAGE {
            // If entries are inserted in ascending order, the full page stays full instead of being split in half.
            let half = if at == PAGE { PAGE } else { PAGE / 2 };
            let number = self.take_page()?;
            let old = self.directory[place] as usize;
            self.entries.copy_within(old * PAGE + half..(old + 1) * PAGE, number as usize * PAGE);
            self.counts[old] = half as u16;
            self.counts[number as usize] = (PAGE - half) as u16;
            self.directory.insert(place + 1, number);
            if at > half || half == PAGE {
                (place, at) = (place + 1, at - half);
            }
        }
        let number = self.directory[place] as usize;
        let count = usize::from(self.counts[number]);
        let page = &mut self.entries[number * PAGE..][..=count];
        page.copy_within(at..count, at + 1);
        page[at] = entry;
        self.counts[number] += 1;
        self.len += 1;
        Ok(true)
    }

    /// Removes the entry. Returns true if the entry existed.
    pub fn remove(&mut self, entry: &IndexPosting) -> bool {
        if self.directory.is_empty() {
            return false;
        }
        let place = self.place_of(entry);
        let Ok(at) = self.page(place).binary_search(entry) else { return false };
        let number = self.directory[place] as usize;
        let count = usize::from(self.counts[number]);
        self.entries[number * PAGE..][..count].copy_within(at + 1.., at);
        self.counts[number] -= 1;
        self.len -= 1;
        self.join(place);
        true
    }

    /// Frees a page if it is empty, or merges it with a neighbour if the merged page is at most three quarters full.
    fn join(&mut self, place: usize) {
        let count = self.page(place).len();
        if count == 0 {
            let number = self.directory.remove(place);
            self.free.push(number);
            return;
        }
        let fits = |other: usize| self.page(other).len() + count <= PAGE * 3 / 4;
        let first = match (count < PAGE_MIN, place > 0, place + 1 < self.directory.len()) {
            (true, true, _) if fits(place - 1) => place - 1,
            (true, _, true) if fits(place + 1) => place,
            _ => return,
        };
        let behind = self.directory.remove(first + 1) as usize;
        let (into, moved) = (self.directory[first] as usize, usize::from(self.counts[behind]));
        let to = into * PAGE + usize::from(self.counts[into]);
        self.entries.copy_within(behind * PAGE..behind * PAGE + moved, to);
        self.counts[into] += moved as u16;
        self.counts[behind] = 0;
        self.free.push(behind as u32);
    }

    /// Returns the entries from `from` to `to`, both inclusive, in order.
    pub fn range(&self, from: IndexPosting, to: IndexPosting) -> impl Iterator<Item = IndexPosting> + '_ {
        let place = if self.directory.is_empty() { 0 } else { self.place_of(&from) };
        (place..self.directory.len())
            .flat_map(move |place| self.page(place).iter().copied())
            .skip_while(move |entry| *entry < from)
            .take_while(move |entry| *entry <= to)
    }

    /// Returns the first entry after `entry`, or the lowest entry of the index if no entry follows.
    pub fn next(&self, entry: IndexPosting) -> Option<IndexPosting> {
        let last = IndexPosting { order: u64::MAX, more: u64::MAX, key: u64::MAX };
        let behind = self.range(entry, last).find(|there| *there > entry);
        behind.or_else(|| self.directory.first().and_then(|_| self.page(0).first().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn index_matches_model_set_within_its_memory_limit() {
        let (mut full, mut emptied) = (0, 0);
        for seed in 0..20 {
            let (mut prng, mut index, mut model) = (Prng::new(seed), Index::new(40 * PAGE_BYTES), BTreeSet::new());
            for step in 0..30_000u64 {
                // The index fills and empties alternately; some seeds insert in order.
                let fills = step / 5000 % 2 == 0;
                let order = if seed % 4 == 0 { step } else { prng.below(300) };
                let entry = IndexPosting { order, more: 0, key: prng.below(30) };
                if prng.below(4) > 0 && fills || prng.below(4) == 0 {
                    match index.insert(entry) {
                        Ok(is_new) => assert_eq!(is_new, model.insert(entry)),
                        Err(IndexFull) => {
                            assert!(!model.contains(&entry) && model.len() > 40 * PAGE / 3, "{} are full", model.len());
                            full += 1;
                        }
                    }
                } else {
                    let entry = *model.range(entry..).next().unwrap_or(&entry);
                    assert_eq!(index.remove(&entry), model.remove(&entry));
                    emptied += usize::from(model.is_empty());
                }
                assert_eq!(index.len(), model.len());
                if step % 500 == 0 {
                    let from = IndexPosting { order: prng.below(300), more: 0, key: prng.below(30) };
                    let to = IndexPosting { order: from.order + prng.below(100), more: 0, key: 9 };
                    let told: Vec<_> = index.range(from, to).collect();
                    let wanted: Vec<_> = model.iter().filter(|entry| (from..=to).contains(entry)).copied().collect();
                    assert_eq!(told, wanted);
                    let next = model.range((std::ops::Bound::Excluded(from), std::ops::Bound::Unbounded)).next();
                    assert_eq!(index.next(from), next.or(model.first()).copied());
                }
            }
            assert!(index.counts.len() <= 40);
        }
        assert!(full > 0, "{full} full, {emptied} emptied");
    }

    #[test]
    fn numbers_and_texts_sort_in_index_order() {
        let place = |number| IndexType::Integer.place(&Value::Integer(number)).unwrap();
        let numbers = [i64::MIN, -5, -1, 0, 1, 7, i64::MAX].map(place);
        assert!(numbers.is_sorted());
        let texts =
            ["", "a", "aa", "b", "bbbbbbbb", "c"].map(|text| IndexType::Text.place(&Value::Text(text.as_bytes())));
        assert!(texts.map(|place| place.unwrap().0).is_sorted());
        assert_eq!(IndexType::Text.place(&Value::Integer(5)), None);
        assert_eq!(IndexType::Integer.place(&Value::Text(b"x")), None);
    }
}
