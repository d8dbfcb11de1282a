//! Values in parts: a typed value too long for one item, as a tree of hidden items that its head names.
//!
//! ```text
//!   key  ->  head: type 1 (bit 7) | object 8 | levels 1 | entries 4 | entry ... | what the caller makes of it
//!            hidden key (part, object)  ->  a page: entry ...           with two levels
//!            hidden key (part, object)  ->  what the caller makes of it
//!            hidden key (0, object)     ->  the anchor: the hash of the key, a number
//!   entry    4 of the caller's | part 8 | 6 of the caller's
//! ```
//!
//! - A change writes new parts, which nothing names, and then the head, under the key's lock: it is published whole or
//!   not at all. If its namespace is flushed between the two, the change is stale and nothing is stored. Afterwards the
//!   parts that nothing names any more are removed. If a head ends, all its parts end with it, unless its successor is
//!   of the same object. Many parts are removed a few at a time, in the background
//!   ([`crate::values::deferred_free`]).
//! - Part numbers are never reused, so no part can be taken for another. They are their object's, not their key's: a
//!   value is renamed by its head and its anchor alone ([`crate::Renames::share`]).
//! - A part is retained as long as its head is. When its segment is evicted, the head's reads count for it, and the
//!   anchor leads to the head. A head goes with the first of its parts that does, and all others with it. Parts have no
//!   end of their own: they go with the head.
//! - A reader that finds a part missing has been overtaken by a change, or the part was pushed out of the index. The
//!   reader looks again ([`PartWrites::end_broken`]).

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::core::counters::Counters;
use crate::core::facets::{PartReads, PartWrites, Sizes};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find, item_of_hash};
use crate::core::op::{Item, OpError};
use crate::core::store::Store;
use crate::index::Hash;
use crate::items::unpublished::{Content, Plan};
use crate::items::write::replace::Parts;
use crate::layout::hidden_key::{ANCHOR, NAME_BYTES, name, part_of};
use crate::layout::item::{ItemKind, Layout, NUM};
use crate::layout::key::Key;
use crate::layout::parts_head::{PartsHead, entries, entry_at};
use crate::layout::slot::Slot;
use crate::values::deferred_free::remove_hidden;
use crate::values::free_queue::DeferredFree;
use crate::values::orphans::Named;

fn find_part<'s>(store: &'s Store, namespace: u8, object: u64, part: u64) -> Option<FoundItem<'s>> {
    let name = name(part, object);
    find(store, &store.hasher.piece(namespace, &name))
}

/// Returns the bytes of a part, without counting an access.
pub(crate) fn part_bytes(store: &Store, namespace: u8, object: u64, part: u64) -> Option<&[u8]> {
    find_part(store, namespace, object, part).map(|seen| seen.layout.value(&store.segments.heap, seen.address))
}

/// Removes a part, if it is there. Returns `None` if its lock could not be taken.
pub(crate) fn remove_part(store: &Store, counters: &Counters, namespace: u8, object: u64, part: u64) -> Option<()> {
    let name = name(part, object);
    remove_hidden(store, counters, &store.hasher.piece(namespace, &name))
}

/// Gives every part that a head names to `each`, a page behind what it names, until `each` wants no more. Returns
/// false in that case, or if a page is lost.
pub(crate) fn each_part(store: &Store, namespace: u8, head: PartsHead<'_>, each: &mut dyn FnMut(u64) -> bool) -> bool {
    let mut whole = true;
    for entry in entries(head.root) {
        if head.levels > 1 {
            match part_bytes(store, namespace, head.object, entry) {
                Some(page) if !entries(page).all(&mut *each) => return false,
                Some(_) => {}
                None => whole = false,
            }
        }
        if !each(entry) {
            return false;
        }
    }
    whole
}

/// Lets the head of a value in parts mark its object and the parts that it names, for the next entry of the root.
/// Returns the entry behind it, if there is one.
pub(crate) fn mark_parts(
    store: &Store,
    named: &Named,
    namespace: u8,
    (address, bytes): (usize, usize),
    next: usize,
) -> Option<usize> {
    let head = PartsHead::of(store.segments.heap.bytes(address, bytes))?;
    named.mark(head.object);
    if head.levels <= 1 {
        entries(head.root).for_each(|part| named.mark(part));
        return None;
    }
    let page = entry_at(head.root, next)?;
    named.mark(page);
    let of_page = part_bytes(store, namespace, head.object, page).unwrap_or(&[]);
    entries(of_page).for_each(|part| named.mark(part));
    entry_at(head.root, next + 1).map(|_| next + 1)
}

