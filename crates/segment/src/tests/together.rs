//! Tests of atomic changes of several keys, and of values in parts, that a crash interrupts before every store
//! instruction. Afterwards a change is present completely or not at all.

use std::sync::Arc;

use arena::MapFile;

use super::crashes::{Contents, NOW, Rig, fill, images_of, in_both_modes, key, keys};
use super::parted;
use crate::core::op::{Arith, Delete, Expire, OpError, Put};
use crate::heap::segments::SegmentId;
use crate::layout::header::SegmentState;
use crate::{Guard, Key, KeyLocks, Namespace};

type Op<'o> = dyn FnMut(&mut Guard<'_>) -> Result<(), OpError> + 'o;

fn name<'k>(guard: &Guard<'_>, bytes: &'k [u8]) -> Key<'k> {
    guard.key(Namespace::DEFAULT, bytes)
}

fn begin(rig: &mut Rig, keys: &[Vec<u8>]) -> KeyLocks {
    let mut key_locks = rig.store.key_locks();
    let guard = rig.handle.guard(NOW);
    keys.iter().for_each(|bytes| key_locks.add(&name(&guard, bytes)));
    drop(guard);
    rig.until_done(|guard| guard.locks_mut().acquire(&mut key_locks));
    key_locks
}

/// Runs one operation of an atomic change, in its own guard.
fn act(rig: &mut Rig, key_locks: &mut KeyLocks, op: &mut Op<'_>) {
    rig.until_done(|guard| {
        guard.locks_mut().attach(key_locks);
        let done = op(guard);
        guard.locks_mut().detach(key_locks);
        done
    });
}

/// Opens every image that is taken while `change` runs. Checks that each has the complete contents before or after the
/// change, and works. Returns the number of images in which a change was undone.
fn crash_whole(
    every: usize,
    keys: &[Vec<u8>],
    fill: impl FnOnce(&mut Rig),
    change: impl FnOnce(&mut Rig),
    check: impl Fn(&mut Rig, &Contents),
) -> usize {
    let mut rig = Rig::new();
    fill(&mut rig);
    let before = rig.contents(keys);
    let images = images_of(&mut rig, every, change);
    let after = rig.contents(keys);
    assert_ne!(before, after);
    let (mut undone, mut whole) = (0, [0, 0]);
    for image in images {
        let mut rig = Rig::open(image, NOW);
        undone += usize::from(rig.reopened().groups_undone > 0);
        let found = rig.contents(keys);
        assert!(found == before || found == after, "{}", read_tiered(&found, &before, &after));
        whole[usize::from(found == after)] += 1;
        // The file can be opened again, and nothing remains to be undone.
        let again = Arc::new(rig.file.image().expect("an image"));
        let mut again = Rig::open(again, NOW);
        assert_eq!((again.reopened().groups_undone, again.contents(keys)), (0, found.clone()));
        rig.settle();
        assert_eq!(rig.store.stats().items, rig.slots() as u64, "items that are counted, and slots");
        assert_eq!(rig.contents(keys), found);
        check(&mut rig, &found);
        rig.empty_out(keys);
    }
    assert!(whole.iter().all(|count| *count > 0), "before and after: {whole:?}");
    undone
}

fn read_tiered(found: &Contents, before: &Contents, after: &Contents) -> String {
    let short = |contents: &Contents| -> Vec<String> {
        let one = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            let value = &value[..value.len().min(12)];
            format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
        };
        contents.iter().map(one).collect()
    };
    format!("found {:?}, before {:?}, after {:?}", short(found), short(before), short(after))
}

fn rename(rig: &mut Rig, key_locks: &mut KeyLocks, from: &[u8], to: &[u8]) {
    act(rig, key_locks, &mut |guard| {
        let (from, to) = (name(guard, from), name(guard, to));
        guard.renames().share(&from, &to).map(|adopted| assert!(adopted))
    });
    act(rig, key_locks, &mut |guard| {
        let (from, to) = (name(guard, from), name(guard, to));
        guard.renames().unshare(&from, &to).map(|both| assert!(both))
    });
}

/// Removes each of two keys alone, and checks that the other key keeps its whole value.
fn ends_alone(rig: &mut Rig, found: &Contents) {
    let image = Arc::new(rig.file.image().expect("an image"));
    for (ended, other) in [(&b"from"[..], &b"to"[..]), (b"to", b"from")] {
        let copy: Arc<MapFile> = Arc::new(image.image().expect("an image"));
        let mut rig = Rig::open(copy, NOW);
        rig.delete(ended);
        rig.settle();
        assert_eq!(rig.read(other), found.get(other).cloned(), "it lost its pieces with the other key");
    }
}

