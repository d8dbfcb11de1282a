//! Values under another key: a head that moves with all that it names, and a copy of many parts, over many guards.
//!
//! ```text
//!   rename   adopt:  the head, under the new key too ──> the anchor names the new key
//!            part_with: the old head goes alone
//!   copy     parts and pages, one after another ──> finish_copy: the anchor, and the head
//! ```
//!
//! The caller of either has locked both keys, so that no other client sees the states between. After a crash one key
//! alone remains ([`crate::locks::undo`]). Key lock sets do not stop the background: it may evict the value under
//! either key, and then none is left under either.

use crate::core::handle::Guard;
use crate::core::op::OpError;
use crate::core::store::Seen;
use crate::items::unpublished::{Content, Plan};
use crate::items::write::put::Expect;
use crate::items::write::rewrite::{Rewrite, TokenRule};
use crate::layout::item::Kind;
use crate::layout::key::Key;
use crate::layout::parts_head::{ENTRY_BYTES, Head, entries};
use crate::layout::slot::Slot;
use crate::values::free_queue::DeferredFree;

/// A copy of a value in parts that is under way. Give it to [`Guard::finish_copy`], or to [`Guard::abandon_copy`] if
/// that refuses it.
#[derive(Debug)]
pub struct PartsCopy {
    /// Object that is copied; `object` is the copy.
    from: u64,
    object: u64,
    flushed_before: u64,
    /// The page that is being copied, and the entry of it that comes next.
    page: usize,
    next: usize,
    /// The new entries of that page, and of the root.
    entries: Vec<u8>,
    root: Vec<u8>,
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// There is more to copy.
    More,
    /// All parts are there.
    All,
    /// The value is not what it was, or not whole.
    Lost,
}

impl<'l> Guard<'l> {
    /// Stores under `to` what is under `from` if that is a value in pieces or in parts, which both have from then on;
    /// [`Guard::part_with`] is to follow. False: there is no such value under `from`. The end and the client's flags
    /// are those of `from`.
    ///
    /// # Errors
    /// [`OpError::Parked`]: again in a later iteration; it may be done in part. [`OpError::OutOfMemory`].
    /// [`OpError::TooLarge`]: the new key is longer than one may be.
    pub fn adopt(&mut self, from: &Key<'_>, to: &Key<'_>) -> Result<bool, OpError> {
        self.retry(|guard| guard.try_adopt(from, to))
    }

    fn try_adopt(&mut self, from: &Key<'_>, to: &Key<'_>) -> Result<Option<bool>, OpError> {
        let flushed_before = self.store.flushed_before(to.namespace);
        let Some((seen, snap)) = self.snap(from)? else { return Ok(Some(false)) };
        let Some(object) = self.store.object_at(&seen) else { return Ok(Some(false)) };
        self.check_head(to, &seen)?;
        let there = self.snap(to)?.map(|(_, snap)| snap);
        let plan = self.store.copy_plan(&seen, &snap, Rewrite { token: TokenRule::New, ..Rewrite::SAME });
        let plan = Plan { meta: None, token: None, ..plan };
        let expect = Expect::there(there).unflushed_since(flushed_before);
        if self.commit(to, &plan, Some(expect))?.is_none() {
            return Ok(None);
        }
        if plan.kind == Kind::Typed {
            self.set_owner(to, object)?;
        }
        Ok(Some(true))
    }

    /// Checks that the head that was seen fits under another key, in one piece.
    fn check_head(&self, to: &Key<'_>, seen: &Seen) -> Result<(), OpError> {
        let bytes = seen.layout.value(&self.store.segments.heap, seen.address).len() as u64;
        self.check_size(to, bytes)?;
        if bytes > self.whole_max(to) { Err(OpError::TooLarge) } else { Ok(()) }
    }

