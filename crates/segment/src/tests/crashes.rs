//! Tests of a crash before every store instruction: while an operation runs, an image of the file is taken before each
//! change of a shared word and each copy of bytes. The tests then open every image.
//!
//! An image is the memory that the kernel retains of a process that is killed at that point. Each image has to contain
//! all changes that were acknowledged before the operation, and all or nothing of the operation. The store of each
//! image has to work: every key can be deleted, every segment can be drained, and no item remains afterwards.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use arena::MapFile;
use base::clock::UnixMillis;

use super::parted;
use crate::background::Background;
use crate::core::handle::ThreadHandle;
use crate::core::op::{Arith, ArithOutcome, Delete, DeleteOutcome, Expire, OpError, Patch, Put, Value};
use crate::items::write::replace::{Attempts, Loaded, Replaced, Replacement};
use crate::{IndexPlace, Namespace, Power, Reopened, Store, StoreConfig, StoreFile};

thread_local! {
    static HOOK: RefCell<Option<Images>> = const { RefCell::new(None) };
}

/// The images that are being taken.
struct Images {
    file: Arc<MapFile>,
    taken: Vec<Arc<MapFile>>,
    points: usize,
    /// One image is taken after this number of calls of [`point`].
    every: usize,
}

/// Takes an image if one is due. The store calls this before each change of a shared word and each copy of bytes.
pub(crate) fn point() {
    HOOK.with(|hook| {
        let Ok(mut hook) = hook.try_borrow_mut() else { return };
        if let Some(images) = hook.as_mut() {
            if images.points.is_multiple_of(images.every) {
                images.taken.push(Arc::new(images.file.image().expect("an image")));
            }
            images.points += 1;
        }
    });
}

pub(super) const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

pub(super) fn config() -> StoreConfig {
    StoreConfig {
        memory_bytes: 96 * 1024,
        memory_bytes_max: 0,
        segment_bytes: Some(1024),
        item_bytes_max: 8000,
        handles_max: 1,
        hash_seed: 5,
        huge_pages: false,
    }
}

thread_local! {
    static PLACE: Cell<IndexPlace> = const { Cell::new(IndexPlace::File) };
}

/// Returns the place of the index for stores that a [`Rig`] opens.
pub(super) fn place() -> IndexPlace {
    PLACE.get()
}

thread_local! {
    static POWER: Cell<Power> = const { Cell::new(Power { boot: 0, checkpoints: false }) };
}

/// Returns the power-loss settings for stores that a [`Rig`] opens.
pub(super) fn power() -> Power {
    POWER.get()
}

/// Sets the power-loss settings for stores that a [`Rig`] opens later.
pub(super) fn set_power(power: Power) {
    POWER.set(power);
}

/// Runs a test with the index in the file, and with an index that is rebuilt.
pub(super) fn in_both_modes(test: impl Fn()) {
    for place in [IndexPlace::File, IndexPlace::Dram] {
        at(place, &test);
    }
}

/// Runs a test with an index that is rebuilt.
pub(super) fn with_index_in_dram(test: impl Fn()) {
    at(IndexPlace::Dram, test);
}

/// Runs a function, with the index of its stores in `place`.
pub(super) fn at<T>(place: IndexPlace, run: impl FnOnce() -> T) -> T {
    let before = PLACE.replace(place);
    let done = run();
    PLACE.set(before);
    done
}

/// Returns the byte range of the segments in a file.
pub(super) fn heap_of(file: &Arc<MapFile>) -> std::ops::Range<u64> {
    let heap = crate::durable::file::parts(&config(), None).last().expect("there are parts").1.clone();
    assert!(file.bytes().expect("its length") >= heap.end);
    heap
}

/// A store in a file, with its background and the only handle that uses it.
pub(super) struct Rig {
    pub(super) store: Arc<Store>,
    pub(super) background: Background,
    pub(super) handle: ThreadHandle,
    pub(super) file: Arc<MapFile>,
    pub(super) now: UnixMillis,
}

pub(super) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

impl Rig {
    pub(super) fn new() -> Self {
        Self::open(Arc::new(MapFile::in_memory().expect("a file")), NOW)
    }

