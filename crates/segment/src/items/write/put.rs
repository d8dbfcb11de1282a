//! Stores: set, add, replace, append, prepend, and their compared forms; splice.
//!
//! A splice overwrites a part of a value. The rest, the flags and the expiry stay.
//!
//! ```text
//!   before   [ a b c d e f ]            [ a b ]
//!   offset 2, part X Y                  offset 4, part X Y
//!   after    [ a b X Y e f ]            [ a b 0 0 X Y ]
//! ```
//! The new value is written beside the old value, which it then replaces. A splice copies the whole value, except if it
//! changes only one piece of a large value and not its length ([`crate::values::patch`]).

use crate::core::capacity::exceeds_quota;
use crate::core::facets::{Commits, ItemsMut, Sizes};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked, live};
use crate::core::op::{Expire, LargeRef, OpError, PATCHES_MAX, Patch, Patched, Put, PutMode, PutOutcome};
use crate::core::snap::Snap;
use crate::core::store::{Store, large_ref, large_value};
use crate::heap::samples::RequestKind;
use crate::items::unpublished::{Content, Plan, no_place, note_ended, publish, unpublished};
use crate::layout::header::TOKEN_OFFSET_BITS;
use crate::layout::item::{ItemKind, KEY_BYTES_MAX, META_STALE, NUM, meta_word};
use crate::layout::key::Key;
use crate::values::source::Source;
use crate::values::writer::LargeWriter;
use arrayvec::ArrayVec;

/// The decision on a put, which depends on the key's present item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Store the value. If `stale` is true, store it as a stale item, because the request's token was too old.
    Store { stale: bool },
    /// Append or prepend to the present item.
    Join,
    /// Change nothing, and reply with this outcome.
    End(PutOutcome),
}

/// Returns true if the token `given` is older than the present one of the item. Tokens of the store do not ascend in
/// time over several open segments, but a client has only tokens that the item had before. Tokens that clients have
/// chosen are compared as numbers.
fn is_older(store: &Store, given: u64, present: u64) -> bool {
    let may_be_issued = |token: u64| (1..store.segments.sequence()).contains(&(token >> TOKEN_OFFSET_BITS));
    given < present || may_be_issued(given) && may_be_issued(present)
}

/// Returns the decision on a put. `there` is the key's present item, or `None` if the key has no item.
fn judge(store: &Store, put: &Put<'_>, there: Option<&(FoundItem<'_>, Snap)>) -> Verdict {
    let mut stale = false;
    if let Some(compare) = put.compare {
        let Some((_, snap)) = there else { return Verdict::End(PutOutcome::NotFound) };
        let token = snap.token();
        if compare != token {
            if !(put.invalidate && is_older(store, compare, token)) {
                return Verdict::End(PutOutcome::Exists);
            }
            stale = true;
        }
    }
    match (put.mode, there) {
        (PutMode::Set, _) | (PutMode::Add, None) | (PutMode::Replace, Some(_)) => Verdict::Store { stale },
        (PutMode::Append | PutMode::Prepend, Some((seen, _))) if seen.layout.is(ItemKind::Typed) => {
            Verdict::End(PutOutcome::WrongType)
        }
        (PutMode::Append | PutMode::Prepend, Some(_)) => Verdict::Join,
        (PutMode::Append | PutMode::Prepend, None) if put.vivify.is_some() => Verdict::Store { stale },
        _ => Verdict::End(PutOutcome::NotStored),
    }
}

/// Returns the value of an item as a source for another item. `digits` is room for the digits of a number.
pub(crate) fn source_of<'s>(
    store: &'s Store,
    seen: &FoundItem<'_>,
    snap: &Snap,
    digits: &'s mut [u8; 20],
) -> Source<'s> {
    if seen.layout.has(NUM) {
        return Source::Bytes(base::decimal::digits(snap.number, digits));
    }
    let value = seen.layout.value(&store.segments.heap, seen.address);
    if seen.layout.kind() == ItemKind::Head {
        let large = large_ref(value);
        return Source::Item { large, from: 0, to: large.bytes };
    }
    Source::Bytes(value)
}

