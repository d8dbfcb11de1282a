//! Key lock sets. A handle reads and changes several keys atomically, as seen by all other handles. A key's hash
//! selects one of 4096 lock words, independently of the index's size. A caller locks several keys in these steps:
//!
//! ```text
//!   announce   count the set as in flight: every guard that begins later tests the lock words of the keys it uses
//!   lock       lock the words of the set's keys in ascending order; park at a word that another set holds
//!   wait       park until every guard that was in progress when the last word was acquired has ended
//!   act        run the operations, over one or more iterations: no other handle reads or changes these keys now
//!   release    release the words, then withdraw the announcement
//! ```
//!
//! ```text
//!   another handle    |-- guard: no set in flight, no tests -----|         |-- guard: tests, parks ---|
//!   a transaction         announce   lock    . . . wait . . . . |  act  act  release
//! ```
//!
//! Invariants:
//! - While no key lock set is in flight, the only cost is that a guard loads one word when it begins, and that each
//!   operation tests the loaded value.
//! - Either a guard sees the announcement, and then also every word that was locked before the guard began. Or the
//!   set's owner sees the guard and waits for its end. For this, both sides store, pass a `SeqCst` fence, and then load
//!   (see [`crate::core::epoch`]).
//! - Words are locked in ascending order, and held while the key lock set waits for the next word. So there is no
//!   deadlock. A key lock set that holds all its words waits only for guards, and guards never wait.
//! - A lock word excludes other handles from a key, but not the background, which moves, expires and evicts items as
//!   usual. So operations under a key lock set may have to wait for memory, but eventually obtain it. If the background
//!   evicts a locked key's item, the next read is an ordinary miss.
//! - A set that already acts may obtain further words in any order ([`LockHolds::extend`]). Only one set at a time does
//!   so. While it waits, sets that do not act yet release their words, and sets that act end without waiting. So there
//!   is no deadlock here either.
//! - The hidden keys of pieces are not locked, because pieces are found only through their head.
//! - In a memory file, either all changes under one key lock set survive a crash, or none: [`crate::locks::undo`].
//!
//! Bounds: at most [`crate::KEY_LOCKS_MAX`] key lock sets in flight, each with a bit for each word and an entry for
//! each handle.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::core::facets::{LockChecks, LockHolds};
use crate::core::handle::Guard;
use crate::core::lookup::FoundItem;
use crate::core::op::OpError;
use crate::core::store::Store;
use crate::index::Locked;
use crate::layout::key::Key;
use crate::locks::undo::close_group;
use crate::locks::undo_log::Group;
use crate::locks::words::{WORDS, word_of};
use crate::tier::flash_slots::tier;

/// A guard of another handle that was in progress when the last word was acquired.
#[derive(Clone, Copy, Debug)]
struct LockConflict {
    handle: usize,
    guards: u64,
}

/// A key lock set: several keys to be read and changed atomically. See the module `key_locks`. [`key_locks`] creates
/// the set. After the first [`LockHolds::acquire`], the owner must call [`release`].
#[derive(Debug)]
pub struct KeyLocks {
    /// The set's number, or 0 before the set is announced.
    number: u32,
    wanted: [u64; WORDS / 64],
    /// A bit for each of `wanted` that is not 0, so that a search skips all others.
    wanted_blocks: u64,
    /// The word number below which the key lock set holds all its words.
    had_below: usize,
    /// The number of guards that were in progress when the last word was acquired and may still be in progress. `None`
    /// until the last word is acquired.
    met: Option<usize>,
    guards: Box<[LockConflict]>,
    /// True if the set is counted among those that wait for a further word.
    waits_to_extend: bool,
    /// The changes that were made under the set, with their undo records.
    changes: Group,
    #[cfg(all(test, shuttle))]
    skips_waiting: bool,
}

impl KeyLocks {
    /// Adds a key. Allowed only before the first [`LockHolds::acquire`].
    pub fn add(&mut self, key: &Key<'_>) {
        assert!(self.number == 0, "a claim is made before it is begun");
        self.want(word_of(key.hash));
    }

    fn want(&mut self, word: usize) {
        self.wanted[word / 64] |= 1 << (word % 64);
        self.wanted_blocks |= 1 << (word / 64);
    }

    /// Adds all keys, by adding every lock word.
    pub fn add_all(&mut self) {
        assert!(self.number == 0, "a claim is made before it is begun");
        self.wanted.fill(u64::MAX);
        self.wanted_blocks = u64::MAX;
    }

    /// Returns true if the set was announced and not released since.
    pub fn is_begun(&self) -> bool {
        self.number != 0
    }

