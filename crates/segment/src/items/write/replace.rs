//! Read-modify-write. A caller loads an item, decides on a change, and replaces the item if the item is still
//! unchanged.
//!
//! ```text
//!   Items::load ──> item, version ──> the caller decides ──> ItemsMut::replace(version, new)
//!        ▲                                                     ├──> Done: stored, removed, or another expiry
//!        └───────────── another thread changed the item ───────┴──> Stale: nothing was changed
//! ```
//!
//! Invariants:
//! - The item and its version belong to one instant. The version contains everything on which a decision may be based:
//!   slot, header, expiry, number, CAS token and lease ([`Snap`]). A key without an item has a version too.
//! - `replace` writes new bytes where no other thread sees them, takes the stripe lock, and compares the version. The
//!   change takes effect at that instant or not at all.
//! - A version is used only with the guard that loaded it, which `replace` asserts. So the memory to which the version
//!   refers is still valid.
//! - The number of loads is bounded ([`Attempts`]). After the last load the operation parks, and starts over in a later
//!   guard.

use std::ops::Range;

use crate::core::facets::{Items, ItemsMut};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked, live};
use crate::core::op::{Expire, Item, OpError, PATCHES_MAX, Patch};
use crate::core::snap::Snap;
use crate::core::store::large_value;
use crate::heap::samples::RequestKind;
use crate::items::unpublished::{Content, Plan, kill, unname};
use crate::items::write::RETRIES;
use crate::items::write::put::{Expect, overwrite};
use crate::layout::item::ItemKind;
use crate::layout::key::Key;
use crate::layout::slot::Slot;
use crate::values::source::Source;
use crate::values::writer::LargeWriter;
use arrayvec::ArrayVec;

/// The number of loads that a change has made so far; by default 0.
#[derive(Debug, Default)]
pub struct Attempts(usize);

/// An item that the caller intends to change, and its version.
#[derive(Debug)]
pub struct Loaded<'g, 'l> {
    /// The item, or `None` if the key has no item.
    pub item: Option<Item<'g>>,
    /// The state of the key at the load, from which a later replacement finds whether the key has changed.
    pub version: ItemVersion<'l>,
}

/// The state of a key at one instant. [`ItemsMut::replace`] compares it with the state at the change.
#[derive(Debug)]
pub struct ItemVersion<'l> {
    there: Option<(FoundItem<'l>, Snap)>,
    /// The address of the handle's private state. No other guard of the handle begins while the version exists.
    handle: usize,
}

/// The change to make.
#[derive(Clone, Copy, Debug)]
pub enum Replacement<'v> {
    /// Remove the item.
    Remove,
    /// Change the expiry of the item. Does nothing if the key has no item.
    Expire(Expire),
    /// Store these bytes, in pieces if they are long.
    Bytes {
        /// The bytes.
        value: &'v [u8],
        /// The client flags, which the store does not interpret.
        client_flags: u32,
        /// The expiry of the new item.
        expire: Expire,
    },
    /// Overwrite parts of the value, which must not be typed. The client flags and the expiry remain. The patches are
    /// in ascending order and don't overlap.
    Patch {
        /// The parts to overwrite, at most [`crate::PATCHES_MAX`].
        patches: &'v [Patch<'v>],
        /// The minimum length of the new value, in bytes. A shorter value is filled with zeros. No patch ends after
        /// this length.
        bytes_min: u64,
    },
    /// Store the value that was written in pieces. After [`Replaced::Done`] the pieces belong to the item, and the
    /// caller drops the writer without [`crate::LargeValues::abort`].
    Large {
        /// The writer of the whole value.
        value: &'v LargeWriter,
        /// The client flags, which are opaque to the store.
        client_flags: u32,
        /// Expiry of the new item.
        expire: Expire,
    },
    /// Store a typed value ([`crate::Value::Typed`]). Its bytes have to fit in one item.
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
    /// The change is complete.
    Done,
    /// The key's item has changed since the load. Nothing was changed; the caller loads again.
    Stale,
}

impl From<bool> for Replaced {
    fn from(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Stale }
    }
}

/// The parts that a change creates, and the parts that the change removes.
#[derive(Debug, Default)]
pub struct Parts {
    /// The bytes of all new parts.
    pub bytes: Vec<u8>,
    /// The new parts: the number of each, from [`crate::PartReads::part_number`], and its range in `bytes`.
    pub new: Vec<(u64, Range<usize>)>,
    /// The numbers of the removed parts.
    pub gone: Vec<u64>,
    /// Parts that are removed with all parts below them: their numbers, and how many levels lie below each.
    pub gone_trees: Vec<(u64, u8)>,
}

/// The result of [`crate::Numbers::add`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// The sum was stored; this is the new number.
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

/// Returns the address of a guard's handle, which identifies the handle: no handle moves while its guard, or a version
/// that the guard has loaded, exists.
#[inline(always)]
fn handle_of(guard: &Guard<'_>) -> usize {
    std::ptr::from_ref(&*guard.own).addr()
}

impl<'l> ItemsMut<'_, 'l> {
    /// Makes the change if the key is still in the state of `version`, which this guard has loaded.
    ///
    /// # Errors
    /// [`OpError::Parked`] (begin again in a later iteration), [`OpError::TooLarge`] (also if a part does not fit in
    /// one item), [`OpError::OutOfMemory`]. Nothing was changed.
    ///
    /// # Panics
    /// If a guard of another handle has loaded the version.
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
            Replacement::Patch { patches, bytes_min } => {
                let parts: ArrayVec<_, PATCHES_MAX> =
                    patches.iter().map(|patch| (patch.at, Source::Bytes(patch.bytes))).collect();
                overwrite(self.guard, key, there, &parts, bytes_min)?.is_some()
            }
            Replacement::Large { value, client_flags, expire } => {
                let head = large_value(value.whole());
                let plan = Plan { client_flags, expire, ..Plan::bare(ItemKind::Head, Content::Bytes(&head, &[])) };
                self.guard.parts_mut().set_owner(key, value.whole().object)?;
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

    /// Removes the item if the item is still unchanged.
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

/// Stores a value in parts if the key's item is still unchanged. The new parts are stored before the head.
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
    // A flush may have ended the parts but not the head.
    let expect = expect.unflushed_since(guard.store.flushed_before(key.namespace));
    guard.parts_mut().write_parts(key, object, is_new, parts)?;
    let stored = guard.commits().commit(key, plan, Some(expect));
    match &stored {
        Ok(Some(_)) => guard.parts_mut().end_parts(key, object, parts),
        _ => guard.parts_mut().take_parts_back(key, object, is_new, parts),
    }
    Ok(stored?.is_some())
}

/// Stores bytes if the key's item is still unchanged.
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
