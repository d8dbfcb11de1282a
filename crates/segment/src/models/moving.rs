//! Models of items that are moved, changed, read, flushed, expired and evicted concurrently.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shuttle::thread;

use super::{Drained, NOW, drain_first, draining, explore, put, put_until, read, sealed, slots, store, until_done};
use crate::core::handle::ThreadHandle;
use crate::core::op::{Arith, ArithOutcome, Delete, Expire, Put, PutOutcome, Value};
use crate::heap::segments::SegmentId;
use crate::layout::header::SegmentState;
use crate::{InPlaceReceive, Namespace, Store};

#[test]
fn two_inserts_of_one_key_leave_one_slot() {
    explore(|| {
        let (store, _background) = store(3);
        let (mut a, mut b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        let one = thread::spawn(move || put(&mut a, b"key", b"one"));
        let two = thread::spawn(move || put(&mut b, b"key", b"two"));
        one.join().expect("one");
        two.join().expect("two");
        let value = read(&mut store.handle().expect("handle"), b"key").expect("it was stored");
        assert!(value == b"one" || value == b"two");
        assert_eq!(slots(&store), 1);
        assert_eq!(store.stats().items, 1);
    });
}

#[test]
fn an_overwrite_is_not_undone_by_a_relocation() {
    explore(|| {
        let (store, background, mut handle) = sealed(2, |handle| put(handle, b"key", b"old"));
        let mover = draining(background, Drained::Moved);
        put(&mut handle, b"key", b"new");
        assert_eq!(read(&mut handle, b"key").as_deref(), Some(&b"new"[..]));
        mover.join().expect("mover");
        assert_eq!(read(&mut handle, b"key").as_deref(), Some(&b"new"[..]));
        assert_eq!((slots(&store), store.stats().items), (1, 1));
    });
}

#[test]
fn relocation_does_not_revive_deleted_item() {
    explore(|| {
        let (store, background, mut handle) = sealed(2, |handle| put(handle, b"key", b"old"));
        let mover = draining(background, Drained::Moved);
        until_done(&mut handle, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"key");
            guard.items_mut().delete(&key, &Delete::default())
        });
        assert_eq!(read(&mut handle, b"key"), None);
        mover.join().expect("mover");
        assert_eq!(read(&mut handle, b"key"), None);
        assert_eq!((slots(&store), store.stats().items), (0, 0));
    });
}

fn add(guard: &mut crate::Guard<'_>, delta: u64, want_token: bool) -> Result<ArithOutcome, crate::OpError> {
    let key = guard.key(Namespace::DEFAULT, b"key");
    let arith = Arith { delta, decrement: false, vivify: None, expire: None, compare: None, token: None, want_token };
    guard.numbers().arith(&key, &arith)
}

#[test]
fn no_increment_is_lost_to_a_relocation_or_another() {
    explore(|| {
        let (store, background, mut a) = sealed(2, |handle| {
            put(handle, b"key", b"10");
            until_done(handle, |guard| add(guard, 1, false));
        });
        let mut b = store.handle().expect("handle");
        let mover = draining(background, Drained::Moved);
        let other = thread::spawn(move || {
            until_done(&mut b, |guard| add(guard, 100, true));
            until_done(&mut b, |guard| add(guard, 100, false));
        });
        until_done(&mut a, |guard| add(guard, 1, false));
        mover.join().expect("mover");
        other.join().expect("other");
        assert_eq!(read(&mut a, b"key").as_deref(), Some(&b"212"[..]));
    });
}

#[test]
fn a_token_outlives_a_relocation_and_stores_once() {
    explore(|| {
        let (_store, background, mut handle) = sealed(2, |handle| put(handle, b"key", b"old"));
        let mover = draining(background, Drained::Moved);
        let token = until_done(&mut handle, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"key");
            guard.versions().gets(&key).map(|item| item.expect("it is there").token)
        });
        let compare = |guard: &mut crate::Guard<'_>| {
            let key = guard.key(Namespace::DEFAULT, b"key");
            guard.items_mut().put(&key, &Put { compare: Some(token), ..Put::set(b"new") })
        };
        assert!(matches!(until_done(&mut handle, compare), PutOutcome::Stored { .. }));
        assert_eq!(until_done(&mut handle, compare), PutOutcome::Exists);
        mover.join().expect("mover");
        assert_eq!(read(&mut handle, b"key").as_deref(), Some(&b"new"[..]));
    });
}

