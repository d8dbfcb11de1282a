//! Changes that depend on the present item: a caller decides from the item, and its decision is applied only if the
//! item is still the same.
//!
//! ```text
//!   look ──item──> decide ──> Keep                            nothing is done
//!                        ├──> Remove, Expire ───> lock, the same? done, else look again
//!                        └──> Store, bytes in the scratch ──> written, lock, the same? published, else look again
//! ```
//!
//! The callback that decides must come to the same result from the same item, and have no effect of its own. It may be
//! called again, a bounded number of times, after which the operation parks.

use std::cell::RefCell;
use std::ops::Range;

use crate::core::facets::ItemsMut;
use crate::core::handle::Guard;
use crate::core::lookup::{find_locked, live};
use crate::core::op::{Expire, Item, OpError, Put};
use crate::core::snap::Snap;
use crate::core::store::large_value;
use crate::items::unpublished::{Content, Plan, kill, unname};
use crate::items::write::put::Expect;
use crate::layout::item::Kind;
use crate::layout::key::Key;
use crate::layout::slot::Slot;
use crate::values::source::Source;
use crate::values::writer::LargeWriter;

/// The parts that a change creates, and those that no head names after it.
#[derive(Debug, Default)]
pub struct Parts {
    /// The bytes of all new parts.
    pub bytes: Vec<u8>,
    /// Each with its number, from [`crate::PartReads::part_number`], and its place in the bytes.
    pub new: Vec<(u64, Range<usize>)>,
    /// The numbers of the removed parts.
    pub gone: Vec<u64>,
}

/// The change that a callback decides on for an item, with the answer that the caller gets after the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<T> {
    /// The item stays as it is.
    Keep(T),
    /// The item is removed.
    Remove(T),
    /// The item gets another expiry.
    Expire(Expire, T),
    /// The bytes in the scratch replace it.
    Store {
        /// Opaque to the store.
        client_flags: u32,
        /// Expiry of the new item.
        expire: Expire,
        /// For the caller.
        answer: T,
    },
    /// The bytes in the scratch replace it, as a value with parts ([`crate::Value::Typed`]). It has to fit into one
    /// piece.
    StoreTyped {
        /// The type of the value, opaque to the store.
        kind: u8,
        /// Expiry of the new item.
        expire: Expire,
        /// For the caller.
        answer: T,
    },
}

/// A callback that decides about a value that is written already. It returns `None` if it cannot decide now.
pub type DecideAlone<'d, T> = dyn FnMut(&Guard<'_>, Option<&Item<'_>>) -> Option<Change<T>> + 'd;

impl<T> Change<T> {
    /// Returns the same change with another answer.
    pub fn map<U>(self, to: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Self::Keep(answer) => Change::Keep(to(answer)),
            Self::Remove(answer) => Change::Remove(to(answer)),
            Self::Expire(expire, answer) => Change::Expire(expire, to(answer)),
            Self::Store { client_flags, expire, answer } => Change::Store { client_flags, expire, answer: to(answer) },
            Self::StoreTyped { kind, expire, answer } => Change::StoreTyped { kind, expire, answer: to(answer) },
        }
    }
}

/// The result of [`crate::Numbers::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// The number is now this.
    Number(i64),
    /// The value is not a signed decimal number of 64 bits.
    NotInteger,
    /// The sum does not fit into 64 bits.
    Overflow,
    /// The value is typed: see [`crate::Value::Typed`].
    WrongType,
}

/// A callback that decides on a change from the item. It reads the item's value through the guard
/// ([`crate::Pieces::copy_range`]).
pub type Decide<'d, T> = dyn FnMut(&Guard<'_>, Option<&Item<'_>>, &mut Vec<u8>) -> Change<T> + 'd;

impl ItemsMut<'_, '_> {
    /// Applies the change that `decide` selects for the live item. `decide` writes the bytes to store into the scratch,
    /// which is empty at the call. Afterwards the scratch releases its room beyond that for an item in one piece.
    /// Counts as an access.
    ///
    /// # Errors
    /// [`OpError::Parked`] (nothing was changed: again in a later iteration), [`OpError::TooLarge`],
    /// [`OpError::OutOfMemory`].
    pub fn change<T>(self, key: &Key<'_>, decide: &mut Decide<'_, T>) -> Result<T, OpError> {
        self.guard.items_mut().change_with(key, None, decide)
    }

    /// Applies the change that `decide` selects, as [`ItemsMut::change`] does. `decide` puts the parts of a value in
    /// parts into `parts`.
    pub(crate) fn change_with<T>(
        self,
        key: &Key<'_>,
        parts: Option<&RefCell<Parts>>,
        decide: &mut Decide<'_, T>,
    ) -> Result<T, OpError> {
        self.guard.sample(key, crate::heap::samples::RequestKind::Store);
        let mut scratch = std::mem::take(&mut self.guard.own.change);
        let changed = self.guard.commits().retry(|guard| try_change(guard, key, decide, &mut scratch, parts, None));
        let changed = changed.map(|(answer, _)| answer);
        scratch.clear();
        scratch.shrink_to(self.guard.store.geometry.piece_bytes);
        self.guard.own.change = scratch;
        changed
    }

