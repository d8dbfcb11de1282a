//! Tests of a store whose index is lost with the process, but whose second tier is not. The items on flash are found
//! again, except items that were overwritten or deleted. This holds wherever the process is killed, even if it is
//! killed again during the search.

use std::collections::BTreeMap;
use std::sync::Arc;

use arena::MapFile;
use base::clock::UnixMillis;
use base::prng::Prng;

use super::crashes::{NOW, Rig, config, images_of, key, keys};
use super::tiered::{demote, read_tiered, twins};
use crate::core::op::{Delete, Expire, OpError, Put, PutMode};
use crate::durable::tier_backing::TierBacking;
use crate::map_tier::{MapTier, PLAN, PLAN_FOUND};
use crate::tier::tiered::FromFlash;
use crate::{IndexPlace, Namespace, StoreFile};

/// Opens a store that has not found any item on flash yet.
fn open_early(file: Arc<MapFile>, tier: &Arc<MapTier>) -> Rig {
    open_at(file, tier, NOW)
}

fn open_at(file: Arc<MapFile>, tier: &Arc<MapTier>, now: UnixMillis) -> Rig {
    let store_file = StoreFile {
        file: Arc::clone(&file),
        reset: false,
        index: IndexPlace::Dram,
        index_left: None,
        power: crate::Power::default(),
    };
    let mut ground = TierBacking::lay(&config(), Some(&store_file), &PLAN_FOUND, now).expect("the file is taken");
    tier.go_on(ground.take_room());
    let (store, background) = ground.store(Arc::clone(tier) as _, now).expect("a store");
    let handle = store.handle().expect("a thread handle");
    Rig { store, background, handle, file, now }
}

fn find(rig: &mut Rig) {
    while rig.store.is_finding() {
        rig.background.slice(rig.now, &mut || false);
    }
}

fn open(file: Arc<MapFile>, tier: &Arc<MapTier>) -> Rig {
    let mut rig = open_early(file, tier);
    find(&mut rig);
    rig
}

fn image(rig: &Rig) -> Arc<MapFile> {
    Arc::new(rig.file.image().expect("an image"))
}

/// Creates a store with all of these keys on flash.
fn filled(tier: &Arc<MapTier>, keys: &[Vec<u8>]) -> Rig {
    let mut rig = open(Arc::new(MapFile::in_memory().expect("a file")), tier);
    for key in keys {
        rig.put(key, &[b"old ", &key[..]].concat());
    }
    demote(&mut rig);
    assert_eq!(rig.store.flash_slots(), keys.len() as u64, "all are on flash");
    rig
}

/// The value of a key that expires at [`END`].
const ENDS: &[u8] = b"ends";
const END: UnixMillis = UnixMillis(NOW.0 + 60_000);

/// Takes an image before every store instruction of `change` on a [`filled`] store, and opens the images. Each key has
/// its state before or after the change, except `changed` keys, which may be missing if the change was interrupted.
/// Later operations never bring back an older item.
fn crash(
    rig: &mut Rig,
    tier: &Arc<MapTier>,
    keys: &[Vec<u8>],
    changed: &[&[u8]],
    change: impl FnOnce(&mut Rig),
) -> usize {
    let all = |rig: &mut Rig| keys.iter().map(|key| read_tiered(rig, key)).collect::<Vec<_>>();
    let before: Vec<_> = keys.iter().map(|key| Some([b"old ", &key[..]].concat())).collect();
    let images = images_of(rig, 1, change);
    let after = all(rig);
    let mut gone = 0;
    for taken in images {
        let again = || Arc::new(taken.image().expect("an image"));
        let there = all(&mut open(again(), tier));
        for (place, there) in there.iter().enumerate() {
            let missed = there.is_none() && changed.contains(&&keys[place][..]);
            gone += usize::from(missed && before[place].is_some() && after[place].is_some());
            let name = keys[place].escape_ascii();
            assert!(*there == before[place] || *there == after[place] || missed, "{name}: {there:?}");
        }
        ends_later(open_at(again(), tier, END.plus_ms(1)), keys, &there);
        deleted_early(open_early(again(), tier), tier, keys);
        goes_to_flash_first(open_early(again(), tier), tier, keys, &there);
    }
    gone
}

