//! Lookups of items by the hashes of their keys, in the order of some index. Meanwhile items are evicted to flash,
//! brought back and rewritten to other regions. Every item that stays is reported, and no outdated one.

use std::collections::HashSet;

use base::prng::Prng;
use segment::IndexPlace;

use crate::world::World;

/// Looks up every key in the given order, and calls `meanwhile` between iterations. Returns the reported keys, and the
/// number of iterations that ended in a wait.
fn ask(world: &mut World, keys: &[Vec<u8>], mut meanwhile: impl FnMut(&mut World)) -> (HashSet<Vec<u8>>, usize) {
    let (mut told, mut parked, mut at) = (HashSet::new(), 0, 0);
    while at < keys.len() {
        let before = at;
        world.hashes_on(keys, &mut at, &mut |key| {
            told.insert(key.to_vec());
        });
        parked += usize::from(at < keys.len());
        assert!(at > before || parked < 1_000_000, "it does not come to an end");
        meanwhile(world);
    }
    (told, parked)
}

fn filled(mut world: World) -> (World, Vec<Vec<u8>>) {
    // After a flush, too few items would be on flash.
    world.flushes = false;
    (0..20_000).for_each(|_| drop(world.step()));
    let mut keys: Vec<Vec<u8>> = world.all().into_keys().collect();
    keys.sort_unstable();
    // Some keys that do not exist, and some that occur twice.
    keys.extend((0..500).map(|number| format!("none:{number}").into_bytes()));
    keys.extend_from_within(..500);
    let mut random = Prng::new(1);
    (1..keys.len()).for_each(|at| keys.swap(at, random.below(at as u64 + 1) as usize));
    (world, keys)
}

#[test]
fn resident_items_are_listed_by_hash_from_any_tier_and_read_once() {
    for (seed, index) in [(1, None), (2, None), (3, Some(IndexPlace::File)), (4, Some(IndexPlace::Dram))] {
        println!("seed {seed}, {index:?}: cargo test -p gannet-flash --test model hashes");
        let (mut world, keys) = filled(index.map_or_else(|| World::new(seed), |index| World::in_file(seed, index)));
        let reads = world.flash.counts().reads;
        let (told, parked) = ask(&mut world, &keys, World::work_all);
        let (quiet, all) = (world.flash.counts().reads - reads, world.all());
        assert!(told.len() == all.len() && all.keys().all(|key| told.contains(key)), "{} {}", told.len(), all.len());
        let on_flash = world.items_on_flash();
        assert!(quiet < on_flash * 13 / 10, "{quiet} reads of {on_flash} items");
        assert!(parked < keys.len() / 4, "many are read at once: parked {parked} times for {}", keys.len());

        let (stats, mut stayed) = (world.store.stats(), 0);
        for _ in 0..4 {
            let (before, mut changed) = (world.all(), HashSet::new());
            let (told, _) = ask(&mut world, &keys, |world| {
                for _ in 0..24 {
                    let key = world.key();
                    world.read(&key);
                    let key = world.key();
                    world.set(&key);
                    changed.insert(key);
                    world.meanwhile();
                }
            });
            let after = world.all();
            let asked = keys.iter().filter(|key| before.contains_key(*key) && after.contains_key(*key));
            for key in asked.filter(|key| !changed.contains(*key)) {
                assert!(told.contains(key), "{} stayed and was not told", key.escape_ascii());
                stayed += 1;
            }
        }
        let now = world.store.stats();
        assert!(stayed > 2000, "{stayed}");
        assert!(now.flash_taken > stats.flash_taken + 1000, "items are evicted to flash meanwhile");
        assert!(now.flash_back > stats.flash_back + 200, "and brought back: {} {}", now.flash_back, stats.flash_back);
        assert_eq!(now.flash_failed, 0);
    }
}

#[test]
fn lookup_by_hash_ends_and_skips_lost_items_if_the_disk_fails() {
    let (mut world, keys) = filled(World::new(7));
    let mut iterations = 0;
    let (told, _) = ask(&mut world, &keys, |world| {
        iterations += 1;
        if iterations == 200 {
            world.hand.vanish();
        }
        world.meanwhile();
    });
    assert_eq!(world.flash.devices().iter().filter(|device| device.lost).count(), 1);
    let after = world.all();
    assert!(after.keys().filter(|key| keys.contains(key)).all(|key| told.contains(key)), "what is in memory is told");
    assert!(world.store.stats().flash_failed > 200, "what was on the disk are misses");
    assert!(told.len() < keys.len() * 3 / 4, "{} of {}", told.len(), keys.len());
}
