//! set, add, replace, append, prepend, and their compared forms.

use crate::core::handle::Guard;
use crate::core::op::{OpError, Put, PutMode, PutOutcome};
use crate::core::snap::Snap;
use crate::core::store::{Seen, Store, large_ref};
use crate::heap::samples::Asked;
use crate::items::unpublished::{Content, Plan};
use crate::layout::item::{KEY_BYTES_MAX, Kind, META_STALE, NUM, meta_word};
use crate::layout::key::Key;
use crate::values::source::Source;

/// The decision on a put, given what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Store; `stale`: as a stale item, since the token was too old.
    Store { stale: bool },
    /// Append or prepend, to what is there.
    Join,
    /// Change nothing.
    End(PutOutcome),
}

/// Returns the decision on a put over this item, or over none.
fn judge(put: &Put<'_>, there: Option<&(Seen<'_>, Snap)>) -> Verdict {
    let mut stale = false;
    if let Some(compare) = put.compare {
        let Some((_, snap)) = there else { return Verdict::End(PutOutcome::NotFound) };
        let token = snap.token();
        if compare != token {
            if !(put.invalidate && compare < token) {
                return Verdict::End(PutOutcome::Exists);
            }
            stale = true;
        }
    }
    match (put.mode, there) {
        (PutMode::Set, _) | (PutMode::Add, None) | (PutMode::Replace, Some(_)) => Verdict::Store { stale },
        (PutMode::Append | PutMode::Prepend, Some((seen, _))) if seen.layout.is(Kind::Typed) => {
            Verdict::End(PutOutcome::WrongType)
        }
        (PutMode::Append | PutMode::Prepend, Some(_)) => Verdict::Join,
        (PutMode::Append | PutMode::Prepend, None) if put.vivify.is_some() => Verdict::Store { stale },
        _ => Verdict::End(PutOutcome::NotStored),
    }
}

impl Store {
    /// Returns the value of an item, as what another one is made of. `digits` is room for those of a number.
    pub(crate) fn source_of<'s>(&'s self, seen: &Seen<'_>, snap: &Snap, digits: &'s mut [u8; 20]) -> Source<'s> {
        if seen.layout.has(NUM) {
            return Source::Bytes(decimal(snap.number, digits));
        }
        let value = seen.layout.value(&self.segments.heap, seen.address);
        if seen.layout.kind() == Kind::Head {
            let large = large_ref(value);
            return Source::Item { large, from: 0, to: large.bytes };
        }
        Source::Bytes(value)
    }
}

/// The body of the item that a put makes: an ordinary one, or the head of a large value that is already there in
/// pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'v> {
    Whole(&'v [u8]),
    Head(&'v [u8; 16]),
}

impl Body<'_> {
    /// Returns the length of the value, in bytes.
    fn bytes(&self) -> u64 {
        match self {
            Self::Whole(value) => value.len() as u64,
            Self::Head(value) => large_ref(*value).bytes,
        }
    }
}

