//! Deletion of an item. A delete can instead mark the item as stale, or drop only its value.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use base::clock::UnixMillis;

use crate::core::capacity::pool;
use crate::core::facets::ItemsMut;
use crate::core::handle::Guard;
use crate::core::lookup::{EndReason, FoundItem, find_locked, live};
use crate::core::op::{Delete, DeleteOutcome, Expire, OpError};
use crate::core::snap::Snap;
use crate::core::store::Store;
use crate::items::unpublished::{Content, Plan, kill, note_ended, unname};
use crate::items::write::put::Expect;
use crate::items::write::rewrite::{Rewrite, TokenRule, copy_plan};
use crate::items::write::{begin_in_place, end_in_place};
use crate::layout::item::{CAS_FIELD, CAS_TAKEN, ItemKind, META, META_STALE, META_WON};
use crate::layout::key::{Key, Namespace};
use crate::layout::slot::Slot;
use crate::tier::flash_slots::note_flash_flushed;

/// An expiry in the past, for an item that is never live.
const ENDED: Expire = Expire::At(UnixMillis(0));

impl ItemsMut<'_, '_> {
    /// Removes the item, marks it as stale, or drops its value, as `delete` requests.
    ///
    /// # Errors
    /// [`OpError::Parked`]: nothing was changed, and the caller tries again in a later iteration.
    pub fn delete(self, key: &Key<'_>, delete: &Delete) -> Result<DeleteOutcome, OpError> {
        if delete.mark_stale || delete.drop_value {
            return self.guard.commits().retry(|guard| try_mark(guard, key, delete));
        }
        if self.guard.store.is_finding() {
            return self.guard.commits().retry(|guard| try_end_for_good(guard, key, delete));
        }
        let (store, counters) = (self.guard.store, self.guard.counters());
        let locked = self.guard.locks().lock(key)?;
        let Some(there) = find_locked(store, &locked, key) else { return Ok(DeleteOutcome::NotFound) };
        let ended = there.ended(store, self.guard.now);
        if delete.spares_typed && ended.is_none() && there.layout.is(ItemKind::Typed) {
            return Ok(DeleteOutcome::Typed);
        }
        if ended.is_none() && delete.compare.is_some_and(|compare| there.token(store) != compare) {
            return Ok(DeleteOutcome::Exists);
        }
        // An item that has already ended is removed too, which frees its slot.
        note_ended(store, counters, Some(&there), self.guard.now);
        unname(store, &locked, &there, Slot::EMPTY);
        let orphan = kill(store, counters, there.address, &there.layout);
        drop(locked);
        self.guard.commits().free_orphan(orphan, None);
        Ok(match ended {
            None => DeleteOutcome::Deleted,
            Some(EndReason::Expired) => DeleteOutcome::Expired,
            Some(EndReason::Flushed) => DeleteOutcome::NotFound,
        })
    }

    /// Ends the item of a key for good, if the key still has the item of `there`, or still has no item if that is
    /// `None`. The parts of object `kept` stay. Returns false if the key's item differs from `there`.
    #[cold]
    pub(crate) fn end_for_good(self, key: &Key<'_>, there: Option<Snap>, kept: Option<u64>) -> Result<bool, OpError> {
        let plan = Plan { expire: ENDED, ..Plan::bare(ItemKind::Plain, Content::Bytes(&[], &[])) };
        Ok(self.guard.commits().commit(key, &plan, Some(Expect::there(there).keeping(kept)))?.is_some())
    }
}

/// Replaces the key's item by an item that has ended, which hides older items of the key that a rebuild or a flash
/// search may still find.
#[cold]
fn try_end_for_good(guard: &mut Guard<'_>, key: &Key<'_>, delete: &Delete) -> Result<Option<DeleteOutcome>, OpError> {
    let there = guard.items().snap(key)?;
    if delete.spares_typed && there.as_ref().is_some_and(|(seen, _)| seen.layout.is(ItemKind::Typed)) {
        return Ok(Some(DeleteOutcome::Typed));
    }
    let there = there.map(|(_, snap)| snap);
    match (delete.compare, &there) {
        (Some(_), None) => return Ok(Some(DeleteOutcome::NotFound)),
        (Some(compare), Some(snap)) if compare != snap.token() => return Ok(Some(DeleteOutcome::Exists)),
        _ => {}
    }
    let outcome = if there.is_some() { DeleteOutcome::Deleted } else { DeleteOutcome::NotFound };
    Ok(guard.items_mut().end_for_good(key, there, None)?.then_some(outcome))
}

