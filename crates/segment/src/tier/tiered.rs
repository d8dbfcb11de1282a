//! The access of handles to items on a second tier.
//!
//! ```text
//!   plain read          no item in memory, a flash slot has the tag ──> a read is requested, the request parks
//!                       ──> the read arrives: key and slot are checked again ──> answered from the read's buffer
//!   other operations    the same until the read arrives; then the item moves to memory, where the operation finds it
//! ```
//!
//! - The slot decides: an item that was read is the key's item if a slot of the key still names its address when the
//!   item is used.
//! - An operation that depends on the present item checks under the lock whether a flash slot may belong to the key. If
//!   so, and the slot is not known to be another key's, the operation parks and the item is brought back. A `set` does
//!   not check: it replaces every flash slot with the key's tag. Occasionally such a slot belongs to another key.
//! - An item on flash retains the sequence of the segment that it left, which is compared with flushes. It also retains
//!   its expiry, and its CAS token if a client knows the token.
//! - If the index does not outlive the process, each change of a slot is reported to the tier first
//!   ([`crate::tier::Tier::kill`]).

use base::clock::UnixMillis;

use crate::core::counters::Counters;
use crate::core::ended_keys::KeyEnd;
use crate::core::facets::{TierMoves, TierReads};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked, live};
use crate::core::op::{Expire, Value};
use crate::core::snap::Snap;
use crate::core::store::Store;
use crate::durable::moving::{BY_BACKGROUND, begin_move, end_move};
use crate::index::Locked;
use crate::items::unpublished::{Content, Plan, Unpublished, count_unpublished, dies_first, kill, undead, unpublished};
use crate::layout::header::EvictionQueue;
use crate::layout::item::{ItemKind, Layout, META_STALE, META_WON, NUM};
use crate::layout::key::Key;
use crate::layout::raw::Word64;
use crate::layout::slot::Slot;
use crate::tier::by_hash::Sought;
use crate::tier::flash_slots::{clear_flash, dies_on_flash, lives_on_flash, release, tier};
use crate::tier::staging::{Awaited, Known, Staging};
use crate::tier::{FlashAddress, Found, Parts, ReadBy, RetainedItem, TierItem, TierRead};

/// The number of reads from flash after which an item moves back to memory.
const BACK_FREQ: u64 = 2;

/// A value that was read from flash. Pass it to [`TierMoves::served`] or [`TierReads::put_back`] after use.
#[derive(Debug)]
pub struct FlashHit {
    read: TierRead,
    often: bool,
}

/// The state of a key that is not in memory.
#[derive(Debug)]
pub enum FromFlash {
    /// The key has no live item.
    Nowhere,
    /// The item is not available yet. The caller parks and calls again in a later iteration.
    Coming,
    /// The value, read from flash.
    Here(FlashHit),
}

impl FlashHit {
    fn parts(&self) -> &Parts {
        let Found::Item(parts) = &self.read.found else { unreachable!("a hit is an item") };
        parts
    }

    /// Returns the value's bytes.
    pub fn value(&self) -> Value<'_> {
        value_of(&self.read, self.parts())
    }

    /// Returns the flags that the client stored with the value.
    pub fn client_flags(&self) -> u32 {
        self.parts().client_flags
    }
}

