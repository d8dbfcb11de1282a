//! Copies every live item of one store into an empty one, to change the sizes of a memory file.
//!
//! Invariants:
//! - The source store is only read, and no thread changes it meanwhile.
//! - Object numbers, part numbers and sequences continue above those of the source store, so no CAS token that a client
//!   may still have matches another value.
//! - If not all items fit, the target evicts items by its usual rules, or the copy counts an item as refused if the
//!   target evicts nothing.
//! - Items on flash are copied after all items in memory and evict none of them. An item for which there is no room is
//!   counted as refused.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use base::clock::UnixMillis;

use crate::background::Background;
use crate::core::handle::{Guard, HandleError, ThreadHandle};
use crate::core::op::{Item, OpError, Put, Value};
use crate::core::store::Store;
use crate::items::walk::Stride;
use crate::items::write::replace::{Attempts, Loaded, Parts, Replaced, Replacement};
use crate::layout::key::{Key, Namespace};
use crate::layout::parts_head::{KIND_IN_PARTS, PartsHead};
use crate::values::parts::{each_part, part_bytes};

/// The result of a copy, as numbers of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Items that were stored.
    pub items: u64,
    /// Items that were not copied because a piece or part of their value is lost.
    pub lost: u64,
    /// Items that are too large for the other store's segments, or for which there is no room.
    pub refused: u64,
}

/// The maximum number of attempts to store an item, with a background slice between two attempts.
const TRIES: usize = 10_000;

/// Copies all live items of `from` at `now`, its metadata records and its pending flushes. `background` is the
/// background of `to`, and no other caller uses it meanwhile.
///
/// # Errors
/// If one of the stores has no handle left.
pub fn copy_store(
    from: &Arc<Store>,
    to: &Arc<Store>,
    background: &mut Background,
    now: UnixMillis,
) -> Result<Copied, HandleError> {
    continue_after(from, to);
    let (mut source, mut target) = (from.handle()?, to.handle()?);
    let mut copied = Copied::default();
    let mut notes = Vec::new();
    from.each_note(&mut |note| notes.push(note.to_vec()));
    if to.rewrite_notes(&notes).is_err() {
        // The records include the names of sets, without which items in sets cannot be read.
        copied.refused += notes.len() as u64;
    }
    for number in 0..Namespace::MAX as u8 {
        let namespace = Namespace(number);
        to.persist_flush_at(namespace, from.persisted_flush_at(namespace));
        let mut cursor = Some(source.guard(now).walks().first_cursor());
        while let Some(at) = cursor {
            let guard = source.guard(now);
            let mut keys = Vec::new();
            cursor = guard.walks().scan(namespace, at, &mut |item| keys.push(item.key.to_vec()));
            for bytes in &keys {
                let key = guard.key(namespace, bytes);
                let Some(item) = guard.items().peek(&key) else { continue };
                match whole(&guard, &key, &item) {
                    None => copied.lost += 1,
                    Some(whole) => match store(&mut target, background, namespace, &item, &whole, now) {
                        Ok(()) => copied.items += 1,
                        Err(_) => copied.refused += 1,
                    },
                }
            }
        }
    }
    Ok(copied)
}

/// Copies all live items that the store of `source` has on flash and for which `to` has room. From this call on, `to`
/// evicts nothing. `work` completes the reads that the walk has requested. The other parameters are those of
/// [`copy_store`].
///
/// # Errors
/// When `to` has no handle left.
pub fn copy_flash(
    source: &mut ThreadHandle,
    to: &Arc<Store>,
    background: &mut Background,
    now: UnixMillis,
    work: &mut dyn FnMut(),
) -> Result<Copied, HandleError> {
    let (mut target, mut copied) = (to.handle()?, Copied::default());
    // Namespaces with quotas are set one by one.
    (0..u32::BITS as u8).for_each(|number| to.set_eviction(Namespace(number), false));
    let (mut cursor, mut stride) = (Some(source.guard(now).walks().first_cursor()), Stride::default());
    while let Some(at) = cursor {
        let guard = source.guard(now);
        let stepped = guard.walks().walk_all(at, &mut stride, &mut |namespace, item, on_flash| {
            let key = guard.key(namespace, item.key);
            // A walk may report an item twice.
            if on_flash.is_none() || target.guard(now).items().peek(&key).is_some() {
                return;
            }
            let Some(whole) = whole(&guard, &key, item) else {
                copied.lost += 1;
                return;
            };
            let has_room = || to.has_room(namespace, item.value_len());
            while !has_room() && background.slice(now, &mut || false).more {}
            match has_room().then(|| store(&mut target, background, namespace, item, &whole, now)) {
                Some(Ok(())) => copied.items += 1,
                Some(Err(_)) | None => copied.refused += 1,
            }
        });
        drop(guard);
        match stepped {
            Ok(next) => cursor = next,
            // The walk has requested the read of an item on flash and has to wait for it.
            Err(_) => work(),
        }
    }
    Ok(copied)
}

