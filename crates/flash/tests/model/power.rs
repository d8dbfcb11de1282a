//! Power loss with checkpoints of the memory file. After a power loss, all items on flash are lost. After a kill or a
//! clean end, all of them remain.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arena::{MapFile, PAGE_BYTES};
use base::prng::Prng;
use segment::{Delete, Finished, IndexPlace, Namespace, Power};

use crate::seeds;
use crate::world::{Live, SLOTS, World};

/// The state known to be on the disk of the memory file, if checkpoints are made.
#[derive(Default)]
pub struct Synced {
    /// The file at the last checkpoint.
    pub file: Option<Arc<MapFile>>,
    /// The values that each key had at that checkpoint or had since.
    pub told: HashMap<Vec<u8>, Vec<Live>>,
}

/// Randomly reverts changed pages of `late` to their state in `early`. On average, `late_of_ten` of ten changed pages
/// keep their new state.
fn mix(early: &MapFile, late: &MapFile, late_of_ten: u64, random: &mut Prng) {
    let open = |file: &MapFile| File::from(file.as_fd().try_clone_to_owned().expect("a descriptor"));
    let (early_file, late_file) = (open(early), open(late));
    let mut pages = [[0; PAGE_BYTES]; 2];
    for at in (0..late.bytes().expect("its length")).step_by(PAGE_BYTES) {
        for (file, page) in [&early_file, &late_file].into_iter().zip(&mut pages) {
            file.read_exact_at(page, at).expect("it is there");
        }
        if pages[0] != pages[1] && !random.chance(late_of_ten, 10) {
            late_file.write_all_at(&pages[0], at).expect("written");
        }
    }
}

impl World {
    /// Creates a world with checkpoints, in the first boot of its machine.
    pub fn with_checkpoints(seed: u64, index: IndexPlace) -> Self {
        Self::of_power(seed, index, SLOTS, Power { boot: 1, checkpoints: true })
    }

    pub fn image(&self) -> Arc<MapFile> {
        let (file, _) = self.file.as_ref().expect("it is in a file");
        Arc::new(file.image().expect("an image"))
    }

    /// Makes a checkpoint.
    pub fn checkpoint(&mut self) {
        let mut checkpointer = self.store.checkpointer().expect("it makes them");
        assert!(checkpointer.begin(self.now));
        while !checkpointer.is_sealed() {
            self.handle.tidy(self.now);
            self.meanwhile();
        }
        assert_eq!(checkpointer.finish().expect("the disk takes it"), Finished::Made);
        self.synced.file = Some(self.image());
        self.synced.told = self.model.iter().map(|(key, live)| (key.clone(), vec![live.clone()])).collect();
    }

    /// Simulates a power loss. Each page of the memory file reverts to the last checkpoint or keeps its present state,
    /// the latter for `late_of_ten` of ten pages. The disk loses its unsynced writes. Checks that each value found was
    /// current at the checkpoint or later. Returns the number of keys with a value.
    pub fn lose_power(&mut self, late_of_ten: u64) -> usize {
        let (early, late) = (self.synced.file.take().expect("there is a checkpoint"), self.image());
        mix(&early, &late, late_of_ten, &mut self.random);
        let told = std::mem::take(&mut self.synced.told);
        self.power.boot += 1;
        let seed = self.random.next_u64();
        self.begin_in(late, self.hand.copy_cut_off(seed), seed);
        self.find_all();
        self.model.clear();
        for (key, value) in self.all() {
            let was = told.get(&key).and_then(|was| was.iter().rev().find(|live| live.value == value));
            let live = was.unwrap_or_else(|| panic!("{}: older, or never there", key.escape_ascii())).clone();
            // If two states with the same value differ in anything else, it is unknown which of them this is.
            if told[&key]
                .iter()
                .any(|other| other.value == value && (other.flags, other.expire) != (live.flags, live.expire))
            {
                self.done(|guard| {
                    let key = guard.key(Namespace::DEFAULT, &key);
                    guard.items_mut().delete(&key, &Delete::default())
                });
            } else {
                self.model.insert(key, Live { token: None, ..live });
            }
        }
        self.model.len()
    }

