//! The command `REC.INDEX`, which manages secondary indexes of record sets, and the insertion of existing records into
//! new or recreated indexes.

use super::{Bad, bin_name, set_name};
use crate::keyspace::indexes::{IndexFault, IndexState, SetIndex};
use crate::keyspace::metadata::{MetadataLog, PersistedIndex};
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::entry;
use crate::resp::catalog::lower;
use crate::resp::error::{self, ErrorReply};
use crate::resp::index_places::record_of_set;
use crate::resp::own_transaction;
use crate::resp::records;
use crate::resp::state::walk::Walk;
use crate::resp::typed::{self, KeyParts, View};
use crate::resp::walk;
use crate::resp::walk::walk_step_ops;
use crate::shared::Shared;
use crate::visit::clock::Clock;
use crate::visit::progress::SessionWait;
use protocol::number::parse_u64;
use protocol::resp::{Args, reply};
use record::{IndexType, Name};
use segment::{Guard, Item, Key, Namespace, OnFlash, OpError, Stride, ThreadHandle};
use std::sync::Arc;
use std::time::Duration;

/// The default memory of an index is the store's memory divided by this number.
const MEMORY_PART: u64 = 32;
/// The minimum memory of an index, in bytes.
const MEMORY_MIN: u64 = 64 << 10;
/// The pause between two checks whether the store has found all items of an earlier process. The indexing thread begins
/// to insert records when all of them are found.
const FOUND_SLEEP: Duration = Duration::from_millis(10);
/// The pause between two checks whether reads from flash have completed.
const READ_SLEEP: Duration = Duration::from_micros(200);

/// Executes `REC.INDEX CREATE set bin INT|STR [MEMORY bytes]`, `REC.INDEX DROP set bin` or `REC.INDEX LIST`.
pub(in super::super) fn index<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let mut words = args;
    let topic = words.next().unwrap_or_default();
    match (&lower(topic)[..], words.len()) {
        (b"create", 3 | 5) if !call.collects_replies => own_transaction::run_collected(call, entry("rec.index"), args),
        (b"create", 3 | 5) => create(call, words),
        (b"drop", 2) => drop_index(call, words),
        (b"list", 0) => list(call),
        _ => {
            error::subcommand(call.out, "REC.INDEX", topic);
            Ok(())
        }
    }
}

fn create<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (name, bin) = (set_name(args.next())?, args.next().unwrap_or_default());
    if let Err(refusal) = bin_name(bin) {
        return records::bad(call, b"", Bad::Refusal(refusal));
    }
    let kind = match &lower(args.next().unwrap_or_default())[..] {
        b"int" => IndexType::Integer,
        b"str" => IndexType::Text,
        _ => return Err(ErrorReply::Syntax.into()),
    };
    let shared = Arc::clone(&call.ctx.shared);
    let mut bytes = (shared.store.memory_bytes() / MEMORY_PART).max(MEMORY_MIN);
    if let Some(word) = args.next() {
        if !word.eq_ignore_ascii_case(b"memory") {
            return Err(ErrorReply::Syntax.into());
        }
        bytes = parse_u64(args.next().unwrap_or_default())
            .filter(|bytes| *bytes >= MEMORY_MIN)
            .ok_or(ErrorReply::OutOfRange)?;
    }
    let set = shared.sets.make(call.session.namespace.0, name).map_err(|_| ErrorReply::TooManySets)?.number();
    let walk = call.session.walk.take();
    let index = match &walk {
        Some(_) => shared.indexes.find(set, bin),
        None => {
            let whole = shared.store.memory_bytes() + shared.indexes.bytes();
            let resize = |bytes: u64| has_memory_for(&shared, whole, bytes);
            match shared.indexes.create(set, bin, kind, bytes, resize) {
                Ok(index) => {
                    let kept = PersistedIndex { set, kind, bytes, bin: bin.into() };
                    if MetadataLog::of(&shared.store).index(&kept).is_err() {
                        drop_from(&shared, set, bin);
                        return Err(OpError::OutOfMemory.into());
                    }
                    Some(index)
                }
                Err(fault) => {
                    reply::error(
                        call.out,
                        match fault {
                            IndexFault::Exists => b"EXISTS the index already exists".as_slice(),
                            IndexFault::TooMany => b"ERR the maximum of 64 indexes is reached: drop an index",
                            IndexFault::NoMemory => b"OOM the store needs that memory: pass a smaller MEMORY",
                        },
                    );
                    return Ok(());
                }
            }
        }
    };
    // Between two visits of this command, another client may have dropped the index.
    if let Some(index) = index {
        let walk = walk.unwrap_or_else(|| Walk::from(call.guard.walks().first_cursor()));
        build(call, &index, walk)?;
        index.built();
    }
    call.out.push(reply::OK);
    Ok(())
}

