//! Models of replies concurrent with two changes of the same item. The first change copies the item, and the second
//! changes the copy in place.
//!
//! After such a pair, the key's item has another address, and its value may have changed without a new token. If an
//! operation looked up the key twice, its reply could mix its own result with the results of these changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use shuttle::thread;

use super::locking::as_one;
use super::{NOW, explore, put, read, store, until_done};
use crate::core::handle::ThreadHandle;
use crate::core::op::{Delete, DeleteOutcome, Expire, Fetch, Item, OpError, Put, PutMode, PutOutcome, Value};
use crate::{AddOutcome, Attempts, Background, Guard, Loaded, Namespace, Replaced, Replacement, Store, Version};

const KEY: &[u8] = b"key";

fn add(handle: &mut ThreadHandle, delta: i64) {
    let done = until_done(handle, |guard| {
        let key = guard.key(Namespace::DEFAULT, KEY);
        guard.numbers().add(&key, delta)
    });
    assert!(matches!(done, AddOutcome::Number(_)), "{done:?}");
}

fn number(handle: &mut ThreadHandle) -> u64 {
    String::from_utf8(read(handle, KEY).expect("it is there")).expect("digits").parse().expect("a number")
}

fn counted(item: &Item<'_>) -> (u64, u64) {
    let Value::Integer(value) = item.value else { panic!("a number") };
    (value, item.token)
}

