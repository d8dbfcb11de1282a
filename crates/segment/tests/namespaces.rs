//! Tests of several namespaces in one store: the load on one namespace must not affect the others.
#![cfg(not(shuttle))]

use std::sync::Arc;

use base::clock::UnixMillis;
use gannet_segment::{
    Background, Delete, Expire, Namespace, NamespaceStats, OpError, Put, PutOutcome, Store, StoreConfig, Terms,
    TermsError, ThreadHandle,
};

const START: UnixMillis = UnixMillis(1_700_000_000_000);
const MIB: u64 = 1 << 20;
const QUIET: Namespace = Namespace(1);
const NOISY: Namespace = Namespace(2);
/// The number of slices after which the background must have nothing left to do.
const SLICES_MAX: usize = 100_000;

struct Bench {
    store: Arc<Store>,
    background: Background,
    handle: ThreadHandle,
    now: UnixMillis,
    /// The maximum number of slices that a put has waited for.
    waited_most: usize,
}

impl Bench {
    fn new() -> Self {
        let config = StoreConfig {
            memory_bytes: 16 * MIB,
            memory_bytes_max: 32 * MIB,
            segment_bytes: Some(16 << 10),
            item_bytes_max: MIB / 4,
            handles_max: 1,
            hash_seed: 3,
            huge_pages: false,
        };
        let (store, background) = Store::new(&config, START).expect("store");
        let handle = store.handle().expect("handle");
        Self { store, background, handle, now: START, waited_most: 0 }
    }

    fn give(&self, namespace: Namespace, memory_bytes: u64) {
        let terms = Terms { memory_bytes: Some(memory_bytes), ..Terms::default() };
        self.store.give_terms(namespace, &terms).expect("there is room");
    }

    /// Runs a slice as long as a real one, which checks its time every 32 items.
    fn slice(&mut self) -> bool {
        let mut looks = 0;
        let report = self.background.slice(self.now, &mut || {
            looks += 1;
            looks > 4
        });
        report.more
    }

    fn settle(&mut self) {
        let last = (0..SLICES_MAX).find(|_| !self.slice());
        assert!(last.is_some(), "the background comes to an end");
    }

    fn try_put(&mut self, namespace: Namespace, name: &str, value: &[u8], expire: Expire) -> Result<(), OpError> {
        let mut guard = self.handle.guard(self.now);
        let key = guard.key(namespace, name.as_bytes());
        let outcome = guard.items_mut().put(&key, &Put { expire, ..Put::set(value) })?;
        assert_eq!(outcome, PutOutcome::Stored { token: 0, bytes: value.len() as u64 });
        Ok(())
    }

    fn put(&mut self, namespace: Namespace, name: &str, value: &[u8]) -> Result<(), OpError> {
        for waited in 0..SLICES_MAX {
            match self.try_put(namespace, name, value, Expire::Never) {
                Err(OpError::Parked) => {
                    self.slice();
                    self.waited_most = self.waited_most.max(waited + 1);
                }
                done => return done,
            }
        }
        panic!("a put waits for ever: {:?}", self.stats(namespace));
    }

    fn fill(&mut self, namespace: Namespace, count: usize, bytes: usize) {
        let value = vec![namespace.0; bytes];
        for number in 0..count {
            self.put(namespace, &format!("key-{number}"), &value).expect("an item");
            if number % 16 == 0 || self.store.needs_background() {
                self.slice();
            }
        }
    }

    fn holds(&mut self, namespace: Namespace, name: &str) -> bool {
        let guard = self.handle.guard(self.now);
        guard.items().peek(&guard.key(namespace, name.as_bytes())).is_some()
    }

    fn count(&mut self, namespace: Namespace, count: usize) -> usize {
        (0..count).filter(|number| self.holds(namespace, &format!("key-{number}"))).count()
    }

    fn stats(&self, namespace: Namespace) -> NamespaceStats {
        self.store.namespace_stats(namespace)
    }
}

