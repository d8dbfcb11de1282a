//! Walks over all items of a namespace, in memory and on flash.
//!
//! ```text
//!   cursor ──> part of the index ──slots are examined──> item in memory: reported at once
//!                                                        item on flash: a read is requested, the caller parks
//!                 ──later iterations──> a read has the item ──> its key is looked up again
//!                                    │                      ├─ a slot still names the address: reported from the read
//!                                    │                      ├─ the item is in memory: reported from memory
//!                                    │                      ├─ the item is at another address: a read is requested
//!                                    │                      └─ no slot names the item: it was removed
//!                                    └> a read lacks the item ──> if a slot still names the address, it is a miss;
//!                                                                 otherwise the part is examined once more
//!                 ──no reads pending──> the next cursor
//! ```
//!
//! - **An item that exists during the whole walk is reported.** An item moves from memory to flash, back, or from one
//!   region to another by a change of its slot. An examination of a part detects slots that were displaced meanwhile,
//!   so it finds every item of the part. The later lookup by key detects them too. A part is examined again only if a
//!   region was freed between the examination and a read, so every walk makes progress.
//! - **A step is bounded.** A step visits one part of the index ([`crate::index::Order`]) with about 27 slots, or
//!   several parts of one group with at most [`STEP_ITEMS`] items together. Each call for the step reports the items
//!   whose reads have completed. Walks use at most half of a handle's concurrent reads.
//! - Without a second tier, a walk uses [`Walks::scan`]. The cursor of a scan is the upper four bits of the tags, then
//!   the group hash. Neither changes while the index grows or shrinks. A step visits the items of one group with those
//!   four bits, about 27 items. Their slots contain the bits, so the step reads no other item of the group.
//! - In an index with few items, such a walk reads all groups sixteen times for nothing. A walk that begins at
//!   [`Walks::first_cursor`] reads each group once there: its cursors have the bit [`ALL_TAGS`], and a step visits all
//!   items of a group. The cursor keeps this order for the whole walk, however many items are added meanwhile.
//! - An item that cannot be read from its device, or is damaged, is not reported and loses its slot, as in a read of
//!   its key.

use std::ops::Range;

use crate::core::facets::Walks;
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, hash_at, item_of, live, seen_at};
use crate::core::op::{Expire, Item, OpError};
use crate::core::store::totals;
use crate::index::{Hash, Part, RANGE_PARTS, RANGE_SLOTS_MAX};
use crate::layout::key::{Key, Namespace};
use crate::layout::raw::Word64;
use crate::layout::slot::Slot;
use crate::tier::flash_slots::{clear_flash, tier};
use crate::tier::staging::Walked;
use crate::tier::tiered::value_of;
use crate::tier::{FlashAddress, Found, Parts, ReadBy, SlotMatch, TierRead};

/// The maximum number of items of a step, unless the step's first part has more. A walk has at most this number of
/// reads in flight.
const STEP_ITEMS: usize = 32;

/// The number of lower bits of a tag, which do not order a walk in memory.
pub(crate) const WALK_TAG_SHIFT: u32 = 12 - RANGE_PARTS.trailing_zeros();
/// The upper bound of the cursors of a walk in memory; no cursor reaches it.
pub(crate) const WALK_END: u64 = (RANGE_PARTS as u64) << 32;

/// The bit of a cursor whose walk in memory visits all tags of a group in one step.
const ALL_TAGS: u64 = 1 << 40;
/// The mean number of items in a group up to which a walk visits all tags of a group in one step. The step is then not
/// longer than one of the other order, unless items are added during the walk: it has at most all slots of a group.
const SPARSE_ITEMS: u64 = 32;

/// A caller's walk step in progress, with the flash reads that are still pending. The default value holds no step.
#[derive(Debug, Default)]
pub struct Stride {
    /// Namespace and cursor at which the step began.
    from: Option<(Option<Namespace>, u64)>,
    part: Option<Part>,
    left: Vec<OnFlash>,
    /// Places on flash that the step has finished: their items were reported, or the places hold no item.
    settled: Vec<OnFlash>,
}

/// The place on flash of an item that a walk reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnFlash {
    /// The bits of the key's hash that its slot determines.
    hash: Hash,
    at: FlashAddress,
}

/// A visitor of a walk over all namespaces. It receives an item's namespace, the item, and its place if it is on flash.
pub type WalkVisit<'v> = dyn FnMut(Namespace, &Item<'_>, Option<OnFlash>) + 'v;

