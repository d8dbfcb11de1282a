//! Renames and copies of large values. A rename moves only the head. A copy writes many parts, under many guards.
//!
//! ```text
//!   rename   share:      stores the head also under the new key ──> sets the anchor to the new key
//!            unshare:    removes the head under the old key, but not the parts
//!   copy     copy_part:  copies one part or page; repeated ──> finish_copy: stores the anchor and the head
//! ```
//!
//! The caller has locked both keys, so no other client sees an intermediate state. After a crash during a rename, the
//! value is under one of the two keys ([`crate::locks::undo`]). Key locks do not stop the background: if it evicts the
//! value under one key, `unshare` also removes the value under the other key.

use crate::core::facets::{PartReads, Renames};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked};
use crate::core::op::OpError;
use crate::items::unpublished::{Content, Plan, kill, unname};
use crate::items::write::put::Expect;
use crate::items::write::rewrite::{Rewrite, TokenRule, copy_plan};
use crate::layout::item::ItemKind;
use crate::layout::key::Key;
use crate::layout::parts_head::{Entry, EntryForm, PartsHead};
use crate::layout::slot::Slot;
use crate::values::deferred_free::free_deferred;
use crate::values::free_queue::DeferredFree;
use crate::values::part_walk::PartWalk;
use crate::values::parts::{page_bytes, part_bytes};

/// A copy of a value in parts, in progress. Pass it to [`Renames::finish_copy`], or to [`Renames::abort_copy`] if that
/// fails.
#[derive(Debug)]
pub struct PartsCopy {
    /// The number of the object that is copied. `object` is the number of the copy.
    from: u64,
    object: u64,
    /// The flushes of the namespaces of the source and of the copy before the copy began.
    flushed_before: [u64; 2],
    form: EntryForm,
    levels: u8,
    /// The position in the root, and in the pages below it down to the page that is being copied.
    pages: Vec<CopiedPage>,
}

/// A page or a root that is being copied.
#[derive(Debug, Default)]
struct CopiedPage {
    /// The number of the page; 0 for the root.
    page: u64,
    /// The offset of the next entry to copy.
    at: usize,
    /// The entries of the copy.
    entries: Vec<u8>,
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// There is more to copy.
    More,
    /// All parts are copied.
    All,
    /// The value has changed, or has lost a part.
    Lost,
}