fn try_mark(guard: &mut Guard<'_>, key: &Key<'_>, delete: &Delete) -> Result<Option<DeleteOutcome>, OpError> {
    let Some((seen, snap)) = guard.items().snap(key)? else {
        let ends = guard.store.is_finding() && delete.compare.is_none();
        let done = !ends || guard.items_mut().end_for_good(key, None, None)?;
        return Ok(done.then_some(DeleteOutcome::NotFound));
    };
    if delete.spares_typed && seen.layout.is(ItemKind::Typed) {
        return Ok(Some(DeleteOutcome::Typed));
    }
    let store = guard.store;
    if delete.compare.is_some_and(|compare| compare != snap.token) {
        return Ok(Some(DeleteOutcome::Exists));
    }
    if can_mark_in_place(guard, &seen, delete) {
        return mark_in_place(guard, key, snap);
    }
    let bits = if delete.mark_stale { META_STALE } else { 0 };
    if !delete.drop_value {
        guard.large().touch_pieces(&seen, delete.expire)?;
    }
    let meta = snap.meta(store, &seen).map_or_else(
        || crate::layout::item::meta_word(store.meta_now(guard.now), bits),
        |meta| if delete.mark_stale { (meta | META_STALE) & !META_WON } else { meta },
    );
    let rewrite = Rewrite {
        expire: delete.expire,
        content: delete.drop_value.then_some(Content::Bytes(&[], &[])),
        client_flags: delete.drop_value.then_some(0),
        token: delete.token.map_or(TokenRule::New, TokenRule::Give),
        meta: (delete.mark_stale || seen.layout.has(META)).then_some(meta),
        taken: false,
    };
    let mut plan = copy_plan(store, &seen, &snap, rewrite);
    if delete.drop_value {
        plan.kind = ItemKind::Plain;
    }
    let done = guard.commits().commit(key, &plan, Some(Expect::there(Some(snap))))?;
    Ok(done.map(|_| DeleteOutcome::Deleted))
}

/// Returns true if the delete can be made in place: only the stale bit changes, and the token can change too if a
/// client knows it.
fn can_mark_in_place(guard: &Guard<'_>, seen: &FoundItem<'_>, delete: &Delete) -> bool {
    !delete.drop_value
        && !guard.copies_all()
        && delete.token.is_none()
        && delete.expire.is_none_or(|to| to == Expire::Never && seen.expire(guard.store) == Expire::Never)
        && seen.layout.has(META)
        && (seen.layout.has(CAS_FIELD) || !seen.layout.has(CAS_TAKEN))
}

fn mark_in_place(guard: &mut Guard<'_>, key: &Key<'_>, snap: Snap) -> Result<Option<DeleteOutcome>, OpError> {
    let store = guard.store;
    let tokens = guard.commits().tokens_of_change();
    let locked = guard.locks().lock(key)?;
    let there = live(store, find_locked(store, &locked, key), guard.now);
    let Some(there) = there.filter(|t| Snap::of(store, t).same(&snap)) else { return Ok(None) };
    begin_in_place(store, &there, tokens);
    set_meta(store, &there, META_STALE, META_WON);
    end_in_place(store, &there, tokens);
    Ok(Some(DeleteOutcome::Deleted))
}

/// Sets and clears bits of the META word, in which readers may record accesses at the same time. The caller holds the
/// stripe lock.
pub(crate) fn set_meta(store: &Store, seen: &FoundItem<'_>, set: u32, clear: u32) {
    let word = seen.layout.meta(&store.segments.heap, seen.address);
    let mut meta = word.load(Acquire);
    while let Err(now) = word.compare_exchange(meta, (meta | set) & !clear, AcqRel) {
        meta = now;
    }
}

impl ItemsMut<'_, '_> {
    /// Ends every present item of the namespace.
    ///
    /// # Errors
    /// [`OpError::Parked`] while a background slice runs, because the slice could move an item to a segment that the
    /// flush does not end.
    pub fn flush(self, namespace: Namespace) -> Result<(), OpError> {
        {
            let Ok(_gate) = self.guard.store.slice_gate.try_lock() else { return Err(self.guard.parked()) };
            raise_flushed(self.guard.store, namespace.0);
        }
        self.guard.own.open.seal_ended(self.guard.store, self.guard.now);
        Ok(())
    }
}

/// Ends every item of the namespace that was stored before. The caller holds the slice gate. The flush takes and stores
/// a sequence number twice. A relocation or a copying change may have opened a segment after the first number was taken
/// and before it was stored. That segment's number is below the second one.
pub(crate) fn raise_flushed(store: &Store, namespace: u8) {
    for _ in 0..2 {
        let sequence = store.segments.next_sequence();
        store.persistent.flushed[namespace as usize].fetch_max(sequence, SeqCst);
        store.flushed[namespace as usize].fetch_max(sequence, SeqCst);
    }
    note_flash_flushed(store, namespace);
    store.shortages.flushed(pool(store, namespace));
}