    /// Returns true if both keys have the same pieces or parts: one is being renamed to the other.
    pub fn shares(&self, from: &Key<'_>, to: &Key<'_>) -> bool {
        let object_of = |key: &Key<'_>| self.find_live(key).and_then(|seen| self.store.object_at(&seen));
        object_of(from).is_some_and(|object| object_of(to) == Some(object))
    }

    /// Removes the value under `from`, but not its parts if `to` has them: the second step of a rename. Where the
    /// background has taken one of the two meanwhile, the other goes too, and with it the parts; then it says false.
    ///
    /// # Errors
    /// [`OpError::Parked`]: again in a later iteration.
    pub fn part_with(&mut self, from: &Key<'_>, to: &Key<'_>) -> Result<bool, OpError> {
        let object_at = |key: &Key<'_>| self.find_live(key).and_then(|seen| self.store.object_at(&seen));
        let (of_from, of_to) = (object_at(from), object_at(to));
        let both = of_from.is_some() && of_from == of_to;
        if let Some(object) = of_from {
            self.remove_head(from, object, both.then_some(object))?;
        } else if let Some(object) = of_to {
            self.remove_head(to, object, None)?;
        }
        Ok(both)
    }

    /// Removes the item of a key if it is the head of this object; the parts of `kept` stay.
    fn remove_head(&mut self, key: &Key<'_>, object: u64, kept: Option<u64>) -> Result<(), OpError> {
        let (store, counters) = (self.store, self.counters());
        if store.is_rebuilding() {
            return self.retry(|guard| {
                let there = guard.snap(key)?.filter(|(seen, _)| guard.store.object_at(seen) == Some(object));
                let Some((_, snap)) = there else { return Ok(Some(())) };
                Ok(guard.end_for_good(key, Some(snap), kept)?.then_some(()))
            });
        }
        let locked = self.lock(key)?;
        let there = store.find_locked(&locked, key).filter(|there| store.object_at(there) == Some(object));
        let Some(there) = there else { return Ok(()) };
        store.unname(&locked, &there, Slot::EMPTY);
        let orphan = store.kill(counters, there.address, &there.layout);
        drop(locked);
        self.free_orphan(orphan, kept);
        Ok(())
    }

    /// Begins a copy of the value in parts that is under `from`; `None`: there is none.
    pub fn begin_copy(&self, from: &Key<'_>) -> Option<PartsCopy> {
        let flushed_before = self.store.flushed_before(from.namespace);
        let seen = self.find_live(from).filter(|seen| seen.layout.is(Kind::Typed))?;
        let from = self.store.object_at(&seen)?;
        Some(PartsCopy {
            from,
            object: self.part_number(),
            flushed_before,
            page: 0,
            next: 0,
            entries: Vec::new(),
            root: Vec::new(),
        })
    }

    /// Returns the head that is being copied, if it is still under the key and no flush has ended what was copied of
    /// it.
    fn copied_head(&self, from: &Key<'_>, copy: &PartsCopy) -> Option<(Seen<'l>, Head<'l>)> {
        let seen = self.find_live(from).filter(|seen| seen.layout.is(Kind::Typed))?;
        let head = Head::of(seen.layout.value(&self.store.segments.heap, seen.address))?;
        let same = head.object == copy.from && copy.flushed_before == self.store.flushed_before(from.namespace);
        same.then_some((seen, head))
    }

