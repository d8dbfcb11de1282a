//! Changes of items. Every change is made under the stripe lock of the item's key.
//!
//! An operation first looks up the item without a lock and decides on its change. It writes the new bytes, if any,
//! where no other thread can see them. Then it takes the lock and looks up the item again. The operation completes only
//! if nothing on which its decision was based has changed ([`Snap`]). Otherwise it starts over, a bounded number of
//! times, and then parks.
//!
//! **Replies describe one snapshot.** In each attempt, an operation decides from a snapshot of the item, and compares
//! the snapshot with the item again under the lock. Its reply reports that snapshot and its own change. The operation
//! never looks up the key again for its reply, because another client may have changed the item by then.
//!
//! **A token that a client receives** belongs to the same item that was marked CAS_TAKEN ([`crate::Versions::take`]):
//! the mark is set and the token is read in one step, under the lock. From then on every change of that item's value
//! gives it another token.
//!
//! **While the index is rebuilt** ([`crate::durable::rebuild`]), a removal replaces the item by an item that has
//! already expired. So an older version that the rebuild finds later does not become the key's item again.
//!
//! **Changes in place** (number, expiry, lease) touch shared words of a published item. If the value changes and a
//! client may know the CAS token, the operation stores the value first and a fresh token second. Readers load the token
//! first. So a client never receives a token with a value older than the token. After a crash between the two steps,
//! the old token must not belong to the new value. So in a memory file, the operation first stores a token that no
//! client ever receives, then the value. Therefore a start need not renew tokens, and an unchanged item retains its
//! token. In a store with checkpoints, operations under a key lock set change nothing in place ([`Guard::copies_all`]).

mod arith;
pub(crate) mod delete;
mod fetch;
pub(crate) mod put;
pub(crate) mod replace;
pub(crate) mod rewrite;
pub(crate) mod touch;

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::fence;

use crate::core::facets::{Commits, Items};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked, live};
use crate::core::op::OpError;
use crate::core::snap::Snap;
use crate::core::store::Store;
use crate::layout::item::{CAS_FIELD, META_FETCHED, META_STALE, META_WON};
use crate::layout::key::Key;

/// The number of times that an operation starts over because another thread changed the item, before the operation
/// parks.
pub(crate) const RETRIES: usize = 4;

const _: () = assert!(META_FETCHED & (META_STALE | META_WON) == 0);

/// Fresh CAS tokens for one change in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens {
    /// A token that no client ever receives. It marks a value whose change was interrupted by a crash. `None` unless
    /// the store is in a memory file.
    before: Option<u64>,
    pub(crate) after: u64,
}

/// Begins a change of a value in place. The caller of this function, and of the next functions, holds the stripe lock.
fn begin_in_place(store: &Store, seen: &FoundItem<'_>, tokens: Tokens) {
    if let Some(before) = tokens.before.filter(|_| seen.layout.has(CAS_FIELD)) {
        seen.layout.cas_field(&store.segments.heap, seen.address).store(before, Release);
    }
}

fn end_in_place(store: &Store, seen: &FoundItem<'_>, tokens: Tokens) {
    if seen.layout.has(CAS_FIELD) {
        seen.layout.cas_field(&store.segments.heap, seen.address).store(tokens.after, Release);
    }
}

/// Stores another number in place, first the value and then the token: see the module's doc.
pub(crate) fn store_number(store: &Store, seen: &FoundItem<'_>, number: u64, tokens: Tokens) {
    begin_in_place(store, seen, tokens);
    seen.layout.number(&store.segments.heap, seen.address).store(number, Release);
    end_in_place(store, seen, tokens);
}

impl<'l> Commits<'_, 'l> {
    /// Returns tokens for a change that may be made in place.
    pub(crate) fn tokens_of_change(self) -> Tokens {
        let store = self.guard.store;
        let before = store.held.is_some().then(|| self.guard.own.tokens.fresh(store));
        Tokens { before, after: self.guard.own.tokens.fresh(store) }
    }

    /// Calls `attempt` until it returns `Some`, at most [`RETRIES`] times. Then parks.
    pub(crate) fn retry<T>(
        self,
        mut attempt: impl FnMut(&mut Guard<'l>) -> Result<Option<T>, OpError>,
    ) -> Result<T, OpError> {
        for _ in 0..RETRIES {
            if let Some(done) = attempt(self.guard)? {
                return Ok(done);
            }
        }
        Err(self.guard.parked())
    }
}

impl<'l> Items<'_, 'l> {
    /// Returns the live item and a snapshot of all fields on which a change relies.
    #[inline]
    pub(crate) fn snap(self, key: &Key<'_>) -> Result<Option<(FoundItem<'l>, Snap)>, OpError> {
        Ok(self.guard.locks().find_admitted(key)?.map(|seen| (seen, Snap::of(self.guard.store, &seen))))
    }

    /// Returns the live item and a snapshot, at one instant, of all fields on which a change relies. If only one word
    /// of the item can change in place, the snapshot always belongs to one instant. Several words belong to one instant
    /// if no thread held the stripe lock while they were loaded. Otherwise they are loaded again under the lock.
    #[inline]
    pub(crate) fn snap_at_once(self, key: &Key<'_>) -> Result<Option<(FoundItem<'l>, Snap)>, OpError> {
        match self.snap(key)? {
            Some((seen, _)) if seen.layout.has_several_words() => snap_words(self.guard, key),
            there => Ok(there),
        }
    }
}

fn snap_words<'l>(guard: &Guard<'l>, key: &Key<'_>) -> Result<Option<(FoundItem<'l>, Snap)>, OpError> {
    let (store, index) = (guard.store, &guard.store.index);
    let before = (index.growth(), index.changes(key.hash));
    let Some((seen, snap)) = guard.items().snap(key)? else { return Ok(None) };
    fence(Acquire);
    if before.1.is_some() && before == (index.growth(), index.changes(key.hash)) {
        return Ok(Some((seen, snap)));
    }
    let locked = index.lock(key.hash).ok_or_else(|| guard.parked())?;
    match live(store, find_locked(store, &locked, key), guard.now) {
        Some(there) => Ok(Some((there, Snap::of(store, &there)))),
        // The item may have moved to flash.
        None if guard.tiered => Err(guard.parked()),
        None => Ok(None),
    }
}
