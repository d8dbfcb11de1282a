//! Handles the items of regions that the second tier reclaims. If an index slot still names such an item, the item is
//! copied to another region if it was read on flash. Otherwise its slot is cleared, and its key is reported to the
//! observer.

use base::clock::UnixMillis;

use super::observe::EvictionObserver;
use crate::core::counters::Counters;
use crate::core::ended_keys::KeyEnd;
use crate::core::op::Expire;
use crate::core::store::{Store, background_counters};
use crate::layout::key::{Key, Namespace};
use crate::layout::slot::Slot;
use crate::layout::ttl;
use crate::tier::flash_slots::{dies_on_flash, lives_on_flash, release};
use crate::tier::{FlashAddress, Reclaimed, Tier, TierItem};

/// The number of items that one slice handles. This takes about 30 us.
const ITEMS_A_SLICE: usize = 64;

/// Handles some items of a region that is being reclaimed. Returns true if more items are waiting.
pub(super) fn reclaim_flash(store: &Store, now: UnixMillis, observer: Option<&mut dyn EvictionObserver>) -> bool {
    let Some(tier) = store.tier.as_deref() else { return false };
    let mut observer = observer.filter(|observer| observer.wants_expired());
    let counters = background_counters(store);
    let mut left = ITEMS_A_SLICE;
    tier.reclaim(now, &mut |item, at, may_stay| {
        if left == 0 {
            return Reclaimed::Later;
        }
        left -= 1;
        let (reclaimed, end) = reclaim_one(store, tier, counters, item, (at, may_stay), now);
        if let (Some(end), Some(observer)) = (end, &mut observer) {
            observer.key_ended(Namespace(item.namespace), item.key, end);
        }
        reclaimed
    })
}

/// Handles one item. Also returns the reason if the item has lost its slot, unless it was flushed.
fn reclaim_one(
    store: &Store,
    tier: &dyn Tier,
    counters: &Counters,
    item: &TierItem<'_>,
    (at, may_stay): (FlashAddress, bool),
    now: UnixMillis,
) -> (Reclaimed, Option<KeyEnd>) {
    let key = store.hasher.key(Namespace(item.namespace), item.key);
    let flushed = item.sequence < store.flushed_before(item.namespace);
    let ended = item.expire_at.is_some_and(|end| end <= now) || flushed;
    let read = |slot: Slot| slot.freq() > 0;
    // Decides before the key's lock is taken whether the item is copied, because a copy under the lock would take too
    // long.
    let freq = flash_freq(store, &key, at);
    let stays = may_stay && !ended && freq.is_some_and(|freq| freq > 0);
    let class = ttl::class_of(item.expire_at.map_or(Expire::Never, Expire::At), now);
    let again = if stays { tier.offer(&TierItem { hash: key.hash.0, class, ..*item }) } else { None };
    let Some(locked) = store.index.lock(key.hash) else {
        again.into_iter().for_each(|again| tier.release(again));
        return (Reclaimed::Later, None);
    };
    match (locked.find_flash(at), again) {
        (Some((word, slot)), Some(again)) if read(slot) && locked.find_flash(again).is_none() => {
            dies_on_flash(store, slot);
            lives_on_flash(store, again);
            store.flash_keys.taken(again, item.namespace);
            locked.replace(word, slot, Slot::flash(slot.tag(), 0, again), false);
            counters.flash_again.add(1);
            store.flash_keys.gone(at, item.namespace, Some(true));
            tier.release(at);
            (Reclaimed::Again, None)
        }
        (found, again) => {
            if let Some((word, slot)) = found {
                dies_on_flash(store, slot);
                locked.replace(word, slot, Slot::EMPTY, false);
                release(store, counters, slot, item.namespace, Some(!flushed));
                counters.flash_evicted.add(u64::from(!ended));
            }
            again.into_iter().for_each(|again| tier.release(again));
            let end = if ended { KeyEnd::Expired } else { KeyEnd::Evicted };
            (Reclaimed::Done, found.filter(|_| !flushed).map(|_| end))
        }
    }
}

/// Returns how often the key's item at the flash address `at` was read there, or `None` if no slot names that address.
fn flash_freq(store: &Store, key: &Key<'_>, at: FlashAddress) -> Option<u64> {
    let is_there = |slot: Slot| slot.is_flash() && slot.flash_address() == at;
    store.index.find_tiered(key.hash, |_, slot| is_there(slot).then(|| slot.freq()))
}