impl ItemsMut<'_, '_> {
    /// Stores a value.
    ///
    /// # Errors
    /// [`OpError::Parked`] (nothing was changed; the caller tries again in a later iteration), [`OpError::TooLarge`],
    /// [`OpError::OutOfMemory`].
    #[inline]
    pub fn put(self, key: &Key<'_>, put: &Put<'_>) -> Result<PutOutcome, OpError> {
        self.guard.sizes().check_size(key, put.value.len() as u64)?;
        let joins = matches!(put.mode, PutMode::Append | PutMode::Prepend);
        if put.value.len() as u64 > self.guard.sizes().plain_max(key) && !joins {
            return self.guard.large().put_large(key, put);
        }
        self.guard.sample(key, RequestKind::Store);
        if !put.is_unconditional() {
            return self.guard.items_mut().put_if(key, put, Source::Bytes(put.value));
        }
        let plan = Plan::of(put, ItemKind::Plain, Content::Bytes(put.value, &[]));
        let token = self.guard.commits().commit(key, &plan, None)?.ok_or_else(|| self.guard.parked())?;
        Ok(PutOutcome::stored(put, token, put.value.len() as u64))
    }

    /// Stores the head of a large value, whose pieces were written before. Also returns true if the pieces are now the
    /// value, and false if they were copied into a joined value or nothing was stored.
    pub(crate) fn put_head(self, key: &Key<'_>, put: &Put<'_>, large: LargeRef) -> Result<(PutOutcome, bool), OpError> {
        self.guard.sample(key, RequestKind::Store);
        let mut joined = false;
        let outcome = if put.is_unconditional() {
            let stored = store_new(self.guard, key, put, Source::Part(large), false, None)?;
            stored.ok_or_else(|| self.guard.parked())?
        } else {
            self.guard.commits().retry(|guard| try_put(guard, key, put, Source::Part(large), &mut joined))?
        };
        Ok((outcome, !joined && matches!(outcome, PutOutcome::Stored { .. })))
    }

    /// Stores a value if the present item allows it.
    fn put_if(self, key: &Key<'_>, put: &Put<'_>, value: Source<'_>) -> Result<PutOutcome, OpError> {
        self.guard.commits().retry(|guard| try_put(guard, key, put, value, &mut false))
    }
}

impl Sizes<'_, '_> {
    /// Checks that a value of `value_bytes` bytes is allowed and fits in one item.
    pub(crate) fn check_whole(self, key: &Key<'_>, value_bytes: u64) -> Result<(), OpError> {
        self.check_size(key, value_bytes)?;
        if value_bytes > self.whole_max(key) { Err(OpError::TooLarge) } else { Ok(()) }
    }

    /// Checks that an item of this key with a value of `value_bytes` bytes is allowed.
    ///
    /// # Errors
    /// [`OpError::TooLarge`] if the item is too large.
    pub fn check_fits(self, key: &Key<'_>, value_bytes: u64) -> Result<(), OpError> {
        self.check_size(key, value_bytes)
    }

    pub(crate) fn check_size(self, key: &Key<'_>, value_bytes: u64) -> Result<(), OpError> {
        let most = self.guard.store.geometry.item_bytes_max;
        let key_max = KEY_BYTES_MAX.min(self.guard.store.geometry.item_whole_max / 2);
        let fits = key.bytes.len() as u64 + value_bytes <= most && key.bytes.len() <= key_max;
        let fits = fits
            && (value_bytes <= self.whole_max(key) || !exceeds_quota(self.guard.store, key.namespace, value_bytes));
        if fits { Ok(()) } else { Err(OpError::TooLarge) }
    }
}

