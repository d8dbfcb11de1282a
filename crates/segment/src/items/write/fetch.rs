//! The meta get: a read with side effects (touch, vivify, leases).
//!
//! A lease decides which client refills an item. On a miss that was vivified, on a stale item, or on one about to end,
//! one caller wins. All others learn that another caller has won.

//!
//! A fetch looks the item up once in each attempt, and reports that look-up and its own side effects.

use base::clock::UnixMillis;

use crate::core::handle::Guard;
use crate::core::op::{Expire, Fetch, Fetched, Item, Lease, OpError, Value};
use crate::core::snap::Snap;
use crate::core::store::Seen;
use crate::heap::samples::Asked;
use crate::items::unpublished::{Content, Plan};
use crate::items::write::put::Expect;
use crate::items::write::touch::Alter;
use crate::layout::item::{Kind, META_STALE, META_WON, meta_word};
use crate::layout::key::Key;
use crate::layout::slot::Slot;
use crate::layout::ttl;

/// The facts of access of an item before the fetch, by the item's address: a fetch that starts over must not take its
/// own first attempt for an earlier access.
#[derive(Clone, Copy, Debug)]
struct Before {
    address: usize,
    fetched: bool,
    last_access: UnixMillis,
}

impl<'l> Guard<'l> {
    /// Reads an item with the side effects asked for.
    ///
    /// # Errors
    /// [`OpError::Parked`] (nothing was changed: again in a later iteration), [`OpError::OutOfMemory`].
    pub fn fetch<'t>(&'t mut self, key: &Key<'t>, fetch: &Fetch) -> Result<Option<Fetched<'t>>, OpError> {
        if !fetch.no_bump {
            self.sample(key, Asked::Read);
        }
        let mut before = None;
        self.retry(|guard| guard.try_fetch(key, fetch, &mut before))
    }

    fn try_fetch<'t>(
        &mut self,
        key: &Key<'t>,
        fetch: &Fetch,
        before: &mut Option<Before>,
    ) -> Result<Option<Option<Fetched<'t>>>, OpError>
    where
        'l: 't,
    {
        let Some((seen, snap)) = self.snap_at_once(key)? else {
            return match fetch.vivify {
                Some(expire) => Ok(self.vivify(key, fetch, expire)?.map(Some)),
                None => Ok(Some(None)),
            };
        };
        let mut item = self.store.item_as(&seen, &snap);
        match *before {
            Some(Before { address, fetched, last_access }) if address == seen.address => {
                (item.fetched, item.last_access) = (fetched, last_access);
            }
            _ => {
                let Item { fetched, last_access, .. } = item;
                *before = Some(Before { address: seen.address, fetched, last_access });
            }
        }
        if !fetch.no_bump {
            // Before the item is copied, so that the copy has it.
            self.store.note_access(&seen, self.now);
        }
        let (lease, expire) = self.wanted(&seen, &snap, fetch);
        let alter = Alter {
            expire,
            wins: lease == Lease::Won,
            begins: fetch.want_access,
            fetched: item.fetched || !fetch.no_bump,
            takes: fetch.want_token,
        };
        let Some(altered) = self.alter(key, &seen, snap, alter)? else { return Ok(None) };
        let expire_before = item.expire;
        (item.token, item.expire) = (altered.token, altered.expire);
        Ok(Some(Some(Fetched { item, lease, vivified: false, expire_before })))
    }

    /// Returns the state of the right to fill, and the new expiry.
    fn wanted(&self, seen: &Seen<'_>, snap: &Snap, fetch: &Fetch) -> (Lease, Option<Expire>) {
        let ends_soon = match (fetch.recache_below_ms, snap.expire(self.store, seen)) {
            (Some(below), Expire::At(at)) => at.ms_since(self.now) < below,
            _ => false,
        };
        let lease = if snap.lease() & META_WON != 0 {
            Lease::AlreadyWon
        } else if snap.lease() & META_STALE != 0 || ends_soon {
            Lease::Won
        } else {
            Lease::None
        };
        let namespace = self.store.segments.header_of(seen.address).namespace();
        (lease, fetch.touch.map(|to| self.store.spaces.expire(namespace, to, self.now)))
    }

    /// Stores an empty item that the caller is to fill. `None`: something is there by now.
    fn vivify<'t>(&mut self, key: &Key<'t>, fetch: &Fetch, expire: Expire) -> Result<Option<Fetched<'t>>, OpError> {
        let store = self.store;
        self.check_size(key, 0)?;
        let meta = meta_word(store.meta_now(self.now), META_WON);
        let plan = Plan {
            expire,
            token: fetch.token,
            taken: fetch.want_token,
            meta: Some(meta),
            ..Plan::bare(Kind::Plain, Content::Bytes(&[], &[]))
        };
        let done = self.commit(key, &plan, Some(Expect::there(None)))?;
        Ok(done.map(|token| {
            let expire = self.written_expire(key, expire);
            let (fetched, last_access) = store.access(Slot::EMPTY, 0, Some(meta));
            let item = Item {
                key: key.bytes,
                value: Value::Bytes(&[]),
                client_flags: 0,
                expire,
                token,
                fetched,
                last_access,
                stale: false,
                stored_bytes: plan.layout(key.bytes.len()).in_heap(&store.segments.heap).size as u64,
                ttl_class: ttl::class_of(expire, self.now),
            };
            Fetched { item, lease: Lease::Won, vivified: true, expire_before: Expire::Never }
        }))
    }
}
