//! Compares the store with a model, a plain `HashMap` with a simulated clock, over every operation.
//!
//! In a roomy store, every reply has to equal the model's. In a tight store, where the background evicts, an item may
//! be missing, but an item that is present has to equal the model's. A failure prints the seed: run it again with
//! `GANNET_SEED=n cargo test -p gannet-segment --test model`.
#![cfg(not(shuttle))]

mod reference;

use std::sync::Arc;

use base::clock::UnixMillis;
use base::prng::Prng;
use gannet_segment::{
    Arith, ArithOutcome, Background, Delete, DeleteOutcome, Expire, Fetch, Guard, Key, Lease, Namespace, Put, PutMode,
    PutOutcome, Store, StoreConfig, Terms, ThreadHandle, Value,
};
use reference::{Model, Tried};

/// The namespaces of keys, selected by the first character of a key's name in the model.
const NAMESPACES: [Namespace; 3] = [Namespace::DEFAULT, Namespace(1), Namespace(15)];

/// Returns the store's key for a key name in the model.
fn named<'k>(guard: &Guard<'_>, key: &'k [u8]) -> Key<'k> {
    guard.key(NAMESPACES[usize::from(key[0] - b'0')], &key[1..])
}

/// Returns the model's name of key `number`. Consecutive numbers give the same name in different namespaces.
fn key_of(number: u64) -> Vec<u8> {
    let (namespace, name) = (number % NAMESPACES.len() as u64, number / NAMESPACES.len() as u64);
    let mut key = format!("{namespace}key-{name}").into_bytes();
    key.resize(key.len() + (name % 40) as usize, b'x');
    key
}

struct Bench {
    store: Arc<Store>,
    background: Background,
    handle: ThreadHandle,
    now: UnixMillis,
    prng: Prng,
    model: Model,
    keys: u64,
    memory_bytes: u64,
    /// True if the store may evict items, so that items may be missing.
    tight: bool,
    steps: Steps,
}

/// The counts of cases that a run has reached, which show that the test is not vacuous.
#[derive(Debug, Default)]
struct Steps {
    hits: u64,
    misses: u64,
    large_hits: u64,
    cas_stored: u64,
    cas_exists: u64,
    numbers: u64,
    leases: u64,
    flushes: u64,
    resizes: u64,
}

fn seeds(default: std::ops::Range<u64>) -> Vec<u64> {
    match std::env::var("GANNET_SEED") {
        Ok(seed) => vec![seed.parse().expect("GANNET_SEED is a number")],
        Err(_) => default.collect(),
    }
}

impl Bench {
    fn new(seed: u64, memory_bytes: u64, keys: u64, tight: bool) -> Self {
        let now = UnixMillis(1_700_000_000_000);
        let config = StoreConfig {
            memory_bytes,
            memory_bytes_max: 2 * memory_bytes,
            segment_bytes: Some(4096),
            item_bytes_max: 5000,
            handles_max: 1,
            hash_seed: seed,
            huge_pages: false,
        };
        let (store, background) = Store::new(&config, now).expect("store");
        let handle = store.handle().expect("handle");
        Self {
            store,
            background,
            handle,
            now,
            prng: Prng::new(seed),
            model: Model::default(),
            keys,
            memory_bytes,
            tight,
            steps: Steps::default(),
        }
    }

    fn slices(&mut self, n: usize) {
        for _ in 0..n {
            let mut asked = 0;
            self.background.slice(self.now, &mut || {
                asked += 1;
                asked > 2
            });
        }
    }

    /// Returns a random key. Every namespace has the same names.
    fn key(&mut self) -> Vec<u8> {
        let number = self.prng.below(self.keys);
        key_of(number)
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.prng.below(20) {
            0 | 1 => self.prng.below(4500),
            2..=3 => 0,
            4..=8 => return self.prng.below(1 << 40).to_string().into_bytes(),
            _ => self.prng.below(if self.tight { 900 } else { 200 }),
        };
        let mut value = vec![0; len as usize];
        self.prng.fill(&mut value);
        value
    }

