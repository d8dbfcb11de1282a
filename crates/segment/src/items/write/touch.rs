//! Changes of an item that do not change its value: a new expiry, a lease, or a mark that a client knows the token.

use std::sync::atomic::Ordering::Release;

use base::clock::UnixMillis;

use crate::core::facets::ItemsMut;
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, access, find_locked, live};
use crate::core::op::{Expire, Item, OpError};
use crate::core::snap::Snap;
use crate::core::store::Store;
use crate::items::versions::takes_by_copy;
use crate::items::write::RETRIES;
use crate::items::write::delete::set_meta;
use crate::items::write::rewrite::Rewrite;
use crate::layout::item::{CAS_TAKEN, ItemKind, META, META_FETCHED, META_WON, meta_word};
use crate::layout::key::Key;
use crate::layout::ttl;

/// Returns true if the new time can be stored in the item's expiry word. The new time must not be later than the
/// present expiry, because an in-place change must never exceed the segment's latest expiry. The word must also
/// represent the time exactly, which may be impossible in a segment whose unit is more than 1 ms.
pub(crate) fn can_touch_in_place(store: &Store, seen: &FoundItem<'_>, to: Expire, now: UnixMillis) -> bool {
    match (to, seen.expire(store)) {
        (Expire::Never, present) => present == Expire::Never,
        (Expire::At(to), Expire::At(present)) if to <= present => {
            let header = store.segments.header_of(seen.address);
            let relative = ttl::relative(header.unit_ms(), header.created(), to);
            to <= now || ttl::absolute(header.unit_ms(), header.created(), relative) == to
        }
        _ => false,
    }
}

/// Writes the expiry word. The caller holds the stripe lock, and [`can_touch_in_place`] returned true.
pub(crate) fn touch_in_place(store: &Store, seen: &FoundItem<'_>, to: Expire) {
    if let Expire::At(to) = to {
        let header = store.segments.header_of(seen.address);
        let relative = ttl::relative(header.unit_ms(), header.created(), to);
        seen.layout.expiry(&store.segments.heap, seen.address).store(relative, Release);
    }
}

/// The requested changes of an item, which do not affect its value and flags.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Alter {
    /// The new expiry, or `None` if the expiry stays.
    pub(crate) expire: Option<Expire>,
    /// True to grant the client the right to refill the item.
    pub(crate) wins: bool,
    /// True to add a META word if the item has none. A right to refill also needs a META word.
    pub(crate) begins: bool,
    /// True if the change counts as an access: a new META word then begins with the current time.
    pub(crate) is_access: bool,
    /// The value of the fetched bit in a new META word.
    pub(crate) fetched: bool,
    /// True to make the CAS token exact: from now on, every change of the value changes the token.
    pub(crate) takes: bool,
}

/// The state of an item after [`Alter`] was applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Altered {
    pub(crate) token: u64,
    pub(crate) expire: Expire,
}