    /// Copies one more part, for what is to be under `to`.
    ///
    /// # Errors
    /// [`OpError::Parked`]: again in a later iteration. [`OpError::OutOfMemory`].
    pub fn copy_part(&mut self, from: &Key<'_>, to: &Key<'_>, copy: &mut PartsCopy) -> Result<CopyStep, OpError> {
        let (store, namespace) = (self.store, from.namespace);
        let Some((_, head)) = self.copied_head(from, copy) else { return Ok(CopyStep::Lost) };
        let entry_of = |bytes: &'l [u8], number: usize| bytes.chunks_exact(ENTRY_BYTES).nth(number);
        let page = if head.levels > 1 {
            let Some(entry) = entry_of(head.root, copy.page) else { return Ok(CopyStep::All) };
            let Some(page) = store.part_bytes(namespace, head.object, part_in(entry)) else {
                return Ok(CopyStep::Lost);
            };
            page
        } else {
            head.root
        };
        let Some(entry) = entry_of(page, copy.next) else {
            if head.levels > 1 {
                let number = self.part_number();
                self.write_part(to, copy.object, number, &copy.entries)?;
                let entry = entry_of(head.root, copy.page).expect("its page was looked at");
                push_entry(entry, number, &mut copy.root);
                (copy.page, copy.next) = (copy.page + 1, 0);
                copy.entries.clear();
                return Ok(CopyStep::More);
            }
            return Ok(CopyStep::All);
        };
        let Some(bytes) = store.part_bytes(namespace, head.object, part_in(entry)) else { return Ok(CopyStep::Lost) };
        let number = self.part_number();
        self.write_part(to, copy.object, number, bytes)?;
        push_entry(entry, number, &mut copy.entries);
        copy.next += 1;
        Ok(CopyStep::More)
    }

    /// Stores what was copied whole under `to`; false if the value was lost since: then give the copy up.
    ///
    /// # Errors
    /// [`OpError::Parked`]: again in a later iteration. [`OpError::OutOfMemory`]. [`OpError::TooLarge`]: the new key is
    /// longer than one may be.
    pub fn finish_copy(&mut self, from: &Key<'_>, to: &Key<'_>, copy: &PartsCopy) -> Result<bool, OpError> {
        self.retry(|guard| guard.try_finish_copy(from, to, copy))
    }

    fn try_finish_copy(&mut self, from: &Key<'_>, to: &Key<'_>, copy: &PartsCopy) -> Result<Option<bool>, OpError> {
        let there = self.snap(to)?.map(|(_, snap)| snap);
        let Some((seen, head)) = self.copied_head(from, copy) else { return Ok(Some(false)) };
        let root = if head.levels > 1 { &copy.root } else { &copy.entries };
        if root.len() != head.root.len() {
            return Ok(Some(false));
        }
        let value = seen.layout.value(&self.store.segments.heap, seen.address);
        self.check_head(to, &seen)?;
        let mut bytes = head.with(value, copy.object, root);
        let rest = bytes.split_off(1);
        let plan = Plan {
            client_flags: seen.layout.client_flags(&self.store.segments.heap, seen.address),
            expire: self.store.expire(&seen),
            ..Plan::bare(Kind::Typed, Content::Bytes(&bytes, &rest))
        };
        self.set_owner(to, copy.object)?;
        let expect = Expect::there(there).unflushed_since(copy.flushed_before);
        Ok(self.commit(to, &plan, Some(expect))?.map(|_| true))
    }

    /// Gives up a copy, and removes what was written of it.
    pub fn abandon_copy(&mut self, to: &Key<'_>, copy: &PartsCopy) {
        // What a page holds that was written is named by no head: it is looked for in the page.
        let parts: Vec<u64> = entries(&copy.entries).collect();
        self.store.free_deferred(self.counters(), DeferredFree::of_parts(to.namespace, copy.object, false, parts));
        if !copy.root.is_empty() {
            let pages = entries(&copy.root).collect();
            self.store.free_deferred(self.counters(), DeferredFree::of_parts(to.namespace, copy.object, true, pages));
        }
    }
}

/// Returns the number of a part in its entry.
fn part_in(entry: &[u8]) -> u64 {
    u64::from_le_bytes(entry[4..12].try_into().expect("eight bytes"))
}

/// Appends the same entry for another part.
fn push_entry(entry: &[u8], part: u64, to: &mut Vec<u8>) {
    to.extend_from_slice(&entry[..4]);
    to.extend_from_slice(&part.to_le_bytes());
    to.extend_from_slice(&entry[12..]);
}
