//! A store whose index is gone with the process, beside a second tier that is not: what was there is found again, and
//! nothing that was overwritten or deleted, wherever the process was cut, and cut again while it was finding.

use std::collections::BTreeMap;
use std::sync::Arc;

use arena::MapFile;
use base::prng::Prng;

use super::crashes::{NOW, Rig, config, images_of, key, keys};
use super::tiered::{demote, told, twins};
use crate::map_tier::{MapTier, PLAN, PLAN_FOUND};
use crate::op::{Delete, Put, PutMode};
use crate::tier_room::TierGround;
use crate::{IndexPlace, Namespace, StoreFile};

/// A store that has found nothing on flash yet.
fn open_early(file: Arc<MapFile>, tier: &Arc<MapTier>) -> Rig {
    let store_file =
        StoreFile { file: Arc::clone(&file), reset: false, index: IndexPlace::Dram, power: crate::Power::default() };
    let mut ground = TierGround::lay(&config(), Some(&store_file), &PLAN_FOUND, NOW).expect("the file is taken");
    tier.go_on(ground.take_room());
    let (store, background) = ground.store(Arc::clone(tier) as _, NOW).expect("a store");
    let lane = store.lane().expect("a lane");
    Rig { store, background, lane, file, now: NOW }
}

fn find(rig: &mut Rig) {
    while rig.store.is_finding() {
        rig.background.slice(NOW, &mut || false);
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

/// A store with all of these keys on flash.
fn filled(tier: &Arc<MapTier>, keys: &[Vec<u8>]) -> Rig {
    let mut rig = open(Arc::new(MapFile::in_memory().expect("a file")), tier);
    for key in keys {
        rig.put(key, &[b"old ", &key[..]].concat());
    }
    demote(&mut rig);
    assert_eq!(rig.store.flash_slots(), keys.len() as u64, "all are on flash");
    rig
}

/// Opens images of a `change` of a store that was [`filled`], at every store. Each key is as it was before or after,
/// but for `changed`, which may be gone where it was cut; what is deleted then stays so for the next process too.
fn crash(
    rig: &mut Rig,
    tier: &Arc<MapTier>,
    keys: &[Vec<u8>],
    changed: &[&[u8]],
    change: impl FnOnce(&mut Rig),
) -> usize {
    let all = |rig: &mut Rig| keys.iter().map(|key| told(rig, key)).collect::<Vec<_>>();
    let before: Vec<_> = keys.iter().map(|key| Some([b"old ", &key[..]].concat())).collect();
    let images = images_of(rig, 1, change);
    let after = all(rig);
    let mut gone = 0;
    for image in images {
        let again = Arc::new(image.image().expect("an image"));
        let mut rig = open(image, tier);
        for (place, there) in all(&mut rig).into_iter().enumerate() {
            let missed = there.is_none() && changed.contains(&&keys[place][..]);
            gone += usize::from(missed && before[place].is_some() && after[place].is_some());
            let name = keys[place].escape_ascii();
            assert!(there == before[place] || there == after[place] || missed, "{name}: {there:?}");
        }
        // Deleted before it is found, half of them, and killed before all are.
        let mut rig = open_early(again, tier);
        for (place, key) in keys.iter().enumerate() {
            if place == keys.len() / 2 {
                find(&mut rig);
            }
            rig.delete(key);
            assert_eq!(told(&mut rig, key), None, "{} came back", key.escape_ascii());
        }
        let mut next = open(self::image(&rig), tier);
        for key in keys {
            assert_eq!(told(&mut next, key), None, "{} came back to the next process", key.escape_ascii());
        }
        assert_eq!(next.store.flash_slots(), 0, "nothing names anything");
    }
    gone
}

#[test]
fn what_is_on_flash_is_found_again_and_served_before_all_is() {
    let (tier, keys) = (Arc::new(MapTier::default()), keys(40));
    let rig = filled(&tier, &keys);
    let mut rig = open_early(image(&rig), &tier);
    assert!(rig.store.is_finding() && told(&mut rig, &key(0)).is_none(), "it is found by nobody yet");
    rig.put(&key(7), b"new");
    assert!(!rig.delete(&key(8)), "it is not there yet");
    find(&mut rig);
    assert_eq!(rig.store.rebuild_progress().expect("it has found all").on_flash, 38);
    for (number, key) in keys.iter().enumerate() {
        let there = told(&mut rig, key);
        match number {
            7 => assert_eq!(there.as_deref(), Some(&b"new"[..])),
            8 => assert_eq!(there, None, "it was deleted before it was found"),
            _ => assert_eq!(there, Some([b"old ", &key[..]].concat())),
        }
    }
    assert_eq!((rig.store.flash_slots(), rig.store.stats().flash_items), (38, 38));
    // What is changed goes to flash too, and is found by the next one; what was read stays in memory.
    rig.put(&key(10), b"newer");
    demote(&mut rig);
    assert_eq!(rig.store.flash_slots(), 38);
    let mut rig = open(image(&rig), &tier);
    assert_eq!((rig.store.flash_slots(), told(&mut rig, &key(8))), (38, None));
    assert_eq!(told(&mut rig, &key(7)).as_deref(), Some(&b"new"[..]));
    assert_eq!(told(&mut rig, &key(10)).as_deref(), Some(&b"newer"[..]));
}

#[test]
fn an_overwrite_a_delete_and_an_eviction_that_were_cut_leave_nothing_older_behind() {
    let (tier, keys) = (Arc::new(MapTier::default()), keys(12));
    let mut rig = filled(&tier, &keys);
    let changed = [&keys[3][..], &keys[5], &keys[6]];
    let gone = crash(&mut rig, &tier, &keys, &changed, |rig| {
        assert!(rig.delete(&keys[3]));
        rig.put(&keys[5], b"new");
        rig.until_done(|turn| {
            let key = turn.key(Namespace::DEFAULT, &keys[6]);
            turn.put(&key, &Put { mode: PutMode::Append, ..Put::set(b" and more") })
        });
        demote(rig);
    });
    assert!(gone > 0, "the old copy is dead before the new one lives");
}

#[test]
fn keys_that_share_a_tag_and_are_stored_over_come_back_as_no_other() {
    let tier = Arc::new(MapTier::default());
    let twins = twins(&open(Arc::new(MapFile::in_memory().expect("a file")), &tier).store);
    for changed in &twins {
        let mut rig = filled(&tier, &twins);
        let both = [&twins[0][..], &twins[1]];
        crash(&mut rig, &tier, &twins, &both, |rig| rig.put(changed, b"new"));
    }
}

#[test]
fn finding_that_was_cut_is_done_again_and_what_was_changed_meanwhile_stays() {
    let (tier, keys) = (Arc::new(MapTier::default()), keys(24));
    let rig = filled(&tier, &keys);
    let mut rig = open_early(image(&rig), &tier);
    let changed: Vec<&[u8]> = [1, 2, 9, 20].into_iter().map(|number| &keys[number][..]).collect();
    crash(&mut rig, &tier, &keys, &changed, |rig| {
        rig.put(changed[0], b"new");
        assert!(!rig.delete(changed[1]));
        // It is in memory before flash is found, and on flash before that is.
        rig.background.slice(NOW, &mut || false);
        demote(rig);
        find(rig);
        rig.put(changed[2], b"new");
        assert!(rig.delete(changed[3]));
    });
    let mut rig = open(image(&rig), &tier);
    let there: Vec<_> = changed.iter().map(|key| told(&mut rig, key)).collect();
    assert_eq!(there, [Some(b"new".to_vec()), None, Some(b"new".to_vec()), None]);
    assert_eq!(keys.iter().filter(|key| told(&mut rig, key).is_some()).count(), 22);
}

#[test]
fn a_file_keeps_to_where_its_index_was_beside_a_second_tier_too() {
    for (made, asked, plan) in
        [(IndexPlace::Dram, IndexPlace::File, PLAN), (IndexPlace::File, IndexPlace::Dram, PLAN_FOUND)]
    {
        let file = Arc::new(MapFile::in_memory().expect("a file"));
        let of = |index| StoreFile { file: Arc::clone(&file), reset: false, index, power: crate::Power::default() };
        let first = if made == IndexPlace::Dram { PLAN_FOUND } else { PLAN };
        drop(TierGround::lay(&config(), Some(&of(made)), &first, NOW).expect("made"));
        let told = TierGround::lay(&config(), Some(&of(asked)), &plan, NOW).expect_err("it is refused").to_string();
        let flag = if made == IndexPlace::File { "--file-index file" } else { "--file-index dram" };
        assert!(told.contains(flag), "{told}");
    }
}

/// What the store may say of a key: what was stored last, or nothing.
fn check(rig: &mut Rig, model: &BTreeMap<Vec<u8>, Vec<u8>>, name: &[u8], seed: u64) -> bool {
    let there = told(rig, name);
    let right = there.is_none() || there.as_ref() == model.get(name);
    assert!(right, "seed {seed}: {} holds {there:?}, not {:?}", name.escape_ascii(), model.get(name));
    there.is_some()
}

#[test]
fn whatever_is_done_and_whenever_it_is_killed_no_key_holds_anything_but_what_was_stored_last() {
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
                        rig.until_done(|turn| turn.delete(&turn.key(Namespace::DEFAULT, &name), &delete));
                        rig.delete(&name);
                        model.remove(&name);
                    }
                    7 => {
                        rig.until_done(|turn| {
                            let key = turn.key(Namespace::DEFAULT, &name);
                            turn.change(&key, &mut |_, _, _| crate::Change::Remove(()))
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