    /// Ends the process cleanly, then restarts the machine. The disk keeps its synced writes.
    pub fn stop_and_start(&mut self) {
        let _ = self.store.leave();
        self.power.boot += 1;
        self.cut_off();
    }
}

const BOTH: [IndexPlace; 2] = [IndexPlace::File, IndexPlace::Dram];

/// Creates a store with checkpoints and many items on flash.
fn filled(seed: u64, index: IndexPlace) -> World {
    println!("SEED={seed} cargo test -p gannet-flash --test model");
    let mut world = World::with_checkpoints(seed, index);
    (0..15_000).for_each(|_| drop(world.step()));
    world
}

/// The number of steps after which memory is full and items are on flash, whatever the steps before were.
const FILLING: usize = 9000;

impl World {
    /// Fills memory and flash. A flush among the last steps would leave too few items to prove anything.
    fn fill(&mut self, steps: usize) {
        (0..steps).for_each(|_| drop(self.step()));
        self.flushes = false;
        (0..FILLING).for_each(|_| drop(self.step()));
        self.flushes = true;
    }
}

#[test]
fn flash_is_emptied_and_refilled_after_a_power_loss() {
    for (seed, index) in seeds().into_iter().flat_map(|seed| BOTH.map(|index| (seed, index))) {
        let mut world = filled(seed + 200, index);
        world.fill(0);
        // Covers all cases from the loss of all later pages to the loss of none.
        for late_of_ten in [0, 10, 5, 1, 9, 5] {
            world.checkpoint();
            let (items, on_flash) = (world.store.stats().items, world.items_on_flash());
            assert!(items > 300 && on_flash > 0, "seed {seed}: {items} items in memory, {on_flash} on flash");
            // Long enough that regions must start new lives.
            (0..4000).for_each(|_| drop(world.step()));
            let there = world.lose_power(late_of_ten) as u64;
            // The disk has the checkpoint alone: only what has expired since is missing.
            assert!(late_of_ten > 0 || there * 4 > items * 3, "seed {seed}: {there} of {items} keys are there");
            let reopened = *world.store.reopened().expect("it is in a file");
            assert!(reopened.lost && reopened.flash_emptied, "{reopened:?}");
            assert_eq!((world.items_on_flash(), world.store.stats().flash_items), (0, 0), "seed {seed}, {index:?}");
            let (free, all) = world.flash.regions();
            assert_eq!(free, all, "regions that are free");
            // Slots alone decide each miss, because none references the former items.
            world.fill(3000);
            assert_eq!((world.store.stats().flash_failed, world.flash.counts().reclaim_failed), (0, 0));
            world.check();
        }
    }
}

#[test]
fn a_kill_and_an_end_in_order_leave_all_on_flash_as_it_was() {
    for (seed, index) in seeds().into_iter().flat_map(|seed| BOTH.map(|index| (seed, index))) {
        let mut world = filled(seed + 300, index);
        world.flushes = false;
        let mut all = 0;
        for life in 0..6 {
            world.checkpoint();
            (0..1000).for_each(|_| drop(world.step()));
            let (before, on_flash) = (world.all(), world.items_on_flash());
            // The disk keeps the state synced at the end, and nothing was written after that.
            if life % 2 == 0 {
                world.kill()
            } else {
                world.stop_and_start()
            }
            world.find_all();
            let reopened = *world.store.reopened().expect("it is in a file");
            assert!(!reopened.lost && !reopened.flash_emptied && reopened.clean == (life % 2 == 1), "{reopened:?}");
            let (after, found) = (world.all(), world.items_on_flash());
            all += on_flash;
            match index {
                IndexPlace::File => assert!(before == after && found == on_flash, "life {life}: {found} of {on_flash}"),
                // Items that share a block and a bit with dead items are lost.
                IndexPlace::Dram => assert!(found * 10 >= on_flash * 9, "life {life}: {found} of {on_flash}"),
            }
            assert_eq!((world.flash.counts().footers_failed, world.store.stats().flash_failed), (0, 0));
            world.check();
        }
        assert!(all > 6 * 500, "{all} were on flash");
    }
}
