//! Tests of changes that depend on the present item, of signed counters, and of walks that must miss no item.
#![cfg(not(shuttle))]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use base::clock::UnixMillis;
use gannet_segment::{
    AddOutcome, Attempts, Background, Delete, DeleteOutcome, Expire, Guard, Key, Loaded, Namespace, OpError, Patch,
    Put, PutMode, PutOutcome, Replaced, Replacement, Store, StoreConfig, ThreadHandle, Value,
};

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);
const MIB: u64 = 1 << 20;

fn store(memory_mib: u64, handles_max: usize) -> (Arc<Store>, Background) {
    let config = StoreConfig {
        memory_bytes: memory_mib * MIB,
        memory_bytes_max: 128 * MIB,
        segment_bytes: None,
        item_bytes_max: MIB,
        handles_max,
        hash_seed: 3,
        huge_pages: false,
    };
    Store::new(&config, NOW).expect("store")
}

fn slice(background: &mut Background) {
    let mut asked = 0;
    background.slice(NOW, &mut || {
        asked += 1;
        asked > 4
    });
}

/// Runs `op` in a guard, and repeats it after a background slice until it is not parked.
fn until_done<T>(
    handle: &mut ThreadHandle,
    background: &mut Background,
    mut op: impl FnMut(&mut Guard<'_>) -> Result<T, OpError>,
) -> T {
    loop {
        match op(&mut handle.guard(NOW)) {
            Err(OpError::Parked) => slice(background),
            done => return done.expect("room"),
        }
    }
}

fn read(handle: &mut ThreadHandle, name: &[u8]) -> Option<(Vec<u8>, Expire, u32)> {
    let guard = handle.guard(NOW);
    let item = guard.items().get(&guard.key(Namespace::DEFAULT, name))?;
    let value = match item.value {
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::Large(large) => format!("{} bytes", large.bytes).into_bytes(),
        Value::Typed { kind, bytes } => [format!("type {kind}: ").as_bytes(), bytes].concat(),
    };
    Some((value, item.expire, item.client_flags))
}

/// Changes the key's present item. Returns [`OpError::Parked`] if another thread changed the item meanwhile.
fn replace(guard: &mut Guard<'_>, key: &Key<'_>, new: Replacement<'_>) -> Result<(), OpError> {
    let Loaded { version, .. } = guard.items().load(key, &mut Attempts::default())?;
    match guard.items_mut().replace(key, &version, new)? {
        Replaced::Done => Ok(()),
        Replaced::Stale => Err(OpError::Parked),
    }
}

#[test]
fn replacement_changes_only_the_value_or_expiry_that_it_names() {
    let (store, mut background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    let soon = Expire::At(UnixMillis(NOW.0 + 60_000));
    let mut change = |handle: &mut ThreadHandle, new: Replacement<'_>| {
        until_done(handle, &mut background, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"k");
            replace(guard, &key, new)
        });
    };
    fn bytes(value: &[u8], client_flags: u32, expire: Expire) -> Replacement<'_> {
        Replacement::Bytes { value, client_flags, expire }
    }
    change(&mut handle, Replacement::Remove);
    change(&mut handle, Replacement::Expire(soon));
    assert_eq!(read(&mut handle, b"k"), None);
    change(&mut handle, bytes(b"one", 7, soon));
    assert_eq!(read(&mut handle, b"k"), Some((b"one".to_vec(), soon, 7)));
    change(&mut handle, Replacement::Expire(Expire::Never));
    assert_eq!(read(&mut handle, b"k"), Some((b"one".to_vec(), Expire::Never, 7)));
    change(&mut handle, bytes(&vec![b'x'; 300_000], 0, Expire::Never));
    assert_eq!(read(&mut handle, b"k").unwrap().0, b"300000 bytes", "it is stored in pieces");
    let long: Vec<u8> = (0..300_000u32).map(|at| (at / 7) as u8).collect();
    change(&mut handle, bytes(&long, 0, Expire::Never));
    let guard = handle.guard(NOW);
    let key = guard.key(Namespace::DEFAULT, b"k");
    let value = guard.items().get(&key).unwrap().value;
    for range in [0..300_000, 0..1, 299_999..300_000, 5..5, 31_000..70_001] {
        let mut part = Vec::new();
        assert!(guard.pieces().copy_range(&key, value, range.clone(), &mut |bytes| part.extend_from_slice(bytes)));
        assert!(part.into_iter().eq(range.map(|at| (at / 7) as u8)));
    }
    drop(guard);
    change(&mut handle, Replacement::Remove);
    assert_eq!(read(&mut handle, b"k"), None);
}

