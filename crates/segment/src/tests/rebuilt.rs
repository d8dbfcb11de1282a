//! Tests of a store whose index is rebuilt while the store serves. A key whose item the rebuild has not found yet is a
//! miss. The store never returns an older version of an item.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arena::MapFile;
use base::prng::Prng;

use super::crashes::{NOW, Rig, fill, in_both_modes, key, keys, place, with_index_in_dram};
use super::parted;
use crate::core::op::{Arith, Delete, Expire, Put, PutMode};
use crate::heap::segments::SegmentId;
use crate::layout::header::SegmentState;
use crate::{IndexPlace, Namespace, RebuildStep};

/// The expected values by key, and the keys that the store has to find even during the rebuild.
#[derive(Default)]
struct Expected {
    values: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// The keys that were changed since the store was opened.
    known: BTreeSet<Vec<u8>>,
}

impl Expected {
    fn note(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.values.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        self.known.insert(key.to_vec());
    }

    /// Checks that the store returns the expected value of a key, or a miss that is allowed.
    fn check(&self, rig: &mut Rig, key: &[u8], seed: u64) {
        let is_known = self.known.contains(key) || !rig.store.is_rebuilding();
        let (there, expected) = (rig.read(key), self.values.get(key).cloned().flatten());
        let right = there == expected || (there.is_none() && !is_known);
        let short =
            |value: Option<Vec<u8>>| value.map(|it| String::from_utf8_lossy(&it[..it.len().min(30)]).into_owned());
        let [name, there, expected] = [Some(key.to_vec()), there, expected].map(short);
        assert!(right, "seed {seed}: {name:?} is {there:?}, not {expected:?}");
    }
}

/// Runs one random operation on a key, and records the expected result.
fn change(rig: &mut Rig, expected: &mut Expected, prng: &mut Prng) {
    let name = key(prng.below(60) as usize);
    let value = format!("value {} {}", prng.below(1000), "x".repeat(prng.below(40) as usize)).into_bytes();
    let is_there = rig.read(&name).is_some();
    match prng.below(8) {
        0..=2 => rig.put(&name, &value),
        3 => drop(rig.delete(&name)),
        4 => {
            let long = [&value[..], &[b'l'; 700]].concat();
            rig.put(&name, &long);
            return expected.note(&name, Some(&long));
        }
        5 => rig.put_until(&name, &value, Expire::At(NOW)),
        6 => {
            let put = Put { mode: PutMode::Add, ..Put::set(&value) };
            rig.until_done(|guard| {
                let key = guard.key(Namespace::DEFAULT, &name);
                guard.items_mut().put(&key, &put)
            });
            if is_there {
                return;
            }
        }
        _ => {
            rig.until_done(|guard| {
                let key = guard.key(Namespace::DEFAULT, &name);
                super::parted::replace(guard, &key, crate::Replacement::Remove)
            });
            return expected.note(&name, None);
        }
    }
    let kind_ends = rig.read(&name).is_none();
    expected.note(&name, (!kind_ends).then_some(&value[..]));
}

#[test]
fn replaced_or_removed_item_is_not_revived_during_rebuild() {
    with_index_in_dram(|| {
        let mut met_early = 0;
        for seed in 0..60 {
            let (mut prng, mut expected) = (Prng::new(seed), Expected::default());
            let mut rig = Rig::new();
            for _ in 0..80 {
                change(&mut rig, &mut expected, &mut prng);
            }
            for _ in 0..4 {
                let image = Arc::new(rig.file.image().expect("an image"));
                rig = Rig::open_early(image, NOW);
                expected.known.clear();
                for _ in 0..prng.below(40) {
                    let mut left = prng.below(4);
                    if prng.below(3) == 0 {
                        rig.background.slice(NOW, &mut || {
                            left = left.saturating_sub(1);
                            left == 0
                        });
                    }
                    met_early += usize::from(rig.store.is_rebuilding());
                    change(&mut rig, &mut expected, &mut prng);
                    let looked = key(prng.below(60) as usize);
                    expected.check(&mut rig, &looked, seed);
                }
            }
            while rig.store.is_rebuilding() {
                rig.background.slice(NOW, &mut || true);
            }
            rig.settle();
            (0..60).for_each(|number| expected.check(&mut rig, &key(number), seed));
            assert_eq!(rig.store.stats().items, rig.slots() as u64, "seed {seed}: items that are counted, and slots");
            rig.empty_out(&keys(60));
        }
        assert!(met_early > 500, "{met_early} changes while the index was made");
    });
}

