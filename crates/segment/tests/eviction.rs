//! Tests of eviction: which items are kept when memory is short, and which evicted keys are recognised when they are
//! stored again.
#![cfg(not(shuttle))]

use std::sync::Arc;

use base::clock::UnixMillis;
use gannet_segment::{Background, Expire, Namespace, OpError, Put, Store, StoreConfig, ThreadHandle};

const START: UnixMillis = UnixMillis(1_700_000_000_000);
const MIB: u64 = 1 << 20;
const SHORT_BYTES: usize = 100;
const LONG_BYTES: usize = 4000;
/// The number of items of each kind that a test examines.
const EACH: usize = 100;

struct Bench {
    store: Arc<Store>,
    background: Background,
    handle: ThreadHandle,
    now: UnixMillis,
}

impl Bench {
    fn new() -> Self {
        let config = StoreConfig {
            memory_bytes: 8 * MIB,
            memory_bytes_max: 32 * MIB,
            segment_bytes: Some(32 << 10),
            item_bytes_max: MIB,
            handles_max: 1,
            hash_seed: 3,
            huge_pages: false,
        };
        let (store, background) = Store::new(&config, START).expect("store");
        let handle = store.handle().expect("handle");
        Self { store, background, handle, now: START }
    }

    fn slice(&mut self) {
        self.background.slice(self.now, &mut || false);
    }

    fn get(&mut self, name: &str) -> bool {
        let guard = self.handle.guard(self.now);
        let key = guard.key(Namespace::DEFAULT, name.as_bytes());
        guard.items().get(&key).is_some()
    }

    fn put(&mut self, name: &str, bytes: usize, expire: Expire) {
        let value = vec![b'v'; bytes];
        loop {
            let mut guard = self.handle.guard(self.now);
            let key = guard.key(Namespace::DEFAULT, name.as_bytes());
            match guard.items_mut().put(&key, &Put { expire, ..Put::set(&value) }) {
                Ok(_) => return,
                Err(OpError::Parked) => {}
                Err(error) => panic!("{error:?}"),
            }
            drop(guard);
            self.slice();
        }
    }

    /// Stores items of a kind, and reads each of them `reads` times.
    fn put_and_read(&mut self, kind: &str, bytes: usize, reads: usize) {
        for number in 0..EACH {
            let name = format!("{kind}-{number}");
            self.put(&name, bytes, Expire::Never);
            assert!((0..reads).all(|_| self.get(&name)));
        }
    }

    /// Stores unread items of `times` times the memory's size.
    fn put_noise(&mut self, kind: &str, times: u64) {
        for number in 0..times * 8 * MIB / (SHORT_BYTES as u64 + 24) {
            self.put(&format!("{kind}-{number}"), SHORT_BYTES, Expire::Never);
        }
    }

    fn count(&mut self, kind: &str) -> usize {
        (0..EACH).filter(|number| self.get(&format!("{kind}-{number}"))).count()
    }

    /// Runs slices until the store has no items.
    fn empty(&mut self) {
        for _ in 0..1000 {
            self.handle.tidy(self.now);
            self.slice();
            if self.store.stats().items == 0 {
                return;
            }
        }
        panic!("items stay: {:?}", self.store.stats());
    }
}

#[test]
fn long_item_needs_more_reads_than_a_short_item_to_survive_eviction() {
    let mut bench = Bench::new();
    // Items that fill an empty memory are not judged before they enter the main queue.
    bench.put_noise("filler", 1);
    bench.put_and_read("short-unread", SHORT_BYTES, 0);
    bench.put_and_read("short-once", SHORT_BYTES, 1);
    bench.put_and_read("long-once", LONG_BYTES, 1);
    bench.put_and_read("long-thrice", LONG_BYTES, 3);
    // All earlier items have then reached the small queue's end.
    bench.put_noise("noise", 2);
    let stats = bench.store.stats();
    assert!(stats.evicted > 50_000 && stats.segments_drained[0] > 250, "{stats:?}");
    let held = ["short-unread", "short-once", "long-once", "long-thrice"].map(|kind| bench.count(kind));
    assert_eq!(held, [0, EACH, 0, EACH]);
}