/// Checks that no older item of a key reappears after the key's item has expired.
fn ends_later(mut rig: Rig, keys: &[Vec<u8>], there: &[Option<Vec<u8>>]) {
    find(&mut rig);
    for (key, there) in keys.iter().zip(there) {
        let left = there.clone().filter(|value| value != ENDS);
        assert_eq!(read_tiered(&mut rig, key), left, "{} came back", key.escape_ascii());
    }
}

/// Deletes half of the keys before their items are found, and the others afterwards. No item reappears, neither in this
/// process nor in the next.
fn deleted_early(mut rig: Rig, tier: &Arc<MapTier>, keys: &[Vec<u8>]) {
    for (place, key) in keys.iter().enumerate() {
        if place == keys.len() / 2 {
            find(&mut rig);
        }
        rig.delete(key);
        assert_eq!(read_tiered(&mut rig, key), None, "{} came back", key.escape_ascii());
    }
    let mut next = open(image(&rig), tier);
    for key in keys {
        assert_eq!(read_tiered(&mut next, key), None, "{} came back to the next process", key.escape_ascii());
    }
    assert_eq!(next.store.flash_slots(), 0, "nothing names anything");
}

/// Moves the items in memory to flash before the items on flash are found. Afterwards no key has two slots.
fn goes_to_flash_first(mut rig: Rig, tier: &Arc<MapTier>, keys: &[Vec<u8>], there: &[Option<Vec<u8>>]) {
    tier.pause(true);
    while rig.store.is_rebuilding() {
        rig.background.slice(NOW, &mut || false);
    }
    demote(&mut rig);
    tier.pause(false);
    find(&mut rig);
    for (key, there) in keys.iter().zip(there) {
        assert_eq!(read_tiered(&mut rig, key), *there, "{}", key.escape_ascii());
        rig.delete(key);
        assert_eq!(read_tiered(&mut rig, key), None, "{} has another slot", key.escape_ascii());
    }
    assert_eq!(rig.store.flash_slots(), 0, "nothing names anything");
}

/// Serves a value from flash, which counts as a read of the item.
fn serve(rig: &mut Rig, key: &[u8]) {
    rig.until_done(|guard| {
        let key = guard.key(Namespace::DEFAULT, key);
        match guard.tier().read(&key) {
            FromFlash::Coming => Err(OpError::Parked),
            FromFlash::Here(hit) => {
                guard.tier_mut().served(&key, hit);
                Ok(())
            }
            FromFlash::Nowhere => panic!("it is on flash"),
        }
    });
}

#[test]
fn flash_items_are_recovered_and_writes_are_served_during_rebuild() {
    let (tier, keys) = (Arc::new(MapTier::default()), keys(40));
    let rig = filled(&tier, &keys);
    let mut rig = open_early(image(&rig), &tier);
    assert!(rig.store.is_finding() && read_tiered(&mut rig, &key(0)).is_none(), "it is found by nobody yet");
    rig.put(&key(7), b"new");
    assert!(!rig.delete(&key(8)), "it is not there yet");
    find(&mut rig);
    assert_eq!(rig.store.rebuild_progress().expect("it has found all").on_flash, 38);
    for (number, key) in keys.iter().enumerate() {
        let there = read_tiered(&mut rig, key);
        match number {
            7 => assert_eq!(there.as_deref(), Some(&b"new"[..])),
            8 => assert_eq!(there, None, "it was deleted before it was found"),
            _ => assert_eq!(there, Some([b"old ", &key[..]].concat())),
        }
    }
    assert_eq!((rig.store.flash_slots(), rig.store.stats().flash_items), (38, 38));
    // A changed item moves to flash too, and the next process finds it. An item that was read stays in memory.
    rig.put(&key(10), b"newer");
    demote(&mut rig);
    assert_eq!(rig.store.flash_slots(), 38);
    let mut rig = open(image(&rig), &tier);
    assert_eq!((rig.store.flash_slots(), read_tiered(&mut rig, &key(8))), (38, None));
    assert_eq!(read_tiered(&mut rig, &key(7)).as_deref(), Some(&b"new"[..]));
    assert_eq!(read_tiered(&mut rig, &key(10)).as_deref(), Some(&b"newer"[..]));
}