#[test]
fn replace_with_a_stale_version_has_no_effect() {
    let (store, mut background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    type Change = fn(&mut Guard<'_>, &Key<'_>) -> Result<(), OpError>;
    let changes: [(&str, Change); 5] = [
        ("stored", |guard, key| guard.items_mut().put(key, &Put::set(b"7")).map(drop)),
        ("deleted", |guard, key| guard.items_mut().delete(key, &Delete::default()).map(drop)),
        ("touched", |guard, key| guard.items_mut().touch(key, Expire::At(NOW.plus_ms(9_000))).map(drop)),
        ("added", |guard, key| guard.numbers().add(key, 1).map(drop)),
        ("marked", |guard, key| {
            guard.items_mut().delete(key, &Delete { mark_stale: true, ..Delete::default() }).map(drop)
        }),
    ];
    let news = [
        Replacement::Remove,
        Replacement::Expire(Expire::At(NOW.plus_ms(1_000))),
        Replacement::Bytes { value: b"new", client_flags: 1, expire: Expire::Never },
        Replacement::Typed { kind: 9, bytes: b"new", parts: None, expire: Expire::Never },
    ];
    for (name, change) in changes {
        for new in news {
            until_done(&mut handle, &mut background, |guard| {
                let key = guard.key(Namespace::DEFAULT, b"k");
                guard.items_mut().delete(&key, &Delete::default())?;
                guard.numbers().add(&key, 5)
            });
            let mut guard = handle.guard(NOW);
            let key = guard.key(Namespace::DEFAULT, b"k");
            let Loaded { version, .. } = guard.items().load(&key, &mut Attempts::default()).unwrap();
            change(&mut guard, &key).expect("no other thread");
            let before = guard.items().get(&key).map(|item| (format!("{:?}", item.value), item.expire, item.stale));
            assert_eq!(guard.items_mut().replace(&key, &version, new), Ok(Replaced::Stale), "{name}, {new:?}");
            let after = guard.items().get(&key).map(|item| (format!("{:?}", item.value), item.expire, item.stale));
            assert_eq!(after, before, "{name}, {new:?}");
        }
    }
}

#[test]
fn load_attempts_of_a_change_are_bounded() {
    let (store, _background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    let guard = handle.guard(NOW);
    let key = guard.key(Namespace::DEFAULT, b"k");
    let mut attempts = Attempts::default();
    let loads = (0..100).take_while(|_| guard.items().load(&key, &mut attempts).is_ok()).count();
    assert!((1..10).contains(&loads), "{loads} loads");
}

#[test]
#[should_panic(expected = "a version is used in the guard that loaded it")]
fn a_version_of_another_handle_is_refused() {
    let (store, _background) = store(64, 2);
    let (mut a, mut b) = (store.handle().unwrap(), store.handle().unwrap());
    let (guard, mut other) = (a.guard(NOW), b.guard(NOW));
    let key = guard.key(Namespace::DEFAULT, b"k");
    let Loaded { version, .. } = guard.items().load(&key, &mut Attempts::default()).unwrap();
    let _ = other.items_mut().replace(&key, &version, Replacement::Remove);
}

#[test]
fn value_above_the_item_maximum_is_refused_and_the_old_value_stays() {
    let (store, mut background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    until_done(&mut handle, &mut background, |guard| {
        let key = guard.key(Namespace::DEFAULT, b"k");
        guard.items_mut().put(&key, &Put::set(b"old"))
    });
    let mut guard = handle.guard(NOW);
    let key = guard.key(Namespace::DEFAULT, b"k");
    let (value, client_flags, expire) = (&[0; 2 << 20][..], 0, Expire::Never);
    let refused = replace(&mut guard, &key, Replacement::Bytes { value, client_flags, expire });
    drop(guard);
    assert_eq!(refused, Err(OpError::TooLarge));
    assert_eq!(read(&mut handle, b"k").unwrap().0, b"old");
}

#[test]
fn typed_value_retains_its_type_and_is_not_read_as_a_string() {
    let (store, mut background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    let end = |secs: u64| Expire::At(UnixMillis(NOW.0 + secs * 1000));
    let bytes = vec![7; 5000];
    until_done(&mut handle, &mut background, |guard| {
        let key = guard.key(Namespace::DEFAULT, b"k");
        replace(guard, &key, Replacement::Typed { kind: 9, bytes: &bytes, parts: None, expire: end(10) })
    });
    let mut report = b"type 9: ".to_vec();
    report.extend_from_slice(&bytes);
    // A later expiry copies the item.
    for expire in [end(10), end(5), end(1000), Expire::Never] {
        until_done(&mut handle, &mut background, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"k");
            guard.items_mut().touch(&key, expire).map(|item| assert!(item.is_some()))
        });
        assert_eq!(read(&mut handle, b"k"), Some((report.clone(), expire, 0)));
    }
    let mut guard = handle.guard(NOW);
    let key = guard.key(Namespace::DEFAULT, b"k");
    for mode in [PutMode::Append, PutMode::Prepend] {
        let put = Put { mode, vivify: Some(Expire::Never), ..Put::set(b"x") };
        assert_eq!(guard.items_mut().put(&key, &put), Ok(PutOutcome::WrongType));
    }
    assert_eq!(guard.numbers().add(&key, 1), Ok(AddOutcome::WrongType));
    let long = vec![0; 200_000];
    let new = Replacement::Typed { kind: 9, bytes: &long, parts: None, expire: Expire::Never };
    let refused = replace(&mut guard, &key, new);
    assert_eq!(refused, Err(OpError::TooLarge));
    assert_eq!(guard.items().get(&key).map(|item| item.value), Some(Value::Typed { kind: 9, bytes: &bytes }));
    assert_eq!(
        guard.items_mut().delete(&key, &Delete { drop_value: true, ..Delete::default() }),
        Ok(DeleteOutcome::Deleted)
    );
    assert_eq!(guard.items().get(&key).map(|item| item.value), Some(Value::Bytes(b"")));
}

#[test]
fn counter_supports_negative_sums_and_reports_overflow() {
    let (store, mut background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    let mut add = |handle: &mut ThreadHandle, name: &[u8], delta: i64| {
        until_done(handle, &mut background, |guard| {
            let key = guard.key(Namespace::DEFAULT, name);
            guard.numbers().add(&key, delta)
        })
    };
    for (delta, sum) in [(5, 5), (-7, -2), (1, -1), (1, 0), (i64::MAX, i64::MAX)] {
        assert_eq!(add(&mut handle, b"n", delta), AddOutcome::Number(sum));
        assert_eq!(read(&mut handle, b"n").unwrap().0, sum.to_string().into_bytes());
    }
    assert_eq!(add(&mut handle, b"n", 1), AddOutcome::Overflow);
    assert_eq!(add(&mut handle, b"least", i64::MIN), AddOutcome::Number(i64::MIN));
    assert_eq!(add(&mut handle, b"least", -1), AddOutcome::Overflow);
    assert_eq!(read(&mut handle, b"n").unwrap().0, i64::MAX.to_string().into_bytes(), "it stays what it was");
    for text in ["abc", "", "1.5", " 1", "18446744073709551615"] {
        let mut guard = handle.guard(NOW);
        let key = guard.key(Namespace::DEFAULT, b"text");
        guard.items_mut().put(&key, &Put::set(text.as_bytes())).unwrap();
        assert_eq!(guard.numbers().add(&key, 1), Ok(AddOutcome::NotInteger), "{text}");
    }
}

#[test]
fn counters_of_two_threads_lose_no_addition_whatever_their_sign() {
    let (store, mut background) = store(64, 3);
    let rounds = 20_000i64;
    let threads: Vec<_> = [3i64, -5]
        .into_iter()
        .map(|delta| {
            let store = Arc::clone(&store);
            std::thread::spawn(move || {
                let mut handle = store.handle().unwrap();
                for _ in 0..rounds {
                    loop {
                        let mut guard = handle.guard(NOW);
                        let key = guard.key(Namespace::DEFAULT, b"n");
                        match guard.numbers().add(&key, delta) {
                            Ok(AddOutcome::Number(_)) => break,
                            Err(OpError::Parked) => {}
                            other => panic!("{other:?}"),
                        }
                        drop(guard);
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    while threads.iter().any(|thread| !thread.is_finished()) {
        slice(&mut background);
        std::thread::yield_now();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut handle = store.handle().unwrap();
    assert_eq!(read(&mut handle, b"n").unwrap().0, (-2 * rounds).to_string().into_bytes());
}

#[test]
fn a_walk_misses_no_item_that_stays_while_the_index_grows_and_shrinks() {
    const STAYS: usize = 300;
    let (store, mut background) = store(16, 1);
    let mut handle = store.handle().unwrap();
    // The order of a walk through few items stays that of the walk when items are added.
    let sparse = handle.guard(NOW).walks().first_cursor();
    assert_ne!(sparse, 0);
    let put = |handle: &mut ThreadHandle, background: &mut Background, name: String| {
        until_done(handle, background, |guard| {
            let key = guard.key(Namespace::DEFAULT, name.as_bytes());
            guard.items_mut().put(&key, &Put::set(&[b'v'; 400]))
        });
    };
    for number in 0..STAYS {
        put(&mut handle, &mut background, format!("stays-{number}"));
    }
    let (mut walks, mut next, mut shrunk) = (0, 0, false);
    while walks < 12 {
        let mut seen = HashSet::new();
        let mut cursor = Some([0, sparse][walks % 2]);
        while let Some(from) = cursor {
            cursor = handle.guard(NOW).walks().scan(Namespace::DEFAULT, from, &mut |item| {
                seen.insert(item.key.to_vec());
            });
            // Stores items during the walk, so that the index grows. Later the memory is reduced, so that it shrinks.
            for _ in 0..if shrunk { 0 } else { 60 } {
                put(&mut handle, &mut background, format!("new-{next}"));
                next += 1;
            }
            slice(&mut background);
        }
        for number in 0..STAYS {
            let name = format!("stays-{number}").into_bytes();
            let there = read(&mut handle, &name).is_some();
            assert!(!there || seen.contains(&name), "walk {walks} has missed {number}");
        }
        walks += 1;
        if walks == 8 {
            store.resize(8 * MIB).expect("a smaller memory");
            shrunk = true;
        }
    }
    let stats = store.stats();
    assert!(stats.index_growths > 0 && stats.index_shrinks > 0, "{stats:?}");
    assert_eq!(handle.guard(NOW).walks().first_cursor(), 0, "the index is no longer sparse");
}

/// Returns the whole value of a key, large or not, and its expiry.
fn read_whole(handle: &mut ThreadHandle, name: &[u8]) -> Option<(Vec<u8>, Expire)> {
    let guard = handle.guard(NOW);
    let key = guard.key(Namespace::DEFAULT, name);
    let item = guard.items().get(&key)?;
    let bytes = match item.value {
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::Large(large) => large.bytes,
        _ => unreachable!("bytes were stored"),
    };
    let mut whole = Vec::new();
    assert!(
        guard.pieces().copy_range(&key, item.value, 0..bytes, &mut |part| whole.extend_from_slice(part)),
        "a piece is lost"
    );
    Some((whole, item.expire))
}

/// Runs `op` with the smallest possible share in each iteration. Returns its result, and the number of guards in which
/// it was postponed because the share was used up. The clock advances by 1 ms between two guards.
fn in_shares<T>(
    handle: &mut ThreadHandle,
    background: &mut Background,
    mut op: impl FnMut(&mut Guard<'_>) -> Result<T, OpError>,
) -> (T, u32) {
    let mut paused = 0;
    loop {
        assert!(paused < 10_000, "it never comes to its end");
        let mut guard = handle.guard(NOW.plus_ms(paused.into()));
        guard.serve(7, 1);
        match op(&mut guard) {
            Err(OpError::Parked) if guard.is_paused() => paused += 1,
            Err(OpError::Parked) => {
                drop(guard);
                slice(background);
            }
            done => return (done.expect("room"), paused),
        }
    }
}

#[test]
fn a_large_value_that_is_changed_over_many_guards_is_changed_once_and_whole() {
    let (store, mut background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    let mut value: Vec<u8> = (0..700_000_u32).map(|at| (at % 251) as u8).collect();
    in_shares(&mut handle, &mut background, |guard| {
        let key = guard.key(Namespace::DEFAULT, b"k");
        guard.items_mut().put(&key, &Put::set(&value))
    });
    for round in 0..3_u8 {
        let part = vec![round; 1000];
        let mode = if round == 1 { PutMode::Prepend } else { PutMode::Append };
        let (stored, paused) = in_shares(&mut handle, &mut background, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"k");
            guard.items_mut().put(&key, &Put { mode, ..Put::set(&part) })
        });
        assert!(matches!(stored, PutOutcome::Stored { .. }) && paused > 1, "{stored:?} after {paused} pauses");
        value = if round == 1 { [part, value].concat() } else { [value, part].concat() };
        assert_eq!(read_whole(&mut handle, b"k"), Some((value.clone(), Expire::Never)));
    }
    for expire in [60_000, 1000, 90_000].map(|after| Expire::At(UnixMillis(NOW.0 + after))) {
        let (touched, _) = in_shares(&mut handle, &mut background, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"k");
            Ok(guard.items_mut().touch(&key, expire)?.map(|item| item.expire))
        });
        assert_eq!(touched, Some(expire));
        assert_eq!(read_whole(&mut handle, b"k"), Some((value.clone(), expire)));
    }
    let (copied, paused) = in_shares(&mut handle, &mut background, |guard| {
        let (from, to) = (guard.key(Namespace::DEFAULT, b"k"), guard.key(Namespace::DEFAULT, b"copy"));
        guard.large().copy(&from, &to)
    });
    assert!(copied.is_some() && paused > 1, "{paused} pauses");
    assert_eq!(read_whole(&mut handle, b"copy").map(|(copy, _)| copy == value), Some(true));
    assert_eq!(store.stats().large_broken, 0);
}

/// A time to live is counted from the guard in which the request runs, and each iteration is later than the previous
/// one. The work of earlier guards must remain valid, whether the expiry is stored in milliseconds or seconds.
#[test]
fn a_time_to_live_that_is_given_over_many_guards_is_given() {
    let (store, mut background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    let value = vec![b'v'; 900_000];
    for (from, ms) in [(Expire::Never, 100_000), (Expire::At(NOW.plus_ms(60_000)), 2_592_000_001), (Expire::Never, 900)]
    {
        in_shares(&mut handle, &mut background, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"k");
            guard.items_mut().put(&key, &Put { expire: from, ..Put::set(&value) })
        });
        let (until, paused) = in_shares(&mut handle, &mut background, |guard| {
            let (key, until) = (guard.key(Namespace::DEFAULT, b"k"), Expire::At(guard.now().plus_ms(ms)));
            Ok(guard.items_mut().touch(&key, until)?.map(|item| item.expire))
        });
        let Some(Expire::At(until)) = until else { panic!("it is there, and ends: {until:?}") };
        assert!(until.ms_since(NOW) >= ms && (6..=240).contains(&paused), "{until:?} after {paused} pauses");
        assert_eq!(read_whole(&mut handle, b"k").map(|(whole, _)| whole == value), Some(true));
        let guard = handle.guard(until.plus_ms(2000));
        assert!(guard.items().peek(&guard.key(Namespace::DEFAULT, b"k")).is_none(), "it ends");
    }
    assert_eq!(store.stats().large_broken, 0);
}

/// More requests are in progress than one handle retains works for. Each of them completes.
#[test]
fn requests_beyond_the_limit_of_unfinished_values_all_complete() {
    const REQUESTERS: usize = 100;
    let (store, mut background) = store(128, 1);
    let mut handle = store.handle().unwrap();
    let value = vec![b'v'; 300_000];
    let names: Vec<Vec<u8>> = (0..REQUESTERS).map(|number| format!("k{number}").into_bytes()).collect();
    for name in &names {
        until_done(&mut handle, &mut background, |guard| {
            let key = guard.key(Namespace::DEFAULT, name);
            guard.items_mut().put(&key, &Put::set(&value))
        });
    }
    let (mut left, mut rounds): (Vec<usize>, _) = ((0..REQUESTERS).collect(), 0);
    while !left.is_empty() {
        left.retain(|number| {
            let mut guard = handle.guard(NOW);
            guard.serve(*number as u64, 1);
            let key = guard.key(Namespace::DEFAULT, &names[*number]);
            guard.items_mut().put(&key, &Put { mode: PutMode::Append, ..Put::set(b"more") }).is_err()
        });
        slice(&mut background);
        rounds += 1;
        assert!(rounds < 1000, "{} are never put together", left.len());
    }
    for name in &names {
        assert_eq!(read_whole(&mut handle, name).map(|(whole, _)| whole.len()), Some(value.len() + 4));
    }
}

/// A request never continues the unfinished work of another request, however similar the two are.
#[test]
fn a_value_that_is_put_together_has_only_bytes_of_its_own_request() {
    let (store, mut background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    let value = vec![b'v'; 700_000];
    until_done(&mut handle, &mut background, |guard| {
        let key = guard.key(Namespace::DEFAULT, b"k");
        guard.items_mut().put(&key, &Put::set(&value))
    });
    {
        let mut guard = handle.guard(NOW);
        guard.serve(7, 1);
        let key = guard.key(Namespace::DEFAULT, b"k");
        let put = Put { mode: PutMode::Prepend, ..Put::set(b"AAAA") };
        assert!(
            guard.items_mut().put(&key, &put).is_err() && guard.is_paused(),
            "it is given up when some of it is written"
        );
    }
    in_shares(&mut handle, &mut background, |guard| {
        let key = guard.key(Namespace::DEFAULT, b"k");
        guard.items_mut().put(&key, &Put { mode: PutMode::Prepend, ..Put::set(b"BBBB") })
    });
    let (whole, _) = read_whole(&mut handle, b"k").expect("it is there");
    assert_eq!((&whole[..5], whole.len()), (&b"BBBBv"[..], value.len() + 4));
}

/// A request that sets an expiry in the past returns the value for the last time. So it must complete in one guard: it
/// must not find pieces missing that an earlier guard of the same request has ended.
#[test]
fn expiry_in_the_past_removes_a_large_value_within_a_single_guard() {
    let (store, mut background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    let value = vec![b'v'; 700_000];
    for soon in [Expire::Never, Expire::At(UnixMillis(NOW.0 + 60_000))] {
        in_shares(&mut handle, &mut background, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"k");
            guard.items_mut().put(&key, &Put { expire: soon, ..Put::set(&value) })
        });
        let past = Expire::At(UnixMillis(NOW.0 - 1));
        let (touched, paused) = in_shares(&mut handle, &mut background, |guard| {
            let key = guard.key(Namespace::DEFAULT, b"k");
            Ok(guard.items_mut().touch(&key, past)?.is_some())
        });
        assert_eq!((touched, paused), (true, 0));
        assert_eq!(read_whole(&mut handle, b"k"), None);
    }
    assert_eq!(store.stats().large_broken, 0);
}

/// Reads the value of a key, which is in pieces, and its object number.
fn large_of(guard: &Guard<'_>, key: &Key<'_>) -> (Vec<u8>, u64) {
    let value = guard.items().get(key).expect("it is there").value;
    let Value::Large(large) = value else { panic!("{value:?} is not in pieces") };
    let mut bytes = Vec::new();
    assert!(guard.pieces().copy_range(key, value, 0..large.bytes, &mut |part| bytes.extend_from_slice(part)));
    (bytes, large.object)
}

/// Overwrites bytes of a key's value with those that `new` returns for the present ones.
fn patch(
    guard: &mut Guard<'_>,
    name: &[u8],
    at: u64,
    new: impl Fn(&[u8]) -> Vec<u8>,
    bytes: u64,
) -> Result<(), OpError> {
    let key = guard.key(Namespace::DEFAULT, name);
    let Loaded { item, version } = guard.items().load(&key, &mut Attempts::default())?;
    let item = item.expect("it is there");
    let mut old = Vec::new();
    guard.pieces().copy_range(&key, item.value, at..at + bytes, &mut |part| old.extend_from_slice(part));
    let (new, len) = (new(&old), item.value_len());
    let patches = [Patch { at, bytes: &new }];
    match guard.items_mut().replace(&key, &version, Replacement::Patch { patches: &patches, bytes_min: len })? {
        Replaced::Done => Ok(()),
        Replaced::Stale => Err(OpError::Parked),
    }
}

#[test]
fn a_change_within_a_piece_of_a_large_value_writes_only_that_piece() {
    let (store, mut background) = store(64, 1);
    let mut handle = store.handle().unwrap();
    let mut model: Vec<u8> = (0..900_000u32).map(|at| (at / 7) as u8).collect();
    until_done(&mut handle, &mut background, |guard| {
        let key = guard.key(Namespace::DEFAULT, b"k");
        guard.items_mut().put(&key, &Put::set(&model)).map(drop)
    });
    let piece_bytes = handle.guard(NOW).sizes().piece_bytes_max() as u64;
    let (mut kept, mut pinned) = (0, Vec::new());
    for step in 0..300_u64 {
        let at = step * 2_999;
        let before = {
            let mut guard = handle.guard(NOW);
            let key = guard.key(Namespace::DEFAULT, b"k");
            let (bytes, object) = large_of(&guard, &key);
            assert!(bytes == model, "after {step} changes");
            if step % 60 == 0 {
                let Value::Large(large) = guard.items().get(&key).unwrap().value else { unreachable!("as above") };
                pinned.push((guard.large().pin(&key, large).unwrap().unwrap(), model.clone()));
            }
            object
        };
        until_done(&mut handle, &mut background, |guard| patch(guard, b"k", at, |_| step.to_le_bytes().to_vec(), 8));
        model[at as usize..at as usize + 8].copy_from_slice(&step.to_le_bytes());
        let guard = handle.guard(NOW);
        let object = large_of(&guard, &guard.key(Namespace::DEFAULT, b"k")).1;
        let is_in_one = at / piece_bytes == (at + 7) / piece_bytes;
        kept += usize::from(object == before);
        assert!(is_in_one || object != before, "a change of two pieces writes a new value");
    }
    assert!(kept > 280, "{kept} of 300 changes wrote only a piece");
    for (pinned, bytes) in pinned {
        let parts: Vec<u8> =
            (0..pinned.pieces()).flat_map(|piece| store.pinned_bytes(&pinned, piece).to_vec()).collect();
        assert!(parts == bytes, "a pinned value does not change");
        store.unpin(pinned);
    }
}

/// One thread writes a number to the first piece and then to the last one, another thread counts in a third piece, and
/// a third thread reads the whole value.
#[test]
fn a_reader_of_a_large_value_never_sees_a_later_change_without_an_earlier_one() {
    const LAST: u64 = 39_000;
    const MIDDLE: u64 = 20_000;
    const STATES: usize = 50;
    const ROUNDS_MAX: u64 = 100_000;
    let (store, mut background) = store(64, 5);
    let mut first = store.handle().unwrap();
    until_done(&mut first, &mut background, |guard| {
        let key = guard.key(Namespace::DEFAULT, b"k");
        guard.items_mut().put(&key, &Put::set(&vec![0; 40_000])).map(drop)
    });
    drop(first);
    let number = |bytes: &[u8], at: u64| u64::from_le_bytes(bytes[at as usize..at as usize + 8].try_into().unwrap());
    let (ended, states) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let change = |handle: &mut ThreadHandle, at: u64, new: &dyn Fn(u64) -> u64| {
        let new = |old: &[u8]| new(number(old, 0)).to_le_bytes().to_vec();
        while patch(&mut handle.guard(NOW), b"k", at, new, 8) == Err(OpError::Parked) {
            std::thread::yield_now();
        }
    };
    let write = |at: [u64; 2], mut handle: ThreadHandle| {
        let mut rounds = 0;
        while states.load(SeqCst) < STATES && rounds < ROUNDS_MAX {
            rounds += 1;
            at.iter().for_each(|at| change(&mut handle, *at, &|old| old + 1));
        }
        ended.fetch_add(1, SeqCst);
        rounds
    };
    let read = |mut reader: ThreadHandle| {
        let mut seen = HashSet::new();
        while ended.load(SeqCst) < 2 {
            let guard = reader.guard(NOW);
            let key = guard.key(Namespace::DEFAULT, b"k");
            let value = guard.items().get(&key).expect("it is there").value;
            let mut bytes = Vec::new();
            if guard.pieces().copy_range(&key, value, 0..40_000, &mut |part| bytes.extend_from_slice(part)) {
                let (first, last) = (number(&bytes, 10), number(&bytes, LAST));
                assert!(first == last || first == last + 1, "{first} and {last}");
                seen.insert(first);
                states.store(seen.len(), SeqCst);
            }
        }
        seen.len()
    };
    let rounds = std::thread::scope(|scope| {
        let [one, other, reader] = [(); 3].map(|()| store.handle().unwrap());
        let one = scope.spawn(|| write([10, LAST], one));
        let other = scope.spawn(|| write([MIDDLE, MIDDLE + 8], other));
        let reader = scope.spawn(|| read(reader));
        while ended.load(SeqCst) < 2 && !reader.is_finished() {
            slice(&mut background);
        }
        assert!(reader.join().expect("no reader fails") >= STATES);
        [one, other].map(|writer| writer.join().expect("no writer fails"))
    });
    let mut handle = store.handle().unwrap();
    let guard = handle.guard(NOW);
    let (bytes, _) = large_of(&guard, &guard.key(Namespace::DEFAULT, b"k"));
    let found = [10, LAST, MIDDLE, MIDDLE + 8].map(|at| number(&bytes, at));
    assert_eq!(found, [rounds[0], rounds[0], rounds[1], rounds[1]], "no change is lost");
}

#[test]
fn guards_that_were_met_have_ended_when_the_last_of_them_has_whatever_begins_later() {
    let (store, _background) = store(64, 4);
    let mut handles = [(); 4].map(|()| store.handle().expect("a handle"));
    let [own, first, second, idle] = &mut handles;
    let own = own.guard(NOW);
    let (one, two) = (first.guard(NOW), second.guard(NOW));
    let mut met = own.locks().meet_guards();
    let late = idle.guard(NOW);
    assert!(!own.locks().have_ended(&mut met));
    drop(one);
    let next = first.guard(NOW);
    assert!(!own.locks().have_ended(&mut met), "the second guard is in progress");
    drop(two);
    assert!(own.locks().have_ended(&mut met), "the later guards were not met");
    drop((late, next));
}