/// Closes a store cleanly, and returns its file and its index.
fn left(rig: Rig) -> (Arc<MapFile>, Arc<MapFile>) {
    let Rig { store, background, handle, .. } = rig;
    assert!(store.leave_index().expect("memory").is_none(), "it works still");
    drop((background, handle));
    let file = store.leave().expect("it is in a file");
    (file, store.leave_index().expect("memory").expect("it is whole"))
}

fn open_with(file: &Arc<MapFile>, index: &Arc<MapFile>) -> Rig {
    let file = Arc::new(file.image().expect("an image"));
    Rig::open_with(file, Some(Arc::clone(index)), NOW)
}

/// Regression: after an upgrade, `incr` restarted a counter that the rebuilt index did not contain yet.
#[test]
fn handed_over_index_is_complete_and_rebuilt_after_crash() {
    with_index_in_dram(|| {
        for seed in 0..40 {
            let (mut prng, mut expected) = (Prng::new(seed), Expected::default());
            let mut rig = Rig::new();
            let all = |rig: &mut Rig, expected: &Expected| {
                (0..60).for_each(|number| expected.check(rig, &key(number), seed));
                assert_eq!(
                    rig.store.stats().items,
                    rig.slots() as u64,
                    "seed {seed}: items that are counted, and slots"
                );
            };
            for _ in 0..3 {
                for _ in 0..prng.below(120) {
                    change(&mut rig, &mut expected, &mut prng);
                }
                let (file, index) = left(rig);
                rig = open_with(&file, &index);
                assert!(rig.reopened().clean && !rig.store.is_rebuilding(), "seed {seed}");
                all(&mut rig, &expected);
                // An index from an earlier opening of the file is rejected, like the index of another file.
                let next = left(open_with(&file, &index));
                assert!(open_with(&next.0, &index).store.is_rebuilding(), "seed {seed}: an index of before");
                assert!(open_with(&file, &next.1).store.is_rebuilding(), "seed {seed}: an index of later");
            }
            for _ in 0..prng.below(60) {
                change(&mut rig, &mut expected, &mut prng);
            }
            // After a kill, the index is rebuilt from the items in the segments.
            let mut rig = Rig::open(Arc::new(rig.file.image().expect("an image")), NOW);
            rig.settle();
            all(&mut rig, &expected);
            rig.empty_out(&keys(60));
        }
    });
}

#[test]
fn index_handover_is_ignored_if_file_was_not_closed_cleanly() {
    with_index_in_dram(|| {
        let mut rig = Rig::new();
        fill(&mut rig, 60);
        let (file, index) = left(rig);
        // The new process opens the file and is killed. The previous process then continues.
        let mut next = open_with(&file, &index);
        next.put(&key(3), b"by the next one");
        let mut rig = open_with(&next.file, &index);
        assert!(rig.store.is_rebuilding());
        rig.settle();
        assert_eq!(rig.read(&key(3)).as_deref(), Some(&b"by the next one"[..]));
    });
}

#[test]
fn item_marked_stale_or_dropped_during_rebuild_is_not_served_as_fresh() {
    with_index_in_dram(|| {
        let mut rig = Rig::new();
        fill(&mut rig, 30);
        let mut rig = Rig::open_early(Arc::new(rig.file.image().expect("an image")), NOW);
        assert!(rig.read(&key(3)).is_none(), "it is found by nobody yet");
        for (number, delete) in [
            (3, Delete { mark_stale: true, ..Delete::default() }),
            (4, Delete { drop_value: true, ..Delete::default() }),
        ] {
            rig.until_done(|guard| {
                let bytes = key(number);
                let key = guard.key(Namespace::DEFAULT, &bytes);
                guard.items_mut().delete(&key, &delete)
            });
        }
        rig.settle();
        assert!(rig.read(&key(3)).is_none() && rig.read(&key(4)).is_none() && rig.read(&key(5)).is_some());
    });
}