pub(crate) fn value_of<'r>(read: &'r TierRead, parts: &Parts) -> Value<'r> {
    let bytes = &read.buffer[parts.value.clone()];
    match parts.kept {
        RetainedItem::Bytes => Value::Bytes(bytes),
        RetainedItem::Number => Value::Integer(number(bytes)),
        RetainedItem::Typed => {
            bytes.split_first().map_or(Value::Bytes(bytes), |(kind, bytes)| Value::Typed { kind: *kind, bytes })
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// The result of moving an item to the second tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demoted {
    /// The item is on the tier, or no longer exists.
    Gone,
    /// The lock could not be taken, or the item changed.
    Busy,
    /// The tier does not accept the item.
    Refused,
}

/// The place of a key's item.
pub(crate) enum Located {
    /// In memory, where the item is live or has ended.
    Memory {
        lives: bool,
    },
    Nowhere,
    Coming,
    Here(FlashAddress, Slot),
}

/// Returns the fields of an item that the tier stores. Returns `None` if the tier cannot store the item: it is not
/// whole, it is stale, or a client holds the lease to refill it.
pub(crate) fn tier_item<'s>(
    store: &'s Store,
    key: &Key<'s>,
    seen: &FoundItem<'_>,
    number: &'s mut [u8; 8],
) -> Option<TierItem<'s>> {
    let (heap, layout, address) = (&store.segments.heap, &seen.layout, seen.address);
    let leased = seen.meta(store).is_some_and(|meta| meta & (META_STALE | META_WON) != 0);
    let whole = match layout.kind() {
        ItemKind::Plain => true,
        ItemKind::Typed => {
            layout.has(NUM) || crate::layout::parts_head::PartsHead::of(layout.value(heap, address)).is_none()
        }
        ItemKind::Head | ItemKind::Piece => false,
    };
    if leased || !whole || key.piece {
        return None;
    }
    let snap = Snap::of(store, seen);
    let (kept, value) = if layout.has(NUM) {
        *number = snap.number().to_le_bytes();
        (RetainedItem::Number, &number[..])
    } else {
        let kept = if layout.is(ItemKind::Typed) { RetainedItem::Typed } else { RetainedItem::Bytes };
        (kept, layout.value(heap, address))
    };
    let header = store.segments.header_of(address);
    Some(TierItem {
        hash: key.hash.0,
        namespace: key.namespace,
        key: key.bytes,
        kept,
        value,
        client_flags: layout.client_flags(heap, address),
        expire_at: match seen.expire(store) {
            Expire::Never => None,
            Expire::At(at) => Some(at),
        },
        token: known_token(layout, &snap),
        sequence: header.sequence(),
        class: header.class(),
        // An item is in the main queue because it was read, or because its key had a ghost when it was stored.
        is_read: seen.slot.freq() > 0 || header.queue() == EvictionQueue::Main,
    })
}

/// Moves an item from memory to the second tier.
pub(crate) fn demote(
    store: &Store,
    counters: &Counters,
    key: &Key<'_>,
    seen: &FoundItem<'_>,
    now: UnixMillis,
) -> Demoted {
    let snap = Snap::of(store, seen);
    let mut digits = [0; 8];
    let Some(item) = tier_item(store, key, seen, &mut digits) else { return Demoted::Refused };
    let Some(at) = tier(store).offer(&item) else { return Demoted::Refused };
    let Some(locked) = store.index.lock(key.hash) else {
        tier(store).release(at);
        return Demoted::Busy;
    };
    let there = live(store, find_locked(store, &locked, key), now);
    match there.filter(|there| there.address == seen.address && Snap::of(store, there).same(&snap)) {
        // Two items in one block with the same tag would have identical slots.
        Some(there) if locked.find_flash(at).is_none() => {
            let slot = Slot::flash(key.hash.tag(), 0, at);
            if begin_move(store, BY_BACKGROUND, there.address, slot) {
                lives_on_flash(store, at);
                dies_first(store, there.address);
                end_move(store, BY_BACKGROUND);
            } else {
                dies_first(store, there.address);
                lives_on_flash(store, at);
            }
            store.flash_keys.taken(at, key.namespace);
            locked.replace(there.word, there.slot, slot, false);
            counters.note_flash_taken(key.namespace, 1);
            // The tier does not accept heads of values in parts, so no parts remain.
            let orphan = kill(store, counters, there.address, &there.layout);
            debug_assert!(orphan.is_none(), "only whole items are taken");
            Demoted::Gone
        }
        Some(_) => {
            tier(store).release(at);
            Demoted::Refused
        }
        None => {
            tier(store).release(at);
            // The item was changed, or it expired or was removed. If it still has its slot, the drain tries it again.
            let there = find_locked(store, &locked, key).is_some_and(|there| there.address == seen.address);
            if there { Demoted::Busy } else { Demoted::Gone }
        }
    }
}

fn known_token(layout: &Layout, snap: &Snap) -> Option<u64> {
    layout.has(crate::layout::item::CAS_TAKEN | crate::layout::item::CAS_FIELD).then(|| snap.token())
}