#[test]
fn interrupted_change_or_eviction_never_exposes_older_version() {
    let (tier, keys) = (Arc::new(MapTier::default()), keys(12));
    let mut rig = filled(&tier, &keys);
    let changed = [&keys[3][..], &keys[5], &keys[6]];
    let gone = crash(&mut rig, &tier, &keys, &changed, |rig| {
        assert!(rig.delete(&keys[3]));
        rig.put_until(&keys[5], ENDS, Expire::At(END));
        rig.until_done(|guard| {
            let key = guard.key(Namespace::DEFAULT, &keys[6]);
            guard.items_mut().put(&key, &Put { mode: PutMode::Append, ..Put::set(b" and more") })
        });
        demote(rig);
    });
    assert!(gone > 0, "the old copy is dead before the new one lives");
}

#[test]
fn reclaimed_item_is_removed_or_present_once_after_crash() {
    let (tier, keys) = (Arc::new(MapTier::default()), keys(8));
    let mut rig = filled(&tier, &keys);
    let all: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    crash(&mut rig, &tier, &keys, &all, |rig| {
        keys[..4].iter().for_each(|key| serve(rig, key));
        tier.reclaim_all();
        rig.background.slice(NOW, &mut || false);
        assert_eq!((rig.store.flash_slots(), rig.store.stats().flash_again), (4, 4), "what was read goes on");
        // No slot names the key's old copy on flash any more.
        rig.put_until(&keys[6], ENDS, Expire::At(END));
    });
}

#[test]
fn overwritten_keys_with_same_tag_are_not_confused_after_crash() {
    let tier = Arc::new(MapTier::default());
    let twins = twins(&open(Arc::new(MapFile::in_memory().expect("a file")), &tier).store);
    for changed in &twins {
        let mut rig = filled(&tier, &twins);
        let both = [&twins[0][..], &twins[1]];
        crash(&mut rig, &tier, &twins, &both, |rig| rig.put_until(changed, ENDS, Expire::At(END)));
    }
}

#[test]
fn interrupted_rebuild_restarts_and_preserves_concurrent_changes() {
    let (tier, keys) = (Arc::new(MapTier::default()), keys(24));
    let rig = filled(&tier, &keys);
    let mut rig = open_early(image(&rig), &tier);
    let changed: Vec<&[u8]> = [1, 2, 9, 20].into_iter().map(|number| &keys[number][..]).collect();
    crash(&mut rig, &tier, &keys, &changed, |rig| {
        rig.put(changed[0], b"new");
        assert!(!rig.delete(changed[1]));
        // The item moves to memory before the search of flash, and back to flash before the search is complete.
        rig.background.slice(NOW, &mut || false);
        demote(rig);
        find(rig);
        rig.put(changed[2], b"new");
        assert!(rig.delete(changed[3]));
    });
    let mut rig = open(image(&rig), &tier);
    let there: Vec<_> = changed.iter().map(|key| read_tiered(&mut rig, key)).collect();
    assert_eq!(there, [Some(b"new".to_vec()), None, Some(b"new".to_vec()), None]);
    assert_eq!(keys.iter().filter(|key| read_tiered(&mut rig, key).is_some()).count(), 22);
}