impl Stride {
    fn note(&mut self, place: OnFlash) {
        if !self.left.contains(&place) && !self.settled.contains(&place) {
            self.left.push(place);
        }
    }
}

impl Walks<'_, '_> {
    /// Visits the next few live items of a namespace from `cursor` on (0 begins). Returns the next cursor, or `None` at
    /// the end. An item that exists from the first call to the last is visited at least once, wherever it moves and
    /// however the index changes meanwhile. It may be visited twice.
    ///
    /// # Errors
    /// [`OpError::Parked`] while items on flash are being read. The caller calls again in a later iteration, with the
    /// same cursor and stride. The repeated call does not visit items again that were visited before.
    pub fn walk(
        self,
        namespace: Namespace,
        cursor: u64,
        stride: &mut Stride,
        visit: &mut dyn FnMut(&Item<'_>),
    ) -> Result<Option<u64>, OpError> {
        if !self.guard.tiered {
            return Ok(self.scan(namespace, cursor, visit));
        }
        self.walk_tiers(namespace, cursor, stride, &mut |item, _| visit(item))
    }

    /// Walks like [`Walks::walk`], and also reports the place of each item on flash: `None` if the item is in memory.
    ///
    /// # Errors
    /// Those of [`Walks::walk`].
    pub fn walk_tiers(
        self,
        namespace: Namespace,
        cursor: u64,
        stride: &mut Stride,
        visit: &mut dyn FnMut(&Item<'_>, Option<OnFlash>),
    ) -> Result<Option<u64>, OpError> {
        walk_some(self.guard, Some(namespace), cursor, stride, &mut |_, item, place| visit(item, place))
    }

    /// Walks over all namespaces, and reports each item with its namespace. The walk reads every item on flash once.
    ///
    /// # Errors
    /// Those of [`Walks::walk`].
    pub fn walk_all(self, cursor: u64, stride: &mut Stride, visit: &mut WalkVisit<'_>) -> Result<Option<u64>, OpError> {
        walk_some(self.guard, None, cursor, stride, visit)
    }

    /// Returns the item that a flash read has loaded.
    pub(crate) fn item_of<'r>(self, slot: Slot, read: &'r TierRead, parts: &Parts) -> Item<'r> {
        let expire = parts.expire_at.map_or(Expire::Never, Expire::At);
        Item {
            key: &read.buffer[parts.key.clone()],
            value: value_of(read, parts),
            client_flags: parts.client_flags,
            expire,
            token: parts.token.unwrap_or(0),
            fetched: slot.freq() > 0,
            last_access: self.guard.store.started,
            stale: false,
            stored_bytes: (parts.value.end - parts.key.start) as u64,
            ttl_class: crate::layout::ttl::class_of(expire, self.guard.now),
        }
    }

    /// Returns the position of the key in the order of a walk's cursors.
    pub fn walk_place(self, key: &Key<'_>) -> u64 {
        if self.guard.tiered {
            return self.guard.store.index.order().place(key.hash).into();
        }
        u64::from(key.hash.tag() >> WALK_TAG_SHIFT) << 32 | u64::from(key.hash.group_hash())
    }

    /// Returns the cursor with which a walk should begin. In an index with few items, its walk takes a sixteenth of the
    /// steps of a walk that begins at 0.
    pub fn first_cursor(self) -> u64 {
        let store = self.guard.store;
        let is_sparse = || totals(store).items() / SPARSE_ITEMS < store.index.groups_used() as u64;
        if !self.guard.tiered && is_sparse() { ALL_TAGS } else { 0 }
    }

    /// Returns the range of the positions of keys in the order of a walk that begins at [`Walks::first_cursor`].
    pub fn places(self) -> Range<u64> {
        let first = self.first_cursor();
        let places = if self.guard.tiered || first != 0 { 1 << 32 } else { WALK_END };
        first..first + places
    }

    /// Returns the position of a key in the order of a walk that has the cursor `cursor`. `place` is its
    /// [`Walks::walk_place`].
    pub const fn place_in_walk(cursor: u64, place: u64) -> u64 {
        if cursor & ALL_TAGS == 0 { place } else { ALL_TAGS | place as u32 as u64 }
    }

    /// Returns true if the item that a walk reported is still at `place`. The caller prevents other threads from
    /// changing the item.
    pub fn is_still(self, key: &Key<'_>, place: OnFlash) -> bool {
        let mut named = false;
        let seen = self.guard.store.index.find_tiered(key.hash, |word, slot| {
            named |= slot.is_flash() && slot.flash_address() == place.at;
            slot.is_item().then(|| seen_at(self.guard.store, key, word, slot)).flatten()
        });
        seen.is_none() && named
    }

