//! A test of changes of the memory limit while the store runs: which items are kept and which are evicted, and that the
//! memory is returned to the kernel. This file has only one test, because the test reads the process's resident memory.
#![cfg(not(shuttle))]

use std::sync::Arc;

use base::clock::UnixMillis;
use gannet_segment::{Background, Expire, Namespace, OpError, Put, ResizeError, Store, StoreConfig, ThreadHandle};

const NOW: UnixMillis = UnixMillis(1_700_000_000_000);
const MIB: u64 = 1 << 20;
/// The number of keys that are read continually.
const HOT: u64 = 2000;
const VALUE: [u8; 300] = [b'v'; 300];

struct Bench {
    store: Arc<Store>,
    background: Background,
    handle: ThreadHandle,
    next: u64,
}

fn key(number: u64) -> String {
    format!("key-{number:012}")
}

impl Bench {
    fn new() -> Self {
        let config = StoreConfig {
            memory_bytes: 64 * MIB,
            memory_bytes_max: 256 * MIB,
            segment_bytes: None,
            item_bytes_max: MIB,
            handles_max: 1,
            hash_seed: 3,
            huge_pages: false,
        };
        let (store, background) = Store::new(&config, NOW).expect("store");
        let handle = store.handle().expect("handle");
        Self { store, background, handle, next: 0 }
    }

    fn slice(&mut self) {
        let mut asked = 0;
        let over = &mut || {
            asked += 1;
            asked > 20
        };
        self.background.slice(NOW, over);
    }

    fn get(&mut self, number: u64) -> bool {
        let guard = self.handle.guard(NOW);
        let name = key(number);
        let key = guard.key(Namespace::DEFAULT, name.as_bytes());
        guard.items().get(&key).is_some()
    }

    fn put(&mut self, number: u64) {
        let name = key(number);
        loop {
            let mut guard = self.handle.guard(NOW);
            let key = guard.key(Namespace::DEFAULT, name.as_bytes());
            let put = Put { expire: Expire::Never, ..Put::set(&VALUE) };
            match guard.items_mut().put(&key, &put) {
                Ok(_) => return,
                Err(OpError::Parked) => {}
                Err(error) => panic!("{error:?}"),
            }
            drop(guard);
            self.slice();
        }
    }

    /// Stores `count` new keys, and reads the hot keys in between.
    fn load(&mut self, count: u64) {
        for _ in 0..count {
            self.put(HOT + self.next);
            self.get(self.next * 7 % HOT);
            self.next += 1;
            if self.next.is_multiple_of(8) {
                self.slice();
            }
        }
    }

    /// Loads until the memory in use is at the requested limit. Returns the number of puts.
    fn settle(&mut self) -> u64 {
        for round in 0..2000 {
            let stats = self.store.stats();
            if stats.held_bytes <= stats.memory_bytes && stats.held_bytes + MIB / 2 > stats.memory_bytes {
                // Further slices return the rest of the memory.
                (0..200).for_each(|_| self.slice());
                return round * 100;
            }
            self.load(100);
        }
        panic!("the memory never came to its size: {:?}", self.store.stats());
    }

    /// Loads until the memory is full and items are evicted.
    fn fill(&mut self) {
        let before = self.store.stats().evicted;
        while self.store.stats().evicted == before {
            self.load(100);
        }
    }

    fn hot_there(&mut self) -> u64 {
        (0..HOT).filter(|number| self.get(*number)).count() as u64
    }
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    text.split(' ').nth(1).expect("resident").parse::<u64>().expect("pages") * 4096
}

#[test]
fn resize_under_load_loses_only_items_that_the_policy_evicts() {
    let mut bench = Bench::new();
    (0..HOT).for_each(|number| bench.put(number));
    bench.fill();
    let (small, small_resident) = (bench.store.stats(), resident_bytes());

    bench.store.resize(200 * MIB).expect("address space");
    bench.settle();
    let raised = bench.store.stats();
    bench.fill();
    let (large, large_resident) = (bench.store.stats(), resident_bytes());
    assert!(large.items > small.items * 29 / 10, "{} items, then {}", small.items, large.items);
    assert_eq!(raised.evicted_by_index, large.evicted_by_index, "the index grew with the memory");
    let grown = large_resident - small_resident;
    assert!((120 * MIB..140 * MIB).contains(&grown), "{grown} bytes came");

    bench.store.resize(32 * MIB).expect("a size that does");
    let puts = bench.settle();
    let (low, low_resident) = (bench.store.stats(), resident_bytes());
    assert!(puts > 0, "it takes a while");
    assert!(low.held_bytes <= 32 * MIB && low.items * 100 > large.items * 32 / 200 * 95, "{large:?}\n{low:?}");
    assert!(low.index_bytes * 4 < large.index_bytes && low.evicted_by_index == large.evicted_by_index, "{low:?}");
    let fallen = large_resident - low_resident;
    assert!(fallen > 160 * MIB, "{fallen} bytes went back to the kernel");
    assert!(bench.hot_there() > HOT * 95 / 100, "{} of {HOT} hot keys are there", bench.hot_there());
    let newest = bench.next;
    assert!(bench.get(HOT + newest - 1), "the newest is there");

    // The store still works: it fills, evicts, and stays within its limit.
    bench.load(100_000);
    let after = bench.store.stats();
    assert!(after.held_bytes <= 32 * MIB && resident_bytes() < low_resident + MIB, "{after:?}");

    bench.store.resize(64 * MIB).expect("address space");
    bench.settle();
    bench.fill();
    assert!(bench.store.stats().items * 100 > small.items * 98, "as many as at first");

    let too_small = bench.store.resize(MIB);
    let Err(ResizeError::TooSmall { least_bytes }) = too_small else { panic!("{too_small:?}") };
    assert!(least_bytes < 8 * MIB && bench.store.resize(least_bytes).is_ok());
    bench.settle();
    assert_eq!(bench.store.resize(257 * MIB), Err(ResizeError::TooLarge { most_bytes: 256 * MIB }));
}