impl<'l> Renames<'_, 'l> {
    /// Stores the value of `from` also under `to`, if it is in pieces or in parts. Both keys share it from then on,
    /// until the caller calls [`Renames::unshare`]. Returns false if `from` has no such value. The expiry and the
    /// client flags are those of `from`.
    ///
    /// # Errors
    /// [`OpError::Parked`]: call again in a later iteration; the head may already be stored. [`OpError::OutOfMemory`].
    /// [`OpError::TooLarge`]: the head does not fit in one item with the new key.
    pub fn share(self, from: &Key<'_>, to: &Key<'_>) -> Result<bool, OpError> {
        self.guard.commits().retry(|guard| try_adopt(guard, from, to))
    }

    /// Removes the value under `from`, but not its pieces or parts if `to` shares them: the second step of a rename. If
    /// the background has removed the head under one key meanwhile, removes the head under the other key and the pieces
    /// or parts, and returns false.
    ///
    /// # Errors
    /// [`OpError::Parked`]: call again in a later iteration.
    pub fn unshare(self, from: &Key<'_>, to: &Key<'_>) -> Result<bool, OpError> {
        let object_at =
            |key: &Key<'_>| self.guard.items().find_live(key).and_then(|seen| seen.object_at(self.guard.store));
        let (of_from, of_to) = (object_at(from), object_at(to));
        let both = of_from.is_some() && of_from == of_to;
        if let Some(object) = of_from {
            remove_head(self.guard, from, object, both.then_some(object))?;
        } else if let Some(object) = of_to {
            remove_head(self.guard, to, object, None)?;
        }
        Ok(both)
    }

    /// Copies the next part or page for the new value under `to`.
    ///
    /// # Errors
    /// [`OpError::Parked`]: call again in a later iteration. [`OpError::OutOfMemory`].
    pub fn copy_part(self, from: &Key<'_>, to: &Key<'_>, copy: &mut PartsCopy) -> Result<CopyStep, OpError> {
        let (store, namespace) = (self.guard.store, from.namespace);
        let Some((_, head)) = copied_head(self.guard, from, copy) else { return Ok(CopyStep::Lost) };
        let read = |part: u64| page_bytes(store, namespace, head.object, part);
        let page_of = |copied: &CopiedPage| if copied.page == 0 { Some(head.root.into()) } else { read(copied.page) };
        let depth = copy.pages.len();
        let top = copy.pages.last_mut().expect("a copy has a root");
        let Some(page) = page_of(top) else { return Ok(CopyStep::Lost) };
        let Some(entry) = head.form.entry(&page, top.at) else {
            if depth == 1 {
                return Ok(CopyStep::All);
            }
            let [.., parent, complete] = &mut copy.pages[..] else { return Ok(CopyStep::Lost) };
            let named = page_of(parent).and_then(|page| {
                let entry = head.form.entry(&page, parent.at)?;
                Some((page, entry))
            });
            let Some((page, entry)) = named else { return Ok(CopyStep::Lost) };
            let number = self.guard.parts().part_number();
            self.guard.parts_mut().write_part(to, copy.object, number, &complete.entries)?;
            parent.push(&page, entry, number);
            copy.pages.pop();
            return Ok(CopyStep::More);
        };
        if depth < usize::from(head.levels) {
            copy.pages.push(CopiedPage { page: entry.part, ..CopiedPage::default() });
            return Ok(CopyStep::More);
        }
        let Some(found) = part_bytes(store, namespace, head.object, entry.part) else { return Ok(CopyStep::Lost) };
        let bytes = found.joined();
        let number = self.guard.parts().part_number();
        self.guard.parts_mut().write_part(to, copy.object, number, &bytes)?;
        top.push(&page, entry, number);
        Ok(CopyStep::More)
    }

    /// Stores the complete copy under `to`. Returns false if the value under `from` was changed or lost meanwhile, or
    /// the namespace of `to` was flushed. The caller then has to abort the copy.
    ///
    /// # Errors
    /// [`OpError::Parked`]: call again in a later iteration. [`OpError::OutOfMemory`]. [`OpError::TooLarge`]: the head
    /// does not fit in one item with the new key.
    pub fn finish_copy(self, from: &Key<'_>, to: &Key<'_>, copy: &PartsCopy) -> Result<bool, OpError> {
        self.guard.commits().retry(|guard| try_finish_copy(guard, from, to, copy))
    }

    /// Aborts a copy, and removes the parts that it has written.
    pub fn abort_copy(self, to: &Key<'_>, copy: &PartsCopy) {
        // Pages that are not written yet are known by their entries, and written ones are found by reading.
        for (depth, copied) in copy.pages.iter().enumerate() {
            let levels = copy.levels.saturating_sub(depth as u8);
            let walk = PartWalk::of(copy.form, levels, copy.form.parts(&copied.entries).collect());
            let deferred = DeferredFree::of_object(to.namespace, copy.object, walk);
            free_deferred(self.guard.store, self.guard.counters(), deferred);
        }
    }
}

impl CopiedPage {
    /// Appends a copy of an entry of `page`, with another part's number, and goes on to the next entry.
    fn push(&mut self, page: &[u8], entry: Entry, part: u64) {
        let copy_at = self.entries.len() + entry.part_at - self.at;
        self.entries.extend_from_slice(&page[self.at..entry.end]);
        self.entries[copy_at..copy_at + 8].copy_from_slice(&part.to_le_bytes());
        self.at = entry.end;
    }
}

fn try_adopt(guard: &mut Guard<'_>, from: &Key<'_>, to: &Key<'_>) -> Result<Option<bool>, OpError> {
    let flushed_before = guard.store.flushed_before(to.namespace);
    let Some((seen, snap)) = guard.items().snap(from)? else { return Ok(Some(false)) };
    let Some(object) = seen.object_at(guard.store) else { return Ok(Some(false)) };
    check_head(guard, to, &seen)?;
    let there = guard.items().snap(to)?.map(|(_, snap)| snap);
    let plan = copy_plan(guard.store, &seen, &snap, Rewrite { token: TokenRule::New, ..Rewrite::SAME });
    let plan = Plan { meta: None, token: None, ..plan };
    let expect = Expect::there(there).unflushed_since(flushed_before);
    if guard.commits().commit(to, &plan, Some(expect))?.is_none() {
        return Ok(None);
    }
    guard.parts_mut().set_owner(to, object)?;
    Ok(Some(true))
}

/// Checks that a head fits in one item with another key.
fn check_head(guard: &Guard<'_>, to: &Key<'_>, seen: &FoundItem) -> Result<(), OpError> {
    let bytes = seen.layout.value(&guard.store.segments.heap, seen.address).len() as u64;
    guard.sizes().check_size(to, bytes)?;
    if bytes > guard.sizes().whole_max(to) { Err(OpError::TooLarge) } else { Ok(()) }
}