impl Commits<'_, '_> {
    /// Writes and publishes an item, and returns its token. Returns `None` if the present item differs from the
    /// expected item; nothing is then changed.
    pub(crate) fn commit(self, key: &Key<'_>, plan: &Plan<'_>, expect: Option<Expect>) -> Result<Option<u64>, OpError> {
        let (store, counters) = (self.guard.store, self.guard.counters());
        let mut ruled = None;
        // The namespace's rule applies to the head of a large value. The pieces must outlive the head.
        if store.spaces.rules_ttl(key.namespace) && !key.piece {
            ruled = Some(Plan { expire: store.spaces.expire(key.namespace, plan.expire, self.guard.now), ..*plan });
        }
        let plan = ruled.as_ref().unwrap_or(plan);
        let unpublished = unpublished(store, &mut self.guard.own.open, key, plan, self.guard.now)
            .inspect_err(|_| counters.parked.add(1))?;
        let token = plan.token.unwrap_or_else(|| store.place_token(unpublished.address()));
        let locked = if expect.is_none() { self.guard.locks().lock_over(key) } else { self.guard.locks().lock(key) };
        let Ok(locked) = locked else {
            self.guard.own.open.give_back(store, unpublished.reserved);
            return Err(OpError::Parked);
        };
        let old = find_locked(store, &locked, key);
        if let Some(Expect { there: expected, flushed_before, .. }) = expect {
            let there = live(store, old, self.guard.now).map(|seen| Snap::of(store, &seen));
            let same = match (&expected, &there) {
                (None, None) => true,
                (Some(a), Some(b)) => a.same(b),
                _ => false,
            };
            // A flush after the unpublished item was written ends the unpublished item too.
            let flushed = flushed_before.is_some_and(|before| before != store.flushed_before(key.namespace));
            if !same || flushed {
                drop(locked);
                self.guard.own.open.give_back(store, unpublished.reserved);
                return Ok(None);
            }
        }
        let revived = note_ended(store, counters, old.as_ref(), self.guard.now);
        let published = publish(store, &locked, counters, key, unpublished, old.as_ref(), None);
        if revived && published.is_ok() {
            locked.note_birth();
        }
        drop(locked);
        let orphan = match published {
            Ok(orphan) => orphan,
            Err(unpublished) => {
                self.guard.own.open.give_back(store, unpublished.reserved);
                return Err(if no_place(store, key.namespace) { OpError::OutOfMemory } else { self.guard.parked() });
            }
        };
        if orphan.is_some() {
            self.guard.commits().free_orphan(orphan, plan.object().or(expect.and_then(|expect| expect.kept)));
        }
        Ok(Some(token))
    }
}

/// Stores a value if the present item allows it. Sets `joined` to true if the value is joined to that of the present
/// item, which copies it, and to false otherwise.
fn try_put(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    put: &Put<'_>,
    value: Source<'_>,
    joined: &mut bool,
) -> Result<Option<PutOutcome>, OpError> {
    let there = guard.items().snap(key)?;
    let verdict = judge(guard.store, put, there.as_ref());
    *joined = matches!(verdict, Verdict::Join);
    match verdict {
        Verdict::End(outcome) => Ok(Some(outcome)),
        Verdict::Store { .. } if matches!(value, Source::Bytes(v) if v.len() as u64 > guard.sizes().plain_max(key)) => {
            // An append may create a large value, with the expiry that `vivify` gives.
            let expire = put.vivify.unwrap_or(put.expire);
            guard.large().put_large(key, &Put { mode: PutMode::Add, expire, ..*put }).map(Some)
        }
        Verdict::Store { stale } => {
            let expect = Expect::there(there.map(|(_, snap)| snap));
            store_new(guard, key, put, value, stale, Some(expect))
        }
        Verdict::Join => there.map_or(Ok(None), |(seen, snap)| join(guard, key, put, value, seen, snap)),
    }
}

/// Writes the new item, takes the lock and publishes the item if the key's present item is still the expected item.
/// `value` is bytes that fit into one item, or a large value whose pieces were written before.
fn store_new(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    put: &Put<'_>,
    value: Source<'_>,
    stale: bool,
    expect: Option<Expect>,
) -> Result<Option<PutOutcome>, OpError> {
    let head;
    let (kind, bytes) = match value {
        Source::Bytes(bytes) => (ItemKind::Plain, bytes),
        Source::Part(large) => {
            head = large_value(large);
            (ItemKind::Head, &head[..])
        }
        Source::Zeros(_) | Source::Item { .. } | Source::Copied(..) => unreachable!("a put stores bytes or pieces"),
    };
    let joins = matches!(put.mode, PutMode::Append | PutMode::Prepend);
    let plan = Plan {
        expire: put.vivify.filter(|_| joins).unwrap_or(put.expire),
        meta: stale.then(|| meta_word(guard.store.meta_now(guard.now), META_STALE)),
        ..Plan::of(put, kind, Content::Bytes(bytes, &[]))
    };
    let stored = guard.commits().commit(key, &plan, expect)?;
    Ok(stored.map(|token| PutOutcome::stored(put, token, value.len())))
}