#[test]
fn ghost_hits_require_keys_that_were_read_before_expiry_and_not_flushed() {
    let mut bench = Bench::new();
    let expire = Expire::At(START.plus_ms(60_000));
    for number in 0..EACH {
        bench.put(&format!("read-{number}"), SHORT_BYTES, expire);
        bench.put(&format!("unread-{number}"), SHORT_BYTES, expire);
        assert!(bench.get(&format!("read-{number}")));
    }
    bench.now = START.plus_ms(600_000);
    bench.empty();
    assert_eq!(bench.store.stats().expired, 2 * EACH as u64);
    for number in 0..EACH {
        bench.put(&format!("unread-{number}"), SHORT_BYTES, Expire::Never);
    }
    assert_eq!(bench.store.stats().ghost_hits, 0);
    for number in 0..EACH {
        bench.put(&format!("read-{number}"), SHORT_BYTES, Expire::Never);
    }
    assert_eq!(bench.store.stats().ghost_hits, EACH as u64);

    // All items of both kinds exist now and were read by the count. Then they are flushed.
    assert_eq!((bench.count("read"), bench.count("unread")), (EACH, EACH));
    bench.handle.guard(bench.now).items_mut().flush(Namespace::DEFAULT).expect("flushed");
    bench.empty();
    for number in 0..EACH {
        bench.put(&format!("read-{number}"), SHORT_BYTES, Expire::Never);
    }
    assert_eq!(bench.store.stats().ghost_hits, EACH as u64);
}

/// The background only runs when a write waits for room, so it is short of segments in each of its slices.
/// Few large values leave most of the index to ghosts, so that every key of a loop over four times as many keys as fit
/// has a ghost when it returns. If all these ghosts counted, each value would replace one of the main queue that is
/// requested sooner, and every request would miss.
#[test]
fn ghosts_of_keys_that_were_evicted_long_ago_do_not_replace_the_main_queue() {
    const KEYS: u64 = 1000;
    const ROUNDS: u64 = 10;
    let mut bench = Bench::new();
    let mut hits = 0;
    for number in 0..ROUNDS * KEYS {
        let name = format!("loop-{}", number % KEYS);
        if bench.get(&name) {
            hits += u64::from(number >= ROUNDS * KEYS / 2);
        } else {
            bench.put(&name, 30_000, Expire::Never);
        }
        if number % 4 == 0 {
            bench.slice();
        }
    }
    let stats = bench.store.stats();
    let held = stats.item_bytes / 30_500;
    // A value has eight pieces, a head and an anchor.
    assert!(stats.index_slots > 10 * held + KEYS, "ghosts have no room for the whole loop: {stats:?}");
    let best = held * ROUNDS / 2;
    assert!(hits * 10 > best * 7, "{hits} hits, of at most {best} with {held} values in memory");
}

#[test]
fn raised_memory_limit_takes_effect_under_constant_eviction() {
    let mut bench = Bench::new();
    let mut next = 0;
    let mut store = |bench: &mut Bench, bytes: u64| {
        for _ in 0..bytes / (LONG_BYTES as u64 + 64) {
            next += 1;
            bench.put(&format!("key-{next}"), LONG_BYTES, Expire::Never);
        }
        bench.store.stats()
    };
    let small = store(&mut bench, 16 * MIB);
    assert!(small.evicted > 1000, "{small:?}");
    bench.store.resize(32 * MIB).expect("as much as was reserved");
    let large = store(&mut bench, 20 * MIB);
    assert!(large.evicted - small.evicted < 100 && large.items > small.items * 3, "{small:?}\n{large:?}");
}
