//! Losses of power: each page of an image is what it was at the last sync, or at some time since, by chance and apart
//! from its neighbours. Each image is opened and compared with what was there at its checkpoint and since.
//!
//! ```text
//!   sync ....... look ....... look ....... now          a page of an image: that of any of these four
//! ```
//!
//! Images are taken between operations and, at a sync, of what is there just before it has an effect; and the store
//! goes on in some of them, to lose its power again. Some syncs fail, and pages that they did not take are not taken by
//! the next one either.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arena::{MapFile, PAGE_BYTES};
use base::prng::Prng;

use super::crashes::{NOW, Rig, at, config, key, place, set_power};
use crate::{Checkpointer, Claim, Expire, IndexPlace, Namespace, Power, Put};

const PAGE: u64 = PAGE_BYTES as u64;
/// What is looked at of the disk between two syncs, at most.
const LOOKS_MAX: usize = 4;

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

/// What can be on a disk.
struct Disk {
    file: Arc<MapFile>,
    /// What was synced, then what was seen since: the pages of [`tracked`].
    looks: Vec<Vec<u8>>,
    prng: Prng,
    /// The step that is under way.
    step: u64,
    /// Images of losses during a sync, with the step.
    taken: Vec<(u64, Arc<MapFile>)>,
    /// The next sync fails.
    refuses: bool,
    /// Pages that it did not take, as they were then: the kernel holds them for written until they are changed again.
    dropped: BTreeMap<usize, Vec<u8>>,
}

/// Where pages are taken to be lost: all that a small store uses of its file.
fn tracked() -> Vec<Range<u64>> {
    let parts: BTreeMap<_, _> = crate::file::parts(&config()).into_iter().collect();
    let (notes, undo, records) = (&parts["notes"], &parts["undo log"], &parts["checkpoint"]);
    let copy = (parts["index"].start - records.start) / 2;
    vec![
        0..notes.start + PAGE,
        undo.start..undo.start + 8 * PAGE,
        parts["headers"].start..records.start + PAGE,
        records.start + copy..records.start + copy + PAGE,
        parts["index"].start..parts["heap"].end,
    ]
}

fn os_file(file: &MapFile) -> std::fs::File {
    file.as_fd().try_clone_to_owned().expect("a descriptor").into()
}

fn look(file: &MapFile) -> Vec<u8> {
    let (from, mut bytes) = (os_file(file), Vec::new());
    for range in tracked() {
        let len = bytes.len();
        bytes.resize(len + (range.end - range.start) as usize, 0);
        from.read_exact_at(&mut bytes[len..], range.start).expect("it is there");
    }
    bytes
}

impl Disk {
    fn new(file: Arc<MapFile>, prng: Prng) -> Self {
        Self { file, looks: Vec::new(), prng, step: 0, taken: Vec::new(), refuses: false, dropped: BTreeMap::new() }
    }

    fn see(&mut self) {
        if self.looks.len() < LOOKS_MAX {
            self.looks.push(look(&self.file));
        }
    }

    fn sync(&mut self) -> std::io::Result<()> {
        let (mut synced, refuses) = (look(&self.file), std::mem::take(&mut self.refuses));
        let before = self.looks.first().cloned().unwrap_or_else(|| vec![0; synced.len()]);
        self.dropped.retain(|at, page| synced[*at..].starts_with(page));
        for at in (0..synced.len()).step_by(PAGE_BYTES) {
            let page = at..synced.len().min(at + PAGE_BYTES);
            if refuses && before[page.clone()] != synced[page.clone()] && self.prng.chance(1, 2) {
                self.dropped.insert(at, synced[page].to_vec());
            }
        }
        for (at, page) in &self.dropped {
            let page = *at..at + page.len();
            synced[page.clone()].copy_from_slice(&before[page]);
        }
        self.looks = vec![synced];
        if refuses { Err(std::io::Error::other("the disk refuses")) } else { Ok(()) }
    }

