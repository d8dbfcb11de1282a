//! Large records: a tree of leaves, ordered by the hashes of the names.
//!
//! ```text
//!   head   object 8 | levels 1 | entries 4 | entry ... | salt 8 | set, generation | revision | bins | first end
//!   page   entry ...                                     (with two levels)
//!   entry  from 4, part 8, first end 6                   names with hashes at or above `from`, below the next entry's
//!   leaf   bin bin ...                                   encoded as in a record
//! ```
//!
//! Leaves and pages are parts: numbered byte strings, which the store keeps as separate items ([`Source`]). A change
//! writes new parts and a new head. Only parts to which the head refers, directly or through a page, are valid. An
//! entry's `first end` is a lower bound for the ends (expiry times) of all bins below the entry. So a search for
//! expired bins reads only the parts whose entries are due.
//!
//! The entries of the root and of each page ascend by `from`. The first entry of a page begins where the page begins,
//! and the first page at 0. If the first entry of a page has another `from`, the tree may be disordered: it may have
//! entries that do not ascend, and bins that a lookup does not find. The page is read with the right bound, and the
//! next change in it puts all bins of the tree into new leaves ([`TreeEdit::rebuild`]).
//!
//! Limits: a leaf has at most [`LEAF_BYTES_MAX`] bytes, or the names of one hash; a page at most [`PAGE_ENTRIES_MAX`]
//! entries. Up to 65,000 leaves, a lookup therefore reads the head, a page and a leaf, and a change writes as many.
//! Above that, the head grows by 18 bytes for each 128 leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::coding::hash::{SALTED, Salt};
use crate::read::{BinRange, name_of};
use crate::sets::InSet;
use crate::{Damaged, Digits};

/// A record whose bins take more bytes than this is stored as a tree.
pub const LARGE_BYTES: usize = 4096;
/// Maximum length in bytes of a leaf with names of different hashes.
const LEAF_BYTES_MAX: usize = 1024;
/// Target length in bytes of the leaves when a leaf is split.
const LEAF_BYTES: usize = 640;
/// Number of bytes by which most changes grow a leaf at most.
const CHANGE_BYTES: usize = 64;
/// A changed leaf below this length, in bytes, is merged with the previous one.
const LEAF_BYTES_MIN: usize = 256;
/// Maximum number of entries in a page. The next constant is the number of entries of a page after a split.
const PAGE_ENTRIES_MAX: usize = 256;
const PAGE_ENTRIES: usize = 128;
/// A tree with at most this many bins becomes a plain record again, if they take at most a quarter of [`LARGE_BYTES`].
const FLAT_AGAIN_BINS: u64 = 32;
/// Length in bytes of an entry in a head or a page. The part's number follows the first four bytes.
pub const ENTRY_BYTES: usize = 18;
/// Length in bytes of a head before its entries, and the maximum length of what follows them unless it names a set.
const HEAD_BYTES: usize = 13;
const HEAD_REST_BYTES: usize = 24;
/// The first end of a tree in which no bin has an end.
pub(crate) const NO_END: u64 = u64::MAX;
/// The encoding of [`NO_END`] in an entry: the latest possible end.
const ENTRY_NO_END: u64 = crate::END_MS_MAX;

/// A source of the parts of large records.
pub trait Source: std::fmt::Debug {
    /// Returns the bytes of a part of a tree. Returns `None` if the part is lost; the record is then lost too.
    fn part(&self, object: u64, number: u64) -> Option<&[u8]>;
    /// Returns a new number, for a part or an object. The source never returns a number twice.
    fn fresh(&self) -> u64;
    /// Returns the salt for a value that becomes a tree. Clients must not be able to predict it. It should be the same
    /// whenever a value under the same key becomes a tree, so that cursors remain valid. 0 stands for none.
    fn salt(&self) -> u64;
}

/// A source without parts, for callers that read heads only.
#[derive(Clone, Copy, Debug)]
pub struct NoParts;

impl Source for NoParts {
    fn part(&self, _: u64, _: u64) -> Option<&[u8]> {
        None
    }

    fn fresh(&self) -> u64 {
        0
    }

    fn salt(&self) -> u64 {
        0
    }
}

/// The parts that a change adds, and the parts that become unused.
#[derive(Debug, Default)]
pub struct Parts {
    /// The bytes of all new parts, end to end.
    pub bytes: Vec<u8>,
    /// The number of each new part, and its range in `bytes`.
    pub new: Vec<(u64, Range<usize>)>,
    /// Numbers of the parts that become unused.
    pub gone: Vec<u64>,
    /// Parts that become unused with all parts below them: their numbers, and how many levels lie below each.
    pub gone_trees: Vec<(u64, u8)>,
}