    /// Removes an item that a walk reported, if the item is still at `place`. Returns false if the removal is not
    /// possible now.
    pub fn remove_from_flash(self, namespace: Namespace, place: OnFlash) -> bool {
        clear_flash(self.guard.store, self.guard.counters(), namespace.0, place.hash, place.at)
    }
}

/// Walks over one namespace, or over all namespaces.
fn walk_some(
    guard: &Guard<'_>,
    wanted: Option<Namespace>,
    cursor: u64,
    stride: &mut Stride,
    visit: &mut WalkVisit<'_>,
) -> Result<Option<u64>, OpError> {
    if !guard.tiered {
        let takes = |of: u8| wanted.is_none_or(|wanted| wanted.0 == of);
        return Ok(guard.walks().scan_some(takes, cursor, &mut |of, item| visit(of, item, None)));
    }
    let (store, reads) = (guard.store, &guard.own.reads);
    let (order, tier) = (store.index.order(), tier(store));
    let by = ReadBy::Slot(SlotMatch { hasher: store.hasher, order });
    let begun = stride.part.filter(|_| stride.from == Some((wanted, cursor)));
    let part = begun.unwrap_or_else(|| store.index.parts_from(cursor as u32, STEP_ITEMS));
    if begun.is_none() {
        (stride.from, stride.part) = (Some((wanted, cursor)), Some(part));
        stride.left.clear();
        stride.settled.clear();
        examine(guard, wanted, &part, stride, visit);
    }
    let (mut number, mut has_moved) = (0, false);
    while let Some(place) = stride.left.get(number).copied() {
        match reads.with(|reads| reads.walked(place.hash.0, place.at)) {
            Walked::Asked => number += 1,
            Walked::Nothing => {
                reads.with(|reads| reads.request_for_walk(tier, guard.own.id, place.hash.0, place.at, by));
                number += 1;
            }
            Walked::Come(read) => {
                stride.left.swap_remove(number);
                stride.settled.push(place);
                match &read.found {
                    Found::Item(parts) if wanted.is_some_and(|wanted| parts.namespace != wanted.0) => {}
                    Found::Item(parts) => report_read(guard, &part, place, (&read, parts), stride, visit),
                    _ => has_moved |= !is_miss(guard, wanted, place),
                }
                reads.with(|reads| reads.recycle(read));
            }
        }
    }
    if has_moved {
        examine(guard, wanted, &part, stride, visit);
    }
    if !stride.left.is_empty() {
        return Err(guard.parked());
    }
    stride.part = None;
    Ok(part.last.checked_add(1).map(u64::from))
}

/// Visits the items of a part in memory, and records those on flash.
fn examine(guard: &Guard<'_>, wanted: Option<Namespace>, part: &Part, stride: &mut Stride, visit: &mut WalkVisit<'_>) {
    let (index, order) = (&guard.store.index, guard.store.index.order());
    let takes = |of: u8| wanted.is_none_or(|wanted| wanted.0 == of);
    let mut slots = [Slot::EMPTY; RANGE_SLOTS_MAX];
    let range = index.range(part.first, &mut slots);
    for (at, slot) in slots[..range.count].iter().copied().enumerate() {
        if !slot.is_taken() || !part.may_have(slot) {
            continue;
        }
        if slot.is_flash() {
            stride.note(OnFlash { hash: part.hash_of(at, slot), at: slot.flash_address() });
        } else {
            let (word, within) = (index.range_word(&range, at), |hash: Hash| part.has(order.place(hash)));
            guard.walks().visit_slot(takes, word, slot, within, |of, item| visit(of, item, None));
        }
    }
}