#[test]
fn flush_during_rebuild_also_removes_undiscovered_items() {
    with_index_in_dram(|| {
        let mut rig = Rig::new();
        fill(&mut rig, 60);
        let mut rig = Rig::open_early(Arc::new(rig.file.image().expect("an image")), NOW);
        rig.store.flush(Namespace::DEFAULT);
        rig.put(b"behind", b"v");
        rig.settle();
        assert!((0..60).all(|number| rig.read(&key(number)).is_none()) && rig.read(b"behind").is_some());
        let mut again = Rig::open(Arc::new(rig.file.image().expect("an image")), NOW);
        assert!((0..60).all(|number| again.read(&key(number)).is_none()) && again.read(b"behind").is_some());
    });
}

#[test]
fn memory_shortage_during_rebuild_drops_oldest_unscanned_segments() {
    with_index_in_dram(|| {
        let mut rig = Rig::new();
        (0..3000).for_each(|number| rig.put(&key(number), &[b'v'; 20]));
        let mut rig = Rig::open_early(Arc::new(rig.file.image().expect("an image")), NOW);
        for number in 5000..6500 {
            rig.until_done_slowly(|guard| {
                let bytes = key(number);
                let key = guard.key(Namespace::DEFAULT, &bytes);
                guard.items_mut().put(&key, &Put::set(&[b'w'; 20])).map(drop)
            });
        }
        let progress = rig.store.rebuild_progress().expect("it has one");
        assert!(progress.segments_dropped > 3, "{progress:?}");
        rig.settle();
        assert!(!rig.store.is_rebuilding());
        assert_eq!(rig.read(&key(6499)).as_deref(), Some(&[b'w'; 20][..]));
        let known = |rig: &mut Rig, number| rig.read(&key(number)).is_none_or(|value| value == [b'v'; 20]);
        assert!((0..3000).all(|number| known(&mut rig, number)));
        assert_eq!(rig.store.stats().items, rig.slots() as u64);
    });
}

#[test]
fn long_or_multipart_value_misses_until_fully_rebuilt() {
    with_index_in_dram(|| {
        let mut rig = Rig::new();
        rig.put(b"long", &[b'l'; 3000]);
        rig.until_done(|guard| parted::put(guard, &guard.key(Namespace::DEFAULT, b"parts"), 7, b'p'));
        fill(&mut rig, 60);
        let (long, parts) = (rig.read(b"long"), rig.read(b"parts"));
        assert!(long.is_some() && parts.is_some());
        let mut rig = Rig::open_early(Arc::new(rig.file.image().expect("an image")), NOW);
        let (mut missed, mut slices) = (0, 0);
        while rig.store.is_rebuilding() {
            for (name, whole) in [(&b"long"[..], &long), (b"parts", &parts)] {
                let there = rig.read(name);
                assert!(there.is_none() || there == *whole);
                missed += usize::from(there.is_none());
            }
            rig.background.slice(NOW, &mut || true);
            slices += 1;
        }
        assert!(missed > 10 && slices > 5, "{missed} misses in {slices} slices");
        assert_eq!((rig.read(b"long"), rig.read(b"parts")), (long, parts));
        assert_eq!(rig.store.stats().large_broken, 0);
    });
}