    /// What is left after a loss of power now.
    fn lose(&mut self) -> Arc<MapFile> {
        let now = look(&self.file);
        let image = self.file.image().expect("an image");
        let to = os_file(&image);
        // From all that was written being lost to nothing being lost.
        let kept_of_ten = [0, 1, 5, 9, 10][self.prng.below(5) as usize];
        let mut at = 0;
        for range in tracked() {
            for page in (range.start..range.end).step_by(PAGE_BYTES) {
                let end = at + PAGE.min(range.end - page) as usize;
                let of = |look: usize| &self.looks.get(look).unwrap_or(&now)[at..end];
                let is_dropped = self.dropped.get(&at).is_some_and(|page| page[..] == now[at..end]);
                let chosen = match !is_dropped && self.prng.chance(kept_of_ten, 10) {
                    true => of(self.prng.below(self.looks.len() as u64 + 1) as usize),
                    false => of(0),
                };
                if chosen != &now[at..end] {
                    to.write_all_at(chosen, page).expect("written");
                }
                at = end;
            }
        }
        Arc::new(image)
    }
}

/// Called when a store has its file synced.
pub(crate) fn synced(file: &Arc<MapFile>) -> std::io::Result<()> {
    DISK.with(|disk| {
        let mut disk = disk.borrow_mut();
        let Some(disk) = disk.as_mut().filter(|disk| Arc::ptr_eq(&disk.file, file)) else { return Ok(()) };
        if disk.prng.chance(1, 3) {
            let image = disk.lose();
            disk.taken.push((disk.step, image));
        }
        disk.sync()
    })
}

fn with_disk<T>(run: impl FnOnce(&mut Disk) -> T) -> T {
    DISK.with(|disk| run(disk.borrow_mut().as_mut().expect("there is a disk")))
}

/// Whatever a value is there after which step; `None`: none.
type History = Vec<(u64, Option<Vec<u8>>)>;

/// What is known of the last checkpoint.
#[derive(Clone, Default)]
struct Known {
    /// The step that it began at.
    step: u64,
    /// Where items of it were when it was made: address and sequence.
    places: BTreeMap<Vec<u8>, (usize, u64)>,
}

/// What was reached.
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
    pairs: u64,
    refused: u64,
}

struct World {
    rig: Option<Rig>,
    checkpointer: Option<Checkpointer>,
    claim: Option<(Claim, usize, Vec<u8>)>,
    prng: Prng,
    boot: u128,
    step: u64,
    histories: BTreeMap<Vec<u8>, History>,
    /// By the instant at which they began.
    checkpoints: BTreeMap<u64, Known>,
    reached: Reached,
}

const KEYS: usize = 40;
const PAIRS: usize = 4;

fn pair(number: usize) -> [Vec<u8>; 2] {
    ["left", "right"].map(|side| format!("{side}-{number}").into_bytes())
}

fn all_keys() -> Vec<Vec<u8>> {
    (0..KEYS).map(key).chain((0..PAIRS).flat_map(pair)).collect()
}

impl World {
    fn new(seed: u64) -> Self {
        let file = Arc::new(MapFile::in_memory().expect("a file"));
        let prng = Prng::new(seed ^ 0x5151);
        DISK.with(|disk| *disk.borrow_mut() = Some(Disk::new(file, prng)));
        let mut world = Self {
            rig: None,
            checkpointer: None,
            claim: None,
            prng: Prng::new(seed),
            boot: 1,
            step: 1,
            histories: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            reached: Reached::default(),
        };
        world.open();
        // A loss before a file was made to its end leaves what is refused, and said so.
        with_disk(|disk| disk.taken.clear());
        world
    }

    fn open(&mut self) {
        set_power(Power { boot: self.boot, checkpoints: true });
        let file = with_disk(|disk| Arc::clone(&disk.file));
        self.rig = Some(Rig::open(file, NOW.plus_ms(self.step)));
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

    /// One operation.
    fn act(&mut self) {
        self.step += 1;
        with_disk(|disk| disk.step = self.step);
        let name = key(self.prng.below(KEYS as u64) as usize);
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
            60..75 => self.go_on_with_pair(),
            75..80 => self.begin_checkpoint(),
            80..88 => self.end_checkpoint(),
            88..94 => {
                let now = NOW.plus_ms(self.step);
                self.rig().background.slice(now, &mut || false);
            }
            94..97 => with_disk(Disk::see),
            97 => self.restart(),
            98 => {
                self.end_pair();
                self.step += 1;
                self.rig().store.flush(Namespace::DEFAULT);
                all_keys().iter().for_each(|key| self.changed(key, None));
            }
            _ => self.rig().settle(),
        }
    }

