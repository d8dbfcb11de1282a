//! Walks over all items while items are evicted to flash, brought back and rewritten to other regions. An item that
//! exists from begin to end is reported, wherever it is, and with the value that was stored last.

use std::collections::{HashMap, HashSet};

use segment::{IndexPlace, Namespace, Put, Stride};

use crate::world::World;

/// The results of a walk.
#[derive(Debug, Default)]
struct Walked {
    told: HashSet<Vec<u8>>,
    /// Number of reported items, including repetitions.
    visits: usize,
    /// Number of iterations that waited for the disk.
    parked: usize,
    /// Maximum number of items that one step reported.
    longest: usize,
}

/// Walks over everything, and calls `meanwhile` between iterations.
fn walk(world: &mut World, namespace: Namespace, mut meanwhile: impl FnMut(&mut World)) -> Walked {
    let (mut walked, mut stride) = (Walked::default(), Stride::default());
    let (mut cursor, mut step) = (Some(0), 0);
    while cursor.is_some() {
        let ended = world.walk_on(namespace, &mut cursor, &mut stride, &mut |key, _| {
            walked.told.insert(key.to_vec());
            (walked.visits, step) = (walked.visits + 1, step + 1);
        });
        if ended {
            (walked.longest, step) = (walked.longest.max(step), 0);
        }
        walked.parked += usize::from(!ended);
        assert!(walked.parked < 1_000_000, "it does not come to an end");
        meanwhile(world);
    }
    walked
}

/// Fills a world so that most items are on flash.
fn filled(mut world: World) -> World {
    (0..20_000).for_each(|_| drop(world.step()));
    world
}

#[test]
fn walk_reports_all_resident_items_as_they_move_between_tiers_and_regions() {
    for (seed, index) in [(1, None), (2, None), (3, Some(IndexPlace::File)), (4, Some(IndexPlace::Dram))] {
        println!("seed {seed}, {index:?}: cargo test -p gannet-flash --test model walking");
        let mut world = filled(index.map_or_else(|| World::new(seed), |index| World::in_file(seed, index)));
        let (stats, counts) = (world.store.stats(), world.flash.counts());
        let (mut stayed, mut parked) = (0, 0);
        for _ in 0..6 {
            let before = world.all();
            let mut changed = HashSet::new();
            let walked = walk(&mut world, Namespace::DEFAULT, |world| {
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
            for key in before.keys().filter(|key| after.contains_key(*key) && !changed.contains(*key)) {
                assert!(walked.told.contains(key), "{} stayed and was not told", key.escape_ascii());
                stayed += 1;
            }
            assert!(walked.longest < 512, "a step is a part of the index: {}", walked.longest);
            assert!(walked.visits < walked.told.len() * 12 / 10, "few are told twice: {}", walked.visits);
            parked += walked.parked;
        }
        let (now, counts_now) = (world.store.stats(), world.flash.counts());
        println!("{stayed} stayed, parked {parked} times");
        assert!(stayed > 2000 && parked > 500, "{stayed} {parked}");
        assert!(now.flash_taken > stats.flash_taken + 1000, "items are evicted to flash meanwhile");
        assert!(now.flash_back > stats.flash_back + 200, "and brought back: {} {}", now.flash_back, stats.flash_back);
        assert!(counts_now.regions_reclaimed > counts.regions_reclaimed + 5, "and regions freed under them");
        assert_eq!(now.flash_failed, 0);
        assert_eq!(world.items_on_flash(), now.flash_items);
    }
}

#[test]
fn walk_continues_and_ends_if_the_disk_fails() {
    let mut world = filled(World::new(7));
    let on_flash = world.items_on_flash();
    let mut iterations = 0;
    let walked = walk(&mut world, Namespace::DEFAULT, |world| {
        iterations += 1;
        if iterations == 500 {
            world.hand.vanish();
        }
        world.meanwhile();
    });
    assert_eq!(world.flash.devices().iter().filter(|device| device.lost).count(), 1);
    let after = world.all();
    assert!(after.keys().all(|key| walked.told.contains(key)), "what is in memory is told");
    let stats = world.store.stats();
    assert!(stats.flash_failed > 500, "what was on the disk are misses: {}", stats.flash_failed);
    assert!(world.items_on_flash() < on_flash / 2, "which lose their slots");
    let again = walk(&mut world, Namespace::DEFAULT, World::meanwhile);
    assert!(again.told.len() >= after.len());
}

#[test]
fn walk_from_a_key_reports_it_and_reports_no_key_twice() {
    let mut world = filled(World::new(8));
    let all = world.all();
    let mut places: Vec<(u64, Vec<u8>)> = Vec::new();
    for key in all.keys() {
        places.push((world.place(key), key.clone()));
    }
    places.sort();
    for number in (0..places.len()).step_by(37) {
        let (place, key) = &places[number];
        let (mut cursor, mut stride, mut told) = (Some(*place), Stride::default(), HashMap::new());
        while !world.walk_on(Namespace::DEFAULT, &mut cursor, &mut stride, &mut |key, _| {
            *told.entry(key.to_vec()).or_insert(0) += 1;
        }) {
            world.meanwhile();
        }
        assert_eq!(told.get(key), Some(&1), "{}", key.escape_ascii());
        let end = cursor.unwrap_or(u64::from(u32::MAX));
        for (key, times) in told {
            let place_of = world.place(&key);
            assert!(times == 1 && (*place..=end).contains(&place_of), "{place} {place_of} {end}");
        }
    }
}

#[test]
fn namespaces_are_not_mixed() {
    let mut world = filled(World::new(9));
    let other = Namespace(3);
    let keys: HashSet<Vec<u8>> = (0..1500).map(|number| format!("key:{number}").into_bytes()).collect();
    for key in &keys {
        world.done(|guard| {
            let key = guard.key(other, key);
            guard.items_mut().put(&key, &Put::set(b"of the other")).map(drop)
        });
    }
    (0..300).for_each(|_| {
        let key = world.key();
        world.set(&key);
    });
    let (mut cursor, mut stride, mut told) = (Some(0), Stride::default(), HashSet::new());
    while cursor.is_some() {
        world.walk_on(other, &mut cursor, &mut stride, &mut |key, value| {
            assert_eq!(value, b"of the other");
            told.insert(key.to_vec());
        });
        world.meanwhile();
    }
    assert!(told.is_subset(&keys) && told.len() > 1000, "{}", told.len());
    let all = world.all();
    let walked = walk(&mut world, Namespace::DEFAULT, World::meanwhile);
    assert!(all.keys().filter(|key| world_has(&walked, key)).count() * 100 > all.len() * 99);
}

fn world_has(walked: &Walked, key: &[u8]) -> bool {
    walked.told.contains(key)
}
