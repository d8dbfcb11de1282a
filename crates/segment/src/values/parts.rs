//! Values in parts: a typed value too long for one item is stored as a tree of hidden items that its head names.
//!
//! ```text
//!   key  ->  head: type 1 (bit 7) | object 8 | levels 1 | size of the root 4 | entry ... | bytes of the caller
//!            hidden key (part, object)  ->  a page: entry ...           with two levels and more
//!            hidden key (part, object)  ->  a part: bytes of the caller, or its first fragment
//!            hidden key (part, object, number)  ->  a fragment of a part: the next bytes of the caller
//!            hidden key (0, object)     ->  the anchor: the hash of the key, as a number
//!   entry    4 bytes of the caller | part 8 | 6 bytes of the caller     the size of the root is the number of entries
//!   or       part 8 | 6 bytes of the caller | length of the key 2 | key      bit 7 of the levels is set; the size of
//!                                                                             the root is in bytes
//!   (all figures are lengths in bytes)
//! ```
//!
//! - A change first writes new parts, which no head names yet. It then writes the head under the key's lock, which
//!   publishes the whole change at once. If the namespace is flushed between the two steps, nothing is stored.
//!   Afterwards the parts that the new head no longer names are removed. If a head ends, all its parts are removed,
//!   unless its successor has the same object. Many parts are removed a few at a time, in the background
//!   ([`crate::values::deferred_free`]).
//! - Part numbers are never reused, so a part cannot be mistaken for another. Parts belong to an object, not to a key.
//!   So a rename changes only the head and the anchor ([`crate::Renames::share`]).
//! - A part that is too long for one item is stored in fragments. All but the last have the same length
//!   ([`fragment_bytes`]), so that a shorter one ends the part.
//! - Bit 6 of the levels is set if the bytes of the caller behind the entries begin with a salt ([`PartReads::salt`]).
//! - A part lives as long as its head. When a part's segment is evicted, reads of the head count as reads of the part
//!   ([`judged`]); the anchor leads to the head. If a part is evicted, the head and all other parts are
//!   removed. Parts have no expiry of their own.
//! - If a reader does not find a part, a change has replaced the value meanwhile, or the part was displaced from the
//!   index. The reader calls [`PartWrites::end_broken`] and then reads the value again.

use std::borrow::Cow;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::core::counters::Counters;
use crate::core::facets::{PartReads, PartWrites, Sizes};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find, item_of_hash, object_in};
use crate::core::op::{Item, OpError};
use crate::core::store::{Store, large_ref};
use crate::index::Hash;
use crate::items::unpublished::{Content, Plan, note_broken};
use crate::items::write::replace::Parts;
use crate::layout::hidden_key::{ANCHOR, FRAGMENT_NAME_BYTES, fragment_name, hidden_numbers, name};
use crate::layout::item::{ItemKind, Layout, NUM};
use crate::layout::key::Key;
use crate::layout::parts_head::{EntryForm, PartsHead};
use crate::layout::slot::Slot;
use crate::values::deferred_free::remove_hidden;
use crate::values::free_queue::DeferredFree;
use crate::values::large::ITEM_OVERHEAD;
use crate::values::orphans::Named;
use crate::values::part_walk::PartWalk;

/// Returns the length in bytes of every fragment of a part but the last.
pub(crate) fn fragment_bytes(store: &Store) -> usize {
    store.geometry.item_whole_max - ITEM_OVERHEAD - FRAGMENT_NAME_BYTES
}

/// Returns the maximum number of fragments behind the first one of a part.
fn fragments_max(store: &Store) -> u32 {
    let bytes = store.geometry.item_bytes_max.saturating_add(BESIDE_BYTES_MAX as u64);
    u32::try_from(bytes / fragment_bytes(store) as u64).unwrap_or(u32::MAX)
}