impl Parts {
    /// Removes all parts.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.new.clear();
        self.gone.clear();
        self.gone_trees.clear();
    }

    /// Takes a new part out again, and returns its bytes; `None` if the part is not new.
    pub(crate) fn take_back(&mut self, part: u64) -> Option<Vec<u8>> {
        let at = self.new.iter().rposition(|(number, _)| *number == part)?;
        let (_, range) = self.new.remove(at);
        Some(self.bytes[range].to_vec())
    }

    pub(crate) fn add(&mut self, source: &dyn Source, fill: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let (number, from) = (source.fresh(), self.bytes.len());
        fill(&mut self.bytes);
        self.new.push((number, from..self.bytes.len()));
        number
    }
}

/// The entries of a page, in encoded form, and the lowest hash of the page.
#[derive(Clone, Copy, Debug)]
struct Entries<'r> {
    bytes: &'r [u8],
    from: u32,
}

impl<'r> Entries<'r> {
    fn of(bytes: &'r [u8], from: u32) -> Result<Self, Damaged> {
        let is_whole = !bytes.is_empty() && bytes.len().is_multiple_of(ENTRY_BYTES);
        if is_whole { Ok(Self { bytes, from }) } else { Err(Damaged) }
    }

    fn len(&self) -> usize {
        self.bytes.len() / ENTRY_BYTES
    }

    /// Returns the entry at index `number`. The first one begins where the page begins, whatever its bytes are.
    fn at(&self, number: usize) -> LeafEntry {
        let bytes = &self.bytes[number * ENTRY_BYTES..][..ENTRY_BYTES];
        let from = if number == 0 { self.from } else { from_of(bytes) };
        let part = bytes[4..12].try_into().expect("eight");
        let end = bytes[12..].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let first_end = if end == ENTRY_NO_END { NO_END } else { end };
        LeafEntry { from, part: u64::from_le_bytes(part), first_end }
    }

    /// Returns true if the bytes of the first entry have another bound than the page. The page may then be disordered.
    fn is_stale(&self) -> bool {
        from_of(self.bytes) != self.from
    }

    /// Returns true if the entries ascend.
    fn ascends(&self) -> bool {
        (1..self.len()).all(|number| self.at(number - 1).from < self.at(number).from)
    }

    /// Returns the end of the range of the entry at index `place`, in a page that ends at the hash `end`.
    fn end_of(&self, place: usize, end: u64) -> u64 {
        if place + 1 < self.len() { self.at(place + 1).from.into() } else { end }
    }

    /// Returns the index of the entry whose range of hashes contains `hash`.
    fn find(&self, hash: u32) -> usize {
        let (mut low, mut high) = (0, self.len());
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if self.at(middle).from <= hash {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    fn iter(self) -> impl Iterator<Item = LeafEntry> {
        (0..self.len()).map(move |number| self.at(number))
    }

    /// Appends the entries to `to`, with `entry` in place of the one at index `place`.
    fn push_with(self, place: usize, entry: LeafEntry, to: &mut Vec<u8>) {
        let (before, rest) = self.bytes.split_at(place * ENTRY_BYTES);
        let start = to.len();
        to.extend_from_slice(before);
        entry.push(to);
        to.extend_from_slice(&rest[ENTRY_BYTES..]);
        to[start..start + 4].copy_from_slice(&self.from.to_le_bytes());
    }

    /// Returns the earliest expiry of all entries if `end` is that of the entry at index `place`.
    fn first_end_with(self, place: usize, end: u64) -> u64 {
        self.iter()
            .enumerate()
            .fold(end, |first, (at, entry)| if at == place { first } else { first.min(entry.first_end) })
    }
}

/// Returns the lowest hash in the bytes of an entry.
fn from_of(entry: &[u8]) -> u32 {
    u32::from_le_bytes(*entry.first_chunk().expect("four bytes"))
}

/// One entry: the lowest hash of its range, the number of its part, and a lower bound for the ends of the bins below
/// it.
#[derive(Clone, Copy, Debug)]
struct LeafEntry {
    from: u32,
    part: u64,
    first_end: u64,
}

impl LeafEntry {
    fn push(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.from.to_le_bytes());
        to.extend_from_slice(&self.part.to_le_bytes());
        to.extend_from_slice(&self.first_end.min(ENTRY_NO_END).to_le_bytes()[..6]);
    }

    /// Returns true if the leaf or page may contain expired bins.
    fn is_due(&self, now_ms: u64) -> bool {
        self.first_end <= now_ms
    }
}

/// Returns the earliest expiry of all entries.
fn first_end(entries: &[LeafEntry]) -> u64 {
    entries.iter().map(|entry| entry.first_end).min().unwrap_or(NO_END)
}

/// A tree, read from its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'r> {
    object: u64,
    levels: u8,
    salt: Salt,
    root: Entries<'r>,
    pub(crate) count: u64,
    /// No bin ends before this time.
    pub(crate) first_end: u64,
    source: &'r dyn Source,
}

