//! Randomised tests of power losses. A store runs operations, makes checkpoints and is opened again on a [`Disk`]. The
//! test opens possible images of that disk, and compares their items with those at the checkpoint and later.
//!
//! Images are taken between operations, and during a sync just before it takes effect. From some images the test
//! continues, until the next power loss.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arena::MapFile;
use base::clock::UnixMillis;
use base::prng::Prng;

use super::crashes::{NOW, Rig, at, key, place, set_power};
use super::disk::{Disk, set_disk, with_disk};
use super::tiered::{demote, open_beside, plan_at, read_tiered};
use crate::core::op::OpError;
use crate::map_tier::MapTier;
use crate::{Checkpointer, Expire, Finished, Guard, IndexPlace, Key, KeyLocks, Namespace, Power, Put, Reopened};

/// The values of a key, each with the step after which the key had it. `None` means that the key had no value.
type History = Vec<(u64, Option<Vec<u8>>)>;

/// The state of the last checkpoint.
#[derive(Clone, Default)]
struct Known {
    /// The step at which the checkpoint began.
    step: u64,
    /// The step at which the checkpoint was recorded as complete.
    noted: u64,
    /// The places of the items when the checkpoint was made: address and sequence.
    places: BTreeMap<Vec<u8>, (usize, u64)>,
    /// The trios of which the checkpoint would contain only a part of a change.
    split: Vec<usize>,
}

/// The counts of the cases that the test has reached.
#[derive(Debug, Default)]
struct Reached {
    lost: u64,
    lost_all: u64,
    clean: u64,
    hits: u64,
    held_to: u64,
    reverted: u64,
    emptied: u64,
    torn: u64,
    trios: u64,
    split: u64,
    refused: u64,
}

/// The counts of the cases that the test has reached with a second tier.
#[derive(Debug, Default)]
struct ReachedOnFlash {
    /// The number of power losses, and the number of items that were on flash at these losses.
    lost: u64,
    gone: u64,
    /// The number of items served from flash after a kill or a clean stop.
    hits: u64,
}

struct World {
    rig: Option<Rig>,
    tier: Option<Arc<MapTier>>,
    checkpointer: Option<Checkpointer>,
    key_locks: Option<Together>,
    prng: Prng,
    boot: u128,
    step: u64,
    histories: BTreeMap<Vec<u8>, History>,
    /// The checkpoints, by the instant at which they began.
    checkpoints: BTreeMap<u64, Known>,
    reached: Reached,
    on_flash: ReachedOnFlash,
}

const KEYS: usize = 40;
const TRIOS: usize = 4;

/// Returns three keys that are changed atomically: a text, a number and a text. Each value contains the step at which
/// the change began.
fn trio(number: usize) -> [Vec<u8>; 3] {
    ["left", "sum", "right"].map(|part| format!("{part}-{number}").into_bytes())
}

fn all_keys() -> Vec<Vec<u8>> {
    (0..KEYS).map(key).chain((0..TRIOS).flat_map(trio)).collect()
}

/// A change of a trio that is in progress.
struct Together {
    key_locks: KeyLocks,
    number: usize,
    /// The value that the change writes: the step at which it began.
    says: u64,
    /// The number of keys that are already changed.
    done: usize,
}

impl World {
    fn new(seed: u64, tier: Option<Arc<MapTier>>) -> Self {
        let file = Arc::new(MapFile::in_memory().expect("a file"));
        let prng = Prng::new(seed ^ 0x5151);
        set_disk(Some(Disk::new(file, prng).beside(tier.as_ref().map(|_| plan_at(place())))));
        let mut world = Self {
            rig: None,
            tier,
            checkpointer: None,
            key_locks: None,
            prng: Prng::new(seed),
            boot: 1,
            step: 1,
            histories: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            reached: Reached::default(),
            on_flash: ReachedOnFlash::default(),
        };
        world.open();
        // A power loss before the creation of a file is complete leaves a file that the store refuses with a message.
        with_disk(|disk| disk.taken.clear());
        world
    }