/// Returns the length in bytes of key and value of the longest item that is live at `now`. A store into which the items
/// are copied has to accept items of that length.
///
/// # Errors
/// If the store has no handle left.
pub fn longest_item(store: &Arc<Store>, now: UnixMillis) -> Result<u64, HandleError> {
    let mut handle = store.handle()?;
    let mut longest = 0;
    for number in 0..Namespace::MAX as u8 {
        let mut cursor = Some(handle.guard(now).walks().first_cursor());
        while let Some(at) = cursor {
            let see = &mut |item: &Item<'_>| longest = longest.max(item.key.len() as u64 + item.value_len());
            cursor = handle.guard(now).walks().scan(Namespace(number), at, see);
        }
    }
    Ok(longest)
}

/// Raises the next object number and the next sequence of `to` to those of `from`, so that no number is assigned twice.
fn continue_after(from: &Store, to: &Store) {
    to.persistent.objects.fetch_max(from.persistent.objects.load(Relaxed), SeqCst);
    to.persistent.sequence.fetch_max(from.persistent.sequence.load(Relaxed), SeqCst);
}

/// The bytes of a value, and its parts with their numbers.
#[derive(Default)]
struct Whole {
    bytes: Vec<u8>,
    parts: Parts,
}

/// Reads a whole value. Returns `None` if a part of it is lost.
fn whole(guard: &Guard<'_>, key: &Key<'_>, item: &Item<'_>) -> Option<Whole> {
    let mut whole = Whole::default();
    let Value::Typed { kind, bytes } = item.value else {
        let read =
            guard.pieces().copy_range(key, item.value, 0..item.value_len(), &mut |part| whole.bytes.extend(part));
        return read.then_some(whole);
    };
    whole.bytes.extend(bytes);
    if kind & KIND_IN_PARTS != 0 {
        let value = [&[kind][..], bytes].concat();
        let head = PartsHead::of(&value)?;
        let mut numbers = Vec::new();
        let all = each_part(guard.store, key.namespace, head, &mut |number| {
            numbers.push(number);
            true
        });
        for number in numbers.iter().filter(|_| all) {
            let bytes = part_bytes(guard.store, key.namespace, head.object, *number)?;
            let from = whole.parts.bytes.len();
            whole.parts.bytes.extend_from_slice(&bytes.joined());
            whole.parts.new.push((*number, from..whole.parts.bytes.len()));
        }
        return all.then_some(whole);
    }
    Some(whole)
}

/// Stores one item, with the background's help.
fn store(
    handle: &mut ThreadHandle,
    background: &mut Background,
    namespace: Namespace,
    item: &Item<'_>,
    whole: &Whole,
    now: UnixMillis,
) -> Result<(), OpError> {
    for _ in 0..TRIES {
        let mut guard = handle.guard(now);
        let key = guard.key(namespace, item.key);
        let stored = match item.value {
            Value::Typed { kind, .. } => put_typed(&mut guard, &key, item, kind, whole),
            _ => {
                let put = Put { client_flags: item.client_flags, expire: item.expire, ..Put::set(&whole.bytes) };
                guard.items_mut().put(&key, &put).map(drop)
            }
        };
        drop(guard);
        match stored {
            Err(OpError::Parked) => while background.slice(now, &mut || false).more {},
            stored => return stored,
        }
    }
    Err(OpError::Parked)
}

fn put_typed(guard: &mut Guard<'_>, key: &Key<'_>, item: &Item<'_>, kind: u8, whole: &Whole) -> Result<(), OpError> {
    let new = Replacement::Typed { kind, bytes: &whole.bytes, parts: Some(&whole.parts), expire: item.expire };
    let mut attempts = Attempts::default();
    loop {
        let Loaded { version, .. } = guard.items().load(key, &mut attempts)?;
        if guard.items_mut().replace(key, &version, new)? == Replaced::Done {
            return Ok(());
        }
    }
}
