//! Tests of values in parts: publication of changes, removal of parts with their head, and eviction.
#![cfg(not(shuttle))]

use std::sync::Arc;

use base::clock::UnixMillis;
use base::prng::Prng;
use gannet_segment::{
    Attempts, Background, CopyStep, Delete, ENTRY_BYTES, Expire, Guard, KIND_IN_PARTS, Key, Loaded, Namespace, OpError,
    Parts, Put, Replaced, Replacement, Store, StoreConfig, ThreadHandle, Value,
};

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);
const MIB: u64 = 1 << 20;
const KIND: u8 = KIND_IN_PARTS | 1;
/// The length of the fragments of a long part in segments of 64 KiB: an eighth of a segment, less headers and names.
const FRAGMENT: usize = (8 << 10) - 40 - 20;

/// Returns the number of items of a part of this length.
fn items_of(bytes: usize) -> usize {
    1 + bytes / FRAGMENT
}

fn store(memory_mib: u64) -> (Arc<Store>, Background) {
    let config = StoreConfig {
        memory_bytes: memory_mib * MIB,
        memory_bytes_max: 0,
        segment_bytes: None,
        item_bytes_max: MIB,
        handles_max: 2,
        hash_seed: 3,
        huge_pages: false,
    };
    Store::new(&config, NOW).expect("store")
}

fn slice(background: &mut Background, now: UnixMillis) {
    let mut asked = 0;
    background.slice(now, &mut || {
        asked += 1;
        asked > 4
    });
}

