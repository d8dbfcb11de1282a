//! Large values: a plain value longer than a sixteenth of a segment is stored in pieces (an eighth in small segments,
//! and if there is a second tier).
//!
//! ```text
//!   key  ->  head: object id 8 | bytes 8
//!            hidden key (object id, 0)  ->  piece 0     every piece except the last has `piece_bytes`
//!            hidden key (object id, 1)  ->  piece 1
//!            ...
//!            hidden key (0, object id)  ->  the anchor: the hash of the key, as a number
//! ```
//!
//! - Pieces are ordinary items, with the head's expiry; the head is written last, so all pieces of a
//!   published head were written.
//! - A value is evicted as a whole: the anchor leads from a piece to the head, whose reads count as reads of the piece
//!   ([`crate::values::parts::judged`]). If a piece is evicted, the head and all other pieces are removed. If a
//!   piece is lost in another way, the next reader deletes the head.
//! - A change within one piece replaces that piece and the head ([`crate::values::patch`]). All other changes write a
//!   new value.
//! - An object id is never reused, so a piece can never be mistaken for a piece of another value.
//! - An operation that writes a whole large value in one guard (a put, a join) first checks for enough free memory. If
//!   it is short, the operation requests an eviction ([`request_eviction`]) and parks. Writing pieces and removing them
//!   again would free nothing, and in a nearly full store it would be parked forever.
//! - A reader pins the segments of the pieces: see [`crate::core::pin`].

use std::sync::atomic::Ordering::Relaxed;

use crate::core::capacity::{call_for_segments, no_segment, segments_for};
use crate::core::counters::Counters;
use crate::core::facets::{LargeValues, Pieces, Sizes};
use crate::core::handle::Guard;
use crate::core::lookup::{FoundItem, find_locked};
use crate::core::op::{Expire, LargeRef, OpError, Put, PutOutcome, Value};
use crate::core::pin::{Pinned, pin_piece};
use crate::core::store::{Store, large_ref, large_value};
use crate::items::unpublished::{Content, Orphan, Plan, kill, note_broken, unname};
use crate::items::write::put::Expect;
use crate::items::write::touch::{Alter, can_touch_in_place};
use crate::layout::hidden_key::piece_name;
use crate::layout::item::ItemKind;
use crate::layout::key::Key;
use crate::layout::slot::Slot;
use crate::values::deferred_free::{free_orphan, remove_hidden};
use crate::values::patch::revision_of;
use crate::values::source::Source;
use crate::values::unfinished::{JoinOf, earlier, outlasting, outlasts};
use crate::values::writer::LargeWriter;
use arrayvec::ArrayVec;
use xxhash_rust::xxh3::Xxh3;

/// The result of a call of [`feed`], which writes the pieces of a joined value.
enum Fed {
    All,
    /// The present item has lost a piece.
    ItemBroken(LargeRef),
    /// The value that was to be joined to the present item has lost a piece.
    PartLost,
    /// The other key's item, from which the value is copied, has lost a piece.
    CopiedLost,
    /// The iteration's share is used up.
    Paused,
}

/// Returns the identity of the join of these sources. The object's number identifies a large value, which never
/// changes. A short value is identified by its item.
fn join_of(key: &Key<'_>, expire: Expire, expect: Option<Expect>, sources: &[Source<'_>]) -> JoinOf {
    let mut identity = Xxh3::new();
    for (bytes, number) in sources.iter().map(Source::identity) {
        identity.update(&bytes.to_le_bytes());
        identity.update(&number.to_le_bytes());
    }
    let has_item = sources.iter().any(|source| matches!(source, Source::Item { .. }));
    let there = expect.filter(|_| !has_item).and_then(|expect| expect.item());
    JoinOf { namespace: key.namespace, hash: key.hash.0, expire, there, sources: identity.digest() }
}

/// Zero bytes, from which [`Source::Zeros`] is copied.
static ZEROS: [u8; 4096] = [0; 4096];

