//! Tests of the background's scrub of a memory file, which removes damaged items, and pieces and parts without a head.

use std::sync::Arc;

use arena::{Map, MapFile};

use super::crashes::{NOW, Rig, fill, heap_of, in_both_modes, key, keys, place};
use super::parted;
use crate::layout::raw::{Array, Word64};
use crate::{Expire, Guard, IndexPlace, Key, KeyLocks, Namespace, OpError, Put};

fn name<'k>(guard: &Guard<'_>, bytes: &'k [u8]) -> Key<'k> {
    guard.key(Namespace::DEFAULT, bytes)
}

fn image(rig: &Rig) -> Arc<MapFile> {
    Arc::new(rig.file.image().expect("an image"))
}

/// Flips a bit in the middle of each occurrence of these bytes in the heap. Returns the number of occurrences.
fn damage(file: &Arc<MapFile>, needle: &[u8]) -> usize {
    let heap = heap_of(file);
    let map = Map::of_file(file, heap.start, (heap.end - heap.start) as usize, false).expect("the heap");
    let words = Array::<Word64>::of_map(map, (heap.end - heap.start) as usize / 8);
    let load = |at: usize| words.at(at).load(std::sync::atomic::Ordering::Relaxed);
    let bytes: Vec<u8> = (0..words.len()).flat_map(|at| load(at).to_le_bytes()).collect();
    let found: Vec<usize> = (0..bytes.len() - needle.len()).filter(|at| bytes[*at..].starts_with(needle)).collect();
    for at in &found {
        let middle = at + needle.len() / 2;
        words.at(middle / 8).store(load(middle / 8) ^ 1 << (middle % 8 * 8), std::sync::atomic::Ordering::Relaxed);
    }
    found.len()
}

/// Overwrites bytes of the heap, from an offset in it on, as a lost page would. Offset and length are multiples of 8.
fn overwrite(file: &Arc<MapFile>, at: usize, words_of: &[u64]) {
    let heap = heap_of(file);
    let map = Map::of_file(file, heap.start, (heap.end - heap.start) as usize, false).expect("the heap");
    let words = Array::<Word64>::of_map(map, (heap.end - heap.start) as usize / 8);
    let store = |(n, word): (usize, &u64)| words.at(at / 8 + n).store(*word, std::sync::atomic::Ordering::Relaxed);
    words_of.iter().enumerate().for_each(store);
}

/// Returns a value of 40 bytes that no other key has.
fn own_value(number: usize) -> Vec<u8> {
    format!("<{number:06}>").repeat(5).into_bytes()
}

/// Returns the bytes of the heap that the item of a key with [`own_value`] takes.
fn bytes_of_item(heap: &[u8], number: usize) -> std::ops::Range<usize> {
    let value = own_value(number);
    let at = heap.windows(value.len()).position(|bytes| bytes == value).expect("the value is in the heap");
    at - 4 - key(number).len()..(at + value.len()).next_multiple_of(4) + 4
}

/// Returns the bytes of the heap.
fn heap_bytes(file: &Arc<MapFile>) -> Vec<u8> {
    let heap = heap_of(file);
    let map = Map::of_file(file, heap.start, (heap.end - heap.start) as usize, false).expect("the heap");
    let words = Array::<Word64>::of_map(map, (heap.end - heap.start) as usize / 8);
    let load = |at: usize| words.at(at).load(std::sync::atomic::Ordering::Relaxed).to_le_bytes();
    (0..words.len()).flat_map(load).collect()
}

#[test]
fn lost_bytes_in_an_open_segment_cost_only_the_items_in_them() {
    let text = u64::from_le_bytes(*b"xvxvxvxv");
    let gaps = std::cell::Cell::new(0);
    for (lost_from, lost_words, word) in [
        (64, 2, 0),
        (200, 16, 0),
        (200, 70, 0),
        (0, 16, 0),
        (0, 120, 0),
        (200, 16, text),
        (200, 16, u64::MAX),
        (0, 1, 512),
    ] {
        in_both_modes(|| {
            let mut rig = Rig::new();
            (0..15).for_each(|number| rig.put(&key(number), &own_value(number)));
            assert!(rig.delete(&key(14)), "the last item is dead");
            let file = image(&rig);
            let before = heap_bytes(&file);
            let first = bytes_of_item(&before, 0).start / 1024 * 1024;
            let lost = first + lost_from..first + lost_from + 8 * lost_words;
            overwrite(&file, lost.start, &vec![word; lost_words]);
            let mut rig = Rig::open(Arc::clone(&file), NOW);
            let is_lost = |number: &usize| {
                let item = bytes_of_item(&before, *number);
                item.start < lost.end && lost.start < item.end
            };
            let lost_keys: Vec<usize> = (0..14).filter(is_lost).collect();
            let case = format!("{lost_words} words of {word:x} from {lost_from}, index in {:?}", place());
            let left = 14 - lost_keys.len();
            rig.settle();
            for number in 0..14 {
                let expected = (!lost_keys.contains(&number)).then(|| own_value(number));
                assert_eq!(rig.read(&key(number)), expected, "key {number}, {case}");
            }
            assert_eq!((rig.store.stats().items, rig.slots()), (left as u64, left), "{case}");
            if place() == IndexPlace::File {
                let scrubbed = rig.background.take_lost().map_or(0, |lost| lost.items);
                let reopened = rig.reopened();
                assert_eq!(reopened.items_damaged + scrubbed, lost_keys.len() as u64, "{case}");
                assert_eq!(reopened.segments_open, 1, "{case}");
                gaps.set(gaps.get() + reopened.gaps);
            }
            rig.empty_out(&keys(15));
        });
    }
    assert!(gaps.get() >= 4, "{} damaged parts were found at the start", gaps.get());
}