    /// Changes an item as [`ItemsMut::change`] does, but stores the large value that was written instead of the
    /// scratch. If `decide` stores nothing, the value's pieces are removed. If `decide` returns `None`, because it
    /// cannot decide, the operation is parked.
    ///
    /// # Errors
    /// The writer comes back with the error: on [`OpError::Parked`] call again in a later iteration.
    pub fn change_to_large<T>(
        self,
        key: &Key<'_>,
        writer: LargeWriter,
        decide: &mut DecideAlone<'_, T>,
    ) -> Result<T, (LargeWriter, OpError)> {
        self.guard.sample(key, crate::heap::samples::RequestKind::Store);
        let head = large_value(writer.whole());
        let mut decide = |guard: &Guard<'_>, item: Option<&Item<'_>>, _: &mut Vec<u8>| match decide(guard, item) {
            None => Change::Keep(None),
            Some(change) => change.map(Some),
        };
        match self
            .guard
            .commits()
            .retry(|guard| try_change(guard, key, &mut decide, &mut Vec::new(), None, Some(&head)))
        {
            Ok((Some(answer), stored)) => {
                if !stored {
                    self.guard.large().abort(writer);
                }
                Ok(answer)
            }
            Ok((None, _)) => Err((writer, self.guard.parked())),
            Err(error) => Err((writer, error)),
        }
    }

    /// Removes the item if it is still the same.
    pub(crate) fn remove_same(self, key: &Key<'_>, snap: Snap) -> Result<bool, OpError> {
        let (store, counters) = (self.guard.store, self.guard.counters());
        if store.is_rebuilding() && !key.piece {
            return self.guard.items_mut().end_for_good(key, Some(snap), None);
        }
        let locked = self.guard.locks().lock(key)?;
        let there = live(store, find_locked(store, &locked, key), self.guard.now);
        let Some(there) = there.filter(|there| Snap::of(store, there).same(&snap)) else { return Ok(false) };
        unname(store, &locked, &there, Slot::EMPTY);
        let orphan = kill(store, counters, there.address, &there.layout);
        drop(locked);
        self.guard.commits().free_orphan(orphan, None);
        Ok(true)
    }
}

/// Returns the answer, and true if something was stored: the value that `head` names, or else the scratch.
fn try_change<T>(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    decide: &mut Decide<'_, T>,
    scratch: &mut Vec<u8>,
    parts: Option<&RefCell<Parts>>,
    head: Option<&[u8; 16]>,
) -> Result<Option<(T, bool)>, OpError> {
    let there = guard.items().snap_at_once(key)?;
    scratch.clear();
    let item = there.as_ref().map(|(seen, snap)| seen.item_as(guard.store, snap));
    if let Some((seen, _)) = &there {
        seen.note_access(guard.store, guard.now);
    }
    match (decide(guard, item.as_ref(), scratch), there) {
        (Change::Remove(answer), None) if guard.store.is_finding() => {
            Ok(guard.items_mut().end_for_good(key, None, None)?.then_some((answer, false)))
        }
        (Change::Keep(answer), _) | (Change::Remove(answer) | Change::Expire(_, answer), None) => {
            Ok(Some((answer, false)))
        }
        (Change::Remove(answer), Some((_, snap))) => {
            Ok(guard.items_mut().remove_same(key, snap)?.then_some((answer, false)))
        }
        (Change::Expire(expire, answer), Some((seen, snap))) => {
            Ok(guard.items_mut().touch_same(key, &seen, snap, expire)?.map(|_| (answer, false)))
        }
        (Change::Store { client_flags, expire, answer }, there) => {
            let put = Put { client_flags, expire, ..Put::set(scratch) };
            let stored = store_same(guard, key, &put, there.map(|(_, snap)| snap), head)?;
            Ok(stored.then_some((answer, true)))
        }
        (Change::StoreTyped { kind, expire, answer }, there) => {
            let bytes = scratch.len() as u64 + 1;
            guard.sizes().check_size(key, bytes)?;
            if bytes > guard.sizes().whole_max(key) {
                return Err(OpError::TooLarge);
            }
            let (put, kind) = (Put { expire, ..Put::set(&[]) }, [kind]);
            let plan = Plan::of(&put, Kind::Typed, Content::Bytes(&kind, scratch));
            let expect = Expect::there(there.map(|(_, snap)| snap));
            let (Some(parts), Some(object)) = (parts.map(RefCell::borrow), plan.object()) else {
                return Ok(guard.commits().commit(key, &plan, Some(expect))?.map(|_| (answer, true)));
            };
            let is_new = there.and_then(|(seen, _)| seen.object_at(guard.store)) != Some(object);
            // The parts may have been ended by a flush that did not end the head.
            let expect = expect.unflushed_since(guard.store.flushed_before(key.namespace));
            guard.parts_mut().write_parts(key, object, is_new, &parts)?;
            let stored = guard.commits().commit(key, &plan, Some(expect));
            match &stored {
                Ok(Some(_)) => guard.parts_mut().end_parts(key, object, &parts.gone),
                _ => guard.parts_mut().take_parts_back(key, object, is_new, &parts),
            }
            Ok(stored?.map(|_| (answer, true)))
        }
    }
}

/// Stores the value if the present item is still the same.
fn store_same(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    put: &Put<'_>,
    snap: Option<Snap>,
    head: Option<&[u8; 16]>,
) -> Result<bool, OpError> {
    let expect = Some(Expect::there(snap));
    if let Some(head) = head {
        let plan = Plan::of(put, Kind::Head, Content::Bytes(head, &[]));
        return Ok(guard.commits().commit(key, &plan, expect)?.is_some());
    }
    guard.sizes().check_size(key, put.value.len() as u64)?;
    if put.value.len() as u64 > guard.sizes().whole_max(key) {
        let plan = Plan::of(put, Kind::Plain, Content::Bytes(&[], &[]));
        return Ok(guard.large().commit_joined(key, &plan, expect, &[Source::Bytes(put.value)])?.is_some());
    }
    let plan = Plan::of(put, Kind::Plain, Content::Bytes(put.value, &[]));
    Ok(guard.commits().commit(key, &plan, expect)?.is_some())
}