#[test]
fn flood_into_a_namespace_evicts_only_from_that_namespace() {
    for (noisy, quiet, quota) in [(NOISY, QUIET, true), (Namespace::DEFAULT, QUIET, false), (NOISY, Namespace(0), true)]
    {
        let mut bench = Bench::new();
        for namespace in [noisy, quiet].into_iter().filter(|namespace| namespace.0 > 0) {
            bench.give(namespace, 4 * MIB);
        }
        bench.fill(quiet, 3000, 800);
        bench.waited_most = 0;
        bench.fill(noisy, 100_000, 800);
        let (victim, culprit) = (bench.stats(quiet), bench.stats(noisy));
        assert_eq!((victim.evicted, bench.count(quiet, 3000)), (0, 3000), "{victim:?}");
        assert!(culprit.evicted > 50_000 && bench.waited_most < 100, "{culprit:?} {}", bench.waited_most);
        assert!(culprit.heap_bytes <= culprit.heap_bytes_max + (64 << 10), "{culprit:?}");
        assert!(!quota || culprit.heap_bytes_max <= 4 * MIB, "{culprit:?}");
        // The quiet namespace can still store items.
        bench.waited_most = 0;
        bench.fill(quiet, 3200, 800);
        assert_eq!((bench.stats(quiet).evicted, bench.waited_most), (0, 0), "a quiet one waits for nobody");
    }
}

#[test]
fn index_growth_is_charged_to_the_namespace_that_causes_it() {
    let mut bench = Bench::new();
    bench.give(NOISY, 6 * MIB);
    bench.give(QUIET, 4 * MIB);
    bench.fill(QUIET, 3000, 1000);
    bench.fill(Namespace::DEFAULT, 1500, 1000);
    // The items have about twelve bytes each, so the index takes about as much memory as the items.
    bench.fill(NOISY, 400_000, 1);
    bench.settle();
    assert_eq!((bench.stats(QUIET).evicted, bench.stats(Namespace::DEFAULT).evicted), (0, 0));
    assert_eq!((bench.count(QUIET, 3000), bench.count(Namespace::DEFAULT, 1500)), (3000, 1500));
    let (noisy, stats) = (bench.stats(NOISY), bench.store.stats());
    assert!(noisy.heap_bytes_max < 5 * MIB && stats.index_growths > 2, "{noisy:?} {stats:?}");
    assert!(stats.held_bytes <= stats.memory_bytes, "{stats:?}");
}

#[test]
fn namespaces_have_separate_items_per_key_and_separate_flushes() {
    let mut bench = Bench::new();
    for namespace in 0..Namespace::MAX as u8 {
        bench.put(Namespace(namespace), "key-0", &[namespace; 10]).expect("an item");
    }
    for namespace in 0..Namespace::MAX as u8 {
        let guard = bench.handle.guard(START);
        let item = guard.items().peek(&guard.key(Namespace(namespace), b"key-0")).expect("it is there");
        assert_eq!(item.value_len(), 10);
        assert!(matches!(item.value, gannet_segment::Value::Bytes(bytes) if bytes == [namespace; 10]));
        let mut seen = 0;
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            cursor = guard.walks().scan(Namespace(namespace), from, &mut |_| seen += 1);
        }
        assert_eq!(seen, 1, "a walk sees one namespace");
        drop(guard);
        assert_eq!(bench.stats(Namespace(namespace)).items, 1);
    }
    bench.handle.guard(START).items_mut().flush(Namespace(7)).expect("no slice runs");
    let left: Vec<u8> = (0..16).filter(|namespace| bench.holds(Namespace(*namespace), "key-0")).collect();
    assert_eq!((left.len(), left.contains(&7)), (15, false));
    let mut guard = bench.handle.guard(START);
    let key = guard.key(Namespace(3), b"key-0");
    guard.items_mut().delete(&key, &Delete::default()).expect("nobody else locks");
    drop(guard);
    assert!(!bench.holds(Namespace(3), "key-0") && bench.holds(Namespace(4), "key-0"));
    assert_eq!(bench.stats(Namespace(3)).items, 0);
    bench.settle();
    bench.handle.tidy(START);
    bench.settle();
    assert_eq!((bench.stats(Namespace(7)).items, bench.stats(Namespace(7)).flushed), (0, 1));
}

#[test]
fn namespace_without_eviction_is_refused_at_its_quota_others_are_not() {
    let mut bench = Bench::new();
    let terms = Terms { memory_bytes: Some(3 * MIB), keeps: true, ..Terms::default() };
    bench.store.give_terms(QUIET, &terms).expect("there is room");
    assert!(bench.store.keeps(QUIET) && !bench.store.keeps(NOISY));
    let (mut stored, value) = (0, [1; 800]);
    while bench.put(QUIET, &format!("key-{stored}"), &value) == Ok(()) {
        stored += 1;
        assert!(stored < 10_000, "the quota is a bound");
    }
    assert!(stored > 2500 && !bench.store.has_room(QUIET, 800), "{stored} {:?}", bench.stats(QUIET));
    bench.fill(NOISY, 30_000, 800);
    assert!(bench.stats(NOISY).evicted > 0);
    assert_eq!((bench.stats(QUIET).evicted, bench.count(QUIET, stored)), (0, stored));
}