/// Returns the fragments of a part, of which `first` is the first. `find` returns the bytes of the fragment with a
/// name. Returns `None` if one is missing.
fn fragments<'s>(
    store: &Store,
    (part, object): (u64, u64),
    first: &'s [u8],
    find: impl Fn(&[u8]) -> Option<&'s [u8]>,
) -> Option<PartBytes<'s>> {
    let whole = fragment_bytes(store);
    if first.len() < whole {
        return Some(PartBytes::Whole(first));
    }
    let (mut all, mut last) = (vec![first], first);
    while last.len() >= whole {
        last = find(&fragment_name(part, object, all.len() as u32))?;
        all.push(last);
    }
    Some(PartBytes::Fragments(all))
}

/// The bytes of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartBytes<'s> {
    /// Those of its only item.
    Whole(&'s [u8]),
    /// Those of its fragments, one after another.
    Fragments(Vec<&'s [u8]>),
}

impl<'s> PartBytes<'s> {
    /// Returns all bytes, copied if there are fragments.
    pub fn joined(self) -> Cow<'s, [u8]> {
        match self {
            Self::Whole(bytes) => Cow::Borrowed(bytes),
            Self::Fragments(fragments) => Cow::Owned(fragments.concat()),
        }
    }
}

fn find_part<'s>(store: &'s Store, namespace: u8, object: u64, part: u64) -> Option<FoundItem<'s>> {
    let name = name(part, object);
    find(store, &store.hasher.piece(namespace, &name))
}

/// Returns the bytes of the first fragment of a part, without counting an access.
fn first_fragment(store: &Store, namespace: u8, object: u64, part: u64) -> Option<&[u8]> {
    find_part(store, namespace, object, part).map(|seen| seen.layout.value(&store.segments.heap, seen.address))
}

/// Returns the bytes of a page, without counting an access.
pub(crate) fn page_bytes(store: &Store, namespace: u8, object: u64, page: u64) -> Option<Cow<'_, [u8]>> {
    part_bytes(store, namespace, object, page).map(PartBytes::joined)
}

/// Returns the bytes of a part, without counting an access. Returns `None` if it, or a fragment of it, is lost.
pub(crate) fn part_bytes(store: &Store, namespace: u8, object: u64, part: u64) -> Option<PartBytes<'_>> {
    let first = first_fragment(store, namespace, object, part)?;
    fragments(store, (part, object), first, |name| {
        let seen = find(store, &store.hasher.piece(namespace, name))?;
        Some(seen.layout.value(&store.segments.heap, seen.address))
    })
}

/// Removes a part, if it exists. Returns `None` if a lock could not be taken; the first fragment is then still there,
/// so that another call removes the rest.
pub(crate) fn remove_part(store: &Store, counters: &Counters, namespace: u8, object: u64, part: u64) -> Option<()> {
    let fragment = |number: u32| fragment_name(part, object, number);
    let is_long = part != ANCHOR
        && first_fragment(store, namespace, object, part).is_some_and(|first| first.len() >= fragment_bytes(store));
    if is_long {
        let is_there = |number: &u32| find(store, &store.hasher.piece(namespace, &fragment(*number))).is_some();
        let behind = match part_bytes(store, namespace, object, part) {
            Some(PartBytes::Fragments(all)) => all.len() as u32 - 1,
            // One is lost, and those behind it are not.
            _ => (1..=fragments_max(store)).filter(is_there).last().unwrap_or(0),
        };
        for number in (1..=behind).rev() {
            remove_hidden(store, counters, &store.hasher.piece(namespace, &fragment(number)))?;
        }
    }
    let name = name(part, object);
    remove_hidden(store, counters, &store.hasher.piece(namespace, &name))
}

/// Calls `each` with the number of every part that a head names, until `each` returns false. A page comes after the
/// parts that it names. Returns false if `each` did, or if a page is lost.
pub(crate) fn each_part(store: &Store, namespace: u8, head: PartsHead<'_>, each: &mut dyn FnMut(u64) -> bool) -> bool {
    each_below(store, namespace, &head, head.root, head.levels, each)
}