    /// Returns the number of the set's lowest word that is not below `from`.
    fn next_word(&self, from: usize) -> Option<usize> {
        const _: () = assert!(WORDS / 64 == u64::BITS as usize, "the blocks are the bits of one number");
        if from >= WORDS {
            return None;
        }
        let bits = self.wanted[from / 64] >> (from % 64);
        if bits != 0 {
            return Some(from + bits.trailing_zeros() as usize);
        }
        // Shifted twice, because the block may be the last one.
        let behind = self.wanted_blocks & (u64::MAX << (from / 64) << 1);
        let block = behind.trailing_zeros() as usize;
        (behind != 0).then(|| block * 64 + self.wanted[block].trailing_zeros() as usize)
    }

    /// Returns true if the set holds the word of a key. The set has to hold all its words.
    pub fn holds(&self, key: &Key<'_>) -> bool {
        let word = word_of(key.hash);
        self.wanted[word / 64] >> (word % 64) & 1 == 1
    }

    /// Records that the set does not wait for a further word any more.
    fn end_wait(&mut self, store: &Store) {
        if std::mem::take(&mut self.waits_to_extend) {
            store.key_locks.rest.extending.fetch_sub(1, SeqCst);
        }
    }

    #[cfg(all(test, shuttle))]
    pub(crate) fn skip_waiting(&mut self) {
        self.skips_waiting = true;
    }
}

/// Returns an empty key lock set.
pub(crate) fn key_locks(store: &Store) -> KeyLocks {
    KeyLocks {
        number: 0,
        wanted: [0; WORDS / 64],
        wanted_blocks: 0,
        had_below: 0,
        met: None,
        guards: vec![LockConflict { handle: 0, guards: 0 }; store.epochs.handles()].into_boxed_slice(),
        waits_to_extend: false,
        changes: Group::default(),
        #[cfg(all(test, shuttle))]
        skips_waiting: false,
    }
}

/// Releases the words that a key lock set holds, even if it does not hold all of its words. Changes that were made
/// under the set remain. Afterwards the set is empty and can be used again.
pub(crate) fn release(store: &Store, key_locks: &mut KeyLocks) {
    if key_locks.number != 0 {
        close_group(store, &mut key_locks.changes);
        release_words(store, key_locks);
        key_locks.end_wait(store);
        let before = store.key_locks.in_flight.fetch_sub(1, SeqCst);
        assert!(before > 0, "a claim is let go once");
    }
    (key_locks.number, key_locks.had_below, key_locks.met) = (0, 0, None);
    (key_locks.wanted, key_locks.wanted_blocks) = ([0; WORDS / 64], 0);
}

/// Releases the words that a key lock set holds. The set remains announced.
fn release_words(store: &Store, key_locks: &mut KeyLocks) {
    let mut from = 0;
    while let Some(word) = key_locks.next_word(from).filter(|word| *word < key_locks.had_below) {
        let word_there = &store.key_locks.rest.words[word];
        debug_assert_eq!(word_there.load(Relaxed), key_locks.number, "a word is its claimant's until he lets go");
        word_there.store(0, SeqCst);
        from = word + 1;
    }
    key_locks.had_below = 0;
}

/// Returns the number of key lock sets in flight.
pub(crate) fn key_locks_in_flight(store: &Store) -> u64 {
    store.key_locks.in_flight.load(Relaxed)
}