impl Guard<'_> {
    /// Stores a value.
    ///
    /// # Errors
    /// [`OpError::Parked`] (nothing was changed: again in a later iteration), [`OpError::TooLarge`],
    /// [`OpError::OutOfMemory`].
    #[inline]
    pub fn put(&mut self, key: &Key<'_>, put: &Put<'_>) -> Result<PutOutcome, OpError> {
        self.check_size(key, put.value.len() as u64)?;
        let joins = matches!(put.mode, PutMode::Append | PutMode::Prepend);
        if put.value.len() as u64 > self.whole_max(key) && !joins {
            return self.put_large(key, put);
        }
        self.put_body(key, put, Body::Whole(put.value))
    }

    /// Checks that an item of this key with a value of so many bytes is allowed.
    ///
    /// # Errors
    /// [`OpError::TooLarge`], if it is not.
    pub fn check_fits(&self, key: &Key<'_>, value_bytes: u64) -> Result<(), OpError> {
        self.check_size(key, value_bytes)
    }

    pub(crate) fn check_size(&self, key: &Key<'_>, value_bytes: u64) -> Result<(), OpError> {
        let most = self.store.geometry.item_bytes_max;
        let key_max = KEY_BYTES_MAX.min(self.store.geometry.item_whole_max / 2);
        let fits = key.bytes.len() as u64 + value_bytes <= most && key.bytes.len() <= key_max;
        let fits =
            fits && (value_bytes <= self.whole_max(key) || !self.store.exceeds_quota(key.namespace, value_bytes));
        if fits { Ok(()) } else { Err(OpError::TooLarge) }
    }

    pub(crate) fn put_body(&mut self, key: &Key<'_>, put: &Put<'_>, body: Body<'_>) -> Result<PutOutcome, OpError> {
        self.sample(key, Asked::Store);
        if put.mode == PutMode::Set && put.compare.is_none() {
            return self.store_plan(key, put, body, false, None)?.ok_or_else(|| self.parked());
        }
        self.retry(|guard| guard.try_put(key, put, body))
    }

    fn try_put(&mut self, key: &Key<'_>, put: &Put<'_>, body: Body<'_>) -> Result<Option<PutOutcome>, OpError> {
        let there = self.snap(key)?;
        match judge(put, there.as_ref()) {
            Verdict::End(outcome) => Ok(Some(outcome)),
            Verdict::Store { .. } if matches!(body, Body::Whole(v) if v.len() as u64 > self.whole_max(key)) => {
                // An append that vivifies a large value.
                let expire = put.vivify.unwrap_or(put.expire);
                self.put_large(key, &Put { mode: PutMode::Add, expire, ..*put }).map(Some)
            }
            Verdict::Store { stale } => {
                let expect = Expect::there(there.map(|(_, snap)| snap));
                self.store_plan(key, put, body, stale, Some(expect))
            }
            Verdict::Join => there.map_or(Ok(None), |(seen, snap)| self.join(key, put, body, seen, snap)),
        }
    }

    /// Writes the item, takes the lock and publishes it if what is there is still what is expected.
    fn store_plan(
        &mut self,
        key: &Key<'_>,
        put: &Put<'_>,
        body: Body<'_>,
        stale: bool,
        expect: Option<Expect>,
    ) -> Result<Option<PutOutcome>, OpError> {
        let (kind, content) = match body {
            Body::Whole(value) => (Kind::Plain, Content::Bytes(value, &[])),
            Body::Head(value) => (Kind::Head, Content::Bytes(value, &[])),
        };
        let joins = matches!(put.mode, PutMode::Append | PutMode::Prepend);
        let plan = Plan {
            expire: put.vivify.filter(|_| joins).unwrap_or(put.expire),
            meta: stale.then(|| meta_word(self.store.meta_now(self.now), META_STALE)),
            ..Plan::of(put, kind, content)
        };
        let stored = self.commit(key, &plan, expect)?;
        Ok(stored.map(|token| PutOutcome::stored(put, token, body.bytes())))
    }

    /// Drafts and publishes, and returns the new token. `None`: what is there is not what was expected; nothing was
    /// changed.
    pub(crate) fn commit(
        &mut self,
        key: &Key<'_>,
        plan: &Plan<'_>,
        expect: Option<Expect>,
    ) -> Result<Option<u64>, OpError> {
        let (store, counters) = (self.store, self.counters());
        let mut ruled = None;
        // The pieces of a large value outlive its head, which the rule is for.
        if store.spaces.rules_ttl(key.namespace) && !key.piece {
            ruled = Some(Plan { expire: store.spaces.expire(key.namespace, plan.expire, self.now), ..*plan });
        }
        let plan = ruled.as_ref().unwrap_or(plan);
        let unpublished =
            store.unpublished(&mut self.own.open, key, plan, self.now).inspect_err(|_| counters.parked.add(1))?;
        let token = plan.token.unwrap_or_else(|| store.place_token(unpublished.address()));
        let locked = if expect.is_none() { self.lock_over(key) } else { self.lock(key) };
        let Ok(locked) = locked else {
            self.own.open.give_back(store, unpublished.reserved);
            return Err(OpError::Parked);
        };
        let old = store.find_locked(&locked, key);
        if let Some(Expect { there: expected, flushed_before, .. }) = expect {
            let there = store.live(old, self.now).map(|seen| Snap::of(store, &seen));
            let same = match (&expected, &there) {
                (None, None) => true,
                (Some(a), Some(b)) => a.same(b),
                _ => false,
            };
            // A flush that comes after the unpublished item was made ends the unpublished item too.
            let flushed = flushed_before.is_some_and(|before| before != store.flushed_before(key.namespace));
            if !same || flushed {
                drop(locked);
                self.own.open.give_back(store, unpublished.reserved);
                return Ok(None);
            }
        }
        let revived = store.note_ended(counters, old.as_ref(), self.now);
        let published = store.publish(&locked, counters, key, unpublished, old.as_ref(), None);
        if revived && published.is_ok() {
            locked.note_birth();
        }
        drop(locked);
        let orphan = match published {
            Ok(orphan) => orphan,
            Err(unpublished) => {
                self.own.open.give_back(store, unpublished.reserved);
                return Err(if store.no_place(key.namespace) { OpError::OutOfMemory } else { self.parked() });
            }
        };
        if orphan.is_some() {
            self.free_orphan(orphan, plan.object().or(expect.and_then(|expect| expect.kept)));
        }
        Ok(Some(token))
    }

    /// Appends or prepends to the item that was judged.
    fn join(
        &mut self,
        key: &Key<'_>,
        put: &Put<'_>,
        body: Body<'_>,
        seen: Seen<'_>,
        snap: Snap,
    ) -> Result<Option<PutOutcome>, OpError> {
        let store = self.store;
        let old_len = store.item_as(&seen, &snap).value_len();
        let mut digits = [0; 20];
        let old = store.source_of(&seen, &snap, &mut digits);
        let part = match body {
            Body::Whole(bytes) => Source::Bytes(bytes),
            Body::Head(value) => Source::Part(large_ref(value)),
        };
        let total = old_len + part.len();
        self.check_size(key, total)?;
        let (a, b) = if put.mode == PutMode::Append { (old, part) } else { (part, old) };
        let mut plan = Plan {
            client_flags: seen.layout.client_flags(&store.segments.heap, seen.address),
            expire: snap.expire(store, &seen),
            token: put.token,
            taken: put.want_token,
            ..Plan::bare(Kind::Plain, Content::Bytes(&[], &[]))
        };
        let expect = Some(Expect::there(Some(snap)));
        let stored = match (a, b) {
            (Source::Bytes(a), Source::Bytes(b)) if total <= self.whole_max(key) => {
                plan.content = Content::Bytes(a, b);
                self.commit(key, &plan, expect)?
            }
            _ => self.commit_joined(key, &plan, expect, &[a, b])?,
        };
        Ok(stored.map(|token| PutOutcome::stored(put, token, total)))
    }
}

impl PutOutcome {
    /// Returns the outcome after a value of so many bytes was stored.
    pub(crate) fn stored(put: &Put<'_>, token: u64, bytes: u64) -> Self {
        Self::Stored { token: if put.want_token { token } else { 0 }, bytes }
    }
}

/// The conditions that a commit relies on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expect {
    /// This very item, or none.
    there: Option<Snap>,
    /// No flush of the namespace since its flush sequence was this: parts were written since.
    flushed_before: Option<u64>,
    /// The object whose parts stay, whatever names them then.
    kept: Option<u64>,
}

impl Expect {
    pub(crate) fn there(there: Option<Snap>) -> Self {
        Self { there, flushed_before: None, kept: None }
    }

    /// Returns the item that is expected.
    pub(crate) fn item(&self) -> Option<Snap> {
        self.there
    }

    pub(crate) fn keeping(self, kept: Option<u64>) -> Self {
        Self { kept, ..self }
    }

    pub(crate) fn unflushed_since(self, flushed_before: u64) -> Self {
        Self { flushed_before: Some(flushed_before), ..self }
    }
}

/// Returns the decimal digits of a number.
pub(crate) fn decimal(number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut left = number;
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return &digits[at..];
        }
    }
}