#[test]
fn lost_bytes_cost_only_the_items_in_them_and_count_right() {
    let text = u64::from_le_bytes(*b"xvxvxvxv");
    // Zeros read as items of 8 bytes, text as long items, and a dead item may end in the middle of another one.
    for (lost_from, lost_words, word) in [
        (64, 2, 0),
        (200, 16, 0),
        (200, 90, 0),
        (1800, 60, 0),
        (0, 16, 0),
        (200, 16, text),
        (200, 16, u64::MAX),
        (3, 1, 512),
    ] {
        in_both_modes(|| {
            let mut rig = Rig::new();
            (0..120).for_each(|number| rig.put(&key(number), &own_value(number)));
            rig.handle.own_seal(&rig.store);
            let file = image(&rig);
            let before = heap_bytes(&file);
            let first = bytes_of_item(&before, 0).start / 1024 * 1024;
            let lost = (first + lost_from) / 8 * 8..(first + lost_from) / 8 * 8 + 8 * lost_words;
            overwrite(&file, lost.start, &vec![word; lost_words]);
            let check = crate::file_check(&file, 0).expect("a file");
            assert!((1..=3).contains(&check.damaged), "{} are damaged: {:?}", check.damaged, check.faults);
            let is_lost = |number: &usize| {
                let item = bytes_of_item(&before, *number);
                item.start < lost.end && lost.start < item.end
            };
            let mut rig = Rig::open(file, NOW);
            rig.settle();
            let case = format!("{lost_words} words of {word:x} from {lost_from}, index in {:?}", place());
            let lost_keys: Vec<usize> = (0..120).filter(is_lost).collect();
            assert!(!lost_keys.is_empty(), "{case}");
            for number in 0..120 {
                let expected = (!lost_keys.contains(&number)).then(|| own_value(number));
                assert_eq!(rig.read(&key(number)), expected, "key {number}, {case}");
            }
            let left = 120 - lost_keys.len();
            assert_eq!((rig.store.stats().items, rig.slots()), (left as u64, left), "{case}");
            if place() == IndexPlace::File {
                let reported = rig.background.take_lost().expect("a report");
                assert_eq!(reported.items, lost_keys.len() as u64, "{case}");
                assert_eq!(rig.store.stats().damaged, lost_keys.len() as u64, "{case}");
            }
            // No later pass loses more, and the segments can be drained.
            rig.now = NOW.plus_ms(25 * 3600 * 1000);
            rig.settle();
            assert_eq!(rig.store.stats().items, left as u64, "{case}");
            rig.empty_out(&keys(120));
        });
    }
}

#[test]
fn drain_of_a_damaged_segment_counts_its_lost_items_once() {
    in_both_modes(|| {
        let mut rig = Rig::new();
        (0..120).for_each(|number| rig.put(&key(number), &own_value(number)));
        rig.handle.own_seal(&rig.store);
        let file = image(&rig);
        overwrite(&file, 200, &[0; 60]);
        let mut rig = Rig::open(file, NOW);
        // The flush is drained before the scrub begins.
        rig.store.flush(Namespace::DEFAULT);
        rig.put(b"after", b"value");
        rig.settle();
        assert_eq!((rig.store.stats().items, rig.slots()), (1, 1), "the index is in {:?}", place());
    });
}

/// Returns the bytes that a file in memory takes.
fn space_of(file: &Arc<MapFile>) -> u64 {
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::File::from(file.as_fd().try_clone_to_owned().expect("a descriptor"));
    file.metadata().expect("its metadata").blocks() * 512
}

#[test]
fn opening_of_a_file_takes_no_space_that_its_creation_did_not_reserve() {
    in_both_modes(|| {
        let mut rig = Rig::new();
        fill(&mut rig, 30);
        let (file, created) = (Arc::clone(&rig.file), space_of(&rig.file));
        drop(rig);
        let mut rig = Rig::open(Arc::clone(&file), NOW);
        assert!((0..30).all(|number| rig.read(&key(number)).is_some()));
        assert_eq!(space_of(&file), created, "a full file system would end the server");
    });
}