/// Inserts all existing records of the set into the index.
fn build(call: &mut Call<'_, '_>, index: &Arc<SetIndex>, mut walk: Box<Walk>) -> Run {
    if call.ctx.shared.store.is_finding() {
        // The store is still finding the items that an earlier process stored, so a walk would miss some of them.
        return walk::suspend(call, walk, OpError::Parked.into());
    }
    loop {
        let (mut keys, mut looked) = (Vec::new(), 0);
        let (view, namespace) = (call.ctx.view(), call.session.namespace);
        let of_set = &mut |set| if set == index.set { vec![Arc::clone(index)] } else { Vec::new() };
        let stepped = call.guard.walks().walk_tiers(namespace, walk.cursor, &mut walk.stride, &mut |item, place| {
            looked += 1;
            let entered = |place| enter_on_flash(call.guard, view, namespace, (item, place), &mut *of_set);
            if record_of_set(item, view) == Some(index.set) && !place.is_some_and(entered) {
                keys.push(item.key.to_vec());
            }
        });
        for key in keys {
            call.ops += 1;
            if let Err(stop) = enter(call, &key, index) {
                // The next visit repeats the step from its beginning.
                walk.stride = Stride::default();
                return walk::suspend(call, walk, stop);
            }
        }
        call.ops += walk_step_ops(looked);
        let next = match stepped {
            Ok(next) => next,
            Err(error) => return walk::suspend(call, walk, error.into()),
        };
        let Some(at) = next else { return Ok(()) };
        walk.cursor = at;
        if call.is_slice_used() {
            return walk::suspend(call, walk, SessionWait::Yield.into());
        }
    }
}

fn drop_index<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let (name, bin) = (set_name(args.next())?, args.next().unwrap_or_default());
    let shared = Arc::clone(&call.ctx.shared);
    let Some(set) = shared.sets.find(call.session.namespace.0, name).map(|set| set.number()) else {
        call.int(0);
        return Ok(());
    };
    if shared.indexes.find(set, bin).is_some() && MetadataLog::of(&shared.store).index_removed(set, bin).is_err() {
        return Err(OpError::OutOfMemory.into());
    }
    let dropped = drop_from(&shared, set, bin);
    call.int(dropped.into());
    Ok(())
}

fn drop_from(shared: &Shared, set: u16, bin: &[u8]) -> bool {
    let whole = shared.store.memory_bytes() + shared.indexes.bytes();
    // The store only grows by the memory that it had before the index was created, so resizing it cannot fail.
    shared.indexes.drop_index(set, bin, |bytes| {
        let _ = shared.resize_store(whole.saturating_sub(bytes));
    })
}

/// Resizes the store to `whole - bytes` bytes. `whole` is the memory of the store and all indexes, and `bytes` is the
/// memory of all indexes. Returns false if the store cannot work with so little memory.
fn has_memory_for(shared: &Shared, whole: u64, bytes: u64) -> bool {
    whole.checked_sub(bytes).is_some_and(|left| left > 0 && shared.resize_store(left).is_ok())
}

