//! Stress tests with real threads. Every read is verified while eviction, expiry, compaction, growth and flush run.
//!
//! Every value contains its key, a version and a checksum, so a read of reused, torn or misplaced bytes is detected.
#![cfg(not(shuttle))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use base::clock::UnixMillis;
use base::prng::{Prng, split_mix};
use gannet_segment::{
    Arith, ArithOutcome, Background, Delete, Expire, Guard, Key, Namespace, OpError, Pinned, Put, PutMode, PutOutcome,
    Store, StoreConfig, ThreadHandle, Value,
};

fn seed() -> u64 {
    let seed = match std::env::var("GANNET_SEED") {
        Ok(seed) => seed.parse().expect("GANNET_SEED is a number"),
        Err(_) => 42,
    };
    println!("repeat: GANNET_SEED={seed} cargo test -p gannet-segment --test stress");
    seed
}

/// Creates a store with one more handle than `handles_max`, with which the test examines the store afterwards.
fn store(memory_bytes: u64, segment_bytes: u32, handles_max: usize) -> (Arc<Store>, Background) {
    let config = StoreConfig {
        memory_bytes,
        memory_bytes_max: 4 * memory_bytes,
        segment_bytes: Some(segment_bytes),
        item_bytes_max: 60_000,
        handles_max: handles_max + 1,
        hash_seed: 7,
        huge_pages: false,
    };
    Store::new(&config, UnixMillis::now()).expect("store")
}

/// Drives the background as the server does, until `stop` is set.
fn drive(mut background: Background, stop: &AtomicBool) -> u64 {
    let mut slices = 0;
    while !stop.load(Relaxed) {
        let begun = Instant::now();
        let report = background.slice(UnixMillis::now(), &mut || begun.elapsed().as_micros() > 200);
        slices += 1;
        if !report.more {
            std::thread::yield_now();
        }
    }
    slices
}

/// Runs `work` on `count` threads, each with its number and a handle, while another thread drives the background. The
/// background continues until all threads have ended, even if one of them panics, so that the others can complete.
fn beside_the_background(
    store: &Arc<Store>,
    background: Background,
    count: u64,
    work: impl Fn(u64, ThreadHandle) + Sync,
) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let background = scope.spawn(|| drive(background, &stop));
        let start = |number| {
            let (handle, work) = (store.handle().expect("handle"), &work);
            scope.spawn(move || work(number, handle))
        };
        let threads: Vec<_> = (0..count).map(start).collect();
        let results: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Relaxed);
        background.join().expect("background");
        results.into_iter().for_each(|result| result.expect("worker"));
    });
}

