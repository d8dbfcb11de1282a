//! Tests of the use of memory: the index grows with the number of items, small items have little overhead, and widely
//! spread TTLs waste little memory.
#![cfg(not(shuttle))]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use base::clock::UnixMillis;
use base::prng::Prng;
use gannet_segment::{
    Background, Delete, Evicted, EvictionObserver, Expire, Namespace, OpError, Put, PutMode, PutOutcome, Store,
    StoreConfig, StoreStats, ThreadHandle, Value,
};

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

fn store(memory_bytes: u64, handles_max: usize) -> (Arc<Store>, Background) {
    store_of(memory_bytes, handles_max, None)
}

fn store_of(memory_bytes: u64, handles_max: usize, segment_bytes: Option<u32>) -> (Arc<Store>, Background) {
    let config = StoreConfig {
        memory_bytes,
        memory_bytes_max: 0,
        segment_bytes,
        item_bytes_max: 1 << 20,
        handles_max,
        hash_seed: 3,
        huge_pages: false,
    };
    Store::new(&config, NOW).expect("store")
}

fn slice(background: &mut Background, now: UnixMillis) {
    let mut asked = 0;
    background.slice(now, &mut || {
        asked += 1;
        asked > 20
    });
}

/// Stores one item, and runs slices while the put is parked.
fn put_as(
    handle: &mut ThreadHandle,
    background: &mut Background,
    now: UnixMillis,
    key: &[u8],
    put: &Put<'_>,
) -> Result<PutOutcome, OpError> {
    for _ in 0..SLICES_MAX {
        let mut guard = handle.guard(now);
        let k = guard.key(Namespace::DEFAULT, key);
        match guard.items_mut().put(&k, put) {
            Err(OpError::Parked) => {
                drop(guard);
                slice(background, now);
            }
            end => return end,
        }
    }
    panic!("a put of {} bytes is parked for ever", put.value.len());
}

/// The number of slices after which a put that is still parked fails the test.
const SLICES_MAX: usize = 100_000;

fn put(
    handle: &mut ThreadHandle,
    background: &mut Background,
    now: UnixMillis,
    key: &[u8],
    value: &[u8],
    expire: Expire,
) {
    put_as(handle, background, now, key, &Put { expire, ..Put::set(value) }).expect("put");
}

/// Fills a store until an item is evicted. Returns the stats just before that.
fn fill(memory_bytes: u64, key_len: usize, value_len: usize, expire: Expire) -> (StoreStats, u64) {
    let (store, mut background) = store(memory_bytes, 1);
    let mut handle = store.handle().expect("handle");
    let value = vec![b'v'; value_len];
    let mut last = store.stats();
    let mut stored = 0u64;
    loop {
        for _ in 0..500 {
            let key = format!("{stored:0key_len$}");
            put(&mut handle, &mut background, NOW, key.as_bytes(), &value, expire);
            stored += 1;
        }
        // Runs at most one slice for 500 puts, like a background that shares its CPU with the worker.
        if store.needs_background() {
            slice(&mut background, NOW);
        }
        let stats = store.stats();
        if stats.evicted > 0 {
            return (last, stored);
        }
        last = stats;
    }
}

#[test]
fn nothing_is_evicted_before_the_memory_is_full() {
    for (key_len, value_len) in [(16, 64), (24, 200), (40, 1000), (8, 1)] {
        let (full, _) = fill(32 << 20, key_len, value_len, Expire::Never);
        let segments: u64 = full.segments.iter().sum();
        let used = segments - full.segments[0];
        assert!(used * 100 >= segments * 95, "({key_len}, {value_len}): {used} of {segments} segments used: {full:?}");
        assert_eq!(full.evicted_by_index, 0);
    }
}

#[test]
fn a_small_item_costs_at_most_sixteen_bytes_beyond_key_and_value_and_twenty_with_a_ttl() {
    let day = Expire::At(NOW.plus_ms(86_400_000));
    for (key_len, value_len) in [(16, 64), (24, 200), (40, 1000)] {
        for (expire, most) in [(Expire::Never, 16.0), (day, 20.0)] {
            let (full, _) = fill(32 << 20, key_len, value_len, expire);
            let bytes = (full.item_bytes + full.index_bytes) as f64 / full.items as f64;
            let beyond = bytes - (key_len + value_len) as f64;
            println!("({key_len}, {value_len}) {expire:?}: {beyond:.1} bytes beyond key and value");
            assert!(beyond <= most, "({key_len}, {value_len}) {expire:?}: {beyond:.2} bytes: {full:?}");
        }
    }
}