    fn expire(&mut self) -> Expire {
        match self.prng.below(8) {
            0..=3 => Expire::Never,
            4 => Expire::At(self.now.plus_ms(self.prng.below(3_000))),
            5 => Expire::At(self.now.plus_ms(self.prng.below(100_000))),
            6 => {
                let days = [40, 500][self.prng.below(2) as usize];
                Expire::At(self.now.plus_ms(self.prng.below(days * 86_400_000)))
            }
            _ => Expire::At(UnixMillis(self.now.0 - self.prng.below(1000))),
        }
    }

    /// Reads a key and compares it with the model. In a tight store, removes an evicted key from the model.
    fn check(&mut self, key: &[u8]) {
        let mut guard = self.handle.guard(self.now);
        let k = named(&guard, key);
        let hit =
            guard.items().read(&k, guard.items().prefetch_item(k.key_hash())).map(|hit| (hit.value, hit.client_flags));
        // `peek` does not count a second access.
        let got = guard.items().peek(&k).map(|item| (item.value, item.client_flags, item.expire, item.stale));
        assert_eq!(hit, got.map(|(value, client_flags, ..)| (value, client_flags)), "a read in stages");
        let seen = match got {
            None => None,
            Some((Value::Bytes(bytes), flags, expire, stale)) => Some((bytes.to_vec(), flags, expire, stale)),
            Some((Value::Integer(n), flags, expire, stale)) => Some((n.to_string().into_bytes(), flags, expire, stale)),
            Some((Value::Typed { .. }, ..)) => panic!("nobody stores a typed value here"),
            Some((Value::Large(large), flags, expire, stale)) => {
                let pinned = guard.large().pin(&k, large).expect("nobody else locks");
                drop(guard);
                // The pin must protect the value, whatever the background does meanwhile.
                self.slices(20);
                pinned.map(|pin| {
                    let bytes: Vec<u8> =
                        (0..pin.pieces()).flat_map(|i| self.store.pinned_bytes(&pin, i).to_vec()).collect();
                    assert_eq!(bytes.len() as u64, pin.bytes());
                    self.store.unpin(pin);
                    self.steps.large_hits += 1;
                    (bytes, flags, expire, stale)
                })
            }
        };
        let expected = self.model.live(key, self.now).map(|e| (e.value.clone(), e.client_flags, e.expire, e.stale));
        match (&seen, &expected) {
            (None, Some(_)) if self.tight => self.model.forget(key),
            _ => {
                let brief = |e: &Option<(Vec<u8>, u32, Expire, bool)>| {
                    e.as_ref().map(|(v, flags, expire, stale)| (v.len(), *flags, *expire, *stale))
                };
                assert_eq!(brief(&seen), brief(&expected), "{:?} at {:?}", String::from_utf8_lossy(key), self.now);
                assert!(seen == expected, "another value under {:?}", String::from_utf8_lossy(key));
            }
        }
        if seen.is_some() { self.steps.hits += 1 } else { self.steps.misses += 1 }
    }

    /// Removes a key from the model if a tight store has evicted its item.
    fn settle(&mut self, key: &[u8]) {
        if self.tight {
            self.check(key);
        }
    }

    fn try_put(&mut self, key: &[u8], put: &Put<'_>) -> Result<PutOutcome, gannet_segment::OpError> {
        let mut guard = self.handle.guard(self.now);
        let k = named(&guard, key);
        guard.items_mut().put(&k, put)
    }