/// Makes a value: `key | 8 bytes of version | filling, a function of key and version | 8 bytes of checksum`.
fn make_value(key: &[u8], version: u64, len: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(key);
    out.extend_from_slice(&version.to_le_bytes());
    while out.len() < len {
        let word = split_mix(version ^ out.len() as u64);
        out.extend_from_slice(&word.to_le_bytes());
    }
    let sum = checksum(out);
    out.extend_from_slice(&sum.to_le_bytes());
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, b| (sum ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

fn verify(key: &[u8], value: &[u8]) {
    let (body, sum) = value.split_at(value.len() - 8);
    assert!(body.starts_with(key), "the value of another key under {:?}", String::from_utf8_lossy(key));
    assert_eq!(checksum(body).to_le_bytes(), sum, "torn bytes under {:?}", String::from_utf8_lossy(key));
}

fn read(store: &Store, guard: &mut Guard<'_>, key: &Key<'_>) -> bool {
    let large = match guard.items().get(key).map(|item| item.value) {
        None => return false,
        Some(Value::Bytes(bytes)) => {
            verify(key.bytes(), bytes);
            return true;
        }
        Some(Value::Integer(_) | Value::Typed { .. }) => panic!("nobody counts here"),
        Some(Value::Large(large)) => large,
    };
    match guard.large().pin(key, large) {
        Ok(Some(pin)) => {
            let bytes: Vec<u8> = (0..pin.pieces()).flat_map(|i| store.pinned_bytes(&pin, i).to_vec()).collect();
            store.unpin(pin);
            verify(key.bytes(), &bytes);
            true
        }
        Ok(None) | Err(_) => false,
    }
}

#[derive(Default)]
struct Reached {
    hits: AtomicU64,
    parked: AtomicU64,
    stored: AtomicU64,
    pinned: AtomicU64,
}

fn worker(store: &Store, mut handle: ThreadHandle, seed: u64, ops: u64, reached: &Reached) {
    let mut prng = Prng::new(seed);
    let mut value = Vec::new();
    let mut done = 0;
    // A pinned value that outlives its guard, and its expected bytes.
    let mut sending: Option<(Pinned, Vec<u8>)> = None;
    while done < ops {
        let mut guard = handle.guard(UnixMillis::now());
        if let Some((pin, was)) = sending.take_if(|_| prng.chance(1, 20)) {
            assert_eq!(store.pinned_bytes(&pin, 0), was, "a pinned value has changed");
            store.unpin(pin);
            reached.pinned.fetch_add(1, Relaxed);
        }
        for _ in 0..32 {
            done += 1;
            let name = format!("k{}", prng.below(20_000).min(prng.below(20_000)));
            let key = guard.key(Namespace::DEFAULT, name.as_bytes());
            match prng.below(100) {
                0..=59 => {
                    reached.hits.fetch_add(u64::from(read(store, &mut guard, &key)), Relaxed);
                    if sending.is_none()
                        && let Some(Value::Bytes(value)) =
                            guard.items().read(&key, guard.items().prefetch_item(key.key_hash())).map(|hit| hit.value)
                    {
                        sending = Some((store.pin(value), value.to_vec()));
                    }
                }
                60..=93 => {
                    let len = if prng.chance(1, 200) { prng.below(40_000) } else { prng.below(300) };
                    make_value(name.as_bytes(), prng.next_u64(), len as usize, &mut value);
                    let expire = match prng.below(4) {
                        0 => Expire::At(guard.now().plus_ms(prng.below(400))),
                        1 => Expire::At(guard.now().plus_ms(prng.below(100_000))),
                        _ => Expire::Never,
                    };
                    match guard.items_mut().put(&key, &Put { expire, ..Put::set(&value) }) {
                        Ok(_) => reached.stored.fetch_add(1, Relaxed),
                        Err(OpError::Parked) => {
                            reached.parked.fetch_add(1, Relaxed);
                            break;
                        }
                        Err(error) => panic!("{error}"),
                    };
                }
                94..=95 => {
                    let expire = Expire::At(guard.now().plus_ms(prng.below(60_000)));
                    let _ = guard.items_mut().touch(&key, expire);
                }
                96 => {
                    let _ = guard.versions().gets(&key).map(|item| item.map(|i| i.token));
                }
                _ => {
                    let _ = guard.items_mut().delete(&key, &Delete::default());
                }
            }
        }
        if prng.chance(1, 3000) {
            let _ = guard.items_mut().flush(Namespace::DEFAULT);
        }
        drop(guard);
        if prng.chance(1, 8) {
            std::thread::yield_now();
        }
    }
    if let Some((pin, _)) = sending {
        store.unpin(pin);
    }
}

#[test]
fn every_read_is_whole_and_its_own_while_everything_moves() {
    let seed = seed();
    let (store, background) = store(3 << 20, 16 << 10, 3);
    let reached = Reached::default();
    let ops = if cfg!(debug_assertions) { 150_000 } else { 1_500_000 };
    beside_the_background(&store, background, 3, |i, handle| worker(&store, handle, seed + i, ops, &reached));
    let stats = store.stats();
    let (hits, stored) = (reached.hits.load(Relaxed), reached.stored.load(Relaxed));
    assert!(hits > ops / 4 && stored > ops / 4, "{hits} hits, {stored} stored of {ops}");
    assert!(stats.evicted > 200 && stats.expired > 200 && stats.relocated > 100 && stats.flushed > 0, "{stats:?}");
    assert!(stats.index_growths > 0 && stats.ghost_hits > 0, "{stats:?}");
    assert!(reached.pinned.load(Relaxed) > ops / 1000, "{} pins", reached.pinned.load(Relaxed));
    assert_eq!(stats.pins, 0);
}

/// Two workers read and write while a third thread raises and lowers the memory limit, so that the index also changes
/// its size.
#[test]
fn every_read_is_whole_and_its_own_while_the_memory_moves() {
    let seed = seed();
    let (store, background) = store(3 << 20, 4 << 10, 3);
    let reached = Reached::default();
    let ops = if cfg!(debug_assertions) { 200_000 } else { 2_000_000 };
    let busy = AtomicU64::new(2);
    beside_the_background(&store, background, 3, |i, handle| {
        if i > 0 {
            worker(&store, handle, seed + i, ops, &reached);
            busy.fetch_sub(1, Relaxed);
            return;
        }
        let mut prng = Prng::new(seed);
        while busy.load(Relaxed) > 0 {
            let memory_bytes = (1 << 20) + prng.below(4 << 20);
            store.resize(memory_bytes).expect("between the least and the most");
            std::thread::sleep(std::time::Duration::from_millis(1 + prng.below(30)));
        }
    });
    let stats = store.stats();
    let (hits, stored) = (reached.hits.load(Relaxed), reached.stored.load(Relaxed));
    assert!(hits > ops / 4 && stored > ops / 4, "{hits} hits, {stored} stored of {ops}");
    assert!(stats.index_growths > 0 && stats.index_shrinks > 0 && stats.evicted > 1000, "{stats:?}");
}

/// Every handle adds to counters while relocation moves them. No addition is lost or counted twice.
#[test]
fn no_increment_is_lost_while_counters_move() {
    let seed = seed();
    let (store, background) = store(1 << 20, 4 << 10, 3);
    let (start, rounds) = (Barrier::new(3), 40_000u64);
    let added: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
    beside_the_background(&store, background, 3, |i, mut handle| {
        let mut prng = Prng::new(seed ^ i);
        start.wait();
        for round in 0..rounds {
            let mut guard = handle.guard(UnixMillis::now());
            let which = prng.below(8);
            let name = format!("counter{which}");
            let key = guard.key(Namespace::DEFAULT, name.as_bytes());
            let arith = Arith {
                delta: 1 + prng.below(3),
                decrement: false,
                vivify: Some((0, Expire::Never)),
                expire: None,
                compare: None,
                token: None,
                want_token: prng.chance(1, 10),
            };
            match guard.numbers().arith(&key, &arith) {
                // The first operation creates the counter as 0. A counter is never evicted, because all threads use it.
                Ok(ArithOutcome::Number { value: 0, .. }) | Err(OpError::Parked) => {}
                Ok(ArithOutcome::Number { .. }) => {
                    added[which as usize].fetch_add(arith.delta, Relaxed);
                }
                other => panic!("{other:?}"),
            }
            if prng.chance(1, 3) {
                // Other keys change often, so that segments become half dead and counters are relocated.
                let name = format!("churn{}", prng.below(2000));
                let key = guard.key(Namespace::DEFAULT, name.as_bytes());
                let _ = guard.items_mut().put(&key, &Put::set(&[7; 400]));
            }
            drop(guard);
            if round % 64 == 0 {
                std::thread::yield_now();
            }
        }
    });
    let mut handle = store.handle().expect("a thread handle");
    let guard = handle.guard(UnixMillis::now());
    for (which, added) in added.iter().enumerate() {
        let name = format!("counter{which}");
        let key = guard.key(Namespace::DEFAULT, name.as_bytes());
        match guard.items().get(&key).map(|item| item.value) {
            Some(Value::Integer(value)) => assert_eq!(value, added.load(Relaxed), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(store.stats().relocated > 50, "{:?}", store.stats());
}

/// Tests for lost updates: every handle reads a number with its token and stores the number plus 1 with that token.
#[test]
fn compare_and_store_counts_exactly_while_items_move() {
    let seed = seed();
    let (store, background) = store(1 << 20, 4 << 10, 3);
    let successes = AtomicU64::new(0);
    {
        let mut handle = store.handle().expect("handle");
        let mut guard = handle.guard(UnixMillis::now());
        let key = guard.key(Namespace::DEFAULT, b"total");
        guard.items_mut().put(&key, &Put { mode: PutMode::Set, ..Put::set(b"0") }).expect("put");
    }
    beside_the_background(&store, background, 2, |i, mut handle| {
        let mut prng = Prng::new(seed ^ i);
        for round in 0..600_000 {
            // On a busy machine, the background completes less work in the same number of rounds.
            if round >= 30_000 && round % 1000 == 0 && store.stats().evicted > 1000 {
                break;
            }
            let mut guard = handle.guard(UnixMillis::now());
            let key = guard.key(Namespace::DEFAULT, b"total");
            let read = guard.versions().gets(&key).map(|item| {
                let item = item.expect("it is read all the time, so never evicted");
                let Value::Bytes(text) = item.value else { panic!("text") };
                let number: u64 = std::str::from_utf8(text).expect("utf-8").parse().expect("number");
                (number, item.token)
            });
            let Ok((number, token)) = read else { continue };
            if prng.chance(1, 4) {
                drop(guard);
                std::thread::yield_now();
                guard = handle.guard(UnixMillis::now());
            }
            let next = (number + 1).to_string();
            let put = Put { compare: Some(token), ..Put::set(next.as_bytes()) };
            match guard.items_mut().put(&key, &put) {
                Ok(PutOutcome::Stored { .. }) => {
                    successes.fetch_add(1, Relaxed);
                }
                Ok(PutOutcome::Exists) | Err(OpError::Parked) => {}
                other => panic!("{other:?}"),
            }
            let name = format!("churn{}", prng.below(2000));
            let churn = guard.key(Namespace::DEFAULT, name.as_bytes());
            let _ = guard.items_mut().put(&churn, &Put::set(&[7; 400]));
        }
    });
    let mut handle = store.handle().expect("a thread handle");
    let guard = handle.guard(UnixMillis::now());
    let key = guard.key(Namespace::DEFAULT, b"total");
    let Some(Value::Bytes(text)) = guard.items().get(&key).map(|item| item.value) else { panic!("it is there") };
    assert_eq!(text, successes.load(Relaxed).to_string().as_bytes());
    let stats = store.stats();
    assert!(successes.load(Relaxed) > 1000 && stats.relocated > 50 && stats.evicted > 1000, "{stats:?}");
}