impl<'r> Tree<'r> {
    /// Reads a head up to the end of its entries and its salt, and returns the bytes after them.
    pub(crate) fn open(bytes: &'r [u8], source: &'r dyn Source) -> Result<(Self, &'r [u8]), Damaged> {
        let (fixed, rest) = bytes.split_at_checked(HEAD_BYTES).ok_or(Damaged)?;
        let entries = u32::from_le_bytes(fixed[9..].try_into().expect("four")) as usize;
        let (root, rest) = rest.split_at_checked(entries.checked_mul(ENTRY_BYTES).ok_or(Damaged)?).ok_or(Damaged)?;
        let levels = fixed[8] & !SALTED;
        if !matches!(levels, 1 | 2) {
            return Err(Damaged);
        }
        let (salt, rest) = Salt::read(fixed[8], rest).ok_or(Damaged)?;
        let object = u64::from_le_bytes(fixed[..8].try_into().expect("eight"));
        let tree = Self { object, levels, salt, root: Entries::of(root, 0)?, count: 0, first_end: NO_END, source };
        Ok((tree, rest))
    }

    /// Returns the key of the hashes of the tree's names.
    pub(crate) fn salt(&self) -> Salt {
        self.salt
    }

    fn page(&self, number: usize) -> Result<Entries<'r>, Damaged> {
        if self.levels == 1 {
            return Ok(self.root);
        }
        let LeafEntry { from, part, .. } = self.root.at(number);
        Entries::of(self.part(part)?, from)
    }

    /// Returns the end of the range of a page's hashes.
    fn page_end(&self, number: usize) -> u64 {
        if self.levels == 1 { crate::HASHES } else { self.root.end_of(number, crate::HASHES) }
    }

    fn pages(&self) -> usize {
        if self.levels == 1 { 1 } else { self.root.len() }
    }

    fn page_of(&self, hash: u32) -> usize {
        if self.levels == 1 { 0 } else { self.root.find(hash) }
    }

    fn part(&self, number: u64) -> Result<&'r [u8], Damaged> {
        self.source.part(self.object, number).ok_or(Damaged)
    }

    /// Returns true if the head shows that an unexpired bin remains. Returns false if that can be seen only in the
    /// parts.
    pub(crate) fn has_lasting(&self, now_ms: u64) -> bool {
        self.root.iter().any(|entry| !entry.is_due(now_ms)) && self.count > 0
    }

    /// Returns the number of bins that have expired and are still counted.
    pub(crate) fn ended(&self, now_ms: u64) -> Result<u64, Damaged> {
        let mut ended = 0;
        for leaf in self.due(now_ms) {
            let (leaf, mut at) = (self.part(leaf?.1.part)?, 0);
            while at < leaf.len() {
                let place = BinRange::at(leaf, at)?;
                ended += u64::from(!place.is_live(now_ms));
                at = place.end;
            }
        }
        Ok(ended)
    }

    /// Returns the entries of the leaves that may have expired bins, each with its place.
    fn due(self, now_ms: u64) -> impl Iterator<Item = Result<(Place, LeafEntry), Damaged>> {
        let is_due = move |page: &usize| self.levels == 1 || self.root.at(*page).is_due(now_ms);
        (0..self.pages()).filter(is_due).flat_map(move |page| {
            let (entries, fault) = match self.page(page) {
                Ok(entries) => (Some(entries), None),
                Err(damaged) => (None, Some(Err(damaged))),
            };
            let due = entries.into_iter().flat_map(Entries::iter).enumerate();
            let due = due.filter(move |(_, entry)| entry.is_due(now_ms));
            fault.into_iter().chain(due.map(move |(place, entry)| Ok(((page, place), entry))))
        })
    }

    /// Returns the leaf for this name.
    pub(crate) fn leaf(&self, name: &[u8]) -> Result<&'r [u8], Damaged> {
        let hash = self.salt.hash(name);
        let page = self.page(self.page_of(hash))?;
        self.part(page.at(page.find(hash)).part)
    }

    /// Returns the end of the range of hashes that share the leaf of `hash`. It is above `hash`.
    pub(crate) fn leaf_end(&self, hash: u32) -> Result<u64, Damaged> {
        let number = self.page_of(hash);
        let page = self.page(number)?;
        // In a disordered page, the next leaf may begin at a lower hash.
        Ok(page.end_of(page.find(hash), self.page_end(number)).max(u64::from(hash) + 1))
    }

    /// Returns the object number of the tree's parts. It is unique to this tree.
    pub(crate) fn object(&self) -> u64 {
        self.object
    }

    /// Returns the leaves in order, from the leaf that contains the hash `from` to the last leaf that begins below
    /// `to`.
    pub(crate) fn leaves(self, from: u32, to: u64) -> Leaves<'r> {
        Leaves { tree: self, page: self.page_of(from), entries: None, at: 0, from, to }
    }
}