impl<'l> TierReads<'_, 'l> {
    /// Returns the flash read, or the free entry for one, that the unanswered request waits for. Returns `None` if it
    /// waits for something else.
    #[cold]
    pub fn awaited(self) -> Option<Awaited> {
        if self.guard.tiered { self.guard.own.reads.with(Staging::awaited) } else { None }
    }

    /// Locates a key's item. Requests a read of the first flash slot that may be the key's. If `back` is true, the item
    /// is brought back to memory after the read.
    pub(crate) fn locate(self, sought: Sought<'_>, back: bool) -> Located {
        let store = self.guard.store;
        loop {
            let mut on_flash = None;
            let in_memory = store.index.find_tiered(sought.hash(), |word, slot| {
                if slot.is_item() {
                    return sought.seen_at(store, word, slot).map(|seen| seen.ended(store, self.guard.now).is_none());
                }
                if on_flash.is_none() && known(self.guard, sought, slot.flash_address(), back) != Known::Other {
                    on_flash = Some(slot);
                }
                None
            });
            match (in_memory, on_flash) {
                (Some(lives), _) => return Located::Memory { lives },
                (None, None) => return Located::Nowhere,
                (None, Some(slot)) => {
                    if let Some(located) = look_at(self.guard, sought, slot, back) {
                        return located;
                    }
                }
            }
        }
    }

    /// Returns true if an item on flash has expired or was flushed.
    pub(crate) fn is_ended(self, parts: &Parts) -> bool {
        parts.expire_at.is_some_and(|end| end <= self.guard.now)
            || parts.sequence < self.guard.store.flushed_before(parts.namespace)
    }

    /// Returns the value of a key that a plain read did not find in memory.
    #[cold]
    pub fn read(self, key: &Key<'_>) -> FromFlash {
        if key.piece {
            return FromFlash::Nowhere;
        }
        match self.locate(Sought::Key(key), false) {
            Located::Nowhere | Located::Memory { lives: false } => FromFlash::Nowhere,
            // The item moved back to memory meanwhile. The repeated request finds it there.
            Located::Memory { lives: true } | Located::Coming => FromFlash::Coming,
            Located::Here(at, slot) => {
                let read = self.guard.own.reads.with(|reads| reads.take(key.hash.0, at)).expect("it is here");
                FromFlash::Here(FlashHit { read, often: slot.freq() + 1 >= BACK_FREQ })
            }
        }
    }

    /// Puts a value from flash back because the reply has no room for it yet. With `back`, the reply comes from memory
    /// instead.
    pub fn put_back(self, hit: FlashHit, back: bool) {
        self.guard.own.reads.with(|reads| reads.put_back(hit.read, back, false));
    }

    /// Requests a read of the key's item if it may be on flash, ahead of a plain read of the key.
    #[cold]
    pub fn request(self, key: &Key<'_>) {
        let _ = self.locate(Sought::Key(key), false);
    }

    /// Returns true if the key's item may be on flash, and then requests its move to memory. An operation that needs
    /// the item in memory parks.
    #[inline(always)]
    pub fn is_on_flash(self, key: &Key<'_>) -> bool {
        self.guard.tiered && self.awaits_flash(key)
    }

    /// Returns true if an operation on the key has to wait until the item is in memory or is known not to exist.
    #[cold]
    pub(crate) fn awaits_flash(self, key: &Key<'_>) -> bool {
        self.guard.tiered
            && !key.piece
            && matches!(self.locate(Sought::Key(key), true), Located::Coming | Located::Here(..))
    }

    /// Returns true if the key has no live item, neither in memory nor on flash.
    #[cold]
    pub(crate) fn is_nowhere(self, key: &Key<'_>) -> bool {
        key.piece || matches!(self.locate(Sought::Key(key), true), Located::Nowhere | Located::Memory { lives: false })
    }

    /// Returns true if the key may have an item although a lookup in memory missed it: the item may be on flash, or it
    /// moved between memory and flash meanwhile. Must be called after the lookup. If the item may be on flash, requests
    /// its read. The caller parks if the result is true.
    #[inline(always)]
    pub fn is_false_miss(self, key: &Key<'_>) -> bool {
        self.guard.tiered && !self.is_nowhere(key)
    }

    /// Records that a lookup in memory missed a key that may have an item: see [`TierReads::take_false_miss`].
    #[cold]
    pub(crate) fn note_missing(self, key: &Key<'_>) {
        if !self.is_nowhere(key) {
            self.guard.unsettled.set(true);
        }
    }

    /// Returns true if [`crate::Items::get`] or [`crate::Items::peek`] missed a key since the last call although the
    /// key may have an item ([`TierReads::is_false_miss`]). If so, a result that depends on that miss may be wrong.
    #[inline(always)]
    pub fn take_false_miss(self) -> bool {
        self.guard.tiered && self.guard.unsettled.replace(false)
    }

    /// Returns true if the key has no item in memory and a flash slot may belong to the key. The caller holds the key's
    /// lock, so the slots cannot change meanwhile.
    #[cold]
    pub(crate) fn may_be_on_flash(self, locked: &Locked<'l>, key: &Key<'_>) -> bool {
        if key.piece || find_locked(self.guard.store, locked, key).is_some() {
            return false;
        }
        let unknown = |slot: Slot| known(self.guard, Sought::Key(key), slot.flash_address(), true) != Known::Other;
        locked.on_flash().any(|(_, slot)| unknown(slot))
    }
}