/// Calls `each` for the parts that the entries of a page name. Its entries lie `levels` levels above the leaves.
fn each_below(
    store: &Store,
    namespace: u8,
    head: &PartsHead<'_>,
    page: &[u8],
    levels: u8,
    each: &mut dyn FnMut(u64) -> bool,
) -> bool {
    let mut whole = true;
    for part in head.form.parts(page) {
        if levels > 1 {
            match page_bytes(store, namespace, head.object, part) {
                Some(below) if !each_below(store, namespace, head, &below, levels - 1, each) => return false,
                Some(_) => {}
                None => whole = false,
            }
        }
        if !each(part) {
            return false;
        }
    }
    whole
}

/// The maximum number of bytes of a part beside its longest element.
const BESIDE_BYTES_MAX: usize = 64 << 10;
/// The number of parts that one call of [`mark_parts`] marks.
const MARKED_AT_ONCE: usize = 128;

/// Marks the object of a head of a value in parts, and some of the parts that it names. Returns true when all are
/// marked; `walk` is then `None` again.
pub(crate) fn mark_parts(
    store: &Store,
    named: &Named,
    namespace: u8,
    (address, bytes): (usize, usize),
    walk: &mut Option<PartWalk>,
) -> bool {
    let Some(head) = PartsHead::of(store.segments.heap.bytes(address, bytes)) else { return true };
    named.mark(head.object);
    let parts = walk.get_or_insert_with(|| PartWalk::of_head(&head));
    let read = |page| page_bytes(store, namespace, head.object, page);
    for _ in 0..MARKED_AT_ONCE {
        let Some(part) = parts.part(read) else {
            *walk = None;
            return true;
        };
        named.mark(part);
        parts.advance(read);
    }
    false
}

/// Returns true if no head names this hidden key, now or later: see [`crate::values::orphans`].
pub(crate) fn is_orphan(store: &Store, key: &Key<'_>) -> bool {
    store.named.as_ref().is_some_and(|named| named.is_orphan(key))
}

/// Returns the hash of the key to which an object belongs, as its anchor records it.
pub(crate) fn owner_of(store: &Store, namespace: u8, object: u64) -> Option<Hash> {
    let seen = find_part(store, namespace, object, ANCHOR).filter(|seen| seen.layout.has(NUM))?;
    Some(Hash(seen.layout.number(&store.segments.heap, seen.address).load(Acquire)))
}

/// Returns the address and layout of the item that a slot names, if it is the head of this object and its key has this
/// hash.
pub(crate) fn is_head(store: &Store, slot: Slot, namespace: u8, object: u64, owner: Hash) -> Option<(usize, Layout)> {
    let (address, layout) = item_of_hash(store, slot, namespace, false, owner)?;
    (object_in(store, address, &layout) == Some(object)).then_some((address, layout))
}

/// The figures by which eviction judges an item.
pub(crate) struct Judged {
    /// The number of reads. For a piece or a part it is the greater of its head's and its own, or 0 if the head no
    /// longer exists.
    pub(crate) freq: u64,
    /// The size of the item in bytes, or the length of the whole value for the head and the pieces of a large value.
    pub(crate) bytes: usize,
}

/// Returns the figures by which eviction judges an item.
pub(crate) fn judged(store: &Store, key: &Key<'_>, seen: &FoundItem<'_>) -> Judged {
    let owner = hidden_numbers(key).and_then(|(object, _)| Some((object, owner_of(store, key.namespace, object)?)));
    let (own, bytes) = (seen.slot.freq(), value_bytes(store, seen.address, &seen.layout));
    let Some((object, owner)) = owner else { return Judged { freq: own, bytes } };
    match store.index.find(owner, |slot| is_head(store, slot, key.namespace, object, owner)) {
        Some(head) => {
            let (address, layout) = head.what;
            Judged { freq: head.slot.freq().max(own), bytes: value_bytes(store, address, &layout).max(bytes) }
        }
        None => Judged { freq: 0, bytes },
    }
}

