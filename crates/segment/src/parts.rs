//! Values in parts: a typed value too long for one item, as a tree of hidden items that its head names.
//!
//! ```text
//!   key  ->  head: type 1 (bit 7) | object 8 | levels 1 | entries 4 | entry ... | what the caller makes of it
//!            hidden key (part, hash of the key)  ->  a page: entry ...           with two levels
//!            hidden key (part, hash of the key)  ->  what the caller makes of it
//!   entry    4 of the caller's | part 8
//! ```
//!
//! - A change writes new parts, which nothing names, and then the head, under the key's lock: it is published whole or
//!   not at all. The parts that nothing names any more go afterwards, and all of them with the head, whatever ends it;
//!   but not if its successor is of the same object.
//! - Part numbers are never reused, so no part can be taken for another.
//! - A part is kept as long as its head is: when its segment is evicted, the head's reads count for it. A head goes
//!   with the first of its parts that does, and all others with it. Parts have no end of their own: they go with the
//!   head.
//! - Who finds a part missing has been overtaken by a change, or the part was pushed out of the index: he looks again
//!   ([`Turn::end_broken`]).

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::background::Background;
use crate::counters::Counters;
use crate::draft::{Content, Orphan, Plan};
use crate::header::Queue;
use crate::index::Hash;
use crate::item::Kind;
use crate::key::{Key, Namespace};
use crate::lane::Turn;
use crate::op::{Expire, Item, OpError};
use crate::slot::Slot;
use crate::store::{Seen, Store};
use crate::write::change::Change;
use base::clock::UnixMillis;

/// The bit of a type that says that its values are in parts.
pub const KIND_IN_PARTS: u8 = 0x80;

/// Bytes of a hidden key: longer than that of a large value's piece.
const NAME_BYTES: usize = 16;
const ENTRY_BYTES: usize = 12;
/// Type, object, levels and count of entries.
const FIXED_BYTES: usize = 14;

/// Parts that a change makes, and those that nothing names once it is done.
#[derive(Debug, Default)]
pub struct Parts {
    /// The bytes of all new parts.
    pub bytes: Vec<u8>,
    /// Each with its number, from [`Turn::part_number`], and its place in the bytes.
    pub new: Vec<(u64, Range<usize>)>,
    /// Parts that go.
    pub gone: Vec<u64>,
}

/// As [`crate::Decide`]; the parts that it makes it gives beside the scratch, and gets both empty.
pub type DecideParts<'d, T> = dyn FnMut(&Turn<'_>, Option<&Item<'_>>, &mut Vec<u8>, &mut Parts) -> Change<T> + 'd;

fn name(part: u64, owner: Hash) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    name[..8].copy_from_slice(&part.to_le_bytes());
    name[8..].copy_from_slice(&owner.0.to_le_bytes());
    name
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// The part that a hidden key names, and the hash of the key whose value it is of.
fn part_of(key: &Key<'_>) -> Option<(u64, Hash)> {
    (key.piece && key.bytes.len() == NAME_BYTES).then(|| (word(key.bytes), Hash(word(&key.bytes[8..]))))
}

/// The key is that of a part.
pub(crate) fn is_part(key: &Key<'_>) -> bool {
    part_of(key).is_some()
}

/// The parts that entries name.
fn entries(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(ENTRY_BYTES).map(|entry| word(&entry[4..]))
}

/// The object of a value in parts, whose bytes may lie in two places.
pub(crate) fn object_of(a: &[u8], b: &[u8]) -> Option<u64> {
    if a.first()? & KIND_IN_PARTS == 0 {
        return None;
    }
    let object: Vec<u8> = a[1..].iter().chain(b).take(8).copied().collect();
    (object.len() == 8).then(|| word(&object))
}

/// The head of a value in parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'b> {
    pub(crate) object: u64,
    levels: u8,
    root: &'b [u8],
}

impl<'b> Head<'b> {
    /// The head in an item's value, if it is one.
    pub(crate) fn of(value: &'b [u8]) -> Option<Self> {
        let (fixed, rest) = value.split_at_checked(FIXED_BYTES)?;
        let count = u32::from_le_bytes(fixed[10..].try_into().expect("four bytes")) as usize;
        let root = rest.get(..count.checked_mul(ENTRY_BYTES)?)?;
        (fixed[0] & KIND_IN_PARTS != 0).then(|| Self { object: word(&fixed[1..]), levels: fixed[9], root })
    }
}

impl Store {
    /// The bytes of a part, without counting an access.
    fn part_bytes(&self, namespace: u8, owner: Hash, part: u64) -> Option<&[u8]> {
        let name = name(part, owner);
        let seen = self.find(&self.hasher.piece(namespace, &name))?;
        Some(seen.layout.value(&self.segments.heap, seen.address))
    }

