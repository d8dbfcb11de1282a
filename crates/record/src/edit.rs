//! Builds a new record from an old one.
//!
//! ```text
//!   old bytes ──copy of the unexpired bins──> new bytes ──set, remove, set_end──> finish ──> stored instead of the old
//! ```
//!
//! Existing bins keep their order; a new bin is appended after all others. A caller that sets many bins at once uses
//! [`Edit::set_all`], which does not compare every new name with every existing bin.

use std::collections::HashMap;
use std::ops::Range;

use crate::coding::Coded;
use crate::read::{BinRange, END_BYTES, ENDS, MORE, find, name_of, push_number};
use crate::sets::{self, InSet};
use crate::tree::{self, Finished, LARGE_BYTES, NO_END, Parts, Source, TreeEdit};
use crate::{Bin, Damaged, Kind, Name, Record, Value, coding};

/// From this number of new values on, [`Edit::set_all`] looks up names in a hash table.
const MANY: usize = 12;

/// A record under construction.
#[derive(Debug)]
pub struct Edit<'e> {
    to: &'e mut Vec<u8>,
    /// Offsets in `to` of the record, of its revision, and of its first bin.
    start: usize,
    head: usize,
    body: usize,
    now_ms: u64,
    revision: u32,
    has_ends: bool,
    set: Option<InSet<'e>>,
    /// The leaves of a large record. If it is set, `to` holds no bins.
    tree: Option<TreeEdit<'e>>,
}

/// The bins under construction, from offset `from` of `to` on.
struct BinsUnderEdit<'b> {
    to: &'b mut Vec<u8>,
    from: usize,
    now_ms: u64,
}

impl BinsUnderEdit<'_> {
    fn find(&self, name: &Coded<'_>) -> Result<Option<BinRange>, Damaged> {
        find(&self.to[self.from..], name, self.now_ms)
    }

    /// Resizes `range` of the bins to `bytes` and returns it for writing.
    fn room(&mut self, range: Range<usize>, bytes: usize) -> &mut [u8] {
        let (from, behind, len) = (self.from + range.start, self.from + range.end, self.to.len());
        let now_behind = from + bytes;
        if now_behind > behind {
            self.to.resize(len + now_behind - behind, 0);
        }
        self.to.copy_within(behind..len, now_behind);
        self.to.truncate(len - behind + now_behind);
        &mut self.to[from..now_behind]
    }

    fn set(&mut self, name: &Coded<'_>, value: &Value<'_>, keep_end: bool) -> Result<bool, Damaged> {
        let value = Coded::of(value);
        let Some(place) = self.find(name)? else {
            name.push(self.to);
            value.push(self.to);
            return Ok(true);
        };
        value.write(self.room(place.value..place.end, value.len()));
        if place.end_ms.is_some() && !keep_end {
            self.room(place.start..place.name, 0);
        }
        Ok(false)
    }

    fn remove(&mut self, name: &Coded<'_>) -> Result<bool, Damaged> {
        let Some(place) = self.find(name)? else { return Ok(false) };
        self.room(place.whole(), 0);
        Ok(true)
    }

    fn set_end(&mut self, name: &Coded<'_>, end_ms: Option<u64>) -> Result<bool, Damaged> {
        let Some(place) = self.find(name)? else { return Ok(false) };
        let bytes = if end_ms.is_some() { END_BYTES } else { 0 };
        let room = self.room(place.start..place.name, bytes);
        if let Some(end) = end_ms {
            debug_assert!(end <= crate::END_MS_MAX);
            room[0] = coding::END;
            room[1..].copy_from_slice(&end.to_le_bytes()[..END_BYTES - 1]);
        }
        Ok(true)
    }
}

/// Returns an upper bound, in bytes, for the encoded bin with this name and this text. It includes an optional expiry.
pub fn bin_bytes_max(name: &[u8], text: &[u8]) -> usize {
    END_BYTES + Name::new(name).coded.len() + Coded::of(&Value::of_text(text)).len()
}