impl TierMoves<'_, '_> {
    /// Counts a value that was served from flash. Moves an item that is read often back to memory.
    pub fn served(self, key: &Key<'_>, hit: FlashHit) {
        self.guard.counters().flash_hits.add(1);
        let at = hit.read.at;
        if hit.often {
            let read = bring_back(self.guard, hit.read);
            return self.guard.own.reads.with(|reads| reads.recycle(read.unwrap_or_else(|read| read)));
        }
        self.guard.store.index.find_tiered(key.hash, |word, slot| {
            let same = slot.is_flash() && slot.flash_address() == at;
            same.then(|| crate::index::bump(word, slot))
        });
        self.guard.own.reads.with(|reads| reads.recycle(hit.read));
    }

    /// Collects the reads that the tier has completed, and moves items back to memory if operations need them there.
    #[cold]
    pub(crate) fn settle_reads(self) {
        let (handle, tier) = (self.guard.own.id, tier(self.guard.store));
        self.guard.own.reads.with(|reads| reads.collect(tier, handle));
        let mut from = 0;
        while let Some(place) = self.guard.own.reads.with(|reads| reads.wanted_back(from)) {
            let read = self.guard.own.reads.with(|reads| reads.lift(place));
            match bring_back(self.guard, read) {
                // The entry is removed and another entry takes its index, so `from` does not advance.
                Ok(read) => self.guard.own.reads.with(|reads| {
                    let (hash, at) = (read.hash, read.at);
                    reads.put_down(read);
                    reads.forget(hash, at);
                }),
                Err(read) => {
                    self.guard.own.reads.with(|reads| reads.put_down(read));
                    from = place + 1;
                }
            }
        }
    }
}

fn known(guard: &Guard<'_>, sought: Sought<'_>, at: FlashAddress, back: bool) -> Known {
    guard.own.reads.with(|reads| reads.known(sought.hash().0, at, back))
}

/// Examines a flash slot for a key, and requests a read if there is none. Returns `None` if the slot is not the key's:
/// the caller then examines the other slots.
fn look_at(guard: &Guard<'_>, sought: Sought<'_>, slot: Slot, back: bool) -> Option<Located> {
    let (at, hash) = (slot.flash_address(), sought.hash().0);
    let (reads, walk) = (&guard.own.reads, matches!(sought, Sought::Hash(..)));
    match known(guard, sought, at, back) {
        Known::Asked => {
            reads.with(|reads| reads.waits_for(hash));
            Some(Located::Coming)
        }
        Known::Other => None,
        Known::Nothing => {
            let (tier, handle) = (tier(guard.store), guard.own.id);
            reads.with(|reads| match walk {
                true => reads.request_for_walk(tier, handle, hash, at, ReadBy::Key),
                false => reads.ask(tier, handle, hash, at, back),
            });
            Some(Located::Coming)
        }
        Known::Failed => {
            guard.counters().flash_failed.add(1);
            drop_read(guard, sought, at);
            None
        }
        Known::Here => {
            let read = reads.with(|reads| reads.take(hash, at)).expect("it is here");
            let Found::Item(parts) = &read.found else { unreachable!("it is an item") };
            match (sought.is(&read, parts), guard.tier().is_ended(parts)) {
                (false, _) => {
                    let other = TierRead { found: Found::Other, ..read };
                    reads.with(|reads| reads.put_back(other, false, walk));
                    None
                }
                (true, true) => {
                    reads.with(|reads| reads.forget(hash, at));
                    clear_ended(guard, &read, parts);
                    reads.with(|reads| reads.recycle(read));
                    Some(Located::Nowhere)
                }
                (true, false) => {
                    reads.with(|reads| reads.put_back(read, back, walk));
                    Some(Located::Here(at, slot))
                }
            }
        }
    }
}

/// Discards a read that no request can use, and clears the slot that names its address.
fn drop_read(guard: &Guard<'_>, sought: Sought<'_>, at: FlashAddress) {
    guard.own.reads.with(|reads| reads.forget(sought.hash().0, at));
    clear_flash(guard.store, guard.counters(), sought.namespace(), sought.hash(), at);
}

