//! Changes of a large value within one piece. Only that piece and the head are written again.
//!
//! ```text
//!   new head, new piece ──> lock of the key: is the head unchanged? ──> lock of the piece: is the piece unchanged?
//!                                                                         └──> publish the head, then the piece
//! ```
//!
//! Invariants:
//! - The new head differs from the old one in its revision. So a reader of several pieces, and an operation over
//!   several iterations, detect the change ([`revision_of`]).
//! - Both locks are held until both items are published. A thread that holds the piece's lock and waits for the key's
//!   lock gives up after a bounded number of tries, as this one does, so no deadlock is possible.
//! - If the process is killed between both publications, the value is unchanged: the length of the value and of the
//!   piece stay, so each head fits each piece.
//! - A group of changes that a crash undoes does not use this operation, because the undo log has no pieces.

use crate::core::facets::Commits;
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked, live};
use crate::core::op::{LargeRef, OpError, Patch, Patched};
use crate::core::snap::Snap;
use crate::core::store::{large_ref, large_value};
use crate::index::Locked;
use crate::items::receive::{abandon, protect, release};
use crate::items::unpublished::{Content, Plan, Unpublished, publish, unpublished};
use crate::items::write::rewrite::{Rewrite, TokenRule, copy_plan};
use crate::layout::hidden_key::piece_name;
use crate::layout::item::ItemKind;
use crate::layout::key::Key;

/// The number of revisions, after which they repeat.
const REVISIONS: u32 = 1 << 24;

/// Returns the revision of the large value with the number `object`, if it is the value of `key` now.
pub(crate) fn revision_of(guard: &Guard<'_>, key: &Key<'_>, object: u64) -> Option<u32> {
    let seen = guard.items().find_live(key).filter(|seen| seen.layout.kind() == ItemKind::Head)?;
    let large = large_ref(seen.layout.value(&guard.store.segments.heap, seen.address));
    (large.object == object).then_some(large.revision)
}