/// Recreates the persisted indexes `kept`, without entries. [`insert_persisted`] inserts the entries later.
pub fn recreate_persisted(shared: &Shared, kept: &[PersistedIndex]) {
    let whole = shared.store.memory_bytes();
    for PersistedIndex { set, kind, bytes, bin } in kept {
        let resize = |bytes: u64| has_memory_for(shared, whole, bytes);
        if let Err(fault) = shared.indexes.create(*set, bin, *kind, *bytes, resize) {
            let (name, bin) = (shared.sets.of(*set).map_or(&b""[..], |set| set.name()), &bin[..]);
            let [name, bin] = [name, bin].map(String::from_utf8_lossy);
            tracing::error!("cannot recreate the index of bin {bin} of set {name}: {fault:?}");
        }
    }
}

/// Inserts the records of all namespaces into the recreated indexes, a few records at a time. Returns when all records
/// are inserted, or when the server stops.
pub fn insert_persisted(shared: &Shared, handle: &mut ThreadHandle, clock: &Clock) {
    while shared.store.is_finding() {
        if shared.host.is_stopping() {
            return;
        }
        std::thread::sleep(FOUND_SLEEP);
    }
    let first = handle.guard(clock.unix()).walks().first_cursor();
    let (mut cursor, mut stride, mut left) = (Some(first), Stride::default(), Vec::new());
    while cursor.is_some() || !left.is_empty() {
        if shared.host.is_stopping() {
            return;
        }
        let mut guard = handle.guard(clock.unix());
        let (view, mut is_parked) = (View::at(shared, guard.now()), false);
        if let Some(at) = cursor.filter(|_| left.is_empty()) {
            let stepped = guard.walks().walk_all(at, &mut stride, &mut |namespace, item, place| {
                let is_indexed = record_of_set(item, view).is_some_and(|set| !shared.indexes.of(set).is_empty());
                let of = &mut |set| shared.indexes.of(set);
                let entered = |place| enter_on_flash(&guard, view, namespace, (item, place), of);
                if is_indexed && !place.is_some_and(entered) {
                    left.push((namespace, item.key.to_vec()));
                }
            });
            is_parked = stepped.is_err();
            cursor = stepped.unwrap_or(cursor);
        }
        left.retain(|(namespace, bytes)| !enter_one(&mut guard, shared, *namespace, bytes));
        drop(guard);
        if is_parked {
            // Waits for reads from flash.
            std::thread::sleep(READ_SLEEP);
        } else {
            std::thread::yield_now();
        }
    }
    shared.indexes.all().iter().for_each(|index| index.built());
}

/// Inserts the record of one key into the indexes of its set. Returns false if the caller must retry later.
fn enter_one(guard: &mut Guard<'_>, shared: &Shared, namespace: Namespace, bytes: &[u8]) -> bool {
    let key = guard.key(namespace, bytes);
    let Some(_stripe) = shared.indexes.stripe(key.hash()) else { return false };
    if guard.locks().is_blocked(&key) || guard.tier().is_on_flash(&key) {
        return false;
    }
    let entered = enter_record(guard, View::at(shared, guard.now()), key, &mut |set| shared.indexes.of(set));
    // If a part of the record is lost, the record is removed. If another thread has changed the record meanwhile,
    // returns false, so that the caller retries.
    entered.is_ok() || !guard.parts().take_lost() || guard.parts_mut().end_broken(&key).is_ok_and(|ended| ended)
}