    /// Two keys that are changed as one, a step each.
    fn go_on_with_pair(&mut self) {
        let Some((mut claim, number, value)) = self.claim.take() else {
            let number = self.prng.below(PAIRS as u64) as usize;
            let value = format!("both:{}", self.step).into_bytes();
            let rig = self.rig();
            let mut claim = rig.store.claim();
            for name in pair(number) {
                claim.add(&rig.lane.turn(NOW).key(Namespace::DEFAULT, &name));
            }
            rig.until_done(|turn| turn.obtain(&mut claim));
            put_for(rig, &mut claim, &pair(number)[0], &value);
            self.claim = Some((claim, number, value));
            return;
        };
        put_for(self.rig(), &mut claim, &pair(number)[1], &value);
        self.rig().store.let_go(&mut claim);
        pair(number).iter().for_each(|name| self.changed(name, Some(value.clone())));
    }

    fn end_pair(&mut self) {
        if self.claim.is_some() {
            self.step += 1;
            with_disk(|disk| disk.step = self.step);
            self.go_on_with_pair();
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
        rig.lane.tidy(now);
        rig.background.slice(now, &mut || true);
        let checkpointer = self.checkpointer.as_mut().expect("it has one");
        assert!(checkpointer.is_sealed());
        let before = rig.store.checkpoints.before();
        let mut known = Known { step: begun.0 - NOW.0, ..Known::default() };
        for name in all_keys() {
            let turn = rig.lane.turn(now);
            let Some(seen) = rig.store.find(&turn.key(Namespace::DEFAULT, &name)) else { continue };
            let sequence = rig.store.segments.header_of(seen.address).sequence();
            let since = rig.store.kept.unsynced_before.load(std::sync::atomic::Ordering::Relaxed);
            if (since..before).contains(&sequence) {
                known.places.insert(name, (seen.address, sequence));
            }
        }
        self.checkpoints.insert(begun.0, known);
        let refuses = self.prng.chance(1, 12);
        with_disk(|disk| disk.refuses = refuses);
        let done = checkpointer.finish();
        assert_eq!(done.is_err(), refuses);
        self.reached.refused += u64::from(refuses);
    }

    /// The server ends in order, or is killed, and another one begins.
    fn restart(&mut self) {
        self.end_pair();
        self.checkpointer = None;
        if self.prng.chance(1, 2) {
            self.rig = None;
        } else {
            // Killed: the file goes on as it is, with what is on the disk.
            let file = Arc::new(self.rig().file.image().expect("an image"));
            with_disk(|disk| disk.file = file);
            self.rig = None;
        }
        self.open();
        self.meet_anew();
    }

    /// What is there now is what was told.
    fn meet_anew(&mut self) {
        for name in all_keys() {
            let found = self.rig().read(&name);
            let last =
                self.histories.get(&name).and_then(|history| history.last()).and_then(|(_, value)| value.clone());
            if found != last {
                self.changed(&name, found);
            }
        }
    }

    /// Opens images of losses of power that were taken, and one of now; the store goes on in that, perhaps.
    fn lose(&mut self, goes_on: bool) {
        let mut images = with_disk(|disk| std::mem::take(&mut disk.taken));
        let last = with_disk(Disk::lose);
        images.push((self.step, Arc::new(last.image().expect("an image"))));
        self.boot += 1;
        for (step, image) in images {
            set_power(Power { boot: self.boot, checkpoints: true });
            let mut rig = Rig::open(image, NOW.plus_ms(self.step));
            self.check(&mut rig, step);
            for name in all_keys() {
                // A long value that has lost a piece is a miss, and goes.
                rig.delete(&name);
                assert!(rig.read(&name).is_none(), "{:?} came back", String::from_utf8_lossy(&name));
            }
            rig.flush_out();
        }
        if goes_on {
            (self.checkpointer, self.claim) = (None, None);
            let looks = vec![look(&last)];
            with_disk(|disk| {
                (disk.file, disk.looks) = (last, looks);
                disk.dropped.clear();
            });
            self.rig = None;
            self.step += 1;
            with_disk(|disk| disk.step = self.step);
            self.open();
            self.meet_anew();
        } else {
            self.boot -= 1;
        }
    }

    /// What a store that was opened holds is what it may hold.
    fn check(&mut self, rig: &mut Rig, step: u64) {
        let reopened = rig.reopened();
        let reached = &mut self.reached;
        (reached.lost, reached.emptied) =
            (reached.lost + u64::from(reopened.lost), reached.emptied + reopened.segments_emptied);
        (reached.clean, reached.lost_all) =
            (reached.clean + u64::from(reopened.clean), reached.lost_all + u64::from(reopened.lost_all));
        let progress = rig.store.rebuild_progress().unwrap_or_default();
        reached.torn += progress.torn;
        // Where memory is short, the oldest segments go before they are looked at.
        let has_room = progress.segments_dropped == 0;
        let none = Known::default();
        let known = self.checkpoints.get(&reopened.checkpoint_ms).unwrap_or(&none);
        assert!(reopened.checkpoint_ms == 0 || known.step > 0, "a checkpoint that nobody made");
        for name in all_keys() {
            let found = rig.read(&name);
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
                let there = store.find(&store.hasher.key(Namespace::DEFAULT, &name));
                let is_same = store.segments.header_of(*address).sequence() == *sequence
                    && there.is_some_and(|seen| seen.address == *address);
                let is_changing = self.claim.is_some() && name.starts_with(b"left") | name.starts_with(b"right");
                if is_same && !is_changing && has_room {
                    assert!(found.is_some(), "{} is not there, and nobody touched it", text());
                    reached.held_to += 1;
                }
            }
        }
        for both in (0..PAIRS).map(pair) {
            if let [Some(left), Some(right)] = both.map(|name| rig.read(&name)) {
                assert_eq!(left, right, "a half of a change of both");
                reached.pairs += 1;
            }
        }
    }
}

