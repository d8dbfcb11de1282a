//! A store with a second tier, compared with a plain map and a clock: all operations, with device answers in any order,
//! on disks that work, that tear writes and that vanish.
//!
//! If the store has lost an item, the read is a miss and the model forgets the item. If the store has the item, its
//! value must be the one that was stored last. An item that ended for any reason never reappears.

mod counting;
mod cutting;
mod found;
mod hashes;
mod power;
mod walking;
mod world;

use gannet_flash::Faults;
use segment::IndexPlace;
use world::{Seen, World};

/// The number of operations of one run.
const OPS: u64 = 120_000;

fn run(seed: u64, mut at: impl FnMut(&mut World, u64)) -> World {
    println!("SEED={seed} cargo test -p gannet-flash --test model");
    let mut world = World::new(seed);
    for number in 0..OPS {
        at(&mut world, number);
        world.step();
    }
    world
}

fn seeds() -> Vec<u64> {
    match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => vec![1, 2],
    }
}

#[test]
fn store_with_flash_equals_a_map_except_for_misses() {
    for seed in seeds() {
        let world = run(seed, |_, _| {});
        let stats = world.store.stats();
        let counts = world.flash.counts();
        let Seen { hits, from_flash, misses, changed, .. } = world.seen;
        println!("{stats:?}\n{counts:?}\n{:?}", world.seen);
        assert!(hits > OPS / 10 && misses > 100 && changed > OPS / 10, "{:?}", world.seen);
        assert!(from_flash > OPS / 100, "values are told from flash: {from_flash}");
        assert!(stats.flash_back > 1000, "items come back to be changed: {}", stats.flash_back);
        assert!(stats.flash_again > 10, "what was read goes on in another region: {}", stats.flash_again);
        assert!(stats.flash_evicted > 100, "items go with their regions: {}", stats.flash_evicted);
        assert!(counts.regions_reclaimed > 40, "regions are written more than once: {}", counts.regions_reclaimed);
        assert!(counts.reads_in_memory > 100, "what is not written yet is read: {}", counts.reads_in_memory);
        let first = counts.item_bytes - counts.again_bytes;
        assert!(counts.written_bytes * 10 <= first * 14, "devices write 1.4 times what is evicted: {counts:?}");
        assert_eq!((stats.flash_failed, counts.reclaim_failed, counts.devices_lost), (0, 0, 0));
        assert!(world.items_on_flash() == stats.flash_items, "each slot is counted once");
    }
}

#[test]
fn torn_write_is_a_miss_and_never_a_wrong_value() {
    for seed in seeds() {
        let world = run(seed + 100, |world, number| {
            if number == 1000 {
                world.hand.set(Faults { torn_writes: 300, ..Faults::default() });
            }
        });
        let (stats, counts) = (world.store.stats(), world.flash.counts());
        assert!(world.hand.torn() > 20, "writes were torn: {}", world.hand.torn());
        assert!(stats.flash_failed > 20, "and found out: {}", stats.flash_failed);
        assert!(counts.reclaim_failed > 0 && counts.regions_reclaimed > 20 && stats.flash_hits > 100, "{counts:?}");
        assert_eq!(counts.devices_lost, 0);
    }
}

#[test]
fn failed_disk_is_abandoned_and_the_store_continues() {
    for (seed, faults) in [
        (31, None),
        (32, Some(Faults { read_errors: 500, ..Faults::default() })),
        (33, Some(Faults { write_errors: 500, ..Faults::default() })),
    ] {
        let world = run(seed, |world, number| {
            if number == OPS / 2 {
                match faults {
                    None => world.hand.vanish(),
                    Some(faults) => world.hand.set(faults),
                }
            }
        });
        assert_eq!((world.flash.counts().devices_lost, world.lost()), (1, 1), "it is told once");
        assert!(world.flash.devices()[0].lost);
        let stats = world.store.stats();
        assert!(stats.flash_items < 1000 && world.seen.hits_late > 1000, "{:?}", world.seen);
    }
}

#[test]
fn repeated_eviction_into_a_block_never_returns_a_stale_value() {
    let mut world = World::new(60);
    (0..20_000).for_each(|_| drop(world.step()));
    let mut from_flash = 0;
    for number in 0..20u8 {
        // No other item expires as late, so evicted items of this TTL class lie together.
        let before = world.seen.from_flash;
        world.set_late(b"lonely", &[number; 20]);
        (0..3000).for_each(|_| drop(world.step()));
        world.read(b"lonely");
        from_flash += world.seen.from_flash - before;
        let there = world.value_now(b"lonely");
        assert!(there.is_none_or(|value| value == [number; 20]), "it is what it was before");
    }
    assert!(from_flash > 0);
}

/// Runs for a while, ends the process with `end`, and repeats this for `lives` lives. Flushes everything only once,
/// just before the end of the second life, so that the seed does not decide whether items reach flash.
fn lives(seed: u64, index: IndexPlace, lives: usize, mut end: impl FnMut(&mut World)) -> World {
    println!("SEED={seed} cargo test -p gannet-flash --test model");
    let mut world = World::in_file(seed, index);
    world.flushes = false;
    (0..20_000).for_each(|_| drop(world.step()));
    for life in 0..lives {
        if life == 1 {
            world.flush();
        }
        end(&mut world);
        (0..4000).for_each(|_| drop(world.step()));
    }
    world
}

#[test]
fn items_before_a_kill_are_exactly_the_items_after_it() {
    for seed in seeds() {
        let (mut on_flash, mut lives_ended, mut reclaimed) = (0, 0, 0);
        let world = lives(seed, IndexPlace::File, 8, |world| {
            lives_ended += 1;
            reclaimed += if lives_ended > 1 { world.flash.counts().regions_reclaimed } else { 0 };
            let before = world.all();
            world.kill();
            let found = world.store.stats();
            on_flash += found.flash_items;
            assert_eq!(found.flash_items, world.items_on_flash(), "they are counted");
            let after = world.all();
            assert!(before == after, "{} keys were there, and {} are", before.len(), after.len());
            assert_eq!(world.check(), after.len());
        });
        // Expired items are removed while memory is short, and not stored on flash.
        assert!(on_flash > 7 * 1000, "most of them were on flash: {on_flash}");
        assert_eq!((world.store.stats().flash_failed, world.flash.counts().devices_lost), (0, 0));
        reclaimed += world.flash.counts().regions_reclaimed;
        println!("{reclaimed} regions");
        assert!(reclaimed > 8, "regions of earlier processes are written again: {reclaimed}");
    }
}

#[test]
fn items_lost_when_the_disk_is_cut_off_are_misses_and_never_stale() {
    for seed in seeds() {
        let (mut before, mut after) = (0, 0);
        lives(seed + 50, IndexPlace::File, 8, |world| {
            before += world.all().len();
            world.cut_off();
            after += world.check();
        });
        assert!(after < before && after > before / 2, "{after} of {before}: some was lost, and not all");
    }
}

#[test]
fn items_on_a_replaced_disk_are_lost_permanently() {
    for seed in seeds() {
        let (mut lost, mut left) = (0, 0);
        lives(seed + 70, IndexPlace::File, 4, |world| {
            world.exchange();
            assert_eq!(world.flash.exchanged(), ["simulated"]);
            assert_eq!((world.items_on_flash(), world.store.stats().flash_items), (0, 0));
            lost += world.store.reopened().expect("it is in a file").flash_lost;
            left += world.check();
        });
        assert!(lost > 2000 && left > 1000, "{lost} items were on the disks, {left} were not");
    }
}