#[test]
fn crash_during_rename_leaves_a_long_value_under_exactly_one_key() {
    in_both_modes(|| {
        let long: Vec<u8> = (0..1500).map(|at| (at % 251) as u8).collect();
        let names = [b"from".to_vec(), b"to".to_vec(), key(3)];
        let undone = crash_whole(
            2,
            &names,
            |rig| {
                fill(rig, 10);
                rig.put(b"from", &long);
                rig.put(b"to", &long[..900]);
            },
            |rig| {
                let mut key_locks = begin(rig, &names);
                rename(rig, &mut key_locks, b"from", b"to");
                rig.store.release(&mut key_locks);
            },
            ends_alone,
        );
        assert!(undone > 10, "{undone} images within the rename");
    });
}

#[test]
fn crash_during_rename_leaves_a_value_in_parts_under_exactly_one_key() {
    in_both_modes(|| {
        let names = [b"from".to_vec(), b"to".to_vec(), key(3)];
        for (from, to) in [(2, 7), (8, 3)] {
            let undone = crash_whole(
                2,
                &names,
                |rig| {
                    fill(rig, 10);
                    rig.until_done(|guard| parted::put(guard, &name(guard, b"from"), from, b'f'));
                    rig.until_done(|guard| parted::put(guard, &name(guard, b"to"), to, b't'));
                },
                |rig| {
                    let mut key_locks = begin(rig, &names);
                    rename(rig, &mut key_locks, b"from", b"to");
                    rig.store.release(&mut key_locks);
                    rig.settle();
                },
                ends_alone,
            );
            assert!(undone > 10, "{undone} images within the rename");
        }
    });
}

#[test]
fn a_change_of_a_value_in_parts_that_was_cut_is_done_or_not() {
    in_both_modes(|| {
        let names = [b"two".to_vec(), b"levels".to_vec(), b"gone".to_vec()];
        let fill = |rig: &mut Rig| {
            fill(rig, 5);
            rig.until_done(|guard| parted::put(guard, &name(guard, b"two"), 2, b'2'));
            rig.until_done(|guard| parted::put(guard, &name(guard, b"levels"), 7, b'l'));
            rig.until_done(|guard| parted::put(guard, &name(guard, b"gone"), 9, b'g'));
        };
        crash_whole(
            1,
            &names,
            fill,
            |rig| rig.until_done(|guard| parted::change_first(guard, &name(guard, b"two"), b'x')),
            |_, _| {},
        );
        crash_whole(
            2,
            &names,
            fill,
            |rig| rig.until_done(|guard| parted::put(guard, &name(guard, b"levels"), 8, b'y')),
            |_, _| {},
        );
        crash_whole(2, &names, fill, |rig| assert!(rig.delete(b"gone")), |_, _| {});
    });
}

