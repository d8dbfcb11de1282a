//! Reads: no lock, and no write but the frequency and the time of last access.
//!
//! Keys that are read together are read in three stages, so that the waits for memory overlap:
//!
//! ```text
//!   Guard::prefetch      asks for the index bucket
//!   Guard::look_ahead    finds the first slot with the key's tag, asks for segment header and item
//!   Guard::read          compares, begins with that slot, and gives the value
//! ```
//!
//! A look ahead is a read that was begun early. The slot is loaded again when it is read. If it no longer holds the
//! key's item, or never did, the key is looked up again.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use base::clock::UnixMillis;

use crate::core::handle::Guard;
use crate::core::op::{Expire, Item, OpError, Value};
use crate::core::snap::Snap;
use crate::core::store::{Ended, Seen, Store};
use crate::heap::samples::Asked;
use crate::index::{Hash, RANGE_SLOTS_MAX, bump};
use crate::items::walk::{WALK_END, WALK_TAG_SHIFT};
use crate::items::write::rewrite::{Rewrite, TokenRule};
use crate::layout::item::bare;
use crate::layout::item::{CAS_TAKEN, META, META_FETCHED, NUM, meta_secs, meta_word};
use crate::layout::item::{META_STALE, META_WON};
use crate::layout::key::{Key, KeyHash, Namespace};
use crate::layout::raw::Word64;
use crate::layout::slot::Slot;

/// The most likely place of a key's item, found by [`Guard::look_ahead`]. The default is no place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead<'l>(Option<&'l Word64>);

/// The result of a plain read.
#[derive(Clone, Copy, Debug)]
pub struct Hit<'t> {
    /// The value.
    pub value: Value<'t>,
    /// Flags that the client stored with the value.
    pub client_flags: u32,
    /// The item is stale, or a client has won the right to refill it: see [`Guard::fetch`].
    pub is_leased: bool,
}

/// The state of a key at an instant. If two versions are equal, the key did not change between them, except that the
/// item may have been marked stale. Two versions of an absent key may differ although no item was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// An item: its CAS token, which is exact from then on, and its end.
    Item(u64, Expire),
    /// None: how far the index had grown, and how many keys had come.
    Absent(u64, u32),
}

impl Store {
    /// Returns the value in the slot `word`, if a live item with this key and nothing but its value is there: what a
    /// look ahead leads to nearly always, with what [`Store::find`], [`Store::ended`] and [`Store::note_access`] would
    /// do for it.
    #[inline(always)]
    fn bare_at(&self, key: &Key<'_>, word: &Word64) -> Option<&[u8]> {
        let slot = Slot(word.load(Acquire));
        if slot.tag() != key.hash.tag() || !slot.is_item() || key.piece {
            return None;
        }
        let header = self.segments.named(slot)?;
        let namespace = header.namespace_if_verified();
        if namespace != key.namespace {
            return None;
        }
        let (bytes, value) = bare(&self.segments.heap, slot.address())?;
        if bytes != key.bytes || header.sequence() < self.flushed_before(namespace) {
            return None;
        }
        bump(word, slot);
        Some(value)
    }

    /// Returns the value of an item, without what only some callers want of it.
    #[inline(always)]
    fn hit<'s>(&'s self, seen: &Seen<'_>) -> Hit<'s> {
        let client_flags = seen.layout.client_flags(&self.segments.heap, seen.address);
        let is_leased = self.meta(seen).is_some_and(|meta| meta & (META_STALE | META_WON) != 0);
        Hit { value: self.value(seen), client_flags, is_leased }
    }

    /// Counts an access: in the slot, and in META where there is one.
    #[inline(always)]
    pub(crate) fn note_access(&self, seen: &Seen<'_>, now: UnixMillis) {
        bump(seen.word, seen.slot);
        if seen.layout.has(META) {
            self.note_access_meta(seen, now);
        }
    }

    /// Marks the item's token as known to a client. The lock is held.
    pub(crate) fn mark_taken<'s>(&self, seen: &Seen<'s>) -> Seen<'s> {
        self.segments.heap.word32(seen.address).fetch_or(CAS_TAKEN, AcqRel);
        Seen { layout: seen.layout.taken(), ..*seen }
    }

    fn note_access_meta(&self, seen: &Seen<'_>, now: UnixMillis) {
        let word = seen.layout.meta(&self.segments.heap, seen.address);
        let meta = word.load(Relaxed);
        let secs = self.meta_now(now);
        if meta & META_FETCHED == 0 || meta_secs(meta) != secs {
            let next = meta_word(secs, meta & (META_STALE | META_WON) | META_FETCHED);
            // A lost race means that another reader noted its access, or that the item's lease changed.
            let _ = word.compare_exchange(meta, next, Relaxed);
        }
    }
}