/// An iterator over leaves, in the order of their hashes.
#[derive(Clone, Debug)]
pub(crate) struct Leaves<'r> {
    tree: Tree<'r>,
    page: usize,
    entries: Option<Entries<'r>>,
    at: usize,
    from: u32,
    to: u64,
}

impl<'r> Iterator for Leaves<'r> {
    type Item = Result<&'r [u8], Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let entries = match self.entries {
                Some(entries) => entries,
                None if self.page >= self.tree.pages() => return None,
                None => match self.tree.page(self.page) {
                    Ok(entries) => {
                        self.at = entries.find(self.from);
                        *self.entries.insert(entries)
                    }
                    Err(damaged) => {
                        self.page = self.tree.pages();
                        return Some(Err(damaged));
                    }
                },
            };
            if self.at >= entries.len() {
                (self.entries, self.page) = (None, self.page + 1);
                continue;
            }
            let entry = entries.at(self.at);
            if u64::from(entry.from) >= self.to {
                (self.entries, self.page) = (None, self.tree.pages());
                return None;
            }
            self.at += 1;
            return Some(self.tree.part(entry.part));
        }
    }
}

/// Returns the byte range of each bin of a body, with the hash of the bin's name.
fn hashed(body: &[u8], set: Option<InSet<'_>>, salt: Salt) -> Result<Vec<(u32, Range<usize>)>, Damaged> {
    let (mut at, mut bins, mut digits) = (0, Vec::new(), Digits::new());
    while at < body.len() {
        let place = BinRange::at(body, at)?;
        let name = name_of(&body[place.name..place.value], set)?;
        bins.push((salt.hash(name.text(&mut digits)), place.whole()));
        at = place.end;
    }
    Ok(bins)
}

/// Returns true if a bin of the body has a name with these bytes.
fn has_name(body: &[u8], name: &[u8]) -> Result<bool, Damaged> {
    let mut at = 0;
    while at < body.len() {
        let bin = BinRange::at(body, at)?;
        if &body[bin.name..bin.value] == name {
            return Ok(true);
        }
        at = bin.end;
    }
    Ok(false)
}

/// Splits the bins of a body into leaves for the hashes in `range`. `may_end` is false if no bin has an end.
fn cut(
    range: Range<u64>,
    body: &[u8],
    may_end: bool,
    set: Option<InSet<'_>>,
    salt: Salt,
) -> Result<Vec<NewLeaf>, Damaged> {
    let mut bins = hashed(body, set, salt)?;
    bins.sort_by_key(|(hash, _)| *hash);
    let mut leaves = vec![NewLeaf { from: range.start as u32, bins: Vec::new(), may_end }];
    let mut last = None;
    for (hash, place) in bins {
        let leaf = &mut leaves.last_mut().expect("one at least").bins;
        // A bin outside the range does not begin a leaf, so that the bounds of leaves ascend.
        let may_begin = range.contains(&hash.into()) && last.is_some_and(|last| last != hash);
        if may_begin && u64::from(hash) > range.start && leaf.len() + place.len() > LEAF_BYTES {
            leaves.push(NewLeaf { from: hash, bins: body[place].to_vec(), may_end });
        } else {
            leaf.extend_from_slice(&body[place]);
        }
        last = Some(hash);
    }
    Ok(leaves)
}

/// A leaf of a page under construction: an unchanged leaf, given by its entry, or a new one.
enum Leaf {
    There(LeafEntry),
    New(NewLeaf),
}

/// A leaf to be written.
struct NewLeaf {
    /// The lowest hash of the leaf's range.
    from: u32,
    bins: Vec<u8>,
    /// False if no bin has an end, so that the bins need not be searched for the earliest one.
    may_end: bool,
}

impl NewLeaf {
    /// Writes the leaf, and returns its entry.
    fn entry(self, source: &dyn Source, parts: &mut Parts) -> Result<LeafEntry, Damaged> {
        let first_end = if self.may_end { crate::edit::tally(&self.bins)?.1 } else { NO_END };
        let part = parts.add(source, |to| to.extend_from_slice(&self.bins));
        Ok(LeafEntry { from: self.from, part, first_end })
    }
}

/// A page under construction: an unchanged page, given by its entry in the root, or a new page with its lowest hash and
/// the entries of its leaves.
enum Page {
    There(LeafEntry),
    New(u32, Vec<LeafEntry>),
}