impl<'g> ItemsMut<'g, '_> {
    /// Sets the item's expiry and returns the item. If the new expiry is past, this is the item's last read. Counts as
    /// an access.
    ///
    /// # Errors
    /// [`OpError::Parked`]: nothing was changed, and the caller tries again in a later iteration.
    #[inline]
    pub fn touch(self, key: &Key<'_>, expire: Expire) -> Result<Option<Item<'g>>, OpError> {
        touch_with(self.guard, key, expire, false)
    }

    /// Gives the item a new expiry and returns it with a CAS token that is exact from now on. Counts as an access.
    ///
    /// # Errors
    /// Those of [`crate::Versions::gets`].
    pub fn touch_gets(self, key: &Key<'_>, expire: Expire) -> Result<Option<Item<'g>>, OpError> {
        touch_with(self.guard, key, expire, true)
    }

    /// Sets the item's expiry. Returns `None` if the item changed meanwhile; nothing is then changed.
    pub(crate) fn touch_same(
        self,
        key: &Key<'_>,
        seen: &FoundItem<'_>,
        snap: Snap,
        expire: Expire,
    ) -> Result<Option<Altered>, OpError> {
        let expire = Some(self.guard.store.spaces.expire(key.namespace, expire, self.guard.now));
        self.guard.items_mut().alter(key, seen, snap, Alter { expire, ..Alter::default() })
    }

    /// Alters the item if it still equals the snapshot. The snapshot must belong to one instant, because it is not
    /// compared again if no change is needed. Returns `None` if the item changed meanwhile; nothing is then changed.
    pub(crate) fn alter(
        self,
        key: &Key<'_>,
        seen: &FoundItem<'_>,
        snap: Snap,
        alter: Alter,
    ) -> Result<Option<Altered>, OpError> {
        let (store, layout) = (self.guard.store, &seen.layout);
        let present = snap.expire(store, seen);
        let touch = alter.expire.filter(|to| *to != present);
        let takes = alter.takes && !layout.has(CAS_TAKEN);
        let begins = (alter.wins || alter.begins) && !layout.has(META);
        if touch.is_none() && !alter.wins && !takes && !begins {
            return Ok(Some(Altered { token: snap.token(), expire: present }));
        }
        if let Some(past) =
            touch.filter(|to| matches!(to, Expire::At(at) if *at <= self.guard.now) && layout.kind() == ItemKind::Head)
        {
            // Ends the item immediately, beginning with its head. A change of the pieces' expiry may take several
            // iterations, and the last read of the value would then find pieces missing.
            let ended = Altered { token: snap.token(), expire: past };
            return Ok(self.guard.items_mut().remove_same(key, snap)?.then_some(ended));
        }
        self.guard.large().touch_pieces(seen, touch)?;
        let copies = begins
            || (self.guard.copies_all() && (alter.wins || touch.is_some()))
            || (takes && takes_by_copy(self.guard, seen))
            || touch.is_some_and(|to| !can_touch_in_place(store, seen, to, self.guard.now));
        if copies {
            let meta = altered_meta(self.guard, seen, &snap, alter);
            let rewrite = Rewrite { expire: touch, meta, taken: alter.takes, ..Rewrite::SAME };
            let done = self.guard.commits().rewrite(key, seen, snap, rewrite)?;
            return Ok(done.map(|copy| Altered { token: copy.token, expire: copy.expire }));
        }
        let locked = self.guard.locks().lock(key)?;
        let there = live(store, find_locked(store, &locked, key), self.guard.now);
        let Some(there) = there.filter(|t| Snap::of(store, t).same(&snap)) else { return Ok(None) };
        if alter.wins {
            set_meta(store, &there, META_WON, 0);
        }
        if let Some(to) = touch {
            touch_in_place(store, &there, to);
        }
        if takes {
            there.mark_taken(store);
        }
        Ok(Some(Altered { token: snap.token(), expire: touch.unwrap_or(present) }))
    }
}

/// Touches the item. The function is inlined, so that no [`Item`] is built for a caller that only checks that the item
/// exists.
#[inline(always)]
fn touch_with<'l>(
    guard: &mut Guard<'l>,
    key: &Key<'_>,
    expire: Expire,
    takes: bool,
) -> Result<Option<Item<'l>>, OpError> {
    let Some((seen, snap)) = guard.items().snap_at_once(key)? else { return Ok(None) };
    // Records the access before the item may be copied, so that the copy includes the access.
    seen.note_access(guard.store, guard.now);
    let expire = guard.store.spaces.expire(key.namespace, expire, guard.now);
    if !takes && snap.expire(guard.store, &seen) == expire {
        // An item that is touched repeatedly usually has this expiry already. This branch avoids a copy of the item on
        // the stack.
        return Ok(Some(seen.item_as(guard.store, &snap)));
    }
    touch_found(guard, key, (seen, snap), Alter { expire: Some(expire), takes, ..Alter::default() })
}

/// Alters the item that the caller found. If the item has changed, finds the item again. The reply reports the item
/// that was altered.
#[inline(never)]
fn touch_found<'l>(
    guard: &mut Guard<'l>,
    key: &Key<'_>,
    (mut seen, mut snap): (FoundItem<'l>, Snap),
    alter: Alter,
) -> Result<Option<Item<'l>>, OpError> {
    for _ in 0..RETRIES {
        if let Some(altered) = guard.items_mut().alter(key, &seen, snap, alter)? {
            let item = seen.item_as(guard.store, &snap);
            return Ok(Some(Item { token: altered.token, expire: altered.expire, ..item }));
        }
        let Some(again) = guard.items().snap_at_once(key)? else { return Ok(None) };
        (seen, snap) = again;
        seen.note_access(guard.store, guard.now);
    }
    Err(guard.parked())
}

/// Returns the META word of an altered copy, or `None` if the copy has none.
fn altered_meta(guard: &Guard<'_>, seen: &FoundItem<'_>, snap: &Snap, alter: Alter) -> Option<u32> {
    let won = if alter.wins { META_WON } else { 0 };
    if let Some(meta) = snap.meta(guard.store, seen) {
        return Some(meta | won);
    }
    let fetched = if alter.fetched { META_FETCHED } else { 0 };
    (alter.wins || alter.begins).then(|| {
        let is_access = alter.is_access || alter.wins;
        let last = if is_access { guard.now } else { access(guard.store, seen.slot, seen.address, None).1 };
        meta_word(guard.store.meta_now(last), won | fetched)
    })
}