/// Returns true if the free segments have room for a large value of `bytes` bytes. If not, asks the background once to
/// free enough segments. The requests of two handles at the same time are not added up; a handle for which too little
/// was freed asks again.
fn request_eviction(store: &Store, namespace: u8, bytes: u64) -> bool {
    call_for_segments(store, namespace, segments_for(store, bytes))
}

pub(crate) fn piece_count(store: &Store, bytes: u64) -> u32 {
    bytes.div_ceil(store.geometry.piece_bytes as u64) as u32
}

/// Removes a piece, if it exists. Returns `None` if its lock could not be taken.
pub(crate) fn remove_piece(store: &Store, counters: &Counters, namespace: u8, object: u64, number: u32) -> Option<()> {
    let name = piece_name(object, number);
    remove_hidden(store, counters, &store.hasher.piece(namespace, &name))
}

impl Sizes<'_, '_> {
    /// Returns the maximum length of a value that fits in one item with this key, in bytes.
    pub(crate) fn whole_max(self, key: &Key<'_>) -> u64 {
        self.whole_max_of(key.bytes.len())
    }

    /// Returns the maximum length of a value that fits in one item with a key of `key_bytes` bytes, in bytes.
    pub(crate) fn whole_max_of(self, key_bytes: usize) -> u64 {
        (self.guard.store.geometry.item_whole_max - ITEM_OVERHEAD - key_bytes) as u64
    }

    /// Returns the maximum length of a plain value that is stored in one item with this key, in bytes. Values with
    /// types have no pieces, so that [`Sizes::whole_max`] is their maximum.
    pub(crate) fn plain_max(self, key: &Key<'_>) -> u64 {
        self.whole_max(key).min(self.guard.store.geometry.plain_whole_max as u64)
    }

    /// Returns the length in bytes above which a value may be stored in pieces. For such a value, call
    /// [`LargeValues::begin`] and write its pieces while they are received.
    pub fn large_threshold(self) -> u64 {
        self.guard.store.geometry.plain_whole_max as u64
    }

    /// Returns the exact length of every piece except the last, in bytes.
    pub fn piece_bytes_max(self) -> usize {
        self.guard.store.geometry.piece_bytes
    }

    /// Returns the number of bytes of the next piece.
    pub(crate) fn piece_len(self, writer: &LargeWriter) -> usize {
        (writer.bytes - writer.written).min(self.guard.store.geometry.piece_bytes as u64) as usize
    }
}

impl LargeValues<'_, '_> {
    /// Begins a value of `value_bytes` bytes, to be stored under `key`. For a value that will be appended or prepended,
    /// pass [`Expire::Never`], because the pieces must not expire before they are joined to the present item.
    ///
    /// # Errors
    /// [`OpError::TooLarge`].
    pub fn begin(self, key: &Key<'_>, value_bytes: u64, expire: Expire) -> Result<LargeWriter, OpError> {
        self.guard.sizes().check_size(key, value_bytes)?;
        let object = self.guard.store.persistent.objects.fetch_add(1, Relaxed);
        Ok(LargeWriter { namespace: key.namespace, object, bytes: value_bytes, written: 0, expire })
    }

    /// Stores the next piece: [`Sizes::piece_bytes_max`] bytes, or the rest of the value.
    ///
    /// # Errors
    /// [`OpError::Parked`]: nothing was stored. Pass the same bytes again in a later iteration.
    ///
    /// # Panics
    /// If the length is wrong.
    pub fn write_piece(self, writer: &mut LargeWriter, bytes: &[u8]) -> Result<(), OpError> {
        let expected = self.guard.sizes().piece_len(writer);
        assert!(bytes.len() == expected && expected > 0, "a piece of {} bytes, not {expected}", bytes.len());
        let name = writer.next_name(self.guard.store);
        let key = self.guard.store.hasher.piece(writer.namespace, &name);
        let plan = writer.piece_plan(Content::Bytes(bytes, &[]));
        self.guard.commits().commit(&key, &plan, None)?;
        writer.written += bytes.len() as u64;
        Ok(())
    }

