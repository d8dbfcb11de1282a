//! The key counts of namespaces while items overwrite those of other namespaces, are flushed, evicted and brought back.

use std::collections::HashSet;

use base::prng::Prng;
use segment::{IndexPlace, Namespace, Put, Stride};

use crate::world::World;

const OTHER: Namespace = Namespace(3);

fn put(world: &mut World, namespace: Namespace, number: u64) {
    let (key, value) = (format!("key:{number}"), vec![b'v'; 150 + number as usize % 200]);
    world.done(|guard| {
        let key = guard.key(namespace, key.as_bytes());
        guard.items_mut().put(&key, &Put::set(&value)).map(drop)
    });
}

/// Returns the number of keys that a walk reports, and the number of keys that the store counts.
fn told_and_counted(world: &mut World, namespace: Namespace) -> (u64, u64) {
    let (mut told, mut cursor, mut stride) = (HashSet::new(), Some(0), Stride::default());
    while let Some(from) = cursor {
        let next = world.guard(|guard| {
            guard.walks().walk(namespace, from, &mut stride, &mut |item| {
                told.insert(item.key.to_vec());
            })
        });
        match next {
            Ok(next) => cursor = next,
            Err(_) => world.work_all(),
        }
    }
    (told.len() as u64, world.store.keys(namespace))
}

/// Stores items in both namespaces, less often in the other one.
fn go_on(world: &mut World, random: &mut Prng) {
    for _ in 0..12_000 {
        let (namespace, keys) = if random.chance(1, 6) { (OTHER, 2500) } else { (Namespace::DEFAULT, 3500) };
        put(world, namespace, random.below(keys));
    }
}

/// Returns the larger of the two namespaces' counting errors.
fn off_by(world: &mut World) -> u64 {
    let off = [OTHER, Namespace::DEFAULT].map(|namespace| {
        let (told, counted) = told_and_counted(world, namespace);
        println!("{namespace:?}: {told} told, {counted} counted, {} on flash", world.items_on_flash());
        assert!(told > 1000, "{told} told");
        told.abs_diff(counted)
    });
    off.into_iter().max().expect("two")
}

fn filled(mut world: World) -> World {
    (0..2500).for_each(|number| put(&mut world, OTHER, number));
    (0..3500).for_each(|number| put(&mut world, Namespace::DEFAULT, number));
    world
}

#[test]
fn item_counts_stay_accurate_when_namespaces_overwrite_each_other() {
    let (mut world, mut random) = (filled(World::new(21)), Prng::new(21));
    for _ in 0..10 {
        go_on(&mut world, &mut random);
        assert!(off_by(&mut world) <= 3, "those of the regions that are there");
    }
    let counts = world.flash.counts();
    assert!(counts.regions_reclaimed > 200, "{counts:?}");
}

#[test]
fn estimated_counts_become_exact_once_all_regions_are_rewritten() {
    for index in [IndexPlace::File, IndexPlace::Dram] {
        println!("{index:?}");
        let (mut world, mut random) = (filled(World::in_file(23, index)), Prng::new(23));
        go_on(&mut world, &mut random);
        world.kill();
        world.find_all();
        let before = off_by(&mut world);
        assert!(before > 20, "it is an estimate: {before}");
        (0..4).for_each(|_| go_on(&mut world, &mut random));
        assert!(off_by(&mut world) <= 3);
    }
}

#[test]
fn flushed_items_are_not_counted_and_later_items_are_counted_once() {
    let (mut world, mut random) = (World::new(22), Prng::new(22));
    for round in 0..5 {
        for _ in 0..10_000 {
            put(&mut world, Namespace::DEFAULT, random.below(5000));
        }
        let (told, counted) = told_and_counted(&mut world, Namespace::DEFAULT);
        println!("{round}: {told} told, {counted} counted, {} on flash", world.items_on_flash());
        assert!(told > 2000 && told.abs_diff(counted) <= 4, "{told} told, {counted} counted");
        world.done(|guard| guard.items_mut().flush(Namespace::DEFAULT));
        assert_eq!(told_and_counted(&mut world, Namespace::DEFAULT), (0, 0));
    }
}