/// Returns the length of the value whose head is the item at an address, or else the item's size, in bytes.
fn value_bytes(store: &Store, address: usize, layout: &Layout) -> usize {
    match layout.kind() {
        ItemKind::Head => large_ref(layout.value(&store.segments.heap, address)).bytes as usize,
        ItemKind::Plain | ItemKind::Piece | ItemKind::Typed => layout.size,
    }
}

impl<'g> PartReads<'g, '_> {
    /// Returns the bytes of a part of this object, which `key`'s item named in this guard, and counts an access of the
    /// part. Returns `None` if the part is lost, or if the value was changed since the item was read: see
    /// [`PartReads::take_lost`].
    pub fn part(self, key: &Key<'_>, object: u64, part: u64) -> Option<PartBytes<'g>> {
        let store = self.guard.store;
        let find = |name: &[u8]| {
            let seen = self.guard.items().find_live(&store.hasher.piece(key.namespace, name))?;
            crate::index::bump(seen.word, seen.slot);
            Some(seen.layout.value(&store.segments.heap, seen.address))
        };
        let found = find(&name(part, object)).and_then(|first| fragments(store, (part, object), first, find));
        if found.is_none() {
            self.guard.lost.set(true);
        }
        found
    }

    /// Assigns a number to a new part or a new object, and returns it.
    pub fn part_number(self) -> u64 {
        self.guard.store.persistent.objects.fetch_add(1, Relaxed)
    }

    /// Returns the salt of a key: a number other than 0 that clients cannot predict, by which a caller may hash names
    /// that clients choose. It is the same for the life of the store, and of its memory file.
    pub fn salt(self, key: &Key<'_>) -> u64 {
        self.guard.store.hasher.salt(key)
    }

    /// Returns true if [`PartReads::part`] did not find a part in this guard since the last call.
    pub fn take_lost(self) -> bool {
        self.guard.lost.replace(false)
    }

    /// Returns the number of an item's object, which identifies its parts. Returns `None` if the item has no parts.
    pub fn object_of(self, item: &Item<'_>) -> Option<u64> {
        let crate::Value::Typed { kind, bytes } = item.value else { return None };
        PartsHead::of(&[&[kind][..], bytes].concat()).map(|head| head.object)
    }
}

impl Sizes<'_, '_> {
    /// Returns the maximum length of an element of a value in parts, in bytes: that of an item.
    pub fn element_bytes_max(self) -> usize {
        usize::try_from(self.guard.store.geometry.item_bytes_max).unwrap_or(usize::MAX)
    }
}