fn until_done<T>(
    handle: &mut ThreadHandle,
    background: &mut Background,
    mut op: impl FnMut(&mut Guard<'_>) -> Result<T, OpError>,
) -> T {
    loop {
        match op(&mut handle.guard(NOW)) {
            Err(OpError::Parked) => slice(background, NOW),
            done => return done.expect("room"),
        }
    }
}

fn key<'k>(guard: &Guard<'_>, name: &'k [u8]) -> Key<'k> {
    guard.key(Namespace::DEFAULT, name)
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// Returns the numbers of the leaves that a head names, with one or two levels.
fn leaves(guard: &Guard<'_>, key: &Key<'_>, head: &[u8]) -> Option<Vec<u64>> {
    let entries = |bytes: &[u8]| -> Vec<u64> { bytes.chunks(ENTRY_BYTES).map(|entry| word(&entry[4..])).collect() };
    let count = u32::from_le_bytes(head[9..13].try_into().unwrap()) as usize;
    let root = entries(&head[13..13 + ENTRY_BYTES * count]);
    if head[8] == 1 {
        return Some(root);
    }
    let pages: Option<Vec<_>> =
        root.iter().map(|page| Some(entries(&guard.parts().part(key, word(head), *page)?.joined()))).collect();
    Some(pages?.concat())
}

/// Returns all leaves of a key's value concatenated, or `None` if the key has no value or a leaf is missing.
fn read(guard: &Guard<'_>, name: &[u8]) -> Option<Vec<u8>> {
    let key = key(guard, name);
    let Value::Typed { kind: KIND, bytes } = guard.items().get(&key)?.value else { return None };
    let parts = leaves(guard, &key, bytes)?;
    parts
        .into_iter()
        .map(|part| Some(guard.parts().part(&key, word(bytes), part)?.joined()))
        .collect::<Option<Vec<_>>>()
        .map(|all| all.concat())
}

/// Changes the key's present item. Returns [`OpError::Parked`] if another thread changed the item meanwhile.
fn replace(guard: &mut Guard<'_>, key: &Key<'_>, new: Replacement<'_>) -> Result<(), OpError> {
    let Loaded { version, .. } = guard.items().load(key, &mut Attempts::default())?;
    match guard.items_mut().replace(key, &version, new)? {
        Replaced::Done => Ok(()),
        Replaced::Stale => Err(OpError::Parked),
    }
}

/// Returns the head and the parts of a value with a new object: `count` leaves of `bytes` bytes, and with two levels a
/// page for each eight leaves.
fn value(guard: &Guard<'_>, count: usize, bytes: usize, fill: u8, levels: u8) -> (Vec<u8>, Parts) {
    let (mut to, mut parts) = (Vec::new(), Parts::default());
    let add = |parts: &mut Parts, bytes: &[u8]| {
        let (number, from) = (guard.parts().part_number(), parts.bytes.len());
        parts.bytes.extend_from_slice(bytes);
        parts.new.push((number, from..parts.bytes.len()));
        number
    };
    let entry = |part: u64| [&[0; 4][..], &part.to_le_bytes(), &[0; 6]].concat();
    let leaves: Vec<u64> = (0..count).map(|_| add(&mut parts, &vec![fill; bytes])).collect();
    let root: Vec<u64> = match levels {
        1 => leaves,
        _ => leaves
            .chunks(8)
            .map(|page| add(&mut parts, &page.iter().flat_map(|part| entry(*part)).collect::<Vec<_>>()))
            .collect(),
    };
    to.extend_from_slice(&guard.parts().part_number().to_le_bytes());
    to.push(levels);
    to.extend_from_slice(&(root.len() as u32).to_le_bytes());
    root.into_iter().for_each(|part| to.extend(entry(part)));
    to.extend_from_slice(b"tail");
    (to, parts)
}

/// Stores a value from [`value`] under the key.
fn store_parts(
    guard: &mut Guard<'_>,
    key: &Key<'_>,
    (count, bytes, fill, levels): (usize, usize, u8, u8),
    expire: Expire,
) -> Result<(), OpError> {
    let (head, parts) = value(guard, count, bytes, fill, levels);
    replace(guard, key, Replacement::Typed { kind: KIND, bytes: &head, parts: Some(&parts), expire })
}

fn put(
    handle: &mut ThreadHandle,
    background: &mut Background,
    name: &[u8],
    count: usize,
    bytes: usize,
    expire: Expire,
) {
    let levels = 1 + u8::from(count > 8);
    until_done(handle, background, |guard| {
        let key = key(guard, name);
        store_parts(guard, &key, (count, bytes, name[0], levels), expire)
    });
}

#[test]
fn all_parts_go_with_their_head_whatever_ends_it() {
    let (store, mut background) = store(64);
    let mut handle = store.handle().unwrap();
    type End = fn(&mut Guard<'_>, &Key<'_>) -> Result<(), OpError>;
    let ends: [(&str, End); 5] = [
        ("deleted", |guard, key| guard.items_mut().delete(key, &Delete::default()).map(drop)),
        ("overwritten", |guard, key| guard.items_mut().put(key, &Put::set(b"short")).map(drop)),
        ("removed", |guard, key| replace(guard, key, Replacement::Remove)),
        ("emptied", |guard, key| {
            guard.items_mut().delete(key, &Delete { drop_value: true, ..Delete::default() }).map(drop)
        }),
        ("replaced", |guard, key| {
            replace(guard, key, Replacement::Typed { kind: 1, bytes: b"flat", parts: None, expire: Expire::Never })
        }),
    ];
    for (name, end) in ends {
        for (count, leaf) in [
            (1, 700),
            (7, 700),
            (100, 700),
            (1, FRAGMENT - 1),
            (3, FRAGMENT),
            (3, FRAGMENT + 1),
            (2, 2 * FRAGMENT),
            (2, 900_000),
            (40, 20_000),
        ] {
            put(&mut handle, &mut background, b"key", count, leaf, Expire::Never);
            assert_eq!(read(&handle.guard(NOW), b"key"), Some(vec![b'k'; count * leaf]));
            let pages = if count > 8 { count.div_ceil(8) } else { 0 };
            // 2 is for the head and the anchor.
            assert_eq!(store.stats().items, 2 + (count * items_of(leaf) + pages) as u64, "{leaf} bytes");
            assert_eq!(store.keys(Namespace::DEFAULT), 1);
            // A change of the expiry keeps the parts.
            until_done(&mut handle, &mut background, |guard| {
                let key = key(guard, b"key");
                guard.items_mut().touch(&key, Expire::At(NOW.plus_ms(100_000_000))).map(drop)
            });
            assert!(read(&handle.guard(NOW), b"key").is_some(), "moved");
            let bytes = {
                let guard = handle.guard(NOW);
                let key = key(&guard, b"key");
                let item = guard.items().get(&key).unwrap();
                let mut sizes = guard.parts().sizes_of(&item).expect("the value has parts");
                while !guard.parts().add_sizes(&key, &mut sizes, 3) {}
                item.stored_bytes + sizes.bytes()
            };
            assert_eq!(store.stats().item_bytes, bytes);
            until_done(&mut handle, &mut background, |guard| {
                let key = key(guard, b"key");
                end(guard, &key)
            });
            // Some parts are removed at once, and the others in the background. None of them counts as a key.
            let left = store.stats().items;
            assert!(left <= 1 || count > 32 && left + 32 >= count as u64, "{name}: {left} of {count} parts");
            assert!(store.keys(Namespace::DEFAULT) <= 1, "{name}");
            settle(&mut background);
            assert!(store.stats().items <= 1, "{name}: {} items", store.stats().items);
            until_done(&mut handle, &mut background, |guard| {
                let key = key(guard, b"key");
                guard.items_mut().delete(&key, &Delete::default())
            });
            assert_eq!((store.stats().items, store.stats().item_bytes), (0, 0), "{name}");
        }
    }
}

/// Runs slices until no deferred free waits.
fn settle(background: &mut Background) {
    for _ in 0..100 {
        slice(background, NOW);
    }
}

#[test]
fn parts_are_removed_after_their_head_expires() {
    let (store, mut background) = store(64);
    let mut handle = store.handle().unwrap();
    put(&mut handle, &mut background, b"key", 50, 900, Expire::At(NOW.plus_ms(1000)));
    put(&mut handle, &mut background, b"long", 3, 50_000, Expire::At(NOW.plus_ms(1000)));
    drop(handle);
    let later = NOW.plus_ms(3_600_000);
    for _ in 0..10_000 {
        slice(&mut background, later);
        if store.stats().items == 0 {
            return;
        }
    }
    panic!("{} items are left", store.stats().items);
}

#[test]
fn failed_publication_of_a_value_removes_its_parts() {
    let (store, mut background) = store(64);
    let mut handle = store.handle().unwrap();
    put(&mut handle, &mut background, b"key", 3, 700, Expire::Never);
    let before = store.stats().items;
    let mut guard = handle.guard(NOW);
    let key = key(&guard, b"key");
    // The part is longer than an item may be.
    let refused = store_parts(&mut guard, &key, (2, 1_200_000, b'x', 1), Expire::Never);
    assert_eq!(refused, Err(OpError::TooLarge));
    // The version is stale at the time of the change.
    let Loaded { version, .. } = guard.items().load(&key, &mut Attempts::default()).expect("no other thread");
    guard.items_mut().touch(&key, Expire::At(NOW.plus_ms(60_000))).expect("no other thread");
    let (head, parts) = value(&guard, 2, 200, b'x', 1);
    let new = Replacement::Typed { kind: KIND, bytes: &head, parts: Some(&parts), expire: Expire::Never };
    assert_eq!(guard.items_mut().replace(&key, &version, new), Ok(Replaced::Stale));
    drop(guard);
    assert_eq!(store.stats().items, before);
    assert_eq!(read(&handle.guard(NOW), b"key"), Some(vec![b'k'; 2100]));
}

/// Stores values in parts and small items of many times the memory's size. Each value that is present is whole, and
/// no part remains of an evicted value.
#[test]
fn a_value_in_parts_is_evicted_whole() {
    let (store, mut background) = store(16);
    let mut handle = store.handle().unwrap();
    let mut prng = Prng::new(5);
    let (mut whole, mut gone, mut broken) = (0, 0, 0);
    for step in 0..3000u64 {
        let name = format!("{}:{}", (b'a' + (step % 26) as u8) as char, step);
        let (count, leaf) = if step % 7 == 0 { (3, 20_000) } else { (1 + prng.below(60) as usize, 700) };
        put(&mut handle, &mut background, name.as_bytes(), count, leaf, Expire::Never);
        // Some recent values are read occasionally, but only their heads.
        let seen = step.saturating_sub(prng.below(1500));
        let name = format!("{}:{}", (b'a' + (seen % 26) as u8) as char, seen);
        let guard = handle.guard(NOW);
        let there = guard.items().get(&key(&guard, name.as_bytes())).is_some();
        match read(&guard, name.as_bytes()) {
            Some(bytes) => {
                assert!(there && bytes.iter().all(|byte| *byte == name.as_bytes()[0]));
                whole += 1;
            }
            None if there => broken += 1,
            None => gone += 1,
        }
        drop(guard);
        slice(&mut background, NOW);
    }
    assert!(whole > 500 && gone > 500, "{whole} whole, {gone} gone");
    // A single part may be displaced from the index. Nothing else may break a value.
    assert!(broken <= store.stats().evicted_by_index, "{broken} broken");
    // All remaining parts are named by heads.
    let mut named = 0;
    for step in 0..3000u64 {
        let name = format!("{}:{}", (b'a' + (step % 26) as u8) as char, step);
        let guard = handle.guard(NOW);
        let key = key(&guard, name.as_bytes());
        let Some(item) = guard.items().get(&key) else { continue };
        let Value::Typed { bytes, .. } = item.value else { panic!("all are typed") };
        let leaves = leaves(&guard, &key, bytes).unwrap_or_default().len();
        let items = leaves * if step % 7 == 0 { items_of(20_000) } else { 1 };
        named += 2 + items + if bytes[8] == 2 { leaves.div_ceil(8) } else { 0 };
    }
    settle(&mut background);
    let items = store.stats().items;
    assert!(items <= named as u64 + 8 * broken, "{items} items, {named} named");
}

/// Readers run during changes. Either all parts that a head names are present, or the head has changed.
#[test]
fn concurrent_reader_sees_the_old_or_the_new_value_never_a_mix() {
    let (store, mut background) = store(64);
    let mut writer = store.handle().unwrap();
    let mut reader = store.handle().unwrap();
    put(&mut writer, &mut background, b"a", 20, 300, Expire::Never);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let reading = scope.spawn(move || {
            let (mut reads, mut overtaken) = (0, 0);
            while !stop.load(std::sync::atomic::Ordering::Relaxed) || reads < 100 {
                let mut guard = reader.guard(NOW);
                match read(&guard, b"a") {
                    Some(bytes) => {
                        assert!(bytes.len() == 6000 && bytes.iter().all(|byte| *byte == bytes[0]), "half of a value");
                        reads += 1;
                    }
                    None => {
                        assert!(guard.parts().take_lost(), "it is always there");
                        let key = key(&guard, b"a");
                        assert!(!matches!(guard.parts_mut().end_broken(&key), Ok(true)), "nothing is lost");
                        overtaken += 1;
                    }
                }
            }
            (reads, overtaken)
        });
        for step in 0..3000u32 {
            until_done(&mut writer, &mut background, |guard| {
                let key = key(guard, b"a");
                store_parts(guard, &key, (20, 300, (step % 251) as u8, 2), Expire::Never)
            });
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let (reads, overtaken) = reading.join().expect("the reader ends");
        println!("{reads} reads, {overtaken} overtaken");
    });
    settle(&mut background);
    assert_eq!(store.stats().items, 2 + 20 + 3);
}

/// A guard removes a bounded number of parts of a long value, whatever its length. The background removes the rest.
#[test]
fn deletion_of_a_long_value_removes_a_bounded_number_of_parts_per_guard() {
    let (store, mut background) = store(64);
    let mut handle = store.handle().unwrap();
    for count in [100, 400, 3000] {
        put(&mut handle, &mut background, b"key", count, 60, Expire::Never);
        let before = store.stats().items;
        until_done(&mut handle, &mut background, |guard| {
            let key = key(guard, b"key");
            guard.items_mut().delete(&key, &Delete::default())
        });
        let removed = before - store.stats().items;
        assert!((1..=33).contains(&removed), "{removed} of {before} items went within the turn");
        assert_eq!(store.keys(Namespace::DEFAULT), 0);
        settle(&mut background);
        assert_eq!((store.stats().items, store.stats().item_bytes), (0, 0));
    }
}

fn rename(handle: &mut ThreadHandle, background: &mut Background, from: &[u8], to: &[u8]) {
    let adopted = until_done(handle, background, |guard| {
        let (from, to) = (key(guard, from), key(guard, to));
        guard.renames().share(&from, &to)
    });
    assert!(adopted);
    let whole = until_done(handle, background, |guard| {
        let (from, to) = (key(guard, from), key(guard, to));
        guard.renames().unshare(&from, &to)
    });
    assert!(whole);
}

#[test]
fn rename_preserves_parts_and_expiry_and_frees_the_old_items() {
    let (store, mut background) = store(64);
    let mut handle = store.handle().unwrap();
    let end = Expire::At(NOW.plus_ms(100_000_000));
    put(&mut handle, &mut background, b"old", 3000, 60, end);
    put(&mut handle, &mut background, b"target", 500, 60, Expire::Never);
    let (items, total) = (store.stats().items, store.stats().items_total);
    let whole = read(&handle.guard(NOW), b"old");
    rename(&mut handle, &mut background, b"old", b"target");
    settle(&mut background);
    // A head and an anchor were written. The target's previous value was removed with its head and its anchor.
    assert_eq!(store.stats().items_total, total + 2);
    assert_eq!(store.stats().items, items - (500 + 63 + 2));
    assert_eq!(store.keys(Namespace::DEFAULT), 1);
    assert_eq!(read(&handle.guard(NOW), b"old"), None);
    assert_eq!(read(&handle.guard(NOW), b"target"), whole);
    // A new value under the old name does not affect the renamed value.
    put(&mut handle, &mut background, b"old", 10, 60, Expire::Never);
    rename(&mut handle, &mut background, b"target", b"other");
    let guard = handle.guard(NOW);
    assert_eq!(read(&guard, b"other"), whole);
    assert_eq!(guard.items().get(&key(&guard, b"other")).unwrap().expire, end);
    assert_eq!(read(&guard, b"old").map(|bytes| bytes.len()), Some(600));
    drop(guard);
    for name in [&b"other"[..], b"old"] {
        until_done(&mut handle, &mut background, |guard| {
            let key = key(guard, name);
            guard.items_mut().delete(&key, &Delete::default())
        });
    }
    settle(&mut background);
    assert_eq!((store.stats().items, store.stats().item_bytes), (0, 0));
}

/// The background finds the head of a part through the anchor of its object, even after the key was renamed.
#[test]
fn a_renamed_value_is_evicted_whole() {
    let (store, mut background) = store(16);
    let mut handle = store.handle().unwrap();
    let name = |step: u64| format!("{}:{step}", (b'a' + (step % 26) as u8) as char);
    for step in 0..2000u64 {
        let name = name(step);
        let first = format!("{name}:first");
        put(&mut handle, &mut background, first.as_bytes(), 1 + step as usize % 50, 700, Expire::Never);
        // Memory may be so short that the value was already evicted.
        let adopted = until_done(&mut handle, &mut background, |guard| {
            let (from, to) = (key(guard, first.as_bytes()), key(guard, name.as_bytes()));
            guard.renames().share(&from, &to)
        });
        if adopted {
            until_done(&mut handle, &mut background, |guard| {
                let (from, to) = (key(guard, first.as_bytes()), key(guard, name.as_bytes()));
                guard.renames().unshare(&from, &to)
            });
        }
        slice(&mut background, NOW);
    }
    let (mut whole, mut gone, mut broken) = (0, 0, 0);
    let mut named = 0;
    for step in 0..2000u64 {
        let guard = handle.guard(NOW);
        let name = name(step);
        match (guard.items().get(&key(&guard, name.as_bytes())).is_some(), read(&guard, name.as_bytes())) {
            (true, Some(bytes)) => {
                let count = 1 + step as usize % 50;
                assert!(bytes.len() == count * 700 && bytes.iter().all(|byte| *byte == name.as_bytes()[0]));
                named += 2 + count + if count > 8 { count.div_ceil(8) } else { 0 };
                whole += 1;
            }
            (true, None) => broken += 1,
            (false, _) => gone += 1,
        }
    }
    assert!(whole > 100 && gone > 100, "{whole} whole, {gone} gone");
    assert!(broken <= store.stats().evicted_by_index, "{broken} broken");
    settle(&mut background);
    let items = store.stats().items;
    assert!(items <= named as u64 + 60 * broken, "{items} items, {named} named");
}

#[test]
fn copy_spans_many_guards_and_an_aborted_copy_removes_its_items() {
    for (count, leaf) in [(5, 60), (3000, 60), (10, 3 * FRAGMENT)] {
        let (store, mut background) = store(64);
        let mut handle = store.handle().unwrap();
        put(&mut handle, &mut background, b"from", count, leaf, Expire::Never);
        let items = store.stats().items;
        for stops_at in [None, Some(count / 2), Some(0)] {
            let mut copy = {
                let guard = handle.guard(NOW);
                let keys = (key(&guard, b"from"), key(&guard, b"to"));
                guard.parts().begin_copy(&keys.0, &keys.1).expect("it is there")
            };
            let mut steps = 0;
            let done = loop {
                if stops_at == Some(steps) {
                    break false;
                }
                let step = until_done(&mut handle, &mut background, |guard| {
                    let (from, to) = (key(guard, b"from"), key(guard, b"to"));
                    guard.renames().copy_part(&from, &to, &mut copy)
                });
                steps += 1;
                match step {
                    CopyStep::More => {}
                    CopyStep::All => break true,
                    CopyStep::Lost => panic!("it is there"),
                }
                assert!(read(&handle.guard(NOW), b"to").is_none(), "half of a copy was seen");
            };
            if done {
                let whole = until_done(&mut handle, &mut background, |guard| {
                    let (from, to) = (key(guard, b"from"), key(guard, b"to"));
                    guard.renames().finish_copy(&from, &to, &copy)
                });
                let guard = handle.guard(NOW);
                assert!(whole && read(&guard, b"to") == read(&guard, b"from"));
                drop(guard);
                assert_eq!(store.stats().items, 2 * items);
                let mut guard = handle.guard(NOW);
                let key = key(&guard, b"to");
                guard.items_mut().delete(&key, &Delete::default()).expect("its lock is free");
            } else {
                let mut guard = handle.guard(NOW);
                let key = key(&guard, b"to");
                guard.renames().abort_copy(&key, &copy);
            }
            settle(&mut background);
            assert_eq!(store.stats().items, items, "{count} leaves, stopped at {stops_at:?}");
        }
        // A flush during the copy ends the copied parts and the value.
        let mut copy = {
            let guard = handle.guard(NOW);
            let keys = (key(&guard, b"from"), key(&guard, b"to"));
            guard.parts().begin_copy(&keys.0, &keys.1).expect("it is there")
        };
        let mut guard = handle.guard(NOW);
        let (from, to) = (key(&guard, b"from"), key(&guard, b"to"));
        assert_eq!(guard.renames().copy_part(&from, &to, &mut copy), Ok(CopyStep::More));
        guard.items_mut().flush(Namespace::DEFAULT).expect("no slice runs");
        assert_eq!(guard.renames().copy_part(&from, &to, &mut copy), Ok(CopyStep::Lost));
        assert_eq!(guard.renames().finish_copy(&from, &to, &copy), Ok(false));
        guard.renames().abort_copy(&to, &copy);
        assert_eq!(store.keys(Namespace::DEFAULT), 0);
    }
}

#[test]
fn key_count_excludes_pieces_parts_and_flushed_items() {
    let (store, mut background) = store(64);
    let mut handle = store.handle().unwrap();
    let spaces = [Namespace::DEFAULT, Namespace(3)];
    let fill = |handle: &mut ThreadHandle, background: &mut Background, space: Namespace, round: u32| {
        for number in 0..50 {
            until_done(handle, background, |guard| {
                let name = format!("plain:{round}:{number}");
                let key = guard.key(space, name.as_bytes());
                guard.items_mut().put(&key, &Put::set(b"value"))
            });
        }
        until_done(handle, background, |guard| {
            let key = guard.key(space, b"long");
            guard.items_mut().put(&key, &Put::set(&vec![b'x'; 700_000]))
        });
        until_done(handle, background, |guard| {
            let key = guard.key(space, b"parts");
            store_parts(guard, &key, (100, 60, b'x', 2), Expire::Never)
        });
    };
    for space in spaces {
        fill(&mut handle, &mut background, space, 0);
    }
    assert!(store.stats().items > 250, "pieces and parts are items");
    assert_eq!(spaces.map(|space| store.keys(space)), [52, 52]);
    // The count is exact at once, however long the background takes to remove the rest, and while new items are stored.
    handle.guard(NOW).items_mut().flush(spaces[0]).expect("no slice runs");
    assert_eq!(spaces.map(|space| store.keys(space)), [0, 52]);
    fill(&mut handle, &mut background, spaces[0], 1);
    assert_eq!(spaces.map(|space| store.keys(space)), [52, 52]);
    handle.tidy(NOW);
    for _ in 0..300 {
        slice(&mut background, NOW);
        assert_eq!(spaces.map(|space| store.keys(space)), [52, 52]);
    }
    assert!(store.stats().flushed > 50, "{} were removed by now", store.stats().flushed);
}