    /// Stores the head as `put` requests; the value in `put` is ignored. Removes the pieces if the outcome is not
    /// `Stored`, or if they were copied into a joined value.
    ///
    /// # Errors
    /// Returns the writer with the error. After [`OpError::Parked`], call again with this writer in a later iteration.
    pub fn commit(
        self,
        writer: LargeWriter,
        key: &Key<'_>,
        put: &Put<'_>,
    ) -> Result<PutOutcome, (LargeWriter, OpError)> {
        let large = writer.whole();
        if let Err(error) = self.guard.parts_mut().set_owner(key, large.object) {
            return Err((writer, error));
        }
        let (outcome, is_value) = match self.guard.items_mut().put_head(key, put, large) {
            Ok(outcome) => outcome,
            Err(error) => return Err((writer, error)),
        };
        // An append creates the value of the written pieces, or copies them behind those of the present value.
        if !is_value {
            self.guard.large().abort(writer);
        }
        Ok(outcome)
    }

    /// Aborts a value that is being written, and removes its pieces.
    pub fn abort(self, writer: LargeWriter) {
        let large = LargeRef { object: writer.object, bytes: writer.written, revision: 0 };
        free_orphan(self.guard.store, self.guard.counters(), Orphan::Pieces { namespace: writer.namespace, large });
    }

    /// Stores a large value whose bytes are in one buffer.
    pub(crate) fn put_large(self, key: &Key<'_>, put: &Put<'_>) -> Result<PutOutcome, OpError> {
        self.guard.large().check_room(key, put.value.len() as u64)?;
        let mut writer = self.guard.large().begin(key, put.value.len() as u64, put.expire)?;
        for piece in put.value.chunks(self.guard.sizes().piece_bytes_max()) {
            if let Err(error) = self.guard.large().write_piece(&mut writer, piece) {
                self.guard.large().abort(writer);
                return Err(error);
            }
        }
        self.guard.large().commit(writer, key, put).map_err(|(writer, error)| {
            self.guard.large().abort(writer);
            error
        })
    }