#[test]
fn a_token_does_not_store_after_an_increment() {
    explore(|| {
        let (store, background, mut a) = sealed(2, |handle| {
            put(handle, b"key", b"10");
            until_done(handle, |guard| add(guard, 1, true));
        });
        let mut b = store.handle().expect("handle");
        let mover = draining(background, Drained::Moved);
        let adder = thread::spawn(move || until_done(&mut b, |guard| add(guard, 1, false)));
        let (value, token) = until_done(&mut a, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"key");
            guard.versions().gets(&key).map(|item| {
                let item = item.expect("it is there");
                let crate::Value::Integer(value) = item.value else { panic!("a number") };
                (value, item.token)
            })
        });
        let doubled = (value * 2).to_string();
        let outcome = until_done(&mut a, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"key");
            guard.items_mut().put(&key, &Put { compare: Some(token), ..Put::set(doubled.as_bytes()) })
        });
        adder.join().expect("adder");
        mover.join().expect("mover");
        let last = read(&mut a, b"key").expect("it is there");
        // If the value 11 was read, it was doubled before the addition, or the store was refused. If 12 was read, it
        // was doubled after the addition. No other result is allowed.
        let allowed: &[&[u8]] = match outcome {
            PutOutcome::Stored { .. } if value == 11 => &[b"23"],
            PutOutcome::Stored { .. } => &[b"24"],
            _ => &[b"12"],
        };
        assert!(allowed.contains(&&last[..]), "{value} {outcome:?} {:?}", String::from_utf8_lossy(&last));
    });
}

/// Reads the key several times on a separate thread. Each read must return `whole` or a miss.
fn reading<const LEN: usize>(mut handle: ThreadHandle, whole: [u8; LEN]) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for _ in 0..3 {
            assert!(read(&mut handle, b"key").is_none_or(|value| value == whole));
        }
    })
}

#[test]
fn a_reader_never_sees_a_recycled_segment() {
    let reused = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&reused);
    explore(move || {
        let (store, mut background, mut a) = sealed(2, |handle| put(handle, b"key", &[1; 60]));
        let reader = reading(store.handle().expect("handle"), [1; 60]);
        let store2 = Arc::clone(&store);
        let reused = Arc::clone(&counted);
        let recycler = thread::spawn(move || {
            drain_first(&mut background, Drained::Evicted);
            for _ in 0..4 {
                background.slice(NOW, &mut || true);
            }
            // The most recently freed segment is taken first.
            for i in 0..14u8 {
                put(&mut a, &[b'x', i], &[2; 60]);
            }
            let first = store2.segments.header(SegmentId(0));
            reused.fetch_add(u64::from(first.state() != SegmentState::Free && first.sequence() > 1), Relaxed);
        });
        reader.join().expect("reader");
        recycler.join().expect("recycler");
    });
    assert!(reused.load(Relaxed) > 10, "the segment was given another life in some of the schedules");
}

#[test]
fn a_pinned_value_outlives_the_eviction_of_its_segment() {
    let pinned = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&pinned);
    explore(move || {
        let (store, mut background, mut a) = sealed(2, |handle| put(handle, b"key", &[1; 60]));
        let mut b = store.handle().expect("handle");
        let (store2, pinned) = (Arc::clone(&store), Arc::clone(&counted));
        let sender = thread::spawn(move || {
            let guard = b.guard(NOW);
            let key = guard.key(Namespace::DEFAULT, b"key");
            let Some(Value::Bytes(value)) = guard.items().get(&key).map(|item| item.value) else { return };
            let pin = store2.pin(value);
            drop(guard);
            for _ in 0..4 {
                thread::yield_now();
                assert_eq!(store2.pinned_bytes(&pin, 0), [1; 60]);
            }
            let evicted = store2.segments.header(SegmentId(0)).state() == SegmentState::Quarantine;
            pinned.fetch_add(u64::from(evicted), Relaxed);
            store2.unpin(pin);
        });
        drain_first(&mut background, Drained::Evicted);
        for i in 0..28u8 {
            background.slice(NOW, &mut || true);
            put(&mut a, &[b'x', i], &[2; 60]);
        }
        sender.join().expect("sender");
        for _ in 0..4 {
            background.slice(NOW, &mut || true);
        }
        let first = store.segments.header(SegmentId(0));
        assert!(
            first.sequence() > 1 || first.state() == SegmentState::Free,
            "the segment is reused once the pin is gone"
        );
    });
    assert!(pinned.load(Relaxed) > 10, "a pin held an evicted segment in some of the schedules");
}

/// Begins an in-place receive in the first segment, and then seals the segment.
fn arriving(handle: &mut ThreadHandle, store: &Store) -> InPlaceReceive {
    let arriving = until_done(handle, |guard| {
        let key = guard.key(Namespace::DEFAULT, b"key");
        guard.receiver().begin(&key, &Put::set(b""), 60, 2)
    });
    handle.seal_for_model(store);
    arriving
}

/// Receives the value in two steps and stores it.
fn arrive(handle: &mut ThreadHandle, store: &Store, mut arriving: InPlaceReceive) {
    for part in [40, 22] {
        store.room_of(&mut arriving)[..part].fill(1);
        arriving.receive(part);
        thread::yield_now();
    }
    let mut waiting = Some(arriving);
    until_done(handle, |guard| {
        let key = guard.key(Namespace::DEFAULT, b"key");
        let arriving = waiting.take().expect("it came back");
        guard.receiver().commit(arriving, &key, &Put::set(b"")).map_err(|(arriving, error)| {
            waiting = Some(arriving);
            error
        })
    });
}