fn put_for(rig: &mut Rig, claim: &mut Claim, name: &[u8], value: &[u8]) {
    rig.until_done(|turn| {
        turn.act_for(claim);
        let put = turn.put(&turn.key(Namespace::DEFAULT, name), &Put { expire: Expire::Never, ..Put::set(value) });
        turn.act_for_none(claim);
        put.map(drop)
    });
}

/// Names the seed of a test that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        DISK.with(|disk| disk.take());
        set_power(Power::default());
        if std::thread::panicking() {
            eprintln!("seed {}, index in {:?}", self.0, place());
        }
    }
}

fn run(seed: u64, all: &mut Reached) {
    let _seed = Seed(seed);
    let mut world = World::new(seed);
    for act in 0..160 {
        world.act();
        if world.prng.chance(1, 40) {
            let goes_on = world.prng.chance(1, 2) && act > 20;
            world.lose(goes_on);
        }
    }
    world.lose(false);
    world.end_pair();
    let Reached { lost, lost_all, clean, hits, held_to, reverted, emptied, torn, pairs, refused } = world.reached;
    all.lost += lost;
    all.lost_all += lost_all;
    all.clean += clean;
    all.hits += hits;
    all.held_to += held_to;
    all.reverted += reverted;
    all.emptied += emptied;
    all.torn += torn;
    all.pairs += pairs;
    all.refused += refused;
}

fn runs(seeds: Range<u64>) {
    let mut all = Reached::default();
    seeds.for_each(|seed| run(seed, &mut all));
    let Reached { lost, lost_all, clean, hits, held_to, reverted, emptied, torn, pairs, refused } = all;
    let least = [lost, lost_all, clean, hits, held_to, reverted, emptied, torn, pairs, refused].into_iter().min();
    assert!(least > Some(10), "{all:?}");
}

#[test]
fn a_loss_of_power_leaves_nothing_older_than_the_checkpoint_with_the_index_in_dram() {
    at(IndexPlace::Dram, || runs(0..100));
}

#[test]
fn a_loss_of_power_leaves_nothing_older_than_the_checkpoint_with_the_index_in_the_file() {
    at(IndexPlace::File, || runs(1000..1100));
}