/// An operation that returns a value and its token.
type Look = fn(&mut Guard<'_>) -> Result<(u64, u64), OpError>;

fn gets(guard: &mut Guard<'_>) -> Result<(u64, u64), OpError> {
    let key = guard.key(Namespace::DEFAULT, KEY);
    guard.versions().gets(&key).map(|item| counted(&item.expect("it is there")))
}

fn fetch(guard: &mut Guard<'_>) -> Result<(u64, u64), OpError> {
    let key = guard.key(Namespace::DEFAULT, KEY);
    let fetch = Fetch { want_token: true, ..Fetch::default() };
    guard.items_mut().fetch(&key, &fetch).map(|fetched| counted(&fetched.expect("it is there").item))
}

fn touch_gets(guard: &mut Guard<'_>) -> Result<(u64, u64), OpError> {
    let key = guard.key(Namespace::DEFAULT, KEY);
    let later = Expire::At(NOW.plus_ms(60_000));
    guard.items_mut().touch_gets(&key, later).map(|item| counted(&item.expect("it is there")))
}

/// Creates a store with the number 10, and a thread that adds 1 to it twice.
fn beside_two_additions() -> (Arc<Store>, Background, ThreadHandle, thread::JoinHandle<()>) {
    let (store, background) = store(2);
    let (mut a, mut b) = (store.handle().expect("handle"), store.handle().expect("handle"));
    add(&mut a, 10);
    let adder = thread::spawn(move || {
        add(&mut b, 1);
        add(&mut b, 1);
    });
    (store, background, a, adder)
}

/// Runs two additions of 1 concurrently with a read of the number and its token, and a compare-and-store of the number
/// plus 1000.
fn compare_and_store_during_two_increments_loses_no_update(look: Look) {
    let (stored, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (Arc::clone(&stored), Arc::clone(&refused));
    explore(move || {
        let (_store, _background, mut a, adder) = beside_two_additions();
        let (value, token) = until_done(&mut a, look);
        let next = (value + 1000).to_string();
        let outcome = until_done(&mut a, |guard| {
            let key = guard.key(Namespace::DEFAULT, KEY);
            guard.items_mut().put(&key, &Put { compare: Some(token), ..Put::set(next.as_bytes()) })
        });
        adder.join().expect("adder");
        match outcome {
            PutOutcome::Stored { .. } => {
                assert_eq!(number(&mut a), 1012, "an addition was lost to a store by the token of {value}");
                counts.0.fetch_add(1, Relaxed);
            }
            PutOutcome::Exists => {
                assert_eq!(number(&mut a), 12);
                counts.1.fetch_add(1, Relaxed);
            }
            other => panic!("{other:?}"),
        }
    });
    assert!(stored.load(Relaxed) > 10 && refused.load(Relaxed) > 10, "both ends were tried");
}

#[test]
fn a_token_of_gets_does_not_store_over_two_additions() {
    compare_and_store_during_two_increments_loses_no_update(gets);
}

#[test]
fn a_token_of_fetch_does_not_store_over_two_additions() {
    compare_and_store_during_two_increments_loses_no_update(fetch);
}

#[test]
fn a_token_of_a_touch_does_not_store_over_two_additions() {
    compare_and_store_during_two_increments_loses_no_update(touch_gets);
}

#[test]
fn a_watched_number_that_two_additions_changed_has_changed() {
    let (stored, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let counts = (Arc::clone(&stored), Arc::clone(&refused));
    explore(move || {
        let (store, _background, mut a, adder) = beside_two_additions();
        let version = |guard: &mut Guard<'_>| -> Result<Version, OpError> {
            let key = guard.key(Namespace::DEFAULT, KEY);
            guard.versions().version(&key)
        };
        let watched = until_done(&mut a, version);
        let next = (number(&mut a) + 1000).to_string();
        let done = AtomicU64::new(0);
        as_one(
            &store,
            &mut a,
            &[KEY],
            |_| {},
            |guard, _| {
                let now = loop {
                    match version(guard) {
                        Ok(version) => break version,
                        Err(_) => thread::yield_now(),
                    }
                };
                if now == watched {
                    let key = guard.key(Namespace::DEFAULT, KEY);
                    while guard.items_mut().put(&key, &Put::set(next.as_bytes())).is_err() {
                        thread::yield_now();
                    }
                    done.store(1, Relaxed);
                }
            },
        );
        adder.join().expect("adder");
        let done = done.load(Relaxed);
        assert_eq!(number(&mut a), 12 + 1000 * done, "an addition was lost to a transaction that watched the number");
        counts.0.fetch_add(done, Relaxed);
        counts.1.fetch_add(1 - done, Relaxed);
    });
    assert!(stored.load(Relaxed) > 10 && refused.load(Relaxed) > 10, "both ends were tried");
}

#[test]
fn a_token_does_not_store_after_an_item_was_marked_stale_twice() {
    let marked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&marked);
    explore(move || {
        let (store, _background) = store(2);
        let (mut a, mut b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        put(&mut a, KEY, b"value");
        let (begun, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let marks = (Arc::clone(&begun), Arc::clone(&ended));
        let marker = thread::spawn(move || {
            for _ in 0..2 {
                marks.0.fetch_add(1, SeqCst);
                let outcome = until_done(&mut b, |guard| {
                    let key = guard.key(Namespace::DEFAULT, KEY);
                    guard.items_mut().delete(&key, &Delete { mark_stale: true, ..Delete::default() })
                });
                assert_eq!(outcome, DeleteOutcome::Deleted);
                marks.1.fetch_add(1, SeqCst);
                thread::yield_now();
            }
        });
        let token = until_done(&mut a, |guard| {
            let key = guard.key(Namespace::DEFAULT, KEY);
            guard.versions().gets(&key).map(|item| item.expect("it is there").token)
        });
        let begun_before = begun.load(SeqCst);
        thread::yield_now();
        // The stale mark began after the read, and is complete.
        let is_marked = ended.load(SeqCst) > begun_before;
        let outcome = until_done(&mut a, |guard| {
            let key = guard.key(Namespace::DEFAULT, KEY);
            guard.items_mut().put(&key, &Put { compare: Some(token), ..Put::set(b"filled") })
        });
        marker.join().expect("marker");
        if is_marked {
            assert_eq!(outcome, PutOutcome::Exists, "an item that was marked stale was filled by an older token");
            counted.fetch_add(1, Relaxed);
        }
    });
    assert!(marked.load(Relaxed) > 10, "a mark came between in some of the schedules");
}

#[test]
fn a_touch_shows_the_end_that_it_gave() {
    explore(|| {
        let (store, _background) = store(3);
        let (a, b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        put(&mut store.handle().expect("handle"), KEY, b"value");
        let touch = |mut handle: ThreadHandle, ms: u64| {
            move || {
                let end = Expire::At(NOW.plus_ms(ms));
                for fetches in [false, true] {
                    let shown = until_done(&mut handle, |guard| {
                        let key = guard.key(Namespace::DEFAULT, KEY);
                        let fetch = Fetch { touch: Some(end), ..Fetch::default() };
                        Ok(match fetches {
                            false => guard.items_mut().touch(&key, end)?.map(|item| item.expire),
                            true => guard.items_mut().fetch(&key, &fetch)?.map(|fetched| fetched.item.expire),
                        })
                    });
                    assert_eq!(shown, Some(end), "a touch shows the end that another client gave");
                }
            }
        };
        let other = thread::spawn(touch(b, 90_000));
        touch(a, 60_000)();
        other.join().expect("other");
    });
}

#[test]
fn append_reports_resulting_length() {
    explore(|| {
        let (store, _background) = store(3);
        let (a, b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        put(&mut store.handle().expect("handle"), KEY, b"first");
        let append = |mut handle: ThreadHandle, part: &'static [u8]| {
            move || {
                until_done(&mut handle, |guard| {
                    let key = guard.key(Namespace::DEFAULT, KEY);
                    let put = Put { mode: PutMode::Append, ..Put::set(part) };
                    guard.items_mut().put(&key, &put)
                })
            }
        };
        let other = thread::spawn(append(b, b"four"));
        let lengths = [append(a, b"one")(), other.join().expect("other")].map(|outcome| match outcome {
            PutOutcome::Stored { bytes, .. } => bytes,
            other => panic!("{other:?}"),
        });
        assert!([[8, 12], [12, 9]].contains(&lengths), "{lengths:?}");
    });
}

/// A number is increased and decreased again, concurrently with a change that depends on the number.
#[test]
fn a_change_is_decided_from_the_number_that_it_compares() {
    explore(|| {
        let (store, _background) = store(2);
        let (mut a, mut b) = (store.handle().expect("handle"), store.handle().expect("handle"));
        add(&mut a, 10);
        let adder = thread::spawn(move || {
            add(&mut b, 1);
            add(&mut b, -1);
        });
        until_done(&mut a, |guard| {
            let key = guard.key(Namespace::DEFAULT, KEY);
            let mut attempts = Attempts::default();
            loop {
                let Loaded { item, version } = guard.items().load(&key, &mut attempts)?;
                let (value, _) = counted(&item.expect("it is there"));
                let text = (value + 1000).to_string();
                let new = Replacement::Bytes { value: text.as_bytes(), client_flags: 0, expire: Expire::Never };
                if guard.items_mut().replace(&key, &version, new)? == Replaced::Done {
                    return Ok(());
                }
            }
        });
        adder.join().expect("adder");
        assert_eq!(number(&mut a), 1010, "a change was decided from another number than it replaced");
    });
}