    /// Concatenates the sources into a large value, which replaces the expected item.
    pub(crate) fn commit_joined(
        self,
        key: &Key<'_>,
        plan: &Plan<'_>,
        expect: Option<Expect>,
        sources: &[Source<'_>],
    ) -> Result<Option<u64>, OpError> {
        let bytes = sources.iter().map(Source::len).sum();
        let of = join_of(key, plan.expire, expect, sources);
        let (begun, other) = self.guard.own.unfinished.take_join(&of);
        if let Some(other) = other {
            self.guard.large().abort(other);
        }
        let mut writer = match begun {
            Some(writer) => writer,
            None if !self.guard.own.unfinished.can_retain() => {
                self.guard.own.unfinished.pause();
                return Err(self.guard.parked());
            }
            None => {
                self.guard.large().check_room(key, bytes)?;
                let expire = outlasting(plan.expire, self.guard.now);
                self.guard.large().begin(key, bytes, expire)?
            }
        };
        let mut scratch = std::mem::take(&mut self.guard.own.scratch);
        let fed = feed(self.guard, &mut writer, &mut scratch, key.namespace, sources);
        self.guard.own.scratch = scratch;
        let head = large_value(LargeRef { object: writer.object, bytes, revision: 0 });
        let stored = match fed {
            Ok(Fed::All) => {
                let plan = Plan { kind: ItemKind::Head, content: Content::Bytes(&head, &[]), ..*plan };
                let owned = self.guard.parts_mut().set_owner(key, writer.object);
                owned.and_then(|()| self.guard.commits().commit(key, &plan, expect))
            }
            Ok(Fed::ItemBroken(large)) => delete_broken(self.guard, key, large).map(|()| None),
            Ok(Fed::PartLost) => Err(OpError::OutOfMemory),
            Ok(Fed::CopiedLost) => Ok(None),
            Ok(Fed::Paused) => {
                // The written pieces are retained for the next guard. If memory was short, `feed` failed instead, and
                // they are removed: see the module.
                self.guard.own.unfinished.retain_join(of, writer);
                self.guard.own.unfinished.pause();
                return Err(self.guard.parked());
            }
            Err(error) => Err(error),
        };
        if !matches!(stored, Ok(Some(_))) {
            self.guard.large().abort(writer);
        }
        stored
    }

    /// Checks that enough segments are free for a large value of `bytes` bytes.
    pub(crate) fn check_room(self, key: &Key<'_>, bytes: u64) -> Result<(), OpError> {
        if request_eviction(self.guard.store, key.namespace, bytes) {
            return Ok(());
        }
        match no_segment(self.guard.store, key.namespace) {
            OpError::Parked => Err(self.guard.parked()),
            full => Err(full),
        }
    }

    /// Copies the large value of `from` to `to`, with its flags and its expiry. Repeated calls continue the copy.
    /// Returns `None` if `from` has no large value, or the value has lost a piece.
    ///
    /// # Errors
    /// [`OpError::Parked`]: call again in a later iteration. [`OpError::TooLarge`], [`OpError::OutOfMemory`].
    pub fn copy(self, from: &Key<'_>, to: &Key<'_>) -> Result<Option<()>, OpError> {
        self.guard.commits().retry(|guard| try_copy_large(guard, from, to))
    }

    /// Pins the pieces of a large value that was read from `key`'s item in this guard. Returns `None` if a piece is
    /// lost: the item is then deleted, and the read is a miss.
    ///
    /// # Errors
    /// [`OpError::Parked`] if the broken item's lock could not be taken, or the value is being changed.
    pub fn pin(self, key: &Key<'_>, large: LargeRef) -> Result<Option<Pinned>, OpError> {
        self.guard.large().pin_range(key, large, 0..large.bytes)
    }

    /// Pins the pieces that contain a range of the value's bytes. Only the bytes of the range count as pinned. Returns
    /// `None` if a piece is lost, as [`LargeValues::pin`] does.
    ///
    /// # Errors
    /// [`OpError::Parked`] if the broken item's lock could not be taken, or the value is being changed.
    pub fn pin_range(
        self,
        key: &Key<'_>,
        large: LargeRef,
        range: std::ops::Range<u64>,
    ) -> Result<Option<Pinned>, OpError> {
        assert!(range.end <= large.bytes, "{range:?} of {} bytes", large.bytes);
        let bytes = range.end - range.start;
        // A range that begins within a piece may extend over one more piece than its length requires.
        let mut pin = Pinned::of_large(bytes, piece_count(self.guard.store, bytes) + 1);
        self.guard.store.pins.fetch_add(1, Relaxed);
        let mut at = range.start;
        while at < range.end {
            let Some((address, bytes)) = place_of(self.guard, key.namespace, large, at..range.end) else {
                self.guard.store.unpin(pin);
                delete_broken(self.guard, key, large)?;
                return Ok(None);
            };
            pin_piece(self.guard.store, &mut pin, address, bytes);
            at += u64::from(bytes);
        }
        let is_one = piece_of(self.guard, range.start) == piece_of(self.guard, range.end.saturating_sub(1));
        if !is_one && revision_of(self.guard, key, large.object) != Some(large.revision) {
            // The pieces may belong to several states of the value.
            self.guard.store.unpin(pin);
            return Err(self.guard.parked());
        }
        Ok(Some(pin))
    }

    /// Gives the pieces of a head a later expiry before the head gets that expiry, because a head must never outlive
    /// its pieces. If the head's new expiry is not later, the pieces remain unchanged. After an error, some pieces may
    /// have the new expiry; another call completes the change.
    pub(crate) fn touch_pieces(self, seen: &FoundItem<'_>, to: Option<Expire>) -> Result<(), OpError> {
        let Some(expire) = to.filter(|_| seen.layout.kind() == ItemKind::Head) else { return Ok(()) };
        if can_touch_in_place(self.guard.store, seen, expire, self.guard.now) {
            return Ok(());
        }
        let large = large_ref(seen.layout.value(&self.guard.store.segments.heap, seen.address));
        let (mut place, other) = self.guard.own.unfinished.take_touch(large.object, expire);
        if let Some(other) = other {
            self.guard.large().abort(other);
        }
        let namespace = self.guard.store.segments.header_of(seen.address).namespace();
        let mut touched = Ok(());
        while place.0 < piece_count(self.guard.store, large.bytes) && touched.is_ok() {
            if self.guard.own.unfinished.is_share_used() {
                self.guard.own.unfinished.pause();
                touched = Err(self.guard.parked());
            } else {
                touched = touch_piece(self.guard, namespace, (large.object, place.0), expire).map(|lasts| {
                    place = (place.0 + 1, earlier(place.1, lasts));
                });
            }
        }
        if touched.is_err() {
            self.guard.own.unfinished.retain_touch(large.object, place);
        }
        touched
    }
}

impl Pieces<'_, '_> {
    /// Calls `each` with the bytes of a range of a value that was read from `key`'s item in this guard, piece by piece,
    /// in order. Returns false if a piece is lost: `each` then did not receive all bytes of the range.
    pub fn copy_range(
        self,
        key: &Key<'_>,
        value: Value<'_>,
        range: std::ops::Range<u64>,
        each: &mut dyn FnMut(&[u8]),
    ) -> bool {
        let mut digits = [0; 20];
        let whole = match value {
            Value::Bytes(bytes) | Value::Typed { bytes, .. } => bytes,
            Value::Integer(number) => base::decimal::digits(number, &mut digits),
            Value::Large(large) => return copy_pieces(self.guard, key, large, range, each),
        };
        each(&whole[range.start as usize..range.end as usize]);
        true
    }
}

/// Concatenates the sources and writes them as pieces, until the iteration's share is used up.
fn feed(
    guard: &mut Guard<'_>,
    writer: &mut LargeWriter,
    scratch: &mut [u8],
    namespace: u8,
    sources: &[Source<'_>],
) -> Result<Fed, OpError> {
    // Skips the bytes that earlier guards have written, which are whole pieces.
    let (mut filled, mut skip) = (0, writer.written);
    for source in sources {
        let mut at = skip.min(source.len());
        skip -= at;
        while at < source.len() {
            let from = match *source {
                Source::Bytes(bytes) => &bytes[at as usize..],
                Source::Zeros(bytes) => &ZEROS[..ZEROS.len().min((bytes - at) as usize)],
                Source::Item { large, from, to } => match piece_from(guard, namespace, large, from + at..to) {
                    Some(bytes) => bytes,
                    None => return Ok(Fed::ItemBroken(large)),
                },
                Source::Part(large) => match piece_from(guard, namespace, large, at..large.bytes) {
                    Some(bytes) => bytes,
                    None => return Ok(Fed::PartLost),
                },
                Source::Copied(large, of) => match piece_from(guard, of, large, at..large.bytes) {
                    Some(bytes) => bytes,
                    None => return Ok(Fed::CopiedLost),
                },
            };
            let take = from.len().min(scratch.len() - filled);
            scratch[filled..filled + take].copy_from_slice(&from[..take]);
            (at, filled) = (at + take as u64, filled + take);
            if filled == scratch.len() {
                guard.large().write_piece(writer, &scratch[..filled])?;
                let goes_on = guard.own.unfinished.spend(filled as u64);
                filled = 0;
                if !goes_on && writer.written < writer.bytes {
                    return Ok(Fed::Paused);
                }
            }
        }
    }
    if filled > 0 {
        guard.large().write_piece(writer, &scratch[..filled])?;
    }
    Ok(Fed::All)
}

fn try_copy_large(guard: &mut Guard<'_>, from: &Key<'_>, to: &Key<'_>) -> Result<Option<Option<()>>, OpError> {
    let (there, source) = (guard.items().snap(to)?, guard.items().find_live(from));
    let store = guard.store;
    let Some(seen) = source.filter(|seen| seen.layout.kind() == ItemKind::Head) else { return Ok(Some(None)) };
    let large = large_ref(seen.layout.value(&store.segments.heap, seen.address));
    let client_flags = seen.layout.client_flags(&store.segments.heap, seen.address);
    guard.sizes().check_size(to, large.bytes)?;
    let put = Put { client_flags, expire: seen.expire(store), ..Put::set(&[]) };
    let plan = Plan::of(&put, ItemKind::Plain, Content::Bytes(&[], &[]));
    let expect = Some(Expect::there(there.map(|(_, snap)| snap)));
    match guard.large().commit_joined(to, &plan, expect, &[Source::Copied(large, from.namespace)])? {
        Some(_) => Ok(Some(Some(()))),
        // The item of `to` was changed meanwhile, or a piece of the source was not found. A source that has lost a
        // piece is deleted.
        None => delete_broken_if_lost(guard, from, large).map(|()| None),
    }
}

/// Deletes the item that names a large value, if the value has lost a piece.
fn delete_broken_if_lost(guard: &mut Guard<'_>, key: &Key<'_>, large: LargeRef) -> Result<(), OpError> {
    let pieces = piece_count(guard.store, large.bytes);
    let is_lost = (0..pieces).any(|number| piece(guard, key.namespace, large.object, number).is_none());
    if is_lost { delete_broken(guard, key, large) } else { Ok(()) }
}

/// The maximum number of pieces from which [`copy_pieces`] reads one state of the value.
const PIECES_AT_ONCE: usize = 64;
/// The number of times that [`copy_pieces`] tries to find the pieces of one state of the value. If other threads change
/// the value during all of them, it takes those of the last try.
const COPY_TRIES: usize = 64;

fn copy_pieces(
    guard: &Guard<'_>,
    key: &Key<'_>,
    large: LargeRef,
    range: std::ops::Range<u64>,
    each: &mut dyn FnMut(&[u8]),
) -> bool {
    assert!(range.end <= large.bytes, "{range:?} of {} bytes", large.bytes);
    let mut at = range.start;
    while at < range.end {
        let Some(pieces) = pieces_at_once(guard, key, large, at..range.end) else { return false };
        for bytes in pieces {
            each(bytes);
            at += bytes.len() as u64;
        }
    }
    true
}

/// Returns the bytes of a range, as far as they are in the first [`PIECES_AT_ONCE`] pieces. The pieces belong to one
/// state of the value. Returns `None` if a piece is lost.
fn pieces_at_once<'l>(
    guard: &Guard<'l>,
    key: &Key<'_>,
    large: LargeRef,
    range: std::ops::Range<u64>,
) -> Option<ArrayVec<&'l [u8], PIECES_AT_ONCE>> {
    let is_one = piece_of(guard, range.start) == piece_of(guard, range.end - 1);
    let mut tries = 0;
    loop {
        tries += 1;
        let mut pieces = ArrayVec::new();
        let mut at = range.start;
        let before = if is_one { None } else { revision_of(guard, key, large.object) };
        while at < range.end && !pieces.is_full() {
            let bytes = piece_from(guard, key.namespace, large, at..range.end)?;
            at += bytes.len() as u64;
            pieces.push(bytes);
        }
        if is_one || before == revision_of(guard, key, large.object) || tries == COPY_TRIES {
            return Some(pieces);
        }
    }
}