    fn put(&mut self) {
        let (key, value, expire) = (self.key(), self.value(), self.expire());
        self.settle(&key);
        let modes = [PutMode::Set, PutMode::Set, PutMode::Add, PutMode::Replace, PutMode::Append, PutMode::Prepend];
        let mode = modes[self.prng.below(6) as usize];
        let compare = self.prng.chance(1, 4).then(|| self.model.some_token(&key, &mut self.prng)).flatten();
        let put = Put {
            mode,
            client_flags: if self.prng.chance(1, 3) { self.prng.next_u64() as u32 } else { 0 },
            expire,
            compare,
            token: self.prng.chance(1, 20).then(|| self.prng.next_u64() | 1 << 63),
            vivify: self.prng.chance(1, 10).then_some(Expire::Never),
            want_token: self.prng.chance(1, 5),
            ..Put::set(&value)
        };
        let mut got = self.try_put(&key, &put);
        for _ in 0..50 {
            // In a tight store, an operation may have to wait for the background. It has then changed nothing.
            if self.tight && got == Err(gannet_segment::OpError::Parked) {
                self.slices(10);
                self.check(&key);
                got = self.try_put(&key, &put);
            }
        }
        match self.model.put(&key, &put, self.now) {
            Tried::TooLarge => assert_eq!(got, Err(gannet_segment::OpError::TooLarge)),
            Tried::Put(expected) => {
                let got = match got {
                    Ok(got) => got,
                    Err(error) => panic!(
                        "{error} for {:?} of {} bytes: {:?} {:?}",
                        put.mode,
                        put.value.len(),
                        NAMESPACES.map(|namespace| self.store.namespace_stats(namespace)),
                        self.store.stats()
                    ),
                };
                match (got, expected) {
                    (PutOutcome::Stored { token, bytes: a }, PutOutcome::Stored { bytes: b, .. }) => {
                        assert_eq!(a, b, "the length that {:?} reports", put.mode);
                        if put.want_token {
                            self.model.give_token(&key, token);
                        }
                        self.steps.cas_stored += u64::from(compare.is_some());
                    }
                    (got, expected) => {
                        assert_eq!(got, expected, "{:?} with {:?}", put.mode, put.compare);
                        self.steps.cas_exists += u64::from(got == PutOutcome::Exists);
                    }
                }
            }
        }
        self.check(&key);
    }

    /// Runs an operation until it is not parked. In a tight store it may wait for the background, which may evict the
    /// key meanwhile.
    fn until_done<T>(
        &mut self,
        key: &[u8],
        mut op: impl FnMut(&mut Guard<'_>, &Key<'_>) -> Result<T, gannet_segment::OpError>,
    ) -> T {
        for _ in 0..50 {
            let mut guard = self.handle.guard(self.now);
            let k = named(&guard, key);
            match op(&mut guard, &k) {
                Err(gannet_segment::OpError::Parked) if self.tight => {}
                done => return done.expect("nobody else locks"),
            }
            drop(guard);
            self.slices(10);
            self.check(key);
        }
        panic!("it waits for ever: {:?}", self.store.stats());
    }

    fn gets(&mut self) {
        let key = self.key();
        let mut guard = self.handle.guard(self.now);
        let k = named(&guard, &key);
        let token = guard.versions().gets(&k).expect("nobody else locks").map(|item| item.token);
        drop(guard);
        if let Some(token) = token {
            self.model.give_token(&key, token);
        }
        self.check(&key);
    }

    fn delete(&mut self) {
        let key = self.key();
        self.settle(&key);
        let mark_stale = self.prng.chance(1, 4);
        let delete = Delete {
            compare: self.prng.chance(1, 5).then(|| self.model.some_token(&key, &mut self.prng)).flatten(),
            mark_stale,
            expire: (mark_stale && self.prng.chance(1, 2)).then(|| self.expire()),
            drop_value: self.prng.chance(1, 6),
            spares_typed: false,
            token: None,
        };
        let got: DeleteOutcome = self.until_done(&key, |guard, key| guard.items_mut().delete(key, &delete));
        // The model has no expired items; the store has one until the background or a delete removes it.
        let got = if got == DeleteOutcome::Expired { DeleteOutcome::NotFound } else { got };
        assert_eq!(got, self.model.delete(&key, &delete, self.now), "{delete:?}");
        self.check(&key);
    }

