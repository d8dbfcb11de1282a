//! A new expiry for an item that is there.

use std::sync::atomic::Ordering::Release;

use base::clock::UnixMillis;

use crate::key::Key;
use crate::lane::Turn;
use crate::op::{Expire, Item, OpError};
use crate::store::{Seen, Store};
use crate::ttl;
use crate::write::Snap;
use crate::write::rewrite::Rewrite;

impl Store {
    /// The item's expiry word can take the new time: not past the present one, since a segment's latest expiry must
    /// never be passed in place, and exactly, which a segment that counts seconds may not be able to say.
    pub(crate) fn can_touch_in_place(&self, seen: &Seen<'_>, to: Expire, now: UnixMillis) -> bool {
        match (to, self.expire(seen)) {
            (Expire::Never, present) => present == Expire::Never,
            (Expire::At(to), Expire::At(present)) if to <= present => {
                let header = self.segments.header_of(seen.address);
                let relative = ttl::relative(header.class(), header.created(), to, now);
                to <= now || ttl::absolute(header.class(), header.created(), relative) == to
            }
            _ => false,
        }
    }

    /// Writes the expiry word. The lock is held, and [`Store::can_touch_in_place`] holds.
    pub(crate) fn touch_in_place(&self, seen: &Seen<'_>, to: Expire, now: UnixMillis) {
        if let Expire::At(to) = to {
            let header = self.segments.header_of(seen.address);
            let relative = ttl::relative(header.class(), header.created(), to, now);
            seen.layout.expiry(&self.segments.heap, seen.address).store(relative, Release);
        }
    }
}

impl Turn<'_> {
    /// Gives the item a new expiry, and shows it, for the last time if that is past. Counts as an access.
    ///
    /// # Errors
    /// [`OpError::Parked`]: nothing was changed, again in a later turn.
    pub fn touch(&mut self, key: &Key<'_>, expire: Expire) -> Result<Option<Item<'_>>, OpError> {
        let Some(seen) = self.find_admitted(key)? else { return Ok(None) };
        if self.store.expire(&seen) == expire {
            // It ends then already.
            self.store.note_access(&seen, self.now);
            return Ok(Some(self.store.item(&seen)));
        }
        let found = self.retry(|turn| turn.try_touch(key, expire))?;
        let Some(seen) = self.store.find(key).filter(|_| found) else { return Ok(None) };
        self.store.note_access(&seen, self.now);
        Ok(Some(self.store.item(&seen)))
    }

    /// True if the item was there and has the new expiry.
    pub(crate) fn try_touch(&mut self, key: &Key<'_>, expire: Expire) -> Result<Option<bool>, OpError> {
        let Some((seen, snap)) = self.snap(key)? else { return Ok(Some(false)) };
        Ok(self.touch_same(key, &seen, snap, expire)?.map(|()| true))
    }

    /// Gives the item the new expiry, if it is the same still.
    pub(crate) fn touch_same(
        &mut self,
        key: &Key<'_>,
        seen: &Seen<'_>,
        snap: Snap,
        expire: Expire,
    ) -> Result<Option<()>, OpError> {
        let store = self.store;
        let expire = store.spaces.expire(key.namespace, expire, self.now);
        self.touch_pieces(seen, Some(expire))?;
        if self.copies_all() || !store.can_touch_in_place(seen, expire, self.now) {
            let done = self.rewrite(key, seen, snap, Rewrite { expire: Some(expire), ..Rewrite::SAME })?;
            return Ok(done.map(|_| ()));
        }
        let locked = self.lock(key)?;
        let there = store.live(store.find_locked(&locked, key), self.now);
        let Some(there) = there.filter(|t| Snap::of(store, t).same(&snap)) else { return Ok(None) };
        store.touch_in_place(&there, expire, self.now);
        Ok(Some(()))
    }
}