/// Returns the number of the piece that contains a byte.
fn piece_of(guard: &Guard<'_>, at: u64) -> u64 {
    at / guard.store.geometry.piece_bytes as u64
}

/// Returns the bytes from the start of a range to the end of the range or of its first piece, whichever is earlier.
/// Returns `None` if that piece is lost.
fn piece_from<'l>(guard: &Guard<'l>, namespace: u8, large: LargeRef, range: std::ops::Range<u64>) -> Option<&'l [u8]> {
    let (address, bytes) = place_of(guard, namespace, large, range)?;
    Some(guard.store.segments.heap.bytes(address, bytes as usize))
}

/// Returns the address and the length of the bytes that [`piece_from`] returns.
fn place_of(guard: &Guard<'_>, namespace: u8, large: LargeRef, range: std::ops::Range<u64>) -> Option<(usize, u32)> {
    let piece_bytes = guard.store.geometry.piece_bytes as u64;
    let (number, from) = (range.start / piece_bytes, range.start % piece_bytes);
    let (address, bytes) = piece(guard, namespace, large.object, number as u32)?;
    let to = u64::from(bytes).min(from + range.end - range.start);
    Some((address + from as usize, (to - from) as u32))
}

/// Returns the address and the length of a piece's bytes.
fn piece(guard: &Guard<'_>, namespace: u8, object: u64, number: u32) -> Option<(usize, u32)> {
    let name = piece_name(object, number);
    let key = guard.store.hasher.piece(namespace, &name);
    let seen = guard.items().find_live(&key)?;
    crate::index::bump(seen.word, seen.slot);
    Some((seen.layout.value_address(seen.address), seen.layout.value_len as u32))
}