/// One namespace, two handles, TTLs from a second to a year, 64 MiB: the waste in partly filled open segments is
/// bounded.
#[test]
fn wide_ttls_waste_at_most_a_tenth_in_part_filled_segments() {
    let (store, mut background) = store(64 << 20, 2);
    let mut handles = [store.handle().expect("handle"), store.handle().expect("handle")];
    let mut prng = Prng::new(11);
    let (mut now, mut worst, mut full) = (NOW, 0.0f64, 0);
    let mut value = [0; 1000];
    for round in 0..400_000u64 {
        let ttl_ms = 1000u64 << prng.below(26);
        let key = format!("key-{}", prng.below(400_000));
        prng.fill(&mut value[..8]);
        let len = 200 + prng.below(800) as usize;
        let handle = &mut handles[(round % 2) as usize];
        put(handle, &mut background, now, key.as_bytes(), &value[..len], Expire::At(now.plus_ms(ttl_ms)));
        if round % 16 == 0 {
            now = now.plus_ms(5);
            slice(&mut background, now);
        }
        if round % 5000 == 0 && store.needs_background() {
            let stats = store.stats();
            let open_bytes = stats.segments[1] * stats.segment_bytes;
            worst = worst.max(open_bytes as f64 / stats.memory_bytes as f64);
            full += 1;
        }
    }
    assert!(full > 5, "the memory was full when it was looked at");
    assert!(worst <= 0.10, "open segments are {:.1} % of the memory", worst * 100.0);
}

/// Puts of whole large values in a store that has room for few of them. Each put needs more free segments at once than
/// the background keeps free for small items.
#[test]
fn a_large_put_in_a_tight_store_is_not_parked_for_ever() {
    let (store, mut background) = store(4 << 20, 1);
    let mut handle = store.handle().expect("handle");
    for round in 0..300u64 {
        let value = vec![round as u8; 100_000 + 900 * round as usize];
        let key = format!("large-{round}");
        put(&mut handle, &mut background, NOW, key.as_bytes(), &value, Expire::Never);
    }
    assert!(store.stats().evicted > 0, "the store was full");
}

/// Appends to large values in a store so small that the values often lose pieces: an append joins, or finds no value. A
/// reader that never releases its pins may prevent the reuse of segments, but writers must not wait for it. The reader
/// could itself be waiting for such a writer.
#[test]
fn writers_do_not_wait_for_evicted_segments_that_are_pinned() {
    let (store, mut background) = store(4 << 20, 1);
    let mut handle = store.handle().expect("handle");
    let value = |n: usize| [&n.to_le_bytes()[..], &[b'v'; 992]].concat();
    let name = |n: usize| format!("key-{n}");
    for n in 0..2000 {
        put(&mut handle, &mut background, NOW, name(n).as_bytes(), &value(n), Expire::Never);
    }
    let guard = handle.guard(NOW);
    let mut pins = Vec::new();
    for n in (0..1200).step_by(50) {
        let key = name(n);
        let item = guard.items().get(&guard.key(Namespace::DEFAULT, key.as_bytes())).expect("nothing was evicted yet");
        let Value::Bytes(bytes) = item.value else { panic!("it is stored whole") };
        pins.push((n, store.pin(bytes)));
    }
    drop(guard);
    for n in 2000..20_000 {
        put(&mut handle, &mut background, NOW, name(n).as_bytes(), &value(n), Expire::Never);
    }
    let stats = store.stats();
    let quarantine =
        stats.segments[gannet_segment::SEGMENT_STATES.iter().position(|state| *state == "quarantine").expect("one")];
    assert!(stats.evicted > 10_000 && quarantine >= 12, "no pinned segment was evicted: {stats:?}");
    for (n, pin) in pins {
        assert_eq!(store.pinned_bytes(&pin, 0), value(n), "what is pinned stays");
        store.unpin(pin);
    }
}

