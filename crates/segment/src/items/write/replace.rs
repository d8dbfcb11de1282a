//! Read-modify-write: a caller loads an item, decides from it, and replaces it if it is still the same.
//!
//! ```text
//!   Items::load ──> item, version ──> the caller decides ──> ItemsMut::replace(version, new)
//!        ▲                                                     ├──> Done: stored, removed, or another expiry
//!        └───────────── another thread changed the item ───────┴──> Stale: nothing was changed
//! ```
//!
//! Invariants:
//! - The item and its version belong to one instant. The version says all that a decision may rely on: slot, header,
//!   expiry, number, CAS token and lease ([`Snap`]). That the key has no item is a version too.
//! - `replace` writes new bytes where no other thread sees them, takes the stripe lock, and compares the version. The
//!   change takes effect at that instant or not at all.
//! - A version is used in the guard that loaded it: `replace` asserts it. So what the version refers to is still there.
//! - The number of loads is bounded ([`Attempts`]). After that the operation parks, and a later guard begins again.

use std::ops::Range;

use crate::core::facets::{Items, ItemsMut};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked, live};
use crate::core::op::{Expire, Item, OpError};
use crate::core::snap::Snap;
use crate::core::store::large_value;
use crate::heap::samples::RequestKind;
use crate::items::unpublished::{Content, Plan, kill, unname};
use crate::items::write::RETRIES;
use crate::items::write::put::Expect;
use crate::layout::item::ItemKind;
use crate::layout::key::Key;
use crate::layout::slot::Slot;
use crate::values::source::Source;
use crate::values::writer::LargeWriter;

/// The number of loads of one change so far. The default is none.
#[derive(Debug, Default)]
pub struct Attempts(usize);

/// An item that is about to be changed, and its version.
#[derive(Debug)]
pub struct Loaded<'g, 'l> {
    /// The item, unless the key has none.
    pub item: Option<Item<'g>>,
    /// Proves later that the key still has this item, or still has none.
    pub version: ItemVersion<'l>,
}

/// The state of a key at one instant. [`ItemsMut::replace`] compares it with the state at the change.
#[derive(Debug)]
pub struct ItemVersion<'l> {
    there: Option<(FoundItem<'l>, Snap)>,
    /// The address of the handle's own state. No other guard of this handle begins while the version lives.
    handle: usize,
}

/// The change to make.
#[derive(Clone, Copy, Debug)]
pub enum Replacement<'v> {
    /// Remove the item.
    Remove,
    /// Change the expiry of the item. Without an item there is nothing to change.
    Expire(Expire),
    /// Store these bytes, in pieces if they are long.
    Bytes {
        /// The bytes.
        value: &'v [u8],
        /// Opaque to the store.
        client_flags: u32,
        /// Expiry of the new item.
        expire: Expire,
    },
    /// Store the value that was written in pieces. After [`Replaced::Done`] the pieces belong to the item, and the
    /// caller drops the writer without [`crate::LargeValues::abort`].
    Large {
        /// The writer of the whole value.
        value: &'v LargeWriter,
        /// Opaque to the store.
        client_flags: u32,
        /// Expiry of the new item.
        expire: Expire,
    },
    /// Store a typed value ([`crate::Value::Typed`]), which has to fit into one piece.
    Typed {
        /// The type of the value, opaque to the store.
        kind: u8,
        /// The bytes of the value: the head, if the value is in parts.
        bytes: &'v [u8],
        /// The parts that the change creates and removes, of a type with [`crate::KIND_IN_PARTS`].
        parts: Option<&'v Parts>,
        /// Expiry of the new item.
        expire: Expire,
    },
}

/// The result of [`ItemsMut::replace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Replaced {
    /// The change was made.
    Done,
    /// The key has another item by now. Nothing was changed: load again.
    Stale,
}

impl From<bool> for Replaced {
    fn from(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Stale }
    }
}

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

impl<'g, 'l> Items<'g, 'l> {
    /// Returns the key's item and its version for a change with [`ItemsMut::replace`]. Counts as an access. `attempts`
    /// counts the loads of one change.
    ///
    /// # Errors
    /// [`OpError::Parked`]: the key is locked, or was loaded too often. Begin again in a later iteration.
    #[inline(always)]
    pub fn load(self, key: &Key<'_>, attempts: &mut Attempts) -> Result<Loaded<'g, 'l>, OpError> {
        match attempts.0 {
            0 => self.guard.sample(key, RequestKind::Store),
            RETRIES => return Err(self.guard.parked()),
            _ => {}
        }
        attempts.0 += 1;
        let there = self.snap_at_once(key)?;
        let item = there.as_ref().map(|(seen, snap)| seen.item_as(self.guard.store, snap));
        if let Some((seen, _)) = &there {
            seen.note_access(self.guard.store, self.guard.now);
        }
        Ok(Loaded { item, version: ItemVersion { there, handle: handle_of(self.guard) } })
    }
}