    fn open(&mut self) {
        set_power(Power { boot: self.boot, checkpoints: true });
        let file = with_disk(|disk| Arc::clone(&disk.file));
        self.rig = Some(open_on(file, self.tier.as_ref(), NOW.plus_ms(self.step)));
        self.checkpointer = self.rig().store.checkpointer();
        assert!(self.checkpointer.is_some());
    }

    fn rig(&mut self) -> &mut Rig {
        self.rig.as_mut().expect("it is open")
    }

    fn changed(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        self.histories.entry(key.to_vec()).or_default().push((self.step, value));
    }

    fn value(&mut self, key: &[u8]) -> Vec<u8> {
        let mut value = [key, format!(":{}:", self.step).as_bytes()].concat();
        let len = [10, 20, 20, 50, 300, 1500][self.prng.below(6) as usize];
        let fill = value.clone();
        while value.len() < len {
            value.extend_from_slice(&fill);
        }
        value
    }

    /// Runs one random operation.
    fn act(&mut self) {
        self.step += 1;
        with_disk(|disk| disk.step = self.step);
        let name = key(self.prng.below(KEYS as u64) as usize);
        if self.tier.is_some() && self.key_locks.is_none() && self.prng.chance(1, 12) {
            return demote(self.rig());
        }
        match self.prng.below(100) {
            0..50 => {
                let value = self.value(&name);
                self.rig().put(&name, &value);
                self.changed(&name, Some(value));
            }
            50..60 => {
                self.rig().delete(&name);
                self.changed(&name, None);
            }
            60..75 => self.go_on_together(),
            75..80 => self.begin_checkpoint(),
            80..88 => self.end_checkpoint(),
            88..94 => {
                let now = NOW.plus_ms(self.step);
                self.rig().background.slice(now, &mut || false);
            }
            94..97 => with_disk(Disk::see),
            97 => self.restart(),
            98 => {
                self.end_together();
                self.step += 1;
                self.rig().store.flush(Namespace::DEFAULT);
                all_keys().iter().for_each(|key| self.changed(key, None));
            }
            _ => self.rig().settle(),
        }
    }

    /// Continues the change of a trio, one key in each step.
    fn go_on_together(&mut self) {
        let mut together = match self.key_locks.take() {
            Some(together) => together,
            None => {
                let number = self.prng.below(TRIOS as u64) as usize;
                let rig = self.rig();
                let mut key_locks = rig.store.key_locks();
                for name in trio(number) {
                    key_locks.add(&rig.handle.guard(NOW).key(Namespace::DEFAULT, &name));
                }
                rig.until_done(|guard| guard.locks_mut().acquire(&mut key_locks));
                Together { key_locks, number, says: self.step, done: 0 }
            }
        };
        let (names, says) = (trio(together.number), together.says);
        let (name, text) = (&names[together.done], format!("both:{says}"));
        let is_number = together.done == 1;
        let there = read(self.rig(), name).and_then(|text| String::from_utf8(text).ok()?.parse().ok());
        act_for(self.rig(), &mut together.key_locks, name, &|guard, key| match is_number {
            true => guard.numbers().add(key, says as i64 - there.unwrap_or(0)).map(drop),
            false => guard.items_mut().put(key, &Put { expire: Expire::Never, ..Put::set(text.as_bytes()) }).map(drop),
        });
        together.done += 1;
        if together.done < names.len() {
            self.key_locks = Some(together);
            return;
        }
        self.rig().store.release(&mut together.key_locks);
        for (at, name) in names.iter().enumerate() {
            let text = if at == 1 { says.to_string() } else { text.clone() };
            self.changed(name, Some(text.into_bytes()));
        }
    }

    fn end_together(&mut self) {
        while self.key_locks.is_some() {
            self.step += 1;
            with_disk(|disk| disk.step = self.step);
            self.go_on_together();
        }
    }

    fn begin_checkpoint(&mut self) {
        let now = NOW.plus_ms(self.step);
        assert!(self.checkpointer.as_mut().expect("it has one").begin(now));
    }

