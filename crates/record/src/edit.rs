//! A new record made from an old one.
//!
//! ```text
//!   old bytes ──copy, without what has ended──> bytes ──set, remove, set_end──> finish ──> stored in its place
//! ```
//!
//! Bins keep their places; a new one is behind all others. Whoever makes many bins at once gives them to
//! [`Edit::set_all`], whose work does not grow with their number times that of the bins that are there.

use std::collections::HashMap;
use std::ops::Range;

use crate::coding::Coded;
use crate::read::{END_BYTES, ENDS, MORE, Place, find, name_of, push_number};
use crate::sets::{self, InSet};
use crate::{Bin, Damaged, Kind, Name, Record, Value, coding};

/// From so many bins at once on they are looked up in a table.
const MANY: usize = 12;

/// A record that is being written.
#[derive(Debug)]
pub struct Edit<'e> {
    to: &'e mut Vec<u8>,
    /// Where the record begins in `to`, and its first bin.
    head: usize,
    body: usize,
    now_ms: u64,
    revision: u32,
    has_ends: bool,
    set: Option<InSet<'e>>,
}

impl<'e> Edit<'e> {
    /// Begins with the bins of `old` that are there at `now_ms`, or none, behind what `to` has. The revision is the
    /// next one: 1 where nothing was; the set that of `old`, or none.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn of(old: Option<&Record<'e>>, now_ms: u64, to: &'e mut Vec<u8>) -> Result<Self, Damaged> {
        let set = old.and_then(Record::set);
        Self::in_set(old, set, now_ms, to)
    }

    /// The same with the set that it shall be of, which is that of `old` if there is one.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn in_set(
        old: Option<&Record<'e>>,
        set: Option<InSet<'e>>,
        now_ms: u64,
        to: &'e mut Vec<u8>,
    ) -> Result<Self, Damaged> {
        if let Some(InSet { set, .. }) = set {
            push_number(set.number().into(), to);
            push_number(set.generation(), to);
        }
        let head = to.len();
        let revision = old.map_or(1, |old| old.revision().wrapping_add(1).max(1));
        let mut left = revision;
        let mut byte = (left & 0x3f) as u8;
        left >>= 6;
        while left > 0 {
            to.push(byte | MORE);
            byte = (left & 0x7f) as u8;
            left >>= 7;
        }
        to.push(byte);
        let mut edit = Self { body: to.len(), to, head, now_ms, revision, has_ends: false, set };
        match old {
            Some(old) if old.has_ends() => edit.copy_live(old)?,
            Some(old) => edit.to.extend_from_slice(old.body),
            None => {}
        }
        Ok(edit)
    }

    fn copy_live(&mut self, old: &Record<'_>) -> Result<(), Damaged> {
        let mut at = 0;
        while at < old.body.len() {
            let place = Place::at(old.body, at)?;
            if place.is_live(self.now_ms) {
                self.has_ends |= place.end_ms.is_some();
                self.to.extend_from_slice(&old.body[place.whole()]);
            }
            at = place.end;
        }
        Ok(())
    }

    /// What the revision will be.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    fn find(&self, name: &Name<'_>) -> Result<Option<Place>, Damaged> {
        find(&self.to[self.body..], &sets::coded(self.set, name, false), self.now_ms)
    }

    /// Of what type the written bytes are.
    pub fn kind(&self) -> Kind {
        if self.set.is_some() { Kind::InSet } else { Kind::Hash }
    }

    /// The bin of this name.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn bin(&self, name: &Name<'_>) -> Result<Option<Bin<'_>>, Damaged> {
        let Some(place) = self.find(name)? else { return Ok(None) };
        place.bin(&self.to[self.body..], self.set).map(Some)
    }

    /// Has `range` of the bins be so many bytes, which are to be written.
    fn room(&mut self, range: Range<usize>, bytes: usize) -> &mut [u8] {
        let (from, behind, len) = (self.body + range.start, self.body + range.end, self.to.len());
        let now_behind = from + bytes;
        if now_behind > behind {
            self.to.resize(len + now_behind - behind, 0);
        }
        self.to.copy_within(behind..len, now_behind);
        self.to.truncate(len - behind + now_behind);
        &mut self.to[from..now_behind]
    }

    /// Gives the bin this value; true if there was none of the name. One that is there keeps its end only if that is
    /// wanted.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn set(&mut self, name: &Name<'_>, value: &Value<'_>, keep_end: bool) -> Result<bool, Damaged> {
        let value = Coded::of(value);
        let Some(place) = self.find(name)? else {
            sets::coded(self.set, name, true).push(self.to);
            value.push(self.to);
            return Ok(true);
        };
        value.write(self.room(place.value..place.end, value.len()));
        if place.end_ms.is_some() && !keep_end {
            self.room(place.start..place.name, 0);
        }
        Ok(false)
    }

    /// Gives each bin its value, the last one where a name is there twice, as [`Edit::set`] would one after another;
    /// no end is kept. Gives how many there were none of.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn set_all<'p>(
        &mut self,
        pairs: impl ExactSizeIterator<Item = (&'p [u8], &'p [u8])>,
    ) -> Result<usize, Damaged> {
        if pairs.len() < MANY {
            let mut added = 0;
            for (name, value) in pairs {
                added += usize::from(self.set(&Name::new(name), &Value::of_text(value), false)?);
            }
            return Ok(added);
        }
        let mut wanted = Vec::with_capacity(pairs.len());
        let mut places = HashMap::with_capacity(pairs.len());
        for (name, value) in pairs {
            // Equal names have equal bytes, so that the text is as good a key as they are.
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
            let place = Place::at(&old, at)?;
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

    /// Takes the bin away; says whether it was there.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn remove(&mut self, name: &Name<'_>) -> Result<bool, Damaged> {
        let Some(place) = self.find(name)? else { return Ok(false) };
        self.room(place.whole(), 0);
        Ok(true)
    }

    /// Takes all bins away.
    pub fn clear(&mut self) {
        self.to.truncate(self.body);
        self.has_ends = false;
    }

    /// Gives the bin this end, in ms since the epoch and at most [`crate::END_MS_MAX`], or none; says whether it was
    /// there. One whose end has come goes when the record is written next.
    ///
    /// # Errors
    /// [`Damaged`].
    pub fn set_end(&mut self, name: &Name<'_>, end_ms: Option<u64>) -> Result<bool, Damaged> {
        let Some(place) = self.find(name)? else { return Ok(false) };
        let bytes = if end_ms.is_some() { END_BYTES } else { 0 };
        let room = self.room(place.start..place.name, bytes);
        if let Some(end) = end_ms {
            debug_assert!(end <= crate::END_MS_MAX);
            room[0] = coding::END;
            room[1..].copy_from_slice(&end.to_le_bytes()[..END_BYTES - 1]);
            self.has_ends = true;
        }
        Ok(true)
    }

    /// Ends the writing; says whether there are bins.
    pub fn finish(self) -> bool {
        if self.has_ends {
            self.to[self.head] |= ENDS;
        }
        self.to.len() > self.body
    }
}
