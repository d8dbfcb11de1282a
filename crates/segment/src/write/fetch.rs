//! The meta get: a read with side effects (touch, vivify, leases).
//!
//! A lease says who refills an item: on a miss that was vivified, on a stale item, or on one about to end, one caller
//! wins and all others are told that somebody has.

use crate::draft::{Content, Plan};
use crate::item::{CAS_TAKEN, Kind, META, META_STALE, META_WON, meta_word};
use crate::key::Key;
use crate::lane::Turn;
use crate::op::{Expire, Fetch, Fetched, Lease, OpError};
use crate::samples::Asked;
use crate::store::Seen;
use crate::write::Snap;
use crate::write::put::Expect;
use crate::write::rewrite::Rewrite;

/// What the side effects came to.
#[derive(Clone, Copy, Debug)]
enum Effect {
    Miss,
    Vivified,
    Hit(Lease),
}

impl Turn<'_> {
    /// Reads an item with the side effects asked for.
    ///
    /// # Errors
    /// [`OpError::Parked`] (nothing was changed: again in a later turn), [`OpError::OutOfMemory`].
    pub fn fetch(&mut self, key: &Key<'_>, fetch: &Fetch) -> Result<Option<Fetched<'_>>, OpError> {
        if !fetch.no_bump {
            self.sample(key, Asked::Read);
        }
        let found = self.find_admitted(key)?;
        let before = match found {
            Some(seen) => {
                let item = self.store.item(&seen);
                if self.is_mere_read(&seen, fetch) {
                    if !fetch.no_bump {
                        self.store.note_access(&seen, self.now);
                    }
                    return Ok(Some(Fetched { item, lease: Lease::None, vivified: false }));
                }
                Some((item.fetched, item.last_access))
            }
            None if fetch.vivify.is_none() => return Ok(None),
            None => None,
        };
        let effect = self.retry(|turn| turn.try_fetch(key, fetch))?;
        if fetch.want_token {
            self.take_token(key)?;
        }
        let (lease, vivified) = match effect {
            Effect::Miss => return Ok(None),
            Effect::Vivified => (Lease::Won, true),
            Effect::Hit(lease) => (lease, false),
        };
        let Some(seen) = self.find_live(key) else { return Ok(None) };
        let mut item = self.store.item(&seen);
        // Who was awaited may have filled it since that was looked at: then nobody is.
        let is_leased = self.store.meta(&seen).is_some_and(|meta| meta & (META_STALE | META_WON) != 0);
        let lease = if lease == Lease::AlreadyWon && !is_leased { Lease::None } else { lease };
        if let Some((fetched, last_access)) = before {
            (item.fetched, item.last_access) = (fetched, last_access);
        }
        if !fetch.no_bump && !vivified {
            self.store.note_access(&seen, self.now);
        }
        Ok(Some(Fetched { item, lease, vivified }))
    }

    /// Nothing is to be changed: no new expiry, no lease to give or to tell of, no word to begin to keep.
    fn is_mere_read(&self, seen: &Seen<'_>, fetch: &Fetch) -> bool {
        let asks = fetch.touch.is_some() || fetch.recache_below_ms.is_some();
        let leased = self.store.meta(seen).is_some_and(|meta| meta & (META_STALE | META_WON) != 0);
        let begins = fetch.want_access && !seen.layout.has(META) || fetch.want_token && !seen.layout.has(CAS_TAKEN);
        !(asks || leased || begins)
    }

    fn try_fetch(&mut self, key: &Key<'_>, fetch: &Fetch) -> Result<Option<Effect>, OpError> {
        let Some((seen, snap)) = self.snap(key)? else {
            return match fetch.vivify {
                Some(expire) => self.vivify(key, fetch, expire),
                None => Ok(Some(Effect::Miss)),
            };
        };
        let (lease, touch) = self.wanted(&seen, fetch);
        let won = if lease == Lease::Won { META_WON } else { 0 };
        let has_meta = seen.layout.has(META);
        let copies = self.copies_all() && (won != 0 || touch.is_some());
        let in_place = !copies && touch.is_none_or(|to| self.store.can_touch_in_place(&seen, to, self.now));
        self.touch_pieces(&seen, touch)?;
        if in_place && (has_meta || (won == 0 && !fetch.want_access)) {
            return self.fetch_in_place(key, snap, won, touch).map(|done| done.map(|()| Effect::Hit(lease)));
        }
        let store = self.store;
        let meta = match store.meta(&seen) {
            Some(meta) => Some(meta | won),
            None if fetch.want_access || won != 0 => {
                let fetched = if store.item(&seen).fetched { crate::item::META_FETCHED } else { 0 };
                Some(meta_word(store.meta_now(self.now), won | fetched))
            }
            None => None,
        };
        let done = self.rewrite(key, &seen, snap, Rewrite { expire: touch, meta, ..Rewrite::SAME })?;
        Ok(done.map(|_| Effect::Hit(lease)))
    }

    /// Whose turn it is to fill, and the new expiry if it differs.
    fn wanted(&self, seen: &Seen<'_>, fetch: &Fetch) -> (Lease, Option<Expire>) {
        let meta = self.store.meta(seen).unwrap_or(0);
        let expire = self.store.expire(seen);
        let ends_soon = match (fetch.recache_below_ms, expire) {
            (Some(below), Expire::At(at)) => at.ms_since(self.now) < below,
            _ => false,
        };
        let lease = if meta & META_WON != 0 {
            Lease::AlreadyWon
        } else if meta & META_STALE != 0 || ends_soon {
            Lease::Won
        } else {
            Lease::None
        };
        let namespace = self.store.segments.header_of(seen.address).namespace();
        let touch = fetch.touch.map(|to| self.store.spaces.expire(namespace, to, self.now));
        (lease, touch.filter(|to| *to != expire))
    }

    fn fetch_in_place(
        &mut self,
        key: &Key<'_>,
        snap: Snap,
        won: u32,
        touch: Option<Expire>,
    ) -> Result<Option<()>, OpError> {
        if won == 0 && touch.is_none() {
            return Ok(Some(()));
        }
        let store = self.store;
        let locked = self.lock(key)?;
        let there = store.live(store.find_locked(&locked, key), self.now);
        let Some(there) = there.filter(|t| Snap::of(store, t).same(&snap)) else { return Ok(None) };
        if won != 0 {
            store.set_meta(&there, META_WON, 0);
        }
        if let Some(to) = touch {
            store.touch_in_place(&there, to, self.now);
        }
        Ok(Some(()))
    }

    fn vivify(&mut self, key: &Key<'_>, fetch: &Fetch, expire: Expire) -> Result<Option<Effect>, OpError> {
        self.check_size(key, 0)?;
        let plan = Plan {
            expire,
            token: fetch.token,
            taken: fetch.want_token,
            meta: Some(meta_word(self.store.meta_now(self.now), META_WON)),
            ..Plan::bare(Kind::Plain, Content::Bytes(&[], &[]))
        };
        let done = self.commit(key, &plan, Some(Expect::there(None)))?;
        Ok(done.map(|_| Effect::Vivified))
    }
}
