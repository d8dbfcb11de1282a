//! Tests of crashes of a store whose second tier outlives the process. Afterwards no key has two items, and no
//! overwritten or deleted item reappears.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use arena::MapFile;
use base::clock::UnixMillis;

use super::crashes::{NOW, Rig, config, images_of, key, place, power};
use crate::core::op::{Delete, DeleteOutcome, Expire, Value};
use crate::durable::tier_backing::TierBacking;
use crate::heap::segments::SegmentId;
use crate::layout::header::SegmentState;
use crate::map_tier::{MapTier, PLAN, PLAN_FOUND};
use crate::tier::tiered::FromFlash;
use crate::{
    Evicted, EvictionObserver, FileFault, IndexPlace, KeyEnd, Namespace, StartError, Store, StoreFile, TierPlan,
};

fn open(file: Arc<MapFile>, tier: &Arc<MapTier>) -> Rig {
    let store_file = StoreFile {
        file: Arc::clone(&file),
        reset: false,
        index: IndexPlace::File,
        index_left: None,
        power: crate::Power::default(),
    };
    let ground = TierBacking::lay(&config(), Some(&store_file), &PLAN, NOW).expect("the file is taken");
    let (store, background) = ground.store(Arc::clone(tier) as _, NOW).expect("a store");
    let handle = store.handle().expect("a thread handle");
    Rig { store, background, handle, file, now: NOW }
}

/// Opens a store with the tier, and with the index place and power-loss settings of this thread.
pub(super) fn open_beside(file: Arc<MapFile>, tier: &Arc<MapTier>, now: UnixMillis) -> Rig {
    let store_file =
        StoreFile { file: Arc::clone(&file), reset: false, index: place(), index_left: None, power: power() };
    let mut ground = TierBacking::lay(&config(), Some(&store_file), &plan_at(place()), now).expect("the file is taken");
    tier.go_on(ground.take_room());
    let (store, background) = ground.store(Arc::clone(tier) as _, now).expect("a store");
    let handle = store.handle().expect("a thread handle");
    let mut rig = Rig { store, background, handle, file, now };
    while rig.store.is_finding() {
        rig.background.slice(now, &mut || false);
    }
    rig
}

/// Returns the plan of a store with its index at that place.
pub(super) fn plan_at(index: IndexPlace) -> TierPlan {
    if index == IndexPlace::Dram { PLAN_FOUND } else { PLAN }
}

/// Reads the value of a key in memory or on flash, without moving the item.
pub(super) fn read_tiered(rig: &mut Rig, key: &[u8]) -> Option<Vec<u8>> {
    // A large value that has lost a piece still has a head, but is never served.
    for _ in 0..10 {
        if let Some(there) = rig.read(key) {
            return Some(there);
        }
        let guard = rig.handle.guard(rig.now);
        match guard.tier().read(&guard.key(Namespace::DEFAULT, key)) {
            FromFlash::Nowhere => return None,
            FromFlash::Coming => {}
            FromFlash::Here(hit) => {
                let value = match hit.value() {
                    Value::Bytes(bytes) => bytes.to_vec(),
                    Value::Integer(number) => number.to_string().into_bytes(),
                    other => panic!("{other:?}"),
                };
                guard.tier().put_back(hit, false);
                return Some(value);
            }
        }
    }
    None
}

/// Seals the open segment, and moves the items of all sealed segments to the tier.
pub(super) fn demote(rig: &mut Rig) {
    rig.handle.own_seal(&rig.store);
    let is_sealed = |id: &u32| rig.store.segments.header(SegmentId(*id)).state() == SegmentState::Sealed;
    let sealed: Vec<u32> = (0..rig.store.segments.high_water() as u32).filter(is_sealed).collect();
    sealed.into_iter().for_each(|id| rig.background.drain_whole(SegmentId(id), false, NOW));
}

/// A key whose item has ended, and the reason.
type EndedKey = (Vec<u8>, KeyEnd);

/// An observer that records the keys of items that end.
#[derive(Clone, Debug, Default)]
struct KeyEnds(Arc<Mutex<Vec<EndedKey>>>);

impl EvictionObserver for KeyEnds {
    fn wanted(&self) -> bool {
        true
    }