    fn end_checkpoint(&mut self) {
        let Some(begun) = self.checkpointer.as_ref().and_then(Checkpointer::begun_at) else { return };
        let now = NOW.plus_ms(self.step);
        let rig = self.rig.as_mut().expect("it is open");
        rig.handle.tidy(now);
        rig.background.slice(now, &mut || true);
        let checkpointer = self.checkpointer.as_mut().expect("it has one");
        assert!(checkpointer.is_sealed());
        let before = rig.store.checkpoints.before();
        let mut known = Known { step: begun.0 - NOW.0, noted: self.step, ..Known::default() };
        for name in all_keys() {
            let guard = rig.handle.guard(now);
            let Some(seen) = crate::core::lookup::find(&rig.store, &guard.key(Namespace::DEFAULT, &name)) else {
                continue;
            };
            let sequence = rig.store.segments.header_of(seen.address).sequence();
            let since = rig.store.persistent.unsynced_before.load(std::sync::atomic::Ordering::Relaxed);
            if (since..before).contains(&sequence) {
                known.places.insert(name, (seen.address, sequence));
            }
        }
        let changing = self.key_locks.as_ref().map(|together| together.number);
        for number in (0..TRIOS).filter(|number| Some(*number) != changing) {
            let ended = |name: &Vec<u8>| self.histories.get(name).and_then(|history| Some(history.last()?.0));
            let is_later = trio(number).iter().all(|name| ended(name) > Some(known.step));
            let had = trio(number).iter().filter(|name| known.places.contains_key(*name)).count();
            if is_later && (1..3).contains(&had) {
                known.split.push(number);
            }
        }
        self.checkpoints.insert(begun.0, known);
        let refuses = self.prng.chance(1, 12);
        with_disk(|disk| disk.refuses = refuses);
        let done = checkpointer.finish();
        assert!(!matches!(done, Ok(Finished::Crowded)));
        assert_eq!(done.is_err(), refuses);
        self.reached.refused += u64::from(refuses);
    }

    /// Stops the server cleanly or kills it, and starts another server.
    fn restart(&mut self) {
        self.end_together();
        self.checkpointer = None;
        if self.prng.chance(1, 2) {
            self.rig = None;
        } else {
            // After a kill, the file keeps its contents, and the disk its pages.
            let file = Arc::new(self.rig().file.image().expect("an image"));
            with_disk(|disk| disk.file = file);
            self.rig = None;
        }
        self.open();
        self.on_flash.hits += self.rig().store.flash_slots();
        self.meet_anew();
    }

    /// Records the present value of each key as its last one.
    fn meet_anew(&mut self) {
        for name in all_keys() {
            let found = read(self.rig(), &name);
            let last =
                self.histories.get(&name).and_then(|history| history.last()).and_then(|(_, value)| value.clone());
            if found != last {
                self.changed(&name, found);
            }
        }
    }

    /// Opens the images of power losses that were taken, and one of a power loss now. If `goes_on`, the test continues
    /// with the last image.
    fn lose(&mut self, goes_on: bool) {
        if let Some(rig) = &self.rig
            && self.tier.is_some()
        {
            self.on_flash.lost += 1;
            self.on_flash.gone += rig.store.flash_slots();
        }
        let mut images = with_disk(|disk| std::mem::take(&mut disk.taken));
        let last = with_disk(Disk::lose);
        images.push((self.step, Arc::new(last.image().expect("an image"))));
        self.boot += 1;
        for (step, image) in images {
            set_power(Power { boot: self.boot, checkpoints: true });
            let tier = self.tier.as_ref().map(|tier| Arc::new(tier.copy()));
            let mut rig = open_on(image, tier.as_ref(), NOW.plus_ms(self.step));
            self.check(&mut rig, step);
            for name in all_keys() {
                // A large value that has lost a piece is a miss, and is then deleted.
                rig.delete(&name);
                assert!(read(&mut rig, &name).is_none(), "{:?} came back", String::from_utf8_lossy(&name));
            }
            rig.flush_out();
        }
        if goes_on {
            (self.checkpointer, self.key_locks) = (None, None);
            with_disk(|disk| disk.go_on(last));
            self.rig = None;
            self.tier = self.tier.take().map(|tier| Arc::new(tier.copy()));
            self.step += 1;
            with_disk(|disk| disk.step = self.step);
            self.open();
            self.meet_anew();
        } else {
            self.boot -= 1;
        }
    }

