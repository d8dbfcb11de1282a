//! What a memory holds: the index keeps pace with the fill, small items cost little, and wide TTLs waste little.
#![cfg(not(shuttle))]

use std::sync::Arc;

use base::clock::UnixMillis;
use base::prng::Prng;
use gannet_segment::{Background, Expire, Lane, Namespace, OpError, Put, Store, StoreConfig, StoreStats};

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

fn store(memory_bytes: u64, lanes_max: usize) -> (Arc<Store>, Background) {
    let config = StoreConfig {
        memory_bytes,
        segment_bytes: None,
        item_bytes_max: 1 << 20,
        lanes_max,
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

/// Stores one item, with as many slices as it has to wait for.
fn put(lane: &mut Lane, background: &mut Background, now: UnixMillis, key: &[u8], value: &[u8], expire: Expire) {
    loop {
        let mut turn = lane.turn(now);
        let k = turn.key(Namespace::DEFAULT, key);
        match turn.put(&k, &Put { expire, ..Put::set(value) }) {
            Ok(_) => return,
            Err(OpError::Parked) => {
                drop(turn);
                slice(background, now);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Fills a store until something is evicted; the stats right before.
fn fill(memory_bytes: u64, key_len: usize, value_len: usize, expire: Expire) -> (StoreStats, u64) {
    let (store, mut background) = store(memory_bytes, 1);
    let mut lane = store.lane().expect("lane");
    let value = vec![b'v'; value_len];
    let mut last = store.stats();
    let mut stored = 0u64;
    loop {
        for _ in 0..500 {
            let key = format!("{stored:0key_len$}");
            put(&mut lane, &mut background, NOW, key.as_bytes(), &value, expire);
            stored += 1;
        }
        // As lively as a background that shares its processor with the worker.
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

/// One namespace, two lanes, TTLs from a second to a year, 64 MiB: what part-filled open segments waste is bounded.
#[test]
fn wide_ttls_waste_at_most_a_tenth_in_part_filled_segments() {
    let (store, mut background) = store(64 << 20, 2);
    let mut lanes = [store.lane().expect("lane"), store.lane().expect("lane")];
    let mut prng = Prng::new(11);
    let (mut now, mut worst, mut full) = (NOW, 0.0f64, 0);
    let mut value = [0; 1000];
    for round in 0..400_000u64 {
        let ttl_ms = 1000u64 << prng.below(26);
        let key = format!("key-{}", prng.below(400_000));
        prng.fill(&mut value[..8]);
        let len = 200 + prng.below(800) as usize;
        let lane = &mut lanes[(round % 2) as usize];
        put(lane, &mut background, now, key.as_bytes(), &value[..len], Expire::At(now.plus_ms(ttl_ms)));
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