/// Clears the slot of an item that has ended. If the item has expired, leaves its key to be reported: clients may have
/// a copy of its value, and the reclaim of its region no longer finds the item.
#[cold]
fn clear_ended(guard: &Guard<'_>, read: &TierRead, parts: &Parts) {
    let (store, bytes) = (guard.store, &read.buffer[parts.key.clone()]);
    let key = store.hasher.key(crate::Namespace(parts.namespace), bytes);
    let is_flushed = parts.sequence < store.flushed_before(parts.namespace);
    if clear_flash(store, guard.counters(), key.namespace, key.hash, read.at) && !is_flushed {
        store.ended_keys.add(key.namespace, bytes, KeyEnd::Expired);
        store.call_background();
    }
}

/// Stores an item that was read from flash in memory, if a slot still names its address. Returns `Err` if it cannot be
/// stored now, or if the item is another key's. Otherwise returns `Ok`: the entry is no longer needed.
fn bring_back(guard: &mut Guard<'_>, read: TierRead) -> Result<TierRead, TierRead> {
    let store = guard.store;
    let Found::Item(parts) = &read.found else { return Ok(read) };
    let namespace = crate::Namespace(parts.namespace);
    let key = store.hasher.key(namespace, &read.buffer[parts.key.clone()]);
    let flushed = || parts.sequence < store.flushed_before(parts.namespace);
    let ended = guard.tier().is_ended(parts);
    if key.hash.0 != read.hash {
        return Err(TierRead { found: Found::Other, ..read });
    }
    if ended {
        clear_ended(guard, &read, parts);
        return Ok(read);
    }
    let plan = plan_of(&read, parts);
    let Ok(unpublished) = unpublished(store, &mut guard.own.open, &key, &plan, guard.now) else { return Err(read) };
    let Some(locked) = store.index.lock(key.hash) else {
        guard.own.open.give_back(store, unpublished.reserved);
        return Err(read);
    };
    match locked.find_flash(read.at).filter(|_| !flushed()) {
        Some((word, slot)) => {
            publish_at(store, &locked, (guard.counters(), guard.own.id), &key, &unpublished, word, slot);
            guard.counters().flash_back.add(1);
        }
        None => {
            drop(locked);
            guard.own.open.give_back(store, unpublished.reserved);
        }
    }
    Ok(read)
}

/// Returns the plan of the item in memory that replaces an item on flash.
fn plan_of<'r>(read: &'r TierRead, parts: &Parts) -> Plan<'r> {
    let bytes = &read.buffer[parts.value.clone()];
    Plan {
        kind: if parts.kept == RetainedItem::Typed { ItemKind::Typed } else { ItemKind::Plain },
        content: if parts.kept == RetainedItem::Number {
            Content::Number(number(bytes))
        } else {
            Content::Bytes(bytes, &[])
        },
        client_flags: parts.client_flags,
        expire: parts.expire_at.map_or(Expire::Never, Expire::At),
        token: parts.token,
        taken: parts.token.is_some(),
        meta: None,
        queue: EvictionQueue::Small,
    }
}

/// Publishes the unpublished item in `word`, in place of the slot that names the item's copy on flash.
fn publish_at(
    store: &Store,
    locked: &Locked<'_>,
    (counters, handle): (&Counters, usize),
    key: &Key<'_>,
    unpublished: &Unpublished,
    word: &Word64,
    slot: Slot,
) {
    let to = count_unpublished(store, counters, key, unpublished);
    if begin_move(store, handle, unpublished.address(), slot) {
        undead(store, unpublished);
        dies_on_flash(store, slot);
        end_move(store, handle);
    } else {
        dies_on_flash(store, slot);
        // The item must be live before a slot names it. After a crash, a dead item with a slot counts as an unfinished
        // replacement (`index::repair::clear_stored_over`).
        undead(store, unpublished);
    }
    locked.replace(word, slot, to, true);
    release(store, counters, slot, key.namespace, Some(true));
}

/// Counts the slots that name items on flash, by a walk over all slots. Used to check the running count.
pub(crate) fn flash_slots(store: &Store) -> u64 {
    let slots = (0..store.index.groups()).flat_map(|group| store.index.group_words(group));
    slots.filter(|(_, slot)| slot.is_flash()).count() as u64
}