impl Page {
    /// Makes the page the first one of the tree, which begins at hash 0. Its former predecessors have no bins.
    fn put_first(&mut self, tree: &Tree<'_>, parts: &mut Parts) -> Result<(), Damaged> {
        if let Self::There(entry) = self
            && entry.from != 0
        {
            parts.gone.push(entry.part);
            *self = Self::New(0, Entries::of(tree.part(entry.part)?, 0)?.iter().collect());
        }
        if let Self::New(from, entries) = self {
            *from = 0;
            entries.first_mut().ok_or(Damaged)?.from = 0;
        }
        Ok(())
    }
}

impl Leaf {
    /// Writes the leaf if it is new, and returns its entry.
    fn entry(self, source: &dyn Source, parts: &mut Parts) -> Result<LeafEntry, Damaged> {
        match self {
            Self::There(entry) => Ok(entry),
            Self::New(leaf) => leaf.entry(source, parts),
        }
    }
}

/// The result of an edit of a tree.
pub(crate) enum Finished {
    /// The tree remains. The part of the head up to the salt was written.
    Tree { count: u64, first_end: u64 },
    /// A plain record replaces the tree. Contains all bins.
    Flat(Vec<u8>),
}

/// A placeholder for the entry of the only page of a tree with one level, which lies in the head.
const NO_PAGE: LeafEntry = LeafEntry { from: 0, part: 0, first_end: NO_END };

/// The number of a page, and the index of a leaf's entry in it.
type Place = (usize, usize);

/// A tree under change.
#[derive(Debug)]
pub(crate) struct TreeEdit<'e> {
    tree: Tree<'e>,
    /// Changed leaves.
    changed: BTreeMap<Place, Vec<u8>>,
    /// True if a changed page may be disordered.
    is_stale: bool,
    pub(crate) count: u64,
    /// True if this edit has given a bin an end.
    pub(crate) sets_ends: bool,
}

impl<'e> TreeEdit<'e> {
    pub(crate) fn of(tree: Tree<'e>) -> Self {
        Self { tree, changed: BTreeMap::new(), is_stale: false, count: tree.count, sets_ends: false }
    }

    /// Returns the place of the leaf that contains `hash`, and its page.
    fn place(&self, hash: u32) -> Result<(Place, Entries<'e>), Damaged> {
        let number = self.tree.page_of(hash);
        let page = self.tree.page(number)?;
        Ok(((number, page.find(hash)), page))
    }

    /// Returns the leaf that contains a name, with the changes of this edit.
    pub(crate) fn leaf(&self, name: &[u8]) -> Result<&[u8], Damaged> {
        let (place, page) = self.place(self.tree.salt.hash(name))?;
        self.leaf_at(place, page.at(place.1).part)
    }

    /// Returns the leaf at `place`, with the changes of this edit. Unchanged, it is in `part`.
    fn leaf_at(&self, place: Place, part: u64) -> Result<&[u8], Damaged> {
        match self.changed.get(&place) {
            Some(leaf) => Ok(leaf),
            None => self.tree.part(part),
        }
    }

    /// Returns the leaf that contains a name, to be changed. Expired bins are removed from the leaf.
    pub(crate) fn leaf_mut(&mut self, name: &[u8], now_ms: u64) -> Result<&mut Vec<u8>, Damaged> {
        let (place, page) = self.place(self.tree.salt.hash(name))?;
        self.is_stale |= page.is_stale();
        self.leaf_mut_at(place, page.at(place.1), now_ms)
    }

    /// Returns the leaf at `place`, to be changed, as [`TreeEdit::leaf_mut`] does.
    fn leaf_mut_at(&mut self, place: Place, entry: LeafEntry, now_ms: u64) -> Result<&mut Vec<u8>, Damaged> {
        if !self.changed.contains_key(&place) {
            let (old, mut at) = (self.tree.part(entry.part)?, 0);
            let mut leaf = Vec::with_capacity(old.len() + CHANGE_BYTES);
            if !entry.is_due(now_ms) {
                // No bin has expired.
                leaf.extend_from_slice(old);
                at = old.len();
            }
            while at < old.len() {
                let bin = BinRange::at(old, at)?;
                if bin.is_live(now_ms) {
                    leaf.extend_from_slice(&old[bin.whole()]);
                } else {
                    self.count = self.count.saturating_sub(1);
                }
                at = bin.end;
            }
            self.changed.insert(place, leaf);
        }
        Ok(self.changed.get_mut(&place).expect("it was put there"))
    }