#[test]
fn parallel_rebuild_finds_same_items_as_single_thread() {
    with_index_in_dram(|| {
        let mut rig = Rig::new();
        (0..700).for_each(|number| rig.put(&key(number), format!("value {number}").as_bytes()));
        let before = rig.contents(&keys(700));
        assert!(before.len() == 700, "{} items", before.len());
        let mut rig = Rig::open_early(Arc::new(rig.file.image().expect("an image")), NOW);
        let found = |step: RebuildStep| step == RebuildStep::Whole;
        // If a rebuilder is dropped within a segment, the other rebuilders take the segment.
        let mut gone = rig.store.rebuilder().expect("there is something to do");
        gone.step(NOW, &mut || true);
        drop(gone);
        let helpers: Vec<_> = (0..3).map(|_| rig.store.rebuilder().expect("another one")).collect();
        std::thread::scope(|scope| {
            for mut rebuilder in helpers {
                scope.spawn(move || while !found(rebuilder.step(NOW, &mut || true)) {});
            }
            for number in 0..100 {
                rig.delete(&key(number));
            }
            // The index may have to grow for the items that are found.
            while rig.store.is_rebuilding() {
                rig.background.slice(NOW, &mut || true);
            }
        });
        assert!(rig.store.rebuilder().is_none());
        rig.settle();
        for number in 0..700 {
            let expected = before.get(&key(number)).filter(|_| number >= 100).cloned();
            assert_eq!(rig.read(&key(number)), expected, "{number}");
        }
        assert_eq!(rig.store.stats().items, rig.slots() as u64);
    });
}

#[test]
fn number_changed_in_place_has_new_token_after_crash() {
    in_both_modes(|| {
        let arith = Arith {
            delta: 5,
            decrement: false,
            vivify: Some((1, Expire::Never)),
            expire: None,
            compare: None,
            token: None,
            want_token: true,
        };
        let mut rig = Rig::new();
        let add = |rig: &mut Rig| {
            rig.until_done(|guard| {
                let key = guard.key(Namespace::DEFAULT, b"number");
                guard.numbers().arith(&key, &arith).map(drop)
            });
        };
        let gets = |rig: &mut Rig| {
            rig.until_done(|guard| {
                let key = guard.key(Namespace::DEFAULT, b"number");
                Ok(guard.versions().gets(&key)?.map(|item| (format!("{:?}", item.value), item.token)))
            })
        };
        (0..3).for_each(|_| add(&mut rig));
        let before = gets(&mut rig).expect("it is there");
        let images: Vec<Arc<MapFile>> = super::crashes::images_of(&mut rig, 1, add);
        let mut changed = 0;
        for image in images {
            let (value, token) = gets(&mut Rig::open(image, NOW)).expect("it is there");
            assert!(value == before.0 || token != before.1, "the old token goes with another value");
            changed += usize::from(value != before.0);
        }
        assert!(changed > 0, "no image has the new value");
    });
}

#[test]
fn file_is_refused_if_opened_with_other_index_location() {
    for (made, asked) in [(IndexPlace::File, IndexPlace::Dram), (IndexPlace::Dram, IndexPlace::File)] {
        let report = super::crashes::at(made, || {
            assert_eq!(place(), made);
            let rig = Rig::new();
            super::crashes::at(asked, || Rig::refusal(&Arc::new(rig.file.image().expect("an image"))))
        });
        let flag = if made == IndexPlace::File { "--file-index file" } else { "--file-index dram" };
        assert!(report.contains(flag), "{report}");
    }
}