/// Appends or prepends `part` to the item on which the decision was based.
fn join(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    put: &Put<'_>,
    part: Source<'_>,
    seen: FoundItem<'_>,
    snap: Snap,
) -> Result<Option<PutOutcome>, OpError> {
    let store = guard.store;
    let old_len = seen.item_as(store, &snap).value_len();
    let mut digits = [0; 20];
    let old = source_of(store, &seen, &snap, &mut digits);
    let total = old_len + part.len();
    guard.sizes().check_size(key, total)?;
    let (a, b) = if put.mode == PutMode::Append { (old, part) } else { (part, old) };
    let mut plan = Plan {
        client_flags: seen.layout.client_flags(&store.segments.heap, seen.address),
        expire: snap.expire(store, &seen),
        token: put.token,
        taken: put.want_token,
        ..Plan::bare(ItemKind::Plain, Content::Bytes(&[], &[]))
    };
    let expect = Some(Expect::there(Some(snap)));
    let stored = match (a, b) {
        (Source::Bytes(a), Source::Bytes(b)) if total <= guard.sizes().plain_max(key) => {
            plan.content = Content::Bytes(a, b);
            guard.commits().commit(key, &plan, expect)?
        }
        _ => guard.large().commit_joined(key, &plan, expect, &[a, b])?,
    };
    Ok(stored.map(|token| PutOutcome::stored(put, token, total)))
}

impl PutOutcome {
    /// Returns the outcome after a value of `bytes` bytes was stored.
    pub(crate) fn stored(put: &Put<'_>, token: u64, bytes: u64) -> Self {
        Self::Stored { token: if put.want_token { token } else { 0 }, bytes }
    }
}

/// The conditions that a commit relies on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expect {
    /// The expected item, or `None` if the key is expected to have no item.
    there: Option<Snap>,
    /// The expected flush sequence of the namespace, if parts were written: a flush since then would have ended the
    /// parts.
    flushed_before: Option<u64>,
    /// The number of the object whose parts stay, even if another head names them afterwards.
    kept: Option<u64>,
}

impl Expect {
    pub(crate) fn there(there: Option<Snap>) -> Self {
        Self { there, flushed_before: None, kept: None }
    }

    /// Returns the expected item, or `None` if the key is expected to have no item.
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

impl ItemsMut<'_, '_> {
    /// Writes `part`, which is not empty, into the key's value at byte `offset`. Creates the value if there is none.
    /// Returns the value's new length, or `None` if the value is typed.
    ///
    /// # Errors
    /// [`OpError::Parked`] (nothing was changed; the caller tries again in a later iteration), [`OpError::TooLarge`],
    /// [`OpError::OutOfMemory`].
    pub fn splice(self, key: &Key<'_>, offset: u64, part: &[u8]) -> Result<Option<u64>, OpError> {
        self.guard.sample(key, crate::heap::samples::RequestKind::Store);
        self.guard.commits().retry(|guard| try_splice(guard, key, offset, Source::Bytes(part)))
    }