    /// Checks that an opened store has only items that it may have.
    fn check(&mut self, rig: &mut Rig, step: u64) {
        let reopened = rig.reopened();
        let reached = &mut self.reached;
        (reached.lost, reached.emptied) =
            (reached.lost + u64::from(reopened.lost), reached.emptied + reopened.segments_emptied);
        (reached.clean, reached.lost_all) =
            (reached.clean + u64::from(reopened.clean), reached.lost_all + u64::from(reopened.lost_all));
        let progress = rig.store.rebuild_progress().unwrap_or_default();
        reached.torn += progress.torn;
        if reopened.lost {
            assert!(reopened.flash_emptied == self.tier.is_some() && rig.store.flash_slots() == 0, "{reopened:?}");
        } else {
            self.on_flash.hits += rig.store.flash_slots();
        }
        // If memory is short, the oldest segments are dropped before the rebuild examines them.
        let has_room = progress.segments_dropped == 0;
        let none = Known::default();
        let known = self.checkpoints.get(&reopened.checkpoint_ms).unwrap_or(&none);
        assert!(reopened.checkpoint_ms == 0 || known.step > 0, "a checkpoint that nobody made");
        for name in all_keys() {
            let found = read(rig, &name);
            if reopened.lost_all {
                assert!(found.is_none(), "no checkpoint has it");
            }
            let empty = History::new();
            let history = self.histories.get(&name).unwrap_or(&empty);
            let at = history.partition_point(|(step, _)| *step <= known.step);
            let was = at.checked_sub(1).and_then(|at| history[at].1.as_ref());
            let text =
                || format!("{}: {:?}", String::from_utf8_lossy(&name), found.as_deref().map(String::from_utf8_lossy));
            if let Some(found) = &found {
                let since = history[at..].iter().any(|(_, value)| value.as_ref() == Some(found));
                assert!(since || was == Some(found), "{} is older than step {}, or never was", text(), known.step);
                let then = history.iter().rev().find(|(at, _)| *at <= step).and_then(|(_, value)| value.as_ref());
                assert!(!reopened.clean || then == Some(found), "{} was not there when it was left in order", text());
                reached.hits += 1;
                let last = history.last().and_then(|(_, value)| value.as_ref());
                reached.reverted += u64::from(last != Some(found));
            }
            let unchanged = at == history.len() && was.is_some_and(|value| value.len() < 64);
            if let Some((address, sequence)) = known.places.get(&name).filter(|_| unchanged && reopened.lost) {
                let store = &self.rig.as_ref().expect("it is open").store;
                let there = crate::core::lookup::find(store, &store.hasher.key(Namespace::DEFAULT, &name));
                let is_same = store.segments.header_of(*address).sequence() == *sequence
                    && there.is_some_and(|seen| seen.address == *address);
                let is_changing = self.key_locks.is_some() && !name.starts_with(b"key");
                if is_same && !is_changing && has_room {
                    assert!(found.is_some(), "{} is not there, and nobody touched it", text());
                    reached.held_to += 1;
                }
            }
        }
        let known = known.clone();
        (0..TRIOS).for_each(|number| self.check_trio(rig, &reopened, &known, number));
    }

    /// Checks that a change of a trio is present completely or not at all, and not at all if it was made after the
    /// checkpoint.
    fn check_trio(&mut self, rig: &mut Rig, reopened: &Reopened, known: &Known, number: usize) {
        let mut says = Vec::new();
        for name in trio(number) {
            let Some(found) = read(rig, &name) else { continue };
            let first = self.histories[&name].iter().find(|(_, value)| value.as_ref() == Some(&found));
            let ended = first.map_or(0, |(step, _)| *step);
            let (text, noted) = (String::from_utf8_lossy(&found).into_owned(), known.noted);
            assert!(!reopened.lost || ended <= noted, "{text} was made at {ended}, and the checkpoint at {noted}");
            says.push(text.trim_start_matches("both:").to_owned());
        }
        assert!(says.windows(2).all(|two| two[0] == two[1]), "parts of changes as one: {says:?}");
        self.reached.trios += u64::from(says.len() == 3);
        if reopened.lost && known.split.contains(&number) {
            assert!(says.is_empty(), "a part of a change as one: {says:?}");
            self.reached.split += 1;
        }
    }
}