#[test]
fn file_with_flash_is_refused_if_opened_with_other_index_location() {
    for (made, asked, plan) in
        [(IndexPlace::Dram, IndexPlace::File, PLAN), (IndexPlace::File, IndexPlace::Dram, PLAN_FOUND)]
    {
        let file = Arc::new(MapFile::in_memory().expect("a file"));
        let of = |index| StoreFile {
            file: Arc::clone(&file),
            reset: false,
            index,
            index_left: None,
            power: crate::Power::default(),
        };
        let first = if made == IndexPlace::Dram { PLAN_FOUND } else { PLAN };
        drop(TierBacking::lay(&config(), Some(&of(made)), &first, NOW).expect("made"));
        let report = TierBacking::lay(&config(), Some(&of(asked)), &plan, NOW).expect_err("it is refused").to_string();
        let flag = if made == IndexPlace::File { "--file-index file" } else { "--file-index dram" };
        assert!(report.contains(flag), "{report}");
    }
}

/// Checks that the store returns the value of a key that was stored last, or a miss.
fn check(rig: &mut Rig, model: &BTreeMap<Vec<u8>, Vec<u8>>, name: &[u8], seed: u64) -> bool {
    let there = read_tiered(rig, name);
    let right = there.is_none() || there.as_ref() == model.get(name);
    assert!(right, "seed {seed}: {} holds {there:?}, not {:?}", name.escape_ascii(), model.get(name));
    there.is_some()
}

#[test]
fn killed_store_returns_only_last_stored_values_under_random_operations() {
    let (mut met_early, mut there) = (0, 0);
    for seed in 0..40 {
        let (mut prng, tier) = (Prng::new(seed), Arc::new(MapTier::default()));
        let mut model = BTreeMap::new();
        let mut rig = open(Arc::new(MapFile::in_memory().expect("a file")), &tier);
        for _ in 0..6 {
            for _ in 0..60 {
                let name = key(prng.below(40) as usize);
                met_early += usize::from(rig.store.is_finding());
                match prng.below(12) {
                    0..5 => {
                        let value = format!("value {}", prng.next_u64()).into_bytes();
                        rig.put(&name, &value);
                        model.insert(name, value);
                    }
                    5 => {
                        rig.delete(&name);
                        model.remove(&name);
                    }
                    6 => {
                        let delete = Delete { mark_stale: true, ..Delete::default() };
                        rig.until_done(|guard| {
                            let key = guard.key(Namespace::DEFAULT, &name);
                            guard.items_mut().delete(&key, &delete)
                        });
                        rig.delete(&name);
                        model.remove(&name);
                    }
                    7 => {
                        rig.until_done(|guard| {
                            let key = guard.key(Namespace::DEFAULT, &name);
                            super::parted::replace(guard, &key, crate::Replacement::Remove)
                        });
                        model.remove(&name);
                    }
                    8 if !rig.store.is_rebuilding() => demote(&mut rig),
                    9 => {
                        let mut left = prng.below(4);
                        rig.background.slice(NOW, &mut || {
                            left = left.saturating_sub(1);
                            left == 0
                        });
                    }
                    _ => drop(check(&mut rig, &model, &name, seed)),
                }
            }
            rig = open_early(image(&rig), &tier);
        }
        find(&mut rig);
        there += (0..40).filter(|number| check(&mut rig, &model, &key(*number), seed)).count();
    }
    assert!(met_early > 1000, "{met_early} operations while something was found");
    assert!(there > 500, "{there} items are there in the end");
}

#[test]
fn unmodified_item_in_promotion_or_eviction_survives_kill() {
    let (tier, keys) = (Arc::new(MapTier::default()), keys(10));
    let mut rig = filled(&tier, &keys[..6]);
    keys[6..].iter().for_each(|key| rig.put(key, &[b"old ", &key[..]].concat()));
    let gone = crash(&mut rig, &tier, &keys, &[], |rig| {
        // The second read of an item brings it back.
        keys[..3].iter().chain(&keys[..3]).for_each(|key| serve(rig, key));
        assert_eq!((rig.store.flash_slots(), rig.store.stats().flash_back), (3, 3));
        demote(rig);
        assert_eq!(rig.store.flash_slots(), 3 + 4, "what was read stays in memory");
    });
    assert_eq!(gone, 0);
}