    /// Writes a large value that was received into the key's value, as [`ItemsMut::splice`] does, and removes its
    /// pieces.
    ///
    /// # Errors
    /// Returns the writer with the error if the value cannot be spliced. On [`OpError::Parked`] the caller calls again
    /// in a later guard.
    pub fn splice_large(
        self,
        key: &Key<'_>,
        offset: u64,
        writer: LargeWriter,
    ) -> Result<Option<u64>, (LargeWriter, OpError)> {
        self.guard.sample(key, crate::heap::samples::RequestKind::Store);
        let part = Source::Part(writer.whole());
        match self.guard.commits().retry(|guard| try_splice(guard, key, offset, part)) {
            Ok(len) => {
                self.guard.large().abort(writer);
                Ok(len)
            }
            Err(error) => Err((writer, error)),
        }
    }
}

fn try_splice(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    offset: u64,
    part: Source<'_>,
) -> Result<Option<Option<u64>>, OpError> {
    let there = guard.items().snap(key)?;
    if let Some((seen, _)) = &there {
        if seen.layout.is(ItemKind::Typed) {
            return Ok(Some(None));
        }
        seen.note_access(guard.store, guard.now);
    }
    let end = offset.saturating_add(part.len());
    Ok(overwrite(guard, key, there.as_ref(), &[(offset, part)], end)?.map(Some))
}

/// Writes parts into the key's value, in place of its bytes from each part's offset on. The parts are in ascending
/// order and don't overlap. Fills the value with zeros up to `bytes_min` bytes. `there` is the key's present item,
/// which is not typed. Returns the value's new length, or `None` if the item has changed.
pub(crate) fn overwrite(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    there: Option<&(FoundItem<'_>, Snap)>,
    parts: &[(u64, Source<'_>)],
    bytes_min: u64,
) -> Result<Option<u64>, OpError> {
    let store = guard.store;
    let mut digits = [0; 20];
    let (old, client_flags, expire) = match there {
        None => (Source::Bytes(&[]), 0, Expire::Never),
        Some((seen, snap)) => {
            let client_flags = seen.layout.client_flags(&store.segments.heap, seen.address);
            (source_of(store, seen, snap, &mut digits), client_flags, snap.expire(store, seen))
        }
    };
    let total = old.len().max(bytes_min);
    guard.sizes().check_size(key, total)?;
    if let Some(there) = there
        && total == old.len()
        && let Some(patches) = patches_of(parts)
    {
        match guard.commits().patch_piece(key, there, &patches)? {
            Patched::Done => return Ok(Some(total)),
            Patched::Stale => return Ok(None),
            Patched::Unfit => {}
        }
    }
    let sources = sources_of(&old, parts, total);
    let expect = Some(Expect::there(there.map(|(_, snap)| *snap)));
    let put = Put { client_flags, expire, ..Put::set(&[]) };
    let plan = Plan::of(&put, ItemKind::Plain, Content::Bytes(&[], &[]));
    if total > guard.sizes().plain_max(key)
        || sources.iter().any(|source| !matches!(source, Source::Bytes(_) | Source::Zeros(_)))
    {
        return Ok(guard.large().commit_joined(key, &plan, expect, &sources)?.map(|_| total));
    }
    let mut scratch = std::mem::take(&mut guard.own.change);
    scratch.clear();
    for source in &sources {
        match source {
            Source::Bytes(bytes) => scratch.extend_from_slice(bytes),
            _ => scratch.resize(scratch.len() + source.len() as usize, 0),
        }
    }
    let stored = guard.commits().commit(key, &Plan { content: Content::Bytes(&scratch, &[]), ..plan }, expect);
    scratch.shrink_to(store.geometry.piece_bytes);
    guard.own.change = scratch;
    Ok(stored?.map(|_| total))
}

/// Returns the parts as patches, unless the bytes of a part are in another large value.
fn patches_of<'v>(parts: &[(u64, Source<'v>)]) -> Option<ArrayVec<Patch<'v>, PATCHES_MAX>> {
    let patch = |(at, part): &(u64, Source<'v>)| match *part {
        Source::Bytes(bytes) => Some(Patch { at: *at, bytes }),
        _ => None,
    };
    parts.iter().map(patch).collect()
}

/// The sources of an overwritten value: each part, with bytes of the old value and zeros before and after it.
type Overwritten<'v> = ArrayVec<Source<'v>, { 3 * PATCHES_MAX + 2 }>;

/// Returns the sources from which an overwritten value of `total` bytes is concatenated.
fn sources_of<'v>(old: &Source<'v>, parts: &[(u64, Source<'v>)], total: u64) -> Overwritten<'v> {
    let mut sources = Overwritten::new();
    let push_old = |sources: &mut Overwritten<'v>, from: u64, to: u64| {
        let end = old.len().clamp(from, to);
        if end > from {
            sources.push(old.cut(from, end));
        }
        if to > end {
            sources.push(Source::Zeros(to - end));
        }
    };
    let mut at = 0;
    for (offset, part) in parts {
        push_old(&mut sources, at, *offset);
        sources.push(*part);
        at = offset + part.len();
    }
    push_old(&mut sources, at, total);
    sources
}