impl PartWrites<'_, '_> {
    /// Writes new parts of an object, all or none. If the object is new, also writes its anchor.
    pub(crate) fn write_parts(self, key: &Key<'_>, object: u64, is_new: bool, parts: &Parts) -> Result<(), OpError> {
        let longest = parts.new.iter().map(|(_, place)| place.len()).max().unwrap_or(0);
        // Beside a long element, a part may have some that are not divided from it.
        if longest > self.guard.sizes().element_bytes_max().saturating_add(BESIDE_BYTES_MAX) {
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

    /// Stores one part, in fragments if it is long. If that fails, nothing of it is left.
    pub(crate) fn write_part(self, key: &Key<'_>, object: u64, part: u64, bytes: &[u8]) -> Result<(), OpError> {
        let guard = self.guard;
        let written = guard.parts_mut().write_fragments(key, object, part, bytes);
        if written.is_err() {
            let left = not_removed(guard, key, object, std::iter::once(part)).collect();
            free_later(guard, key, object, left);
        }
        written
    }

    fn write_fragments(self, key: &Key<'_>, object: u64, part: u64, bytes: &[u8]) -> Result<(), OpError> {
        let whole = fragment_bytes(self.guard.store);
        let (first, mut rest) = bytes.split_at(bytes.len().min(whole));
        write_hidden(self.guard, key, &name(part, object), Content::Bytes(first, &[]))?;
        let (mut last, mut number) = (first, 1);
        while last.len() == whole {
            (last, rest) = rest.split_at(rest.len().min(whole));
            write_hidden(self.guard, key, &fragment_name(part, object, number), Content::Bytes(last, &[]))?;
            number += 1;
        }
        Ok(())
    }

    /// Writes the anchor of an object: the parts of the object belong to this key from now on.
    pub(crate) fn set_owner(self, key: &Key<'_>, object: u64) -> Result<(), OpError> {
        write_hidden(self.guard, key, &name(ANCHOR, object), Content::Number(key.hash.0))
    }

    /// Removes the parts that a change has written but not published. If the change is tried again, its parts get new
    /// numbers.
    pub(crate) fn take_parts_back(self, key: &Key<'_>, object: u64, is_new: bool, parts: &Parts) {
        let anchor = is_new.then_some(ANCHOR);
        let written = parts.new.iter().map(|(part, _)| *part).chain(anchor);
        let left = not_removed(self.guard, key, object, written).collect();
        free_later(self.guard, key, object, left);
    }

    /// Removes parts that a head no longer names. Removed later are the parts that the open group of changes retains,
    /// those whose locks cannot be taken, and those that lie below others.
    pub(crate) fn end_parts(self, key: &Key<'_>, object: u64, parts: &Parts) {
        let group = self.guard.own.group.get_mut();
        let (mut left, gone): (Vec<u64>, Vec<u64>) = parts.gone.iter().partition(|part| group.retains(**part));
        left.extend(not_removed(self.guard, key, object, gone.into_iter()));
        free_later(self.guard, key, object, left);
        for (part, levels) in &parts.gone_trees {
            let walk = PartWalk::of(EntryForm::Keyed, levels + 1, vec![*part]);
            self.guard.commits().free_deferred(DeferredFree::of_loose(key.namespace, object, walk));
        }
    }

    /// Ends the key's value if it has lost a part, as if it had been evicted, and returns true. Called after a part was
    /// not found ([`PartReads::take_lost`]). Returns false if no part is lost: the value was changed meanwhile, and the
    /// caller reads it again.
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
                    && part_bytes(store, key.namespace, head.object, part).is_some()
            };
            if each_part(store, key.namespace, head, &mut |part| is_there(part)) {
                return Ok(Some(false));
            }
            let removed = guard.items_mut().remove_same(key, snap)?;
            if removed {
                note_broken(store, guard.counters(), key, &seen);
            }
            Ok(removed.then_some(true))
        })
    }
}

fn write_hidden(guard: &mut Guard<'_>, key: &Key<'_>, name: &[u8], content: Content<'_>) -> Result<(), OpError> {
    let hidden = guard.store.hasher.piece(key.namespace, name);
    guard.commits().commit(&hidden, &Plan::bare(ItemKind::Piece, content), None).map(drop)
}

fn free_later(guard: &mut Guard<'_>, key: &Key<'_>, object: u64, parts: Vec<u64>) {
    if !parts.is_empty() {
        let walk = PartWalk::of(EntryForm::Fixed, 1, parts);
        guard.commits().free_deferred(DeferredFree::of_loose(key.namespace, object, walk));
    }
}

/// Removes parts as the iterator is consumed, and returns those whose locks could not be taken.
fn not_removed(
    guard: &Guard<'_>,
    key: &Key<'_>,
    object: u64,
    parts: impl Iterator<Item = u64>,
) -> impl Iterator<Item = u64> {
    let (store, counters, namespace) = (guard.store, guard.counters(), key.namespace);
    parts.filter(move |part| remove_part(store, counters, namespace, object, *part).is_none())
}