impl<'l> LockChecks<'_, 'l> {
    /// Returns true if a key lock set of another handle excludes this guard from the key, or if the key may be on
    /// flash. If the key may be on flash, requests a flash read. A caller that only reads the key must park if the
    /// result is true. Operations that change a key make this check themselves.
    #[inline(always)]
    pub fn is_blocked(self, key: &Key<'_>) -> bool {
        self.guard.is_guarded() && (self.is_locked_by_other(key) || self.guard.tier().awaits_flash(key))
    }

    /// Returns true if a key lock set of another handle excludes this guard from the key. Plain reads use this
    /// function, because they check flash separately.
    #[inline(always)]
    pub fn is_locked_by_other(self, key: &Key<'_>) -> bool {
        self.guard.contended && is_locked(self.guard, key)
    }

    /// Checks that an operation on the key may complete without the stripe lock.
    #[inline(always)]
    pub(crate) fn admit(self, key: &Key<'_>) -> Result<(), OpError> {
        if self.is_blocked(key) { Err(self.guard.parked()) } else { Ok(()) }
    }

    /// Returns the live item of a key, with which an operation may complete. `None` means that the key has no item in
    /// memory or on flash.
    #[inline(always)]
    pub(crate) fn find_admitted(self, key: &Key<'_>) -> Result<Option<FoundItem<'l>>, OpError> {
        self.admit(key)?;
        let found = self.guard.items().find_live(key);
        // The item may have moved to flash since the check.
        if self.guard.tiered && found.is_none() && !self.guard.tier().is_nowhere(key) {
            return Err(self.guard.parked());
        }
        Ok(found)
    }

    /// Takes the stripe lock for a change of the key.
    #[inline(always)]
    pub(crate) fn lock(self, key: &Key<'_>) -> Result<Locked<'l>, OpError> {
        if self.guard.is_guarded() {
            return lock_guarded(self.guard, key, false);
        }
        self.guard.store.index.lock(key.hash).ok_or_else(|| self.guard.parked())
    }

    /// Takes the stripe lock for a change that does not depend on the present item, whether that item is on flash or in
    /// memory.
    #[inline(always)]
    pub(crate) fn lock_over(self, key: &Key<'_>) -> Result<Locked<'l>, OpError> {
        if self.guard.is_guarded() {
            return lock_guarded(self.guard, key, true);
        }
        self.guard.store.index.lock(key.hash).ok_or_else(|| self.guard.parked())
    }

    /// Returns true if the guard is attached to a key lock set that holds the key.
    #[inline]
    pub fn is_held(self, key: &Key<'_>) -> bool {
        let acting = self.guard.acting;
        acting != 0 && self.guard.store.key_locks.rest.words[word_of(key.hash)].load(SeqCst) == acting
    }

    /// Returns true if the guard is attached to a key lock set.
    pub fn is_attached(self) -> bool {
        self.guard.acting != 0
    }
}

impl LockHolds<'_, '_> {
    /// Continues to acquire the words of a key lock set until it holds all of them. The caller then calls
    /// [`LockHolds::attach`].
    ///
    /// # Errors
    /// [`OpError::Parked`]: call again in a later iteration. The words acquired so far are retained.
    pub fn acquire(self, key_locks: &mut KeyLocks) -> Result<(), OpError> {
        let store = self.guard.store;
        if key_locks.number == 0 {
            if !store.key_locks.announce() {
                return Err(self.guard.parked());
            }
            key_locks.number = store.key_locks.number();
            // The later operations of this guard must also test the lock words.
            self.guard.contended = true;
        }
        // A set that already acts waits for a word: it obtains the word first, because it cannot release its own words.
        if key_locks.met.is_none() && store.key_locks.rest.extending.load(SeqCst) != 0 {
            release_words(store, key_locks);
            return Err(self.guard.parked());
        }
        while let Some(word) = key_locks.next_word(key_locks.had_below) {
            if store.key_locks.rest.words[word].compare_exchange(0, key_locks.number, SeqCst).is_err() {
                return Err(self.guard.parked());
            }
            key_locks.had_below = word + 1;
        }
        wait_for_guards(self.guard, key_locks)
    }

    /// Adds a key to a key lock set that holds all its words, and to which the guard is not attached. The set may then
    /// wait for the key while it holds its other words. So the caller ensures that only one set at a time is extended.
    ///
    /// # Errors
    /// [`OpError::Parked`]: call again in a later iteration, with the same key.
    pub fn extend(self, key_locks: &mut KeyLocks, key: &Key<'_>) -> Result<(), OpError> {
        assert!(key_locks.number != 0 && self.guard.acting == 0, "a set is extended between two acts");
        let store = self.guard.store;
        if !key_locks.holds(key) {
            let word = word_of(key.hash);
            if store.key_locks.rest.words[word].compare_exchange(0, key_locks.number, SeqCst).is_err() {
                if !key_locks.waits_to_extend {
                    key_locks.waits_to_extend = true;
                    store.key_locks.rest.extending.fetch_add(1, SeqCst);
                }
                return Err(self.guard.parked());
            }
            key_locks.end_wait(store);
            key_locks.want(word);
            (key_locks.had_below, key_locks.met) = (WORDS, None);
        }
        wait_for_guards(self.guard, key_locks)
    }

    /// Waits until every other guard that is in progress at the first call has ended, while a key lock set holds all
    /// its words. The guard is not attached to the set.
    ///
    /// # Errors
    /// [`OpError::Parked`]: call again in a later iteration, with `is_first` false.
    pub fn await_guards(self, key_locks: &mut KeyLocks, is_first: bool) -> Result<(), OpError> {
        assert!(key_locks.met.is_some() && self.guard.acting == 0, "a set waits again between two acts");
        if is_first {
            key_locks.met = None;
        }
        wait_for_guards(self.guard, key_locks)
    }

    /// Attaches the guard to the key lock set until [`LockHolds::detach`]. The set's keys are then not blocked for this
    /// guard. The set has to hold all its words.
    pub fn attach(self, key_locks: &mut KeyLocks) {
        assert!(
            key_locks.number != 0 && key_locks.met == Some(0) || cfg!(all(test, shuttle)),
            "all words of the set have to be locked"
        );
        assert!(self.guard.acting == 0, "a turn acts for one claim at a time");
        self.guard.acting = key_locks.number;
        std::mem::swap(self.guard.own.group.get_mut(), &mut key_locks.changes);
        self.guard.own.open.seal_partial(self.guard.store, self.guard.now);
        self.guard.locks_mut().bring_together();
    }

    /// Detaches the guard from a key lock set. `key_locks` must be the set to which the guard is attached, if it is
    /// attached.
    pub fn detach(self, key_locks: &mut KeyLocks) {
        if self.guard.acting != 0 {
            assert!(self.guard.acting == key_locks.number, "a turn acted for another claim");
            self.guard.acting = 0;
            std::mem::swap(self.guard.own.group.get_mut(), &mut key_locks.changes);
        }
    }
}

#[cold]
fn is_locked(guard: &Guard<'_>, key: &Key<'_>) -> bool {
    let number = guard.store.key_locks.rest.words[word_of(key.hash)].load(SeqCst);
    number != 0 && number != guard.acting && !key.piece
}

#[cold]
fn lock_guarded<'l>(guard: &Guard<'l>, key: &Key<'_>, over: bool) -> Result<Locked<'l>, OpError> {
    // A group of changes retains the previous items for undo. On flash, the key's items cannot be distinguished from
    // other keys' items, so the item has to be read first.
    let over = over && !(guard.acting != 0 && guard.store.undo.is_some());
    if over && guard.locks().is_locked_by_other(key) {
        return Err(guard.parked());
    }
    if !over {
        guard.locks().admit(key)?;
    }
    let locked = guard.store.index.lock(key.hash).ok_or_else(|| guard.parked())?;
    // The item may have moved to flash since the lookup.
    if !over && guard.tiered && guard.tier().may_be_on_flash(&locked, key) {
        return Err(guard.parked());
    }
    if guard.acting != 0 {
        guard.locks().note_before(key, &locked)?;
    }
    if guard.store.finds && !key.piece {
        tier(guard.store).change(key.hash.0);
    }
    Ok(locked)
}

fn wait_for_guards(guard: &Guard<'_>, key_locks: &mut KeyLocks) -> Result<(), OpError> {
    #[cfg(all(test, shuttle))]
    if key_locks.skips_waiting {
        return Ok(());
    }
    let epochs = &guard.store.epochs;
    let mut met = match key_locks.met {
        Some(met) => met,
        None => {
            let mut met = 0;
            // A guard that begins after this fence sees the announcement and every locked word.
            epochs.before_guards();
            // The operations of this handle in its own guard are complete.
            for handle in (0..epochs.handles()).filter(|handle| *handle != guard.own.id) {
                if let Some(guards) = epochs.guard_of(handle) {
                    key_locks.guards[met] = LockConflict { handle, guards };
                    met += 1;
                }
            }
            met
        }
    };
    while met > 0 && epochs.guard_of(key_locks.guards[met - 1].handle) != Some(key_locks.guards[met - 1].guards) {
        met -= 1;
    }
    key_locks.met = Some(met);
    if met == 0 { Ok(()) } else { Err(guard.parked()) }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn key_locks() -> KeyLocks {
        KeyLocks {
            number: 0,
            wanted: [0; WORDS / 64],
            wanted_blocks: 0,
            had_below: 0,
            met: None,
            guards: Box::default(),
            waits_to_extend: false,
            changes: Group::default(),
        }
    }

    #[test]
    fn no_word_of_a_key_lock_set_is_passed_over_at_the_borders_of_blocks() {
        let borders = [0, 1, 62, 63, 64, 65, 127, 128, 2047, 2048, WORDS - 65, WORDS - 64, WORDS - 2, WORDS - 1];
        for chosen in 0..1 << borders.len() {
            let words = borders.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1).map(|(_, word)| *word);
            let words: BTreeSet<usize> = words.collect();
            let mut set = key_locks();
            words.iter().for_each(|word| set.want(*word));
            for from in borders.into_iter().chain([WORDS]) {
                assert_eq!(set.next_word(from), words.range(from..).next().copied(), "{words:?} from {from}");
            }
        }
        let mut set = key_locks();
        set.add_all();
        assert!((0..WORDS).all(|word| set.next_word(word) == Some(word)));
        assert_eq!(set.next_word(WORDS), None);
    }
}