/// In files of earlier builds a part of the undo log is a hole.
#[test]
fn check_of_a_file_takes_no_space_even_if_its_undo_log_has_none() {
    use std::os::fd::AsFd;
    in_both_modes(|| {
        let mut rig = Rig::new();
        fill(&mut rig, 30);
        let file = image(&rig);
        let parts = crate::durable::file::parts(&super::crashes::config(), None);
        for (_, range) in parts.iter().filter(|(part, _)| *part == "undo log") {
            file.punch(range.start, range.end - range.start).expect("a hole");
        }
        let before = space_of(&file);
        let again = file.as_fd().try_clone_to_owned().expect("a descriptor");
        let view = Arc::new(MapFile::adopt(again, file.path()).expect("a file").into_view());
        assert_eq!(crate::file_stats(&view, 0).expect("a file").items, 30);
        let check = crate::file_check(&view, 0).expect("a file");
        assert_eq!((check.items >= 30, check.faults.len()), (true, 0), "{:?}", check.faults);
        assert_eq!(space_of(&file), before, "a full file system would end the command");
    });
}

#[test]
fn damaged_item_is_found_counted_and_removed_alone() {
    in_both_modes(|| {
        let mut rig = Rig::new();
        fill(&mut rig, 40);
        rig.put(b"long", &[b'l'; 900]);
        rig.put(b"plain", b"to be damaged 1");
        rig.until_done(|guard| {
            let key = name(guard, b"number");
            guard.numbers().add(&key, 7)
        });
        rig.put_until(b"ends", b"to be damaged 2", Expire::At(NOW.plus_ms(60_000)));
        rig.handle.own_seal(&rig.store);
        let file = image(&rig);
        assert_eq!(crate::file_check(&file, 0).expect("a file").damaged, 0);
        assert_eq!(damage(&file, b"to be damaged"), 2);
        let check = crate::file_check(&file, 0).expect("a file");
        assert!(check.damaged == 2 && check.faults.len() == 2, "{:?}", check.faults);
        let mut rig = Rig::open(file, NOW);
        rig.settle();
        assert_eq!(rig.store.stats().damaged, 2);
        assert!(rig.read(b"plain").is_none() && rig.read(b"ends").is_none());
        assert!((0..40).all(|number| rig.read(&key(number)).is_some()) && rig.read(b"long").is_some());
        assert_eq!(rig.store.stats().items, rig.slots() as u64);
        let names = [b"plain".to_vec(), b"ends".to_vec(), b"long".to_vec(), b"number".to_vec()];
        rig.empty_out(&[keys(40), names.to_vec()].concat());
    });
}

#[test]
fn in_place_change_preserves_item_checksum() {
    in_both_modes(|| {
        let mut rig = Rig::new();
        rig.until_done(|guard| {
            let key = name(guard, b"number");
            guard.numbers().add(&key, 7)
        });
        rig.put_until(b"ends", b"value", Expire::At(NOW.plus_ms(60_000)));
        rig.put(b"token", b"value");
        rig.until_done(|guard| {
            let key = name(guard, b"number");
            guard.numbers().add(&key, 30)
        });
        rig.until_done(|guard| {
            let key = name(guard, b"ends");
            guard.items_mut().touch(&key, Expire::At(NOW.plus_ms(50_000))).map(drop)
        });
        rig.until_done(|guard| {
            let key = name(guard, b"token");
            guard.versions().gets(&key).map(drop)
        });
        let mut rig = Rig::open(image(&rig), NOW);
        rig.handle.own_seal(&rig.store);
        rig.settle();
        assert_eq!((rig.store.stats().damaged, rig.read(b"number")), (0, Some(b"37".to_vec())));
        assert!(rig.read(b"ends").is_some() && rig.read(b"token").is_some());
    });
}

/// Stores pieces of a value, but never the head.
fn begin_large(rig: &mut Rig) {
    let (store, piece) = (Arc::clone(&rig.store), rig.store.geometry.piece_bytes);
    let mut writer =
        rig.handle.guard(NOW).large().begin(&store.hasher.key(Namespace(0), b"begun"), 2000, Expire::Never);
    let writer = writer.as_mut().expect("it fits");
    (0..4).for_each(|_| rig.until_done(|guard| guard.large().write_piece(writer, &vec![b'b'; piece])));
}

