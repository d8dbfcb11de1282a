//! The search for single expired items while a listener wants to learn of them, or while memory is short.
//!
//! A read never returns an expired item, so items need not be removed one by one: a segment is drained when all of its
//! items have expired. That may be long after the first, because the times to live of a segment's items differ by a
//! factor of up to two, and longer if a time was shortened after an item was stored. A listener would learn of expiries
//! late, and a store without eviction would refuse writes although much of its memory has expired. Slices therefore
//! also search the index for expired items then:
//!
//! ```text
//!   every 50 ms: the next groups of the index ──> slots that name an item with an expiry ──> expired: removed
//!   while a tenth of them have expired: in every slice
//! ```
//!
//! Bounds: a step reads at most [`SLOTS_A_STEP`] slots and examines [`ITEMS_A_STEP`] items that may expire, or a group
//! more, about 0.1 ms of work. If there are more of such items, the steps take turns. Without a listener and with free
//! memory there is no search.

use crate::core::lookup::{is_unverified, item_in, key_at};
use crate::core::store::Store;
use crate::index::GROUP_SLOTS;
use crate::layout::item::{DEAD, EXPIRY, ItemKind};
use crate::layout::key::Key;
use crate::layout::slot::Slot;
use crate::layout::ttl::CLASS_NEVER;
use base::clock::UnixMillis;
use std::sync::atomic::Ordering::Acquire;

/// The time between two steps.
const EVERY_MS: u64 = 50;
const SLOTS_A_STEP: usize = 32 << 10;
const ITEMS_A_STEP: usize = 1024;
/// The next slice makes another step if at least one of this many examined items has expired.
const EXAMINED_FOR_ONE: usize = 10;

/// The position of the search in the index.
#[derive(Debug, Default)]
pub(super) struct ActiveExpiry {
    group: usize,
    /// The time of the next step.
    due: UnixMillis,
}

/// A function that removes an expired item: its arguments are the key and the address.
type Remove<'r> = dyn FnMut(&Key<'_>, usize) + 'r;

impl ActiveExpiry {
    /// Makes a step if one is due: calls `remove` for expired items. Returns true if the next slice should make
    /// another.
    pub(super) fn step(
        &mut self,
        store: &Store,
        now: UnixMillis,
        over: &mut dyn FnMut() -> bool,
        remove: &mut Remove<'_>,
    ) -> bool {
        if now < self.due || is_unverified(store) {
            return false;
        }
        let groups = store.index.groups_used();
        let (mut examined, mut expired) = (0, 0);
        for _ in 0..groups.min(SLOTS_A_STEP / GROUP_SLOTS) {
            let group = self.group % groups;
            for (_, slot) in store.index.group_words(group) {
                let found = examine(store, slot, now, remove);
                examined += usize::from(found.is_some());
                expired += usize::from(found == Some(true));
            }
            self.group = group + 1;
            if examined >= ITEMS_A_STEP || over() {
                break;
            }
        }
        let has_many = expired > 0 && expired * EXAMINED_FOR_ONE >= examined;
        self.due = if has_many { now } else { now.plus_ms(EVERY_MS) };
        has_many
    }
}

/// Calls `remove` if the item that a slot names has expired, and returns true. Returns `None` if there is no item with
/// an expiry. An item whose lock another thread holds stays until a later step.
fn examine(store: &Store, slot: Slot, now: UnixMillis, remove: &mut Remove<'_>) -> Option<bool> {
    let slot = Some(slot).filter(|slot| slot.is_item())?;
    let header = store.segments.named(slot).filter(|header| header.class() != CLASS_NEVER)?;
    let address = slot.address();
    let layout = item_in(store, header, address)?;
    // The pieces and parts of a value are removed with their head.
    if !layout.has(EXPIRY) || layout.has(DEAD) || layout.is(ItemKind::Piece) {
        return None;
    }
    let relative = layout.expiry(&store.segments.heap, address).load(Acquire);
    let has_expired = store.segments.expire_at(address, relative) <= now;
    if has_expired {
        remove(&key_at(store, header.namespace(), address, &layout), address);
    }
    Some(has_expired)
}
