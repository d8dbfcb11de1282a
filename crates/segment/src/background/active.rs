//! The search for single expired items while a listener wants to learn of them.
//!
//! A read never returns an expired item, so items need not be removed one by one: a segment is drained when all of its
//! items have expired, which may be long after the first. A listener of expiries would learn of them then. While there
//! is one, slices therefore also search the index for expired items:
//!
//! ```text
//!   every 50 ms: the next groups of the index ──> slots that name an item with an expiry ──> expired: removed
//! ```
//!
//! Bounds: a step reads at most [`SLOTS_A_STEP`] slots and examines [`ITEMS_A_STEP`] items that may expire, or a group
//! more, about 0.1 ms of work. If there are more of such items, the steps take turns. Without a listener there is no
//! search.

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
    /// Makes a step if one is due: calls `remove` for expired items.
    pub(super) fn step(
        &mut self,
        store: &Store,
        now: UnixMillis,
        over: &mut dyn FnMut() -> bool,
        remove: &mut Remove<'_>,
    ) {
        if now < self.due || is_unverified(store) {
            return;
        }
        let groups = store.index.groups_used();
        let mut examined = 0;
        for _ in 0..groups.min(SLOTS_A_STEP / GROUP_SLOTS) {
            let group = self.group % groups;
            for (_, slot) in store.index.group_words(group) {
                examined += usize::from(examine(store, slot, now, remove));
            }
            self.group = group + 1;
            if examined >= ITEMS_A_STEP || over() {
                break;
            }
        }
        self.due = now.plus_ms(EVERY_MS);
    }
}

/// Calls `remove` if the item that a slot names has expired. Returns true if the item has an expiry. An item whose lock
/// another thread holds stays until a later step.
fn examine(store: &Store, slot: Slot, now: UnixMillis, remove: &mut Remove<'_>) -> bool {
    if !slot.is_item() {
        return false;
    }
    let Some(header) = store.segments.named(slot).filter(|header| header.class() != CLASS_NEVER) else { return false };
    let address = slot.address();
    let Some(layout) = item_in(store, header, address) else { return false };
    // The pieces and parts of a value are removed with their head.
    if !layout.has(EXPIRY) || layout.has(DEAD) || layout.is(ItemKind::Piece) {
        return false;
    }
    let relative = layout.expiry(&store.segments.heap, address).load(Acquire);
    if store.segments.expire_at(address, relative) <= now {
        remove(&key_at(store, header.namespace(), address, &layout), address);
    }
    true
}