fn act(rig: &mut Rig, key_locks: &mut KeyLocks, op: &mut dyn FnMut(&mut Guard<'_>) -> Result<(), OpError>) {
    rig.until_done(|guard| {
        guard.locks_mut().attach(key_locks);
        let done = op(guard);
        guard.locks_mut().detach(key_locks);
        done
    });
}

#[test]
fn pieces_of_unfinished_write_or_deferred_free_are_scrubbed_after_crash() {
    in_both_modes(|| {
        let mut rig = Rig::new();
        fill(&mut rig, 20);
        rig.put(b"long", &[b'l'; 900]);
        rig.until_done(|guard| parted::put(guard, &name(guard, b"parts"), 7, b'p'));
        rig.until_done(|guard| parted::put(guard, &name(guard, b"few"), 3, b'f'));
        rig.put(b"many", &[b'm'; 6000]);
        begin_large(&mut rig);
        // The pieces that are not removed at once wait in a deferred free.
        assert!(rig.delete(b"many"));
        // The changes of an open key lock set are undone, so the parts that it wrote belong to no key.
        let mut key_locks = rig.store.key_locks();
        key_locks.add(&name(&rig.handle.guard(NOW), b"few"));
        rig.until_done(|guard| guard.locks_mut().acquire(&mut key_locks));
        act(&mut rig, &mut key_locks, &mut |guard| parted::change_first(guard, &name(guard, b"few"), b'x'));
        let file = image(&rig);
        rig.store.release(&mut key_locks);
        let mut rig = Rig::open(file, NOW);
        let report = [b"long".to_vec(), b"parts".to_vec(), b"few".to_vec()].map(|name| rig.read(&name));
        assert!(report.iter().all(Option::is_some));
        rig.settle();
        let stats = rig.store.stats();
        assert!(stats.orphans > 4 + 20, "{} pieces and parts were nobody's", stats.orphans);
        assert_eq!([b"long".to_vec(), b"parts".to_vec(), b"few".to_vec()].map(|name| rig.read(&name)), report);
        for name in [&b"long"[..], b"parts", b"few"] {
            assert!(rig.delete(name));
        }
        rig.settle();
        assert_eq!((rig.store.stats().items, rig.slots()), (20, 20), "nothing is left of what is gone");
    });
}

#[test]
fn value_renamed_during_scrub_retains_pieces_and_parts() {
    in_both_modes(|| {
        for renamed_at in 0..40 {
            let mut rig = Rig::new();
            fill(&mut rig, 60);
            rig.put(b"long", &[b'l'; 900]);
            rig.until_done(|guard| parted::put(guard, &name(guard, b"parts"), 7, b'p'));
            begin_large(&mut rig);
            rig.handle.own_seal(&rig.store);
            let mut rig = Rig::open(image(&rig), NOW);
            let report = [b"long".to_vec(), b"parts".to_vec()].map(|name| rig.read(&name));
            for _ in 0..renamed_at {
                rig.background.slice(NOW, &mut || true);
            }
            for (from, to) in [(&b"long"[..], &b"long too"[..]), (b"parts", b"parts too")] {
                let mut key_locks = rig.store.key_locks();
                [from, to].iter().for_each(|bytes| key_locks.add(&name(&rig.handle.guard(NOW), bytes)));
                rig.until_done_slowly(|guard| guard.locks_mut().acquire(&mut key_locks));
                act(&mut rig, &mut key_locks, &mut |guard| {
                    let from = name(guard, from);
                    let to = name(guard, to);
                    guard.renames().share(&from, &to).map(drop)
                });
                act(&mut rig, &mut key_locks, &mut |guard| {
                    let from = name(guard, from);
                    let to = name(guard, to);
                    guard.renames().unshare(&from, &to).map(drop)
                });
                rig.store.release(&mut key_locks);
            }
            rig.settle();
            assert!(rig.store.stats().orphans >= 4, "what nothing names is found all the same");
            assert_eq!([b"long too".to_vec(), b"parts too".to_vec()].map(|name| rig.read(&name)), report);
        }
    });
}

#[test]
fn later_scrub_pass_finds_new_damage_and_clean_file_has_no_orphans() {
    in_both_modes(|| {
        let mut rig = Rig::new();
        fill(&mut rig, 30);
        let file = Arc::clone(&rig.file);
        drop(rig);
        let mut rig = Rig::open(file, NOW);
        assert!(rig.reopened().clean && rig.store.named.is_none());
        rig.settle();
        // A later pass finds damage that occurs later.
        assert_eq!(damage(&rig.file, b"value 7"), 1);
        rig.settle();
        assert_eq!(rig.store.stats().damaged, 0);
        rig.now = NOW.plus_ms(25 * 3600 * 1000);
        rig.settle();
        assert_eq!(rig.store.stats().damaged, 1, "the index is in {:?}", place());
        assert!(place() == IndexPlace::File || rig.store.rebuild_progress().is_some_and(|it| it.whole));
        rig.until_done(|guard| {
            let key = name(guard, b"after");
            guard.items_mut().put(&key, &Put::set(b"v"))
        });
    });
}