    fn remove_part(&self, counters: &Counters, namespace: u8, owner: Hash, part: u64) {
        let name = name(part, owner);
        let key = self.hasher.piece(namespace, &name);
        let Some(locked) = self.index.lock(key.hash) else { return };
        if let Some(seen) = self.find_locked(&locked, &key) {
            locked.replace(seen.word, seen.slot, Slot::EMPTY, false);
            self.kill(counters, seen.address, &seen.layout);
        }
    }

    /// Removes all parts of a value that has lost its head. One whose lock is not had stays until it is evicted:
    /// nothing names it.
    pub(crate) fn remove_parts(&self, counters: &Counters, namespace: u8, owner: Hash, head: Head<'_>) {
        self.each_part(namespace, owner, head, &mut |part| {
            self.remove_part(counters, namespace, owner, part);
            true
        });
    }

    /// Gives every part that a head names, a page behind what it names, until `each` wants no more. False if it did, or
    /// a page is lost.
    fn each_part(&self, namespace: u8, owner: Hash, head: Head<'_>, each: &mut dyn FnMut(u64) -> bool) -> bool {
        let mut whole = true;
        for entry in entries(head.root) {
            if head.levels > 1 {
                match self.part_bytes(namespace, owner, entry) {
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

    /// The item is the head of a value in parts whose key has this hash.
    fn is_head(&self, slot: Slot, namespace: u8, owner: Hash) -> Option<(usize, crate::item::Layout)> {
        let address = slot.address();
        let header = self.segments.header_of(address);
        if header.slot_generation() != slot.generation() || header.namespace() != namespace {
            return None;
        }
        let layout = crate::item::Layout::read(&self.segments.heap, address);
        let heap = &self.segments.heap;
        let is_head = layout.is(Kind::Typed)
            && Head::of(layout.value(heap, address)).is_some()
            && self.hasher.key(Namespace(namespace), layout.key(heap, address)).hash.0 == owner.0;
        is_head.then_some((address, layout))
    }

    /// How often a part was read, as far as its eviction is concerned: as often as its head, or itself.
    pub(crate) fn freq_with_head(&self, key: &Key<'_>, seen: &Seen<'_>) -> u64 {
        let Some((_, owner)) = part_of(key) else { return seen.slot.freq() };
        let head = self.index.find(owner, |slot| self.is_head(slot, key.namespace, owner));
        head.map_or(0, |head| head.slot.freq()).max(seen.slot.freq())
    }
}

impl Background {
    /// Before a part is evicted: its head goes, and all parts with it. `None`: the head's lock was not had.
    pub(crate) fn evict_head(&mut self, store: &Store, key: &Key<'_>, now: UnixMillis) -> Option<()> {
        let Some((part, owner)) = part_of(key) else { return Some(()) };
        let namespace = key.namespace;
        let locked = store.index.lock(owner)?;
        let Some(found) = locked.find(|slot| store.is_head(slot, namespace, owner)) else { return Some(()) };
        let (address, layout) = found.what;
        let seen = Seen { word: found.word, slot: found.slot, address, layout };
        let head = Head::of(layout.value(&store.segments.heap, address)).expect("it was looked at");
        // One that nothing names any more goes alone.
        if store.each_part(namespace, owner, head, &mut |there| there != part) {
            return Some(());
        }
        let bytes = layout.key(&store.segments.heap, address);
        let head_key = Key { bytes, hash: owner, namespace, piece: false };
        locked.replace(seen.word, seen.slot, Slot::ghost(owner.tag(), owner.group_hash()), false);
        self.note_evicted(store, &head_key, &seen, now);
        let counters = Self::counters(store);
        let orphan = store.kill(counters, address, &layout);
        drop(locked);
        if let Some(orphan) = orphan {
            store.remove_pieces(counters, orphan);
        }
        Some(())
    }
}

impl Turn<'_> {
    /// The bytes of a part of the value that `key`'s item has in this turn; counts as an access of it. `None`: it is
    /// lost, or the value was changed since the item was looked at: see [`Turn::takes_lost`].
    pub fn part(&self, key: &Key<'_>, part: u64) -> Option<&[u8]> {
        let name = name(part, key.hash);
        let found = self.find_live(&self.store.hasher.piece(key.namespace, &name));
        if found.is_none() {
            self.lost.set(true);
        }
        found.map(|seen| {
            crate::index::bump(seen.word, seen.slot);
            seen.layout.value(&self.store.segments.heap, seen.address)
        })
    }

    /// The item whose key has this hash ([`Key::hash`]), without counting an access.
    pub fn by_hash(&self, namespace: Namespace, hash: u64) -> Option<Item<'_>> {
        let store = self.store;
        let found = store.index.find(Hash(hash), |slot| {
            let address = slot.address();
            let header = store.segments.header_of(address);
            if header.slot_generation() != slot.generation() || header.namespace() != namespace.0 {
                return None;
            }
            let layout = crate::item::Layout::read(&store.segments.heap, address);
            let bytes = layout.key(&store.segments.heap, address);
            let is_it = !layout.is(Kind::Piece) && store.hasher.key(namespace, bytes).hash.0 == hash;
            is_it.then_some((address, layout))
        })?;
        let (address, layout) = found.what;
        let seen = store.live(Some(Seen { word: found.word, slot: found.slot, address, layout }), self.now)?;
        Some(store.item(&seen))
    }

    /// A number for a new part, or a new object.
    pub fn part_number(&self) -> u64 {
        self.store.objects.fetch_add(1, Relaxed)
    }

    /// Whether a part was looked for in this turn and not found, since this was asked last.
    pub fn takes_lost(&self) -> bool {
        self.lost.replace(false)
    }

    /// All bytes of an item's parts in the store, header and padding included.
    pub fn parts_bytes(&self, key: &Key<'_>, item: &Item<'_>) -> u64 {
        let crate::Value::Typed { kind, bytes } = item.value else { return 0 };
        let value = [&[kind][..], bytes].concat();
        let (Some(head), mut sum) = (Head::of(&value), 0) else { return 0 };
        self.store.each_part(key.namespace, key.hash, head, &mut |part| {
            let name = name(part, key.hash);
            let seen = self.store.find(&self.store.hasher.piece(key.namespace, &name));
            sum += seen.map_or(0, |seen| seen.layout.size as u64);
            true
        });
        sum
    }

    /// As [`Turn::change`], for values that are in parts or may be: of a type with [`KIND_IN_PARTS`], in the way that
    /// this module draws.
    ///
    /// # Errors
    /// As [`Turn::change`]; [`OpError::TooLarge`] also where a part is longer than an item in one piece may be.
    pub fn change_parts<T>(&mut self, key: &Key<'_>, decide: &mut DecideParts<'_, T>) -> Result<T, OpError> {
        let parts = RefCell::new(Parts::default());
        self.change_with(key, Some(&parts), &mut |turn, item, scratch| {
            let mut parts = parts.borrow_mut();
            parts.bytes.clear();
            parts.new.clear();
            parts.gone.clear();
            decide(turn, item, scratch, &mut parts)
        })
    }

    /// Writes new parts, all or none.
    pub(crate) fn write_parts(&mut self, key: &Key<'_>, parts: &Parts) -> Result<(), OpError> {
        let longest = parts.new.iter().map(|(_, place)| place.len()).max().unwrap_or(0);
        let room = Key { bytes: &[0; NAME_BYTES], ..*key };
        if longest as u64 > self.whole_max(&room) {
            return Err(OpError::TooLarge);
        }
        if parts.bytes.len() > self.store.geometry.piece_bytes {
            self.check_room(key, parts.bytes.len() as u64)?;
        }
        for (at, (part, place)) in parts.new.iter().enumerate() {
            let name = name(*part, key.hash);
            let hidden = self.store.hasher.piece(key.namespace, &name);
            let plan = Plan {
                kind: Kind::Piece,
                content: Content::Bytes(&parts.bytes[place.clone()], &[]),
                client_flags: 0,
                expire: Expire::Never,
                token: None,
                taken: false,
                meta: None,
                queue: Queue::Small,
            };
            if let Err(error) = self.commit(&hidden, &plan, None) {
                self.remove_these(key, parts.new[..at].iter().map(|(part, _)| *part));
                return Err(error);
            }
        }
        Ok(())
    }

    pub(crate) fn remove_these(&self, key: &Key<'_>, parts: impl Iterator<Item = u64>) {
        parts.for_each(|part| self.store.remove_part(self.counters(), key.namespace, key.hash, part));
    }

    /// After a part was not found ([`Turn::takes_lost`]): ends the key's value if it has lost one, as if it had been
    /// evicted. Else it was changed meanwhile, and is to be looked at again.
    ///
    /// # Errors
    /// [`OpError::Parked`].
    pub fn end_broken(&mut self, key: &Key<'_>) -> Result<bool, OpError> {
        self.retry(|turn| {
            let Some((seen, snap)) = turn.snap(key)? else { return Ok(Some(false)) };
            let store = turn.store;
            let head = match seen.layout.is(Kind::Typed) {
                true => Head::of(seen.layout.value(&store.segments.heap, seen.address)),
                false => None,
            };
            let Some(head) = head else { return Ok(Some(false)) };
            let is_there = |part: u64| store.part_bytes(key.namespace, key.hash, part).is_some();
            if store.each_part(key.namespace, key.hash, head, &mut |part| is_there(part)) {
                return Ok(Some(false));
            }
            let removed = turn.remove_same(key, snap)?;
            turn.counters().large_broken.add(u64::from(removed));
            Ok(removed.then_some(true))
        })
    }
}

impl Orphan {
    /// The object whose parts they are.
    pub(crate) fn object(&self, store: &Store) -> Option<u64> {
        match self {
            Self::Pieces { large, .. } => Some(large.object),
            Self::Parts { address, bytes, .. } => {
                Head::of(store.segments.heap.bytes(*address, *bytes)).map(|h| h.object)
            }
        }
    }
}