#[test]
fn half_dead_store_loses_no_item_to_writes_during_rebuild() {
    with_index_in_dram(|| {
        const UNTOUCHED: usize = 250;
        let value = |number: usize| vec![b'u' + (number % 3) as u8; 40];
        let hot = |number: usize| format!("hot-{:03}", number % 40).into_bytes();
        let mut rig = Rig::new();
        // Some untouched items are in segments with items that are replaced later, and some are not.
        for number in 0..UNTOUCHED {
            rig.put(&key(number), &value(number));
            (0..4 * usize::from(number < 80)).for_each(|n| rig.put(&hot(4 * number + n), &[b'h'; 40]));
        }
        let mut number = 0;
        while rig.store.segments.free_count() > rig.store.free_low() + 2 {
            rig.put(&hot(number), &[b'h'; 40]);
            number += 1;
        }
        let mut rig = Rig::open_early(Arc::new(rig.file.image().expect("an image")), NOW);
        let (mut early, mut stored) = (0, 0);
        while rig.store.is_rebuilding() || stored < 300 {
            rig.until_done_slowly(|guard| {
                let bytes = hot(stored);
                let key = guard.key(Namespace::DEFAULT, &bytes);
                guard.items_mut().put(&key, &Put::set(&[b'n'; 40])).map(drop)
            });
            early += usize::from(rig.store.is_rebuilding());
            stored += 1;
            if stored % 4 == 0 {
                rig.background.slice(NOW, &mut || true);
            }
        }
        assert!(early > 20, "{early} items were stored while the index was made");
        rig.settle();
        let progress = rig.store.rebuild_progress().expect("it was rebuilt");
        let missing: Vec<usize> =
            (0..UNTOUCHED).filter(|number| rig.read(&key(*number)) != Some(value(*number))).collect();
        assert!(missing.is_empty(), "{} are gone, {} segments were given up", missing.len(), progress.segments_dropped);
        (0..40).for_each(|number| assert_eq!(rig.read(&hot(number)), Some(vec![b'n'; 40]), "{number}"));
    });
}

/// A time to live so long that the segment never expires as a whole.
const FAR_MS: u64 = 400 * 86_400_000;

/// Returns a store in which the rebuild has not found the old version of a key yet, but a later version with an expiry
/// was stored. Also returns the sealed segment of the later version.
fn with_two_versions() -> (Rig, SegmentId) {
    let mut rig = Rig::new();
    rig.put(b"twice", b"old");
    (0..400).for_each(|number| rig.put(&key(number), &[b'v'; 60]));
    let mut rig = Rig::open_early(Arc::new(rig.file.image().expect("an image")), NOW);
    rig.put_until(b"twice", b"new", Expire::At(NOW.plus_ms(FAR_MS)));
    (500..510).for_each(|number| rig.put(&key(number), &[b'w'; 60]));
    rig.handle.own_seal(&rig.store);
    let store = &rig.store;
    let seen =
        crate::core::lookup::find(store, &store.hasher.key(Namespace::DEFAULT, b"twice")).expect("it was stored");
    let id = store.segments.of(seen.address);
    assert!(store.is_rebuilding() && store.segments.header(id).state() == SegmentState::Sealed);
    (rig, id)
}

#[test]
fn expired_item_hides_older_version_if_drained_during_rebuild() {
    with_index_in_dram(|| {
        let (mut rig, id) = with_two_versions();
        rig.now = NOW.plus_ms(FAR_MS + 1000);
        rig.background.drain_whole(id, true, rig.now);
        assert!(rig.store.is_rebuilding());
        rig.settle();
        assert_eq!((rig.read(&key(0)).is_some(), rig.read(b"twice")), (true, None), "an older version came back");
    });
}

/// All memory is in use while a segment is drained. The drain drops no item whose older versions the rebuild may still
/// find, and the rebuild completes nevertheless.
#[test]
fn compaction_without_room_during_rebuild_hides_older_versions() {
    with_index_in_dram(|| {
        let (mut rig, id) = with_two_versions();
        let held: Vec<SegmentId> = std::iter::from_fn(|| rig.store.segments.take_free(0)).collect();
        rig.background.begin_compaction(id);
        let mut full = 0;
        while rig.store.is_rebuilding() {
            rig.background.slice(NOW, &mut || true);
            full += u32::from(rig.background.lacks_room());
            let there = rig.read(b"twice");
            assert!(there.as_deref().is_none_or(|value| value == b"new"), "an older version came back");
        }
        held.into_iter().for_each(|id| rig.store.segments.push_free(id));
        assert!(full > 0, "there was room all the time");
        rig.settle();
        assert!(rig.read(b"twice").is_none_or(|value| value == b"new"), "an older version came back");
        assert_eq!(rig.store.stats().items, rig.slots() as u64);
    });
}