/// Returns true if nothing names this hidden key, nor ever will: see [`crate::values::orphans`].
pub(crate) fn is_orphan(store: &Store, key: &Key<'_>) -> bool {
    store.named.as_ref().is_some_and(|named| named.is_orphan(key))
}

/// Returns the hash of the key whose value an object is.
pub(crate) fn owner_of(store: &Store, namespace: u8, object: u64) -> Option<Hash> {
    let seen = find_part(store, namespace, object, ANCHOR).filter(|seen| seen.layout.has(NUM))?;
    Some(Hash(seen.layout.number(&store.segments.heap, seen.address).load(Acquire)))
}

/// Returns the item's address and layout if it is the head of this object and its key has this hash.
pub(crate) fn is_head(store: &Store, slot: Slot, namespace: u8, object: u64, owner: Hash) -> Option<(usize, Layout)> {
    let (address, layout) = item_of_hash(store, slot, namespace, false, owner)?;
    let is_head = layout.is(ItemKind::Typed)
        && PartsHead::of(layout.value(&store.segments.heap, address)).is_some_and(|head| head.object == object);
    is_head.then_some((address, layout))
}

/// Returns how often a part was read, as its eviction counts it: as often as its head or itself, whichever is more.
/// A part whose head is gone counts 0.
pub(crate) fn freq_with_head(store: &Store, key: &Key<'_>, seen: &FoundItem<'_>) -> u64 {
    let owner = part_of(key).and_then(|(_, object)| Some((object, owner_of(store, key.namespace, object)?)));
    let Some((object, owner)) = owner else { return seen.slot.freq() };
    let head = store.index.find(owner, |slot| is_head(store, slot, key.namespace, object, owner));
    head.map_or(0, |head| head.slot.freq().max(seen.slot.freq()))
}

impl<'g> PartReads<'g, '_> {
    /// Returns the bytes of a part of the value that `key`'s item has in this guard, which is of this object; counts as
    /// an access of it. `None`: it is lost, or the value was changed since the item was looked at: see
    /// [`PartReads::take_lost`].
    pub fn part(self, key: &Key<'_>, object: u64, part: u64) -> Option<&'g [u8]> {
        let name = name(part, object);
        let found = self.guard.items().find_live(&self.guard.store.hasher.piece(key.namespace, &name));
        if found.is_none() {
            self.guard.lost.set(true);
        }
        found.map(|seen| {
            crate::index::bump(seen.word, seen.slot);
            seen.layout.value(&self.guard.store.segments.heap, seen.address)
        })
    }

    /// Returns a number for a new part, or a new object.
    pub fn part_number(self) -> u64 {
        self.guard.store.persistent.objects.fetch_add(1, Relaxed)
    }

    /// Returns whether a part was looked for in this guard and not found, since the last call.
    pub fn take_lost(self) -> bool {
        self.guard.lost.replace(false)
    }

    /// Returns the bytes of an item's parts in the store, header and padding included: of those from number `from` on,
    /// and at most `parts_max`. Also returns the number to continue at; `None`: those were all parts.
    pub fn parts_bytes(self, key: &Key<'_>, item: &Item<'_>, from: u64, parts_max: u64) -> (u64, Option<u64>) {
        let crate::Value::Typed { kind, bytes } = item.value else { return (0, None) };
        let value = [&[kind][..], bytes].concat();
        let Some(head) = PartsHead::of(&value) else { return (0, None) };
        let bytes_of = |part: u64| {
            find_part(self.guard.store, key.namespace, head.object, part).map_or(0, |seen| seen.layout.size as u64)
        };
        let mut sum = if from == 0 { bytes_of(ANCHOR) } else { 0 };
        let (mut number, to) = (0, from.saturating_add(parts_max));
        each_part(self.guard.store, key.namespace, head, &mut |part| {
            if (from..to).contains(&number) {
                sum += bytes_of(part);
            }
            number += 1;
            number <= to
        });
        (sum, (number > to).then_some(to))
    }
}

impl Sizes<'_, '_> {
    /// Returns the longest part, in bytes.
    pub fn part_bytes_max(self) -> usize {
        self.whole_max_of(NAME_BYTES) as usize
    }
}

