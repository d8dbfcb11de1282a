//! The model with an index that is lost with the process: items on flash are found again through the footers of chunks.

use gannet_flash::Faults;
use segment::IndexPlace;

use crate::world::World;
use crate::{lives, seeds};

const DRAM: IndexPlace = IndexPlace::Dram;

#[test]
fn recovery_after_a_kill_finds_only_items_that_existed_before() {
    for seed in seeds() {
        let (mut on_flash, mut lost, mut there) = (0, 0, 0);
        let world = lives(seed + 10, DRAM, 8, |world| {
            let before = world.all();
            world.kill();
            world.find_all();
            let found = world.store.stats();
            on_flash += found.flash_items;
            assert_eq!(found.flash_items, world.items_on_flash(), "they are counted");
            let after = world.all();
            assert!(after.iter().all(|(key, value)| before.get(key) == Some(value)), "nothing is there that was not");
            assert_eq!(world.check(), after.len());
            (lost, there) = (lost + before.len() - after.len(), there + after.len());
        });
        assert!(on_flash > 8 * 500, "many of them were on flash: {on_flash}");
        // Items that share a block and a bit with dead items are lost.
        assert!(lost * 10 < there, "{lost} of {there} are lost");
        assert_eq!((world.store.stats().flash_failed, world.flash.counts().devices_lost), (0, 0));
        assert!(world.flash.counts().regions_reclaimed > 0, "regions of earlier processes are written again");
        assert_eq!(world.flash.counts().footers_failed, 0);
    }
}

#[test]
fn changes_during_flash_recovery_survive_kills_at_any_time() {
    for seed in seeds() {
        println!("SEED={seed} cargo test -p gannet-flash --test model");
        let mut world = World::in_file(seed + 20, DRAM);
        (0..20_000).for_each(|_| drop(world.step()));
        let (mut finding, mut found) = (0, 0);
        for life in 0..60 {
            world.kill();
            for _ in 0..[3, 40, 300, 2000][life % 4] {
                finding += usize::from(world.store.is_finding());
                world.step();
            }
            world.check();
            found += world.flash.counts().found;
        }
        world.find_all();
        assert!(finding > 1000 && found > 5000, "{finding} operations while {found} items were found");
        assert!(world.check() > 1000, "and there is still something");
    }
}

#[test]
fn step_cut_between_store_and_tier_never_recovers_a_stale_item() {
    for seed in seeds() {
        println!("SEED={seed} cargo test -p gannet-flash --test model");
        let mut world = World::in_file(seed + 60, DRAM);
        (0..20_000).for_each(|_| drop(world.step()));
        let (mut cuts, mut there) = (0, 0);
        while cuts < 40 {
            (0..50).for_each(|_| drop(world.step()));
            let (images, key) = world.cut_step();
            for mut image in images.into_iter().take(12) {
                image.find_all();
                there += image.check_but(&key);
                cuts += 1;
                // The process that found the items continues, and is killed again.
                (0..20).for_each(|_| drop(image.step()));
                image.kill();
                image.find_all();
                image.check();
            }
        }
        assert!(there > 100 * cuts, "{there} items in {cuts} images");
    }
}

#[test]
fn items_displaced_from_a_crowded_index_do_not_reappear_after_a_kill() {
    for seed in seeds() {
        println!("SEED={seed} cargo test -p gannet-flash --test model");
        let mut world = World::of_slots(seed + 40, DRAM, 3072);
        (0..20_000).for_each(|_| drop(world.step()));
        let mut displaced = 0;
        for _ in 0..12 {
            displaced += world.store.stats().displaced;
            world.kill();
            world.find_all();
            world.check();
            (0..1000).for_each(|_| drop(world.step()));
        }
        assert!(displaced > 100, "the index is crowded: {displaced}");
    }
}

#[test]
fn items_lost_when_the_disk_is_cut_off_are_misses_and_never_stale() {
    for seed in seeds() {
        let (mut before, mut after, mut failed) = (0, 0, 0);
        lives(seed + 50, DRAM, 8, |world| {
            before += world.all().len();
            world.cut_off();
            world.find_all();
            failed += world.flash.counts().footers_failed;
            after += world.check();
        });
        assert!(after < before && after > before / 3, "{after} of {before}: some was lost, and not all");
        assert!(failed > 0, "footers were torn");
    }
}

#[test]
fn items_on_a_disk_replaced_or_failing_in_recovery_stay_lost() {
    for seed in seeds() {
        let mut left = 0;
        lives(seed + 70, DRAM, 6, |world| {
            world.exchange();
            assert_eq!(world.flash.exchanged(), ["simulated"]);
            assert!(world.items_on_flash() == 0 && world.flash.regions_unread() == 0, "there is nothing to be found");
            world.find_all();
            left += world.check();
        });
        assert!(left > 1000, "{left} were in memory");
        let mut world = World::in_file(seed + 80, DRAM);
        (0..20_000).for_each(|_| drop(world.step()));
        world.kill();
        assert!(world.store.is_finding());
        world.hand.set(Faults { read_errors: 300, ..Faults::default() });
        (0..2000).for_each(|_| drop(world.step()));
        world.find_all();
        assert_eq!(world.flash.counts().devices_lost, 1);
        let on_flash = world.store.stats().flash_items;
        // The same disk without faults: items that were lost before are not found again.
        world.hand.set(Faults::default());
        world.kill();
        world.find_all();
        assert!(world.store.stats().flash_items <= on_flash, "nothing is found that was lost");
        world.check();
    }
}