/// Visits an item that was read from flash, or its present version if the item has moved. If that version is also on
/// flash, records its place for another read.
fn report_read(
    guard: &Guard<'_>,
    part: &Part,
    place: OnFlash,
    (read, parts): (&TierRead, &Parts),
    stride: &mut Stride,
    visit: &mut WalkVisit<'_>,
) {
    let (store, of) = (guard.store, Namespace(parts.namespace));
    let key = store.hasher.key(of, &read.buffer[parts.key.clone()]);
    if !part.has(store.index.order().place(key.hash)) {
        return;
    }
    let mut here = None;
    let in_memory = store.index.find_tiered(key.hash, |word, slot| {
        if slot.is_item() {
            return seen_at(store, &key, word, slot);
        }
        if slot.flash_address() == place.at {
            here = Some(slot);
        } else {
            stride.note(OnFlash { at: slot.flash_address(), ..place });
        }
        None
    });
    match (live(store, in_memory, guard.now), here) {
        (Some(seen), _) => visit(of, &seen.item(store), None),
        (None, Some(slot)) if in_memory.is_none() && !guard.tier().is_ended(parts) => {
            visit(of, &guard.walks().item_of(slot, read, parts), Some(place));
        }
        _ => {}
    }
}

/// Returns true if the item that a slot names cannot be read or is damaged. Returns false if the slot names another
/// item by now.
#[cold]
fn is_miss(guard: &Guard<'_>, wanted: Option<Namespace>, place: OnFlash) -> bool {
    let store = guard.store;
    let named = |slot: Slot| slot.is_flash() && slot.flash_address() == place.at;
    if store.index.find_tiered(place.hash, |_, slot| named(slot).then_some(())).is_none() {
        return false;
    }
    guard.counters().flash_failed.add(1);
    // The item's namespace is unknown in a walk over all namespaces.
    let of = wanted.unwrap_or(Namespace::DEFAULT);
    clear_flash(store, guard.counters(), of.0, place.hash, place.at);
    true
}

impl Walks<'_, '_> {
    /// Visits the next few live items of a namespace in memory from `cursor` on (0 begins). Returns the next cursor, or
    /// `None` at the end. An item that exists from the first call to the last is visited at least once, however the
    /// index changes meanwhile. An item may be visited twice in one call, but never in two calls.
    pub fn scan(self, namespace: Namespace, cursor: u64, visit: &mut dyn FnMut(&Item<'_>)) -> Option<u64> {
        self.scan_some(|of| of == namespace.0, cursor, &mut |_, item| visit(item))
    }

    /// Visits items as [`Walks::scan`] does, for the namespaces that `takes` accepts.
    #[inline(always)]
    pub(crate) fn scan_some(
        self,
        takes: impl Fn(u8) -> bool + Copy,
        cursor: u64,
        visit: &mut impl FnMut(Namespace, &Item<'_>),
    ) -> Option<u64> {
        let store = self.guard.store;
        let all_tags = cursor & ALL_TAGS != 0;
        let (tags, from) = (((cursor & !ALL_TAGS) >> 32) as u16, cursor as u32);
        let mut slots = [Slot::EMPTY; RANGE_SLOTS_MAX];
        let range = store.index.range(from, &mut slots);
        let mut items = [0u16; RANGE_SLOTS_MAX];
        let mut count = 0;
        for (at, slot) in slots[..range.count].iter().enumerate() {
            if slot.is_item() && (all_tags || slot.tag() >> WALK_TAG_SHIFT == tags) {
                store.segments.prefetch_header(slot.address());
                store.segments.heap.prefetch(slot.address());
                items[count] = at as u16;
                count += 1;
            }
        }
        let within = |hash: Hash| (from..=range.last).contains(&hash.group_hash());
        for at in items[..count].iter().map(|at| usize::from(*at)) {
            self.visit_slot(takes, store.index.range_word(&range, at), slots[at], within, &mut *visit);
        }
        if all_tags {
            return range.last.checked_add(1).map(|next| ALL_TAGS | u64::from(next));
        }
        let next = (u64::from(tags) << 32 | u64::from(range.last)) + 1;
        (next < WALK_END).then_some(next)
    }

    /// Visits the item in memory that a slot names, if the item is live, its namespace is accepted, and `within`
    /// accepts its key's hash.
    #[inline(always)]
    pub(crate) fn visit_slot(
        self,
        takes: impl Fn(u8) -> bool,
        word: &Word64,
        slot: Slot,
        within: impl Fn(Hash) -> bool,
        mut visit: impl FnMut(Namespace, &Item<'_>),
    ) {
        let store = self.guard.store;
        let Some((of, address, layout)) = item_of(store, slot) else { return };
        if !takes(of) || !within(hash_at(store, of, address, &layout)) {
            return;
        }
        let seen = FoundItem { word, slot, address, layout };
        if seen.layout.kind() != crate::layout::item::ItemKind::Piece && seen.ended(store, self.guard.now).is_none() {
            visit(Namespace(of), &seen.item(store));
        }
    }
}