#[test]
fn smaller_quota_evicts_own_items_and_removed_quota_shares_memory_again() {
    let mut bench = Bench::new();
    bench.give(QUIET, 4 * MIB);
    bench.give(NOISY, 4 * MIB);
    bench.fill(QUIET, 3000, 800);
    bench.fill(NOISY, 4000, 800);
    bench.give(NOISY, 2 * MIB);
    bench.settle();
    let noisy = bench.stats(NOISY);
    assert!(noisy.evicted > 1000 && noisy.heap_bytes <= 2 * MIB, "{noisy:?}");
    assert_eq!(bench.stats(QUIET).evicted, 0);
    bench.store.give_terms(NOISY, &Terms::default()).expect("it may go");
    let evicted = bench.stats(NOISY).evicted;
    bench.fill(NOISY, 9000, 800);
    assert_eq!(bench.stats(NOISY).evicted, evicted, "the default namespace's room is its too");
}

#[test]
fn impossible_quotas_are_refused_with_the_allowed_limit() {
    let mut bench = Bench::new();
    let give = |bench: &Bench, namespace, memory_bytes| {
        bench.store.give_terms(namespace, &Terms { memory_bytes: Some(memory_bytes), ..Terms::default() })
    };
    let Err(TermsError::TooLarge { most_bytes }) = give(&bench, QUIET, 16 * MIB) else {
        panic!("all of it is too much")
    };
    assert_eq!(give(&bench, QUIET, most_bytes), Ok(()));
    assert!(matches!(give(&bench, NOISY, MIB), Err(TermsError::TooLarge { most_bytes: 0..=99 })));
    bench.give(QUIET, 6 * MIB);
    let Err(TermsError::TooSmall { least_bytes }) = give(&bench, NOISY, 1000) else { panic!("too small") };
    assert_eq!(give(&bench, NOISY, least_bytes), Ok(()));
    assert_eq!(give(&bench, Namespace::DEFAULT, 4 * MIB), Err(TermsError::Default));
    let keeps = Terms { keeps: true, ..Terms::default() };
    assert_eq!(bench.store.give_terms(NOISY, &keeps), Err(TermsError::KeepsWithoutQuota));
    let Err(gannet_segment::ResizeError::TooSmall { least_bytes }) = bench.store.resize(8 * MIB) else {
        panic!("the quotas need more")
    };
    assert_eq!(bench.store.resize(least_bytes), Ok(()));
    // The largest item fits into the smallest quota.
    bench.put(NOISY, "large", &vec![1; (MIB / 4) as usize - 16]).expect("a large item");
    assert!(bench.holds(NOISY, "large"));
}

#[test]
fn a_rule_for_times_to_live_holds_for_whatever_is_stored_and_touched() {
    let mut bench = Bench::new();
    let terms = Terms { ttl_default_ms: 60_000, ttl_max_ms: 100_000, ..Terms::default() };
    bench.store.give_terms(QUIET, &terms).expect("there is room");
    let ends = |bench: &mut Bench, name: &str| {
        let guard = bench.handle.guard(bench.now);
        guard.items().peek(&guard.key(QUIET, name.as_bytes())).expect("it is there").expire
    };
    let at = |ms: u64| Expire::At(START.plus_ms(ms));
    for (name, asked, kept) in
        [("never", Expire::Never, at(60_000)), ("soon", at(5), at(5)), ("late", at(900_000), at(100_000))]
    {
        bench.try_put(QUIET, name, b"value", asked).expect("an item");
        assert_eq!(ends(&mut bench, name), kept, "{name}");
    }
    let mut guard = bench.handle.guard(START);
    let key = guard.key(QUIET, b"never");
    guard.items_mut().touch(&key, at(500_000)).expect("nobody else locks");
    drop(guard);
    assert_eq!(ends(&mut bench, "never"), at(100_000));
    let mut guard = bench.handle.guard(START);
    let key = guard.key(QUIET, b"soon");
    guard.items_mut().touch(&key, Expire::Never).expect("nobody else locks");
    drop(guard);
    assert_eq!(ends(&mut bench, "soon"), at(60_000));
    bench.try_put(NOISY, "never", b"value", Expire::Never).expect("an item");
    bench.now = START.plus_ms(100_001);
    assert!(!bench.holds(QUIET, "never") && bench.holds(NOISY, "never"));
    // The expiry of a large value is that of its head.
    bench.try_put(QUIET, "large", &[1; 100_000], Expire::Never).expect("a large item");
    assert_eq!(ends(&mut bench, "large"), Expire::At(bench.now.plus_ms(60_000)));
}