#[test]
fn receive_into_sealed_segment_is_complete_before_drain() {
    for why in [Drained::Moved, Drained::Evicted] {
        explore(move || {
            let (store, background) = store(2);
            let mut handle = store.handle().expect("handle");
            put(&mut handle, b"key", b"old");
            let coming = arriving(&mut handle, &store);
            let drainer = draining(background, why);
            let mut other = store.handle().expect("handle");
            let reader = thread::spawn(move || {
                for _ in 0..3 {
                    assert!(read(&mut other, b"key").is_none_or(|value| value == b"old" || value == [1; 60]));
                }
            });
            arrive(&mut handle, &store, coming);
            let stored = read(&mut handle, b"key");
            drainer.join().expect("drainer");
            reader.join().expect("reader");
            match why {
                Drained::Moved => {
                    assert_eq!(stored.as_deref(), Some(&[1; 60][..]));
                    assert_eq!(read(&mut handle, b"key"), stored);
                    assert_eq!((slots(&store), store.stats().items), (1, 1));
                }
                Drained::Evicted => assert!(stored.is_none_or(|value| value == [1; 60])),
            }
        });
    }
}

#[test]
fn item_received_during_flush_is_present_or_flushed() {
    explore(|| {
        let (store, _background) = store(2);
        let (mut a, mut b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        put(&mut a, b"key", b"old");
        let coming = arriving(&mut a, &store);
        let flusher = thread::spawn(move || until_done(&mut b, |guard| guard.items_mut().flush(Namespace::DEFAULT)));
        arrive(&mut a, &store, coming);
        flusher.join().expect("flusher");
        assert!(read(&mut a, b"key").is_none_or(|value| value == [1; 60]));
        let again = arriving(&mut a, &store);
        until_done(&mut a, |guard| guard.items_mut().flush(Namespace::DEFAULT));
        arrive(&mut a, &store, again);
        assert_eq!(read(&mut a, b"key").as_deref(), Some(&[1; 60][..]), "it was stored after the flush");
    });
}

#[test]
fn flushed_item_stays_removed_despite_relocation_or_copy() {
    explore(|| {
        let (store, background, mut a) = sealed(2, |handle| put(handle, b"key", b"old"));
        let mut b = store.handle().expect("handle");
        let mover = draining(background, Drained::Moved);
        let copier = thread::spawn(move || {
            // This change copies the item, because the item has no expiry word yet.
            until_done(&mut b, |guard| {
                let key = guard.key(Namespace::DEFAULT, b"key");
                guard.items_mut().touch(&key, Expire::At(NOW.plus_ms(60_000))).map(|item| item.is_some())
            })
        });
        until_done(&mut a, |guard| guard.items_mut().flush(Namespace::DEFAULT));
        assert_eq!(read(&mut a, b"key"), None, "right after the flush");
        mover.join().expect("mover");
        copier.join().expect("copier");
        assert_eq!(read(&mut a, b"key"), None, "after everything has moved");
    });
}

#[test]
fn a_copy_that_begins_while_a_flush_runs_does_not_outlive_it() {
    explore(|| {
        let (store, _background) = store(2);
        let (mut a, mut b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        put(&mut a, b"key", b"old");
        let copier = thread::spawn(move || {
            let mut guard = b.guard(NOW);
            let key = guard.key(Namespace::DEFAULT, b"key");
            // The handle has no open segment. The copy opens a segment, possibly between the two steps of the flush.
            let _ = guard.items_mut().touch(&key, Expire::At(NOW.plus_ms(60_000)));
        });
        until_done(&mut a, |guard| guard.items_mut().flush(Namespace::DEFAULT));
        copier.join().expect("copier");
        assert_eq!(read(&mut a, b"key"), None);
    });
}

#[test]
fn eviction_of_old_version_does_not_remove_new_insert() {
    explore(|| {
        let (store, background, mut handle) = sealed(2, |handle| put(handle, b"key", b"old"));
        let evictor = draining(background, Drained::Evicted);
        put(&mut handle, b"key", b"new");
        evictor.join().expect("evictor");
        assert_eq!(read(&mut handle, b"key").as_deref(), Some(&b"new"[..]));
        assert_eq!((slots(&store), store.stats().items), (1, 1));
    });
}

#[test]
fn item_expiring_during_read_is_complete_or_missing() {
    explore(|| {
        let soon = Expire::At(NOW.plus_ms(5));
        let (store, mut background, mut a) = sealed(2, |handle| put_until(handle, b"key", &[1; 50], soon));
        let reader = reading(store.handle().expect("handle"), [1; 50]);
        let later = NOW.plus_ms(6);
        for _ in 0..4 {
            background.slice(later, &mut || false);
        }
        let guard = a.guard(later);
        let key = guard.key(Namespace::DEFAULT, b"key");
        assert!(guard.items().get(&key).is_none());
        drop(guard);
        reader.join().expect("reader");
    });
}
