//! Reads of versions and of exact CAS tokens. A version is the state of a key for a later comparison. A token is exact
//! if, from the read on, every change of the value changes the token.

use crate::core::facets::{Items, Versions};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked, live};
use crate::core::op::{Expire, Item, OpError};
use crate::core::snap::Snap;
use crate::heap::samples::RequestKind;
use crate::items::write::rewrite::{Rewrite, TokenRule};
use crate::layout::item::{CAS_TAKEN, NUM};
use crate::layout::key::Key;

/// The state of a key at an instant. If two versions are equal, the key did not change between them, except that the
/// item may have been marked stale. Two versions of an absent key may differ although no item was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The key has an item, with this CAS token and this expiry. From then on every change of the value changes the
    /// token.
    Item(u64, Expire),
    /// The key has no item. The numbers are the index's growth word and a counter of new keys.
    Absent(u64, u32),
}

impl<'g, 'l> Versions<'g, 'l> {
    /// Returns the key's item with a CAS token that is exact from now on. Counts as an access.
    ///
    /// # Errors
    /// If the token was never read before: [`OpError::Parked`] if the stripe lock could not be taken; for a number in a
    /// store with checkpoints, [`OpError::OutOfMemory`] if there is no memory for a copy.
    pub fn gets(self, key: &Key<'_>) -> Result<Option<Item<'g>>, OpError> {
        let taken = self.guard.versions().take(key)?;
        self.guard.sample(key, RequestKind::Read);
        Ok(taken.map(|(seen, snap)| {
            seen.note_access(self.guard.store, self.guard.now);
            seen.item_as(self.guard.store, &snap)
        }))
    }

    /// Returns the key's item with a CAS token that is exact from now on, without counting an access.
    ///
    /// # Errors
    /// Those of [`Versions::gets`].
    pub fn peek_gets(self, key: &Key<'_>) -> Result<Option<Item<'g>>, OpError> {
        Ok(self.guard.versions().take(key)?.map(|(seen, snap)| seen.item_as(self.guard.store, &snap)))
    }

    /// Returns the state of the key now, distinguishable from its later states: see [`Version`].
    ///
    /// # Errors
    /// [`OpError::Parked`]: call again in a later iteration.
    pub fn version(self, key: &Key<'_>) -> Result<Version, OpError> {
        let births = self.guard.store.index.births(key.hash);
        Ok(match self.guard.versions().take(key)? {
            Some((seen, snap)) => Version::Item(snap.token(), snap.expire(self.guard.store, &seen)),
            None => Version::Absent(births.0, births.1),
        })
    }

    /// Marks the live item's token as known to a client, and returns the item with its state at that instant. The mark
    /// and the snapshot belong to the same item. After the mark, an operation that changes the item's value gives the
    /// item another token or replaces the item by a copy. So callers must not look up the key again: they could find
    /// such a copy, which is not marked. The copy's next change in place would then not invalidate the token.
    pub(crate) fn take(self, key: &Key<'_>) -> Result<Option<(FoundItem<'l>, Snap)>, OpError> {
        self.guard.commits().retry(|guard| {
            let Some((seen, snap)) = guard.items().snap_at_once(key)? else { return Ok(Some(None)) };
            if seen.layout.has(CAS_TAKEN) {
                return Ok(Some(Some((seen, snap))));
            }
            let taken = if takes_by_copy(guard, &seen) {
                take_copy(guard, key, seen, snap)?
            } else {
                take_in_place(guard, key)?
            };
            Ok(taken.map(Some))
        })
    }
}

/// Returns true if a number must be copied instead of being marked in place. A store with checkpoints copies the
/// number, and the copy never changes in place. The original may have changed since the last checkpoint, and may return
/// to its old value after a power loss. So no client may receive the original's token.
pub(crate) fn takes_by_copy(guard: &Guard<'_>, seen: &FoundItem<'_>) -> bool {
    seen.layout.has(NUM) && !seen.layout.has(CAS_TAKEN) && guard.store.checkpoints.are_made()
}

/// Marks a number by copying it. Returns `None` if the item changed meanwhile; nothing is then changed.
#[cold]
fn take_copy<'l>(
    guard: &mut Guard<'l>,
    key: &Key<'_>,
    seen: FoundItem<'l>,
    snap: Snap,
) -> Result<Option<(FoundItem<'l>, Snap)>, OpError> {
    let rewrite = Rewrite { token: TokenRule::New, taken: true, ..Rewrite::SAME };
    // The copy differs from the item only in its token.
    Ok(guard.commits().rewrite(key, &seen, snap, rewrite)?.map(|copy| (seen, snap.with_token(copy.token))))
}

/// Marks the key's live item, even if the item changed since the lookup, so that an operation on a busy counter never
/// starts over. Returns `None` if the key has no item that can be marked in place.
fn take_in_place<'l>(guard: &mut Guard<'l>, key: &Key<'_>) -> Result<Option<(FoundItem<'l>, Snap)>, OpError> {
    let store = guard.store;
    let locked = guard.locks().lock(key)?;
    let there = live(store, find_locked(store, &locked, key), guard.now);
    let Some(there) = there.filter(|there| !takes_by_copy(guard, there)) else { return Ok(None) };
    let there = there.mark_taken(store);
    Ok(Some((there, Snap::of(store, &there))))
}

impl Items<'_, '_> {
    /// Returns the version of a key that was absent when the store was opened. It differs from [`Versions::version`]
    /// once the key has been stored, even if it was removed again.
    pub fn absent_at_open(self) -> Version {
        Version::Absent(self.guard.store.index.growth_word(), 0)
    }
}