    /// Returns true if a page has entries that do not ascend, or strays: bins that a lookup does not find, because it
    /// reads another leaf.
    fn is_disordered(&self, number: usize, set: Option<InSet<'_>>) -> Result<bool, Damaged> {
        let page = self.tree.page(number)?;
        if !page.ascends() {
            return Ok(true);
        }
        for (place, entry) in page.iter().enumerate() {
            let bins = hashed(self.leaf_at((number, place), entry.part)?, set, self.tree.salt)?;
            if bins.iter().any(|(hash, _)| self.tree.page_of(*hash) != number || page.find(*hash) != place) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if the tree is disordered: its root, or any page. Reads all parts.
    fn is_any_disordered(&self, set: Option<InSet<'_>>) -> Result<bool, Damaged> {
        if !self.tree.root.ascends() {
            return Ok(true);
        }
        for number in 0..self.tree.pages() {
            if self.is_disordered(number, set)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns all bins of a disordered tree once, and their number. Of bins with one name, that which a lookup finds
    /// is returned. The numbers of all parts are added to `parts.gone`.
    fn ordered(&self, set: Option<InSet<'_>>, now_ms: u64, parts: &mut Parts) -> Result<(Vec<u8>, u64), Damaged> {
        let (mut bins, mut gone) = (Vec::new(), BTreeSet::new());
        for number in 0..self.tree.pages() {
            let page = self.tree.page(number)?;
            if self.tree.levels == 2 {
                gone.insert(self.tree.root.at(number).part);
            }
            for (place, entry) in page.iter().enumerate() {
                gone.insert(entry.part);
                let leaf = self.leaf_at((number, place), entry.part)?;
                for (hash, bin) in hashed(leaf, set, self.tree.salt)? {
                    let is_stray = self.tree.page_of(hash) != number || page.find(hash) != place;
                    let bytes = &leaf[bin];
                    let bin = BinRange::at(bytes, 0)?;
                    // A bin that this edit has removed must not return.
                    if bin.is_live(now_ms) && !(is_stray && self.was_found(hash, &bytes[bin.name..bin.value])?) {
                        bins.push((hash, &bytes[bin.name..bin.value], is_stray, bytes));
                    }
                }
            }
        }
        bins.sort_by_key(|(hash, name, is_stray, _)| (*hash, *name, *is_stray));
        bins.dedup_by_key(|(hash, name, ..)| (*hash, *name));
        parts.gone.extend(gone);
        Ok((bins.iter().flat_map(|(.., bytes)| *bytes).copied().collect(), bins.len() as u64))
    }

    /// Returns true if a lookup found a bin with this name before the edit.
    fn was_found(&self, hash: u32, name: &[u8]) -> Result<bool, Damaged> {
        let (place, page) = self.place(hash)?;
        has_name(self.tree.part(page.at(place.1).part)?, name)
    }

    /// Writes all bins of a disordered tree into new leaves, and the head up to its salt.
    fn rebuild(
        &self,
        set: Option<InSet<'_>>,
        now_ms: u64,
        parts: &mut Parts,
        to: &mut Vec<u8>,
    ) -> Result<Finished, Damaged> {
        let (bins, count) = self.ordered(set, now_ms, parts)?;
        if bins.len() <= LARGE_BYTES / 4 {
            return Ok(Finished::Flat(bins));
        }
        let leaves = cut(0..crate::HASHES, &bins, true, set, self.tree.salt)?.into_iter();
        let entries = leaves.map(|leaf| leaf.entry(self.tree.source, parts)).collect::<Result<_, _>>()?;
        let first_end = put_root(self.tree.object, vec![Page::New(0, entries)], &self.tree, parts, to)?;
        Ok(Finished::Tree { count, first_end })
    }

    /// Returns all bins, end to end, if they are few enough for a plain record.
    fn flat(&self, now_ms: u64) -> Result<Option<Vec<u8>>, Damaged> {
        if self.count > FLAT_AGAIN_BINS {
            return Ok(None);
        }
        let mut all = Vec::new();
        for number in 0..self.tree.pages() {
            for (place, entry) in self.tree.page(number)?.iter().enumerate() {
                let (leaf, mut at) = (self.leaf_at((number, place), entry.part)?, 0);
                while at < leaf.len() {
                    let bin = BinRange::at(leaf, at)?;
                    if bin.is_live(now_ms) {
                        all.extend_from_slice(&leaf[bin.whole()]);
                    }
                    at = bin.end;
                }
                if all.len() > LARGE_BYTES / 4 {
                    return Ok(None);
                }
            }
        }
        Ok(Some(all))
    }

    /// Returns the leaves of a page. Changed leaves are split or merged as needed.
    fn leaves_of(&mut self, number: usize, set: Option<InSet<'_>>, parts: &mut Parts) -> Result<Vec<Leaf>, Damaged> {
        let (page, page_end) = (self.tree.page(number)?, self.tree.page_end(number));
        let mut leaves: Vec<Leaf> = Vec::new();
        for (place, entry @ LeafEntry { from, part, .. }) in page.iter().enumerate() {
            let Some(bins) = self.changed.remove(&(number, place)) else {
                leaves.push(Leaf::There(entry));
                continue;
            };
            parts.gone.push(part);
            let mut may_end = self.may_end(&entry);
            if bins.len() < LEAF_BYTES_MIN
                && let Some(before) = leaves.last_mut()
            {
                if bins.is_empty() {
                    continue;
                }
                let there = match before {
                    Leaf::There(entry) => self.tree.part(entry.part)?,
                    Leaf::New(leaf) => &leaf.bins,
                };
                if there.len() + bins.len() <= LEAF_BYTES {
                    let joined = [there, &bins].concat();
                    let from = match before {
                        Leaf::There(entry) => {
                            parts.gone.push(entry.part);
                            may_end |= self.may_end(entry);
                            entry.from
                        }
                        Leaf::New(leaf) => {
                            may_end |= leaf.may_end;
                            leaf.from
                        }
                    };
                    *before = Leaf::New(NewLeaf { from, bins: joined, may_end });
                    continue;
                }
            }
            if bins.len() > LEAF_BYTES_MAX {
                let range = from.into()..page.end_of(place, page_end);
                leaves.extend(cut(range, &bins, may_end, set, self.tree.salt)?.into_iter().map(Leaf::New));
            } else {
                leaves.push(Leaf::New(NewLeaf { from, bins, may_end }));
            }
        }
        // If the first leaf is empty, the next one takes over its range.
        if leaves.len() > 1
            && let Leaf::New(NewLeaf { from, bins, .. }) = &leaves[0]
            && bins.is_empty()
        {
            let first = *from;
            leaves.remove(0);
            match &mut leaves[0] {
                Leaf::There(LeafEntry { from, .. }) | Leaf::New(NewLeaf { from, .. }) => *from = first,
            }
        }
        Ok(leaves)
    }

    /// Returns true if a bin of the leaf with this entry may have an end.
    fn may_end(&self, entry: &LeafEntry) -> bool {
        self.sets_ends || entry.first_end != NO_END
    }

    /// Writes the parts and the head as [`TreeEdit::finish`] does, if only one leaf has changed and keeps its range:
    /// the entries are copied, except those of the leaf and of its page. Otherwise writes nothing, and returns `None`.
    fn finish_one(&mut self, parts: &mut Parts, to: &mut Vec<u8>) -> Result<Option<u64>, Damaged> {
        let tree = self.tree;
        let (1, Some((&(number, place), bins))) = (self.changed.len(), self.changed.first_key_value()) else {
            return Ok(None);
        };
        if !(LEAF_BYTES_MIN..=LEAF_BYTES_MAX).contains(&bins.len()) {
            return Ok(None);
        }
        let page = tree.page(number)?;
        let (_, bins) = self.changed.pop_first().expect("there is one");
        let old = page.at(place);
        parts.gone.push(old.part);
        let mut entry = NewLeaf { from: old.from, bins, may_end: self.may_end(&old) }.entry(tree.source, parts)?;
        let mut in_root = place;
        if tree.levels == 2 {
            let old = tree.root.at(number);
            parts.gone.push(old.part);
            let part = parts.add(tree.source, |to| page.push_with(place, entry, to));
            let ends = old.first_end.min(entry.first_end) != NO_END;
            let first_end = if ends { page.first_end_with(place, entry.first_end) } else { NO_END };
            (entry, in_root) = (LeafEntry { from: old.from, part, first_end }, number);
        }
        to.reserve(HEAD_BYTES + tree.root.bytes.len() + HEAD_REST_BYTES);
        put_head(tree.object, tree.levels, tree.salt, tree.root.len(), to);
        tree.root.push_with(in_root, entry, to);
        tree.salt.push(to);
        let ends = tree.first_end.min(entry.first_end) != NO_END;
        Ok(Some(if ends { tree.root.first_end_with(in_root, entry.first_end) } else { NO_END }))
    }

    /// Writes the changed parts, and the head up to its salt.
    pub(crate) fn finish(
        mut self,
        set: Option<InSet<'_>>,
        now_ms: u64,
        parts: &mut Parts,
        to: &mut Vec<u8>,
    ) -> Result<Finished, Damaged> {
        if self.is_stale && self.is_any_disordered(set)? {
            return self.rebuild(set, now_ms, parts, to);
        }
        if let Some(all) = self.flat(now_ms)? {
            return Ok(Finished::Flat(all));
        }
        if let Some(first_end) = self.finish_one(parts, to)? {
            return Ok(Finished::Tree { count: self.count, first_end });
        }
        let source = self.tree.source;
        let mut pages = Vec::new();
        for number in 0..self.tree.pages() {
            let entry = if self.tree.levels == 1 { NO_PAGE } else { self.tree.root.at(number) };
            let is_changed = self.changed.range((number, 0)..=(number, usize::MAX)).next().is_some();
            if !is_changed && self.tree.levels == 2 {
                pages.push(Page::There(entry));
                continue;
            }
            if self.tree.levels == 2 {
                parts.gone.push(entry.part);
            }
            let leaves = self.leaves_of(number, set, parts)?;
            if matches!(&leaves[..], [Leaf::New(leaf)] if leaf.bins.is_empty()) {
                continue;
            }
            let entries = leaves.into_iter().map(|leaf| leaf.entry(source, parts)).collect::<Result<_, _>>()?;
            pages.push(Page::New(entry.from, entries));
        }
        if pages.is_empty() {
            return Ok(Finished::Flat(Vec::new()));
        }
        let first_end = put_root(self.tree.object, pages, &self.tree, parts, to)?;
        Ok(Finished::Tree { count: self.count, first_end })
    }

    /// Removes expired bins from up to `leaves_max` leaves.
    pub(crate) fn sweep(&mut self, now_ms: u64, leaves_max: usize) -> Result<(), Damaged> {
        for leaf in self.tree.due(now_ms).take(leaves_max) {
            let (place, entry) = leaf?;
            self.leaf_mut_at(place, entry, now_ms)?;
        }
        Ok(())
    }
}

/// Appends the beginning of a head, before its entries.
fn put_head(object: u64, levels: u8, salt: Salt, entries: usize, to: &mut Vec<u8>) {
    to.extend_from_slice(&object.to_le_bytes());
    to.push(levels | salt.bit());
    to.extend_from_slice(&(entries as u32).to_le_bytes());
}

/// Appends the head of a record's tree to `to`, up to its salt: that of `tree`. New pages below the root are added to
/// `parts`. Returns the earliest expiry of all bins.
fn put_root(
    object: u64,
    mut pages: Vec<Page>,
    tree: &Tree<'_>,
    parts: &mut Parts,
    to: &mut Vec<u8>,
) -> Result<u64, Damaged> {
    let source = tree.source;
    pages.first_mut().ok_or(Damaged)?.put_first(tree, parts)?;
    let mut cut = Vec::new();
    for page in pages {
        match page {
            Page::New(from, entries) if entries.len() > PAGE_ENTRIES_MAX => {
                debug_assert_eq!(from, entries[0].from, "the first entry begins where its page begins");
                cut.extend(entries.chunks(PAGE_ENTRIES).map(|chunk| Page::New(chunk[0].from, chunk.to_vec())));
            }
            page => cut.push(page),
        }
    }
    let (levels, root) = match &mut cut[..] {
        [Page::New(_, entries)] => (1, std::mem::take(entries)),
        [Page::There(entry)] => {
            parts.gone.push(entry.part);
            (1, Entries::of(tree.part(entry.part)?, 0)?.iter().collect())
        }
        _ => {
            let entries = cut.into_iter().map(|page| match page {
                Page::There(entry) => entry,
                Page::New(from, entries) => {
                    let first_end = first_end(&entries);
                    let fill = |to: &mut Vec<u8>| entries.into_iter().for_each(|entry| entry.push(to));
                    LeafEntry { from, part: parts.add(source, fill), first_end }
                }
            });
            (2, entries.collect())
        }
    };
    put_head(object, levels, tree.salt, root.len(), to);
    let ends = first_end(&root);
    debug_assert_eq!(root[0].from, 0, "the first entry begins at the lowest hash");
    root.into_iter().for_each(|entry| entry.push(to));
    tree.salt.push(to);
    Ok(ends)
}

/// Writes the bins of a plain record into parts, and appends the head of their tree up to its salt, which is a new one.
pub(crate) fn grow(
    body: &[u8],
    set: Option<InSet<'_>>,
    source: &dyn Source,
    parts: &mut Parts,
    to: &mut Vec<u8>,
) -> Result<(), Damaged> {
    let salt = Salt::new(source.salt());
    let entries = cut(0..crate::HASHES, body, true, set, salt)?.into_iter().map(|leaf| leaf.entry(source, parts));
    let pages = vec![Page::New(0, entries.collect::<Result<_, _>>()?)];
    let root = Entries { bytes: &[], from: 0 };
    let none = Tree { object: 0, levels: 1, salt, root, count: 0, first_end: NO_END, source };
    put_root(source.fresh(), pages, &none, parts, to).map(drop)
}