/// Returns the identity of a guard's handle: no two handles are at one address, and no handle moves while its guard or
/// a version of its guard lives.
#[inline(always)]
fn handle_of(guard: &Guard<'_>) -> usize {
    std::ptr::from_ref(&*guard.own).addr()
}

impl<'l> ItemsMut<'_, 'l> {
    /// Makes the change if the key is still as in `version`, which this guard has loaded.
    ///
    /// # Errors
    /// [`OpError::Parked`] (begin again in a later iteration), [`OpError::TooLarge`] (also if a part is longer than an
    /// item in one piece), [`OpError::OutOfMemory`]. Nothing was changed.
    ///
    /// # Panics
    /// If another handle's guard has loaded the version.
    pub fn replace(self, key: &Key<'_>, version: &ItemVersion<'l>, new: Replacement<'_>) -> Result<Replaced, OpError> {
        assert!(version.handle == handle_of(self.guard), "a version is used in the guard that loaded it");
        let there = version.there.as_ref();
        let snap = there.map(|(_, snap)| *snap);
        let is_done = match new {
            Replacement::Remove if there.is_none() && self.guard.store.is_finding() => {
                self.guard.items_mut().end_for_good(key, None, None)?
            }
            Replacement::Remove => match snap {
                Some(snap) => self.guard.items_mut().remove_same(key, snap)?,
                None => true,
            },
            Replacement::Expire(expire) => match there {
                Some((seen, snap)) => self.guard.items_mut().touch_same(key, seen, *snap, expire)?.is_some(),
                None => true,
            },
            Replacement::Bytes { value, client_flags, expire } => {
                let plan = Plan { client_flags, expire, ..Plan::bare(ItemKind::Plain, Content::Bytes(value, &[])) };
                store_bytes(self.guard, key, value, plan, snap)?
            }
            Replacement::Large { value, client_flags, expire } => {
                let head = large_value(value.whole());
                let plan = Plan { client_flags, expire, ..Plan::bare(ItemKind::Head, Content::Bytes(&head, &[])) };
                self.guard.commits().commit(key, &plan, Some(Expect::there(snap)))?.is_some()
            }
            Replacement::Typed { kind, bytes, parts, expire } => {
                self.guard.sizes().check_whole(key, bytes.len() as u64 + 1)?;
                let kind = [kind];
                let plan = Plan { expire, ..Plan::bare(ItemKind::Typed, Content::Bytes(&kind, bytes)) };
                match parts {
                    None => self.guard.commits().commit(key, &plan, Some(Expect::there(snap)))?.is_some(),
                    Some(parts) => store_parted(self.guard, key, &plan, parts, there)?,
                }
            }
        };
        Ok(is_done.into())
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

/// Stores a value in parts if the present item is still the same, its new parts before its head.
fn store_parted(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    plan: &Plan<'_>,
    parts: &Parts,
    there: Option<&(FoundItem<'_>, Snap)>,
) -> Result<bool, OpError> {
    let expect = Expect::there(there.map(|(_, snap)| *snap));
    let Some(object) = plan.object() else { return Ok(guard.commits().commit(key, plan, Some(expect))?.is_some()) };
    let is_new = there.and_then(|(seen, _)| seen.object_at(guard.store)) != Some(object);
    // The parts may have been ended by a flush that did not end the head.
    let expect = expect.unflushed_since(guard.store.flushed_before(key.namespace));
    guard.parts_mut().write_parts(key, object, is_new, parts)?;
    let stored = guard.commits().commit(key, plan, Some(expect));
    match &stored {
        Ok(Some(_)) => guard.parts_mut().end_parts(key, object, &parts.gone),
        _ => guard.parts_mut().take_parts_back(key, object, is_new, parts),
    }
    Ok(stored?.is_some())
}

/// Stores bytes if the present item is still the same.
fn store_bytes(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    value: &[u8],
    plan: Plan<'_>,
    snap: Option<Snap>,
) -> Result<bool, OpError> {
    let expect = Some(Expect::there(snap));
    guard.sizes().check_size(key, value.len() as u64)?;
    if value.len() as u64 > guard.sizes().whole_max(key) {
        let plan = Plan { content: Content::Bytes(&[], &[]), ..plan };
        return Ok(guard.large().commit_joined(key, &plan, expect, &[Source::Bytes(value)])?.is_some());
    }
    Ok(guard.commits().commit(key, &plan, expect)?.is_some())
}
