//! Copies of an item with some fields changed, for changes that cannot be made in place.

use crate::core::facets::Commits;
use crate::core::handle::Guard;
use crate::core::lookup::FoundItem;
use crate::core::op::{Expire, OpError};
use crate::core::snap::Snap;
use crate::core::store::Store;
use crate::items::unpublished::{Content, Plan};
use crate::items::write::put::Expect;
use crate::layout::header::EvictionQueue;
use crate::layout::item::{CAS_FIELD, CAS_TAKEN, NUM};
use crate::layout::key::Key;
use crate::layout::ttl;

/// The rule for the CAS token of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenRule {
    /// The value is unchanged: the copy has the item's token if a client may know the token.
    Keep,
    /// The value changed: the copy's address is its new token.
    New,
    /// The token that the client supplied.
    Give(u64),
}

/// The differences between a copy and the original item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rewrite<'v> {
    pub(crate) expire: Option<Expire>,
    pub(crate) content: Option<Content<'v>>,
    pub(crate) client_flags: Option<u32>,
    pub(crate) token: TokenRule,
    pub(crate) taken: bool,
    pub(crate) meta: Option<u32>,
}

/// The state of a copy at the instant when it replaced the original item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    pub(crate) token: u64,
    /// The expiry, in the unit of the copy's segment: milliseconds or seconds.
    pub(crate) expire: Expire,
}

impl Rewrite<'_> {
    /// A copy that does not differ from the original item.
    pub(crate) const SAME: Self =
        Self { expire: None, content: None, client_flags: None, token: TokenRule::Keep, taken: false, meta: None };
}

/// Returns the plan of a copy of `seen`.
pub(crate) fn copy_plan<'v>(store: &'v Store, seen: &FoundItem<'_>, snap: &Snap, rewrite: Rewrite<'v>) -> Plan<'v> {
    let (heap, layout) = (&store.segments.heap, &seen.layout);
    let token = match rewrite.token {
        TokenRule::Keep => layout.has(CAS_TAKEN | CAS_FIELD).then_some(snap.token),
        TokenRule::New => None,
        TokenRule::Give(token) => Some(token),
    };
    let same_content = || {
        if layout.has(NUM) {
            Content::Number(snap.number)
        } else {
            Content::Bytes(layout.value(heap, seen.address), &[])
        }
    };
    Plan {
        kind: layout.kind(),
        content: rewrite.content.unwrap_or_else(same_content),
        client_flags: rewrite.client_flags.unwrap_or_else(|| layout.client_flags(heap, seen.address)),
        expire: rewrite.expire.unwrap_or_else(|| snap.expire(store, seen)),
        token,
        taken: rewrite.taken,
        meta: rewrite.meta.or_else(|| snap.meta(store, seen)),
        queue: EvictionQueue::Small,
    }
}

impl Commits<'_, '_> {
    /// Replaces the item by a changed copy. Returns `None` if the item changed meanwhile; nothing is then changed.
    pub(crate) fn rewrite(
        self,
        key: &Key<'_>,
        seen: &FoundItem<'_>,
        snap: Snap,
        rewrite: Rewrite<'_>,
    ) -> Result<Option<Copied>, OpError> {
        let plan = copy_plan(self.guard.store, seen, &snap, rewrite);
        let done = self.guard.commits().commit(key, &plan, Some(Expect::there(Some(snap))))?;
        Ok(done.map(|token| Copied { token, expire: written_expire(self.guard, key, plan.expire) }))
    }
}

/// Returns the expiry that an item of the key gets if it is written now with expiry `expire`: limited by the
/// namespace's rules, in the unit of its TTL class. Callers do not read the expiry from the published item, because
/// another operation may have changed it.
pub(crate) fn written_expire(guard: &Guard<'_>, key: &Key<'_>, expire: Expire) -> Expire {
    ttl::written(guard.store.spaces.expire(key.namespace, expire, guard.now), guard.now)
}