impl PartWrites<'_, '_> {
    /// Writes new parts of an object, all or none; of one that is new its anchor too.
    pub(crate) fn write_parts(self, key: &Key<'_>, object: u64, is_new: bool, parts: &Parts) -> Result<(), OpError> {
        let longest = parts.new.iter().map(|(_, place)| place.len()).max().unwrap_or(0);
        if longest > self.guard.sizes().part_bytes_max() {
            return Err(OpError::TooLarge);
        }
        if parts.bytes.len() > self.guard.store.geometry.piece_bytes {
            self.guard.large().check_room(key, parts.bytes.len() as u64)?;
        }
        let mut written = if is_new { self.guard.parts_mut().set_owner(key, object) } else { Ok(()) };
        for (part, place) in &parts.new {
            written = written
                .and_then(|()| self.guard.parts_mut().write_part(key, object, *part, &parts.bytes[place.clone()]));
        }
        if written.is_err() {
            self.guard.parts_mut().take_parts_back(key, object, is_new, parts);
        }
        written
    }

    /// Stores one part.
    pub(crate) fn write_part(self, key: &Key<'_>, object: u64, part: u64, bytes: &[u8]) -> Result<(), OpError> {
        write_hidden(self.guard, key, object, part, Content::Bytes(bytes, &[]))
    }

    /// Sets the key that the parts of an object belong to from now on.
    pub(crate) fn set_owner(self, key: &Key<'_>, object: u64) -> Result<(), OpError> {
        write_hidden(self.guard, key, object, ANCHOR, Content::Number(key.hash.0))
    }

    /// Removes the parts that a change has written and not published: a repeated decision gets numbers of its own.
    pub(crate) fn take_parts_back(self, key: &Key<'_>, object: u64, is_new: bool, parts: &Parts) {
        let anchor = is_new.then_some(ANCHOR);
        let written = parts.new.iter().map(|(part, _)| *part).chain(anchor);
        let left = not_removed(self.guard, key, object, written).collect();
        free_later(self.guard, key, object, left);
    }

    /// Removes parts that a head does not name any more. Those whose locks cannot be taken are removed later.
    pub(crate) fn end_parts(self, key: &Key<'_>, object: u64, gone: &[u64]) {
        let left: Vec<u64> = match self.guard.own.group.get_mut().is_open() {
            true => gone.to_vec(),
            false => not_removed(self.guard, key, object, gone.iter().copied()).collect(),
        };
        free_later(self.guard, key, object, left);
    }

    /// Ends the key's value if it has lost a part, as if it had been evicted. Called after a part was not found
    /// ([`PartReads::take_lost`]). If no part is lost, the value was changed meanwhile, and the caller looks at it
    /// again.
    ///
    /// # Errors
    /// [`OpError::Parked`].
    pub fn end_broken(self, key: &Key<'_>) -> Result<bool, OpError> {
        self.guard.commits().retry(|guard| {
            let Some((seen, snap)) = guard.items().snap(key)? else { return Ok(Some(false)) };
            let store = guard.store;
            let head = match seen.layout.is(ItemKind::Typed) {
                true => PartsHead::of(seen.layout.value(&store.segments.heap, seen.address)),
                false => None,
            };
            let Some(head) = head else { return Ok(Some(false)) };
            let is_there = |part: u64| {
                let seen = find_part(store, key.namespace, head.object, part);
                seen.is_some_and(|seen| seen.ended(store, guard.now).is_none())
            };
            if each_part(store, key.namespace, head, &mut |part| is_there(part)) {
                return Ok(Some(false));
            }
            let removed = guard.items_mut().remove_same(key, snap)?;
            guard.counters().large_broken.add(u64::from(removed));
            Ok(removed.then_some(true))
        })
    }
}

fn write_hidden(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    object: u64,
    part: u64,
    content: Content<'_>,
) -> Result<(), OpError> {
    let name = name(part, object);
    let hidden = guard.store.hasher.piece(key.namespace, &name);
    guard.commits().commit(&hidden, &Plan::bare(ItemKind::Piece, content), None).map(drop)
}

fn free_later(guard: &mut Guard<'_>, key: &Key<'_>, object: u64, parts: Vec<u64>) {
    if !parts.is_empty() {
        guard.commits().free_deferred(DeferredFree::of_loose(key.namespace, object, parts));
    }
}

/// Removes parts, and returns those whose locks could not be taken.
fn not_removed(
    guard: &Guard<'_>,
    key: &Key<'_>,
    object: u64,
    parts: impl Iterator<Item = u64>,
) -> impl Iterator<Item = u64> {
    let (store, counters, namespace) = (guard.store, guard.counters(), key.namespace);
    parts.filter(move |part| remove_part(store, counters, namespace, object, *part).is_none())
}
