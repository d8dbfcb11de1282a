//! Tests of the removal of single expired items.

use super::crashes::{NOW, config};
use crate::{Evicted, EvictionObserver, Expire, Namespace, Put, Store, StoreConfig};
use base::clock::UnixMillis;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Collects the keys of expired items.
#[derive(Clone, Debug, Default)]
struct Listener {
    listens: Arc<AtomicBool>,
    expired: Arc<Mutex<Vec<String>>>,
}

impl EvictionObserver for Listener {
    fn wanted(&self) -> bool {
        false
    }

    fn evicted(&mut self, evicted: &Evicted<'_>) {
        panic!("{:?} was evicted", evicted.item.key);
    }

    fn wants_expired(&self) -> bool {
        self.listens.load(SeqCst)
    }

    fn expired(&mut self, expired: &Evicted<'_>) {
        self.expired.lock().expect("no panic").push(String::from_utf8_lossy(expired.item.key).into_owned());
    }
}

/// Stores items with these times to live, in ms.
fn store_with(ttls: impl Iterator<Item = u64>) -> (Arc<Store>, crate::Background, Listener) {
    let config = StoreConfig { memory_bytes: 8 << 20, segment_bytes: None, ..config() };
    let (store, mut background) = Store::new(&config, NOW).expect("a store");
    let listener = Listener::default();
    background.observe(Box::new(listener.clone()));
    let mut handle = store.handle().expect("a thread handle");
    let mut guard = handle.guard(NOW);
    for (number, ttl) in ttls.enumerate() {
        let name = format!("{number} {ttl}");
        let key = guard.key(Namespace::DEFAULT, name.as_bytes());
        let expire = if ttl == 0 { Expire::Never } else { Expire::At(NOW.plus_ms(ttl)) };
        guard.items_mut().put(&key, &Put { expire, ..Put::set(b"value") }).expect("there is room");
    }
    (store, background, listener)
}

fn slices(background: &mut crate::Background, now: UnixMillis) {
    for _ in 0..20 {
        let _ = background.slice(now, &mut || false);
    }
}

/// All items are in one segment of each class, whose last item expires long after the first.
#[test]
fn listener_learns_of_each_expiry_within_100_ms_although_the_segment_lives_on() {
    let (store, mut background, listener) = store_with((0..400).map(|number| number % 80 * 100));
    listener.listens.store(true, SeqCst);
    let mut expected = 0;
    for at_ms in (0..7900).step_by(100) {
        // The segment stays, because some of its items have not expired.
        slices(&mut background, NOW.plus_ms(at_ms));
        let expired = listener.expired.lock().expect("no panic").clone();
        expected = (0..400).filter(|number| (1..=at_ms / 100).contains(&(number % 80))).count();
        assert_eq!(expired.len(), expected, "{at_ms} ms: {expired:?}");
    }
    assert!(expected > 380, "{expected}");
    assert_eq!(store.stats().items, 400 - expected as u64, "the expired items are removed");
}

#[test]
fn without_a_listener_no_item_is_removed_before_its_segment() {
    let (store, mut background, listener) = store_with((1..80).map(|number| number * 100));
    slices(&mut background, NOW.plus_ms(7800));
    assert_eq!((store.stats().items, listener.expired.lock().expect("no panic").len()), (79, 0));
}