    /// Opens a store and completes the rebuild of its index.
    pub(super) fn open(file: Arc<MapFile>, now: UnixMillis) -> Self {
        let mut rig = Self::open_early(file, now);
        while rig.store.is_rebuilding() {
            rig.background.slice(rig.reopened().at, &mut || false);
        }
        rig
    }

    /// Opens a store whose rebuild may not have found any item yet.
    pub(super) fn open_early(file: Arc<MapFile>, now: UnixMillis) -> Self {
        Self::open_with(file, None, now)
    }

    /// Opens a store with the index that the previous store left.
    pub(super) fn open_with(file: Arc<MapFile>, index_left: Option<Arc<MapFile>>, now: UnixMillis) -> Self {
        let store_file =
            StoreFile { file: Arc::clone(&file), reset: false, index: place(), index_left, power: power() };
        let (store, background) = Store::in_file(&config(), &store_file, now).expect("the file is taken");
        let handle = store.handle().expect("a thread handle");
        Self { store, background, handle, file, now }
    }

    pub(super) fn reopened(&self) -> Reopened {
        *self.store.reopened().expect("it is in a file")
    }

    /// Runs an operation until it is not parked; the background may work between two tries.
    pub(super) fn until_done<T>(&mut self, mut op: impl FnMut(&mut crate::Guard<'_>) -> Result<T, OpError>) -> T {
        for _ in 0..1000 {
            match op(&mut self.handle.guard(self.now)) {
                Ok(done) => return done,
                Err(OpError::Parked) => drop(self.background.slice(self.now, &mut || false)),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("parked for ever");
    }

    /// Runs an operation as [`Rig::until_done`] does, but with background slices that end at once.
    pub(super) fn until_done_slowly<T>(
        &mut self,
        mut op: impl FnMut(&mut crate::Guard<'_>) -> Result<T, OpError>,
    ) -> T {
        loop {
            match op(&mut self.handle.guard(self.now)) {
                Ok(done) => return done,
                Err(OpError::Parked) => drop(self.background.slice(self.now, &mut || true)),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns the error message with which a store refuses the file.
    pub(super) fn refusal(file: &Arc<MapFile>) -> String {
        let store_file =
            StoreFile { file: Arc::clone(file), reset: false, index: place(), index_left: None, power: power() };
        Store::in_file(&config(), &store_file, NOW).map(drop).expect_err("it is refused").to_string()
    }

    pub(super) fn put_until(&mut self, key: &[u8], value: &[u8], expire: Expire) {
        self.until_done(|guard| {
            let key = guard.key(Namespace::DEFAULT, key);
            guard.items_mut().put(&key, &Put { expire, ..Put::set(value) })
        });
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.put_until(key, value, Expire::Never);
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> bool {
        let outcome = self.until_done(|guard| {
            let key = guard.key(Namespace::DEFAULT, key);
            guard.items_mut().delete(&key, &Delete::default())
        });
        outcome == DeleteOutcome::Deleted
    }

    pub(super) fn read(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let guard = self.handle.guard(self.now);
        let key = guard.key(Namespace::DEFAULT, key);
        let hit = guard.items().read(&key, guard.items().prefetch_item(key.key_hash()))?;
        let value = hit.value;
        let mut bytes = Vec::new();
        let len = match value {
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::Integer(number) => number.to_string().len() as u64,
            Value::Large(large) => large.bytes,
            Value::Typed { bytes, .. } => return parted::read(&guard, &key, bytes),
        };
        guard.pieces().copy_range(&key, value, 0..len, &mut |part| bytes.extend_from_slice(part)).then_some(bytes)
    }

    pub(super) fn contents(&mut self, keys: &[Vec<u8>]) -> Contents {
        keys.iter().filter_map(|key| Some((key.clone(), self.read(key)?))).collect()
    }

    /// Runs slices until the background has nothing to do.
    pub(super) fn settle(&mut self) {
        let mut idle = 0;
        for _ in 0..5000 {
            // An idle slice may seal one of the background's own segments, which the next slice then examines.
            idle = if self.background.slice(self.now, &mut || false).more { 0 } else { idle + 1 };
            if idle == 2 {
                return;
            }
        }
        panic!("the background does not come to an end");
    }

    /// Deletes all keys, and checks that no item remains in the index, in a segment, or in the counts.
    pub(super) fn empty_out(&mut self, keys: &[Vec<u8>]) {
        for key in keys {
            let was_there = self.read(key).is_some();
            assert_eq!(self.delete(key), was_there);
            assert!(self.read(key).is_none(), "{:?} came back", String::from_utf8_lossy(key));
        }
        self.flush_out();
    }

    /// Flushes, and checks that no item remains.
    pub(super) fn flush_out(&mut self) {
        self.handle.own_seal(&self.store);
        self.store.flush(Namespace::DEFAULT);
        self.settle();
        let census = self.store.census();
        assert_eq!(census.segments[1..5], [0; 4], "open, sealed, draining, quarantine");
        assert_eq!((self.slots(), self.store.stats().items), (0, 0), "slots that name items, and items");
    }

    /// Returns the number of slots that name items.
    pub(super) fn slots(&self) -> usize {
        let index = &self.store.index;
        (0..index.groups_next()).flat_map(|g| index.group_words(g)).filter(|(_, slot)| slot.is_item()).count()
    }
}

/// Takes images of the file while `change` runs: one image for `every` calls of [`point`], and one at the end.
pub(super) fn images_of(rig: &mut Rig, every: usize, change: impl FnOnce(&mut Rig)) -> Vec<Arc<MapFile>> {
    begin_images(&rig.file, every);
    change(rig);
    let mut taken = end_images();
    assert!(taken.len() > 2, "{} images", taken.len());
    taken.push(Arc::new(rig.file.image().expect("an image")));
    taken
}

fn begin_images(file: &Arc<MapFile>, every: usize) {
    let images = Images { file: Arc::clone(file), taken: Vec::new(), points: 0, every };
    HOOK.with(|hook| *hook.borrow_mut() = Some(images));
}

fn end_images() -> Vec<Arc<MapFile>> {
    HOOK.with(|hook| hook.borrow_mut().take()).expect("the hook is there").taken
}

/// Fills a store, takes images while `change` runs, and opens all images. Checks that each has the contents before or
/// after the change, and works. Returns the result of each opening.
fn crash(every: usize, fill: impl FnOnce(&mut Rig), keys: &[Vec<u8>], change: impl FnOnce(&mut Rig)) -> Vec<Reopened> {
    let mut rig = Rig::new();
    fill(&mut rig);
    let before = rig.contents(keys);
    let images = images_of(&mut rig, every, change);
    let after = rig.contents(keys);
    images.into_iter().map(|image| check(image, rig.now, keys, &before, &after)).collect()
}

fn check(image: Arc<MapFile>, now: UnixMillis, keys: &[Vec<u8>], before: &Contents, after: &Contents) -> Reopened {
    let mut rig = Rig::open(image, now);
    let reopened = rig.reopened();
    assert!(reopened.found && !reopened.clean);
    let found = rig.contents(keys);
    // After the scrub, the store's count of items equals the number of its slots.
    rig.settle();
    let slots = rig.slots();
    assert_eq!(rig.store.stats().items, slots as u64, "items that are counted, and slots");
    for key in keys {
        let (there, was, is) = (found.get(key), before.get(key), after.get(key));
        let short = |value: Option<&Vec<u8>>| {
            value.map(|value| String::from_utf8_lossy(&value[..value.len().min(20)]).into_owned())
        };
        let (name, report) = (String::from_utf8_lossy(key), [there, was, is].map(short));
        assert!(there == was || there == is, "{name}: there, before and after: {report:?}");
    }
    rig.empty_out(keys);
    reopened
}

pub(super) fn key(number: usize) -> Vec<u8> {
    format!("key-{number:04}").into_bytes()
}

pub(super) fn keys(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(key).collect()
}

pub(super) fn fill(rig: &mut Rig, count: usize) {
    (0..count).for_each(|number| rig.put(&key(number), format!("value {number}").as_bytes()));
}

#[test]
fn put_interrupted_by_crash_is_complete_or_absent() {
    in_both_modes(|| {
        let mut keys = keys(40);
        keys.push(b"new".to_vec());
        let found = crash(
            1,
            |rig| fill(rig, 40),
            &keys,
            |rig| {
                rig.put(&key(7), b"another value");
                rig.put(b"new", b"a new one");
                rig.put_until(&key(8), b"ends", Expire::At(NOW.plus_ms(60_000)));
            },
        );
        let held = found.iter().filter(|found| found.stripes_held > 0).count();
        assert_eq!(held > 0, place() == IndexPlace::File, "images with a lock that was held");
        assert!(held < found.len());
    });
}

#[test]
fn a_delete_an_increment_and_a_join_that_were_cut_are_done_or_not() {
    in_both_modes(|| {
        let mut keys = keys(20);
        keys.push(b"number".to_vec());
        let arith = |rig: &mut Rig| {
            let outcome = rig.until_done(|guard| {
                let key = guard.key(Namespace::DEFAULT, b"number");
                let vivify = Some((1, Expire::Never));
                let want_token = true;
                guard.numbers().arith(
                    &key,
                    &Arith { delta: 5, decrement: false, vivify, expire: None, compare: None, token: None, want_token },
                )
            });
            assert!(matches!(outcome, ArithOutcome::Number { .. }));
        };
        crash(
            1,
            |rig| {
                fill(rig, 20);
                arith(rig);
            },
            &keys,
            |rig| {
                assert!(rig.delete(&key(3)));
                arith(rig);
            },
        );
    });
}

#[test]
fn slot_displaced_in_full_index_is_present_once_after_crash() {
    in_both_modes(|| {
        // One group of 512 slots, nearly full, so that new keys displace others.
        let keys = keys(470);
        let found = crash(
            1,
            |rig| (0..440).for_each(|number| rig.put(&key(number), b"v")),
            &keys,
            |rig| (440..470).for_each(|number| rig.put(&key(number), b"v")),
        );
        let doubled = found.iter().any(|found| found.slots_doubled > 0);
        assert_eq!(doubled, place() == IndexPlace::File, "images with a slot twice: something was displaced");
    });
}

#[test]
fn every_key_is_found_after_crash_during_growth_or_shrink() {
    in_both_modes(|| {
        let keys = keys(300);
        let fill = |rig: &mut Rig| (0..300).for_each(|number| rig.put(&key(number), b"v"));
        let found = crash(5, fill, &keys, |rig| {
            let (store, mut scratch) = (Arc::clone(&rig.store), crate::index::growth::SplitScratch::new());
            store.index.begin_growth(2);
            while store.index.split_next(&mut scratch, &*store) == Some(false) {}
            store.index.begin_growth(3);
            while store.index.split_next(&mut scratch, &*store) == Some(false) {}
            store.index.begin_shrink(2);
            while store.index.merge_next(&mut scratch, &*store) == Some(false) {}
            assert_eq!((store.index.groups(), store.index.is_growing()), (2, false));
        });
        let count = |what: fn(&Reopened) -> bool| found.iter().filter(|found| what(found)).count();
        let in_file = place() == IndexPlace::File;
        assert!(!in_file || count(|found| found.index_changing) > 50, "images within a change of size");
        assert!(!in_file || count(|found| found.slots_doubled > 0) > 20, "images with slots in both places");
    });
}

#[test]
fn a_segment_that_was_being_emptied_loses_nothing_that_was_not_evicted() {
    in_both_modes(|| {
        let keys = keys(70);
        for compact in [true, false] {
            let filled = |rig: &mut Rig| {
                fill(rig, 70);
                (0..70).for_each(|number| assert!(rig.read(&key(number)).is_some()));
                rig.handle.own_seal(&rig.store);
            };
            let found = crash(1, filled, &keys, |rig| {
                let sealed = |id: &u32| {
                    let header = rig.store.segments.header(crate::heap::segments::SegmentId(*id));
                    header.state() == crate::layout::header::SegmentState::Sealed
                };
                let ids: Vec<u32> = (0..rig.store.segments.high_water() as u32).filter(sealed).collect();
                assert!(ids.len() > 1);
                for id in ids {
                    rig.background.drain_whole(crate::heap::segments::SegmentId(id), compact, rig.now);
                }
                rig.settle();
            });
            assert!(found.len() > 100);
        }
    });
}

#[test]
fn interrupted_flush_is_atomic_and_completed_flush_persists() {
    in_both_modes(|| {
        let keys = keys(20);
        crash(
            1,
            |rig| fill(rig, 20),
            &keys[..1],
            |rig| {
                rig.store.flush(Namespace::DEFAULT);
                rig.settle();
            },
        );
        let found = crash(
            1,
            |rig| {
                fill(rig, 20);
                rig.store.flush(Namespace::DEFAULT);
            },
            &keys,
            |rig| {
                rig.handle.tidy(NOW);
                rig.settle();
            },
        );
        assert!(found.len() > 20);
    });
}

#[test]
fn interrupted_overwrite_of_long_value_yields_old_or_new_value() {
    in_both_modes(|| {
        let old: Vec<u8> = (0..3000).map(|at| (at % 251) as u8).collect();
        let new: Vec<u8> = (0..2500).map(|at| (at % 241) as u8).collect();
        let found = crash(
            3,
            |rig| {
                fill(rig, 10);
                rig.put(b"long", &old);
                rig.put(b"gone", &old);
            },
            &[b"long".to_vec(), b"gone".to_vec(), key(3)],
            |rig| {
                rig.put(b"long", &new);
                rig.put(&key(3), &new);
                assert!(rig.delete(b"gone"));
            },
        );
        assert!(found.len() > 100);
    });
}

/// Both halves of the change are in one piece, so an image has both or none.
#[test]
fn interrupted_change_of_a_piece_yields_old_or_new_value() {
    in_both_modes(|| {
        let old: Vec<u8> = (0..3000).map(|at| (at % 251) as u8).collect();
        let found = crash(
            1,
            |rig| {
                fill(rig, 10);
                rig.put(b"long", &old);
            },
            &[b"long".to_vec(), key(3)],
            |rig| {
                let object = |rig: &mut Rig| {
                    let guard = rig.handle.guard(rig.now);
                    guard.items().get(&guard.key(Namespace::DEFAULT, b"long")).map(|item| match item.value {
                        Value::Large(large) => large.object,
                        other => panic!("{other:?} is not in pieces"),
                    })
                };
                let before = object(rig);
                let replaced = rig.until_done(|guard| {
                    let key = guard.key(Namespace::DEFAULT, b"long");
                    let Loaded { version, .. } = guard.items().load(&key, &mut Attempts::default())?;
                    let patches = [Patch { at: 10, bytes: b"one" }, Patch { at: 30, bytes: b"other" }];
                    let new = Replacement::Patch { patches: &patches, bytes_min: 0 };
                    guard.items_mut().replace(&key, &version, new)
                });
                assert!(replaced == Replaced::Done && object(rig) == before, "only a piece was written");
            },
        );
        assert!(found.len() > 20);
    });
}

#[test]
fn interrupted_receive_yields_whole_item_or_dead_space() {
    in_both_modes(|| {
        // Lengths at which a line end behind the value takes more than its padding.
        let value: Vec<u8> = (0..74).map(|at| b'a' + at % 26).collect();
        for len in [70, 71, 72, 73, 74] {
            crash(
                1,
                |rig| fill(rig, 10),
                &[b"sent".to_vec(), key(3), b"behind".to_vec()],
                |rig| {
                    let value = &value[..len];
                    let mut arriving = rig.until_done(|guard| {
                        let key = guard.key(Namespace::DEFAULT, b"sent");
                        guard.receiver().begin(&key, &Put::set(&[]), len, 2)
                    });
                    rig.put(&key(3), b"value 3");
                    let (store, mut handle_guard) = (Arc::clone(&rig.store), rig.handle.guard(NOW));
                    let line = [value, b"\r\n"].concat();
                    for part in line.chunks(40) {
                        store.room_of(&mut arriving)[..part.len()].copy_from_slice(part);
                        point();
                        arriving.receive(part.len());
                    }
                    let sent = handle_guard.key(Namespace::DEFAULT, b"sent");
                    handle_guard.receiver().commit(arriving, &sent, &Put::set(&[])).expect("stored");
                    drop(handle_guard);
                    let mut gone = rig.until_done(|guard| {
                        let key = guard.key(Namespace::DEFAULT, b"other");
                        guard.receiver().begin(&key, &Put::set(&[]), len, 2)
                    });
                    store.room_of(&mut gone)[..len + 2].copy_from_slice(&line);
                    gone.receive(len + 2);
                    rig.put(b"behind", b"v");
                    rig.handle.guard(NOW).receiver().abort(gone);
                },
            );
        }
    });
}

#[test]
fn opening_that_was_cut_is_done_again() {
    in_both_modes(|| {
        let keys = keys(470);
        let mut rig = Rig::new();
        (0..450).for_each(|number| rig.put(&key(number), b"v"));
        let before = rig.contents(&keys);
        let store = Arc::clone(&rig.store);
        begin_images(&rig.file, 40);
        (450..470).for_each(|number| rig.put(&key(number), b"v"));
        store.index.begin_growth(2);
        let mut scratch = crate::index::growth::SplitScratch::new();
        while store.index.split_next(&mut scratch, &*store) == Some(false) {}
        let cut = end_images();
        let after = rig.contents(&keys);
        let mut opened = 0;
        for image in cut.iter().step_by(cut.len() / 12 + 1) {
            begin_images(image, 25);
            drop(Rig::open(Arc::clone(image), NOW));
            for again in end_images() {
                check_any(again, &keys, &before, &after);
                opened += 1;
            }
        }
        assert!(opened > 40, "{opened} images of openings");
    });
}

/// Checks an image as [`check`] does, but also accepts a file that was closed cleanly.
fn check_any(image: Arc<MapFile>, keys: &[Vec<u8>], before: &Contents, after: &Contents) {
    let mut rig = Rig::open(image, NOW);
    let found = rig.contents(keys);
    for key in keys {
        let there = found.get(key);
        assert!(there == before.get(key) || there == after.get(key), "{:?}", String::from_utf8_lossy(key));
    }
    rig.empty_out(keys);
}

#[test]
fn item_expires_on_time_after_reopen_and_backward_clock_is_reported() {
    in_both_modes(|| {
        let mut rig = Rig::new();
        rig.put_until(b"short", b"v", Expire::At(NOW.plus_ms(5_000)));
        rig.put_until(b"long", b"v", Expire::At(NOW.plus_ms(500_000)));
        rig.now = NOW.plus_ms(2_000);
        rig.settle();
        let open = |now| Rig::open(Arc::new(rig.file.image().expect("an image")), now);
        let mut later = open(NOW.plus_ms(6_000));
        assert_eq!((later.read(b"short"), later.reopened().clock_behind_ms), (None, 0));
        assert!(later.read(b"long").is_some());
        assert_eq!(open(NOW.plus_ms(500_001)).read(b"long"), None);
        let earlier = open(NOW);
        assert_eq!(earlier.reopened().clock_behind_ms, 2_000);
    });
}

/// The wall clock at a start may be that of a machine without a battery, or years ahead.
#[test]
fn no_wall_clock_at_a_start_revives_expired_items_or_lengthens_times_to_live() {
    const YEAR_MS: u64 = 365 * 86_400_000;
    let open = |rig: &Rig, now| Rig::open(Arc::new(rig.file.image().expect("an image")), now);
    in_both_modes(|| {
        let mut rig = Rig::new();
        rig.put_until(b"expired", b"v", Expire::At(NOW.plus_ms(1_000)));
        rig.put_until(b"minute", b"v", Expire::At(NOW.plus_ms(60_000)));
        rig.now = NOW.plus_ms(2_000);
        rig.settle();
        for years in [0, 1, 9, 11, 20, 40] {
            let mut earlier = open(&rig, UnixMillis(NOW.0 - years * YEAR_MS));
            let resumed = earlier.reopened();
            assert_eq!((resumed.at, resumed.clock_behind_ms), (rig.now, years * YEAR_MS + 2_000), "{years} years");
            earlier.now = resumed.at;
            assert_eq!(earlier.read(b"expired"), None, "{years} years behind");
            assert!(earlier.read(b"minute").is_some(), "{years} years behind");
            // This process ends before the wall clock is corrected.
            earlier.store.persist_wall_lead(-((years * YEAR_MS) as i64) - 2_000);
            if years > 10 {
                assert_eq!(open(&earlier, NOW.plus_ms(3_000)).reopened().at, NOW.plus_ms(3_000));
            }
            earlier.now = earlier.now.plus_ms(58_000);
            assert_eq!(earlier.read(b"minute"), None, "{years} years behind");
        }
        // The wall clock at the first start, the same at the next, and a right one at last.
        for years in [1, 9, 11, 20, 40] {
            let mut rig = open(&rig, NOW.plus_ms(years * YEAR_MS));
            rig.now = rig.reopened().at;
            rig.put_until(b"new", b"v", Expire::At(rig.now.plus_ms(60_000)));
            rig.settle();
            let mut right = open(&rig, NOW.plus_ms(10_000));
            assert!(right.reopened().at >= rig.now, "{years} years ahead");
            right.now = right.reopened().at.plus_ms(60_000);
            assert_eq!(right.read(b"new"), None, "{years} years ahead");
        }
    });
}

/// A file of a machine that started in 1970 and was then set right has a store's clock far behind the wall clock.
#[test]
fn file_that_was_created_with_a_wrong_clock_keeps_its_times_to_live_at_the_next_start() {
    in_both_modes(|| {
        let mut rig = Rig::new();
        rig.put_until(b"minute", b"v", Expire::At(NOW.plus_ms(60_000)));
        rig.now = NOW.plus_ms(2_000);
        rig.settle();
        for years in [1, 9, 11, 56, 500] {
            let ahead_ms = years * 365 * 86_400_000;
            rig.store.persist_wall_lead(ahead_ms as i64);
            let image = Arc::new(rig.file.image().expect("an image"));
            let mut next = Rig::open(image, rig.now.plus_ms(ahead_ms + 5_000));
            assert_eq!((next.reopened().at, next.reopened().clock_behind_ms), (rig.now.plus_ms(5_000), 0));
            next.now = next.reopened().at;
            assert!(next.read(b"minute").is_some(), "{years} years");
        }
    });
}

#[test]
fn file_with_other_sizes_or_damaged_header_is_refused_unmodified() {
    let mut rig = Rig::new();
    fill(&mut rig, 10);
    let image = |rig: &Rig| Arc::new(rig.file.image().expect("an image"));
    let open = |file: &Arc<MapFile>, config: StoreConfig| {
        let file = StoreFile { file: Arc::clone(file), reset: false, index: place(), index_left: None, power: power() };
        Store::in_file(&config, &file, NOW).map(|_| ()).map_err(|error| error.to_string())
    };
    let file = image(&rig);
    let report = open(&file, StoreConfig { memory_bytes: 128 << 10, ..config() }).expect_err("another memory");
    assert!(report.contains("98304B, not 131072B"), "{report}");
    let report = open(&file, StoreConfig { segment_bytes: Some(2048), ..config() }).expect_err("other segments");
    assert!(report.contains("1024 bytes, not 2048"), "{report}");
    open(&file, StoreConfig { segment_bytes: None, hash_seed: 77, ..config() }).expect("sizes and seed are the file's");
    let damaged = image(&rig);
    rig.store.persistent.growth.store(7, std::sync::atomic::Ordering::Relaxed);
    let report = open(&image(&rig), config()).expect_err("a growth of no groups");
    assert!(report.contains("damaged") && report.contains("--file-reset"), "{report}");
    open(&damaged, config()).expect("it was whole before");
}

#[test]
fn token_of_unchanged_item_survives_kill() {
    in_both_modes(|| {
        let mut rig = Rig::new();
        rig.until_done(|guard| {
            let named = guard.key(Namespace::DEFAULT, b"number");
            guard.numbers().add(&named, 7)
        });
        rig.put(b"token", b"value");
        let own = Put { token: Some(4711), ..Put::set(b"value") };
        rig.until_done(|guard| {
            let named = guard.key(Namespace::DEFAULT, b"own");
            guard.items_mut().put(&named, &own)
        });
        let tokens = |rig: &mut Rig| {
            [&b"number"[..], b"token", b"own"].map(|name| {
                rig.until_done(|guard| {
                    Ok({
                        let named = guard.key(Namespace::DEFAULT, name);
                        guard.versions().gets(&named)?.map(|item| item.token)
                    })
                })
            })
        };
        let before = tokens(&mut rig);
        assert!(before.iter().all(Option::is_some));
        let mut held = 0;
        for image in images_of(&mut rig, 1, |rig| rig.put(b"another", b"value")) {
            let mut rig = Rig::open(image, NOW);
            held += rig.reopened().stripes_held;
            assert_eq!(tokens(&mut rig), before);
        }
        assert!(held > 0 || place() == IndexPlace::Dram, "an image was taken under the lock");
    });
}