/// Makes every kind of change, on keys with every kind of value.
fn many_changes(rig: &mut Rig, key_locks: &mut KeyLocks, between: &mut dyn FnMut(&mut Rig)) {
    let long = vec![b'n'; 700];
    let ops: &mut [(&str, &mut Op<'_>)] = &mut [
        ("put", &mut |guard| {
            let key = name(guard, b"key-0001");
            guard.items_mut().put(&key, &Put::set(b"another")).map(drop)
        }),
        ("new", &mut |guard| {
            let key = name(guard, b"new");
            guard.items_mut().put(&key, &Put::set(b"new")).map(drop)
        }),
        ("put again", &mut |guard| {
            let key = name(guard, b"key-0001");
            guard.items_mut().put(&key, &Put::set(b"a third")).map(drop)
        }),
        ("delete", &mut |guard| {
            let key = name(guard, b"key-0002");
            guard.items_mut().delete(&key, &Delete::default()).map(drop)
        }),
        ("new goes", &mut |guard| {
            let key = name(guard, b"new");
            guard.items_mut().delete(&key, &Delete::default()).map(drop)
        }),
        ("deleted comes", &mut |guard| {
            let key = name(guard, b"key-0002");
            guard.items_mut().put(&key, &Put::set(b"is back")).map(drop)
        }),
        ("add", &mut |guard| {
            let plain = Arith {
                delta: 5,
                decrement: false,
                vivify: None,
                expire: None,
                compare: None,
                token: None,
                want_token: false,
            };
            let key = name(guard, b"number");
            guard.numbers().arith(&key, &plain).map(drop)
        }),
        ("count", &mut |guard| {
            let key = name(guard, b"number");
            guard.numbers().add(&key, 30).map(drop)
        }),
        ("touch", &mut |guard| {
            let key = name(guard, b"ends");
            guard.items_mut().touch(&key, Expire::At(NOW)).map(drop)
        }),
        ("long", &mut |guard| {
            let key = name(guard, b"long");
            guard.items_mut().put(&key, &Put::set(&long)).map(drop)
        }),
        ("long goes", &mut |guard| {
            let key = name(guard, b"gone");
            guard.items_mut().delete(&key, &Delete::default()).map(drop)
        }),
        ("part", &mut |guard| parted::change_first(guard, &name(guard, b"parts"), b'x')),
        ("part again", &mut |guard| parted::change_first(guard, &name(guard, b"parts"), b'y')),
    ];
    for (_, op) in ops {
        act(rig, key_locks, op);
        between(rig);
    }
}

fn many_names() -> Vec<Vec<u8>> {
    let others = [&b"new"[..], b"number", b"ends", b"long", b"gone", b"parts"].map(<[u8]>::to_vec);
    keys(4).into_iter().chain(others).collect()
}

fn many_filled(rig: &mut Rig) {
    fill(rig, 30);
    rig.until_done(|guard| {
        let key = name(guard, b"number");
        guard.numbers().add(&key, 100)
    });
    rig.put_until(b"ends", b"later", Expire::At(NOW.plus_ms(60_000)));
    rig.put(b"long", &[b'l'; 900]);
    rig.put(b"gone", &[b'g'; 500]);
    rig.until_done(|guard| parted::put(guard, &name(guard, b"parts"), 3, b'p'));
}

#[test]
fn a_transaction_that_was_cut_is_done_or_not() {
    in_both_modes(|| {
        let names = many_names();
        let undone = crash_whole(
            2,
            &names,
            many_filled,
            |rig| {
                let mut key_locks = begin(rig, &names);
                many_changes(rig, &mut key_locks, &mut |_| {});
                rig.store.release(&mut key_locks);
            },
            |_, _| {},
        );
        assert!(undone > 100, "{undone} images within the transaction");
    });
}

/// The previous items are moved, their segments are drained, and other items are stored. The change is undone
/// nevertheless.
#[test]
fn a_transaction_that_was_cut_is_undone_though_its_items_were_moved_and_their_segments_emptied() {
    in_both_modes(|| {
        let names = many_names();
        let mut drained = 0;
        let undone = crash_whole(
            25,
            &names,
            |rig| {
                many_filled(rig);
                rig.handle.own_seal(&rig.store);
            },
            |rig| {
                let mut key_locks = begin(rig, &names);
                let mut changes = 0;
                many_changes(rig, &mut key_locks, &mut |rig| {
                    rig.settle();
                    changes += 1;
                    if changes % 4 != 0 {
                        return;
                    }
                    rig.handle.own_seal(&rig.store);
                    let sealed = |id: &u32| rig.store.segments.header(SegmentId(*id)).state() == SegmentState::Sealed;
                    let ids: Vec<u32> = (0..rig.store.segments.high_water() as u32).filter(sealed).take(5).collect();
                    for id in ids {
                        rig.background.drain_whole(SegmentId(id), true, NOW);
                        drained += 1;
                    }
                    rig.put(b"other", b"comes in between");
                });
                assert_eq!(rig.store.groups_cut(), 0);
                rig.store.release(&mut key_locks);
                rig.settle();
            },
            |_, _| {},
        );
        assert!(undone > 20 && drained > 10, "{undone} images within the transaction, {drained} segments emptied");
    });
}

/// Each key's item is in a different segment. The previous items are copied into one segment, so the pinned segments
/// stay within the limit.
#[test]
fn a_transaction_over_many_segments_that_was_cut_is_done_or_not() {
    in_both_modes(|| {
        let names = keys(30);
        let mut sealed = 0;
        let undone = crash_whole(
            60,
            &names,
            |rig| {
                for name in &names {
                    rig.put(name, b"before");
                    rig.handle.own_seal(&rig.store);
                    sealed += 1;
                }
            },
            |rig| {
                let mut key_locks = begin(rig, &names);
                for bytes in &names {
                    act(rig, &mut key_locks, &mut |guard| {
                        let key = name(guard, bytes);
                        guard.items_mut().put(&key, &Put::set(b"behind")).map(drop)
                    });
                }
                assert_eq!(rig.store.groups_cut(), 0);
                rig.store.release(&mut key_locks);
            },
            |_, _| {},
        );
        assert!(undone > 20 && sealed == 30, "{undone} images within the transaction");
    });
}

#[test]
fn transaction_over_the_pin_limit_completes_and_is_not_rolled_back() {
    in_both_modes(|| {
        let names = keys(400);
        let mut rig = Rig::new();
        fill(&mut rig, 400);
        let mut key_locks = begin(&mut rig, &names);
        for number in 0..400 {
            act(&mut rig, &mut key_locks, &mut |guard| {
                let bytes = key(number);
                let key = name(guard, &bytes);
                guard.items_mut().put(&key, &Put::set(b"another")).map(drop)
            });
        }
        rig.store.release(&mut key_locks);
        assert!(rig.store.groups_cut() > 0, "its keys lie in more segments than may be pinned");
        let mut again = Rig::open(Arc::new(rig.file.image().expect("an image")), NOW);
        assert_eq!(again.reopened().groups_undone, 0);
        assert!((0..400).all(|number| again.read(&key(number)).is_none_or(|value| value == b"another")));
        again.empty_out(&names);
        let pins = |id| rig.store.segments.header(SegmentId(id)).pins.load(std::sync::atomic::Ordering::Relaxed);
        assert!((0..rig.store.segments.high_water() as u32).all(|id| pins(id) == 0), "a segment is pinned for ever");
    });
}

#[test]
fn a_group_that_changes_a_value_many_times_retains_only_its_former_parts() {
    in_both_modes(|| {
        let mut rig = Rig::new();
        fill(&mut rig, 5);
        rig.until_done(|guard| parted::put(guard, &name(guard, b"parts"), 3, b'p'));
        let items = rig.store.stats().items;
        let mut key_locks = begin(&mut rig, &[b"parts".to_vec()]);
        for round in 0..200 {
            act(&mut rig, &mut key_locks, &mut |guard| parted::change_first(guard, &name(guard, b"parts"), b'a'));
            let retained = rig.store.stats().items - items;
            assert!(retained <= 2, "after {round} changes, {retained} former parts are retained");
        }
        rig.store.release(&mut key_locks);
        rig.settle();
        assert_eq!(rig.store.stats().items, items, "nothing is retained after the group");
    });
}

/// A group retains the parts that a key had when the key joined the group, although the group is older than they are.
/// The value moves to a key that joined earlier, and is changed there.
#[test]
fn crash_in_a_group_restores_the_parts_of_a_key_that_joined_late() {
    in_both_modes(|| {
        let names = [b"to".to_vec(), b"from".to_vec()];
        let mut rig = Rig::new();
        fill(&mut rig, 5);
        rig.until_done(|guard| parted::put(guard, &name(guard, b"to"), 2, b't'));
        rig.until_done(|guard| parted::put(guard, &name(guard, b"from"), 3, b'f'));
        let mut before = rig.contents(&names);
        let mut key_locks = begin(&mut rig, &names[..1]);
        act(&mut rig, &mut key_locks, &mut |guard| parted::change_first(guard, &name(guard, b"to"), b'x'));
        rig.until_done(|guard| parted::change_first(guard, &name(guard, b"from"), b'g'));
        before.extend(rig.contents(&names[1..]));
        rig.until_done(|guard| {
            let key = name(guard, b"from");
            guard.locks_mut().extend(&mut key_locks, &key)
        });
        let images = images_of(&mut rig, 1, |rig| {
            rename(rig, &mut key_locks, b"from", b"to");
            for fill in *b"yz" {
                act(rig, &mut key_locks, &mut |guard| parted::change_first(guard, &name(guard, b"to"), fill));
            }
            rig.store.release(&mut key_locks);
        });
        let after = rig.contents(&names);
        let mut whole = [0, 0];
        for image in images {
            let mut rig = Rig::open(image, NOW);
            let found = rig.contents(&names);
            assert!(found == before || found == after, "{}", read_tiered(&found, &before, &after));
            whole[usize::from(found == after)] += 1;
            rig.empty_out(&names);
        }
        assert!(whole.iter().all(|count| *count > 0), "before and after: {whole:?}");
    });
}