    fn evicted(&mut self, _: &Evicted<'_>) {}

    fn wants_expired(&self) -> bool {
        true
    }

    fn key_ended(&mut self, _: Namespace, key: &[u8], end: KeyEnd) {
        self.0.lock().expect("no thread panics").push((key.to_vec(), end));
    }
}

/// The index of a store with a second tier does not grow, so new keys take the slots of others.
#[test]
fn items_that_lose_their_slots_to_other_keys_are_reported_once() {
    let (tier, ends) = (Arc::new(MapTier::default()), KeyEnds::default());
    let mut rig = open(Arc::new(MapFile::in_memory().expect("a file")), &tier);
    rig.background.observe(Box::new(ends.clone()));
    let names: Vec<Vec<u8>> = (0..600).map(key).collect();
    let past = UnixMillis(NOW.0 + 1000);
    let before = rig.store.stats().evicted;
    for (number, name) in names.iter().enumerate() {
        let expire = if number % 2 == 0 { Expire::At(past) } else { Expire::Never };
        rig.put_until(name, b"v", expire);
    }
    let gone: Vec<Vec<u8>> = names.iter().filter(|name| rig.read(name).is_none()).cloned().collect();
    rig.background.slice(rig.now, &mut || false);
    let mut reported = std::mem::take(&mut *ends.0.lock().expect("no thread panics"));
    reported.sort_by(|a, b| a.0.cmp(&b.0));
    let mut expected: Vec<EndedKey> = gone.iter().map(|name| (name.clone(), KeyEnd::Evicted)).collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(reported, expected);
    let stats = rig.store.stats();
    assert_eq!((stats.evicted_by_index, stats.evicted - before), (gone.len() as u64, gone.len() as u64));
    assert!(gone.len() > 50, "{} lost their slots", gone.len());
    // Items that have expired since, and that the background has not found yet, are reported as expired.
    rig.now = past;
    rig.store.persistent.clock_ms.store(past.0, Relaxed);
    (600..1200).for_each(|number| rig.put(&key(number), b"v"));
    rig.background.slice(rig.now, &mut || false);
    let reported = std::mem::take(&mut *ends.0.lock().expect("no thread panics"));
    let expired = |(name, end): &EndedKey| *end == KeyEnd::Expired && !gone.contains(name);
    let expired = reported.iter().filter(|ended| expired(ended)).count();
    assert!(expired > 20, "{expired} of {} keys had expired", reported.len());
}

#[test]
fn keys_that_expire_or_are_dropped_on_flash_are_reported_once() {
    let (tier, ends) = (Arc::new(MapTier::default()), KeyEnds::default());
    let mut rig = open(Arc::new(MapFile::in_memory().expect("a file")), &tier);
    rig.background.observe(Box::new(ends.clone()));
    let end = UnixMillis(NOW.0 + 60_000);
    for key in [&b"read"[..], b"deleted", b"changed", b"unread"] {
        rig.put_until(key, b"v", Expire::At(end));
    }
    rig.put_until(b"dropped", b"v", Expire::Never);
    demote(&mut rig);
    assert_eq!(rig.store.stats().flash_items, 5);
    let taken = |rig: &mut Rig| {
        rig.background.slice(rig.now, &mut || false);
        let mut taken = std::mem::take(&mut *ends.0.lock().expect("no thread panics"));
        taken.sort_by(|a, b| a.0.cmp(&b.0));
        taken
    };
    assert_eq!(taken(&mut rig), []);
    rig.now = end;
    assert_eq!(read_tiered(&mut rig, b"read"), None);
    let deleted = rig.until_done(|guard| {
        let key = guard.key(Namespace::DEFAULT, b"deleted");
        guard.items_mut().delete(&key, &Delete::default())
    });
    assert_eq!(deleted, DeleteOutcome::NotFound);
    rig.until_done(|guard| {
        let key = guard.key(Namespace::DEFAULT, b"changed");
        guard.numbers().add(&key, 1)
    });
    let expired = |key: &[u8]| (key.to_vec(), KeyEnd::Expired);
    assert_eq!(taken(&mut rig), [expired(b"changed"), expired(b"deleted"), expired(b"read")]);
    tier.reclaim_all();
    assert_eq!(taken(&mut rig), [(b"dropped".to_vec(), KeyEnd::Evicted), expired(b"unread")]);
    assert_eq!(taken(&mut rig), []);
    assert_eq!(rig.store.stats().flash_evicted, 1);
}

/// Returns two keys with the same index bucket and the same tag.
pub(super) fn twins(store: &Store) -> [Vec<u8>; 2] {
    let mut seen = std::collections::HashMap::new();
    for number in 0..100_000 {
        let key = format!("twin-{number}").into_bytes();
        // The index has only one group.
        let place = store.hasher.key(Namespace::DEFAULT, &key).hash.0 & 0x3_ffff;
        if let Some(other) = seen.insert(place, key.clone()) {
            return [other, key];
        }
    }
    panic!("no two keys are alike");
}

/// Takes images while `change` runs on a store whose keys are all on flash, and opens the images. Each key has its
/// state before or after the change; with `may_miss`, it may also be missing. After a deletion, no older item
/// reappears.
fn crash(keys: &[Vec<u8>], may_miss: bool, change: impl FnOnce(&mut Rig)) -> u64 {
    let tier = Arc::new(MapTier::default());
    let mut rig = open(Arc::new(MapFile::in_memory().expect("a file")), &tier);
    for key in keys {
        rig.put(key, &[b"old ", &key[..]].concat());
    }
    demote(&mut rig);
    assert_eq!(rig.store.flash_slots(), keys.len() as u64, "all are on flash");
    let all = |rig: &mut Rig| keys.iter().map(|key| read_tiered(rig, key)).collect::<Vec<_>>();
    let before = all(&mut rig);
    let images = images_of(&mut rig, 1, change);
    let after = all(&mut rig);
    let mut doubled = 0;
    for image in images {
        let mut rig = open(image, &tier);
        doubled += rig.reopened().slots_doubled;
        for (place, there) in all(&mut rig).into_iter().enumerate() {
            let missed = may_miss && there.is_none();
            assert!(there == before[place] || there == after[place] || missed, "{place}: {there:?}");
        }
        for key in keys {
            rig.delete(key);
            assert_eq!(read_tiered(&mut rig, key), None, "{} came back", key.escape_ascii());
        }
        assert_eq!((rig.store.flash_slots(), rig.slots()), (0, 0), "nothing names anything");
    }
    doubled
}

#[test]
fn crash_during_overwrite_leaves_no_stale_item_on_flash() {
    let store = open(Arc::new(MapFile::in_memory().expect("a file")), &Arc::default()).store;
    let twins = twins(&store);
    let [first, second] = twins.clone();
    let put = |key: Vec<u8>| move |rig: &mut Rig| rig.put(&key, b"new");
    let doubled = crash(&twins, true, put(first)) + crash(&twins, true, put(second));
    assert!(doubled > 0, "an image has what was stored and what it was stored over");
}

/// Regression: if an item moved to flash between the lookup on flash and the lookup in memory, it was reported as a
/// miss.
#[test]
fn lookup_misses_of_items_moved_to_flash_are_recognised_as_false() {
    let tier = Arc::new(MapTier::default());
    let mut rig = open(Arc::new(MapFile::in_memory().expect("a file")), &tier);
    rig.put(b"here", b"v");
    let mut guard = rig.handle.guard(rig.now);
    let key = guard.key(Namespace::DEFAULT, b"here");
    assert!(!guard.tier().is_on_flash(&key), "it is in memory");
    drop(guard);
    demote(&mut rig);
    guard = rig.handle.guard(rig.now);
    let key = guard.key(Namespace::DEFAULT, b"here");
    let none = guard.key(Namespace::DEFAULT, b"none");
    assert!(
        guard.items().peek(&none).is_none() && !guard.tier().take_false_miss() && !guard.tier().is_false_miss(&none)
    );
    assert!(guard.items().peek(&key).is_none() && guard.tier().take_false_miss() && !guard.tier().take_false_miss());
    assert!(guard.items().get(&key).is_none() && guard.tier().take_false_miss());
    assert!(guard.tier().is_false_miss(&key));
    drop(guard);
    // By the next guard, the requested item has moved back to memory. The earlier lookup has become invalid.
    guard = rig.handle.guard(rig.now);
    let key = guard.key(Namespace::DEFAULT, b"here");
    assert!(guard.tier().is_false_miss(&key), "it is in memory now, so whoever did not find it looks again");
    assert!(guard.items().peek(&key).is_some() && !guard.tier().take_false_miss());
}

#[test]
fn crash_during_delete_or_overwrite_leaves_flash_items_old_or_new() {
    let keys: Vec<Vec<u8>> = (0..12).map(super::crashes::key).collect();
    let (gone, longer) = (keys[3].clone(), keys[5].clone());
    crash(&keys, false, |rig| {
        assert!(rig.delete(&gone));
        rig.put(&longer, b"new");
        demote(rig);
    });
}

#[test]
fn memory_file_opens_only_with_the_flash_tier_of_its_creation() {
    let file = Arc::new(MapFile::in_memory().expect("a file"));
    drop(open(Arc::clone(&file), &Arc::default()));
    let store_file =
        StoreFile { file, reset: false, index: IndexPlace::File, index_left: None, power: crate::Power::default() };
    let fault = |error| match error {
        StartError::File { fault, .. } => fault.to_string(),
        other => panic!("{other}"),
    };
    let without = fault(Store::in_file(&config(), &store_file, NOW).expect_err("its items are on flash"));
    assert!(without.contains("pass the same --flash as before"), "{without}");
    let larger = TierPlan { bytes: 2, ..PLAN };
    let other = fault(TierBacking::lay(&config(), Some(&store_file), &larger, NOW).expect_err("another flash"));
    assert!(other.contains("flash of 1 bytes in total, not 2"), "{other}");
    let plain = Arc::new(MapFile::in_memory().expect("a file"));
    let plain = StoreFile {
        file: plain,
        reset: false,
        index: IndexPlace::File,
        index_left: None,
        power: crate::Power::default(),
    };
    drop(Store::in_file(&config(), &plain, NOW).expect("made"));
    let with = TierBacking::lay(&config(), Some(&plain), &PLAN, NOW).expect_err("it was made without");
    assert!(matches!(&with, StartError::File { fault: FileFault::Flash { found: 0, .. }, .. }), "{with}");
}

#[test]
fn crash_preserves_flash_item_with_the_tag_of_a_key_in_memory() {
    let tier = Arc::new(MapTier::default());
    let mut rig = open(Arc::new(MapFile::in_memory().expect("a file")), &tier);
    let [on_flash, in_memory] = twins(&rig.store);
    rig.put(&on_flash, b"untouched");
    rig.handle.own_seal(&rig.store);
    rig.put(&in_memory, b"of the same tag");
    let first = SegmentId(0);
    assert_eq!(rig.store.segments.header(first).state(), SegmentState::Sealed);
    rig.background.drain_whole(first, false, NOW);
    assert_eq!(rig.store.flash_slots(), 1);
    // Another change with the same stripe, interrupted at every point.
    let images = images_of(&mut rig, 1, |rig| rig.put(b"another", b"value"));
    let mut held = 0;
    for image in images {
        let mut rig = open(image, &tier);
        held += rig.reopened().stripes_held;
        assert_eq!(read_tiered(&mut rig, &on_flash).as_deref(), Some(&b"untouched"[..]));
        assert_eq!(read_tiered(&mut rig, &in_memory).as_deref(), Some(&b"of the same tag"[..]));
    }
    assert!(held > 0, "an image was taken under the lock");
}

/// After a kill, unchanged keys may be missing only if another key with the same tag and index buckets was stored
/// later: a `set` replaces such a flash slot without reading the device.
#[test]
fn flash_item_is_lost_only_if_a_key_with_its_tag_and_bucket_is_stored() {
    let mut lost = 0;
    for seed in 0..40 {
        let tier = Arc::new(MapTier::default());
        let mut rig = open(Arc::new(MapFile::in_memory().expect("a file")), &tier);
        // The tag and the two buckets identify the slots exactly, because the index has only one group.
        let place = |rig: &Rig, key: &[u8]| {
            let hash = rig.store.hasher.key(Namespace::DEFAULT, key).hash;
            let place = hash.0 as usize & 0x3_ffff;
            let (tag, bucket) = (place & 0xfff, place >> 12);
            let other = crate::index::other_bucket(bucket, hash.tag());
            (tag, bucket.min(other), bucket.max(other))
        };
        let untouched: Vec<Vec<u8>> = (0..250).map(|at| format!("untouched-{seed}-{at}").into_bytes()).collect();
        untouched.iter().for_each(|key| rig.put(key, b"untouched"));
        demote(&mut rig);
        let there: Vec<&Vec<u8>> = untouched.iter().filter(|key| read_tiered(&mut rig, key).is_some()).collect();
        let stored: Vec<Vec<u8>> = (0..150).map(|at| format!("stored-{seed}-{at}").into_bytes()).collect();
        let (before, after) = stored.split_at(75);
        before.iter().for_each(|key| rig.put(key, b"stored"));
        let killed = images_of(&mut rig, 100, |rig| after.iter().for_each(|key| rig.put(key, b"stored")));
        let places: HashSet<_> = stored.iter().map(|key| place(&rig, key)).collect();
        for mut rig in killed.into_iter().map(|image| open(image, &tier)).chain([rig]) {
            for key in &there {
                if read_tiered(&mut rig, key).is_none() {
                    assert!(places.contains(&place(&rig, key)), "seed {seed}: {} is gone", key.escape_ascii());
                    lost += 1;
                }
            }
        }
    }
    assert!(lost > 0, "no two keys were alike, so nothing was shown");
}
