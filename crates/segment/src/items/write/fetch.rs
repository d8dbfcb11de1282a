//! The meta get: a read with side effects (touch, vivify, leases).
//!
//! A lease decides which client refills an item. On a miss that was vivified, on a stale item, or on an item that is
//! about to end, one caller wins the lease. The replies to all other callers report that another caller has won.

//! A fetch looks up the item once in each attempt. Its reply reports the result of that lookup and the fetch's own side
//! effects.

use base::clock::UnixMillis;

use crate::core::facets::ItemsMut;
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, access};
use crate::core::op::{Expire, Fetch, Fetched, Item, Lease, OpError, Value};
use crate::core::snap::Snap;
use crate::heap::samples::RequestKind;
use crate::items::unpublished::{Content, Plan};
use crate::items::write::put::Expect;
use crate::items::write::rewrite::written_expire;
use crate::items::write::touch::Alter;
use crate::layout::item::{ItemKind, META_STALE, META_WON, meta_word};
use crate::layout::key::Key;
use crate::layout::slot::Slot;
use crate::layout::ttl;

/// The access data of an item before the fetch, with the item's address. A fetch that starts over uses the data so that
/// it does not report its own first attempt as an earlier access.
#[derive(Clone, Copy, Debug)]
struct Before {
    address: usize,
    fetched: bool,
    last_access: UnixMillis,
}

impl<'g> ItemsMut<'g, '_> {
    /// Reads an item, with the requested side effects.
    ///
    /// # Errors
    /// [`OpError::Parked`] (nothing was changed; the caller tries again in a later iteration),
    /// [`OpError::OutOfMemory`].
    pub fn fetch(self, key: &Key<'g>, fetch: &Fetch) -> Result<Option<Fetched<'g>>, OpError> {
        if !fetch.no_bump {
            self.guard.sample(key, RequestKind::Read);
        }
        let mut before = None;
        self.guard.commits().retry(|guard| try_fetch(guard, key, fetch, &mut before))
    }
}

fn try_fetch<'l, 't>(
    guard: &mut Guard<'l>,
    key: &Key<'t>,
    fetch: &Fetch,
    before: &mut Option<Before>,
) -> Result<Option<Option<Fetched<'t>>>, OpError>
where
    'l: 't,
{
    let Some((seen, snap)) = guard.items().snap_at_once(key)? else {
        return match fetch.vivify {
            Some(expire) => Ok(vivify(guard, key, fetch, expire)?.map(Some)),
            None => Ok(Some(None)),
        };
    };
    let mut item = seen.item_as(guard.store, &snap);
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
        // Records the access before the item may be copied, so that the copy includes the access.
        seen.note_access(guard.store, guard.now);
    }
    let (lease, expire) = wanted(guard, &seen, &snap, fetch);
    let alter = Alter {
        expire,
        wins: lease == Lease::Won,
        begins: fetch.want_access,
        is_access: !fetch.no_bump,
        fetched: item.fetched || !fetch.no_bump,
        takes: fetch.want_token,
    };
    let Some(altered) = guard.items_mut().alter(key, &seen, snap, alter)? else { return Ok(None) };
    let expire_before = item.expire;
    (item.token, item.expire) = (altered.token, altered.expire);
    Ok(Some(Some(Fetched { item, lease, vivified: false, expire_before })))
}

/// Returns the state of the item's lease after the fetch, and the new expiry if it changes.
fn wanted(guard: &Guard<'_>, seen: &FoundItem<'_>, snap: &Snap, fetch: &Fetch) -> (Lease, Option<Expire>) {
    let ends_soon = match (fetch.recache_below_ms, snap.expire(guard.store, seen)) {
        (Some(below), Expire::At(at)) => at.ms_since(guard.now) < below,
        _ => false,
    };
    let lease = if snap.lease() & META_WON != 0 {
        Lease::AlreadyWon
    } else if snap.lease() & META_STALE != 0 || ends_soon {
        Lease::Won
    } else {
        Lease::None
    };
    let namespace = guard.store.segments.header_of(seen.address).namespace();
    (lease, fetch.touch.map(|to| guard.store.spaces.expire(namespace, to, guard.now)))
}

/// Stores an empty item that the client has to fill. Returns `None` if another thread has stored an item of the key
/// meanwhile.
fn vivify<'t>(
    guard: &mut Guard<'_>,
    key: &Key<'t>,
    fetch: &Fetch,
    expire: Expire,
) -> Result<Option<Fetched<'t>>, OpError> {
    let store = guard.store;
    guard.sizes().check_size(key, 0)?;
    let meta = meta_word(store.meta_now(guard.now), META_WON);
    let plan = Plan {
        expire,
        token: fetch.token,
        taken: fetch.want_token,
        meta: Some(meta),
        ..Plan::bare(ItemKind::Plain, Content::Bytes(&[], &[]))
    };
    let done = guard.commits().commit(key, &plan, Some(Expect::there(None)))?;
    Ok(done.map(|token| {
        let expire = written_expire(guard, key, expire);
        let (fetched, last_access) = access(store, Slot::EMPTY, 0, Some(meta));
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
            ttl_class: ttl::class_of(expire, guard.now),
        };
        Fetched { item, lease: Lease::Won, vivified: true, expire_before: Expire::Never }
    }))
}