    fn arith(&mut self) {
        let key = self.key();
        self.settle(&key);
        let arith = Arith {
            delta: if self.prng.chance(1, 10) { self.prng.next_u64() } else { self.prng.below(100) },
            decrement: self.prng.chance(1, 2),
            vivify: self.prng.chance(1, 3).then(|| (self.prng.below(10), self.expire())),
            expire: self.prng.chance(1, 6).then(|| self.expire()),
            compare: self.prng.chance(1, 8).then(|| self.model.some_token(&key, &mut self.prng)).flatten(),
            token: None,
            want_token: self.prng.chance(1, 4),
        };
        let got = self.until_done(&key, |guard, key| guard.numbers().arith(key, &arith));
        let expected = self.model.arith(&key, &arith, self.now);
        match (got, expected) {
            (
                ArithOutcome::Number { value: a, token, expire_before: b, expire: e },
                ArithOutcome::Number { value, expire_before, expire, .. },
            ) => {
                assert_eq!((a, b, e), (value, expire_before, expire), "{arith:?}");
                self.steps.numbers += 1;
                if arith.want_token {
                    self.model.give_token(&key, token);
                }
            }
            (got, expected) => assert_eq!(got, expected, "{arith:?}"),
        }
        self.check(&key);
    }

    fn touch(&mut self) {
        let (key, expire) = (self.key(), self.expire());
        self.settle(&key);
        let found = self.until_done(&key, |guard, key| Ok(guard.items_mut().touch(key, expire)?.is_some()));
        let expected = self.model.touch(&key, expire, self.now);
        assert_eq!(found, expected, "touch to {expire:?}");
        self.check(&key);
    }

    fn fetch(&mut self) {
        let key = self.key();
        self.settle(&key);
        let fetch = Fetch {
            touch: self.prng.chance(1, 4).then(|| Expire::At(self.now.plus_ms(1 + self.prng.below(50_000)))),
            vivify: self.prng.chance(1, 3).then(|| Expire::At(self.now.plus_ms(1 + self.prng.below(50_000)))),
            recache_below_ms: self.prng.chance(1, 3).then(|| self.prng.below(60_000)),
            token: None,
            want_token: self.prng.chance(1, 4),
            want_access: self.prng.chance(1, 3),
            no_bump: self.prng.chance(1, 4),
        };
        let got = self.until_done(&key, |guard, key| {
            Ok(guard.items_mut().fetch(key, &fetch)?.map(|f| (f.lease, f.vivified, f.item.token)))
        });
        let expected = self.model.fetch(&key, &fetch, self.now);
        assert_eq!(got.map(|(lease, vivified, _)| (lease, vivified)), expected, "{fetch:?}");
        if let Some((lease, _, token)) = got {
            self.steps.leases += u64::from(lease != Lease::None);
            if fetch.want_token {
                self.model.give_token(&key, token);
            }
        }
        self.check(&key);
    }

    fn flush(&mut self) {
        let namespace = self.prng.below(NAMESPACES.len() as u64) as usize;
        self.handle.guard(self.now).items_mut().flush(NAMESPACES[namespace]).expect("no slice runs");
        self.model.flush(namespace as u8);
        self.steps.flushes += 1;
    }

    fn step(&mut self) {
        match self.prng.below(1000) {
            0..=299 => self.put(),
            300..=399 => self.gets(),
            400..=499 => self.delete(),
            500..=649 => self.arith(),
            650..=749 => self.touch(),
            750..=899 => self.fetch(),
            900..=979 => {
                let key = self.key();
                self.check(&key);
            }
            980 if self.prng.chance(1, 4) => self.flush(),
            981 => self.now = self.now.plus_ms(self.prng.below(3_600_000)),
            982..=988 => self.handle.tidy(self.now),
            989 => self.resize(),
            _ => self.now = self.now.plus_ms(self.prng.below(2_000)),
        }
    }