/// Opens a store in the file, with the tier if there is one.
fn open_on(file: Arc<MapFile>, tier: Option<&Arc<MapTier>>, now: UnixMillis) -> Rig {
    tier.map_or_else(|| Rig::open(Arc::clone(&file), now), |tier| open_beside(Arc::clone(&file), tier, now))
}

/// Reads the value of a key, in memory or on flash.
fn read(rig: &mut Rig, name: &[u8]) -> Option<Vec<u8>> {
    if rig.store.tier.is_some() { read_tiered(rig, name) } else { rig.read(name) }
}

fn act_for(
    rig: &mut Rig,
    key_locks: &mut KeyLocks,
    name: &[u8],
    op: &dyn Fn(&mut Guard<'_>, &Key<'_>) -> Result<(), OpError>,
) {
    rig.until_done(|guard| {
        guard.locks_mut().attach(key_locks);
        let key = guard.key(Namespace::DEFAULT, name);
        let done = op(guard, &key);
        guard.locks_mut().detach(key_locks);
        done
    });
}

/// Prints the seed if the test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        set_disk(None);
        set_power(Power::default());
        if std::thread::panicking() {
            eprintln!("seed {}, index in {:?}", self.0, place());
        }
    }
}

fn run(seed: u64, tier: Option<Arc<MapTier>>, all: &mut Reached) -> ReachedOnFlash {
    let _seed = Seed(seed);
    let mut world = World::new(seed, tier);
    for act in 0..160 {
        world.act();
        if world.prng.chance(1, 40) {
            let goes_on = world.prng.chance(1, 2) && act > 20;
            world.lose(goes_on);
        }
    }
    world.lose(false);
    world.end_together();
    let Reached { lost, lost_all, clean, hits, held_to, reverted, emptied, torn, trios, split, refused } =
        world.reached;
    all.lost += lost;
    all.lost_all += lost_all;
    all.clean += clean;
    all.hits += hits;
    all.held_to += held_to;
    all.reverted += reverted;
    all.emptied += emptied;
    all.torn += torn;
    all.trios += trios;
    all.split += split;
    all.refused += refused;
    world.on_flash
}

fn runs(seeds: Range<u64>, has_flash: bool) {
    let mut all = Reached::default();
    let mut on_flash = ReachedOnFlash::default();
    for seed in seeds {
        let tier = has_flash.then(Arc::default);
        let ReachedOnFlash { lost, gone, hits } = run(seed, tier, &mut all);
        (on_flash.lost, on_flash.gone, on_flash.hits) =
            (on_flash.lost + lost, on_flash.gone + gone, on_flash.hits + hits);
    }
    let ReachedOnFlash { lost: lost_on_flash, gone, hits } = on_flash;
    let met = gone > lost_on_flash && hits > 100;
    assert!(met == has_flash, "{on_flash:?}");
    let Reached { lost, lost_all, clean, hits, held_to, reverted, emptied, torn, trios, split, refused } = all;
    let least =
        [lost, lost_all, clean, hits, held_to, reverted, emptied, torn, trios, split, refused].into_iter().min();
    assert!(least > Some(10), "{all:?}");
}

#[test]
fn a_loss_of_power_leaves_nothing_older_than_the_checkpoint_with_the_index_in_dram() {
    at(IndexPlace::Dram, || runs(0..100, false));
}

#[test]
fn a_loss_of_power_leaves_nothing_older_than_the_checkpoint_with_the_index_in_the_file() {
    at(IndexPlace::File, || runs(1000..1100, false));
}

#[test]
fn a_loss_of_power_leaves_nothing_on_flash_and_nothing_older_with_the_index_in_dram() {
    at(IndexPlace::Dram, || runs(2000..2060, true));
}

#[test]
fn a_loss_of_power_leaves_nothing_on_flash_and_nothing_older_with_the_index_in_the_file() {
    at(IndexPlace::File, || runs(3000..3060, true));
}