impl<'l> Guard<'l> {
    #[inline(always)]
    pub(crate) fn find_live(&self, key: &Key<'_>) -> Option<Seen<'l>> {
        let store = self.store;
        let seen = store.find(key)?;
        match store.ended(&seen, self.now) {
            None => Some(seen),
            Some(ended) => {
                self.note_ended_read(ended);
                None
            }
        }
    }

    #[cold]
    fn note_ended_read(&self, ended: Ended) {
        match ended {
            Ended::Expired => self.counters().read_expired.add(1),
            Ended::Flushed => self.counters().read_flushed.add(1),
        }
    }

    /// Returns the key's item. Counts as an access.
    #[inline]
    pub fn get(&self, key: &Key<'_>) -> Option<Item<'_>> {
        self.sample(key, Asked::Read);
        let Some(seen) = self.find_live(key) else { return self.missing(key) };
        self.store.note_access(&seen, self.now);
        Some(self.store.item(&seen))
    }

    /// Notes a miss in memory whose item may be on flash.
    #[cold]
    #[inline(never)]
    fn missing(&self, key: &Key<'_>) -> Option<Item<'_>> {
        if self.tiered {
            self.note_missing(key);
        }
        None
    }

    /// Looks where the key's item is and asks for its lines. The key's index bucket should have been asked for by
    /// [`Guard::prefetch`].
    #[inline]
    pub fn look_ahead(&self, key: KeyHash) -> Ahead<'l> {
        let (store, mut word) = (self.store, None);
        store.index.first_match(key.hash, |at, slot| {
            store.segments.prefetch_header(slot.address());
            store.segments.heap.prefetch(slot.address());
            word = Some(at);
        });
        Ahead(word)
    }

    /// Returns the key's value, looked for first where `ahead` says. Counts as an access.
    #[inline(always)]
    pub fn read(&self, key: &Key<'_>, ahead: Ahead<'_>) -> Option<Hit<'_>> {
        self.sample(key, Asked::Read);
        let store = self.store;
        if let Some(value) = ahead.0.and_then(|word| store.bare_at(key, word)) {
            return Some(Hit { value: Value::Bytes(value), client_flags: 0, is_leased: false });
        }
        let seen = self.find_live(key)?;
        store.note_access(&seen, self.now);
        Some(store.hit(&seen))
    }

    /// Returns the key's item, without counting an access.
    pub fn peek(&self, key: &Key<'_>) -> Option<Item<'_>> {
        let Some(seen) = self.find_live(key) else { return self.missing(key) };
        Some(self.store.item(&seen))
    }

    /// Returns the key's item with a CAS token that is exact from now on. Counts as an access.
    ///
    /// # Errors
    /// [`OpError::Parked`] if the token was never taken and the stripe lock could not be taken;
    /// [`OpError::OutOfMemory`] if the token of a number was never taken, and checkpoints are made.
    pub fn gets(&mut self, key: &Key<'_>) -> Result<Option<Item<'_>>, OpError> {
        let taken = self.take(key)?;
        self.sample(key, Asked::Read);
        Ok(taken.map(|(seen, snap)| {
            self.store.note_access(&seen, self.now);
            self.store.item_as(&seen, &snap)
        }))
    }

    /// Returns the key's item with a CAS token that is exact from now on, without counting an access.
    ///
    /// # Errors
    /// Those of [`Guard::gets`].
    pub fn peek_gets(&mut self, key: &Key<'_>) -> Result<Option<Item<'_>>, OpError> {
        Ok(self.take(key)?.map(|(seen, snap)| self.store.item_as(&seen, &snap)))
    }

    /// Returns the state of the key now, distinguishable from its later states: see [`Version`].
    ///
    /// # Errors
    /// [`OpError::Parked`]: call again in a later iteration.
    pub fn version(&mut self, key: &Key<'_>) -> Result<Version, OpError> {
        let births = self.store.index.births(key.hash);
        Ok(match self.take(key)? {
            Some((seen, snap)) => Version::Item(snap.token(), snap.expire(self.store, &seen)),
            None => Version::Absent(births.0, births.1),
        })
    }

    /// Returns the version of a key that was absent when the store was opened. It differs from [`Guard::version`] once
    /// the key has been stored, even if it was removed again.
    pub fn absent_at_open(&self) -> Version {
        Version::Absent(self.store.index.growth_word(), 0)
    }

    /// Reports a request to the background, if its key is one of the sample.
    #[inline(always)]
    pub(crate) fn sample(&self, key: &Key<'_>, asked: Asked) {
        self.store.samples.note(self.own.id, key.hash, asked);
    }

    /// Marks the live item as one whose token a client knows, and returns it as it was when it was marked.
    ///
    /// Mark and snapshot are of one item: from the mark on, an operation that changes the item's value gives it another
    /// token or puts a copy in its place. A second look-up could find such a copy, which is not marked, and whose next
    /// change in place would leave the token that was read of it valid.
    pub(crate) fn take(&mut self, key: &Key<'_>) -> Result<Option<(Seen<'l>, Snap)>, OpError> {
        self.retry(|guard| {
            let Some((seen, snap)) = guard.snap_at_once(key)? else { return Ok(Some(None)) };
            if seen.layout.has(CAS_TAKEN) {
                return Ok(Some(Some((seen, snap))));
            }
            let taken = if guard.takes_by_copy(&seen) {
                guard.take_copy(key, seen, snap)?
            } else {
                guard.take_in_place(key)?
            };
            Ok(taken.map(Some))
        })
    }

    /// Returns true if a number is copied instead of being marked in place. If checkpoints are made, it is copied, and
    /// the copy never changes in place. The number before may have changed since the last checkpoint, and be back as it
    /// was then after a loss of power. Its token must not be one that a client has for what it became.
    pub(crate) fn takes_by_copy(&self, seen: &Seen<'_>) -> bool {
        seen.layout.has(NUM) && !seen.layout.has(CAS_TAKEN) && self.store.checkpoints.are_made()
    }

    /// `None`: the item changed meanwhile, and nothing was done.
    #[cold]
    fn take_copy(&mut self, key: &Key<'_>, seen: Seen<'l>, snap: Snap) -> Result<Option<(Seen<'l>, Snap)>, OpError> {
        let rewrite = Rewrite { token: TokenRule::New, taken: true, ..Rewrite::SAME };
        // The copy differs from what was looked at in its token alone.
        Ok(self.rewrite(key, &seen, snap, rewrite)?.map(|copy| (seen, snap.with_token(copy.token))))
    }

    /// Marks whatever live item is there, so that a busy counter never starts over. `None`: there is none to mark.
    fn take_in_place(&mut self, key: &Key<'_>) -> Result<Option<(Seen<'l>, Snap)>, OpError> {
        let store = self.store;
        let locked = self.lock(key)?;
        let there = store.live(store.find_locked(&locked, key), self.now);
        let Some(there) = there.filter(|there| !self.takes_by_copy(there)) else { return Ok(None) };
        let there = store.mark_taken(&there);
        Ok(Some((there, Snap::of(store, &there))))
    }

    #[cold]
    pub(crate) fn parked(&self) -> OpError {
        self.counters().parked.add(1);
        OpError::Parked
    }

    /// Visits a few live items in memory of a namespace, those that come next from `cursor` on (0 begins), and gives
    /// the next cursor; `None` at the end. An item that stays from the first call to the last is visited at least
    /// once, whatever the index does meanwhile; it may be visited twice in one call, never in two.
    pub fn scan(&self, namespace: Namespace, cursor: u64, visit: &mut dyn FnMut(&Item<'_>)) -> Option<u64> {
        self.scan_some(|of| of == namespace.0, cursor, &mut |_, item| visit(item))
    }

    /// Visits items as [`Guard::scan`] does, for the namespaces that `takes` accepts.
    #[inline(always)]
    pub(crate) fn scan_some(
        &self,
        takes: impl Fn(u8) -> bool + Copy,
        cursor: u64,
        visit: &mut impl FnMut(Namespace, &Item<'_>),
    ) -> Option<u64> {
        let store = self.store;
        let (tags, from) = ((cursor >> 32) as u16, cursor as u32);
        let mut slots = [Slot::EMPTY; RANGE_SLOTS_MAX];
        let range = store.index.range(from, &mut slots);
        let mut items = [0u16; RANGE_SLOTS_MAX];
        let mut count = 0;
        for (at, slot) in slots[..range.count].iter().enumerate() {
            if slot.is_item() && slot.tag() >> WALK_TAG_SHIFT == tags {
                store.segments.prefetch_header(slot.address());
                store.segments.heap.prefetch(slot.address());
                items[count] = at as u16;
                count += 1;
            }
        }
        let within = |hash: Hash| (from..=range.last).contains(&hash.group_hash());
        for at in items[..count].iter().map(|at| usize::from(*at)) {
            self.visit_slot(takes, store.index.range_word(&range, at), slots[at], within, &mut *visit);
        }
        let next = (u64::from(tags) << 32 | u64::from(range.last)) + 1;
        (next < WALK_END).then_some(next)
    }

    /// Visits the item in memory that a slot names, if it lives, its namespace is taken and its key's hash `within`.
    #[inline(always)]
    pub(crate) fn visit_slot(
        &self,
        takes: impl Fn(u8) -> bool,
        word: &Word64,
        slot: Slot,
        within: impl Fn(Hash) -> bool,
        mut visit: impl FnMut(Namespace, &Item<'_>),
    ) {
        let store = self.store;
        let Some((of, address, layout)) = store.item_of(slot) else { return };
        if !takes(of) || !within(store.hash_at(of, address, &layout)) {
            return;
        }
        let seen = Seen { word, slot, address, layout };
        if seen.layout.kind() != crate::layout::item::Kind::Piece && store.ended(&seen, self.now).is_none() {
            visit(Namespace(of), &store.item(&seen));
        }
    }
}