    /// Stores a key that is not in the model and is never read. An item that is evicted unread leaves a ghost.
    fn noise(&mut self) {
        let name = format!("{}noise-{}", self.prng.below(NAMESPACES.len() as u64), self.prng.below(1000));
        let mut guard = self.handle.guard(self.now);
        let key = named(&guard, name.as_bytes());
        let _ = guard.items_mut().put(&key, &Put::set(&[b'n'; 200]));
    }

    /// Changes the memory limit. A roomy store keeps at least its initial memory, so that nothing is evicted.
    fn resize(&mut self) {
        let least = if self.tight { self.memory_bytes * 3 / 4 } else { self.memory_bytes };
        let bytes = least + self.prng.below(2 * self.memory_bytes - least);
        self.steps.resizes += u64::from(self.store.resize(bytes).is_ok());
    }

    fn run(mut self, steps: usize) -> (Steps, Arc<Store>) {
        for step in 0..steps {
            if step == steps / 2 {
                self.flush();
            }
            self.step();
            if self.tight && self.prng.chance(1, 3) {
                self.noise();
            }
            let slices = self.prng.below(4) as usize + 8 * usize::from(self.store.needs_background());
            self.slices(slices);
        }
        for number in 0..self.keys {
            self.check(&key_of(number));
        }
        (self.steps, self.store)
    }
}

#[test]
fn every_answer_of_a_roomy_store_is_the_models() {
    for seed in seeds(0..12) {
        println!("repeat: GANNET_SEED={seed} cargo test -p gannet-segment --test model");
        let (steps, store) = Bench::new(seed, 460 << 10, 300, false).run(20_000);
        let stats = store.stats();
        assert_eq!(stats.evicted, 0, "a roomy store evicts nothing: {stats:?}");
        assert!(stats.expired > 20 && stats.flushed > 20 && stats.relocated > 20, "{stats:?}");
        assert!(stats.segments_drained[1] > 0 && stats.segments_drained[2] > 0 && stats.segments_drained[3] > 0);
        let s = steps;
        assert!(
            s.hits > 3000 && s.misses > 1000 && s.large_hits > 50 && s.leases > 100 && s.flushes > 0 && s.resizes > 5,
            "{s:?}"
        );
        assert!(s.cas_stored > 20 && s.cas_exists > 50 && s.numbers > 300, "{s:?}");
    }
}

#[test]
fn whatever_a_tight_store_still_has_is_the_models() {
    for seed in seeds(100..112) {
        println!("repeat: GANNET_SEED={seed} cargo test -p gannet-segment --test model");
        let (steps, store) = Bench::new(seed, 200 << 10, 1500, true).run(20_000);
        let stats = store.stats();
        assert!(stats.evicted > 300 && stats.ghost_hits > 0 && stats.relocated > 100, "{stats:?}");
        assert!(stats.segments_drained[0] > 20 && stats.held_bytes <= stats.memory_bytes, "{stats:?}");
        assert!(steps.hits > 3000 && steps.large_hits > 10 && steps.cas_stored > 5 && steps.resizes > 5, "{steps:?}");
    }
}

#[test]
fn whatever_namespaces_with_quotas_still_have_is_the_models() {
    for seed in seeds(200..208) {
        println!("repeat: GANNET_SEED={seed} cargo test -p gannet-segment --test model");
        let bench = Bench::new(seed, 800 << 10, 6000, true);
        for namespace in &NAMESPACES[1..] {
            let terms = Terms { memory_bytes: Some(200 << 10), ..Terms::default() };
            bench.store.give_terms(*namespace, &terms).expect("there is room for both");
        }
        let (steps, store) = bench.run(40_000);
        assert!(steps.hits > 3000 && steps.resizes > 5, "{steps:?}");
        for namespace in NAMESPACES {
            let stats = store.namespace_stats(namespace);
            // Items that have expired are removed while memory is short.
            assert!(stats.evicted > 100 && stats.items > 5, "{namespace:?}: {stats:?}");
            assert!(stats.heap_bytes <= stats.heap_bytes_max + (16 << 10), "{namespace:?}: {stats:?}");
        }
    }
}