/// Removes the item of a key if it is the head of this object, with its pieces or parts unless they belong to `kept`.
fn remove_head(guard: &mut Guard<'_>, key: &Key<'_>, object: u64, kept: Option<u64>) -> Result<(), OpError> {
    let (store, counters) = (guard.store, guard.counters());
    if store.is_rebuilding() {
        return guard.commits().retry(|guard| {
            let there = guard.items().snap(key)?.filter(|(seen, _)| seen.object_at(guard.store) == Some(object));
            let Some((_, snap)) = there else { return Ok(Some(())) };
            Ok(guard.items_mut().end_for_good(key, Some(snap), kept)?.then_some(()))
        });
    }
    let locked = guard.locks().lock(key)?;
    let there = find_locked(store, &locked, key).filter(|there| there.object_at(store) == Some(object));
    let Some(there) = there else { return Ok(()) };
    unname(store, &locked, &there, Slot::EMPTY);
    let orphan = kill(store, counters, there.address, &there.layout);
    drop(locked);
    guard.commits().free_orphan(orphan, kept);
    Ok(())
}

/// Returns the head that is being copied, if it is still the key's item and its namespace was not flushed since the
/// copy began.
fn copied_head<'l>(guard: &Guard<'l>, from: &Key<'_>, copy: &PartsCopy) -> Option<(FoundItem<'l>, PartsHead<'l>)> {
    let seen = guard.items().find_live(from).filter(|seen| seen.layout.is(ItemKind::Typed))?;
    let head = PartsHead::of(seen.layout.value(&guard.store.segments.heap, seen.address))?;
    let same = head.object == copy.from && copy.flushed_before[0] == guard.store.flushed_before(from.namespace);
    same.then_some((seen, head))
}

fn try_finish_copy(
    guard: &mut Guard<'_>,
    from: &Key<'_>,
    to: &Key<'_>,
    copy: &PartsCopy,
) -> Result<Option<bool>, OpError> {
    let there = guard.items().snap(to)?.map(|(_, snap)| snap);
    let is_flushed = copy.flushed_before[1] != guard.store.flushed_before(to.namespace);
    let Some((seen, head)) = copied_head(guard, from, copy).filter(|_| !is_flushed) else { return Ok(Some(false)) };
    let Some(root) = copy.pages.first().map(|root| &root.entries).filter(|root| root.len() == head.root.len()) else {
        return Ok(Some(false));
    };
    let value = seen.layout.value(&guard.store.segments.heap, seen.address);
    check_head(guard, to, &seen)?;
    let mut bytes = head.with(value, copy.object, root);
    let rest = bytes.split_off(1);
    let plan = Plan {
        client_flags: seen.layout.client_flags(&guard.store.segments.heap, seen.address),
        expire: seen.expire(guard.store),
        ..Plan::bare(ItemKind::Typed, Content::Bytes(&bytes, &rest))
    };
    guard.parts_mut().set_owner(to, copy.object)?;
    let expect = Expect::there(there).unflushed_since(copy.flushed_before[1]);
    Ok(guard.commits().commit(to, &plan, Some(expect))?.map(|_| true))
}

impl PartReads<'_, '_> {
    /// Returns true if both keys have the same pieces or parts, because one key is being renamed to the other.
    pub fn shares(self, from: &Key<'_>, to: &Key<'_>) -> bool {
        let object_of =
            |key: &Key<'_>| self.guard.items().find_live(key).and_then(|seen| seen.object_at(self.guard.store));
        object_of(from).is_some_and(|object| object_of(to) == Some(object))
    }

    /// Begins a copy of the value in parts that is under `from` to `to`, which may be in another namespace. Returns
    /// `None` if `from` has no such value.
    pub fn begin_copy(self, from: &Key<'_>, to: &Key<'_>) -> Option<PartsCopy> {
        let flushed_before = [from, to].map(|key| self.guard.store.flushed_before(key.namespace));
        let seen = self.guard.items().find_live(from).filter(|seen| seen.layout.is(ItemKind::Typed))?;
        let head = PartsHead::of(seen.layout.value(&self.guard.store.segments.heap, seen.address))?;
        Some(PartsCopy {
            from: head.object,
            object: self.guard.parts().part_number(),
            flushed_before,
            form: head.form,
            levels: head.levels,
            pages: vec![CopiedPage::default()],
        })
    }
}