/// An item of a key that is to be replaced, and the new item.
struct Exchange<'k, 'l> {
    key: Key<'k>,
    old: (FoundItem<'l>, Snap),
    /// `None` after its publication.
    new: Option<Unpublished>,
}

impl Commits<'_, '_> {
    /// Overwrites parts of the key's large value, if all of them are in one piece. The parts are in ascending order.
    /// `there` is the key's present item.
    pub(crate) fn patch_piece(
        self,
        key: &Key<'_>,
        there: &(FoundItem<'_>, Snap),
        parts: &[Patch<'_>],
    ) -> Result<Patched, OpError> {
        let store = self.guard.store;
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(Patched::Unfit) };
        let piece_bytes = store.geometry.piece_bytes as u64;
        let number = first.at / piece_bytes;
        let is_one = (last.at + last.bytes.len() as u64 - 1) / piece_bytes == number;
        let is_undone = self.guard.locks().is_attached() && store.undo.is_some();
        if !is_one || there.0.layout.kind() != ItemKind::Head || is_undone || store.is_rebuilding() {
            return Ok(Patched::Unfit);
        }
        let large = large_ref(there.0.layout.value(&store.segments.heap, there.0.address));
        let name = piece_name(large.object, number as u32);
        let of_piece = store.hasher.piece(key.namespace, &name);
        let Some(piece) = self.guard.items().snap_at_once(&of_piece)? else { return Ok(Patched::Unfit) };
        let old = piece.0.layout.value(&store.segments.heap, piece.0.address);
        let mut bytes = std::mem::take(&mut self.guard.own.change);
        bytes.clear();
        bytes.extend_from_slice(old);
        let is_inside = parts.iter().all(|part| {
            let from = (part.at - number * piece_bytes) as usize;
            let to = bytes.get_mut(from..from + part.bytes.len());
            to.is_some_and(|to| {
                to.copy_from_slice(part.bytes);
                true
            })
        });
        let patched = match is_inside {
            true => exchange(self.guard, key, there, large, (of_piece, piece), &bytes),
            false => Ok(Patched::Unfit),
        };
        self.guard.own.change = bytes;
        patched
    }
}

/// Replaces a piece, and the head by one with the next revision.
fn exchange(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    there: &(FoundItem<'_>, Snap),
    large: LargeRef,
    (of_piece, piece): (Key<'_>, (FoundItem<'_>, Snap)),
    bytes: &[u8],
) -> Result<Patched, OpError> {
    let head = large_value(LargeRef { revision: (large.revision + 1) % REVISIONS, ..large });
    let new_head = write(guard, key, there, &head)?;
    protect(guard.store, &new_head);
    let new_piece = match write(guard, &of_piece, &piece, bytes) {
        Ok(new_piece) => new_piece,
        Err(error) => {
            abandon(guard, new_head);
            return Err(error);
        }
    };
    protect(guard.store, &new_piece);
    let head = Exchange { key: *key, old: *there, new: Some(new_head) };
    let piece = Exchange { key: of_piece, old: piece, new: Some(new_piece) };
    publish_both(guard, head, piece)
}

/// Writes a copy of an item with other bytes.
fn write(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    (seen, snap): &(FoundItem<'_>, Snap),
    bytes: &[u8],
) -> Result<Unpublished, OpError> {
    let rewrite = Rewrite { content: Some(Content::Bytes(bytes, &[])), token: TokenRule::New, ..Rewrite::SAME };
    let plan = Plan { meta: None, ..copy_plan(guard.store, seen, snap, rewrite) };
    let written = unpublished(guard.store, &mut guard.own.open, key, &plan, guard.now);
    written.inspect_err(|_| guard.counters().parked.add(1))
}

/// Publishes both new items if both old items are unchanged. Otherwise discards the new items.
fn publish_both<'k, 'l>(
    guard: &mut Guard<'_>,
    mut head: Exchange<'k, 'l>,
    mut piece: Exchange<'k, 'l>,
) -> Result<Patched, OpError> {
    let headers = [&head, &piece].map(|one| one.new.as_ref().map(|new| guard.store.segments.header_of(new.address())));
    let ended = publish_unchanged(guard, &mut head, &mut piece);
    if ended == Ok(Patched::Done) {
        headers.into_iter().flatten().for_each(release);
    }
    // In the opposite order of the reservations.
    for new in [piece.new, head.new].into_iter().flatten() {
        abandon(guard, new);
    }
    ended
}

/// Publishes both new items, as [`publish_both`] does. If an old item has changed, the new items remain.
fn publish_unchanged<'e, 'k, 'l>(
    guard: &Guard<'_>,
    head: &'e mut Exchange<'k, 'l>,
    piece: &'e mut Exchange<'k, 'l>,
) -> Result<Patched, OpError> {
    let of_head = guard.locks().lock(&head.key)?;
    let beside = of_head.beside(piece.key.hash);
    let other = match beside {
        Some(_) => None,
        None => Some(guard.locks().lock(&piece.key)?),
    };
    let of_piece = beside.as_deref().or(other.as_ref()).expect("one of the locks covers the piece");
    let (Some(old_head), Some(old_piece)) = (present(guard, &of_head, head), present(guard, of_piece, piece)) else {
        return Ok(Patched::Stale);
    };
    let (store, counters) = (guard.store, guard.counters());
    for (exchange, locked, old) in [(head, &of_head, &old_head), (piece, of_piece, &old_piece)] {
        let Some(new) = exchange.new.take() else { continue };
        // An item that replaces another one always has a slot. The old head names the same pieces, so no piece is an
        // orphan.
        let published = publish(store, locked, counters, &exchange.key, new, Some(old), None);
        assert!(published.is_ok(), "an item is replaced in its own slot");
    }
    Ok(Patched::Done)
}

/// Returns the key's present item if it is the one to be replaced. The caller holds the key's lock.
fn present<'l>(guard: &Guard<'l>, locked: &Locked<'l>, exchange: &Exchange<'_, '_>) -> Option<FoundItem<'l>> {
    let present = live(guard.store, find_locked(guard.store, locked, &exchange.key), guard.now)?;
    Snap::of(guard.store, &present).same(&exchange.old.1).then_some(present)
}