fn list(call: &mut Call<'_, '_>) -> Run {
    let (mut replied, shared) = (Vec::new(), &call.ctx.shared);
    let all = shared.indexes.all();
    for index in &all {
        reply::array(&mut replied, 6);
        reply::bulk(&mut replied, shared.sets.of(index.set).map_or(b"", |set| set.name()));
        reply::bulk(&mut replied, &index.bin);
        reply::bulk(&mut replied, if index.kind == IndexType::Integer { b"INT" } else { b"STR" });
        reply::bulk(
            &mut replied,
            match index.state() {
                IndexState::Building => b"building".as_slice(),
                IndexState::Ready => b"ready",
                IndexState::Full => b"full",
            },
        );
        reply::int(&mut replied, index.len() as i64);
        reply::int(&mut replied, index.bytes as i64);
    }
    typed::answer_fits(call, replied.len() + reply::NUMBER_LINE_BYTES_MAX)?;
    reply::array(call.out, all.len() as u64);
    call.out.push(&replied);
    Ok(())
}

/// Inserts the existing record of a key into a new index.
fn enter(call: &mut Call<'_, '_>, bytes: &[u8], index: &Arc<SetIndex>) -> Result<(), Interrupt> {
    let shared = Arc::clone(&call.ctx.shared);
    let key = call.key(bytes);
    let Some(_stripe) = shared.indexes.stripe(key.hash()) else { return Err(SessionWait::Parked.into()) };
    if call.guard.tier().is_on_flash(&key) {
        return Err(SessionWait::Parked.into());
    }
    match enter_in(call, call.key(bytes), &mut |set| {
        if set == index.set { vec![Arc::clone(index)] } else { Vec::new() }
    }) {
        Err(ErrorReply::Damaged) if call.guard.parts().take_lost() => {
            Err(call.retry_after_lost_part(std::iter::once(bytes)).into())
        }
        entered => Ok(entered?),
    }
}

/// Inserts the record of a key into the indexes that `of` returns for the number of the record's set. The caller holds
/// the lock of the key's stripe.
pub(in crate::resp) fn enter_in(
    call: &Call<'_, '_>,
    key: Key<'_>,
    of: &mut dyn FnMut(u16) -> Vec<Arc<SetIndex>>,
) -> Result<(), ErrorReply> {
    enter_record(call.guard, call.ctx.view(), key, of)
}

/// Inserts a record as [`enter_in`] does, for a caller that has no [`Call`].
fn enter_record(
    guard: &Guard<'_>,
    view: View<'_>,
    key: Key<'_>,
    of: &mut dyn FnMut(u16) -> Vec<Arc<SetIndex>>,
) -> Result<(), ErrorReply> {
    enter_item(guard, view, key, guard.items().peek(&key), of)
}

/// Inserts a record that was read from flash. Returns false if the record is no longer at the place from which it was
/// read, if another thread is changing the record, or if the record is damaged.
fn enter_on_flash(
    guard: &Guard<'_>,
    view: View<'_>,
    namespace: Namespace,
    (item, place): (&Item<'_>, OnFlash),
    of: &mut dyn FnMut(u16) -> Vec<Arc<SetIndex>>,
) -> bool {
    let key = guard.key(namespace, item.key);
    let Some(_stripe) = view.indexes.stripe(key.hash()) else { return false };
    guard.walks().is_still(&key, place) && enter_item(guard, view, key, Some(*item), of).is_ok()
}

/// Inserts the record of an item into the indexes that `of` returns. Does nothing if the item is not a record of a set.
fn enter_item(
    guard: &Guard<'_>,
    view: View<'_>,
    key: Key<'_>,
    item: Option<Item<'_>>,
    of: &mut dyn FnMut(u16) -> Vec<Arc<SetIndex>>,
) -> Result<(), ErrorReply> {
    let parts = KeyParts::new(guard, key);
    let Some(set) = item.as_ref().and_then(|item| record_of_set(item, view)) else { return Ok(()) };
    let Some(record) = typed::record(item.as_ref(), view, &parts)? else { return Ok(()) };
    for index in of(set) {
        let bin = record.find(&Name::new(&index.bin), view.now_ms)?;
        if let Some(place) = bin.and_then(|bin| index.kind.place(&bin.value)) {
            view.indexes.insert_record(&index, place, key.hash());
        }
    }
    Ok(())
}