#[test]
fn a_large_value_is_evicted_whole_and_an_append_to_it_ends() {
    let (store, mut background) = store(4 << 20, 1);
    let mut handle = store.handle().expect("handle");
    let mut prng = Prng::new(5);
    let (mut joined, mut missed) = (0, 0);
    for round in 0..2000u64 {
        let key = format!("large-{}", prng.below(60));
        if prng.below(3) == 0 {
            put(&mut handle, &mut background, NOW, key.as_bytes(), &[round as u8; 100_000], Expire::Never);
            continue;
        }
        let mode = if round % 2 == 0 { PutMode::Append } else { PutMode::Prepend };
        let part = Put { mode, ..Put::set(b"and a little more") };
        match put_as(&mut handle, &mut background, NOW, key.as_bytes(), &part).expect("append") {
            PutOutcome::Stored { .. } => joined += 1,
            PutOutcome::NotStored => missed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(joined > 100 && missed > 100, "{joined} joined, {missed} missed");
    // A single piece may be displaced from the index. Nothing else may break a value.
    let stats = store.stats();
    assert!(stats.large_broken <= stats.evicted_by_index, "{stats:?}");
    let mut held = 0;
    for number in 0..60 {
        let guard = handle.guard(NOW);
        let name = format!("large-{number}");
        held += match guard.items().get(&guard.key(Namespace::DEFAULT, name.as_bytes())).map(|item| item.value) {
            Some(Value::Large(large)) => large.bytes,
            _ => 0,
        };
    }
    for _ in 0..1000 {
        background.slice(NOW, &mut || false);
    }
    let used = store.stats().item_bytes;
    assert!(used < held + held / 8 + 100_000, "{used} bytes are used, but the values have {held}: pieces remain");
}

/// A long value that arrives in pieces is appended to each kind of item and to none, with and without the rule that
/// creates a missing item. Its pieces must not remain beside the joined value.
#[test]
fn pieces_of_an_appended_value_are_freed_whether_or_not_they_are_joined() {
    let (store, mut background) = store(8 << 20, 1);
    let mut handle = store.handle().expect("handle");
    let (part, name) = (vec![b'p'; 100_000], b"appended");
    let olds = [None, Some(&b""[..]), Some(b"short"), Some(b"12"), Some(&part[..])];
    for round in 0..40 {
        let mode = if round % 2 == 0 { PutMode::Append } else { PutMode::Prepend };
        for (old, vivify) in olds.iter().flat_map(|old| [(old, None), (old, Some(Expire::Never))]) {
            if let Some(old) = old {
                put(&mut handle, &mut background, NOW, name, old, Expire::Never);
            }
            let mut guard = handle.guard(NOW);
            let key = guard.key(Namespace::DEFAULT, name);
            let mut writer = guard.large().begin(&key, part.len() as u64, Expire::Never).expect("room");
            for piece in part.chunks(guard.sizes().piece_bytes_max()) {
                while let Err(error) = guard.large().write_piece(&mut writer, piece) {
                    assert_eq!(error, OpError::Parked);
                    drop(guard);
                    background.slice(NOW, &mut || false);
                    guard = handle.guard(NOW);
                }
            }
            drop(guard);
            let request = Put { mode, vivify, ..Put::set(b"") };
            let result = loop {
                let mut guard = handle.guard(NOW);
                let key = guard.key(Namespace::DEFAULT, name);
                match guard.large().commit(writer, &key, &request) {
                    Err((back, OpError::Parked)) => writer = back,
                    result => break result.map_err(|(_, error)| error),
                }
                drop(guard);
                background.slice(NOW, &mut || false);
            };
            let stored = match result.expect("room") {
                PutOutcome::Stored { bytes, .. } => Some(bytes as usize),
                _ => None,
            };
            let wanted = (old.is_some() || vivify.is_some()).then(|| old.map_or(0, <[u8]>::len) + part.len());
            assert_eq!(stored, wanted, "{mode:?} {vivify:?}");
            let mut guard = handle.guard(NOW);
            let key = guard.key(Namespace::DEFAULT, name);
            assert_eq!(guard.items().get(&key).map(|item| item.value_len() as usize), wanted);
            guard.items_mut().delete(&key, &Delete::default()).expect("the item is deleted");
        }
    }
    for _ in 0..1000 {
        background.slice(NOW, &mut || false);
    }
    let stats = store.stats();
    assert!(stats.item_bytes < 50_000 && stats.evicted == 0, "pieces remain: {stats:?}");
}

/// Large values of several lengths are stored and read in a store that holds few of them. A value that was read
/// survives others that were not, whatever its length.
#[test]
fn a_read_large_value_survives_unread_ones() {
    let (store, mut background) = store(16 << 20, 1);
    let mut handle = store.handle().expect("handle");
    let fill = |handle: &mut ThreadHandle, background: &mut Background, kind: &str| {
        for number in 0..400 {
            let value = vec![b'v'; 60_000 + 100 * number];
            put(handle, background, NOW, format!("{kind}-{number}").as_bytes(), &value, Expire::Never);
        }
    };
    // Items that fill an empty memory are not judged before they enter the main queue.
    fill(&mut handle, &mut background, "filler");
    let names: Vec<String> = (0..10).map(|number| format!("read-{number}")).collect();
    let is_there = |handle: &mut ThreadHandle, name: &str| {
        let guard = handle.guard(NOW);
        guard.items().get(&guard.key(Namespace::DEFAULT, name.as_bytes())).is_some()
    };
    for name in &names {
        put(&mut handle, &mut background, NOW, name.as_bytes(), &[b'r'; 80_000], Expire::Never);
        assert!(is_there(&mut handle, name));
    }
    fill(&mut handle, &mut background, "noise");
    let held = names.iter().filter(|name| is_there(&mut handle, name)).count();
    assert_eq!(held, names.len(), "{:?}", store.stats());
}

/// A value just below an eighth of a segment would leave up to a tenth of each segment unused. The reserve and the open
/// segments take little of a small memory, however many handles there are.
#[test]
fn values_fill_a_full_memory_whatever_their_length() {
    let cases = [(96, 256, 30_000, 945), (96, 256, 17_000, 945), (16, 64, 10_000, 910), (16, 64, 3_000, 920)];
    for (mib, segment_kib, bytes, permille) in cases {
        let (store, mut background) = store_of(mib << 20, 5, Some(segment_kib << 10));
        let mut handle = store.handle().expect("handle");
        let value = vec![b'v'; bytes];
        let count = (mib << 20) * 3 / 2 / bytes as u64;
        for number in 0..count {
            put(&mut handle, &mut background, NOW, format!("{number:016}").as_bytes(), &value, Expire::Never);
            slice(&mut background, NOW);
        }
        let payload = store.stats().items * (bytes as u64 + 16);
        let least = (mib << 20) * permille / 1000;
        assert!(payload >= least, "{bytes} bytes in {mib} MiB: {payload} bytes of {least}: {:?}", store.stats());
    }
}

/// An observer that records the evictions reported to it while it is on.
#[derive(Debug, Default)]
struct Witness {
    on: AtomicBool,
    /// For each eviction: the key, whether the item was fetched, and whether it has an expiry.
    seen: Mutex<Vec<(String, bool, bool)>>,
}

#[derive(Debug)]
struct Watching(Arc<Witness>);

impl EvictionObserver for Watching {
    fn wanted(&self) -> bool {
        self.0.on.load(Relaxed)
    }

    fn evicted(&mut self, evicted: &Evicted<'_>) {
        let key = String::from_utf8(evicted.item.key.to_vec()).expect("the key");
        let expires = evicted.item.expire != Expire::Never;
        self.0.seen.lock().expect("seen").push((key, evicted.item.fetched, expires));
    }
}

/// One in four items is read, and one in two has a TTL. The observer and the counters must report the same numbers.
#[test]
fn observer_receives_every_eviction_and_the_counters_agree() {
    let (store, mut background) = store(4 << 20, 1);
    let mut handle = store.handle().expect("handle");
    let witness = Arc::new(Witness::default());
    background.observe(Box::new(Watching(Arc::clone(&witness))));
    let store_many = |handle: &mut ThreadHandle, background: &mut Background, from: u64| {
        for number in from..from + 20_000 {
            let key = format!("key-{number}");
            let expire = if number % 2 == 0 { Expire::Never } else { Expire::At(NOW.plus_ms(86_400_000)) };
            put(handle, background, NOW, key.as_bytes(), &[b'v'; 300], expire);
            if number % 4 == 0 {
                let guard = handle.guard(NOW);
                let key = guard.key(Namespace::DEFAULT, key.as_bytes());
                assert!(guard.items().get(&key).is_some());
            }
        }
    };
    store_many(&mut handle, &mut background, 0);
    let before = store.stats();
    assert!(before.evicted > 1000 && witness.seen.lock().expect("seen").is_empty(), "nobody listened");
    witness.on.store(true, Relaxed);
    for round in 1..5 {
        store_many(&mut handle, &mut background, round * 20_000);
    }
    let (after, seen) = (store.stats(), witness.seen.lock().expect("seen"));
    let count = |of: fn(&(String, bool, bool)) -> bool| seen.iter().filter(|s| of(s)).count() as u64;
    assert_eq!(count(|_| true) + after.evicted_by_index, after.evicted - before.evicted);
    assert_eq!(count(|s| !s.1), after.evicted_unread - before.evicted_unread);
    assert_eq!(count(|s| s.2), after.evicted_with_ttl - before.evicted_with_ttl);
    assert!(count(|s| s.1) > 100, "some were read and evicted all the same, when the main queue had become full");
    for (key, fetched, expires) in seen.iter() {
        let number: u64 = key["key-".len()..].parse().expect("number");
        assert_eq!((*fetched, *expires), (number.is_multiple_of(4), number % 2 == 1), "{key}");
    }
    assert!(after.oldest.is_some_and(|oldest| NOW.ms_since(oldest) <= 1000), "{:?}", after.oldest);
}

/// Deletes and overwrites half, three quarters and nearly all of the memory, with one slice for sixteen changes. The
/// dead bytes exceed a fifth of the segments only for short times, and are below a fifth when the changes end.
#[test]
fn dead_bytes_stay_under_a_fifth_whatever_is_deleted_and_overwritten() {
    const CHANGES: u64 = 300_000;
    for (live_percent, delete_one_in) in [(45, u64::MAX), (70, u64::MAX), (60, 3), (25, 2), (12, u64::MAX)] {
        let (store, mut background) = store(16 << 20, 1);
        let mut handle = store.handle().expect("handle");
        let mut prng = Prng::new(live_percent);
        let keys = (16 << 20) / 100 * live_percent / 330;
        let (mut over, mut over_longest) = (0, 0);
        let dead_percent = || {
            let stats = store.stats();
            stats.dead_bytes * 100 / (stats.segments.iter().sum::<u64>() * stats.segment_bytes)
        };
        for change in 0..CHANGES {
            let key = format!("key-{:06}", prng.below(keys));
            if prng.below(delete_one_in) == 0 {
                let mut guard = handle.guard(NOW);
                let key = guard.key(Namespace::DEFAULT, key.as_bytes());
                while guard.items_mut().delete(&key, &Delete::default()) == Err(OpError::Parked) {}
            } else {
                put(&mut handle, &mut background, NOW, key.as_bytes(), &[b'v'; 300], Expire::Never);
            }
            if change % 16 == 0 {
                slice(&mut background, NOW);
            }
            if change % 256 == 0 {
                over = if dead_percent() > 20 { over + 256 } else { 0 };
                over_longest = over_longest.max(over);
            }
        }
        for _ in 0..SLICES_MAX {
            slice(&mut background, NOW);
        }
        let stats = store.stats();
        println!(
            "{live_percent} % live, delete one in {delete_one_in}: over a fifth for {over_longest} changes, \
            {} % dead at the end, {} relocated, {} evicted",
            dead_percent(),
            stats.relocated,
            stats.evicted
        );
        assert!(dead_percent() <= 20 && over_longest <= CHANGES / 10);
    }
}

#[test]
fn full_store_without_eviction_loses_no_item_and_reuses_deleted_space() {
    let (store, mut background) = store(32 << 20, 2);
    store.set_eviction(Namespace::DEFAULT, false);
    let mut handle = store.handle().expect("handle");
    let value = [7; 500];
    let mut stored = 0u32;
    // After the gate closes, the store itself refuses puts when the rest of the last segments is full.
    let (mut gated, mut refused) = (false, 0);
    while refused < 100 {
        gated |= !store.has_room(Namespace::DEFAULT, value.len() as u64);
        let put = Put::set(&value);
        match put_as(&mut handle, &mut background, NOW, &stored.to_le_bytes(), &put) {
            Ok(_) => stored += 1,
            Err(OpError::OutOfMemory) => refused += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(gated && stored > 50_000, "{stored} items");
    for _ in 0..1000 {
        slice(&mut background, NOW);
    }
    let stats = store.stats();
    assert_eq!((stats.evicted, stats.items), (0, u64::from(stored)));
    {
        let guard = handle.guard(NOW);
        let there = |number: &u32| guard.items().peek(&guard.key(Namespace::DEFAULT, &number.to_le_bytes())).is_some();
        assert!((0..stored).all(|number| there(&number)), "every item is still there");
    }
    // Deletes a tenth of the items, evenly spread. A store that may evict would not compact segments for so little.
    for number in (0..stored).step_by(10) {
        let mut guard = handle.guard(NOW);
        let name = number.to_le_bytes();
        let key = guard.key(Namespace::DEFAULT, &name);
        while guard.items_mut().delete(&key, &Delete::default()).is_err() {}
    }
    for _ in 0..SLICES_MAX {
        slice(&mut background, NOW);
        if store.has_room(Namespace::DEFAULT, 0) {
            break;
        }
    }
    assert!(store.has_room(Namespace::DEFAULT, value.len() as u64), "what was deleted is had again");
    assert_eq!(store.stats().evicted, 0);
}

/// Stores an item as a server does: checks for room first, and repeats a parked put after a slice.
fn gated_put(
    (store, handle, background): (&Store, &mut ThreadHandle, &mut Background),
    now: UnixMillis,
    key: &[u8],
    put: &Put<'_>,
) -> Result<(), OpError> {
    for _ in 0..SLICES_MAX {
        let bytes = put.value.len() as u64;
        match store.check_room(Namespace::DEFAULT, bytes).and_then(|()| put_as(handle, background, now, key, put)) {
            Err(OpError::Parked) => slice(background, now),
            end => return end.map(drop),
        }
    }
    panic!("a put of {} bytes waits for room for ever", put.value.len());
}

/// Regression: writers that were faster than the background received out-of-memory errors although only a tenth of the
/// memory was live.
#[test]
fn without_eviction_writers_wait_for_the_space_of_overwritten_items() {
    let (store, mut background) = store(32 << 20, 2);
    store.set_eviction(Namespace::DEFAULT, false);
    let mut handle = store.handle().expect("handle");
    let mut prng = Prng::new(5);
    let mut all = 0;
    // First whole segments die at once, then a part of the items in each segment.
    for kept in [0, 1, 3] {
        for number in 0..200_000 / (kept + 1) {
            let bytes = 1 + prng.below(4000) as usize;
            let key = if prng.below(4) < kept { prng.below(2000) } else { 100_000 + number % 50 };
            let value = vec![b'v'; bytes];
            let held = (&*store, &mut handle, &mut background);
            gated_put(held, NOW, &key.to_le_bytes(), &Put::set(&value)).expect("most of the memory is dead");
            all += bytes;
        }
    }
    assert!(all > 10 * (32 << 20) && store.stats().evicted == 0, "{all} bytes, {:?}", store.stats());
}

/// A put that is refused is refused at once, or after the background has scanned all segments twice.
#[test]
fn without_eviction_a_full_store_refuses_writes_until_it_is_flushed() {
    let (store, mut background) = store(32 << 20, 2);
    store.set_eviction(Namespace::DEFAULT, false);
    let mut handle = store.handle().expect("handle");
    let value = [7; 500];
    for round in 0..3u32 {
        let mut stored = 0u32;
        let refused = loop {
            let held = (&*store, &mut handle, &mut background);
            let key = [round.to_le_bytes(), stored.to_le_bytes()].concat();
            match gated_put(held, NOW, &key, &Put::set(&value)) {
                Ok(()) => stored += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, OpError::OutOfMemory);
        assert!(stored > 40_000, "round {round}: {stored} items");
        let slices = store.stats().slices;
        for _ in 0..100 {
            assert_eq!(store.check_room(Namespace::DEFAULT, 500), Err(OpError::OutOfMemory), "and says so again");
        }
        assert_eq!(store.stats().slices, slices);
        store.flush(Namespace::DEFAULT);
    }
}

/// Fills a store with items that leave unused bytes at the end of each segment. Compaction leaves as many, so it frees
/// nothing, however long it lasts.
#[test]
fn without_eviction_compaction_that_frees_nothing_does_not_delay_a_refusal() {
    for bytes in [7_300, 6_900, 4_800] {
        let (store, mut background) = store_of(16 << 20, 2, Some(64 << 10));
        store.set_eviction(Namespace::DEFAULT, false);
        let mut handle = store.handle().expect("handle");
        let value = vec![b'v'; bytes];
        let mut stored = 0u32;
        let refused = loop {
            let held = (&*store, &mut handle, &mut background);
            match gated_put(held, NOW, &stored.to_le_bytes(), &Put::set(&value)) {
                Ok(()) => stored += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused, OpError::OutOfMemory);
        let (slices, held) = (store.stats().slices, store.stats().item_bytes);
        assert!(slices < 5_000, "values of {bytes} bytes: {slices} slices until the first refusal");
        for length in [bytes, 400_000] {
            let value = vec![b'w'; length];
            let held = (&*store, &mut handle, &mut background);
            assert_eq!(
                gated_put(held, NOW, b"another", &Put::set(&value)),
                Err(OpError::OutOfMemory),
                "{length} bytes"
            );
        }
        assert_eq!((store.stats().evicted, store.stats().item_bytes), (0, held));
    }
}

/// Fills a store without eviction with items of this time to live each, which the item's number selects, and returns
/// their number.
fn fill_without_eviction(
    (store, handle, background): (&Store, &mut ThreadHandle, &mut Background),
    ttl_ms: impl Fn(u32) -> u64,
) -> u32 {
    let value = [7; 500];
    for number in 0.. {
        let expire = Expire::At(NOW.plus_ms(ttl_ms(number)));
        let put = Put { expire, ..Put::set(&value) };
        if gated_put((store, handle, background), NOW, &number.to_le_bytes(), &put).is_err() {
            return number;
        }
    }
    unreachable!("a store of bounded size is full some time")
}

/// Stores a fifth of `count` other items at `now`, and panics if one is refused.
fn refill(
    (store, handle, background): (&Store, &mut ThreadHandle, &mut Background),
    now: UnixMillis,
    (count, why): (u32, &str),
) {
    for number in 0..count / 5 {
        let name = [b"new", &number.to_le_bytes()[..]].concat();
        let put = gated_put((store, handle, background), now, &name, &Put::set(&[8; 500]));
        assert_eq!(put, Ok(()), "{why}: item {number} of {count}");
    }
}

/// Regression: a segment was freed only when the last of its items had ended by the times to live that they were stored
/// with, so a full store refused writes for up to a hundred days although all of its items had expired.
#[test]
fn without_eviction_the_space_of_expired_items_is_used_again_although_their_segments_live_on() {
    const DAY_MS: u64 = 86_400_000;
    for (why, ttl_ms, shortens) in [
        ("times that were shortened", (|_| 2 * DAY_MS) as fn(u32) -> u64, true),
        ("one item of ten lives longer", |number| if number % 10 == 0 { 31_000 } else { 17_000 }, false),
    ] {
        let (store, mut background) = store(32 << 20, 2);
        store.set_eviction(Namespace::DEFAULT, false);
        let mut handle = store.handle().expect("handle");
        let count = fill_without_eviction((&store, &mut handle, &mut background), ttl_ms);
        assert!(count > 40_000, "{count} items");
        if shortens {
            for number in 0..count {
                let mut guard = handle.guard(NOW);
                let name = number.to_le_bytes();
                let key = guard.key(Namespace::DEFAULT, &name);
                guard.items_mut().touch(&key, Expire::At(NOW.plus_ms(500))).expect("it changes in place");
            }
        }
        let mut now = NOW.plus_ms(if shortens { 1_000 } else { 18_000 });
        for _ in 0..400 {
            now = now.plus_ms(10);
            slice(&mut background, now);
        }
        refill((&store, &mut handle, &mut background), now, (count, why));
        assert_eq!(store.stats().evicted, 0);
    }
}