impl<'e> Edit<'e> {
    /// Starts an edit that appends to `to`, with the bins of `old` that are live at `now_ms`. The revision is the next
    /// one, or 1 without an old record. The set is that of `old`, if any.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn of(old: Option<&Record<'e>>, now_ms: u64, to: &'e mut Vec<u8>) -> Result<Self, Damaged> {
        let set = old.and_then(Record::set);
        Self::in_set(old, set, now_ms, to)
    }

    /// Starts an edit as [`Edit::of`] does, for a record in `set`. If there is an old record, `set` must be its set.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn in_set(
        old: Option<&Record<'e>>,
        set: Option<InSet<'e>>,
        now_ms: u64,
        to: &'e mut Vec<u8>,
    ) -> Result<Self, Damaged> {
        let revision = old.map_or(1, |old| old.revision().wrapping_add(1).max(1));
        Self::with(revision, old, set, now_ms, to)
    }

    /// Starts a later step of a change that takes several steps. Unlike the first step, it does not raise the revision.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn continue_change(old: &Record<'e>, now_ms: u64, to: &'e mut Vec<u8>) -> Result<Self, Damaged> {
        Self::with(old.revision(), Some(old), old.set(), now_ms, to)
    }

    fn with(
        revision: u32,
        old: Option<&Record<'e>>,
        set: Option<InSet<'e>>,
        now_ms: u64,
        to: &'e mut Vec<u8>,
    ) -> Result<Self, Damaged> {
        let mut edit = Self::begin(revision, set, now_ms, to);
        match old {
            Some(old) if old.tree.is_some() => edit.tree = old.tree.map(TreeEdit::of),
            Some(old) if old.has_ends() => edit.copy_live(old.body)?,
            Some(old) => edit.to.extend_from_slice(old.body),
            None => {}
        }
        Ok(edit)
    }

    /// Starts an edit of a large record, and removes expired bins from up to `leaves_max` of its leaves. The revision
    /// does not change.
    ///
    /// # Errors
    /// [`Damaged`], also if the record is not large.
    pub fn swept(old: &Record<'e>, now_ms: u64, leaves_max: usize, to: &'e mut Vec<u8>) -> Result<Self, Damaged> {
        let mut tree = TreeEdit::of(old.tree.ok_or(Damaged)?);
        tree.sweep(now_ms, leaves_max)?;
        let mut edit = Self::begin(old.revision(), old.set(), now_ms, to);
        edit.tree = Some(tree);
        Ok(edit)
    }

    fn begin(revision: u32, set: Option<InSet<'e>>, now_ms: u64, to: &'e mut Vec<u8>) -> Self {
        let start = to.len();
        if let Some(InSet { set, .. }) = set {
            push_number(set.number().into(), to);
            push_number(set.generation(), to);
        }
        let head = to.len();
        let mut left = revision;
        let mut byte = (left & 0x3f) as u8;
        left >>= 6;
        while left > 0 {
            to.push(byte | MORE);
            byte = (left & 0x7f) as u8;
            left >>= 7;
        }
        to.push(byte);
        Self { body: to.len(), to, start, head, now_ms, revision, has_ends: false, set, tree: None }
    }

    fn copy_live(&mut self, bins: &[u8]) -> Result<(), Damaged> {
        let mut at = 0;
        while at < bins.len() {
            let place = BinRange::at(bins, at)?;
            if place.is_live(self.now_ms) {
                self.has_ends |= place.end_ms.is_some();
                self.to.extend_from_slice(&bins[place.whole()]);
            }
            at = place.end;
        }
        Ok(())
    }

    /// Returns the revision that the new record will have.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// Returns the bins among which a bin with this name is stored or would be stored: those of its leaf, or of the
    /// record.
    fn body_of(&mut self, name: &Name<'_>) -> Result<BinsUnderEdit<'_>, Damaged> {
        let now_ms = self.now_ms;
        Ok(match &mut self.tree {
            None => BinsUnderEdit { to: self.to, from: self.body, now_ms },
            Some(tree) => BinsUnderEdit { to: tree.leaf_mut(name.text, now_ms)?, from: 0, now_ms },
        })
    }

    fn coded<'n>(&self, name: &Name<'n>, learns: bool) -> Coded<'n> {
        sets::coded(self.set, name, learns)
    }

    /// Returns the bin with this name.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn bin(&self, name: &Name<'_>) -> Result<Option<Bin<'_>>, Damaged> {
        let body = match &self.tree {
            None => &self.to[self.body..],
            Some(tree) => tree.leaf(name.text)?,
        };
        let place = find(body, &self.coded(name, false), self.now_ms)?;
        place.map(|place| place.bin(body, self.set)).transpose()
    }

    /// Sets the value of a bin. Returns true if the bin is new. An existing bin retains its expiry only if `keep_end`
    /// is true.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn set(&mut self, name: &Name<'_>, value: &Value<'_>, keep_end: bool) -> Result<bool, Damaged> {
        let coded = self.coded(name, true);
        let is_new = self.body_of(name)?.set(&coded, value, keep_end)?;
        if let Some(tree) = self.tree.as_mut().filter(|_| is_new) {
            tree.count += 1;
        }
        Ok(is_new)
    }

    /// Sets the bins in order, as [`Edit::set`] does, and removes their expiries. If a name occurs twice, its last
    /// value counts. Returns the number of new bins.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn set_all<'p>(
        &mut self,
        pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])>,
    ) -> Result<usize, Damaged> {
        if pairs.len() < MANY || self.tree.is_some() {
            let mut added = 0;
            for (name, value) in pairs {
                added += usize::from(self.set(&Name::new(name), &Value::of_text(value), false)?);
            }
            return Ok(added);
        }
        let mut wanted = Vec::with_capacity(pairs.len());
        let mut places = HashMap::with_capacity(pairs.len());
        for (name, value) in pairs {
            // Equal names have equal encodings, so the text is an equivalent key.
            let at = *places.entry(name).or_insert(wanted.len());
            if at == wanted.len() {
                wanted.push((name, value, false));
            } else {
                wanted[at].1 = value;
            }
        }
        let mut digits = crate::Digits::new();
        let old = self.to.split_off(self.body);
        let mut at = 0;
        while at < old.len() {
            let place = BinRange::at(&old, at)?;
            let name = name_of(&old[place.name..place.value], self.set)?;
            match places.get(name.text(&mut digits)) {
                None => self.to.extend_from_slice(&old[place.whole()]),
                Some(found) => {
                    let (name, value, done) = &mut wanted[*found];
                    sets::coded(self.set, &Name::new(name), true).push(self.to);
                    Coded::of(&Value::of_text(value)).push(self.to);
                    *done = true;
                }
            }
            at = place.end;
        }
        let new = wanted.iter().filter(|(_, _, done)| !done);
        let mut added = 0;
        for (name, value, _) in new {
            sets::coded(self.set, &Name::new(name), true).push(self.to);
            Coded::of(&Value::of_text(value)).push(self.to);
            added += 1;
        }
        Ok(added)
    }

    /// Removes the bin with this name. Returns true if the bin existed.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn remove(&mut self, name: &Name<'_>) -> Result<bool, Damaged> {
        let coded = self.coded(name, false);
        let is_gone = self.body_of(name)?.remove(&coded)?;
        if let Some(tree) = self.tree.as_mut().filter(|_| is_gone) {
            tree.count = tree.count.saturating_sub(1);
        }
        Ok(is_gone)
    }

    /// Removes all bins.
    pub fn clear(&mut self) {
        self.to.truncate(self.body);
        self.has_ends = false;
        self.tree = None;
    }

    /// Sets or clears the bin's end (its expiry time), in ms since the epoch and at most [`crate::END_MS_MAX`]. Returns
    /// true if the bin exists. A bin whose end has passed is dropped the next time the record is written.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn set_end(&mut self, name: &Name<'_>, end_ms: Option<u64>) -> Result<bool, Damaged> {
        let coded = self.coded(name, false);
        let is_there = self.body_of(name)?.set_end(&coded, end_ms)?;
        if let Some(end) = end_ms.filter(|_| is_there) {
            debug_assert!(end <= crate::END_MS_MAX);
            self.has_ends = true;
            if let Some(tree) = &mut self.tree {
                tree.sets_ends = true;
            }
        }
        Ok(is_there)
    }

    /// Completes a record that was not large and must not become large. Returns true if it has any bins.
    pub fn finish(self) -> bool {
        assert!(self.tree.is_none(), "a large record is written with its parts");
        if self.has_ends {
            self.to[self.head] |= ENDS;
        }
        self.to.len() > self.body
    }

    /// Completes the record, and writes it in parts if it is large. Returns the type of the new bytes, or `None` if no
    /// bins are left.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn finish_with(mut self, source: &dyn Source, parts: &mut Parts) -> Result<Option<Kind>, Damaged> {
        let in_set = self.set.is_some();
        let (large, small) = if in_set { (Kind::LargeInSet, Kind::InSet) } else { (Kind::Large, Kind::Hash) };
        let (count, first_end) = match self.tree.take() {
            None if self.to.len() - self.body <= LARGE_BYTES => return Ok(self.finish().then_some(small)),
            None => {
                let bins = self.to.split_off(self.body);
                let tally = tally(&bins)?;
                let front = self.to.split_off(self.start);
                tree::grow(&bins, self.set, source, parts, self.to)?;
                self.put_front(&front, tally.1);
                tally
            }
            Some(tree) => {
                let front = self.to.split_off(self.start);
                match tree.finish(self.set, self.now_ms, parts, self.to)? {
                    Finished::Flat(bins) => {
                        parts.clear();
                        self.to.extend_from_slice(&front);
                        self.has_ends = tally(&bins)?.1 != NO_END;
                        self.to.extend_from_slice(&bins);
                        return Ok(self.finish().then_some(small));
                    }
                    Finished::Tree { count, first_end } => {
                        self.put_front(&front, first_end);
                        (count, first_end)
                    }
                }
            }
        };
        push_number(count as u32, self.to);
        if first_end != NO_END {
            self.to.extend_from_slice(&first_end.to_le_bytes()[..END_BYTES - 1]);
        }
        Ok(Some(large))
    }

    /// Appends the fields that follow the salt in the head of a large record: `front` holds the set, the generation
    /// and the revision.
    fn put_front(&mut self, front: &[u8], first_end: u64) {
        let revision_at = self.to.len() + self.head - self.start;
        self.to.extend_from_slice(front);
        if first_end != NO_END {
            self.to[revision_at] |= ENDS;
        }
    }
}

/// Returns the number of bins and the earliest end among them.
pub(crate) fn tally(bins: &[u8]) -> Result<(u64, u64), Damaged> {
    let (mut at, mut count, mut first_end) = (0, 0, NO_END);
    while at < bins.len() {
        let place = BinRange::at(bins, at)?;
        (count, first_end) = (count + 1, first_end.min(place.end_ms.unwrap_or(NO_END)));
        at = place.end;
    }
    Ok((count, first_end))
}