fn delete_broken(guard: &mut Guard<'_>, key: &Key<'_>, large: LargeRef) -> Result<(), OpError> {
    let store = guard.store;
    if store.is_rebuilding() {
        let snap = guard.items().snap(key)?.filter(|(seen, _)| seen.object_at(store) == Some(large.object));
        return snap.map_or(Ok(()), |(_, snap)| guard.items_mut().end_for_good(key, Some(snap), None).map(drop));
    }
    let locked = guard.locks().lock(key)?;
    let Some(there) = find_locked(store, &locked, key) else { return Ok(()) };
    let names = there.layout.kind() == ItemKind::Head
        && large_ref(there.layout.value(&store.segments.heap, there.address)) == large;
    if names {
        note_broken(store, guard.counters(), key, &there);
        unname(store, &locked, &there, Slot::EMPTY);
        let orphan = kill(store, guard.counters(), there.address, &there.layout);
        drop(locked);
        guard.commits().free_orphan(orphan, None);
    }
    Ok(())
}

/// Gives a piece a later expiry than its head's, unless its present expiry outlasts the head. Returns the piece's
/// expiry.
fn touch_piece(
    guard: &mut Guard<'_>,
    namespace: u8,
    (object, number): (u64, u32),
    head: Expire,
) -> Result<Expire, OpError> {
    let name = piece_name(object, number);
    let key = guard.store.hasher.piece(namespace, &name);
    let lasting = outlasting(head, guard.now);
    guard.own.unfinished.spend(EXAMINED_BYTES);
    guard.commits().retry(|guard| {
        // A lost piece is detected when the value is read.
        let Some((seen, snap)) = guard.items().snap_at_once(&key)? else { return Ok(Some(Expire::Never)) };
        let present = seen.expire(guard.store);
        if outlasts(present, head) {
            return Ok(Some(present));
        }
        guard.own.unfinished.spend(guard.store.geometry.piece_bytes as u64);
        let alter = Alter { expire: Some(lasting), ..Alter::default() };
        Ok(guard.items_mut().alter(&key, &seen, snap, alter)?.map(|altered| altered.expire))
    })
}

/// The number of bytes of an iteration's share that the examination of one piece uses.
const EXAMINED_BYTES: u64 = 512;

/// The maximum size of an item without its key and value: header, extended lengths, META, flags, expiry, CAS and
/// padding, in bytes.
pub(crate) const ITEM_OVERHEAD: usize = 40;
